/* map.h: a hash map from 64-bit hashes to 32-bit values; the caller compares keys.
 *
 * Room    core/base.
 * Owns    its table, taken from an arena at create for `items_max` items: open addressing, linear probing, no tombstones.
 * Rule    never iterated: order that can be seen from outside comes from a list or a sorted array of the owner.
 *
 * Use     for (uint32_t at = base_map_first(map, hash); at != BASE_MAP_NONE; at = base_map_next(map, hash, at)) {
 *             if (key of things[base_map_value(map, at)] is the one) { found }
 *         }
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/arena.h"

#define BASE_MAP_NONE UINT32_MAX

struct base_map_cell {
    uint32_t hash_high;
    uint32_t value; /* + 1; 0: free */
};

struct base_map {
    struct base_map_cell *cells;
    uint32_t cells_count; /* a power of two, at least 1.5 x items_max */
    uint32_t count;
    uint32_t items_max;
};

uint64_t base_hash_bytes(const void *at, size_t size_bytes,
                         uint64_t seed); /* the same everywhere; not for adversaries unless seeded by a secret */
uint64_t base_hash_u64(uint64_t v);

/* What base_map_create takes of the arena, which aligns it to 16. */
size_t base_map_bytes(uint32_t items_max);
MUST_USE
enum base_rc base_map_create(struct base_arena *arena, uint32_t items_max, struct base_map *map_out);
MUST_USE
enum base_rc base_map_insert(struct base_map *map, uint64_t hash,
                             uint32_t value); /* BASE_FULL; duplicates are the caller's mistake */
uint32_t base_map_first(const struct base_map *map, uint64_t hash);
uint32_t base_map_next(const struct base_map *map, uint64_t hash, uint32_t at);
static inline uint32_t base_map_value(const struct base_map *map, uint32_t at) { return map->cells[at].value - 1; }
void base_map_remove(struct base_map *map, uint64_t hash, uint32_t value); /* CHECKs that it is there */

#endif
