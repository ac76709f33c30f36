/* plog__state.c: what a checkpoint keeps of a log, as bytes; format: docs/formats/log.md.
 *
 * Big-endian, a version in front, a CRC-32C behind. Reading is total: any bytes give a log or BASE_BAD, and no count is
 * believed that the bytes at hand can't back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

#define STATE_MAGIC    UINT32_C(0x57504c53) /* WPLS */
#define STATE_VERSION  2u
#define STATE_OLDEST   1u /* without watermark and cuts */
#define FACTS_VERSION  1u
#define FACTS_BYTES    (1 + 8 + 8 + 2)
#define HEAD_BYTES     (4 + 2 + 16 + 4)
#define SEGMENT_BYTES  (8 + 8 + 8 + 8 + 8 + 8 + 8 + 8 + 4 + 4 + 1 + 8 + 8)
#define PRODUCER_BYTES (8 + 2 + 8 + 1)
#define KEPT_BYTES     (8 + 8 + 8 + 4 + 4)

enum {
    FLAG_PAGE_CACHE = 1,
    FLAG_METADATA = 2,
    FLAG_DIR = 4,
    FLAG_DAMAGED = 8,
    FLAG_DELETING = 16,
    FLAG_RENAMED = 32,
    FLAG_MARK_TOLD = 64,
    FLAG_MAY_LACK_END = 128
};
enum { SEGMENT_SEALED = 1, SEGMENT_BORN = 2 };

/* ---- writing ---- */

struct pen {
    uint8_t *at; /* NULL: only counts */
    uint64_t used_bytes;
};

static void put(struct pen *pen, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes && pen->at != NULL; i++) {
        pen->at[pen->used_bytes + i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    }
    pen->used_bytes += bytes;
}
static void put_bytes(struct pen *pen, const void *at, size_t bytes)
{
    if (pen->at != NULL && bytes > 0) { memcpy(pen->at + pen->used_bytes, at, bytes); }
    pen->used_bytes += bytes;
}

static void write_segment(struct pen *pen, const struct plog__segment *segment)
{
    put(pen, (uint64_t)segment->base, 8);
    put(pen, (uint64_t)segment->end, 8);
    put(pen, segment->size_bytes, 8);
    put(pen, (uint64_t)segment->timestamp_max, 8);
    put(pen, (uint64_t)segment->timestamp_max_offset, 8);
    put(pen, (uint64_t)segment->timestamp_first, 8);
    put(pen, (uint64_t)segment->created_wall_ms, 8);
    put(pen, (uint64_t)segment->last_wall_ms, 8);
    put(pen, segment->is_index_bad ? 0 : segment->index_count, 4);
    put(pen, segment->is_index_bad ? 0 : segment->time_count, 4);
    put(pen, (segment->is_sealed ? SEGMENT_SEALED : 0u) | (segment->is_born ? SEGMENT_BORN : 0u), 1);
    put(pen, segment->damage_from, 8);
    put(pen, segment->damage_to, 8);
}

static void write_producer(struct pen *pen, int64_t id, const struct plog__sequence *now)
{
    put(pen, (uint64_t)id, 8);
    put(pen, (uint16_t)now->epoch, 2);
    put(pen, (uint64_t)now->last_wall_ms, 8);
    put(pen, now->kept_count, 1);
    for (uint32_t i = 0; i < now->kept_count; i++) {
        const struct plog__kept *kept = &now->kept[i];
        put(pen, (uint64_t)kept->base_offset, 8);
        put(pen, (uint64_t)kept->offset_last, 8);
        put(pen, (uint64_t)kept->timestamp_ms, 8);
        put(pen, (uint32_t)kept->sequence_first, 4);
        put(pen, (uint32_t)kept->sequence_last, 4);
    }
}

static bool is_kept(const struct plog__segment *segment) { return segment->size_bytes > 0; }

/* What waits is of a log that failed: its files stay. */
static uint32_t doomed_count(const struct plog__log *log)
{
    uint32_t count = log->doomed.count;
    for (struct base_link *link = base_list_first(&log->doomed); link != NULL;
         link = base_list_next(&log->doomed, link)) {
        if (BASE_ITEM(link, struct plog__segment, link)->is_waiting) { count -= 1; }
    }
    return count;
}

static void write_all(struct pen *pen, const struct plog__log *log)
{
    uint32_t segment_count = 0;
    const struct plog__segment *last = plog__segment_last(log);
    for (const struct plog__segment *s = plog__segment_first(log); s != NULL; s = plog__segment_next(log, s)) {
        segment_count += is_kept(s) ? 1 : 0;
    }
    put(pen, STATE_MAGIC, 4);
    put(pen, STATE_VERSION, 2);
    put_bytes(pen, log->id.topic.b, 16);
    put(pen, (uint32_t)log->id.index, 4);
    put(pen,
        (log->config.is_page_cache ? FLAG_PAGE_CACHE : 0u) | (log->config.is_metadata ? FLAG_METADATA : 0u) |
            (log->is_parent_synced ? FLAG_DIR : 0u) | (log->is_damaged ? FLAG_DAMAGED : 0u) |
            (log->is_deleting ? FLAG_DELETING : 0u) | (log->is_renamed ? FLAG_RENAMED : 0u) |
            (log->config.is_mark_told ? FLAG_MARK_TOLD : 0u) | (log->may_lack_end ? FLAG_MAY_LACK_END : 0u),
        2);
    put(pen, log->name_bytes, 2);
    put_bytes(pen, log->name, log->name_bytes);
    put(pen, log->config.index_interval_bytes, 4);
    put(pen, (uint32_t)log->leader_epoch, 4);
    /* A start that the journal may have already, though its answer has not come, is not left out. */
    put(pen, (uint64_t)(log->is_start_moving ? log->start_next : log->offset_start), 8);
    put(pen, (uint64_t)log->offset_end, 8);
    put(pen, (uint64_t)base_max_i64(log->watermark, log->is_start_moving ? log->start_next : 0), 8);
    put(pen, log->cuts, 2);
    put(pen, log->epoch_count, 4);
    for (uint32_t i = 0; i < log->epoch_count; i++) {
        put(pen, (uint32_t)log->epochs[i].epoch, 4);
        put(pen, (uint64_t)log->epochs[i].offset_start, 8);
    }
    put(pen, segment_count, 4);
    for (const struct plog__segment *s = plog__segment_first(log); s != NULL; s = plog__segment_next(log, s)) {
        if (is_kept(s)) { write_segment(pen, s); }
    }
    bool has_tail = last != NULL && is_kept(last); /* a tail belongs to the last segment */
    put(pen, has_tail ? log->tail.index_count : 0, 2);
    put_bytes(pen, log->tail.index, has_tail ? (size_t)log->tail.index_count * PLOG__INDEX_BYTES : 0);
    put(pen, has_tail ? log->tail.time_count : 0, 2);
    put_bytes(pen, log->tail.time, has_tail ? (size_t)log->tail.time_count * PLOG__TIME_BYTES : 0);
    put(pen, has_tail ? (uint64_t)log->tail.time_last : UINT64_MAX, 8);
    put(pen, has_tail ? log->tail.since_bytes : 0, 8);
    put(pen, doomed_count(log), 4);
    for (struct base_link *link = base_list_first(&log->doomed); link != NULL;
         link = base_list_next(&log->doomed, link)) {
        const struct plog__segment *segment = BASE_ITEM(link, struct plog__segment, link);
        if (!segment->is_waiting) { put(pen, (uint64_t)segment->base, 8); }
    }
    put(pen, log->producers.count, 4);
    for (struct base_link *link = base_list_first(&log->producers); link != NULL;
         link = base_list_next(&log->producers, link)) {
        const struct plog__producer *producer = BASE_ITEM(link, struct plog__producer, of_log);
        write_producer(pen, producer->id, &producer->now);
    }
}

uint64_t plog__state_bytes(const struct plog *plog, const struct plog__log *log)
{
    (void)plog;
    struct pen pen = {.at = NULL};
    write_all(&pen, log);
    return pen.used_bytes + 4;
}

uint64_t plog__state_write(const struct plog *plog, const struct plog__log *log, uint8_t *at, uint64_t size_bytes)
{
    (void)plog;
    CHECK(base_list_is_empty(&log->touched)); /* nothing of a round that may still fail */
    struct pen pen = {.at = at};
    write_all(&pen, log);
    put(&pen, codec_crc32c(0, at, (size_t)pen.used_bytes), 4);
    CHECK(pen.used_bytes == size_bytes);
    return pen.used_bytes;
}

/* ---- reading ---- */

struct cursor {
    const uint8_t *at;
    uint64_t left_bytes;
    bool is_bad; /* sticky: read on safely, look once at the end */
};

static uint64_t take(struct cursor *cursor, unsigned bytes)
{
    if (cursor->left_bytes < bytes) {
        cursor->left_bytes = 0;
        cursor->is_bad = true;
        return 0;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) { value = value << 8 | cursor->at[i]; }
    cursor->at += bytes;
    cursor->left_bytes -= bytes;
    return value;
}

static const uint8_t *take_bytes(struct cursor *cursor, uint64_t bytes)
{
    if (cursor->left_bytes < bytes) {
        cursor->left_bytes = 0;
        cursor->is_bad = true;
        return NULL;
    }
    const uint8_t *at = cursor->at;
    cursor->at += bytes;
    cursor->left_bytes -= bytes;
    return at;
}

/* A count that the bytes at hand can't back is a lie. */
static uint32_t take_count(struct cursor *cursor, unsigned bytes, uint64_t item_bytes_min)
{
    uint64_t count = take(cursor, bytes);
    if (count > cursor->left_bytes / item_bytes_min) {
        cursor->is_bad = true;
        return 0;
    }
    return (uint32_t)count;
}

static bool is_whole(struct base_slice state)
{
    return state.size_bytes >= HEAD_BYTES + 4 && base_get_u32(state.at) == STATE_MAGIC &&
           base_get_u32(state.at + state.size_bytes - 4) == codec_crc32c(0, state.at, state.size_bytes - 4);
}

static enum base_rc open_state(struct base_slice state, struct cursor *cursor_out, struct base_part *id_out,
                               uint64_t *version_out)
{
    if (!is_whole(state)) { return BASE_BAD; }
    struct cursor cursor = {.at = state.at + 4, .left_bytes = state.size_bytes - 8};
    *version_out = take(&cursor, 2);
    if (*version_out < STATE_OLDEST || *version_out > STATE_VERSION) { return BASE_BAD; }
    memcpy(id_out->topic.b, take_bytes(&cursor, 16), 16);
    id_out->index = (int32_t)take(&cursor, 4);
    *cursor_out = cursor;
    return BASE_OK;
}

enum base_rc plog_state_id(struct base_slice state, struct base_part *id_out)
{
    struct cursor cursor;
    struct base_part id;
    uint64_t version;
    if (open_state(state, &cursor, &id, &version) != BASE_OK) { return BASE_BAD; }
    *id_out = id;
    return BASE_OK;
}

static enum base_rc read_segment(struct plog *plog, struct plog__log *log, struct cursor *cursor)
{
    int64_t base = (int64_t)take(cursor, 8);
    int64_t end = (int64_t)take(cursor, 8);
    uint64_t size_bytes = take(cursor, 8);
    const struct plog__segment *last = plog__segment_last(log);
    if (cursor->is_bad || base < 0 || end <= base || size_bytes > PLOG__SEGMENT_BYTES_MAX || size_bytes == 0 ||
        (last != NULL && last->end > base)) {
        return BASE_BAD;
    }
    struct plog__segment *segment = plog__segment_make(plog, log, base);
    if (segment == NULL) { return BASE_FULL; }
    segment->end = end;
    segment->size_bytes = size_bytes;
    segment->synced_bytes = size_bytes; /* before the state was taken */
    segment->timestamp_max = (int64_t)take(cursor, 8);
    segment->timestamp_max_offset = (int64_t)take(cursor, 8);
    segment->timestamp_first = (int64_t)take(cursor, 8);
    segment->created_wall_ms = (int64_t)take(cursor, 8);
    segment->last_wall_ms = (int64_t)take(cursor, 8);
    segment->index_count = (uint32_t)take(cursor, 4);
    segment->time_count = (uint32_t)take(cursor, 4);
    uint64_t flags = take(cursor, 1);
    segment->damage_from = take(cursor, 8);
    segment->damage_to = take(cursor, 8);
    segment->is_sealed = (flags & SEGMENT_SEALED) != 0;
    segment->is_born = (flags & SEGMENT_BORN) != 0;
    segment->is_created = true;
    segment->is_named = true;
    segment->needs_cut = true;
    log->size_bytes += size_bytes;
    log->damaged_count += plog__segment_is_damaged(segment) ? 1 : 0;
    if (segment->damage_from > segment->damage_to || segment->damage_to > size_bytes ||
        segment->index_count > PLOG__SEGMENT_BYTES_MAX / PLOG__INDEX_BYTES ||
        segment->time_count > PLOG__SEGMENT_BYTES_MAX / PLOG__TIME_BYTES || segment->timestamp_max_offset >= end) {
        return BASE_BAD;
    }
    return BASE_OK;
}

static enum base_rc read_tail(struct plog__log *log, struct cursor *cursor)
{
    struct plog__tail *tail = &log->tail;
    tail->index_count = take_count(cursor, 2, PLOG__INDEX_BYTES);
    if (tail->index_count > PLOG__TAIL_MAX) { return BASE_BAD; }
    const uint8_t *index = take_bytes(cursor, (uint64_t)tail->index_count * PLOG__INDEX_BYTES);
    if (index == NULL) { return BASE_BAD; }
    memcpy(tail->index, index, (size_t)tail->index_count * PLOG__INDEX_BYTES);
    tail->time_count = take_count(cursor, 2, PLOG__TIME_BYTES);
    if (tail->time_count > PLOG__TAIL_MAX) { return BASE_BAD; }
    const uint8_t *time = take_bytes(cursor, (uint64_t)tail->time_count * PLOG__TIME_BYTES);
    if (time == NULL) { return BASE_BAD; }
    memcpy(tail->time, time, (size_t)tail->time_count * PLOG__TIME_BYTES);
    tail->time_last = (int64_t)take(cursor, 8);
    tail->since_bytes = take(cursor, 8);
    return cursor->is_bad ? BASE_BAD : BASE_OK;
}

static enum base_rc read_epochs(struct plog *plog, struct plog__log *log, struct cursor *cursor)
{
    uint32_t count = take_count(cursor, 4, 12);
    if (count > PLOG__EPOCHS_MAX) { return BASE_BAD; }
    if (!plog__epochs_reserve(plog, log, count)) { return BASE_FULL; }
    for (uint32_t i = 0; i < count; i++) {
        struct plog__epoch epoch = {.epoch = (int32_t)take(cursor, 4)};
        epoch.offset_start = (int64_t)take(cursor, 8);
        if (i > 0 &&
            (epoch.epoch <= log->epochs[i - 1].epoch || epoch.offset_start <= log->epochs[i - 1].offset_start)) {
            return BASE_BAD;
        }
        log->epochs[i] = epoch;
        log->epoch_count = i + 1;
    }
    return BASE_OK;
}

static enum base_rc read_doomed(struct plog *plog, struct plog__log *log, struct cursor *cursor)
{
    uint32_t count = take_count(cursor, 4, 8);
    for (uint32_t i = 0; i < count; i++) {
        int64_t base = (int64_t)take(cursor, 8);
        uint32_t slot = base < 0 ? BASE_POOL_NONE : plog__segment_slot_take(plog);
        if (slot == BASE_POOL_NONE) { return base < 0 ? BASE_BAD : BASE_FULL; }
        struct plog__segment *segment = plog__segment_at(plog, slot);
        segment->log = plog__log_slot(plog, log);
        segment->base = base;
        segment->end = base;
        segment->is_created = true;
        segment->is_doomed = true;
        segment->is_sealed = true;
        plog__task_init(&segment->sync, PLOG__TASK_SYNC, slot);
        base_list_push_back(&log->doomed, &segment->link);
        base_list_push_back(&plog->doomed, &segment->doom);
    }
    if (count > 0) { plog->reap_at_ns = 0; }
    return BASE_OK;
}

static bool read_producer(struct cursor *cursor, int64_t offset_end, int64_t *id_out, struct plog__sequence *now_out)
{
    *id_out = (int64_t)take(cursor, 8);
    struct plog__sequence now = {.epoch = (int16_t)take(cursor, 2)};
    now.last_wall_ms = (int64_t)take(cursor, 8);
    now.kept_count = (uint8_t)take_count(cursor, 1, KEPT_BYTES);
    if (cursor->is_bad || *id_out < 0 || now.kept_count > PLOG__BATCHES_KEPT) { return false; }
    for (uint32_t k = 0; k < now.kept_count; k++) {
        now.kept[k].base_offset = (int64_t)take(cursor, 8);
        now.kept[k].offset_last = (int64_t)take(cursor, 8);
        now.kept[k].timestamp_ms = (int64_t)take(cursor, 8);
        now.kept[k].sequence_first = (int32_t)take(cursor, 4);
        now.kept[k].sequence_last = (int32_t)take(cursor, 4);
        if (now.kept[k].offset_last >= offset_end) { return false; }
    }
    *now_out = now;
    return true;
}

static enum base_rc read_producers(struct plog *plog, struct plog__log *log, struct cursor *cursor)
{
    uint32_t count = take_count(cursor, 4, PRODUCER_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        int64_t id;
        struct plog__sequence now;
        if (!read_producer(cursor, log->offset_end, &id, &now)) { return BASE_BAD; }
        if (plog__producer_find(plog, plog__log_slot(plog, log), id) != NULL) { return BASE_BAD; }
        struct plog__producer *producer = plog__producer_make(plog, log, id);
        if (producer == NULL) { return BASE_FULL; }
        producer->now = now;
    }
    return cursor->is_bad ? BASE_BAD : BASE_OK;
}

static enum base_rc read_segments(struct plog *plog, struct plog__log *log, struct cursor *cursor)
{
    uint32_t count = take_count(cursor, 4, SEGMENT_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        enum base_rc rc = read_segment(plog, log, cursor);
        if (rc != BASE_OK) { return rc; }
    }
    struct plog__segment *last = plog__segment_last(log);
    if (last != NULL && (last->end > log->offset_end || cursor->is_bad)) { return BASE_BAD; }
    if (last != NULL) {
        log->mark_offset = last->end;
        log->mark_segment = plog__segment_slot(plog, last);
        log->mark_bytes = last->size_bytes;
    }
    return cursor->is_bad ? BASE_BAD : BASE_OK;
}

static enum base_rc read_all(struct plog *plog, struct plog__log *log, struct cursor *cursor, uint64_t flags,
                             uint64_t version)
{
    log->config.is_mark_told = (flags & FLAG_MARK_TOLD) != 0;
    log->config.is_page_cache = (flags & FLAG_PAGE_CACHE) != 0;
    log->config.is_metadata = (flags & FLAG_METADATA) != 0;
    log->has_dir = (flags & FLAG_DIR) != 0;
    log->is_parent_synced = log->has_dir;
    log->is_metadata_written = log->has_dir;
    log->is_damaged = (flags & FLAG_DAMAGED) != 0;
    log->is_renamed = (flags & FLAG_RENAMED) != 0;
    log->may_lack_end = (flags & FLAG_MAY_LACK_END) != 0;
    log->is_restored = true;
    log->config.index_interval_bytes = (uint32_t)take(cursor, 4);
    log->leader_epoch = (int32_t)take(cursor, 4);
    log->offset_start = (int64_t)take(cursor, 8);
    log->offset_end = (int64_t)take(cursor, 8);
    log->synced_end = log->offset_end; /* whatever was captured was synced with it */
    log->watermark = version == 1 ? log->offset_end : (int64_t)take(cursor, 8);
    log->cuts = version == 1 ? 0 : (uint16_t)take(cursor, 2);
    if (!log->config.is_mark_told) { log->watermark = log->offset_end; }
    if (cursor->is_bad || log->offset_start < 0 || log->offset_start > log->offset_end ||
        log->offset_end > PLOG__OFFSET_MAX || log->watermark < log->offset_start || log->watermark > log->offset_end) {
        return BASE_BAD;
    }
    enum base_rc rc = read_epochs(plog, log, cursor);
    if (rc == BASE_OK) { rc = read_segments(plog, log, cursor); }
    if (rc == BASE_OK) { rc = read_tail(log, cursor); }
    if (rc == BASE_OK) { rc = read_doomed(plog, log, cursor); }
    if (rc == BASE_OK) { rc = read_producers(plog, log, cursor); }
    if (rc == BASE_OK && (cursor->is_bad || cursor->left_bytes != 0 || !plog__log_is_sound(plog, log))) {
        rc = BASE_BAD;
    }
    log->is_lost = log->is_damaged && log->offset_end == 0; /* only such a log is damaged before its first record */
    log->is_failed = log->is_lost;
    if (rc == BASE_OK && log->offset_start > 0) { plog__start_trim(plog, log); } /* it may have been on its way */
    plog__times_of_log(log);
    plog__birth_write(log);
    return rc;
}

enum base_rc plog__state_read(struct plog *plog, struct base_slice state, struct plog__log **log_out)
{
    struct cursor cursor;
    struct base_part id;
    uint64_t version;
    if (open_state(state, &cursor, &id, &version) != BASE_OK || id.index < 0) { return BASE_BAD; }
    uint64_t flags = take(&cursor, 2);
    uint64_t name_bytes = take(&cursor, 2);
    const uint8_t *name = take_bytes(&cursor, name_bytes);
    if (name == NULL || name_bytes == 0 || plog__log_by_id(plog, id) != NULL) { return BASE_BAD; }
    struct plog__log *log;
    enum base_rc rc = plog__log_make(plog, id, base_slice_of(name, (size_t)name_bytes), &log);
    if (rc != BASE_OK) { return rc; }
    rc = read_all(plog, log, &cursor, flags, version);
    if (rc != BASE_OK || (flags & FLAG_DELETING) != 0) {
        base_map_remove(&plog->by_id, base_part_hash(id), plog__log_slot(plog, log));
        log->is_deleting = log->was_deleting = true;
        if (rc != BASE_OK) {
            plog__log_free(plog, log);
            return rc;
        }
        base_list_push_back(&plog->deleting, &log->reap);
    }
    *log_out = log;
    return BASE_OK;
}

/* ---- what a truncation leaves in the journal ---- */

static void write_facts(struct pen *pen, const struct plog__cut_facts *facts)
{
    put(pen, FACTS_VERSION, 1);
    put(pen, (uint64_t)facts->timestamp_max, 8);
    put(pen, (uint64_t)facts->timestamp_max_offset, 8);
    put(pen, facts->producer_count, 2);
    for (uint32_t i = 0; i < facts->producer_count; i++) {
        write_producer(pen, facts->producers[i].id, &facts->producers[i].now);
    }
}

uint64_t plog__facts_bytes(const struct plog__cut_facts *facts)
{
    struct pen pen = {.at = NULL};
    write_facts(&pen, facts);
    return pen.used_bytes;
}

uint64_t plog__facts_bytes_of_one(void) { return PRODUCER_BYTES + PLOG__BATCHES_KEPT * KEPT_BYTES; }

void plog__facts_write(const struct plog__cut_facts *facts, uint8_t *at, uint64_t size_bytes)
{
    struct pen pen = {.at = at};
    write_facts(&pen, facts);
    CHECK(pen.used_bytes == size_bytes);
}

bool plog__facts_read(struct base_slice bytes, struct plog__cut_facts *facts_out,
                      struct plog__cut_producer *producers_out, uint32_t max)
{
    struct cursor cursor = {.at = bytes.at, .left_bytes = bytes.size_bytes};
    if (bytes.size_bytes < FACTS_BYTES || take(&cursor, 1) != FACTS_VERSION) { return false; }
    *facts_out = (struct plog__cut_facts){.producers = producers_out};
    facts_out->timestamp_max = (int64_t)take(&cursor, 8);
    facts_out->timestamp_max_offset = (int64_t)take(&cursor, 8);
    uint32_t count = take_count(&cursor, 2, PRODUCER_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        struct plog__cut_producer producer = {.id = -1};
        if (i >= max || !read_producer(&cursor, INT64_MAX, &producer.id, &producer.now)) { return false; }
        producers_out[i] = producer;
        facts_out->producer_count = i + 1;
    }
    return !cursor.is_bad && cursor.left_bytes == 0;
}
