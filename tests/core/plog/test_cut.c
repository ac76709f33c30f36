/* test_cut.c: a log that is truncated, followed and led: what stays, what a crash leaves, what comes back never.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

static struct plog_ref given_log(struct world *world) { return world_log(world, 0, "topic", 1); }

/* So many batches of two records of about 100 bytes, at this epoch. */
static void append_batches(struct world *world, struct plog_ref ref, int count, int32_t epoch)
{
    for (int i = 0; i < count; i++) {
        int64_t timestamp = 1000 + world_view(world, ref).offset_end * 10;
        (void)world_append(
            world, ref,
            (struct batch_ask){.records = 2, .value_bytes = 100, .leader_epoch = epoch, .timestamp = timestamp});
        world_run(world); /* each a round of its own; they are looked at together */
    }
}

static struct answer *truncate(struct world *world, struct plog_ref ref, int64_t offset)
{
    uint64_t token = world_truncate(world, ref, offset);
    assert_int_not_equal(token, 0);
    world_run(world);
    struct answer *answer = world_answer(world, token);
    assert_true(answer->is_done);
    assert_int_equal(answer->kind, PLOG_OUT_TRUNCATED);
    return answer;
}

static void expect_end(struct world *world, struct plog_ref ref, int64_t offset_end)
{
    struct plog_view view = world_view(world, ref);
    assert_int_equal(view.offset_end, offset_end);
    assert_int_equal(view.synced_end, offset_end);
    assert_int_equal(view.watermark, offset_end);
    assert_false(view.is_damaged);
    assert_int_equal(world_read_all(world, ref), offset_end - view.offset_start);
}

static void expect_epoch(struct world *world, struct plog_ref ref, int32_t asked, int32_t epoch, int64_t offset_end)
{
    int32_t found;
    int64_t end;
    plog_epoch_end(world->plog, ref, asked, &found, &end);
    assert_int_equal(found, epoch);
    assert_int_equal(end, offset_end);
}

/* ---- where it ends ---- */

static void a_truncation_ends_the_log_before_the_batch_that_holds_the_offset(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 20, 1);
    struct answer *answer = truncate(world, ref, 13);
    assert_int_equal(answer->result, PLOG_OK);
    assert_int_equal(answer->out.offset, 12);
    expect_end(world, ref, 12);
    assert_int_equal(world_view(world, ref).timestamp_max, 1000 + 100 + 1);
    append_batches(world, ref, 3, 1);
    expect_end(world, ref, 18);
    world_restart(world, CRASH_POWER);
    expect_end(world, world_log(world, 0, "topic", 1), 18);
    world_free(world);
}

static void a_truncation_takes_whole_segments_and_their_files(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_bytes = 1000;
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 20, 1);
    assert_true(world_view(world, ref).segment_count > 4);
    assert_int_equal(truncate(world, ref, 9)->result, PLOG_OK);
    world_alarm(world, 10);
    expect_end(world, ref, 8);
    int files = 0;
    for (int i = 0; i < world->node_count; i++) {
        files += world->nodes[i].is_live && strstr(world->nodes[i].name, ".log") != NULL ? 1 : 0;
    }
    assert_int_equal(files, (int)world_view(world, ref).segment_count);
    append_batches(world, ref, 20, 1); /* segments of the same names again */
    expect_end(world, ref, 48);
    world_restart(world, CRASH_TORN);
    expect_end(world, world_log(world, 0, "topic", 1), 48);
    world_free(world);
}

static void a_log_is_truncated_to_its_start_and_begins_there_again(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 5, 1);
    assert_int_equal(truncate(world, ref, 0)->result, PLOG_OK);
    expect_end(world, ref, 0);
    expect_epoch(world, ref, 1, -1, -1);
    append_batches(world, ref, 2, 2);
    expect_end(world, ref, 4);
    world_restart(world, CRASH_POWER);
    expect_end(world, world_log(world, 0, "topic", 2), 4);
    world_free(world);
}

static void a_truncation_beyond_the_end_takes_nothing_but_an_epoch_without_records(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 3, 1);
    size_t entries = world->entry_count;
    assert_int_equal(truncate(world, ref, 6)->out.offset, 6);
    assert_int_equal(world->entry_count, entries);
    (void)world_begin_epoch(world, ref, 4);
    world_run(world);
    expect_epoch(world, ref, 4, 4, 6);
    assert_int_equal(truncate(world, ref, 99)->out.offset, 6);
    expect_epoch(world, ref, 4, -1, -1);
    expect_epoch(world, ref, 1, 1, 6);
    world_restart(world, CRASH_POWER);
    expect_epoch(world, plog_find(world->plog, world_part(0)), 4, -1, -1);
    world_free(world);
}

/* ---- what it waits for ---- */

static void a_truncation_comes_after_what_was_asked_before_and_before_what_is_asked_after(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 4, 1);
    uint64_t before = world_append(world, ref, (struct batch_ask){.value_bytes = 50, .leader_epoch = 1});
    uint64_t cut = world_truncate(world, ref, 4);
    uint64_t after = world_append(world, ref, (struct batch_ask){.value_bytes = 60, .leader_epoch = 1});
    assert_int_equal(world_truncate(world, ref, 2), 0); /* one at a time */
    world_run(world);
    assert_int_equal(world_answer(world, before)->base_offset, 8);
    assert_int_equal(world_answer(world, before)->result, PLOG_OK);
    assert_int_equal(world_answer(world, cut)->out.offset, 4);
    assert_int_equal(world_answer(world, after)->base_offset, 4);
    expect_end(world, ref, 5);
    world_free(world);
}

static void no_file_is_cut_before_the_journal_has_the_truncation(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 10, 1);
    size_t size = world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size;
    world->is_journal_held = true;
    uint64_t cut = world_truncate(world, ref, 4);
    world_run(world);
    assert_int_equal(world_view(world, ref).offset_end, 4);
    assert_false(world_answer(world, cut)->is_done);
    assert_int_equal(world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size, size);
    world->is_journal_held = false;
    world_run(world);
    assert_true(world_answer(world, cut)->is_done);
    assert_true(world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size < size);
    world_free(world);
}

static void bytes_under_a_lease_stay_until_it_is_back(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 10, 1);
    uint64_t read = world_read(world, ref, 0, 100000);
    world_run(world);
    struct plog_out lease = world_answer(world, read)->out;
    uint8_t *bytes = malloc(lease.size_bytes);
    assert_non_null(bytes);
    memcpy(bytes, world_range(world, &lease), lease.size_bytes);
    assert_int_equal(truncate(world, ref, 4)->result, PLOG_OK);
    uint64_t append = world_append(world, ref, (struct batch_ask){.value_bytes = 50, .leader_epoch = 1});
    world_run(world);
    assert_false(world_answer(world, append)->is_done);
    assert_memory_equal(world_range(world, &lease), bytes, lease.size_bytes);
    world_release(world, &lease);
    world_run(world);
    assert_true(world_answer(world, append)->is_done);
    expect_end(world, ref, 5);
    free(bytes);
    world_free(world);
}

/* ---- crashes ---- */

static void a_crash_at_any_effect_leaves_the_log_as_it_was_or_as_it_is(void **state)
{
    (void)state;
    int befores = 0, afters = 0;
    for (int at = 0; at < 40; at++) {
        for (int crash = CRASH_PROCESS; crash <= CRASH_TORN; crash++) {
            struct world *world = world_make((uint64_t)at + 1);
            world_start(world);
            world->log_config.segment_bytes = 900;
            world->is_shuffled = true;
            struct plog_ref ref = given_log(world);
            append_batches(world, ref, 12, 1);
            world->crash_after = at;
            uint64_t cut = world_truncate(world, ref, 11);
            world_run(world);
            bool is_told = world_answer(world, cut)->is_done;
            world_restart(world, (enum crash)crash);
            ref = given_log(world);
            int64_t end = world_view(world, ref).offset_end;
            assert_true(end == 10 || (end == 24 && !is_told));
            befores += end == 24 ? 1 : 0;
            afters += end == 10 ? 1 : 0;
            expect_end(world, ref, end);
            append_batches(world, ref, 12, 2);
            expect_end(world, ref, end + 24);
            world_restart(world, CRASH_POWER);
            expect_end(world, given_log(world), end + 24);
            world_free(world);
        }
    }
    assert_true(befores > 0 && afters > 0);
}

/* A small run is replayed with its bytes; what took its place must be written again after it. */
static void what_was_cut_never_comes_back_over_what_took_its_place(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 10, 1);
    assert_int_equal(truncate(world, ref, 10)->result, PLOG_OK);
    (void)world_append(world, ref, (struct batch_ask){.records = 3, .value_bytes = 6000, .leader_epoch = 2});
    world_run(world);
    expect_end(world, ref, 13);
    world_restart(world, CRASH_POWER);
    expect_end(world, given_log(world), 13);
    world_free(world);
}

/* A replay flushes the index's tail when it has come to its 64th entry: an effect that is under way when the truncation comes. */
static void a_truncation_is_replayed_behind_the_flush_of_an_index(void **state)
{
    (void)state;
    for (int batches = 64; batches <= 130; batches++) {
        struct world *world = given_world();
        world->log_config.index_interval_bytes = 1; /* an entry for each batch */
        struct plog_ref ref = given_log(world);
        append_batches(world, ref, batches, 1);
        int64_t end = 2 * (int64_t)batches - 4;
        assert_int_equal(truncate(world, ref, end)->result, PLOG_OK);
        world_restart(world, CRASH_POWER);
        ref = given_log(world);
        expect_end(world, ref, end);
        append_batches(world, ref, 3, 1);
        expect_end(world, ref, end + 6);
        world_free(world);
    }
}

static void a_large_run_that_was_cut_in_two_is_damaged_by_nothing(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = given_log(world);
    for (int i = 0; i < 4; i++) { /* one round: one large run of four batches */
        (void)world_append(world, ref, (struct batch_ask){.records = 2, .value_bytes = 1500, .leader_epoch = 1});
    }
    world_run(world);
    assert_int_equal(truncate(world, ref, 4)->result, PLOG_OK);
    append_batches(world, ref, 3, 2);
    world_restart(world, CRASH_POWER);
    ref = given_log(world);
    expect_end(world, ref, 10);
    world_free(world);
}

/* The state is captured after the truncation, and behind the checkpoint's begin stand runs from before it. */
static void a_state_that_knows_the_truncation_takes_no_run_from_before_it(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 3, 1);
    world->is_capturing = true;
    world->entries_begin_next = world->entry_count; /* the checkpoint begins here */
    world->state_count_next = 0;
    append_batches(world, ref, 6, 1);
    assert_int_equal(truncate(world, ref, 4)->result, PLOG_OK);
    plog_checkpoint(world->plog, &world->out);
    append_batches(world, ref, 1, 2);
    world_run(world);
    assert_int_equal(world->checkpoints, 1);
    world_restart(world, CRASH_POWER);
    expect_end(world, given_log(world), 6);
    world_free(world);
}

static void a_truncated_log_takes_large_runs_after_the_next_checkpoint(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->config.run_bytes_max = 5000;
    world_restart(world, CRASH_PROCESS);
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 3, 1);
    assert_int_equal(truncate(world, ref, 2)->result, PLOG_OK);
    struct batch_ask large = {.records = 2, .value_bytes = 3000, .leader_epoch = 1};
    uint64_t refused = world_append(world, ref, large);
    world_run(world);
    assert_int_equal(world_answer(world, refused)->result, PLOG_BUSY);
    assert_int_equal(world->checkpoints_wanted, 1);
    world_checkpoint(world);
    world_run(world);
    uint64_t taken = world_append(world, ref, large);
    world_run(world);
    assert_int_equal(world_answer(world, taken)->result, PLOG_OK);
    expect_end(world, ref, 4);
    world_free(world);
}

/* ---- producers ---- */

static enum plog_result append_of_producer(struct world *world, struct plog_ref ref, int32_t sequence)
{
    uint64_t token =
        world_append(world, ref,
                     (struct batch_ask){.value_bytes = 30, .producer_id = 7, .sequence = sequence, .leader_epoch = 1});
    world_run(world);
    return world_answer(world, token)->result;
}

static void a_producer_is_what_the_records_that_stay_say(void **state)
{
    (void)state;
    for (int is_restarted = 0; is_restarted < 2; is_restarted++) {
        struct world *world = given_world();
        world->log_config.segment_bytes = 600;
        struct plog_ref ref = given_log(world);
        for (int32_t i = 0; i < 14; i++) { assert_int_equal(append_of_producer(world, ref, i), PLOG_OK); }
        assert_int_equal(truncate(world, ref, 8)->result, PLOG_OK);
        if (is_restarted) {
            world_restart(world, CRASH_POWER);
            ref = given_log(world);
        }
        for (int32_t i = 3; i < 8; i++) { assert_int_equal(append_of_producer(world, ref, i), PLOG_DUPLICATE); }
        assert_int_equal(append_of_producer(world, ref, 2), PLOG_OUT_OF_ORDER); /* the sixth last */
        assert_int_equal(append_of_producer(world, ref, 9), PLOG_OUT_OF_ORDER);
        assert_int_equal(append_of_producer(world, ref, 8), PLOG_OK);
        expect_end(world, ref, 9);
        world_free(world);
    }
}

/* ---- epochs ---- */

static void an_epoch_ends_where_the_next_one_begins_and_one_without_records_is_kept(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 2, 1);
    for (int32_t epoch = 3; epoch <= 5; epoch += 2) {
        uint64_t token = world_begin_epoch(world, ref, epoch);
        world_run(world);
        assert_int_equal(world_answer(world, token)->out.offset, epoch == 3 ? 4 : 6);
        if (epoch == 3) { append_batches(world, ref, 1, 3); }
    }
    for (int is_restarted = 0; is_restarted < 2; is_restarted++) {
        expect_epoch(world, ref, 0, 0, 0);
        expect_epoch(world, ref, 1, 1, 4);
        expect_epoch(world, ref, 2, 1, 4);
        expect_epoch(world, ref, 3, 3, 6);
        expect_epoch(world, ref, 4, 3, 6);
        expect_epoch(world, ref, 5, 5, 6);
        expect_epoch(world, ref, 6, -1, -1);
        world_restart(world, CRASH_POWER);
        ref = plog_find(world->plog, world_part(0));
    }
    assert_int_equal(world_view(world, ref).leader_epoch, 5);
    world_free(world);
}

static void an_epoch_begins_behind_what_is_being_written_and_waiting_appends_of_the_old_one_fail(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 1, 1);
    uint64_t writing = world_append(world, ref, (struct batch_ask){.value_bytes = 50, .leader_epoch = 1});
    world->is_held = true;
    world_run(world); /* its write is under way */
    uint64_t waiting = world_append(world, ref, (struct batch_ask){.value_bytes = 50, .leader_epoch = 1});
    uint64_t epoch = world_begin_epoch(world, ref, 2);
    world->is_held = false;
    world_run(world);
    assert_int_equal(world_answer(world, writing)->result, PLOG_OK);
    assert_int_equal(world_answer(world, waiting)->result, PLOG_OLD_EPOCH);
    assert_int_equal(world_answer(world, epoch)->out.offset, 3);
    expect_end(world, ref, 3);
    world_free(world);
}

/* ---- followers ---- */

static enum plog_result follow(struct world *world, struct plog_ref ref, int64_t base_offset, int32_t epoch)
{
    uint64_t token = world_append(world, ref,
                                  (struct batch_ask){.records = 2,
                                                     .value_bytes = 40,
                                                     .leader_epoch = 9,
                                                     .is_assigned = true,
                                                     .base_offset = base_offset,
                                                     .batch_epoch = epoch});
    world_run(world);
    return world_answer(world, token)->result;
}

static void a_followers_batches_follow_the_end_and_never_go_back_in_epoch(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", -1);
    assert_int_equal(follow(world, ref, 1, 2), PLOG_NOT_NEXT);
    assert_int_equal(follow(world, ref, 0, 2), PLOG_OK);
    assert_int_equal(follow(world, ref, 0, 2), PLOG_NOT_NEXT);
    assert_int_equal(follow(world, ref, 3, 2), PLOG_NOT_NEXT);
    assert_int_equal(follow(world, ref, 2, 1), PLOG_NOT_NEXT);
    assert_int_equal(follow(world, ref, 2, 10), PLOG_NOT_NEXT); /* later than its leader's */
    assert_int_equal(follow(world, ref, 2, 4), PLOG_OK);
    expect_epoch(world, ref, 3, 2, 2);
    expect_end(world, ref, 4);
    world_free(world);
}

static void a_watermark_that_is_told_never_passes_what_is_synced_nor_is_taken_during_a_truncation(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_mark_told = true;
    struct plog_ref ref = given_log(world);
    append_batches(world, ref, 10, 1);
    assert_int_equal(world_view(world, ref).watermark, 0);
    plog_watermark(world->plog, ref, 6, &world->out);
    assert_int_equal(world_view(world, ref).watermark, 6);
    uint64_t read = world_read(world, ref, 2, 100000);
    world_run(world);
    struct plog_out lease = world_answer(world, read)->out;
    struct base_slice rest = base_slice_of(world_range(world, &lease), lease.size_bytes);
    struct rec_batch batch;
    int64_t end = 0;
    while (rec_batch_next(&rest, &batch) == REC_OK) { end = rec_offset_end(&batch); }
    assert_int_equal(end, 6);
    world_release(world, &lease);
    (void)world_truncate(world, ref, 10);
    plog_watermark(world->plog, ref, 16, &world->out);
    assert_int_equal(world_view(world, ref).watermark, 6);
    world_run(world);
    plog_watermark(world->plog, ref, 16, &world->out);
    assert_int_equal(world_view(world, ref).watermark, 10);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_truncation_ends_the_log_before_the_batch_that_holds_the_offset),
        cmocka_unit_test(a_truncation_takes_whole_segments_and_their_files),
        cmocka_unit_test(a_log_is_truncated_to_its_start_and_begins_there_again),
        cmocka_unit_test(a_truncation_beyond_the_end_takes_nothing_but_an_epoch_without_records),
        cmocka_unit_test(a_truncation_comes_after_what_was_asked_before_and_before_what_is_asked_after),
        cmocka_unit_test(no_file_is_cut_before_the_journal_has_the_truncation),
        cmocka_unit_test(bytes_under_a_lease_stay_until_it_is_back),
        cmocka_unit_test(a_crash_at_any_effect_leaves_the_log_as_it_was_or_as_it_is),
        cmocka_unit_test(what_was_cut_never_comes_back_over_what_took_its_place),
        cmocka_unit_test(a_truncation_is_replayed_behind_the_flush_of_an_index),
        cmocka_unit_test(a_large_run_that_was_cut_in_two_is_damaged_by_nothing),
        cmocka_unit_test(a_state_that_knows_the_truncation_takes_no_run_from_before_it),
        cmocka_unit_test(a_truncated_log_takes_large_runs_after_the_next_checkpoint),
        cmocka_unit_test(a_producer_is_what_the_records_that_stay_say),
        cmocka_unit_test(an_epoch_ends_where_the_next_one_begins_and_one_without_records_is_kept),
        cmocka_unit_test(an_epoch_begins_behind_what_is_being_written_and_waiting_appends_of_the_old_one_fail),
        cmocka_unit_test(a_followers_batches_follow_the_end_and_never_go_back_in_epoch),
        cmocka_unit_test(a_watermark_that_is_told_never_passes_what_is_synced_nor_is_taken_during_a_truncation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
