/* second.c: what strikes about once a second, and lasts for a while: partitions, clock steps, full disks.
 *
 * Room    sim/world, private; see world__world.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <stdlib.h>

static void heal_fire(struct world *world, struct timer *timer)
{
    struct heal *heal = BASE_ITEM(timer, struct heal, timer);
    struct node *node = world->nodes[heal->node];
    switch (heal->kind) {
    case HEAL_LINK: world_block(world, heal->node, heal->to, false); break;
    case HEAL_DISK:
        node->disks[heal->to].is_full = false;
        world__trace_note(world, heal->node, "the disk has room");
        break;
    case HEAL_CLOCK:
        node->wall_step_ms = 0;
        world__trace_note(world, heal->node, "the clock is set right");
        break;
    }
    base_list_remove(&world->heals, &heal->in_world);
    free(heal);
}

static void heal_after(struct world *world, enum heal_kind kind, uint32_t node, uint32_t to, uint64_t span_ns)
{
    struct heal *heal = world__alloc(sizeof *heal);
    heal->kind = kind;
    heal->node = node;
    heal->to = to;
    base_list_push_back(&world->heals, &heal->in_world);
    world__timer_set(world, &heal->timer, world->now_ns + span_ns, heal_fire);
}

static void partition(struct world *world)
{
    uint32_t from = (uint32_t)world__draw(world, DICE_SECOND, world->node_count);
    uint32_t to = (from + 1 + (uint32_t)world__draw(world, DICE_SECOND, world->node_count - 1)) % world->node_count;
    world_block(world, from, to, true);
    heal_after(world, HEAL_LINK, from, to, 4 * world__slow_ns(world, DICE_SECOND));
}

static void step_clock(struct world *world, uint32_t node)
{
    static const int64_t spans_ms[] = {1000, 60000, 3600000, 86400000, INT64_C(94608000000)};
    int64_t span_ms = spans_ms[world__draw(world, DICE_SECOND, BASE_ARRAY_COUNT(spans_ms))];
    world_clock_step(world, node, (int64_t)world__draw(world, DICE_SECOND, 2 * (uint64_t)span_ms) - span_ms);
    world__trace_note(world, node, "the clock steps");
    uint64_t heal_max_ns = world->knobs.clock_heal_max_ns;
    if (heal_max_ns > 0) { heal_after(world, HEAL_CLOCK, node, 0, 1 + world__draw(world, DICE_SECOND, heal_max_ns)); }
}

static void fill_disk(struct world *world, uint32_t node, uint32_t disk)
{
    world->nodes[node]->disks[disk].is_full = true;
    world__trace_note(world, node, "the disk is full");
    heal_after(world, HEAL_DISK, node, disk, world__slow_ns(world, DICE_SECOND));
}

void world__second_fire(struct world *world, struct timer *timer)
{
    if (world->clock.count == 0) { return; } /* nothing else will ever happen */
    if (world->node_count > 1 && world__hit(world, WORLD_NET_PARTITION)) { partition(world); }
    for (uint32_t i = 0; i < world->node_count; i++) {
        bool is_broker =
            world->nodes[i]->spec.disk_count > 0; /* what old timestamps of a client do is no fault of its broker */
        if (is_broker && world__hit(world, WORLD_CLOCK_STEP)) { step_clock(world, i); }
        for (uint32_t disk = 0; disk < world->nodes[i]->spec.disk_count; disk++) {
            if (world__hit(world, WORLD_DISK_FULL)) { fill_disk(world, i, disk); }
        }
    }
    uint64_t wait_ns = WORLD_S / 2 + world__draw(world, DICE_SECOND, WORLD_S);
    world__timer_set(world, timer, world->now_ns + wait_ns, world__second_fire);
}
