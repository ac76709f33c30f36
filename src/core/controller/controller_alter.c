/* controller_alter.c: decides IncrementalAlterConfigs and AlterConfigs, for topics and for brokers.
 *
 * Room    core/controller.
 * Source  codes, words and their order are those of Kafka's ConfigAdminManager, ControllerConfigurationValidator and
 *         ConfigurationControlManager, 4.3.1.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "controller/controller__room.h"
#include "wire/kafka/alter_configs.h"

enum {
    RESOURCE_TOPIC = METADATA_RESOURCE_TOPIC,
    RESOURCE_BROKER = METADATA_RESOURCE_BROKER,
    RESOURCE_LOGGER = METADATA_RESOURCE_LOGGER
};
enum operation { SET = 0, DELETE = 1, APPEND = 2, SUBTRACT = 3 };

typedef struct kafka_incremental_alter_configs_request_alter_configs_resource wanted_change;
typedef struct kafka_incremental_alter_configs_request_alterable_config wanted_config;
typedef struct kafka_incremental_alter_configs_response_alter_configs_resource_response change_result;

/* Keys of one resource; what is replaced may be as many again. */
#define CONFIGS_MAX (2 * METADATA_ID_COUNT)

/* One resource's change, read out. */
struct change {
    enum metadata_resource type;
    struct base_slice name;             /* as records name the resource */
    const struct metadata_topic *topic; /* NULL: a broker, all brokers, or no such topic */
    const wanted_change *wanted;
    bool replaces; /* AlterConfigs: what is not named goes */
    uint32_t count;
    struct controller__setting settings[CONFIGS_MAX];
};

/* ---- lists -------------------------------------------------------------------------------------------------------- */

static bool has_item(struct base_slice list, struct base_slice item)
{
    while (list.size_bytes > 0) {
        if (base_slice_equal(base_slice_take_item(&list), item)) { return true; }
    }
    return false;
}

static void add_items(struct base_text *text, struct base_slice items, struct base_slice except)
{
    while (items.size_bytes > 0) {
        struct base_slice item = base_slice_take_item(&items);
        if (has_item(except, item)) { continue; }
        base_text_add(text, text->used_bytes > 0 ? "," : "");
        base_text_add_slice(text, item);
    }
}

static bool is_list(const struct change *change, struct base_slice name, enum metadata_id *id_out)
{
    bool is_known =
        change->type == METADATA_RESOURCE_TOPIC ? metadata_id_of(name, id_out) : metadata_first_synonym(name, id_out);
    return is_known && metadata_definition(*id_out)->type == METADATA_LIST;
}

/* The value of a list after items were appended to it or taken from it; built in the arena. */
static struct controller__error change_list(struct controller__decision *decision, const struct change *change,
                                            const wanted_config *config, struct controller__setting *setting)
{
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text text;
    enum metadata_source source;
    enum metadata_id id;
    base_text_init(&text, words, sizeof words);
    if (!is_list(change, setting->name, &id)) {
        base_text_add(&text, config->config_operation == APPEND ? "Can't APPEND to key " : "Can't SUBTRACT to key ");
        base_text_add_slice(&text, setting->name);
        base_text_add(&text, " because its type is not LIST.");
        return controller__words(decision, KAFKA_ERROR_INVALID_CONFIG, &text);
    }
    struct base_slice now = metadata_text(decision->image, change->topic, id, &source);
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

/* ---- what Kafka's broker looks at ---------------------------------------------------------------------------------- */

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

static struct controller__error check_form(struct controller__decision *decision, const wanted_change *wanted)
{
    if (has_duplicate_key(wanted)) {
        return controller__error_words(KAFKA_ERROR_INVALID_REQUEST, "Error due to duplicate config keys");
    }
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text text;
    base_text_init(&text, words, sizeof words);
    bool has_null = false;
    for (int32_t i = 0; i < wanted->configs_count; i++) {
        const wanted_config *config = &wanted->configs[i];
        if (config->config_operation == DELETE || !kafka_text_is_null(config->value)) { continue; }
        base_text_add(&text, has_null ? ", " : "Null value not supported for : ");
        base_text_add_slice(&text, kafka_text_slice(config->name));
        has_null = true;
    }
    return has_null ? controller__words(decision, KAFKA_ERROR_INVALID_REQUEST, &text) : controller__no_error();
}

static struct controller__error invalid(struct controller__decision *decision, const char *before,
                                        struct base_slice name, const char *after)
{
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text text;
    base_text_init(&text, words, sizeof words);
    base_text_add(&text, before);
    base_text_add_slice(&text, name);
    base_text_add(&text, after);
    return controller__words(decision, KAFKA_ERROR_INVALID_REQUEST, &text);
}

/* All brokers (""), or this one. */
static struct controller__error name_broker(struct controller__decision *decision, struct change *change)
{
    struct base_slice name = kafka_text_slice(change->wanted->resource_name);
    change->name = base_slice_of("", 0);
    if (name.size_bytes == 0) { return controller__no_error(); }
    int64_t id;
    char words[96];
    struct base_text text;
    base_text_init(&text, words, sizeof words);
    if (base_text_parse_i64(name, &id) != BASE_OK || id > INT32_MAX || id < INT32_MIN) {
        return invalid(decision, "Node id must be an integer, but it is: ", name, "");
    }
    if (id != decision->config->node_id) {
        base_text_add(&text, "Unexpected broker id, expected ");
        base_text_add_i64(&text, decision->config->node_id);
        base_text_add(&text, ", but received ");
        return invalid(decision, words, name, "");
    }
    base_text_add_i64(&text, id);
    uint8_t *at = base_arena_take_bytes(decision->arena, text.used_bytes);
    if (at == NULL) {
        decision->is_arena_full = true;
        return controller__no_error();
    }
    memcpy(at, words, text.used_bytes);
    change->name = base_slice_of(at, text.used_bytes);
    return controller__no_error();
}

/* Of a broker, Weir changes what has an effect at once, and refuses the rest. */
static struct controller__error check_broker(struct controller__decision *decision, const struct change *change)
{
    for (uint32_t i = 0; i < change->count; i++) {
        const struct controller__setting *setting = &change->settings[i];
        if (!metadata_is_dynamic(setting->name)) {
            return invalid(decision, "Cannot update these configs dynamically: [", setting->name, "]");
        }
        if (setting->value.at == NULL) { continue; }
        if (setting->value.size_bytes > METADATA_VALUE_MAX) {
            return invalid(decision, "The value is too long for ", setting->name, "");
        }
        char words[CONTROLLER__MESSAGE_MAX];
        struct base_text text;
        base_text_init(&text, words, sizeof words);
        if (metadata_dynamic_check(setting->name, setting->value, &text) == BASE_OK) { continue; }
        return controller__words(decision, KAFKA_ERROR_INVALID_REQUEST, &text);
    }
    return controller__no_error();
}

static struct controller__error check_topic(struct controller__decision *decision, const struct change *change)
{
    if (change->name.size_bytes == 0) {
        return controller__error_words(KAFKA_ERROR_INVALID_REQUEST, "Default topic resources are not allowed.");
    }
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text text;
    base_text_init(&text, words, sizeof words);
    int16_t code = controller_check_topic_name(change->name, &text);
    if (code != 0) { return controller__words(decision, code, &text); }
    struct controller__error error =
        controller__check_settings(decision, change->topic, change->settings, change->count);
    if (error.code != 0 || change->topic != NULL) { return error; }
    base_text_add(&text, "The topic '");
    base_text_add_slice(&text, change->name);
    base_text_add(&text, "' does not exist.");
    return controller__words(decision, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION, &text);
}

/* ---- deciding ----------------------------------------------------------------------------------------------------- */

static struct controller__error read_settings(struct controller__decision *decision, struct change *change)
{
    for (int32_t i = 0; i < change->wanted->configs_count; i++) {
        const wanted_config *config = &change->wanted->configs[i];
        struct controller__setting *setting = &change->settings[change->count];
        change->count += 1;
        setting->name = kafka_text_slice(config->name);
        setting->value = kafka_text_slice(config->value);
        if (setting->value.at == NULL) { setting->value = base_slice_of("", 0); }
        switch (config->config_operation) {
        case SET: break;
        case DELETE: setting->value = base_slice_of(NULL, 0); break;
        case APPEND:
        case SUBTRACT: {
            struct controller__error error = change_list(decision, change, config, setting);
            if (error.code != 0) { return error; }
            break;
        }
        default: /* Kafka stumbles over it, and says no more than that */
            return (struct controller__error){.code = KAFKA_ERROR_UNKNOWN_SERVER_ERROR, .message = kafka_text_null()};
        }
    }
    return controller__no_error();
}

/* A topic has it for life. */
static bool is_kept(const struct change *change, struct base_slice name)
{
    const char *durability = metadata_definition(METADATA_WEIR_DURABILITY)->name;
    return change->type == METADATA_RESOURCE_TOPIC && base_slice_equal(name, base_slice_text(durability));
}

/* What the resource has and the request does not name is taken away. */
static void add_removals(const struct controller__decision *decision, struct change *change)
{
    struct metadata_override_cursor cursor;
    struct metadata_pair pair;
    if (!change->replaces || !metadata_overrides(decision->image, change->type, change->name, &cursor)) { return; }
    uint32_t named = change->count;
    while (change->count < CONFIGS_MAX && metadata_override_next(decision->image, &cursor, &pair)) {
        bool is_named = is_kept(change, pair.name);
        for (uint32_t i = 0; i < named; i++) { is_named |= base_slice_equal(change->settings[i].name, pair.name); }
        if (is_named) { continue; }
        change->settings[change->count] = (struct controller__setting){.name = pair.name};
        change->count += 1;
    }
}

/* How many settings it has that the resource does not have yet: those take room. */
static uint32_t count_new(const struct controller__decision *decision, const struct change *change)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < change->count; i++) {
        struct metadata_override_cursor cursor;
        struct metadata_pair pair;
        bool is_new = change->settings[i].value.at != NULL;
        if (metadata_overrides(decision->image, change->type, change->name, &cursor)) {
            while (is_new && metadata_override_next(decision->image, &cursor, &pair)) {
                is_new = !base_slice_equal(pair.name, change->settings[i].name);
            }
        }
        count += is_new ? 1 : 0;
    }
    return count;
}

static struct controller__error propose_change(struct controller__decision *decision, const struct change *change)
{
    uint32_t new_count = count_new(decision, change);
    if (!controller__has_room(decision, 0, 0, new_count)) { /* ours */
        return controller__error_words(KAFKA_ERROR_POLICY_VIOLATION, "The cluster is at its limit of configs.");
    }
    for (uint32_t i = 0; i < change->count; i++) {
        struct kafka_config_record record;
        kafka_config_record_init(&record);
        record.resource_type = (int8_t)change->type;
        record.resource_name = kafka_text_of_slice(change->name);
        record.name = kafka_text_of_slice(change->settings[i].name);
        record.value =
            change->settings[i].value.at == NULL ? kafka_text_null() : kafka_text_of_slice(change->settings[i].value);
        controller__propose(decision->round, 4, 0, &record);
    }
    decision->round->configs += new_count;
    return controller__no_error();
}

static struct controller__error alter_one(struct controller__decision *decision, const wanted_change *wanted,
                                          bool replaces, bool validate_only)
{
    struct controller__error error = check_form(decision, wanted);
    if (error.code != 0) { return error; }
    if (wanted->resource_type == RESOURCE_LOGGER && !replaces) { return error; } /* it is no record: see levels_alter */
    if (wanted->resource_type != RESOURCE_TOPIC && wanted->resource_type != RESOURCE_BROKER) {
        char words[8];
        struct base_text type;
        base_text_init(&type, words, sizeof words);
        base_text_add_i64(&type, wanted->resource_type);
        return invalid(decision, "Unknown resource type ", base_text_slice(&type), "");
    }
    struct change change = {.type = (enum metadata_resource)wanted->resource_type,
                            .name = kafka_text_slice(wanted->resource_name),
                            .wanted = wanted,
                            .replaces = replaces};
    if (change.type == METADATA_RESOURCE_TOPIC) {
        change.topic = metadata_topic_by_name(decision->image, change.name);
    } else {
        error = name_broker(decision, &change);
        if (error.code != 0 || decision->is_arena_full) { return error; }
    }
    error = read_settings(decision, &change);
    if (error.code != 0) { return error; }
    add_removals(decision, &change);
    error = change.type == METADATA_RESOURCE_TOPIC ? check_topic(decision, &change) : check_broker(decision, &change);
    if (error.code != 0 || validate_only) { return error; }
    return propose_change(decision, &change);
}

/* A resource among the touched names: a topic by its name; others behind a byte that no topic's name begins with, and a broker is the
 * same one however its number is written. */
static struct base_slice touch_key(struct controller__decision *decision, const wanted_change *wanted)
{
    struct base_slice name = kafka_text_slice(wanted->resource_name);
    if (wanted->resource_type == RESOURCE_TOPIC) { return name; }
    int64_t id;
    char words[32];
    struct base_text number;
    base_text_init(&number, words, sizeof words);
    if (wanted->resource_type == RESOURCE_BROKER && base_text_parse_i64(name, &id) == BASE_OK) {
        base_text_add_i64(&number, id);
        name = base_slice_of(words, number.used_bytes);
    }
    uint8_t *at = base_arena_take_bytes(decision->arena, name.size_bytes + 2);
    if (at == NULL) {
        decision->is_arena_full = true;
        return name;
    }
    at[0] = 1;
    at[1] = (uint8_t)wanted->resource_type;
    if (name.size_bytes > 0) { memcpy(at + 2, name.at, name.size_bytes); }
    return base_slice_of(at, name.size_bytes + 2);
}

static const struct kafka_incremental_alter_configs_response *alter(
    struct controller__decision *decision, const struct kafka_incremental_alter_configs_request *request, bool replaces)
{
    int32_t count = request->resources_count;
    struct kafka_incremental_alter_configs_response *response =
        kafka_incremental_alter_configs_response_take(decision->arena, 1);
    change_result *results =
        kafka_incremental_alter_configs_response_alter_configs_resource_response_take(decision->arena,
                                                                                      count > 0 ? count : 1);
    struct base_slice *keys = base_arena_take_array(decision->arena, count > 0 ? (size_t)count : 1, sizeof *keys);
    if (response == NULL || results == NULL || keys == NULL) {
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
    bool is_excessive = decision->is_too_large || records > CONTROLLER_RECORDS_MAX;
    for (int32_t i = 0; i < count && !is_excessive && !decision->is_arena_full; i++) {
        keys[i] = touch_key(decision, &request->resources[i]);
        (void)controller__touch(decision, keys[i]); /* looked up below */
    }
    if (decision->must_wait || decision->is_arena_full) { return NULL; }
    for (int32_t i = 0; i < count && !decision->round->is_full && !decision->is_arena_full; i++) {
        struct controller__error error =
            controller__error_words(KAFKA_ERROR_POLICY_VIOLATION, "Excessively many changes per request.");
        if (!is_excessive && controller__find_touched(decision, keys[i])->count > 1) {
            error = controller__error_words(KAFKA_ERROR_INVALID_REQUEST, "Each resource must appear at most once.");
        } else if (!is_excessive) {
            error = alter_one(decision, &request->resources[i], replaces, request->validate_only);
        }
        results[i].resource_type = request->resources[i].resource_type;
        results[i].resource_name = request->resources[i].resource_name;
        results[i].error_code = error.code;
        results[i].error_message = error.message;
    }
    return response;
}

const void *controller__alter_configs(struct controller__decision *decision)
{
    return alter(decision, decision->request, false);
}

/* AlterConfigs: each key is set, and what is not named taken away. */
const void *controller__replace_configs(struct controller__decision *decision)
{
    const struct kafka_alter_configs_request *request = decision->request;
    int32_t count = request->resources_count;
    struct kafka_incremental_alter_configs_request wanted;
    kafka_incremental_alter_configs_request_init(&wanted);
    wanted.validate_only = request->validate_only;
    wanted.resources_count = count;
    wanted.resources =
        kafka_incremental_alter_configs_request_alter_configs_resource_take(decision->arena, count > 0 ? count : 1);
    struct kafka_alter_configs_response *response = kafka_alter_configs_response_take(decision->arena, 1);
    struct kafka_alter_configs_response_alter_configs_resource_response *results =
        kafka_alter_configs_response_alter_configs_resource_response_take(decision->arena, count > 0 ? count : 1);
    decision->is_arena_full = wanted.resources == NULL || response == NULL || results == NULL;
    for (int32_t i = 0; i < count && !decision->is_arena_full; i++) {
        const struct kafka_alter_configs_request_alter_configs_resource *resource = &request->resources[i];
        int32_t configs = resource->configs_count;
        wanted.resources[i].resource_type = resource->resource_type;
        wanted.resources[i].resource_name = resource->resource_name;
        wanted.resources[i].configs_count = configs;
        wanted.resources[i].configs =
            kafka_incremental_alter_configs_request_alterable_config_take(decision->arena, configs > 0 ? configs : 1);
        decision->is_arena_full = wanted.resources[i].configs == NULL;
        for (int32_t c = 0; c < configs && !decision->is_arena_full; c++) {
            wanted.resources[i].configs[c].name = resource->configs[c].name;
            wanted.resources[i].configs[c].value = resource->configs[c].value;
        }
    }
    if (decision->is_arena_full) { return NULL; }
    const struct kafka_incremental_alter_configs_response *altered = alter(decision, &wanted, true);
    if (altered == NULL) { return NULL; }
    kafka_alter_configs_response_init(response);
    response->responses = results;
    response->responses_count = count;
    for (int32_t i = 0; i < count; i++) {
        results[i].error_code = altered->responses[i].error_code;
        results[i].error_message = altered->responses[i].error_message;
        results[i].resource_type = altered->responses[i].resource_type;
        results[i].resource_name = altered->responses[i].resource_name;
    }
    return response;
}
