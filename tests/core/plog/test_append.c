/* test_append.c: rounds: offsets, order, failure, rolls, what is durable before what.
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

static void expect_synced(struct world *world, uint64_t token, int64_t base_offset)
{
    const struct answer *answer = world_answer(world, token);
    assert_true(answer->is_done);
    assert_int_equal(answer->kind, PLOG_OUT_SYNCED);
    assert_int_equal(answer->result, PLOG_OK);
    assert_int_equal(answer->base_offset, base_offset);
}

static void expect_failed(struct world *world, uint64_t token, enum plog_result result)
{
    const struct answer *answer = world_answer(world, token);
    assert_true(answer->is_done);
    assert_int_equal(answer->kind, PLOG_OUT_FAILED);
    assert_int_equal(answer->result, result);
}

static void offsets_are_dense_and_in_the_order_of_appending(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 3);
    uint64_t tokens[200];
    int64_t expected = 0;
    for (int i = 0; i < 200; i++) {
        tokens[i] =
            world_append(world, ref, (struct batch_ask){.records = 1 + i % 5, .value_bytes = 40, .leader_epoch = 3});
        if (i % 7 == 0) { (void)world_step(world); }
    }
    world_run(world);
    for (int i = 0; i < 200; i++) {
        expect_synced(world, tokens[i], expected);
        expected += 1 + i % 5;
    }
    struct plog_view view = world_view(world, ref);
    assert_int_equal(view.offset_end, expected);
    assert_int_equal(view.watermark, expected);
    assert_int_equal(world_read_all(world, ref), expected);
    assert_true(plog_is_quiet(world->plog));
    assert_true(world->effects_max_seen <= PLOG_EFFECTS_MAX);
    world_free(world);
}

static void no_directory_before_the_first_record(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    world_run(world);
    assert_int_equal(world->node_count, 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    assert_true(world_node(world, "topic-0/00000000000000000000.log") >= 0);
    int at = world_node(world, "topic-0/partition.metadata");
    assert_true(at >= 0);
    assert_memory_equal(world->nodes[at].bytes, "version: 0\ntopic_id: MDEyMzQ1Njc4OWFiY2RlZg\n", 44);
    world_free(world);
}

static void waiting_appends_are_one_write(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    uint64_t before = world->effects_seen;
    for (int i = 0; i < 20; i++) { (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10}); }
    world_run(world);
    assert_int_equal(world->effects_seen, before + 1);
    world_free(world);
}

static void nothing_is_visible_before_the_journal_has_it(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->is_journal_held = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t first = world_append(world, ref, (struct batch_ask){.value_bytes = 10, .wants_written = true});
    world_run(world);
    uint64_t second = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    assert_true(world_answer(world, first)->is_written);
    assert_false(world_answer(world, second)->is_written);
    assert_false(world_answer(world, first)->is_done);
    assert_int_equal(world_view(world, ref).watermark, 0);
    assert_int_equal(world_view(world, ref).offset_end, 2);
    assert_int_equal(world->entry_count, 3); /* the segment, two runs */
    world_journal_sync(world, 2);
    expect_synced(world, first, 0);
    assert_int_equal(world_view(world, ref).watermark, 1);
    world_journal_sync(world, 1);
    expect_synced(world, second, 1);
    world_free(world);
}

static void a_failed_write_leaves_the_log_as_if_it_had_not_been(void **state)
{
    (void)state;
    const enum port_rc rcs[] = {PORT_IO, PORT_NO_SPACE};
    for (size_t i = 0; i < 2; i++) {
        for (uint64_t written = 0; written < 300; written += 60) {
            struct world *world = given_world();
            struct plog_ref ref = world_log(world, 0, "topic", 0);
            struct batch_ask ask = {.value_bytes = 100, .producer_id = 9};
            uint64_t first = world_append(world, ref, ask);
            world_run(world);
            expect_synced(world, first, 0);
            world_fault(world, (struct fault){
                                   .kind = PORT_WRITE, .suffix = ".log", .times = 1, .rc = rcs[i], .count = written});
            ask.sequence = 1;
            uint64_t second = world_append(world, ref, ask);
            uint64_t stranger =
                world_append(world, ref, (struct batch_ask){.value_bytes = 9, .producer_id = 77, .sequence = 5});
            world_run(world);
            expect_failed(world, second, rcs[i] == PORT_IO ? PLOG_STORAGE : PLOG_NO_SPACE);
            expect_failed(world, stranger, rcs[i] == PORT_IO ? PLOG_STORAGE : PLOG_NO_SPACE);
            const struct node *node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
            assert_int_equal(node->size, world_view(world, ref).size_bytes);
            uint64_t again = world_append(world, ref, ask); /* the same sequence: neither a duplicate nor a gap */
            world_run(world);
            expect_synced(world, again, 1);
            assert_int_equal(world_read_all(world, ref), 2);
            world_restart(world, CRASH_POWER);
            assert_int_equal(world_read_all(world, plog_find(world->plog, world_part(0))), 2);
            world_free(world);
        }
    }
}

static void a_round_in_flight_does_not_undo_the_one_before(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->is_journal_held = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t first = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    world_fault(world, (struct fault){.kind = PORT_WRITE, .suffix = ".log", .times = 1, .rc = PORT_IO, .count = 50});
    uint64_t second = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    expect_failed(world, second, PLOG_STORAGE);
    world_journal_sync(world, 9);
    expect_synced(world, first, 0);
    world_free(world);
}

static void a_cut_that_fails_is_made_before_the_next_round(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t first = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    expect_synced(world, first, 0);
    world_fault(world, (struct fault){.kind = PORT_WRITE, .suffix = ".log", .times = 1, .rc = PORT_IO, .count = 150});
    world_fault(world, (struct fault){.kind = PORT_TRUNCATE, .suffix = ".log", .times = 2, .rc = PORT_IO});
    uint64_t second = world_append(world, ref, (struct batch_ask){.value_bytes = 200});
    world_run(world);
    expect_failed(world, second, PLOG_STORAGE);
    const struct node *node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
    assert_true(node->size > world_view(world, ref).size_bytes); /* what it left is still there */
    uint64_t third = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    expect_failed(world, third, PLOG_STORAGE); /* and is not appended to */
    assert_false(world_view(world, ref).is_failed);
    uint64_t fourth = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    expect_synced(world, fourth, 1);
    assert_int_equal(node->size, world_view(world, ref).size_bytes);
    assert_int_equal(world_read_all(world, ref), 2);
    world_restart(world, CRASH_PROCESS);
    assert_int_equal(world_read_all(world, world_log(world, 0, "topic", 1)), 2);
    world_free(world);
}

static void a_disk_without_room_is_told_of_once_for_each_round(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    world_fault(world, (struct fault){.kind = PORT_MAKE_DIR, .times = 1, .rc = PORT_NO_SPACE});
    uint64_t first = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    expect_failed(world, first, PLOG_NO_SPACE);
    assert_int_equal(world->full_count, 1);
    uint64_t again = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    expect_synced(world, again, 0);
    assert_int_equal(world->full_count, 1);
    world_free(world);
}

/* As when somebody has removed the directory of all logs. */
static void a_folder_that_can_not_be_made_for_what_is_above_it_fails_the_append(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    world_fault(world, (struct fault){.kind = PORT_MAKE_DIR, .times = 100, .rc = PORT_MISSING});
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    expect_failed(world, token, PLOG_STORAGE);
    world_free(world);
}

static void a_large_run_is_synced_in_its_segment_before_it_leaves(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t large =
        world_append(world, ref, (struct batch_ask){.value_bytes = 5000}); /* the world checks what was synced */
    uint64_t small = world_append(world, ref, (struct batch_ask){.value_bytes = 50});
    world_run(world);
    expect_synced(world, large, 0);
    expect_synced(world, small, 1);
    bool has_large = false;
    for (size_t i = 0; i < world->entry_count; i++) { has_large = has_large || world->entries[i].bytes == NULL; }
    assert_true(has_large);
    world_free(world);
}

static void runs_leave_in_offset_order_though_a_later_one_is_ready_first(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->is_journal_held = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 5});
    world_run(world);
    for (int i = 0; i < 30; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = i % 3 == 0 ? 5000 : 5});
        for (int k = 0; k < i % 4; k++) { (void)world_step(world); }
    }
    world_run(world);
    int64_t end = 0;
    for (size_t i = 0; i < world->entry_count; i++) {
        if (world->entries[i].run.change != 0) { continue; }
        assert_int_equal(world->entries[i].run.offset_base, end);
        end = world->entries[i].run.offset_end;
    }
    assert_int_equal(end, 31);
    world_journal_sync(world, 1000);
    assert_int_equal(world_read_all(world, ref), 31);
    world_free(world);
}

static void a_failed_sync_takes_the_disk_off_line(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    struct plog_ref other = world_log(world, 1, "topic", 0);
    uint64_t before = world_append(world, other, (struct batch_ask){.value_bytes = 5});
    world_run(world);
    world_fault(world, (struct fault){.kind = PORT_SYNC, .suffix = ".log", .times = 1, .rc = PORT_IO});
    uint64_t large = world_append(world, ref, (struct batch_ask){.value_bytes = 5000});
    world_run(world);
    expect_synced(world, before, 0);
    assert_true(world->is_disk_failed);
    expect_failed(world, large, PLOG_STORAGE);
    uint64_t after = world_append(world, other, (struct batch_ask){.value_bytes = 5});
    world_run(world);
    expect_failed(world, after, PLOG_STORAGE);
    uint64_t read = world_read(world, other, 0, 1000);
    world_run(world);
    assert_int_equal(world_answer(world, read)->result, PLOG_STORAGE);
    assert_true(plog_is_quiet(world->plog));
    world_free(world);
}

static void a_checkpoint_never_ends_on_a_failed_disk(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 5});
    world_run(world);
    world_fault(world, (struct fault){.kind = PORT_SYNC, .suffix = ".log", .times = 1, .rc = PORT_IO});
    world_checkpoint(world);
    world_run(world);
    assert_true(world->is_disk_failed);
    assert_true(world->is_capturing);
    assert_int_equal(world->checkpoints, 0);
    assert_true(plog_is_quiet(world->plog));
    world_free(world);
}

static void a_failed_journal_fails_all_that_is_in_flight(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->is_journal_held = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t tokens[4];
    for (int i = 0; i < 4; i++) {
        tokens[i] = world_append(world, ref, (struct batch_ask){.value_bytes = 5});
        if (i < 2) { world_run(world); }
    }
    plog_disk_failed(world->plog, &world->out);
    world->is_disk_failed = true;
    world_run(world);
    world_journal_sync(world, 1000);
    for (int i = 0; i < 4; i++) { expect_failed(world, tokens[i], PLOG_STORAGE); }
    assert_true(plog_is_quiet(world->plog));
    world_free(world);
}

static void segments_roll_by_size_and_read_as_one(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_bytes = 2000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 100; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = 1000 + i});
        if (i % 3 == 0) { world_run(world); }
    }
    world_run(world);
    struct plog_view view = world_view(world, ref);
    assert_true(view.segment_count >= 9);
    assert_int_equal(view.timestamp_max, 1099);
    assert_int_equal(view.timestamp_max_offset, 99);
    assert_int_equal(world_read_all(world, ref), 100);
    for (int i = 0; i < world->node_count; i++) {
        const struct node *node = &world->nodes[i];
        if (!node->is_dir && strstr(node->name, ".log") != NULL) { assert_true(node->size <= 2000); }
        if (!node->is_dir && strstr(node->name, ".index") != NULL) { assert_int_equal(node->size % 8, 0); }
        if (!node->is_dir && strstr(node->name, ".timeindex") != NULL) { assert_int_equal(node->size % 12, 0); }
    }
    world_free(world);
}

/* What is first in line, and leaves no bytes, is not what the segment must have room for. */
static void a_segment_that_is_full_rolls_behind_a_duplicate_too(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_bytes = 2000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10, .producer_id = 7});
    world_run(world);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 1500});
    world_run(world);
    uint64_t again = world_append(world, ref, (struct batch_ask){.value_bytes = 10, .producer_id = 7});
    uint64_t out_of_order =
        world_append(world, ref, (struct batch_ask){.value_bytes = 10, .producer_id = 7, .sequence = 9});
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 1500});
    world_run(world);
    assert_int_equal(world_answer(world, again)->result, PLOG_DUPLICATE);
    assert_int_equal(world_answer(world, out_of_order)->result, PLOG_OUT_OF_ORDER);
    expect_synced(world, token, 2);
    assert_int_equal(world_view(world, ref).segment_count, 2);
    assert_true(world->nodes[world_node(world, "topic-0/00000000000000000000.log")].size <= 2000);
    world_free(world);
}

static void segments_roll_by_time_and_by_a_full_index(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_ms = 1000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 10; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10, .timestamp = 5000 + i * 400});
        world_run(world);
    }
    assert_int_equal(world_view(world, ref).segment_count, 4); /* at 5000, 6200, 7400, 8600 */
    world->log_config.segment_ms = UINT64_MAX;
    world->log_config.index_bytes_max = 5 * 8;
    struct plog_ref other = world_log(world, 1, "topic", 0);
    for (int i = 0; i < 30; i++) {
        (void)world_append(world, other, (struct batch_ask){.value_bytes = 300});
        world_run(world);
    }
    assert_true(world_view(world, other).segment_count >= 3);
    assert_int_equal(world_read_all(world, other), 30);
    world_free(world);
}

static void segments_of_logs_with_jitter_roll_early_and_each_at_its_own_time(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_ms = 1000;
    world->log_config.segment_jitter_ms = 800;
    int64_t bases[2][40];
    uint32_t counts[2] = {0, 0};
    for (int p = 0; p < 2; p++) {
        struct plog_ref ref = world_log(world, p, "topic", 0);
        uint32_t before = 0;
        for (int64_t i = 0; i < 40; i++) {
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10, .timestamp = 5000 + i * 100});
            world_run(world);
            uint32_t now = world_view(world, ref).segment_count;
            if (now != before) { bases[p][counts[p]++] = i; }
            before = now;
        }
        assert_true(counts[p] > 4); /* without: at 0, 11, 22 and 33 */
        for (uint32_t i = 1; i < counts[p]; i++) {
            assert_in_range(bases[p][i] - bases[p][i - 1], 3, 11); /* 200 to 1000 ms have to pass */
        }
    }
    assert_true(counts[0] != counts[1] || memcmp(bases[0], bases[1], counts[0] * sizeof bases[0][0]) != 0);
    world_free(world);
}

static uint64_t reserved_of(struct world *world, int64_t base)
{
    char path[64];
    (void)snprintf(path, sizeof path, "topic-0/%020lld.log", (long long)base);
    return world->nodes[world_node(world, path)].reserved;
}

static void a_preallocated_segment_has_its_disk_until_it_is_sealed(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_preallocated = true;
    world->log_config.segment_bytes = 2000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 900});
    world_run(world);
    assert_int_equal(reserved_of(world, 0), 2000);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 900});
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 900});
    world_run(world);
    assert_int_equal(world_view(world, ref).segment_count, 2);
    assert_int_equal(reserved_of(world, 0), 0);
    assert_int_equal(reserved_of(world, 2), 2000);
    assert_int_equal(world_read_all(world, ref), 3);
    world_free(world);
}

static void no_room_for_a_whole_segment_is_no_reason_not_to_write(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_preallocated = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    world_fault(world, (struct fault){.kind = PORT_ALLOCATE, .times = 1, .rc = PORT_NO_SPACE});
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 900});
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    assert_int_equal(world_read_all(world, ref), 1);
    world_free(world);
}

static void log_append_time_is_the_turns_wall_time(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t token =
        world_append(world, ref, (struct batch_ask){.value_bytes = 10, .timestamp = 5, .is_log_append_time = true});
    world_run(world);
    assert_int_equal(world_answer(world, token)->log_append_time_ms, world->wall_ms);
    assert_int_equal(world_view(world, ref).timestamp_max, world->wall_ms);
    assert_int_equal(world_read_all(world, ref), 1);
    world_free(world);
}

static void page_cache_logs_are_visible_when_written(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t first = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    expect_synced(world, first, 0);
    world->is_journal_held = true;
    uint64_t second = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    expect_synced(world, second, 1);
    assert_int_equal(world->entry_count, 1); /* only that there is a segment */
    world_free(world);
}

/* Recovery reads a segment by the way its rounds became durable. */
static void logs_with_segments_keep_their_durability_whatever_is_configured(void **state)
{
    (void)state;
    for (int born = 0; born < 2; born++) {
        struct world *world = given_world();
        world->log_config.is_page_cache = born == 1;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
        world_run(world);
        world->log_config.is_page_cache = born == 0;
        plog_configure(world->plog, ref, &world->log_config);
        world->is_journal_held = true;
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
        world_run(world);
        assert_int_equal(world_view(world, ref).watermark, born == 1 ? 2 : 1);
        world->is_journal_held = false;
        world_run(world);
        expect_synced(world, token, 1);
        world_free(world);
    }
}

static void page_cache_logs_are_flushed_by_messages_and_by_time(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    world->log_config.flush_messages = 3;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    const char *path = "topic-0/00000000000000000000.log";
    for (int i = 0; i < 3; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
        world_run(world);
        assert_int_equal(world->nodes[world_node(world, path)].synced_size > 0, i == 2);
    }
    world->log_config.flush_messages = UINT64_MAX;
    world->log_config.flush_ms = 50;
    plog_configure(world->plog, ref, &world->log_config);
    world_alarm(world, 1000); /* a sweep; the next comes in minutes */
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    world_alarm(world, 100);
    const struct node *node = &world->nodes[world_node(world, path)];
    assert_int_equal(node->synced_size, node->size);
    world_free(world);
}

static void what_makes_flush_messages_full_is_answered_when_the_disk_has_it(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    world->log_config.flush_messages = 2;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    world_fault(world, (struct fault){.kind = PORT_SYNC, .suffix = ".log", .times = 1, .rc = PORT_IO});
    uint64_t first = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    assert_int_equal(world_answer(world, first)->result, PLOG_OK);
    uint64_t second = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    expect_failed(world, second, PLOG_STORAGE);
    world_free(world);
}

static void put_off_the_sync(struct world *world)
{
    for (size_t i = 0; i < world->pending_end; i++) {
        struct pending *pending = &world->pending[i];
        if (pending->is_used && pending->effect.kind == PORT_SYNC) { pending->order = UINT64_MAX / 2; }
    }
}

/* flush.ms has asked for a sync of the first one, which takes long: the third makes flush.messages full all the same. */
static void what_is_acknowledged_and_not_synced_is_less_than_flush_messages_while_flush_ms_is_at_work(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    world->log_config.flush_messages = 3;
    world->log_config.flush_ms = 50;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    world->is_held = true;
    world_alarm(world, 100);
    put_off_the_sync(world);
    world->is_held = false;
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    uint64_t third = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    while (!world_answer(world, third)->is_done) { assert_true(world_step(world)); }
    assert_int_equal(world_answer(world, third)->result, PLOG_OK);
    const struct node *node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
    assert_int_equal(node->synced_size, node->size);
    world_run(world);
    world_free(world);
}

/* No flush by number or time looks at it again. */
static void a_page_cache_segment_that_is_full_is_synced(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    world->log_config.segment_bytes = 150;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 2; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
    }
    const struct node *full = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
    const struct node *last = &world->nodes[world_node(world, "topic-0/00000000000000000001.log")];
    assert_int_equal(full->synced_size, full->size);
    assert_int_equal(last->synced_size, 0);
    world_free(world);
}

static void a_flush_that_is_due_before_a_new_segment_has_its_file_fails_nothing(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    world->log_config.flush_ms = 1000000;
    world->log_config.retention_ms = 1000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10, .timestamp = world->wall_ms});
    world_run(world);
    for (int i = 0; i < 3; i++) { world_alarm(world, 300001); }
    assert_int_equal(world_view(world, ref).offset_start, 1); /* retention took the segment that the flush was for */
    world_fault(world, (struct fault){.kind = PORT_OPEN, .suffix = ".log", .times = 1, .rc = PORT_NO_HANDLES});
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10, .timestamp = world->wall_ms});
    world_run(world);
    world_alarm(world, 300001);
    assert_false(world_view(world, ref).is_failed);
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 10, .timestamp = world->wall_ms});
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    world_free(world);
}

static void appends_of_a_deleted_log_end_as_gone(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->is_journal_held = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t first = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    uint64_t second = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    plog_delete(world->plog, ref, &world->out);
    world_run(world);
    world_journal_sync(world, 100);
    world_run(world);
    expect_failed(world, first, PLOG_GONE);
    expect_failed(world, second, PLOG_GONE);
    uint64_t third = world_append(world, ref, (struct batch_ask){.value_bytes = 10});
    world_run(world);
    expect_failed(world, third, PLOG_GONE);
    assert_int_equal(world->deleted, 1);
    for (int i = 0; i < world->node_count; i++) { assert_false(world->nodes[i].is_live); }
    assert_true(plog_is_quiet(world->plog));
    world_free(world);
}

/* The checkpoint waits for the log to come to rest, and the log goes. */
static void a_checkpoint_does_not_wait_for_a_log_that_is_gone(void **state)
{
    (void)state;
    for (int steps = 0; steps < 30; steps++) {
        struct world *world = given_world();
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
        for (int i = 0; i < steps; i++) { (void)world_step(world); }
        world_checkpoint(world);
        plog_delete(world->plog, ref, &world->out);
        world_run(world);
        assert_int_equal(world->checkpoints, 1);
        assert_int_equal(world->deleted, 1);
        assert_true(plog_is_quiet(world->plog));
        world_free(world);
    }
}

static void an_old_leaders_append_is_refused(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 4);
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 10, .leader_epoch = 3});
    world_run(world);
    expect_failed(world, token, PLOG_OLD_EPOCH);
    world_free(world);
}

static void any_order_of_completions_gives_the_same_log(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world *world = world_make(seed);
        world->is_shuffled = true;
        world->log_config.segment_bytes = 3000;
        world->config.step_max = 1 + (uint32_t)(seed % 3);
        world_start(world);
        int64_t ends[4] = {0};
        struct plog_ref refs[4];
        for (int i = 0; i < 4; i++) { refs[i] = world_log(world, i, "topic", 0); }
        for (int i = 0; i < 200; i++) {
            uint64_t log = base_prng_below(&world->dice, 4);
            size_t size = base_prng_chance(&world->dice, 1, 10) ? 4500 : (size_t)base_prng_below(&world->dice, 400);
            uint64_t token = world_append(world, refs[log], (struct batch_ask){.value_bytes = size, .records = 2});
            if (token == 0) {
                world_run(world);
                continue;
            }
            ends[log] += 2;
            for (uint64_t k = base_prng_below(&world->dice, 6); k > 0; k--) { (void)world_step(world); }
        }
        world_run(world);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(world_view(world, refs[i]).watermark, ends[i]);
            assert_int_equal(world_read_all(world, refs[i]), ends[i]);
        }
        assert_true(world->effects_max_seen <= PLOG_EFFECTS_MAX);
        world_free(world);
    }
}

static void a_short_write_is_continued(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    world_fault(world, (struct fault){.kind = PORT_WRITE, .suffix = ".log", .times = 30, .rc = PORT_OK, .count = 17});
    uint64_t tokens[3];
    for (int i = 0; i < 3; i++) { tokens[i] = world_append(world, ref, (struct batch_ask){.value_bytes = 100}); }
    world_run(world);
    for (int i = 0; i < 3; i++) { expect_synced(world, tokens[i], i); }
    assert_int_equal(world_read_all(world, ref), 3);
    world_free(world);
}

static void a_cut_after_a_failed_write_is_synced_before_the_segment_is_sealed(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.segment_bytes = 400;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t first = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    expect_synced(world, first, 0);
    world_checkpoint(world); /* syncs it */
    world_run(world);
    world_fault(world,
                (struct fault){.kind = PORT_WRITE, .suffix = ".log", .times = 1, .rc = PORT_NO_SPACE, .count = 50});
    uint64_t second = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    expect_failed(world, second, PLOG_NO_SPACE);
    struct node *node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
    size_t size = node->size;
    assert_int_equal(size, world_view(world, ref).size_bytes);
    world_undo_cut(node, 50); /* the kernel had written what came of it before it was cut */
    uint64_t third = world_append(world, ref, (struct batch_ask){.value_bytes = 350});
    world_run(world);
    expect_synced(world, third, 1);
    assert_int_equal(world_view(world, ref).segment_count, 2);
    world_checkpoint(world);
    world_run(world);
    world_restart(world, CRASH_POWER);
    node = &world->nodes[world_node(world, "topic-0/00000000000000000000.log")];
    assert_int_equal(node->size, size);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_dense_and_in_the_order_of_appending),
        cmocka_unit_test(no_directory_before_the_first_record),
        cmocka_unit_test(waiting_appends_are_one_write),
        cmocka_unit_test(nothing_is_visible_before_the_journal_has_it),
        cmocka_unit_test(a_failed_write_leaves_the_log_as_if_it_had_not_been),
        cmocka_unit_test(a_round_in_flight_does_not_undo_the_one_before),
        cmocka_unit_test(a_cut_that_fails_is_made_before_the_next_round),
        cmocka_unit_test(a_disk_without_room_is_told_of_once_for_each_round),
        cmocka_unit_test(a_folder_that_can_not_be_made_for_what_is_above_it_fails_the_append),
        cmocka_unit_test(a_large_run_is_synced_in_its_segment_before_it_leaves),
        cmocka_unit_test(runs_leave_in_offset_order_though_a_later_one_is_ready_first),
        cmocka_unit_test(a_failed_sync_takes_the_disk_off_line),
        cmocka_unit_test(a_checkpoint_never_ends_on_a_failed_disk),
        cmocka_unit_test(a_failed_journal_fails_all_that_is_in_flight),
        cmocka_unit_test(segments_roll_by_size_and_read_as_one),
        cmocka_unit_test(a_segment_that_is_full_rolls_behind_a_duplicate_too),
        cmocka_unit_test(segments_roll_by_time_and_by_a_full_index),
        cmocka_unit_test(segments_of_logs_with_jitter_roll_early_and_each_at_its_own_time),
        cmocka_unit_test(a_preallocated_segment_has_its_disk_until_it_is_sealed),
        cmocka_unit_test(no_room_for_a_whole_segment_is_no_reason_not_to_write),
        cmocka_unit_test(log_append_time_is_the_turns_wall_time),
        cmocka_unit_test(page_cache_logs_are_visible_when_written),
        cmocka_unit_test(logs_with_segments_keep_their_durability_whatever_is_configured),
        cmocka_unit_test(page_cache_logs_are_flushed_by_messages_and_by_time),
        cmocka_unit_test(what_makes_flush_messages_full_is_answered_when_the_disk_has_it),
        cmocka_unit_test(what_is_acknowledged_and_not_synced_is_less_than_flush_messages_while_flush_ms_is_at_work),
        cmocka_unit_test(a_page_cache_segment_that_is_full_is_synced),
        cmocka_unit_test(a_flush_that_is_due_before_a_new_segment_has_its_file_fails_nothing),
        cmocka_unit_test(appends_of_a_deleted_log_end_as_gone),
        cmocka_unit_test(a_checkpoint_does_not_wait_for_a_log_that_is_gone),
        cmocka_unit_test(an_old_leaders_append_is_refused),
        cmocka_unit_test(any_order_of_completions_gives_the_same_log),
        cmocka_unit_test(a_short_write_is_continued),
        cmocka_unit_test(a_cut_after_a_failed_write_is_synced_before_the_segment_is_sealed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
