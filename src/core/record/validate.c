/* validate.c: what Kafka's UnifiedLog, LogValidator and ProduceRequest demand of a produced batch; see record.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/arith.h"
#include "record/record.h"
#include "record/record__batch.h"

/* Kafka's error codes, as far as a bad batch can cause them. */
enum {
    NONE = 0,
    UNKNOWN_SERVER_ERROR = -1,
    CORRUPT_MESSAGE = 2, /* retriable: the bytes may have been hurt on the way */
    MESSAGE_TOO_LARGE = 10,
    INVALID_TIMESTAMP = 32,
    UNSUPPORTED_COMPRESSION_TYPE = 76,
    INVALID_RECORD = 87,
};

static const struct {
    int16_t error_code;
    const char *text;
} verdicts[] = {
    [REC_OK] = {NONE, "The batch is good."},
    [REC_END] = {INVALID_RECORD, "There is no record batch."},
    [REC_INCOMPLETE] = {INVALID_RECORD, "The record batch is cut short."},
    [REC_BAD_LENGTH] = {CORRUPT_MESSAGE, "The record batch is smaller than its header."},
    [REC_BAD_MAGIC] = {CORRUPT_MESSAGE, "The record batch has an unknown magic byte."},
    [REC_OLD_MAGIC] = {INVALID_RECORD, "Only record batches with magic version 2 are allowed."},
    [REC_BAD_CRC] = {CORRUPT_MESSAGE, "The record batch is corrupt: its CRC does not match."},
    [REC_TOO_LARGE] = {MESSAGE_TOO_LARGE, "The record batch is larger than the maximum message size."},
    [REC_BAD_COUNT] = {INVALID_RECORD, "The record batch has an invalid record count."},
    [REC_BAD_OFFSET_RANGE] = {INVALID_RECORD, "The record batch has an invalid or inconsistent offset range."},
    [REC_BAD_BASE_OFFSET] = {INVALID_RECORD, "The base offset of a produced record batch must be 0."},
    [REC_BAD_CODEC] = {UNSUPPORTED_COMPRESSION_TYPE, "The compression type is not supported for this request."},
    [REC_CONTROL_REFUSED] = {INVALID_RECORD, "Clients are not allowed to write control records."},
    [REC_BAD_SEQUENCE] = {INVALID_RECORD, "The record batch has a producer id and an invalid sequence number."},
    [REC_TRAILING_BYTES] = {INVALID_RECORD, "A partition must have exactly one record batch."},
    [REC_BAD_RECORD] = {INVALID_RECORD, "A record's structure is invalid."},
    [REC_BAD_OFFSET_DELTA] = {INVALID_RECORD, "The records do not have incremental offsets."},
    [REC_BAD_TIMESTAMP] = {INVALID_TIMESTAMP, "A record's timestamp is out of range or of an invalid type."},
    [REC_KEY_MISSING] = {INVALID_RECORD, "A compacted topic cannot accept a record without a key."},
    [REC_BAD_COMPRESSION] = {INVALID_RECORD, "The compressed records cannot be read."},
    [REC_OPENED_TOO_LARGE] = {MESSAGE_TOO_LARGE, "The compressed records are larger than the limit when read."},
    [REC_NO_ROOM] = {UNKNOWN_SERVER_ERROR, "The broker has no memory to read the compressed records now."},
};

int16_t rec_error_code(enum rec_verdict verdict)
{
    CHECK((size_t)verdict < BASE_ARRAY_COUNT(verdicts));
    return verdicts[verdict].error_code;
}

const char *rec_verdict_text(enum rec_verdict verdict)
{
    CHECK((size_t)verdict < BASE_ARRAY_COUNT(verdicts));
    return verdicts[verdict].text;
}

/* What the header alone shows. The order is Kafka's, so that a batch with two faults gets its answer. */
static enum rec_verdict judge_header(const struct rec_batch *batch, const struct rec_rules *rules)
{
    uint32_t codec = rec_codec_number(batch);
    if (rules->is_zstd_refused && codec == CODEC_ZSTD) { return REC_BAD_CODEC; }
    if (batch->base_offset != 0) { return REC_BAD_BASE_OFFSET; }
    if (batch->size_bytes > rules->batch_max_bytes) { return REC_TOO_LARGE; }
    if (!rec_crc_is_right(batch)) { return REC_BAD_CRC; }
    if (!codec_is_known(codec)) { return REC_BAD_CODEC; }
    enum rec_verdict verdict = rec__batch_judge_range(batch);
    if (verdict != REC_OK) { return verdict; }
    if (batch->record_count == 0) { return REC_BAD_COUNT; }
    if ((int64_t)batch->last_offset_delta + 1 != batch->record_count) { return REC_BAD_OFFSET_RANGE; }
    if (rec_is_control(batch)) { return REC_CONTROL_REFUSED; }
    if (rec_has_producer(batch) && batch->base_sequence < 0) { return REC_BAD_SEQUENCE; }
    if (rec_is_log_append_time(batch)) { return REC_BAD_TIMESTAMP; } /* that is for brokers to set */
    return REC_OK;
}

static bool is_timestamp_allowed(int64_t timestamp_ms, const struct rec_rules *rules)
{
    if (rules->stamp == REC_LOG_APPEND_TIME || timestamp_ms == REC_NO_TIMESTAMP) { return true; }
    int64_t limit_ms = 0;
    if (base_add_i64(rules->now_ms, rules->after_max_ms, &limit_ms) && timestamp_ms > limit_ms) { return false; }
    return !base_add_i64(timestamp_ms, rules->before_max_ms, &limit_ms) || limit_ms >= rules->now_ms;
}

static enum rec_verdict judge_records(struct base_slice records, const struct rec_rules *rules, struct rec_facts *facts)
{
    struct rec_walk walk;
    rec_walk_init(&walk, &facts->batch, records);
    int64_t max_timestamp_ms = REC_NO_TIMESTAMP;
    int32_t max_timestamp_offset_delta = 0;
    enum rec_verdict found = REC_OK;
    for (;;) {
        int32_t index = walk.index;
        struct rec_record record;
        enum rec_verdict verdict = rec_walk_next(&walk, &record);
        if (verdict == REC_END) { break; }
        if (verdict == REC_OK && record.offset_delta != index) { verdict = REC_BAD_OFFSET_DELTA; }
        if (verdict != REC_OK) { /* of the structure: outweighs what single records did wrong */
            facts->bad_record_index = index;
            return verdict;
        }
        if (!is_timestamp_allowed(record.timestamp_ms, rules)) {
            verdict = REC_BAD_TIMESTAMP;
        } else if (rules->is_key_needed && record.key.is_null) {
            verdict = REC_KEY_MISSING;
        }
        /* One bad timestamp gives the whole batch that error, whatever else is wrong (LogValidator.processRecordErrors). */
        if (verdict != REC_OK && (found == REC_OK || (found == REC_KEY_MISSING && verdict == REC_BAD_TIMESTAMP))) {
            found = verdict;
            facts->bad_record_index = index;
        }
        if (record.timestamp_ms > max_timestamp_ms) {
            max_timestamp_ms = record.timestamp_ms;
            max_timestamp_offset_delta = index;
        }
    }
    facts->max_timestamp_ms = max_timestamp_ms;
    facts->max_timestamp_offset_delta = max_timestamp_offset_delta;
    return found;
}

static enum rec_verdict open_and_judge(const struct rec_rules *rules, struct base_arena *scratch,
                                       struct rec_facts *facts)
{
    CHECK(scratch != NULL);
    size_t mark = base_arena_mark(scratch);
    struct base_slice records;
    enum rec_verdict verdict = rec_open(&facts->batch, rules->opened_max_bytes, scratch, &records);
    if (verdict != REC_OK) { return verdict; }
    facts->opened_bytes = records.size_bytes;
    verdict = judge_records(records, rules, facts);
    if (verdict == REC_OK && rules->keeps_records) {
        facts->records = records;
    } else {
        base_arena_reset(scratch, mark);
    }
    return verdict;
}

/* What follows the one batch: another is one too many, and so is what can't be one; the beginning of one is left where it is, unseen,
 * as Kafka's reader of batches does. */
static enum rec_verdict judge_rest(struct base_slice rest)
{
    enum { LENGTH_AT = 8, HEAD_BYTES = 12, MAGIC_AT = 16, OLDEST_BYTES = 14 };
    if (rest.size_bytes < HEAD_BYTES) { return REC_OK; }
    int32_t length = (int32_t)base_get_u32(rest.at + LENGTH_AT);
    if (length < OLDEST_BYTES) { return REC_BAD_LENGTH; }
    if (rest.size_bytes <= MAGIC_AT) { return REC_OK; }
    if (rest.at[MAGIC_AT] > 2) { return REC_BAD_MAGIC; }
    return rest.size_bytes - HEAD_BYTES < (size_t)length ? REC_OK : REC_TRAILING_BYTES;
}

enum rec_verdict rec_validate(struct base_slice bytes, const struct rec_rules *rules, struct base_arena *scratch,
                              struct rec_facts *facts_out)
{
    *facts_out = (struct rec_facts){.max_timestamp_ms = REC_NO_TIMESTAMP,
                                    .max_timestamp_offset_delta = -1,
                                    .bad_record_index = -1};
    if (bytes.size_bytes == 0) { return REC_END; }
    struct rec_batch *batch = &facts_out->batch;
    enum rec_verdict verdict = rec__batch_read(bytes, batch);
    if (verdict != REC_OK) { return verdict; }
    verdict = judge_rest(base_slice_of(bytes.at + batch->size_bytes, bytes.size_bytes - batch->size_bytes));
    if (verdict != REC_OK) { return verdict; }
    verdict = judge_header(batch, rules);
    if (verdict != REC_OK) { return verdict; }

    facts_out->max_timestamp_ms = batch->max_timestamp_ms;
    if (!rec_is_compressed(batch)) {
        struct base_slice records = base_slice_of(batch->at + REC_HEADER_BYTES, batch->size_bytes - REC_HEADER_BYTES);
        facts_out->records = records;
        return judge_records(records, rules, facts_out);
    }
    if (rules->open == REC_OPEN_COMPRESSED) { return open_and_judge(rules, scratch, facts_out); }
    /* Unopened, the header's greatest timestamp stands for all: it is what the index and retention will believe. */
    return is_timestamp_allowed(batch->max_timestamp_ms, rules) ? REC_OK : REC_BAD_TIMESTAMP;
}
