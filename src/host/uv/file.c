/* file.c: files by id: which work may run now, inline or on a thread, and what waits (contract 4 to 6 of port.h).
 *
 * Room    host/uv.
 * Order   writes, truncates and allocations of a file that go to the threads stand in file.ordered, and only the first of
 *         them is on a thread. A write may run inline only while that list is empty. A truncate starts when no sync runs;
 *         from the moment it is asked until it is done new syncs wait in file.held.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host__shard.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

static struct file *slot_of(struct shard *shard, struct port_file id)
{
    CHECK(id.slot < shard->host->config.files_max);
    return &shard->files[id.slot];
}

/* NULL: not open, or being closed. */
static struct file *find(struct shard *shard, struct port_file id)
{
    if (id.shard != shard->index || id.slot >= shard->host->config.files_max) { return NULL; }
    struct file *file = &shard->files[id.slot];
    return file->state == FILE_OPEN && file->generation == id.generation ? file : NULL;
}

int host__file_fd(struct host *host, struct port_file id, uint32_t *disk_out)
{
    if (id.shard >= host->config.shards || id.slot >= host->config.files_max) { return -1; }
    const struct file *file = &host->shards[id.shard].files[id.slot];
    *disk_out = file->disk;
    return file->generation == id.generation && id.generation != 0 ? file->fd : -1;
}

static void push(struct shard *shard, uint32_t disk, struct op *op) { host__disk_push(&shard->host->disks[disk], op); }

static void run_inline(struct op *op)
{
    host__disk_run(op);
    base_list_push_back(&op->shard->ready, &op->link);
}

/* ---- what may run now ---- */

static void start(struct shard *shard, struct file *file, struct op *op)
{
    op->fd = file->fd;
    file->running += 1;
    push(shard, file->disk, op);
}

static void start_ordered(struct shard *shard, struct file *file)
{
    if (file->is_ordered_running) { return; }
    struct base_link *link = base_list_first(&file->ordered);
    if (link == NULL) { return; }
    struct op *op = BASE_ITEM(link, struct op, link);
    if (op->effect.kind == PORT_TRUNCATE && file->syncs_running > 0) { return; }
    file->is_ordered_running = true;
    start(shard, file, op);
}

static void start_sync(struct shard *shard, struct file *file, struct op *op)
{
    if (file->truncates_pending > 0) {
        base_list_push_back(&file->held, &op->link);
        return;
    }
    file->syncs_running += 1;
    start(shard, file, op);
}

static void start_close(struct shard *shard, struct file *file)
{
    if (file->closing == NULL || file->running > 0) { return; }
    if (!base_list_is_empty(&file->ordered) || !base_list_is_empty(&file->held)) { return; }
    struct op *op = file->closing;
    op->fd = file->fd;
    file->running = 1;
    push(shard, file->disk, op);
}

static void free_file(struct file *file)
{
    CHECK(file->running == 0);
    CHECK(base_list_is_empty(&file->ordered) && base_list_is_empty(&file->held));
    file->state = FILE_FREE;
    file->generation = 0;
    file->fd = -1;
}

/* ---- what has run ---- */

static void ordered_done(struct shard *shard, struct file *file, struct op *op)
{
    CHECK(file->is_ordered_running);
    CHECK(base_list_first(&file->ordered) == &op->link);
    base_list_remove(&file->ordered, &op->link);
    file->is_ordered_running = false;
    if (op->effect.kind == PORT_TRUNCATE) { file->truncates_pending -= 1; }
    while (file->truncates_pending == 0 && !base_list_is_empty(&file->held)) {
        start_sync(shard, file, BASE_ITEM(base_list_pop_front(&file->held), struct op, link));
    }
    start_ordered(shard, file);
}

static void opened(struct op *op)
{
    struct file *file = slot_of(op->shard, op->effect.file);
    CHECK(file->state == FILE_OPENING && file->generation == op->effect.file.generation);
    if (op->rc != PORT_OK) {
        free_file(file);
        return;
    }
    file->state = FILE_OPEN;
    file->fd = op->fd;
}

/* Runs before `op` goes to the ready list, so completions of one file are delivered in the order of this bookkeeping. */
static void account(struct shard *shard, struct op *op)
{
    enum port_effect_kind kind = op->effect.kind;
    if (kind == PORT_OPEN) {
        opened(op);
        return;
    }
    bool is_of_file = kind == PORT_READ || kind == PORT_WRITE || kind == PORT_TRUNCATE || kind == PORT_ALLOCATE ||
                      kind == PORT_SYNC || kind == PORT_CLOSE_FILE;
    if (!is_of_file) { return; }
    struct file *file = slot_of(shard, op->effect.file);
    CHECK(file->generation == op->effect.file.generation);
    CHECK(file->running > 0);
    file->running -= 1;
    if (kind == PORT_CLOSE_FILE) {
        free_file(file);
        return;
    }
    if (kind == PORT_SYNC) {
        file->syncs_running -= 1;
        start_ordered(shard, file);
    } else if (kind != PORT_READ) {
        ordered_done(shard, file, op);
    }
    start_close(shard, file);
}

void host__file_done(struct op *op)
{
    if (op->is_warming) {
        host__net_warmed(op);
        return;
    }
    account(op->shard, op);
    base_list_push_back(&op->shard->ready, &op->link);
}

/* ---- effects ---- */

static void do_open(struct shard *shard, const struct port_effect *effect)
{
    CHECK(effect->disk < shard->host->config.disk_count);
    CHECK(effect->file.shard == shard->index);
    CHECK(effect->file.generation != 0);
    struct file *file = slot_of(shard, effect->file);
    CHECK(file->state == FILE_FREE); /* a slot is free only after its last completion */
    *file = (struct file){.fd = -1,
                          .generation = effect->file.generation,
                          .state = FILE_OPENING,
                          .disk = effect->disk,
                          .can_write = (effect->flags & PORT_OPEN_WRITE) != 0};
    base_list_init(&file->ordered);
    base_list_init(&file->held);
    struct op *op = host__op_take(shard, effect);
    if (effect->where == PORT_ON_SHARD) {
        host__disk_run(op);
        host__file_done(op);
        return;
    }
    push(shard, effect->disk, op);
}

/* True: the answer is there. A read of what is not cached, or that stops short of the end, is the threads' work. */
static bool read_cached(const struct file *file, struct op *op)
{
    op->count = 0;
    op->rc = PORT_OK;
    while (op->count < op->effect.size_bytes) {
        struct iovec vector = {.iov_base = op->effect.buffer + op->count,
                               .iov_len = base_min_size(op->effect.size_bytes - op->count, (size_t)1 << 30)};
        ssize_t got = preadv2(file->fd, &vector, 1, (off_t)(op->effect.position_bytes + op->count), RWF_NOWAIT);
        if (got < 0) { return false; }
        if (got == 0) { return true; } /* the end of the file */
        op->count += (uint64_t)got;
    }
    return true;
}

static void do_read(struct shard *shard, struct file *file, struct op *op)
{
    if (op->effect.where == PORT_ON_SHARD && read_cached(file, op)) {
        base_list_push_back(&shard->ready, &op->link);
        return;
    }
    start(shard, file, op);
}

static void do_ordered(struct shard *shard, struct file *file, struct op *op)
{
    if (!file->can_write) { /* one word for what the system calls by two: EBADF, EINVAL */
        host__complete(op, PORT_DENIED, 0);
        return;
    }
    bool is_write = op->effect.kind == PORT_WRITE;
    if (is_write && op->effect.where == PORT_ON_SHARD && base_list_is_empty(&file->ordered)) {
        op->fd = file->fd;
        run_inline(op);
        return;
    }
    if (op->effect.kind == PORT_TRUNCATE) { file->truncates_pending += 1; }
    base_list_push_back(&file->ordered, &op->link);
    start_ordered(shard, file);
}

static void do_close(struct shard *shard, struct file *file, struct op *op)
{
    file->state = FILE_CLOSING;
    file->closing = op;
    start_close(shard, file);
}

static void do_by_id(struct shard *shard, const struct port_effect *effect)
{
    struct op *op = host__op_take(shard, effect);
    struct file *file = find(shard, effect->file);
    op->begun_ns = shard->now_ns;
    if (file == NULL) {
        host__complete(op, PORT_CLOSED, 0);
    } else if (effect->kind == PORT_READ) {
        do_read(shard, file, op);
    } else if (effect->kind == PORT_SYNC) {
        start_sync(shard, file, op);
    } else if (effect->kind == PORT_CLOSE_FILE) {
        do_close(shard, file, op);
    } else {
        do_ordered(shard, file, op);
    }
}

static void do_by_name(struct shard *shard, const struct port_effect *effect)
{
    CHECK(effect->disk < shard->host->config.disk_count);
    struct op *op = host__op_take(shard, effect);
    if (effect->where == PORT_ON_SHARD && effect->kind != PORT_SYNC_DIR) {
        run_inline(op);
        return;
    }
    push(shard, effect->disk, op);
}

void host__file_do(struct shard *shard, const struct port_effect *effect)
{
    switch (effect->kind) {
    case PORT_OPEN: do_open(shard, effect); break;
    case PORT_READ:
    case PORT_WRITE:
    case PORT_TRUNCATE:
    case PORT_ALLOCATE:
    case PORT_SYNC:
    case PORT_CLOSE_FILE: do_by_id(shard, effect); break;
    case PORT_RENAME:
    case PORT_UNLINK:
    case PORT_MAKE_DIR:
    case PORT_REMOVE_DIR:
    case PORT_SYNC_DIR:
    case PORT_LIST:
    case PORT_SPACE: do_by_name(shard, effect); break;
    case PORT_LISTEN:
    case PORT_UNLISTEN:
    case PORT_ACCEPT:
    case PORT_RESOLVE:
    case PORT_CONNECT:
    case PORT_RECV:
    case PORT_SEND:
    case PORT_SHUT:
    case PORT_CLOSE:
    case PORT_LOG:
    case PORT_LEVEL:
    case PORT_READY:
    case PORT_STOPPED:
    case PORT_EFFECT_COUNT: UNREACHABLE();
    }
}

void host__file_end(struct shard *shard)
{
    for (struct op *op = shard->done_first; op != NULL; op = op->next) { /* opened after the last event */
        if (op->effect.kind == PORT_OPEN && op->fd >= 0) { (void)close(op->fd); }
    }
    for (uint32_t i = 0; i < shard->host->config.files_max; i++) {
        const struct file *file = &shard->files[i];
        if (file->state == FILE_FREE || file->state == FILE_OPENING) { continue; }
        bool is_closed = file->state == FILE_CLOSING && file->running > 0 && file->closing != NULL;
        if (!is_closed && file->fd >= 0) { (void)close(file->fd); } /* what needed a sync has asked for one */
    }
}
