/* files.h: looks at a partition's files as a stop left them: I8, I9, I15, I20.
 *
 * Room    sim/check. Knows Kafka's files (docs/formats): batches, .index and .timeindex. A pure function of their bytes.
 *
 *     I8   the offsets of a segment's batches are dense, from its name on
 *     I9   the batches of a producer follow each other as Kafka takes them: an unknown one at its word, a known one with the next
 *          sequence of its epoch, or from 0 in a newer epoch
 *     I15  each entry of an index names a batch that is there: its last offset and position, and the greatest timestamp up
 *          to there; so what a lookup finds is what a scan finds
 *     I20  each batch is whole, its crc is right, and nothing follows the last one
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHECK_FILES_H
#define CHECK_FILES_H

#include "base/base.h"
#include "report.h"

struct check_producer {
    int64_t id;
    int16_t epoch;
    int32_t sequence_last;
    int64_t timestamp_ms; /* of its newest batch */
};
#define CHECK_PRODUCERS_MAX 64
struct check_producers { /* of one log; all zero before its first segment */
    struct check_producer items[CHECK_PRODUCERS_MAX];
    uint32_t count;
    int64_t forgotten_ms; /* whose newest batch is older may be unknown again */
};

struct check_segment {
    const char *name; /* "t0-1/00000000000000000000" */
    int64_t base;
    struct base_slice log;
    struct base_slice index,
        timeindex; /* as far as the broker has written to them since it started: what a crash left may stay */
    struct check_producers *producers; /* moves on from segment to segment of a log; NULL: not looked at */
    int64_t end;  /* of the last of its log: where that ends, and what a crash left may begin; -1: not told */
    bool is_last; /* of its log, and written to since: nothing is left of a crash behind its batches */
};

void check_segment(struct check_report *report, const struct check_segment *segment);

#endif
