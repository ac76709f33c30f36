/* plog__recover.c: restore and replay; plog__scan.c reads what no journal names.
 *
 * A replayed run goes through the writer of its log like a round: an older segment's index is finished first, then its bytes are
 * written (or, when they were synced in the segment, read back and checked), then plog__apply sees them as it saw them live.
 * Nothing here depends on what the files hold beyond what state and journal name, and everything is done again the same way
 * when recovery itself is cut short.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

/* ---- restore ---- */

static void note_replayed(struct plog *plog, uint64_t token, struct base_part id, enum plog_result result)
{
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_REPLAYED, .token = token, .id = id, .result = result});
}

enum base_rc plog_restore(struct plog *plog, struct base_slice state, uint64_t run_token, struct port_out *out)
{
    plog__begin(plog, out);
    CHECK(plog->life == PLOG__RECOVERING);
    struct plog__log *log;
    enum base_rc rc = plog__state_read(plog, state, &log);
    if (rc != BASE_OK) {
        plog->has_lost_entries = true; /* its files are there, and nothing names them any more */
        return rc;
    }
    note_replayed(plog, run_token, log->id, PLOG_OK);
    plog__end(plog, out);
    return BASE_OK;
}

/* ---- the end of a replay ---- */

/* Of a page-cache log: its segments and their ends are known now. */
static void settle_start(struct plog *plog, struct plog__log *log)
{
    if (!log->config.is_page_cache || log->is_lost) { return; }
    if (log->is_failed) { /* where its segments end nobody knows: the start is not forgotten, and none of them goes */
        log->offset_start = base_max_i64(log->offset_start, log->start_replayed);
        if (log->offset_end < log->offset_start) { plog__end_move(log, log->offset_start); }
        log->watermark = base_max_i64(log->watermark, log->offset_start);
        return;
    }
    plog__start_apply(plog, log, log->start_replayed);
    plog__start_trim(plog, log);
}

void plog__replay_end(struct plog *plog, struct plog__log *log, enum plog_result result)
{
    struct plog__replay *replay = &log->replay;
    if (replay->block != NULL) { base_pages_give(plog->pages, replay->block); }
    replay->block = NULL;
    enum plog__replay_state state = replay->state;
    replay->state = PLOG__REPLAY_NONE;
    log->writer.open_rc = PORT_OK;
    plog__file_release(plog, &log->writer);
    bool is_lost = result != PLOG_OK && result != PLOG_DAMAGED;
    if (is_lost) { log->is_failed = true; }
    if (state == PLOG__REPLAY_TAIL && !(is_lost && replay->is_before_run)) {
        log->was_scanned = true;
        log->is_damaged = log->is_damaged || log->is_suspect; /* something stands there that nothing accounts for */
        if (replay->is_before_run) {                          /* the run that has to come after the scan */
            replay->state = PLOG__REPLAY_FIRST;
            return;
        }
        CHECK(plog->scans_left > 0);
        if (is_lost && !plog->is_failed && plog->recovered == PLOG_OK) { plog->recovered = result; }
        settle_start(plog, log);
        plog->scans_left -= 1;
        plog__recovery_check(plog);
        return;
    }
    note_replayed(plog, replay->token, log->id, result);
}

void plog__replay_give_up(struct plog *plog, struct plog__log *log, enum plog_result result)
{
    log->replay.is_before_run = false;
    if (log->replay.state == PLOG__REPLAY_TAIL && plog->scans_left == 0) { log->replay.state = PLOG__REPLAY_FIRST; }
    plog__replay_end(plog, log, result);
}

/* Whatever its bytes turned out to be: the log ends where the run ends. */
void plog__replay_land(struct plog *plog, struct plog__log *log, struct plog__segment *segment, struct base_slice bytes,
                       uint64_t size_bytes, int64_t offset_end)
{
    plog__apply(plog, log, segment, segment->size_bytes, bytes, PLOG__REPLAYED);
    uint64_t end_bytes = segment->size_bytes + size_bytes;
    log->size_bytes += size_bytes;
    segment->size_bytes = end_bytes;
    segment->end = offset_end;
    segment->needs_cut = true;
    segment->is_longer = log->writer.file != 0 && plog__file_of(plog, &log->writer)->size_at_open > end_bytes;
    plog__end_move(log, offset_end);
    if (!log->config.is_mark_told) {
        log->mark_offset = offset_end;
        log->mark_segment = plog__segment_slot(plog, segment);
        log->mark_bytes = end_bytes;
    }
    plog__tail_flush(plog, log, segment);
}

/* Of bytes that are not those of the run: the whole batches at its begin that are good. A truncation further on in the journal may
 * have kept those and put others behind them. Never all of it: something is wrong with it. */
static struct base_slice good_part(const struct plog__log *log, struct base_slice bytes)
{
    const struct plog_run *run = &log->replay.run;
    int64_t offset = run->offset_base;
    int32_t epoch = plog__epoch_last(log);
    size_t at = 0, good = 0;
    while (bytes.size_bytes - at >= REC_HEADER_BYTES) {
        struct plog__head head;
        struct rec_batch batch;
        if (!plog__head_read(bytes.at + at, offset, &head) || head.size_bytes > bytes.size_bytes - at) { break; }
        struct base_slice one = base_slice_of(bytes.at + at, (size_t)head.size_bytes);
        bool is_good = head.base_offset == offset && head.leader_epoch >= epoch &&
                       head.leader_epoch <= run->leader_epoch && rec_batch_view(one, &batch) == REC_OK &&
                       rec_crc_is_right(&batch);
        if (!is_good || at + head.size_bytes >= run->size_bytes) { break; }
        at += (size_t)head.size_bytes;
        good = at;
        offset = head.offset_last + 1;
        epoch = head.leader_epoch;
    }
    return base_slice_of(bytes.at, good);
}

static void land_damaged(struct plog *plog, struct plog__log *log, struct plog__segment *segment)
{
    const struct plog_run *run = &log->replay.run;
    CHECK(segment->size_bytes == run->position_bytes); /* place_run */
    struct base_slice good = (struct base_slice){NULL, 0};
    if (log->replay.block != NULL) {
        good = good_part(log, base_slice_of(log->replay.block, (size_t)log->replay.done_bytes));
    }
    plog__replay_land(plog, log, segment, good, run->size_bytes, run->offset_end);
    plog__segment_damage(log, segment, run->position_bytes + good.size_bytes, run->position_bytes + run->size_bytes);
    plog__replay_end(plog, log, PLOG_DAMAGED);
}

/* Whole batches, from the run's first offset to its end: what a run says and what it holds agree. */
static bool is_run_of(const struct plog_run *run, struct base_slice bytes)
{
    int64_t offset = run->offset_base;
    size_t at = 0;
    while (bytes.size_bytes - at >= REC_HEADER_BYTES) {
        struct plog__head head;
        if (!plog__head_read(bytes.at + at, offset, &head) || head.size_bytes > bytes.size_bytes - at) { return false; }
        offset = head.offset_last + 1;
        at += (size_t)head.size_bytes;
    }
    return at == bytes.size_bytes && offset == run->offset_end &&
           codec_crc32c(0, bytes.at, bytes.size_bytes) == run->crc;
}

/* ---- trouble that may pass ---- */

#define REPLAY_TRIES_MAX (PLOG_REPLAY_PATIENCE_NS / PLOG__RETRY_NS)

/* What the disk or memory refused is asked for again a little later, as long as that may help: what the journal names and the
 * segment lacks is lost with the next checkpoint. False: it was asked for often enough. */
bool plog__replay_may_try(struct plog *plog, struct plog__log *log, enum port_rc rc)
{
    struct plog__replay *replay = &log->replay;
    if (rc == PORT_MISSING || plog->is_failed || replay->tries == REPLAY_TRIES_MAX) { return false; }
    replay->tries += 1;
    if (rc == PORT_NO_SPACE) { plog__note_full(plog); }
    plog__file_retry_later(plog, &log->writer);
    return true;
}

/* Its place can't be read or written: damage, and the rest of the log works. For want of something else it may be had another
 * time: nothing is decided now, and the start can't go on. */
static void lose_run(struct plog *plog, struct plog__log *log, enum port_rc rc)
{
    if (rc == PORT_IO || rc == PORT_MISSING) {
        land_damaged(plog, log, plog__segment_last(log));
    } else {
        plog__replay_end(plog, log, rc == PORT_NO_SPACE ? PLOG_NO_SPACE : PLOG_STORAGE);
    }
}

/* ---- no room ---- */

/* More logs may have come and gone since the checkpoint than there is room for at once. False: nothing will be free. */
static bool await_room(struct plog *plog, const struct plog_run *run, struct base_slice bytes, uint64_t token)
{
    if (plog->room.is_awaited || base_list_is_empty(&plog->deleting)) { return false; }
    plog->room = (struct plog__room){.is_awaited = true, .token = token, .run = *run, .bytes = bytes};
    plog__task_ready(plog, &plog->reaper.task);
    return true;
}

static void give_up_room(struct plog *plog)
{
    const struct plog__room *room = &plog->room;
    struct plog__log *log = plog__log_by_id(plog, room->run.id);
    if (log != NULL) { log->is_failed = true; }
    plog->has_lost_entries = true;
    note_replayed(plog, room->token, room->run.id, PLOG_BUSY);
    plog->room.is_awaited = false;
}

void plog__room_lacks(struct plog *plog)
{
    plog->room.tries += 1;
    if (plog->room.is_awaited && plog->room.tries == REPLAY_TRIES_MAX) { give_up_room(plog); }
}

/* ---- a run ---- */

static bool is_covered(const struct plog__log *log, const struct plog_run *run)
{
    const struct plog__segment *last = plog__segment_last(log);
    if (run->change == PLOG_CHANGE_SEGMENT) { /* one that began before the end was there, and may be gone by now */
        return run->segment_base < log->offset_end || (last != NULL && last->base >= run->segment_base);
    }
    return run->offset_end <= log->offset_end;
}

static bool is_possible(const struct plog_run *run)
{
    if (run->segment_base < 0 || run->segment_base > PLOG__OFFSET_MAX || run->offset_end > PLOG__OFFSET_MAX) {
        return false;
    }
    if (run->change == PLOG_CHANGE_SEGMENT) { return true; }
    return run->offset_base >= run->segment_base && run->offset_end > run->offset_base && run->size_bytes > 0 &&
           run->size_bytes <= PLOG__SEGMENT_BYTES_MAX &&
           run->position_bytes <= PLOG__SEGMENT_BYTES_MAX - run->size_bytes;
}

/* Its file was there, durably, before its first run left. */
void plog__replay_be_there(struct plog__log *log, struct plog__segment *segment)
{
    segment->is_created = true;
    segment->is_named = true;
    segment->is_born = true;
    segment->needs_cut = true;
    log->has_dir = !log->is_dir_lost;
    log->is_parent_synced = log->has_dir;
    log->is_metadata_written = log->has_dir;
}

/* The segment the run belongs to, made when it is the next one. NULL: the replay has ended, or awaits room. */
static struct plog__segment *segment_of_run(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    const struct plog_run *run = &log->replay.run;
    struct plog__segment *last = plog__segment_last(log);
    bool is_behind = run->change == 0 && run->offset_base < log->offset_end;
    bool is_crossed = last != NULL && (last->base > run->segment_base || last->end > run->offset_base ||
                                       (last->base < run->segment_base && last->end > run->segment_base));
    if (is_behind || is_crossed) {
        log->is_damaged = true; /* it contradicts what is there: entries before it were lost, or it is not ours */
        plog__replay_end(plog, log, PLOG_DAMAGED);
        return NULL;
    }
    if (last == NULL || last->base < run->segment_base) {
        last = plog__segment_revive(plog, log, run->segment_base);
        if (last == NULL) { last = plog__segment_make(plog, log, run->segment_base); }
        if (last == NULL && plog__doomed_forget(plog, out)) { last = plog__segment_make(plog, log, run->segment_base); }
        if (last == NULL && await_room(plog, run, log->replay.bytes, log->replay.token)) {
            log->replay.state = PLOG__REPLAY_NONE; /* it begins anew */
            return NULL;
        }
        if (last == NULL) {
            plog__replay_end(plog, log, PLOG_BUSY);
            return NULL;
        }
        plog__replay_be_there(log, last);
        if (log->offset_end < run->segment_base) { /* offsets that nothing accounts for */
            log->is_damaged = log->is_damaged || log->offset_end > 0;
            plog__end_move(log, run->segment_base);
        }
    }
    return last;
}

/* Of a page-cache log a segment waits for what comes before it. */
static bool must_wait(const struct plog__log *log, const struct plog_run *run)
{
    bool is_behind = plog__segment_last(log) != NULL || plog__wait_next(log, 0) != NULL;
    return run->change == PLOG_CHANGE_SEGMENT && log->config.is_page_cache && is_behind;
}

/* It found no room at once. */
static void wait_run(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    const struct plog_run *run = &log->replay.run;
    bool is_kept = plog__segment_wait(plog, log, run->segment_base);
    if (!is_kept && plog__doomed_forget(plog, out)) { is_kept = plog__segment_wait(plog, log, run->segment_base); }
    if (!is_kept && await_room(plog, run, log->replay.bytes, log->replay.token)) {
        log->replay.state = PLOG__REPLAY_NONE; /* it begins anew */
        return;
    }
    plog__replay_end(plog, log, is_kept ? PLOG_OK : PLOG_BUSY);
}

/* Finds the place of the run. False: waits for something first. */
static bool place_run(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__replay *replay = &log->replay;
    const struct plog_run *run = &replay->run;
    struct plog__segment *last = plog__segment_last(log);
    if (must_wait(log, run)) {
        wait_run(plog, log, out);
        return true;
    }
    if (run->change == PLOG_CHANGE_TRUNCATE) {
        bool has_tail = log->config.is_page_cache && last != NULL && !last->is_sealed && !log->was_scanned;
        if (has_tail || plog__wait_next(log, 0) != NULL) {
            replay->is_before_run = true;
            replay->state = PLOG__REPLAY_TAIL;
            return true;
        }
        log->was_scanned = false;
        plog__replay_end(plog, log, plog__cut_replay(plog, log, run, replay->bytes));
        return true;
    }
    if (last != NULL && last->base < run->segment_base && !last->is_sealed) {
        plog__seal(plog, log, last);
        return true;
    }
    struct plog__segment *segment = segment_of_run(plog, log, out);
    if (segment == NULL) { return true; }
    log->was_scanned = false;
    if (run->change == PLOG_CHANGE_SEGMENT) {
        plog__replay_end(plog, log, PLOG_OK);
        return true;
    }
    if (run->position_bytes != segment->size_bytes || run->offset_base != log->offset_end) {
        if (run->position_bytes < segment->size_bytes) {
            log->is_damaged = true;
            plog__replay_end(plog, log, PLOG_DAMAGED);
            return true;
        }
        if (run->position_bytes > segment->size_bytes) { /* the bytes between were some lost entry's */
            uint64_t hole_bytes = run->position_bytes - segment->size_bytes;
            plog__segment_damage(log, segment, segment->size_bytes, run->position_bytes);
            segment->size_bytes += hole_bytes;
            log->size_bytes += hole_bytes;
        }
        segment->end = run->offset_base;
        plog__end_move(log, run->offset_base);
        log->is_damaged = true;
    }
    if (run->position_bytes == segment->size_bytes && run->offset_base == log->offset_end && !log->is_damaged) {
        log->is_suspect = false; /* nothing is missing before it */
    }
    replay->done_bytes = 0;
    replay->state = replay->bytes.size_bytes > 0 ? PLOG__REPLAY_WRITE : PLOG__REPLAY_CHECK;
    return true;
}

struct port_effect *plog__replay_ask(struct plog *plog, struct plog__log *log, struct port_out *out,
                                     enum port_effect_kind kind)
{
    CHECK(log->asked == PLOG__ASKED_NOTHING);
    log->asked = PLOG__ASKED_CHECK;
    struct port_effect *effect = plog__emit(plog, out, kind, PLOG__TOKEN_WRITER, plog__log_slot(plog, log));
    effect->file = plog__file_id(plog, plog__file_of(plog, &log->writer));
    return effect;
}

static bool write_run(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__replay *replay = &log->replay;
    struct plog__segment *segment = plog__segment_last(log);
    if (replay->done_bytes == replay->bytes.size_bytes) {
        plog__replay_land(plog, log, segment, replay->bytes, replay->run.size_bytes, replay->run.offset_end);
        plog__replay_end(plog, log, PLOG_OK);
        return true;
    }
    if (replay->bytes.size_bytes != replay->run.size_bytes ||
        (replay->done_bytes == 0 && !is_run_of(&replay->run, replay->bytes))) {
        land_damaged(plog, log, segment);
        return true;
    }
    enum port_rc rc;
    uint32_t flags = PORT_OPEN_WRITE | (segment->is_named ? 0 : PORT_OPEN_CREATE);
    switch (plog__file_get(plog, log, segment, PLOG__LOG, flags, &log->writer, &rc, out)) {
    case PLOG__WAIT: return false;
    case PLOG__FAILED:
        if (rc == PORT_MISSING &&
            segment->is_named) { /* removed: made again, and its name made durable, before it is used */
            segment->is_named = false;
            return true;
        }
        if (plog__replay_may_try(plog, log, rc)) { return false; }
        lose_run(plog, log, rc); /* missing: perhaps the log is gone, further on in the journal */
        return true;
    case PLOG__GOT: break;
    }
    if (!segment->is_named) {
        struct port_effect *effect = plog__replay_ask(plog, log, out, PORT_SYNC_DIR);
        effect->disk = plog->config.disk;
        effect->file = (struct port_file){0};
        effect->path = base_slice_of(log->dir, log->dir_bytes);
        return false;
    }
    if (replay->state == PLOG__REPLAY_WRITE && plog__mend_is_due(plog__file_of(plog, &log->writer), segment)) {
        replay->state = PLOG__REPLAY_MEND;
        replay->mend = PLOG__MEND_WALK;
        replay->mend_at = 0;
    }
    if (replay->state == PLOG__REPLAY_MEND) {
        if (plog__mend_step(plog, log, out)) { replay->state = PLOG__REPLAY_WRITE; }
        return replay->state == PLOG__REPLAY_WRITE;
    }
    replay->piece = (struct port_piece){.kind = PORT_MEMORY,
                                        .at = replay->bytes.at + replay->done_bytes,
                                        .size_bytes = replay->bytes.size_bytes - replay->done_bytes};
    struct port_effect *effect = plog__replay_ask(plog, log, out, PORT_WRITE);
    effect->where = PORT_ON_SHARD;
    effect->position_bytes = replay->run.position_bytes + replay->done_bytes;
    effect->pieces = &replay->piece;
    effect->piece_count = 1;
    return false;
}

/* The bytes were synced in the segment before the run was journalled. */
static bool check_run(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__replay *replay = &log->replay;
    struct plog__segment *segment = plog__segment_last(log);
    uint64_t size_bytes = replay->run.size_bytes;
    if (replay->block != NULL && replay->done_bytes == size_bytes) {
        if (!is_run_of(&replay->run, base_slice_of(replay->block, (size_t)size_bytes))) {
            land_damaged(plog, log, segment);
        } else {
            plog__replay_land(plog, log, segment, base_slice_of(replay->block, (size_t)size_bytes), size_bytes,
                              replay->run.offset_end);
            plog__replay_end(plog, log, PLOG_OK);
        }
        return true;
    }
    enum port_rc rc;
    switch (plog__file_get(plog, log, segment, PLOG__LOG, PORT_OPEN_WRITE, &log->writer, &rc, out)) {
    case PLOG__WAIT: return false;
    case PLOG__FAILED:
        if (plog__replay_may_try(plog, log, rc)) { return false; }
        lose_run(plog, log, rc);
        return true;
    case PLOG__GOT: break;
    }
    if (replay->block == NULL) {
        replay->block = base_pages_take(plog->pages, BASE_CONTROL, (size_t)size_bytes);
        replay->block_bytes = size_bytes;
    }
    if (replay->block == NULL) {
        if (plog__replay_may_try(plog, log, PORT_NO_MEMORY)) { return false; }
        plog__replay_end(plog, log, PLOG_BUSY);
        return true;
    }
    struct port_effect *effect = plog__replay_ask(plog, log, out, PORT_READ);
    effect->position_bytes = replay->run.position_bytes + replay->done_bytes;
    effect->buffer = replay->block + replay->done_bytes;
    effect->size_bytes = size_bytes - replay->done_bytes;
    return false;
}

/* ---- the directory: by now it may be another log's, when this one's deletion stands further on in the journal ---- */

/* What can't be looked at is damage. Where something stands under the log's name it may be the log's all the same: nothing of it is taken
 * away, nor is its place taken. */
static void end_lost_tail(struct plog *plog, struct plog__log *log)
{
    struct plog__segment *last = plog__segment_last(log);
    log->is_damaged = true;
    if (last != NULL && last->size_bytes > 0) { plog__segment_damage(log, last, 0, last->size_bytes); }
    if (log->is_dir_odd) {
        log->is_failed = true;
    } else {
        plog__waits_end(plog, log, 0, INT64_MAX);
    }
    plog__replay_end(plog, log, PLOG_DAMAGED);
}

enum lost_dir { DIR_GONE = 0, DIR_ODD };

static void lose_dir(struct plog *plog, struct plog__log *log, enum lost_dir how)
{
    log->is_dir_lost = true;
    log->is_dir_odd = how == DIR_ODD;
    log->has_dir = false;
    log->is_parent_synced = false;
    log->is_metadata_written = false;
    if (log->replay.state == PLOG__REPLAY_TAIL) { end_lost_tail(plog, log); }
}

static bool check_dir(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    enum port_rc rc;
    log->small_kind = PLOG__SMALL_METADATA;
    switch (plog__file_get(plog, log, NULL, PLOG__SMALL, PORT_OPEN_READ, &log->writer, &rc, out)) {
    case PLOG__WAIT: return false;
    case PLOG__FAILED:
        if (plog__replay_may_try(plog, log, rc)) { return false; }
        if (rc == PORT_MISSING || rc == PORT_IO) {
            lose_dir(plog, log, rc == PORT_MISSING ? DIR_GONE : DIR_ODD);
        } else {
            plog__replay_end(plog, log, PLOG_STORAGE);
        }
        return true;
    case PLOG__GOT: break;
    }
    if (!log->is_dir_checking) { log->owner_bytes = 0; }
    log->is_dir_checking = true;
    struct port_effect *effect = plog__replay_ask(plog, log, out, PORT_READ);
    effect->position_bytes = log->owner_bytes;
    effect->buffer = log->owner + log->owner_bytes;
    effect->size_bytes = sizeof log->owner - log->owner_bytes;
    return false;
}

static void dir_checked(struct plog *plog, struct plog__log *log, const struct port_event *event, struct port_out *out)
{
    bool is_read = event->done.rc == PORT_OK;
    if (!is_read && plog__replay_may_try(plog, log, event->done.rc)) { return; }
    uint64_t count = is_read ? base_min_u64(event->done.count, sizeof log->owner - log->owner_bytes) : 0;
    log->owner_bytes += count;
    if (count > 0 && log->owner_bytes < sizeof log->owner) { return; } /* until the file's end */
    log->is_dir_checking = false;
    plog__file_close(plog, &log->writer, out);
    if (is_read && plog__owner_judge(log, log->owner, log->owner_bytes) == PLOG__OURS) {
        log->is_dir_mine = true;
    } else if (!is_read && event->done.rc != PORT_IO) { /* another time it may be had */
        plog__replay_end(plog, log, PLOG_STORAGE);
    } else {
        lose_dir(plog, log, DIR_ODD);
    }
}

/* ---- the two entries from the writer ---- */

bool plog__replay_advance(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    enum plog__replay_state state = log->replay.state;
    if (state == PLOG__REPLAY_NONE) { return true; }
    if (!log->is_dir_mine && !log->is_dir_lost) { return check_dir(plog, log, out); }
    if (log->is_dir_lost && state != PLOG__REPLAY_FIRST) {
        if (state == PLOG__REPLAY_TAIL) {
            end_lost_tail(plog, log);
        } else {
            land_damaged(plog, log, plog__segment_last(log));
        }
        return true;
    }
    switch (state) {
    case PLOG__REPLAY_NONE: return true;
    case PLOG__REPLAY_FIRST: return place_run(plog, log, out);
    case PLOG__REPLAY_WRITE:
    case PLOG__REPLAY_MEND: return write_run(plog, log, out);
    case PLOG__REPLAY_CHECK: return check_run(plog, log, out);
    case PLOG__REPLAY_TAIL: return plog__scan_tail(plog, log, out);
    }
    UNREACHABLE();
}

void plog__replay_done(struct plog *plog, struct plog__log *log, const struct port_event *event, struct port_out *out)
{
    struct plog__replay *replay = &log->replay;
    if (log->is_dir_checking) {
        dir_checked(plog, log, event, out);
        return;
    }
    uint64_t count = event->done.count;
    bool is_failed = event->done.rc != PORT_OK;
    if (is_failed && plog__replay_may_try(plog, log, event->done.rc)) { return; }
    if (replay->state == PLOG__REPLAY_TAIL && is_failed) {
        plog__scan_lose(plog, log, event->done.rc);
    } else if (replay->state == PLOG__REPLAY_TAIL) {
        plog__scan_done(plog, log, base_min_u64(count, replay->window_bytes - replay->done_bytes));
    } else if (replay->state == PLOG__REPLAY_CHECK) {
        if (is_failed || count == 0) { /* EIO, or the file ends: damage either way */
            land_damaged(plog, log, plog__segment_last(log));
        } else {
            replay->done_bytes += base_min_u64(count, replay->run.size_bytes - replay->done_bytes);
        }
    } else if (replay->state == PLOG__REPLAY_MEND) {
        bool is_lost = is_failed || !plog__mend_asked(plog, log, count);
        if (is_lost) { lose_run(plog, log, is_failed ? event->done.rc : PORT_IO); }
    } else if (replay->state == PLOG__REPLAY_WRITE) {
        bool is_name = event->done.effect == PORT_SYNC_DIR;
        if (is_name && !is_failed) {
            plog__segment_last(log)->is_named = true;
        } else if (is_failed || count == 0) {
            lose_run(plog, log, is_failed ? event->done.rc : PORT_IO);
        } else {
            struct plog__file *file = plog__file_of(plog, &log->writer);
            replay->done_bytes += base_min_u64(count, replay->bytes.size_bytes - replay->done_bytes);
            file->size_at_open = base_max_u64(file->size_at_open, replay->run.position_bytes + replay->done_bytes);
        }
    }
}

/* ---- replay ---- */

static enum plog_result replay_change(struct plog *plog, struct plog__log *log, const struct plog_run *run,
                                      struct base_slice bytes)
{
    switch (run->change) {
    case PLOG_CHANGE_START:
        if (run->offset_base < 0 || run->offset_base > PLOG__OFFSET_MAX) { return PLOG_DAMAGED; }
        if (log->config.is_page_cache) {
            log->start_replayed = base_max_i64(log->start_replayed, run->offset_base);
            return PLOG_OK;
        }
        plog__start_apply(plog, log, run->offset_base);
        return PLOG_OK;
    case PLOG_CHANGE_GONE:
        base_map_remove(&plog->by_id, base_part_hash(log->id), plog__log_slot(plog, log));
        log->is_deleting = true;
        base_list_push_back(&plog->deleting, &log->reap);
        return PLOG_OK;
    case PLOG_CHANGE_EPOCH:
        if (run->offset_base < 0 || run->offset_base > log->offset_end) { break; }
        if (log->epoch_count == 0 || log->epochs[log->epoch_count - 1].epoch < run->leader_epoch) {
            plog__epochs_assign(plog, log, run->leader_epoch, run->offset_base);
        }
        if (log->leader_epoch < run->leader_epoch) { log->leader_epoch = run->leader_epoch; }
        return PLOG_OK;
    case PLOG_CHANGE_TRUNCATE: return plog__cut_replay(plog, log, run, bytes);
    case PLOG_CHANGE_SEGMENT: break;
    }
    log->is_damaged = true;
    return PLOG_DAMAGED;
}

/* Each start deletes what the one before it could not, until a checkpoint is there: one of them takes the files away. */
static bool is_deleted(const struct plog *plog, struct base_part id)
{
    for (struct base_link *link = base_list_first(&plog->deleting); link != NULL;
         link = base_list_next(&plog->deleting, link)) {
        if (base_part_equal(BASE_ITEM(link, struct plog__log, reap)->id, id)) { return true; }
    }
    return false;
}

static enum base_rc replay(struct plog *plog, const struct plog_run *run, struct base_slice bytes, uint64_t run_token)
{
    struct plog__log *log = plog__log_by_id(plog, run->id);
    bool is_run = run->change == 0 || run->change == PLOG_CHANGE_SEGMENT;
    bool is_unheard_of = run->change == PLOG_CHANGE_GONE && bytes.size_bytes > 0 && !is_deleted(plog, run->id);
    if (log == NULL && (run->change == PLOG_CHANGE_SEGMENT || run->change == PLOG_CHANGE_EPOCH || is_unheard_of)) {
        enum base_rc rc = plog__be_born(plog, run->id, bytes, &log);
        if (rc == BASE_FULL && await_room(plog, run, bytes, run_token)) { return BASE_OK; }
        if (rc == BASE_FULL) {
            plog->has_lost_entries = true;
            return rc;
        }
    }
    if (run->change == PLOG_CHANGE_GONE) { plog__orphan_forget(plog, run->id); }
    if (log == NULL) {
        bool is_lost = plog__orphan_note(plog, run);
        note_replayed(plog, run_token, run->id, is_lost ? PLOG_DAMAGED : PLOG_OK);
        return BASE_OK;
    }
    CHECK(log->replay.state == PLOG__REPLAY_NONE);
    bool is_of_shape = run->change == PLOG_CHANGE_START || run->change == PLOG_CHANGE_GONE;
    bool is_history = !is_of_shape && plog__is_older(run->cuts, log->cuts);
    if (is_history || (run->change == PLOG_CHANGE_TRUNCATE && run->cuts == log->cuts)) {
        note_replayed(plog, run_token, run->id, PLOG_OK); /* the state knows of the truncation that made it so */
        return BASE_OK;
    }
    bool is_next_cut = run->change == PLOG_CHANGE_TRUNCATE && run->cuts == (uint16_t)(log->cuts + 1);
    if (!is_of_shape && !is_next_cut && run->cuts != log->cuts) { /* a truncation's entry was lost */
        log->is_damaged = true;
        log->is_cut = true;
        log->cuts = run->change == PLOG_CHANGE_TRUNCATE ? (uint16_t)(run->cuts - 1) : run->cuts;
    }
    /* Of a page-cache log nothing but the file tells what it cut; and a flush that is under way counts on the index's tail. */
    bool is_writers_first = log->config.is_page_cache || log->flush != PLOG__FLUSH_NONE;
    if (run->change == PLOG_CHANGE_TRUNCATE && is_writers_first) {
        log->replay =
            (struct plog__replay){.state = PLOG__REPLAY_FIRST, .token = run_token, .run = *run, .bytes = bytes};
        plog__task_ready(plog, &log->writer);
        return BASE_OK;
    }
    bool is_segment = run->change == PLOG_CHANGE_SEGMENT;
    if (is_segment && is_possible(run) && !is_covered(log, run)) { plog__be_born_anew(plog, log, run, bytes); }
    bool is_begun_anew = is_segment && is_covered(log, run);
    if (is_begun_anew) { plog__waits_end(plog, log, run->segment_base, INT64_MAX); } /* see plog__segment_wait */
    if (!is_run || !is_possible(run) || is_covered(log, run)) {
        enum plog_result result =
            !is_run ? replay_change(plog, log, run, bytes) : (is_possible(run) ? PLOG_OK : PLOG_DAMAGED);
        if (result == PLOG_DAMAGED) { log->is_damaged = true; }
        note_replayed(plog, run_token, run->id, result);
        return BASE_OK;
    }
    if (must_wait(log, run) && plog__segment_wait(plog, log, run->segment_base)) {
        note_replayed(plog, run_token, run->id, PLOG_OK);
        return BASE_OK;
    }
    log->replay = (struct plog__replay){.state = PLOG__REPLAY_FIRST, .token = run_token, .run = *run};
    if (run->change == 0) { log->replay.bytes = bytes; }
    plog__task_ready(plog, &log->writer);
    return BASE_OK;
}

enum base_rc plog_replay(struct plog *plog, const struct plog_run *run, struct base_slice bytes, uint64_t run_token,
                         struct port_out *out)
{
    plog__begin(plog, out);
    CHECK(plog->life == PLOG__RECOVERING);
    enum base_rc rc = replay(plog, run, bytes, run_token);
    if (rc == BASE_OK) { plog__end(plog, out); }
    return rc;
}

void plog__room_came(struct plog *plog)
{
    if (!plog->room.is_awaited || plog->life != PLOG__RECOVERING) { return; }
    struct plog__room room = plog->room;
    plog->room.is_awaited = false;
    enum base_rc rc = replay(plog, &room.run, room.bytes, room.token);
    CHECK(rc == BASE_OK); /* for a log there is room now; for a segment it says itself when there is none */
}

void plog__recovery_check(struct plog *plog)
{
    if (!plog->is_recovery_ending || plog->scans_left > 0) { return; }
    plog->is_recovery_ending = false;
    if (plog->life != PLOG__RECOVERING) { return; } /* a stop came before it */
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_RECOVERED, .result = plog->recovered});
    if (plog->recovered != PLOG_OK) { return; }
    plog->life = PLOG__SERVING;
    plog->is_recovered = true;
    plog__task_ready(plog, &plog->reaper.task);
}

bool plog_may_lack_ends(const struct plog *plog) { return plog->may_lack_ends; }

/* Nothing says where a page-cache log ended, only that it had records, or had some before a start that found none and was itself
 * cut short. */
static void mind_end(struct plog *plog, struct plog__log *log, enum plog_last_stop last_stop)
{
    bool had_records =
        log->may_lack_end || log->offset_end > 0 || plog__segment_last(log) != NULL || plog__wait_next(log, 0) != NULL;
    log->may_lack_end = last_stop == PLOG_LAST_UNCLEAN && log->config.is_page_cache && had_records;
    plog->may_lack_ends = plog->may_lack_ends || log->may_lack_end;
}

void plog_recovery_end(struct plog *plog, enum plog_last_stop last_stop, struct port_out *out)
{
    plog__begin(plog, out);
    CHECK(plog->life == PLOG__RECOVERING && !plog->room.is_awaited);
    plog->is_recovery_ending = true;
    plog->scans_left = 1; /* so that the last of them, not the first, ends it */
    for (uint32_t slot = 0; slot < plog->log_high; slot++) {
        if (!base_pool_is_taken(&plog->logs, slot)) { continue; }
        struct plog__log *log = plog__log_at(plog, slot);
        if (log->was_deleting) { plog__orphan_forget(plog, log->id); }
        if (log->is_deleting) { continue; }
        plog__start_trim(plog, log);
        struct plog__segment *last = plog__segment_last(log);
        bool has_tail = last != NULL && !last->is_sealed;
        /* What a round left that no entry names: of a log that nothing was replayed of nobody has looked. */
        if (last != NULL && last_stop == PLOG_LAST_UNCLEAN) { last->is_longer = true; }
        mind_end(plog, log, last_stop);
        if ((has_tail && (log->config.is_page_cache || log->is_suspect)) || plog__wait_next(log, 0) != NULL) {
            plog__scan_begin(plog, log);
        } else {
            settle_start(plog, log);
        }
        if (!has_tail && log->is_suspect && log->config.is_metadata) { log->is_damaged = log->offset_end > 0; }
    }
    if (plog->by_orphan.count > 0) { plog->has_lost_entries = true; }
    plog->scans_left -= 1;
    plog__recovery_check(plog);
    plog__end(plog, out);
}
