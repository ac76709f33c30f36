/* group_bytes.c: the bytes that the texts of groups, members and offsets lie in: taken, given, and packed anew.
 *
 * Room    core/group.
 * Promise what group__has_room said yes to is found, however the texts before it were taken and given: where free bytes lie in the
 *         wrong places, all texts move to the other half, the largest first, and lie there without a gap. So who holds a text's
 *         address in a variable of its own takes no other one meanwhile. While logs are loaded twice as much is found.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group/group__room.h"

#define SLAB_MAX ((size_t)32 << (GROUP__CLASSES - 1))

static unsigned class_of(size_t size_bytes)
{
    unsigned class = 0;
    while (((size_t)32 << class) < size_bytes) { class += 1; }
    return class;
}

/* A power of two: what lies beside a block of pages in such a one is nobody's for sure. */
size_t group__bytes_rounded(size_t size_bytes) { return (size_t)32 << class_of(size_bytes); }

/* By size, in pages; what shares a page is 0. */
static unsigned order_of(size_t size_bytes)
{
    unsigned order = 0;
    while ((BASE_PAGE_BYTES << order) < group__bytes_rounded(size_bytes)) { order += 1; }
    return order;
}

/* ---- one half ------------------------------------------------------------------------------------------------------- */

static enum base_rc begin_half(struct group__bytes *bytes, unsigned half)
{
    static const size_t reserve_bytes[BASE_CLASS_COUNT] = {0};
    struct base_region region = bytes->halves[half];
    enum base_rc rc = base_pages_create(region, reserve_bytes, &bytes->pages);
    if (rc != BASE_OK) { return rc; }
    bytes->half = half;
    bytes->used_bytes = 0;
    memset(bytes->free, 0, sizeof bytes->free);
    memset(bytes->of_order, 0, sizeof bytes->of_order);
    return BASE_OK;
}

/* Three quarters of `size_bytes` are promised. The pages are for the last one of each class, and the allocator's own. */
static size_t half_bytes(size_t size_bytes)
{
    return GROUP__TABLES * (size_bytes / 4 * 3) + (GROUP__CLASSES + 5) * BASE_PAGE_BYTES;
}

size_t group__bytes_arena_bytes(size_t size_bytes) { return 2 * (half_bytes(size_bytes) + BASE_PAGE_BYTES); }

enum base_rc group__bytes_create(struct base_arena *arena, size_t size_bytes, struct group__bytes *bytes_out)
{
    size_bytes = half_bytes(size_bytes);
    *bytes_out = (struct group__bytes){.half = 0};
    for (unsigned i = 0; i < 2; i++) {
        uint8_t *at = base_arena_take_array(arena, size_bytes + BASE_PAGE_BYTES, 1);
        if (at == NULL) { return BASE_FULL; }
        size_t past = (size_t)((uintptr_t)at % BASE_PAGE_BYTES);
        bytes_out->halves[i] =
            (struct base_region){.at = at + (past == 0 ? 0 : BASE_PAGE_BYTES - past), .size_bytes = size_bytes};
    }
    enum base_rc rc = begin_half(bytes_out, 0);
    if (rc != BASE_OK) { return rc; }
    bytes_out->all_bytes = base_pages_room_bytes(bytes_out->pages, BASE_CONTROL);
    bytes_out->room_bytes = (bytes_out->all_bytes - GROUP__CLASSES * BASE_PAGE_BYTES) / GROUP__TABLES;
    return BASE_OK;
}

/* NULL: no room at one place. */
static void *take_here(struct group__bytes *bytes, size_t size_bytes)
{
    size_t rounded = group__bytes_rounded(size_bytes);
    void *at;
    if (size_bytes > SLAB_MAX) {
        at = base_pages_take(bytes->pages, BASE_CONTROL, size_bytes);
        if (at == NULL) { return NULL; }
    } else {
        unsigned class = class_of(size_bytes);
        if (bytes->free[class] == NULL) {
            uint8_t *page = base_pages_take(bytes->pages, BASE_CONTROL, BASE_PAGE_BYTES);
            if (page == NULL) { return NULL; }
            for (size_t from = BASE_PAGE_BYTES; from >= rounded; from -= rounded) { /* the lowest is taken first */
                void *slot = page + from - rounded;
                memcpy(slot, &bytes->free[class], sizeof(void *));
                bytes->free[class] = slot;
            }
        }
        at = bytes->free[class];
        memcpy(&bytes->free[class], at, sizeof(void *));
    }
    bytes->used_bytes += rounded;
    bytes->of_order[order_of(size_bytes)] += 1;
    return at;
}

void group__bytes_give(struct group__bytes *bytes, const void *at, size_t size_bytes)
{
    size_t rounded = group__bytes_rounded(size_bytes);
    void *block = (void *)(uintptr_t)at;
    CHECK(bytes->used_bytes >= rounded);
    bytes->used_bytes -= rounded;
    bytes->of_order[order_of(size_bytes)] -= 1;
    if (size_bytes > SLAB_MAX) {
        base_pages_give(bytes->pages, block);
        return;
    }
    unsigned class = class_of(size_bytes);
    memcpy(block, &bytes->free[class], sizeof(void *));
    bytes->free[class] = block;
}

/* ---- the other half ------------------------------------------------------------------------------------------------- */

static void move_text(struct group__bytes *to, unsigned order, struct base_slice *text)
{
    if (text->at == NULL || order_of(text->size_bytes) != order) { return; }
    uint8_t *at = take_here(to, text->size_bytes);
    CHECK(at != NULL); /* the larger ones lie before it, and all of them fit */
    if (text->size_bytes > 0) { memcpy(at, text->at, text->size_bytes); }
    text->at = at;
}

static void rebase(struct base_slice *text, const struct group__data *from, struct group__data *to)
{
    if (text->at != NULL) { text->at = (uint8_t *)to + (text->at - (const uint8_t *)from); }
}

static void move_data(struct group__bytes *to, unsigned order, struct group__member *member)
{
    const struct group__data *from = member->data;
    if (from == NULL || order_of(group__data_bytes(from)) != order) { return; }
    size_t bytes = group__data_bytes(from);
    struct group__data *data = take_here(to, bytes);
    CHECK(data != NULL); /* as above */
    memcpy(data, from, bytes);
    rebase(&data->instance, from, data);
    rebase(&data->client_id, from, data);
    rebase(&data->client_host, from, data);
    for (uint32_t i = 0; i < data->protocols_count; i++) {
        rebase(&data->protocols[i].name, from, data);
        rebase(&data->protocols[i].metadata, from, data);
    }
    member->data = data;
}

static void move_order(struct groups *groups, unsigned order)
{
    struct group__bytes *to = &groups->bytes;
    for (uint32_t i = 0; i < groups->groups.fresh; i++) {
        if (!base_pool_is_taken(&groups->groups, i)) { continue; }
        struct group__group *group = base_pool_at(&groups->groups, i);
        move_text(to, order, &group->id);
        move_text(to, order, &group->protocol_type);
        move_text(to, order, &group->protocol);
        move_text(to, order, &group->leader);
    }
    for (uint32_t i = 0; i < groups->members.fresh; i++) {
        if (!base_pool_is_taken(&groups->members, i)) { continue; }
        struct group__member *member = base_pool_at(&groups->members, i);
        move_text(to, order, &member->id);
        move_text(to, order, &member->assignment);
        move_data(to, order, member);
    }
    for (uint32_t i = 0; i < groups->offsets.fresh; i++) {
        if (!base_pool_is_taken(&groups->offsets, i)) { continue; }
        struct group__offset *offset = base_pool_at(&groups->offsets, i);
        move_text(to, order, &offset->metadata);
    }
    for (uint32_t i = 0; i < groups->requests.fresh; i++) {
        if (!base_pool_is_taken(&groups->requests, i)) { continue; }
        struct group__request *request = base_pool_at(&groups->requests, i);
        move_text(to, order, &request->leader_before);
    }
}

/* Every text moves, and one more finds its place among them. NULL: all together they are too much. */
static void *pack(struct groups *groups, size_t size_bytes)
{
    struct group__bytes *bytes = &groups->bytes;
    size_t used_bytes = bytes->used_bytes;
    if (used_bytes + group__bytes_rounded(size_bytes) + GROUP__CLASSES * BASE_PAGE_BYTES > bytes->all_bytes) {
        return NULL;
    }
    uint32_t of_order[GROUP__ORDERS];
    memcpy(of_order, bytes->of_order, sizeof of_order);
    unsigned other = 1 - bytes->half;
    struct base_region region = bytes->halves[other];
    memset(region.at, 0, base_pages_tables_bytes(region.size_bytes));
    enum base_rc rc = begin_half(bytes, other);
    CHECK(rc == BASE_OK); /* as at the first time */
    void *at = NULL;
    unsigned order_wanted = order_of(size_bytes);
    for (unsigned order = GROUP__ORDERS; order-- > 0;) {
        if (order == order_wanted) {
            at = take_here(bytes, size_bytes);
            CHECK(at != NULL); /* as for those that move */
        }
        if (of_order[order] > 0) { move_order(groups, order); }
    }
    CHECK(bytes->used_bytes == used_bytes + group__bytes_rounded(size_bytes));
    return at;
}

void *group__bytes_take(struct groups *groups, size_t size_bytes)
{
    void *at = take_here(&groups->bytes, size_bytes);
    return at != NULL ? at : pack(groups, size_bytes);
}
