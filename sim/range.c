/* range.c: see range.h. Worker w of J has the seeds first + w, first + w + J, ... and writes each result into its pipe. A worker
 * that dies failed the seed it was at; another one goes on after that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "range.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire/kafka/kafka.h"

struct worker {
    pid_t process; /* 0: done */
    int from;      /* its pipe */
    uint64_t next; /* the seed it is at */
    size_t got_bytes;
    struct run_result result; /* as far as it has come */
};

struct totals {
    struct run_result sum;
    uint64_t seeds, failed;
    uint64_t *events, *crashes, *acknowledged, *disk_kinds; /* of each seed, for the medians */
};

struct pool {
    const struct range_config *range;
    const struct run_config *config;
    struct worker workers[RANGE_JOBS_MAX];
    struct totals totals;
    bool is_ending;
};

/* ---- lines ---- */

void range_print_sets(const struct run_config *config)
{
    for (uint32_t i = 0; i < config->set_count; i++) {
        printf(" --set %s=%" PRId64, config->sets[i].name, config->sets[i].value);
    }
}

void range_died(struct run_result *result, int status)
{
    result->is_ok = false;
    (void)snprintf(result->id, sizeof result->id, "CRASH"); /* short */
    (void)snprintf(result->text, sizeof result->text, "the process died: %s %d",
                   WIFSIGNALED(status) ? "signal" : "exit code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)); /* short */
}

static void print_command(const struct run_config *config, uint64_t seed)
{
    static const char *const modes[] = {[RUN_BY_SEED] = "", [RUN_BROKER] = " --broker", [RUN_LOG] = " --log"};
    printf("weir-sim --seed %" PRIu64 "%s", seed, modes[config->mode]);
    range_print_sets(config);
}

static void print_json_text(const char *text)
{
    putchar('"');
    for (; *text != 0; text++) {
        if (*text == '"' || *text == '\\') { putchar('\\'); }
        if ((unsigned char)*text >= 0x20) { putchar(*text); }
    }
    putchar('"');
}

static void print_result(const struct range_config *range, const struct run_config *config,
                         const struct run_result *result)
{
    double virtual_s = (double)result->virtual_ns / 1e9;
    if (range->is_json) {
        printf("{\"seed\":%" PRIu64 ",\"events\":%" PRIu64 ",\"virtual_s\":%.3f,\"hash\":\"%016" PRIx64
               "\",\"crashes\":%" PRIu64 ",\"acknowledged\":%" PRIu64 ",\"result\":\"%s\"",
               result->seed, result->events, virtual_s, result->hash, result->crashes, result->acknowledged,
               result->is_ok ? "ok" : result->id);
        if (!result->is_ok) {
            printf(",\"what\":");
            print_json_text(result->text);
            printf(",\"step\":%" PRIu64 ",\"fault\":\"%s\",\"fault_step\":%" PRIu64, result->step, result->fault,
                   result->fault_step);
        }
        printf("}\n");
        return;
    }
    if (!result->is_ok) { printf("%s: %s\n", result->id, result->text); }
    printf("seed=%" PRIu64 "%s events=%" PRIu64 " virtual_s=%.3f hash=%016" PRIx64 " result=%s", result->seed,
           result->is_log ? " mode=log" : "", result->events, virtual_s, result->hash,
           !result->is_ok ? result->id : (result->is_cut ? "cut" : "ok"));
    if (!result->is_ok) {
        printf(" step=%" PRIu64, result->step);
        if (result->fault[0] != 0) { printf(" fault=%s@%" PRIu64, result->fault, result->fault_step); }
        printf(" repeat: ");
        print_command(config, result->seed);
    }
    printf("\n");
}

int range_run_one(const struct range_config *range, const struct run_config *config)
{
    struct run_config one = *config;
    one.seed = range->first;
    struct run_result result;
    run_seed(&one, &result);
    print_result(range, config, &result);
    return result.is_ok ? 0 : 1;
}

/* ---- workers ---- */

static bool write_all(int to, const void *at, size_t size_bytes)
{
    const uint8_t *bytes = at;
    while (size_bytes > 0) {
        ssize_t count = write(to, bytes, size_bytes);
        if (count < 0 && errno == EINTR) { continue; }
        if (count <= 0) { return false; }
        bytes += count;
        size_bytes -= (size_t)count;
    }
    return true;
}

NORETURN static void work(const struct pool *pool, uint64_t first, int to)
{
    struct run_config config = *pool->config;
    struct run_result result;
    for (uint64_t seed = first; seed <= pool->range->last; seed += pool->range->jobs) {
        config.seed = seed;
        run_seed(&config, &result);
        if (!write_all(to, &result, sizeof result)) { break; } /* the parent is gone, or has heard enough */
    }
    (void)close(to); /* the process ends */
    exit(0);
}

static void start_worker(struct pool *pool, struct worker *worker)
{
    worker->process = 0;
    worker->got_bytes = 0;
    if (worker->next > pool->range->last || pool->is_ending) { return; }
    int ends[2];
    if (pipe(ends) != 0) {
        perror("pipe");
        exit(1);
    }
    (void)fflush(NULL); /* so that nothing is printed twice */
    pid_t process = fork();
    if (process < 0) {
        perror("fork");
        exit(1);
    }
    if (process == 0) {
        (void)close(ends[0]); /* the parent's */
        work(pool, worker->next, ends[1]);
    }
    (void)close(ends[1]); /* the child's */
    worker->process = process;
    worker->from = ends[0];
}

static void add(struct totals *totals, const struct run_result *result, uint64_t at)
{
    totals->seeds += 1;
    totals->failed += result->is_ok ? 0 : 1;
    totals->sum.events += result->events;
    totals->sum.virtual_ns += result->virtual_ns;
    totals->sum.operations += result->operations;
    totals->sum.acks_judged += result->acks_judged;
    totals->sum.refused += result->refused;
    for (int i = 0; i < RUN_LIMITS; i++) { totals->sum.limits[i] += result->limits[i]; }
    for (int i = 0; i < WORLD_FAULT_COUNT; i++) { totals->sum.hits[i] += result->hits[i]; }
    for (int i = 0; i < CHECK_APIS; i++) { totals->sum.answers[i] += result->answers[i]; }
    for (int i = 0; i < RUN_BRANCH_COUNT; i++) { totals->sum.branches[i] += result->branches[i]; }
    for (int i = 0; i < RUN_STATE_COUNT; i++) { totals->sum.reached[i] += result->reached[i]; }
    for (int i = 0; i < CHECK_GROUPS_HIT_COUNT; i++) { totals->sum.groups[i] += result->groups[i]; }
    for (uint32_t i = 0; i < WORLD_BEFORE_COUNT; i++) {
        totals->sum.asked_of[i] += result->asked_of[i];
        totals->sum.crashes_before[i] += result->crashes_before[i];
    }
    for (int i = WORLD_DISK_SLOW; i <= WORLD_DISK_ROT; i++) { totals->disk_kinds[at] += result->hits[i] > 0 ? 1 : 0; }
    totals->events[at] = result->events;
    totals->crashes[at] = result->crashes;
    totals->acknowledged[at] = result->acknowledged;
}

static void take_result(struct pool *pool, const struct run_result *result)
{
    add(&pool->totals, result, pool->totals.seeds);
    if (!result->is_ok || pool->range->is_json) { print_result(pool->range, pool->config, result); }
    if (!result->is_ok && !pool->range->keeps_going) { pool->is_ending = true; }
    uint64_t count = pool->range->last - pool->range->first + 1;
    if (pool->totals.seeds % 100 == 0 || pool->totals.seeds == count) {
        (void)fprintf(stderr, "%" PRIu64 " of %" PRIu64 " seeds, %" PRIu64 " failed\n", pool->totals.seeds, count,
                      pool->totals.failed); /* progress only */
    }
}

static void worker_died(struct pool *pool, struct worker *worker)
{
    int status = 0;
    (void)close(worker->from); /* read to its end */
    while (waitpid(worker->process, &status, 0) < 0 && errno == EINTR) {}
    if (worker->next <= pool->range->last && !pool->is_ending) {
        struct run_result result = {.seed = worker->next};
        range_died(&result, status);
        take_result(pool, &result);
        worker->next += pool->range->jobs;
    }
    start_worker(pool, worker);
}

static void hear(struct pool *pool, struct worker *worker)
{
    ssize_t count =
        read(worker->from, (uint8_t *)&worker->result + worker->got_bytes, sizeof worker->result - worker->got_bytes);
    if (count < 0 && errno == EINTR) { return; }
    if (count <= 0) {
        worker_died(pool, worker);
        return;
    }
    worker->got_bytes += (size_t)count;
    if (worker->got_bytes < sizeof worker->result) { return; }
    worker->got_bytes = 0;
    worker->next += pool->range->jobs;
    take_result(pool, &worker->result);
}

/* ---- tables ---- */

static int compare_u64(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;
    return one < two ? -1 : (one > two ? 1 : 0);
}

static uint64_t median(uint64_t *values, uint64_t count)
{
    qsort(values, count, sizeof *values, compare_u64);
    return count == 0 ? 0 : values[count / 2];
}

static void print_row(bool is_json, const char *kind, const char *name, uint64_t count)
{
    if (is_json) {
        printf("{\"%s\":\"%s\",\"count\":%" PRIu64 "}\n", kind, name, count);
    } else {
        printf("  %-8s %-24s %12" PRIu64 "%s\n", kind, name, count, count == 0 ? "  never" : "");
    }
}

static void print_tables(const struct range_config *range, struct totals *totals)
{
    for (int i = 0; i < WORLD_FAULT_COUNT; i++) {
        bool is_of_swarm = world_fault_is_in_swarm((enum world_fault)i) || i >= WORLD_KEPT_WRITE || i == WORLD_DISK_ROT;
        if (!is_of_swarm && totals->sum.hits[i] == 0) { continue; }
        print_row(range->is_json, "fault", world_fault_name((enum world_fault)i), totals->sum.hits[i]);
    }
    print_row(range->is_json, "fault", "no_memory", totals->sum.refused);
    for (uint32_t i = 0; i < RUN_LIMITS; i++) {
        print_row(range->is_json, "small", run_limit_name(i), totals->sum.limits[i]);
    }
    for (int16_t i = 0; i < CHECK_APIS; i++) {
        const struct kafka_api_info *info = kafka_api_info(i);
        if (totals->sum.answers[i] == 0 || info == NULL) { continue; }
        print_row(range->is_json, "api", info->name, totals->sum.answers[i]);
    }
    for (int i = 0; i < RUN_BRANCH_COUNT; i++) {
        print_row(range->is_json, "recovery", run_branch_name((enum run_branch)i), totals->sum.branches[i]);
    }
    for (int i = 0; i < CHECK_GROUPS_HIT_COUNT; i++) {
        print_row(range->is_json, "group", check_groups_hit_name((enum check_groups_hit)i), totals->sum.groups[i]);
    }
    for (int i = 0; i < RUN_STATE_COUNT; i++) {
        print_row(range->is_json, "crash in", run_state_name((enum run_state)i), totals->sum.reached[i]);
    }
    for (uint32_t i = 0; i < WORLD_BEFORE_COUNT; i++) {
        const char *name = i == WORLD_BEFORE_MESSAGE ? "message" : port_effect_name((enum port_effect_kind)i);
        if (totals->sum.asked_of[i] == 0) { continue; } /* a broker has no use for it */
        print_row(range->is_json, "before", name, totals->sum.crashes_before[i]);
    }
    print_row(range->is_json, "median", "events", median(totals->events, totals->seeds));
    print_row(range->is_json, "median", "crashes", median(totals->crashes, totals->seeds));
    print_row(range->is_json, "median", "disk_fault_kinds", median(totals->disk_kinds, totals->seeds));
    print_row(range->is_json, "median", "acknowledged", median(totals->acknowledged, totals->seeds));
}

static double cpu_s(void)
{
    double sum = 0;
    for (int who = 0; who < 2; who++) {
        struct rusage usage;
        if (getrusage(who == 0 ? RUSAGE_SELF : RUSAGE_CHILDREN, &usage) != 0) { continue; }
        sum += (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
        sum += (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
    }
    return sum;
}

/* The last figures depend on the machine: on one core, how many events and how much simulated time a second of it brings. */
static void print_sum(const struct range_config *range, const struct totals *totals)
{
    double virtual_s = (double)totals->sum.virtual_ns / 1e9, spent_s = cpu_s();
    double per_s = spent_s > 0 ? 1 / spent_s : 0;
    if (range->is_json) {
        printf("{\"seeds\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"events\":%" PRIu64 ",\"virtual_s\":%.1f,\"cpu_s\":%.1f"
               ",\"events_per_cpu_s\":%.0f,\"virtual_s_per_cpu_s\":%.0f}\n",
               totals->seeds, totals->failed, totals->sum.events, virtual_s, spent_s,
               (double)totals->sum.events * per_s, virtual_s * per_s);
        return;
    }
    printf("seeds=%" PRIu64 " failed=%" PRIu64 " events=%" PRIu64
           " virtual_s=%.1f cpu_s=%.1f events_per_cpu_s=%.0f virtual_s_per_cpu_s=%.0f\n",
           totals->seeds, totals->failed, totals->sum.events, virtual_s, spent_s, (double)totals->sum.events * per_s,
           virtual_s * per_s);
}

static void end_workers(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->range->jobs; i++) {
        struct worker *worker = &pool->workers[i];
        if (worker->process == 0) { continue; }
        (void)kill(worker->process, SIGKILL); /* our own child, not waited for yet */
        (void)close(worker->from);            /* nothing more is wanted from it */
        while (waitpid(worker->process, NULL, 0) < 0 && errno == EINTR) {}
        worker->process = 0;
    }
}

static uint32_t poll_workers(struct pool *pool)
{
    struct pollfd polls[RANGE_JOBS_MAX];
    struct worker *polled[RANGE_JOBS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < pool->range->jobs; i++) {
        if (pool->workers[i].process == 0) { continue; }
        polled[count] = &pool->workers[i];
        polls[count++] = (struct pollfd){.fd = pool->workers[i].from, .events = POLLIN};
    }
    if (count == 0 || poll(polls, count, -1) < 0) { return count; }
    for (uint32_t i = 0; i < count && !pool->is_ending; i++) {
        if (polls[i].revents != 0) { hear(pool, polled[i]); }
    }
    return count;
}

int range_run(const struct range_config *range, const struct run_config *config)
{
    struct pool *pool = calloc(1, sizeof *pool);
    uint64_t count = range->last - range->first + 1;
    uint64_t *figures = calloc(4 * (size_t)count, sizeof *figures);
    CHECK(pool != NULL && figures != NULL);
    pool->range = range;
    pool->config = config;
    pool->totals = (struct totals){.events = figures,
                                   .crashes = figures + count,
                                   .acknowledged = figures + 2 * count,
                                   .disk_kinds = figures + 3 * count};
    for (uint32_t i = 0; i < range->jobs; i++) {
        pool->workers[i].next = range->first + i;
        start_worker(pool, &pool->workers[i]);
    }
    while (!pool->is_ending && poll_workers(pool) > 0) {}
    end_workers(pool);
    print_tables(range, &pool->totals);
    print_sum(range, &pool->totals);
    int code = pool->totals.failed == 0 ? 0 : 1;
    free(figures);
    free(pool);
    return code;
}
