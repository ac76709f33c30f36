/* pages.h: buffers of any size out of one region: a buddy allocator of 4 KiB pages with the tail given back.
 *
 * Room    core/base.
 * Owns    the region between create and the end of the node; blocks are lent out of it.
 * Budget  three classes: control, replication and clients. A class may take what is free less what is reserved for the
 *         classes before it, so that clients can never starve control.
 * Order   of blocks of at most 8 pages the one given back last, 64 pages of all such, of all else the lowest address first, so
 *         that memory once touched is touched again and the rest costs nothing. The answer depends on the sequence of calls
 *         alone, never on an address.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include "base/arena.h"

#define BASE_PAGE_BYTES ((size_t)4096)

enum base_class { BASE_CONTROL = 0, BASE_REPLICATION = 1, BASE_CLIENTS = 2 };
#define BASE_CLASS_COUNT 3

struct base_pages;

/* Lays the allocator out in `region` (its own tables included, zero-filled by contract).
 * reserve_bytes[c]: what class c may take that later classes never can.
 * Fails   BASE_FULL: the region is smaller than the tables and 16 pages, or the reserves are more than it holds. */
MUST_USE
enum base_rc base_pages_create(struct base_region region, const size_t reserve_bytes[BASE_CLASS_COUNT],
                               struct base_pages **pages_out);

/* The tables lie within so many first bytes of such a region: what is used again may have the rest as it is. */
size_t base_pages_tables_bytes(size_t region_bytes);

/* A block of at least `size_bytes` (> 0), rounded up to whole pages, contents undefined. NULL: no room for this class. */
MUST_USE
void *base_pages_take(struct base_pages *pages, enum base_class class, size_t size_bytes);
/* Gives back a block: the very pointer that take returned. The class it was taken from is remembered. */
void base_pages_give(struct base_pages *pages, void *block);
/* Shrinks a block in place to at least `size_bytes` (> 0, not more than it has): its tail pages are free again. */
void base_pages_shrink(struct base_pages *pages, void *block, size_t size_bytes);
/* Shrinks a block that nobody else points into: in place, or into a page that was given back before, with its first `size_bytes`,
 * which is cheaper. Returns where it is now; `block` is not to be used any more. */
MUST_USE
void *base_pages_squeeze(struct base_pages *pages, void *block, size_t size_bytes);

/* For tests and the simulator: of the takings from now on, the `from`-th (1 first) and those after it, `count` of them, find no
 * room. Whoever takes must live with that at any time. 0: none. */
void base_pages_refuse(struct base_pages *pages, uint64_t from, uint32_t count);
uint32_t base_pages_refusals_left(const struct base_pages *pages);
uint32_t base_pages_refused(const struct base_pages *pages); /* so far */

uint64_t base_pages_missed(const struct base_pages *pages); /* takings that found no room, ever; for what reason ever */
size_t base_pages_block_bytes(const struct base_pages *pages, const void *block);
size_t base_pages_used_bytes(const struct base_pages *pages); /* all classes */
size_t base_pages_class_bytes(const struct base_pages *pages, enum base_class class);
/* What the class may still take, fragmentation aside. */
size_t base_pages_room_bytes(const struct base_pages *pages, enum base_class class);
/* Blocks out: 0 at quiescence but for the long-lived. */
uint32_t base_pages_block_count(const struct base_pages *pages);

#endif
