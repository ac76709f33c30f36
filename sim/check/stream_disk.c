/* stream_disk.c: see stream.h. What is synced: files, writes, syncs, the rows of the journal.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "stream__parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "record/record.h"

/* The journal's format, as docs/formats/journal.md has it. */
enum {
    GROUP_MAGIC = 0x574a4731,
    GROUP_FLAGS_AT = 6,
    GROUP_LIFE_AT = 24,
    GROUP_ROWS_AT = 28,
    GROUP_SEQUENCE_AT = 32,
    GROUP_HEAD_BYTES = 128,
    ROW_BYTES = 96,
    ROW_KIND_AT = 0,
    ROW_HAS_BYTES_AT = 1,
    ROW_INDEX_AT = 4,
    ROW_TOPIC_AT = 8,
    ROW_SEGMENT_AT = 24,
    ROW_POSITION_AT = 32,
    ROW_BASE_AT = 40,
    ROW_END_AT = 48,
    ROW_SIZE_AT = 64,
    ROWS_MAX = 4096,
    KIND_RUN = 0,
    KIND_START = 1,
    KIND_TRUNCATE = 2,
    KIND_GONE = 3,
};

struct stream_log *stream__find_log(const struct check_stream *stream, struct base_part id)
{
    for (uint32_t i = 0, at = stream->log_next; i < stream->log_count; i++, at++) {
        if (at >= stream->log_count) { at = 0; }
        if (base_part_equal(stream->logs[at].id, id)) { return &stream->logs[at]; }
    }
    return NULL;
}

/* Every step looks at every log, in much the order in which they were met: the one after the last is mostly the one. */
struct stream_log *stream__log(struct check_stream *stream, struct base_part id)
{
    struct stream_log *found = stream__find_log(stream, id);
    if (found != NULL) {
        stream->log_next = (uint32_t)(found - stream->logs) + 1;
        return found;
    }
    stream->logs = check__grow(stream->logs, stream->log_count, &stream->log_room, sizeof *stream->logs);
    struct stream_log *log = &stream->logs[stream->log_count++];
    *log = (struct stream_log){.id = id};
    return log;
}

/* ---- names ---- */

static uint32_t find_path(const struct check_stream *stream, struct base_slice name)
{
    for (uint32_t i = 0; i < stream->path_count; i++) {
        if (stream->paths[i].name != NULL && base_slice_equal(base_slice_text(stream->paths[i].name), name)) {
            return i;
        }
    }
    return UINT32_MAX;
}

uint64_t check_stream_written(const struct check_stream *stream, const char *path)
{
    uint32_t at = find_path(stream, base_slice_text(path));
    return at == UINT32_MAX ? 0 : stream->paths[at].written_end;
}

bool check_stream_opened(const struct check_stream *stream, const char *path)
{
    uint32_t at = find_path(stream, base_slice_text(path));
    return at != UINT32_MAX && stream->paths[at].is_opened;
}

static bool is_named(const struct check_stream *stream, const struct stream_path *path)
{
    return path->is_born && !stream->groups[path->born_by].is_lost;
}

bool check_stream_is_born(const struct check_stream *stream, const char *path)
{
    uint32_t at = find_path(stream, base_slice_text(path));
    return at != UINT32_MAX && is_named(stream, &stream->paths[at]);
}

static char *copy_name(struct base_slice name)
{
    char *copy = malloc(name.size_bytes + 1);
    CHECK(copy != NULL);
    memcpy(copy, name.at, name.size_bytes);
    copy[name.size_bytes] = 0;
    return copy;
}

static void drop_name(struct check_stream *stream, struct base_slice name)
{
    uint32_t path = find_path(stream, name);
    if (path == UINT32_MAX) { return; }
    free(stream->paths[path].name);
    stream->paths[path].name = NULL;
}

static uint32_t need_path(struct check_stream *stream, struct base_slice name)
{
    uint32_t path = find_path(stream, name);
    if (path != UINT32_MAX) { return path; }
    stream->paths = check__grow(stream->paths, stream->path_count, &stream->path_room, sizeof *stream->paths);
    struct stream_path *made = &stream->paths[stream->path_count];
    made->name = copy_name(name);
    made->is_journal = strncmp(made->name, "weir-journal/", 13) == 0;
    return stream->path_count++;
}

static void opened(struct check_stream *stream, const struct port_effect *effect)
{
    uint32_t path = need_path(stream, effect->path);
    stream->paths[path].is_opened = true;
    stream->opens = check__grow(stream->opens, stream->open_count, &stream->open_room, sizeof *stream->opens);
    stream->opens[stream->open_count++] = (struct stream_open){.id = effect->file, .path = path, .is_used = true};
}

static uint32_t path_of(const struct check_stream *stream, struct port_file id)
{
    for (uint32_t i = 0; i < stream->open_count; i++) {
        if (port_file_equal(stream->opens[i].id, id)) { return stream->opens[i].path; }
    }
    return UINT32_MAX;
}

static void note_refused(struct check_stream *stream, struct port_file id)
{
    uint32_t path = path_of(stream, id);
    if (path != UINT32_MAX) { stream->paths[path].refused_ns = stream->now_ns; }
}

static void forget_open(struct check_stream *stream, struct port_file id)
{
    for (uint32_t i = 0; i < stream->open_count; i++) {
        if (!port_file_equal(stream->opens[i].id, id)) { continue; }
        stream->opens[i] = stream->opens[--stream->open_count];
        return;
    }
}

/* A folder: its files are there under other names, and another log may have their old ones. What was in them is nobody's. */
static void renamed_within(struct check_stream *stream, struct base_slice from, struct base_slice to)
{
    for (uint32_t i = 0; i < stream->path_count; i++) {
        struct stream_path *path = &stream->paths[i];
        bool is_in = path->name != NULL && strlen(path->name) > from.size_bytes &&
                     memcmp(path->name, from.at, from.size_bytes) == 0 && path->name[from.size_bytes] == '/';
        if (!is_in) { continue; }
        char name[600];
        (void)snprintf(name, sizeof name, "%.*s%s", (int)to.size_bytes, (const char *)to.at,
                       path->name + from.size_bytes);
        free(path->name);
        path->name = copy_name(base_slice_text(name));
        path->batch_count = 0;
    }
}

static void renamed(struct check_stream *stream, const struct port_effect *effect)
{
    /* At the asking: whoever asks waits for it before anything depends on it, and a failed one is retried. */
    uint32_t path = find_path(stream, effect->path);
    if (path == UINT32_MAX) {
        renamed_within(stream, effect->path, effect->path_to);
        return;
    }
    drop_name(stream, effect->path_to);
    free(stream->paths[path].name);
    stream->paths[path].name = copy_name(effect->path_to);
    stream->paths[path].is_journal = strncmp(stream->paths[path].name, "weir-journal/", 13) == 0;
}

/* ---- rows ---- */

/* A row without bytes names a run of a segment, which must be synced before. */
static void judge_segment(struct check_stream *stream, const struct stream_log *log, int64_t segment_base,
                          uint64_t from, uint64_t to)
{
    char name[320];
    (void)snprintf(name, sizeof name, "%s-%" PRId32 "/%020" PRId64 ".log", log->name, log->id.index, segment_base);
    uint32_t path = find_path(stream, base_slice_text(name));
    if (path == UINT32_MAX || log->name[0] == 0) { return; }
    for (uint32_t i = 0; i < stream->write_count; i++) {
        const struct stream_write *write = &stream->writes[i];
        if (write->path != path || write->from >= to || write->to <= from) { continue; }
        check_breach(stream->report, "I19",
                     "the journal names bytes %" PRIu64 " to %" PRIu64 " of %s before they are synced", from, to, name);
        return;
    }
}

void stream__folder_of(const struct stream_log *log, char folder_out[STREAM_FOLDER_BYTES])
{
    (void)snprintf(folder_out, STREAM_FOLDER_BYTES, "%s-%" PRId32 "/", log->name, log->id.index);
}

static bool is_segment_in(const struct check_stream *stream, uint32_t path, const char *folder)
{
    const char *name = stream->paths[path].name;
    return name != NULL && strncmp(name, folder, strlen(folder)) == 0 && strstr(name, ".log") != NULL;
}

bool stream__has_unsynced_segment(const struct check_stream *stream, const struct stream_log *log, int64_t end)
{
    char folder[STREAM_FOLDER_BYTES];
    stream__folder_of(log, folder);
    for (uint32_t i = 0; i < stream->write_count; i++) {
        if (!is_segment_in(stream, stream->writes[i].path, folder)) { continue; }
        int64_t base = stream->writes[i].offset_base;
        if (base >= log->synced_end && base < end) { return true; }
    }
    return false;
}

uint64_t stream__refused_ns(const struct check_stream *stream, const struct stream_log *log)
{
    char folder[STREAM_FOLDER_BYTES];
    stream__folder_of(log, folder);
    uint64_t last_ns = 0;
    for (uint32_t i = 0; i < stream->path_count; i++) {
        if (stream->paths[i].refused_ns > last_ns && is_segment_in(stream, i, folder)) {
            last_ns = stream->paths[i].refused_ns;
        }
    }
    return last_ns;
}

uint64_t stream__any_refused_ns(const struct check_stream *stream)
{
    uint64_t last_ns = 0;
    for (uint32_t i = 0; i < stream->path_count; i++) { last_ns = base_max_u64(last_ns, stream->paths[i].refused_ns); }
    return last_ns;
}

int64_t stream__asked_end(const struct check_stream *stream, const struct stream_log *log)
{
    char folder[STREAM_FOLDER_BYTES];
    stream__folder_of(log, folder);
    int64_t end = 0;
    for (uint32_t i = 0; i < stream->path_count; i++) {
        const struct stream_path *path = &stream->paths[i];
        if (path->name == NULL || strncmp(path->name, folder, strlen(folder)) != 0) { continue; }
        if (path->asked_end > end) { end = path->asked_end; }
    }
    return end;
}

/* It was deleted: a topic that was made anew under its name has the folder now. */
static bool is_replaced(const struct check_stream *stream, const struct stream_log *log)
{
    for (const struct stream_log *later = log + 1; later < stream->logs + stream->log_count; later++) {
        if (later->id.index == log->id.index && strcmp(later->name, log->name) == 0) { return true; }
    }
    return false;
}

void stream__leave_out(struct check_stream *stream, const struct stream_log *log, int64_t end)
{
    char folder[STREAM_FOLDER_BYTES];
    stream__folder_of(log, folder);
    for (uint32_t i = 0; i < stream->write_count; i++) {
        struct stream_write *write = &stream->writes[i];
        bool is_left = write->state == WRITE_DONE && write->offset_base >= end;
        if (is_left && is_segment_in(stream, write->path, folder)) { write->is_stray = true; }
    }
}

int64_t stream__durable_end(const struct check_stream *stream, const struct stream_log *log)
{
    if (is_replaced(stream, log)) { return log->synced_end; }
    char folder[STREAM_FOLDER_BYTES];
    stream__folder_of(log, folder);
    int64_t end = log->synced_end;
    for (uint32_t i = 0; i < stream->write_count; i++) {
        const struct stream_write *write = &stream->writes[i];
        if (!is_segment_in(stream, write->path, folder)) { continue; }
        bool is_gone = write->is_stray || write->offset_end <= log->offset_start; /* retention took it */
        if (write->from < write->to && !is_gone && write->offset_base < end) { end = write->offset_base; }
    }
    return end;
}

void stream__judge_flush(struct check_stream *stream, const struct stream_log *log)
{
    bool is_judged = log->is_page_cache && log->flush_ms > 0 && stream->late_ns != UINT64_MAX && !log->may_go;
    if (!is_judged || stream->is_stopping || stream->counts.errors > 0 || log->is_hurt) { return; }
    char folder[STREAM_FOLDER_BYTES];
    stream__folder_of(log, folder);
    for (uint32_t i = 0; i < stream->sync_count; i++) {
        if (is_segment_in(stream, stream->syncs[i].path, folder)) { return; } /* it is at work */
    }
    for (uint32_t i = 0; i < stream->write_count; i++) {
        const struct stream_write *write = &stream->writes[i];
        bool is_open = write->state == WRITE_DONE && write->from < write->to && !write->is_stray;
        if (!is_open || write->done_ns == UINT64_MAX) { continue; }
        if (!is_segment_in(stream, write->path, folder) || write->offset_end <= log->offset_start) { continue; }
        uint64_t age_ns = stream->now_ns - base_min_u64(stream->now_ns, write->done_ns);
        if (age_ns <= log->flush_ms * 1000000 + stream->late_ns) { continue; }
        check_breach(stream->report, "I19",
                     "offset %" PRId64 " of %s-%" PRId32 ", whose flush.ms is %" PRIu64 ", was written %" PRIu64
                     " ms ago, and nobody syncs it",
                     write->offset_base, log->name, log->id.index, log->flush_ms, age_ns / 1000000);
        return;
    }
}

/* The newest log of that name: older ones of it were deleted. NULL: none. */
static struct stream_log *log_of_segment(const struct check_stream *stream, const char *name)
{
    if (name == NULL || strstr(name, ".log") == NULL) { return NULL; }
    for (uint32_t i = stream->log_count; i-- > 0;) {
        struct stream_log *log = &stream->logs[i];
        char folder[STREAM_FOLDER_BYTES];
        stream__folder_of(log, folder);
        if (log->name[0] != 0 && strncmp(name, folder, strlen(folder)) == 0) { return log; }
    }
    return NULL;
}

static struct stream_log *page_cache_log(const struct check_stream *stream, uint32_t path)
{
    struct stream_log *log = log_of_segment(stream, stream->paths[path].name);
    return log != NULL && log->is_page_cache ? log : NULL;
}

bool check_stream_log_of(const struct check_stream *stream, const char *path, int64_t *start_out, int64_t *end_out)
{
    const struct stream_log *log = log_of_segment(stream, path);
    if (log == NULL) { return false; }
    *start_out = log->offset_start;
    *end_out = log->offset_end;
    return true;
}

/* What stands before that position; 0: nothing. */
static int64_t end_before(const struct stream_path *path, uint64_t position_bytes)
{
    int64_t end = 0;
    for (uint32_t i = 0; i < path->batch_count; i++) {
        if (path->batches[i].position < position_bytes) { end = base_max_i64(end, path->batches[i].offset_end); }
    }
    return end;
}

/* A piece of a write to a segment is a batch, or several. What is left of a short write begins within one, and ends where that would. */
static void note_batches(struct check_stream *stream, const struct port_effect *effect, struct stream_write *write)
{
    struct stream_path *path = &stream->paths[write->path];
    const struct stream_log *log = page_cache_log(stream, write->path);
    bool is_first = log != NULL;
    if (is_first) { write->offset_base = log->synced_end; }
    if (path->is_cut) { path->asked_end = end_before(path, effect->position_bytes); }
    path->is_cut = false;
    write->offset_end = path->asked_end;
    uint64_t piece_at = effect->position_bytes;
    for (uint32_t i = 0; i < effect->piece_count; i++) {
        struct base_slice rest = base_slice_of(effect->pieces[i].at, (size_t)effect->pieces[i].size_bytes);
        struct rec_batch batch;
        uint64_t at = piece_at;
        while (rec_batch_next(&rest, &batch) == REC_OK) {
            if (rec_offset_end(&batch) > path->asked_end) { path->asked_end = rec_offset_end(&batch); }
            stream__keep_batch(stream, path, at, &batch);
            stream__order_written(stream, path->name, &batch);
            at += batch.size_bytes;
            if (is_first) { write->offset_base = batch.base_offset; }
            write->offset_end = rec_offset_end(&batch);
            is_first = false;
        }
        piece_at += effect->pieces[i].size_bytes;
    }
}

static uint32_t path_of_segment(const struct check_stream *stream, const struct stream_log *log, int64_t segment_base)
{
    char name[320];
    (void)snprintf(name, sizeof name, "%s-%" PRId32 "/%020" PRId64 ".log", log->name, log->id.index, segment_base);
    return log->name[0] == 0 ? UINT32_MAX : find_path(stream, base_slice_text(name));
}

static void take_row(struct check_stream *stream, uint32_t group, const uint8_t *row)
{
    struct base_part id = {.index = (int32_t)base_get_u32(row + ROW_INDEX_AT)};
    memcpy(id.topic.b, row + ROW_TOPIC_AT, sizeof id.topic.b);
    uint8_t kind = row[ROW_KIND_AT];
    if (kind == KIND_GONE) { stream->counts.rows_gone += 1; }
    if (kind != KIND_RUN && kind != KIND_TRUNCATE && kind != KIND_START) { return; }
    struct stream_log *log = stream__log(stream, id);
    if (kind == KIND_START) {
        log->start_named = base_max_i64(log->start_named, (int64_t)base_get_u64(row + ROW_BASE_AT));
        return;
    }
    log->rows = check__grow(log->rows, log->row_count, &log->row_room, sizeof *log->rows);
    log->rows[log->row_count++] = (struct stream_row){.kind = kind,
                                                      .offset_base = (int64_t)base_get_u64(row + ROW_BASE_AT),
                                                      .offset_end = (int64_t)base_get_u64(row + ROW_END_AT),
                                                      .group = group};
    stream->counts.rows += 1;
    uint32_t segment = path_of_segment(stream, log, (int64_t)base_get_u64(row + ROW_SEGMENT_AT));
    if (segment != UINT32_MAX && !is_named(stream, &stream->paths[segment])) {
        stream->paths[segment].is_born = true;
        stream->paths[segment].born_by = group;
    }
    if (kind == KIND_RUN && row[ROW_HAS_BYTES_AT] == 0) {
        stream->counts.rows_large += 1;
        uint64_t from = base_get_u64(row + ROW_POSITION_AT);
        judge_segment(stream, log, (int64_t)base_get_u64(row + ROW_SEGMENT_AT), from,
                      from + base_get_u64(row + ROW_SIZE_AT));
    }
}

/* The first bytes of a write, or of what of it comes after the first `skip_bytes`, as far as they go. */
static size_t gather(const struct port_effect *effect, uint64_t skip_bytes, uint8_t *into, size_t room_bytes)
{
    size_t used = 0;
    for (uint32_t i = 0; i < effect->piece_count && used < room_bytes; i++) {
        uint64_t skip = base_min_u64(skip_bytes, effect->pieces[i].size_bytes);
        size_t take = (size_t)base_min_u64(effect->pieces[i].size_bytes - skip, room_bytes - used);
        skip_bytes -= skip;
        if (take == 0) { continue; }
        memcpy(into + used, effect->pieces[i].at + skip, take);
        used += take;
    }
    return used;
}

static uint64_t number_of(const uint8_t *head)
{
    return base_get_u64(head + GROUP_SEQUENCE_AT) << 20 | base_get_u32(head + GROUP_LIFE_AT);
}

/* A start writes once more what it found of what nobody had seen synced, several groups at a time. */
static void find_lost(struct check_stream *stream, uint32_t path, const struct port_effect *effect, uint64_t to)
{
    for (uint32_t i = 0; i < stream->group_count; i++) {
        struct stream_group *group = &stream->groups[i];
        bool is_within = group->path == path && group->from >= effect->position_bytes && group->from < to;
        if (!group->is_lost || !is_within) { continue; }
        uint8_t head[GROUP_HEAD_BYTES];
        bool is_head = gather(effect, group->from - effect->position_bytes, head, sizeof head) == sizeof head;
        if (is_head && base_get_u32(head) == GROUP_MAGIC && number_of(head) == group->number) {
            group->is_lost = false;
        }
    }
}

static uint32_t life_of(uint64_t number) { return (uint32_t)(number & 0xfffff); }

/* The header of a group that was torn over it: a start finds the torn one by its copy behind, and writes the page once more as it is. */
static bool is_left_over(const struct check_stream *stream, uint32_t path, uint64_t from, uint64_t number)
{
    for (uint32_t i = 0; i < stream->group_count; i++) {
        const struct stream_group *known = &stream->groups[i];
        if (known->path == path && known->from < from && life_of(known->number) > life_of(number)) { return true; }
    }
    return false;
}

static void take_group(struct check_stream *stream, uint32_t path, const struct port_effect *effect, uint64_t to)
{
    uint8_t *head = stream->scratch;
    size_t got = gather(effect, 0, head, GROUP_HEAD_BYTES + (size_t)ROWS_MAX * ROW_BYTES);
    if (got < GROUP_HEAD_BYTES || base_get_u32(head) != GROUP_MAGIC || base_get_u16(head + GROUP_FLAGS_AT) != 0) {
        return;
    }
    uint32_t rows = base_get_u32(head + GROUP_ROWS_AT);
    if (rows > ROWS_MAX || got < GROUP_HEAD_BYTES + (size_t)rows * ROW_BYTES) { return; }
    uint64_t number = number_of(head);
    for (uint32_t i = stream->group_count; i-- > 0;) { /* recovery writes groups that it read once more */
        const struct stream_group *known = &stream->groups[i];
        if (known->path == path && known->from == effect->position_bytes && known->number == number) { return; }
    }
    if (is_left_over(stream, path, effect->position_bytes, number)) { return; }
    stream->groups = check__grow(stream->groups, stream->group_count, &stream->group_room, sizeof *stream->groups);
    uint32_t group = stream->group_count++;
    stream->groups[group] =
        (struct stream_group){.path = path, .from = effect->position_bytes, .to = to, .number = number};
    for (uint32_t i = 0; i < rows; i++) { take_row(stream, group, head + GROUP_HEAD_BYTES + (size_t)i * ROW_BYTES); }
}

static bool is_durable(const struct check_stream *stream, const struct stream_row *row)
{
    const struct stream_group *group = &stream->groups[row->group];
    return group->synced_bytes >= group->to - group->from;
}

static void advance(struct check_stream *stream)
{
    for (uint32_t i = 0; i < stream->log_count; i++) {
        struct stream_log *log = &stream->logs[i];
        while (log->rows_durable < log->row_count && is_durable(stream, &log->rows[log->rows_durable])) {
            const struct stream_row *row = &log->rows[log->rows_durable++];
            log->synced_end = row->kind == KIND_RUN ? row->offset_end : row->offset_base;
            if (log->synced_end > log->synced_max) { log->synced_max = log->synced_end; }
        }
    }
}

/* ---- writes and syncs ---- */

/* What a failed sync left in doubt is written anew: that write needs its own sync, and the old bytes are of no account. */
static void forget_poisoned(struct check_stream *stream, uint32_t path, uint64_t from, uint64_t to)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < stream->write_count; i++) {
        struct stream_write write = stream->writes[i];
        if (write.path == path && write.state == WRITE_POISONED) {
            if (write.from >= from && write.from < to) { write.from = base_min_u64(to, write.to); }
            if (write.to > from && write.to <= to) { write.to = base_max_u64(from, write.from); }
            if (write.from >= write.to) { continue; }
        }
        stream->writes[kept++] = write;
    }
    stream->write_count = kept;
}

static void asked_write(struct check_stream *stream, const struct port_effect *effect)
{
    uint32_t path = path_of(stream, effect->file);
    if (path == UINT32_MAX) { return; }
    uint64_t size_bytes = 0;
    for (uint32_t i = 0; i < effect->piece_count; i++) { size_bytes += effect->pieces[i].size_bytes; }
    uint64_t to = effect->position_bytes + size_bytes;
    stream->paths[path].written_end = base_max_u64(stream->paths[path].written_end, to);
    forget_poisoned(stream, path, effect->position_bytes, to);
    stream->writes = check__grow(stream->writes, stream->write_count, &stream->write_room, sizeof *stream->writes);
    uint8_t base[8] = {0};                      /* a segment's batches begin with their offset */
    (void)gather(effect, 0, base, sizeof base); /* a shorter write is none of batches */
    struct stream_write *write = &stream->writes[stream->write_count++];
    *write = (struct stream_write){.path = path,
                                   .file = effect->file,
                                   .token = effect->token,
                                   .from = effect->position_bytes,
                                   .to = to,
                                   .offset_base = (int64_t)base_get_u64(base)};
    if (strstr(stream->paths[path].name == NULL ? "" : stream->paths[path].name, ".log") != NULL) {
        note_batches(stream, effect, write);
    }
    if (stream->paths[path].is_journal) {
        find_lost(stream, path, effect, to);
        take_group(stream, path, effect, to);
    }
}

static void asked_sync(struct check_stream *stream, const struct port_effect *effect)
{
    uint32_t path = path_of(stream, effect->file);
    if (path == UINT32_MAX) { return; }
    stream->syncs = check__grow(stream->syncs, stream->sync_count, &stream->sync_room, sizeof *stream->syncs);
    stream->syncs[stream->sync_count++] =
        (struct stream_sync){.path = path, .file = effect->file, .token = effect->token, .covers = stream->sequence};
}

static void asked_cut(struct check_stream *stream, const struct port_effect *effect)
{
    uint32_t path = path_of(stream, effect->file);
    if (path == UINT32_MAX) { return; }
    stream__keep_cut(&stream->paths[path], effect->position_bytes);
    /* Whoever writes behind a cut has seen to it that what was cut off never comes back. */
    if (page_cache_log(stream, path) != NULL) { stream->paths[path].is_cut = true; }
}

void stream__disk_effect(struct check_stream *stream, const struct port_effect *effect)
{
    switch ((int)effect->kind) {
    case PORT_OPEN: opened(stream, effect); return;
    case PORT_WRITE: asked_write(stream, effect); return;
    case PORT_SYNC: asked_sync(stream, effect); return;
    case PORT_TRUNCATE: asked_cut(stream, effect); return;
    case PORT_RENAME: renamed(stream, effect); return;
    case PORT_UNLINK: drop_name(stream, effect->path); return;
    default: return;
    }
}

static void done_write(struct check_stream *stream, const struct port_event *event)
{
    for (uint32_t i = 0; i < stream->write_count; i++) {
        struct stream_write *write = &stream->writes[i];
        bool is_it = write->state == WRITE_ASKED && write->token == event->done.token &&
                     port_file_equal(write->file, event->done.file);
        if (!is_it) { continue; }
        bool is_whole = event->done.rc == PORT_OK && write->from + event->done.count == write->to;
        write->to =
            write->from + (event->done.rc == PORT_OK ? event->done.count : 0); /* of a failed one nothing counts */
        struct stream_log *log = is_whole ? page_cache_log(stream, write->path) : NULL;
        if (log != NULL) {
            log->synced_end = base_max_i64(log->synced_end, write->offset_end);
            log->synced_max = base_max_i64(log->synced_max, log->synced_end);
        }
        write->state = WRITE_DONE;
        write->done_sequence = ++stream->sequence;
        write->done_ns = stream->now_ns;
        return;
    }
}

static void cover(struct check_stream *stream, const struct stream_write *write)
{
    for (uint32_t i = stream->group_count; i-- > 0;) {
        struct stream_group *group = &stream->groups[i];
        if (group->path != write->path) { continue; }
        uint64_t from = base_max_u64(group->from, write->from);
        uint64_t to = base_min_u64(group->to, write->to);
        if (from < to) { group->synced_bytes += to - from; }
    }
}

static void done_sync(struct check_stream *stream, const struct port_event *event)
{
    uint32_t at = 0;
    while (at < stream->sync_count && (stream->syncs[at].token != event->done.token ||
                                       !port_file_equal(stream->syncs[at].file, event->done.file))) {
        at += 1;
    }
    if (at == stream->sync_count) { return; }
    struct stream_sync sync = stream->syncs[at];
    memmove(&stream->syncs[at], &stream->syncs[at + 1], (stream->sync_count - at - 1) * sizeof sync);
    stream->sync_count -= 1;
    bool is_ok = event->done.rc == PORT_OK;
    if (!is_ok) { stream->counts.syncs_failed += 1; }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < stream->write_count; i++) {
        struct stream_write *write = &stream->writes[i];
        bool is_covered = write->path == sync.path && write->state == WRITE_DONE && write->done_sequence <= sync.covers;
        if (is_covered && is_ok) {
            cover(stream, write);
            continue;
        }
        if (is_covered) { write->state = WRITE_POISONED; }
        stream->writes[kept++] = *write;
    }
    stream->write_count = kept;
    advance(stream);
}

void stream__disk_done(struct check_stream *stream, const struct port_event *event)
{
    enum port_rc rc = event->done.rc;
    bool is_lack = rc == PORT_NO_SPACE || rc == PORT_NO_HANDLES || rc == PORT_NO_MEMORY;
    if (rc == PORT_IO || is_lack) { stream->counts.errors += 1; }
    switch ((int)event->done.effect) {
    case PORT_OPEN:
        if (rc == PORT_NO_HANDLES) { note_refused(stream, event->done.file); }
        if (rc != PORT_OK) { forget_open(stream, event->done.file); }
        return;
    case PORT_CLOSE_FILE: forget_open(stream, event->done.file); return;
    case PORT_WRITE: done_write(stream, event); return;
    case PORT_SYNC: done_sync(stream, event); return;
    default: return;
    }
}

/* The power went: what is there now is durable. Which part that is, recovery says: until then all counts.
 * The process went: the page cache remains, and needs a sync yet. */
void stream__disk_crash(struct check_stream *stream, enum check_crash crash)
{
    stream->open_count = 0;
    stream->sync_count = 0;
    for (uint32_t i = 0; i < stream->path_count; i++) {
        stream->paths[i].refused_ns = 0; /* by a clock that is no more */
        if (crash == CHECK_STOPPED) { continue; }
        stream->paths[i].written_end = 0;
        stream->paths[i].is_opened = false;
    }
    for (uint32_t i = 0; crash != CHECK_STOPPED && i < stream->group_count; i++) {
        struct stream_group *group = &stream->groups[i];
        if (group->synced_bytes < group->to - group->from) { group->is_lost = true; }
    }
    if (crash == CHECK_POWER) {
        for (uint32_t i = 0; i < stream->group_count; i++) {
            stream->groups[i].synced_bytes = stream->groups[i].to - stream->groups[i].from;
        }
        stream->write_count = 0;
        advance(stream);
        return;
    }
    for (uint32_t i = 0; i < stream->write_count; i++) {
        if (stream->writes[i].state == WRITE_ASKED) {
            stream->writes[i].state = WRITE_DONE;
            stream->writes[i].done_sequence = ++stream->sequence;
        }
        stream->writes[i].done_ns = UINT64_MAX;
    }
}
