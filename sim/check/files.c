/* files.c: see files.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "files.h"

#include <inttypes.h>

#include "record/record.h"

enum { INDEX_BYTES = 8, TIME_BYTES = 12 };

/* The batches as a scan meets them, and the indexes beside it. */
struct scan {
    struct check_report *report;
    const struct check_segment *segment;
    uint64_t position;
    int64_t offset;        /* where the next batch begins */
    int64_t timestamp_max; /* of the batches so far */
    size_t index_at, time_at;
};

/* The room for one more, or the one that was silent for longest: it is taken at its word then. */
static struct check_producer *producer_of(struct check_producers *producers, int64_t id, bool *is_known_out)
{
    struct check_producer *oldest = &producers->items[0];
    for (uint32_t i = 0; i < producers->count; i++) {
        struct check_producer *producer = &producers->items[i];
        *is_known_out = producer->id == id;
        if (*is_known_out) { return producer; }
        if (producer->timestamp_ms < oldest->timestamp_ms) { oldest = producer; }
    }
    *is_known_out = false;
    return producers->count == CHECK_PRODUCERS_MAX ? oldest : &producers->items[producers->count++];
}

static void of_producer(struct scan *scan, const struct rec_batch *batch)
{
    struct check_producers *producers = scan->segment->producers;
    if (producers == NULL || batch->producer_id < 0) { return; }
    bool is_known;
    struct check_producer *producer = producer_of(producers, batch->producer_id, &is_known);
    bool is_newer = is_known && batch->producer_epoch > producer->epoch;
    bool is_next = is_known && batch->producer_epoch == producer->epoch &&
                   batch->base_sequence == rec_sequence_add(producer->sequence_last, 1);
    bool is_first = is_newer && batch->base_sequence == 0;
    if (is_known && !is_next && !is_first && producer->timestamp_ms >= producers->forgotten_ms) {
        check_breach(scan->report, "I9",
                     "at offset %" PRId64 " of %s.log producer %" PRId64 " goes on with epoch %d, sequence %" PRId32
                     " after epoch %d, sequence %" PRId32,
                     batch->base_offset, scan->segment->name, batch->producer_id, batch->producer_epoch,
                     batch->base_sequence, producer->epoch, producer->sequence_last);
    }
    *producer = (struct check_producer){.id = batch->producer_id,
                                        .epoch = batch->producer_epoch,
                                        .sequence_last = rec_sequence_last(batch),
                                        .timestamp_ms = batch->max_timestamp_ms};
}

static void at_batch(struct scan *scan, const struct rec_batch *batch)
{
    const struct check_segment *segment = scan->segment;
    if (batch->base_offset != scan->offset) {
        check_breach(scan->report, "I8", "%s.log has at byte %" PRIu64 " offset %" PRId64 " where %" PRId64 " is next",
                     segment->name, scan->position, batch->base_offset, scan->offset);
    }
    if (!rec_crc_is_right(batch)) {
        check_breach(scan->report, "I20", "the batch at byte %" PRIu64 " of %s.log has a wrong crc", scan->position,
                     segment->name);
    }
    of_producer(scan, batch);
    scan->offset = rec_offset_end(batch);
    if (batch->max_timestamp_ms > scan->timestamp_max) { scan->timestamp_max = batch->max_timestamp_ms; }
    if (scan->index_at < segment->index.size_bytes) {
        const uint8_t *entry = segment->index.at + scan->index_at;
        bool is_it = base_get_u32(entry + 4) == scan->position &&
                     segment->base + (int64_t)base_get_u32(entry) == rec_offset_last(batch);
        if (is_it) { scan->index_at += INDEX_BYTES; }
    }
    /* The newest batch with the greatest timestamp; a later one may have the same. */
    while (scan->time_at < segment->timeindex.size_bytes) {
        const uint8_t *entry = segment->timeindex.at + scan->time_at;
        bool is_it = (int64_t)base_get_u64(entry) == scan->timestamp_max &&
                     (int64_t)base_get_u64(entry) == batch->max_timestamp_ms &&
                     segment->base + (int64_t)base_get_u32(entry + 8) == rec_offset_last(batch);
        if (!is_it) { return; }
        scan->time_at += TIME_BYTES;
    }
}

void check_segment(struct check_report *report, const struct check_segment *segment)
{
    struct scan scan = {.report = report, .segment = segment, .offset = segment->base, .timestamp_max = -1};
    struct base_slice rest = segment->log;
    struct rec_batch batch;
    enum rec_verdict verdict;
    while ((verdict = rec_batch_next(&rest, &batch)) == REC_OK) {
        bool is_over = segment->end >= 0 && !segment->is_last && scan.offset >= segment->end;
        if (is_over) { break; }
        at_batch(&scan, &batch);
        scan.position += batch.size_bytes;
    }
    if (verdict != REC_END && segment->is_last) {
        check_breach(report, "I20", "after byte %" PRIu64 " of %" PRIu64 " %s.log has no batch: %s", scan.position,
                     (uint64_t)segment->log.size_bytes, segment->name, rec_verdict_text(verdict));
    }
    if (segment->end >= 0 && scan.offset != segment->end) {
        check_breach(report, "I8", "the batches of %s.log end at %" PRId64 ", and its log at %" PRId64, segment->name,
                     scan.offset, segment->end);
    }
    if (scan.index_at != segment->index.size_bytes) {
        check_breach(report, "I15", "entry %zu of %s.index (%zu bytes) names no batch that is there",
                     scan.index_at / INDEX_BYTES, segment->name, segment->index.size_bytes);
    }
    if (scan.time_at != segment->timeindex.size_bytes) {
        check_breach(report, "I15", "entry %zu of %s.timeindex (%zu bytes) is not the greatest timestamp up to there",
                     scan.time_at / TIME_BYTES, segment->name, segment->timeindex.size_bytes);
    }
}
