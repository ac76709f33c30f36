/* broker__produce.c: Produce: split over the shards of its partitions, joined again, answered as acks asks.
 *
 *   acks=0   no answer, and a failure closes the connection (Kafka's rule: the client has no other way to learn of it)
 *   acks=1   answered once every partition has said written, or failed
 *   acks=-1  answered once every partition has said synced, or failed
 * The frame's bytes are lent to the backs until their last answer, whatever was answered to the client before.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/produce.h"

/* What can be judged without the partition's shard. */
static int16_t part_error(const struct broker *broker, const struct request *request,
                          const struct metadata_topic *topic,
                          const struct kafka_produce_request_partition_produce_data *data)
{
    int16_t error = request_partition_error(broker, request, topic, data->index);
    if (error != KAFKA_ERROR_NONE) { return error; }
    if (data->records.size_bytes <= 0) { return KAFKA_ERROR_INVALID_RECORD; }
    if (request->version < 7 && data->records.size_bytes >= REC_HEADER_BYTES &&
        (data->records.at[REC_ATTRIBUTES_AT + 1] & REC_ATTRIBUTE_CODEC_MASK) == CODEC_ZSTD) {
        return KAFKA_ERROR_UNSUPPORTED_COMPRESSION_TYPE; /* KIP-110: its readers may be as old as it */
    }
    return KAFKA_ERROR_NONE;
}

/* Topics and partitions that stand in the request more than once, as Kafka sees them: one topic, and the last of one partition. */
struct repeats {
    struct base_map topics;
    struct base_map parts;
    uint64_t seed;
};

static size_t repeats_bytes(const struct kafka_produce_request *produce, uint32_t count)
{
    return base_map_bytes((uint32_t)produce->topic_data_count) + base_map_bytes(count) + 64;
}

static void repeats_init(struct broker *broker, struct request *request, uint32_t count, struct repeats *repeats)
{
    const struct kafka_produce_request *produce = request->decoded;
    repeats->seed = broker->session_seed;
    enum base_rc rc = base_map_create(&request->arena, (uint32_t)produce->topic_data_count, &repeats->topics);
    if (rc == BASE_OK) { rc = base_map_create(&request->arena, count, &repeats->parts); }
    CHECK(rc == BASE_OK); /* its room was reserved */
}

/* The first topic of the request with the name, or the id, of topic t. */
static uint32_t first_of(const struct request *request, struct repeats *repeats, uint32_t t)
{
    const struct kafka_produce_request_topic_produce_data *topics =
        ((const struct kafka_produce_request *)request->decoded)->topic_data;
    struct base_slice key = kafka_text_slice(topics[t].name);
    if (request->version >= 13) { key = base_slice_of(topics[t].topic_id.b, sizeof topics[t].topic_id.b); }
    uint64_t hash = base_hash_bytes(key.at, key.size_bytes, repeats->seed);
    const struct base_map *map = &repeats->topics;
    for (uint32_t at = base_map_first(map, hash); at != BASE_MAP_NONE; at = base_map_next(map, hash, at)) {
        const struct kafka_produce_request_topic_produce_data *before = &topics[base_map_value(map, at)];
        bool is_it = request->version >= 13
                         ? base_uuid_equal(before->topic_id, topics[t].topic_id)
                         : base_slice_equal(kafka_text_slice(before->name), kafka_text_slice(topics[t].name));
        if (is_it) { return base_map_value(map, at); }
    }
    enum base_rc rc = base_map_insert(&repeats->topics, hash, t);
    CHECK(rc == BASE_OK); /* it was made for all of them */
    return t;
}

static int32_t partition_of(const struct request *request, const struct part *part)
{
    const struct kafka_produce_request *produce = request->decoded;
    return produce->topic_data[part->topic_index].partition_data[part->partition_index].index;
}

/* An earlier part of the same partition counts no more, and is not answered. */
static void supersede(struct request *request, struct repeats *repeats, uint32_t index)
{
    const struct part *part = &request->parts[index];
    uint64_t key = (uint64_t)part->first_topic << 32 | (uint32_t)partition_of(request, part);
    uint64_t hash = base_hash_u64(base_hash_u64(key ^ repeats->seed) + repeats->seed);
    const struct base_map *map = &repeats->parts;
    for (uint32_t at = base_map_first(map, hash); at != BASE_MAP_NONE; at = base_map_next(map, hash, at)) {
        struct part *before = &request->parts[base_map_value(map, at)];
        if (before->is_superseded || before->first_topic != part->first_topic ||
            partition_of(request, before) != partition_of(request, part)) {
            continue;
        }
        before->is_superseded = true;
        before->is_answered = true;
        before->error = KAFKA_ERROR_NONE;
        base_map_remove(&repeats->parts, hash, base_map_value(map, at));
        break;
    }
    enum base_rc rc = base_map_insert(&repeats->parts, hash, index);
    CHECK(rc == BASE_OK); /* it was made for all of them */
}

static void fill_parts(struct broker *broker, struct request *request, const struct kafka_produce_request *produce)
{
    struct repeats repeats;
    bool may_repeat = request->part_count > 1 || produce->topic_data_count > 1;
    if (may_repeat) { repeats_init(broker, request, request->part_count, &repeats); }
    uint32_t at = 0;
    for (int32_t t = 0; t < produce->topic_data_count; t++) {
        const struct kafka_produce_request_topic_produce_data *data = &produce->topic_data[t];
        const struct metadata_topic *topic = request_topic(broker, request, data->name, data->topic_id);
        uint32_t first_topic = may_repeat ? first_of(request, &repeats, (uint32_t)t) : 0;
        for (int32_t p = 0; p < data->partition_data_count; p++) {
            const struct kafka_produce_request_partition_produce_data *partition = &data->partition_data[p];
            struct part *part = &request->parts[at++];
            part->topic_index = (uint32_t)t;
            part->first_topic = first_topic;
            part->partition_index = (uint32_t)p;
            part->bad_record_index = -1;
            part->offset = -1;
            part->timestamp_ms = -1;
            part->log_start = -1;
            part->error = part_error(broker, request, topic, partition);
            if (may_repeat) { supersede(request, &repeats, at - 1); }
            if (part->error != KAFKA_ERROR_NONE) {
                part->is_answered = true;
                continue;
            }
            part_place(broker, part, topic, partition->index);
            /* The frame is the request's own, and may be written to until it is released. */
            part->batch = request->frame + (partition->records.at - request->frame);
            part->batch_bytes = (uint32_t)partition->records.size_bytes;
        }
    }
}

/* `passes_missing`: of a partition that is not there its own error is told. */
static void answer_all(struct broker *broker, struct request *request, int16_t error, bool passes_missing,
                       struct port_out *out)
{
    for (uint32_t i = 0; i < request->part_count; i++) {
        struct part *part = &request->parts[i];
        bool is_missing = part->is_answered && request_error_is_missing(part->error);
        part->is_answered = true;
        if (!is_missing || !passes_missing) { part->error = error; }
    }
    produce_answered(broker, request, out);
}

/* A batch of a transaction. Who names one and sends none of its batches is not asked about it, as in Kafka. */
static bool has_transactional(const struct kafka_produce_request *produce)
{
    for (int32_t t = 0; t < produce->topic_data_count; t++) {
        for (int32_t p = 0; p < produce->topic_data[t].partition_data_count; p++) {
            const struct kafka_records *records = &produce->topic_data[t].partition_data[p].records;
            if (records->size_bytes < REC_HEADER_BYTES) { continue; }
            if ((records->at[REC_ATTRIBUTES_AT + 1] & REC_ATTRIBUTE_TRANSACTIONAL) != 0) { return true; }
        }
    }
    return false;
}

void produce_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_produce_request *produce = request->decoded;
    uint32_t count = 0;
    for (int32_t t = 0; t < produce->topic_data_count; t++) {
        count += (uint32_t)produce->topic_data[t].partition_data_count;
    }
    if (!request_reserve(broker, request, repeats_bytes(produce, count) + count * sizeof(struct part) + 64)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    if (!request_take_parts(broker, request, count)) { return; }
    fill_parts(broker, request, produce);
    if (produce->acks < -1 || produce->acks > 1) {
        answer_all(broker, request, KAFKA_ERROR_INVALID_REQUIRED_ACKS, true, out);
        return;
    }
    if (has_transactional(produce)) { /* no transactions yet */
        bool is_named = !kafka_text_is_null(produce->transactional_id);
        answer_all(broker, request,
                   is_named ? KAFKA_ERROR_INVALID_TXN_STATE : KAFKA_ERROR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, false,
                   out);
        return;
    }
    if (produce->acks == 1) {
        for (uint32_t i = 0; i < count; i++) { request->parts_unwritten += request->parts[i].is_answered ? 0 : 1; }
        request->wants_written = request->parts_unwritten > 0;
    }
    request_ask(broker, request, out);
}

/* ---- the answer ---------------------------------------------------------------------------------------------------------- */

static void fill_partition(struct request *request, struct part *part,
                           struct kafka_produce_response_partition_produce_response *answer)
{
    answer->index = partition_of(request, part);
    answer->error_code = part->error;
    answer->base_offset = part->error == KAFKA_ERROR_NONE ? part->offset : -1;
    answer->log_append_time_ms = part->timestamp_ms;
    answer->log_start_offset = part->log_start;
    if (part->error == KAFKA_ERROR_NONE || part->verdict == REC_OK) { return; }
    answer->error_message = kafka_text_words(rec_verdict_text((enum rec_verdict)part->verdict));
    /* As in Kafka, one record is named where others could do without it, not where the batch can't be read. */
    bool is_of_record = part->verdict == REC_BAD_TIMESTAMP || part->verdict == REC_KEY_MISSING;
    if (part->bad_record_index < 0 || !is_of_record) { return; }
    answer->record_errors = kafka_produce_response_batch_index_and_error_message_take(&request->arena, 1);
    answer->record_errors_count = 1;
    answer->record_errors[0].batch_index = part->bad_record_index;
}

/* What build_answer takes at most. */
static size_t answer_bytes(const struct request *request, const struct kafka_produce_request *produce)
{
    size_t part_bytes = sizeof(struct kafka_produce_response_partition_produce_response) +
                        sizeof(struct kafka_produce_response_batch_index_and_error_message) + 16;
    size_t topic_bytes = sizeof(struct kafka_produce_response_topic_produce_response) + 16;
    return sizeof(struct kafka_produce_response) + (size_t)produce->topic_data_count * topic_bytes +
           request->part_count * part_bytes + (size_t)produce->topic_data_count * sizeof(int32_t) + 128;
}

static struct kafka_produce_response *build_answer(struct request *request)
{
    const struct kafka_produce_request *produce = request->decoded;
    struct kafka_produce_response *answer = base_arena_take(&request->arena, sizeof *answer);
    size_t topics_count = (size_t)produce->topic_data_count;
    int32_t *counts = base_arena_take_array(&request->arena, topics_count, sizeof *counts);
    kafka_produce_response_init(answer);
    answer->responses = kafka_produce_response_topic_produce_response_take(&request->arena, produce->topic_data_count);
    struct kafka_produce_response_partition_produce_response *lines =
        kafka_produce_response_partition_produce_response_take(&request->arena, (int32_t)request->part_count);
    CHECK(counts != NULL && answer->responses != NULL && lines != NULL); /* they were reserved */
    for (uint32_t i = 0; i < request->part_count; i++) {
        if (!request->parts[i].is_superseded) { counts[request->parts[i].first_topic] += 1; }
    }
    for (int32_t t = 0; t < produce->topic_data_count; t++) { /* one without partitions is not answered, as in Kafka */
        if (counts[t] == 0) { continue; }
        struct kafka_produce_response_topic_produce_response *topic = &answer->responses[answer->responses_count];
        topic->name = produce->topic_data[t].name;
        topic->topic_id = produce->topic_data[t].topic_id;
        topic->partition_responses = lines;
        lines += counts[t];
        counts[t] = answer->responses_count; /* where it stands */
        answer->responses_count += 1;
    }
    for (uint32_t i = 0; i < request->part_count; i++) {
        struct part *part = &request->parts[i];
        if (part->is_superseded) { continue; }
        struct kafka_produce_response_topic_produce_response *topic = &answer->responses[counts[part->first_topic]];
        fill_partition(request, part, &topic->partition_responses[topic->partition_responses_count]);
        topic->partition_responses_count += 1;
    }
    return answer;
}

static bool has_failure(const struct request *request)
{
    for (uint32_t i = 0; i < request->part_count; i++) {
        if (request->parts[i].error != KAFKA_ERROR_NONE) { return true; }
    }
    return false;
}

/* Every partition has answered for the last time, or (acks=1) has at least said written. */
void produce_answered(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_produce_request *produce = request->decoded;
    if (produce->acks == 0) {
        if (has_failure(request)) {
            broker->counters.requests_closed += 1;
            request_answer_end(broker, request, out);
        } else {
            count_answer(broker, request);
            request_answer_none(broker, request, out);
        }
        return;
    }
    if (!request_reserve(broker, request, answer_bytes(request, produce))) {
        request_starve(broker, request, RETRY_PARTS);
        return;
    }
    request_answer(broker, request, build_answer(request), out);
}

void produce_written(struct broker *broker, struct request *request, uint32_t index, const struct port_message *message,
                     struct port_out *out)
{
    struct part *part = &request->parts[index];
    CHECK(!part->is_answered && !part->is_written);
    part->is_written = true;
    part->offset = (int64_t)message->words[2];
    part->timestamp_ms = (int64_t)message->words[3];
    part->log_start = (int64_t)message->words[4];
    CHECK(request->parts_unwritten > 0);
    request->parts_unwritten -= 1;
    if (request->parts_unwritten == 0 && request->state == REQUEST_WAITING) { produce_answered(broker, request, out); }
}
