/* test_journal_recovery.c: what comes back: torn tails are cut, damage below the line is named, crashes lose nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host.h"
#include "journal__format.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE   4096u
#define FILE_0 "weir-journal/0000000000.wj"

/* A disk with `groups` groups of `each` entries, all acknowledged, without the line page that would follow. */
static struct fake_disk *given_groups(const struct journal_config *config, uint32_t groups, uint32_t each,
                                      uint64_t size_bytes)
{
    struct host *host = host_make(fake_disk_make(), config);
    host_start(host);
    for (uint32_t i = 0; i < groups; i++) {
        for (uint32_t k = 0; k < each; k++) { assert_true(host_append(host, size_bytes)); }
        host_turn(host);
        while (host->acked < host->appended) { assert_true(host_do(host)); }
    }
    struct fake_disk *disk = fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false);
    host_end(host);
    return disk;
}

static uint64_t end_of(const struct fake_disk *disk)
{
    struct fake_file *file = fake_disk_file((struct fake_disk *)(uintptr_t)disk, FILE_0);
    uint64_t at = file->cache_bytes;
    while (at > 0 && file->cache[at - 1] == 0) { at -= 1; }
    return (at + PAGE - 1) / PAGE * PAGE;
}

/* Of a group of 3 entries of 400 bytes. */
static bool is_padding(uint64_t at)
{
    uint64_t table = 128 + 3 * 96;
    return at % PAGE >= table + 3 * 400 && at % PAGE < PAGE - 32 - table;
}

static void an_empty_disk_is_formatted_once_and_an_untouched_one_comes_back_empty(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_recovered(fake_disk_make(), &config);
    assert_int_equal(host->replay_rc, PORT_OK);
    assert_int_equal(host->replayed_count + host->state_count + host->damage_count, 0);
    assert_true(host->effects_of_step_max <= JOURNAL_EFFECTS_MAX);
    assert_int_equal(expect_recovers(host->disk, &config, 0, 0), 0);
    host_end(host);
}

static void a_crash_at_any_point_of_a_format_leaves_a_disk_that_can_be_started(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    for (uint64_t effects = 0;; effects++) {
        struct host *host = host_make(fake_disk_make(), &config);
        host->effects_max = effects == 0 ? 1 : effects;
        host_start(host);
        bool is_over = !host->is_cut_off;
        uint32_t pending = fake_disk_pending(host->disk);
        for (uint32_t which = 0; which <= pending; which++) {
            for (uint32_t keep = FAKE_KEEP_NOTHING; keep <= FAKE_KEEP_TORN; keep++) {
                for (uint32_t names = 0; names < 2; names++) {
                    struct fake_disk *after = fake_disk_crash(host->disk, (enum fake_keep)keep, which, 60, names == 1);
                    (void)expect_recovers(after, &config, 0, 0);
                    fake_disk_free(after);
                }
            }
        }
        host_end(host);
        if (is_over) { break; }
    }
}

static void a_journal_torn_at_any_byte_of_its_last_group_gives_the_acknowledged_entries(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    config.step_max = 1000;
    struct host *host = host_make(fake_disk_make(), &config);
    host_start(host);
    for (int i = 0; i < 5; i++) { assert_true(host_append(host, 700)); }
    host_run(host);
    for (int i = 0; i < 5; i++) { assert_true(host_append(host, 900)); }
    host_turn(host);
    assert_true(host_do(host)); /* written, not synced */
    assert_int_equal(host->acked, 5);
    uint32_t pending = fake_disk_pending(host->disk);
    assert_int_equal(pending, 2); /* the line alone, and the group over it */
    uint32_t whole = 0;
    uint64_t tried = 0;
    for (uint64_t bytes = 0; bytes <= 3 * PAGE;
         bytes += bytes < 5200 ? 1 : 7) { /* what is behind is padding and the copy */
        tried += 1;
        struct fake_disk *torn = fake_disk_crash(host->disk, FAKE_KEEP_TORN, 1, bytes, false);
        struct host *again = host_recovered(torn, &config);
        assert_int_equal(again->replay_rc, PORT_OK);
        assert_int_equal(again->damage_count + again->replayed_bad_count, 0);
        assert_true(again->replayed_count == 5 || again->replayed_count == 10); /* all of a group or nothing */
        assert_int_equal(again->is_torn,
                         bytes >= 128 && again->replayed_count == 5); /* its header says that there was one */
        whole += again->replayed_count == 10 ? 1 : 0;
        host_end(again);
    }
    assert_int_equal(whole, tried - (128 + 5 * 96 + 5 * 900)); /* the table and the bytes; not its copy */
    host_end(host);
}

static void a_bit_flipped_below_the_line_is_reported_or_repaired_and_nothing_else_is_lost(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    config.step_max = 100000;
    struct fake_disk *disk = given_groups(&config, 4, 3, 400);
    uint64_t last = end_of(disk) - PAGE; /* the last group: no line covers it */
    uint32_t repaired = 0, damaged_entries = 0, damages = 0, tried = 0;
    for (uint64_t at = PAGE; at < last; at++) {
        if (is_padding(at) && at % 31 != 0) { continue; }
        tried += 1;
        struct fake_disk *flipped = host_copy_of(disk);
        fake_disk_flip(fake_disk_file(flipped, FILE_0), at, (uint8_t)(1u << at % 8));
        struct host *host = host_recovered(flipped, &config);
        assert_int_equal(host->replay_rc, PORT_OK);
        assert_int_equal(host->replayed_count, 12); /* one bit never costs more than the entry it is in */
        for (uint32_t i = 0; i < 12; i++) { assert_int_equal(host->replayed[i], i + 1); }
        assert_true(host->replayed_bad_count <= 1);
        damaged_entries += host->replayed_bad_count;
        damages += host->damage_count;
        repaired += host->replayed_bad_count == 0 ? 1 : 0;
        host_end(host);
    }
    assert_int_equal(damages, 0);
    assert_int_equal(damaged_entries, 9 * 400);
    assert_int_equal(repaired + damaged_entries, tried);
    fake_disk_free(disk);
}

static void a_group_wiped_below_the_line_is_damage_and_the_later_ones_come_back(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct fake_disk *disk = given_groups(&config, 5, 2, 500);
    for (uint32_t group = 1; group <= 4; group++) {
        struct fake_disk *wiped = host_copy_of(disk);
        struct fake_file *file = fake_disk_file(wiped, FILE_0);
        memset(file->cache + group * PAGE, 0, PAGE);
        memset(file->durable + group * PAGE, 0, PAGE);
        struct host *host = host_recovered(wiped, &config);
        assert_int_equal(host->replay_rc, PORT_OK);
        assert_false(host->is_clean);
        assert_int_equal(host->damage_count, 1);
        assert_int_equal(host->replayed_count, 8);
        /* It is still damage after more was written and one more crash: only a checkpoint lays it to rest. */
        host->appended = host->acked = 10;
        assert_true(host_append(host, 100));
        host_run(host);
        assert_int_equal(host->acked, 11);
        struct host *again = host_recovered(host_copy_of(host->disk), &config);
        assert_int_equal(again->damage_count, 1);
        assert_int_equal(again->replayed_count, 9);
        host_end(again);
        host_checkpoint(host, false);
        again = host_recovered(host_copy_of(host->disk), &config);
        assert_int_equal(again->damage_count, 0);
        assert_int_equal(again->state, 11);
        host_end(again);
        host_end(host);
    }
    fake_disk_free(disk);
}

/* A header of life 1 where entry 1 was, of a group that reaches over the two that life 2 wrote behind it. */
static void an_older_group_that_a_later_life_wrote_into_is_not_gone_on_at(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_make(fake_disk_make(), &config);
    host_start(host);
    struct fake_disk *disk = host_copy_of(host->disk);
    host_end(host);
    host = host_recovered(disk, &config);
    for (int i = 0; i < 3; i++) {
        assert_true(host_append(host, 300));
        host_run(host);
    }
    assert_int_equal(host->acked, 3);
    struct fake_disk *damaged = host_copy_of(host->disk);
    struct fake_file *file = fake_disk_file(damaged, FILE_0);
    struct journal__head head = {.life = 1,
                                 .sequence = 3,
                                 .position = 2 * PAGE,
                                 .line = 2 * PAGE,
                                 .row_count = 1,
                                 .payload_bytes = 2 * PAGE,
                                 .bytes = 3 * PAGE};
    memcpy(head.id.b, file->cache + 8, sizeof head.id.b);
    memset(file->cache + PAGE, 0, PAGE); /* the first group of life 2 */
    journal__put_head(file->cache + 2 * PAGE, &head);
    memcpy(file->durable, file->cache, 3 * PAGE);
    struct host *again = host_recovered(damaged, &config);
    assert_int_equal(again->replay_rc, PORT_OK);
    assert_int_equal(again->damage_count, 1);
    assert_int_equal(again->replayed_count, 2);
    assert_int_equal(again->replayed[0], 2);
    assert_int_equal(again->replayed[1], 3);
    host_end(again);
    host_end(host);
}

/* The first group of the later life went bad, and its place has the copy of the older one's header still, far behind it. */
static void the_end_of_an_older_group_does_not_lead_over_what_a_later_life_wrote(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_recovered(given_groups(&config, 3, 1, 100), &config);
    uint64_t torn_at = end_of(host->disk) - PAGE; /* the line alone: the next group is written over it */
    host->appended = host->acked = 3;
    assert_true(host_append(host, 28000));
    host_turn(host);
    assert_true(host_do(host)); /* written, not synced */
    struct fake_disk *disk = host_copy_of(host->disk);
    host_end(host);
    assert_int_equal(end_of(disk) - torn_at, 7 * PAGE);
    fake_disk_flip(fake_disk_file(disk, FILE_0), torn_at + PAGE, 1);
    host = host_recovered(disk, &config);
    assert_int_equal(host->replayed_count, 3);
    host->appended = host->acked = 10;
    const uint64_t sizes[4] = {100, 100, 30000, 100}; /* the third one is for the next file */
    for (int i = 0; i < 4; i++) {
        assert_true(host_append(host, sizes[i]));
        host_run(host);
    }
    assert_int_equal(host->acked, 14);
    disk = host_copy_of(host->disk);
    host_end(host);
    fake_disk_flip(fake_disk_file(disk, FILE_0), torn_at + 50, 1);
    fake_disk_flip(fake_disk_file(disk, FILE_0), torn_at + PAGE - 32 - 128 + 50, 1);
    host = host_recovered(disk, &config);
    assert_int_equal(host->damage_count, 1);
    assert_int_equal(host->replayed_bad_count, 0);
    assert_int_equal(host->replayed_count, 7);
    for (uint32_t i = 0; i < 7; i++) { assert_int_equal(host->replayed[i], i < 3 ? i + 1 : i + 8); }
    host_end(host);
}

static void the_last_group_is_damage_too_once_the_line_alone_was_written_behind_it(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    for (int has_line = 0; has_line < 2; has_line++) {
        struct host *host = host_make(fake_disk_make(), &config);
        host_start(host);
        for (int i = 0; i < 3; i++) {
            assert_true(host_append(host, 300));
            host_run(host);
        }
        struct fake_disk *disk =
            fake_disk_crash(host->disk, has_line == 1 ? FAKE_KEEP_ALL : FAKE_KEEP_NOTHING, 0, 0, false);
        struct fake_file *file = fake_disk_file(disk, FILE_0);
        memset(file->cache + 3 * PAGE, 0, PAGE);
        memset(file->durable + 3 * PAGE, 0, PAGE);
        host_end(host);
        host = host_recovered(disk, &config);
        assert_int_equal(host->replay_rc, PORT_OK);
        assert_int_equal(host->replayed_count, 2);
        assert_int_equal(host->damage_count, has_line);
        /* Damage at the end stays visible: the journal goes on elsewhere. */
        host->appended = host->acked = 3;
        assert_true(host_append(host, 100));
        host_run(host);
        assert_int_equal(host->acked, 4);
        struct host *again = host_recovered(host_copy_of(host->disk), &config);
        assert_int_equal(again->damage_count, has_line);
        assert_int_equal(again->replayed_count, 3);
        host_end(again);
        host_end(host);
    }
}

static void a_bit_flipped_above_the_line_is_cut_or_repaired_and_never_replayed_wrong(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    config.step_max = 100000;
    struct fake_disk *disk = given_groups(&config, 3, 3, 400);
    uint64_t last = end_of(disk) - PAGE;
    uint32_t cut = 0;
    for (uint64_t at = last; at < last + PAGE; at++) {
        if (is_padding(at) && at % 31 != 0) { continue; }
        struct fake_disk *flipped = host_copy_of(disk);
        fake_disk_flip(fake_disk_file(flipped, FILE_0), at, 0x10);
        struct host *host = host_recovered(flipped, &config);
        assert_int_equal(host->damage_count + host->replayed_bad_count, 0);
        assert_true(host->replayed_count == 6 || host->replayed_count == 9);
        cut += host->replayed_count == 6 ? 1 : 0;
        host_end(host);
    }
    assert_int_equal(cut, 3 * 400);
    fake_disk_free(disk);
}

static void what_a_cut_left_behind_never_comes_back(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_make(fake_disk_make(), &config);
    host_start(host);
    assert_true(host_append(host, 100));
    host_turn(host);
    while (host->acked < 1) { assert_true(host_do(host)); }
    for (int i = 0; i < 2; i++) { /* two groups, the second written beside the sync of the first */
        assert_true(host_append(host, 100));
        host_turn(host);
        assert_true(host_do(host));
    }
    /* The disk reorders: the later group is there, the earlier one is not. Nothing of both was acknowledged. */
    assert_int_equal(host->acked, 2);
    struct fake_disk *disk = fake_disk_crash(host->disk, FAKE_KEEP_ALL, 0, 0, false);
    struct fake_file *file = fake_disk_file(disk, FILE_0);
    host_end(host);
    host = host_recovered(disk, &config);
    assert_int_equal(host->replayed_count, 3);
    host_end(host);
    (void)file;

    /* By hand: groups 2 and 3 unsynced, 2 torn, 3 whole. */
    struct fake_disk *whole = given_groups(&config, 3, 1, 100);
    file = fake_disk_file(whole, FILE_0);
    uint8_t third[PAGE];
    memcpy(third, file->cache + 3 * PAGE, PAGE);
    fake_disk_free(whole);
    whole = given_groups(&config, 1, 1, 100);
    file = fake_disk_file(whole, FILE_0);
    struct fake_disk *torn = fake_disk_make();
    uint8_t bytes[4 * PAGE] = {0};
    memcpy(bytes, file->cache, 2 * PAGE);
    memcpy(bytes + 3 * PAGE, third, PAGE);
    /* its line said that group 2 was synced in the life it comes from: take one that does not */
    (void)fake_disk_put(torn, FILE_0, bytes, sizeof bytes);
    struct fake_file *ck = fake_disk_file(whole, "weir-journal/checkpoint-a.wj");
    (void)fake_disk_put(torn, "weir-journal/checkpoint-a.wj", ck->cache, ck->cache_bytes);
    host = host_recovered(torn, &config);
    assert_int_equal(host->damage_count, 1); /* group 3 names it: damage, not a tail */
    assert_int_equal(host->replayed_count, 2);
    host_end(host);
    fake_disk_free(whole);
}

static void a_missing_file_of_the_chain_is_damage_and_an_unknown_one_is_left_alone(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_make(fake_disk_make(), &config);
    host_start(host);
    for (int i = 0; i < 12; i++) {
        assert_true(host_append(host, 20000));
        host_run(host);
    }
    assert_non_null(fake_disk_file(host->disk, "weir-journal/0000000003.wj"));
    (void)fake_disk_put(host->disk, "weir-journal/notes.txt", "hello", 5);
    (void)fake_disk_put(host->disk, "weir-journal/0999999999.wj", "hello", 5);
    assert_int_equal(expect_recovers(host->disk, &config, 12, 12), 12);
    for (uint32_t number = 0; number < 5; number++) {
        char path[64];
        (void)snprintf(path, sizeof path, "weir-journal/%010u.wj", number);
        struct fake_disk *disk = host_copy_of(host->disk);
        if (fake_disk_file(disk, path) == NULL) {
            fake_disk_free(disk);
            continue;
        }
        fake_disk_remove(disk, path);
        struct host *again = host_recovered(disk, &config);
        assert_int_equal(again->replay_rc, PORT_OK);
        bool is_ahead = again->replayed_count == 12; /* made ready, not begun */
        assert_int_equal(again->damage_count, is_ahead ? 0 : 1);
        assert_int_equal(again->replayed_count < 12, !is_ahead);
        assert_non_null(fake_disk_file(again->disk, "weir-journal/notes.txt"));
        assert_non_null(fake_disk_file(again->disk, "weir-journal/0999999999.wj"));
        host_end(again);
    }
    host_end(host);
}

static void what_is_acknowledged_after_a_torn_group_and_a_missing_file_comes_back(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct fake_disk *disk = given_groups(&config, 4, 1, 100);
    uint64_t torn_at = end_of(disk) - PAGE;
    fake_disk_flip(fake_disk_file(disk, FILE_0), torn_at + 128 + 96, 1); /* entry 4, above the line */
    (void)fake_disk_put(disk, "weir-journal/0000000002.wj", "hello", 5); /* so file 1 is missing */
    struct host *host = host_recovered(disk, &config);
    assert_int_equal(host->replayed_count, 3);
    assert_int_equal(host->damage_count, 1);
    host->appended = host->acked = 10;
    assert_true(host_append(host, 100));
    host_run(host);
    assert_int_equal(host->acked, 11);
    disk = fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false);
    host_end(host);
    host = host_recovered(disk, &config);
    assert_int_equal(host->replayed_count, 4); /* and entry 4 is no more than it was before */
    assert_int_equal(host->replayed[3], 11);
    assert_int_equal(host->replayed_bad_count, 0);
    assert_int_equal(host->damage_count, 1); /* the hole stays visible */
    host_end(host);
}

static void a_page_that_went_back_to_what_an_older_life_wrote_is_damage_and_hides_nothing(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct fake_disk *disk = given_groups(&config, 1, 1, 12000);
    struct fake_file *file = fake_disk_file(disk, FILE_0);
    fake_disk_flip(file, PAGE + 2000, 1); /* never acknowledged for the next life: torn */
    uint8_t old[PAGE];
    memcpy(old, file->cache + PAGE, PAGE);
    struct host *host = host_recovered(disk, &config);
    assert_int_equal(host->replayed_count, 0);
    assert_true(host->is_torn);
    for (int i = 0; i < 3; i++) { /* where the torn group was: its header's page has a first group of this life */
        assert_true(host_append(host, 100));
        host_run(host);
    }
    assert_int_equal(host->acked, 3);
    disk = fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false);
    host_end(host);
    file = fake_disk_file(disk, FILE_0);
    for (uint64_t i = 0; i < PAGE; i++) { fake_disk_flip(file, PAGE + i, (uint8_t)(file->cache[PAGE + i] ^ old[i])); }
    host = host_recovered(disk, &config);
    assert_int_equal(host->damage_count, 1);
    assert_int_equal(host->replayed_count, 3);
    assert_int_equal(host->replayed_bad_count, 0);
    host->appended = host->acked = 10; /* and what is written from here on, too */
    assert_true(host_append(host, 100));
    host_run(host);
    disk = fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false);
    host_end(host);
    host = host_recovered(disk, &config);
    assert_int_equal(host->damage_count, 1);
    assert_int_equal(host->replayed_count, 4);
    assert_int_equal(host->replayed[3], 11);
    host_end(host);
}

static void unreadable_is_not_taken_for_torn(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct fake_disk *disk = given_groups(&config, 3, 3, 400);
    uint32_t refused = 0;
    for (uint64_t nth = 1; nth < 60; nth++) {
        struct host *host = host_make(host_copy_of(disk), &config);
        host->checks_durable = false;
        host->disk->fail_at = nth;
        host->disk->fail_rc = PORT_IO;
        host_start(host);
        assert_true(host->is_replayed);
        if (host->replay_rc == PORT_OK) {
            assert_int_equal(host->replayed_count, 9);
            host_end(host);
            continue;
        }
        refused += 1;
        assert_int_equal(host->replay_rc, PORT_IO);
        assert_int_equal(host->disk_failed_count, 0); /* REPLAYED said it */
        (void)host_append(host, 10);
        host_run(host);
        assert_int_equal(host->failed, 1);
        (void)expect_recovers(host->disk, &config, 9, 9); /* and nothing was cut */
        host_stop(host);
        assert_true(host->is_stopped);
        host_end(host);
    }
    assert_true(refused > 10);
    fake_disk_free(disk);
}

/* A story with appends of many sizes, checkpoints and file changes, cut off after `effects` effects. */
static struct host *story(const struct journal_config *config, uint64_t effects)
{
    struct host *host = host_make(fake_disk_make(), config);
    host->effects_max = effects;
    host_start(host);
    if (!host->is_replayed || host->is_cut_off) { return host; }
    for (uint32_t i = 0; i < 24 && !host->is_cut_off; i++) {
        uint32_t count = 1 + i * 5 % 4;
        for (uint32_t k = 0; k < count; k++) { (void)host_append(host, 8 + (i * 7001 + k * 1301) % 14000); }
        host_turn(host);
        if (i % 3 != 0) { /* two groups under way */
            (void)host_do(host);
            (void)host_append(host, 300);
            host_turn(host);
        }
        if (i % 2 == 0) { host_run(host); }
        if (i % 7 == 6) {
            host_run(host);
            if (!host->is_cut_off) { host_checkpoint(host, false); }
        }
    }
    host_run(host);
    return host;
}

static void a_crash_at_any_effect_loses_no_acknowledged_entry(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    config.step_max = 1000;
    uint64_t crashes = 0;
    for (uint64_t effects = 1;; effects++) {
        struct host *host = story(&config, effects);
        assert_int_equal(host->not_durable, 0);
        bool is_over = !host->is_cut_off;
        uint32_t pending = fake_disk_pending(host->disk);
        for (uint32_t keep = FAKE_KEEP_NOTHING; keep <= FAKE_KEEP_TORN; keep++) {
            bool is_single = keep != FAKE_KEEP_NOTHING && keep != FAKE_KEEP_ALL;
            for (uint32_t which = 0; which < (is_single ? pending : 1); which++) {
                struct fake_disk *after =
                    fake_disk_crash(host->disk, (enum fake_keep)keep, which, effects * 37 % 5000, effects % 2 == 0);
                (void)expect_recovers(after, &config, host->acked, host->appended);
                crashes += 1;
                fake_disk_free(after);
            }
        }
        host_end(host);
        if (is_over) { break; }
    }
    print_message("%llu crashes\n", (unsigned long long)crashes);
    assert_true(crashes > 1000);
}

/* Appends go on while a checkpoint is written, over several files; what it frees is used again at once. */
static struct host *busy_story(const struct journal_config *config, uint64_t effects)
{
    struct host *host = host_make(fake_disk_make(), config);
    host->effects_max = effects;
    host_start(host);
    for (uint32_t round = 0; round < 4 && host->is_replayed && !host->is_cut_off; round++) {
        uint8_t bytes[8];
        for (uint32_t i = 0; i < 6; i++) {
            (void)host_append(host, 15000);
            host_run(host);
        }
        if (host->is_cut_off) { break; }
        base_put_u64(bytes, host->acked);
        assert_true(journal_checkpoint_begin(host->journal, &host->out));
        for (uint32_t i = 0; i < 8; i++) {
            (void)host_append(host, 15000);
            host_run(host);
        }
        if (host->is_cut_off) { break; }
        assert_int_equal(journal_checkpoint_add(host->journal, base_slice_of(bytes, 8), 1, &host->out), BASE_OK);
        host_turn(host);
        host_run(host);
        if (host->is_cut_off) { break; }
        journal_checkpoint_end(host->journal, false, &host->out);
        host_turn(host);
        host_run(host);
    }
    return host;
}

static void a_crash_at_any_effect_of_a_busy_checkpoint_loses_nothing(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    config.step_max = 1000;
    config.bytes_max = 8 * config.file_bytes;
    for (uint64_t effects = 1;; effects++) {
        struct host *host = busy_story(&config, effects);
        assert_int_equal(host->not_durable, 0);
        bool is_over = !host->is_cut_off;
        enum fake_keep keep = effects % 2 == 0 ? FAKE_KEEP_NOTHING : FAKE_KEEP_ALL;
        struct fake_disk *after = fake_disk_crash(host->disk, keep, 0, 0, effects % 4 < 2);
        (void)expect_recovers(after, &config, host->acked, host->appended);
        fake_disk_free(after);
        host_end(host);
        if (is_over) { break; }
    }
}

static void many_lives_in_a_row_lose_nothing(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    uint64_t random = 7;
    for (uint32_t run = 0; run < 30; run++) {
        struct fake_disk *disk = fake_disk_make();
        uint64_t appended = 0, acked = 0;
        for (uint32_t life = 0; life < 25; life++) {
            struct host *host = host_make(disk, &config);
            host->checks_durable = false;
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            host->effects_max = 12 + (random >> 33) % 120;
            journal_start(host->journal, &host->out);
            host_run(host);
            host->out.wants_turn = true;
            host_run(host);
            if (host->is_replayed && !host->is_cut_off) {
                assert_int_equal(host->replay_rc, PORT_OK);
                assert_int_equal(host->damage_count, 0);
                uint64_t came = host->state;
                if (host->replayed_count > 0 && host->replayed[host->replayed_count - 1] > came) {
                    came = host->replayed[host->replayed_count - 1];
                }
                assert_true(came >= acked);
                assert_true(came <= appended);
                host->appended = host->acked = came; /* what came back counts from now on */
                host->answers_checkpoints = true;
                journal_recovered(host->journal, &host->out);
                for (uint32_t i = 0; i < 60 && !host->is_cut_off; i++) {
                    random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                    (void)host_append(host, 8 + (random >> 40) % 12000);
                    if (random >> 63 != 0) { host_turn(host); }
                    if ((random >> 62 & 1) != 0) { (void)host_do(host); }
                    if ((random >> 59 & 7) == 0) { host_run(host); }
                }
                appended = host->appended;
                acked = host->acked;
            }
            uint32_t pending = fake_disk_pending(host->disk);
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            disk = fake_disk_crash(host->disk, (enum fake_keep)((random >> 35) % 5),
                                   pending == 0 ? 0 : (uint32_t)(random >> 40) % pending, (random >> 50) % 9000,
                                   random >> 63 != 0);
            host_end(host);
        }
        fake_disk_free(disk);
    }
}

static void a_disk_that_fails_while_an_entry_is_taken_ends_the_start_with_an_error(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_make(given_groups(&config, 3, 1, 100), &config);
    host->checks_durable = false;
    host->fails_disk_at = 2;
    host_start(host);
    assert_true(host->is_replayed);
    assert_int_equal(host->replay_rc, PORT_IO);
    assert_int_equal(host->replayed_count, 2);
    host_stop(host);
    assert_true(host->is_stopped);
    host_end(host);
}

/* fsyncgate: after a failed sync the pages are clean and readable, and the disk has the old bytes. */
static void what_only_the_page_cache_held_is_made_durable_before_it_counts(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    struct host *host = host_make(fake_disk_make(), &config);
    host_start(host);
    assert_true(host_append(host, 100));
    host_run(host);
    host->disk->fail_kind = PORT_SYNC;
    host->disk->kind_seen = 0;
    host->disk->fail_at = 1;
    host->disk->fail_rc = PORT_IO;
    assert_true(host_append(host, 100));
    host_run(host);
    assert_int_equal(host->failed, 1);
    host_stop(host);
    struct fake_disk *disk = host_free(host); /* the process ends; the cache lives on */
    disk->fail_at = 0;
    host = host_recovered(disk, &config);
    assert_int_equal(host->replayed_count, 2);
    assert_int_equal(expect_recovers(host->disk, &config, 2, 2), 2);
    struct fake_disk *after = fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false);
    assert_int_equal(expect_recovers(after, &config, 2, 2), 2);
    fake_disk_free(after);
    host_end(host);
}

/* The process dies at its n-th effect, the next one at its m-th, and with that the power goes. */
static void a_format_that_two_lives_share_outlives_the_power(void **state)
{
    (void)state;
    struct journal_config config = host_config();
    for (uint64_t n = 1; n <= 24; n++) {
        for (uint64_t m = 1; m <= 40; m++) {
            struct host *host = host_make(fake_disk_make(), &config);
            host->effects_max = n;
            host_start(host);
            struct fake_disk *disk = host_free(host);
            disk->queue_count = 0; /* nobody carries out what the dead one asked */
            memset(disk->open, 0, sizeof disk->open);
            host = host_make(disk, &config);
            host->effects_max = disk->done_count + m;
            host_start(host);
            struct fake_disk *after = fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false);
            fake_disk_free(host_free(host));
            host = host_make(after, &config);
            host_start(host);
            if (host->replay_rc != PORT_OK || host->damage_count > 0) {
                fail_msg("cut at %d and %d: %s, %u damages", (int)n, (int)m, port_rc_name(host->replay_rc),
                         host->damage_count);
            }
            fake_disk_free(host_free(host));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_format_that_two_lives_share_outlives_the_power),
        cmocka_unit_test(an_empty_disk_is_formatted_once_and_an_untouched_one_comes_back_empty),
        cmocka_unit_test(a_crash_at_any_point_of_a_format_leaves_a_disk_that_can_be_started),
        cmocka_unit_test(a_journal_torn_at_any_byte_of_its_last_group_gives_the_acknowledged_entries),
        cmocka_unit_test(a_bit_flipped_below_the_line_is_reported_or_repaired_and_nothing_else_is_lost),
        cmocka_unit_test(a_group_wiped_below_the_line_is_damage_and_the_later_ones_come_back),
        cmocka_unit_test(an_older_group_that_a_later_life_wrote_into_is_not_gone_on_at),
        cmocka_unit_test(the_end_of_an_older_group_does_not_lead_over_what_a_later_life_wrote),
        cmocka_unit_test(the_last_group_is_damage_too_once_the_line_alone_was_written_behind_it),
        cmocka_unit_test(a_bit_flipped_above_the_line_is_cut_or_repaired_and_never_replayed_wrong),
        cmocka_unit_test(what_a_cut_left_behind_never_comes_back),
        cmocka_unit_test(a_missing_file_of_the_chain_is_damage_and_an_unknown_one_is_left_alone),
        cmocka_unit_test(what_is_acknowledged_after_a_torn_group_and_a_missing_file_comes_back),
        cmocka_unit_test(a_page_that_went_back_to_what_an_older_life_wrote_is_damage_and_hides_nothing),
        cmocka_unit_test(unreadable_is_not_taken_for_torn),
        cmocka_unit_test(a_crash_at_any_effect_loses_no_acknowledged_entry),
        cmocka_unit_test(a_crash_at_any_effect_of_a_busy_checkpoint_loses_nothing),
        cmocka_unit_test(many_lives_in_a_row_lose_nothing),
        cmocka_unit_test(a_disk_that_fails_while_an_entry_is_taken_ends_the_start_with_an_error),
        cmocka_unit_test(what_only_the_page_cache_held_is_made_durable_before_it_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
