/* kafka__tables.h: the schema as the coders walk it. tables.c is generated; this is its vocabulary.
 *
 * Room    core/wire/kafka, private.
 * Rule    no pointers but in small tables: names, structs and defaults are numbers, so that the tables are plain constants.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KAFKA__TABLES_H
#define KAFKA__TABLES_H

#include "wire/kafka/kafka.h"

#define KAFKA__DEPTH_MAX 8 /* structs within structs; the generator holds the schema to it */

enum kafka__type {
    KAFKA__BOOL,
    KAFKA__INT8,
    KAFKA__INT16,
    KAFKA__UINT16,
    KAFKA__INT32,
    KAFKA__UINT32,
    KAFKA__INT64,
    KAFKA__FLOAT64,
    KAFKA__UUID,
    KAFKA__STRING,
    KAFKA__BYTES,
    KAFKA__RECORDS,
    KAFKA__STRUCT,
};

enum kafka__flag {
    KAFKA__ARRAY = 1,
    KAFKA__POINTER = 2,   /* a struct that may be null: a pointer in memory, one byte before it on the wire */
    KAFKA__IGNORABLE = 4, /* may be set in versions that lack it */
    KAFKA__RIGID = 8,     /* its length is never compact */
    KAFKA__NULL = 16,     /* the default is null */
    KAFKA__ZERO = 32,     /* the default is all zero bytes */
};

struct kafka__field {
    uint16_t name;
    uint16_t place; /* in the struct */
    uint16_t struct_index;
    uint16_t tag;
    uint8_t default_index;
    uint8_t type;
    uint8_t flags;
    uint8_t first, last; /* versions; 255: all later ones */
    uint8_t null_first, null_last;
    uint8_t reserved;
};

struct kafka__struct {
    uint16_t field_first;
    uint16_t field_count;
    uint16_t regular_count; /* the fields after these are tagged, by ascending tag */
    uint16_t size_bytes;
    uint16_t wire_bytes_min; /* the least that one takes on the wire, in any version */
    uint16_t set_first;      /* its rows of kafka__sets: what is not zero at its defaults */
    uint16_t set_count;
};

/* A default that is not zero, in the struct or in one that it holds: a number, or the -1 of what is null. */
struct kafka__set {
    uint16_t place;
    uint8_t bytes;
    uint8_t default_index;
};

enum kafka__kind {
    KAFKA__KIND_REQUEST,
    KAFKA__KIND_RESPONSE,
    KAFKA__KIND_HEADER,
    KAFKA__KIND_DATA,
    KAFKA__KIND_METADATA,
};

struct kafka__message {
    uint16_t name;
    uint16_t struct_index;
    int16_t key; /* -1: none */
    uint8_t kind;
    uint8_t version_min, version_max;
    uint8_t flexible_from; /* 255: never */
    uint8_t listeners;
    bool is_unstable;
};

struct kafka__error {
    const char *name;
    int16_t code;
    bool is_retriable;
};

extern const struct kafka__field kafka__fields[];
extern const struct kafka__struct kafka__structs[];
extern const struct kafka__set kafka__sets[];
extern const struct kafka__message kafka__messages[];
extern const int64_t kafka__defaults[];
extern const char kafka__names[];
extern const struct kafka_api_info kafka__apis[];
extern const struct kafka__error kafka__errors[];
extern const uint32_t kafka__errors_count;

static inline bool kafka__in_version(const struct kafka__field *field, int16_t version)
{
    return version >= field->first && version <= field->last;
}
static inline bool kafka__may_be_null(const struct kafka__field *field, int16_t version)
{
    return version >= field->null_first && version <= field->null_last;
}
static inline bool kafka__is_struct_itself(const struct kafka__field *field)
{
    return field->type == KAFKA__STRUCT && (field->flags & (KAFKA__ARRAY | KAFKA__POINTER)) == 0;
}
static inline bool kafka__is_flexible(const struct kafka__message *message, int16_t version)
{
    return version >= message->flexible_from;
}
static inline bool kafka__has_version(const struct kafka__message *message, int16_t version)
{
    return version >= message->version_min && version <= message->version_max;
}

/* Bytes of one scalar in memory. */
size_t kafka__scalar_bytes(enum kafka__type type);

/* An array, as it stands in a struct: the count follows the pointer. */
struct kafka__array {
    void *at;
    int32_t count;
};
static inline struct kafka__array kafka__array_at(const uint8_t *place)
{
    struct kafka__array array = {NULL, 0};
    memcpy(&array.at, place, sizeof array.at);
    memcpy(&array.count, place + sizeof array.at, sizeof array.count);
    return array;
}
static inline void kafka__array_set(uint8_t *place, void *at, int32_t count)
{
    memcpy(place, &at, sizeof at);
    memcpy(place + sizeof at, &count, sizeof count);
}

/* A field at its default, whatever its bytes were. */
void kafka__set_default(const struct kafka__field *field, uint8_t *place);
/* A struct at its defaults, whatever its bytes were. */
void kafka__struct_init(const struct kafka__struct *type, uint8_t *value);
bool kafka__field_is_default(const struct kafka__field *field, const uint8_t *place);

#endif
