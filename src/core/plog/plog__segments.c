/* plog__segments.c: the chain of segments of a log, their syncs, the log start and retention.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

static struct plog__segment *segment_on(struct base_link *link)
{
    return link == NULL ? NULL : BASE_ITEM(link, struct plog__segment, link);
}

struct plog__segment *plog__segment_last(const struct plog__log *log)
{
    return base_list_is_empty(&log->segments) ? NULL : segment_on(log->segments.head.prev);
}
struct plog__segment *plog__segment_first(const struct plog__log *log)
{
    return segment_on(base_list_first(&log->segments));
}
struct plog__segment *plog__segment_next(const struct plog__log *log, const struct plog__segment *segment)
{
    return segment_on(base_list_next(&log->segments, &segment->link));
}

struct plog__segment *plog__segment_before(const struct plog__log *log, const struct plog__segment *segment)
{
    struct base_link *link = segment->link.prev;
    return link == &log->segments.head ? NULL : segment_on(link);
}

/* From the end: most reads are near it. */
struct plog__segment *plog__segment_of(const struct plog__log *log, int64_t offset)
{
    struct plog__segment *segment = plog__segment_last(log);
    while (segment != NULL && segment->base > offset) { segment = plog__segment_before(log, segment); }
    return segment;
}

static void segment_begin(struct plog *plog, struct plog__log *log, struct plog__segment *segment, uint32_t slot)
{
    segment->end = segment->base;
    segment->timestamp_max = -1;
    segment->timestamp_max_offset = -1;
    segment->timestamp_first = -1;
    segment->created_wall_ms = plog__came_ms(plog);
    segment->last_wall_ms = segment->created_wall_ms;
    plog__task_init(&segment->sync, PLOG__TASK_SYNC, slot);
    struct plog__segment *last = plog__segment_last(log);
    CHECK(last == NULL || (last->base < segment->base && last->end <= segment->base));
    base_list_push_back(&log->segments, &segment->link);
    plog__tail_reset(&log->tail);
}

struct plog__segment *plog__segment_make(struct plog *plog, struct plog__log *log, int64_t base)
{
    CHECK(log->flush == PLOG__FLUSH_NONE); /* the tail is about to be the new segment's */
    uint32_t slot = plog__segment_slot_take(plog);
    if (slot == BASE_POOL_NONE) { return NULL; }
    struct plog__segment *segment = base_pool_at(&plog->segments, slot);
    segment->log = plog__log_slot(plog, log);
    segment->base = base;
    segment_begin(plog, log, segment, slot);
    return segment;
}

static struct plog__segment *doomed_next(const struct plog__log *log, const struct plog__segment *segment)
{
    return segment_on(base_list_next(&log->doomed, &segment->link));
}

/* One file of a name: there is one at most. */
struct plog__segment *plog__segment_doomed(const struct plog__log *log, int64_t base)
{
    struct plog__segment *segment = segment_on(base_list_first(&log->doomed));
    while (segment != NULL && segment->base != base) { segment = doomed_next(log, segment); }
    return segment;
}

struct plog__segment *plog__segment_revive(struct plog *plog, struct plog__log *log, int64_t base)
{
    CHECK(plog->life == PLOG__RECOVERING);
    struct plog__segment *segment = plog__segment_doomed(log, base);
    if (segment == NULL) { return NULL; }
    CHECK(segment->pins == 0 && !segment->is_sync_in_flight);
    base_list_remove(&log->doomed, &segment->link);
    base_list_remove(&plog->doomed, &segment->doom);
    uint32_t files[PLOG__SEGMENT_FILES];
    memcpy(files, segment->files, sizeof files);
    uint32_t slot = plog__segment_slot(plog, segment);
    plog__task_take_off(&segment->sync);
    *segment = (struct plog__segment){.log = plog__log_slot(plog, log), .base = base};
    memcpy(segment->files, files, sizeof files);
    segment_begin(plog, log, segment, slot);
    return segment;
}

static void end_wait(struct plog *plog, struct plog__segment *segment)
{
    segment->is_waiting = false;
    segment->dead_at_ns = plog->now_ns;
    plog->reap_at_ns = base_min_u64(plog->reap_at_ns, segment->dead_at_ns);
}

void plog__waits_end(struct plog *plog, struct plog__log *log, int64_t from, int64_t to)
{
    struct plog__segment *segment = segment_on(base_list_first(&log->doomed));
    for (; segment != NULL; segment = doomed_next(log, segment)) {
        if (segment->is_waiting && segment->base >= from && segment->base < to) { end_wait(plog, segment); }
    }
}

struct plog__segment *plog__wait_next(const struct plog__log *log, int64_t from)
{
    struct plog__segment *next = NULL;
    struct plog__segment *segment = segment_on(base_list_first(&log->doomed));
    for (; segment != NULL; segment = doomed_next(log, segment)) {
        if (!segment->is_waiting || segment->base < from) { continue; }
        if (next == NULL || segment->base < next->base) { next = segment; }
    }
    return next;
}

bool plog__segment_wait(struct plog *plog, struct plog__log *log, int64_t base)
{
    CHECK(plog->life == PLOG__RECOVERING);
    plog__waits_end(plog, log, base, INT64_MAX); /* a start before this one ended the log here: they were lost then */
    struct plog__segment *segment = plog__segment_doomed(log, base);
    if (segment == NULL) {
        uint32_t slot = plog__segment_slot_take(plog);
        if (slot == BASE_POOL_NONE) { return false; }
        segment = base_pool_at(&plog->segments, slot);
        *segment = (struct plog__segment){
            .log = plog__log_slot(plog, log), .base = base, .end = base, .is_doomed = true, .is_sealed = true};
        plog__task_init(&segment->sync, PLOG__TASK_SYNC, slot);
        base_list_push_back(&log->doomed, &segment->link);
        base_list_push_back(&plog->doomed, &segment->doom);
    }
    segment->is_waiting = true;
    return true;
}

void plog__segment_free(struct plog *plog, struct plog__log *log, struct plog__segment *segment)
{
    CHECK(segment->pins == 0);
    CHECK(!segment->is_sync_in_flight);
    for (uint32_t which = 0; which < PLOG__SEGMENT_FILES; which++) { CHECK(segment->files[which] == 0); }
    plog__task_take_off(&segment->sync);
    if (segment->is_doomed) {
        base_list_remove(&log->doomed, &segment->link);
        base_list_remove(&plog->doomed, &segment->doom);
    } else {
        base_list_remove(&log->segments, &segment->link);
    }
    plog__segment_slot_give(plog, plog__segment_slot(plog, segment));
}

void plog__times_of_log(struct plog__log *log)
{
    log->timestamp_max = -1;
    log->timestamp_max_offset = -1;
    for (const struct plog__segment *s = plog__segment_first(log); s != NULL; s = plog__segment_next(log, s)) {
        if (s->timestamp_max <= log->timestamp_max) { continue; }
        log->timestamp_max = s->timestamp_max;
        log->timestamp_max_offset = s->timestamp_max_offset;
    }
}

/* It waits for this one to be synced first, or to be gone. */
static void wake_next(struct plog *plog, const struct plog__log *log, const struct plog__segment *segment)
{
    struct plog__segment *next = plog__segment_next(log, segment);
    while (next != NULL && next->size_bytes == 0) { next = plog__segment_next(log, next); }
    if (next != NULL && next->is_sync_wanted) { plog__sync_want(plog, next); }
}

void plog__segment_doom(struct plog *plog, struct plog__log *log, struct plog__segment *segment, uint64_t delay_ms)
{
    CHECK(!segment->is_doomed);
    uint32_t slot = plog__segment_slot(plog, segment);
    if (log->mark_segment == slot) { log->mark_segment = PLOG__NONE; }
    wake_next(plog, log, segment);
    plog__hints_forget(log, slot);
    /* A flush that is under way counts on what it writes; it empties the tail at its end. */
    if (plog__segment_last(log) == segment && log->flush == PLOG__FLUSH_NONE) { plog__tail_reset(&log->tail); }
    log->size_bytes -= segment->size_bytes;
    if (plog__segment_is_damaged(segment)) { log->damaged_count -= 1; }
    base_list_remove(&log->segments, &segment->link);
    base_list_push_back(&log->doomed, &segment->link);
    base_list_push_back(&plog->doomed, &segment->doom);
    segment->is_doomed = true;
    segment->is_sealed = true;
    if (segment->timestamp_max == log->timestamp_max) { plog__times_of_log(log); }
    uint64_t delay_ns = delay_ms > UINT64_MAX / 1000000 ? UINT64_MAX : delay_ms * 1000000;
    segment->dead_at_ns = base_deadline_ns(plog->now_ns, delay_ns);
    plog->reap_at_ns = base_min_u64(plog->reap_at_ns, segment->dead_at_ns);
}

void plog__segment_unpin(struct plog *plog, struct plog__segment *segment)
{
    CHECK(segment->pins > 0);
    segment->pins -= 1;
    if (segment->is_doomed) { plog__task_ready(plog, &plog->reaper.task); }
}

void plog__segment_damage(struct plog__log *log, struct plog__segment *segment, uint64_t from, uint64_t to)
{
    CHECK(from < to);
    if (segment->damage_from == segment->damage_to) {
        segment->damage_from = from;
        segment->damage_to = to;
        if (!segment->is_doomed) { log->damaged_count += 1; }
    } else { /* one range a segment: what lies between two damages is not worth a list */
        segment->damage_from = base_min_u64(segment->damage_from, from);
        segment->damage_to = base_max_u64(segment->damage_to, to);
    }
}

void plog__end_move(struct plog__log *log, int64_t offset)
{
    log->offset_end = offset;
    log->synced_end = offset;
    if (!log->config.is_mark_told) { log->watermark = offset; }
    log->mark_offset = -1;
}

/* ---- syncs: one at a time for each segment ---- */

void plog__sync_want(struct plog *plog, struct plog__segment *segment)
{
    segment->is_sync_wanted = true;
    if (!segment->is_sync_in_flight) { plog__task_ready(plog, &segment->sync); }
}

#define SYNC_TRIES_MAX 50u

/* It can't be opened for its sync: a matter of time, or of the disk, or what is not synced of it is lost. */
static void lose_sync(struct plog *plog, struct plog__log *log, struct plog__segment *segment, enum port_rc rc)
{
    bool may_pass = plog__may_pass(rc);
    if (may_pass || (rc == PORT_IO && segment->sync_tries < SYNC_TRIES_MAX)) {
        segment->sync_tries += may_pass ? 0 : 1;
        plog__file_retry_later(plog, &segment->sync);
        return;
    }
    if (rc == PORT_IO) {
        plog__disk_fail(plog);
        return;
    }
    segment->is_sync_wanted = false;
    if (segment->synced_bytes < segment->size_bytes && !segment->is_doomed) {
        plog__segment_damage(log, segment, segment->synced_bytes, segment->size_bytes);
        segment->synced_bytes = segment->size_bytes;
    }
    /* What was written can't be made durable: nothing after it may be. */
    if (!segment->is_doomed) { plog__log_fail(plog, log); }
    if (plog->capture.state != PLOG__CAPTURE_IDLE) { plog__task_ready(plog, &plog->capture.task); }
}

/* Of a page-cache log nothing but its segments says what was written, and a start keeps nothing that stands behind a hole: they
 * are synced in order. NULL: all before this one is. */
static struct plog__segment *unsynced_before(const struct plog__log *log, const struct plog__segment *segment)
{
    if (!log->config.is_page_cache || segment->is_doomed) { return NULL; }
    struct plog__segment *before = plog__segment_before(log, segment);
    while (before != NULL && before->size_bytes == 0) { before = plog__segment_before(log, before); }
    return before != NULL && before->is_created && before->synced_bytes < before->size_bytes ? before : NULL;
}

void plog__sync_advance(struct plog *plog, struct plog__segment *segment, struct port_out *out)
{
    if (segment->sync.list == &plog->ready) { plog__task_take_off(&segment->sync); }
    if (segment->sync.list != NULL) { return; } /* waits for the file */
    struct plog__log *log = plog__log_at(plog, segment->log);
    /* A deleted log opens nothing: its names may be another's by now. */
    if (segment->is_sync_in_flight || !segment->is_sync_wanted || plog->is_failed || log->is_deleting) {
        plog__file_release(plog, &segment->sync);
        bool is_captured = plog__is_captured(plog, log, PLOG__CAPTURE_SYNC);
        if (log->is_deleting && is_captured) { plog__task_ready(plog, &plog->capture.task); } /* it waited for this */
        if (log->is_deleting) { plog__task_ready(plog, &plog->reaper.task); }                 /* ... and so did this */
        return;
    }
    struct plog__segment *before = unsynced_before(log, segment);
    if (before != NULL) { /* its end, or its doom, brings us back here */
        plog__file_release(plog, &segment->sync);
        if (!before->is_sync_in_flight) { plog__sync_want(plog, before); }
        return;
    }
    enum port_rc rc;
    switch (plog__file_get(plog, log, segment, PLOG__LOG, PORT_OPEN_WRITE, &segment->sync, &rc, out)) {
    case PLOG__WAIT: return;
    case PLOG__FAILED: lose_sync(plog, log, segment, rc); return;
    case PLOG__GOT: break;
    }
    segment->is_sync_wanted = false;
    segment->is_sync_in_flight = true;
    segment->sync_tries = 0;
    segment->sync_covers = segment->size_bytes; /* whole rounds, all completed */
    segment->pins += 1;
    struct port_effect *effect = plog__emit(plog, out, PORT_SYNC, PLOG__TOKEN_SYNC, plog__segment_slot(plog, segment));
    effect->file = plog__file_id(plog, plog__file_of(plog, &segment->sync));
}

void plog__sync_done(struct plog *plog, struct plog__segment *segment, const struct port_event *event,
                     struct port_out *out)
{
    CHECK(segment->is_sync_in_flight);
    segment->is_sync_in_flight = false;
    plog__segment_unpin(plog, segment);
    plog__file_release(plog, &segment->sync);
    if (event->done.rc != PORT_OK) {
        plog__disk_fail(plog);
        return;
    }
    CHECK(segment->sync_covers <= segment->size_bytes);
    segment->synced_bytes = base_max_u64(segment->synced_bytes, segment->sync_covers);
    struct plog__log *log = plog__log_at(plog, segment->log);
    if (!segment->is_doomed) { wake_next(plog, log, segment); }
    plog__rounds_leave(plog, log);
    plog__rounds_finish(plog, log);
    if (log->is_undo_cut) { plog__task_ready(plog, &log->writer); } /* the cut waits for it */
    if (plog->capture.state == PLOG__CAPTURE_SYNC) { plog__task_ready(plog, &plog->capture.task); }
    plog__sync_advance(plog, segment, out);
}

/* A failed sync: nobody knows what the disk holds, and the page cache may show what is not there. */
void plog__disk_fail(struct plog *plog)
{
    if (plog->is_failed) { return; }
    plog->is_failed = true;
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_DISK_FAILED});
    for (uint32_t slot = 0; slot < plog->log_high; slot++) {
        if (!base_pool_is_taken(&plog->logs, slot)) { continue; }
        struct plog__log *log = plog__log_at(plog, slot);
        plog__rounds_give_up(plog, log, PLOG_STORAGE);
        plog__note_mark(plog, log);
    }
    if (plog->capture.state != PLOG__CAPTURE_IDLE) { plog__task_ready(plog, &plog->capture.task); }
}

/* ---- the log start ---- */

enum base_rc plog__start_move(struct plog *plog, struct plog__log *log, int64_t offset)
{
    if (log->is_start_moving || log->is_cutting) { return BASE_FULL; }
    CHECK(offset <= log->watermark);
    log->is_start_moving = true;
    log->start_next = offset;
    log->changes_in_flight += 1;
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_CHANGE,
                                         .slot = plog__log_slot(plog, log),
                                         .change = PLOG_CHANGE_START,
                                         .offset = offset});
    return BASE_OK;
}

/* What lies before the log start goes. */
void plog__start_trim(struct plog *plog, struct plog__log *log)
{
    for (struct plog__segment *segment = plog__segment_first(log); segment != NULL;) {
        struct plog__segment *next = plog__segment_next(log, segment);
        bool is_kept =
            segment->end > log->offset_start || (segment->size_bytes == 0 && segment->base >= log->offset_start);
        /* That retention sealed the last one first, and took its files, is nowhere written: when all was replayed it goes, whoever moved
         * the start. Where the end is still to be looked for, records that nobody named may stand in it: only if its file is gone. */
        bool is_looked_for = log->config.is_page_cache || log->is_suspect;
        bool has_gone = plog->is_recovery_ending && (!is_looked_for || plog__segment_is_damaged(segment));
        bool is_active = next == NULL && !segment->is_sealed && !has_gone;
        if (is_kept || is_active) { break; }
        plog__segment_doom(plog, log, segment, log->config.delete_delay_ms);
        segment = next;
    }
    plog__epochs_cut_front(log, log->offset_start);
}

/* Live and at replay alike. */
void plog__start_apply(struct plog *plog, struct plog__log *log, int64_t offset)
{
    if (offset <= log->offset_start) { return; }
    log->offset_start = offset;
    if (log->offset_end < offset) { /* a page-cache log that lost its end: the offsets below are not given out again */
        plog__end_move(log, offset);
        struct plog__segment *last = plog__segment_last(log);
        if (last != NULL) { last->is_sealed = true; }
    }
    log->watermark = base_max_i64(log->watermark, offset);
    plog__start_trim(plog, log);
    plog__note_mark(plog, log);
}

void plog__start_done(struct plog *plog, struct plog__log *log, enum port_rc rc)
{
    CHECK(log->is_start_moving);
    log->is_start_moving = false;
    if (rc == PORT_OK) { plog__start_apply(plog, log, log->start_next); }
    if (log->is_more_to_retain) { /* a portion is done: at the next sweep the next */
        log->is_more_to_retain = false;
        plog->sweep_at_ns = base_min_u64(plog->sweep_at_ns, plog->now_ns);
    }
    plog__cut_look(plog, log);
    if (log->is_start_asked) {
        log->is_start_asked = false;
        plog__note(plog, (struct plog__note){.kind = PLOG_OUT_STARTED,
                                             .slot = plog__log_slot(plog, log),
                                             .token = log->start_token,
                                             .id = log->id,
                                             .result = rc == PORT_OK ? PLOG_OK : PLOG_STORAGE,
                                             .offset = log->offset_start});
    }
}

enum base_rc plog_move_start(struct plog *plog, struct plog_ref ref, uint64_t token, int64_t offset,
                             struct port_out *out)
{
    plog__begin(plog, out);
    struct plog__log *log = plog__log_of(plog, ref);
    struct plog__note note = {.kind = PLOG_OUT_STARTED, .token = token};
    if (log == NULL) {
        note.result = PLOG_GONE;
    } else if (plog->is_failed || plog->life != PLOG__SERVING) {
        note.result = PLOG_STORAGE;
    } else if (offset > log->watermark || offset < 0) {
        note.result = PLOG_OFFSET_RANGE;
    } else if (offset > log->offset_start) {
        if (plog__start_move(plog, log, offset) != BASE_OK) { return BASE_FULL; }
        log->is_start_asked = true;
        log->start_token = token;
        plog__end(plog, out);
        return BASE_OK;
    }
    if (log != NULL) {
        note.offset = log->offset_start;
        note.id = log->id;
    }
    enum base_rc rc = plog__note_loose(plog, note);
    plog__end(plog, out);
    return rc;
}

/* ---- retention ---- */

static bool is_too_old(const struct plog *plog, const struct plog__log *log, const struct plog__segment *segment)
{
    if (log->config.retention_ms < 0) { return false; }
    /* A record from the future ages from when it was appended. Any other does not: what was replayed while the clock was years
     * behind says that it was appended then; and beside one from the future the segment's first record may know better, too. */
    int64_t born_ms = segment->timestamp_max;
    if (!plog__has_passed(plog, born_ms)) {
        bool is_known = plog__has_passed(plog, segment->timestamp_first);
        born_ms = base_max_i64(segment->last_wall_ms, is_known ? segment->timestamp_first : segment->created_wall_ms);
    } else if (plog__segment_is_damaged(segment)) { /* what is lost of it may be newer than all that is known */
        born_ms = base_max_i64(born_ms, segment->last_wall_ms);
    }
    return plog__age_ms(plog->wall_ms, born_ms) > log->config.retention_ms;
}

/* What a crash may take: it does not count as kept. */
static uint64_t bytes_on_their_way(const struct plog__log *log)
{
    uint64_t bytes = 0;
    for (struct base_link *link = base_list_first(&log->rounds); link != NULL;
         link = base_list_next(&log->rounds, link)) {
        const struct plog__round *round = BASE_ITEM(link, struct plog__round, link);
        if (round->state != PLOG__WRITING) { bytes += round->size_bytes; }
    }
    return bytes;
}

void plog__retain(struct plog *plog, struct plog__log *log)
{
    if (log->config.is_metadata || log->is_deleting || log->is_start_moving || plog->is_failed) { return; }
    if (log->is_cutting || plog->is_retention_held) { return; }
    if (!plog__wall_is_sane(plog)) { return; }
    int64_t start = log->offset_start;
    uint64_t moving_bytes = bytes_on_their_way(log);
    CHECK(log->size_bytes >= moving_bytes);
    uint64_t left_bytes = log->size_bytes - moving_bytes;
    uint32_t left = PLOG__RETAIN_MAX;
    for (struct plog__segment *segment = plog__segment_first(log); segment != NULL && left > 0;
         segment = plog__segment_next(log, segment), left--) {
        if (segment->size_bytes == 0 || segment->end > log->watermark) { break; }
        CHECK(left_bytes >= segment->size_bytes); /* below the watermark nothing is on its way */
        bool is_too_much = log->config.retention_bytes >= 0 &&
                           left_bytes - segment->size_bytes >= (uint64_t)log->config.retention_bytes;
        if (!is_too_old(plog, log, segment) && !is_too_much) { break; }
        if (plog__segment_last(log) == segment && !segment->is_sealed) {
            if (!plog__log_is_idle(log)) { break; }
            plog__seal(plog, log, segment);
        }
        left_bytes -= segment->size_bytes;
        start = segment->end;
    }
    if (start > log->offset_start) {
        enum base_rc rc = plog__start_move(plog, log, start);
        CHECK(rc == BASE_OK);
        log->is_more_to_retain = left == 0;
    }
}
