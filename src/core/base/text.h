/* text.h: short texts (paths, log lines, messages) built in a buffer that somebody hands over; cut, never overrun.
 *
 * Room    core/base.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/ids.h"
#include "base/slice.h"

struct base_text {
    char *at;
    size_t size_bytes; /* room, the NUL included */
    size_t used_bytes; /* without the NUL; the text always ends with one */
    bool is_cut;       /* something did not fit */
};

void base_text_init(struct base_text *text, char *at, size_t size_bytes); /* size_bytes > 0 */
void base_text_add(struct base_text *text, const char *words);
void base_text_add_slice(struct base_text *text, struct base_slice words);
void base_text_add_i64(struct base_text *text, int64_t value);
void base_text_add_u64_padded(struct base_text *text, uint64_t value, unsigned digits_min); /* 00000000000000000042 */
void base_text_add_hex(struct base_text *text, uint64_t value, unsigned digits);
void base_text_add_uuid(struct base_text *text, struct base_uuid id); /* Kafka's form */
static inline struct base_slice base_text_slice(const struct base_text *text)
{
    return base_slice_of(text->at, text->used_bytes);
}

/* Decimal, with an optional minus sign; nothing else around it. BASE_BAD otherwise or out of range. */
MUST_USE
enum base_rc base_text_parse_i64(struct base_slice words, int64_t *value_out);

#endif
