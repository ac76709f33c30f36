/* app__bench.h: what the parts of weir bench share: times in a histogram, and how they are said.
 *
 * Room    host/app, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_APP_BENCH_H
#define HOST_APP_BENCH_H

#include "app__parts.h"

/* ---- times (bench_times.c) ----
 * Log-linear as HdrHistogram's: BENCH_STEPS of equal width in each power of two, so that no value is off by more than 1/64. */
#define BENCH_STEPS  64
#define BENCH_POWERS 42 /* up to 2^47 ns, some 39 hours; what is longer counts as that */

struct bench_times {
    uint64_t counts[BENCH_POWERS * BENCH_STEPS];
    uint64_t count;
    uint64_t max_ns;
    uint64_t sum_ns;
};
void bench_times_add(struct bench_times *times, uint64_t ns);
/* The least value that so many thousandths of all values are not above; 0 when there are none. */
uint64_t bench_times_at(const struct bench_times *times, uint32_t thousandths);

/* When the one with this index is to be sent, at so many a second. */
uint64_t bench_due_ns(uint64_t began_ns, uint64_t index, uint64_t rate);

struct bench_sum {
    const char *what; /* "produce" */
    uint64_t records;
    uint64_t failed;
    uint64_t bytes;
    uint64_t requests;      /* 0: not counted */
    uint64_t request_bytes; /* of all of them; 0: not counted */
    double seconds;
    const struct bench_times *times; /* NULL: none */
    const char *times_are;           /* "from the intended send to the acknowledgement" */
};
/* On standard output: a few lines for people, or one object. */
void bench_print(const struct bench_sum *sum, bool is_json);

/* ---- weir bench replay (bench_replay.c) ---- */
int bench_replay(struct app_args *args);

#endif
