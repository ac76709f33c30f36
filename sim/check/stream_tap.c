/* stream_tap.c: see stream.h. What was asked and answered: frames put together again on each connection.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "stream__parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "wire/kafka/delete_records.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/header.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/produce.h"

#define FRAME_BYTES_MAX ((size_t)8 << 20)

static struct stream_conn *find_conn(const struct check_stream *stream, uint32_t shard, struct port_conn id)
{
    for (uint32_t i = 0; i < stream->conn_count; i++) {
        struct stream_conn *conn = &stream->conns[i];
        if (conn->is_used && conn->shard == shard && port_conn_equal(conn->id, id)) { return conn; }
    }
    return NULL;
}

static struct stream_conn *need_conn(struct check_stream *stream, uint32_t shard, struct port_conn id)
{
    struct stream_conn *conn = find_conn(stream, shard, id);
    if (conn != NULL) { return conn; }
    uint32_t at = 0;
    while (at < stream->conn_count && stream->conns[at].is_used) { at += 1; }
    if (at == stream->conn_count) {
        stream->conns = check__grow(stream->conns, stream->conn_count, &stream->conn_room, sizeof *stream->conns);
        stream->conn_count += 1;
    }
    conn = &stream->conns[at];
    struct stream_conn old = *conn; /* its buffers serve again */
    *conn = (struct stream_conn){.shard = shard,
                                 .number = ++stream->conn_last,
                                 .id = id,
                                 .is_used = true,
                                 .asked = old.asked,
                                 .answered = old.answered,
                                 .questions = old.questions,
                                 .question_room = old.question_room};
    conn->asked.used_bytes = conn->answered.used_bytes = 0;
    return conn;
}

static void add_bytes(struct stream_bytes *bytes, const uint8_t *at, size_t size_bytes)
{
    size_t needed = bytes->used_bytes + size_bytes;
    if (needed > bytes->room_bytes) {
        bytes->room_bytes = needed * 2 < 4096 ? 4096 : needed * 2;
        bytes->at = realloc(bytes->at, bytes->room_bytes);
        CHECK(bytes->at != NULL);
    }
    if (at == NULL) {
        memset(bytes->at + bytes->used_bytes, 0, size_bytes);
    } else if (size_bytes > 0) {
        memcpy(bytes->at + bytes->used_bytes, at, size_bytes);
    }
    bytes->used_bytes = needed;
}

/* The next whole frame after `from`, without its size. False: none yet, or (is_bad_out) never. */
static bool next_frame(const struct stream_bytes *bytes, size_t *from, struct base_slice *frame_out, bool *is_bad_out)
{
    if (bytes->used_bytes - *from < 4) { return false; }
    uint32_t size_bytes = base_get_u32(bytes->at + *from);
    *is_bad_out = size_bytes > FRAME_BYTES_MAX;
    if (*is_bad_out || bytes->used_bytes - *from - 4 < size_bytes) { return false; }
    *frame_out = base_slice_of(bytes->at + *from + 4, size_bytes);
    *from += 4 + (size_t)size_bytes;
    return true;
}

static void drop_front(struct stream_bytes *bytes, size_t count)
{
    if (count == 0) { return; }
    memmove(bytes->at, bytes->at + count, bytes->used_bytes - count);
    bytes->used_bytes -= count;
}

static void scratch_arena(struct check_stream *stream, struct base_arena *arena)
{
    base_arena_init(arena, stream->scratch, STREAM_SCRATCH_BYTES);
}

/* ---- questions ---- */

static void note_deletes(struct check_stream *stream, struct base_slice body, int16_t version)
{
    struct base_arena arena;
    scratch_arena(stream, &arena);
    struct kafka_delete_topics_request request;
    kafka_delete_topics_request_init(&request);
    if (kafka_delete_topics_request_decode(body, version, &arena, &request) != BASE_OK) { return; }
    for (uint32_t i = 0; i < stream->log_count; i++) {
        struct base_slice name = base_slice_text(stream->logs[i].name);
        for (int32_t t = 0; t < request.topics_count; t++) {
            if (base_slice_equal(kafka_text_slice(request.topics[t].name), name)) {
                stream__may_go(stream, &stream->logs[i]);
            }
        }
        for (int32_t t = 0; t < request.topic_names_count; t++) {
            if (base_slice_equal(kafka_text_slice(request.topic_names[t]), name)) {
                stream__may_go(stream, &stream->logs[i]);
            }
        }
    }
    for (int32_t t = 0; t < request.topics_count; t++) { check_stream_deleting(stream, request.topics[t].topic_id); }
}

/* How far their starts may go from now on, whatever retention says. Where the watermark is meant it is one that is still to come. */
static void note_trims(struct check_stream *stream, struct base_slice body, int16_t version)
{
    struct base_arena arena;
    scratch_arena(stream, &arena);
    struct kafka_delete_records_request request;
    kafka_delete_records_request_init(&request);
    if (kafka_delete_records_request_decode(body, version, &arena, &request) != BASE_OK) { return; }
    for (int32_t t = 0; t < request.topics_count; t++) {
        for (int32_t p = 0; p < request.topics[t].partitions_count; p++) {
            const struct kafka_delete_records_request_delete_records_partition *asked =
                &request.topics[t].partitions[p];
            int64_t to = asked->offset < 0 ? INT64_MAX : asked->offset;
            for (uint32_t i = 0; i < stream->log_count; i++) {
                struct stream_log *log = &stream->logs[i];
                bool is_it = log->id.index == asked->partition_index &&
                             base_slice_equal(kafka_text_slice(request.topics[t].name), base_slice_text(log->name));
                if (is_it) { log->start_asked = base_max_i64(log->start_asked, to); }
            }
        }
    }
}

static void take_question(struct check_stream *stream, struct stream_conn *conn, struct base_slice frame)
{
    struct kafka_request_header header;
    struct base_slice body;
    if (kafka_request_open(frame, &header, &body) != BASE_OK) {
        conn->is_ignored = true;
        return;
    }
    struct stream_question question = {.correlation = header.correlation_id,
                                       .api_key = header.request_api_key,
                                       .version = header.request_api_version,
                                       .acks = 0};
    bool is_known = kafka_api_has_version(question.api_key, question.version);
    if (is_known && question.api_key == 20) { note_deletes(stream, body, question.version); }
    if (is_known && question.api_key == KAFKA_API_DELETE_RECORDS) { note_trims(stream, body, question.version); }
    if (is_known) { stream__told_asked(stream, question.api_key, question.version, body); }
    if (is_known && question.api_key == 1) { stream__fetch_asked(stream, body, &question); }
    if (is_known && question.api_key == 2) { stream__offsets_asked(stream, body, &question); }
    if (is_known && question.api_key == 0) {
        struct base_arena arena;
        scratch_arena(stream, &arena);
        struct kafka_produce_request request;
        kafka_produce_request_init(&request);
        if (kafka_produce_request_decode(body, question.version, &arena, &request) != BASE_OK) {
            conn->is_ignored = true;
            return;
        }
        stream__order_asked(stream, conn, &request);
        if (request.acks == 0) { /* no answer comes */
            conn->is_silent = true;
            return;
        }
        question.acks = request.acks;
    }
    question.is_after_silent = conn->is_silent;
    conn->is_silent = false;
    conn->questions = check__grow(conn->questions, conn->question_count, &conn->question_room, sizeof *conn->questions);
    conn->questions[conn->question_count++] = question;
}

void stream__tap_received(struct check_stream *stream, uint32_t shard, struct port_conn id, struct base_slice bytes)
{
    if (bytes.size_bytes == 0) { return; }
    struct stream_conn *conn = need_conn(stream, shard, id);
    if (conn->is_ignored) { return; }
    add_bytes(&conn->asked, bytes.at, bytes.size_bytes);
    size_t from = 0;
    struct base_slice frame;
    bool is_bad = false;
    while (!conn->is_ignored && next_frame(&conn->asked, &from, &frame, &is_bad)) {
        take_question(stream, conn, frame);
    }
    if (is_bad) { conn->is_ignored = true; }
    drop_front(&conn->asked, from);
}

/* ---- answers ---- */

static void judge_acknowledged(struct check_stream *stream, const struct stream_log *log, int64_t offset)
{
    if (offset < 0 || offset >= log->synced_end) {
        check_breach(stream->report, "I19",
                     "offset %" PRId64 " of %s-%" PRId32 " is acknowledged, and the journal is synced up to %" PRId64,
                     offset, log->name, log->id.index, log->synced_end);
        return;
    }
    if (!log->is_page_cache || log->flush_messages == 0 || offset < log->recovered_end) { return; }
    int64_t durable_end = stream__durable_end(stream, log);
    if (offset - durable_end + 1 < log->flush_messages) { return; }
    check_breach(stream->report, "I19",
                 "offset %" PRId64 " of %s-%" PRId32 " is acknowledged, whose flush.messages is %" PRId64
                 ", and its segments are synced up to %" PRId64,
                 offset, log->name, log->id.index, log->flush_messages, durable_end);
}

/* With acks=1: somebody asked for its bytes to be written, and its offset is told. */
static void judge_written(struct check_stream *stream, struct base_uuid topic, int32_t index, int64_t offset)
{
    struct base_part id = {.topic = topic, .index = index};
    const struct stream_log *log = stream__find_log(stream, id); /* NULL: or it is named, in an old version */
    bool is_known = log != NULL && !log->may_go;
    int64_t end = is_known ? base_max_i64(stream__asked_end(stream, log), log->synced_end) : INT64_MAX;
    if (offset >= 0 && offset < end) { return; }
    check_breach(stream->report, "I19",
                 "offset %" PRId64 " of partition %" PRId32
                 " is acknowledged as written, and nobody was asked to write it",
                 offset, index);
}

static void judge_produced(struct check_stream *stream, struct base_slice body, int16_t version, int16_t acks)
{
    struct base_arena arena;
    scratch_arena(stream, &arena);
    struct kafka_produce_response response;
    kafka_produce_response_init(&response);
    if (kafka_produce_response_decode(body, version, &arena, &response) != BASE_OK) { return; }
    for (int32_t t = 0; t < response.responses_count; t++) {
        const struct kafka_produce_response_topic_produce_response *topic = &response.responses[t];
        if (base_uuid_is_none(topic->topic_id) && acks == -1) { continue; } /* an old version: by name */
        for (int32_t p = 0; p < topic->partition_responses_count; p++) {
            const struct kafka_produce_response_partition_produce_response *part = &topic->partition_responses[p];
            if (part->error_code != 0) { continue; }
            if (acks == 1) { judge_written(stream, topic->topic_id, part->index, part->base_offset); }
            if (acks != -1) { continue; }
            struct base_part id = {.topic = topic->topic_id, .index = part->index};
            const struct stream_log *log = stream__log(stream, id);
            stream->counts.acks_judged += 1;
            judge_acknowledged(stream, log, part->base_offset);
        }
    }
}

/* Whoever waits for records of these topics learns of it now. */
static void note_deleted(struct check_stream *stream, struct base_slice body, int16_t version)
{
    struct base_arena arena;
    scratch_arena(stream, &arena);
    struct kafka_delete_topics_response response;
    kafka_delete_topics_response_init(&response);
    if (kafka_delete_topics_response_decode(body, version, &arena, &response) != BASE_OK) { return; }
    for (int32_t t = 0; t < response.responses_count; t++) {
        const struct base_uuid id = response.responses[t].topic_id;
        if (response.responses[t].error_code != 0 || base_uuid_is_none(id)) { continue; }
        for (uint32_t i = 0; i < stream->log_count; i++) {
            if (base_uuid_equal(stream->logs[i].id.topic, id)) { stream->logs[i].gone_ns = stream->now_ns; }
        }
    }
}

static void take_answer(struct check_stream *stream, struct stream_conn *conn, struct base_slice frame)
{
    if (frame.size_bytes < 4 || conn->question_first == conn->question_count) {
        conn->is_ignored = true;
        return;
    }
    struct stream_question question = conn->questions[conn->question_first++];
    if (conn->question_first == conn->question_count) { conn->question_first = conn->question_count = 0; }
    if ((int32_t)base_get_u32(frame.at) != question.correlation) {
        check_breach(stream->report, "I23", "the answer to question %" PRId32 " (api %d) is one to %" PRId32,
                     question.correlation, question.api_key, (int32_t)base_get_u32(frame.at));
        conn->is_ignored = true;
        stream__session_free(stream, question.fetch, false);
        return;
    }
    stream__fetch_ended(stream, &question, conn->answered_ns);
    conn->answered_ns = stream->now_ns;
    if (question.api_key >= 0 && question.api_key < CHECK_APIS) { stream->counts.answers[question.api_key] += 1; }
    bool is_acknowledged = question.api_key == 0 && (question.acks == -1 || question.acks == 1);
    bool is_of_offsets = question.api_key == 2 && question.wanted_count > 0;
    bool is_of_topics =
        question.api_key == KAFKA_API_METADATA || question.api_key == KAFKA_API_DESCRIBE_TOPIC_PARTITIONS;
    bool is_other = question.api_key != 1 && question.api_key != 20 && !is_of_topics;
    if (!is_acknowledged && !is_of_offsets && is_other) { return; }
    int32_t correlation;
    struct base_slice body;
    if (kafka_response_open(frame, question.api_key, question.version, &correlation, &body) != BASE_OK) {
        stream__session_free(stream, question.fetch, true);
        return;
    }
    if (is_of_topics) { stream__told_answered(stream, question.api_key, question.version, body); }
    if (is_acknowledged) { judge_produced(stream, body, question.version, question.acks); }
    if (question.api_key == 1) {
        stream__fetch_answered(stream, &question, body);
        stream__session_free(stream, question.fetch, true);
    }
    if (is_of_offsets) { stream__offsets_answered(stream, &question, body); }
    if (question.api_key == 20) { note_deleted(stream, body, question.version); }
}

void stream__tap_sent(struct check_stream *stream, uint32_t shard, const struct port_effect *send)
{
    struct stream_conn *conn = find_conn(stream, shard, send->conn);
    if (conn == NULL || conn->is_ignored) { return; }
    for (uint32_t i = 0; i < send->piece_count; i++) {
        const struct port_piece *piece = &send->pieces[i];
        add_bytes(&conn->answered, piece->kind == PORT_MEMORY ? piece->at : NULL, (size_t)piece->size_bytes);
    }
    size_t from = 0;
    struct base_slice frame;
    bool is_bad = false;
    while (!conn->is_ignored && next_frame(&conn->answered, &from, &frame, &is_bad)) {
        take_answer(stream, conn, frame);
    }
    if (is_bad) { conn->is_ignored = true; }
    drop_front(&conn->answered, from);
}

/* Those that are never answered. */
static void drop_questions(struct check_stream *stream, struct stream_conn *conn)
{
    for (uint32_t i = conn->question_first; i < conn->question_count; i++) {
        stream__session_free(stream, conn->questions[i].fetch, false);
    }
    conn->question_first = conn->question_count = 0;
}

/* Who sends no more is answered what it asked for, and made to wait for nothing. */
void stream__tap_ended(struct check_stream *stream, uint32_t shard, struct port_conn id)
{
    struct stream_conn *conn = find_conn(stream, shard, id);
    if (conn == NULL) { return; }
    for (uint32_t i = conn->question_first; i < conn->question_count; i++) {
        struct stream_question *question = &conn->questions[i];
        uint64_t waited_ns = base_max_u64(stream->now_ns - question->asked_ns, 1);
        if (question->wait_ns > 0) { question->wait_ns = base_min_u64(question->wait_ns, waited_ns); }
    }
}

void stream__tap_closed(struct check_stream *stream, uint32_t shard, struct port_conn id)
{
    struct stream_conn *conn = find_conn(stream, shard, id);
    if (conn == NULL) { return; }
    bool is_any_left = conn->question_first < conn->question_count && !conn->is_ignored;
    if (is_any_left) { stream__fetch_ended(stream, &conn->questions[conn->question_first], conn->answered_ns); }
    drop_questions(stream, conn);
    conn->is_used = false;
}

void stream__tap_crash(struct check_stream *stream)
{
    for (uint32_t i = 0; i < stream->conn_count; i++) {
        if (stream->conns[i].is_used) { drop_questions(stream, &stream->conns[i]); }
        stream->conns[i].is_used = false;
    }
    stream__session_crash(stream);
}

void stream__tap_free(struct check_stream *stream)
{
    for (uint32_t i = 0; i < stream->conn_count; i++) {
        if (stream->conns[i].is_used) { drop_questions(stream, &stream->conns[i]); }
        free(stream->conns[i].asked.at);
        free(stream->conns[i].answered.at);
        free(stream->conns[i].questions);
    }
    free(stream->conns);
    free(stream->sent);
    free(stream->wishes);
}
