/* plog.h: the partition logs of one shard on one disk: segments, indexes, recovery, producer state, epochs, reads.
 *
 * Room    core/plog. Uses base, port, record, codec.
 * Owns    its logs, their open files and the bytes in flight to them. Memory from the arena at create and blocks of `pages`.
 * Time    events carry it; the machine keeps no second clock.
 * Limits  struct plog_config. Steps: no call emits more than PLOG_EFFECTS_MAX effects; what is left goes on at
 *         plog_turn (called at TURN and at CONTINUE alike), at most config.step_max items of work each.
 *
 * THE LIFE OF AN APPEND (synced topic)
 *
 *   plog_append: QUEUED --plog_turn--> WRITING --write done--> [>= config.inline_bytes_max: SYNCING --segment synced-->]
 *     --> PLOG_OUT_RUN leaves: JOURNALLING --plog_journalled--> DURABLE: the watermark moves, PLOG_OUT_SYNCED leaves.
 *
 *   All appends that wait for a log when its turn comes are one round: offsets are assigned then (densely, in the order of
 *   plog_append), sequences are judged then, and the round is one write. At most one round of a log is being written; rounds
 *   go to the journal in offset order; later rounds may be written while earlier ones are journalled.
 *   A write that fails or stays short for good fails its round: the file is cut back, producer state is as before the round,
 *   nothing of it is visible or journalled, and the log takes the next append as if it had not been (KAFKA-10778, 17181).
 *   Where the cut fails too, it is asked for again before the next round is written.
 *   A page-cache topic has no RUN: written is DURABLE at once, for the watermark's purposes.
 *   The journal failed (plog_disk_failed): nothing is acknowledged again; what was in flight fails as PLOG_STORAGE.
 *
 * LEADER AND FOLLOWER. A leader's appends get their offsets here; a follower's bring them along (plog_append.is_assigned), and
 * must follow the log's end. plog_begin_epoch says where a leader's epoch begins, records or none; a follower learns epochs from
 * the batches. The watermark is the synced end where this is the only replica, and what it was told where it is one of several
 * (plog_log_config.is_mark_told, plog_watermark), never above the synced end.
 *
 * A TRUNCATION (plog_truncate) waits until what was asked before is durable, then finds the batch that holds the offset, judges
 * what its producers and its greatest timestamp are without what goes, changes memory, and leaves as PLOG_CHANGE_TRUNCATE. Files
 * are cut and unlinked only when the journal has it, when no sync of the file runs and no lease reaches beyond the cut; appends
 * asked meanwhile come after it. Each run names how many truncations came before it (plog_run.cuts): one from before a
 * truncation that the state knows is history and is not replayed. From a truncation on until a checkpoint that knows it is whole
 * (plog_checkpointed), all runs of the log have their bytes in the journal: replay writes what was cut once more, and then what
 * took its place.
 *
 * THE JOURNAL'S SIDE is carried by broker: plog names no journal. PLOG_OUT_RUN and PLOG_OUT_CHANGE are what must be journalled,
 * in the order they leave; plog_restore and plog_replay bring it back. A CHANGE may have bytes too (PLOG_CHANGE_SEGMENT, _EPOCH: the
 * log's name): they are journalled with it and given back to plog_replay. Where run_token is 0 nothing is to be answered; what
 * such a change points at stays until the run after it is answered.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PLOG_PLOG_H
#define PLOG_PLOG_H

#include "base/base.h"
#include "port/port.h"

struct plog;

/* Every token that plog gives to the world has this in its top byte, so that broker can route completions. */
#define PLOG_TOKEN_ROOM         ((uint64_t)0x50)
#define PLOG_EFFECTS_MAX        16
/* What the disk or memory refused to a replay is asked for again this long. */
#define PLOG_REPLAY_PATIENCE_NS UINT64_C(5000000000)

struct plog_config {
    uint32_t shard; /* for file ids */
    uint32_t disk;
    uint32_t logs_max;
    uint32_t segments_max; /* of all logs */
    uint32_t appends_max;  /* in flight, of all logs */
    uint32_t reads_max;    /* in flight, leases included */
    uint32_t
        producers_max; /* producer states, of all logs; the one unused longest makes room (never one with work in flight) */
    uint32_t files_max;       /* open at once (>= 8); files are opened on demand and closed when not used recently */
    uint32_t file_slot_first; /* file ids of this machine have slots [file_slot_first, file_slot_first + files_max) */
    uint32_t
        inline_bytes_max; /* runs below this have their bytes journalled; larger ones are synced in their own file first */
    uint32_t
        run_bytes_max; /* what the journal takes of one run, at most; 0: 64 KiB. A truncated log takes no larger append
                               until the next checkpoint (PLOG_BUSY, and PLOG_OUT_WANT_CHECKPOINT) */
    uint32_t step_max; /* items of work per call of plog_turn; 1 in tests */
    uint64_t producer_expiry_ms;
    uint64_t opened_bytes_max;   /* of a compressed batch whose records are looked through; 0: 256 MiB */
    uint64_t retention_check_ms; /* log.retention.check.interval.ms; 0: 300000 */
    bool is_check_slow;
};

struct plog_log_config {    /* of one log; may change at run time (plog_configure) */
    uint64_t segment_bytes; /* Kafka segment.bytes */
    uint64_t
        segment_ms; /* segment.ms: by the first record's timestamp, or by wall time of creation where there is none */
    uint64_t
        segment_jitter_ms; /* segment.jitter.ms: each segment rolls so much earlier at most, one more than the other */
    uint32_t index_interval_bytes;
    uint32_t index_bytes_max; /* segment.index.bytes: a full index rolls */
    int64_t retention_ms;     /* -1: for ever */
    int64_t retention_bytes;  /* -1: no limit */
    uint64_t delete_delay_ms; /* file.delete.delay.ms */
    bool is_preallocated;     /* preallocate: a new segment's file has segment_bytes of disk at once */
    bool is_page_cache;       /* weir.durability; a log that has segments keeps what it had */
    uint64_t flush_messages;  /* page-cache topics: flush.messages, flush.ms; UINT64_MAX: never */
    uint64_t flush_ms;
    bool is_metadata;  /* the cluster metadata log: control batches allowed, never deleted */
    bool is_mark_told; /* one replica of several: the watermark is what plog_watermark says */
};

struct plog_ref {
    uint32_t slot;
    uint32_t generation;
}; /* a log; generation 0: none */

enum plog_result {
    PLOG_OK = 0,
    PLOG_STORAGE,      /* KAFKA_STORAGE_ERROR: the disk or this log failed; for appends that were written: indefinite */
    PLOG_NO_SPACE,     /* disk full: nothing of it is in the log */
    PLOG_OFFSET_RANGE, /* below the log's start or above its watermark (reads) */
    PLOG_DUPLICATE, /* append: a batch already in the log; base_offset is the old one's (KIP-98): success for the client */
    PLOG_OUT_OF_ORDER, /* append: OUT_OF_ORDER_SEQUENCE_NUMBER */
    PLOG_FENCED,       /* append: INVALID_PRODUCER_EPOCH */
    PLOG_GONE,         /* the log was deleted meanwhile */
    PLOG_DAMAGED,      /* the range asked for is damaged: KAFKA_STORAGE_ERROR, the rest of the log works */
    PLOG_BUSY,         /* no room: try again later */
    PLOG_NOT_NEXT, /* append, assigned: its offsets don't follow the log's end, or an epoch goes back. Nothing of it is there */
    PLOG_OLD_EPOCH, /* append, epoch: the log knows a later epoch than the caller's. Nothing of it is there */
};

MUST_USE
enum base_rc plog_create(struct base_arena *arena, struct base_pages *pages, const struct plog_config *config,
                         struct plog **plog_out);
size_t plog_arena_bytes(const struct plog_config *config); /* how much of the arena create takes */

/* ---- logs ---------------------------------------------------------------------------------------------------------- */

/* Makes log `id` known, or finds the one that recovery restored. The directory is `name`-INDEX (name: at most 249 bytes, copied),
 * made at the first record. While entries are replayed: for a log whose first is about to be, where the caller knows what its birth block
 * would say (epoch -1). Fails BASE_FULL. */
MUST_USE
enum base_rc plog_open(struct plog *plog, struct base_part id, struct base_slice name,
                       const struct plog_log_config *config, int32_t leader_epoch, struct plog_ref *ref_out);
void plog_configure(struct plog *plog, struct plog_ref ref, const struct plog_log_config *config);
struct plog_ref plog_find(const struct plog *plog, struct base_part id);
/* Deletes the log: no new work is taken; what is in flight ends as PLOG_GONE; when the last lease is back its files go.
 * PLOG_OUT_CHANGE (PLOG_CHANGE_GONE) leaves at once, PLOG_OUT_DELETED when the files are gone. `ref` is dead from now on. */
void plog_delete(struct plog *plog, struct plog_ref ref, struct port_out *out);
/* The first log at or after `cursor` (0 first) and the next cursor; false at the end. In slot order. For reconciling with the metadata. */
bool plog_each(const struct plog *plog, uint32_t *cursor, struct plog_ref *ref_out, struct base_part *id_out);

struct plog_view {
    struct base_part id;
    struct base_slice name;
    int64_t offset_start;         /* log start */
    int64_t start_next;           /* where a move under way brings it */
    int64_t offset_end;           /* the next offset to be assigned */
    int64_t synced_end;           /* everything before it is durable */
    int64_t watermark;            /* first offset that may not be read */
    int32_t leader_epoch;         /* the latest known of: nothing of an earlier one is taken */
    int32_t epoch_last;           /* the latest that has begun in the log; -1: none */
    int64_t timestamp_max;        /* -1: none */
    int64_t timestamp_max_offset; /* last offset of the batch that has it; the very record: plog_find_greatest */
    uint64_t size_bytes;
    uint32_t segment_count;
    bool is_failed;   /* nothing is appended to it any more */
    bool is_off_line; /* nor is anything read: the disk has failed */
    bool is_damaged;
    bool may_lack_end; /* a page-cache log after a stop that was not clean: records that were read may be gone */
};
void plog_view(const struct plog *plog, struct plog_ref ref, struct plog_view *view_out);
/* As it was opened, or configured last: what the log goes by; NULL: no such log. For checkers and tests. */
const struct plog_log_config *plog_log_configured(const struct plog *plog, struct plog_ref ref);
/* Of the view its size_bytes alone: cheap enough to be asked at every step. */
uint64_t plog_size_bytes(const struct plog *plog, struct plog_ref ref);

/* ---- appending ------------------------------------------------------------------------------------------------------ */

struct plog_append {
    uint64_t token; /* comes back in PLOG_OUT_WRITTEN / PLOG_OUT_SYNCED / PLOG_OUT_FAILED */
    uint8_t *
        batches; /* whole record batches, validated by the caller; borrowed, and written to (base offset, epoch, and for
                                 log append time the timestamps), until the append's last out */
    uint32_t size_bytes;
    int32_t leader_epoch; /* written into the batches; is_assigned: of the leader they came from */
    bool is_log_append_time;
    bool is_assigned; /* a follower's: offsets and epochs are as in the batches */
    /* Also answer PLOG_OUT_WRITTEN when written (acks=1), if flush.messages asks for no sync first. */
    bool wants_written;
};
/* Queues an append; the answers come as outs, never from inside. Last out of every append: SYNCED or FAILED.
 * Fails  BASE_FULL: nothing was taken. Needs the log open and not failed (else PLOG_OUT_FAILED follows). */
MUST_USE
enum base_rc plog_append(struct plog *plog, struct plog_ref ref, const struct plog_append *append,
                         struct port_out *out);

/* ---- reading -------------------------------------------------------------------------------------------------------- */

struct plog_read {
    uint64_t token;
    int64_t offset;
    uint32_t bytes_max;         /* of this read */
    bool takes_oversized_first; /* a first batch larger than bytes_max is returned whole (KIP-74) */
    bool is_prompt; /* BUSY when all leases are out, where it would else wait for one: who holds others must not wait */
    bool is_end_unlimited; /* read to the end of what is written, not to the watermark (followers, metadata replay) */
};
/* Finds the file range that starts with the batch holding `offset`: PLOG_OUT_READ follows. At the watermark the range is empty and OK.
 * A range with bytes is a lease: its file stays as it is until plog_release(lease). Fails BASE_FULL: nothing was taken. */
MUST_USE
enum base_rc plog_read(struct plog *plog, struct plog_ref ref, const struct plog_read *read, struct port_out *out);
/* The same, but the bytes come in a block of `pages` that the caller gives back with base_pages_give (metadata replay, tools). */
MUST_USE
enum base_rc plog_read_bytes(struct plog *plog, struct plog_ref ref, const struct plog_read *read,
                             struct port_out *out);
void plog_release(struct plog *plog, uint64_t lease, struct port_out *out);

/* The first record with timestamp >= `timestamp_ms` below the watermark: PLOG_OUT_TIME follows (offset -1: none).
 * Exact per record, in compressed batches too. */
MUST_USE
enum base_rc plog_find_time(struct plog *plog, struct plog_ref ref, uint64_t token, int64_t timestamp_ms,
                            struct port_out *out);
/* The first record with the greatest timestamp that the files hold, in the same way. As in Kafka it may be one before the log's start,
 * deleted but not yet gone with its segment; records without a timestamp have -1. */
MUST_USE
enum base_rc plog_find_greatest(struct plog *plog, struct plog_ref ref, uint64_t token, struct port_out *out);
/* The end offset of `epoch` as OffsetForLeaderEpoch answers it: the largest epoch <= asked, and where the next one starts. (-1,-1): unknown. */
void plog_epoch_end(const struct plog *plog, struct plog_ref ref, int32_t epoch, int32_t *epoch_out,
                    int64_t *offset_end_out);

/* An epoch of this replica's leadership begins at the log's end, behind what is being written; appends of an earlier one, waiting ones
 * too, fail as PLOG_OLD_EPOCH. PLOG_OUT_EPOCH (offset: where it begins) follows when it is durable.
 * Fails BASE_FULL: another one or a truncation is on its way; nothing has changed. */
MUST_USE
enum base_rc plog_begin_epoch(struct plog *plog, struct plog_ref ref, uint64_t token, int32_t epoch,
                              struct port_out *out);
/* The log ends before the batch that holds `offset`; at or beyond the end only an epoch that has no record goes. PLOG_OUT_TRUNCATED (offset: the end)
 * follows when it is durable: PLOG_OK, PLOG_OFFSET_RANGE (below the log start), or why not: then nothing has changed.
 * Fails BASE_FULL: one is on its way, or the start is moving. */
MUST_USE
enum base_rc plog_truncate(struct plog *plog, struct plog_ref ref, uint64_t token, int64_t offset,
                           struct port_out *out);
/* What the leader says is committed. Raises the watermark, never above the synced end, and not at all while a truncation is on its
 * way: what a leader has at those offsets is not what is here (KAFKA-14704). It will say so again. */
void plog_watermark(struct plog *plog, struct plog_ref ref, int64_t offset, struct port_out *out);

/* The producers that a log remembers, up to `max` of them; gives how many there are. */
struct plog_producer {
    int64_t id;
    int16_t epoch;
    int32_t sequence_last; /* -1: none under this epoch */
    int64_t timestamp_ms;  /* of its last batch; -1: none */
};
uint32_t plog_producers(const struct plog *plog, struct plog_ref ref, struct plog_producer *producers_out,
                        uint32_t max);

/* DeleteRecords and retention: the log start moves to `offset` (not above the watermark), whole segments below go.
 * PLOG_OUT_STARTED with the token follows when it is durable. Fails BASE_FULL: it is moving, or a truncation is on its way. */
MUST_USE
enum base_rc plog_move_start(struct plog *plog, struct plog_ref ref, uint64_t token, int64_t offset,
                             struct port_out *out);

/* ---- what comes out: pull until false (at most step_max per call of the owner, then ask for a CONTINUE) ----------------- */

enum plog_out_kind {
    PLOG_OUT_WRITTEN = 0, /* token, base_offset, log_append_time_ms: in the log, not yet durable or visible */
    PLOG_OUT_SYNCED, /* token, base_offset, log_append_time_ms, result OK or DUPLICATE: durable and visible. The last out of its append. */
    PLOG_OUT_FAILED, /* token, result. The last out of its append. */
    PLOG_OUT_READ, /* token, result; offset (asked), file/position_bytes/size_bytes + lease, or block/size_bytes (plog_read_bytes) */
    PLOG_OUT_TIME,      /* token, result, offset, timestamp_ms, leader_epoch */
    PLOG_OUT_STARTED,   /* token, result, offset: the new log start */
    PLOG_OUT_TRUNCATED, /* token, result, offset: the end */
    PLOG_OUT_EPOCH,     /* token, result, offset: where it begins */
    PLOG_OUT_WATERMARK, /* ref: its watermark, start or health changed since the last one: wake who waits */
    PLOG_OUT_RUN,       /* to be journalled: run; answer plog_journalled(run_token) */
    PLOG_OUT_CHANGE,    /* to be journalled: change; answer plog_journalled(run_token) if run_token != 0 */
    PLOG_OUT_STATE,     /* checkpoint: state block, size_bytes, answer plog_state_taken */
    PLOG_OUT_STATES_END, /* checkpoint: all logs have been captured. When the disk fails before, it never comes: a checkpoint
                             without all states must not become the newest */
    PLOG_OUT_REPLAYED, /* the restore or replay asked for with run_token is done. OK, or DAMAGED: go on; the log is marked.
                             Anything else (STORAGE, NO_SPACE, BUSY): it was tried for PLOG_REPLAY_PATIENCE_NS and is not in
                             the segment. No checkpoint may follow in this life: it would forget what the journal holds */
    PLOG_OUT_RECOVERED, /* answer to plog_recovery_end. Not OK: nobody knows where a log ends, for want of something that may be had
                                 another time. The machine serves nothing, and no checkpoint may follow in this life */
    PLOG_OUT_DELETED,         /* id: its files are gone */
    PLOG_OUT_WANT_CHECKPOINT, /* an append waits for one: see run_bytes_max */
    PLOG_OUT_DISK_FAILED,     /* a sync of a segment failed: broker takes the disk off line (plog_disk_failed) */
    PLOG_OUT_FULL,    /* the disk had no room for something: broker refuses what needs more until there is room again */
    PLOG_OUT_STOPPED, /* answer to plog_stop: files closed, nothing in flight */
};

enum plog_change_kind {
    PLOG_CHANGE_START = 1,
    PLOG_CHANGE_TRUNCATE = 2,
    PLOG_CHANGE_GONE = 3,
    PLOG_CHANGE_SEGMENT = 4,
    PLOG_CHANGE_EPOCH = 5
};

struct plog_run {                 /* one write of one log, or a change of its shape: what the journal must keep */
    enum plog_change_kind change; /* 0: a run of bytes */
    struct base_part id;
    int64_t segment_base;
    uint64_t position_bytes; /* in the segment */
    int64_t offset_base;     /* run: first offset; START: the new log start; TRUNCATE: the new end */
    int64_t offset_end;      /* run: one past the last */
    int32_t leader_epoch;
    uint16_t cuts; /* truncations of the log before it, modulo 2^16; TRUNCATE: itself included */
    uint32_t crc;  /* CRC-32C of the bytes */
    uint64_t size_bytes;
    const struct port_piece
        *pieces; /* the bytes, in memory, when they are to be journalled; NULL: synced in the segment itself.
                                        Borrowed until plog_journalled */
    uint32_t piece_count;
};

struct plog_out {
    enum plog_out_kind kind;
    enum plog_result result;
    uint64_t token;
    struct plog_ref ref;
    struct base_part id;
    int64_t base_offset;
    int64_t log_append_time_ms; /* -1 unless log append time */
    int64_t offset;
    int64_t timestamp_ms;
    int32_t leader_epoch;
    int64_t watermark;    /* READ, TIME: as of this answer */
    int64_t offset_start; /* READ, SYNCED: the log start */
    struct port_file file;
    uint64_t position_bytes;
    uint64_t size_bytes;
    uint64_t first_batch_bytes; /* READ: of the batch that the range begins with; may be more than size_bytes */
    uint64_t lease;             /* 0: nothing to release */
    uint8_t *block;
    uint64_t run_token;
    struct plog_run run;
};
bool plog_poll(struct plog *plog, struct plog_out *plog_out);

/* ---- events ---------------------------------------------------------------------------------------------------------- */

/* At START, before all else: by how much wall time is ahead then is what later steps of the wall clock are measured by. */
void plog_start(struct plog *plog, const struct port_event *event);
/* While it is held nothing goes for its age or size: logs may be open whose configs are not known yet, or the last checkpoint of a stop
 * is near. Not held before it is said so; when it is released, what is due goes at once. */
void plog_hold_retention(struct plog *plog, bool is_held);
void plog_done(struct plog *plog, const struct port_event *event,
               struct port_out *out); /* a completion with PLOG_TOKEN_ROOM */
/* At TURN and at CONTINUE: writes what was gathered; asks for CONTINUE if work is left. */
void plog_turn(struct plog *plog, const struct port_event *event, struct port_out *out);
void plog_alarm(struct plog *plog, const struct port_event *event,
                struct port_out *out); /* segment.ms, retention, producer expiry, flush.ms, file deletion */
uint64_t plog_next_alarm_ns(const struct plog *plog);
/* The host has no handle for somebody outside this room: the file that was not used for longest is closed, unless one is being closed
 * anyway. False: all are in use. */
bool plog_give_handle(struct plog *plog, struct port_out *out);
/* The journal has the run or change: synced (PORT_OK) or failed. */
void plog_journalled(struct plog *plog, uint64_t run_token, enum port_rc rc, struct port_out *out);
/* A sync of the disk failed: nothing on it is acknowledged or synced again in this life. */
void plog_disk_failed(struct plog *plog, struct port_out *out);

/* ---- checkpoint and recovery (the journal's memory of each log is an opaque state block made and read here) -------------- */

/* Captures every log, one after another: quiet for an instant, state encoded, its files synced, then PLOG_OUT_STATE (block owned by
 * plog until plog_state_taken). After the last PLOG_OUT_STATES_END. A log made or changed meanwhile may be captured or not: replay
 * from the journal position where the checkpoint began gives the same end either way. */
void plog_checkpoint(struct plog *plog, struct port_out *out);
void plog_state_taken(struct plog *plog, struct port_out *out);
/* The checkpoint whose states came last is whole, and the newest: what came before its begin is not replayed again. */
void plog_checkpointed(struct plog *plog);

/* Recovery, before anything else: states first, then runs and changes in journal order, each answered by PLOG_OUT_REPLAYED before
 * the next of the same log is given; then plog_recovery_end. `bytes` empty: the run was synced in its segment and is checked there
 * against its CRC. A run that its state already covers changes nothing. Bytes that are missing or wrong below what was synced are
 * damage: the log is marked, the range answers PLOG_DAMAGED, nothing is cut. What lies beyond the last run is cut. An entry that
 * finds no slot for its log or segment waits while deleted logs go: more may have come and gone since the checkpoint than fit. */
MUST_USE
enum base_rc plog_restore(struct plog *plog, struct base_slice state, uint64_t run_token, struct port_out *out);
MUST_USE
enum base_rc plog_replay(struct plog *plog, const struct plog_run *run, struct base_slice bytes, uint64_t run_token,
                         struct port_out *out);
/* last_stop: of the life before; UNCLEAN where nobody knows. */
enum plog_last_stop { PLOG_LAST_UNCLEAN = 0, PLOG_LAST_CLEAN };
void plog_recovery_end(struct plog *plog, enum plog_last_stop last_stop, struct port_out *out);
bool plog_may_lack_ends(const struct plog *plog); /* recovered: some log may lack its end (struct plog_view) */
/* The log id inside a state block: to find the shard it belongs to. */
MUST_USE
enum base_rc plog_state_id(struct base_slice state, struct base_part *id_out);
/* The journal lost entries that may have been this log's. A later run that goes on where the log ends proves that none was; else
 * whole batches behind the end are taken in, and what stands there besides is damage. Of the metadata log the end proves nothing:
 * it counts as damaged, though all that is known of it can be read. */
void plog_mark_suspect(struct plog *plog, struct base_part id, struct port_out *out);

/* Clean stop: takes no more work, lets what is in flight end, closes files. Checkpoint first. */
void plog_stop(struct plog *plog, struct port_out *out);

bool plog_is_sound(const struct plog *plog); /* every invariant of the room that can be seen from memory (CHECK_SLOW) */
bool plog_is_quiet(const struct plog *plog); /* nothing in flight, no lease out (I25) */
/* What it then holds of the pages: for epochs of its logs, and for a list of files that go. */
uint32_t plog_blocks(const struct plog *plog);

#endif
