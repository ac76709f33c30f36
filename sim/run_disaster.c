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
    /* The rarest of all; from a stream of its own, so that the others draw what they drew before it was there. */
    struct base_prng prng;
    base_prng_init(&prng, run->config->seed ^ world_now(world), UINT64_C(0x7370616365)); /* "space" */
    if (base_prng_chance(&prng, 1, BASE_ARRAY_COUNT(kinds))) {
        kind = PORT_SPACE;
        count = 1;
    }
    run->sprung = RUN_STATE_COUNT;
    world_crash_before(world, run->cast.broker, kind, count, draw_crash(run));
}

/* ---- in a state ---- */

static const char *const state_names[RUN_STATE_COUNT] = {
    "boot",         "recovering", "loading", "serving", "stopping", "written", "journalled", "checkpoint", "roll",
    "journal_roll", "trim",       "delete",  "gone",    "anew",     "cut",     "deleted",    "anew_end",   "shortened",
};
const char *run_state_name(enum run_state state) { return state_names[state]; }

/* Those after it come only where they are asked for: set_cut_traps, set_holds. */
#define TRAP_STATES ((uint64_t)RUN_STATE_CUT + 1)

static void set_traps(struct run *run)
{
    static const uint64_t within[] = {1, 2, 5, 20, 100};
    run->trap_count = (uint32_t)base_min_u64((uint64_t)run->shape.state_crashes, RUN_TRAPS_MAX);
    for (uint32_t i = 0; i < run->trap_count; i++) {
        enum run_state state = (enum run_state)below(run, TRAP_STATES);
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

/* Soon after a cut: it is lost itself, and what was written there since is not. */
static void set_cut_traps(struct run *run)
{
    struct base_prng prng;
    base_prng_init(&prng, run->config->seed, UINT64_C(0x63757473)); /* "cuts": a stream of its own */
    for (int64_t i = 0; i < run->shape.cut_crashes && run->trap_count < RUN_TRAPS_MAX; i++) {
        struct run_trap *trap = &run->traps[run->trap_count++];
        *trap = (struct run_trap){.state = RUN_STATE_SHORTENED, .is_power = true};
        trap->passes = base_prng_below(&prng, 4);
        trap->within = UINT64_C(4) << base_prng_below(&prng, 6);
        trap->is_apart = base_prng_chance(&prng, 2, 3);
    }
}

/* ---- standing still, in a state ---- */

static void set_holds(struct run *run)
{
    /* Those that several shards have a part in. */
    static const enum run_state states[] = {RUN_STATE_DELETED,    RUN_STATE_DELETED, RUN_STATE_DELETED,
                                            RUN_STATE_GONE,       RUN_STATE_ANEW,    RUN_STATE_ANEW_END,
                                            RUN_STATE_CHECKPOINT, RUN_STATE_TRIM,    RUN_STATE_RECOVERING,
                                            RUN_STATE_LOADING,    RUN_STATE_SERVING, RUN_STATE_STOPPING,
                                            RUN_STATE_ROLL,       RUN_STATE_CUT};
    struct run_holds *holds = &run->holds;
    base_prng_init(&holds->prng, run->config->seed, UINT64_C(0x686f6c6473)); /* "holds": a stream of its own */
    for (size_t i = 0; i < RUN_HOLD_STATES; i++) {
        holds->states[i] = states[base_prng_below(&holds->prng, BASE_ARRAY_COUNT(states))];
    }
    if (run->shape.hold_state >= 0) { holds->states[0] = holds->states[1] = (enum run_state)run->shape.hold_state; }
    holds->left = (uint64_t)run->shape.holds;
    holds->crash = RUN_STATE_COUNT;
}

static void crash_held(void *context, struct world *world)
{
    struct run *run = context;
    enum run_state state = run->holds.crash;
    run->holds.crash = RUN_STATE_COUNT;
    bool is_power = base_prng_chance(&run->holds.prng, 3, 4);
    if (run->is_calm || state == RUN_STATE_COUNT || world_node_state(world, run->cast.broker) != WORLD_UP) { return; }
    run->sprung = state;
    world_crash_before(world, run->cast.broker, WORLD_BEFORE_ANY, 1, is_power ? WORLD_POWER : WORLD_PROCESS);
}

/* Lets a shard stand still within its next steps: the one that has got there or, where that is shard 0, which works for all, one
 * that is drawn. Two times of three the node goes down before it goes on. */
static void hold(struct run *run, enum run_state state)
{
    struct run_holds *holds = &run->holds;
    bool is_wanted = state == holds->states[0] || state == holds->states[1];
    if (run->is_calm || holds->left == 0 || !is_wanted || holds->crash != RUN_STATE_COUNT) { return; }
    static const uint32_t steps[] = {0, 0, 0, 1, 1, 1, 2, 5};
    struct base_prng *prng = &holds->prng;
    uint32_t shard = 0;
    uint32_t node = world_stepping(run->world, &shard);
    uint32_t other = (uint32_t)base_prng_below(prng, (uint64_t)run->shape.shards);
    uint32_t steps_left = steps[base_prng_below(prng, BASE_ARRAY_COUNT(steps))];
    uint64_t pause_ns = 20 * WORLD_MS << base_prng_below(prng, 6);
    bool is_crash = base_prng_chance(prng, 2, 3);
    bool is_passed = base_prng_chance(prng, 1, 2); /* a frequent state does not use up all of them at once */
    if (is_passed || node != run->cast.broker) { return; }
    holds->left -= 1;
    world_hold(run->world, node, shard == 0 ? other : shard, steps_left, pause_ns);
    if (!is_crash) { return; }
    holds->crash = state;
    world_at(run->world, world_now(run->world) + pause_ns * 7 / 8, crash_held, run);
}

void run__reached(struct run *run, enum run_state state)
{
    hold(run, state);
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
        if (trap->is_apart) { world_crash_keeps(run->world, run->cast.broker, WORLD_KEEP_BYTES); }
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
    set_cut_traps(run);
    set_holds(run);
    schedule_full_disks(run);
}
