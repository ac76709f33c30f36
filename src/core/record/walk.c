/* walk.c: the records of a batch, one after the other; see record.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/arith.h"
#include "record/record.h"

#define HEADER_BYTES_MIN 2 /* a record's header: an empty key and no value */

/* Reads that stay bad once they were: looked at once, at the end. What is bad has nothing left to read. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool is_bad;
};

static inline struct reader reader_of(struct base_slice bytes)
{
    return (struct reader){.at = bytes.at, .end = bytes.at + bytes.size_bytes};
}

static inline struct base_slice rest_of(const struct reader *reader)
{
    return base_slice_of(reader->at, (size_t)(reader->end - reader->at));
}

static void spoil(struct reader *reader)
{
    reader->is_bad = true;
    reader->end = reader->at;
}

static int32_t read_long_varint(struct reader *reader)
{
    int32_t value = 0;
    size_t used = rec_varint_get(rest_of(reader), &value);
    if (used == 0) { spoil(reader); }
    reader->at += used;
    return value;
}

static int64_t read_long_varlong(struct reader *reader)
{
    int64_t value = 0;
    size_t used = rec_varlong_get(rest_of(reader), &value);
    if (used == 0) { spoil(reader); }
    reader->at += used;
    return value;
}

static inline int32_t unzigzag(uint32_t value) { return (int32_t)(value >> 1) ^ -(int32_t)(value & 1); }

/* Nearly every number in a record takes one byte or two: those are read here, the others in varint.c. False: it is another. */
static inline bool read_short(struct reader *reader, int32_t *value_out)
{
    const uint8_t *at = reader->at;
    if (at == reader->end) { return false; }
    if (at[0] <= 0x7f) {
        *value_out = unzigzag(at[0]);
        reader->at = at + 1;
        return true;
    }
    if (reader->end - at < 2 || at[1] > 0x7f) { return false; }
    *value_out = unzigzag((at[0] & 0x7fu) | (uint32_t)at[1] << 7);
    reader->at = at + 2;
    return true;
}

static inline int32_t read_varint(struct reader *reader)
{
    int32_t value;
    return read_short(reader, &value) ? value : read_long_varint(reader);
}

static inline int64_t read_varlong(struct reader *reader)
{
    int32_t value;
    return read_short(reader, &value) ? value : read_long_varlong(reader);
}

/* `length` bytes; a negative length or one past the end is bad. */
static inline struct base_slice read_bytes(struct reader *reader, int32_t length)
{
    if (length < 0 || length > reader->end - reader->at || reader->is_bad) {
        spoil(reader);
        return (struct base_slice){.at = NULL};
    }
    struct base_slice bytes = base_slice_of(reader->at, (size_t)length);
    reader->at += length;
    return bytes;
}

static inline struct rec_value read_value(struct reader *reader)
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
    struct reader reader = reader_of(*headers);
    struct rec_header header = read_header(&reader);
    if (reader.is_bad) { return false; } /* can't be, in what a walk has checked */
    *headers = rest_of(&reader);
    *header_out = header;
    return true;
}

/* Reads and checks `count` headers to the end of the record; the slice of them all. */
static struct base_slice read_headers(struct reader *reader, int32_t count)
{
    struct base_slice headers = rest_of(reader);
    if (reader->is_bad || count < 0 || (size_t)count > headers.size_bytes / HEADER_BYTES_MIN) {
        spoil(reader);
        return headers;
    }
    for (int32_t i = 0; i < count && !reader->is_bad; i++) { (void)read_header(reader); /* only checked here */ }
    if (reader->at != reader->end) { spoil(reader); }
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
    struct reader outer = reader_of(walk->rest);
    int32_t body_bytes = read_varint(&outer);
    struct base_slice body = read_bytes(&outer, body_bytes);
    if (outer.is_bad) { return REC_BAD_RECORD; }
    struct reader reader = reader_of(body);

    struct rec_record record = {.size_bytes = (size_t)(outer.at - walk->rest.at)};
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
    walk->rest = rest_of(&outer);
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
