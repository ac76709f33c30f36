/* pages.c: see pages.h.
 *
 * A binary tree stands over the pages: a node of order k covers 2^k pages and holds how much smaller than 2^k pages the
 * largest free aligned block in it is: 0 is "all free", d is "a block of order k - d", k + 1 is "nothing". So zeroed memory is
 * a free tree, and creating one touches only the nodes along the ragged right edge.
 *
 * Invariant  below a node that is all free, or that lies inside a block that is out, every node is zero; a node above is
 *            what join() says of its two children.
 *
 * Small blocks come and go many times a request: those given back last are kept, to be taken again without a walk through the
 * tree, which says that they are out. They count as free, and go back into the tree before anything is refused.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/pages.h"

#include "base/arith.h"

#include <string.h>

#define ORDER_MAX            30u /* 2^30 pages are 4 TiB; the page count of a block leaves two bits for its class */
#define TABLE_BYTES_PER_PAGE ((size_t)6) /* the tree's 2 and the block table's 4 */
#define CLASS_SHIFT          30u
#define COUNT_MASK           ((UINT32_C(1) << CLASS_SHIFT) - 1)
#define KEPT_RUN_MAX         8u  /* pages of a block that is kept */
#define KEPT_PAGES_MAX       64u /* of all of them */

struct base_pages {
    uint8_t *pages; /* the first page */
    /* By first page: pages in the block, and its class + 1 above CLASS_SHIFT. No class: none is out here; of a kept one, the
     * next of its length, as in kept[]. */
    uint32_t *blocks;
    uint8_t *tree;
    size_t level_at[ORDER_MAX + 2]; /* where the nodes of an order begin in `tree` */
    uint32_t level_count[ORDER_MAX + 1];
    unsigned root_order;
    uint32_t page_count;
    uint32_t block_count;
    uint32_t used[BASE_CLASS_COUNT];    /* pages */
    uint32_t reserve[BASE_CLASS_COUNT]; /* pages */
    uint32_t kept[KEPT_RUN_MAX + 1];    /* by length in pages: the one given back last, first page + 1; 0: none */
    uint32_t kept_pages;
    uint64_t refuse_after; /* takings until the first refusal */
    uint32_t refuse_count, refused;
    uint64_t missed; /* takings that found no room */
};

static uint8_t *node_at(const struct base_pages *pages, unsigned order, uint32_t index)
{
    return pages->tree + pages->level_at[order] + index;
}

/* A node past the right edge counts as full. */
static unsigned node_lack(const struct base_pages *pages, unsigned order, uint32_t index)
{
    return index < pages->level_count[order] ? *node_at(pages, order, index) : order + 1;
}

/* What a node of `order` says when its children say `left` and `right`. */
static uint8_t join(unsigned order, unsigned left, unsigned right)
{
    if (left == 0 && right == 0) { return 0; }
    unsigned least = left < right ? left : right;
    CHECK(least <= order); /* a child of order - 1 with nothing free says order */
    return (uint8_t)(least + 1);
}

/* Nodes up to `order_set` may have been changed by the caller: above them a node that says what it said before has told
 * nothing new to those over it. */
static void join_upwards(struct base_pages *pages, unsigned order, uint32_t index, unsigned order_set)
{
    while (order < pages->root_order) {
        order += 1;
        index /= 2;
        uint8_t *node = node_at(pages, order, index);
        uint8_t says = join(order, node_lack(pages, order - 1, 2 * index), node_lack(pages, order - 1, 2 * index + 1));
        if (*node == says && order > order_set) { return; }
        *node = says;
    }
}

static unsigned order_of(uint32_t page_count) /* the least order that holds them */
{
    return page_count <= 1 ? 0 : 32 - (unsigned)__builtin_clz(page_count - 1);
}

static size_t round_up(size_t v, size_t unit) { return (v + unit - 1) / unit * unit; }

static void lay_out_tree(struct base_pages *pages)
{
    size_t at = 0;
    for (unsigned order = 0; order <= pages->root_order; order++) {
        uint32_t nodes = (uint32_t)(((uint64_t)pages->page_count + (UINT64_C(1) << order) - 1) >> order);
        pages->level_at[order] = at;
        pages->level_count[order] = nodes;
        at += nodes;
    }
    /* Only the last node of a level can reach past the end. */
    for (unsigned order = 1; order <= pages->root_order; order++) {
        uint32_t last = pages->level_count[order] - 1;
        *node_at(pages, order, last) =
            join(order, node_lack(pages, order - 1, 2 * last), node_lack(pages, order - 1, 2 * last + 1));
    }
}

/* A level of the tree has half the nodes of the one below, rounded up: 2 for each page, and one for each level, are enough. */
size_t base_pages_tables_bytes(size_t region_bytes)
{
    size_t bytes = region_bytes / BASE_PAGE_BYTES * TABLE_BYTES_PER_PAGE;
    return base_min_size(region_bytes, round_up(sizeof(struct base_pages), 16) + ORDER_MAX + 1 + bytes);
}

enum base_rc base_pages_create(struct base_region region, const size_t reserve_bytes[BASE_CLASS_COUNT],
                               struct base_pages **pages_out)
{
    CHECK((uintptr_t)region.at % BASE_PAGE_BYTES == 0);
    size_t fixed_bytes = round_up(sizeof(struct base_pages), 16) + ORDER_MAX + 1 + BASE_PAGE_BYTES;
    if (region.size_bytes < fixed_bytes) { return BASE_FULL; }
    size_t page_count = (region.size_bytes - fixed_bytes) / (BASE_PAGE_BYTES + TABLE_BYTES_PER_PAGE);
    page_count = base_min_size(page_count, (size_t)COUNT_MASK);
    if (page_count < 16) { return BASE_FULL; }

    uint64_t left = page_count;
    uint32_t reserve[BASE_CLASS_COUNT];
    for (size_t c = 0; c < BASE_CLASS_COUNT; c++) {
        uint64_t wanted = reserve_bytes[c] / BASE_PAGE_BYTES + (reserve_bytes[c] % BASE_PAGE_BYTES != 0 ? 1 : 0);
        if (wanted > left) { return BASE_FULL; }
        left -= wanted;
        reserve[c] = (uint32_t)wanted;
    }

    struct base_pages *pages = region.at;
    *pages = (struct base_pages){.page_count = (uint32_t)page_count};
    memcpy(pages->reserve, reserve, sizeof reserve);
    pages->root_order = order_of(pages->page_count);
    uint8_t *at = region.at;
    at += round_up(sizeof(struct base_pages), 16);
    pages->blocks = (uint32_t *)(void *)at;
    pages->tree = at + page_count * sizeof(uint32_t);
    lay_out_tree(pages);
    size_t tables_bytes = (size_t)(pages->tree - (uint8_t *)region.at) + pages->level_at[pages->root_order] + 1;
    pages->pages = (uint8_t *)region.at + round_up(tables_bytes, BASE_PAGE_BYTES);
    CHECK(tables_bytes <= base_pages_tables_bytes(region.size_bytes));
    CHECK(round_up(tables_bytes, BASE_PAGE_BYTES) + page_count * BASE_PAGE_BYTES <= region.size_bytes);
    *pages_out = pages;
    return BASE_OK;
}

/* Marks `count` pages from `first` on as taken or free. `first` is aligned to the order of the count, so that the aligned
 * pieces the run falls into hang on one path of the tree, and one walk upwards from the smallest repairs all sums. */
static void mark_run(struct base_pages *pages, uint32_t first, uint32_t count, bool is_taken)
{
    CHECK(count > 0);
    unsigned order_whole = order_of(count);
    CHECK(first % (UINT32_C(1) << order_whole) == 0);
    uint32_t at = first;
    unsigned order_last = 0;
    for (unsigned order = order_whole + 1; order-- > 0;) {
        if ((count >> order & 1) == 0) { continue; }
        *node_at(pages, order, at >> order) = is_taken ? (uint8_t)(order + 1) : 0;
        order_last = order;
        at += UINT32_C(1) << order;
    }
    join_upwards(pages, order_last, (at - 1) >> order_last, order_whole);
}

static uint32_t room_pages(const struct base_pages *pages, enum base_class class)
{
    uint32_t free_count = pages->page_count;
    uint32_t kept = 0;
    for (unsigned c = 0; c < BASE_CLASS_COUNT; c++) {
        CHECK(pages->used[c] <= free_count);
        free_count -= pages->used[c];
        if (c < (unsigned)class && pages->reserve[c] > pages->used[c]) { kept += pages->reserve[c] - pages->used[c]; }
    }
    return free_count > kept ? free_count - kept : 0;
}

static uint32_t pages_for(size_t size_bytes)
{
    CHECK(size_bytes > 0);
    size_t count = (size_bytes - 1) / BASE_PAGE_BYTES + 1;
    return count > COUNT_MASK ? COUNT_MASK + 1 : (uint32_t)count;
}

void base_pages_refuse(struct base_pages *pages, uint64_t from, uint32_t count)
{
    pages->refuse_after = from == 0 ? 0 : from - 1;
    pages->refuse_count = from == 0 ? 0 : count;
}

uint32_t base_pages_refusals_left(const struct base_pages *pages) { return pages->refuse_count; }

uint64_t base_pages_missed(const struct base_pages *pages) { return pages->missed; }

uint32_t base_pages_refused(const struct base_pages *pages) { return pages->refused; }

static bool is_refused(struct base_pages *pages)
{
    if (pages->refuse_count == 0) { return false; }
    if (pages->refuse_after > 0) {
        pages->refuse_after -= 1;
        return false;
    }
    pages->refuse_count -= 1;
    pages->refused += 1;
    return true;
}

static bool has_run(const struct base_pages *pages, uint32_t count)
{
    unsigned wanted = order_of(count);
    return wanted <= pages->root_order && node_lack(pages, pages->root_order, 0) <= pages->root_order - wanted;
}

static bool may_keep(const struct base_pages *pages, uint32_t count)
{
    return count <= KEPT_RUN_MAX && pages->kept_pages + count <= KEPT_PAGES_MAX;
}

static void keep(struct base_pages *pages, uint32_t first, uint32_t count)
{
    pages->blocks[first] = pages->kept[count];
    pages->kept[count] = first + 1;
    pages->kept_pages += count;
}

static uint32_t take_kept(struct base_pages *pages, uint32_t count)
{
    CHECK(pages->kept_pages >= count);
    uint32_t first = pages->kept[count] - 1;
    CHECK(pages->blocks[first] >> CLASS_SHIFT == 0);
    pages->kept[count] = pages->blocks[first];
    pages->kept_pages -= count;
    pages->blocks[first] = 0;
    return first;
}

static void merge_kept(struct base_pages *pages)
{
    for (uint32_t count = 1; count <= KEPT_RUN_MAX; count++) {
        while (pages->kept[count] != 0) { mark_run(pages, take_kept(pages, count), count, false); }
    }
    CHECK(pages->kept_pages == 0);
}

/* The lowest run; there is one. */
static uint32_t take_run(struct base_pages *pages, uint32_t count)
{
    unsigned wanted = order_of(count);
    uint32_t index = 0;
    for (unsigned order = pages->root_order; order > wanted;) {
        if (node_lack(pages, order, index) == 0) { /* all free: its lowest block, without reading further down */
            index <<= order - wanted;
            break;
        }
        order -= 1;
        index = 2 * index + (node_lack(pages, order, 2 * index) + wanted <= order ? 0 : 1);
    }
    CHECK(node_lack(pages, wanted, index) == 0);
    uint32_t first = index << wanted;
    mark_run(pages, first, count, true);
    return first;
}

void *base_pages_take(struct base_pages *pages, enum base_class class, size_t size_bytes)
{
    CHECK((unsigned)class < BASE_CLASS_COUNT);
    uint32_t count = pages_for(size_bytes);
    bool may_take = !is_refused(pages) && count <= room_pages(pages, class);
    bool is_kept = count <= KEPT_RUN_MAX && pages->kept[count] != 0;
    if (may_take && !is_kept && !has_run(pages, count)) {
        merge_kept(pages);
        may_take = has_run(pages, count);
    }
    if (!may_take) {
        pages->missed += 1;
        return NULL;
    }
    uint32_t first = is_kept ? take_kept(pages, count) : take_run(pages, count);
    CHECK(pages->blocks[first] == 0);
    pages->blocks[first] = count | ((uint32_t)class + 1) << CLASS_SHIFT;
    pages->used[class] += count;
    pages->block_count += 1;
    return pages->pages + (size_t)first * BASE_PAGE_BYTES;
}

static uint32_t first_page_of(const struct base_pages *pages, const void *block)
{
    const uint8_t *at = block;
    CHECK(at >= pages->pages);
    size_t far_bytes = (size_t)(at - pages->pages);
    CHECK(far_bytes % BASE_PAGE_BYTES == 0);
    CHECK(far_bytes / BASE_PAGE_BYTES < pages->page_count);
    uint32_t first = (uint32_t)(far_bytes / BASE_PAGE_BYTES);
    CHECK(pages->blocks[first] >> CLASS_SHIFT != 0); /* not a block, or given back before */
    return first;
}

void base_pages_give(struct base_pages *pages, void *block)
{
    uint32_t first = first_page_of(pages, block);
    uint32_t count = pages->blocks[first] & COUNT_MASK;
    uint32_t class = (pages->blocks[first] >> CLASS_SHIFT) - 1;
    CHECK(class < BASE_CLASS_COUNT);
    CHECK(pages->used[class] >= count);
    CHECK(pages->block_count > 0);
    if (may_keep(pages, count)) {
        keep(pages, first, count);
    } else {
        mark_run(pages, first, count, false);
        pages->blocks[first] = 0;
    }
    pages->used[class] -= count;
    pages->block_count -= 1;
}

void base_pages_shrink(struct base_pages *pages, void *block, size_t size_bytes)
{
    uint32_t first = first_page_of(pages, block);
    uint32_t count = pages->blocks[first] & COUNT_MASK;
    uint32_t class = (pages->blocks[first] >> CLASS_SHIFT) - 1;
    uint32_t count_left = pages_for(size_bytes);
    CHECK(count_left <= count);
    if (count_left == count) { return; }
    mark_run(pages, first, count, false);
    mark_run(pages, first, count_left, true);
    pages->blocks[first] = count_left | (class + 1) << CLASS_SHIFT;
    pages->used[class] -= count - count_left;
}

void *base_pages_squeeze(struct base_pages *pages, void *block, size_t size_bytes)
{
    uint32_t first = first_page_of(pages, block);
    uint32_t count = pages->blocks[first] & COUNT_MASK;
    if (count == 1 || size_bytes > BASE_PAGE_BYTES || pages->kept[1] == 0 || !may_keep(pages, count)) {
        base_pages_shrink(pages, block, size_bytes);
        return block;
    }
    CHECK(size_bytes > 0);
    uint32_t class = pages->blocks[first] >> CLASS_SHIFT;
    uint32_t small = take_kept(pages, 1);
    CHECK(pages->blocks[small] == 0);
    pages->blocks[small] = 1 | class << CLASS_SHIFT;
    pages->used[class - 1] -= count - 1;
    keep(pages, first, count);
    return memcpy(pages->pages + (size_t)small * BASE_PAGE_BYTES, block, size_bytes);
}

size_t base_pages_block_bytes(const struct base_pages *pages, const void *block)
{
    return (size_t)(pages->blocks[first_page_of(pages, block)] & COUNT_MASK) * BASE_PAGE_BYTES;
}

size_t base_pages_used_bytes(const struct base_pages *pages)
{
    size_t count = 0;
    for (size_t c = 0; c < BASE_CLASS_COUNT; c++) { count += pages->used[c]; }
    return count * BASE_PAGE_BYTES;
}

size_t base_pages_class_bytes(const struct base_pages *pages, enum base_class class)
{
    return pages->used[class] * BASE_PAGE_BYTES;
}

size_t base_pages_room_bytes(const struct base_pages *pages, enum base_class class)
{
    return (size_t)room_pages(pages, class) * BASE_PAGE_BYTES;
}

uint32_t base_pages_block_count(const struct base_pages *pages) { return pages->block_count; }
