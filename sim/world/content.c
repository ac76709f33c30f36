/* content.c: the bytes of a file: what a reader sees (cached), what a power cut leaves (durable), and the changes between.
 *
 * Room    sim/world, private; see world__world.h.
 * Model   a change goes to the cache at once and waits as a `pend`. A sync applies pends up to a point to the durable bytes,
 *         in order. A failed sync or write-back drops them: the cache still shows them, clean, until a power cut.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <stdlib.h>
#include <string.h>

/* ---- bytes ---- */

void world__content_resize(struct content *content, uint64_t size_bytes)
{
    if (size_bytes > content->room_bytes) {
        uint64_t room_bytes = content->room_bytes == 0 ? 256 : content->room_bytes;
        while (room_bytes < size_bytes) { room_bytes *= 2; }
        content->at = world__grow(content->at, room_bytes);
        content->room_bytes = room_bytes;
    }
    if (size_bytes > content->size_bytes) {
        memset(content->at + content->size_bytes, 0, size_bytes - content->size_bytes);
    }
    content->size_bytes = size_bytes;
}

void world__content_write(struct content *content, uint64_t position_bytes, const uint8_t *at, uint64_t size_bytes)
{
    if (size_bytes == 0) { return; }
    if (position_bytes + size_bytes > content->size_bytes) {
        world__content_resize(content, position_bytes + size_bytes);
    }
    memcpy(content->at + position_bytes, at, size_bytes);
}

void world__content_free(struct content *content)
{
    free(content->at);
    *content = (struct content){0};
}

/* ---- inodes ---- */

struct inode *world__inode_create(struct disk *disk, bool is_dir)
{
    struct inode *inode = world__alloc(sizeof *inode);
    inode->disk = disk;
    inode->is_dir = is_dir;
    base_list_init(&inode->leases);
    base_list_push_back(&disk->inodes, &inode->in_disk);
    return inode;
}

void world__inode_release(struct inode *inode)
{
    CHECK(inode->refs > 0);
    inode->refs -= 1;
    if (inode->refs > 0) { return; }
    inode->refs = 1; /* letting go of its entries must not come back here */
    world__entries_clear(&inode->names);
    world__entries_clear(&inode->durable_names);
    world__name_pends_free(inode);
    world__pends_free(inode);
    CHECK(inode->refs == 1);
    world__content_free(&inode->cached);
    world__content_free(&inode->durable);
    inode->disk->used_bytes -= inode->charged_bytes;
    base_list_remove(&inode->disk->inodes, &inode->in_disk);
    free(inode);
}

void world__inode_charge(struct inode *inode)
{
    uint64_t charged_bytes = base_max_u64(inode->cached.size_bytes, inode->allocated_bytes);
    inode->disk->used_bytes = inode->disk->used_bytes - inode->charged_bytes + charged_bytes;
    inode->charged_bytes = charged_bytes;
}

uint64_t world__disk_room(const struct disk *disk)
{
    if (disk->is_full) { return 0; }
    if (disk->capacity_bytes == 0) { return UINT64_MAX / 2; }
    return disk->used_bytes < disk->capacity_bytes ? disk->capacity_bytes - disk->used_bytes : 0;
}

/* ---- changes ---- */

static struct pend *pend_add(struct inode *inode, enum pend_kind kind, uint64_t position_bytes, uint64_t size_bytes)
{
    size_t copied_bytes = kind == PEND_WRITE ? size_bytes : 0;
    struct pend *pend = malloc(sizeof *pend + copied_bytes);
    CHECK(pend != NULL);
    inode->seq += 1;
    *pend = (struct pend){.seq = inode->seq,
                          .kind = kind,
                          .position_bytes = position_bytes,
                          .size_bytes = size_bytes,
                          .durable_position_bytes = position_bytes};
    if (inode->pends == NULL) {
        inode->pends = pend;
    } else {
        inode->pends_tail->next = pend;
    }
    inode->pends_tail = pend;
    inode->is_dirty = true;
    return pend;
}

void world__inode_write(struct inode *inode, uint64_t position_bytes, const uint8_t *at, uint64_t size_bytes)
{
    struct world *world = inode->disk->world;
    world__content_write(&inode->cached, position_bytes, at, size_bytes);
    world__inode_charge(inode);
    struct pend *pend = pend_add(inode, PEND_WRITE, position_bytes, size_bytes);
    memcpy(pend->bytes, at, size_bytes);
    pend->is_void = world__hit(world, WORLD_DISK_LOST_WRITE);
    if (world__hit(world, WORLD_DISK_MISDIRECTED)) {
        pend->durable_position_bytes = world__draw(world, DICE_PART, inode->cached.size_bytes / 512 + 1) * 512;
    }
}

void world__inode_resize(struct inode *inode, uint64_t size_bytes)
{
    world__content_resize(&inode->cached, size_bytes);
    if (inode->allocated_bytes > size_bytes) { inode->allocated_bytes = size_bytes; }
    world__inode_charge(inode);
    (void)pend_add(inode, PEND_TRUNCATE, size_bytes, 0);
}

void world__pend_apply(struct inode *inode, const struct pend *pend)
{
    switch (pend->kind) {
    case PEND_WRITE:
        world__content_write(&inode->durable, pend->durable_position_bytes, pend->bytes, pend->size_bytes);
        break;
    case PEND_TRUNCATE: world__content_resize(&inode->durable, pend->position_bytes); break;
    }
}

static struct pend *pend_pop(struct inode *inode)
{
    struct pend *pend = inode->pends;
    inode->pends = pend->next;
    if (inode->pends == NULL) { inode->pends_tail = NULL; }
    return pend;
}

void world__inode_sync(struct inode *inode, uint64_t cover_seq)
{
    while (inode->pends != NULL && inode->pends->seq <= cover_seq) {
        struct pend *pend = pend_pop(inode);
        if (pend->is_void) {
            inode->has_lost = true;
        } else {
            world__pend_apply(inode, pend);
            inode->has_lost = inode->has_lost || pend->durable_position_bytes != pend->position_bytes;
        }
        free(pend);
    }
    if (inode->pends == NULL && !inode->has_lost) { inode->is_dirty = false; }
}

/* Some of it may have reached the disk before the failure. */
void world__inode_lose(struct inode *inode, uint64_t until_seq)
{
    struct world *world = inode->disk->world;
    while (inode->pends != NULL && inode->pends->seq <= until_seq) {
        struct pend *pend = pend_pop(inode);
        if (world__draw(world, DICE_KEEP, 4) == 0) {
            world__pend_apply(inode, pend);
        } else {
            inode->has_lost = true;
        }
        free(pend);
    }
}

void world__pends_free(struct inode *inode)
{
    while (inode->pends != NULL) { free(pend_pop(inode)); }
}
