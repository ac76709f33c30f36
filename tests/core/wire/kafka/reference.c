/* reference.c: see reference.h. It recurses, allocates and copies: it is here to be believed, not to be fast.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "reference.h"

#include "kafka__tables.h"

#include <stdlib.h>

struct context {
    int16_t version;
    bool is_flexible;
};

static void byte(struct reference *r, uint8_t b)
{
    if (r->size_bytes == r->room_bytes) {
        r->room_bytes = r->room_bytes == 0 ? 256 : 2 * r->room_bytes;
        r->at = realloc(r->at, r->room_bytes);
        CHECK(r->at != NULL);
    }
    r->at[r->size_bytes++] = b;
}

static void big_endian(struct reference *r, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--) { byte(r, (uint8_t)(value >> (8 * i))); }
}

static void uvarint(struct reference *r, uint64_t value)
{
    while (value > 127) {
        byte(r, (uint8_t)(value & 127) | 128);
        value >>= 7;
    }
    byte(r, (uint8_t)value);
}

static bool lies_now(struct reference *r) { return r->counts++ == r->lie; }

/* A count or length: compact ones are one more, so that null is 0. */
static void count(struct reference *r, bool is_compact, int rigid_bytes, int64_t value)
{
    bool is_lie = lies_now(r);
    if (is_lie) { value = rigid_bytes == 2 && !is_compact ? 0x7fff : 0x7fffffff; }
    if (is_compact) {
        uvarint(r, (uint64_t)(value + 1));
    } else {
        big_endian(r, (uint64_t)value, rigid_bytes);
    }
    if (is_lie) {
        r->after_lie_bytes = r->size_bytes;
        r->is_lie_short = rigid_bytes == 2 && !is_compact;
    }
}

/* The number of tags, or the size of one. */
static void plain(struct reference *r, uint64_t value)
{
    bool is_lie = lies_now(r);
    uvarint(r, is_lie ? 0x7fffffff : value);
    if (is_lie) { r->after_lie_bytes = r->size_bytes; }
}

static void put_struct(struct reference *r, const struct kafka__struct *type, const uint8_t *value, struct context c);

static size_t memory_bytes(const struct kafka__field *field)
{
    switch (field->type) {
    case KAFKA__STRUCT: return kafka__structs[field->struct_index].size_bytes;
    case KAFKA__BOOL:
    case KAFKA__INT8: return 1;
    case KAFKA__INT16:
    case KAFKA__UINT16: return 2;
    case KAFKA__INT32:
    case KAFKA__UINT32: return 4;
    case KAFKA__INT64:
    case KAFKA__FLOAT64: return 8;
    case KAFKA__STRING:
    case KAFKA__BYTES: return 12;
    default: return 16;
    }
}

static void put_one(struct reference *r, const struct kafka__field *field, const uint8_t *at, struct context c)
{
    uint64_t number = 0;
    struct kafka_text text;
    struct kafka_records records;
    bool is_compact = c.is_flexible && (field->flags & KAFKA__RIGID) == 0;
    switch (field->type) {
    case KAFKA__STRUCT: put_struct(r, &kafka__structs[field->struct_index], at, c); break;
    case KAFKA__UUID:
        for (int i = 0; i < 16; i++) { byte(r, at[i]); }
        break;
    case KAFKA__STRING:
    case KAFKA__BYTES:
        memcpy(&text, at, sizeof text);
        count(r, is_compact, field->type == KAFKA__STRING ? 2 : 4, text.size_bytes);
        for (int32_t i = 0; i < text.size_bytes; i++) { byte(r, text.at[i]); }
        break;
    case KAFKA__RECORDS:
        memcpy(&records, at, sizeof records);
        count(r, is_compact, 4, records.size_bytes);
        for (int32_t i = 0; i < records.size_bytes; i++) { byte(r, records.at[i]); }
        break;
    default: /* a number, little-endian in memory here */
        CHECK(memory_bytes(field) <= sizeof number);
        memcpy(&number, at, memory_bytes(field));
        big_endian(r, number, (int)memory_bytes(field));
        break;
    }
}

static void put_field(struct reference *r, const struct kafka__field *field, const uint8_t *at, struct context c)
{
    if ((field->flags & KAFKA__ARRAY) != 0) {
        const uint8_t *items;
        int32_t items_count;
        memcpy(&items, at, sizeof items);
        memcpy(&items_count, at + sizeof items, sizeof items_count);
        count(r, c.is_flexible, 4, items_count);
        for (int32_t i = 0; i < items_count; i++) { put_one(r, field, items + (size_t)i * memory_bytes(field), c); }
    } else if ((field->flags & KAFKA__POINTER) != 0) {
        const uint8_t *pointed;
        memcpy(&pointed, at, sizeof pointed);
        byte(r, pointed == NULL ? 255 : 1);
        if (pointed != NULL) { put_one(r, field, pointed, c); }
    } else {
        put_one(r, field, at, c);
    }
}

static void put_struct(struct reference *r, const struct kafka__struct *type, const uint8_t *value, struct context c)
{
    const struct kafka__field *fields = &kafka__fields[type->field_first];
    uint64_t tags = 0;
    for (uint32_t i = 0; i < type->field_count; i++) {
        const uint8_t *at = value + fields[i].place;
        bool is_here = c.version >= fields[i].first && c.version <= fields[i].last;
        if (i < type->regular_count) {
            if (is_here) { put_field(r, &fields[i], at, c); }
        } else {
            tags += is_here && !kafka__field_is_default(&fields[i], at);
        }
    }
    if (!c.is_flexible) { return; }
    plain(r, tags);
    for (uint32_t i = type->regular_count; i < type->field_count; i++) {
        const uint8_t *at = value + fields[i].place;
        bool is_here = c.version >= fields[i].first && c.version <= fields[i].last;
        if (!is_here || kafka__field_is_default(&fields[i], at)) { continue; }
        uvarint(r, fields[i].tag);
        struct reference payload = {.lie = REFERENCE_NO_LIE};
        put_field(&payload, &fields[i], at, c);
        plain(r, payload.size_bytes);
        reference_free(&payload);
        put_field(r, &fields[i], at, c);
    }
}

void reference_encode(enum kafka_message message, const void *value, int16_t version, int32_t lie,
                      struct reference *reference)
{
    const struct kafka__message *row = &kafka__messages[message];
    *reference = (struct reference){.lie = lie};
    struct context c = {.version = version, .is_flexible = version >= row->flexible_from};
    put_struct(reference, &kafka__structs[row->struct_index], value, c);
}

void reference_free(struct reference *reference) { free(reference->at); }
