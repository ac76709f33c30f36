/* plog__scan.c: reads what no journal names: what stands behind the last known byte of a log, and all of a page-cache log.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

#define SCAN_BYTES ((uint64_t)256 * 1024)

/* ---- the scan: what stands after the last known byte, batch by batch, as long as it is whole ----
 *
 * Of a page-cache log the journal names the segments and nothing in them. Where one ends is known when it was read; whether that is
 * where it ended depends on the next one, and what of them counts at all on the log start, which may stand last in the journal. So
 * they wait (plog__segment_wait) until all was replayed, or a truncation has to know, and are read one after another then. */

/* Takes whole good batches off the window. Returns the bytes that the next one needs; 0: the good ones end here. */
static uint64_t adopt(struct plog *plog, struct plog__log *log, struct plog__segment *segment, uint64_t window_bytes,
                      bool is_all)
{
    struct plog__replay *replay = &log->replay;
    uint64_t at = 0;
    uint64_t needs_bytes = 0;
    while (window_bytes - at >= REC_HEADER_BYTES) {
        struct plog__head head;
        if (!plog__head_read(replay->block + at, log->offset_end, &head) || head.base_offset != log->offset_end) {
            break;
        }
        if (head.size_bytes > window_bytes - at) {
            needs_bytes = head.size_bytes;
            break;
        }
        struct base_slice bytes = base_slice_of(replay->block + at, (size_t)head.size_bytes);
        struct rec_batch batch;
        if (rec_batch_view(bytes, &batch) != REC_OK || !rec_crc_is_right(&batch)) { break; }
        plog__replay_land(plog, log, segment, bytes, head.size_bytes, head.offset_last + 1);
        log->unflushed_messages += (uint64_t)(head.offset_last + 1 - head.base_offset);
        log->unflushed_since_ns = base_max_u64(plog->now_ns, 1);
        at += head.size_bytes;
        if (log->flush != PLOG__FLUSH_NONE) { return REC_HEADER_BYTES; } /* the tail is full: written first */
    }
    if (window_bytes - at < REC_HEADER_BYTES && !is_all) { needs_bytes = REC_HEADER_BYTES; }
    return is_all ? 0 : needs_bytes;
}

/* The file ends where the log does, so nothing is there to be kept. What the metadata log lost may never have got to its file. */
static void clear_suspect(struct plog__log *log)
{
    if (!log->config.is_metadata) { log->is_suspect = false; }
}

/* What the start has passed: retention took it, and the files of some of it may be gone, or be back without their ends. */
static struct plog__segment *skip_to_start(struct plog *plog, struct plog__log *log)
{
    struct plog__segment *found = NULL;
    for (struct plog__segment *next = plog__wait_next(log, 0); next != NULL && next->base <= log->start_replayed;
         next = plog__wait_next(log, next->base + 1)) {
        found = next;
    }
    if (found == NULL || found->base <= log->offset_end) { return NULL; }
    plog__waits_end(plog, log, 0, found->base);
    for (struct plog__segment *first = plog__segment_first(log); first != NULL; first = plog__segment_first(log)) {
        plog__segment_doom(plog, log, first, log->config.delete_delay_ms);
    }
    plog__end_move(log, found->base);
    return found;
}

/* The next segment of a page-cache log, which only its entry and its file tell of. False: there is none. */
static bool take_next(struct plog *plog, struct plog__log *log)
{
    struct plog__segment *next = plog__wait_next(log, 0);
    if (next == NULL) { return false; }
    if (next->base != log->offset_end) { next = skip_to_start(plog, log); }
    if (next == NULL) {
        /* What was before it lost its end: as Kafka does, what came later goes too, so that offsets have no hole. */
        plog__waits_end(plog, log, 0, INT64_MAX);
        return false;
    }
    next = plog__segment_revive(plog, log, next->base);
    CHECK(next != NULL);
    plog__replay_be_there(log, next);
    return true;
}

/* The last segment was read as far as it is good. */
static void end_scan(struct plog *plog, struct plog__log *log)
{
    struct plog__segment *last = plog__segment_last(log);
    if (last != NULL && last->size_bytes == 0) { last->is_born = false; } /* no state keeps it */
    if (plog__wait_next(log, 0) == NULL) {
        plog__replay_end(plog, log, PLOG_OK);
        return;
    }
    log->writer.open_rc = PORT_OK;
    plog__file_release(plog, &log->writer);
    log->replay.tries = 0;
    log->replay.needs_bytes = log->replay.done_bytes = 0;
    if (last != NULL && !last->is_sealed) { plog__seal(plog, log, last); }
}

void plog__scan_lose(struct plog *plog, struct plog__log *log, enum port_rc rc)
{
    if (rc != PORT_IO) {
        plog__replay_end(plog, log, rc == PORT_NO_SPACE ? PLOG_NO_SPACE : PLOG_BUSY);
        return;
    }
    log->is_damaged = true; /* nothing is cut of what can't be read, and nothing is appended to it */
    log->is_failed = true;
    plog__replay_end(plog, log, PLOG_DAMAGED);
}

bool plog__scan_tail(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__replay *replay = &log->replay;
    struct plog__segment *segment = plog__segment_last(log);
    if (segment == NULL || segment->is_sealed) {
        if (!take_next(plog, log)) { plog__replay_end(plog, log, PLOG_OK); }
        return true;
    }
    enum port_rc rc;
    switch (plog__file_get(plog, log, segment, PLOG__LOG, PORT_OPEN_WRITE, &log->writer, &rc, out)) {
    case PLOG__WAIT: return false;
    case PLOG__FAILED:
        if (plog__replay_may_try(plog, log, rc)) { return false; }
        if (rc == PORT_MISSING && segment->size_bytes > 0) {
            plog__segment_damage(log, segment, 0, segment->size_bytes);
        }
        if (rc == PORT_MISSING && segment->size_bytes == 0) { segment->is_created = segment->is_named = false; }
        if (rc == PORT_MISSING) {
            end_scan(plog, log);
        } else {
            plog__scan_lose(plog, log, rc);
        }
        return true;
    case PLOG__GOT: break;
    }
    uint64_t file_bytes = plog__file_of(plog, &log->writer)->size_at_open;
    if (file_bytes <= segment->size_bytes) {
        clear_suspect(log);
        end_scan(plog, log);
        return true;
    }
    uint64_t left_bytes = file_bytes - segment->size_bytes;
    uint64_t wanted_bytes = base_min_u64(left_bytes, base_max_u64(SCAN_BYTES, replay->needs_bytes));
    if (left_bytes < replay->needs_bytes) { /* a torn batch */
        end_scan(plog, log);
        return true;
    }
    if (replay->block == NULL || replay->block_bytes < wanted_bytes) {
        if (replay->block != NULL) { base_pages_give(plog->pages, replay->block); }
        replay->block = base_pages_take(plog->pages, BASE_CONTROL, (size_t)wanted_bytes);
        replay->block_bytes = wanted_bytes;
    }
    if (replay->block == NULL) {
        if (plog__replay_may_try(plog, log, PORT_NO_MEMORY)) { return false; }
        plog__replay_end(plog, log, PLOG_BUSY);
        return true;
    }
    replay->window_bytes = wanted_bytes;
    struct port_effect *effect = plog__replay_ask(plog, log, out, PORT_READ);
    effect->position_bytes = segment->size_bytes + replay->done_bytes;
    effect->buffer = replay->block + replay->done_bytes;
    effect->size_bytes = wanted_bytes - replay->done_bytes;
    return false;
}

void plog__scan_done(struct plog *plog, struct plog__log *log, uint64_t count)
{
    struct plog__replay *replay = &log->replay;
    replay->done_bytes += count;
    if (replay->done_bytes < replay->window_bytes && count > 0) { return; }
    struct plog__segment *segment = plog__segment_last(log);
    uint64_t file_bytes = plog__file_of(plog, &log->writer)->size_at_open;
    bool is_all = count == 0 || segment->size_bytes + replay->done_bytes >= file_bytes;
    uint64_t window_bytes = replay->done_bytes;
    replay->done_bytes = 0;
    replay->needs_bytes = adopt(plog, log, segment, window_bytes, is_all);
    if (segment->size_bytes >= file_bytes) { clear_suspect(log); }
    if (replay->needs_bytes == 0) { end_scan(plog, log); }
}

void plog__scan_begin(struct plog *plog, struct plog__log *log)
{
    log->replay = (struct plog__replay){.state = PLOG__REPLAY_TAIL};
    plog->scans_left += 1;
    plog__task_ready(plog, &log->writer);
}
