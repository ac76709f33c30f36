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
    "  --only W[:E:C]    a workload, or one state as a failure names it (--exhaust)\n"
    "  --until STEP      leaves the run after so many events and prints every node's state (--seed)\n"
    "  --help            this\n";

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
    int64_t first = -1, last = -1;
    bool is_good = read_number(text, &first) && read_number(dots + 2, &last) && first >= 0 && last >= first;
    *dots = '.';
    if (!is_good) { return false; }
    range->first = (uint64_t)first;
    range->last = (uint64_t)last;
    range->is_range = true;
    return true;
}

struct asked {
    struct range_config range;
    struct run_config config;
    struct exhaust_config exhaust;
    const char *wrong; /* what is, of the option just read */
    bool is_exhaust;
};

static bool read_set(struct asked *asked, char *text)
{
    char *equals = strchr(text, '=');
    struct run_config *config = &asked->config;
    asked->wrong = "KNOB=V, V a whole number, is wanted";
    if (equals == NULL) { return false; }
    struct run_set set = {.name = text};
    if (!read_number(equals + 1, &set.value)) { return false; }
    asked->wrong = "too many knobs";
    if (config->set_count == RUN_SETS_MAX) { return false; }
    *equals = 0;
    asked->wrong = run_knob_wrong(text, set.value);
    if (asked->wrong != NULL) {
        *equals = '=';
        return false;
    }
    config->sets[config->set_count++] = set;
    return true;
}

static bool read_between(struct asked *asked, const char *text, int64_t min, int64_t max, int64_t *number_out)
{
    asked->wrong = "a whole number in its range is wanted";
    return read_number(text, number_out) && *number_out >= min && *number_out <= max;
}

static bool open_file(struct asked *asked, FILE **file, const char *name)
{
    asked->wrong = "it was given before";
    if (*file != NULL) { return false; }
    *file = fopen(name, "w");
    asked->wrong = *file == NULL ? strerror(errno) : NULL;
    return *file != NULL;
}

static bool take_flag(struct asked *asked, const char *option)
{
    if (strcmp(option, "--exhaust") == 0) {
        asked->is_exhaust = true;
    } else if (strcmp(option, "--keep-going") == 0) {
        asked->range.keeps_going = true;
    } else if (strcmp(option, "--json") == 0) {
        asked->range.is_json = true;
    } else if (strcmp(option, "--log") == 0) {
        asked->config.mode = RUN_LOG;
    } else if (strcmp(option, "--broker") == 0) {
        asked->config.mode = RUN_BROKER;
    } else {
        return false;
    }
    return true;
}

static bool take_valued(struct asked *asked, const char *option, char *value)
{
    struct range_config *range = &asked->range;
    struct run_config *config = &asked->config;
    int64_t number = 0;
    if (strcmp(option, "--seed") == 0) {
        range->has_seed = read_between(asked, value, 0, INT64_MAX, &number);
        range->first = range->last = (uint64_t)number;
        return range->has_seed;
    }
    if (strcmp(option, "--seeds") == 0) {
        asked->wrong = "A..B, A not above B, is wanted";
        return read_range(value, range);
    }
    if (strcmp(option, "--set") == 0) { return read_set(asked, value); }
    if (strcmp(option, "--jobs") == 0) {
        bool is_good = read_between(asked, value, 1, RANGE_JOBS_MAX, &number);
        range->jobs = (uint32_t)number;
        return is_good;
    }
    if (strcmp(option, "--until") == 0) {
        bool is_good = read_between(asked, value, 1, INT64_MAX, &number);
        config->until = (uint64_t)number;
        config->states = stdout;
        return is_good;
    }
    if (strcmp(option, "--only") == 0) {
        asked->exhaust.only = value;
        return true;
    }
    if (strcmp(option, "--every") == 0) {
        bool is_good = read_between(asked, value, 1, UINT32_MAX, &number);
        asked->exhaust.every = (uint32_t)number;
        return is_good;
    }
    return open_file(asked, strcmp(option, "--trace") == 0 ? &config->trace : &config->history, value);
}

static bool has_value(const char *option)
{
    static const char *const options[] = {"--seed", "--seeds", "--set",   "--jobs",   "--until",
                                          "--only", "--every", "--trace", "--history"};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(options); i++) {
        if (strcmp(option, options[i]) == 0) { return true; }
    }
    return false;
}

static bool read_options(struct asked *asked, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (take_flag(asked, argv[i])) { continue; }
        if (!has_value(argv[i])) {
            (void)fprintf(stderr, "error: %s: no such option; --help tells them all\n", argv[i]); /* then we exit */
            return false;
        }
        if (i + 1 == argc) {
            (void)fprintf(stderr, "error: %s: its value is missing\n", argv[i]); /* as above */
            return false;
        }
        i += 1;
        if (take_valued(asked, argv[i - 1], argv[i])) { continue; }
        (void)fprintf(stderr, "error: %s %s: %s\n", argv[i - 1], argv[i], asked->wrong); /* as above */
        return false;
    }
    return true;
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

/* NULL: it goes together. */
static const char *misfit(const struct asked *asked)
{
    const struct range_config *range = &asked->range;
    bool has_files = asked->config.trace != NULL || asked->config.history != NULL || asked->config.until > 0;
    bool is_for_exhaust = asked->exhaust.only != NULL || asked->exhaust.every != 0;
    if (asked->is_exhaust) {
        if (range->jobs > EXHAUST_JOBS_MAX) { return "fewer --jobs with --exhaust"; }
        return range->keeps_going || range->is_json ? "--keep-going and --json are not for --exhaust" : NULL;
    }
    if (range->is_range == range->has_seed) { return "one of --seed, --seeds, --exhaust and --judge is wanted"; }
    if (range->is_range && has_files) { return "--trace, --history and --until are for one --seed"; }
    struct run_config one = asked->config;
    one.seed = range->first;
    if (one.until > 0 && run_is_log(&one)) {
        return "this seed runs logs alone, which --until does not print: add --broker";
    }
    return is_for_exhaust ? "--only and --every are for --exhaust" : NULL;
}

static int run_asked(struct asked *asked)
{
    const struct range_config *range = &asked->range;
    const struct run_config *config = &asked->config;
    if (!asked->is_exhaust) { return range->is_range ? range_run(range, config) : range_run_one(range, config); }
    bool has_seeds = range->is_range || range->has_seed;
    asked->exhaust.first = has_seeds ? range->first : 1;
    asked->exhaust.last = has_seeds ? range->last : 1;
    asked->exhaust.jobs = range->jobs;
    if (asked->exhaust.every == 0) { asked->exhaust.every = 1; }
    return exhaust_run(&asked->exhaust, config);
}

int main(int argc, char **argv)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a failure is seen when it happens */
    if (argc >= 3 && strcmp(argv[1], "--judge") == 0) { return judge_files(argv + 2, argc - 2); }
    if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(usage, stdout); /* for people */
        return 0;
    }
    struct asked asked = {.range = {.jobs = 1}};
    if (!read_options(&asked, argc, argv)) { return 2; }
    const char *wrong = misfit(&asked);
    if (wrong != NULL) {
        (void)fprintf(stderr, "error: %s\n%s", wrong, usage); /* the exit code says it too */
        return 2;
    }
    int code = run_asked(&asked);
    bool is_written = close_file(asked.config.trace);
    is_written = close_file(asked.config.history) && is_written;
    return is_written ? code : 1;
}
