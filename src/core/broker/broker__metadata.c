/* broker__metadata.c: Metadata: topics by name or by id, and made first where client and configuration allow it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/metadata.h"

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

/* The topics asked for, each once and sorted: names, or the 16 bytes of ids. Where one has an id, only ids count. */
struct wanted {
    struct base_slice *at;
    uint32_t count;
    bool is_by_id;
};

static size_t wanted_bytes(const struct request *request)
{
    const struct kafka_metadata_request *asked = request->decoded;
    return asks_for_all(request) ? 0 : (size_t)asked->topics_count * sizeof(struct base_slice) + 16;
}

static struct wanted wanted_of(struct request *request)
{
    const struct kafka_metadata_request *asked = request->decoded;
    struct wanted wanted = {.count = 0};
    if (asks_for_all(request)) { return wanted; }
    wanted.at = base_arena_take_array(&request->arena, (size_t)asked->topics_count, sizeof *wanted.at);
    CHECK(wanted.at != NULL);
    for (int32_t i = 0; i < asked->topics_count; i++) {
        const struct kafka_metadata_request_metadata_request_topic *topic = &asked->topics[i];
        if (base_uuid_is_none(topic->topic_id)) { continue; }
        wanted.is_by_id = true;
        wanted.at[wanted.count] = base_slice_of(topic->topic_id.b, sizeof topic->topic_id.b);
        wanted.count += 1;
    }
    for (int32_t i = 0; i < asked->topics_count && !wanted.is_by_id; i++) {
        wanted.at[wanted.count] = kafka_text_slice(asked->topics[i].name);
        wanted.count += 1;
    }
    wanted.count = names_sort(wanted.at, wanted.count);
    return wanted;
}

static const struct metadata_topic *topic_wanted(const struct broker *broker, const struct wanted *wanted,
                                                 uint32_t index)
{
    if (!wanted->is_by_id) { return metadata_topic_by_name(broker->image, wanted->at[index]); }
    struct base_uuid id;
    memcpy(id.b, wanted->at[index].at, sizeof id.b);
    return metadata_topic_by_id(broker->image, id);
}

/* What the controller said of a topic that the request named. The names that it was given are in the same order: *next_made is
 * the first not yet met there. */
static int16_t made_error(const struct request *request, struct base_slice name, uint32_t *next_made)
{
    if (request->loan == NULL || request->loan->answer == NULL) { return KAFKA_ERROR_NONE; }
    const struct metadata_wait *wait = (const void *)request->loan;
    const struct controller_auto_created *made = request->loan->answer;
    if (*next_made == made->error_codes_count) { return KAFKA_ERROR_NONE; }
    if (!base_slice_equal(wait->names[*next_made], name)) { return KAFKA_ERROR_NONE; }
    int16_t error = made->error_codes[*next_made];
    *next_made += 1;
    return error == KAFKA_ERROR_TOPIC_ALREADY_EXISTS ? KAFKA_ERROR_NONE : error;
}

static void fill_missing(const struct request *request, const struct wanted *wanted, uint32_t index, int16_t not_made,
                         struct kafka_metadata_response_metadata_response_topic *answer)
{
    const struct kafka_metadata_request *asked = request->decoded;
    if (wanted->is_by_id) {
        answer->error_code = KAFKA_ERROR_UNKNOWN_TOPIC_ID;
        answer->name = kafka_text_null();
        memcpy(answer->topic_id.b, wanted->at[index].at, sizeof answer->topic_id.b);
        return;
    }
    answer->name = kafka_text_of_slice(wanted->at[index]);
    if (asked->include_topic_authorized_operations) { answer->topic_authorized_operations = TOPIC_OPERATIONS; }
    if (controller_check_topic_name(wanted->at[index], NULL) != 0) {
        answer->error_code = KAFKA_ERROR_INVALID_TOPIC_EXCEPTION;
    } else {
        answer->error_code = not_made != KAFKA_ERROR_NONE ? not_made : KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION;
    }
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
        line->replica_nodes = answer_copy_ids(request, partition->replicas, partition->replicas_count);
        line->replica_nodes_count = (int32_t)partition->replicas_count;
        line->isr_nodes = answer_copy_ids(request, partition->isr, partition->isr_count);
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

static size_t metadata_answer_bytes(struct broker *broker, struct request *request, const struct wanted *wanted)
{
    size_t bytes =
        sizeof(struct kafka_metadata_response) + 128 +
        metadata_brokers_count(broker->image) * sizeof(struct kafka_metadata_response_metadata_response_broker);
    if (asks_for_all(request)) {
        for (uint32_t i = 0; i < metadata_topics_count(broker->image); i++) {
            bytes += topic_bytes(metadata_topic_at(broker->image, i));
        }
        return bytes;
    }
    for (uint32_t i = 0; i < wanted->count; i++) { bytes += topic_bytes(topic_wanted(broker, wanted, i)); }
    return bytes;
}

static void fill_topics(struct broker *broker, struct request *request, const struct wanted *wanted,
                        struct kafka_metadata_response *answer)
{
    bool is_all = asks_for_all(request);
    uint32_t count = is_all ? metadata_topics_count(broker->image) : wanted->count;
    answer->topics = kafka_metadata_response_metadata_response_topic_take(&request->arena, (int32_t)count);
    CHECK(answer->topics != NULL);
    answer->topics_count = (int32_t)count;
    uint32_t next_made = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct metadata_topic *topic =
            is_all ? metadata_topic_at(broker->image, i) : topic_wanted(broker, wanted, i);
        bool may_be_made = !is_all && !wanted->is_by_id;
        int16_t not_made = may_be_made ? made_error(request, wanted->at[i], &next_made) : KAFKA_ERROR_NONE;
        if (topic != NULL) {
            fill_topic(broker, request, topic, &answer->topics[i]);
        } else {
            fill_missing(request, wanted, i, not_made, &answer->topics[i]);
        }
    }
}

static void tell(struct broker *broker, struct request *request, bool may_keep, struct port_out *out)
{
    const struct kafka_metadata_request *asked = request->decoded;
    if (!request_reserve(broker, request, wanted_bytes(request))) {
        request_starve(broker, request, RETRY_CONTROLLED);
        return;
    }
    size_t mark = base_arena_mark(&request->arena);
    struct wanted wanted = wanted_of(request);
    if (!request_reserve(broker, request, metadata_answer_bytes(broker, request, &wanted))) {
        base_arena_reset(&request->arena, mark); /* or each try would take more than the one before */
        request_starve(broker, request, RETRY_CONTROLLED);
        return;
    }
    struct kafka_metadata_response *answer = answer_take(request, sizeof *answer);
    kafka_metadata_response_init(answer);
    answer->cluster_id = kafka_text_of_slice(metadata_cluster_id(broker->image));
    answer->controller_id = broker->config.node_id;
    if (request->version >= 8 && request->version <= 10 && asked->include_cluster_authorized_operations) {
        answer->cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    fill_brokers(broker, request, answer);
    fill_topics(broker, request, &wanted, answer);
    if (may_keep && kept_add(broker, request, answer, out)) { return; }
    request_answer(broker, request, answer, out);
}

/* What was made for it, or may have gone since it was looked for, is part of the answer: it is of this request alone. */
void metadata_controlled(struct broker *broker, struct request *request, struct port_out *out)
{
    tell(broker, request, false, out);
}

/* What Kafka refuses as a whole: ids in versions 10 and 11, which carry them for nothing, and what has neither name nor id. */
static int16_t whole_error(const struct request *request)
{
    const struct kafka_metadata_request *asked = request->decoded;
    bool has_id = false;
    bool has_null = false;
    for (int32_t i = 0; i < asked->topics_count; i++) {
        has_id = has_id || !base_uuid_is_none(asked->topics[i].topic_id);
        has_null = has_null || kafka_text_is_null(asked->topics[i].name);
    }
    if (request->version < 12 && (has_id || has_null)) { return KAFKA_ERROR_INVALID_REQUEST; }
    return has_null && !has_id ? KAFKA_ERROR_UNKNOWN_SERVER_ERROR : KAFKA_ERROR_NONE;
}

static void refuse_whole(struct broker *broker, struct request *request, int16_t error, struct port_out *out)
{
    const struct kafka_metadata_request *asked = request->decoded;
    size_t each = sizeof(struct kafka_metadata_response_metadata_response_topic) + 16;
    if (!request_reserve(broker, request,
                         sizeof(struct kafka_metadata_response) + 128 + (size_t)asked->topics_count * each)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    struct kafka_metadata_response *answer = answer_take(request, sizeof *answer);
    kafka_metadata_response_init(answer);
    answer->topics = kafka_metadata_response_metadata_response_topic_take(&request->arena, asked->topics_count);
    CHECK(answer->topics != NULL);
    answer->topics_count = asked->topics_count;
    for (int32_t i = 0; i < asked->topics_count; i++) {
        answer->topics[i].error_code = error;
        answer->topics[i].topic_id = asked->topics[i].topic_id;
        answer->topics[i].name =
            kafka_text_is_null(asked->topics[i].name) ? kafka_text_words("") : asked->topics[i].name;
    }
    request_answer(broker, request, answer, out);
}

/* Topics named that do not exist are made first, where client and configuration allow it. */
void metadata_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_metadata_request *asked = request->decoded;
    int16_t error = whole_error(request);
    if (error != KAFKA_ERROR_NONE) {
        refuse_whole(broker, request, error, out);
        return;
    }
    bool is_auto_create = metadata_dynamic_number(broker->image, base_slice_text("auto.create.topics.enable"),
                                                  broker->config.is_auto_create ? 1 : 0) != 0;
    bool may_create = is_auto_create && (request->version < 4 || asked->allow_auto_topic_creation);
    if (!may_create || asks_for_all(request)) {
        tell(broker, request, true, out);
        return;
    }
    if (!request_reserve(broker, request, wanted_bytes(request))) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    struct wanted wanted = wanted_of(request);
    uint32_t missing = 0;
    for (uint32_t i = 0; !wanted.is_by_id && i < wanted.count; i++) {
        missing += topic_wanted(broker, &wanted, i) == NULL ? 1 : 0;
    }
    if (missing == 0) {
        tell(broker, request, true, out);
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
    for (uint32_t i = 0; i < wanted.count; i++) {
        if (topic_wanted(broker, &wanted, i) == NULL) { wait->names[at++] = wanted.at[i]; }
    }
    wait->create = (struct controller_auto_create){.names = wait->names, .names_count = at};
    wait->loan.request = (struct controller_request){.kind = CONTROLLER_AUTO_CREATE, .request = &wait->create};
    request_control(broker, request, &wait->loan, out);
}
