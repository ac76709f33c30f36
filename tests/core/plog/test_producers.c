/* test_producers.c: idempotence: every combination of epoch and sequence against Kafka's answer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plog__.h"
#include "world.h"

static struct plog__head head_of(int16_t epoch, int32_t first, int32_t last, int64_t offset)
{
    int64_t count = last >= first ? (int64_t)last - first : (int64_t)INT32_MAX - first + last + 1;
    return (struct plog__head){.producer_id = 1,
                               .producer_epoch = epoch,
                               .base_sequence = first,
                               .sequence_last = last,
                               .base_offset = offset,
                               .offset_last = offset + count};
}

static void verdicts_are_kafkas_in_every_combination(void **state)
{
    (void)state;
    /* Kafka 4.3: ProducerStateEntry.findDuplicateBatch, ProducerAppendInfo.checkProducerEpoch and checkSequence. */
    const int32_t ends[] = {0, 9, 100, INT32_MAX - 1, INT32_MAX};
    for (size_t e = 0; e < BASE_ARRAY_COUNT(ends); e++) {
        for (int32_t known = -1; known < 3; known++) {
            for (int16_t epoch = 0; epoch < 4; epoch++) {
                const int32_t firsts[] = {0, 1, 5, 50, ends[e], ends[e] == INT32_MAX ? 0 : ends[e] + 1, INT32_MAX};
                for (size_t f = 0; f < BASE_ARRAY_COUNT(firsts); f++) {
                    struct plog__sequence sequence = {.epoch = (int16_t)known};
                    if (known >= 0) {
                        struct plog__head last = head_of((int16_t)known, ends[e], ends[e], 70);
                        plog__sequence_apply(&sequence, &last, 1);
                    }
                    struct plog__head head = head_of(epoch, firsts[f], firsts[f], 90);
                    struct plog__kept kept;
                    enum plog__verdict verdict = plog__sequence_judge(&sequence, &head, &kept);
                    enum plog__verdict expected;
                    if (known < 0) {
                        expected = PLOG__ACCEPT;
                    } else if (epoch < known) {
                        expected = PLOG__FENCED;
                    } else if (epoch > known) {
                        expected = firsts[f] == 0 ? PLOG__ACCEPT : PLOG__OUT_OF_ORDER;
                    } else if (firsts[f] == ends[e]) {
                        expected = PLOG__DUPLICATE;
                    } else {
                        bool is_next = ends[e] == INT32_MAX ? firsts[f] == 0 : firsts[f] == ends[e] + 1;
                        expected = is_next ? PLOG__ACCEPT : PLOG__OUT_OF_ORDER;
                    }
                    assert_int_equal(verdict, expected);
                    if (verdict == PLOG__DUPLICATE) { assert_int_equal(kept.base_offset, 70); }
                }
            }
        }
    }
}

static void the_last_five_batches_are_known_and_no_more(void **state)
{
    (void)state;
    struct plog__sequence sequence = {.epoch = -1};
    for (int32_t i = 0; i < 8; i++) {
        struct plog__head head = head_of(0, i * 10, i * 10 + 9, i * 10);
        plog__sequence_apply(&sequence, &head, 1);
    }
    for (int32_t i = 0; i < 8; i++) {
        struct plog__head head = head_of(0, i * 10, i * 10 + 9, 500);
        struct plog__kept kept;
        enum plog__verdict verdict = plog__sequence_judge(&sequence, &head, &kept);
        assert_int_equal(verdict, i < 3 ? PLOG__OUT_OF_ORDER : PLOG__DUPLICATE);
        if (i >= 3) { assert_int_equal(kept.base_offset, i * 10); }
        head = head_of(0, i * 10, i * 10 + 8, 500); /* not the same batch */
        assert_int_equal(plog__sequence_judge(&sequence, &head, &kept), PLOG__OUT_OF_ORDER);
    }
}

static void a_batch_may_wrap_around_the_greatest_sequence(void **state)
{
    (void)state;
    struct plog__sequence sequence = {.epoch = -1};
    struct plog__head head = head_of(0, INT32_MAX - 1, 1, 0); /* MAX-1, MAX, 0, 1 */
    plog__sequence_apply(&sequence, &head, 1);
    struct plog__kept kept;
    assert_int_equal(plog__sequence_judge(&sequence, &head, &kept), PLOG__DUPLICATE);
    head = head_of(0, 2, 2, 4);
    assert_int_equal(plog__sequence_judge(&sequence, &head, &kept), PLOG__ACCEPT);
}

/* ---- through the machine ---- */

enum life { SAME, STARTED, STARTED_FROM_A_CHECKPOINT, LIVES };

static uint64_t produce(struct world *world, struct plog_ref ref, int16_t epoch, int32_t sequence)
{
    return world_append(world, ref,
                        (struct batch_ask){.value_bytes = 20, .producer_id = 7, .epoch = epoch, .sequence = sequence});
}

static uint64_t produce_as(struct world *world, struct plog_ref ref, int64_t producer_id, int32_t sequence)
{
    uint64_t token =
        world_append(world, ref,
                     (struct batch_ask){.value_bytes = 5, .producer_id = producer_id, .sequence = sequence});
    world_run(world);
    return token;
}

static void expect(struct world *world, uint64_t token, enum plog_result result, int64_t base_offset)
{
    assert_true(world_answer(world, token)->is_done);
    assert_int_equal(world_answer(world, token)->result, result);
    if (base_offset >= 0) { assert_int_equal(world_answer(world, token)->base_offset, base_offset); }
}

static void batches_of_one_round_are_judged_in_order(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t tokens[] = {produce(world, ref, 0, 0), produce(world, ref, 0, 1), produce(world, ref, 0, 0),
                         produce(world, ref, 0, 3), produce(world, ref, 0, 2), produce(world, ref, 1, 0),
                         produce(world, ref, 0, 3), produce(world, ref, 1, 1)};
    world_run(world);
    expect(world, tokens[0], PLOG_OK, 0);
    expect(world, tokens[1], PLOG_OK, 1);
    expect(world, tokens[2], PLOG_DUPLICATE, 0);
    expect(world, tokens[3], PLOG_OUT_OF_ORDER, -1);
    expect(world, tokens[4], PLOG_OK, 2);
    expect(world, tokens[5], PLOG_OK, 3);
    expect(world, tokens[6], PLOG_FENCED, -1);
    expect(world, tokens[7], PLOG_OK, 4);
    assert_int_equal(world_read_all(world, ref), 5);
    world_free(world);
}

static void a_duplicate_waits_until_its_original_is_durable(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world_start(world);
    world->is_journal_held = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t first = produce(world, ref, 0, 0);
    world_run(world);
    uint64_t again = produce(world, ref, 0, 0);
    world_run(world);
    assert_false(world_answer(world, again)->is_done);
    world_journal_sync(world, 2);
    expect(world, first, PLOG_OK, 0);
    expect(world, again, PLOG_DUPLICATE, 0);
    uint64_t late = produce(world, ref, 0, 0);
    world_run(world);
    expect(world, late, PLOG_DUPLICATE, 0);
    assert_int_equal(world->entry_count, 2);
    world_free(world);
}

static void an_unknown_producer_is_taken_at_its_word(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t first = produce(world, ref, 3, 41);
    uint64_t second = produce(world, ref, 3, 42);
    uint64_t gap = produce(world, ref, 3, 44);
    world_run(world);
    expect(world, first, PLOG_OK, 0);
    expect(world, second, PLOG_OK, 1);
    expect(world, gap, PLOG_OUT_OF_ORDER, -1);
    world_free(world);
}

static void duplicates_are_known_after_a_restart(void **state)
{
    (void)state;
    for (int has_checkpoint = 0; has_checkpoint < 2; has_checkpoint++) {
        struct world *world = world_make(1);
        world_start(world);
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int32_t i = 0; i < 10; i++) {
            (void)produce(world, ref, 0, i);
            world_run(world);
            if (has_checkpoint == 1 && i == 6) {
                world_checkpoint(world);
                world_run(world);
            }
        }
        world_restart(world, CRASH_POWER);
        ref = world_log(world, 0, "topic", 0);
        for (int32_t i = 5; i < 10; i++) {
            uint64_t token = produce(world, ref, 0, i);
            world_run(world);
            expect(world, token, PLOG_DUPLICATE, i);
        }
        uint64_t next = produce(world, ref, 0, 10);
        world_run(world);
        expect(world, next, PLOG_OK, 10);
        world_free(world);
    }
}

static void producers_unused_for_long_are_forgotten(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->config.producer_expiry_ms = 1000000;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)produce(world, ref, 0, 0);
    world_run(world);
    world_alarm(world, 300001);
    assert_int_equal(world->plog->producers.taken_count, 1);
    for (int i = 0; i < 4; i++) { world_alarm(world, 300001); }
    assert_int_equal(world->plog->producers.taken_count, 0);
    world_free(world);
}

static void a_start_with_the_clock_behind_makes_no_producer_idle(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 5, .producer_id = 7, .timestamp = world->wall_ms});
    world_run(world);
    world_restart_behind(world);
    (void)world_log(world, 0, "topic", 0);
    world_alarm(world, 300001);
    assert_int_equal(world->plog->producers.taken_count, 1);
    for (int i = 0; i < 300; i++) { world_alarm(world, 300001); }
    assert_int_equal(world->plog->producers.taken_count, 0); /* its day has passed */
    world_free(world);
}

static void a_clock_that_goes_back_and_partly_forth_makes_no_producer_idle(void **state)
{
    (void)state;
    const int64_t year_ms = INT64_C(31536000000);
    struct world *world = world_make(1);
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    int64_t timestamp = world->wall_ms;
    world->wall_ms -= 3 * year_ms;
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 5, .producer_id = 7, .timestamp = timestamp});
    world_run(world);
    world->wall_ms += 2 * year_ms;
    world_alarm(world, 300001);
    assert_int_equal(world->plog->producers.taken_count, 1);
    world_free(world);
}

static void the_producer_unused_longest_makes_room(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->config.producers_max = 8;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int64_t id = 1; id <= 40; id++) {
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 5, .producer_id = id});
        world_run(world);
        expect(world, token, PLOG_OK, id - 1);
        assert_true(world->plog->producers.taken_count <= 8);
    }
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 5, .producer_id = 35});
    world_run(world);
    expect(world, token, PLOG_DUPLICATE, 34);
    world->is_journal_held = true; /* all in flight: none may go */
    uint64_t tokens[9];
    for (int64_t id = 0; id < 9; id++) {
        tokens[id] = world_append(world, ref, (struct batch_ask){.value_bytes = 5, .producer_id = 100 + id});
    }
    world_run(world);
    expect(world, tokens[8], PLOG_BUSY, -1);
    world->is_journal_held = false;
    world_run(world);
    for (int64_t id = 0; id < 8; id++) { expect(world, tokens[id], PLOG_OK, 40 + id); }
    world_free(world);
}

/* It is the use that counts, not who came first: in life, and when the journal or a checkpoint is read. */
static void a_producer_that_goes_on_stays_and_one_that_rests_makes_room(void **state)
{
    (void)state;
    for (int life = SAME; life < LIVES; life++) {
        struct world *world = world_make(1);
        world->config.producers_max = 8;
        world_start(world);
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int64_t id = 1; id <= 8; id++) { (void)produce_as(world, ref, id, 0); }
        (void)produce_as(world, ref, 1, 1);
        if (life == STARTED_FROM_A_CHECKPOINT) {
            world_checkpoint(world);
            world_run(world);
        }
        if (life != SAME) {
            world_restart(world, CRASH_POWER);
            ref = world_log(world, 0, "topic", 0);
        }
        (void)produce_as(world, ref, 9, 0); /* the one too many */
        expect(world, produce_as(world, ref, 1, 1), PLOG_DUPLICATE, 8);
        expect(world, produce_as(world, ref, 3, 0), PLOG_DUPLICATE, 2);
        expect(world, produce_as(world, ref, 2, 0), PLOG_OK, 10); /* nothing is known of it any more */
        assert_int_equal(world->plog->producers.taken_count, 8);
        world_free(world);
    }
}

static uint64_t produce_many(struct world *world, struct plog_ref ref, int records, int32_t sequence)
{
    struct batch_ask ask = {.records = records, .value_bytes = 20, .producer_id = 7, .sequence = sequence};
    uint64_t token = world_append(world, ref, ask);
    world_run(world);
    return token;
}

static void sequences_go_on_at_zero_after_the_greatest_in_every_life(void **state)
{
    (void)state;
    for (int life = SAME; life < LIVES; life++) {
        struct world *world = world_make(1);
        world_start(world);
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        expect(world, produce_many(world, ref, 4, INT32_MAX - 1), PLOG_OK, 0); /* its last is 1 */
        if (life == STARTED_FROM_A_CHECKPOINT) {
            world_checkpoint(world);
            world_run(world);
        }
        if (life != SAME) {
            world_restart(world, CRASH_POWER);
            ref = world_log(world, 0, "topic", 0);
        }
        expect(world, produce_many(world, ref, 4, INT32_MAX - 1), PLOG_DUPLICATE, 0);
        expect(world, produce_many(world, ref, 1, 3), PLOG_OUT_OF_ORDER, -1);
        expect(world, produce_many(world, ref, 1, 2), PLOG_OK, 4);
        expect(world, produce_many(world, ref, 4, INT32_MAX - 1), PLOG_DUPLICATE, 0);
        world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_are_kafkas_in_every_combination),
        cmocka_unit_test(the_last_five_batches_are_known_and_no_more),
        cmocka_unit_test(a_batch_may_wrap_around_the_greatest_sequence),
        cmocka_unit_test(batches_of_one_round_are_judged_in_order),
        cmocka_unit_test(a_duplicate_waits_until_its_original_is_durable),
        cmocka_unit_test(an_unknown_producer_is_taken_at_its_word),
        cmocka_unit_test(duplicates_are_known_after_a_restart),
        cmocka_unit_test(producers_unused_for_long_are_forgotten),
        cmocka_unit_test(a_start_with_the_clock_behind_makes_no_producer_idle),
        cmocka_unit_test(a_clock_that_goes_back_and_partly_forth_makes_no_producer_idle),
        cmocka_unit_test(the_producer_unused_longest_makes_room),
        cmocka_unit_test(a_producer_that_goes_on_stays_and_one_that_rests_makes_room),
        cmocka_unit_test(sequences_go_on_at_zero_after_the_greatest_in_every_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
