/* plog__reap.c: takes files away: of doomed segments when their delay is over and nobody reads them, and of deleted logs.
 *
 * A deleted log's directory is renamed (durably) before any file of it goes, so that a new log of that name never meets it;
 * what was opened before stays readable for its leases. The journal has the deletion before the rename: a directory is never
 * missing while something names it. One job at a time. At a start it waits until all is recovered, unless a replay needs the room.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

#define NAME_BYTES_MAX 190u /* of a name in a "-delete" directory, so that the whole fits 255 */

static bool has_same_dir(const struct plog__log *a, const struct plog__log *b)
{
    return a->dir_bytes == b->dir_bytes && memcmp(a->dir, b->dir, a->dir_bytes) == 0;
}

bool plog__name_is_free(const struct plog *plog, const struct plog__log *log)
{
    for (struct base_link *link = base_list_first(&plog->deleting); link != NULL;
         link = base_list_next(&plog->deleting, link)) {
        const struct plog__log *other = BASE_ITEM(link, struct plog__log, reap);
        if (other->has_dir && !other->is_renamed && has_same_dir(other, log)) { return false; }
    }
    return true;
}

static void wake_name_waiters(struct plog *plog)
{
    if (!plog->has_name_waiters) { return; }
    plog->has_name_waiters = false;
    for (uint32_t slot = 0; slot < plog->log_high; slot++) {
        if (!base_pool_is_taken(&plog->logs, slot)) { continue; }
        struct plog__log *log = plog__log_at(plog, slot);
        if (!log->has_dir && !base_list_is_empty(&log->queue)) { plog__task_ready(plog, &log->writer); }
    }
}

void plog__delete_dir(struct base_part id, struct base_slice name, struct base_text *text)
{
    base_text_add_slice(text, base_slice_of(name.at, base_min_size(name.size_bytes, NAME_BYTES_MAX)));
    base_text_add(text, "-");
    base_text_add_i64(text, id.index);
    base_text_add(text, ".");
    for (size_t i = 0; i < sizeof id.topic.b; i++) { base_text_add_hex(text, id.topic.b[i], 2); }
    base_text_add(text, "-delete");
}

static void delete_dir(const struct plog__log *log, struct base_text *text)
{
    plog__delete_dir(log->id, base_slice_of(log->name, log->name_bytes), text);
}

static struct port_effect *ask(struct plog *plog, struct port_out *out, enum port_effect_kind kind)
{
    struct plog__reap *reap = &plog->reaper;
    reap->is_asked = true;
    struct port_effect *effect = plog__emit(plog, out, kind, PLOG__TOKEN_REAP, 0);
    effect->disk = plog->config.disk;
    return effect;
}

static struct base_slice path_of(const struct base_text *text)
{
    CHECK(!text->is_cut);
    return base_text_slice(text);
}

/* ---- what can be done now ---- */

static bool is_segment_free(struct plog *plog, struct plog__segment *segment, struct port_out *out)
{
    if (segment->pins > 0 || segment->is_sync_in_flight) { return false; }
    plog__task_take_off(&segment->sync);
    plog__file_release(plog, &segment->sync);
    return plog__segment_files_close(plog, segment, out);
}

static bool are_files_idle(const struct plog *plog, const struct plog__segment *segment)
{
    for (uint32_t which = 0; which < PLOG__SEGMENT_FILES; which++) {
        if (segment->files[which] == 0) { continue; }
        const struct plog__file *file = &plog->files[segment->files[which] - 1];
        if (file->state != PLOG__FILE_OPEN || file->pins > 0) { return false; }
    }
    return true;
}

/* The start of a page-cache log moves when all of it was replayed, but the oldest segment ended before the next one began. */
static bool below_forget(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    if (!log->config.is_page_cache || log->is_deleting) { return false; }
    struct plog__segment *oldest = plog__segment_first(log);
    struct plog__segment *next = oldest == NULL ? NULL : plog__segment_next(log, oldest);
    if (next == NULL) { next = plog__wait_next(log, 0); }
    if (oldest == NULL && next != NULL) {
        oldest = next;
        next = plog__wait_next(log, oldest->base + 1);
    }
    if (next == NULL || next->base > log->start_replayed) { return false; }
    if (!are_files_idle(plog, oldest) || !is_segment_free(plog, oldest, out)) { return false; }
    if (!oldest->is_doomed) { plog__segment_doom(plog, log, oldest, 0); }
    plog__segment_free(plog, log, oldest);
    return true;
}

/* Nothing of it is touched on the disk: the entry that moved the start may not be durable yet. */
bool plog__doomed_forget(struct plog *plog, struct port_out *out)
{
    for (struct base_link *link = base_list_first(&plog->doomed); link != NULL;
         link = base_list_next(&plog->doomed, link)) {
        struct plog__segment *segment = BASE_ITEM(link, struct plog__segment, doom);
        struct plog__log *log = plog__log_at(plog, segment->log);
        bool is_below = !segment->is_waiting && segment->base < log->offset_start && segment->end <= log->offset_start;
        if (!is_below || !are_files_idle(plog, segment) || !is_segment_free(plog, segment, out)) { continue; }
        plog__segment_free(plog, log, segment);
        return true;
    }
    for (uint32_t slot = 0; slot < plog->log_high; slot++) {
        if (base_pool_is_taken(&plog->logs, slot) && below_forget(plog, plog__log_at(plog, slot), out)) { return true; }
    }
    return false;
}

static bool is_log_at_rest(const struct plog *plog, const struct plog__log *log)
{
    if (log->asked != PLOG__ASKED_NOTHING || log->changes_in_flight > 0 || log->writer.list != NULL ||
        log->writer.file != 0) {
        return false;
    }
    if (plog__is_captured(plog, log, PLOG__CAPTURE_SYNC)) { return false; }
    return base_list_is_empty(&log->rounds) && base_list_is_empty(&log->queue) && log->flush == PLOG__FLUSH_NONE &&
           log->small == PLOG__SMALL_NONE && !log->needs_undo;
}

static bool are_files_closed(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct base_list *lists[] = {&log->segments, &log->doomed};
    bool are_closed = true;
    for (size_t i = 0; i < BASE_ARRAY_COUNT(lists); i++) {
        for (struct base_link *link = base_list_first(lists[i]); link != NULL; link = base_list_next(lists[i], link)) {
            if (!plog__may_emit(plog, out)) {
                plog__task_ready(plog, &plog->reaper.task);
                return false;
            }
            if (!is_segment_free(plog, BASE_ITEM(link, struct plog__segment, link), out)) { are_closed = false; }
        }
    }
    return are_closed;
}

static void end_log(struct plog *plog, struct plog__log *log, enum plog_result result)
{
    struct plog__reap *reap = &plog->reaper;
    if (reap->block != NULL) { base_pages_give(plog->pages, reap->block); }
    reap->block = NULL;
    reap->state = PLOG__REAP_IDLE;
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_DELETED, .id = log->id, .result = result});
    base_list_remove(&plog->deleting, &log->reap);
    /* A checkpoint waits for the log to come to rest. */
    if (plog__is_captured(plog, log, PLOG__CAPTURE_NEXT)) { plog__task_ready(plog, &plog->capture.task); }
    plog__log_free(plog, log);
    plog__room_came(plog);
}

/* True: a job was begun or done, look again. */
static bool begin_log(struct plog *plog, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    for (struct base_link *link = base_list_first(&plog->deleting); link != NULL;
         link = base_list_next(&plog->deleting, link)) {
        struct plog__log *log = BASE_ITEM(link, struct plog__log, reap);
        if (!is_log_at_rest(plog, log)) { continue; }
        reap->log = plog__log_slot(plog, log);
        if (!plog->is_failed && !log->is_renamed) {
            reap->state = log->is_dir_mine ? PLOG__REAP_RENAME : PLOG__REAP_OWNER;
            reap->owner_bytes = 0;
            return true;
        }
        if (log->reads > 0 || !are_files_closed(plog, log, out)) { continue; }
        if (plog->is_failed || (!log->has_dir && !log->is_dir_lost && !log->may_be_left)) {
            end_log(plog, log, plog->is_failed ? PLOG_STORAGE : PLOG_OK);
            return true;
        }
        reap->block = base_pages_take(plog->pages, BASE_CONTROL, BASE_PAGE_BYTES);
        if (reap->block == NULL) {
            plog__room_lacks(plog); /* if a start waits for it */
            plog__file_retry_later(plog, &reap->task);
            return false;
        }
        reap->state = PLOG__REAP_LIST;
        return true;
    }
    return false;
}

static bool begin_segment(struct plog *plog, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    plog->reap_at_ns = UINT64_MAX;
    if (plog->is_failed) { return false; }
    for (struct base_link *link = base_list_first(&plog->doomed); link != NULL;
         link = base_list_next(&plog->doomed, link)) {
        struct plog__segment *segment = BASE_ITEM(link, struct plog__segment, doom);
        if (plog__log_at(plog, segment->log)->is_deleting || segment->is_waiting) { continue; }
        if (segment->dead_at_ns > plog->now_ns) {
            plog->reap_at_ns = base_min_u64(plog->reap_at_ns, segment->dead_at_ns);
            continue;
        }
        if (!plog__may_emit(plog, out)) {
            plog__task_ready(plog, &reap->task);
            return false;
        }
        if (!is_segment_free(plog, segment, out)) { continue; } /* whoever holds it wakes us */
        reap->state = PLOG__REAP_UNLINK;
        reap->segment = plog__segment_slot(plog, segment);
        reap->which = 0;
        return true;
    }
    return false;
}

/* ---- jobs ---- */

static void end_segment(struct plog *plog)
{
    struct plog__reap *reap = &plog->reaper;
    struct plog__segment *segment = plog__segment_at(plog, reap->segment);
    struct plog__log *log = plog__log_at(plog, segment->log);
    reap->state = PLOG__REAP_IDLE;
    if (log->is_deleting) { return; } /* it goes with all of the log */
    plog__segment_free(plog, log, segment);
    if (!base_list_is_empty(&log->queue)) { plog__task_ready(plog, &log->writer); } /* it may wait for the name */
}

static void sync_unlinked(struct plog *plog, const struct plog__log *log, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    reap->state = PLOG__REAP_SYNC_UNLINKED;
    ask(plog, out, PORT_SYNC_DIR)->path = base_slice_of(log->dir, log->dir_bytes);
}

/* ---- listings ---- */

static void ask_list(struct plog *plog, struct base_slice dir, struct port_out *out)
{
    struct port_effect *effect = ask(plog, out, PORT_LIST);
    effect->path = dir;
    effect->buffer = plog->reaper.block;
    effect->size_bytes = BASE_PAGE_BYTES;
}

static void listed(struct plog__reap *reap, const struct port_event *event)
{
    reap->list_bytes = event->done.rc == PORT_OK ? base_min_u64(event->done.count, BASE_PAGE_BYTES) : 0;
    reap->list_at = 0;
}

enum listed { LISTED_END = 0, LISTED_NAME, LISTED_ODD /* not a listing */ };

static enum listed next_listed(struct plog__reap *reap, struct base_slice *name_out)
{
    if (reap->list_at + PORT_ENTRY_HEAD_BYTES > reap->list_bytes) { return LISTED_END; }
    const uint8_t *entry = reap->block + reap->list_at;
    uint64_t name_bytes = base_get_u16(entry + 9);
    if (name_bytes > reap->list_bytes - reap->list_at - PORT_ENTRY_HEAD_BYTES) { return LISTED_ODD; }
    reap->list_at += PORT_ENTRY_HEAD_BYTES + name_bytes;
    *name_out = base_slice_of(entry + PORT_ENTRY_HEAD_BYTES, (size_t)name_bytes);
    return LISTED_NAME;
}

/* The directory is in `text`, which is of reap->path. */
static void unlink_in_dir(struct plog *plog, struct base_text *text, struct base_slice name, struct port_out *out)
{
    base_text_add(text, "/");
    base_text_add_slice(text, name);
    ask(plog, out, PORT_UNLINK)->path = path_of(text);
}

/* ---- segments that no entry names ---- */

/* A crash may leave the file of one, when the log went on otherwise afterwards: it goes with the segments about it, as the directory
 * is listed then. */
static bool begin_strays(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    if (plog__may_be_named(plog, log) || plog__segment_first(log) == NULL) { return false; }
    reap->block = base_pages_take(plog->pages, BASE_CONTROL, BASE_PAGE_BYTES);
    if (reap->block == NULL) { return false; } /* the next segment that goes will do */
    reap->state = PLOG__REAP_STRAYS;
    ask_list(plog, base_slice_of(log->dir, log->dir_bytes), out);
    return true;
}

/* Of a segment below the first one, and not of one that is on its way out. */
static bool is_stray(const struct plog__log *log, struct base_slice name)
{
    const size_t digits = 20;
    struct plog__segment segment = {.base = -1};
    if (name.size_bytes <= digits) { return false; }
    if (base_text_parse_i64(base_slice_of(name.at, digits), &segment.base) != BASE_OK) { return false; }
    const struct plog__segment *first = plog__segment_first(log);
    if (first == NULL || segment.base < 0 || segment.base >= first->base) { return false; }
    if (plog__segment_doomed(log, segment.base) != NULL) { return false; }
    for (int which = PLOG__LOG; which < PLOG__SEGMENT_FILES; which++) {
        char path[PLOG__PATH_BYTES];
        struct base_text text;
        base_text_init(&text, path, sizeof path);
        plog__path(log, &segment, (enum plog__which)which, &text);
        struct base_slice own = path_of(&text);
        size_t dir_bytes = log->dir_bytes + (size_t)1;
        if (base_slice_equal(name, base_slice_of(own.at + dir_bytes, own.size_bytes - dir_bytes))) { return true; }
    }
    return false;
}

/* The listing is sorted: strays come first, and one page has them. */
static void stray_next(struct plog *plog, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    struct plog__log *log = plog__log_at(plog, plog__segment_at(plog, reap->segment)->log);
    struct base_slice name;
    while (!log->is_deleting && next_listed(reap, &name) == LISTED_NAME) {
        if (!is_stray(log, name)) { continue; }
        struct base_text text;
        base_text_init(&text, reap->path, sizeof reap->path);
        base_text_add_slice(&text, base_slice_of(log->dir, log->dir_bytes));
        unlink_in_dir(plog, &text, name, out);
        return;
    }
    base_pages_give(plog->pages, reap->block);
    reap->block = NULL;
    sync_unlinked(plog, log, out);
}

/* ---- jobs, step by step ---- */

static bool unlink_next(struct plog *plog, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    struct plog__segment *segment = plog__segment_at(plog, reap->segment);
    struct plog__log *log = plog__log_at(plog, segment->log);
    if (!segment->is_created || log->is_deleting) {
        end_segment(plog);
        return true;
    }
    if (reap->which == PLOG__SEGMENT_FILES) {
        if (!begin_strays(plog, log, out)) { sync_unlinked(plog, log, out); }
        return false;
    }
    struct base_text text;
    base_text_init(&text, reap->path, sizeof reap->path);
    plog__path(log, segment, (enum plog__which)reap->which, &text);
    reap->which += 1;
    ask(plog, out, PORT_UNLINK)->path = path_of(&text);
    return false;
}

/* The next file of the listing; at its end the directory is listed again until it is empty. */
static bool empty_next(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    struct base_slice name;
    switch (next_listed(reap, &name)) {
    case LISTED_END: reap->state = reap->list_bytes == 0 ? PLOG__REAP_REMOVE : PLOG__REAP_LIST; return true;
    case LISTED_ODD: end_log(plog, log, PLOG_STORAGE); return true;
    case LISTED_NAME: break;
    }
    struct base_text text;
    base_text_init(&text, reap->path, sizeof reap->path);
    delete_dir(log, &text);
    unlink_in_dir(plog, &text, name, out);
    return false;
}

static void ask_of_dir(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    struct base_text text;
    base_text_init(&text, reap->path_to, sizeof reap->path_to);
    delete_dir(log, &text);
    if (reap->state == PLOG__REAP_RENAME) {
        struct port_effect *effect = ask(plog, out, PORT_RENAME);
        effect->path = base_slice_of(log->dir, log->dir_bytes);
        effect->path_to = path_of(&text);
    } else if (reap->state == PLOG__REAP_LIST) {
        ask_list(plog, path_of(&text), out);
    } else if (reap->state == PLOG__REAP_REMOVE) {
        ask(plog, out, PORT_REMOVE_DIR)->path = path_of(&text);
    } else {
        (void)ask(plog, out, PORT_SYNC_DIR); /* the disk's own directory */
    }
}

/* After a restart the name may be another's by now, on another shard too; or a crash left it before it was journalled. */
static void judge_owner(struct plog *plog, struct plog__log *log, enum plog__owner owner)
{
    struct plog__reap *reap = &plog->reaper;
    if (owner == PLOG__OURS) {
        log->has_dir = true;
        log->is_dir_mine = true;
        reap->state = PLOG__REAP_RENAME;
    } else {
        log->is_renamed = true;
        log->may_be_left = true;
        reap->state = PLOG__REAP_IDLE;
        wake_name_waiters(plog);
    }
}

static bool owner_next(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    enum port_rc rc;
    log->small_kind = PLOG__SMALL_METADATA;
    switch (plog__file_get(plog, log, NULL, PLOG__SMALL, PORT_OPEN_READ, &reap->task, &rc, out)) {
    case PLOG__WAIT: return false;
    case PLOG__FAILED:
        if (plog__may_pass(rc)) {
            plog__room_lacks(plog);
            plog__file_retry_later(plog, &reap->task);
            return false;
        }
        judge_owner(plog, log, PLOG__NOBODYS);
        return true;
    case PLOG__GOT: break;
    }
    struct port_effect *effect = ask(plog, out, PORT_READ);
    effect->file = plog__file_id(plog, plog__file_of(plog, &reap->task));
    effect->position_bytes = reap->owner_bytes;
    effect->buffer = reap->owner + reap->owner_bytes;
    effect->size_bytes = sizeof reap->owner - reap->owner_bytes;
    return false;
}

/* True: look again. */
static bool reap_step(struct plog *plog, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    switch (reap->state) {
    case PLOG__REAP_IDLE: return begin_log(plog, out) || (plog->life == PLOG__SERVING && begin_segment(plog, out));
    case PLOG__REAP_UNLINK: return unlink_next(plog, out);
    case PLOG__REAP_STRAYS: stray_next(plog, out); return false;
    case PLOG__REAP_SYNC_UNLINKED: return false; /* never looked at: its completion ends it */
    case PLOG__REAP_OWNER: return owner_next(plog, plog__log_at(plog, reap->log), out);
    case PLOG__REAP_EMPTY: return empty_next(plog, plog__log_at(plog, reap->log), out);
    case PLOG__REAP_RENAME:
    case PLOG__REAP_SYNC:
    case PLOG__REAP_LIST:
    case PLOG__REAP_REMOVE:
    case PLOG__REAP_SYNC_REMOVED: ask_of_dir(plog, plog__log_at(plog, reap->log), out); return false;
    }
    UNREACHABLE();
}

/* At a start deleted logs wait until it is over, unless another needs their room. */
static bool may_reap(const struct plog *plog)
{
    return plog->life == PLOG__SERVING || (plog->life == PLOG__RECOVERING && plog->room.is_awaited);
}

void plog__reap_advance(struct plog *plog, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    while (!reap->is_asked && may_reap(plog)) {
        if (reap->task.list == &plog->ready) { plog__task_take_off(&reap->task); }
        if (reap->task.list != NULL) { return; } /* waits for a file */
        if (!plog__may_emit(plog, out)) {
            plog__task_ready(plog, &reap->task);
            return;
        }
        if (!reap_step(plog, out)) { return; }
    }
    /* A stop begins nothing more: the next start finds what is left. The file that was opened for it must not stay so. */
    if (!reap->is_asked) { plog__file_release(plog, &reap->task); }
}

static void log_done(struct plog *plog, struct plog__log *log, const struct port_event *event)
{
    struct plog__reap *reap = &plog->reaper;
    enum port_rc rc = event->done.rc;
    bool is_fine = rc == PORT_OK || rc == PORT_MISSING; /* missing: done before a crash */
    if (!is_fine || plog->is_failed) {
        if (reap->state == PLOG__REAP_RENAME || reap->state == PLOG__REAP_SYNC) {
            log->is_renamed = true; /* what is there is left alone: nobody else takes the name while it stands */
            log->has_dir = false;
            reap->state = PLOG__REAP_IDLE;
            wake_name_waiters(plog);
            return;
        }
        if (reap->state != PLOG__REAP_SYNC_REMOVED) {
            end_log(plog, log, PLOG_STORAGE);
            return;
        }
    }
    if (reap->state == PLOG__REAP_RENAME) {
        reap->state = PLOG__REAP_SYNC;
    } else if (reap->state == PLOG__REAP_SYNC) {
        log->is_renamed = true;
        reap->state = PLOG__REAP_IDLE;
        wake_name_waiters(plog);
    } else if (reap->state == PLOG__REAP_LIST) {
        if (rc == PORT_MISSING && !log->has_dir && !log->is_dir_lost) { /* nothing was left */
            end_log(plog, log, PLOG_OK);
            return;
        }
        listed(reap, event);
        reap->state = rc == PORT_OK ? PLOG__REAP_EMPTY : PLOG__REAP_SYNC_REMOVED;
    } else if (reap->state == PLOG__REAP_REMOVE) {
        reap->state = PLOG__REAP_SYNC_REMOVED;
    } else if (reap->state == PLOG__REAP_SYNC_REMOVED) {
        end_log(plog, log, PLOG_OK);
    }
}

void plog__reap_done(struct plog *plog, const struct port_event *event, struct port_out *out)
{
    struct plog__reap *reap = &plog->reaper;
    CHECK(reap->is_asked);
    reap->is_asked = false;
    /* Names of other logs may stand in it, of any shard, which no later sync makes durable. */
    if (event->done.effect == PORT_SYNC_DIR && event->done.rc == PORT_IO) { plog__disk_fail(plog); }
    if (reap->state == PLOG__REAP_OWNER) {
        struct plog__log *log = plog__log_at(plog, reap->log);
        bool is_read = event->done.rc == PORT_OK;
        uint64_t count = is_read ? base_min_u64(event->done.count, sizeof reap->owner - reap->owner_bytes) : 0;
        reap->owner_bytes += count;
        if (count == 0 || reap->owner_bytes == sizeof reap->owner) { /* the file's end */
            plog__file_close(plog, &reap->task, out);
            judge_owner(plog, log, is_read ? plog__owner_judge(log, reap->owner, reap->owner_bytes) : PLOG__NOBODYS);
        }
    } else if (reap->state == PLOG__REAP_SYNC_UNLINKED) {
        end_segment(plog);
    } else if (reap->state == PLOG__REAP_STRAYS) {
        if (event->done.effect == PORT_LIST) { listed(reap, event); }
    } else if (reap->state != PLOG__REAP_UNLINK) { /* a segment's file that can't be unlinked is left alone */
        log_done(plog, plog__log_at(plog, reap->log), event);
    }
    plog__reap_advance(plog, out);
}
