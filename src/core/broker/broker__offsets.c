/* broker__offsets.c: ListOffsets: each partition asked at its shard, joined again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/list_offsets.h"

/* The special timestamps that a version may ask for: -1 and -2 always, -3 from 7 (KIP-734), -4 from 8 (KIP-405), -5 from 9
 * (KIP-1005), -6 from 11 (KIP-1023). */
static bool is_allowed(int64_t timestamp_ms, int16_t version)
{
    if (timestamp_ms >= LIST_OFFSETS_EARLIEST) { return true; }
    if (timestamp_ms == LIST_OFFSETS_MAX_TIMESTAMP) { return version >= 7; }
    if (timestamp_ms == LIST_OFFSETS_EARLIEST_LOCAL) { return version >= 8; }
    if (timestamp_ms == LIST_OFFSETS_LATEST_TIERED) { return version >= 9; }
    return timestamp_ms == LIST_OFFSETS_EARLIEST_PENDING_UPLOAD && version >= 11;
}

static const struct kafka_list_offsets_request_list_offsets_topic *topic_asked(const struct request *request,
                                                                               const struct part *part)
{
    const struct kafka_list_offsets_request *list = request->decoded;
    return &list->topics[part->topic_index];
}

static int32_t partition_asked(const struct request *request, const struct part *part)
{
    return topic_asked(request, part)->partitions[part->partition_index].partition_index;
}

/* One that is not there and was named before: as for any other, it is the request that is wrong, and one answer says so. */
static void supersede_missing(struct broker *broker, struct request *request, struct base_map *missing, uint32_t index)
{
    struct part *part = &request->parts[index];
    struct base_slice name = kafka_text_slice(topic_asked(request, part)->name);
    int32_t partition = partition_asked(request, part);
    uint64_t hash = base_hash_bytes(name.at, name.size_bytes, broker->session_seed + (uint32_t)partition);
    for (uint32_t at = base_map_first(missing, hash); at != BASE_MAP_NONE; at = base_map_next(missing, hash, at)) {
        uint32_t earlier = base_map_value(missing, at);
        struct part *before = &request->parts[earlier];
        bool is_it = partition_asked(request, before) == partition &&
                     base_slice_equal(kafka_text_slice(topic_asked(request, before)->name), name);
        if (!is_it) { continue; }
        before->is_superseded = true;
        before->error = KAFKA_ERROR_NONE;
        part->error = KAFKA_ERROR_INVALID_REQUEST;
        base_map_remove(missing, hash, earlier);
        break;
    }
    enum base_rc rc = base_map_insert(missing, hash, index);
    CHECK(rc == BASE_OK); /* it was made for all of them */
}

static void fill_parts(struct broker *broker, struct request *request, const struct kafka_list_offsets_request *list)
{
    struct base_map missing;
    enum base_rc rc = base_map_create(&request->arena, request->part_count, &missing);
    CHECK(rc == BASE_OK); /* its room was reserved */
    uint32_t at = 0;
    for (int32_t t = 0; t < list->topics_count; t++) {
        const struct kafka_list_offsets_request_list_offsets_topic *data = &list->topics[t];
        const struct metadata_topic *topic = metadata_topic_by_name(broker->image, kafka_text_slice(data->name));
        for (int32_t p = 0; p < data->partitions_count; p++) {
            const struct kafka_list_offsets_request_list_offsets_partition *asked = &data->partitions[p];
            struct part *part = &request->parts[at++];
            *part = (struct part){.topic_index = (uint32_t)t,
                                  .partition_index = (uint32_t)p,
                                  .offset = -1,
                                  .timestamp_ms = -1,
                                  .leader_epoch = -1,
                                  .error = request_partition_error(broker, request, topic, asked->partition_index)};
            if (part->error != KAFKA_ERROR_NONE) { supersede_missing(broker, request, &missing, at - 1); }
            if (part->error == KAFKA_ERROR_NONE && !is_allowed(asked->timestamp, request->version)) {
                part->error = KAFKA_ERROR_UNSUPPORTED_VERSION;
            }
            part->is_answered = part->error != KAFKA_ERROR_NONE;
            if (part->is_answered) { continue; }
            part_place(broker, part, topic, asked->partition_index);
            if (parts_supersede(broker, request, topic, at - 1)) { /* asked twice, it is not looked up at all */
                part->is_answered = true;
                part->error = KAFKA_ERROR_INVALID_REQUEST;
            }
            if (!part->is_answered && request->version >= 2 && (list->isolation_level & ~1) != 0) {
                part->is_answered = true; /* Kafka stumbles over it, and says no more than that */
                part->error = KAFKA_ERROR_UNKNOWN_SERVER_ERROR;
            }
            part->ask_offset = asked->timestamp;
            part->ask_epoch = request->version >= 4 ? asked->current_leader_epoch : -1;
        }
    }
}

void list_offsets_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_list_offsets_request *list = request->decoded;
    uint32_t count = 0;
    for (int32_t t = 0; t < list->topics_count; t++) { count += (uint32_t)list->topics[t].partitions_count; }
    if (!request_reserve(broker, request, count * sizeof(struct part) + base_map_bytes(count) + 64)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    if (!request_take_parts(broker, request, count)) { return; }
    fill_parts(broker, request, list);
    request_ask(broker, request, out);
}

void list_offsets_answered(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_list_offsets_request *list = request->decoded;
    size_t bytes =
        sizeof(struct kafka_list_offsets_response) + 64 +
        (size_t)list->topics_count * (sizeof(struct kafka_list_offsets_response_list_offsets_topic_response) + 16) +
        request->part_count * sizeof(struct kafka_list_offsets_response_list_offsets_partition_response);
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_PARTS);
        return;
    }
    struct kafka_list_offsets_response *answer = base_arena_take(&request->arena, sizeof *answer);
    kafka_list_offsets_response_init(answer);
    answer->topics = kafka_list_offsets_response_list_offsets_topic_response_take(&request->arena, list->topics_count);
    uint32_t at = 0;
    for (int32_t t = 0; t < list->topics_count; t++) {
        struct kafka_list_offsets_response_list_offsets_topic_response *topic = &answer->topics[answer->topics_count];
        int32_t count = list->topics[t].partitions_count;
        topic->name = list->topics[t].name;
        topic->partitions = kafka_list_offsets_response_list_offsets_partition_response_take(&request->arena, count);
        for (int32_t p = 0; p < count; p++, at++) {
            const struct part *part = &request->parts[at];
            if (part->is_superseded) { continue; }
            struct kafka_list_offsets_response_list_offsets_partition_response *line =
                &topic->partitions[topic->partitions_count];
            topic->partitions_count += 1;
            line->partition_index = list->topics[t].partitions[p].partition_index;
            line->error_code = part->error;
            line->offset = part->offset;
            line->timestamp = part->timestamp_ms;
            if (request->version >= 4) { line->leader_epoch = part->leader_epoch; }
        }
        if (topic->partitions_count > 0) { answer->topics_count += 1; } /* as in Kafka, nothing is said of the others */
    }
    request_answer(broker, request, answer, out);
}
