/* wait.c: watches stand in one treap ordered by (place, offset, age), so that the next one due at a place is its first.
 *
 * Room    core/wait.
 * Mark    of a place: carried by its first watch that it makes due, and handed to the next one when that watch goes. So a mark costs
 *         O(log n) whatever it makes due, and the rest is paid by who pulls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wait/wait.h"

struct watch {
    uint32_t left; /* index + 1; 0: none; the same for all links here */
    uint32_t right;
    uint32_t up;
    uint32_t weight; /* heap order of the treap, largest on top; drawn from the number of the watch */
    uint32_t place;
    uint32_t parked;
    uint32_t next_of_parked;
    enum wait_why why; /* of the mark */
    int64_t offset;
    uint64_t number; /* its age: orders equal offsets */
    int64_t mark;    /* while on the list of marks: offsets < mark of this place are due; all when WAIT_DISTURBED */
    struct base_link marked;
};

struct parked {
    uint64_t token;
    uint32_t first_watch; /* index + 1 */
    struct base_heap_item deadline;
};

struct wait {
    struct base_pool parked;
    struct base_pool watches;
    struct base_map by_token;
    struct base_heap deadlines;
    struct base_list marks;
    uint32_t root; /* index + 1 */
    uint64_t watches_ever;
    uint64_t expire_end_ns; /* deadlines < this are due */
    bool is_check_slow;
};

size_t wait_arena_bytes(const struct wait_config *config)
{
    size_t parked = sizeof(struct parked) + 16 + 3 * 2 * sizeof(struct base_map_cell) + sizeof(void *) + 8;
    size_t watches = sizeof(struct watch) + 16 + 8;
    return sizeof(struct wait) + 4096 + parked * config->parked_max + watches * config->watches_max;
}

enum base_rc wait_create(struct base_arena *arena, const struct wait_config *config, struct wait **wait_out)
{
    CHECK(config->parked_max > 0);
    CHECK(config->watches_max > 0);
    struct wait *wait = base_arena_take_array(arena, 1, sizeof *wait);
    if (wait == NULL) { return BASE_FULL; }
    if (base_pool_create(arena, sizeof(struct parked), config->parked_max, &wait->parked) != BASE_OK ||
        base_pool_create(arena, sizeof(struct watch), config->watches_max, &wait->watches) != BASE_OK ||
        base_map_create(arena, config->parked_max, &wait->by_token) != BASE_OK ||
        base_heap_create(arena, config->parked_max, &wait->deadlines) != BASE_OK) {
        return BASE_FULL;
    }
    base_list_init(&wait->marks);
    wait->is_check_slow = config->is_check_slow;
    *wait_out = wait;
    return BASE_OK;
}

/* ---- the treap --------------------------------------------------------------------------------------------------- */

static struct watch *watch_at(const struct wait *wait, uint32_t link)
{
    return link == 0 ? NULL : base_pool_at(&wait->watches, link - 1);
}

static uint32_t link_of(const struct wait *wait, const struct watch *watch)
{
    return watch == NULL ? 0 : base_pool_index(&wait->watches, watch) + 1;
}

static bool is_before(const struct watch *a, const struct watch *b)
{
    if (a->place != b->place) { return a->place < b->place; }
    if (a->offset != b->offset) { return a->offset < b->offset; }
    return a->number < b->number;
}

/* What points at `watch` from above, pointing at `to` from now on. */
static void replace_below(struct wait *wait, const struct watch *watch, uint32_t to)
{
    struct watch *up = watch_at(wait, watch->up);
    uint32_t self = link_of(wait, watch);
    if (up == NULL) {
        CHECK(wait->root == self);
        wait->root = to;
    } else if (up->left == self) {
        up->left = to;
    } else {
        CHECK(up->right == self);
        up->right = to;
    }
}

/* Lifts `child` above its parent; the order of the tree stays. */
static void rotate_up(struct wait *wait, struct watch *child)
{
    struct watch *parent = watch_at(wait, child->up);
    uint32_t child_link = link_of(wait, child);
    uint32_t parent_link = link_of(wait, parent);
    replace_below(wait, parent, child_link);
    child->up = parent->up;
    parent->up = child_link;
    uint32_t moved;
    if (parent->left == child_link) {
        moved = child->right;
        parent->left = moved;
        child->right = parent_link;
    } else {
        moved = child->left;
        parent->right = moved;
        child->left = parent_link;
    }
    if (moved != 0) { watch_at(wait, moved)->up = parent_link; }
}

static void tree_insert(struct wait *wait, struct watch *watch)
{
    uint32_t at = wait->root;
    struct watch *up = NULL;
    while (at != 0) {
        up = watch_at(wait, at);
        at = is_before(watch, up) ? up->left : up->right;
    }
    watch->up = link_of(wait, up);
    if (up == NULL) {
        wait->root = link_of(wait, watch);
    } else if (is_before(watch, up)) {
        up->left = link_of(wait, watch);
    } else {
        up->right = link_of(wait, watch);
    }
    while (watch->up != 0 && watch_at(wait, watch->up)->weight < watch->weight) { rotate_up(wait, watch); }
}

static void tree_remove(struct wait *wait, struct watch *watch)
{
    while (watch->left != 0 && watch->right != 0) {
        struct watch *left = watch_at(wait, watch->left);
        struct watch *right = watch_at(wait, watch->right);
        rotate_up(wait, left->weight > right->weight ? left : right);
    }
    uint32_t below = watch->left != 0 ? watch->left : watch->right;
    replace_below(wait, watch, below);
    if (below != 0) { watch_at(wait, below)->up = watch->up; }
}

static struct watch *tree_next(const struct wait *wait, const struct watch *watch)
{
    if (watch->right != 0) {
        struct watch *next = watch_at(wait, watch->right);
        while (next->left != 0) { next = watch_at(wait, next->left); }
        return next;
    }
    struct watch *up = watch_at(wait, watch->up);
    while (up != NULL && up->right == link_of(wait, watch)) {
        watch = up;
        up = watch_at(wait, watch->up);
    }
    return up;
}

static struct watch *first_of_place(const struct wait *wait, uint32_t place)
{
    struct watch *first = NULL;
    for (struct watch *at = watch_at(wait, wait->root); at != NULL;) {
        if (at->place >= place) {
            first = at;
            at = watch_at(wait, at->left);
        } else {
            at = watch_at(wait, at->right);
        }
    }
    return first != NULL && first->place == place ? first : NULL;
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

static bool is_made_due(const struct watch *watch, int64_t mark, enum wait_why why)
{
    return why == WAIT_DISTURBED || watch->offset < mark;
}

/* Puts the mark on `watch`, before `place_in_line` when it has none yet. Two marks become the one that reaches further. */
static void put_mark(struct wait *wait, struct watch *watch, int64_t mark, enum wait_why why,
                     struct base_link *place_in_line)
{
    CHECK(is_made_due(watch, mark, why));
    CHECK(why != WAIT_EXPIRED);
    if (!base_link_is_on(&watch->marked)) {
        watch->mark = mark;
        watch->why = why;
        base_list_insert_before(&wait->marks, place_in_line, &watch->marked);
        return;
    }
    if (why == WAIT_DISTURBED) { watch->why = WAIT_DISTURBED; }
    watch->mark = base_max_i64(watch->mark, mark);
}

static void mark_place(struct wait *wait, uint32_t place, int64_t mark, enum wait_why why)
{
    struct watch *first = first_of_place(wait, place);
    if (first == NULL || !is_made_due(first, mark, why)) { return; }
    put_mark(wait, first, mark, why, &wait->marks.head);
}

static void drop_watch(struct wait *wait, struct watch *watch)
{
    if (base_link_is_on(&watch->marked)) {
        struct watch *next = tree_next(wait, watch);
        if (next != NULL && next->place == watch->place && is_made_due(next, watch->mark, watch->why)) {
            put_mark(wait, next, watch->mark, watch->why, &watch->marked);
        }
        base_list_remove(&wait->marks, &watch->marked);
    }
    tree_remove(wait, watch);
    base_pool_give(&wait->watches, base_pool_index(&wait->watches, watch));
}

/* ---- parked ones ------------------------------------------------------------------------------------------------- */

static struct parked *find(const struct wait *wait, uint64_t token)
{
    uint64_t hash = base_hash_u64(token);
    for (uint32_t at = base_map_first(&wait->by_token, hash); at != BASE_MAP_NONE;
         at = base_map_next(&wait->by_token, hash, at)) {
        struct parked *parked = base_pool_at(&wait->parked, base_map_value(&wait->by_token, at));
        if (parked->token == token) { return parked; }
    }
    return NULL;
}

static void unpark(struct wait *wait, struct parked *parked)
{
    while (parked->first_watch != 0) {
        struct watch *watch = watch_at(wait, parked->first_watch);
        parked->first_watch = watch->next_of_parked;
        drop_watch(wait, watch);
    }
    uint32_t index = base_pool_index(&wait->parked, parked);
    base_heap_remove(&wait->deadlines, &parked->deadline);
    base_map_remove(&wait->by_token, base_hash_u64(parked->token), index);
    base_pool_give(&wait->parked, index);
    CHECK_SLOW(wait->is_check_slow, wait_is_sound(wait));
}

enum base_rc wait_park(struct wait *wait, uint64_t token, uint64_t deadline_ns)
{
    CHECK(token != 0);
    CHECK(find(wait, token) == NULL);
    uint32_t index = base_pool_take(&wait->parked);
    if (index == BASE_POOL_NONE) { return BASE_FULL; }
    struct parked *parked = base_pool_at(&wait->parked, index);
    parked->token = token;
    /* Map and heap have room for parked_max: they can't refuse what the pool gave. */
    enum base_rc map_rc = base_map_insert(&wait->by_token, base_hash_u64(token), index);
    CHECK(map_rc == BASE_OK);
    enum base_rc heap_rc = base_heap_insert(&wait->deadlines, &parked->deadline, deadline_ns);
    CHECK(heap_rc == BASE_OK);
    return BASE_OK;
}

enum base_rc wait_watch(struct wait *wait, uint64_t token, uint32_t place, int64_t offset)
{
    struct parked *parked = find(wait, token);
    CHECK(parked != NULL);
    uint32_t index = base_pool_take(&wait->watches);
    if (index == BASE_POOL_NONE) { return BASE_FULL; }
    struct watch *watch = base_pool_at(&wait->watches, index);
    wait->watches_ever += 1;
    watch->number = wait->watches_ever;
    watch->weight = (uint32_t)base_hash_u64(watch->number);
    watch->place = place;
    watch->offset = offset;
    watch->parked = base_pool_index(&wait->parked, parked);
    watch->next_of_parked = parked->first_watch;
    parked->first_watch = index + 1;
    tree_insert(wait, watch);
    CHECK_SLOW(wait->is_check_slow, wait_is_sound(wait));
    return BASE_OK;
}

void wait_advance(struct wait *wait, uint32_t place, int64_t watermark)
{
    mark_place(wait, place, watermark, WAIT_REACHED);
}

void wait_disturb(struct wait *wait, uint32_t place) { mark_place(wait, place, INT64_MAX, WAIT_DISTURBED); }

void wait_expire(struct wait *wait, uint64_t now_ns)
{
    CHECK(now_ns < UINT64_MAX);
    wait->expire_end_ns = base_max_u64(wait->expire_end_ns, now_ns + 1);
}

void wait_cancel(struct wait *wait, uint64_t token)
{
    struct parked *parked = find(wait, token);
    if (parked != NULL) { unpark(wait, parked); }
}

bool wait_next_due(struct wait *wait, uint64_t *token_out, enum wait_why *why_out)
{
    struct parked *parked = NULL;
    enum wait_why why = WAIT_EXPIRED;
    if (base_heap_first_key(&wait->deadlines) < wait->expire_end_ns) {
        parked = BASE_ITEM(base_heap_first(&wait->deadlines), struct parked, deadline);
    } else if (!base_list_is_empty(&wait->marks)) {
        const struct watch *watch = BASE_ITEM(base_list_first(&wait->marks), struct watch, marked);
        parked = base_pool_at(&wait->parked, watch->parked);
        why = watch->why;
    }
    if (parked == NULL) { return false; }
    *token_out = parked->token;
    *why_out = why;
    unpark(wait, parked);
    return true;
}

uint64_t wait_next_deadline_ns(const struct wait *wait) { return base_heap_first_key(&wait->deadlines); }
bool wait_is_parked(const struct wait *wait, uint64_t token) { return find(wait, token) != NULL; }
uint32_t wait_parked_count(const struct wait *wait) { return wait->parked.taken_count; }
uint32_t wait_watch_count(const struct wait *wait) { return wait->watches.taken_count; }

bool wait_is_sound(const struct wait *wait)
{
    if (wait->deadlines.count != wait->parked.taken_count || wait->by_token.count != wait->parked.taken_count) {
        return false;
    }
    struct watch *at = watch_at(wait, wait->root);
    while (at != NULL && at->left != 0) { at = watch_at(wait, at->left); }
    uint32_t count = 0;
    uint32_t marks = 0;
    for (const struct watch *before = NULL; at != NULL; before = at, at = tree_next(wait, at)) {
        count += 1;
        if (count > wait->watches.taken_count) { return false; }
        if (before != NULL && !is_before(before, at)) { return false; }
        if (at->up != 0 && watch_at(wait, at->up)->weight < at->weight) { return false; }
        if (!base_pool_is_taken(&wait->parked, at->parked)) { return false; }
        if (base_link_is_on(&at->marked)) {
            marks += 1;
            if (!is_made_due(at, at->mark, at->why)) { return false; }
        }
    }
    return count == wait->watches.taken_count && marks == wait->marks.count;
}
