/* lz4.c: the LZ4 frame format 1.6 over liblz4's block functions. The library's own frame reader would buffer two blocks of
 * up to 4 MiB; with the whole output at hand a block is opened where it belongs, and no memory is needed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/arith.h"
#include "codec/codec__kinds.h"

#include <lz4.h>
#include <lz4hc.h>

#define FRAME_MAGIC          UINT32_C(0x184d2204)
#define SKIPPABLE_MAGIC      UINT32_C(0x184d2a50) /* its last four bits are free */
#define SKIPPABLE_MASK       UINT32_C(0xfffffff0)
#define STORED_BLOCK         UINT32_C(0x80000000)
#define FLAG_VERSION_MASK    0xc0u
#define FLAG_VERSION         0x40u
#define FLAG_INDEPENDENT     0x20u
#define FLAG_BLOCK_CHECKSUM  0x10u
#define FLAG_CONTENT_SIZE    0x08u
#define FLAG_CONTENT_SUM     0x04u
#define FLAG_RESERVED        0x02u
#define FLAG_DICTIONARY      0x01u
#define HISTORY_BYTES        ((size_t)64 * 1024) /* how far back a linked block may point */
#define WRITTEN_BLOCK_BYTES  ((size_t)64 * 1024)
#define WRITTEN_HEADER_BYTES ((size_t)7)

/* ---- xxHash32 with seed 0, which the format's checksums are ---- */

#define PRIME_1 UINT32_C(0x9e3779b1)
#define PRIME_2 UINT32_C(0x85ebca77)
#define PRIME_3 UINT32_C(0xc2b2ae3d)
#define PRIME_4 UINT32_C(0x27d4eb2f)
#define PRIME_5 UINT32_C(0x165667b1)

static uint32_t load_le32(const uint8_t *b)
{
    return (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];
}

static void store_le32(uint8_t *b, uint32_t v)
{
    for (size_t i = 0; i < 4; i++) { b[i] = (uint8_t)(v >> (8 * i)); }
}

static uint32_t rotate_left(uint32_t v, unsigned bits) { return v << bits | v >> (32 - bits); }

static uint32_t xxhash32(const uint8_t *b, size_t size_bytes)
{
    size_t left = size_bytes;
    uint32_t hash = PRIME_5;
    if (left >= 16) {
        uint32_t lanes[4] = {PRIME_1 + PRIME_2, PRIME_2, 0, 0 - PRIME_1};
        for (; left >= 16; left -= 16) {
            for (size_t lane = 0; lane < 4; lane++, b += 4) {
                lanes[lane] = rotate_left(lanes[lane] + load_le32(b) * PRIME_2, 13) * PRIME_1;
            }
        }
        hash =
            rotate_left(lanes[0], 1) + rotate_left(lanes[1], 7) + rotate_left(lanes[2], 12) + rotate_left(lanes[3], 18);
    }
    hash += (uint32_t)size_bytes;
    for (; left >= 4; left -= 4, b += 4) { hash = rotate_left(hash + load_le32(b) * PRIME_3, 17) * PRIME_4; }
    for (; left > 0; left--, b++) { hash = rotate_left(hash + *b * PRIME_5, 11) * PRIME_1; }
    hash = (hash ^ hash >> 15) * PRIME_2;
    hash = (hash ^ hash >> 13) * PRIME_3;
    return hash ^ hash >> 16;
}

/* ---- reading ---- */

struct frame {
    size_t block_max_bytes;
    uint64_t content_bytes; /* with has_content_bytes */
    bool is_independent;
    bool has_block_sums;
    bool has_content_bytes;
    bool has_content_sum;
};

static void skip(struct base_slice *in, size_t bytes)
{
    in->at += bytes;
    in->size_bytes -= bytes;
}

/* Takes a frame's header off `in`. */
static bool take_frame(struct base_slice *in, struct frame *frame_out)
{
    if (in->size_bytes < WRITTEN_HEADER_BYTES || load_le32(in->at) != FRAME_MAGIC) { return false; }
    uint8_t flags = in->at[4];
    uint8_t sizes = in->at[5];
    if ((flags & FLAG_VERSION_MASK) != FLAG_VERSION || (flags & (FLAG_RESERVED | FLAG_DICTIONARY)) != 0) {
        return false; /* a dictionary would have to be known beforehand */
    }
    if ((sizes & 0x8f) != 0 || sizes >> 4 < 4) { return false; }
    struct frame frame = {
        .block_max_bytes = (size_t)1 << (8 + 2 * (sizes >> 4)), /* 4: 64 KiB ... 7: 4 MiB */
        .is_independent = (flags & FLAG_INDEPENDENT) != 0,
        .has_block_sums = (flags & FLAG_BLOCK_CHECKSUM) != 0,
        .has_content_bytes = (flags & FLAG_CONTENT_SIZE) != 0,
        .has_content_sum = (flags & FLAG_CONTENT_SUM) != 0,
    };
    size_t described_bytes = 2;
    if (frame.has_content_bytes) {
        if (in->size_bytes < WRITTEN_HEADER_BYTES + 8) { return false; }
        frame.content_bytes = (uint64_t)load_le32(in->at + 10) << 32 | load_le32(in->at + 6);
        described_bytes += 8;
    }
    uint8_t sum = (uint8_t)(xxhash32(in->at + 4, described_bytes) >> 8);
    if (in->at[4 + described_bytes] != sum) { return false; }
    skip(in, 4 + described_bytes + 1);
    *frame_out = frame;
    return true;
}

struct block {
    struct base_slice bytes; /* empty: the end mark */
    bool is_stored;
};

/* Takes a block, its checksum included, or the end mark off `in`. */
static bool take_block(struct base_slice *in, const struct frame *frame, struct block *block_out)
{
    if (in->size_bytes < 4) { return false; }
    uint32_t word = load_le32(in->at);
    skip(in, 4);
    if (word == 0) {
        *block_out = (struct block){.bytes = {.at = in->at}};
        return true;
    }
    size_t bytes = word & ~STORED_BLOCK;
    size_t sum_bytes = frame->has_block_sums ? 4 : 0;
    if (bytes == 0 || bytes > frame->block_max_bytes || in->size_bytes < bytes + sum_bytes) { return false; }
    *block_out = (struct block){.bytes = base_slice_of(in->at, bytes), .is_stored = (word & STORED_BLOCK) != 0};
    skip(in, bytes + sum_bytes);
    return true;
}

/* Takes a skippable frame off `in`; false: there is none. */
static bool take_skippable(struct base_slice *in, bool *is_bad_out)
{
    if (in->size_bytes < 4 || (load_le32(in->at) & SKIPPABLE_MASK) != SKIPPABLE_MAGIC) { return false; }
    if (in->size_bytes < 8 || load_le32(in->at + 4) > in->size_bytes - 8) {
        *is_bad_out = true;
        return false;
    }
    skip(in, 8 + (size_t)load_le32(in->at + 4));
    return true;
}

size_t codec__lz4_bound(struct base_slice in, size_t limit_bytes)
{
    size_t sum = 0;
    bool is_bad = false;
    while (in.size_bytes > 0 && sum < limit_bytes && !is_bad) {
        if (take_skippable(&in, &is_bad)) { continue; }
        struct frame frame;
        if (is_bad || !take_frame(&in, &frame)) { break; }
        struct block block = {0};
        while (sum < limit_bytes && take_block(&in, &frame, &block) && block.bytes.size_bytes > 0) {
            /* a byte of a match's length stands for 255 at most */
            sum += block.is_stored ? block.bytes.size_bytes
                                   : base_min_size(frame.block_max_bytes, block.bytes.size_bytes * 255);
        }
        if (block.bytes.at == NULL || block.bytes.size_bytes > 0) { break; }
        if (frame.has_content_sum) {
            if (in.size_bytes < 4) { break; }
            skip(&in, 4);
        }
    }
    return base_min_size(limit_bytes, sum);
}

static enum codec_rc open_block(const struct frame *frame, const struct block *block, size_t content_at,
                                struct codec__out *out)
{
    size_t bytes = block->bytes.size_bytes;
    if (frame->has_block_sums && xxhash32(block->bytes.at, bytes) != load_le32(block->bytes.at + bytes)) {
        return CODEC_BAD;
    }
    size_t room = codec__room(out);
    if (block->is_stored) {
        if (bytes > room) { return CODEC_TOO_LARGE; }
        memcpy(out->at + out->used_bytes, block->bytes.at, bytes);
        out->used_bytes += bytes;
        return CODEC_OK;
    }
    if (room == 0) { return CODEC_TOO_LARGE; } /* an opened block has bytes */
    size_t block_room = base_min_size(room, frame->block_max_bytes);
    size_t history = frame->is_independent ? 0 : base_min_size(out->used_bytes - content_at, HISTORY_BYTES);
    char *to = (char *)out->at + out->used_bytes;
    int opened = LZ4_decompress_safe_usingDict((const char *)block->bytes.at, to, (int)bytes, (int)block_room,
                                               to - history, (int)history);
    /* The library does not tell a lie from a lack of room. */
    if (opened < 0) { return block_room < frame->block_max_bytes ? CODEC_TOO_LARGE : CODEC_BAD; }
    out->used_bytes += (size_t)opened;
    return CODEC_OK;
}

static enum codec_rc open_frame(struct base_slice *in, struct codec__out *out)
{
    struct frame frame;
    if (!take_frame(in, &frame)) { return CODEC_BAD; }
    size_t content_at = out->used_bytes;
    for (;;) {
        struct block block;
        if (!take_block(in, &frame, &block)) { return CODEC_BAD; }
        if (block.bytes.size_bytes == 0) { break; }
        enum codec_rc rc = open_block(&frame, &block, content_at, out);
        if (rc != CODEC_OK) { return rc; }
    }
    size_t content_bytes = out->used_bytes - content_at;
    if (frame.has_content_bytes && frame.content_bytes != content_bytes) { return CODEC_BAD; }
    if (frame.has_content_sum) {
        if (in->size_bytes < 4) { return CODEC_BAD; }
        uint32_t sum = content_bytes == 0 ? xxhash32(in->at, 0) : xxhash32(out->at + content_at, content_bytes);
        if (load_le32(in->at) != sum) { return CODEC_BAD; }
        skip(in, 4);
    }
    return CODEC_OK;
}

enum codec_rc codec__lz4_open(struct base_slice in, struct codec__out *out)
{
    size_t frames = 0;
    bool is_bad = false;
    while (in.size_bytes > 0) {
        if (take_skippable(&in, &is_bad)) { continue; }
        enum codec_rc rc = is_bad ? CODEC_BAD : open_frame(&in, out);
        if (rc != CODEC_OK) { return rc; }
        frames += 1;
    }
    return frames > 0 ? CODEC_OK : CODEC_BAD;
}

/* ---- writing ---- */

static bool is_hc(int32_t level) { return level != CODEC_LEVEL_DEFAULT; }

size_t codec__lz4_compress_scratch(int32_t level)
{
    return is_hc(level) ? (size_t)LZ4_sizeofStateHC() : (size_t)LZ4_sizeofState();
}

/* Writes a block and its length, stored when it would not become smaller. */
static enum codec_rc put_block(int32_t level, struct base_slice block, struct codec_scratch scratch,
                               struct codec__out *out)
{
    if (codec__room(out) < 4) { return CODEC_TOO_LARGE; }
    uint8_t *length_at = out->at + out->used_bytes;
    size_t room = base_min_size(codec__room(out) - 4, block.size_bytes - 1); /* no room for one that does not shrink */
    int packed = is_hc(level) ? LZ4_compress_HC_extStateHC(scratch.at, (const char *)block.at, (char *)length_at + 4,
                                                           (int)block.size_bytes, (int)room, (int)level)
                              : LZ4_compress_fast_extState(scratch.at, (const char *)block.at, (char *)length_at + 4,
                                                           (int)block.size_bytes, (int)room, 1);
    if (packed > 0) {
        store_le32(length_at, (uint32_t)packed);
        out->used_bytes += 4 + (size_t)packed;
        return CODEC_OK;
    }
    if (codec__room(out) - 4 < block.size_bytes) { return CODEC_TOO_LARGE; }
    store_le32(length_at, (uint32_t)block.size_bytes | STORED_BLOCK);
    memcpy(length_at + 4, block.at, block.size_bytes);
    out->used_bytes += 4 + block.size_bytes;
    return CODEC_OK;
}

enum codec_rc codec__lz4_compress(int32_t level, struct base_slice in, struct codec_scratch scratch,
                                  struct codec__out *out)
{
    if (codec__room(out) < WRITTEN_HEADER_BYTES) { return CODEC_TOO_LARGE; }
    store_le32(out->at, FRAME_MAGIC);
    out->at[4] = FLAG_VERSION | FLAG_INDEPENDENT;
    out->at[5] = 4 << 4; /* blocks of 64 KiB */
    out->at[6] = (uint8_t)(xxhash32(out->at + 4, 2) >> 8);
    out->used_bytes = WRITTEN_HEADER_BYTES;
    while (in.size_bytes > 0) {
        size_t block_bytes = base_min_size(in.size_bytes, WRITTEN_BLOCK_BYTES);
        enum codec_rc rc = put_block(level, base_slice_of(in.at, block_bytes), scratch, out);
        if (rc != CODEC_OK) { return rc; }
        skip(&in, block_bytes);
    }
    if (codec__room(out) < 4) { return CODEC_TOO_LARGE; }
    store_le32(out->at + out->used_bytes, 0);
    out->used_bytes += 4;
    return CODEC_OK;
}

size_t codec__lz4_compress_bound(size_t in_bytes)
{
    return WRITTEN_HEADER_BYTES + in_bytes + 4 * (in_bytes / WRITTEN_BLOCK_BYTES + 2);
}
