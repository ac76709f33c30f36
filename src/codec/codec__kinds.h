/* codec__kinds.h: one set of functions a kind; private to codec. The contracts are those of codec.h, slices already
 * limited to CODEC_BYTES_MAX and scratch already measured.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CODEC_CODEC__KINDS_H
#define CODEC_CODEC__KINDS_H

#include "codec/codec.h"

#define CODEC__GZIP_OPEN_BYTES     ((size_t)64 * 1024)  /* inflate: 7 KiB of state and a window of 32 KiB */
#define CODEC__GZIP_COMPRESS_BYTES ((size_t)320 * 1024) /* deflate: 6 KiB of state, 256 KiB of window and tables */

struct codec__out {
    uint8_t *at;
    size_t max_bytes;
    size_t used_bytes;
};

static inline size_t codec__room(const struct codec__out *out) { return out->max_bytes - out->used_bytes; }

size_t codec__gzip_bound(struct base_slice in, size_t limit_bytes);
enum codec_rc codec__gzip_open(struct base_slice in, struct codec_scratch scratch, struct codec__out *out);
enum codec_rc codec__gzip_compress(int32_t level, struct base_slice in, struct codec_scratch scratch,
                                   struct codec__out *out);
size_t codec__gzip_compress_bound(size_t in_bytes);

size_t codec__snappy_bound(struct base_slice in, size_t limit_bytes);
enum codec_rc codec__snappy_open(struct base_slice in, struct codec__out *out);
enum codec_rc codec__snappy_compress(struct base_slice in, struct codec_scratch scratch, struct codec__out *out);
size_t codec__snappy_compress_scratch(void);
size_t codec__snappy_compress_bound(size_t in_bytes);

size_t codec__lz4_bound(struct base_slice in, size_t limit_bytes);
enum codec_rc codec__lz4_open(struct base_slice in, struct codec__out *out);
enum codec_rc codec__lz4_compress(int32_t level, struct base_slice in, struct codec_scratch scratch,
                                  struct codec__out *out);
size_t codec__lz4_compress_scratch(int32_t level);
size_t codec__lz4_compress_bound(size_t in_bytes);

size_t codec__zstd_bound(struct base_slice in, size_t limit_bytes);
enum codec_rc codec__zstd_open(struct base_slice in, struct codec_scratch scratch, struct codec__out *out);
size_t codec__zstd_open_scratch(void);
enum codec_rc codec__zstd_compress(int32_t level, struct base_slice in, struct codec_scratch scratch,
                                   struct codec__out *out);
size_t codec__zstd_compress_scratch(int32_t level, size_t in_bytes);
size_t codec__zstd_compress_bound(size_t in_bytes);

#endif
