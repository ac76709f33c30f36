/* heap.c: see heap.h. A binary heap; every item knows its place.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/heap.h"

enum base_rc base_heap_create(struct base_arena *arena, uint32_t items_max, struct base_heap *heap_out)
{
    if (items_max >= UINT32_MAX / 2) { return BASE_FULL; } /* places are index + 1, children 2 x index + 2 */
    struct base_heap_item **items = base_arena_take_array(arena, items_max, sizeof(struct base_heap_item *));
    if (items == NULL) { return BASE_FULL; }
    *heap_out = (struct base_heap){.items = items, .items_max = items_max};
    return BASE_OK;
}

static bool is_before(const struct base_heap_item *a, const struct base_heap_item *b)
{
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static void put_at(struct base_heap *heap, uint32_t index, struct base_heap_item *item)
{
    heap->items[index] = item;
    item->place = index + 1;
}

static void move_up(struct base_heap *heap, uint32_t index, struct base_heap_item *item)
{
    while (index > 0) {
        uint32_t parent = (index - 1) / 2;
        if (!is_before(item, heap->items[parent])) { break; }
        put_at(heap, index, heap->items[parent]);
        index = parent;
    }
    put_at(heap, index, item);
}

static void move_down(struct base_heap *heap, uint32_t index, struct base_heap_item *item)
{
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child >= heap->count) { break; }
        if (child + 1 < heap->count && is_before(heap->items[child + 1], heap->items[child])) { child += 1; }
        if (!is_before(heap->items[child], item)) { break; }
        put_at(heap, index, heap->items[child]);
        index = child;
    }
    put_at(heap, index, item);
}

enum base_rc base_heap_insert(struct base_heap *heap, struct base_heap_item *item, uint64_t key)
{
    CHECK(item->place == 0); /* twice in the heap would fire twice */
    if (heap->count == heap->items_max) { return BASE_FULL; }
    item->key = key;
    item->order = heap->next_order;
    heap->next_order += 1;
    heap->count += 1;
    move_up(heap, heap->count - 1, item);
    return BASE_OK;
}

void base_heap_remove(struct base_heap *heap, struct base_heap_item *item)
{
    CHECK(item->place != 0);
    CHECK(item->place <= heap->count);
    CHECK(heap->items[item->place - 1] == item);
    uint32_t hole = item->place - 1;
    struct base_heap_item *last = heap->items[heap->count - 1];
    heap->count -= 1;
    heap->items[heap->count] = NULL;
    item->place = 0;
    if (last == item) { return; }
    if (hole > 0 && is_before(last, heap->items[(hole - 1) / 2])) {
        move_up(heap, hole, last);
    } else {
        move_down(heap, hole, last);
    }
}

struct base_heap_item *base_heap_first(const struct base_heap *heap)
{
    return heap->count == 0 ? NULL : heap->items[0];
}
