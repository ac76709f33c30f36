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
        at_batch(&scan, &batch);
        scan.position += batch.size_bytes;
    }
    if (verdict != REC_END && segment->is_last) {
        check_breach(report, "I20", "after byte %" PRIu64 " of %" PRIu64 " %s.log has no batch: %s", scan.position,
                     (uint64_t)segment->log.size_bytes, segment->name, rec_verdict_text(verdict));
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
