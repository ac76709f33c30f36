/* test_group_told.c: what leaders, members and operators are told of a group, word by word, in every life of its log.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "desk.h"

typedef struct kafka_describe_groups_response_described_group described_group;
typedef struct kafka_describe_groups_response_described_group_member described_member;

static const char *bytes_of(struct kafka_bytes bytes)
{
    struct base_slice slice = kafka_bytes_slice(bytes);
    return text_of(kafka_text_of_slice(slice));
}

/* A static leader and another, with words of their own, in their first generation. */
struct pair {
    const char *leader, *other;
    uint32_t leader_join, other_join;
};

static struct who leader(void)
{
    return (struct who){.instance = "desk-1", .client = "one", .protocols = "range:a1,sticky:b1", .session_ms = 20000};
}

static struct who other(void)
{
    return (struct who){.client = "two", .protocols = "range:a2,sticky:b2", .rebalance_ms = 30000};
}

static struct pair given_pair(void)
{
    struct pair pair;
    pair.leader_join = join(leader());
    pair.other = id_of_new(other(), &pair.other_join);
    pass_ms(1000);
    pair.leader = text_of(joined(pair.leader_join)->member_id);
    return pair;
}

static void assign(struct pair pair)
{
    char words[256];
    struct base_text text;
    base_text_init(&text, words, sizeof words);
    base_text_add(&text, pair.leader);
    base_text_add(&text, "=x1,");
    base_text_add(&text, pair.other);
    base_text_add(&text, "=x2");
    uint32_t of_other = sync((struct who){.member = pair.other, .generation = 1}, NULL);
    uint32_t of_leader = sync((struct who){.member = pair.leader, .instance = "desk-1", .generation = 1}, words);
    assert_string_equal(assigned(of_leader), "x1");
    assert_string_equal(assigned(of_other), "x2");
}

static void a_leader_is_told_of_all_members_and_the_others_of_none(void **state)
{
    (void)state;
    open_desk();
    struct pair pair = given_pair();
    const struct kafka_join_group_response *of_leader = joined(pair.leader_join);
    assert_int_equal(of_leader->members_count, 2);
    assert_string_equal(text_of(of_leader->members[0].member_id), pair.leader);
    assert_string_equal(text_of(of_leader->members[0].group_instance_id), "desk-1");
    assert_string_equal(bytes_of(of_leader->members[0].metadata), "a1");
    assert_string_equal(text_of(of_leader->members[1].member_id), pair.other);
    assert_null(text_of(of_leader->members[1].group_instance_id));
    assert_string_equal(bytes_of(of_leader->members[1].metadata), "a2");
    const struct kafka_join_group_response *of_other = joined(pair.other_join);
    assert_int_equal(of_other->members_count, 0);
    assert_string_equal(text_of(of_other->leader), pair.leader);
    assert_string_equal(text_of(of_other->member_id), pair.other);
    assert_string_equal(text_of(of_other->protocol_name), "range");
    assert_string_equal(text_of(of_other->protocol_type), "consumer");
    assert_false(of_leader->skip_assignment);
}

static void expect_member(const described_member *line, const char *id, const char *instance, const char *client,
                          const char *metadata, const char *assignment)
{
    assert_string_equal(text_of(line->member_id), id);
    if (instance == NULL) {
        assert_null(text_of(line->group_instance_id));
    } else {
        assert_string_equal(text_of(line->group_instance_id), instance);
    }
    assert_string_equal(text_of(line->client_id), client);
    assert_string_equal(text_of(line->client_host), "/10.0.0.1");
    assert_string_equal(bytes_of(line->member_metadata), metadata);
    assert_string_equal(bytes_of(line->member_assignment), assignment);
}

static void a_group_is_described_with_what_its_members_said_and_were_assigned(void **state)
{
    (void)state;
    open_desk();
    struct pair pair = given_pair();
    const described_group *group = described("g", 5);
    assert_string_equal(text_of(group->group_state), "CompletingRebalance");
    assert_string_equal(text_of(group->protocol_data), ""); /* until it is stable, as in Kafka */
    expect_member(&group->members[0], pair.leader, "desk-1", "one", "", "");
    assign(pair);
    for (int life = 0; life < 3; life++) {
        group = described("g", 5);
        assert_int_equal(group->error_code, KAFKA_ERROR_NONE);
        assert_string_equal(text_of(group->group_id), "g");
        assert_string_equal(text_of(group->group_state), "Stable");
        assert_string_equal(text_of(group->protocol_type), "consumer");
        assert_string_equal(text_of(group->protocol_data), "range");
        assert_int_equal(group->members_count, 2);
        expect_member(&group->members[0], pair.leader, "desk-1", "one", "a1", "x1");
        expect_member(&group->members[1], pair.other, NULL, "two", "a2", "x2");
        if (life == 1) { begin_snapshot(group_log_of(base_slice_text("g"), desk.config.logs_count)); }
        restart();
    }
    (void)join((struct who){.member = pair.other, .client = "two", .protocols = "range:a3"}); /* another round */
    group = described("g", 5);
    assert_string_equal(text_of(group->group_state), "PreparingRebalance");
    assert_string_equal(text_of(group->protocol_data), "");
    assert_int_equal(group->members_count, 2);
}

static void what_times_members_asked_for_is_kept(void **state)
{
    (void)state;
    open_desk();
    struct pair pair = given_pair();
    assign(pair);
    for (int life = 0; life < 2; life++) {
        struct group_member_look look;
        uint32_t cursor = 0;
        for (uint32_t i = 0; group_each_member(desk.groups, &cursor, &look); i++) {
            bool is_leader = base_slice_equal(look.id, base_slice_text(pair.leader));
            assert_int_equal(look.session_ms, is_leader ? 20000 : 10000);
            assert_int_equal(look.rebalance_ms, is_leader ? 60000 : 30000);
            assert_true(i < 2);
        }
        restart();
    }
    pass_ms(10001); /* a session of the other, from when the log was led */
    assert_int_equal(members_count("g"), 1);
    pass_ms(9000);
    assert_int_equal(members_count("g"), 1);
    pass_ms(1001);
    assert_int_equal(members_count("g"), 0);
}

static const struct kafka_list_groups_response *list(void)
{
    static struct kafka_list_groups_request request;
    kafka_list_groups_request_init(&request);
    return answer_of(ask(GROUP_LIST, 5, "", &request));
}

static void groups_are_listed_with_their_names_states_and_kinds(void **state)
{
    (void)state;
    open_desk();
    struct pair pair = given_pair();
    assign(pair);
    (void)commit((struct who){.group = "simple", .generation = -1}, "t", 0, 9);
    (void)id_of_new((struct who){.group = "others", .type = "connect", .protocols = "v1:x"}, &pair.other_join);
    static const struct {
        const char *id, *type, *state;
    } expected[] = {{"g", "consumer", "Stable"}, {"others", "connect", "PreparingRebalance"}, {"simple", "", "Empty"}};
    const struct kafka_list_groups_response *answer = list();
    assert_int_equal(answer->groups_count, 3);
    uint32_t found = 0;
    for (int32_t i = 0; i < answer->groups_count; i++) {
        for (size_t k = 0; k < BASE_ARRAY_COUNT(expected); k++) {
            if (strcmp(text_of(answer->groups[i].group_id), expected[k].id) != 0) { continue; }
            assert_string_equal(text_of(answer->groups[i].protocol_type), expected[k].type);
            assert_string_equal(text_of(answer->groups[i].group_state), expected[k].state);
            assert_string_equal(text_of(answer->groups[i].group_type), "classic");
            found |= 1u << k;
        }
    }
    assert_int_equal(found, 7);
    pass_ms(1000);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, given_desk, expect_the_log_says_all)
    const struct CMUnitTest tests[] = {
        TEST(a_leader_is_told_of_all_members_and_the_others_of_none),
        TEST(a_group_is_described_with_what_its_members_said_and_were_assigned),
        TEST(what_times_members_asked_for_is_kept),
        TEST(groups_are_listed_with_their_names_states_and_kinds),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
