/* test_journal_start.c: what a start meets besides what it reads: a stop, a disk that fails, closes files slowly or is full.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void a_stop_at_any_effect_of_a_start_ends(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *first = host_begun(&config);
    host_append_all(first, 3, 100);
    struct fake_disk *disks[2] = {host_copy_of(first->disk), fake_disk_make()};
    host_end(first);
    for (int i = 0; i < 2; i++) {
        bool is_over = false;
        for (uint32_t effects = 0; !is_over; effects++) {
            struct host *host = host_make(host_copy_of(disks[i]), &config);
            host->checks_durable = false;
            journal_start(host->journal, &host->out);
            host_turn(host);
            for (uint32_t k = 0; k < effects && !host->is_replayed; k++) {
                if (!host_do(host)) { host_turn(host); }
            }
            is_over = host->is_replayed;
            host_stop(host);
            assert_true(host->is_replayed);
            assert_true(host->is_stopped);
            assert_int_equal(host->disk->queue_count, 0);
            host_end(host);
        }
        fake_disk_free(disks[i]);
    }
}

static bool has_loaders_bytes(const struct fake_disk *disk)
{
    for (uint32_t i = 0; i < disk->queue_count; i++) {
        if (disk->queue[i].effect.kind != PORT_CLOSE_FILE) { return true; }
    }
    return false;
}

static void a_disk_that_fails_beside_a_start_ends_it_when_the_host_has_given_back_what_it_reads_into(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *first = host_begun(&config);
    host_append_all(first, 3, 100);
    struct fake_disk *disk = host_copy_of(first->disk);
    host_end(first);
    uint32_t waited = 0;
    for (uint32_t effects = 0;; effects++) {
        struct host *host = host_make(host_copy_of(disk), &config);
        host->checks_durable = false;
        journal_start(host->journal, &host->out);
        host_turn(host);
        for (uint32_t i = 0; i < effects && !host->is_replayed; i++) {
            assert_true(host->out.wants_turn || host->disk->queue_count > 0);
            if (!host_do(host)) { host_turn(host); }
        }
        if (host->is_replayed) {
            host_end(host);
            break;
        }
        journal_fail(host->journal, PORT_IO, &host->out);
        host_turn(host);
        bool is_waiting = has_loaders_bytes(host->disk);
        assert_int_equal(host->is_replayed, !is_waiting);
        assert_int_equal(base_pages_block_count(host->pages) > 0, is_waiting);
        waited += is_waiting ? 1 : 0;
        host_run(host);
        assert_true(host->is_replayed);
        assert_int_equal(host->replay_rc, PORT_IO);
        host_stop(host);
        assert_true(host->is_stopped);
        host_end(host);
    }
    assert_true(waited > 10);
    fake_disk_free(disk);
}

static void a_start_waits_for_files_that_close_slowly(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_begun(&config);
    host_append_all(host, 20, 20000);
    assert_non_null(fake_disk_file(host->disk, "weir-journal/0000000008.wj")); /* one more than there are handles */
    struct host *again = host_make(host_copy_of(host->disk), &config);
    host_end(host);
    again->checks_durable = false;
    again->holds_closes = true;
    journal_start(again->journal, &again->out);
    do {
        host_turn(again);
    } while (host_do(again) || !again->is_replayed);
    assert_int_equal(again->replay_rc, PORT_OK);
    assert_int_equal(again->replayed_count, 20);
    host_end(again);
}

static void a_start_that_needs_a_file_on_a_full_disk_takes_the_room_kept_in_reserve(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    config.reserve_bytes_max = 65536;
    for (int has_reserve = 0; has_reserve < 2; has_reserve++) {
        struct host *host = host_begun(&config);
        host_append_all(host, 1, 100);
        host_settle(host);
        struct fake_disk *disk = host_copy_of(host->disk);
        host_end(host);
        (void)fake_disk_put(disk, "weir-journal/0000000002.wj", "hello", 5); /* so file 1 is missing, and 3 is made */
        struct fake_file *reserve = fake_disk_file(disk, "weir-journal/reserve");
        assert_non_null(reserve);
        reserve->reserved_bytes = 65536; /* a crash keeps it */
        if (has_reserve == 0) { fake_disk_remove(disk, "weir-journal/reserve"); }
        disk->room_bytes = fake_disk_used(disk);
        host = host_recovered(disk, &config);
        assert_int_equal(host->replayed_count, 1);
        assert_int_equal(host->replay_rc, has_reserve == 1 ? PORT_OK : PORT_NO_SPACE);
        if (has_reserve == 1) {
            struct journal_view view;
            journal_view(host->journal, &view);
            assert_true(view.is_short_of_room);
            assert_non_null(fake_disk_file(host->disk, "weir-journal/0000000003.wj"));
        }
        host_end(host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_at_any_effect_of_a_start_ends),
        cmocka_unit_test(a_disk_that_fails_beside_a_start_ends_it_when_the_host_has_given_back_what_it_reads_into),
        cmocka_unit_test(a_start_waits_for_files_that_close_slowly),
        cmocka_unit_test(a_start_that_needs_a_file_on_a_full_disk_takes_the_room_kept_in_reserve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
