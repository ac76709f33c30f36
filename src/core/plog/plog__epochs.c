/* plog__epochs.c: where each leader epoch began, as Kafka's LeaderEpochFileCache keeps it.
 *
 * Invariant  epochs and start offsets both rise strictly. An epoch without records gives way to the next one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

void plog__epochs_init(struct plog__log *log)
{
    log->epochs = log->epochs_inline;
    log->epochs_max = PLOG__EPOCHS_INLINE;
    log->epoch_count = 0;
    log->epochs_block = NULL;
}

void plog__epochs_free(struct plog *plog, struct plog__log *log)
{
    if (log->epochs_block != NULL) { base_pages_give(plog->pages, log->epochs_block); }
    plog__epochs_init(log);
}

bool plog__epochs_reserve(struct plog *plog, struct plog__log *log, uint32_t count)
{
    if (count <= log->epochs_max) { return true; }
    if (count > PLOG__EPOCHS_MAX) { return false; }
    size_t size_bytes = (size_t)count * sizeof(struct plog__epoch);
    struct plog__epoch *larger = base_pages_take(plog->pages, BASE_CONTROL, size_bytes);
    if (larger == NULL) { return false; }
    memcpy(larger, log->epochs, (size_t)log->epoch_count * sizeof *larger);
    if (log->epochs_block != NULL) { base_pages_give(plog->pages, log->epochs_block); }
    log->epochs_block = larger;
    log->epochs = larger;
    log->epochs_max = (uint32_t)(base_pages_block_bytes(plog->pages, larger) / sizeof *larger);
    return true;
}

void plog__epochs_assign(struct plog *plog, struct plog__log *log, int32_t epoch, int64_t offset_start)
{
    if (log->epoch_count > 0 && log->epochs[log->epoch_count - 1].epoch == epoch) { return; }
    while (log->epoch_count > 0) {
        const struct plog__epoch *last = &log->epochs[log->epoch_count - 1];
        if (last->epoch < epoch && last->offset_start < offset_start) { break; }
        log->epoch_count -= 1;
    }
    if (!plog__epochs_reserve(plog, log, log->epoch_count + 1)) {
        /* The oldest epoch is the one that fewest will ask for; the next one then answers for it. */
        memmove(&log->epochs[0], &log->epochs[1], (size_t)(log->epoch_count - 1) * sizeof log->epochs[0]);
        log->epoch_count -= 1;
    }
    log->epochs[log->epoch_count] = (struct plog__epoch){.epoch = epoch, .offset_start = offset_start};
    log->epoch_count += 1;
    log->is_epochs_dirty = true;
}

void plog__epochs_cut_front(struct plog__log *log, int64_t offset_start)
{
    uint32_t gone = 0; /* the last epoch that began at or before the new start stays, and begins there */
    while (gone + 1 < log->epoch_count && log->epochs[gone + 1].offset_start <= offset_start) { gone += 1; }
    if (gone > 0) {
        memmove(&log->epochs[0], &log->epochs[gone], (size_t)(log->epoch_count - gone) * sizeof log->epochs[0]);
        log->epoch_count -= gone;
        log->is_epochs_dirty = true;
    }
    if (log->epoch_count > 0 && log->epochs[0].offset_start < offset_start) {
        log->epochs[0].offset_start = offset_start;
        log->is_epochs_dirty = true;
    }
}

/* An epoch that begins at the end of what is left has no record any more (LeaderEpochFileCache.truncateFromEnd). */
void plog__epochs_cut_end(struct plog__log *log, int64_t offset_end)
{
    while (log->epoch_count > 0 && log->epochs[log->epoch_count - 1].offset_start >= offset_end) {
        log->epoch_count -= 1;
        log->is_epochs_dirty = true;
    }
}

/* ---- an epoch of this replica's leadership ---- */

void plog__epoch_look(struct plog *plog, struct plog__log *log)
{
    if (!log->has_epoch || log->is_epoch_out) { return; }
    if (!plog__rounds_have_left(log)) { return; } /* the journal has what stands before it first */
    if (plog->is_failed || log->is_failed || log->is_deleting) { return; } /* the writer ends it */
    plog__epochs_assign(plog, log, log->epoch_next, log->offset_end);
    log->epoch_start = log->epochs[log->epoch_count - 1].offset_start;
    log->is_epoch_out = true;
    log->changes_in_flight += 1;
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_CHANGE,
                                         .slot = plog__log_slot(plog, log),
                                         .change = PLOG_CHANGE_EPOCH,
                                         .offset = log->epoch_start,
                                         .token = (uint32_t)log->epoch_next});
}

void plog__epoch_done(struct plog *plog, struct plog__log *log, enum plog_result result)
{
    CHECK(log->has_epoch);
    log->has_epoch = false;
    log->is_epoch_out = false;
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_EPOCH,
                                         .slot = plog__log_slot(plog, log),
                                         .token = log->epoch_token,
                                         .id = log->id,
                                         .result = result,
                                         .offset = log->epoch_start});
    if (log->is_cutting) { plog__cut_look(plog, log); }
}

enum base_rc plog_begin_epoch(struct plog *plog, struct plog_ref ref, uint64_t token, int32_t epoch,
                              struct port_out *out)
{
    plog__begin(plog, out);
    struct plog__log *log = plog__log_of(plog, ref);
    struct plog__note note = {.kind = PLOG_OUT_EPOCH, .token = token, .offset = -1};
    if (log == NULL) {
        note.result = PLOG_GONE;
    } else if (plog->is_failed || log->is_failed || plog->life != PLOG__SERVING) {
        note.result = PLOG_STORAGE;
    } else if (epoch < log->leader_epoch || epoch < 0) {
        note.result = PLOG_OLD_EPOCH;
    } else if (log->has_epoch || log->is_cutting) {
        return BASE_FULL;
    } else {
        log->leader_epoch = epoch;
        log->has_epoch = true;
        log->epoch_next = epoch;
        log->epoch_token = token;
        plog__epoch_look(plog, log);
        plog__task_ready(plog, &log->writer); /* appends of an earlier epoch fail now */
        plog__end(plog, out);
        return BASE_OK;
    }
    if (log != NULL) { note.id = log->id; }
    enum base_rc rc = plog__note_loose(plog, note);
    plog__end(plog, out);
    return rc;
}

void plog_epoch_end(const struct plog *plog, struct plog_ref ref, int32_t epoch, int32_t *epoch_out,
                    int64_t *offset_end_out)
{
    *epoch_out = -1;
    *offset_end_out = -1;
    const struct plog__log *log = plog__log_of(plog, ref);
    if (log == NULL || epoch < 0 || log->epoch_count == 0) { return; }
    const struct plog__epoch *last = &log->epochs[log->epoch_count - 1];
    if (epoch == last->epoch) {
        *epoch_out = epoch;
        *offset_end_out = log->offset_end;
        return;
    }
    if (epoch > last->epoch) { return; } /* from an epoch that we have not seen */
    uint32_t higher = 0;
    while (log->epochs[higher].epoch <= epoch) { higher += 1; }
    *epoch_out = higher == 0 ? epoch : log->epochs[higher - 1].epoch;
    *offset_end_out = log->epochs[higher].offset_start;
}
