/* stream_fetch.c: see stream.h. What a fetch asks for, how long it waits, and what its answer says beside the records.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "stream__parts.h"

#include <inttypes.h>

#include "wire/kafka/fetch.h"
#include "wire/kafka/kafka.h"

#define TOO_SOON_NS UINT64_C(1000000) /* shards read the clock one after another */

static struct stream_wanted want(const struct check_stream *stream, struct base_part id, int64_t offset,
                                 int32_t bytes_max)
{
    const struct stream_log *log = stream__find_log(stream, id);
    bool is_known = log != NULL && log->is_seen;
    return (struct stream_wanted){.id = id,
                                  .offset = offset,
                                  .bytes_max = bytes_max,
                                  .offset_start = is_known ? log->offset_start : 0,
                                  .watermark = is_known ? log->watermark_now : 0};
}

/* Which partitions it names, with what its session follows besides. False: too many to be judged one by one. */
static bool add_wanted(const struct check_stream *stream, const struct kafka_fetch_request *request,
                       struct stream_question *question, uint32_t *count_out)
{
    uint32_t count = 0;
    for (int32_t t = 0; t < request->topics_count; t++) {
        for (int32_t p = 0; p < request->topics[t].partitions_count; p++) {
            if (count == STREAM_WANTED) { return false; }
            const struct kafka_fetch_request_fetch_partition *asked = &request->topics[t].partitions[p];
            struct base_part id = {.topic = request->topics[t].topic_id, .index = asked->partition};
            question->wanted[count] = want(stream, id, asked->fetch_offset, asked->partition_max_bytes);
            question->wanted[count].is_named = true;
            for (uint32_t i = 0; i < count; i++) { /* twice: who knows which counts */
                if (!base_part_equal(question->wanted[i].id, id)) { continue; }
                question->wanted[i].is_named = question->wanted[count].is_named = false;
                question->wanted[i].bytes_max = question->wanted[count].bytes_max = -1;
            }
            count += 1;
        }
    }
    if (question->fetch != NULL) {
        struct stream_followed others[STREAM_WANTED];
        uint32_t more = stream__session_others(stream, question->fetch, others, STREAM_WANTED - count);
        if (more == UINT32_MAX) { return false; }
        for (uint32_t i = 0; i < more; i++) {
            question->wanted[count++] = want(stream, others[i].id, others[i].offset, others[i].bytes_max);
        }
    }
    *count_out = count;
    return true;
}

/* The partitions of one that asks for many, or by names (before version 13), are not judged. */
void stream__fetch_asked(struct check_stream *stream, struct base_slice body, struct stream_question *question)
{
    struct base_arena arena;
    base_arena_init(&arena, stream->scratch, STREAM_SCRATCH_BYTES);
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    if (kafka_fetch_request_decode(body, question->version, &arena, &request) != BASE_OK) { return; }
    question->fetch = stream__session_asked(stream, &request, question->version);
    question->min_bytes = request.min_bytes;
    question->max_bytes = request.max_bytes;
    for (int32_t t = 0; t < request.topics_count; t++) {
        question->has_any = question->has_any || request.topics[t].partitions_count > 0;
    }
    uint32_t count = 0;
    bool is_by_id = question->version >= 13;
    if (is_by_id && add_wanted(stream, &request, question, &count)) { question->wanted_count = count; }
    question->has_any = question->has_any || question->wanted_count > 0;
    question->asked_ns = stream->now_ns;
    question->late_ns = stream->late_ns;
    if (request.max_wait_ms <= 0 || !question->has_any) { return; }
    question->wait_ns = (uint64_t)request.max_wait_ms * 1000000;
}

/* ---- how long it waits ---- */

/* Since when there is something at or after that offset, or the log is gone; UINT64_MAX: there is nothing, or it was there before
 * all we know, or it may be less than what is asked for. */
static uint64_t there_since(const struct check_stream *stream, const struct stream_question *question,
                            const struct stream_wanted *wanted)
{
    const struct stream_log *log = stream__find_log(stream, wanted->id);
    if (log == NULL) { return UINT64_MAX; }
    /* One that is missing when a fetch begins ends nothing before its time; it may be so before its deletion is answered. */
    if (log->may_go) { return log->gone_ns > 0 && question->asked_ns < log->going_ns ? log->gone_ns : UINT64_MAX; }
    if (question->min_bytes > 1) { return UINT64_MAX; }
    uint64_t since = UINT64_MAX;
    uint64_t oldest = log->mark_count > STREAM_MARKS ? log->mark_count - STREAM_MARKS : 0;
    for (uint64_t at = log->mark_count; at-- > oldest;) {
        const struct stream_mark *mark = &log->marks[at % STREAM_MARKS];
        if (mark->watermark <= wanted->offset) { break; }
        since = mark->at_ns;
    }
    return since;
}

/* From when on its records can be told: they are there, and the host had a handle for each try to open their segment. While it has
 * none the broker tries again and again, for no longer than the fetch would wait for records; from the last try that was refused
 * on it has as long as from the first record. */
static uint64_t readable_since(const struct check_stream *stream, const struct stream_question *question,
                               const struct stream_wanted *wanted)
{
    uint64_t since = there_since(stream, question, wanted);
    if (since == UINT64_MAX) { return since; }
    since = base_max_u64(since, question->asked_ns);
    const struct stream_log *log = stream__find_log(stream, wanted->id);
    bool is_late = stream->now_ns > since && stream->now_ns - since > question->late_ns;
    if (!is_late || log->may_go) { return since; }
    return base_max_u64(since, stream__refused_ns(stream, log));
}

void stream__fetch_ended(struct check_stream *stream, const struct stream_question *question, uint64_t before_ns)
{
    if (question->wait_ns == 0 || question->late_ns == UINT64_MAX) { return; }
    uint64_t due_ns = base_deadline_ns(question->asked_ns, question->wait_ns);
    const struct stream_wanted *by = NULL;
    for (uint32_t i = 0; i < question->wanted_count; i++) {
        uint64_t since = readable_since(stream, question, &question->wanted[i]);
        if (since >= due_ns) { continue; }
        due_ns = since;
        by = &question->wanted[i];
    }
    due_ns = base_max_u64(due_ns, before_ns);
    if (question->is_after_silent) { due_ns = base_max_u64(due_ns, stream__any_refused_ns(stream)); }
    if (stream->now_ns <= due_ns || stream->now_ns - due_ns <= question->late_ns) { return; }
    uint64_t late_ms = (stream->now_ns - due_ns) / 1000000;
    if (by == NULL) {
        check_breach(stream->report, "I21", "a fetch is answered %" PRIu64 " ms after its time was over", late_ms);
        return;
    }
    const struct stream_log *log = stream__log(stream, by->id);
    if (log->gone_ns > 0) {
        check_breach(stream->report, "I21", "a fetch is answered %" PRIu64 " ms after %s-%" PRId32 " was deleted",
                     late_ms, log->name, by->id.index);
        return;
    }
    check_breach(stream->report, "I21",
                 "a fetch is answered %" PRIu64 " ms after there was something at offset %" PRId64 " of %s-%" PRId32,
                 late_ms, by->offset, log->name, by->id.index);
}

/* ---- what the answer says ---- */

static const struct stream_wanted *find_wanted(const struct stream_question *question, struct base_uuid topic,
                                               int32_t index)
{
    for (uint32_t i = 0; i < question->wanted_count; i++) {
        const struct stream_wanted *wanted = &question->wanted[i];
        if (wanted->id.index == index && base_uuid_equal(wanted->id.topic, topic)) { return wanted; }
    }
    return NULL;
}

static void judge_part(struct check_stream *stream, const struct stream_wanted *wanted,
                       const struct kafka_fetch_response_partition_data *part)
{
    const struct stream_log *log = stream__find_log(stream, wanted->id);
    if (log == NULL || !log->is_seen || log->may_go || log->is_hurt) { return; }
    if (part->error_code == KAFKA_ERROR_OFFSET_OUT_OF_RANGE) {
        /* The start may move between the look and the answer, and be named before it is seen. */
        bool is_inside = wanted->is_named && wanted->offset >= base_max_i64(log->offset_start, log->start_named) &&
                         wanted->offset <= wanted->watermark;
        if (!is_inside) { return; }
        check_breach(stream->report, "I23",
                     "offset %" PRId64 " of %s-%" PRId32 " is called out of range, and it has from %" PRId64
                     " to %" PRId64,
                     wanted->offset, log->name, wanted->id.index, log->offset_start, wanted->watermark);
    }
    if (part->error_code != KAFKA_ERROR_NONE) { return; }
    if (part->high_watermark > log->synced_end || part->high_watermark < wanted->watermark) {
        check_breach(stream->report, "I3",
                     "a fetch says that the watermark of %s-%" PRId32 " is %" PRId64 ", and it was from %" PRId64
                     " to %" PRId64,
                     log->name, wanted->id.index, part->high_watermark, wanted->watermark, log->synced_end);
    }
    bool is_start_right = part->log_start_offset >= wanted->offset_start &&
                          part->log_start_offset <= base_max_i64(log->offset_start, log->start_named);
    if (!is_start_right) {
        check_breach(stream->report, "I23",
                     "a fetch says that %s-%" PRId32 " begins at %" PRId64 ", and it began from %" PRId64
                     " to %" PRId64,
                     log->name, wanted->id.index, part->log_start_offset, wanted->offset_start, log->offset_start);
    }
}

/* What it holds: KIP-74 lets one batch be larger than what was asked for, so that who asks for little moves on. */
struct held {
    int64_t bytes;
    uint32_t parts; /* that have some */
    bool has_error;
};

static void judge_bytes(struct check_stream *stream, const struct stream_wanted *wanted, const struct held *held,
                        const struct kafka_fetch_response_partition_data *part)
{
    int64_t bytes = (int64_t)part->records.size_bytes;
    bool is_first = held->parts == 0;
    if (wanted == NULL || wanted->bytes_max < 0 || is_first || bytes <= wanted->bytes_max) { return; }
    check_breach(stream->report, "I23",
                 "a fetch is given %" PRId64 " bytes of partition %" PRId32 ", behind others, and asked for %" PRId32
                 " at most",
                 bytes, part->partition_index, wanted->bytes_max);
}

static struct held judge_parts(struct check_stream *stream, const struct stream_question *question,
                               const struct kafka_fetch_response *response)
{
    struct held held = {.has_error = response->error_code != KAFKA_ERROR_NONE};
    for (int32_t t = 0; t < response->responses_count; t++) {
        const struct kafka_fetch_response_fetchable_topic_response *topic = &response->responses[t];
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            const struct kafka_fetch_response_partition_data *part = &topic->partitions[p];
            const struct stream_wanted *wanted = find_wanted(question, topic->topic_id, part->partition_index);
            if (wanted != NULL) { judge_part(stream, wanted, part); }
            judge_bytes(stream, wanted, &held, part);
            if (question->version >= 4 && part->last_stable_offset != part->high_watermark) {
                check_breach(stream->report, "I23",
                             "a fetch says that partition %" PRId32 " is stable up to %" PRId64
                             ", its watermark is %" PRId64 ", and there are no transactions",
                             part->partition_index, part->last_stable_offset, part->high_watermark);
            }
            held.has_error = held.has_error || part->error_code != KAFKA_ERROR_NONE;
            held.bytes += (int64_t)part->records.size_bytes;
            held.parts += part->records.size_bytes > 0 ? 1 : 0;
        }
    }
    return held;
}

/* An error of one partition ends the waiting for all. */
static void judge_waited(struct check_stream *stream, const struct stream_question *question, const struct held *held)
{
    uint64_t due_ns = base_deadline_ns(question->asked_ns, question->wait_ns);
    if (held->has_error || question->wait_ns == 0 || stream->is_stopping) { return; }
    int64_t enough = base_min_i64(question->min_bytes, base_min_i64(question->max_bytes, stream->fetch_bytes_max));
    if (held->bytes >= enough || stream->now_ns + TOO_SOON_NS >= due_ns) { return; }
    check_breach(stream->report, "I21",
                 "a fetch for %" PRId64 " bytes or more is answered with %" PRId64 ", %" PRIu64
                 " ms before its time is over",
                 enough, held->bytes, (due_ns - stream->now_ns) / 1000000);
}

void stream__fetch_answered(struct check_stream *stream, const struct stream_question *question, struct base_slice body)
{
    if (!question->has_any && question->fetch == NULL) { return; }
    struct base_arena arena;
    base_arena_init(&arena, stream->scratch, STREAM_SCRATCH_BYTES);
    struct kafka_fetch_response response;
    kafka_fetch_response_init(&response);
    if (kafka_fetch_response_decode(body, question->version, &arena, &response) != BASE_OK) { return; }
    if (question->fetch != NULL) { stream__session_answered(stream, question->fetch, &response); }
    if (!question->has_any) { return; }
    struct held held = judge_parts(stream, question, &response);
    int64_t bytes_max = base_max_i64(0, base_min_i64(question->max_bytes, stream->fetch_bytes_max));
    if (held.bytes > bytes_max && held.parts > 1) {
        check_breach(stream->report, "I23",
                     "a fetch is given %" PRId64 " bytes of %" PRIu32 " partitions, and %" PRId64 " are the most",
                     held.bytes, held.parts, bytes_max);
    }
    judge_waited(stream, question, &held);
}
