/* test_room.c: what comes and goes while a checkpoint is taken, whose states are of different times: the start that has it finds room.
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

static void append(struct world *world, struct plog_ref ref, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t token = world_append(world, ref, (struct batch_ask){.value_bytes = 100, .leader_epoch = 1});
        world_run(world);
        assert_int_equal(world_answer(world, token)->result, PLOG_OK);
    }
}

static void drop(struct world *world, struct plog_ref ref)
{
    plog_delete(world->plog, ref, &world->out);
    world_settle(world);
    world_run(world);
}

/* The state of the first log has left; those of the others are yet to be written. */
static void begin_checkpoint(struct world *world)
{
    world->is_state_held = true;
    world_checkpoint(world);
    world_run(world);
    assert_int_equal(world->state_count_next, 1);
}

static void end_checkpoint(struct world *world)
{
    world_state_take(world);
    world_run(world);
    assert_false(world->is_capturing);
}

static void segments_that_one_log_gave_up_and_another_took_within_a_checkpoint_fit_into_the_next_start(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->config.segments_max = 6;
    world->log_config.segment_bytes = 500; /* two records */
    world_start(world);
    struct plog_ref ref = world_log(world, 0, "topic", 1);
    struct plog_ref other = world_log(world, 1, "topic", 1);
    append(world, ref, 10);
    append(world, other, 1);
    assert_int_equal(world->plog->segments.taken_count, 6);
    begin_checkpoint(world);
    assert_int_equal(plog_move_start(world->plog, ref, world->next_token++, 8, &world->out), BASE_OK);
    world_settle(world);
    world_run(world);
    world_alarm(world, 2000);
    assert_int_equal(world->plog->segments.taken_count, 2);
    append(world, other, 7);
    end_checkpoint(world);
    append(world, other, 4); /* from here on it rolls again */
    assert_int_equal(world_view(world, other).segment_count, 3);
    world_restart(world, CRASH_POWER);
    assert_int_equal(world->not_taken, 0);
    assert_int_equal(world_read_all(world, world_log(world, 0, "topic", 1)), 2);
    assert_int_equal(world_read_all(world, world_log(world, 1, "topic", 1)), 12);
    world_free(world);
}

static void logs_that_came_and_went_within_a_checkpoint_fit_into_the_next_start(void **state)
{
    (void)state;
    struct world *world = world_make(1);
    world->config.logs_max = 3;
    world_start(world);
    append(world, world_log(world, 0, "topic", 1), 1);
    append(world, world_log(world, 1, "topic", 1), 1);
    begin_checkpoint(world);
    struct plog_ref gone = world_log(world, 2, "topic", 1);
    append(world, gone, 1);
    drop(world, gone);
    struct plog_ref ref;
    enum base_rc rc = plog_open(world->plog, world_part(3), base_slice_text("topic"), &world->log_config, 1, &ref);
    if (rc == BASE_OK) { append(world, ref, 1); }
    end_checkpoint(world);
    append(world, world_log(world, 3, "topic", 1), 1); /* now there is room, if there was none */
    world_restart(world, CRASH_POWER);
    assert_int_equal(world->not_taken, 0);
    for (int i = 0; i < 4; i++) {
        if (i != 2) { assert_true(world_read_all(world, world_log(world, i, "topic", 1)) >= 1); }
    }
    world_free(world);
}

static void any_number_of_logs_deleted_before_a_checkpoint_came_to_them_are_no_lost_ones(void **state)
{
    (void)state;
    const int count = 300;
    struct world *world = world_make(1);
    world->config.logs_max = 400;
    world_start(world);
    struct plog_ref refs[300];
    for (int i = 0; i < count; i++) {
        refs[i] = world_log(world, i, "topic", 1);
        append(world, refs[i], 1);
    }
    begin_checkpoint(world);
    for (int i = 1; i < count; i++) { append(world, refs[i], 1); } /* the entries of all, then the deletions */
    for (int i = 1; i < count; i++) { drop(world, refs[i]); }
    end_checkpoint(world);
    assert_int_equal(world->state_count, 1);
    world_restart(world, CRASH_POWER);
    assert_false(world->plog->has_lost_entries);
    assert_int_equal(world->plog->by_orphan.count, 0);
    world_free(world);
}

static void of_logs_whose_beginning_was_lost_each_is_known_and_a_deletion_takes_only_its_own(void **state)
{
    (void)state;
    const int count = 40;
    struct world *world = world_make(1);
    world_start(world);
    for (int i = 0; i < count; i++) { append(world, world_log(world, i, "topic", 1), 1); }
    size_t begun = world->entry_count;
    for (int i = 0; i < count; i++) { append(world, world_log(world, i, "topic", 1), 1); }
    for (int i = 0; i < count; i += 2) { drop(world, world_log(world, i, "topic", 1)); }
    world->entries_begin = begun; /* their first entries, and no state */
    world_restart(world, CRASH_POWER);
    assert_true(world->plog->has_lost_entries);
    for (int i = 0; i < count; i++) { assert_int_equal(plog__is_orphan(world->plog, world_part(i)), i % 2 != 0); }
    assert_true(world_view(world, world_log(world, 1, "topic", 1)).is_damaged);
    assert_false(world_view(world, world_log(world, 2, "topic", 1)).is_damaged);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_that_one_log_gave_up_and_another_took_within_a_checkpoint_fit_into_the_next_start),
        cmocka_unit_test(logs_that_came_and_went_within_a_checkpoint_fit_into_the_next_start),
        cmocka_unit_test(any_number_of_logs_deleted_before_a_checkpoint_came_to_them_are_no_lost_ones),
        cmocka_unit_test(of_logs_whose_beginning_was_lost_each_is_known_and_a_deletion_takes_only_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
