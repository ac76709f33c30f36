/* disk.c: the threads of a disk, and the system calls of file work.
 *
 * Room    host/uv.
 * Threads per disk one for syncs, so that a sync waits for no read, and config.disk_threads for everything else. An op on
 *         a thread's queue belongs to that thread until it is on its shard's list of done ones.
 * Order   none among ops of one queue: file.c lets only one write, truncate or allocation of a file be here at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host__shard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#define VECTORS_MAX        256
#define TRANSFER_BYTES_MAX ((size_t)1 << 30) /* one call moves less than 2 GiB on Linux anyway */

/* ---- names ---- */

/* Copies a name, relative to its disk, as a C string; "." for "". False: not a name that may be used. */
static bool take_path(struct base_slice path, bool may_be_empty, char path_out[PATH_MAX])
{
    if (path.size_bytes == 0) {
        path_out[0] = '.';
        path_out[1] = '\0';
        return may_be_empty;
    }
    if (path.size_bytes >= PATH_MAX) { return false; }
    size_t start = 0;
    for (size_t i = 0; i <= path.size_bytes; i++) {
        if (i < path.size_bytes && path.at[i] == '\0') { return false; }
        if (i < path.size_bytes && path.at[i] != '/') { continue; }
        size_t part_bytes = i - start;
        if (part_bytes == 0) { return false; } /* absolute, "a//b", "a/" */
        if (part_bytes <= 2 && memcmp(path.at + start, "..", part_bytes) == 0) { return false; }
        start = i + 1;
    }
    memcpy(path_out, path.at, path.size_bytes);
    path_out[path.size_bytes] = '\0';
    return true;
}

static void fail(struct op *op, int error)
{
    op->rc = host_rc_of_errno(error);
    op->error = error;
}

static void set_rc(struct op *op, int result)
{
    op->rc = PORT_OK;
    if (result < 0) { fail(op, errno); }
}

static void open_file(struct op *op, int disk_fd, const char *path)
{
    uint32_t flags = op->effect.flags;
    /* O_NONBLOCK: a pipe by that name must not stop the thread. */
    int mode = O_CLOEXEC | O_NOCTTY | O_NONBLOCK | ((flags & PORT_OPEN_WRITE) != 0 ? O_RDWR : O_RDONLY);
    if ((flags & PORT_OPEN_CREATE) != 0) { mode |= O_CREAT; }
    if ((flags & PORT_OPEN_EXCLUSIVE) != 0) { mode |= O_EXCL; }
    int fd = openat(disk_fd, path, mode, 0644);
    set_rc(op, fd);
    if (fd < 0) { return; }
    struct stat stat;
    set_rc(op, fstat(fd, &stat));
    if (op->rc == PORT_OK && !S_ISREG(stat.st_mode)) { op->rc = S_ISDIR(stat.st_mode) ? PORT_NOT_DIR : PORT_OTHER; }
    if (op->rc != PORT_OK) {
        (void)close(fd); /* nothing was written through it */
        return;
    }
    if ((flags & PORT_OPEN_FRESH) != 0) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    } /* advice: nothing to fail */
    op->fd = fd;
    op->count = (uint64_t)stat.st_size;
}

static void sync_dir(struct op *op, int disk_fd, const char *path)
{
    int fd = openat(disk_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    set_rc(op, fd);
    if (fd < 0) { return; }
    set_rc(op, fsync(fd));
    (void)close(fd); /* fsync has told all there is */
}

struct names {
    char **names;
    size_t count;
    size_t room;
};

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool read_names(DIR *dir, struct names *names)
{
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (entry == NULL) { return errno == 0; }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) { continue; }
        if (names->count == names->room) {
            names->room = names->room == 0 ? 64 : names->room * 2;
            char **more = realloc(names->names, names->room * sizeof *more);
            CHECK(more != NULL);
            names->names = more;
        }
        names->names[names->count] = strdup(entry->d_name);
        CHECK(names->names[names->count] != NULL);
        names->count += 1;
    }
}

static void pack_names(struct op *op, int dir_fd, const struct names *names)
{
    for (size_t i = op->effect.position_bytes; i < names->count; i++) {
        size_t name_bytes = strlen(names->names[i]);
        if (op->effect.size_bytes - op->count < PORT_ENTRY_HEAD_BYTES + name_bytes) {
            op->is_more = true;
            return;
        }
        struct stat stat;
        uint8_t kind = 2;
        uint64_t size_bytes = 0;
        if (fstatat(dir_fd, names->names[i], &stat, AT_SYMLINK_NOFOLLOW) == 0) { /* gone since: reported as "other" */
            kind = S_ISREG(stat.st_mode) ? 0 : S_ISDIR(stat.st_mode) ? 1 : 2;
            size_bytes = S_ISREG(stat.st_mode) ? (uint64_t)stat.st_size : 0;
        }
        uint8_t *at = op->effect.buffer + op->count;
        at[0] = kind;
        base_put_u64(at + 1, size_bytes);
        base_put_u16(at + 9, (uint16_t)name_bytes);
        memcpy(at + PORT_ENTRY_HEAD_BYTES, names->names[i], name_bytes);
        op->count += PORT_ENTRY_HEAD_BYTES + name_bytes;
    }
}

static void list_dir(struct op *op, int disk_fd, const char *path)
{
    int fd = openat(disk_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    set_rc(op, fd);
    if (fd < 0) { return; }
    DIR *dir = fdopendir(fd);
    CHECK(dir != NULL);
    struct names names = {0};
    if (read_names(dir, &names)) {
        if (names.count > 0) { qsort(names.names, names.count, sizeof *names.names, compare_names); }
        pack_names(op, fd, &names);
    } else {
        fail(op, errno);
    }
    for (size_t i = 0; i < names.count; i++) { free(names.names[i]); }
    free(names.names);
    (void)closedir(dir);
}

/* As the one that runs the broker may write, not root. */
static void measure_disk(struct op *op, int disk_fd)
{
    struct statvfs space;
    set_rc(op, fstatvfs(disk_fd, &space));
    if (op->rc != PORT_OK) { return; }
    op->total_bytes = (uint64_t)space.f_blocks * space.f_frsize;
    op->count = (uint64_t)space.f_bavail * space.f_frsize;
}

static void rename_name(struct op *op, int disk_fd, const char *path)
{
    char path_to[PATH_MAX];
    if (!take_path(op->effect.path_to, false, path_to)) {
        op->rc = PORT_BAD_NAME;
        return;
    }
    set_rc(op, renameat(disk_fd, path, disk_fd, path_to));
}

static void by_name(struct op *op)
{
    char path[PATH_MAX];
    int disk_fd = op->shard->host->disks[op->effect.disk].fd;
    bool may_be_empty =
        op->effect.kind == PORT_SYNC_DIR || op->effect.kind == PORT_LIST || op->effect.kind == PORT_SPACE;
    if (!take_path(op->effect.path, may_be_empty, path)) {
        op->rc = PORT_BAD_NAME;
        return;
    }
    switch (op->effect.kind) { // NOLINT: the others have no name
    case PORT_OPEN: open_file(op, disk_fd, path); break;
    case PORT_RENAME: rename_name(op, disk_fd, path); break;
    case PORT_UNLINK: set_rc(op, unlinkat(disk_fd, path, 0)); break;
    case PORT_MAKE_DIR: set_rc(op, mkdirat(disk_fd, path, 0755)); break;
    case PORT_REMOVE_DIR:
        set_rc(op, unlinkat(disk_fd, path, AT_REMOVEDIR));
        if (op->rc == PORT_EXISTS) { op->rc = PORT_NOT_EMPTY; } /* POSIX allows either errno */
        break;
    case PORT_SYNC_DIR: sync_dir(op, disk_fd, path); break;
    case PORT_LIST: list_dir(op, disk_fd, path); break;
    case PORT_SPACE: measure_disk(op, disk_fd); break;
    case PORT_LISTEN:
    case PORT_UNLISTEN:
    case PORT_ACCEPT:
    case PORT_RESOLVE:
    case PORT_CONNECT:
    case PORT_RECV:
    case PORT_SEND:
    case PORT_SHUT:
    case PORT_CLOSE:
    case PORT_READ:
    case PORT_WRITE:
    case PORT_TRUNCATE:
    case PORT_ALLOCATE:
    case PORT_SYNC:
    case PORT_CLOSE_FILE:
    case PORT_LOG:
    case PORT_LEVEL:
    case PORT_READY:
    case PORT_STOPPED:
    case PORT_EFFECT_COUNT: UNREACHABLE();
    }
}

/* ---- bytes ---- */

/* Reads on to the end of the buffer or of the file: a short count means the end. */
static void read_file(struct op *op)
{
    while (op->count < op->effect.size_bytes) {
        size_t want = base_min_size(op->effect.size_bytes - op->count, TRANSFER_BYTES_MAX);
        ssize_t got =
            pread(op->fd, op->effect.buffer + op->count, want, (off_t)(op->effect.position_bytes + op->count));
        if (got < 0 && errno == EINTR) { continue; }
        if (got < 0) {
            fail(op, errno);
            op->count = 0;
            return;
        }
        if (got == 0) { return; }
        op->count += (uint64_t)got;
    }
}

/* What is read is thrown away: that it is in the page cache afterwards is all that is wanted. A failure shows when it is
 * sent. The descriptor is the op's own: the file's may be closed meanwhile. */
static void warm_file(struct op *op)
{
    static const size_t scratch_bytes = (size_t)64 << 10;
    uint8_t *scratch = host__allocate(1, scratch_bytes);
    while (op->count < op->effect.size_bytes) {
        size_t want = base_min_size(op->effect.size_bytes - op->count, scratch_bytes);
        ssize_t got = pread(op->fd, scratch, want, (off_t)(op->effect.position_bytes + op->count));
        if (got <= 0 && !(got < 0 && errno == EINTR)) { break; }
        op->count += got > 0 ? (uint64_t)got : 0;
    }
    free(scratch);
    (void)close(op->fd); /* read only */
    op->fd = -1;
}

/* The pieces after the first `done_bytes`, as vectors. */
static int gather(const struct port_effect *effect, uint64_t done_bytes, struct iovec vectors[VECTORS_MAX])
{
    int count = 0;
    size_t total_bytes = 0;
    for (uint32_t i = 0; i < effect->piece_count && count < VECTORS_MAX && total_bytes < TRANSFER_BYTES_MAX; i++) {
        const struct port_piece *piece = &effect->pieces[i];
        CHECK(piece->kind == PORT_MEMORY);
        if (done_bytes >= piece->size_bytes) {
            done_bytes -= piece->size_bytes;
            continue;
        }
        size_t size_bytes = base_min_size(piece->size_bytes - done_bytes, TRANSFER_BYTES_MAX - total_bytes);
        /* The const is cast away because an iovec has none; pwritev only reads. */
        vectors[count] = (struct iovec){.iov_base = (void *)(uintptr_t)(piece->at + done_bytes), .iov_len = size_bytes};
        total_bytes += size_bytes;
        count += 1;
        done_bytes = 0;
    }
    return count;
}

/* What was written before a failure counts; the failure shows again at the next write. */
static void write_file(struct op *op)
{
    struct iovec vectors[VECTORS_MAX];
    for (;;) {
        int count = gather(&op->effect, op->count, vectors);
        if (count == 0) { return; }
        ssize_t put = pwritev(op->fd, vectors, count, (off_t)(op->effect.position_bytes + op->count));
        if (put < 0 && errno == EINTR) { continue; }
        if (put < 0 && op->count > 0) { return; }
        if (put < 0) {
            fail(op, errno);
            return;
        }
        if (put == 0) { return; }
        op->count += (uint64_t)put;
    }
}

static void allocate_file(struct op *op)
{
    int result;
    do {
        result = fallocate(op->fd, FALLOC_FL_KEEP_SIZE, (off_t)op->effect.position_bytes, (off_t)op->effect.size_bytes);
    } while (result < 0 && errno == EINTR);
    if (result < 0 && errno == EOPNOTSUPP) { return; } /* a hint: such a file system finds its blocks when it writes */
    set_rc(op, result);
}

static void truncate_file(struct op *op)
{
    int result;
    do {
        result = ftruncate(op->fd, (off_t)op->effect.position_bytes);
    } while (result < 0 && errno == EINTR);
    set_rc(op, result);
}

static void carry_out(struct op *op)
{
    switch (op->effect.kind) {
    case PORT_READ: read_file(op); break;
    case PORT_WRITE: write_file(op); break;
    case PORT_TRUNCATE: truncate_file(op); break;
    case PORT_ALLOCATE: allocate_file(op); break;
    case PORT_SYNC: set_rc(op, fdatasync(op->fd)); break;
    case PORT_CLOSE_FILE: set_rc(op, close(op->fd)); break;
    case PORT_OPEN:
    case PORT_RENAME:
    case PORT_UNLINK:
    case PORT_MAKE_DIR:
    case PORT_REMOVE_DIR:
    case PORT_SYNC_DIR:
    case PORT_LIST:
    case PORT_SPACE: by_name(op); break;
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

void host__disk_run(struct op *op)
{
    op->rc = PORT_OK;
    op->count = 0;
    if (op->is_warming) {
        warm_file(op);
        return;
    }
    carry_out(op);
    if (op->error != 0) { host__disk_tell(op); }
}

/* ---- threads ---- */

static void queue_push(struct work_queue *queue, struct op *op)
{
    op->next = NULL;
    uv_mutex_lock(&queue->lock);
    if (queue->last == NULL) {
        queue->first = op;
    } else {
        queue->last->next = op;
    }
    queue->last = op;
    uv_cond_signal(&queue->filled);
    uv_mutex_unlock(&queue->lock);
}

/* NULL: ended, and nothing is left. */
static struct op *queue_pop(struct work_queue *queue)
{
    uv_mutex_lock(&queue->lock);
    while (queue->first == NULL && !queue->is_ended) { uv_cond_wait(&queue->filled, &queue->lock); }
    struct op *op = queue->first;
    if (op != NULL) {
        queue->first = op->next;
        if (queue->first == NULL) { queue->last = NULL; }
    }
    uv_mutex_unlock(&queue->lock);
    return op;
}

static void give_back(struct op *op)
{
    struct shard *shard = op->shard;
    op->next = NULL;
    uv_mutex_lock(&shard->done_lock);
    if (shard->done_last == NULL) {
        shard->done_first = op;
    } else {
        shard->done_last->next = op;
    }
    shard->done_last = op;
    atomic_fetch_add(&shard->done_count, 1);
    uv_mutex_unlock(&shard->done_lock);
    host__wake(shard);
}

static void serve_queue(void *arg)
{
    struct disk_thread *thread = arg;
    struct op *op;
    while ((op = queue_pop(thread->queue)) != NULL) {
        atomic_store_explicit(&thread->busy_since_ns, uv_hrtime(), memory_order_relaxed);
        host__disk_run(op);
        atomic_store_explicit(&thread->busy_since_ns, 0, memory_order_relaxed);
        give_back(op);
    }
}

uint64_t host_disk_silent_ns(const struct host *host, uint32_t disk)
{
    CHECK(disk < host->config.disk_count);
    uint64_t since_ns = UINT64_MAX;
    for (uint32_t t = 0; t < host->disks[disk].thread_count; t++) {
        uint64_t one_ns = atomic_load_explicit(&host->disks[disk].threads[t].busy_since_ns, memory_order_relaxed);
        if (one_ns != 0) { since_ns = base_min_u64(since_ns, one_ns); }
    }
    uint64_t now_ns = uv_hrtime();
    return since_ns < now_ns ? now_ns - since_ns : 0;
}

void host__disk_push(struct disk *disk, struct op *op)
{
    bool is_sync = op->effect.kind == PORT_SYNC || op->effect.kind == PORT_SYNC_DIR;
    queue_push(is_sync ? &disk->sync : &disk->work, op);
}

void host__disk_start(struct host *host)
{
    for (uint32_t i = 0; i < host->config.disk_count; i++) {
        struct disk *disk = &host->disks[i];
        struct work_queue *queues[] = {&disk->sync, &disk->work};
        for (size_t q = 0; q < BASE_ARRAY_COUNT(queues); q++) {
            CHECK(uv_mutex_init(&queues[q]->lock) == 0);
            CHECK(uv_cond_init(&queues[q]->filled) == 0);
        }
        for (uint32_t t = 0; t < disk->thread_count; t++) {
            struct disk_thread *thread = &disk->threads[t];
            thread->queue = t == 0 ? &disk->sync : &disk->work;
            CHECK(uv_thread_create(&thread->thread, serve_queue, thread) == 0);
        }
    }
}

void host__disk_stop(struct host *host)
{
    for (uint32_t i = 0; i < host->config.disk_count; i++) {
        struct disk *disk = &host->disks[i];
        struct work_queue *queues[] = {&disk->sync, &disk->work};
        for (size_t q = 0; q < BASE_ARRAY_COUNT(queues); q++) {
            uv_mutex_lock(&queues[q]->lock);
            queues[q]->is_ended = true;
            uv_cond_broadcast(&queues[q]->filled);
            uv_mutex_unlock(&queues[q]->lock);
        }
        for (uint32_t t = 0; t < disk->thread_count; t++) { CHECK(uv_thread_join(&disk->threads[t].thread) == 0); }
        for (size_t q = 0; q < BASE_ARRAY_COUNT(queues); q++) {
            uv_cond_destroy(&queues[q]->filled);
            uv_mutex_destroy(&queues[q]->lock);
        }
    }
}
