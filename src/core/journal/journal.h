/* journal.h: one append-only journal for a disk: one fdatasync acknowledges a round of appends of all its logs.
 *
 * Room    core/journal. Uses base, port, codec.
 * Owns    DIR/weir-journal: NNNNNNNNNN.wj files and two checkpoints written in turn (format: docs/formats/journal.md).
 *         Bytes of entries are borrowed from journal_append until JOURNAL_OUT_SYNCED.
 * Knows   nothing of what a log is: entries and states are opaque values with a log id, for the log room of the owning shard.
 * Limits  struct journal_config. No call emits more than JOURNAL_EFFECTS_MAX effects.
 *
 * THE LINE. A group of entries (all that waited) is one write and is synced; while a sync runs the next group gathers and may
 * be written. Each group's header says up to which position the journal was known synced when it was written. So at recovery a
 * bad entry below a line that any later good group names is damage (reported, never cut), and one above every line is a torn tail
 * that was never acknowledged (cut there).
 *
 * THE MOVES   CLOSED -start-> LOADING -REPLAYED, good-> REPLAYED -journal_recovered-> READY (checkpoints run beside)
 *             LOADING -REPLAYED, with a word-> FAILED      READY -a write or sync failed-> FAILED (for this life)
 *             any of them -journal_stop, and nothing is under way any more-> JOURNAL_OUT_STOPPED
 *
 * FAILED      Nothing is written, synced or acknowledged again. Appends are still taken: each gets JOURNAL_OUT_SYNCED with the
 *             error, as does what was in flight, once the host has given its bytes back. Only a failed sync does that at once. A
 *             write that fails is asked again, in the same place: at most JOURNAL_TRIES_MAX times, or for as long as the disk is
 *             full. A next file or a checkpoint that can't be made is no failure: appends wait, or CHECKPOINTED says so.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef JOURNAL_JOURNAL_H
#define JOURNAL_JOURNAL_H

#include "base/base.h"
#include "port/port.h"

struct journal;

#define JOURNAL_TOKEN_ROOM  ((uint64_t)0x4a)
#define JOURNAL_EFFECTS_MAX 16

struct journal_config {
    uint32_t shard;
    uint32_t disk;
    uint32_t file_slot_first; /* its file ids have slots [file_slot_first, file_slot_first + JOURNAL_FILES) */
    uint32_t entries_max;     /* waiting or in flight */
    uint32_t group_bytes_max; /* of one write */
    uint64_t file_bytes;      /* 64 MiB: a file is preallocated, and the next begun when it is full */
    uint64_t bytes_max; /* weir.journal.bytes.max: at half of it a checkpoint is asked for, at the limit appends wait */
    uint64_t
        reserve_bytes_max; /* of the file that keeps room for what must go on; a quarter of file_bytes if that is less; 0: none */
    uint32_t step_max; /* items of work (a page looked at, an entry) of one call while loading */
    /* The id of a journal that this start makes: random, so that no other's bytes are taken for its own. */
    struct base_uuid format_id;
    bool is_check_slow;
};
#define JOURNAL_TRIES_MAX  50u
#define JOURNAL_FILES      8
#define JOURNAL_PIECES_MAX 900 /* of one entry */

/* What is kept of a run or a change of a log. Meaning: plog.h, struct plog_run. Kinds are the caller's, 0 to 255. */
struct journal_entry {
    uint8_t kind;
    bool has_bytes;
    struct base_part id;
    int64_t segment_base;
    uint64_t position_bytes;
    int64_t offset_base;
    int64_t offset_end;
    int32_t leader_epoch;
    uint32_t crc; /* CRC-32C of the bytes (kept whether or not they are in the journal) */
    uint16_t cuts;
    uint64_t size_bytes;
};

MUST_USE
enum base_rc journal_create(struct base_arena *arena, struct base_pages *pages, const struct journal_config *config,
                            struct journal **journal_out);
/* The arena holds all but what journal_start reads into: a block of 1 MiB, one for the table of a group (768 KiB at most), and one
 * for a state or entry larger than 1 MiB; of class BASE_CONTROL, given back before JOURNAL_OUT_REPLAYED. */
size_t journal_arena_bytes(const struct journal_config *config);

/* Reads what is there (an empty disk is formatted). Then come, in this order: JOURNAL_OUT_STATE for each log of the newest good
 * checkpoint, JOURNAL_OUT_REPLAY for each entry after it, JOURNAL_OUT_DAMAGE where something is wrong below the line, then
 * JOURNAL_OUT_REPLAYED. Each STATE and REPLAY is answered by journal_taken before the next comes, also when journal_fail was called
 * meanwhile: then nothing but REPLAYED follows. After a damage of no known log
 * every log may lack entries; it is reported at each start until a checkpoint has begun behind it. By REPLAYED everything that
 * was given out is durable, and a stop before this start is not clean any more. */
void journal_start(struct journal *journal, struct port_out *out);
void journal_taken(struct journal *journal, struct port_out *out);
/* All logs have recovered: appends may come. */
void journal_recovered(struct journal *journal, struct port_out *out);

/* Queues an entry; `pieces` (memory only, copied as an array, the bytes borrowed) are its bytes when has_bytes.
 * JOURNAL_OUT_SYNCED with the token follows once it is durable. Written at the next turn with all others.
 * Needs   a group of the entry alone, its table twice and its bytes, is at most group_bytes_max; piece_count <= JOURNAL_PIECES_MAX.
 * Fails   BASE_FULL: entries_max are waiting or in flight, or their pieces are too many (4 x entries_max + JOURNAL_PIECES_MAX). */
MUST_USE
enum base_rc journal_append(struct journal *journal, const struct journal_entry *entry, const struct port_piece *pieces,
                            uint32_t piece_count, uint64_t token, struct port_out *out);

/* The checkpoint that JOURNAL_OUT_WANT_CHECKPOINT asked for (or that the owner wants: journal_checkpoint_begin, false if one runs):
 * any number of states (each answered by JOURNAL_OUT_STATE_WRITTEN, the bytes borrowed until then), then the end: it is synced,
 * becomes the newest, and journal files wholly before its begin go. `is_clean`: nothing was appended since it began and nothing will be.
 * journal_checkpoint_add fails BASE_FULL while 8 states are not written. CHECKPOINTED with a word of no room: the one before stays the
 * newest, and WANT_CHECKPOINT comes again a little later if it is still needed. */
bool journal_checkpoint_begin(struct journal *journal, struct port_out *out);
MUST_USE
enum base_rc journal_checkpoint_add(struct journal *journal, struct base_slice state, uint64_t token,
                                    struct port_out *out);
void journal_checkpoint_end(struct journal *journal, bool is_clean, struct port_out *out);

enum journal_out_kind {
    JOURNAL_OUT_STATE = 0, /* bytes: a state as it was added */
    JOURNAL_OUT_REPLAY,    /* entry, bytes (empty unless has_bytes; if they do not match crc: is_damaged) */
    JOURNAL_OUT_DAMAGE, /* position_bytes: any log may have lost entries there. (What a known log lost comes as a REPLAY,
                              is_damaged: has_id and entry say which.) */
    JOURNAL_OUT_REPLAYED, /* is_clean: the last stop was clean; is_torn; result PORT_OK or why the journal can't be used */
    JOURNAL_OUT_SYNCED, /* token, result: durable (PORT_OK), or failed and unknown. In the order of journal_append */
    JOURNAL_OUT_FAILED, /* once: a write or sync failed: the disk is off line for this life */
    JOURNAL_OUT_WANT_CHECKPOINT, /* half full */
    JOURNAL_OUT_STATE_WRITTEN,   /* token */
    JOURNAL_OUT_CHECKPOINTED,    /* result */
    JOURNAL_OUT_WANT_HANDLE, /* the host had none for a file of it: whoever has one that rests closes it, then journal_handle_comes */
    JOURNAL_OUT_STOPPED
};
struct journal_out {
    enum journal_out_kind kind;
    enum port_rc result;
    uint64_t token;
    struct journal_entry entry;
    struct base_slice bytes; /* until journal_taken */
    uint64_t position_bytes;
    bool is_damaged;
    bool has_id;
    bool is_clean;
    bool is_torn; /* REPLAYED: the last group was not whole */
};
bool journal_poll(struct journal *journal, struct journal_out *journal_out);

void journal_done(struct journal *journal, const struct port_event *event,
                  struct port_out *out); /* completions with JOURNAL_TOKEN_ROOM */
void journal_turn(struct journal *journal, const struct port_event *event, struct port_out *out);
/* When it wants a journal_turn even if nothing happens: a retry after a full disk. UINT64_MAX: never. */
uint64_t journal_next_alarm_ns(const struct journal *journal);
/* A file was closed for its sake: it tries again in a moment, and not only when it would have otherwise. */
void journal_handle_comes(struct journal *journal);
/* Its disk failed elsewhere (a sync of another file): off line as if a sync of its own had failed. No-op when it is already. */
void journal_fail(struct journal *journal, enum port_rc rc, struct port_out *out);
/* The disk had no room for something else: what is kept in reserve goes, and comes back when there is room (view: is_short_of_room). */
void journal_release_room(struct journal *journal, struct port_out *out);
/* Its owner is stopping, and has waited long enough: from now on nothing waits for room. What is beyond the limit is written all the same,
 * and what the disk has no room for fails, and the journal with it. */
void journal_wait_no_more(struct journal *journal, struct port_out *out);
/* Takes no more; what waits is written and synced (or fails, when the disk is full), a checkpoint that was begun is waited for until
 * its owner ends it, files are closed, then JOURNAL_OUT_STOPPED. */
void journal_stop(struct journal *journal, struct port_out *out);

/* How many syncs were asked for 1 entry, up to 2, up to 4 ... each alone; the last: more. */
#define JOURNAL_SYNC_SIZES 16

struct journal_view {
    uint64_t bytes;           /* from the checkpoint's begin to the end */
    uint64_t groups, entries; /* written since start */
    uint64_t syncs;           /* issued since start */
    uint64_t sync_sizes[JOURNAL_SYNC_SIZES];
    uint64_t synced_entries; /* the sum of them */
    uint32_t in_flight;
    bool is_full;          /* near its limit: take nothing new, so that logs can become quiet for the checkpoint */
    bool is_short_of_room; /* the disk is full, or was a moment ago: refuse what only makes more */
    bool is_waiting;       /* entries wait for a file that can't be made: a checkpoint may free an old one for them */
    bool is_failed;
};
void journal_view(const struct journal *journal, struct journal_view *view_out);
bool journal_is_sound(const struct journal *journal);
bool journal_is_quiet(const struct journal *journal);

#endif
