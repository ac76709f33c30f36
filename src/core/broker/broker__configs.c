/* broker__configs.c: DescribeConfigs: topics from the image, this node from the table of properties, and its log levels.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "broker/settings.h"
#include "wire/kafka/describe_configs.h"

#define CONFIGS_BYTES_FIRST ((size_t)32 << 10)
#define CONFIGS_BYTES_MAX   ((size_t)64 << 20)
#define WORDS_MAX           320

typedef struct kafka_describe_configs_request_describe_configs_resource described_resource;
typedef struct kafka_describe_configs_response_describe_configs_result described_result;
typedef struct kafka_describe_configs_response_describe_configs_resource_result described_config;
typedef struct kafka_describe_configs_response_describe_configs_synonym described_synonym;

bool configs_is_asked_for(const described_resource *resource, struct base_slice name)
{
    if (resource->configuration_keys_count <= 0) { return true; } /* null or empty: all, as in Kafka */
    for (int32_t i = 0; i < resource->configuration_keys_count; i++) {
        if (base_slice_equal(kafka_text_slice(resource->configuration_keys[i]), name)) { return true; }
    }
    return false;
}

/* What is said of one property: its levels, the one in force first. */
static enum base_rc describe_levels(struct request *request, const struct settings_definition *definition,
                                    const struct metadata_level *levels, uint32_t count, described_config *config)
{
    const struct kafka_describe_configs_request *asked = request->decoded;
    bool is_secret = settings_is_secret(definition);
    struct base_slice name = base_slice_text(definition->name);
    config->name = kafka_text_of_slice(name);
    config->config_type = settings_wire_type(definition);
    config->read_only = !metadata_is_dynamic(name);
    config->is_sensitive = is_secret;
    config->config_source = (int8_t)(count > 0 ? levels[0].source : METADATA_SOURCE_DEFAULT);
    config->value = count > 0 && !is_secret ? kafka_text_of_slice(levels[0].value) : kafka_text_null();
    config->documentation =
        asked->include_documentation ? kafka_text_words(settings_documentation(definition)) : kafka_text_null();
    if (!asked->include_synonyms || count == 0) { return BASE_OK; }
    config->synonyms = kafka_describe_configs_response_describe_configs_synonym_take(&request->arena, (int32_t)count);
    if (config->synonyms == NULL) { return BASE_FULL; }
    config->synonyms_count = (int32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        config->synonyms[i].name = kafka_text_of_slice(levels[i].name);
        config->synonyms[i].value = is_secret ? kafka_text_null() : kafka_text_of_slice(levels[i].value);
        config->synonyms[i].source = (int8_t)levels[i].source;
    }
    return BASE_OK;
}

/* What a property may be, the level in force first. */
static uint32_t levels_of(struct broker *broker, const struct settings_definition *definition,
                          struct metadata_level levels[METADATA_LEVELS_MAX])
{
    struct base_slice name = base_slice_text(definition->name);
    if (definition->use == SETTINGS_TOPIC_DEFAULT) { return metadata_synonym_levels(broker->image, name, levels); }
    uint32_t count = metadata_broker_levels(broker->image, name, levels);
    if (definition->default_value == NULL) { return count; }
    levels[count] = (struct metadata_level){.name = name,
                                            .value = base_slice_text(definition->default_value),
                                            .source = METADATA_SOURCE_DEFAULT};
    return count + 1;
}

/* Every property of this node. */
static enum base_rc describe_node(struct broker *broker, struct request *request, const described_resource *resource,
                                  described_result *result)
{
    uint32_t count = settings_count();
    result->configs =
        kafka_describe_configs_response_describe_configs_resource_result_take(&request->arena, (int32_t)count);
    if (result->configs == NULL) { return BASE_FULL; }
    for (uint32_t i = 0; i < count; i++) {
        const struct settings_definition *definition = settings_at(i);
        struct base_slice name = base_slice_text(definition->name);
        if (settings_is_untold(definition) || !configs_is_asked_for(resource, name)) { continue; }
        struct metadata_level levels[METADATA_LEVELS_MAX];
        uint32_t level_count = levels_of(broker, definition, levels);
        described_config *config = &result->configs[result->configs_count];
        if (describe_levels(request, definition, levels, level_count, config) != BASE_OK) { return BASE_FULL; }
        result->configs_count += 1;
    }
    return BASE_OK;
}

/* What was set for all brokers while they ran. */
static enum base_rc describe_all_brokers(struct broker *broker, struct request *request,
                                         const described_resource *resource, described_result *result)
{
    uint32_t count = settings_count();
    result->configs =
        kafka_describe_configs_response_describe_configs_resource_result_take(&request->arena, (int32_t)count);
    if (result->configs == NULL) { return BASE_FULL; }
    result->error_message = kafka_text_words(""); /* as Kafka has it */
    struct metadata_override_cursor cursor;
    struct metadata_pair pair;
    if (!metadata_overrides(broker->image, METADATA_RESOURCE_BROKER, base_slice_of("", 0), &cursor)) { return BASE_OK; }
    while (metadata_override_next(broker->image, &cursor, &pair)) {
        const struct settings_definition *definition = settings_find(pair.name);
        if (definition == NULL || !configs_is_asked_for(resource, pair.name)) { continue; }
        CHECK((uint32_t)result->configs_count < count); /* each name once */
        struct metadata_level level = {.name = pair.name,
                                       .value = pair.value,
                                       .source = METADATA_SOURCE_DEFAULT_BROKER};
        described_config *config = &result->configs[result->configs_count];
        if (describe_levels(request, definition, &level, 1, config) != BASE_OK) { return BASE_FULL; }
        result->configs_count += 1;
    }
    return BASE_OK;
}

bool configs_is_node_id(struct base_slice name, int64_t *id_out)
{
    return base_text_parse_i64(name, id_out) == BASE_OK && *id_out <= INT32_MAX && *id_out >= INT32_MIN;
}

bool configs_is_this_node(const struct broker *broker, struct base_slice name, const char *others,
                          struct base_text *text)
{
    int64_t id;
    if (!configs_is_node_id(name, &id)) {
        base_text_add(text, "Broker id must be an integer, but it is: ");
    } else if (id == broker->config.node_id) {
        return true;
    } else {
        base_text_add(text, "Unexpected broker id, expected ");
        base_text_add_i64(text, broker->config.node_id);
        base_text_add(text, others);
        base_text_add(text, " but received ");
    }
    base_text_add_slice(text, name);
    return false;
}

bool configs_put_words(struct base_arena *arena, const struct base_text *text, struct kafka_text *words_out)
{
    uint8_t *at = base_arena_take_bytes(arena, text->used_bytes + 1);
    if (at == NULL) { return false; }
    memcpy(at, base_text_slice(text).at, text->used_bytes);
    *words_out = kafka_text_of(at, text->used_bytes);
    return true;
}

enum base_rc configs_refuse(struct request *request, described_result *result, const struct base_text *text)
{
    if (!configs_put_words(&request->arena, text, &result->error_message)) { return BASE_FULL; }
    result->error_code = KAFKA_ERROR_INVALID_REQUEST;
    return BASE_OK;
}

static enum base_rc describe_broker(struct broker *broker, struct request *request, const described_resource *resource,
                                    described_result *result)
{
    struct base_slice name = kafka_text_slice(resource->resource_name);
    if (name.size_bytes == 0) { return describe_all_brokers(broker, request, resource, result); }
    char words[WORDS_MAX];
    struct base_text text;
    base_text_init(&text, words, sizeof words);
    if (configs_is_this_node(broker, name, " or empty string,", &text)) {
        return describe_node(broker, request, resource, result);
    }
    return configs_refuse(request, result, &text);
}

static enum base_rc describe(struct broker *broker, struct request *request,
                             struct kafka_describe_configs_response *answer)
{
    const struct kafka_describe_configs_request *asked = request->decoded;
    enum base_rc rc = controller_describe_configs(broker->image, asked, &request->arena, answer);
    for (int32_t i = 0; i < asked->resources_count && rc == BASE_OK; i++) {
        const described_resource *resource = &asked->resources[i];
        if (resource->resource_type == METADATA_RESOURCE_LOGGER) { rc = levels_describe(broker, request, i, answer); }
        if (resource->resource_type != METADATA_RESOURCE_BROKER) { continue; }
        rc = describe_broker(broker, request, resource, &answer->results[i]);
    }
    return rc;
}

void describe_configs_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    for (size_t bytes = CONFIGS_BYTES_FIRST; bytes <= CONFIGS_BYTES_MAX; bytes *= 4) {
        if (!request_reserve(broker, request, bytes)) {
            request_starve(broker, request, RETRY_DECODE);
            return;
        }
        struct kafka_describe_configs_response *answer = answer_take(request, sizeof *answer);
        kafka_describe_configs_response_init(answer);
        if (describe(broker, request, answer) == BASE_OK) {
            request_answer(broker, request, answer, out);
            return;
        }
    }
    request_fail(broker, request, "it asks for more configs than one answer holds", out);
}
