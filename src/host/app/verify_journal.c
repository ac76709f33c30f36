/* verify_journal.c: the checkpoints and the chain of groups. See app__verify.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__verify.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"

enum {
    PAGE_BYTES = 4096,
    HEAD_BYTES = 128,
    ROW_BYTES = 96,
    TRAILER_BYTES = 32,
    CK_HEAD_BYTES = 128,
    CK_STATE_BYTES = 32,
    CK_END_BYTES = 64,
    MAGIC_GROUP = 0x574a4731,
    MAGIC_TRAILER = 0x574a5431,
    MAGIC_CK = 0x574a4331,
    MAGIC_STATE = 0x574a5331,
    MAGIC_END = 0x574a4531,
};
#define FILES_MAX 65536u

struct head {
    uint32_t life, rows;
    uint16_t flags;
    uint64_t sequence, position, bytes, line, checkpoint, payload_bytes;
};

struct checkpoint {
    const char *file;
    uint8_t *bytes;
    size_t size_bytes;
    bool is_head_good, is_good;
    const char *what; /* is bad about it */
    uint64_t bad_at;
    uint64_t sequence, begin, begin_sequence, file_bytes, line;
};

struct chain {
    struct verify *verify;
    uint8_t id[16];
    uint64_t file_bytes;
    uint64_t *numbers; /* of the files that are there, sorted */
    uint32_t number_count, number_room;
    uint64_t loaded; /* the file in `bytes`; UINT64_MAX: none */
    uint8_t *bytes;
    size_t size_bytes;
    uint64_t line, checkpoint;
};

static bool is_sealed(const uint8_t *at, size_t size_bytes, uint32_t magic)
{
    return base_get_u32(at) == magic && base_get_u32(at + size_bytes - 4) == codec_crc32c(0, at, size_bytes - 4);
}

/* ---- checkpoints ---- */

static void bad(struct checkpoint *ck, uint64_t at, const char *what)
{
    ck->what = what;
    ck->bad_at = at;
}

/* An end record further on says that all before it had been written. */
static bool has_end(const struct checkpoint *ck)
{
    for (size_t at = 0; at + CK_END_BYTES <= ck->size_bytes; at++) {
        if (base_get_u32(ck->bytes + at) != MAGIC_END || !is_sealed(ck->bytes + at, CK_END_BYTES, MAGIC_END)) {
            continue;
        }
        if (!ck->is_head_good || base_get_u64(ck->bytes + at + 8) == ck->sequence) { return true; }
    }
    return false;
}

static void read_checkpoint(struct verify *verify, struct checkpoint *ck)
{
    ck->bytes = verify_read(verify, ck->file, &ck->size_bytes);
    if (ck->bytes == NULL) { return; }
    if (ck->size_bytes < CK_HEAD_BYTES || !is_sealed(ck->bytes, CK_HEAD_BYTES, MAGIC_CK)) {
        bad(ck, 0, "its header is damaged");
        return;
    }
    ck->is_head_good = true;
    ck->sequence = base_get_u64(ck->bytes + 32);
    ck->begin = base_get_u64(ck->bytes + 40);
    ck->begin_sequence = base_get_u64(ck->bytes + 48);
    ck->file_bytes = base_get_u64(ck->bytes + 56);
    uint32_t crc_all = codec_crc32c(0, ck->bytes, CK_HEAD_BYTES);
    uint64_t index = 0;
    for (size_t at = CK_HEAD_BYTES;; index++) {
        const uint8_t *p = ck->bytes + at;
        if (at + CK_STATE_BYTES > ck->size_bytes) {
            bad(ck, at, "it ends too early");
            return;
        }
        if (at + CK_END_BYTES <= ck->size_bytes && is_sealed(p, CK_END_BYTES, MAGIC_END)) {
            ck->is_good =
                base_get_u64(p + 8) == ck->sequence && base_get_u64(p + 16) == index && base_get_u32(p + 32) == crc_all;
            ck->line = base_get_u64(p + 24);
            if (!ck->is_good) { bad(ck, at, "its end does not go with it"); }
            return;
        }
        size_t size_bytes = base_get_u32(p + 4);
        if (!is_sealed(p, CK_STATE_BYTES, MAGIC_STATE) || base_get_u64(p + 8) != ck->sequence ||
            base_get_u64(p + 16) != index || size_bytes > ck->size_bytes - at - CK_STATE_BYTES) {
            bad(ck, at, "the header of a state, or its end, is damaged");
            return;
        }
        if (base_get_u32(p + 24) != codec_crc32c(0, p + CK_STATE_BYTES, size_bytes)) {
            bad(ck, at + CK_STATE_BYTES, "a state is damaged");
            return;
        }
        crc_all = codec_crc32c(crc_all, p, CK_STATE_BYTES);
        at += CK_STATE_BYTES + size_bytes;
    }
}

static void give_states(struct verify *verify, const struct checkpoint *ck)
{
    size_t at = CK_HEAD_BYTES;
    while (at + CK_STATE_BYTES <= ck->size_bytes && base_get_u32(ck->bytes + at) == MAGIC_STATE) {
        size_t size_bytes = base_get_u32(ck->bytes + at + 4);
        at += CK_STATE_BYTES;
        if (!verify_state(verify, base_slice_of(ck->bytes + at, size_bytes))) {
            verify_damage(verify,
                          &(struct verify_place){
                              .file = ck->file, .position_bytes = at, .size_bytes = size_bytes, .offset_first = -1},
                          "this state of a partition is none");
        }
        at += size_bytes;
    }
}

/* ---- files of the journal ---- */

static int by_number(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;
    return one < two ? -1 : (one > two ? 1 : 0);
}

static void list_files(struct chain *chain)
{
    char path[VERIFY_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/weir-journal", chain->verify->dir); /* cut: it was opened before */
    DIR *dir = opendir(path);
    if (dir == NULL) { return; }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        unsigned long long number = 0;
        int used = 0;
        if (strlen(entry->d_name) != 13 || sscanf(entry->d_name, "%10llu.wj%n", &number, &used) != 1 || used != 13) {
            continue;
        }
        if (chain->number_count == FILES_MAX) { break; }
        chain->numbers = verify_grow(chain->numbers, chain->number_count, &chain->number_room, sizeof *chain->numbers);
        chain->numbers[chain->number_count++] = number;
    }
    (void)closedir(dir); /* only read */
    if (chain->number_count > 0) { qsort(chain->numbers, chain->number_count, sizeof *chain->numbers, by_number); }
}

static void file_name(uint64_t number, char file_out[64])
{
    (void)snprintf(file_out, 64, "weir-journal/%010" PRIu64 ".wj", number); /* fits */
}

/* The bytes at a position; NULL: none, or not so many in this file. */
static const uint8_t *bytes_at(struct chain *chain, uint64_t position, uint64_t size_bytes)
{
    uint64_t number = position / chain->file_bytes;
    if (chain->loaded != number) {
        free(chain->bytes);
        char file[64];
        file_name(number, file);
        chain->size_bytes = 0;
        chain->bytes = verify_read(chain->verify, file, &chain->size_bytes);
        chain->loaded = number;
    }
    uint64_t at = position % chain->file_bytes;
    if (chain->bytes == NULL || at > chain->size_bytes || chain->size_bytes - at < size_bytes) { return NULL; }
    return chain->bytes + at;
}

static uint64_t table_bytes(const struct head *head) { return HEAD_BYTES + (uint64_t)ROW_BYTES * head->rows; }

/* Where the copy of the table stands in its group. */
static uint64_t copy_at(const struct head *head) { return head->bytes - TRAILER_BYTES - table_bytes(head); }

static bool is_version(uint16_t version) { return version == 1 || version == 2; }

static bool get_head(const struct chain *chain, const uint8_t *at, uint64_t position, struct head *head_out)
{
    if (!is_sealed(at, HEAD_BYTES, MAGIC_GROUP) || !is_version(base_get_u16(at + 4)) ||
        memcmp(at + 8, chain->id, 16) != 0) {
        return false;
    }
    *head_out = (struct head){.flags = base_get_u16(at + 6),
                              .life = base_get_u32(at + 24),
                              .rows = base_get_u32(at + 28),
                              .sequence = base_get_u64(at + 32),
                              .position = base_get_u64(at + 40),
                              .bytes = base_get_u64(at + 48),
                              .line = base_get_u64(at + 56),
                              .checkpoint = base_get_u64(at + 64),
                              .payload_bytes = base_get_u64(at + 72)};
    return head_out->position == position && head_out->rows <= 4096 && head_out->bytes % PAGE_BYTES == 0 &&
           head_out->bytes >= PAGE_BYTES && head_out->bytes <= chain->file_bytes &&
           (head_out->flags != 0 ||
            2 * table_bytes(head_out) + head_out->payload_bytes + TRAILER_BYTES <= head_out->bytes);
}

/* What any good header says of how far the journal was synced. */
static void survey(struct chain *chain, uint64_t begin)
{
    for (uint32_t i = 0; i < chain->number_count; i++) {
        uint64_t file_at = chain->numbers[i] * chain->file_bytes;
        if (chain->numbers[i] < begin / chain->file_bytes) { continue; }
        for (uint64_t at = 0; at + PAGE_BYTES <= chain->file_bytes; at += PAGE_BYTES) {
            const uint8_t *page = bytes_at(chain, file_at + at, PAGE_BYTES);
            if (page == NULL) { break; }
            struct head head;
            if (!get_head(chain, page, file_at + at, &head)) { continue; }
            chain->line = base_max_u64(chain->line, head.line);
            chain->checkpoint = base_max_u64(chain->checkpoint, head.checkpoint);
        }
    }
}

static void damage(struct chain *chain, uint64_t from, uint64_t to, const struct verify_log *log,
                   const struct verify_run *run, const char *what)
{
    char file[64];
    file_name(from / chain->file_bytes, file);
    struct verify_place place = {.file = file,
                                 .position_bytes = from % chain->file_bytes,
                                 .size_bytes = to - from,
                                 .log = log,
                                 .offset_first = run == NULL ? -1 : run->offset_base,
                                 .offset_end = run == NULL ? -1 : run->offset_end};
    verify_damage(chain->verify, &place, "%s", what);
}

/* ---- a group ---- */

static bool is_row(const uint8_t *row, const struct head *head)
{
    return base_get_u32(row + 92) == codec_crc32c(0, row, 92) && base_get_u64(row + 80) == head->sequence &&
           base_get_u32(row + 88) == head->life;
}

static void get_row(const uint8_t *row, struct verify_entry *entry_out)
{
    *entry_out = (struct verify_entry){.kind = row[0],
                                       .cuts = base_get_u16(row + 2),
                                       .id = {.index = (int32_t)base_get_u32(row + 4)},
                                       .run = {.segment_base = (int64_t)base_get_u64(row + 24),
                                               .position_bytes = base_get_u64(row + 32),
                                               .offset_base = (int64_t)base_get_u64(row + 40),
                                               .offset_end = (int64_t)base_get_u64(row + 48),
                                               .leader_epoch = (int32_t)base_get_u32(row + 56),
                                               .crc = base_get_u32(row + 60),
                                               .size_bytes = base_get_u64(row + 64)}};
    memcpy(entry_out->id.topic.b, row + 8, 16);
}

/* One entry of a group that was synced. */
static void take_row(struct chain *chain, const struct head *head, const uint8_t *group, uint32_t index)
{
    uint64_t at = HEAD_BYTES + (uint64_t)ROW_BYTES * index, again_at = copy_at(head) + at;
    bool is_good = is_row(group + at, head), is_copy_good = is_row(group + again_at, head);
    if (!is_good || !is_copy_good) {
        uint64_t bad_at = head->position + (is_good ? again_at : at);
        damage(chain, bad_at, bad_at + ROW_BYTES, NULL, NULL,
               is_good || is_copy_good ? "one of two copies of an entry is damaged; the other is whole"
                                       : "an entry is damaged in both places: of which partition is not known");
    }
    if (!is_good && !is_copy_good) { return; }
    const uint8_t *row = group + (is_good ? at : again_at);
    struct verify_entry entry;
    get_row(row, &entry);
    uint64_t payload_at = base_get_u64(row + 72);
    if ((row[1] & 1) != 0) {
        bool fits = payload_at <= head->bytes && entry.run.size_bytes <= head->bytes - payload_at;
        entry.run.is_in_journal =
            fits && codec_crc32c(0, group + payload_at, (size_t)entry.run.size_bytes) == entry.run.crc;
        if (entry.run.is_in_journal) {
            entry.bytes = base_slice_of(group + payload_at, (size_t)entry.run.size_bytes);
        } else {
            damage(chain, head->position + payload_at, head->position + payload_at + (fits ? entry.run.size_bytes : 0),
                   verify_log_of(chain->verify, entry.id), entry.kind == 0 ? &entry.run : NULL,
                   "the bytes of an entry are damaged here; they may be whole in their segment");
        }
    }
    verify_take_entry(chain->verify, &entry);
}

/* What no entry covers: the copy's header, the zeros, the trailer. */
static void judge_rest(struct chain *chain, const struct head *head, const uint8_t *group)
{
    uint64_t copy = copy_at(head);
    if (memcmp(group, group + copy, HEAD_BYTES) != 0) {
        damage(chain, head->position + copy, head->position + copy + HEAD_BYTES, NULL, NULL,
               "one of two copies of a group's header is damaged; the other is whole");
    }
    uint64_t at = table_bytes(head) + head->payload_bytes;
    while (at < copy && group[at] == 0) { at += 1; }
    if (at < copy) {
        damage(chain, head->position + at, head->position + at + 1, NULL, NULL, "what fills a group up is not zero");
    }
    const uint8_t *trailer = group + head->bytes - TRAILER_BYTES;
    if (!is_sealed(trailer, TRAILER_BYTES, MAGIC_TRAILER)) {
        uint64_t trailer_at = head->position + head->bytes - TRAILER_BYTES;
        damage(chain, trailer_at, trailer_at + TRAILER_BYTES, NULL, NULL, "the trailer of a group is damaged");
    }
}

/* Above the line: is every byte of it as it was written? */
static bool is_whole(const struct head *head, const uint8_t *group)
{
    const uint8_t *copy = group + copy_at(head);
    for (uint32_t i = 0; i < head->rows; i++) {
        uint64_t at = HEAD_BYTES + (uint64_t)ROW_BYTES * i;
        if (!is_row(group + at, head) && !is_row(copy + at, head)) { return false; }
        const uint8_t *row = is_row(group + at, head) ? group + at : copy + at;
        if ((row[1] & 1) == 0) { continue; }
        uint64_t payload_at = base_get_u64(row + 72), size_bytes = base_get_u64(row + 64);
        if (payload_at > head->bytes || size_bytes > head->bytes - payload_at) { return false; }
        if (codec_crc32c(0, group + payload_at, (size_t)size_bytes) != base_get_u32(row + 60)) { return false; }
    }
    return true;
}

/* ---- the chain ---- */

enum found { FOUND_END, FOUND_GROUP, FOUND_LATER };

/* A group of a later life stands inside: what is left of this one is what a cut left behind. */
static bool is_built_upon(struct chain *chain, const struct head *group)
{
    for (uint64_t at = group->position + PAGE_BYTES; at < group->position + group->bytes; at += PAGE_BYTES) {
        const uint8_t *page = bytes_at(chain, at, PAGE_BYTES);
        struct head head;
        if (page == NULL) { return false; }
        if (get_head(chain, page, at, &head) && head.flags == 0 && head.life > group->life) { return true; }
    }
    return false;
}

/* The copy of the header that should stand at `position`: behind the group, found by its trailer. */
static bool find_copy(struct chain *chain, uint64_t position, uint64_t sequence, struct head *head_out)
{
    uint64_t file_end = (position / chain->file_bytes + 1) * chain->file_bytes;
    for (uint64_t end = position + PAGE_BYTES; end <= file_end; end += PAGE_BYTES) {
        const uint8_t *trailer = bytes_at(chain, end - TRAILER_BYTES, TRAILER_BYTES);
        if (trailer == NULL) { return false; }
        if (!is_sealed(trailer, TRAILER_BYTES, MAGIC_TRAILER) || base_get_u64(trailer + 8) != position) { continue; }
        uint64_t copy_bytes = base_get_u32(trailer + 4);
        if (copy_bytes > end - TRAILER_BYTES - position) { continue; }
        const uint8_t *copy = bytes_at(chain, end - TRAILER_BYTES - copy_bytes, HEAD_BYTES);
        if (copy != NULL && get_head(chain, copy, position, head_out) && head_out->sequence == sequence &&
            head_out->flags == 0 && head_out->bytes == end - position) {
            return !is_built_upon(chain, head_out);
        }
    }
    return false;
}

static bool is_next(const struct head *head, uint64_t sequence, uint32_t life)
{
    return head->flags == 0 && head->sequence == sequence && head->life >= life;
}

static enum found find(struct chain *chain, uint64_t position, uint64_t sequence, uint32_t life, struct head *head_out)
{
    const uint8_t *at = bytes_at(chain, position, HEAD_BYTES);
    if (at != NULL && get_head(chain, at, position, head_out) && is_next(head_out, sequence, life)) {
        return FOUND_GROUP;
    }
    if (find_copy(chain, position, sequence, head_out)) {
        if (position + head_out->bytes <= chain->line) {
            damage(chain, position, position + HEAD_BYTES, NULL, NULL,
                   "one of two copies of a group's header is damaged; the other is whole");
        }
        return FOUND_GROUP;
    }
    for (uint32_t i = 0; i < chain->number_count; i++) {
        uint64_t file_at = chain->numbers[i] * chain->file_bytes;
        for (uint64_t to = 0; to + PAGE_BYTES <= chain->file_bytes; to += PAGE_BYTES) {
            if (file_at + to <= position) { continue; }
            const uint8_t *page = bytes_at(chain, file_at + to, PAGE_BYTES);
            if (page == NULL) { break; }
            bool is_later = get_head(chain, page, file_at + to, head_out) && head_out->flags == 0 &&
                            head_out->sequence >= sequence && head_out->life >= life;
            if (is_later) { return FOUND_LATER; }
        }
    }
    return FOUND_END;
}

static void walk(struct chain *chain, uint64_t position, uint64_t sequence)
{
    uint32_t life = 0;
    struct head head;
    while (!chain->verify->is_stopped) {
        enum found found = find(chain, position, sequence, life, &head);
        bool is_jump = found == FOUND_LATER && head.sequence == sequence && head.position % chain->file_bytes == 0;
        if (found == FOUND_END || (found == FOUND_LATER && !is_jump)) {
            if (chain->line > position) {
                uint64_t to = found == FOUND_END ? chain->line : head.position;
                damage(chain, position, to, NULL, NULL, "groups are missing: of which partitions is not known");
            }
            if (found == FOUND_END || chain->line <= position) { return; }
        }
        position = head.position;
        const uint8_t *group = bytes_at(chain, position, head.bytes);
        if (group == NULL) { return; }
        bool is_synced = position + head.bytes <= chain->line;
        if (!is_synced && !is_whole(&head, group)) { return; } /* torn, and never acknowledged */
        for (uint32_t i = 0; i < head.rows; i++) { take_row(chain, &head, group, i); }
        if (is_synced) { judge_rest(chain, &head, group); }
        position += head.bytes;
        sequence = head.sequence + 1;
        life = head.life;
    }
}

void verify_journal(struct verify *verify)
{
    struct checkpoint cks[2] = {{.file = "weir-journal/checkpoint-a.wj"}, {.file = "weir-journal/checkpoint-b.wj"}};
    for (int i = 0; i < 2; i++) { read_checkpoint(verify, &cks[i]); }
    const struct checkpoint *chosen = NULL;
    for (int i = 0; i < 2; i++) {
        if (cks[i].is_good && (chosen == NULL || cks[i].sequence > chosen->sequence)) { chosen = &cks[i]; }
    }
    struct chain chain = {.verify = verify, .loaded = UINT64_MAX};
    if (chosen == NULL && cks[0].bytes == NULL && cks[1].bytes == NULL) {
        (void)app_error(NULL, "'%s' has no journal with a checkpoint: it is no data directory, or both are lost",
                        verify->dir);
        verify->is_stopped = true;
    } else if (chosen != NULL && chosen->file_bytes >= PAGE_BYTES) {
        chain.file_bytes = chosen->file_bytes;
        chain.line = chosen->line;
        memcpy(chain.id, chosen->bytes + 8, 16);
        list_files(&chain);
        survey(&chain, chosen->begin);
    }
    for (int i = 0; i < 2 && !verify->is_stopped; i++) {
        /* One that a crash cut short is no damage: it has no end, and no group says that it was synced. */
        bool was_whole =
            cks[i].bytes != NULL && (has_end(&cks[i]) || chosen == NULL || chain.checkpoint > chosen->sequence);
        if (cks[i].is_good || !was_whole) { continue; }
        struct verify_place place = {.file = cks[i].file,
                                     .position_bytes = cks[i].bad_at,
                                     .offset_first = -1,
                                     .offset_end = -1};
        verify_damage(verify, &place, "the checkpoint can't be used: %s", cks[i].what);
    }
    if (chosen != NULL && !verify->is_stopped) {
        give_states(verify, chosen);
        walk(&chain, chosen->begin, chosen->begin_sequence);
    }
    free(chain.bytes);
    free(chain.numbers);
    for (int i = 0; i < 2; i++) { free(cks[i].bytes); }
}
