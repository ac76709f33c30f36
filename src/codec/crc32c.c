/* crc32c.c: see codec.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "codec/codec.h"

#include <isa-l/crc.h>

#define PIECE_BYTES ((size_t)1 << 30) /* the library counts in int */

uint32_t codec_crc32c(uint32_t crc, const void *at, size_t size_bytes)
{
    /* The library neither inverts at the start nor at the end, and takes a pointer to non-const that it only reads. */
    const uint8_t *b = at;
    uint32_t state = ~crc;
    while (size_bytes > 0) {
        size_t piece_bytes = size_bytes < PIECE_BYTES ? size_bytes : PIECE_BYTES;
        state = crc32_iscsi((unsigned char *)(uintptr_t)b, (int)piece_bytes, state);
        b += piece_bytes;
        size_bytes -= piece_bytes;
    }
    return ~state;
}
