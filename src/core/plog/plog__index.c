/* plog__index.c: what a batch leaves in memory: entries of the two sparse indexes, greatest timestamp, epoch, producer.
 *
 * The entries are Kafka's (OffsetIndex, TimeIndex; LogSegment.append): once more than index.interval.bytes came since the last
 * entry, the next batch gets one: its last offset and position, and the greatest timestamp so far with the last offset of the
 * batch that has it. The tail holds them, encoded as in the files, until the writer has put them there. An entry that finds
 * the tail full is left out: an index is sparse, a lookup then scans a little longer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

_Static_assert(REC_CRC_AT + 4 == REC_ATTRIBUTES_AT, "the crc covers the batch from its attributes on");

bool plog__head_read(const uint8_t *at, int64_t offset_min, struct plog__head *head_out)
{
    uint32_t length = base_get_u32(at + REC_LENGTH_AT);
    int32_t delta = (int32_t)base_get_u32(at + REC_LAST_OFFSET_DELTA_AT);
    int64_t base = (int64_t)base_get_u64(at + REC_BASE_OFFSET_AT);
    int64_t last;
    if (at[REC_MAGIC_AT] != 2 || length < REC_HEADER_BYTES - REC_LENGTH_PREFIX_BYTES || length > INT32_MAX) {
        return false;
    }
    if (delta < 0 || base < offset_min || !base_add_i64(base, delta, &last) || last == INT64_MAX) { return false; }
    int32_t sequence = (int32_t)base_get_u32(at + REC_BASE_SEQUENCE_AT);
    *head_out = (struct plog__head){
        .size_bytes = (uint64_t)length + REC_LENGTH_PREFIX_BYTES,
        .base_offset = base,
        .offset_last = last,
        .max_timestamp_ms = (int64_t)base_get_u64(at + REC_MAX_TIMESTAMP_AT),
        .producer_id = (int64_t)base_get_u64(at + REC_PRODUCER_ID_AT),
        .leader_epoch = (int32_t)base_get_u32(at + REC_LEADER_EPOCH_AT),
        .base_sequence = sequence,
        .sequence_last = sequence < 0 ? REC_NO_SEQUENCE : rec_sequence_add(sequence, delta),
        .producer_epoch = (int16_t)base_get_u16(at + REC_PRODUCER_EPOCH_AT),
        .attributes = base_get_u16(at + REC_ATTRIBUTES_AT),
    };
    return true;
}

/* ---- the tail ---- */

void plog__tail_reset(struct plog__tail *tail)
{
    tail->index_count = 0;
    tail->time_count = 0;
    tail->time_last = -1;
    tail->since_bytes = 0;
}

static void add_time(struct plog__log *log, const struct plog__segment *segment)
{
    struct plog__tail *tail = &log->tail;
    if (segment->timestamp_max <= tail->time_last || tail->time_count == PLOG__TAIL_MAX) { return; }
    uint8_t *at = tail->time + (size_t)tail->time_count * PLOG__TIME_BYTES;
    base_put_u64(at, (uint64_t)segment->timestamp_max);
    base_put_u32(at + 8, (uint32_t)(segment->timestamp_max_offset - segment->base));
    tail->time_count += 1;
    tail->time_last = segment->timestamp_max;
}

static void add_entry(struct plog__log *log, const struct plog__segment *segment, uint64_t position_bytes,
                      int64_t offset_last)
{
    struct plog__tail *tail = &log->tail;
    if (tail->index_count == PLOG__TAIL_MAX) { return; }
    uint8_t *at = tail->index + (size_t)tail->index_count * PLOG__INDEX_BYTES;
    base_put_u32(at, (uint32_t)(offset_last - segment->base));
    base_put_u32(at + 4, (uint32_t)position_bytes);
    tail->index_count += 1;
    add_time(log, segment);
    tail->since_bytes = 0;
}

/* The last entry of a segment's time index is its greatest timestamp (Kafka: LogSegment.onBecomeInactiveSegment). */
void plog__tail_seal(struct plog__log *log, struct plog__segment *segment) { add_time(log, segment); }

bool plog__index_is_full(const struct plog__log *log, const struct plog__segment *segment)
{
    uint64_t index_bytes = ((uint64_t)segment->index_count + log->tail.index_count + 1) * PLOG__INDEX_BYTES;
    uint64_t time_bytes = ((uint64_t)segment->time_count + log->tail.time_count + 2) * PLOG__TIME_BYTES;
    return index_bytes > log->config.index_bytes_max || time_bytes > log->config.index_bytes_max;
}

bool plog__tail_find(const struct plog__log *log, const struct plog__segment *segment, int64_t offset,
                     int64_t *offset_last_out, uint64_t *position_out)
{
    uint32_t low = 0; /* all entries below are at or before `offset` */
    uint32_t high = log->tail.index_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int64_t at = segment->base + base_get_u32(log->tail.index + (size_t)middle * PLOG__INDEX_BYTES);
        if (at <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) { return false; }
    const uint8_t *entry = log->tail.index + (size_t)(low - 1) * PLOG__INDEX_BYTES;
    *offset_last_out = segment->base + base_get_u32(entry);
    *position_out = base_get_u32(entry + 4);
    return true;
}

bool plog__tail_find_time(const struct plog__log *log, const struct plog__segment *segment, int64_t timestamp_ms,
                          int64_t *timestamp_out, int64_t *offset_out)
{
    for (uint32_t i = log->tail.time_count; i-- > 0;) {
        const uint8_t *entry = log->tail.time + (size_t)i * PLOG__TIME_BYTES;
        int64_t timestamp = (int64_t)base_get_u64(entry);
        if (timestamp < timestamp_ms) {
            *timestamp_out = timestamp;
            *offset_out = segment->base + base_get_u32(entry + 8);
            return true;
        }
    }
    return false;
}

/* ---- applying ---- */

static void apply_producer(struct plog *plog, struct plog__log *log, const struct plog__head *head)
{
    if (head->producer_id < 0) { return; }
    struct plog__producer *producer = plog__producer_find(plog, plog__log_slot(plog, log), head->producer_id);
    if (producer == NULL) { producer = plog__producer_make(plog, log, head->producer_id); }
    if (producer == NULL) { return; } /* as if evicted at once: it is taken at its word when it comes back */
    plog__sequence_apply(&producer->now, head, plog__came_ms(plog));
    plog__producer_used(plog, producer);
}

static void apply_batch(struct plog *plog, struct plog__log *log, struct plog__segment *segment,
                        uint64_t position_bytes, const struct plog__head *head)
{
    if (position_bytes == 0) { segment->timestamp_first = head->max_timestamp_ms; }
    if (head->max_timestamp_ms > segment->timestamp_max) {
        segment->timestamp_max = head->max_timestamp_ms;
        segment->timestamp_max_offset = head->offset_last;
    }
    if (head->max_timestamp_ms > log->timestamp_max) {
        log->timestamp_max = head->max_timestamp_ms;
        log->timestamp_max_offset = head->offset_last;
    }
    if (log->tail.since_bytes > log->config.index_interval_bytes && !segment->is_index_bad) {
        add_entry(log, segment, position_bytes, head->offset_last);
    }
    log->tail.since_bytes += head->size_bytes;
    if (head->leader_epoch >= 0) { plog__epochs_assign(plog, log, head->leader_epoch, head->base_offset); }
    if (log->leader_epoch < head->leader_epoch) { log->leader_epoch = head->leader_epoch; }
    segment->end = head->offset_last + 1;
}

void plog__apply(struct plog *plog, struct plog__log *log, struct plog__segment *segment, uint64_t position_bytes,
                 struct base_slice bytes, enum plog__whose whose)
{
    CHECK(plog__segment_last(log) == segment);
    size_t at = 0;
    while (bytes.size_bytes - at >= REC_HEADER_BYTES) {
        struct plog__head head;
        if (!plog__head_read(bytes.at + at, segment->end, &head) || head.size_bytes > bytes.size_bytes - at) { break; }
        apply_batch(plog, log, segment, position_bytes + at, &head);
        if (whose == PLOG__REPLAYED) { apply_producer(plog, log, &head); }
        at += (size_t)head.size_bytes;
    }
    CHECK(IMPLIES(whose == PLOG__LIVE, at == bytes.size_bytes));
    segment->last_wall_ms = plog__came_ms(plog);
}
