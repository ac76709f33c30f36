/* walk.c: the records of a batch, one after the other; see record.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/arith.h"
#include "record/record.h"

#define HEADER_BYTES_MIN 2 /* a record's header: an empty key and no value */

/* Reads that stay bad once they were: looked at once, at the end. */
struct reader {
    struct base_slice rest;
    bool is_bad;
};

static void skip(struct reader *reader, size_t bytes)
{
    CHECK(bytes <= reader->rest.size_bytes);
    reader->rest.at += bytes;
    reader->rest.size_bytes -= bytes;
}

/* Nearly every number in a record takes one byte: those are read here, the others in varint.c. */
static bool read_small(struct reader *reader, int32_t *value_out)
{
    if (reader->is_bad || reader->rest.size_bytes == 0 || *reader->rest.at > 0x7f) { return false; }
    int32_t value = *reader->rest.at;
    *value_out = (value & 1) != 0 ? -(value >> 1) - 1 : value >> 1;
    skip(reader, 1);
    return true;
}

static int32_t read_varint(struct reader *reader)
{
    int32_t value = 0;
    if (read_small(reader, &value)) { return value; }
    size_t used = reader->is_bad ? 0 : rec_varint_get(reader->rest, &value);
    if (used == 0) {
        reader->is_bad = true;
        return 0;
    }
    skip(reader, used);
    return value;
}

static int64_t read_varlong(struct reader *reader)
{
    int32_t small = 0;
    int64_t value = 0;
    if (read_small(reader, &small)) { return small; }
    size_t used = reader->is_bad ? 0 : rec_varlong_get(reader->rest, &value);
    if (used == 0) {
        reader->is_bad = true;
        return 0;
    }
    skip(reader, used);
    return value;
}

/* `length` bytes; a negative length or one past the end is bad. */
static struct base_slice read_bytes(struct reader *reader, int32_t length)
{
    if (reader->is_bad || length < 0 || (size_t)length > reader->rest.size_bytes) {
        reader->is_bad = true;
        return (struct base_slice){.at = NULL};
    }
    struct base_slice bytes = base_slice_of(reader->rest.at, (size_t)length);
    skip(reader, (size_t)length);
    return bytes;
}

static struct rec_value read_value(struct reader *reader)
{
    int32_t length = read_varint(reader);
    if (length == -1) { return rec_null(); }
    return rec_value_of(read_bytes(reader, length));
}

static struct rec_header read_header(struct reader *reader)
{
    struct rec_header header;
    int32_t key_bytes = read_varint(reader);
    header.key = read_bytes(reader, key_bytes);
    header.value = read_value(reader);
    return header;
}

bool rec_header_next(struct base_slice *headers, struct rec_header *header_out)
{
    if (headers->size_bytes == 0) { return false; }
    struct reader reader = {.rest = *headers};
    struct rec_header header = read_header(&reader);
    if (reader.is_bad) { return false; } /* can't be, in what a walk has checked */
    *headers = reader.rest;
    *header_out = header;
    return true;
}

/* Reads and checks `count` headers to the end of the record; the slice of them all. */
static struct base_slice read_headers(struct reader *reader, int32_t count)
{
    struct base_slice headers = reader->rest;
    if (reader->is_bad || count < 0 || (size_t)count > reader->rest.size_bytes / HEADER_BYTES_MIN) {
        reader->is_bad = true;
        return headers;
    }
    for (int32_t i = 0; i < count && !reader->is_bad; i++) { (void)read_header(reader); /* only checked here */ }
    if (reader->rest.size_bytes != 0) { reader->is_bad = true; }
    return headers;
}

void rec_walk_init(struct rec_walk *walk, const struct rec_batch *batch, struct base_slice records)
{
    *walk = (struct rec_walk){.rest = records, .batch = *batch};
}

enum rec_verdict rec_walk_next(struct rec_walk *walk, struct rec_record *record_out)
{
    if (walk->index == walk->batch.record_count) {
        return walk->rest.size_bytes == 0 ? REC_END : REC_BAD_RECORD; /* bytes behind the last record */
    }
    struct reader outer = {.rest = walk->rest};
    int32_t body_bytes = read_varint(&outer);
    struct reader reader = {.rest = read_bytes(&outer, body_bytes)};
    reader.is_bad = outer.is_bad;

    struct rec_record record = {.size_bytes = walk->rest.size_bytes - outer.rest.size_bytes};
    (void)read_bytes(&reader, 1); /* attributes: no bit has a meaning yet, so any is let through, as Kafka does */
    int64_t timestamp_delta_ms = read_varlong(&reader);
    record.offset_delta = read_varint(&reader);
    record.key = read_value(&reader);
    record.value = read_value(&reader);
    record.header_count = read_varint(&reader);
    record.headers = read_headers(&reader, record.header_count);
    if (reader.is_bad) { return REC_BAD_RECORD; }
    if (record.offset_delta < walk->offset_delta_min || record.offset_delta > walk->batch.last_offset_delta) {
        return REC_BAD_OFFSET_DELTA;
    }
    record.offset = walk->batch.base_offset + record.offset_delta;
    record.timestamp_ms = rec_is_log_append_time(&walk->batch)
                              ? walk->batch.max_timestamp_ms
                              : (int64_t)((uint64_t)walk->batch.base_timestamp_ms + (uint64_t)timestamp_delta_ms);
    walk->rest = outer.rest;
    walk->index += 1;
    walk->offset_delta_min = (int64_t)record.offset_delta + 1;
    *record_out = record;
    return REC_OK;
}

enum rec_verdict rec_find_timestamp(const struct rec_batch *batch, struct base_slice records, int64_t timestamp_ms,
                                    struct rec_record *record_out)
{
    struct rec_walk walk;
    rec_walk_init(&walk, batch, records);
    for (;;) {
        struct rec_record record;
        enum rec_verdict verdict = rec_walk_next(&walk, &record);
        if (verdict != REC_OK) { return verdict; }
        if (record.timestamp_ms >= timestamp_ms) {
            *record_out = record;
            return REC_OK;
        }
    }
}

static struct base_slice stored_records(const struct rec_batch *batch)
{
    return base_slice_of(batch->at + REC_HEADER_BYTES, batch->size_bytes - REC_HEADER_BYTES);
}

/* Room for the output, and for the scratch and both alignments behind it. */
static size_t opening_bytes(enum codec_kind kind, size_t out_bytes)
{
    return out_bytes + codec_decompress_scratch_bytes(kind) + 2 * CODEC_SCRATCH_ALIGN;
}

size_t rec_open_bytes(const struct rec_batch *batch, size_t opened_max_bytes)
{
    uint32_t number = rec_codec_number(batch);
    if (number == CODEC_NONE || !codec_is_known(number)) { return 0; }
    enum codec_kind kind = (enum codec_kind)number;
    return opening_bytes(kind, codec_decompressed_bound_bytes(kind, stored_records(batch), opened_max_bytes));
}

enum rec_verdict rec_open(const struct rec_batch *batch, size_t opened_max_bytes, struct base_arena *arena,
                          struct base_slice *records_out)
{
    uint32_t number = rec_codec_number(batch);
    if (!codec_is_known(number)) { return REC_BAD_CODEC; }
    struct base_slice stored = stored_records(batch);
    opened_max_bytes = base_min_size(opened_max_bytes, CODEC_BYTES_MAX);
    if (number == CODEC_NONE) {
        *records_out = stored;
        return REC_OK;
    }
    enum codec_kind kind = (enum codec_kind)number;
    size_t wanted_bytes = codec_decompressed_bound_bytes(kind, stored, opened_max_bytes);
    size_t mark = base_arena_mark(arena);
    size_t room_bytes = arena->size_bytes - mark;
    size_t fixed_bytes = opening_bytes(kind, 0);
    if (room_bytes < fixed_bytes) { return REC_NO_ROOM; }
    size_t out_bytes = base_min_size(wanted_bytes, room_bytes - fixed_bytes); /* the bound is often far too high */

    void *out = base_arena_take(arena, out_bytes);
    size_t scratch_bytes = codec_decompress_scratch_bytes(kind);
    struct codec_scratch scratch = {.at = base_arena_take(arena, scratch_bytes), .size_bytes = scratch_bytes};
    CHECK(out != NULL);
    CHECK(scratch.at != NULL);
    size_t opened_bytes;
    enum codec_rc rc = codec_decompress(kind, stored, scratch, out, out_bytes, &opened_bytes);
    base_arena_reset(arena, mark);
    switch (rc) {
    case CODEC_OK: break;
    case CODEC_BAD: return REC_BAD_COMPRESSION;
    case CODEC_TOO_LARGE:
        if (out_bytes < wanted_bytes) { return REC_NO_ROOM; }
        /* below the limit no honest input passes its own bound */
        return wanted_bytes < opened_max_bytes ? REC_BAD_COMPRESSION : REC_OPENED_TOO_LARGE;
    case CODEC_SCRATCH: return REC_NO_ROOM;
    }
    out = base_arena_take(arena, opened_bytes); /* the same place, cut to size */
    CHECK(out != NULL);
    *records_out = base_slice_of(out, opened_bytes);
    return REC_OK;
}
