/* broker__counters.c: what has happened since start, as numbers for whoever watches; nothing here is looked at by the broker.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#define US ((uint64_t)1000)
#define MS ((uint64_t)1000 * 1000)

const uint64_t broker_request_bounds_ns[BROKER_BUCKETS] = {500 * US,  1 * MS,     2 * MS,     5 * MS,
                                                           10 * MS,   20 * MS,    50 * MS,    100 * MS,
                                                           200 * MS,  500 * MS,   1000 * MS,  2000 * MS,
                                                           5000 * MS, 10000 * MS, 30000 * MS, UINT64_MAX};

void broker_histogram_add(struct broker_histogram *histogram, const uint64_t bounds_ns[BROKER_BUCKETS], uint64_t ns)
{
    uint32_t bucket = 0;
    while (ns > bounds_ns[bucket]) { bucket += 1; } /* the last bound is above everything */
    histogram->counts[bucket] += 1;
    histogram->sum_ns += ns;
}

void count_answer(struct broker *broker, struct request *request)
{
    struct broker_counters *counters = &broker->counters;
    if (request->api_key < 0 || request->api_key >= BROKER_APIS_MAX) { return; }
    uint64_t ns = broker->now_ns - request->begun_ns;
    broker_histogram_add(&counters->requests[request->api_key], broker_request_bounds_ns, ns);
    if (request->api_key != KAFKA_API_FETCH) { return; }
    for (uint32_t i = 0; i < request->part_count; i++) {
        struct part *part = &request->parts[i];
        if (part->error != KAFKA_ERROR_NONE || part->lease == 0) { continue; }
        counters->fetched_bytes += part->size_bytes;
        part->is_told = true; /* its log counts it when its lease comes back */
    }
}

/* A duplicate is answered like what it repeats, and is not stored again. */
void count_appended(struct broker *broker, const struct back_op *op, enum plog_result result)
{
    if (result == PLOG_DUPLICATE) {
        broker->counters.duplicate_batches += 1;
        return;
    }
    CHECK(result == PLOG_OK);
    broker->counters.produced_batches += 1;
    broker->counters.produced_records += op->batch_records;
    broker->counters.produced_bytes += op->batch_bytes;
}

const struct broker_counters *broker_counters(const struct broker *broker) { return &broker->counters; }
