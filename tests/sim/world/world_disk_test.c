/* world_disk_test.c: what a crash leaves, and what failed disks do.
 *
 * Room    tests/sim/world.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "puppet.h"

#include <stdlib.h>
#include <string.h>

#define CREATE (PORT_OPEN_WRITE | PORT_OPEN_CREATE)
#define SEEDS  300

static struct world_knobs given_knobs(enum world_keep keep)
{
    struct world_knobs knobs;
    world_knobs_default(&knobs);
    knobs.keep = keep;
    knobs.restart_delay_max_ns = 0;
    return knobs;
}

/* A file whose name and first bytes are durable. */
static void given_durable(struct puppet *puppet, const char *path, const char *words)
{
    expect_rc(do_it(puppet, an_open(0, 1, path, CREATE)), PORT_OK);
    expect_rc(do_it(puppet, a_write(0, 1, 0, words, strlen(words))), PORT_OK);
    expect_rc(do_it(puppet, of_file(PORT_SYNC, 0, 1)), PORT_OK);
    expect_rc(do_it(puppet, by_name(PORT_SYNC_DIR, "")), PORT_OK);
}

static void what_was_synced_survives_every_power_cut(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_ANY);
        struct puppet *p = given_puppet(seed, &knobs);
        given_durable(p, "a", "synced");
        expect_rc(do_it(p, a_write(0, 1, 6, " more", 5)), PORT_OK);
        crash_and_restart(p, WORLD_POWER);
        struct base_slice seen;
        assert_true(world_file_view(p->world, p->node, 0, "a", &seen));
        assert_true(seen.size_bytes >= 6);
        assert_memory_equal(seen.at, "synced", 6);
        drop_puppet(p);
    }
}

static void a_process_crash_keeps_the_page_cache(void **state)
{
    (void)state;
    struct world_knobs knobs = given_knobs(WORLD_KEEP_NOTHING);
    struct puppet *p = given_puppet(1, &knobs);
    expect_rc(do_it(p, an_open(0, 1, "a", CREATE)), PORT_OK);
    expect_rc(do_it(p, a_write(0, 1, 0, "unsynced", 8)), PORT_OK);
    crash_and_restart(p, WORLD_PROCESS);
    expect_holds(p, "a", "unsynced");
    assert_int_equal(p->boots, 2);
    crash_and_restart(p, WORLD_POWER);
    struct base_slice seen;
    assert_false(world_file_view(p->world, p->node, 0, "a", &seen));
    drop_puppet(p);
}

static void an_unsynced_write_is_lost_when_nothing_is_kept(void **state)
{
    (void)state;
    struct world_knobs knobs = given_knobs(WORLD_KEEP_NOTHING);
    struct puppet *p = given_puppet(1, &knobs);
    given_durable(p, "a", "old");
    expect_rc(do_it(p, a_write(0, 1, 0, "new", 3)), PORT_OK);
    expect_holds(p, "a", "new");
    crash_and_restart(p, WORLD_POWER);
    expect_holds(p, "a", "old");
    assert_int_equal(world_hits(p->world, WORLD_LOST_WRITE), 1);
    drop_puppet(p);
}

static void every_fate_of_a_write_is_seen_over_many_seeds(void **state)
{
    (void)state;
    bool saw_old = false;
    bool saw_first = false;
    bool saw_second = false;
    bool saw_both = false;
    bool saw_torn = false;
    uint64_t hits[WORLD_FAULT_COUNT] = {0};
    char first[1000];
    char second[1000];
    memset(first, 'A', sizeof first);
    memset(second, 'B', sizeof second);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_EACH);
        struct puppet *p = given_puppet(seed, &knobs);
        given_durable(p, "a", "old");
        expect_rc(do_it(p, a_write(0, 1, 3, first, sizeof first)), PORT_OK);
        expect_rc(do_it(p, a_write(0, 1, 1003, second, sizeof second)), PORT_OK);
        crash_and_restart(p, WORLD_POWER);
        struct base_slice seen;
        assert_true(world_file_view(p->world, p->node, 0, "a", &seen));
        assert_memory_equal(seen.at, "old", 3);
        bool has_first = seen.size_bytes >= 1003 && memcmp(seen.at + 3, first, sizeof first) == 0;
        bool has_second = seen.size_bytes == 2003 && memcmp(seen.at + 1003, second, sizeof second) == 0;
        saw_old = saw_old || seen.size_bytes == 3;
        saw_both = saw_both || (has_first && has_second);
        saw_first = saw_first || (has_first && !has_second);
        saw_second = saw_second || (!has_first && has_second);
        saw_torn = saw_torn || (seen.size_bytes > 3 && seen.size_bytes < 1003 && seen.at[3] == 'A');
        for (uint32_t i = 0; i < WORLD_FAULT_COUNT; i++) { hits[i] += world_hits(p->world, (enum world_fault)i); }
        drop_puppet(p);
    }
    assert_true(saw_old && saw_first && saw_second && saw_both && saw_torn);
    assert_true(hits[WORLD_LOST_WRITE] > 0);
    assert_true(hits[WORLD_KEPT_WRITE] > 0);
    assert_true(hits[WORLD_TORN_WRITE] > 0);
    assert_true(hits[WORLD_REORDERED_WRITE] > 0);
    assert_true(hits[WORLD_SIZE_ONLY_WRITE] > 0);
}

static void a_prefix_is_kept_in_order(void **state)
{
    (void)state;
    uint32_t lengths[5] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_PREFIX);
        struct puppet *p = given_puppet(seed, &knobs);
        given_durable(p, "a", "0");
        for (uint64_t i = 1; i <= 3; i++) { expect_rc(do_it(p, a_write(0, 1, i, &"0123"[i], 1)), PORT_OK); }
        crash_and_restart(p, WORLD_POWER);
        struct base_slice seen;
        assert_true(world_file_view(p->world, p->node, 0, "a", &seen));
        assert_true(seen.size_bytes >= 1 && seen.size_bytes <= 4);
        for (uint64_t i = 0; i + 1 < seen.size_bytes; i++) { assert_int_equal(seen.at[i], "0123"[i]); }
        lengths[seen.size_bytes] += 1;
        drop_puppet(p);
    }
    for (uint32_t i = 1; i <= 4; i++) { assert_true(lengths[i] > 0); }
}

/* A file is cut and written to where the cut was, and nothing is synced: the truncate is lost, the write is not, and what was cut off
 * is behind it again. */
static void bytes_outlive_a_truncate_that_is_lost(void **state)
{
    (void)state;
    struct world_knobs knobs = given_knobs(WORLD_KEEP_BYTES);
    struct puppet *p = given_puppet(1, &knobs);
    given_durable(p, "a", "aabbcc");
    struct port_effect cut = of_file(PORT_TRUNCATE, 0, 1);
    cut.position_bytes = 2;
    struct port_file file = {.slot = 0, .generation = 1};
    assert_int_equal(world_size_of(p->world, p->node, file), 6);
    expect_rc(do_it(p, cut), PORT_OK);
    assert_int_equal(world_size_of(p->world, p->node, file), 2);
    file.generation = 2;
    assert_int_equal(world_size_of(p->world, p->node, file), 0);
    expect_rc(do_it(p, a_write(0, 1, 2, "BB", 2)), PORT_OK);
    expect_rc(do_it(p, a_write(0, 1, 5, "CCC", 3)), PORT_OK); /* its last two have no place */
    expect_rc(do_it(p, an_open(1, 1, "b", CREATE)), PORT_OK);
    crash_and_restart(p, WORLD_POWER);
    expect_holds(p, "a", "aaBBcC");
    struct base_slice seen;
    assert_false(world_file_view(p->world, p->node, 0, "b", &seen)); /* no name either */
    assert_int_equal(world_hits(p->world, WORLD_LOST_TRUNCATE), 1);
    assert_int_equal(world_hits(p->world, WORLD_OUTLIVED_CUT), 1); /* the second is torn */
    assert_int_equal(world_hits(p->world, WORLD_TORN_WRITE), 1);
    assert_int_equal(world_hits(p->world, WORLD_APART_BYTES), 1);
    drop_puppet(p);
}

static void sizes_and_names_outlive_bytes_that_are_lost(void **state)
{
    (void)state;
    struct world_knobs knobs = given_knobs(WORLD_KEEP_NAMES);
    struct puppet *p = given_puppet(1, &knobs);
    given_durable(p, "a", "aabbcc");
    struct port_effect cut = of_file(PORT_TRUNCATE, 0, 1);
    cut.position_bytes = 2;
    expect_rc(do_it(p, cut), PORT_OK);
    expect_rc(do_it(p, a_write(0, 1, 1, "BBB", 3)), PORT_OK);
    expect_rc(do_it(p, an_open(1, 1, "b", CREATE)), PORT_OK);
    crash_and_restart(p, WORLD_POWER);
    assert_true(holds(p, "a", "aa\0", 4)); /* two bytes of zeros */
    expect_holds(p, "b", "");
    assert_int_equal(world_hits(p->world, WORLD_KEPT_TRUNCATE), 1);
    assert_int_equal(world_hits(p->world, WORLD_APART_NAMES), 1);
    drop_puppet(p);
}

/* What a sync covered stays where it is, with its size: also when the bytes of later writes are kept and their sizes are not. */
static void what_was_synced_survives_cuts_that_take_bytes_and_sizes_apart(void **state)
{
    (void)state;
    uint64_t bytes_count = 0; /* cuts that kept bytes; the others kept sizes and names */
    for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_ANY);
        knobs.apart_ppm = 1000000;
        struct puppet *p = given_puppet(seed, &knobs);
        given_durable(p, "a", "synced, and more");
        struct port_effect cut = of_file(PORT_TRUNCATE, 0, 1);
        cut.position_bytes = 6;
        expect_rc(do_it(p, cut), PORT_OK);
        expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_OK);
        expect_rc(do_it(p, a_write(0, 1, 6, " new", 4)), PORT_OK);
        crash_and_restart(p, WORLD_POWER);
        bool is_bytes = world_hits(p->world, WORLD_APART_BYTES) == 1;
        assert_int_equal(world_hits(p->world, WORLD_APART_NAMES), is_bytes ? 0 : 1);
        assert_true(holds(p, "a", is_bytes ? "synced" : "synced\0\0\0", is_bytes ? 6 : 10));
        bytes_count += is_bytes ? 1 : 0;
        drop_puppet(p);
    }
    assert_true(bytes_count > 0 && bytes_count < 2 * SEEDS);
}

static void a_planned_power_cut_keeps_what_its_plan_says(void **state)
{
    (void)state;
    for (int is_told = 0; is_told < 2; is_told++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_NOTHING);
        struct puppet *p = given_puppet(1, &knobs);
        given_durable(p, "a", "old");
        expect_rc(do_it(p, a_write(0, 1, 0, "new", 3)), PORT_OK);
        world_crash_before(p->world, p->node, PORT_SYNC, 1, WORLD_POWER);
        if (is_told == 1) { world_crash_keeps(p->world, p->node, WORLD_KEEP_BYTES); }
        (void)ask(p, of_file(PORT_SYNC, 0, 1)); /* never done */
        while (world_node_state(p->world, p->node) == WORLD_UP) { assert_true(world_step(p->world)); }
        world_restart(p->world, p->node);
        expect_holds(p, "a", is_told == 1 ? "new" : "old");
        expect_rc(do_it(p, an_open(0, 1, "a", CREATE)), PORT_OK);
        expect_rc(do_it(p, a_write(0, 1, 0, "two", 3)), PORT_OK);
        crash_and_restart(p, WORLD_POWER); /* this one is of no plan */
        expect_holds(p, "a", is_told == 1 ? "new" : "old");
        drop_puppet(p);
    }
}

/* After the steps that were said, once; a calm lets it go on. */
static void a_shard_stands_still_between_two_of_its_steps(void **state)
{
    (void)state;
    for (int is_calm = 0; is_calm < 2; is_calm++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_NOTHING);
        struct puppet *p = given_puppet(1, &knobs);
        given_durable(p, "a", "");
        world_hold(p->world, p->node, 0, 1, 50 * WORLD_MS);
        uint64_t before_ns = world_now(p->world);
        expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_OK); /* two steps: it asks, it is told */
        assert_true(world_now(p->world) - before_ns < 50 * WORLD_MS);
        assert_int_equal(world_hits(p->world, WORLD_SHARD_HELD), 1);
        before_ns = world_now(p->world);
        if (is_calm == 1) { world_calm(p->world); }
        uint64_t token = ask(p, of_file(PORT_SYNC, 0, 1));
        uint64_t waited_ns = world_now(p->world) - before_ns;
        assert_true(is_calm == 1 ? waited_ns < WORLD_MS : waited_ns >= 49 * WORLD_MS);
        expect_rc(await(p, token), PORT_OK);
        before_ns = world_now(p->world);
        expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_OK);
        assert_true(world_now(p->world) - before_ns < 50 * WORLD_MS);
        assert_int_equal(world_hits(p->world, WORLD_SHARD_HELD), 1);
        drop_puppet(p);
    }
}

/* Two writes to a file, and the name of another one that is empty: each is a choice of its own. */
static void a_single_change_is_kept_or_lost_or_torn_as_chosen(void **state)
{
    (void)state;
    static const struct {
        enum world_keep keep;
        uint32_t at;
        const char *holds;
        bool has_name;
    } cases[] = {
        {WORLD_KEEP_ONE, 0, "0aa", false},   {WORLD_KEEP_ONE, 2, "0", true},  {WORLD_LOSE_ONE, 1, "0aa", true},
        {WORLD_LOSE_ONE, 2, "0aabb", false}, {WORLD_TEAR_ONE, 0, "0a", true}, {WORLD_TEAR_ONE, 1, "0aab", true},
        {WORLD_TEAR_ONE, 2, "0aabb", false},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_ANY);
        struct puppet *p = given_puppet(1, &knobs);
        expect_rc(do_it(p, by_name(PORT_MAKE_DIR, "d")), PORT_OK);
        given_durable(p, "a", "0");
        expect_rc(do_it(p, a_write(0, 1, 1, "aa", 2)), PORT_OK);
        expect_rc(do_it(p, a_write(0, 1, 3, "bb", 2)), PORT_OK);
        expect_rc(do_it(p, an_open(1, 1, "d/b", CREATE)), PORT_OK);
        assert_int_equal(world_unsynced(p->world, p->node), 3);
        /* They are numbered file by file, in the order the files were made: the directory is older than the file in it. */
        uint32_t at = cases[i].at == 2 ? 0 : cases[i].at + 1;
        world_set_keep_at(p->world, cases[i].keep, at);
        crash_and_restart(p, WORLD_POWER);
        expect_holds(p, "a", cases[i].holds);
        struct base_slice seen;
        assert_true(world_file_view(p->world, p->node, 0, "d/b", &seen) == cases[i].has_name);
        assert_int_equal(world_unsynced(p->world, p->node), 0);
        drop_puppet(p);
    }
}

static void an_unsynced_name_may_be_lost_though_its_bytes_were_synced(void **state)
{
    (void)state;
    uint32_t lost = 0;
    uint32_t kept = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_EACH);
        struct puppet *p = given_puppet(seed, &knobs);
        expect_rc(do_it(p, an_open(0, 1, "a", CREATE)), PORT_OK);
        expect_rc(do_it(p, a_write(0, 1, 0, "words", 5)), PORT_OK);
        expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_OK);
        crash_and_restart(p, WORLD_POWER);
        struct base_slice seen;
        if (world_file_view(p->world, p->node, 0, "a", &seen)) {
            kept += 1;
            expect_holds(p, "a", "words");
        } else {
            lost += 1;
        }
        assert_int_equal(world_hits(p->world, WORLD_LOST_NAME) + world_hits(p->world, WORLD_KEPT_NAME), 1);
        drop_puppet(p);
    }
    assert_true(lost > 0 && kept > 0);
}

/* Whole old or whole new, one name or the other, never none and never both: until SYNC_DIR it may be either. */
static void a_rename_is_all_or_nothing(void **state)
{
    (void)state;
    uint32_t before = 0;
    uint32_t after = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_EACH);
        struct puppet *p = given_puppet(seed, &knobs);
        world_file_put(p->world, p->node, 0, "a", base_slice_text("old"));
        given_durable(p, "a.tmp", "new");
        expect_rc(do_it(p, a_rename("a.tmp", "a")), PORT_OK);
        crash_and_restart(p, WORLD_POWER);
        struct base_slice seen;
        if (world_file_view(p->world, p->node, 0, "a.tmp", &seen)) {
            before += 1;
            expect_holds(p, "a", "old");
            expect_holds(p, "a.tmp", "new");
        } else {
            after += 1;
            expect_holds(p, "a", "new");
        }
        drop_puppet(p);
    }
    assert_true(before > 0 && after > 0);
}

static void sync_dir_makes_names_durable(void **state)
{
    (void)state;
    struct world_knobs knobs = given_knobs(WORLD_KEEP_NOTHING);
    struct puppet *p = given_puppet(1, &knobs);
    expect_rc(do_it(p, by_name(PORT_MAKE_DIR, "d")), PORT_OK);
    expect_rc(do_it(p, by_name(PORT_SYNC_DIR, "")), PORT_OK);
    expect_rc(do_it(p, an_open(0, 1, "d/a", CREATE)), PORT_OK);
    expect_rc(do_it(p, an_open(1, 1, "d/b", CREATE)), PORT_OK);
    expect_rc(do_it(p, by_name(PORT_SYNC_DIR, "d")), PORT_OK);
    expect_rc(do_it(p, by_name(PORT_UNLINK, "d/b")), PORT_OK);
    expect_rc(do_it(p, an_open(2, 1, "d/c", CREATE)), PORT_OK);
    crash_and_restart(p, WORLD_POWER);
    expect_holds(p, "d/a", "");
    expect_holds(p, "d/b", ""); /* the unlink was not synced */
    struct base_slice seen;
    assert_false(world_file_view(p->world, p->node, 0, "d/c", &seen));
    drop_puppet(p);
}

static void a_sync_covers_what_had_completed_when_it_was_asked(void **state)
{
    (void)state;
    uint32_t exact = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_NOTHING);
        struct puppet *p = given_puppet(seed, &knobs);
        given_durable(p, "a", "");
        expect_rc(do_it(p, a_write(0, 1, 0, "before", 6)), PORT_OK);
        struct port_effect both[] = {of_file(PORT_SYNC, 0, 1), a_write(0, 1, 6, " after", 6)};
        uint64_t token = ask_all(p, both, 2);
        expect_rc(await(p, token), PORT_OK);
        expect_rc(await(p, token + 1), PORT_OK);
        crash_and_restart(p, WORLD_POWER);
        struct base_slice seen;
        assert_true(world_file_view(p->world, p->node, 0, "a", &seen));
        assert_true(seen.size_bytes >= 6 && memcmp(seen.at, "before", 6) == 0);
        exact += seen.size_bytes == 6 ? 1 : 0;
        drop_puppet(p);
    }
    assert_true(exact > 0);
}

static void after_a_failed_sync_old_bytes_come_back_at_the_power_cut(void **state)
{
    (void)state;
    uint32_t old = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_ALL);
        struct puppet *p = given_puppet(seed, &knobs);
        given_durable(p, "a", "old");
        expect_rc(do_it(p, a_write(0, 1, 0, "new", 3)), PORT_OK);
        world_set_rate(p->world, WORLD_DISK_EIO_SYNC, 1000000);
        expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_IO);
        world_set_rate(p->world, WORLD_DISK_EIO_SYNC, 0);
        expect_holds(p, "a", "new");                            /* readable and clean */
        expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_OK); /* nothing left to do, it says */
        crash_and_restart(p, WORLD_POWER);
        if (holds(p, "a", "old", 3)) {
            old += 1;
            assert_int_equal(world_hits(p->world, WORLD_OLD_BYTES), 1);
        } else {
            expect_holds(p, "a", "new");
        }
        drop_puppet(p);
    }
    assert_true(old > 0 && old < 50);
}

/* A process that starts again must not be fooled by clean pages, if the host reads past them. */
static void after_a_failed_sync_old_bytes_come_back_at_a_boot_too(void **state)
{
    (void)state;
    for (int evicts = 0; evicts < 2; evicts++) {
        uint32_t old = 0;
        for (uint64_t seed = 1; seed <= 50; seed++) {
            struct world_knobs knobs = given_knobs(WORLD_KEEP_ALL);
            knobs.evicts_at_boot = evicts == 1;
            struct puppet *p = given_puppet(seed, &knobs);
            given_durable(p, "a", "old");
            expect_rc(do_it(p, a_write(0, 1, 0, "new", 3)), PORT_OK);
            world_set_rate(p->world, WORLD_DISK_EIO_SYNC, 1000000);
            expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_IO);
            expect_rc(do_it(p, a_write(0, 1, 3, "+", 1)), PORT_OK);
            crash_and_restart(p, WORLD_PROCESS);
            if (holds(p, "a", "old+", 4)) {
                old += 1;
            } else {
                expect_holds(p, "a", "new+");
            }
            drop_puppet(p);
        }
        assert_true(evicts == 1 ? old > 0 && old < 50 : old == 0);
    }
}

/* After a failed SYNC_DIR a later one that succeeds proves nothing of the names before it. */
static void after_a_failed_sync_of_a_directory_names_may_be_gone(void **state)
{
    (void)state;
    uint32_t gone[2] = {0, 0};
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_ALL);
        struct puppet *p = given_puppet(seed, &knobs);
        expect_rc(do_it(p, an_open(0, 1, "a", CREATE)), PORT_OK);
        world_set_rate(p->world, WORLD_DISK_EIO_NAME, 1000000);
        expect_rc(do_it(p, by_name(PORT_SYNC_DIR, "")), PORT_IO);
        world_set_rate(p->world, WORLD_DISK_EIO_NAME, 0);
        expect_rc(do_it(p, by_name(PORT_SYNC_DIR, "")), PORT_OK);
        expect_holds(p, "a", "");
        enum world_crash kind = seed % 2 == 0 ? WORLD_POWER : WORLD_PROCESS;
        crash_and_restart(p, kind);
        struct base_slice seen;
        gone[kind] += world_file_view(p->world, p->node, 0, "a", &seen) ? 0 : 1;
        drop_puppet(p);
    }
    assert_true(gone[WORLD_POWER] > 0 && gone[WORLD_POWER] < 50);
    assert_true(gone[WORLD_PROCESS] > 0 && gone[WORLD_PROCESS] < 50);
}

static void a_failed_write_back_is_told_by_the_next_sync_once(void **state)
{
    (void)state;
    struct puppet *p = given_puppet(3, NULL);
    given_durable(p, "a", "old");
    world_set_rate(p->world, WORLD_DISK_EIO_BACK, 1000000);
    expect_rc(do_it(p, a_write(0, 1, 0, "new", 3)), PORT_OK);
    world_set_rate(p->world, WORLD_DISK_EIO_BACK, 0);
    assert_true(world_hides_error(p->world, p->node));
    expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_IO);
    assert_false(world_hides_error(p->world, p->node));
    expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_OK);
    drop_puppet(p);
}

static void a_disk_that_fills_for_a_while_takes_what_it_has_room_for_already(void **state)
{
    (void)state;
    struct puppet *p = given_puppet(1, NULL);
    given_durable(p, "a", "123456");
    world_set_rate(p->world, WORLD_DISK_FULL, 1000000);
    while (world_hits(p->world, WORLD_DISK_FULL) == 0) { expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_OK); }
    world_set_rate(p->world, WORLD_DISK_FULL, 0);
    expect_rc(do_it(p, an_open(1, 1, "b", CREATE)), PORT_NO_SPACE);
    expect_rc(do_it(p, by_name(PORT_MAKE_DIR, "d")), PORT_NO_SPACE);
    expect_rc(do_it(p, a_write(0, 1, 6, "7", 1)), PORT_NO_SPACE);
    expect_rc(do_it(p, a_write(0, 1, 0, "x", 1)), PORT_OK);
    (void)world_run(p->world, world_now(p->world) + 10 * WORLD_S); /* it has healed */
    expect_rc(do_it(p, a_write(0, 1, 6, "7", 1)), PORT_OK);
    drop_puppet(p);
}

static void a_full_disk_refuses_and_heals(void **state)
{
    (void)state;
    struct world_knobs knobs = given_knobs(WORLD_KEEP_ANY);
    knobs.disk_capacity_bytes = 10;
    struct puppet *p = given_puppet(1, &knobs);
    given_durable(p, "a", "123456");
    expect_rc(do_it(p, an_open(1, 1, "b", CREATE)), PORT_OK);
    struct port_event part = do_it(p, a_write(1, 1, 0, "123456", 6));
    expect_rc(part, PORT_OK); /* a short write: what fits */
    assert_int_equal(part.done.count, 4);
    expect_rc(do_it(p, a_write(1, 1, 4, "5", 1)), PORT_NO_SPACE);
    struct port_effect reserve = of_file(PORT_ALLOCATE, 1, 1);
    reserve.size_bytes = 100;
    expect_rc(do_it(p, reserve), PORT_NO_SPACE);
    expect_rc(do_it(p, of_file(PORT_CLOSE_FILE, 0, 1)), PORT_OK);
    expect_rc(do_it(p, by_name(PORT_UNLINK, "a")), PORT_OK);
    expect_rc(do_it(p, by_name(PORT_SYNC_DIR, "")), PORT_OK);
    expect_rc(do_it(p, a_write(1, 1, 4, "5", 1)), PORT_OK);
    drop_puppet(p);
}

static void lying_disks_lose_what_was_synced(void **state)
{
    (void)state;
    static const enum world_fault lies[] = {WORLD_DISK_LOST_WRITE, WORLD_DISK_SYNC_LIES};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(lies); i++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_NOTHING);
        struct puppet *p = given_puppet(1, &knobs);
        given_durable(p, "a", "old");
        world_set_rate(p->world, lies[i], 1000000);
        expect_rc(do_it(p, a_write(0, 1, 0, "new", 3)), PORT_OK);
        expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_OK);
        crash_and_restart(p, WORLD_POWER);
        expect_holds(p, "a", "old");
        drop_puppet(p);
    }
}

static void a_lost_rename_is_gone_though_synced(void **state)
{
    (void)state;
    struct world_knobs knobs = given_knobs(WORLD_KEEP_ALL);
    struct puppet *p = given_puppet(1, &knobs);
    given_durable(p, "a", "words");
    world_set_rate(p->world, WORLD_DISK_LOST_NAME, 1000000);
    expect_rc(do_it(p, a_rename("a", "b")), PORT_OK);
    expect_rc(do_it(p, by_name(PORT_SYNC_DIR, "")), PORT_OK);
    expect_holds(p, "b", "words");
    crash_and_restart(p, WORLD_POWER);
    expect_holds(p, "a", "words");
    drop_puppet(p);
}

static void rot_flips_one_bit(void **state)
{
    (void)state;
    struct puppet *p = given_puppet(5, NULL);
    given_durable(p, "a", "zzzzzzzz");
    assert_true(world_rot_at(p->world, p->node, 0, "a", 3));
    assert_false(world_rot_at(p->world, p->node, 0, "a", 8));
    struct base_slice seen;
    assert_true(world_file_view(p->world, p->node, 0, "a", &seen));
    uint8_t changed = (uint8_t)(seen.at[3] ^ 'z');
    assert_true(changed != 0 && (changed & (changed - 1)) == 0);
    assert_true(world_rot(p->world, p->node, 0));
    crash_and_restart(p, WORLD_POWER);
    assert_true(world_file_view(p->world, p->node, 0, "a", &seen));
    assert_int_equal(seen.size_bytes, 8);
    assert_false(holds(p, "a", "zzzzzzzz", 8));
    drop_puppet(p);
}

static void a_wiped_disk_is_empty(void **state)
{
    (void)state;
    struct puppet *p = given_puppet(5, NULL);
    given_durable(p, "a", "words");
    world_crash(p->world, p->node, WORLD_POWER);
    world_wipe(p->world, p->node, 0);
    world_restart(p->world, p->node);
    expect_rc(do_it(p, an_open(0, 1, "a", PORT_OPEN_READ)), PORT_MISSING);
    drop_puppet(p);
}

/* Each of n effects of one step: a crash there leaves exactly those before it. */
static void a_crash_at_the_nth_effect_leaves_those_before_it(void **state)
{
    (void)state;
    enum { DIRS = 6 };
    static const char *const names[DIRS] = {"0", "1", "2", "3", "4", "5"};
    for (uint64_t n = 1; n <= DIRS; n++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_ANY);
        knobs.crash_at_effect = n;
        struct puppet *p = given_puppet(n, &knobs);
        struct port_effect effects[DIRS];
        for (uint32_t i = 0; i < DIRS; i++) { effects[i] = by_name(PORT_MAKE_DIR, names[i]); }
        (void)ask_all(p, effects, DIRS);
        assert_int_equal(world_node_state(p->world, p->node), WORLD_DOWN);
        assert_int_equal(world_effects(p->world), n);
        assert_int_equal(world_hits(p->world, WORLD_CRASH_MID_STEP), n > 1 ? 1 : 0);
        world_restart(p->world, p->node);
        expect_rc(do_it(p, by_name(PORT_MAKE_DIR, "after")), PORT_OK);
        drop_puppet(p);
    }
}

/* The completion died with the process that asked; what it asked for did not. */
static void a_sync_covers_what_a_dead_process_had_done(void **state)
{
    (void)state;
    struct world_knobs knobs = given_knobs(WORLD_KEEP_NOTHING);
    struct puppet *p = given_puppet(1, &knobs);
    struct port_effect create = an_open(0, 1, "a", PORT_OPEN_WRITE | PORT_OPEN_CREATE);
    (void)ask_all(p, &create, 1);
    world_pause(p->world, p->node, 50 * WORLD_MS); /* so that it is not told */
    assert_true(world_run(p->world, world_now(p->world) + 20 * WORLD_MS));
    struct base_slice seen;
    assert_true(world_file_view(p->world, p->node, 0, "a", &seen));
    assert_false(has_come(p, create.token));
    crash_and_restart(p, WORLD_PROCESS);
    expect_rc(do_it(p, by_name(PORT_SYNC_DIR, "")), PORT_OK);
    crash_and_restart(p, WORLD_POWER);
    assert_true(world_file_view(p->world, p->node, 0, "a", &seen));
    drop_puppet(p);
}

static void a_planned_crash_comes_before_the_nth_effect_of_its_kind(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 3; n++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_ALL);
        struct puppet *p = given_puppet(n, &knobs);
        world_crash_before(p->world, p->node, PORT_SYNC_DIR, n, WORLD_POWER);
        for (uint32_t i = 1; i < n; i++) { expect_rc(do_it(p, by_name(PORT_SYNC_DIR, "")), PORT_OK); }
        expect_rc(do_it(p, by_name(PORT_MAKE_DIR, "d")), PORT_OK);
        assert_true(world_is_crash_planned(p->world, p->node));
        struct port_effect last = by_name(PORT_SYNC_DIR, "");
        (void)ask_all(p, &last, 1);
        assert_int_equal(world_node_state(p->world, p->node), WORLD_DOWN);
        assert_int_equal(world_crashes_before(p->world, PORT_SYNC_DIR), 1);
        assert_int_equal(world_asked_of(p->world, PORT_SYNC_DIR), n);
        assert_int_equal(world_hits(p->world, WORLD_CRASH_PLANNED), 1);
        enum world_fault last_fault;
        uint64_t event;
        assert_true(world_last_fault(p->world, &last_fault, &event));
        assert_int_equal(last_fault, WORLD_CRASH_PLANNED);
        assert_int_equal(event, world_events(p->world));
        world_restart(p->world, p->node);
        assert_false(world_is_crash_planned(p->world, p->node));
        expect_rc(do_it(p, by_name(PORT_SYNC_DIR, "")), PORT_OK);
        drop_puppet(p);
    }
}

struct chooser {
    uint64_t seen, crash_at;
};

static bool choose(void *context, uint32_t node)
{
    (void)node;
    struct chooser *chooser = context;
    chooser->seen += 1;
    return chooser->seen == chooser->crash_at;
}

static void an_observer_may_cut_the_power_before_any_effect(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 3; n++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_ANY);
        struct puppet *p = given_puppet(n, &knobs);
        struct chooser chooser = {.crash_at = n};
        world_observe(p->world, &(struct world_observer){.context = &chooser, .may_crash = choose});
        struct port_effect effects[3];
        for (uint32_t i = 0; i < 3; i++) { effects[i] = by_name(PORT_MAKE_DIR, &"x\0y\0z"[2 * (size_t)i]); }
        (void)ask_all(p, effects, 3);
        assert_int_equal(world_node_state(p->world, p->node), WORLD_DOWN);
        assert_int_equal(chooser.seen, n);
        assert_int_equal(world_effects(p->world), n);
        drop_puppet(p);
    }
}

static void a_fault_of_a_kind_strikes_no_other_kind(void **state)
{
    (void)state;
    struct world_knobs knobs = given_knobs(WORLD_KEEP_ALL);
    knobs.crash_kinds = UINT64_C(1) << PORT_LIST;
    knobs.rate_ppm[WORLD_CRASH_KIND] = 1000000;
    struct puppet *p = given_puppet(1, &knobs);
    expect_rc(do_it(p, by_name(PORT_MAKE_DIR, "d")), PORT_OK);
    expect_rc(do_it(p, by_name(PORT_SYNC_DIR, "")), PORT_OK);
    struct port_effect list = by_name(PORT_LIST, "");
    (void)ask_all(p, &list, 1);
    assert_int_equal(world_node_state(p->world, p->node), WORLD_DOWN);
    assert_int_equal(world_crashes_before(p->world, PORT_LIST), 1);
    drop_puppet(p);
}

static void what_was_there_before_the_run_is_durable(void **state)
{
    (void)state;
    struct world_knobs knobs = given_knobs(WORLD_KEEP_NOTHING);
    struct puppet *p = given_puppet(1, &knobs);
    world_file_put(p->world, p->node, 0, "d/e/f", base_slice_text("put"));
    crash_and_restart(p, WORLD_POWER);
    expect_holds(p, "d/e/f", "put");
    struct base_slice seen;
    assert_true(world_file_durable(p->world, p->node, 0, "d/e/f", &seen));
    assert_int_equal(seen.size_bytes, 3);
    drop_puppet(p);
}

static void a_misdirected_write_lands_elsewhere(void **state)
{
    (void)state;
    uint32_t elsewhere = 0;
    char words[2048];
    memset(words, 'w', sizeof words);
    for (uint64_t seed = 1; seed < 20; seed++) {
        struct world_knobs knobs = given_knobs(WORLD_KEEP_NOTHING);
        struct puppet *p = given_puppet(seed, &knobs);
        expect_rc(do_it(p, an_open(0, 1, "a", CREATE)), PORT_OK);
        expect_rc(do_it(p, a_write(0, 1, 0, words, sizeof words)), PORT_OK);
        expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_OK);
        expect_rc(do_it(p, by_name(PORT_SYNC_DIR, "")), PORT_OK);
        world_set_rate(p->world, WORLD_DISK_MISDIRECTED, 1000000);
        expect_rc(do_it(p, a_write(0, 1, 0, "HERE", 4)), PORT_OK);
        expect_rc(do_it(p, of_file(PORT_SYNC, 0, 1)), PORT_OK);
        crash_and_restart(p, WORLD_POWER);
        struct base_slice seen;
        assert_true(world_file_view(p->world, p->node, 0, "a", &seen));
        elsewhere += memcmp(seen.at, "HERE", 4) != 0 ? 1 : 0;
        drop_puppet(p);
    }
    assert_true(elsewhere > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_synced_survives_every_power_cut),
        cmocka_unit_test(a_process_crash_keeps_the_page_cache),
        cmocka_unit_test(an_unsynced_write_is_lost_when_nothing_is_kept),
        cmocka_unit_test(every_fate_of_a_write_is_seen_over_many_seeds),
        cmocka_unit_test(a_prefix_is_kept_in_order),
        cmocka_unit_test(an_unsynced_name_may_be_lost_though_its_bytes_were_synced),
        cmocka_unit_test(a_rename_is_all_or_nothing),
        cmocka_unit_test(sync_dir_makes_names_durable),
        cmocka_unit_test(a_sync_covers_what_had_completed_when_it_was_asked),
        cmocka_unit_test(after_a_failed_sync_old_bytes_come_back_at_the_power_cut),
        cmocka_unit_test(after_a_failed_sync_old_bytes_come_back_at_a_boot_too),
        cmocka_unit_test(after_a_failed_sync_of_a_directory_names_may_be_gone),
        cmocka_unit_test(a_failed_write_back_is_told_by_the_next_sync_once),
        cmocka_unit_test(a_disk_that_fills_for_a_while_takes_what_it_has_room_for_already),
        cmocka_unit_test(a_full_disk_refuses_and_heals),
        cmocka_unit_test(lying_disks_lose_what_was_synced),
        cmocka_unit_test(a_lost_rename_is_gone_though_synced),
        cmocka_unit_test(rot_flips_one_bit),
        cmocka_unit_test(a_wiped_disk_is_empty),
        cmocka_unit_test(a_crash_at_the_nth_effect_leaves_those_before_it),
        cmocka_unit_test(a_sync_covers_what_a_dead_process_had_done),
        cmocka_unit_test(a_planned_crash_comes_before_the_nth_effect_of_its_kind),
        cmocka_unit_test(a_fault_of_a_kind_strikes_no_other_kind),
        cmocka_unit_test(an_observer_may_cut_the_power_before_any_effect),
        cmocka_unit_test(bytes_outlive_a_truncate_that_is_lost),
        cmocka_unit_test(sizes_and_names_outlive_bytes_that_are_lost),
        cmocka_unit_test(what_was_synced_survives_cuts_that_take_bytes_and_sizes_apart),
        cmocka_unit_test(a_planned_power_cut_keeps_what_its_plan_says),
        cmocka_unit_test(a_shard_stands_still_between_two_of_its_steps),
        cmocka_unit_test(a_single_change_is_kept_or_lost_or_torn_as_chosen),
        cmocka_unit_test(what_was_there_before_the_run_is_durable),
        cmocka_unit_test(a_misdirected_write_lands_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
