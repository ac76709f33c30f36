/* crash.c: crashes at an effect: by rate, by number, by kind, or planned by a harness; and what they came before.
 *
 * Room    sim/world, private; see world__world.h.
 * Model   before each effect, and each message between shards, of a node with disks it is asked whether the node goes down
 *         here. What stands before it in the step has been carried out, it and the rest have not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

static bool is_note(enum port_effect_kind kind)
{
    return kind == PORT_LOG || kind == PORT_LEVEL || kind == PORT_READY || kind == PORT_STOPPED;
}

static bool is_of_kind(uint32_t wanted, uint32_t kind) { return wanted == WORLD_BEFORE_ANY || wanted == kind; }

/* True: the plan has come to its end. */
static bool plan_is_due(struct node *node, uint32_t kind)
{
    struct crash_plan *plan = &node->crash_plan;
    if (plan->left == 0 || !is_of_kind(plan->kind, kind)) { return false; }
    plan->left -= 1;
    return plan->left == 0;
}

static void go_down(struct world *world, struct node *node, uint32_t kind, enum world_crash crash)
{
    node->crash_is_due = true;
    node->crash_kind = crash;
    node->crash_plan.left = 0;
    world->has_crash_due = true;
    world->crashes_before[kind] += 1;
}

/* Every observer is asked: each may count. */
static bool is_wanted(const struct world *world, const struct node *node)
{
    bool is_wanted = false;
    for (uint32_t i = 0; i < world->observer_count; i++) {
        const struct world_observer *observer = &world->observers[i];
        if (observer->may_crash == NULL) { continue; }
        is_wanted = observer->may_crash(observer->context, node->index) || is_wanted;
    }
    return is_wanted;
}

/* `kind`: of an effect, or WORLD_BEFORE_MESSAGE. */
bool world__crashes_before(struct world *world, struct node *node, uint32_t kind)
{
    bool is_message = kind == WORLD_BEFORE_MESSAGE;
    if (node->spec.disk_count == 0 || (!is_message && is_note((enum port_effect_kind)kind))) { return false; }
    world->asked_of[kind] += 1;
    if (!is_message) { world->effects += 1; }
    bool is_due = plan_is_due(node, kind);
    bool is_asked = is_wanted(world, node);
    if (is_due || is_asked || (!is_message && world->effects == world->knobs.crash_at_effect)) {
        world__count(world, WORLD_CRASH_PLANNED);
        node->cut_keep = is_due ? node->crash_plan.keep : WORLD_KEEP_ANY;
        go_down(world, node, kind, is_due ? node->crash_plan.crash : WORLD_POWER);
        return true;
    }
    bool is_kind = (world->knobs.crash_kinds >> kind & 1) != 0 && world__hit(world, WORLD_CRASH_KIND);
    if (is_kind || (!is_message && world__hit(world, WORLD_CRASH_POWER))) {
        go_down(world, node, kind, WORLD_POWER);
        return true;
    }
    if (!is_message && world__hit(world, WORLD_CRASH_PROCESS)) {
        go_down(world, node, kind, WORLD_PROCESS);
        return true;
    }
    return false;
}

void world_crash_before(struct world *world, uint32_t node, uint32_t kind, uint64_t count, enum world_crash crash)
{
    CHECK(node < world->node_count);
    CHECK(kind == WORLD_BEFORE_ANY || kind < WORLD_BEFORE_COUNT);
    world->nodes[node]->crash_plan = (struct crash_plan){.kind = kind, .left = count, .crash = crash};
}

void world_crash_keeps(struct world *world, uint32_t node, enum world_keep keep)
{
    CHECK(node < world->node_count);
    CHECK(keep < WORLD_KEEP_ONE);
    world->nodes[node]->crash_plan.keep = keep;
}

bool world_is_crash_planned(const struct world *world, uint32_t node)
{
    CHECK(node < world->node_count);
    return world->nodes[node]->crash_plan.left > 0;
}

uint64_t world_crashes_before(const struct world *world, uint32_t kind)
{
    CHECK(kind < WORLD_BEFORE_COUNT);
    return world->crashes_before[kind];
}

uint64_t world_asked_of(const struct world *world, uint32_t kind)
{
    CHECK(kind < WORLD_BEFORE_COUNT);
    return world->asked_of[kind];
}
