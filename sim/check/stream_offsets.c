/* stream_offsets.c: see stream.h. The first and the last offset of a log, as ListOffsets tells them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "stream__parts.h"

#include <inttypes.h>

#include "wire/kafka/kafka.h"
#include "wire/kafka/list_offsets.h"

enum { LATEST = -1, EARLIEST = -2 };

/* The one that has that name now; NULL: none, or it goes, or is not well. */
static const struct stream_log *find_log(const struct check_stream *stream, struct kafka_text topic, int32_t index)
{
    for (uint32_t i = 0; i < stream->log_count; i++) {
        const struct stream_log *log = &stream->logs[i];
        if (!log->is_seen || log->may_go || log->is_hurt || log->id.index != index) { continue; }
        if (base_slice_equal(base_slice_text(log->name), kafka_text_slice(topic))) { return log; }
    }
    return NULL;
}

void stream__offsets_asked(struct check_stream *stream, struct base_slice body, struct stream_question *question)
{
    struct base_arena arena;
    base_arena_init(&arena, stream->scratch, STREAM_SCRATCH_BYTES);
    struct kafka_list_offsets_request request;
    kafka_list_offsets_request_init(&request);
    if (kafka_list_offsets_request_decode(body, question->version, &arena, &request) != BASE_OK) { return; }
    for (int32_t t = 0; t < request.topics_count; t++) {
        for (int32_t p = 0; p < request.topics[t].partitions_count && question->wanted_count < STREAM_WANTED; p++) {
            const struct kafka_list_offsets_request_list_offsets_partition *asked = &request.topics[t].partitions[p];
            const struct stream_log *log = find_log(stream, request.topics[t].name, asked->partition_index);
            if (log == NULL) { continue; }
            question->wanted[question->wanted_count++] = (struct stream_wanted){.id = log->id,
                                                                                .offset = asked->timestamp,
                                                                                .offset_start = log->offset_start,
                                                                                .watermark = log->watermark_now};
        }
    }
}

static void judge_offset(struct check_stream *stream, const struct stream_log *log, const struct stream_wanted *wanted,
                         int64_t offset)
{
    bool is_latest = wanted->offset == LATEST;
    if (!is_latest && wanted->offset != EARLIEST) { return; }
    int64_t from = is_latest ? wanted->watermark : wanted->offset_start;
    int64_t to = is_latest ? log->synced_end : base_max_i64(log->offset_start, log->start_named);
    if (offset >= from && offset <= to) { return; }
    check_breach(stream->report, "I23",
                 "the %s offset of %s-%" PRId32 " was from %" PRId64 " to %" PRId64 ", and the answer is %" PRId64,
                 is_latest ? "latest" : "earliest", log->name, log->id.index, from, to, offset);
}

void stream__offsets_answered(struct check_stream *stream, const struct stream_question *question,
                              struct base_slice body)
{
    struct base_arena arena;
    base_arena_init(&arena, stream->scratch, STREAM_SCRATCH_BYTES);
    struct kafka_list_offsets_response response;
    kafka_list_offsets_response_init(&response);
    if (question->version < 1) { return; } /* its answers are lists */
    if (kafka_list_offsets_response_decode(body, question->version, &arena, &response) != BASE_OK) { return; }
    for (int32_t t = 0; t < response.topics_count; t++) {
        for (int32_t p = 0; p < response.topics[t].partitions_count; p++) {
            const struct kafka_list_offsets_response_list_offsets_partition_response *part =
                &response.topics[t].partitions[p];
            const struct stream_log *log = find_log(stream, response.topics[t].name, part->partition_index);
            for (uint32_t i = 0; log != NULL && part->error_code == 0 && i < question->wanted_count; i++) {
                if (!base_part_equal(question->wanted[i].id, log->id)) { continue; }
                judge_offset(stream, log, &question->wanted[i], part->offset);
            }
        }
    }
}
