/* test_codec.c: every kind there and back, cut, lied about, and as a bomb.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "codec/codec.h"

static const enum codec_kind kinds[] = {CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD};
static const enum codec_kind packing_kinds[] = {CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD};

struct bytes {
    uint8_t *at;
    size_t size_bytes;
};

static struct base_slice slice(struct bytes bytes) { return base_slice_of(bytes.at, bytes.size_bytes); }

/* Exactly as large as asked for, so that a sanitizer sees the first byte past it. */
static struct bytes given_room(size_t size_bytes)
{
    struct bytes bytes = {.at = malloc(size_bytes == 0 ? 1 : size_bytes), .size_bytes = size_bytes};
    assert_non_null(bytes.at);
    return bytes;
}

static struct codec_scratch given_scratch(size_t size_bytes)
{
    return (struct codec_scratch){.at = aligned_alloc(16, (size_bytes + 31) / 16 * 16), .size_bytes = size_bytes};
}

enum texture { SAME, WORDS, NOISE };

static struct bytes given_content(enum texture texture, size_t size_bytes, uint64_t seed)
{
    struct bytes bytes = given_room(size_bytes);
    struct base_prng dice;
    base_prng_init(&dice, seed, 0);
    for (size_t i = 0; i < size_bytes; i++) {
        switch (texture) {
        case SAME: bytes.at[i] = 'a'; break;
        case WORDS: bytes.at[i] = (uint8_t)"the broker keeps the log "[(i * 7 + base_prng_below(&dice, 2)) % 25]; break;
        case NOISE: bytes.at[i] = (uint8_t)base_prng_u64(&dice); break;
        }
    }
    return bytes;
}

static struct bytes packed(enum codec_kind kind, int32_t level, struct bytes content)
{
    struct codec_scratch scratch = given_scratch(codec_compress_scratch_bytes(kind, level, content.size_bytes));
    struct bytes room = given_room(codec_compress_bound_bytes(kind, content.size_bytes));
    size_t used = SIZE_MAX;
    assert_int_equal(codec_compress(kind, level, slice(content), scratch, room.at, room.size_bytes, &used), CODEC_OK);
    assert_true(used <= room.size_bytes);
    struct bytes exact = given_room(used);
    memcpy(exact.at, room.at, used);
    free(room.at);
    free(scratch.at);
    return exact;
}

/* Opens into a buffer of exactly `room_bytes`; *opened_out is to be freed when CODEC_OK. */
static enum codec_rc opened(enum codec_kind kind, struct base_slice in, size_t room_bytes, struct bytes *opened_out)
{
    struct codec_scratch scratch = given_scratch(codec_decompress_scratch_bytes(kind));
    struct bytes room = given_room(room_bytes);
    size_t used = SIZE_MAX;
    enum codec_rc rc = codec_decompress(kind, in, scratch, room.at, room_bytes, &used);
    free(scratch.at);
    if (rc != CODEC_OK) {
        assert_int_equal(used, SIZE_MAX);
        free(room.at);
        return rc;
    }
    assert_true(used <= room_bytes);
    *opened_out = (struct bytes){.at = room.at, .size_bytes = used};
    return rc;
}

static void expect_opens_to(enum codec_kind kind, struct base_slice in, struct bytes content)
{
    struct bytes back;
    assert_int_equal(opened(kind, in, content.size_bytes, &back), CODEC_OK);
    assert_int_equal(back.size_bytes, content.size_bytes);
    assert_memory_equal(back.at, content.at, content.size_bytes);
    free(back.at);
    assert_true(codec_decompressed_bound_bytes(kind, in, SIZE_MAX) >= content.size_bytes);
    assert_in_range(codec_decompressed_bound_bytes(kind, in, 3), base_min_size(content.size_bytes, 3), 3);
}

/* ---- crc ---- */

/* The bit by bit definition: polynomial 0x1edc6f41 reflected. */
static uint32_t slow_crc32c(const uint8_t *at, size_t size_bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size_bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) { crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0x82f63b78) : 0); }
    }
    return ~crc;
}

static void crc32c_has_the_known_values(void **state)
{
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(codec_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(codec_crc32c(0, NULL, 0), 0);
    assert_int_equal(codec_crc32c(0, bytes, 32), 0x8a9136aa); /* RFC 3720, B.4 */
    memset(bytes, 0xff, 32);
    assert_int_equal(codec_crc32c(0, bytes, 32), 0x62a8ab43);
    for (size_t i = 0; i < 32; i++) { bytes[i] = (uint8_t)i; }
    assert_int_equal(codec_crc32c(0, bytes, 32), 0x46dd794e);
}

static void crc32c_is_the_same_in_pieces_and_at_any_alignment(void **state)
{
    (void)state;
    struct bytes content = given_content(NOISE, 9000, 1);
    for (size_t from = 0; from < 9; from++) {
        for (size_t size = 0; size < 8900; size += size < 300 ? 1 : 1237) {
            uint32_t whole = codec_crc32c(0, content.at + from, size);
            assert_int_equal(whole, slow_crc32c(content.at + from, size));
            size_t cut = size / 3;
            uint32_t first = codec_crc32c(0, content.at + from, cut);
            assert_int_equal(codec_crc32c(first, content.at + from + cut, size - cut), whole);
        }
    }
    free(content.at);
}

/* ---- there and back ---- */

static void every_kind_opens_what_it_packed(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 17, 255, 4096, 32768, 32769, 65535, 65536, 65537, 131072, 300001};
    for (size_t k = 0; k < BASE_ARRAY_COUNT(kinds); k++) {
        for (size_t s = 0; s < BASE_ARRAY_COUNT(sizes); s++) {
            for (enum texture texture = SAME; texture <= NOISE; texture++) {
                struct bytes content = given_content(texture, sizes[s], s);
                struct bytes in = packed(kinds[k], CODEC_LEVEL_DEFAULT, content);
                expect_opens_to(kinds[k], slice(in), content);
                free(in.at);
                free(content.at);
            }
        }
    }
}

static void every_level_opens_to_the_same(void **state)
{
    (void)state;
    struct bytes content = given_content(WORDS, 50000, 4);
    struct bytes large = given_content(WORDS, 700000, 4);
    for (int32_t level = -7; level <= 22; level++) {
        for (size_t k = 0; k < BASE_ARRAY_COUNT(kinds); k++) {
            if (!codec_level_is_known(kinds[k], level)) { continue; }
            struct bytes some = level > 9 ? content : large; /* the highest levels want much time and memory for more */
            struct bytes in = packed(kinds[k], level, some);
            assert_true(in.size_bytes < some.size_bytes);
            expect_opens_to(kinds[k], slice(in), some);
            free(in.at);
        }
    }
    assert_false(codec_level_is_known(CODEC_GZIP, 0));
    assert_false(codec_level_is_known(CODEC_GZIP, 10));
    assert_false(codec_level_is_known(CODEC_SNAPPY, 1));
    assert_false(codec_level_is_known(CODEC_LZ4, 18));
    assert_false(codec_level_is_known(CODEC_ZSTD, 23));
    free(content.at);
    free(large.at);
}

static void joined_streams_open_as_one(void **state)
{
    (void)state;
    struct bytes whole = given_content(WORDS, 90000, 8);
    struct bytes first = {.at = whole.at, .size_bytes = 40000};
    struct bytes second = {.at = whole.at + 40000, .size_bytes = 50000};
    for (size_t k = 0; k < BASE_ARRAY_COUNT(packing_kinds); k++) {
        struct bytes a = packed(packing_kinds[k], CODEC_LEVEL_DEFAULT, first);
        struct bytes b = packed(packing_kinds[k], CODEC_LEVEL_DEFAULT, second);
        struct bytes both = given_room(a.size_bytes + b.size_bytes);
        memcpy(both.at, a.at, a.size_bytes);
        memcpy(both.at + a.size_bytes, b.at, b.size_bytes);
        expect_opens_to(packing_kinds[k], slice(both), whole);
        free(a.at);
        free(b.at);
        free(both.at);
    }
    free(whole.at);
}

/* ---- no room ---- */

static void output_that_does_not_fit_is_refused_at_every_size(void **state)
{
    (void)state;
    struct bytes content = given_content(WORDS, 700, 2);
    for (size_t k = 0; k < BASE_ARRAY_COUNT(kinds); k++) {
        struct bytes in = packed(kinds[k], CODEC_LEVEL_DEFAULT, content);
        for (size_t room = 0; room < content.size_bytes; room++) {
            struct bytes back;
            assert_int_equal(opened(kinds[k], slice(in), room, &back), CODEC_TOO_LARGE);
        }
        struct codec_scratch scratch =
            given_scratch(codec_compress_scratch_bytes(kinds[k], CODEC_LEVEL_DEFAULT, content.size_bytes));
        for (size_t room = 0; room < in.size_bytes; room++) {
            struct bytes out = given_room(room);
            size_t used = SIZE_MAX;
            assert_int_equal(codec_compress(kinds[k], CODEC_LEVEL_DEFAULT, slice(content), scratch, out.at, room,
                                            &used),
                             CODEC_TOO_LARGE);
            free(out.at);
        }
        free(scratch.at);
        free(in.at);
    }
    free(content.at);
}

static void less_scratch_than_asked_for_is_refused(void **state)
{
    (void)state;
    struct bytes content = given_content(WORDS, 700, 2);
    for (size_t k = 0; k < BASE_ARRAY_COUNT(kinds); k++) {
        struct bytes in = packed(kinds[k], CODEC_LEVEL_DEFAULT, content);
        uint8_t out[2000];
        size_t used = 77;
        struct codec_scratch none = {0};
        bool needs_some = codec_decompress_scratch_bytes(kinds[k]) > 0;
        assert_int_equal(codec_decompress(kinds[k], slice(in), none, out, sizeof out, &used),
                         needs_some ? CODEC_SCRATCH : CODEC_OK);
        needs_some = codec_compress_scratch_bytes(kinds[k], CODEC_LEVEL_DEFAULT, 700) > 0;
        assert_int_equal(codec_compress(kinds[k], CODEC_LEVEL_DEFAULT, slice(content), none, out, sizeof out, &used),
                         needs_some ? CODEC_SCRATCH : CODEC_OK);
        free(in.at);
    }
    free(content.at);
}

static void bombs_are_refused_within_the_limit(void **state)
{
    (void)state;
    struct bytes zeros = given_content(SAME, (size_t)64 << 20, 0);
    for (size_t k = 0; k < BASE_ARRAY_COUNT(packing_kinds); k++) {
        struct bytes bomb = packed(packing_kinds[k], CODEC_LEVEL_DEFAULT, zeros);
        assert_true(bomb.size_bytes < zeros.size_bytes / 15);
        struct bytes back;
        assert_int_equal(opened(packing_kinds[k], slice(bomb), 100000, &back), CODEC_TOO_LARGE);
        assert_int_equal(codec_decompressed_bound_bytes(packing_kinds[k], slice(bomb), 100000), 100000);
        assert_true(codec_decompress_scratch_bytes(packing_kinds[k]) < 200000);
        free(bomb.at);
    }
    free(zeros.at);
}

static void a_length_that_lies_costs_nothing(void **state)
{
    (void)state;
    static const uint8_t snappy_4_gib[] = {0xff, 0xff, 0xff, 0xff, 0x0f, 0x00, 'x'};
    struct bytes back;
    assert_int_equal(opened(CODEC_SNAPPY, base_slice_of(snappy_4_gib, sizeof snappy_4_gib), 1000, &back),
                     CODEC_TOO_LARGE);
    /* zstd: a frame that says it holds 2^62 bytes in a window of the largest size */
    static const uint8_t zstd_lie[] = {0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x01, 0, 0};
    assert_int_not_equal(opened(CODEC_ZSTD, base_slice_of(zstd_lie, sizeof zstd_lie), 1000, &back), CODEC_OK);
    assert_true(codec_decompressed_bound_bytes(CODEC_ZSTD, base_slice_of(zstd_lie, sizeof zstd_lie), 1000) <= 1000);
}

/* ---- bad input ---- */

static void a_cut_anywhere_is_an_error(void **state)
{
    (void)state;
    struct bytes content = given_content(WORDS, 3000, 3);
    for (size_t k = 0; k < BASE_ARRAY_COUNT(packing_kinds); k++) {
        struct bytes in = packed(packing_kinds[k], CODEC_LEVEL_DEFAULT, content);
        for (size_t cut = 0; cut < in.size_bytes; cut++) {
            /* 16 bytes of framing are a whole, empty, snappy stream */
            if (packing_kinds[k] == CODEC_SNAPPY && cut == 16) { continue; }
            struct bytes part = given_room(cut);
            memcpy(part.at, in.at, cut);
            struct bytes back;
            assert_int_not_equal(opened(packing_kinds[k], slice(part), 5000, &back), CODEC_OK);
            free(part.at);
        }
        free(in.at);
    }
    free(content.at);
}

static void a_flipped_byte_never_reads_or_writes_outside(void **state)
{
    (void)state;
    struct bytes content = given_content(WORDS, 2000, 3);
    for (size_t k = 0; k < BASE_ARRAY_COUNT(packing_kinds); k++) {
        struct bytes in = packed(packing_kinds[k], CODEC_LEVEL_DEFAULT, content);
        size_t refused = 0;
        for (size_t at = 0; at < in.size_bytes; at++) {
            for (uint8_t flip = 1; flip != 0; flip = (uint8_t)(flip << 1)) {
                in.at[at] ^= flip;
                (void)codec_decompressed_bound_bytes(packing_kinds[k], slice(in), 2500);
                struct bytes back;
                if (opened(packing_kinds[k], slice(in), 2500, &back) == CODEC_OK) {
                    assert_true(codec_decompressed_bound_bytes(packing_kinds[k], slice(in), 2500) >= back.size_bytes);
                    free(back.at);
                } else {
                    refused += 1;
                }
                in.at[at] ^= flip;
            }
        }
        assert_true(refused > 0);
        free(in.at);
    }
    free(content.at);
}

static void noise_is_an_error_or_stays_in_bounds(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct bytes noise = given_content(NOISE, seed % 97, seed);
        for (size_t k = 0; k < BASE_ARRAY_COUNT(packing_kinds); k++) {
            struct bytes back;
            if (opened(packing_kinds[k], slice(noise), 500, &back) == CODEC_OK) { free(back.at); }
        }
        free(noise.at);
    }
}

/* ---- what others write ---- */

static void snappy_opens_raw_blocks_too(void **state)
{
    (void)state;
    static const uint8_t raw[] = {11, 10 << 2, 'h', 'e', 'l', 'l', 'o', ' ', 'w', 'o', 'r', 'l', 'd'};
    struct bytes content = given_room(11);
    memcpy(content.at, "hello world", 11);
    expect_opens_to(CODEC_SNAPPY, base_slice_of(raw, sizeof raw), content);
    free(content.at);
}

/* Written by LZ4F_compressUpdate of lz4 1.9.4: linked blocks, checksums of blocks and content, the content's size. */
static void lz4_opens_frames_with_checksums_and_sizes(void **state)
{
    (void)state;
    static const uint8_t frame[] = {0x04, 0x22, 0x4d, 0x18, 0x5c, 0x40, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                    0x86, 0x0b, 0x00, 0x00, 0x00, 0x1f, 0x61, 0x01, 0x00, 0x07, 0x50, 0x61, 0x61, 0x61,
                                    0x61, 0x62, 0x39, 0x09, 0xee, 0x85, 0x00, 0x00, 0x00, 0x00, 0xbe, 0x4d, 0x3f, 0x44};
    struct bytes content = given_content(SAME, 32, 0);
    content.at[31] = 'b';
    expect_opens_to(CODEC_LZ4, base_slice_of(frame, sizeof frame), content);
    for (size_t at = 0; at < sizeof frame; at++) { /* every byte is under some checksum, or is a length or a flag */
        uint8_t bad[sizeof frame];
        memcpy(bad, frame, sizeof frame);
        bad[at] ^= 0x01;
        struct bytes back;
        assert_int_not_equal(opened(CODEC_LZ4, base_slice_of(bad, sizeof bad), 100, &back), CODEC_OK);
    }
    free(content.at);
}

/* From the same: two linked blocks, the second pointing back into the first. */
static void lz4_opens_linked_blocks(void **state)
{
    (void)state;
    static const uint8_t frame[] = {
        0x04, 0x22, 0x4d, 0x18, 0x40, 0x40, 0xc0, 0x1b, 0x01, 0x00, 0x00, 0xff, 0x01, 0x30, 0x31, 0x32, 0x33, 0x34,
        0x35, 0x36, 0x37, 0x38, 0x39, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x10, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xd8,
        0x50, 0x62, 0x63, 0x64, 0x65, 0x66, 0x0a, 0x00, 0x00, 0x00, 0x0f, 0x10, 0x00, 0x10, 0x50, 0x33, 0x34, 0x35,
        0x36, 0x37, 0x00, 0x00, 0x00, 0x00};
    struct bytes content = given_content(SAME, 65536 + 40, 0);
    for (size_t i = 0; i < content.size_bytes; i++) { content.at[i] = (uint8_t)"0123456789abcdef"[i % 16]; }
    expect_opens_to(CODEC_LZ4, base_slice_of(frame, sizeof frame), content);
    free(content.at);
}

static void a_skippable_frame_is_skipped(void **state)
{
    (void)state;
    struct bytes content = given_content(WORDS, 100, 1);
    static const uint8_t skippable[] = {0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'x', 'y', 'z'};
    static const enum codec_kind both[] = {CODEC_LZ4, CODEC_ZSTD};
    for (size_t k = 0; k < BASE_ARRAY_COUNT(both); k++) {
        struct bytes in = packed(both[k], CODEC_LEVEL_DEFAULT, content);
        struct bytes joined = given_room(sizeof skippable + in.size_bytes);
        memcpy(joined.at, skippable, sizeof skippable);
        memcpy(joined.at + sizeof skippable, in.at, in.size_bytes);
        expect_opens_to(both[k], slice(joined), content);
        free(joined.at);
        free(in.at);
    }
    struct bytes back;
    static const uint8_t lie[] = {0x53, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff, 'x'};
    assert_int_equal(opened(CODEC_LZ4, base_slice_of(lie, sizeof lie), 10, &back), CODEC_BAD);
    assert_int_equal(opened(CODEC_LZ4, base_slice_of(skippable, sizeof skippable), 10, &back), CODEC_BAD);
    free(content.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_has_the_known_values),
        cmocka_unit_test(crc32c_is_the_same_in_pieces_and_at_any_alignment),
        cmocka_unit_test(every_kind_opens_what_it_packed),
        cmocka_unit_test(every_level_opens_to_the_same),
        cmocka_unit_test(joined_streams_open_as_one),
        cmocka_unit_test(output_that_does_not_fit_is_refused_at_every_size),
        cmocka_unit_test(less_scratch_than_asked_for_is_refused),
        cmocka_unit_test(bombs_are_refused_within_the_limit),
        cmocka_unit_test(a_length_that_lies_costs_nothing),
        cmocka_unit_test(a_cut_anywhere_is_an_error),
        cmocka_unit_test(a_flipped_byte_never_reads_or_writes_outside),
        cmocka_unit_test(noise_is_an_error_or_stays_in_bounds),
        cmocka_unit_test(snappy_opens_raw_blocks_too),
        cmocka_unit_test(lz4_opens_frames_with_checksums_and_sizes),
        cmocka_unit_test(lz4_opens_linked_blocks),
        cmocka_unit_test(a_skippable_frame_is_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
