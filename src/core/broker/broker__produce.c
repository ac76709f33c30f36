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

static void fill_parts(struct broker *broker, struct request *request, const struct kafka_produce_request *produce)
{
    uint32_t at = 0;
    for (int32_t t = 0; t < produce->topic_data_count; t++) {
        const struct kafka_produce_request_topic_produce_data *data = &produce->topic_data[t];
        const struct metadata_topic *topic = request_topic(broker, request, data->name, data->topic_id);
        for (int32_t p = 0; p < data->partition_data_count; p++) {
            const struct kafka_produce_request_partition_produce_data *partition = &data->partition_data[p];
            struct part *part = &request->parts[at++];
            part->topic_index = (uint32_t)t;
            part->partition_index = (uint32_t)p;
            part->bad_record_index = -1;
            part->offset = -1;
            part->timestamp_ms = -1;
            part->log_start = -1;
            part->error = part_error(broker, request, topic, partition);
            if (part->error != KAFKA_ERROR_NONE) {
                part->is_answered = true;
                continue;
            }
            part_place(broker, part, topic, partition->index);
            parts_supersede(broker, request, topic, at - 1);
            /* The frame is the request's own, and may be written to until it is released. */
            part->batch = request->frame + (partition->records.at - request->frame);
            part->batch_bytes = (uint32_t)partition->records.size_bytes;
        }
    }
}

static void answer_all(struct broker *broker, struct request *request, int16_t error, struct port_out *out)
{
    for (uint32_t i = 0; i < request->part_count; i++) {
        request->parts[i].is_answered = true;
        request->parts[i].error = error;
    }
    produce_answered(broker, request, out);
}

/* A batch of a transaction, in a request that names none. */
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
    if (!request_take_parts(broker, request, count)) { return; }
    fill_parts(broker, request, produce);
    if (produce->acks < -1 || produce->acks > 1) {
        answer_all(broker, request, KAFKA_ERROR_INVALID_REQUIRED_ACKS, out);
        return;
    }
    if (kafka_text_is_null(produce->transactional_id) && has_transactional(produce)) {
        answer_all(broker, request, KAFKA_ERROR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, out);
        return;
    }
    if (!kafka_text_is_null(produce->transactional_id)) {
        answer_all(broker, request, KAFKA_ERROR_INVALID_TXN_STATE, out);
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
    const struct kafka_produce_request *produce = request->decoded;
    answer->index = produce->topic_data[part->topic_index].partition_data[part->partition_index].index;
    answer->error_code = part->error;
    answer->base_offset = part->error == KAFKA_ERROR_NONE ? part->offset : -1;
    answer->log_append_time_ms = part->timestamp_ms;
    answer->log_start_offset = part->log_start;
    if (part->error == KAFKA_ERROR_NONE || part->verdict == REC_OK) { return; }
    answer->error_message = kafka_text_words(rec_verdict_text((enum rec_verdict)part->verdict));
    if (part->bad_record_index < 0) { return; }
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
           request->part_count * part_bytes + 64;
}

static struct kafka_produce_response *build_answer(struct request *request)
{
    const struct kafka_produce_request *produce = request->decoded;
    struct kafka_produce_response *answer = base_arena_take(&request->arena, sizeof *answer);
    kafka_produce_response_init(answer);
    answer->responses = kafka_produce_response_topic_produce_response_take(&request->arena, produce->topic_data_count);
    answer->responses_count = 0;
    uint32_t at = 0;
    for (int32_t t = 0; t < produce->topic_data_count; t++) {
        const struct kafka_produce_request_topic_produce_data *data = &produce->topic_data[t];
        struct kafka_produce_response_topic_produce_response *topic = &answer->responses[answer->responses_count];
        topic->name = data->name;
        topic->topic_id = data->topic_id;
        topic->partition_responses =
            kafka_produce_response_partition_produce_response_take(&request->arena, data->partition_data_count);
        for (int32_t p = 0; p < data->partition_data_count; p++) {
            struct part *part = &request->parts[at++];
            if (part->is_superseded) { continue; }
            fill_partition(request, part, &topic->partition_responses[topic->partition_responses_count]);
            topic->partition_responses_count += 1;
        }
        if (topic->partition_responses_count > 0) {
            answer->responses_count += 1;
        } /* as Kafka, which groups by topic */
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
        if (has_failure(request)) { conn_close_after_answers(broker->conns, request->conn, out); }
        request_answer_none(broker, request, out);
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
