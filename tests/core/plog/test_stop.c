/* test_stop.c: what a stop or a deletion meets half done ends, with no file left open and no turn asked for in vain.
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

/* Whatever the deletion was at: looking for whose the directory is, renaming it, emptying it. */
static void a_stop_within_a_replayed_deletion_leaves_no_file_open_and_the_next_start_ends_it(void **state)
{
    (void)state;
    bool is_within = true, was_found_open = false;
    for (int steps = 0; is_within; steps++) {
        struct world *world = given_world();
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
        world_run(world);
        world_checkpoint(world); /* so that no replay looks at the directory before the deletion does */
        world_run(world);
        world->crash_after = 0; /* the journal has the deletion, the disk nothing of it */
        plog_delete(world->plog, ref, &world->out);
        world->wants_continue = true;
        world_run(world);
        assert_true(world->is_crashed);
        world_crash(world, CRASH_PROCESS);
        world->crash_after = -1;
        world->is_recovery_open = true;
        world_start(world);
        world->is_recovery_open = false;
        plog_recovery_end(world->plog, PLOG_LAST_UNCLEAN, &world->out);
        world_settle(world);
        for (int i = 0; i < steps; i++) { is_within = world_step(world); }
        assert_true(is_within || world->deleted == 1);
        was_found_open = was_found_open || (world->open_count > 0 && world->deleted == 0);
        plog_stop(world->plog, &world->out);
        world_settle(world);
        for (int i = 0; i < 100 && world_step(world); i++) {}
        assert_true(world->is_stopped);
        assert_int_equal(world->open_count, 0);
        world_restart(world, CRASH_PROCESS);
        assert_int_equal(plog_find(world->plog, world_part(0)).generation, 0);
        for (int i = 0; i < world->node_count; i++) { assert_false(world->nodes[i].is_live); }
        world_free(world);
    }
    assert_true(was_found_open);
}

static void a_log_deleted_at_any_step_of_a_checkpoint_ends_and_so_does_the_checkpoint(void **state)
{
    (void)state;
    bool is_within = true;
    for (int steps = 0; is_within; steps++) {
        struct world *world = given_world();
        world->log_config.is_page_cache = true;
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
        world_run(world);
        world->states_end = PLOG_STORAGE;
        world_checkpoint(world);
        for (int i = 0; i < steps; i++) { is_within = world_step(world); }
        plog_delete(world->plog, ref, &world->out);
        world_settle(world);
        world_run(world);
        assert_int_equal(world->states_end, PLOG_OK);
        assert_int_equal(world->deleted, 1);
        world_free(world);
    }
}

static void a_stop_at_any_step_of_a_recovery_waits_for_its_scans_and_is_not_forgotten(void **state)
{
    (void)state;
    for (int refusals = 0; refusals < 3; refusals++) {
        bool is_within = true;
        for (int steps = 0; is_within; steps++) {
            struct world *world = given_world();
            world->log_config.is_page_cache = true;
            struct plog_ref ref = world_log(world, 0, "topic", 0);
            (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
            world_run(world);
            world_crash(world, CRASH_PROCESS);
            world->is_recovery_open = true;
            world_start(world);
            world_fault(world,
                        (struct fault){.kind = PORT_READ, .suffix = ".log", .times = refusals, .rc = PORT_NO_MEMORY});
            plog_recovery_end(world->plog, PLOG_LAST_UNCLEAN, &world->out);
            world_settle(world);
            for (int i = 0; i < steps; i++) { is_within = world_step(world); }
            plog_stop(world->plog, &world->out);
            world_settle(world);
            for (int i = 0; i < 100 && !world->is_stopped && world_step(world); i++) {}
            assert_true(world->is_stopped);
            assert_int_equal(world->open_count, 0);
            uint64_t effects = world->effects_seen;
            world_run(world);
            assert_int_equal(world->effects_seen, effects); /* it has no more to ask for */
            world_free(world);
        }
    }
}

static void a_stop_waits_without_turns_for_the_journal_to_have_a_truncation(void **state)
{
    (void)state;
    struct world *world = given_world();
    struct plog_ref ref = world_log(world, 0, "topic", 0);
    for (int i = 0; i < 5; i++) {
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 100});
        world_run(world);
    }
    world->is_journal_held = true;
    uint64_t token = world_truncate(world, ref, 3);
    world_run(world); /* the journal has not answered */
    assert_false(world_answer(world, token)->is_done);
    plog_stop(world->plog, &world->out);
    world_settle(world);
    int steps = 0;
    while (steps < 10 && world_step(world)) { steps += 1; }
    assert_true(steps < 10);
    assert_false(world->is_stopped);
    world->is_journal_held = false;
    world_run(world);
    assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    assert_true(world->is_stopped);
    assert_int_equal(world->open_count, 0);
    world_free(world);
}

/* The names of other logs stand in the directory of the disk, and are lost with a sync of it that fails, whatever the next one says. */
static void a_deletion_whose_sync_of_the_names_fails_takes_the_log_directory_off_line(void **state)
{
    (void)state;
    for (int skip = 0; skip < 2; skip++) { /* after the rename, after the removal */
        struct world *world = given_world();
        struct plog_ref ref = world_log(world, 0, "topic", 0);
        (void)world_append(world, ref, (struct batch_ask){.value_bytes = 10});
        world_run(world);
        world_fault(world, (struct fault){.kind = PORT_SYNC_DIR, .skip = skip, .times = 1, .rc = PORT_IO});
        plog_delete(world->plog, ref, &world->out);
        world->wants_continue = true;
        world_run(world);
        world_alarm(world, 61000); /* files of a deleted log go a while later */
        world_run(world);
        assert_true(world->is_disk_failed);
        world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_within_a_replayed_deletion_leaves_no_file_open_and_the_next_start_ends_it),
        cmocka_unit_test(a_log_deleted_at_any_step_of_a_checkpoint_ends_and_so_does_the_checkpoint),
        cmocka_unit_test(a_stop_at_any_step_of_a_recovery_waits_for_its_scans_and_is_not_forgotten),
        cmocka_unit_test(a_stop_waits_without_turns_for_the_journal_to_have_a_truncation),
        cmocka_unit_test(a_deletion_whose_sync_of_the_names_fails_takes_the_log_directory_off_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
