/* broker__topics.c: which apis are served; ApiVersions; and what the controller decides: topics, partitions, configs,
 * producer ids.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/alter_configs.h"
#include "wire/kafka/api_versions.h"
#include "wire/kafka/create_partitions.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/incremental_alter_configs.h"
#include "wire/kafka/init_producer_id.h"
#include "wire/kafka/sasl_authenticate.h"
#include "wire/kafka/sasl_handshake.h"

/* ---- what is served ------------------------------------------------------------------------------------------------------- */

/* An api stands here only when it works in full. Versions: Kafka's own lowest to its newest stable one. */
static const int16_t served[] = {KAFKA_API_PRODUCE,
                                 KAFKA_API_FETCH,
                                 KAFKA_API_LIST_OFFSETS,
                                 KAFKA_API_METADATA,
                                 KAFKA_API_OFFSET_COMMIT,
                                 KAFKA_API_OFFSET_FETCH,
                                 KAFKA_API_FIND_COORDINATOR,
                                 KAFKA_API_JOIN_GROUP,
                                 KAFKA_API_HEARTBEAT,
                                 KAFKA_API_LEAVE_GROUP,
                                 KAFKA_API_SYNC_GROUP,
                                 KAFKA_API_DESCRIBE_GROUPS,
                                 KAFKA_API_LIST_GROUPS,
                                 KAFKA_API_API_VERSIONS,
                                 KAFKA_API_CREATE_TOPICS,
                                 KAFKA_API_DELETE_TOPICS,
                                 KAFKA_API_INIT_PRODUCER_ID,
                                 KAFKA_API_DESCRIBE_CONFIGS,
                                 KAFKA_API_CREATE_PARTITIONS,
                                 KAFKA_API_DELETE_GROUPS,
                                 KAFKA_API_INCREMENTAL_ALTER_CONFIGS,
                                 KAFKA_API_ALTER_CONFIGS,
                                 KAFKA_API_OFFSET_DELETE,
                                 KAFKA_API_DESCRIBE_CLUSTER,
                                 KAFKA_API_DESCRIBE_TOPIC_PARTITIONS,
                                 KAFKA_API_LIST_CONFIG_RESOURCES,
                                 KAFKA_API_DELETE_RECORDS,
                                 KAFKA_API_OFFSET_FOR_LEADER_EPOCH,
                                 KAFKA_API_SASL_HANDSHAKE,
                                 KAFKA_API_SASL_AUTHENTICATE,
                                 KAFKA_API_DESCRIBE_LOG_DIRS,
                                 KAFKA_API_DESCRIBE_PRODUCERS};

bool topics_serves(int16_t api_key, int16_t version)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(served); i++) {
        if (served[i] != api_key) { continue; }
        const struct kafka_api_info *info = kafka_api_info(api_key);
        return version >= info->version_min && version <= info->version_stable;
    }
    return false;
}

void *answer_take(struct request *request, size_t size_bytes)
{
    void *answer = base_arena_take(&request->arena, size_bytes);
    CHECK(answer != NULL); /* its room was reserved */
    return answer;
}

int32_t *answer_copy_ids(struct request *request, const int32_t *ids, uint32_t count)
{
    int32_t *copy = base_arena_take_array(&request->arena, count, sizeof *copy);
    CHECK(copy != NULL);
    if (count > 0) { memcpy(copy, ids, count * sizeof *copy); }
    return copy;
}

/* An ApiVersions of a version that we lack is answered in version 0, so that the client can read what we do have (KIP-511). */
void topics_refuse_version(struct broker *broker, struct request *request, struct port_out *out)
{
    if (request->api_key != KAFKA_API_API_VERSIONS) {
        request_fail(broker, request, "the api or its version is not served", out);
        return;
    }
    size_t bytes =
        sizeof(struct kafka_api_versions_response) + sizeof(struct kafka_api_versions_response_api_version) + 64;
    if (!request_reserve(broker, request, bytes)) {
        request_fail(broker, request, "no memory to refuse its version", out);
        return;
    }
    struct kafka_api_versions_response *answer = answer_take(request, sizeof *answer);
    kafka_api_versions_response_init(answer);
    const struct kafka_api_info *info = kafka_api_info(KAFKA_API_API_VERSIONS);
    answer->error_code = KAFKA_ERROR_UNSUPPORTED_VERSION;
    answer->api_keys = kafka_api_versions_response_api_version_take(&request->arena, 1);
    answer->api_keys_count = 1;
    answer->api_keys[0].api_key = info->key;
    answer->api_keys[0].min_version = info->version_min;
    answer->api_keys[0].max_version = info->version_stable;
    request_answer_in(broker, request, answer, 0, out);
}

/* ---- ApiVersions ----------------------------------------------------------------------------------------------------------- */

/* The pattern of KIP-511: letters, digits, and '.', '-' between them. */
static bool is_software_word(struct base_slice word)
{
    for (size_t i = 0; i < word.size_bytes; i++) {
        uint8_t c = word.at[i];
        bool is_alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool is_inner = i > 0 && i + 1 < word.size_bytes;
        if (!is_alphanumeric && !(is_inner && (c == '.' || c == '-'))) { return false; }
    }
    return word.size_bytes > 0;
}

static void answer_api_versions(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_api_versions_request *asked = request->decoded;
    size_t count = BASE_ARRAY_COUNT(served);
    size_t bytes = sizeof(struct kafka_api_versions_response) + 64 +
                   count * sizeof(struct kafka_api_versions_response_api_version);
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    struct kafka_api_versions_response *answer = answer_take(request, sizeof *answer);
    kafka_api_versions_response_init(answer);
    if (request->version >= 3 && (!is_software_word(kafka_text_slice(asked->client_software_name)) ||
                                  !is_software_word(kafka_text_slice(asked->client_software_version)))) {
        answer->error_code = KAFKA_ERROR_INVALID_REQUEST;
        request_answer(broker, request, answer, out);
        return;
    }
    answer->api_keys = kafka_api_versions_response_api_version_take(&request->arena, (int32_t)count);
    answer->api_keys_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        const struct kafka_api_info *info = kafka_api_info(served[i]);
        answer->api_keys[i].api_key = info->key;
        /* Produce says 0, as Kafka does: old librdkafka takes a higher one for a broker it can't compress for. */
        answer->api_keys[i].min_version = info->key == KAFKA_API_PRODUCE ? 0 : info->version_min;
        answer->api_keys[i].max_version = info->version_stable;
    }
    request_answer(broker, request, answer, out);
}

/* On a listener without SASL both are out of place, as Kafka says too; that they are known turns features of clients on. */
static void answer_sasl(struct broker *broker, struct request *request, struct port_out *out)
{
    if (!request_reserve(broker, request, 512)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    if (request->api_key == KAFKA_API_SASL_HANDSHAKE) {
        struct kafka_sasl_handshake_response *answer = answer_take(request, sizeof *answer);
        kafka_sasl_handshake_response_init(answer);
        answer->error_code = KAFKA_ERROR_ILLEGAL_SASL_STATE;
        request_answer(broker, request, answer, out);
        return;
    }
    struct kafka_sasl_authenticate_response *answer = answer_take(request, sizeof *answer);
    kafka_sasl_authenticate_response_init(answer);
    answer->error_code = KAFKA_ERROR_ILLEGAL_SASL_STATE;
    answer->error_message = kafka_text_words("This listener has no authentication to go on with.");
    request_answer(broker, request, answer, out);
}

/* ---- what the controller decides ---------------------------------------------------------------------------------------------- */

/* Room for the controller's answer: results with their configs and messages. What is refused as a whole has codes alone, however long
 * it is. */
static size_t control_bytes(const struct request *request)
{
    const size_t each = 8192;
    switch (request->api_key) {
    case KAFKA_API_CREATE_TOPICS: {
        const struct kafka_create_topics_request *asked = request->decoded;
        bool is_refused = controller_creates_too_many(asked, 1); /* whatever num.partitions may be */
        size_t topic = is_refused ? sizeof(struct kafka_create_topics_response_creatable_topic_result) : each;
        return each + (size_t)base_max_i64(asked->topics_count, 0) * topic;
    }
    case KAFKA_API_DELETE_TOPICS: {
        const struct kafka_delete_topics_request *asked = request->decoded;
        int64_t names = base_max_i64(asked->topic_names_count, 0) + base_max_i64(asked->topics_count, 0);
        bool is_refused = names > CONTROLLER_RECORDS_MAX;
        return each + (size_t)names * (is_refused ? sizeof(struct kafka_delete_topics_response_deletable_topic_result)
                                                  : (size_t)512);
    }
    case KAFKA_API_CREATE_PARTITIONS: {
        const struct kafka_create_partitions_request *asked = request->decoded;
        int64_t topics = base_max_i64(asked->topics_count, 0);
        bool is_refused = topics > CONTROLLER_RECORDS_MAX;
        return each + (size_t)topics *
                          (is_refused ? sizeof(struct kafka_create_partitions_response_create_partitions_topic_result)
                                      : (size_t)1024);
    }
    case KAFKA_API_INCREMENTAL_ALTER_CONFIGS: {
        const struct kafka_incremental_alter_configs_request *asked = request->decoded;
        size_t configs = 0;
        for (int32_t i = 0; i < asked->resources_count; i++) {
            configs += (size_t)base_max_i64(asked->resources[i].configs_count, 0);
        }
        size_t resources = (size_t)base_max_i64(asked->resources_count, 0);
        if (resources + configs > CONTROLLER_RECORDS_MAX) { return each + resources * 128; }
        return each + resources * 2048 + configs * 1024; /* a list that grows is built anew, for each config */
    }
    case KAFKA_API_ALTER_CONFIGS: {
        const struct kafka_alter_configs_request *asked = request->decoded;
        size_t configs = 0;
        for (int32_t i = 0; i < asked->resources_count; i++) {
            configs += (size_t)base_max_i64(asked->resources[i].configs_count, 0);
        }
        size_t resources = (size_t)base_max_i64(asked->resources_count, 0);
        bool is_refused = resources + configs > CONTROLLER_RECORDS_MAX;
        return each + resources * (is_refused ? (size_t)512 : (size_t)2048) + configs * 128;
    }
    default: return each;
    }
}

/* How long the client waits for topics to change; 1: the api does not say. */
static int32_t timeout_of(const struct request *request)
{
    const struct kafka_create_topics_request *create = request->decoded;
    const struct kafka_delete_topics_request *delete = request->decoded;
    const struct kafka_create_partitions_request *grow = request->decoded;
    switch (request->api_key) {
    case KAFKA_API_CREATE_TOPICS: return create->timeout_ms;
    case KAFKA_API_DELETE_TOPICS: return delete->timeout_ms;
    case KAFKA_API_CREATE_PARTITIONS: return grow->timeout_ms;
    default: return 1;
    }
}

static const void *created_too_late(struct request *request)
{
    const struct kafka_create_topics_request *asked = request->decoded;
    struct kafka_create_topics_response *answer = answer_take(request, sizeof *answer);
    kafka_create_topics_response_init(answer);
    answer->topics = kafka_create_topics_response_creatable_topic_result_take(&request->arena, asked->topics_count);
    CHECK(answer->topics != NULL);
    for (int32_t i = 0; i < asked->topics_count; i++) {
        answer->topics[i].name = asked->topics[i].name;
        answer->topics[i].error_code = KAFKA_ERROR_REQUEST_TIMED_OUT;
        answer->topics[i].error_message = kafka_text_null();
        answer->topics[i].configs_count = 0;
        answer->topics_count += 1;
    }
    return answer;
}

static const void *deleted_too_late(struct request *request)
{
    const struct kafka_delete_topics_request *asked = request->decoded;
    bool has_names = request->version < 6;
    int32_t count = has_names ? asked->topic_names_count : asked->topics_count;
    struct kafka_delete_topics_response *answer = answer_take(request, sizeof *answer);
    kafka_delete_topics_response_init(answer);
    answer->responses = kafka_delete_topics_response_deletable_topic_result_take(&request->arena, count);
    CHECK(answer->responses != NULL);
    for (int32_t i = 0; i < count; i++) {
        answer->responses[i].name = has_names ? asked->topic_names[i] : asked->topics[i].name;
        if (!has_names) { answer->responses[i].topic_id = asked->topics[i].topic_id; }
        answer->responses[i].error_code = KAFKA_ERROR_REQUEST_TIMED_OUT;
        answer->responses_count += 1;
    }
    return answer;
}

static const void *grown_too_late(struct request *request)
{
    const struct kafka_create_partitions_request *asked = request->decoded;
    struct kafka_create_partitions_response *answer = answer_take(request, sizeof *answer);
    kafka_create_partitions_response_init(answer);
    answer->results =
        kafka_create_partitions_response_create_partitions_topic_result_take(&request->arena, asked->topics_count);
    CHECK(answer->results != NULL);
    for (int32_t i = 0; i < asked->topics_count; i++) {
        answer->results[i].name = asked->topics[i].name;
        answer->results[i].error_code = KAFKA_ERROR_REQUEST_TIMED_OUT;
        answer->results_count += 1;
    }
    return answer;
}

/* As in Kafka, nothing is decided for whom no time is left: control_bytes is room enough to say so. */
static const void *answer_too_late(struct request *request)
{
    if (request->api_key == KAFKA_API_CREATE_TOPICS) { return created_too_late(request); }
    return request->api_key == KAFKA_API_DELETE_TOPICS ? deleted_too_late(request) : grown_too_late(request);
}

static void begin_control(struct broker *broker, struct request *request, enum controller_kind kind,
                          struct port_out *out)
{
    if (!request_reserve(broker, request, control_bytes(request))) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    if (timeout_of(request) <= 0) {
        request_answer(broker, request, answer_too_late(request), out);
        return;
    }
    struct control_loan *loan = base_arena_take_array(&request->arena, 1, sizeof *loan);
    CHECK(loan != NULL);
    loan->request = (struct controller_request){.kind = kind, .version = request->version, .request = request->decoded};
    request_control(broker, request, loan, out);
}

void topics_controlled(struct broker *broker, struct request *request, struct port_out *out)
{
    if (request->api_key == KAFKA_API_METADATA) {
        metadata_controlled(broker, request, out);
        return;
    }
    if (request->loan->answer == NULL) {
        request_fail(broker, request, "the controller could not answer: too many requests, or too long an answer", out);
        return;
    }
    request_answer(broker, request, request->loan->answer, out);
}

void topics_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    switch (request->api_key) {
    case KAFKA_API_API_VERSIONS: answer_api_versions(broker, request, out); return;
    case KAFKA_API_SASL_HANDSHAKE:
    case KAFKA_API_SASL_AUTHENTICATE: answer_sasl(broker, request, out); return;
    case KAFKA_API_METADATA: metadata_begin(broker, request, out); return;
    case KAFKA_API_DESCRIBE_CONFIGS: describe_configs_begin(broker, request, out); return;
    case KAFKA_API_CREATE_TOPICS: begin_control(broker, request, CONTROLLER_CREATE_TOPICS, out); return;
    case KAFKA_API_DELETE_TOPICS: begin_control(broker, request, CONTROLLER_DELETE_TOPICS, out); return;
    case KAFKA_API_CREATE_PARTITIONS: begin_control(broker, request, CONTROLLER_CREATE_PARTITIONS, out); return;
    case KAFKA_API_INCREMENTAL_ALTER_CONFIGS: begin_control(broker, request, CONTROLLER_ALTER_CONFIGS, out); return;
    case KAFKA_API_ALTER_CONFIGS: begin_control(broker, request, CONTROLLER_REPLACE_CONFIGS, out); return;
    case KAFKA_API_DESCRIBE_CLUSTER: describe_cluster_begin(broker, request, out); return;
    case KAFKA_API_DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions_begin(broker, request, out); return;
    case KAFKA_API_LIST_CONFIG_RESOURCES: list_config_resources_begin(broker, request, out); return;
    case KAFKA_API_INIT_PRODUCER_ID: begin_control(broker, request, CONTROLLER_INIT_PRODUCER_ID, out); return;
    default: UNREACHABLE();
    }
}
