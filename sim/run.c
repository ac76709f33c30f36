/* run.c: see run.h. The phases.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "log.h"
#include "run__parts.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#define DRAIN_MAX_NS       (150 * WORLD_S) /* longer than any time-out of a client */
#define PROBE_MAX_NS       (60 * WORLD_S)
#define START_MAX_NS       (60 * WORLD_S)
#define VERIFY_MAX_NS      (240 * WORLD_S) /* a few records a second, where the network is slowest */
#define QUIET_MAX_NS       (30 * WORLD_S)
#define PROBES             5
#define KNOCKS             12
#define KNOCK_PAUSE_NS     (1300 * WORLD_MS) /* longer than a wake-up may take */
#define IDLE_NS            (3 * WORLD_S)
#define IDLE_EVENTS_MAX    60
#define SWEEP_SLOTS        64  /* groups and offsets that a step of a sweep looks at */
#define RETENTION_CHECK_MS 400 /* each shard looks at its logs so often, where there is something to be deleted */

/* A failed CHECK of the core ends the run, not the program: one run at a time in a process. */
static sigjmp_buf panic_way_out;
static struct run *volatile panic_run;
static struct log_run *volatile panic_log;

void base_panic_host(const char *file, int line, const char *what)
{
    struct run *run = panic_run;
    struct log_run *log = panic_log;
    if (log != NULL) {
        log_panic(log, file, line, what);
        panic_log = NULL;
        siglongjmp(panic_way_out, 1);
    }
    if (run == NULL) {
        (void)fprintf(stderr, "CHECK failed: %s:%d: %s\n", file, line, what); /* about to abort */
        abort();
    }
    uint32_t shard = 0, node = run->world == NULL ? WORLD_NONE : world_stepping(run->world, &shard);
    run__fail(run, "CHECK", "%s:%d: %s (node %" PRId32 " shard %" PRIu32 ")", file, line, what, (int32_t)node, shard);
    panic_run = NULL;
    siglongjmp(panic_way_out, 1);
}

static const char *const branch_names[RUN_BRANCH_COUNT] = {
    "crash_in_boot",
    "crash_in_recovery",
    "crash_in_loading",
    "crash_in_service",
    "crash_in_stop",
    "crash_in_checkpoint",
    "start_empty",
    "start_clean",
    "start_dirty",
    "tail_cut",
    "bytes_replayed",
    "states_read",
    "checkpoint",
    "journal_rolled",
    "journal_trimmed",
    "large_run",
    "session_opened",
    "session_gone_on",
    "session_left_out",
    "session_evicted",
    "session_refused",
    "segment_rolled",
    "disk_failed",
    "disk_full",
    "full_refused",
    "start_refused",
    "log_mode",
    "log_truncated",
    "log_crash_in_truncation",
    "log_file_cut",
    "log_segment_gone",
    "log_waited_checkpoint",
    "damage_told",
    "groups",
    "group_log_anew",
    "page_cache",
    "page_cache_lost",
    "page_cache_held",
    "metadata_anew",
    "order_judged",
    "told_judged",
};
void run__leave(struct run *run)
{
    run->result->is_cut = true;
    panic_run = NULL;
    siglongjmp(panic_way_out, 1);
}

const char *run_branch_name(enum run_branch branch) { return branch_names[branch]; }

void run__fail(struct run *run, const char *id, const char *format, ...)
{
    if (run->is_failed) { return; }
    run->is_failed = true;
    struct run_result *result = run->result;
    if (run->world != NULL) {
        enum world_fault fault;
        result->step = world_events(run->world);
        if (world_last_fault(run->world, &fault, &result->fault_step)) {
            (void)snprintf(result->fault, sizeof result->fault, "%s", world_fault_name(fault)); /* short */
        }
    }
    (void)snprintf(result->id, sizeof result->id, "%s", id); /* cut: every id is short */
    va_list words;
    va_start(words, format);
    (void)vsnprintf(result->text, sizeof result->text, format, words); /* cut: a text is for people */
    va_end(words);
}

/* What the world and the stream's checkers have found so far. */
static bool is_broken(struct run *run)
{
    if (run->report.count > 0) { run__fail(run, run->report.breaches[0].id, "%s", run->report.breaches[0].text); }
    const char *what = world_failure(run->world);
    if (what != NULL) { run__fail(run, "I24", "%s", what); }
    return run->is_failed;
}

/* From here on what waits for longer is too late; not while limits are small: who waits for others there, waits as long as they do. */
static void judge_late(struct run *run, uint64_t late_ns)
{
    check_stream_late(run->stream, run__limits_hold(run) ? UINT64_MAX : late_ns);
}

static bool producers_are_finished(struct run *run);
static bool broker_is_stopped(struct run *run);

/* Runs until `is_done` or for `limit_ns`. False: it never was. */
static bool run_until(struct run *run, bool (*is_done)(struct run *run), uint64_t limit_ns)
{
    uint64_t end_ns = world_now(run->world) + limit_ns;
    while (!is_broken(run)) {
        if (is_done(run)) { return true; }
        if (run->is_calm && world_now(run->world) >= run->prompt_ns) { judge_late(run, WORLD_S); }
        bool may_rest = is_done == producers_are_finished || is_done == broker_is_stopped;
        if (!may_rest && world_node_state(run->world, run->cast.broker) == WORLD_STOPPED) {
            world_restart(run->world, run->cast.broker); /* a stop that was asked for before the calm has come true */
        }
        bool is_up = world_node_state(run->world, run->cast.broker) == WORLD_UP && run->is_ready[0];
        if (run->is_calm && is_up && run->group_restarts < 3 &&
            run__groups_are_refused(run)) { /* the operator has read so */
            run->group_restarts += 1;
            world_crash(run->world, run->cast.broker, WORLD_PROCESS);
            world_restart(run->world, run->cast.broker);
        }
        if (world_now(run->world) >= end_ns) { return false; }
        bool is_idle = !world_run(run->world, world_now(run->world) + 50 * WORLD_MS);
        if (is_idle && !is_broken(run)) { return is_done(run); } /* nothing is left that could happen */
    }
    return false;
}

static struct actor_view view_actor(const struct run *run, uint32_t at)
{
    struct actor_view view = {.is_quiet = true, .is_finished = true};
    const void *machine = world_machine_at(run->world, run->actor_nodes[at], 0);
    if (machine != NULL) { actor_view(machine, &view); }
    return view;
}

static void tell_actors_of(struct run *run, enum actor_message what, uint32_t topic, int32_t partition)
{
    for (uint32_t i = 0; i < run->actor_count; i++) {
        struct port_message message = {.kind = what, .words = {topic, (uint64_t)partition}};
        world_post(run->world, run->actor_nodes[i], 0, &message);
    }
}

static void tell_actors(struct run *run, enum actor_message what) { tell_actors_of(run, what, 0, 0); }

static void note(struct run *run, const char *what)
{
    struct history_op op = history_op_init(HISTORY_NOTE, "", world_now(run->world));
    (void)snprintf(op.topic, sizeof op.topic, "%s", what); /* short */
    history_once(&run->history, &op);
}

/* Logs are looked at for what is too old or too much, every RETENTION_CHECK_MS. */
static bool has_sweeps(const struct run *run) { return run__has_retention(run) || run->shape.limits.retention_ms > 0; }

#define KEPT_MS (INT64_C(7) * 24 * 3600 * 1000) /* by a node, of topics that say nothing */

/* By a clock that is right now. */
static void note_age(struct run *run)
{
    struct history_op op = history_op_init(HISTORY_NOTE, "", world_now(run->world));
    memcpy(op.topic, "age", sizeof "age");
    op.at = KEPT_MS;
    op.timestamp_ms = run->wall_start_ms;
    history_once(&run->history, &op);
}

/* ---- conditions ---- */

static bool producers_are_finished(struct run *run)
{
    if (world_now(run->world) < run->crash_end_ns) { return false; }
    for (uint32_t i = 0; i < run->actor_count; i++) {
        if (run->specs[i].role == ACTOR_PRODUCER && !view_actor(run, i).is_finished) { return false; }
    }
    return true;
}

static bool nothing_is_outstanding(struct run *run)
{
    for (uint32_t i = 0; i < run->actor_count; i++) {
        if (view_actor(run, i).outstanding > 0) { return false; }
    }
    return true;
}

static bool actors_are_quiet(struct run *run)
{
    for (uint32_t i = 0; i < run->actor_count; i++) {
        if (!view_actor(run, i).is_quiet) { return false; }
    }
    return true;
}

static bool crowds_are_quiet(struct run *run)
{
    for (uint32_t i = 0; i < run->actor_count; i++) {
        if (run->specs[i].role == ACTOR_CROWD && !view_actor(run, i).is_quiet) { return false; }
    }
    return true;
}

static bool broker_serves(struct run *run)
{
    if (world_node_state(run->world, run->cast.broker) == WORLD_STOPPED) {
        world_restart(run->world, run->cast.broker);
    }
    bool is_ready = world_node_state(run->world, run->cast.broker) == WORLD_UP;
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) { is_ready = is_ready && run->is_ready[i]; }
    return is_ready;
}

static bool broker_is_stopped(struct run *run)
{
    return world_node_state(run->world, run->cast.broker) == WORLD_STOPPED;
}

static struct broker_view view_shard(const struct run *run, uint32_t shard)
{
    struct broker_view view = {.state = BROKER_STOPPED};
    const void *machine = world_machine_at(run->world, run->cast.broker, shard);
    if (machine != NULL) { broker_view(machine, &view); }
    return view;
}

static bool broker_is_still(struct run *run)
{
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        const void *machine = world_machine_at(run->world, run->cast.broker, i);
        if (machine == NULL || !broker_is_quiet(machine) || view_shard(run, i).connections > 0) { return false; }
    }
    return true;
}

/* Whoever took memory has given it back, but for what it goes on with. */
static bool blocks_are_back(struct run *run)
{
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        const void *machine = world_machine_at(run->world, run->cast.broker, i);
        if (machine == NULL || !broker_is_quiet(machine) || broker_lost_blocks(machine) != 0) { return false; }
    }
    return true;
}

static bool verifier_is_finished(struct run *run) { return view_actor(run, run->verifier).is_finished; }

/* A disk that failed is off line until a restart, and memory that is going to run out is seen to: the operator's part. */
static void restart_failed(struct run *run)
{
    bool is_failed = false;
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        struct broker_view view = view_shard(run, i);
        is_failed = is_failed || view.is_disk_failed || view.refusals_left > 0;
    }
    bool is_reboot = world_hides_error(run->world, run->cast.broker); /* the system's log told the operator */
    if (!is_failed && !is_reboot) { return; }
    world_crash(run->world, run->cast.broker, is_reboot ? WORLD_POWER : WORLD_PROCESS);
    world_restart(run->world, run->cast.broker);
}

/* A limit that some of the clients can't live with has been raised. */
static void start_anew(struct run *run)
{
    world_crash(run->world, run->cast.broker, WORLD_PROCESS);
    world_restart(run->world, run->cast.broker);
}

/* ---- the phases ---- */

static uint32_t sleeper_of(const struct run *run)
{
    switch (run->config->plant.sleeper) {
    case RUN_BROKER_SLEEPS: break;
    case RUN_VERIFIER_SLEEPS: return run->actor_nodes[run->verifier];
    case RUN_PRODUCER_SLEEPS:
        for (uint32_t i = 0; i < run->actor_count; i++) {
            if (run->specs[i].role == ACTOR_PRODUCER) { return run->actor_nodes[i]; }
        }
        break;
    }
    return run->cast.broker;
}

static void come_to(struct run *run, enum run_point point)
{
    if (run->config->plant.sleeps_at == point) { world_pause(run->world, sleeper_of(run), 24 * 3600 * WORLD_S); }
}

static bool drain(struct run *run)
{
    world_calm(run->world);
    come_to(run, RUN_AT_CALM);
    run->is_calm = true;
    run->node.refuse_ppm = 0;
    run->prompt_ns = world_now(run->world) + 2 * run->slow_max_ns; /* what stands still now goes on before that */
    if (run->cast.is_growing) { run->prompt_ns += 3 * ACTOR_HEARS_MS * WORLD_MS; }
    tell_actors(run, ACTOR_DRAIN);
    run__groups_calm(run);
    note(run, "calm");
    restart_failed(run);
    if (run__limits_raise(run)) { start_anew(run); }
    if (!run_until(run, broker_serves, START_MAX_NS)) {
        run__fail(run, "I21", "the broker does not come back: %s", broker_state_name(run->states[0]));
        return false;
    }
    restart_failed(run);
    if (!run_until(run, nothing_is_outstanding, DRAIN_MAX_NS)) {
        for (uint32_t i = 0; i < run->actor_count; i++) {
            struct actor_view view = view_actor(run, i);
            if (view.outstanding == 0) { continue; }
            run__fail(run, "I21", "%" PRIu32 " operations of %s never end", view.outstanding, run->specs[i].name);
        }
        return false;
    }
    /* When nothing is slow any more; several soon after each other, as a reader that was just woken looks again. */
    (void)world_run(run->world, base_max_u64(run->prompt_ns, world_now(run->world))); /* is_broken looks */
    judge_late(run, WORLD_S);
    note(run, "probe");
    for (int i = 0; i < PROBES; i++) {
        tell_actors(run, ACTOR_PROBE);
        (void)world_run(run->world, world_now(run->world) + (uint64_t)(i + 1) * 2 * WORLD_MS); /* as above */
    }
    (void)world_run(run->world, world_now(run->world) + 100 * WORLD_MS); /* until all were told */
    come_to(run, RUN_AT_PROBE);
    if (!run_until(run, nothing_is_outstanding, PROBE_MAX_NS)) {
        run__fail(run, "I21", "what is asked after the faults does not end");
        return false;
    }
    return true;
}

/* A partition that somebody waits at. */
static bool pick_watched(struct run *run, bool is_stable, uint32_t *topic_out, int32_t *partition_out)
{
    uint64_t first = base_prng_below(&run->prng, run->actor_count);
    uint64_t n = base_prng_below(&run->prng, ACTOR_TOPICS_MAX * ACTOR_PARTITIONS_MAX);
    for (uint32_t i = 0; i < run->actor_count; i++) {
        uint32_t at = (uint32_t)((first + i) % run->actor_count);
        const void *machine = world_machine_at(run->world, run->actor_nodes[at], 0);
        if (machine != NULL && actor_reads(machine, n, is_stable, topic_out, partition_out)) { return true; }
    }
    return false;
}

/* Readers wait at the ends, and nothing else goes on: records come in pairs, the second when whoever was woken by the first comes back
 * to wait again, and then nothing for long. At last a topic that is waited for is deleted. */
static bool knock(struct run *run)
{
    uint32_t topic;
    int32_t partition;
    for (int i = 0; i < KNOCKS && pick_watched(run, true, &topic, &partition); i++) {
        for (int k = 0; k < 2; k++) {
            tell_actors_of(run, ACTOR_KNOCK, topic, partition);
            (void)world_run(run->world, world_now(run->world) + base_prng_below(&run->prng, run->turn_ns + 1));
        }
        if (!run_until(run, nothing_is_outstanding, PROBE_MAX_NS)) {
            run__fail(run, "I21", "a record after the faults is not acknowledged");
            return false;
        }
        (void)world_run(run->world, world_now(run->world) + KNOCK_PAUSE_NS); /* is_broken looks */
    }
    if (!pick_watched(run, false, &topic, &partition)) { return !is_broken(run); }
    tell_actors_of(run, ACTOR_REMOVE, topic, partition);
    (void)world_run(run->world, world_now(run->world) + 100 * WORLD_MS); /* until all were told */
    if (!run_until(run, nothing_is_outstanding, PROBE_MAX_NS)) {
        run__fail(run, "I21", "a deletion after the faults does not end");
        return false;
    }
    (void)world_run(run->world, world_now(run->world) + KNOCK_PAUSE_NS); /* as above */
    return !is_broken(run);
}

static bool close_actors(struct run *run)
{
    come_to(run, RUN_AT_CLOSE);
    tell_actors(run, ACTOR_CLOSE);
    (void)world_run(run->world, world_now(run->world) + 100 * WORLD_MS); /* until all were told */
    if (!run_until(run, actors_are_quiet, QUIET_MAX_NS)) {
        run__fail(run, "I21", "the clients' connections do not end");
        return false;
    }
    if (!run_until(run, run__groups_are_empty, run__groups_empty_ns(run))) {
        run__fail(run, "I13", "groups whose members are all gone do not become empty");
        return false;
    }
    if (!run_until(run, broker_is_still, QUIET_MAX_NS)) {
        for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
            struct broker_view view = view_shard(run, i);
            const void *machine = world_machine_at(run->world, run->cast.broker, i);
            if (machine != NULL && broker_is_quiet(machine) && view.connections == 0) { continue; }
            run__fail(run, "I25",
                      "shard %" PRIu32 " does not come to rest: %" PRIu32 " connections, %" PRIu32 " requests, %" PRIu32
                      " parked",
                      i, view.connections, view.requests, view.parked);
        }
        return false;
    }
    if (!run_until(run, blocks_are_back, QUIET_MAX_NS)) {
        for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
            const void *machine = world_machine_at(run->world, run->cast.broker, i);
            int64_t lost = machine == NULL ? 0 : broker_lost_blocks(machine);
            if (lost == 0) { continue; }
            run__fail(run, "I25", "%" PRId64 " blocks of memory of shard %" PRIu32 " were not given back", lost, i);
        }
        return false;
    }
    return true;
}

static bool stop_broker(struct run *run)
{
    come_to(run, RUN_AT_STOP);
    world_stop(run->world, run->cast.broker);
    if (run_until(run, broker_is_stopped, START_MAX_NS)) { return true; }
    run__fail(run, "I21", "the broker does not stop: %s", broker_state_name(run->states[0]));
    return false;
}

static void judge(struct run *run)
{
    if (run__has_disk_trouble(run)) { note(run, "disk"); }
    judge_history(&run->history, &run->report);
    run__judge_files(run);
    run__judge_left(run);
    (void)is_broken(run); /* keeps what was found */
}

static bool restart(struct run *run)
{
    uint64_t refused = run->result->branches[RUN_START_REFUSED];
    if (run->shape.rots > 0) {
        world_crash(run->world, run->cast.broker, WORLD_POWER);
        run__rot(run);
    } else if (run->shape.clean_stop == 0) {
        world_crash(run->world, run->cast.broker, WORLD_POWER);
    } else if (!stop_broker(run)) {
        return false;
    }
    (void)world_run(run->world, world_now(run->world) + 10 * WORLD_MS); /* is_broken looks */
    world_restart(run->world, run->cast.broker);
    come_to(run, RUN_AT_START);
    bool is_serving = run_until(run, broker_serves, START_MAX_NS);
    if (is_serving && !run->has_lost_rows) { return true; }
    /* It said why, and served nothing; or that it does not know what it lost, and then that may be topics too. */
    if (is_serving || (run->is_rotten && run->result->branches[RUN_START_REFUSED] > refused)) {
        judge(run);
        return false;
    }
    run__fail(run, "I21", "the broker does not start: %s", broker_state_name(run->states[0]));
    return false;
}

static bool verify(struct run *run)
{
    note(run, "final");
    world_restart(run->world, run->actor_nodes[run->verifier]);
    come_to(run, RUN_AT_VERIFY);
    if (!run_until(run, verifier_is_finished, VERIFY_MAX_NS)) {
        run__fail(run, "I21", "the final reader does not get to the end of everything");
        return false;
    }
    if (run->groups == NULL || run->is_rotten) { return true; } /* a coordinator whose log has rotted is gone */
    tell_actors(run, ACTOR_LOOK);
    (void)world_run(run->world, world_now(run->world) + 100 * WORLD_MS); /* until all were told; is_broken looks */
    if (run_until(run, nothing_is_outstanding, VERIFY_MAX_NS) && run_until(run, crowds_are_quiet, QUIET_MAX_NS)) {
        return true;
    }
    run__fail(run, "I21", "committed offsets can't be asked for");
    return false;
}

static uint64_t sum_evaluated(const struct run *run, uint64_t *done_out, uint32_t *parked_out)
{
    uint64_t evaluated = 0;
    *done_out = 0;
    *parked_out = 0;
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        struct broker_view view = view_shard(run, i);
        evaluated += view.fetches_evaluated;
        *done_out += view.requests_done;
        *parked_out += view.parked;
    }
    return evaluated;
}

static uint64_t count_partitions(const struct run *run)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < run->cast.topic_count; i++) { count += (uint64_t)run->cast.topics[i].partition_count; }
    return count;
}

/* What a start has read of a page-cache log is synced within that. */
static uint64_t flush_max_ms(const struct run *run)
{
    uint64_t most_ms = run->node.settings.flush_ms;
    for (uint32_t i = 0; i < run->cast.topic_count; i++) {
        most_ms = base_max_u64(most_ms, run->cast.topics[i].flush_ms);
    }
    return most_ms;
}

#define DISK_REST_NS (500 * WORLD_MS)

/* What expires goes when it does, and whatever else is idle. */
static bool is_swept(const struct run *run) { return has_sweeps(run) || run->groups != NULL; }

/* What the start and the last requests left to do (the metadata log that is written anew, files that go) takes as long as the disk
 * does: the broker is idle when it has asked nothing of a disk for a while. */
static void let_disk_rest(struct run *run)
{
    uint64_t end_ns = world_now(run->world) + QUIET_MAX_NS;
    while (run->disk_due > 0 || world_now(run->world) - run->disk_last_ns < DISK_REST_NS) {
        if (is_broken(run)) { return; }
        if (world_now(run->world) >= end_ns) {
            if (is_swept(run)) { return; }
            run__fail(run, "I21", "the disk does not come to rest while a fetch was parked");
            return;
        }
        (void)world_run(run->world, world_now(run->world) + 100 * WORLD_MS); /* is_broken looks */
    }
}

/* The final reader waits at every end. In each of three spans shorter than its wait: no request was answered means nothing was
 * looked at, and, unless a checkpoint fell into it, that nothing happened; and never much of anything. */
static bool idle(struct run *run)
{
    uint64_t rest_ms = 500 + flush_max_ms(run);
    (void)world_run(run->world, world_now(run->world) + rest_ms * WORLD_MS); /* is_broken looks */
    let_disk_rest(run);
    judge_late(run, WORLD_S);
    for (int i = 0; i < 3; i++) {
        if (i == 2) { run__note_logs(run); }
        uint64_t done_before, done_after;
        uint32_t parked_before, parked_after;
        uint64_t evaluated_before = sum_evaluated(run, &done_before, &parked_before);
        uint64_t events_before = run->broker_events;
        uint64_t checkpoints_before = run->result->branches[RUN_CHECKPOINT];
        (void)world_run(run->world, world_now(run->world) + IDLE_NS); /* as above */
        uint64_t evaluated_after = sum_evaluated(run, &done_after, &parked_after);
        uint64_t events = run->broker_events - events_before;
        bool is_checkpointing = run->is_checkpointing || run->result->branches[RUN_CHECKPOINT] != checkpoints_before;
        bool is_waiting = parked_before > 0 && parked_before == parked_after && done_before == done_after;
        if (is_waiting && evaluated_after != evaluated_before) {
            run__fail(run, "I21", "a parked fetch was looked at %" PRIu64 " times while nothing happened",
                      evaluated_after - evaluated_before);
        }
        if (is_waiting && !is_checkpointing && !is_swept(run) && events > (uint64_t)run->shape.shards * 6) {
            run__fail(run, "I21", "%" PRIu64 " events in %d s while a fetch was parked", events,
                      (int)(IDLE_NS / WORLD_S));
        }
        uint64_t sweeps = has_sweeps(run) ? IDLE_NS / (RETENTION_CHECK_MS * WORLD_MS) : 0;
        if (run->groups != NULL) { /* a step may look at one piece of one coordinator's log only */
            uint64_t slots = (uint64_t)run->shape.groups * (1 + count_partitions(run));
            uint64_t pieces = 8 * (1 + slots / SWEEP_SLOTS);
            sweeps += pieces * (IDLE_NS / ((uint64_t)run->shape.group_sweep_ms * WORLD_MS) + 1);
        }
        uint64_t of_shards = (IDLE_EVENTS_MAX + 8 * sweeps) * (uint64_t)run->shape.shards;
        uint64_t of_logs = (24 + 2 * sweeps) * check_stream_logs(run->stream); /* one step may look at one slot only */
        if (events > of_shards + of_logs) {
            run__fail(run, "I21", "%" PRIu64 " events in %d s of idleness", events, (int)(IDLE_NS / WORLD_S));
        }
    }
    bool is_time_right = world_hits(run->world, WORLD_CLOCK_STEP) == 0;
    check_stream_kept(run->stream, is_time_right);
    return !is_broken(run);
}

static void go(struct run *run)
{
    (void)run_until(run, producers_are_finished, 40 * WORLD_S); /* faults may keep them from it */
    if (!drain(run) || !knock(run) || !close_actors(run) || !restart(run)) { return; }
    if (!verify(run) || !idle(run) || !close_actors(run)) { return; }
    if (stop_broker(run)) { judge(run); }
}

void run__finish(struct run *run)
{
    if (!drain(run)) { return; }
    if (run->groups != NULL && !close_actors(run)) { return; } /* who has gone can be asked to look */
    if (!verify(run) || !close_actors(run)) { return; }
    if (stop_broker(run)) { judge(run); }
}

bool run__is_loaded(struct run *run)
{
    if (!producers_are_finished(run)) { return false; }
    for (uint32_t i = 0; i < run->actor_count; i++) {
        bool is_endless = run->specs[i].role == ACTOR_CROWD; /* somebody always asks for something */
        if (!is_endless && view_actor(run, i).outstanding > 0) { return false; }
    }
    return true;
}
bool run__is_broken(struct run *run) { return is_broken(run); }

void run__guarded(struct run *run, void (*body)(struct run *run))
{
    panic_run = run;
    if (sigsetjmp(panic_way_out, 0) == 0) { body(run); }
    panic_run = NULL;
}

static void on_read(void *context, struct base_part part, int64_t offset)
{
    struct run *run = context;
    check_stream_read(run->stream, part, offset);
}

void run__begin(struct run *run, const struct world_knobs *knobs)
{
    const struct run_config *config = run->config;
    run->world = world_create(config->seed, knobs);
    if (config->trace != NULL) { world_trace_to(run->world, config->trace); }
    run->stream = check_stream_create(&run->report);
    run->slow_max_ns = knobs->slow_max_ns;
    run->wall_start_ms = knobs->wall_start_ms;
    run->turn_ns = 2 * knobs->net_delay_max_ns + knobs->sync_delay_max_ns;
    judge_late(run, WORLD_S + 3 * knobs->slow_max_ns); /* a stall of the disk, the shard, a message */
    run->cast = (struct actor_cast){.world = run->world,
                                    .history = &run->history,
                                    .port = NODE_PORT,
                                    .context = run,
                                    .on_read = on_read,
                                    .is_excused = run__is_excused};
    node_init(&run->node, (uint32_t)run->shape.step_max, (uint64_t)run->shape.journal_bytes);
    run->node.config.session_slots_max = (uint32_t)run->shape.session_slots;
    run->node.config.session_eviction_ms = (uint64_t)run->shape.session_eviction_ms;
    run->node.config.metadata_grown_bytes = (uint64_t)run->shape.metadata_grown_bytes;
    run->node.config.own_segment_bytes = (uint64_t)run->shape.own_segment_kb << 10;
    run->node.refuse_ppm = run->shape.refusals != 0 ? 600000 : 0;
    run__groups_configure(run, knobs);
    run__settings_configure(run);
    if (knobs->clock_heal_max_ns == 0) {
        node_forget_time(&run->node);
    } else {
        note_age(run);
    }
    run__limits_configure(run, knobs);
    check_stream_fetch_max(run->stream, run->node.config.fetch_bytes_max);
    if (has_sweeps(run)) { run->node.config.retention_check_ms = RETENTION_CHECK_MS; }
    run__observe(run);
    const struct world_machine *machine = config->plant.broker == NULL ? &node_machine : config->plant.broker;
    run->cast.broker =
        world_add_node(run->world, &(struct world_node_spec){.machine = machine,
                                                             .context = &run->node,
                                                             .shard_count = (uint32_t)run->shape.shards,
                                                             .disk_count = 1,
                                                             .region_bytes = (size_t)run->shape.region_mb << 20});
    run__add_actors(run);
    for (uint32_t i = 0; i < run->cast.topic_count && run__has_retention(run); i++) {
        const struct actor_topic *topic = &run->cast.topics[i];
        int64_t bytes = topic->retention_bytes, age_ms = topic->retention_ms;
        check_stream_keeps(run->stream, topic->name, bytes == 0 ? -1 : bytes, age_ms == 0 ? KEPT_MS : age_ms);
    }
    if (run__has_retention(run)) { check_stream_keeps(run->stream, "", -1, KEPT_MS); }
    run__schedule(run);
}

void run__end(struct run *run)
{
    struct run_result *result = run->result;
    result->is_ok = !run->is_failed;
    result->acknowledged = run->cast.acknowledged;
    result->operations = run->history.op_count;
    if (run->config->history != NULL) { history_write(&run->history, run->config->history); }
    if (run->world != NULL && run->config->until > 0 && run->config->states != NULL) {
        run->until_step = world_events(run->world) - (result->is_cut ? 1 : 0); /* left before the next one's step */
        run__print_states(run, run->config->states);
    }
    if (run->world != NULL) {
        result->events = world_events(run->world);
        result->virtual_ns = world_now(run->world);
        result->hash = world_hash(run->world);
        for (int i = 0; i < WORLD_FAULT_COUNT; i++) { result->hits[i] = world_hits(run->world, (enum world_fault)i); }
        for (uint32_t i = 0; i < WORLD_BEFORE_COUNT; i++) {
            result->asked_of[i] = world_asked_of(run->world, i);
            result->crashes_before[i] = world_crashes_before(run->world, i);
        }
        world_destroy(run->world);
    }
    if (run->stream != NULL) {
        const struct check_stream_counts *counts = check_stream_counts(run->stream);
        memcpy(result->answers, counts->answers, sizeof result->answers);
        result->acks_judged = counts->acks_judged;
        result->branches[RUN_LARGE_RUN] = counts->rows_large;
        result->branches[RUN_SESSION_OPENED] = counts->sessions_opened;
        result->branches[RUN_SESSION_GONE_ON] = counts->sessions_gone_on;
        result->branches[RUN_SESSION_LEFT_OUT] = counts->sessions_left_out;
        result->branches[RUN_SESSION_EVICTED] = counts->sessions_gone;
        result->branches[RUN_SESSION_REFUSED] = counts->session_epochs_refused;
        result->branches[RUN_PAGES_LOST] = counts->page_cache_lost;
        result->branches[RUN_PAGES_HELD] = counts->page_cache_held;
        result->branches[RUN_ORDER_JUDGED] = counts->orders_judged;
        result->branches[RUN_TOLD_JUDGED] = counts->topics_judged;
        check_stream_destroy(run->stream);
    }
    run__groups_end(run);
    history_free(&run->history);
}

static void draw_and_go(struct run *run)
{
    struct world_knobs knobs;
    run__shape_draw(run, &knobs);
    run__begin(run, &knobs);
    go(run);
}

bool run_is_log(const struct run_config *config)
{
    if (config->mode != RUN_BY_SEED) { return config->mode == RUN_LOG; }
    return base_hash_u64(config->seed ^ UINT64_C(0x6c6f67)) % 4 == 0;
}

static void run_log(const struct run_config *config, struct run_result *result_out)
{
    struct log_run *run = log_begin(config, result_out);
    panic_log = run;
    if (sigsetjmp(panic_way_out, 0) == 0) { log_go(run); }
    panic_log = NULL;
    log_end(run);
}

void run_seed(const struct run_config *config, struct run_result *result_out)
{
    *result_out = (struct run_result){.seed = config->seed, .is_log = run_is_log(config)};
    if (result_out->is_log) {
        run_log(config, result_out);
        return;
    }
    struct run *run = calloc(1, sizeof *run);
    CHECK(run != NULL);
    run->config = config;
    run->result = result_out;
    base_prng_init(&run->prng, config->seed, UINT64_C(0x73696d)); /* "sim" */
    run__guarded(run, draw_and_go);
    run__end(run);
    free(run);
}
