/* app.c: chooses the command; see app.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <string.h>

static const char usage[] =
    "usage: weir COMMAND [OPTION]...\n"
    "\n"
    "  serve                  run a broker\n"
    "  topic create NAME      make a topic; also: topic list, topic describe [NAME], topic delete NAME...\n"
    "  produce TOPIC          send each line of standard input as a record\n"
    "  consume TOPIC          print the records of a topic\n"
    "  group list             name the consumer groups; also: group describe GROUP, group delete GROUP..., group reset "
    "GROUP\n"
    "  log verify             look for damage in a data directory that no broker uses\n"
    "  bench produce          measure a broker; also: bench fetch, bench e2e, bench replay\n"
    "  version                print the version\n"
    "\n"
    "weir COMMAND --help says more. Commands but serve and log work against any Kafka broker:\n"
    "--bootstrap HOST:PORT (127.0.0.1:9092).\n"
    "\n"
    "Exit codes: 0 done, 1 failure, 2 usage or configuration, 134 after a failed check of the program itself.\n";

static int version(struct app_args *args, const char *words)
{
    bool is_json = false;
    while (args->at < args->argc && !args->is_bad) {
        if (app_take_flag(args, "--json")) {
            is_json = true;
        } else if (app_is_help(args->argc, args->argv)) {
            printf("usage: weir version [--json]\n");
            return APP_DONE;
        } else {
            app_refuse(args);
        }
    }
    if (args->is_bad) { return APP_USAGE; }
    printf(is_json ? "{\"version\":\"%s\"}\n" : "weir %s\n", words);
    return APP_DONE;
}

static int run(struct app_args *args, const char *command, const char *words)
{
    if (strcmp(command, "serve") == 0) { return app_serve(args); }
    if (strcmp(command, "topic") == 0) { return app_topic(args); }
    if (strcmp(command, "produce") == 0) { return app_produce(args); }
    if (strcmp(command, "consume") == 0) { return app_consume(args); }
    if (strcmp(command, "group") == 0) { return app_group(args); }
    if (strcmp(command, "bench") == 0) { return app_bench(args); }
    if (strcmp(command, "log") == 0) { return app_log(args); }
    if (strcmp(command, "version") == 0 || strcmp(command, "--version") == 0) { return version(args, words); }
    if (strcmp(command, "help") == 0 || strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
        printf("%s", usage);
        return APP_DONE;
    }
    return app_usage("", "there is no command '%s'", command);
}

int app_main(int argc, char **argv, const char *words)
{
    struct app_args args = {.version = words, .argc = argc, .argv = argv, .at = 2};
    if (argc < 2) {
        fprintf(stderr, "%s", usage);
        return APP_USAGE;
    }
    int code = run(&args, argv[1], words);
    if (fflush(stdout) != 0 && code == APP_DONE) { code = app_error(NULL, "standard output can't be written"); }
    return code;
}
