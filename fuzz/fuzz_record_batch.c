/* fuzz_record_batch.c: any bytes as a row of record batches: view, validate, open, walk, search, build again.
 *
 * Input   the first byte steers: bit 0 repairs the crc of every batch, so that the fuzzer gets past it; bit 1 gives the
 *         length field the size at hand; bit 2 refuses to open compressed batches; bit 3 sets timestamp limits and
 *         demands keys; bits 4 and 5 shrink the memory for opening; bit 6 refuses zstd; bit 7: the batch is made, not given. The rest
 *         are the batches; or, made: codec, records (what, size of key, size of value, two bytes of time), and edits of four bytes:
 *         what, place (two bytes), byte: of the records before they are compressed, or of the batch.
 * Checks  what a record claims lies inside the bytes; what validation says, and what a walk and a search give, is what a second,
 *         plain reader says (record_reference.h); a copy reads the same; nothing opens to more than the limit, nor takes more memory
 *         than it was handed; what was made and left alone is good and opens to what it was made of.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "input.h"
#include "record/record.h"
#include "record_reference.h"

#define OPENED_MAX_BYTES ((size_t)256 * 1024)
#define MEMORY_BYTES     ((size_t)512 * 1024)
#define MADE_BYTES       ((size_t)1 << 21)
#define RECORDS_MAX      12

enum { REPAIR_CRC = 1, REPAIR_LENGTH = 2, OPEN_NEVER = 4, STRICT = 8, NO_ZSTD = 64, MADE = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(condition) must_at((condition), __LINE__)
static void must_at(bool condition, int line)
{
    if (condition) { return; }
    (void)fprintf(stderr, "broken: fuzz_record_batch.c:%d\n", line); /* about to abort */
    abort();
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
        .is_zstd_refused = (steer & NO_ZSTD) != 0,
        .now_ms = 1700000000000,
        .before_max_ms = is_strict ? INT64_C(86400000) : INT64_MAX,
        .after_max_ms = is_strict ? INT64_C(3600000) : INT64_MAX,
    };
}

/* A walk, a search and the reference agree on the records. True: their structure is good. */
static bool judge_records(const struct rec_batch *batch, struct base_slice records, enum rec_verdict walked)
{
    struct reference_records said;
    bool is_good = reference_records(batch, records, &said);
    must((walked == REC_END) == is_good);
    if (!is_good || said.count == 0) { return is_good; }
    struct rec_record found;
    must(rec_find_timestamp(batch, records, INT64_MIN, &found) == REC_OK);
    must(found.offset == batch->base_offset + said.first_delta);
    must(rec_find_timestamp(batch, records, said.max_timestamp_ms, &found) == REC_OK);
    must(found.offset_delta == said.max_timestamp_delta && found.timestamp_ms == said.max_timestamp_ms);
    if (said.max_timestamp_ms < INT64_MAX) {
        must(rec_find_timestamp(batch, records, said.max_timestamp_ms + 1, &found) == REC_END);
    }
    return is_good;
}

static void judge_one(struct rec_batch *batch, uint8_t steer, struct base_arena *arena)
{
    must(batch->size_bytes >= REC_HEADER_BYTES);
    uint8_t *exact = malloc(batch->size_bytes); /* so that one byte past this batch is seen, whatever comes after it */
    must(exact != NULL);
    memcpy(exact, batch->at, batch->size_bytes);
    batch->at = exact;
    struct rec_rules rules = rules_of(steer);
    struct rec_facts facts;
    enum rec_verdict verdict = rec_validate(base_slice_of(batch->at, batch->size_bytes), &rules, arena, &facts);
    must(base_arena_mark(arena) == 0);
    must(rec_verdict_text(verdict) != NULL);
    must((rec_error_code(verdict) == 0) == (verdict == REC_OK));

    struct base_slice records = {NULL, 0};
    enum rec_verdict opened = rec_open(batch, OPENED_MAX_BYTES, arena, &records);
    must(opened != REC_OK || !rec_is_compressed(batch) || records.size_bytes <= OPENED_MAX_BYTES);
    must(opened == REC_OK || base_arena_mark(arena) == 0);
    if (opened == REC_OK) { (void)judge_records(batch, records, walk_and_copy(batch, records)); }
    bool has_room = verdict != REC_NO_ROOM && opened != REC_NO_ROOM;
    if (has_room) {
        struct reference_records said = {0};
        bool is_valid = reference_validate(batch, &rules, opened == REC_OK, records, &said);
        must((verdict == REC_OK) == is_valid);
        bool was_read = !rec_is_compressed(batch) || rules.open == REC_OPEN_COMPRESSED;
        if (is_valid && was_read) {
            must(facts.max_timestamp_ms == said.max_timestamp_ms);
            must(said.max_timestamp_ms == REC_NO_TIMESTAMP ||
                 facts.max_timestamp_offset_delta == said.max_timestamp_delta);
        }
    }
    base_arena_reset(arena, 0);
    free(exact);
}

/* ---- made batches --------------------------------------------------------------------------------------------------------- */

static void add_record(struct rec_build *build, struct input *input)
{
    static uint8_t zeros[256 * 1024];
    uint32_t what = take_u32(input, 1);
    size_t key_bytes = take_u32(input, 1);
    size_t value_bytes = take_u32(input, 1) * (size_t)((what & 16) != 0 ? 1024 : 1);
    int64_t time_ms = 1700000000000 + (int64_t)take_u32(input, 2) * ((what & 32) != 0 ? 60000 : -60000);
    struct rec_header headers[3] = {{.key = base_slice_text("h"), .value = rec_null()},
                                    {.key = base_slice_of(zeros, what), .value = rec_value_of(base_slice_of(zeros, 3))},
                                    {.key = base_slice_of(zeros, 0), .value = rec_value_of(base_slice_of(zeros, 0))}};
    struct rec_value key = (what & 4) != 0 ? rec_null() : rec_value_of(base_slice_of(zeros, key_bytes));
    struct rec_value value = (what & 8) != 0 ? rec_null() : rec_value_of(base_slice_of(zeros, value_bytes));
    must(rec_build_add(build, (what & 64) != 0 ? -1 : time_ms, key, value, headers, what & 3) == BASE_OK);
}

/* A batch as a client makes it, into room; its size. *is_edited_out: somebody has changed it since. */
static size_t make(struct input *input, uint8_t *room, size_t room_bytes, bool *is_edited_out)
{
    static uint8_t *plain;
    static uint8_t *scratch;
    if (plain == NULL) { plain = malloc(MADE_BYTES * 2); }
    must(plain != NULL);
    uint32_t head = take_u32(input, 1);
    enum codec_kind kind = (enum codec_kind)(head % 5);
    uint32_t count = 1 + take_u32(input, 1) % RECORDS_MAX;
    struct rec_build_config config = rec_build_plain();
    config.is_transactional = (head & 32) != 0;
    if ((head & 64) != 0) {
        config.producer_id = 7, config.producer_epoch = 1, config.base_sequence = (int32_t)(head >> 7);
    }
    struct rec_build build;
    must(rec_build_init(&build, plain, MADE_BYTES * 2, config) == BASE_OK);
    for (uint32_t i = 0; i < count; i++) { add_record(&build, input); }
    size_t records_bytes = rec_build_records_bytes(&build);
    struct input edits = *input;
    for (; edits.left >= 4;) { /* of the records, before they are compressed */
        uint32_t what = take_u32(&edits, 1);
        size_t at = take_u32(&edits, 2) % records_bytes;
        uint8_t byte = (uint8_t)take_u32(&edits, 1);
        if ((what & 1) == 0) {
            plain[REC_HEADER_BYTES + at] = (what & 2) != 0 ? byte : plain[REC_HEADER_BYTES + at] ^ byte;
        }
    }
    *is_edited_out = input->left >= 4;
    struct base_slice batch = {NULL, 0};
    if (kind == CODEC_NONE) {
        batch = rec_build_end(&build);
        if (batch.size_bytes > room_bytes) { return 0; }
        memcpy(room, batch.at, batch.size_bytes);
    } else {
        size_t scratch_bytes = codec_compress_scratch_bytes(kind, CODEC_LEVEL_DEFAULT, records_bytes);
        scratch = aligned_alloc(64, (scratch_bytes + 127) / 64 * 64);
        must(scratch != NULL);
        struct codec_scratch given = {.at = scratch, .size_bytes = scratch_bytes};
        enum codec_rc rc = rec_build_end_compressed(&build, kind, CODEC_LEVEL_DEFAULT, given, room, room_bytes, &batch);
        free(scratch);
        if (rc != CODEC_OK) { return 0; }
        if (!*is_edited_out) { /* it opens to what it was made of */
            static uint8_t opened_bytes[MADE_BYTES];
            struct base_arena arena;
            base_arena_init(&arena, opened_bytes, sizeof opened_bytes);
            struct rec_batch view;
            struct base_slice records;
            must(rec_batch_view(batch, &view) == REC_OK);
            enum rec_verdict verdict = rec_open(&view, OPENED_MAX_BYTES, &arena, &records);
            must((verdict == REC_OK) == (records_bytes <= OPENED_MAX_BYTES));
            must(verdict != REC_OK ||
                 base_slice_equal(records, base_slice_of(plain + REC_HEADER_BYTES, records_bytes)));
        }
    }
    for (; input->left >= 4;) { /* of the batch */
        uint32_t what = take_u32(input, 1);
        size_t at = take_u32(input, 2) % batch.size_bytes;
        uint8_t byte = (uint8_t)take_u32(input, 1);
        if ((what & 1) != 0 && (what & 4) != 0) { at %= REC_HEADER_BYTES; }
        if ((what & 1) != 0) { room[at] = (what & 2) != 0 ? byte : room[at] ^ byte; }
    }
    return batch.size_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t *room;
    if (room == NULL) { room = malloc(MADE_BYTES); }
    if (size < 1 || room == NULL) { return 0; }
    uint8_t steer = data[0];
    struct base_slice given = base_slice_of(data + 1, size - 1);
    bool is_made = (steer & MADE) != 0;
    bool is_edited = true;
    if (is_made) {
        struct input input = {.at = data + 1, .left = size - 1};
        given = base_slice_of(room, make(&input, room, MADE_BYTES, &is_edited));
    }
    size = given.size_bytes;
    uint8_t *bytes = malloc(size == 0 ? 1 : size); /* exactly, so that one step too far is seen */
    size_t memory_bytes = MEMORY_BYTES >> ((steer >> 4 & 3) * 4);
    uint8_t *memory = malloc(memory_bytes);
    must(bytes != NULL && memory != NULL);
    if (size > 0) { memcpy(bytes, given.at, size); }
    repair(bytes, size, steer);

    struct base_arena arena;
    base_arena_init(&arena, memory, memory_bytes);
    struct rec_rules rules = rules_of(steer);
    struct rec_facts facts;
    enum rec_verdict verdict = rec_validate(base_slice_of(bytes, size), &rules, &arena, &facts);
    must(rec_verdict_text(verdict) != NULL);
    if (is_made && !is_edited && size > 0 && rules.open == REC_OPEN_COMPRESSED && (steer & (STRICT | NO_ZSTD)) == 0) {
        must(verdict == REC_OK || verdict == REC_OPENED_TOO_LARGE || verdict == REC_NO_ROOM);
    }
    struct base_slice rest = base_slice_of(bytes, size);
    struct rec_batch batch;
    for (;;) {
        struct base_slice before = rest;
        struct rec_batch same;
        bool is_batch = reference_batch(before, &same);
        verdict = rec_batch_next(&rest, &batch);
        must((verdict == REC_OK) == is_batch);
        if (verdict != REC_OK) { break; }
        must(batch.size_bytes == same.size_bytes && batch.record_count == same.record_count);
        must(batch.base_offset == same.base_offset && batch.last_offset_delta == same.last_offset_delta);
        must(batch.attributes == same.attributes && batch.crc == same.crc && batch.producer_id == same.producer_id);
        must(batch.base_timestamp_ms == same.base_timestamp_ms && batch.max_timestamp_ms == same.max_timestamp_ms);
        must(batch.base_sequence == same.base_sequence && batch.producer_epoch == same.producer_epoch);
        must(batch.leader_epoch == same.leader_epoch);
        judge_one(&batch, steer, &arena);
    }
    must((verdict == REC_END) == (rest.size_bytes == 0));
    free(memory);
    free(bytes);
    return 0;
}
