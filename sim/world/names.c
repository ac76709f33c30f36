/* names.c: directories, and the effects that work on names.
 *
 * Room    sim/world, private; see world__world.h.
 * Model   a directory has its entries as everyone sees them and as they are durable; a change waits as a `name_pend` until
 *         SYNC_DIR covers it. A rename is one change, of the directory it goes to: both names or neither.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 255
#define PATH_MAX_BYTES 4096

/* ---- entries ---- */

static int compare_names(const struct entry *entry, const char *name, uint32_t name_bytes)
{
    return base_slice_compare(base_slice_of(entry->name, entry->name_bytes), base_slice_of(name, name_bytes));
}

/* Where it is, or where it would go. */
static uint32_t entry_place(const struct entries *entries, const char *name, uint32_t name_bytes, bool *found_out)
{
    uint32_t low = 0;
    uint32_t high = entries->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare_names(&entries->at[middle], name, name_bytes);
        if (order == 0) {
            *found_out = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found_out = false;
    return low;
}

struct inode *world__entry_find(const struct entries *entries, const char *name, uint32_t name_bytes)
{
    bool is_found = false;
    uint32_t place = entry_place(entries, name, name_bytes, &is_found);
    return is_found ? entries->at[place].inode : NULL;
}

void world__entry_set(struct entries *entries, const char *name, uint32_t name_bytes, struct inode *inode)
{
    bool is_found = false;
    uint32_t place = entry_place(entries, name, name_bytes, &is_found);
    (void)world__inode_hold(inode);
    if (is_found) {
        struct inode *old = entries->at[place].inode;
        entries->at[place].inode = inode;
        world__inode_release(old);
        return;
    }
    if (entries->count == entries->entries_max) {
        entries->entries_max = entries->entries_max == 0 ? 8 : entries->entries_max * 2;
        entries->at = world__grow(entries->at, entries->entries_max * sizeof *entries->at);
    }
    memmove(&entries->at[place + 1], &entries->at[place], (entries->count - place) * sizeof *entries->at);
    char *copy = world__alloc((size_t)name_bytes + 1);
    memcpy(copy, name, name_bytes);
    entries->at[place] = (struct entry){.name = copy, .name_bytes = name_bytes, .inode = inode};
    entries->count += 1;
}

void world__entry_drop(struct entries *entries, const char *name, uint32_t name_bytes)
{
    bool is_found = false;
    uint32_t place = entry_place(entries, name, name_bytes, &is_found);
    if (!is_found) { return; }
    struct entry gone = entries->at[place];
    entries->count -= 1;
    memmove(&entries->at[place], &entries->at[place + 1], (entries->count - place) * sizeof *entries->at);
    free(gone.name);
    world__inode_release(gone.inode);
}

void world__entries_clear(struct entries *entries)
{
    for (uint32_t i = 0; i < entries->count; i++) {
        free(entries->at[i].name);
        world__inode_release(entries->at[i].inode);
    }
    free(entries->at);
    *entries = (struct entries){0};
}

/* ---- changes ---- */

static struct name_pend *name_pend_add(struct inode *dir, enum name_kind kind, struct base_slice name,
                                       struct inode *inode)
{
    struct name_pend *pend = world__alloc(sizeof *pend + name.size_bytes + 1);
    dir->seq += 1;
    dir->is_dirty = true;
    pend->seq = dir->seq;
    pend->kind = kind;
    pend->inode = world__inode_hold(inode);
    pend->name_bytes = (uint32_t)name.size_bytes;
    memcpy(pend->name, name.at, name.size_bytes);
    if (dir->name_pends == NULL) {
        dir->name_pends = pend;
    } else {
        dir->name_pends_tail->next = pend;
    }
    dir->name_pends_tail = pend;
    return pend;
}

static void name_pend_free(struct name_pend *pend)
{
    struct inode *inode = pend->inode;
    struct inode *from_dir = pend->from_dir;
    free(pend->from);
    free(pend);
    world__inode_release(inode);
    if (from_dir != NULL) { world__inode_release(from_dir); }
}

void world__name_pends_free(struct inode *dir)
{
    while (dir->name_pends != NULL) {
        struct name_pend *pend = dir->name_pends;
        dir->name_pends = pend->next;
        name_pend_free(pend);
    }
    dir->name_pends_tail = NULL;
}

void world__names_show_durable(struct inode *dir)
{
    struct entries old = dir->names;
    dir->names = (struct entries){0};
    for (uint32_t i = 0; i < dir->durable_names.count; i++) {
        const struct entry *entry = &dir->durable_names.at[i];
        world__entry_set(&dir->names, entry->name, entry->name_bytes, entry->inode);
    }
    world__entries_clear(&old);
}

static void drop_if_same(struct entries *entries, const char *name, uint32_t name_bytes, const struct inode *inode)
{
    if (world__entry_find(entries, name, name_bytes) == inode) { world__entry_drop(entries, name, name_bytes); }
}

void world__name_apply(struct inode *dir, const struct name_pend *pend)
{
    switch (pend->kind) {
    case NAME_SET: world__entry_set(&dir->durable_names, pend->name, pend->name_bytes, pend->inode); break;
    case NAME_GONE: drop_if_same(&dir->durable_names, pend->name, pend->name_bytes, pend->inode); break;
    case NAME_MOVE:
        world__entry_set(&dir->durable_names, pend->name, pend->name_bytes, pend->inode);
        drop_if_same(&pend->from_dir->durable_names, pend->from, pend->from_bytes, pend->inode);
        break;
    }
}

static void show_pend(struct inode *dir, const struct name_pend *pend)
{
    if (pend->is_void) { return; }
    switch (pend->kind) {
    case NAME_SET: world__entry_set(&dir->names, pend->name, pend->name_bytes, pend->inode); break;
    case NAME_GONE: drop_if_same(&dir->names, pend->name, pend->name_bytes, pend->inode); break;
    case NAME_MOVE:
        world__entry_set(&dir->names, pend->name, pend->name_bytes, pend->inode);
        drop_if_same(&pend->from_dir->names, pend->from, pend->from_bytes, pend->inode);
        break;
    }
}

void world__names_evict(struct disk *disk)
{
    bool is_any_lost = false;
    for (struct base_link *at = base_list_first(&disk->inodes); at != NULL; at = base_list_next(&disk->inodes, at)) {
        const struct inode *inode = BASE_ITEM(at, struct inode, in_disk);
        is_any_lost = is_any_lost || (inode->is_dir && inode->has_lost);
    }
    if (!is_any_lost) { return; }
    for (struct base_link *at = base_list_first(&disk->inodes); at != NULL; at = base_list_next(&disk->inodes, at)) {
        struct inode *inode = BASE_ITEM(at, struct inode, in_disk);
        if (inode->is_dir && inode->is_dirty) { world__names_show_durable(inode); }
    }
    for (struct base_link *at = base_list_first(&disk->inodes); at != NULL; at = base_list_next(&disk->inodes, at)) {
        struct inode *inode = BASE_ITEM(at, struct inode, in_disk);
        for (const struct name_pend *pend = inode->name_pends; pend != NULL; pend = pend->next) {
            show_pend(inode, pend);
        }
        if (inode->is_dir) { inode->has_lost = false; }
    }
}

static void sync_names(struct inode *dir, uint64_t cover_seq)
{
    while (dir->name_pends != NULL && dir->name_pends->seq <= cover_seq) {
        struct name_pend *pend = dir->name_pends;
        dir->name_pends = pend->next;
        if (dir->name_pends == NULL) { dir->name_pends_tail = NULL; }
        if (pend->is_void) {
            dir->has_lost = true;
        } else {
            world__name_apply(dir, pend);
        }
        name_pend_free(pend);
    }
}

/* ---- paths ---- */

struct place { /* a name in its directory */
    struct inode *dir;
    struct base_slice name;
};

static bool is_good_name(struct base_slice name)
{
    if (name.size_bytes == 0 || name.size_bytes > NAME_MAX_BYTES) { return false; }
    if (base_slice_equal(name, base_slice_text(".")) || base_slice_equal(name, base_slice_text(".."))) { return false; }
    return memchr(name.at, 0, name.size_bytes) == NULL;
}

static struct inode *entry_of(const struct inode *dir, struct base_slice name, bool in_durable)
{
    const struct entries *entries = in_durable ? &dir->durable_names : &dir->names;
    return world__entry_find(entries, (const char *)name.at, (uint32_t)name.size_bytes);
}

/* Judged before anything is looked up. */
static bool is_good_path(struct base_slice path)
{
    if (path.size_bytes == 0 || path.size_bytes > PATH_MAX_BYTES) { return false; }
    for (;;) {
        const uint8_t *slash = path.size_bytes == 0 ? NULL : memchr(path.at, '/', path.size_bytes);
        size_t name_bytes = slash == NULL ? path.size_bytes : (size_t)(slash - path.at);
        if (!is_good_name(base_slice_of(path.at, name_bytes))) { return false; }
        if (slash == NULL) { return true; }
        path = base_slice_of(slash + 1, path.size_bytes - name_bytes - 1);
    }
}

static enum port_rc find_place(struct inode *root, struct base_slice path, bool in_durable, struct place *place_out)
{
    struct inode *dir = root;
    if (!is_good_path(path)) { return PORT_BAD_NAME; }
    for (;;) {
        const uint8_t *slash = memchr(path.at, '/', path.size_bytes);
        size_t name_bytes = slash == NULL ? path.size_bytes : (size_t)(slash - path.at);
        struct base_slice name = base_slice_of(path.at, name_bytes);
        if (slash == NULL) {
            *place_out = (struct place){.dir = dir, .name = name};
            return PORT_OK;
        }
        dir = entry_of(dir, name, in_durable);
        if (dir == NULL) { return PORT_MISSING; }
        if (!dir->is_dir) { return PORT_NOT_DIR; }
        path = base_slice_of(slash + 1, path.size_bytes - name_bytes - 1);
    }
}

static enum port_rc find_dir(struct inode *root, struct base_slice path, struct inode **dir_out)
{
    struct place place;
    if (path.size_bytes == 0) {
        *dir_out = root;
        return PORT_OK;
    }
    enum port_rc rc = find_place(root, path, false, &place);
    if (rc != PORT_OK) { return rc; }
    struct inode *dir = entry_of(place.dir, place.name, false);
    if (dir == NULL) { return PORT_MISSING; }
    if (!dir->is_dir) { return PORT_NOT_DIR; }
    *dir_out = dir;
    return PORT_OK;
}

struct inode *world__lookup(const struct disk *disk, const char *path, bool in_durable)
{
    struct place place;
    if (find_place(disk->root, base_slice_text(path), in_durable, &place) != PORT_OK) { return NULL; }
    struct inode *inode = entry_of(place.dir, place.name, in_durable);
    return inode == NULL || inode->is_dir ? NULL : inode;
}

struct inode *world__make_path(struct disk *disk, const char *path, size_t path_bytes)
{
    struct inode *dir = disk->root;
    size_t at = 0;
    while (at < path_bytes) {
        const char *slash = memchr(path + at, '/', path_bytes - at);
        size_t name_bytes = slash == NULL ? path_bytes - at : (size_t)(slash - path) - at;
        struct inode *found = world__entry_find(&dir->names, path + at, (uint32_t)name_bytes);
        if (found == NULL) { found = world__inode_create(disk, slash != NULL); }
        world__entry_set(&dir->names, path + at, (uint32_t)name_bytes, found);
        world__entry_set(&dir->durable_names, path + at, (uint32_t)name_bytes, found);
        if (slash == NULL) { return found; }
        CHECK(found->is_dir);
        dir = found;
        at += name_bytes + 1;
    }
    UNREACHABLE();
}

/* ---- effects ---- */

/* A changed name: what the completion will tell the machine of. */
static void note_change(struct op *op, struct inode *dir)
{
    op->inode = world__inode_hold(dir);
    op->cover = dir->seq;
}

static void set_name(struct op *op, const struct place *place, struct inode *inode)
{
    world__entry_set(&place->dir->names, (const char *)place->name.at, (uint32_t)place->name.size_bytes, inode);
    (void)name_pend_add(place->dir, NAME_SET, place->name, inode);
    note_change(op, place->dir);
}

static void drop_name(struct op *op, const struct place *place, struct inode *inode)
{
    (void)name_pend_add(place->dir, NAME_GONE, place->name, inode);
    world__entry_drop(&place->dir->names, (const char *)place->name.at, (uint32_t)place->name.size_bytes);
    note_change(op, place->dir);
}

static enum port_rc run_open(struct world *world, struct disk *disk, struct op *op)
{
    struct place place;
    uint32_t flags = op->effect.flags;
    struct node *node = op->shard->node;
    if (node->handles >= world->knobs.handles_max || world__hit(world, WORLD_DISK_NO_HANDLES)) {
        return PORT_NO_HANDLES;
    }
    if (world__hit(world, WORLD_DISK_NO_MEMORY)) { return PORT_NO_MEMORY; }
    enum port_rc rc = find_place(disk->root, op->effect.path, false, &place);
    if (rc != PORT_OK) { return rc; }
    struct inode *inode = entry_of(place.dir, place.name, false);
    if (inode == NULL && (flags & PORT_OPEN_CREATE) == 0) { return PORT_MISSING; }
    if (inode != NULL && (flags & PORT_OPEN_CREATE) != 0 && (flags & PORT_OPEN_EXCLUSIVE) != 0) { return PORT_EXISTS; }
    if (inode != NULL && inode->is_dir) { return PORT_NOT_DIR; }
    if (inode == NULL) {
        if (disk->is_full || world__hit(world, WORLD_DISK_NO_SPACE)) { return PORT_NO_SPACE; }
        inode = world__inode_create(disk, false);
        set_name(op, &place, inode);
    }
    world__file_open(world, op, inode);
    op->count = inode->cached.size_bytes;
    return PORT_OK;
}

static enum port_rc may_replace(const struct inode *inode, const struct inode *target)
{
    if (target == NULL) { return PORT_OK; }
    if (target->is_dir != inode->is_dir) { return PORT_NOT_DIR; }
    return target->is_dir && target->names.count > 0 ? PORT_NOT_EMPTY : PORT_OK;
}

/* A directory must not move into itself. */
static bool is_below(const struct inode *dir, const struct inode *top)
{
    if (dir == top) { return true; }
    for (uint32_t i = 0; i < top->names.count; i++) {
        if (top->names.at[i].inode->is_dir && is_below(dir, top->names.at[i].inode)) { return true; }
    }
    return false;
}

static enum port_rc run_rename(struct world *world, struct disk *disk, struct op *op)
{
    struct place from;
    struct place to;
    if (!is_good_path(op->effect.path_to)) { return PORT_BAD_NAME; }
    enum port_rc rc = find_place(disk->root, op->effect.path, false, &from);
    if (rc == PORT_OK) { rc = find_place(disk->root, op->effect.path_to, false, &to); }
    if (rc != PORT_OK) { return rc; }
    struct inode *inode = entry_of(from.dir, from.name, false);
    if (inode == NULL) { return PORT_MISSING; }
    struct inode *target = entry_of(to.dir, to.name, false);
    if (target == inode) { return PORT_OK; }
    rc = may_replace(inode, target);
    if (rc != PORT_OK) { return rc; }
    if (inode->is_dir && is_below(to.dir, inode)) { return PORT_BAD_NAME; }
    struct name_pend *pend = name_pend_add(to.dir, NAME_MOVE, to.name, inode);
    pend->from_dir = world__inode_hold(from.dir);
    pend->from_bytes = (uint32_t)from.name.size_bytes;
    pend->from = world__alloc(from.name.size_bytes + 1);
    memcpy(pend->from, from.name.at, from.name.size_bytes);
    pend->is_void = world__hit(world, WORLD_DISK_LOST_NAME);
    from.dir->is_dirty = true; /* its durable entries change with the other directory's */
    world__entry_set(&to.dir->names, (const char *)to.name.at, (uint32_t)to.name.size_bytes, inode);
    world__entry_drop(&from.dir->names, (const char *)from.name.at, (uint32_t)from.name.size_bytes);
    note_change(op, to.dir);
    return PORT_OK;
}

static enum port_rc run_unlink(struct disk *disk, struct op *op, bool is_dir)
{
    struct place place;
    enum port_rc rc = find_place(disk->root, op->effect.path, false, &place);
    if (rc != PORT_OK) { return rc; }
    struct inode *inode = entry_of(place.dir, place.name, false);
    if (inode == NULL) { return PORT_MISSING; }
    if (inode->is_dir != is_dir) { return PORT_NOT_DIR; }
    if (is_dir && inode->names.count > 0) { return PORT_NOT_EMPTY; }
    drop_name(op, &place, inode);
    return PORT_OK;
}

static enum port_rc run_make_dir(struct world *world, struct disk *disk, struct op *op)
{
    struct place place;
    if (op->effect.path.size_bytes == 0) { return PORT_EXISTS; }
    enum port_rc rc = find_place(disk->root, op->effect.path, false, &place);
    if (rc != PORT_OK) { return rc; }
    if (entry_of(place.dir, place.name, false) != NULL) { return PORT_EXISTS; }
    if (disk->is_full || world__hit(world, WORLD_DISK_NO_SPACE)) { return PORT_NO_SPACE; }
    set_name(op, &place, world__inode_create(disk, true));
    return PORT_OK;
}

static enum port_rc run_sync_dir(struct disk *disk, struct op *op)
{
    struct inode *dir = NULL;
    enum port_rc rc = find_dir(disk->root, op->effect.path, &dir);
    if (rc != PORT_OK) { return rc; }
    if (dir == op->inode) { sync_names(dir, op->cover); }
    return PORT_OK;
}

/* Nobody knows what became of the names: some are gone for good, whatever a later sync says. */
static void lose_names(struct world *world, struct op *op)
{
    if (op->inode == NULL) { return; }
    for (struct name_pend *pend = op->inode->name_pends; pend != NULL; pend = pend->next) {
        if (pend->seq <= op->cover && world__draw(world, DICE_KEEP, 2) == 0) {
            pend->is_void = true;
            op->inode->has_lost = true;
        }
    }
}

static enum port_rc run_list(struct world *world, struct disk *disk, struct op *op)
{
    struct inode *dir = NULL;
    enum port_rc rc = find_dir(disk->root, op->effect.path, &dir);
    if (rc != PORT_OK) { return rc; }
    world__fill_begin(world, op);
    uint64_t used_bytes = 0;
    for (uint64_t i = op->effect.position_bytes; i < dir->names.count; i++) {
        const struct entry *entry = &dir->names.at[i];
        if (used_bytes + PORT_ENTRY_HEAD_BYTES + entry->name_bytes > op->effect.size_bytes) {
            op->is_more = true;
            break;
        }
        uint8_t *at = op->effect.buffer + used_bytes;
        at[0] = entry->inode->is_dir ? 1 : 0;
        base_put_u64(at + 1, entry->inode->cached.size_bytes);
        base_put_u16(at + 9, (uint16_t)entry->name_bytes);
        memcpy(at + PORT_ENTRY_HEAD_BYTES, entry->name, entry->name_bytes);
        used_bytes += PORT_ENTRY_HEAD_BYTES + entry->name_bytes;
    }
    world__fill_end(world, op);
    op->count = used_bytes;
    return PORT_OK;
}

/* A disk without a limit says that it is very large. */
static enum port_rc run_space(const struct disk *disk, struct op *op)
{
    const uint64_t endless_bytes = UINT64_C(1) << 60;
    uint64_t total_bytes = disk->capacity_bytes == 0 ? endless_bytes : disk->capacity_bytes;
    op->total_bytes = total_bytes;
    op->count = disk->used_bytes < total_bytes ? total_bytes - disk->used_bytes : 0;
    return PORT_OK;
}

static enum port_rc run_name(struct world *world, struct disk *disk, struct op *op)
{
    bool is_list = op->effect.kind == PORT_LIST;
    if (world__hit(world, is_list ? WORLD_DISK_EIO_LIST : WORLD_DISK_EIO_NAME)) {
        if (op->effect.kind == PORT_SYNC_DIR) { lose_names(world, op); }
        return PORT_IO;
    }
    switch ((int)op->effect.kind) {
    case PORT_OPEN: return run_open(world, disk, op);
    case PORT_RENAME: return run_rename(world, disk, op);
    case PORT_UNLINK: return run_unlink(disk, op, false);
    case PORT_MAKE_DIR: return run_make_dir(world, disk, op);
    case PORT_REMOVE_DIR: return run_unlink(disk, op, true);
    case PORT_SYNC_DIR: return run_sync_dir(disk, op);
    case PORT_LIST: return run_list(world, disk, op);
    case PORT_SPACE: return run_space(disk, op);
    default: UNREACHABLE();
    }
}

static void name_fire(struct world *world, struct timer *timer)
{
    struct op *op = BASE_ITEM(timer, struct op, timer);
    struct disk *disk = &op->shard->node->disks[op->effect.disk];
    enum port_rc rc = run_name(world, disk, op);
    world__op_done(world, op, rc, rc == PORT_OK ? op->count : 0);
}

void world__name_effect(struct world *world, struct op *op)
{
    struct node *node = op->shard->node;
    if (op->effect.disk >= node->spec.disk_count) {
        world__breach(world, op->shard, "%s on disk %u, which is not there", port_effect_name(op->effect.kind),
                      (unsigned)op->effect.disk);
        world__op_done(world, op, PORT_MISSING, 0);
        return;
    }
    struct disk *disk = &node->disks[op->effect.disk];
    bool is_sync = op->effect.kind == PORT_SYNC_DIR;
    if (is_sync) {
        struct inode *dir = NULL;
        if (find_dir(disk->root, op->effect.path, &dir) == PORT_OK) {
            op->inode = world__inode_hold(dir);
            op->cover = dir->told_seq;
        }
    }
    world__timer_set(world, &op->timer, world->now_ns + world__disk_delay_ns(world, disk, is_sync), name_fire);
}
