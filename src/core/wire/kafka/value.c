/* value.c: structs as values: defaults, equality, dice and text, by walking the tables.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/kafka/kafka__tables.h"

#include "base/arith.h"

/* Structs at hand, field by field: one, or the items of an array one after the other. `other` is the second of a pair. */
struct frame {
    const struct kafka__struct *type;
    uint8_t *value;
    uint8_t *other;
    int32_t items_left; /* this one included */
    uint32_t field;     /* the next one */
};

struct walk {
    uint32_t depth;
    struct frame frames[KAFKA__DEPTH_MAX];
};

static void push(struct walk *walk, const struct kafka__struct *type, void *value, void *other, int32_t items)
{
    CHECK(walk->depth < KAFKA__DEPTH_MAX);
    walk->frames[walk->depth++] = (struct frame){.type = type, .value = value, .other = other, .items_left = items};
}

/* The frame of the next field, its index one past; NULL at the end. */
static struct frame *next_field(struct walk *walk)
{
    while (walk->depth > 0) {
        struct frame *frame = &walk->frames[walk->depth - 1];
        if (frame->field < frame->type->field_count) {
            frame->field += 1;
            return frame;
        }
        if (frame->items_left > 1) {
            frame->items_left -= 1;
            frame->field = 0;
            frame->value += frame->type->size_bytes;
            if (frame->other != NULL) { frame->other += frame->type->size_bytes; }
        } else {
            walk->depth -= 1;
        }
    }
    return NULL;
}

static const struct kafka__field *field_of(const struct frame *frame)
{
    return &kafka__fields[frame->type->field_first + frame->field - 1];
}

static void *load_pointer(const uint8_t *place)
{
    void *at;
    memcpy(&at, place, sizeof at);
    return at;
}

static struct kafka_text load_text(const uint8_t *place)
{
    struct kafka_text text;
    memcpy(&text, place, sizeof text);
    return text;
}

static struct kafka_records load_records(const uint8_t *place)
{
    struct kafka_records records;
    memcpy(&records, place, sizeof records);
    return records;
}

size_t kafka__scalar_bytes(enum kafka__type type)
{
    switch (type) {
    case KAFKA__BOOL:
    case KAFKA__INT8: return 1;
    case KAFKA__INT16:
    case KAFKA__UINT16: return 2;
    case KAFKA__INT32:
    case KAFKA__UINT32: return 4;
    case KAFKA__INT64:
    case KAFKA__FLOAT64: return 8;
    case KAFKA__UUID: return 16;
    case KAFKA__STRING: return sizeof(struct kafka_text);
    case KAFKA__BYTES: return sizeof(struct kafka_bytes);
    case KAFKA__RECORDS: return sizeof(struct kafka_records);
    case KAFKA__STRUCT: break;
    }
    UNREACHABLE();
}

/* A number of the machine's byte order into its bytes. */
static void store_bytes(size_t size_bytes, uint8_t *place, uint64_t value)
{
    uint16_t value16 = (uint16_t)value;
    uint32_t value32 = (uint32_t)value;
    switch (size_bytes) {
    case 1: *place = (uint8_t)value; break;
    case 2: memcpy(place, &value16, sizeof value16); break;
    case 4: memcpy(place, &value32, sizeof value32); break;
    case 8: memcpy(place, &value, sizeof value); break;
    default: UNREACHABLE();
    }
}

static void store_number(enum kafka__type type, uint8_t *place, uint64_t value)
{
    store_bytes(kafka__scalar_bytes(type), place, value);
}

/* Sign-extended, so that it compares with a default. */
static int64_t load_number(enum kafka__type type, const uint8_t *place)
{
    int16_t value16;
    int32_t value32;
    int64_t value64;
    switch (kafka__scalar_bytes(type)) {
    case 1: return type == KAFKA__BOOL ? *place != 0 : (int8_t)*place;
    case 2:
        memcpy(&value16, place, sizeof value16);
        return type == KAFKA__UINT16 ? (int64_t)(uint16_t)value16 : value16;
    case 4:
        memcpy(&value32, place, sizeof value32);
        return type == KAFKA__UINT32 ? (int64_t)(uint32_t)value32 : value32;
    case 8: memcpy(&value64, place, sizeof value64); return value64;
    default: UNREACHABLE();
    }
}

/* ---- defaults --------------------------------------------------------------------------------------------------- */

static void set_plain_default(const struct kafka__field *field, uint8_t *place)
{
    bool is_null = (field->flags & KAFKA__NULL) != 0;
    if ((field->flags & KAFKA__ARRAY) != 0) {
        kafka__array_set(place, NULL, is_null ? -1 : 0);
        return;
    }
    switch ((enum kafka__type)field->type) {
    case KAFKA__BOOL:
    case KAFKA__INT8:
    case KAFKA__INT16:
    case KAFKA__UINT16:
    case KAFKA__INT32:
    case KAFKA__UINT32:
    case KAFKA__INT64:
    case KAFKA__FLOAT64:
        store_number((enum kafka__type)field->type, place, (uint64_t)kafka__defaults[field->default_index]);
        break;
    case KAFKA__UUID: memset(place, 0, 16); break;
    case KAFKA__STRING:
    case KAFKA__BYTES: {
        struct kafka_text text = {.at = NULL, .size_bytes = is_null ? -1 : 0};
        memcpy(place, &text, sizeof text);
        break;
    }
    case KAFKA__RECORDS: {
        struct kafka_records records = {.at = NULL, .size_bytes = is_null ? -1 : 0, .splice = 0};
        memcpy(place, &records, sizeof records);
        break;
    }
    case KAFKA__STRUCT: {
        void *none = NULL;
        CHECK((field->flags & KAFKA__POINTER) != 0);
        memcpy(place, &none, sizeof none);
        break;
    }
    }
}

void kafka__struct_init(const struct kafka__struct *type, uint8_t *value)
{
    memset(value, 0, type->size_bytes);
    const struct kafka__set *sets = &kafka__sets[type->set_first];
    for (uint32_t i = 0; i < type->set_count; i++) {
        store_bytes(sets[i].bytes, value + sets[i].place, (uint64_t)kafka__defaults[sets[i].default_index]);
    }
}

void kafka__set_default(const struct kafka__field *field, uint8_t *place)
{
    if (kafka__is_struct_itself(field)) {
        kafka__struct_init(&kafka__structs[field->struct_index], place);
    } else {
        set_plain_default(field, place);
    }
}

static bool plain_is_default(const struct kafka__field *field, const uint8_t *place)
{
    int32_t null_or_empty = (field->flags & KAFKA__NULL) != 0 ? -1 : 0;
    if ((field->flags & KAFKA__ARRAY) != 0) { return kafka__array_at(place).count == null_or_empty; }
    switch ((enum kafka__type)field->type) {
    case KAFKA__BOOL:
    case KAFKA__INT8:
    case KAFKA__INT16:
    case KAFKA__UINT16:
    case KAFKA__INT32:
    case KAFKA__UINT32:
    case KAFKA__INT64:
    case KAFKA__FLOAT64:
        return load_number((enum kafka__type)field->type, place) == kafka__defaults[field->default_index];
    case KAFKA__UUID: {
        struct base_uuid uuid;
        memcpy(&uuid, place, sizeof uuid);
        return base_uuid_is_none(uuid);
    }
    case KAFKA__STRING:
    case KAFKA__BYTES: return load_text(place).size_bytes == null_or_empty;
    case KAFKA__RECORDS: return load_records(place).size_bytes == null_or_empty;
    case KAFKA__STRUCT: return load_pointer(place) == NULL;
    }
    UNREACHABLE();
}

bool kafka__field_is_default(const struct kafka__field *field, const uint8_t *place)
{
    if (!kafka__is_struct_itself(field)) { return plain_is_default(field, place); }
    struct walk walk;
    walk.depth = 0;
    uint8_t *value = NULL; /* the walk writes nothing here; it has one kind of pointer for both uses */
    memcpy(&value, &place, sizeof value);
    push(&walk, &kafka__structs[field->struct_index], value, NULL, 1);
    for (struct frame *frame = next_field(&walk); frame != NULL; frame = next_field(&walk)) {
        const struct kafka__field *inner = field_of(frame);
        uint8_t *at = frame->value + inner->place;
        if (kafka__is_struct_itself(inner)) {
            push(&walk, &kafka__structs[inner->struct_index], at, NULL, 1);
        } else if (!plain_is_default(inner, at)) {
            return false;
        }
    }
    return true;
}

void kafka__init_struct(uint32_t struct_index, void *value)
{
    kafka__struct_init(&kafka__structs[struct_index], value);
}

void *kafka__take_structs(uint32_t struct_index, struct base_arena *arena, int32_t count)
{
    CHECK(count >= 0);
    const struct kafka__struct *type = &kafka__structs[struct_index];
    size_t size_bytes;
    if (!base_mul_size((size_t)count, type->size_bytes, &size_bytes)) { return NULL; }
    uint8_t *items = base_arena_take(arena, size_bytes); /* not zeroed first: each struct is written whole below */
    if (items == NULL) { return NULL; }
    if (count > 0) { kafka__struct_init(type, items); }
    for (int32_t i = 1; i < count; i++) { memcpy(items + (size_t)i * type->size_bytes, items, type->size_bytes); }
    return items;
}

void kafka_init(enum kafka_message message, void *value)
{
    CHECK((uint32_t)message < KAFKA_MESSAGE_COUNT);
    kafka__struct_init(&kafka__structs[kafka__messages[message].struct_index], value);
}

/* ---- equality --------------------------------------------------------------------------------------------------- */

static bool texts_are_equal(struct kafka_text a, struct kafka_text b)
{
    if (a.size_bytes != b.size_bytes) { return false; }
    return a.size_bytes <= 0 || memcmp(a.at, b.at, (size_t)a.size_bytes) == 0;
}

static bool scalars_are_equal(enum kafka__type type, const uint8_t *a, const uint8_t *b)
{
    if (type == KAFKA__STRING || type == KAFKA__BYTES) { return texts_are_equal(load_text(a), load_text(b)); }
    if (type != KAFKA__RECORDS) { return memcmp(a, b, kafka__scalar_bytes(type)) == 0; }
    struct kafka_records x = load_records(a);
    struct kafka_records y = load_records(b);
    if (x.size_bytes != y.size_bytes || x.splice != y.splice) { return false; }
    return x.size_bytes <= 0 || x.splice != 0 || memcmp(x.at, y.at, (size_t)x.size_bytes) == 0;
}

/* Equal so far; what hangs on the field is pushed. */
static bool fields_are_equal(struct walk *walk, const struct kafka__field *field, uint8_t *a, uint8_t *b)
{
    enum kafka__type type = (enum kafka__type)field->type;
    if ((field->flags & KAFKA__ARRAY) != 0) {
        struct kafka__array x = kafka__array_at(a);
        struct kafka__array y = kafka__array_at(b);
        if (x.count != y.count) { return false; }
        if (x.count <= 0) { return true; }
        if (type == KAFKA__STRUCT) {
            push(walk, &kafka__structs[field->struct_index], x.at, y.at, x.count);
            return true;
        }
        size_t item_bytes = kafka__scalar_bytes(type);
        for (size_t i = 0; i < (size_t)x.count; i++) {
            if (!scalars_are_equal(type, (uint8_t *)x.at + i * item_bytes, (uint8_t *)y.at + i * item_bytes)) {
                return false;
            }
        }
        return true;
    }
    if (type != KAFKA__STRUCT) { return scalars_are_equal(type, a, b); }
    if ((field->flags & KAFKA__POINTER) != 0) {
        a = load_pointer(a);
        b = load_pointer(b);
        if (a == NULL || b == NULL) { return a == b; }
    }
    push(walk, &kafka__structs[field->struct_index], a, b, 1);
    return true;
}

bool kafka_equal(enum kafka_message message, const void *a, const void *b)
{
    CHECK((uint32_t)message < KAFKA_MESSAGE_COUNT);
    uint8_t *x = NULL; /* only read */
    uint8_t *y = NULL;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    struct walk walk;
    walk.depth = 0;
    push(&walk, &kafka__structs[kafka__messages[message].struct_index], x, y, 1);
    for (struct frame *frame = next_field(&walk); frame != NULL; frame = next_field(&walk)) {
        const struct kafka__field *field = field_of(frame);
        if (!fields_are_equal(&walk, field, frame->value + field->place, frame->other + field->place)) { return false; }
    }
    return true;
}

/* ---- dice ------------------------------------------------------------------------------------------------------- */

struct dice {
    struct base_prng *prng;
    struct base_arena *arena;
    bool is_full;
};

/* Mostly short; sometimes past the places where a compact length takes one byte more. */
static int32_t random_size(struct base_prng *prng)
{
    uint64_t roll = base_prng_below(prng, 4096);
    if (roll == 0) { return (int32_t)(16380 + base_prng_below(prng, 8)); }
    if (roll < 64) { return (int32_t)(124 + base_prng_below(prng, 8)); }
    return (int32_t)base_prng_below(prng, 12);
}

static struct kafka_text random_text(struct dice *dice, bool is_words)
{
    int32_t size = random_size(dice->prng);
    uint8_t *at = base_arena_take_bytes(dice->arena, (size_t)size + 1);
    if (at == NULL) {
        dice->is_full = true;
        return kafka_text_of(NULL, 0);
    }
    base_prng_fill(dice->prng, at, (size_t)size);
    for (int32_t i = 0; is_words && i < size; i++) { at[i] = (uint8_t)(0x20 + at[i] % 95); }
    if (is_words && size >= 2 && at[0] < 0x40) { /* UTF-8 of two bytes, now and then */
        at[0] = 0xc3;
        at[1] = 0xa9;
    }
    return kafka_text_of(at, (size_t)size);
}

static void random_scalar(struct dice *dice, enum kafka__type type, uint8_t *place)
{
    switch (type) {
    case KAFKA__BOOL: *place = (uint8_t)base_prng_below(dice->prng, 2); break;
    case KAFKA__INT8:
    case KAFKA__INT16:
    case KAFKA__UINT16:
    case KAFKA__INT32:
    case KAFKA__UINT32:
    case KAFKA__INT64:
    case KAFKA__FLOAT64: store_number(type, place, base_prng_u64(dice->prng)); break;
    case KAFKA__UUID: base_prng_fill(dice->prng, place, 16); break;
    case KAFKA__STRING:
    case KAFKA__BYTES: {
        struct kafka_text text = random_text(dice, type == KAFKA__STRING);
        memcpy(place, &text, sizeof text);
        break;
    }
    case KAFKA__RECORDS: {
        struct kafka_text text = random_text(dice, false);
        struct kafka_records records = {.at = text.at, .size_bytes = text.size_bytes, .splice = 0};
        memcpy(place, &records, sizeof records);
        break;
    }
    case KAFKA__STRUCT: UNREACHABLE();
    }
}

static void set_null(const struct kafka__field *field, uint8_t *place)
{
    struct kafka_text text = kafka_text_null();
    struct kafka_records records = kafka_records_null();
    void *none = NULL;
    if ((field->flags & KAFKA__ARRAY) != 0) {
        kafka__array_set(place, NULL, -1);
    } else if (field->type == KAFKA__RECORDS) {
        memcpy(place, &records, sizeof records);
    } else if (field->type == KAFKA__STRUCT) {
        memcpy(place, &none, sizeof none);
    } else {
        memcpy(place, &text, sizeof text);
    }
}

static void random_array(struct walk *walk, struct dice *dice, const struct kafka__field *field, uint8_t *place)
{
    enum kafka__type type = (enum kafka__type)field->type;
    int32_t count = (int32_t)(1 + base_prng_below(dice->prng, 3));
    if (type != KAFKA__STRUCT && base_prng_chance(dice->prng, 1, 256)) {
        count = (int32_t)(125 + base_prng_below(dice->prng, 6)); /* where a compact count takes one byte more */
    }
    if (type == KAFKA__STRUCT) {
        void *items = kafka__take_structs(field->struct_index, dice->arena, count);
        dice->is_full = dice->is_full || items == NULL;
        if (items == NULL) { return; }
        kafka__array_set(place, items, count);
        push(walk, &kafka__structs[field->struct_index], items, NULL, count);
        return;
    }
    size_t item_bytes = kafka__scalar_bytes(type);
    uint8_t *items = base_arena_take_array(dice->arena, (size_t)count, item_bytes);
    dice->is_full = dice->is_full || items == NULL;
    if (items == NULL) { return; }
    kafka__array_set(place, items, count);
    for (size_t i = 0; i < (size_t)count; i++) { random_scalar(dice, type, items + i * item_bytes); }
}

static void random_field(struct walk *walk, struct dice *dice, const struct frame *frame, int16_t version)
{
    const struct kafka__field *field = field_of(frame);
    uint8_t *place = frame->value + field->place;
    bool is_tagged = frame->field > frame->type->regular_count;
    bool may_be_null = kafka__may_be_null(field, version);
    bool is_set = base_prng_chance(dice->prng, 1, 2);
    bool must_be_set = (field->flags & KAFKA__NULL) != 0 && !may_be_null; /* a default that the version can't say */
    if (!is_set && !must_be_set && (is_tagged || !kafka__is_struct_itself(field))) { return; }
    if (may_be_null && base_prng_chance(dice->prng, 1, 2)) {
        set_null(field, place);
    } else if ((field->flags & KAFKA__ARRAY) != 0) {
        random_array(walk, dice, field, place);
    } else if (field->type != KAFKA__STRUCT) {
        random_scalar(dice, (enum kafka__type)field->type, place);
    } else if ((field->flags & KAFKA__POINTER) == 0) {
        push(walk, &kafka__structs[field->struct_index], place, NULL, 1);
    } else {
        void *pointed = kafka__take_structs(field->struct_index, dice->arena, 1);
        dice->is_full = dice->is_full || pointed == NULL;
        if (pointed == NULL) { return; }
        memcpy(place, &pointed, sizeof pointed);
        push(walk, &kafka__structs[field->struct_index], pointed, NULL, 1);
    }
}

enum base_rc kafka_random(enum kafka_message message, int16_t version, struct base_prng *prng, struct base_arena *arena,
                          void *out)
{
    CHECK((uint32_t)message < KAFKA_MESSAGE_COUNT);
    const struct kafka__message *row = &kafka__messages[message];
    if (!kafka__has_version(row, version)) { return BASE_BAD; }
    size_t mark = base_arena_mark(arena);
    struct dice dice = {.prng = prng, .arena = arena, .is_full = false};
    struct walk walk;
    walk.depth = 0;
    kafka_init(message, out);
    push(&walk, &kafka__structs[row->struct_index], out, NULL, 1);
    for (struct frame *frame = next_field(&walk); frame != NULL; frame = next_field(&walk)) {
        if (kafka__in_version(field_of(frame), version)) { random_field(&walk, &dice, frame, version); }
        if (dice.is_full) {
            base_arena_reset(arena, mark);
            return BASE_FULL;
        }
    }
    return BASE_OK;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void print_text(struct kafka_text words, struct base_text *text)
{
    if (words.size_bytes < 0) {
        base_text_add(text, "null");
        return;
    }
    base_text_add(text, "\"");
    for (int32_t i = 0; i < words.size_bytes && !text->is_cut; i++) {
        uint8_t b = words.at[i];
        if (b >= 0x20 && b < 0x7f && b != '"' && b != '\\') {
            base_text_add_slice(text, base_slice_of(&words.at[i], 1));
        } else {
            base_text_add(text, "\\x");
            base_text_add_hex(text, b, 2);
        }
    }
    base_text_add(text, "\"");
}

static void print_size(int32_t size_bytes, struct base_text *text)
{
    if (size_bytes < 0) {
        base_text_add(text, "null");
        return;
    }
    base_text_add(text, "<");
    base_text_add_i64(text, size_bytes);
    base_text_add(text, " bytes>");
}

static void print_scalar(enum kafka__type type, const uint8_t *place, struct base_text *text)
{
    struct base_uuid uuid;
    switch (type) {
    case KAFKA__BOOL: base_text_add(text, *place != 0 ? "true" : "false"); break;
    case KAFKA__INT8:
    case KAFKA__INT16:
    case KAFKA__UINT16:
    case KAFKA__INT32:
    case KAFKA__UINT32:
    case KAFKA__INT64: base_text_add_i64(text, load_number(type, place)); break;
    case KAFKA__FLOAT64:
        base_text_add(text, "0x");
        base_text_add_hex(text, (uint64_t)load_number(type, place), 16);
        break;
    case KAFKA__UUID:
        memcpy(&uuid, place, sizeof uuid);
        base_text_add_uuid(text, uuid);
        break;
    case KAFKA__STRING: print_text(load_text(place), text); break;
    case KAFKA__BYTES: print_size(load_text(place).size_bytes, text); break;
    case KAFKA__RECORDS: print_size(load_records(place).size_bytes, text); break;
    case KAFKA__STRUCT: UNREACHABLE();
    }
}

static void print_field(struct walk *walk, const struct kafka__field *field, uint8_t *place, struct base_text *text)
{
    enum kafka__type type = (enum kafka__type)field->type;
    if ((field->flags & KAFKA__ARRAY) != 0) {
        struct kafka__array array = kafka__array_at(place);
        if (array.count <= 0) {
            base_text_add(text, array.count < 0 ? "null" : "[]");
        } else if (type == KAFKA__STRUCT) {
            base_text_add(text, "[{");
            push(walk, &kafka__structs[field->struct_index], array.at, NULL, array.count);
        } else {
            for (size_t i = 0; i < (size_t)array.count && !text->is_cut; i++) {
                base_text_add(text, i == 0 ? "[" : " ");
                print_scalar(type, (uint8_t *)array.at + i * kafka__scalar_bytes(type), text);
            }
            base_text_add(text, "]");
        }
        return;
    }
    if (type != KAFKA__STRUCT) {
        print_scalar(type, place, text);
        return;
    }
    if ((field->flags & KAFKA__POINTER) != 0) { place = load_pointer(place); }
    if (place == NULL) {
        base_text_add(text, "null");
        return;
    }
    base_text_add(text, "{");
    push(walk, &kafka__structs[field->struct_index], place, NULL, 1);
}

/* The field that holds the items of the frame at `depth` is an array. */
static bool is_array_frame(const struct walk *walk, uint32_t depth)
{
    return depth > 0 && (field_of(&walk->frames[depth - 1])->flags & KAFKA__ARRAY) != 0;
}

void kafka_print(enum kafka_message message, const void *value, int16_t version, struct base_text *text)
{
    CHECK((uint32_t)message < KAFKA_MESSAGE_COUNT);
    uint8_t *at = NULL; /* only read */
    memcpy(&at, &value, sizeof at);
    struct walk walk;
    walk.depth = 0;
    push(&walk, &kafka__structs[kafka__messages[message].struct_index], at, NULL, 1);
    base_text_add(text, "{");
    bool is_first = true;
    while (walk.depth > 0 && !text->is_cut) {
        struct frame *frame = &walk.frames[walk.depth - 1];
        if (frame->field == frame->type->field_count) {
            is_first = false;
            if (frame->items_left > 1) {
                base_text_add(text, "} {");
                is_first = true;
                frame->items_left -= 1;
                frame->field = 0;
                frame->value += frame->type->size_bytes;
            } else {
                walk.depth -= 1;
                base_text_add(text, is_array_frame(&walk, walk.depth) ? "}]" : "}");
            }
            continue;
        }
        frame->field += 1;
        const struct kafka__field *field = field_of(frame);
        uint8_t *place = frame->value + field->place;
        if (!kafka__in_version(field, version)) { continue; }
        if (frame->field > frame->type->regular_count && kafka__field_is_default(field, place)) { continue; }
        if (!is_first) { base_text_add(text, " "); }
        base_text_add(text, &kafka__names[field->name]);
        base_text_add(text, "=");
        uint32_t depth = walk.depth;
        print_field(&walk, field, place, text);
        is_first = walk.depth > depth;
    }
}
