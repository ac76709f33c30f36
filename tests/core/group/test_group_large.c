/* test_group_large.c: requests that name much, of groups that hold much, are answered in time that grows with their sum, not with their
 * product; and what is looked at piece by piece comes to its end however often it is to begin.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "desk.h"

#include <stdio.h>

#define MEMBERS 1000
#define LINES   100000

static struct kafka_bytes assignment_words(uint32_t number)
{
    static uint8_t words[LINES][4];
    base_put_u32(words[number], number);
    return kafka_bytes_of(words[number], 4);
}

/* So many lines: for members that are not there, and then for each that is. */
static void an_assignment_may_name_more_members_than_there_are(void **state)
{
    (void)state;
    static uint32_t tokens[MEMBERS];
    static struct kafka_sync_group_request_sync_group_request_assignment lines[LINES];
    desk.config.proposal_bytes_max = 4 << 20;
    open_desk();
    for (uint32_t i = 0; i < MEMBERS; i++) { tokens[i] = join((struct who){.group = "g", .version = 3}); }
    pass_ms(1000);
    const char *first = text_of(joined(tokens[0])->member_id);
    for (uint32_t i = 0; i < LINES; i++) {
        kafka_sync_group_request_sync_group_request_assignment_init(&lines[i]);
        bool is_there = i >= LINES - MEMBERS;
        struct kafka_text id = joined(tokens[is_there ? i - (LINES - MEMBERS) : 0])->member_id;
        lines[i].member_id = is_there ? id : kafka_text_words("client-00000000-0000-4000-8000-000000000000");
        lines[i].assignment = assignment_words(i);
    }
    struct kafka_sync_group_request request;
    kafka_sync_group_request_init(&request);
    request.group_id = kafka_text_words("g");
    request.member_id = kafka_text_words(first);
    request.generation_id = 1;
    request.assignments = lines;
    request.assignments_count = LINES;
    const struct kafka_sync_group_response *answer = answer_of(ask(GROUP_SYNC, 4, "g", &request));
    assert_int_equal(answer->error_code, KAFKA_ERROR_NONE);
    const char *last = text_of(joined(tokens[MEMBERS - 1])->member_id);
    uint32_t synced = sync((struct who){.member = last, .generation = 1}, NULL);
    assert_int_equal(sync_error(synced), KAFKA_ERROR_NONE);
    struct base_slice words =
        kafka_bytes_slice(((const struct kafka_sync_group_response *)answer_of(synced))->assignment);
    assert_int_equal(words.size_bytes, 4);
    assert_int_equal(base_get_u32(words.at), LINES - 1);
}

static void many_may_leave_by_instances_that_are_not_there(void **state)
{
    (void)state;
    static struct kafka_leave_group_request_member_identity lines[LINES];
    open_desk();
    uint32_t first = join((struct who){.group = "g", .instance = "i0"});
    for (uint32_t i = 1; i < MEMBERS; i++) {
        char instance[16];
        (void)snprintf(instance, sizeof instance, "i%u", i);
        (void)join((struct who){.group = "g", .instance = text_of(kafka_text_words(instance))});
    }
    pass_ms(1000);
    assert_int_equal(joined(first)->generation_id, 1);
    for (uint32_t i = 0; i < LINES; i++) {
        kafka_leave_group_request_member_identity_init(&lines[i]);
        lines[i].member_id = kafka_text_words("");
        lines[i].group_instance_id = kafka_text_words(i == LINES / 2 ? "i0" : "gone");
    }
    struct kafka_leave_group_request request;
    kafka_leave_group_request_init(&request);
    request.group_id = kafka_text_words("g");
    request.members = lines;
    request.members_count = LINES;

    const struct kafka_leave_group_response *answer = answer_of(ask(GROUP_LEAVE, 5, "g", &request));
    assert_non_null(answer);
    assert_int_equal(answer->members[0].error_code, KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(answer->members[LINES / 2].error_code, KAFKA_ERROR_NONE);
    assert_int_equal(answer->members[LINES - 1].error_code, KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(members_count("g"), MEMBERS - 1);
}

/* A consumer's words, version 0: so many topics without a name, and one more. */
static const char *words_of(uint32_t count, const char *last)
{
    static char words[(2 << 20) + 64];
    size_t size = 6;
    base_put_u16((uint8_t *)words, 0);
    base_put_u32((uint8_t *)words + 2, count + 1);
    memset(words + size, 0, (size_t)2 * count);
    size += (size_t)2 * count;
    base_put_u16((uint8_t *)words + size, (uint16_t)strlen(last));
    memcpy(words + size + 2, last, strlen(last));
    size += 2 + strlen(last);
    base_put_u32((uint8_t *)words + size, UINT32_MAX); /* nothing of its own */
    assert_true(size + 4 <= sizeof words);
    return words;
}

#define NAMES 400000

static const char *given_reader_of_much(void)
{
    static struct kafka_join_group_request_join_group_request_protocol protocol;
    static struct kafka_join_group_request request;
    kafka_join_group_request_join_group_request_protocol_init(&protocol);
    kafka_join_group_request_init(&request);
    protocol.name = kafka_text_words("range");
    protocol.metadata = kafka_bytes_of(words_of(NAMES, "t"), 6 + 2 * NAMES + 2 + 1 + 4);
    request.group_id = kafka_text_words("g");
    request.member_id = kafka_text_words("");
    request.session_timeout_ms = 1800000;
    request.rebalance_timeout_ms = 60000;
    request.protocol_type = kafka_text_words("consumer");
    request.protocols = &protocol;
    request.protocols_count = 1;
    uint32_t token = ask(GROUP_JOIN, 3, "g", &request);
    pass_ms(1000);
    const char *id = text_of(joined(token)->member_id);
    assert_int_equal(sync_error(sync((struct who){.member = id, .generation = 1}, "")), KAFKA_ERROR_NONE);
    return id;
}

static void offsets_of_many_topics_can_be_deleted_of_a_group_that_reads_many(void **state)
{
    (void)state;
    static struct kafka_offset_delete_request_offset_delete_request_topic lines[4000];
    struct kafka_offset_delete_request_offset_delete_request_partition part;
    struct kafka_offset_delete_request request;
    desk.config.proposal_bytes_max = 4 << 20;
    open_desk();
    (void)given_reader_of_much();
    kafka_offset_delete_request_offset_delete_request_partition_init(&part);
    kafka_offset_delete_request_init(&request);
    request.group_id = kafka_text_words("g");
    request.topics = lines;
    request.topics_count = 4000;
    for (uint32_t i = 0; i < 4000; i++) {
        kafka_offset_delete_request_offset_delete_request_topic_init(&lines[i]);
        lines[i].name = kafka_text_words(i % 2 == 0 ? "t" : "u");
        lines[i].partitions = &part;
        lines[i].partitions_count = 1;
    }
    const struct kafka_offset_delete_response *answer = answer_of(ask(GROUP_OFFSET_DELETE, 0, "g", &request));
    assert_int_equal(answer->error_code, KAFKA_ERROR_NONE);
    assert_int_equal(answer->topics[3998].partitions[0].error_code, KAFKA_ERROR_GROUP_SUBSCRIBED_TO_TOPIC);
    assert_int_equal(answer->topics[3999].partitions[0].error_code, KAFKA_ERROR_NONE);
}

static void offsets_that_are_old_are_looked_at_together(void **state)
{
    (void)state;
    desk.config.proposal_bytes_max = 4 << 20;
    desk.config.offsets_retention_ms = 60000;
    open_desk();
    put_topic("many", 1000);
    struct who who = {.member = given_reader_of_much(), .generation = 1};
    for (int32_t i = 0; i < 4; i++) { assert_int_equal(commit_error(commit(who, "t", i, 9)), KAFKA_ERROR_NONE); }
    for (int32_t i = 0; i < 1000; i++) { assert_int_equal(commit_error(commit(who, "many", i, 9)), KAFKA_ERROR_NONE); }
    pass_ms(700000);
    assert_int_equal(fetched("g", "many", 0), -1);
    assert_int_equal(fetched("g", "many", 999), -1);
    assert_int_equal(fetched("g", "t", 0), 9); /* it reads this one */
    assert_int_equal(fetched("g", "t", 3), 9);
}

static int32_t listed(int32_t filters, const char *last)
{
    static struct kafka_text states[LINES * 3];
    for (int32_t i = 0; i < filters; i++) { states[i] = kafka_text_words(i + 1 == filters ? last : "nosuch"); }
    struct kafka_list_groups_request request;
    kafka_list_groups_request_init(&request);
    request.states_filter = states;
    request.states_filter_count = filters;
    const struct kafka_list_groups_response *answer = answer_of(ask(GROUP_LIST, 5, "", &request));
    assert_int_equal(answer->error_code, KAFKA_ERROR_NONE);
    return answer->groups_count;
}

static void groups_may_be_listed_by_a_filter_of_any_length(void **state)
{
    (void)state;
    open_desk();
    for (int i = 0; i < 1000; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "g%d", i);
        struct who who = {.group = text_of(kafka_text_words(name)), .generation = -1};
        assert_int_equal(commit_error(commit(who, "t", 0, 1)), KAFKA_ERROR_NONE);
    }
    assert_int_equal(listed(LINES * 3, "EMPTY"), 1000);
    assert_int_equal(listed(LINES * 3, "Stable"), 0);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------------ */

/* Of the log of group "g", which has no moment without a commit: a piece of what is kept up goes between two of them. */
static void pass_a_busy_round(int32_t number)
{
    (void)commit((struct who){.group = "g", .generation = -1}, "t", 0, number);
    land();
    assert_int_equal(held(), 1);
}

static void offsets_of_topics_that_went_are_gone_by_and_by_though_more_topics_go(void **state)
{
    (void)state;
    open_desk();
    put_topic("many", 400);
    for (int32_t i = 0; i < 400; i++) { (void)commit((struct who){.group = "g", .generation = -1}, "many", i, 9); }
    hold_log_of("g");
    remove_topic("many");
    for (int32_t i = 0; i < 20; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", i);
        put_topic(name, 1);
        pass_a_busy_round(i);
        remove_topic(name);
    }
    struct group_view view;
    group_view(desk.groups, &view);
    assert_int_equal(view.offsets, 2); /* of "t", in two groups */
    desk.is_holding = false;
    land();
}

static void old_offsets_are_gone_by_and_by_though_the_next_check_is_due_before_this_one_has_ended(void **state)
{
    (void)state;
    desk.config.offsets_retention_ms = 100000;
    desk.config.offsets_check_ms = 100;
    open_desk();
    put_topic("many", 400);
    for (int32_t i = 0; i < 400; i++) { (void)commit((struct who){.group = "g", .generation = -1}, "many", i, 9); }
    pass_ms(90000);
    hold_log_of("g");
    for (int32_t i = 0; i < 120; i++) {
        pass_a_busy_round(i);
        pass_ms(100);
    }
    struct group_view view;
    group_view(desk.groups, &view);
    assert_int_equal(view.offsets, 2);
    desk.is_holding = false;
    land();
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, given_desk, expect_the_log_says_all)
    const struct CMUnitTest tests[] = {
        TEST(an_assignment_may_name_more_members_than_there_are),
        TEST(many_may_leave_by_instances_that_are_not_there),
        TEST(offsets_of_many_topics_can_be_deleted_of_a_group_that_reads_many),
        TEST(offsets_that_are_old_are_looked_at_together),
        TEST(groups_may_be_listed_by_a_filter_of_any_length),
        TEST(offsets_of_topics_that_went_are_gone_by_and_by_though_more_topics_go),
        TEST(old_offsets_are_gone_by_and_by_though_the_next_check_is_due_before_this_one_has_ended),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
