/* codec.h: CRC-32C and the compressions of Kafka, in memory that the caller hands over.
 *
 * Room    codec: pure, though the work is done by foreign libraries (isa-l, zlib, snappy, lz4, zstd). Uses base.
 * Owns    nothing. Input and output are loans for the call; scratch is the call's, contents undefined afterwards.
 * Limits  the output buffer is the limit: nothing is written past it. Memory beyond `scratch` is taken by encoders only:
 *         libsnappy's table for a block of 32 KiB, and liblz4's from level 10 on (both some 64 KiB, given back at once).
 * Sizes   no slice may be larger than CODEC_BYTES_MAX; a larger one is CODEC_TOO_LARGE.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CODEC_CODEC_H
#define CODEC_CODEC_H

#include "base/slice.h"

/* The numbers are those of a record batch's attributes, bits 0 to 2. */
enum codec_kind { CODEC_NONE = 0, CODEC_GZIP = 1, CODEC_SNAPPY = 2, CODEC_LZ4 = 3, CODEC_ZSTD = 4 };
#define CODEC_KIND_COUNT 5

enum codec_rc {
    CODEC_OK = 0,
    CODEC_BAD = 1,       /* the input is not what it claims to be, or is cut */
    CODEC_TOO_LARGE = 2, /* the output does not fit; what is in the buffer is undefined */
    CODEC_SCRATCH = 3,   /* less scratch than asked for: nothing was done */
};

#define CODEC_BYTES_MAX     ((size_t)0x40000000)
#define CODEC_SCRATCH_ALIGN ((size_t)16)
#define CODEC_LEVEL_DEFAULT INT32_MIN /* gzip 6, zstd 3, lz4 fast: as Kafka's defaults behave */

struct codec_scratch {
    void *at; /* aligned to CODEC_SCRATCH_ALIGN; may be NULL when size_bytes is 0 */
    size_t size_bytes;
};

static inline bool codec_is_known(uint32_t kind) { return kind < CODEC_KIND_COUNT; }

/* CRC-32C (Castagnoli) as Kafka and iSCSI store it. `crc` is 0 at first, or the result for the bytes before. */
uint32_t codec_crc32c(uint32_t crc, const void *at, size_t size_bytes);

/* Scratch that codec_decompress needs; 0 for some kinds. */
size_t codec_decompress_scratch_bytes(enum codec_kind kind);

/* An upper bound of what `in` opens to, from its lengths alone, and never more than `limit_bytes`: a buffer of this size is
 * as good as one of `limit_bytes` (input that lies may be CODEC_TOO_LARGE where it would be CODEC_BAD). Reads the block
 * lengths of `in`, trusts nothing. */
size_t codec_decompressed_bound_bytes(enum codec_kind kind, struct base_slice in, size_t limit_bytes);

/* Opens all of `in`: gzip members and lz4 or zstd frames in a row, snappy raw or in snappy-java's framing.
 * Needs   a known kind.
 * Fails   see codec_rc; out_bytes_out is then untouched. */
MUST_USE
enum codec_rc codec_decompress(enum codec_kind kind, struct base_slice in, struct codec_scratch scratch, void *out,
                               size_t out_max_bytes, size_t *out_bytes_out);

/* Levels that a kind has: gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22; other kinds have the default only. */
bool codec_level_is_known(enum codec_kind kind, int32_t level);
size_t codec_compress_scratch_bytes(enum codec_kind kind, int32_t level, size_t in_bytes);
/* An output buffer of this size is always enough. */
size_t codec_compress_bound_bytes(enum codec_kind kind, size_t in_bytes);

/* Compresses `in` in the form that Kafka's Java client writes: one gzip member; snappy-java framing, blocks of 32 KiB; one
 * lz4 frame of independent 64 KiB blocks; one zstd frame.
 * Needs   a known kind, and a level it has.
 * Fails   CODEC_TOO_LARGE, CODEC_SCRATCH. */
MUST_USE
enum codec_rc codec_compress(enum codec_kind kind, int32_t level, struct base_slice in, struct codec_scratch scratch,
                             void *out, size_t out_max_bytes, size_t *out_bytes_out);

#endif
