/* plog__cutoff.c: what memory knows of a log without its end, live and at replay alike; and the replay of a truncation.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

static void cut_producers(struct plog *plog, struct plog__log *log, int64_t offset_end,
                          const struct plog__cut_facts *facts)
{
    CHECK(base_list_is_empty(&log->touched));
    struct base_link *link = base_list_first(&log->producers);
    while (link != NULL) {
        struct plog__producer *producer = BASE_ITEM(link, struct plog__producer, of_log);
        link = base_list_next(&log->producers, link);
        (void)plog__sequence_cut(&producer->now, offset_end); /* who needs more is among the facts */
        if (producer->now.kept_count == 0) { plog__producer_free(plog, producer); }
    }
    for (uint32_t i = 0; i < facts->producer_count; i++) {
        const struct plog__cut_producer *fact = &facts->producers[i];
        if (fact->now.kept_count == 0) { continue; }
        struct plog__producer *producer = plog__producer_find(plog, plog__log_slot(plog, log), fact->id);
        if (producer == NULL) { producer = plog__producer_make(plog, log, fact->id); }
        if (producer != NULL) { producer->now = fact->now; } /* else as if evicted at once */
    }
}

static uint32_t entries_before(const uint8_t *entries, uint32_t count, size_t entry_bytes, size_t offset_at,
                               int64_t relative)
{
    while (count > 0 && (int64_t)base_get_u32(entries + (count - 1) * entry_bytes + offset_at) >= relative) {
        count -= 1;
    }
    return count;
}

static void cut_index(struct plog__log *log, struct plog__segment *segment, int64_t offset_end, bool was_last,
                      const struct plog__index_cut *index)
{
    struct plog__tail *tail = &log->tail;
    int64_t relative = offset_end - segment->base;
    if (!was_last) { plog__tail_reset(tail); }
    uint32_t times_before = tail->time_count;
    bool is_file_whole = tail->index_count > 0 && (int64_t)base_get_u32(tail->index) < relative;
    tail->index_count = entries_before(tail->index, tail->index_count, PLOG__INDEX_BYTES, 0, relative);
    tail->time_count = entries_before(tail->time, tail->time_count, PLOG__TIME_BYTES, 8, relative);
    tail->since_bytes = 0;
    bool is_known = index != NULL && !index->is_bad;
    if (is_known) {
        segment->index_count = index->index_count;
        segment->time_count = index->time_count;
        tail->time_last = index->time_last;
    } else if (index == NULL && is_file_whole && (tail->time_count > 0 || times_before == 0)) {
        if (tail->time_count > 0) {
            tail->time_last = (int64_t)base_get_u64(tail->time + (size_t)(tail->time_count - 1) * PLOG__TIME_BYTES);
        }
    } else { /* entries begin anew: what is left without one is scanned */
        plog__tail_reset(tail);
        segment->index_count = 0;
        segment->time_count = 0;
    }
    segment->is_index_bad = false;
}

/* The bytes of leases stay: the file is cut when they have come back. */
static void count_leases(struct plog *plog, struct plog__segment *segment)
{
    uint32_t slot = plog__segment_slot(plog, segment);
    for (uint32_t i = 0; i < plog->reads.fresh; i++) {
        if (!base_pool_is_taken(&plog->reads, i)) { continue; }
        struct plog__read *read = base_pool_at(&plog->reads, i);
        bool is_lease = read->state == PLOG__READ_LEASED || read->state == PLOG__READ_ANSWERED;
        if (!is_lease || read->segment != slot || read->is_above) { continue; }
        if (read->position_bytes + read->size_bytes <= segment->size_bytes) { continue; }
        read->is_above = true;
        segment->leases_above += 1;
    }
}

bool plog__cut_must_wait(const struct plog *plog, const struct plog__log *log)
{
    const struct plog__segment *segment = plog__segment_at(plog, log->undo_segment);
    return segment->leases_above > 0 || segment->is_sync_in_flight;
}

static void forget_hints(struct plog__log *log, int64_t offset_end)
{
    for (size_t i = 0; i < PLOG__HINTS; i++) {
        if (log->hints[i].offset_last >= offset_end) { log->hints[i].segment = PLOG__NONE; }
    }
}

static void cut_segment(struct plog__log *log, struct plog__segment *segment, uint64_t position_bytes,
                        int64_t offset_end, const struct plog__cut_facts *facts)
{
    CHECK(position_bytes <= segment->size_bytes);
    log->size_bytes -= segment->size_bytes - position_bytes;
    segment->size_bytes = position_bytes;
    segment->end = offset_end;
    segment->synced_bytes = base_min_u64(segment->synced_bytes, position_bytes);
    /* A sync that runs covers what was there when it was asked for; what is appended from here on is something else. */
    segment->sync_covers = base_min_u64(segment->sync_covers, position_bytes);
    segment->is_sealed = log->config.is_page_cache; /* its bytes beyond this must never be taken in by a scan */
    if (segment->damage_to > position_bytes && plog__segment_is_damaged(segment)) {
        segment->damage_to = position_bytes;
        if (segment->damage_from >= position_bytes) {
            segment->damage_from = segment->damage_to = 0;
            log->damaged_count -= 1;
        }
    }
    if (position_bytes == 0) {
        segment->timestamp_max = segment->timestamp_max_offset = segment->timestamp_first = -1;
        segment->is_born = false;
    } else if (segment->timestamp_max_offset >= offset_end) {
        segment->timestamp_max = facts->timestamp_max;
        segment->timestamp_max_offset = facts->timestamp_max_offset;
    }
}

static void doom_after(struct plog *plog, struct plog__log *log, const struct plog__segment *segment, bool is_live)
{
    struct plog__segment *last = plog__segment_last(log);
    while (last != segment && last != NULL) {
        plog__segment_doom(plog, log, last, is_live ? UINT64_MAX : 0);
        last->is_cut_off = is_live;
        last = plog__segment_last(log);
    }
}

void plog__cut_apply(struct plog *plog, struct plog__log *log, struct plog__segment *segment, uint64_t position_bytes,
                     int64_t offset_end, const struct plog__cut_facts *facts, const struct plog__index_cut *index)
{
    bool is_live = plog->life != PLOG__RECOVERING;
    bool was_last = segment != NULL && plog__segment_last(log) == segment;
    if (segment != NULL && position_bytes == 0 && log->config.is_page_cache) {
        segment = plog__segment_before(log, segment);
        position_bytes = segment == NULL ? 0 : segment->size_bytes;
        was_last = false;
    }
    doom_after(plog, log, segment, is_live);
    if (segment == NULL || (!was_last && position_bytes == segment->size_bytes)) {
        plog__tail_reset(&log->tail);
    } else if (position_bytes < segment->size_bytes) {
        cut_index(log, segment, offset_end, was_last, index);
        cut_segment(log, segment, position_bytes, offset_end, facts);
        segment->needs_cut = !is_live;
        if (is_live) {
            count_leases(plog, segment);
            plog__undo_want(plog, log, segment);
            log->is_undo_cut = true;
        }
    }
    forget_hints(log, offset_end);
    plog__times_of_log(log);
    plog__epochs_cut_end(log, offset_end);
    cut_producers(plog, log, offset_end, facts);
    log->offset_end = offset_end;
    log->synced_end = base_min_i64(log->synced_end, offset_end);
    log->watermark = base_min_i64(log->watermark, offset_end);
    log->mark_offset = -1;
    log->mark_segment = PLOG__NONE;
    log->is_cut = true;
    plog__note_mark(plog, log);
}

enum plog_result plog__cut_replay(struct plog *plog, struct plog__log *log, const struct plog_run *run,
                                  struct base_slice bytes)
{
    struct plog__segment *segment = plog__segment_of(log, run->segment_base);
    if (segment != NULL && segment->base != run->segment_base) {
        segment = run->position_bytes == 0 ? segment : NULL; /* the one that ended there has no records of its own */
    }
    bool is_base = segment != NULL && segment->base == run->segment_base;
    uint64_t position_bytes = is_base || segment == NULL ? run->position_bytes : segment->size_bytes;
    int64_t offset_end = run->offset_base;
    log->cuts = run->cuts;
    log->is_cut = true;
    if (log->leader_epoch < run->leader_epoch) { log->leader_epoch = run->leader_epoch; }
    if (offset_end >=
        log->offset_end) { /* nothing but epochs; or a page-cache log lost more than that, or entries were lost */
        plog__epochs_cut_end(log, offset_end);
        struct plog__segment *last = plog__segment_last(log);
        if (last != NULL && log->config.is_page_cache) { last->is_sealed = true; }
        return PLOG_OK;
    }
    bool is_bad = offset_end < log->offset_start || (segment == NULL && position_bytes > 0) ||
                  (segment != NULL && (position_bytes > segment->size_bytes || offset_end < segment->base));
    if (is_bad) { return PLOG_DAMAGED; }
    struct plog__cut_facts facts = {.timestamp_max = segment == NULL ? -1 : segment->timestamp_max,
                                    .timestamp_max_offset = offset_end - 1};
    uint32_t max = (uint32_t)(bytes.size_bytes / (plog__facts_bytes_of_one() / 16)) + 1;
    struct plog__cut_producer *producers =
        base_pages_take(plog->pages, BASE_CONTROL, (size_t)max * sizeof producers[0]);
    if (producers == NULL) { return PLOG_BUSY; }
    struct plog__cut_facts read;
    enum plog_result result = plog__facts_read(bytes, &read, producers, max) ? PLOG_OK : PLOG_DAMAGED;
    if (result == PLOG_OK) { facts = read; } /* else as much as memory knows */
    for (uint32_t i = 0; i < facts.producer_count; i++) {
        for (uint32_t k = 0; k < facts.producers[i].now.kept_count; k++) {
            if (facts.producers[i].now.kept[k].offset_last >= offset_end) { result = PLOG_DAMAGED; }
        }
    }
    if (result != PLOG_OK) { facts.producer_count = 0; }
    plog__cut_apply(plog, log, segment, position_bytes, offset_end, &facts, NULL);
    base_pages_give(plog->pages, producers);
    return result;
}
