/* faults.c: the names of faults and knobs, their dice, and the swarm: which faults a seed has, and how often.
 *
 * Room    sim/world, private; see world__world.h.
 * Dice    one stream per use and per fault, so that a fault switched on does not shift what the others draw.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <string.h>

static const struct {
    const char *name;
    uint32_t swarm_max_ppm; /* 0: not in the swarm */
} faults[] = {
    [WORLD_NET_CUT] = {"net_cut", 200000},
    [WORLD_NET_SLOW] = {"net_slow", 10000},
    [WORLD_NET_STALL] = {"net_stall", 2000},
    [WORLD_NET_RESET] = {"net_reset", 3000},
    [WORLD_NET_SHORT_RECV] = {"net_short_recv", 100000},
    [WORLD_NET_SMALL_BUFFER] = {"net_small_buffer", 300000},
    [WORLD_NET_REFUSE] = {"net_refuse", 100000},
    [WORLD_NET_TIMEOUT] = {"net_timeout", 50000},
    [WORLD_NET_RESOLVE] = {"net_resolve", 100000},
    [WORLD_NET_HALF_OPEN] = {"net_half_open", 500000},
    [WORLD_NET_NO_HANDLES] = {"net_no_handles", 20000},
    [WORLD_NET_PARTITION] = {"net_partition", 100000},
    [WORLD_DISK_SLOW] = {"disk_slow", 10000},
    [WORLD_DISK_STALL] = {"disk_stall", 2000},
    [WORLD_DISK_LATE] = {"disk_late", 200000},
    [WORLD_DISK_SHORT_READ] = {"disk_short_read", 50000},
    [WORLD_DISK_SHORT_WRITE] = {"disk_short_write", 50000},
    [WORLD_DISK_EIO_READ] = {"disk_eio_read", 1000},
    [WORLD_DISK_EIO_WRITE] = {"disk_eio_write", 1000},
    [WORLD_DISK_EIO_SYNC] = {"disk_eio_sync", 2000},
    [WORLD_DISK_EIO_BACK] = {"disk_eio_back", 1000},
    [WORLD_DISK_EIO_NAME] = {"disk_eio_name", 10000},
    [WORLD_DISK_EIO_LIST] = {"disk_eio_list", 50000},
    [WORLD_DISK_NO_SPACE] = {"disk_no_space", 2000},
    [WORLD_DISK_FULL] = {"disk_full", 100000},
    [WORLD_DISK_NO_HANDLES] = {"disk_no_handles", 50000},
    [WORLD_DISK_LOST_WRITE] = {"disk_lost_write", 0},
    [WORLD_DISK_MISDIRECTED] = {"disk_misdirected", 0},
    [WORLD_DISK_LOST_NAME] = {"disk_lost_name", 0},
    [WORLD_DISK_SYNC_LIES] = {"disk_sync_lies", 0},
    [WORLD_DISK_ROT] = {"disk_rot", 0},
    [WORLD_CRASH_POWER] = {"crash_power", 3000},
    [WORLD_CRASH_PROCESS] = {"crash_process", 1500},
    [WORLD_CRASH_KIND] = {"crash_kind", 20000},
    [WORLD_SHARD_SLOW] = {"shard_slow", 2000},
    [WORLD_NODE_PAUSE] = {"node_pause", 200},
    [WORLD_MESSAGE_LATE] = {"message_late", 10000},
    [WORLD_CLOCK_STEP] = {"clock_step", 200000},
    [WORLD_DISK_NO_MEMORY] = {"disk_no_memory", 2000},
    [WORLD_KEPT_WRITE] = {"kept_write", 0},
    [WORLD_LOST_WRITE] = {"lost_write", 0},
    [WORLD_TORN_WRITE] = {"torn_write", 0},
    [WORLD_REORDERED_WRITE] = {"reordered_write", 0},
    [WORLD_SIZE_ONLY_WRITE] = {"size_only_write", 0},
    [WORLD_KEPT_TRUNCATE] = {"kept_truncate", 0},
    [WORLD_LOST_TRUNCATE] = {"lost_truncate", 0},
    [WORLD_KEPT_NAME] = {"kept_name", 0},
    [WORLD_LOST_NAME] = {"lost_name", 0},
    [WORLD_OLD_BYTES] = {"old_bytes", 0},
    [WORLD_CRASH_PLANNED] = {"crash_planned", 0},
    [WORLD_CRASH_CALLED] = {"crash_called", 0},
    [WORLD_CRASH_MID_STEP] = {"crash_mid_step", 0},
    [WORLD_SHARD_HELD] = {"shard_held", 0},
    [WORLD_APART_BYTES] = {"apart_bytes", 0},
    [WORLD_APART_NAMES] = {"apart_names", 0},
    [WORLD_OUTLIVED_CUT] = {"outlived_cut", 0},
};
_Static_assert(BASE_ARRAY_COUNT(faults) == WORLD_FAULT_COUNT, "every fault has a name");

const char *world_fault_name(enum world_fault fault)
{
    CHECK(fault < WORLD_FAULT_COUNT);
    return faults[fault].name;
}

bool world_fault_is_in_swarm(enum world_fault fault)
{
    CHECK(fault < WORLD_FAULT_COUNT);
    return faults[fault].swarm_max_ppm > 0;
}

/* ---- dice ---- */

uint64_t world__draw(struct world *world, enum dice_use use, uint64_t bound)
{
    return base_prng_below(world__dice(world, use), bound);
}

uint64_t world__between(struct world *world, enum dice_use use, uint64_t min, uint64_t max)
{
    return max <= min ? min : min + base_prng_below(world__dice(world, use), max - min + 1);
}

void world__count(struct world *world, enum world_fault fault)
{
    world->hits[fault] += 1;
    bool is_consequence = fault >= WORLD_KEPT_WRITE && fault != WORLD_CRASH_PLANNED && fault != WORLD_CRASH_CALLED &&
                          fault != WORLD_SHARD_HELD;
    if (is_consequence) { return; }
    world->last_fault = fault;
    world->last_fault_event = world->events;
}

bool world__hit(struct world *world, enum world_fault fault)
{
    uint32_t rate_ppm = world->knobs.rate_ppm[fault];
    if (rate_ppm == 0) { return false; }
    if (!base_prng_chance(&world->dice[(size_t)DICE_USE_COUNT + (size_t)fault], rate_ppm, 1000000)) { return false; }
    world__count(world, fault);
    return true;
}

/* Short ones are likelier than long ones: each order of magnitude below the longest has the same chance. */
uint64_t world__slow_ns(struct world *world, enum dice_use use)
{
    uint64_t max_ns = world->knobs.slow_max_ns;
    for (uint64_t tens = world__draw(world, use, 4); tens > 0 && max_ns > 10; tens--) { max_ns /= 10; }
    return world__between(world, use, max_ns / 10, max_ns);
}

/* ---- knobs ---- */

void world_knobs_default(struct world_knobs *knobs)
{
    *knobs = (struct world_knobs){
        .net_delay_min_ns = 20 * WORLD_US,
        .net_delay_max_ns = 500 * WORLD_US,
        .disk_delay_min_ns = 20 * WORLD_US,
        .disk_delay_max_ns = 400 * WORLD_US,
        .sync_delay_min_ns = 200 * WORLD_US,
        .sync_delay_max_ns = 5 * WORLD_MS,
        .message_delay_min_ns = 1 * WORLD_US,
        .message_delay_max_ns = 50 * WORLD_US,
        .step_cost_min_ns = 200,
        .step_cost_max_ns = 5 * WORLD_US,
        .slow_max_ns = 3 * WORLD_S,
        .connect_timeout_ns = 10 * WORLD_S,
        .give_up_ns = 60 * WORLD_S,
        .segment_max_bytes = 16384,
        .socket_buffer_bytes = 256 * 1024,
        .backlog_max = 128,
        .handles_max = 100000,
        .file_max_bytes = UINT64_C(1) << 30,
        .restart_delay_max_ns = 2 * WORLD_S,
        .wall_start_ms = INT64_C(1767225600000), /* 2026-01-01 */
        .evicts_at_boot = true,
        .checks_lent = true,
        .checks_stopped = true,
    };
}

static void draw_shape(struct world_knobs *knobs, struct base_prng *prng)
{
    static const uint64_t factors[] = {1, 1, 1, 3, 10, 50};
    uint64_t net = factors[base_prng_below(prng, BASE_ARRAY_COUNT(factors))];
    uint64_t disk = factors[base_prng_below(prng, BASE_ARRAY_COUNT(factors))];
    uint64_t sync = factors[base_prng_below(prng, BASE_ARRAY_COUNT(factors))];
    uint64_t message = factors[base_prng_below(prng, BASE_ARRAY_COUNT(factors))];
    knobs->net_delay_max_ns *= net;
    knobs->disk_delay_max_ns *= disk;
    knobs->sync_delay_max_ns *= sync;
    knobs->message_delay_max_ns *= message;
    if (base_prng_chance(prng, 1, 3)) { knobs->step_cost_max_ns *= 40; }
    if (base_prng_chance(prng, 1, 4)) { knobs->segment_max_bytes = 1 + (uint32_t)base_prng_below(prng, 2000); }
    if (base_prng_chance(prng, 1, 3)) { knobs->socket_buffer_bytes = 4096 + (uint32_t)base_prng_below(prng, 65536); }
    if (base_prng_chance(prng, 1, 3)) { knobs->drift_max_ppm = base_prng_below(prng, 500); }
    knobs->restart_delay_max_ns = WORLD_MS + base_prng_below(prng, 10 * WORLD_S);
    if (base_prng_chance(prng, 2, 3)) { knobs->clock_heal_max_ns = WORLD_MS + base_prng_below(prng, 3 * WORLD_S); }
    for (uint64_t kinds = 1 + base_prng_below(prng, 3); kinds > 0; kinds--) {
        knobs->crash_kinds |= UINT64_C(1) << base_prng_below(prng, WORLD_BEFORE_COUNT);
    }
}

/* From a stream of its own, so that the others draw what they drew before there was any. */
static void draw_apart(struct world_knobs *knobs, uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x6170617274)); /* "apart" */
    uint32_t ppm = 100000 + (uint32_t)base_prng_below(&prng, 400000);
    if (base_prng_chance(&prng, 1, 3)) { knobs->apart_ppm = ppm; }
}

void world_knobs_swarm(struct world_knobs *knobs, uint64_t seed)
{
    world_knobs_default(knobs);
    draw_apart(knobs, seed);
    struct base_prng prng;
    base_prng_init(&prng, seed, UINT64_C(0x737761726d)); /* its own stream: "swarm" */
    draw_shape(knobs, &prng);
    bool is_quiet = base_prng_chance(&prng, 1, 10);
    for (size_t i = 0; i < WORLD_FAULT_COUNT; i++) {
        bool is_on = base_prng_chance(&prng, 1, 2);
        uint64_t halvings = base_prng_below(&prng, 8);
        uint64_t rate_ppm = base_prng_below(&prng, (faults[i].swarm_max_ppm >> halvings) + 1);
        if (is_on && !is_quiet && faults[i].swarm_max_ppm > 0) { knobs->rate_ppm[i] = (uint32_t)rate_ppm; }
    }
}

enum field { FIELD_U64, FIELD_U32, FIELD_I64, FIELD_KEEP, FIELD_FLIP, FIELD_BOOL };
#define KNOB(member, kind) {#member, offsetof(struct world_knobs, member), kind}
static const struct {
    const char *name;
    size_t at;
    enum field field;
} fields[] = {
    KNOB(net_delay_min_ns, FIELD_U64),
    KNOB(net_delay_max_ns, FIELD_U64),
    KNOB(disk_delay_min_ns, FIELD_U64),
    KNOB(disk_delay_max_ns, FIELD_U64),
    KNOB(sync_delay_min_ns, FIELD_U64),
    KNOB(sync_delay_max_ns, FIELD_U64),
    KNOB(message_delay_min_ns, FIELD_U64),
    KNOB(message_delay_max_ns, FIELD_U64),
    KNOB(step_cost_min_ns, FIELD_U64),
    KNOB(step_cost_max_ns, FIELD_U64),
    KNOB(slow_max_ns, FIELD_U64),
    KNOB(connect_timeout_ns, FIELD_U64),
    KNOB(give_up_ns, FIELD_U64),
    KNOB(segment_max_bytes, FIELD_U32),
    KNOB(socket_buffer_bytes, FIELD_U32),
    KNOB(backlog_max, FIELD_U32),
    KNOB(handles_max, FIELD_U32),
    KNOB(disk_capacity_bytes, FIELD_U64),
    KNOB(file_max_bytes, FIELD_U64),
    KNOB(keep, FIELD_KEEP),
    KNOB(restart_delay_max_ns, FIELD_U64),
    KNOB(crash_at_effect, FIELD_U64),
    KNOB(flip_effect, FIELD_U64),
    KNOB(flip, FIELD_FLIP),
    KNOB(crash_kinds, FIELD_U64),
    KNOB(drift_max_ppm, FIELD_U64),
    KNOB(wall_start_ms, FIELD_I64),
    KNOB(evicts_at_boot, FIELD_BOOL),
    KNOB(checks_lent, FIELD_BOOL),
    KNOB(checks_stopped, FIELD_BOOL),
    KNOB(apart_ppm, FIELD_U32),
    KNOB(clock_heal_max_ns, FIELD_U64),
};

static bool field_set(struct world_knobs *knobs, size_t index, int64_t value)
{
    uint8_t *at = (uint8_t *)knobs + fields[index].at;
    if (value < 0 && fields[index].field != FIELD_I64) { return false; }
    switch (fields[index].field) {
    case FIELD_U64: memcpy(at, &(uint64_t){(uint64_t)value}, sizeof(uint64_t)); return true;
    case FIELD_I64: memcpy(at, &value, sizeof value); return true;
    case FIELD_U32:
        if (value > UINT32_MAX) { return false; }
        memcpy(at, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
        return true;
    case FIELD_KEEP:
        if (value > WORLD_KEEP_NAMES) { return false; }
        knobs->keep = (enum world_keep)value;
        return true;
    case FIELD_FLIP:
        if (value > WORLD_FLIP_WORD) { return false; }
        knobs->flip = (enum world_flip)value;
        return true;
    case FIELD_BOOL: memcpy(at, &(bool){value != 0}, sizeof(bool)); return true;
    }
    return false;
}

static bool is_never_zero(const char *name)
{
    static const char *const names[] = {"step_cost_min_ns", "segment_max_bytes", "socket_buffer_bytes",
                                        "backlog_max",      "handles_max",       "file_max_bytes"};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0) { return true; }
    }
    return false;
}

bool world_knob_is_known(const char *name)
{
    for (size_t i = 0; i < WORLD_KEPT_WRITE; i++) {
        if (strcmp(name, faults[i].name) == 0) { return true; }
    }
    for (size_t i = 0; i < BASE_ARRAY_COUNT(fields); i++) {
        if (strcmp(name, fields[i].name) == 0) { return true; }
    }
    return false;
}

bool world_knobs_set(struct world_knobs *knobs, const char *name, int64_t value)
{
    for (size_t i = 0; i < WORLD_KEPT_WRITE; i++) {
        if (strcmp(name, faults[i].name) == 0) {
            if (value < 0 || value > 1000000) { return false; }
            knobs->rate_ppm[i] = (uint32_t)value;
            return true;
        }
    }
    for (size_t i = 0; i < BASE_ARRAY_COUNT(fields); i++) {
        if (strcmp(name, fields[i].name) != 0) { continue; }
        return !(value == 0 && is_never_zero(name)) && field_set(knobs, i, value);
    }
    return false;
}

static long long field_get(const struct world_knobs *knobs, size_t index)
{
    const uint8_t *at = (const uint8_t *)knobs + fields[index].at;
    uint64_t wide = 0;
    uint32_t narrow = 0;
    switch (fields[index].field) {
    case FIELD_U64:
    case FIELD_I64: memcpy(&wide, at, sizeof wide); return (long long)wide;
    case FIELD_U32: memcpy(&narrow, at, sizeof narrow); return (long long)narrow;
    case FIELD_KEEP: return (long long)knobs->keep;
    case FIELD_FLIP: return (long long)knobs->flip;
    case FIELD_BOOL: return *at;
    }
    return 0;
}

void world_knobs_print(const struct world_knobs *knobs, FILE *to)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(fields); i++) {
        (void)fprintf(to, "%s=%lld\n", fields[i].name, field_get(knobs, i)); /* for people: a lost line is no failure */
    }
    for (size_t i = 0; i < WORLD_FAULT_COUNT; i++) {
        if (knobs->rate_ppm[i] > 0) { (void)fprintf(to, "%s=%u\n", faults[i].name, (unsigned)knobs->rate_ppm[i]); }
    }
}
