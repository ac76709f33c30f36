/* snappy.c: libsnappy, raw or in the framing of snappy-java: a header of 16 bytes, then blocks, each a big-endian length
 * and a raw snappy block. The header may come again between blocks, where streams were joined.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/arith.h"
#include "codec/codec__kinds.h"

#include <snappy-c.h>

#define FRAME_HEADER_BYTES ((size_t)16)
#define BLOCK_BYTES        ((size_t)32 * 1024) /* snappy-java's default */

static const uint8_t magic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
#define MAGIC_AS_LENGTH UINT32_C(0x82534e41) /* its first four bytes, which no length can be */
#define FRAME_VERSION   1u

static bool is_framed(struct base_slice in)
{
    return in.size_bytes >= FRAME_HEADER_BYTES && memcmp(in.at, magic, sizeof magic) == 0;
}

static void skip(struct base_slice *in, size_t bytes)
{
    in->at += bytes;
    in->size_bytes -= bytes;
}

/* The next block of a framed stream. CODEC_OK and an empty block: the end. */
static enum codec_rc next_block(struct base_slice *in, struct base_slice *block_out)
{
    while (is_framed(*in)) {
        if (base_get_u32(in->at + 12) > FRAME_VERSION) { return CODEC_BAD; } /* the oldest version that can read it */
        skip(in, FRAME_HEADER_BYTES);
    }
    if (in->size_bytes == 0) {
        *block_out = *in;
        return CODEC_OK;
    }
    if (in->size_bytes < 4) { return CODEC_BAD; }
    uint32_t block_bytes = base_get_u32(in->at);
    if (block_bytes == MAGIC_AS_LENGTH) { return CODEC_BAD; } /* a cut header */
    skip(in, 4);
    if (block_bytes == 0 || block_bytes > in->size_bytes) { return CODEC_BAD; }
    *block_out = base_slice_of(in->at, block_bytes);
    skip(in, block_bytes);
    return CODEC_OK;
}

static bool opened_bytes(struct base_slice block, size_t *bytes_out)
{
    return snappy_uncompressed_length((const char *)block.at, block.size_bytes, bytes_out) == SNAPPY_OK;
}

size_t codec__snappy_bound(struct base_slice in, size_t limit_bytes)
{
    size_t bytes;
    if (!is_framed(in)) { return opened_bytes(in, &bytes) ? base_min_size(limit_bytes, bytes) : 0; }
    size_t sum = 0;
    struct base_slice block;
    while (sum < limit_bytes && next_block(&in, &block) == CODEC_OK && block.size_bytes > 0) {
        if (!opened_bytes(block, &bytes)) { break; }
        sum += bytes; /* a length is at most 2^32, so the sum stays far from wrapping below the limit */
    }
    return base_min_size(limit_bytes, sum);
}

static enum codec_rc open_block(struct base_slice block, struct codec__out *out)
{
    size_t bytes;
    if (!opened_bytes(block, &bytes)) { return CODEC_BAD; }
    if (bytes > codec__room(out)) { return CODEC_TOO_LARGE; }
    uint8_t nothing[1];
    char *at = out->at == NULL ? (char *)nothing : (char *)out->at + out->used_bytes;
    if (snappy_uncompress((const char *)block.at, block.size_bytes, at, &bytes) != SNAPPY_OK) { return CODEC_BAD; }
    out->used_bytes += bytes;
    return CODEC_OK;
}

enum codec_rc codec__snappy_open(struct base_slice in, struct codec__out *out)
{
    if (!is_framed(in)) { return open_block(in, out); }
    for (;;) {
        struct base_slice block;
        enum codec_rc rc = next_block(&in, &block);
        if (rc != CODEC_OK) { return rc; }
        if (block.size_bytes == 0) { return CODEC_OK; }
        rc = open_block(block, out);
        if (rc != CODEC_OK) { return rc; }
    }
}

/* The library refuses an output smaller than its worst case, so that a block goes to scratch first. */
size_t codec__snappy_compress_scratch(void) { return snappy_max_compressed_length(BLOCK_BYTES); }

enum codec_rc codec__snappy_compress(struct base_slice in, struct codec_scratch scratch, struct codec__out *out)
{
    if (codec__room(out) < FRAME_HEADER_BYTES) { return CODEC_TOO_LARGE; }
    memcpy(out->at, magic, sizeof magic);
    base_put_u32(out->at + 8, FRAME_VERSION);
    base_put_u32(out->at + 12, FRAME_VERSION);
    out->used_bytes = FRAME_HEADER_BYTES;
    while (in.size_bytes > 0) {
        size_t block_bytes = base_min_size(in.size_bytes, BLOCK_BYTES);
        size_t packed_bytes = scratch.size_bytes;
        snappy_status status = snappy_compress((const char *)in.at, block_bytes, scratch.at, &packed_bytes);
        CHECK(status == SNAPPY_OK); /* scratch has room for the worst case */
        if (codec__room(out) < 4 || codec__room(out) - 4 < packed_bytes) { return CODEC_TOO_LARGE; }
        base_put_u32(out->at + out->used_bytes, (uint32_t)packed_bytes);
        memcpy(out->at + out->used_bytes + 4, scratch.at, packed_bytes);
        out->used_bytes += 4 + packed_bytes;
        skip(&in, block_bytes);
    }
    return CODEC_OK;
}

size_t codec__snappy_compress_bound(size_t in_bytes)
{
    size_t blocks = in_bytes / BLOCK_BYTES + 1;
    return FRAME_HEADER_BYTES + blocks * (4 + snappy_max_compressed_length(0)) + in_bytes + in_bytes / 6;
}
