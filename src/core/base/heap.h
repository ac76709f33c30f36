/* heap.h: deadlines, the earliest first, each removable by its place.
 *
 * Room    core/base.
 * Owns    nothing: items live in their owner's struct. At most `items_max` at once.
 * Order   by key, then by the order of insertion, so that equal deadlines fire in the order they were set.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include "base/arena.h"

struct base_heap_item {
    uint64_t key;
    uint64_t order;
    uint32_t place; /* index + 1 in the heap; 0: not in it */
};

struct base_heap {
    struct base_heap_item **items;
    uint32_t count;
    uint32_t items_max;
    uint64_t next_order;
};

MUST_USE
enum base_rc base_heap_create(struct base_arena *arena, uint32_t items_max, struct base_heap *heap_out);
MUST_USE
enum base_rc base_heap_insert(struct base_heap *heap, struct base_heap_item *item, uint64_t key); /* BASE_FULL */
void base_heap_remove(struct base_heap *heap, struct base_heap_item *item);
struct base_heap_item *base_heap_first(const struct base_heap *heap); /* NULL when empty */
static inline bool base_heap_holds(const struct base_heap_item *item) { return item->place != 0; }
static inline uint64_t base_heap_first_key(const struct base_heap *heap)
{
    return heap->count == 0 ? UINT64_MAX : heap->items[0]->key;
}

#endif
