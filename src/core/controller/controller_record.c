/* controller_record.c: metadata records: written, applied, and the image as a row of them.
 *
 * Room    core/controller.
 * Format  a record value is KRaft's frame: frame version (1), record type, record version, unsigned varints all three, then the
 *         message. Types and messages are Kafka's. What Kafka keeps and this image does not (adding and removing replicas, eligible
 *         leaders) is refused when it is set, never dropped.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "controller/controller__room.h"

enum { /* record types, as in Kafka */
       REGISTER_BROKER = 0,
       UNREGISTER_BROKER = 1,
       TOPIC = 2,
       PARTITION = 3,
       CONFIG = 4,
       PARTITION_CHANGE = 5,
       FENCE_BROKER = 7,
       UNFENCE_BROKER = 8,
       REMOVE_TOPIC = 9,
       FEATURE_LEVEL = 12,
       PRODUCER_IDS = 15,
       BROKER_REGISTRATION_CHANGE = 17,
       NO_OP = 20,
};

/* ---- writing ------------------------------------------------------------------------------------------------------ */

/* BASE_FULL: no room. A message of ours can always be said in its version. */
enum base_rc controller__encode(uint8_t *at, size_t room_bytes, uint16_t type, int16_t version, const void *message,
                                size_t *used_bytes_out)
{
    enum kafka_message kind = kafka_record_message(type);
    struct kafka_size size;
    enum base_rc rc = kafka_record_size(kind, message, version, &size);
    CHECK(rc == BASE_OK);
    if (size.memory_bytes > room_bytes) { return BASE_FULL; }
    struct kafka_writer writer;
    kafka_writer_init(&writer, at, room_bytes);
    rc = kafka_record_encode(kind, message, version, &writer);
    CHECK(rc == BASE_OK);
    CHECK(writer.used_bytes == size.memory_bytes);
    *used_bytes_out = writer.used_bytes;
    return BASE_OK;
}

void controller__propose(struct controller__round *round, uint16_t type, int16_t version, const void *message)
{
    if (round->is_full) { return; }
    uint8_t bytes[CONTROLLER_RECORD_BYTES_MAX];
    size_t used_bytes;
    enum base_rc rc = controller__encode(bytes, sizeof bytes, type, version, message, &used_bytes);
    CHECK(rc == BASE_OK); /* every text and list in a record has a limit */
    size_t records_end = (size_t)(round->records_count + 1) * sizeof(struct controller_record);
    if (records_end + used_bytes > round->bytes_at) {
        round->is_full = true;
        return;
    }
    round->bytes_at -= used_bytes;
    memcpy(round->block + round->bytes_at, bytes, used_bytes);
    struct controller_record *records = (struct controller_record *)(void *)round->block;
    records[round->records_count] =
        (struct controller_record){.type = type,
                                   .version = version,
                                   .value = base_slice_of(round->block + round->bytes_at, used_bytes)};
    round->records_count += 1;
}

static void partition_message(const struct metadata_partition *partition, int32_t replicas[METADATA_REPLICAS_MAX],
                              int32_t isr[METADATA_REPLICAS_MAX], struct base_uuid directories[METADATA_REPLICAS_MAX],
                              struct kafka_partition_record *message_out)
{
    memcpy(replicas, partition->replicas, sizeof partition->replicas);
    memcpy(isr, partition->isr, sizeof partition->isr);
    memcpy(directories, partition->directories, sizeof partition->directories);
    kafka_partition_record_init(message_out);
    message_out->partition_id = partition->id.index;
    message_out->topic_id = partition->id.topic;
    message_out->replicas = replicas;
    message_out->replicas_count = (int32_t)partition->replicas_count;
    message_out->isr = isr;
    message_out->isr_count = (int32_t)partition->isr_count;
    message_out->leader = partition->leader;
    message_out->leader_epoch = partition->leader_epoch;
    message_out->partition_epoch = partition->partition_epoch;
    message_out->directories = directories;
    message_out->directories_count = (int32_t)partition->replicas_count;
}

void controller__propose_partition(struct controller__round *round, const struct metadata_partition *partition)
{
    int32_t replicas[METADATA_REPLICAS_MAX];
    int32_t isr[METADATA_REPLICAS_MAX];
    struct base_uuid directories[METADATA_REPLICAS_MAX];
    struct kafka_partition_record message;
    partition_message(partition, replicas, isr, directories, &message);
    controller__propose(round, PARTITION, 1, &message);
}

/* The leader is named anew, and with it, as in Kafka, the leader epoch rises. */
void controller__propose_epoch(struct controller__round *round, const struct metadata_partition *partition)
{
    struct kafka_partition_change_record message;
    kafka_partition_change_record_init(&message);
    message.partition_id = partition->id.index;
    message.topic_id = partition->id.topic;
    message.leader = partition->leader;
    controller__propose(round, PARTITION_CHANGE, 0, &message);
}

/* ---- applying ----------------------------------------------------------------------------------------------------- */

static bool copy_list(int32_t *to, uint32_t *count_out, const int32_t *from, int32_t count)
{
    if (count < 0 || count > METADATA_REPLICAS_MAX) { return false; }
    for (int32_t i = 0; i < count; i++) { to[i] = from[i]; }
    *count_out = (uint32_t)count;
    return true;
}

static bool copy_directories(struct metadata_partition *partition, const struct base_uuid *from, int32_t count)
{
    if (count <= 0) { return true; } /* version 0 has none */
    if ((uint32_t)count != partition->replicas_count) { return false; }
    for (int32_t i = 0; i < count; i++) { partition->directories[i] = from[i]; }
    return true;
}

static enum base_rc apply_partition(struct metadata *image, const struct kafka_partition_record *message)
{
    struct metadata_partition partition = {.id = {.topic = message->topic_id, .index = message->partition_id},
                                           .leader = message->leader,
                                           .leader_epoch = message->leader_epoch,
                                           .partition_epoch = message->partition_epoch};
    if (message->adding_replicas_count > 0 || message->removing_replicas_count > 0 ||
        message->eligible_leader_replicas_count > 0 || message->last_known_elr_count > 0 ||
        message->leader_recovery_state != 0 ||
        !copy_list(partition.replicas, &partition.replicas_count, message->replicas, message->replicas_count) ||
        !copy_list(partition.isr, &partition.isr_count, message->isr, message->isr_count) ||
        !copy_directories(&partition, message->directories, message->directories_count)) {
        return BASE_BAD;
    }
    return metadata_put_partition(image, &partition);
}

/* Kafka raises the leader epoch with the leader, and the partition epoch with every change. */
static enum base_rc apply_partition_change(struct metadata *image, const struct kafka_partition_change_record *message)
{
    const struct metadata_partition *before =
        metadata_partition_by_id(image, (struct base_part){.topic = message->topic_id, .index = message->partition_id});
    if (before == NULL) { return BASE_BAD; }
    struct metadata_partition partition = *before;
    if (message->adding_replicas_count > 0 || message->removing_replicas_count > 0 ||
        message->eligible_leader_replicas_count > 0 || message->last_known_elr_count > 0 ||
        message->leader_recovery_state > 0) {
        return BASE_BAD;
    }
    if (message->isr_count >= 0 && !copy_list(partition.isr, &partition.isr_count, message->isr, message->isr_count)) {
        return BASE_BAD;
    }
    if (message->replicas_count >= 0 &&
        !copy_list(partition.replicas, &partition.replicas_count, message->replicas, message->replicas_count)) {
        return BASE_BAD;
    }
    if (!copy_directories(&partition, message->directories, message->directories_count)) { return BASE_BAD; }
    if (partition.leader_epoch == INT32_MAX || partition.partition_epoch == INT32_MAX) { return BASE_BAD; }
    if (message->leader != -2) {
        partition.leader = message->leader;
        partition.leader_epoch += 1;
    }
    partition.partition_epoch += 1;
    return metadata_put_partition(image, &partition);
}

static bool copy_word(char *to, size_t max_bytes, struct kafka_text text)
{
    struct base_slice from = kafka_text_slice(text);
    if (from.size_bytes > max_bytes) { return false; }
    if (from.size_bytes > 0) { memcpy(to, from.at, from.size_bytes); }
    to[from.size_bytes] = 0;
    return true;
}

static enum base_rc apply_register(struct metadata *image, const struct kafka_register_broker_record *message)
{
    struct metadata_broker broker = {.id = message->broker_id,
                                     .epoch = message->broker_epoch,
                                     .incarnation = message->incarnation_id,
                                     .is_fenced = message->fenced,
                                     .is_in_controlled_shutdown = message->in_controlled_shutdown,
                                     .has_rack = !kafka_text_is_null(message->rack)};
    if (message->end_points_count < 0 || message->end_points_count > METADATA_ENDPOINTS_MAX) { return BASE_BAD; }
    if (message->log_dirs_count > 0) { broker.directory = message->log_dirs[0]; }
    if (!copy_word(broker.rack, METADATA_WORD_MAX, message->rack)) { return BASE_BAD; }
    broker.endpoints_count = (uint32_t)message->end_points_count;
    for (uint32_t i = 0; i < broker.endpoints_count; i++) {
        const struct kafka_register_broker_record_broker_endpoint *from = &message->end_points[i];
        struct metadata_endpoint *to = &broker.endpoints[i];
        if (!copy_word(to->name, METADATA_WORD_MAX, from->name) ||
            !copy_word(to->host, METADATA_HOST_MAX, from->host)) {
            return BASE_BAD;
        }
        to->port = from->port;
        to->security_protocol = from->security_protocol;
    }
    return metadata_put_broker(image, &broker);
}

/* fenced, in_controlled_shutdown: -1 back, 0 as it was, 1 set; as Kafka's change record says it. */
static enum base_rc change_broker(struct metadata *image, int32_t id, int64_t epoch, int fenced,
                                  int in_controlled_shutdown)
{
    const struct metadata_broker *before = metadata_broker(image, id);
    if (before == NULL || before->epoch != epoch) { return BASE_BAD; }
    struct metadata_broker broker = *before;
    if (fenced != 0) { broker.is_fenced = fenced > 0; }
    if (in_controlled_shutdown != 0) { broker.is_in_controlled_shutdown = in_controlled_shutdown > 0; }
    return metadata_put_broker(image, &broker);
}

static enum base_rc apply_config(struct metadata *image, const struct kafka_config_record *message)
{
    if (message->resource_type != METADATA_RESOURCE_TOPIC && message->resource_type != METADATA_RESOURCE_BROKER) {
        return BASE_BAD;
    }
    struct base_slice value = kafka_text_slice(message->value);
    if (kafka_text_is_null(message->value)) {
        value = base_slice_of(NULL, 0);
    } else if (value.at == NULL) {
        value = base_slice_of("", 0);
    }
    return metadata_put_config(image, (enum metadata_resource)message->resource_type,
                               kafka_text_slice(message->resource_name), kafka_text_slice(message->name), value);
}

static enum base_rc apply_message(struct metadata *image, uint32_t type, const void *decoded)
{
    switch (type) {
    case REGISTER_BROKER: return apply_register(image, decoded);
    case UNREGISTER_BROKER:
        return metadata_remove_broker(image, ((const struct kafka_unregister_broker_record *)decoded)->broker_id);
    case TOPIC: {
        const struct kafka_topic_record *message = decoded;
        return metadata_put_topic(image, kafka_text_slice(message->name), message->topic_id);
    }
    case PARTITION: return apply_partition(image, decoded);
    case CONFIG: return apply_config(image, decoded);
    case PARTITION_CHANGE: return apply_partition_change(image, decoded);
    case FENCE_BROKER: {
        const struct kafka_fence_broker_record *message = decoded;
        return change_broker(image, message->id, message->epoch, 1, 0);
    }
    case UNFENCE_BROKER: {
        const struct kafka_unfence_broker_record *message = decoded;
        return change_broker(image, message->id, message->epoch, -1, 0);
    }
    case REMOVE_TOPIC:
        return metadata_remove_topic(image, ((const struct kafka_remove_topic_record *)decoded)->topic_id);
    case FEATURE_LEVEL: {
        const struct kafka_feature_level_record *message = decoded;
        return metadata_put_feature(image, kafka_text_slice(message->name), message->feature_level);
    }
    case PRODUCER_IDS:
        metadata_put_next_producer_id(image, ((const struct kafka_producer_ids_record *)decoded)->next_producer_id);
        return BASE_OK;
    case BROKER_REGISTRATION_CHANGE: {
        const struct kafka_broker_registration_change_record *message = decoded;
        return change_broker(image, message->broker_id, message->broker_epoch, message->fenced,
                             message->in_controlled_shutdown);
    }
    case NO_OP: return BASE_OK;
    default: return BASE_BAD;
    }
}

enum base_rc controller_apply(struct metadata *image, struct base_slice value, struct base_arena *scratch)
{
    uint32_t type;
    int16_t version;
    struct base_slice body;
    if (kafka_record_open(value, &type, &version, &body) != BASE_OK) { return BASE_BAD; }
    enum kafka_message kind = kafka_record_message(type);
    if (kind == KAFKA_MESSAGE_NONE) { return BASE_BAD; }
    size_t mark = base_arena_mark(scratch);
    void *decoded = base_arena_take(scratch, kafka_message_struct_bytes(kind));
    if (decoded == NULL) { return BASE_FULL; }
    enum base_rc rc = kafka_decode(kind, body, version, scratch, decoded);
    if (rc == BASE_OK) { rc = apply_message(image, type, decoded); }
    base_arena_reset(scratch, mark);
    return rc == BASE_MISSING ? BASE_BAD : rc; /* of a thing that is not there: it contradicts the image */
}

/* ---- the image as records ----------------------------------------------------------------------------------------- */

enum stage { FEATURES = 0, BROKERS, TOPICS, BROKER_CONFIGS, IDS, END };

static enum base_rc give(uint8_t *buffer, uint16_t type, int16_t version, const void *message,
                         struct controller_record *record_out)
{
    size_t used_bytes;
    enum base_rc rc = controller__encode(buffer, CONTROLLER_RECORD_BYTES_MAX, type, version, message, &used_bytes);
    CHECK(rc == BASE_OK);
    *record_out =
        (struct controller_record){.type = type, .version = version, .value = base_slice_of(buffer, used_bytes)};
    return BASE_OK;
}

static enum base_rc give_config(uint8_t *buffer, enum metadata_resource resource, struct base_slice resource_name,
                                struct metadata_pair pair, struct controller_record *record_out)
{
    struct kafka_config_record message;
    kafka_config_record_init(&message);
    message.resource_type = (int8_t)resource;
    message.resource_name = kafka_text_of_slice(resource_name);
    message.name = kafka_text_of_slice(pair.name);
    message.value = kafka_text_of_slice(pair.value);
    return give(buffer, CONFIG, 0, &message, record_out);
}

static void broker_message(const struct metadata_broker *broker,
                           struct kafka_register_broker_record_broker_endpoint endpoints[METADATA_ENDPOINTS_MAX],
                           struct base_uuid *directory, struct kafka_register_broker_record *message_out)
{
    kafka_register_broker_record_init(message_out);
    message_out->broker_id = broker->id;
    message_out->incarnation_id = broker->incarnation;
    message_out->broker_epoch = broker->epoch;
    message_out->fenced = broker->is_fenced;
    message_out->in_controlled_shutdown = broker->is_in_controlled_shutdown;
    message_out->rack = broker->has_rack ? kafka_text_words(broker->rack) : kafka_text_null();
    message_out->end_points = endpoints;
    message_out->end_points_count = (int32_t)broker->endpoints_count;
    for (uint32_t i = 0; i < broker->endpoints_count; i++) {
        kafka_register_broker_record_broker_endpoint_init(&endpoints[i]);
        endpoints[i].name = kafka_text_words(broker->endpoints[i].name);
        endpoints[i].host = kafka_text_words(broker->endpoints[i].host);
        endpoints[i].port = broker->endpoints[i].port;
        endpoints[i].security_protocol = broker->endpoints[i].security_protocol;
    }
    if (!base_uuid_is_none(broker->directory)) {
        *directory = broker->directory;
        message_out->log_dirs = directory;
        message_out->log_dirs_count = 1;
    }
}

void controller__propose_broker(struct controller__round *round, const struct metadata_broker *broker)
{
    struct kafka_register_broker_record_broker_endpoint endpoints[METADATA_ENDPOINTS_MAX];
    struct base_uuid directory;
    struct kafka_register_broker_record message;
    broker_message(broker, endpoints, &directory, &message);
    controller__propose(round, REGISTER_BROKER, 3, &message);
}

/* A topic, then its partitions by index, then its configs. BASE_MISSING: no topic is left. */
static enum base_rc give_topic(const struct metadata *image, struct controller_cursor *cursor, uint8_t *buffer,
                               struct controller_record *record_out)
{
    while (cursor->rank < metadata_topics_count(image)) {
        const struct metadata_topic *topic = metadata_topic_at(image, cursor->rank);
        struct metadata_pair pair;
        if (!cursor->is_inside) {
            cursor->is_inside = true;
            cursor->index = 0;
            struct kafka_topic_record message;
            kafka_topic_record_init(&message);
            message.name = kafka_text_of_slice(metadata_topic_name(topic));
            message.topic_id = topic->id;
            return give(buffer, TOPIC, 0, &message, record_out);
        }
        if (cursor->index < topic->partitions_count) {
            int32_t replicas[METADATA_REPLICAS_MAX];
            int32_t isr[METADATA_REPLICAS_MAX];
            struct base_uuid directories[METADATA_REPLICAS_MAX];
            struct kafka_partition_record message;
            const struct metadata_partition *partition = metadata_partition(image, topic, (int32_t)cursor->index);
            partition_message(partition, replicas, isr, directories, &message);
            cursor->index += 1;
            return give(buffer, PARTITION, 1, &message, record_out);
        }
        if (cursor->index == topic->partitions_count) { /* once: the configs begin */
            cursor->index += 1;
            if (!metadata_overrides(image, METADATA_RESOURCE_TOPIC, metadata_topic_name(topic), &cursor->override)) {
                cursor->override.next = 0;
            }
        }
        if (metadata_override_next(image, &cursor->override, &pair)) {
            return give_config(buffer, METADATA_RESOURCE_TOPIC, metadata_topic_name(topic), pair, record_out);
        }
        cursor->rank += 1;
        cursor->is_inside = false;
    }
    return BASE_MISSING;
}

/* The dynamic configs of all brokers, and of each: one that is not registered now may come back. */
static enum base_rc give_broker_config(const struct metadata *image, struct controller_cursor *cursor, uint8_t *buffer,
                                       struct controller_record *record_out)
{
    if (!cursor->is_inside) { cursor->override = metadata_broker_overrides(image); }
    cursor->is_inside = true;
    struct base_slice name;
    struct metadata_pair pair;
    if (!metadata_broker_override_next(image, &cursor->override, &name, &pair)) { return BASE_MISSING; }
    return give_config(buffer, METADATA_RESOURCE_BROKER, name, pair, record_out);
}

static enum base_rc give_feature(const struct metadata *image, struct controller_cursor *cursor, uint8_t *buffer,
                                 struct controller_record *record_out)
{
    if (cursor->rank == metadata_features_count(image)) { return BASE_MISSING; }
    const struct metadata_feature *feature = metadata_feature_at(image, cursor->rank);
    struct kafka_feature_level_record message;
    kafka_feature_level_record_init(&message);
    message.name = kafka_text_words(feature->name);
    message.feature_level = feature->level;
    cursor->rank += 1;
    return give(buffer, FEATURE_LEVEL, 0, &message, record_out);
}

static enum base_rc give_broker(const struct metadata *image, struct controller_cursor *cursor, uint8_t *buffer,
                                struct controller_record *record_out)
{
    if (cursor->rank == metadata_brokers_count(image)) { return BASE_MISSING; }
    struct kafka_register_broker_record_broker_endpoint endpoints[METADATA_ENDPOINTS_MAX];
    struct base_uuid directory;
    struct kafka_register_broker_record message;
    broker_message(metadata_broker_at(image, cursor->rank), endpoints, &directory, &message);
    cursor->rank += 1;
    return give(buffer, REGISTER_BROKER, 3, &message, record_out);
}

static enum base_rc give_ids(const struct metadata *image, struct controller_cursor *cursor, uint8_t *buffer,
                             struct controller_record *record_out)
{
    if (cursor->rank > 0 || metadata_next_producer_id(image) == 0) { return BASE_MISSING; }
    struct kafka_producer_ids_record message;
    kafka_producer_ids_record_init(&message);
    message.broker_id = -1; /* whoever took the last block: it is not in the image, and nobody asks */
    message.next_producer_id = metadata_next_producer_id(image);
    cursor->rank += 1;
    return give(buffer, PRODUCER_IDS, 0, &message, record_out);
}

enum base_rc controller_snapshot_next(const struct metadata *image, struct controller_cursor *cursor,
                                      uint8_t buffer[CONTROLLER_RECORD_BYTES_MAX], struct controller_record *record_out)
{
    while (cursor->stage < END) {
        enum base_rc rc = BASE_MISSING;
        switch ((enum stage)cursor->stage) {
        case FEATURES: rc = give_feature(image, cursor, buffer, record_out); break;
        case BROKERS: rc = give_broker(image, cursor, buffer, record_out); break;
        case TOPICS: rc = give_topic(image, cursor, buffer, record_out); break;
        case BROKER_CONFIGS: rc = give_broker_config(image, cursor, buffer, record_out); break;
        case IDS: rc = give_ids(image, cursor, buffer, record_out); break;
        case END: UNREACHABLE();
        }
        if (rc == BASE_OK) { return BASE_OK; }
        cursor->stage += 1;
        cursor->rank = 0;
        cursor->index = 0;
        cursor->is_inside = false;
    }
    return BASE_MISSING;
}
