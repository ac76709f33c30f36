/* plog__read.c: where an offset or a time stands, and the lease on what is read.
 *
 * An index is a hint: the batch that it names must end with the offset that it names, or it is not used again and the scan
 * begins at the segment's first byte. What memory knows (recent batches, the tail of the last segment's index) needs no file.
 * Where a watermark that was told stands in its segment is looked for first, in the same way. A read that meets a truncation on
 * its way begins anew; one that is answered keeps its range: the file is cut when its lease has come back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

#define PROBES_MAX       64u
#define OPENED_BYTES_MAX ((size_t)256 << 20)

/* ---- slots ---- */

void plog__hint_add(struct plog__log *log, const struct plog__segment *segment, uint32_t segment_slot,
                    uint64_t position_bytes, const struct plog__head *head)
{
    (void)segment;
    for (size_t i = 0; i < PLOG__HINTS; i++) {
        if (log->hints[i].segment == segment_slot && log->hints[i].position_bytes == position_bytes) { return; }
    }
    log->hints[log->hint_next] = (struct plog__hint){.offset_base = head->base_offset,
                                                     .offset_last = head->offset_last,
                                                     .segment = segment_slot,
                                                     .size_bytes = (uint32_t)head->size_bytes,
                                                     .position_bytes = position_bytes};
    log->hint_next = (log->hint_next + 1) % PLOG__HINTS;
}

void plog__hints_forget(struct plog__log *log, uint32_t segment_slot)
{
    for (size_t i = 0; i < PLOG__HINTS; i++) {
        if (log->hints[i].segment == segment_slot) { log->hints[i].segment = PLOG__NONE; }
    }
}

static void pin_segment(struct plog *plog, struct plog__read *read, struct plog__segment *segment)
{
    CHECK(read->segment == PLOG__NONE);
    segment->pins += 1;
    read->segment = plog__segment_slot(plog, segment);
}

static void unpin_segment(struct plog *plog, struct plog__read *read)
{
    if (read->segment == PLOG__NONE) { return; }
    struct plog__segment *segment = plog__segment_at(plog, read->segment);
    if (read->is_above) {
        CHECK(segment->leases_above > 0);
        segment->leases_above -= 1;
        read->is_above = false;
        if (segment->leases_above == 0) { plog__task_ready(plog, &plog__log_at(plog, segment->log)->writer); }
    }
    plog__segment_unpin(plog, segment);
    read->segment = PLOG__NONE;
}

static void drop_buffers(struct plog *plog, struct plog__read *read)
{
    if (read->chunk != NULL) { base_pages_give(plog->pages, read->chunk); }
    if (read->block != NULL) { base_pages_give(plog->pages, read->block); }
    read->chunk = NULL;
    read->block = NULL;
}

void plog__read_free(struct plog *plog, struct plog__read *read)
{
    CHECK(!read->is_asked);
    drop_buffers(plog, read);
    plog__file_release(plog, &read->task);
    plog__task_take_off(&read->task);
    unpin_segment(plog, read);
    if (read->log != PLOG__NONE) {
        struct plog__log *log = plog__log_at(plog, read->log);
        CHECK(log->reads > 0);
        log->reads -= 1;
        if (log->is_deleting) { plog__task_ready(plog, &plog->reaper.task); }
    }
    base_pool_give(&plog->reads, base_pool_index(&plog->reads, read));
}

static void answer(struct plog *plog, struct plog__read *read, enum plog_result result)
{
    CHECK(!read->is_asked);
    read->state = PLOG__READ_ANSWERED;
    read->result = result;
    read->task.open_rc = PORT_OK;
    if (read->log != PLOG__NONE) {
        const struct plog__log *log = plog__log_at(plog, read->log);
        read->watermark = log->watermark;
        read->offset_start = log->offset_start;
    }
    bool is_lease = result == PLOG_OK && read->kind == PLOG__READ_RANGE && read->size_bytes > 0;
    if (!is_lease) {
        if (read->chunk != NULL) { base_pages_give(plog->pages, read->chunk); }
        read->chunk = NULL;
        plog__file_release(plog, &read->task);
        unpin_segment(plog, read);
    } else {
        drop_buffers(plog, read);
    }
    if (result != PLOG_OK || read->kind != PLOG__READ_BYTES) {
        drop_buffers(plog, read);
        if (!is_lease) { read->size_bytes = 0; }
    }
    plog__note(plog, (struct plog__note){.kind = read->kind == PLOG__READ_TIME ? PLOG_OUT_TIME : PLOG_OUT_READ,
                                         .slot = base_pool_index(&plog->reads, read)});
}

/* Bytes that were written are not there, or are not what was written. */
static void answer_damaged(struct plog *plog, struct plog__read *read)
{
    struct plog__log *log = plog__log_at(plog, read->log);
    log->is_damaged = true;
    plog__note_mark(plog, log);
    answer(plog, read, PLOG_DAMAGED);
}

void plog__read_note(struct plog *plog, struct plog__read *read, struct plog_out *out)
{
    CHECK(read->state == PLOG__READ_ANSWERED);
    out->token = read->ask.token;
    out->result = read->result;
    out->offset = read->kind == PLOG__READ_TIME ? read->offset : read->ask.offset;
    out->timestamp_ms = read->answer_timestamp;
    out->leader_epoch = read->answer_epoch;
    out->watermark = read->watermark;
    out->offset_start = read->offset_start;
    if (read->log != PLOG__NONE) {
        const struct plog__log *log = plog__log_at(plog, read->log);
        out->ref = (struct plog_ref){.slot = read->log, .generation = log->generation};
        out->id = log->id;
    }
    out->size_bytes = read->size_bytes;
    out->first_batch_bytes = read->batch_bytes;
    if (read->kind == PLOG__READ_BYTES) {
        out->block = read->size_bytes > 0 ? read->block : NULL;
        read->block = NULL; /* the caller's now */
    }
    if (read->segment != PLOG__NONE) {
        out->file = plog__file_id(plog, plog__file_of(plog, &read->task));
        out->position_bytes = read->position_bytes;
        out->lease = (uint64_t)read->generation << 32 | (base_pool_index(&plog->reads, read) + 1);
        read->state = PLOG__READ_LEASED;
        return;
    }
    plog__read_free(plog, read);
}

void plog_release(struct plog *plog, uint64_t lease, struct port_out *out)
{
    plog__begin(plog, out);
    uint32_t slot = (uint32_t)lease - 1;
    struct plog__read *read = base_pool_at(&plog->reads, slot);
    CHECK(read->state == PLOG__READ_LEASED);
    CHECK(read->generation == (uint32_t)(lease >> 32)); /* given back once */
    plog__read_free(plog, read);
    plog__end(plog, out);
}

/* ---- where it may be ---- */

static uint64_t limit_of(const struct plog *plog, const struct plog__read *read, const struct plog__segment *segment)
{
    if (read->ask.is_end_unlimited || segment->end <= read->mark_offset) { return segment->size_bytes; }
    if (segment->base >= read->mark_offset) { return 0; }
    return plog__segment_slot(plog, segment) == read->mark_segment ? read->mark_bytes : 0;
}

static void scan_from(struct plog__read *read, uint64_t position_bytes)
{
    read->state = PLOG__READ_SCAN;
    read->position_bytes = position_bytes;
    read->is_by_index = false;
    read->proof_offset = -1;
    read->proof_time_offset = -1;
    read->chunk_bytes = 0;
}

static void search_begin(struct plog__read *read, const struct plog__segment *segment, bool is_time, int64_t key)
{
    read->state = PLOG__READ_INDEX;
    read->chunk_bytes = 0;
    read->search = (struct plog__search){.high = is_time ? segment->time_count : segment->index_count,
                                         .is_time = is_time,
                                         .key = key};
}

/* Without an index: the nearest batch before the target that is remembered, or the segment's first. */
static uint64_t place_before(const struct plog__log *log, const struct plog__read *read)
{
    uint64_t place_bytes = 0;
    for (size_t i = 0; i < PLOG__HINTS; i++) {
        const struct plog__hint *hint = &log->hints[i];
        if (hint->segment != read->segment || hint->offset_base > read->target) { continue; }
        if (hint->position_bytes < read->limit_bytes) { place_bytes = base_max_u64(place_bytes, hint->position_bytes); }
    }
    return place_bytes;
}

/* The target's offset is known: how to come near it with the least work. */
static void seek(struct plog__read *read, struct plog__log *log, struct plog__segment *segment)
{
    int64_t offset_last;
    uint64_t position;
    bool is_last = plog__segment_last(log) == segment;
    if (is_last && plog__tail_find(log, segment, read->target, &offset_last, &position) &&
        position < read->limit_bytes) {
        scan_from(read, position);
        read->is_by_index = true;
        read->proof_offset = offset_last;
    } else if (segment->index_count > 0 && !segment->is_index_bad && read->target > segment->base) {
        search_begin(read, segment, false, read->target);
    } else {
        scan_from(read, place_before(log, read));
    }
}

static void find_by_hint(const struct plog__log *log, struct plog__read *read)
{
    for (size_t i = 0; i < PLOG__HINTS; i++) {
        const struct plog__hint *hint = &log->hints[i];
        if (hint->segment != read->segment || hint->offset_base > read->target || hint->offset_last < read->target) {
            continue;
        }
        if (hint->position_bytes + hint->size_bytes > read->limit_bytes) { continue; }
        read->position_bytes = hint->position_bytes;
        read->batch_bytes = hint->size_bytes;
        read->state = PLOG__READ_FETCH;
        return;
    }
}

/* The segment in which the watermark stands somewhere, and nobody knows where; NULL: there is none. */
static struct plog__segment *unplaced(const struct plog__log *log)
{
    if (log->mark_offset == log->watermark) { return NULL; }
    struct plog__segment *segment = plog__segment_of(log, log->watermark);
    bool is_inside = segment != NULL && segment->base < log->watermark && segment->end > log->watermark;
    return is_inside ? segment : NULL;
}

static void place_found(struct plog *plog, struct plog__read *read, struct plog__log *log, uint64_t position_bytes)
{
    if (!plog__segment_at(plog, read->segment)->is_doomed) { /* else the log start has passed it */
        log->mark_offset = read->target;
        log->mark_segment = read->segment;
        log->mark_bytes = position_bytes;
    }
    read->is_placing = false;
    read->state = PLOG__READ_LOCATE;
    read->was_damaged = false;
    unpin_segment(plog, read);
}

/* False: its place is known. */
static bool place_watermark(struct plog *plog, struct plog__read *read, struct plog__log *log)
{
    struct plog__segment *segment = read->ask.is_end_unlimited ? NULL : unplaced(log);
    if (segment == NULL) { return false; }
    pin_segment(plog, read, segment);
    read->is_placing = true;
    read->limit_bytes = segment->size_bytes;
    read->target = log->watermark;
    find_by_hint(log, read);
    if (read->state == PLOG__READ_FETCH) {
        place_found(plog, read, log, read->position_bytes);
    } else {
        seek(read, log, segment);
    }
    return true;
}

static void locate_offset(struct plog *plog, struct plog__read *read, struct plog__log *log)
{
    int64_t end = read->ask.is_end_unlimited ? log->offset_end : read->mark_offset;
    if (read->ask.offset < log->offset_start || read->ask.offset > end) {
        answer(plog, read, PLOG_OFFSET_RANGE);
        return;
    }
    if (read->ask.offset == end) {
        answer(plog, read, PLOG_OK);
        return;
    }
    struct plog__segment *segment = plog__segment_of(log, read->ask.offset);
    if (segment != NULL && segment->end <= read->ask.offset) {
        segment = plog__segment_next(log, segment);
    } /* in a hole */
    if (segment == NULL && base_list_first(&log->segments) != NULL) { segment = plog__segment_first(log); }
    if (segment == NULL || segment->end <= read->ask.offset) {
        answer_damaged(plog, read);
        return;
    }
    pin_segment(plog, read, segment);
    read->limit_bytes = limit_of(plog, read, segment);
    read->target = read->ask.offset;
    find_by_hint(log, read);
    if (read->state != PLOG__READ_FETCH) { seek(read, log, segment); }
}

/* Records before it are deleted, and not found. */
static int64_t start_of(const struct plog__read *read, const struct plog__log *log)
{
    return read->is_greatest ? 0 : log->offset_start;
}

/* The next segment from `segment` on that may hold the time. */
static void locate_time(struct plog *plog, struct plog__read *read, struct plog__log *log,
                        struct plog__segment *segment)
{
    while (segment != NULL && (segment->timestamp_max < read->timestamp_ms || segment->end <= start_of(read, log))) {
        segment = plog__segment_next(log, segment);
    }
    if (segment == NULL || limit_of(plog, read, segment) == 0) {
        answer(plog, read, PLOG_OK); /* offset -1 */
        return;
    }
    pin_segment(plog, read, segment);
    read->limit_bytes = limit_of(plog, read, segment);
    read->target = segment->base;
    int64_t timestamp;
    int64_t offset;
    bool is_last = plog__segment_last(log) == segment;
    if (is_last && plog__tail_find_time(log, segment, read->timestamp_ms, &timestamp, &offset)) {
        read->target = offset;
        seek(read, log, segment);
    } else if (segment->time_count > 0 && !segment->is_index_bad) {
        search_begin(read, segment, true, read->timestamp_ms);
    } else {
        scan_from(read, 0);
    }
}

/* ---- reading into the chunk and the block ---- */

static bool has_chunk(struct plog *plog, struct plog__read *read)
{
    if (read->chunk == NULL) { read->chunk = base_pages_take(plog->pages, BASE_CLIENTS, PLOG__CHUNK_BYTES); }
    return read->chunk != NULL;
}

static void ask_read(struct plog *plog, struct plog__read *read, struct port_out *out, uint64_t position_bytes,
                     uint8_t *buffer, uint64_t size_bytes)
{
    read->is_asked = true;
    struct port_effect *effect =
        plog__emit(plog, out, PORT_READ, PLOG__TOKEN_READ, base_pool_index(&plog->reads, read));
    effect->where = PORT_ON_SHARD;
    effect->file = plog__file_id(plog, plog__file_of(plog, &read->task));
    effect->position_bytes = position_bytes;
    effect->buffer = buffer;
    effect->size_bytes = size_bytes;
}

static enum plog_result result_of(enum port_rc rc) { return rc == PORT_NO_HANDLES ? PLOG_BUSY : PLOG_STORAGE; }

/* False: waits, or is answered. */
static bool get_log_file(struct plog *plog, struct plog__read *read, struct plog__log *log,
                         struct plog__segment *segment, struct port_out *out)
{
    enum port_rc rc;
    switch (plog__file_get(plog, log, segment, PLOG__LOG, PORT_OPEN_WRITE, &read->task, &rc, out)) {
    case PLOG__WAIT: return false;
    case PLOG__GOT: return true;
    case PLOG__FAILED: break;
    }
    if (rc == PORT_MISSING) { /* named by the journal, and not there */
        plog__segment_damage(log, segment, 0, segment->size_bytes);
        answer_damaged(plog, read);
    } else {
        answer(plog, read, result_of(rc));
    }
    return false;
}

/* ---- the search in an index file ---- */

static void distrust_index(struct plog__read *read, struct plog__segment *segment)
{
    segment->is_index_bad = true;
    if (!read->is_placing) { read->target = read->kind == PLOG__READ_TIME ? segment->base : read->ask.offset; }
    scan_from(read, 0);
}

static void search_end(struct plog__read *read, struct plog__log *log, struct plog__segment *segment)
{
    struct plog__search search = read->search;
    if (search.is_time) {
        if (!search.has_best) {
            scan_from(read, 0);
            return;
        }
        read->target = segment->base + (int64_t)search.best;
        if (read->target >= segment->end) {
            distrust_index(read, segment);
            return;
        }
        seek(read, log, segment);
        if (read->state == PLOG__READ_SCAN && read->position_bytes == 0) { return; }
        read->proof_time_offset = read->target;
        read->proof_timestamp = search.best_key;
        return;
    }
    int64_t proof_time_offset = read->proof_time_offset;
    scan_from(read, 0);
    if (!search.has_best) { return; }
    if (search.best >= segment->size_bytes) {
        distrust_index(read, segment);
        return;
    }
    if (search.best >= read->limit_bytes) { return; } /* beyond the watermark */
    read->position_bytes = search.best;
    read->is_by_index = true;
    read->proof_offset = search.best_key;
    read->proof_time_offset = proof_time_offset;
}

static uint32_t entry_bytes_of(const struct plog__search *search)
{
    return search->is_time ? PLOG__TIME_BYTES : PLOG__INDEX_BYTES;
}

/* Where to look next: near where the entry would be if offsets were spread evenly, then by halves. */
static uint32_t next_probe(const struct plog__read *read, const struct plog__segment *segment, uint32_t per_chunk)
{
    const struct plog__search *search = &read->search;
    uint32_t middle = search->low + (search->high - search->low) / 2;
    if (search->probes == 0 && !search->is_time && segment->end > segment->base) {
        uint64_t far = (uint64_t)(search->key - segment->base);
        middle = (uint32_t)(far * search->high / (uint64_t)(segment->end - segment->base));
    }
    uint32_t first = middle > per_chunk / 2 ? middle - per_chunk / 2 : 0;
    if (first < search->low) { first = search->low; }
    return first >= search->high ? search->high - 1 : first;
}

static void search_step(struct plog *plog, struct plog__read *read, struct plog__log *log,
                        struct plog__segment *segment, struct port_out *out)
{
    struct plog__search *search = &read->search;
    if (search->low >= search->high) {
        search_end(read, log, segment);
        return;
    }
    enum port_rc rc;
    switch (plog__file_get(plog, log, segment, search->is_time ? PLOG__TIME : PLOG__INDEX,
                           PORT_OPEN_WRITE | PORT_OPEN_CREATE, &read->task, &rc, out)) {
    case PLOG__WAIT: return;
    case PLOG__FAILED: scan_from(read, 0); return; /* slower, not worse */
    case PLOG__GOT: break;
    }
    if (segment->is_index_bad || search->probes > PROBES_MAX || !has_chunk(plog, read)) {
        distrust_index(read, segment);
        return;
    }
    uint32_t entry_bytes = entry_bytes_of(search);
    uint32_t per_chunk = (uint32_t)(PLOG__CHUNK_BYTES / entry_bytes);
    search->first = next_probe(read, segment, per_chunk);
    uint32_t count = search->high - search->first;
    if (count > per_chunk) { count = per_chunk; }
    search->probes += 1;
    ask_read(plog, read, out, (uint64_t)search->first * entry_bytes, read->chunk, (uint64_t)count * entry_bytes);
}

static int64_t key_at(const struct plog__read *read, const struct plog__segment *segment, uint32_t i)
{
    const uint8_t *at = read->chunk + (size_t)i * entry_bytes_of(&read->search);
    return read->search.is_time ? (int64_t)base_get_u64(at) : segment->base + base_get_u32(at);
}

static void search_read(struct plog__read *read, struct plog__segment *segment, uint64_t count_bytes)
{
    struct plog__search *search = &read->search;
    uint32_t count = (uint32_t)(count_bytes / entry_bytes_of(search));
    if (count == 0) {
        distrust_index(read, segment);
        return;
    }
    /* At or before: an offset <= the key; a time < the key (the first record at the key may be the very one). */
    uint32_t good = 0;
    while (good < count &&
           (search->is_time ? key_at(read, segment, good) < search->key : key_at(read, segment, good) <= search->key)) {
        good += 1;
    }
    if (good == 0) {
        search->high = search->first;
        return;
    }
    search->has_best = true;
    search->best_key = key_at(read, segment, good - 1);
    search->best = base_get_u32(read->chunk + (size_t)(good - 1) * entry_bytes_of(search) + (search->is_time ? 8 : 4));
    search->low = search->first + good;
    if (good < count) { search->high = search->low; }
}

/* ---- the scan ---- */

static void next_time_segment(struct plog *plog, struct plog__read *read, struct plog__log *log,
                              struct plog__segment *segment)
{
    struct plog__segment *next = segment->is_doomed ? plog__segment_first(log) : plog__segment_next(log, segment);
    plog__file_release(plog, &read->task);
    unpin_segment(plog, read);
    read->chunk_bytes = 0;
    read->was_damaged = false;
    locate_time(plog, read, log, next);
}

/* The header at the scan's position; NULL: it is being read, or the read is answered. */
static const uint8_t *header(struct plog *plog, struct plog__read *read, struct plog__log *log,
                             struct plog__segment *segment, struct port_out *out)
{
    uint64_t at = read->position_bytes - read->chunk_position;
    if (read->chunk_bytes > 0 && read->position_bytes >= read->chunk_position && at < read->chunk_bytes &&
        read->chunk_bytes - at >= REC_HEADER_BYTES) {
        return read->chunk + at;
    }
    if (!get_log_file(plog, read, log, segment, out)) { return NULL; }
    if (!has_chunk(plog, read)) {
        answer(plog, read, PLOG_BUSY);
        return NULL;
    }
    bool is_begun = read->chunk_position == read->position_bytes && read->chunk_bytes < REC_HEADER_BYTES;
    if (!is_begun) { read->chunk_bytes = 0; } /* else the read was short, and goes on */
    read->chunk_position = read->position_bytes;
    ask_read(plog, read, out, read->position_bytes + read->chunk_bytes, read->chunk + read->chunk_bytes,
             base_min_u64(PLOG__CHUNK_BYTES, read->limit_bytes - read->position_bytes) - read->chunk_bytes);
    return NULL;
}

/* What an index promised of the batch at hand. */
static bool is_proved(struct plog__read *read, const struct plog__head *head)
{
    if (read->proof_offset >= 0) {
        if (head->offset_last != read->proof_offset) { return false; }
        read->proof_offset = -1;
    }
    if (read->proof_time_offset >= 0) {
        if (head->offset_last > read->proof_time_offset) { return false; }
        if (head->offset_last == read->proof_time_offset) {
            if (head->max_timestamp_ms != read->proof_timestamp) { return false; }
            read->proof_time_offset = -1;
        }
    }
    return true;
}

static void found(struct plog *plog, struct plog__read *read, struct plog__log *log, struct plog__segment *segment,
                  const struct plog__head *head)
{
    (void)plog;
    read->batch_bytes = head->size_bytes;
    read->fetched_bytes = 0;
    read->state = PLOG__READ_FETCH;
    if (read->kind != PLOG__READ_TIME && !segment->is_doomed) {
        plog__hint_add(log, segment, read->segment, read->position_bytes, head);
    }
}

static void scan_step(struct plog *plog, struct plog__read *read, struct plog__log *log, struct plog__segment *segment,
                      struct port_out *out)
{
    if (read->position_bytes >= segment->damage_from && read->position_bytes < segment->damage_to) {
        read->position_bytes = segment->damage_to;
        read->was_damaged = true;
        read->proof_offset = -1;
        read->proof_time_offset = -1;
    }
    if (read->position_bytes + REC_HEADER_BYTES > read->limit_bytes) {
        if (read->kind == PLOG__READ_TIME && !read->is_placing) {
            next_time_segment(plog, read, log, segment);
        } else {
            answer_damaged(plog, read); /* the journal says it is here */
        }
        return;
    }
    const uint8_t *at = header(plog, read, log, segment, out);
    if (at == NULL) { return; }
    struct plog__head head;
    bool is_head =
        plog__head_read(at, segment->base, &head) && head.size_bytes <= read->limit_bytes - read->position_bytes;
    if ((!is_head || !is_proved(read, &head)) && (read->is_by_index || read->proof_time_offset >= 0)) {
        distrust_index(read, segment);
        return;
    }
    if (!is_head) {
        answer_damaged(plog, read);
        return;
    }
    bool is_cut = read->position_bytes < segment->damage_to && /* its end is in a damaged range */
                  read->position_bytes + head.size_bytes > segment->damage_from;
    if (read->kind == PLOG__READ_TIME && !read->is_placing) {
        if (head.max_timestamp_ms >= read->timestamp_ms && head.offset_last >= start_of(read, log) && !is_cut) {
            found(plog, read, log, segment, &head);
        } else {
            read->was_damaged = read->was_damaged || is_cut;
            read->position_bytes += head.size_bytes;
        }
        return;
    }
    if ((head.base_offset > read->target && read->was_damaged) || (head.offset_last >= read->target && is_cut)) {
        answer_damaged(plog, read);
    } else if (head.offset_last >= read->target && read->is_placing) {
        place_found(plog, read, log, read->position_bytes);
    } else if (head.offset_last >= read->target) {
        found(plog, read, log, segment, &head);
    } else {
        read->position_bytes += head.size_bytes;
        read->is_by_index = read->proof_offset >= 0;
    }
}

/* ---- the bytes ---- */

static uint64_t range_bytes(const struct plog__read *read, const struct plog__segment *segment)
{
    uint64_t end_bytes = read->limit_bytes;
    if (plog__segment_is_damaged(segment) && segment->damage_from > read->position_bytes) {
        end_bytes = base_min_u64(end_bytes, segment->damage_from);
    }
    uint64_t size_bytes = base_min_u64(end_bytes - read->position_bytes, read->ask.bytes_max);
    if (size_bytes >= read->batch_bytes) { return size_bytes; }
    return read->ask.takes_oversized_first ? read->batch_bytes : 0; /* part of one batch helps nobody */
}

/* The first record of the fetched batch at or after the time; false: the header promised more than the records hold. */
static bool find_record(struct plog *plog, struct plog__read *read, const struct plog__log *log,
                        enum plog_result *result_out)
{
    struct rec_batch batch;
    *result_out = PLOG_OK;
    if (rec_batch_view(base_slice_of(read->block, (size_t)read->block_bytes), &batch) != REC_OK ||
        !rec_crc_is_right(&batch)) {
        *result_out = PLOG_DAMAGED;
        return false;
    }
    uint64_t configured_max = plog->config.opened_bytes_max;
    size_t opened_max = configured_max == 0 || configured_max > OPENED_BYTES_MAX ? OPENED_BYTES_MAX : configured_max;
    size_t open_bytes = rec_open_bytes(&batch, opened_max);
    uint8_t *scratch = open_bytes == 0 ? NULL : base_pages_take(plog->pages, BASE_CLIENTS, open_bytes);
    if (open_bytes > 0 && scratch == NULL) {
        *result_out = PLOG_BUSY;
        return false;
    }
    struct base_arena arena;
    base_arena_init(&arena, scratch, open_bytes);
    struct base_slice records;
    bool is_found = false;
    if (rec_open(&batch, opened_max, &arena, &records) == REC_OK) {
        struct rec_walk walk;
        struct rec_record record;
        rec_walk_init(&walk, &batch, records);
        while (!is_found && rec_walk_next(&walk, &record) == REC_OK) {
            is_found = record.timestamp_ms >= read->timestamp_ms && record.offset >= start_of(read, log);
        }
        if (is_found) {
            read->offset = record.offset;
            read->answer_timestamp = record.timestamp_ms;
            read->answer_epoch = batch.leader_epoch;
        }
    }
    if (scratch != NULL) { base_pages_give(plog->pages, scratch); }
    return is_found;
}

static void time_fetched(struct plog *plog, struct plog__read *read, struct plog__log *log)
{
    enum plog_result result;
    if (find_record(plog, read, log, &result)) {
        answer(plog, read, PLOG_OK);
        return;
    }
    if (result == PLOG_DAMAGED) {
        answer_damaged(plog, read);
    } else if (result != PLOG_OK) {
        answer(plog, read, result);
    } else {
        base_pages_give(plog->pages, read->block);
        read->block = NULL;
        read->position_bytes += read->batch_bytes;
        read->state = PLOG__READ_SCAN;
    }
}

static void fetch_step(struct plog *plog, struct plog__read *read, struct plog__log *log, struct plog__segment *segment,
                       struct port_out *out)
{
    if (!get_log_file(plog, read, log, segment, out)) { return; }
    bool is_damaged = plog__segment_is_damaged(segment) && read->position_bytes < segment->damage_to &&
                      read->position_bytes + read->batch_bytes > segment->damage_from;
    if (is_damaged) {
        answer_damaged(plog, read); /* the file turned out to be short: before the batch, or within it */
        return;
    }
    uint64_t size_bytes = read->kind == PLOG__READ_TIME ? read->batch_bytes : range_bytes(read, segment);
    if (read->kind == PLOG__READ_RANGE || size_bytes == 0) {
        read->size_bytes = size_bytes;
        if (plog->next_generation == UINT32_MAX) { plog->next_generation = 0; }
        plog->next_generation += 1;
        read->generation = plog->next_generation;
        answer(plog, read, PLOG_OK);
        return;
    }
    if (read->block == NULL) {
        read->block = base_pages_take(plog->pages, BASE_CLIENTS, (size_t)size_bytes);
        read->block_bytes = size_bytes;
        read->fetched_bytes = 0;
    }
    if (read->block == NULL) {
        answer(plog, read, PLOG_BUSY);
        return;
    }
    if (read->fetched_bytes == read->block_bytes) {
        if (read->kind == PLOG__READ_TIME) {
            time_fetched(plog, read, log);
        } else {
            read->size_bytes = read->block_bytes;
            answer(plog, read, PLOG_OK);
        }
        return;
    }
    ask_read(plog, read, out, read->position_bytes + read->fetched_bytes, read->block + read->fetched_bytes,
             read->block_bytes - read->fetched_bytes);
}

/* ---- all of it ---- */

/* The log was truncated meanwhile: what was found of it may be gone. */
static void begin_anew(struct plog *plog, struct plog__read *read)
{
    drop_buffers(plog, read);
    plog__file_release(plog, &read->task);
    unpin_segment(plog, read);
    read->state = PLOG__READ_LOCATE;
    read->task.open_rc = PORT_OK;
    read->is_placing = false;
    read->was_damaged = false;
    read->chunk_bytes = 0;
    read->fetched_bytes = 0;
    read->block_bytes = 0;
    read->proof_offset = -1;
    read->proof_time_offset = -1;
}

static void read_step(struct plog *plog, struct plog__read *read, struct port_out *out)
{
    struct plog__log *log = plog__log_at(plog, read->log);
    if (log->is_deleting || plog->is_failed) {
        answer(plog, read, log->is_deleting ? PLOG_GONE : PLOG_STORAGE);
        return;
    }
    if (read->state != PLOG__READ_LOCATE && read->cuts != log->cuts) { begin_anew(plog, read); }
    if (read->state == PLOG__READ_LOCATE) {
        read->cuts = log->cuts;
        if (place_watermark(plog, read, log)) { return; }
        read->mark_offset = log->watermark;
        read->mark_segment = log->mark_offset == log->watermark ? log->mark_segment : PLOG__NONE;
        read->mark_bytes = log->mark_bytes;
        if (read->kind == PLOG__READ_TIME) {
            if (read->is_greatest) { read->timestamp_ms = log->timestamp_max; }
            locate_time(plog, read, log, plog__segment_first(log));
        } else {
            locate_offset(plog, read, log);
        }
        return;
    }
    struct plog__segment *segment = plog__segment_at(plog, read->segment);
    if (read->state == PLOG__READ_INDEX) {
        search_step(plog, read, log, segment, out);
    } else if (read->state == PLOG__READ_SCAN) {
        scan_step(plog, read, log, segment, out);
    } else {
        fetch_step(plog, read, log, segment, out);
    }
}

void plog__read_advance(struct plog *plog, struct plog__read *read, struct port_out *out)
{
    for (;;) {
        if (read->is_asked || read->task.list != NULL) { return; }
        if (read->state == PLOG__READ_ANSWERED || read->state == PLOG__READ_LEASED) { return; }
        if (!plog__may_emit(plog, out)) {
            plog__task_ready(plog, &read->task);
            return;
        }
        read_step(plog, read, out);
    }
}

void plog__read_done(struct plog *plog, struct plog__read *read, const struct port_event *event, struct port_out *out)
{
    CHECK(read->is_asked);
    read->is_asked = false;
    struct plog__segment *segment = plog__segment_at(plog, read->segment);
    bool is_failed = event->done.rc != PORT_OK;
    uint64_t count = is_failed ? 0 : event->done.count;
    if (read->cuts != plog__log_at(plog, read->log)->cuts) {
        /* it begins anew */
    } else if (read->state == PLOG__READ_INDEX) {
        search_read(read, segment, base_min_u64(count, PLOG__CHUNK_BYTES));
    } else if (is_failed) { /* another time it may go well: that is no word about what is written there */
        answer(plog, read, result_of(event->done.rc));
    } else if (read->state == PLOG__READ_SCAN) {
        read->chunk_bytes += base_min_u64(count, PLOG__CHUNK_BYTES - read->chunk_bytes);
        if (count == 0) { answer_damaged(plog, read); } /* below what was written */
    } else if (count == 0) {
        answer_damaged(plog, read);
    } else {
        read->fetched_bytes += base_min_u64(count, read->block_bytes - read->fetched_bytes);
    }
    plog__read_advance(plog, read, out);
}

static enum base_rc begin_read(struct plog *plog, struct plog_ref ref, enum plog__read_kind kind,
                               const struct plog_read *ask, const int64_t *timestamp_ms, struct port_out *out)
{
    plog__begin(plog, out);
    uint32_t slot = base_pool_take(&plog->reads);
    if (slot == BASE_POOL_NONE) { return BASE_FULL; }
    struct plog__read *read = base_pool_at(&plog->reads, slot);
    plog__task_init(&read->task, PLOG__TASK_READ, slot);
    read->kind = kind;
    read->ask = *ask;
    read->timestamp_ms = timestamp_ms == NULL ? 0 : *timestamp_ms;
    read->is_greatest = kind == PLOG__READ_TIME && timestamp_ms == NULL;
    read->segment = PLOG__NONE;
    read->log = PLOG__NONE;
    read->offset = -1;
    read->answer_timestamp = -1;
    read->answer_epoch = -1;
    read->proof_offset = -1;
    read->proof_time_offset = -1;
    struct plog__log *log = plog__log_of(plog, ref);
    if (log == NULL) {
        answer(plog, read, PLOG_GONE);
    } else {
        read->log = ref.slot;
        log->reads += 1;
        if (plog->life != PLOG__SERVING) {
            answer(plog, read, PLOG_STORAGE);
        } else if (log->is_lost) {
            answer(plog, read, PLOG_DAMAGED);
        } else {
            plog__read_advance(plog, read, out);
        }
    }
    plog__end(plog, out);
    return BASE_OK;
}

enum base_rc plog_read(struct plog *plog, struct plog_ref ref, const struct plog_read *read, struct port_out *out)
{
    return begin_read(plog, ref, PLOG__READ_RANGE, read, NULL, out);
}

enum base_rc plog_read_bytes(struct plog *plog, struct plog_ref ref, const struct plog_read *read, struct port_out *out)
{
    return begin_read(plog, ref, PLOG__READ_BYTES, read, NULL, out);
}

enum base_rc plog_find_time(struct plog *plog, struct plog_ref ref, uint64_t token, int64_t timestamp_ms,
                            struct port_out *out)
{
    struct plog_read ask = {.token = token, .offset = -1};
    return begin_read(plog, ref, PLOG__READ_TIME, &ask, &timestamp_ms, out);
}

enum base_rc plog_find_greatest(struct plog *plog, struct plog_ref ref, uint64_t token, struct port_out *out)
{
    struct plog_read ask = {.token = token, .offset = -1};
    return begin_read(plog, ref, PLOG__READ_TIME, &ask, NULL, out);
}
