/* main.c: weir-sim: one seed, or a range of them over several processes; histories that were written before.
 *
 * Room    sim.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exhaust.h"
#include "judge_file.h"
#include "range.h"

static const char *const usage =
    "usage: weir-sim --seed N | --seeds A..B | --exhaust [options]\n"
    "       weir-sim --judge FILE...\n"
    "  --jobs J          processes for a range (1)\n"
    "  --keep-going      a range goes on after a failure\n"
    "  --set KNOB=V      a knob of the run or of the world; may be given again\n"
    "  --trace FILE      one line per event and effect (--seed)\n"
    "  --history FILE    what clients asked for and were told (--seed)\n"
    "  --json            one object a line\n"
    "  --log             logs alone, as leaders and followers (else one seed in four is such a run)\n"
    "  --broker          brokers alone\n"
    "  --exhaust         a power cut at every effect of small workloads (seed 1, or those given)\n"
    "  --judge FILE...   histories, of runs here or of real brokers: what they break\n"
    "  --every N         at each N-th effect only (--exhaust)\n"
    "  --only W[:E:C]    a workload, or one state as a failure names it (--exhaust)\n";

static bool read_number(const char *text, int64_t *value_out)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != 0) { return false; }
    *value_out = value;
    return true;
}

static bool read_range(char *text, struct range_config *range)
{
    char *dots = strstr(text, "..");
    if (dots == NULL) { return false; }
    *dots = 0;
    int64_t first, last;
    if (!read_number(text, &first) || !read_number(dots + 2, &last) || first < 0 || last < first) { return false; }
    range->first = (uint64_t)first;
    range->last = (uint64_t)last;
    range->is_range = true;
    return true;
}

static bool read_set(char *text, struct run_config *config)
{
    char *equals = strchr(text, '=');
    if (equals == NULL || config->set_count == RUN_SETS_MAX) { return false; }
    *equals = 0;
    struct run_set *set = &config->sets[config->set_count++];
    set->name = text;
    if (!read_number(equals + 1, &set->value)) { return false; }
    if (run_knob_is_known(text)) { return true; }
    (void)fprintf(stderr, "error: no such knob: %s\n", text); /* then we exit */
    return false;
}

struct asked {
    struct range_config range;
    struct run_config config;
    struct exhaust_config exhaust;
    bool is_exhaust;
};

/* 0: an option without a value was taken; 1: one with a value; -1: not understood. */
static int take_option(struct asked *asked, const char *option, char *value)
{
    struct range_config *range = &asked->range;
    struct run_config *config = &asked->config;
    int64_t number;
    if (strcmp(option, "--exhaust") == 0) {
        asked->is_exhaust = true;
        return 0;
    }
    if (strcmp(option, "--keep-going") == 0) {
        range->keeps_going = true;
        return 0;
    }
    if (strcmp(option, "--json") == 0) {
        range->is_json = true;
        return 0;
    }
    if (strcmp(option, "--log") == 0 || strcmp(option, "--broker") == 0) {
        config->mode = option[2] == 'l' ? RUN_LOG : RUN_BROKER;
        return 0;
    }
    if (value == NULL) { return -1; }
    if (strcmp(option, "--seed") == 0) {
        if (!read_number(value, &number) || number < 0) { return -1; }
        range->first = range->last = (uint64_t)number;
        range->has_seed = true;
        return 1;
    }
    if (strcmp(option, "--seeds") == 0) { return read_range(value, range) ? 1 : -1; }
    if (strcmp(option, "--set") == 0) { return read_set(value, config) ? 1 : -1; }
    if (strcmp(option, "--jobs") == 0) {
        if (!read_number(value, &number) || number < 1 || number > RANGE_JOBS_MAX) { return -1; }
        range->jobs = (uint32_t)number;
        return 1;
    }
    if (strcmp(option, "--only") == 0) {
        asked->exhaust.only = value;
        return 1;
    }
    if (strcmp(option, "--every") == 0) {
        if (!read_number(value, &number) || number < 1 || number > UINT32_MAX) { return -1; }
        asked->exhaust.every = (uint32_t)number;
        return 1;
    }
    FILE **file =
        strcmp(option, "--trace") == 0 ? &config->trace : (strcmp(option, "--history") == 0 ? &config->history : NULL);
    if (file == NULL || *file != NULL) { return -1; }
    *file = fopen(value, "w");
    if (*file == NULL) {
        (void)fprintf(stderr, "error: %s: %s\n", value, strerror(errno)); /* then we exit */
        return -1;
    }
    return 1;
}

static bool close_file(FILE *file)
{
    if (file == NULL) { return true; }
    bool is_bad = ferror(file) != 0;
    if (fclose(file) != 0 || is_bad) {
        (void)fprintf(stderr, "error: a file was not written whole\n"); /* the exit code says it too */
        return false;
    }
    return true;
}

/* -1: it does not go together. */
static int run_asked(struct asked *asked)
{
    const struct range_config *range = &asked->range;
    const struct run_config *config = &asked->config;
    bool has_files = config->trace != NULL || config->history != NULL;
    bool is_for_exhaust = asked->exhaust.only != NULL || asked->exhaust.every != 0;
    if (asked->is_exhaust) {
        bool has_seeds = range->is_range || range->has_seed;
        if (range->jobs > EXHAUST_JOBS_MAX || range->keeps_going || range->is_json) { return -1; }
        asked->exhaust.first = has_seeds ? range->first : 1;
        asked->exhaust.last = has_seeds ? range->last : 1;
        asked->exhaust.jobs = range->jobs;
        if (asked->exhaust.every == 0) { asked->exhaust.every = 1; }
        return exhaust_run(&asked->exhaust, config);
    }
    if (range->is_range == range->has_seed || (range->is_range && has_files) || is_for_exhaust) { return -1; }
    return range->is_range ? range_run(range, config) : range_run_one(range, config);
}

int main(int argc, char **argv)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a failure is seen when it happens */
    if (argc >= 3 && strcmp(argv[1], "--judge") == 0) { return judge_files(argv + 2, argc - 2); }
    struct asked asked = {.range = {.jobs = 1}};
    for (int i = 1; i < argc; i++) {
        int taken = take_option(&asked, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        if (taken < 0) {
            (void)fprintf(stderr, "error: %s\n%s", argv[i], usage); /* the exit code says it too */
            return 2;
        }
        i += taken;
    }
    int code = run_asked(&asked);
    if (code < 0) {
        (void)fputs(usage, stderr); /* the exit code says it too */
        return 2;
    }
    bool is_written = close_file(asked.config.trace);
    is_written = close_file(asked.config.history) && is_written;
    return is_written ? code : 1;
}
