/* test_group_join.c: joining: who may, who waits for whom, and what a new generation says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "desk.h"

/* ---- ids --------------------------------------------------------------------------------------------------------------- */

static void a_new_member_is_given_an_id_first_and_joins_with_it(void **state)
{
    (void)state;
    open_desk();
    uint32_t token;
    const char *id = id_of_new((struct who){.client = "orders"}, &token);
    assert_memory_equal(id, "orders-", 7);
    assert_int_equal(strlen(id), 7 + 36);
    pass_ms(1000);
    const struct kafka_join_group_response *answer = joined(token);
    assert_int_equal(answer->generation_id, 1);
    assert_string_equal(text_of(answer->member_id), id);
    assert_string_equal(text_of(answer->leader), id);
    assert_string_equal(text_of(answer->protocol_type), "consumer");
    assert_string_equal(text_of(answer->protocol_name), "range");
    assert_int_equal(answer->members_count, 1);
    assert_int_equal(answer->members[0].metadata.size_bytes, 1);
}

static void before_version_4_a_new_member_joins_at_once(void **state)
{
    (void)state;
    open_desk();
    uint32_t token = join((struct who){.version = 3});
    pass_ms(1000);
    assert_true(joined(token)->member_id.size_bytes > 36);
}

static void an_id_that_was_given_out_expires_with_its_session(void **state)
{
    (void)state;
    open_desk();
    const char *id =
        text_of(((const struct kafka_join_group_response *)answer_of(join((struct who){.group = "g"})))->member_id);
    pass_ms(10001);
    assert_int_equal(join_error(join((struct who){.member = id})), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_string_equal(state_of("g"), "Dead"); /* nothing is left of a group that was never written */
}

static void a_group_waits_for_an_id_that_was_given_out(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    const struct kafka_join_group_response *given = answer_of(join((struct who){.group = "g"}));
    const char *late = text_of(given->member_id);
    uint32_t again = join((struct who){.member = ids[0], .protocols = "range:other"});
    pass_ms(3000);
    assert_false(is_answered(again));
    uint32_t last = join((struct who){.member = late});
    assert_int_equal(joined(last)->generation_id, 2);
    assert_int_equal(joined(again)->members_count, 2);
}

static void what_nobody_could_join_with_is_refused(void **state)
{
    (void)state;
    open_desk();
    assert_int_equal(join_error(join((struct who){.group = ""})), KAFKA_ERROR_INVALID_GROUP_ID);
    assert_int_equal(join_error(join((struct who){.session_ms = 5999})), KAFKA_ERROR_INVALID_SESSION_TIMEOUT);
    assert_int_equal(join_error(join((struct who){.session_ms = 1800001})), KAFKA_ERROR_INVALID_SESSION_TIMEOUT);
    assert_int_equal(join_error(join((struct who){.member = "m"})), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(join_error(join((struct who){.protocols = ""})), KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL);
    assert_int_equal(join_error(join((struct who){.type = ""})), KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL);
    assert_string_equal(state_of("g"), "Dead");
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    assert_int_equal(join_error(join((struct who){.member = "m"})), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(join_error(join((struct who){.type = "connect"})), KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL);
    assert_int_equal(join_error(join((struct who){.protocols = "sticky:m"})), KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL);
}

static void a_group_takes_no_more_members_than_its_limit(void **state)
{
    (void)state;
    desk.config.size_max = 2;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    uint32_t third = join((struct who){.group = "g"});
    assert_int_equal(join_error(third), KAFKA_ERROR_GROUP_MAX_SIZE_REACHED);
    assert_string_equal(state_of("g"), "Stable");
    uint32_t again = join((struct who){.member = ids[0]}); /* whoever is in may join anew */
    assert_false(is_answered(again));
    assert_false(is_answered(join((struct who){.member = ids[1]})) && !is_answered(again));
}

/* ---- rounds -------------------------------------------------------------------------------------------------------------- */

static void those_who_come_within_the_initial_delay_are_one_generation(void **state)
{
    (void)state;
    desk.config.initial_delay_ms = 3000;
    open_desk();
    uint32_t first;
    uint32_t second;
    uint32_t third;
    (void)id_of_new((struct who){.rebalance_ms = 7000}, &first);
    pass_ms(2000);
    (void)id_of_new((struct who){.rebalance_ms = 7000}, &second);
    pass_ms(2000); /* it was extended by the second */
    assert_false(is_answered(first));
    (void)id_of_new((struct who){.rebalance_ms = 7000}, &third);
    pass_ms(1500);
    assert_false(is_answered(first));
    pass_ms(1600); /* 3 and 3 and 1: never longer than the rebalance time-out */
    assert_int_equal(joined(first)->generation_id, 1);
    assert_int_equal(joined(first)->members_count, 3);
    assert_int_equal(joined(second)->members_count, 0);
    assert_int_equal(joined(third)->generation_id, 1);
    assert_int_equal(desk.proposals, 1);
}

static void whoever_gives_up_in_the_initial_delay_keeps_nobody_out(void **state)
{
    (void)state;
    open_desk();
    (void)commit((struct who){.generation = -1}, "t", 0, 5); /* the group is there, and of no type */
    uint32_t first;
    const char *id = id_of_new((struct who){.type = "connect"}, &first);
    assert_int_equal(leave_error(leave(3, id, NULL)), KAFKA_ERROR_NONE);
    assert_int_equal(join_error(join((struct who){.type = ""})), KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL);
    uint32_t token;
    id = id_of_new((struct who){.type = "connect"}, &token);
    assert_int_equal(join_error(join((struct who){.type = "consumer"})), KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL);
    pass_ms(1000);
    assert_string_equal(text_of(joined(token)->leader), id);
    assert_string_equal(text_of(joined(token)->protocol_type), "connect");
}

static void a_newcomer_makes_the_others_join_anew(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    uint32_t newcomer;
    const char *id = id_of_new((struct who){.group = "g"}, &newcomer);
    assert_string_equal(state_of("g"), "PreparingRebalance");
    assert_int_equal(heartbeat((struct who){.member = ids[1], .generation = 1}), KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    uint32_t one = join((struct who){.member = ids[1]});
    assert_false(is_answered(newcomer));
    uint32_t two = join((struct who){.member = ids[0]});
    assert_int_equal(joined(newcomer)->generation_id, 2);
    assert_int_equal(joined(one)->generation_id, 2);
    assert_int_equal(joined(two)->members_count, 3);
    assert_string_equal(text_of(joined(newcomer)->leader), ids[0]); /* the leader stays */
    assert_string_equal(text_of(joined(newcomer)->member_id), id);
    assert_string_equal(state_of("g"), "CompletingRebalance");
    assert_int_equal(desk.proposals, 3);
}

static void those_who_do_not_join_anew_are_dropped_the_leader_among_them(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(3, ids);
    uint32_t one = join((struct who){.member = ids[1], .protocols = "range:new"});
    uint32_t two = join((struct who){.member = ids[2]});
    for (int i = 0; i < 59; i++) {
        pass_ms(1000);
        assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 1}), KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    }
    assert_false(is_answered(one));
    pass_ms(1000);
    assert_int_equal(joined(one)->members_count, 2);
    assert_string_equal(text_of(joined(two)->leader), ids[1]);
    assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 1}), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(members_count("g"), 2);
}

static void a_round_ends_early_once_the_last_has_left(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    uint32_t one = join((struct who){.member = ids[1], .protocols = "range:new"});
    assert_false(is_answered(one));
    assert_int_equal(leave_error(leave(3, ids[0], NULL)), KAFKA_ERROR_NONE);
    assert_int_equal(joined(one)->members_count, 1);
}

static void a_later_join_of_a_member_takes_the_place_of_its_earlier_one(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    uint32_t lost = join((struct who){.member = ids[1], .protocols = "range:new"});
    uint32_t again = join((struct who){.member = ids[1], .protocols = "range:newer"});
    assert_int_equal(join_error(lost), KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    const struct kafka_join_group_response *leader = joined(join((struct who){.member = ids[0]}));
    assert_int_equal(joined(again)->generation_id, 2);
    assert_int_equal(leader->members[1].metadata.size_bytes, 5);
}

static void the_protocol_is_one_that_all_have_and_most_like(void **state)
{
    (void)state;
    open_desk();
    uint32_t tokens[3];
    (void)id_of_new((struct who){.protocols = "a:1,b:2,c:3"}, &tokens[0]);
    (void)id_of_new((struct who){.protocols = "d:1,c:2,b:3"}, &tokens[1]);
    (void)id_of_new((struct who){.protocols = "c:1,b:2,d:3"}, &tokens[2]);
    pass_ms(1000);
    assert_string_equal(text_of(joined(tokens[0])->protocol_name), "c");
    assert_int_equal(joined(tokens[0])->members[1].metadata.at[0], '2');
}

static void a_follower_that_asks_again_is_told_the_generation_as_it_is(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    const struct kafka_join_group_response *follower = joined(join((struct who){.member = ids[1]}));
    assert_int_equal(follower->generation_id, 1);
    assert_int_equal(follower->members_count, 0);
    assert_string_equal(state_of("g"), "Stable");
    assert_false(is_answered(join((struct who){.member = ids[0]}))); /* a leader asks for a rebalance */
    assert_string_equal(state_of("g"), "PreparingRebalance");
}

static void whoever_lost_the_answer_is_told_again_until_the_assignment_is_there(void **state)
{
    (void)state;
    open_desk();
    uint32_t token;
    const char *id = id_of_new((struct who){.group = "g"}, &token);
    pass_ms(1000);
    assert_int_equal(joined(token)->generation_id, 1);
    const struct kafka_join_group_response *again = joined(join((struct who){.member = id}));
    assert_int_equal(again->generation_id, 1);
    assert_int_equal(again->members_count, 1);
    assert_string_equal(state_of("g"), "CompletingRebalance");
}

static void a_member_that_never_comes_back_for_its_first_generation_is_forgotten(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    uint32_t first;
    (void)id_of_new((struct who){.rebalance_ms = 900000}, &first);
    for (int i = 0; i < 299; i++) {
        pass_ms(1000);
        (void)heartbeat((struct who){.member = ids[0], .generation = 1});
    }
    assert_false(is_answered(first));
    pass_ms(1000);
    assert_int_equal(join_error(first), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
}

/* ---- static members --------------------------------------------------------------------------------------------------------- */

static void a_static_member_takes_its_old_place_without_a_rebalance(void **state)
{
    (void)state;
    open_desk();
    uint32_t tokens[2];
    tokens[0] = join((struct who){.group = "g", .instance = "i0"});
    tokens[1] = join((struct who){.group = "g", .instance = "i1"});
    pass_ms(1000);
    const char *leader = text_of(joined(tokens[0])->member_id);
    const char *old = text_of(joined(tokens[1])->member_id);
    assert_memory_equal(old, "i1-", 3);
    char words[256];
    strcpy(words, old);
    strcat(words, "=p1");
    (void)sync((struct who){.member = old, .instance = "i1", .generation = 1}, NULL);
    (void)sync((struct who){.member = leader, .instance = "i0", .generation = 1}, words);
    uint32_t again = join((struct who){.instance = "i1"});
    const struct kafka_join_group_response *answer = joined(again);
    const char *id = text_of(answer->member_id);
    assert_int_equal(answer->generation_id, 1);
    assert_string_not_equal(id, old);
    assert_string_equal(state_of("g"), "Stable");
    assert_string_equal(assigned(sync((struct who){.member = id, .instance = "i1", .generation = 1}, NULL)), "p1");
    assert_int_equal(heartbeat((struct who){.member = old, .instance = "i1", .generation = 1}),
                     KAFKA_ERROR_FENCED_INSTANCE_ID);
    assert_int_equal(heartbeat((struct who){.member = old, .generation = 1}), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(heartbeat((struct who){.member = leader, .instance = "i0", .generation = 1}), KAFKA_ERROR_NONE);
    assert_int_equal(join_error(join((struct who){.member = old, .instance = "i1"})), KAFKA_ERROR_FENCED_INSTANCE_ID);
    assert_int_equal(join_error(join((struct who){.member = old, .instance = "i9"})), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
}

static void a_place_that_is_taken_while_another_leaves_does_not_hide_that_it_left(void **state)
{
    (void)state;
    open_desk();
    uint32_t tokens[2];
    tokens[0] = join((struct who){.group = "g", .instance = "i0"});
    tokens[1] = join((struct who){.group = "g", .instance = "i1"});
    pass_ms(1000);
    const char *leader = text_of(joined(tokens[0])->member_id);
    (void)sync((struct who){.member = leader, .instance = "i0", .generation = 1}, NULL);
    assert_string_equal(state_of("g"), "Stable");
    hold_log_of("g"); /* so that both are decided together */
    (void)leave(3, "", "i0");
    (void)join((struct who){.instance = "i1"});
    desk.is_holding = false;
    land();
    run_desk();
    assert_string_equal(state_of("g"), "PreparingRebalance");
}

static void a_static_leader_that_comes_back_is_told_so_only_where_it_can_skip_the_assignment(void **state)
{
    (void)state;
    open_desk();
    uint32_t token = join((struct who){.group = "g", .instance = "i0"});
    pass_ms(1000);
    const char *first = text_of(joined(token)->member_id);
    (void)sync((struct who){.member = first, .instance = "i0", .generation = 1}, NULL);
    const struct kafka_join_group_response *old_client = joined(join((struct who){.instance = "i0", .version = 8}));
    const char *second = text_of(old_client->member_id);
    assert_string_equal(text_of(old_client->leader), first);
    assert_int_equal(old_client->members_count, 0);
    const struct kafka_join_group_response *new_client = joined(join((struct who){.instance = "i0", .version = 9}));
    const char *third = text_of(new_client->member_id);
    assert_string_equal(text_of(new_client->leader), third);
    assert_true(new_client->skip_assignment);
    assert_int_equal(new_client->members_count, 1);
    assert_string_not_equal(second, third);
    assert_int_equal(new_client->generation_id, 1);
}

static void a_static_leader_that_comes_back_while_its_group_joins_leads_it(void **state)
{
    (void)state;
    open_desk();
    uint32_t tokens[2] = {join((struct who){.instance = "a"}), join((struct who){.instance = "b"})};
    pass_ms(1000);
    assert_string_equal(text_of(joined(tokens[0])->leader), text_of(joined(tokens[0])->member_id));
    const char *other = text_of(joined(tokens[1])->member_id);
    assert_false(is_answered(join((struct who){.member = other, .instance = "b", .protocols = "range:other"})));
    tokens[0] = join((struct who){.instance = "a"}); /* no more than an id that is forgotten */
    assert_string_equal(text_of(joined(tokens[0])->leader), text_of(joined(tokens[0])->member_id));
    assert_int_equal(joined(tokens[0])->generation_id, 2);
    assert_int_equal(joined(tokens[0])->members_count, 2);
}

static void a_static_member_that_would_change_the_protocol_makes_a_rebalance(void **state)
{
    (void)state;
    open_desk();
    uint32_t tokens[2];
    tokens[0] = join((struct who){.instance = "i0", .protocols = "a:1,b:1"});
    tokens[1] = join((struct who){.instance = "i1", .protocols = "a:1,b:1"});
    pass_ms(1000);
    const char *leader = text_of(joined(tokens[0])->member_id);
    (void)sync((struct who){.member = leader, .instance = "i0", .generation = 1}, NULL);
    uint32_t again = join((struct who){.instance = "i1", .protocols = "b:1"});
    assert_false(is_answered(again));
    assert_string_equal(state_of("g"), "PreparingRebalance");
    (void)join((struct who){.instance = "i0", .member = leader, .protocols = "a:1,b:1"});
    assert_string_equal(text_of(joined(again)->protocol_name), "b");
    assert_int_equal(members_count("g"), 2);
}

static void a_static_member_that_comes_back_before_the_assignment_makes_a_rebalance(void **state)
{
    (void)state;
    open_desk();
    uint32_t tokens[2];
    tokens[0] = join((struct who){.group = "g", .instance = "i0"});
    tokens[1] = join((struct who){.group = "g", .instance = "i1"});
    pass_ms(1000);
    const char *leader = text_of(joined(tokens[0])->member_id);
    const char *old = text_of(joined(tokens[1])->member_id);
    uint32_t waiting = sync((struct who){.member = old, .instance = "i1", .generation = 1}, NULL);
    uint32_t again = join((struct who){.instance = "i1"});
    assert_int_equal(sync_error(waiting), KAFKA_ERROR_FENCED_INSTANCE_ID);
    assert_string_equal(state_of("g"), "PreparingRebalance");
    uint32_t other = join((struct who){.instance = "i0", .member = leader});
    assert_int_equal(joined(other)->members_count, 2);
    assert_int_equal(joined(again)->generation_id, 2);
}

static void a_static_member_that_is_away_stays_until_its_session_ends(void **state)
{
    (void)state;
    open_desk();
    uint32_t tokens[2];
    tokens[0] = join((struct who){.instance = "i0", .session_ms = 300000});
    tokens[1] = join((struct who){.instance = "i1", .session_ms = 300000});
    pass_ms(1000);
    const char *leader = text_of(joined(tokens[0])->member_id);
    (void)sync((struct who){.member = leader, .instance = "i0", .generation = 1}, NULL);
    (void)sync((struct who){.member = text_of(joined(tokens[1])->member_id), .instance = "i1", .generation = 1}, NULL);
    uint32_t again = join((struct who){.instance = "i0", .member = leader, .session_ms = 300000});
    pass_ms(60000);
    assert_int_equal(joined(again)->members_count, 2);
    assert_int_equal(joined(again)->generation_id, 2);
}

static void a_group_whose_static_members_are_all_away_waits_and_writes_nothing(void **state)
{
    (void)state;
    open_desk();
    struct who who = {.session_ms = 300000, .rebalance_ms = 1};
    uint32_t tokens[2];
    who.instance = "i0";
    tokens[0] = join(who);
    who.instance = "i1";
    tokens[1] = join(who);
    pass_ms(100); /* the initial delay, and no more: who does not sync in a millisecond goes */
    const char *other = text_of(joined(tokens[1])->member_id);
    (void)sync((struct who){.member = text_of(joined(tokens[0])->member_id), .instance = "i0", .generation = 1}, NULL);
    (void)sync((struct who){.member = other, .instance = "i1", .generation = 1}, NULL);
    assert_int_equal(leave_error(leave(3, "", "i0")), KAFKA_ERROR_NONE); /* now all join anew, but i1 does not come */
    pass_ms(1000);
    uint32_t before = desk.proposals;
    pass_ms(100000);
    assert_int_equal(desk.proposals, before);
    who.member = other;
    uint32_t again = join(who);
    pass_ms(1000);
    assert_int_equal(joined(again)->generation_id, 2);
    assert_int_equal(joined(again)->members_count, 1);
}

/* Its session ends just as the round does, and the new generation is larger than the round's block was. */
static void a_silent_member_goes_for_good_where_its_generation_needs_a_larger_block(void **state)
{
    (void)state;
    desk.config.proposal_bytes = 4096;
    open_desk();
    char protocols[2048] = "range:";
    memset(protocols + 6, 'm', 1500);
    struct who who = {.protocols = protocols, .rebalance_ms = 10000, .session_ms = 10000};
    const char *ids[4];
    uint32_t joins[4];
    for (int i = 0; i < 4; i++) { ids[i] = id_of_new(who, &joins[i]); }
    pass_ms(1000);
    for (int i = 3; i >= 0; i--) { (void)sync((struct who){.member = ids[i], .generation = 1}, ""); }
    assert_string_equal(state_of("g"), "Stable");
    for (int i = 0; i < 3; i++) {
        who.member = ids[i];
        joins[i] = join(who);
    }
    pass_ms(10000);
    assert_int_equal(joined(joins[0])->members_count, 3);
    assert_int_equal(members_count("g"), 3);
    assert_int_equal(heartbeat((struct who){.member = ids[3], .generation = 2}), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, given_desk, expect_the_log_says_all)
    const struct CMUnitTest tests[] = {
        TEST(a_new_member_is_given_an_id_first_and_joins_with_it),
        TEST(before_version_4_a_new_member_joins_at_once),
        TEST(an_id_that_was_given_out_expires_with_its_session),
        TEST(a_group_waits_for_an_id_that_was_given_out),
        TEST(what_nobody_could_join_with_is_refused),
        TEST(a_group_takes_no_more_members_than_its_limit),
        TEST(a_static_leader_that_comes_back_while_its_group_joins_leads_it),
        TEST(those_who_come_within_the_initial_delay_are_one_generation),
        TEST(whoever_gives_up_in_the_initial_delay_keeps_nobody_out),
        TEST(a_newcomer_makes_the_others_join_anew),
        TEST(those_who_do_not_join_anew_are_dropped_the_leader_among_them),
        TEST(a_round_ends_early_once_the_last_has_left),
        TEST(a_later_join_of_a_member_takes_the_place_of_its_earlier_one),
        TEST(the_protocol_is_one_that_all_have_and_most_like),
        TEST(a_follower_that_asks_again_is_told_the_generation_as_it_is),
        TEST(whoever_lost_the_answer_is_told_again_until_the_assignment_is_there),
        TEST(a_member_that_never_comes_back_for_its_first_generation_is_forgotten),
        TEST(a_static_member_takes_its_old_place_without_a_rebalance),
        TEST(a_place_that_is_taken_while_another_leaves_does_not_hide_that_it_left),
        TEST(a_static_leader_that_comes_back_is_told_so_only_where_it_can_skip_the_assignment),
        TEST(a_static_member_that_would_change_the_protocol_makes_a_rebalance),
        TEST(a_static_member_that_comes_back_before_the_assignment_makes_a_rebalance),
        TEST(a_static_member_that_is_away_stays_until_its_session_ends),
        TEST(a_group_whose_static_members_are_all_away_waits_and_writes_nothing),
        TEST(a_silent_member_goes_for_good_where_its_generation_needs_a_larger_block),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
