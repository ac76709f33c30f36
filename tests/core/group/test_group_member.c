/* test_group_member.c: assignments, heartbeats, leaving, sessions that end, and what a new leader makes of it all.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "desk.h"

#include <stdio.h>

/* ---- assignments ------------------------------------------------------------------------------------------------------- */

/* Who have joined, the first of them as the leader; neither has an assignment yet. */
static void given_two(struct who who, const char *ids[2])
{
    open_desk();
    for (int i = 0; i < 2; i++) {
        uint32_t join;
        ids[i] = id_of_new(who, &join);
    }
    pass_ms(1000);
}

static void everybody_gets_what_the_leader_assigned_and_a_forgotten_member_nothing(void **state)
{
    (void)state;
    open_desk();
    uint32_t joins[3];
    const char *ids[3];
    for (int i = 0; i < 3; i++) { ids[i] = id_of_new((struct who){.group = "g"}, &joins[i]); }
    pass_ms(1000);
    uint32_t early = sync((struct who){.member = ids[1], .generation = 1}, NULL);
    assert_false(is_answered(early));
    char words[512];
    (void)snprintf(words, sizeof words, "%s=p0,%s=p1,nobody=p9", ids[0], ids[1]);
    uint32_t leader =
        sync((struct who){.member = ids[0], .generation = 1, .type = "consumer", .protocols = "range"}, words);
    assert_string_equal(assigned(leader), "p0");
    assert_string_equal(assigned(early), "p1");
    assert_string_equal(assigned(sync((struct who){.member = ids[2], .generation = 1}, NULL)), "");
    assert_string_equal(state_of("g"), "Stable");
    const struct kafka_sync_group_response *answer = answer_of(early);
    assert_string_equal(text_of(answer->protocol_type), "consumer");
    assert_string_equal(text_of(answer->protocol_name), "range");
}

static void an_assignment_asked_for_out_of_turn_is_refused(void **state)
{
    (void)state;
    open_desk();
    assert_int_equal(sync_error(sync((struct who){.group = "", .member = "m"}, NULL)), KAFKA_ERROR_INVALID_GROUP_ID);
    assert_int_equal(sync_error(sync((struct who){.member = "m"}, NULL)), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    assert_int_equal(sync_error(sync((struct who){.member = "m", .generation = 1}, NULL)),
                     KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(sync_error(sync((struct who){.member = ids[0], .generation = 2}, NULL)),
                     KAFKA_ERROR_ILLEGAL_GENERATION);
    assert_int_equal(sync_error(sync((struct who){.member = ids[0], .generation = 1, .type = "connect"}, NULL)),
                     KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL);
    assert_int_equal(sync_error(sync((struct who){.member = ids[0], .generation = 1, .protocols = "sticky"}, NULL)),
                     KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL);
    (void)join((struct who){.member = ids[0]});
    assert_int_equal(sync_error(sync((struct who){.member = ids[1], .generation = 1}, NULL)),
                     KAFKA_ERROR_REBALANCE_IN_PROGRESS);
}

static void from_version_5_on_a_sync_must_say_its_protocol(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    struct who who = {.member = ids[0], .generation = 1, .version = 5};
    assert_int_equal(sync_error(sync(who, NULL)), KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL);
    who.type = "consumer";
    assert_int_equal(sync_error(sync(who, NULL)), KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL);
    who.protocols = "range";
    assert_int_equal(sync_error(sync(who, NULL)), KAFKA_ERROR_NONE);
}

static void an_assignment_does_not_hide_that_somebody_left(void **state)
{
    (void)state;
    const char *ids[2];
    given_two((struct who){.group = "g"}, ids);
    hold_log_of("g"); /* so that both are decided together */
    (void)leave(2, ids[1], NULL);
    uint32_t token = sync((struct who){.member = ids[0], .generation = 1}, NULL);
    desk.is_holding = false;
    land();
    assert_string_equal(assigned(token), "");
    assert_string_equal(state_of("g"), "PreparingRebalance");
}

static void whoever_waits_for_an_assignment_is_woken_by_a_new_round(void **state)
{
    (void)state;
    const char *ids[2];
    given_two((struct who){.group = "g"}, ids);
    uint32_t waiting = sync((struct who){.member = ids[1], .generation = 1}, NULL);
    uint32_t newcomer;
    (void)id_of_new((struct who){.group = "g"}, &newcomer);
    assert_int_equal(sync_error(waiting), KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    (void)join((struct who){.member = ids[1]});
    (void)join((struct who){.member = ids[0]});
    assert_int_equal(joined(newcomer)->generation_id, 2);
}

static void a_leader_that_never_assigns_does_not_hold_the_group_for_ever(void **state)
{
    (void)state;
    const char *ids[2];
    given_two((struct who){.rebalance_ms = 20000}, ids);
    uint32_t waiting = sync((struct who){.member = ids[1], .generation = 1}, NULL);
    for (int i = 0; i < 21; i++) { /* it heartbeats all the while */
        pass_ms(1000);
        (void)heartbeat((struct who){.member = ids[0], .generation = 1});
    }
    assert_int_equal(sync_error(waiting), KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    const struct kafka_join_group_response *again = joined(join((struct who){.member = ids[1], .rebalance_ms = 20000}));
    assert_int_equal(again->generation_id, 2);
    assert_string_equal(text_of(again->leader), ids[1]);
    assert_int_equal(again->members_count, 1);
}

static void a_heartbeat_while_the_disk_is_slow_does_not_save_a_leader_that_never_assigns(void **state)
{
    (void)state;
    const char *ids[2];
    given_two((struct who){.rebalance_ms = 5000}, ids);
    uint32_t waiting = sync((struct who){.member = ids[1], .generation = 1}, NULL);
    hold_log_of("g"); /* the time is over, and nothing can be decided yet */
    pass_ms(5000);
    (void)heartbeat((struct who){.member = ids[0], .generation = 1});
    desk.is_holding = false;
    land();
    assert_int_equal(sync_error(waiting), KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 1}), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
}

static void whoever_never_asked_for_its_assignment_is_dropped_from_a_stable_group(void **state)
{
    (void)state;
    const char *ids[2];
    given_two((struct who){.rebalance_ms = 20000}, ids);
    assert_string_equal(assigned(sync((struct who){.member = ids[0], .generation = 1}, NULL)), "");
    for (int i = 0; i < 21; i++) {
        pass_ms(1000);
        (void)heartbeat((struct who){.member = ids[0], .generation = 1});
        (void)heartbeat((struct who){.member = ids[1], .generation = 1});
    }
    assert_int_equal(heartbeat((struct who){.member = ids[1], .generation = 1}), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 1}), KAFKA_ERROR_REBALANCE_IN_PROGRESS);
}

/* ---- heartbeats ---------------------------------------------------------------------------------------------------------- */

static void a_heartbeat_says_whether_its_member_is_still_one(void **state)
{
    (void)state;
    open_desk();
    assert_int_equal(heartbeat((struct who){.group = "", .member = "m"}), KAFKA_ERROR_INVALID_GROUP_ID);
    assert_int_equal(heartbeat((struct who){.member = "m"}), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 1}), KAFKA_ERROR_NONE);
    assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 0}), KAFKA_ERROR_ILLEGAL_GENERATION);
    assert_int_equal(heartbeat((struct who){.member = ids[0], .instance = "i", .generation = 1}),
                     KAFKA_ERROR_UNKNOWN_MEMBER_ID);
}

static void a_member_that_is_silent_for_a_session_is_gone_and_the_others_share_anew(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    for (int i = 0; i < 9; i++) {
        pass_ms(1000);
        assert_int_equal(heartbeat((struct who){.member = ids[1], .generation = 1}), KAFKA_ERROR_NONE);
    }
    pass_ms(1100);
    assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 1}), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(heartbeat((struct who){.member = ids[1], .generation = 1}), KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    assert_int_equal(joined(join((struct who){.member = ids[1]}))->members_count, 1);
}

static void a_commit_keeps_its_member_alive(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    for (int i = 0; i < 30; i++) {
        pass_ms(1000);
        assert_int_equal(commit_error(commit((struct who){.member = ids[0], .generation = 1}, "t", 0, i)),
                         KAFKA_ERROR_NONE);
    }
    assert_string_equal(state_of("g"), "Stable");
}

static void waiting_for_the_others_costs_nobody_its_session(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    uint32_t waiting = join((struct who){.member = ids[0]});
    for (int i = 0; i < 40; i++) { /* four sessions long */
        pass_ms(1000);
        (void)heartbeat((struct who){.member = ids[1], .generation = 1});
    }
    assert_false(is_answered(waiting));
    (void)join((struct who){.member = ids[1]});
    assert_int_equal(joined(waiting)->members_count, 2);
}

/* ---- leaving --------------------------------------------------------------------------------------------------------------- */

static void a_group_that_all_have_left_is_empty_in_a_new_generation(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    assert_int_equal(leave_error(leave(2, ids[0], NULL)), KAFKA_ERROR_NONE);
    assert_string_equal(state_of("g"), "Empty");
    int32_t generation;
    assert_true(group_generation(desk.groups, base_slice_text("g"), &generation));
    assert_int_equal(generation, 2);
    assert_int_equal(leave_error(leave(2, ids[0], NULL)), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    uint32_t token;
    (void)id_of_new((struct who){.type = "connect", .protocols = "v1:x"}, &token);
    pass_ms(1000);
    assert_int_equal(joined(token)->generation_id, 3);
}

static void several_leave_at_once_and_each_line_has_its_own_answer(void **state)
{
    (void)state;
    open_desk();
    uint32_t fixed = join((struct who){.group = "g", .instance = "i0"});
    uint32_t token;
    const char *other = id_of_new((struct who){.group = "g"}, &token);
    pass_ms(1000);
    const char *first = text_of(joined(fixed)->member_id);
    struct kafka_leave_group_request_member_identity lines[5];
    for (int i = 0; i < 5; i++) { kafka_leave_group_request_member_identity_init(&lines[i]); }
    lines[0].group_instance_id = kafka_text_words("i0"); /* an operator knows the instance alone */
    lines[1].member_id = kafka_text_words("nobody");
    lines[2].member_id = kafka_text_words(other);
    lines[3].member_id = kafka_text_words(other);
    lines[4].member_id = kafka_text_words("");
    struct kafka_leave_group_request request;
    kafka_leave_group_request_init(&request);
    request.group_id = kafka_text_words("g");
    request.members = lines;
    request.members_count = 5;
    desk.proposals = 0;
    const struct kafka_leave_group_response *answer = answer_of(ask(GROUP_LEAVE, 5, "g", &request));
    assert_int_equal(answer->error_code, KAFKA_ERROR_NONE);
    assert_int_equal(answer->members_count, 5);
    assert_int_equal(answer->members[0].error_code, KAFKA_ERROR_NONE);
    assert_int_equal(answer->members[1].error_code, KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(answer->members[2].error_code, KAFKA_ERROR_NONE);
    assert_int_equal(answer->members[3].error_code, KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(answer->members[4].error_code, KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_string_equal(state_of("g"), "Empty");
    assert_int_equal(desk.proposals, 2); /* both gone; and then nobody is left */
    assert_int_equal(heartbeat((struct who){.member = first, .instance = "i0", .generation = 1}),
                     KAFKA_ERROR_UNKNOWN_MEMBER_ID);
}

static void whoever_waits_and_leaves_is_not_waited_for_any_more(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    uint32_t waiting = join((struct who){.member = ids[0]});
    assert_int_equal(leave_error(leave(3, ids[0], NULL)), KAFKA_ERROR_NONE);
    assert_int_equal(join_error(waiting), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(joined(join((struct who){.member = ids[1]}))->members_count, 1);
}

static void an_id_that_was_only_given_out_can_be_given_back(void **state)
{
    (void)state;
    open_desk();
    const char *id =
        text_of(((const struct kafka_join_group_response *)answer_of(join((struct who){.group = "g"})))->member_id);
    assert_int_equal(leave_error(leave(3, id, NULL)), KAFKA_ERROR_NONE);
    assert_int_equal(desk.records, 0);
    assert_string_equal(state_of("g"), "Dead");
}

static void leaving_what_is_not_there_is_refused(void **state)
{
    (void)state;
    open_desk();
    assert_int_equal(leave_error(leave(3, "m", NULL)), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    struct kafka_leave_group_request request;
    kafka_leave_group_request_init(&request);
    assert_int_equal(leave_error(ask(GROUP_LEAVE, 1, "", &request)), KAFKA_ERROR_INVALID_GROUP_ID);
}

/* ---- a new leader ------------------------------------------------------------------------------------------------------------ */

static void after_a_restart_members_carry_on_with_their_ids_and_generation(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(3, ids);
    pass_ms(9000);
    restart();
    pass_ms(9000); /* each has one full session time-out */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(heartbeat((struct who){.member = ids[i], .generation = 1}), KAFKA_ERROR_NONE);
    }
    assert_string_equal(state_of("g"), "Stable");
    pass_ms(10100);
    assert_string_equal(state_of("g"), "Empty");
}

static void a_restart_before_the_assignment_keeps_the_generation(void **state)
{
    (void)state;
    open_desk();
    uint32_t token;
    const char *id = id_of_new((struct who){.group = "g"}, &token);
    pass_ms(1000);
    restart();
    char words[256];
    (void)snprintf(words, sizeof words, "%s=p", id);
    assert_string_equal(state_of("g"), "CompletingRebalance");
    assert_string_equal(assigned(sync((struct who){.member = id, .generation = 1}, words)), "p");
}

static void a_restart_while_a_member_is_missing_begins_a_round(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    assert_int_equal(leave_error(leave(3, ids[0], NULL)), KAFKA_ERROR_NONE);
    assert_string_equal(state_of("g"), "PreparingRebalance");
    restart();
    assert_string_equal(state_of("g"), "PreparingRebalance");
    assert_int_equal(heartbeat((struct who){.member = ids[1], .generation = 1}), KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    assert_int_equal(joined(join((struct who){.member = ids[1]}))->generation_id, 2);
}

static void while_a_log_is_being_loaded_its_groups_are_not_spoken_of(void **state)
{
    (void)state;
    open_desk_loading();
    assert_int_equal(heartbeat((struct who){.member = "m"}), KAFKA_ERROR_NONE); /* a member need not know */
    assert_int_equal(join_error(join((struct who){.group = "g"})), KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS);
    assert_int_equal(sync_error(sync((struct who){.member = "m"}, NULL)), KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS);
    assert_int_equal(leave_error(leave(3, "m", NULL)), KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS);
    assert_int_equal(commit_error(commit((struct who){.generation = -1}, "t", 0, 1)),
                     KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS);
    assert_int_equal(described("g", 5)->error_code, KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS);
    lead();
    assert_int_equal(commit_error(commit((struct who){.generation = -1}, "t", 0, 1)), KAFKA_ERROR_NONE);
}

static void who_waits_when_the_node_stops_is_sent_away(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    uint32_t waiting = join((struct who){.member = ids[0]});
    group_drain(desk.groups);
    run_desk();
    assert_int_equal(join_error(waiting), KAFKA_ERROR_NOT_COORDINATOR);
    assert_int_equal(heartbeat((struct who){.member = ids[1], .generation = 1}), KAFKA_ERROR_NOT_COORDINATOR);
}

static void who_asks_while_the_disk_is_slow_has_not_expired_when_it_is_heard(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(3, ids);
    hold_log_of("g");
    uint32_t token = join((struct who){.member = ids[1], .protocols = "range:new"});
    for (int i = 0; i < 3; i++) { /* longer than a session; whoever joins does not beat */
        pass_ms(4000);
        assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 1}), KAFKA_ERROR_NONE);
    }
    desk.is_holding = false;
    land();
    assert_false(is_answered(token));
    assert_int_equal(members_count("g"), 2); /* the third has neither asked nor beaten */
    assert_int_equal(joined(join((struct who){.member = ids[0]}))->generation_id, 2);
    assert_int_equal(joined(token)->generation_id, 2);
}

static void who_waits_for_long_behind_a_disk_that_takes_nothing_is_told_to_come_again(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    hold_log_of("g");
    uint32_t committed = commit((struct who){.member = ids[0], .generation = 1}, "t", 0, 5);
    pass_ms(5000);
    uint32_t joining = join((struct who){.group = "g"});
    uint32_t left = leave(3, ids[0], NULL);
    pass_ms(9000);
    assert_false(is_answered(committed));
    pass_ms(1100);
    assert_int_equal(commit_error(committed), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_false(is_answered(joining));
    pass_ms(5000);
    assert_int_equal(join_error(joining), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(leave_error(left), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    desk.is_holding = false;
    land();
    assert_int_equal(fetched("g", "t", 0), -1);
    assert_int_equal(commit_error(commit((struct who){.group = "s", .generation = -1}, "t", 0, 6)), KAFKA_ERROR_NONE);
}

static void a_node_that_was_away_hears_its_members_before_it_takes_them_for_dead(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(3, ids);
    uint32_t joining = join((struct who){.member = ids[1], .protocols = "range:new"});
    desk.now_ns += UINT64_C(90000000000); /* all at once: longer than a session, and than the round of joining */
    run_desk();
    assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 1}), KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    uint32_t other = join((struct who){.member = ids[0]});
    assert_false(is_answered(joining));
    pass_ms(1500);
    assert_int_equal(joined(other)->generation_id, 2);
    assert_int_equal(joined(joining)->generation_id, 2);
    assert_int_equal(members_count("g"), 2); /* who has sent nothing is gone */
}

static void a_node_that_is_late_time_and_again_forgets_who_is_dead(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    for (int i = 0; i < 12; i++) {
        desk.now_ns += UINT64_C(1500000000);
        run_desk();
    }
    assert_string_equal(state_of("g"), "Empty");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, given_desk, expect_the_log_says_all)
    const struct CMUnitTest tests[] = {
        TEST(everybody_gets_what_the_leader_assigned_and_a_forgotten_member_nothing),
        TEST(an_assignment_asked_for_out_of_turn_is_refused),
        TEST(from_version_5_on_a_sync_must_say_its_protocol),
        TEST(an_assignment_does_not_hide_that_somebody_left),
        TEST(whoever_waits_for_an_assignment_is_woken_by_a_new_round),
        TEST(a_leader_that_never_assigns_does_not_hold_the_group_for_ever),
        TEST(a_heartbeat_while_the_disk_is_slow_does_not_save_a_leader_that_never_assigns),
        TEST(whoever_never_asked_for_its_assignment_is_dropped_from_a_stable_group),
        TEST(a_heartbeat_says_whether_its_member_is_still_one),
        TEST(a_member_that_is_silent_for_a_session_is_gone_and_the_others_share_anew),
        TEST(a_commit_keeps_its_member_alive),
        TEST(waiting_for_the_others_costs_nobody_its_session),
        TEST(a_group_that_all_have_left_is_empty_in_a_new_generation),
        TEST(several_leave_at_once_and_each_line_has_its_own_answer),
        TEST(whoever_waits_and_leaves_is_not_waited_for_any_more),
        TEST(an_id_that_was_only_given_out_can_be_given_back),
        TEST(leaving_what_is_not_there_is_refused),
        TEST(after_a_restart_members_carry_on_with_their_ids_and_generation),
        TEST(a_restart_before_the_assignment_keeps_the_generation),
        TEST(a_restart_while_a_member_is_missing_begins_a_round),
        TEST(while_a_log_is_being_loaded_its_groups_are_not_spoken_of),
        TEST(who_asks_while_the_disk_is_slow_has_not_expired_when_it_is_heard),
        TEST(who_waits_for_long_behind_a_disk_that_takes_nothing_is_told_to_come_again),
        TEST(a_node_that_was_away_hears_its_members_before_it_takes_them_for_dead),
        TEST(a_node_that_is_late_time_and_again_forgets_who_is_dead),
        TEST(who_waits_when_the_node_stops_is_sent_away),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
