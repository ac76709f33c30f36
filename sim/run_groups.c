/* run_groups.c: see run.h. Consumer groups in a run: their shape, their members, and what the coordinators have committed, looked at
 * after each step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run__parts.h"

#include <string.h>

#include "group/group.h"

#define ORPHAN_NS (5 * WORLD_S) /* after the faults, besides a sweep */

/* ---- the shape ---------------------------------------------------------------------------------------------------------- */

/* From a stream of its own: runs without groups are what they were before there were any. */
void run__groups_draw(struct run *run)
{
    struct run_shape *shape = &run->shape;
    struct base_prng prng;
    base_prng_init(&prng, run->config->seed, UINT64_C(0x67726f757073)); /* "groups" */
    bool is_on = base_prng_chance(&prng, 1, 3);
    uint64_t kind = base_prng_below(&prng, 40);
    shape->groups = is_on ? 1 + (int64_t)base_prng_below(&prng, 4) : 0;
    shape->crowds = 1 + (int64_t)base_prng_below(&prng, 3);
    shape->crowd_members = 2 + (int64_t)base_prng_below(&prng, 6);
    shape->group_s = 6 + (int64_t)base_prng_below(&prng, 12);
    shape->group_session_ms = 600 + (int64_t)base_prng_below(&prng, 3000);
    shape->group_rebalance_ms = 600 + (int64_t)base_prng_below(&prng, 3000);
    shape->group_delay_ms = base_prng_chance(&prng, 1, 2) ? 0 : (int64_t)base_prng_below(&prng, 800);
    shape->group_sweep_ms = 100 + (int64_t)base_prng_below(&prng, 1500);
    shape->group_grown_kb = 2 + (int64_t)base_prng_below(&prng, 30);
    bool is_long = base_prng_chance(&prng, 1, 8);
    shape->offsets_minutes = is_long ? 1 : 10080;
    if (is_long) { shape->group_s = 75; } /* so that offsets grow old */
    if (kind == 0) {                      /* one group with a hundred members */
        shape->groups = is_on ? 1 : 0;
        shape->crowds = 1;
        shape->crowd_members = 120;
    }
    if (kind == 1) { /* hundreds of groups, of one member each */
        shape->groups = is_on ? 200 : 0;
        shape->crowds = 2;
        shape->crowd_members = 100;
    }
    bool is_crowded = shape->crowd_members >= 100;
    if (is_crowded) {
        shape->group_session_ms = base_max_i64(shape->group_session_ms, 2500);
        shape->group_rebalance_ms = base_max_i64(shape->group_rebalance_ms, 2500);
        shape->group_s = 6;
    }
}

/* As long as a round of joining may take, and as much again to spare. */
static uint64_t round_ms(const struct run_shape *shape)
{
    return 2 * (uint64_t)(shape->group_session_ms + shape->group_rebalance_ms) + (uint64_t)shape->group_delay_ms;
}

static bool is_crowded(const struct run *run) { return run->shape.crowd_members * run->shape.crowds > 30; }

void run__groups_configure(struct run *run, const struct world_knobs *knobs)
{
    struct run_shape *shape = &run->shape;
    if (shape->groups == 0) { return; }
    /* A heartbeat must be able to be in time. */
    int64_t least_ms = (int64_t)(16 * knobs->net_delay_max_ns / WORLD_MS);
    shape->group_session_ms = base_max_i64(shape->group_session_ms, least_ms);
    shape->group_rebalance_ms = base_max_i64(shape->group_rebalance_ms, least_ms);
    struct broker_config *config = &run->node.config;
    config->group_initial_delay_ms = (int32_t)shape->group_delay_ms;
    config->group_session_min_ms = 100;
    config->group_session_max_ms = 600000;
    config->offsets_check_ms = (uint64_t)shape->group_sweep_ms;
    config->offsets_retention_minutes = (int32_t)shape->offsets_minutes;
    config->coordinator_grown_bytes = (uint64_t)shape->group_grown_kb << 10;
    if (is_crowded(run)) {
        config->connections_max = 320;
        shape->region_mb = base_max_i64(shape->region_mb, NODE_REGION_MB_CROWDED);
    }
    run->groups = check_groups_create(&run->report, &run->history);
    check_groups_rules(run->groups, shape->offsets_minutes * 60000,
                       round_ms(shape) * WORLD_MS + 3 * run->slow_max_ns + 10 * WORLD_S);
    run->result->branches[RUN_GROUPS] = 1;
}

void run__groups_add(struct run *run, void (*add)(struct run *run, const struct actor_spec *spec))
{
    const struct run_shape *shape = &run->shape;
    if (shape->groups == 0) { return; }
    struct actor_groups *groups = &run->cast.groups;
    static const char names[ACTOR_GROUP_TOPICS_MAX][4] = {"ga", "gb", "gc"};
    groups->topic_count = 1 + (uint32_t)base_prng_below(&run->prng, ACTOR_GROUP_TOPICS_MAX);
    for (uint32_t i = 0; i < groups->topic_count; i++) { memcpy(groups->topics[i].name, names[i], sizeof names[i]); }
    groups->group_count = (uint32_t)shape->groups;
    groups->session_max_ms = (int32_t)shape->group_session_ms;
    groups->rebalance_max_ms = (int32_t)shape->group_rebalance_ms;
    groups->has_short_lives = base_prng_chance(&run->prng, 1, 2);
    uint32_t crowds = (uint32_t)shape->crowds;
    for (uint32_t i = 0; i < crowds; i++) {
        uint32_t share = (uint32_t)shape->groups > 20 ? (uint32_t)shape->groups / crowds : (uint32_t)shape->groups;
        struct actor_spec spec = {.members = (uint32_t)shape->crowd_members,
                                  .first_group = share == (uint32_t)shape->groups ? 0 : i * share,
                                  .groups = share,
                                  .is_large = is_crowded(run),
                                  .is_restless = shape->group_leaves != 0,
                                  .is_simple = shape->group_simple != 0,
                                  .has_operator = i == 0,
                                  .has_rude = i == crowds - 1 && shape->crowd_members > 2};
        add(run, &spec);
    }
    run->crash_end_ns = base_max_u64(run->crash_end_ns, (uint64_t)shape->group_s * WORLD_S);
}

/* ---- what is committed ---------------------------------------------------------------------------------------------------- */

void run__groups_booted(struct run *run)
{
    if (run->groups == NULL) { return; }
    check_groups_boot(run->groups);
    for (uint32_t i = 0; i < WORLD_SHARDS_MAX; i++) { run->groups_applied[i] = UINT64_MAX; }
}

static bool is_led(const struct groups *groups, uint32_t log)
{
    struct group_log_look look;
    group_log_look(groups, log, &look);
    return look.is_led;
}

static void look_at_members(struct run *run, const struct groups *groups)
{
    struct group_member_look look;
    for (uint32_t cursor = 0; group_each_member(groups, &cursor, &look);) {
        if (!is_led(groups, look.log)) { continue; }
        struct check_group_member member = {.group_id = look.group_id,
                                            .log = look.log,
                                            .id = look.id,
                                            .instance = look.instance,
                                            .assignment = look.assignment,
                                            .session_ms = look.session_ms,
                                            .rebalance_ms = look.rebalance_ms};
        check_groups_member(run->groups, cursor - 1, &member);
    }
}

static void look_at_offsets(struct run *run, const struct groups *groups)
{
    struct group_offset_look look;
    for (uint32_t cursor = 0; group_each_offset(groups, &cursor, &look);) {
        if (!is_led(groups, look.log)) { continue; }
        struct check_group_offset offset = {.group_id = look.group_id,
                                            .log = look.log,
                                            .part = look.part,
                                            .offset = look.offset,
                                            .commit_ms = look.commit_ms,
                                            .expire_ms = look.expire_ms,
                                            .metadata = look.metadata,
                                            .has_topic = look.has_topic};
        check_groups_offset(run->groups, cursor - 1, &offset);
    }
}

static void look_at_groups(struct run *run, const struct groups *groups)
{
    struct group_look look;
    for (uint32_t cursor = 0; group_each(groups, &cursor, &look);) {
        if (!is_led(groups, look.log)) { continue; }
        struct check_group group = {.id = look.id,
                                    .log = look.log,
                                    .is_committed = look.is_committed,
                                    .is_preparing = look.is_preparing,
                                    .is_empty = look.is_empty,
                                    .is_stable = look.is_stable,
                                    .generation = look.generation,
                                    .state_ms = look.state_ms,
                                    .protocol_type = look.protocol_type,
                                    .leader = look.leader};
        check_groups_group(run->groups, cursor - 1, &group);
    }
}

static void look(struct run *run, uint32_t shard, const struct groups *groups, bool is_changed)
{
    check_groups_look(run->groups, shard, world_now(run->world), run->wall_ms[shard], is_changed);
    for (uint32_t log = 0; log < run->node.config.coordinator_groups; log++) {
        struct group_log_look look;
        group_log_look(groups, log, &look);
        if (!look.is_here) { continue; }
        if (look.is_snapshotting) { run->result->branches[RUN_GROUP_LOG_ANEW] = 1; }
        struct check_group_log seen = {.is_led = look.is_led,
                                       .is_deciding = look.is_deciding,
                                       .is_outstanding = look.is_outstanding};
        check_groups_log(run->groups, log, &seen);
    }
    look_at_groups(run, groups);
    if (check_groups_wants_all(run->groups)) {
        look_at_members(run, groups);
        look_at_offsets(run, groups);
    }
    check_groups_looked(run->groups);
}

void run__groups_look(struct run *run, uint32_t shard, const struct broker *broker)
{
    if (run->groups == NULL || run->has_lost_rows) { return; } /* a coordinator's log may end before what it had */
    const struct groups *groups = broker_groups(broker);
    struct group_view view;
    group_view(groups, &view);
    bool is_changed = view.applied != run->groups_applied[shard];
    run->groups_applied[shard] = view.applied;
    look(run, shard, groups, is_changed);
}

/* ---- the end ------------------------------------------------------------------------------------------------------------- */

void run__groups_calm(struct run *run)
{
    if (run->groups == NULL) { return; }
    check_groups_calm(run->groups, (uint64_t)run->shape.group_sweep_ms * WORLD_MS + ORPHAN_NS + 2 * run->slow_max_ns);
}

uint64_t run__groups_empty_ns(const struct run *run)
{
    return (round_ms(&run->shape) + 2 * (uint64_t)run->shape.group_sweep_ms) * WORLD_MS + 10 * WORLD_S;
}

static bool is_left(const struct groups *groups)
{
    struct group_look group;
    for (uint32_t cursor = 0; group_each(groups, &cursor, &group);) {
        if (is_led(groups, group.log) && (!group.is_empty || group.is_preparing)) { return false; }
    }
    struct group_offset_look offset;
    for (uint32_t cursor = 0; group_each_offset(groups, &cursor, &offset);) {
        if (is_led(groups, offset.log) && !offset.has_topic) { return false; }
    }
    return true;
}

bool run__groups_are_empty(struct run *run)
{
    if (run->groups == NULL) { return true; }
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        const struct broker *broker = world_machine_at(run->world, run->cast.broker, i);
        if (broker != NULL && !is_left(broker_groups(broker))) { return false; }
    }
    return true;
}

bool run__groups_are_refused(const struct run *run)
{
    if (run->groups == NULL || run->is_rotten) { return false; } /* what has rotted stays so */
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        const struct broker *broker = world_machine_at(run->world, run->cast.broker, i);
        for (uint32_t log = 0; broker != NULL && log < run->node.config.coordinator_groups; log++) {
            struct group_log_look look;
            group_log_look(broker_groups(broker), log, &look);
            if (look.is_here && look.is_refused) { return true; }
        }
    }
    return false;
}

void run__groups_end(struct run *run)
{
    if (run->groups == NULL) { return; }
    for (int i = 0; i < CHECK_GROUPS_HIT_COUNT; i++) {
        run->result->groups[i] = check_groups_hits(run->groups, (enum check_groups_hit)i);
    }
    check_groups_destroy(run->groups);
    run->groups = NULL;
}
