/* test_journal_checkpoint.c: the newest good one wins, a torn one is ignored, and files come and go behind it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>

#define CHECKPOINT_A "weir-journal/checkpoint-a.wj"
#define CHECKPOINT_B "weir-journal/checkpoint-b.wj"

static void replay_starts_at_the_newest_checkpoint(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    for (uint64_t round = 1; round <= 5; round++) {
        host_append_all(host, 3, 200);
        host_checkpoint(host, false);
        assert_int_equal(host->checkpoint_rc, PORT_OK);
        host_append_all(host, 2, 200);
        struct host *again = host_recovered(host_copy_of(host->disk), &config);
        assert_int_equal(again->state_count, 1);
        assert_int_equal(again->state, round * 5 - 2);
        assert_int_equal(again->replayed_count, 2);
        assert_false(again->is_clean);
        host_end(again);
    }
    host_end(host);
}

static void a_clean_stop_is_clean_once(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 3, 200);
    host_checkpoint(host, true);
    host_stop(host);
    assert_true(host->is_stopped);
    struct fake_disk *disk = fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false);
    host_end(host);
    host = host_recovered(disk, &config);
    assert_true(host->is_clean);
    assert_int_equal(host->state, 3);
    assert_int_equal(host->replayed_count, 0);
    /* This life has begun: if it ends now, it did not end well. */
    struct host *again = host_recovered(fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false), &config);
    assert_false(again->is_clean);
    host_end(again);
    host_end(host);
}

static void a_crash_at_any_effect_of_a_start_after_a_clean_stop_is_not_clean_once_replayed(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 3, 200);
    host_checkpoint(host, true);
    host_stop(host);
    struct fake_disk *disk = host_free(host);
    for (uint64_t effects = 1;; effects++) {
        host = host_make(host_copy_of(disk), &config);
        host->checks_durable = false;
        host->effects_max = effects;
        host_start(host);
        bool is_over = !host->is_cut_off;
        struct host *again = host_recovered(fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false), &config);
        assert_int_equal(again->replay_rc, PORT_OK);
        assert_int_equal(again->state, 3);
        if (host->is_replayed) { assert_false(again->is_clean); }
        host_end(again);
        host_end(host);
        if (is_over) { break; }
    }
    fake_disk_free(disk);
}

static void a_clean_mark_with_something_behind_it_is_none(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 3, 200);
    host_checkpoint(host, true);
    host_append_all(host, 1, 200);
    struct host *again = host_recovered(host_copy_of(host->disk), &config);
    assert_false(again->is_clean);
    assert_int_equal(again->replayed_count, 1);
    host_end(again);
    host_end(host);
}

static void a_bad_newest_checkpoint_gives_way_to_the_one_before(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 3, 200);
    host_checkpoint(host, false); /* b */
    host_append_all(host, 3, 200);
    host_checkpoint(host, false); /* a */
    host_append_all(host, 3, 200);
    uint64_t size = fake_disk_file(host->disk, CHECKPOINT_A)->cache_bytes;
    for (uint64_t at = 0; at < size; at++) {
        struct fake_disk *disk = host_copy_of(host->disk);
        fake_disk_flip(fake_disk_file(disk, CHECKPOINT_A), at, 1);
        struct host *again = host_recovered(disk, &config);
        assert_int_equal(again->replay_rc, PORT_OK);
        assert_int_equal(again->damage_count, 0);
        assert_int_equal(again->state, 3);
        assert_int_equal(again->replayed_count, 6);
        host_end(again);
    }
    host_end(host);
}

/* Groups call that number synced: a new checkpoint of the same would count as durable before it is. */
static void the_number_of_a_checkpoint_that_went_bad_is_not_given_again(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 3, 200);
    host_checkpoint(host, false); /* b */
    host_append_all(host, 3, 200);
    host_checkpoint(host, false); /* a */
    host_append_all(host, 3, 200);
    struct fake_disk *disk = host_copy_of(host->disk);
    host_end(host);
    uint64_t sequence = base_get_u64(fake_disk_file(disk, CHECKPOINT_A)->cache + 32);
    fake_disk_flip(fake_disk_file(disk, CHECKPOINT_A), 10, 1);
    host = host_recovered(disk, &config);
    assert_int_equal(host->state, 3);
    host_checkpoint(host, false);
    assert_int_equal(host->checkpoint_rc, PORT_OK);
    assert_true(base_get_u64(fake_disk_file(host->disk, CHECKPOINT_A)->cache + 32) > sequence);
    host_end(host);
}

static void two_bad_checkpoints_are_damage_and_never_an_empty_start(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    for (int checkpoints = 0; checkpoints < 3; checkpoints++) {
        for (int is_removed = 0; is_removed < 2; is_removed++) {
            struct host *host = host_begun(&config);
            host_append_all(host, 3, 200);
            for (int i = 0; i < checkpoints; i++) { host_checkpoint(host, false); }
            struct fake_disk *disk = host_copy_of(host->disk);
            host_end(host);
            const char *const paths[2] = {CHECKPOINT_A, CHECKPOINT_B};
            for (int i = 0; i < 2; i++) {
                if (fake_disk_file(disk, paths[i]) == NULL) { continue; }
                if (is_removed == 1) {
                    fake_disk_remove(disk, paths[i]);
                } else {
                    fake_disk_flip(fake_disk_file(disk, paths[i]), 50, 1);
                }
            }
            host = host_recovered(disk, &config);
            assert_int_equal(host->replay_rc, PORT_IO);
            assert_int_equal(host->damage_count, 1);
            assert_int_equal(host->state_count + host->replayed_count, 0);
            host_end(host);
        }
    }
}

static void trimmed_files_whose_checkpoint_is_lost_are_damage(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 1, 200);
    host_checkpoint(host, false); /* b: begins in file 0 */
    host_append_all(host, 30, 15000);
    host_checkpoint(host, false);     /* a: file 0 and more may go */
    host_append_all(host, 30, 15000); /* and do */
    assert_null(fake_disk_file(host->disk, "weir-journal/0000000000.wj"));
    struct fake_disk *disk = host_copy_of(host->disk);
    fake_disk_flip(fake_disk_file(disk, CHECKPOINT_A), 10, 1);
    struct host *again = host_recovered(disk, &config);
    assert_int_equal(again->replay_rc, PORT_OK);
    assert_true(again->damage_count > 0);
    assert_int_equal(again->state, 1);
    host_end(again);
    host_end(host);
}

/* The end record of an older checkpoint may stand just behind what a torn newer one wrote over it. */
static void an_end_record_of_an_older_checkpoint_ends_no_newer_one(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 1, 200);
    host_checkpoint(host, false); /* b, one state */
    host_append_all(host, 1, 200);
    host_checkpoint(host, false); /* a */
    host_append_all(host, 1, 200);
    base_put_u64(host->state_bytes, 3);
    assert_true(journal_checkpoint_begin(host->journal, &host->out)); /* b again: would have two states */
    assert_int_equal(journal_checkpoint_add(host->journal, base_slice_of(host->state_bytes, 8), 1, &host->out),
                     BASE_OK);
    host_turn(host);
    host_run(host);
    assert_int_equal(host->states_written, 3);
    struct host *again = host_recovered(host_copy_of(host->disk), &config);
    assert_int_equal(again->state, 2);
    assert_int_equal(again->replayed_count, 1);
    host_end(again);
    host_end(host);
}

static void a_checkpoint_waits_for_what_was_under_way_when_it_began(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    assert_true(host_append(host, 100));
    host_turn(host);
    assert_true(host_do(host)); /* its sync is asked */
    assert_true(journal_checkpoint_begin(host->journal, &host->out));
    journal_checkpoint_end(host->journal, false, &host->out);
    host_turn(host);
    while (host->disk->queue_count > 1) { /* everything but that sync */
        struct port_event event;
        assert_true(fake_disk_do_at(host->disk, 1, &event));
        event.now_ns = host->now.now_ns;
        journal_done(host->journal, &event, &host->out);
        host_turn(host);
    }
    assert_false(host->is_checkpointed);
    host_run(host);
    assert_int_equal(host->acked, 1);
    assert_true(host->is_checkpointed);
    host_end(host);
}

static void files_beyond_a_lowered_limit_go(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    config.bytes_max = 4u << 20;
    struct host *host = host_begun(&config);
    host_append_all(host, 100, 15000);
    struct fake_disk *disk = host_free(host);
    memset(disk->open, 0, sizeof disk->open); /* the process ended */
    assert_true(fake_disk_used(disk) > 1500000);
    config.bytes_max = 8 * config.file_bytes;
    host = host_recovered(disk, &config);
    assert_int_equal(host->replayed_count, 100);
    host->appended = host->acked = 100;
    host_checkpoint(host, false);
    host_append_all(host, 1, 100);
    assert_true(fake_disk_used(host->disk) <= config.bytes_max + 8192);
    (void)expect_recovers(host->disk, &config, 101, 101);
    host_end(host);
}

static void a_full_disk_fails_a_checkpoint_and_nothing_else(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 3, 200);
    host->disk->room_bytes = 1;
    host_checkpoint(host, false);
    assert_true(host->is_checkpointed);
    assert_int_equal(host->checkpoint_rc, PORT_NO_SPACE);
    assert_false(host->is_disk_failed);
    host_append_all(host, 2, 200);
    host->disk->room_bytes = 0;
    host_checkpoint(host, false);
    assert_int_equal(host->checkpoint_rc, PORT_OK);
    (void)expect_recovers(host->disk, &config, 5, 5);
    host_end(host);
}

/* A journal at its limit takes nothing until then, so that nothing else may happen that would make it look. */
static void a_checkpoint_that_failed_is_asked_for_again_by_an_alarm(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 3, 200);
    host->disk->room_bytes = 1;
    host_checkpoint(host, false);
    assert_int_equal(host->checkpoint_rc, PORT_NO_SPACE);
    host->disk->room_bytes = 0;
    uint32_t asked_before = host->want_count;
    host->answers_checkpoints = true;
    host_settle(host);
    assert_true(host->want_count > asked_before);
    assert_int_equal(host->checkpoint_rc, PORT_OK);
    host_end(host);
}

/* The next file asks for the slot that the failed open gave back, before the checkpoint has ended. */
static void a_checkpoint_that_was_not_opened_closes_no_other_file(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 1, 200);
    host->disk->fail_kind = PORT_OPEN;
    host->disk->kind_seen = 0;
    host->disk->fail_at = 1;
    host->disk->fail_rc = PORT_NO_HANDLES;
    assert_true(journal_checkpoint_begin(host->journal, &host->out));
    host_turn(host);
    host_run(host);
    host->disk->fail_at = 0;
    host_append_all(host, 4, 8000); /* the next file is made */
    host->is_checkpointing = true;
    journal_checkpoint_end(host->journal, false, &host->out);
    host_turn(host);
    host_run(host);
    assert_int_equal(host->checkpoint_rc, PORT_NO_HANDLES);
    assert_int_equal(host->handle_want_count, 1);
    assert_true(journal_next_alarm_ns(host->journal) > host->now.now_ns + 100000000);
    journal_handle_comes(host->journal); /* then it is asked for again at once */
    assert_true(journal_next_alarm_ns(host->journal) <= host->now.now_ns + 1000000);
    host_append_all(host, 12, 8000);
    assert_false(host->is_disk_failed);
    (void)expect_recovers(host->disk, &config, 17, 17);
    host_end(host);
}

static void more_states_than_fit_are_refused_and_all_come_back_in_order(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 1, 200);
    assert_true(journal_checkpoint_begin(host->journal, &host->out));
    assert_false(journal_checkpoint_begin(host->journal, &host->out));
    base_put_u64(host->state_bytes, 1);
    struct base_slice bytes = base_slice_of(host->state_bytes, 8);
    uint32_t added = 0;
    uint32_t refused = 0;
    while (added < 100) {
        if (journal_checkpoint_add(host->journal, bytes, added, &host->out) == BASE_OK) {
            added += 1;
        } else {
            refused += 1;
            host_turn(host); /* sends what add asked for */
            host_run(host);
        }
        assert_true(refused < 1000);
    }
    assert_true(refused > 5);
    journal_checkpoint_end(host->journal, false, &host->out);
    host_turn(host);
    host_run(host);
    assert_int_equal(host->states_written, 100);
    assert_true(host->is_checkpointed);
    struct host *again = host_recovered(host_copy_of(host->disk), &config);
    assert_int_equal(again->state_count, 100);
    host_end(again);
    host_end(host);
}

static void a_checkpoint_that_fails_to_sync_takes_the_disk_off_line(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 3, 200);
    host->disk->fail_kind = PORT_SYNC;
    host->disk->kind_seen = 0;
    host->disk->fail_at = 1;
    host->disk->fail_rc = PORT_IO;
    host_checkpoint(host, false);
    assert_int_equal(host->checkpoint_rc, PORT_IO);
    assert_int_equal(host->disk_failed_count, 1);
    /* The cache still shows it, the disk has not got it: the next life may use it only once it is written again. */
    host_stop(host);
    struct fake_disk *disk = host_free(host);
    disk->fail_at = 0;
    host = host_recovered(disk, &config);
    assert_int_equal(host->state, 3);
    host_append_all(host, 2, 100);
    struct fake_disk *after = fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false);
    struct host *again = host_recovered(after, &config);
    assert_int_equal(again->state, 3);
    assert_int_equal(again->damage_count, 0);
    host_end(again);
    host_end(host);
}

static void a_failure_at_any_effect_is_never_acknowledged_away(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    static const enum port_rc words[] = {PORT_IO, PORT_NO_SPACE, PORT_NO_HANDLES, PORT_OTHER};
    for (uint32_t w = 0; w < BASE_ARRAY_COUNT(words); w++) {
        for (uint64_t nth = 1; nth < 400; nth++) {
            struct host *host = host_make(fake_disk_make(), &config);
            host->disk->fail_at = nth;
            host->disk->fail_rc = words[w];
            host_start(host);
            assert_true(host->is_replayed);
            if (host->replay_rc == PORT_OK) {
                for (uint32_t i = 0; i < 20; i++) {
                    (void)host_append(host, 500 + i * 900);
                    host_run(host);
                    host->now.now_ns += 1000000000;
                    host_turn(host);
                    host_settle(host);
                    if (i % 5 == 4) { host_checkpoint(host, false); }
                }
                host_run(host);
                assert_int_equal(host->acked + host->failed, host->appended);
                assert_int_equal(host->failed != 0, host->is_disk_failed && host->failed != 0);
                struct fake_disk *after = fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false);
                (void)expect_recovers(after, &config, host->acked, host->appended);
                fake_disk_free(after);
            }
            assert_int_equal(host->not_durable, 0);
            host_stop(host);
            assert_true(host->is_stopped);
            bool was_hit = host->disk->kind_seen >= nth;
            host_end(host);
            if (!was_hit) { break; }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay_starts_at_the_newest_checkpoint),
        cmocka_unit_test(a_clean_stop_is_clean_once),
        cmocka_unit_test(a_crash_at_any_effect_of_a_start_after_a_clean_stop_is_not_clean_once_replayed),
        cmocka_unit_test(a_clean_mark_with_something_behind_it_is_none),
        cmocka_unit_test(a_bad_newest_checkpoint_gives_way_to_the_one_before),
        cmocka_unit_test(the_number_of_a_checkpoint_that_went_bad_is_not_given_again),
        cmocka_unit_test(two_bad_checkpoints_are_damage_and_never_an_empty_start),
        cmocka_unit_test(trimmed_files_whose_checkpoint_is_lost_are_damage),
        cmocka_unit_test(an_end_record_of_an_older_checkpoint_ends_no_newer_one),
        cmocka_unit_test(a_checkpoint_waits_for_what_was_under_way_when_it_began),
        cmocka_unit_test(files_beyond_a_lowered_limit_go),
        cmocka_unit_test(a_full_disk_fails_a_checkpoint_and_nothing_else),
        cmocka_unit_test(a_checkpoint_that_failed_is_asked_for_again_by_an_alarm),
        cmocka_unit_test(a_checkpoint_that_was_not_opened_closes_no_other_file),
        cmocka_unit_test(more_states_than_fit_are_refused_and_all_come_back_in_order),
        cmocka_unit_test(a_checkpoint_that_fails_to_sync_takes_the_disk_off_line),
        cmocka_unit_test(a_failure_at_any_effect_is_never_acknowledged_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
