/* log_run.c: see log.h. The shape that a seed draws, disasters, phases.
 *
 *   load      the driver at work; faults by the swarm, crashes and stops by schedule
 *   catch up  faults stop; every follower gets to its leader's end, and all of it is committed (I21)
 *   restart   a clean stop or a power cut; everything is there, once more to the end
 *   end       a clean stop; nothing is left over (I24, I25)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "log__parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#define CATCH_UP_MAX_NS (120 * WORLD_S)
#define STOP_MAX_NS     (60 * WORLD_S)

void log_fail(struct log_run *run, const char *id, const char *format, ...)
{
    if (run->is_failed) { return; }
    run->is_failed = true;
    struct run_result *result = run->result;
    (void)snprintf(result->id, sizeof result->id, "%s", id); /* cut: every id is short */
    va_list words;
    va_start(words, format);
    (void)vsnprintf(result->text, sizeof result->text, format, words); /* cut: a text is for people */
    va_end(words);
}

void log_panic(struct log_run *run, const char *file, int line, const char *what)
{
    uint32_t shard = 0;
    if (run->world != NULL) { (void)world_stepping(run->world, &shard); } /* which node is known */
    log_fail(run, "CHECK", "%s:%d: %s (log mode, shard %" PRIu32 ")", file, line, what, shard);
}

/* ---- the shape ---- */

static const struct {
    const char *name;
    size_t at;
} knobs_of_shape[] = {
    {"shards", offsetof(struct log_shape, shards)},
    {"step_max", offsetof(struct log_shape, step_max)},
    {"crashes", offsetof(struct log_shape, crashes)},
    {"load_ms", offsetof(struct log_shape, load_ms)},
    {"segment_bytes", offsetof(struct log_shape, segment_bytes)},
    {"journal_bytes", offsetof(struct log_shape, journal_bytes)},
    {"io_errors", offsetof(struct log_shape, io_errors)},
    {"sync_errors", offsetof(struct log_shape, sync_errors)},
    {"value_bytes_max", offsetof(struct log_shape, value_bytes_max)},
};

static int64_t *shape_at(struct log_shape *shape, const char *name)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(knobs_of_shape); i++) {
        if (strcmp(knobs_of_shape[i].name, name) == 0) {
            return (int64_t *)(void *)((uint8_t *)shape + knobs_of_shape[i].at);
        }
    }
    return NULL;
}

static int64_t draw(struct log_run *run, int64_t from, int64_t to)
{
    return from + (int64_t)base_prng_below(&run->prng, (uint64_t)(to - from + 1));
}

static void set_disk_errors(struct log_run *run, struct world_knobs *knobs)
{
    static const enum world_fault faults[] = {WORLD_DISK_EIO_READ, WORLD_DISK_EIO_WRITE,  WORLD_DISK_EIO_SYNC,
                                              WORLD_DISK_EIO_BACK, WORLD_DISK_EIO_NAME,   WORLD_DISK_EIO_LIST,
                                              WORLD_DISK_NO_SPACE, WORLD_DISK_NO_HANDLES, WORLD_DISK_NO_MEMORY,
                                              WORLD_DISK_FULL};
    if (run->shape.io_errors != 0) { return; }
    for (size_t i = 0; i < BASE_ARRAY_COUNT(faults); i++) { knobs->rate_ppm[faults[i]] = 0; }
    if (run->shape.sync_errors != 0) { knobs->rate_ppm[WORLD_DISK_EIO_SYNC] = 500; }
}

static void draw_shape(struct log_run *run, struct world_knobs *knobs)
{
    const struct run_config *config = run->config;
    struct log_shape *shape = &run->shape; /* one draw after another: initializers have no order */
    shape->shards = draw(run, 1, 3);
    shape->step_max = base_prng_chance(&run->prng, 1, 6) ? 1 : draw(run, 4, 64);
    shape->pairs = draw(run, 1, LOG_PAIRS_MAX);
    shape->load_ms = draw(run, 3000, 6000);
    shape->crashes = draw(run, 2, 7);
    shape->segment_bytes = draw(run, 4, 60) * 1024;
    shape->journal_bytes = draw(run, 8, 20) * (64 << 10);
    shape->io_errors = base_prng_chance(&run->prng, 1, 5) ? 1 : 0;
    shape->sync_errors = base_prng_chance(&run->prng, 1, 4) ? 1 : 0;
    shape->value_bytes_max = base_prng_chance(&run->prng, 1, 3) ? 9000 : draw(run, 60, 2500);
    shape->pause_max_us = draw(run, 2000, 12000);
    world_knobs_swarm(knobs, config->seed);
    knobs->restart_delay_max_ns = 200 * WORLD_MS;
    for (uint32_t i = 0; i < config->set_count; i++) {
        int64_t *at = shape_at(&run->shape, config->sets[i].name);
        if (at != NULL) { *at = config->sets[i].value; }
    }
    run->shape.shards = base_min_i64(run->shape.shards, WORLD_SHARDS_MAX);
    set_disk_errors(run, knobs);
    for (uint32_t i = 0; i < config->set_count; i++) {
        /* The knobs of the other mode say nothing here. */
        if (shape_at(&run->shape, config->sets[i].name) == NULL) {
            (void)!world_knobs_set(knobs, config->sets[i].name, config->sets[i].value);
        }
    }
}

static void draw_pairs(struct log_run *run)
{
    for (uint32_t p = 0; p < (uint32_t)run->shape.pairs; p++) {
        struct log_pair *pair = &run->pairs[p];
        *pair = (struct log_pair){.run = run, .index = p, .timestamp_ms = 1000};
        pair->moves_start = draw(run, 0, 3) == 0;
        pair->has_producers = !pair->moves_start;
        pair->content = run->config->seed * 1000003 + p;
        for (uint32_t r = 0; r < 2; r++) {
            struct log_replica *at = &pair->replicas[r];
            at->id.index = (int32_t)(2 * p + r);
            for (size_t i = 0; i < sizeof at->id.topic.b; i++) { at->id.topic.b[i] = (uint8_t)(0x10 + i + p); }
        }
    }
}

/* ---- what is watched ---- */

static void on_boot(void *context, uint32_t node)
{
    struct log_run *run = context;
    (void)node;
    run->result->starts += 1;
    run->is_disk_failed = run->has_failed_log = false;
    run->is_journal_full = false;
    if (run->phase == LOG_STOPPING) { run->phase = run->phase_before_stop; } /* it is over, or a crash came before */
    memset(run->is_serving, 0, sizeof run->is_serving);
    log_driver_boot(run);
}

static bool is_cutting(const struct log_run *run)
{
    for (uint32_t p = 0; p < (uint32_t)run->shape.pairs; p++) {
        if (run->pairs[p].replicas[0].is_cutting || run->pairs[p].replicas[1].is_cutting) { return true; }
    }
    return false;
}

static bool all_serve(const struct log_run *run)
{
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        if (!run->is_serving[i]) { return false; }
    }
    return true;
}

static void on_crash(void *context, uint32_t node, enum world_crash kind)
{
    struct log_run *run = context;
    (void)node;
    (void)kind;
    run->result->crashes += 1;
    bool may_be_clean = run->phase == LOG_STOPPING || (!all_serve(run) && run->clean != LOG_UNCLEAN);
    run->clean = may_be_clean ? LOG_MAYBE_CLEAN : LOG_UNCLEAN;
    uint64_t *branches = run->result->branches;
    branches[all_serve(run) ? (run->phase == LOG_STOPPING ? RUN_CRASH_IN_STOP : RUN_CRASH_IN_SERVICE)
                            : RUN_CRASH_IN_RECOVERY] += 1;
    if (is_cutting(run)) { branches[RUN_LOG_CRASH_IN_TRUNCATION] += 1; }
}

static void on_stopped(void *context, uint32_t node)
{
    struct log_run *run = context;
    (void)node;
    bool has_room = run->shape.io_errors == 0 && !log_was_full(run); /* for the last checkpoint */
    bool is_clean = all_serve(run) && !run->is_disk_failed && has_room;
    run->clean = is_clean ? LOG_CLEAN : LOG_MAYBE_CLEAN;
}

static void on_effect(void *context, uint32_t node, uint32_t shard, const struct port_effect *effect)
{
    struct log_run *run = context;
    (void)node;
    bool is_plog = effect->token >> 56 == PLOG_TOKEN_ROOM;
    if (!is_plog) { return; }
    if (effect->kind == PORT_TRUNCATE && run->is_serving[shard] && is_cutting(run)) {
        run->result->branches[RUN_LOG_FILE_CUT] += 1;
    }
    if (effect->kind == PORT_UNLINK) { run->result->branches[RUN_LOG_SEGMENT_GONE] += 1; }
}

/* ---- disasters ---- */

static void crash_now(void *context, struct world *world)
{
    struct log_run *run = context;
    world_crash(world, run->node, base_prng_chance(&run->prng, 3, 4) ? WORLD_POWER : WORLD_PROCESS);
}

static void restart_now(void *context, struct world *world)
{
    struct log_run *run = context;
    if (world_node_state(world, run->node) != WORLD_UP) { world_restart(world, run->node); }
}

static void stop_begin(struct log_run *run)
{
    run->phase_before_stop = run->phase;
    run->phase = LOG_STOPPING;
    world_stop(run->world, run->node);
}

static void stop_now(void *context, struct world *world)
{
    struct log_run *run = context;
    bool may_stop = world_node_state(world, run->node) == WORLD_UP && all_serve(run) && run->phase != LOG_STOPPING;
    if (may_stop) { stop_begin(run); }
}

static void schedule(struct log_run *run)
{
    for (int64_t i = 0; i < run->shape.crashes; i++) {
        uint64_t at_ns = 100 * WORLD_MS + base_prng_below(&run->prng, (uint64_t)run->shape.load_ms * WORLD_MS);
        bool is_stop = base_prng_chance(&run->prng, 1, 5);
        world_at(run->world, at_ns, is_stop ? stop_now : crash_now, run);
        uint64_t back_ns = at_ns + (is_stop ? 600 * WORLD_MS : 0) + 1 + base_prng_below(&run->prng, 100 * WORLD_MS);
        world_at(run->world, back_ns, restart_now, run);
        if (base_prng_chance(&run->prng, 1, 3)) { /* again, while it recovers */
            uint64_t again_ns = back_ns + 1 + base_prng_below(&run->prng, 30 * WORLD_MS);
            world_at(run->world, again_ns, crash_now, run);
            back_ns = again_ns + 1 + base_prng_below(&run->prng, 100 * WORLD_MS);
            world_at(run->world, back_ns, restart_now, run);
        }
        run->crash_end_ns = base_max_u64(run->crash_end_ns, back_ns);
    }
}

/* ---- phases ---- */

static bool is_broken(struct log_run *run)
{
    const char *what = world_failure(run->world);
    if (what != NULL) { log_fail(run, "I24", "%s", what); }
    return run->is_failed;
}

/* A disk or log that failed, or a node that has stopped, comes back with a restart. */
static void bring_back(struct log_run *run)
{
    enum world_state state = world_node_state(run->world, run->node);
    if (state == WORLD_STOPPED) {
        if (run->phase == LOG_STOPPING) { run->phase = run->phase_before_stop; }
        world_restart(run->world, run->node);
    } else if (state == WORLD_UP && (run->is_disk_failed || (run->has_failed_log && run->phase == LOG_CATCH_UP))) {
        if (run->phase == LOG_STOPPING) { run->phase = run->phase_before_stop; }
        world_crash(run->world, run->node, WORLD_PROCESS);
        world_restart(run->world, run->node);
    }
}

static bool run_until(struct log_run *run, bool (*is_done)(struct log_run *run), uint64_t limit_ns)
{
    uint64_t end_ns = world_now(run->world) + limit_ns;
    while (!is_broken(run)) {
        if (is_done(run)) { return true; }
        if (world_now(run->world) >= end_ns) { return false; }
        (void)world_run(run->world, world_now(run->world) + 20 * WORLD_MS); /* is_broken looks */
        if (!is_broken(run) && !run->waits_for_stop) { bring_back(run); }
    }
    return false;
}

static bool is_load_over(struct log_run *run)
{
    return world_now(run->world) >= base_max_u64((uint64_t)run->shape.load_ms * WORLD_MS, run->crash_end_ns) &&
           run->phase == LOG_LOAD;
}

static bool are_even(const struct log_run *run)
{
    for (uint32_t p = 0; p < (uint32_t)run->shape.pairs; p++) {
        if (!log_driver_is_even(&run->pairs[p])) { return false; }
    }
    return true;
}

static bool is_even(struct log_run *run)
{
    return world_node_state(run->world, run->node) == WORLD_UP && all_serve(run) && are_even(run);
}

static bool is_stopped(struct log_run *run) { return world_node_state(run->world, run->node) == WORLD_STOPPED; }

static bool catch_up(struct log_run *run)
{
    run->phase = LOG_CATCH_UP;
    if (run_until(run, is_even, CATCH_UP_MAX_NS)) { return true; }
    for (uint32_t p = 0; p < (uint32_t)run->shape.pairs; p++) {
        const struct log_pair *pair = &run->pairs[p];
        if (log_driver_is_even(pair)) { continue; }
        log_fail(run, "I21",
                 "the logs do not get even: %" PRIu32 " ends at %" PRId64 " and %" PRId64 ", committed to %" PRId64
                 ", shown to %" PRId64 " and %" PRId64 ", led %d, read %d %d, to truncate %d",
                 p, pair->replicas[0].model.end, pair->replicas[1].model.end, pair->committed_end,
                 pair->replicas[0].watermark, pair->replicas[1].watermark, pair->is_led, pair->replicas[0].is_audited,
                 pair->replicas[1].is_audited, pair->replicas[1 - pair->leader].needs_truncation);
    }
    return false;
}

static bool stop(struct log_run *run)
{
    run->waits_for_stop = true;
    stop_begin(run);
    bool is_done = run_until(run, is_stopped, STOP_MAX_NS);
    run->waits_for_stop = false;
    if (is_done) { return true; }
    log_fail(run, "I21", "the node does not stop");
    return false;
}

void log_go(struct log_run *run)
{
    if (!run_until(run, is_load_over, 60 * WORLD_S)) {
        log_fail(run, "I21", "the load does not end");
        return;
    }
    world_calm(run->world);
    if (!catch_up(run)) { return; }
    if (base_prng_chance(&run->prng, 1, 2)) {
        if (!stop(run)) { return; }
        run->phase = LOG_CATCH_UP;
    } else {
        world_crash(run->world, run->node, WORLD_POWER);
    }
    (void)world_run(run->world, world_now(run->world) + WORLD_MS); /* is_broken looks */
    world_restart(run->world, run->node);
    if (!catch_up(run)) { return; }
    if (!stop(run)) { return; }
    (void)is_broken(run); /* keeps what was found */
}

/* ---- begin and end ---- */

struct log_run *log_begin(const struct run_config *config, struct run_result *result)
{
    struct log_run *run = calloc(1, sizeof *run);
    CHECK(run != NULL);
    run->config = config;
    run->result = result;
    result->branches[RUN_LOG_MODE] = 1;
    base_prng_init(&run->prng, config->seed, UINT64_C(0x6c6f67)); /* "log" */
    base_prng_init(&run->driver, config->seed, UINT64_C(0x6472)); /* "dr" */
    struct world_knobs knobs;
    draw_shape(run, &knobs);
    draw_pairs(run);
    run->world = world_create(config->seed, &knobs);
    if (config->trace != NULL) { world_trace_to(run->world, config->trace); }
    world_observe(run->world, &(struct world_observer){.context = run,
                                                       .on_effect = on_effect,
                                                       .on_boot = on_boot,
                                                       .on_crash = on_crash,
                                                       .on_stopped = on_stopped});
    run->node = world_add_node(run->world, &(struct world_node_spec){.machine = &log_machine,
                                                                     .context = run,
                                                                     .shard_count = (uint32_t)run->shape.shards,
                                                                     .disk_count = 1,
                                                                     .region_bytes = LOG_REGION_BYTES});
    schedule(run);
    return run;
}

void log_end(struct log_run *run)
{
    struct run_result *result = run->result;
    result->is_ok = !run->is_failed;
    if (run->world != NULL) {
        result->events = world_events(run->world);
        result->virtual_ns = world_now(run->world);
        result->hash = world_hash(run->world);
        for (int i = 0; i < WORLD_FAULT_COUNT; i++) { result->hits[i] = world_hits(run->world, (enum world_fault)i); }
        world_destroy(run->world);
    }
    log_driver_boot(run);
    for (uint32_t p = 0; p < LOG_PAIRS_MAX; p++) {
        struct log_pair *pair = &run->pairs[p];
        for (int r = 0; r < 2; r++) { log_model_free(&pair->replicas[r].model); }
        for (uint32_t i = 0; i < pair->pool_count; i++) { free(pair->pool[i].bytes); }
        free(pair->pool);
        free(pair->committed);
    }
    free(run);
}
