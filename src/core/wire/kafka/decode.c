/* decode.c: bytes from outside to structs, by walking the tables with a small stack of its own.
 *
 * Total: any bytes give a struct or an error. A count or length is believed only as far as the bytes left can back it, so
 * a lie takes no memory: an element has at least wire_bytes_min bytes on the wire, and the generator holds its bytes in
 * memory to KAFKA_ARENA_FACTOR times that. So a whole message takes at most that many times its size, the arena's rounding
 * included; in one whose end is missing, outer and inner counts could lean on the same bytes, which the budget stops.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/kafka/kafka__tables.h"

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool is_bad; /* sticky: read on safely, look at it before anything depends on it */
};

/* Structs being filled: one, or the items of an array one after the other. */
struct frame {
    const struct kafka__struct *type;
    const struct kafka__field *fields;
    uint8_t *value;
    int32_t items_left; /* this one included */
    uint32_t field;     /* the next regular one */
    uint32_t tags_left;
    bool has_tags_read;
    const uint8_t *outer_end; /* not NULL: the payload of a tag; where the cursor ends after it */
};

struct decoder {
    struct cursor cursor;
    struct base_arena *arena;
    size_t budget_bytes; /* of the arena; no whole message takes more, only one whose end is missing */
    int16_t version;
    bool is_flexible;
    bool is_full;
    uint32_t depth;
    struct frame frames[KAFKA__DEPTH_MAX];
};

static size_t left(const struct cursor *cursor) { return (size_t)(cursor->end - cursor->at); }

static void fail(struct cursor *cursor)
{
    cursor->at = cursor->end;
    cursor->is_bad = true;
}

/* `size_bytes` bytes, or NULL and a bad cursor. */
INLINE const uint8_t *take(struct cursor *cursor, size_t size_bytes)
{
    if (left(cursor) < size_bytes) {
        fail(cursor);
        return NULL;
    }
    const uint8_t *at = cursor->at;
    cursor->at += size_bytes;
    return at;
}

static uint32_t take_uvarint(struct cursor *cursor)
{
    if (cursor->at < cursor->end && *cursor->at < 0x80) { return *cursor->at++; }
    uint32_t value = 0;
    for (uint32_t shift = 0; shift < 35; shift += 7) {
        const uint8_t *b = take(cursor, 1);
        if (b == NULL) { return 0; }
        if (shift == 28 && *b > 0x0f) { break; } /* more than 32 bits */
        value |= (uint32_t)(*b & 0x7f) << shift;
        if (*b < 0x80) { return value; }
    }
    fail(cursor);
    return 0;
}

/* A length or count: -1 is null, all others are backed by at least item_bytes_min bytes each. */
INLINE int32_t take_count(struct cursor *cursor, bool is_compact, uint32_t rigid_bytes, size_t item_bytes_min)
{
    int64_t count;
    if (is_compact) {
        count = (int64_t)take_uvarint(cursor) - 1;
    } else {
        const uint8_t *b = take(cursor, rigid_bytes);
        if (b == NULL) { return 0; }
        count = rigid_bytes == 2 ? (int64_t)(int16_t)base_get_u16(b) : (int64_t)(int32_t)base_get_u32(b);
    }
    if (cursor->is_bad || count == 0) { return 0; }
    if (count < -1 || (count > 0 && (uint64_t)count > left(cursor) / item_bytes_min)) {
        fail(cursor);
        return 0;
    }
    return (int32_t)count; /* an input is shorter than INT32_MAX, or the count is its own check: see decode */
}

static void take_text(struct decoder *decoder, const struct kafka__field *field, uint8_t *place)
{
    struct cursor *cursor = &decoder->cursor;
    bool is_compact = decoder->is_flexible && (field->flags & KAFKA__RIGID) == 0;
    int32_t size = take_count(cursor, is_compact, field->type == KAFKA__STRING ? 2 : 4, 1);
    if (size < 0 && !kafka__may_be_null(field, decoder->version)) { fail(cursor); }
    if (field->type == KAFKA__STRING && size > KAFKA_TEXT_BYTES_MAX) { fail(cursor); }
    if (cursor->is_bad) { return; }
    const uint8_t *at = size < 0 ? NULL : take(cursor, (size_t)size);
    if (field->type == KAFKA__RECORDS) {
        struct kafka_records records = {.at = at, .size_bytes = size, .splice = 0};
        memcpy(place, &records, sizeof records);
    } else {
        struct kafka_text text = {.at = at, .size_bytes = size}; /* kafka_bytes is the same */
        memcpy(place, &text, sizeof text);
    }
}

/* A scalar that is not a struct. */
INLINE void take_scalar(struct decoder *decoder, const struct kafka__field *field, uint8_t *place)
{
    struct cursor *cursor = &decoder->cursor;
    const uint8_t *b;
    switch ((enum kafka__type)field->type) {
    case KAFKA__BOOL:
        b = take(cursor, 1);
        if (b != NULL) { *place = *b != 0; }
        break;
    case KAFKA__INT8:
        b = take(cursor, 1);
        if (b != NULL) { *place = *b; }
        break;
    case KAFKA__INT16:
    case KAFKA__UINT16:
        b = take(cursor, 2);
        if (b != NULL) {
            uint16_t value = base_get_u16(b);
            memcpy(place, &value, sizeof value);
        }
        break;
    case KAFKA__INT32:
    case KAFKA__UINT32:
        b = take(cursor, 4);
        if (b != NULL) {
            uint32_t value = base_get_u32(b);
            memcpy(place, &value, sizeof value);
        }
        break;
    case KAFKA__INT64:
    case KAFKA__FLOAT64:
        b = take(cursor, 8);
        if (b != NULL) {
            uint64_t value = base_get_u64(b);
            memcpy(place, &value, sizeof value);
        }
        break;
    case KAFKA__UUID:
        b = take(cursor, 16);
        if (b != NULL) { memcpy(place, b, 16); }
        break;
    case KAFKA__STRING:
    case KAFKA__BYTES:
    case KAFKA__RECORDS: take_text(decoder, field, place); break;
    case KAFKA__STRUCT: UNREACHABLE();
    }
}

/* What one element takes on the wire at least. */
static size_t element_bytes_min(const struct decoder *decoder, const struct kafka__field *field)
{
    switch ((enum kafka__type)field->type) {
    case KAFKA__STRING: return decoder->is_flexible ? 1 : 2;
    case KAFKA__BYTES:
    case KAFKA__RECORDS: return decoder->is_flexible ? 1 : 4;
    case KAFKA__STRUCT: return kafka__structs[field->struct_index].wire_bytes_min;
    case KAFKA__BOOL:
    case KAFKA__INT8:
    case KAFKA__INT16:
    case KAFKA__UINT16:
    case KAFKA__INT32:
    case KAFKA__UINT32:
    case KAFKA__INT64:
    case KAFKA__FLOAT64:
    case KAFKA__UUID: break;
    }
    return kafka__scalar_bytes((enum kafka__type)field->type);
}

static void push(struct decoder *decoder, uint32_t struct_index, uint8_t *value, int32_t items)
{
    CHECK(decoder->depth < KAFKA__DEPTH_MAX);
    const struct kafka__struct *type = &kafka__structs[struct_index];
    struct frame *frame = &decoder->frames[decoder->depth++];
    frame->type = type;
    frame->fields = &kafka__fields[type->field_first];
    frame->value = value;
    frame->items_left = items;
    frame->field = 0;
    frame->tags_left = 0;
    frame->has_tags_read = false;
    frame->outer_end = NULL;
}

static uint8_t *take_memory(struct decoder *decoder, size_t count, size_t item_bytes)
{
    size_t bytes = (count * item_bytes + 15) / 16 * 16; /* as the arena rounds; the count is at most the input's size */
    if (bytes > decoder->budget_bytes) {
        fail(&decoder->cursor);
        return NULL;
    }
    decoder->budget_bytes -= bytes;
    uint8_t *at = base_arena_take_array(decoder->arena, count, item_bytes);
    if (at == NULL) {
        decoder->is_full = true;
        fail(&decoder->cursor);
    }
    return at;
}

static void take_array(struct decoder *decoder, const struct kafka__field *field, uint8_t *place)
{
    struct cursor *cursor = &decoder->cursor;
    int32_t count = take_count(cursor, decoder->is_flexible, 4, element_bytes_min(decoder, field));
    if (count < 0 && !kafka__may_be_null(field, decoder->version)) { fail(cursor); }
    if (cursor->is_bad) { return; }
    if (count <= 0) {
        kafka__array_set(place, NULL, count);
        return;
    }
    size_t item_bytes = field->type == KAFKA__STRUCT ? kafka__structs[field->struct_index].size_bytes
                                                     : kafka__scalar_bytes((enum kafka__type)field->type);
    CHECK((size_t)count <= left(cursor)); /* the count is backed: each item has a byte at least */
    uint8_t *items = take_memory(decoder, (size_t)count, item_bytes);
    if (items == NULL) { return; }
    kafka__array_set(place, items, count);
    if (field->type == KAFKA__STRUCT) {
        push(decoder, field->struct_index, items, count);
        return;
    }
    for (int32_t i = 0; i < count && !cursor->is_bad; i++) {
        take_scalar(decoder, field, items);
        items += item_bytes;
    }
}

/* A field that the version has. A struct is pushed: its fields come next. */
static void take_field(struct decoder *decoder, const struct kafka__field *field, uint8_t *place)
{
    if ((field->flags & KAFKA__ARRAY) != 0) {
        take_array(decoder, field, place);
    } else if (field->type != KAFKA__STRUCT) {
        take_scalar(decoder, field, place);
    } else if ((field->flags & KAFKA__POINTER) == 0) {
        push(decoder, field->struct_index, place, 1);
    } else {
        const uint8_t *b = take(&decoder->cursor, 1);
        if (b == NULL) { return; }
        uint8_t *pointed = NULL;
        if (*b >= 0x80) {
            if (!kafka__may_be_null(field, decoder->version)) { fail(&decoder->cursor); }
        } else {
            const struct kafka__struct *type = &kafka__structs[field->struct_index];
            if (left(&decoder->cursor) < type->wire_bytes_min) { fail(&decoder->cursor); }
            if (decoder->cursor.is_bad) { return; }
            pointed = take_memory(decoder, 1, type->size_bytes);
            if (pointed == NULL) { return; }
            push(decoder, field->struct_index, pointed, 1);
        }
        memcpy(place, &pointed, sizeof pointed);
    }
}

static const struct kafka__field *tagged_field(const struct frame *frame, uint32_t tag, int16_t version)
{
    for (uint32_t i = frame->type->regular_count; i < frame->type->field_count; i++) {
        const struct kafka__field *field = &frame->fields[i];
        if (field->tag == tag && kafka__in_version(field, version)) { return field; }
    }
    return NULL;
}

/* One tagged field: a known one is taken from its payload, all of it; an unknown one is skipped. */
static void take_tag(struct decoder *decoder, struct frame *frame)
{
    struct cursor *cursor = &decoder->cursor;
    uint32_t tag = take_uvarint(cursor);
    uint32_t size = take_uvarint(cursor);
    if (size > left(cursor)) { fail(cursor); }
    if (cursor->is_bad) { return; }
    const struct kafka__field *field = tagged_field(frame, tag, decoder->version);
    if (field == NULL) {
        cursor->at += size;
        return;
    }
    const uint8_t *outer_end = cursor->end;
    cursor->end = cursor->at + size;
    uint8_t *place = frame->value + field->place;
    uint32_t depth = decoder->depth;
    /* It may come twice: the last one holds, as in Kafka, and nothing of the first may shine through. */
    if (kafka__is_struct_itself(field)) { kafka__struct_init(&kafka__structs[field->struct_index], place); }
    take_field(decoder, field, place);
    if (decoder->depth > depth) {
        decoder->frames[depth].outer_end = outer_end;
        return;
    }
    if (cursor->at != cursor->end) { fail(cursor); }
    cursor->end = outer_end;
}

/* After the regular fields: fields that this version carries by tag or not at all start at their defaults. */
static void read_tag_count(struct decoder *decoder, struct frame *frame)
{
    for (uint32_t i = frame->type->regular_count; i < frame->type->field_count; i++) {
        const struct kafka__field *field = &frame->fields[i];
        if ((field->flags & KAFKA__ZERO) == 0) { kafka__set_default(field, frame->value + field->place); }
    }
    frame->has_tags_read = true;
    frame->tags_left = decoder->is_flexible ? take_uvarint(&decoder->cursor) : 0;
    if (frame->tags_left > KAFKA_TAGS_MAX) { fail(&decoder->cursor); }
}

static void finish_item(struct decoder *decoder, struct frame *frame)
{
    if (frame->items_left > 1) {
        frame->items_left -= 1;
        frame->value += frame->type->size_bytes;
        frame->field = 0;
        frame->has_tags_read = false;
        return;
    }
    if (frame->outer_end != NULL) {
        if (decoder->cursor.at != decoder->cursor.end) { fail(&decoder->cursor); }
        decoder->cursor.end = frame->outer_end;
    }
    decoder->depth -= 1;
}

/* Ends: each turn of the inner loop takes a field, each of the outer one a tag or an item, and all of these are finite. */
static void walk(struct decoder *decoder)
{
    while (decoder->depth > 0 && !decoder->cursor.is_bad) {
        struct frame *frame = &decoder->frames[decoder->depth - 1];
        uint32_t depth = decoder->depth;
        while (frame->field < frame->type->regular_count && decoder->depth == depth && !decoder->cursor.is_bad) {
            const struct kafka__field *field = &frame->fields[frame->field++];
            uint8_t *place = frame->value + field->place;
            if (kafka__in_version(field, decoder->version)) {
                take_field(decoder, field, place);
            } else if ((field->flags & KAFKA__ZERO) == 0) {
                kafka__set_default(field, place);
            }
        }
        if (decoder->depth != depth || decoder->cursor.is_bad) { continue; }
        if (!frame->has_tags_read) { read_tag_count(decoder, frame); }
        if (frame->tags_left > 0) {
            frame->tags_left -= 1;
            take_tag(decoder, frame);
        } else {
            finish_item(decoder, frame);
        }
    }
}

enum base_rc kafka_decode_front(enum kafka_message message, struct base_slice bytes, int16_t version,
                                struct base_arena *arena, void *out, size_t *used_bytes_out)
{
    CHECK((uint32_t)message < KAFKA_MESSAGE_COUNT);
    const struct kafka__message *row = &kafka__messages[message];
    if (!kafka__has_version(row, version) || bytes.size_bytes > INT32_MAX) { return BASE_BAD; }
    static const uint8_t nothing = 0;
    const uint8_t *at = bytes.size_bytes == 0 ? &nothing : bytes.at;
    struct decoder decoder;
    decoder.cursor = (struct cursor){.at = at, .end = at + bytes.size_bytes, .is_bad = false};
    decoder.arena = arena;
    decoder.budget_bytes = bytes.size_bytes * KAFKA_ARENA_FACTOR;
    decoder.version = version;
    decoder.is_flexible = kafka__is_flexible(row, version);
    decoder.is_full = false;
    decoder.depth = 0;
    memset(out, 0, kafka__structs[row->struct_index].size_bytes);
    size_t mark = base_arena_mark(arena);
    push(&decoder, row->struct_index, out, 1);
    walk(&decoder);
    if (decoder.cursor.is_bad) {
        base_arena_reset(arena, mark);
        return decoder.is_full ? BASE_FULL : BASE_BAD;
    }
    CHECK(decoder.cursor.at <= decoder.cursor.end);
    *used_bytes_out = (size_t)(decoder.cursor.at - at);
    return BASE_OK;
}

enum base_rc kafka_decode(enum kafka_message message, struct base_slice bytes, int16_t version,
                          struct base_arena *arena, void *out)
{
    size_t mark = base_arena_mark(arena);
    size_t used_bytes = 0;
    enum base_rc rc = kafka_decode_front(message, bytes, version, arena, out, &used_bytes);
    if (rc != BASE_OK) { return rc; }
    if (used_bytes != bytes.size_bytes) {
        base_arena_reset(arena, mark);
        return BASE_BAD;
    }
    return BASE_OK;
}
