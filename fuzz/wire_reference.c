/* wire_reference.c: see wire_reference.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire_reference.h"

#include <stdlib.h>

#include "kafka__tables.h"

struct reader {
    const uint8_t *at;
    size_t left;
    int version;
    bool is_flexible;
};

/* ---- writing ------------------------------------------------------------------------------------------------------------- */

static void put(struct reference_bytes *out, const void *bytes, size_t size_bytes)
{
    if (size_bytes == 0) { return; }
    if (out->room_bytes - out->size_bytes < size_bytes) {
        out->room_bytes = (out->size_bytes + size_bytes) * 2;
        out->at = realloc(out->at, out->room_bytes);
        if (out->at == NULL) { abort(); }
    }
    memcpy(out->at + out->size_bytes, bytes, size_bytes);
    out->size_bytes += size_bytes;
}

static void put_number(struct reference_bytes *out, uint64_t value, size_t size_bytes)
{
    for (size_t i = size_bytes; i > 0; i--) {
        uint8_t byte = (uint8_t)(value >> (8 * (i - 1)));
        put(out, &byte, 1);
    }
}

static void put_varint(struct reference_bytes *out, uint64_t value)
{
    for (; value > 127; value /= 128) {
        uint8_t byte = (uint8_t)(value % 128 + 128);
        put(out, &byte, 1);
    }
    uint8_t last = (uint8_t)value;
    put(out, &last, 1);
}

void reference_drop(struct reference_bytes *bytes)
{
    free(bytes->at);
    *bytes = (struct reference_bytes){0};
}

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

static bool take(struct reader *reader, size_t size_bytes, const uint8_t **at_out)
{
    if (reader->left < size_bytes) { return false; }
    *at_out = reader->at;
    reader->at += size_bytes;
    reader->left -= size_bytes;
    return true;
}

static bool take_number(struct reader *reader, size_t size_bytes, uint64_t *value_out)
{
    const uint8_t *at;
    if (!take(reader, size_bytes, &at)) { return false; }
    *value_out = 0;
    for (size_t i = 0; i < size_bytes; i++) { *value_out = *value_out * 256 + at[i]; }
    return true;
}

/* At most five bytes, at most 32 bits. */
static bool take_varint(struct reader *reader, uint64_t *value_out)
{
    *value_out = 0;
    uint64_t weight = 1;
    for (int i = 0; i < 5; i++, weight *= 128) {
        uint64_t byte;
        if (!take_number(reader, 1, &byte)) { return false; }
        *value_out += byte % 128 * weight;
        if (byte < 128) { return *value_out < UINT64_C(1) << 32; }
    }
    return false;
}

static bool is_between(int version, int first, int last) { return first <= version && version <= last; }

/* A length or count with its null: read, judged, written. -1: null. */
static bool pass_count(struct reader *reader, bool is_compact, size_t size_bytes, bool may_be_null,
                       struct reference_bytes *out, int64_t *count_out)
{
    uint64_t raw;
    if (is_compact ? !take_varint(reader, &raw) : !take_number(reader, size_bytes, &raw)) { return false; }
    int64_t count = (int64_t)raw - 1;
    if (!is_compact) { count = size_bytes == 2 ? (int64_t)(int16_t)raw : (int64_t)(int32_t)raw; }
    if (count < -1 || (count == -1 && !may_be_null)) { return false; }
    if (is_compact) {
        put_varint(out, (uint64_t)(count + 1));
    } else {
        put_number(out, (uint64_t)count, size_bytes);
    }
    *count_out = count;
    return true;
}

static bool pass_struct(struct reader *reader, const struct kafka__struct *type, struct reference_bytes *out);

static size_t number_bytes(uint8_t type)
{
    static const size_t sizes[] = {[KAFKA__BOOL] = 1,  [KAFKA__INT8] = 1,   [KAFKA__INT16] = 2, [KAFKA__UINT16] = 2,
                                   [KAFKA__INT32] = 4, [KAFKA__UINT32] = 4, [KAFKA__INT64] = 8, [KAFKA__FLOAT64] = 8};
    return type < sizeof sizes / sizeof sizes[0] ? sizes[type] : 0;
}

/* One value: of a field, or of an element of an array. */
static bool pass_value(struct reader *reader, const struct kafka__field *field, struct reference_bytes *out)
{
    const uint8_t *at;
    int64_t size = 0;
    uint64_t number;
    bool may_be_null = is_between(reader->version, field->null_first, field->null_last);
    bool is_string = field->type == KAFKA__STRING;
    bool is_compact = reader->is_flexible && (field->flags & KAFKA__RIGID) == 0;
    switch ((enum kafka__type)field->type) {
    case KAFKA__STRUCT: return pass_struct(reader, &kafka__structs[field->struct_index], out);
    case KAFKA__UUID:
        if (!take(reader, 16, &at)) { return false; }
        put(out, at, 16);
        return true;
    case KAFKA__STRING:
    case KAFKA__BYTES:
    case KAFKA__RECORDS:
        if (!pass_count(reader, is_compact, is_string ? 2 : 4, may_be_null, out, &size)) { return false; }
        if (is_string && size > 32767) { return false; }
        if (!take(reader, size < 0 ? 0 : (size_t)size, &at)) { return false; }
        put(out, at, size < 0 ? 0 : (size_t)size);
        return true;
    case KAFKA__BOOL:
    case KAFKA__INT8:
    case KAFKA__INT16:
    case KAFKA__UINT16:
    case KAFKA__INT32:
    case KAFKA__UINT32:
    case KAFKA__INT64:
    case KAFKA__FLOAT64:
        if (!take_number(reader, number_bytes(field->type), &number)) { return false; }
        if (field->type == KAFKA__BOOL && number != 0) { number = 1; }
        put_number(out, number, number_bytes(field->type));
        return true;
    }
    return false;
}

static bool pass_field(struct reader *reader, const struct kafka__field *field, struct reference_bytes *out)
{
    bool may_be_null = is_between(reader->version, field->null_first, field->null_last);
    if ((field->flags & KAFKA__ARRAY) != 0) {
        int64_t count;
        if (!pass_count(reader, reader->is_flexible, 4, may_be_null, out, &count)) { return false; }
        for (int64_t i = 0; i < count; i++) { /* ends: each element takes a byte at least */
            if (!pass_value(reader, field, out)) { return false; }
        }
        return true;
    }
    if ((field->flags & KAFKA__POINTER) != 0) {
        uint64_t byte;
        if (!take_number(reader, 1, &byte)) { return false; }
        bool is_null = byte >= 128; /* a signed byte below 0 */
        put_number(out, is_null ? 255 : 1, 1);
        if (is_null) { return may_be_null; }
    }
    return pass_value(reader, field, out);
}

/* What a field at its default looks like on the wire. */
static void put_default(const struct reader *reader, const struct kafka__field *field, struct reference_bytes *out)
{
    bool is_null = (field->flags & KAFKA__NULL) != 0;
    bool is_array = (field->flags & KAFKA__ARRAY) != 0;
    size_t bytes = number_bytes(field->type);
    if (is_array || field->type == KAFKA__STRING || field->type == KAFKA__BYTES || field->type == KAFKA__RECORDS) {
        bool is_compact = reader->is_flexible && (is_array || (field->flags & KAFKA__RIGID) == 0);
        if (is_compact) {
            put_varint(out, is_null ? 0 : 1);
        } else {
            put_number(out, is_null ? UINT64_MAX : 0, field->type == KAFKA__STRING && !is_array ? 2 : 4);
        }
    } else if (field->type != KAFKA__STRUCT) {
        put_number(out, bytes == 0 ? 0 : (uint64_t)kafka__defaults[field->default_index], bytes == 0 ? 8 : bytes);
        if (bytes == 0) { put_number(out, 0, 8); } /* an id */
    } else if ((field->flags & KAFKA__POINTER) != 0) {
        put_number(out, 255, 1);
    } else {
        const struct kafka__struct *type = &kafka__structs[field->struct_index];
        for (uint32_t i = 0; i < type->regular_count; i++) {
            const struct kafka__field *inner = &kafka__fields[type->field_first + i];
            if (is_between(reader->version, inner->first, inner->last)) { put_default(reader, inner, out); }
        }
        if (reader->is_flexible) { put_varint(out, 0); }
    }
}

static bool is_default(const struct reader *reader, const struct kafka__field *field, const struct reference_bytes *is)
{
    struct reference_bytes default_bytes = {0};
    put_default(reader, field, &default_bytes);
    bool is_it = default_bytes.size_bytes == is->size_bytes && memcmp(default_bytes.at, is->at, is->size_bytes) == 0;
    reference_drop(&default_bytes);
    return is_it;
}

static bool pass_tags(struct reader *reader, const struct kafka__struct *type, struct reference_bytes *out)
{
    enum { KNOWN_MAX = 64 };
    struct reference_bytes payloads[KNOWN_MAX] = {{0}}; /* at != NULL: it came */
    const struct kafka__field *fields = &kafka__fields[type->field_first + type->regular_count];
    uint32_t known = (uint32_t)type->field_count - type->regular_count;
    uint64_t count;
    bool is_good = known <= KNOWN_MAX && take_varint(reader, &count) && count <= KAFKA_TAGS_MAX;
    for (uint64_t i = 0; is_good && i < count; i++) {
        uint64_t tag;
        uint64_t size;
        struct reader payload = *reader;
        is_good = take_varint(reader, &tag) && take_varint(reader, &size) && take(reader, (size_t)size, &payload.at);
        for (uint32_t k = 0; is_good && k < known; k++) {
            if (fields[k].tag != tag || !is_between(reader->version, fields[k].first, fields[k].last)) { continue; }
            payload.left = (size_t)size;
            reference_drop(&payloads[k]); /* the last one holds */
            is_good = pass_field(&payload, &fields[k], &payloads[k]) && payload.left == 0;
            break;
        }
    }
    uint64_t carried = 0;
    for (uint32_t k = 0; k < known; k++) {
        if (payloads[k].at != NULL && is_good && is_default(reader, &fields[k], &payloads[k])) {
            reference_drop(&payloads[k]);
        }
        carried += payloads[k].at != NULL;
    }
    put_varint(out, carried);
    for (uint32_t k = 0; k < known; k++) { /* the table has them by ascending tag */
        if (payloads[k].at == NULL) { continue; }
        put_varint(out, fields[k].tag);
        put_varint(out, payloads[k].size_bytes);
        put(out, payloads[k].at, payloads[k].size_bytes);
        reference_drop(&payloads[k]);
    }
    return is_good;
}

static bool pass_struct(struct reader *reader, const struct kafka__struct *type, struct reference_bytes *out)
{
    for (uint32_t i = 0; i < type->regular_count; i++) {
        const struct kafka__field *field = &kafka__fields[type->field_first + i];
        if (!is_between(reader->version, field->first, field->last)) { continue; }
        if (!pass_field(reader, field, out)) { return false; }
    }
    return !reader->is_flexible || pass_tags(reader, type, out);
}

bool reference_read(enum kafka_message message, int16_t version, struct base_slice in, struct reference_bytes *out,
                    size_t *used_out)
{
    const struct kafka__message *row = &kafka__messages[message];
    struct reader reader = {.at = in.at, .left = in.size_bytes, .version = version};
    if (!is_between(version, row->version_min, row->version_max)) { return false; }
    reader.is_flexible = version >= row->flexible_from;
    if (!pass_struct(&reader, &kafka__structs[row->struct_index], out)) { return false; }
    *used_out = in.size_bytes - reader.left;
    return true;
}
