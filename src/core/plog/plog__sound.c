/* plog__sound.c: what must hold between any two calls, as far as memory shows it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

static bool is_epochs_sound(const struct plog__log *log) /* I7 */
{
    for (uint32_t i = 0; i < log->epoch_count; i++) {
        if (log->epochs[i].offset_start > log->offset_end) { return false; }
        if (i > 0 && (log->epochs[i].epoch <= log->epochs[i - 1].epoch ||
                      log->epochs[i].offset_start <= log->epochs[i - 1].offset_start)) {
            return false;
        }
    }
    return log->epoch_count <= log->epochs_max;
}

static bool is_segments_sound(const struct plog *plog, const struct plog__log *log) /* I8 */
{
    uint64_t size_bytes = 0;
    uint32_t damaged = 0;
    int64_t end = 0;
    for (const struct plog__segment *s = plog__segment_first(log); s != NULL; s = plog__segment_next(log, s)) {
        if (s->base < end || s->end < s->base || s->is_doomed || s->synced_bytes > s->size_bytes) { return false; }
        if (s->sync_covers > s->size_bytes || s->damage_to > s->size_bytes || s->damage_from > s->damage_to) {
            return false;
        }
        if (s->size_bytes > 0 && !s->is_created) { return false; }
        if (plog__log_at(plog, s->log) != log) { return false; }
        end = s->end;
        size_bytes += s->size_bytes;
        damaged += plog__segment_is_damaged(s) ? 1 : 0;
    }
    return size_bytes == log->size_bytes && damaged == log->damaged_count && end <= log->offset_end;
}

static bool is_rounds_sound(const struct plog *plog, const struct plog__log *log)
{
    int64_t end = log->synced_end;
    bool is_writing = false;
    bool has_stayed = false; /* a round that has not left: none after it may have */
    for (struct base_link *link = base_list_first(&log->rounds); link != NULL;
         link = base_list_next(&log->rounds, link)) {
        const struct plog__round *round = BASE_ITEM(link, struct plog__round, link);
        if (is_writing || round->offset_base < end || round->offset_end <= round->offset_base) { return false; }
        if (has_stayed && (round->state == PLOG__LEFT || round->state == PLOG__DURABLE)) { return false; }
        has_stayed = has_stayed || round->state == PLOG__WRITTEN;
        is_writing = round->state == PLOG__WRITING;
        if (is_writing && (log->writing == PLOG__NONE || plog__round_at(plog, log->writing) != round)) { return false; }
        if (is_writing != (round->offset_base >= log->offset_end)) { return false; }
        end = round->offset_end;
    }
    return is_writing == (log->writing != PLOG__NONE);
}

bool plog__log_is_sound(const struct plog *plog, const struct plog__log *log)
{
    if (log->offset_start > log->watermark || log->watermark > log->synced_end) { return false; } /* I3 */
    if (log->synced_end > log->offset_end) { return false; }
    if (!log->config.is_mark_told && log->watermark != log->synced_end) { return false; }
    if (log->writing == PLOG__NONE && log->touched.count > 0) { return false; }
    if (log->tail.index_count > PLOG__TAIL_MAX || log->tail.time_count > PLOG__TAIL_MAX) { return false; }
    if (log->mark_segment != PLOG__NONE && log->mark_bytes > plog__segment_at(plog, log->mark_segment)->size_bytes) {
        return false;
    }
    return is_epochs_sound(log) && is_segments_sound(plog, log) && is_rounds_sound(plog, log);
}

/* Every pin of a file is a task's, and every lease a read's. */
static bool is_files_sound(const struct plog *plog)
{
    uint32_t open = 0;
    uint32_t leased = 0;
    uint32_t closing = 0;
    uint32_t pins = 0;
    for (uint32_t i = 0; i < plog->config.files_max; i++) {
        const struct plog__file *file = &plog->files[i];
        if (file->state == PLOG__FILE_FREE) { continue; }
        open += 1;
        closing += file->state == PLOG__FILE_CLOSING ? 1 : 0;
        leased += file->is_leased ? 1 : 0;
        pins += file->pins;
        if (file->leases > file->pins || (file->state != PLOG__FILE_OPEN && file->pins > 0)) { return false; }
        if (file->state == PLOG__FILE_OPEN && (file->pins == 0) != base_link_is_on(&file->lru)) { return false; }
    }
    uint32_t held = (plog->capture.task.file != 0 ? 1u : 0u) + (plog->reaper.task.file != 0 ? 1u : 0u) +
                    (plog->cutter.task.file != 0 ? 1u : 0u);
    for (uint32_t i = 0; i < plog->logs.fresh; i++) {
        if (base_pool_is_taken(&plog->logs, i)) { held += plog__log_at(plog, i)->writer.file != 0 ? 1 : 0; }
    }
    for (uint32_t i = 0; i < plog->segments.fresh; i++) {
        if (base_pool_is_taken(&plog->segments, i)) { held += plog__segment_at(plog, i)->sync.file != 0 ? 1 : 0; }
    }
    for (uint32_t i = 0; i < plog->reads.fresh; i++) {
        if (!base_pool_is_taken(&plog->reads, i)) { continue; }
        const struct plog__read *read = base_pool_at(&plog->reads, i);
        held += read->task.file != 0 ? 1 : 0;
        if (read->state == PLOG__READ_LEASED && (read->task.file == 0 || read->segment == PLOG__NONE)) { return false; }
    }
    return open == plog->open_count && closing == plog->closing_count && leased == plog->leased_files &&
           open + plog->free_file_count == plog->config.files_max && pins == held;
}

bool plog_is_sound(const struct plog *plog)
{
    for (uint32_t slot = 0; slot < plog->log_high; slot++) {
        if (base_pool_is_taken(&plog->logs, slot) && !plog__log_is_sound(plog, plog__log_at(plog, slot))) {
            return false;
        }
    }
    return is_files_sound(plog) && plog->note_count <= plog->notes_max;
}

bool plog_is_quiet(const struct plog *plog)
{
    return plog->effects_in_flight == 0 && plog->appends.taken_count == 0 && plog->rounds.taken_count == 0 &&
           plog->reads.taken_count == 0 && plog->note_count == 0 && base_list_is_empty(&plog->ready) &&
           base_list_is_empty(&plog->slot_waiters) && base_list_is_empty(&plog->lease_waiters) &&
           plog->capture.state == PLOG__CAPTURE_IDLE && plog->cutting_count == 0;
}

uint32_t plog_blocks(const struct plog *plog)
{
    uint32_t count = plog->reaper.block != NULL ? 1 : 0;
    for (uint32_t i = 0; i < plog->logs.fresh; i++) {
        if (base_pool_is_taken(&plog->logs, i)) { count += plog__log_at(plog, i)->epochs_block != NULL ? 1 : 0; }
    }
    return count;
}
