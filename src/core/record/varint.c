/* varint.c: zigzag varints; see record.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "record/record.h"

/* The unsigned value; 0 bytes read: cut, or more than `bits` bits. */
static size_t get_unsigned(struct base_slice bytes, unsigned bits, uint64_t *value_out)
{
    uint64_t value = 0;
    unsigned shift = 0;
    for (size_t i = 0; i < bytes.size_bytes && shift < bits; i++) {
        uint8_t byte = bytes.at[i];
        uint64_t low = byte & 0x7f;
        if (bits - shift < 7 && low >> (bits - shift) != 0) { return 0; }
        value |= low << shift;
        if ((byte & 0x80) == 0) {
            *value_out = value;
            return i + 1;
        }
        shift += 7;
    }
    return 0;
}

static size_t put_unsigned(uint8_t *at, uint64_t value)
{
    size_t used = 0;
    while (value > 0x7f) {
        at[used++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    at[used++] = (uint8_t)value;
    return used;
}

static size_t unsigned_bytes(uint64_t value)
{
    size_t bytes = 1;
    for (; value > 0x7f; value >>= 7) { bytes += 1; }
    return bytes;
}

static uint64_t zigzag(int64_t value) { return value < 0 ? ~((uint64_t)value << 1) : (uint64_t)value << 1; }

static int64_t unzigzag(uint64_t value)
{
    return (value & 1) != 0 ? -(int64_t)(value >> 1) - 1 : (int64_t)(value >> 1);
}

size_t rec_varint_get(struct base_slice bytes, int32_t *value_out)
{
    uint64_t value;
    size_t used = get_unsigned(bytes, 32, &value);
    if (used > 0) { *value_out = (int32_t)unzigzag(value); }
    return used;
}

size_t rec_varlong_get(struct base_slice bytes, int64_t *value_out)
{
    uint64_t value;
    size_t used = get_unsigned(bytes, 64, &value);
    if (used > 0) { *value_out = unzigzag(value); }
    return used;
}

size_t rec_varint_put(uint8_t *at, int32_t value) { return put_unsigned(at, zigzag(value)); }
size_t rec_varlong_put(uint8_t *at, int64_t value) { return put_unsigned(at, zigzag(value)); }
size_t rec_varint_bytes(int32_t value) { return unsigned_bytes(zigzag(value)); }
size_t rec_varlong_bytes(int64_t value) { return unsigned_bytes(zigzag(value)); }
