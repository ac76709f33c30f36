/* codec.c: the one place that tells the kinds apart.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/codec.h"

#include "base/arith.h"
#include "codec/codec__kinds.h"

/* Libraries compute with the pointers they get, also for no bytes: they get real ones. */
static struct base_slice never_null(struct base_slice in)
{
    static const uint8_t nothing[1] = {0};
    return in.at == NULL ? base_slice_of(nothing, 0) : in;
}

static enum codec_rc copy(struct base_slice in, struct codec__out *out)
{
    if (in.size_bytes > out->max_bytes) { return CODEC_TOO_LARGE; }
    if (in.size_bytes > 0) { memcpy(out->at, in.at, in.size_bytes); }
    out->used_bytes = in.size_bytes;
    return CODEC_OK;
}

size_t codec_decompress_scratch_bytes(enum codec_kind kind)
{
    switch (kind) {
    case CODEC_NONE:
    case CODEC_SNAPPY:
    case CODEC_LZ4: return 0;
    case CODEC_GZIP: return CODEC__GZIP_OPEN_BYTES;
    case CODEC_ZSTD: return codec__zstd_open_scratch();
    }
    UNREACHABLE();
}

size_t codec_decompressed_bound_bytes(enum codec_kind kind, struct base_slice in, size_t limit_bytes)
{
    limit_bytes = base_min_size(limit_bytes, CODEC_BYTES_MAX);
    if (in.size_bytes > CODEC_BYTES_MAX) { return limit_bytes; }
    in = never_null(in);
    switch (kind) {
    case CODEC_NONE: return base_min_size(limit_bytes, in.size_bytes);
    case CODEC_GZIP: return codec__gzip_bound(in, limit_bytes);
    case CODEC_SNAPPY: return codec__snappy_bound(in, limit_bytes);
    case CODEC_LZ4: return codec__lz4_bound(in, limit_bytes);
    case CODEC_ZSTD: return codec__zstd_bound(in, limit_bytes);
    }
    UNREACHABLE();
}

enum codec_rc codec_decompress(enum codec_kind kind, struct base_slice in, struct codec_scratch scratch, void *out,
                               size_t out_max_bytes, size_t *out_bytes_out)
{
    if (in.size_bytes > CODEC_BYTES_MAX) { return CODEC_TOO_LARGE; }
    if (scratch.size_bytes < codec_decompress_scratch_bytes(kind)) { return CODEC_SCRATCH; }
    CHECK((uintptr_t)scratch.at % CODEC_SCRATCH_ALIGN == 0);
    uint8_t nothing[1];
    struct codec__out to = {.at = out, .max_bytes = base_min_size(out_max_bytes, CODEC_BYTES_MAX)};
    if (out == NULL) { to = (struct codec__out){.at = nothing}; }
    in = never_null(in);
    enum codec_rc rc = CODEC_BAD;
    switch (kind) {
    case CODEC_NONE: rc = copy(in, &to); break;
    case CODEC_GZIP: rc = codec__gzip_open(in, scratch, &to); break;
    case CODEC_SNAPPY: rc = codec__snappy_open(in, &to); break;
    case CODEC_LZ4: rc = codec__lz4_open(in, &to); break;
    case CODEC_ZSTD: rc = codec__zstd_open(in, scratch, &to); break;
    }
    CHECK(to.used_bytes <= to.max_bytes);
    if (rc == CODEC_OK) { *out_bytes_out = to.used_bytes; }
    return rc;
}

bool codec_level_is_known(enum codec_kind kind, int32_t level)
{
    if (level == CODEC_LEVEL_DEFAULT) { return true; }
    switch (kind) {
    case CODEC_NONE:
    case CODEC_SNAPPY: return false;
    case CODEC_GZIP: return level >= 1 && level <= 9;
    case CODEC_LZ4: return level >= 1 && level <= 17;
    case CODEC_ZSTD: return level >= -131072 && level <= 22;
    }
    UNREACHABLE();
}

size_t codec_compress_scratch_bytes(enum codec_kind kind, int32_t level, size_t in_bytes)
{
    CHECK(codec_level_is_known(kind, level));
    switch (kind) {
    case CODEC_NONE: return 0;
    case CODEC_GZIP: return CODEC__GZIP_COMPRESS_BYTES;
    case CODEC_SNAPPY: return codec__snappy_compress_scratch();
    case CODEC_LZ4: return codec__lz4_compress_scratch(level);
    case CODEC_ZSTD: return codec__zstd_compress_scratch(level, in_bytes);
    }
    UNREACHABLE();
}

size_t codec_compress_bound_bytes(enum codec_kind kind, size_t in_bytes)
{
    in_bytes = base_min_size(in_bytes, CODEC_BYTES_MAX);
    switch (kind) {
    case CODEC_NONE: return in_bytes;
    case CODEC_GZIP: return codec__gzip_compress_bound(in_bytes);
    case CODEC_SNAPPY: return codec__snappy_compress_bound(in_bytes);
    case CODEC_LZ4: return codec__lz4_compress_bound(in_bytes);
    case CODEC_ZSTD: return codec__zstd_compress_bound(in_bytes);
    }
    UNREACHABLE();
}

enum codec_rc codec_compress(enum codec_kind kind, int32_t level, struct base_slice in, struct codec_scratch scratch,
                             void *out, size_t out_max_bytes, size_t *out_bytes_out)
{
    if (in.size_bytes > CODEC_BYTES_MAX) { return CODEC_TOO_LARGE; }
    if (scratch.size_bytes < codec_compress_scratch_bytes(kind, level, in.size_bytes)) { return CODEC_SCRATCH; }
    CHECK((uintptr_t)scratch.at % CODEC_SCRATCH_ALIGN == 0);
    uint8_t nothing[1];
    struct codec__out to = {.at = out, .max_bytes = base_min_size(out_max_bytes, 2 * CODEC_BYTES_MAX)};
    if (out == NULL) { to = (struct codec__out){.at = nothing}; }
    in = never_null(in);
    enum codec_rc rc = CODEC_BAD;
    switch (kind) {
    case CODEC_NONE: rc = copy(in, &to); break;
    case CODEC_GZIP: rc = codec__gzip_compress(level, in, scratch, &to); break;
    case CODEC_SNAPPY: rc = codec__snappy_compress(in, scratch, &to); break;
    case CODEC_LZ4: rc = codec__lz4_compress(level, in, scratch, &to); break;
    case CODEC_ZSTD: rc = codec__zstd_compress(level, in, scratch, &to); break;
    }
    CHECK(rc != CODEC_BAD);
    CHECK(to.used_bytes <= to.max_bytes);
    if (rc == CODEC_OK) { *out_bytes_out = to.used_bytes; }
    return rc;
}
