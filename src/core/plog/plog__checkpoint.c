/* plog__checkpoint.c: captures every log, one after another.
 *
 * A log is captured in an instant when its writer has nothing on the way: then what memory says of it is what its files hold,
 * rounds that the journal has not answered included. These files are synced before the state leaves, so a state never claims
 * more than the disk has; and a run that the state covers already changes nothing when it is replayed.
 *
 * States are of different times, and entries of what came and went meanwhile stand between them: a start may have to hold at once
 * what was never there at once. So while a checkpoint is taken the slots of logs and segments that go are not given to others.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

/* ---- slots ---- */

static uint32_t slot_take(struct base_pool *pool, uint32_t kept)
{
    return pool->taken_count + kept < pool->slots_max ? base_pool_take(pool) : BASE_POOL_NONE;
}

static void slot_give(const struct plog *plog, struct base_pool *pool, uint32_t *kept, uint32_t slot)
{
    base_pool_give(pool, slot);
    if (plog->capture.state != PLOG__CAPTURE_IDLE) { *kept += 1; }
}

uint32_t plog__log_slot_take(struct plog *plog) { return slot_take(&plog->logs, plog->logs_kept); }
uint32_t plog__segment_slot_take(struct plog *plog) { return slot_take(&plog->segments, plog->segments_kept); }
bool plog__has_segment_slot(const struct plog *plog)
{
    return plog->segments.taken_count + plog->segments_kept < plog->segments.slots_max;
}
void plog__log_slot_give(struct plog *plog, uint32_t slot) { slot_give(plog, &plog->logs, &plog->logs_kept, slot); }
void plog__segment_slot_give(struct plog *plog, uint32_t slot)
{
    slot_give(plog, &plog->segments, &plog->segments_kept, slot);
}

/* ---- captures ---- */

static void forget_segment(struct plog *plog)
{
    struct plog__capture *capture = &plog->capture;
    if (capture->segment == PLOG__NONE) { return; }
    plog__segment_unpin(plog, plog__segment_at(plog, capture->segment));
    capture->segment = PLOG__NONE;
}

static void set_segment(struct plog *plog, struct plog__segment *segment)
{
    forget_segment(plog);
    if (segment == NULL) { return; }
    segment->pins += 1;
    plog->capture.segment = plog__segment_slot(plog, segment);
    plog->capture.segment_bytes = segment->size_bytes;
    plog->capture.step = 0;
}

/* Without an end when the disk has failed: a checkpoint without all states must never become the newest. */
static void end_capture(struct plog *plog)
{
    struct plog__capture *capture = &plog->capture;
    forget_segment(plog);
    plog__file_release(plog, &capture->task);
    capture->task.open_rc = PORT_OK;
    if (capture->block != NULL) { base_pages_give(plog->pages, capture->block); }
    capture->block = NULL;
    uint32_t log = capture->log;
    capture->state = PLOG__CAPTURE_IDLE;
    plog->logs_kept = plog->segments_kept = 0;
    if (!plog->is_failed) { plog__note(plog, (struct plog__note){.kind = PLOG_OUT_STATES_END}); }
    if (log < plog->log_high && base_pool_is_taken(&plog->logs, log)) {
        plog__task_ready(plog, &plog__log_at(plog, log)->writer); /* it may have stopped for us */
    }
}

static bool is_quiet(const struct plog__log *log)
{
    return log->asked == PLOG__ASKED_NOTHING && log->writing == PLOG__NONE && log->flush == PLOG__FLUSH_NONE &&
           log->small == PLOG__SMALL_NONE && (!log->needs_undo || log->is_undo_cut) &&
           log->replay.state == PLOG__REPLAY_NONE;
}

/* The next log is captured, or waited for. False: go on. */
static bool capture_next(struct plog *plog)
{
    struct plog__capture *capture = &plog->capture;
    while (capture->log < plog->log_high && !base_pool_is_taken(&plog->logs, capture->log)) { capture->log += 1; }
    if (capture->log >= plog->log_high) {
        end_capture(plog);
        return true;
    }
    struct plog__log *log = plog__log_at(plog, capture->log);
    if (!is_quiet(log)) {
        plog__task_ready(plog, &log->writer); /* it makes us ready when it comes to rest */
        return true;
    }
    uint64_t size_bytes = plog__state_bytes(plog, log);
    capture->block = base_pages_take(plog->pages, BASE_CONTROL, (size_t)size_bytes);
    if (capture->block == NULL) {
        plog__file_retry_later(plog, &capture->task);
        return true;
    }
    capture->block_bytes = plog__state_write(plog, log, capture->block, size_bytes);
    log->captured_cuts = log->cuts;
    log->captured_in = plog->capture_count;
    capture->id = log->id;
    capture->state = PLOG__CAPTURE_SYNC;
    set_segment(plog, plog__segment_last(log));
    plog__task_ready(plog, &log->writer); /* rounds go on beside the syncs */
    return false;
}

static bool sync_index(struct plog *plog, struct plog__segment *segment, struct port_out *out)
{
    struct plog__capture *capture = &plog->capture;
    enum plog__which which = capture->step == 1 ? PLOG__INDEX : PLOG__TIME;
    enum port_rc rc;
    switch (plog__file_get(plog, plog__log_at(plog, segment->log), segment, which, PORT_OPEN_WRITE | PORT_OPEN_CREATE,
                           &capture->task, &rc, out)) {
    case PLOG__WAIT: return true;
    case PLOG__FAILED: /* an index proves itself when it is used: what of it is lost costs a scan */
        segment->is_index_dirty = true;
        capture->step += 1;
        return false;
    case PLOG__GOT: break;
    }
    capture->is_asked = true;
    struct port_effect *effect = plog__emit(plog, out, PORT_SYNC, PLOG__TOKEN_CAPTURE, 0);
    effect->file = plog__file_id(plog, plog__file_of(plog, &capture->task));
    return true;
}

/* From the last segment backwards until one that is synced: they become dirty in order. */
static bool sync_next(struct plog *plog, struct port_out *out)
{
    struct plog__capture *capture = &plog->capture;
    struct plog__log *log = plog__log_at(plog, capture->log);
    struct plog__segment *segment = capture->segment == PLOG__NONE ? NULL : plog__segment_at(plog, capture->segment);
    if (segment == NULL || segment->is_doomed || log->is_deleting) {
        set_segment(plog, NULL);
        plog__file_release(plog, &capture->task);
        capture->state = PLOG__CAPTURE_OUT;
        plog__note(plog, (struct plog__note){.kind = PLOG_OUT_STATE});
        plog__cut_look(plog, log);
        if (log->is_deleting) { plog__task_ready(plog, &plog->reaper.task); } /* it waited for this */
        return true;
    }
    if (capture->step == 0) {
        if (segment->is_created && segment->synced_bytes < capture->segment_bytes) {
            plog__sync_want(plog, segment); /* makes us ready when it is done */
            return true;
        }
        capture->step = segment->is_index_dirty ? 1 : 3;
        segment->is_index_dirty = false;
        return false;
    }
    if (capture->step < 3) { return sync_index(plog, segment, out); }
    struct plog__segment *previous = plog__segment_before(log, segment);
    bool is_clean = previous == NULL || (previous->synced_bytes == previous->size_bytes && !previous->is_index_dirty);
    set_segment(plog, is_clean ? NULL : previous);
    return false;
}

void plog__capture_advance(struct plog *plog, struct port_out *out)
{
    struct plog__capture *capture = &plog->capture;
    for (;;) {
        if (capture->is_asked || capture->task.list != NULL) { return; }
        if (plog->is_failed && capture->state != PLOG__CAPTURE_IDLE && capture->state != PLOG__CAPTURE_OUT) {
            end_capture(plog);
            return;
        }
        if (!plog__may_emit(plog, out)) {
            plog__task_ready(plog, &capture->task);
            return;
        }
        bool waits = true;
        switch (capture->state) {
        case PLOG__CAPTURE_IDLE:
        case PLOG__CAPTURE_OUT: break;
        case PLOG__CAPTURE_NEXT: waits = capture_next(plog); break;
        case PLOG__CAPTURE_SYNC: waits = sync_next(plog, out); break;
        }
        if (waits) { return; }
    }
}

void plog__capture_done(struct plog *plog, const struct port_event *event, struct port_out *out)
{
    struct plog__capture *capture = &plog->capture;
    CHECK(capture->is_asked);
    capture->is_asked = false;
    if (event->done.rc != PORT_OK) { plog__disk_fail(plog); }
    capture->step += 1;
    plog__capture_advance(plog, out);
}

void plog_checkpoint(struct plog *plog, struct port_out *out)
{
    plog__begin(plog, out);
    CHECK(plog->capture.state == PLOG__CAPTURE_IDLE);
    plog->capture.state = PLOG__CAPTURE_NEXT;
    plog->capture.log = 0;
    plog->capture_count += 1;
    plog__task_ready(plog, &plog->capture.task);
    plog__end(plog, out);
}

void plog_checkpointed(struct plog *plog) { plog->capture_whole = plog->capture_count; }

void plog_state_taken(struct plog *plog, struct port_out *out)
{
    struct plog__capture *capture = &plog->capture;
    plog__begin(plog, out);
    CHECK(capture->state == PLOG__CAPTURE_OUT);
    base_pages_give(plog->pages, capture->block);
    capture->block = NULL;
    capture->state = PLOG__CAPTURE_NEXT;
    capture->log += 1;
    plog__task_ready(plog, &capture->task);
    plog__end(plog, out);
}
