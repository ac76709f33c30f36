/* journal__machine.h: the fields of the journal and what its files call of each other.
 *
 * Room    core/journal, private.
 * Parts   journal.c (doors), append.c (entries to groups), files.c (journal files: made ready, recycled, unlinked),
 *         reserve.c (room kept for what must not fail), checkpoint.c (written), load.c (start: format or read a checkpoint),
 *         replay.c (survey and replay of the groups), reader.c (bytes of files in bounded blocks). Loading, files and checkpointing have one effect under way each.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef JOURNAL_MACHINE_H
#define JOURNAL_MACHINE_H

#include "journal__format.h"

#define JOURNAL__GROUPS          2u    /* one being synced, one written behind it */
#define JOURNAL__GROUP_PIECES    1000u /* below what one vectored write takes */
#define JOURNAL__WINDOW_BYTES    (1024u * 1024u)
#define JOURNAL__NUMBERS         4096u /* files that a chain may have */
#define JOURNAL__ADDS            8u    /* states of a checkpoint waiting for their write */
#define JOURNAL__STATE_BYTES_MAX 0x10000000u
#define JOURNAL__RETRY_NS        UINT64_C(200000000)
#define JOURNAL__HANDLE_NS       UINT64_C(1000000) /* a file is closed by then */
#define JOURNAL__NO_SLOT         UINT32_MAX

/* The moves stand in journal.h. REPLAYED: all was given, journal_recovered is awaited. */
enum journal__state {
    JOURNAL__CLOSED = 0,
    JOURNAL__LOADING,
    JOURNAL__REPLAYED,
    JOURNAL__READY,
    JOURNAL__FAILED,
    JOURNAL__STOPPED,
};

/* Which part of the machine a completion is for: bits 32 to 39 of the token. */
enum journal__purpose {
    JOURNAL__FOR_GROUP = 1, /* low bits: which group */
    JOURNAL__FOR_SYNC,
    JOURNAL__FOR_LINE,
    JOURNAL__FOR_FILES,
    JOURNAL__FOR_CHECKPOINT,
    JOURNAL__FOR_LOAD,
    JOURNAL__FOR_CLOSE, /* low bits: slot */
    JOURNAL__FOR_RESERVE,
};

/* A file slot: FREE -open asked-> OPENING -> OPEN -close asked-> CLOSING -> FREE. */
enum journal__slot_state { JOURNAL__SLOT_FREE = 0, JOURNAL__SLOT_OPENING, JOURNAL__SLOT_OPEN, JOURNAL__SLOT_CLOSING };
struct journal__slot {
    enum journal__slot_state state;
    uint32_t generation;
    bool is_retired;                /* closed as soon as no group of it is under way */
    char path[JOURNAL__NAME_BYTES]; /* the host's while OPENING */
};

struct journal__queued { /* an entry from journal_append to JOURNAL_OUT_SYNCED */
    struct journal_entry entry;
    uint64_t token;
    uint32_t piece_count;
};

/* A group: FREE -gathered-> WRITING -all written-> WRITTEN -sync asked-> SYNCING -> FREE. */
enum journal__group_state {
    JOURNAL__GROUP_FREE = 0,
    JOURNAL__GROUP_WRITING,
    JOURNAL__GROUP_WRITTEN,
    JOURNAL__GROUP_SYNCING
};
struct journal__group {
    enum journal__group_state state;
    uint32_t slot;
    uint64_t position;
    uint64_t bytes;
    uint64_t bytes_written;
    uint64_t queue_end; /* entries before this are in this group or earlier */
    uint8_t *table;     /* header and rows: written twice, before and after the payload */
    uint8_t *trailer;   /* JOURNAL__TRAILER_BYTES */
    uint32_t tries;     /* writes of it that failed in a row; the next one comes at retry_ns */
    uint64_t retry_ns;  /* UINT64_MAX: none is waited for */
    struct port_piece *pieces;
    uint32_t piece_first; /* not wholly written yet */
    uint32_t piece_count;
};

/* Making the next file ready, renaming an old one to it where there is one, and unlinking old ones. */
enum journal__files_stage {
    JOURNAL__FILES_IDLE = 0,
    JOURNAL__FILES_RENAMING,
    JOURNAL__FILES_OPENING,
    JOURNAL__FILES_ALLOCATING,
    JOURNAL__FILES_ZEROING,
    JOURNAL__FILES_SYNCING,
    JOURNAL__FILES_SYNCING_DIR,
    JOURNAL__FILES_NAMING, /* the current file's last page says that there is a next one */
    JOURNAL__FILES_NAMED,  /* waits for the sync that runs */
    JOURNAL__FILES_SYNCING_NAME,
    JOURNAL__FILES_UNLINKING,
};
struct journal__files {
    enum journal__files_stage stage;
    bool is_next_ready;
    bool is_urgent; /* a group waits for the next file */
    bool is_short;  /* the last try failed with `rc`: try again at retry_ns or after a checkpoint */
    enum port_rc rc;
    uint64_t retry_ns;
    uint32_t next_slot;
    uint64_t next_number;
    uint64_t zero_at;
    uint64_t old_first; /* files [old_first, file of begin) are not needed any more */
    char path[JOURNAL__NAME_BYTES];
    char path_to[JOURNAL__NAME_BYTES];
    struct port_piece pieces[16];
    uint8_t head[JOURNAL__HEAD_BYTES];
};

/* The file that keeps room for metadata and deletions: see reserve.c. */
enum journal__reserve_stage {
    JOURNAL__RESERVE_GONE = 0, /* not there, or nothing is known of it yet */
    JOURNAL__RESERVE_OPENING,
    JOURNAL__RESERVE_PROBING, /* is there room for more than it? */
    JOURNAL__RESERVE_CUTTING,
    JOURNAL__RESERVE_ALLOCATING,
    JOURNAL__RESERVE_HELD,
    JOURNAL__RESERVE_UNLINKING,
};
struct journal__reserve {
    enum journal__reserve_stage stage;
    bool is_there;  /* the name, as far as is known */
    bool is_wanted; /* ... to go: something found no room */
    bool is_short;  /* no room was found since it was last held */
    uint32_t slot;
    uint64_t retry_ns;
    char path[JOURNAL__NAME_BYTES];
};

enum journal__ck_stage {
    JOURNAL__CK_IDLE = 0,
    JOURNAL__CK_OPENING,
    JOURNAL__CK_GATHERING, /* nothing under way: waits for states or the end */
    JOURNAL__CK_WRITING,
    JOURNAL__CK_SYNCING,
    JOURNAL__CK_SYNCING_DIR,
};
struct journal__ck {
    enum journal__ck_stage stage;
    bool is_format; /* the empty first one */
    bool is_ended, is_end_written, is_clean;
    enum port_rc rc; /* the first failure: the rest is taken and dropped */
    uint32_t which, slot;
    uint64_t sequence;
    uint64_t begin, begin_sequence;
    uint64_t at; /* where the next bytes go */
    uint64_t count;
    uint32_t crc_all;
    struct base_slice adds[JOURNAL__ADDS];
    uint64_t tokens[JOURNAL__ADDS];
    uint64_t add_tail, add_written, add_polled; /* counters: added, written, answered */
    uint32_t writing_count;                     /* adds in the write under way */
    uint8_t heads[JOURNAL__ADDS][JOURNAL__CK_STATE_BYTES];
    uint8_t ends[JOURNAL__CK_HEAD_BYTES]; /* header or end record */
    struct port_piece pieces[2 * JOURNAL__ADDS + 1];
    uint32_t piece_first, piece_count;
    bool is_result_due;
    enum port_rc result;
};

/* Bytes of one file at a time, in a window; what lies past the end of a file reads as zeros. */
#define JOURNAL__CHECKPOINT_A (UINT64_MAX - 2) /* as the number of a file: the checkpoints */
#define JOURNAL__NO_FILE      UINT64_MAX
struct journal__reader {
    uint8_t *window; /* a block of pages while loading */
    uint64_t number; /* what is open: a journal file, or JOURNAL__CHECKPOINT_A + which */
    uint32_t slot;
    uint64_t size_bytes; /* of the open file */
    uint64_t window_at;
    uint64_t window_bytes; /* filled; 0: nothing */
    uint64_t window_want;  /* being filled up to */
    uint8_t *blob;         /* a block for what is larger than the window */
    uint64_t blob_at;
    uint64_t blob_want;
    uint64_t blob_bytes;
    uint64_t sum_at; /* a checksum under way: from, how much is done, so far */
    uint64_t sum_done;
    uint32_t sum;
    bool is_missing; /* the file asked for is not there */
    bool is_busy;    /* an effect is under way */
};

enum journal__load_stage {
    JOURNAL__LOAD_MAKE_DIR = 0,
    JOURNAL__LOAD_SYNC_ROOT,
    JOURNAL__LOAD_LIST,   /* what is there */
    JOURNAL__LOAD_HEADS,  /* the checkpoints' headers */
    JOURNAL__LOAD_VERIFY, /* the newest, then the other */
    JOURNAL__LOAD_STATES, /* JOURNAL_OUT_STATE each */
    JOURNAL__LOAD_LIST_FILES,
    JOURNAL__LOAD_SURVEY, /* where the chain ends and how far it was synced */
    JOURNAL__LOAD_REPLAY,
    JOURNAL__LOAD_SETTLE, /* what no line covers is written again, so that a sync can say that it is on disk */
    JOURNAL__LOAD_SETTLE_CHECKPOINT,
    JOURNAL__LOAD_SYNC_DIR, /* every name that is there */
    JOURNAL__LOAD_OPEN,     /* the file to go on in */
    JOURNAL__LOAD_MARK,     /* a first group of this life */
    JOURNAL__LOAD_SYNC_MARK,
    JOURNAL__LOAD_FORMAT,
    JOURNAL__LOAD_DONE,
};

/* Looking for the group that the chain needs next. */
struct journal__walk {
    uint64_t position; /* where the next group should stand */
    uint64_t sequence; /* which one it should be */
    uint32_t life;     /* the last one's: lives never fall along the chain */
    bool is_scanning;
    bool is_bad;   /* the next group was found, and is bad in part: what is behind its header is searched */
    bool is_wiped; /* ... and its header is gone, so that nobody is led over what was found there */
    uint64_t scan_at;
    bool has_candidate; /* the first good later group */
    struct journal__head candidate;
    struct journal__head head; /* found */
    uint64_t table_at;         /* where its header and rows are read: the group's begin or its copy */
    bool is_copy;
};

struct journal__load {
    enum journal__load_stage stage;
    bool is_new;            /* no directory was there */
    bool is_busy;           /* an effect of the loader itself is under way */
    bool is_waiting;        /* an out was given: journal_taken is awaited */
    bool is_finding;        /* a damage was given out: goes on when it was polled */
    enum port_rc rc;        /* of the last effect */
    enum port_rc failed_rc; /* the disk failed elsewhere: the load ends with this once nothing of it is under way */
    uint64_t count;
    bool is_more;
    uint64_t list_skip;
    bool is_there[2]; /* checkpoints listed */
    uint64_t size_bytes[2];
    bool has_numbers;    /* journal files listed */
    uint64_t number_max; /* of those, in the first list; of the chain's, in the second */
    bool is_asked;       /* the loader's own effect was asked: its completion is to be judged */
    uint32_t looked;     /* checkpoints whose header was read */
    bool is_head_good[2];
    struct journal__ck_head heads[2];
    uint32_t which; /* of the checkpoints: looked at, then chosen */
    struct journal__ck_head chosen;
    struct journal__ck_end end;
    uint64_t at;           /* in the checkpoint */
    uint64_t chosen_bytes; /* of the chosen checkpoint */
    uint64_t index;
    uint32_t crc_all;
    bool has_state; /* a state's header was read, its bytes are next */
    struct journal__ck_state state;
    uint8_t numbers[JOURNAL__NUMBERS / 8]; /* files listed, from the file of begin */
    struct journal__walk walk;
    uint64_t survey_end; /* where the chain ends */
    bool is_surveyed;
    bool is_begun;     /* something was written after the checkpoint */
    bool is_lost_tail; /* the chain ends below the line */
    bool is_torn;      /* it ends above it, at a group that is bad in part */
    uint64_t line;
    uint64_t checkpoint_seen; /* synced, as groups say */
    uint64_t checkpoint_max;  /* of the headers */
    uint32_t life_max;
    uint64_t number_named; /* the greatest that a file before it names */
    bool has_damage;
    bool has_group; /* the walk stands in a group */
    bool is_verified;
    uint32_t row;
    uint8_t *rows;      /* a block: table and copy of the group that is replayed */
    uint32_t rows_read; /* 0 none, 1 the table, 2 the copy too */
    uint64_t settle_at;
    uint64_t settle_end;
    uint64_t mark_done;   /* bytes of the first group of this life */
    uint64_t wiped_bytes; /* of that header's page */
    bool is_settling;     /* the file at settle_at was written and is not synced yet */
    bool is_fresh;        /* goes on in a new file */
    bool is_cut;          /* the chain ends at a group that is bad in part: the mark goes over it first */
};

struct journal {
    struct journal_config config;
    struct base_pages *pages;
    enum journal__state state;
    bool is_hasty; /* nothing waits for room any more */
    bool wants_stop, is_failed_due, is_stopped_due, has_out;
    enum port_rc failed_rc;
    struct journal_out out; /* of the loader, when has_out */
    uint64_t now_ns;

    struct base_uuid id;
    uint32_t life;
    uint64_t file_bytes;
    uint64_t bytes_max;         /* of all files; at half of it a checkpoint is wanted */
    uint64_t limit_bytes;       /* of the journal: appends wait beyond */
    uint64_t begin;             /* where replay would start */
    uint64_t end;               /* where the next group goes */
    uint64_t sequence;          /* of the next group */
    uint64_t line;              /* synced up to here */
    uint64_t checkpoint_synced; /* sequence of the newest durable checkpoint */
    uint32_t checkpoint_which;  /* where it is */
    uint32_t current_slot;
    uint64_t current_number;
    bool is_checkpoint_wanted, is_checkpoint_asked;
    bool is_handle_wanted; /* not told yet */
    uint64_t want_again_ns;

    struct journal__queued *queue; /* entries_max: [queue_out, queue_tail) */
    uint64_t queue_out;            /* the oldest not yet answered */
    uint64_t queue_synced;         /* before this: durable */
    uint64_t queue_gathered;
    uint64_t queue_tail;
    struct port_piece *pieces; /* pieces_max: of entries not gathered yet */
    uint64_t piece_head, piece_tail;
    uint32_t pieces_max;
    struct journal__group groups[JOURNAL__GROUPS];
    uint64_t group_out, group_tail; /* counters: the oldest in use, the next */
    uint32_t rows_max;
    bool is_syncing;
    uint32_t writes_in_flight; /* of groups */
    bool is_line_writing;
    uint64_t line_told; /* the newest line that was written */
    uint8_t *line_page;
    struct port_piece line_piece;

    struct journal__slot slots[JOURNAL_FILES];
    struct journal__files files;
    struct journal__reserve reserve;
    struct journal__ck ck;
    struct journal__reader reader;
    struct journal__load load;

    uint64_t groups_written, entries_written, syncs;
    uint64_t sync_sizes[JOURNAL_SYNC_SIZES];
    uint64_t synced_entries;
};

/* journal.c */
uint64_t journal__token(enum journal__purpose purpose, uint32_t low);
void journal__fail(struct journal *journal, enum port_rc rc);
void journal__limits(struct journal *journal); /* from the file size that holds here */
static inline bool journal__is_failed(const struct journal *journal) { return journal->state == JOURNAL__FAILED; }
/* Continues a write that came back short: drops `count` bytes from the front of the pieces. */
void journal__skip_pieces(struct port_piece *pieces, uint32_t *first, uint32_t count, uint64_t bytes);

/* files.c */
extern const uint8_t journal__zeros[65536];
uint32_t journal__slot_take(struct journal *journal);
struct port_file journal__slot_file(const struct journal *journal, uint32_t slot);
void journal__slot_close(struct journal *journal, uint32_t slot, struct port_out *out);
void journal__slot_closed(struct journal *journal, uint32_t slot);
struct port_effect *journal__emit_open(struct journal *journal, uint32_t slot, uint64_t token, uint32_t flags,
                                       struct port_out *out);
struct port_effect *journal__emit_file(struct journal *journal, enum port_effect_kind kind, uint32_t slot,
                                       uint64_t token, struct port_out *out);
struct port_effect *journal__emit_dir(struct journal *journal, enum port_effect_kind kind, const char *path,
                                      uint64_t token, struct port_out *out);
void journal__files_pump(struct journal *journal, struct port_out *out);
void journal__files_want(struct journal *journal, uint64_t number,
                         struct port_out *out); /* urgent: a group or the loader waits */
void journal__files_done(struct journal *journal, const struct port_event *event, struct port_out *out);
void journal__files_switch(struct journal *journal); /* the next becomes the current one */
bool journal__files_is_busy(const struct journal *journal);

/* append.c */
void journal__append_pump(struct journal *journal, struct port_out *out);
void journal__append_sync(struct journal *journal, struct port_out *out); /* the oldest written group, if none runs */
void journal__append_line(struct journal *journal, struct port_out *out);
void journal__group_written(struct journal *journal, const struct port_event *event, struct port_out *out);
void journal__group_synced(struct journal *journal, const struct port_event *event, struct port_out *out);
void journal__group_retry(struct journal *journal, struct port_out *out);
void journal__line_written(struct journal *journal);
bool journal__append_is_idle(const struct journal *journal);
uint64_t journal__group_retry_ns(const struct journal *journal); /* UINT64_MAX: none waits */

/* An alarm for a retry. One that has come is under way, or waits for a completion: left in the past it would come for ever. */
static inline uint64_t journal__alarm_ns(const struct journal *journal, uint64_t retry_ns)
{
    return retry_ns > journal->now_ns ? retry_ns : UINT64_MAX;
}

/* reserve.c */
void journal__reserve_pump(struct journal *journal, struct port_out *out);
void journal__reserve_done(struct journal *journal, const struct port_event *event, struct port_out *out);
void journal__reserve_release(struct journal *journal); /* the pump does it */
bool journal__reserve_is_busy(const struct journal *journal);
uint64_t journal__reserve_retry_ns(const struct journal *journal);

/* checkpoint.c */
void journal__ck_format(struct journal *journal, struct port_out *out);
void journal__ck_done(struct journal *journal, const struct port_event *event, struct port_out *out);
void journal__ck_pump(struct journal *journal, struct port_out *out);
bool journal__ck_is_busy(const struct journal *journal); /* an effect under way, or bytes of the owner held */

/* reader.c: each gives its bytes, or NULL after asking for what is missing: call again after the completion. */
const uint8_t *journal__read(struct journal *journal, uint64_t number, uint64_t at, uint64_t size_bytes,
                             struct port_out *out);
const uint8_t *journal__read_blob(struct journal *journal, uint64_t number, uint64_t at, uint64_t size_bytes,
                                  struct port_out *out);
/* CRC-32C of a range; false: not done yet. */
bool journal__read_sum(struct journal *journal, uint64_t number, uint64_t at, uint64_t size_bytes, uint32_t *sum_out,
                       struct port_out *out);
void journal__read_done(struct journal *journal, const struct port_event *event);
void journal__read_close(struct journal *journal, struct port_out *out);
void journal__read_forget(struct journal *journal); /* the window: its file was written */

/* load.c */
void journal__load_step(struct journal *journal, struct port_out *out);
void journal__load_done(struct journal *journal, const struct port_event *event, struct port_out *out);
void journal__load_end(struct journal *journal, enum port_rc rc); /* gives the blocks back; REPLAYED leaves */
void journal__load_damage(struct journal *journal, uint64_t position);
bool journal__load_has_file(const struct journal *journal, uint64_t number);

/* replay.c: true: go on in this step; false: an effect, an out or the end of the step's work is waited for. */
bool journal__survey(struct journal *journal, struct port_out *out);
bool journal__replay(struct journal *journal, struct port_out *out);
bool journal__settle(struct journal *journal, struct port_out *out);
bool journal__settle_checkpoint(struct journal *journal, struct port_out *out);

#endif
