/* broker__topics.c: the requests that the image answers (ApiVersions, Metadata, DescribeConfigs) and those that the controller
 * decides (CreateTopics, DeleteTopics, InitProducerId, and topics made because a Metadata request named them).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/api_versions.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/describe_configs.h"
#include "wire/kafka/init_producer_id.h"
#include "wire/kafka/metadata.h"

/* ---- what is served ------------------------------------------------------------------------------------------------------- */

/* An api stands here only when it works in full. Versions: Kafka's own lowest to its newest stable one. */
static const int16_t served[] = {KAFKA_API_PRODUCE,         KAFKA_API_FETCH,
                                 KAFKA_API_LIST_OFFSETS,    KAFKA_API_METADATA,
                                 KAFKA_API_API_VERSIONS,    KAFKA_API_CREATE_TOPICS,
                                 KAFKA_API_DELETE_TOPICS,   KAFKA_API_INIT_PRODUCER_ID,
                                 KAFKA_API_DESCRIBE_CONFIGS};

bool topics_serves(int16_t api_key, int16_t version)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(served); i++) {
        if (served[i] != api_key) { continue; }
        const struct kafka_api_info *info = kafka_api_info(api_key);
        return version >= info->version_min && version <= info->version_stable;
    }
    return false;
}

static void *take_answer(struct request *request, size_t size_bytes)
{
    void *answer = base_arena_take(&request->arena, size_bytes);
    CHECK(answer != NULL); /* its room was reserved */
    return answer;
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
    struct kafka_api_versions_response *answer = take_answer(request, sizeof *answer);
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
    struct kafka_api_versions_response *answer = take_answer(request, sizeof *answer);
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

/* ---- Metadata --------------------------------------------------------------------------------------------------------------- */

/* All operations on a topic or the cluster, as bits of AclOperation: nothing is forbidden while there is no authorizer. */
#define TOPIC_OPERATIONS   3576
#define CLUSTER_OPERATIONS 8096

/* What a Metadata request keeps while the controller makes topics for it. */
struct metadata_wait {
    struct control_loan loan;
    struct controller_auto_create create;
    struct base_slice names[];
};

static bool asks_for_all(const struct request *request)
{
    const struct kafka_metadata_request *asked = request->decoded;
    return asked->topics_count < 0 || (request->version == 0 && asked->topics_count == 0);
}

static bool is_by_id(const struct kafka_metadata_request_metadata_request_topic *topic)
{
    return !base_uuid_is_none(topic->topic_id);
}

static const struct metadata_topic *topic_asked(const struct broker *broker,
                                                const struct kafka_metadata_request_metadata_request_topic *asked)
{
    if (is_by_id(asked)) { return metadata_topic_by_id(broker->image, asked->topic_id); }
    return metadata_topic_by_name(broker->image, kafka_text_slice(asked->name));
}

/* What the controller said of a topic that the request named. The names that it was given are in the order of the request:
 * *next_made is the first not yet met there. */
static int16_t made_error(const struct request *request,
                          const struct kafka_metadata_request_metadata_request_topic *asked, uint32_t *next_made)
{
    if (request->loan == NULL || request->loan->answer == NULL || is_by_id(asked)) { return KAFKA_ERROR_NONE; }
    const struct metadata_wait *wait = (const void *)request->loan;
    const struct controller_auto_created *made = request->loan->answer;
    if (*next_made == made->error_codes_count) { return KAFKA_ERROR_NONE; }
    if (!base_slice_equal(wait->names[*next_made], kafka_text_slice(asked->name))) { return KAFKA_ERROR_NONE; }
    int16_t error = made->error_codes[*next_made];
    *next_made += 1;
    return error == KAFKA_ERROR_TOPIC_ALREADY_EXISTS ? KAFKA_ERROR_NONE : error;
}

static int16_t missing_error(const struct kafka_metadata_request_metadata_request_topic *asked, int16_t not_made)
{
    if (is_by_id(asked)) { return KAFKA_ERROR_UNKNOWN_TOPIC_ID; }
    if (controller_check_topic_name(kafka_text_slice(asked->name), NULL) != 0) {
        return KAFKA_ERROR_INVALID_TOPIC_EXCEPTION;
    }
    return not_made != KAFKA_ERROR_NONE ? not_made : KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION;
}

static int32_t *copy_ids(struct request *request, const int32_t *ids, uint32_t count)
{
    int32_t *copy = base_arena_take_array(&request->arena, count, sizeof *copy);
    CHECK(copy != NULL);
    if (count > 0) { memcpy(copy, ids, count * sizeof *copy); }
    return copy;
}

static void fill_topic(struct broker *broker, struct request *request, const struct metadata_topic *topic,
                       struct kafka_metadata_response_metadata_response_topic *answer)
{
    const struct kafka_metadata_request *asked = request->decoded;
    answer->name = kafka_text_of_slice(metadata_topic_name(topic));
    answer->topic_id = topic->id;
    if (asked->include_topic_authorized_operations) { answer->topic_authorized_operations = TOPIC_OPERATIONS; }
    answer->partitions =
        kafka_metadata_response_metadata_response_partition_take(&request->arena, (int32_t)topic->partitions_count);
    CHECK(answer->partitions != NULL);
    answer->partitions_count = (int32_t)topic->partitions_count;
    for (uint32_t i = 0; i < topic->partitions_count; i++) {
        const struct metadata_partition *partition = metadata_partition(broker->image, topic, (int32_t)i);
        struct kafka_metadata_response_metadata_response_partition *line = &answer->partitions[i];
        line->error_code = partition->leader < 0 ? KAFKA_ERROR_LEADER_NOT_AVAILABLE : KAFKA_ERROR_NONE;
        line->partition_index = (int32_t)i;
        line->leader_id = partition->leader;
        line->leader_epoch = partition->leader_epoch;
        line->replica_nodes = copy_ids(request, partition->replicas, partition->replicas_count);
        line->replica_nodes_count = (int32_t)partition->replicas_count;
        line->isr_nodes = copy_ids(request, partition->isr, partition->isr_count);
        line->isr_nodes_count = (int32_t)partition->isr_count;
    }
}

static void fill_brokers(struct broker *broker, struct request *request, struct kafka_metadata_response *answer)
{
    struct base_slice listener = base_slice_text(broker->config.listeners[request->listener].name);
    uint32_t count = metadata_brokers_count(broker->image);
    answer->brokers = kafka_metadata_response_metadata_response_broker_take(&request->arena, (int32_t)count);
    CHECK(answer->brokers != NULL);
    for (uint32_t i = 0; i < count; i++) {
        const struct metadata_broker *node = metadata_broker_at(broker->image, i);
        const struct metadata_endpoint *endpoint = metadata_broker_endpoint(node, listener);
        if (endpoint == NULL || node->is_fenced) { continue; }
        struct kafka_metadata_response_metadata_response_broker *line = &answer->brokers[answer->brokers_count];
        line->node_id = node->id;
        line->host = kafka_text_words(endpoint->host);
        line->port = endpoint->port;
        if (node->has_rack) { line->rack = kafka_text_words(node->rack); }
        answer->brokers_count += 1;
    }
}

static size_t topic_bytes(const struct metadata_topic *topic)
{
    size_t partition_bytes = sizeof(struct kafka_metadata_response_metadata_response_partition) +
                             2 * (METADATA_REPLICAS_MAX * sizeof(int32_t) + 16);
    return sizeof(struct kafka_metadata_response_metadata_response_topic) + 16 +
           (topic == NULL ? 0 : topic->partitions_count * partition_bytes);
}

static size_t metadata_answer_bytes(struct broker *broker, struct request *request)
{
    const struct kafka_metadata_request *asked = request->decoded;
    size_t bytes =
        sizeof(struct kafka_metadata_response) + 128 +
        metadata_brokers_count(broker->image) * sizeof(struct kafka_metadata_response_metadata_response_broker);
    if (asks_for_all(request)) {
        for (uint32_t i = 0; i < metadata_topics_count(broker->image); i++) {
            bytes += topic_bytes(metadata_topic_at(broker->image, i));
        }
        return bytes;
    }
    for (int32_t i = 0; i < asked->topics_count; i++) { bytes += topic_bytes(topic_asked(broker, &asked->topics[i])); }
    return bytes;
}

static void fill_topics(struct broker *broker, struct request *request, struct kafka_metadata_response *answer)
{
    const struct kafka_metadata_request *asked = request->decoded;
    bool is_all = asks_for_all(request);
    int32_t count = is_all ? (int32_t)metadata_topics_count(broker->image) : asked->topics_count;
    answer->topics = kafka_metadata_response_metadata_response_topic_take(&request->arena, count);
    CHECK(answer->topics != NULL);
    answer->topics_count = count;
    uint32_t next_made = 0;
    for (int32_t i = 0; i < count; i++) {
        struct kafka_metadata_response_metadata_response_topic *line = &answer->topics[i];
        const struct metadata_topic *topic =
            is_all ? metadata_topic_at(broker->image, (uint32_t)i) : topic_asked(broker, &asked->topics[i]);
        int16_t not_made = is_all ? KAFKA_ERROR_NONE : made_error(request, &asked->topics[i], &next_made);
        if (topic != NULL) {
            fill_topic(broker, request, topic, line);
            continue;
        }
        line->error_code = missing_error(&asked->topics[i], not_made);
        line->topic_id = asked->topics[i].topic_id;
        line->name = asked->topics[i].name;
        if (request->version < 12 && kafka_text_is_null(line->name)) { line->name = kafka_text_words(""); }
    }
}

static void answer_metadata(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_metadata_request *asked = request->decoded;
    if (!request_reserve(broker, request, metadata_answer_bytes(broker, request))) {
        request_starve(broker, request, RETRY_CONTROLLED);
        return;
    }
    struct kafka_metadata_response *answer = take_answer(request, sizeof *answer);
    kafka_metadata_response_init(answer);
    answer->cluster_id = kafka_text_of_slice(metadata_cluster_id(broker->image));
    answer->controller_id = broker->config.node_id;
    if (request->version >= 8 && request->version <= 10 && asked->include_cluster_authorized_operations) {
        answer->cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    fill_brokers(broker, request, answer);
    fill_topics(broker, request, answer);
    request_answer(broker, request, answer, out);
}

/* Topics named that do not exist are made first, where client and configuration allow it. */
static void begin_metadata(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_metadata_request *asked = request->decoded;
    bool may_create = broker->config.is_auto_create && (request->version < 4 || asked->allow_auto_topic_creation);
    uint32_t missing = 0;
    for (int32_t i = 0; may_create && !asks_for_all(request) && i < asked->topics_count; i++) {
        bool is_name = !is_by_id(&asked->topics[i]) && !kafka_text_is_null(asked->topics[i].name);
        missing += is_name && topic_asked(broker, &asked->topics[i]) == NULL ? 1 : 0;
    }
    if (missing == 0) {
        answer_metadata(broker, request, out);
        return;
    }
    size_t bytes = sizeof(struct metadata_wait) + missing * (sizeof(struct base_slice) + sizeof(int16_t)) +
                   sizeof(struct controller_auto_created) + 128;
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    struct metadata_wait *wait =
        base_arena_take_array(&request->arena, 1, sizeof *wait + missing * sizeof(struct base_slice));
    CHECK(wait != NULL);
    uint32_t at = 0;
    for (int32_t i = 0; i < asked->topics_count && at < missing; i++) {
        bool is_name = !is_by_id(&asked->topics[i]) && !kafka_text_is_null(asked->topics[i].name);
        if (is_name && topic_asked(broker, &asked->topics[i]) == NULL) {
            wait->names[at++] = kafka_text_slice(asked->topics[i].name);
        }
    }
    wait->create = (struct controller_auto_create){.names = wait->names, .names_count = at};
    wait->loan.request = (struct controller_request){.kind = CONTROLLER_AUTO_CREATE, .request = &wait->create};
    request_control(broker, request, &wait->loan, out);
}

/* ---- DescribeConfigs -------------------------------------------------------------------------------------------------------- */

#define CONFIGS_BYTES_FIRST ((size_t)32 << 10)
#define CONFIGS_BYTES_MAX   ((size_t)64 << 20)

static void answer_describe_configs(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_describe_configs_request *asked = request->decoded;
    for (size_t bytes = CONFIGS_BYTES_FIRST; bytes <= CONFIGS_BYTES_MAX; bytes *= 4) {
        if (!request_reserve(broker, request, bytes)) {
            request_starve(broker, request, RETRY_DECODE);
            return;
        }
        struct kafka_describe_configs_response *answer = take_answer(request, sizeof *answer);
        kafka_describe_configs_response_init(answer);
        enum base_rc rc = controller_describe_configs(broker->image, broker->config.node_id, asked, request->version,
                                                      &request->arena, answer);
        if (rc == BASE_OK) {
            request_answer(broker, request, answer, out);
            return;
        }
    }
    request_fail(broker, request, "it asks for more configs than one answer holds", out);
}

/* ---- what the controller decides ---------------------------------------------------------------------------------------------- */

/* Room for the controller's answer: results with their configs and messages. */
static size_t control_bytes(const struct request *request)
{
    const size_t each = 8192;
    switch (request->api_key) {
    case KAFKA_API_CREATE_TOPICS: {
        const struct kafka_create_topics_request *asked = request->decoded;
        return each + (size_t)base_max_i64(asked->topics_count, 0) * each;
    }
    case KAFKA_API_DELETE_TOPICS: {
        const struct kafka_delete_topics_request *asked = request->decoded;
        int64_t names = base_max_i64(asked->topic_names_count, 0) + base_max_i64(asked->topics_count, 0);
        return each + (size_t)names * 512;
    }
    default: return each;
    }
}

static void begin_control(struct broker *broker, struct request *request, enum controller_kind kind,
                          struct port_out *out)
{
    if (!request_reserve(broker, request, control_bytes(request))) {
        request_starve(broker, request, RETRY_DECODE);
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
        answer_metadata(broker, request, out);
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
    case KAFKA_API_METADATA: begin_metadata(broker, request, out); return;
    case KAFKA_API_DESCRIBE_CONFIGS: answer_describe_configs(broker, request, out); return;
    case KAFKA_API_CREATE_TOPICS: begin_control(broker, request, CONTROLLER_CREATE_TOPICS, out); return;
    case KAFKA_API_DELETE_TOPICS: begin_control(broker, request, CONTROLLER_DELETE_TOPICS, out); return;
    case KAFKA_API_INIT_PRODUCER_ID: begin_control(broker, request, CONTROLLER_INIT_PRODUCER_ID, out); return;
    default: UNREACHABLE();
    }
}
