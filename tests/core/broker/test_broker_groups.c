/* test_broker_groups.c: the coordinators of a node go by what it was told of groups.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_fetch.h"

#define JOIN_VERSION   3 /* the last one that joins without an id, the first time */
#define COMMIT_VERSION 7
#define FETCH_VERSION  5
#define LOGS           8
#define MS             UINT64_C(1000000)

static const char topic_name[] = "t";

static void tell_logs(struct broker_config *config) { config->coordinator_groups = LOGS; }

/* Its groups' logs that are here are led. */
static struct shard *given_a_node(void (*tell)(struct broker_config *config))
{
    struct shard *shard = shard_make_told(0, tell);
    shard_start(shard);
    assert_true(shard->is_ready);
    (void)shard_topic(shard, topic_name, true);
    return shard;
}

/* One of those that are coordinated here; the n-th of them. */
static const char *group_here(const struct shard *shard, int n)
{
    static char name[2] = "a";
    for (name[0] = 'a';; name[0] = (char)(name[0] + 1)) {
        assert_true(name[0] <= 'z');
        uint32_t log = group_log_of(base_slice_text(name), LOGS);
        bool is_here = shard_of(shard->broker, coordinator_part(log)) == shard->number;
        if (is_here && n-- == 0) { return name; }
    }
}

/* It has begun to wait for the others, or is told why not. */
static int16_t join(struct shard *shard, uint32_t slot, const char *group, int32_t session_ms)
{
    struct kafka_join_group_request_join_group_request_protocol protocol;
    kafka_join_group_request_join_group_request_protocol_init(&protocol);
    protocol.name = kafka_text_words("range");
    protocol.metadata = kafka_bytes_of("m", 1);
    struct kafka_join_group_request request;
    kafka_join_group_request_init(&request);
    request.group_id = kafka_text_words(group);
    request.session_timeout_ms = session_ms;
    request.rebalance_timeout_ms = 60000;
    request.member_id = kafka_text_words("");
    request.protocol_type = kafka_text_words("consumer");
    request.protocols = &protocol;
    request.protocols_count = 1;
    shard_ask(shard, slot, KAFKA_MESSAGE_JOIN_GROUP_REQUEST, JOIN_VERSION, &request);
    struct kafka_join_group_response answer;
    bool is_answered = shard_answer(shard, KAFKA_MESSAGE_JOIN_GROUP_RESPONSE, JOIN_VERSION, &answer);
    if (is_answered) { assert_int_not_equal(answer.error_code, KAFKA_ERROR_NONE); }
    return is_answered ? answer.error_code : KAFKA_ERROR_NONE;
}

static int16_t commit(struct shard *shard, uint32_t slot, const char *group, int64_t offset, const char *words)
{
    struct kafka_offset_commit_request_offset_commit_request_partition partition;
    kafka_offset_commit_request_offset_commit_request_partition_init(&partition);
    partition.committed_offset = offset;
    partition.committed_metadata = kafka_text_words(words);
    struct kafka_offset_commit_request_offset_commit_request_topic topic;
    kafka_offset_commit_request_offset_commit_request_topic_init(&topic);
    topic.name = kafka_text_words(topic_name);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    struct kafka_offset_commit_request request;
    kafka_offset_commit_request_init(&request);
    request.group_id = kafka_text_words(group);
    request.topics = &topic;
    request.topics_count = 1;
    shard_ask(shard, slot, KAFKA_MESSAGE_OFFSET_COMMIT_REQUEST, COMMIT_VERSION, &request);
    struct kafka_offset_commit_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_OFFSET_COMMIT_RESPONSE, COMMIT_VERSION, &answer));
    return answer.topics[0].partitions[0].error_code;
}

static int64_t fetched(struct shard *shard, uint32_t slot, const char *group)
{
    int32_t index = 0;
    struct kafka_offset_fetch_request_offset_fetch_request_topic topic;
    kafka_offset_fetch_request_offset_fetch_request_topic_init(&topic);
    topic.name = kafka_text_words(topic_name);
    topic.partition_indexes = &index;
    topic.partition_indexes_count = 1;
    struct kafka_offset_fetch_request request;
    kafka_offset_fetch_request_init(&request);
    request.group_id = kafka_text_words(group);
    request.topics = &topic;
    request.topics_count = 1;
    shard_ask(shard, slot, KAFKA_MESSAGE_OFFSET_FETCH_REQUEST, FETCH_VERSION, &request);
    struct kafka_offset_fetch_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_OFFSET_FETCH_RESPONSE, FETCH_VERSION, &answer));
    assert_int_equal(answer.error_code, KAFKA_ERROR_NONE);
    return answer.topics[0].partitions[0].committed_offset;
}

/* Alarms ring as they come. */
static void pass_ms(struct shard *shard, uint64_t ms)
{
    uint64_t end_ns = shard->now_ns + ms * MS;
    while (shard->alarm_ns < end_ns) { shard_wait(shard, base_max_u64(shard->alarm_ns, shard->now_ns)); }
    shard_wait(shard, end_ns);
}

static void tell_of_members(struct broker_config *config)
{
    tell_logs(config);
    config->group_size_max = 2;
    config->group_session_min_ms = 7000;
    config->group_session_max_ms = 9000;
}

static void a_group_has_as_many_members_as_the_node_was_told(void **state)
{
    (void)state;
    struct shard *shard = given_a_node(tell_of_members);
    const char *group = group_here(shard, 0);
    for (int i = 0; i < 2; i++) { assert_int_equal(join(shard, shard_connect(shard), group, 8000), KAFKA_ERROR_NONE); }
    assert_int_equal(join(shard, shard_connect(shard), group, 8000), KAFKA_ERROR_GROUP_MAX_SIZE_REACHED);
    shard_free(shard);
}

static void a_session_lasts_between_what_the_node_was_told(void **state)
{
    (void)state;
    struct shard *shard = given_a_node(tell_of_members);
    const char *group = group_here(shard, 0);
    assert_int_equal(join(shard, shard_connect(shard), group, 6999), KAFKA_ERROR_INVALID_SESSION_TIMEOUT);
    assert_int_equal(join(shard, shard_connect(shard), group, 9001), KAFKA_ERROR_INVALID_SESSION_TIMEOUT);
    assert_int_equal(join(shard, shard_connect(shard), group, 7000), KAFKA_ERROR_NONE);
    assert_int_equal(join(shard, shard_connect(shard), group, 9000), KAFKA_ERROR_NONE);
    shard_free(shard);
}

static void tell_of_delay(struct broker_config *config)
{
    tell_logs(config);
    config->group_initial_delay_ms = 2000;
}

static void a_new_group_waits_for_others_as_long_as_the_node_was_told(void **state)
{
    (void)state;
    struct shard *shard = given_a_node(tell_of_delay);
    assert_int_equal(join(shard, shard_connect(shard), group_here(shard, 0), 8000), KAFKA_ERROR_NONE);
    struct kafka_join_group_response answer;
    pass_ms(shard, 1999);
    assert_false(shard_answer(shard, KAFKA_MESSAGE_JOIN_GROUP_RESPONSE, JOIN_VERSION, &answer));
    pass_ms(shard, 1);
    assert_true(shard_answer(shard, KAFKA_MESSAGE_JOIN_GROUP_RESPONSE, JOIN_VERSION, &answer));
    assert_int_equal(answer.error_code, KAFKA_ERROR_NONE);
    assert_int_equal(answer.generation_id, 1);
    shard_free(shard);
}

static void tell_of_words(struct broker_config *config)
{
    tell_logs(config);
    config->offset_metadata_max = 3;
}

static void words_beside_an_offset_have_the_length_that_the_node_was_told(void **state)
{
    (void)state;
    struct shard *shard = given_a_node(tell_of_words);
    uint32_t slot = shard_connect(shard);
    const char *group = group_here(shard, 0);
    assert_int_equal(commit(shard, slot, group, 5, "123"), KAFKA_ERROR_NONE);
    assert_int_equal(commit(shard, slot, group, 6, "1234"), KAFKA_ERROR_OFFSET_METADATA_TOO_LARGE);
    assert_int_equal(fetched(shard, slot, group), 5);
    shard_free(shard);
}

static void tell_of_retention(struct broker_config *config)
{
    tell_logs(config);
    config->offsets_retention_minutes = 2;
    config->offsets_check_ms = 1000;
    config->idle_ms = 3600000;
}

static void offsets_live_as_many_minutes_as_the_node_was_told(void **state)
{
    (void)state;
    struct shard *shard = given_a_node(tell_of_retention);
    uint32_t slot = shard_connect(shard);
    const char *group = group_here(shard, 0);
    assert_int_equal(commit(shard, slot, group, 5, ""), KAFKA_ERROR_NONE);
    pass_ms(shard, 119000);
    assert_int_equal(fetched(shard, slot, group), 5);
    pass_ms(shard, 2000); /* and looked at every second */
    assert_int_equal(fetched(shard, slot, group), -1);
    shard_free(shard);
}

static void tell_of_tables(struct broker_config *config)
{
    tell_logs(config);
    config->groups_max = 2;
    config->group_members_max = 1;
    config->group_offsets_max = 1;
}

static void there_are_as_many_groups_members_and_offsets_as_the_node_was_told(void **state)
{
    (void)state;
    struct shard *shard = given_a_node(tell_of_tables);
    uint32_t slot = shard_connect(shard);
    assert_int_equal(commit(shard, slot, group_here(shard, 0), 5, ""), KAFKA_ERROR_NONE);
    assert_int_equal(commit(shard, slot, group_here(shard, 1), 5, ""), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(join(shard, shard_connect(shard), group_here(shard, 1), 8000), KAFKA_ERROR_NONE);
    assert_int_equal(join(shard, shard_connect(shard), group_here(shard, 1), 8000),
                     KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(join(shard, shard_connect(shard), group_here(shard, 2), 8000),
                     KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    struct group_view view;
    group_view(broker_groups(shard->broker), &view);
    assert_int_equal(view.refused[GROUP_LIMIT_OFFSETS], 1);
    assert_int_equal(view.refused[GROUP_LIMIT_MEMBERS], 1);
    assert_int_equal(view.refused[GROUP_LIMIT_GROUPS], 1);
    shard_free(shard);
}

#define REQUESTS 8

static void tell_few_requests(struct broker_config *config)
{
    tell_logs(config);
    config->few.requests = REQUESTS;
}

struct other_join {
    struct group_loan loan;
    struct kafka_join_group_request_join_group_request_protocol protocol;
    struct kafka_join_group_request request;
    uint64_t room[256];
};

/* One that somebody sends who has connected to the other shard. */
static void join_by_the_other(struct shard *shard, const char *group, struct other_join *join)
{
    kafka_join_group_request_join_group_request_protocol_init(&join->protocol);
    join->protocol.name = kafka_text_words("range");
    kafka_join_group_request_init(&join->request);
    join->request.group_id = kafka_text_words(group);
    join->request.session_timeout_ms = 8000;
    join->request.rebalance_timeout_ms = 60000;
    join->request.member_id = kafka_text_words("");
    join->request.protocol_type = kafka_text_words("consumer");
    join->request.protocols = &join->protocol;
    join->request.protocols_count = 1;
    join->loan = (struct group_loan){.request = {.kind = GROUP_JOIN,
                                                 .version = JOIN_VERSION,
                                                 .group_id = base_slice_text(group),
                                                 .request = &join->request,
                                                 .client_id = base_slice_text("client"),
                                                 .client_host = base_slice_text("/127.0.0.1")},
                                     .asker = {.shard = 1 - shard->number}};
    base_arena_init(&join->loan.arena, join->room, sizeof join->room);
    struct port_message message = {.kind = MSG_GROUP, .lent = &join->loan, .lent_bytes = sizeof join->loan};
    shard_tell(shard, &message);
}

/* All of its members may have connected to one shard, which lets half of its requests join. */
static void a_group_is_no_larger_than_what_joins_on_one_shard(void **state)
{
    (void)state;
    struct shard *shard = given_a_node(tell_few_requests);
    const char *group = group_here(shard, 0);
    static struct other_join joins[REQUESTS / 2 + 1];
    for (uint32_t i = 0; i < REQUESTS / 2; i++) { join_by_the_other(shard, group, &joins[i]); }
    assert_int_equal(shard_told(shard, MSG_GROUPED), 0); /* they wait for the others */
    join_by_the_other(shard, group, &joins[REQUESTS / 2]);
    assert_int_equal(shard_told(shard, MSG_GROUPED), 1);
    const struct kafka_join_group_response *answer = joins[REQUESTS / 2].loan.response;
    assert_non_null(answer);
    assert_int_equal(answer->error_code, KAFKA_ERROR_GROUP_MAX_SIZE_REACHED);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_has_as_many_members_as_the_node_was_told),
        cmocka_unit_test(a_group_is_no_larger_than_what_joins_on_one_shard),
        cmocka_unit_test(a_session_lasts_between_what_the_node_was_told),
        cmocka_unit_test(a_new_group_waits_for_others_as_long_as_the_node_was_told),
        cmocka_unit_test(words_beside_an_offset_have_the_length_that_the_node_was_told),
        cmocka_unit_test(offsets_live_as_many_minutes_as_the_node_was_told),
        cmocka_unit_test(there_are_as_many_groups_members_and_offsets_as_the_node_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
