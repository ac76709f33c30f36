/* stream.h: watches what one broker node does: I3, I4, I9, I18, I19, and how long a fetch waits (I21).
 *
 * Room    sim/check. Fed with the node's events and effects in order, and after steps with the logs as the broker sees them.
 * Knows   the layout of the journal's groups (docs/formats/journal.md) and of Produce and Fetch, read from the bytes that pass.
 *
 *     I19  an answer to Produce with acks=all leaves only after a sync of the journal that was asked after the write of the
 *          row that names the record had completed; a large run's segment is synced before its row is written; bytes under a
 *          failed sync are never taken for synced
 *          one with acks=1 only after the write was asked for
 *     I3   a log's watermark never falls, within a boot or over a restart, and never passes the end that the journal's synced
 *          rows give it
 *     I4   nothing at or above that end is read
 *     I9   what one connection sent to a partition is appended in the order in which it was sent, and at one place
 *     I1   a log start passes over whole segments that retention may take, or what a client asked it to
 *     I25  what retention must take is gone
 *     I21  a fetch is answered when its time is over, and soon after the watermark has passed an offset that it asked for or
 *          a topic was deleted; with less than it asked for not before
 *     I23  answers leave in the order of the questions; a fetch says no wrong start, and calls nothing out of range that is there;
 *          it gives no more than it was asked for, of all and of each partition, but one batch that is first; nothing is unstable;
 *          a fetch session takes the epoch that is next and no other, tells only of what it follows, and leaves out nothing that had
 *          changed when it was asked; the first and last offsets that ListOffsets tells are a log's start and watermark;
 *          a topic is told with as many partitions as somebody asked for
 *     I18  a log that had a watermark is there after recovery, its start did not move, it ends where it is synced, and
 *          nothing is longer than it was before the crash
 *
 * Of a page-cache log, which no row of the journal names, what is written takes the place of what is synced. A power cut may take
 * what no sync of its segments covers, and nothing below that; a process that ends takes nothing. Where it has flush.messages, fewer
 * than that many are acknowledged and not synced; where it has flush.ms, what is older is being synced (I19).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHECK_STREAM_H
#define CHECK_STREAM_H

#include "port/port.h"
#include "report.h"

struct check_stream;

struct check_stream *check_stream_create(struct check_report *report);
void check_stream_destroy(struct check_stream *stream);

/* Before the step. `payload`: what a RECV delivered. */
void check_stream_event(struct check_stream *stream, uint32_t shard, const struct port_event *event,
                        struct base_slice payload);
/* After the step, in order. */
void check_stream_effect(struct check_stream *stream, uint32_t shard, const struct port_effect *effect);

enum check_crash { CHECK_POWER = 0, CHECK_PROCESS, CHECK_STOPPED };
void check_stream_crash(struct check_stream *stream, enum check_crash crash); /* the node is gone */

struct check_log {
    struct base_part id;
    struct base_slice topic;
    int64_t offset_start;
    int64_t start_next; /* where a move under way brings it */
    int64_t offset_end;
    int64_t watermark;
    int32_t leader_epoch;
    bool is_failed; /* or damaged */
    bool is_page_cache;
    int64_t flush_messages; /* of a page-cache log; 0: none */
    uint64_t flush_ms;      /* the same */
};
/* One log as it is now. `is_serving`: recovery has ended. */
void check_stream_log(struct check_stream *stream, const struct check_log *log, bool is_serving);
/* Every log of the node was told by check_stream_log since it began to serve: one that is missing was deleted, or lost. */
void check_stream_recovered(struct check_stream *stream);
/* The cluster said that this topic goes: its logs may. */
void check_stream_deleting(struct check_stream *stream, struct base_uuid topic);

/* How far that file was written to since the node started; 0: not at all. */
uint64_t check_stream_written(const struct check_stream *stream, const char *path);
/* Where the log of that segment began and ended when it was last looked at. False: there is none of that name. */
bool check_stream_log_of(const struct check_stream *stream, const char *path, int64_t *start_out, int64_t *end_out);
/* That file was opened since the last crash. */
bool check_stream_opened(const struct check_stream *stream, const char *path);

/* The journal was told of that segment. */
bool check_stream_is_born(const struct check_stream *stream, const char *path);

/* Bits of the disk have flipped: logs may be damaged from now on. */
void check_stream_rotten(struct check_stream *stream);
/* The node told of a group of the journal that it can't read, nor whom it is of: if bits have flipped, that group may be the only one
 * that named the end of a log. */
void check_stream_lost_rows(struct check_stream *stream);

/* For fetches that are asked from now on: an answer, or a wake-up, that comes more than this too late is a breach. */
void check_stream_late(struct check_stream *stream, uint64_t late_ns);
/* What the broker puts into one answer at most: a fetch for more has that. */
void check_stream_fetch_max(struct check_stream *stream, int32_t bytes_max);

/* What retention that topic has, or ("") every topic that nothing else is said of; -1: none. No word of either: none, once anything was told. */
void check_stream_keeps(struct check_stream *stream, const char *topic, int64_t bytes, int64_t age_ms);
/* The node has been at rest for longer than retention takes to look: nothing may be left that it must take. `is_time_right`: its
 * clock was never wrong. */
void check_stream_kept(struct check_stream *stream, bool is_time_right);

/* A client read that offset. */
void check_stream_read(struct check_stream *stream, struct base_part id, int64_t offset);
bool check_stream_is_synced(const struct check_stream *stream, struct base_part id, int64_t offset);

#define CHECK_APIS 100
struct check_stream_counts {
    uint64_t answers[CHECK_APIS]; /* by api key */
    uint64_t acks_judged;         /* partitions of Produce answers that I19 was asked about */
    uint64_t topics_judged;       /* topics in answers whose number of partitions somebody had asked for */
    uint64_t orders_judged;       /* batches that were held against what else their connection sent */
    uint64_t rows;                /* journal rows seen */
    uint64_t rows_large;          /* of runs whose bytes are in their segment alone */
    uint64_t sessions_opened;
    uint64_t sessions_gone_on;  /* fetches of sessions that were judged */
    uint64_t sessions_left_out; /* partitions that they were not told of, and were judged */
    uint64_t sessions_gone;     /* known ones that were not found */
    uint64_t session_epochs_refused;
    uint64_t rows_gone;       /* that tell of a deletion */
    uint64_t page_cache_lost; /* logs whose acknowledged end the power took */
    uint64_t page_cache_held; /* ... and whose begin a sync had covered */
    uint64_t syncs_failed;
    uint64_t errors; /* that the disk gave */
};
const struct check_stream_counts *check_stream_counts(const struct check_stream *stream);

/* How many logs there ever were; those that were deleted count. */
uint32_t check_stream_logs(const struct check_stream *stream);

#endif
