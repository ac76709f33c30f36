/* broker__levels.c: the levels of log lines, of each room its own: Kafka's BROKER_LOGGER (KIP-412).
 *
 * They are the node's own, and last until it stops. Shard 0 changes them, when the controller has answered for what else the request
 * holds; it tells the host, which is what leaves lines out, by a note, and the other shards, which describe them. The answer leaves when
 * all of them have taken what it set: whoever asks next is told so, wherever it asks. A shard makes lines at PORT_DEBUG only while some
 * room wants them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__node.h"

#include "broker/settings.h"
#include "wire/kafka/describe_configs.h"
#include "wire/kafka/incremental_alter_configs.h"

#define WORDS_MAX 512
#define SOURCE    6 /* ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG */
#define ROOT      0

enum { SET = 0, DELETE = 1, APPEND = 2, SUBTRACT = 3 };

typedef struct kafka_describe_configs_response_describe_configs_result described_result;
typedef struct kafka_describe_configs_response_describe_configs_resource_result described_config;
typedef struct kafka_incremental_alter_configs_request_alter_configs_resource changed_resource;
typedef struct kafka_incremental_alter_configs_request_alterable_config changed_config;
typedef struct kafka_incremental_alter_configs_response_alter_configs_resource_response changed_result;

static const char *const loggers[] = {"root",    "app",        "base",         "broker",    "client", "codec",
                                      "conn",    "controller", "fetchsession", "group",     "host",   "host/tls",
                                      "host/uv", "host/app",   "journal",      "metadata",  "peer",   "plog",
                                      "port",    "record",     "wait",         "wire/kafka"};
_Static_assert(BASE_ARRAY_COUNT(loggers) == BROKER_LOGGERS, "each has its level in the configuration");

static const char *const level_names[] = {
    [PORT_TRACE] = "TRACE", [PORT_DEBUG] = "DEBUG", [PORT_INFO] = "INFO",
    [PORT_WARN] = "WARN",   [PORT_ERROR] = "ERROR", [PORT_FATAL] = "FATAL",
};

const char *broker_logger_name(uint32_t index) { return index < BROKER_LOGGERS ? loggers[index] : NULL; }

uint32_t broker_logger(struct base_slice name)
{
    uint32_t index = 0;
    while (index < BROKER_LOGGERS && !base_slice_equal(name, base_slice_text(loggers[index]))) { index += 1; }
    return index;
}

/* -1: no such level. */
static int level_of(struct base_slice word)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(level_names); i++) {
        if (base_slice_equal(word, base_slice_text(level_names[i]))) { return (int)i; }
    }
    return -1;
}

/* ---- DescribeConfigs -------------------------------------------------------------------------------------------------------- */

enum base_rc levels_describe(const struct broker *broker, struct request *request, int32_t resource_index,
                             struct kafka_describe_configs_response *answer)
{
    const struct kafka_describe_configs_request *asked = request->decoded;
    const struct kafka_describe_configs_request_describe_configs_resource *resource = &asked->resources[resource_index];
    described_result *result = &answer->results[resource_index];
    char words[WORDS_MAX];
    struct base_text text;
    base_text_init(&text, words, sizeof words);
    struct base_slice name = kafka_text_slice(resource->resource_name);
    if (name.size_bytes == 0) { base_text_add(&text, "Broker id must not be empty"); }
    if (name.size_bytes == 0 || !configs_is_this_node(broker, name, "", &text)) {
        return configs_refuse(request, result, &text);
    }
    result->error_code = KAFKA_ERROR_NONE;
    result->error_message = kafka_text_words(""); /* as Kafka has it */
    result->configs =
        kafka_describe_configs_response_describe_configs_resource_result_take(&request->arena, BROKER_LOGGERS);
    if (result->configs == NULL) { return BASE_FULL; }
    for (uint32_t i = 0; i < BROKER_LOGGERS; i++) {
        if (!configs_is_asked_for(resource, base_slice_text(loggers[i]))) { continue; }
        int level = broker->levels[i] < 0 ? broker->levels[ROOT] : broker->levels[i];
        described_config *config = &result->configs[result->configs_count];
        result->configs_count += 1;
        config->name = kafka_text_words(loggers[i]);
        config->value = kafka_text_words(level_names[level]);
        config->config_source = SOURCE;
        config->documentation = kafka_text_words("");
    }
    return BASE_OK;
}

/* ---- IncrementalAlterConfigs ------------------------------------------------------------------------------------------------ */

static int16_t refuse_operation(struct base_text *text, const char *before, const char *what, const char *after)
{
    base_text_add(text, before);
    base_text_add(text, what);
    base_text_add(text, after);
    return KAFKA_ERROR_INVALID_REQUEST;
}

/* What is wrong with one change, in Kafka's words. */
static int16_t change_error(const changed_config *config, struct base_text *text)
{
    struct base_slice name = kafka_text_slice(config->name);
    static const char refused[] = " operation is not allowed for the BROKER_LOGGER resource";
    switch (config->config_operation) {
    case SET:
    case DELETE: break;
    case APPEND: return refuse_operation(text, "", "APPEND", refused);
    case SUBTRACT: return refuse_operation(text, "", "SUBTRACT", refused);
    default: return KAFKA_ERROR_UNKNOWN_SERVER_ERROR; /* Kafka stumbles over it, and says no more than that */
    }
    if (broker_logger(name) == BROKER_LOGGERS) {
        base_text_add(text, "Logger ");
        base_text_add_slice(text, name);
        base_text_add(text, " does not exist!");
        return KAFKA_ERROR_INVALID_CONFIG;
    }
    if (config->config_operation == DELETE) {
        if (broker_logger(name) != ROOT) { return KAFKA_ERROR_NONE; }
        return refuse_operation(text, "Removing the log level of the ", loggers[ROOT], " logger is not allowed");
    }
    if (level_of(kafka_text_slice(config->value)) >= 0) { return KAFKA_ERROR_NONE; }
    base_text_add(text, "Cannot set the log level of ");
    base_text_add_slice(text, name);
    base_text_add(text, " to ");
    base_text_add_slice(text, kafka_text_slice(config->value));
    base_text_add(text,
                  " as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN");
    return KAFKA_ERROR_INVALID_CONFIG;
}

static int16_t resource_error(const struct broker *broker, const changed_resource *resource, struct base_text *text)
{
    struct base_slice name = kafka_text_slice(resource->resource_name);
    int64_t id;
    if (!configs_is_node_id(name, &id)) {
        base_text_add(text, "Node id must be an integer, but it is: ");
        base_text_add_slice(text, name);
        return KAFKA_ERROR_INVALID_REQUEST;
    }
    if (id != broker->config.node_id) {
        base_text_add(text, "Unexpected node id. Expected ");
        base_text_add_i64(text, broker->config.node_id);
        base_text_add(text, ", but received ");
        base_text_add_i64(text, id);
        return KAFKA_ERROR_INVALID_REQUEST;
    }
    for (int32_t i = 0; i < resource->configs_count; i++) {
        int16_t error = change_error(&resource->configs[i], text);
        if (error != KAFKA_ERROR_NONE) { return error; }
    }
    return KAFKA_ERROR_NONE;
}

static void apply(int8_t levels[BROKER_LOGGERS], const changed_resource *resource)
{
    for (int32_t i = 0; i < resource->configs_count; i++) {
        const changed_config *config = &resource->configs[i];
        bool goes = config->config_operation == DELETE;
        levels[broker_logger(kafka_text_slice(config->name))] =
            (int8_t)(goes ? -1 : level_of(kafka_text_slice(config->value)));
    }
}

static void levels_changed(struct broker *broker)
{
    broker->wants_debug = false;
    for (uint32_t i = 0; i < BROKER_LOGGERS; i++) {
        bool is_own = broker->levels[i] >= 0;
        broker->wants_debug = broker->wants_debug || (is_own && broker->levels[i] <= PORT_DEBUG);
    }
}

void levels_begin(struct broker *broker)
{
    memcpy(broker->levels, broker->config.levels, sizeof broker->levels);
    base_list_init(&broker->levels_waiting);
    levels_changed(broker);
}

/* To all, and once more when all have answered and something has changed meanwhile. */
static void tell_shards(struct broker *broker, struct port_out *out)
{
    broker->levels_are_news = broker->levels_due > 0;
    if (broker->levels_are_news || broker->config.shards == 1) { return; }
    struct port_message message;
    message_begin(&message, 0, MSG_LEVELS);
    for (uint32_t i = 0; i < BROKER_LOGGERS; i++) {
        message.words[i / 8] |= (uint64_t)(uint8_t)broker->levels[i] << i % 8 * 8;
    }
    for (uint32_t shard = 1; shard < broker->config.shards; shard++) {
        message.to = (uint16_t)shard;
        message_send(broker, &message, out);
    }
    broker->levels_due = broker->config.shards - 1;
}

void levels_message(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    if (message->kind == MSG_LEVELS_TAKEN) {
        CHECK(broker->levels_due > 0);
        broker->levels_due -= 1;
        if (broker->levels_are_news) { tell_shards(broker, out); }
        return;
    }
    for (uint32_t i = 0; i < BROKER_LOGGERS; i++) {
        broker->levels[i] = (int8_t)(uint8_t)(message->words[i / 8] >> i % 8 * 8);
    }
    levels_changed(broker);
    struct port_message answer;
    message_begin(&answer, 0, MSG_LEVELS_TAKEN);
    message_send(broker, &answer, out);
}

/* Another one's change may be on its way, and this one have asked for the same. */
bool levels_wait(struct broker *broker, struct control_loan *loan)
{
    if (broker->levels_due == 0) { return false; }
    base_list_push_back(&broker->levels_waiting, &loan->levels_link);
    return true;
}

/* While levels are on their way the controller goes on: a change that it decides meanwhile makes those who wait do so once more. */
bool levels_poll(struct broker *broker, struct port_out *out)
{
    if (broker->levels_due > 0) { return false; }
    struct base_link *link = base_list_pop_front(&broker->levels_waiting);
    if (link == NULL) { return false; }
    node_controlled(broker, BASE_ITEM(link, struct control_loan, levels_link), out);
    return true;
}

/* The notes of a request are as many as there are loggers, whatever it says. */
static void take_levels(struct broker *broker, const int8_t levels[BROKER_LOGGERS], struct port_out *out)
{
    bool is_news = false;
    for (uint32_t i = 0; i < BROKER_LOGGERS; i++) {
        if (broker->levels[i] == levels[i]) { continue; }
        broker->levels[i] = levels[i];
        is_news = true;
        struct port_effect *effect = port_emit(out, PORT_LEVEL, 0);
        effect->flags = levels[i] < 0 ? PORT_LEVEL_NONE : (uint32_t)levels[i];
        effect->path_to = i == ROOT ? base_slice_of("", 0) : base_slice_text(loggers[i]);
    }
    if (!is_news) { return; }
    levels_changed(broker);
    tell_shards(broker, out);
}

void levels_alter(struct broker *broker, const struct kafka_incremental_alter_configs_request *asked,
                  struct kafka_incremental_alter_configs_response *answer, struct base_arena *arena,
                  struct port_out *out)
{
    int8_t levels[BROKER_LOGGERS];
    memcpy(levels, broker->levels, sizeof levels);
    for (int32_t i = 0; i < asked->resources_count; i++) {
        const changed_resource *resource = &asked->resources[i];
        changed_result *result = &answer->responses[i];
        if (resource->resource_type != METADATA_RESOURCE_LOGGER || result->error_code != KAFKA_ERROR_NONE) { continue; }
        char words[WORDS_MAX];
        struct base_text text;
        base_text_init(&text, words, sizeof words);
        result->error_code = resource_error(broker, resource, &text);
        if (result->error_code != KAFKA_ERROR_NONE) {
            if (text.used_bytes == 0) { continue; }
            (void)configs_put_words(arena, &text,
                                    &result->error_message); /* the code says enough where there is no room */
        } else if (!asked->validate_only) {
            apply(levels, resource);
        }
    }
    take_levels(broker, levels, out);
}
