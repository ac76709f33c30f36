/* admin.c: see actor.h. Creates, deletes and looks at topics, one operation at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "actor__parts.h"

#include <inttypes.h>

#include "wire/kafka/create_partitions.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_records.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/describe_configs.h"
#include "wire/kafka/describe_log_dirs.h"
#include "wire/kafka/describe_producers.h"
#include "wire/kafka/describe_topic_partitions.h"
#include "wire/kafka/incremental_alter_configs.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/list_offsets.h"
#include "wire/kafka/metadata.h"
#include "wire/kafka/offset_for_leader_epoch.h"

/* ---- asking ---- */

static bool is_of_controller(int16_t api_key)
{
    return api_key == KAFKA_API_CREATE_TOPICS || api_key == KAFKA_API_DELETE_TOPICS ||
           api_key == KAFKA_API_CREATE_PARTITIONS;
}

static bool is_wide(const struct history_op *op) { return strcmp(op->topic, ACTOR_WIDE) == 0; }

static bool is_change(const struct history_op *op)
{
    return op->kind == HISTORY_CREATE || op->kind == HISTORY_GROW || is_wide(op);
}

static bool ask(struct actor *actor, const struct history_op *op, int16_t api_key, const void *request)
{
    struct history *history = actor->spec->cast->history;
    struct client_call call = {.token = (uint64_t)history->op_count + 1,
                               .api_key = api_key,
                               .target = is_of_controller(api_key) ? CLIENT_TO_CONTROLLER : CLIENT_TO_ANY,
                               .request = request,
                               .timeout_ms = 10000};
    if (client_call(actor->client, &call) != BASE_OK) { return false; }
    (void)history_invoke(history, op); /* its number is the token less one */
    if (is_change(op)) { actor->spec->cast->changing += 1; }
    actor->outstanding += 1;
    return true;
}

static struct history_op op_of(const struct actor *actor, enum history_kind kind, uint32_t topic)
{
    struct history_op op = actor__op(actor, kind);
    memcpy(op.topic, actor->spec->cast->topics[topic].name, sizeof op.topic);
    return op;
}

/* Kafka's least segment.bytes is 1 MiB: smaller segments come of an index that is soon full. It has an entry for about
 * INDEX_STRIDE bytes of records, and room for an entry of the larger of the two, which takes 12. */
#define INDEX_INTERVAL 1024
#define INDEX_STRIDE   2560
#define CONFIGS_MAX    12
struct topic_configs {
    struct kafka_create_topics_request_creatable_topic_config items[CONFIGS_MAX];
    int32_t count;
    char numbers[CONFIGS_MAX][12];
};

static void add_config(struct topic_configs *configs, const char *name, const char *value)
{
    CHECK(configs->count < CONFIGS_MAX);
    struct kafka_create_topics_request_creatable_topic_config *item = &configs->items[configs->count++];
    kafka_create_topics_request_creatable_topic_config_init(item);
    item->name = kafka_text_words(name);
    item->value = kafka_text_words(value);
}

static void add_number(struct topic_configs *configs, const char *name, uint32_t number)
{
    char *words = configs->numbers[configs->count];
    (void)snprintf(words, sizeof configs->numbers[0], "%" PRIu32, number); /* short */
    add_config(configs, name, words);
}

static void configure(const struct actor_cast *cast, struct topic_configs *configs, const struct actor_topic *topic)
{
    configs->count = 0;
    if (topic->is_stamped) { add_config(configs, "message.timestamp.type", "LogAppendTime"); }
    if (topic->retention_bytes > 0) { add_number(configs, "retention.bytes", topic->retention_bytes); }
    if (topic->retention_ms > 0) {
        add_number(configs, "retention.ms", topic->retention_ms);
    } else if (cast->is_default_short) {
        add_config(configs, "retention.ms", "-1");
    }
    add_number(configs, "file.delete.delay.ms", topic->is_slow_to_go ? 2000 : 300);
    if (cast->is_default_open || topic->is_page_cache != cast->is_default_page_cache) {
        add_config(configs, "weir.durability", topic->is_page_cache ? "page-cache" : "synced");
    }
    if (topic->flush_messages > 0) { add_number(configs, "flush.messages", topic->flush_messages); }
    if (topic->flush_ms > 0) { add_number(configs, "flush.ms", topic->flush_ms); }
    if (topic->segment_bytes == 0) { return; }
    if (topic->segment_bytes / 1024 % 3 == 0) { add_config(configs, "preallocate", "true"); }
    if (topic->segment_bytes / 1024 % 4 == 0) { add_config(configs, "compression.type", "lz4"); }
    add_number(configs, "index.interval.bytes", INDEX_INTERVAL);
    add_number(configs, "segment.index.bytes", (topic->segment_bytes / INDEX_STRIDE + 2) % 100000u * 12u);
}

static bool send_create(struct actor *actor, const struct history_op *op, int32_t partitions,
                        struct topic_configs *configs)
{
    struct kafka_create_topics_request_creatable_topic wanted;
    kafka_create_topics_request_creatable_topic_init(&wanted);
    wanted.name = kafka_text_words(op->topic);
    wanted.num_partitions = partitions;
    wanted.replication_factor = 1;
    wanted.configs = configs->items;
    wanted.configs_count = configs->count;
    struct kafka_create_topics_request request;
    kafka_create_topics_request_init(&request);
    request.topics = &wanted;
    request.topics_count = 1;
    request.timeout_ms = 8000;
    return ask(actor, op, KAFKA_API_CREATE_TOPICS, &request);
}

static bool send_delete(struct actor *actor, const struct history_op *op)
{
    struct kafka_delete_topics_request_delete_topic_state wanted;
    kafka_delete_topics_request_delete_topic_state_init(&wanted);
    wanted.name = kafka_text_words(op->topic);
    struct kafka_delete_topics_request request;
    kafka_delete_topics_request_init(&request);
    request.topics = &wanted;
    request.topics_count = 1;
    request.timeout_ms = 8000;
    return ask(actor, op, KAFKA_API_DELETE_TOPICS, &request);
}

static bool send_grow(struct actor *actor, const struct history_op *op, int32_t partitions)
{
    struct kafka_create_partitions_request_create_partitions_topic wanted;
    kafka_create_partitions_request_create_partitions_topic_init(&wanted);
    wanted.name = kafka_text_words(op->topic);
    wanted.count = partitions;
    wanted.assignments_count = -1;
    struct kafka_create_partitions_request request;
    kafka_create_partitions_request_init(&request);
    request.topics = &wanted;
    request.topics_count = 1;
    request.timeout_ms = 8000;
    return ask(actor, op, KAFKA_API_CREATE_PARTITIONS, &request);
}

static bool ask_create(struct actor *actor, uint32_t at)
{
    struct actor_topic *topic = &actor->spec->cast->topics[at];
    struct history_op op = op_of(actor, HISTORY_CREATE, at);
    op.count = topic->partition_count;
    op.at = (actor_topic_is_trimmed(topic) ? HISTORY_TRIMMED : 0) | (topic->is_page_cache ? HISTORY_LOSSY : 0);
    struct topic_configs configs;
    configure(actor->spec->cast, &configs, topic);
    if (!send_create(actor, &op, topic->partition_count, &configs)) { return false; }
    topic->incarnation += 1;
    return true;
}

static bool ask_delete(struct actor *actor, uint32_t at, bool is_final)
{
    struct history_op op = op_of(actor, HISTORY_DELETE, at);
    op.is_final = is_final;
    return send_delete(actor, &op);
}

bool actor__ask_topic(struct actor *actor, uint32_t topic, bool is_final)
{
    struct history_op op = op_of(actor, HISTORY_TOPIC, topic);
    op.is_final = is_final;
    struct kafka_metadata_request_metadata_request_topic wanted;
    kafka_metadata_request_metadata_request_topic_init(&wanted);
    wanted.name = kafka_text_words(op.topic);
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.topics = &wanted;
    request.topics_count = 1;
    request.allow_auto_topic_creation = false;
    return ask(actor, &op, KAFKA_API_METADATA, &request);
}

/* The same question by another name: the answers are judged alike. */
static bool ask_partitions(struct actor *actor, uint32_t topic)
{
    struct history_op op = op_of(actor, HISTORY_TOPIC, topic);
    struct kafka_describe_topic_partitions_request_topic_request wanted;
    kafka_describe_topic_partitions_request_topic_request_init(&wanted);
    wanted.name = kafka_text_words(op.topic);
    struct kafka_describe_topic_partitions_request request;
    kafka_describe_topic_partitions_request_init(&request);
    request.topics = &wanted;
    request.topics_count = 1;
    return ask(actor, &op, KAFKA_API_DESCRIBE_TOPIC_PARTITIONS, &request);
}

bool actor__ask_offsets(struct actor *actor, uint32_t topic, int32_t partition, int64_t at, bool is_final)
{
    struct history_op op = op_of(actor, HISTORY_OFFSETS, topic);
    op.partition = partition;
    op.at = at;
    op.is_final = is_final;
    struct kafka_list_offsets_request_list_offsets_partition wanted;
    kafka_list_offsets_request_list_offsets_partition_init(&wanted);
    wanted.partition_index = partition;
    wanted.timestamp = at;
    struct kafka_list_offsets_request_list_offsets_topic of;
    kafka_list_offsets_request_list_offsets_topic_init(&of);
    of.name = kafka_text_words(op.topic);
    of.partitions = &wanted;
    of.partitions_count = 1;
    struct kafka_list_offsets_request request;
    kafka_list_offsets_request_init(&request);
    request.replica_id = -1;
    request.topics = &of;
    request.topics_count = 1;
    return ask(actor, &op, KAFKA_API_LIST_OFFSETS, &request);
}

/* Past the last record of that partition that anybody was told of or read; 0: none. */
static int64_t end_heard_of(const struct actor *actor, const char *topic, int32_t partition)
{
    const struct history *history = actor->spec->cast->history;
    int64_t end = 0;
    for (uint32_t i = 0; i < history->op_count; i++) {
        const struct history_op *op = &history->ops[i];
        bool is_record = (op->kind == HISTORY_PRODUCE || op->kind == HISTORY_READ) && op->what == HISTORY_OK;
        if (!is_record || !history_is_of(op, topic, partition)) { continue; }
        end = base_max_i64(end, op->offset + 1);
    }
    return end;
}

#define FAR_BEYOND 1000000

static bool ask_trim(struct actor *actor)
{
    const struct actor_cast *cast = actor->spec->cast;
    uint32_t at = (uint32_t)base_prng_below(&actor->trim_prng, cast->topic_count);
    const struct actor_topic *topic = &cast->topics[at];
    if (!topic->is_ready) { return false; }
    struct history_op op = op_of(actor, HISTORY_TRIM, at);
    op.partition = (int32_t)base_prng_below(&actor->trim_prng, (uint64_t)topic->partition_count);
    uint64_t kind = base_prng_below(&actor->trim_prng, 10);
    int64_t end = end_heard_of(actor, op.topic, op.partition);
    op.at = (int64_t)base_prng_below(&actor->trim_prng, (uint64_t)end + 1);
    if (kind == 0) { op.at = -1; } /* up to the watermark */
    if (kind == 1) { op.at = end + FAR_BEYOND; }
    if (kind == 2) { op.partition = topic->partition_count + (int32_t)op.at % 3; } /* there is none */
    struct kafka_delete_records_request_delete_records_partition wanted;
    kafka_delete_records_request_delete_records_partition_init(&wanted);
    wanted.partition_index = op.partition;
    wanted.offset = op.at;
    struct kafka_delete_records_request_delete_records_topic of;
    kafka_delete_records_request_delete_records_topic_init(&of);
    of.name = kafka_text_words(op.topic);
    of.partitions = &wanted;
    of.partitions_count = 1;
    struct kafka_delete_records_request request;
    kafka_delete_records_request_init(&request);
    request.topics = &of;
    request.topics_count = 1;
    request.timeout_ms = 8000;
    return ask(actor, &op, KAFKA_API_DELETE_RECORDS, &request);
}

/* Of a topic, and nothing is kept of it but which call it was. */
static bool ask_call(struct actor *actor, uint32_t topic, int16_t api_key, const void *request)
{
    struct history_op op = op_of(actor, HISTORY_CALL, topic);
    op.count = api_key;
    return ask(actor, &op, api_key, request);
}

bool actor__ask_configs(struct actor *actor, uint32_t at, bool is_final)
{
    struct history_op op = op_of(actor, HISTORY_CONFIG, at);
    op.is_final = is_final;
    struct kafka_describe_configs_request_describe_configs_resource wanted;
    kafka_describe_configs_request_describe_configs_resource_init(&wanted);
    wanted.resource_type = 2; /* a topic */
    wanted.resource_name = kafka_text_words(op.topic);
    wanted.configuration_keys_count = -1;
    struct kafka_describe_configs_request request;
    kafka_describe_configs_request_init(&request);
    request.resources = &wanted;
    request.resources_count = 1;
    return ask(actor, &op, KAFKA_API_DESCRIBE_CONFIGS, &request);
}

#define ALTERED_MAX 1000000

/* A change that nothing depends on but what is told of it: it goes the way of all changes. */
static bool ask_alter(struct actor *actor, uint32_t at)
{
    bool is_removal = actor__below(actor, 3) == 0;
    uint32_t number = actor__below(actor, ALTERED_MAX);
    struct history_op op = op_of(actor, HISTORY_ALTER, at);
    op.at = is_removal ? -1 : (int64_t)number;
    char words[12];
    (void)snprintf(words, sizeof words, "%" PRIu32, number); /* short */
    struct kafka_incremental_alter_configs_request_alterable_config config;
    kafka_incremental_alter_configs_request_alterable_config_init(&config);
    config.name = kafka_text_words(HISTORY_ALTERED);
    config.config_operation = is_removal ? 1 : 0;
    config.value = is_removal ? kafka_text_null() : kafka_text_words(words);
    struct kafka_incremental_alter_configs_request_alter_configs_resource wanted;
    kafka_incremental_alter_configs_request_alter_configs_resource_init(&wanted);
    wanted.resource_type = 2; /* a topic */
    wanted.resource_name = kafka_text_words(op.topic);
    wanted.configs = &config;
    wanted.configs_count = 1;
    struct kafka_incremental_alter_configs_request request;
    kafka_incremental_alter_configs_request_init(&request);
    request.resources = &wanted;
    request.resources_count = 1;
    return ask(actor, &op, KAFKA_API_INCREMENTAL_ALTER_CONFIGS, &request);
}

/* Several at once, so that it would be seen if some of them were told of. */
static bool ask_grow(struct actor *actor)
{
    struct actor_cast *cast = actor->spec->cast;
    uint32_t at = (uint32_t)base_prng_below(&actor->grow_prng, cast->topic_count);
    const struct actor_topic *topic = &cast->topics[at];
    int32_t more = 1 + (int32_t)base_prng_below(&actor->grow_prng, 3);
    if (!topic->is_ready || topic->partition_count >= ACTOR_PARTITIONS_MAX) { return false; }
    struct history_op op = op_of(actor, HISTORY_GROW, at);
    op.count = base_min_i64(topic->partition_count + more, ACTOR_PARTITIONS_MAX);
    return send_grow(actor, &op, (int32_t)op.count);
}

/* More records than a shard applies in one go: whoever asks meanwhile is told of all of them or of none. */
static bool ask_wide(struct actor *actor)
{
    struct history_op op = actor__op(actor, HISTORY_CALL);
    memcpy(op.topic, ACTOR_WIDE, sizeof ACTOR_WIDE);
    int32_t more = 17 + (int32_t)base_prng_below(&actor->grow_prng, 16);
    bool is_grow = actor->wide_count > 0 && actor->wide_count < 50 && base_prng_chance(&actor->grow_prng, 1, 2);
    actor->wide_asked = actor->wide_count + more;
    if (is_grow) {
        op.count = KAFKA_API_CREATE_PARTITIONS;
        return send_grow(actor, &op, actor->wide_asked);
    }
    if (actor->wide_count > 0) {
        actor->wide_asked = 0;
        op.count = KAFKA_API_DELETE_TOPICS;
        return send_delete(actor, &op);
    }
    op.count = KAFKA_API_CREATE_TOPICS;
    struct topic_configs none = {.count = 0};
    return send_create(actor, &op, actor->wide_asked, &none);
}

static bool ask_sizes(struct actor *actor, uint32_t at)
{
    struct kafka_describe_log_dirs_request request;
    kafka_describe_log_dirs_request_init(&request);
    request.topics_count = -1; /* all */
    return ask_call(actor, at, KAFKA_API_DESCRIBE_LOG_DIRS, &request);
}

static bool ask_producers(struct actor *actor, uint32_t at)
{
    int32_t index = 0;
    struct kafka_describe_producers_request_topic_request wanted;
    kafka_describe_producers_request_topic_request_init(&wanted);
    wanted.name = kafka_text_words(actor->spec->cast->topics[at].name);
    wanted.partition_indexes = &index;
    wanted.partition_indexes_count = 1;
    struct kafka_describe_producers_request request;
    kafka_describe_producers_request_init(&request);
    request.topics = &wanted;
    request.topics_count = 1;
    return ask_call(actor, at, KAFKA_API_DESCRIBE_PRODUCERS, &request);
}

static bool ask_epoch(struct actor *actor, uint32_t at)
{
    struct kafka_offset_for_leader_epoch_request_offset_for_leader_partition partition;
    kafka_offset_for_leader_epoch_request_offset_for_leader_partition_init(&partition);
    struct kafka_offset_for_leader_epoch_request_offset_for_leader_topic wanted;
    kafka_offset_for_leader_epoch_request_offset_for_leader_topic_init(&wanted);
    wanted.topic = kafka_text_words(actor->spec->cast->topics[at].name);
    wanted.partitions = &partition;
    wanted.partitions_count = 1;
    struct kafka_offset_for_leader_epoch_request request;
    kafka_offset_for_leader_epoch_request_init(&request);
    request.replica_id = -1;
    request.topics = &wanted;
    request.topics_count = 1;
    return ask_call(actor, at, KAFKA_API_OFFSET_FOR_LEADER_EPOCH, &request);
}

/* Calls whose answers nothing else is known of: that they are answered is what counts. */
static bool ask_something_else(struct actor *actor, uint32_t at)
{
    switch (actor__below(actor, 5)) {
    case 0: return ask_alter(actor, at);
    case 1: return ask_sizes(actor, at);
    case 2: return ask_producers(actor, at);
    case 3: return ask_epoch(actor, at);
    default: return actor__ask_configs(actor, at, false);
    }
}

/* ---- what came of it ---- */

static void answer_create(struct actor *actor, struct history_op *op, const struct kafka_create_topics_response *answer)
{
    if (answer->topics_count != 1) { return; }
    op->error = answer->topics[0].error_code;
    op->id = answer->topics[0].topic_id;
    struct actor_cast *cast = actor->spec->cast;
    for (uint32_t i = 0; i < cast->topic_count; i++) {
        bool is_there = op->error == KAFKA_ERROR_NONE || op->error == KAFKA_ERROR_TOPIC_ALREADY_EXISTS;
        if (is_there && strcmp(cast->topics[i].name, op->topic) == 0) { cast->topics[i].is_ready = true; }
    }
}

#define NOT_WHOLE (-2) /* partitions: not from 0 on, each once and led by somebody */

static void is_not_there(struct history_op *op)
{
    if (op->error != KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION) { return; }
    op->error = 0;
    op->count = -1;
    op->id = (struct base_uuid){{0}};
}

/* `told`: the partitions that were seen, of the first 64. */
static bool note_partition(uint64_t *told, int16_t error, int32_t index, int32_t leader)
{
    if (error != 0 || leader < 0 || index < 0 || index >= 64 || (*told >> index & 1) != 0) { return false; }
    *told |= UINT64_C(1) << index;
    return true;
}

static void answer_topic(struct history_op *op, const struct client_result *result)
{
    uint64_t told = 0;
    bool is_whole = true;
    if (result->api_key == KAFKA_API_DESCRIBE_TOPIC_PARTITIONS) {
        const struct kafka_describe_topic_partitions_response *answer = result->answer;
        if (answer->topics_count != 1) { return; }
        const struct kafka_describe_topic_partitions_response_describe_topic_partitions_response_topic *topic =
            &answer->topics[0];
        op->error = topic->error_code;
        op->count = topic->partitions_count;
        op->id = topic->topic_id;
        for (int32_t i = 0; i < topic->partitions_count; i++) {
            is_whole = is_whole && note_partition(&told, topic->partitions[i].error_code,
                                                  topic->partitions[i].partition_index, topic->partitions[i].leader_id);
        }
    } else {
        const struct kafka_metadata_response *answer = result->answer;
        if (answer->topics_count != 1) { return; }
        const struct kafka_metadata_response_metadata_response_topic *topic = &answer->topics[0];
        op->error = topic->error_code;
        op->count = topic->partitions_count;
        op->id = topic->topic_id;
        for (int32_t i = 0; i < topic->partitions_count; i++) {
            is_whole = is_whole && note_partition(&told, topic->partitions[i].error_code,
                                                  topic->partitions[i].partition_index, topic->partitions[i].leader_id);
        }
    }
    if (op->error == 0 && (!is_whole || (told & (told + 1)) != 0)) { op->count = NOT_WHOLE; }
    is_not_there(op);
}

static void answer_configs(struct history_op *op, const struct kafka_describe_configs_response *answer)
{
    if (answer->results_count != 1) { return; }
    op->error = answer->results[0].error_code;
    op->at = -1;
    for (int32_t i = 0; i < answer->results[0].configs_count; i++) {
        const struct kafka_describe_configs_response_describe_configs_resource_result *config =
            &answer->results[0].configs[i];
        if (kafka_text_is(config->name, "weir.durability") && kafka_text_is(config->value, "page-cache")) {
            op->count = HISTORY_LOSSY;
        }
        bool is_own = config->config_source == 1; /* the topic's */
        if (!kafka_text_is(config->name, HISTORY_ALTERED) || !is_own) { continue; }
        int64_t number;
        bool is_number = base_text_parse_i64(kafka_text_slice(config->value), &number) == BASE_OK;
        op->at = is_number ? number : INT64_MIN; /* which nobody asked for */
    }
    is_not_there(op);
}

/* Its producers know of the new ones from now on, and others by and by. */
static void answer_grow(struct actor *actor, struct history_op *op,
                        const struct kafka_create_partitions_response *answer)
{
    if (answer->results_count != 1) { return; }
    op->error = answer->results[0].error_code;
    struct actor_cast *cast = actor->spec->cast;
    for (uint32_t i = 0; i < cast->topic_count; i++) {
        if (op->error != 0 || strcmp(cast->topics[i].name, op->topic) != 0) { continue; }
        cast->topics[i].partition_count = (int32_t)op->count;
    }
}

static void answer_alter(struct history_op *op, const struct kafka_incremental_alter_configs_response *answer)
{
    if (answer->responses_count == 1) { op->error = answer->responses[0].error_code; }
}

static void answer_offsets(struct history_op *op, const struct kafka_list_offsets_response *answer)
{
    if (answer->topics_count != 1 || answer->topics[0].partitions_count != 1) { return; }
    op->error = answer->topics[0].partitions[0].error_code;
    op->offset = answer->topics[0].partitions[0].offset;
    op->timestamp_ms = answer->topics[0].partitions[0].timestamp;
}

static void answer_trim(struct history_op *op, const struct kafka_delete_records_response *answer)
{
    if (answer->topics_count != 1 || answer->topics[0].partitions_count != 1) { return; }
    op->error = answer->topics[0].partitions[0].error_code;
    op->offset = answer->topics[0].partitions[0].low_watermark;
}

/* What is not known is found out by the next change. */
static void answer_wide(struct actor *actor, struct history_op *op, const struct client_result *result)
{
    const struct kafka_create_topics_response *created = result->answer;
    const struct kafka_create_partitions_response *grown = result->answer;
    const struct kafka_delete_topics_response *deleted = result->answer;
    switch (op->count) {
    case KAFKA_API_CREATE_TOPICS: op->error = created->topics_count == 1 ? created->topics[0].error_code : 0; break;
    case KAFKA_API_CREATE_PARTITIONS: op->error = grown->results_count == 1 ? grown->results[0].error_code : 0; break;
    default: op->error = deleted->responses_count == 1 ? deleted->responses[0].error_code : 0; break;
    }
    bool is_there = op->error == 0 || op->error == KAFKA_ERROR_TOPIC_ALREADY_EXISTS;
    if (is_there) { actor->wide_count = actor->wide_asked; }
    if (op->error == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION) { actor->wide_count = 0; }
}

static void read_answer(struct actor *actor, struct history_op *op, const struct client_result *result)
{
    switch ((int)op->kind) {
    case HISTORY_CREATE: answer_create(actor, op, result->answer); return;
    case HISTORY_DELETE: {
        const struct kafka_delete_topics_response *answer = result->answer;
        if (answer->responses_count == 1) { op->error = answer->responses[0].error_code; }
        return;
    }
    case HISTORY_TOPIC: answer_topic(op, result); return;
    case HISTORY_OFFSETS: answer_offsets(op, result->answer); return;
    case HISTORY_TRIM: answer_trim(op, result->answer); return;
    case HISTORY_CALL:
        if (is_wide(op)) { answer_wide(actor, op, result); }
        return;
    case HISTORY_GROW: answer_grow(actor, op, result->answer); return;
    case HISTORY_ALTER: answer_alter(op, result->answer); return;
    case HISTORY_CONFIG: answer_configs(op, result->answer); return;
    default: return;
    }
}

#define CONNECTION_GONE (-1) /* no answer, and no error told */

/* An answer that says it may have happened all the same. */
static bool is_indefinite(int32_t error)
{
    return error == KAFKA_ERROR_REQUEST_TIMED_OUT || error == KAFKA_ERROR_UNKNOWN_SERVER_ERROR ||
           error == KAFKA_ERROR_KAFKA_STORAGE_ERROR;
}

/* The connection was from before a power cut, and what it carried since was the first to hear of that: asked once more, on a new one. */
static bool is_stale(const struct actor *actor, const struct history_op *op, enum history_what what)
{
    bool is_last = op->kind == HISTORY_DELETE && op->is_final && !actor->has_met_stale;
    return is_last && what == HISTORY_UNKNOWN && op->error == CONNECTION_GONE;
}

void actor__answered(struct actor *actor, const struct client_result *result)
{
    struct history *history = actor->spec->cast->history;
    uint32_t number = (uint32_t)(result->token - 1);
    struct history_op *op = &history->ops[number];
    enum history_what what = HISTORY_OK;
    if (result->answer == NULL) {
        op->error = result->error != 0 ? result->error : CONNECTION_GONE;
        what = result->is_indefinite ? HISTORY_UNKNOWN : HISTORY_FAIL;
    } else {
        read_answer(actor, op, result);
        if (op->error != 0) { what = is_indefinite(op->error) ? HISTORY_UNKNOWN : HISTORY_FAIL; }
    }
    if (is_stale(actor, op, what)) {
        op->is_final = false;
        actor->has_met_stale = actor->wants_removal = true;
    }
    history_end(history, number, what, actor__world_ns(actor));
    if (is_change(op)) { actor->spec->cast->changing -= 1; }
    CHECK(actor->outstanding > 0);
    actor->outstanding -= 1;
    if (actor->spec->role == ACTOR_VERIFIER) { (void)actor__verify_answered(actor, op); }
    if (actor->spec->role == ACTOR_ODD) { actor__odd_answered(actor, result); }
}

/* ---- what to do next ---- */

static bool create_missing(struct actor *actor)
{
    const struct actor_cast *cast = actor->spec->cast;
    for (uint32_t i = 0; i < cast->topic_count; i++) {
        if (cast->topics[i].is_ready || (!cast->topics[i].is_stable && cast->topics[i].incarnation > 0)) { continue; }
        (void)ask_create(actor, i); /* no room: the next time */
        return true;
    }
    return false;
}

static void do_something(struct actor *actor)
{
    struct actor_cast *cast = actor->spec->cast;
    uint32_t at = actor__below(actor, cast->topic_count);
    struct actor_topic *topic = &cast->topics[at];
    uint32_t draw = actor__below(actor, 10);
    if (draw < (cast->is_churning ? 4u : 2u) && !topic->is_stable) {
        bool is_delete = topic->is_ready;
        if (is_delete) { topic->is_ready = false; }
        (void)(is_delete ? ask_delete(actor, at, false) : ask_create(actor, at)); /* no room: another time */
        return;
    }
    if (draw < 5) {
        bool is_by_another = actor__below(actor, 2) == 0;
        (void)(is_by_another ? ask_partitions(actor, at) : actor__ask_topic(actor, at, false)); /* as above */
        return;
    }
    if (draw < 9 && topic->is_ready) {
        static const int64_t kinds[] = {-1, -1, -2, -3, 0};
        int64_t when = kinds[actor__below(actor, 5)];
        if (when == 0) { when = actor->wall_ms - (int64_t)actor__below(actor, 5000); }
        (void)actor__ask_offsets(actor, at, (int32_t)actor__below(actor, (uint32_t)topic->partition_count), when,
                                 false); /* as above */
        return;
    }
    (void)ask_something_else(actor, at); /* as above */
}

void actor__administer(struct actor *actor)
{
    const struct actor_cast *cast = actor->spec->cast;
    if (actor->outstanding > 0) { return; }
    if (actor->probes > 0 && actor->stage < 3) { /* connections may be dead without knowing it: this tells */
        (void)actor__ask_topic(actor, 0, false); /* no room: then what comes next has none either */
        actor->stage += 1;
        return;
    }
    if (actor->probes > 0) {
        bool is_asked = true;
        for (uint32_t i = 0; i < cast->topic_count && is_asked; i++) { is_asked = actor__ask_topic(actor, i, true); }
        actor->probes = 0;
        actor->stage = 0;
        return;
    }
    if (actor->wants_removal) {
        if (ask_delete(actor, actor->knock_topic, true)) {
            actor->wants_removal = false;
            actor->spec->cast->topics[actor->knock_topic].is_ready = false;
        }
        return;
    }
    if (actor->phase != PHASE_LOAD || actor->done >= actor->spec->wanted) {
        actor->next_ns = UINT64_MAX;
        return;
    }
    if (actor->now_ns < actor->next_ns) { return; }
    bool is_trim = actor->trims_asked < actor->spec->trims && base_prng_chance(&actor->trim_prng, 1, 3);
    bool is_grow = actor->grows_asked < actor->spec->grows && base_prng_chance(&actor->grow_prng, 1, 4);
    if (is_grow) {
        bool is_asked = base_prng_chance(&actor->grow_prng, 1, 2) ? ask_grow(actor) : ask_wide(actor);
        if (is_asked) { actor->grows_asked += 1; }
    } else if (is_trim) {
        if (ask_trim(actor)) { actor->trims_asked += 1; }
    } else if (!create_missing(actor)) {
        do_something(actor);
        actor->done += 1;
    }
    actor__pause(actor);
}
