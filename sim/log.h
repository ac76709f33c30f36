/* log.h: one seed of the log mode: plog and journal alone, driven as leaders and as followers (docs/SIMULATOR.md).
 *
 * Room    sim. A node of 1 to 3 shards; each carries a few pairs of logs, two replicas of one partition. A driver plays producer,
 *         controller and replica: it appends as a leader at an epoch, raises epochs with and without writes, copies to the
 *         follower, lets it truncate by epoch (KIP-101, KIP-279), tells watermarks, reads, and checks everything against a model.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_LOG_H
#define SIM_LOG_H

#include "run.h"

/* Fills in what run_seed does; `result` is cleared and has its seed. A failed CHECK leaves by the caller's way out,
 * which asks log_panic to tell of it, and frees what is left by log_end. */
struct log_run;
struct log_run *log_begin(const struct run_config *config, struct run_result *result);
void log_go(struct log_run *run);
void log_end(struct log_run *run);
void log_panic(struct log_run *run, const char *file, int line, const char *what);

#endif
