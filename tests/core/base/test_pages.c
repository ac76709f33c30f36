/* test_pages.c: the page allocator against a model that knows every page.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

#include <sys/mman.h>

#define PAGE       BASE_PAGE_BYTES
#define BLOCKS_MAX 4096

/* What the allocator keeps of the blocks that were given back. */
#define KEPT_RUN_MAX   8
#define KEPT_PAGES_MAX 64

/* A CHECK that fails here is an assertion of the test that expects it, and ends any other test. */
static jmp_buf on_check;
static bool is_check_expected;

void base_panic_host(const char *file, int line, const char *what)
{
    if (is_check_expected) { longjmp(on_check, 1); }
    print_error("%s:%d: CHECK %s\n", file, line, what);
    abort();
}

#define expect_stop(statement)                            \
    do {                                                  \
        is_check_expected = true;                         \
        if (setjmp(on_check) == 0) {                      \
            statement;                                    \
            is_check_expected = false;                    \
            fail_msg("no CHECK stopped: %s", #statement); \
        }                                                 \
        is_check_expected = false;                        \
    } while (0)

struct block {
    uint8_t *at;
    size_t page_count;
    enum base_class class;
};

struct given {
    struct base_region region;
    struct base_pages *pages;
    uint8_t *first; /* the lowest page, where the first block of all lies */
    size_t page_count;
    size_t reserve[BASE_CLASS_COUNT];
    struct block blocks[BLOCKS_MAX];
    size_t block_count;
    uint8_t *taken;                    /* the model: by page; a kept one is taken, too */
    struct block kept[KEPT_PAGES_MAX]; /* the one given back last stands last */
    size_t kept_count;
};

static struct given *given_pages(size_t size_bytes, size_t control, size_t replication)
{
    struct given *given = calloc(1, sizeof *given);
    assert_non_null(given);
    given->region.size_bytes = size_bytes;
    given->region.at =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(given->region.at != MAP_FAILED);
    given->reserve[BASE_CONTROL] = control;
    given->reserve[BASE_REPLICATION] = replication;
    size_t reserve_bytes[BASE_CLASS_COUNT] = {control * PAGE, replication * PAGE, 0};
    assert_int_equal(base_pages_create(given->region, reserve_bytes, &given->pages), BASE_OK);
    given->page_count = base_pages_room_bytes(given->pages, BASE_CONTROL) / PAGE;
    given->taken = calloc(given->page_count, 1);
    given->first = base_pages_take(given->pages, BASE_CONTROL, (KEPT_RUN_MAX + 1) * PAGE); /* too long to be kept */
    base_pages_give(given->pages, given->first);
    return given;
}

static void drop(struct given *given)
{
    assert_int_equal(munmap(given->region.at, given->region.size_bytes), 0);
    free(given->taken);
    free(given);
}

static size_t model_used(const struct given *given, enum base_class class)
{
    size_t count = 0;
    for (size_t i = 0; i < given->block_count; i++) {
        if (given->blocks[i].class == class) { count += given->blocks[i].page_count; }
    }
    return count;
}

static size_t model_room(const struct given *given, enum base_class class)
{
    size_t left = given->page_count;
    for (int c = 0; c < BASE_CLASS_COUNT; c++) { left -= model_used(given, (enum base_class)c); }
    for (int c = 0; c < (int)class; c++) {
        size_t used = model_used(given, (enum base_class)c);
        size_t kept = given->reserve[c] > used ? given->reserve[c] - used : 0;
        left = left > kept ? left - kept : 0;
    }
    return left;
}

/* The lowest aligned run of the next power of two that is free in the model; page_count: none. */
static size_t model_lowest(const struct given *given, size_t count)
{
    size_t run = 1;
    while (run < count) { run *= 2; }
    for (size_t at = 0; at + run <= given->page_count; at += run) {
        size_t free_count = 0;
        while (free_count < run && given->taken[at + free_count] == 0) { free_count += 1; }
        if (free_count == run) { return at; }
    }
    return given->page_count;
}

/* The place in `kept` of the block of `count` pages that was given back last; kept_count: none. */
static size_t model_kept(const struct given *given, size_t count)
{
    for (size_t i = given->kept_count; i-- > 0;) {
        if (given->kept[i].page_count == count) { return i; }
    }
    return given->kept_count;
}

static size_t model_kept_pages(const struct given *given)
{
    size_t count = 0;
    for (size_t i = 0; i < given->kept_count; i++) { count += given->kept[i].page_count; }
    return count;
}

static void model_mark(struct given *given, const struct block *block, size_t from, size_t to, uint8_t taken)
{
    size_t first = (size_t)(block->at - given->first) / PAGE;
    for (size_t i = from; i < to; i++) {
        assert_int_equal(given->taken[first + i], !taken); /* an overlap, else */
        given->taken[first + i] = taken;
    }
}

static void model_forget(struct given *given, size_t kept_index)
{
    struct block block = given->kept[kept_index];
    model_mark(given, &block, 0, block.page_count, 0);
    memmove(&given->kept[kept_index], &given->kept[kept_index + 1],
            (given->kept_count - kept_index - 1) * sizeof block);
    given->kept_count -= 1;
}

/* Where a block of so many pages is taken, no longer kept; NULL: nowhere. */
static uint8_t *model_place(struct given *given, enum base_class class, size_t count)
{
    if (count > model_room(given, class)) { return NULL; }
    size_t kept_index = model_kept(given, count);
    if (kept_index < given->kept_count) {
        uint8_t *at = given->kept[kept_index].at;
        model_forget(given, kept_index);
        return at;
    }
    if (model_lowest(given, count) == given->page_count) {
        while (given->kept_count > 0) { model_forget(given, 0); }
    }
    size_t lowest = model_lowest(given, count);
    return lowest == given->page_count ? NULL : given->first + lowest * PAGE;
}

static void take(struct given *given, enum base_class class, size_t size_bytes)
{
    size_t count = (size_bytes + PAGE - 1) / PAGE;
    uint8_t *wanted = model_place(given, class, count);
    uint8_t *at = base_pages_take(given->pages, class, size_bytes);
    assert_ptr_equal(at, wanted);
    if (at == NULL) { return; }
    assert_int_equal(base_pages_block_bytes(given->pages, at), count * PAGE);
    struct block block = {.at = at, .page_count = count, .class = class};
    model_mark(given, &block, 0, count, 1);
    at[0] = 0xaa; /* must not meet a table of the allocator */
    at[count * PAGE - 1] = 0xaa;
    given->blocks[given->block_count++] = block;
}

static void give(struct given *given, size_t index)
{
    struct block block = given->blocks[index];
    base_pages_give(given->pages, block.at);
    if (block.page_count <= KEPT_RUN_MAX && model_kept_pages(given) + block.page_count <= KEPT_PAGES_MAX) {
        given->kept[given->kept_count++] = block;
    } else {
        model_mark(given, &block, 0, block.page_count, 0);
    }
    given->blocks[index] = given->blocks[--given->block_count];
}

static void shrink(struct given *given, size_t index, size_t size_bytes)
{
    struct block *block = &given->blocks[index];
    size_t count = (size_bytes + PAGE - 1) / PAGE;
    base_pages_shrink(given->pages, block->at, size_bytes);
    model_mark(given, block, count, block->page_count, 0);
    block->page_count = count;
    assert_int_equal(base_pages_block_bytes(given->pages, block->at), count * PAGE);
}

static void expect_sums_as_in_the_model(const struct given *given)
{
    size_t used = 0;
    for (int c = 0; c < BASE_CLASS_COUNT; c++) {
        used += model_used(given, (enum base_class)c);
        assert_int_equal(base_pages_room_bytes(given->pages, (enum base_class)c),
                         model_room(given, (enum base_class)c) * PAGE);
    }
    assert_int_equal(base_pages_used_bytes(given->pages), used * PAGE);
    assert_int_equal(base_pages_block_count(given->pages), given->block_count);
}

static void run_at_random(struct given *given, uint64_t seed, int steps, size_t pages_most)
{
    struct base_prng dice;
    base_prng_init(&dice, seed, 0);
    for (int i = 0; i < steps; i++) {
        uint64_t what = base_prng_below(&dice, 8);
        if (what < 4 && given->block_count < BLOCKS_MAX) {
            size_t most = base_prng_chance(&dice, 1, 10) ? pages_most : pages_most / 8 + 1;
            take(given, (enum base_class)base_prng_below(&dice, 3), 1 + base_prng_below(&dice, most * PAGE));
        } else if (what < 7 && given->block_count > 0) {
            give(given, base_prng_below(&dice, given->block_count));
        } else if (given->block_count > 0) {
            size_t index = base_prng_below(&dice, given->block_count);
            shrink(given, index, 1 + base_prng_below(&dice, given->blocks[index].page_count * PAGE));
        }
        if (i % 16 == 0) { expect_sums_as_in_the_model(given); }
    }
}

/* What fits a page may move to where one was kept; it is whole there, and what it had is free. True: it moved. */
static bool squeeze(struct given *given, size_t index, size_t size_bytes)
{
    struct block *block = &given->blocks[index];
    memset(block->at, (int)index, block->page_count * PAGE);
    size_t kept_index = model_kept(given, 1);
    bool moves = block->page_count > 1 && size_bytes <= PAGE && kept_index < given->kept_count &&
                 block->page_count <= KEPT_RUN_MAX && model_kept_pages(given) + block->page_count <= KEPT_PAGES_MAX;
    uint8_t *at = base_pages_squeeze(given->pages, block->at, size_bytes);
    size_t count = (size_bytes + PAGE - 1) / PAGE;
    if (moves) {
        assert_ptr_equal(at, given->kept[kept_index].at);
        model_forget(given, kept_index);
        given->kept[given->kept_count++] = *block;
        *block = (struct block){.at = at, .page_count = 1, .class = block->class};
        model_mark(given, block, 0, 1, 1);
    } else {
        assert_ptr_equal(at, block->at);
        model_mark(given, block, count, block->page_count, 0);
        block->page_count = count;
    }
    assert_int_equal(base_pages_block_bytes(given->pages, at), count * PAGE);
    for (size_t i = 0; i < size_bytes; i++) { assert_int_equal(at[i], (uint8_t)index); }
    return moves;
}

static void give_all(struct given *given)
{
    while (given->block_count > 0) { give(given, given->block_count - 1); }
    expect_sums_as_in_the_model(given);
}

static void random_calls_agree_with_the_model_and_everything_returns(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct given *given = given_pages((300 + 37 * seed) * PAGE, 24, 40);
        run_at_random(given, seed, 4000, 60);
        give_all(given);
        /* Merged again: the largest aligned run is there at once. */
        size_t run = 1;
        while (run * 2 <= given->page_count) { run *= 2; }
        take(given, BASE_CONTROL, run * PAGE);
        assert_int_equal(given->block_count, 1);
        drop(given);
    }
}

static void what_is_squeezed_is_whole_and_the_rest_is_free(void **state)
{
    (void)state;
    struct given *given = given_pages(500 * PAGE, 24, 40);
    struct base_prng dice;
    base_prng_init(&dice, 5, 0);
    uint32_t moved = 0;
    for (int i = 0; i < 3000; i++) {
        uint64_t what = base_prng_below(&dice, 4);
        if (what < 2) {
            take(given, BASE_CLIENTS, 1 + base_prng_below(&dice, 10 * PAGE));
        } else if (given->block_count > 0) {
            size_t index = base_prng_below(&dice, given->block_count);
            if (what == 2) {
                size_t most_bytes = base_min_size(given->blocks[index].page_count, 3) * PAGE;
                moved += squeeze(given, index, 1 + base_prng_below(&dice, most_bytes)) ? 1 : 0;
            } else {
                give(given, index);
            }
        }
        if (i % 16 == 0) { expect_sums_as_in_the_model(given); }
    }
    assert_true(moved > 0);
    give_all(given);
    drop(given);
}

static void the_tables_of_a_region_that_is_used_again_are_all_that_must_be_zero(void **state)
{
    (void)state;
    for (size_t pages = 20; pages < 700; pages += 23) {
        struct given *given = given_pages(pages * PAGE, 0, 0);
        size_t page_count = given->page_count;
        memset(given->region.at, 0xff, given->region.size_bytes);
        memset(given->region.at, 0, base_pages_tables_bytes(given->region.size_bytes));
        const size_t reserve_bytes[BASE_CLASS_COUNT] = {0, 0, 0};
        assert_int_equal(base_pages_create(given->region, reserve_bytes, &given->pages), BASE_OK);
        assert_int_equal(base_pages_room_bytes(given->pages, BASE_CLIENTS), page_count * PAGE);
        for (size_t i = 0; i < page_count; i++) { take(given, BASE_CLIENTS, PAGE); }
        give_all(given);
        drop(given);
    }
}

static void the_same_calls_give_the_same_places(void **state)
{
    (void)state;
    struct given *a = given_pages(700 * PAGE, 10, 10);
    struct given *b = given_pages(700 * PAGE, 10, 10);
    run_at_random(a, 99, 3000, 50);
    run_at_random(b, 99, 3000, 50);
    assert_int_equal(a->block_count, b->block_count);
    for (size_t i = 0; i < a->block_count; i++) {
        assert_int_equal(a->blocks[i].at - a->first, b->blocks[i].at - b->first);
    }
    drop(a);
    drop(b);
}

static void clients_cannot_take_what_is_kept_for_control_and_replication(void **state)
{
    (void)state;
    struct given *given = given_pages(200 * PAGE, 10, 20);
    while (base_pages_room_bytes(given->pages, BASE_CLIENTS) > 0) { take(given, BASE_CLIENTS, PAGE); }
    assert_int_equal(base_pages_room_bytes(given->pages, BASE_REPLICATION), 20 * PAGE);
    assert_int_equal(base_pages_room_bytes(given->pages, BASE_CONTROL), 30 * PAGE);
    for (int i = 0; i < 20; i++) { take(given, BASE_REPLICATION, PAGE); }
    assert_null(base_pages_take(given->pages, BASE_REPLICATION, PAGE));
    for (int i = 0; i < 10; i++) { take(given, BASE_CONTROL, PAGE); }
    assert_null(base_pages_take(given->pages, BASE_CONTROL, PAGE));
    assert_int_equal(base_pages_missed(given->pages), 2);
    drop(given);
}

static void the_nth_taking_is_refused_and_so_many_after_it(void **state)
{
    (void)state;
    struct given *given = given_pages(300 * PAGE, 0, 0);
    base_pages_refuse(given->pages, 3, 2);
    static const bool is_given[] = {true, true, false, false, true, true};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(is_given); i++) {
        void *block = base_pages_take(given->pages, BASE_CONTROL, 1);
        assert_int_equal(block != NULL, is_given[i]);
        if (block != NULL) { base_pages_give(given->pages, block); }
    }
    assert_int_equal(base_pages_refused(given->pages), 2);
    assert_int_equal(base_pages_missed(given->pages), 2);
    assert_int_equal(base_pages_refusals_left(given->pages), 0);
    assert_int_equal(base_pages_used_bytes(given->pages), 0);
    drop(given);
}

static void a_huge_region_costs_only_what_is_touched(void **state)
{
    (void)state;
    size_t size_bytes = (size_t)256 << 30;
    struct given *given = calloc(1, sizeof *given);
    given->region.at =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (given->region.at == MAP_FAILED) {
        free(given);
        skip(); /* a limit on address space */
    }
    given->region.size_bytes = size_bytes;
    size_t reserve_bytes[BASE_CLASS_COUNT] = {0};
    assert_int_equal(base_pages_create(given->region, reserve_bytes, &given->pages), BASE_OK);
    size_t room_bytes = base_pages_room_bytes(given->pages, BASE_CLIENTS);
    assert_true(room_bytes > size_bytes / 1000 * 998);
    void *small = base_pages_take(given->pages, BASE_CLIENTS, 1);
    void *large = base_pages_take(given->pages, BASE_CLIENTS, (size_t)50 << 30);
    assert_non_null(small);
    assert_non_null(large);
    base_pages_give(given->pages, small);
    base_pages_give(given->pages, large);

    size_t touched = 0;
    static unsigned char in_core[1 << 20];
    size_t step_bytes = sizeof in_core * PAGE;
    for (size_t at = 0; at < size_bytes; at += step_bytes) {
        assert_int_equal(mincore((uint8_t *)given->region.at + at, step_bytes, in_core), 0);
        for (size_t i = 0; i < sizeof in_core; i++) { touched += in_core[i] & 1; }
    }
    assert_in_range(touched, 1, 1200); /* a huge page counts as 512 */
    assert_int_equal(munmap(given->region.at, size_bytes), 0);
    free(given);
}

static void a_region_too_small_or_promised_twice_is_full(void **state)
{
    (void)state;
    static _Alignas(4096) uint8_t memory[40 * 4096];
    struct base_pages *pages = NULL;
    size_t none[BASE_CLASS_COUNT] = {0};
    size_t much[BASE_CLASS_COUNT] = {30 * PAGE, 30 * PAGE, 0};
    for (size_t size = 0; size < 17 * PAGE; size += 512) {
        assert_int_equal(base_pages_create((struct base_region){memory, size}, none, &pages), BASE_FULL);
    }
    assert_int_equal(base_pages_create((struct base_region){memory, sizeof memory}, much, &pages), BASE_FULL);
    assert_null(pages);
    assert_int_equal(base_pages_create((struct base_region){memory, sizeof memory}, none, &pages), BASE_OK);
    assert_null(base_pages_take(pages, BASE_CONTROL, SIZE_MAX));
}

static void wrong_pointers_are_stopped(void **state)
{
    (void)state;
    struct given *given = given_pages(200 * PAGE, 0, 0);
    uint8_t *block = base_pages_take(given->pages, BASE_CLIENTS, 3 * PAGE);
    expect_stop(base_pages_give(given->pages, block + PAGE));
    expect_stop(base_pages_give(given->pages, block + 1));
    expect_stop(base_pages_shrink(given->pages, block, 4 * PAGE));
    base_pages_give(given->pages, block);
    expect_stop(base_pages_give(given->pages, block));
    drop(given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_agree_with_the_model_and_everything_returns),
        cmocka_unit_test(what_is_squeezed_is_whole_and_the_rest_is_free),
        cmocka_unit_test(the_tables_of_a_region_that_is_used_again_are_all_that_must_be_zero),
        cmocka_unit_test(the_same_calls_give_the_same_places),
        cmocka_unit_test(clients_cannot_take_what_is_kept_for_control_and_replication),
        cmocka_unit_test(the_nth_taking_is_refused_and_so_many_after_it),
        cmocka_unit_test(a_huge_region_costs_only_what_is_touched),
        cmocka_unit_test(a_region_too_small_or_promised_twice_is_full),
        cmocka_unit_test(wrong_pointers_are_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
