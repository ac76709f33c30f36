/* cut.c: disks from outside: made, put in order, cut off from power, rotten, looked at.
 *
 * Room    sim/world, private; see world__world.h.
 * Model   at a power cut every change that is not durable is kept, lost, or torn, as the knob `keep` says; what is durable
 *         then becomes what is seen.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <stdlib.h>
#include <string.h>

#define SECTOR_BYTES 512

void world__disk_create(struct world *world, struct node *node, uint32_t index)
{
    struct disk *disk = &node->disks[index];
    *disk =
        (struct disk){.world = world, .node = node, .index = index, .capacity_bytes = world->knobs.disk_capacity_bytes};
    base_list_init(&disk->inodes);
    disk->root = world__inode_hold(world__inode_create(disk, true));
}

void world__disk_destroy(struct disk *disk)
{
    for (struct base_link *at = base_list_first(&disk->inodes); at != NULL; at = base_list_next(&disk->inodes, at)) {
        struct inode *inode = BASE_ITEM(at, struct inode, in_disk);
        CHECK(inode->refs > 0);
        (void)world__inode_hold(inode); /* so that nothing goes while names are let go of */
    }
    for (struct base_link *at = base_list_first(&disk->inodes); at != NULL; at = base_list_next(&disk->inodes, at)) {
        struct inode *inode = BASE_ITEM(at, struct inode, in_disk);
        world__entries_clear(&inode->names);
        world__entries_clear(&inode->durable_names);
        world__name_pends_free(inode);
    }
    world__inode_release(disk->root);
    disk->root = NULL;
    while (!base_list_is_empty(&disk->inodes)) {
        struct inode *inode = BASE_ITEM(base_list_first(&disk->inodes), struct inode, in_disk);
        CHECK(inode->refs == 1);
        world__inode_release(inode);
    }
}

/* ---- one file ---- */

enum fate { FATE_LOST, FATE_KEPT, FATE_TORN, FATE_SIZE_ONLY, FATE_HALF, FATE_IN_PLACE };

struct policy {
    enum world_keep keep;
    uint64_t
        prefix; /* WORLD_KEEP_PREFIX: how many changes are kept. WORLD_KEEP_ONE ...: which one; UINT64_MAX: none of these */
};

static enum fate fate_of(struct world *world, const struct policy *policy, uint64_t index)
{
    switch (policy->keep) {
    case WORLD_KEEP_NOTHING: return FATE_LOST;
    case WORLD_KEEP_ALL: return FATE_KEPT;
    case WORLD_KEEP_PREFIX:
        return index < policy->prefix ? FATE_KEPT : (index == policy->prefix ? FATE_TORN : FATE_LOST);
    case WORLD_KEEP_BYTES: return FATE_IN_PLACE;
    case WORLD_KEEP_NAMES: return FATE_SIZE_ONLY;
    case WORLD_KEEP_ONE: return index == policy->prefix ? FATE_KEPT : FATE_LOST;
    case WORLD_LOSE_ONE: return index == policy->prefix ? FATE_LOST : FATE_KEPT;
    case WORLD_TEAR_ONE: return index < policy->prefix ? FATE_KEPT : (index == policy->prefix ? FATE_HALF : FATE_LOST);
    case WORLD_KEEP_ANY:
    case WORLD_KEEP_EACH: break;
    }
    static const enum fate fates[] = {FATE_LOST, FATE_LOST, FATE_LOST, FATE_KEPT,     FATE_KEPT,
                                      FATE_KEPT, FATE_TORN, FATE_TORN, FATE_SIZE_ONLY};
    return fates[world__draw(world, DICE_KEEP, BASE_ARRAY_COUNT(fates))];
}

/* Only some of its bytes: cut at any byte, or only some of the sectors. */
static void tear(struct world *world, struct inode *inode, const struct pend *pend)
{
    uint64_t at = pend->durable_position_bytes;
    if (world__draw(world, DICE_KEEP, 2) == 0) {
        uint64_t kept_bytes = world__draw(world, DICE_PART, pend->size_bytes + 1);
        world__content_write(&inode->durable, at, pend->bytes, kept_bytes);
        return;
    }
    if (world__draw(world, DICE_KEEP, 2) == 0 && at + pend->size_bytes > inode->durable.size_bytes) {
        world__content_resize(&inode->durable, at + pend->size_bytes); /* the size first, the sectors as they come */
    }
    uint64_t used_bytes = 0;
    while (used_bytes < pend->size_bytes) {
        uint64_t part_bytes =
            base_min_u64(SECTOR_BYTES - (at + used_bytes) % SECTOR_BYTES, pend->size_bytes - used_bytes);
        if (world__draw(world, DICE_KEEP, 2) == 0) {
            world__content_write(&inode->durable, at + used_bytes, pend->bytes + used_bytes, part_bytes);
        }
        used_bytes += part_bytes;
    }
}

/* What of it lies within the file's durable size; the rest has no place. */
static enum fate write_in_place(struct world *world, struct inode *inode, const struct pend *pend)
{
    uint64_t size_bytes = inode->durable.size_bytes;
    uint64_t room_bytes = size_bytes - base_min_u64(size_bytes, pend->durable_position_bytes);
    uint64_t kept_bytes = base_min_u64(pend->size_bytes, room_bytes);
    world__content_write(&inode->durable, pend->durable_position_bytes, pend->bytes, kept_bytes);
    bool is_whole = kept_bytes == pend->size_bytes;
    world__count(world, is_whole ? WORLD_KEPT_WRITE : (kept_bytes > 0 ? WORLD_TORN_WRITE : WORLD_LOST_WRITE));
    return is_whole ? FATE_KEPT : (kept_bytes > 0 ? FATE_TORN : FATE_LOST);
}

static enum fate settle_write(struct world *world, struct inode *inode, const struct pend *pend, enum fate fate)
{
    uint64_t end_bytes = pend->durable_position_bytes + pend->size_bytes;
    if (fate == FATE_SIZE_ONLY && end_bytes <= inode->durable.size_bytes) { fate = FATE_LOST; }
    switch (fate) {
    case FATE_LOST: world__count(world, WORLD_LOST_WRITE); break;
    case FATE_KEPT:
        world__pend_apply(inode, pend);
        world__count(world, WORLD_KEPT_WRITE);
        break;
    case FATE_TORN:
        tear(world, inode, pend);
        world__count(world, WORLD_TORN_WRITE);
        break;
    case FATE_HALF:
        world__content_write(&inode->durable, pend->durable_position_bytes, pend->bytes, pend->size_bytes / 2);
        world__count(world, WORLD_TORN_WRITE);
        break;
    case FATE_SIZE_ONLY:
        world__content_resize(&inode->durable, end_bytes);
        world__count(world, WORLD_SIZE_ONLY_WRITE);
        break;
    case FATE_IN_PLACE: return write_in_place(world, inode, pend);
    }
    return fate;
}

static enum fate settle_truncate(struct world *world, struct inode *inode, const struct pend *pend, enum fate fate)
{
    if (fate == FATE_LOST || fate == FATE_HALF || fate == FATE_IN_PLACE) {
        world__count(world, WORLD_LOST_TRUNCATE);
        return FATE_LOST;
    }
    world__pend_apply(inode, pend);
    world__count(world, WORLD_KEPT_TRUNCATE);
    return FATE_KEPT;
}

static uint64_t count_changes(const struct inode *inode)
{
    uint64_t count = 0;
    for (const struct pend *pend = inode->pends; pend != NULL; pend = pend->next) { count += 1; }
    for (const struct name_pend *pend = inode->name_pends; pend != NULL; pend = pend->next) { count += 1; }
    return count;
}

/* `first`: the number of its first change among all of the node's. */
static struct policy policy_of(struct world *world, const struct inode *inode, enum world_keep keep, uint64_t first)
{
    struct policy policy = {.keep = keep};
    uint64_t count = count_changes(inode);
    if (keep == WORLD_KEEP_PREFIX) { policy.prefix = world__draw(world, DICE_KEEP, count + 1); }
    if (keep < WORLD_KEEP_ONE) { return policy; }
    bool is_here = world->keep_at >= first && world->keep_at - first < count;
    policy.prefix = is_here ? world->keep_at - first : UINT64_MAX; /* none of these: TEAR_ONE keeps all of them */
    return policy;
}

static void cut_file(struct world *world, struct inode *inode, struct policy policy)
{
    bool has_gap = false;
    bool has_lost_cut = false;
    uint64_t index = 0;
    for (const struct pend *pend = inode->pends; pend != NULL; pend = pend->next) {
        enum fate fate = pend->is_void ? FATE_LOST : fate_of(world, &policy, index);
        fate = pend->kind == PEND_WRITE ? settle_write(world, inode, pend, fate)
                                        : settle_truncate(world, inode, pend, fate);
        if (has_gap && fate == FATE_KEPT) { world__count(world, WORLD_REORDERED_WRITE); }
        has_gap = has_gap || fate == FATE_LOST;
        if (has_lost_cut && pend->kind == PEND_WRITE && fate == FATE_KEPT) { world__count(world, WORLD_OUTLIVED_CUT); }
        has_lost_cut = has_lost_cut || (pend->kind == PEND_TRUNCATE && fate == FATE_LOST);
        index += 1;
    }
    world__pends_free(inode);
    if (inode->has_lost) { world__count(world, WORLD_OLD_BYTES); }
    world__content_resize(&inode->cached, 0);
    world__content_write(&inode->cached, 0, inode->durable.at, inode->durable.size_bytes);
    inode->allocated_bytes = base_min_u64(inode->allocated_bytes, inode->cached.size_bytes);
    world__inode_charge(inode);
}

/* ---- one directory ---- */

static void cut_names(struct world *world, struct inode *dir, struct policy policy)
{
    uint64_t index = 0;
    for (const struct name_pend *pend = dir->name_pends; pend != NULL; pend = pend->next) {
        enum fate fate = pend->is_void ? FATE_LOST : fate_of(world, &policy, index);
        if (policy.keep == WORLD_KEEP_NAMES && !pend->is_void) { fate = FATE_KEPT; }
        if (fate == FATE_HALF || fate == FATE_IN_PLACE) { fate = FATE_LOST; }
        if (fate == FATE_TORN || fate == FATE_SIZE_ONLY) { /* a name has no half */
            fate = world__draw(world, DICE_KEEP, 2) == 0 ? FATE_KEPT : FATE_LOST;
        }
        world__count(world, fate == FATE_KEPT ? WORLD_KEPT_NAME : WORLD_LOST_NAME);
        if (fate == FATE_KEPT) { world__name_apply(dir, pend); }
        index += 1;
    }
    world__name_pends_free(dir);
}

/* ---- the disk ---- */

static void hold_all(struct disk *disk)
{
    for (struct base_link *at = base_list_first(&disk->inodes); at != NULL; at = base_list_next(&disk->inodes, at)) {
        (void)world__inode_hold(BASE_ITEM(at, struct inode, in_disk));
    }
}

/* Gives back what hold_all took. One that goes lets go of others, so they are all noted first. */
static void release_all(struct disk *disk)
{
    uint32_t count = disk->inodes.count;
    struct inode **held = world__alloc(count * sizeof *held);
    uint32_t used = 0;
    for (struct base_link *at = base_list_first(&disk->inodes); at != NULL; at = base_list_next(&disk->inodes, at)) {
        held[used] = BASE_ITEM(at, struct inode, in_disk);
        used += 1;
    }
    for (uint32_t i = 0; i < count; i++) { world__inode_release(held[i]); } /* each is held until its own turn */
    free(held);
}

uint32_t world_unsynced(const struct world *world, uint32_t node)
{
    CHECK(node < world->node_count);
    uint64_t count = 0;
    for (uint32_t i = 0; i < world->nodes[node]->spec.disk_count; i++) {
        const struct base_list *inodes = &world->nodes[node]->disks[i].inodes;
        for (struct base_link *at = base_list_first(inodes); at != NULL; at = base_list_next(inodes, at)) {
            count += count_changes(BASE_ITEM(at, struct inode, in_disk));
        }
    }
    return (uint32_t)count;
}

/* One that the seed's share of such cuts says, or one of those that know no difference between bytes and sizes. */
static enum world_keep draw_keep(struct world *world)
{
    struct base_prng *dice = &world->apart_dice;
    if (world->knobs.apart_ppm > 0 && base_prng_chance(dice, world->knobs.apart_ppm, 1000000)) {
        return base_prng_chance(dice, 1, 2) ? WORLD_KEEP_BYTES : WORLD_KEEP_NAMES;
    }
    static const enum world_keep keeps[] = {WORLD_KEEP_NOTHING, WORLD_KEEP_ALL, WORLD_KEEP_EACH, WORLD_KEEP_EACH,
                                            WORLD_KEEP_PREFIX};
    return keeps[world__draw(world, DICE_KEEP, BASE_ARRAY_COUNT(keeps))];
}

/* `first` of the disk's first file; that of the next disk's comes back. */
uint64_t world__power_cut(struct world *world, struct disk *disk, uint64_t first)
{
    enum world_keep planned = disk->node->cut_keep;
    enum world_keep keep = planned == WORLD_KEEP_ANY ? world->knobs.keep : planned;
    if (keep == WORLD_KEEP_ANY) { keep = draw_keep(world); }
    if (keep == WORLD_KEEP_BYTES) { world__count(world, WORLD_APART_BYTES); }
    if (keep == WORLD_KEEP_NAMES) { world__count(world, WORLD_APART_NAMES); }
    hold_all(disk);
    for (struct base_link *at = base_list_first(&disk->inodes); at != NULL; at = base_list_next(&disk->inodes, at)) {
        struct inode *inode = BASE_ITEM(at, struct inode, in_disk);
        if (!inode->is_dirty) { continue; }
        struct policy policy = policy_of(world, inode, keep, first);
        first += count_changes(inode);
        if (inode->is_dir) {
            cut_names(world, inode, policy);
        } else {
            cut_file(world, inode, policy);
        }
        inode->has_error = false;
        inode->has_lost = false;
    }
    for (struct base_link *at = base_list_first(&disk->inodes); at != NULL; at = base_list_next(&disk->inodes, at)) {
        struct inode *inode = BASE_ITEM(at, struct inode, in_disk);
        if (inode->is_dir && inode->is_dirty) { world__names_show_durable(inode); }
        inode->is_dirty = false;
    }
    release_all(disk);
    disk->stalled_until_ns = 0;
    if (world__hit(world, WORLD_DISK_ROT)) { (void)world_rot(world, disk->node->index, disk->index); }
    return first;
}

static void evict_file(struct inode *inode)
{
    world__content_resize(&inode->cached, 0);
    world__content_write(&inode->cached, 0, inode->durable.at, inode->durable.size_bytes);
    for (const struct pend *pend = inode->pends; pend != NULL; pend = pend->next) {
        if (pend->is_void) { continue; }
        if (pend->kind == PEND_WRITE) {
            world__content_write(&inode->cached, pend->position_bytes, pend->bytes, pend->size_bytes);
        } else {
            world__content_resize(&inode->cached, pend->position_bytes);
        }
    }
    inode->has_lost = false;
    world__count(inode->disk->world, WORLD_OLD_BYTES);
    world__inode_charge(inode);
}

void world__evict(struct disk *disk)
{
    hold_all(disk);
    for (struct base_link *at = base_list_first(&disk->inodes); at != NULL; at = base_list_next(&disk->inodes, at)) {
        struct inode *inode = BASE_ITEM(at, struct inode, in_disk);
        if (!inode->is_dir && inode->has_lost) { evict_file(inode); }
    }
    world__names_evict(disk);
    release_all(disk);
}

/* The process is gone, the system is not: what it had done is done, and the next process's syncs cover it. */
void world__disk_outlives(struct disk *disk)
{
    for (struct base_link *at = base_list_first(&disk->inodes); at != NULL; at = base_list_next(&disk->inodes, at)) {
        struct inode *inode = BASE_ITEM(at, struct inode, in_disk);
        inode->told_seq = inode->seq;
    }
}

bool world_hides_error(const struct world *world, uint32_t node)
{
    CHECK(node < world->node_count);
    for (uint32_t i = 0; i < world->nodes[node]->spec.disk_count; i++) {
        const struct disk *disk = &world->nodes[node]->disks[i];
        for (struct base_link *at = base_list_first(&disk->inodes); at != NULL;
             at = base_list_next(&disk->inodes, at)) {
            if (BASE_ITEM(at, struct inode, in_disk)->has_error) { return true; }
        }
    }
    return false;
}

/* ---- rot, wiping, looking on ---- */

static struct disk *disk_at(const struct world *world, uint32_t node, uint32_t disk)
{
    CHECK(node < world->node_count);
    CHECK(disk < world->nodes[node]->spec.disk_count);
    return &world->nodes[node]->disks[disk];
}

static void flip(struct world *world, struct inode *inode, uint64_t position_bytes, bool in_cache)
{
    uint8_t bit = (uint8_t)(1u << world__draw(world, DICE_PART, 8));
    if (position_bytes < inode->durable.size_bytes) { inode->durable.at[position_bytes] ^= bit; }
    if (in_cache) {
        inode->cached.at[position_bytes] ^= bit;
    } else {
        inode->is_dirty = true; /* the next power cut shows it, whatever is synced till then */
        inode->has_lost = true;
    }
}

bool world_rot(struct world *world, uint32_t node, uint32_t disk)
{
    uint64_t total_bytes = 0;
    struct disk *rotten = disk_at(world, node, disk);
    for (struct base_link *at = base_list_first(&rotten->inodes); at != NULL;
         at = base_list_next(&rotten->inodes, at)) {
        total_bytes += BASE_ITEM(at, struct inode, in_disk)->durable.size_bytes;
    }
    if (total_bytes == 0) { return false; }
    uint64_t left_bytes = world__draw(world, DICE_PART, total_bytes);
    for (struct base_link *at = base_list_first(&rotten->inodes); at != NULL;
         at = base_list_next(&rotten->inodes, at)) {
        struct inode *inode = BASE_ITEM(at, struct inode, in_disk);
        if (left_bytes < inode->durable.size_bytes) {
            bool is_seen =
                left_bytes < inode->cached.size_bytes && inode->pends == NULL && world__draw(world, DICE_PART, 2) == 0;
            flip(world, inode, left_bytes, is_seen || world->nodes[node]->state != WORLD_UP);
            return true;
        }
        left_bytes -= inode->durable.size_bytes;
    }
    return false;
}

bool world_rot_at(struct world *world, uint32_t node, uint32_t disk, const char *path, uint64_t position_bytes)
{
    struct inode *inode = world__lookup(disk_at(world, node, disk), path, false);
    if (inode == NULL || position_bytes >= inode->cached.size_bytes) { return false; }
    flip(world, inode, position_bytes, true);
    world__count(world, WORLD_DISK_ROT);
    return true;
}

void world_wipe(struct world *world, uint32_t node, uint32_t disk)
{
    CHECK(world_node_state(world, node) != WORLD_UP);
    struct disk *wiped = disk_at(world, node, disk);
    uint64_t capacity_bytes = wiped->capacity_bytes;
    world__disk_destroy(wiped);
    world__disk_create(world, world->nodes[node], disk);
    wiped->capacity_bytes = capacity_bytes;
}

bool world_file_view(const struct world *world, uint32_t node, uint32_t disk, const char *path,
                     struct base_slice *bytes_out)
{
    const struct inode *inode = world__lookup(disk_at(world, node, disk), path, false);
    if (inode == NULL) { return false; }
    *bytes_out = base_slice_of(inode->cached.at, inode->cached.size_bytes);
    return true;
}

bool world_file_durable(const struct world *world, uint32_t node, uint32_t disk, const char *path,
                        struct base_slice *bytes_out)
{
    const struct inode *inode = world__lookup(disk_at(world, node, disk), path, true);
    if (inode == NULL) { return false; }
    *bytes_out = base_slice_of(inode->durable.at, inode->durable.size_bytes);
    return true;
}

void world_file_put(struct world *world, uint32_t node, uint32_t disk, const char *path, struct base_slice bytes)
{
    struct inode *inode = world__make_path(disk_at(world, node, disk), path, strlen(path));
    CHECK(!inode->is_dir);
    world__pends_free(inode);
    world__content_resize(&inode->cached, 0);
    world__content_write(&inode->cached, 0, bytes.at, bytes.size_bytes);
    world__content_resize(&inode->durable, 0);
    world__content_write(&inode->durable, 0, bytes.at, bytes.size_bytes);
    world__inode_charge(inode);
}

struct walk {
    char path[4096];
    size_t used_bytes;
    void (*call)(void *context, const char *path, uint64_t size_bytes);
    void *context;
};

static void walk_dir(struct walk *walk, const struct inode *dir)
{
    for (uint32_t i = 0; i < dir->names.count; i++) {
        const struct entry *entry = &dir->names.at[i];
        size_t before_bytes = walk->used_bytes;
        if (before_bytes + entry->name_bytes + 2 > sizeof walk->path) { continue; }
        memcpy(walk->path + before_bytes, entry->name, entry->name_bytes);
        walk->used_bytes += entry->name_bytes;
        walk->path[walk->used_bytes] = '\0';
        if (entry->inode->is_dir) {
            walk->path[walk->used_bytes] = '/';
            walk->used_bytes += 1;
            walk_dir(walk, entry->inode); /* as deep as the tree: tests make no deep ones */
        } else {
            walk->call(walk->context, walk->path, entry->inode->cached.size_bytes);
        }
        walk->used_bytes = before_bytes;
    }
}

void world_files(const struct world *world, uint32_t node, uint32_t disk,
                 void (*call)(void *context, const char *path, uint64_t size_bytes), void *context)
{
    struct walk walk = {.call = call, .context = context};
    walk_dir(&walk, disk_at(world, node, disk)->root);
}
