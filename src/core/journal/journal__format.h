/* journal__format.h: the bytes of journal files and checkpoints (docs/formats/journal.md), read and written.
 *
 * Room    core/journal, private.
 * Rule    a getter answers false for anything that a sound writer would not have written: bytes from a disk prove nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef JOURNAL_FORMAT_H
#define JOURNAL_FORMAT_H

#include "journal/journal.h"

#define JOURNAL__PAGE_BYTES     4096u /* groups begin and end on pages, so that writing one never touches another */
/* The end of each file that no group takes: a page for the line alone, and the page that names the next file. So the end of
 * the journal is always inside a file that exists. */
#define JOURNAL__FREE_BYTES     8192u
#define JOURNAL__HEAD_BYTES     128u
#define JOURNAL__ROW_BYTES      96u
#define JOURNAL__TRAILER_BYTES  32u
#define JOURNAL__ROWS_MAX       4096u /* entries of a group */
#define JOURNAL__FILE_BYTES_MIN 65536u
#define JOURNAL__FILE_BYTES_MAX 0x40000000u
#define JOURNAL__NUMBER_MAX     0xfffffff0u /* of a file: positions stay below 2^62 */
#define JOURNAL__SEQUENCE_MAX   (UINT64_MAX >> 2)
#define JOURNAL__LIFE_MAX       0xfffffff0u

/* A group's header. */
struct journal__head {
    struct base_uuid id; /* of the journal: one for each format */
    uint32_t life;       /* one for each start */
    bool is_line;        /* nothing but the line: stands where the next group will, is no link of the chain */
    bool is_more;        /* a line in the last page of a file: the next file exists */
    uint64_t sequence;   /* of the group in the journal */
    uint64_t position;   /* file number x file bytes + place in the file */
    uint64_t bytes;      /* of the whole group, whole pages */
    uint64_t line;       /* everything before this position was known synced */
    uint64_t checkpoint; /* the newest checkpoint known synced */
    uint64_t payload_bytes;
    uint32_t row_count;
};

struct journal__row {
    struct journal_entry entry;
    uint64_t payload_at; /* of its bytes, from the group's begin */
};

void journal__put_head(uint8_t *at, const struct journal__head *head);
/* True for a whole header of journal `id` that says it stands at `position`. */
MUST_USE
bool journal__get_head(const uint8_t *at, struct base_uuid id, uint64_t position, uint64_t file_bytes,
                       struct journal__head *head_out);
/* A whole header of whatever journal: somebody has written groups here. */
MUST_USE
bool journal__is_any_head(const uint8_t *at);
/* life and sequence guard against rows that an older group left at the same place. */
void journal__put_row(uint8_t *at, const struct journal__row *row, const struct journal__head *head);
MUST_USE
bool journal__get_row(const uint8_t *at, const struct journal__head *head, struct journal__row *row_out);

/* The last bytes of a group: where the copy of its header and table stands. */
struct journal__trailer {
    uint64_t position; /* of the group */
    uint32_t copy_bytes;
};
void journal__put_trailer(uint8_t *at, struct journal__trailer trailer);
MUST_USE
bool journal__get_trailer(const uint8_t *at, struct journal__trailer *trailer_out);

static inline uint64_t journal__table_bytes(uint32_t row_count)
{
    return JOURNAL__HEAD_BYTES + (uint64_t)JOURNAL__ROW_BYTES * row_count;
}
static inline uint64_t journal__group_bytes(uint32_t row_count, uint64_t payload_bytes)
{
    uint64_t bytes = 2 * journal__table_bytes(row_count) + payload_bytes + JOURNAL__TRAILER_BYTES;
    return (bytes + JOURNAL__PAGE_BYTES - 1) / JOURNAL__PAGE_BYTES * JOURNAL__PAGE_BYTES;
}

/* ---- checkpoints ---------------------------------------------------------------------------------------------------- */

#define JOURNAL__CK_HEAD_BYTES  128u
#define JOURNAL__CK_STATE_BYTES 32u
#define JOURNAL__CK_END_BYTES   64u

struct journal__ck_head {
    struct base_uuid id;
    uint32_t life;
    uint64_t sequence;       /* of the checkpoint */
    uint64_t begin;          /* replay starts at this position ... */
    uint64_t begin_sequence; /* ... with this group */
    uint64_t file_bytes;     /* of the journal files: as it was at format */
};
struct journal__ck_state { /* before each state */
    uint64_t sequence;
    uint64_t index;
    uint32_t size_bytes;
    uint32_t crc; /* of the state */
};
struct journal__ck_end {
    uint64_t sequence;
    uint64_t count;
    uint64_t line;    /* known synced when this was written */
    uint32_t crc_all; /* over the header and every state's header, so over all */
    bool is_clean;
};
void journal__put_ck_head(uint8_t *at, const struct journal__ck_head *head);
MUST_USE
bool journal__get_ck_head(const uint8_t *at, struct journal__ck_head *head_out);
void journal__put_ck_state(uint8_t *at, const struct journal__ck_state *state);
MUST_USE
bool journal__get_ck_state(const uint8_t *at, struct journal__ck_state *state_out);
void journal__put_ck_end(uint8_t *at, const struct journal__ck_end *end);
MUST_USE
bool journal__get_ck_end(const uint8_t *at, struct journal__ck_end *end_out);

/* ---- names ---------------------------------------------------------------------------------------------------------- */

#define JOURNAL__DIR          "weir-journal"
#define JOURNAL__RESERVE_NAME "reserve"
#define JOURNAL__RESERVE_PATH JOURNAL__DIR "/" JOURNAL__RESERVE_NAME
#define JOURNAL__NAME_BYTES   48u

void journal__name_file(struct base_text *text, uint64_t number);      /* weir-journal/0000000042.wj */
void journal__name_checkpoint(struct base_text *text, uint32_t which); /* 0: a, 1: b */
MUST_USE
bool journal__is_file_name(struct base_slice name, uint64_t *number_out);
MUST_USE
bool journal__is_checkpoint_name(struct base_slice name, uint32_t *which_out);

#endif
