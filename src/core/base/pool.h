/* pool.h: slots of one size, named by index and generation.
 *
 * Room    core/base.
 * Owns    the slots; memory comes from an arena at create, all of it, and is touched only when a slot is first taken.
 * Order   the slot given back last is taken first.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/arena.h"

struct base_pool {
    uint8_t *slots;
    uint32_t *links; /* the free list, index + 1; that of a taken slot says so */
    uint32_t slot_bytes;
    uint32_t slots_max;
    uint32_t fresh;     /* slots from here on were never taken */
    uint32_t free_head; /* index + 1; 0: none */
    uint32_t taken_count;
};

#define BASE_POOL_NONE  UINT32_MAX
/* As a link: the slot is out; links of free slots are index + 1, at most slots_max. */
#define BASE_POOL_TAKEN UINT32_MAX

MUST_USE
enum base_rc base_pool_create(struct base_arena *arena, size_t slot_bytes, uint32_t slots_max,
                              struct base_pool *pool_out);
/* The index of a free slot, its bytes cleared; BASE_POOL_NONE when all are taken. */
MUST_USE
uint32_t base_pool_take(struct base_pool *pool);
void base_pool_give(struct base_pool *pool, uint32_t index);

/* Here, so that they are inlined: no request goes by without some twenty of them. */
static inline bool base_pool_is_taken(const struct base_pool *pool, uint32_t index)
{
    return index < pool->fresh && pool->links[index] == BASE_POOL_TAKEN;
}

/* The slot's bytes, aligned to 16; the slot is taken. */
static inline void *base_pool_at(const struct base_pool *pool, uint32_t index)
{
    CHECK(base_pool_is_taken(pool, index));
    return pool->slots + (size_t)index * pool->slot_bytes;
}

static inline uint32_t base_pool_index(const struct base_pool *pool, const void *slot)
{
    const uint8_t *at = slot;
    CHECK(at >= pool->slots);
    size_t far_bytes = (size_t)(at - pool->slots);
    CHECK(far_bytes % pool->slot_bytes == 0);
    CHECK(far_bytes / pool->slot_bytes < pool->fresh);
    return (uint32_t)(far_bytes / pool->slot_bytes);
}

#endif
