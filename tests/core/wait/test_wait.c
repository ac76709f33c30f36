/* test_wait.c: what makes a parked answer due, in which order, and a model of it all at random.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wait/wait.h"

static _Alignas(16) uint8_t memory[32 << 20];

static struct wait *given_wait_of(uint32_t parked_max, uint32_t watches_max, bool is_check_slow)
{
    struct base_arena arena;
    struct wait *wait;
    struct wait_config config = {parked_max, watches_max, is_check_slow};
    assert_true(wait_arena_bytes(&config) <= sizeof memory);
    base_arena_init(&arena, memory, wait_arena_bytes(&config));
    assert_int_equal(wait_create(&arena, &config, &wait), BASE_OK);
    return wait;
}

static struct wait *given_wait(void) { return given_wait_of(8, 16, true); }

static void park(struct wait *wait, uint64_t token, uint64_t deadline_ns)
{
    assert_int_equal(wait_park(wait, token, deadline_ns), BASE_OK);
}

static void watch(struct wait *wait, uint64_t token, uint32_t place, int64_t offset)
{
    assert_int_equal(wait_watch(wait, token, place, offset), BASE_OK);
}

static void expect_none_due(struct wait *wait)
{
    uint64_t token;
    enum wait_why why;
    assert_false(wait_next_due(wait, &token, &why));
}

static void expect_due(struct wait *wait, uint64_t token_expected, enum wait_why why_expected)
{
    uint64_t token;
    enum wait_why why;
    assert_true(wait_next_due(wait, &token, &why));
    assert_int_equal(token, token_expected);
    assert_int_equal(why, why_expected);
    assert_false(wait_is_parked(wait, token));
}

static void a_parked_answer_is_due_once_the_watermark_is_past_what_it_watches(void **state)
{
    (void)state;
    struct wait *wait = given_wait();
    park(wait, 1, 500);
    watch(wait, 1, 7, 10);
    wait_advance(wait, 7, 10); /* offset 10 is not below the watermark yet */
    expect_none_due(wait);
    wait_advance(wait, 8, 100); /* another place */
    expect_none_due(wait);
    wait_advance(wait, 7, 11);
    expect_due(wait, 1, WAIT_REACHED);
    expect_none_due(wait);
    assert_int_equal(wait_watch_count(wait), 0);
}

static void the_deadline_makes_it_due_at_its_very_nanosecond(void **state)
{
    (void)state;
    struct wait *wait = given_wait();
    park(wait, 1, 500);
    park(wait, 2, 400);
    park(wait, 3, UINT64_MAX);
    watch(wait, 1, 7, 10);
    assert_int_equal(wait_next_deadline_ns(wait), 400);
    wait_expire(wait, 399);
    expect_none_due(wait);
    wait_expire(wait, 500);
    expect_due(wait, 2, WAIT_EXPIRED);
    expect_due(wait, 1, WAIT_EXPIRED);
    expect_none_due(wait);
    assert_int_equal(wait_next_deadline_ns(wait), UINT64_MAX);
    assert_true(wait_is_parked(wait, 3));
}

static void a_disturbance_makes_all_of_its_place_due(void **state)
{
    (void)state;
    struct wait *wait = given_wait();
    for (uint64_t token = 1; token <= 3; token++) {
        park(wait, token, UINT64_MAX);
        watch(wait, token, (uint32_t)token / 3, INT64_MAX);
    }
    wait_disturb(wait, 0);
    expect_due(wait, 1, WAIT_DISTURBED);
    expect_due(wait, 2, WAIT_DISTURBED);
    expect_none_due(wait);
    assert_true(wait_is_parked(wait, 3));
}

static void one_of_many_watches_is_enough_and_the_others_go(void **state)
{
    (void)state;
    struct wait *wait = given_wait();
    park(wait, 1, UINT64_MAX);
    for (uint32_t place = 0; place < 5; place++) { watch(wait, 1, place, 3); }
    watch(wait, 1, 4, 1);
    wait_advance(wait, 4, 2);
    wait_advance(wait, 2, 9);
    expect_due(wait, 1, WAIT_REACHED);
    expect_none_due(wait);
    assert_int_equal(wait_watch_count(wait), 0);
}

static void a_cancelled_one_is_never_handed_out(void **state)
{
    (void)state;
    struct wait *wait = given_wait();
    park(wait, 1, 10);
    park(wait, 2, 10);
    watch(wait, 1, 0, 0);
    watch(wait, 2, 0, 1);
    wait_advance(wait, 0, 5);
    wait_cancel(wait, 1); /* it carries the mark of its place: the next one has it now */
    wait_cancel(wait, 1);
    wait_cancel(wait, 99);
    expect_due(wait, 2, WAIT_REACHED);
    expect_none_due(wait);
    wait_expire(wait, 100);
    expect_none_due(wait);
}

static void in_a_place_the_smaller_offset_is_first_and_then_the_older(void **state)
{
    (void)state;
    struct wait *wait = given_wait();
    const int64_t offsets[] = {5, 3, 5, 3};
    for (uint64_t i = 0; i < 4; i++) {
        park(wait, i + 1, UINT64_MAX);
        watch(wait, i + 1, 0, offsets[i]);
    }
    park(wait, 9, UINT64_MAX);
    watch(wait, 9, 1, 0);
    wait_advance(wait, 1, 1); /* marked first: handed out first */
    wait_advance(wait, 0, 6);
    expect_due(wait, 9, WAIT_REACHED);
    expect_due(wait, 2, WAIT_REACHED);
    expect_due(wait, 4, WAIT_REACHED);
    expect_due(wait, 1, WAIT_REACHED);
    expect_due(wait, 3, WAIT_REACHED);
    expect_none_due(wait);
}

static void a_place_marked_first_is_emptied_before_the_next(void **state)
{
    (void)state;
    struct wait *wait = given_wait();
    for (uint64_t token = 1; token <= 4; token++) {
        park(wait, token, UINT64_MAX);
        watch(wait, token, token <= 2 ? 9 : 0, (int64_t)token);
    }
    wait_advance(wait, 9, 100);
    wait_advance(wait, 0, 100);
    for (uint64_t token = 1; token <= 4; token++) { expect_due(wait, token, WAIT_REACHED); }
}

static void a_disturbance_after_a_watermark_is_what_they_hear_of(void **state)
{
    (void)state;
    struct wait *wait = given_wait();
    const int64_t offsets[] = {1, 8, INT64_MAX};
    for (uint64_t i = 0; i < 3; i++) {
        park(wait, i + 1, UINT64_MAX);
        watch(wait, i + 1, 0, offsets[i]);
    }
    wait_advance(wait, 0, 5);
    wait_disturb(wait, 0);
    wait_advance(wait, 0, 6); /* takes nothing back */
    for (uint64_t token = 1; token <= 3; token++) { expect_due(wait, token, WAIT_DISTURBED); }
}

static void no_room_is_said_before_anything_has_changed(void **state)
{
    (void)state;
    struct wait *wait = given_wait_of(2, 3, true);
    park(wait, 1, 1);
    park(wait, 2, 2);
    assert_int_equal(wait_park(wait, 3, 3), BASE_FULL);
    for (uint32_t i = 0; i < 3; i++) { watch(wait, 1, i, 0); }
    assert_int_equal(wait_watch(wait, 2, 0, 0), BASE_FULL);
    assert_int_equal(wait_parked_count(wait), 2);
    assert_int_equal(wait_watch_count(wait), 3);
    wait_cancel(wait, 1);
    watch(wait, 2, 0, 0);
    park(wait, 3, 3);
    assert_true(wait_is_sound(wait));
}

static void an_arena_too_small_is_full_at_every_size(void **state)
{
    (void)state;
    struct wait_config config = {4, 4, true};
    size_t needed = 0;
    for (size_t bytes = 0; needed == 0; bytes += 16) {
        struct base_arena arena;
        struct wait *wait = NULL;
        base_arena_init(&arena, memory, bytes);
        if (wait_create(&arena, &config, &wait) == BASE_OK) { needed = bytes; }
        if (needed == 0) { assert_null(wait); }
    }
    assert_true(needed <= wait_arena_bytes(&config));
}

static void ten_thousand_waiters_are_woken_a_portion_at_a_time(void **state)
{
    (void)state;
    struct wait *wait = given_wait_of(10000, 10000, false);
    for (uint64_t token = 1; token <= 10000; token++) {
        park(wait, token, UINT64_MAX);
        watch(wait, token, 3, (int64_t)(token * 7919 % 10000));
    }
    wait_advance(wait, 3, 9000);
    uint32_t woken = 0;
    int64_t last = -1;
    uint64_t token;
    enum wait_why why;
    while (wait_next_due(wait, &token, &why)) {
        int64_t offset = (int64_t)(token * 7919 % 10000);
        assert_true(offset > last);
        last = offset;
        woken += 1;
        assert_int_equal(wait_parked_count(wait), 10000 - woken);
        if (woken == 100) { wait_advance(wait, 3, 9500); } /* grows while the portion is pulled */
    }
    assert_int_equal(woken, 9500);
    assert_true(wait_is_sound(wait));
}

/* The model: a flat table. What is handed out must be due in it, and when none is, none may be. */
#define TOKENS 12
#define PLACES 4
struct model {
    bool is_parked;
    uint64_t deadline_ns;
    bool is_due;
    uint32_t watches_count;
    uint32_t places[6];
    int64_t offsets[6];
};

static void pull(struct wait *wait, struct model *model, uint32_t at_most, uint64_t now_ns)
{
    uint64_t token;
    enum wait_why why;
    for (uint32_t i = 0; i < at_most; i++) {
        if (!wait_next_due(wait, &token, &why)) {
            for (uint32_t j = 0; j < TOKENS; j++) {
                assert_false(model[j].is_parked && (model[j].is_due || model[j].deadline_ns <= now_ns));
            }
            return;
        }
        struct model *it = &model[token - 1];
        assert_true(it->is_parked);
        assert_int_equal(why == WAIT_EXPIRED, it->deadline_ns <= now_ns);
        assert_true(it->is_due || it->deadline_ns <= now_ns);
        it->is_parked = false;
    }
}

static void at_random_just_the_due_ones_are_handed_out(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct base_prng dice;
        base_prng_init(&dice, seed, 0);
        struct wait *wait = given_wait_of(TOKENS, TOKENS * 4, true);
        struct model model[TOKENS] = {0};
        uint64_t now_ns = 0;
        bool is_pulled = true; /* a watch added while marks are open may be woken with them; the model adds none then */
        for (uint32_t step = 0; step < 300; step++) {
            uint32_t token = (uint32_t)base_prng_below(&dice, TOKENS);
            struct model *it = &model[token];
            uint32_t place = (uint32_t)base_prng_below(&dice, PLACES);
            int64_t offset = (int64_t)base_prng_below(&dice, 20);
            switch (base_prng_below(&dice, 6)) {
            case 0:
            case 1:
                if (!is_pulled) { break; }
                if (!it->is_parked) {
                    *it = (struct model){.is_parked = true, .deadline_ns = now_ns + 1 + base_prng_below(&dice, 100)};
                    park(wait, token + 1, it->deadline_ns);
                }
                if (it->watches_count < 6 && wait_watch(wait, token + 1, place, offset) == BASE_OK) {
                    it->places[it->watches_count] = place;
                    it->offsets[it->watches_count] = offset;
                    it->watches_count += 1;
                }
                break;
            case 2:
            case 3: {
                bool is_disturbance = base_prng_chance(&dice, 1, 8);
                for (uint32_t i = 0; i < TOKENS; i++) {
                    for (uint32_t j = 0; j < model[i].watches_count; j++) {
                        if (model[i].places[j] == place && (is_disturbance || model[i].offsets[j] < offset)) {
                            model[i].is_due = true;
                        }
                    }
                }
                if (is_disturbance) {
                    wait_disturb(wait, place);
                } else {
                    wait_advance(wait, place, offset);
                }
                is_pulled = false;
                break;
            }
            case 4:
                wait_cancel(wait, token + 1);
                it->is_parked = false;
                it->watches_count = 0;
                break;
            default:
                now_ns += base_prng_below(&dice, 10);
                wait_expire(wait, now_ns);
                pull(wait, model, (uint32_t)base_prng_below(&dice, 3), now_ns);
                if (base_prng_chance(&dice, 1, 2)) {
                    pull(wait, model, UINT32_MAX, now_ns);
                    is_pulled = true;
                }
                break;
            }
            for (uint32_t i = 0; i < TOKENS; i++) {
                assert_int_equal(wait_is_parked(wait, i + 1), model[i].is_parked);
                if (!model[i].is_parked) { model[i].watches_count = 0; }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parked_answer_is_due_once_the_watermark_is_past_what_it_watches),
        cmocka_unit_test(the_deadline_makes_it_due_at_its_very_nanosecond),
        cmocka_unit_test(a_disturbance_makes_all_of_its_place_due),
        cmocka_unit_test(one_of_many_watches_is_enough_and_the_others_go),
        cmocka_unit_test(a_cancelled_one_is_never_handed_out),
        cmocka_unit_test(in_a_place_the_smaller_offset_is_first_and_then_the_older),
        cmocka_unit_test(a_place_marked_first_is_emptied_before_the_next),
        cmocka_unit_test(a_disturbance_after_a_watermark_is_what_they_hear_of),
        cmocka_unit_test(no_room_is_said_before_anything_has_changed),
        cmocka_unit_test(an_arena_too_small_is_full_at_every_size),
        cmocka_unit_test(ten_thousand_waiters_are_woken_a_portion_at_a_time),
        cmocka_unit_test(at_random_just_the_due_ones_are_handed_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
