/* exhaust_workloads.c: see exhaust.h. What is tried: small logs, few clients, no faults but the cut.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "exhaust__parts.h"

#define SMALL .region_mb = NODE_REGION_MB_MAX, .step_max = 16, .pause_max_ms = 5, .journal_bytes = 512 << 10
/* An operator, who makes topics and deletes groups and offsets, and others, each on its own. */
#define GROUPS                                                                                                     \
    .region_mb = NODE_REGION_MB_MAX, .step_max = 16, .journal_bytes = 512 << 10, .shards = 2, .topics = 1,         \
    .partitions_max = 1, .producers = 1, .admin_operations = 1, .records = 4, .value_bytes_max = 300, .groups = 1, \
    .crowd_members = 1, .group_session_ms = 300, .group_rebalance_ms = 300, .group_sweep_ms = 200,                 \
    .group_grown_kb = 1, .offsets_minutes = 10080
#define HIT(x) (1u << CHECK_GROUPS_##x)

const struct exhaust_workload exhaust__workloads[] = {
    {.name = "first",
     .shape = {SMALL, .shards = 1, .topics = 2, .partitions_max = 1, .producers = 1, .admin_operations = 2,
               .records = 8, .value_bytes_max = 300},
     .meets = RUN_CRASH_IN_SERVICE},
    {.name = "shards",
     .shape = {SMALL, .shards = 2, .topics = 2, .partitions_max = 3, .producers = 2, .admin_operations = 2,
               .records = 12, .value_bytes_max = 300},
     .meets = RUN_CRASH_IN_SERVICE},
    {.name = "again",
     .shape = {SMALL, .shards = 1, .topics = 1, .partitions_max = 1, .producers = 1, .admin_operations = 2,
               .records = 30, .value_bytes_max = 300},
     .reset_ppm = 60000,
     .meets = RUN_CRASH_IN_SERVICE},
    {.name = "large",
     .shape = {SMALL, .shards = 1, .topics = 1, .partitions_max = 1, .producers = 1, .admin_operations = 2,
               .records = 60, .value_bytes_max = 12000},
     .meets = RUN_LARGE_RUN},
    {.name = "roll",
     .shape = {SMALL, .shards = 1, .topics = 1, .partitions_max = 1, .producers = 1, .admin_operations = 2,
               .records = 150, .value_bytes_max = 6000, .segment_bytes = 14 << 10},
     .meets = RUN_SEGMENT_ROLLED},
    {.name = "journal",
     .shape = {SMALL, .shards = 1, .topics = 1, .partitions_max = 1, .producers = 1, .admin_operations = 2,
               .records = 120, .value_bytes_max = 3000},
     .meets = RUN_JOURNAL_ROLLED},
    {.name = "trim",
     .shape = {SMALL, .shards = 1, .topics = 1, .partitions_max = 1, .producers = 1, .admin_operations = 2,
               .records = 400, .value_bytes_max = 3000},
     .meets = RUN_JOURNAL_TRIMMED},
    {.name = "delete",
     .shape = {SMALL, .shards = 1, .topics = 2, .partitions_max = 1, .producers = 1, .records = 20,
               .value_bytes_max = 300, .admin_operations = 25, .churn = 1},
     .meets = RUN_CRASH_IN_SERVICE},
    {.name = "stop",
     .shape = {SMALL, .shards = 1, .topics = 2, .partitions_max = 1, .producers = 1, .admin_operations = 2,
               .records = 20, .value_bytes_max = 300},
     .then = EXHAUST_STOP,
     .at_ms = 60,
     .back_ms = 120,
     .meets = RUN_START_CLEAN},
    {.name = "recovery",
     .shape = {SMALL, .shards = 1, .topics = 2, .partitions_max = 1, .producers = 1, .admin_operations = 2,
               .records = 24, .value_bytes_max = 3000},
     .then = EXHAUST_CRASH,
     .keep = WORLD_KEEP_ALL,
     .at_ms = 80,
     .back_ms = 100,
     .from_start = 2,
     .meets = RUN_BYTES_REPLAYED},
    {.name = "recovery-cut",
     .shape = {SMALL, .shards = 2, .topics = 2, .partitions_max = 1, .producers = 1, .admin_operations = 2,
               .records = 24, .value_bytes_max = 6000},
     .then = EXHAUST_CRASH,
     .keep = WORLD_KEEP_EACH,
     .at_ms = 80,
     .back_ms = 100,
     .from_start = 2,
     .meets = RUN_BYTES_REPLAYED},
    {.name = "recovery-roll",
     .shape = {SMALL, .shards = 1, .topics = 1, .partitions_max = 1, .producers = 1, .admin_operations = 2,
               .records = 150, .value_bytes_max = 6000, .segment_bytes = 14 << 10},
     .then = EXHAUST_CRASH,
     .keep = WORLD_KEEP_EACH,
     .at_ms = 200,
     .back_ms = 220,
     .from_start = 2,
     .meets = RUN_BYTES_REPLAYED},
    {.name = "groups",
     .shape = {GROUPS, .crowds = 3, .group_leaves = 1, .pause_max_ms = 15},
     .until_ms = 600,
     .meets = RUN_CRASH_IN_SERVICE,
     .meets_groups = HIT(ROUND) | HIT(ASSIGNED) | HIT(COMMITTED) | HIT(LEFT) | HIT(EMPTIED) | HIT(CARRIED_ON)},
    {.name = "groups-go",
     .shape = {GROUPS, .crowds = 2, .group_simple = 1, .pause_max_ms = 4},
     .until_ms = 500,
     .stride = 4,
     .meets = RUN_CRASH_IN_SERVICE,
     .meets_groups = HIT(COMMITTED) | HIT(UNCOMMITTED) | HIT(DISBANDED)},
    {.name = "groups-back",
     .shape = {GROUPS, .crowds = 3, .group_leaves = 1, .pause_max_ms = 15},
     .then = EXHAUST_CRASH,
     .keep = WORLD_KEEP_EACH,
     .at_ms = 600,
     .back_ms = 620,
     .until_ms = 700,
     .from_start = 2,
     .meets = RUN_GROUP_LOG_ANEW,
     .meets_groups = HIT(CARRIED_ON)},
};
const uint32_t exhaust__workload_count = BASE_ARRAY_COUNT(exhaust__workloads);

void exhaust__shape(struct run *run, const struct exhaust_workload *workload, struct world_knobs *knobs)
{
    run->shape = workload->shape;
    world_knobs_default(knobs);
    knobs->keep = workload->keep;
    knobs->restart_delay_max_ns = 20 * WORLD_MS;
    knobs->rate_ppm[WORLD_NET_RESET] = workload->reset_ppm;
    run__shape_set(run, knobs);
}

static bool is_over(const struct run *run)
{
    const struct exhaust *exhaust = run->user;
    return exhaust->is_cut;
}

static void go_down(void *context, struct world *world)
{
    struct run *run = context;
    const struct exhaust *exhaust = run->user;
    if (is_over(run)) { return; }
    if (exhaust__workloads[exhaust->workload].then == EXHAUST_STOP) {
        world_stop(world, run->cast.broker);
    } else {
        world_crash(world, run->cast.broker, WORLD_POWER);
    }
}

static void come_back(void *context, struct world *world)
{
    struct run *run = context;
    if (is_over(run)) { return; }
    if (world_node_state(world, run->cast.broker) == WORLD_UP) { /* the stop takes its time */
        world_at(world, world_now(world) + 10 * WORLD_MS, come_back, context);
        return;
    }
    world_restart(world, run->cast.broker);
}

void exhaust__schedule(struct run *run, const struct exhaust_workload *workload)
{
    run->crash_end_ns = base_max_u64(workload->back_ms, workload->until_ms) * WORLD_MS;
    if (workload->then == EXHAUST_NOTHING) { return; }
    world_at(run->world, workload->at_ms * WORLD_MS, go_down, run);
    world_at(run->world, workload->back_ms * WORLD_MS, come_back, run);
}
