/* keeper.h: two small machines that use every effect: a server that answers once what it got is synced, and its client.
 *
 * Room    tests/sim/world.
 * Server  each shard appends what a connection sends to a file of its own, syncs it, notes it as promised, then sends it
 *         back. Bytes in the file depend on their position alone, so that what was promised can be judged at each boot.
 *         After a failed sync it promises nothing till the next boot.
 * Client  sends a few bytes, expects them back, again and again; connects anew when anything fails.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_SIM_KEEPER_H
#define TESTS_SIM_KEEPER_H

#include "sim/world/world.h"

#define KEEPER_FILE_MAX_BYTES (1u << 20)

struct keeper_plan { /* the context of all machines of a run */
    struct world *world;
    uint8_t *promised[WORLD_SHARDS_MAX]; /* by position: 1 when it was synced */
    uint64_t promised_end[WORLD_SHARDS_MAX];
    uint64_t echoes; /* answers that a client compared */
    uint64_t wrong;  /* answers that differed, messages out of order, promises broken: must stay 0 */
    uint64_t turns, continues;
    uint8_t extra_byte; /* one byte of one effect: another one gives another hash */
};

extern const struct world_machine keeper_machine;
extern const struct world_machine client_machine;
#define KEEPER_REGION_BYTES 65536

/* Counts broken promises of the server's disk into plan->wrong. */
void keeper_judge(struct keeper_plan *plan, uint32_t node, uint32_t shards);

/* One server (node 0) and clients; runs until `until_ns`, then calm, then everyone stops. Returns what world_failure said
 * (copied), or NULL. hits, when not NULL, are added to. */
struct keeper_run {
    uint64_t seed;
    const struct world_knobs *knobs;
    uint32_t shards, clients;
    uint64_t until_ns;
    uint64_t calm_ns; /* how long it goes on without faults */
    uint8_t extra_byte;
    FILE *trace;
    /* out */
    uint64_t hash, events, echoes, echoes_calm, wrong;
    uint32_t boots;
    uint64_t hits[WORLD_FAULT_COUNT];
    char failure[256];
};
void keeper_run(struct keeper_run *run);

#endif
