/* test_containers.c: arena, pool, list, map and heap against simple models.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"

#define ITEMS 500

static _Alignas(16) uint8_t memory[1 << 20];

static struct base_arena given_arena(size_t size_bytes)
{
    struct base_arena arena;
    assert_true(size_bytes <= sizeof memory);
    memset(memory, 0xcd, sizeof memory);
    base_arena_init(&arena, memory, size_bytes);
    return arena;
}

static struct base_prng given_dice(uint64_t seed)
{
    struct base_prng dice;
    base_prng_init(&dice, seed, 0);
    return dice;
}

/* ---- arena ---- */

static bool is_zero(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != 0) { return false; }
    }
    return true;
}

static void an_arena_hands_out_aligned_pieces_until_it_is_full(void **state)
{
    (void)state;
    struct base_arena arena = given_arena(64);
    uint8_t *text = base_arena_take_bytes(&arena, 3);
    uint8_t *a = base_arena_take(&arena, 20);
    assert_ptr_equal(text, memory);
    assert_ptr_equal(a, memory + 16);
    size_t mark = base_arena_mark(&arena);
    assert_null(base_arena_take(&arena, 17)); /* 36 are used, 48 is the next place */
    assert_int_equal(base_arena_mark(&arena), mark);
    assert_ptr_equal(base_arena_take(&arena, 16), memory + 48);
    assert_null(base_arena_take_bytes(&arena, 1));
    assert_null(base_arena_take_array(&arena, SIZE_MAX / 2, 3));
    base_arena_reset(&arena, mark);
    assert_ptr_equal(base_arena_take_bytes(&arena, 28), memory + 36);
}

static void an_array_is_cleared_whatever_the_memory_held(void **state)
{
    (void)state;
    struct base_arena arena = given_arena(4096);
    assert_true(is_zero(base_arena_take_array(&arena, 10, 100), 1000));
    memset(memory, 0, sizeof memory);
    base_arena_init_zeroed(&arena, memory, 4096);
    memset(base_arena_take(&arena, 100), 0xee, 100);
    base_arena_reset(&arena, 0);
    memset(memory + 200, 0x77, 1); /* not told to the arena: proof that zeroed memory is left alone */
    uint8_t *array = base_arena_take_array(&arena, 1, 256);
    assert_true(is_zero(array, 200));
    assert_int_equal(array[200], 0x77);
}

/* ---- pool ---- */

static void a_pool_gives_each_slot_once_and_the_last_returned_first(void **state)
{
    (void)state;
    struct base_arena arena = given_arena(sizeof memory);
    struct base_pool pool;
    assert_int_equal(base_pool_create(&arena, 24, 3, &pool), BASE_OK);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(base_pool_take(&pool), i);
        uint8_t *slot = base_pool_at(&pool, i);
        assert_int_equal((uintptr_t)slot % 16, 0);
        assert_true(is_zero(slot, 24));
        memset(slot, 0xff, 24);
        assert_int_equal(base_pool_index(&pool, slot), i);
    }
    assert_int_equal(base_pool_take(&pool), BASE_POOL_NONE);
    base_pool_give(&pool, 0);
    base_pool_give(&pool, 2);
    assert_false(base_pool_is_taken(&pool, 2));
    assert_true(base_pool_is_taken(&pool, 1));
    assert_int_equal(pool.taken_count, 1);
    assert_int_equal(base_pool_take(&pool), 2);
    assert_true(is_zero(base_pool_at(&pool, 2), 24));
    assert_int_equal(base_pool_take(&pool), 0);
}

static void a_pool_that_does_not_fit_takes_nothing(void **state)
{
    (void)state;
    for (size_t size_bytes = 0; size_bytes < 10 * 32 + 40; size_bytes++) {
        struct base_arena arena = given_arena(size_bytes);
        struct base_pool pool;
        assert_int_equal(base_pool_create(&arena, 17, 10, &pool), BASE_FULL);
        assert_int_equal(base_arena_mark(&arena), 0);
    }
    struct base_arena arena = given_arena(10 * 32 + 40);
    struct base_pool pool;
    assert_int_equal(base_pool_create(&arena, 17, 10, &pool), BASE_OK);
}

/* ---- list ---- */

struct listed {
    int number;
    struct base_link link;
};

static void a_list_keeps_its_order(void **state)
{
    (void)state;
    struct listed items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    struct base_list list;
    base_list_init(&list);
    base_list_push_back(&list, &items[1].link);
    base_list_push_back(&list, &items[2].link);
    base_list_push_front(&list, &items[0].link);
    base_list_insert_before(&list, &items[2].link, &items[3].link);
    base_list_remove(&list, &items[1].link);
    const int expected[] = {0, 3, 2};
    size_t at = 0;
    for (struct base_link *link = base_list_first(&list); link != NULL; link = base_list_next(&list, link)) {
        assert_int_equal(BASE_ITEM(link, struct listed, link)->number, expected[at++]);
    }
    assert_int_equal(at, 3);
    assert_int_equal(list.count, 3);
    assert_ptr_equal(base_list_pop_front(&list), &items[0].link);
    assert_false(base_link_is_on(&items[0].link));
}

/* ---- map ---- */

struct pair {
    uint64_t hash;
    bool is_in;
};

static bool map_holds(const struct base_map *map, uint64_t hash, uint32_t value)
{
    for (uint32_t at = base_map_first(map, hash); at != BASE_MAP_NONE; at = base_map_next(map, hash, at)) {
        if (base_map_value(map, at) == value) { return true; }
    }
    return false;
}

static void a_map_agrees_with_a_table_whatever_the_hashes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct base_prng dice = given_dice(seed);
        struct base_arena arena = given_arena(sizeof memory);
        struct base_map map;
        uint32_t items_max = 1 + (uint32_t)base_prng_below(&dice, ITEMS);
        assert_int_equal(base_map_create(&arena, items_max, &map), BASE_OK);
        assert_int_equal(arena.used_bytes, base_map_bytes(items_max));
        struct pair pairs[ITEMS] = {0};
        uint64_t kinds = 1 + base_prng_below(&dice, 200); /* few: long runs and equal hashes */
        for (int i = 0; i < 5000; i++) {
            uint32_t value = (uint32_t)base_prng_below(&dice, ITEMS);
            struct pair *pair = &pairs[value];
            if (pair->is_in) {
                base_map_remove(&map, pair->hash, value);
                pair->is_in = false;
                continue;
            }
            /* close homes, the end of the table included */
            pair->hash = (base_prng_below(&dice, kinds) - kinds / 2) << 32 | base_prng_below(&dice, 2);
            bool is_full = map.count == items_max;
            assert_int_equal(base_map_insert(&map, pair->hash, value), is_full ? BASE_FULL : BASE_OK);
            pair->is_in = !is_full;
            if (i % 10 != 0) { continue; }
            uint32_t count = 0;
            for (uint32_t v = 0; v < ITEMS; v++) {
                count += pairs[v].is_in ? 1 : 0;
                assert_int_equal(map_holds(&map, pairs[v].hash, v), pairs[v].is_in);
            }
            assert_int_equal(map.count, count);
        }
    }
}

static void hashes_are_the_same_everywhere(void **state)
{
    (void)state;
    /* Frozen: base_part_hash places partitions on shards. */
    assert_int_equal(base_hash_bytes("", 0, 0), UINT64_C(0x1653806f2353e1d6));
    assert_int_equal(base_hash_bytes("weir-partition-hash", 19, 7), UINT64_C(0xa671302b68aea639));
    assert_int_equal(base_hash_u64(1), UINT64_C(0x5692161d100b05e5));
    struct base_part part = {.topic = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, .index = 3};
    assert_int_equal(base_part_hash(part), UINT64_C(0xe32b2daa5614f3ad));
}

static void partitions_spread_over_shards(void **state)
{
    (void)state;
    uint32_t counts[8] = {0};
    struct base_part part = {.topic = {{7}}};
    for (part.index = 0; part.index < 8000; part.index++) { counts[base_part_hash(part) % 8] += 1; }
    for (size_t i = 0; i < 8; i++) { assert_in_range(counts[i], 850, 1150); }
}

/* ---- heap ---- */

static int by_key_then_order(const void *left, const void *right)
{
    const struct base_heap_item *a = *(struct base_heap_item *const *)left;
    const struct base_heap_item *b = *(struct base_heap_item *const *)right;
    if (a->key != b->key) { return a->key < b->key ? -1 : 1; }
    return a->order < b->order ? -1 : 1;
}

static void a_heap_gives_its_items_in_the_order_of_a_sort(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct base_prng dice = given_dice(seed);
        struct base_arena arena = given_arena(sizeof memory);
        struct base_heap heap;
        assert_int_equal(base_heap_create(&arena, ITEMS, &heap), BASE_OK);
        struct base_heap_item items[ITEMS] = {0};
        for (int i = 0; i < 3000; i++) {
            struct base_heap_item *item = &items[base_prng_below(&dice, ITEMS)];
            if (base_heap_holds(item)) {
                base_heap_remove(&heap, item);
            } else {
                assert_int_equal(base_heap_insert(&heap, item, base_prng_below(&dice, 50)), BASE_OK);
            }
        }
        struct base_heap_item *sorted[ITEMS];
        size_t count = 0;
        for (size_t i = 0; i < ITEMS; i++) {
            if (base_heap_holds(&items[i])) { sorted[count++] = &items[i]; }
        }
        assert_int_equal(count, heap.count);
        qsort(sorted, count, sizeof sorted[0], by_key_then_order);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(base_heap_first_key(&heap), sorted[i]->key);
            assert_ptr_equal(base_heap_first(&heap), sorted[i]);
            base_heap_remove(&heap, sorted[i]);
        }
        assert_null(base_heap_first(&heap));
        assert_int_equal(base_heap_first_key(&heap), UINT64_MAX);
    }
}

static void a_full_heap_takes_no_more(void **state)
{
    (void)state;
    struct base_arena arena = given_arena(sizeof memory);
    struct base_heap heap;
    assert_int_equal(base_heap_create(&arena, 2, &heap), BASE_OK);
    struct base_heap_item items[3] = {0};
    assert_int_equal(base_heap_insert(&heap, &items[0], 5), BASE_OK);
    assert_int_equal(base_heap_insert(&heap, &items[1], 4), BASE_OK);
    assert_int_equal(base_heap_insert(&heap, &items[2], 3), BASE_FULL);
    assert_false(base_heap_holds(&items[2]));
    assert_ptr_equal(base_heap_first(&heap), &items[1]);
}

/* ---- dice ---- */

static void dice_are_the_same_everywhere_and_streams_differ(void **state)
{
    (void)state;
    struct base_prng dice;
    base_prng_init(&dice, 1, 0);
    assert_int_equal(base_prng_u64(&dice), UINT64_C(0x960afdca7d43a9e4));
    uint8_t bytes[5];
    base_prng_fill(&dice, bytes, sizeof bytes);
    const uint8_t expected[5] = {0xf4, 0x2b, 0x1c, 0x12, 0xed};
    assert_memory_equal(bytes, expected, sizeof bytes);
    for (int i = 0; i < 10; i++) { (void)base_prng_u64(&dice); }
    assert_int_equal(base_prng_u64(&dice), UINT64_C(0x20293d10aca2fb7f));
    struct base_prng other;
    base_prng_init(&dice, 1, 0);
    base_prng_init(&other, 1, 1);
    assert_int_not_equal(base_prng_u64(&dice), base_prng_u64(&other));
}

static void dice_are_fair(void **state)
{
    (void)state;
    struct base_prng dice = given_dice(3);
    uint32_t counts[6] = {0};
    for (int i = 0; i < 60000; i++) { counts[base_prng_below(&dice, 6)] += 1; }
    for (size_t i = 0; i < 6; i++) { assert_in_range(counts[i], 9600, 10400); }
    uint32_t hits = 0;
    for (int i = 0; i < 10000; i++) { hits += base_prng_chance(&dice, 1, 4) ? 1 : 0; }
    assert_in_range(hits, 2300, 2700);
    for (int i = 0; i < 100; i++) { assert_true(base_prng_below(&dice, UINT64_MAX) < UINT64_MAX); }
}

static void sums_that_would_wrap_are_refused(void **state)
{
    (void)state;
    size_t size = 7;
    int64_t number = 7;
    assert_false(base_add_size(SIZE_MAX, 1, &size));
    assert_false(base_mul_size(SIZE_MAX / 2, 3, &size));
    assert_false(base_add_i64(INT64_MAX, 1, &number));
    assert_false(base_add_i64(INT64_MIN, -1, &number));
    assert_int_equal(size, 7);
    assert_int_equal(number, 7);
    assert_true(base_add_i64(INT64_MAX, INT64_MIN, &number));
    assert_int_equal(number, -1);
    assert_int_equal(base_deadline_ns(UINT64_MAX - 5, 6), UINT64_MAX);
    assert_int_equal(base_deadline_ns(5, 6), 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_hands_out_aligned_pieces_until_it_is_full),
        cmocka_unit_test(an_array_is_cleared_whatever_the_memory_held),
        cmocka_unit_test(a_pool_gives_each_slot_once_and_the_last_returned_first),
        cmocka_unit_test(a_pool_that_does_not_fit_takes_nothing),
        cmocka_unit_test(a_list_keeps_its_order),
        cmocka_unit_test(a_map_agrees_with_a_table_whatever_the_hashes),
        cmocka_unit_test(hashes_are_the_same_everywhere),
        cmocka_unit_test(partitions_spread_over_shards),
        cmocka_unit_test(a_heap_gives_its_items_in_the_order_of_a_sort),
        cmocka_unit_test(a_full_heap_takes_no_more),
        cmocka_unit_test(dice_are_the_same_everywhere_and_streams_differ),
        cmocka_unit_test(dice_are_fair),
        cmocka_unit_test(sums_that_would_wrap_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
