/* broker__logs.c: what is asked of the logs themselves, each partition at its shard: DeleteRecords, OffsetForLeaderEpoch,
 * DescribeProducers, DescribeLogDirs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/delete_records.h"
#include "wire/kafka/describe_log_dirs.h"
#include "wire/kafka/describe_producers.h"
#include "wire/kafka/offset_for_leader_epoch.h"

static void take_error(struct part *part, int16_t error)
{
    part->error = error;
    part->is_answered = error != KAFKA_ERROR_NONE;
}

/* ---- DeleteRecords ------------------------------------------------------------------------------------------------------- */

/* The brokers' own topics: nobody deletes records of them by hand. */
static bool is_internal(struct base_slice name)
{
    static const char *const names[] = {"__consumer_offsets", "__transaction_state", "__share_group_state"};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(names); i++) {
        if (base_slice_equal(base_slice_text(names[i]), name)) { return true; }
    }
    return false;
}

static int16_t deletion_error(const struct broker *broker, const struct request *request,
                              const struct metadata_topic *topic, struct base_slice name, int32_t index)
{
    if (topic != NULL && is_internal(name)) { return KAFKA_ERROR_INVALID_TOPIC_EXCEPTION; }
    int16_t error = request_partition_error(broker, request, topic, index);
    if (error != KAFKA_ERROR_NONE) { return error; }
    int64_t policy = metadata_number(broker->image, topic, METADATA_CLEANUP_POLICY);
    return (policy & METADATA_CLEANUP_DELETE) != 0 ? KAFKA_ERROR_NONE : KAFKA_ERROR_POLICY_VIOLATION;
}

void delete_records_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_delete_records_request *asked = request->decoded;
    uint32_t count = 0;
    for (int32_t t = 0; t < asked->topics_count; t++) { count += (uint32_t)asked->topics[t].partitions_count; }
    if (!request_take_parts(broker, request, count)) { return; }
    uint32_t at = 0;
    for (int32_t t = 0; t < asked->topics_count; t++) {
        struct base_slice name = kafka_text_slice(asked->topics[t].name);
        const struct metadata_topic *topic = metadata_topic_by_name(broker->image, name);
        for (int32_t p = 0; p < asked->topics[t].partitions_count; p++) {
            struct part *part = &request->parts[at++];
            int32_t index = asked->topics[t].partitions[p].partition_index;
            part->log_start = -1;
            take_error(part, deletion_error(broker, request, topic, name, index));
            if (part->is_answered) { continue; }
            part_place(broker, part, topic, index);
            (void)parts_supersede(broker, request, topic, at - 1); /* the earlier one is not answered: that is all */
            part->ask_offset = asked->topics[t].partitions[p].offset;
        }
    }
    request_ask(broker, request, out);
}

void delete_records_answered(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_delete_records_request *asked = request->decoded;
    size_t bytes =
        sizeof(struct kafka_delete_records_response) + 64 +
        (size_t)asked->topics_count * (sizeof(struct kafka_delete_records_response_delete_records_topic_result) + 16) +
        request->part_count * sizeof(struct kafka_delete_records_response_delete_records_partition_result);
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_PARTS);
        return;
    }
    struct kafka_delete_records_response *answer = answer_take(request, sizeof *answer);
    kafka_delete_records_response_init(answer);
    answer->topics =
        kafka_delete_records_response_delete_records_topic_result_take(&request->arena, asked->topics_count);
    uint32_t at = 0;
    for (int32_t t = 0; t < asked->topics_count; t++) {
        struct kafka_delete_records_response_delete_records_topic_result *topic = &answer->topics[answer->topics_count];
        int32_t count = asked->topics[t].partitions_count;
        topic->name = asked->topics[t].name;
        topic->partitions = kafka_delete_records_response_delete_records_partition_result_take(&request->arena, count);
        for (int32_t p = 0; p < count; p++, at++) {
            if (request->parts[at].is_superseded) { continue; }
            struct kafka_delete_records_response_delete_records_partition_result *line =
                &topic->partitions[topic->partitions_count];
            topic->partitions_count += 1;
            line->partition_index = asked->topics[t].partitions[p].partition_index;
            line->error_code = request->parts[at].error;
            line->low_watermark = request->parts[at].log_start;
        }
        if (topic->partitions_count > 0) { answer->topics_count += 1; } /* as Kafka, which groups by topic */
    }
    request_answer(broker, request, answer, out);
}

/* ---- OffsetForLeaderEpoch ------------------------------------------------------------------------------------------------ */

void epochs_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_offset_for_leader_epoch_request *asked = request->decoded;
    uint32_t count = 0;
    for (int32_t t = 0; t < asked->topics_count; t++) { count += (uint32_t)asked->topics[t].partitions_count; }
    if (!request_take_parts(broker, request, count)) { return; }
    uint32_t at = 0;
    for (int32_t t = 0; t < asked->topics_count; t++) {
        const struct kafka_offset_for_leader_epoch_request_offset_for_leader_topic *data = &asked->topics[t];
        const struct metadata_topic *topic = metadata_topic_by_name(broker->image, kafka_text_slice(data->topic));
        for (int32_t p = 0; p < data->partitions_count; p++) {
            struct part *part = &request->parts[at++];
            part->leader_epoch = -1;
            part->offset = -1;
            take_error(part, request_partition_error(broker, request, topic, data->partitions[p].partition));
            if (part->is_answered) { continue; }
            part_place(broker, part, topic, data->partitions[p].partition);
            part->ask_offset = data->partitions[p].leader_epoch;
            part->ask_epoch = data->partitions[p].current_leader_epoch;
        }
    }
    request_ask(broker, request, out);
}

void epochs_answered(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_offset_for_leader_epoch_request *asked = request->decoded;
    size_t bytes = sizeof(struct kafka_offset_for_leader_epoch_response) + 64 +
                   (size_t)asked->topics_count *
                       (sizeof(struct kafka_offset_for_leader_epoch_response_offset_for_leader_topic_result) + 16) +
                   request->part_count * sizeof(struct kafka_offset_for_leader_epoch_response_epoch_end_offset);
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_PARTS);
        return;
    }
    struct kafka_offset_for_leader_epoch_response *answer = answer_take(request, sizeof *answer);
    kafka_offset_for_leader_epoch_response_init(answer);
    answer->topics = kafka_offset_for_leader_epoch_response_offset_for_leader_topic_result_take(&request->arena,
                                                                                                asked->topics_count);
    answer->topics_count = asked->topics_count;
    uint32_t at = 0;
    for (int32_t t = 0; t < asked->topics_count; t++) {
        struct kafka_offset_for_leader_epoch_response_offset_for_leader_topic_result *topic = &answer->topics[t];
        topic->topic = asked->topics[t].topic;
        topic->partitions_count = asked->topics[t].partitions_count;
        topic->partitions =
            kafka_offset_for_leader_epoch_response_epoch_end_offset_take(&request->arena, topic->partitions_count);
        for (int32_t p = 0; p < topic->partitions_count; p++, at++) {
            topic->partitions[p].partition = asked->topics[t].partitions[p].partition;
            topic->partitions[p].error_code = request->parts[at].error;
            topic->partitions[p].leader_epoch = request->parts[at].leader_epoch;
            topic->partitions[p].end_offset = request->parts[at].offset;
        }
    }
    request_answer(broker, request, answer, out);
}

/* ---- DescribeProducers --------------------------------------------------------------------------------------------------- */

#define PRODUCERS_FIRST 16

/* Memory for the producers of a partition. False: there is none now; the request starves. */
static bool take_page(struct broker *broker, struct request *request, struct part *part, uint32_t max,
                      enum request_retry retry)
{
    size_t bytes = sizeof(struct producers_page) + max * sizeof(struct plog_producer) + 32;
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, retry);
        return false;
    }
    part->page = base_arena_take(&request->arena, sizeof *part->page);
    CHECK(part->page != NULL);
    *part->page =
        (struct producers_page){.at = base_arena_take_array(&request->arena, max, sizeof(struct plog_producer)),
                                .max = max};
    CHECK(part->page->at != NULL);
    return true;
}

void producers_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_describe_producers_request *asked = request->decoded;
    uint32_t count = 0;
    for (int32_t t = 0; t < asked->topics_count; t++) { count += (uint32_t)asked->topics[t].partition_indexes_count; }
    if (!request_take_parts(broker, request, count)) { return; }
    uint32_t at = 0;
    for (int32_t t = 0; t < asked->topics_count; t++) {
        struct base_slice name = kafka_text_slice(asked->topics[t].name);
        const struct metadata_topic *topic = metadata_topic_by_name(broker->image, name);
        bool is_valid = controller_check_topic_name(name, NULL) == 0;
        for (int32_t p = 0; p < asked->topics[t].partition_indexes_count; p++) {
            struct part *part = &request->parts[at++];
            part->topic_index = (uint32_t)t;
            int32_t index = asked->topics[t].partition_indexes[p];
            take_error(part, is_valid ? request_partition_error(broker, request, topic, index)
                                      : KAFKA_ERROR_INVALID_TOPIC_EXCEPTION);
            if (part->is_answered) { continue; }
            part_place(broker, part, topic, index);
            if (!take_page(broker, request, part, PRODUCERS_FIRST, RETRY_DECODE)) { return; }
        }
    }
    request_ask(broker, request, out);
}

/* Some pages were too small: those are asked once more. False: none was, or the request starves. */
static bool ask_again(struct broker *broker, struct request *request, struct port_out *out)
{
    bool is_again = false;
    for (uint32_t i = 0; i < request->part_count; i++) {
        struct part *part = &request->parts[i];
        if (part->error != KAFKA_ERROR_NONE || part->page->count <= part->page->max) { continue; }
        if (!take_page(broker, request, part, 2 * part->page->count, RETRY_PARTS)) { return true; }
        part->is_answered = false;
        is_again = true;
    }
    if (is_again) { request_ask(broker, request, out); }
    return is_again;
}

typedef struct kafka_describe_producers_response_partition_response described_part;

static void fill_producers(struct broker *broker, struct request *request, const struct part *part,
                           described_part *line)
{
    const struct kafka_describe_producers_request *asked = request->decoded;
    struct base_slice name = kafka_text_slice(asked->topics[part->topic_index].name);
    line->error_code = part->error;
    if (part->error == KAFKA_ERROR_INVALID_TOPIC_EXCEPTION) {
        struct base_text words;
        base_text_init(&words, answer_take(request, ANSWER_WORDS_MAX), ANSWER_WORDS_MAX);
        (void)controller_check_topic_name(name, &words); /* its words */
        line->error_message = kafka_text_of_slice(base_text_slice(&words));
    } else if (part->error != KAFKA_ERROR_NONE && metadata_topic_by_name(broker->image, name) == NULL) {
        line->error_message = kafka_text_words("This server does not host this topic-partition.");
    }
    if (part->error != KAFKA_ERROR_NONE) { return; }
    line->active_producers =
        kafka_describe_producers_response_producer_state_take(&request->arena, (int32_t)part->page->count);
    CHECK(line->active_producers != NULL);
    line->active_producers_count = (int32_t)part->page->count;
    for (uint32_t i = 0; i < part->page->count; i++) {
        const struct plog_producer *producer = &part->page->at[i];
        line->active_producers[i].producer_id = producer->id;
        line->active_producers[i].producer_epoch = producer->epoch;
        line->active_producers[i].last_sequence = producer->sequence_last;
        line->active_producers[i].last_timestamp = producer->timestamp_ms;
        line->active_producers[i].coordinator_epoch = -1; /* no transactions yet */
        line->active_producers[i].current_txn_start_offset = -1;
    }
}

void producers_answered(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_describe_producers_request *asked = request->decoded;
    if (ask_again(broker, request, out)) { return; }
    size_t bytes =
        sizeof(struct kafka_describe_producers_response) + 64 +
        (size_t)asked->topics_count * (sizeof(struct kafka_describe_producers_response_topic_response) + 16) +
        request->part_count * (sizeof(described_part) + 16);
    for (uint32_t i = 0; i < request->part_count; i++) {
        const struct part *part = &request->parts[i];
        if (part->error == KAFKA_ERROR_INVALID_TOPIC_EXCEPTION) { bytes += ANSWER_WORDS_MAX + 16; }
        if (part->error != KAFKA_ERROR_NONE) { continue; }
        bytes += part->page->count * sizeof(struct kafka_describe_producers_response_producer_state) + 16;
    }
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_PARTS);
        return;
    }
    struct kafka_describe_producers_response *answer = answer_take(request, sizeof *answer);
    kafka_describe_producers_response_init(answer);
    answer->topics = kafka_describe_producers_response_topic_response_take(&request->arena, asked->topics_count);
    answer->topics_count = asked->topics_count;
    uint32_t at = 0;
    for (int32_t t = 0; t < asked->topics_count; t++) {
        struct kafka_describe_producers_response_topic_response *topic = &answer->topics[t];
        topic->name = asked->topics[t].name;
        topic->partitions_count = asked->topics[t].partition_indexes_count;
        topic->partitions =
            kafka_describe_producers_response_partition_response_take(&request->arena, topic->partitions_count);
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            topic->partitions[p].partition_index = asked->topics[t].partition_indexes[p];
            fill_producers(broker, request, &request->parts[at++], &topic->partitions[p]);
        }
    }
    request_answer(broker, request, answer, out);
}

/* ---- DescribeLogDirs ------------------------------------------------------------------------------------------------------- */

/* What a request for sizes keeps: the names of its topics, which may be gone when the sizes are there. */
struct sized_topic {
    struct kafka_text name;
    uint32_t part_first;
    uint32_t part_count;
};

static bool is_wanted(const uint8_t *marks, const struct metadata_partition *partition)
{
    return marks == NULL || (marks[partition->slot / 8] & (1u << partition->slot % 8)) != 0;
}

/* The partitions that are named, as bits by their slot: a partition named twice is told of once. NULL: all. */
static uint8_t *mark_named(struct broker *broker, struct request *request)
{
    const struct kafka_describe_log_dirs_request *asked = request->decoded;
    if (asked->topics_count < 0) { return NULL; }
    uint8_t *marks = base_arena_take_array(&request->arena, broker->config.partitions_max / 8 + 1, 1);
    CHECK(marks != NULL);
    for (int32_t t = 0; t < asked->topics_count; t++) {
        const struct metadata_topic *topic =
            metadata_topic_by_name(broker->image, kafka_text_slice(asked->topics[t].topic));
        for (int32_t p = 0; topic != NULL && p < asked->topics[t].partitions_count; p++) {
            const struct metadata_partition *partition =
                metadata_partition(broker->image, topic, asked->topics[t].partitions[p]);
            if (partition == NULL) { continue; }
            marks[partition->slot / 8] = (uint8_t)(marks[partition->slot / 8] | 1u << partition->slot % 8);
        }
    }
    return marks;
}

static uint32_t count_wanted(const struct broker *broker, const struct metadata_topic *topic, const uint8_t *marks)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < topic->partitions_count; i++) {
        count += is_wanted(marks, metadata_partition(broker->image, topic, (int32_t)i)) ? 1 : 0;
    }
    return count;
}

static void fill_sized(struct broker *broker, struct request *request, const uint8_t *marks, struct sized_topic *sized)
{
    uint32_t at = 0;
    for (uint32_t rank = 0; rank < metadata_topics_count(broker->image); rank++) {
        const struct metadata_topic *topic = metadata_topic_at(broker->image, rank);
        uint32_t count = count_wanted(broker, topic, marks);
        if (count == 0) { continue; }
        uint8_t *name = base_arena_take_bytes(&request->arena, topic->name_bytes);
        CHECK(name != NULL);
        memcpy(name, topic->name, topic->name_bytes);
        *sized =
            (struct sized_topic){.name = kafka_text_of(name, topic->name_bytes), .part_first = at, .part_count = count};
        sized += 1;
        for (uint32_t i = 0; i < topic->partitions_count; i++) {
            if (!is_wanted(marks, metadata_partition(broker->image, topic, (int32_t)i))) { continue; }
            part_place(broker, &request->parts[at], topic, (int32_t)i);
            at += 1;
        }
    }
}

void log_dirs_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    if (!request_reserve(broker, request, broker->config.partitions_max / 8 + 64)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    const uint8_t *marks = mark_named(broker, request);
    uint32_t parts = 0;
    uint32_t topics = 0;
    for (uint32_t rank = 0; rank < metadata_topics_count(broker->image); rank++) {
        uint32_t count = count_wanted(broker, metadata_topic_at(broker->image, rank), marks);
        topics += count > 0 ? 1 : 0;
        parts += count;
    }
    if (!request_take_parts(broker, request, parts)) { return; }
    if (!request_reserve(broker, request, topics * (sizeof(struct sized_topic) + METADATA_TOPIC_NAME_MAX) + 64)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    request->sized = base_arena_take_array(&request->arena, topics, sizeof *request->sized);
    request->sized_count = topics;
    CHECK(request->sized != NULL);
    fill_sized(broker, request, marks, request->sized);
    request_ask(broker, request, out);
}

typedef struct kafka_describe_log_dirs_response_describe_log_dirs_topic sized_line;
typedef struct kafka_describe_log_dirs_response_describe_log_dirs_partition sized_part;

static void fill_sizes(struct request *request, const struct sized_topic *sized, sized_line *line)
{
    line->name = sized->name;
    line->partitions =
        kafka_describe_log_dirs_response_describe_log_dirs_partition_take(&request->arena, (int32_t)sized->part_count);
    CHECK(line->partitions != NULL);
    for (uint32_t i = 0; i < sized->part_count; i++) {
        const struct part *part = &request->parts[sized->part_first + i];
        if (part->error != KAFKA_ERROR_NONE) { continue; } /* deleted in between */
        line->partitions[line->partitions_count].partition_index = part->id.index;
        line->partitions[line->partitions_count].partition_size = (int64_t)part->size_bytes;
        line->partitions_count += 1;
    }
}

/* The disk is asked when the sizes are there, for the versions that say so (KIP-827). It counts as one more part. */
static void ask_space(struct broker *broker, struct request *request, struct port_out *out)
{
    uint32_t slot = base_pool_index(&broker->requests, request);
    (void)port_emit(out, PORT_SPACE, FRONT_TOKEN_ROOM << 56 | slot); /* of the one disk there is */
    request->parts_open = 1;
}

void log_dirs_answered(struct broker *broker, struct request *request, struct port_out *out)
{
    if (request->version >= 4 && !request->is_space_known && !broker->is_disk_failed) {
        ask_space(broker, request, out);
        return;
    }
    size_t bytes = sizeof(struct kafka_describe_log_dirs_response) +
                   sizeof(struct kafka_describe_log_dirs_response_describe_log_dirs_result) + 128 +
                   request->sized_count * (sizeof(sized_line) + 16) + request->part_count * sizeof(sized_part);
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_PARTS);
        return;
    }
    struct kafka_describe_log_dirs_response *answer = answer_take(request, sizeof *answer);
    kafka_describe_log_dirs_response_init(answer);
    answer->results = kafka_describe_log_dirs_response_describe_log_dirs_result_take(&request->arena, 1);
    CHECK(answer->results != NULL);
    answer->results_count = 1;
    struct kafka_describe_log_dirs_response_describe_log_dirs_result *directory = &answer->results[0];
    directory->log_dir = kafka_text_of_slice(metadata_broker_value(broker->image, base_slice_text("log.dirs")));
    if (directory->log_dir.size_bytes <= 0) {
        directory->log_dir = kafka_text_words("log");
    } /* a world without names */
    if (broker->is_disk_failed) {
        directory->error_code = KAFKA_ERROR_KAFKA_STORAGE_ERROR;
        request_answer(broker, request, answer, out);
        return;
    }
    directory->topics =
        kafka_describe_log_dirs_response_describe_log_dirs_topic_take(&request->arena, (int32_t)request->sized_count);
    CHECK(directory->topics != NULL);
    if (request->version >= 4) {
        directory->total_bytes = request->space_total_bytes;
        directory->usable_bytes = request->space_usable_bytes;
    }
    for (uint32_t i = 0; i < request->sized_count; i++) {
        sized_line *line = &directory->topics[directory->topics_count];
        fill_sizes(request, &request->sized[i], line);
        if (line->partitions_count > 0) { directory->topics_count += 1; }
    }
    request_answer(broker, request, answer, out);
}
