/* pool.c: see pool.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/pool.h"

#include "base/arith.h"

#include <string.h>

#define POOL_SLOT_ALIGN ((size_t)16)

enum base_rc base_pool_create(struct base_arena *arena, size_t slot_bytes, uint32_t slots_max,
                              struct base_pool *pool_out)
{
    CHECK(slot_bytes > 0);
    if (slots_max == UINT32_MAX || slot_bytes > UINT32_MAX - POOL_SLOT_ALIGN) { return BASE_FULL; }
    size_t stride_bytes = (slot_bytes + POOL_SLOT_ALIGN - 1) / POOL_SLOT_ALIGN * POOL_SLOT_ALIGN;
    size_t slots_bytes;
    if (!base_mul_size(stride_bytes, slots_max, &slots_bytes)) { return BASE_FULL; }

    /* Neither table is cleared: a link is read only once its slot was taken, and a slot is cleared when taken. */
    size_t mark = base_arena_mark(arena);
    uint8_t *slots = base_arena_take(arena, slots_bytes);
    uint32_t *links = slots == NULL ? NULL : base_arena_take(arena, (size_t)slots_max * sizeof(uint32_t));
    if (links == NULL) {
        base_arena_reset(arena, mark);
        return BASE_FULL;
    }
    *pool_out = (struct base_pool){.slots = slots,
                                   .links = links,
                                   .slot_bytes = (uint32_t)stride_bytes,
                                   .slots_max = slots_max};
    return BASE_OK;
}

uint32_t base_pool_take(struct base_pool *pool)
{
    uint32_t index;
    if (pool->free_head != 0) {
        index = pool->free_head - 1;
        CHECK(pool->links[index] != BASE_POOL_TAKEN);
        pool->free_head = pool->links[index];
    } else {
        if (pool->fresh == pool->slots_max) { return BASE_POOL_NONE; }
        index = pool->fresh;
        pool->fresh += 1;
    }
    pool->links[index] = BASE_POOL_TAKEN;
    pool->taken_count += 1;
    memset(pool->slots + (size_t)index * pool->slot_bytes, 0, pool->slot_bytes);
    return index;
}

void base_pool_give(struct base_pool *pool, uint32_t index)
{
    CHECK(base_pool_is_taken(pool, index)); /* giving twice would hand one slot to two owners */
    CHECK(pool->taken_count > 0);
    pool->links[index] = pool->free_head;
    pool->free_head = index + 1;
    pool->taken_count -= 1;
}
