/* test_recover.c: what a restart finds, wherever the machine was stopped.
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

/* ---- a story, and what must hold after a crash anywhere in it ---- */

#define LOGS 3
struct promise {
    int64_t acked_end[LOGS]; /* all below was answered SYNCED */
    int64_t start[LOGS];
};

static void note_acks(struct world *world, const uint64_t *tokens, const int *logs, const int *counts, int count,
                      struct promise *promise)
{
    for (int i = 0; i < count; i++) {
        if (tokens[i] == 0) { continue; }
        const struct answer *answer = world_answer(world, tokens[i]);
        if (!answer->is_done || answer->kind != PLOG_OUT_SYNCED || answer->result != PLOG_OK) { continue; }
        int64_t end = answer->base_offset + counts[i];
        if (end > promise->acked_end[logs[i]]) { promise->acked_end[logs[i]] = end; }
    }
}

static void tell_story(struct world *world, bool is_page_cache, int32_t epoch, struct promise *promise)
{
    uint64_t tokens[120];
    int logs[120];
    int counts[120];
    int count = 0;
    world->log_config.is_page_cache = is_page_cache;
    struct plog_ref refs[LOGS];
    for (int i = 0; i < LOGS; i++) { refs[i] = world_log(world, i, "topic", epoch); }
    int32_t sequence = 0;
    for (int i = 0; i < 40 && !world->is_crashed; i++) {
        int log = i % LOGS;
        int records = 1 + i % 3;
        size_t size = i % 11 == 7 ? 5000 : 150;
        bool is_idempotent = log == 1;
        uint64_t token = world_append(world, refs[log],
                                      (struct batch_ask){.records = records,
                                                         .value_bytes = size,
                                                         .timestamp = 1000 + i,
                                                         .producer_id = is_idempotent ? 50 + epoch : 0,
                                                         .sequence = sequence,
                                                         .leader_epoch = epoch});
        if (is_idempotent) { sequence += records; }
        tokens[count] = token;
        logs[count] = log;
        counts[count++] = records;
        for (int k = 0; k < i % 5; k++) { (void)world_step(world); }
        if (i == 13 || i == 29) {
            world_checkpoint(world);
            if (i == 29) { world_run(world); }
        }
        if (i == 20) {
            world_run(world);
            int64_t start = world_view(world, refs[0]).watermark / 2;
            world->answers[world->next_token] = (struct answer){0};
            if (!world->is_crashed &&
                plog_move_start(world->plog, refs[0], world->next_token++, start, &world->out) == BASE_OK) {
                promise->start[0] = start;
            }
        }
    }
    world_run(world);
    note_acks(world, tokens, logs, counts, count, promise);
}

static void expect_promise(struct world *world, const struct promise *promise)
{
    for (int i = 0; i < LOGS; i++) {
        struct plog_ref ref = plog_find(world->plog, world_part(i));
        if (ref.generation == 0) {
            assert_int_equal(promise->acked_end[i], 0);
            continue;
        }
        struct plog_view view = world_view(world, ref);
        assert_false(view.is_damaged);
        assert_false(view.is_failed);
        assert_true(view.watermark >= promise->acked_end[i]);
        assert_int_equal(view.watermark, view.offset_end);
        (void)world_read_all(world, ref);
    }
}

static void nothing_acknowledged_is_lost_wherever_it_stops(void **state)
{
    (void)state;
    for (int crash = CRASH_PROCESS; crash <= CRASH_TORN; crash++) {
        int64_t at = 0;
        for (bool is_over = false; !is_over; at++) {
            struct world *world = world_make((uint64_t)at + 7);
            world->log_config.segment_bytes = 2500;
            world->is_shuffled = at % 2 == 1;
            world->crash_after = at;
            world_start(world);
            struct promise promise = {0};
            tell_story(world, false, 1, &promise);
            is_over = !world->is_crashed;
            world_restart(world, (enum crash)crash);
            expect_promise(world, &promise);
            /* and it goes on, through another life */
            tell_story(world, false, 2, &promise);
            world_restart(world, (enum crash)crash);
            expect_promise(world, &promise);
            world_free(world);
        }
        assert_true(at > 100); /* so many places to stop at */
    }
}

static void a_crash_during_recovery_changes_nothing(void **state)
{
    (void)state;
    for (int crash = CRASH_PROCESS; crash <= CRASH_TORN; crash++) {
        for (int64_t first = 20; first < 400; first += 60) {
            int64_t second = 0;
            for (bool is_over = false; !is_over; second += 3) {
                struct world *world = world_make((uint64_t)(first * 1000 + second));
                world->log_config.segment_bytes = 2500;
                world->crash_after = first;
                world_start(world);
                struct promise promise = {0};
                tell_story(world, false, 1, &promise);
                world_crash(world, (enum crash)crash);
                world->crash_after = second;
                world_start(world);
                is_over = !world->is_crashed;
                world_crash(world, (enum crash)crash);
                world->crash_after = second / 2;
                world_start(world);
                world_restart(world, (enum crash)crash);
                expect_promise(world, &promise);
                world_free(world);
            }
        }
    }
}

static void page_cache_logs_keep_what_a_dead_process_wrote(void **state)
{
    (void)state;
    int64_t at = 0;
    for (bool is_over = false; !is_over; at += 3) {
        struct world *world = world_make((uint64_t)at + 7);
        world->log_config.segment_bytes = 2500;
        world->crash_after = at;
        world_start(world);
        struct promise promise = {0};
        tell_story(world, true, 1, &promise);
        is_over = !world->is_crashed;
        world_restart(world, CRASH_PROCESS);
        expect_promise(world, &promise);
        world_free(world);
    }
}

static void page_cache_logs_are_cut_at_the_first_bad_batch_after_a_power_loss(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 150; seed++) {
        struct world *world = world_make(seed);
        world->log_config.segment_bytes = seed % 2 == 0 ? 2500 : 700;
        world->crash_after = (int64_t)seed * 4;
        world_start(world);
        struct promise promise = {0};
        tell_story(world, true, 1, &promise);
        world_restart(world, CRASH_TORN);
        for (int i = 0; i < LOGS; i++) {
            struct plog_ref ref = plog_find(world->plog, world_part(i));
            if (ref.generation == 0) { continue; }
            assert_false(world_view(world, ref).is_damaged);
            (void)world_read_all(world, ref);
        }
        struct promise none = {0};
        tell_story(world, true, 2, &none);
        world_free(world);
    }
}

/* ---- equality of states ---- */

static uint8_t *state_of(struct world *world, int log, uint64_t *size_out)
{
    struct plog__log *found = plog__log_by_id(world->plog, world_part(log));
    assert_non_null(found);
    *size_out = plog__state_bytes(world->plog, found);
    uint8_t *bytes = malloc(*size_out);
    assert_non_null(bytes);
    (void)plog__state_write(world->plog, found, bytes, *size_out);
    return bytes;
}

static void replayed_state_equals_the_state_that_was_alive(void **state)
{
    (void)state;
    for (int checkpoints = 0; checkpoints < 3; checkpoints++) {
        struct world *world = given_world();
        world->log_config.segment_bytes = 6000;
        struct plog_ref ref = world_log(world, 0, "topic", 4);
        for (int i = 0; i < 300; i++) {
            (void)world_append(world, ref,
                               (struct batch_ask){.value_bytes = (size_t)(i % 37) * 9,
                                                  .timestamp = 1000 + (i * 7) % 400,
                                                  .producer_id = 5 + i % 3,
                                                  .sequence = i / 3,
                                                  .leader_epoch = 4});
            if (i % 4 == 0) { world_run(world); }
            if (checkpoints > 0 && i % (300 / checkpoints) == 17) {
                world_checkpoint(world);
                world_run(world);
            }
        }
        world_run(world);
        uint64_t alive_size;
        uint64_t replayed_size;
        uint8_t *alive = state_of(world, 0, &alive_size);
        world_restart(world, CRASH_POWER);
        (void)world_log(world, 0, "topic", 4);
        uint8_t *replayed = state_of(world, 0, &replayed_size);
        assert_int_equal(alive_size, replayed_size);
        assert_memory_equal(alive, replayed, alive_size);
        free(alive);
        free(replayed);
        world_free(world);
    }
}

static void a_clean_stop_opens_nothing_at_the_next_start(void **state)
{
    (void)state;
    struct world *world = given_world();
    for (int i = 0; i < 5; i++) {
        struct plog_ref ref = world_log(world, i, "topic", 0);
        for (int k = 0; k < 20; k++) { (void)world_append(world, ref, (struct batch_ask){.value_bytes = 90}); }
    }
    world_stop(world);
    assert_true(world_node(world, "topic-0/leader-epoch-checkpoint") >= 0);
    const struct node *node = &world->nodes[world_node(world, "topic-0/leader-epoch-checkpoint")];
    assert_int_equal(node->size, 8);
    assert_memory_equal(node->bytes, "0\n1\n0 0\n", 8);
    assert_true(world->nodes[world_node(world, "topic-0/00000000000000000000.index")].size > 0);
    uint64_t before = world->effects_seen;
    world_restart(world, CRASH_POWER);
    assert_int_equal(world->effects_seen, before);
    for (int i = 0; i < 5; i++) { assert_int_equal(world_read_all(world, plog_find(world->plog, world_part(i))), 20); }
    world_free(world);
}

/* ---- damage ---- */

static void wrong_bytes_of_a_large_run_are_damage_and_the_rest_is_read(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct world *world = given_world();
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int i = 0; i < 9; i++) {
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = i == 4 ? 5000 : 100});
            world_run(world);
        }
        struct node *node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
        size_t at = 4 * (node->size - 5000) / 9 + 700;
        if (kind == 0) { node->bytes[at] ^= 1; }
        if (kind == 1) { node->size = at; }
        if (kind == 2) { node->is_live = false; }
        world_restart(world, CRASH_PROCESS);
        ref = plog_find(world->plog, world_part(0));
        struct plog_view view = world_view(world, ref);
        assert_true(view.is_damaged);
        assert_int_equal(view.watermark, 9); /* never cut */
        for (int64_t offset = 0; offset < 9; offset++) {
            uint64_t token = world_read(world, ref, offset, 300);
            world_run(world);
            bool is_bad = offset == 4 || (kind == 2 && offset < 4 && false);
            assert_int_equal(world_answer(world, token)->result, is_bad ? PLOG_DAMAGED : PLOG_OK);
            world_release(world, &world_answer(world, token)->out);
        }
        ref = world_log(world, 0, "topic", 1);
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 10, .leader_epoch = 1});
        world_run(world);
        assert_int_equal(world_answer(world, token)->base_offset, 9);
        assert_int_equal(world_answer(world, token)->result, PLOG_OK);
        world_restart(world, CRASH_POWER);
        assert_int_equal(world_view(world, plog_find(world->plog, world_part(0))).watermark, 10);
        world_free(world);
    }
}

static void a_damaged_last_run_is_not_cut_either(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 3; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = i == 2 ? 5000 : 100});
        world_run(world);
    }
    struct node *node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
    node->bytes[node->size - 100] ^= 4;
    world_restart(world, CRASH_PROCESS);
    for (int life = 0; life < 2; life++) {
        ref = plog_find(world->plog, world_part(0));
        assert_true(world_view(world, ref).is_damaged);
        assert_int_equal(world_view(world, ref).watermark, 3);
        uint64_t token = world_read(world, ref, 2, 300);
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_DAMAGED);
        world_checkpoint(world);
        world_run(world);
        world_restart(world, CRASH_PROCESS);
    }
    world_free(world);
}

/* Its newest record stood in what is lost, and nobody knows its time any more. */
static void a_damaged_segment_ages_from_when_it_was_replayed(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.retention_ms = 3600000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    int64_t old_ms = world->wall_ms - 7200000;
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = old_ms});
    world_run(world);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 5000, .timestamp = world->wall_ms});
    world_run(world);
    struct node *node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
    node->bytes[node->size - 100] ^= 4;
    world_restart(world, CRASH_PROCESS);
    for (int life = 0; life < 2; life++) { /* the second one from a checkpoint */
        ref = world_log(world, 0, "topic", 0);
        assert_true(world_view(world, ref).is_damaged);
        for (int i = 0; i < 5; i++) { world_alarm(world, 300001); }
        assert_int_equal(world_view(world, ref).offset_start, 0);
        if (life > 0) { break; }
        world_stop(world);
        world_restart(world, CRASH_PROCESS);
    }
    for (int i = 0; i < 3; i++) { world_alarm(world, 300001); }
    assert_int_equal(world_view(world, ref).offset_start, 2); /* its hour has passed */
    world_free(world);
}

static void a_short_or_missing_segment_below_the_line_is_damage_when_it_is_met(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct world *world = given_world();
        world->log_config.segment_bytes = 1000;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int i = 0; i < 30; i++) {
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
            world_run(world);
        }
        world_stop(world);
        struct node *node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
        if (kind == 0) { node->size = 400; } /* in the header of the third batch */
        if (kind == 1) { node->is_live = false; }
        if (kind == 2) { node->size = 450; } /* in its records */
        world_restart(world, CRASH_PROCESS);
        ref = world_log(world, 0, "topic", 1);
        for (int64_t offset = 0; offset < 30; offset++) {
            uint64_t token = world_read(world, ref, offset, 150);
            world_run(world);
            enum plog_result result = world_answer(world, token)->result;
            int64_t good_end = kind == 1 ? 0 : 2;
            int64_t bad_end = 5;
            if (offset < good_end || offset >= bad_end) {
                assert_int_equal(result, PLOG_OK);
            } else {
                assert_int_equal(result, PLOG_DAMAGED);
            }
            world_release(world, &world_answer(world, token)->out);
        }
        assert_true(world_view(world, ref).is_damaged);
        world_free(world);
    }
}

static void a_short_active_segment_is_left_as_it_is_and_a_new_one_is_begun(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 10; i++) { (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100}); }
    world_stop(world);
    world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size = 500;
    world_restart(world, CRASH_PROCESS);
    ref = world_log(world, 0, "topic", 1);
    uint64_t token =
        world_append(world, ref, (struct batch_ask){.value_bytes = 10, .producer_id = 3, .leader_epoch = 1});
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    assert_int_equal(world_answer(world, token)->base_offset, 10);
    assert_int_equal(world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size, 500);
    assert_true(world_node(world, "topic-0/00000000000000000010.log") >= 0);
    world_restart(world, CRASH_POWER);
    assert_int_equal(world_view(world, plog_find(world->plog, world_part(0))).watermark, 11);
    world_free(world);
}

/* A run behind the hole makes the file as long as it should be; a second start, before any checkpoint, sees the hole all the same. */
static void a_hole_that_a_replayed_run_was_written_behind_is_never_served(void **state)
{
    (void)state;
    for (uint64_t size = 1; size < 3 * 180; size += 7) {
        struct world *world = given_world();
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int i = 0; i < 3; i++) { (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100}); }
        world_run(world);
        world_checkpoint(world);
        world_run(world);
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
        assert_int_equal(world_view(world, ref).watermark, 4);
        struct node *node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
        uint64_t batch_bytes = node->size / 4;
        bool is_short = size < 3 * batch_bytes;
        node->size = base_min_size(size, node->size);
        for (int life = 0; life < 2; life++) {
            world_restart(world, CRASH_PROCESS);
            ref = plog_find(world->plog, world_part(0));
            assert_int_equal(world_view(world, ref).watermark, 4);
            for (int64_t offset = 0; offset < 3; offset++) {
                uint64_t token = world_read(world, ref, offset, 100);
                world_run(world);
                struct answer *answer = world_answer(world, token);
                bool is_whole = !is_short || ((uint64_t)offset + 1) * batch_bytes <= size;
                assert_int_equal(answer->result, is_whole ? PLOG_OK : PLOG_DAMAGED);
                world_release(world, &answer->out);
            }
            node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
            assert_int_equal(node->size, 4 * batch_bytes); /* the last one is there again */
        }
        world_free(world);
    }
}

static void what_no_run_names_is_cut_before_the_next_append(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->is_journal_held = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    world_journal_sync(world, 9);
    for (int i = 0; i < 5; i++) { (void)world_append(world, ref, (struct batch_ask){.value_bytes = 300}); }
    world_run(world); /* written, never journalled */
    world_restart(world, CRASH_PROCESS);
    ref = world_log(world, 0, "topic", 1);
    assert_int_equal(world_view(world, ref).offset_end, 1);
    assert_int_equal(world_read_all(world, ref), 1);
    world->is_journal_held = false;
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 20, .leader_epoch = 1});
    world_run(world);
    const struct node *node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
    assert_int_equal(node->size, world_view(world, ref).size_bytes);
    assert_int_equal(world_read_all(world, ref), 2);
    world_free(world);
}

/* Its runs are in the journal still, and their bytes were in the file alone. */
static void files_that_went_with_the_log_start_are_no_damage_at_the_next_start(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_bytes = 5000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 3; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 8000});
        world_run(world);
    }
    uint64_t token = world->next_token++;
    assert_int_equal(plog_move_start(world->plog, ref, token, 2, &world->out), BASE_OK);
    world->wants_continue = true;
    world_run(world);
    world_alarm(world, 5000);
    assert_int_equal(world_node(world, "topic-0/00000000000000000000.log"), -1);
    world_restart(world, CRASH_PROCESS);
    ref = world_log(world, 0, "topic", 0);
    assert_false(world_view(world, ref).is_damaged);
    assert_int_equal(world_read_all(world, ref), 1);
    world_free(world);
}

/* The replay makes the file again from the journal's bytes: a new name, that a later run must not rely on before it is durable. */
static void a_segment_that_a_replay_made_again_survives_the_next_power_loss(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    world_crash(world, CRASH_POWER);
    struct node *file = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
    file->is_live = file->is_durable = false;
    world_start(world);
    ref = world_log(world, 0, "topic", 0);
    uint64_t token =
        world_append(world, ref, (struct batch_ask){.value_bytes = 8000}); /* synced in its segment alone */
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    world_restart(world, CRASH_POWER);
    ref = world_log(world, 0, "topic", 0);
    assert_int_equal(world_read_all(world, ref), 2);
    world_free(world);
}

static struct node *first_segment(struct world *world)
{
    return &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
}

/* Two batches: a third of any size that is appended begins the next segment. */
static struct world *given_a_full_segment(void)
{
    struct world *world = given_world();
    world->log_config.segment_bytes = 400;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 2; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
    }
    return world;
}

static struct world *given_a_full_segment_in_a_checkpoint(void)
{
    struct world *world = given_a_full_segment();
    world_checkpoint(world);
    world_run(world);
    return world;
}

/* By the next leader. */
static uint64_t append_to_the_next_segment(struct world *world, struct plog_ref ref)
{
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 300, .leader_epoch = 1});
    world_run(world);
    return token;
}

/* In the page cache; the disk has what it had. */
static void leave_bytes_behind(struct node *node, size_t size_bytes)
{
    node->bytes = realloc(node->bytes, node->size + size_bytes);
    memset(node->bytes + node->size, 7, size_bytes);
    node->size += size_bytes;
}

static void what_a_crash_left_behind_a_segment_is_cut_when_the_next_begins(void **state)
{
    (void)state;
    for (int is_short = 0; is_short < 2; is_short++) {
        struct world *world = given_a_full_segment_in_a_checkpoint();
        struct node *node = first_segment(world);
        size_t size = node->size;
        world_crash(world, CRASH_PROCESS);
        leave_bytes_behind(node, 50);
        if (is_short == 1) { node->size = size - 1; }
        free(node->synced);
        node->synced = malloc(node->size);
        memcpy(node->synced, node->bytes, node->size);
        node->synced_size = node->size;
        world_start(world);
        struct plog_ref ref = world_log(world, 0, "topic", 1);
        uint64_t token = append_to_the_next_segment(world, ref);
        assert_int_equal(world_answer(world, token)->result, PLOG_OK);
        assert_int_equal(world_view(world, ref).segment_count, 2);
        node = first_segment(world);
        assert_int_equal(node->size, is_short == 1 ? size - 1 : size); /* and what is lost is not made up for */
        assert_int_equal(node->synced_size, node->size);               /* nor comes back what was cut */
        world_free(world);
    }
}

static void what_a_life_cut_and_did_not_live_to_sync_is_synced_when_the_next_segment_begins(void **state)
{
    (void)state;
    struct world *world = given_a_full_segment();
    world_crash(world, CRASH_PROCESS);
    struct node *node = first_segment(world);
    size_t size = node->size;
    world_undo_cut(node, 50);
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 1);
    (void)append_to_the_next_segment(world, ref); /* what comes of it shows below */
    assert_int_equal(world_view(world, ref).segment_count, 2);
    assert_int_equal(first_segment(world)->synced_size, size);
    world_free(world);
}

static void what_a_crash_left_behind_a_segment_is_cut_later_when_handles_lack(void **state)
{
    (void)state;
    struct world *world = given_a_full_segment_in_a_checkpoint();
    world_crash(world, CRASH_PROCESS);
    struct node *node = first_segment(world);
    size_t size = node->size;
    leave_bytes_behind(node, 50);
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 1);
    world_fault(world, (struct fault){.kind = PORT_OPEN, .suffix = ".log", .times = 1, .rc = PORT_NO_HANDLES});
    uint64_t token = append_to_the_next_segment(world, ref);
    assert_int_equal(world_answer(world, token)->result, PLOG_BUSY);
    world_alarm(world, 100);
    world_run(world);
    token = append_to_the_next_segment(world, ref);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    assert_int_equal(world_view(world, ref).segment_count, 2);
    node = first_segment(world);
    assert_int_equal(node->size, size);
    assert_int_equal(node->synced_size, size);
    world_free(world);
}

static void a_checkpoint_does_not_wait_for_ever_for_a_cut_that_finds_no_handle(void **state)
{
    (void)state;
    struct world *world = given_a_full_segment_in_a_checkpoint();
    world_restart(world, CRASH_PROCESS);
    struct plog_ref ref = world_log(world, 0, "topic", 1);
    world_fault(world, (struct fault){.kind = PORT_OPEN, .suffix = ".log", .times = 1000, .rc = PORT_NO_HANDLES});
    uint64_t before_ns = world->now_ns;
    uint64_t token = append_to_the_next_segment(world, ref);
    assert_int_equal(world_answer(world, token)->result, PLOG_BUSY);
    assert_true(world->now_ns - before_ns < UINT64_C(6000000000)); /* not until there is a handle again */
    world_checkpoint(world);
    world_run(world);
    world_stop(world);
    world_free(world);
}

static void bytes_that_lost_entries_may_have_named_are_kept(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 6; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
    }
    size_t size = world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size;
    world_crash(world, CRASH_PROCESS);
    for (int i = 0; i < 2; i++) {
        free(world->entries[--world->entry_count].bytes);
    } /* lost, and the journal says so */
    world->entry_answered = world->entry_count;
    world->mark_damaged = true;
    world_start(world);
    ref = world_log(world, 0, "topic", 1);
    assert_false(world_view(world, ref).is_damaged);
    assert_int_equal(world_view(world, ref).watermark, 6); /* whole batches that follow are taken in */
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 20, .leader_epoch = 1});
    world_run(world);
    assert_true(world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size >= size);
    assert_int_equal(world_view(world, ref).watermark, 7);
    world_free(world);
}

static void a_log_that_fails_while_a_checkpoint_waits_for_it_does_not_hold_it_up(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    world_crash(world, CRASH_PROCESS);
    for (size_t i = 0; i < world->entry_count; i++) { free(world->entries[i].bytes); }
    world->entry_count = world->entry_answered = 0; /* the journal lost what named the file that is there */
    world->mark_damaged = true;
    world_start(world);
    ref = world_log(world, 0, "topic", 0);
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    (void)world_step(world);
    world_checkpoint(world);
    world_run(world);
    assert_int_equal(world_answer(world, token)->kind, PLOG_OUT_FAILED);
    assert_false(world->is_capturing);
    world_free(world);
}

static void what_stands_behind_a_log_that_lost_entries_and_is_no_batch_is_damage_and_stays(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 4; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
    }
    world_crash(world, CRASH_PROCESS);
    free(world->entries[--world->entry_count].bytes);
    world->entry_answered = world->entry_count;
    world->mark_damaged = true;
    struct node *node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
    size_t size = node->size;
    node->bytes[size - 5] ^= 1; /* of the batch that no entry names any more */
    world_start(world);
    ref = world_log(world, 0, "topic", 1);
    assert_true(world_view(world, ref).is_damaged);
    assert_int_equal(world_view(world, ref).watermark, 3);
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 20, .leader_epoch = 1});
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK); /* in a new segment */
    assert_int_equal(node->size, size);
    assert_int_equal(world_read_all(world, ref), 4);
    world_free(world);
}

static void a_log_whose_beginning_was_lost_is_damage_and_not_an_empty_log(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 3; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
    }
    size_t size = world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size;
    world_crash(world, CRASH_PROCESS);
    assert_int_equal(world->entries[0].run.change, PLOG_CHANGE_SEGMENT);
    world->entries_begin = 1;
    world_start(world);
    assert_true(world->plog->has_lost_entries); /* and what nothing names is kept, whosever it is */
    for (int life = 0; life < 2; life++) {
        ref = world_log(world, 0, "topic", 1 + life);
        assert_true(world_view(world, ref).is_failed);
        assert_true(world_view(world, ref).is_damaged);
        uint64_t read = world_read(world, ref, 0, 1000);
        uint64_t append = world_append(world, ref, (struct batch_ask){.value_bytes = 10, .leader_epoch = 1 + life});
        world_run(world);
        assert_int_equal(world_answer(world, read)->result, PLOG_DAMAGED);
        assert_int_equal(world_answer(world, append)->result, PLOG_STORAGE);
        world_checkpoint(world);
        world_run(world);
        world_restart(world, CRASH_PROCESS);
    }
    assert_int_equal(world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size, size);
    world_free(world);
}

static void a_log_that_goes_on_where_it_ended_lost_no_entry(void **state)
{
    (void)state;
    for (int has_later = 0; has_later < 2; has_later++) {
        struct world *world = given_world();
        world->log_config.is_metadata = true; /* of which its end proves nothing */
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int i = 0; i < 4; i++) {
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
            world_run(world);
        }
        world_crash(world, CRASH_POWER);
        world->mark_damaged = true;
        world->mark_before = has_later == 1 ? world->entry_count - 1 : 0;
        world_start(world);
        ref = world_log(world, 0, "topic", 1);
        assert_int_equal(world_view(world, ref).is_damaged, has_later == 0);
        assert_int_equal(world_read_all(world, ref), 4); /* all that is known is read */
        world_free(world);
    }
}

static void files_of_a_state_that_was_refused_are_not_written_over(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 6; i++) { (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100}); }
    world_stop(world);
    size_t size = world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size;
    world_crash(world, CRASH_PROCESS);
    struct state kept = world->states[0];
    world->state_count = 0;
    for (int life = 0; life < 2; life++) {
        world->is_recovery_open = true;
        world_start(world);
        world->is_recovery_open = false;
        if (life == 0) {
            kept.bytes[40] ^= 1;
            assert_int_equal(plog_restore(world->plog, base_slice_of(kept.bytes, kept.size), 1, &world->out), BASE_BAD);
        }
        plog_recovery_end(world->plog, PLOG_LAST_UNCLEAN, &world->out);
        world->wants_continue = true;
        world_run(world);
        if (life == 1) {
            for (size_t i = 0; i < world->state_count; i++) { /* as the journal would have given them before */
                assert_true(world_view(world, plog_find(world->plog, world_part(0))).is_damaged);
            }
        }
        ref = world_log(world, 0, "topic", 1 + life);
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 20, .leader_epoch = 1 + life});
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_STORAGE);
        assert_int_equal(world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size, size);
        world_checkpoint(world);
        world_run(world);
        world_crash(world, CRASH_POWER);
    }
    free(kept.bytes);
    world_start(world);
    world_free(world);
}

static void garbage_in_the_tail_of_an_index_is_not_seen(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct world *world = given_world();
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int i = 0; i < 400; i++) {
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = 200, .timestamp = 5000 + i});
            if (i % 8 == 0) { world_run(world); }
        }
        world_run(world);
        if (kind == 0) {
            world_checkpoint(world);
            world_run(world);
        }
        world_crash(world, CRASH_PROCESS);
        const char *const names[] = {"topic-0/00000000000000000000.index", "topic-0/00000000000000000000.timeindex"};
        for (int i = 0; i < 2; i++) {
            struct node *node = &world->nodes[world_node(world, names[i])];
            if (kind == 2) { /* and what the journal's runs rebuild is wrong beforehand */
                memset(node->bytes, 0xee, node->size);
                continue;
            }
            size_t more = 24 * 50; /* preallocated, never written */
            node->bytes = realloc(node->bytes, node->size + more + 1);
            assert_non_null(node->bytes);
            memset(node->bytes + node->size, kind == 0 ? 0 : 0x5a, more);
            node->size += more;
        }
        world_start(world);
        ref = world_log(world, 0, "topic", 1);
        for (int64_t offset = 0; offset < 400; offset += 13) {
            uint64_t token = world_read(world, ref, offset, 10);
            world_run(world);
            assert_int_equal(world_answer(world, token)->result, PLOG_OK);
            struct rec_batch batch;
            struct base_slice bytes = base_slice_of(world_range(world, &world_answer(world, token)->out),
                                                    world_answer(world, token)->out.size_bytes);
            assert_int_equal(rec_batch_view(bytes, &batch), REC_OK);
            assert_int_equal(batch.base_offset, offset);
            world_release(world, &world_answer(world, token)->out);
        }
        assert_int_equal(world_view(world, ref).timestamp_max, 5399);
        world_free(world);
    }
}

/* ---- deletion ---- */

static void a_deleted_log_stays_deleted_and_its_name_is_free(void **state)
{
    (void)state;
    for (int crash = CRASH_PROCESS; crash <= CRASH_TORN; crash++) {
        int64_t at = 0;
        for (bool is_over = false; !is_over; at++) {
            struct world *world = world_make((uint64_t)at);
            world_start(world);
            struct plog_ref ref = world_log(world, 0, "topic", 0);
            for (int i = 0; i < 5; i++) { (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100}); }
            world_run(world);
            if (at % 2 == 0) {
                world_checkpoint(world);
                world_run(world);
            }
            world->crash_after = at;
            plog_delete(world->plog, ref, &world->out);
            struct base_part next = world_part(0);
            next.topic.b[0] = 'X'; /* the same name, another creation */
            assert_int_equal(plog_open(world->plog, next, base_slice_text("topic"), &world->log_config, 0, &ref),
                             BASE_OK);
            uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 44});
            world_run(world);
            is_over = !world->is_crashed;
            bool is_acked = world_answer(world, token)->is_done && world_answer(world, token)->result == PLOG_OK;
            world_restart(world, (enum crash)crash);
            world_run(world);
            if (is_acked) {
                assert_int_equal(plog_find(world->plog, world_part(0)).generation, 0);
                assert_int_equal(world_read_all(world, plog_find(world->plog, next)), 1);
                world_checkpoint(world);
                world_run(world);
                world_restart(world, (enum crash)crash); /* with no file open */
                assert_int_equal(world_read_all(world, plog_find(world->plog, next)), 1);
            }
            world_free(world);
        }
    }
}

/* What the disk refuses for a while: nothing is lost, and nothing is damaged. */
static void what_the_disk_refuses_at_recovery_is_asked_for_again(void **state)
{
    (void)state;
    static const struct fault faults[] = {
        {.kind = PORT_WRITE, .suffix = ".log", .times = 3, .rc = PORT_IO},
        {.kind = PORT_WRITE, .suffix = ".log", .times = 3, .rc = PORT_NO_SPACE, .count = 40},
        {.kind = PORT_OPEN, .suffix = ".log", .times = 3, .rc = PORT_IO},
        {.kind = PORT_OPEN, .suffix = ".metadata", .times = 3, .rc = PORT_IO},
        {.kind = PORT_READ, .suffix = ".metadata", .times = 3, .rc = PORT_IO},
        {.kind = PORT_READ, .suffix = ".log", .times = 3, .rc = PORT_IO},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(faults); i++) {
        for (int is_large = 0; is_large < 2; is_large++) {
            struct world *world = given_world();
            struct plog_ref ref = world_log(world, 0, "topic", 0);
            for (int n = 0; n < 3; n++) {
                uint32_t value_bytes = is_large == 1 ? world->config.inline_bytes_max + 100 : 100;
                (void)world_append(world, ref, (struct batch_ask){.value_bytes = value_bytes});
                world_run(world);
            }
            world_crash(world, CRASH_POWER);
            world_fault(world, faults[i]);
            world_start(world);
            ref = plog_find(world->plog, world_part(0));
            assert_false(world_view(world, ref).is_damaged);
            assert_false(world_view(world, ref).is_failed);
            world->fault_count = 0; /* one that met nothing */
            assert_int_equal(world->full_count > 0, faults[i].rc == PORT_NO_SPACE && is_large == 0);
            assert_int_equal(world_read_all(world, ref), 3);
            world_free(world);
        }
    }
}

/* Three batches, and a fourth that no entry names. */
static struct world *given_bytes_behind_the_end(bool is_large)
{
    struct world *world = given_world();
    uint32_t value_bytes = is_large ? world->config.inline_bytes_max + 100 : 100;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int n = 0; n < 4; n++) {
        world->is_journal_held = n == 3;
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = value_bytes});
        world_run(world);
    }
    world->is_journal_held = false;
    world_crash(world, CRASH_PROCESS);
    return world;
}

static void a_clean_stop_cuts_what_a_crash_left_behind_the_end(void **state)
{
    (void)state;
    struct world *world = given_bytes_behind_the_end(false);
    world_start(world);
    struct plog_view view = world_view(world, plog_find(world->plog, world_part(0)));
    const char *path = "topic-0/00000000000000000000.log";
    assert_true(world->nodes[world_node(world, path)].size > view.size_bytes);
    world_stop(world);
    assert_int_equal(world->nodes[world_node(world, path)].size, view.size_bytes);
    world_free(world);
}

/* Of a log whose state is all there is of it no start opens a file. */
static void a_clean_stop_cuts_what_a_crash_left_behind_a_log_that_nothing_was_replayed_of(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    world_checkpoint(world);
    world_run(world);
    world->is_journal_held = true; /* the next is written, and the journal never has it */
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    world->is_journal_held = false;
    world_restart(world, CRASH_PROCESS);
    struct plog_view view = world_view(world, plog_find(world->plog, world_part(0)));
    assert_int_equal(view.offset_end, 1);
    const char *path = "topic-0/00000000000000000000.log";
    assert_true(world->nodes[world_node(world, path)].size > view.size_bytes);
    world_stop(world);
    assert_int_equal(world->nodes[world_node(world, path)].size, view.size_bytes);
    world_restart(world, CRASH_PROCESS); /* and after a stop that was clean there is nothing to look for */
    uint64_t effects = world->effects_seen;
    world_stop(world);
    assert_int_equal(world->effects_seen, effects);
    world_free(world);
}

static void a_stop_before_all_was_replayed_cuts_nothing(void **state)
{
    (void)state;
    struct world *world = given_bytes_behind_the_end(true); /* not in the journal */
    size_t entry_count = world->entry_count;
    world->entry_count = world->entries_begin + 2; /* the first batch, perhaps the second */
    world->is_recovery_open = true;
    world_start(world);
    plog_stop(world->plog, &world->out);
    world_settle(world);
    world_run(world);
    assert_true(world->is_stopped);
    world->entry_count = entry_count;
    world->is_recovery_open = false;
    world_restart(world, CRASH_PROCESS);
    assert_int_equal(world_read_all(world, plog_find(world->plog, world_part(0))), 3);
    world_free(world);
}

static void a_run_whose_place_goes_on_failing_is_damage(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int n = 0; n < 2; n++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
    }
    world_crash(world, CRASH_POWER);
    world_fault(world, (struct fault){.kind = PORT_WRITE, .suffix = ".log", .times = 1000, .rc = PORT_IO});
    uint64_t before_ns = world->now_ns;
    world_start(world);
    assert_true(world->now_ns - before_ns >= PLOG_REPLAY_PATIENCE_NS);
    ref = plog_find(world->plog, world_part(0));
    assert_true(world_view(world, ref).is_damaged);
    assert_int_equal(world_view(world, ref).offset_end, 2); /* nothing is given out twice */
    world_free(world);
}

#define ANOTHERS "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n"
#define OURS     "version: 0\ntopic_id: MDEyMzQ1Njc4OWFiY2RlZg\n"

static void anothers_directory_is_waited_for_until_it_is_renamed(void **state)
{
    (void)state;
    struct world *world = given_world();
    world_put(world, "topic-0/partition.metadata", ANOTHERS);
    world_put(world, "topic-0/00000000000000000000.log", "another shard's");
    world_fault(world,
                (struct fault){.kind = PORT_READ, .suffix = ".metadata", .times = 9, .rc = PORT_OK, .count = 30});
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    for (int i = 0; i < 200; i++) { (void)world_step(world); }
    assert_false(world_answer(world, token)->is_done);
    world->wants_continue = true;
    world_checkpoint(world); /* does not wait for it */
    for (int i = 0; i < 200; i++) { (void)world_step(world); }
    assert_int_equal(world->checkpoints, 1);
    int dir = world_node(world, "topic-0");
    (void)snprintf(world->nodes[dir].name, sizeof world->nodes[dir].name,
                   "topic-0.x-delete"); /* the other shard does */
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    const struct node *kept = &world->nodes[world_node(world, "topic-0.x-delete/00000000000000000000.log")];
    assert_memory_equal(kept->bytes, "another shard's", 15);
    world_free(world);
}

static void a_directory_that_nobody_takes_away_is_put_aside(void **state)
{
    (void)state;
    struct world *world = given_world();
    world_put(world, "topic-0/partition.metadata", ANOTHERS);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    uint64_t before_ns = world->now_ns;
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    assert_true(world->now_ns - before_ns >= UINT64_C(30000000000));
    assert_true(world_node(world, "topic-0.00000000000000000000000000000000-delete/partition.metadata") >= 0);
    world_free(world);
}

static void a_directory_without_an_owner_is_taken_over(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct world *world = given_world();
        world_put(world, kind == 0 ? "topic-0/unknown" : "topic-0/partition.metadata", kind == 2 ? OURS : "");
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
        uint64_t before_ns = world->now_ns;
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_OK);
        assert_int_equal(world->now_ns - before_ns >= UINT64_C(2000000000), kind != 2); /* our own at once */
        const struct node *node = &world->nodes[world_node(world, "topic-0/partition.metadata")];
        assert_memory_equal(node->synced, OURS, 44);
        world_free(world);
    }
}

/* A crash at any of them, or a disk that is full by now, would leave what no deletion finds again. */
static void a_directory_that_is_ours_says_so_at_every_moment_while_it_is_taken_over(void **state)
{
    (void)state;
    struct world *world = given_world();
    world_put(world, "topic-0/partition.metadata", OURS);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    const struct node *node = &world->nodes[world_node(world, "topic-0/partition.metadata")];
    do {
        assert_int_equal(node->size, 44);
        assert_memory_equal(node->bytes, OURS, 44);
    } while (world_step(world));
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    assert_int_equal(node->synced_size, 44);
    assert_memory_equal(node->synced, OURS, 44);
    world_free(world);
}

static void a_replayed_deletion_leaves_a_directory_that_is_anothers_by_now(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    plog_delete(world->plog, ref, &world->out);
    world->wants_continue = true;
    world_run(world);
    world_crash(world, CRASH_PROCESS);
    world_put(world, "topic-0/partition.metadata", ANOTHERS); /* a log of another shard, which this one can't know */
    world_put(world, "topic-0/00000000000000000000.log", "another shard's");
    world_start(world);
    assert_int_equal(world->deleted, 2);
    assert_true(world_node(world, "topic-0/00000000000000000000.log") >= 0);
    world_free(world);
}

static void a_replayed_run_is_not_written_into_anothers_directory(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++) {
        struct world *world = given_world();
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = large == 1 ? 5000 : 100});
        world_run(world);
        plog_delete(world->plog, ref, &world->out);
        world->wants_continue = true;
        world_run(world);
        struct base_part next = world_part(0);
        next.topic.b[0] = 'X';
        assert_int_equal(plog_open(world->plog, next, base_slice_text("topic"), &world->log_config, 0, &ref), BASE_OK);
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 6000}); /* its bytes are in its file alone */
        world_run(world);
        for (int life = 0; life < 2; life++) {
            world_restart(world, CRASH_POWER);
            ref = plog_find(world->plog, next);
            assert_false(world_view(world, ref).is_damaged);
            assert_int_equal(world_read_all(world, ref), 1);
        }
        world_free(world);
    }
}

static void a_directory_left_before_its_birth_was_journalled_goes_with_its_log(void **state)
{
    (void)state;
    struct world *world = given_world();
    world_put(world, "topic-0/partition.metadata", OURS);
    world_put(world, "topic-0/00000000000000000000.log", "never acknowledged");
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    plog_delete(world->plog, ref, &world->out);
    world->wants_continue = true;
    world_run(world);
    assert_int_equal(world->deleted, 1);
    for (int i = 0; i < world->node_count; i++) { assert_false(world->nodes[i].is_live); }
    world_free(world);
}

/* Once the deletion is journalled the directory is renamed, and may be found under that name only. */
static void files_of_a_log_that_was_deleted_before_the_journal_heard_of_it_go_after_a_crash(void **state)
{
    (void)state;
    for (int steps = 0; steps < 60; steps++) {
        struct world *world = given_world();
        world_put(world, "topic-0/partition.metadata", OURS);
        world_put(world, "topic-0/00000000000000000000.log", "never acknowledged");
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        plog_delete(world->plog, ref, &world->out);
        world->wants_continue = true;
        for (int i = 0; i < steps; i++) { (void)world_step(world); } /* it may end before */
        bool is_journalled = world->entry_count > 0 && world->entries[world->entry_count - 1].is_synced;
        world_restart(world, CRASH_PROCESS);
        world_run(world);
        for (int i = 0; i < world->node_count && is_journalled; i++) { assert_false(world->nodes[i].is_live); }
        assert_false(world->plog->has_lost_entries);
        world_free(world);
    }
}

static void a_write_in_flight_at_its_logs_deletion_leaves_no_run(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 50});
    world_run(world);
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 50});
    world->is_held = true;
    world_run(world); /* the write is on its way */
    plog_delete(world->plog, ref, &world->out);
    world->wants_continue = true;
    world->is_held = false;
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_GONE);
    assert_int_equal(world->entries[world->entry_count - 1].run.change, PLOG_CHANGE_GONE);
    world_restart(world, CRASH_POWER);
    assert_false(world->plog->has_lost_entries);
    world_free(world);
}

/* The checkpoint has the log as one that goes, or not at all any more; its runs are still replayed. */
enum gone { GONE_NOT_JOURNALLED = 0, GONE_JOURNALLED, GONE_WITHOUT_STATE, GONE_KINDS };
static void runs_of_a_log_that_was_deleted_are_no_lost_entries(void **state)
{
    (void)state;
    for (int gone = GONE_NOT_JOURNALLED; gone < GONE_KINDS; gone++) {
        struct world *world = given_world();
        world->log_config.segment_bytes = 400;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        struct plog_ref other = world_log(world, 1, "topic", 0);
        for (int i = 0; i < 2; i++) {
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = 60});
            (void)world_append(world, other, (struct batch_ask){.value_bytes = 60});
            world_run(world);
        }
        size_t entries_begin = world->entry_count;
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 20});
        world_run(world);
        world->is_journal_held = gone == GONE_NOT_JOURNALLED; /* its state says so alone: the journal does not yet */
        plog_delete(world->plog, ref, &world->out);
        if (gone == GONE_WITHOUT_STATE) { /* and there is no state of it */
            world->wants_continue = true;
            world_run(world);
            assert_int_equal(world->deleted, 1);
        }
        world_checkpoint(world);
        world_run(world);
        assert_int_equal(world->checkpoints, 1);
        world->entries_begin = entries_begin; /* where the checkpoint had begun before the run */
        world_crash(world, CRASH_PROCESS);
        world->is_journal_held = false;
        world_put(world, "topic-1/00000000000000000002.log", "of a round that never was");
        world_start(world);
        ref = world_log(world, 1, "topic", 1);
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 300, .leader_epoch = 1});
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_OK);
        assert_false(world_view(world, ref).is_damaged);
        assert_false(world->plog->has_lost_entries);
        ref = world_log(world, 0, "topic", 1); /* it comes back, as any log that is new */
        assert_false(world_view(world, ref).is_failed);
        world_free(world);
    }
}

static void doomed_segments_go_after_their_delay_and_after_a_restart(void **state)
{
    (void)state;
    for (int is_restarted = 0; is_restarted < 2; is_restarted++) {
        struct world *world = given_world();
        world->log_config.segment_bytes = 1000;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int i = 0; i < 30; i++) {
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
            world_run(world);
        }
        uint64_t token = world->next_token++;
        assert_int_equal(plog_move_start(world->plog, ref, token, 17, &world->out), BASE_OK);
        world->wants_continue = true;
        world_run(world);
        assert_true(world_answer(world, token)->is_done);
        assert_int_equal(world_view(world, ref).offset_start, 17);
        assert_true(world_node(world, "topic-0/00000000000000000005.log") >= 0);
        if (is_restarted == 1) {
            world_checkpoint(world);
            world_run(world);
            world_restart(world, CRASH_POWER);
            ref = world_log(world, 0, "topic", 0);
        }
        world_alarm(world, 5000);
        assert_int_equal(world_node(world, "topic-0/00000000000000000005.log"), -1);
        assert_true(world_node(world, "topic-0/00000000000000000015.log") >= 0);
        assert_int_equal(world_read_all(world, ref), 13);
        uint64_t below = world_read(world, ref, 16, 100);
        world_run(world);
        assert_int_equal(world_answer(world, below)->result, PLOG_OFFSET_RANGE);
        world_free(world);
    }
}

/* The entry of its last segment comes behind the checkpoint's begin, but when the log is captured retention has taken them all. */
static void a_log_that_lost_all_its_segments_while_a_checkpoint_was_taken_takes_records(void **state)
{
    (void)state;
    for (int is_page_cache = 0; is_page_cache < 2; is_page_cache++) {
        struct world *world = world_make(1);
        world->log_config.is_page_cache = is_page_cache == 1;
        world->log_config.retention_bytes = 0;
        world_start(world);
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        size_t begin = world->entry_count;
        for (int i = 0; i < 5; i++) { (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100}); }
        world_run(world);
        world_alarm(world, 400000); /* the sweep */
        world_alarm(world, 400000); /* and the files */
        assert_int_equal(world_view(world, ref).segment_count, 0);
        world_checkpoint(world);
        world->entries_begin_next = begin;
        world_run(world);
        for (int64_t end = 5; end < 8; end++) {
            world_restart(world, CRASH_POWER);
            ref = world_log(world, 0, "topic", 0);
            assert_int_equal(world_view(world, ref).offset_end, end);
            uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
            world_run(world);
            assert_int_equal(world_answer(world, token)->result, PLOG_OK);
            if (is_page_cache == 1) { break; } /* the power takes what was not flushed */
        }
        world_free(world);
    }
}

/* ---- a log that is deleted while a checkpoint is at it ---- */

static struct world *given_one_record(struct plog_ref *ref_out)
{
    struct world *world = given_world();
    *ref_out = world_log(world, 0, "topic", 0);
    (void)world_append(world, *ref_out, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    return world;
}

static void a_log_that_is_deleted_while_a_checkpoint_syncs_it_goes(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_one_record(&ref);
    world_checkpoint(world);
    while (!plog__segment_last(plog__log_at(world->plog, ref.slot))->is_sync_in_flight) {
        assert_true(world_step(world));
    }
    world->is_held = true; /* the journal has the deletion before the sync ends */
    plog_delete(world->plog, ref, &world->out);
    world_settle(world);
    world_run(world);
    world->is_held = false;
    world_run(world);
    assert_int_equal(world->checkpoints, 1);
    assert_int_equal(world->deleted, 1);
    ref = world_log(world, 0, "topic", 0); /* of the same name */
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    world_free(world);
}

static void a_checkpoint_does_not_wait_for_the_leases_of_a_log_that_is_deleted(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_one_record(&ref);
    uint64_t lease = world_read(world, ref, 0, 1000);
    world_run(world);
    world->is_held = true;
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    world_checkpoint(world); /* waits for what is written */
    world_run(world);
    plog_delete(world->plog, ref, &world->out);
    world_settle(world);
    world->is_held = false;
    world_run(world);
    assert_int_equal(world->checkpoints, 1);
    assert_int_equal(world->deleted, 0);
    world_release(world, &world_answer(world, lease)->out);
    world_run(world);
    assert_int_equal(world->deleted, 1);
    world_free(world);
}

/* Whatever of it the world still owes: the deletion waits for that, and goes on when it has come. */
static void expect_it_goes(struct world *world, struct plog_ref ref)
{
    plog_delete(world->plog, ref, &world->out);
    world_settle(world);
    world_run(world); /* the journal has it */
    world->is_held = false;
    world_run(world);
    world_alarm(world, 1000);
    assert_int_equal(world->deleted, 1);
    world_free(world);
}

static void a_log_that_is_deleted_while_a_segment_is_synced_goes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) { /* the sync ends sooner, or later than the rename */
        struct world *world = world_make(seed);
        world_start(world);
        world->is_shuffled = true;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 8000}); /* too large for the journal */
        do {
            assert_true(world_step(world));
        } while (plog__segment_last(plog__log_at(world->plog, ref.slot)) == NULL ||
                 !plog__segment_last(plog__log_at(world->plog, ref.slot))->is_sync_in_flight);
        world->is_held = true;
        expect_it_goes(world, ref);
    }
}

static void a_log_that_is_deleted_while_a_segment_is_opened_for_its_sync_goes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world *world = world_make(seed);
        world->config.files_max = 8;
        world->log_config.is_page_cache = true;
        world->log_config.flush_ms = 500;
        world_start(world);
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
        world->log_config.flush_ms = UINT64_MAX;
        for (int i = 1; i < 12; i++) { /* so that its file is closed for others */
            (void)world_append(world, world_log(world, i, "topic", 0), (struct batch_ask){.value_bytes = 100});
            world_run(world);
        }
        world->is_shuffled = true;
        world->is_held = true;
        world_alarm(world, 1000);
        assert_true(plog__segment_last(plog__log_at(world->plog, ref.slot))->files[PLOG__LOG] != 0);
        expect_it_goes(world, ref);
    }
}

/* A start finds a log in the checkpoint and its deletion behind it; the files went in the life before. */
static void a_topic_of_the_name_of_one_that_is_gone_already_takes_records(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_one_record(&ref);
    world_checkpoint(world);
    world_run(world);
    plog_delete(world->plog, ref, &world->out);
    world_settle(world);
    world_run(world);
    assert_int_equal(world->deleted, 1);
    world_crash(world, CRASH_PROCESS);
    world->is_recovery_open = true;
    world_start(world);
    plog_recovery_end(world->plog, PLOG_LAST_UNCLEAN, &world->out);
    world_settle(world);
    world->is_held = true; /* nothing is known of the directory yet */
    world_run(world);
    struct base_part part = world_part(0);
    part.topic.b[0] = 'x';
    assert_int_equal(plog_open(world->plog, part, base_slice_text("topic"), &world->log_config, 0, &ref), BASE_OK);
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    assert_true(world->plog->has_name_waiters);
    world->is_held = false;
    world_run(world);
    assert_true(world_answer(world, token)->is_done);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_acknowledged_is_lost_wherever_it_stops),
        cmocka_unit_test(a_crash_during_recovery_changes_nothing),
        cmocka_unit_test(page_cache_logs_keep_what_a_dead_process_wrote),
        cmocka_unit_test(page_cache_logs_are_cut_at_the_first_bad_batch_after_a_power_loss),
        cmocka_unit_test(replayed_state_equals_the_state_that_was_alive),
        cmocka_unit_test(a_clean_stop_opens_nothing_at_the_next_start),
        cmocka_unit_test(wrong_bytes_of_a_large_run_are_damage_and_the_rest_is_read),
        cmocka_unit_test(a_damaged_last_run_is_not_cut_either),
        cmocka_unit_test(a_damaged_segment_ages_from_when_it_was_replayed),
        cmocka_unit_test(a_short_or_missing_segment_below_the_line_is_damage_when_it_is_met),
        cmocka_unit_test(a_short_active_segment_is_left_as_it_is_and_a_new_one_is_begun),
        cmocka_unit_test(a_hole_that_a_replayed_run_was_written_behind_is_never_served),
        cmocka_unit_test(what_no_run_names_is_cut_before_the_next_append),
        cmocka_unit_test(files_that_went_with_the_log_start_are_no_damage_at_the_next_start),
        cmocka_unit_test(a_segment_that_a_replay_made_again_survives_the_next_power_loss),
        cmocka_unit_test(what_a_crash_left_behind_a_segment_is_cut_when_the_next_begins),
        cmocka_unit_test(what_a_life_cut_and_did_not_live_to_sync_is_synced_when_the_next_segment_begins),
        cmocka_unit_test(what_a_crash_left_behind_a_segment_is_cut_later_when_handles_lack),
        cmocka_unit_test(a_checkpoint_does_not_wait_for_ever_for_a_cut_that_finds_no_handle),
        cmocka_unit_test(bytes_that_lost_entries_may_have_named_are_kept),
        cmocka_unit_test(a_log_that_fails_while_a_checkpoint_waits_for_it_does_not_hold_it_up),
        cmocka_unit_test(what_stands_behind_a_log_that_lost_entries_and_is_no_batch_is_damage_and_stays),
        cmocka_unit_test(a_log_whose_beginning_was_lost_is_damage_and_not_an_empty_log),
        cmocka_unit_test(a_log_that_goes_on_where_it_ended_lost_no_entry),
        cmocka_unit_test(files_of_a_state_that_was_refused_are_not_written_over),
        cmocka_unit_test(garbage_in_the_tail_of_an_index_is_not_seen),
        cmocka_unit_test(a_deleted_log_stays_deleted_and_its_name_is_free),
        cmocka_unit_test(what_the_disk_refuses_at_recovery_is_asked_for_again),
        cmocka_unit_test(a_clean_stop_cuts_what_a_crash_left_behind_the_end),
        cmocka_unit_test(a_clean_stop_cuts_what_a_crash_left_behind_a_log_that_nothing_was_replayed_of),
        cmocka_unit_test(a_stop_before_all_was_replayed_cuts_nothing),
        cmocka_unit_test(a_run_whose_place_goes_on_failing_is_damage),
        cmocka_unit_test(anothers_directory_is_waited_for_until_it_is_renamed),
        cmocka_unit_test(a_directory_that_nobody_takes_away_is_put_aside),
        cmocka_unit_test(a_directory_without_an_owner_is_taken_over),
        cmocka_unit_test(a_directory_that_is_ours_says_so_at_every_moment_while_it_is_taken_over),
        cmocka_unit_test(a_replayed_deletion_leaves_a_directory_that_is_anothers_by_now),
        cmocka_unit_test(a_replayed_run_is_not_written_into_anothers_directory),
        cmocka_unit_test(a_directory_left_before_its_birth_was_journalled_goes_with_its_log),
        cmocka_unit_test(files_of_a_log_that_was_deleted_before_the_journal_heard_of_it_go_after_a_crash),
        cmocka_unit_test(a_write_in_flight_at_its_logs_deletion_leaves_no_run),
        cmocka_unit_test(runs_of_a_log_that_was_deleted_are_no_lost_entries),
        cmocka_unit_test(doomed_segments_go_after_their_delay_and_after_a_restart),
        cmocka_unit_test(a_log_that_lost_all_its_segments_while_a_checkpoint_was_taken_takes_records),
        cmocka_unit_test(a_log_that_is_deleted_while_a_checkpoint_syncs_it_goes),
        cmocka_unit_test(a_checkpoint_does_not_wait_for_the_leases_of_a_log_that_is_deleted),
        cmocka_unit_test(a_log_that_is_deleted_while_a_segment_is_synced_goes),
        cmocka_unit_test(a_log_that_is_deleted_while_a_segment_is_opened_for_its_sync_goes),
        cmocka_unit_test(a_topic_of_the_name_of_one_that_is_gone_already_takes_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
