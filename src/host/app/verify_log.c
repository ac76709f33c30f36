/* verify_log.c: the segments of a partition, batch by batch, and their indexes. See app__verify.h.
 *
 * The crc of a batch covers neither its base offset nor its leader epoch: these are compared with the batch before it and with the
 * epochs that the checkpoint knows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "record/record.h"

enum { INDEX_BYTES = 8, TIME_BYTES = 12 };

struct batch_at {
    uint64_t position;
    int64_t offset_last;
    int64_t max_timestamp_ms;
};

struct walk {
    struct verify *verify;
    const struct verify_log *log;
    const struct verify_segment *segment;
    const char *file;
    const uint8_t *bytes;
    uint64_t size_bytes; /* of the file */
    uint64_t at;
    int64_t offset; /* expected */
    struct batch_at *batches;
    uint32_t batch_count, batch_room;
};

static void file_of(const struct verify_log *log, const struct verify_segment *segment, const char *suffix,
                    char file_out[VERIFY_PATH_BYTES])
{
    (void)snprintf(file_out, VERIFY_PATH_BYTES, "%s-%" PRId32 "/%020" PRId64 "%s", log->name, log->id.index,
                   segment->base, suffix); /* a name is below 256 */
}

static void damage(const struct walk *walk, uint64_t from, uint64_t to, int64_t offset_end, const char *what)
{
    struct verify_place place = {.file = walk->file,
                                 .position_bytes = from,
                                 .size_bytes = to - from,
                                 .log = walk->log,
                                 .offset_first = walk->offset,
                                 .offset_end = offset_end};
    verify_damage(walk->verify, &place, "%s", what);
}

/* The run after the checkpoint that begins at or covers `position`; NULL: the checkpoint's own. */
static const struct verify_run *run_at(const struct walk *walk, uint64_t position)
{
    for (uint32_t i = 0; i < walk->log->run_count; i++) {
        const struct verify_run *run = &walk->log->runs[i];
        if (run->segment_base == walk->segment->base && run->position_bytes <= position &&
            position < run->position_bytes + run->size_bytes) {
            return run;
        }
    }
    return NULL;
}

/* Where the walk of `from` must end at the latest: the end of its run, or of what the checkpoint knows. */
static uint64_t limit_of(const struct walk *walk, uint64_t from)
{
    const struct verify_run *run = run_at(walk, from);
    if (run != NULL) { return run->position_bytes + run->size_bytes; }
    uint64_t limit = from < walk->segment->state_bytes ? walk->segment->state_bytes : walk->segment->size_bytes;
    for (uint32_t i = 0; i < walk->log->run_count; i++) {
        const struct verify_run *next = &walk->log->runs[i];
        if (next->segment_base != walk->segment->base || next->position_bytes < from) { continue; }
        limit = base_min_u64(limit, next->position_bytes);
    }
    return limit;
}

static int64_t offset_of_limit(const struct walk *walk, uint64_t limit)
{
    const struct verify_run *next = run_at(walk, limit);
    if (next != NULL && limit < walk->segment->size_bytes) { return next->offset_base; }
    for (uint32_t i = 0; i < walk->log->run_count; i++) {
        const struct verify_run *run = &walk->log->runs[i];
        if (run->segment_base == walk->segment->base && run->position_bytes + run->size_bytes == limit) {
            return run->offset_end;
        }
    }
    return walk->segment->end;
}

static int32_t epoch_at(const struct verify_log *log, int64_t offset)
{
    int32_t epoch = -1;
    for (uint32_t i = 0; i < log->epoch_count && log->epochs[i].offset_start <= offset; i++) {
        epoch = log->epochs[i].epoch;
    }
    return epoch;
}

static const char *judge(const struct walk *walk, const struct rec_batch *batch)
{
    if (!rec_crc_is_right(batch)) { return "its crc is wrong"; }
    if (batch->base_offset != walk->offset) { return "its base offset is wrong"; }
    const struct verify_run *run = run_at(walk, walk->at);
    int32_t epoch = run != NULL ? run->leader_epoch : epoch_at(walk->log, walk->offset);
    if (epoch >= 0 && batch->leader_epoch != epoch) { return "its leader epoch is wrong"; }
    return NULL;
}

/* The next place from `from` on, before `limit`, where a whole batch stands that may follow. */
static uint64_t next_good(const struct walk *walk, uint64_t from, uint64_t limit)
{
    for (uint64_t at = from; at + REC_HEADER_BYTES <= limit; at++) {
        if (walk->bytes[at + REC_MAGIC_AT] != 2) { continue; }
        struct rec_batch batch;
        if (rec_batch_view(base_slice_of(walk->bytes + at, (size_t)(limit - at)), &batch) != REC_OK) { continue; }
        if (batch.base_offset > walk->offset && batch.base_offset < walk->segment->end && rec_crc_is_right(&batch)) {
            return at;
        }
    }
    return limit;
}

static void add_batch(struct walk *walk, const struct rec_batch *batch)
{
    walk->batches = verify_grow(walk->batches, walk->batch_count, &walk->batch_room, sizeof *walk->batches);
    int64_t last = walk->offset + batch->last_offset_delta;
    walk->batches[walk->batch_count++] =
        (struct batch_at){.position = walk->at, .offset_last = last, .max_timestamp_ms = batch->max_timestamp_ms};
    walk->verify->batches += 1;
}

/* One batch, or damage up to the next. */
static void step(struct walk *walk)
{
    uint64_t limit = limit_of(walk, walk->at);
    uint64_t there = base_min_u64(limit, walk->size_bytes);
    struct rec_batch batch;
    struct base_slice rest = base_slice_of(walk->bytes + walk->at, (size_t)(there - walk->at));
    if (rec_batch_view(rest, &batch) == REC_OK) {
        const char *what = judge(walk, &batch);
        int64_t end = walk->offset + batch.last_offset_delta + 1;
        uint64_t next = walk->at + batch.size_bytes;
        struct rec_batch after;
        /* A length or a count that is wrong leads nowhere: what it says is believed if a batch, or the end, follows. */
        bool leads_on = next == limit ||
                        (rec_batch_view(base_slice_of(walk->bytes + next, (size_t)(there - next)), &after) == REC_OK);
        if (what == NULL || (leads_on && end <= walk->segment->end)) {
            if (what != NULL) { damage(walk, walk->at, next, end, what); }
            add_batch(walk, &batch);
            walk->at = next;
            walk->offset = end;
            return;
        }
    }
    uint64_t next = next_good(walk, walk->at + 1, there);
    int64_t offset = next < there ? (int64_t)base_get_u64(walk->bytes + next) : offset_of_limit(walk, limit);
    if (next >= there) { next = limit; }
    damage(walk, walk->at, next, offset, "no batch stands here");
    walk->at = next;
    walk->offset = offset;
}

static void walk_segment(struct walk *walk)
{
    const struct verify_segment *segment = walk->segment;
    while (walk->at < segment->size_bytes && !walk->verify->is_stopped) {
        const struct verify_run *run = run_at(walk, walk->at);
        if (run != NULL && run->is_in_journal) { /* written again at the next start, whatever is here */
            walk->at = run->position_bytes + run->size_bytes;
            walk->offset = run->offset_end;
        } else if (walk->at >= segment->damage_from && walk->at < segment->damage_to) {
            int64_t offset = offset_of_limit(walk, segment->damage_to);
            damage(walk, walk->at, segment->damage_to, offset, "the broker knows that this is damaged");
            walk->at = segment->damage_to;
            walk->offset = offset;
        } else if (walk->at >= walk->size_bytes) {
            uint64_t limit = limit_of(walk, walk->at);
            int64_t offset = offset_of_limit(walk, limit);
            damage(walk, walk->at, limit, offset, "the file ends before it");
            walk->at = limit;
            walk->offset = offset;
        } else {
            step(walk);
        }
    }
}

/* ---- indexes ---- */

static const struct batch_at *batch_from(const struct walk *walk, uint64_t position)
{
    uint32_t low = 0, high = walk->batch_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (walk->batches[middle].position < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < walk->batch_count ? &walk->batches[low] : NULL;
}

static bool is_index_entry_true(const struct walk *walk, const uint8_t *entry)
{
    const struct batch_at *batch = batch_from(walk, base_get_u32(entry + 4));
    return batch != NULL && batch->position == base_get_u32(entry + 4) &&
           batch->offset_last == walk->segment->base + (int64_t)base_get_u32(entry);
}

static bool is_time_entry_true(const struct walk *walk, const uint8_t *entry)
{
    int64_t offset = walk->segment->base + (int64_t)base_get_u32(entry + 8);
    uint32_t low = 0, high = walk->batch_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (walk->batches[middle].offset_last < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < walk->batch_count && walk->batches[low].offset_last == offset &&
           walk->batches[low].max_timestamp_ms == (int64_t)base_get_u64(entry);
}

/* Nothing of an index is believed when it is used: damage to it makes lookups slower, no more. */
static void verify_index(struct walk *walk, bool is_time)
{
    uint32_t count = is_time ? walk->segment->time_count : walk->segment->index_count;
    size_t entry_bytes = is_time ? TIME_BYTES : INDEX_BYTES;
    if (count == 0) { return; }
    char file[VERIFY_PATH_BYTES];
    file_of(walk->log, walk->segment, is_time ? ".timeindex" : ".index", file);
    struct verify_place place = {.file = file, .log = walk->log, .offset_first = -1, .offset_end = -1};
    size_t size_bytes = 0;
    uint64_t before = walk->verify->damages;
    uint8_t *bytes = verify_read(walk->verify, file, &size_bytes);
    if (bytes == NULL && walk->verify->damages == before) {
        verify_damage(walk->verify, &place, "the index is not there");
    }
    if (bytes == NULL) { return; }
    for (uint32_t i = 0; i < count; i++) {
        place.position_bytes = i * entry_bytes;
        place.size_bytes = entry_bytes;
        if (place.position_bytes + entry_bytes > size_bytes) {
            place.size_bytes = 0;
            verify_damage(walk->verify, &place, "the index has %u of %u entries", (unsigned)i, (unsigned)count);
            break;
        }
        const uint8_t *entry = bytes + place.position_bytes;
        if (is_time ? is_time_entry_true(walk, entry) : is_index_entry_true(walk, entry)) { continue; }
        verify_damage(walk->verify, &place, "the entry of the index is wrong");
        break; /* one is enough to say that it is not to be believed */
    }
    free(bytes);
}

static void verify_segment(struct verify *verify, const struct verify_log *log, const struct verify_segment *segment)
{
    char file[VERIFY_PATH_BYTES];
    file_of(log, segment, ".log", file);
    verify->segments += 1;
    struct walk walk = {.verify = verify, .log = log, .segment = segment, .file = file, .offset = segment->base};
    size_t size_bytes = 0;
    uint64_t before = verify->damages;
    uint8_t *bytes = verify_read(verify, file, &size_bytes);
    walk.bytes = bytes;
    walk.size_bytes = size_bytes;
    if (bytes == NULL && verify->damages == before && segment->state_bytes > 0) {
        damage(&walk, 0, segment->size_bytes, segment->end, "the file is not there");
    }
    if (bytes != NULL) {
        walk_segment(&walk);
        verify_index(&walk, false);
        verify_index(&walk, true);
    }
    free(walk.batches);
    free(bytes);
}

static void verify_owner(struct verify *verify, const struct verify_log *log)
{
    char file[VERIFY_PATH_BYTES];
    (void)snprintf(file, sizeof file, "%s-%" PRId32 "/partition.metadata", log->name, log->id.index); /* as file_of */
    char id[23];
    base_uuid_to_text(log->id.topic, id);
    char wanted[64];
    int length = snprintf(wanted, sizeof wanted, "version: 0\ntopic_id: %s\n", id);
    size_t size_bytes = 0;
    uint8_t *bytes = verify_read(verify, file, &size_bytes);
    bool is_ours = bytes != NULL && size_bytes == (size_t)length && memcmp(bytes, wanted, size_bytes) == 0;
    struct verify_place place = {.file = file, .log = log, .offset_first = -1, .offset_end = -1};
    if (bytes != NULL && !is_ours) {
        verify_damage(verify, &place, "the directory is not this topic's, or the file is damaged");
    }
    free(bytes);
}

void verify_log_files(struct verify *verify, const struct verify_log *log)
{
    if (log->segment_count > 0) { verify_owner(verify, log); }
    for (uint32_t i = 0; i < log->segment_count && !verify->is_stopped; i++) {
        if (log->segments[i].size_bytes == 0 || log->segments[i].end <= log->offset_start) { continue; }
        verify_segment(verify, log, &log->segments[i]);
    }
}
