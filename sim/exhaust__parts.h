/* exhaust__parts.h: an exhaustive run while it goes on, and its workloads.
 *
 * Room    sim, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef EXHAUST_PARTS_H
#define EXHAUST_PARTS_H

#include <sys/types.h>

#include "exhaust.h"
#include "run__parts.h"

#define EXHAUST_PRINTED_MAX 20 /* failures, of each workload */

enum exhaust_event { EXHAUST_NOTHING = 0, EXHAUST_STOP, EXHAUST_CRASH };

struct exhaust_workload {
    const char *name;
    struct run_shape shape;
    uint32_t reset_ppm;      /* connections broken while it goes on: requests are sent again */
    enum exhaust_event then; /* at at_ms; a start follows */
    enum world_keep keep;    /* of an EXHAUST_CRASH */
    uint64_t at_ms, back_ms;
    uint64_t until_ms;     /* it goes on so long at least */
    uint64_t from_start;   /* cuts are tried from this start on */
    uint32_t stride;       /* cuts are tried at each so many-th effect, of one that has many; 0: at each */
    enum run_branch meets; /* what it is there for */
    uint32_t meets_groups; /* the same of groups: bits of enum check_groups_hit */
};
extern const struct exhaust_workload exhaust__workloads[];
extern const uint32_t exhaust__workload_count;

struct exhaust_state {
    uint64_t effect;
    enum world_keep keep;
    uint32_t keep_at;
};

struct exhaust_slot { /* shared with a child */
    pid_t process;    /* 0: free */
    struct exhaust_state state;
    struct run_result result;
};

struct exhaust {
    const struct exhaust_config *config;
    const struct run_config *run_config;
    struct exhaust_slot *slots;
    struct exhaust_slot *slot; /* of this child; NULL: the parent */
    uint64_t seed;
    uint32_t workload;
    uint32_t running;
    bool is_cut; /* no more cuts: the power has gone, or the workload has come to its end without one */
    bool is_only;
    struct exhaust_state only;
    uint64_t effect; /* of this walk: effects and messages where a cut was possible, up to now */
    uint64_t effects, states, failed, events; /* of this workload */
    uint64_t branches[RUN_BRANCH_COUNT];
    uint64_t groups[CHECK_GROUPS_HIT_COUNT];
};

void exhaust__shape(struct run *run, const struct exhaust_workload *workload, struct world_knobs *knobs);
void exhaust__schedule(struct run *run, const struct exhaust_workload *workload);

#endif
