/* encode.c: structs to bytes, by walking the tables; one walk counts, the same walk writes, so they can't disagree.
 *
 * The walk is written once and made twice by the compiler: is_counting is a constant in both.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/kafka/kafka__tables.h"

/* Where bytes go, or their number. */
struct sink {
    size_t bytes; /* in memory, so far */
    size_t splice_bytes;
    uint32_t splices;
    bool is_bad;
    bool is_full;
    struct kafka_writer *writer; /* NULL when counting */
};

/* Structs being written: one, or the items of an array one after the other. */
struct frame {
    const struct kafka__struct *type;
    const struct kafka__field *fields;
    const uint8_t *value;
    int32_t items_left; /* this one included */
    uint32_t field;
    bool is_payload; /* the payload of a tag: when counting, its length is counted at its end */
    bool has_tags_begun;
    uint64_t tags;       /* bit i: the tagged field i is carried */
    size_t bytes_before; /* when counting a payload, as sink.bytes and sink.splice_bytes were */
    size_t splice_bytes_before;
};

struct encoder {
    struct sink sink;
    uint64_t unknown_tags_seed;
    int16_t version;
    bool is_flexible;
    uint32_t depth;
    struct frame frames[KAFKA__DEPTH_MAX];
};

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

/* Room for `size_bytes` more, or NULL; counting never needs it. */
INLINE uint8_t *room(bool is_counting, struct sink *sink, size_t size_bytes)
{
    if (is_counting) {
        sink->bytes += size_bytes;
        return NULL;
    }
    struct kafka_writer *writer = sink->writer;
    if (writer->size_bytes - writer->used_bytes < size_bytes) {
        sink->is_full = true;
        return NULL;
    }
    uint8_t *at = writer->at + writer->used_bytes;
    writer->used_bytes += size_bytes;
    return at;
}

INLINE void put_bytes(bool is_counting, struct sink *sink, const uint8_t *bytes, size_t size_bytes)
{
    uint8_t *at = room(is_counting, sink, size_bytes);
    if (at != NULL && size_bytes > 0) { memcpy(at, bytes, size_bytes); }
}

INLINE void put_u8(bool is_counting, struct sink *sink, uint8_t value)
{
    uint8_t *at = room(is_counting, sink, 1);
    if (at != NULL) { *at = value; }
}

INLINE void put_u16(bool is_counting, struct sink *sink, uint16_t value)
{
    uint8_t *at = room(is_counting, sink, 2);
    if (at != NULL) { base_put_u16(at, value); }
}

INLINE void put_u32(bool is_counting, struct sink *sink, uint32_t value)
{
    uint8_t *at = room(is_counting, sink, 4);
    if (at != NULL) { base_put_u32(at, value); }
}

INLINE void put_u64(bool is_counting, struct sink *sink, uint64_t value)
{
    uint8_t *at = room(is_counting, sink, 8);
    if (at != NULL) { base_put_u64(at, value); }
}

static size_t uvarint_bytes(uint32_t value)
{
    size_t size = 1;
    while (value >= 0x80) {
        value >>= 7;
        size += 1;
    }
    return size;
}

INLINE void put_uvarint(bool is_counting, struct sink *sink, uint32_t value)
{
    size_t size = uvarint_bytes(value);
    uint8_t *at = room(is_counting, sink, size);
    if (at == NULL) { return; }
    for (size_t i = 0; i + 1 < size; i++) {
        at[i] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    at[size - 1] = (uint8_t)value;
}

/* A length or count, -1 for null. */
INLINE void put_count(bool is_counting, struct sink *sink, bool is_compact, uint32_t rigid_bytes, int32_t count)
{
    if (is_compact) {
        put_uvarint(is_counting, sink, (uint32_t)count + 1);
    } else if (rigid_bytes == 2) {
        put_u16(is_counting, sink, (uint16_t)count);
    } else {
        put_u32(is_counting, sink, (uint32_t)count);
    }
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

INLINE bool may_be_count(const struct encoder *encoder, const struct kafka__field *field, int32_t count)
{
    return count >= 0 || (count == -1 && kafka__may_be_null(field, encoder->version));
}

INLINE void put_text(bool is_counting, struct encoder *encoder, const struct kafka__field *field, const uint8_t *place)
{
    struct kafka_text text;
    memcpy(&text, place, sizeof text);
    bool is_string = field->type == KAFKA__STRING;
    if (!may_be_count(encoder, field, text.size_bytes) || (is_string && text.size_bytes > KAFKA_TEXT_BYTES_MAX)) {
        encoder->sink.is_bad = true;
        return;
    }
    bool is_compact = encoder->is_flexible && (field->flags & KAFKA__RIGID) == 0;
    put_count(is_counting, &encoder->sink, is_compact, is_string ? 2 : 4, text.size_bytes);
    if (text.size_bytes > 0) { put_bytes(is_counting, &encoder->sink, text.at, (size_t)text.size_bytes); }
}

INLINE void put_splice(bool is_counting, struct sink *sink, struct kafka_records records)
{
    sink->splices += 1;
    sink->splice_bytes += (size_t)records.size_bytes;
    if (is_counting) { return; }
    struct kafka_writer *writer = sink->writer;
    if (writer->splices_count == writer->splices_max) {
        sink->is_full = true;
        return;
    }
    writer->splices[writer->splices_count++] = (struct kafka_splice){.at_bytes = writer->used_bytes,
                                                                     .size_bytes = (size_t)records.size_bytes,
                                                                     .splice = records.splice};
}

INLINE void put_records(bool is_counting, struct encoder *encoder, const struct kafka__field *field,
                        const uint8_t *place)
{
    struct kafka_records records;
    memcpy(&records, place, sizeof records);
    if (!may_be_count(encoder, field, records.size_bytes)) {
        encoder->sink.is_bad = true;
        return;
    }
    put_count(is_counting, &encoder->sink, encoder->is_flexible, 4, records.size_bytes);
    if (records.size_bytes <= 0) { return; }
    if (records.splice != 0) {
        put_splice(is_counting, &encoder->sink, records);
    } else {
        put_bytes(is_counting, &encoder->sink, records.at, (size_t)records.size_bytes);
    }
}

INLINE void put_scalar(bool is_counting, struct encoder *encoder, const struct kafka__field *field,
                       const uint8_t *place)
{
    struct sink *sink = &encoder->sink;
    uint16_t value16;
    uint32_t value32;
    uint64_t value64;
    switch ((enum kafka__type)field->type) {
    case KAFKA__BOOL:
    case KAFKA__INT8: put_u8(is_counting, sink, *place); break;
    case KAFKA__INT16:
    case KAFKA__UINT16:
        memcpy(&value16, place, sizeof value16);
        put_u16(is_counting, sink, value16);
        break;
    case KAFKA__INT32:
    case KAFKA__UINT32:
        memcpy(&value32, place, sizeof value32);
        put_u32(is_counting, sink, value32);
        break;
    case KAFKA__INT64:
    case KAFKA__FLOAT64:
        memcpy(&value64, place, sizeof value64);
        put_u64(is_counting, sink, value64);
        break;
    case KAFKA__UUID: put_bytes(is_counting, sink, place, 16); break;
    case KAFKA__STRING:
    case KAFKA__BYTES: put_text(is_counting, encoder, field, place); break;
    case KAFKA__RECORDS: put_records(is_counting, encoder, field, place); break;
    case KAFKA__STRUCT: UNREACHABLE();
    }
}

/* ---- the walk --------------------------------------------------------------------------------------------------- */

INLINE void push(struct encoder *encoder, uint32_t struct_index, const uint8_t *value, int32_t items)
{
    CHECK(encoder->depth < KAFKA__DEPTH_MAX);
    const struct kafka__struct *type = &kafka__structs[struct_index];
    struct frame *frame = &encoder->frames[encoder->depth++];
    frame->type = type;
    frame->fields = &kafka__fields[type->field_first];
    frame->value = value;
    frame->items_left = items;
    frame->field = 0;
    frame->is_payload = false;
    frame->has_tags_begun = false;
    frame->tags = 0;
    frame->bytes_before = 0;
    frame->splice_bytes_before = 0;
}

INLINE void put_array(bool is_counting, struct encoder *encoder, const struct kafka__field *field, const uint8_t *place)
{
    struct kafka__array array = kafka__array_at(place);
    struct sink *sink = &encoder->sink;
    if (!may_be_count(encoder, field, array.count)) {
        sink->is_bad = true;
        return;
    }
    put_count(is_counting, sink, encoder->is_flexible, 4, array.count);
    if (array.count <= 0) { return; }
    if (field->type == KAFKA__STRUCT) {
        push(encoder, field->struct_index, array.at, array.count);
        return;
    }
    const uint8_t *item = array.at;
    size_t item_bytes = kafka__scalar_bytes((enum kafka__type)field->type);
    for (int32_t i = 0; i < array.count; i++) {
        put_scalar(is_counting, encoder, field, item);
        item += item_bytes;
    }
}

/* A field that the version has. A struct is pushed: its fields come next. */
INLINE void put_field(bool is_counting, struct encoder *encoder, const struct kafka__field *field, const uint8_t *place)
{
    if ((field->flags & KAFKA__ARRAY) != 0) {
        put_array(is_counting, encoder, field, place);
    } else if (field->type != KAFKA__STRUCT) {
        put_scalar(is_counting, encoder, field, place);
    } else if ((field->flags & KAFKA__POINTER) == 0) {
        push(encoder, field->struct_index, place, 1);
    } else {
        const uint8_t *pointed;
        memcpy(&pointed, place, sizeof pointed);
        put_u8(is_counting, &encoder->sink, pointed == NULL ? 0xff : 1);
        if (pointed != NULL) {
            push(encoder, field->struct_index, pointed, 1);
        } else if (!kafka__may_be_null(field, encoder->version)) {
            encoder->sink.is_bad = true;
        }
    }
}

/* A field that the version lacks is left out, silently only when nothing is lost or the schema allows it. */
INLINE void leave_out(struct encoder *encoder, const struct kafka__field *field, const uint8_t *place)
{
    if ((field->flags & KAFKA__IGNORABLE) == 0 && !kafka__field_is_default(field, place)) {
        encoder->sink.is_bad = true;
    }
}

/* A tag that nobody knows, or 0: the same for the same place, counting and writing. */
static uint32_t unknown_tag(const struct encoder *encoder, const struct frame *frame)
{
    if (encoder->unknown_tags_seed == 0) { return 0; }
    uint64_t place = (uint64_t)(uint32_t)frame->items_left << 32 | frame->type->field_first;
    uint64_t roll = (encoder->unknown_tags_seed ^ place) * 0x9e3779b97f4a7c15u;
    roll = (roll ^ roll >> 29) * 0xbf58476d1ce4e5b9u;
    roll ^= roll >> 32;
    return (roll & 1) != 0 ? 10000 + (uint32_t)(roll >> 1) % 10000 : 0;
}

INLINE void put_unknown_tag(bool is_counting, struct encoder *encoder, uint32_t tag)
{
    uint32_t size = tag % 7;
    put_uvarint(is_counting, &encoder->sink, tag);
    put_uvarint(is_counting, &encoder->sink, size);
    for (uint32_t i = 0; i < size; i++) { put_u8(is_counting, &encoder->sink, (uint8_t)(tag + i)); }
}

/* The number of tags; frame->field goes on from the first tagged field. */
INLINE void begin_tags(bool is_counting, struct encoder *encoder, struct frame *frame)
{
    frame->has_tags_begun = true;
    frame->tags = 0;
    uint32_t count = 0;
    uint32_t first = frame->type->regular_count;
    for (uint32_t i = first; i < frame->type->field_count; i++) {
        const struct kafka__field *field = &frame->fields[i];
        if (!kafka__in_version(field, encoder->version)) {
            leave_out(encoder, field, frame->value + field->place);
        } else if (!kafka__field_is_default(field, frame->value + field->place)) {
            frame->tags |= (uint64_t)1 << (i - first);
            count += 1;
        }
    }
    if (!encoder->is_flexible) { return; }
    count += unknown_tag(encoder, frame) != 0;
    put_uvarint(is_counting, &encoder->sink, count);
}

static size_t payload_bytes(const struct encoder *encoder, const struct kafka__field *field, const uint8_t *place);

INLINE void put_tag(bool is_counting, struct encoder *encoder, struct frame *frame, const struct kafka__field *field)
{
    const uint8_t *place = frame->value + field->place;
    struct sink *sink = &encoder->sink;
    uint32_t depth = encoder->depth;
    put_uvarint(is_counting, sink, field->tag);
    if (!is_counting) {
        put_uvarint(is_counting, sink, (uint32_t)payload_bytes(encoder, field, place));
        put_field(is_counting, encoder, field, place);
        if (encoder->depth > depth) { encoder->frames[depth].is_payload = true; }
        return;
    }
    size_t bytes_before = sink->bytes;
    size_t splice_bytes_before = sink->splice_bytes;
    put_field(is_counting, encoder, field, place);
    if (encoder->depth > depth) {
        encoder->frames[depth].is_payload = true;
        encoder->frames[depth].bytes_before = bytes_before;
        encoder->frames[depth].splice_bytes_before = splice_bytes_before;
    } else {
        sink->bytes += uvarint_bytes((uint32_t)(sink->bytes - bytes_before + sink->splice_bytes - splice_bytes_before));
    }
}

INLINE void finish_item(bool is_counting, struct encoder *encoder, struct frame *frame)
{
    if (encoder->is_flexible) {
        uint32_t tag = unknown_tag(encoder, frame);
        if (tag != 0) { put_unknown_tag(is_counting, encoder, tag); }
    }
    if (frame->items_left > 1) {
        frame->items_left -= 1;
        frame->value += frame->type->size_bytes;
        frame->field = 0;
        frame->has_tags_begun = false;
        return;
    }
    struct sink *sink = &encoder->sink;
    if (is_counting && frame->is_payload) {
        size_t bytes = sink->bytes - frame->bytes_before + sink->splice_bytes - frame->splice_bytes_before;
        sink->bytes += uvarint_bytes((uint32_t)bytes);
    }
    encoder->depth -= 1;
}

INLINE void walk(bool is_counting, struct encoder *encoder)
{
    struct sink *sink = &encoder->sink;
    while (encoder->depth > 0 && !sink->is_bad && !sink->is_full) {
        struct frame *frame = &encoder->frames[encoder->depth - 1];
        uint32_t depth = encoder->depth;
        while (frame->field < frame->type->regular_count && encoder->depth == depth) {
            const struct kafka__field *field = &frame->fields[frame->field++];
            const uint8_t *place = frame->value + field->place;
            if (kafka__in_version(field, encoder->version)) {
                put_field(is_counting, encoder, field, place);
            } else {
                leave_out(encoder, field, place);
            }
        }
        if (encoder->depth != depth) { continue; }
        if (!frame->has_tags_begun) { begin_tags(is_counting, encoder, frame); }
        if (frame->field < frame->type->field_count) {
            uint32_t tag_index = frame->field - frame->type->regular_count;
            const struct kafka__field *field = &frame->fields[frame->field++];
            if ((frame->tags >> tag_index & 1) != 0) { put_tag(is_counting, encoder, frame, field); }
        } else {
            finish_item(is_counting, encoder, frame);
        }
    }
}

/* Never inlined: these two are the walk's two forms. */
static __attribute__((noinline)) void count_all(struct encoder *encoder) { walk(true, encoder); }
static __attribute__((noinline)) void write_all(struct encoder *encoder) { walk(false, encoder); }

/* What a tagged field will take, its own length not included. */
static size_t payload_bytes(const struct encoder *encoder, const struct kafka__field *field, const uint8_t *place)
{
    struct encoder counter;
    counter.sink = (struct sink){.writer = NULL};
    counter.unknown_tags_seed = encoder->unknown_tags_seed;
    counter.version = encoder->version;
    counter.is_flexible = encoder->is_flexible;
    counter.depth = 0;
    put_field(true, &counter, field, place);
    count_all(&counter);
    return counter.sink.bytes + counter.sink.splice_bytes;
}

static void begin(struct encoder *encoder, enum kafka_message message, const void *value, int16_t version,
                  uint64_t unknown_tags_seed)
{
    const struct kafka__message *row = &kafka__messages[message];
    encoder->sink = (struct sink){.writer = NULL};
    encoder->unknown_tags_seed = unknown_tags_seed;
    encoder->version = version;
    encoder->is_flexible = kafka__is_flexible(row, version);
    encoder->depth = 0;
    push(encoder, row->struct_index, value, 1);
}

enum base_rc kafka_size_unknown_tags(enum kafka_message message, const void *value, int16_t version,
                                     uint64_t unknown_tags_seed, struct kafka_size *size_out)
{
    CHECK((uint32_t)message < KAFKA_MESSAGE_COUNT);
    if (!kafka__has_version(&kafka__messages[message], version)) { return BASE_BAD; }
    struct encoder encoder;
    begin(&encoder, message, value, version, unknown_tags_seed);
    count_all(&encoder);
    if (encoder.sink.is_bad) { return BASE_BAD; }
    *size_out = (struct kafka_size){.memory_bytes = encoder.sink.bytes,
                                    .splice_bytes = encoder.sink.splice_bytes,
                                    .splices_count = encoder.sink.splices};
    return BASE_OK;
}

enum base_rc kafka_size(enum kafka_message message, const void *value, int16_t version, struct kafka_size *size_out)
{
    return kafka_size_unknown_tags(message, value, version, 0, size_out);
}

enum base_rc kafka_encode(enum kafka_message message, const void *value, int16_t version, struct kafka_writer *writer)
{
    CHECK((uint32_t)message < KAFKA_MESSAGE_COUNT);
    CHECK(writer->used_bytes <= writer->size_bytes);
    if (!kafka__has_version(&kafka__messages[message], version)) { return BASE_BAD; }
    size_t used_bytes = writer->used_bytes;
    uint32_t splices_count = writer->splices_count;
    struct encoder encoder;
    begin(&encoder, message, value, version, writer->unknown_tags_seed);
    encoder.sink.writer = writer;
    write_all(&encoder);
    if (!encoder.sink.is_bad && !encoder.sink.is_full) { return BASE_OK; }
    writer->used_bytes = used_bytes;
    writer->splices_count = splices_count;
    return encoder.sink.is_bad ? BASE_BAD : BASE_FULL;
}
