/* node.h: a broker as a node of the simulated world: the very same broker_create and broker_step that `weir serve` runs.
 *
 * Room    sim. The context outlives the world.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "broker/broker.h"
#include "sim/world/world.h"

#define NODE_PORT               9092
#define NODE_JOURNAL_FILE_BYTES ((uint64_t)64 << 10)
#define NODE_CLUSTER_ID         "weir-sim-cluster-id-00"

#define NODE_PAIRS_MAX   12
#define NODE_VALUE_BYTES 24

/* What the operator changes between two starts, of this one. */
struct node_settings {
    bool is_page_cache;      /* weir.log.durability */
    uint32_t flush_messages; /* log.flush.interval.messages; 0: not set, and so on */
    uint32_t flush_ms;
};

struct node {
    struct broker_config config; /* shard, shards, seed and the listener's address are set at each boot */
    struct broker_pair pairs[NODE_PAIRS_MAX];
    char values[NODE_PAIRS_MAX][NODE_VALUE_BYTES];
    bool is_restless;         /* settings are drawn anew at each boot, */
    bool is_restless_at_last; /* and that of durability, too: until then it is the first one */
    uint64_t seed;            /* of these draws */
    bool is_first_page_cache;
    bool may_be_page_cache;        /* of topics that say so for themselves: log.flush... are drawn, too */
    struct node_settings settings; /* of this boot */
    uint32_t
        refuse_ppm; /* of boots, a shard each: some takings of memory, drawn at the boot, are refused. May be changed. */
};

#define NODE_REGION_MB_MIN     25
#define NODE_REGION_MB_CROWDED 27 /* with connections for hundreds of members */
#define NODE_REGION_MB_MAX     96

/* Small limits, so that runs meet them. `step_max`: items of work per step. `journal_bytes`: 512 KiB at least. */
void node_init(struct node *node, uint32_t step_max, uint64_t journal_bytes);

/* What a wrong wall clock may rightly do: nothing expires, no timestamp is refused. For runs whose clocks are never set right. */
void node_forget_time(struct node *node);

/* log.retention.ms, for topics that say nothing of it. */
void node_retain(struct node *node, int64_t retention_ms);

/* For world_add_node, with a struct node as the context. */
extern const struct world_machine node_machine;

#endif
