/* test_journal_append.c: what is written, when it is synced, and when it is acknowledged.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>

static struct host *given_journal(const struct journal_config *config)
{
    struct host *host = host_make(fake_disk_make(), config);
    host_start(host);
    assert_int_equal(host->replay_rc, PORT_OK);
    assert_false(host->is_clean);
    host_run(host);
    return host;
}

static void end(struct host *host)
{
    assert_int_equal(host->not_durable, 0);
    fake_disk_free(host_free(host));
}

static void many_entries_of_one_turn_take_one_write_and_one_sync(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    struct journal_view before, after;
    journal_view(host->journal, &before);
    uint64_t writes = host->disk->write_count;
    for (int i = 0; i < 50; i++) { assert_true(host_append(host, 100)); }
    host_turn(host);
    assert_int_equal(host->disk->queue_count, 1);
    assert_int_equal(host->disk->queue[0].effect.kind, PORT_WRITE);
    assert_true(host_do(host));
    assert_int_equal(host->disk->write_count, writes + 1);
    assert_int_equal(host->disk->queue_count, 1);
    assert_int_equal(host->disk->queue[0].effect.kind, PORT_SYNC);
    assert_int_equal(host->acked, 0);
    assert_true(host_do(host));
    assert_int_equal(host->acked, 50);
    journal_view(host->journal, &after);
    assert_int_equal(after.groups - before.groups, 1);
    assert_int_equal(after.syncs - before.syncs, 1);
    host_run(host);
    end(host);
}

static void entries_that_come_while_a_sync_runs_share_the_next(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    assert_true(host_append(host, 100));
    host_turn(host);
    assert_true(host_do(host)); /* written; the sync of the first is asked */
    assert_int_equal(host->disk->queue[0].effect.kind, PORT_SYNC);
    for (int i = 0; i < 10; i++) {
        assert_true(host_append(host, 100)); /* the first is written beside the sync, the rest waits */
        host_turn(host);
    }
    assert_int_equal(host->disk->queue_count, 2);
    struct port_event event;
    assert_true(fake_disk_do_at(host->disk, 1, &event)); /* the write beside the sync completes first */
    event.now_ns = host->now.now_ns;
    journal_done(host->journal, &event, &host->out);
    assert_int_equal(host->out.effect_count, 0); /* exactly one sync at a time */
    assert_int_equal(host->acked, 0);
    assert_true(host_do(host));
    assert_int_equal(host->acked, 1);
    host_run(host);
    assert_int_equal(host->acked, 11);
    struct journal_view view;
    journal_view(host->journal, &view);
    assert_int_equal(view.syncs, 3);
    end(host);
}

static void a_sync_that_began_before_a_write_completed_does_not_acknowledge_it(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    uint64_t random = 42;
    for (int round = 0; round < 3000; round++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t dice = (uint32_t)(random >> 40);
        if (dice % 3 == 0 && host->appended < 3000) { (void)host_append(host, 16 + dice % 3000); }
        if (dice % 3 == 1) { host_turn(host); }
        /* Completions overtake each other as far as the contract lets them: a write past a running sync. */
        if (dice % 3 == 2 && host->disk->queue_count > 0) {
            uint32_t index = dice / 3 % host->disk->queue_count;
            bool is_write = host->disk->queue[index].effect.kind == PORT_WRITE;
            for (uint32_t i = 0; i < index; i++) {
                is_write = is_write && host->disk->queue[i].effect.kind == PORT_SYNC;
            }
            struct port_event event;
            assert_true(fake_disk_do_at(host->disk, is_write ? index : 0, &event));
            event.now_ns = host->now.now_ns;
            journal_done(host->journal, &event, &host->out);
            host_turn(host);
        }
        if (host->wants_checkpoint && host->appended == host->acked) { host_checkpoint(host, false); }
    }
    host->answers_checkpoints = true;
    host_run(host);
    assert_int_equal(host->acked, host->appended);
    assert_true(host->acked > 500);
    end(host);
}

/* The checker that the other tests lean on, seen failing: a disk that answers syncs without doing them. */
static void the_durability_checker_sees_a_sync_that_is_not_done(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    host->disk->lies = true;
    assert_true(host_append(host, 100));
    host_run(host);
    assert_int_equal(host->acked, 1);
    assert_int_equal(host->not_durable, 1);
    fake_disk_free(host_free(host));
}

static void short_writes_are_continued(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_make(fake_disk_make(), &config);
    host->disk->short_bytes = 1000;
    host_start(host);
    assert_int_equal(host->replay_rc, PORT_OK);
    for (int i = 0; i < 20; i++) { assert_true(host_append(host, 1500)); }
    host_run(host);
    assert_int_equal(host->acked, 20);
    host_checkpoint(host, false);
    assert_true(host->is_checkpointed);
    for (int i = 0; i < 20; i++) { assert_true(host_append(host, 500)); }
    host_run(host);
    assert_int_equal(host->not_durable, 0);
    (void)expect_recovers(host->disk, &config, 40, 40);
    end(host);
}

/* Shorter than a header: the page that names the next file, too. */
static void very_short_writes_are_continued(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_make(fake_disk_make(), &config);
    host_start(host);
    host->disk->short_bytes = 97;
    for (int i = 0; i < 40; i++) {
        assert_true(host_append(host, 3000));
        host_run(host);
    }
    assert_int_equal(host->acked, 40);
    assert_int_equal(host->not_durable, 0);
    host->disk->short_bytes = 0;
    (void)expect_recovers(host->disk, &config, 40, 40);
    end(host);
}

static void fail_at(struct host *host, enum port_effect_kind kind, enum port_rc rc)
{
    host->disk->fail_kind = kind;
    host->disk->kind_seen = 0;
    host->disk->fail_at = 1;
    host->disk->fail_rc = rc;
}

static void a_failed_sync_fails_what_is_in_flight_and_later_and_is_never_tried_again(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    assert_true(host_append(host, 100));
    host_run(host);
    fail_at(host, PORT_SYNC, PORT_IO);
    for (int i = 0; i < 3; i++) { assert_true(host_append(host, 100)); }
    host_run(host);
    assert_int_equal(host->acked, 1);
    assert_int_equal(host->failed, 3);
    assert_int_equal(host->failed_rc, PORT_IO);
    assert_int_equal(host->disk_failed_count, 1);
    uint64_t syncs = host->disk->sync_count;
    uint64_t writes = host->disk->write_count;
    assert_true(host_append(host, 100));
    host_run(host);
    assert_int_equal(host->failed, 4);
    assert_int_equal(host->disk_failed_count, 1);
    assert_int_equal(host->disk->sync_count, syncs);
    assert_int_equal(host->disk->write_count, writes);
    host_checkpoint(host, false);
    assert_int_equal(host->checkpoint_rc, PORT_IO);
    host_stop(host);
    assert_true(host->is_stopped);
    assert_true(journal_is_quiet(host->journal));
    end(host);
}

static void an_error_that_comes_one_sync_late_fails_the_later_entries_only(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    assert_true(host_append(host, 100));
    host_turn(host);
    assert_true(host_do(host));
    assert_true(host_append(host, 100));
    host_turn(host); /* the second is written beside the first one's sync */
    assert_true(host_do(host));
    assert_int_equal(host->acked, 1);
    fail_at(host, PORT_SYNC, PORT_IO);
    host_run(host);
    assert_int_equal(host->acked, 1);
    assert_int_equal(host->failed, 1);
    assert_true(host->is_disk_failed);
    end(host);
}

static void bytes_stay_with_the_host_until_the_write_completes_even_after_a_failure(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    assert_true(host_append(host, 100));
    host_turn(host);
    assert_true(host_do(host));
    assert_true(host_append(host, 100));
    host_turn(host);
    fail_at(host, PORT_SYNC, PORT_IO);
    assert_true(host_do(host)); /* the sync fails while the second write is under way */
    assert_true(host->is_disk_failed);
    assert_int_equal(host->failed, 0);
    assert_true(host_do(host));
    assert_int_equal(host->failed, 2);
    end(host);
}

static void a_write_that_fails_once_is_written_again_in_its_place(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    const enum port_rc words[] = {PORT_OK, PORT_IO, PORT_NO_SPACE}; /* OK: without a count */
    for (size_t w = 0; w < BASE_ARRAY_COUNT(words); w++) {
        struct host *host = given_journal(&config);
        assert_true(host_append(host, 100));
        host_run(host);
        fail_at(host, PORT_WRITE, words[w]);
        assert_true(host_append(host, 200));
        host_turn(host);
        assert_true(host_do(host));
        assert_int_equal(host->acked, 1); /* nothing is acknowledged for the asking, nor synced */
        assert_true(host_append(host, 300));
        host_settle(host);
        assert_int_equal(host->acked, 3);
        assert_int_equal(host->failed, 0);
        assert_false(host->is_disk_failed);
        (void)expect_recovers(host->disk, &config, 3, 3);
        end(host);
    }
}

static void a_write_that_goes_on_failing_fails_the_journal(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    for (int kind = 0; kind < 2; kind++) {
        struct host *host = given_journal(&config);
        fail_at(host, PORT_WRITE, kind == 0 ? PORT_OK : PORT_IO);
        host->disk->fails_on = true;
        assert_true(host_append(host, 100));
        host_settle(host);
        assert_int_equal(host->failed, 1);
        assert_int_equal(host->failed_rc, PORT_IO);
        assert_int_equal(host->disk_failed_count, 1);
        assert_int_equal(host->disk->kind_seen, 1 + JOURNAL_TRIES_MAX);
        end(host);
    }
}

static void a_write_waits_for_room_as_long_as_the_disk_is_full(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    fail_at(host, PORT_WRITE, PORT_NO_SPACE);
    host->disk->fails_on = true;
    assert_true(host_append(host, 100));
    host_settle(host);
    assert_int_equal(host->acked + host->failed, 0);
    assert_false(host->is_disk_failed);
    assert_true(host->disk->kind_seen > JOURNAL_TRIES_MAX);
    host->disk->fail_at = 0;
    host_settle(host);
    assert_int_equal(host->acked, 1);
    end(host);
}

static void a_next_file_that_found_no_handle_is_made_as_soon_as_one_comes(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    fail_at(host, PORT_OPEN, PORT_NO_HANDLES);
    host->disk->fails_on = true;
    while (host->acked == host->appended) {
        assert_true(host_append(host, 8000));
        host_run(host);
        assert_true(host->appended < 30);
    }
    assert_true(host->handle_want_count > 0);
    /* By itself it would try again later. */
    assert_true(journal_next_alarm_ns(host->journal) > host->now.now_ns + 100000000);
    host->disk->fail_at = 0;
    journal_handle_comes(host->journal);
    assert_true(journal_next_alarm_ns(host->journal) <= host->now.now_ns + 1000000);
    host_settle(host);
    assert_int_equal(host->acked, host->appended);
    assert_int_equal(host->failed, 0);
    (void)expect_recovers(host->disk, &config, host->acked, host->appended);
    end(host);
}

static bool is_short_of_room(struct host *host)
{
    struct journal_view view;
    journal_view(host->journal, &view);
    return view.is_short_of_room;
}

static void what_is_kept_in_reserve_goes_when_there_is_no_room_and_comes_back_with_it(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    config.reserve_bytes_max = 65536;
    struct host *host = given_journal(&config);
    host_settle(host);
    assert_non_null(fake_disk_file(host->disk, "weir-journal/reserve"));
    assert_int_equal(fake_disk_file(host->disk, "weir-journal/reserve")->reserved_bytes, 65536);
    assert_false(is_short_of_room(host));
    uint64_t used = fake_disk_used(host->disk);
    host->disk->room_bytes = used + 1;               /* its own room does not make it again: that takes twice as much */
    journal_release_room(host->journal, &host->out); /* something else found no room */
    host_turn(host);
    assert_true(is_short_of_room(host));
    host_run(host);
    assert_null(fake_disk_file(host->disk, "weir-journal/reserve"));
    host_settle(host);
    assert_true(is_short_of_room(host));
    assert_true(journal_next_alarm_ns(host->journal) != UINT64_MAX);
    host->disk->room_bytes = used + 65536; /* somebody deletes something */
    host_settle(host);
    assert_false(is_short_of_room(host));
    assert_non_null(fake_disk_file(host->disk, "weir-journal/reserve"));
    assert_int_equal(fake_disk_file(host->disk, "weir-journal/reserve")->reserved_bytes, 65536);
    assert_true(journal_next_alarm_ns(host->journal) == UINT64_MAX);
    end(host);
}

static void the_reserve_makes_room_for_a_checkpoint_on_a_full_disk(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    config.reserve_bytes_max = 65536;
    struct host *host = given_journal(&config);
    host_settle(host);
    host->disk->room_bytes = fake_disk_used(host->disk);
    host_checkpoint(host, false);
    assert_int_equal(host->checkpoint_rc, PORT_NO_SPACE);
    host_run(host);
    host_checkpoint(host, false);
    assert_int_equal(host->checkpoint_rc, PORT_OK);
    assert_true(is_short_of_room(host));
    end(host);
}

static void appends_wait_at_the_limit_until_a_checkpoint_makes_room(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    struct journal_view view;
    while (host->appended < 1000) {
        assert_true(host_append(host, 20000));
        host_run(host);
        if (host->acked < host->appended) { break; }
    }
    assert_true(host->acked < host->appended);
    assert_int_equal(host->want_count, 1);
    journal_view(host->journal, &view);
    assert_true(view.is_full);
    assert_true(view.bytes <= config.bytes_max);
    uint64_t stuck = host->acked;
    host_run(host);
    assert_int_equal(host->acked, stuck);
    host_checkpoint(host, false);
    assert_int_equal(host->checkpoint_rc, PORT_OK);
    assert_int_equal(host->acked, host->appended);
    (void)expect_recovers(host->disk, &config, host->acked, host->appended);
    end(host);
}

static void the_disk_holds_no_more_than_the_limit_however_much_is_appended(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    host->answers_checkpoints = true;
    for (int i = 0; i < 1500; i++) {
        assert_true(host_append(host, 1 + (uint64_t)(i * 7919 % 15000)));
        host_run(host);
        assert_int_equal(host->acked, host->appended);
    }
    assert_true(host->want_count > 10);
    /* bytes_max, and two small checkpoints */
    assert_true(host->disk->file_bytes_used <= config.bytes_max + 8192);
    (void)expect_recovers(host->disk, &config, host->acked, host->appended);
    end(host);
}

static void a_full_disk_makes_appends_wait_and_heals_by_itself(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    host->disk->room_bytes = fake_disk_used(host->disk) + 1000;
    for (int i = 0; i < 20; i++) { assert_true(host_append(host, 15000)); }
    host_run(host);
    assert_true(host->acked < host->appended);
    assert_false(host->is_disk_failed);
    assert_true(journal_next_alarm_ns(host->journal) != UINT64_MAX);
    host->disk->room_bytes = 0;
    host->now.now_ns = journal_next_alarm_ns(host->journal);
    host_turn(host);
    host_run(host);
    assert_int_equal(host->acked, host->appended);
    assert_true(journal_next_alarm_ns(host->journal) == UINT64_MAX);
    end(host);
}

static void what_does_not_fit_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    config.entries_max = 5;
    struct host *host = given_journal(&config);
    for (int i = 0; i < 5; i++) { assert_true(host_append(host, 64)); }
    assert_false(host_append(host, 64));
    host_run(host);
    assert_int_equal(host->acked, 5);
    assert_true(host_append(host, 64));
    host_run(host);
    assert_int_equal(host->acked, 6);
    end(host);
}

static void create_needs_its_arena_and_start_its_pages(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    size_t bytes = journal_arena_bytes(&config);
    uint8_t *memory = calloc(1, bytes);
    struct journal *journal = NULL;
    for (size_t room = 0; room < bytes - 64; room += 997) {
        struct base_arena arena;
        base_arena_init(&arena, memory, room);
        assert_int_equal(journal_create(&arena, NULL, &config, &journal), BASE_FULL);
        assert_null(journal);
        assert_int_equal(base_arena_mark(&arena), 0);
    }
    free(memory);
    struct host *host = host_make(fake_disk_make(), &config);
    void *all = NULL;
    for (size_t size = 16u << 20; size >= 4096; size /= 2) { /* takes what there is */
        do {
            all = base_pages_take(host->pages, BASE_CONTROL, size);
        } while (all != NULL);
    }
    journal_start(host->journal, &host->out);
    struct journal_out given;
    assert_true(journal_poll(host->journal, &given));
    assert_int_equal(given.kind, JOURNAL_OUT_REPLAYED);
    assert_int_equal(given.result, PORT_NO_MEMORY);
    fake_disk_free(host_free(host));
}

static void entries_without_bytes_and_with_none_come_back_as_they_were(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    assert_true(host_append(host, 0));
    struct journal_entry entry = {.kind = 2, .id = {.index = 2}, .offset_base = 2, .size_bytes = 9999, .crc = 7};
    assert_int_equal(journal_append(host->journal, &entry, NULL, 0, 2, &host->out), BASE_OK);
    host->appended += 1;
    host_run(host);
    assert_int_equal(host->acked, 2);
    assert_int_equal(expect_recovers(host->disk, &config, 2, 2), 2);
    end(host);
}

static void a_stop_writes_and_syncs_what_waits(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = given_journal(&config);
    for (int i = 0; i < 30; i++) { assert_true(host_append(host, 5000)); }
    host_stop(host);
    assert_true(host->is_stopped);
    assert_int_equal(host->acked, 30);
    assert_true(journal_is_quiet(host->journal));
    for (int i = 0; i < FAKE_OPEN; i++) { assert_int_equal(host->disk->open[i].file, 0); }
    end(host);
}

static void a_stop_waits_for_nobody_to_make_room(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    for (int is_disk_full = 0; is_disk_full < 2; is_disk_full++) {
        struct host *host = given_journal(&config);
        if (is_disk_full == 1) { host->disk->room_bytes = fake_disk_used(host->disk) + 1000; }
        while (host->acked == host->appended) {
            assert_true(host_append(host, 20000));
            host_run(host);
        }
        host_stop(host);
        assert_true(host->is_stopped);
        assert_int_equal(host->acked + host->failed, host->appended);
        assert_int_equal(host->failed, is_disk_full);
        end(host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_entries_of_one_turn_take_one_write_and_one_sync),
        cmocka_unit_test(entries_that_come_while_a_sync_runs_share_the_next),
        cmocka_unit_test(a_sync_that_began_before_a_write_completed_does_not_acknowledge_it),
        cmocka_unit_test(the_durability_checker_sees_a_sync_that_is_not_done),
        cmocka_unit_test(short_writes_are_continued),
        cmocka_unit_test(very_short_writes_are_continued),
        cmocka_unit_test(a_failed_sync_fails_what_is_in_flight_and_later_and_is_never_tried_again),
        cmocka_unit_test(an_error_that_comes_one_sync_late_fails_the_later_entries_only),
        cmocka_unit_test(bytes_stay_with_the_host_until_the_write_completes_even_after_a_failure),
        cmocka_unit_test(a_write_that_fails_once_is_written_again_in_its_place),
        cmocka_unit_test(a_write_that_goes_on_failing_fails_the_journal),
        cmocka_unit_test(a_write_waits_for_room_as_long_as_the_disk_is_full),
        cmocka_unit_test(a_next_file_that_found_no_handle_is_made_as_soon_as_one_comes),
        cmocka_unit_test(what_is_kept_in_reserve_goes_when_there_is_no_room_and_comes_back_with_it),
        cmocka_unit_test(the_reserve_makes_room_for_a_checkpoint_on_a_full_disk),
        cmocka_unit_test(appends_wait_at_the_limit_until_a_checkpoint_makes_room),
        cmocka_unit_test(the_disk_holds_no_more_than_the_limit_however_much_is_appended),
        cmocka_unit_test(a_full_disk_makes_appends_wait_and_heals_by_itself),
        cmocka_unit_test(what_does_not_fit_is_refused_and_changes_nothing),
        cmocka_unit_test(create_needs_its_arena_and_start_its_pages),
        cmocka_unit_test(entries_without_bytes_and_with_none_come_back_as_they_were),
        cmocka_unit_test(a_stop_writes_and_syncs_what_waits),
        cmocka_unit_test(a_stop_waits_for_nobody_to_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
