/* batch.c: the header of a batch, and what a leader writes into it; see record.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/arith.h"
#include "record/record.h"
#include "record/record__batch.h"

#define OLD_OVERHEAD_BYTES 14 /* the least that the length field of any magic counts: Kafka's RECORD_OVERHEAD_V0 */
#define LENGTH_MIN         (REC_HEADER_BYTES - REC_LENGTH_PREFIX_BYTES)

_Static_assert(REC_CRC_AT + 4 == REC_ATTRIBUTES_AT, "the crc covers the batch from its attributes on");
_Static_assert(REC_RECORD_COUNT_AT + 4 == REC_HEADER_BYTES, "the records follow their count");

static int32_t get_i32(const uint8_t *b) { return (int32_t)base_get_u32(b); }
static int64_t get_i64(const uint8_t *b) { return (int64_t)base_get_u64(b); }

enum rec_verdict rec_batch_size(struct base_slice bytes, size_t *size_bytes_out)
{
    if (bytes.size_bytes < REC_LENGTH_PREFIX_BYTES) { return REC_INCOMPLETE; }
    int32_t length = get_i32(bytes.at + REC_LENGTH_AT);
    if (length < OLD_OVERHEAD_BYTES || length > INT32_MAX - REC_LENGTH_PREFIX_BYTES) { return REC_BAD_LENGTH; }
    *size_bytes_out = (size_t)length + REC_LENGTH_PREFIX_BYTES;
    return REC_OK;
}

enum rec_verdict rec__batch_read(struct base_slice bytes, struct rec_batch *batch_out)
{
    size_t size_bytes;
    enum rec_verdict verdict = rec_batch_size(bytes, &size_bytes);
    if (verdict != REC_OK) { return verdict; }
    if (bytes.size_bytes <= REC_MAGIC_AT) { return REC_INCOMPLETE; }
    uint8_t magic = bytes.at[REC_MAGIC_AT];
    if (magic < 2) { return REC_OLD_MAGIC; }
    if (magic > 2) { return REC_BAD_MAGIC; }
    if (size_bytes < REC_HEADER_BYTES) { return REC_BAD_LENGTH; }
    if (bytes.size_bytes < size_bytes) { return REC_INCOMPLETE; }

    const uint8_t *at = bytes.at;
    struct rec_batch batch = {
        .at = at,
        .size_bytes = size_bytes,
        .base_offset = get_i64(at + REC_BASE_OFFSET_AT),
        .base_timestamp_ms = get_i64(at + REC_BASE_TIMESTAMP_AT),
        .max_timestamp_ms = get_i64(at + REC_MAX_TIMESTAMP_AT),
        .producer_id = get_i64(at + REC_PRODUCER_ID_AT),
        .crc = base_get_u32(at + REC_CRC_AT),
        .leader_epoch = get_i32(at + REC_LEADER_EPOCH_AT),
        .last_offset_delta = get_i32(at + REC_LAST_OFFSET_DELTA_AT),
        .base_sequence = get_i32(at + REC_BASE_SEQUENCE_AT),
        .record_count = get_i32(at + REC_RECORD_COUNT_AT),
        .producer_epoch = (int16_t)base_get_u16(at + REC_PRODUCER_EPOCH_AT),
        .attributes = base_get_u16(at + REC_ATTRIBUTES_AT),
    };
    *batch_out = batch;
    return REC_OK;
}

enum rec_verdict rec__batch_judge_range(const struct rec_batch *batch)
{
    if (batch->record_count < 0) { return REC_BAD_COUNT; }
    int64_t end_offset;
    if (batch->base_offset < 0 || batch->last_offset_delta < 0 ||
        !base_add_i64(batch->base_offset, (int64_t)batch->last_offset_delta + 1, &end_offset)) {
        return REC_BAD_OFFSET_RANGE;
    }
    return REC_OK;
}

enum rec_verdict rec_batch_view(struct base_slice bytes, struct rec_batch *batch_out)
{
    struct rec_batch batch;
    enum rec_verdict verdict = rec__batch_read(bytes, &batch);
    if (verdict == REC_OK) { verdict = rec__batch_judge_range(&batch); }
    if (verdict == REC_OK) { *batch_out = batch; }
    return verdict;
}

enum rec_verdict rec_batch_next(struct base_slice *rest, struct rec_batch *batch_out)
{
    if (rest->size_bytes == 0) { return REC_END; }
    struct rec_batch batch;
    enum rec_verdict verdict = rec_batch_view(*rest, &batch);
    if (verdict != REC_OK) { return verdict; }
    rest->at += batch.size_bytes;
    rest->size_bytes -= batch.size_bytes;
    *batch_out = batch;
    return REC_OK;
}

static uint32_t crc_of(const uint8_t *batch_at, size_t size_bytes)
{
    return codec_crc32c(0, batch_at + REC_ATTRIBUTES_AT, size_bytes - REC_ATTRIBUTES_AT);
}

bool rec_crc_is_right(const struct rec_batch *batch) { return crc_of(batch->at, batch->size_bytes) == batch->crc; }

int32_t rec_sequence_add(int32_t sequence, int32_t delta)
{
    CHECK(sequence >= 0);
    CHECK(delta >= 0);
    return (int32_t)(((uint32_t)sequence + (uint32_t)delta) & INT32_MAX);
}

void rec_assign(uint8_t *batch_at, int64_t base_offset, int32_t leader_epoch)
{
    CHECK(base_offset >= 0);
    CHECK(batch_at[REC_MAGIC_AT] == 2);
    base_put_u64(batch_at + REC_BASE_OFFSET_AT, (uint64_t)base_offset);
    base_put_u32(batch_at + REC_LEADER_EPOCH_AT, (uint32_t)leader_epoch);
}

void rec_stamp(uint8_t *batch_at, enum rec_stamp stamp, int64_t max_timestamp_ms)
{
    CHECK(batch_at[REC_MAGIC_AT] == 2);
    uint32_t attributes = base_get_u16(batch_at + REC_ATTRIBUTES_AT);
    uint32_t stamped = stamp == REC_LOG_APPEND_TIME ? attributes | REC_ATTRIBUTE_LOG_APPEND_TIME
                                                    : attributes & ~(uint32_t)REC_ATTRIBUTE_LOG_APPEND_TIME;
    if (stamped == attributes && get_i64(batch_at + REC_MAX_TIMESTAMP_AT) == max_timestamp_ms) { return; }
    base_put_u16(batch_at + REC_ATTRIBUTES_AT, (uint16_t)stamped);
    base_put_u64(batch_at + REC_MAX_TIMESTAMP_AT, (uint64_t)max_timestamp_ms);
    size_t size_bytes = (size_t)base_get_u32(batch_at + REC_LENGTH_AT) + REC_LENGTH_PREFIX_BYTES;
    CHECK(size_bytes >= REC_HEADER_BYTES);
    base_put_u32(batch_at + REC_CRC_AT, crc_of(batch_at, size_bytes));
}
