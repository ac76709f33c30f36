/* consume.c: weir consume: prints the records of a topic.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__command.h"

#include "wire/kafka/kafka.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: weir consume TOPIC [OPTION]...\n"
    "\n"
    "Prints the value of each record and a line feed.\n"
    "\n"
    "  --bootstrap HOST:PORT   a broker of the cluster (127.0.0.1:9092)\n"
    "  --from WHERE            beginning (default), end, an offset, @MILLIS since 1970, or @2026-11-29T13:18:00Z\n"
    "  -n N                    stop after N records\n"
    "  --exit                  stop at the end of every partition\n"
    "  --partition P           only this partition\n"
    "  --group G               as a member of the group G: its members share the partitions, begin where G has\n"
    "                          committed (--from: where it has not), and commit what they have printed, once a second\n"
    "                          and at the end; what is assigned, revoked and lost is said on standard error\n"
    "  --assignor A            how the members of G divide: range (default) or cooperative-sticky; all must have it\n"
    "  --instance I            a static member, whose partitions wait for its return until its session has ended\n"
    "  --json                  one object a line: topic, partition, offset, timestamp, key, headers, value; what is "
    "no\n"
    "                          UTF-8 is in a field NAME_base64\n";

#define SESSION_MS       10000 /* a member that was killed is missed after this */
#define REBALANCE_MS     60000
#define COMMIT_MS        1000
#define READ_PATIENCE_MS 5000 /* with --exit: an end that can't be reached is an error */
#define METADATA_AGE_MS  5000 /* partitions that were added are found after this, at most */
/* A member that got nothing has had two beats: what others had to give up for it would have come with the next generation. */
#define NOTHING_NS       UINT64_C(6000000000)

struct consume {
    struct app_command command;
    const char *topic;
    const char *group; /* NULL: none */
    const char *instance;
    const char *telling; /* the line about partitions that is being written; NULL: none */
    enum client_strategy strategy;
    bool has_group_option;
    bool is_leaving;
    enum client_start start;
    int64_t at;
    int64_t partition;
    int64_t count_max; /* -1: no limit */
    int64_t count;
    bool is_exit;
    bool is_assigned;
    int32_t empty_generation; /* of the group, in which nothing is ours; -1: none */
    uint64_t empty_until_ns;  /* this may change until then */
    int32_t partitions;
    int32_t at_end;
    bool *is_at_end; /* by partition */
    int32_t flags_max;
};

static void print_json(const struct client_result *result)
{
    const struct rec_record *record = &result->record;
    struct base_slice headers = record->headers;
    struct rec_header header;
    printf("{\"topic\":");
    app_json_text(stdout, result->topic);
    printf(",\"partition\":%d,\"offset\":%lld,\"timestamp\":%lld,", (int)result->partition, (long long)record->offset,
           (long long)record->timestamp_ms);
    app_json_value(stdout, "key", record->key);
    printf(",\"headers\":[");
    for (bool is_first = true; rec_header_next(&headers, &header); is_first = false) {
        printf(is_first ? "{" : ",{");
        app_json_value(stdout, "key", rec_value_of(header.key));
        printf(",");
        app_json_value(stdout, "value", header.value);
        printf("}");
    }
    printf("],");
    app_json_value(stdout, "value", record->value);
    printf("}\n");
}

static void print_plain(const struct client_result *result)
{
    struct base_slice value = result->record.value.bytes;
    if (value.size_bytes > 0) {
        (void)fwrite(value.at, 1, value.size_bytes, stdout);
    } /* the stream's error is asked for below */
    (void)fputc('\n', stdout);
}

/* Not by leaving the group, which would commit what was not printed. */
static void output_failed(struct app_command *command, int error)
{
    bool is_reader_gone = error == EPIPE; /* it has what it wanted */
    app_finish(command,
               is_reader_gone ? APP_FAILED : app_error(NULL, "standard output can't be written: %s", strerror(error)));
}

/* Everything that was wanted was done. What was printed is flushed at the end of the step, before it is committed. */
static void finish(struct app_command *command, int code)
{
    struct consume *own = command->own;
    if (own->group == NULL) {
        app_finish(command, code);
        return;
    }
    if (command->code == APP_DONE) { command->code = code; }
    own->is_leaving = true;
    client_leave(command->client);
}

static void on_failed(struct app_command *command, const struct client_result *result)
{
    const struct consume *own = command->own;
    int code = APP_FAILED;
    if (result->error == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION) {
        code = app_error("UNKNOWN_TOPIC_OR_PARTITION", "topic '%s' or its partition %d does not exist", own->topic,
                         (int)result->partition);
    } else if (result->rc == PORT_NO_MEMORY) {
        code = app_error(NULL, "topic '%s' partition %d offset %lld: no memory to open a batch", own->topic,
                         (int)result->partition, (long long)result->offset);
    } else {
        code = app_error(kafka_error_name(result->error), "topic '%s' partition %d offset %lld", own->topic,
                         (int)result->partition, (long long)result->offset);
    }
    finish(command, code);
}

static bool *end_flag(struct app_command *command, int32_t partition)
{
    struct consume *own = command->own;
    if (partition >= own->flags_max) {
        int32_t more = partition + 1024;
        bool *flags = app_keep((size_t)more * sizeof(bool)); /* the old ones stay kept: it happens seldom */
        if (flags == NULL) {
            app_finish(command, app_error(NULL, "no memory"));
            return NULL;
        }
        if (own->flags_max > 0) { memcpy(flags, own->is_at_end, (size_t)own->flags_max * sizeof(bool)); }
        own->is_at_end = flags;
        own->flags_max = more;
    }
    return &own->is_at_end[partition];
}

/* Cooperative members are given first what nobody has, and what others must give up a generation later. */
static bool may_get_some(struct app_command *command, const struct client_group_view *view)
{
    struct consume *own = command->own;
    if (view->owned > 0 || own->strategy != CLIENT_COOPERATIVE_STICKY) {
        own->empty_generation = -1;
        return false;
    }
    if (own->empty_generation != view->generation) {
        own->empty_generation = view->generation;
        own->empty_until_ns = base_deadline_ns(command->now_ns, NOTHING_NS);
    }
    if (command->now_ns >= own->empty_until_ns) { return false; }
    command->alarm_ns = base_min_u64(command->alarm_ns, own->empty_until_ns);
    return true;
}

/* With --exit: everything that is ours was read. */
static void look_at_ends(struct app_command *command)
{
    struct consume *own = command->own;
    struct client_group_view view = {.owned = (uint32_t)own->partitions, .is_member = own->is_assigned};
    if (own->group != NULL) { client_group_view(command->client, &view); }
    if (!own->is_exit || !view.is_member || own->at_end != (int32_t)view.owned) { return; }
    if (own->group == NULL || !may_get_some(command, &view)) { finish(command, APP_DONE); }
}

/* "group 'g': assigned 0 1 2" */
static void tell(struct consume *own, const char *what, int32_t partition)
{
    if (own->telling != NULL && own->telling != what) { fprintf(stderr, "\n"); }
    if (own->telling != what) { fprintf(stderr, "group '%s': %s", own->group, what); }
    own->telling = what;
    if (partition >= 0) { fprintf(stderr, " %d", (int)partition); }
}

static void end_telling(struct consume *own)
{
    if (own->telling != NULL) { fprintf(stderr, "\n"); }
    own->telling = NULL;
}

static void on_group(struct app_command *command, const struct client_result *result)
{
    struct consume *own = command->own;
    bool *flag = result->partition < 0 ? NULL : end_flag(command, result->partition);
    switch (result->kind) {
    case CLIENT_REVOKED:
        if (flag != NULL && *flag) { own->at_end -= 1; }
        if (flag != NULL) { *flag = false; }
        tell(own, result->outcome == CLIENT_UNKNOWN ? "lost" : "revoked", result->partition);
        return;
    case CLIENT_COMMITTED:
        if (result->error != KAFKA_ERROR_NONE) {
            end_telling(own);
            (void)app_error(kafka_error_name(result->error), "group '%s': offset %lld of partition %d is not committed",
                            own->group, (long long)result->offset, (int)result->partition); /* a warning: we go on */
        }
        return;
    case CLIENT_GROUP_FAILED:
        end_telling(own);
        app_finish(command, app_error(result->rc == PORT_OK ? kafka_error_name(result->error) : NULL, "group '%s'%s",
                                      own->group, result->rc == PORT_OK ? "" : ": no memory for all its partitions"));
        return;
    case CLIENT_LEFT:
        end_telling(own);
        app_finish(command, command->code);
        return;
    case CLIENT_ASSIGNED: tell(own, "assigned", result->partition); return;
    case CLIENT_RESUMED:
    case CLIENT_PRODUCED:
    case CLIENT_RECORD:
    case CLIENT_AT_END:
    case CLIENT_FAILED:
    case CLIENT_ANSWER: return;
    }
}

static void on_result(struct app_command *command, const struct client_result *result)
{
    struct consume *own = command->own;
    if (result->kind > CLIENT_ANSWER) { on_group(command, result); }
    if (result->kind == CLIENT_FAILED) { on_failed(command, result); }
    if (result->kind == CLIENT_AT_END) {
        bool *flag = end_flag(command, result->partition);
        if (flag == NULL) { return; }
        if (!*flag) { own->at_end += 1; }
        *flag = true;
        look_at_ends(command);
    }
    if (result->kind != CLIENT_RECORD) { return; }
    if (command->is_json) {
        print_json(result);
    } else {
        print_plain(result);
    }
    own->count += 1;
    if (ferror(stdout)) {
        output_failed(command, errno);
    } else if (own->count == own->count_max) {
        finish(command, APP_DONE);
    }
}

static void assign(struct app_command *command, int32_t partition)
{
    struct consume *own = command->own;
    struct client_assignment assignment = {.token = (uint64_t)partition,
                                           .topic = base_slice_text(own->topic),
                                           .partition = partition,
                                           .start = own->start,
                                           .at = own->at,
                                           .reset = CLIENT_RESET_FAIL};
    if (client_assign(command->client, &assignment) != BASE_OK) {
        app_finish(command, app_error(NULL, "topic '%s' has too many partitions", own->topic));
    }
}

/* Every partition, once it is known how many there are. */
static void after(struct app_command *command)
{
    struct consume *own = command->own;
    struct client_topic_view view;
    if (fflush(stdout) != 0) { output_failed(command, errno); }
    end_telling(own);
    if (own->is_assigned || command->is_finished || own->is_leaving) { return; }
    client_topic_view(command->client, base_slice_text(own->topic), &view);
    if (view.state == CLIENT_TOPIC_UNKNOWN) { return; }
    if (view.state == CLIENT_TOPIC_FAILED) {
        const char *words = view.error == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION ? "does not exist" : "can't be read";
        app_finish(command, app_error(kafka_error_name(view.error), "topic '%s' %s", own->topic, words));
        return;
    }
    if (own->group != NULL) {
        look_at_ends(command); /* none may be ours */
        return;
    }
    if (own->partition >= view.partition_count) {
        app_finish(command, app_error("UNKNOWN_TOPIC_OR_PARTITION", "topic '%s' has %d partitions", own->topic,
                                      (int)view.partition_count));
        return;
    }
    own->is_assigned = true;
    own->partitions = own->partition >= 0 ? 1 : view.partition_count;
    for (int32_t i = 0; i < view.partition_count; i++) {
        if (own->partition < 0 || own->partition == i) { assign(command, i); }
    }
}

static void begin(struct app_command *command)
{
    struct consume *own = command->own;
    enum base_rc rc = client_want_topic(command->client, base_slice_text(own->topic));
    CHECK(rc == BASE_OK); /* the name was checked, and it is the only one */
    if (own->count_max == 0) { app_finish(command, APP_DONE); }
    if (own->group == NULL) { return; }
    struct client_group group;
    client_group_default(&group);
    group.group_id = base_slice_text(own->group);
    if (own->instance != NULL) { group.instance_id = base_slice_text(own->instance); }
    group.strategy = own->strategy;
    group.topics[0] = base_slice_text(own->topic);
    group.topic_count = 1;
    group.start = own->start;
    group.at = own->at;
    group.reset = own->start == CLIENT_FROM_END ? CLIENT_RESET_END : CLIENT_RESET_BEGINNING;
    group.session_timeout_ms = SESSION_MS;
    group.rebalance_timeout_ms = REBALANCE_MS;
    group.auto_commit_ms = COMMIT_MS;
    rc = client_join(command->client, &group);
    CHECK(rc == BASE_OK); /* the names were checked, and there is room for one topic */
}

static void stop(struct app_command *command) { finish(command, APP_DONE); }

static const struct app_command_parts parts = {.begin = begin, .result = on_result, .after = after, .stop = stop};

/* ---- arguments ---- */

static bool take_from(struct consume *own, const char *words)
{
    bool is_good = true;
    if (strcmp(words, "beginning") == 0) {
        own->start = CLIENT_FROM_BEGINNING;
    } else if (strcmp(words, "end") == 0) {
        own->start = CLIENT_FROM_END;
    } else if (words[0] == '@') {
        own->start = CLIENT_FROM_TIME;
        is_good = app_read_time(words + 1, &own->at);
    } else {
        own->start = CLIENT_FROM_OFFSET;
        is_good = base_text_parse_i64(base_slice_text(words), &own->at) == BASE_OK && own->at >= 0;
    }
    if (is_good) { return true; }
    (void)app_usage("consume", "--from is '%s': should be beginning, end, an offset, @MILLIS or @ISO",
                    words); /* as above */
    return false;
}

static bool take_assignor(struct consume *own, const char *words)
{
    if (strcmp(words, "range") == 0) {
        own->strategy = CLIENT_RANGE;
    } else if (strcmp(words, "cooperative-sticky") == 0) {
        own->strategy = CLIENT_COOPERATIVE_STICKY;
    } else {
        (void)app_usage("consume", "--assignor is '%s': should be range or cooperative-sticky", words); /* as above */
        return false;
    }
    own->has_group_option = true;
    return true;
}

static int read_arguments(struct app_args *args, struct consume *own)
{
    const char *value = NULL;
    bool is_good = true;
    while (args->at < args->argc && !args->is_bad && is_good) {
        if (app_take_common(args, &own->command)) { continue; }
        if (app_take_option(args, "--from", &value)) {
            is_good = take_from(own, value);
        } else if (app_take_option(args, "-n", &value)) {
            is_good = app_number("consume", "-n", value, 0, INT64_MAX, &own->count_max);
        } else if (app_take_option(args, "--partition", &value)) {
            is_good = app_number("consume", "--partition", value, 0, INT32_MAX, &own->partition);
        } else if (app_take_option(args, "--group", &value)) {
            own->group = value;
        } else if (app_take_option(args, "--instance", &value)) {
            own->instance = value;
        } else if (app_take_option(args, "--assignor", &value)) {
            is_good = take_assignor(own, value);
        } else if (app_take_flag(args, "--exit")) {
            own->is_exit = true;
        } else if (own->topic == NULL && app_take_word(args, &value)) {
            own->topic = value;
        } else {
            app_refuse(args);
        }
    }
    return args->is_bad || !is_good ? APP_USAGE : APP_DONE;
}

static int check_group(const struct consume *own)
{
    if (own->group != NULL && (own->group[0] == '\0' || strlen(own->group) > CLIENT_GROUP_NAME_MAX)) {
        return app_usage("consume", "the group's name is empty or too long");
    }
    if (own->instance != NULL && (own->instance[0] == '\0' || strlen(own->instance) > CLIENT_GROUP_NAME_MAX)) {
        return app_usage("consume", "the instance's name is empty or too long");
    }
    if (own->group == NULL && (own->instance != NULL || own->has_group_option)) {
        return app_usage("consume", "--instance and --assignor are for members of a --group");
    }
    if (own->group != NULL && own->partition >= 0) {
        return app_usage("consume", "--partition and --group: the group says which partitions are read");
    }
    return APP_DONE;
}

int app_consume(struct app_args *args)
{
    if (app_is_help(args->argc, args->argv)) {
        printf("%s", usage);
        return APP_DONE;
    }
    struct consume *own = app_keep(sizeof *own);
    if (own == NULL) { return app_error(NULL, "no memory"); }
    own->start = CLIENT_FROM_BEGINNING;
    own->partition = -1;
    own->count_max = -1;
    own->empty_generation = -1;
    app_command_init(&own->command, "consume", &parts, own);
    own->command.config.partitions_max = 65536;
    own->command.config.topic_missing_ms = 1000;
    own->command.config.frame_bytes_max = 256U << 20;
    int code = read_arguments(args, own);
    if (code != APP_DONE) { return code; }
    if (own->topic == NULL) { return app_usage("consume", "which topic?"); }
    if (own->topic[0] == '\0' || strlen(own->topic) > CLIENT_TOPIC_NAME_MAX) {
        return app_usage("consume", "the topic's name is empty or too long");
    }
    code = check_group(own);
    if (code != APP_DONE) { return code; }
    if (own->group != NULL) { own->command.config.metadata_max_age_ms = METADATA_AGE_MS; }
    if (own->is_exit) {
        own->command.config.fetch_wait_ms = 50;
        own->command.config.read_patience_ms = READ_PATIENCE_MS;
    }
    return app_command_run(&own->command);
}
