/* exhaust.h: tries a power cut at every effect of small workloads, with every choice of what the disk keeps.
 *
 * Room    sim. Forks: a run walks its workload; at each effect a child has the cut, restarts, and goes on to its end (run__finish).
 *
 * THE CHOICES AT ONE EFFECT, of what is not synced (world.h: enum world_keep)
 *   none, all                  nothing, everything
 *   one0 .. oneN               a single write or name
 *   but0 .. butN               all but that one
 *   half0 .. halfN             all, but that one's file ends in the middle of it
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_EXHAUST_H
#define SIM_EXHAUST_H

#include "run.h"

#define EXHAUST_JOBS_MAX 16

struct exhaust_config {
    uint64_t first, last; /* seeds: of the delays, and of what the clients write */
    uint32_t jobs;
    uint32_t every;   /* only each so many-th effect, so that a short run is spread over all of it; 1: all */
    const char *only; /* WORKLOAD, or WORKLOAD:EFFECT:CHOICE: that state alone, in this process; NULL: all */
};

int exhaust_run(const struct exhaust_config *config, const struct run_config *run_config);

#endif
