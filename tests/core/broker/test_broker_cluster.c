/* test_broker_cluster.c: what clients are told of nodes and of who leads: of all that are up, by the listener that they have come to.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/describe_cluster.h"
#include "wire/kafka/describe_topic_partitions.h"
#include "wire/kafka/metadata.h"

#define METADATA_VERSION 8 /* the last one without compact fields */
#define CLUSTER_VERSION  2

static const char topic_name[] = "t";

static void put_node(struct shard *shard, int32_t id, const char *listener, const char *rack, bool is_fenced)
{
    struct metadata_broker node = {
        .id = id, .epoch = id, .is_fenced = is_fenced, .endpoints_count = 1, .has_rack = rack != NULL};
    if (rack != NULL) { memcpy(node.rack, rack, strlen(rack) + 1); }
    memcpy(node.endpoints[0].name, listener, strlen(listener) + 1);
    memcpy(node.endpoints[0].host, "elsewhere", sizeof "elsewhere");
    node.endpoints[0].port = (uint16_t)(9000 + id);
    assert_int_equal(metadata_put_broker(shard->broker->image, &node), BASE_OK);
}

/* Itself, another one, one that is fenced, one that nobody of this listener reaches; a partition that is led, and one that is not. */
static struct shard *given_a_cluster(void)
{
    struct shard *shard = shard_make(0);
    shard_start(shard);
    assert_true(shard->is_ready);
    put_node(shard, 2, "PLAINTEXT", NULL, false);
    put_node(shard, 3, "PLAINTEXT", "c-rack", true);
    put_node(shard, 4, "INSIDE", NULL, false);
    struct base_uuid id = {{7}};
    assert_int_equal(metadata_put_topic(shard->broker->image, base_slice_text(topic_name), id), BASE_OK);
    struct metadata_partition led = {.id = {id, 0},
                                     .leader = 2,
                                     .leader_epoch = 5,
                                     .replicas_count = 3,
                                     .replicas = {2, 1, 3},
                                     .isr_count = 2,
                                     .isr = {1, 2}};
    struct metadata_partition alone = {
        .id = {id, 1}, .leader = -1, .leader_epoch = 6, .replicas_count = 1, .replicas = {3}};
    assert_int_equal(metadata_put_partition(shard->broker->image, &led), BASE_OK);
    assert_int_equal(metadata_put_partition(shard->broker->image, &alone), BASE_OK);
    return shard;
}

static void expect_text(struct kafka_text text, const char *words)
{
    assert_true(base_slice_equal(kafka_text_slice(text), base_slice_text(words)));
}

static void expect_ids(const int32_t *ids, int32_t count, const int32_t *wanted, int32_t wanted_count)
{
    assert_int_equal(count, wanted_count);
    for (int32_t i = 0; i < count; i++) { assert_int_equal(ids[i], wanted[i]); }
}

static void clients_hear_of_nodes_that_are_up_and_reached_by_their_listener_and_of_who_leads(void **state)
{
    (void)state;
    struct shard *shard = given_a_cluster();
    uint32_t slot = shard_connect(shard);
    struct kafka_metadata_request_metadata_request_topic topic;
    kafka_metadata_request_metadata_request_topic_init(&topic);
    topic.name = kafka_text_words(topic_name);
    for (int is_named = 0; is_named < 2; is_named++) {
        struct kafka_metadata_request request;
        kafka_metadata_request_init(&request);
        request.topics = &topic;
        request.topics_count = is_named == 1 ? 1 : -1;
        shard_ask(shard, slot, KAFKA_MESSAGE_METADATA_REQUEST, METADATA_VERSION, &request);
        struct kafka_metadata_response answer;
        assert_true(shard_answer(shard, KAFKA_MESSAGE_METADATA_RESPONSE, METADATA_VERSION, &answer));
        expect_text(answer.cluster_id, "a-cluster-of-one-shard");
        assert_int_equal(answer.controller_id, 1);
        assert_int_equal(answer.brokers_count, 2);
        assert_int_equal(answer.brokers[0].node_id, 1);
        expect_text(answer.brokers[0].host, "localhost");
        assert_int_equal(answer.brokers[0].port, 9092);
        expect_text(answer.brokers[0].rack, "a-rack");
        assert_int_equal(answer.brokers[1].node_id, 2);
        expect_text(answer.brokers[1].host, "elsewhere");
        assert_int_equal(answer.brokers[1].port, 9002);
        assert_true(kafka_text_is_null(answer.brokers[1].rack));
        assert_int_equal(answer.topics_count, 1);
        assert_int_equal(answer.topics[0].error_code, KAFKA_ERROR_NONE);
        expect_text(answer.topics[0].name, topic_name);
        assert_false(answer.topics[0].is_internal);
        assert_int_equal(answer.topics[0].partitions_count, 2);
        const struct kafka_metadata_response_metadata_response_partition *lines = answer.topics[0].partitions;
        assert_int_equal(lines[0].error_code, KAFKA_ERROR_NONE);
        assert_int_equal(lines[0].partition_index, 0);
        assert_int_equal(lines[0].leader_id, 2);
        assert_int_equal(lines[0].leader_epoch, 5);
        expect_ids(lines[0].replica_nodes, lines[0].replica_nodes_count, (const int32_t[]){2, 1, 3}, 3);
        expect_ids(lines[0].isr_nodes, lines[0].isr_nodes_count, (const int32_t[]){1, 2}, 2);
        assert_int_equal(lines[1].error_code, KAFKA_ERROR_LEADER_NOT_AVAILABLE);
        assert_int_equal(lines[1].partition_index, 1);
        assert_int_equal(lines[1].leader_id, -1);
        assert_int_equal(lines[1].leader_epoch, 6);
        expect_ids(lines[1].replica_nodes, lines[1].replica_nodes_count, (const int32_t[]){3}, 1);
        assert_int_equal(lines[1].isr_nodes_count, 0);
    }
    shard_free(shard);
}

static void operators_hear_of_fenced_nodes_where_they_ask_for_them(void **state)
{
    (void)state;
    struct shard *shard = given_a_cluster();
    uint32_t slot = shard_connect(shard);
    for (int is_all = 0; is_all < 2; is_all++) {
        struct kafka_describe_cluster_request request;
        kafka_describe_cluster_request_init(&request);
        request.include_fenced_brokers = is_all == 1;
        shard_ask(shard, slot, KAFKA_MESSAGE_DESCRIBE_CLUSTER_REQUEST, CLUSTER_VERSION, &request);
        struct kafka_describe_cluster_response answer;
        assert_true(shard_answer(shard, KAFKA_MESSAGE_DESCRIBE_CLUSTER_RESPONSE, CLUSTER_VERSION, &answer));
        assert_int_equal(answer.error_code, KAFKA_ERROR_NONE);
        expect_text(answer.cluster_id, "a-cluster-of-one-shard");
        assert_int_equal(answer.brokers_count, is_all == 1 ? 3 : 2);
        for (int32_t i = 0; i < answer.brokers_count; i++) {
            assert_int_equal(answer.brokers[i].broker_id, i + 1);
            assert_int_equal(answer.brokers[i].is_fenced, i == 2);
            assert_int_equal(answer.brokers[i].port, i == 0 ? 9092 : 9001 + i);
        }
        expect_text(answer.brokers[0].rack, "a-rack");
        if (is_all == 1) { expect_text(answer.brokers[2].rack, "c-rack"); }
    }
    shard_free(shard);
}

static void partitions_are_described_with_who_leads_them_and_who_has_them(void **state)
{
    (void)state;
    struct shard *shard = given_a_cluster();
    struct kafka_describe_topic_partitions_request_topic_request topic;
    kafka_describe_topic_partitions_request_topic_request_init(&topic);
    topic.name = kafka_text_words(topic_name);
    struct kafka_describe_topic_partitions_request request;
    kafka_describe_topic_partitions_request_init(&request);
    request.topics = &topic;
    request.topics_count = 1;
    shard_ask(shard, shard_connect(shard), KAFKA_MESSAGE_DESCRIBE_TOPIC_PARTITIONS_REQUEST, 0, &request);
    struct kafka_describe_topic_partitions_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_DESCRIBE_TOPIC_PARTITIONS_RESPONSE, 0, &answer));
    assert_int_equal(answer.topics_count, 1);
    assert_int_equal(answer.topics[0].partitions_count, 2);
    const struct kafka_describe_topic_partitions_response_describe_topic_partitions_response_partition *lines =
        answer.topics[0].partitions;
    assert_int_equal(lines[0].error_code, KAFKA_ERROR_NONE);
    assert_int_equal(lines[0].leader_id, 2);
    assert_int_equal(lines[0].leader_epoch, 5);
    expect_ids(lines[0].replica_nodes, lines[0].replica_nodes_count, (const int32_t[]){2, 1, 3}, 3);
    expect_ids(lines[0].isr_nodes, lines[0].isr_nodes_count, (const int32_t[]){1, 2}, 2);
    assert_int_equal(lines[1].error_code, KAFKA_ERROR_LEADER_NOT_AVAILABLE);
    assert_int_equal(lines[1].leader_id, -1);
    expect_ids(lines[1].replica_nodes, lines[1].replica_nodes_count, (const int32_t[]){3}, 1);
    assert_int_equal(lines[1].isr_nodes_count, 0);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_hear_of_nodes_that_are_up_and_reached_by_their_listener_and_of_who_leads),
        cmocka_unit_test(operators_hear_of_fenced_nodes_where_they_ask_for_them),
        cmocka_unit_test(partitions_are_described_with_who_leads_them_and_who_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
