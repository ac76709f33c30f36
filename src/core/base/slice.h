/* slice.h: bytes that somebody else owns.
 *
 * Room    core/base.
 * Owns    nothing: a slice is a loan, and the name of the field or parameter says how long it lasts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include "base/check.h"

#include <string.h>

struct base_slice {
    const uint8_t *at; /* may be NULL when size_bytes is 0 */
    size_t size_bytes;
};

static inline struct base_slice base_slice_of(const void *at, size_t size_bytes)
{
    return (struct base_slice){.at = at, .size_bytes = size_bytes};
}

static inline struct base_slice base_slice_text(const char *text) { return base_slice_of(text, strlen(text)); }

static inline bool base_slice_equal(struct base_slice a, struct base_slice b)
{
    return a.size_bytes == b.size_bytes && (a.size_bytes == 0 || memcmp(a.at, b.at, a.size_bytes) == 0);
}

/* Bytewise order, shorter first on a common prefix: -1, 0, +1. */
static inline int base_slice_compare(struct base_slice a, struct base_slice b)
{
    size_t common = a.size_bytes < b.size_bytes ? a.size_bytes : b.size_bytes;
    int order = common == 0 ? 0 : memcmp(a.at, b.at, common);
    if (order != 0) { return order < 0 ? -1 : 1; }
    return a.size_bytes == b.size_bytes ? 0 : (a.size_bytes < b.size_bytes ? -1 : 1);
}

/* What stands before the last `mark` (an address may have other colons than the one before its port), and after it. False: there is
 * none. */
static inline bool base_slice_split_last(struct base_slice words, uint8_t mark, struct base_slice *before_out,
                                         struct base_slice *after_out)
{
    size_t end = words.size_bytes;
    while (end > 0 && words.at[end - 1] != mark) { end -= 1; }
    if (end == 0) { return false; }
    *before_out = base_slice_of(words.at, end - 1);
    *after_out = base_slice_of(words.at + end, words.size_bytes - end);
    return true;
}

/* Takes what stands before the next comma off a list, and the comma too; the last item when there is none. */
static inline struct base_slice base_slice_take_item(struct base_slice *list)
{
    size_t bytes = 0;
    while (bytes < list->size_bytes && list->at[bytes] != ',') { bytes += 1; }
    size_t skip = bytes == list->size_bytes ? bytes : bytes + 1;
    struct base_slice item = base_slice_of(list->at, bytes);
    *list = base_slice_of(list->at + skip, list->size_bytes - skip);
    return item;
}

/* Big-endian loads and stores. The caller has checked that the bytes are there. */
static inline uint16_t base_get_u16(const uint8_t *b) { return (uint16_t)((uint32_t)b[0] << 8 | b[1]); }
static inline uint32_t base_get_u32(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}
static inline uint64_t base_get_u64(const uint8_t *b) { return (uint64_t)base_get_u32(b) << 32 | base_get_u32(b + 4); }
static inline void base_put_u16(uint8_t *b, uint16_t v)
{
    b[0] = (uint8_t)(v >> 8);
    b[1] = (uint8_t)v;
}
static inline void base_put_u32(uint8_t *b, uint32_t v)
{
    base_put_u16(b, (uint16_t)(v >> 16));
    base_put_u16(b + 2, (uint16_t)v);
}
static inline void base_put_u64(uint8_t *b, uint64_t v)
{
    base_put_u32(b, (uint32_t)(v >> 32));
    base_put_u32(b + 4, (uint32_t)v);
}

#endif
