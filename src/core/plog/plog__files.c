/* plog__files.c: at most config.files_max files open at once: opened on demand, the one unused longest closed for another.
 *
 * A task pins one file at most, so that nobody holds one while waiting for another. Reads may hold all but FILES_KEPT of the
 * slots (a lease lasts as long as a slow peer), so that writers, syncs and index lookups always go on.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

#define FILES_KEPT 4u

struct plog__file *plog__file_of(const struct plog *plog, const struct plog__task *task)
{
    CHECK(task->file != 0);
    return &plog->files[task->file - 1];
}

struct port_file plog__file_id(const struct plog *plog, const struct plog__file *file)
{
    return (struct port_file){.shard = plog->config.shard,
                              .slot = plog->config.file_slot_first + (uint32_t)(file - plog->files),
                              .generation = file->generation};
}

static uint32_t slot_of(const struct plog *plog, const struct plog__file *file)
{
    return (uint32_t)(file - plog->files);
}

static bool is_read_of_log(const struct plog__task *task, enum plog__which which)
{
    return task->kind == PLOG__TASK_READ && which == PLOG__LOG;
}

static void count_lease(struct plog *plog, struct plog__file *file)
{
    bool is_leased = file->leases > 0 || (file->state == PLOG__FILE_OPENING && file->is_for_read);
    if (is_leased == file->is_leased) { return; }
    file->is_leased = is_leased;
    plog->leased_files = is_leased ? plog->leased_files + 1 : plog->leased_files - 1;
}

static bool may_lease(const struct plog *plog) { return plog->leased_files < plog->config.files_max - FILES_KEPT; }

static void pin(struct plog *plog, struct plog__file *file, struct plog__task *task)
{
    CHECK(task->file == 0);
    CHECK(file->state == PLOG__FILE_OPEN);
    if (file->pins == 0 && base_link_is_on(&file->lru)) { base_list_remove(&plog->lru, &file->lru); }
    file->pins += 1;
    if (is_read_of_log(task, file->which)) { file->leases += 1; }
    count_lease(plog, file);
    task->file = slot_of(plog, file) + 1;
}

static void forget(struct plog *plog, struct plog__file *file) /* its segment opens another from now on */
{
    if (file->segment == PLOG__NONE) { return; }
    struct plog__segment *segment = plog__segment_at(plog, file->segment);
    CHECK(segment->files[file->which] == slot_of(plog, file) + 1);
    segment->files[file->which] = 0;
}

static void close_now(struct plog *plog, struct plog__file *file, struct port_out *out)
{
    CHECK(file->state == PLOG__FILE_OPEN);
    CHECK(file->pins == 0);
    if (base_link_is_on(&file->lru)) { base_list_remove(&plog->lru, &file->lru); }
    forget(plog, file);
    file->state = PLOG__FILE_CLOSING;
    plog->closing_count += 1;
    struct port_effect *effect = plog__emit(plog, out, PORT_CLOSE_FILE, PLOG__TOKEN_CLOSE, slot_of(plog, file));
    effect->file = plog__file_id(plog, file);
}

static void unpin(struct plog *plog, struct plog__task *task)
{
    struct plog__file *file = plog__file_of(plog, task);
    CHECK(file->pins > 0);
    file->pins -= 1;
    if (is_read_of_log(task, file->which)) {
        CHECK(file->leases > 0);
        file->leases -= 1;
    }
    count_lease(plog, file);
    task->file = 0;
}

void plog__file_release(struct plog *plog, struct plog__task *task)
{
    if (task->file == 0) { return; }
    struct plog__file *file = plog__file_of(plog, task);
    unpin(plog, task);
    if (file->pins == 0) { base_list_push_back(&plog->lru, &file->lru); }
}

void plog__file_close(struct plog *plog, struct plog__task *task, struct port_out *out)
{
    if (task->file == 0) { return; }
    struct plog__file *file = plog__file_of(plog, task);
    plog__file_release(plog, task);
    if (file->pins == 0) { close_now(plog, file, out); }
}

bool plog__files_close_one(struct plog *plog, struct port_out *out)
{
    struct base_link *link = base_list_first(&plog->lru);
    if (link == NULL) { return false; }
    close_now(plog, BASE_ITEM(link, struct plog__file, lru), out);
    return true;
}

bool plog_give_handle(struct plog *plog, struct port_out *out)
{
    plog__begin(plog, out);
    bool is_coming = plog->closing_count > 0 || plog__files_close_one(plog, out);
    plog__end(plog, out);
    return is_coming;
}

bool plog__segment_files_close(struct plog *plog, struct plog__segment *segment, struct port_out *out)
{
    bool is_none_open = true;
    for (uint32_t which = 0; which < PLOG__SEGMENT_FILES; which++) {
        if (segment->files[which] == 0) { continue; }
        struct plog__file *file = &plog->files[segment->files[which] - 1];
        if (file->state == PLOG__FILE_OPEN && file->pins == 0) {
            close_now(plog, file, out);
        } else {
            is_none_open = false;
        }
    }
    return is_none_open;
}

static void wait_on(struct base_list *list, struct plog__task *task)
{
    CHECK(task->list == NULL);
    base_list_push_back(list, &task->link);
    task->list = list;
}

static void ask_open(struct plog *plog, struct plog__file *file, struct port_out *out)
{
    struct port_effect *effect = plog__emit(plog, out, PORT_OPEN, PLOG__TOKEN_OPEN, slot_of(plog, file));
    effect->file = plog__file_id(plog, file);
    effect->disk = plog->config.disk;
    /* What recovery reads must be what the disk has: see PORT_OPEN_FRESH. */
    effect->flags = file->flags | (plog->life == PLOG__RECOVERING ? PORT_OPEN_FRESH : 0);
    effect->path = base_slice_of(file->path, file->path_bytes);
}

static void open_new(struct plog *plog, struct plog__log *log, struct plog__segment *segment, enum plog__which which,
                     uint32_t flags, struct plog__task *task, struct port_out *out)
{
    CHECK(plog->free_file_count > 0);
    plog->free_file_count -= 1;
    struct plog__file *file = &plog->files[plog->free_files[plog->free_file_count]];
    CHECK(file->state == PLOG__FILE_FREE);
    plog->open_count += 1;
    plog->next_file_generation += 1;
    if (plog->next_file_generation == 0) { plog->next_file_generation = 1; }
    file->state = PLOG__FILE_OPENING;
    file->which = which;
    file->generation = plog->next_file_generation;
    file->log = plog__log_slot(plog, log);
    file->segment = which == PLOG__SMALL ? PLOG__NONE : plog__segment_slot(plog, segment);
    file->flags = flags;
    file->is_for_read = is_read_of_log(task, which);
    count_lease(plog, file);
    base_list_init(&file->waiters);
    struct base_text text;
    base_text_init(&text, file->path, sizeof file->path);
    plog__path(log, segment, which, &text);
    CHECK(!text.is_cut);
    file->path_bytes = (uint32_t)text.used_bytes;
    if (which != PLOG__SMALL) { segment->files[which] = slot_of(plog, file) + 1; }
    wait_on(&file->waiters, task);
    ask_open(plog, file, out);
}

static bool is_prompt(struct plog *plog, const struct plog__task *task)
{
    const struct plog__read *read = base_pool_at(&plog->reads, task->slot);
    return read->ask.is_prompt;
}

static enum plog__got no_lease(struct plog *plog, struct plog__task *task, enum port_rc *rc_out)
{
    if (is_prompt(plog, task)) {
        *rc_out = PORT_NO_HANDLES;
        return PLOG__FAILED;
    }
    wait_on(&plog->lease_waiters, task);
    return PLOG__WAIT;
}

enum plog__got plog__file_get(struct plog *plog, struct plog__log *log, struct plog__segment *segment,
                              enum plog__which which, uint32_t flags, struct plog__task *task, enum port_rc *rc_out,
                              struct port_out *out)
{
    CHECK(task->list == NULL);
    if (task->open_rc != PORT_OK) {
        *rc_out = task->open_rc;
        task->open_rc = PORT_OK;
        return PLOG__FAILED;
    }
    uint32_t log_slot = plog__log_slot(plog, log);
    uint32_t segment_slot = which == PLOG__SMALL ? PLOG__NONE : plog__segment_slot(plog, segment);
    if (task->file != 0) {
        const struct plog__file *held = plog__file_of(plog, task);
        if (held->which == which && held->log == log_slot && held->segment == segment_slot) { return PLOG__GOT; }
        plog__file_release(plog, task);
    }
    bool is_read = is_read_of_log(task, which);
    if (which != PLOG__SMALL && segment->files[which] != 0) {
        struct plog__file *file = &plog->files[segment->files[which] - 1];
        if (file->state == PLOG__FILE_OPENING) {
            wait_on(&file->waiters, task);
            return PLOG__WAIT;
        }
        if (is_read && !file->is_leased && !may_lease(plog)) { return no_lease(plog, task, rc_out); }
        pin(plog, file, task);
        return PLOG__GOT;
    }
    if (is_read && !may_lease(plog)) { return no_lease(plog, task, rc_out); }
    if (plog->free_file_count == 0) {
        wait_on(is_read && !is_prompt(plog, task) ? &plog->lease_waiters : &plog->slot_waiters, task);
        (void)plog__files_close_one(plog, out); /* else a slot comes when somebody unpins: plog__file_wake */
        return PLOG__WAIT;
    }
    open_new(plog, log, segment, which, flags, task, out);
    return PLOG__WAIT;
}

static struct plog__task *task_on(struct base_link *link) { return BASE_ITEM(link, struct plog__task, link); }

void plog__file_wake(struct plog *plog)
{
    if (plog->free_file_count == 0 && base_list_is_empty(&plog->lru)) { return; }
    struct base_list *lists[] = {&plog->slot_waiters, may_lease(plog) ? &plog->lease_waiters : NULL};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(lists); i++) {
        if (lists[i] == NULL || base_list_is_empty(lists[i])) { continue; }
        struct plog__task *task = task_on(base_list_first(lists[i]));
        plog__task_take_off(task);
        plog__task_ready(plog, task);
    }
}

void plog__file_retry_later(struct plog *plog, struct plog__task *task)
{
    plog__task_take_off(task); /* it may have been made ready meanwhile */
    wait_on(&plog->handle_waiters, task);
    plog->handles_at_ns = base_min_u64(plog->handles_at_ns, base_deadline_ns(plog->now_ns, PLOG__RETRY_NS));
}

void plog__file_retry(struct plog *plog)
{
    plog->handles_at_ns = UINT64_MAX;
    while (!base_list_is_empty(&plog->handle_waiters)) {
        struct plog__task *task = task_on(base_list_first(&plog->handle_waiters));
        plog__task_take_off(task);
        plog__task_ready(plog, task);
    }
}

static void free_slot(struct plog *plog, struct plog__file *file)
{
    file->state = PLOG__FILE_FREE;
    file->is_for_read = false;
    count_lease(plog, file);
    CHECK(plog->open_count > 0);
    plog->open_count -= 1;
    plog->free_files[plog->free_file_count] = slot_of(plog, file);
    plog->free_file_count += 1;
}

/* Who asked for it may be gone with its log: then it is the reaper that waits for it. */
static void tell_reaper(struct plog *plog, const struct plog__file *file)
{
    if (plog__log_at(plog, file->log)->is_deleting) { plog__task_ready(plog, &plog->reaper.task); }
}

static void open_failed(struct plog *plog, struct plog__file *file, enum port_rc rc)
{
    forget(plog, file);
    tell_reaper(plog, file);
    while (!base_list_is_empty(&file->waiters)) {
        struct plog__task *task = task_on(base_list_first(&file->waiters));
        plog__task_take_off(task);
        task->open_rc = rc;
        plog__task_ready(plog, task);
    }
    free_slot(plog, file);
}

/* Out of handles: another file of ours is closed for each that waits; when none is left to close, that is the answer. */
static void retry_opens(struct plog *plog, struct port_out *out)
{
    while (!base_list_is_empty(&plog->retries) && plog->closing_count == 0 && !plog__files_close_one(plog, out)) {
        struct base_link *link = base_list_pop_front(&plog->retries);
        open_failed(plog, BASE_ITEM(link, struct plog__file, retry), PORT_NO_HANDLES);
    }
}

/* A file that ends before what was written to it: the rest is damage, and is never made up for by a write past the end. */
static void judge_size(struct plog *plog, struct plog__file *file)
{
    if (file->which == PLOG__SMALL) { return; }
    struct plog__log *log = plog__log_at(plog, file->log);
    struct plog__segment *segment = plog__segment_at(plog, file->segment);
    if (file->which == PLOG__LOG) {
        if (file->size_at_open < segment->size_bytes) {
            plog__segment_damage(log, segment, file->size_at_open, segment->size_bytes);
            plog__note_mark(plog, log);
        }
        return;
    }
    uint64_t wanted = file->which == PLOG__INDEX ? (uint64_t)segment->index_count * PLOG__INDEX_BYTES
                                                 : (uint64_t)segment->time_count * PLOG__TIME_BYTES;
    if (file->size_at_open < wanted) { segment->is_index_bad = true; }
}

void plog__file_opened(struct plog *plog, uint32_t slot, const struct port_event *event, struct port_out *out)
{
    CHECK(slot < plog->config.files_max);
    struct plog__file *file = &plog->files[slot];
    CHECK(file->state == PLOG__FILE_OPENING);
    if (event->done.rc == PORT_NO_HANDLES && event->kind == PORT_EVENT_DONE) {
        base_list_push_back(&plog->retries, &file->retry);
        retry_opens(plog, out);
        return;
    }
    if (event->done.rc != PORT_OK) {
        open_failed(plog, file, event->done.rc);
        return;
    }
    file->size_at_open = event->done.count;
    file->state = PLOG__FILE_OPEN;
    file->is_for_read = false;
    count_lease(plog, file);
    judge_size(plog, file);
    tell_reaper(plog, file);
    while (!base_list_is_empty(&file->waiters)) {
        struct plog__task *task = task_on(base_list_first(&file->waiters));
        plog__task_take_off(task);
        pin(plog, file, task); /* so that it stays until the task's turn */
        plog__task_ready(plog, task);
    }
    if (file->pins == 0) { base_list_push_back(&plog->lru, &file->lru); }
}

void plog__file_closed(struct plog *plog, uint32_t slot, struct port_out *out)
{
    CHECK(slot < plog->config.files_max);
    struct plog__file *file = &plog->files[slot];
    CHECK(file->state == PLOG__FILE_CLOSING);
    CHECK(plog->closing_count > 0);
    plog->closing_count -= 1;
    free_slot(plog, file);
    struct base_link *link = base_list_pop_front(&plog->retries);
    if (link != NULL) {
        ask_open(plog, BASE_ITEM(link, struct plog__file, retry), out);
        retry_opens(plog, out);
    }
}
