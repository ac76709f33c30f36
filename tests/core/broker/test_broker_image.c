/* test_broker_image.c: clients see what was decided whole, or not at all; and logs heed the configs of their topic.
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

/* Configs of all brokers, all of them in one change; NULL: they are taken away. */
static struct base_slice put_broker_configs(uint8_t *at, const char *value)
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
        config.value = value == NULL ? kafka_text_null() : kafka_text_words(value);
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
    uint64_t steps = steps_to_take(shard, put_broker_configs(memory, "2000000"));
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

/* Of the topic, one that is here. */
static const struct back_log *log_here(const struct shard *shard)
{
    const struct broker *broker = shard->broker;
    uint32_t i = 0;
    while (broker->logs[i].ref.generation == 0 || !base_uuid_equal(broker->logs[i].id.topic, topic_id)) {
        i += 1;
        assert_true(i < broker->logs_max);
    }
    return &broker->logs[i];
}

/* What a batch may have in the logs of the topic that are here. */
static size_t batch_bytes_max(const struct shard *shard) { return log_here(shard)->rules.batch_max_bytes; }

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

/* ---- what a config is for ---- */

struct pair {
    const char *name, *value;
};

static struct base_slice put_configs(uint8_t *at, const struct pair *pairs, size_t count)
{
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, at, BATCH_BYTES, rec_build_plain()), BASE_OK);
    for (size_t i = 0; i < count; i++) {
        struct kafka_config_record config;
        kafka_config_record_init(&config);
        config.resource_type = METADATA_RESOURCE_TOPIC;
        config.resource_name = kafka_text_words(topic_name);
        config.name = kafka_text_words(pairs[i].name);
        config.value = kafka_text_words(pairs[i].value);
        add(&build, KAFKA_MESSAGE_CONFIG_RECORD, 0, &config);
    }
    return rec_build_end(&build);
}

enum when { BEFORE_IT_IS_OPENED, WHILE_IT_IS_OPEN, WHENS };

/* The topic has these configs: from before its logs are opened, or its open logs are told of them. */
static void configure(struct shard *shard, enum when when, const struct pair *pairs, size_t count)
{
    static uint8_t memory[BATCH_BYTES];
    if (when == WHILE_IT_IS_OPEN) { (void)steps_to_take(shard, put_records(memory, 0)); }
    if (when == BEFORE_IT_IS_OPENED) {
        assert_int_equal(metadata_put_topic(shard->broker->image, base_slice_text(topic_name), topic_id), BASE_OK);
    }
    (void)steps_to_take(shard, put_configs(memory, pairs, count));
    if (when == BEFORE_IT_IS_OPENED) { (void)steps_to_take(shard, put_records(memory, 0)); }
}

static const struct plog_log_config *configured(const struct shard *shard)
{
    return plog_log_configured(shard->broker->plog, log_here(shard)->ref);
}

static void each_config_of_a_topic_is_heeded_by_its_logs(void **state)
{
    (void)state;
    static const struct pair pairs[] = {
        {"segment.bytes", "1048583"},
        {"segment.ms", "600011"},
        {"segment.jitter.ms", "101"},
        {"index.interval.bytes", "1009"},
        {"segment.index.bytes", "2003"},
        {"retention.ms", "700001"},
        {"retention.bytes", "800011"},
        {"file.delete.delay.ms", "30011"},
        {"preallocate", "true"},
        {"weir.durability", "page-cache"},
        {"flush.messages", "307"},
        {"flush.ms", "401"},
        {"max.message.bytes", "5003"},
        {"message.timestamp.before.max.ms", "90001"},
        {"message.timestamp.after.max.ms", "7001"},
        {"message.timestamp.type", "LogAppendTime"},
    };
    for (int when = BEFORE_IT_IS_OPENED; when < WHENS; when++) {
        struct shard *shard = given_another_shard_that_serves();
        shard->broker->config.decompressed_bytes_max = 11003;
        configure(shard, (enum when)when, pairs, BASE_ARRAY_COUNT(pairs));
        const struct plog_log_config *config = configured(shard);
        assert_int_equal(config->segment_bytes, 1048583);
        assert_int_equal(log_here(shard)->segment_bytes, 1048583);
        assert_int_equal(config->segment_ms, 600011);
        assert_int_equal(config->segment_jitter_ms, 101);
        assert_int_equal(config->index_interval_bytes, 1009);
        assert_int_equal(config->index_bytes_max, 2003);
        assert_int_equal(config->retention_ms, 700001);
        assert_int_equal(config->retention_bytes, 800011);
        assert_int_equal(config->delete_delay_ms, 30011);
        assert_true(config->is_preallocated);
        assert_true(config->is_page_cache);
        assert_int_equal(config->flush_messages, 307);
        assert_int_equal(config->flush_ms, 401);
        const struct rec_rules *rules = &log_here(shard)->rules;
        assert_int_equal(rules->batch_max_bytes, 5003);
        assert_int_equal(rules->opened_max_bytes, 11003);
        assert_int_equal(rules->before_max_ms, 90001);
        assert_int_equal(rules->after_max_ms, 7001);
        assert_int_equal(rules->stamp, REC_LOG_APPEND_TIME);
        shard_free(shard);
    }
}

static void a_topic_without_configs_has_kafkas_defaults(void **state)
{
    (void)state;
    struct shard *shard = given_another_shard_that_serves();
    configure(shard, WHILE_IT_IS_OPEN, NULL, 0);
    const struct plog_log_config *config = configured(shard);
    assert_int_equal(config->segment_bytes, 1 << 30);
    assert_int_equal(config->segment_ms, 604800000);
    assert_int_equal(config->segment_jitter_ms, 0);
    assert_int_equal(config->index_interval_bytes, 4096);
    assert_int_equal(config->index_bytes_max, 10 << 20);
    assert_int_equal(config->retention_ms, 604800000);
    assert_int_equal(config->retention_bytes, -1);
    assert_int_equal(config->delete_delay_ms, 60000);
    assert_false(config->is_preallocated);
    assert_false(config->is_page_cache);
    assert_int_equal(config->flush_messages, INT64_MAX);
    assert_int_equal(config->flush_ms, INT64_MAX);
    const struct rec_rules *rules = &log_here(shard)->rules;
    assert_int_equal(rules->batch_max_bytes, 1048588);
    assert_int_equal(rules->opened_max_bytes, shard->broker->blocks_bytes / 4);
    assert_int_equal(rules->before_max_ms, INT64_MAX);
    assert_int_equal(rules->after_max_ms, 3600000);
    assert_int_equal(rules->stamp, REC_CREATE_TIME);
    shard_free(shard);
}

static void expect_all_but_the_topics_own(const struct shard *shard, int64_t number)
{
    const struct plog_log_config *config = configured(shard);
    assert_int_equal(config->segment_bytes, number);
    assert_int_equal(log_here(shard)->segment_bytes, number);
    assert_int_equal(config->segment_ms, number);
    assert_int_equal(config->segment_jitter_ms, number);
    assert_int_equal(config->index_interval_bytes, number);
    assert_int_equal(config->index_bytes_max, number);
    assert_int_equal(config->retention_bytes, number);
    assert_int_equal(config->flush_messages, number);
    assert_int_equal(config->flush_ms, number);
    assert_int_equal(batch_bytes_max(shard), number);
    assert_int_equal(config->retention_ms, 700001);
}

/* The topic has one of its own. */
static void what_is_told_to_all_brokers_is_heeded_by_open_logs_but_where_a_topic_says_otherwise(void **state)
{
    (void)state;
    static uint8_t memory[BATCH_BYTES];
    static const struct pair own = {"retention.ms", "700001"};
    struct shard *shard = given_another_shard_that_serves();
    configure(shard, WHILE_IT_IS_OPEN, &own, 1);
    (void)steps_to_take(shard, put_broker_configs(memory, "2000000"));
    expect_all_but_the_topics_own(shard, 2000000);
    (void)steps_to_take(shard, put_broker_configs(memory, "3000000"));
    expect_all_but_the_topics_own(shard, 3000000);
    (void)steps_to_take(shard, put_broker_configs(memory, NULL));
    assert_int_equal(configured(shard)->segment_bytes, 1 << 30);
    assert_int_equal(configured(shard)->index_interval_bytes, 4096);
    assert_int_equal(batch_bytes_max(shard), 1048588);
    assert_int_equal(configured(shard)->retention_ms, 700001);
    shard_free(shard);
}

static void only_a_topic_that_deletes_is_retained_by_age_and_size_and_only_a_compacted_one_needs_keys(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        int64_t retention_ms, retention_bytes;
        bool is_key_needed;
        enum rec_open open;
    } expected[] = {{"delete", 700001, 800011, false, REC_OPEN_NEVER},
                    {"compact", -1, -1, true, REC_OPEN_COMPRESSED},
                    {"compact,delete", 700001, 800011, true, REC_OPEN_COMPRESSED},
                    {"", -1, -1, false, REC_OPEN_NEVER}};
    for (size_t i = 0; i < WHENS * BASE_ARRAY_COUNT(expected); i++) {
        size_t row = i / WHENS;
        const struct pair pairs[] = {{"cleanup.policy", expected[row].policy},
                                     {"retention.ms", "700001"},
                                     {"retention.bytes", "800011"}};
        struct shard *shard = given_another_shard_that_serves();
        configure(shard, (enum when)(i % WHENS), pairs, BASE_ARRAY_COUNT(pairs));
        assert_int_equal(configured(shard)->retention_ms, expected[row].retention_ms);
        assert_int_equal(configured(shard)->retention_bytes, expected[row].retention_bytes);
        assert_int_equal(log_here(shard)->rules.is_key_needed, expected[row].is_key_needed);
        assert_int_equal(log_here(shard)->rules.open, expected[row].open);
        shard_free(shard);
    }
}

/* By the oldest that a record may be, where its time is its producer's; and where all records are to be looked at. */
static void compressed_batches_are_opened_where_their_records_are_judged(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        const char *before_ms;
        bool validates_records;
        enum rec_open open;
    } expected[] = {{"CreateTime", "9223372036854775807", false, REC_OPEN_NEVER},
                    {"CreateTime", "9223372036854775806", false, REC_OPEN_COMPRESSED},
                    {"LogAppendTime", "5", false, REC_OPEN_NEVER},
                    {"LogAppendTime", "5", true, REC_OPEN_COMPRESSED},
                    {"CreateTime", "9223372036854775807", true, REC_OPEN_COMPRESSED}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(expected); i++) {
        const struct pair pairs[] = {{"message.timestamp.type", expected[i].type},
                                     {"message.timestamp.before.max.ms", expected[i].before_ms}};
        struct shard *shard = given_another_shard_that_serves();
        shard->broker->config.validates_records = expected[i].validates_records;
        configure(shard, WHILE_IT_IS_OPEN, pairs, BASE_ARRAY_COUNT(pairs));
        assert_int_equal(log_here(shard)->rules.open, expected[i].open);
        shard_free(shard);
    }
}

static void a_topic_has_the_codec_it_names_at_the_level_of_that_codec(void **state)
{
    (void)state;
    static const struct {
        const char *type, *gzip, *lz4, *zstd;
        enum codec_kind kind;
        int32_t level;
    } expected[] = {{"uncompressed", "7", "11", "-5", CODEC_NONE, CODEC_LEVEL_DEFAULT},
                    {"snappy", "7", "11", "-5", CODEC_SNAPPY, CODEC_LEVEL_DEFAULT},
                    {"gzip", "7", "11", "-5", CODEC_GZIP, 7},
                    {"lz4", "7", "11", "-5", CODEC_LZ4, 11},
                    {"zstd", "7", "11", "-5", CODEC_ZSTD, -5},
                    {"gzip", "-1", "11", "-5", CODEC_GZIP, CODEC_LEVEL_DEFAULT},
                    {"lz4", "7", "9", "-5", CODEC_LZ4, CODEC_LEVEL_DEFAULT},
                    {"zstd", "7", "11", "3", CODEC_ZSTD, CODEC_LEVEL_DEFAULT}};
    for (size_t i = 0; i < WHENS * BASE_ARRAY_COUNT(expected); i++) {
        size_t row = i / WHENS;
        const struct pair pairs[] = {{"compression.type", expected[row].type},
                                     {"compression.gzip.level", expected[row].gzip},
                                     {"compression.lz4.level", expected[row].lz4},
                                     {"compression.zstd.level", expected[row].zstd}};
        struct shard *shard = given_another_shard_that_serves();
        configure(shard, (enum when)(i % WHENS), pairs, BASE_ARRAY_COUNT(pairs));
        assert_true(log_here(shard)->form.is_set);
        assert_int_equal(log_here(shard)->form.kind, expected[row].kind);
        assert_int_equal(log_here(shard)->form.level, expected[row].level);
        shard_free(shard);
    }
    static const struct pair of_producer = {"compression.type", "producer"};
    struct shard *shard = given_another_shard_that_serves();
    configure(shard, WHILE_IT_IS_OPEN, &of_producer, 1);
    assert_false(log_here(shard)->form.is_set);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_configs_of_brokers_go_through_the_topics_once),
        cmocka_unit_test(many_configs_of_a_topic_go_through_its_partitions_once),
        cmocka_unit_test(who_asks_while_a_change_is_applied_is_told_all_of_it_or_nothing),
        cmocka_unit_test(each_config_of_a_topic_is_heeded_by_its_logs),
        cmocka_unit_test(a_topic_without_configs_has_kafkas_defaults),
        cmocka_unit_test(what_is_told_to_all_brokers_is_heeded_by_open_logs_but_where_a_topic_says_otherwise),
        cmocka_unit_test(only_a_topic_that_deletes_is_retained_by_age_and_size_and_only_a_compacted_one_needs_keys),
        cmocka_unit_test(compressed_batches_are_opened_where_their_records_are_judged),
        cmocka_unit_test(a_topic_has_the_codec_it_names_at_the_level_of_that_codec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
