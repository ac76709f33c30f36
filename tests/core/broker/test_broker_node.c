/* test_broker_node.c: a node is what its settings say.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/incremental_alter_configs.h"
#include "wire/kafka/kafka.h"

static struct shard *given_a_node(void)
{
    struct shard *shard = shard_make(0);
    shard_start(shard);
    assert_true(shard->is_ready);
    return shard;
}

static void a_node_is_registered_with_its_rack(void **state)
{
    (void)state;
    struct shard *shard = given_a_node();
    const struct metadata_broker *node = metadata_broker(shard->broker->image, shard->broker->config.node_id);
    assert_non_null(node);
    assert_true(node->has_rack);
    assert_string_equal(node->rack, "a-rack");
    shard_free(shard);
}

static void a_topic_without_a_replication_factor_gets_the_default_one(void **state)
{
    (void)state;
    struct shard *shard = given_a_node();
    static _Alignas(16) uint8_t memory[1024];
    struct base_arena arena;
    base_arena_init(&arena, memory, sizeof memory);
    const struct base_slice name = base_slice_text("topic");
    const struct controller_auto_create create = {&name, 1};
    struct control_loan loan = {.request = {.kind = CONTROLLER_AUTO_CREATE, .request = &create},
                                .shard = 1,
                                .arena = &arena};
    struct port_message message = {.kind = MSG_CONTROL, .lent = &loan, .lent_bytes = sizeof loan};
    shard_tell(shard, &message);
    assert_int_equal(shard_told(shard, MSG_CONTROLLED), 1);
    const struct controller_auto_created *created = loan.answer;
    assert_non_null(created);
    assert_int_equal(created->error_codes[0], KAFKA_ERROR_INVALID_REPLICATION_FACTOR); /* there is one node */
    shard_free(shard);
}

static void send_all(struct shard *shard, enum kafka_message message, int16_t version, const void *request)
{
    static uint8_t bytes[1 << 20];
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(kafka_request_encode(message, request, version, 1, kafka_text_words("client"), &writer), BASE_OK);
    uint32_t slot = shard_connect(shard);
    for (size_t at = 0; at < writer.used_bytes;) {
        size_t piece = base_min_size(writer.used_bytes - at, 1024);
        shard_receive(shard, slot, bytes + at, piece, NULL);
        at += piece;
    }
    assert_int_equal(shard->broker->requests_come, 1);
}

/* So many that the request is refused as a whole. */
static void ask_for_topics(struct shard *shard)
{
    enum { TOPICS = 20000 };
    struct kafka_create_topics_request request;
    kafka_create_topics_request_init(&request);
    request.timeout_ms = 1000;
    request.topics_count = TOPICS;
    request.topics = calloc(TOPICS, sizeof *request.topics);
    static char names[TOPICS][8];
    assert_non_null(request.topics);
    for (int i = 0; i < TOPICS; i++) {
        kafka_create_topics_request_creatable_topic_init(&request.topics[i]);
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        request.topics[i].name = kafka_text_words(names[i]);
        request.topics[i].num_partitions = 1;
        request.topics[i].replication_factor = 1;
    }
    send_all(shard, KAFKA_MESSAGE_CREATE_TOPICS_REQUEST, 7, &request);
    free(request.topics);
}

/* More than there is memory for, if each topic were to have its configs in the answer. */
static void who_asks_for_too_many_topics_is_told_at_once(void **state)
{
    (void)state;
    struct shard *shard = given_a_node();
    ask_for_topics(shard);
    assert_true(base_list_is_empty(&shard->broker->starved));
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

static void who_asks_for_too_many_changes_is_told_at_once(void **state)
{
    (void)state;
    struct shard *shard = given_a_node();
    enum { RESOURCES = 20000 };
    struct kafka_incremental_alter_configs_request request;
    kafka_incremental_alter_configs_request_init(&request);
    request.resources_count = RESOURCES;
    request.resources = calloc(RESOURCES, sizeof *request.resources);
    assert_non_null(request.resources);
    for (int i = 0; i < RESOURCES; i++) {
        kafka_incremental_alter_configs_request_alter_configs_resource_init(&request.resources[i]);
        request.resources[i].resource_type = METADATA_RESOURCE_TOPIC;
        request.resources[i].resource_name = kafka_text_words("t");
    }
    send_all(shard, KAFKA_MESSAGE_INCREMENTAL_ALTER_CONFIGS_REQUEST, 1, &request);
    free(request.resources);
    assert_true(base_list_is_empty(&shard->broker->starved));
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

static void a_request_is_read_where_there_is_room_for_it_and_not_for_sixteen(void **state)
{
    (void)state;
    struct shard *shard = given_a_node();
    assert_non_null(base_pages_take(shard->broker->pages, BASE_CONTROL, (size_t)16 << 20));
    assert_non_null(base_pages_take(shard->broker->pages, BASE_CONTROL, (size_t)4 << 20));
    assert_true(base_pages_room_bytes(shard->broker->pages, BASE_REPLICATION) < (size_t)13 << 20);
    ask_for_topics(shard);
    assert_true(base_list_is_empty(&shard->broker->starved));
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

/* Of the node's own logger "plog"; its answer may have to wait. */
static void set_level(struct shard *shard, uint32_t slot, const char *level)
{
    char node[12];
    (void)snprintf(node, sizeof node, "%d", (int)shard->broker->config.node_id);
    struct kafka_incremental_alter_configs_request_alterable_config config;
    kafka_incremental_alter_configs_request_alterable_config_init(&config);
    config.name = kafka_text_words("plog");
    config.value = kafka_text_words(level);
    struct kafka_incremental_alter_configs_request_alter_configs_resource resource;
    kafka_incremental_alter_configs_request_alter_configs_resource_init(&resource);
    resource.resource_type = METADATA_RESOURCE_LOGGER;
    resource.resource_name = kafka_text_words(node);
    resource.configs = &config;
    resource.configs_count = 1;
    struct kafka_incremental_alter_configs_request request;
    kafka_incremental_alter_configs_request_init(&request);
    request.resources = &resource;
    request.resources_count = 1;
    shard_ask(shard, slot, KAFKA_MESSAGE_INCREMENTAL_ALTER_CONFIGS_REQUEST, 1, &request);
}

static void a_level_is_set_when_every_shard_has_it(void **state)
{
    (void)state;
    struct shard *shard = given_a_node();
    set_level(shard, shard_connect(shard), "DEBUG");
    assert_int_equal(shard_told(shard, MSG_LEVELS), 1);
    set_level(shard, shard_connect(shard), "WARN"); /* is told behind the first one */
    assert_int_equal(shard_told(shard, MSG_LEVELS), 1);
    shard_tell_word(shard, MSG_LEVELS_TAKEN, 0, 0);
    assert_int_equal(shard_told(shard, MSG_LEVELS), 2);
    assert_int_equal(shard->broker->requests.taken_count, 2);
    shard_tell_word(shard, MSG_LEVELS_TAKEN, 0, 0);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    struct kafka_incremental_alter_configs_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_INCREMENTAL_ALTER_CONFIGS_RESPONSE, 1, &answer));
    assert_int_equal(answer.responses[0].error_code, KAFKA_ERROR_NONE);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_registered_with_its_rack),
        cmocka_unit_test(a_topic_without_a_replication_factor_gets_the_default_one),
        cmocka_unit_test(who_asks_for_too_many_topics_is_told_at_once),
        cmocka_unit_test(who_asks_for_too_many_changes_is_told_at_once),
        cmocka_unit_test(a_request_is_read_where_there_is_room_for_it_and_not_for_sixteen),
        cmocka_unit_test(a_level_is_set_when_every_shard_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
