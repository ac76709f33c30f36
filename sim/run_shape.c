/* run_shape.c: see run.h. What a seed makes of a run: its shape, its knobs, its actors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run__parts.h"

#include <inttypes.h>
#include <stddef.h>

static const struct {
    const char *name;
    size_t at;
    int64_t min, max;
} shape_knobs[] = {
    {"shards", offsetof(struct run_shape, shards), 1, WORLD_SHARDS_MAX},
    {"step_max", offsetof(struct run_shape, step_max), 1, 100000},
    {"topics", offsetof(struct run_shape, topics), 1, ACTOR_TOPICS_MAX},
    {"partitions_max", offsetof(struct run_shape, partitions_max), 1, 64},
    {"producers", offsetof(struct run_shape, producers), 0, 6},
    {"consumers", offsetof(struct run_shape, consumers), 0, 4},
    {"rudes", offsetof(struct run_shape, rudes), 0, 2},
    {"records", offsetof(struct run_shape, records), 0, 1000000},
    {"value_bytes_max", offsetof(struct run_shape, value_bytes_max), ACTOR_VALUE_BYTES_MIN, 500000},
    {"pause_max_ms", offsetof(struct run_shape, pause_max_ms), 1, 60000},
    {"crashes", offsetof(struct run_shape, crashes), 0, 1000},
    {"load_ms", offsetof(struct run_shape, load_ms), 1, 600000},
    {"segment_bytes", offsetof(struct run_shape, segment_bytes), 0, 1 << 30},
    {"journal_bytes", offsetof(struct run_shape, journal_bytes), 512 << 10, 1 << 30},
    {"state_crashes", offsetof(struct run_shape, state_crashes), 0, RUN_TRAPS_MAX},
    {"refusals", offsetof(struct run_shape, refusals), 0, 1},
    {"rots", offsetof(struct run_shape, rots), 0, 100},
    {"region_mb", offsetof(struct run_shape, region_mb), NODE_REGION_MB_MIN, 1024},
    {"sync_errors", offsetof(struct run_shape, sync_errors), 0, 1},
    {"retention", offsetof(struct run_shape, retention), -1, 1},
    {"page_cache", offsetof(struct run_shape, page_cache), -1, 1},
    {"full_disks", offsetof(struct run_shape, full_disks), 0, 100},
    {"io_errors", offsetof(struct run_shape, io_errors), 0, 1},
    {"clean_stop", offsetof(struct run_shape, clean_stop), 0, 1},
    {"admin_operations", offsetof(struct run_shape, admin_operations), 0, 100000},
    {"odds", offsetof(struct run_shape, odds), 0, 2},
    {"session_slots", offsetof(struct run_shape, session_slots), 0, 1000},
    {"session_eviction_ms", offsetof(struct run_shape, session_eviction_ms), 0, 600000},
    {"groups", offsetof(struct run_shape, groups), 0, 400},
    {"crowds", offsetof(struct run_shape, crowds), 1, 4},
    {"crowd_members", offsetof(struct run_shape, crowd_members), 1, ACTOR_MEMBERS_MAX},
    {"group_s", offsetof(struct run_shape, group_s), 0, 3600},
    {"group_leaves", offsetof(struct run_shape, group_leaves), 0, 1},
    {"group_simple", offsetof(struct run_shape, group_simple), 0, 1},
    {"group_session_ms", offsetof(struct run_shape, group_session_ms), 300, 600000},
    {"group_rebalance_ms", offsetof(struct run_shape, group_rebalance_ms), 300, 600000},
    {"group_delay_ms", offsetof(struct run_shape, group_delay_ms), 0, 60000},
    {"group_sweep_ms", offsetof(struct run_shape, group_sweep_ms), 1, 600000},
    {"group_grown_kb", offsetof(struct run_shape, group_grown_kb), 1, 65536},
    {"offsets_minutes", offsetof(struct run_shape, offsets_minutes), 1, 1000000},
    {"metadata_grown_bytes", offsetof(struct run_shape, metadata_grown_bytes), 1, INT64_C(1) << 40},
    {"own_segment_kb", offsetof(struct run_shape, own_segment_kb), 1, 1 << 20},
    {"churn", offsetof(struct run_shape, churn), 0, 1},
    {"trims", offsetof(struct run_shape, trims), 0, 1000},
    {"hasties", offsetof(struct run_shape, hasties), 0, 2},
    {"grows", offsetof(struct run_shape, grows), 0, 1000},
    {"settings", offsetof(struct run_shape, settings), 0, 1},
    {"limits", offsetof(struct run_shape, has_limits), 0, 1},
    {"holds", offsetof(struct run_shape, holds), 0, 1000},
    {"cut_crashes", offsetof(struct run_shape, cut_crashes), 0, RUN_TRAPS_MAX},
    {"hold_state", offsetof(struct run_shape, hold_state), -1, RUN_STATE_COUNT - 1},
    {"even", offsetof(struct run_shape, even), 0, 500000},
};

static int64_t *shape_at(struct run_shape *shape, const char *name)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(shape_knobs); i++) {
        if (strcmp(shape_knobs[i].name, name) == 0) {
            return (int64_t *)(void *)((uint8_t *)shape + shape_knobs[i].at);
        }
    }
    return run__limits_at(&shape->limits, name);
}

const char *run_knob_wrong(const char *name, int64_t value)
{
    struct world_knobs knobs;
    struct run_limits limits;
    world_knobs_default(&knobs);
    if (run__limits_at(&limits, name) != NULL) {
        return run__limits_may(name, value) ? NULL : "a value that this knob can't have";
    }
    for (size_t i = 0; i < BASE_ARRAY_COUNT(shape_knobs); i++) {
        if (strcmp(shape_knobs[i].name, name) != 0) { continue; }
        return value < shape_knobs[i].min || value > shape_knobs[i].max ? "a value that this knob can't have" : NULL;
    }
    if (!world_knob_is_known(name)) { return "no such knob"; }
    return world_knobs_set(&knobs, name, value) ? NULL : "a value that this knob can't have";
}

static int64_t draw(struct run *run, int64_t from, int64_t to)
{
    return from + (int64_t)base_prng_below(&run->prng, (uint64_t)(to - from + 1));
}

/* Errors of the disk, that a broker may answer by going off line or by not starting, come in some of the seeds, and then often
 * enough to be met: each with its own opportunities. */
static const struct {
    enum world_fault fault;
    int64_t ppm_max;
} disk_errors[] = {
    {WORLD_DISK_EIO_READ, 4000},   {WORLD_DISK_EIO_WRITE, 4000}, {WORLD_DISK_EIO_NAME, 20000},
    {WORLD_DISK_EIO_LIST, 300000}, {WORLD_DISK_NO_SPACE, 8000},  {WORLD_DISK_NO_HANDLES, 60000},
    {WORLD_DISK_FULL, 200000},     {WORLD_DISK_NO_MEMORY, 8000}, {WORLD_DISK_EIO_SYNC, 4000},
    {WORLD_DISK_EIO_BACK, 4000},
};

static void draw_disk_errors(struct run *run, struct world_knobs *knobs)
{
    bool has_all = run->shape.io_errors != 0;
    for (size_t i = 0; i < BASE_ARRAY_COUNT(disk_errors); i++) {
        enum world_fault fault = disk_errors[i].fault;
        bool is_sync = fault == WORLD_DISK_EIO_SYNC || fault == WORLD_DISK_EIO_BACK;
        bool is_on = (has_all && draw(run, 0, 2) > 0) || (is_sync && run->shape.sync_errors != 0);
        int64_t ppm_max = disk_errors[i].ppm_max >> draw(run, 0, 4);
        knobs->rate_ppm[fault] = is_on ? (uint32_t)draw(run, ppm_max / 2, ppm_max) : 0;
    }
}

/* From a stream of its own, so that the others draw what they drew before there were any. */
static int64_t draw_full_disks(uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x66756c6c)); /* "full" */
    return base_prng_chance(&prng, 1, 4) ? (int64_t)base_prng_below(&prng, 3) + 1 : 0;
}

/* The same. Few slots, so that sessions are evicted; and in two of three seeds somebody who is odd about them. */
static void draw_sessions(struct run_shape *shape, uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x73657373)); /* "sess" */
    shape->odds = base_prng_chance(&prng, 2, 3) ? 1 : 0;
    shape->session_slots = base_prng_chance(&prng, 1, 8) ? 0 : 1 + (int64_t)base_prng_below(&prng, 8);
    shape->session_eviction_ms = 50 + (int64_t)base_prng_below(&prng, 3000);
}

/* The same. The node's own logs begin anew after few records, and their segments are soon full. */
static void draw_own_logs(struct run_shape *shape, uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x616e6577)); /* "anew" */
    uint64_t grown_bytes = 200 + base_prng_below(&prng, 4000);
    uint64_t segment_kb = 1 + base_prng_below(&prng, 40);
    shape->metadata_grown_bytes = base_prng_chance(&prng, 3, 4) ? (int64_t)grown_bytes : 20 << 20;
    shape->own_segment_kb = base_prng_chance(&prng, 1, 2) ? (int64_t)segment_kb : 16 << 10;
}

static int64_t draw_churn(uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x636875726e)); /* "churn": as full disks */
    return base_prng_chance(&prng, 1, 4) ? 1 : 0;
}

/* The same. */
static int64_t draw_trims(uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x7472696d73)); /* "trims" */
    return base_prng_chance(&prng, 1, 4) ? (int64_t)base_prng_below(&prng, 8) + 1 : 0;
}

/* The same. */
static int64_t draw_hasties(uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x6861737465)); /* "haste" */
    return base_prng_chance(&prng, 1, 2) ? 1 : 0;
}

/* The same. */
static int64_t draw_settings(uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x736574)); /* "set" */
    return base_prng_chance(&prng, 1, 2) ? 1 : 0;
}

/* The same. */
static int64_t draw_grows(uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x67726f77)); /* "grow" */
    return base_prng_chance(&prng, 1, 3) ? (int64_t)base_prng_below(&prng, 8) + 1 : 0;
}

/* The same. In one seed of two shards stand still in a state; in half of these they do one thing a step, so that there is much between
 * two steps, and the metadata log is often written anew. */
static void draw_holds(struct run_shape *shape, uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x686f6c64)); /* "hold" */
    bool is_on = base_prng_chance(&prng, 1, 2);
    int64_t holds = 2 + (int64_t)base_prng_below(&prng, 8);
    bool is_small = base_prng_chance(&prng, 1, 2);
    int64_t grown_bytes = 1 + (int64_t)base_prng_below(&prng, 400);
    if (!is_on) { return; }
    shape->holds = holds;
    if (!is_small) { return; }
    shape->step_max = 1;
    shape->metadata_grown_bytes = grown_bytes;
}

/* The same. Whether topics of the page cache are drawn at all; what each of them is comes next. */
static bool draw_pages(uint64_t seed, struct base_prng *prng_out)
{
    base_prng_init(prng_out, seed, UINT64_C(0x7061676573)); /* "pages" */
    return base_prng_chance(prng_out, 1, 3);
}

/* The same. Of one size are all batches of one seed in six, and of one in two with page-cache topics: what stands behind a cut fits
 * behind what is written in its place. There, more crashes come soon after a cut. */
static void draw_cuts(struct run_shape *shape, uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x6576656e)); /* "even" */
    struct base_prng pages;
    bool is_page_cache = draw_pages(seed, &pages);
    int64_t size_bytes = ACTOR_VALUE_BYTES_MIN + (int64_t)base_prng_below(&prng, 600);
    shape->even = base_prng_chance(&prng, 1, is_page_cache ? 2 : 6) ? size_bytes : 0;
    shape->cut_crashes = is_page_cache ? (int64_t)base_prng_below(&prng, 4) : 0;
}

void run__shape_draw(struct run *run, struct world_knobs *knobs)
{
    const struct run_config *config = run->config;
    struct run_shape *shape = &run->shape; /* one draw after another: initializers have no order */
    shape->shards = draw(run, 1, 3);
    shape->step_max = base_prng_chance(&run->prng, 1, 10) ? 1 : draw(run, 4, 64);
    shape->topics = draw(run, 2, 5);
    shape->partitions_max = draw(run, 1, 4);
    shape->producers = draw(run, 3, 5);
    shape->consumers = draw(run, 1, 3);
    shape->rudes = draw(run, 0, 1);
    shape->records = draw(run, 1000, 1400);
    shape->value_bytes_max = base_prng_chance(&run->prng, 1, 2) ? 3000 : draw(run, 6000, 20000);
    shape->pause_max_ms = draw(run, 50, 200);
    shape->crashes = draw(run, 3, 6);
    shape->load_ms = draw(run, 5000, 9000);
    shape->segment_bytes = base_prng_chance(&run->prng, 1, 2) ? 0 : draw(run, 14, 64) * 1024;
    shape->journal_bytes = draw(run, 8, 16) * (64 << 10);
    shape->io_errors = base_prng_chance(&run->prng, 1, 3) ? 1 : 0;
    shape->clean_stop = draw(run, 0, 1);
    shape->state_crashes = draw(run, 1, 4);
    shape->sync_errors = base_prng_chance(&run->prng, 1, 5) ? 1 : 0;
    shape->full_disks = draw_full_disks(config->seed);
    draw_sessions(shape, config->seed);
    draw_own_logs(shape, config->seed);
    shape->retention = shape->page_cache = shape->hold_state = -1; /* as drawn */
    shape->churn = draw_churn(config->seed);
    shape->trims = draw_trims(config->seed);
    shape->hasties = draw_hasties(config->seed);
    shape->settings = draw_settings(config->seed);
    shape->grows = draw_grows(config->seed);
    draw_holds(shape, config->seed);
    draw_cuts(shape, config->seed);
    shape->refusals = base_prng_chance(&run->prng, 1, 4) ? 1 : 0;
    shape->region_mb = base_prng_chance(&run->prng, 1, 3) ? draw(run, NODE_REGION_MB_MIN, 30) : NODE_REGION_MB_MAX;
    shape->rots = base_prng_chance(&run->prng, 1, 5) ? draw(run, 1, 6) : 0;
    shape->admin_operations = 30;
    run__groups_draw(run);
    run__limits_draw(run);
    world_knobs_swarm(knobs, config->seed);
    knobs->restart_delay_max_ns = 400 * WORLD_MS;
    if (base_prng_chance(&run->prng, 1, 6)) { knobs->handles_max = (uint32_t)draw(run, 30, 60); }
    run__shape_set(run, knobs);
}

static bool drops_writes(const struct world_knobs *knobs)
{
    return knobs->rate_ppm[WORLD_DISK_EIO_BACK] > 0 || knobs->rate_ppm[WORLD_DISK_EIO_SYNC] > 0;
}

void run__shape_set(struct run *run, struct world_knobs *knobs)
{
    const struct run_config *config = run->config;
    for (uint32_t i = 0; i < config->set_count; i++) {
        int64_t *at = shape_at(&run->shape, config->sets[i].name);
        if (at != NULL) { *at = config->sets[i].value; }
    }
    draw_disk_errors(run, knobs);
    for (uint32_t i = 0; i < config->set_count; i++) {
        if (shape_at(&run->shape, config->sets[i].name) != NULL) { continue; }
        bool is_known = world_knobs_set(knobs, config->sets[i].name, config->sets[i].value);
        CHECK(is_known); /* the command line has looked */
    }
    run->drops_writes = drops_writes(knobs);
}

static void retention_dice(const struct run *run, struct base_prng *prng_out)
{
    base_prng_init(prng_out, run->config->seed,
                   UINT64_C(0x72657461696e)); /* "retain": a stream of its own, as full disks have */
}

bool run__has_retention(const struct run *run)
{
    struct base_prng prng;
    retention_dice(run, &prng);
    bool is_drawn = base_prng_chance(&prng, 1, 3);
    return run->shape.retention < 0 ? is_drawn : run->shape.retention > 0;
}

/* Of every other topic: by size, by age, or both. */
static void draw_retention(const struct run *run, uint32_t at, struct actor_topic *topic)
{
    struct base_prng prng;
    retention_dice(run, &prng);
    for (uint32_t i = 0; i < 8 * (at + 1); i++) { (void)base_prng_u64(&prng); }
    if (!run__has_retention(run) || base_prng_chance(&prng, 1, 2)) { return; }
    uint64_t kind = base_prng_below(&prng, 3);
    if (kind != 1) { topic->retention_bytes = 20000 + (uint32_t)base_prng_below(&prng, 60000); }
    if (kind != 0) { topic->retention_ms = 1500 + (uint32_t)base_prng_below(&prng, 5000); }
    if (topic->segment_bytes == 0) { topic->segment_bytes = 16384; }
}

/* In one seed of three, of two thirds of the topics; half of these are flushed by number or time. Not where the disk fails to write
 * back what nobody may ever ask a sync for: what it took of a page-cache topic, no checker can know. Nor where the journal rots: a segment's
 * row is all that there is of its records. */
static bool begin_pages(const struct run *run, struct base_prng *prng_out)
{
    bool is_drawn = draw_pages(run->config->seed, prng_out);
    bool is_on = run->shape.page_cache < 0 ? is_drawn : run->shape.page_cache > 0;
    return is_on && !run->drops_writes && run->shape.rots == 0;
}

static void draw_durability(const struct run *run, uint32_t at, struct actor_topic *topic)
{
    struct base_prng prng;
    bool is_on = begin_pages(run, &prng);
    for (uint32_t i = 0; i < 8 * (at + 1); i++) { (void)base_prng_u64(&prng); }
    if (!is_on || base_prng_chance(&prng, 1, 3)) { return; }
    topic->is_page_cache = true;
    run->result->branches[RUN_PAGES] = 1;
    uint64_t kind = base_prng_below(&prng, 4);
    if (kind == 1) {
        topic->flush_messages = 1 + (uint32_t)base_prng_below(&prng, 40);
        bool is_soon_full = base_prng_chance(&prng, 1, 2); /* what is in the segments before the last one counts too */
        if (is_soon_full) { topic->segment_bytes = 14 << 10; }
    }
    if (kind == 2) { topic->flush_ms = 10 + (uint32_t)base_prng_below(&prng, 1000); }
}

/* The topics of the clients say for themselves what durability they have, but those that are made while it can only be the first one. */
void run__settings_configure(struct run *run)
{
    struct base_prng prng;
    struct node *node = &run->node;
    node->may_be_page_cache = begin_pages(run, &prng);
    base_prng_init(&prng, run->config->seed, UINT64_C(0x736574746c65)); /* "settle" */
    node->seed = base_prng_u64(&prng);
    bool is_first_page_cache = base_prng_chance(&prng, 1, 2);
    node->is_restless = run->shape.settings != 0;
    node->is_first_page_cache = node->is_restless && node->may_be_page_cache && is_first_page_cache;
    run->cast.is_default_page_cache = node->is_first_page_cache;
}

/* The node is down. What is still to be created may have said nothing of durability, and be created by the next start. */
void run__settings_loosen(struct run *run)
{
    if (!run->node.is_restless || run->node.is_restless_at_last) { return; }
    for (uint32_t i = 0; i < run->history.op_count; i++) {
        const struct history_op *op = &run->history.ops[i];
        if (op->kind == HISTORY_CREATE && op->what == HISTORY_INVOKE) { return; }
    }
    run->node.is_restless_at_last = run->cast.is_default_open = true;
}

static void make_topics(struct run *run)
{
    struct actor_cast *cast = &run->cast;
    cast->is_churning = run->shape.churn != 0;
    cast->is_growing = run->shape.grows > 0;
    cast->topic_count = (uint32_t)base_min_u64((uint64_t)run->shape.topics, ACTOR_TOPICS_MAX);
    for (uint32_t i = 0; i < cast->topic_count; i++) {
        struct actor_topic *topic = &cast->topics[i];
        bool is_stable = i == 0 || draw(run, 0, 2) > 0;
        topic->is_stable = i == 0 || (is_stable && run->shape.churn == 0);
        (void)snprintf(topic->name, sizeof topic->name, "%s%" PRIu32, topic->is_stable ? "t" : "x", i); /* short */
        topic->segment_bytes = (uint32_t)run->shape.segment_bytes;
        draw_retention(run, i, topic);
        draw_durability(run, i, topic);
        topic->is_stamped = draw(run, 0, 3) == 0;
        topic->is_slow_to_go = i % 2 == 0;
        topic->partition_count = (int32_t)draw(run, 1, run->shape.partitions_max);
    }
}

static struct actor_spec *add_actor(struct run *run, enum actor_role role, char letter)
{
    CHECK(run->actor_count < RUN_ACTORS_MAX);
    struct actor_spec *spec = &run->specs[run->actor_count++];
    int64_t even_max = run->shape.value_bytes_max + ACTOR_VALUE_BYTES_MIN;
    int64_t even_bytes = base_max_i64(base_min_i64(run->shape.even, even_max), ACTOR_VALUE_BYTES_MIN);
    uint32_t even = run->shape.even > 0 ? (uint32_t)even_bytes : 0;
    *spec = (struct actor_spec){.cast = &run->cast,
                                .role = role,
                                .number = run->actor_count,
                                .value_bytes_max = (uint32_t)run->shape.value_bytes_max,
                                .value_bytes_even = even,
                                .pause_max_ns = (uint64_t)run->shape.pause_max_ms * WORLD_MS,
                                .acks = CLIENT_ACKS_ALL,
                                .idempotence = CLIENT_NOT_IDEMPOTENT,
                                .is_by_name = draw(run, 0, 1) == 1};
    (void)snprintf(spec->name, sizeof spec->name, "%c%u", letter, (unsigned)spec->number % 100u); /* short */
    return spec;
}

static void make_producer(struct run *run, uint32_t at, uint32_t count)
{
    struct actor_spec *spec = add_actor(run, ACTOR_PRODUCER, 'p');
    static const enum client_acks others[] = {CLIENT_ACKS_ALL, CLIENT_ACKS_NONE, CLIENT_ACKS_LEADER};
    spec->wanted = (uint32_t)((uint64_t)run->shape.records / count);
    if (at == 0 || draw(run, 0, 2) > 0) {
        spec->idempotence = CLIENT_IDEMPOTENT;
    } else if (at > 1) {
        spec->acks = others[draw(run, 0, 2)];
        if (spec->acks != CLIENT_ACKS_ALL) { spec->wanted /= 3; }
    }
    spec->compression = draw(run, 0, 1) == 0 ? CODEC_NONE : (enum codec_kind)draw(run, 0, CODEC_KIND_COUNT - 1);
    if (spec->value_bytes_even > 0) { spec->compression = CODEC_NONE; }
    spec->linger_ms = draw(run, 0, 1) == 0 ? 0 : (uint64_t)draw(run, 1, 30);
}

static void add_node(struct run *run, uint32_t at, bool is_down)
{
    size_t region_bytes = run->specs[at].is_large ? 4 * ACTOR_REGION_BYTES : ACTOR_REGION_BYTES;
    run->actor_nodes[at] = world_add_node(run->world, &(struct world_node_spec){.machine = &actor_machine,
                                                                                .context = &run->specs[at],
                                                                                .shard_count = 1,
                                                                                .region_bytes = region_bytes,
                                                                                .is_down = is_down});
}

static void add_crowd(struct run *run, const struct actor_spec *wanted)
{
    struct actor_spec *spec = add_actor(run, ACTOR_CROWD, 'g');
    spec->members = wanted->members;
    spec->first_group = wanted->first_group;
    spec->groups = wanted->groups;
    spec->is_large = wanted->is_large;
    spec->is_restless = wanted->is_restless;
    spec->is_simple = wanted->is_simple;
    spec->has_operator = wanted->has_operator;
    spec->has_rude = wanted->has_rude;
}

void run__add_actors(struct run *run)
{
    make_topics(run);
    struct actor_spec *admin = add_actor(run, ACTOR_ADMIN, 'a');
    admin->wanted = (uint32_t)run->shape.admin_operations;
    admin->trims = (uint32_t)run->shape.trims;
    admin->grows = (uint32_t)run->shape.grows;
    uint32_t producers = (uint32_t)base_min_u64((uint64_t)run->shape.producers, 6);
    for (uint32_t i = 0; i < producers; i++) { make_producer(run, i, producers); }
    for (uint32_t i = 0; i < (uint32_t)base_min_u64((uint64_t)run->shape.consumers, 4); i++) {
        (void)add_actor(run, ACTOR_CONSUMER, 'c'); /* nothing more to say about it */
    }
    for (uint32_t i = 0; i < (uint32_t)base_min_u64((uint64_t)run->shape.rudes, 2); i++) {
        (void)add_actor(run, ACTOR_RUDE, 'r'); /* as above */
    }
    for (uint32_t i = 0; i < (uint32_t)base_min_u64((uint64_t)run->shape.odds, 2); i++) {
        (void)add_actor(run, ACTOR_ODD, 'o'); /* as above */
    }
    run->verifier = run->actor_count;
    (void)add_actor(run, ACTOR_VERIFIER, 'v'); /* as above */
    run__groups_add(run, add_crowd);
    for (uint32_t i = 0; i < (uint32_t)base_min_u64((uint64_t)run->shape.hasties, 2); i++) {
        add_actor(run, ACTOR_HASTY, 'h')->wanted = (uint32_t)run->shape.records / 6;
    }
    for (uint32_t i = 0; i < run->actor_count; i++) { add_node(run, i, i == run->verifier); }
}
