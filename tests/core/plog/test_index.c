/* test_index.c: lookups by offset and by time equal a scan, whatever happened to the log and its index files (I15).
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

#define BATCHES_MAX 400

/* The log as it was written: record i of a batch has timestamp + i. */
struct written {
    int64_t base, last, timestamp;
};
struct log {
    struct world *world;
    struct plog_ref ref;
    struct written batches[BATCHES_MAX];
    int count;
};

static struct log *given_log(uint64_t seed)
{
    struct log *log = calloc(1, sizeof *log);
    assert_non_null(log);
    log->world = world_make(seed);
    log->world->log_config.segment_bytes = 6000;
    log->world->log_config.index_interval_bytes = 200;
    world_start(log->world);
    log->ref = world_log(log->world, 0, "topic", 1);
    return log;
}

static void end_log(struct log *log)
{
    world_free(log->world);
    free(log);
}

static uint64_t dice(struct log *log, uint64_t count) { return base_prng_below(&log->world->dice, count); }

/* Times wander, and at times one is far ahead. */
static void append(struct log *log)
{
    assert_true(log->count < BATCHES_MAX);
    int records = 1 + (int)dice(log, 4);
    int64_t before = log->count == 0 ? 100000 : log->batches[log->count - 1].timestamp;
    int64_t timestamp = before + (int64_t)dice(log, 60) - 25 + (dice(log, 30) == 0 ? 700 : 0);
    struct batch_ask ask = {.records = records,
                            .value_bytes = dice(log, 300),
                            .leader_epoch = 1,
                            .timestamp = timestamp};
    ask.is_compressed = dice(log, 5) == 0;
    uint64_t token = world_append(log->world, log->ref, ask);
    if (dice(log, 2) == 0) { world_run(log->world); }
    int64_t base = log->count == 0 ? 0 : log->batches[log->count - 1].last + 1;
    log->batches[log->count++] = (struct written){.base = base, .last = base + records - 1, .timestamp = timestamp};
    assert_int_not_equal(token, 0);
}

static void truncate(struct log *log)
{
    world_run(log->world);
    int kept = log->count / 3 + (int)dice(log, (uint64_t)log->count);
    if (kept >= log->count) { return; }
    (void)world_truncate(log->world, log->ref, log->batches[kept].base);
    world_run(log->world);
    log->count = kept;
    assert_int_equal(world_view(log->world, log->ref).offset_end, kept == 0 ? 0 : log->batches[kept - 1].last + 1);
}

static void expect_offset(struct log *log, int64_t offset)
{
    int at = 0;
    while (log->batches[at].last < offset) { at += 1; }
    uint64_t token = world_read(log->world, log->ref, offset, 1);
    world_run(log->world);
    struct answer *answer = world_answer(log->world, token);
    assert_int_equal(answer->result, PLOG_OK);
    struct base_slice bytes = base_slice_of(world_range(log->world, &answer->out), answer->out.size_bytes);
    struct rec_batch batch;
    assert_int_equal(rec_batch_next(&bytes, &batch), REC_OK);
    assert_int_equal(batch.base_offset, log->batches[at].base);
    assert_int_equal(rec_offset_end(&batch), log->batches[at].last + 1);
    world_release(log->world, &answer->out);
}

static void expect_time(struct log *log, int64_t timestamp)
{
    int64_t wanted = -1;
    for (int i = 0; i < log->count && wanted < 0; i++) {
        const struct written *batch = &log->batches[i];
        int64_t last = batch->timestamp + (batch->last - batch->base);
        if (last >= timestamp) { wanted = batch->base + base_max_i64(timestamp - batch->timestamp, 0); }
    }
    uint64_t token = world_find_time(log->world, log->ref, timestamp);
    world_run(log->world);
    struct answer *answer = world_answer(log->world, token);
    assert_int_equal(answer->result, PLOG_OK);
    assert_int_equal(answer->out.offset, wanted);
}

static void expect_greatest(struct log *log)
{
    int64_t max = -1, offset = -1;
    for (int i = 0; i < log->count; i++) {
        int64_t last = log->batches[i].timestamp + (log->batches[i].last - log->batches[i].base);
        if (last <= max) { continue; }
        max = last;
        offset = log->batches[i].last;
    }
    assert_int_equal(world_view(log->world, log->ref).timestamp_max, max);
    assert_int_equal(world_view(log->world, log->ref).timestamp_max_offset, offset);
}

static void expect_lookups(struct log *log)
{
    world_run(log->world);
    expect_greatest(log);
    if (log->count == 0) { return; }
    for (int i = 0; i < 25; i++) {
        expect_offset(log, (int64_t)dice(log, (uint64_t)log->batches[log->count - 1].last + 1));
        int64_t near = log->batches[dice(log, (uint64_t)log->count)].timestamp;
        expect_time(log, near + (int64_t)dice(log, 7) - 3);
    }
}

static void restart(struct log *log, enum crash crash)
{
    world_run(log->world);
    world_restart(log->world, crash);
    log->ref = world_log(log->world, 0, "topic", 1);
}

static void lookups_equal_a_scan_over_logs_that_are_cut_and_recovered(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct log *log = given_log(seed);
        for (int round = 0; round < 6; round++) {
            for (int i = 0; i < 40; i++) { append(log); }
            expect_lookups(log);
            if (dice(log, 2) == 0) {
                world_checkpoint(log->world);
                world_run(log->world);
            }
            truncate(log);
            expect_lookups(log);
            if (dice(log, 3) > 0) { restart(log, (enum crash)dice(log, 3)); }
            expect_lookups(log);
        }
        end_log(log);
    }
}

/* Behind what the checkpoint vouches for, an index file holds what a crash left there (KAFKA-10207). */
static void what_stands_behind_the_known_entries_of_an_index_is_not_looked_at(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct log *log = given_log(seed);
        for (int i = 0; i < 150; i++) { append(log); }
        world_run(log->world);
        world_crash(log->world, CRASH_PROCESS);
        for (int i = 0; i < log->world->node_count; i++) {
            struct node *node = &log->world->nodes[i];
            bool is_index = strstr(node->name, ".index") != NULL || strstr(node->name, ".timeindex") != NULL;
            if (!node->is_live || !is_index) { continue; }
            node->bytes = realloc(node->bytes, node->size + 4096);
            assert_non_null(node->bytes);
            base_prng_fill(&log->world->dice, node->bytes + node->size, 4096);
            node->size += 4096;
        }
        world_start(log->world);
        log->ref = world_log(log->world, 0, "topic", 1);
        expect_lookups(log);
        for (int i = 0; i < 60; i++) { append(log); }
        expect_lookups(log);
        end_log(log);
    }
}

/* What is wrong in an index that is looked at is found out, and the segment is scanned. */
static void an_index_that_lies_is_not_believed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct log *log = given_log(seed);
        for (int i = 0; i < 150; i++) { append(log); }
        world_stop(log->world);
        world_crash(log->world, CRASH_PROCESS);
        for (int i = 0; i < log->world->node_count; i++) {
            struct node *node = &log->world->nodes[i];
            if (!node->is_live || strstr(node->name, ".index") == NULL || node->size == 0) { continue; }
            base_prng_fill(&log->world->dice, node->bytes, node->size);
        }
        world_start(log->world);
        log->ref = world_log(log->world, 0, "topic", 1);
        truncate(log);
        expect_lookups(log);
        end_log(log);
    }
}

/* One of the two files is gone: neither is used again, and what is written then does not stand before entries of old. */
static void an_index_that_begins_anew_keeps_none_of_its_old_entries(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->log_config.index_interval_bytes = 200;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 1);
    for (int i = 0; i < 100; i++) {
        struct batch_ask ask = {.records = 1, .value_bytes = 300, .leader_epoch = 1, .timestamp = 1000 + i};
        (void)world_append(world, ref, ask);
        world_run(world);
    }
    world_stop(world);
    int times = world_node(world, "topic-0/00000000000000000000.timeindex");
    assert_true(times >= 0 && world->nodes[times].size > 0);
    world_crash(world, CRASH_PROCESS);
    world->nodes[times].is_live = false;
    world_start(world);
    ref = world_log(world, 0, "topic", 1);
    uint64_t token = world_find_time(world, ref, 1050);
    world_run(world);
    assert_int_equal(world_answer(world, token)->out.offset, 50);
    world_stop(world);
    const struct node *index = &world->nodes[world_node(world, "topic-0/00000000000000000000.index")];
    assert_true(index->size > 0);
    for (size_t at = 8; at < index->size; at += 8) {
        assert_true(base_get_u32(index->bytes + at) > base_get_u32(index->bytes + at - 8));
    }
    world_free(world);
}

/* The journal had not heard of the last rounds when the process died: their entries stood behind those of the log, for Kafka's tools to
 * meet. What it had heard of may be in a checkpoint, so that a start finds nothing to replay. */
static void a_stop_leaves_no_index_entry_of_what_a_crash_took(void **state)
{
    (void)state;
    for (int is_in_checkpoint = 0; is_in_checkpoint < 2; is_in_checkpoint++) {
        struct world *world = world_make(1);
        world->log_config.index_interval_bytes = 200;
        world_start(world);
        struct plog_ref ref = world_log(world, 0, "topic", 1);
        for (int i = 0; i < 100; i++) {
            if (i == 40 && is_in_checkpoint) { world_checkpoint(world); }
            world_run(world);
            world->is_journal_held = i >= 40;
            struct batch_ask ask = {.records = 1, .value_bytes = 300, .leader_epoch = 1, .timestamp = 1000 + i};
            (void)world_append(world, ref, ask);
            world_run(world);
        }
        world->is_journal_held = false;
        world_restart(world, CRASH_PROCESS);
        ref = world_log(world, 0, "topic", 1);
        assert_int_equal(world_view(world, ref).offset_end, 40);
        world_stop(world);
        const struct node *index = &world->nodes[world_node(world, "topic-0/00000000000000000000.index")];
        const struct node *times = &world->nodes[world_node(world, "topic-0/00000000000000000000.timeindex")];
        assert_true(index->size > 8);
        assert_true(times->size > 12);
        assert_true(base_get_u32(index->bytes + index->size - 8) < 40);
        assert_true(base_get_u32(times->bytes + times->size - 4) < 40);
        world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookups_equal_a_scan_over_logs_that_are_cut_and_recovered),
        cmocka_unit_test(what_stands_behind_the_known_entries_of_an_index_is_not_looked_at),
        cmocka_unit_test(an_index_that_lies_is_not_believed),
        cmocka_unit_test(an_index_that_begins_anew_keeps_none_of_its_old_entries),
        cmocka_unit_test(a_stop_leaves_no_index_entry_of_what_a_crash_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
