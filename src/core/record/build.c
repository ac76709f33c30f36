/* build.c: batches made here; see record.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/arith.h"
#include "record/record.h"

#define BATCH_BYTES_MAX ((size_t)INT32_MAX - REC_LENGTH_PREFIX_BYTES)

struct rec_build_config rec_build_plain(void)
{
    return (struct rec_build_config){
        .producer_id = REC_NO_PRODUCER_ID,
        .leader_epoch = REC_NO_EPOCH,
        .base_sequence = REC_NO_SEQUENCE,
        .producer_epoch = REC_NO_EPOCH,
        .stamp = REC_CREATE_TIME,
    };
}

enum base_rc rec_build_init(struct rec_build *build, void *at, size_t size_bytes, struct rec_build_config config)
{
    CHECK(config.base_offset >= 0);
    if (size_bytes < REC_HEADER_BYTES) { return BASE_FULL; }
    *build = (struct rec_build){
        .at = at,
        .size_bytes = base_min_size(size_bytes, BATCH_BYTES_MAX),
        .used_bytes = REC_HEADER_BYTES,
        .config = config,
        .base_timestamp_ms = config.has_delete_horizon ? config.delete_horizon_ms : REC_NO_TIMESTAMP,
        .max_timestamp_ms = REC_NO_TIMESTAMP,
        .last_offset_delta = -1,
    };
    return BASE_OK;
}

/* What a record holds, headers either as a list or as encoded in another record. */
struct content {
    struct rec_value key;
    struct rec_value value;
    const struct rec_header *headers;
    uint32_t header_count;
    struct base_slice encoded_headers;
};

static size_t value_bytes(struct rec_value value)
{
    CHECK(IMPLIES(value.is_null, value.bytes.size_bytes == 0));
    CHECK(value.bytes.size_bytes <= INT32_MAX);
    return value.is_null ? 1 : rec_varint_bytes((int32_t)value.bytes.size_bytes) + value.bytes.size_bytes;
}

/* From the key on. No sum can wrap: every part is bytes in memory. */
static size_t content_bytes(const struct content *content)
{
    CHECK(content->header_count <= INT32_MAX);
    size_t bytes = value_bytes(content->key) + value_bytes(content->value) +
                   rec_varint_bytes((int32_t)content->header_count) + content->encoded_headers.size_bytes;
    for (uint32_t i = 0; content->headers != NULL && i < content->header_count; i++) {
        bytes += value_bytes(rec_value_of(content->headers[i].key)) + value_bytes(content->headers[i].value);
    }
    return bytes;
}

static uint8_t *put_bytes(uint8_t *at, struct base_slice bytes)
{
    if (bytes.size_bytes > 0) { memcpy(at, bytes.at, bytes.size_bytes); }
    return at + bytes.size_bytes;
}

static uint8_t *put_value(uint8_t *at, struct rec_value value)
{
    at += rec_varint_put(at, value.is_null ? -1 : (int32_t)value.bytes.size_bytes);
    return put_bytes(at, value.bytes);
}

static enum base_rc put_record(struct rec_build *build, int32_t offset_delta, int64_t timestamp_ms,
                               const struct content *content)
{
    CHECK(offset_delta > build->last_offset_delta); /* -1 before the first */
    bool is_first_base = build->record_count == 0 && !build->config.has_delete_horizon;
    int64_t base_timestamp_ms = is_first_base ? timestamp_ms : build->base_timestamp_ms;
    /* A reader adds the delta back with wrap-around, so one that wraps is as good as any. */
    int64_t timestamp_delta_ms = (int64_t)((uint64_t)timestamp_ms - (uint64_t)base_timestamp_ms);
    size_t body_bytes =
        1 + rec_varlong_bytes(timestamp_delta_ms) + rec_varint_bytes(offset_delta) + content_bytes(content);
    size_t room_bytes = build->size_bytes - build->used_bytes;
    if (body_bytes > room_bytes) { return BASE_FULL; }
    if (rec_varint_bytes((int32_t)body_bytes) > room_bytes - body_bytes) { return BASE_FULL; }

    uint8_t *begin = build->at + build->used_bytes;
    uint8_t *at = begin + rec_varint_put(begin, (int32_t)body_bytes);
    uint8_t *body = at;
    *at++ = 0; /* attributes: none exist */
    at += rec_varlong_put(at, timestamp_delta_ms);
    at += rec_varint_put(at, offset_delta);
    at = put_value(at, content->key);
    at = put_value(at, content->value);
    at += rec_varint_put(at, (int32_t)content->header_count);
    for (uint32_t i = 0; content->headers != NULL && i < content->header_count; i++) {
        at = put_value(at, rec_value_of(content->headers[i].key));
        at = put_value(at, content->headers[i].value);
    }
    at = put_bytes(at, content->encoded_headers);
    CHECK((size_t)(at - body) == body_bytes);

    build->used_bytes += (size_t)(at - begin);
    build->base_timestamp_ms = base_timestamp_ms;
    build->max_timestamp_ms = base_max_i64(build->max_timestamp_ms, timestamp_ms);
    build->last_offset_delta = offset_delta;
    build->record_count += 1;
    return BASE_OK;
}

enum base_rc rec_build_add(struct rec_build *build, int64_t timestamp_ms, struct rec_value key, struct rec_value value,
                           const struct rec_header *headers, uint32_t header_count)
{
    CHECK(IMPLIES(header_count > 0, headers != NULL));
    if (build->last_offset_delta == INT32_MAX) { return BASE_FULL; }
    struct content content = {.key = key, .value = value, .headers = headers, .header_count = header_count};
    return put_record(build, build->last_offset_delta + 1, timestamp_ms, &content);
}

size_t rec_build_record_bytes_max(struct rec_value key, struct rec_value value, const struct rec_header *headers,
                                  uint32_t header_count)
{
    struct content content = {.key = key, .value = value, .headers = headers, .header_count = header_count};
    return REC_VARINT_BYTES_MAX + 1 + REC_VARLONG_BYTES_MAX + REC_VARINT_BYTES_MAX + content_bytes(&content);
}

enum base_rc rec_build_copy(struct rec_build *build, int32_t offset_delta, const struct rec_record *record)
{
    CHECK(record->header_count >= 0);
    struct content content = {
        .key = record->key,
        .value = record->value,
        .header_count = (uint32_t)record->header_count,
        .encoded_headers = record->headers,
    };
    return put_record(build, offset_delta, record->timestamp_ms, &content);
}

void rec_build_keep_last_offset(struct rec_build *build, int32_t last_offset_delta)
{
    CHECK(last_offset_delta >= build->last_offset_delta);
    build->last_offset_delta = last_offset_delta;
}

static void put_header(const struct rec_build *build, uint8_t *at, size_t size_bytes, enum codec_kind kind)
{
    const struct rec_build_config *config = &build->config;
    unsigned attributes = (unsigned)kind;
    if (config->stamp == REC_LOG_APPEND_TIME) { attributes |= REC_ATTRIBUTE_LOG_APPEND_TIME; }
    if (config->is_transactional) { attributes |= REC_ATTRIBUTE_TRANSACTIONAL; }
    if (config->is_control) { attributes |= REC_ATTRIBUTE_CONTROL; }
    if (config->has_delete_horizon) { attributes |= REC_ATTRIBUTE_DELETE_HORIZON; }
    CHECK(size_bytes >= REC_HEADER_BYTES);
    CHECK(size_bytes <= BATCH_BYTES_MAX);
    base_put_u64(at + REC_BASE_OFFSET_AT, (uint64_t)config->base_offset);
    base_put_u32(at + REC_LENGTH_AT, (uint32_t)(size_bytes - REC_LENGTH_PREFIX_BYTES));
    base_put_u32(at + REC_LEADER_EPOCH_AT, (uint32_t)config->leader_epoch);
    at[REC_MAGIC_AT] = 2;
    base_put_u16(at + REC_ATTRIBUTES_AT, (uint16_t)attributes);
    base_put_u32(at + REC_LAST_OFFSET_DELTA_AT, (uint32_t)base_max_i64(build->last_offset_delta, 0));
    base_put_u64(at + REC_BASE_TIMESTAMP_AT, (uint64_t)build->base_timestamp_ms);
    base_put_u64(at + REC_MAX_TIMESTAMP_AT, (uint64_t)build->max_timestamp_ms);
    base_put_u64(at + REC_PRODUCER_ID_AT, (uint64_t)config->producer_id);
    base_put_u16(at + REC_PRODUCER_EPOCH_AT, (uint16_t)config->producer_epoch);
    base_put_u32(at + REC_BASE_SEQUENCE_AT, (uint32_t)config->base_sequence);
    base_put_u32(at + REC_RECORD_COUNT_AT, (uint32_t)build->record_count);
    base_put_u32(at + REC_CRC_AT, codec_crc32c(0, at + REC_ATTRIBUTES_AT, size_bytes - REC_ATTRIBUTES_AT));
}

struct base_slice rec_build_end(struct rec_build *build)
{
    put_header(build, build->at, build->used_bytes, CODEC_NONE);
    return base_slice_of(build->at, build->used_bytes);
}

enum codec_rc rec_build_end_compressed(struct rec_build *build, enum codec_kind kind, int32_t level,
                                       struct codec_scratch scratch, void *out, size_t out_max_bytes,
                                       struct base_slice *batch_out)
{
    if (out_max_bytes < REC_HEADER_BYTES) { return CODEC_TOO_LARGE; }
    uint8_t *at = out;
    size_t room_bytes = base_min_size(out_max_bytes, BATCH_BYTES_MAX) - REC_HEADER_BYTES;
    struct base_slice records = base_slice_of(build->at + REC_HEADER_BYTES, rec_build_records_bytes(build));
    size_t packed_bytes;
    enum codec_rc rc = codec_compress(kind, level, records, scratch, at + REC_HEADER_BYTES, room_bytes, &packed_bytes);
    if (rc != CODEC_OK) { return rc; }
    put_header(build, at, REC_HEADER_BYTES + packed_bytes, kind);
    *batch_out = base_slice_of(at, REC_HEADER_BYTES + packed_bytes);
    return CODEC_OK;
}

size_t rec_recode_bytes_max(enum codec_kind kind, size_t records_bytes)
{
    return REC_HEADER_BYTES + (kind == CODEC_NONE ? records_bytes : codec_compress_bound_bytes(kind, records_bytes));
}

enum codec_rc rec_recode(const struct rec_batch *batch, struct base_slice records, enum codec_kind kind, int32_t level,
                         struct codec_scratch scratch, void *out, size_t out_max_bytes, struct base_slice *batch_out)
{
    if (out_max_bytes < REC_HEADER_BYTES) { return CODEC_TOO_LARGE; }
    uint8_t *at = out;
    size_t room_bytes = base_min_size(out_max_bytes, BATCH_BYTES_MAX) - REC_HEADER_BYTES;
    size_t packed_bytes = records.size_bytes;
    if (kind == CODEC_NONE) {
        if (packed_bytes > room_bytes) { return CODEC_TOO_LARGE; }
        memcpy(at + REC_HEADER_BYTES, records.at, packed_bytes);
    } else {
        enum codec_rc rc =
            codec_compress(kind, level, records, scratch, at + REC_HEADER_BYTES, room_bytes, &packed_bytes);
        if (rc != CODEC_OK) { return rc; }
    }
    size_t size_bytes = REC_HEADER_BYTES + packed_bytes;
    memcpy(at, batch->at, REC_HEADER_BYTES);
    uint32_t attributes = (batch->attributes & ~(uint32_t)REC_ATTRIBUTE_CODEC_MASK) | (uint32_t)kind;
    base_put_u32(at + REC_LENGTH_AT, (uint32_t)(size_bytes - REC_LENGTH_PREFIX_BYTES));
    base_put_u16(at + REC_ATTRIBUTES_AT, (uint16_t)attributes);
    base_put_u32(at + REC_CRC_AT, codec_crc32c(0, at + REC_ATTRIBUTES_AT, size_bytes - REC_ATTRIBUTES_AT));
    *batch_out = base_slice_of(at, size_bytes);
    return CODEC_OK;
}

/* ---- control records ---- */

void rec_control_key(enum rec_control control, uint8_t key_out[REC_CONTROL_KEY_BYTES])
{
    base_put_u16(key_out, 0); /* version */
    base_put_u16(key_out + 2, (uint16_t)control);
}

enum base_rc rec_control_type(const struct rec_record *record, int16_t *type_out)
{
    if (record->key.is_null || record->key.bytes.size_bytes < REC_CONTROL_KEY_BYTES) { return BASE_BAD; }
    if ((int16_t)base_get_u16(record->key.bytes.at) < 0) { return BASE_BAD; }
    *type_out = (int16_t)base_get_u16(record->key.bytes.at + 2);
    return BASE_OK;
}

struct base_slice rec_build_end_marker(uint8_t at[REC_END_MARKER_BYTES], struct rec_build_config config,
                                       enum rec_control control, int64_t timestamp_ms, int32_t coordinator_epoch)
{
    CHECK(control == REC_CONTROL_COMMIT || control == REC_CONTROL_ABORT);
    CHECK(config.producer_id >= 0);
    config.is_control = true;
    config.is_transactional = true;
    uint8_t key[REC_CONTROL_KEY_BYTES];
    rec_control_key(control, key);
    uint8_t value[6];
    base_put_u16(value, 0); /* version */
    base_put_u32(value + 2, (uint32_t)coordinator_epoch);
    struct rec_build build;
    enum base_rc rc = rec_build_init(&build, at, REC_END_MARKER_BYTES, config);
    CHECK(rc == BASE_OK);
    rc = rec_build_add(&build, timestamp_ms, rec_value_of(base_slice_of(key, sizeof key)),
                       rec_value_of(base_slice_of(value, sizeof value)), NULL, 0);
    CHECK(rc == BASE_OK);
    return rec_build_end(&build);
}
