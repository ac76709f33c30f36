/* world_driver.c: the suite over sim/world. A case is one run of one seed; CONTRACT_SEED in the environment sets the first.
 *
 * Knobs   delays, cuts, small buffers, pauses and late completions of every kind: what port.h allows. No failures: the cases
 *         of the suite expect none, those of cases_world.c ask for theirs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world_driver.h"

#include <stdlib.h>

struct carrier {
    struct world *world;
    uint32_t node;
    void *machines[CONTRACT_SHARDS_MAX];
};

static uint64_t next_seed;

static void *machine_of(void *context, const struct world_boot *boot)
{
    struct carrier *carrier = context;
    return carrier->machines[boot->shard];
}

struct world *world_driver_world(struct contract *contract)
{
    struct carrier *carrier = contract_world(contract);
    return carrier->world;
}

static const struct world_machine machine = {.create = machine_of, .step = contract_step};

static void *create(uint32_t shards, uint32_t disks, void *const machines[])
{
    struct carrier *carrier = calloc(1, sizeof *carrier);
    CHECK(carrier != NULL);
    for (uint32_t i = 0; i < shards; i++) { carrier->machines[i] = machines[i]; }
    uint64_t seed = next_seed;
    next_seed += 1;
    struct world_knobs knobs;
    world_knobs_default(&knobs);
    knobs.checks_stopped = false; /* the suite's machine stops with ids open */
    knobs.slow_max_ns = 5 * WORLD_MS;
    knobs.connect_timeout_ns = WORLD_S;
    static const enum world_fault harmless[] = {WORLD_NET_CUT,    WORLD_NET_SLOW,   WORLD_NET_SMALL_BUFFER,
                                                WORLD_DISK_SLOW,  WORLD_DISK_STALL, WORLD_DISK_LATE,
                                                WORLD_SHARD_SLOW, WORLD_NODE_PAUSE, WORLD_MESSAGE_LATE};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(harmless) && seed % 2 == 1; i++) { knobs.rate_ppm[harmless[i]] = 100000; }
    carrier->world = world_create(seed, &knobs);
    carrier->node = world_add_node(carrier->world, &(struct world_node_spec){.machine = &machine,
                                                                             .context = carrier,
                                                                             .shard_count = shards,
                                                                             .disk_count = disks});
    return carrier;
}

static void poke(void *at, uint32_t shard, const struct port_message *message)
{
    struct carrier *carrier = at;
    world_post(carrier->world, carrier->node, shard, message);
}

static bool run(void *at, bool (*is_done)(void *arg), void *arg)
{
    struct carrier *carrier = at;
    uint64_t until_ns = world_now(carrier->world) + 10 * WORLD_S;
    while (!is_done(arg)) {
        if (world_now(carrier->world) > until_ns || !world_step(carrier->world)) { return false; }
    }
    return true;
}

static void destroy(void *at)
{
    struct carrier *carrier = at;
    world_stop(carrier->world, carrier->node);
    while (world_node_state(carrier->world, carrier->node) == WORLD_UP && world_step(carrier->world)) {}
    CHECK(world_node_state(carrier->world, carrier->node) == WORLD_STOPPED);
    world_destroy(carrier->world);
    free(carrier);
}

static const struct coverage_excuse excuses[] = {
    {"OTHER",
     "it stands for errors of a system that have no word; the world makes none, but when a machine broke port.h"},
};

int main(int argc, char **argv)
{
    const char *seed = getenv("CONTRACT_SEED");
    next_seed = seed == NULL ? 1 : strtoull(seed, NULL, 10);
    const struct contract_driver driver = {
        .name = "sim/world",
        .address = {.ip = {[10] = 0xff, 0xff, 10, 0, 0, 1}, .port = 0},
        .refused = {.ip = {[10] = 0xff, 0xff, 10, 0, 0, 1}, .port = 1},
        .foreign = {.ip = {[10] = 0xff, 0xff, 10, 0, 0, 200}, .port = 0},
        .nowhere = {.ip = {[10] = 0xff, 0xff, 10, 0, 0, 200}, .port = 9},
        .create = create,
        .poke = poke,
        .run = run,
        .destroy = destroy,
        .own_cases = contract_world_cases,
        .own_case_count = contract_world_case_count,
        .excuses = excuses,
        .excuse_count = BASE_ARRAY_COUNT(excuses),
    };
    return contract_run(&driver, argc, argv);
}
