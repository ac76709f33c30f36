/* fake_disk.c: see fake_disk.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_disk.h"

#include <stdlib.h>

static void put_bytes(uint8_t **bytes, uint64_t *size_bytes, const struct fake_write *write)
{
    if (write->is_size || write->at + write->size_bytes > *size_bytes) {
        uint64_t size = write->is_size ? write->at : write->at + write->size_bytes;
        *bytes = realloc(*bytes, size + 1);
        if (size > *size_bytes) { memset(*bytes + *size_bytes, 0, size - *size_bytes); }
        *size_bytes = size;
    }
    if (!write->is_size && write->size_bytes > 0) { memcpy(*bytes + write->at, write->bytes, write->size_bytes); }
}

struct fake_disk *fake_disk_make(void)
{
    struct fake_disk *disk = calloc(1, sizeof *disk);
    disk->files = calloc(FAKE_FILES, sizeof *disk->files);
    disk->fail_kind = PORT_EFFECT_COUNT;
    return disk;
}

static void free_file(struct fake_file *file)
{
    free(file->cache);
    free(file->durable);
    for (uint32_t i = 0; i < file->pending_count; i++) { free(file->pending[i].bytes); }
    free(file->pending);
}

void fake_disk_free(struct fake_disk *disk)
{
    for (uint32_t i = 0; i < FAKE_FILES; i++) { free_file(&disk->files[i]); }
    free(disk->files);
    free(disk);
}

static int find_name(const struct fake_names *names, const char *path)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (strcmp(names->names[i].path, path) == 0) { return (int)i; }
    }
    return -1;
}

static void remove_name(struct fake_names *names, const char *path)
{
    int at = find_name(names, path);
    if (at < 0) { return; }
    names->count -= 1;
    memmove(&names->names[at], &names->names[at + 1], (names->count - (uint32_t)at) * sizeof names->names[0]);
}

static void add_name(struct fake_names *names, const char *path, uint32_t file)
{
    remove_name(names, path);
    CHECK(names->count < FAKE_NAMES);
    uint32_t at = names->count;
    while (at > 0 && strcmp(names->names[at - 1].path, path) > 0) {
        names->names[at] = names->names[at - 1];
        at -= 1;
    }
    memset(&names->names[at], 0, sizeof names->names[at]);
    memcpy(names->names[at].path, path, strlen(path));
    names->names[at].file = file;
    names->count += 1;
}

static bool is_named(const struct fake_names *names, uint32_t file)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (names->names[i].file == file) { return true; }
    }
    return false;
}

/* An empty file that has no name and is not open any more serves again. */
static bool is_forgotten(const struct fake_disk *disk, uint32_t file)
{
    for (uint32_t i = 0; i < FAKE_OPEN; i++) {
        if (disk->open[i].file == file + 1) { return false; }
    }
    return disk->files[file].cache_bytes == 0 && disk->files[file].pending_count == 0 &&
           !is_named(&disk->names, file) && !is_named(&disk->durable_names, file);
}

static uint32_t take_file(struct fake_disk *disk)
{
    for (uint32_t i = 0; i < FAKE_FILES; i++) {
        if (!disk->files[i].is_used || is_forgotten(disk, i)) {
            disk->files[i].is_used = true;
            disk->files[i].reserved_bytes = 0;
            return i;
        }
    }
    CHECK(false);
    return 0;
}

struct fake_file *fake_disk_file(struct fake_disk *disk, const char *path)
{
    int at = find_name(&disk->names, path);
    return at < 0 ? NULL : &disk->files[disk->names.names[at].file];
}

struct fake_file *fake_disk_put(struct fake_disk *disk, const char *path, const void *bytes, uint64_t size_bytes)
{
    uint32_t index = take_file(disk);
    struct fake_file *file = &disk->files[index];
    struct fake_write write = {.size_bytes = size_bytes, .bytes = (uint8_t *)(uintptr_t)bytes};
    put_bytes(&file->cache, &file->cache_bytes, &write);
    put_bytes(&file->durable, &file->durable_bytes, &write);
    add_name(&disk->names, path, index);
    add_name(&disk->durable_names, path, index);
    disk->names.has_dir = true;
    disk->durable_names.has_dir = true;
    return file;
}

void fake_disk_remove(struct fake_disk *disk, const char *path)
{
    remove_name(&disk->names, path);
    remove_name(&disk->durable_names, path);
}

void fake_disk_flip(struct fake_file *file, uint64_t at, uint8_t mask)
{
    if (at < file->cache_bytes) { file->cache[at] ^= mask; }
    if (at < file->durable_bytes) { file->durable[at] ^= mask; }
}

uint64_t fake_disk_used(const struct fake_disk *disk)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < disk->names.count; i++) {
        const struct fake_file *file = &disk->files[disk->names.names[i].file];
        sum += file->cache_bytes > file->reserved_bytes ? file->cache_bytes : file->reserved_bytes;
    }
    return sum;
}

bool fake_disk_durable_has(const struct fake_disk *disk, const void *bytes, uint64_t size_bytes)
{
    for (uint32_t i = 0; i < disk->durable_names.count; i++) {
        const struct fake_file *file = &disk->files[disk->durable_names.names[i].file];
        if (file->durable_bytes > 0 && memmem(file->durable, file->durable_bytes, bytes, size_bytes) != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- effects -------------------------------------------------------------------------------------------------------------- */

static uint32_t open_index(const struct fake_disk *disk, struct port_file id)
{
    for (uint32_t i = 0; i < FAKE_OPEN; i++) {
        if (disk->open[i].file != 0 && port_file_equal(disk->open[i].id, id)) { return i; }
    }
    return FAKE_OPEN;
}

static struct fake_file *open_file(const struct fake_disk *disk, struct port_file id)
{
    uint32_t index = open_index(disk, id);
    return index == FAKE_OPEN ? NULL : &disk->files[disk->open[index].file - 1];
}

void fake_disk_ask(struct fake_disk *disk, const struct port_effect *effect)
{
    CHECK(disk->queue_count < 256);
    struct fake_queued *queued = &disk->queue[disk->queue_count];
    *queued = (struct fake_queued){.effect = *effect};
    if (effect->kind == PORT_SYNC) {
        struct fake_file *file = open_file(disk, effect->file);
        queued->covers = file == NULL ? 0 : file->pending_count;
    }
    disk->queue_count += 1;
}

static void path_of(struct base_slice slice, char path_out[64])
{
    CHECK(slice.size_bytes < 64);
    memset(path_out, 0, 64);
    memcpy(path_out, slice.at, slice.size_bytes);
}

static void add_pending(struct fake_file *file, struct fake_write write)
{
    if (file->pending_count == file->pending_max) {
        file->pending_max = 2 * file->pending_max + 16;
        file->pending = realloc(file->pending, file->pending_max * sizeof *file->pending);
    }
    put_bytes(&file->cache, &file->cache_bytes, &write);
    file->pending[file->pending_count] = write;
    file->pending_count += 1;
}

static void gather(const struct port_effect *effect, uint64_t limit, struct fake_write *write_out)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < effect->piece_count; i++) { size += effect->pieces[i].size_bytes; }
    CHECK(size == effect->size_bytes);
    uint8_t *bytes = malloc(size + 1);
    uint64_t at = 0;
    for (uint32_t i = 0; i < effect->piece_count; i++) {
        memcpy(bytes + at, effect->pieces[i].at, effect->pieces[i].size_bytes);
        at += effect->pieces[i].size_bytes;
    }
    if (limit != 0 && size > limit) { size = limit; }
    *write_out = (struct fake_write){.at = effect->position_bytes, .size_bytes = size, .bytes = bytes};
}

static void sync_file(struct fake_file *file, uint32_t covers)
{
    for (uint32_t i = 0; i < covers; i++) {
        put_bytes(&file->durable, &file->durable_bytes, &file->pending[i]);
        free(file->pending[i].bytes);
    }
    file->pending_count -= covers;
    if (file->pending_count == 0) { return; }
    memmove(&file->pending[0], &file->pending[covers], file->pending_count * sizeof file->pending[0]);
}

static enum port_rc do_open(struct fake_disk *disk, const struct port_effect *effect, struct port_event *event)
{
    char path[64];
    path_of(effect->path, path);
    int at = find_name(&disk->names, path);
    if (at < 0) {
        if ((effect->flags & PORT_OPEN_CREATE) == 0 || !disk->names.has_dir) { return PORT_MISSING; }
        add_name(&disk->names, path, take_file(disk));
        at = find_name(&disk->names, path);
    }
    for (uint32_t i = 0; i < FAKE_OPEN; i++) {
        if (disk->open[i].file != 0) {
            CHECK(disk->open[i].id.slot != effect->file.slot); /* a slot in use twice */
            continue;
        }
        disk->open[i].id = effect->file;
        disk->open[i].file = disk->names.names[at].file + 1;
        event->done.count = disk->files[disk->names.names[at].file].cache_bytes;
        return PORT_OK;
    }
    return PORT_NO_HANDLES;
}

static enum port_rc do_list(struct fake_disk *disk, const struct port_effect *effect, struct port_event *event)
{
    if (!disk->names.has_dir) { return PORT_MISSING; }
    uint64_t used = 0;
    for (uint32_t i = (uint32_t)effect->position_bytes; i < disk->names.count; i++) {
        const char *name = strchr(disk->names.names[i].path, '/') + 1;
        uint64_t size = strlen(name);
        if (used + PORT_ENTRY_HEAD_BYTES + size > effect->size_bytes) {
            event->done.is_more = true;
            break;
        }
        uint8_t *at = effect->buffer + used;
        at[0] = 0;
        base_put_u64(at + 1, disk->files[disk->names.names[i].file].cache_bytes);
        base_put_u16(at + 9, (uint16_t)size);
        memcpy(at + PORT_ENTRY_HEAD_BYTES, name, size);
        used += PORT_ENTRY_HEAD_BYTES + size;
    }
    event->done.count = used;
    return PORT_OK;
}

static enum port_rc do_file(struct fake_disk *disk, const struct fake_queued *queued, struct port_event *event)
{
    const struct port_effect *effect = &queued->effect;
    struct fake_file *file = open_file(disk, effect->file);
    if (file == NULL) { return PORT_CLOSED; }
    if (effect->kind == PORT_CLOSE_FILE) {
        disk->open[open_index(disk, effect->file)].file = 0;
        return PORT_OK;
    }
    if (effect->kind == PORT_SYNC) {
        disk->sync_count += 1;
        if (!disk->lies) { sync_file(file, queued->covers); }
        return PORT_OK;
    }
    if (effect->kind == PORT_READ) {
        uint64_t left = effect->position_bytes < file->cache_bytes ? file->cache_bytes - effect->position_bytes : 0;
        uint64_t count = left < effect->size_bytes ? left : effect->size_bytes;
        if (disk->short_bytes != 0 && count > disk->short_bytes) { count = disk->short_bytes; }
        if (count > 0) { memcpy(effect->buffer, file->cache + effect->position_bytes, count); }
        event->done.count = count;
        return PORT_OK;
    }
    if (effect->kind == PORT_TRUNCATE) { /* of a file without content, to nothing */
        CHECK(effect->position_bytes == 0 && file->cache_bytes == 0);
        file->reserved_bytes = 0;
        return PORT_OK;
    }
    uint64_t end = effect->position_bytes + effect->size_bytes;
    uint64_t has = file->cache_bytes > file->reserved_bytes ? file->cache_bytes : file->reserved_bytes;
    bool is_beyond = end > has && fake_disk_used(disk) + end - has > disk->room_bytes;
    if (disk->room_bytes != 0 && is_beyond) { return PORT_NO_SPACE; }
    if (effect->kind == PORT_ALLOCATE) {
        if (end > file->reserved_bytes) { file->reserved_bytes = end; }
        return PORT_OK;
    }
    CHECK(effect->kind == PORT_WRITE);
    struct fake_write write;
    gather(effect, disk->short_bytes, &write);
    disk->write_count += 1;
    event->done.count = write.size_bytes;
    add_pending(file, write);
    return PORT_OK;
}

static enum port_rc carry_out(struct fake_disk *disk, const struct fake_queued *queued, struct port_event *event)
{
    const struct port_effect *effect = &queued->effect;
    char path[64] = "";
    char path_to[64] = "";
    if (effect->path.size_bytes > 0) { path_of(effect->path, path); }
    if (effect->path_to.size_bytes > 0) { path_of(effect->path_to, path_to); }
    int at = find_name(&disk->names, path);
    if (effect->kind == PORT_OPEN) { return do_open(disk, effect, event); }
    if (effect->kind == PORT_LIST) { return do_list(disk, effect, event); }
    if (effect->kind == PORT_MAKE_DIR) {
        bool was_there = disk->names.has_dir;
        disk->names.has_dir = true;
        return was_there ? PORT_EXISTS : PORT_OK;
    }
    if (effect->kind == PORT_SYNC_DIR) {
        if (path[0] == 0) {
            disk->durable_names.has_dir = disk->names.has_dir;
        } else {
            bool has_dir = disk->durable_names.has_dir;
            disk->durable_names = disk->names;
            disk->durable_names.has_dir = has_dir;
        }
        return PORT_OK;
    }
    if (effect->kind == PORT_UNLINK || effect->kind == PORT_RENAME) {
        if (at < 0) { return PORT_MISSING; }
        uint32_t file = disk->names.names[at].file;
        remove_name(&disk->names, path);
        if (effect->kind == PORT_RENAME) { add_name(&disk->names, path_to, file); }
        return PORT_OK;
    }
    return do_file(disk, queued, event);
}

bool fake_disk_do_at(struct fake_disk *disk, uint32_t index, struct port_event *event_out)
{
    if (index >= disk->queue_count) { return false; }
    struct fake_queued queued = disk->queue[index];
    disk->queue_count -= 1;
    memmove(&disk->queue[index], &disk->queue[index + 1], (disk->queue_count - index) * sizeof disk->queue[0]);
    struct port_event event = {.kind = PORT_EVENT_DONE};
    event.done.effect = queued.effect.kind;
    event.done.token = queued.effect.token;
    event.done.file = queued.effect.file;
    disk->done_count += 1;
    bool is_kind = disk->fail_kind == PORT_EFFECT_COUNT || disk->fail_kind == queued.effect.kind;
    if (is_kind) { disk->kind_seen += 1; }
    bool fails = is_kind && disk->fail_at != 0 &&
                 (disk->kind_seen == disk->fail_at || (disk->fails_on && disk->kind_seen > disk->fail_at));
    if (queued.effect.kind == PORT_CLOSE_FILE) { fails = false; }
    event.done.rc = fails ? disk->fail_rc : carry_out(disk, &queued, &event);
    if (fails && queued.effect.kind == PORT_SYNC) { /* the pages count as clean now, and never reach the disk */
        struct fake_file *file = open_file(disk, queued.effect.file);
        for (uint32_t i = 0; file != NULL && i < file->pending_count; i++) { free(file->pending[i].bytes); }
        if (file != NULL) { file->pending_count = 0; }
    }
    uint64_t used = fake_disk_used(disk);
    if (used > disk->file_bytes_used) { disk->file_bytes_used = used; }
    *event_out = event;
    return true;
}

bool fake_disk_do(struct fake_disk *disk, struct port_event *event_out) { return fake_disk_do_at(disk, 0, event_out); }

/* ---- crash ------------------------------------------------------------------------------------------------------------------ */

/* A write that was asked and not carried out may have reached the disk as well. */
static bool is_queued_write(const struct fake_disk *disk, uint32_t i)
{
    const struct port_effect *effect = &disk->queue[i].effect;
    return effect->kind == PORT_WRITE && open_file(disk, effect->file) != NULL;
}

uint32_t fake_disk_pending(const struct fake_disk *disk)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < FAKE_FILES; i++) { count += disk->files[i].pending_count; }
    for (uint32_t i = 0; i < disk->queue_count; i++) { count += is_queued_write(disk, i) ? 1 : 0; }
    return count;
}

static void keep_write(struct fake_file *to, const struct fake_write *write, enum fake_keep keep, uint32_t index,
                       uint32_t which, uint64_t bytes)
{
    bool is_kept = keep == FAKE_KEEP_ALL || (keep == FAKE_KEEP_ONE && index == which) ||
                   (keep == FAKE_KEEP_ALL_BUT_ONE && index != which) || (keep == FAKE_KEEP_TORN && index <= which);
    if (!is_kept) { return; }
    struct fake_write part = *write;
    if (keep == FAKE_KEEP_TORN && index == which && part.size_bytes > bytes) { part.size_bytes = bytes; }
    put_bytes(&to->durable, &to->durable_bytes, &part);
}

struct fake_disk *fake_disk_crash(const struct fake_disk *disk, enum fake_keep keep, uint32_t which, uint64_t bytes,
                                  bool keeps_names)
{
    struct fake_disk *after = fake_disk_make();
    after->names = keeps_names || keep == FAKE_KEEP_ALL ? disk->names : disk->durable_names;
    if (!after->names.has_dir) { after->names.count = 0; }
    after->durable_names = after->names;
    uint32_t index = 0;
    for (uint32_t i = 0; i < FAKE_FILES; i++) {
        const struct fake_file *from = &disk->files[i];
        struct fake_file *to = &after->files[i];
        to->is_used = from->is_used;
        if (!from->is_used) { continue; }
        struct fake_write all = {.size_bytes = from->durable_bytes, .bytes = from->durable};
        put_bytes(&to->durable, &to->durable_bytes, &all);
        for (uint32_t k = 0; k < from->pending_count; k++, index++) {
            keep_write(to, &from->pending[k], keep, index, which, bytes);
        }
    }
    for (uint32_t i = 0; i < disk->queue_count; i++) {
        if (!is_queued_write(disk, i)) { continue; }
        struct fake_write write;
        gather(&disk->queue[i].effect, 0, &write);
        uint32_t file = disk->open[open_index(disk, disk->queue[i].effect.file)].file - 1;
        keep_write(&after->files[file], &write, keep, index, which, bytes);
        index += 1;
        free(write.bytes);
    }
    for (uint32_t i = 0; i < FAKE_FILES; i++) {
        struct fake_file *to = &after->files[i];
        struct fake_write all = {.size_bytes = to->durable_bytes, .bytes = to->durable};
        put_bytes(&to->cache, &to->cache_bytes, &all);
    }
    return after;
}
