/* run_limits.c: see run.h. Small limits of the broker, so that runs meet them: what is full must refuse, wait and wake as it says.
 *
 * One seed of four draws some of them (the knob `limits`: all, or none). What is refused for good while a limit holds (a group too many,
 * a segment more than there may be, a look-up without a block) is raised by the operator when the faults stop. So is what one client can
 * keep from the others: of a connection's requests those behind a fetch that waits, where nobody would see that the client has gone; files
 * that are lent to a reader who does not read. What only waits for others stays small until the end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run__parts.h"

#include <stddef.h>

#define ONE_OF      4   /* limits: so many of them, of those that a seed may draw */
#define SEEDS_OF    4   /* one of so many seeds has some */
#define FILES_MIN   8   /* that a log can work with */
#define PARTS_AMPLE 512 /* where nobody says how many */

enum limit_end { STAYS = 0, RAISED /* when the faults stop */ };

/* `from` and what may come on top of it: what a seed draws; min and max: what may be set. */
static const struct limit {
    const char *name;
    size_t at;
    int64_t min, max;
    int64_t from, more;
    enum limit_end end;
} limits[RUN_LIMITS] = {
    {"limit_requests", offsetof(struct run_limits, requests), 1, 100000, 24, 24, STAYS},
    {"limit_parts", offsetof(struct run_limits, parts), 1, 100000, 1, 40, STAYS},
    {"limit_reads", offsetof(struct run_limits, reads), 1, 100000, 2, 12, STAYS},
    {"limit_segments", offsetof(struct run_limits, segments), 1, 1000000, 60, 100, RAISED},
    {"limit_journal_entries", offsetof(struct run_limits, journal_entries), 1, 100000, 1, 8, STAYS},
    {"limit_configs", offsetof(struct run_limits, configs), 1, 1000000, 12, 40, RAISED},
    {"limit_group_text_kb", offsetof(struct run_limits, group_text_kb), 16, 1 << 20, 16, 32, RAISED},
    {"limit_reserve_kb", offsetof(struct run_limits, reserve_kb), 1, 1 << 20, 64, 512, STAYS},
    {"limit_proposal_kb", offsetof(struct run_limits, proposal_kb), 64, 1 << 20, 64, 64, STAYS},
    {"limit_block_kb", offsetof(struct run_limits, block_kb), 1024, 1 << 20, 4096, 4096, RAISED},
    {"limit_connections", offsetof(struct run_limits, connections), 1, 100000, 30, 20, STAYS},
    {"limit_in_flight", offsetof(struct run_limits, in_flight), 1, 100000, 1, 5, RAISED},
    {"limit_files", offsetof(struct run_limits, files), FILES_MIN, 100000, FILES_MIN, 8, RAISED},
    {"limit_queued_kb", offsetof(struct run_limits, queued_kb), 1, 1 << 20, 256, 512, STAYS},
    {"limit_fetch_bytes", offsetof(struct run_limits, fetch_bytes), 1, 1 << 30, 100, 20000, STAYS},
    {"limit_session_bytes", offsetof(struct run_limits, session_bytes), 1, 1 << 30, 500, 12000, STAYS},
    {"limit_topics", offsetof(struct run_limits, topics), 1, 100000, 3, 6, RAISED},
    {"limit_partitions", offsetof(struct run_limits, partitions), 1, 100000, 8, 24, RAISED},
    {"limit_groups", offsetof(struct run_limits, groups), 1, 100000, 1, 4, RAISED},
    {"limit_members", offsetof(struct run_limits, members), 1, 100000, 2, 10, RAISED},
    {"limit_offsets", offsetof(struct run_limits, offsets), 1, 100000, 2, 20, RAISED},
    {"limit_group_size", offsetof(struct run_limits, group_size), 1, 100000, 1, 6, RAISED},
    {"limit_retention_ms", offsetof(struct run_limits, retention_ms), 1, INT64_MAX, 300, 3000, STAYS},
};

_Static_assert(sizeof(struct run_limits) == RUN_LIMITS * sizeof(int64_t), "each limit has its row");

static int64_t *field(struct run_limits *of, const struct limit *limit)
{
    return (int64_t *)(void *)((uint8_t *)of + limit->at);
}

const char *run_limit_name(uint32_t limit) { return limits[limit].name; }

static const struct limit *limit_named(const char *name)
{
    for (uint32_t i = 0; i < RUN_LIMITS; i++) {
        if (strcmp(limits[i].name, name) == 0) { return &limits[i]; }
    }
    return NULL;
}

int64_t *run__limits_at(struct run_limits *of, const char *name)
{
    const struct limit *limit = limit_named(name);
    return limit == NULL ? NULL : field(of, limit);
}

bool run__limits_may(const char *name, int64_t value)
{
    const struct limit *limit = limit_named(name);
    return limit != NULL && (value == 0 || (value >= limit->min && value <= limit->max));
}

static bool wants_some(const struct run_config *config, bool is_drawn)
{
    bool is_on = is_drawn;
    for (uint32_t i = 0; i < config->set_count; i++) {
        if (strcmp(config->sets[i].name, "limits") == 0) { is_on = config->sets[i].value != 0; }
    }
    return is_on;
}

/* From a stream of its own: a seed without small limits draws nothing else by them. */
void run__limits_draw(struct run *run)
{
    struct run_limits *of = &run->shape.limits;
    struct base_prng prng;
    base_prng_init(&prng, run->config->seed, UINT64_C(0x6c696d697473)); /* "limits" */
    bool is_on = wants_some(run->config, base_prng_chance(&prng, 1, SEEDS_OF));
    for (uint32_t i = 0; i < RUN_LIMITS; i++) {
        bool is_small = base_prng_chance(&prng, 1, ONE_OF);
        int64_t value = limits[i].from + (int64_t)base_prng_below(&prng, (uint64_t)limits[i].more + 1);
        *field(of, &limits[i]) = is_on && is_small ? value : 0;
    }
    bool is_crowded = run->shape.groups > 0 && run->shape.crowds * run->shape.crowd_members > 30;
    if (is_crowded) { *of = (struct run_limits){0}; } /* its members alone meet what there is */
}

static void set_u32(uint32_t *to, int64_t limit)
{
    if (limit > 0) { *to = (uint32_t)base_min_i64(limit, UINT32_MAX); }
}

static void set_u64(uint64_t *to, int64_t limit, uint64_t unit)
{
    if (limit > 0) { *to = (uint64_t)limit * unit; }
}

static void set_i32(int32_t *to, int64_t limit)
{
    if (limit > 0) { *to = (int32_t)base_min_i64(limit, INT32_MAX); }
}

static void apply(struct run *run)
{
    const struct run_limits *of = &run->shape.limits;
    struct broker_config *config = &run->node.config;
    /* Who waits for an assignment or for records keeps a connection and a request. */
    int64_t members = run->shape.groups > 0 ? 2 * run->shape.crowds * (run->shape.crowd_members + 2) : 0;
    set_u32(&config->few.requests, of->requests > 0 ? of->requests + members : 0);
    set_u32(&config->few.parts, of->parts > 0 ? of->parts + BROKER_PARTS_OF_FRONT_MIN * run->shape.shards : 0);
    /* All that may be asked at once, and so many lent. */
    int64_t parts = of->parts > 0 ? config->few.parts : PARTS_AMPLE;
    set_u32(&config->few.reads, of->reads > 0 ? of->reads + parts : 0);
    set_u32(&config->few.segments, of->segments);
    set_u32(&config->few.journal_entries, of->journal_entries);
    set_u32(&config->few.configs, of->configs);
    set_u64(&config->few.group_text_bytes, of->group_text_kb, 1024);
    set_u64(&config->few.reserve_bytes, of->reserve_kb, 1024);
    set_u64(&config->few.proposal_bytes, of->proposal_kb, 1024);
    set_u64(&config->few.block_bytes, of->block_kb, 1024);
    set_u32(&config->connections_max, of->connections > 0 ? of->connections + members : 0);
    set_u32(&config->in_flight_max, of->in_flight);
    set_u32(&config->files_max, of->files);
    set_u64(&config->queued_bytes_max, of->queued_kb, 1024);
    set_i32(&config->fetch_bytes_max, of->fetch_bytes);
    set_u64(&config->session_bytes_max, of->session_bytes, 1);
    set_u32(&config->topics_max, of->topics);
    set_u32(&config->partitions_max, of->partitions);
    set_u32(&config->groups_max, of->groups);
    set_u32(&config->group_members_max, of->members);
    set_u32(&config->group_offsets_max, of->offsets);
    set_i32(&config->group_size_max, of->group_size);
}

void run__limits_configure(struct run *run, const struct world_knobs *knobs)
{
    struct run_limits *of = &run->shape.limits;
    run->ample = run->node.config;
    if (knobs->clock_heal_max_ns == 0) { of->retention_ms = 0; } /* nothing expires there */
    if (of->retention_ms > 0) {
        node_retain(&run->node, of->retention_ms);
        run->cast.is_default_short = true;
    }
    for (uint32_t i = 0; i < RUN_LIMITS; i++) { run->result->limits[i] = *field(of, &limits[i]) > 0 ? 1 : 0; }
    apply(run);
}

bool run__limits_hold(const struct run *run)
{
    struct run_limits of = run->shape.limits;
    for (uint32_t i = 0; i < RUN_LIMITS; i++) {
        if (*field(&of, &limits[i]) > 0) { return true; }
    }
    return false;
}

bool run__limits_raise(struct run *run)
{
    struct run_limits *of = &run->shape.limits;
    struct broker_config *config = &run->node.config;
    bool is_raised = false;
    for (uint32_t i = 0; i < RUN_LIMITS; i++) {
        if (limits[i].end != RAISED || *field(of, &limits[i]) == 0) { continue; }
        *field(of, &limits[i]) = 0;
        is_raised = true;
    }
    if (!is_raised) { return false; }
    const struct broker_config *ample = &run->ample;
    config->few = ample->few;
    config->in_flight_max = ample->in_flight_max;
    config->files_max = ample->files_max;
    config->topics_max = ample->topics_max;
    config->partitions_max = ample->partitions_max;
    config->groups_max = ample->groups_max;
    config->group_members_max = ample->group_members_max;
    config->group_offsets_max = ample->group_offsets_max;
    config->group_size_max = ample->group_size_max;
    apply(run);
    return true;
}
