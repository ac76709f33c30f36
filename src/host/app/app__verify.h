/* app__verify.h: what the parts of 'weir log verify' share: what the journal and its checkpoint say there is, and the report.
 *
 * Room    host/app, private. Reads the files as docs/formats/journal.md and log.md have them, not by the rooms that write them: a second
 *         reader. Writes nothing.
 * Parts   verify.c (command, report), verify_journal.c (checkpoints, the chain of groups), verify_state.c (state blocks, entries),
 *         verify_log.c (segments, indexes)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_APP_VERIFY_H
#define HOST_APP_VERIFY_H

#include "app__parts.h"

#define VERIFY_PATH_BYTES 4608
#define VERIFY_NAME_BYTES 256

struct verify_segment {
    int64_t base, end;
    uint64_t size_bytes;  /* known */
    uint64_t state_bytes; /* of it, by the checkpoint: must be in the file */
    uint64_t damage_from, damage_to;
    uint32_t index_count, time_count;
};

struct verify_run { /* after the checkpoint */
    int64_t segment_base;
    uint64_t position_bytes, size_bytes;
    int64_t offset_base, offset_end;
    int32_t leader_epoch;
    uint32_t crc;
    bool is_in_journal; /* its bytes are there, whole: the start writes them again */
};

struct verify_epoch {
    int32_t epoch;
    int64_t offset_start;
};

struct verify_log {
    struct base_part id;
    char name[VERIFY_NAME_BYTES];
    bool is_gone, is_page_cache;
    int64_t offset_start, offset_end;
    struct verify_segment *segments;
    uint32_t segment_count, segment_room;
    struct verify_run *runs;
    uint32_t run_count, run_room;
    struct verify_epoch *epochs;
    uint32_t epoch_count, epoch_room;
    uint16_t cuts; /* truncations so far, modulo 2^16 */
};

struct verify {
    const char *dir;
    bool is_json;
    bool is_stopped; /* something can't be read at all: a message has been printed */
    uint64_t damages, segments, batches;
    struct verify_log *logs;
    uint32_t log_count, log_room;
};

/* Where damage is. Position and size of the bytes; offsets [first, end) that it is about. */
struct verify_place {
    const char *file; /* below the directory */
    uint64_t position_bytes, size_bytes;
    const struct verify_log *log; /* NULL: of no known one */
    int64_t offset_first, offset_end;
};
void verify_damage(struct verify *verify, const struct verify_place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void *verify_grow(void *at, uint32_t count, uint32_t *room,
                  size_t item_bytes); /* room for one more; ends the process without */
/* A file below the directory: NULL when it is not there (or is_stopped is set: unreadable). To be freed. */
uint8_t *verify_read(struct verify *verify, const char *file, size_t *size_bytes_out);

/* verify_state.c */
bool verify_state(struct verify *verify, struct base_slice state); /* false: not one */
struct verify_entry {
    uint8_t kind;
    uint16_t cuts;
    struct base_part id;
    struct verify_run run;
    struct base_slice bytes; /* as the journal has them, when they are whole */
};
struct verify_log *verify_log_of(struct verify *verify, struct base_part id); /* NULL: none */
void verify_take_entry(struct verify *verify, const struct verify_entry *entry);

void verify_journal(struct verify *verify);
void verify_log_files(struct verify *verify, const struct verify_log *log);

#endif
