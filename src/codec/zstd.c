/* zstd.c: libzstd in static workspaces; the whole output is at hand, so no window is allocated whatever a frame asks for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define ZSTD_STATIC_LINKING_ONLY /* the static workspaces; exported by the shared library */

#include "base/arith.h"
#include "codec/codec__kinds.h"

#include <zstd.h>
#include <zstd_errors.h>

static enum codec_rc rc_of(size_t result)
{
    switch ((unsigned)ZSTD_getErrorCode(result)) {
    case ZSTD_error_no_error: return CODEC_OK;
    case ZSTD_error_dstSize_tooSmall: return CODEC_TOO_LARGE;
    case ZSTD_error_memory_allocation: return CODEC_SCRATCH;
    default: return CODEC_BAD;
    }
}

size_t codec__zstd_bound(struct base_slice in, size_t limit_bytes)
{
    unsigned long long bound = ZSTD_decompressBound(in.at, in.size_bytes);
    if (bound == ZSTD_CONTENTSIZE_ERROR) { return 0; }
    return bound < limit_bytes ? (size_t)bound : limit_bytes;
}

size_t codec__zstd_open_scratch(void) { return ZSTD_estimateDCtxSize(); }

enum codec_rc codec__zstd_open(struct base_slice in, struct codec_scratch scratch, struct codec__out *out)
{
    if (in.size_bytes == 0) { return CODEC_BAD; }
    ZSTD_DCtx *context = ZSTD_initStaticDCtx(scratch.at, scratch.size_bytes);
    if (context == NULL) { return CODEC_SCRATCH; }
    size_t result = ZSTD_decompressDCtx(context, out->at, out->max_bytes, in.at, in.size_bytes);
    if (ZSTD_isError(result) == 0) { out->used_bytes = result; }
    return rc_of(result);
}

static int level_of(int32_t level) { return level == CODEC_LEVEL_DEFAULT ? ZSTD_CLEVEL_DEFAULT : (int)level; }

size_t codec__zstd_compress_scratch(int32_t level, size_t in_bytes)
{
    /* Tables no larger than the input is worth: what ZSTD_compressCCtx picks for that size. */
    return ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(level_of(level), in_bytes, 0));
}

enum codec_rc codec__zstd_compress(int32_t level, struct base_slice in, struct codec_scratch scratch,
                                   struct codec__out *out)
{
    ZSTD_CCtx *context = ZSTD_initStaticCCtx(scratch.at, scratch.size_bytes);
    if (context == NULL) { return CODEC_SCRATCH; }
    size_t result = ZSTD_compressCCtx(context, out->at, out->max_bytes, in.at, in.size_bytes, level_of(level));
    if (ZSTD_isError(result) == 0) { out->used_bytes = result; }
    return rc_of(result);
}

size_t codec__zstd_compress_bound(size_t in_bytes) { return ZSTD_compressBound(in_bytes); }
