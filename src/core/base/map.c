/* map.c: see map.h. The hash's upper half is kept in the cell: it gives the home cell and filters the probes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/map.h"

#include <string.h>

/* SipHash-1-3 (Aumasson and Bernstein), with a key spun from `seed`: hard to collide on purpose when the seed is secret. */
struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate_left(uint64_t v, unsigned bits) { return v << bits | v >> (64 - bits); }

INLINE void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate_left(s->v1, 13) ^ s->v0;
    s->v0 = rotate_left(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate_left(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate_left(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate_left(s->v1, 17) ^ s->v2;
    s->v2 = rotate_left(s->v2, 32);
}

INLINE void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

/* Spelled out: so a compiler sees one load. */
INLINE uint64_t load_le(const uint8_t *b)
{
    return (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24 | (uint64_t)b[4] << 32 |
           (uint64_t)b[5] << 40 | (uint64_t)b[6] << 48 | (uint64_t)b[7] << 56;
}

/* The last `size_bytes` % 8 of the bytes. */
INLINE uint64_t load_rest(const uint8_t *b, size_t size_bytes)
{
    size_t rest_bytes = size_bytes % 8;
    if (rest_bytes == 0) { return 0; }
    if (size_bytes >= 8) { return load_le(b + size_bytes - 8) >> (64 - 8 * rest_bytes); }
    uint64_t v = 0;
    for (size_t i = 0; i < rest_bytes; i++) { v |= (uint64_t)b[i] << (8 * i); }
    return v;
}

uint64_t base_hash_bytes(const void *at, size_t size_bytes, uint64_t seed)
{
    uint64_t key_0 = seed;
    uint64_t key_1 = base_hash_u64(seed + UINT64_C(0x9e3779b97f4a7c15));
    struct sip s = {
        .v0 = key_0 ^ UINT64_C(0x736f6d6570736575),
        .v1 = key_1 ^ UINT64_C(0x646f72616e646f6d),
        .v2 = key_0 ^ UINT64_C(0x6c7967656e657261),
        .v3 = key_1 ^ UINT64_C(0x7465646279746573),
    };
    const uint8_t *b = at;
    size_t whole_bytes = size_bytes / 8 * 8;
    for (size_t i = 0; i < whole_bytes; i += 8) { sip_word(&s, load_le(b + i)); }
    sip_word(&s, (uint64_t)(size_bytes & 0xff) << 56 | load_rest(b, size_bytes));
    s.v2 ^= 0xff;
    for (int i = 0; i < 3; i++) { sip_round(&s); }
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint64_t base_hash_u64(uint64_t v)
{
    v = (v ^ (v >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    v = (v ^ (v >> 27)) * UINT64_C(0x94d049bb133111eb);
    return v ^ (v >> 31);
}

static uint64_t cells_for(uint32_t items_max)
{
    uint64_t wanted = (uint64_t)items_max + items_max / 2 + 1;
    uint64_t cells_count = 4;
    while (cells_count < wanted) { cells_count *= 2; }
    return cells_count;
}

size_t base_map_bytes(uint32_t items_max) { return (size_t)cells_for(items_max) * sizeof(struct base_map_cell); }

enum base_rc base_map_create(struct base_arena *arena, uint32_t items_max, struct base_map *map_out)
{
    uint64_t cells_count = cells_for(items_max);
    if (cells_count > UINT32_C(1) << 31) { return BASE_FULL; }
    struct base_map_cell *cells = base_arena_take_array(arena, cells_count, sizeof(struct base_map_cell));
    if (cells == NULL) { return BASE_FULL; }
    *map_out = (struct base_map){.cells = cells, .cells_count = (uint32_t)cells_count, .items_max = items_max};
    return BASE_OK;
}

static uint32_t mask_of(const struct base_map *map) { return map->cells_count - 1; }

enum base_rc base_map_insert(struct base_map *map, uint64_t hash, uint32_t value)
{
    CHECK(value != UINT32_MAX); /* stored + 1 */
    if (map->count == map->items_max) { return BASE_FULL; }
    uint32_t hash_high = (uint32_t)(hash >> 32);
    uint32_t at = hash_high & mask_of(map);
    while (map->cells[at].value != 0) { at = (at + 1) & mask_of(map); } /* ends: a third of the cells is free */
    map->cells[at] = (struct base_map_cell){.hash_high = hash_high, .value = value + 1};
    map->count += 1;
    return BASE_OK;
}

static uint32_t find_from(const struct base_map *map, uint32_t hash_high, uint32_t at)
{
    while (map->cells[at].value != 0) {
        if (map->cells[at].hash_high == hash_high) { return at; }
        at = (at + 1) & mask_of(map);
    }
    return BASE_MAP_NONE;
}

uint32_t base_map_first(const struct base_map *map, uint64_t hash)
{
    uint32_t hash_high = (uint32_t)(hash >> 32);
    return find_from(map, hash_high, hash_high & mask_of(map));
}

uint32_t base_map_next(const struct base_map *map, uint64_t hash, uint32_t at)
{
    CHECK(at < map->cells_count);
    return find_from(map, (uint32_t)(hash >> 32), (at + 1) & mask_of(map));
}

void base_map_remove(struct base_map *map, uint64_t hash, uint32_t value)
{
    uint32_t mask = mask_of(map);
    uint32_t hole = base_map_first(map, hash);
    while (hole != BASE_MAP_NONE && base_map_value(map, hole) != value) { hole = base_map_next(map, hash, hole); }
    CHECK(hole != BASE_MAP_NONE);
    CHECK(map->count > 0);

    /* Close the hole: a later cell of the run moves into it unless its home lies after the hole. */
    for (uint32_t at = (hole + 1) & mask; map->cells[at].value != 0; at = (at + 1) & mask) {
        uint32_t home = map->cells[at].hash_high & mask;
        uint32_t home_to_at = (at - home) & mask;
        uint32_t hole_to_at = (at - hole) & mask;
        if (home_to_at >= hole_to_at) {
            map->cells[hole] = map->cells[at];
            hole = at;
        }
    }
    map->cells[hole] = (struct base_map_cell){0};
    map->count -= 1;
}
