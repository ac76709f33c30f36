/* file.c: effects on open files: their order, their delays, their faults; leases of ranges that are being sent.
 *
 * Room    sim/world, private; see world__world.h.
 * Order   writes, truncates and allocations of a file run one at a time, as asked (`changes`). A truncate waits for the
 *         syncs that run; a sync waits for the truncates that were asked and are not done. Reads go beside.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <stdlib.h>
#include <string.h>

uint64_t world__disk_delay_ns(struct world *world, struct disk *disk, bool is_sync)
{
    const struct world_knobs *knobs = &world->knobs;
    uint64_t delay_ns =
        is_sync ? world__between(world, DICE_DISK_DELAY, knobs->sync_delay_min_ns, knobs->sync_delay_max_ns)
                : world__between(world, DICE_DISK_DELAY, knobs->disk_delay_min_ns, knobs->disk_delay_max_ns);
    if (world__hit(world, WORLD_DISK_SLOW)) { delay_ns += world__slow_ns(world, DICE_DISK_DELAY); }
    if (world__hit(world, WORLD_DISK_STALL)) {
        disk->stalled_until_ns = world->now_ns + world__slow_ns(world, DICE_DISK_DELAY);
    }
    if (disk->stalled_until_ns > world->now_ns) { delay_ns += disk->stalled_until_ns - world->now_ns; }
    return delay_ns;
}

/* ---- handles ---- */

void world__file_open(struct world *world, struct op *op, struct inode *inode)
{
    (void)world;
    struct handle *handle = world__alloc(sizeof *handle);
    handle->inode = world__inode_hold(inode);
    handle->ref = op->ref;
    handle->node = op->shard->node;
    handle->can_write = (op->effect.flags & PORT_OPEN_WRITE) != 0;
    base_list_init(&handle->changes);
    base_list_init(&handle->held_syncs);
    handle->node->handles += 1;
    op->ref->handle = handle;
}

void world__handle_free(struct world *world, struct handle *handle)
{
    (void)world;
    CHECK(base_list_is_empty(&handle->changes));
    CHECK(base_list_is_empty(&handle->held_syncs));
    handle->node->handles -= handle->node->handles > 0 ? 1 : 0;
    world__inode_release(handle->inode);
    free(handle);
}

/* ---- leases ---- */

static struct handle *handle_of(struct node *node, struct port_file file)
{
    if (file.shard >= node->spec.shard_count) { return NULL; }
    struct ref *ref = world__ref(&node->shards[file.shard], REF_FILE, file.slot);
    bool is_open = ref != NULL && ref->state == REF_OPEN && ref->generation == file.generation;
    return is_open ? ref->handle : NULL;
}

uint64_t world_size_of(const struct world *world, uint32_t node, struct port_file file)
{
    CHECK(node < world->node_count);
    const struct handle *handle = handle_of(world->nodes[node], file);
    return handle == NULL ? 0 : handle->inode->cached.size_bytes;
}

bool world__leases_take(struct world *world, struct op *op)
{
    uint32_t range_count = 0;
    for (uint32_t i = 0; i < op->effect.piece_count; i++) {
        range_count += op->effect.pieces[i].kind == PORT_RANGE ? 1 : 0;
    }
    if (range_count == 0) { return true; }
    op->leases = world__alloc(op->effect.piece_count * sizeof *op->leases);
    op->lease_count = op->effect.piece_count;
    for (uint32_t i = 0; i < op->effect.piece_count; i++) {
        const struct port_piece *piece = &op->effect.pieces[i];
        if (piece->kind != PORT_RANGE) { continue; }
        struct handle *handle = handle_of(op->shard->node, piece->file);
        if (handle == NULL) {
            world__breach(world, op->shard, "SEND names file %u:%u.%u, which is not open", (unsigned)piece->file.shard,
                          (unsigned)piece->file.slot, (unsigned)piece->file.generation);
            return false;
        }
        uint64_t end_bytes = piece->position_bytes + piece->size_bytes;
        if (end_bytes < piece->position_bytes || end_bytes > handle->inode->cached.size_bytes) {
            world__breach(world, op->shard, "SEND of a range that ends at %llu of a file of %llu bytes",
                          (unsigned long long)end_bytes, (unsigned long long)handle->inode->cached.size_bytes);
            return false;
        }
        struct lease *lease = &op->leases[i];
        lease->inode = world__inode_hold(handle->inode);
        lease->op = op;
        lease->start_bytes = piece->position_bytes;
        lease->end_bytes = end_bytes;
        base_list_push_back(&lease->inode->leases, &lease->in_inode);
    }
    return true;
}

void world__leases_give(struct op *op)
{
    for (uint32_t i = 0; i < op->lease_count; i++) {
        struct lease *lease = &op->leases[i];
        if (lease->inode == NULL) { continue; }
        base_list_remove(&lease->inode->leases, &lease->in_inode);
        world__inode_release(lease->inode);
    }
    free(op->leases);
    op->leases = NULL;
    op->lease_count = 0;
}

uint64_t world__range_read(struct world *world, struct op *op, uint8_t *to, uint64_t size_bytes)
{
    const struct port_piece *piece = &op->effect.pieces[op->piece_at];
    struct lease *lease = &op->leases[op->piece_at];
    const struct content *content = &lease->inode->cached;
    uint64_t position_bytes = piece->position_bytes + op->piece_used;
    if (lease->is_broken || position_bytes >= content->size_bytes) { return 0; }
    if (world__hit(world, WORLD_DISK_EIO_READ)) { return 0; }
    uint64_t count = base_min_u64(size_bytes, content->size_bytes - position_bytes);
    memcpy(to, content->at + position_bytes, count);
    lease->start_bytes = position_bytes + count;
    return count;
}

static void report_lease(struct world *world, const struct op *op, const struct lease *lease, const char *what)
{
    world__breach(world, op->shard,
                  "lease broken: %s while bytes %llu to %llu of the file are still being sent (SEND token=%llu)", what,
                  (unsigned long long)lease->start_bytes, (unsigned long long)lease->end_bytes,
                  (unsigned long long)lease->op->effect.token);
}

/* Bytes from `from` to `to` are about to change, or to go. */
static void check_leases(struct world *world, const struct op *op, struct inode *inode, uint64_t from, uint64_t to,
                         bool is_cut)
{
    for (struct base_link *at = base_list_first(&inode->leases); at != NULL; at = base_list_next(&inode->leases, at)) {
        struct lease *lease = BASE_ITEM(at, struct lease, in_inode);
        if (lease->is_broken || from >= lease->end_bytes || to <= lease->start_bytes) { continue; }
        report_lease(world, op, lease, is_cut ? "TRUNCATE" : "WRITE");
        lease->is_broken = is_cut;
    }
}

static void break_leases_of(struct world *world, const struct op *closing, struct handle *handle)
{
    struct inode *inode = handle->inode;
    for (struct base_link *at = base_list_first(&inode->leases); at != NULL; at = base_list_next(&inode->leases, at)) {
        struct lease *lease = BASE_ITEM(at, struct lease, in_inode);
        const struct port_piece *piece = &lease->op->effect.pieces[lease - lease->op->leases];
        bool is_same = piece->file.shard == closing->shard->index && piece->file.slot == handle->ref->slot &&
                       piece->file.generation == handle->ref->generation;
        if (!is_same || lease->is_broken || lease->start_bytes == lease->end_bytes) { continue; }
        report_lease(world, closing, lease, "CLOSE_FILE");
        lease->is_broken = true;
    }
}

/* ---- writes, truncates, allocations ---- */

static uint64_t pieces_bytes(const struct port_effect *effect)
{
    uint64_t size_bytes = 0;
    for (uint32_t i = 0; i < effect->piece_count; i++) { size_bytes += effect->pieces[i].size_bytes; }
    return size_bytes;
}

/* How much of [position, position + size) the disk has room for. */
static uint64_t fitting_bytes(struct world *world, const struct inode *inode, uint64_t position_bytes,
                              uint64_t size_bytes)
{
    if (position_bytes > world->knobs.file_max_bytes) { return 0; }
    size_bytes = base_min_u64(size_bytes, world->knobs.file_max_bytes - position_bytes);
    uint64_t end_max_bytes = inode->charged_bytes + world__disk_room(inode->disk);
    if (position_bytes >= end_max_bytes) { return 0; }
    return base_min_u64(size_bytes, end_max_bytes - position_bytes);
}

static void put_pieces(struct inode *inode, const struct port_effect *effect, uint64_t size_bytes)
{
    if (effect->piece_count == 1) {
        world__inode_write(inode, effect->position_bytes, effect->pieces[0].at, size_bytes);
        return;
    }
    uint8_t *joined = world__alloc(size_bytes); /* one write is one change, however many pieces it came in */
    uint64_t used_bytes = 0;
    for (uint32_t i = 0; i < effect->piece_count && used_bytes < size_bytes; i++) {
        uint64_t part_bytes = base_min_u64(effect->pieces[i].size_bytes, size_bytes - used_bytes);
        if (part_bytes > 0) { memcpy(joined + used_bytes, effect->pieces[i].at, part_bytes); }
        used_bytes += part_bytes;
    }
    world__inode_write(inode, effect->position_bytes, joined, size_bytes);
    free(joined);
}

static void run_write(struct world *world, struct op *op, struct inode *inode)
{
    const struct port_effect *effect = &op->effect;
    uint64_t asked_bytes = pieces_bytes(effect);
    uint64_t size_bytes = fitting_bytes(world, inode, effect->position_bytes, asked_bytes);
    enum port_rc rc = PORT_OK;
    if (asked_bytes > 0 && (size_bytes == 0 || world__hit(world, WORLD_DISK_NO_SPACE))) {
        rc = PORT_NO_SPACE;
        size_bytes = 0;
    } else if (world__hit(world, WORLD_DISK_EIO_WRITE)) {
        rc = PORT_IO;
        size_bytes = world__draw(world, DICE_PART, size_bytes + 1);
    } else if (size_bytes > 1 && world__hit(world, WORLD_DISK_SHORT_WRITE)) {
        size_bytes = 1 + world__draw(world, DICE_PART, size_bytes);
    }
    if (size_bytes > 0) {
        check_leases(world, op, inode, effect->position_bytes, effect->position_bytes + size_bytes, false);
        put_pieces(inode, effect, size_bytes);
        op->inode = world__inode_hold(inode);
        op->cover = inode->seq;
        if (world__hit(world, WORLD_DISK_EIO_BACK)) {
            world__inode_lose(inode, inode->seq);
            inode->has_error = true;
        }
    }
    world__op_done(world, op, rc, rc == PORT_OK ? size_bytes : 0);
}

static void run_truncate(struct world *world, struct op *op, struct handle *handle)
{
    struct inode *inode = handle->inode;
    uint64_t size_bytes = op->effect.position_bytes;
    handle->truncates_waiting -= 1;
    enum port_rc rc = PORT_OK;
    if (size_bytes > world->knobs.file_max_bytes) {
        rc = PORT_NO_SPACE;
    } else if (world__hit(world, WORLD_DISK_EIO_WRITE)) {
        rc = PORT_IO;
    } else {
        check_leases(world, op, inode, size_bytes, UINT64_MAX, true);
        world__inode_resize(inode, size_bytes);
        op->inode = world__inode_hold(inode);
        op->cover = inode->seq;
    }
    world__op_done(world, op, rc, 0);
}

static void run_allocate(struct world *world, struct op *op, struct inode *inode)
{
    uint64_t size_bytes = op->effect.size_bytes;
    uint64_t fits_bytes = fitting_bytes(world, inode, op->effect.position_bytes, size_bytes);
    enum port_rc rc = PORT_OK;
    if (fits_bytes < size_bytes || world__hit(world, WORLD_DISK_NO_SPACE)) {
        rc = PORT_NO_SPACE;
    } else if (world__hit(world, WORLD_DISK_EIO_WRITE)) {
        rc = PORT_IO;
    } else {
        inode->allocated_bytes = base_max_u64(inode->allocated_bytes, op->effect.position_bytes + size_bytes);
        world__inode_charge(inode);
    }
    world__op_done(world, op, rc, 0);
}

static void run_held_syncs(struct world *world, struct handle *handle);

static void run_change(struct world *world, struct op *op)
{
    struct handle *handle = op->ref->handle;
    switch ((int)op->effect.kind) {
    case PORT_WRITE: run_write(world, op, handle->inode); break;
    case PORT_TRUNCATE:
        run_truncate(world, op, handle);
        run_held_syncs(world, handle);
        break;
    case PORT_ALLOCATE: run_allocate(world, op, handle->inode); break;
    default: UNREACHABLE();
    }
}

static void run_changes(struct world *world, struct handle *handle);

static void change_fire(struct world *world, struct timer *timer)
{
    struct op *op = BASE_ITEM(timer, struct op, timer);
    struct handle *handle = op->ref->handle;
    handle->is_running = false;
    run_change(world, op);
    run_changes(world, handle);
}

static bool is_at_once(const struct op *op) { return op->effect.where == PORT_ON_SHARD && !op->is_late; }

/* Carries out what may run now, in order. */
static void run_changes(struct world *world, struct handle *handle)
{
    while (!handle->is_running && !base_list_is_empty(&handle->changes)) {
        struct op *op = BASE_ITEM(base_list_first(&handle->changes), struct op, in_queue);
        struct disk *disk = handle->inode->disk;
        if (op->effect.kind == PORT_TRUNCATE && handle->syncs_running > 0) { return; }
        uint64_t delay_ns = world__disk_delay_ns(world, disk, false);
        if (!is_at_once(op)) {
            handle->is_running = true;
            world__timer_set(world, &op->timer, world->now_ns + delay_ns, change_fire);
            return;
        }
        struct shard *shard = op->shard; /* a disk that stands still holds the shard that writes to it */
        shard->free_at_ns = base_max_u64(shard->free_at_ns, disk->stalled_until_ns);
        run_change(world, op);
    }
}

static void start_change(struct world *world, struct op *op)
{
    struct handle *handle = op->ref->handle;
    if (!handle->can_write) {
        world__op_done(world, op, PORT_DENIED, 0);
        return;
    }
    for (uint32_t i = 0; op->effect.kind == PORT_WRITE && i < op->effect.piece_count; i++) {
        if (op->effect.pieces[i].kind == PORT_MEMORY) { continue; }
        world__breach(world, op->shard, "WRITE of a range");
        world__op_done(world, op, PORT_OTHER, 0);
        return;
    }
    if (op->effect.kind == PORT_TRUNCATE) { handle->truncates_waiting += 1; }
    op->queue = &handle->changes;
    base_list_push_back(&handle->changes, &op->in_queue);
    run_changes(world, handle);
}

/* ---- syncs ---- */

static void sync_fire(struct world *world, struct timer *timer)
{
    struct op *op = BASE_ITEM(timer, struct op, timer);
    struct handle *handle = op->ref->handle;
    struct inode *inode = handle->inode;
    enum port_rc rc = PORT_OK;
    handle->syncs_running -= 1;
    if (inode->has_error) {
        inode->has_error = false;
        rc = PORT_IO;
    } else if (world__hit(world, WORLD_DISK_EIO_SYNC)) {
        world__inode_lose(inode, inode->seq);
        rc = PORT_IO;
    } else if (!world__hit(world, WORLD_DISK_SYNC_LIES)) {
        uint64_t more = inode->seq > op->cover ? inode->seq - op->cover : 0;
        bool is_exact = more == 0 || world__draw(world, DICE_COVER, 4) > 0;
        world__inode_sync(inode, op->cover + (is_exact ? 0 : world__draw(world, DICE_COVER, more + 1)));
    }
    world__op_done(world, op, rc, 0);
    run_changes(world, handle);
}

static void run_sync(struct world *world, struct op *op)
{
    struct handle *handle = op->ref->handle;
    handle->syncs_running += 1;
    uint64_t delay_ns = world__disk_delay_ns(world, handle->inode->disk, true);
    world__timer_set(world, &op->timer, world->now_ns + delay_ns, sync_fire);
}

static void run_held_syncs(struct world *world, struct handle *handle)
{
    if (handle->truncates_waiting > 0) { return; }
    while (!base_list_is_empty(&handle->held_syncs)) {
        struct op *op = BASE_ITEM(base_list_first(&handle->held_syncs), struct op, in_queue);
        base_list_remove(&handle->held_syncs, &op->in_queue);
        op->queue = NULL;
        run_sync(world, op);
    }
}

static void start_sync(struct world *world, struct op *op)
{
    struct handle *handle = op->ref->handle;
    op->inode = world__inode_hold(handle->inode);
    op->cover = handle->inode->told_seq;
    if (handle->truncates_waiting == 0) {
        run_sync(world, op);
        return;
    }
    op->queue = &handle->held_syncs;
    base_list_push_back(&handle->held_syncs, &op->in_queue);
}

/* ---- reads ---- */

static void run_read(struct world *world, struct op *op)
{
    const struct content *content = &op->ref->handle->inode->cached;
    if (world__hit(world, WORLD_DISK_EIO_READ)) {
        world__op_done(world, op, PORT_IO, 0);
        return;
    }
    if (world__hit(world, WORLD_DISK_NO_MEMORY)) {
        world__op_done(world, op, PORT_NO_MEMORY, 0);
        return;
    }
    uint64_t count = 0;
    if (op->effect.position_bytes < content->size_bytes) {
        count = base_min_u64(op->effect.size_bytes, content->size_bytes - op->effect.position_bytes);
    }
    if (count > 1 && world__hit(world, WORLD_DISK_SHORT_READ)) { count = 1 + world__draw(world, DICE_PART, count); }
    if (count > 0) {
        world__fill_begin(world, op);
        memcpy(op->effect.buffer, content->at + op->effect.position_bytes, count);
        world__fill_end(world, op);
    }
    world__op_done(world, op, PORT_OK, count);
}

static void read_fire(struct world *world, struct timer *timer) { run_read(world, BASE_ITEM(timer, struct op, timer)); }

static void start_read(struct world *world, struct op *op)
{
    uint64_t delay_ns = world__disk_delay_ns(world, op->ref->handle->inode->disk, false);
    if (is_at_once(op)) {
        run_read(world, op);
    } else {
        world__timer_set(world, &op->timer, world->now_ns + delay_ns, read_fire);
    }
}

/* ---- the ways in ---- */

void world__file_effect(struct world *world, struct op *op)
{
    op->is_late = op->effect.where == PORT_ON_SHARD && world__hit(world, WORLD_DISK_LATE);
    switch ((int)op->effect.kind) {
    case PORT_READ: start_read(world, op); break;
    case PORT_WRITE:
    case PORT_TRUNCATE:
    case PORT_ALLOCATE: start_change(world, op); break;
    case PORT_SYNC: start_sync(world, op); break;
    default: UNREACHABLE();
    }
}

void world__file_close(struct world *world, struct ref *ref)
{
    if (ref->handle != NULL) { break_leases_of(world, ref->closing, ref->handle); }
}
