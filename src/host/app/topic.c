/* topic.c: weir topic create, list, describe, delete.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__command.h"

#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/describe_configs.h"
#include "wire/kafka/metadata.h"

#include <stdlib.h>
#include <string.h>

#define TOPICS_MAX      1000 /* on one command line */
#define CONFIGS_MAX     64
#define RESOURCE_TOPIC  2 /* Kafka's ConfigResource.Type */
#define SOURCE_OF_TOPIC 1 /* Kafka's ConfigSource: the topic's own */

static const char usage[] = "usage: weir topic create NAME [--partitions N] [--replication-factor N] [--config "
                            "NAME=VALUE]... [--if-not-exists]\n"
                            "       weir topic list\n"
                            "       weir topic describe [NAME]\n"
                            "       weir topic delete NAME...\n"
                            "\n"
                            "  --bootstrap HOST:PORT   a broker of the cluster (127.0.0.1:9092)\n"
                            "  --json                  one JSON object a line\n"
                            "  --partitions N          default: the broker's num.partitions\n"
                            "  --config NAME=VALUE     one topic config\n"
                            "  --if-not-exists         no error when the topic exists\n";

struct described {
    char *name;
    char *head;
    char *tail;
};
enum word { WORD_CREATE = 1, WORD_LIST, WORD_DESCRIBE, WORD_DELETE };
struct topic_command {
    struct app_command command;
    enum word word;
    const char *names[TOPICS_MAX];
    uint32_t name_count;
    int64_t partitions;
    int64_t replicas;
    char *configs[CONFIGS_MAX]; /* NAME=VALUE, cut at the '=' */
    const char *values[CONFIGS_MAX];
    uint32_t config_count;
    bool is_if_not_exists;
    struct described *described; /* printed when the configs are there */
    uint32_t described_count;
};

static void call(struct app_command *command, int16_t api_key, enum client_target target, const void *request)
{
    struct client_call wanted = {
        .token = 1, .api_key = api_key, .target = target, .request = request, .timeout_ms = APP_CALL_TIMEOUT_MS};
    if (client_call(command->client, &wanted) != BASE_OK) {
        app_finish(command, app_error("INVALID_REQUEST", "the request can't be sent: a name or value is too long"));
    }
}

/* ---- create ---- */

static void begin_create(struct app_command *command)
{
    struct topic_command *own = command->own;
    struct kafka_create_topics_request request;
    struct kafka_create_topics_request_creatable_topic topic;
    struct kafka_create_topics_request_creatable_topic_config configs[CONFIGS_MAX];
    kafka_create_topics_request_init(&request);
    kafka_create_topics_request_creatable_topic_init(&topic);
    topic.name = kafka_text_words(own->names[0]);
    topic.num_partitions = (int32_t)own->partitions;
    topic.replication_factor = (int16_t)own->replicas;
    for (uint32_t i = 0; i < own->config_count; i++) {
        kafka_create_topics_request_creatable_topic_config_init(&configs[i]);
        configs[i].name = kafka_text_words(own->configs[i]);
        configs[i].value = kafka_text_words(own->values[i]);
    }
    topic.configs = configs;
    topic.configs_count = (int32_t)own->config_count;
    request.topics = &topic;
    request.topics_count = 1;
    request.timeout_ms = APP_CALL_TIMEOUT_MS;
    call(command, KAFKA_API_CREATE_TOPICS, CLIENT_TO_CONTROLLER, &request);
}

static void on_created(struct app_command *command, const struct kafka_create_topics_response *answer)
{
    const struct topic_command *own = command->own;
    const char *name = own->names[0];
    if (answer->topics_count != 1) {
        app_finish(command, app_error("UNKNOWN_SERVER_ERROR", "topic '%s': the broker gave no answer about it", name));
        return;
    }
    const struct kafka_create_topics_response_creatable_topic_result *result = &answer->topics[0];
    bool was_there = result->error_code == KAFKA_ERROR_TOPIC_ALREADY_EXISTS;
    if (was_there && !own->is_if_not_exists) {
        app_finish(command, app_error("TOPIC_ALREADY_EXISTS", "topic '%s' exists; use --if-not-exists", name));
        return;
    }
    if (!was_there && result->error_code != KAFKA_ERROR_NONE) {
        app_finish(command,
                   app_kafka_error(result->error_code, kafka_text_slice(result->error_message), "topic '%s'", name));
        return;
    }
    if (command->is_json) {
        printf("{\"topic\":");
        app_json_text(stdout, base_slice_text(name));
        printf(",\"created\":%s", was_there ? "false" : "true");
        if (!was_there && result->num_partitions > 0) { printf(",\"partitions\":%d", (int)result->num_partitions); }
        printf("}\n");
    } else {
        printf(was_there ? "topic '%s' exists\n" : "created topic '%s'\n", name);
    }
    app_finish(command, APP_DONE);
}

/* ---- delete ---- */

static void begin_delete(struct app_command *command)
{
    const struct topic_command *own = command->own;
    struct kafka_delete_topics_request request;
    struct kafka_delete_topics_request_delete_topic_state *topics = calloc(own->name_count, sizeof *topics);
    if (topics == NULL) {
        app_finish(command, app_error(NULL, "no memory"));
        return;
    }
    kafka_delete_topics_request_init(&request);
    for (uint32_t i = 0; i < own->name_count; i++) {
        kafka_delete_topics_request_delete_topic_state_init(&topics[i]);
        topics[i].name = kafka_text_words(own->names[i]);
    }
    request.topics = topics;
    request.topics_count = (int32_t)own->name_count;
    request.timeout_ms = APP_CALL_TIMEOUT_MS;
    call(command, KAFKA_API_DELETE_TOPICS, CLIENT_TO_CONTROLLER, &request);
    free(topics);
}

static void on_deleted(struct app_command *command, const struct kafka_delete_topics_response *answer)
{
    const struct topic_command *own = command->own;
    int code = APP_DONE;
    if (answer->responses_count != (int32_t)own->name_count) {
        code = app_error("UNKNOWN_SERVER_ERROR", "the broker's answer is not about the topics that were named");
    }
    for (int32_t i = 0; i < answer->responses_count; i++) {
        const struct kafka_delete_topics_response_deletable_topic_result *result = &answer->responses[i];
        struct base_slice name = kafka_text_slice(result->name);
        if (result->error_code == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION) {
            code = app_error("UNKNOWN_TOPIC_OR_PARTITION", "topic '%.*s' does not exist", (int)name.size_bytes,
                             (const char *)name.at);
        } else if (result->error_code != KAFKA_ERROR_NONE) {
            code = app_kafka_error(result->error_code, kafka_text_slice(result->error_message), "topic '%.*s'",
                                   (int)name.size_bytes, (const char *)name.at);
        } else if (command->is_json) {
            printf("{\"topic\":");
            app_json_text(stdout, name);
            printf(",\"deleted\":true}\n");
        } else {
            printf("deleted topic '%.*s'\n", (int)name.size_bytes, (const char *)name.at);
        }
    }
    app_finish(command, code);
}

/* ---- list and describe ---- */

static void begin_metadata(struct app_command *command)
{
    const struct topic_command *own = command->own;
    struct kafka_metadata_request request;
    struct kafka_metadata_request_metadata_request_topic topic;
    kafka_metadata_request_init(&request);
    request.allow_auto_topic_creation = false;
    request.topics_count = -1; /* null: all */
    if (own->name_count > 0) {
        kafka_metadata_request_metadata_request_topic_init(&topic);
        topic.name = kafka_text_words(own->names[0]);
        request.topics = &topic;
        request.topics_count = 1;
    }
    call(command, KAFKA_API_METADATA, CLIENT_TO_ANY, &request);
}

static int compare_topics(const void *a, const void *b)
{
    const struct kafka_metadata_response_metadata_response_topic *left = a;
    const struct kafka_metadata_response_metadata_response_topic *right = b;
    return base_slice_compare(kafka_text_slice(left->name), kafka_text_slice(right->name));
}

/* In the order of their names. To be freed. */
static struct kafka_metadata_response_metadata_response_topic *sorted(const struct kafka_metadata_response *answer)
{
    size_t count = answer->topics_count < 0 ? 0 : (size_t)answer->topics_count;
    struct kafka_metadata_response_metadata_response_topic *topics = calloc(count + 1, sizeof *topics);
    if (topics == NULL) { return NULL; }
    if (count > 0) {
        memcpy(topics, answer->topics, count * sizeof *topics);
        qsort(topics, count, sizeof *topics, compare_topics);
    }
    return topics;
}

static void print_ids(FILE *file, const int32_t *ids, int32_t count, const char *separator)
{
    for (int32_t i = 0; i < count; i++) { fprintf(file, "%s%d", i == 0 ? "" : separator, (int)ids[i]); }
}

static void print_partition(FILE *file, const struct kafka_metadata_response_metadata_response_partition *part,
                            bool is_json)
{
    fprintf(file,
            is_json ? "{\"partition\":%d,\"leader\":%d,\"epoch\":%d,\"replicas\":["
                    : "  partition=%d leader=%d epoch=%d replicas=",
            (int)part->partition_index, (int)part->leader_id, (int)part->leader_epoch);
    print_ids(file, part->replica_nodes, part->replica_nodes_count, ",");
    fprintf(file, is_json ? "],\"isr\":[" : " isr=");
    print_ids(file, part->isr_nodes, part->isr_nodes_count, ",");
    fprintf(file, is_json ? "]}" : "\n");
}

static int compare_parts(const void *a, const void *b)
{
    const struct kafka_metadata_response_metadata_response_partition *left = a;
    const struct kafka_metadata_response_metadata_response_partition *right = b;
    return left->partition_index < right->partition_index ? -1
                                                          : (left->partition_index > right->partition_index ? 1 : 0);
}

/* What stands before the configs, and after them. */
static bool describe(struct described *out, const struct kafka_metadata_response_metadata_response_topic *topic,
                     bool is_json)
{
    char id[23];
    size_t size_bytes = 0;
    struct base_slice name = kafka_text_slice(topic->name);
    int replicas = topic->partitions_count > 0 ? (int)topic->partitions[0].replica_nodes_count : 0;
    base_uuid_to_text(topic->topic_id, id);
    out->name = strndup((const char *)name.at, name.size_bytes);
    FILE *head = open_memstream(&out->head, &size_bytes);
    FILE *tail = open_memstream(&out->tail, &size_bytes);
    if (out->name == NULL || head == NULL || tail == NULL) { return false; } /* the process ends */
    if (topic->partitions_count > 1) {
        qsort(topic->partitions, (size_t)topic->partitions_count, sizeof *topic->partitions, compare_parts);
    }
    const char *words = base_uuid_is_none(topic->topic_id) ? "-" : id;
    if (is_json) {
        fprintf(head, "{\"topic\":");
        app_json_text(head, name);
        fprintf(head, ",\"id\":\"%s\",\"replication\":%d,\"configs\":{", words, replicas);
        fprintf(tail, "},\"partitions\":[");
    } else {
        fprintf(head, "topic=%s id=%s partitions=%d replication=%d configs=", out->name, words,
                (int)topic->partitions_count, replicas);
        fprintf(tail, "\n");
    }
    for (int32_t i = 0; i < topic->partitions_count; i++) {
        if (is_json && i > 0) { fprintf(tail, ","); }
        print_partition(tail, &topic->partitions[i], is_json);
    }
    if (is_json) { fprintf(tail, "]}\n"); }
    return fclose(head) == 0 && fclose(tail) == 0;
}

static void ask_configs(struct app_command *command)
{
    struct topic_command *own = command->own;
    struct kafka_describe_configs_request request;
    size_t count = own->described_count;
    struct kafka_describe_configs_request_describe_configs_resource *resources = calloc(count, sizeof *resources);
    if (resources == NULL) {
        app_finish(command, app_error(NULL, "no memory"));
        return;
    }
    kafka_describe_configs_request_init(&request);
    for (size_t i = 0; i < count; i++) {
        kafka_describe_configs_request_describe_configs_resource_init(&resources[i]);
        resources[i].resource_type = RESOURCE_TOPIC;
        resources[i].resource_name = kafka_text_words(own->described[i].name);
        resources[i].configuration_keys_count = -1; /* null: all */
    }
    request.resources = resources;
    request.resources_count = (int32_t)count;
    call(command, KAFKA_API_DESCRIBE_CONFIGS, CLIENT_TO_ANY, &request);
    free(resources);
}

static void on_metadata(struct app_command *command, const struct kafka_metadata_response *answer)
{
    struct topic_command *own = command->own;
    struct kafka_metadata_response_metadata_response_topic *topics = sorted(answer);
    own->described = app_keep((answer->topics_count < 1 ? 1 : (size_t)answer->topics_count) * sizeof *own->described);
    if (topics == NULL || own->described == NULL) {
        app_finish(command, app_error(NULL, "no memory"));
        return;
    }
    for (int32_t i = 0; i < answer->topics_count && !command->is_finished; i++) {
        struct base_slice name = kafka_text_slice(topics[i].name);
        if (topics[i].error_code == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION && own->name_count > 0) {
            app_finish(command, app_error("UNKNOWN_TOPIC_OR_PARTITION", "topic '%s' does not exist", own->names[0]));
        } else if (topics[i].error_code != KAFKA_ERROR_NONE && own->name_count > 0) {
            app_finish(command,
                       app_kafka_error(topics[i].error_code, (struct base_slice){0}, "topic '%s'", own->names[0]));
        } else if (own->word == WORD_LIST && command->is_json) {
            printf("{\"topic\":");
            app_json_text(stdout, name);
            printf(",\"partitions\":%d,\"internal\":%s}\n", (int)topics[i].partitions_count,
                   topics[i].is_internal ? "true" : "false");
        } else if (own->word == WORD_LIST) {
            printf("%.*s\n", (int)name.size_bytes, (const char *)name.at);
        } else if (!describe(&own->described[own->described_count], &topics[i], command->is_json)) {
            app_finish(command, app_error(NULL, "no memory"));
        } else {
            own->described_count += 1;
        }
    }
    free(topics);
    if (command->is_finished) { return; }
    if (own->described_count == 0) {
        app_finish(command, APP_DONE);
    } else {
        ask_configs(command);
    }
}

static void print_configs(const struct kafka_describe_configs_response_describe_configs_result *result, bool is_json)
{
    int printed = 0;
    for (int32_t i = 0; i < result->configs_count; i++) {
        const struct kafka_describe_configs_response_describe_configs_resource_result *config = &result->configs[i];
        struct base_slice name = kafka_text_slice(config->name);
        struct base_slice value = kafka_text_slice(config->value);
        if (config->config_source != SOURCE_OF_TOPIC) { continue; } /* only what the topic itself sets */
        if (printed > 0) { printf(","); }
        printed += 1;
        if (is_json) {
            app_json_text(stdout, name);
            printf(":");
            app_json_text(stdout, value);
        } else {
            printf("%.*s=%.*s", (int)name.size_bytes, (const char *)name.at, (int)value.size_bytes,
                   (const char *)value.at);
        }
    }
    if (printed == 0 && !is_json) { printf("-"); }
}

static void on_configs(struct app_command *command, const struct kafka_describe_configs_response *answer)
{
    struct topic_command *own = command->own;
    int code = APP_DONE;
    for (uint32_t i = 0; i < own->described_count; i++) {
        const struct kafka_describe_configs_response_describe_configs_result *found = NULL;
        for (int32_t j = 0; j < answer->results_count && found == NULL; j++) {
            if (kafka_text_is(answer->results[j].resource_name, own->described[i].name)) {
                found = &answer->results[j];
            }
        }
        printf("%s", own->described[i].head);
        if (found != NULL && found->error_code == KAFKA_ERROR_NONE) {
            print_configs(found, command->is_json);
        } else if (!command->is_json) {
            printf("?");
        }
        printf("%s", own->described[i].tail);
        if (found != NULL && found->error_code != KAFKA_ERROR_NONE) {
            code = app_kafka_error(found->error_code, kafka_text_slice(found->error_message), "configs of topic '%s'",
                                   own->described[i].name);
        }
    }
    app_finish(command, code);
}

/* ---- the command ---- */

static void begin(struct app_command *command)
{
    const struct topic_command *own = command->own;
    switch (own->word) {
    case WORD_CREATE: begin_create(command); break;
    case WORD_DELETE: begin_delete(command); break;
    case WORD_LIST:
    case WORD_DESCRIBE: begin_metadata(command); break;
    }
}

static void on_result(struct app_command *command, const struct client_result *result)
{
    if (result->kind != CLIENT_ANSWER) { return; }
    if (app_result_failed(command, result, "weir topic")) { return; }
    switch (result->api_key) {
    case KAFKA_API_CREATE_TOPICS: on_created(command, result->answer); break;
    case KAFKA_API_DELETE_TOPICS: on_deleted(command, result->answer); break;
    case KAFKA_API_METADATA: on_metadata(command, result->answer); break;
    case KAFKA_API_DESCRIBE_CONFIGS: on_configs(command, result->answer); break;
    default: break;
    }
}

static const struct app_command_parts parts = {.begin = begin, .result = on_result};

static bool take_config(struct topic_command *own, const char *words)
{
    const char *equals = strchr(words, '=');
    if (equals == NULL || equals == words || own->config_count == CONFIGS_MAX) {
        (void)app_usage("topic", "--config is '%s': should be NAME=VALUE", words); /* the caller has its code */
        return false;
    }
    own->configs[own->config_count] = strndup(words, (size_t)(equals - words));
    own->values[own->config_count] = equals + 1;
    own->config_count += 1;
    return own->configs[own->config_count - 1] != NULL;
}

static int read_arguments(struct app_args *args, struct topic_command *own)
{
    const char *value = NULL;
    bool is_good = true;
    while (args->at < args->argc && !args->is_bad && is_good) {
        if (app_take_common(args, &own->command)) { continue; }
        bool is_create = own->word == WORD_CREATE;
        if (is_create && app_take_option(args, "--partitions", &value)) {
            is_good = app_number("topic", "--partitions", value, 1, INT32_MAX, &own->partitions);
        } else if (is_create && app_take_option(args, "--replication-factor", &value)) {
            is_good = app_number("topic", "--replication-factor", value, 1, INT16_MAX, &own->replicas);
        } else if (is_create && app_take_option(args, "--config", &value)) {
            is_good = take_config(own, value);
        } else if (is_create && app_take_flag(args, "--if-not-exists")) {
            own->is_if_not_exists = true;
        } else if (own->name_count < TOPICS_MAX && app_take_word(args, &value)) {
            own->names[own->name_count] = value;
            own->name_count += 1;
        } else {
            app_refuse(args);
        }
    }
    return args->is_bad || !is_good ? APP_USAGE : APP_DONE;
}

int app_topic(struct app_args *args)
{
    static const char *const words[] = {"create", "list", "describe", "delete"};
    if (app_is_help(args->argc, args->argv)) {
        printf("%s", usage);
        return APP_DONE;
    }
    struct topic_command *own = app_keep(sizeof *own);
    if (own == NULL) { return app_error(NULL, "no memory"); }
    const char *word = "";
    if (!app_take_word(args, &word)) { return app_usage("topic", "create, list, describe or delete?"); }
    for (size_t i = 0; i < BASE_ARRAY_COUNT(words); i++) {
        if (strcmp(words[i], word) == 0) { own->word = (enum word)(i + 1); }
    }
    if (own->word == 0) { return app_usage("topic", "there is no 'topic %s'", word); }
    own->partitions = -1;
    own->replicas = -1;
    app_command_init(&own->command, "topic", &parts, own);
    int code = read_arguments(args, own);
    if (code != APP_DONE) { return code; }
    if (own->word == WORD_CREATE && own->name_count != 1) { return app_usage("topic", "create takes one name"); }
    if (own->word == WORD_DELETE && own->name_count == 0) { return app_usage("topic", "delete takes names"); }
    if (own->word == WORD_LIST && own->name_count > 0) { return app_usage("topic", "list takes no name"); }
    if (own->word == WORD_DESCRIBE && own->name_count > 1) {
        return app_usage("topic", "describe takes one name or none");
    }
    for (uint32_t i = 0; i < own->name_count; i++) {
        if (own->names[i][0] == '\0') { return app_usage("topic", "a topic's name is not empty"); }
        if (strlen(own->names[i]) > INT16_MAX) { return app_usage("topic", "a topic's name is too long"); }
    }
    return app_command_run(&own->command);
}
