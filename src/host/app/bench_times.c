/* bench_times.c: see app__bench.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__bench.h"

#define NS_PER_S UINT64_C(1000000000)

uint64_t bench_due_ns(uint64_t began_ns, uint64_t index, uint64_t rate)
{
    return began_ns + index / rate * NS_PER_S + index % rate * NS_PER_S / rate;
}

static uint32_t slot_of(uint64_t ns)
{
    uint32_t power = 0;
    while (power + 1 < BENCH_POWERS && ns >> power >= 2 * (uint64_t)BENCH_STEPS) { power += 1; }
    uint64_t step = ns >> power;
    if (step >= 2 * (uint64_t)BENCH_STEPS) { step = 2 * (uint64_t)BENCH_STEPS - 1; } /* beyond the last */
    /* Power 0 has 128 steps of one; each later one the upper 64 of its 128. */
    return power == 0 ? (uint32_t)step : power * BENCH_STEPS + (uint32_t)step;
}

static uint64_t value_of(uint32_t slot)
{
    if (slot < 2 * BENCH_STEPS) { return slot; }
    uint32_t power = slot / BENCH_STEPS - 1;
    uint64_t step = slot - power * BENCH_STEPS;
    return ((step + 1) << power) - 1;
}

void bench_times_add(struct bench_times *times, uint64_t ns)
{
    uint32_t slot = slot_of(ns);
    if (slot >= BENCH_POWERS * BENCH_STEPS) { slot = BENCH_POWERS * BENCH_STEPS - 1; }
    times->counts[slot] += 1;
    times->count += 1;
    times->sum_ns += ns;
    times->max_ns = base_max_u64(times->max_ns, ns);
}

uint64_t bench_times_at(const struct bench_times *times, uint32_t thousandths)
{
    uint64_t wanted = (times->count * thousandths + 999) / 1000;
    uint64_t seen = 0;
    for (uint32_t slot = 0; slot < BENCH_POWERS * BENCH_STEPS; slot++) {
        seen += times->counts[slot];
        if (seen >= wanted && seen > 0) { return base_min_u64(value_of(slot), times->max_ns); }
    }
    return 0;
}

void bench_print(const struct bench_sum *sum, bool is_json)
{
    static const struct {
        const char *name;
        uint32_t thousandths;
    } parts[] = {{"p50", 500}, {"p95", 950}, {"p99", 990}, {"p99.9", 999}};
    double seconds = sum->seconds > 0 ? sum->seconds : 1e-9;
    double rate = (double)sum->records / seconds;
    double bytes_rate = (double)sum->bytes / seconds / 1e6;
    if (is_json) {
        printf("{\"bench\":\"%s\",\"records\":%llu,\"failed\":%llu,\"bytes\":%llu,\"seconds\":%.6f,\"records_per_"
               "second\":%.1f,"
               "\"megabytes_per_second\":%.3f",
               sum->what, (unsigned long long)sum->records, (unsigned long long)sum->failed,
               (unsigned long long)sum->bytes, sum->seconds, rate, bytes_rate);
        if (sum->requests > 0) {
            printf(",\"requests\":%llu,\"requests_per_second\":%.1f", (unsigned long long)sum->requests,
                   (double)sum->requests / seconds);
        }
        if (sum->request_bytes > 0) { printf(",\"request_bytes\":%llu", (unsigned long long)sum->request_bytes); }
        if (sum->times != NULL && sum->times->count > 0) {
            printf(",\"latency_ms\":{");
            for (size_t i = 0; i < BASE_ARRAY_COUNT(parts); i++) {
                printf("\"%s\":%.3f,", parts[i].name, (double)bench_times_at(sum->times, parts[i].thousandths) / 1e6);
            }
            printf("\"mean\":%.3f,\"max\":%.3f}", (double)sum->times->sum_ns / (double)sum->times->count / 1e6,
                   (double)sum->times->max_ns / 1e6);
        }
        printf("}\n");
        return;
    }
    printf("%s: %llu records in %.3f s, %.0f records/s, %.2f MB/s", sum->what, (unsigned long long)sum->records,
           sum->seconds, rate, bytes_rate);
    if (sum->requests > 0) { printf(", %.0f requests/s", (double)sum->requests / seconds); }
    printf(sum->failed > 0 ? ", %llu failed\n" : "\n", (unsigned long long)sum->failed);
    if (sum->times == NULL || sum->times->count == 0) { return; }
    printf("%s:", sum->times_are);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(parts); i++) {
        printf(" %s %.3f ms,", parts[i].name, (double)bench_times_at(sum->times, parts[i].thousandths) / 1e6);
    }
    printf(" max %.3f ms\n", (double)sum->times->max_ns / 1e6);
}
