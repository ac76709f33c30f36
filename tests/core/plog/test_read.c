/* test_read.c: every offset and every time is found where a model says it is; leases; few descriptors.
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

#define RECORDS_MAX 4000

struct model {
    int64_t timestamps[RECORDS_MAX];
    int64_t bases[RECORDS_MAX];  /* of the record's batch */
    int32_t epochs[RECORDS_MAX]; /* of the leader that took it */
    int64_t end;
};

/* Batches of all sizes, times that go back and forth, some compressed, under several leaders, over several segments. */
static struct plog_ref given_log(struct world *world, struct model *model, int batches)
{
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < batches; i++) {
        int records = 1 + (int)base_prng_below(&world->dice, 6);
        int64_t timestamp = 10000 + i * 10 + (int64_t)base_prng_below(&world->dice, 300) - (i % 50 == 49 ? 5000 : 0);
        size_t size = i % 40 == 39 ? 6000 : (size_t)base_prng_below(&world->dice, 300);
        int32_t epoch = i / 90 * 2;
        uint64_t token = world_append(world, ref,
                                      (struct batch_ask){.records = records,
                                                         .value_bytes = size,
                                                         .timestamp = timestamp,
                                                         .is_compressed = i % 3 == 1,
                                                         .leader_epoch = epoch});
        if (i % 4 == 0 || token == 0) { world_run(world); }
        for (int k = 0; k < records; k++) {
            model->timestamps[model->end + k] = timestamp + k;
            model->bases[model->end + k] = model->end;
            model->epochs[model->end + k] = epoch;
        }
        model->end += records;
    }
    world_run(world);
    assert_int_equal(world_view(world, ref).watermark, model->end);
    return ref;
}

static void expect_batch_of(struct world *world, struct plog_ref ref, const struct model *model, int64_t offset,
                            uint32_t bytes_max)
{
    uint64_t token = world_read(world, ref, offset, bytes_max);
    world_run(world);
    const struct plog_out *out = &world_answer(world, token)->out;
    assert_true(world_answer(world, token)->is_done);
    assert_int_equal(out->result, PLOG_OK);
    struct rec_batch batch;
    assert_int_equal(rec_batch_view(base_slice_of(world_range(world, out), out->size_bytes), &batch), REC_OK);
    assert_int_equal(batch.base_offset, model->bases[offset]);
    assert_true(rec_crc_is_right(&batch));
    assert_true(out->size_bytes <= base_max_u64(bytes_max, batch.size_bytes));
    world_release(world, out);
}

static void every_offset_is_found(struct world *world, struct plog_ref ref, const struct model *model)
{
    for (int64_t offset = 0; offset < model->end; offset++) { expect_batch_of(world, ref, model, offset, 10); }
    for (int i = 0; i < 300; i++) {
        int64_t offset = (int64_t)base_prng_below(&world->dice, (uint64_t)model->end);
        expect_batch_of(world, ref, model, offset, (uint32_t)base_prng_below(&world->dice, 20000));
    }
    assert_true(plog_is_quiet(world->plog));
}

static void a_read_at_every_offset_equals_the_model(void **state)
{
    (void)state;
    for (int life = 0; life < 3; life++) {
        struct world *world = given_world();
        static struct model model;
        model.end = 0;
        world->log_config.segment_bytes = 40000;
        struct plog_ref ref = given_log(world, &model, 600);
        if (life == 1) { world_restart(world, CRASH_POWER); }
        if (life == 2) {
            world_stop(world);
            world_restart(world, CRASH_POWER);
        }
        if (life > 0) { ref = world_log(world, 0, "topic", 1); }
        every_offset_is_found(world, ref, &model);
        assert_int_equal(world_read_all(world, ref), model.end);
        world_free(world);
    }
}

/* I15: the answer with the index is the answer without, and with one that lies. */
static void an_index_answer_equals_a_scans(void **state)
{
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        struct world *world = given_world();
        static struct model model;
        model.end = 0;
        world->log_config.segment_bytes = 60000;
        struct plog_ref ref = given_log(world, &model, 500);
        world_stop(world);
        world_crash(world, CRASH_POWER);
        for (int i = 0; i < world->node_count; i++) {
            struct node *node = &world->nodes[i];
            if (strstr(node->name, "index") == NULL) { continue; }
            if (kind == 0) { node->is_live = false; }
            if (kind == 1) { node->size = node->size / 2; }
            if (kind == 2) { memset(node->bytes, 0, node->size); }
            for (size_t at = 0; kind == 3 && at < node->size; at++) {
                node->bytes[at] = (uint8_t)base_prng_below(&world->dice, 256);
            }
            for (size_t at = 0; kind == 4 && at + 24 < node->size; at += 24) { node->bytes[at + 7] ^= 0x40; }
            for (size_t at = 0; kind == 5 && strstr(node->name, ".index") != NULL && at + 16 <= node->size; at += 8) {
                memcpy(node->bytes + at + 4, node->bytes + at + 12, 4); /* true batches, but not the ones it says */
            }
        }
        world_start(world);
        ref = world_log(world, 0, "topic", 1);
        every_offset_is_found(world, ref, &model);
        assert_false(world_view(world, ref).is_damaged);
        world_free(world);
    }
}

static void expect_time(struct world *world, struct plog_ref ref, const struct model *model, int64_t timestamp,
                        int64_t start)
{
    int64_t expected = start;
    while (expected < model->end && model->timestamps[expected] < timestamp) { expected += 1; }
    uint64_t token = world->next_token++;
    assert_int_equal(plog_find_time(world->plog, ref, token, timestamp, &world->out), BASE_OK);
    world->wants_continue = true;
    world_run(world);
    const struct plog_out *out = &world_answer(world, token)->out;
    assert_true(world_answer(world, token)->is_done);
    assert_int_equal(out->result, PLOG_OK);
    bool is_there = expected < model->end;
    assert_int_equal(out->offset, is_there ? expected : -1);
    assert_int_equal(out->timestamp_ms, is_there ? model->timestamps[expected] : -1);
    assert_int_equal(out->leader_epoch, is_there ? model->epochs[expected] : -1);
}

/* Room is taken for the most that a batch may hold: what was accepted, not what a codec could make of so many bytes. */
static void a_batch_is_opened_up_to_what_is_accepted(void **state)
{
    (void)state;
    for (int is_limited = 0; is_limited < 2; is_limited++) {
        struct world *world = world_make(1);
        if (is_limited == 1) { world->config.opened_bytes_max = 10000; }
        world_start(world);
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        (void)world_append(
            world, ref,
            (struct batch_ask){.records = 20, .value_bytes = 2000, .timestamp = 100, .is_compressed = true});
        world_run(world);
        uint64_t token = world->next_token++;
        assert_int_equal(plog_find_time(world->plog, ref, token, 110, &world->out), BASE_OK);
        world->wants_continue = true;
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_OK);
        assert_int_equal(world_answer(world, token)->out.offset, is_limited == 1 ? -1 : 10);
        world_free(world);
    }
}

static void every_time_is_found_to_the_record(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        struct world *world = given_world();
        static struct model model;
        model.end = 0;
        world->log_config.segment_bytes = 60000;
        struct plog_ref ref = given_log(world, &model, 400);
        if (kind > 0) {
            world_stop(world);
            world_crash(world, CRASH_POWER);
            for (int i = 0; kind >= 2 && i < world->node_count; i++) {
                struct node *node = &world->nodes[i];
                if (strstr(node->name, ".timeindex") == NULL) { continue; }
                for (size_t at = 0; kind == 2 && at + 12 <= node->size; at += 12) {
                    node->bytes[at + 11] ^= (uint8_t)(at / 12);
                }
                for (size_t at = node->size - 12; kind == 3 && at > 0;
                     at -= 12) { /* the right batch with an older time */
                    base_put_u64(node->bytes + at, base_get_u64(node->bytes + at - 12) + 1);
                }
            }
            world_start(world);
            ref = world_log(world, 0, "topic", 1);
        }
        for (int64_t timestamp = 4000; timestamp < 14600; timestamp += 7) {
            expect_time(world, ref, &model, timestamp, 0);
        }
        expect_time(world, ref, &model, world_view(world, ref).timestamp_max, 0);
        if (kind == 0) {
            uint64_t token = world->next_token++;
            assert_int_equal(plog_move_start(world->plog, ref, token, 501, &world->out), BASE_OK);
            world->wants_continue = true;
            world_run(world);
            for (int64_t timestamp = 4000; timestamp < 14600; timestamp += 31) {
                expect_time(world, ref, &model, timestamp, 501);
            }
        }
        world_free(world);
    }
}

static void expect_greatest(struct world *world, struct plog_ref ref, int64_t offset, int64_t timestamp, int32_t epoch)
{
    uint64_t token = world->next_token++;
    assert_int_equal(plog_find_greatest(world->plog, ref, token, &world->out), BASE_OK);
    world->wants_continue = true;
    world_run(world);
    const struct plog_out *out = &world_answer(world, token)->out;
    assert_int_equal(out->result, PLOG_OK);
    assert_int_equal(out->offset, offset);
    assert_int_equal(out->timestamp_ms, timestamp);
    assert_int_equal(out->leader_epoch, epoch);
}

static void the_greatest_time_is_the_first_in_the_files_deleted_or_not(void **state)
{
    (void)state;
    static const int64_t timestamps[] = {-1, 7, 9, 9, 8};
    static const struct {
        int64_t offset, timestamp;
        int32_t epoch;
    } expected[] = {{0, -1, 0}, {1, 7, 3}, {2, 9, 6}, {2, 9, 6}, {2, 9, 6}};
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    expect_greatest(world, ref, -1, -1, -1);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(timestamps); i++) {
        struct batch_ask ask = {.value_bytes = 10, .timestamp = timestamps[i], .leader_epoch = 3 * (int32_t)i};
        (void)world_append(world, ref, ask);
        world_run(world);
        expect_greatest(world, ref, expected[i].offset, expected[i].timestamp, expected[i].epoch);
    }
    for (int64_t start = 1; start <= 5; start++) {
        assert_int_equal(plog_move_start(world->plog, ref, world->next_token++, start, &world->out), BASE_OK);
        world->wants_continue = true;
        world_run(world);
        expect_greatest(world, ref, 2, 9, 6);
    }
    world_free(world);
}

static void nothing_above_the_watermark_is_read(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->is_journal_held = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 10; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = 100 + i});
        world_run(world);
    }
    world_journal_sync(world, 5); /* the segment, and four runs */
    uint64_t token = world_read(world, ref, 0, 100000);
    world_run(world);
    struct plog_out out = world_answer(world, token)->out;
    assert_int_equal(out.watermark, 4);
    struct base_slice rest = base_slice_of(world_range(world, &out), out.size_bytes);
    struct rec_batch batch;
    int count = 0;
    while (rec_batch_next(&rest, &batch) == REC_OK) { count += 1; }
    assert_int_equal(count, 4);
    assert_int_equal(rest.size_bytes, 0);
    world_release(world, &out);
    token = world_read(world, ref, 4, 1000); /* at it: nothing, and fine */
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    assert_int_equal(world_answer(world, token)->out.size_bytes, 0);
    assert_int_equal(world_answer(world, token)->out.lease, 0);
    token = world_read(world, ref, 5, 1000);
    assert_int_equal(world_answer(world, token)->result, PLOG_OFFSET_RANGE);
    uint64_t time = world->next_token++;
    assert_int_equal(plog_find_time(world->plog, ref, time, 107, &world->out), BASE_OK);
    world->wants_continue = true;
    world_run(world);
    assert_int_equal(world_answer(world, time)->out.offset, -1);
    struct plog_read read = {.token = world->next_token++, .offset = 5, .bytes_max = 100000, .is_end_unlimited = true};
    assert_int_equal(plog_read(world->plog, ref, &read, &world->out), BASE_OK);
    world->wants_continue = true;
    world_run(world);
    assert_int_equal(world_answer(world, read.token)->result, PLOG_OK);
    assert_int_equal(world_answer(world, read.token)->out.size_bytes, 5 * out.size_bytes / 4);
    world_release(world, &world_answer(world, read.token)->out);
    world_free(world);
}

static void a_first_batch_larger_than_the_limit_comes_whole_or_not_at_all(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 3000});
    world_run(world);
    for (int is_restarted = 0; is_restarted < 2; is_restarted++) {
        struct plog_read read = {.token = world->next_token++,
                                 .offset = 0,
                                 .bytes_max = 100,
                                 .takes_oversized_first = true};
        assert_int_equal(plog_read(world->plog, ref, &read, &world->out), BASE_OK);
        world->wants_continue = true;
        world_run(world);
        assert_true(world_answer(world, read.token)->out.size_bytes > 3000);
        assert_int_equal(world_answer(world, read.token)->out.first_batch_bytes,
                         world_answer(world, read.token)->out.size_bytes);
        world_release(world, &world_answer(world, read.token)->out);
        read.token = world->next_token++;
        read.takes_oversized_first = false;
        assert_int_equal(plog_read(world->plog, ref, &read, &world->out), BASE_OK);
        world->wants_continue = true;
        world_run(world);
        assert_int_equal(world_answer(world, read.token)->result, PLOG_OK);
        assert_int_equal(world_answer(world, read.token)->out.size_bytes, 0);
        world_restart(world, CRASH_POWER);
        ref = world_log(world, 0, "topic", 1);
    }
    world_free(world);
}

static void a_tailing_reader_needs_no_effect(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 50; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
        uint64_t before = world->effects_seen;
        uint64_t token = world_read(world, ref, i, 100000);
        assert_true(world_answer(world, token)->is_done);
        assert_int_equal(world->effects_seen, before);
        world_release(world, &world_answer(world, token)->out);
    }
    world_free(world);
}

static void a_lookup_in_a_long_segment_takes_few_reads(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_bytes = 400000;
    world->config.step_max = 8;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 3000; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = 1000 + i});
        if (i % 32 == 0) { world_run(world); }
    }
    world_run(world);
    assert_true(world_view(world, ref).segment_count > 1);
    for (int64_t offset = 17; offset < 3000; offset += 101) {
        uint64_t before = world->effects_seen;
        uint64_t token = world_read(world, ref, offset, 100);
        world_run(world);
        assert_true(world->effects_seen - before <= 8);
        world_release(world, &world_answer(world, token)->out);
        before = world->effects_seen;
        token = world->next_token++;
        assert_int_equal(plog_find_time(world->plog, ref, token, 1000 + offset, &world->out), BASE_OK);
        world->wants_continue = true;
        world_run(world);
        assert_true(world->effects_seen - before <= 14);
    }
    const struct plog__log *log = plog__log_by_id(world->plog, world_part(0));
    for (const struct plog__segment *s = plog__segment_first(log); s != NULL; s = plog__segment_next(log, s)) {
        assert_false(s->is_index_bad);
    }
    world_free(world);
}

static void the_time_index_of_a_new_segment_begins_anew(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_bytes = 3000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 60; i++) { /* older and older */
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = 100000 - i * 100});
        world_run(world);
    }
    for (int i = 0; i < world->node_count; i++) {
        const struct node *node = &world->nodes[i];
        if (strstr(node->name, ".timeindex") == NULL) { continue; }
        assert_int_equal(node->size, 12);
        int64_t base = atoll(node->name);
        assert_int_equal(base_get_u64(node->bytes), 100000 - base * 100);
        assert_int_equal(base_get_u32(node->bytes + 8), 0);
    }
    world_free(world);
}

static void bytes_come_in_a_block_of_the_callers(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 20; i++) { (void)world_append(world, ref, (struct batch_ask){.value_bytes = 500}); }
    world_run(world);
    world_fault(world, (struct fault){.kind = PORT_READ, .suffix = ".log", .times = 50, .rc = PORT_OK, .count = 700});
    struct plog_read read = {.token = world->next_token++, .offset = 0, .bytes_max = 100000};
    assert_int_equal(plog_read_bytes(world->plog, ref, &read, &world->out), BASE_OK);
    world->wants_continue = true;
    world_run(world);
    const struct plog_out *out = &world_answer(world, read.token)->out;
    assert_int_equal(out->result, PLOG_OK);
    struct base_slice rest = base_slice_of(out->block, out->size_bytes);
    struct rec_batch batch;
    int count = 0;
    while (rec_batch_next(&rest, &batch) == REC_OK) { count += rec_crc_is_right(&batch) ? 1 : 0; }
    assert_int_equal(count, 20);
    base_pages_give(world->pages, out->block);
    assert_true(plog_is_quiet(world->plog));
    assert_int_equal(base_pages_block_count(world->pages), 0);
    world_free(world);
}

static void a_lease_holds_off_deletion_of_its_segment_and_of_its_log(void **state)
{
    (void)state;
    for (int is_log = 0; is_log < 2; is_log++) {
        struct world *world = given_world();
        world->log_config.segment_bytes = 1000;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int i = 0; i < 30; i++) {
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
            world_run(world);
        }
        uint64_t token = world_read(world, ref, 1, 100);
        world_run(world);
        struct plog_out out = world_answer(world, token)->out;
        uint8_t before[100];
        memcpy(before, world_range(world, &out), 100);
        if (is_log == 1) {
            plog_delete(world->plog, ref, &world->out);
        } else {
            assert_int_equal(plog_move_start(world->plog, ref, world->next_token++, 20, &world->out), BASE_OK);
        }
        world->wants_continue = true;
        world_run(world);
        world_alarm(world, 60000);
        assert_memory_equal(before, world_range(world, &out), 100);
        assert_int_equal(world->deleted, 0);
        if (is_log == 0) {
            assert_true(world_node(world, "topic-0/00000000000000000000.log") >= 0);
            assert_int_equal(world_node(world, "topic-0/00000000000000000005.log"), -1);
        }
        world_release(world, &out);
        world_run(world);
        assert_int_equal(world_node(world, "topic-0/00000000000000000000.log"), -1);
        assert_int_equal(world->deleted, is_log);
        assert_true(plog_is_quiet(world->plog));
        world_free(world);
    }
}

static void eight_descriptors_serve_a_hundred_logs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 6; seed++) {
        struct world *world = world_make(seed);
        world->config.files_max = 8;
        world->is_shuffled = true;
        world_start(world);
        struct plog_ref refs[100];
        int64_t ends[100] = {0};
        struct plog_out leases[16];
        int lease_count = 0;
        for (int i = 0; i < 100; i++) { refs[i] = world_log(world, i, "topic", 0); }
        for (int i = 0; i < 600; i++) {
            uint64_t log = base_prng_below(&world->dice, 100);
            if (world_append(world, refs[log], (struct batch_ask){.value_bytes = i % 9 == 0 ? 5000 : 50}) != 0) {
                ends[log] += 1;
            }
            for (uint64_t k = base_prng_below(&world->dice, 8); k > 0; k--) { (void)world_step(world); }
            log = base_prng_below(&world->dice, 100);
            if (world_view(world, refs[log]).watermark > 0 && i % 3 == 0) {
                uint64_t token = world_read(world, refs[log], 0, 1000);
                world_run(world);
                struct answer *answer = world_answer(world, token);
                if (!answer->is_done) { /* all leases are out: it waits for one to come back */
                    assert_true(lease_count > 0);
                    while (!answer->is_done) {
                        world_release(world, &leases[--lease_count]);
                        world_run(world);
                    }
                }
                assert_int_equal(answer->result, PLOG_OK);
                if (lease_count == 16) { world_release(world, &leases[--lease_count]); }
                leases[lease_count++] = answer->out;
            }
        }
        while (lease_count > 0) { world_release(world, &leases[--lease_count]); }
        world_run(world);
        assert_true(world->open_peak <= 8);
        for (int i = 0; i < 100; i++) { assert_int_equal(world_read_all(world, refs[i]), ends[i]); }
        world_stop(world);
        world_free(world);
    }
}

static void out_of_handles_closes_another_file_or_fails_clearly(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref refs[6];
    for (int i = 0; i < 6; i++) {
        refs[i] = world_log(world, i, "topic", 0);
        (void)world_append(world, refs[i], (struct batch_ask){.value_bytes = 50});
        world_run(world);
    }
    world_fault(world, (struct fault){.kind = PORT_OPEN, .times = 3, .rc = PORT_NO_HANDLES});
    struct plog_ref more = world_log(world, 6, "topic", 0);
    uint64_t token = world_append(world, more, (struct batch_ask){.value_bytes = 50});
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    world->fault_count = 0;
    world_fault(world, (struct fault){.kind = PORT_OPEN, .times = 100, .rc = PORT_NO_HANDLES});
    world->is_clock_held = true;
    world_checkpoint(world); /* its syncs wait for handles */
    world_run(world);
    assert_true(world->is_capturing);
    assert_true(plog_next_alarm_ns(world->plog) <= world->now_ns + 100000000);
    uint64_t read = world_read(world, refs[0], 0, 100);
    world_run(world);
    assert_int_equal(world_answer(world, read)->result, PLOG_BUSY);
    world->fault_count = 0;
    world->is_clock_held = false;
    world_alarm(world, 100);
    assert_false(world->is_capturing);
    assert_int_equal(world->states_end, PLOG_OK);
    world_stop(world);
    world_free(world);
}

static void retention_by_size_and_time_deletes_whole_old_segments(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_bytes = 1000;
    world->log_config.retention_bytes = 2000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 30; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
        world_run(world);
    }
    world_alarm(world, 300001);
    struct plog_view view = world_view(world, ref);
    assert_true(view.size_bytes >= 2000 && view.size_bytes < 3000);
    assert_true(view.offset_start > 0);
    world->log_config.retention_bytes = -1;
    world->log_config.retention_ms = 3600000;
    plog_configure(world->plog, ref, &world->log_config);
    for (int i = 0; i < 14; i++) { world_alarm(world, 300001); }
    view = world_view(world, ref);
    assert_int_equal(view.offset_start, 30);
    assert_int_equal(view.size_bytes, 0);
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
    world_run(world);
    assert_int_equal(world_answer(world, token)->base_offset, 30);
    world_restart(world, CRASH_POWER);
    assert_int_equal(world_read_all(world, plog_find(world->plog, world_part(0))), 1);
    world_free(world);
}

static void bytes_that_a_crash_may_take_keep_nothing_else_from_being_retained(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_bytes = 1000;
    world->log_config.retention_bytes = 1500;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 10; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
        world_run(world);
    }
    uint64_t synced_bytes = world_view(world, ref).size_bytes;
    assert_true(synced_bytes > 1500 && synced_bytes < 2500);
    world->is_journal_held = true;
    for (int i = 0; i < 20; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
        world_run(world);
    }
    assert_true(world_view(world, ref).size_bytes > synced_bytes + 1500);
    world_alarm(world, 300001);
    assert_int_equal(world_view(world, ref).start_next, 0);
    world->is_journal_held = false;
    world_restart(world, CRASH_POWER);
    assert_int_equal(world_read_all(world, plog_find(world->plog, world_part(0))), 10);
    world_free(world);
}

/* The whole log is expired: its last segment is doomed while its index is being written, after any number of steps of that. */
static void an_index_write_of_a_segment_that_retention_takes_ends_well(void **state)
{
    (void)state;
    for (int steps = 0; steps < 40; steps++) {
        struct world *world = given_world();
        world->log_config.retention_ms = 1000;
        world->log_config.index_interval_bytes = 100;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int i = 0; i < 5; i++) {
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
            world_run(world);
        }
        world->is_journal_held = true;
        world->is_held = true;
        world_alarm(world, 300001);
        world->is_held = false;
        for (int i = 0; i < steps; i++) { (void)world_step(world); }
        world->is_journal_held = false;
        world_journal_sync(world, 1);
        world_run(world);
        assert_int_equal(world_view(world, ref).offset_start, 5);
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
        world_run(world);
        assert_int_equal(world_answer(world, token)->base_offset, 5);
        world_free(world);
    }
}

/* That it was sealed first is nowhere written, and its files are gone by then. */
static void a_last_segment_that_retention_took_is_no_damage_after_a_restart(void **state)
{
    (void)state;
    for (int crash = CRASH_PROCESS; crash <= CRASH_TORN; crash++) {
        struct world *world = given_world();
        world->log_config.retention_ms = 1000;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int i = 0; i < 3; i++) {
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
            world_run(world);
        }
        world_alarm(world, 300001);
        world_alarm(world, 300001);
        assert_int_equal(world_view(world, ref).offset_start, 3);
        assert_int_equal(world_node(world, "topic-0/00000000000000000000.log"), -1);
        world_restart(world, (enum crash)crash);
        ref = world_log(world, 0, "topic", 1);
        assert_false(world_view(world, ref).is_damaged);
        assert_int_equal(world_view(world, ref).offset_start, 3);
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100, .leader_epoch = 1});
        world_run(world);
        assert_int_equal(world_answer(world, token)->base_offset, 3);
        world_free(world);
    }
}

/* A checkpoint named it: nothing of it is replayed, so nobody has looked for its files. */
static void the_greatest_time_of_a_last_segment_that_retention_took_is_none_after_a_restart(void **state)
{
    (void)state;
    for (int crash = CRASH_PROCESS; crash <= CRASH_TORN; crash++) {
        struct world *world = given_world();
        world->log_config.retention_ms = 1000;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
        world_run(world);
        world_checkpoint(world);
        world_alarm(world, 300001);
        world_alarm(world, 300001);
        assert_int_equal(world_view(world, ref).offset_start, 1);
        assert_int_equal(world_node(world, "topic-0/00000000000000000000.log"), -1);
        world_restart(world, (enum crash)crash);
        ref = plog_find(world->plog, world_part(0));
        expect_greatest(world, ref, -1, -1, -1);
        assert_false(world_view(world, ref).is_damaged);
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
        assert_int_equal(world_answer(world, token)->base_offset, 1);
        world_free(world);
    }
}

/* A log that keeps what is younger than that, and a record of now. */
static struct world *given_fresh_record(int64_t retention_ms, struct plog_ref *ref_out)
{
    struct world *world = given_world();
    world->log_config.retention_ms = retention_ms;
    *ref_out = world_log(world, 0, "topic", 0);
    (void)world_append(world, *ref_out, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
    world_run(world);
    return world;
}

static void a_segment_that_went_does_not_come_back_with_a_power_cut(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_fresh_record(1000, &ref);
    world_alarm(world, 300001);
    world_alarm(world, 300001);
    world_checkpoint(world); /* does not name it any more */
    world_run(world);
    world_restart(world, CRASH_POWER);
    world_run(world);
    assert_int_equal(world_node(world, "topic-0/00000000000000000000.log"), -1);
    world_free(world);
}

/* A crash left its file before an entry named it, and the log went on otherwise. */
static void a_segment_that_no_entry_names_goes_with_those_about_it(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_bytes = 400; /* two batches */
    world->log_config.retention_bytes = 1;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 5; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
        world_run(world);
    }
    static const char *const strays[] = {"topic-0/00000000000000000001.log", "topic-0/00000000000000000001.index"};
    static const char *const others[] = {"topic-0/00000000000000000005.log", "topic-0/00000000000000000001.txt",
                                         "topic-0/1.log"};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(strays); i++) { world_put(world, strays[i], "what a crash left"); }
    for (size_t i = 0; i < BASE_ARRAY_COUNT(others); i++) { world_put(world, others[i], "not of a segment that went"); }
    world_alarm(world, 300001);
    world_alarm(world, 300001);
    assert_int_equal(world_view(world, ref).offset_start, 4);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(strays); i++) { assert_int_equal(world_node(world, strays[i]), -1); }
    for (size_t i = 0; i < BASE_ARRAY_COUNT(others); i++) { assert_int_not_equal(world_node(world, others[i]), -1); }
    assert_int_equal(world_view(world, ref).offset_end, 5);
    world_free(world);
}

static void a_read_that_the_disk_refuses_once_says_so_and_damages_nothing(void **state)
{
    (void)state;
    for (int is_scan = 0; is_scan < 2;
         is_scan++) { /* the headers on the way to an offset, or the bytes of the answer */
        struct world *world = given_world();
        world->log_config.segment_bytes = 1 << 20;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        for (int i = 0; i < 20; i++) { (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100}); }
        world_run(world);
        world_restart(world, CRASH_PROCESS);
        ref = world_log(world, 0, "topic", 0);
        world_fault(world, (struct fault){.kind = PORT_READ, .suffix = ".log", .times = 1, .rc = PORT_IO});
        uint64_t token = world_read(world, ref, is_scan == 0 ? 0 : 13, 100000);
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_STORAGE);
        assert_false(world_view(world, ref).is_damaged);
        assert_int_equal(world_read_all(world, ref), 20);
        world_free(world);
    }
}

/* Memory knows where the batch stands; the file was closed, and is opened again for the read. */
static void a_batch_that_its_file_breaks_off_in_is_damage_to_its_reader(void **state)
{
    (void)state;
    for (int is_whole_asked = 0; is_whole_asked < 2; is_whole_asked++) {
        struct world *world = world_make(1);
        world->config.files_max = 8;
        world_start(world);
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        struct batch_ask ask = {.value_bytes = 100, .timestamp = 1000};
        for (int i = 0; i < 2; i++) {
            (void)world_append(world, ref, ask);
            world_run(world);
        }
        for (int i = 1; i <= 8; i++) { (void)world_append(world, world_log(world, i, "topic", 0), ask); }
        world_run(world);
        struct node *file = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
        file->size -= 10;
        uint64_t token = world_read(world, ref, 1, is_whole_asked == 1 ? 10000 : 10);
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_DAMAGED);
        assert_true(world_view(world, ref).is_damaged);
        token = world_read(world, ref, 0, 10);
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_OK);
        world_release(world, &world_answer(world, token)->out);
        world_free(world);
    }
}

static void a_log_of_many_segments_is_retained_in_portions(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->config.segments_max = 200;
    world->log_config.segment_bytes = 100;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 150; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
        world_run(world);
    }
    assert_int_equal(world_view(world, ref).segment_count, 150);
    world->log_config.retention_bytes = 1000;
    plog_configure(world->plog, ref, &world->log_config);
    world->is_journal_held = true;
    world_alarm(world, 300001);
    world_journal_sync(world, 1);
    for (int i = 0; i < 20; i++) { (void)world_step(world); }
    assert_int_equal(world_view(world, ref).offset_start, 64); /* one move took so many */
    world->is_journal_held = false;
    world_journal_sync(world, 1000);
    world_alarm(world, 1);
    world_alarm(world, 1);
    world_alarm(world, 1);
    assert_true(world_view(world, ref).offset_start >= 140); /* the others followed, and not at the next interval */
    world_free(world);
}

static void a_record_from_the_future_does_not_defeat_retention(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.retention_ms = 3600000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = INT64_C(9000000000000)});
    world_run(world);
    for (int i = 0; i < 14; i++) { world_alarm(world, 300001); }
    assert_int_equal(world_view(world, ref).offset_start, 1);
    world_free(world);
}

static void a_wall_clock_that_jumped_ahead_deletes_nothing(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_fresh_record(3600000, &ref);
    world->wall_ms += INT64_C(31536000000);
    world_alarm(world, 300001);
    assert_int_equal(world_view(world, ref).offset_start, 0);
    world_free(world);
}

static void a_wall_clock_that_jumps_ahead_while_a_start_replays_deletes_nothing(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_fresh_record(3600000, &ref);
    world->start_step_ms = INT64_C(31536000000);
    world_restart(world, CRASH_PROCESS);
    ref = world_log(world, 0, "topic", 0);
    world_alarm(world, 300001);
    assert_int_equal(world_view(world, ref).offset_start, 0);
    world_free(world);
}

/* A host without a clock of its own starts years behind, and its clock is set right later. */
static void a_start_with_the_clock_behind_makes_no_record_older(void **state)
{
    (void)state;
    const int64_t ahead_ms[] = {0, 1800000}; /* of the broker's clock: that of the client may be */
    for (size_t i = 0; i < BASE_ARRAY_COUNT(ahead_ms); i++) {
        struct world *world = given_world();
        world->log_config.retention_ms = 86400000;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        int64_t timestamp = world->wall_ms + ahead_ms[i];
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = timestamp});
        world_run(world);
        world_restart_behind(world);
        ref = world_log(world, 0, "topic", 0);
        world_alarm(world, 300001);
        assert_int_equal(world_view(world, ref).offset_start, 0);
        for (int k = 0; k < 300; k++) { world_alarm(world, 300001); }
        assert_int_equal(world_view(world, ref).offset_start, 1); /* its day has passed */
        world_free(world);
    }
}

static void a_record_from_the_future_that_is_replayed_with_the_clock_behind_takes_no_fresh_one_along(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.retention_ms = 86400000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms});
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = world->wall_ms + 43200000});
    world_run(world);
    world_restart_behind(world);
    ref = world_log(world, 0, "topic", 0);
    world_alarm(world, 300001);
    assert_int_equal(world_view(world, ref).offset_start, 0);
    world_free(world);
}

/* It ages from when it came by the clock that was furthest. */
static void a_clock_that_goes_back_and_partly_forth_takes_no_fresh_record(void **state)
{
    (void)state;
    const int64_t year_ms = INT64_C(31536000000);
    struct world *world = given_world();
    world->log_config.retention_ms = 86400000;
    world->log_config.segment_bytes = 1 << 20;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    int64_t timestamp = world->wall_ms;
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = timestamp});
    world_run(world);
    world->wall_ms -= 3 * year_ms;
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = timestamp});
    world_run(world);
    world->wall_ms += 2 * year_ms;
    world_alarm(world, 300001);
    assert_int_equal(world_view(world, ref).offset_start, 0);
    world_free(world);
}

static void a_clock_that_goes_back_while_a_start_replays_and_partly_forth_takes_no_fresh_record(void **state)
{
    (void)state;
    const int64_t year_ms = INT64_C(31536000000);
    struct plog_ref ref;
    struct world *world = given_fresh_record(86400000, &ref);
    world->start_step_ms = -3 * year_ms;
    world_restart(world, CRASH_PROCESS);
    ref = world_log(world, 0, "topic", 0);
    world->wall_ms += 2 * year_ms;
    world_alarm(world, 300001);
    assert_int_equal(world_view(world, ref).offset_start, 0);
    world_free(world);
}

static void epoch_ends_are_as_kafka_answers_them(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 2);
    const int32_t epochs[] = {2, 4, 5, 9};
    for (size_t i = 0; i < 4; i++) {
        ref = world_log(world, 0, "topic", epochs[i]);
        for (int k = 0; epochs[i] != 5 && k < 10; k++) {
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10, .leader_epoch = epochs[i]});
        }
        world_run(world);
    }
    static const struct {
        int32_t asked, epoch;
        int64_t end;
    } answers[] = {{-1, -1, -1}, {0, 0, 0},  {1, 1, 0},  {2, 2, 10}, {3, 2, 10},
                   {4, 4, 20},   {5, 4, 20}, {8, 4, 20}, {9, 9, 30}, {10, -1, -1}};
    for (int is_restarted = 0; is_restarted < 2; is_restarted++) {
        for (size_t i = 0; i < BASE_ARRAY_COUNT(answers); i++) {
            int32_t epoch;
            int64_t end;
            plog_epoch_end(world->plog, ref, answers[i].asked, &epoch, &end);
            assert_int_equal(epoch, answers[i].epoch);
            assert_int_equal(end, answers[i].end);
        }
        world_restart(world, CRASH_POWER);
        ref = plog_find(world->plog, world_part(0));
    }
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_opened_up_to_what_is_accepted),
        cmocka_unit_test(a_read_at_every_offset_equals_the_model),
        cmocka_unit_test(an_index_answer_equals_a_scans),
        cmocka_unit_test(every_time_is_found_to_the_record),
        cmocka_unit_test(the_greatest_time_is_the_first_in_the_files_deleted_or_not),
        cmocka_unit_test(nothing_above_the_watermark_is_read),
        cmocka_unit_test(a_first_batch_larger_than_the_limit_comes_whole_or_not_at_all),
        cmocka_unit_test(a_tailing_reader_needs_no_effect),
        cmocka_unit_test(a_lookup_in_a_long_segment_takes_few_reads),
        cmocka_unit_test(the_time_index_of_a_new_segment_begins_anew),
        cmocka_unit_test(bytes_come_in_a_block_of_the_callers),
        cmocka_unit_test(a_lease_holds_off_deletion_of_its_segment_and_of_its_log),
        cmocka_unit_test(eight_descriptors_serve_a_hundred_logs),
        cmocka_unit_test(out_of_handles_closes_another_file_or_fails_clearly),
        cmocka_unit_test(retention_by_size_and_time_deletes_whole_old_segments),
        cmocka_unit_test(bytes_that_a_crash_may_take_keep_nothing_else_from_being_retained),
        cmocka_unit_test(an_index_write_of_a_segment_that_retention_takes_ends_well),
        cmocka_unit_test(a_last_segment_that_retention_took_is_no_damage_after_a_restart),
        cmocka_unit_test(the_greatest_time_of_a_last_segment_that_retention_took_is_none_after_a_restart),
        cmocka_unit_test(a_segment_that_went_does_not_come_back_with_a_power_cut),
        cmocka_unit_test(a_segment_that_no_entry_names_goes_with_those_about_it),
        cmocka_unit_test(a_read_that_the_disk_refuses_once_says_so_and_damages_nothing),
        cmocka_unit_test(a_batch_that_its_file_breaks_off_in_is_damage_to_its_reader),
        cmocka_unit_test(a_log_of_many_segments_is_retained_in_portions),
        cmocka_unit_test(a_record_from_the_future_does_not_defeat_retention),
        cmocka_unit_test(a_record_from_the_future_that_is_replayed_with_the_clock_behind_takes_no_fresh_one_along),
        cmocka_unit_test(a_wall_clock_that_jumped_ahead_deletes_nothing),
        cmocka_unit_test(a_wall_clock_that_jumps_ahead_while_a_start_replays_deletes_nothing),
        cmocka_unit_test(a_clock_that_goes_back_while_a_start_replays_and_partly_forth_takes_no_fresh_record),
        cmocka_unit_test(a_start_with_the_clock_behind_makes_no_record_older),
        cmocka_unit_test(a_clock_that_goes_back_and_partly_forth_takes_no_fresh_record),
        cmocka_unit_test(epoch_ends_are_as_kafka_answers_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
