/* test_client_group.c: a member of a group.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const letters[] = {"a", "b", "c", "d", "e"};

static struct fake *given_group(int32_t parts)
{
    struct fake *fake = fake_new();
    fake->parts = parts;
    fake->coordinator.is_on = true;
    fake->config.topic_missing_ms = 500;
    fake->config.metadata_max_age_ms = 2000;
    for (int32_t i = 0; i < FAKE_PARTS_MAX; i++) { fake->coordinator.committed[i] = -1; }
    return fake;
}

static struct client_group ordinary(void)
{
    struct client_group group;
    client_group_default(&group);
    group.token = 77;
    group.group_id = base_slice_text("g");
    group.topics[0] = base_slice_text("t");
    group.topic_count = 1;
    group.start = CLIENT_FROM_BEGINNING;
    group.reset = CLIENT_RESET_BEGINNING;
    group.heartbeat_ms = 100;
    group.auto_commit_ms = 1000;
    return group;
}

static void join(struct fake *fake, struct client_group group)
{
    fake_start(fake);
    assert_int_equal(client_join(fake->client, &group), BASE_OK);
    fake_run(fake, 50);
}

/* A member that was given all `parts` and has polled a and b of the first. */
static struct fake *given_reader(int32_t parts)
{
    struct fake *fake = given_group(parts);
    fake_append(fake, 0, letters, 2, CODEC_NONE);
    join(fake, ordinary());
    fake_run(fake, 1);
    fake->result_count = 0;
    return fake;
}

static void fails_with(struct fake *fake, int16_t api_key, int16_t error)
{
    struct fake_group *group = &fake->coordinator;
    group->errors[api_key][group->error_count[api_key]] = error;
    group->error_count[api_key] += 1;
}

static struct client_group_view view_of(const struct fake *fake)
{
    struct client_group_view view;
    client_group_view(fake->client, &view);
    return view;
}

/* What was told, in order: +P assigned, -P revoked, !P lost, ~P@O resumed, P@O committed, vVALUE a record, x ended by an error, . left */
static const char *told(const struct fake *fake)
{
    static char words[4096];
    size_t used = 0;
    words[0] = '\0';
    for (uint32_t i = 0; i < fake->result_count; i++) {
        const struct client_result *is = &fake->results[i].is;
        char word[96] = "";
        switch (is->kind) {
        case CLIENT_ASSIGNED: (void)snprintf(word, sizeof word, "+%d", (int)is->partition); break;
        case CLIENT_RESUMED: (void)snprintf(word, sizeof word, "~%d@%d", (int)is->partition, (int)is->offset); break;
        case CLIENT_COMMITTED: (void)snprintf(word, sizeof word, "%d@%d", (int)is->partition, (int)is->offset); break;
        case CLIENT_REVOKED:
            (void)snprintf(word, sizeof word, "%c%d", is->outcome == CLIENT_ACKED ? '-' : '!', (int)is->partition);
            break;
        case CLIENT_RECORD: (void)snprintf(word, sizeof word, "v%s", fake->results[i].value); break;
        case CLIENT_GROUP_FAILED: (void)snprintf(word, sizeof word, "x%d", (int)is->error); break;
        case CLIENT_LEFT: (void)snprintf(word, sizeof word, "."); break;
        case CLIENT_AT_END:
        case CLIENT_PRODUCED:
        case CLIENT_FAILED:
        case CLIENT_ANSWER: continue;
        }
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", used == 0 ? "" : " ", word);
    }
    return words;
}

static void expect_told(struct fake *fake, const char *expected)
{
    assert_string_equal(told(fake), expected);
    fake->result_count = 0;
}

static void a_member_reads_what_it_is_given_and_commits_what_was_polled(void **state)
{
    (void)state;
    struct fake *fake = given_group(2);
    fake_append(fake, 0, letters, 2, CODEC_NONE);
    fake_append(fake, 1, letters + 2, 1, CODEC_NONE);
    join(fake, ordinary());
    fake_run(fake, 1);
    expect_told(fake, "+0 +1 ~0@-1 ~1@-1 va vb vc");
    assert_int_equal(fake->coordinator.committed[0], -1);
    fake_run(fake, 1000);
    expect_told(fake, "0@2 1@1");
    assert_int_equal(fake->coordinator.committed[0], 2);
    assert_int_equal(fake->coordinator.committed[1], 1);
    assert_string_equal(fake->coordinator.strategy, "range");
    assert_true(fake->requests[12] >= 9); /* heartbeats */
    uint32_t commits = fake->requests[8];
    fake_run(fake, 5000);
    assert_int_equal(fake->requests[8], commits); /* nothing new, nothing committed */
    fake_free(fake);
}

static void a_member_goes_on_where_the_group_has_committed(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    fake_append(fake, 0, letters, 5, CODEC_NONE);
    fake->coordinator.committed[0] = 3;
    join(fake, ordinary());
    fake_run(fake, 1);
    expect_told(fake, "+0 ~0@3 vd ve");
    fake_free(fake);
}

static void a_commit_out_of_range_begins_where_it_was_told(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    fake_append(fake, 0, letters, 2, CODEC_NONE);
    fake->coordinator.committed[0] = 30;
    join(fake, ordinary());
    fake_run(fake, 500);
    expect_told(fake, "+0 ~0@30 va vb");
    fake_free(fake);
}

static void leaving_commits_and_gives_no_record_any_more(void **state)
{
    (void)state;
    struct fake *fake = given_reader(1);
    client_leave(fake->client);
    fake_append(fake, 0, letters + 2, 1, CODEC_NONE);
    fake_run(fake, 1000);
    expect_told(fake, "0@2 -0 .");
    assert_int_equal(fake->coordinator.has_left, 1);
    assert_int_equal(fake->coordinator.committed[0], 2);
    fake_free(fake);
}

static void a_leave_in_the_middle_of_what_was_fetched_commits_what_was_polled(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    fake_append(fake, 0, letters, 5, CODEC_NONE);
    fake->polls = false;
    join(fake, ordinary());
    struct client_result result = {.kind = CLIENT_LEFT};
    while (result.kind != CLIENT_RECORD) { assert_true(client_poll(fake->client, &result)); }
    assert_int_equal(result.offset, 0);
    client_leave(fake->client);
    fake->polls = true;
    fake_run(fake, 1000);
    expect_told(fake, "0@1 -0 .");
    fake_free(fake);
}

static void a_leave_without_an_answer_ends_all_the_same(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    join(fake, ordinary());
    fake->drops_requests = true;
    fake->result_count = 0;
    client_leave(fake->client);
    fake_run(fake, 2000);      /* request_timeout_ms */
    expect_told(fake, "!0 ."); /* nobody said that its offset is committed */
    fake->drops_requests = false;
    fake_free(fake);
}

static void an_eager_member_gives_everything_up_before_it_joins_again(void **state)
{
    (void)state;
    struct fake *fake = given_reader(2);
    fake->coordinator.is_follower = true;
    fake->coordinator.given = 2;
    fails_with(fake, 12, 27); /* Heartbeat: REBALANCE_IN_PROGRESS */
    fake_run(fake, 300);
    expect_told(fake, "0@2 1@0 -0 -1 +1 ~1@0");
    assert_int_equal(fake->coordinator.owned, 0);
    assert_int_equal(view_of(fake).generation, 2);
    fake_free(fake);
}

static void a_cooperative_member_reads_on_and_gives_up_only_what_it_must(void **state)
{
    (void)state;
    struct fake *fake = given_group(3);
    struct client_group group = ordinary();
    group.strategy = CLIENT_COOPERATIVE_STICKY;
    fake->coordinator.is_follower = true;
    fake->coordinator.given = 3;
    join(fake, group);
    fake_append(fake, 0, letters, 2, CODEC_NONE);
    fake_run(fake, 1);
    expect_told(fake, "+0 +1 ~0@-1 ~1@-1 va vb");
    fake->coordinator.given = 2;
    fails_with(fake, 12, 27);
    fake_run(fake, 300);
    /* one round takes 0 away, and the next says so to the others */
    expect_told(fake, "0@2 -0");
    assert_int_equal(fake->coordinator.generation, 3);
    assert_int_equal(fake->coordinator.owned, 2);
    assert_int_equal(fake->coordinator.owned_generation, 2);
    assert_string_equal(fake->coordinator.strategy, "cooperative-sticky");
    fake_append(fake, 1, letters + 2, 1, CODEC_NONE);
    fake_run(fake, 600);
    expect_told(fake, "vc");
    fake_free(fake);
}

static void a_member_that_was_thrown_out_has_lost_its_partitions(void **state)
{
    (void)state;
    static const int16_t errors[] = {25, 22}; /* UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION */
    for (size_t i = 0; i < BASE_ARRAY_COUNT(errors); i++) {
        struct fake *fake = given_reader(1);
        fails_with(fake, 12, errors[i]);
        fake_run(fake, 900);                    /* the fetch that waits for records is answered */
        expect_told(fake, "!0 +0 ~0@-1 va vb"); /* again: it was not committed */
        fake_free(fake);
    }
}

static void a_commit_that_came_too_late_is_a_loss(void **state)
{
    (void)state;
    struct fake *fake = given_reader(1);
    fails_with(fake, 12, 27);
    fails_with(fake, 8, 27);
    fake_run(fake, 900);
    expect_told(fake, "!0 +0 ~0@-1 va vb");
    fake_free(fake);
}

/* It gives up all while a commit is under way, and has polled more since: that is committed too, before others read on. */
static void a_commit_under_way_says_nothing_of_what_was_polled_since(void **state)
{
    (void)state;
    struct fake *fake = given_reader(1);
    fake->coordinator.holds_commits = true;
    fake_run(fake, 1000);
    fake_append(fake, 0, letters + 2, 1, CODEC_NONE);
    fake_run(fake, 600);
    expect_told(fake, "vc");
    fake->parts = 2; /* seen by the leader, which wants the group to divide itself anew */
    fake_run(fake, 600);
    assert_int_equal(fake->coordinator.committed[0], -1);
    fake->coordinator.holds_commits = false;
    fake_run(fake, 300);
    expect_told(fake, "0@2 0@3 -0 +0 +1 ~0@3 ~1@-1");
    assert_int_equal(fake->coordinator.committed[0], 3);
    fake_free(fake);
}

/* A heartbeat of the old generation is answered when the next JoinGroup is on its way already. */
static void a_late_answer_of_the_last_round_does_not_end_the_next(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    struct client_group group = ordinary();
    group.rebalance_timeout_ms = 300; /* no longer is its commit waited for */
    join(fake, group);
    fake_append(fake, 0, letters, 2, CODEC_NONE);
    fake_run(fake, 600);
    fake->coordinator.holds_commits = true;
    fake->parts = 2;
    uint32_t joins = fake->requests[11];
    fake_run(fake, 1900); /* a commit, heartbeats behind it, and the round that the leader wants */
    assert_int_equal(fake->requests[11], joins);
    fails_with(fake, 12, 27);
    fake->coordinator.holds_commits = false;
    fake_run(fake, 300);
    assert_int_equal(fake->coordinator.errors_used[12], 1);
    assert_int_equal(fake->requests[11], joins + 1);
    assert_int_equal(view_of(fake).owned, 2);
    fake_free(fake);
}

/* It asks again, but not at once: else the two would have nothing else to do. */
static void an_answer_that_leaves_partitions_out_is_asked_for_again_later(void **state)
{
    (void)state;
    static const int16_t keys[] = {8, 9};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(keys); i++) {
        struct fake *fake = given_group(1);
        bool is_commit = keys[i] == 8;
        fake_append(fake, 0, letters, 2, CODEC_NONE);
        fake->coordinator.says_nothing = !is_commit;
        join(fake, ordinary());
        fake->coordinator.says_nothing = true;
        fake_run(fake, 2000);
        assert_in_range(fake->requests[keys[i]], 5, 40);
        fake->coordinator.says_nothing = false;
        fake_run(fake, 3000);
        assert_int_equal(fake->coordinator.committed[0], 2);
        assert_int_equal(view_of(fake).uncommitted, 0);
        fake_free(fake);
    }
}

static void an_error_for_good_ends_the_group(void **state)
{
    (void)state;
    static const struct {
        int16_t api_key;
        int16_t error;
    } cases[] = {{10, 30}, {11, 23}, {11, 26}, {11, 81}, {14, 30}, {12, 82}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        struct fake *fake = given_group(1);
        char expected[16];
        fails_with(fake, cases[i].api_key, cases[i].error);
        join(fake, ordinary());
        fake_run(fake, 1000);
        (void)snprintf(expected, sizeof expected, "x%d", cases[i].error);
        const char *end = strchr(told(fake), 'x');
        assert_non_null(end);
        assert_string_equal(end, expected);
        assert_int_equal(view_of(fake).owned, 0);
        fake_free(fake);
    }
}

/* Every request fails once in every way that may heal: the member reads and commits all the same. */
static void trouble_that_may_heal_is_lived_through(void **state)
{
    (void)state;
    static const int16_t keys[] = {10, 11, 14, 12, 8, 9};
    static const int16_t errors[] = {14, 15, 16, 27, 25, 22, 0}; /* 0: the connection */
    for (size_t i = 0; i < BASE_ARRAY_COUNT(keys); i++) {
        for (size_t j = 0; j < BASE_ARRAY_COUNT(errors); j++) {
            bool is_of_member = errors[j] == 27 || errors[j] == 25 || errors[j] == 22;
            if (is_of_member && (keys[i] == 10 || keys[i] == 9)) { continue; }
            struct fake *fake = given_group(1);
            fake_append(fake, 0, letters, 2, CODEC_NONE);
            if (errors[j] == 0) {
                fake->coordinator.lose[keys[i]] = 1;
            } else {
                fails_with(fake, keys[i], errors[j]);
            }
            join(fake, ordinary());
            fake_run(fake, 5000);
            assert_int_equal(fake->coordinator.committed[0], 2);
            assert_true(fake_count(fake, CLIENT_RECORD) >= 2);
            client_leave(fake->client);
            fake_run(fake, 2000);
            assert_int_equal(fake_count(fake, CLIENT_LEFT), 1);
            fake_free(fake);
        }
    }
}

static void every_version_of_every_request_is_said(void **state)
{
    (void)state;
    static const int16_t keys[] = {10, 11, 14, 12, 8, 9, 13};
    static const int16_t firsts[] = {0, 2, 0, 0, 2, 1, 0};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(keys); i++) {
        for (int16_t version = firsts[i]; version <= kafka_api_info(keys[i])->version_stable; version++) {
            struct fake *fake = given_group(1);
            fake_append(fake, 0, letters, 2, CODEC_NONE);
            fake->version_max[keys[i]] = version;
            join(fake, ordinary());
            fake_run(fake, 1500);
            client_leave(fake->client);
            fake_run(fake, 1000);
            assert_int_equal(fake->versions[keys[i]], version);
            assert_int_equal(fake->coordinator.committed[0], 2);
            assert_int_equal(fake->coordinator.has_left, 1);
            fake_free(fake);
        }
    }
}

static void a_broker_too_old_for_groups_is_told(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    fake->version_max[11] = -1;
    join(fake, ordinary());
    fake_run(fake, 500);
    expect_told(fake, "x35");
    fake_free(fake);
}

static void a_static_member_does_not_leave(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    struct client_group group = ordinary();
    group.instance_id = base_slice_text("i-1");
    join(fake, group);
    fake->result_count = 0;
    assert_int_equal(fake->requests[11], 1); /* no id has to be asked for first */
    client_leave(fake->client);
    fake_run(fake, 500);
    expect_told(fake, "0@0 -0 .");
    assert_int_equal(fake->coordinator.has_left, 0);
    fake_free(fake);
}

static void without_auto_commit_only_what_was_wanted_is_committed(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    struct client_group group = ordinary();
    group.auto_commit_ms = 0;
    fake_append(fake, 0, letters, 2, CODEC_NONE);
    join(fake, group);
    fake_run(fake, 3000);
    assert_int_equal(fake->requests[8], 0);
    client_commit(fake->client);
    fake_run(fake, 100);
    assert_int_equal(fake->coordinator.committed[0], 2);
    fake_append(fake, 0, letters + 2, 1, CODEC_NONE);
    fake_run(fake, 600);
    client_leave(fake->client);
    fake_run(fake, 500);
    assert_int_equal(fake->coordinator.committed[0], 2);
    fake_free(fake);
}

/* ---- leading ---- */

static void the_leader_divides_by_range_among_all_that_read_the_topic(void **state)
{
    (void)state;
    struct fake *fake = given_group(4);
    fake_group_add(fake, "m-2", "t", 0, -1);
    fake_group_add(fake, "m-0", "t", 0, -1);
    fake_group_add(fake, "m-3", "other", 0, -1);
    fake->coordinator.others[2].words[1] = 9; /* a later version begins in the same way */
    join(fake, ordinary());
    fake_run(fake, 2000); /* `other` is found to be missing */
    assert_string_equal(fake->coordinator.divided, "m-0=0,1 m-1=2 m-2=3 m-3=");
    fake_free(fake);
}

static void static_members_come_first_by_their_names(void **state)
{
    (void)state;
    struct fake *fake = given_group(3);
    fake_group_add(fake, "m-9", "t", 0, -1);
    fake_group_add(fake, "m-0", "t", 0, -1);
    fake->coordinator.others[0].instance_id = "a";
    join(fake, ordinary());
    assert_string_equal(fake->coordinator.divided, "m-9=0 m-0=1 m-1=2");
    fake_free(fake);
}

static void a_member_whose_words_cant_be_read_gets_nothing(void **state)
{
    (void)state;
    struct fake *fake = given_group(2);
    fake_group_add(fake, "m-0", "t", 0, -1);
    fake->coordinator.others[0].words_bytes = 5;
    join(fake, ordinary());
    assert_string_equal(fake->coordinator.divided, "m-0= m-1=0,1");
    fake_free(fake);
}

static void partitions_that_are_added_are_divided_too(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    fake_group_add(fake, "m-2", "t", 0, -1);
    join(fake, ordinary());
    assert_string_equal(fake->coordinator.divided, "m-1=0 m-2=");
    fake->parts = 3;
    fake_run(fake, 2500); /* metadata_max_age_ms */
    assert_string_equal(fake->coordinator.divided, "m-1=0,1 m-2=2");
    fake_free(fake);
}

static void a_leader_that_needs_not_divide_still_watches(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    fake->coordinator.skips_assignment = true;
    fake->coordinator.given = 1;
    join(fake, ordinary());
    expect_told(fake, "+0 ~0@-1");
    fake->parts = 2;
    fake->coordinator.skips_assignment = false;
    fake_run(fake, 2500);
    assert_string_equal(fake->coordinator.divided, "m-1=0,1");
    fake_free(fake);
}

static void a_partition_that_the_leader_saw_first_is_waited_for(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    fake->coordinator.is_follower = true;
    fake->coordinator.given = 3;
    fake_append(fake, 1, letters, 1, CODEC_NONE);
    struct client_group group = ordinary();
    group.auto_commit_ms = 0;
    join(fake, group);
    fake_run(fake, 500);
    expect_told(fake, "+0 +1 ~0@-1 ~1@-1");
    fake->parts = 2;
    fake_run(fake, 450);
    expect_told(fake, "va");
    fake_free(fake);
}

static struct client_group sticky(void)
{
    struct client_group group = ordinary();
    group.strategy = CLIENT_COOPERATIVE_STICKY;
    return group;
}

static void sticky_takes_from_the_rich_but_gives_it_away_a_round_later(void **state)
{
    (void)state;
    struct fake *fake = given_group(4);
    fake_group_add(fake, "m-2", "t", 15, 5);
    join(fake, sticky());
    /* two of its four are to become ours, and stay with nobody while it may still read them */
    assert_string_equal(fake->coordinator.divided, "m-1= m-2=2,3");
    fake->coordinator.other_count = 0;
    fake_group_add(fake, "m-2", "t", 12, 6);
    fails_with(fake, 12, 27);
    fake_run(fake, 300);
    assert_string_equal(fake->coordinator.divided, "m-1=0,1 m-2=2,3");
    fake_free(fake);
}

static void what_two_say_to_own_is_given_to_nobody(void **state)
{
    (void)state;
    struct fake *fake = given_group(3);
    fake_group_add(fake, "m-2", "t", 3, 5);
    fake_group_add(fake, "m-3", "t", 2, 5);
    join(fake, sticky());
    assert_string_equal(fake->coordinator.divided, "m-1= m-2=0 m-3=2"); /* 1 would be ours */
    fake_free(fake);
}

static void who_owned_it_in_a_later_generation_keeps_it(void **state)
{
    (void)state;
    struct fake *fake = given_group(3);
    fake_group_add(fake, "m-2", "t", 2, 5);
    fake_group_add(fake, "m-3", "t", 2, 4);
    join(fake, sticky());
    assert_string_equal(fake->coordinator.divided, "m-1=0 m-2=1 m-3=2");
    fake_free(fake);
}

static void bad_configurations_are_refused(void **state)
{
    (void)state;
    struct fake *fake = given_group(1);
    fake_start(fake);
    struct client_group group = ordinary();
    group.topic_count = 0;
    assert_int_equal(client_join(fake->client, &group), BASE_BAD);
    group = ordinary();
    group.group_id = base_slice_text("");
    assert_int_equal(client_join(fake->client, &group), BASE_BAD);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_reads_what_it_is_given_and_commits_what_was_polled),
        cmocka_unit_test(a_member_goes_on_where_the_group_has_committed),
        cmocka_unit_test(a_commit_out_of_range_begins_where_it_was_told),
        cmocka_unit_test(leaving_commits_and_gives_no_record_any_more),
        cmocka_unit_test(a_leave_in_the_middle_of_what_was_fetched_commits_what_was_polled),
        cmocka_unit_test(a_leave_without_an_answer_ends_all_the_same),
        cmocka_unit_test(an_eager_member_gives_everything_up_before_it_joins_again),
        cmocka_unit_test(a_cooperative_member_reads_on_and_gives_up_only_what_it_must),
        cmocka_unit_test(a_member_that_was_thrown_out_has_lost_its_partitions),
        cmocka_unit_test(a_commit_that_came_too_late_is_a_loss),
        cmocka_unit_test(a_commit_under_way_says_nothing_of_what_was_polled_since),
        cmocka_unit_test(a_late_answer_of_the_last_round_does_not_end_the_next),
        cmocka_unit_test(an_answer_that_leaves_partitions_out_is_asked_for_again_later),
        cmocka_unit_test(an_error_for_good_ends_the_group),
        cmocka_unit_test(trouble_that_may_heal_is_lived_through),
        cmocka_unit_test(every_version_of_every_request_is_said),
        cmocka_unit_test(a_broker_too_old_for_groups_is_told),
        cmocka_unit_test(a_static_member_does_not_leave),
        cmocka_unit_test(without_auto_commit_only_what_was_wanted_is_committed),
        cmocka_unit_test(the_leader_divides_by_range_among_all_that_read_the_topic),
        cmocka_unit_test(static_members_come_first_by_their_names),
        cmocka_unit_test(a_member_whose_words_cant_be_read_gets_nothing),
        cmocka_unit_test(partitions_that_are_added_are_divided_too),
        cmocka_unit_test(a_leader_that_needs_not_divide_still_watches),
        cmocka_unit_test(a_partition_that_the_leader_saw_first_is_waited_for),
        cmocka_unit_test(sticky_takes_from_the_rich_but_gives_it_away_a_round_later),
        cmocka_unit_test(what_two_say_to_own_is_given_to_nobody),
        cmocka_unit_test(who_owned_it_in_a_later_generation_keeps_it),
        cmocka_unit_test(bad_configurations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
