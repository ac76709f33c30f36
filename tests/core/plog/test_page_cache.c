/* test_page_cache.c: what a restart makes of a page-cache log, of which the journal names the segments and nothing in them.
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

#define RECORDS 10 /* two a segment: they begin at 0, 2, 4, 6 and 8 */

static void append(struct world *world, struct plog_ref ref, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = 1000});
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    }
}

static struct world *given_log(struct plog_ref *ref_out)
{
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    world->log_config.flush_messages = 1; /* so that a power loss takes nothing by itself */
    world->log_config.segment_bytes = 400;
    world->log_config.delete_delay_ms = 0;
    *ref_out = world_log(world, 0, "topic", 0);
    append(world, *ref_out, RECORDS);
    assert_int_equal(world_view(world, *ref_out).segment_count, RECORDS / 2);
    return world;
}

static struct node *segment_file(struct world *world, int base)
{
    char path[64];
    (void)snprintf(path, sizeof path, "topic-0/%020d.log", base); /* short */
    int node = world_node(world, path);
    return node < 0 ? NULL : &world->nodes[node];
}

static void move_start(struct world *world, struct plog_ref ref, int64_t offset)
{
    assert_int_equal(plog_move_start(world->plog, ref, world->next_token++, offset, &world->out), BASE_OK);
    world_settle(world);
    world_run(world);
    world_alarm(world, 1000);
    world_run(world);
}

static void expect_log(struct world *world, int64_t start, int64_t end)
{
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    struct plog_view view = world_view(world, ref);
    assert_false(view.is_damaged);
    assert_false(view.is_failed);
    assert_int_equal(view.offset_start, start);
    assert_int_equal(view.offset_end, end);
    assert_int_equal(view.watermark, end);
    assert_int_equal(world_read_all(world, ref), end - start);
    append(world, ref, 3);
    assert_int_equal(world_read_all(world, ref), end - start + 3);
}

static void what_stands_behind_segments_that_retention_took_is_kept(void **state)
{
    (void)state;
    for (int crash = CRASH_PROCESS; crash <= CRASH_POWER; crash++) {
        struct plog_ref ref;
        struct world *world = given_log(&ref);
        move_start(world, ref, 6);
        assert_null(segment_file(world, 0));
        assert_null(segment_file(world, 4));
        world_restart(world, (enum crash)crash);
        expect_log(world, 6, RECORDS);
        world_free(world);
    }
}

/* Their names had gone, and not for good; their last bytes had never been synced. */
static void segments_before_the_start_that_come_back_in_part_take_nothing_with_them(void **state)
{
    (void)state;
    for (int start = 6; start <= 7; start++) { /* the begin of a segment, and within one */
        struct plog_ref ref;
        struct world *world = given_log(&ref);
        move_start(world, ref, start);
        world_crash(world, CRASH_PROCESS);
        world_put(world, "topic-0/00000000000000000000.log", "its last bytes, or none");
        world_start(world);
        expect_log(world, start, RECORDS);
        world_free(world);
    }
}

static void behind_a_segment_that_lost_all_it_had_nothing_is_kept(void **state)
{
    (void)state;
    for (int base = 0; base <= 4; base += 4) {
        struct plog_ref ref;
        struct world *world = given_log(&ref);
        world_crash(world, CRASH_POWER);
        segment_file(world, base)->size = 0;
        world_start(world);
        expect_log(world, 0, base);
        world_free(world);
    }
}

/* A checkpoint keeps no segment without bytes, and lets the row go that named it: what comes into it later is named anew. */
static void what_is_written_where_all_was_lost_is_found_after_a_checkpoint_of_the_empty_log(void **state)
{
    (void)state;
    for (int crash = CRASH_PROCESS; crash <= CRASH_POWER; crash++) {
        struct plog_ref ref;
        struct world *world = given_log(&ref);
        world_crash(world, CRASH_POWER);
        segment_file(world, 0)->size = 0;
        world_start(world);
        world_checkpoint(world);
        world_run(world);
        ref = world_log(world, 0, "topic", 0);
        append(world, ref, 3);
        world_restart(world, (enum crash)crash);
        expect_log(world, 0, 3);
        world_free(world);
    }
}

/* The process dies before its files are taken away: it begins where the log ends now, and is of another life of it. */
static void a_segment_that_was_given_up_is_not_taken_for_the_next_one(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_log(&ref);
    world_crash(world, CRASH_POWER);
    segment_file(world, 4)->size = 0;
    world_start(world);
    ref = world_log(world, 0, "topic", 0);
    append(world, ref, 2);
    assert_int_equal(world_view(world, ref).offset_end, 6);
    assert_non_null(segment_file(world, 6));
    world_restart(world, CRASH_PROCESS);
    expect_log(world, 0, 6);
    world_free(world);
}

/* A power cut kept what was written, and not that the journal heard of it: nobody was told. What the next life writes there may be
 * lost, but not for that. */
static void what_a_new_segment_had_in_its_file_never_comes_back(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    world->is_journal_held = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    world_crash(world, CRASH_PROCESS);
    struct node *file = segment_file(world, 0);
    assert_true(file->size > 0);
    file->synced = realloc(file->synced, file->size);
    memcpy(file->synced, file->bytes, file->size);
    file->synced_size = file->size;
    world->is_journal_held = false;
    world_start(world);
    append(world, world_log(world, 0, "topic", 0), 1);
    world_restart(world, CRASH_POWER);
    expect_log(world, 0, 0);
    world_free(world);
}

/* The first batch of two is whole in the file when the disk is found to be full, and both are refused. */
static void a_batch_that_was_refused_does_not_come_back_with_a_power_cut(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    world->log_config.flush_messages = 1;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    append(world, ref, 1);
    size_t batch_bytes = segment_file(world, 0)->size;
    world_fault(world, (struct fault){.kind = PORT_WRITE, .suffix = ".log", .times = 1, .count = batch_bytes});
    world_fault(world, (struct fault){.kind = PORT_WRITE, .suffix = ".log", .times = 1, .rc = PORT_NO_SPACE});
    struct batch_ask ask = {.value_bytes = 100, .timestamp = 1000};
    uint64_t tokens[2] = {world_append(world, ref, ask), world_append(world, ref, ask)};
    while (segment_file(world, 0)->size == batch_bytes) { assert_true(world_step(world)); }
    struct node *file = segment_file(world, 0);
    assert_int_equal(file->size, 2 * batch_bytes);
    file->synced = realloc(file->synced, file->size); /* as it is written back by itself */
    memcpy(file->synced, file->bytes, file->size);
    file->synced_size = file->size;
    world_run(world);
    for (int i = 0; i < 2; i++) { assert_int_equal(world_answer(world, tokens[i])->result, PLOG_NO_SPACE); }
    assert_int_equal(segment_file(world, 0)->size, batch_bytes);
    world_restart(world, CRASH_POWER);
    expect_log(world, 0, 1);
    world_free(world);
}

/* A batch that takes the place of a torn one may be as long as that was: what stood behind it would be its successor. */
static void what_stands_behind_the_end_is_gone_for_good_before_anything_takes_its_place(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_log(&ref);
    world_crash(world, CRASH_POWER);
    struct node *file = segment_file(world, 8);
    size_t size_bytes = file->size;
    file->bytes[70] ^= 1; /* the first batch of two */
    file->synced[70] ^= 1;
    world->log_config.flush_messages = UINT64_MAX;
    world_start(world);
    append(world, world_log(world, 0, "topic", 0), 1);
    file = segment_file(world, 8);
    assert_int_equal(file->size, size_bytes / 2);
    assert_int_equal(file->synced_size, 0);
    expect_log(world, 0, 9);
    world_free(world);
}

/* The state that is there knows of one batch in segment 10. A second one follows it, and a power cut left it bad; so a start ends the log
 * before it, and seals the segment, for a segment at 12 follows. Returns the bytes that are good. */
static size_t spoil_a_batch_before_the_last_segment(struct world *world, struct plog_ref ref)
{
    append(world, ref, 1);
    world_checkpoint(world);
    world_run(world);
    append(world, ref, 3);
    world_crash(world, CRASH_POWER);
    struct node *file = segment_file(world, 10);
    file->bytes[file->size / 2 + 70] ^= 1;
    file->synced[file->size / 2 + 70] ^= 1;
    return file->size / 2;
}

static void what_a_start_cuts_off_a_segment_that_it_seals_never_comes_back(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_log(&ref);
    size_t good_bytes = spoil_a_batch_before_the_last_segment(world, ref);
    world_start(world);
    world_checkpoint(world); /* no start after this one looks at what stands behind the segment's end */
    world_run(world);
    world_restart(world, CRASH_POWER);
    assert_int_equal(segment_file(world, 10)->size, good_bytes);
    expect_log(world, 0, 11);
    world_free(world);
}

static void a_start_that_fails_to_sync_what_it_cut_off_leaves_the_cut_to_the_next_one(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_log(&ref);
    size_t good_bytes = spoil_a_batch_before_the_last_segment(world, ref);
    world->is_recovery_open = true;
    world_start(world);
    world->is_recovery_open = false;
    world_fault(world, (struct fault){.kind = PORT_SYNC, .suffix = "10.log", .times = 1, .rc = PORT_IO});
    plog_recovery_end(world->plog, PLOG_LAST_UNCLEAN, &world->out);
    world_settle(world);
    world_run(world);
    assert_true(world->is_disk_failed);
    int checkpoints = world->checkpoints;
    world_checkpoint(world);
    world_run(world);
    assert_int_equal(world->checkpoints, checkpoints);
    world_restart(world, CRASH_POWER);
    assert_false(world->is_disk_failed);
    world_checkpoint(world);
    world_run(world);
    world_restart(world, CRASH_POWER);
    assert_int_equal(segment_file(world, 10)->size, good_bytes);
    expect_log(world, 0, 11);
    world_free(world);
}

static void a_start_that_cuts_nothing_off_waits_for_no_sync(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_log(&ref);
    world_crash(world, CRASH_PROCESS);
    world->is_recovery_open = true;
    world_start(world);
    world->is_recovery_open = false;
    world_fault(world, (struct fault){.kind = PORT_SYNC, .times = RECORDS, .rc = PORT_IO});
    plog_recovery_end(world->plog, PLOG_LAST_UNCLEAN, &world->out);
    world_settle(world);
    world_run(world);
    assert_true(world->is_recovered);
    assert_false(world->is_disk_failed);
    world_free(world);
}

static void an_empty_segment_before_the_log_start_does_not_hold_up_retention(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_log(&ref);
    move_start(world, ref, RECORDS);
    world_crash(world, CRASH_POWER);
    segment_file(world, 8)->size = 0;
    world_start(world);
    ref = world_log(world, 0, "topic", 0);
    append(world, ref, 4);
    move_start(world, ref, RECORDS + 2);
    assert_null(segment_file(world, 8));
    assert_null(segment_file(world, RECORDS));
    expect_log(world, RECORDS + 2, RECORDS + 4);
    world_free(world);
}

static void what_a_start_gave_up_does_not_stand_in_the_way_of_what_came_later(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_log(&ref);
    world_crash(world, CRASH_POWER);
    segment_file(world, 0)->size -= 10; /* its second batch is torn */
    world_start(world);
    expect_log(world, 0, 1); /* from here on segments begin at 1, 3, ..., and the journal names the others too */
    ref = world_log(world, 0, "topic", 0);
    append(world, ref, 4);
    move_start(world, ref, 1);
    assert_null(segment_file(world, 0));
    world_restart(world, CRASH_PROCESS);
    expect_log(world, 1, 8);
    world_free(world);
}

static void a_last_segment_that_retention_took_is_no_damage(void **state)
{
    (void)state;
    struct plog_ref ref;
    struct world *world = given_log(&ref);
    world_checkpoint(world);
    world_run(world);
    world->log_config.retention_ms = 1;
    ref = world_log(world, 0, "topic", 0);
    plog_configure(world->plog, ref, &world->log_config);
    world_alarm(world, 600000); /* a sweep */
    world_run(world);
    world_alarm(world, 1000);
    world_run(world);
    assert_int_equal(world_view(world, ref).offset_start, RECORDS);
    assert_null(segment_file(world, 8));
    world_crash(world, CRASH_PROCESS);
    world->log_config.retention_ms = -1;
    world_start(world);
    expect_log(world, RECORDS, RECORDS);
    world_free(world);
}

/* Appends until it is over or the power goes, with a start that moves. Returns how many were answered. */
static int append_until_it_stops(struct world *world)
{
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    int answered = 0;
    for (int i = 0; i < RECORDS && !world->is_crashed; i++) {
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100, .wants_written = true});
        world_run(world);
        const struct answer *answer = world_answer(world, token);
        answered += answer->is_written || (answer->is_done && answer->result == PLOG_OK) ? 1 : 0;
        bool is_moving = !world->is_crashed && i % 3 == 2;
        if (is_moving && plog_move_start(world->plog, ref, world->next_token++, i - 1, &world->out) == BASE_OK) {
            world_settle(world);
            world_run(world);
        }
    }
    return answered;
}

/* Of what was answered, fewer than flush.messages are gone; and offsets have no hole. Returns the effects that were tried. */
static int64_t cut_everywhere(uint64_t flush_messages)
{
    int64_t at = 0;
    for (bool is_over = false; !is_over; at += 2) {
        struct world *world = world_make((uint64_t)at + 3);
        world->log_config.is_page_cache = true;
        world->log_config.flush_messages = flush_messages;
        world->log_config.segment_bytes = 400;
        world->log_config.delete_delay_ms = 0;
        world->crash_after = at;
        world_start(world);
        int answered = append_until_it_stops(world);
        is_over = !world->is_crashed;
        for (int again = 0; again < 2; again++) {
            world_crash(world, CRASH_TORN);
            world_start(world);
            struct plog_ref ref = plog_find(world->plog, world_part(0));
            assert_true(ref.generation != 0 || answered < (int)flush_messages);
            if (ref.generation == 0) { continue; }
            struct plog_view view = world_view(world, ref);
            assert_false(view.is_damaged);
            assert_false(view.is_failed);
            assert_int_equal(world_read_all(world, ref), view.offset_end - view.offset_start);
            assert_true(view.offset_end > answered - (int)flush_messages);
        }
        world_free(world);
    }
    return at;
}

static void what_was_flushed_survives_a_power_loss_wherever_it_stops(void **state)
{
    (void)state;
    assert_true(cut_everywhere(1) > 60);
    assert_true(cut_everywhere(3) > 60); /* a segment holds two: one sync is not enough */
}

/* ---- a log without records: its config may say another way, which it then keeps ---- */

enum before { NEVER_HAD_RECORDS, LOST_THEM_TO_RETENTION };

static struct plog_ref given_log_that_changes(struct world *world, bool to_page_cache, enum before before,
                                              bool has_checkpoint)
{
    world->log_config.is_page_cache = !to_page_cache;
    world->log_config.segment_bytes = 400;
    world->log_config.retention_bytes = 0;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    if (before == LOST_THEM_TO_RETENTION) {
        append(world, ref, 3);
        world_alarm(world, 400000);
        world_run(world);
        assert_int_equal(world_view(world, ref).offset_start, 3);
    }
    if (has_checkpoint) {
        world_checkpoint(world);
        world_run(world);
        assert_int_equal(world->state_count, 1);
    }
    world->log_config.is_page_cache = to_page_cache;
    world->log_config.flush_messages = to_page_cache ? 1 : UINT64_MAX;
    world->log_config.retention_bytes = -1;
    return world_log(world, 0, "topic", 0);
}

/* Three segments, each with its file: only the journal names them, or a checkpoint knows the first. */
static struct world *given_segments_to_be_scanned(bool is_first_known, struct plog_ref *ref_out)
{
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    world->log_config.segment_bytes = 400;
    *ref_out = world_log(world, 0, "topic", 0);
    append(world, *ref_out, 2);
    if (is_first_known) { world_checkpoint(world); }
    world_run(world);
    append(world, *ref_out, 4);
    assert_int_equal(world_view(world, *ref_out).segment_count, 3);
    move_start(world, *ref_out, 1);
    world_crash(world, CRASH_PROCESS);
    return world;
}

/* Nobody knows where the log ends, and a checkpoint would forget the segments that were not looked at. */
static void a_start_that_can_not_look_for_an_end_does_not_go_on_and_the_next_one_finds_it(void **state)
{
    (void)state;
    const struct fault refusals[] = {
        {.kind = PORT_OPEN, .suffix = ".log", .times = 1000, .rc = PORT_NO_HANDLES},
        {.kind = PORT_OPEN, .suffix = "00002.log", .times = 1000, .rc = PORT_NO_MEMORY},
        {.kind = PORT_READ, .suffix = ".log", .skip = 1, .times = 1000, .rc = PORT_NO_MEMORY},
        {.kind = PORT_OPEN, .suffix = ".metadata", .times = 1000, .rc = PORT_NO_HANDLES},
    };
    for (size_t i = 0; i < 2 * BASE_ARRAY_COUNT(refusals); i++) {
        struct plog_ref ref;
        struct world *world = given_segments_to_be_scanned(i % 2 != 0, &ref);
        world_fault(world, refusals[i / 2]);
        world->may_not_recover = true;
        world_start(world);
        assert_true(world->recovered != PLOG_OK || world->not_taken > 0);
        plog_stop(world->plog, &world->out);
        world_settle(world);
        world_run(world);
        assert_true(world->is_stopped);
        world->may_not_recover = false;
        world_restart(world, CRASH_PROCESS);
        ref = world_log(world, 0, "topic", 0);
        assert_int_equal(world_read_all(world, ref), 5);
        world_free(world);
    }
}

/* The node serves without it; whatever a checkpoint then knows of the log, no file of it is written over. */
static void a_log_whose_end_can_not_be_read_keeps_its_files(void **state)
{
    (void)state;
    const struct fault errors[] = {
        {.kind = PORT_OPEN, .suffix = ".log", .times = 1000, .rc = PORT_IO},
        {.kind = PORT_OPEN, .suffix = "00002.log", .times = 1000, .rc = PORT_IO},
        {.kind = PORT_READ, .suffix = ".log", .times = 1000, .rc = PORT_IO},
        {.kind = PORT_OPEN, .suffix = ".metadata", .times = 1000, .rc = PORT_IO},
        {.kind = PORT_READ, .suffix = ".metadata", .times = 1000, .rc = PORT_IO},
    };
    for (size_t i = 0; i < 2 * BASE_ARRAY_COUNT(errors); i++) {
        struct plog_ref ref;
        struct world *world = given_segments_to_be_scanned(i % 2 != 0, &ref);
        uint8_t written[3][400];
        size_t sizes[3];
        for (int k = 0; k < 3; k++) {
            const struct node *file = segment_file(world, 2 * k);
            assert_true(file->size <= sizeof written[k]);
            sizes[k] = file->size;
            memcpy(written[k], file->bytes, file->size);
        }
        world_fault(world, errors[i / 2]);
        world_start(world);
        world->fault_count = 0;
        assert_true(world_view(world, world_log(world, 0, "topic", 0)).is_damaged);
        for (int life = 0; life < 2; life++) {
            world_checkpoint(world);
            world_run(world);
            world_restart(world, CRASH_PROCESS);
            ref = world_log(world, 0, "topic", 0);
            for (int n = 0; n < 3; n++) {
                (void)world_append(world, ref, (struct batch_ask){.value_bytes = 101, .timestamp = 2000});
                world_run(world);
            }
            world_alarm(world, 60000);
        }
        assert_true(world_view(world, ref).is_damaged);
        assert_true(world_view(world, ref).offset_start >= 1); /* what was deleted stays so */
        for (int k = 0; k < 3; k++) {
            const struct node *file = segment_file(world, 2 * k);
            assert_non_null(file);
            assert_true(file->size >= sizes[k]);
            assert_memory_equal(file->bytes, written[k], sizes[k]);
        }
        world_free(world);
    }
}

/* It may have lost records that were read; nothing else may. */
static void after_a_stop_that_was_not_clean_a_log_with_records_may_lack_its_end(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref synced = world_log(world, 1, "topic", 0);
    world->log_config.is_page_cache = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_log(world, 2, "topic", 0);
    append(world, ref, 3);
    append(world, synced, 3);
    assert_false(world_view(world, ref).may_lack_end);
    world_checkpoint(world);
    world_run(world);
    world_restart(world, CRASH_PROCESS);
    assert_true(plog_may_lack_ends(world->plog));
    assert_true(world_view(world, plog_find(world->plog, world_part(0))).may_lack_end);
    assert_false(world_view(world, plog_find(world->plog, world_part(1))).may_lack_end);
    assert_false(world_view(world, plog_find(world->plog, world_part(2))).may_lack_end);
    world_stop(world);
    world_restart(world, CRASH_PROCESS);
    assert_false(plog_may_lack_ends(world->plog));
    assert_false(world_view(world, plog_find(world->plog, world_part(0))).may_lack_end);
    world_free(world);
}

/* The start that came upon the loss may have ended before the log went on under a new epoch. */
static void a_log_that_lost_all_its_records_may_lack_its_end_at_the_start_after_the_next_too(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    append(world, ref, 3);
    world_restart(world, CRASH_POWER);
    assert_int_equal(world_view(world, plog_find(world->plog, world_part(0))).offset_end, 0);
    world_checkpoint(world);
    world_run(world);
    world_restart(world, CRASH_PROCESS);
    assert_true(plog_may_lack_ends(world->plog));
    assert_true(world_view(world, plog_find(world->plog, world_part(0))).may_lack_end);
    world_stop(world);
    world_restart(world, CRASH_PROCESS);
    assert_false(world_view(world, plog_find(world->plog, world_part(0))).may_lack_end);
    world_free(world);
}

static void expect_epoch_end(struct world *world, int32_t asked, int32_t epoch, int64_t end)
{
    int32_t epoch_found;
    int64_t end_found;
    plog_epoch_end(world->plog, plog_find(world->plog, world_part(0)), asked, &epoch_found, &end_found);
    assert_int_equal(epoch_found, epoch);
    assert_int_equal(end_found, end);
}

/* As the metadata tells it at each start: one epoch after the other. */
static struct plog_ref open_up_to(struct world *world, int32_t epoch_last)
{
    struct plog_ref ref = {0};
    for (int32_t epoch = 0; epoch <= epoch_last; epoch++) { ref = world_log(world, 0, "topic", epoch); }
    return ref;
}

static void append_under(struct world *world, struct plog_ref ref, int32_t epoch, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100, .leader_epoch = epoch});
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    }
}

/* Each life has an epoch, and its end is where the next life began, however much of it a power cut took. */
static void an_epoch_ends_where_the_next_life_went_on(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    struct plog_ref ref = open_up_to(world, 0);
    append_under(world, ref, 0, 3);
    world_checkpoint(world); /* three are kept */
    world_run(world);
    append_under(world, ref, 0, 4);
    world_restart(world, CRASH_POWER);
    ref = open_up_to(world, 1);
    append_under(world, ref, 1, 10);
    expect_epoch_end(world, 0, 0, 3);
    expect_epoch_end(world, 1, 1, 13);
    world_restart(world, CRASH_PROCESS); /* which takes nothing */
    ref = open_up_to(world, 2);
    append_under(world, ref, 2, 1);
    expect_epoch_end(world, 0, 0, 3);
    expect_epoch_end(world, 1, 1, 13);
    expect_epoch_end(world, 2, 2, 14);
    world_restart(world, CRASH_POWER); /* all but three again */
    ref = open_up_to(world, 3);
    append_under(world, ref, 3, 2);
    expect_epoch_end(world, 0, 0, 3);
    expect_epoch_end(world, 1, 0, 3); /* nothing is left of it, so it ended with the one before */
    expect_epoch_end(world, 2, 0, 3);
    expect_epoch_end(world, 3, 3, 5);
    world_stop(world);
    world_restart(world, CRASH_POWER);
    (void)open_up_to(world, 3);
    expect_epoch_end(world, 2, 0, 3);
    expect_epoch_end(world, 3, 3, 5);
    world_free(world);
}

static void a_log_that_changed_before_its_first_record_is_after_a_crash_what_it_was(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        for (enum crash crash = CRASH_PROCESS; crash <= CRASH_TORN; crash++) {
            struct world *world = world_make(1);
            enum before before = i % 2 == 0 ? NEVER_HAD_RECORDS : LOST_THEM_TO_RETENTION;
            struct plog_ref ref = given_log_that_changes(world, i / 2 % 2 == 0, before, i / 4 == 0);
            int64_t start = world_view(world, ref).offset_end;
            append(world, ref, 5);
            world_restart(world, crash);
            expect_log(world, start, start + 5); /* and appends three */
            world_restart(world, CRASH_POWER);
            expect_log(world, start, start + 8);
            world_free(world);
        }
    }
}

static void what_came_after_all_before_it_was_deleted_survives_a_dead_process(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.is_page_cache = true;
    world->log_config.delete_delay_ms = 0;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    append(world, ref, 2);
    move_start(world, ref, 2);
    world_checkpoint(world);
    world_run(world);
    append(world, ref, 2); /* to the same segment; nothing but the file knows of them */
    world_restart(world, CRASH_PROCESS);
    expect_log(world, 2, 4);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stands_behind_segments_that_retention_took_is_kept),
        cmocka_unit_test(segments_before_the_start_that_come_back_in_part_take_nothing_with_them),
        cmocka_unit_test(behind_a_segment_that_lost_all_it_had_nothing_is_kept),
        cmocka_unit_test(what_is_written_where_all_was_lost_is_found_after_a_checkpoint_of_the_empty_log),
        cmocka_unit_test(a_segment_that_was_given_up_is_not_taken_for_the_next_one),
        cmocka_unit_test(what_a_new_segment_had_in_its_file_never_comes_back),
        cmocka_unit_test(a_batch_that_was_refused_does_not_come_back_with_a_power_cut),
        cmocka_unit_test(what_stands_behind_the_end_is_gone_for_good_before_anything_takes_its_place),
        cmocka_unit_test(what_a_start_cuts_off_a_segment_that_it_seals_never_comes_back),
        cmocka_unit_test(a_start_that_fails_to_sync_what_it_cut_off_leaves_the_cut_to_the_next_one),
        cmocka_unit_test(a_start_that_cuts_nothing_off_waits_for_no_sync),
        cmocka_unit_test(an_empty_segment_before_the_log_start_does_not_hold_up_retention),
        cmocka_unit_test(what_a_start_gave_up_does_not_stand_in_the_way_of_what_came_later),
        cmocka_unit_test(a_last_segment_that_retention_took_is_no_damage),
        cmocka_unit_test(what_was_flushed_survives_a_power_loss_wherever_it_stops),
        cmocka_unit_test(a_start_that_can_not_look_for_an_end_does_not_go_on_and_the_next_one_finds_it),
        cmocka_unit_test(a_log_whose_end_can_not_be_read_keeps_its_files),
        cmocka_unit_test(after_a_stop_that_was_not_clean_a_log_with_records_may_lack_its_end),
        cmocka_unit_test(a_log_that_lost_all_its_records_may_lack_its_end_at_the_start_after_the_next_too),
        cmocka_unit_test(an_epoch_ends_where_the_next_life_went_on),
        cmocka_unit_test(a_log_that_changed_before_its_first_record_is_after_a_crash_what_it_was),
        cmocka_unit_test(what_came_after_all_before_it_was_deleted_survives_a_dead_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
