/* broker_stream_requests.c: see broker_stream.h. Valid frames with odd values in them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker_stream.h"

#include <string.h>

#include "codec/codec.h"
#include "record/record.h"
#include "wire/kafka/alter_configs.h"
#include "wire/kafka/api_versions.h"
#include "wire/kafka/create_partitions.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_records.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/describe_cluster.h"
#include "wire/kafka/describe_configs.h"
#include "wire/kafka/describe_log_dirs.h"
#include "wire/kafka/describe_producers.h"
#include "wire/kafka/describe_topic_partitions.h"
#include "wire/kafka/fetch.h"
#include "wire/kafka/incremental_alter_configs.h"
#include "wire/kafka/init_producer_id.h"
#include "wire/kafka/list_config_resources.h"
#include "wire/kafka/list_offsets.h"
#include "wire/kafka/metadata.h"
#include "wire/kafka/offset_for_leader_epoch.h"
#include "wire/kafka/produce.h"

#define ARENA_BYTES ((size_t)1 << 20)
#define BATCH_BYTES ((size_t)1 << 15)

static uint8_t arena_bytes[ARENA_BYTES] __attribute__((aligned(16)));
static uint8_t long_name[300];

uint32_t stream_take(struct stream_input *input, uint32_t bytes)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        value <<= 8;
        if (input->left == 0) { continue; }
        value |= *input->at;
        input->at += 1;
        input->left -= 1;
    }
    return value;
}

/* ---- odd values --------------------------------------------------------------------------------------------------------- */

int64_t stream_odd(struct stream_input *input)
{
    static const int64_t values[] = {-1,        -2,        -3,        -4,        -5,        -6,        -7,
                                     INT64_MIN, INT64_MAX, INT32_MAX, INT32_MIN, INT16_MAX, INT16_MIN, (int64_t)1 << 32,
                                     1000000,   65536,     4096,      100,       30,        20};
    uint32_t byte = stream_take(input, 1);
    return byte < 236 ? byte % 16 : values[byte - 236];
}
int32_t stream_odd_i32(struct stream_input *input)
{
    return (int32_t)base_min_i64(base_max_i64(stream_odd(input), INT32_MIN), INT32_MAX);
}
static int16_t odd_i16(struct stream_input *input)
{
    return (int16_t)base_min_i64(base_max_i64(stream_odd(input), INT16_MIN), INT16_MAX);
}

int32_t stream_count(struct stream_input *input)
{
    static const int32_t counts[] = {1, 1, 1, 2, 1, 3, 0, 1, 1, 2, 1, 5, 1, 1, 17, 64};
    return counts[stream_take(input, 1) % BASE_ARRAY_COUNT(counts)];
}

struct kafka_text stream_topic(struct stream_input *input)
{
    static const char *const names[] = {"a",
                                        "b",
                                        "a",
                                        "c",
                                        "a",
                                        "b",
                                        "a.b",
                                        "a_b",
                                        "",
                                        ".",
                                        "..",
                                        "../x",
                                        "a/b",
                                        "__consumer_offsets",
                                        "__cluster_metadata",
                                        "x y",
                                        "gone",
                                        "\xff\xfe"};
    uint32_t at = stream_take(input, 1) % (BASE_ARRAY_COUNT(names) + 2);
    if (at < BASE_ARRAY_COUNT(names)) { return kafka_text_words(names[at]); }
    memset(long_name, 'n', sizeof long_name);
    return kafka_text_of(long_name, 249 + at - BASE_ARRAY_COUNT(names));
}

struct base_uuid stream_id(struct stream_input *input, const struct stream_ids *ids)
{
    struct base_uuid id = {{0}};
    uint32_t byte = stream_take(input, 1);
    if (byte == 255) { return id; }
    if (byte == 254) {
        id.b[15] = 1; /* the cluster metadata's */
        return id;
    }
    if (byte == 253 || ids->count == 0) {
        memset(id.b, 0x5a, sizeof id.b);
        return id;
    }
    return ids->ids[byte % ids->count];
}

/* ---- a batch ------------------------------------------------------------------------------------------------------------ */

static void add_records(struct stream_input *input, struct rec_build *build)
{
    static uint8_t value[4096];
    uint32_t shape = stream_take(input, 1);
    uint32_t count = 1 + shape % 4;
    for (uint32_t i = 0; i < count; i++) {
        size_t value_bytes = stream_take(input, 1) * (size_t)(shape >= 128 ? 16 : 1);
        struct rec_value key = shape % 8 >= 4 ? rec_value_of(base_slice_text("key")) : rec_null();
        struct rec_header header = {.key = base_slice_text("h"), .value = rec_null()};
        int64_t time_ms = shape % 16 >= 8 ? stream_odd(input) : 1700000000000;
        enum base_rc rc = rec_build_add(build, time_ms, key, rec_value_of(base_slice_of(value, value_bytes)), &header,
                                        shape / 64 % 2);
        if (rc != BASE_OK) { return; } /* it is large enough */
    }
}

static void set_crc(uint8_t *batch, size_t size_bytes)
{
    uint32_t crc = codec_crc32c(0, batch + REC_ATTRIBUTES_AT, size_bytes - REC_ATTRIBUTES_AT);
    base_put_u32(batch + REC_CRC_AT, crc);
}

/* What clients get wrong, and what they do on purpose. */
static size_t spoil(struct stream_input *input, uint8_t *batch, size_t size_bytes)
{
    switch (stream_take(input, 1) % 24) {
    case 0: batch[REC_CRC_AT] ^= 1; return size_bytes;
    case 1: batch[REC_MAGIC_AT] = (uint8_t)stream_take(input, 1); return size_bytes;
    case 2: base_put_u16(batch + REC_ATTRIBUTES_AT, (uint16_t)stream_take(input, 2)); break;
    case 3: base_put_u32(batch + REC_LAST_OFFSET_DELTA_AT, (uint32_t)stream_odd_i32(input)); break;
    case 4: base_put_u32(batch + REC_RECORD_COUNT_AT, (uint32_t)stream_odd_i32(input)); break;
    case 5: base_put_u64(batch, (uint64_t)stream_odd(input)); return size_bytes;
    case 6: base_put_u32(batch + 8, (uint32_t)stream_odd_i32(input)); return size_bytes;
    case 7: base_put_u64(batch + REC_MAX_TIMESTAMP_AT, (uint64_t)stream_odd(input)); break;
    case 8: {
        uint32_t at = REC_ATTRIBUTES_AT + stream_take(input, 2) % (uint32_t)(size_bytes - REC_ATTRIBUTES_AT);
        batch[at] = (uint8_t)stream_take(input, 1);
        break;
    }
    case 9: return stream_take(input, 1) % size_bytes;
    case 10: memcpy(batch + size_bytes, batch, size_bytes); return 2 * size_bytes;
    default: return size_bytes;
    }
    set_crc(batch, size_bytes);
    return size_bytes;
}

static size_t build_batch(struct stream_input *input, uint8_t *at)
{
    struct rec_build_config config = rec_build_plain();
    uint32_t who = stream_take(input, 1);
    if (who >= 128) {
        config.producer_id = who >= 250 ? stream_odd(input) : who % 3;
        if (config.producer_id < -1) { config.producer_id = 7; }
        config.producer_epoch = (int16_t)base_max_i64(who >= 240 ? odd_i16(input) : 0, 0);
        config.base_sequence = (int32_t)base_max_i64(stream_odd_i32(input), 0);
    }
    struct rec_build build;
    if (rec_build_init(&build, at, BATCH_BYTES, config) != BASE_OK) { return 0; }
    add_records(input, &build);
    struct base_slice batch = rec_build_end(&build);
    uint32_t codec = stream_take(input, 1);
    if (codec >= 200) {
        static uint8_t opened[BATCH_BYTES], scratch[1 << 21] __attribute__((aligned(16)));
        struct base_slice packed;
        enum codec_kind kind = (enum codec_kind)(1 + codec % 4);
        if (rec_build_end_compressed(&build, kind, CODEC_LEVEL_DEFAULT,
                                     (struct codec_scratch){.at = scratch, .size_bytes = sizeof scratch}, opened,
                                     sizeof opened, &packed) == CODEC_OK) {
            memcpy(at, packed.at, packed.size_bytes);
            batch = base_slice_of(at, packed.size_bytes);
        }
    }
    return spoil(input, at, batch.size_bytes);
}

/* ---- requests ----------------------------------------------------------------------------------------------------------- */

static bool fill_produce(struct stream_input *input, const struct stream_ids *ids, struct base_arena *arena,
                         struct kafka_produce_request *request)
{
    uint32_t acks = stream_take(input, 1);
    request->acks = acks < 160 ? -1 : acks < 200 ? 1 : acks < 230 ? 0 : odd_i16(input);
    request->timeout_ms = stream_odd_i32(input);
    if (acks == 255) { request->transactional_id = kafka_text_words("t"); }
    request->topic_data_count = base_min_i64(stream_count(input), 5) > 3 ? 2 : 1;
    request->topic_data = kafka_produce_request_topic_produce_data_take(arena, request->topic_data_count);
    if (request->topic_data == NULL) { return false; }
    for (int32_t t = 0; t < request->topic_data_count; t++) {
        struct kafka_produce_request_topic_produce_data *topic = &request->topic_data[t];
        topic->name = stream_topic(input);
        topic->topic_id = stream_id(input, ids);
        topic->partition_data_count = stream_count(input);
        topic->partition_data = kafka_produce_request_partition_produce_data_take(arena, topic->partition_data_count);
        if (topic->partition_data == NULL) { return false; }
        uint8_t *batch = base_arena_take(arena, 2 * BATCH_BYTES);
        if (batch == NULL) { return false; }
        size_t batch_bytes = build_batch(input, batch); /* the same for all: producing to one twice is the point */
        uint32_t spread = stream_take(input, 1);
        for (int32_t p = 0; p < topic->partition_data_count; p++) {
            topic->partition_data[p].index =
                spread == 255 ? stream_odd_i32(input) : (int32_t)(spread % 4 * (uint32_t)p % 4);
            topic->partition_data[p].records = kafka_records_of(batch, batch_bytes);
            if (spread == 254) { topic->partition_data[p].records = kafka_records_null(); }
        }
    }
    return true;
}

void stream_fetched(struct stream_known *known, const struct kafka_fetch_response *answer)
{
    if (answer->session_id == 0) { return; }
    uint32_t count = (uint32_t)base_min_u64(known->sessions_count, STREAM_SESSIONS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct stream_session *session = &known->sessions[i];
        if (session->id != answer->session_id) { continue; }
        if (answer->error_code == KAFKA_ERROR_NONE) { session->epoch += 1; }
        return;
    }
    known->sessions[known->sessions_count % STREAM_SESSIONS_MAX] = (struct stream_session){answer->session_id, 1};
    known->sessions_count += 1;
}

/* The request goes on with a session that an answer named, as a rule in its turn; and forgets a topic of it now and then. */
static bool fill_session(struct stream_input *input, const struct stream_known *known, struct base_arena *arena,
                         struct kafka_fetch_request *request)
{
    static int32_t partitions[] = {0, 1};
    uint32_t how = stream_take(input, 1);
    if (how >= 200) { return true; }
    uint32_t count = (uint32_t)base_min_u64(known->sessions_count, STREAM_SESSIONS_MAX);
    const struct stream_session *session = &known->sessions[how % count];
    request->session_id = session->id;
    request->session_epoch = how % 16 == 15 ? stream_odd_i32(input) : session->epoch;
    if (how % 8 != 7) { return true; }
    request->forgotten_topics_data_count = stream_count(input);
    request->forgotten_topics_data =
        kafka_fetch_request_forgotten_topic_take(arena, request->forgotten_topics_data_count);
    if (request->forgotten_topics_data == NULL) { return false; }
    for (int32_t i = 0; i < request->forgotten_topics_data_count; i++) {
        request->forgotten_topics_data[i].topic = stream_topic(input);
        request->forgotten_topics_data[i].topic_id = stream_id(input, &known->topics);
        request->forgotten_topics_data[i].partitions = partitions;
        request->forgotten_topics_data[i].partitions_count = 1 + i % 2;
    }
    return true;
}

static bool fill_fetch(struct stream_input *input, const struct stream_known *known, struct base_arena *arena,
                       struct kafka_fetch_request *request)
{
    const struct stream_ids *ids = &known->topics;
    if (known->sessions_count > 0 && !fill_session(input, known, arena, request)) { return false; }
    request->max_wait_ms = stream_odd_i32(input);
    request->min_bytes = stream_odd_i32(input);
    uint32_t shape = stream_take(input, 1);
    request->max_bytes = shape < 128 ? 1 << 20 : stream_odd_i32(input);
    if (shape >= 192 && shape < 224 && request->session_id == 0) {
        request->session_epoch = 0;
    } /* asks for a session */
    if (shape >= 224) {
        request->isolation_level = (int8_t)stream_odd(input);
        request->session_id = stream_odd_i32(input);
        request->session_epoch = stream_odd_i32(input);
        request->replica_state.replica_id = stream_odd_i32(input);
    }
    request->topics_count = stream_count(input);
    request->topics = kafka_fetch_request_fetch_topic_take(arena, request->topics_count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) {
        struct kafka_fetch_request_fetch_topic *topic = &request->topics[t];
        topic->topic = stream_topic(input);
        topic->topic_id = stream_id(input, ids);
        topic->partitions_count = stream_count(input);
        topic->partitions = kafka_fetch_request_fetch_partition_take(arena, topic->partitions_count);
        if (topic->partitions == NULL) { return false; }
        bool is_odd = stream_take(input, 1) >= 192;
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            struct kafka_fetch_request_fetch_partition *partition = &topic->partitions[p];
            partition->partition = is_odd ? stream_odd_i32(input) : 0;
            partition->fetch_offset = stream_odd(input);
            partition->partition_max_bytes = is_odd ? stream_odd_i32(input) : 1 << 20;
            partition->current_leader_epoch = is_odd ? stream_odd_i32(input) : -1;
            partition->last_fetched_epoch = is_odd ? stream_odd_i32(input) : -1;
        }
    }
    return true;
}

static bool fill_list_offsets(struct stream_input *input, struct base_arena *arena,
                              struct kafka_list_offsets_request *request)
{
    request->replica_id = -1;
    request->isolation_level = (int8_t)(stream_take(input, 1) % 2);
    request->topics_count = stream_count(input);
    request->topics = kafka_list_offsets_request_list_offsets_topic_take(arena, request->topics_count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) {
        struct kafka_list_offsets_request_list_offsets_topic *topic = &request->topics[t];
        topic->name = stream_topic(input);
        topic->partitions_count = stream_count(input);
        topic->partitions = kafka_list_offsets_request_list_offsets_partition_take(arena, topic->partitions_count);
        if (topic->partitions == NULL) { return false; }
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            topic->partitions[p].partition_index = stream_odd_i32(input);
            topic->partitions[p].current_leader_epoch = stream_take(input, 1) < 200 ? -1 : stream_odd_i32(input);
            topic->partitions[p].timestamp = stream_odd(input);
        }
    }
    return true;
}

static bool fill_metadata(struct stream_input *input, const struct stream_ids *ids, struct base_arena *arena,
                          struct kafka_metadata_request *request)
{
    uint32_t shape = stream_take(input, 1);
    request->allow_auto_topic_creation = shape % 2 == 0;
    request->include_topic_authorized_operations = shape % 4 >= 2;
    request->topics_count = shape >= 224 ? -1 : stream_count(input);
    request->topics =
        kafka_metadata_request_metadata_request_topic_take(arena, (int32_t)base_max_i64(request->topics_count, 0));
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) {
        request->topics[t].name = stream_topic(input);
        if (shape >= 192) {
            request->topics[t].name = kafka_text_null();
            request->topics[t].topic_id = stream_id(input, ids);
        }
    }
    return true;
}

static const struct {
    const char *name;
    const char *value;
} configs[] = {{"segment.bytes", "1048576"},
               {"segment.bytes", "14"},
               {"cleanup.policy", "compact"},
               {"cleanup.policy", "both"},
               {"weir.durability", "page-cache"},
               {"max.message.bytes", "1000"},
               {"max.message.bytes", "-1"},
               {"no.such", "1"},
               {"message.timestamp.type", "LogAppendTime"},
               {"retention.ms", "1"},
               {"segment.ms", "1"},
               {"file.delete.delay.ms", "0"},
               {"index.interval.bytes", "0"},
               {"flush.messages", "1"},
               {"compression.type", "zstd"},
               {"retention.bytes", "1"},
               {"log.retention.ms", "1"},
               {"num.partitions", "3"},
               {"auto.create.topics.enable", "false"}};

static bool fill_config(struct stream_input *input, struct base_arena *arena,
                        struct kafka_create_topics_request_creatable_topic *topic)
{
    topic->configs_count = (int32_t)(stream_take(input, 1) % 4);
    topic->configs = kafka_create_topics_request_creatable_topic_config_take(arena, topic->configs_count);
    if (topic->configs == NULL) { return false; }
    for (int32_t i = 0; i < topic->configs_count; i++) {
        uint32_t at = stream_take(input, 1) % BASE_ARRAY_COUNT(configs);
        topic->configs[i].name = kafka_text_words(configs[at].name);
        topic->configs[i].value = kafka_text_words(configs[at].value);
    }
    return true;
}

/* For whom no time is left nothing is made or deleted: that is seldom worth while. */
static int32_t odd_time_ms(struct stream_input *input)
{
    int32_t time_ms = stream_odd_i32(input);
    return time_ms == 0 ? 10000 : time_ms == INT32_MAX ? 0 : time_ms;
}

static bool fill_create_topics(struct stream_input *input, struct base_arena *arena,
                               struct kafka_create_topics_request *request)
{
    uint32_t shape = stream_take(input, 1);
    request->validate_only = shape >= 240;
    request->timeout_ms = odd_time_ms(input);
    request->topics_count = shape % 4 == 3 ? stream_count(input) : 1;
    request->topics = kafka_create_topics_request_creatable_topic_take(arena, request->topics_count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) {
        struct kafka_create_topics_request_creatable_topic *topic = &request->topics[t];
        topic->name = stream_topic(input);
        topic->num_partitions = shape < 192 ? (int32_t)(1 + shape % 4) : stream_odd_i32(input);
        topic->replication_factor = shape < 192 ? 1 : odd_i16(input);
        if (shape >= 224) {
            topic->assignments_count = stream_count(input);
            topic->assignments =
                kafka_create_topics_request_creatable_replica_assignment_take(arena, topic->assignments_count);
            if (topic->assignments == NULL) { return false; }
            static int32_t brokers[] = {1, 1};
            for (int32_t i = 0; i < topic->assignments_count; i++) {
                topic->assignments[i].partition_index = stream_take(input, 1) < 200 ? i : stream_odd_i32(input);
                topic->assignments[i].broker_ids = brokers;
                topic->assignments[i].broker_ids_count = (int32_t)(stream_take(input, 1) % 3);
            }
        }
        if (!fill_config(input, arena, topic)) { return false; }
    }
    return true;
}

static bool fill_delete_topics(struct stream_input *input, const struct stream_ids *ids, struct base_arena *arena,
                               int16_t version, struct kafka_delete_topics_request *request)
{
    request->timeout_ms = odd_time_ms(input);
    int32_t count = stream_count(input);
    if (version < 6) {
        request->topic_names_count = count;
        request->topic_names = base_arena_take_array(arena, (size_t)count, sizeof *request->topic_names);
        if (request->topic_names == NULL) { return false; }
        for (int32_t t = 0; t < count; t++) { request->topic_names[t] = stream_topic(input); }
        return true;
    }
    request->topics_count = count;
    request->topics = kafka_delete_topics_request_delete_topic_state_take(arena, count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < count; t++) {
        uint32_t how = stream_take(input, 1);
        if (how < 224) { request->topics[t].name = stream_topic(input); }
        if (how >= 192) { request->topics[t].topic_id = stream_id(input, ids); }
    }
    return true;
}

static bool fill_describe_configs(struct stream_input *input, struct base_arena *arena,
                                  struct kafka_describe_configs_request *request)
{
    static struct kafka_text keys[3];
    request->include_synonyms = true;
    request->include_documentation = true;
    request->resources_count = stream_count(input);
    request->resources = kafka_describe_configs_request_describe_configs_resource_take(arena, request->resources_count);
    if (request->resources == NULL) { return false; }
    keys[0] = keys[1] = kafka_text_words("retention.ms");
    keys[2] = kafka_text_words("no.such");
    for (int32_t r = 0; r < request->resources_count; r++) {
        struct kafka_describe_configs_request_describe_configs_resource *resource = &request->resources[r];
        uint32_t how = stream_take(input, 1);
        resource->resource_type = how < 160 ? 2 : how < 220 ? 4 : (int8_t)stream_odd(input);
        resource->resource_name = how % 2 == 0 ? kafka_text_words("1") : stream_topic(input);
        resource->configuration_keys_count = how % 4 == 3 ? (int32_t)(how / 4 % 4) : -1;
        resource->configuration_keys = keys;
    }
    return true;
}

static bool fill_create_partitions(struct stream_input *input, struct base_arena *arena,
                                   struct kafka_create_partitions_request *request)
{
    uint32_t shape = stream_take(input, 1);
    request->validate_only = shape >= 240;
    request->topics_count = shape % 4 == 3 ? stream_count(input) : 1;
    request->topics = kafka_create_partitions_request_create_partitions_topic_take(arena, request->topics_count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) {
        struct kafka_create_partitions_request_create_partitions_topic *topic = &request->topics[t];
        topic->name = stream_topic(input);
        topic->count = shape < 192 ? (int32_t)(1 + shape % 8) : stream_odd_i32(input);
        topic->assignments_count = shape < 160 ? -1 : stream_count(input);
        if (topic->assignments_count < 0) { continue; }
        topic->assignments =
            kafka_create_partitions_request_create_partitions_assignment_take(arena, topic->assignments_count);
        if (topic->assignments == NULL) { return false; }
        static int32_t brokers[] = {1, 1};
        for (int32_t i = 0; i < topic->assignments_count; i++) {
            topic->assignments[i].broker_ids = brokers;
            topic->assignments[i].broker_ids_count = (int32_t)(stream_take(input, 1) % 3);
        }
    }
    return true;
}

static bool fill_alter_configs(struct stream_input *input, struct base_arena *arena,
                               struct kafka_incremental_alter_configs_request *request)
{
    request->validate_only = stream_take(input, 1) >= 240;
    request->resources_count = stream_count(input);
    request->resources =
        kafka_incremental_alter_configs_request_alter_configs_resource_take(arena, request->resources_count);
    if (request->resources == NULL) { return false; }
    for (int32_t r = 0; r < request->resources_count; r++) {
        struct kafka_incremental_alter_configs_request_alter_configs_resource *resource = &request->resources[r];
        uint32_t how = stream_take(input, 1);
        resource->resource_type = how < 192 ? 2 : how < 240 ? 4 : (int8_t)stream_odd(input);
        resource->resource_name = how % 8 == 7 ? kafka_text_words("1") : stream_topic(input);
        resource->configs_count = (int32_t)(how % 4);
        resource->configs =
            kafka_incremental_alter_configs_request_alterable_config_take(arena, resource->configs_count);
        if (resource->configs == NULL) { return false; }
        for (int32_t i = 0; i < resource->configs_count; i++) {
            uint32_t at = stream_take(input, 1);
            uint32_t operation = stream_take(input, 1);
            resource->configs[i].name = kafka_text_words(configs[at % BASE_ARRAY_COUNT(configs)].name);
            resource->configs[i].value = kafka_text_words(configs[at % BASE_ARRAY_COUNT(configs)].value);
            if (at >= 240) { resource->configs[i].value = kafka_text_null(); }
            resource->configs[i].config_operation =
                operation < 250 ? (int8_t)(operation % 4) : (int8_t)stream_odd(input);
        }
    }
    return true;
}

static bool fill_replace_configs(struct stream_input *input, struct base_arena *arena,
                                 struct kafka_alter_configs_request *request)
{
    request->validate_only = stream_take(input, 1) >= 240;
    request->resources_count = stream_count(input);
    request->resources = kafka_alter_configs_request_alter_configs_resource_take(arena, request->resources_count);
    if (request->resources == NULL) { return false; }
    for (int32_t r = 0; r < request->resources_count; r++) {
        struct kafka_alter_configs_request_alter_configs_resource *resource = &request->resources[r];
        uint32_t how = stream_take(input, 1);
        resource->resource_type = how < 192 ? 2 : how < 240 ? 4 : (int8_t)stream_odd(input);
        resource->resource_name = how % 8 == 7 ? kafka_text_words("1") : stream_topic(input);
        resource->configs_count = (int32_t)(how % 4);
        resource->configs = kafka_alter_configs_request_alterable_config_take(arena, resource->configs_count);
        if (resource->configs == NULL) { return false; }
        for (int32_t i = 0; i < resource->configs_count; i++) {
            uint32_t at = stream_take(input, 1);
            resource->configs[i].name = kafka_text_words(configs[at % BASE_ARRAY_COUNT(configs)].name);
            resource->configs[i].value = kafka_text_words(configs[at % BASE_ARRAY_COUNT(configs)].value);
            if (at >= 240) { resource->configs[i].value = kafka_text_null(); }
        }
    }
    return true;
}

static bool fill_describe_topic_partitions(struct stream_input *input, struct base_arena *arena,
                                           struct kafka_describe_topic_partitions_request *request)
{
    uint32_t shape = stream_take(input, 1);
    if (shape >= 128) { request->response_partition_limit = stream_odd_i32(input); }
    request->topics_count = shape % 8 == 7 ? 0 : stream_count(input);
    request->topics = kafka_describe_topic_partitions_request_topic_request_take(arena, request->topics_count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) { request->topics[t].name = stream_topic(input); }
    if (shape % 2 == 0) { return true; }
    request->cursor = kafka_describe_topic_partitions_request_cursor_take(arena, 1);
    if (request->cursor == NULL) { return false; }
    request->cursor->topic_name = stream_topic(input);
    request->cursor->partition_index = stream_odd_i32(input);
    return true;
}

static bool fill_list_config_resources(struct stream_input *input, struct base_arena *arena, int16_t version,
                                       struct kafka_list_config_resources_request *request)
{
    if (version == 0) { return true; }
    request->resource_types_count = stream_count(input);
    request->resource_types = base_arena_take_array(arena, (size_t)request->resource_types_count, 1);
    if (request->resource_types == NULL) { return false; }
    for (int32_t i = 0; i < request->resource_types_count; i++) {
        uint32_t how = stream_take(input, 1);
        request->resource_types[i] = (int8_t)(how < 200 ? 1u << how % 8 : how);
    }
    return true;
}

static bool fill_epochs(struct stream_input *input, struct base_arena *arena,
                        struct kafka_offset_for_leader_epoch_request *request)
{
    request->topics_count = stream_count(input);
    request->topics = kafka_offset_for_leader_epoch_request_offset_for_leader_topic_take(arena, request->topics_count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) {
        struct kafka_offset_for_leader_epoch_request_offset_for_leader_topic *topic = &request->topics[t];
        topic->topic = stream_topic(input);
        topic->partitions_count = stream_count(input);
        topic->partitions =
            kafka_offset_for_leader_epoch_request_offset_for_leader_partition_take(arena, topic->partitions_count);
        if (topic->partitions == NULL) { return false; }
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            topic->partitions[p].partition = stream_odd_i32(input);
            topic->partitions[p].current_leader_epoch = stream_take(input, 1) < 200 ? -1 : stream_odd_i32(input);
            topic->partitions[p].leader_epoch = stream_odd_i32(input);
        }
    }
    return true;
}

static bool fill_delete_records(struct stream_input *input, struct base_arena *arena,
                                struct kafka_delete_records_request *request)
{
    request->topics_count = stream_count(input);
    request->topics = kafka_delete_records_request_delete_records_topic_take(arena, request->topics_count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) {
        struct kafka_delete_records_request_delete_records_topic *topic = &request->topics[t];
        topic->name = stream_topic(input);
        topic->partitions_count = stream_count(input);
        topic->partitions = kafka_delete_records_request_delete_records_partition_take(arena, topic->partitions_count);
        if (topic->partitions == NULL) { return false; }
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            topic->partitions[p].partition_index = stream_odd_i32(input);
            topic->partitions[p].offset = stream_odd(input);
        }
    }
    return true;
}

static bool fill_indexes(struct stream_input *input, struct base_arena *arena, int32_t **indexes_out,
                         int32_t *count_out)
{
    *count_out = stream_count(input);
    *indexes_out = base_arena_take_array(arena, (size_t)*count_out, sizeof **indexes_out);
    if (*indexes_out == NULL) { return false; }
    for (int32_t i = 0; i < *count_out; i++) { (*indexes_out)[i] = stream_odd_i32(input); }
    return true;
}

static bool fill_producers(struct stream_input *input, struct base_arena *arena,
                           struct kafka_describe_producers_request *request)
{
    request->topics_count = stream_count(input);
    request->topics = kafka_describe_producers_request_topic_request_take(arena, request->topics_count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) {
        struct kafka_describe_producers_request_topic_request *topic = &request->topics[t];
        topic->name = stream_topic(input);
        if (!fill_indexes(input, arena, &topic->partition_indexes, &topic->partition_indexes_count)) { return false; }
    }
    return true;
}

static bool fill_log_dirs(struct stream_input *input, struct base_arena *arena,
                          struct kafka_describe_log_dirs_request *request)
{
    request->topics_count = stream_take(input, 1) < 100 ? -1 : stream_count(input);
    if (request->topics_count < 0) { return true; }
    request->topics = kafka_describe_log_dirs_request_describable_log_dir_topic_take(arena, request->topics_count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) {
        struct kafka_describe_log_dirs_request_describable_log_dir_topic *topic = &request->topics[t];
        topic->topic = stream_topic(input);
        if (!fill_indexes(input, arena, &topic->partitions, &topic->partitions_count)) { return false; }
    }
    return true;
}

static bool fill(struct stream_input *input, const struct stream_known *known, struct base_arena *arena,
                 int16_t api_key, int16_t version, void *value)
{
    const struct stream_ids *ids = &known->topics;
    switch (api_key) {
    case KAFKA_API_PRODUCE: return fill_produce(input, ids, arena, value);
    case KAFKA_API_FETCH: return fill_fetch(input, known, arena, value);
    case KAFKA_API_LIST_OFFSETS: return fill_list_offsets(input, arena, value);
    case KAFKA_API_METADATA: return fill_metadata(input, ids, arena, value);
    case KAFKA_API_CREATE_TOPICS: return fill_create_topics(input, arena, value);
    case KAFKA_API_DELETE_TOPICS: return fill_delete_topics(input, ids, arena, version, value);
    case KAFKA_API_DESCRIBE_CONFIGS: return fill_describe_configs(input, arena, value);
    case KAFKA_API_CREATE_PARTITIONS: return fill_create_partitions(input, arena, value);
    case KAFKA_API_INCREMENTAL_ALTER_CONFIGS: return fill_alter_configs(input, arena, value);
    case KAFKA_API_DELETE_RECORDS: return fill_delete_records(input, arena, value);
    case KAFKA_API_OFFSET_FOR_LEADER_EPOCH: return fill_epochs(input, arena, value);
    case KAFKA_API_DESCRIBE_PRODUCERS: return fill_producers(input, arena, value);
    case KAFKA_API_DESCRIBE_LOG_DIRS: return fill_log_dirs(input, arena, value);
    case KAFKA_API_ALTER_CONFIGS: return fill_replace_configs(input, arena, value);
    case KAFKA_API_DESCRIBE_TOPIC_PARTITIONS: return fill_describe_topic_partitions(input, arena, value);
    case KAFKA_API_LIST_CONFIG_RESOURCES: return fill_list_config_resources(input, arena, version, value);
    case KAFKA_API_DESCRIBE_CLUSTER: {
        struct kafka_describe_cluster_request *request = value;
        uint32_t how = stream_take(input, 1);
        request->include_cluster_authorized_operations = how % 2 == 1;
        if (version >= 1) { request->endpoint_type = how < 200 ? 1 : (int8_t)stream_odd(input); }
        if (version >= 2) { request->include_fenced_brokers = how % 4 >= 2; }
        return true;
    }
    case KAFKA_API_INIT_PRODUCER_ID: {
        struct kafka_init_producer_id_request *request = value;
        uint32_t how = stream_take(input, 1);
        request->transaction_timeout_ms = stream_odd_i32(input);
        request->transactional_id = how >= 230 ? stream_topic(input) : kafka_text_null();
        if (how % 2 == 1 && version >= 3) {
            request->producer_id = stream_odd(input);
            request->producer_epoch = odd_i16(input);
        }
        return true;
    }
    default: return stream_fill_group(input, known, arena, api_key, version, value);
    }
}

size_t stream_encode(enum kafka_message message, const void *value, int16_t version, int32_t correlation,
                     uint8_t frame_out[STREAM_REQUEST_BYTES_MAX])
{
    struct kafka_size size;
    struct kafka_text client = kafka_text_words("f");
    if (kafka_request_size(message, value, version, client, &size) != BASE_OK) { return 0; }
    if (size.memory_bytes > STREAM_REQUEST_BYTES_MAX) { return 0; }
    struct kafka_writer writer;
    kafka_writer_init(&writer, frame_out, STREAM_REQUEST_BYTES_MAX);
    enum base_rc rc = kafka_request_encode(message, value, version, correlation, client, &writer);
    CHECK(rc == BASE_OK);
    return writer.used_bytes;
}

size_t stream_request(struct stream_input *input, const struct stream_known *known, int32_t correlation,
                      uint8_t frame_out[STREAM_REQUEST_BYTES_MAX])
{
    static const int16_t keys[] = {KAFKA_API_PRODUCE,
                                   KAFKA_API_FETCH,
                                   KAFKA_API_PRODUCE,
                                   KAFKA_API_LIST_OFFSETS,
                                   KAFKA_API_METADATA,
                                   KAFKA_API_CREATE_TOPICS,
                                   KAFKA_API_DELETE_TOPICS,
                                   KAFKA_API_DESCRIBE_CONFIGS,
                                   KAFKA_API_INIT_PRODUCER_ID,
                                   KAFKA_API_API_VERSIONS,
                                   KAFKA_API_PRODUCE,
                                   KAFKA_API_FETCH,
                                   KAFKA_API_CREATE_PARTITIONS,
                                   KAFKA_API_INCREMENTAL_ALTER_CONFIGS,
                                   KAFKA_API_DESCRIBE_CLUSTER,
                                   KAFKA_API_DESCRIBE_TOPIC_PARTITIONS,
                                   KAFKA_API_LIST_CONFIG_RESOURCES,
                                   KAFKA_API_ALTER_CONFIGS,
                                   KAFKA_API_OFFSET_FOR_LEADER_EPOCH,
                                   KAFKA_API_DESCRIBE_PRODUCERS,
                                   KAFKA_API_DESCRIBE_LOG_DIRS,
                                   KAFKA_API_DELETE_RECORDS};
    uint32_t which = stream_take(input, 1);
    bool is_of_groups = known->has_groups && which < 200;
    const struct kafka_api_info *info =
        kafka_api_info(is_of_groups ? stream_group_api(input) : keys[which % BASE_ARRAY_COUNT(keys)]);
    int16_t version =
        (int16_t)(info->version_min +
                  (int32_t)(stream_take(input, 1) % (uint32_t)(info->version_stable - info->version_min + 1)));
    struct base_arena arena;
    base_arena_init(&arena, arena_bytes, sizeof arena_bytes);
    void *value = base_arena_take(&arena, kafka_message_struct_bytes(info->request));
    CHECK(value != NULL);
    kafka_init(info->request, value);
    if (!fill(input, known, &arena, info->key, version, value)) { return 0; }
    return stream_encode(info->request, value, version, correlation, frame_out);
}

size_t stream_random_request(struct stream_input *input, int32_t correlation,
                             uint8_t frame_out[STREAM_REQUEST_BYTES_MAX])
{
    const struct kafka_api_info *info = kafka_api_at(stream_take(input, 1) % KAFKA_API_COUNT);
    int16_t version = (int16_t)(info->version_min + (int32_t)(stream_take(input, 1) %
                                                              (uint32_t)(info->version_max - info->version_min + 1)));
    struct base_prng prng;
    base_prng_init(&prng, stream_take(input, 2), 1);
    struct base_arena arena;
    base_arena_init(&arena, arena_bytes, sizeof arena_bytes);
    void *value = base_arena_take(&arena, kafka_message_struct_bytes(info->request));
    CHECK(value != NULL);
    kafka_init(info->request, value);
    if (kafka_random(info->request, version, &prng, &arena, value) != BASE_OK) { return 0; }
    return stream_encode(info->request, value, version, correlation, frame_out);
}
