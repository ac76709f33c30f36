/* json.c: JSON out; one object a line is the caller's business.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__command.h"

#include <string.h>

void app_json_text(FILE *file, struct base_slice words)
{
    (void)fputc('"', file); /* errors of the stream are looked at once, at the end */
    for (size_t i = 0; i < words.size_bytes; i++) {
        uint8_t c = words.at[i];
        if (c == '"' || c == '\\') {
            (void)fprintf(file, "\\%c", c);
        } else if (c == '\n') {
            (void)fputs("\\n", file);
        } else if (c < 0x20 || c == 0x7F) {
            (void)fprintf(file, "\\u%04x", c);
        } else {
            (void)fputc(c, file);
        }
    }
    (void)fputc('"', file);
}

/* RFC 3629: shortest form, no surrogates, up to U+10FFFF. */
size_t app_rune_bytes(struct base_slice words)
{
    uint8_t first = words.at[0];
    size_t count = first < 0x80                      ? 1
                   : (first >= 0xC2 && first < 0xE0) ? 2
                   : (first >> 4 == 0xE)             ? 3
                   : (first >= 0xF0 && first < 0xF5) ? 4
                                                     : 0;
    if (count == 0 || count > words.size_bytes) { return 0; }
    for (size_t i = 1; i < count; i++) {
        if ((words.at[i] & 0xC0U) != 0x80) { return 0; }
    }
    if (first == 0xE0 && words.at[1] < 0xA0) { return 0; }
    if (first == 0xED && words.at[1] >= 0xA0) { return 0; }
    if (first == 0xF0 && words.at[1] < 0x90) { return 0; }
    if (first == 0xF4 && words.at[1] >= 0x90) { return 0; }
    return count;
}

bool app_is_utf8(struct base_slice words)
{
    while (words.size_bytes > 0) {
        size_t count = app_rune_bytes(words);
        if (count == 0) { return false; }
        words.at += count;
        words.size_bytes -= count;
    }
    return true;
}

/* How many bytes of a control character are here: C0, DEL, or C1 as UTF-8 has it. */
static size_t control_bytes(const char *at)
{
    uint8_t first = (uint8_t)at[0];
    uint8_t next = first == 0 ? 0 : (uint8_t)at[1];
    if (first < 0x20 || first == 0x7F) { return 1; }
    return first == 0xC2 && next >= 0x80 && next < 0xA0 ? 2 : 0;
}

const char *app_shown(const char *words)
{
    static const char digits[] = "0123456789abcdef";
    size_t length = strlen(words);
    bool is_plain = true;
    for (size_t i = 0; i < length; i++) { is_plain = is_plain && control_bytes(words + i) == 0; }
    if (is_plain) { return words; }
    char *shown = app_keep(4 * length + 1);
    if (shown == NULL) { return "?"; }
    char *to = shown;
    size_t hidden_end = 0;
    for (size_t i = 0; i < length; i++) {
        if (i >= hidden_end) { hidden_end = i + control_bytes(words + i); }
        if (i >= hidden_end) {
            *to++ = words[i];
            continue;
        }
        *to++ = '\\';
        *to++ = 'x';
        *to++ = digits[(uint8_t)words[i] >> 4];
        *to++ = digits[(uint8_t)words[i] & 15];
    }
    return shown;
}

static void put_base64(FILE *file, struct base_slice bytes)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.size_bytes; i += 3) {
        size_t left = bytes.size_bytes - i;
        uint32_t group = (uint32_t)bytes.at[i] << 16;
        if (left > 1) { group |= (uint32_t)bytes.at[i + 1] << 8; }
        if (left > 2) { group |= bytes.at[i + 2]; }
        (void)fputc(letters[group >> 18], file);
        (void)fputc(letters[group >> 12 & 63], file);
        (void)fputc(left > 1 ? letters[group >> 6 & 63] : '=', file);
        (void)fputc(left > 2 ? letters[group & 63] : '=', file);
    }
}

void app_json_value(FILE *file, const char *name, struct rec_value value)
{
    if (value.is_null) {
        (void)fprintf(file, "\"%s\":null", name);
    } else if (app_is_utf8(value.bytes)) {
        (void)fprintf(file, "\"%s\":", name);
        app_json_text(file, value.bytes);
    } else {
        (void)fprintf(file, "\"%s_base64\":\"", name);
        put_base64(file, value.bytes);
        (void)fputc('"', file);
    }
}
