/* plog__cut.c: truncations: what a log is without its end, found before anything changes, then made so in one step.
 *
 * Memory changes in the step in which the change is noted for the journal; no file does before the journal has it: a crash leaves
 * the log as it was, or as it is now. What replay needs to do the same without reading files (the greatest timestamp, producers
 * that records before those in memory speak for) goes along with the change.
 *
 * Producers  a producer keeps those of its last batches that stay. If some went and older ones may stand in the log, they are
 *            looked for, backwards in windows that grow, until five are found, or an older epoch, or the first of the epoch, or
 *            the log's start: what is known of it then is what its records say. At most as many producers as fit
 *            config.run_bytes_max are looked for; the others keep what memory has of them.
 * Limits     one log at a time is scanned; any number waits for the journal. A step of the scan is one chunk.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

#define REACH_FIRST 256u
#define REACH_TIMES 8u
#define REACH_MAX   ((uint64_t)1 << 40)

static struct plog__log *log_of(const struct plog *plog) { return plog__log_at(plog, plog->cutter.log); }

static bool is_ready(const struct plog *plog, const struct plog__log *log)
{
    return log->is_cutting && plog__log_is_idle(log) && !log->is_start_moving && !log->has_epoch &&
           !plog__is_captured(plog, log, PLOG__CAPTURE_SYNC);
}

void plog__cut_look(struct plog *plog, struct plog__log *log)
{
    if (!log->is_cutting || base_link_is_on(&log->cut)) { return; }
    struct plog__cutter *cutter = &plog->cutter;
    bool is_at_it = cutter->state != PLOG__CUT_IDLE && cutter->log == plog__log_slot(plog, log);
    if (!is_at_it && !is_ready(plog, log)) { return; }
    if (!is_at_it) { base_list_push_back(&plog->cuts, &log->cut); }
    plog__task_ready(plog, &cutter->task);
}

enum base_rc plog_truncate(struct plog *plog, struct plog_ref ref, uint64_t token, int64_t offset, struct port_out *out)
{
    plog__begin(plog, out);
    struct plog__log *log = plog__log_of(plog, ref);
    struct plog__note note = {.kind = PLOG_OUT_TRUNCATED, .token = token, .offset = -1};
    if (log == NULL) {
        note.result = PLOG_GONE;
    } else if (plog->is_failed || log->is_failed || plog->life != PLOG__SERVING) {
        note.result = PLOG_STORAGE;
    } else if (log->is_cutting || log->is_start_moving) {
        return BASE_FULL;
    } else {
        log->is_cutting = true;
        log->cut_offset = offset;
        log->cut_token = token;
        plog->cutting_count += 1;
        plog__task_ready(plog, &log->writer);
        plog__cut_look(plog, log);
        out->wants_turn = true;
        plog__end(plog, out);
        return BASE_OK;
    }
    if (log != NULL) { note.id = log->id; }
    enum base_rc rc = plog__note_loose(plog, note);
    plog__end(plog, out);
    return rc;
}

/* ---- ends ---- */

static void end_cut(struct plog *plog, struct plog__log *log, enum plog_result result)
{
    CHECK(log->is_cutting);
    CHECK(plog->cutting_count > 0);
    plog->cutting_count -= 1;
    if (base_link_is_on(&log->cut)) { base_list_remove(&plog->cuts, &log->cut); }
    if (log->cut_block != NULL) { base_pages_give(plog->pages, log->cut_block); }
    log->cut_block = NULL;
    log->is_cutting = false;
    log->is_cut_out = false;
    while (!base_list_is_empty(&log->held)) { base_list_push_back(&log->queue, base_list_pop_front(&log->held)); }
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_TRUNCATED,
                                         .slot = plog__log_slot(plog, log),
                                         .token = log->cut_token,
                                         .id = log->id,
                                         .result = result,
                                         .offset = log->offset_end});
    plog__task_ready(plog, &log->writer);
}

static void look_at(struct plog *plog, struct plog__segment *segment) /* NULL: at none */
{
    struct plog__cutter *cutter = &plog->cutter;
    plog__file_release(plog, &cutter->task);
    if (cutter->segment != PLOG__NONE) { plog__segment_unpin(plog, plog__segment_at(plog, cutter->segment)); }
    cutter->segment = segment == NULL ? PLOG__NONE : plog__segment_slot(plog, segment);
    if (segment != NULL) { segment->pins += 1; }
    cutter->chunk_bytes = 0;
}

static void rest(struct plog *plog)
{
    struct plog__cutter *cutter = &plog->cutter;
    CHECK(!cutter->is_asked);
    look_at(plog, NULL);
    if (cutter->chunk != NULL) { base_pages_give(plog->pages, cutter->chunk); }
    if (cutter->producers != NULL) { base_pages_give(plog->pages, cutter->producers); }
    struct plog__task task = cutter->task;
    CHECK(task.list == NULL && task.file == 0);
    *cutter = (struct plog__cutter){.segment = PLOG__NONE, .target = PLOG__NONE};
    plog__task_init(&cutter->task, PLOG__TASK_CUT, 0);
    if (!base_list_is_empty(&plog->cuts)) { plog__task_ready(plog, &cutter->task); }
}

static void abandon(struct plog *plog, enum plog_result result)
{
    struct plog__log *log = log_of(plog);
    rest(plog);
    end_cut(plog, log, result);
}

void plog__cut_give_up(struct plog *plog, struct plog__log *log)
{
    if (log->is_cut_out) { return; } /* the journal's answer ends it */
    struct plog__cutter *cutter = &plog->cutter;
    if (cutter->state != PLOG__CUT_IDLE && cutter->log == plog__log_slot(plog, log)) {
        plog__task_ready(plog, &cutter->task); /* it sees for itself */
        return;
    }
    end_cut(plog, log, log->is_deleting ? PLOG_GONE : PLOG_STORAGE);
}

/* ---- producers ---- */

static bool gather_producers(struct plog *plog, const struct plog__log *log)
{
    struct plog__cutter *cutter = &plog->cutter;
    uint64_t max = base_min_u64(plog->config.run_bytes_max / plog__facts_bytes_of_one(), UINT16_MAX);
    uint32_t count = 0;
    for (int pass = 0; pass < 2; pass++) { /* counts, then takes */
        count = 0;
        for (struct base_link *link = base_list_first(&log->producers); link != NULL && count + 1 < max;
             link = base_list_next(&log->producers, link)) {
            const struct plog__producer *producer = BASE_ITEM(link, struct plog__producer, of_log);
            struct plog__sequence now = producer->now;
            if (!plog__sequence_cut(&now, log->cut_offset)) { continue; }
            if (pass == 1) {
                cutter->producers[count] =
                    (struct plog__cut_producer){.id = producer->id, .now = now, .found = {.epoch = REC_NO_EPOCH}};
            }
            count += 1;
        }
        if (count == 0) { return true; }
        if (pass == 0) {
            cutter->producers = base_pages_take(plog->pages, BASE_CONTROL, (size_t)count * sizeof cutter->producers[0]);
            if (cutter->producers == NULL) { return false; }
        }
    }
    cutter->producer_count = count;
    cutter->producers_left = count;
    return true;
}

static void hear_producer(struct plog *plog, const struct plog__head *head)
{
    struct plog__cutter *cutter = &plog->cutter;
    if (head->producer_id < 0 || head->offset_last < log_of(plog)->offset_start) { return; }
    for (uint32_t i = 0; i < cutter->producer_count; i++) {
        struct plog__cut_producer *producer = &cutter->producers[i];
        if (producer->id != head->producer_id || producer->is_done) { continue; }
        if (producer->now.kept_count > 0 && head->base_offset >= producer->now.kept[0].base_offset) { continue; }
        if (producer->found.kept_count > 0 && producer->found.epoch != head->producer_epoch) {
            producer->is_epoch_whole = true;
        }
        plog__sequence_apply(&producer->found, head, 0);
    }
}

/* What the window said comes before what is known already. */
static void settle_producer(struct plog__cut_producer *producer)
{
    struct plog__sequence *now = &producer->now, *found = &producer->found;
    if (found->kept_count == 0) { return; }
    bool is_older_epoch = now->kept_count > 0 && now->epoch != found->epoch;
    if (!is_older_epoch) {
        uint8_t room = (uint8_t)(PLOG__BATCHES_KEPT - now->kept_count);
        uint8_t taken = found->kept_count < room ? found->kept_count : room;
        memmove(&now->kept[taken], &now->kept[0], now->kept_count * sizeof now->kept[0]);
        memcpy(&now->kept[0], &found->kept[found->kept_count - taken], taken * sizeof now->kept[0]);
        now->kept_count = (uint8_t)(now->kept_count + taken);
        now->epoch = found->epoch;
    }
    producer->is_done = is_older_epoch || producer->is_epoch_whole || now->kept_count == PLOG__BATCHES_KEPT ||
                        now->kept[0].sequence_first == 0;
    *found = (struct plog__sequence){.epoch = REC_NO_EPOCH};
}

static void settle_producers(struct plog__cutter *cutter)
{
    cutter->producers_left = 0;
    for (uint32_t i = 0; i < cutter->producer_count; i++) {
        if (!cutter->producers[i].is_done) { settle_producer(&cutter->producers[i]); }
        cutter->producers_left += cutter->producers[i].is_done ? 0 : 1;
    }
}

/* ---- the search in an index file: how many entries end before `key`, and the last of them ---- */

static bool is_time(const struct plog__cutter *cutter) { return cutter->state == PLOG__CUT_TIMES; }
static uint32_t entry_bytes_of(const struct plog__cutter *cutter)
{
    return is_time(cutter) ? PLOG__TIME_BYTES : PLOG__INDEX_BYTES;
}

static int64_t entry_offset(const struct plog__cutter *cutter, const struct plog__segment *segment, const uint8_t *at)
{
    return segment->base + base_get_u32(at + (is_time(cutter) ? 8 : 0));
}

static void take_entry(struct plog__cutter *cutter, const struct plog__segment *segment, const uint8_t *at)
{
    cutter->has_best = true;
    cutter->best_offset = entry_offset(cutter, segment, at);
    cutter->best = is_time(cutter) ? base_get_u64(at) : base_get_u32(at + 4);
}

static void search_begin(struct plog *plog, enum plog__cut_state state, int64_t key)
{
    struct plog__cutter *cutter = &plog->cutter;
    const struct plog__segment *segment = plog__segment_at(plog, cutter->segment);
    const struct plog__log *log = log_of(plog);
    cutter->state = state;
    cutter->key = key;
    cutter->has_best = false;
    cutter->low = 0;
    cutter->high = is_time(cutter) ? segment->time_count : segment->index_count;
    cutter->chunk_bytes = 0;
    if (cutter->is_index_bad || segment->is_index_bad) {
        cutter->is_index_bad = true;
        cutter->high = 0;
        return;
    }
    if (plog__segment_last(log) != segment) { return; }
    const struct plog__tail *tail = &log->tail;
    const uint8_t *entries = is_time(cutter) ? tail->time : tail->index;
    uint32_t count = is_time(cutter) ? tail->time_count : tail->index_count;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *at = entries + (size_t)i * entry_bytes_of(cutter);
        if (entry_offset(cutter, segment, at) >= key) { break; }
        take_entry(cutter, segment, at);
        cutter->low = cutter->high; /* all of the file's come before it */
    }
}

static void distrust_index(struct plog__cutter *cutter)
{
    cutter->is_index_bad = true;
    cutter->has_best = false;
    cutter->low = cutter->high = 0;
}

static void ask_read(struct plog *plog, uint64_t position_bytes, uint64_t at_bytes, uint64_t size_bytes,
                     struct port_out *out)
{
    struct plog__cutter *cutter = &plog->cutter;
    cutter->is_asked = true;
    struct port_effect *effect = plog__emit(plog, out, PORT_READ, PLOG__TOKEN_CUT, 0);
    effect->file = plog__file_id(plog, plog__file_of(plog, &cutter->task));
    effect->position_bytes = position_bytes;
    effect->buffer = cutter->chunk + at_bytes;
    effect->size_bytes = size_bytes;
}

/* True: the search has ended. */
static bool search_step(struct plog *plog, struct port_out *out)
{
    struct plog__cutter *cutter = &plog->cutter;
    struct plog__segment *segment = plog__segment_at(plog, cutter->segment);
    if (cutter->low >= cutter->high) { return true; }
    enum port_rc rc;
    switch (plog__file_get(plog, log_of(plog), segment, is_time(cutter) ? PLOG__TIME : PLOG__INDEX,
                           PORT_OPEN_WRITE | PORT_OPEN_CREATE, &cutter->task, &rc, out)) {
    case PLOG__WAIT: return false;
    case PLOG__FAILED: distrust_index(cutter); return true;
    case PLOG__GOT: break;
    }
    if (segment->is_index_bad) {
        distrust_index(cutter);
        return true;
    }
    uint32_t per_chunk = (uint32_t)(PLOG__CHUNK_BYTES / entry_bytes_of(cutter));
    uint32_t middle = cutter->low + (cutter->high - cutter->low) / 2;
    cutter->first = middle > per_chunk / 2 ? middle - per_chunk / 2 : 0;
    if (cutter->first < cutter->low) { cutter->first = cutter->low; }
    uint64_t count = base_min_u64(cutter->high - cutter->first, per_chunk);
    ask_read(plog, (uint64_t)cutter->first * entry_bytes_of(cutter), 0, count * entry_bytes_of(cutter), out);
    return false;
}

static void search_read(struct plog *plog, uint64_t count_bytes)
{
    struct plog__cutter *cutter = &plog->cutter;
    const struct plog__segment *segment = plog__segment_at(plog, cutter->segment);
    uint32_t count = (uint32_t)(count_bytes / entry_bytes_of(cutter));
    if (count == 0) {
        distrust_index(cutter);
        return;
    }
    uint32_t good = 0;
    while (good < count) {
        const uint8_t *at = cutter->chunk + (size_t)good * entry_bytes_of(cutter);
        if (entry_offset(cutter, segment, at) >= cutter->key) { break; }
        take_entry(cutter, segment, at);
        good += 1;
    }
    if (good == 0) {
        cutter->high = cutter->first;
        return;
    }
    cutter->low = cutter->first + good;
    if (good < count) { cutter->high = cutter->low; }
}

/* ---- the scan ---- */

static bool needs_times(const struct plog *plog, const struct plog__segment *segment)
{
    return segment->timestamp_max_offset >= log_of(plog)->cut_offset;
}

static void scan_begin(struct plog *plog, uint64_t position_bytes, int64_t proof_offset)
{
    struct plog__cutter *cutter = &plog->cutter;
    const struct plog__segment *segment = plog__segment_at(plog, cutter->segment);
    cutter->state = PLOG__CUT_SCAN;
    cutter->window_start = position_bytes;
    cutter->position_next = position_bytes;
    cutter->proof_offset = proof_offset;
    cutter->chunk_bytes = 0;
    cutter->has_jumped = false;
    if (cutter->is_target_done) { return; }
    bool has_entry = cutter->has_time_entry && !cutter->is_index_bad;
    cutter->is_time_proved = !needs_times(plog, segment) || !has_entry;
    cutter->timestamp_max = segment->timestamp_max;
    cutter->timestamp_max_offset = segment->timestamp_max_offset;
    if (!needs_times(plog, segment)) { return; }
    cutter->timestamp_max = has_entry ? cutter->time_entry_ms : -1;
    cutter->timestamp_max_offset = has_entry ? cutter->time_entry_offset : -1;
}

/* An index that proved wrong is not used again: this window begins at the segment's first byte. */
static void scan_again(struct plog *plog)
{
    struct plog__cutter *cutter = &plog->cutter;
    plog__segment_at(plog, cutter->segment)->is_index_bad = true;
    cutter->is_index_bad = true;
    for (uint32_t i = 0; i < cutter->producer_count; i++) {
        cutter->producers[i].found = (struct plog__sequence){.epoch = REC_NO_EPOCH};
        cutter->producers[i].is_epoch_whole = false;
    }
    scan_begin(plog, 0, -1);
}

/* The batches before what was scanned, so many offsets back; in the segment before it when this one was scanned whole. */
static void next_window(struct plog *plog)
{
    struct plog__cutter *cutter = &plog->cutter;
    const struct plog__log *log = log_of(plog);
    settle_producers(cutter);
    struct plog__segment *segment = cutter->segment == PLOG__NONE ? NULL : plog__segment_at(plog, cutter->segment);
    int64_t before = cutter->window_first;
    if (segment != NULL && cutter->window_start == 0) {
        segment = plog__segment_before(log, segment);
        cutter->window_start = segment == NULL ? 0 : segment->size_bytes;
        before = segment == NULL ? 0 : segment->end;
        cutter->is_index_bad = false;
    }
    if (cutter->producers_left == 0 || segment == NULL || segment->is_doomed || segment->end <= log->offset_start) {
        look_at(plog, NULL);
        cutter->state = PLOG__CUT_APPLY;
        return;
    }
    cutter->reach = base_min_u64(cutter->reach * REACH_TIMES, REACH_MAX);
    look_at(plog, segment);
    cutter->window_to = cutter->window_start;
    cutter->window_from = base_max_i64(segment->base, before - (int64_t)cutter->reach);
    search_begin(plog, PLOG__CUT_PLACE, cutter->window_from + 1);
}

/* The header at the scan's position; NULL: it is being read, waited for, or the truncation is off. */
static const uint8_t *header(struct plog *plog, struct port_out *out)
{
    struct plog__cutter *cutter = &plog->cutter;
    uint64_t at = cutter->position_next - cutter->chunk_position;
    if (cutter->chunk_bytes > 0 && cutter->position_next >= cutter->chunk_position && at < cutter->chunk_bytes &&
        cutter->chunk_bytes - at >= REC_HEADER_BYTES) {
        return cutter->chunk + at;
    }
    struct plog__segment *segment = plog__segment_at(plog, cutter->segment);
    enum port_rc rc;
    switch (plog__file_get(plog, log_of(plog), segment, PLOG__LOG, PORT_OPEN_WRITE, &cutter->task, &rc, out)) {
    case PLOG__WAIT: return NULL;
    case PLOG__FAILED:
        if (plog__may_pass(rc)) {
            plog__file_retry_later(plog, &cutter->task);
        } else {
            abandon(plog, rc == PORT_MISSING ? PLOG_DAMAGED : PLOG_STORAGE);
        }
        return NULL;
    case PLOG__GOT: break;
    }
    bool is_begun = cutter->chunk_position == cutter->position_next && cutter->chunk_bytes < REC_HEADER_BYTES;
    if (!is_begun) { cutter->chunk_bytes = 0; } /* else the read was short, and goes on */
    cutter->chunk_position = cutter->position_next;
    ask_read(plog, cutter->position_next + cutter->chunk_bytes, cutter->chunk_bytes,
             base_min_u64(PLOG__CHUNK_BYTES, cutter->window_to - cutter->position_next) - cutter->chunk_bytes, out);
    return NULL;
}

static bool is_proved(struct plog__cutter *cutter, const struct plog__head *head)
{
    if (cutter->proof_offset >= 0 && head->offset_last != cutter->proof_offset) { return false; }
    cutter->proof_offset = -1;
    if (cutter->is_target_done || cutter->is_time_proved) { return true; }
    if (head->offset_last > cutter->time_entry_offset) { return false; }
    if (head->offset_last < cutter->time_entry_offset) { return true; }
    cutter->is_time_proved = true;
    return head->max_timestamp_ms == cutter->time_entry_ms;
}

/* The log ends where this batch begins. */
static void found_end(struct plog *plog, uint64_t position_bytes, int64_t offset_end)
{
    struct plog__cutter *cutter = &plog->cutter;
    cutter->position_bytes = position_bytes;
    cutter->offset_end = offset_end;
    cutter->is_target_done = true;
    cutter->is_target_index_bad = cutter->is_index_bad;
    next_window(plog);
}

static void scan_step(struct plog *plog, struct port_out *out)
{
    struct plog__cutter *cutter = &plog->cutter;
    const struct plog__segment *segment = plog__segment_at(plog, cutter->segment);
    if (cutter->position_next >= segment->damage_from && cutter->position_next < segment->damage_to) {
        cutter->position_next = segment->damage_to;
        cutter->has_jumped = true;
    }
    bool is_end = cutter->position_next + REC_HEADER_BYTES > cutter->window_to;
    const uint8_t *at = is_end ? NULL : header(plog, out);
    if (at == NULL && !is_end) { return; }
    struct plog__head head;
    bool is_head = !is_end && plog__head_read(at, segment->base, &head) &&
                   head.size_bytes <= cutter->window_to - cutter->position_next;
    bool is_by_index = cutter->proof_offset >= 0 || (!cutter->is_target_done && !cutter->is_time_proved);
    if (is_by_index && (!is_head || !is_proved(cutter, &head))) {
        scan_again(plog);
    } else if (cutter->is_target_done) {
        if (!is_head) { /* what can't be read speaks for nobody */
            next_window(plog);
            return;
        }
        if (cutter->position_next == cutter->window_start) { cutter->window_first = head.base_offset; }
        hear_producer(plog, &head);
        cutter->position_next += head.size_bytes;
    } else if (!is_head || (cutter->has_jumped && head.base_offset > log_of(plog)->cut_offset)) {
        abandon(plog, PLOG_DAMAGED); /* where the offset stands is not known */
    } else {
        if (cutter->position_next == cutter->window_start) { cutter->window_first = head.base_offset; }
        if (head.offset_last >= log_of(plog)->cut_offset) {
            found_end(plog, cutter->position_next, head.base_offset);
            return;
        }
        if (head.max_timestamp_ms > cutter->timestamp_max) {
            cutter->timestamp_max = head.max_timestamp_ms;
            cutter->timestamp_max_offset = head.offset_last;
        }
        hear_producer(plog, &head);
        cutter->position_next += head.size_bytes;
    }
}

/* ---- the change ---- */

/* False: no memory, and nothing has changed. */
static bool leave(struct plog *plog, struct plog__log *log)
{
    struct plog__cutter *cutter = &plog->cutter;
    struct plog__cut_facts facts = {.timestamp_max = cutter->timestamp_max,
                                    .timestamp_max_offset = cutter->timestamp_max_offset,
                                    .producers = cutter->producers,
                                    .producer_count = cutter->producer_count};
    uint64_t size_bytes = plog__facts_bytes(&facts);
    log->cut_block = base_pages_take(plog->pages, BASE_CONTROL, (size_t)size_bytes);
    if (log->cut_block == NULL) { return false; }
    plog__facts_write(&facts, log->cut_block, size_bytes);
    log->cut_piece = (struct port_piece){.kind = PORT_MEMORY, .at = log->cut_block, .size_bytes = size_bytes};
    struct plog__segment *target = cutter->target == PLOG__NONE ? NULL : plog__segment_at(plog, cutter->target);
    log->cut_segment_base = target == NULL ? cutter->offset_end : target->base;
    log->cut_position_bytes = cutter->position_bytes;
    struct plog__index_cut index = {.index_count = cutter->index_count,
                                    .time_count = cutter->time_count,
                                    .time_last = cutter->has_time_entry ? cutter->time_entry_ms : -1,
                                    .is_bad = cutter->is_target_index_bad};
    log->cuts = (uint16_t)(log->cuts + 1);
    plog__cut_apply(plog, log, target, cutter->position_bytes, cutter->offset_end, &facts, &index);
    log->is_cut_out = true;
    log->changes_in_flight += 1;
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_CHANGE,
                                         .slot = plog__log_slot(plog, log),
                                         .change = PLOG_CHANGE_TRUNCATE,
                                         .offset = log->offset_end});
    return true;
}

void plog__cut_journalled(struct plog *plog, struct plog__log *log, enum port_rc rc)
{
    CHECK(log->is_cut_out);
    for (struct base_link *link = base_list_first(&log->doomed); link != NULL;
         link = base_list_next(&log->doomed, link)) {
        struct plog__segment *segment = BASE_ITEM(link, struct plog__segment, link);
        if (segment->is_cut_off && rc == PORT_OK) { segment->dead_at_ns = plog->now_ns; }
        segment->is_cut_off = false;
    }
    end_cut(plog, log, rc == PORT_OK ? PLOG_OK : PLOG_STORAGE);
}

/* ---- all of it ---- */

/* False: it waits for memory. */
static bool begin(struct plog *plog, struct plog__log *log)
{
    struct plog__cutter *cutter = &plog->cutter;
    if (!is_ready(plog, log)) { return true; } /* whoever keeps it looks again */
    /* An epoch that began here and has no record goes even if nothing else does (KAFKA-10706). */
    bool has_empty_epoch = log->epoch_count > 0 && log->epochs[log->epoch_count - 1].offset_start >= log->offset_end;
    if (log->cut_offset < log->offset_start || (log->cut_offset >= log->offset_end && !has_empty_epoch)) {
        end_cut(plog, log, log->cut_offset < log->offset_start ? PLOG_OFFSET_RANGE : PLOG_OK);
        return true;
    }
    log->cut_offset = base_min_i64(log->cut_offset, log->offset_end);
    cutter->log = plog__log_slot(plog, log);
    if (cutter->chunk == NULL) { cutter->chunk = base_pages_take(plog->pages, BASE_CONTROL, PLOG__CHUNK_BYTES); }
    if (cutter->chunk == NULL || !gather_producers(plog, log)) { return false; }
    struct plog__segment *segment = plog__segment_of(log, log->cut_offset);
    cutter->target = segment == NULL ? PLOG__NONE : plog__segment_slot(plog, segment);
    cutter->reach = REACH_FIRST / REACH_TIMES;
    cutter->offset_end = log->cut_offset;
    cutter->timestamp_max = -1;
    cutter->timestamp_max_offset = -1;
    look_at(plog, segment);
    if (segment != NULL && log->cut_offset > segment->base && log->cut_offset < segment->end) {
        search_begin(plog, PLOG__CUT_TIMES, log->cut_offset);
        return true;
    }
    cutter->is_target_done = true;
    if (segment != NULL && log->cut_offset >= segment->end) { /* in a hole, or between two */
        cutter->offset_end = segment->end;
        cutter->position_bytes = segment->size_bytes;
        cutter->window_start = segment->size_bytes;
        cutter->window_first = segment->end;
    }
    next_window(plog);
    return true;
}

static void step(struct plog *plog, struct port_out *out)
{
    struct plog__cutter *cutter = &plog->cutter;
    struct plog__log *log = log_of(plog);
    switch (cutter->state) {
    case PLOG__CUT_IDLE: return;
    case PLOG__CUT_TIMES:
        if (!search_step(plog, out)) { return; }
        cutter->time_count = cutter->low;
        cutter->has_time_entry = cutter->has_best;
        cutter->time_entry_ms = (int64_t)cutter->best;
        cutter->time_entry_offset = cutter->best_offset;
        search_begin(plog, PLOG__CUT_COUNT, log->cut_offset);
        return;
    case PLOG__CUT_COUNT: {
        if (!search_step(plog, out)) { return; }
        struct plog__segment *segment = plog__segment_at(plog, cutter->segment);
        cutter->index_count = cutter->low;
        cutter->window_to = segment->size_bytes;
        cutter->window_from = log->cut_offset;
        if (needs_times(plog, segment)) {
            cutter->window_from = cutter->has_time_entry ? cutter->time_entry_offset : segment->base;
        }
        search_begin(plog, PLOG__CUT_PLACE, cutter->window_from + 1);
        return;
    }
    case PLOG__CUT_PLACE: {
        if (!search_step(plog, out)) { return; }
        bool is_place = cutter->has_best && cutter->best + REC_HEADER_BYTES <= cutter->window_to;
        scan_begin(plog, is_place ? cutter->best : 0, is_place ? cutter->best_offset : -1);
        return;
    }
    case PLOG__CUT_SCAN: scan_step(plog, out); return;
    case PLOG__CUT_APPLY: return;
    }
}

void plog__cut_advance(struct plog *plog, struct port_out *out)
{
    struct plog__cutter *cutter = &plog->cutter;
    for (uint32_t i = 0;; i++) {
        if (cutter->task.list == &plog->ready) { plog__task_take_off(&cutter->task); }
        if (cutter->is_asked || cutter->task.list != NULL) { return; }
        if (!plog__may_emit(plog, out) || i >= plog->config.step_max * 64) {
            plog__task_ready(plog, &cutter->task);
            return;
        }
        if (cutter->state == PLOG__CUT_IDLE) {
            struct base_link *link = base_list_pop_front(&plog->cuts);
            if (link == NULL) { return; }
            struct plog__log *log = BASE_ITEM(link, struct plog__log, cut);
            if (!begin(plog, log)) {
                base_list_push_front(&plog->cuts, &log->cut);
                plog__file_retry_later(plog, &cutter->task);
                return;
            }
            continue;
        }
        struct plog__log *log = log_of(plog);
        if (plog->is_failed || log->is_failed || log->is_deleting) {
            abandon(plog, log->is_deleting ? PLOG_GONE : PLOG_STORAGE);
            continue;
        }
        if (cutter->state != PLOG__CUT_APPLY) {
            step(plog, out);
            continue;
        }
        if (plog__is_captured(plog, log, PLOG__CAPTURE_SYNC)) { return; } /* it looks again when its files are synced */
        if (!leave(plog, log)) {
            plog__file_retry_later(plog, &cutter->task);
            return;
        }
        rest(plog);
    }
}

void plog__cut_done(struct plog *plog, const struct port_event *event, struct port_out *out)
{
    struct plog__cutter *cutter = &plog->cutter;
    CHECK(cutter->is_asked);
    cutter->is_asked = false;
    uint64_t count = event->done.rc == PORT_OK ? event->done.count : 0;
    if (cutter->state != PLOG__CUT_SCAN) {
        search_read(plog, base_min_u64(count, PLOG__CHUNK_BYTES));
    } else if (count == 0) { /* below what was written */
        abandon(plog, event->done.rc == PORT_OK ? PLOG_DAMAGED : PLOG_STORAGE);
    } else {
        cutter->chunk_bytes += base_min_u64(count, PLOG__CHUNK_BYTES - cutter->chunk_bytes);
    }
    plog__cut_advance(plog, out);
}
