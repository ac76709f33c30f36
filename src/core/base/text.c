/* text.c: see text.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/text.h"

#include "base/arith.h"

void base_text_init(struct base_text *text, char *at, size_t size_bytes)
{
    CHECK(size_bytes > 0);
    *text = (struct base_text){.at = at, .size_bytes = size_bytes};
    at[0] = '\0';
}

void base_text_add_slice(struct base_text *text, struct base_slice words)
{
    size_t room = text->size_bytes - 1 - text->used_bytes;
    size_t fitting = base_min_size(room, words.size_bytes);
    if (fitting < words.size_bytes) { text->is_cut = true; }
    if (fitting > 0) { memcpy(text->at + text->used_bytes, words.at, fitting); }
    text->used_bytes += fitting;
    text->at[text->used_bytes] = '\0';
}

void base_text_add(struct base_text *text, const char *words) { base_text_add_slice(text, base_slice_text(words)); }

static void add_digits(struct base_text *text, uint64_t value, unsigned base, unsigned digits_min)
{
    char digits[64];
    size_t first = sizeof digits;
    CHECK(digits_min <= sizeof digits);
    do {
        first -= 1;
        digits[first] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    while (sizeof digits - first < digits_min) {
        first -= 1;
        digits[first] = '0';
    }
    base_text_add_slice(text, base_slice_of(digits + first, sizeof digits - first));
}

void base_text_add_i64(struct base_text *text, int64_t value)
{
    if (value < 0) { base_text_add(text, "-"); }
    add_digits(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10, 1);
}

void base_text_add_u64_padded(struct base_text *text, uint64_t value, unsigned digits_min)
{
    add_digits(text, value, 10, digits_min);
}

void base_text_add_hex(struct base_text *text, uint64_t value, unsigned digits) { add_digits(text, value, 16, digits); }

void base_text_add_uuid(struct base_text *text, struct base_uuid id)
{
    char words[23];
    base_uuid_to_text(id, words);
    base_text_add(text, words);
}

enum base_rc base_text_parse_i64(struct base_slice words, int64_t *value_out)
{
    size_t i = 0;
    bool is_negative = words.size_bytes > 0 && words.at[0] == '-';
    if (is_negative) { i = 1; }
    if (i == words.size_bytes) { return BASE_BAD; }
    uint64_t limit = is_negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t value = 0;
    for (; i < words.size_bytes; i++) {
        if (words.at[i] < '0' || words.at[i] > '9') { return BASE_BAD; }
        uint64_t digit = (uint64_t)(words.at[i] - '0');
        if (value > (limit - digit) / 10) { return BASE_BAD; }
        value = value * 10 + digit;
    }
    *value_out = is_negative ? (int64_t)(0 - value) : (int64_t)value;
    return BASE_OK;
}
