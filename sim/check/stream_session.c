/* stream_session.c: see stream.h. Fetch sessions as their clients may believe in them: what each follows, and what it was told of it.
 *
 * A model of each session, folded from the requests and answers that pass, by topic id only (version 13 on). It is given up where it
 * can't be known what the broker took: two fetches of one session at once, a connection that ended before the answer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "stream__parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "wire/kafka/fetch.h"
#include "wire/kafka/kafka.h"

#define BY_ID_FIRST     13
#define ERROR_NOT_FOUND 70 /* FETCH_SESSION_ID_NOT_FOUND */
#define ERROR_BAD_EPOCH 71 /* INVALID_FETCH_SESSION_EPOCH */
#define EPOCH_FULL      0
#define EPOCH_FINAL     (-1)

static struct stream_session *find_session(const struct check_stream *stream, int32_t id)
{
    for (uint32_t i = 0; id != 0 && i < stream->session_count; i++) {
        if (stream->sessions[i].is_used && stream->sessions[i].id == id) { return &stream->sessions[i]; }
    }
    return NULL;
}

static struct stream_session *new_session(struct check_stream *stream, int32_t id)
{
    uint32_t at = 0;
    while (at < stream->session_count && stream->sessions[at].is_used) { at += 1; }
    if (at == stream->session_count) {
        stream->sessions =
            check__grow(stream->sessions, stream->session_count, &stream->session_room, sizeof *stream->sessions);
        stream->session_count += 1;
        stream->sessions[at] = (struct stream_session){.followed = NULL};
    }
    struct stream_session *session = &stream->sessions[at];
    session->is_used = true;
    session->id = id;
    session->epoch = 1;
    session->count = 0;
    return session;
}

static struct stream_followed *find_followed(const struct stream_session *session, struct base_part id)
{
    for (uint32_t i = 0; i < session->count; i++) {
        if (base_part_equal(session->followed[i].id, id)) { return &session->followed[i]; }
    }
    return NULL;
}

static struct stream_followed *need_followed(struct stream_session *session, struct base_part id)
{
    struct stream_followed *followed = find_followed(session, id);
    if (followed != NULL) { return followed; }
    session->followed = check__grow(session->followed, session->count, &session->room, sizeof *session->followed);
    session->followed[session->count] = (struct stream_followed){.id = id, .watermark = -1, .log_start = -1};
    session->count += 1;
    return &session->followed[session->count - 1];
}

/* As it is asked for. */
static void follow(struct stream_session *session, const struct stream_followed *item)
{
    struct stream_followed *followed = need_followed(session, item->id);
    followed->offset = item->offset;
    followed->bytes_max = item->bytes_max;
}

static void forget_followed(struct stream_session *session, struct base_part id)
{
    struct stream_followed *followed = find_followed(session, id);
    if (followed == NULL) { return; }
    session->count -= 1;
    *followed = session->followed[session->count];
}

/* ---- what is asked ---- */

static void add_items(const struct kafka_fetch_request *request, struct stream_fetch *fetch)
{
    for (int32_t t = 0; t < request->topics_count; t++) {
        for (int32_t p = 0; p < request->topics[t].partitions_count; p++) {
            fetch->items = check__grow(fetch->items, fetch->item_count, &fetch->item_room, sizeof *fetch->items);
            fetch->items[fetch->item_count++] =
                (struct stream_followed){.id = {.topic = request->topics[t].topic_id,
                                                .index = request->topics[t].partitions[p].partition},
                                         .offset = request->topics[t].partitions[p].fetch_offset,
                                         .bytes_max = request->topics[t].partitions[p].partition_max_bytes};
        }
    }
    for (int32_t t = 0; t < request->forgotten_topics_data_count; t++) {
        const struct kafka_fetch_request_forgotten_topic *topic = &request->forgotten_topics_data[t];
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            fetch->gone = check__grow(fetch->gone, fetch->gone_count, &fetch->gone_room, sizeof *fetch->gone);
            fetch->gone[fetch->gone_count++] =
                (struct base_part){.topic = topic->topic_id, .index = topic->partitions[p]};
        }
    }
}

struct stream_fetch *stream__session_asked(struct check_stream *stream, const struct kafka_fetch_request *request,
                                           int16_t version)
{
    bool is_full = request->session_epoch == EPOCH_FULL || request->session_epoch == EPOCH_FINAL;
    struct stream_session *session = find_session(stream, request->session_id);
    /* It is over, or the broker will say that it is none by name, or two go on with it at once. */
    bool is_lost = session != NULL && (is_full || version < BY_ID_FIRST || session->asked_count > 0);
    if (is_lost) { session->is_used = false; }
    if (version < BY_ID_FIRST || request->session_epoch == EPOCH_FINAL) { return NULL; }
    struct stream_fetch *fetch = calloc(1, sizeof *fetch);
    CHECK(fetch != NULL);
    fetch->session = request->session_id;
    fetch->epoch = request->session_epoch;
    fetch->asked_ns = stream->now_ns;
    add_items(request, fetch);
    if (!is_full && session != NULL && session->is_used) {
        session->asked_count += 1;
        fetch->is_counted = true;
    }
    return fetch;
}

/* What the session follows beside what the request names: that is waited for, too. */
uint32_t stream__session_others(const struct check_stream *stream, const struct stream_fetch *fetch,
                                struct stream_followed *others_out, uint32_t others_max)
{
    const struct stream_session *session = find_session(stream, fetch->session);
    if (session == NULL || fetch->epoch != session->epoch) { return 0; }
    uint32_t count = 0;
    for (uint32_t i = 0; i < session->count; i++) {
        bool is_other = true;
        for (uint32_t j = 0; j < fetch->item_count; j++) {
            is_other = is_other && !base_part_equal(fetch->items[j].id, session->followed[i].id);
        }
        for (uint32_t j = 0; j < fetch->gone_count; j++) {
            is_other = is_other && !base_part_equal(fetch->gone[j], session->followed[i].id);
        }
        if (!is_other) { continue; }
        if (count == others_max) { return UINT32_MAX; }
        others_out[count++] = session->followed[i];
    }
    return count;
}

void stream__session_free(struct check_stream *stream, struct stream_fetch *fetch, bool is_answered)
{
    if (fetch == NULL) { return; }
    struct stream_session *session = find_session(stream, fetch->session);
    if (session != NULL && fetch->is_counted) {
        session->asked_count -= session->asked_count > 0 ? 1 : 0;
        if (!is_answered) { session->is_used = false; } /* was it taken? */
    }
    free(fetch->items);
    free(fetch->gone);
    free(fetch);
}

/* ---- what is answered ---- */

static void note_told(struct stream_session *session, const struct kafka_fetch_response *answer, bool is_opening,
                      struct check_report *report)
{
    for (int32_t t = 0; t < answer->responses_count; t++) {
        const struct kafka_fetch_response_fetchable_topic_response *topic = &answer->responses[t];
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            const struct kafka_fetch_response_partition_data *data = &topic->partitions[p];
            struct base_part id = {.topic = topic->topic_id, .index = data->partition_index};
            struct stream_followed *followed = find_followed(session, id);
            if (followed == NULL) {
                check_breach(report, "I23",
                             "fetch session %" PRId32 " tells of partition %" PRId32 ", which it does not follow%s",
                             session->id, id.index, is_opening ? " from the beginning" : "");
                continue;
            }
            followed->is_told = true;
            followed->error = data->error_code;
            followed->watermark = data->error_code == 0 ? data->high_watermark : -1;
            followed->log_start = data->log_start_offset;
        }
    }
}

/* The watermark that the log had before that time; -1: not known. */
static int64_t watermark_before(const struct stream_log *log, uint64_t at_ns)
{
    uint64_t oldest = log->mark_count > STREAM_MARKS ? log->mark_count - STREAM_MARKS : 0;
    for (uint64_t at = log->mark_count; at-- > oldest;) {
        const struct stream_mark *mark = &log->marks[at % STREAM_MARKS];
        if (mark->at_ns < at_ns) { return mark->watermark; }
    }
    return -1;
}

/* What was already so when the fetch came must have been seen by it. */
static void judge_left_out(struct check_stream *stream, const struct stream_session *session,
                           const struct stream_fetch *fetch, const struct stream_followed *followed)
{
    const struct stream_log *log = stream__find_log(stream, followed->id);
    if (followed->error != 0) {
        check_breach(stream->report, "I23",
                     "fetch session %" PRId32 " leaves out partition %" PRId32
                     ", of which it told error %d: has it ended?",
                     session->id, followed->id.index, (int)followed->error);
        return;
    }
    if (log == NULL || log->may_go || !log->is_seen || stream->is_rotten || stream->counts.errors > 0) { return; }
    int64_t watermark = watermark_before(log, fetch->asked_ns);
    if (watermark > followed->watermark) {
        check_breach(stream->report, "I23",
                     "fetch session %" PRId32 " leaves out %s-%" PRId32 ": it told watermark %" PRId64
                     ", and it was %" PRId64 " when it was asked",
                     session->id, log->name, log->id.index, followed->watermark, watermark);
    }
    bool has_start = log->start_since_ns < fetch->asked_ns;
    if (has_start && log->offset_start > followed->log_start) {
        check_breach(stream->report, "I23",
                     "fetch session %" PRId32 " leaves out %s-%" PRId32 ": it told log start %" PRId64
                     ", and it was %" PRId64 " when it was asked",
                     session->id, log->name, log->id.index, followed->log_start, log->offset_start);
    }
    bool is_out = (has_start && followed->offset < log->offset_start) || followed->offset > log->offset_end;
    if (is_out) {
        check_breach(stream->report, "I23",
                     "fetch session %" PRId32 " leaves out %s-%" PRId32 ", whose offset %" PRId64
                     " is out of its range",
                     session->id, log->name, log->id.index, followed->offset);
    }
}

static void judge_changes(struct check_stream *stream, struct stream_session *session, const struct stream_fetch *fetch,
                          const struct kafka_fetch_response *answer)
{
    for (uint32_t i = 0; i < fetch->item_count; i++) { follow(session, &fetch->items[i]); }
    for (uint32_t i = 0; i < fetch->gone_count; i++) { forget_followed(session, fetch->gone[i]); }
    if (session->count == 0) { /* answered without a session */
        session->is_used = false;
        return;
    }
    if (answer->session_id != session->id) {
        check_breach(stream->report, "I23", "a fetch of session %" PRId32 " is answered by session %" PRId32,
                     session->id, answer->session_id);
    }
    for (uint32_t i = 0; i < session->count; i++) { session->followed[i].is_told = false; }
    note_told(session, answer, false, stream->report);
    for (uint32_t i = 0; i < session->count; i++) {
        if (session->followed[i].is_told) { continue; }
        stream->counts.sessions_left_out += 1;
        judge_left_out(stream, session, fetch, &session->followed[i]);
    }
    session->epoch = session->epoch == INT32_MAX ? 1 : session->epoch + 1;
    stream->counts.sessions_gone_on += 1;
}

static void judge_going_on(struct check_stream *stream, struct stream_session *session,
                           const struct stream_fetch *fetch, const struct kafka_fetch_response *answer)
{
    bool is_next = fetch->epoch == session->epoch;
    if (answer->error_code == ERROR_NOT_FOUND) {
        session->is_used = false; /* evicted */
        stream->counts.sessions_gone += 1;
    } else if (answer->error_code == ERROR_BAD_EPOCH) {
        stream->counts.session_epochs_refused += 1;
        if (!is_next) { return; }
        check_breach(stream->report, "I23", "fetch session %" PRId32 " refuses epoch %" PRId32 ", which is next",
                     session->id, fetch->epoch);
    } else if (answer->error_code != 0) {
        session->is_used = false;
    } else if (!is_next) {
        check_breach(stream->report, "I23",
                     "fetch session %" PRId32 " takes epoch %" PRId32 " where %" PRId32 " is next", session->id,
                     fetch->epoch, session->epoch);
        session->is_used = false;
    } else {
        judge_changes(stream, session, fetch, answer);
    }
}

void stream__session_answered(struct check_stream *stream, const struct stream_fetch *fetch,
                              const struct kafka_fetch_response *answer)
{
    if (fetch->epoch != EPOCH_FULL) {
        struct stream_session *session = find_session(stream, fetch->session);
        if (session != NULL && fetch->is_counted) { judge_going_on(stream, session, fetch, answer); }
        return;
    }
    if (answer->error_code != 0 || answer->session_id == 0) { return; }
    struct stream_session *old = find_session(stream, answer->session_id);
    if (old != NULL) { old->is_used = false; }
    struct stream_session *session = new_session(stream, answer->session_id);
    session->asked_count = 0;
    stream->counts.sessions_opened += 1;
    for (uint32_t i = 0; i < fetch->item_count; i++) { follow(session, &fetch->items[i]); }
    note_told(session, answer, true, stream->report);
}

void stream__session_crash(struct check_stream *stream)
{
    for (uint32_t i = 0; i < stream->session_count; i++) { stream->sessions[i].is_used = false; }
}

void stream__sessions_free(struct check_stream *stream)
{
    for (uint32_t i = 0; i < stream->session_count; i++) { free(stream->sessions[i].followed); }
    free(stream->sessions);
}
