/* test_limits.c: each resource runs out in turn, and nothing else happens; state blocks of any bytes.
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

static void appends_run_out(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->config.appends_max = 4;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    uint64_t tokens[6];
    for (int i = 0; i < 6; i++) { tokens[i] = world_append(world, ref, (struct batch_ask){.value_bytes = 9}); }
    assert_int_equal(tokens[4], 0);
    assert_int_equal(tokens[5], 0);
    world_run(world);
    assert_int_equal(world_view(world, ref).watermark, 4);
    assert_int_not_equal(world_append(world, ref, (struct batch_ask){.value_bytes = 9}), 0);
    world_run(world);
    assert_int_equal(world_read_all(world, ref), 5);
    world_free(world);
}

static void reads_run_out_and_leases_count(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->config.reads_max = 3;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 9});
    world_run(world);
    uint64_t tokens[3];
    for (int i = 0; i < 3; i++) {
        tokens[i] = world_read(world, ref, 0, 100);
        world_run(world);
        assert_int_equal(world_answer(world, tokens[i])->result, PLOG_OK);
    }
    assert_int_equal(world_read(world, ref, 0, 100), 0);
    world_release(world, &world_answer(world, tokens[1])->out);
    uint64_t token = world_read(world, ref, 0, 100);
    assert_int_not_equal(token, 0);
    world_release(world, &world_answer(world, token)->out);
    world_release(world, &world_answer(world, tokens[0])->out);
    world_release(world, &world_answer(world, tokens[2])->out);
    assert_true(plog_is_quiet(world->plog));
    world_free(world);
}

static void without_a_free_segment_the_last_one_grows_on(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->config.segments_max = 3;
    world->log_config.segment_bytes = 500;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 40; i++) {
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    }
    assert_int_equal(world_view(world, ref).segment_count, 3);
    assert_int_equal(world_read_all(world, ref), 40);
    struct plog_ref other = world_log(world, 1, "topic", 0);
    uint64_t token = world_append(world, other, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_BUSY);
    assert_int_equal(world_view(world, other).offset_end, 0);
    world_free(world);
}

static void logs_run_out(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->config.logs_max = 2;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_log(world, 1, "topic", 0);
    struct plog_ref none;
    assert_int_equal(plog_open(world->plog, world_part(2), base_slice_text("topic"), &world->log_config, 0, &none),
                     BASE_FULL);
    plog_delete(world->plog, ref, &world->out);
    world->wants_continue = true;
    world_run(world);
    assert_int_equal(world->deleted, 1);
    (void)world_log(world, 2, "topic", 0);
    world_free(world);
}

static void without_pages_rounds_are_short_and_reads_say_busy(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    void *blocks[4096];
    int count = 0;
    for (size_t size = (size_t)8 << 20; size >= 4096; size /= 2) {
        for (void *block = base_pages_take(world->pages, BASE_CONTROL, size); block != NULL;
             block = base_pages_take(world->pages, BASE_CONTROL, size)) {
            blocks[count++] = block;
        }
    }
    uint64_t tokens[30];
    for (int i = 0; i < 30; i++) { tokens[i] = world_append(world, ref, (struct batch_ask){.value_bytes = 100}); }
    world_run(world);
    for (int i = 0; i < 30; i++) { assert_int_equal(world_answer(world, tokens[i])->base_offset, i); }
    uint64_t token = world_read(world, ref, 13, 100); /* needs a chunk to walk headers in */
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_BUSY);
    world->is_clock_held = true;
    world_checkpoint(world);
    world_run(world);
    assert_true(world->is_capturing); /* it waits for memory, appends don't wait for it */
    uint64_t more = world_append(world, ref, (struct batch_ask){.value_bytes = 100});
    world_run(world);
    assert_int_equal(world_answer(world, more)->result, PLOG_OK);
    while (count > 0) { base_pages_give(world->pages, blocks[--count]); }
    assert_int_equal(world_read_all(world, ref), 31);
    world_alarm(world, 100);
    assert_false(world->is_capturing);
    assert_int_equal(world->states_end, PLOG_OK);
    assert_int_equal(base_pages_block_count(world->pages), 0);
    world_free(world);
}

static void a_failed_create_leaves_the_arena_as_it_was(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world_start(world);
    size_t needs = plog_arena_bytes(&world->config);
    void *memory = calloc(1, needs);
    assert_non_null(memory);
    struct plog *plog;
    for (size_t size = 0; size < needs / 2; size += needs / 37) {
        struct base_arena arena;
        base_arena_init_zeroed(&arena, memory, size);
        assert_int_equal(plog_create(&arena, world->pages, &world->config, &plog), BASE_FULL);
        assert_int_equal(arena.used_bytes, 0);
    }
    free(memory);
    world_free(world);
}

static void every_effect_of_a_new_segment_may_fail(void **state)
{
    (void)state;
    const enum port_effect_kind kinds[] = {PORT_MAKE_DIR, PORT_OPEN,     PORT_SYNC_DIR,
                                           PORT_WRITE,    PORT_TRUNCATE, PORT_CLOSE_FILE};
    for (size_t k = 0; k < BASE_ARRAY_COUNT(kinds); k++) {
        for (int skip = 0; skip < 8; skip++) {
            struct world *world = world_make(1);
            world->log_config.segment_bytes = 600;
            world_start(world);
            struct plog_ref ref = world_log(world, 0, "topic", 0);
            if (kinds[k] != PORT_CLOSE_FILE) {
                world_fault(world, (struct fault){.kind = kinds[k], .skip = skip, .times = 1, .rc = PORT_NO_SPACE});
            }
            int64_t acked = 0;
            for (int i = 0; i < 12; i++) {
                uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100, .timestamp = i});
                world_run(world);
                const struct answer *answer = world_answer(world, token);
                assert_true(answer->is_done);
                if (answer->result == PLOG_OK) {
                    assert_int_equal(answer->base_offset, acked);
                    acked += 1;
                }
            }
            assert_true(acked >= 11 || world_view(world, ref).is_failed);
            assert_int_equal(world_read_all(world, ref), acked);
            world_restart(world, CRASH_POWER);
            assert_int_equal(world_read_all(world, plog_find(world->plog, world_part(0))), acked);
            world_free(world);
        }
    }
}

/* ---- state blocks ---- */

static struct world *given_states(void)
{
    struct world *world = world_make(3);
    world->log_config.segment_bytes = 3000;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 100; i++) {
        if (i % 30 == 0) { ref = world_log(world, 0, "topic", i); }
        (void)world_append(world, ref,
                           (struct batch_ask){.value_bytes = 150,
                                              .producer_id = 1 + i % 4,
                                              .sequence = i / 4,
                                              .leader_epoch = i / 30 * 30});
        world_run(world);
    }
    assert_int_equal(plog_move_start(world->plog, ref, world->next_token++, 40, &world->out), BASE_OK);
    world->wants_continue = true;
    world_run(world);
    world_checkpoint(world);
    world_run(world);
    assert_int_equal(world->state_count, 1);
    return world;
}

static enum base_rc restore(struct world *world, const uint8_t *bytes, size_t size)
{
    enum base_rc rc = plog_restore(world->plog, base_slice_of(bytes, size), 1, &world->out);
    assert_true(plog_is_sound(world->plog));
    struct plog_out out;
    while (plog_poll(world->plog, &out)) {}
    return rc;
}

static void every_prefix_and_every_flipped_bit_of_a_state_is_refused(void **state)
{
    (void)state;
    struct world *world = given_states();
    struct state block = {.size = world->states[0].size};
    block.bytes = malloc(block.size);
    assert_non_null(block.bytes);
    memcpy(block.bytes, world->states[0].bytes, block.size);
    struct world *fresh = world_make(1);
    fresh->is_recovery_open = true;
    world_start(fresh);
    for (size_t size = 0; size < block.size; size++) {
        uint8_t *cut = malloc(size + 1); /* exactly so many: a read past the end shows */
        assert_non_null(cut);
        memcpy(cut, block.bytes, size);
        assert_int_equal(restore(fresh, cut, size), BASE_BAD);
        free(cut);
    }
    for (size_t bit = 0; bit < block.size * 8; bit++) {
        block.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(restore(fresh, block.bytes, block.size), BASE_BAD);
        block.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(fresh->plog->logs.taken_count, 0);
    assert_int_equal(fresh->plog->segments.taken_count, 0);
    assert_int_equal(fresh->plog->producers.taken_count, 0);
    assert_int_equal(restore(fresh, block.bytes, block.size), BASE_OK);
    assert_int_equal(restore(fresh, block.bytes, block.size), BASE_BAD); /* twice the same log */
    free(block.bytes);
    world_free(fresh);
    world_free(world);
}

static void a_state_with_wrong_fields_and_a_right_sum_is_refused_or_sound(void **state)
{
    (void)state;
    struct world *world = given_states();
    size_t size = world->states[0].size;
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    for (size_t at = 0; at < size - 4; at++) {
        for (int kind = 0; kind < 3; kind++) {
            memcpy(bytes, world->states[0].bytes, size);
            bytes[at] = (uint8_t)(kind == 0 ? bytes[at] ^ 0x80 : (kind == 1 ? 0xff : bytes[at] + 1));
            base_put_u32(bytes + size - 4, codec_crc32c(0, bytes, size - 4));
            struct world *fresh = world_make(1);
            fresh->is_recovery_open = true;
            world_start(fresh);
            enum base_rc rc = restore(fresh, bytes, size);
            if (rc != BASE_OK) { assert_int_equal(fresh->plog->logs.taken_count, 0); }
            world_free(fresh);
        }
    }
    free(bytes);
    world_free(world);
}

static void a_state_that_finds_no_room_leaves_nothing_behind(void **state)
{
    (void)state;
    struct world *world = given_states();
    for (int what = 0; what < 2; what++) {
        struct world *fresh = world_make(1);
        if (what == 0) { fresh->config.segments_max = 2; }
        if (what == 1) { fresh->config.logs_max = 1; }
        fresh->is_recovery_open = true;
        world_start(fresh);
        if (what == 1) { (void)world_log(fresh, 99, "other", 0); }
        assert_int_equal(restore(fresh, world->states[0].bytes, world->states[0].size), BASE_FULL);
        assert_int_equal(fresh->plog->segments.taken_count, 0);
        assert_int_equal(fresh->plog->producers.taken_count, 0);
        world_free(fresh);
    }
    world_free(world);
}

/* A topic is gone whose files a crash may have left: start after start says so, and none of them gets as far as a checkpoint. */
static void a_log_that_start_after_start_deletes_again_takes_the_room_of_one(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->config.logs_max = 2;
    world_start(world);
    for (int i = 0; i < 4; i++) {
        struct plog_ref ref = world_log(world, 1, "gone", 1);
        plog_delete(world->plog, ref, &world->out);
        world_settle(world);
        world_run(world);
        world_restart(world, CRASH_PROCESS);
    }
    assert_int_equal(world->entry_count, 4);
    world_free(world);
}

static void append_one(struct world *world, struct plog_ref ref)
{
    uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100, .leader_epoch = 1});
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
}

static int dirs_of(const struct world *world)
{
    int count = 0;
    for (int i = 0; i < world->node_count; i++) { count += world->nodes[i].is_live && world->nodes[i].is_dir ? 1 : 0; }
    return count;
}

/* One log stays, one is on its way out while somebody reads it, others come and go: no checkpoint knows of any of it. */
static struct world *given_logs_that_came_and_went(uint32_t logs_max, uint32_t segments_max)
{
    struct world *world = world_make(1);
    world->config.logs_max = logs_max;
    world->config.segments_max = segments_max;
    world_start(world);
    append_one(world, world_log(world, 0, "topic", 1));
    struct plog_ref read = world_log(world, 1, "topic", 1);
    append_one(world, read);
    uint64_t lease = world_read(world, read, 0, 1000);
    world_run(world);
    assert_true(world_answer(world, lease)->out.lease != 0);
    plog_delete(world->plog, read, &world->out);
    world_settle(world);
    world_run(world);
    for (int i = 2; i < 8; i++) {
        struct plog_ref ref = world_log(world, i, "topic", 1);
        append_one(world, ref);
        plog_delete(world->plog, ref, &world->out);
        world_settle(world);
        world_run(world);
    }
    assert_int_equal(world->deleted, 6);
    assert_int_equal(dirs_of(world), 2); /* of the one that stays, and of the one that is read */
    return world;
}

static void expect_what_stays(struct world *world)
{
    assert_int_equal(world->not_taken, 0);
    struct plog_ref ref = world_log(world, 0, "topic", 1);
    assert_int_equal(world_read_all(world, ref), 1);
    assert_int_equal(dirs_of(world), 1);
    append_one(world, world_log(world, 9, "topic", 1));
    assert_int_equal(world_read_all(world, ref), 1);
}

static void a_start_has_room_for_any_number_of_logs_that_came_and_went_before_it(void **state)
{
    (void)state;
    const uint32_t room[][2] = {{3, 512}, {128, 3}}; /* of logs, of segments */
    for (size_t i = 0; i < BASE_ARRAY_COUNT(room); i++) {
        for (enum crash crash = CRASH_PROCESS; crash <= CRASH_TORN; crash++) {
            struct world *world = given_logs_that_came_and_went(room[i][0], room[i][1]);
            world_restart(world, crash);
            expect_what_stays(world);
            world_free(world);
        }
    }
}

/* What such a start takes away is taken away durably, and not missed by the next one. */
static void a_start_that_makes_room_may_end_at_any_of_its_effects(void **state)
{
    (void)state;
    const uint32_t room[][2] = {{3, 512}, {128, 3}}; /* of logs, of segments */
    int cut_short = 0;
    for (size_t i = 0; i < BASE_ARRAY_COUNT(room); i++) {
        bool is_cut_short = true;
        for (int64_t effects = 0; is_cut_short; effects++) {
            struct world *world = given_logs_that_came_and_went(room[i][0], room[i][1]);
            world_crash(world, CRASH_PROCESS);
            world->crash_after = effects;
            world_start(world);
            is_cut_short = world->is_crashed;
            cut_short += is_cut_short ? 1 : 0;
            world_restart(world, CRASH_POWER);
            expect_what_stays(world);
            world_free(world);
        }
    }
    assert_true(cut_short > 30);
}

static void a_start_that_can_not_make_room_says_so(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->config.logs_max = 2;
    world_start(world);
    for (int i = 0; i < 4; i++) { /* without a record: a start asks for their directories only to take them away */
        struct plog_ref ref = world_log(world, i, "topic", 1);
        plog_delete(world->plog, ref, &world->out);
        world_settle(world);
        world_run(world);
    }
    world_crash(world, CRASH_PROCESS);
    const int tries = (int)(PLOG_REPLAY_PATIENCE_NS / 100000000);
    world_fault(world, (struct fault){.kind = PORT_OPEN, .times = tries, .rc = PORT_NO_HANDLES});
    world_start(world);
    assert_int_equal(world->not_taken, 1);
    world_restart(world, CRASH_PROCESS);
    assert_int_equal(world->not_taken, 1); /* another start has handles again */
    world_free(world);
}

static int segments_on_disk(const struct world *world)
{
    int count = 0;
    for (int i = 0; i < world->node_count; i++) {
        count += world->nodes[i].is_live && strstr(world->nodes[i].name, ".log") != NULL ? 1 : 0;
    }
    return count;
}

/* The start moves along behind the end. Deleted files go after a second, and `pause_ms` passes now and then. */
static struct world *given_a_log_whose_segments_went(uint32_t segments_max, uint64_t pause_ms)
{
    struct world *world = world_make(1);
    world->config.segments_max = segments_max;
    world->log_config.segment_bytes = 500;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 1);
    for (int i = 0; i < 60; i++) {
        append_one(world, ref);
        if (i % 4 != 3) { continue; }
        assert_int_equal(plog_move_start(world->plog, ref, world->next_token++, i, &world->out), BASE_OK);
        world_settle(world);
        world_run(world);
        world_alarm(world, pause_ms);
    }
    return world;
}

static void expect_the_last_segment_alone(struct world *world)
{
    assert_int_equal(world->not_taken, 0);
    struct plog_ref ref = world_log(world, 0, "topic", 1);
    assert_int_equal(world_view(world, ref).offset_start, 59);
    assert_int_equal(world_read_all(world, ref), 1);
    world_alarm(world, 2000);
    assert_int_equal(segments_on_disk(world), 1);
    append_one(world, ref);
    assert_int_equal(world_read_all(world, ref), 2);
}

static void a_start_has_room_for_any_number_of_segments_that_went_before_it(void **state)
{
    (void)state;
    for (enum crash crash = CRASH_PROCESS; crash <= CRASH_TORN; crash++) {
        struct world *world = given_a_log_whose_segments_went(6, 2000);
        assert_true(segments_on_disk(world) < 4);
        world_restart(world, crash);
        expect_the_last_segment_alone(world);
        world_free(world);
    }
}

/* Of a page-cache log a start learns where its segments end when all was replayed, and what retention took has no files any more.
 * `kept`: so many segments a checkpoint knows of. */
static struct world *given_a_page_cache_log_whose_segments_went(uint32_t segments_max, int kept, int64_t *start_out)
{
    struct world *world = world_make(1);
    world->config.segments_max = segments_max;
    world->log_config.segment_bytes = 500; /* two records */
    world->log_config.is_page_cache = true;
    world->log_config.flush_messages = 1;
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 1);
    for (int i = 0; i < 2 * kept; i++) { append_one(world, ref); }
    if (kept > 0) { world_checkpoint(world); }
    int64_t start = 0;
    for (int i = 0; i < 60; i++) {
        append_one(world, ref);
        if (i % 4 != 3) { continue; }
        start = world_view(world, ref).offset_end - 1;
        assert_int_equal(plog_move_start(world->plog, ref, world->next_token++, start, &world->out), BASE_OK);
        world_settle(world);
        world_run(world);
        world_alarm(world, 2000);
    }
    *start_out = start;
    return world;
}

static void a_start_has_room_for_any_number_of_page_cache_segments_that_went_before_it(void **state)
{
    (void)state;
    for (int kept = 0; kept <= 4; kept += 4) {
        bool is_cut_short = true;
        for (int64_t effects = 0; is_cut_short; effects++) {
            int64_t start;
            struct world *world = given_a_page_cache_log_whose_segments_went(6, kept, &start);
            world_crash(world, CRASH_PROCESS);
            world->crash_after = effects;
            world_start(world);
            is_cut_short = world->is_crashed;
            world_restart(world, CRASH_POWER);
            assert_int_equal(world->not_taken, 0);
            struct plog_ref ref = world_log(world, 0, "topic", 1);
            assert_int_equal(world_view(world, ref).offset_start, start);
            assert_int_equal(world_view(world, ref).offset_end, start + 1);
            assert_false(world_view(world, ref).is_damaged);
            assert_int_equal(world_read_all(world, ref), 1);
            append_one(world, ref);
            assert_int_equal(world_read_all(world, ref), 2);
            world_free(world);
        }
    }
}

static void a_deletion_that_finds_no_memory_goes_on_when_there_is_some(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 1);
    append_one(world, ref);
    void *blocks[64];
    size_t count = 0;
    for (size_t size_bytes = 1 << 20; size_bytes >= BASE_PAGE_BYTES; size_bytes /= 2) {
        while (count < BASE_ARRAY_COUNT(blocks)) {
            blocks[count] = base_pages_take(world->pages, BASE_CONTROL, size_bytes);
            if (blocks[count] == NULL) { break; }
            count += 1;
        }
    }
    assert_true(count < BASE_ARRAY_COUNT(blocks));
    plog_delete(world->plog, ref, &world->out);
    world_settle(world);
    for (int i = 0; i < 500; i++) { (void)world_step(world); } /* it asks now and then */
    assert_int_equal(world->deleted, 0);
    for (size_t i = 0; i < count; i++) { base_pages_give(world->pages, blocks[i]); }
    world_run(world);
    assert_int_equal(world->deleted, 1);
    world_free(world);
}

/* Another start may have less room. Whose files are there yet they are not forgotten for good. */
static void files_of_segments_that_a_start_had_no_room_for_go_with_the_next(void **state)
{
    (void)state;
    struct world *world = given_a_log_whose_segments_went(512, 0);
    assert_true(segments_on_disk(world) > 12);
    world_crash(world, CRASH_PROCESS);
    world->config.segments_max = 4;
    world_start(world);
    expect_the_last_segment_alone(world);
    world_free(world);
}

/* Until somebody knows what the configs of logs are, what seems to be due is not; then it goes at once. */
static void nothing_goes_for_its_age_while_retention_is_held(void **state)
{
    (void)state;
    struct world *world = given_world();
    world->log_config.retention_ms = 1000;
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10, .timestamp = world->wall_ms});
    world_run(world);
    plog_hold_retention(world->plog, true);
    for (int i = 0; i < 3; i++) { world_alarm(world, 300001); }
    assert_int_equal(world_view(world, ref).offset_start, 0);
    plog_hold_retention(world->plog, false);
    world_alarm(world, 1);
    assert_int_equal(world_view(world, ref).offset_start, 1);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_run_out),
        cmocka_unit_test(reads_run_out_and_leases_count),
        cmocka_unit_test(without_a_free_segment_the_last_one_grows_on),
        cmocka_unit_test(logs_run_out),
        cmocka_unit_test(without_pages_rounds_are_short_and_reads_say_busy),
        cmocka_unit_test(a_failed_create_leaves_the_arena_as_it_was),
        cmocka_unit_test(every_effect_of_a_new_segment_may_fail),
        cmocka_unit_test(every_prefix_and_every_flipped_bit_of_a_state_is_refused),
        cmocka_unit_test(a_state_with_wrong_fields_and_a_right_sum_is_refused_or_sound),
        cmocka_unit_test(a_state_that_finds_no_room_leaves_nothing_behind),
        cmocka_unit_test(a_log_that_start_after_start_deletes_again_takes_the_room_of_one),
        cmocka_unit_test(a_start_has_room_for_any_number_of_logs_that_came_and_went_before_it),
        cmocka_unit_test(a_start_that_makes_room_may_end_at_any_of_its_effects),
        cmocka_unit_test(a_start_that_can_not_make_room_says_so),
        cmocka_unit_test(a_start_has_room_for_any_number_of_segments_that_went_before_it),
        cmocka_unit_test(a_start_has_room_for_any_number_of_page_cache_segments_that_went_before_it),
        cmocka_unit_test(a_deletion_that_finds_no_memory_goes_on_when_there_is_some),
        cmocka_unit_test(files_of_segments_that_a_start_had_no_room_for_go_with_the_next),
        cmocka_unit_test(nothing_goes_for_its_age_while_retention_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
