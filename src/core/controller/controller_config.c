/* controller_config.c: judges topic configs, and describes them from the image.
 *
 * Room    core/controller.
 * Source  codes and words are those of Kafka's ControllerConfigurationValidator, ConfigurationControlManager and ConfigHelper.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "controller/controller__room.h"

enum { RESOURCE_TOPIC = METADATA_RESOURCE_TOPIC, RESOURCE_BROKER = METADATA_RESOURCE_BROKER };

/* ---- judging ------------------------------------------------------------------------------------------------------ */

/* The number that `id` would have: of the last setting that names it, else what the topic has now. */
static int64_t number_after(const struct controller__decision *decision, const struct metadata_topic *topic,
                            enum metadata_id id, const struct controller__setting *settings, uint32_t count)
{
    struct base_slice name = base_slice_text(metadata_definition(id)->name);
    for (uint32_t i = count; i > 0; i--) {
        if (!base_slice_equal(settings[i - 1].name, name)) { continue; }
        int64_t number;
        if (settings[i - 1].value.at == NULL) {
            bool is_kept =
                topic != NULL && id == METADATA_WEIR_DURABILITY; /* the node's default is of new topics alone */
            return is_kept ? METADATA_SYNCED : metadata_number(decision->image, NULL, id);
        }
        enum base_rc rc = metadata_parse(id, settings[i - 1].value, &number, NULL);
        CHECK(rc == BASE_OK); /* each has been judged */
        return number;
    }
    return metadata_number(decision->image, topic, id);
}

static struct controller__error judge(struct controller__decision *decision, const struct controller__setting *setting)
{
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text message;
    base_text_init(&message, words, sizeof words);
    enum metadata_id id;
    int64_t number = 0;
    bool is_known = metadata_id_of(setting->name, &id);
    if (!is_known) {
        base_text_add(&message, "Unknown topic config name: ");
        base_text_add_slice(&message, setting->name);
    } else if (setting->value.at == NULL) {
        return controller__no_error();
    } else if (setting->value.size_bytes > METADATA_VALUE_MAX) {
        base_text_add(&message,
                      "The configuration value cannot be added because it exceeds the maximum value size of ");
        base_text_add_i64(&message, METADATA_VALUE_MAX);
        base_text_add(&message, " bytes.");
    } else if (metadata_parse(id, setting->value, &number, &message) != BASE_OK) {
        /* it has said why */
    } else if (id == METADATA_REMOTE_STORAGE_ENABLE && number == 1) {
        base_text_add(&message,
                      "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with "
                      "remote log storage.");
    } else {
        return controller__no_error();
    }
    return controller__words(decision, KAFKA_ERROR_INVALID_CONFIG, &message);
}

struct controller__error controller__check_settings(struct controller__decision *decision,
                                                    const struct metadata_topic *topic,
                                                    const struct controller__setting *settings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct controller__error error = judge(decision, &settings[i]);
        if (error.code != 0) { return error; }
    }
    /* Ours: a log keeps the way it becomes durable for as long as it lives (plog.h). */
    if (topic != NULL && number_after(decision, topic, METADATA_WEIR_DURABILITY, settings, count) !=
                             metadata_number(decision->image, topic, METADATA_WEIR_DURABILITY)) {
        return controller__error_words(KAFKA_ERROR_INVALID_CONFIG,
                                       "weir.durability is chosen when a topic is created, and stays.");
    }
    int64_t min_lag = number_after(decision, topic, METADATA_MIN_COMPACTION_LAG_MS, settings, count);
    int64_t max_lag = number_after(decision, topic, METADATA_MAX_COMPACTION_LAG_MS, settings, count);
    if (min_lag <= max_lag) { return controller__no_error(); }
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text message;
    base_text_init(&message, words, sizeof words);
    base_text_add(&message, "conflict topic config setting min.compaction.lag.ms (");
    base_text_add_i64(&message, min_lag);
    base_text_add(&message, ") > max.compaction.lag.ms (");
    base_text_add_i64(&message, max_lag);
    base_text_add(&message, ")");
    return controller__words(decision, KAFKA_ERROR_INVALID_CONFIG, &message);
}

/* ---- DescribeConfigs ---------------------------------------------------------------------------------------------- */

typedef struct kafka_describe_configs_request_describe_configs_resource described_resource;
typedef struct kafka_describe_configs_response_describe_configs_result described_result;
typedef struct kafka_describe_configs_response_describe_configs_resource_result described_config;
typedef struct kafka_describe_configs_response_describe_configs_synonym described_synonym;

struct description {
    const struct metadata *image;
    const struct kafka_describe_configs_request *request;
    struct base_arena *arena;
};

static bool is_asked_for(const described_resource *resource, struct base_slice name)
{
    if (resource->configuration_keys_count <= 0) { return true; } /* null or empty: all, as in Kafka */
    for (int32_t i = 0; i < resource->configuration_keys_count; i++) {
        if (base_slice_equal(kafka_text_slice(resource->configuration_keys[i]), name)) { return true; }
    }
    return false;
}

static enum base_rc describe_synonyms(const struct description *it, const struct metadata_level *levels, uint32_t count,
                                      described_config *config)
{
    if (!it->request->include_synonyms || count == 0) { return BASE_OK; }
    described_synonym *synonyms =
        kafka_describe_configs_response_describe_configs_synonym_take(it->arena, (int32_t)count);
    if (synonyms == NULL) { return BASE_FULL; }
    for (uint32_t i = 0; i < count; i++) {
        synonyms[i].name = kafka_text_of_slice(levels[i].name);
        synonyms[i].value = kafka_text_of_slice(levels[i].value);
        synonyms[i].source = (int8_t)levels[i].source;
    }
    config->synonyms = synonyms;
    config->synonyms_count = (int32_t)count;
    return BASE_OK;
}

static enum base_rc show_value(const struct description *it, enum metadata_id id, struct base_slice value,
                               described_config *config)
{
    char words[METADATA_VALUE_MAX + 32];
    struct base_text text;
    base_text_init(&text, words, sizeof words);
    metadata_show(id, value, &text);
    uint8_t *at = base_arena_take_bytes(it->arena, text.used_bytes + 1);
    if (at == NULL) { return BASE_FULL; }
    memcpy(at, words, text.used_bytes);
    config->value = kafka_text_of(at, text.used_bytes);
    return BASE_OK;
}

static enum base_rc describe_topic(const struct description *it, const described_resource *resource,
                                   const struct metadata_topic *topic, described_result *result)
{
    described_config *configs =
        kafka_describe_configs_response_describe_configs_resource_result_take(it->arena, METADATA_ID_COUNT);
    if (configs == NULL) { return BASE_FULL; }
    result->configs = configs;
    for (unsigned i = 0; i < METADATA_ID_COUNT; i++) {
        enum metadata_id id = (enum metadata_id)i;
        const struct metadata_definition *definition = metadata_definition(id);
        if (!is_asked_for(resource, base_slice_text(definition->name))) { continue; }
        described_config *config = &configs[result->configs_count];
        enum metadata_source source;
        struct metadata_level levels[METADATA_LEVELS_MAX];
        config->name = kafka_text_words(definition->name);
        if (show_value(it, id, metadata_text(it->image, topic, id, &source), config) != BASE_OK) { return BASE_FULL; }
        config->config_source = (int8_t)source;
        config->config_type = (int8_t)definition->type;
        config->documentation =
            it->request->include_documentation ? kafka_text_words(definition->documentation) : kafka_text_null();
        uint32_t count = metadata_levels(it->image, topic, id, levels);
        if (describe_synonyms(it, levels, count, config) != BASE_OK) { return BASE_FULL; }
        result->configs_count += 1;
    }
    return BASE_OK;
}

static enum base_rc say(const struct description *it, described_result *result, int16_t code, const char *before,
                        struct base_slice name)
{
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text message;
    base_text_init(&message, words, sizeof words);
    base_text_add(&message, before);
    base_text_add_slice(&message, name);
    uint8_t *at = base_arena_take_bytes(it->arena, message.used_bytes + 1);
    if (at == NULL) { return BASE_FULL; }
    memcpy(at, words, message.used_bytes);
    result->error_code = code;
    result->error_message = kafka_text_of(at, message.used_bytes);
    return BASE_OK;
}

static enum base_rc describe_topic_resource(const struct description *it, const described_resource *resource,
                                            described_result *result)
{
    struct base_slice name = kafka_text_slice(resource->resource_name);
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text message;
    base_text_init(&message, words, sizeof words);
    int16_t code = controller_check_topic_name(name, &message);
    if (code != 0) { return say(it, result, code, words, base_slice_of("", 0)); }
    const struct metadata_topic *topic = metadata_topic_by_name(it->image, name);
    if (topic == NULL) {
        result->error_code = KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION;
        return BASE_OK;
    }
    return describe_topic(it, resource, topic, result);
}

enum base_rc controller_describe_configs(const struct metadata *image,
                                         const struct kafka_describe_configs_request *request, struct base_arena *arena,
                                         struct kafka_describe_configs_response *response_out)
{
    struct description it = {.image = image, .request = request, .arena = arena};
    int32_t count = request->resources_count;
    size_t mark = base_arena_mark(arena);
    described_result *results =
        kafka_describe_configs_response_describe_configs_result_take(arena, count > 0 ? count : 1);
    enum base_rc rc = results == NULL ? BASE_FULL : BASE_OK;
    for (int32_t i = 0; i < count && rc == BASE_OK; i++) {
        const described_resource *resource = &request->resources[i];
        results[i].resource_type = resource->resource_type;
        results[i].resource_name = resource->resource_name;
        if (resource->resource_type == RESOURCE_TOPIC) {
            rc = describe_topic_resource(&it, resource, &results[i]);
        } else if (resource->resource_type != RESOURCE_BROKER) { /* a broker is described by itself */
            results[i].error_code = KAFKA_ERROR_INVALID_REQUEST;
            results[i].error_message = kafka_text_words(KAFKA_WORDS_INVALID_REQUEST);
        }
    }
    if (rc != BASE_OK) {
        base_arena_reset(arena, mark);
        return BASE_FULL;
    }
    kafka_describe_configs_response_init(response_out);
    response_out->results = results;
    response_out->results_count = count;
    return BASE_OK;
}
