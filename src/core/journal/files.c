/* files.c: file ids, and the life of a journal file: made ready ahead of its use, and gone or used again behind it.
 *
 * NEXT    IDLE [-old file there-> RENAMING] -> OPENING [-new-> ALLOCATING -> ZEROING] -> SYNCING -> SYNCING_DIR -> NAMING
 *         -> NAMED -> SYNCING_NAME -> ready.
 *         A file is allocated whole, so that no group meets a full disk, and written with zeros, so that syncing a group
 *         changes no metadata (docs/decisions/0001-journal-thresholds.md). When a group waits, zeroing ends early.
 *         No group is written to a file before its name is durable, nor before the last page of the file before it says,
 *         durably, that it exists: a chain that lost its last file as a whole would else look like one that ended earlier.
 * OLD     Files before the checkpoint's begin are kept to become a next one, as far as bytes_max allows; the rest goes.
 *         What an old file holds is never taken for groups: their position names another place.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "journal__machine.h"

const uint8_t journal__zeros[65536] = {0};

/* ---- file ids ------------------------------------------------------------------------------------------------------- */

uint32_t journal__slot_take(struct journal *journal)
{
    for (uint32_t i = 0; i < JOURNAL_FILES; i++) {
        struct journal__slot *slot = &journal->slots[i];
        if (slot->state == JOURNAL__SLOT_FREE) {
            slot->generation += 1;
            slot->state = JOURNAL__SLOT_OPENING;
            slot->is_retired = false;
            return i;
        }
    }
    return JOURNAL__NO_SLOT;
}

struct port_file journal__slot_file(const struct journal *journal, uint32_t slot)
{
    CHECK(slot < JOURNAL_FILES);
    return (struct port_file){.shard = journal->config.shard,
                              .slot = journal->config.file_slot_first + slot,
                              .generation = journal->slots[slot].generation};
}

struct port_effect *journal__emit_file(struct journal *journal, enum port_effect_kind kind, uint32_t slot,
                                       uint64_t token, struct port_out *out)
{
    struct port_effect *effect = port_emit(out, kind, token);
    effect->disk = journal->config.disk;
    effect->where = PORT_ON_DISK;
    effect->file = journal__slot_file(journal, slot);
    return effect;
}

struct port_effect *journal__emit_open(struct journal *journal, uint32_t slot, uint64_t token, uint32_t flags,
                                       struct port_out *out)
{
    CHECK(journal->slots[slot].state == JOURNAL__SLOT_OPENING);
    struct port_effect *effect = journal__emit_file(journal, PORT_OPEN, slot, token, out);
    effect->flags = flags;
    effect->path = base_slice_text(journal->slots[slot].path);
    return effect;
}

struct port_effect *journal__emit_dir(struct journal *journal, enum port_effect_kind kind, const char *path,
                                      uint64_t token, struct port_out *out)
{
    struct port_effect *effect = port_emit(out, kind, token);
    effect->disk = journal->config.disk;
    effect->where = PORT_ON_DISK;
    effect->path = base_slice_text(path);
    return effect;
}

void journal__slot_close(struct journal *journal, uint32_t slot, struct port_out *out)
{
    CHECK(journal->slots[slot].state == JOURNAL__SLOT_OPEN);
    (void)journal__emit_file(journal, PORT_CLOSE_FILE, slot, journal__token(JOURNAL__FOR_CLOSE, slot), out);
    journal->slots[slot].state = JOURNAL__SLOT_CLOSING;
}

void journal__slot_closed(struct journal *journal, uint32_t slot)
{
    CHECK(slot < JOURNAL_FILES);
    CHECK(journal->slots[slot].state == JOURNAL__SLOT_CLOSING);
    journal->slots[slot].state = JOURNAL__SLOT_FREE;
}

/* ---- the next file ---------------------------------------------------------------------------------------------------- */

bool journal__files_is_busy(const struct journal *journal) { return journal->files.stage != JOURNAL__FILES_IDLE; }

static uint64_t begin_number(const struct journal *journal) { return journal->begin / journal->file_bytes; }

static void emit_step(struct journal *journal, enum port_effect_kind kind, enum journal__files_stage stage,
                      struct port_out *out)
{
    struct journal__files *files = &journal->files;
    (void)journal__emit_file(journal, kind, files->next_slot, journal__token(JOURNAL__FOR_FILES, 0), out);
    files->stage = stage;
}

static void open_next(struct journal *journal, struct port_out *out)
{
    struct journal__files *files = &journal->files;
    uint32_t slot = journal__slot_take(journal);
    if (slot == JOURNAL__NO_SLOT) { /* old ones are closing: their completions come here again */
        files->stage = JOURNAL__FILES_IDLE;
        return;
    }
    struct base_text text;
    base_text_init(&text, journal->slots[slot].path, JOURNAL__NAME_BYTES);
    journal__name_file(&text, files->next_number);
    files->next_slot = slot;
    files->stage = JOURNAL__FILES_OPENING;
    (void)journal__emit_open(journal, slot, journal__token(JOURNAL__FOR_FILES, 0), PORT_OPEN_WRITE | PORT_OPEN_CREATE,
                             out);
}

static void start_next(struct journal *journal, struct port_out *out)
{
    struct journal__files *files = &journal->files;
    bool is_there = journal__load_has_file(journal, files->next_number); /* made ready in the life before */
    if (is_there || files->old_first >= begin_number(journal)) {
        open_next(journal, out);
        return;
    }
    struct base_text text;
    base_text_init(&text, files->path, sizeof files->path);
    journal__name_file(&text, files->old_first);
    base_text_init(&text, files->path_to, sizeof files->path_to);
    journal__name_file(&text, files->next_number);
    struct port_effect *effect =
        journal__emit_dir(journal, PORT_RENAME, files->path, journal__token(JOURNAL__FOR_FILES, 0), out);
    effect->path_to = base_slice_text(files->path_to);
    files->stage = JOURNAL__FILES_RENAMING;
}

static void unlink_oldest(struct journal *journal, struct port_out *out)
{
    struct journal__files *files = &journal->files;
    struct base_text text;
    base_text_init(&text, files->path, sizeof files->path);
    journal__name_file(&text, files->old_first);
    (void)journal__emit_dir(journal, PORT_UNLINK, files->path, journal__token(JOURNAL__FOR_FILES, 0), out);
    files->stage = JOURNAL__FILES_UNLINKING;
}

static bool is_slot_in_use(const struct journal *journal, uint32_t slot)
{
    for (uint32_t i = 0; i < JOURNAL__GROUPS; i++) {
        if (journal->groups[i].state != JOURNAL__GROUP_FREE && journal->groups[i].slot == slot) { return true; }
    }
    return journal->is_line_writing;
}

static void close_retired(struct journal *journal, struct port_out *out)
{
    for (uint32_t i = 0; i < JOURNAL_FILES; i++) {
        struct journal__slot *slot = &journal->slots[i];
        if (slot->is_retired && slot->state == JOURNAL__SLOT_OPEN && !is_slot_in_use(journal, i)) {
            slot->is_retired = false;
            journal__slot_close(journal, i, out);
        }
    }
}

/* One sync at a time: that of a group first. */
static void sync_name(struct journal *journal, struct port_out *out)
{
    if (journal->is_syncing) { return; }
    (void)journal__emit_file(journal, PORT_SYNC, journal->current_slot, journal__token(JOURNAL__FOR_FILES, 0), out);
    journal->is_syncing = true;
    journal->files.stage = JOURNAL__FILES_SYNCING_NAME;
}

void journal__files_pump(struct journal *journal, struct port_out *out)
{
    struct journal__files *files = &journal->files;
    close_retired(journal, out);
    if (files->stage == JOURNAL__FILES_NAMED && !journal__is_failed(journal)) { sync_name(journal, out); }
    if (files->stage == JOURNAL__FILES_NAMED && journal__is_failed(journal)) { files->stage = JOURNAL__FILES_IDLE; }
    if (files->stage != JOURNAL__FILES_IDLE || journal__is_failed(journal)) { return; }
    bool is_running = journal->state == JOURNAL__READY && journal->current_slot != JOURNAL__NO_SLOT;
    if (is_running && !files->is_next_ready) { files->next_number = journal->current_number + 1; }
    bool is_half = is_running && !journal->wants_stop && journal->end % journal->file_bytes >= journal->file_bytes / 2;
    if (!files->is_next_ready && (files->is_urgent || is_half)) {
        if (!files->is_short || journal->now_ns >= files->retry_ns) {
            start_next(journal, out);
            return;
        }
    }
    if (!is_running || files->old_first >= begin_number(journal)) { return; }
    uint64_t count = journal->current_number - files->old_first + 2; /* the current and the next one too */
    if (journal->wants_stop || count * journal->file_bytes <= journal->bytes_max) { return; }
    if (journal->now_ns < files->retry_ns) { return; }
    unlink_oldest(journal, out);
}

void journal__files_want(struct journal *journal, uint64_t number, struct port_out *out)
{
    struct journal__files *files = &journal->files;
    CHECK(!files->is_next_ready);
    CHECK(IMPLIES(files->stage != JOURNAL__FILES_IDLE && files->stage != JOURNAL__FILES_UNLINKING,
                  files->next_number == number));
    files->is_urgent = true;
    if (files->stage == JOURNAL__FILES_IDLE) {
        files->next_number = number;
        journal__files_pump(journal, out);
    }
}

void journal__files_switch(struct journal *journal)
{
    struct journal__files *files = &journal->files;
    CHECK(files->is_next_ready);
    if (journal->current_slot != JOURNAL__NO_SLOT) { journal->slots[journal->current_slot].is_retired = true; }
    journal->current_slot = files->next_slot;
    journal->current_number = files->next_number;
    journal->end = files->next_number * journal->file_bytes;
    files->is_next_ready = false;
    files->is_urgent = false;
    files->next_slot = JOURNAL__NO_SLOT;
}

/* ---- completions ------------------------------------------------------------------------------------------------------ */

static bool is_sync(enum journal__files_stage stage)
{
    return stage == JOURNAL__FILES_SYNCING || stage == JOURNAL__FILES_SYNCING_DIR ||
           stage == JOURNAL__FILES_SYNCING_NAME;
}

/* No next file now: groups wait; old files that a checkpoint frees help, or time does. After a failed sync nothing does. */
static void give_up(struct journal *journal, enum port_rc rc, struct port_out *out)
{
    struct journal__files *files = &journal->files;
    bool is_lost = is_sync(files->stage);
    files->stage = JOURNAL__FILES_IDLE;
    if (files->next_slot != JOURNAL__NO_SLOT && journal->slots[files->next_slot].state == JOURNAL__SLOT_OPEN) {
        journal__slot_close(journal, files->next_slot, out);
    }
    files->next_slot = JOURNAL__NO_SLOT;
    if (is_lost) {
        journal__fail(journal, rc);
        return;
    }
    files->is_short = true;
    files->rc = rc;
    files->retry_ns = base_deadline_ns(journal->now_ns, JOURNAL__RETRY_NS);
    if (rc == PORT_NO_HANDLES) { journal->is_handle_wanted = true; }
    if (rc != PORT_NO_SPACE) { return; }
    journal->is_checkpoint_wanted = true;
    journal__reserve_release(journal);
}

static void zero_or_sync(struct journal *journal, struct port_out *out)
{
    struct journal__files *files = &journal->files;
    if (files->is_urgent || files->zero_at >= journal->file_bytes) {
        emit_step(journal, PORT_SYNC, JOURNAL__FILES_SYNCING, out);
        return;
    }
    uint64_t left = journal->file_bytes - files->zero_at;
    uint32_t count = 0;
    uint64_t bytes = 0;
    while (count < BASE_ARRAY_COUNT(files->pieces) && left > 0) {
        uint64_t size = base_min_u64(left, sizeof journal__zeros);
        files->pieces[count] = (struct port_piece){.kind = PORT_MEMORY, .at = journal__zeros, .size_bytes = size};
        count += 1;
        left -= size;
        bytes += size;
    }
    emit_step(journal, PORT_WRITE, JOURNAL__FILES_ZEROING, out);
    struct port_effect *effect = &out->effects[out->effect_count - 1];
    effect->position_bytes = files->zero_at;
    effect->pieces = files->pieces;
    effect->piece_count = count;
    effect->size_bytes = bytes;
}

static void opened(struct journal *journal, const struct port_event *event, struct port_out *out)
{
    struct journal__files *files = &journal->files;
    struct journal__slot *slot = &journal->slots[files->next_slot];
    slot->state = event->done.rc == PORT_OK ? JOURNAL__SLOT_OPEN : JOURNAL__SLOT_FREE;
    if (event->done.rc != PORT_OK) {
        give_up(journal, event->done.rc, out);
        return;
    }
    uint64_t pages = event->done.count / JOURNAL__PAGE_BYTES; /* a part of a page is written again */
    files->zero_at = base_min_u64(pages * JOURNAL__PAGE_BYTES, journal->file_bytes);
    if (files->zero_at >= journal->file_bytes) {
        emit_step(journal, PORT_SYNC, JOURNAL__FILES_SYNCING, out);
        return;
    }
    emit_step(journal, PORT_ALLOCATE, JOURNAL__FILES_ALLOCATING, out);
    struct port_effect *effect = &out->effects[out->effect_count - 1];
    effect->position_bytes = 0;
    effect->size_bytes = journal->file_bytes;
}

/* What is left of the page that name_next made; the zeros after the header may stay unwritten. */
static void write_name(struct journal *journal, struct port_out *out)
{
    struct journal__files *files = &journal->files;
    uint64_t done_bytes = (uint64_t)(files->pieces[0].at - files->head);
    struct port_effect *effect =
        journal__emit_file(journal, PORT_WRITE, journal->current_slot, journal__token(JOURNAL__FOR_FILES, 0), out);
    effect->position_bytes = journal->file_bytes - JOURNAL__PAGE_BYTES + done_bytes;
    effect->pieces = files->pieces;
    effect->piece_count = 2;
    effect->size_bytes = JOURNAL__PAGE_BYTES - done_bytes;
    files->stage = JOURNAL__FILES_NAMING;
}

/* In the last page of the current file, which no group ever takes. */
static void name_next(struct journal *journal, struct port_out *out)
{
    struct journal__files *files = &journal->files;
    CHECK(files->next_number == journal->current_number + 1);
    struct journal__head head = {
        .id = journal->id,
        .life = journal->life,
        .is_line = true,
        .is_more = true,
        .sequence = journal->sequence,
        .position = files->next_number * journal->file_bytes - JOURNAL__PAGE_BYTES,
        .bytes = JOURNAL__PAGE_BYTES,
        .line = journal->line,
        .checkpoint = journal->checkpoint_synced,
    };
    journal__put_head(files->head, &head);
    files->pieces[0] = (struct port_piece){.kind = PORT_MEMORY, .at = files->head, .size_bytes = JOURNAL__HEAD_BYTES};
    files->pieces[1] = (struct port_piece){.kind = PORT_MEMORY,
                                           .at = journal__zeros,
                                           .size_bytes = JOURNAL__PAGE_BYTES - JOURNAL__HEAD_BYTES};
    write_name(journal, out);
}

static void next_is_ready(struct journal *journal)
{
    struct journal__files *files = &journal->files;
    files->stage = JOURNAL__FILES_IDLE;
    files->is_next_ready = true;
    files->is_short = false;
}

void journal__files_done(struct journal *journal, const struct port_event *event, struct port_out *out)
{
    struct journal__files *files = &journal->files;
    enum port_rc rc = event->done.rc;
    enum journal__files_stage stage = files->stage;
    if (stage == JOURNAL__FILES_SYNCING_NAME) {
        journal->is_syncing = false;
        journal__append_sync(journal, out);
    }
    if (stage == JOURNAL__FILES_RENAMING || stage == JOURNAL__FILES_UNLINKING) {
        if (rc == PORT_OK || rc == PORT_MISSING) { files->old_first += 1; }
        if (rc == PORT_OK && stage == JOURNAL__FILES_RENAMING && !journal__is_failed(journal)) {
            open_next(journal, out);
        } else {
            bool is_bad = rc != PORT_OK && rc != PORT_MISSING;
            if (is_bad && stage == JOURNAL__FILES_RENAMING) { give_up(journal, rc, out); }
            if (is_bad) { files->retry_ns = base_deadline_ns(journal->now_ns, JOURNAL__RETRY_NS); }
            files->stage = JOURNAL__FILES_IDLE;
        }
        return;
    }
    if (stage == JOURNAL__FILES_OPENING) {
        opened(journal, event, out);
        return;
    }
    if (journal__is_failed(journal)) {
        files->stage = JOURNAL__FILES_IDLE;
        return;
    }
    bool is_helpless =
        stage == JOURNAL__FILES_ALLOCATING && rc == PORT_OTHER; /* a file system that can't: zeroing does it */
    if (rc != PORT_OK && !is_helpless) {
        give_up(journal, rc, out);
        return;
    }
    if (stage == JOURNAL__FILES_ALLOCATING) {
        zero_or_sync(journal, out);
    } else if (stage == JOURNAL__FILES_ZEROING) {
        if (event->done.count == 0) {
            give_up(journal, PORT_IO, out);
            return;
        }
        files->zero_at += event->done.count;
        zero_or_sync(journal, out);
    } else if (stage == JOURNAL__FILES_SYNCING) {
        (void)journal__emit_dir(journal, PORT_SYNC_DIR, JOURNAL__DIR, journal__token(JOURNAL__FOR_FILES, 0), out);
        files->stage = JOURNAL__FILES_SYNCING_DIR;
    } else if (stage == JOURNAL__FILES_SYNCING_DIR && journal->current_slot != JOURNAL__NO_SLOT) {
        name_next(journal, out);
    } else if (stage == JOURNAL__FILES_NAMING) {
        struct port_piece *head = &files->pieces[0];
        if (event->done.count >= head->size_bytes) {
            files->stage = JOURNAL__FILES_NAMED;
        } else if (event->done.count > 0) { /* a short write is continued */
            head->at += event->done.count;
            head->size_bytes -= event->done.count;
            write_name(journal, out);
        } else {
            give_up(journal, PORT_IO, out);
        }
    } else {
        CHECK(stage == JOURNAL__FILES_SYNCING_DIR || stage == JOURNAL__FILES_SYNCING_NAME);
        next_is_ready(journal);
    }
}
