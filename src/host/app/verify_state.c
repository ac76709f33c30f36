/* verify_state.c: state blocks of a checkpoint and entries of the journal, into what there should be. See app__verify.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__verify.h"

#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"

enum { STATE_MAGIC = 0x57504c53, STATE_PAGE_CACHE = 1, STATE_DELETING = 16 }; /* "WPLS" */
enum {
    KIND_RUN = 0,
    KIND_START = 1,
    KIND_TRUNCATE = 2,
    KIND_GONE = 3,
    KIND_SEGMENT = 4,
    KIND_EPOCH = 5,
    BIRTH_HEAD_BYTES = 8
};

struct cursor {
    const uint8_t *at;
    size_t left_bytes;
    bool is_bad;
};

static uint64_t take(struct cursor *cursor, unsigned bytes)
{
    if (cursor->left_bytes < bytes) {
        cursor->is_bad = true;
        cursor->left_bytes = 0;
        return 0;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) { value = value << 8 | cursor->at[i]; }
    cursor->at += bytes;
    cursor->left_bytes -= bytes;
    return value;
}

/* A count that the bytes at hand can't back is a lie. */
static uint32_t take_count(struct cursor *cursor, size_t item_bytes)
{
    uint64_t count = take(cursor, 4);
    if (count > cursor->left_bytes / item_bytes) {
        cursor->is_bad = true;
        return 0;
    }
    return (uint32_t)count;
}

struct verify_log *verify_log_of(struct verify *verify, struct base_part id)
{
    for (uint32_t i = 0; i < verify->log_count; i++) {
        if (!verify->logs[i].is_gone && base_part_equal(verify->logs[i].id, id)) { return &verify->logs[i]; }
    }
    return NULL;
}

static struct verify_log *add_log(struct verify *verify, struct base_part id, struct base_slice name)
{
    if (name.size_bytes == 0 || name.size_bytes >= VERIFY_NAME_BYTES) { return NULL; }
    verify->logs = verify_grow(verify->logs, verify->log_count, &verify->log_room, sizeof *verify->logs);
    struct verify_log *log = &verify->logs[verify->log_count++];
    *log = (struct verify_log){.id = id};
    memcpy(log->name, name.at, name.size_bytes);
    return log;
}

static struct verify_segment *add_segment(struct verify_log *log, int64_t base)
{
    log->segments = verify_grow(log->segments, log->segment_count, &log->segment_room, sizeof *log->segments);
    struct verify_segment *segment = &log->segments[log->segment_count++];
    *segment = (struct verify_segment){.base = base, .end = base};
    return segment;
}

static void take_segment(struct verify_log *log, struct cursor *cursor)
{
    struct verify_segment *segment = add_segment(log, (int64_t)take(cursor, 8));
    segment->end = (int64_t)take(cursor, 8);
    segment->size_bytes = segment->state_bytes = take(cursor, 8);
    for (int i = 0; i < 5; i++) { (void)take(cursor, 8); } /* times: nothing to compare them with */
    segment->index_count = (uint32_t)take(cursor, 4);
    segment->time_count = (uint32_t)take(cursor, 4);
    (void)take(cursor, 1); /* sealed, journalled: the files don't say */
    segment->damage_from = take(cursor, 8);
    segment->damage_to = take(cursor, 8);
}

static void add_epoch(struct verify_log *log, int32_t epoch, int64_t offset_start)
{
    log->epochs = verify_grow(log->epochs, log->epoch_count, &log->epoch_room, sizeof *log->epochs);
    log->epochs[log->epoch_count++] = (struct verify_epoch){.epoch = epoch, .offset_start = offset_start};
}

bool verify_state(struct verify *verify, struct base_slice state)
{
    if (state.size_bytes < 8 || base_get_u32(state.at) != STATE_MAGIC) { return false; }
    size_t sum_at = state.size_bytes - 4;
    if (base_get_u32(state.at + sum_at) != codec_crc32c(0, state.at, sum_at)) { return false; }
    struct cursor cursor = {.at = state.at + 4, .left_bytes = sum_at - 4};
    uint64_t version = take(&cursor, 2);
    if (version < 1 || version > 2 || cursor.left_bytes < 24) { return false; }
    struct base_part id;
    memcpy(id.topic.b, cursor.at, sizeof id.topic.b);
    cursor.at += sizeof id.topic.b;
    cursor.left_bytes -= sizeof id.topic.b;
    id.index = (int32_t)take(&cursor, 4);
    uint64_t flags = take(&cursor, 2);
    uint64_t name_bytes = take(&cursor, 2);
    if (cursor.is_bad || name_bytes > cursor.left_bytes) { return false; }
    struct verify_log *log = add_log(verify, id, base_slice_of(cursor.at, (size_t)name_bytes));
    if (log == NULL) { return false; }
    cursor.at += name_bytes;
    cursor.left_bytes -= (size_t)name_bytes;
    log->is_gone = (flags & STATE_DELETING) != 0;
    log->is_page_cache = (flags & STATE_PAGE_CACHE) != 0;
    (void)take(&cursor, 8); /* index interval, leader epoch */
    log->offset_start = (int64_t)take(&cursor, 8);
    log->offset_end = (int64_t)take(&cursor, 8);
    if (version >= 2) {
        (void)take(&cursor, 8); /* the watermark: the files don't say */
        log->cuts = (uint16_t)take(&cursor, 2);
    }
    uint32_t epochs = take_count(&cursor, 12);
    for (uint32_t i = 0; i < epochs; i++) {
        int32_t epoch = (int32_t)take(&cursor, 4);
        add_epoch(log, epoch, (int64_t)take(&cursor, 8));
    }
    uint32_t segments = take_count(&cursor, 89);
    for (uint32_t i = 0; i < segments; i++) { take_segment(log, &cursor); }
    return !cursor.is_bad;
}

/* ---- entries ---- */

static void take_run(struct verify_log *log, const struct verify_run *run)
{
    if (run->offset_end <= log->offset_end || log->segment_count == 0) { return; } /* covered, or its birth was lost */
    struct verify_segment *last = &log->segments[log->segment_count - 1];
    if (last->base != run->segment_base || run->position_bytes < last->size_bytes) {
        return;
    } /* the journal's damage says so */
    log->runs = verify_grow(log->runs, log->run_count, &log->run_room, sizeof *log->runs);
    log->runs[log->run_count++] = *run;
    last->size_bytes = run->position_bytes + run->size_bytes;
    last->end = run->offset_end;
    log->offset_end = run->offset_end;
}

/* A log that no state and no entry before told of. */
static struct verify_log *be_born(struct verify *verify, const struct verify_entry *entry)
{
    struct base_slice birth = entry->bytes;
    if (birth.size_bytes <= BIRTH_HEAD_BYTES || base_get_u16(birth.at + 6) != birth.size_bytes - BIRTH_HEAD_BYTES) {
        return NULL;
    }
    size_t name_bytes = birth.size_bytes - BIRTH_HEAD_BYTES;
    struct verify_log *log = add_log(verify, entry->id, base_slice_of(birth.at + BIRTH_HEAD_BYTES, name_bytes));
    if (log != NULL) {
        log->is_page_cache = (birth.at[1] & 1) != 0;
        log->cuts = entry->cuts;
    }
    return log;
}

static void begin_segment(struct verify_log *log, int64_t base)
{
    if (log->segment_count > 0 && log->segments[log->segment_count - 1].base >= base) { return; }
    (void)add_segment(log, base); /* its runs follow */
    if (log->offset_end < base) { log->offset_end = base; }
}

/* What lies behind the cut is nobody's; the index of the segment that it goes into begins anew. */
static void truncate(struct verify_log *log, const struct verify_entry *entry)
{
    int64_t base = entry->run.segment_base, end = entry->run.offset_base;
    uint64_t position = entry->run.position_bytes;
    log->cuts = entry->cuts;
    while (log->segment_count > 0 && log->segments[log->segment_count - 1].base > base) { log->segment_count -= 1; }
    struct verify_segment *last = log->segment_count == 0 ? NULL : &log->segments[log->segment_count - 1];
    if (last != NULL && last->base == base && last->size_bytes > position) {
        last->size_bytes = position;
        last->end = end;
        if (last->state_bytes > position) { last->index_count = last->time_count = 0; }
        last->state_bytes = base_min_u64(last->state_bytes, position);
        last->damage_to = base_min_u64(last->damage_to, position);
        last->damage_from = base_min_u64(last->damage_from, last->damage_to);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < log->run_count; i++) {
        struct verify_run run = log->runs[i];
        if (run.segment_base > base || (run.segment_base == base && run.position_bytes >= position)) { continue; }
        if (run.segment_base == base && run.position_bytes + run.size_bytes > position) {
            run.size_bytes = position - run.position_bytes;
            run.offset_end = end;
        }
        log->runs[kept++] = run;
    }
    log->run_count = kept;
    while (log->epoch_count > 0 && log->epochs[log->epoch_count - 1].offset_start >= end) { log->epoch_count -= 1; }
    log->offset_end = base_min_i64(log->offset_end, end);
}

void verify_take_entry(struct verify *verify, const struct verify_entry *entry)
{
    struct verify_log *log = verify_log_of(verify, entry->id);
    bool is_birth = entry->kind == KIND_SEGMENT || entry->kind == KIND_EPOCH;
    if (log == NULL && is_birth) { log = be_born(verify, entry); }
    if (log == NULL || (int16_t)(uint16_t)(entry->cuts - log->cuts) < 0) { return; } /* gone, or history */
    switch (entry->kind) {
    case KIND_RUN: take_run(log, &entry->run); return;
    case KIND_SEGMENT: begin_segment(log, entry->run.segment_base); return;
    case KIND_START: log->offset_start = base_max_i64(log->offset_start, entry->run.offset_base); return;
    case KIND_TRUNCATE: truncate(log, entry); return;
    case KIND_GONE: log->is_gone = true; return;
    case KIND_EPOCH:
        if (log->epoch_count == 0 || log->epochs[log->epoch_count - 1].epoch < entry->run.leader_epoch) {
            add_epoch(log, entry->run.leader_epoch, entry->run.offset_base);
        }
        return;
    default: return; /* of no matter to the files */
    }
}
