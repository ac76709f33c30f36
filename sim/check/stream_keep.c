/* stream_keep.c: see stream.h. Retention: which batches stand in which segment, so that what a log start passes over is known.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "stream__parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "record/record.h"

#define SWEEP_MS 2000 /* within that a node at rest has looked, told its journal, and taken it */

/* ---- what stands in a segment ---- */

/* Nothing at or after that byte is what it was. */
void stream__keep_cut(struct stream_path *path, uint64_t from)
{
    uint32_t kept = 0;
    while (kept < path->batch_count && path->batches[kept].position + path->batches[kept].size_bytes <= from) {
        kept += 1;
    }
    path->batch_count = kept;
}

/* What a crash left past the end of a segment, and what is in a segment that was never named, has its offsets given out again elsewhere. */
static void supersede(struct check_stream *stream, const struct stream_path *by, int64_t offset, int64_t offset_end)
{
    const char *slash = strchr(by->name, '/');
    size_t folder_bytes = slash == NULL ? 0 : (size_t)(slash - by->name) + 1;
    for (uint32_t i = 0; i < stream->path_count; i++) {
        struct stream_path *path = &stream->paths[i];
        if (path == by || path->batch_count == 0 || path->name == NULL) { continue; }
        bool may_overlap = path->batches[path->batch_count - 1].offset_end > offset;
        if (!may_overlap || strncmp(path->name, by->name, folder_bytes) != 0) { continue; }
        uint32_t kept = 0;
        for (uint32_t b = 0; b < path->batch_count; b++) {
            const struct stream_batch *batch = &path->batches[b];
            if (batch->offset_end <= offset || batch->offset >= offset_end) { path->batches[kept++] = *batch; }
        }
        path->batch_count = kept;
    }
}

/* Recovery writes again what is there already: then what stands behind stays. */
void stream__keep_batch(struct check_stream *stream, struct stream_path *path, uint64_t position,
                        const struct rec_batch *batch)
{
    struct stream_batch made = {.position = position,
                                .size_bytes = batch->size_bytes,
                                .offset = batch->base_offset,
                                .offset_end = rec_offset_end(batch),
                                .timestamp_max = batch->max_timestamp_ms};
    if (path->name != NULL) { supersede(stream, path, made.offset, made.offset_end); }
    for (uint32_t i = 0; i < path->batch_count; i++) {
        const struct stream_batch *old = &path->batches[i];
        bool is_same = old->position == position && old->size_bytes == made.size_bytes && old->offset == made.offset;
        if (is_same) {
            path->batches[i] = made;
            return;
        }
    }
    stream__keep_cut(path, position);
    path->batches = check__grow(path->batches, path->batch_count, &path->batch_room, sizeof *path->batches);
    path->batches[path->batch_count++] = made;
}

/* ---- what retention takes ---- */

void check_stream_keeps(struct check_stream *stream, const char *topic, int64_t bytes, int64_t age_ms)
{
    CHECK(stream->rule_count < STREAM_RULES_MAX);
    struct stream_rule *rule = &stream->rules[stream->rule_count++];
    *rule = (struct stream_rule){.bytes = bytes, .age_ms = age_ms};
    (void)snprintf(rule->topic, sizeof rule->topic, "%s", topic); /* names of topics are short */
}

static const struct stream_rule *rule_of(const struct check_stream *stream, const struct stream_log *log)
{
    const struct stream_rule *others = NULL;
    for (uint32_t i = 0; i < stream->rule_count; i++) {
        if (strcmp(stream->rules[i].topic, log->name) == 0) { return &stream->rules[i]; }
        if (stream->rules[i].topic[0] == '\0') { others = &stream->rules[i]; }
    }
    return others;
}

static bool is_of(const struct stream_path *path, const char *folder)
{
    return path->name != NULL && path->batch_count > 0 && strncmp(path->name, folder, strlen(folder)) == 0;
}

/* Of batches from `offset` on, that end by `end`. */
static uint64_t bytes_from(const struct check_stream *stream, const struct stream_log *log, int64_t offset, int64_t end)
{
    char folder[STREAM_FOLDER_BYTES];
    stream__folder_of(log, folder);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < stream->path_count; i++) {
        const struct stream_path *path = &stream->paths[i];
        for (uint32_t b = 0; is_of(path, folder) && b < path->batch_count; b++) {
            const struct stream_batch *batch = &path->batches[b];
            if (batch->offset >= offset && batch->offset_end <= end) { bytes += batch->size_bytes; }
        }
    }
    return bytes;
}

struct shelf { /* a segment, as far as the log reaches */
    int64_t offset, offset_end;
    int64_t newest_ms;
};

static struct shelf view_segment(const struct stream_path *path, int64_t end)
{
    struct shelf shelf = {.offset = -1, .newest_ms = -1};
    for (uint32_t b = 0; b < path->batch_count && path->batches[b].offset_end <= end; b++) {
        if (b == 0) { shelf.offset = path->batches[b].offset; }
        shelf.offset_end = path->batches[b].offset_end;
        shelf.newest_ms = base_max_i64(shelf.newest_ms, path->batches[b].timestamp_max);
    }
    return shelf;
}

/* By the broker's clock at its furthest. What was from the future by it, when it stood at its least, may have aged from when it came, which
 * nobody here knows: by how far the clock went at most. */
static bool may_be_old(const struct check_stream *stream, const struct stream_rule *rule, int64_t newest_ms)
{
    if (rule->age_ms < 0) { return false; }
    bool may_be_ahead = newest_ms > stream->wall_min_ms + CHECK_AHEAD_MAX_MS;
    int64_t since_ms = may_be_ahead ? stream->wall_min_ms : newest_ms;
    return stream->wall_max_ms - since_ms > rule->age_ms;
}

void stream__keep_started(struct check_stream *stream, const struct stream_log *log, int64_t from, int64_t to)
{
    bool is_own =
        strncmp(log->name, "__", 2) == 0; /* the broker's: a start moves to where the state was written anew */
    if (stream->rule_count == 0 || log->may_go || is_own || to <= log->start_asked) { return; }
    static const struct stream_rule keeps_all = {.bytes = -1, .age_ms = -1};
    const struct stream_rule *rule = rule_of(stream, log);
    if (rule == NULL) { rule = &keeps_all; }
    /* What was written and not synced counted when it was decided; the power may have taken it since. */
    int64_t end = log->is_page_cache ? INT64_MAX : log->offset_end;
    char folder[STREAM_FOLDER_BYTES];
    stream__folder_of(log, folder);
    for (uint32_t i = 0; i < stream->path_count; i++) {
        if (!is_of(&stream->paths[i], folder)) { continue; }
        struct shelf shelf = view_segment(&stream->paths[i], log->offset_end);
        if (shelf.offset < 0 || shelf.offset >= to || shelf.offset_end <= from ||
            shelf.offset_end <= log->start_asked) {
            continue;
        }
        bool is_whole = shelf.offset_end <= to;
        bool is_too_much = rule->bytes >= 0 && bytes_from(stream, log, shelf.offset_end, end) >= (uint64_t)rule->bytes;
        if (is_whole && (is_too_much || may_be_old(stream, rule, shelf.newest_ms))) { continue; }
        check_breach(stream->report, "I1",
                     "%s-%" PRId32 " begins at %" PRId64 " now, and nothing lets it take the segment of %" PRId64
                     " to %" PRId64 ": %" PRIu64 " bytes are left, its newest record is %" PRId64 " ms old",
                     log->name, log->id.index, to, shelf.offset, shelf.offset_end, bytes_from(stream, log, to, end),
                     stream->wall_max_ms - shelf.newest_ms);
        return;
    }
}

void check_stream_kept(struct check_stream *stream, bool is_time_right)
{
    for (uint32_t i = 0; i < stream->log_count; i++) {
        const struct stream_log *log = &stream->logs[i];
        const struct stream_rule *rule = rule_of(stream, log);
        if (rule == NULL || !log->is_seen || log->may_go || log->is_hurt) { continue; }
        char folder[STREAM_FOLDER_BYTES];
        stream__folder_of(log, folder);
        struct shelf first = {.offset = INT64_MAX, .newest_ms = INT64_MAX};
        for (uint32_t p = 0; p < stream->path_count; p++) {
            if (!is_of(&stream->paths[p], folder)) { continue; }
            struct shelf shelf = view_segment(&stream->paths[p], log->offset_end);
            if (shelf.offset >= 0 && shelf.offset_end > log->offset_start && shelf.offset < first.offset) {
                first = shelf;
            }
        }
        if (first.offset == INT64_MAX) { continue; }
        uint64_t left_bytes = bytes_from(stream, log, first.offset_end, log->offset_end);
        bool is_too_much = rule->bytes >= 0 && left_bytes >= (uint64_t)rule->bytes;
        bool is_old = rule->age_ms >= 0 && is_time_right && stream->wall_ms - first.newest_ms > rule->age_ms + SWEEP_MS;
        if (!is_too_much && !is_old) { continue; }
        check_breach(stream->report, "I25",
                     "retention leaves %s-%" PRId32 " its segment of %" PRId64 " to %" PRId64 ": %" PRIu64
                     " bytes come after it, its newest record is %" PRId64 " ms old",
                     log->name, log->id.index, first.offset, first.offset_end, left_bytes,
                     stream->wall_ms - first.newest_ms);
    }
}
