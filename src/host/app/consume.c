/* consume.c: weir consume: prints the records of a topic.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__command.h"

#include "wire/kafka/kafka.h"

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
    "  --json                  one object a line: topic, partition, offset, timestamp, key, headers, value; what is "
    "no\n"
    "                          UTF-8 is in a field NAME_base64\n";

struct consume {
    struct app_command command;
    const char *topic;
    enum client_start start;
    int64_t at;
    int64_t partition;
    int64_t count_max; /* -1: no limit */
    int64_t count;
    bool is_exit;
    bool is_assigned;
    int32_t partitions;
    int32_t at_end;
    bool *is_at_end; /* by partition */
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

static void on_result(struct app_command *command, const struct client_result *result)
{
    struct consume *own = command->own;
    if (result->kind == CLIENT_FAILED) {
        if (result->error == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION) {
            app_finish(command, app_error("UNKNOWN_TOPIC_OR_PARTITION", "topic '%s' or its partition %d does not exist",
                                          own->topic, (int)result->partition));
        } else if (result->rc == PORT_NO_MEMORY) {
            app_finish(command, app_error(NULL, "topic '%s' partition %d offset %lld: no memory to open a batch",
                                          own->topic, (int)result->partition, (long long)result->offset));
        } else {
            app_finish(command, app_error(kafka_error_name(result->error), "topic '%s' partition %d offset %lld",
                                          own->topic, (int)result->partition, (long long)result->offset));
        }
    }
    if (result->kind == CLIENT_AT_END && !own->is_at_end[result->partition]) {
        own->is_at_end[result->partition] = true;
        own->at_end += 1;
        if (own->is_exit && own->at_end == own->partitions) { app_finish(command, APP_DONE); }
    }
    if (result->kind != CLIENT_RECORD) { return; }
    if (command->is_json) {
        print_json(result);
    } else {
        print_plain(result);
    }
    own->count += 1;
    if (ferror(stdout)) {
        app_finish(command, APP_FAILED); /* whoever read our output has gone */
    } else if (own->count == own->count_max) {
        app_finish(command, APP_DONE);
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
    if (fflush(stdout) != 0) { app_finish(command, APP_FAILED); } /* whoever read our output has gone */
    if (own->is_assigned || command->is_finished) { return; }
    client_topic_view(command->client, base_slice_text(own->topic), &view);
    if (view.state == CLIENT_TOPIC_UNKNOWN) { return; }
    if (view.state == CLIENT_TOPIC_FAILED) {
        const char *words = view.error == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION ? "does not exist" : "can't be read";
        app_finish(command, app_error(kafka_error_name(view.error), "topic '%s' %s", own->topic, words));
        return;
    }
    if (own->partition >= view.partition_count) {
        app_finish(command, app_error("UNKNOWN_TOPIC_OR_PARTITION", "topic '%s' has %d partitions", own->topic,
                                      (int)view.partition_count));
        return;
    }
    own->is_assigned = true;
    own->is_at_end = app_keep((size_t)view.partition_count * sizeof(bool));
    if (own->is_at_end == NULL) {
        app_finish(command, app_error(NULL, "no memory"));
        return;
    }
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
}

static const struct app_command_parts parts = {.begin = begin, .result = on_result, .after = after};

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
    if (own->is_exit) { own->command.config.fetch_wait_ms = 50; }
    return app_command_run(&own->command);
}
