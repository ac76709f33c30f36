/* test_broker_told.c: a shard goes by what its node was told: of topics that come by themselves, of listings, producers, age, idleness.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/describe_topic_partitions.h"
#include "wire/kafka/metadata.h"
#include "wire/kafka/produce.h"

#define METADATA_VERSION 4 /* the first one that may ask for topics without making them */
#define PRODUCE_VERSION  8
#define BYTES_MAX        1024
#define WALL_MS          INT64_C(1700000000000) /* of the shard, when it starts */
#define MS               UINT64_C(1000000)

static const char topic_name[] = "t";

static struct shard *given_a_node(void (*tell)(struct broker_config *config))
{
    struct shard *shard = shard_make_told(0, tell);
    shard_start(shard);
    assert_true(shard->is_ready);
    return shard;
}

/* Alarms ring as they come. */
static void pass_ms(struct shard *shard, uint64_t ms)
{
    uint64_t end_ns = shard->now_ns + ms * MS;
    while (shard->alarm_ns < end_ns) { shard_wait(shard, base_max_u64(shard->alarm_ns, shard->now_ns)); }
    shard_wait(shard, end_ns);
}

/* ---- topics that come by themselves ---- */

static void tell_three_partitions(struct broker_config *config)
{
    config->pair_count = 0; /* one replica is enough */
    config->partitions_default = 3;
}

static void tell_that_none_come(struct broker_config *config)
{
    tell_three_partitions(config);
    config->is_auto_create = false;
}

/* Asks for a topic that is not there; how many partitions it has then, -1: it is not there. */
static int32_t partitions_after_asking(void (*tell)(struct broker_config *config), int16_t version, bool may_create)
{
    struct shard *shard = given_a_node(tell);
    struct kafka_metadata_request_metadata_request_topic topic;
    kafka_metadata_request_metadata_request_topic_init(&topic);
    topic.name = kafka_text_words("made");
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.topics = &topic;
    request.topics_count = 1;
    request.allow_auto_topic_creation = may_create;
    shard_ask(shard, shard_connect(shard), KAFKA_MESSAGE_METADATA_REQUEST, version, &request);
    struct kafka_metadata_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_METADATA_RESPONSE, version, &answer));
    assert_int_equal(answer.topics_count, 1);
    const struct metadata_topic *made = metadata_topic_by_name(shard->broker->image, base_slice_text("made"));
    int32_t partitions = made == NULL ? -1 : (int32_t)made->partitions_count;
    if (made == NULL) { assert_int_equal(answer.topics[0].error_code, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION); }
    shard_free(shard);
    return partitions;
}

static void a_topic_comes_by_itself_where_the_node_and_the_asker_let_it(void **state)
{
    (void)state;
    assert_int_equal(partitions_after_asking(tell_three_partitions, METADATA_VERSION, true), 3);
    assert_int_equal(partitions_after_asking(tell_three_partitions, METADATA_VERSION, false), -1);
    assert_int_equal(partitions_after_asking(tell_that_none_come, METADATA_VERSION, true), -1);
    assert_int_equal(partitions_after_asking(tell_three_partitions, METADATA_VERSION - 1, true), 3);
    assert_int_equal(partitions_after_asking(tell_that_none_come, METADATA_VERSION - 1, true), -1);
}

/* The node would have two replicas of each, and is alone. */
static void why_a_topic_did_not_come_is_told_of_each(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int16_t error;
    } expected[] = {{"a", KAFKA_ERROR_INVALID_REPLICATION_FACTOR},
                    {"b/c", KAFKA_ERROR_INVALID_TOPIC_EXCEPTION},
                    {topic_name, KAFKA_ERROR_NONE},
                    {"z", KAFKA_ERROR_INVALID_REPLICATION_FACTOR}};
    enum { COUNT = BASE_ARRAY_COUNT(expected) };
    struct shard *shard = given_a_node(NULL);
    (void)shard_topic(shard, topic_name, true);
    struct kafka_metadata_request_metadata_request_topic topics[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        kafka_metadata_request_metadata_request_topic_init(&topics[i]);
        topics[i].name = kafka_text_words(expected[COUNT - 1 - i].name);
    }
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.topics = topics;
    request.topics_count = COUNT;
    request.allow_auto_topic_creation = true;
    shard_ask(shard, shard_connect(shard), KAFKA_MESSAGE_METADATA_REQUEST, METADATA_VERSION, &request);
    struct kafka_metadata_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_METADATA_RESPONSE, METADATA_VERSION, &answer));
    assert_int_equal(answer.topics_count, COUNT);
    for (int32_t i = 0; i < answer.topics_count; i++) {
        for (size_t k = 0; k < COUNT; k++) {
            struct base_slice name = base_slice_text(expected[k].name);
            if (!base_slice_equal(kafka_text_slice(answer.topics[i].name), name)) { continue; }
            assert_int_equal(answer.topics[i].error_code, expected[k].error);
        }
    }
    shard_free(shard);
}

/* ---- listings ---- */

static void tell_of_listings(struct broker_config *config) { config->described_partitions_max = 2; }

static void put_topic(struct shard *shard, const char *name, uint8_t number, int32_t partitions)
{
    struct base_uuid id = {{number}};
    assert_int_equal(metadata_put_topic(shard->broker->image, base_slice_text(name), id), BASE_OK);
    for (int32_t i = 0; i < partitions; i++) {
        struct metadata_partition partition = {
            .id = {id, i}, .leader = 1, .leader_epoch = 10 * number + i, .replicas_count = 1, .replicas = {1}};
        assert_int_equal(metadata_put_partition(shard->broker->image, &partition), BASE_OK);
    }
}

struct place {
    const char *topic; /* NULL: none */
    int32_t partition;
};

/* From a place on, so many at most; where it goes on. The listing is in `words`: a topic and its partitions each. */
static struct place list(struct shard *shard, uint32_t slot, bool is_named, struct place from, int32_t limit,
                         char words[64])
{
    struct kafka_describe_topic_partitions_request_topic_request topics[2];
    kafka_describe_topic_partitions_request_topic_request_init(&topics[0]);
    kafka_describe_topic_partitions_request_topic_request_init(&topics[1]);
    topics[0].name = kafka_text_words("b");
    topics[1].name = kafka_text_words("a");
    struct kafka_describe_topic_partitions_request_cursor cursor;
    kafka_describe_topic_partitions_request_cursor_init(&cursor);
    struct kafka_describe_topic_partitions_request request;
    kafka_describe_topic_partitions_request_init(&request);
    request.topics = topics;
    request.topics_count = is_named ? 2 : 0;
    request.response_partition_limit = limit;
    if (from.topic != NULL) {
        cursor.topic_name = kafka_text_words(from.topic);
        cursor.partition_index = from.partition;
        request.cursor = &cursor;
    }
    shard_ask(shard, slot, KAFKA_MESSAGE_DESCRIBE_TOPIC_PARTITIONS_REQUEST, 0, &request);
    struct kafka_describe_topic_partitions_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_DESCRIBE_TOPIC_PARTITIONS_RESPONSE, 0, &answer));
    struct base_text text;
    base_text_init(&text, words, 64);
    for (int32_t t = 0; t < answer.topics_count; t++) {
        assert_int_equal(answer.topics[t].error_code, KAFKA_ERROR_NONE);
        base_text_add(&text, t == 0 ? "" : " ");
        base_text_add_slice(&text, kafka_text_slice(answer.topics[t].name));
        for (int32_t p = 0; p < answer.topics[t].partitions_count; p++) {
            int32_t index = answer.topics[t].partitions[p].partition_index;
            base_text_add_i64(&text, index);
            assert_int_equal(answer.topics[t].partitions[p].leader_epoch, 10 * answer.topics[t].topic_id.b[0] + index);
        }
    }
    static char next[8];
    if (answer.next_cursor == NULL) { return (struct place){.topic = NULL}; }
    struct base_slice name = kafka_text_slice(answer.next_cursor->topic_name);
    assert_true(name.size_bytes < sizeof next);
    memset(next, 0, sizeof next);
    memcpy(next, name.at, name.size_bytes);
    return (struct place){next, answer.next_cursor->partition_index};
}

static void expect_listing(struct shard *shard, uint32_t slot, bool is_named, int32_t limit, const char *const pages[])
{
    struct place place = {.topic = NULL};
    for (size_t i = 0; pages[i] != NULL; i++) {
        char words[64];
        if (i > 0) { assert_non_null(place.topic); }
        place = list(shard, slot, is_named, place, limit, words);
        assert_string_equal(words, pages[i]);
    }
    assert_null(place.topic);
}

static void a_listing_of_partitions_goes_on_where_it_was_full(void **state)
{
    (void)state;
    struct shard *shard = given_a_node(tell_of_listings);
    uint32_t slot = shard_connect(shard);
    put_topic(shard, "a", 1, 3);
    put_topic(shard, "b", 2, 2);
    for (int is_named = 0; is_named < 2; is_named++) {
        expect_listing(shard, slot, is_named == 1, 100, (const char *const[]){"a01", "a2 b0", "b1", NULL});
        expect_listing(shard, slot, is_named == 1, 1, (const char *const[]){"a0", "a1", "a2", "b0", "b1", NULL});
        expect_listing(shard, slot, is_named == 1, 0, (const char *const[]){"a0", "a1", "a2", "b0", "b1", NULL});
    }
    shard->broker->config.described_partitions_max = 3;
    expect_listing(shard, slot, false, 100, (const char *const[]){"a012", "b01", NULL}); /* full at the end of one */
    shard->broker->config.described_partitions_max = 5;
    expect_listing(shard, slot, false, 100, (const char *const[]){"a012 b01", NULL});
    shard_free(shard);
}

/* ---- producers and age ---- */

static void tell_of_age(struct broker_config *config)
{
    config->producer_expiry_ms = 50000;
    config->retention_check_ms = 7000;
    config->idle_ms = 3600000;
}

/* The same batch each time; where it stands. */
static int64_t produce(struct shard *shard, uint32_t slot)
{
    uint8_t memory[BYTES_MAX];
    struct rec_build_config config = rec_build_plain();
    config.producer_id = 7;
    config.producer_epoch = 0;
    config.base_sequence = 0;
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, memory, sizeof memory, config), BASE_OK);
    assert_int_equal(rec_build_add(&build, WALL_MS, rec_null(), rec_value_of(base_slice_text("value")), NULL, 0),
                     BASE_OK);
    return shard_produced(shard, slot, PRODUCE_VERSION, topic_name, rec_build_end(&build));
}

static void a_producer_is_known_for_as_long_as_the_node_was_told(void **state)
{
    (void)state;
    for (int is_over = 0; is_over < 2; is_over++) {
        struct shard *shard = given_a_node(tell_of_age);
        (void)shard_topic(shard, topic_name, true);
        uint32_t slot = shard_connect(shard);
        assert_int_equal(produce(shard, slot), 0);
        pass_ms(shard, is_over == 1 ? 50000 + 7001 : 49999); /* looked at with the logs */
        assert_int_equal(produce(shard, slot), is_over);     /* the same again, or a record of somebody unknown */
        shard_free(shard);
    }
}

static int64_t start_of(const struct shard *shard, struct base_part part)
{
    struct plog_view view;
    plog_view(shard->broker->plog, plog_find(shard->broker->plog, part), &view);
    return view.offset_start;
}

static void what_is_too_old_is_looked_for_as_often_as_the_node_was_told(void **state)
{
    (void)state;
    struct shard *shard = given_a_node(tell_of_age);
    struct base_part part = shard_topic(shard, topic_name, true);
    assert_int_equal(metadata_put_config(shard->broker->image, METADATA_RESOURCE_TOPIC, base_slice_text(topic_name),
                                         base_slice_text("retention.ms"), base_slice_text("1000")),
                     BASE_OK);
    uint32_t slot = shard_connect(shard);
    pass_ms(shard, 7001); /* it has just looked */
    assert_int_equal(produce(shard, slot), 0);
    pass_ms(shard, 5000);
    assert_int_equal(start_of(shard, part), 0);
    pass_ms(shard, 2000);
    assert_int_equal(start_of(shard, part), 1);
    shard_free(shard);
}

/* ---- idleness ---- */

static void tell_of_idleness(struct broker_config *config) { config->idle_ms = 30000; }

static void who_says_nothing_is_closed_after_as_long_as_the_node_was_told(void **state)
{
    (void)state;
    struct shard *shard = given_a_node(tell_of_idleness);
    (void)shard_connect(shard);
    struct conn_view view;
    pass_ms(shard, 29999);
    conn_view(shard->broker->conns, &view);
    assert_int_equal(view.connections, 1);
    pass_ms(shard, 2);
    conn_view(shard->broker->conns, &view);
    assert_int_equal(view.connections, 0);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_comes_by_itself_where_the_node_and_the_asker_let_it),
        cmocka_unit_test(why_a_topic_did_not_come_is_told_of_each),
        cmocka_unit_test(a_listing_of_partitions_goes_on_where_it_was_full),
        cmocka_unit_test(a_producer_is_known_for_as_long_as_the_node_was_told),
        cmocka_unit_test(what_is_too_old_is_looked_for_as_often_as_the_node_was_told),
        cmocka_unit_test(who_says_nothing_is_closed_after_as_long_as_the_node_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
