/* test_broker_image.c: clients see what was decided whole, or not at all.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/metadata.h"
#include "wire/kafka/metadata_records.h"

#define VERSION     4
#define RECORD_MAX  200
#define BATCH_BYTES ((size_t)64 << 10)
#define PARTITIONS  16
#define TOPICS      8 /* as many as the shard may have */
#define CONFIGS     11
#define ARENA_BYTES 16384

static const char topic_name[] = "t";
static const struct base_uuid topic_id = {{7}};

static void add(struct rec_build *build, enum kafka_message message, int16_t version, const void *record)
{
    uint8_t bytes[RECORD_MAX];
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(kafka_record_encode(message, record, version, &writer), BASE_OK);
    struct base_slice value = base_slice_of(bytes, writer.used_bytes);
    assert_int_equal(rec_build_add(build, 1000, rec_null(), rec_value_of(value), NULL, 0), BASE_OK);
}

/* So many records that say nothing, and then a topic with its partitions. */
static struct base_slice put_records(uint8_t *at, uint32_t count)
{
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, at, BATCH_BYTES, rec_build_plain()), BASE_OK);
    struct kafka_no_op_record nothing;
    kafka_no_op_record_init(&nothing);
    for (uint32_t i = 0; i < count; i++) { add(&build, KAFKA_MESSAGE_NO_OP_RECORD, 0, &nothing); }
    struct kafka_topic_record topic;
    kafka_topic_record_init(&topic);
    topic.name = kafka_text_words(topic_name);
    topic.topic_id = topic_id;
    add(&build, KAFKA_MESSAGE_TOPIC_RECORD, 0, &topic);
    for (int32_t i = 0; i < PARTITIONS; i++) {
        int32_t nodes[] = {1};
        struct kafka_partition_record partition;
        kafka_partition_record_init(&partition);
        partition.partition_id = i;
        partition.topic_id = topic_id;
        partition.replicas = nodes;
        partition.replicas_count = 1;
        partition.isr = nodes;
        partition.isr_count = 1;
        partition.leader = 1;
        add(&build, KAFKA_MESSAGE_PARTITION_RECORD, 0, &partition);
    }
    return rec_build_end(&build);
}

static struct shard *given_another_shard_that_serves(void)
{
    struct shard *shard = shard_make(1);
    shard_start(shard);
    shard_tell_word(shard, MSG_RECOVERY_END, 0, 0);
    shard_tell_word(shard, MSG_SERVE, 9092, 0);
    assert_true(shard->is_ready);
    return shard;
}

static struct base_slice change;

/* It is more than one step applies. */
static void tell_the_change(struct shard *shard)
{
    struct port_message message = {.kind = MSG_DELTA, .lent = unconst(change.at), .lent_bytes = change.size_bytes};
    shard_tell_only(shard, &message);
    assert_true(shard->broker->applying.is_on);
}

/* How many partitions of the topic a client is told, that asks while the change is applied; -1: that there is no such topic. */
static int32_t told_partitions(struct shard *shard)
{
    struct kafka_metadata_request_metadata_request_topic topic;
    kafka_metadata_request_metadata_request_topic_init(&topic);
    topic.name = kafka_text_words(topic_name);
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.topics = &topic;
    request.topics_count = 1;
    request.allow_auto_topic_creation = false;
    uint8_t bytes[RECORD_MAX];
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(kafka_request_encode(KAFKA_MESSAGE_METADATA_REQUEST, &request, VERSION, 1,
                                          kafka_text_words("client"), &writer),
                     BASE_OK);
    shard_receive(shard, shard_connect(shard), bytes, writer.used_bytes, tell_the_change);
    static _Alignas(16) uint8_t memory[ARENA_BYTES];
    struct base_arena arena;
    base_arena_init(&arena, memory, sizeof memory);
    struct kafka_metadata_response answer;
    assert_true(shard->sent_bytes > 8); /* its length, and whose answer it is */
    assert_int_equal(kafka_decode(KAFKA_MESSAGE_METADATA_RESPONSE,
                                  base_slice_of(shard->sent + 8, shard->sent_bytes - 8), VERSION, &arena, &answer),
                     BASE_OK);
    assert_int_equal(answer.topics_count, 1);
    return answer.topics[0].error_code != 0 ? -1 : answer.topics[0].partitions_count;
}

/* Clients keep what they are told of a topic for minutes: of one that is being made they must not hear a part. */
static void who_asks_while_a_change_is_applied_is_told_all_of_it_or_nothing(void **state)
{
    (void)state;
    static uint8_t memory[BATCH_BYTES];
    for (uint32_t before = 240; before <= 272; before += 4) { /* a step ends at one place or another */
        struct shard *shard = given_another_shard_that_serves();
        change = put_records(memory, before);
        int32_t partitions = told_partitions(shard);
        assert_true(partitions == -1 || partitions == PARTITIONS);
        assert_int_equal(shard_told(shard, MSG_DELTA_TAKEN), 1);
        shard_free(shard);
    }
}

/* Topics without partitions. */
static struct base_slice put_topics(uint8_t *at, uint32_t count)
{
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, at, BATCH_BYTES, rec_build_plain()), BASE_OK);
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        struct base_text words;
        base_text_init(&words, name, sizeof name);
        base_text_add(&words, "t");
        base_text_add_i64(&words, i);
        struct kafka_topic_record topic;
        kafka_topic_record_init(&topic);
        topic.name = kafka_text_of_slice(base_text_slice(&words));
        topic.topic_id = (struct base_uuid){{1, (uint8_t)(i >> 8), (uint8_t)i}};
        add(&build, KAFKA_MESSAGE_TOPIC_RECORD, 0, &topic);
    }
    return rec_build_end(&build);
}

/* Configs of all brokers, all of them in one change. */
static struct base_slice put_broker_configs(uint8_t *at)
{
    static const char *const names[CONFIGS] = {
        "log.retention.ms",   "log.retention.bytes",         "log.segment.bytes",
        "log.roll.ms",        "log.flush.interval.messages", "log.flush.interval.ms",
        "log.roll.jitter.ms", "log.index.interval.bytes",    "log.index.size.max.bytes",
        "message.max.bytes",  "min.insync.replicas"};
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, at, BATCH_BYTES, rec_build_plain()), BASE_OK);
    for (size_t i = 0; i < CONFIGS; i++) {
        struct kafka_config_record config;
        kafka_config_record_init(&config);
        config.resource_type = METADATA_RESOURCE_BROKER;
        config.name = kafka_text_words(names[i]);
        config.value = kafka_text_words("2000000");
        add(&build, KAFKA_MESSAGE_CONFIG_RECORD, 0, &config);
    }
    return rec_build_end(&build);
}

static uint64_t steps_to_take(struct shard *shard, struct base_slice batch)
{
    struct port_message message = {.kind = MSG_DELTA, .lent = unconst(batch.at), .lent_bytes = batch.size_bytes};
    uint64_t before = shard->steps;
    shard_tell(shard, &message);
    assert_false(shard->broker->applying.is_on);
    return shard->steps - before;
}

/* Nobody is answered while a change is applied: it goes through all topics once, not once for each config in it. */
static void many_configs_of_brokers_go_through_the_topics_once(void **state)
{
    (void)state;
    static uint8_t memory[BATCH_BYTES];
    struct shard *shard = given_another_shard_that_serves();
    shard->broker->config.step_max = 1;                     /* so that steps are topics and records */
    (void)steps_to_take(shard, put_topics(memory, TOPICS)); /* they are there now */
    uint64_t steps = steps_to_take(shard, put_broker_configs(memory));
    assert_true(steps >= CONFIGS + TOPICS);
    assert_true(steps < 2 * (CONFIGS + TOPICS));
    assert_int_equal(shard_told(shard, MSG_DELTA_TAKEN), 2);
    shard_free(shard);
}

/* One config of the topic, another value each time. */
static struct base_slice put_topic_configs(uint8_t *at)
{
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, at, BATCH_BYTES, rec_build_plain()), BASE_OK);
    for (int64_t i = 1; i <= CONFIGS; i++) {
        char number[16];
        struct base_text words;
        base_text_init(&words, number, sizeof number);
        base_text_add_i64(&words, i);
        struct kafka_config_record config;
        kafka_config_record_init(&config);
        config.resource_type = METADATA_RESOURCE_TOPIC;
        config.resource_name = kafka_text_words(topic_name);
        config.name = kafka_text_words("max.message.bytes");
        config.value = kafka_text_of_slice(base_text_slice(&words));
        add(&build, KAFKA_MESSAGE_CONFIG_RECORD, 0, &config);
    }
    return rec_build_end(&build);
}

/* What a batch may have in the logs of the topic that are here. */
static size_t batch_bytes_max(const struct shard *shard)
{
    const struct broker *broker = shard->broker;
    uint32_t i = 0;
    while (broker->logs[i].ref.generation == 0 || !base_uuid_equal(broker->logs[i].id.topic, topic_id)) {
        i += 1;
        assert_true(i < broker->logs_max);
    }
    return broker->logs[i].rules.batch_max_bytes;
}

/* A request may name one key thousands of times for a topic of thousands of partitions. */
static void many_configs_of_a_topic_go_through_its_partitions_once(void **state)
{
    (void)state;
    static uint8_t memory[BATCH_BYTES];
    struct shard *shard = given_another_shard_that_serves();
    (void)steps_to_take(shard, put_records(memory, 0)); /* it is there now */
    size_t last = batch_bytes_max(shard);
    uint32_t changes = 0;
    shard->broker->config.step_max = 1;
    struct base_slice batch = put_topic_configs(memory);
    struct port_message message = {.kind = MSG_DELTA, .lent = unconst(batch.at), .lent_bytes = batch.size_bytes};
    shard_tell_only(shard, &message);
    while (shard_run_one(shard)) {
        changes += batch_bytes_max(shard) != last ? 1 : 0;
        last = batch_bytes_max(shard);
    }
    assert_int_equal(changes, 1);
    assert_int_equal(last, CONFIGS);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_configs_of_brokers_go_through_the_topics_once),
        cmocka_unit_test(many_configs_of_a_topic_go_through_its_partitions_once),
        cmocka_unit_test(who_asks_while_a_change_is_applied_is_told_all_of_it_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
