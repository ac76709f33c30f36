/* verify_state.c: state blocks of a checkpoint and entries of the journal, into what there should be. See app__verify.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__verify.h"

#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"

enum { STATE_MAGIC = 0x57504c53, STATE_PAGE_CACHE = 1, STATE_DELETING = 16 }; /* "WPLS" */
enum { KIND_RUN = 0, KIND_START = 1, KIND_GONE = 3, KIND_SEGMENT = 4, KIND_EPOCH = 5, BIRTH_HEAD_BYTES = 8 };

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

bool verify_state(struct verify *verify, struct base_slice state)
{
    if (state.size_bytes < 8 || base_get_u32(state.at) != STATE_MAGIC) { return false; }
    size_t sum_at = state.size_bytes - 4;
    if (base_get_u32(state.at + sum_at) != codec_crc32c(0, state.at, sum_at)) { return false; }
    struct cursor cursor = {.at = state.at + 4, .left_bytes = sum_at - 4};
    if (take(&cursor, 2) != 1 || cursor.left_bytes < 24) { return false; }
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
    uint32_t epochs = take_count(&cursor, 12);
    uint32_t room = 0;
    for (uint32_t i = 0; i < epochs; i++) {
        log->epochs = verify_grow(log->epochs, i, &room, sizeof *log->epochs);
        log->epochs[i].epoch = (int32_t)take(&cursor, 4);
        log->epochs[i].offset_start = (int64_t)take(&cursor, 8);
        log->epoch_count = i + 1;
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

static void be_born(struct verify *verify, const struct verify_entry *entry, struct verify_log *log)
{
    struct base_slice birth = entry->bytes;
    if (log == NULL && birth.size_bytes > BIRTH_HEAD_BYTES) {
        size_t name_bytes = base_get_u16(birth.at + 6);
        if (name_bytes != birth.size_bytes - BIRTH_HEAD_BYTES) { return; }
        log = add_log(verify, entry->id, base_slice_of(birth.at + BIRTH_HEAD_BYTES, name_bytes));
        if (log != NULL) { log->is_page_cache = (birth.at[1] & 1) != 0; }
    }
    if (log == NULL) { return; }
    int64_t base = entry->run.segment_base;
    if (log->segment_count > 0 && log->segments[log->segment_count - 1].base >= base) { return; }
    (void)add_segment(log, base); /* its runs follow */
    if (log->offset_end < base) { log->offset_end = base; }
}

void verify_take_entry(struct verify *verify, const struct verify_entry *entry)
{
    struct verify_log *log = verify_log_of(verify, entry->id);
    switch (entry->kind) {
    case KIND_RUN:
        if (log != NULL) { take_run(log, &entry->run); }
        return;
    case KIND_SEGMENT: be_born(verify, entry, log); return;
    case KIND_START:
        if (log != NULL && entry->run.offset_base > log->offset_start) { log->offset_start = entry->run.offset_base; }
        return;
    case KIND_GONE:
        if (log != NULL) { log->is_gone = true; }
        return;
    default: return; /* of no matter to the files */
    }
}
