/* controller_topics.c: decides CreateTopics, and the topics that a Metadata request creates by naming them.
 *
 * Room    core/controller.
 * Source  codes and words are those of Kafka's ReplicationControlManager and ControllerApis, 4.3.1; what is ours says so.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "controller/controller__room.h"

typedef struct kafka_create_topics_request_creatable_topic wanted_topic;
typedef struct kafka_create_topics_response_creatable_topic_result topic_result;

int32_t controller__partitions_default(const struct controller__decision *decision)
{
    return (int32_t)metadata_dynamic_number(decision->image, base_slice_text("num.partitions"),
                                            decision->config->partitions_default);
}

struct controller__error controller__words(struct controller__decision *decision, int16_t code,
                                           const struct base_text *text)
{
    if (decision->is_wordless) { return (struct controller__error){.code = code, .message = kafka_text_null()}; }
    uint8_t *at = base_arena_take_bytes(decision->arena, text->used_bytes + 1);
    if (at == NULL) {
        decision->is_arena_full = true;
        return (struct controller__error){.code = code, .message = kafka_text_null()};
    }
    memcpy(at, text->at, text->used_bytes);
    return (struct controller__error){.code = code, .message = kafka_text_of(at, text->used_bytes)};
}

bool controller__has_room(const struct controller__decision *decision, uint32_t topics, uint32_t partitions,
                          uint32_t configs)
{
    const struct controller__round *round = decision->round;
    return metadata_has_room(decision->image, round->topics + topics, round->partitions + partitions,
                             round->configs + configs);
}

/* ---- names -------------------------------------------------------------------------------------------------------- */

static bool is_name_byte(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

static bool is_of_name_bytes(struct base_slice name)
{
    for (size_t i = 0; i < name.size_bytes; i++) {
        if (!is_name_byte(name.at[i])) { return false; }
    }
    return true;
}

int16_t controller_check_topic_name(struct base_slice name, struct base_text *message)
{
    const char *before = NULL;
    const char *after = "";
    bool says_name = true;
    if (name.size_bytes == 0) {
        before = "Topic name is invalid: the empty string is not allowed";
        says_name = false;
    } else if (base_slice_equal(name, base_slice_text(".")) || base_slice_equal(name, base_slice_text(".."))) {
        before = "Topic name is invalid: '";
        after = "' is not allowed";
    } else if (name.size_bytes > METADATA_TOPIC_NAME_MAX) {
        before = "Topic name is invalid: the length of '";
        after = "' is longer than the max allowed length 249";
    } else if (!is_of_name_bytes(name)) {
        before = "Topic name is invalid: '";
        after = "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'";
    } else if (base_slice_equal(name, base_slice_text("__consumer_offsets"))) { /* ours */
        before = "Topic '";
        after = "' is reserved: committed offsets are not kept in a topic here";
    } else if (base_slice_equal(name, base_slice_text(
                                          "__coordinator"))) { /* ours: its folders are those of the coordinators */
        before = "Topic '";
        after = "' is reserved: the logs of the group coordinators have that name";
    }
    if (before == NULL) { return 0; }
    if (message != NULL) {
        base_text_add(message, before);
        if (says_name) { base_text_add_slice(message, name); }
        base_text_add(message, after);
    }
    return KAFKA_ERROR_INVALID_TOPIC_EXCEPTION;
}

static struct controller__error name_error(struct controller__decision *decision, int16_t code, const char *before,
                                           struct base_slice name, const char *after, struct base_slice other)
{
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text message;
    base_text_init(&message, words, sizeof words);
    base_text_add(&message, before);
    base_text_add_slice(&message, name);
    base_text_add(&message, after);
    base_text_add_slice(&message, other);
    return controller__words(decision, code, &message);
}

/* A name of this request, before `name` in it, that collides with it. */
static struct base_slice colliding_here(const struct controller__decision *decision, struct base_slice name)
{
    const struct controller__touched *first = controller__find_colliding(decision, name);
    bool is_another = first != NULL && !base_slice_equal(first->name, name);
    return is_another ? first->name : base_slice_of(NULL, 0);
}

static struct controller__error check_name(struct controller__decision *decision, struct base_slice name)
{
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text message;
    base_text_init(&message, words, sizeof words);
    if (base_slice_equal(name, base_slice_text("__cluster_metadata"))) {
        return controller__error_words(KAFKA_ERROR_INVALID_REQUEST,
                                       "Creation of internal topic __cluster_metadata is prohibited.");
    }
    int16_t code = controller_check_topic_name(name, &message);
    if (code != 0) { return controller__words(decision, code, &message); }
    const struct metadata_topic *colliding = metadata_topic_colliding(decision->image, name);
    struct base_slice other = colliding != NULL ? metadata_topic_name(colliding) : colliding_here(decision, name);
    if (other.at != NULL) {
        return name_error(decision, KAFKA_ERROR_INVALID_TOPIC_EXCEPTION, "Topic '", name,
                          "' collides with existing topic: ", other);
    }
    if (metadata_topic_by_name(decision->image, name) != NULL) {
        return name_error(decision, KAFKA_ERROR_TOPIC_ALREADY_EXISTS, "Topic '", name, "' already exists.",
                          base_slice_of("", 0));
    }
    return controller__no_error();
}

/* ---- one topic ---------------------------------------------------------------------------------------------------- */

static struct base_uuid new_topic_id(struct controller__decision *decision)
{
    for (;;) {
        struct base_uuid id;
        base_prng_fill(decision->dice, id.b, sizeof id.b);
        id.b[6] = (uint8_t)((id.b[6] & 0x0f) | 0x40); /* RFC 9562, version 4: so it is none of Kafka's reserved ones */
        id.b[8] = (uint8_t)((id.b[8] & 0x3f) | 0x80);
        bool begins_with_dash = id.b[0] >> 2 == 62; /* in base64 it would look like an option on a command line */
        if (!begins_with_dash && metadata_topic_by_id(decision->image, id) == NULL) { return id; }
    }
}

/* What a topic is to be; placed on demand, so that ten thousand partitions take no memory. */
struct plan {
    struct base_uuid id;
    uint32_t partitions;
    uint32_t replication;
    uint32_t start;             /* where placing begins */
    const wanted_topic *wanted; /* NULL: no assignments and no configs */
    const uint32_t *order;      /* manual: where partition i stands in wanted->assignments; NULL: placed */
};

static struct controller__error number_error(struct controller__decision *decision, int16_t code, const char *before,
                                             int64_t number, const char *after)
{
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text message;
    base_text_init(&message, words, sizeof words);
    base_text_add(&message, before);
    base_text_add_i64(&message, number);
    base_text_add(&message, after);
    return controller__words(decision, code, &message);
}

/* Partition `index` as planned. */
static struct controller__error plan_partition(struct controller__decision *decision, const struct plan *plan,
                                               uint32_t index, struct metadata_partition *partition_out)
{
    struct controller__replicas replicas;
    struct controller__error error;
    bool is_manual = plan->order != NULL;
    if (is_manual) {
        const struct kafka_create_topics_request_creatable_replica_assignment *assignment =
            &plan->wanted->assignments[plan->order[index]];
        error = controller__check_manual(decision, assignment->broker_ids, assignment->broker_ids_count,
                                         index == 0 ? 0 : plan->replication, &replicas);
    } else {
        error = controller__place(decision, plan->replication, plan->start, index, &replicas);
    }
    if (error.code != 0) { return error; }
    struct base_part id = {.topic = plan->id, .index = (int32_t)index};
    if (controller__new_partition(decision, id, &replicas, partition_out)) { return error; }
    if (is_manual) {
        return number_error(decision, KAFKA_ERROR_INVALID_REPLICA_ASSIGNMENT,
                            "All brokers specified in the manual partition assignment for partition ", index,
                            " are fenced or in controlled shutdown.");
    }
    return number_error(decision, KAFKA_ERROR_INVALID_REPLICATION_FACTOR, "Unable to replicate the partition ",
                        plan->replication, " time(s): All brokers are currently fenced or in controlled shutdown.");
}

static struct controller__error plan_manual(struct controller__decision *decision, const wanted_topic *wanted,
                                            struct plan *plan)
{
    if (wanted->replication_factor != -1) {
        return controller__error_words(KAFKA_ERROR_INVALID_REQUEST, "A manual partition assignment was specified, but "
                                                                    "replication factor was not set to -1.");
    }
    if (wanted->num_partitions != -1) {
        return controller__error_words(KAFKA_ERROR_INVALID_REQUEST, "A manual partition assignment was specified, but "
                                                                    "numPartitions was not set to -1.");
    }
    uint32_t count = (uint32_t)wanted->assignments_count;
    uint32_t *order = base_arena_take_array(decision->arena, count, sizeof *order);
    if (order == NULL) {
        decision->is_arena_full = true;
        return controller__error_words(KAFKA_ERROR_UNKNOWN_SERVER_ERROR, "");
    }
    memset(order, 0xff, count * sizeof *order);
    bool is_gapless = true;
    for (uint32_t i = 0; i < count; i++) {
        int32_t index = wanted->assignments[i].partition_index;
        if (index < 0 || (uint32_t)index >= count) {
            is_gapless = false;
        } else if (order[index] != UINT32_MAX) {
            return number_error(decision, KAFKA_ERROR_INVALID_REPLICA_ASSIGNMENT,
                                "Found multiple manual partition assignments for partition ", index, "");
        } else {
            order[index] = i;
        }
    }
    if (!is_gapless) {
        return controller__error_words(KAFKA_ERROR_INVALID_REPLICA_ASSIGNMENT,
                                       "partitions should be a consecutive 0-based integer sequence");
    }
    plan->order = order;
    plan->partitions = count;
    plan->replication = (uint32_t)wanted->assignments[order[0]].broker_ids_count;
    return controller__no_error();
}

static struct controller__error plan_counts(const struct controller__decision *decision, int32_t partitions,
                                            int16_t replication, struct plan *plan)
{
    if (replication < -1 || replication == 0) {
        return controller__error_words(KAFKA_ERROR_INVALID_REPLICATION_FACTOR,
                                       "Replication factor must be larger than 0, or -1 to use the default value.");
    }
    if (partitions < -1 || partitions == 0) {
        return controller__error_words(KAFKA_ERROR_INVALID_PARTITIONS,
                                       "Number of partitions was set to an invalid non-positive value.");
    }
    plan->partitions = (uint32_t)(partitions == -1 ? controller__partitions_default(decision) : partitions);
    plan->replication = (uint32_t)(replication == -1 ? decision->config->replication_default : replication);
    return controller__no_error();
}

static struct controller__error check_configs(struct controller__decision *decision, const wanted_topic *wanted)
{
    if (wanted->configs_count <= 0) { return controller__no_error(); }
    size_t mark = base_arena_mark(decision->arena);
    uint32_t count = (uint32_t)wanted->configs_count;
    struct controller__setting *settings = base_arena_take_array(decision->arena, count, sizeof *settings);
    if (settings == NULL) {
        decision->is_arena_full = true;
        return controller__no_error();
    }
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text nulls;
    base_text_init(&nulls, words, sizeof words);
    base_text_add(&nulls, "Null value not supported for topic configs: ");
    bool has_null = false;
    for (uint32_t i = 0; i < count; i++) {
        settings[i].name = kafka_text_slice(wanted->configs[i].name);
        settings[i].value = kafka_text_slice(wanted->configs[i].value);
        if (kafka_text_is_null(wanted->configs[i].value)) {
            base_text_add(&nulls, has_null ? "," : "");
            base_text_add_slice(&nulls, settings[i].name);
            has_null = true;
        } else if (settings[i].value.at == NULL) {
            settings[i].value = base_slice_of("", 0);
        }
    }
    if (has_null) { return controller__words(decision, KAFKA_ERROR_INVALID_CONFIG, &nulls); }
    struct controller__error error = controller__check_settings(decision, NULL, settings, count);
    if (error.code == 0) { base_arena_reset(decision->arena, mark); }
    return error;
}

/* The node's default of what a topic keeps for life, as an override: whoever reads the log may have another default. NULL at: it
 * chooses for itself, or the default is the one of all. */
static struct base_slice durability_to_keep(const struct controller__decision *decision, const wanted_topic *wanted)
{
    const char *name = metadata_definition(METADATA_WEIR_DURABILITY)->name;
    enum metadata_source source;
    bool is_chosen = metadata_number(decision->image, NULL, METADATA_WEIR_DURABILITY) == METADATA_SYNCED;
    int32_t count = wanted == NULL ? 0 : wanted->configs_count;
    for (int32_t i = 0; i < count && !is_chosen; i++) { is_chosen = kafka_text_is(wanted->configs[i].name, name); }
    if (is_chosen) { return base_slice_of(NULL, 0); }
    return metadata_text(decision->image, NULL, METADATA_WEIR_DURABILITY, &source);
}

static void propose_config(struct controller__round *round, struct base_slice topic, struct kafka_text name,
                           struct kafka_text value)
{
    struct kafka_config_record config;
    kafka_config_record_init(&config);
    config.resource_type = METADATA_RESOURCE_TOPIC;
    config.resource_name = kafka_text_of_slice(topic);
    config.name = name;
    config.value = value;
    controller__propose(round, 4, 0, &config);
    round->configs += 1;
}

static void propose_topic(struct controller__decision *decision, struct base_slice name, const struct plan *plan)
{
    struct controller__round *round = decision->round;
    struct kafka_topic_record topic;
    kafka_topic_record_init(&topic);
    topic.name = kafka_text_of_slice(name);
    topic.topic_id = plan->id;
    controller__propose(round, 2, 0, &topic);
    for (uint32_t i = 0; i < plan->partitions && !round->is_full; i++) {
        struct metadata_partition partition;
        struct controller__error error = plan_partition(decision, plan, i, &partition);
        CHECK(error.code == 0); /* looked at before, on the same image */
        controller__propose_partition(round, &partition);
    }
    int32_t configs = plan->wanted == NULL ? 0 : plan->wanted->configs_count;
    for (int32_t i = 0; i < configs; i++) {
        propose_config(round, name, plan->wanted->configs[i].name, plan->wanted->configs[i].value);
    }
    struct base_slice durability = durability_to_keep(decision, plan->wanted);
    if (durability.at != NULL) {
        propose_config(round, name, kafka_text_words(metadata_definition(METADATA_WEIR_DURABILITY)->name),
                       kafka_text_of_slice(durability));
    }
    round->topics += 1;
    round->partitions += plan->partitions;
}

/* All that can be wrong with it; then its plan. */
static struct controller__error plan_topic(struct controller__decision *decision, struct base_slice name,
                                           const wanted_topic *wanted, struct plan *plan)
{
    struct controller__error error = check_name(decision, name);
    if (error.code != 0) { return error; }
    plan->wanted = wanted;
    if (wanted != NULL) {
        error = check_configs(decision, wanted);
        if (error.code != 0) { return error; }
    }
    if (wanted != NULL && wanted->assignments_count > 0) {
        error = plan_manual(decision, wanted, plan);
    } else {
        error = plan_counts(decision, wanted == NULL ? -1 : wanted->num_partitions,
                            wanted == NULL ? (int16_t)-1 : wanted->replication_factor, plan);
    }
    if (error.code != 0) { return error; }
    uint32_t configs = wanted == NULL || wanted->configs_count < 0 ? 0 : (uint32_t)wanted->configs_count;
    configs += durability_to_keep(decision, wanted).at != NULL ? 1 : 0;
    if (!controller__has_room(decision, 1, plan->partitions, configs)) { /* ours */
        return controller__error_words(KAFKA_ERROR_POLICY_VIOLATION,
                                       "The cluster is at its limit of topics, partitions or configs.");
    }
    plan->id = new_topic_id(decision);
    plan->start = (uint32_t)base_prng_below(decision->dice, UINT32_MAX);
    uint32_t to_check = plan->order != NULL ? plan->partitions : 1; /* placed ones are all like the first */
    for (uint32_t i = 0; i < to_check && error.code == 0; i++) {
        struct metadata_partition partition;
        error = plan_partition(decision, plan, i, &partition);
    }
    return error;
}

/* ---- CreateTopics ------------------------------------------------------------------------------------------------- */

/* The value in force for a topic without configs: a copy, as the image may change before the answer is encoded. */
static bool fill_value(struct controller__decision *decision, enum metadata_id id, enum metadata_source *source_out,
                       struct kafka_text *value_out)
{
    struct base_slice value = metadata_text(decision->image, NULL, id, source_out);
    uint8_t *at = base_arena_take_bytes(decision->arena, value.size_bytes + 1);
    if (at == NULL) { return false; }
    if (value.size_bytes > 0) { memcpy(at, value.at, value.size_bytes); }
    *value_out = kafka_text_of(at, value.size_bytes);
    return true;
}

/* Every topic config as it is now in force for the topic. Without memory for that: an error code of their own, the topic is fine. */
static void fill_configs(struct controller__decision *decision, const wanted_topic *wanted, topic_result *result)
{
    size_t mark = base_arena_mark(decision->arena);
    struct kafka_create_topics_response_creatable_topic_configs *configs =
        kafka_create_topics_response_creatable_topic_configs_take(decision->arena, METADATA_ID_COUNT);
    bool has_room = configs != NULL;
    for (unsigned id = 0; has_room && id < METADATA_ID_COUNT; id++) {
        enum metadata_source source;
        const char *name = metadata_definition((enum metadata_id)id)->name;
        configs[id].name = kafka_text_words(name);
        has_room = fill_value(decision, (enum metadata_id)id, &source, &configs[id].value);
        for (int32_t i = 0; i < wanted->configs_count; i++) {
            if (kafka_text_is(wanted->configs[i].name, name)) {
                configs[id].value = wanted->configs[i].value;
                source = METADATA_SOURCE_TOPIC;
            }
        }
        bool is_kept = id == METADATA_WEIR_DURABILITY && durability_to_keep(decision, wanted).at != NULL;
        configs[id].config_source = (int8_t)(is_kept ? METADATA_SOURCE_TOPIC : source);
    }
    if (!has_room) {
        base_arena_reset(decision->arena, mark);
        result->configs_count = -1;
        result->topic_config_error_code = KAFKA_ERROR_UNKNOWN_SERVER_ERROR;
        return;
    }
    result->configs = configs;
    result->configs_count = METADATA_ID_COUNT;
}

static void create_one(struct controller__decision *decision, const wanted_topic *wanted, bool validate_only,
                       topic_result *result)
{
    struct base_slice name = kafka_text_slice(wanted->name);
    struct plan plan = {.partitions = 0};
    struct controller__error error = plan_topic(decision, name, wanted, &plan);
    result->error_code = error.code;
    result->error_message = error.message;
    if (error.code != 0) { return; }
    result->num_partitions = (int32_t)plan.partitions;
    result->replication_factor = (int16_t)plan.replication;
    if (decision->version >= 5) { fill_configs(decision, wanted, result); }
    result->topic_id = plan.id; /* as in Kafka, even of one that is not made */
    if (validate_only) { return; }
    propose_topic(decision, name, &plan);
}

/* Topics, partitions and configs of all together. */
bool controller_creates_too_many(const struct kafka_create_topics_request *request, int32_t partitions_default)
{
    uint64_t count = 0;
    for (int32_t i = 0; i < request->topics_count; i++) {
        const wanted_topic *wanted = &request->topics[i];
        int64_t partitions = wanted->num_partitions == -1 ? partitions_default : wanted->num_partitions;
        if (wanted->assignments_count > 0) { partitions = wanted->assignments_count; }
        count += partitions > 0 ? (uint64_t)partitions : 0;
        count += 1 + (uint64_t)(wanted->configs_count < 0 ? 0 : wanted->configs_count);
    }
    return count > CONTROLLER_RECORDS_MAX;
}

const void *controller__create_topics(struct controller__decision *decision)
{
    const struct kafka_create_topics_request *request = decision->request;
    struct kafka_create_topics_response *response = kafka_create_topics_response_take(decision->arena, 1);
    topic_result *results =
        kafka_create_topics_response_creatable_topic_result_take(decision->arena,
                                                                 request->topics_count > 0 ? request->topics_count : 1);
    if (response == NULL || results == NULL) {
        decision->is_arena_full = true;
        return NULL;
    }
    kafka_create_topics_response_init(response);
    response->topics = results;
    bool is_excessive =
        decision->is_too_large || controller_creates_too_many(request, controller__partitions_default(decision));
    for (int32_t i = 0; i < request->topics_count && !is_excessive; i++) {
        (void)controller__touch(decision,
                                kafka_text_slice(request->topics[i].name)); /* what it says is looked up below */
    }
    if (decision->must_wait) { return NULL; }
    for (int32_t i = 0; i < request->topics_count && !decision->round->is_full; i++) {
        const wanted_topic *wanted = &request->topics[i];
        topic_result *result = &results[response->topics_count];
        result->name = wanted->name;
        if (is_excessive) {
            result->error_code = KAFKA_ERROR_POLICY_VIOLATION;
            result->error_message = kafka_text_words("Excessively large number of partitions per request.");
            response->topics_count += 1;
            continue;
        }
        struct controller__touched *touched = controller__find_touched(decision, kafka_text_slice(wanted->name));
        if (touched->count > 1) { /* neither of them is created, and one result says so */
            if (touched->is_reported) { continue; }
            touched->is_reported = true;
            result->error_code = KAFKA_ERROR_INVALID_REQUEST;
            result->error_message = kafka_text_words("Duplicate topic name.");
        } else {
            create_one(decision, wanted, request->validate_only, result);
        }
        response->topics_count += 1;
    }
    return response;
}

/* ---- topics created by being named -------------------------------------------------------------------------------- */

const void *controller__auto_create(struct controller__decision *decision)
{
    const struct controller_auto_create *request = decision->request;
    struct controller_auto_created *response = base_arena_take(decision->arena, sizeof *response);
    int16_t *codes =
        base_arena_take_array(decision->arena, request->names_count > 0 ? request->names_count : 1, sizeof *codes);
    if (response == NULL || codes == NULL) {
        decision->is_arena_full = true;
        return NULL;
    }
    decision->is_wordless = true;
    *response = (struct controller_auto_created){.error_codes = codes, .error_codes_count = request->names_count};
    uint64_t records_each = (uint64_t)controller__partitions_default(decision) + 1;
    uint64_t records = 0;
    for (uint32_t i = 0; i < request->names_count && !decision->round->is_full; i++) {
        struct base_slice name = request->names[i];
        if (decision->is_too_large || records + records_each > CONTROLLER_RECORDS_MAX) {
            codes[i] = KAFKA_ERROR_POLICY_VIOLATION;
            continue;
        }
        enum controller__touch touch = controller__touch(decision, name);
        if (touch == CONTROLLER__TAKEN) { return NULL; }
        if (touch == CONTROLLER__AGAIN) {
            codes[i] = KAFKA_ERROR_TOPIC_ALREADY_EXISTS; /* or why not: its first naming says */
            continue;
        }
        struct plan plan = {.partitions = 0};
        struct controller__error error = plan_topic(decision, name, NULL, &plan);
        codes[i] = error.code;
        if (error.code != 0) { continue; }
        propose_topic(decision, name, &plan);
        records += records_each;
    }
    return response;
}
