/* record.h: Kafka's record batch, version 2: view, validate, stamp, walk, build.
 *
 * Room    core/record. Uses base and codec.
 * Owns    nothing: views point into the bytes they were made from and live as long as those.
 * Rule    any bytes give an answer: a verdict, never a CHECK, and never a read past the end.
 * Limits  a batch is at most INT32_MAX bytes; what compressed records open to is limited by the caller.
 * Time    milliseconds since 1970, as Kafka's timestamps; -1: none.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include "base/arena.h"
#include "base/slice.h"
#include "codec/codec.h"

/* Where the fields stand. Base offset and length come before what the length counts; base offset, length, leader epoch and
 * magic come before what the crc covers. */
enum {
    REC_BASE_OFFSET_AT = 0,
    REC_LENGTH_AT = 8,
    REC_LEADER_EPOCH_AT = 12,
    REC_MAGIC_AT = 16,
    REC_CRC_AT = 17,
    REC_ATTRIBUTES_AT = 21,
    REC_LAST_OFFSET_DELTA_AT = 23,
    REC_BASE_TIMESTAMP_AT = 27,
    REC_MAX_TIMESTAMP_AT = 35,
    REC_PRODUCER_ID_AT = 43,
    REC_PRODUCER_EPOCH_AT = 51,
    REC_BASE_SEQUENCE_AT = 53,
    REC_RECORD_COUNT_AT = 57,
    REC_HEADER_BYTES = 61,       /* of a batch without records */
    REC_LENGTH_PREFIX_BYTES = 12 /* the size of a batch is its length field and these */
};

enum {
    REC_ATTRIBUTE_CODEC_MASK = 0x07,
    REC_ATTRIBUTE_LOG_APPEND_TIME = 0x08,
    REC_ATTRIBUTE_TRANSACTIONAL = 0x10,
    REC_ATTRIBUTE_CONTROL = 0x20,
    REC_ATTRIBUTE_DELETE_HORIZON = 0x40 /* the base timestamp is when tombstones and markers may go */
};

#define REC_NO_TIMESTAMP   INT64_C(-1)
#define REC_NO_PRODUCER_ID INT64_C(-1)
#define REC_NO_EPOCH       (-1)
#define REC_NO_SEQUENCE    (-1)

enum rec_verdict {
    REC_OK = 0,
    REC_END,        /* a walk is at its end */
    REC_INCOMPLETE, /* the bytes end inside a batch */
    /* of the batch */
    REC_BAD_LENGTH, /* less than a header */
    REC_BAD_MAGIC,  /* no magic that Kafka ever had */
    REC_OLD_MAGIC,  /* 0 or 1 */
    REC_BAD_CRC,
    REC_TOO_LARGE,        /* the batch is larger than the limit */
    REC_BAD_COUNT,        /* no record, or a negative number of them */
    REC_BAD_OFFSET_RANGE, /* last offset delta and count disagree, or the offsets overflow */
    REC_BAD_BASE_OFFSET,  /* a client's batch begins at 0 */
    REC_BAD_CODEC,        /* a compression number that does not exist, or is not allowed to this client */
    REC_CONTROL_REFUSED,  /* a client wrote control records */
    REC_BAD_SEQUENCE,     /* a producer id without a base sequence */
    REC_TRAILING_BYTES,   /* bytes after the one batch */
    /* of a record: rec_facts.bad_record_index names it */
    REC_BAD_RECORD,       /* its lengths don't add up */
    REC_BAD_OFFSET_DELTA, /* not 0, 1, 2, ... */
    REC_BAD_TIMESTAMP,    /* out of the topic's limits, or stamped as if by a broker */
    REC_KEY_MISSING,      /* in a compacted topic */
    /* of the compressed part */
    REC_BAD_COMPRESSION,  /* does not open */
    REC_OPENED_TOO_LARGE, /* opens to more than the limit */
    REC_NO_ROOM,          /* our own trouble: the memory handed over was too small to open it */
};

/* Kafka's error code for a produce request with such a batch (REC_OK: 0), and a sentence for its error message. */
int16_t rec_error_code(enum rec_verdict verdict);
const char *rec_verdict_text(enum rec_verdict verdict);

/* ---- one batch ---- */

struct rec_batch {
    const uint8_t *at; /* borrowed */
    size_t size_bytes; /* all of it, header included */
    int64_t base_offset;
    int64_t base_timestamp_ms;
    int64_t max_timestamp_ms;
    int64_t producer_id; /* -1: none */
    uint32_t crc;
    int32_t leader_epoch; /* -1: not assigned yet */
    int32_t last_offset_delta;
    int32_t base_sequence;  /* -1: none */
    int32_t record_count;   /* 0: emptied by compaction */
    int16_t producer_epoch; /* -1: none */
    uint16_t attributes;
};

/* The batch at the front of `bytes`; bytes after it are no matter. Holds afterwards: size, magic 2, a count and a last offset
 * delta that are not negative, offsets that don't overflow. The crc is not looked at.
 * Fails   REC_INCOMPLETE, REC_BAD_LENGTH, REC_BAD_MAGIC, REC_OLD_MAGIC, REC_BAD_COUNT, REC_BAD_OFFSET_RANGE. */
MUST_USE
enum rec_verdict rec_batch_view(struct base_slice bytes, struct rec_batch *batch_out);

/* The size of the batch at the front of `bytes`, from its first 12 bytes alone (they need not be followed by the rest).
 * Fails   REC_INCOMPLETE, REC_BAD_LENGTH. */
MUST_USE
enum rec_verdict rec_batch_size(struct base_slice bytes, size_t *size_bytes_out);

/* The next batch of `rest`, which then begins after it. REC_END: nothing is left. On any other verdict `rest` is as before. */
MUST_USE
enum rec_verdict rec_batch_next(struct base_slice *rest, struct rec_batch *batch_out);

bool rec_crc_is_right(const struct rec_batch *batch);

static inline uint32_t rec_codec_number(const struct rec_batch *batch) /* may be one that codec does not know */
{
    return batch->attributes & (uint32_t)REC_ATTRIBUTE_CODEC_MASK;
}
static inline bool rec_is_compressed(const struct rec_batch *batch) { return rec_codec_number(batch) != 0; }
static inline bool rec_is_transactional(const struct rec_batch *batch)
{
    return (batch->attributes & REC_ATTRIBUTE_TRANSACTIONAL) != 0;
}
static inline bool rec_is_control(const struct rec_batch *batch)
{
    return (batch->attributes & REC_ATTRIBUTE_CONTROL) != 0;
}
static inline bool rec_is_log_append_time(const struct rec_batch *batch)
{
    return (batch->attributes & REC_ATTRIBUTE_LOG_APPEND_TIME) != 0;
}
static inline bool rec_has_producer(const struct rec_batch *batch) { return batch->producer_id > REC_NO_PRODUCER_ID; }
static inline int64_t rec_offset_last(const struct rec_batch *batch)
{
    return batch->base_offset + batch->last_offset_delta;
}
static inline int64_t rec_offset_end(const struct rec_batch *batch) { return rec_offset_last(batch) + 1; }
/* `sequence` and `delta` (neither negative) further on; after INT32_MAX comes 0. */
int32_t rec_sequence_add(int32_t sequence, int32_t delta);
static inline int32_t rec_sequence_last(const struct rec_batch *batch)
{
    return batch->base_sequence < 0 ? REC_NO_SEQUENCE
                                    : rec_sequence_add(batch->base_sequence, batch->last_offset_delta);
}

/* ---- validating what a client produced ---- */

enum rec_stamp { REC_CREATE_TIME = 0, REC_LOG_APPEND_TIME = 1 }; /* the topic's message.timestamp.type */
enum rec_open { REC_OPEN_NEVER = 0, REC_OPEN_COMPRESSED = 1 };

struct rec_rules {
    size_t batch_max_bytes;  /* max.message.bytes */
    size_t opened_max_bytes; /* what compressed records may open to */
    enum rec_open open;      /* NEVER: compressed batches are judged by their header */
    enum rec_stamp stamp;
    bool is_key_needed;    /* a compacted topic; compressed batches: only when opened */
    bool keeps_records;    /* where they are opened and good, they stay in the scratch: rec_facts.records */
    bool is_zstd_refused;  /* Produce before version 7 */
    int64_t now_ms;        /* wall time */
    int64_t before_max_ms; /* message.timestamp.before.max.ms; INT64_MAX: no limit */
    int64_t after_max_ms;  /* message.timestamp.after.max.ms; INT64_MAX: no limit */
};

struct rec_facts {
    struct rec_batch batch;
    int64_t max_timestamp_ms;           /* of the records where they were read, else the header's */
    int32_t max_timestamp_offset_delta; /* the first record that has it; -1: the records were not read */
    int32_t bad_record_index;           /* the first record at fault; -1: none, or the fault is the batch's */
    size_t opened_bytes;                /* of the records, uncompressed; 0: not opened */
    struct base_slice records; /* uncompressed: in the batch, or in the scratch with keeps_records; else empty */
};

/* Judges the records field of a produce request as Kafka's LogValidator does: exactly one batch (a piece of another after
 * it is not looked at; facts_out->batch says how long the one is), crc, offsets, sequence, no
 * control records, every record of an uncompressed batch (and of a compressed one when rules say so), timestamps, keys.
 * A transactional flag is not judged. `scratch` is used for opening only and is given back unless rules->keeps_records; may be
 * NULL with REC_OPEN_NEVER.
 * facts_out is set on every verdict as far as the check came (facts_out->batch only when the header was good). */
MUST_USE
enum rec_verdict rec_validate(struct base_slice bytes, const struct rec_rules *rules, struct base_arena *scratch,
                              struct rec_facts *facts_out);

/* ---- what the leader writes into a batch ---- */

/* Neither is covered by the crc. Needs a batch that rec_batch_view accepts. */
void rec_assign(uint8_t *batch_at, int64_t base_offset, int32_t leader_epoch);
/* Sets the timestamp type and the greatest timestamp, and the crc when that changed anything. LOG_APPEND_TIME: the time of
 * appending. CREATE_TIME: rec_facts.max_timestamp_ms, so that the index can trust it.
 * Needs a batch that rec_batch_view accepts. */
void rec_stamp(uint8_t *batch_at, enum rec_stamp stamp, int64_t max_timestamp_ms);

/* ---- walking records ---- */

struct rec_value {
    struct base_slice bytes;
    bool is_null; /* then bytes is empty; an empty value is not null */
};

struct rec_record {
    int64_t offset;
    int64_t timestamp_ms; /* of the batch, where the broker stamped it */
    int32_t offset_delta;
    int32_t header_count;
    struct rec_value key;
    struct rec_value value;
    struct base_slice headers; /* as encoded, without the count; checked: rec_header_next meets no error */
    size_t size_bytes;         /* as encoded, with the length before it */
};

struct rec_walk {
    struct base_slice rest;
    struct rec_batch batch;
    int32_t index; /* of the record that comes next */
    int64_t offset_delta_min;
};

/* Most that rec_open takes from its arena for this batch. */
size_t rec_open_bytes(const struct rec_batch *batch, size_t opened_max_bytes);

/* The records of `batch`, uncompressed: its own bytes, or opened into `arena`, from which exactly their size stays taken.
 * Fails   REC_BAD_CODEC, REC_BAD_COMPRESSION, REC_OPENED_TOO_LARGE, REC_NO_ROOM; the arena is then as before. */
MUST_USE
enum rec_verdict rec_open(const struct rec_batch *batch, size_t opened_max_bytes, struct base_arena *arena,
                          struct base_slice *records_out);

/* A walk over records as rec_open gave them. */
void rec_walk_init(struct rec_walk *walk, const struct rec_batch *batch, struct base_slice records);
/* REC_OK: a record; offsets rise and stay in the batch. REC_END: as many as the batch claims, and no byte more.
 * Fails   REC_BAD_RECORD, REC_BAD_OFFSET_DELTA: the walk stays where it is. */
MUST_USE
enum rec_verdict rec_walk_next(struct rec_walk *walk, struct rec_record *record_out);

/* The first record whose timestamp is at or after `timestamp_ms`. REC_END: none.
 * Fails   as rec_walk_next. */
MUST_USE
enum rec_verdict rec_find_timestamp(const struct rec_batch *batch, struct base_slice records, int64_t timestamp_ms,
                                    struct rec_record *record_out);

struct rec_header {
    struct base_slice key;
    struct rec_value value;
};
/* Takes the next header off `headers` (a copy of rec_record.headers). False: there is none. */
MUST_USE
bool rec_header_next(struct base_slice *headers, struct rec_header *header_out);

/* ---- building ---- */

static inline struct rec_value rec_null(void) { return (struct rec_value){.is_null = true}; }
static inline struct rec_value rec_value_of(struct base_slice bytes) { return (struct rec_value){.bytes = bytes}; }

struct rec_build_config {
    int64_t base_offset;
    int64_t producer_id;       /* REC_NO_PRODUCER_ID */
    int64_t delete_horizon_ms; /* with has_delete_horizon: the base timestamp */
    int32_t leader_epoch;      /* REC_NO_EPOCH */
    int32_t base_sequence;     /* REC_NO_SEQUENCE */
    int16_t producer_epoch;    /* REC_NO_EPOCH */
    enum rec_stamp stamp;
    bool is_transactional;
    bool is_control;
    bool has_delete_horizon;
};

struct rec_build {
    uint8_t *at; /* borrowed from rec_build_init to rec_build_end */
    size_t size_bytes;
    size_t used_bytes;
    struct rec_build_config config;
    int64_t base_timestamp_ms;
    int64_t max_timestamp_ms;
    int32_t last_offset_delta;
    int32_t record_count;
};

/* No producer, create time, base offset 0, as a client sends it. */
struct rec_build_config rec_build_plain(void);

/* Begins a batch in `at`. Fails BASE_FULL: not even a header fits. */
MUST_USE
enum base_rc rec_build_init(struct rec_build *build, void *at, size_t size_bytes, struct rec_build_config config);

/* A record at the next offset. Fails BASE_FULL: it does not fit, or the batch would pass INT32_MAX; nothing has changed. */
MUST_USE
enum base_rc rec_build_add(struct rec_build *build, int64_t timestamp_ms, struct rec_value key, struct rec_value value,
                           const struct rec_header *headers, uint32_t header_count);
/* The bytes that rec_build_add would take at most, whatever came before. */
size_t rec_build_record_bytes_max(struct rec_value key, struct rec_value value, const struct rec_header *headers,
                                  uint32_t header_count);

/* A record of another batch at an offset of one's own choice (compaction, recompression): key, value, headers and timestamp
 * are kept. Needs an offset_delta greater than that of the record before. Fails BASE_FULL. */
MUST_USE
enum base_rc rec_build_copy(struct rec_build *build, int32_t offset_delta, const struct rec_record *record);
/* Compaction keeps the last offset though the last record may go. Needs at least the delta of the last record. */
void rec_build_keep_last_offset(struct rec_build *build, int32_t last_offset_delta);

/* Ends an uncompressed batch: header and crc. The slice is the batch, in the memory given to rec_build_init. */
struct base_slice rec_build_end(struct rec_build *build);
/* Ends a batch with its records compressed into `out`. The build's own memory stays as it is, so that another kind, or
 * rec_build_end, can follow a failure.
 * Fails   CODEC_TOO_LARGE: `out` is too small (REC_HEADER_BYTES and codec_compress_bound_bytes of what was added is enough);
 *         CODEC_SCRATCH: less than codec_compress_scratch_bytes. */
MUST_USE
enum codec_rc rec_build_end_compressed(struct rec_build *build, enum codec_kind kind, int32_t level,
                                       struct codec_scratch scratch, void *out, size_t out_max_bytes,
                                       struct base_slice *batch_out);
/* The most that rec_recode writes for so many bytes of records. */
size_t rec_recode_bytes_max(enum codec_kind kind, size_t records_bytes);
/* Writes `batch`, whose uncompressed records are given, with its records compressed another way: nothing else of it changes but
 * length and crc (a topic's compression.type).
 * Fails   CODEC_TOO_LARGE: `out` is too small, or the batch would pass INT32_MAX; CODEC_SCRATCH. */
MUST_USE
enum codec_rc rec_recode(const struct rec_batch *batch, struct base_slice records, enum codec_kind kind, int32_t level,
                         struct codec_scratch scratch, void *out, size_t out_max_bytes, struct base_slice *batch_out);
static inline size_t rec_build_records_bytes(const struct rec_build *build)
{
    return build->used_bytes - REC_HEADER_BYTES;
}

/* ---- control records ---- */

enum rec_control {
    REC_CONTROL_ABORT = 0,
    REC_CONTROL_COMMIT = 1,
    REC_CONTROL_LEADER_CHANGE = 2,
    REC_CONTROL_SNAPSHOT_HEADER = 3,
    REC_CONTROL_SNAPSHOT_FOOTER = 4,
    REC_CONTROL_KRAFT_VERSION = 5,
    REC_CONTROL_KRAFT_VOTERS = 6,
};
#define REC_CONTROL_KEY_BYTES 4

/* The key of a control record: version 0 and the type. */
void rec_control_key(enum rec_control control, uint8_t key_out[REC_CONTROL_KEY_BYTES]);
/* The type in a control record's key. Fails BASE_BAD: too short, or a negative version. A type beyond the enum is returned
 * as its number: Kafka skips those. */
MUST_USE
enum base_rc rec_control_type(const struct rec_record *record, int16_t *type_out);

#define REC_END_MARKER_BYTES 128
/* A transaction's end marker as a whole batch; see EndTransactionMarker. Needs config with the producer's id and epoch. */
struct base_slice rec_build_end_marker(uint8_t at[REC_END_MARKER_BYTES], struct rec_build_config config,
                                       enum rec_control control, int64_t timestamp_ms, int32_t coordinator_epoch);

/* ---- varints: zigzag, as in records ---- */

#define REC_VARINT_BYTES_MAX  5
#define REC_VARLONG_BYTES_MAX 10
/* Bytes read, or 0: the bytes end inside it, or it holds more than 32 (64) bits. */
MUST_USE
size_t rec_varint_get(struct base_slice bytes, int32_t *value_out);
MUST_USE
size_t rec_varlong_get(struct base_slice bytes, int64_t *value_out);
/* Bytes written. Needs room for REC_VARINT_BYTES_MAX, or rec_varint_bytes. */
size_t rec_varint_put(uint8_t *at, int32_t value);
size_t rec_varlong_put(uint8_t *at, int64_t value);
size_t rec_varint_bytes(int32_t value);
size_t rec_varlong_bytes(int64_t value);

#endif
