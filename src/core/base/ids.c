/* ids.c: see ids.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/ids.h"

#include "base/map.h"
#include "base/slice.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

uint64_t base_part_hash(struct base_part part)
{
    uint8_t bytes[20];
    memcpy(bytes, part.topic.b, 16);
    base_put_u32(bytes + 16, (uint32_t)part.index);
    return base_hash_bytes(bytes, sizeof bytes, 0);
}

void base_uuid_to_text(struct base_uuid id, char text_out[23])
{
    uint32_t bits = 0;
    unsigned bits_count = 0;
    size_t used = 0;
    for (size_t i = 0; i < sizeof id.b; i++) {
        bits = bits << 8 | id.b[i];
        bits_count += 8;
        while (bits_count >= 6) {
            bits_count -= 6;
            text_out[used++] = letters[bits >> bits_count & 63];
        }
    }
    text_out[used++] = letters[bits << (6 - bits_count) & 63]; /* 128 = 21 x 6 + 2 */
    text_out[used] = '\0';
    CHECK(used == 22);
}

static int letter_value(char c)
{
    if (c >= 'A' && c <= 'Z') { return c - 'A'; }
    if (c >= 'a' && c <= 'z') { return c - 'a' + 26; }
    if (c >= '0' && c <= '9') { return c - '0' + 52; }
    if (c == '-') { return 62; }
    if (c == '_') { return 63; }
    return -1;
}

enum base_rc base_uuid_from_text(const char *text, size_t text_bytes, struct base_uuid *id_out)
{
    if (text_bytes != 22) { return BASE_BAD; }
    struct base_uuid id = {{0}};
    uint32_t bits = 0;
    unsigned bits_count = 0;
    size_t used = 0;
    for (size_t i = 0; i < text_bytes; i++) {
        int value = letter_value(text[i]);
        if (value < 0) { return BASE_BAD; }
        bits = bits << 6 | (uint32_t)value;
        bits_count += 6;
        if (bits_count >= 8) {
            bits_count -= 8;
            id.b[used++] = (uint8_t)(bits >> bits_count);
        }
    }
    if ((bits & 15) != 0) { return BASE_BAD; } /* left-over bits: not what to_text writes, so two texts for one id */
    CHECK(used == sizeof id.b);
    *id_out = id;
    return BASE_OK;
}
