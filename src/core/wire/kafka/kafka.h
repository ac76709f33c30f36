/* kafka.h: Kafka's messages: bytes to structs and back, frames, api versions, error codes.
 *
 * Room    core/wire/kafka. Uses base only.
 * Owns    nothing. Structs are the caller's; texts, bytes and records point into somebody's bytes; arrays point into an
 *         arena or wherever the caller put them.
 * Limits  decoding takes from the arena at most 16 bytes for each byte of input, at most 1,000 tags a struct; a text has
 *         at most 32,767 bytes. Nothing recurses, nothing is kept between calls.
 *
 * Structs come from the schema files (docs/formats/schema.md), one header for each: #include "wire/kafka/produce.h".
 * ProduceRequest is `struct kafka_produce_request`; a struct TopicProduceData within it is
 * `struct kafka_produce_request_topic_produce_data`; a field TimeoutMs is `timeout_ms` (a word of C gets a trailing _).
 *
 *     schema              C
 *     bool int8 .. int64  bool, int8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t
 *     uuid                struct base_uuid
 *     string              struct kafka_text       null: size_bytes is -1
 *     bytes               struct kafka_bytes      null: size_bytes is -1
 *     records             struct kafka_records    null: size_bytes is -1
 *     float64             struct kafka_float64    the 64 bits as they are
 *     []X Things          X *things; int32_t things_count;   null: things_count is -1
 *     a struct            the struct itself; one that may be null is a pointer, NULL when null
 *
 * For each message M (kafka_produce_request, ...), all versions by parameter:
 *
 *     void    M_init(struct M *)                                  every field at its default; do this first, always
 *     base_rc M_decode(bytes, version, arena, struct M *out)      the whole of `bytes`; trailing bytes are BASE_BAD
 *     base_rc M_decode_front(..., size_t *used_bytes_out)         the front of `bytes`
 *     base_rc M_size(const struct M *, version, struct kafka_size *size_out)
 *     base_rc M_encode(const struct M *, version, struct kafka_writer *)
 *     void    M_print(const struct M *, version, struct base_text *)
 *     base_rc M_random(version, prng, arena, struct M *out)
 *     bool    M_equal(const struct M *, const struct M *)
 *
 * and for each struct S, nested ones too: S_init, and S_take(arena, count): an array with every field at its default.
 * The same by number: kafka_decode(KAFKA_MESSAGE_PRODUCE_REQUEST, ...) and so on, below.
 *
 *     struct kafka_heartbeat_response answer;
 *     kafka_heartbeat_response_init(&answer);
 *     answer.error_code = KAFKA_ERROR_UNKNOWN_MEMBER_ID;
 *     struct kafka_size size;
 *     if (kafka_response_size(KAFKA_MESSAGE_HEARTBEAT_RESPONSE, &answer, version, &size) != BASE_OK) { ... }
 *     ... a buffer of size.memory_bytes ...
 *     kafka_writer_init(&writer, buffer, size.memory_bytes);
 *     if (kafka_response_encode(KAFKA_MESSAGE_HEARTBEAT_RESPONSE, &answer, version, correlation_id, &writer) ...
 *
 * Records that lie elsewhere (a file): set size_bytes and a nonzero `splice`, a word of your own. The encoder writes their
 * length and notes in writer.splices where they belong; sizes and the frame's length count them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KAFKA_KAFKA_H
#define KAFKA_KAFKA_H

#include "base/arena.h"
#include "base/ids.h"
#include "base/prng.h"
#include "base/slice.h"
#include "base/text.h"
#include "wire/kafka/kafka_names.h"

#define KAFKA_TAGS_MAX       1000 /* tagged fields of one struct, known and unknown */
#define KAFKA_TEXT_BYTES_MAX 32767
#define KAFKA_ARENA_FACTOR   16 /* arena bytes that decoding takes, at most, for each byte of input */

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* Twelve bytes, because the shortest text on the wire is one byte and memory may grow sixteenfold at most. Take no
 * address of `at`: it is aligned to 4. */
struct __attribute__((packed, aligned(4))) kafka_text {
    const uint8_t *at;  /* may be NULL when there are no bytes */
    int32_t size_bytes; /* -1: null */
};

struct __attribute__((packed, aligned(4))) kafka_bytes {
    const uint8_t *at;
    int32_t size_bytes; /* -1: null */
};

struct kafka_records {
    const uint8_t *at;
    int32_t size_bytes; /* -1: null */
    uint32_t splice;    /* 0: the bytes are at `at`. Else they lie elsewhere, and this is their owner's word for them */
};

struct kafka_float64 {
    uint64_t bits; /* IEEE 754; the core does not count with it */
};

static inline struct kafka_text kafka_text_of(const void *at, size_t size_bytes)
{
    CHECK(size_bytes <= INT32_MAX);
    return (struct kafka_text){.at = at, .size_bytes = (int32_t)size_bytes};
}
/* What Kafka says with INVALID_REQUEST when it has no more to say. */
#define KAFKA_WORDS_INVALID_REQUEST                                                                                  \
    "This most likely occurs because of a request being malformed by the client library or the message was sent to " \
    "an incompatible broker. See the broker logs for more details."

static inline struct kafka_text kafka_text_words(const char *words) { return kafka_text_of(words, strlen(words)); }
static inline struct kafka_text kafka_text_of_slice(struct base_slice slice)
{
    return kafka_text_of(slice.at, slice.size_bytes);
}
static inline struct kafka_text kafka_text_null(void) { return (struct kafka_text){.at = NULL, .size_bytes = -1}; }
static inline bool kafka_text_is_null(struct kafka_text text) { return text.size_bytes < 0; }
/* Null becomes empty. */
static inline struct base_slice kafka_text_slice(struct kafka_text text)
{
    return base_slice_of(text.at, text.size_bytes < 0 ? 0 : (size_t)text.size_bytes);
}
static inline bool kafka_text_equal(struct kafka_text a, struct kafka_text b)
{
    return kafka_text_is_null(a) == kafka_text_is_null(b) && base_slice_equal(kafka_text_slice(a), kafka_text_slice(b));
}
static inline bool kafka_text_is(struct kafka_text text, const char *words)
{
    return !kafka_text_is_null(text) && base_slice_equal(kafka_text_slice(text), base_slice_text(words));
}

static inline struct kafka_bytes kafka_bytes_of(const void *at, size_t size_bytes)
{
    CHECK(size_bytes <= INT32_MAX);
    return (struct kafka_bytes){.at = at, .size_bytes = (int32_t)size_bytes};
}
static inline struct kafka_bytes kafka_bytes_null(void) { return (struct kafka_bytes){.at = NULL, .size_bytes = -1}; }
static inline bool kafka_bytes_is_null(struct kafka_bytes bytes) { return bytes.size_bytes < 0; }
static inline struct base_slice kafka_bytes_slice(struct kafka_bytes bytes)
{
    return base_slice_of(bytes.at, bytes.size_bytes < 0 ? 0 : (size_t)bytes.size_bytes);
}

static inline struct kafka_records kafka_records_of(const void *at, size_t size_bytes)
{
    CHECK(size_bytes <= INT32_MAX);
    return (struct kafka_records){.at = at, .size_bytes = (int32_t)size_bytes, .splice = 0};
}
/* Records that lie elsewhere; splice is not 0. */
static inline struct kafka_records kafka_records_elsewhere(size_t size_bytes, uint32_t splice)
{
    CHECK(size_bytes <= INT32_MAX);
    CHECK(splice != 0);
    return (struct kafka_records){.at = NULL, .size_bytes = (int32_t)size_bytes, .splice = splice};
}
static inline struct kafka_records kafka_records_null(void)
{
    return (struct kafka_records){.at = NULL, .size_bytes = -1, .splice = 0};
}
static inline bool kafka_records_is_null(struct kafka_records records) { return records.size_bytes < 0; }
/* The bytes of records that are in memory; null becomes empty. */
static inline struct base_slice kafka_records_slice(struct kafka_records records)
{
    CHECK(records.splice == 0);
    return base_slice_of(records.at, records.size_bytes < 0 ? 0 : (size_t)records.size_bytes);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

struct kafka_splice {
    size_t at_bytes;   /* the bytes belong before this place of the writer's memory */
    size_t size_bytes; /* > 0 */
    uint32_t splice;   /* as in kafka_records */
};

struct kafka_size {
    size_t memory_bytes; /* what the encoder writes */
    size_t splice_bytes; /* what the caller sends in between; the sum of both is the size on the wire */
    uint32_t splices_count;
};

struct kafka_writer {
    uint8_t *at;
    size_t size_bytes;
    size_t used_bytes;
    struct kafka_splice *splices;
    uint32_t splices_max;
    uint32_t splices_count;
    uint64_t unknown_tags_seed; /* not 0: tags that nobody knows are added, drawn from it; for tests and rude clients */
};

static inline void kafka_writer_init(struct kafka_writer *writer, void *at, size_t size_bytes)
{
    *writer = (struct kafka_writer){.at = at, .size_bytes = size_bytes};
}
static inline void kafka_writer_use_splices(struct kafka_writer *writer, struct kafka_splice *splices,
                                            uint32_t splices_max)
{
    writer->splices = splices;
    writer->splices_max = splices_max;
    writer->splices_count = 0;
}

/* ---- messages by number ----------------------------------------------------------------------------------------- */

enum kafka_listener { KAFKA_LISTENER_BROKER = 1, KAFKA_LISTENER_CONTROLLER = 2 }; /* bits */

struct kafka_api_info {
    const char *name; /* Produce */
    int16_t key;
    int16_t version_min;
    int16_t version_max;
    int16_t version_stable; /* the last that Kafka itself advertises */
    int16_t flexible_from;  /* INT16_MAX: never */
    uint8_t listeners;      /* of Kafka's listeners, where it is answered */
    enum kafka_message request;
    enum kafka_message response;
};

/* NULL: no such api, or one that Kafka has removed. */
const struct kafka_api_info *kafka_api_info(int16_t api_key);
/* The api number `index` (below KAFKA_API_COUNT), by ascending key. */
const struct kafka_api_info *kafka_api_at(uint32_t index);
bool kafka_api_has_version(int16_t api_key, int16_t version);

/* KAFKA_MESSAGE_NONE: no such api. */
enum kafka_message kafka_request_message(int16_t api_key);
enum kafka_message kafka_response_message(int16_t api_key);
/* The message of a record in the log of the cluster metadata; KAFKA_MESSAGE_NONE: no such type. */
enum kafka_message kafka_record_message(uint32_t record_type);

const char *kafka_message_name(enum kafka_message message);
int16_t kafka_message_version_min(enum kafka_message message);
int16_t kafka_message_version_max(enum kafka_message message);
bool kafka_message_is_flexible(enum kafka_message message, int16_t version);
size_t kafka_message_struct_bytes(enum kafka_message message);

void kafka_init(enum kafka_message message, void *value);

/* Every text, bytes and records points into `bytes`, every array into `arena`.
 * Fails   BASE_BAD: not such a message, or no such version. BASE_FULL: the arena is too small. *out is undefined then, and
 *         the arena is as it was. */
MUST_USE
enum base_rc kafka_decode(enum kafka_message message, struct base_slice bytes, int16_t version,
                          struct base_arena *arena, void *out);
MUST_USE
enum base_rc kafka_decode_front(enum kafka_message message, struct base_slice bytes, int16_t version,
                                struct base_arena *arena, void *out, size_t *used_bytes_out);

/* Fails   BASE_BAD: the version can't say this: a field that it lacks is set and may not be ignored, a null where none may
 *         be, a text too long; or there is no such version. */
MUST_USE
enum base_rc kafka_size(enum kafka_message message, const void *value, int16_t version, struct kafka_size *size_out);

/* Appends to the writer exactly what kafka_size counted.
 * Fails   BASE_BAD as kafka_size; BASE_FULL: no room for bytes or splices. The writer is then as it was. */
MUST_USE
enum base_rc kafka_encode(enum kafka_message message, const void *value, int16_t version, struct kafka_writer *writer);
/* The size with the unknown tags that a writer with this seed would add. */
MUST_USE
enum base_rc kafka_size_unknown_tags(enum kafka_message message, const void *value, int16_t version,
                                     uint64_t unknown_tags_seed, struct kafka_size *size_out);

/* One line: {ErrorCode=0 Members=[{MemberId="a" Metadata=<12 bytes>}]}. Stops once the text is cut. */
void kafka_print(enum kafka_message message, const void *value, int16_t version, struct base_text *text);

/* Any value that the version can say: each field, null and tag is set with probability one half. BASE_FULL: arena. */
MUST_USE
enum base_rc kafka_random(enum kafka_message message, int16_t version, struct base_prng *prng, struct base_arena *arena,
                          void *out);

/* Field by field, texts and records by their bytes; null differs from empty. */
bool kafka_equal(enum kafka_message message, const void *a, const void *b);

/* ---- frames: four bytes of size, a header, a message ------------------------------------------------------------ */

struct kafka_request_header; /* wire/kafka/header.h */

int16_t kafka_request_header_version(int16_t api_key, int16_t version);
int16_t kafka_response_header_version(int16_t api_key, int16_t version);

/* Takes the header off a request. `frame` is without the four bytes of size.
 * Fails   BASE_MISSING: no such api. BASE_BAD: no header. The version may be one that the api lacks: look. */
MUST_USE
enum base_rc kafka_request_open(struct base_slice frame, struct kafka_request_header *header_out,
                                struct base_slice *body_out);
/* Takes the header off the answer to a request of that api and version. */
MUST_USE
enum base_rc kafka_response_open(struct base_slice frame, int16_t api_key, int16_t version, int32_t *correlation_id_out,
                                 struct base_slice *body_out);

/* Whole frames, size and header included. Fails as kafka_size and kafka_encode; BASE_FULL too when the frame would be longer
 * than INT32_MAX. */
MUST_USE
enum base_rc kafka_response_size(enum kafka_message message, const void *value, int16_t version,
                                 struct kafka_size *size_out);
MUST_USE
enum base_rc kafka_response_encode(enum kafka_message message, const void *value, int16_t version,
                                   int32_t correlation_id, struct kafka_writer *writer);
MUST_USE
enum base_rc kafka_request_size(enum kafka_message message, const void *value, int16_t version,
                                struct kafka_text client_id, struct kafka_size *size_out);
MUST_USE
enum base_rc kafka_request_encode(enum kafka_message message, const void *value, int16_t version,
                                  int32_t correlation_id, struct kafka_text client_id, struct kafka_writer *writer);

/* ---- records of the cluster metadata: a frame version, a type and a version as varints, then the message ---------- */

/* Fails   BASE_BAD: not such a frame. The type may be one that is unknown here: kafka_record_message says. */
MUST_USE
enum base_rc kafka_record_open(struct base_slice record, uint32_t *record_type_out, int16_t *version_out,
                               struct base_slice *body_out);
/* `message` is a metadata record. Fail as kafka_size and kafka_encode. */
MUST_USE
enum base_rc kafka_record_size(enum kafka_message message, const void *value, int16_t version,
                               struct kafka_size *size_out);
MUST_USE
enum base_rc kafka_record_encode(enum kafka_message message, const void *value, int16_t version,
                                 struct kafka_writer *writer);

/* ---- error codes ------------------------------------------------------------------------------------------------ */

const char *kafka_error_name(int16_t code); /* UNKNOWN_MEMBER_ID; an unknown code: UNKNOWN_ERROR_CODE */
bool kafka_error_is_retriable(int16_t code);
/* The code of a name such as UNKNOWN_MEMBER_ID. BASE_MISSING: none. */
MUST_USE
enum base_rc kafka_error_from_name(struct base_slice name, int16_t *code_out);

/* ---- for the generated headers ---------------------------------------------------------------------------------- */

void kafka__init_struct(uint32_t struct_index, void *value);
MUST_USE
void *kafka__take_structs(uint32_t struct_index, struct base_arena *arena, int32_t count);

#endif
