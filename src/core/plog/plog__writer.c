/* plog__writer.c: the writer of a log: looks at the facts, asks the world for the next thing, goes on when it is done.
 *
 * For a round in a new segment the order is: directory, partition.metadata, the segment's file, SYNC_DIR of the directory,
 * SYNC_DIR of its parent, bytes. Only then can the round leave for the journal. After a roll the old segment's index is
 * finished first, because its tail is about to be the new segment's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

#define METADATA_HEAD_BYTES 21u /* "version: 0\ntopic_id: " */
#define NOBODYS_NS          UINT64_C(2000000000)
#define OTHERS_NS           UINT64_C(30000000000)

/* What a step leaves: another look at the facts, or nothing to do until something happens. */
enum go { GO_ON, STOP_HERE };

static struct port_effect *ask(struct plog *plog, struct plog__log *log, struct port_out *out,
                               enum port_effect_kind kind, enum plog__asked asked)
{
    CHECK(log->asked == PLOG__ASKED_NOTHING);
    log->asked = asked;
    struct port_effect *effect = plog__emit(plog, out, kind, PLOG__TOKEN_WRITER, plog__log_slot(plog, log));
    effect->disk = plog->config.disk;
    if (log->writer.file != 0) { effect->file = plog__file_id(plog, plog__file_of(plog, &log->writer)); }
    return effect;
}

static enum plog_result result_of(enum port_rc rc)
{
    if (rc == PORT_NO_SPACE) { return PLOG_NO_SPACE; }
    return rc == PORT_NO_HANDLES ? PLOG_BUSY : PLOG_STORAGE;
}

static void fail_writing(struct plog *plog, struct plog__log *log, enum port_rc rc)
{
    if (rc == PORT_NO_SPACE) { plog__note_full(plog); }
    if (log->writing == PLOG__NONE) { return; }
    plog__round_fail(plog, log, plog__round_at(plog, log->writing), result_of(rc));
}

/* ---- the index of a segment ---- */

static void begin_flush(struct plog *plog, struct plog__log *log, struct plog__segment *segment, bool is_seal)
{
    CHECK(log->flush == PLOG__FLUSH_NONE);
    CHECK(plog__segment_last(log) == segment);
    log->is_flush_anew = segment->is_index_bad;
    if (log->is_flush_anew) { /* what is in the files is not used again: both are emptied, and entries begin anew */
        segment->index_count = 0;
        segment->time_count = 0;
        segment->is_index_bad = false;
    }
    log->flush = log->is_flush_anew ? PLOG__FLUSH_CUT_INDEX : PLOG__FLUSH_INDEX;
    log->is_flush_seal = is_seal;
    log->flush_segment = plog__segment_slot(plog, segment);
    log->flush_done = 0;
    segment->pins += 1;
}

void plog__undo_want(struct plog *plog, struct plog__log *log, struct plog__segment *segment)
{
    CHECK(!log->needs_undo);
    log->needs_undo = true;
    log->undo_segment = plog__segment_slot(plog, segment);
    segment->pins += 1;
}

/* Nothing comes after its end any more, so what a crash or a reserve left there is cut now or never. Kept where lost entries may have named it. */
static void cut_before_seal(struct plog *plog, struct plog__log *log, struct plog__segment *segment)
{
    bool is_longer = segment->needs_cut || segment->has_reserve;
    if (!is_longer || !segment->is_created || plog__may_be_named(plog, log) || log->needs_undo || log->is_dir_lost) {
        return;
    }
    plog__undo_want(plog, log, segment);
    plog__task_ready(plog, &log->writer);
}

void plog__seal(struct plog *plog, struct plog__log *log, struct plog__segment *segment)
{
    CHECK(!segment->is_sealed);
    segment->is_sealed = true;
    bool is_unsynced = log->config.is_page_cache && segment->synced_bytes < segment->size_bytes;
    if (is_unsynced && plog->life == PLOG__SERVING) { plog__sync_want(plog, segment); } /* no flush looks at it again */
    cut_before_seal(plog, log, segment);
    if (segment->size_bytes == 0 || log->flush != PLOG__FLUSH_NONE || log->is_dir_lost) { return; }
    plog__tail_seal(log, segment);
    begin_flush(plog, log, segment, true);
    plog__task_ready(plog, &log->writer);
}

void plog__tail_flush(struct plog *plog, struct plog__log *log, struct plog__segment *segment)
{
    if (log->is_dir_lost) { return; }
    if (log->tail.index_count >= PLOG__TAIL_FLUSH || log->tail.time_count >= PLOG__TAIL_FLUSH) {
        begin_flush(plog, log, segment, false);
    }
}

static void end_flush(struct plog *plog, struct plog__log *log, struct plog__segment *segment, bool is_written)
{
    if (is_written) {
        segment->index_count += log->tail.index_count;
        segment->time_count += log->tail.time_count;
    }
    if (log->is_flush_anew) { segment->is_index_bad = true; } /* old entries may be there still */
    log->is_flush_anew = false;
    /* Written or not: a capture goes back to the first segment that is clean, and must not stop at one that it never synced. */
    segment->is_index_dirty = true;
    log->tail.index_count = 0; /* on failure: a gap in a sparse index */
    log->tail.time_count = 0;
    log->flush = PLOG__FLUSH_NONE;
    log->flush_done = 0;
    plog__segment_unpin(plog, segment);
    if (log->is_flush_seal && log->is_epochs_dirty && log->has_dir) {
        (void)plog__small_begin(plog, log, PLOG__SMALL_EPOCHS);
    }
    log->is_flush_seal = false;
}

/* A crash left entries in the file, of rounds that the journal had not heard of, or a truncation did. */
static bool is_index_longer(const struct plog *plog, const struct plog__log *log, enum plog__which which,
                            uint64_t size_bytes)
{
    if (log->writer.file == 0) { return false; }
    const struct plog__file *file = plog__file_of(plog, &log->writer);
    return file->which == which && file->segment == log->flush_segment && file->size_at_open > size_bytes;
}

static enum go flush_step(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__segment *segment = plog__segment_at(plog, log->flush_segment);
    bool is_index = log->flush == PLOG__FLUSH_INDEX || log->flush == PLOG__FLUSH_CUT_INDEX;
    bool is_cut = log->flush == PLOG__FLUSH_CUT_INDEX || log->flush == PLOG__FLUSH_CUT_TIME;
    uint64_t entry_bytes = is_index ? PLOG__INDEX_BYTES : PLOG__TIME_BYTES;
    uint64_t old_bytes = (is_index ? segment->index_count : segment->time_count) * entry_bytes;
    uint64_t new_bytes = (is_index ? log->tail.index_count : log->tail.time_count) * entry_bytes;
    enum plog__which which = is_index ? PLOG__INDEX : PLOG__TIME;
    if (!is_cut && log->flush_done == new_bytes) {
        log->flush_done = 0;
        if (log->is_flush_seal || is_index_longer(plog, log, which, old_bytes + new_bytes)) {
            log->flush = is_index ? PLOG__FLUSH_CUT_INDEX : PLOG__FLUSH_CUT_TIME;
        } else if (is_index) {
            log->flush = PLOG__FLUSH_TIME;
        } else {
            end_flush(plog, log, segment, true);
        }
        return GO_ON;
    }
    enum port_rc rc;
    uint32_t flags = PORT_OPEN_WRITE | PORT_OPEN_CREATE;
    switch (plog__file_get(plog, log, segment, which, flags, &log->writer, &rc, out)) {
    case PLOG__WAIT: return STOP_HERE;
    case PLOG__FAILED: end_flush(plog, log, segment, false); return GO_ON;
    case PLOG__GOT: break;
    }
    if (segment->is_index_bad) { /* the file is shorter than what it should hold */
        end_flush(plog, log, segment, false);
        return GO_ON;
    }
    struct plog__file *file = plog__file_of(plog, &log->writer);
    if (is_cut) {
        uint64_t size_bytes = log->is_flush_anew ? 0 : old_bytes + new_bytes;
        file->size_at_open = size_bytes; /* if that fails, no lookup minds */
        ask(plog, log, out, PORT_TRUNCATE, PLOG__ASKED_FLUSH)->position_bytes = size_bytes;
        return STOP_HERE;
    }
    file->size_at_open = base_max_u64(file->size_at_open, old_bytes + new_bytes);
    const uint8_t *from = is_index ? log->tail.index : log->tail.time;
    log->flush_piece = (struct port_piece){.kind = PORT_MEMORY,
                                           .at = from + log->flush_done,
                                           .size_bytes = new_bytes - log->flush_done};
    struct port_effect *effect = ask(plog, log, out, PORT_WRITE, PLOG__ASKED_FLUSH);
    effect->where = PORT_ON_SHARD;
    effect->position_bytes = old_bytes + log->flush_done;
    effect->pieces = &log->flush_piece;
    effect->piece_count = 1;
    return STOP_HERE;
}

static void flush_done(struct plog *plog, struct plog__log *log, const struct port_event *event)
{
    struct plog__segment *segment = plog__segment_at(plog, log->flush_segment);
    bool is_cut = log->flush == PLOG__FLUSH_CUT_INDEX || log->flush == PLOG__FLUSH_CUT_TIME;
    if (event->done.rc != PORT_OK || (!is_cut && event->done.count == 0)) {
        end_flush(plog, log, segment, false);
        return;
    }
    if (!is_cut) {
        log->flush_done += base_min_u64(event->done.count, log->flush_piece.size_bytes);
        return;
    }
    if (log->flush == PLOG__FLUSH_CUT_INDEX) {
        log->flush = log->is_flush_anew ? PLOG__FLUSH_CUT_TIME : PLOG__FLUSH_TIME;
    } else if (log->is_flush_anew) {
        log->is_flush_anew = false;
        log->flush = PLOG__FLUSH_INDEX;
    } else {
        end_flush(plog, log, segment, true);
    }
}

/* ---- the small files: partition.metadata says whose the directory is, and is synced before anything is journalled of it;
 *      leader-epoch-checkpoint is for Kafka's tools alone, and may fail ---- */

static void write_metadata(const struct plog__log *log, struct base_text *text)
{
    base_text_add(text, "version: 0\ntopic_id: ");
    base_text_add_uuid(text, log->id.topic);
    base_text_add(text, "\n");
}

static void write_epochs(const struct plog__log *log, struct base_text *text)
{
    base_text_add(text, "0\n");
    base_text_add_i64(text, log->epoch_count);
    base_text_add(text, "\n");
    for (uint32_t i = 0; i < log->epoch_count; i++) {
        base_text_add_i64(text, log->epochs[i].epoch);
        base_text_add(text, " ");
        base_text_add_i64(text, log->epochs[i].offset_start);
        base_text_add(text, "\n");
    }
}

bool plog__small_begin(struct plog *plog, struct plog__log *log, enum plog__small_kind kind)
{
    CHECK(log->small == PLOG__SMALL_NONE);
    bool is_metadata = kind == PLOG__SMALL_METADATA;
    size_t size_bytes = is_metadata ? sizeof log->owner : 32 + (size_t)log->epoch_count * 34;
    uint8_t *block = is_metadata ? log->owner : base_pages_take(plog->pages, BASE_CONTROL, size_bytes);
    if (block == NULL) { return false; }
    struct base_text text;
    base_text_init(&text, (char *)block, size_bytes);
    if (is_metadata) {
        write_metadata(log, &text);
    } else {
        write_epochs(log, &text);
        log->is_epochs_dirty = false;
    }
    CHECK(!text.is_cut);
    /* Not written anew: between the cut and the sync a crash, or a full disk, would make a directory that is ours nobody's. */
    bool is_there = is_metadata && log->is_metadata_found;
    log->small = is_there ? PLOG__SMALL_WRITE : PLOG__SMALL_OPEN;
    log->small_kind = kind;
    log->small_block = block;
    log->small_bytes = text.used_bytes;
    log->small_done = is_there ? log->small_bytes : 0;
    plog__file_release(plog, &log->writer);
    return true;
}

static void end_small(struct plog *plog, struct plog__log *log, enum port_rc rc, struct port_out *out)
{
    plog__file_close(plog, &log->writer, out);
    if (log->small_block != log->owner) { base_pages_give(plog->pages, log->small_block); }
    log->small_block = NULL;
    log->small = PLOG__SMALL_NONE;
    if (log->small_kind != PLOG__SMALL_METADATA) { return; }
    if (rc == PORT_OK) {
        log->is_metadata_written = true;
    } else {
        fail_writing(plog, log, rc);
    }
}

static enum go small_step(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    enum port_rc rc;
    switch (plog__file_get(plog, log, NULL, PLOG__SMALL, PORT_OPEN_WRITE | PORT_OPEN_CREATE, &log->writer, &rc, out)) {
    case PLOG__WAIT: return STOP_HERE;
    case PLOG__FAILED: end_small(plog, log, rc, out); return GO_ON;
    case PLOG__GOT: break;
    }
    if (log->small == PLOG__SMALL_OPEN) {
        log->small = PLOG__SMALL_CUT;
        (void)ask(plog, log, out, PORT_TRUNCATE, PLOG__ASKED_SMALL);
        return STOP_HERE;
    }
    if (log->small_done == log->small_bytes) {
        if (log->small_kind != PLOG__SMALL_METADATA) {
            end_small(plog, log, PORT_OK, out);
            return GO_ON;
        }
        log->small = PLOG__SMALL_SYNC;
        (void)ask(plog, log, out, PORT_SYNC, PLOG__ASKED_SMALL);
        return STOP_HERE;
    }
    log->small = PLOG__SMALL_WRITE;
    log->small_piece = (struct port_piece){.kind = PORT_MEMORY,
                                           .at = log->small_block + log->small_done,
                                           .size_bytes = log->small_bytes - log->small_done};
    struct port_effect *effect = ask(plog, log, out, PORT_WRITE, PLOG__ASKED_SMALL);
    effect->position_bytes = log->small_done;
    effect->pieces = &log->small_piece;
    effect->piece_count = 1;
    return STOP_HERE;
}

static void small_done(struct plog *plog, struct plog__log *log, const struct port_event *event, struct port_out *out)
{
    enum port_rc rc = event->done.rc;
    bool is_write = log->small == PLOG__SMALL_WRITE;
    if (rc == PORT_OK && is_write && event->done.count == 0) { rc = PORT_IO; }
    if (rc != PORT_OK) {
        if (log->small == PLOG__SMALL_SYNC) { plog__disk_fail(plog); }
        end_small(plog, log, rc, out);
    } else if (is_write) {
        log->small_done += base_min_u64(event->done.count, log->small_piece.size_bytes);
    } else if (log->small == PLOG__SMALL_SYNC) {
        end_small(plog, log, PORT_OK, out);
    }
}

/* ---- a round ---- */

#define UNDO_TRIES_MAX 50u /* PLOG__RETRY_NS apart */

/* What can't be cut now (a failed round left it, or a truncation) is cut before the next round is written (KAFKA-10778): see
 * write_step. */
static void end_undo(struct plog *plog, struct plog__log *log, enum port_rc rc)
{
    struct plog__segment *segment = plog__segment_at(plog, log->undo_segment);
    /* A power cut may bring back what was cut: as long as nobody synced it, the next round or the seal cuts once more. */
    bool is_perhaps_back = segment->needs_cut && !segment->is_sealed && !log->is_undo_synced;
    log->needs_undo = false;
    log->undo_tries = 0;
    log->is_undo_cut = false;
    log->is_undo_synced = false;
    segment->needs_cut = rc != PORT_OK || is_perhaps_back;
    segment->has_reserve = false;
    plog__segment_unpin(plog, segment);
}

/* No round comes that would cut a sealed one, and no start looks behind its end. But a checkpoint waits for it, and so does a stop. */
static bool undo_may_try(const struct plog *plog, const struct plog__log *log, const struct plog__segment *segment,
                         enum port_rc rc)
{
    bool has_tries = plog->life == PLOG__SERVING && log->undo_tries < UNDO_TRIES_MAX;
    return segment->is_sealed && has_tries && plog__may_pass(rc);
}

static enum go undo_step(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__segment *segment = plog__segment_at(plog, log->undo_segment);
    enum port_rc rc;
    switch (plog__file_get(plog, log, segment, PLOG__LOG, PORT_OPEN_WRITE, &log->writer, &rc, out)) {
    case PLOG__WAIT: return STOP_HERE;
    case PLOG__FAILED:
        if (undo_may_try(plog, log, segment, rc)) {
            log->undo_tries += 1;
            plog__queue_fail(plog, log, result_of(rc));
            plog__file_retry_later(plog, &log->writer);
            return STOP_HERE;
        }
        end_undo(plog, log, rc);
        return GO_ON;
    case PLOG__GOT: break;
    }
    if (plog__segment_is_damaged(segment)) { /* found at the open: a file that is too short is not made longer */
        end_undo(plog, log, PORT_OTHER);
        return GO_ON;
    }
    if (log->is_undo_synced) {
        (void)ask(plog, log, out, PORT_SYNC, PLOG__ASKED_UNDO_SYNC);
        return STOP_HERE;
    }
    bool has_more = segment->needs_cut && plog__file_of(plog, &log->writer)->size_at_open > segment->size_bytes;
    bool is_no_longer = segment->needs_cut && !has_more && !segment->has_reserve && !log->is_undo_cut;
    if (is_no_longer) {
        /* A life that died before its sync may have cut it. What a page-cache log has that was never synced is not waited for. */
        log->is_undo_synced = segment->is_sealed && !log->config.is_page_cache;
        if (!log->is_undo_synced) { end_undo(plog, log, PORT_OK); }
        return GO_ON;
    }
    /* Once a state has a sealed one, no start looks behind its end; behind that of a page-cache log each start looks. */
    log->is_undo_synced = has_more && (segment->is_sealed || log->config.is_page_cache);
    ask(plog, log, out, PORT_TRUNCATE, PLOG__ASKED_UNDO)->position_bytes = segment->size_bytes;
    return STOP_HERE;
}

static void undo_done(struct plog *plog, struct plog__log *log, enum plog__asked asked, enum port_rc rc)
{
    if (asked == PLOG__ASKED_UNDO_SYNC && rc != PORT_OK) { plog__disk_fail(plog); }
    bool is_sync_left = asked == PLOG__ASKED_UNDO && rc == PORT_OK && log->is_undo_synced;
    if (!is_sync_left) { end_undo(plog, log, rc); }
}

/* ---- the directory ---- */

enum plog__owner plog__owner_judge(const struct plog__log *log, const uint8_t *at, uint64_t size_bytes)
{
    char ours[PLOG__OWNER_BYTES];
    struct base_text text;
    base_text_init(&text, ours, sizeof ours);
    write_metadata(log, &text);
    struct base_slice found = base_slice_of(at, (size_t)size_bytes);
    if (base_slice_equal(found, base_text_slice(&text))) { return PLOG__OURS; }
    return size_bytes >= text.used_bytes && memcmp(at, ours, METADATA_HEAD_BYTES) == 0 ? PLOG__OTHERS : PLOG__NOBODYS;
}

static void take_dir(struct plog__log *log)
{
    log->has_dir = true;
    log->is_dir_mine = true;
    log->is_dir_checking = false;
    log->dir_since_ns = 0;
}

/* Its appends wait in the queue, so that a capture need not wait for the name too. */
static enum go wait_for_name(struct plog *plog, struct plog__log *log)
{
    if (log->writing != PLOG__NONE) { plog__round_unbegin(plog, log, plog__round_at(plog, log->writing)); }
    return STOP_HERE;
}

/* The directory was there already. Ours: left by a crash. Another's: a log of that name that is being deleted, on this shard or
 * another, will rename it. Nobody's: left by a crash before it was anybody's, or about to be somebody's. Time tells. */
static void judge_dir(struct plog *plog, struct plog__log *log, enum plog__owner owner, struct port_out *out)
{
    log->is_dir_checking = false;
    if (log->dir_since_ns == 0) { log->dir_since_ns = base_max_u64(plog->now_ns, 1); }
    uint64_t waited_ns = plog->now_ns - log->dir_since_ns;
    if (owner == PLOG__OURS || (owner == PLOG__NOBODYS && waited_ns >= NOBODYS_NS)) {
        log->is_metadata_found = owner == PLOG__OURS;
        take_dir(log);
    } else if (owner == PLOG__OTHERS && waited_ns >= OTHERS_NS) {
        struct base_part stray = {.index = log->id.index};
        struct base_text text;
        base_text_init(&text, log->aside, sizeof log->aside);
        plog__delete_dir(stray, base_slice_of(log->name, log->name_bytes), &text);
        struct port_effect *effect = ask(plog, log, out, PORT_RENAME, PLOG__ASKED_ASIDE);
        effect->path = base_slice_of(log->dir, log->dir_bytes);
        effect->path_to = base_text_slice(&text);
    } else {
        plog__file_retry_later(plog, &log->writer);
        (void)wait_for_name(plog, log);
    }
}

static enum go dir_step(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    if (!log->is_dir_checking) {
        if (!plog__name_is_free(plog, log)) { /* until the old one is renamed */
            plog->has_name_waiters = true;
            return wait_for_name(plog, log);
        }
        ask(plog, log, out, PORT_MAKE_DIR, PLOG__ASKED_DIR)->path = base_slice_of(log->dir, log->dir_bytes);
        return STOP_HERE;
    }
    enum port_rc rc;
    log->small_kind = PLOG__SMALL_METADATA;
    switch (plog__file_get(plog, log, NULL, PLOG__SMALL, PORT_OPEN_READ, &log->writer, &rc, out)) {
    case PLOG__WAIT: return STOP_HERE;
    case PLOG__FAILED:
        if (rc == PORT_MISSING) {
            judge_dir(plog, log, PLOG__NOBODYS, out);
        } else {
            log->is_dir_checking = false;
            fail_writing(plog, log, rc);
        }
        return GO_ON;
    case PLOG__GOT: break;
    }
    struct port_effect *effect = ask(plog, log, out, PORT_READ, PLOG__ASKED_OWNER);
    effect->position_bytes = log->owner_bytes;
    effect->buffer = log->owner + log->owner_bytes;
    effect->size_bytes = sizeof log->owner - log->owner_bytes;
    return STOP_HERE;
}

static void dir_done(struct plog *plog, struct plog__log *log, enum plog__asked asked, const struct port_event *event,
                     struct port_out *out)
{
    enum port_rc rc = event->done.rc;
    if (asked == PLOG__ASKED_OWNER) {
        uint64_t count = rc == PORT_OK ? base_min_u64(event->done.count, sizeof log->owner - log->owner_bytes) : 0;
        log->owner_bytes += count;
        if (count > 0 && log->owner_bytes < sizeof log->owner) { return; } /* until the file's end */
        plog__file_close(plog, &log->writer, out);
        if (rc == PORT_OK) {
            judge_dir(plog, log, plog__owner_judge(log, log->owner, log->owner_bytes), out);
            return;
        }
        log->is_dir_checking = false;
        fail_writing(plog, log, rc);
    } else if (asked == PLOG__ASKED_DIR && rc == PORT_OK) {
        take_dir(log);
    } else if (asked == PLOG__ASKED_DIR && rc == PORT_EXISTS) {
        log->is_dir_checking = true;
        log->owner_bytes = 0;
    } else if (rc != PORT_OK && (rc != PORT_MISSING || asked == PLOG__ASKED_DIR)) {
        fail_writing(plog, log, rc); /* whose folder was to go aside, and has gone by itself, has left the name free */
    }
}

static enum go create_step(struct plog *plog, struct plog__log *log, struct plog__segment *segment,
                           struct port_out *out)
{
    if (!log->has_dir) { return dir_step(plog, log, out); }
    for (struct base_link *link = base_list_first(&log->doomed); link != NULL;
         link = base_list_next(&log->doomed, link)) {
        struct plog__segment *doomed = BASE_ITEM(link, struct plog__segment, link);
        if (doomed->base != segment->base) { continue; }
        doomed->dead_at_ns = plog->now_ns; /* its file has to go first, or it would take the new one with it */
        plog__task_ready(plog, &plog->reaper.task);
        return wait_for_name(plog, log);
    }
    if (!log->is_metadata_written) {
        (void)plog__small_begin(plog, log, PLOG__SMALL_METADATA);
        return GO_ON;
    }
    enum port_rc rc;
    switch (plog__file_get(plog, log, segment, PLOG__LOG, PORT_OPEN_WRITE | PORT_OPEN_CREATE, &log->writer, &rc, out)) {
    case PLOG__WAIT: return STOP_HERE;
    case PLOG__FAILED: fail_writing(plog, log, rc); return GO_ON;
    case PLOG__GOT: break;
    }
    if (plog__file_of(plog, &log->writer)->size_at_open > 0) {
        bool is_damaged = log->is_damaged || log->damaged_count > 0;
        if (plog->has_lost_entries || log->is_suspect || is_damaged) {
            /* Nothing names these bytes, but what did may be what was lost. */
            log->is_damaged = true;
            plog__log_fail(plog, log);
            return GO_ON;
        }
        segment->is_cut_new = log->config.is_page_cache;
        (void)ask(plog, log, out, PORT_TRUNCATE, PLOG__ASKED_CLEAR); /* left by a round that never was */
        return STOP_HERE;
    }
    segment->is_created = true;
    return GO_ON;
}

static enum go write_step(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__round *round = plog__round_at(plog, log->writing);
    struct plog__segment *segment = plog__segment_at(plog, round->segment);
    if (!segment->is_created) { return create_step(plog, log, segment, out); }
    if (!segment->is_named) {
        ask(plog, log, out, PORT_SYNC_DIR, PLOG__ASKED_NAME)->path = base_slice_of(log->dir, log->dir_bytes);
        return STOP_HERE;
    }
    if (!log->is_parent_synced) {
        (void)ask(plog, log, out, PORT_SYNC_DIR, PLOG__ASKED_PARENT);
        return STOP_HERE;
    }
    enum port_rc rc;
    switch (plog__file_get(plog, log, segment, PLOG__LOG, PORT_OPEN_WRITE, &log->writer, &rc, out)) {
    case PLOG__WAIT: return STOP_HERE;
    case PLOG__FAILED:
        if (rc == PORT_MISSING && segment->size_bytes > 0) {
            plog__segment_damage(log, segment, 0, segment->size_bytes);
            plog__note_mark(plog, log);
            plog__round_unbegin(plog, log, round);
        } else {
            fail_writing(plog, log, rc);
        }
        return GO_ON;
    case PLOG__GOT: break;
    }
    struct port_effect *effect;
    bool has_more = plog__file_of(plog, &log->writer)->size_at_open > segment->size_bytes;
    if (log->is_suspect && !has_more) { segment->needs_cut = false; }
    if (segment->damage_to > 0 || (segment->needs_cut && log->is_suspect)) {
        /* Goes on in a new segment; what is here stays as it is, for lost entries may have named it. */
        plog__round_unbegin(plog, log, round);
        if (segment->size_bytes == 0) {
            log->is_damaged = true;
            plog__log_fail(plog, log); /* the new one would have the name of this one */
        } else if (!segment->is_sealed) {
            plog__seal(plog, log, segment);
        }
        return GO_ON;
    }
    if (segment->needs_cut) {
        segment->is_cut_new = has_more && log->config.is_page_cache;
        ask(plog, log, out, PORT_TRUNCATE, PLOG__ASKED_CUT)->position_bytes = segment->size_bytes;
        return STOP_HERE;
    }
    if (segment->is_cut_new) {
        (void)ask(plog, log, out, PORT_SYNC, PLOG__ASKED_CUT_SYNC);
        return STOP_HERE;
    }
    if (log->config.is_preallocated && !segment->has_reserve) {
        segment->has_reserve = true; /* whatever comes of it: the write shows whether there is room */
        effect = ask(plog, log, out, PORT_ALLOCATE, PLOG__ASKED_RESERVE);
        effect->size_bytes = base_min_u64(log->config.segment_bytes, PLOG__SEGMENT_BYTES_MAX);
        return STOP_HERE;
    }
    effect = ask(plog, log, out, PORT_WRITE, PLOG__ASKED_WRITE);
    effect->where = PORT_ON_SHARD;
    effect->position_bytes = round->position_bytes + round->written_bytes;
    effect->pieces = round->pieces;
    effect->piece_count = round->piece_count;
    return STOP_HERE;
}

static void write_done(struct plog *plog, struct plog__log *log, const struct port_event *event)
{
    struct plog__round *round = plog__round_at(plog, log->writing);
    struct plog__segment *segment = plog__segment_at(plog, round->segment);
    if (log->is_deleting) { /* the deletion left for the journal before it: no run of it may follow */
        plog__round_fail(plog, log, round, PLOG_GONE);
        return;
    }
    if (event->done.rc == PORT_OK && event->done.count > 0 && !plog->is_failed && !log->is_failed) {
        round->written_bytes += base_min_u64(event->done.count, round->size_bytes - round->written_bytes);
        if (round->written_bytes < round->size_bytes) { /* short: the rest is asked for, or the failure shows itself */
            plog__round_pieces(plog, round, round->written_bytes);
            return;
        }
        plog__round_written(plog, log, round);
        plog__tail_flush(plog, log, segment);
        return;
    }
    if (!plog->is_failed && !log->is_failed) {
        struct plog__file *file = plog__file_of(plog, &log->writer);
        file->size_at_open = base_max_u64(file->size_at_open, round->position_bytes + round->size_bytes); /* perhaps */
        segment->needs_cut = true;
        plog__undo_want(plog, log, segment);
    }
    fail_writing(plog, log, event->done.rc);
}

/* ---- all of it ---- */

static void give_up(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    if (log->writing != PLOG__NONE) { plog__round_fail(plog, log, plog__round_at(plog, log->writing), PLOG_STORAGE); }
    plog__queue_fail(plog, log, log->is_deleting ? PLOG_GONE : PLOG_STORAGE);
    if (log->flush != PLOG__FLUSH_NONE) { end_flush(plog, log, plog__segment_at(plog, log->flush_segment), false); }
    if (log->small != PLOG__SMALL_NONE) { end_small(plog, log, PORT_CLOSED, out); }
    if (log->needs_undo) { end_undo(plog, log, PORT_OK); }
    if (log->is_cutting) { plog__cut_give_up(plog, log); }
    if (log->has_epoch && !log->is_epoch_out) {
        plog__epoch_done(plog, log, log->is_deleting ? PLOG_GONE : PLOG_STORAGE);
    }
    log->writer.open_rc = PORT_OK;
    plog__file_release(plog, &log->writer);
}

static enum go step(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    if (plog->is_failed || log->is_deleting) {
        if (log->replay.state != PLOG__REPLAY_NONE) { plog__replay_give_up(plog, log, PLOG_STORAGE); }
        give_up(plog, log, out);
        if (log->is_deleting) {
            plog__task_ready(plog, &plog->reaper.task);
            /* A checkpoint that waited for it to come to rest need not wait for its last lease too. */
            if (plog__is_captured(plog, log, PLOG__CAPTURE_NEXT)) { plog__task_ready(plog, &plog->capture.task); }
        }
        return STOP_HERE;
    }
    bool is_captured =
        plog__is_captured(plog, log, PLOG__CAPTURE_NEXT) && plog->capture.task.list != &plog->handle_waiters;
    bool waits_for_lease = log->is_undo_cut && plog__cut_must_wait(plog, log);
    /* Nothing is written until the journal has the truncation, and the file is cut. */
    if (log->is_cut_out || waits_for_lease) {
        plog__file_release(plog, &log->writer);
        if (is_captured) { plog__task_ready(plog, &plog->capture.task); }
        return STOP_HERE; /* whoever holds it wakes us */
    }
    if (log->needs_undo) { return undo_step(plog, log, out); }
    if (log->flush != PLOG__FLUSH_NONE) { return flush_step(plog, log, out); }
    if (log->small != PLOG__SMALL_NONE) { return small_step(plog, log, out); }
    if (log->replay.state != PLOG__REPLAY_NONE) { return plog__replay_advance(plog, log, out) ? GO_ON : STOP_HERE; }
    if (log->is_failed) {
        give_up(plog, log, out);
        if (is_captured) { plog__task_ready(plog, &plog->capture.task); }
        return STOP_HERE;
    }
    if (log->writing != PLOG__NONE) { return write_step(plog, log, out); }
    if (is_captured) {
        plog__task_ready(plog, &plog->capture.task); /* it waits for this instant, and goes first */
        return STOP_HERE;
    }
    if (base_list_is_empty(&log->queue)) {
        plog__file_release(plog, &log->writer);
        plog__cut_look(plog, log);
        return STOP_HERE;
    }
    struct plog__segment *last = plog__segment_last(log);
    if (last != NULL && !last->is_sealed && plog__queue_wants_roll(plog, log, last)) {
        plog__seal(plog, log, last);
        return GO_ON;
    }
    plog__round_begin(plog, log);
    return GO_ON;
}

void plog__writer_advance(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    for (;;) {
        if (log->asked != PLOG__ASKED_NOTHING) { return; }
        if (log->writer.list == &plog->ready) { plog__task_take_off(&log->writer); }
        if (log->writer.list != NULL) { return; } /* waits for a file */
        if (!plog__may_emit(plog, out)) {
            plog__task_ready(plog, &log->writer);
            return;
        }
        if (step(plog, log, out) == STOP_HERE) { return; }
    }
}

static void name_done(struct plog *plog, struct plog__log *log, enum plog__asked asked, enum port_rc rc)
{
    if (rc == PORT_IO) { plog__disk_fail(plog); }
    if (rc != PORT_OK) {
        fail_writing(plog, log, rc);
        return;
    }
    if (asked == PLOG__ASKED_PARENT) {
        log->is_parent_synced = true;
    } else if (log->writing != PLOG__NONE) {
        plog__segment_at(plog, plog__round_at(plog, log->writing)->segment)->is_named = true;
    }
}

/* The segment that the round being written is for: cleared of what was in its file, or cut to what is known of it. */
static void cut_done(struct plog *plog, struct plog__log *log, enum plog__asked asked, enum port_rc rc)
{
    if (rc != PORT_OK && asked == PLOG__ASKED_CUT_SYNC) { plog__disk_fail(plog); }
    if (log->writing == PLOG__NONE) { return; }
    struct plog__segment *segment = plog__segment_at(plog, plog__round_at(plog, log->writing)->segment);
    if (rc != PORT_OK) {
        fail_writing(plog, log, rc);
    } else if (asked == PLOG__ASKED_CLEAR) {
        segment->is_created = true;
    } else if (asked == PLOG__ASKED_CUT_SYNC) {
        segment->is_cut_new = false;
    } else {
        segment->needs_cut = false;
    }
}

void plog__writer_done(struct plog *plog, struct plog__log *log, const struct port_event *event, struct port_out *out)
{
    enum plog__asked asked = log->asked;
    enum port_rc rc = event->done.rc;
    CHECK(asked != PLOG__ASKED_NOTHING);
    log->asked = PLOG__ASKED_NOTHING;
    switch (asked) {
    case PLOG__ASKED_NOTHING: break;
    case PLOG__ASKED_DIR:
    case PLOG__ASKED_OWNER:
    case PLOG__ASKED_ASIDE: dir_done(plog, log, asked, event, out); break;
    case PLOG__ASKED_NAME:
    case PLOG__ASKED_PARENT: name_done(plog, log, asked, rc); break;
    case PLOG__ASKED_CLEAR:
    case PLOG__ASKED_CUT:
    case PLOG__ASKED_CUT_SYNC: cut_done(plog, log, asked, rc); break;
    case PLOG__ASKED_RESERVE: break;
    case PLOG__ASKED_WRITE: write_done(plog, log, event); break;
    case PLOG__ASKED_UNDO:
    case PLOG__ASKED_UNDO_SYNC: undo_done(plog, log, asked, rc); break;
    case PLOG__ASKED_FLUSH: flush_done(plog, log, event); break;
    case PLOG__ASKED_SMALL: small_done(plog, log, event, out); break;
    case PLOG__ASKED_CHECK: plog__replay_done(plog, log, event, out); break;
    }
    plog__writer_advance(plog, log, out);
}

/* At a clean stop the index tails are written too, and what a crash left behind the last batch is cut, so that Kafka's tools see all
 * of the log and nothing else. True: there is something to do. */
bool plog__writer_finish(struct plog *plog, struct plog__log *log)
{
    struct plog__segment *last = plog__segment_last(log);
    if (log->is_failed || log->is_deleting || last == NULL || !last->is_created) { return false; }
    bool is_longer = plog->is_recovered && last->is_longer && last->needs_cut;
    last->is_longer = false;
    if (is_longer) { cut_before_seal(plog, log, last); }
    if (log->needs_undo) { return true; }
    if (log->tail.index_count > 0 || log->tail.time_count > 0) {
        begin_flush(plog, log, last, false);
    } else if (!log->is_epochs_dirty || !log->has_dir || !plog__small_begin(plog, log, PLOG__SMALL_EPOCHS)) {
        log->is_epochs_dirty = false;
        return false;
    }
    plog__task_ready(plog, &log->writer);
    return true;
}
