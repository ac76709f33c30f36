/* run_disaster.c: see run.h. The crashes and stops that a seed draws: at a moment, before an effect of a kind, in a state.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run__parts.h"

static uint64_t below(struct run *run, uint64_t bound) { return base_prng_below(&run->prng, bound); }

static enum world_crash draw_crash(struct run *run)
{
    return base_prng_chance(&run->prng, 3, 4) ? WORLD_POWER : WORLD_PROCESS;
}

/* ---- at a moment ---- */

static void crash_now(void *context, struct world *world)
{
    struct run *run = context;
    world_crash(world, run->cast.broker, draw_crash(run));
}

static void restart_now(void *context, struct world *world)
{
    struct run *run = context;
    if (world_node_state(world, run->cast.broker) != WORLD_UP) { world_restart(world, run->cast.broker); }
}

static void stop_now(void *context, struct world *world)
{
    struct run *run = context;
    if (world_node_state(world, run->cast.broker) == WORLD_UP) { world_stop(world, run->cast.broker); }
}

void run__stopped(struct run *run)
{
    if (run->is_calm) { return; }
    world_at(run->world, world_now(run->world) + 1 + below(run, 300 * WORLD_MS), restart_now, run);
}

/* ---- before an effect ---- */

/* From now on, before one of a kind that is drawn: each kind is as likely as any, however rare it is. One that never comes
 * never crashes; the next plan takes its place. */
static void plan_now(void *context, struct world *world)
{
    struct run *run = context;
    static const uint32_t kinds[] = {PORT_WRITE,
                                     PORT_WRITE,
                                     PORT_SYNC,
                                     PORT_SYNC,
                                     PORT_SYNC_DIR,
                                     PORT_RENAME,
                                     PORT_OPEN,
                                     PORT_TRUNCATE,
                                     PORT_UNLINK,
                                     PORT_CLOSE_FILE,
                                     PORT_REMOVE_DIR,
                                     PORT_MAKE_DIR,
                                     PORT_READ,
                                     PORT_LIST,
                                     PORT_SEND,
                                     PORT_RECV,
                                     PORT_ACCEPT,
                                     PORT_CLOSE,
                                     PORT_ALLOCATE,
                                     PORT_LISTEN,
                                     PORT_UNLISTEN,
                                     WORLD_BEFORE_MESSAGE,
                                     WORLD_BEFORE_MESSAGE,
                                     WORLD_BEFORE_ANY,
                                     WORLD_BEFORE_ANY};
    static const uint64_t far[] = {1, 1, 4, 30, 200};
    if (run->is_calm) { return; }
    uint32_t kind = kinds[below(run, BASE_ARRAY_COUNT(kinds))];
    uint64_t count = 1 + below(run, far[below(run, BASE_ARRAY_COUNT(far))]);
    run->sprung = RUN_STATE_COUNT;
    world_crash_before(world, run->cast.broker, kind, count, draw_crash(run));
}

/* ---- in a state ---- */

static const char *const state_names[RUN_STATE_COUNT] = {
    "boot", "recovering",   "loading", "serving", "stopping", "written", "journalled", "checkpoint",
    "roll", "journal_roll", "trim",    "delete",  "gone",     "anew",    "cut",
};
const char *run_state_name(enum run_state state) { return state_names[state]; }

static void set_traps(struct run *run)
{
    static const uint64_t within[] = {1, 2, 5, 20, 100};
    run->trap_count = (uint32_t)base_min_u64((uint64_t)run->shape.state_crashes, RUN_TRAPS_MAX);
    for (uint32_t i = 0; i < run->trap_count; i++) {
        enum run_state state = (enum run_state)below(run, RUN_STATE_COUNT);
        bool is_frequent = state == RUN_STATE_WRITTEN || state == RUN_STATE_JOURNALLED;
        uint64_t passes = below(run, is_frequent ? 300 : 3);
        run->traps[i] =
            (struct run_trap){.state = state, .passes = passes, .within = within[below(run, BASE_ARRAY_COUNT(within))]};
    }
    run->sprung = RUN_STATE_COUNT;
    bool has_pages = run->result->branches[RUN_PAGES] > 0 && run->trap_count > 0 && run->trap_count < RUN_TRAPS_MAX;
    if (!has_pages) { return; }
    /* What is cut off a page-cache log stays away from the next write on, and nothing but the disk says so. */
    uint64_t passes = below(run, 4);
    uint64_t effects = 1 + below(run, 200);
    run->traps[run->trap_count++] =
        (struct run_trap){.state = RUN_STATE_CUT, .passes = passes, .within = effects, .is_power = true};
}

void run__reached(struct run *run, enum run_state state)
{
    for (uint32_t i = 0; i < run->trap_count; i++) {
        struct run_trap *trap = &run->traps[i];
        if (run->is_calm || trap->is_sprung || trap->state != state) { continue; }
        if (trap->passes > 0) {
            trap->passes -= 1;
            continue;
        }
        trap->is_sprung = true;
        run->sprung = state;
        uint64_t count = 1 + below(run, trap->within); /* one draw after another: arguments have no order */
        enum world_crash crash = draw_crash(run);
        world_crash_before(run->world, run->cast.broker, WORLD_BEFORE_ANY, count, trap->is_power ? WORLD_POWER : crash);
    }
}

/* ---- the schedule ---- */

static void at(struct run *run, uint64_t at_ns, void (*call)(void *, struct world *))
{
    world_at(run->world, at_ns, call, run);
    run->crash_end_ns = base_max_u64(run->crash_end_ns, at_ns);
}

static void fill_now(void *context, struct world *world)
{
    struct run *run = context;
    world_fill(world, run->cast.broker, 0);
    run->result->branches[RUN_DISK_FULL] += 1;
}

static void empty_now(void *context, struct world *world)
{
    struct run *run = context;
    world_set_capacity(world, run->cast.broker, 0, 0);
}

/* One after another, each in its part of the span. */
static void schedule_full_disks(struct run *run)
{
    uint64_t part_ns = (uint64_t)run->shape.load_ms * WORLD_MS / (uint64_t)base_max_i64(run->shape.full_disks, 1);
    for (int64_t i = 0; i < run->shape.full_disks; i++) {
        uint64_t at_ns = (uint64_t)i * part_ns + 300 * WORLD_MS + below(run, part_ns / 2);
        at(run, at_ns, fill_now);
        at(run, at_ns + 1 + below(run, part_ns / 2), empty_now);
    }
}

void run__schedule(struct run *run)
{
    uint64_t span_ns = (uint64_t)run->shape.load_ms * WORLD_MS;
    for (int64_t i = 0; i < run->shape.crashes; i++) {
        uint64_t at_ns = 300 * WORLD_MS + below(run, span_ns);
        if (base_prng_chance(&run->prng, 1, 2)) { /* the world brings it back */
            at(run, at_ns, plan_now);
            continue;
        }
        bool is_stop = base_prng_chance(&run->prng, 1, 4);
        at(run, at_ns, is_stop ? stop_now : crash_now);
        uint64_t back_ns = at_ns + (is_stop ? 800 * WORLD_MS : 0) + 1 + below(run, 300 * WORLD_MS);
        at(run, back_ns, restart_now);
        if (base_prng_chance(&run->prng, 1, 2)) { /* again, while it recovers */
            uint64_t again_ns = back_ns + 1 + below(run, 40 * WORLD_MS);
            at(run, again_ns, crash_now);
            at(run, again_ns + 1 + below(run, 300 * WORLD_MS), restart_now);
        }
    }
    set_traps(run);
    schedule_full_disks(run);
}
