/* fuzz_record_batch.c: any bytes as a row of record batches: view, validate, open, walk, search, build again.
 *
 * Input   the first byte steers: bit 0 repairs the crc of every batch, so that the fuzzer gets past it; bit 1 gives the
 *         length field the size at hand; bit 2 refuses to open compressed batches; bit 3 sets timestamp limits and
 *         demands keys; bits 4 to 7 shrink the memory for opening. The rest are the batches.
 * Checks  what a record claims lies inside the bytes; what validation accepts, a walk reads, and a copy reads the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "record/record.h"

#define OPENED_MAX_BYTES ((size_t)256 * 1024)
#define MEMORY_BYTES     ((size_t)512 * 1024)

enum { REPAIR_CRC = 1, REPAIR_LENGTH = 2, OPEN_NEVER = 4, STRICT = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition) { abort(); }
}

static bool is_inside(struct base_slice part, struct base_slice whole)
{
    if (part.size_bytes == 0) { return true; }
    return part.at >= whole.at && part.size_bytes <= whole.size_bytes &&
           (size_t)(part.at - whole.at) <= whole.size_bytes - part.size_bytes;
}

static void repair(uint8_t *at, size_t size, uint8_t steer)
{
    if ((steer & REPAIR_LENGTH) != 0 && size >= REC_HEADER_BYTES) {
        base_put_u32(at + REC_LENGTH_AT, (uint32_t)(size - REC_LENGTH_PREFIX_BYTES));
        at[REC_MAGIC_AT] = 2;
    }
    if ((steer & REPAIR_CRC) == 0) { return; }
    struct base_slice rest = base_slice_of(at, size);
    struct rec_batch batch;
    while (rec_batch_next(&rest, &batch) == REC_OK) {
        base_put_u32(at + (batch.at - at) + REC_CRC_AT,
                     codec_crc32c(0, batch.at + REC_ATTRIBUTES_AT, batch.size_bytes - REC_ATTRIBUTES_AT));
    }
}

/* Reads all records; copies them into a new batch, which must then read the same. */
static enum rec_verdict walk_and_copy(const struct rec_batch *batch, struct base_slice records)
{
    /* a record has 7 bytes at least, and its copy at most 16 more: other varints */
    size_t room_bytes = REC_HEADER_BYTES + records.size_bytes + 16 * (records.size_bytes / 7 + 1);
    uint8_t *room = malloc(room_bytes);
    must(room != NULL);
    struct rec_build build;
    must(rec_build_init(&build, room, room_bytes, rec_build_plain()) == BASE_OK);
    struct rec_walk walk;
    rec_walk_init(&walk, batch, records);
    struct rec_record record;
    enum rec_verdict verdict;
    int64_t offset_min = batch->base_offset;
    while ((verdict = rec_walk_next(&walk, &record)) == REC_OK) {
        must(record.offset >= offset_min && record.offset <= rec_offset_last(batch));
        offset_min = record.offset + 1;
        must(is_inside(record.key.bytes, records));
        must(is_inside(record.value.bytes, records));
        struct base_slice headers = record.headers;
        struct rec_header header;
        int32_t header_count = 0;
        while (rec_header_next(&headers, &header)) {
            must(is_inside(header.key, records));
            must(is_inside(header.value.bytes, records));
            header_count += 1;
        }
        must(header_count == record.header_count);
        must(headers.size_bytes == 0);
        must(rec_build_copy(&build, record.offset_delta, &record) == BASE_OK);
    }
    if (verdict == REC_END) {
        struct rec_batch copy;
        must(rec_batch_view(rec_build_end(&build), &copy) == REC_OK);
        must(rec_crc_is_right(&copy));
        struct rec_walk again;
        struct rec_record same;
        rec_walk_init(&walk, batch, records);
        rec_walk_init(&again, &copy, base_slice_of(room + REC_HEADER_BYTES, rec_build_records_bytes(&build)));
        while (rec_walk_next(&walk, &record) == REC_OK) {
            must(rec_walk_next(&again, &same) == REC_OK);
            must(same.timestamp_ms == record.timestamp_ms);
            must(same.offset_delta == record.offset_delta);
            must(same.key.is_null == record.key.is_null && base_slice_equal(same.key.bytes, record.key.bytes));
            must(same.value.is_null == record.value.is_null && base_slice_equal(same.value.bytes, record.value.bytes));
            must(base_slice_equal(same.headers, record.headers));
        }
        must(rec_walk_next(&again, &same) == REC_END);
    }
    free(room);
    return verdict;
}

static struct rec_rules rules_of(uint8_t steer)
{
    bool is_strict = (steer & STRICT) != 0;
    return (struct rec_rules){
        .batch_max_bytes = SIZE_MAX,
        .opened_max_bytes = OPENED_MAX_BYTES,
        .open = (steer & OPEN_NEVER) != 0 ? REC_OPEN_NEVER : REC_OPEN_COMPRESSED,
        .stamp = REC_CREATE_TIME,
        .is_key_needed = is_strict,
        .now_ms = 1700000000000,
        .before_max_ms = is_strict ? INT64_C(86400000) : INT64_MAX,
        .after_max_ms = is_strict ? INT64_C(3600000) : INT64_MAX,
    };
}

static void judge_one(struct rec_batch *batch, uint8_t steer, struct base_arena *arena)
{
    must(batch->size_bytes >= REC_HEADER_BYTES);
    struct rec_rules rules = rules_of(steer);
    struct rec_facts facts;
    enum rec_verdict verdict = rec_validate(base_slice_of(batch->at, batch->size_bytes), &rules, arena, &facts);
    must(base_arena_mark(arena) == 0);
    must(rec_verdict_text(verdict) != NULL);
    must((rec_error_code(verdict) == 0) == (verdict == REC_OK));

    struct base_slice records;
    enum rec_verdict opened = rec_open(batch, OPENED_MAX_BYTES, arena, &records);
    if (opened == REC_OK) {
        enum rec_verdict walked = walk_and_copy(batch, records);
        bool was_read = !rec_is_compressed(batch) || rules.open == REC_OPEN_COMPRESSED;
        if (verdict == REC_OK && was_read) {
            must(walked == REC_END);
            struct rec_record found;
            must(rec_find_timestamp(batch, records, INT64_MIN, &found) == REC_OK);
            must(found.offset == batch->base_offset);
        }
    }
    base_arena_reset(arena, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) { return 0; }
    uint8_t steer = data[0];
    size -= 1;
    uint8_t *bytes = malloc(size == 0 ? 1 : size); /* exactly, so that one step too far is seen */
    size_t memory_bytes = MEMORY_BYTES >> (steer >> 4);
    uint8_t *memory = malloc(memory_bytes);
    must(bytes != NULL && memory != NULL);
    memcpy(bytes, data + 1, size);
    repair(bytes, size, steer);

    struct base_arena arena;
    base_arena_init(&arena, memory, memory_bytes);
    struct rec_rules rules = rules_of(steer);
    struct rec_facts facts;
    enum rec_verdict verdict = rec_validate(base_slice_of(bytes, size), &rules, &arena, &facts);
    must(rec_verdict_text(verdict) != NULL);
    struct base_slice rest = base_slice_of(bytes, size);
    struct rec_batch batch;
    while ((verdict = rec_batch_next(&rest, &batch)) == REC_OK) { judge_one(&batch, steer, &arena); }
    must((verdict == REC_END) == (rest.size_bytes == 0));
    free(memory);
    free(bytes);
    return 0;
}
