/* test_bench_replay.c: the requests of weir bench replay are requests, and its reader finds what it looks for however answers are cut.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__replay.h"

#include "record/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOPIC     "bench"
#define HEAD_MAX  128
#define BATCHES   3
#define BATCH_MAX 300

static struct replay_frames given_frames(enum replay_kind kind, int64_t partitions, enum codec_kind codec)
{
    struct replay_wanted wanted = {.kind = kind,
                                   .topic = TOPIC,
                                   .partition = 7,
                                   .partitions = partitions,
                                   .max_bytes = 1000,
                                   .min_bytes = 1,
                                   .max_wait_ms = 500,
                                   .acks = -1,
                                   .records = 10,
                                   .size_bytes = 200,
                                   .codec = codec};
    struct replay_frames frames;
    assert_true(replay_frames_make(&wanted, &frames));
    return frames;
}

static uint32_t partition_of(const struct replay_frames *frames, size_t place)
{
    return base_get_u32(frames->heads + (place + 1) * frames->head_bytes -
                        8); /* index and size of the batch end a head */
}

static void a_produce_is_a_head_for_each_partition_and_one_batch_for_all(void **state)
{
    (void)state;
    struct replay_frames frames = given_frames(REPLAY_PRODUCE, 3, CODEC_NONE);
    for (uint32_t i = 0; i < 3; i++) {
        const uint8_t *head = frames.heads + i * frames.head_bytes;
        assert_int_equal(base_get_u32(head), frames.head_bytes + frames.body.size_bytes - 4);
        assert_int_equal(partition_of(&frames, i), 7 + i);
        assert_int_equal(base_get_u32(head + frames.head_bytes - 4), frames.body.size_bytes);
    }
    const uint8_t *batch = frames.body.at;
    assert_int_equal(base_get_u32(batch + REC_RECORD_COUNT_AT), 10);
    assert_int_equal(base_get_u32(batch + REC_LAST_OFFSET_DELTA_AT), 9);
    assert_int_equal(codec_crc32c(0, batch + REC_ATTRIBUTES_AT, frames.body.size_bytes - REC_ATTRIBUTES_AT),
                     base_get_u32(batch + REC_CRC_AT));
}

static void with_one_partition_head_and_batch_lie_behind_each_other(void **state)
{
    (void)state;
    struct replay_frames frames = given_frames(REPLAY_PRODUCE, 1, CODEC_NONE);
    assert_ptr_equal(frames.body.at, frames.heads + frames.head_bytes);
}

static void a_compressed_batch_says_so_and_is_smaller(void **state)
{
    (void)state;
    for (enum codec_kind codec = CODEC_GZIP; codec <= CODEC_ZSTD; codec++) {
        struct replay_frames frames = given_frames(REPLAY_PRODUCE, 1, codec);
        assert_int_equal(base_get_u16(frames.body.at + REC_ATTRIBUTES_AT) & REC_ATTRIBUTE_CODEC_MASK, codec);
        assert_true(frames.body.size_bytes < 10 * 200);
    }
}

static void the_offset_of_a_fetch_is_where_it_is_set(void **state)
{
    (void)state;
    struct replay_frames frames = given_frames(REPLAY_FETCH, 1, CODEC_NONE);
    replay_set_offset(&frames, frames.heads, 0x1122334455667788);
    size_t tail_bytes = 8 + 4 + 4 + 2; /* log start, size, forgotten, rack */
    assert_int_equal(base_get_u64(frames.heads + frames.head_bytes - tail_bytes - 8), 0x1122334455667788);
    assert_int_equal(base_get_u32(frames.heads) + 4, frames.head_bytes);
    assert_int_equal(frames.body.size_bytes, 0);
}

/* ---- answers ---- */

struct bytes {
    uint8_t at[HEAD_MAX + BATCHES * BATCH_MAX];
    size_t used_bytes;
};
static void put(struct bytes *bytes, uint64_t v, size_t size_bytes)
{
    for (size_t i = size_bytes; i > 0; i--) { bytes->at[bytes->used_bytes++] = (uint8_t)(v >> (8 * (i - 1))); }
}

/* With its records still to come: so many bytes of them. */
static struct bytes fetch_answer(uint16_t top_error, uint16_t error, uint32_t records_bytes)
{
    struct bytes bytes = {.used_bytes = 4};
    put(&bytes, 1, 4); /* correlation */
    put(&bytes, 0, 4);
    put(&bytes, top_error, 2);
    put(&bytes, 0, 4);
    put(&bytes, 1, 4);
    put(&bytes, strlen(TOPIC), 2);
    for (const char *c = TOPIC; *c != '\0'; c++) { put(&bytes, (uint8_t)*c, 1); }
    put(&bytes, 1, 4);
    put(&bytes, 7, 4);
    put(&bytes, error, 2);
    put(&bytes, 99, 8);
    put(&bytes, 99, 8);
    put(&bytes, 0, 8);
    put(&bytes, UINT32_MAX, 4); /* aborted transactions */
    put(&bytes, UINT32_MAX, 4);
    put(&bytes, records_bytes, 4);
    return bytes;
}

static void put_batch(struct bytes *bytes, uint64_t base_offset, uint32_t count, size_t size_bytes)
{
    size_t begin_at = bytes->used_bytes;
    memset(bytes->at + begin_at, 0xa5, size_bytes);
    base_put_u64(bytes->at + begin_at + REC_BASE_OFFSET_AT, base_offset);
    base_put_u32(bytes->at + begin_at + REC_LENGTH_AT, (uint32_t)size_bytes - REC_LENGTH_PREFIX_BYTES);
    base_put_u32(bytes->at + begin_at + REC_LAST_OFFSET_DELTA_AT, count - 1);
    bytes->used_bytes += size_bytes;
}

static void end_answer(struct bytes *bytes) { base_put_u32(bytes->at, (uint32_t)bytes->used_bytes - 4); }

/* Feeds the answer in two pieces; what was left of the first comes again with the second. */
static struct replay_answer read_in_two(const struct replay_frames *frames, const struct bytes *bytes, size_t cut,
                                        bool is_looking)
{
    struct replay_reader reader = {.is_looking = is_looking};
    size_t taken = 0;
    size_t more = 0;
    uint8_t first[sizeof bytes->at]; /* what is behind the piece is something else */
    memset(first, 0xff, sizeof first);
    memcpy(first, bytes->at, cut);
    enum replay_read got = replay_read(&reader, frames, base_slice_of(first, cut), &taken);
    assert_true(taken <= cut);
    if (got == REPLAY_MORE) {
        assert_true(cut - taken < REPLAY_KEPT_BYTES + strlen(TOPIC));
        got = replay_read(&reader, frames, base_slice_of(bytes->at + taken, bytes->used_bytes - taken), &more);
    }
    assert_int_equal(got, REPLAY_ANSWER);
    assert_int_equal(taken + more, bytes->used_bytes);
    assert_int_equal(reader.answer.size_bytes, bytes->used_bytes);
    return reader.answer;
}

static void a_fetch_that_is_looked_into_ends_behind_its_last_whole_batch_however_it_is_cut(void **state)
{
    (void)state;
    struct replay_frames frames = given_frames(REPLAY_FETCH, 1, CODEC_NONE);
    struct bytes bytes = fetch_answer(0, 0, 100 + 300 + 70);
    put_batch(&bytes, 40, 2, 100);
    put_batch(&bytes, 42, 5, 300);
    put_batch(&bytes, 47, 9, 200); /* of which 70 bytes come */
    bytes.used_bytes -= 130;
    end_answer(&bytes);
    for (size_t cut = 0; cut <= bytes.used_bytes; cut++) {
        assert_int_equal(read_in_two(&frames, &bytes, cut, true).next_offset, 47);
        assert_int_equal(read_in_two(&frames, &bytes, cut, false).next_offset, 0);
    }
}

static void a_rest_too_short_to_be_a_batch_is_passed_over(void **state)
{
    (void)state;
    struct replay_frames frames = given_frames(REPLAY_FETCH, 1, CODEC_NONE);
    for (uint32_t rest = 0; rest < 61; rest++) {
        struct bytes bytes = fetch_answer(0, 0, 100 + rest);
        put_batch(&bytes, 40, 2, 100);
        put_batch(&bytes, 42, 5, 100);
        bytes.used_bytes -= 100 - rest;
        end_answer(&bytes);
        assert_int_equal(read_in_two(&frames, &bytes, 80, true).next_offset, 42);
    }
}

static void two_answers_in_one_piece_are_told_apart(void **state)
{
    (void)state;
    struct replay_frames frames = given_frames(REPLAY_FETCH, 1, CODEC_NONE);
    struct bytes bytes = fetch_answer(0, 0, 100);
    put_batch(&bytes, 40, 2, 100);
    end_answer(&bytes);
    uint8_t both[2 * sizeof bytes.at];
    memcpy(both, bytes.at, bytes.used_bytes);
    memcpy(both + bytes.used_bytes, bytes.at, bytes.used_bytes);
    struct replay_reader reader = {.is_looking = true};
    size_t taken = 0;
    for (size_t i = 0; i < 2; i++) {
        struct base_slice rest = base_slice_of(both + i * bytes.used_bytes, (2 - i) * bytes.used_bytes);
        assert_int_equal(replay_read(&reader, &frames, rest, &taken), REPLAY_ANSWER);
        assert_int_equal(taken, bytes.used_bytes);
        assert_int_equal(reader.answer.next_offset, 42);
    }
}

static void an_error_of_the_partition_or_of_the_whole_fetch_is_told(void **state)
{
    (void)state;
    struct replay_frames frames = given_frames(REPLAY_FETCH, 1, CODEC_NONE);
    struct bytes bytes = fetch_answer(0, 6, 0);
    end_answer(&bytes);
    assert_int_equal(read_in_two(&frames, &bytes, 50, true).error, 6);
    bytes = fetch_answer(71, 0, 0);
    end_answer(&bytes);
    assert_int_equal(read_in_two(&frames, &bytes, 50, true).error, 71);
}

static void a_produce_answer_tells_its_error_and_its_offset(void **state)
{
    (void)state;
    struct replay_frames frames = given_frames(REPLAY_PRODUCE, 1, CODEC_NONE);
    struct bytes bytes = {.used_bytes = 4};
    put(&bytes, 1, 4);
    put(&bytes, 1, 4);
    put(&bytes, strlen(TOPIC), 2);
    for (const char *c = TOPIC; *c != '\0'; c++) { put(&bytes, (uint8_t)*c, 1); }
    put(&bytes, 1, 4);
    put(&bytes, 7, 4);
    put(&bytes, 0xffff, 2);
    put(&bytes, 1234567890123, 8);
    put(&bytes, UINT64_MAX, 8);
    put(&bytes, 0, 8);
    put(&bytes, 0, 4);
    end_answer(&bytes);
    for (size_t cut = 0; cut <= bytes.used_bytes; cut++) {
        struct replay_answer answer = read_in_two(&frames, &bytes, cut, false);
        assert_int_equal(answer.error, -1);
        assert_int_equal(answer.base_offset, 1234567890123);
    }
}

static void expect_bad(const struct replay_frames *frames, const struct bytes *bytes)
{
    struct replay_reader reader = {.is_looking = true};
    size_t taken = 0;
    assert_int_equal(replay_read(&reader, frames, base_slice_of(bytes->at, bytes->used_bytes), &taken), REPLAY_BAD);
}

static void what_is_no_answer_is_bad(void **state)
{
    (void)state;
    struct replay_frames frames = given_frames(REPLAY_FETCH, 1, CODEC_NONE);
    struct bytes bytes = fetch_answer(0, 0, 100);
    put_batch(&bytes, 40, 2, 100);
    end_answer(&bytes);
    bytes.at[7] = 2; /* another correlation */
    expect_bad(&frames, &bytes);
    bytes.at[7] = 1;
    base_put_u32(bytes.at, 40); /* too short */
    expect_bad(&frames, &bytes);
    end_answer(&bytes);
    base_put_u32(bytes.at + frames.answer_bytes + REC_LENGTH_AT, 20); /* a batch less than its header */
    expect_bad(&frames, &bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_produce_is_a_head_for_each_partition_and_one_batch_for_all),
        cmocka_unit_test(with_one_partition_head_and_batch_lie_behind_each_other),
        cmocka_unit_test(a_compressed_batch_says_so_and_is_smaller),
        cmocka_unit_test(the_offset_of_a_fetch_is_where_it_is_set),
        cmocka_unit_test(a_fetch_that_is_looked_into_ends_behind_its_last_whole_batch_however_it_is_cut),
        cmocka_unit_test(a_rest_too_short_to_be_a_batch_is_passed_over),
        cmocka_unit_test(two_answers_in_one_piece_are_told_apart),
        cmocka_unit_test(an_error_of_the_partition_or_of_the_whole_fetch_is_told),
        cmocka_unit_test(a_produce_answer_tells_its_error_and_its_offset),
        cmocka_unit_test(what_is_no_answer_is_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
