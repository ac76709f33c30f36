/* plog__.h: the structs of plog and what its files call of each other; private to the room.
 *
 * Who does what
 *
 *   plog__log.c       create, open, views, the list of ready tasks, the clock's work
 *   plog__out.c       what comes out, and the journal's answers
 *   plog__append.c    rounds: gathering, judging, leaving for the journal, becoming durable
 *   plog__writer.c    the writer of a log: one effect at a time, in the order that makes a round durable
 *   plog__index.c     what a batch leaves in memory: index tail, greatest timestamp, epoch; and lookups in the tail
 *   plog__producers.c idempotence
 *   plog__epochs.c    the leader epoch cache
 *   plog__files.c     the cache of open files
 *   plog__segments.c  segments, their syncs, the log start, retention
 *   plog__cut.c       truncations: what is found out before anything changes
 *   plog__cutoff.c    ... and what changes, live and at replay
 *   plog__read.c      reads, times, leases
 *   plog__recover.c   restore, replay
 *   plog__birth.c     logs that no state knows
 *   plog__mend.c      a file that is too short for what is replayed behind its end
 *   plog__scan.c      what no journal names
 *   plog__state.c     state blocks
 *   plog__checkpoint.c captures
 *   plog__reap.c      deleting segments and logs
 *   plog__sound.c     what must hold between any two calls
 *
 * A task is whoever may wait for a file: it pins at most one, and is on at most one list. Its owner is a level-triggered
 * machine: "advance" looks at the facts, asks for the next effect, and is called again when that has completed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PLOG_PLOG__H
#define PLOG_PLOG__H

#include "plog/plog.h"
#include "record/record.h"

#define PLOG__NONE              UINT32_MAX
#define PLOG__NAME_MAX          249
#define PLOG__DIR_BYTES         (PLOG__NAME_MAX + 12)
#define PLOG__PATH_BYTES        (PLOG__DIR_BYTES + 48)
#define PLOG__TAIL_MAX          128 /* index entries of the active segment that are in memory only */
#define PLOG__TAIL_FLUSH        64  /* with so many they are written after the round */
#define PLOG__INDEX_BYTES       8
#define PLOG__TIME_BYTES        12
#define PLOG__PIECES_INLINE     4
#define PLOG__ROUND_APPENDS_MAX 64
#define PLOG__ROUND_BYTES_MAX   ((uint64_t)4 << 20)
#define PLOG__HINTS             4
#define PLOG__EPOCHS_INLINE     4
#define PLOG__EPOCHS_MAX        4096
#define PLOG__BATCHES_KEPT      5 /* of a producer (KIP-98, ProducerStateEntry.NUM_BATCHES_TO_RETAIN) */
#define PLOG__CHUNK_BYTES       BASE_PAGE_BYTES
#define PLOG__SEGMENT_BYTES_MAX ((uint64_t)INT32_MAX) /* positions in an index are 32 bits wide */
#define PLOG__OWNER_BYTES       64                    /* at least partition.metadata */
#define PLOG__LOOSE_NOTES_MAX   256u
#define PLOG__RETAIN_MAX        64u /* segments that one move of the log start takes */
#define PLOG__RETRY_NS          UINT64_C(100000000)
#define PLOG__EFFECTS_OF_ONE    4 /* most that one advance emits */

#define PLOG__OFFSET_MAX (INT64_MAX / 2) /* no disk is believed to be near the end of all offsets */

_Static_assert(PLOG__CHUNK_BYTES >= 4 * REC_HEADER_BYTES, "a chunk holds a header wherever it begins");

/* ---- tokens: room, kind, slot ---- */

enum plog__token {
    PLOG__TOKEN_OPEN = 1, /* slot: file */
    PLOG__TOKEN_CLOSE,    /* file */
    PLOG__TOKEN_WRITER,   /* log */
    PLOG__TOKEN_READ,     /* read */
    PLOG__TOKEN_SYNC,     /* segment */
    PLOG__TOKEN_CAPTURE,
    PLOG__TOKEN_REAP,
    PLOG__TOKEN_CUT,
};
static inline uint64_t plog__token(enum plog__token kind, uint32_t slot)
{
    return PLOG_TOKEN_ROOM << 56 | (uint64_t)kind << 48 | slot;
}

/* ---- tasks and files ---- */

enum plog__task_kind {
    PLOG__TASK_WRITER = 0,
    PLOG__TASK_READ,
    PLOG__TASK_SYNC,
    PLOG__TASK_CAPTURE,
    PLOG__TASK_REAP,
    PLOG__TASK_CUT
};

struct plog__task {
    struct base_link link; /* on plog.ready, file.waiters, or one of plog's lists of waiters */
    struct base_list *list;
    enum plog__task_kind kind;
    uint32_t slot;
    uint32_t file;        /* + 1: the file it pins; 0: none */
    enum port_rc open_rc; /* of the open it waited for; looked at once, by plog__file_get */
};

enum plog__which { PLOG__LOG = 0, PLOG__INDEX, PLOG__TIME, PLOG__SMALL };
#define PLOG__SEGMENT_FILES 3

/*   FREE -get-> OPENING -done-> OPEN <-> (on lru while nobody pins it) -close-> CLOSING -done-> FREE
 *   OPENING -failed-> FREE;  OPENING -out of handles, another was closed-> OPENING again */
enum plog__file_state { PLOG__FILE_FREE = 0, PLOG__FILE_OPENING, PLOG__FILE_OPEN, PLOG__FILE_CLOSING };

struct plog__file {
    enum plog__file_state state;
    enum plog__which which;
    uint32_t generation;
    uint32_t log;
    uint32_t segment; /* NONE: a small file of the log */
    uint32_t pins;
    uint32_t leases; /* pins of reads */
    uint32_t flags;
    bool is_for_read;       /* OPENING: a read asked */
    bool is_leased;         /* counted in plog.leased_files */
    uint64_t size_at_open;  /* and as a replay, or the flush of an index, changed it */
    struct base_link lru;   /* OPEN and unpinned, the one unused longest first */
    struct base_link retry; /* OPENING and waiting for a handle */
    struct base_list waiters;
    uint32_t path_bytes;
    char path[PLOG__PATH_BYTES];
};

/* ---- segments ---- */

struct plog__segment {
    struct base_link link; /* log.segments, or log.doomed */
    struct base_link doom; /* plog.doomed */
    uint32_t log;
    int64_t base;
    int64_t end;         /* one past its last offset */
    uint64_t size_bytes; /* written whole rounds only */
    uint64_t synced_bytes;
    uint64_t sync_covers; /* of the sync in flight */
    uint32_t sync_tries;  /* opens for it that failed in a row */
    int64_t timestamp_max;
    int64_t timestamp_max_offset; /* last offset of the batch that has it */
    int64_t timestamp_first;      /* greatest timestamp of the first batch (Kafka rolls by it); -1: none */
    int64_t created_wall_ms;      /* these two as plog__came_ms says */
    int64_t last_wall_ms;         /* of the last append, or of its replay */
    uint32_t index_count;         /* entries in the file */
    uint32_t time_count;
    uint32_t files[PLOG__SEGMENT_FILES]; /* + 1 */
    uint32_t pins;                       /* reads, leases, a capture: it stays */
    uint32_t leases_above;               /* that reach beyond its end: bytes that a truncation cut off */
    bool is_sealed;
    bool is_created; /* the .log file is there */
    bool is_named;   /* ... and its name is durable */
    bool is_born;    /* PLOG_CHANGE_SEGMENT left */
    bool needs_cut;  /* after a restart: the file may be longer than what is known */
    bool is_longer;  /* ... and is, or may well be */
    bool is_cut_new; /* of a page-cache log: it was, and a power cut may bring that back yet */
    bool is_doomed;
    bool is_waiting; /* doomed so far: its entry was replayed, and where the segments before it end is not known yet */
    bool is_cut_off; /* by a truncation that the journal does not have yet: its files stay */
    bool is_index_bad;   /* its index files are not used */
    bool is_index_dirty; /* written since their last sync */
    bool is_sync_wanted;
    bool is_sync_in_flight;
    bool has_reserve;     /* its file may have more disk than it has bytes: given back when it is sealed */
    uint64_t damage_from; /* [from, to) does not hold what was written; from == to: none */
    uint64_t damage_to;
    uint64_t dead_at_ns; /* doomed: when its files may go */
    struct plog__task sync;
};

/* ---- producers ---- */

struct plog__kept {
    int64_t base_offset;
    int64_t offset_last;
    int64_t timestamp_ms;
    int32_t sequence_first;
    int32_t sequence_last;
};
struct plog__sequence {
    int16_t epoch;
    uint8_t kept_count;   /* the newest last */
    int64_t last_wall_ms; /* of the last append or replay, as plog__came_ms says */
    struct plog__kept kept[PLOG__BATCHES_KEPT];
};
struct plog__producer {
    struct base_link of_log;
    struct base_link lru; /* of all logs, the one unused longest first */
    struct base_link touched;
    uint32_t log;
    int64_t id;
    bool is_new; /* made by the round being written */
    struct plog__sequence now;
    struct plog__sequence before; /* while touched: as it was before the round */
};

/* ---- appends and rounds ---- */

struct plog__append {
    struct base_link link; /* log.queue, or round.appends */
    struct plog_append ask;
    uint32_t log;
    bool is_duplicate;
    enum plog_result result;
    int64_t base_offset;
    int64_t log_append_time_ms;
    int64_t offset_start;
};

/*   WRITING -all bytes written-> WRITTEN -[large, flushed: synced]-> LEFT -plog_journalled-> DURABLE -in order-> freed
 *   WRITING -failed-> freed, its appends fail.   A page-cache log: WRITTEN -> DURABLE, unless a new segment is to be named. */
enum plog__round_state { PLOG__WRITING = 0, PLOG__WRITTEN, PLOG__LEFT, PLOG__DURABLE };

struct plog__round {
    struct base_link link; /* log.rounds, in offset order */
    uint32_t log;
    uint32_t segment;
    enum plog__round_state state;
    bool is_large;
    bool is_flush;      /* of a page-cache log: the one that flush.messages asks a sync for, before it is answered */
    bool is_only_birth; /* of a page-cache log: the token of its PLOG_CHANGE_SEGMENT is this round's */
    uint64_t position_bytes;
    uint64_t size_bytes;
    uint64_t written_bytes;
    int64_t offset_base;
    int64_t offset_end;
    int32_t leader_epoch;
    uint32_t crc;
    struct base_list appends;
    uint32_t append_count; /* with bytes */
    struct port_piece *pieces;
    uint32_t pieces_max;
    uint32_t piece_count;
    void *pieces_block;
    struct port_piece pieces_inline[PLOG__PIECES_INLINE];
};

/* ---- logs ---- */

struct plog__epoch {
    int32_t epoch;
    int64_t offset_start;
};

struct plog__hint { /* a batch whose place is known */
    int64_t offset_base;
    int64_t offset_last;
    uint32_t segment; /* NONE: unused */
    uint32_t size_bytes;
    uint64_t position_bytes;
};

struct plog__tail { /* as the files have them */
    uint32_t index_count;
    uint32_t time_count;
    int64_t time_last; /* timestamp of the segment's last entry; -1: none */
    uint64_t since_bytes;
    uint8_t index[PLOG__TAIL_MAX * PLOG__INDEX_BYTES];
    uint8_t time[PLOG__TAIL_MAX * PLOG__TIME_BYTES];
};

/* What the writer of a log has asked the world for. */
enum plog__asked {
    PLOG__ASKED_NOTHING = 0,
    PLOG__ASKED_DIR,
    PLOG__ASKED_OWNER,  /* whose the directory is that was there already */
    PLOG__ASKED_ASIDE,  /* ... and that nobody takes away */
    PLOG__ASKED_CLEAR,  /* a new segment's file had bytes */
    PLOG__ASKED_NAME,   /* SYNC_DIR of the log's directory */
    PLOG__ASKED_PARENT, /* ... and of the disk's */
    PLOG__ASKED_CUT,
    PLOG__ASKED_CUT_SYNC, /* of a page-cache log: what was cut off or cleared never comes back */
    PLOG__ASKED_RESERVE,  /* the disk of a whole segment */
    PLOG__ASKED_WRITE,
    PLOG__ASKED_UNDO,
    PLOG__ASKED_UNDO_SYNC, /* what a start cut off a segment that it sealed never comes back */
    PLOG__ASKED_FLUSH,
    PLOG__ASKED_SMALL,
    PLOG__ASKED_CHECK, /* the bytes of a run that has none in the journal, or of a tail without a journal */
};

enum plog__flush {
    PLOG__FLUSH_NONE = 0,
    PLOG__FLUSH_INDEX,
    PLOG__FLUSH_TIME,
    PLOG__FLUSH_CUT_INDEX,
    PLOG__FLUSH_CUT_TIME
};
enum plog__small { PLOG__SMALL_NONE = 0, PLOG__SMALL_OPEN, PLOG__SMALL_CUT, PLOG__SMALL_WRITE, PLOG__SMALL_SYNC };
enum plog__small_kind { PLOG__SMALL_METADATA = 0, PLOG__SMALL_EPOCHS };

/*   NONE -plog_replay-> FIRST (place found, roll done) -> WRITE | CHECK -> NONE, PLOG_OUT_REPLAYED
 *   WRITE -the file is shorter than what is known of it-> MEND -> WRITE
 *   NONE -recovery ends, nothing else names the end-> TAIL -> NONE */
enum plog__replay_state {
    PLOG__REPLAY_NONE = 0,
    PLOG__REPLAY_FIRST,
    PLOG__REPLAY_WRITE,
    PLOG__REPLAY_MEND,
    PLOG__REPLAY_CHECK,
    PLOG__REPLAY_TAIL
};

enum plog__mend { PLOG__MEND_WALK = 0, PLOG__MEND_WIPE, PLOG__MEND_SYNC, PLOG__MEND_DONE };

struct plog__replay {
    enum plog__replay_state state;
    enum plog_result result;
    uint64_t token;
    struct plog_run run;
    struct base_slice bytes;
    uint8_t *block;
    uint64_t block_bytes;
    uint64_t done_bytes;
    uint64_t needs_bytes; /* of the scan's next batch */
    uint64_t window_bytes;
    bool is_before_run; /* the scan comes before `run` */
    enum plog__mend mend;
    uint64_t mend_at; /* where a batch begins */
    uint32_t tries;   /* after the disk or memory refused something */
    struct port_piece piece;
};

struct plog__log {
    struct base_part id;
    uint32_t generation;
    struct plog_log_config config;
    uint16_t name_bytes;
    uint16_t dir_bytes;
    uint16_t birth_bytes;
    char name[PLOG__NAME_MAX + 1];
    char dir[PLOG__DIR_BYTES + 1];
    uint8_t birth[PLOG__NAME_MAX + 16]; /* what PLOG_CHANGE_SEGMENT carries */
    struct port_piece birth_piece;

    int32_t leader_epoch;
    int64_t offset_start;
    int64_t offset_end; /* of whole written rounds */
    int64_t synced_end; /* of durable rounds */
    int64_t watermark;
    int64_t mark_offset;   /* whose place mark_segment and mark_bytes are; a watermark that was told may be elsewhere */
    uint32_t mark_segment; /* NONE: nothing below it is left */
    uint64_t mark_bytes;
    uint16_t cuts;          /* truncations so far, modulo 2^16 */
    bool is_cut;            /* truncated, and no whole checkpoint knows it yet: runs have their bytes in the journal */
    uint16_t captured_cuts; /* as the last capture saw it ... */
    uint64_t captured_in;   /* ... which was this one */
    uint64_t size_bytes;
    int64_t timestamp_max; /* over all segments */
    int64_t timestamp_max_offset;
    struct base_list segments; /* by base */
    struct base_list doomed;
    struct plog__tail tail; /* of the last segment */
    struct plog__epoch *epochs;
    uint32_t epoch_count;
    uint32_t epochs_max;
    void *epochs_block;
    struct plog__epoch epochs_inline[PLOG__EPOCHS_INLINE];
    struct plog__hint hints[PLOG__HINTS];
    uint32_t hint_next;

    bool has_dir;
    bool is_dir_mine;      /* made, or found to be ours, in this life */
    bool is_dir_checking;  /* it was there already */
    bool is_dir_lost;      /* recovery found it gone, or another's, or can't say whose it is */
    bool is_dir_odd;       /* ... and something stands there */
    uint64_t dir_since_ns; /* waiting for another's to go; 0: not */
    uint8_t owner[PLOG__OWNER_BYTES];
    uint64_t owner_bytes;
    char aside[PLOG__DIR_BYTES + 48];
    bool is_parent_synced;
    bool is_metadata_found; /* a crash left it, as it should be; it may not be durable */
    bool is_metadata_written;
    bool is_failed;         /* takes no appends until a restart */
    bool is_damaged;        /* as a whole; damage of a segment goes when the segment does */
    uint32_t damaged_count; /* segments with a damaged range, doomed ones not counted */
    bool is_suspect;        /* its journal may have lost entries: bytes beyond what is known are kept */
    bool is_lost;           /* the journal lost its beginning: there are records, and nobody knows where */
    bool is_restored;       /* by recovery, and not opened yet */
    bool is_deleting;
    bool may_lack_end; /* see struct plog_view */
    bool was_deleting; /* its state said so: the journal may hold entries of it still */
    bool is_renamed;
    bool may_be_left; /* deleted, and not found under its name: a crash may have left what was renamed */
    bool is_mark_out; /* a WATERMARK is among the outs */
    bool is_epochs_dirty;

    struct plog__task writer;
    enum plog__asked asked;
    uint32_t writing;       /* the round; NONE */
    struct base_list queue; /* appends */
    struct base_list rounds;
    struct base_list producers; /* the one unused longest first */
    struct base_list touched;
    enum plog__flush flush;
    bool is_flush_seal;
    bool is_flush_anew; /* both files are emptied first */
    uint32_t flush_segment;
    uint64_t flush_done;
    struct port_piece flush_piece;
    bool needs_undo;     /* the file of undo_segment is longer than what is known of it */
    bool is_undo_cut;    /* ... because of a truncation */
    bool is_undo_synced; /* ... and, once it is cut, is synced before anything else */
    uint32_t undo_segment;
    uint32_t undo_tries; /* for want of a handle or of memory */
    enum plog__small small;
    enum plog__small_kind small_kind;
    uint8_t *small_block;
    uint64_t small_bytes;
    uint64_t small_done;
    struct port_piece small_piece;
    struct plog__replay replay;

    uint32_t changes_in_flight;
    uint32_t reads;  /* in flight, leases included */
    bool is_cutting; /* a truncation is asked for */
    bool is_cut_out; /* ... memory has it, and the journal is about to */
    int64_t cut_offset;
    uint64_t cut_token;
    uint8_t *cut_block; /* what PLOG_CHANGE_TRUNCATE carries */
    struct port_piece cut_piece;
    int64_t cut_segment_base;
    uint64_t cut_position_bytes;
    struct base_list held; /* appends that come after it */
    struct base_link cut;  /* on plog.cuts */
    bool has_epoch;        /* one is about to begin, when nothing of an earlier one is being written */
    bool is_epoch_out;     /* it has, and the journal is about to have it */
    int32_t epoch_next;
    int64_t epoch_start;
    uint64_t epoch_token;
    bool is_start_moving;
    bool is_start_asked; /* with a token */
    bool is_more_to_retain;
    int64_t start_next;
    uint64_t start_token;
    uint64_t unflushed_messages; /* page-cache topics */
    uint64_t unflushed_since_ns; /* 0: nothing is */
    bool was_scanned;            /* at this recovery */
    int64_t start_replayed;      /* page-cache topics: moves there when recovery knows where the segments end */
    struct base_link reap;
};

/* ---- reads ---- */

enum plog__read_kind { PLOG__READ_RANGE = 0, PLOG__READ_BYTES, PLOG__READ_TIME };
/*   LOCATE -> INDEX -> SCAN -> FETCH -> ANSWERED -> freed, or LEASED -plog_release-> freed */
enum plog__read_state {
    PLOG__READ_LOCATE = 0,
    PLOG__READ_INDEX,
    PLOG__READ_SCAN,
    PLOG__READ_FETCH,
    PLOG__READ_ANSWERED,
    PLOG__READ_LEASED,
};

struct
    plog__search { /* in an index file: entries below `low` are at or before what is sought, from `high` on they are not */
    uint32_t low;
    uint32_t high;
    uint32_t first; /* of the chunk being read */
    uint32_t probes;
    bool is_time; /* in the time index */
    bool has_best;
    int64_t key;
    int64_t best_key; /* last offset, or timestamp */
    uint64_t best;    /* position, or relative offset */
};

struct plog__read {
    struct plog__task task;
    enum plog__read_kind kind;
    enum plog__read_state state;
    bool is_asked;       /* an effect is in flight */
    bool is_placing;     /* looks for the watermark's place first */
    int64_t mark_offset; /* the watermark that it reads to, and its place */
    uint32_t mark_segment;
    uint64_t mark_bytes;
    bool is_above;       /* counted in its segment's leases_above */
    uint16_t cuts;       /* of the log, when it was located: it begins anew when the log was truncated since */
    uint32_t log;        /* NONE: there was none */
    uint32_t generation; /* of the lease */
    struct plog_read ask;
    int64_t timestamp_ms;
    bool is_greatest;     /* the time is the log's greatest, and its record may lie before the log's start */
    uint32_t segment;     /* pinned; NONE */
    uint64_t limit_bytes; /* of the segment: nothing at or beyond it is read */
    struct plog__search search;
    int64_t target; /* offset whose batch the scan looks for (times: where it may begin) */
    uint64_t position_bytes;
    bool is_by_index;          /* an index led here: it has to prove itself */
    int64_t proof_offset;      /* the batch at the first position ends here; -1: proved, or nothing to prove */
    int64_t proof_time_offset; /* the batch that ends here has proof_timestamp as its greatest; -1: as above */
    int64_t proof_timestamp;
    bool was_damaged; /* the scan jumped over damage */
    uint8_t *chunk;
    uint64_t chunk_position;
    uint64_t chunk_bytes;
    uint64_t batch_bytes; /* of the batch found */
    uint8_t *block;
    uint64_t block_bytes; /* to be read into it */
    uint64_t fetched_bytes;
    /* the answer */
    enum plog_result result;
    int64_t offset;
    int64_t answer_timestamp;
    int32_t answer_epoch;
    int64_t watermark;
    int64_t offset_start;
    uint64_t size_bytes;
};

/* ---- what comes out ---- */

struct plog__note {
    enum plog_out_kind kind;
    uint32_t slot;
    enum plog_change_kind change;
    enum plog_result result;
    uint64_t token;
    int64_t offset;
    struct base_part id;
};

/*   IDLE -plog_checkpoint-> NEXT -a log is quiet, state encoded-> SYNC -its files are synced-> OUT -plog_state_taken-> NEXT ... */
enum plog__capture_state { PLOG__CAPTURE_IDLE = 0, PLOG__CAPTURE_NEXT, PLOG__CAPTURE_SYNC, PLOG__CAPTURE_OUT };
struct plog__capture {
    enum plog__capture_state state;
    struct plog__task task;
    uint32_t log;           /* the next to look at; in SYNC and OUT the one captured */
    uint32_t segment;       /* pinned */
    uint64_t segment_bytes; /* must be synced up to here */
    uint32_t step;          /* of the segment: 0 log, 1 index, 2 time */
    bool is_asked;
    uint8_t *block;
    uint64_t block_bytes;
    struct base_part id;
};

enum plog__reap_state {
    PLOG__REAP_IDLE = 0,
    PLOG__REAP_UNLINK,        /* files of a doomed segment */
    PLOG__REAP_STRAYS,        /* what is listed of the log's directory: see stray_next */
    PLOG__REAP_SYNC_UNLINKED, /* ... durably, before it is forgotten: else a power cut brings them back for good */
    PLOG__REAP_OWNER,         /* whose the directory is by now */
    PLOG__REAP_RENAME,
    PLOG__REAP_SYNC,
    PLOG__REAP_LIST,
    PLOG__REAP_EMPTY,
    PLOG__REAP_REMOVE,
    PLOG__REAP_SYNC_REMOVED,
};
struct plog__reap {
    enum plog__reap_state state;
    struct plog__task task;
    bool is_asked;
    uint32_t log;
    uint32_t segment;
    uint32_t which;
    uint8_t *block;
    uint8_t owner[PLOG__OWNER_BYTES];
    uint64_t owner_bytes;
    uint64_t list_bytes;
    uint64_t list_at;
    char path[PLOG__PATH_BYTES + 300];
    char path_to[PLOG__PATH_BYTES];
};

/* A replay that found no room while logs were on their way out: it goes on when one of them is gone. One at a time. */
struct plog__room {
    bool is_awaited;
    uint32_t tries;
    uint64_t token;
    struct plog_run run;
    struct base_slice bytes; /* lent by who replays, until the entry is answered */
};

/*   IDLE -a log is ready-> TIMES (the last time entry that stays) -> COUNT (index entries that stay) -> PLACE <-> SCAN
 *     -place, timestamp and producers are known-> APPLY -the change leaves-> IDLE */
enum plog__cut_state {
    PLOG__CUT_IDLE = 0,
    PLOG__CUT_TIMES,
    PLOG__CUT_COUNT,
    PLOG__CUT_PLACE,
    PLOG__CUT_SCAN,
    PLOG__CUT_APPLY
};
struct plog__cut_producer {
    int64_t id;
    struct plog__sequence now;   /* what stays of it */
    struct plog__sequence found; /* in the window that is being scanned */
    bool is_epoch_whole;         /* an older epoch came before those in it */
    bool is_done;                /* nothing older can matter */
};
struct plog__cutter {
    enum plog__cut_state state;
    struct plog__task task;
    bool is_asked;
    uint32_t log;
    uint32_t segment; /* pinned: the one being looked at */
    uint32_t target;  /* the segment that holds the end, NONE: none */
    bool is_target_done;
    bool is_index_bad; /* of the segment being looked at */
    bool is_target_index_bad;
    bool is_time_proved;
    bool has_jumped; /* over damage */
    uint8_t *chunk;
    uint64_t chunk_position;
    uint64_t chunk_bytes;
    /* the search in an index file: entries below `low` end before `key`, from `high` on they don't */
    uint32_t low, high, first;
    int64_t key;
    bool has_best;
    int64_t best_offset;
    uint64_t best; /* position, or timestamp */
    /* what was found of the target */
    uint32_t index_count, time_count;
    bool has_time_entry;
    int64_t time_entry_ms, time_entry_offset;
    int64_t timestamp_max, timestamp_max_offset;
    uint64_t position_bytes;
    int64_t offset_end;
    /* the scan: from position_next to window_to */
    int64_t window_from;  /* offset */
    int64_t window_first; /* offset that it really begins with */
    uint64_t window_start, window_to, position_next;
    int64_t proof_offset;
    uint64_t reach; /* offsets of the next window */
    struct plog__cut_producer *producers;
    uint32_t producer_count, producers_left;
};

enum plog__life { PLOG__RECOVERING = 0, PLOG__SERVING, PLOG__STOPPING, PLOG__STOPPED };

struct plog {
    struct plog_config config;
    struct base_pages *pages;
    uint64_t now_ns;
    int64_t wall_ms;
    bool is_started;
    int64_t wall_ahead_ms; /* wall less monotonic time at the start */
    enum plog__life life;
    bool is_failed;            /* the disk */
    struct base_part *orphans; /* of this start; as many as there is room for logs. The places are in by_orphan */
    struct base_map by_orphan;
    bool has_lost_entries; /* the journal has: files that nothing names may be data */
    bool is_recovery_ending;
    enum plog_result recovered; /* the first scan that could not be made; PLOG_OK: all were */
    uint32_t scans_left;
    uint32_t effects_begin;
    uint32_t next_generation;
    uint32_t next_file_generation;
    struct base_map by_id;
    struct base_map by_producer;
    struct base_pool logs;
    struct base_pool segments;
    struct base_pool appends;
    struct base_pool rounds;
    struct base_pool reads;
    struct base_pool producers;
    /* Free, but not before the checkpoint that is being taken has all states: see plog__checkpoint.c. */
    uint32_t logs_kept;
    uint32_t segments_kept;
    struct plog__file *files;
    uint32_t *free_files;
    uint32_t free_file_count;
    uint32_t open_count; /* opening, open or closing */
    uint32_t closing_count;
    uint32_t leased_files; /* pins of reads */
    struct base_list lru;
    struct base_list retries;
    struct base_list ready;
    struct base_list slot_waiters;
    struct base_list lease_waiters;  /* reads */
    struct base_list handle_waiters; /* who found no handle or no memory: tried again at handles_at_ns */
    uint64_t handles_at_ns;
    struct base_list producer_lru;
    struct base_list deleting;
    struct base_list doomed; /* segments of all logs */
    uint32_t log_high;       /* slots at or above were never taken */
    struct plog__note *notes;
    uint32_t notes_max;
    uint32_t note_first;
    uint32_t note_count;
    struct plog__capture capture;
    struct plog__reap reaper;
    struct plog__room room;
    struct plog__cutter cutter;
    struct base_list cuts;     /* logs whose truncation may begin */
    uint32_t cutting_count;    /* logs that are being truncated */
    uint64_t capture_count;    /* captures begun */
    uint64_t capture_whole;    /* the last that became the newest checkpoint */
    bool may_lack_ends;        /* a log of it may */
    bool is_recovered;         /* each log ends where its last entry says: a stop before that cuts nothing */
    bool is_checkpoint_wanted; /* it is among the outs */
    bool is_sweeping;
    bool is_retention_held;
    uint32_t sweep_log;
    uint64_t sweep_at_ns;
    uint64_t flush_at_ns; /* the earliest flush.ms, or a little later; UINT64_MAX */
    uint64_t reap_at_ns;  /* the earliest doomed segment; UINT64_MAX */
    uint32_t effects_in_flight;
    bool is_full_out;     /* a FULL is among the outs */
    uint32_t loose_notes; /* answers that hold no slot of anything */
    uint32_t stop_log;
    bool has_name_waiters;
};

/* How long ago; 0 when the clock says that it is to come. Total: times come from disks too. */
static inline int64_t plog__age_ms(int64_t wall_ms, int64_t then_ms)
{
    if (then_ms < 0) { then_ms = 0; }
    return wall_ms > then_ms ? wall_ms - then_ms : 0;
}

bool plog__log_is_sound(const struct plog *plog, const struct plog__log *log); /* plog__sound.c */

/* ---- plog__log.c ---- */
struct plog__log *plog__log_at(const struct plog *plog, uint32_t slot);
struct plog__segment *plog__segment_at(const struct plog *plog, uint32_t slot);
struct plog__log *plog__log_of(const struct plog *plog, struct plog_ref ref); /* NULL: dead */
uint32_t plog__log_slot(const struct plog *plog, const struct plog__log *log);
uint32_t plog__segment_slot(const struct plog *plog, const struct plog__segment *segment);
/* Whether a checkpoint is at this log, and so far. */
static inline bool plog__is_captured(const struct plog *plog, const struct plog__log *log,
                                     enum plog__capture_state state)
{
    return plog->capture.state == state && plog->capture.log == plog__log_slot(plog, log);
}
struct plog__log *plog__log_by_id(const struct plog *plog, struct base_part id);
MUST_USE
enum base_rc plog__log_make(struct plog *plog, struct base_part id, struct base_slice name, struct plog__log **log_out);
void plog__log_free(struct plog *plog, struct plog__log *log);
void plog__log_fail(struct plog *plog, struct plog__log *log);
bool plog__log_is_idle(
    const struct plog__log *log); /* the world owes its writer nothing, nothing is queued, no round is out */

void plog__begin(struct plog *plog, const struct port_out *out);          /* at the head of each call that may emit */
void plog__end(struct plog *plog, struct port_out *out);                  /* at its foot */
bool plog__may_emit(const struct plog *plog, const struct port_out *out); /* room for one more advance */
struct port_effect *plog__emit(struct plog *plog, struct port_out *out, enum port_effect_kind kind,
                               enum plog__token token, uint32_t slot);
void plog__clock(struct plog *plog, const struct port_event *event);
void plog__flush_look(struct plog *plog, const struct plog__log *log); /* its flush.ms is not forgotten */
bool plog__wall_is_sane(const struct plog *plog);
int64_t plog__came_ms(const struct plog *plog);
bool plog__has_passed(const struct plog *plog, int64_t timestamp_ms);
void plog__task_init(struct plog__task *task, enum plog__task_kind kind, uint32_t slot);
void plog__task_ready(struct plog *plog, struct plog__task *task); /* no change if it waits or is ready */
void plog__task_take_off(struct plog__task *task);
/* What the host lacks now it may have a little later: see plog__file_retry_later. */
static inline bool plog__may_pass(enum port_rc rc) { return rc == PORT_NO_HANDLES || rc == PORT_NO_MEMORY; }
void plog__note(struct plog *plog, struct plog__note note);
void plog__note_mark(struct plog *plog, struct plog__log *log);
void plog__note_full(struct plog *plog);
MUST_USE
enum base_rc plog__note_loose(struct plog *plog, struct plog__note note); /* an answer that holds no slot of anything */
void plog__path(const struct plog__log *log, const struct plog__segment *segment, enum plog__which which,
                struct base_text *text);

/* ---- plog__files.c ---- */
enum plog__got { PLOG__GOT = 0, PLOG__WAIT, PLOG__FAILED };
/* Pins the file for the task. WAIT: the task is on a list and will be made ready. FAILED: *rc_out. */
MUST_USE
enum plog__got plog__file_get(struct plog *plog, struct plog__log *log, struct plog__segment *segment,
                              enum plog__which which, uint32_t flags, struct plog__task *task, enum port_rc *rc_out,
                              struct port_out *out);
struct plog__file *plog__file_of(const struct plog *plog, const struct plog__task *task);
struct port_file plog__file_id(const struct plog *plog, const struct plog__file *file);
void plog__file_release(struct plog *plog, struct plog__task *task);
/* Closes the task's file once nobody pins it, rather than keeping it. */
void plog__file_close(struct plog *plog, struct plog__task *task, struct port_out *out);
void plog__file_retry_later(struct plog *plog, struct plog__task *task); /* no handle was to be had */
void plog__file_retry(struct plog *plog);
void plog__file_wake(struct plog *plog); /* who waits for a slot, when there may be one */
bool plog__segment_files_close(struct plog *plog, struct plog__segment *segment,
                               struct port_out *out);                /* true: none is open */
bool plog__files_close_one(struct plog *plog, struct port_out *out); /* the one unused longest */
void plog__file_opened(struct plog *plog, uint32_t slot, const struct port_event *event, struct port_out *out);
void plog__file_closed(struct plog *plog, uint32_t slot, struct port_out *out);

/* ---- plog__index.c ---- */
struct plog__head { /* of a batch, from its first REC_HEADER_BYTES bytes */
    uint64_t size_bytes;
    int64_t base_offset;
    int64_t offset_last;
    int64_t max_timestamp_ms;
    int64_t producer_id;
    int32_t leader_epoch;
    int32_t base_sequence;
    int32_t sequence_last;
    int16_t producer_epoch;
    uint16_t attributes;
};
/* False: not the header of a batch that may stand at an offset >= offset_min. */
MUST_USE
bool plog__head_read(const uint8_t *at, int64_t offset_min, struct plog__head *head_out);
enum plog__whose {
    PLOG__LIVE = 0,
    PLOG__REPLAYED
}; /* live: the producers were judged and moved when the round began */
/* What whole batches at `position_bytes` of the last segment leave behind. Live appends and replay alike. */
void plog__apply(struct plog *plog, struct plog__log *log, struct plog__segment *segment, uint64_t position_bytes,
                 struct base_slice bytes, enum plog__whose whose);
void plog__tail_reset(struct plog__tail *tail);
void plog__tail_seal(struct plog__log *log, struct plog__segment *segment);
/* The last entry of the tail at or before `offset`; false: none. */
MUST_USE
bool plog__tail_find(const struct plog__log *log, const struct plog__segment *segment, int64_t offset,
                     int64_t *offset_last_out, uint64_t *position_out);
bool plog__tail_find_time(const struct plog__log *log, const struct plog__segment *segment, int64_t timestamp_ms,
                          int64_t *timestamp_out, int64_t *offset_out);
bool plog__index_is_full(const struct plog__log *log, const struct plog__segment *segment);

/* ---- plog__producers.c ---- */
enum plog__verdict { PLOG__ACCEPT = 0, PLOG__DUPLICATE, PLOG__OUT_OF_ORDER, PLOG__FENCED, PLOG__NO_ROOM };
/* Judges a batch as ProducerStateManager and ProducerAppendInfo of Kafka 4.3 do; duplicate_out is set on DUPLICATE. */
MUST_USE
enum plog__verdict plog__sequence_judge(const struct plog__sequence *sequence, const struct plog__head *head,
                                        struct plog__kept *duplicate_out);
/* Keeps its batches that end before `offset`. True: some went, and older ones in the log may count again. */
bool plog__sequence_cut(struct plog__sequence *now, int64_t offset);
void plog__sequence_apply(struct plog__sequence *sequence, const struct plog__head *head, int64_t wall_ms);
struct plog__producer *plog__producer_find(const struct plog *plog, uint32_t log_slot, int64_t id);
MUST_USE
struct plog__producer *plog__producer_make(struct plog *plog, struct plog__log *log, int64_t id); /* NULL: no room */
void plog__producer_touch(struct plog__log *log, struct plog__producer *producer);
void plog__producer_used(struct plog *plog, struct plog__producer *producer);
void plog__producers_keep(struct plog__log *log);                    /* the round is written */
void plog__producers_undo(struct plog *plog, struct plog__log *log); /* it is not */
void plog__producers_free(struct plog *plog, struct plog__log *log);
void plog__producer_free(struct plog *plog, struct plog__producer *producer);
void plog__producers_expire(struct plog *plog, struct plog__log *log);

/* ---- plog__epochs.c ---- */
void plog__epochs_init(struct plog__log *log);
static inline int32_t plog__epoch_last(const struct plog__log *log) /* -1: none */
{
    return log->epoch_count == 0 ? -1 : log->epochs[log->epoch_count - 1].epoch;
}
void plog__epochs_free(struct plog *plog, struct plog__log *log);
void plog__epochs_assign(struct plog *plog, struct plog__log *log, int32_t epoch, int64_t offset_start);
void plog__epochs_cut_front(struct plog__log *log, int64_t offset_start);
void plog__epochs_cut_end(struct plog__log *log, int64_t offset_end);
void plog__epoch_look(struct plog *plog, struct plog__log *log); /* one that is to begin may now */
void plog__epoch_done(struct plog *plog, struct plog__log *log, enum plog_result result);
MUST_USE
bool plog__epochs_reserve(struct plog *plog, struct plog__log *log, uint32_t count);

/* ---- plog__append.c ---- */
void plog__round_begin(struct plog *plog, struct plog__log *log);
/* Puts its appends back as if it had not begun. Needs: nothing of it was written. */
void plog__round_unbegin(struct plog *plog, struct plog__log *log, struct plog__round *round);
bool plog__queue_wants_roll(const struct plog *plog, const struct plog__log *log, const struct plog__segment *segment);
void plog__round_pieces(const struct plog *plog, struct plog__round *round, uint64_t skip_bytes);
void plog__round_written(struct plog *plog, struct plog__log *log, struct plog__round *round);
void plog__round_fail(struct plog *plog, struct plog__log *log, struct plog__round *round, enum plog_result result);
bool plog__rounds_have_left(const struct plog__log *log); /* all of them, in offset order */
void plog__rounds_leave(struct plog *plog, struct plog__log *log);
void plog__rounds_finish(struct plog *plog, struct plog__log *log);
void plog__queue_fail(struct plog *plog, struct plog__log *log, enum plog_result result);
void plog__rounds_give_up(struct plog *plog, struct plog__log *log, enum plog_result result);
struct plog__round *plog__round_at(const struct plog *plog, uint32_t slot);
struct plog__append *plog__append_at(const struct plog *plog, uint32_t slot);
bool plog__should_roll(const struct plog *plog, const struct plog__log *log, const struct plog__segment *segment,
                       uint64_t size_bytes, int64_t offset_last, int64_t timestamp_ms);

/* ---- plog__writer.c ---- */
void plog__writer_advance(struct plog *plog, struct plog__log *log, struct port_out *out);
void plog__writer_done(struct plog *plog, struct plog__log *log, const struct port_event *event, struct port_out *out);
void plog__seal(struct plog *plog, struct plog__log *log, struct plog__segment *segment);
bool plog__writer_finish(struct plog *plog, struct plog__log *log);
/* Whose directory it is, by what its partition.metadata holds. */
enum plog__owner { PLOG__OURS = 0, PLOG__OTHERS, PLOG__NOBODYS };
enum plog__owner plog__owner_judge(const struct plog__log *log, const uint8_t *at, uint64_t size_bytes);
void plog__delete_dir(const struct base_part id, struct base_slice name, struct base_text *text); /* plog__reap.c */
bool plog__small_begin(struct plog *plog, struct plog__log *log, enum plog__small_kind kind);

/* ---- plog__segments.c ---- */
struct plog__segment *plog__segment_last(const struct plog__log *log);                 /* NULL: none */
struct plog__segment *plog__segment_first(const struct plog__log *log);                /* NULL: none */
struct plog__segment *plog__segment_doomed(const struct plog__log *log, int64_t base); /* NULL: none */
struct plog__segment *plog__segment_next(const struct plog__log *log, const struct plog__segment *segment);
struct plog__segment *plog__segment_before(const struct plog__log *log, const struct plog__segment *segment);
struct plog__segment *plog__segment_of(const struct plog__log *log, int64_t offset); /* the last with base <= offset */
MUST_USE
struct plog__segment *plog__segment_make(struct plog *plog, struct plog__log *log, int64_t base); /* NULL: no room */
/* At replay: a segment of that name that was to go is begun anew. NULL: there is none. */
struct plog__segment *plog__segment_revive(struct plog *plog, struct plog__log *log, int64_t base);
/* At replay: keeps the files of a segment until it is known whether it counts, and gives up those from `base` on that wait already.
 * False: no room. */
MUST_USE
bool plog__segment_wait(struct plog *plog, struct plog__log *log, int64_t base);
struct plog__segment *plog__wait_next(const struct plog__log *log, int64_t from); /* the first that waits; NULL: none */
void plog__waits_end(struct plog *plog, struct plog__log *log, int64_t from, int64_t to); /* they go */
void plog__times_of_log(struct plog__log *log);                                           /* timestamp_max anew */
void plog__segment_doom(struct plog *plog, struct plog__log *log, struct plog__segment *segment, uint64_t delay_ms);
void plog__segment_free(struct plog *plog, struct plog__log *log, struct plog__segment *segment);
static inline bool plog__segment_is_damaged(const struct plog__segment *segment)
{
    return segment->damage_to > segment->damage_from;
}
/* Entries were lost, or what they say is not there: one of them may have named what nothing names. */
static inline bool plog__may_be_named(const struct plog *plog, const struct plog__log *log)
{
    return plog->has_lost_entries || log->is_suspect || log->is_damaged || log->damaged_count > 0;
}
void plog__segment_unpin(struct plog *plog, struct plog__segment *segment); /* the reaper may have waited for it */
void plog__segment_damage(struct plog__log *log, struct plog__segment *segment, uint64_t from, uint64_t to);
/* Everything before `offset` is accounted for and durable; by recovery, and where offsets were skipped. */
void plog__end_move(struct plog__log *log, int64_t offset);
void plog__sync_want(struct plog *plog, struct plog__segment *segment);
void plog__sync_advance(struct plog *plog, struct plog__segment *segment, struct port_out *out);
void plog__sync_done(struct plog *plog, struct plog__segment *segment, const struct port_event *event,
                     struct port_out *out);
MUST_USE
enum base_rc plog__start_move(struct plog *plog, struct plog__log *log, int64_t offset);
void plog__start_trim(struct plog *plog, struct plog__log *log);
void plog__start_apply(struct plog *plog, struct plog__log *log, int64_t offset);
void plog__start_done(struct plog *plog, struct plog__log *log, enum port_rc rc);
void plog__retain(struct plog *plog, struct plog__log *log);
void plog__disk_fail(struct plog *plog);

/* ---- plog__read.c ---- */
void plog__read_advance(struct plog *plog, struct plog__read *read, struct port_out *out);
void plog__read_done(struct plog *plog, struct plog__read *read, const struct port_event *event, struct port_out *out);
void plog__hint_add(struct plog__log *log, const struct plog__segment *segment, uint32_t segment_slot,
                    uint64_t position_bytes, const struct plog__head *head);
void plog__hints_forget(struct plog__log *log, uint32_t segment_slot);
void plog__read_note(struct plog *plog, struct plog__read *read, struct plog_out *plog_out);
void plog__read_free(struct plog *plog, struct plog__read *read);

/* ---- plog__recover.c ---- */
bool plog__replay_advance(struct plog *plog, struct plog__log *log, struct port_out *out); /* true: look again */
void plog__replay_give_up(struct plog *plog, struct plog__log *log, enum plog_result result);
void plog__replay_done(struct plog *plog, struct plog__log *log, const struct port_event *event, struct port_out *out);
struct port_effect *plog__replay_ask(struct plog *plog, struct plog__log *log, struct port_out *out,
                                     enum port_effect_kind kind); /* of the writer's file, which is got */
/* ---- plog__birth.c ---- */
void plog__birth_write(struct plog__log *log); /* what PLOG_CHANGE_SEGMENT carries */
MUST_USE
enum base_rc plog__be_born(struct plog *plog, struct base_part id, struct base_slice birth, struct plog__log **log_out);
/* A log without records may have changed how its rounds become durable (take_config): its next segment says how they do. */
void plog__be_born_anew(struct plog *plog, struct plog__log *log, const struct plog_run *run, struct base_slice birth);
/* An entry of a log that is not there: what made it was lost (true), or it is gone, as an entry behind this one says or its state. */
bool plog__orphan_note(struct plog *plog, const struct plog_run *run);
/* It was deleted: what the journal held of it was not lost. */
void plog__orphan_forget(struct plog *plog, struct base_part id);
bool plog__is_orphan(const struct plog *plog, struct base_part id);

/* ---- plog__mend.c ---- */
bool plog__mend_is_due(const struct plog__file *file, const struct plog__segment *segment);
bool plog__mend_step(struct plog *plog, struct plog__log *log, struct port_out *out); /* true: done */
bool plog__mend_asked(struct plog *plog, struct plog__log *log, uint64_t count);      /* false: it can't be done */
/* Parts of a replay that the scan shares. */
void plog__replay_end(struct plog *plog, struct plog__log *log, enum plog_result result);
void plog__replay_land(struct plog *plog, struct plog__log *log, struct plog__segment *segment, struct base_slice bytes,
                       uint64_t size_bytes, int64_t offset_end);
bool plog__replay_may_try(struct plog *plog, struct plog__log *log, enum port_rc rc); /* once more, a little later */
/* Where its log ends can't be read: damage, and the rest of the log is read; or for want of something else, and the start can't go on. */
void plog__scan_lose(struct plog *plog, struct plog__log *log, enum port_rc rc);
void plog__replay_be_there(struct plog__log *log, struct plog__segment *segment);
bool plog__scan_tail(struct plog *plog, struct plog__log *log, struct port_out *out); /* plog__scan.c */
void plog__scan_done(struct plog *plog, struct plog__log *log, uint64_t count);
void plog__scan_begin(struct plog *plog, struct plog__log *log);
void plog__recovery_check(struct plog *plog);
void plog__room_came(struct plog *plog);  /* a log is gone: who awaits its room goes on */
void plog__room_lacks(struct plog *plog); /* memory or a handle, to take one away: it is not waited for for ever */

/* What the segment's file has beyond what is known of it is cut before the next write. */
void plog__undo_want(struct plog *plog, struct plog__log *log, struct plog__segment *segment);
void plog__tail_flush(struct plog *plog, struct plog__log *log, struct plog__segment *segment); /* plog__writer.c */

/* ---- plog__state.c ---- */
uint64_t plog__state_bytes(const struct plog *plog, const struct plog__log *log);
uint64_t plog__state_write(const struct plog *plog, const struct plog__log *log, uint8_t *at, uint64_t size_bytes);
MUST_USE
enum base_rc plog__state_read(struct plog *plog, struct base_slice state, struct plog__log **log_out);

/* What PLOG_CHANGE_TRUNCATE carries. */
struct plog__cut_facts {
    int64_t timestamp_max; /* of the segment that holds the end */
    int64_t timestamp_max_offset;
    const struct plog__cut_producer *producers; /* whose state is not just what memory keeps of it */
    uint32_t producer_count;
};
uint64_t plog__facts_bytes(const struct plog__cut_facts *facts);
uint64_t plog__facts_bytes_of_one(void); /* at most, of one producer */
void plog__facts_write(const struct plog__cut_facts *facts, uint8_t *at, uint64_t size_bytes);
/* Fills producers_out (at most `max`); false: not such bytes. */
MUST_USE
bool plog__facts_read(struct base_slice bytes, struct plog__cut_facts *facts_out,
                      struct plog__cut_producer *producers_out, uint32_t max);

/* ---- plog__cut.c ---- */
void plog__cut_look(struct plog *plog, struct plog__log *log); /* a truncation that is asked for may begin now */
void plog__cut_advance(struct plog *plog, struct port_out *out);
void plog__cut_done(struct plog *plog, const struct port_event *event, struct port_out *out);
void plog__cut_journalled(struct plog *plog, struct plog__log *log, enum port_rc rc);
void plog__cut_give_up(struct plog *plog, struct plog__log *log); /* the log or its disk is gone */
/* ---- plog__cutoff.c ---- */
bool plog__cut_must_wait(const struct plog *plog, const struct plog__log *log); /* its file is in use beyond the cut */
/* The entries that stay in the files of a segment, as the search found them; at replay there is none: files are not read. */
struct plog__index_cut {
    uint32_t index_count;
    uint32_t time_count;
    int64_t time_last;
    bool is_bad;
};
void plog__cut_apply(struct plog *plog, struct plog__log *log, struct plog__segment *segment, uint64_t position_bytes,
                     int64_t offset_end, const struct plog__cut_facts *facts, const struct plog__index_cut *index);
enum plog_result plog__cut_replay(struct plog *plog, struct plog__log *log, const struct plog_run *run,
                                  struct base_slice bytes);
/* At a run or change that is about to be replayed: it, or the state, knows of more truncations. */
static inline bool plog__is_older(uint16_t cuts, uint16_t than) { return (int16_t)(uint16_t)(cuts - than) < 0; }

/* ---- plog__checkpoint.c ---- */
void plog__capture_advance(struct plog *plog, struct port_out *out);
void plog__capture_done(struct plog *plog, const struct port_event *event, struct port_out *out);
uint32_t plog__log_slot_take(struct plog *plog); /* BASE_POOL_NONE: none is free */
uint32_t plog__segment_slot_take(struct plog *plog);
bool plog__has_segment_slot(const struct plog *plog);
void plog__log_slot_give(struct plog *plog, uint32_t slot);
void plog__segment_slot_give(struct plog *plog, uint32_t slot);

/* ---- plog__reap.c ---- */
void plog__reap_advance(struct plog *plog, struct port_out *out);
/* A replay needs the room of a segment: the oldest of those that a log's start has passed is forgotten. Live it was gone by now; if it was
 * not, its files are strays, and go with the next of its log. False: there is none. */
bool plog__doomed_forget(struct plog *plog, struct port_out *out);
void plog__reap_done(struct plog *plog, const struct port_event *event, struct port_out *out);
bool plog__name_is_free(const struct plog *plog, const struct plog__log *log);

#endif
