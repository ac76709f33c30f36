/* gzip.c: zlib, its memory carved from the caller's scratch.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define ZLIB_CONST /* zlib then promises to leave its input alone */

#include "base/arena.h"
#include "base/arith.h"
#include "codec/codec__kinds.h"

#include <zlib.h>

#define WINDOW_BITS    (15 + 16) /* the largest window, and a gzip header */
#define MEMORY_LEVEL   8
#define RATIO_MAX      1032 /* deflate: 258 bytes from two bits */
#define MEMBER_BYTES   18   /* the shortest gzip member's header and trailer */
#define UNSTORED_BYTES 64   /* what a few more input bytes can add, generously */

static void *take_memory(void *arena, unsigned count, unsigned item_bytes)
{
    return base_arena_take_array(arena, count, item_bytes);
}

/* The whole scratch is dropped at the end of the call. */
static void give_memory(void *arena, void *memory)
{
    (void)arena;
    (void)memory;
}

size_t codec__gzip_bound(struct base_slice in, size_t limit_bytes)
{
    return base_min_size(limit_bytes, in.size_bytes * RATIO_MAX + UNSTORED_BYTES);
}

/* One member; *in begins after it. */
static enum codec_rc open_member(z_stream *stream, struct base_slice *in, struct codec__out *out)
{
    stream->next_in = in->at;
    stream->avail_in = (uInt)in->size_bytes;
    stream->next_out = out->at + out->used_bytes;
    stream->avail_out = (uInt)codec__room(out);
    int rc = inflate(stream, Z_FINISH);
    bool is_full = stream->avail_out == 0;
    in->at += in->size_bytes - stream->avail_in;
    in->size_bytes = stream->avail_in;
    out->used_bytes = out->max_bytes - stream->avail_out;
    if (rc == Z_STREAM_END) { return CODEC_OK; }
    if (rc == Z_MEM_ERROR) { return CODEC_SCRATCH; }
    if (rc == Z_BUF_ERROR || rc == Z_OK) { return is_full ? CODEC_TOO_LARGE : CODEC_BAD; }
    return CODEC_BAD;
}

enum codec_rc codec__gzip_open(struct base_slice in, struct codec_scratch scratch, struct codec__out *out)
{
    struct base_arena arena;
    base_arena_init(&arena, scratch.at, scratch.size_bytes);
    z_stream stream = {.zalloc = take_memory, .zfree = give_memory, .opaque = &arena};
    int rc = inflateInit2(&stream, WINDOW_BITS);
    if (rc != Z_OK) { return CODEC_SCRATCH; }
    do {
        enum codec_rc member_rc = open_member(&stream, &in, out);
        if (member_rc != CODEC_OK) { return member_rc; }
        rc = inflateReset(&stream);
        CHECK(rc == Z_OK);
    } while (in.size_bytes > 0);
    return CODEC_OK;
}

enum codec_rc codec__gzip_compress(int32_t level, struct base_slice in, struct codec_scratch scratch,
                                   struct codec__out *out)
{
    struct base_arena arena;
    base_arena_init(&arena, scratch.at, scratch.size_bytes);
    z_stream stream = {.zalloc = take_memory, .zfree = give_memory, .opaque = &arena};
    int zlib_level = level == CODEC_LEVEL_DEFAULT ? Z_DEFAULT_COMPRESSION : (int)level;
    if (deflateInit2(&stream, zlib_level, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
        return CODEC_SCRATCH;
    }
    stream.next_in = in.at;
    stream.avail_in = (uInt)in.size_bytes;
    stream.next_out = out->at;
    stream.avail_out = (uInt)out->max_bytes;
    int rc = deflate(&stream, Z_FINISH);
    out->used_bytes = out->max_bytes - stream.avail_out;
    return rc == Z_STREAM_END ? CODEC_OK : CODEC_TOO_LARGE;
}

size_t codec__gzip_compress_bound(size_t in_bytes) { return compressBound(in_bytes) + MEMBER_BYTES; }
