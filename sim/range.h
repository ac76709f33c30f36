/* range.h: many seeds over several processes, so that none takes the others down; and what came of all of them.
 *
 * Room    sim. Prints results on stdout, progress on stderr. The tables don't depend on the number of processes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_RANGE_H
#define SIM_RANGE_H

#include "run.h"

#define RANGE_JOBS_MAX 64

struct range_config {
    uint64_t first, last;
    uint32_t jobs;
    bool is_range, has_seed;
    bool keeps_going;
    bool is_json;
};

/* Exit codes. */
int range_run(const struct range_config *range, const struct run_config *config);
int range_run_one(const struct range_config *range, const struct run_config *config);

/* Of the command that repeats a run: " --set KNOB=V" for each. */
void range_print_sets(const struct run_config *config);
/* The process of that run ended with a status that is not 0, or before it gave its result. */
void range_died(struct run_result *result, int status);

#endif
