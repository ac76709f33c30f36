/* record_reference.c: see record_reference.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "record_reference.h"

/* ---- the header of a batch ------------------------------------------------------------------------------------------------ */

static uint64_t number(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) { value = value * 256 + at[i]; }
    return value;
}

bool reference_batch(struct base_slice bytes, struct rec_batch *batch_out)
{
    if (bytes.size_bytes < 61) { return false; }
    const uint8_t *at = bytes.at;
    int64_t length = (int32_t)number(at + 8, 4); /* what comes after it */
    if (length < 49 || (size_t)length + 12 > bytes.size_bytes || at[16] != 2) { return false; }
    *batch_out = (struct rec_batch){
        .at = at,
        .size_bytes = (size_t)length + 12,
        .base_offset = (int64_t)number(at, 8),
        .leader_epoch = (int32_t)number(at + 12, 4),
        .crc = (uint32_t)number(at + 17, 4),
        .attributes = (uint16_t)number(at + 21, 2),
        .last_offset_delta = (int32_t)number(at + 23, 4),
        .base_timestamp_ms = (int64_t)number(at + 27, 8),
        .max_timestamp_ms = (int64_t)number(at + 35, 8),
        .producer_id = (int64_t)number(at + 43, 8),
        .producer_epoch = (int16_t)number(at + 51, 2),
        .base_sequence = (int32_t)number(at + 53, 4),
        .record_count = (int32_t)number(at + 57, 4),
    };
    if (batch_out->record_count < 0 || batch_out->last_offset_delta < 0 || batch_out->base_offset < 0) { return false; }
    return batch_out->base_offset <= INT64_MAX - 1 - batch_out->last_offset_delta;
}

/* ---- records -------------------------------------------------------------------------------------------------------------- */

struct bytes {
    const uint8_t *at;
    size_t left;
};

/* Zigzag, low seven bits first; no more than `bits`. */
static bool take_varint(struct bytes *bytes, unsigned bits, int64_t *value_out)
{
    uint64_t raw = 0;
    for (unsigned shift = 0; shift < bits + 6 && bytes->left > 0; shift += 7) {
        uint8_t byte = *bytes->at;
        bytes->at += 1;
        bytes->left -= 1;
        unsigned room = bits > shift ? bits - shift : 0;
        if (room < 7 && (byte & 127) >> room != 0) { return false; }
        raw |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *value_out = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return true;
        }
    }
    return false;
}

static bool take_bytes(struct bytes *bytes, int64_t count, struct bytes *taken_out)
{
    if (count < 0 || (uint64_t)count > bytes->left) { return false; }
    *taken_out = (struct bytes){bytes->at, (size_t)count};
    bytes->at += count;
    bytes->left -= (size_t)count;
    return true;
}

/* With a length before it; -1 is null. */
static bool take_value(struct bytes *bytes, bool may_be_null, bool *is_null_out)
{
    int64_t length;
    struct bytes taken;
    if (!take_varint(bytes, 32, &length)) { return false; }
    *is_null_out = length == -1;
    return (may_be_null && length == -1) || take_bytes(bytes, length, &taken);
}

static bool is_timestamp_bad(int64_t timestamp_ms, const struct rec_rules *rules)
{
    if (rules == NULL || rules->stamp == REC_LOG_APPEND_TIME || timestamp_ms == -1) { return false; }
    __int128 ahead = (__int128)timestamp_ms - rules->now_ms;
    return ahead > rules->after_max_ms || -ahead > rules->before_max_ms;
}

static bool read_one(const struct rec_batch *batch, struct bytes *bytes, const struct rec_rules *rules, int64_t *delta,
                     struct reference_records *said)
{
    struct bytes body;
    int64_t length;
    int64_t time_delta;
    int64_t headers;
    bool is_null;
    bool is_key_null;
    struct bytes attributes;
    if (!take_varint(bytes, 32, &length) || !take_bytes(bytes, length, &body)) { return false; }
    if (!take_bytes(&body, 1, &attributes) || !take_varint(&body, 64, &time_delta)) { return false; }
    int64_t before = *delta;
    if (!take_varint(&body, 32, delta) || !take_value(&body, true, &is_key_null) ||
        !take_value(&body, true, &is_null)) {
        return false;
    }
    if (!take_varint(&body, 32, &headers) || headers < 0) { return false; }
    for (int64_t i = 0; i < headers; i++) {
        if (!take_value(&body, false, &is_null) || !take_value(&body, true, &is_null)) { return false; }
    }
    if (body.left != 0 || *delta <= before || *delta > batch->last_offset_delta) { return false; }
    int64_t timestamp_ms = (batch->attributes & 8) != 0
                               ? batch->max_timestamp_ms
                               : (int64_t)((uint64_t)batch->base_timestamp_ms + (uint64_t)time_delta);
    if (said->count == 0) { said->first_delta = (int32_t)*delta; }
    if (said->count == 0 || timestamp_ms > said->max_timestamp_ms) {
        said->max_timestamp_ms = timestamp_ms;
        said->max_timestamp_delta = (int32_t)*delta;
    }
    said->is_dense = said->is_dense && *delta == said->count;
    said->has_bad_timestamp = said->has_bad_timestamp || is_timestamp_bad(timestamp_ms, rules);
    said->has_null_key = said->has_null_key || is_key_null;
    said->count += 1;
    return true;
}

static bool read_all(const struct rec_batch *batch, struct base_slice records, const struct rec_rules *rules,
                     struct reference_records *said)
{
    *said = (struct reference_records){.is_dense = true, .max_timestamp_ms = -1};
    struct bytes bytes = {records.at, records.size_bytes};
    int64_t delta = -1;
    while (said->count < batch->record_count) {
        if (!read_one(batch, &bytes, rules, &delta, said)) { return false; }
    }
    return bytes.left == 0;
}

bool reference_records(const struct rec_batch *batch, struct base_slice records, struct reference_records *said_out)
{
    return read_all(batch, records, NULL, said_out);
}

bool reference_validate(const struct rec_batch *batch, const struct rec_rules *rules, bool is_opened,
                        struct base_slice records, struct reference_records *said_out)
{
    unsigned codec = batch->attributes & 7;
    uint32_t crc = codec_crc32c(0, batch->at + 21, batch->size_bytes - 21);
    if (crc != batch->crc || codec > 4 || (codec == 4 && rules->is_zstd_refused)) { return false; }
    if (batch->base_offset != 0 || batch->size_bytes > rules->batch_max_bytes) { return false; }
    if (batch->record_count < 1 || batch->record_count != (int64_t)batch->last_offset_delta + 1) { return false; }
    bool is_control = (batch->attributes & 32) != 0;
    bool is_stamped = (batch->attributes & 8) != 0;
    if (is_control || is_stamped || (batch->producer_id >= 0 && batch->base_sequence < 0)) { return false; }
    if (codec != 0 && rules->open == REC_OPEN_NEVER) { return !is_timestamp_bad(batch->max_timestamp_ms, rules); }
    if (!is_opened || !read_all(batch, records, rules, said_out) || !said_out->is_dense) { return false; }
    if (said_out->max_timestamp_ms < -1) { said_out->max_timestamp_ms = -1; } /* as rec_facts says it */
    return !said_out->has_bad_timestamp && !(rules->is_key_needed && said_out->has_null_key);
}
