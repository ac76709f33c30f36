/* stream.c: see stream.h. The logs: I3, I18.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "stream__parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct check_stream *check_stream_create(struct check_report *report)
{
    struct check_stream *stream = calloc(1, sizeof *stream);
    CHECK(stream != NULL);
    stream->report = report;
    stream->late_ns = UINT64_MAX;
    stream->fetch_bytes_max = INT32_MAX;
    stream->wall_min_ms = INT64_MAX;
    stream->scratch = malloc(STREAM_SCRATCH_BYTES);
    CHECK(stream->scratch != NULL);
    return stream;
}

void check_stream_destroy(struct check_stream *stream)
{
    stream__tap_free(stream);
    stream__sessions_free(stream);
    for (uint32_t i = 0; i < stream->path_count; i++) {
        free(stream->paths[i].name);
        free(stream->paths[i].batches);
    }
    for (uint32_t i = 0; i < stream->log_count; i++) { free(stream->logs[i].rows); }
    free(stream->paths);
    free(stream->opens);
    free(stream->writes);
    free(stream->syncs);
    free(stream->groups);
    free(stream->logs);
    free(stream->scratch);
    free(stream);
}

const struct check_stream_counts *check_stream_counts(const struct check_stream *stream) { return &stream->counts; }

uint32_t check_stream_logs(const struct check_stream *stream) { return stream->log_count; }

void check_stream_late(struct check_stream *stream, uint64_t late_ns) { stream->late_ns = late_ns; }

void check_stream_fetch_max(struct check_stream *stream, int32_t bytes_max) { stream->fetch_bytes_max = bytes_max; }

void check_stream_event(struct check_stream *stream, uint32_t shard, const struct port_event *event,
                        struct base_slice payload)
{
    stream->now_ns = base_max_u64(stream->now_ns, event->now_ns);
    stream->wall_ms = event->wall_ms;
    stream->wall_min_ms = base_min_i64(stream->wall_min_ms, event->wall_ms);
    stream->wall_max_ms = base_max_i64(stream->wall_max_ms, event->wall_ms);
    if (event->kind == PORT_EVENT_STOP) { stream->is_stopping = true; }
    if (event->kind != PORT_EVENT_DONE) { return; }
    switch ((int)event->done.effect) {
    case PORT_RECV:
        if (event->done.rc == PORT_OK) { stream__tap_received(stream, shard, event->done.conn, payload); }
        if (event->done.rc == PORT_EOF) { stream__tap_ended(stream, shard, event->done.conn); }
        return;
    case PORT_CLOSE: stream__tap_closed(stream, shard, event->done.conn); return;
    default: stream__disk_done(stream, event); return;
    }
}

void check_stream_effect(struct check_stream *stream, uint32_t shard, const struct port_effect *effect)
{
    if (effect->kind == PORT_SEND) {
        stream__tap_sent(stream, shard, effect);
    } else {
        stream__disk_effect(stream, effect);
    }
}

/* What must be there after it. Of several crashes in a row the worst counts. */
static void note_floor(struct check_stream *stream, struct stream_log *log, enum check_crash crash)
{
    if (log->is_seen && crash != CHECK_STOPPED) { stream__judge_flush(stream, log); }
    int64_t floor = log->watermark;
    if (log->is_page_cache && crash == CHECK_POWER) { floor = base_min_i64(floor, stream__durable_end(stream, log)); }
    log->floor = log->is_seen ? floor : base_min_i64(log->floor, floor);
}

void check_stream_crash(struct check_stream *stream, enum check_crash crash)
{
    for (uint32_t i = 0; i < stream->log_count; i++) { note_floor(stream, &stream->logs[i], crash); }
    stream__disk_crash(stream, crash);
    stream__tap_crash(stream);
    stream->now_ns = 0; /* the next start has another clock */
    stream->is_stopping = false;
    for (uint32_t i = 0; i < stream->log_count; i++) {
        stream->logs[i].is_there = stream->logs[i].is_seen = false;
        stream->logs[i].mark_count = 0;
        stream->logs[i].start_since_ns = UINT64_MAX;
        stream->logs[i].going_ns = stream->logs[i].gone_ns = 0;
    }
}

void stream__may_go(const struct check_stream *stream, struct stream_log *log)
{
    log->may_go = true;
    if (log->going_ns == 0) { log->going_ns = stream->now_ns; }
}

void check_stream_deleting(struct check_stream *stream, struct base_uuid topic)
{
    if (base_uuid_is_none(topic)) { return; }
    for (uint32_t i = 0; i < stream->log_count; i++) {
        if (base_uuid_equal(stream->logs[i].id.topic, topic)) { stream__may_go(stream, &stream->logs[i]); }
    }
}

/* What was recovered is all there is: rows past it were lost with the power, or cut. What no row names may be kept as far as its
 * segment holds whole batches, and those must be synced by now: by recovery, or by a checkpoint's sync of the segment. */
static void restart_rows(struct check_stream *stream, struct stream_log *log, int64_t end)
{
    if (log->synced_end > end || !stream__has_unsynced_segment(stream, log, end)) { log->synced_end = end; }
    if (log->synced_end > log->synced_max) { log->synced_max = log->synced_end; }
    uint32_t kept = 0;
    bool is_settled = log->synced_end == end; /* a row below it may have been torn, and its group written over */
    for (uint32_t i = log->rows_durable; !is_settled && i < log->row_count; i++) {
        if (log->rows[i].offset_end <= end) { log->rows[kept++] = log->rows[i]; }
    }
    log->row_count = kept;
    log->rows_durable = 0;
}

/* __cluster_metadata of KRaft, and the coordinators' logs (docs/formats/groups.md). */
static bool is_own(const struct stream_log *log)
{
    struct base_uuid metadata = {{0}}, coordinators = {{0}};
    metadata.b[15] = 1;
    coordinators.b[15] = 2;
    return base_uuid_equal(log->id.topic, metadata) || base_uuid_equal(log->id.topic, coordinators);
}

/* Who read what is gone must be able to find out: other records get its offsets. */
static void judge_epoch(struct check_stream *stream, const struct stream_log *log, const struct check_log *now)
{
    if (now->leader_epoch > log->leader_epoch || stream->is_rotten) { return; }
    check_breach(stream->report, "I18",
                 "%s-%" PRId32 " lost what was read from %" PRId64 " to %" PRId64 ", and goes on under epoch %" PRId32,
                 log->name, log->id.index, now->offset_end, log->watermark, now->leader_epoch);
}

static void judge_recovered(struct check_stream *stream, struct stream_log *log, const struct check_log *now)
{
    bool has_come_back =
        now->offset_start < log->offset_start && !stream->is_rotten; /* the row may have rotted: it goes again */
    int64_t start_max = base_max_i64(base_max_i64(log->offset_start, log->start_named), log->start_decided);
    if (has_come_back || now->offset_start > start_max) {
        check_breach(stream->report, "I18",
                     "%s-%" PRId32 " began at %" PRId64 " before the restart and at %" PRId64 " after", log->name,
                     log->id.index, log->offset_start, now->offset_start);
    }
    bool may_have_grown = is_own(log); /* a node registers itself, and its coordinators go on, before it serves */
    int64_t end_max = log->offset_end; /* or what a write under way brought there */
    if (stream__asked_end(stream, log) > end_max) { end_max = stream__asked_end(stream, log); }
    if ((now->offset_end > end_max && !may_have_grown) || (now->offset_end < log->floor && !stream->has_lost_rows)) {
        check_breach(stream->report, "I18",
                     "%s-%" PRId32 " had watermark %" PRId64 " and end %" PRId64
                     " before the restart, and ends at %" PRId64 " after, where %" PRId64 " is the least",
                     log->name, log->id.index, log->watermark, log->offset_end, now->offset_end, log->floor);
    }
    if (now->watermark != now->offset_end && !may_have_grown) {
        check_breach(stream->report, "I18", "%s-%" PRId32 " was recovered to %" PRId64 " with watermark %" PRId64,
                     log->name, log->id.index, now->offset_end, now->watermark);
    }
    if (stream->has_lost_rows) { log->watermark = base_min_i64(log->watermark, now->watermark); }
    restart_rows(stream, log, now->offset_end);
    stream__leave_out(stream, log, now->offset_end);
    if (log->is_page_cache) {
        bool is_lost = now->offset_end < log->watermark;
        if (is_lost) { judge_epoch(stream, log, now); }
        stream->counts.page_cache_lost += is_lost ? 1 : 0;
        stream->counts.page_cache_held += is_lost && log->floor > now->offset_start ? 1 : 0;
        log->synced_end = now->offset_end;
        log->synced_max = base_max_i64(log->synced_max, log->synced_end);
        log->watermark = base_min_i64(log->watermark, now->watermark);
    }
}

static void judge_watermark(struct check_stream *stream, struct stream_log *log, const struct check_log *now)
{
    if (log->is_told) { return; }
    if (now->watermark < log->watermark) {
        check_breach(stream->report, "I3", "the watermark of %s-%" PRId32 " fell from %" PRId64 " to %" PRId64,
                     log->name, log->id.index, log->watermark, now->watermark);
        log->is_told = true;
    }
    if (now->watermark > log->synced_end) {
        check_breach(stream->report, "I3",
                     "the watermark of %s-%" PRId32 " is %" PRId64 ", and it is synced up to %" PRId64, log->name,
                     log->id.index, now->watermark, log->synced_end);
        log->is_told = true;
    }
}

void check_stream_log(struct check_stream *stream, const struct check_log *now, bool is_serving)
{
    if (!is_serving) { return; } /* recovery is at work on it */
    struct stream_log *log = stream__log(stream, now->id);
    if (log->name[0] == 0) {
        (void)snprintf(log->name, sizeof log->name, "%.*s", (int)now->topic.size_bytes, (const char *)now->topic.at);
    }
    log->is_hurt = now->is_failed;
    log->is_there = true;
    log->is_page_cache = now->is_page_cache;
    log->flush_messages = now->flush_messages;
    log->flush_ms = now->flush_ms;
    if (now->is_failed) {
        if (stream->counts.errors == 0 && !stream->is_rotten && !log->is_told) {
            check_breach(stream->report, "I18", "%s-%" PRId32 " is damaged or failed, and no disk was", log->name,
                         log->id.index);
            log->is_told = true;
        }
        return;
    }
    if (!log->is_seen && log->is_known) { judge_recovered(stream, log, now); }
    if (log->is_seen && now->offset_start < log->offset_start && !log->is_told) {
        check_breach(stream->report, "I18", "the start of %s-%" PRId32 " fell from %" PRId64 " to %" PRId64, log->name,
                     log->id.index, log->offset_start, now->offset_start);
        log->is_told = true;
    }
    if (!log->is_seen) { log->recovered_end = log->is_known ? now->offset_end : 0; }
    bool is_start_new = !log->is_seen || now->offset_start != log->offset_start || log->start_since_ns == UINT64_MAX;
    if (is_start_new) { log->start_since_ns = stream->now_ns; }
    bool has_begun_later = log->is_known && now->offset_start > log->offset_start;
    int64_t began_at = log->offset_start;
    log->is_seen = log->is_known = true;
    judge_watermark(stream, log, now);
    log->offset_start = now->offset_start;
    log->start_decided = base_max_i64(log->start_decided, now->start_next);
    log->offset_end = now->offset_end;
    log->leader_epoch = now->leader_epoch;
    log->watermark_now = now->watermark;
    if (has_begun_later) { stream__keep_started(stream, log, began_at, now->offset_start); }
    if (now->watermark <= log->watermark) { return; }
    log->watermark = now->watermark;
    log->marks[log->mark_count % STREAM_MARKS] =
        (struct stream_mark){.watermark = now->watermark, .at_ns = stream->now_ns};
    log->mark_count += 1;
}

void check_stream_rotten(struct check_stream *stream) { stream->is_rotten = true; }

void check_stream_lost_rows(struct check_stream *stream) { stream->has_lost_rows = stream->is_rotten; }

void check_stream_recovered(struct check_stream *stream)
{
    for (uint32_t i = 0; i < stream->log_count; i++) {
        struct stream_log *log = &stream->logs[i];
        if (!log->is_known || log->is_there || log->may_go || log->is_told || log->watermark <= 0) { continue; }
        check_breach(stream->report, "I18",
                     "%s-%" PRId32 " had watermark %" PRId64 " before the restart and is not there after", log->name,
                     log->id.index, log->watermark);
        log->is_told = true;
    }
}

bool check_stream_is_synced(const struct check_stream *stream, struct base_part id, int64_t offset)
{
    const struct stream_log *log = stream__find_log(stream, id);
    return log != NULL && offset < log->synced_max;
}

void check_stream_read(struct check_stream *stream, struct base_part id, int64_t offset)
{
    if (check_stream_is_synced(stream, id, offset)) { return; }
    check_breach(stream->report, "I4", "offset %" PRId64 " of a partition %" PRId32 " was read before it was synced",
                 offset, id.index);
}
