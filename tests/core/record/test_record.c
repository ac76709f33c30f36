/* test_record.c: batches of Kafka's own client, batches made here, and everything that is neither.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "golden.h"
#include "record/record.h"

struct bytes {
    uint8_t *at;
    size_t size_bytes;
};

/* Exactly as large as asked for, so that a sanitizer sees the first byte past it. */
static struct bytes given_room(size_t size_bytes)
{
    struct bytes bytes = {.at = malloc(size_bytes == 0 ? 1 : size_bytes), .size_bytes = size_bytes};
    assert_non_null(bytes.at);
    return bytes;
}

static struct bytes copy_of(struct base_slice slice)
{
    struct bytes bytes = given_room(slice.size_bytes);
    if (slice.size_bytes > 0) { memcpy(bytes.at, slice.at, slice.size_bytes); }
    return bytes;
}

static struct base_slice slice(struct bytes bytes) { return base_slice_of(bytes.at, bytes.size_bytes); }

static uint8_t digit(char c) { return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10); }

static struct bytes given_golden(const char *hex)
{
    struct bytes bytes = given_room(strlen(hex) / 2);
    for (size_t i = 0; i < bytes.size_bytes; i++) {
        bytes.at[i] = (uint8_t)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    }
    return bytes;
}

static const char *const golden_all[] = {golden_plain, golden_gzip,      golden_snappy, golden_lz4,   golden_zstd,
                                         golden_txn,   golden_logappend, golden_marker, golden_abort, golden_empty};

static _Alignas(16) uint8_t scratch_memory[4 << 20];

static struct base_arena given_scratch(size_t size_bytes)
{
    struct base_arena arena;
    assert_true(size_bytes <= sizeof scratch_memory);
    base_arena_init(&arena, scratch_memory, size_bytes);
    return arena;
}

static struct rec_rules given_rules(void)
{
    return (struct rec_rules){
        .batch_max_bytes = 1048588,
        .opened_max_bytes = 1 << 20,
        .open = REC_OPEN_COMPRESSED,
        .stamp = REC_CREATE_TIME,
        .now_ms = 10000,
        .before_max_ms = INT64_MAX,
        .after_max_ms = INT64_MAX,
    };
}

static struct rec_batch view(struct base_slice bytes)
{
    struct rec_batch batch;
    assert_int_equal(rec_batch_view(bytes, &batch), REC_OK);
    assert_true(rec_crc_is_right(&batch));
    return batch;
}

static void repair_crc(struct bytes batch)
{
    base_put_u32(batch.at + REC_CRC_AT,
                 codec_crc32c(0, batch.at + REC_ATTRIBUTES_AT, batch.size_bytes - REC_ATTRIBUTES_AT));
}

static enum rec_verdict validate(struct bytes batch, struct rec_rules rules, struct rec_facts *facts_out)
{
    struct base_arena scratch = given_scratch(sizeof scratch_memory);
    enum rec_verdict verdict = rec_validate(slice(batch), &rules, &scratch, facts_out);
    assert_int_equal(base_arena_mark(&scratch), 0); /* all given back */
    return verdict;
}

static void expect_verdict(struct bytes batch, enum rec_verdict expected)
{
    struct rec_facts facts;
    assert_int_equal(validate(batch, given_rules(), &facts), expected);
}

static struct rec_value text(const char *words) { return rec_value_of(base_slice_text(words)); }

static void expect_text(struct rec_value value, const char *words)
{
    assert_int_equal(value.is_null, words == NULL);
    if (words != NULL) { assert_true(base_slice_equal(value.bytes, base_slice_text(words))); }
}

static void expect_record(struct rec_walk *walk, int64_t offset, int64_t timestamp_ms, const char *key,
                          const char *value, int32_t header_count)
{
    struct rec_record record;
    assert_int_equal(rec_walk_next(walk, &record), REC_OK);
    assert_int_equal(record.offset, offset);
    assert_int_equal(record.timestamp_ms, timestamp_ms);
    assert_int_equal(record.header_count, header_count);
    expect_text(record.key, key);
    expect_text(record.value, value);
}

static void expect_end(struct rec_walk *walk)
{
    struct rec_record record;
    assert_int_equal(rec_walk_next(walk, &record), REC_END);
}

static struct rec_walk given_walk(const struct rec_batch *batch, struct base_arena *arena)
{
    struct base_slice records;
    struct rec_walk walk;
    assert_int_equal(rec_open(batch, 1 << 20, arena, &records), REC_OK);
    rec_walk_init(&walk, batch, records);
    return walk;
}

/* ---- what Kafka wrote ---- */

static void a_plain_batch_of_kafka_is_read(void **state)
{
    (void)state;
    struct bytes bytes = given_golden(golden_plain);
    struct rec_batch batch = view(slice(bytes));
    assert_int_equal(batch.size_bytes, bytes.size_bytes);
    assert_int_equal(batch.base_offset, 0);
    assert_int_equal(batch.leader_epoch, -1);
    assert_int_equal(batch.last_offset_delta, 3);
    assert_int_equal(batch.base_timestamp_ms, 1000);
    assert_int_equal(batch.max_timestamp_ms, 1005);
    assert_int_equal(batch.record_count, 4);
    assert_int_equal(batch.attributes, 0);
    assert_false(rec_has_producer(&batch));
    assert_int_equal(rec_sequence_last(&batch), REC_NO_SEQUENCE);
    struct rec_walk walk = given_walk(&batch, NULL);
    expect_record(&walk, 0, 1000, "k1", "v1", 0);
    struct rec_walk before = walk;
    expect_record(&walk, 1, 1005, NULL, "no key", 3);
    expect_record(&walk, 2, 1002, "k3", NULL, 0);
    expect_record(&walk, 3, 1005, "", "", 0);
    expect_end(&walk);

    struct rec_record record;
    assert_int_equal(rec_walk_next(&before, &record), REC_OK);
    struct base_slice headers = record.headers;
    static const char *const expected[3][2] = {{"trace", "abc"}, {"n", NULL}, {"", ""}};
    struct rec_header header;
    for (size_t i = 0; i < 3; i++) {
        assert_true(rec_header_next(&headers, &header));
        assert_true(base_slice_equal(header.key, base_slice_text(expected[i][0])));
        expect_text(header.value, expected[i][1]);
    }
    assert_false(rec_header_next(&headers, &header));
    free(bytes.at);
}

static void compressed_batches_of_kafka_are_opened(void **state)
{
    (void)state;
    static const char *const packed[] = {golden_gzip, golden_snappy, golden_lz4, golden_zstd};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(packed); i++) {
        struct bytes bytes = given_golden(packed[i]);
        struct rec_batch batch = view(slice(bytes));
        assert_int_equal(rec_codec_number(&batch), i + 1);
        struct base_arena arena = given_scratch(sizeof scratch_memory);
        struct rec_walk walk = given_walk(&batch, &arena);
        assert_int_equal(base_arena_mark(&arena), walk.rest.size_bytes);
        for (int n = 0; n < 20; n++) {
            char key[16];
            (void)snprintf(key, sizeof key, "key-%d", n); /* can't be cut */
            expect_record(&walk, n, 5000 + n, key, "the same value again and again", 0);
        }
        expect_end(&walk);
        expect_verdict(bytes, REC_OK);
        free(bytes.at);
    }
}

static void a_transactional_batch_of_kafka_is_read(void **state)
{
    (void)state;
    struct bytes bytes = given_golden(golden_txn);
    struct rec_batch batch = view(slice(bytes));
    assert_int_equal(batch.base_offset, 70000000000);
    assert_int_equal(rec_offset_last(&batch), 70000000002);
    assert_int_equal(rec_offset_end(&batch), 70000000003);
    assert_int_equal(batch.leader_epoch, 12);
    assert_int_equal(batch.producer_id, 4242);
    assert_int_equal(batch.producer_epoch, 7);
    assert_int_equal(batch.base_sequence, INT32_MAX - 1);
    assert_int_equal(rec_sequence_last(&batch), 0); /* after INT32_MAX */
    assert_true(rec_is_transactional(&batch));
    assert_false(rec_is_control(&batch));
    struct rec_walk walk = given_walk(&batch, NULL);
    expect_record(&walk, 70000000000, 1700000000000, "key-0", "v", 0);
    expect_record(&walk, 70000000001, 1699999999000, "key-1", "v", 0);
    expect_record(&walk, 70000000002, 1699999998000, "key-2", "v", 0);
    expect_end(&walk);
    free(bytes.at);
}

static void a_stamped_batch_of_kafka_has_one_time(void **state)
{
    (void)state;
    struct bytes bytes = given_golden(golden_logappend);
    struct rec_batch batch = view(slice(bytes));
    assert_true(rec_is_log_append_time(&batch));
    struct rec_walk walk = given_walk(&batch, NULL);
    expect_record(&walk, 5, 1800000000000, "a", "b", 0);
    expect_record(&walk, 6, 1800000000000, "c", "d", 0);
    expect_end(&walk);
    free(bytes.at);
}

static void an_emptied_batch_of_kafka_keeps_its_producer(void **state)
{
    (void)state;
    struct bytes bytes = given_golden(golden_empty);
    struct rec_batch batch = view(slice(bytes));
    assert_int_equal(batch.record_count, 0);
    assert_int_equal(rec_offset_last(&batch), 109);
    assert_int_equal(rec_sequence_last(&batch), 24);
    struct rec_walk walk = given_walk(&batch, NULL);
    expect_end(&walk);
    free(bytes.at);
}

/* ---- what we write is what Kafka writes ---- */

static void expect_same_bytes(struct base_slice built, const char *golden)
{
    struct bytes expected = given_golden(golden);
    assert_int_equal(built.size_bytes, expected.size_bytes);
    assert_memory_equal(built.at, expected.at, expected.size_bytes);
    free(expected.at);
}

static void add(struct rec_build *build, int64_t timestamp_ms, struct rec_value key, struct rec_value value)
{
    assert_int_equal(rec_build_add(build, timestamp_ms, key, value, NULL, 0), BASE_OK);
}

static void a_built_batch_is_byte_for_byte_that_of_kafka(void **state)
{
    (void)state;
    uint8_t room[400];
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, room, sizeof room, rec_build_plain()), BASE_OK);
    struct rec_header headers[3] = {
        {.key = base_slice_text("trace"), .value = text("abc")},
        {.key = base_slice_text("n"), .value = rec_null()},
        {.key = base_slice_of(NULL, 0), .value = rec_value_of(base_slice_of(NULL, 0))},
    };
    add(&build, 1000, text("k1"), text("v1"));
    assert_int_equal(rec_build_add(&build, 1005, rec_null(), text("no key"), headers, 3), BASE_OK);
    add(&build, 1002, text("k3"), rec_null());
    add(&build, 1005, text(""), text(""));
    expect_same_bytes(rec_build_end(&build), golden_plain);

    struct rec_build_config config = rec_build_plain();
    config.base_offset = 70000000000;
    config.leader_epoch = 12;
    config.producer_id = 4242;
    config.producer_epoch = 7;
    config.base_sequence = INT32_MAX - 1;
    config.is_transactional = true;
    assert_int_equal(rec_build_init(&build, room, sizeof room, config), BASE_OK);
    add(&build, 1700000000000, text("key-0"), text("v"));
    add(&build, 1699999999000, text("key-1"), text("v"));
    add(&build, 1699999998000, text("key-2"), text("v"));
    expect_same_bytes(rec_build_end(&build), golden_txn);
}

static void end_markers_are_those_of_kafka(void **state)
{
    (void)state;
    uint8_t room[REC_END_MARKER_BYTES];
    struct rec_build_config config = rec_build_plain();
    config.base_offset = 99;
    config.leader_epoch = 4;
    config.producer_id = 4242;
    config.producer_epoch = 7;
    struct base_slice commit = rec_build_end_marker(room, config, REC_CONTROL_COMMIT, 1700000000123, 21);
    expect_same_bytes(commit, golden_marker);
    struct rec_batch batch = view(commit);
    assert_true(rec_is_control(&batch));
    struct rec_walk walk = given_walk(&batch, NULL);
    struct rec_record record;
    int16_t type = -1;
    assert_int_equal(rec_walk_next(&walk, &record), REC_OK);
    assert_int_equal(rec_control_type(&record, &type), BASE_OK);
    assert_int_equal(type, REC_CONTROL_COMMIT);
    record.key.bytes.size_bytes = 3;
    assert_int_equal(rec_control_type(&record, &type), BASE_BAD);
    expect_same_bytes(rec_build_end_marker(room, config, REC_CONTROL_ABORT, 1700000000123, 21), golden_abort);
}

static void a_batch_is_stamped_as_kafka_stamps_it(void **state)
{
    (void)state;
    uint8_t room[200];
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, room, sizeof room, rec_build_plain()), BASE_OK);
    add(&build, 1, text("a"), text("b"));
    add(&build, 2, text("c"), text("d"));
    struct base_slice built = rec_build_end(&build);
    uint32_t crc = base_get_u32(room + REC_CRC_AT);
    rec_assign(room, 5, 3);
    rec_stamp(room, REC_CREATE_TIME, 2);
    assert_int_equal(base_get_u32(room + REC_CRC_AT), crc); /* nothing that it covers has changed */
    rec_stamp(room, REC_LOG_APPEND_TIME, 1800000000000);
    expect_same_bytes(built, golden_logappend);
    rec_stamp(room, REC_CREATE_TIME, 2);
    assert_int_equal(base_get_u32(room + REC_CRC_AT), crc);
    rec_stamp(room, REC_LOG_APPEND_TIME, 2); /* only the type changes */
    struct rec_batch batch = view(built);
    assert_true(rec_is_log_append_time(&batch));
    assert_int_equal(batch.base_offset, 5);
    assert_int_equal(batch.leader_epoch, 3);
    assert_true(rec_crc_is_right(&batch));
    for (int stamp = 0; stamp < 2; stamp++) { /* only the time changes */
        enum rec_stamp kind = stamp == 0 ? REC_LOG_APPEND_TIME : REC_CREATE_TIME;
        rec_stamp(room, kind, 7);
        rec_stamp(room, kind, 9);
        batch = view(built);
        assert_int_equal(rec_is_log_append_time(&batch), stamp == 0);
        assert_int_equal(batch.max_timestamp_ms, 9);
        assert_true(rec_crc_is_right(&batch));
    }
}

/* ---- building ---- */

static struct base_slice given_words_batch(struct rec_build *build, uint8_t *room, size_t room_bytes, int count)
{
    assert_int_equal(rec_build_init(build, room, room_bytes, rec_build_plain()), BASE_OK);
    for (int i = 0; i < count; i++) { add(build, 9000 + i % 7, text("some key"), text("some words, again and again")); }
    return rec_build_end(build);
}

static void every_compression_is_built_opened_and_valid(void **state)
{
    (void)state;
    uint8_t room[20000];
    struct rec_build build;
    size_t plain_bytes = given_words_batch(&build, room, sizeof room, 300).size_bytes;
    for (enum codec_kind kind = CODEC_NONE; kind <= CODEC_ZSTD; kind++) {
        struct codec_scratch scratch = {
            .size_bytes = codec_compress_scratch_bytes(kind, CODEC_LEVEL_DEFAULT, rec_build_records_bytes(&build))};
        scratch.at = aligned_alloc(16, (scratch.size_bytes + 31) / 16 * 16);
        struct bytes out =
            given_room(REC_HEADER_BYTES + codec_compress_bound_bytes(kind, rec_build_records_bytes(&build)));
        struct base_slice built;
        assert_int_equal(rec_build_end_compressed(&build, kind, CODEC_LEVEL_DEFAULT, scratch, out.at, out.size_bytes,
                                                  &built),
                         CODEC_OK);
        assert_true(kind == CODEC_NONE ? built.size_bytes == plain_bytes : built.size_bytes < plain_bytes / 3);
        struct bytes batch = copy_of(built);
        struct rec_facts facts;
        assert_int_equal(validate(batch, given_rules(), &facts), REC_OK);
        assert_int_equal(facts.max_timestamp_ms, 9006);
        assert_int_equal(facts.max_timestamp_offset_delta, 6);
        assert_int_equal(facts.opened_bytes, kind == CODEC_NONE ? 0 : plain_bytes - REC_HEADER_BYTES);
        for (size_t small = 0; small < built.size_bytes; small += 7) {
            assert_int_equal(rec_build_end_compressed(&build, kind, CODEC_LEVEL_DEFAULT, scratch, out.at, small,
                                                      &built),
                             CODEC_TOO_LARGE);
        }
        free(batch.at);
        free(out.at);
        free(scratch.at);
    }
}

static void a_record_that_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    struct rec_header header = {.key = base_slice_text("h"), .value = text("w")};
    size_t needed_bytes = 0;
    for (size_t room_bytes = 0; room_bytes < 200; room_bytes++) {
        struct bytes room = given_room(room_bytes);
        struct rec_build build;
        enum base_rc rc = rec_build_init(&build, room.at, room_bytes, rec_build_plain());
        assert_int_equal(rc, room_bytes < REC_HEADER_BYTES ? BASE_FULL : BASE_OK);
        if (rc == BASE_OK) {
            struct rec_build before = build;
            rc = rec_build_add(&build, 77, text("key"), text("value"), &header, 1);
            if (rc == BASE_FULL) {
                assert_memory_equal(&build, &before, sizeof build);
                assert_int_equal(needed_bytes, 0);
            } else if (needed_bytes == 0) {
                needed_bytes = room_bytes;
                assert_int_equal(rec_build_end(&build).size_bytes, room_bytes);
            }
        }
        free(room.at);
    }
    assert_true(needed_bytes > 0);
    assert_true(needed_bytes - REC_HEADER_BYTES <= rec_build_record_bytes_max(text("key"), text("value"), &header, 1));
}

static void a_compacted_copy_keeps_offsets_and_content(void **state)
{
    (void)state;
    struct bytes bytes = given_golden(golden_plain);
    struct rec_batch batch = view(slice(bytes));
    struct rec_walk walk = given_walk(&batch, NULL);
    uint8_t room[300];
    struct rec_build build;
    struct rec_build_config config = rec_build_plain();
    config.has_delete_horizon = true;
    config.delete_horizon_ms = 123456;
    assert_int_equal(rec_build_init(&build, room, sizeof room, config), BASE_OK);
    for (struct rec_record record; rec_walk_next(&walk, &record) == REC_OK;) {
        if (record.offset_delta % 2 == 1) {
            assert_int_equal(rec_build_copy(&build, record.offset_delta, &record), BASE_OK);
        }
    }
    rec_build_keep_last_offset(&build, 8);
    struct rec_batch compacted = view(rec_build_end(&build));
    assert_int_equal(compacted.base_timestamp_ms, 123456);
    assert_int_equal(rec_offset_last(&compacted), 8);
    assert_true((compacted.attributes & REC_ATTRIBUTE_DELETE_HORIZON) != 0);
    walk = given_walk(&compacted, NULL);
    expect_record(&walk, 1, 1005, NULL, "no key", 3);
    expect_record(&walk, 3, 1005, "", "", 0);
    expect_end(&walk);
    free(bytes.at);
}

static void records_at_random_come_back(void **state)
{
    (void)state;
    struct base_prng dice;
    base_prng_init(&dice, 11, 0);
    static uint8_t noise[70000];
    static uint8_t room[300000];
    base_prng_fill(&dice, noise, sizeof noise);
    for (int round = 0; round < 200; round++) {
        struct rec_build build;
        assert_int_equal(rec_build_init(&build, room, sizeof room, rec_build_plain()), BASE_OK);
        int64_t times[20];
        struct rec_value keys[20], values[20];
        uint32_t header_counts[20];
        struct rec_header headers[5];
        uint32_t count = 1 + (uint32_t)base_prng_below(&dice, 20);
        for (uint32_t i = 0; i < count; i++) {
            times[i] = base_prng_chance(&dice, 1, 8) ? (int64_t)base_prng_u64(&dice) : (int64_t)(i * 1000);
            uint64_t most = base_prng_chance(&dice, 1, 10) ? 9000 : 200;
            keys[i] = base_prng_chance(&dice, 1, 4)
                          ? rec_null()
                          : rec_value_of(base_slice_of(noise + i, base_prng_below(&dice, most)));
            values[i] = base_prng_chance(&dice, 1, 4)
                            ? rec_null()
                            : rec_value_of(base_slice_of(noise + 7 * i, base_prng_below(&dice, most)));
            header_counts[i] = (uint32_t)base_prng_below(&dice, 6);
            for (uint32_t h = 0; h < header_counts[i]; h++) {
                headers[h] = (struct rec_header){.key = base_slice_of(noise + h, h * 30), .value = keys[i]};
            }
            assert_int_equal(rec_build_add(&build, times[i], keys[i], values[i], headers, header_counts[i]), BASE_OK);
        }
        struct rec_batch batch = view(rec_build_end(&build));
        struct rec_walk walk = given_walk(&batch, NULL);
        for (uint32_t i = 0; i < count; i++) {
            struct rec_record record;
            assert_int_equal(rec_walk_next(&walk, &record), REC_OK);
            assert_int_equal(record.offset, i);
            assert_int_equal(record.timestamp_ms, times[i]);
            assert_int_equal(record.key.is_null, keys[i].is_null);
            assert_true(base_slice_equal(record.key.bytes, keys[i].bytes));
            assert_int_equal(record.value.is_null, values[i].is_null);
            assert_true(base_slice_equal(record.value.bytes, values[i].bytes));
            struct base_slice rest = record.headers;
            struct rec_header header;
            for (uint32_t h = 0; h < header_counts[i]; h++) {
                assert_true(rec_header_next(&rest, &header));
                assert_int_equal(header.key.size_bytes, h * 30);
                assert_true(base_slice_equal(header.value.bytes, keys[i].bytes));
            }
            assert_false(rec_header_next(&rest, &header));
        }
        expect_end(&walk);
    }
}

/* ---- walking ---- */

static struct bytes given_batch_of_raw_records(const uint8_t *records, size_t records_bytes, uint32_t count)
{
    struct bytes batch = given_room(REC_HEADER_BYTES + records_bytes);
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, batch.at, batch.size_bytes, rec_build_plain()), BASE_OK);
    (void)rec_build_end(&build); /* a header to change */
    memcpy(batch.at + REC_HEADER_BYTES, records, records_bytes);
    base_put_u32(batch.at + REC_LENGTH_AT, (uint32_t)(batch.size_bytes - REC_LENGTH_PREFIX_BYTES));
    base_put_u32(batch.at + REC_RECORD_COUNT_AT, count);
    base_put_u32(batch.at + REC_LAST_OFFSET_DELTA_AT, count - 1);
    repair_crc(batch);
    return batch;
}

static void batches_in_a_row_are_walked_to_the_torn_one(void **state)
{
    (void)state;
    struct bytes a = given_golden(golden_plain);
    struct bytes b = given_golden(golden_zstd);
    struct bytes row = given_room(a.size_bytes + b.size_bytes + a.size_bytes - 1);
    memcpy(row.at, a.at, a.size_bytes);
    memcpy(row.at + a.size_bytes, b.at, b.size_bytes);
    memcpy(row.at + a.size_bytes + b.size_bytes, a.at, a.size_bytes - 1);
    struct base_slice rest = slice(row);
    struct rec_batch batch;
    assert_int_equal(rec_batch_next(&rest, &batch), REC_OK);
    assert_int_equal(batch.size_bytes, a.size_bytes);
    assert_int_equal(rec_batch_next(&rest, &batch), REC_OK);
    assert_ptr_equal(batch.at, row.at + a.size_bytes);
    assert_int_equal(rec_batch_next(&rest, &batch), REC_INCOMPLETE);
    assert_int_equal(rest.size_bytes, a.size_bytes - 1);
    rest.size_bytes = 0;
    assert_int_equal(rec_batch_next(&rest, &batch), REC_END);
    free(a.at);
    free(b.at);
    free(row.at);
}

/* As compaction leaves them: gaps are fine, steps back and steps out of the batch are not. */
static void offsets_in_a_walk_rise_and_stay_in_the_batch(void **state)
{
    (void)state;
    static const struct {
        uint8_t first, second; /* zigzag */
        enum rec_verdict verdict;
    } cases[] = {
        {0, 2, REC_OK},
        {4, 18, REC_OK},
        {4, 4, REC_BAD_OFFSET_DELTA},
        {4, 2, REC_BAD_OFFSET_DELTA},
        {4, 1, REC_BAD_OFFSET_DELTA},
        {4, 20, REC_BAD_OFFSET_DELTA},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        const uint8_t records[] = {12, 0, 0, cases[i].first, 1, 1, 0, 12, 0, 0, cases[i].second, 1, 1, 0};
        struct bytes bytes = given_batch_of_raw_records(records, sizeof records, 2);
        base_put_u32(bytes.at + REC_LAST_OFFSET_DELTA_AT, 9);
        repair_crc(bytes);
        struct rec_batch batch = view(slice(bytes));
        struct rec_walk walk = given_walk(&batch, NULL);
        struct rec_record record;
        assert_int_equal(rec_walk_next(&walk, &record), REC_OK);
        struct rec_walk before = walk;
        assert_int_equal(rec_walk_next(&walk, &record), cases[i].verdict);
        if (cases[i].verdict != REC_OK) { assert_memory_equal(&walk, &before, sizeof walk); }
        free(bytes.at);
    }
}

static void the_first_record_at_or_after_a_time_is_found(void **state)
{
    (void)state;
    struct bytes bytes = given_golden(golden_plain); /* 1000 1005 1002 1005 */
    struct rec_batch batch = view(slice(bytes));
    struct base_slice records;
    assert_int_equal(rec_open(&batch, 0, NULL, &records), REC_OK);
    static const struct {
        int64_t timestamp_ms;
        int64_t offset;
    } cases[] = {{INT64_MIN, 0}, {1000, 0}, {1001, 1}, {1005, 1}};
    struct rec_record record;
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        assert_int_equal(rec_find_timestamp(&batch, records, cases[i].timestamp_ms, &record), REC_OK);
        assert_int_equal(record.offset, cases[i].offset);
    }
    assert_int_equal(rec_find_timestamp(&batch, records, 1006, &record), REC_END);
    records.size_bytes -= 1;
    assert_int_equal(rec_find_timestamp(&batch, records, 1006, &record), REC_BAD_RECORD);
    free(bytes.at);
}

/* ---- validating ---- */

/* The batch alone counts: the beginning of another after it is not seen, a whole one is too many, and nonsense is no batch. */
static void expect_what_follows_is_judged_as_kafka_does(struct bytes whole)
{
    struct bytes alone = copy_of(slice(whole));
    struct rec_facts facts;
    enum rec_verdict verdict = validate(alone, given_rules(), &facts);
    free(alone.at);
    for (size_t more_bytes = 1; more_bytes <= whole.size_bytes; more_bytes++) {
        struct bytes more = given_room(whole.size_bytes + more_bytes);
        memcpy(more.at, whole.at, whole.size_bytes);
        memcpy(more.at + whole.size_bytes, whole.at, more_bytes);
        bool is_whole = more_bytes == whole.size_bytes;
        assert_int_equal(validate(more, given_rules(), &facts), is_whole ? REC_TRAILING_BYTES : verdict);
        if (verdict == REC_OK && !is_whole) { assert_int_equal(facts.batch.size_bytes, whole.size_bytes); }
        memset(more.at + whole.size_bytes, 0, more_bytes);
        assert_int_equal(validate(more, given_rules(), &facts), more_bytes < 12 ? verdict : REC_BAD_LENGTH);
        free(more.at);
    }
}

static void every_prefix_is_incomplete_and_more_is_trailing(void **state)
{
    (void)state;
    for (size_t g = 0; g < BASE_ARRAY_COUNT(golden_all); g++) {
        struct bytes whole = given_golden(golden_all[g]);
        for (size_t cut = 0; cut < whole.size_bytes; cut++) {
            struct bytes part = copy_of(base_slice_of(whole.at, cut));
            struct rec_batch batch;
            size_t size_bytes = 0;
            assert_int_equal(rec_batch_view(slice(part), &batch), REC_INCOMPLETE);
            assert_int_equal(rec_batch_size(slice(part), &size_bytes), cut < 12 ? REC_INCOMPLETE : REC_OK);
            assert_int_equal(size_bytes, cut < 12 ? 0 : whole.size_bytes);
            expect_verdict(part, cut == 0 ? REC_END : REC_INCOMPLETE);
            free(part.at);
        }
        expect_what_follows_is_judged_as_kafka_does(whole);
        free(whole.at);
    }
}

/* The crc guards its part; the offset, the length, the epoch and the magic stand before it. */
static void every_flipped_bit_is_noticed_where_the_crc_looks(void **state)
{
    (void)state;
    for (size_t g = 0; g < 5; g++) { /* those that a client may send */
        struct bytes batch = given_golden(golden_all[g]);
        for (size_t at = 0; at < batch.size_bytes; at++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                batch.at[at] ^= (uint8_t)(1u << bit);
                struct rec_facts facts;
                enum rec_verdict verdict = validate(batch, given_rules(), &facts);
                if (at >= REC_CRC_AT) {
                    assert_int_equal(verdict, REC_BAD_CRC);
                } else if (at >= REC_LEADER_EPOCH_AT && at < REC_MAGIC_AT) {
                    assert_int_equal(verdict, REC_OK);
                } else {
                    assert_int_not_equal(verdict, REC_OK);
                    bool is_length =
                        at >= 8 && at < 12; /* a shorter batch is another, and what is left of it not seen */
                    if (!is_length) { assert_int_not_equal(verdict, REC_BAD_CRC); }
                }
                batch.at[at] ^= (uint8_t)(1u << bit);
            }
        }
        free(batch.at);
    }
}

/* The same with the crc made right again: an answer, in bounds, and never a record that is not there. */
static void every_flipped_bit_under_a_right_crc_gives_an_answer(void **state)
{
    (void)state;
    size_t verdicts[REC_NO_ROOM + 1] = {0};
    for (size_t g = 0; g < BASE_ARRAY_COUNT(golden_all); g++) {
        struct bytes batch = given_golden(golden_all[g]);
        for (size_t at = REC_ATTRIBUTES_AT; at < batch.size_bytes; at++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                batch.at[at] ^= (uint8_t)(1u << bit);
                repair_crc(batch);
                base_put_u64(batch.at, 0);
                struct rec_facts facts;
                enum rec_verdict verdict = validate(batch, given_rules(), &facts);
                verdicts[verdict] += 1;
                assert_int_not_equal(verdict, REC_BAD_CRC);
                assert_non_null(rec_verdict_text(verdict));
                assert_int_equal(rec_error_code(verdict) == 0, verdict == REC_OK);
                batch.at[at] ^= (uint8_t)(1u << bit);
            }
        }
        free(batch.at);
    }
    static const enum rec_verdict met[] = {REC_OK,
                                           REC_BAD_COUNT,
                                           REC_BAD_OFFSET_RANGE,
                                           REC_BAD_CODEC,
                                           REC_BAD_RECORD,
                                           REC_BAD_OFFSET_DELTA,
                                           REC_BAD_COMPRESSION,
                                           REC_BAD_TIMESTAMP,
                                           REC_CONTROL_REFUSED};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(met); i++) { assert_true(verdicts[met[i]] > 0); }
}

/* One field of a good batch is set, the crc made right, and Kafka's answer is expected. */
static void a_header_that_breaks_a_rule_gets_kafkas_answer(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        size_t field_bytes;
        int64_t value;
        enum rec_verdict verdict;
        int16_t error_code;
    } cases[] = {
        {REC_BASE_OFFSET_AT, 8, 1, REC_BAD_BASE_OFFSET, 87},
        {REC_BASE_OFFSET_AT, 8, -1, REC_BAD_BASE_OFFSET, 87},
        {REC_LENGTH_AT, 4, 13, REC_BAD_LENGTH, 2},
        {REC_LENGTH_AT, 4, 48, REC_BAD_LENGTH, 2},
        {REC_LENGTH_AT, 4, -1, REC_BAD_LENGTH, 2},
        {REC_LENGTH_AT, 4, INT32_MAX, REC_BAD_LENGTH, 2},
        {REC_LENGTH_AT, 4, INT32_MAX - 12, REC_INCOMPLETE, 87},
        {REC_LEADER_EPOCH_AT, 4, 55, REC_OK, 0},
        {REC_MAGIC_AT, 1, 0, REC_OLD_MAGIC, 87},
        {REC_MAGIC_AT, 1, 1, REC_OLD_MAGIC, 87},
        {REC_MAGIC_AT, 1, 3, REC_BAD_MAGIC, 2},
        {REC_MAGIC_AT, 1, -1, REC_BAD_MAGIC, 2},
        {REC_ATTRIBUTES_AT, 2, 5, REC_BAD_CODEC, 76},
        {REC_ATTRIBUTES_AT, 2, 7, REC_BAD_CODEC, 76},
        {REC_ATTRIBUTES_AT, 2, 4, REC_BAD_COMPRESSION, 87},
        {REC_ATTRIBUTES_AT, 2, REC_ATTRIBUTE_CONTROL, REC_CONTROL_REFUSED, 87},
        {REC_ATTRIBUTES_AT, 2, REC_ATTRIBUTE_LOG_APPEND_TIME, REC_BAD_TIMESTAMP, 32},
        {REC_LAST_OFFSET_DELTA_AT, 4, 2, REC_BAD_OFFSET_RANGE, 87},
        {REC_LAST_OFFSET_DELTA_AT, 4, -1, REC_BAD_OFFSET_RANGE, 87},
        {REC_LAST_OFFSET_DELTA_AT, 4, INT32_MAX, REC_BAD_OFFSET_RANGE, 87},
        {REC_MAX_TIMESTAMP_AT, 8, 77, REC_OK, 0}, /* it is corrected: see facts.max_timestamp_ms */
        {REC_PRODUCER_ID_AT, 8, 5, REC_BAD_SEQUENCE, 87},
        {REC_PRODUCER_ID_AT, 8, -2, REC_OK, 0},
        {REC_RECORD_COUNT_AT, 4, 0, REC_BAD_COUNT, 87},
        {REC_RECORD_COUNT_AT, 4, -1, REC_BAD_COUNT, 87},
        {REC_RECORD_COUNT_AT, 4, 5, REC_BAD_OFFSET_RANGE, 87},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        struct bytes batch = given_golden(golden_plain);
        for (size_t b = 0; b < cases[i].field_bytes; b++) {
            batch.at[cases[i].at + b] = (uint8_t)((uint64_t)cases[i].value >> 8 * (cases[i].field_bytes - 1 - b));
        }
        repair_crc(batch);
        struct rec_facts facts;
        enum rec_verdict verdict = validate(batch, given_rules(), &facts);
        if (verdict != cases[i].verdict) { print_error("case %zu: %s\n", i, rec_verdict_text(verdict)); }
        assert_int_equal(verdict, cases[i].verdict);
        assert_int_equal(rec_error_code(verdict), cases[i].error_code);
        if (verdict == REC_OK) { assert_int_equal(facts.max_timestamp_ms, 1005); }
        free(batch.at);
    }
}

/* A count and a last offset that agree, over records that don't: too few, too many. */
static void records_that_are_not_as_many_as_claimed_are_refused(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 3, 5, INT32_MAX};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(counts); i++) {
        struct bytes batch = given_golden(golden_plain);
        base_put_u32(batch.at + REC_RECORD_COUNT_AT, counts[i]);
        base_put_u32(batch.at + REC_LAST_OFFSET_DELTA_AT, counts[i] - 1);
        repair_crc(batch);
        struct rec_facts facts;
        assert_int_equal(validate(batch, given_rules(), &facts), REC_BAD_RECORD);
        assert_int_equal(facts.bad_record_index, base_min_u64(counts[i], 4));
        free(batch.at);
    }
}

static void a_record_whose_lengths_lie_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[16];
        size_t size_bytes;
        enum rec_verdict verdict;
    } cases[] = {
        /* length, attributes, timestamp, offset, key length, value length, headers */
        {{12, 0, 0, 0, 1, 1, 0}, 7, REC_OK},
        {{12, 0xff, 0, 0, 1, 1, 0}, 7, REC_OK},              /* attributes have no meaning */
        {{12, 0, 0, 2, 1, 1, 0}, 7, REC_BAD_OFFSET_DELTA},   /* 1 instead of 0 */
        {{12, 0, 0, 1, 1, 1, 0}, 7, REC_BAD_OFFSET_DELTA},   /* -1 */
        {{10, 0, 0, 0, 1, 1, 0}, 7, REC_BAD_RECORD},         /* too short for its fields */
        {{14, 0, 0, 0, 1, 1, 0, 0}, 8, REC_BAD_RECORD},      /* a byte over */
        {{14, 0, 0, 0, 1, 1, 0}, 7, REC_BAD_RECORD},         /* past the batch */
        {{0, 0, 0, 0, 1, 1, 0}, 7, REC_BAD_RECORD},          /* nothing */
        {{11, 0, 0, 0, 1, 1, 0}, 7, REC_BAD_RECORD},         /* negative */
        {{12, 0, 0, 0, 3, 1, 0}, 7, REC_BAD_RECORD},         /* key of -2 */
        {{12, 0, 0, 0, 1, 3, 0}, 7, REC_BAD_RECORD},         /* value of -2 */
        {{12, 0, 0, 0, 1, 1, 1}, 7, REC_BAD_RECORD},         /* -1 headers */
        {{12, 0, 0, 0, 1, 1, 2}, 7, REC_BAD_RECORD},         /* one that is not there */
        {{16, 0, 0, 0, 1, 1, 2, 0, 1}, 9, REC_OK},           /* an empty key and no value */
        {{16, 0, 0, 0, 1, 1, 2, 1, 1}, 9, REC_BAD_RECORD},   /* a header's key is never null */
        {{16, 0, 0, 0, 1, 1, 2, 0, 3}, 9, REC_BAD_RECORD},   /* a header's value of -2 */
        {{16, 0, 0, 0, 1, 1, 4, 0, 1}, 9, REC_BAD_RECORD},   /* two, and one is there */
        {{14, 0, 0, 0, 6, 'a', 'b', 1}, 8, REC_BAD_RECORD},  /* the key eats the headers */
        {{0x80, 0x80, 0x80, 0x80, 0x10}, 5, REC_BAD_RECORD}, /* more than 32 bits */
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0}, 6, REC_BAD_RECORD},
        {{0x80}, 1, REC_BAD_RECORD},
        {{0}, 0, REC_BAD_RECORD},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        struct bytes batch = given_batch_of_raw_records(cases[i].bytes, cases[i].size_bytes, 1);
        struct rec_facts facts;
        enum rec_verdict verdict = validate(batch, given_rules(), &facts);
        if (verdict != cases[i].verdict) { print_error("case %zu: %s\n", i, rec_verdict_text(verdict)); }
        assert_int_equal(verdict, cases[i].verdict);
        assert_int_equal(facts.bad_record_index, verdict == REC_OK ? -1 : 0);
        free(batch.at);
    }
}

static void a_gap_in_the_offsets_is_named_where_it_is(void **state)
{
    (void)state;
    static const uint8_t records[] = {12, 0, 0, 0, 1, 1, 0, 12, 0, 0, 4, 1, 1, 0, 12, 0, 0, 4, 1, 1, 0};
    struct bytes batch = given_batch_of_raw_records(records, sizeof records, 3);
    struct rec_facts facts;
    assert_int_equal(validate(batch, given_rules(), &facts), REC_BAD_OFFSET_DELTA);
    assert_int_equal(facts.bad_record_index, 1);
    free(batch.at);
}

static void timestamps_are_held_to_the_topics_limits(void **state)
{
    (void)state;
    struct bytes plain = given_golden(golden_plain); /* 1000 1005 1002 1005 */
    struct rec_facts facts;
    struct rec_rules rules = given_rules();
    rules.now_ms = 1004;
    rules.after_max_ms = 1;
    rules.before_max_ms = 4;
    assert_int_equal(validate(plain, rules, &facts), REC_OK);
    rules.after_max_ms = 0;
    assert_int_equal(validate(plain, rules, &facts), REC_BAD_TIMESTAMP);
    assert_int_equal(facts.bad_record_index, 1);
    rules.after_max_ms = 1;
    rules.before_max_ms = 3;
    assert_int_equal(validate(plain, rules, &facts), REC_BAD_TIMESTAMP);
    assert_int_equal(facts.bad_record_index, 0);
    rules.stamp = REC_LOG_APPEND_TIME; /* the broker's own time will replace them */
    assert_int_equal(validate(plain, rules, &facts), REC_OK);

    struct bytes packed = given_golden(golden_lz4); /* 5000 to 5019 */
    rules = given_rules();
    rules.now_ms = 5000;
    rules.after_max_ms = 10;
    assert_int_equal(validate(packed, rules, &facts), REC_BAD_TIMESTAMP);
    assert_int_equal(facts.bad_record_index, 11);
    rules.open = REC_OPEN_NEVER;
    assert_int_equal(validate(packed, rules, &facts), REC_BAD_TIMESTAMP); /* by the header's greatest */
    assert_int_equal(facts.bad_record_index, -1);
    rules.after_max_ms = 19;
    assert_int_equal(validate(packed, rules, &facts), REC_OK);
    assert_int_equal(facts.max_timestamp_ms, 5019);
    assert_int_equal(facts.max_timestamp_offset_delta, -1);
    free(plain.at);
    free(packed.at);
}

static void a_record_without_a_timestamp_is_in_no_limits_way(void **state)
{
    (void)state;
    uint8_t room[200];
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, room, sizeof room, rec_build_plain()), BASE_OK);
    add(&build, REC_NO_TIMESTAMP, text("a"), text("b"));
    struct bytes batch = copy_of(rec_build_end(&build));
    struct rec_rules rules = given_rules();
    rules.before_max_ms = 0;
    struct rec_facts facts;
    assert_int_equal(validate(batch, rules, &facts), REC_OK);
    assert_int_equal(facts.max_timestamp_ms, REC_NO_TIMESTAMP);
    free(batch.at);
}

static void a_compacted_topic_wants_keys(void **state)
{
    (void)state;
    struct bytes batch = given_golden(golden_plain);
    struct rec_rules rules = given_rules();
    struct rec_facts facts;
    rules.is_key_needed = true;
    assert_int_equal(validate(batch, rules, &facts), REC_KEY_MISSING);
    assert_int_equal(facts.bad_record_index, 1);
    free(batch.at);
}

/* As in LogValidator.processRecordErrors. */
static void a_bad_timestamp_outweighs_a_missing_key(void **state)
{
    (void)state;
    uint8_t room[200];
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, room, sizeof room, rec_build_plain()), BASE_OK);
    add(&build, 10000, text("k"), text("v"));
    add(&build, 10000, rec_null(), text("v"));
    add(&build, 10001, text("k"), text("v"));
    add(&build, 10000, rec_null(), text("v"));
    struct bytes batch = copy_of(rec_build_end(&build));
    struct rec_rules rules = given_rules();
    struct rec_facts facts;
    rules.is_key_needed = true;
    assert_int_equal(validate(batch, rules, &facts), REC_KEY_MISSING);
    assert_int_equal(facts.bad_record_index, 1);
    rules.after_max_ms = 0;
    assert_int_equal(validate(batch, rules, &facts), REC_BAD_TIMESTAMP);
    assert_int_equal(facts.bad_record_index, 2);
    free(batch.at);
}

static void limits_of_size_are_kept(void **state)
{
    (void)state;
    struct bytes plain = given_golden(golden_plain);
    struct bytes packed = given_golden(golden_zstd);
    struct rec_rules rules = given_rules();
    struct rec_facts facts;
    rules.batch_max_bytes = plain.size_bytes;
    assert_int_equal(validate(plain, rules, &facts), REC_OK);
    rules.batch_max_bytes -= 1;
    assert_int_equal(validate(plain, rules, &facts), REC_TOO_LARGE);
    assert_int_equal(rec_error_code(REC_TOO_LARGE), 10);
    rules = given_rules();
    assert_int_equal(validate(packed, rules, &facts), REC_OK);
    size_t opened_bytes = facts.opened_bytes;
    rules.opened_max_bytes = opened_bytes;
    assert_int_equal(validate(packed, rules, &facts), REC_OK);
    rules.opened_max_bytes -= 1;
    assert_int_equal(validate(packed, rules, &facts), REC_OPENED_TOO_LARGE);
    rules = given_rules();
    rules.is_zstd_refused = true;
    assert_int_equal(validate(packed, rules, &facts), REC_BAD_CODEC);
    free(plain.at);
    free(packed.at);
}

/* Every kind, with every size of scratch up to what is asked for: no room or an answer, never a step outside. */
static void opening_with_too_little_memory_is_no_room(void **state)
{
    (void)state;
    for (size_t g = 1; g < 5; g++) {
        struct bytes bytes = given_golden(golden_all[g]);
        struct rec_batch batch = view(slice(bytes));
        size_t enough_bytes = rec_open_bytes(&batch, 1 << 20);
        for (size_t room_bytes = 0; room_bytes <= enough_bytes; room_bytes += 997) {
            uint8_t *room = aligned_alloc(16, (room_bytes + 31) / 16 * 16);
            struct base_arena arena;
            base_arena_init(&arena, room, room_bytes);
            struct base_slice records;
            enum rec_verdict verdict = rec_open(&batch, 1 << 20, &arena, &records);
            assert_true(verdict == REC_OK || verdict == REC_NO_ROOM);
            assert_int_equal(base_arena_mark(&arena), verdict == REC_OK ? records.size_bytes : 0);
            free(room);
        }
        struct base_arena arena = given_scratch(enough_bytes);
        struct base_slice records;
        assert_int_equal(rec_open(&batch, 1 << 20, &arena, &records), REC_OK);
        free(bytes.at);
    }
}

static void a_bomb_is_refused_in_bounded_memory(void **state)
{
    (void)state;
    size_t zeros_bytes = (size_t)32 << 20;
    struct bytes room = given_room(REC_HEADER_BYTES + zeros_bytes + 100);
    uint8_t *zeros = calloc(zeros_bytes, 1);
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, room.at, room.size_bytes, rec_build_plain()), BASE_OK);
    add(&build, 1, rec_null(), rec_value_of(base_slice_of(zeros, zeros_bytes)));
    for (enum codec_kind kind = CODEC_GZIP; kind <= CODEC_ZSTD; kind++) {
        struct codec_scratch scratch = {
            .size_bytes = codec_compress_scratch_bytes(kind, CODEC_LEVEL_DEFAULT, rec_build_records_bytes(&build))};
        scratch.at = aligned_alloc(16, (scratch.size_bytes + 31) / 16 * 16);
        struct bytes out = given_room(4 << 20);
        struct base_slice built;
        assert_int_equal(rec_build_end_compressed(&build, kind, CODEC_LEVEL_DEFAULT, scratch, out.at, out.size_bytes,
                                                  &built),
                         CODEC_OK);
        struct rec_rules rules = given_rules();
        rules.batch_max_bytes = SIZE_MAX;
        struct base_arena arena = given_scratch(2 << 20);
        struct rec_facts facts;
        assert_int_equal(rec_validate(built, &rules, &arena, &facts), REC_OPENED_TOO_LARGE);
        assert_true(rec_open_bytes(&facts.batch, rules.opened_max_bytes) <= 2 << 20);
        free(out.at);
        free(scratch.at);
    }
    free(zeros);
    free(room.at);
}

/* ---- another compression ---- */

static struct base_slice recoded(struct base_slice batch_bytes, enum codec_kind kind, struct bytes out)
{
    struct base_arena arena = given_scratch(2 << 20);
    struct rec_batch batch = view(batch_bytes);
    struct base_slice records;
    assert_int_equal(rec_open(&batch, 1 << 20, &arena, &records), REC_OK);
    struct codec_scratch scratch = {.size_bytes =
                                        codec_compress_scratch_bytes(kind, CODEC_LEVEL_DEFAULT, records.size_bytes)};
    scratch.at = scratch.size_bytes == 0 ? NULL : aligned_alloc(16, (scratch.size_bytes + 31) / 16 * 16);
    assert_true(rec_recode_bytes_max(kind, records.size_bytes) <= out.size_bytes);
    struct base_slice result;
    assert_int_equal(rec_recode(&batch, records, kind, CODEC_LEVEL_DEFAULT, scratch, out.at, out.size_bytes, &result),
                     CODEC_OK);
    free(scratch.at);
    return result;
}

static void a_batch_keeps_all_but_its_compression_when_that_changes(void **state)
{
    (void)state;
    struct bytes room = given_room(64 << 10);
    struct bytes one = given_room(64 << 10);
    struct bytes two = given_room(64 << 10);
    struct rec_build_config config = rec_build_plain();
    config.producer_id = 77;
    config.producer_epoch = 3;
    config.base_sequence = 12;
    config.leader_epoch = 5;
    config.base_offset = 1000;
    for (enum codec_kind from = CODEC_NONE; from <= CODEC_ZSTD; from++) {
        for (enum codec_kind to = CODEC_NONE; to <= CODEC_ZSTD; to++) {
            struct rec_build build;
            assert_int_equal(rec_build_init(&build, room.at, room.size_bytes, config), BASE_OK);
            for (int i = 0; i < 300; i++) { add(&build, 5000 + i, text("a key"), text("the value, again")); }
            struct base_slice plain = rec_build_end(&build);
            struct rec_batch before = view(recoded(plain, from, one));
            struct rec_batch after = view(recoded(base_slice_of(before.at, before.size_bytes), to, two));
            assert_int_equal(rec_codec_number(&before), from);
            assert_int_equal(rec_codec_number(&after), to);
            assert_true(to == CODEC_NONE || after.size_bytes < plain.size_bytes / 4);
            struct base_slice back = recoded(base_slice_of(after.at, after.size_bytes), CODEC_NONE, one);
            assert_true(base_slice_equal(back, plain)); /* every byte, the crc among them */
        }
    }
    free(two.at);
    free(one.at);
    free(room.at);
}

static void too_little_room_for_another_compression_is_said(void **state)
{
    (void)state;
    struct bytes room = given_room(4 << 10);
    struct bytes out = given_room(4 << 10);
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, room.at, room.size_bytes, rec_build_plain()), BASE_OK);
    add(&build, 1, text("a key"), text("a value"));
    struct rec_batch batch = view(rec_build_end(&build));
    struct base_slice records = base_slice_of(batch.at + REC_HEADER_BYTES, batch.size_bytes - REC_HEADER_BYTES);
    struct base_slice result;
    for (size_t bytes = 0; bytes < batch.size_bytes; bytes++) {
        assert_int_equal(rec_recode(&batch, records, CODEC_NONE, 0, (struct codec_scratch){0}, out.at, bytes, &result),
                         CODEC_TOO_LARGE);
    }
    assert_int_equal(rec_recode(&batch, records, CODEC_NONE, 0, (struct codec_scratch){0}, out.at, batch.size_bytes,
                                &result),
                     CODEC_OK);
    free(out.at);
    free(room.at);
}

static void records_that_are_to_be_kept_stay_in_the_scratch(void **state)
{
    (void)state;
    struct bytes room = given_room(4 << 10);
    struct bytes out = given_room(4 << 10);
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, room.at, room.size_bytes, rec_build_plain()), BASE_OK);
    add(&build, 1, text("a key"), text("a value"));
    struct base_slice plain = rec_build_end(&build);
    struct base_slice packed = recoded(plain, CODEC_LZ4, out);
    struct rec_rules rules = given_rules();
    rules.keeps_records = true;
    struct rec_facts facts;
    struct base_arena arena = given_scratch(2 << 20);
    assert_int_equal(rec_validate(packed, &rules, &arena, &facts), REC_OK);
    assert_true(base_slice_equal(facts.records,
                                 base_slice_of(plain.at + REC_HEADER_BYTES, plain.size_bytes - REC_HEADER_BYTES)));
    assert_int_equal(rec_validate(plain, &rules, &arena, &facts), REC_OK);
    assert_ptr_equal(facts.records.at, plain.at + REC_HEADER_BYTES);
    free(out.at);
    free(room.at);
}

/* ---- varints ---- */

static void varints_are_those_of_the_format(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        uint8_t bytes[10];
        size_t size_bytes;
    } cases[] = {
        {0, {0}, 1},
        {-1, {1}, 1},
        {1, {2}, 1},
        {63, {0x7e}, 1},
        {-64, {0x7f}, 1},
        {64, {0x80, 0x01}, 2},
        {INT32_MAX, {0xfe, 0xff, 0xff, 0xff, 0x0f}, 5},
        {INT32_MIN, {0xff, 0xff, 0xff, 0xff, 0x0f}, 5},
        {INT64_MAX, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 10},
        {INT64_MIN, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 10},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        uint8_t bytes[REC_VARLONG_BYTES_MAX];
        int64_t back = 5;
        assert_int_equal(rec_varlong_put(bytes, cases[i].value), cases[i].size_bytes);
        assert_memory_equal(bytes, cases[i].bytes, cases[i].size_bytes);
        assert_int_equal(rec_varlong_bytes(cases[i].value), cases[i].size_bytes);
        assert_int_equal(rec_varlong_get(base_slice_of(bytes, sizeof bytes), &back), cases[i].size_bytes);
        assert_int_equal(back, cases[i].value);
        for (size_t cut = 0; cut < cases[i].size_bytes; cut++) {
            assert_int_equal(rec_varlong_get(base_slice_of(bytes, cut), &back), 0);
        }
        int32_t small = 5;
        size_t used = rec_varint_get(base_slice_of(bytes, cases[i].size_bytes), &small);
        bool is_small = cases[i].value >= INT32_MIN && cases[i].value <= INT32_MAX;
        assert_int_equal(used, is_small ? cases[i].size_bytes : 0);
        assert_int_equal(small, is_small ? cases[i].value : 5);
    }
    int64_t value = 5;
    static const uint8_t too_much[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
    assert_int_equal(rec_varlong_get(base_slice_of(too_much, sizeof too_much), &value), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_batch_of_kafka_is_read),
        cmocka_unit_test(compressed_batches_of_kafka_are_opened),
        cmocka_unit_test(a_transactional_batch_of_kafka_is_read),
        cmocka_unit_test(a_stamped_batch_of_kafka_has_one_time),
        cmocka_unit_test(an_emptied_batch_of_kafka_keeps_its_producer),
        cmocka_unit_test(a_built_batch_is_byte_for_byte_that_of_kafka),
        cmocka_unit_test(end_markers_are_those_of_kafka),
        cmocka_unit_test(a_batch_is_stamped_as_kafka_stamps_it),
        cmocka_unit_test(every_compression_is_built_opened_and_valid),
        cmocka_unit_test(a_record_that_does_not_fit_changes_nothing),
        cmocka_unit_test(a_compacted_copy_keeps_offsets_and_content),
        cmocka_unit_test(records_at_random_come_back),
        cmocka_unit_test(batches_in_a_row_are_walked_to_the_torn_one),
        cmocka_unit_test(offsets_in_a_walk_rise_and_stay_in_the_batch),
        cmocka_unit_test(the_first_record_at_or_after_a_time_is_found),
        cmocka_unit_test(every_prefix_is_incomplete_and_more_is_trailing),
        cmocka_unit_test(every_flipped_bit_is_noticed_where_the_crc_looks),
        cmocka_unit_test(every_flipped_bit_under_a_right_crc_gives_an_answer),
        cmocka_unit_test(a_header_that_breaks_a_rule_gets_kafkas_answer),
        cmocka_unit_test(records_that_are_not_as_many_as_claimed_are_refused),
        cmocka_unit_test(a_record_whose_lengths_lie_is_refused),
        cmocka_unit_test(a_gap_in_the_offsets_is_named_where_it_is),
        cmocka_unit_test(timestamps_are_held_to_the_topics_limits),
        cmocka_unit_test(a_record_without_a_timestamp_is_in_no_limits_way),
        cmocka_unit_test(a_compacted_topic_wants_keys),
        cmocka_unit_test(a_bad_timestamp_outweighs_a_missing_key),
        cmocka_unit_test(limits_of_size_are_kept),
        cmocka_unit_test(opening_with_too_little_memory_is_no_room),
        cmocka_unit_test(a_bomb_is_refused_in_bounded_memory),
        cmocka_unit_test(a_batch_keeps_all_but_its_compression_when_that_changes),
        cmocka_unit_test(too_little_room_for_another_compression_is_said),
        cmocka_unit_test(records_that_are_to_be_kept_stay_in_the_scratch),
        cmocka_unit_test(varints_are_those_of_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
