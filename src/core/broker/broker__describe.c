/* broker__describe.c: what the image alone can say of the cluster: DescribeCluster, DescribeTopicPartitions,
 * ListConfigResources.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/describe_cluster.h"
#include "wire/kafka/describe_topic_partitions.h"
#include "wire/kafka/list_config_resources.h"

/* ---- DescribeCluster ---------------------------------------------------------------------------------------------------- */

enum { ENDPOINT_BROKER = 1, ENDPOINT_CONTROLLER = 2 };
#define ENDPOINT_WORDS_MAX 64

static void refuse_endpoint(struct request *request, int8_t type, struct kafka_describe_cluster_response *answer)
{
    if (type == ENDPOINT_CONTROLLER) {
        answer->error_code = KAFKA_ERROR_MISMATCHED_ENDPOINT_TYPE;
        answer->error_message = kafka_text_words(
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER");
        return;
    }
    answer->error_code = KAFKA_ERROR_UNSUPPORTED_ENDPOINT_TYPE;
    struct base_text words;
    base_text_init(&words, answer_take(request, ENDPOINT_WORDS_MAX), ENDPOINT_WORDS_MAX);
    base_text_add(&words, "Unsupported endpoint type ");
    base_text_add_i64(&words, type);
    answer->error_message = kafka_text_of_slice(base_text_slice(&words));
}

static void fill_cluster(struct broker *broker, struct request *request, struct kafka_describe_cluster_response *answer)
{
    const struct kafka_describe_cluster_request *asked = request->decoded;
    struct base_slice listener = base_slice_text(broker->config.listeners[request->listener].name);
    uint32_t count = metadata_brokers_count(broker->image);
    answer->cluster_id = kafka_text_of_slice(metadata_cluster_id(broker->image));
    answer->controller_id = broker->config.node_id;
    answer->brokers = kafka_describe_cluster_response_describe_cluster_broker_take(&request->arena, (int32_t)count);
    CHECK(answer->brokers != NULL);
    for (uint32_t i = 0; i < count; i++) {
        const struct metadata_broker *node = metadata_broker_at(broker->image, i);
        const struct metadata_endpoint *endpoint = metadata_broker_endpoint(node, listener);
        if (endpoint == NULL || (node->is_fenced && !asked->include_fenced_brokers)) { continue; }
        struct kafka_describe_cluster_response_describe_cluster_broker *line = &answer->brokers[answer->brokers_count];
        line->broker_id = node->id;
        line->host = kafka_text_words(endpoint->host);
        line->port = endpoint->port;
        if (node->has_rack) { line->rack = kafka_text_words(node->rack); }
        line->is_fenced = request->version >= 2 && node->is_fenced;
        answer->brokers_count += 1;
    }
    if (asked->include_cluster_authorized_operations) { answer->cluster_authorized_operations = CLUSTER_OPERATIONS; }
}

void describe_cluster_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_describe_cluster_request *asked = request->decoded;
    size_t bytes =
        sizeof(struct kafka_describe_cluster_response) + ENDPOINT_WORDS_MAX + 128 +
        metadata_brokers_count(broker->image) * sizeof(struct kafka_describe_cluster_response_describe_cluster_broker);
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    struct kafka_describe_cluster_response *answer = answer_take(request, sizeof *answer);
    kafka_describe_cluster_response_init(answer);
    if (asked->endpoint_type == ENDPOINT_BROKER) {
        fill_cluster(broker, request, answer);
    } else {
        refuse_endpoint(request, asked->endpoint_type, answer);
    }
    request_answer(broker, request, answer, out);
}

/* ---- DescribeTopicPartitions ------------------------------------------------------------------------------------------- */

typedef struct kafka_describe_topic_partitions_response_describe_topic_partitions_response_topic described_topic;
typedef struct kafka_describe_topic_partitions_response_describe_topic_partitions_response_partition
    described_partition;

/* A listing under way: what is left of the limit, and where the answer goes. */
struct listing {
    struct broker *broker;
    struct request *request;
    struct kafka_describe_topic_partitions_response *answer;
    uint32_t left;
};

static void set_cursor(struct listing *listing, struct base_slice topic, uint32_t partition)
{
    listing->answer->next_cursor = kafka_describe_topic_partitions_response_cursor_take(&listing->request->arena, 1);
    CHECK(listing->answer->next_cursor != NULL);
    listing->answer->next_cursor->topic_name = kafka_text_of_slice(topic);
    listing->answer->next_cursor->partition_index = (int32_t)partition;
}

static void fill_partition(struct request *request, const struct metadata_partition *partition,
                           described_partition *line)
{
    line->error_code = partition->leader < 0 ? KAFKA_ERROR_LEADER_NOT_AVAILABLE : KAFKA_ERROR_NONE;
    line->partition_index = partition->id.index;
    line->leader_id = partition->leader;
    line->leader_epoch = partition->leader_epoch;
    line->replica_nodes = answer_copy_ids(request, partition->replicas, partition->replicas_count);
    line->replica_nodes_count = (int32_t)partition->replicas_count;
    line->isr_nodes = answer_copy_ids(request, partition->isr, partition->isr_count);
    line->isr_nodes_count = (int32_t)partition->isr_count;
    line->eligible_leader_replicas_count = 0; /* none, which is not null: there is one replica */
    line->last_known_elr_count = 0;
}

/* A topic from partition `first` on. False: the listing is full and its cursor set. */
static bool list_topic(struct listing *listing, struct base_slice name, uint32_t first)
{
    struct broker *broker = listing->broker;
    if (listing->left == 0) {
        set_cursor(listing, name, first);
        return false;
    }
    described_topic *line = &listing->answer->topics[listing->answer->topics_count];
    listing->answer->topics_count += 1;
    line->name = kafka_text_of_slice(name);
    line->topic_authorized_operations = TOPIC_OPERATIONS;
    const struct metadata_topic *topic = metadata_topic_by_name(broker->image, name);
    if (topic == NULL) {
        bool is_valid = controller_check_topic_name(name, NULL) == 0;
        line->error_code = is_valid ? KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION : KAFKA_ERROR_INVALID_TOPIC_EXCEPTION;
        return true;
    }
    line->topic_id = topic->id;
    uint32_t there = topic->partitions_count > first ? topic->partitions_count - first : 0;
    uint32_t count = there < listing->left ? there : listing->left;
    line->partitions = kafka_describe_topic_partitions_response_describe_topic_partitions_response_partition_take(
        &listing->request->arena, (int32_t)count);
    CHECK(line->partitions != NULL);
    line->partitions_count = (int32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        fill_partition(listing->request, metadata_partition(broker->image, topic, (int32_t)(first + i)),
                       &line->partitions[i]);
    }
    listing->left -= count;
    if (count == there) { return true; }
    set_cursor(listing, name, first + count);
    return false;
}

static uint32_t first_of(const struct kafka_describe_topic_partitions_request *asked, struct base_slice name)
{
    bool is_there = asked->cursor != NULL && base_slice_equal(kafka_text_slice(asked->cursor->topic_name), name);
    return is_there ? (uint32_t)asked->cursor->partition_index : 0;
}

/* Every topic, from the cursor's on. */
static void list_all(struct listing *listing)
{
    const struct kafka_describe_topic_partitions_request *asked = listing->request->decoded;
    const struct metadata *image = listing->broker->image;
    const struct metadata_topic *topic = NULL;
    if (asked->cursor != NULL) {
        struct base_slice from = kafka_text_slice(asked->cursor->topic_name);
        topic = metadata_topic_by_name(image, from);
        if (topic == NULL) { topic = metadata_topic_after(image, from); }
    } else {
        topic = metadata_topic_after(image, base_slice_of("", 0));
    }
    while (topic != NULL) {
        struct base_slice name = metadata_topic_name(topic);
        if (!list_topic(listing, name, first_of(asked, name))) { return; }
        topic = metadata_topic_after(image, name);
    }
}

/* Everything of it that was named gets the same error. */
static void refuse_all(struct listing *listing, int16_t error)
{
    const struct kafka_describe_topic_partitions_request *asked = listing->request->decoded;
    for (int32_t i = 0; i < asked->topics_count; i++) {
        listing->answer->topics[i].name = asked->topics[i].name;
        listing->answer->topics[i].error_code = error;
    }
    listing->answer->topics_count = asked->topics_count;
}

static void list_named(struct listing *listing)
{
    const struct kafka_describe_topic_partitions_request *asked = listing->request->decoded;
    bool has_cursor = asked->cursor != NULL;
    struct base_slice from = has_cursor ? kafka_text_slice(asked->cursor->topic_name) : base_slice_of("", 0);
    struct base_slice *names =
        base_arena_take_array(&listing->request->arena, (size_t)asked->topics_count, sizeof *names);
    CHECK(names != NULL);
    uint32_t count = 0;
    bool has_cursor_topic = false;
    bool has_empty = false;
    for (int32_t i = 0; i < asked->topics_count; i++) {
        struct base_slice name = kafka_text_slice(asked->topics[i].name);
        if (base_slice_compare(name, from) < 0) { continue; }
        names[count] = name;
        count += 1;
        has_cursor_topic = has_cursor_topic || base_slice_equal(name, from);
        has_empty = has_empty || name.size_bytes == 0;
    }
    if (has_cursor && (!has_cursor_topic || asked->cursor->partition_index < 0)) {
        refuse_all(listing, KAFKA_ERROR_INVALID_REQUEST);
        return;
    }
    if (has_empty) { /* Kafka stumbles over it, and says no more than that */
        refuse_all(listing, KAFKA_ERROR_UNKNOWN_SERVER_ERROR);
        return;
    }
    count = names_sort(names, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!list_topic(listing, names[i], first_of(asked, names[i]))) { return; }
    }
}

static uint32_t limit_of(const struct broker *broker, const struct kafka_describe_topic_partitions_request *asked)
{
    int64_t limit = base_min_i64(broker->config.described_partitions_max, asked->response_partition_limit);
    return (uint32_t)base_max_i64(limit, 1);
}

static size_t listing_bytes(struct broker *broker, const struct kafka_describe_topic_partitions_request *asked)
{
    uint64_t limit = limit_of(broker, asked);
    uint64_t topics = base_min_u64(metadata_topics_count(broker->image), limit + 1);
    uint64_t partitions = base_min_u64(metadata_partitions_count(broker->image), limit);
    if (asked->topics_count > 0) {
        topics = (uint64_t)asked->topics_count;
        partitions = 0;
        for (int32_t i = 0; i < asked->topics_count && partitions < limit; i++) {
            const struct metadata_topic *topic =
                metadata_topic_by_name(broker->image, kafka_text_slice(asked->topics[i].name));
            partitions += topic == NULL ? 0 : topic->partitions_count;
        }
        partitions = base_min_u64(partitions, limit);
    }
    return sizeof(struct kafka_describe_topic_partitions_response) +
           sizeof(struct kafka_describe_topic_partitions_response_cursor) + 256 +
           topics * (sizeof(described_topic) + sizeof(struct base_slice) + 32) +
           partitions * (sizeof(described_partition) + 2 * (METADATA_REPLICAS_MAX * sizeof(int32_t) + 16));
}

void describe_topic_partitions_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_describe_topic_partitions_request *asked = request->decoded;
    if (!request_reserve(broker, request, listing_bytes(broker, asked))) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    struct listing listing = {.broker = broker, .request = request, .left = limit_of(broker, asked)};
    listing.answer = answer_take(request, sizeof *listing.answer);
    kafka_describe_topic_partitions_response_init(listing.answer);
    uint32_t topics = asked->topics_count > 0
                          ? (uint32_t)asked->topics_count
                          : (uint32_t)base_min_u64(metadata_topics_count(broker->image), listing.left + 1);
    listing.answer->topics =
        kafka_describe_topic_partitions_response_describe_topic_partitions_response_topic_take(&request->arena,
                                                                                               (int32_t)topics);
    CHECK(listing.answer->topics != NULL);
    bool is_bad_cursor = asked->cursor != NULL && asked->cursor->partition_index < 0;
    if (asked->topics_count > 0) {
        list_named(&listing);
    } else if (!is_bad_cursor) { /* there is no topic to put the error at: Kafka's answer is empty */
        list_all(&listing);
    }
    request_answer(broker, request, listing.answer, out);
}

/* ---- ListConfigResources ------------------------------------------------------------------------------------------------ */

enum { TYPE_TOPIC = 2, TYPE_BROKER = 4, TYPE_BROKER_LOGGER = 8, TYPE_CLIENT_METRICS = 16, TYPE_GROUP = 32 };

/* Which types are asked for, as bits; 0: one that has no configs to list. None named are all; version 0 knows one. */
static uint32_t types_of(const struct request *request)
{
    const struct kafka_list_config_resources_request *asked = request->decoded;
    const uint32_t known = TYPE_TOPIC | TYPE_BROKER | TYPE_BROKER_LOGGER | TYPE_CLIENT_METRICS | TYPE_GROUP;
    if (request->version == 0) { return TYPE_CLIENT_METRICS; }
    if (asked->resource_types_count <= 0) { return known; }
    uint32_t types = 0;
    for (int32_t i = 0; i < asked->resource_types_count; i++) {
        uint32_t type = (uint32_t)(uint8_t)asked->resource_types[i];
        bool is_one_bit = type != 0 && (type & (type - 1)) == 0;
        if (!is_one_bit || (type & known) == 0) { return 0; }
        types |= type;
    }
    return types;
}

/* The nodes that the asked listener can reach. */
static void list_nodes(struct broker *broker, struct request *request, int8_t type,
                       struct kafka_list_config_resources_response *answer)
{
    const size_t words_bytes = 12;
    struct base_slice listener = base_slice_text(broker->config.listeners[request->listener].name);
    for (uint32_t i = 0; i < metadata_brokers_count(broker->image); i++) {
        const struct metadata_broker *node = metadata_broker_at(broker->image, i);
        if (node->is_fenced || metadata_broker_endpoint(node, listener) == NULL) { continue; }
        struct base_text words;
        base_text_init(&words, answer_take(request, words_bytes), words_bytes);
        base_text_add_i64(&words, node->id);
        struct kafka_list_config_resources_response_config_resource *line =
            &answer->config_resources[answer->config_resources_count];
        line->resource_name = kafka_text_of_slice(base_text_slice(&words));
        line->resource_type = type;
        answer->config_resources_count += 1;
    }
}

static void list_topics(struct broker *broker, struct kafka_list_config_resources_response *answer)
{
    for (uint32_t i = 0; i < metadata_topics_count(broker->image); i++) {
        struct kafka_list_config_resources_response_config_resource *line =
            &answer->config_resources[answer->config_resources_count];
        line->resource_name = kafka_text_of_slice(metadata_topic_name(metadata_topic_at(broker->image, i)));
        line->resource_type = TYPE_TOPIC;
        answer->config_resources_count += 1;
    }
}

void list_config_resources_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    uint32_t types = types_of(request);
    uint32_t count = 0;
    if ((types & TYPE_TOPIC) != 0) { count += metadata_topics_count(broker->image); }
    if ((types & TYPE_BROKER) != 0) { count += metadata_brokers_count(broker->image); }
    if ((types & TYPE_BROKER_LOGGER) != 0) { count += metadata_brokers_count(broker->image); }
    size_t each = sizeof(struct kafka_list_config_resources_response_config_resource);
    size_t bytes = sizeof(struct kafka_list_config_resources_response) + 128 + count * each +
                   2 * metadata_brokers_count(broker->image) * 32;
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    struct kafka_list_config_resources_response *answer = answer_take(request, sizeof *answer);
    kafka_list_config_resources_response_init(answer);
    answer->config_resources =
        kafka_list_config_resources_response_config_resource_take(&request->arena, (int32_t)count);
    CHECK(answer->config_resources != NULL);
    if (types == 0) { answer->error_code = KAFKA_ERROR_UNSUPPORTED_VERSION; }
    /* Groups and client metrics have no configs here. */
    if ((types & TYPE_BROKER) != 0) { list_nodes(broker, request, TYPE_BROKER, answer); }
    if ((types & TYPE_BROKER_LOGGER) != 0) { list_nodes(broker, request, TYPE_BROKER_LOGGER, answer); }
    if ((types & TYPE_TOPIC) != 0) { list_topics(broker, answer); }
    request_answer(broker, request, answer, out);
}
