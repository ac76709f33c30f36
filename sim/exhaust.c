/* exhaust.c: see exhaust.h. The walk, the children, the figures.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "exhaust__parts.h"
#include "range.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_MAX_S 120 /* of real time: a machine that loops within a step */

/* ---- choices ---- */

static const struct {
    const char *name;
    enum world_keep keep;
    bool has_number;
} choices[] = {
    {"none", WORLD_KEEP_NOTHING, false}, {"all", WORLD_KEEP_ALL, false}, {"one", WORLD_KEEP_ONE, true},
    {"but", WORLD_LOSE_ONE, true},       {"half", WORLD_TEAR_ONE, true},
};

static void choice_to_text(struct exhaust_state state, char *to, size_t size_bytes)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(choices); i++) {
        if (choices[i].keep != state.keep) { continue; }
        if (choices[i].has_number) {
            (void)snprintf(to, size_bytes, "%s%" PRIu32, choices[i].name, state.keep_at); /* short */
        } else {
            (void)snprintf(to, size_bytes, "%s", choices[i].name); /* short */
        }
    }
}

static bool choice_of_text(const char *text, struct exhaust_state *state)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(choices); i++) {
        size_t name_bytes = strlen(choices[i].name);
        if (strncmp(text, choices[i].name, name_bytes) != 0) { continue; }
        char *end = NULL;
        state->keep = choices[i].keep;
        state->keep_at = (uint32_t)strtoul(text + name_bytes, &end, 10);
        return *end == 0 && (end != text + name_bytes) == choices[i].has_number;
    }
    return false;
}

/* ---- children ---- */

static void print_failure(const struct exhaust *exhaust, struct exhaust_state state, const struct run_result *result)
{
    char choice[24] = "";
    choice_to_text(state, choice, sizeof choice);
    printf("%s: %s\n", result->id, result->text);
    printf("  repeat: weir-sim --exhaust --seed %" PRIu64 " --only %s:%" PRIu64 ":%s", exhaust->seed,
           exhaust__workloads[exhaust->workload].name, state.effect, choice);
    range_print_sets(exhaust->run_config);
    printf("\n");
}

static void add_branches(struct exhaust *exhaust, const struct run_result *result)
{
    for (int i = 0; i < RUN_BRANCH_COUNT; i++) { exhaust->branches[i] += result->branches[i]; }
    for (int i = 0; i < CHECK_GROUPS_HIT_COUNT; i++) { exhaust->groups[i] += result->groups[i]; }
}

/* One child has ended: its result stands in its slot. */
static void take_child(struct exhaust *exhaust)
{
    int status = 0;
    pid_t process;
    while ((process = waitpid(-1, &status, 0)) < 0 && errno == EINTR) {}
    for (uint32_t i = 0; i < exhaust->config->jobs; i++) {
        struct exhaust_slot *slot = &exhaust->slots[i];
        if (slot->process != process || process <= 0) { continue; }
        slot->process = 0;
        exhaust->running -= 1;
        bool is_whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!is_whole) { range_died(&slot->result, status); }
        add_branches(exhaust, &slot->result);
        exhaust->events += slot->result.events;
        if (slot->result.is_ok) { return; }
        exhaust->failed += 1;
        if (exhaust->failed <= EXHAUST_PRINTED_MAX) { print_failure(exhaust, slot->state, &slot->result); }
        return;
    }
}

static struct exhaust_slot *free_slot(struct exhaust *exhaust)
{
    if (exhaust->running == exhaust->config->jobs) { take_child(exhaust); }
    for (uint32_t i = 0; i < exhaust->config->jobs; i++) {
        if (exhaust->slots[i].process == 0) { return &exhaust->slots[i]; }
    }
    CHECK(false); /* one was given back */
    return NULL;
}

/* True in the child, which has the cut now. */
static bool fork_state(struct exhaust *exhaust, struct run *run, struct exhaust_state state)
{
    struct exhaust_slot *slot = free_slot(exhaust);
    slot->state = state;
    (void)fflush(NULL); /* so that nothing is printed twice */
    pid_t process = fork();
    if (process < 0) {
        perror("fork");
        exit(1);
    }
    if (process > 0) {
        slot->process = process;
        exhaust->running += 1;
        exhaust->states += 1;
        return false;
    }
    (void)alarm(CHILD_MAX_S); /* no alarm before */
    exhaust->slot = slot;
    exhaust->is_cut = true;
    world_set_keep_at(run->world, state.keep, state.keep_at);
    return true;
}

/* ---- the walk ---- */

static bool try_each(struct exhaust *exhaust, struct run *run, uint64_t effect)
{
    uint32_t unsynced = world_unsynced(run->world, run->cast.broker);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(choices); i++) {
        uint32_t count = choices[i].has_number ? unsynced : 1;
        if (unsynced == 0 && choices[i].keep == WORLD_KEEP_ALL) { count = 0; } /* as none */
        if (unsynced == 1 && choices[i].has_number && choices[i].keep != WORLD_TEAR_ONE) { count = 0; }
        for (uint32_t at = 0; at < count; at++) {
            struct exhaust_state state = {.effect = effect, .keep = choices[i].keep, .keep_at = at};
            if (fork_state(exhaust, run, state)) { return true; }
        }
    }
    return false;
}

static bool may_crash(void *context, uint32_t node)
{
    struct run *run = context;
    struct exhaust *exhaust = run->user;
    if (node != run->cast.broker || exhaust->is_cut ||
        run->result->starts < exhaust__workloads[exhaust->workload].from_start) {
        return false;
    }
    uint64_t effect = ++exhaust->effect;
    if (exhaust->is_only) {
        if (effect != exhaust->only.effect) { return false; }
        exhaust->is_cut = true;
        world_set_keep_at(run->world, exhaust->only.keep, exhaust->only.keep_at);
        return true;
    }
    uint32_t stride = exhaust__workloads[exhaust->workload].stride;
    if (effect % ((uint64_t)exhaust->config->every * (stride == 0 ? 1 : stride)) != 0) { return false; }
    return try_each(exhaust, run, effect);
}

static void walk(struct run *run)
{
    struct exhaust *exhaust = run->user;
    struct world_knobs knobs;
    exhaust__shape(run, &exhaust__workloads[exhaust->workload], &knobs);
    run__begin(run, &knobs);
    world_observe(run->world, &(struct world_observer){.context = run, .may_crash = may_crash});
    exhaust__schedule(run, &exhaust__workloads[exhaust->workload]);
    uint64_t limit_ns = 120 * WORLD_S;
    while (!exhaust->is_cut && !run__is_broken(run) && !run__is_loaded(run)) {
        if (world_now(run->world) > limit_ns || !world_step(run->world)) {
            run__fail(run, "I21", "the workload itself does not end");
        }
    }
    exhaust->is_cut = true;
    if (!run__is_broken(run)) { run__finish(run); }
}

/* A child's end. */
NORETURN static void leave(const struct exhaust *exhaust, struct run_result *result, struct run *run)
{
    run__groups_end(run);
    result->is_ok = !run->is_failed;
    result->events = world_events(run->world);
    exhaust->slot->result = *result;
    (void)fflush(NULL); /* it prints nothing */
    _exit(0);
}

static void run_workload(struct exhaust *exhaust)
{
    struct run_config config = *exhaust->run_config;
    config.seed = exhaust->seed;
    if (!exhaust->is_only) { config.trace = config.history = NULL; } /* of many processes at once */
    struct run_result result = {.seed = config.seed};
    struct run *run = calloc(1, sizeof *run);
    CHECK(run != NULL);
    run->config = &config;
    run->result = &result;
    run->user = exhaust;
    base_prng_init(&run->prng, config.seed, UINT64_C(0x657868)); /* "exh" */
    exhaust->is_cut = false;
    exhaust->effect = 0;
    run__guarded(run, walk);
    if (exhaust->slot != NULL) { leave(exhaust, &result, run); }
    while (exhaust->running > 0) { take_child(exhaust); }
    exhaust->effects += exhaust->effect;
    run__end(run);
    add_branches(exhaust, &result);
    free(run);
    if (exhaust->is_only) {
        exhaust->states += 1;
        exhaust->failed += result.is_ok ? 0 : 1;
        printf("%s%s%s hash=%016" PRIx64 "\n", result.is_ok ? "ok" : result.id, result.is_ok ? "" : ": ",
               result.is_ok ? "" : result.text, result.hash);
        return;
    }
    if (result.is_ok) { return; }
    exhaust->failed += 1; /* without any cut */
    printf("%s: %s\n  in the workload %s of seed %" PRIu64 " itself\n", result.id, result.text,
           exhaust__workloads[exhaust->workload].name, exhaust->seed);
}

/* False: a workload does not do what it is there for. */
static bool print_workload(const struct exhaust *exhaust)
{
    const struct exhaust_workload *workload = &exhaust__workloads[exhaust->workload];
    bool is_met = exhaust->branches[workload->meets] > 0;
    printf("%-12s effects=%-6" PRIu64 " states=%-7" PRIu64 " failed=%-5" PRIu64 " %s=%" PRIu64 "%s", workload->name,
           exhaust->effects, exhaust->states, exhaust->failed, run_branch_name(workload->meets),
           exhaust->branches[workload->meets], is_met ? "" : ": NEVER");
    for (int i = 0; i < CHECK_GROUPS_HIT_COUNT; i++) {
        if ((workload->meets_groups >> i & 1) == 0) { continue; }
        bool is_hit = exhaust->groups[i] > 0;
        printf(" %s=%" PRIu64 "%s", check_groups_hit_name((enum check_groups_hit)i), exhaust->groups[i],
               is_hit ? "" : ": NEVER");
        is_met = is_met && is_hit;
    }
    printf("\n");
    return is_met;
}

/* False: of the workload's effects none is an N-th one. */
static bool has_cut(const struct exhaust *exhaust)
{
    if (exhaust->is_only || exhaust->states > 0 || exhaust->failed > 0) { return true; }
    (void)fprintf(stderr,
                  "error: --every %" PRIu32 " leaves the workload %s without a cut: it has %" PRIu64 " effects\n",
                  exhaust->config->every, exhaust__workloads[exhaust->workload].name,
                  exhaust->effects); /* the exit code says it too */
    return false;
}

/* "NAME" or "NAME:EFFECT:CHOICE". False: not understood. */
static bool read_only(struct exhaust *exhaust, const char *text, uint32_t *workload_out)
{
    size_t name_bytes = strcspn(text, ":");
    for (uint32_t i = 0; i < exhaust__workload_count; i++) {
        const char *name = exhaust__workloads[i].name;
        if (strlen(name) != name_bytes || strncmp(name, text, name_bytes) != 0) { continue; }
        *workload_out = i;
        if (text[name_bytes] == 0) { return true; }
        char *end = NULL;
        exhaust->is_only = true;
        exhaust->only.effect = strtoull(text + name_bytes + 1, &end, 10);
        return *end == ':' && choice_of_text(end + 1, &exhaust->only);
    }
    return false;
}

static void print_names(void)
{
    (void)fprintf(stderr, "error: --only NAME or NAME:EFFECT:CHOICE, with NAME one of"); /* the exit code says it too */
    for (uint32_t i = 0; i < exhaust__workload_count; i++) {
        (void)fprintf(stderr, " %s", exhaust__workloads[i].name); /* as above */
    }
    (void)fprintf(stderr, "\n"); /* as above */
}

int exhaust_run(const struct exhaust_config *config, const struct run_config *run_config)
{
    struct exhaust exhaust = {.config = config, .run_config = run_config};
    uint32_t only = UINT32_MAX;
    if (config->only != NULL && !read_only(&exhaust, config->only, &only)) {
        print_names();
        return 2;
    }
    exhaust.slots =
        mmap(NULL, EXHAUST_JOBS_MAX * sizeof *exhaust.slots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(exhaust.slots != MAP_FAILED);
    uint64_t states = 0, failed = 0, events = 0;
    bool is_met = true, is_cut = true;
    for (uint32_t i = 0; i < exhaust__workload_count; i++) {
        if (only != UINT32_MAX && i != only) { continue; }
        exhaust.workload = i;
        exhaust.effects = exhaust.states = exhaust.failed = exhaust.events = 0;
        memset(exhaust.branches, 0, sizeof exhaust.branches);
        memset(exhaust.groups, 0, sizeof exhaust.groups);
        for (exhaust.seed = config->first; exhaust.seed <= config->last; exhaust.seed++) { run_workload(&exhaust); }
        is_cut = has_cut(&exhaust) && is_cut;
        if (!exhaust.is_only && exhaust.states > 0) { is_met = print_workload(&exhaust) && is_met; }
        states += exhaust.states;
        failed += exhaust.failed;
        events += exhaust.events;
    }
    if (!exhaust.is_only) {
        printf("states=%" PRIu64 " failed=%" PRIu64 " events=%" PRIu64 "\n", states, failed, events);
    }
    CHECK(munmap(exhaust.slots, EXHAUST_JOBS_MAX * sizeof *exhaust.slots) == 0);
    if (failed > 0) { return 1; }
    if (!is_cut) { return 2; }
    return is_met ? 0 : 1;
}
