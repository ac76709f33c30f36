/* controller_config.c: judges topic configs, decides IncrementalAlterConfigs, and answers DescribeConfigs from the image.
 *
 * Room    core/controller.
 * Source  codes and words are those of Kafka's ControllerConfigurationValidator, ConfigurationControlManager and ConfigHelper.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "controller/controller__room.h"

enum { RESOURCE_TOPIC = METADATA_RESOURCE_TOPIC, RESOURCE_BROKER = METADATA_RESOURCE_BROKER };
enum operation { SET = 0, DELETE = 1, APPEND = 2, SUBTRACT = 3 };

/* ---- judging ------------------------------------------------------------------------------------------------------ */

/* The number that `id` would have: of the last setting that names it, else what the topic has now. */
static int64_t number_after(const struct controller__decision *decision, const struct metadata_topic *topic,
                            enum metadata_id id, const struct controller__setting *settings, uint32_t count)
{
    struct base_slice name = base_slice_text(metadata_definition(id)->name);
    for (uint32_t i = count; i > 0; i--) {
        if (!base_slice_equal(settings[i - 1].name, name)) { continue; }
        int64_t number;
        if (settings[i - 1].value.at == NULL) { return metadata_number(decision->image, NULL, id); }
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

/* ---- IncrementalAlterConfigs -------------------------------------------------------------------------------------- */

typedef struct kafka_incremental_alter_configs_request_alter_configs_resource wanted_change;
typedef struct kafka_incremental_alter_configs_request_alterable_config wanted_config;

static size_t item_bytes(struct base_slice list)
{
    size_t i = 0;
    while (i < list.size_bytes && list.at[i] != ',') { i += 1; }
    return i;
}

static struct base_slice after_item(struct base_slice list, size_t bytes)
{
    size_t skip = bytes == list.size_bytes ? bytes : bytes + 1;
    return base_slice_of(list.at + skip, list.size_bytes - skip);
}

static bool has_item(struct base_slice list, struct base_slice item)
{
    while (list.size_bytes > 0) {
        size_t bytes = item_bytes(list);
        if (base_slice_equal(base_slice_of(list.at, bytes), item)) { return true; }
        list = after_item(list, bytes);
    }
    return false;
}

static void add_items(struct base_text *text, struct base_slice items, struct base_slice except)
{
    while (items.size_bytes > 0) {
        size_t bytes = item_bytes(items);
        struct base_slice item = base_slice_of(items.at, bytes);
        if (!has_item(except, item)) {
            base_text_add(text, text->used_bytes > 0 ? "," : "");
            base_text_add_slice(text, item);
        }
        items = after_item(items, bytes);
    }
}

/* The value of a list after items were appended to it or taken from it; built in the arena. */
static struct controller__error change_list(struct controller__decision *decision, const struct metadata_topic *topic,
                                            enum metadata_id id, const wanted_config *config,
                                            struct controller__setting *setting)
{
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text text;
    enum metadata_source source;
    base_text_init(&text, words, sizeof words);
    if (metadata_definition(id)->type != METADATA_LIST) {
        base_text_add(&text, config->config_operation == APPEND ? "Can't APPEND to key " : "Can't SUBTRACT to key ");
        base_text_add(&text, metadata_definition(id)->name);
        base_text_add(&text, " because its type is not LIST.");
        return controller__words(decision, KAFKA_ERROR_INVALID_CONFIG, &text);
    }
    struct base_slice now = metadata_text(decision->image, topic, id, &source);
    struct base_slice items = kafka_text_slice(config->value);
    if (config->config_operation == APPEND) {
        add_items(&text, now, base_slice_of("", 0));
        add_items(&text, items, now);
    } else {
        add_items(&text, now, items);
    }
    if (text.is_cut) { return controller__error_words(KAFKA_ERROR_INVALID_CONFIG, "The list would be too long."); }
    struct controller__error built = controller__words(decision, 0, &text); /* the arena holds the value for us */
    setting->value = kafka_text_slice(built.message);
    if (setting->value.at == NULL) { setting->value = base_slice_of("", 0); }
    return controller__no_error();
}

static struct controller__error setting_of(struct controller__decision *decision, const struct metadata_topic *topic,
                                           const wanted_config *config, struct controller__setting *setting)
{
    setting->name = kafka_text_slice(config->name);
    setting->value = kafka_text_slice(config->value);
    if (config->config_operation < SET || config->config_operation > SUBTRACT) {
        return controller__error_words(KAFKA_ERROR_INVALID_REQUEST, "Unknown operations type");
    }
    if (config->config_operation == DELETE) {
        setting->value = base_slice_of(NULL, 0);
        return controller__no_error();
    }
    if (kafka_text_is_null(config->value)) {
        char words[CONTROLLER__MESSAGE_MAX];
        struct base_text text;
        base_text_init(&text, words, sizeof words);
        base_text_add(&text, "Null value not supported for : ");
        base_text_add_slice(&text, setting->name);
        return controller__words(decision, KAFKA_ERROR_INVALID_REQUEST, &text);
    }
    if (setting->value.at == NULL) { setting->value = base_slice_of("", 0); }
    enum metadata_id id;
    if (config->config_operation == SET || !metadata_id_of(setting->name, &id)) { return controller__no_error(); }
    return change_list(decision, topic, id, config, setting);
}

/* Of several changes of one key: what Kafka says of it. */
static bool has_duplicate_key(const wanted_change *wanted)
{
    if (wanted->configs_count > METADATA_ID_COUNT) {
        return true;
    } /* more than there are names: one is twice, or unknown */
    for (int32_t i = 0; i < wanted->configs_count; i++) {
        for (int32_t j = 0; j < i; j++) {
            if (kafka_text_equal(wanted->configs[i].name, wanted->configs[j].name)) { return true; }
        }
    }
    return false;
}

static struct controller__error alter_topic(struct controller__decision *decision, const wanted_change *wanted,
                                            bool validate_only)
{
    struct controller__setting settings[METADATA_ID_COUNT] = {{.name = {.at = NULL}}};
    const struct metadata_topic *topic =
        metadata_topic_by_name(decision->image, kafka_text_slice(wanted->resource_name));
    if (topic == NULL) {
        return controller__error_words(KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION,
                                       "This server does not host this topic-partition.");
    }
    if (has_duplicate_key(wanted)) {
        return controller__error_words(KAFKA_ERROR_INVALID_REQUEST, "Error due to duplicate config keys");
    }
    uint32_t count = wanted->configs_count < 0 ? 0 : (uint32_t)wanted->configs_count;
    for (uint32_t i = 0; i < count; i++) {
        struct controller__error error = setting_of(decision, topic, &wanted->configs[i], &settings[i]);
        if (error.code != 0) { return error; }
    }
    struct controller__error error = controller__check_settings(decision, topic, settings, count);
    if (error.code != 0 || validate_only) { return error; }
    uint32_t set_count = 0;
    for (uint32_t i = 0; i < count; i++) { set_count += settings[i].value.at != NULL ? 1 : 0; }
    if (!controller__has_room(decision, 0, 0, set_count)) { /* ours */
        return controller__error_words(KAFKA_ERROR_POLICY_VIOLATION, "The cluster is at its limit of configs.");
    }
    for (uint32_t i = 0; i < count; i++) {
        struct kafka_config_record record;
        kafka_config_record_init(&record);
        record.resource_type = RESOURCE_TOPIC;
        record.resource_name = wanted->resource_name;
        record.name = kafka_text_of_slice(settings[i].name);
        record.value = settings[i].value.at == NULL ? kafka_text_null() : kafka_text_of_slice(settings[i].value);
        controller__propose(decision->round, 4, 0, &record);
    }
    decision->round->configs += set_count;
    return error;
}

static struct controller__error alter_one(struct controller__decision *decision, const wanted_change *wanted,
                                          bool validate_only)
{
    if (wanted->resource_type != RESOURCE_TOPIC) { /* ours: nothing else can be changed while the node runs */
        return controller__error_words(KAFKA_ERROR_INVALID_REQUEST, "Only the configs of topics can be altered.");
    }
    struct controller__touched *touched = controller__find_touched(decision, kafka_text_slice(wanted->resource_name));
    if (touched->count > 1) {
        return controller__error_words(KAFKA_ERROR_INVALID_REQUEST, "Each resource must appear at most once.");
    }
    return alter_topic(decision, wanted, validate_only);
}

const void *controller__alter_configs(struct controller__decision *decision)
{
    const struct kafka_incremental_alter_configs_request *request = decision->request;
    int32_t count = request->resources_count;
    struct kafka_incremental_alter_configs_response *response =
        kafka_incremental_alter_configs_response_take(decision->arena, 1);
    struct kafka_incremental_alter_configs_response_alter_configs_resource_response *results =
        kafka_incremental_alter_configs_response_alter_configs_resource_response_take(decision->arena,
                                                                                      count > 0 ? count : 1);
    if (response == NULL || results == NULL) {
        decision->is_arena_full = true;
        return NULL;
    }
    kafka_incremental_alter_configs_response_init(response);
    response->responses = results;
    response->responses_count = count;
    uint64_t records = 0;
    for (int32_t i = 0; i < count; i++) {
        records += (uint64_t)(request->resources[i].configs_count < 0 ? 0 : request->resources[i].configs_count) + 1;
    }
    bool is_excessive = records > CONTROLLER_RECORDS_MAX;
    for (int32_t i = 0; i < count && !is_excessive; i++) {
        if (request->resources[i].resource_type != RESOURCE_TOPIC) { continue; }
        (void)controller__touch(decision, kafka_text_slice(request->resources[i].resource_name)); /* looked up below */
    }
    if (decision->must_wait) { return NULL; }
    for (int32_t i = 0; i < count && !decision->round->is_full; i++) {
        struct controller__error error =
            is_excessive
                ? controller__error_words(KAFKA_ERROR_POLICY_VIOLATION, "Excessively many changes per request.")
                : alter_one(decision, &request->resources[i], request->validate_only);
        results[i].resource_type = request->resources[i].resource_type;
        results[i].resource_name = request->resources[i].resource_name;
        results[i].error_code = error.code;
        results[i].error_message = error.message;
    }
    return response;
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
    int32_t node_id;
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
        config->value = kafka_text_of_slice(metadata_text(it->image, topic, id, &source));
        config->config_source = (int8_t)source;
        config->config_type = (int8_t)definition->type;
        if (it->request->include_documentation) { config->documentation = kafka_text_words(definition->documentation); }
        uint32_t count = metadata_levels(it->image, topic, id, levels);
        if (describe_synonyms(it, levels, count, config) != BASE_OK) { return BASE_FULL; }
        result->configs_count += 1;
    }
    return BASE_OK;
}

static described_config *next_config(described_result *result, struct base_slice name)
{
    for (int32_t i = 0; i < result->configs_count; i++) {
        if (base_slice_equal(kafka_text_slice(result->configs[i].name), name)) { return NULL; }
    }
    result->configs_count += 1;
    return &result->configs[result->configs_count - 1];
}

/* This node's configuration: what its file says, then the broker's names of topic configs that are at their default. */
static enum base_rc describe_node(const struct description *it, const described_resource *resource,
                                  described_result *result)
{
    uint32_t values = metadata_broker_values_count(it->image);
    uint32_t most = values + METADATA_ID_COUNT;
    result->configs = kafka_describe_configs_response_describe_configs_resource_result_take(it->arena, (int32_t)most);
    if (result->configs == NULL) { return BASE_FULL; }
    for (uint32_t i = 0; i < values; i++) {
        struct metadata_pair pair = metadata_broker_value_at(it->image, i);
        if (!is_asked_for(resource, pair.name)) { continue; }
        described_config *config = next_config(result, pair.name);
        if (config == NULL) { continue; }
        struct metadata_level level = {.name = pair.name, .value = pair.value, .source = METADATA_SOURCE_STATIC};
        config->name = kafka_text_of_slice(pair.name);
        config->value = kafka_text_of_slice(pair.value);
        config->read_only = true;
        config->config_source = METADATA_SOURCE_STATIC;
        config->config_type = METADATA_STRING;
        if (describe_synonyms(it, &level, 1, config) != BASE_OK) { return BASE_FULL; }
    }
    for (unsigned i = 0; i < METADATA_ID_COUNT; i++) {
        const struct metadata_definition *definition = metadata_definition((enum metadata_id)i);
        struct metadata_level levels[METADATA_LEVELS_MAX];
        uint32_t count = metadata_levels(it->image, NULL, (enum metadata_id)i, levels);
        if (count == 0 || !is_asked_for(resource, levels[count - 1].name)) { continue; }
        described_config *config = next_config(result, levels[count - 1].name); /* the last is the default */
        if (config == NULL) { continue; }
        config->name = kafka_text_of_slice(levels[count - 1].name);
        config->value = kafka_text_of_slice(levels[count - 1].value);
        config->read_only = true;
        config->config_source = METADATA_SOURCE_DEFAULT;
        config->config_type = (int8_t)definition->type;
        if (it->request->include_documentation) { config->documentation = kafka_text_words(definition->documentation); }
        if (describe_synonyms(it, &levels[count - 1], 1, config) != BASE_OK) { return BASE_FULL; }
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

static enum base_rc describe_broker_resource(const struct description *it, const described_resource *resource,
                                             described_result *result)
{
    struct base_slice name = kafka_text_slice(resource->resource_name);
    int64_t id;
    if (name.size_bytes == 0) { return BASE_OK; } /* what was changed for all brokers: nothing can be */
    if (base_text_parse_i64(name, &id) != BASE_OK) {
        return say(it, result, KAFKA_ERROR_INVALID_REQUEST, "Broker id must be an integer, but it is: ", name);
    }
    if (id == it->node_id) { return describe_node(it, resource, result); }
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text message;
    base_text_init(&message, words, sizeof words);
    base_text_add(&message, "Unexpected broker id, expected ");
    base_text_add_i64(&message, it->node_id);
    base_text_add(&message, " or empty string, but received ");
    return say(it, result, KAFKA_ERROR_INVALID_REQUEST, words, name);
}

enum base_rc controller_describe_configs(const struct metadata *image, int32_t node_id,
                                         const struct kafka_describe_configs_request *request, int16_t version,
                                         struct base_arena *arena, struct kafka_describe_configs_response *response_out)
{
    (void)version; /* what a version lacks, the encoder leaves out */
    struct description it = {.image = image, .request = request, .arena = arena, .node_id = node_id};
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
        } else if (resource->resource_type == RESOURCE_BROKER) {
            rc = describe_broker_resource(&it, resource, &results[i]);
        } else {
            rc = say(&it, &results[i], KAFKA_ERROR_INVALID_REQUEST, "Unsupported resource type for resource ",
                     kafka_text_slice(resource->resource_name));
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
