/* group_args.c: the command line of weir group.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__group.h"

#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: weir group list\n"
    "       weir group describe GROUP\n"
    "       weir group delete GROUP...\n"
    "       weir group reset GROUP --topic TOPIC[:PARTITION]... TO [--execute]\n"
    "\n"
    "  --bootstrap HOST:PORT   a broker of the cluster (127.0.0.1:9092)\n"
    "  --json                  one JSON object a line\n"
    "\n"
    "describe: state and members, and of each partition what is committed, where its log starts and ends, and how "
    "many\n"
    "records lie between what is committed (the log's start where that is later) and the end.\n"
    "\n"
    "reset: changes what is committed, of a group without members. Prints what it would do; --execute does it. TO is "
    "one of\n"
    "\n"
    "  --to-earliest           the start of the log\n"
    "  --to-latest             its end\n"
    "  --to-offset N           N, or the start or end when N lies outside the log\n"
    "  --to-datetime TIME      the first record at or after it: MILLIS since 1970, or 2026-11-29T13:18:00Z; else the "
    "end\n"
    "  --shift-by N            N records on, or back when N is negative; never out of the log\n";

/* TOPIC or TOPIC:P; no topic has a colon in its name. */
static bool take_topic(struct group_command *own, const char *words)
{
    struct group_wanted *wanted = &own->wanted[own->wanted_count];
    const char *colon = strchr(words, ':');
    size_t name_bytes = colon == NULL ? strlen(words) : (size_t)(colon - words);
    if (name_bytes == 0 || name_bytes > CLIENT_TOPIC_NAME_MAX || own->wanted_count == GROUP_WANTED_MAX) {
        (void)app_usage("group", "--topic is '%s': should be TOPIC or TOPIC:PARTITION", words); /* the caller has it */
        return false;
    }
    int64_t partition = -1;
    if (colon != NULL && !app_number("group", "--topic's partition", colon + 1, 0, INT32_MAX, &partition)) {
        return false;
    }
    wanted->partition = (int32_t)partition;
    wanted->topic = strndup(words, name_bytes);
    own->wanted_count += 1;
    return wanted->topic != NULL;
}

static bool take_to(struct group_command *own, enum group_to to)
{
    if (own->to != GROUP_TO_NOTHING) {
        (void)app_usage("group", "reset goes to one place: --to-... or --shift-by is given twice"); /* as above */
        return false;
    }
    own->to = to;
    return true;
}

/* False: it is none of them. */
static bool take_reset(struct app_args *args, struct group_command *own, bool *is_good_out)
{
    const char *value = NULL;
    if (own->word != GROUP_RESET) { return false; }
    if (app_take_option(args, "--topic", &value)) {
        *is_good_out = take_topic(own, value);
    } else if (app_take_flag(args, "--to-earliest")) {
        *is_good_out = take_to(own, GROUP_TO_EARLIEST);
    } else if (app_take_flag(args, "--to-latest")) {
        *is_good_out = take_to(own, GROUP_TO_LATEST);
    } else if (app_take_option(args, "--to-offset", &value)) {
        *is_good_out =
            take_to(own, GROUP_TO_OFFSET) && app_number("group", "--to-offset", value, 0, INT64_MAX, &own->to_value);
    } else if (app_take_option(args, "--shift-by", &value)) {
        *is_good_out = take_to(own, GROUP_TO_SHIFTED) &&
                       app_number("group", "--shift-by", value, -INT64_MAX, INT64_MAX, &own->to_value);
    } else if (app_take_option(args, "--to-datetime", &value)) {
        *is_good_out = take_to(own, GROUP_TO_DATETIME);
        if (*is_good_out && !app_read_time(value, &own->to_value)) {
            (void)app_usage("group", "--to-datetime is '%s': should be MILLIS or an ISO time", value); /* as above */
            *is_good_out = false;
        }
    } else if (app_take_flag(args, "--execute")) {
        own->is_execute = true;
    } else {
        return false;
    }
    return true;
}

static int read_arguments(struct app_args *args, struct group_command *own)
{
    const char *value = NULL;
    bool is_good = true;
    while (args->at < args->argc && !args->is_bad && is_good) {
        if (app_take_common(args, &own->command) || take_reset(args, own, &is_good)) { continue; }
        if (own->name_count < GROUP_NAMES_MAX && app_take_word(args, &value)) {
            own->names[own->name_count] = value;
            own->name_count += 1;
        } else {
            app_refuse(args);
        }
    }
    return args->is_bad || !is_good ? APP_USAGE : APP_DONE;
}

static int check_arguments(const struct group_command *own)
{
    if (own->word == GROUP_LIST && own->name_count > 0) { return app_usage("group", "list takes no name"); }
    if (own->word == GROUP_DELETE && own->name_count == 0) { return app_usage("group", "delete takes names"); }
    if (own->word == GROUP_DESCRIBE && own->name_count != 1) { return app_usage("group", "describe takes one name"); }
    if (own->word == GROUP_RESET) {
        if (own->name_count != 1) { return app_usage("group", "reset takes one name"); }
        if (own->wanted_count == 0) { return app_usage("group", "reset takes --topic"); }
        if (own->to == GROUP_TO_NOTHING) { return app_usage("group", "reset to what? --to-... or --shift-by"); }
    }
    for (uint32_t i = 0; i < own->name_count; i++) {
        if (own->names[i][0] == '\0') { return app_usage("group", "a group's name is not empty"); }
        if (strlen(own->names[i]) > INT16_MAX) { return app_usage("group", "a group's name is too long"); }
    }
    return APP_DONE;
}

static int compare_wanted(const void *a, const void *b)
{
    const struct group_wanted *left = a;
    const struct group_wanted *right = b;
    return strcmp(left->topic, right->topic);
}

int app_group(struct app_args *args)
{
    static const char *const words[] = {"list", "describe", "delete", "reset"};
    if (app_is_help(args->argc, args->argv)) {
        printf("%s", usage);
        return APP_DONE;
    }
    struct group_command *own = app_keep(sizeof *own);
    if (own == NULL) { return app_error(NULL, "no memory"); }
    const char *word = "";
    if (!app_take_word(args, &word)) { return app_usage("group", "list, describe, delete or reset?"); }
    for (size_t i = 0; i < BASE_ARRAY_COUNT(words); i++) {
        if (strcmp(words[i], word) == 0) { own->word = (enum group_word)(i + 1); }
    }
    if (own->word == 0) { return app_usage("group", "there is no 'group %s'", word); }
    own->leader_asked = -1;
    app_command_init(&own->command, "group", &group_parts, own);
    own->command.config.nodes_max = 256; /* each broker that coordinates groups or leads a partition */
    int code = read_arguments(args, own);
    if (code == APP_DONE) { code = check_arguments(own); }
    if (code != APP_DONE) { return code; }
    qsort(own->wanted, own->wanted_count, sizeof own->wanted[0], compare_wanted);
    return app_command_run(&own->command);
}
