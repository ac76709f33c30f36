/* clock.c: what will happen, earliest first: a binary heap of timers that live in their owners.
 *
 * Room    sim/world, private; see world__world.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <stdlib.h>

void *world__alloc(size_t size_bytes)
{
    void *at = calloc(1, size_bytes == 0 ? 1 : size_bytes);
    CHECK(at != NULL); /* the simulator has no use for a run without memory */
    return at;
}

void *world__grow(void *old, size_t size_bytes)
{
    void *at = realloc(old, size_bytes == 0 ? 1 : size_bytes);
    CHECK(at != NULL);
    return at;
}

static bool is_before(const struct clock_cell *a, const struct clock_cell *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void put(struct clock *clock, uint32_t index, struct clock_cell cell)
{
    clock->cells[index] = cell;
    cell.timer->place = index + 1;
}

static void sift_up(struct clock *clock, uint32_t index, struct clock_cell cell)
{
    while (index > 0) {
        uint32_t above = (index - 1) / 2;
        if (!is_before(&cell, &clock->cells[above])) { break; }
        put(clock, index, clock->cells[above]);
        index = above;
    }
    put(clock, index, cell);
}

static void sift_down(struct clock *clock, uint32_t index, struct clock_cell cell)
{
    for (;;) {
        uint32_t below = index * 2 + 1;
        if (below >= clock->count) { break; }
        if (below + 1 < clock->count && is_before(&clock->cells[below + 1], &clock->cells[below])) { below += 1; }
        if (!is_before(&clock->cells[below], &cell)) { break; }
        put(clock, index, clock->cells[below]);
        index = below;
    }
    put(clock, index, cell);
}

void world__timer_stop(struct world *world, struct timer *timer)
{
    if (timer->place == 0) { return; }
    struct clock *clock = &world->clock;
    uint32_t index = timer->place - 1;
    timer->place = 0;
    clock->count -= 1;
    if (index == clock->count) { return; }
    struct clock_cell last = clock->cells[clock->count];
    if (index > 0 && is_before(&last, &clock->cells[(index - 1) / 2])) {
        sift_up(clock, index, last);
    } else {
        sift_down(clock, index, last);
    }
}

void world__timer_set(struct world *world, struct timer *timer, uint64_t at_ns, timer_fire *fire)
{
    struct clock *clock = &world->clock;
    world__timer_stop(world, timer);
    if (clock->count == clock->cells_max) {
        clock->cells_max = clock->cells_max == 0 ? 256 : clock->cells_max * 2;
        clock->cells = world__grow(clock->cells, clock->cells_max * sizeof *clock->cells);
    }
    timer->at_ns = at_ns < world->now_ns ? world->now_ns : at_ns;
    timer->fire = fire;
    uint64_t order = base_prng_u64(world__dice(world, DICE_ORDER)) << 40 | (clock->next_order & UINT64_C(0xffffffffff));
    clock->next_order += 1;
    clock->count += 1;
    sift_up(clock, clock->count - 1, (struct clock_cell){.at_ns = timer->at_ns, .order = order, .timer = timer});
}

struct timer *world__timer_pop(struct world *world)
{
    if (world->clock.count == 0) { return NULL; }
    struct timer *timer = world->clock.cells[0].timer;
    world__timer_stop(world, timer);
    return timer;
}
