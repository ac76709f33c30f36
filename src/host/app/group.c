/* group.c: weir group list, describe, delete, reset.
 *
 * One call at a time; each answer asks for the next:
 *   list      Metadata (brokers), then ListGroups of every broker
 *   delete    of each group FindCoordinator, DeleteGroups
 *   describe  FindCoordinator, DescribeGroups, OffsetFetch, Metadata (leaders), ListOffsets of each leader
 *   reset     FindCoordinator, DescribeGroups, Metadata, OffsetFetch, ListOffsets, and with --execute OffsetCommit
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__group.h"

#include "wire/kafka/delete_groups.h"
#include "wire/kafka/describe_groups.h"
#include "wire/kafka/find_coordinator.h"
#include "wire/kafka/list_groups.h"
#include "wire/kafka/list_offsets.h"
#include "wire/kafka/metadata.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_fetch.h"

#include <stdlib.h>
#include <string.h>

#define VERSION_OF_NAMES 9 /* OffsetFetch, OffsetCommit: later ones name topics by id */
#define TIME_EARLIEST    (-2)
#define TIME_LATEST      (-1)

static void ask(struct app_command *command, int16_t api_key, int32_t node, const void *request, int16_t version_max)
{
    struct client_call wanted = {.token = 1,
                                 .api_key = api_key,
                                 .target = node < 0 ? CLIENT_TO_ANY : CLIENT_TO_NODE,
                                 .node = node,
                                 .request = request,
                                 .timeout_ms = APP_CALL_TIMEOUT_MS,
                                 .version_max = version_max};
    if (client_call(command->client, &wanted) != BASE_OK) {
        app_finish(command, app_error("INVALID_REQUEST", "the request can't be sent: it is too large"));
    }
}

static void no_memory(struct app_command *command) { app_finish(command, app_error(NULL, "no memory")); }

static void no_answer(struct app_command *command)
{
    app_finish(command, app_error("UNKNOWN_SERVER_ERROR", "the broker's answer is not about what was asked"));
}

static const char *group_name(const struct group_command *own) { return own->names[own->name_at]; }

/* ---- the coordinator ---- */

static void ask_coordinator(struct app_command *command)
{
    struct kafka_find_coordinator_request request;
    struct kafka_text key = kafka_text_words(group_name(command->own));
    kafka_find_coordinator_request_init(&request);
    request.coordinator_keys = &key;
    request.coordinator_keys_count = 1;
    ask(command, KAFKA_API_FIND_COORDINATOR, -1, &request, 0);
}

/* One of the groups to delete is done, or could not be. */
static void next_group(struct app_command *command, int code)
{
    struct group_command *own = command->own;
    if (code != APP_DONE) { own->code = code; }
    own->name_at += 1;
    if (own->name_at < own->name_count) {
        ask_coordinator(command);
    } else {
        app_finish(command, own->code);
    }
}

static void on_coordinator(struct app_command *command, const struct kafka_find_coordinator_response *answer,
                           int16_t version)
{
    struct group_command *own = command->own;
    int16_t error = answer->error_code;
    struct kafka_text message = answer->error_message;
    own->coordinator = answer->node_id;
    if (version >= 4) {
        if (answer->coordinators_count != 1) {
            no_answer(command);
            return;
        }
        error = answer->coordinators[0].error_code;
        message = answer->coordinators[0].error_message;
        own->coordinator = answer->coordinators[0].node_id;
    }
    struct kafka_text name = kafka_text_words(group_name(own));
    if (error != KAFKA_ERROR_NONE) {
        int code = app_kafka_error(error, kafka_text_slice(message), "group '%s'", group_name(own));
        if (own->word == GROUP_DELETE) {
            next_group(command, code);
        } else {
            app_finish(command, code);
        }
    } else if (own->word == GROUP_DELETE) {
        struct kafka_delete_groups_request request;
        kafka_delete_groups_request_init(&request);
        request.groups_names = &name;
        request.groups_names_count = 1;
        ask(command, KAFKA_API_DELETE_GROUPS, own->coordinator, &request, 0);
    } else {
        struct kafka_describe_groups_request request;
        kafka_describe_groups_request_init(&request);
        request.groups = &name;
        request.groups_count = 1;
        ask(command, KAFKA_API_DESCRIBE_GROUPS, own->coordinator, &request, 0);
    }
}

static void on_deleted(struct app_command *command, const struct kafka_delete_groups_response *answer)
{
    const struct group_command *own = command->own;
    const char *name = group_name(own);
    int code = APP_DONE;
    if (answer->results_count != 1) {
        no_answer(command);
        return;
    }
    int16_t error = answer->results[0].error_code;
    if (error == KAFKA_ERROR_GROUP_ID_NOT_FOUND) {
        code = app_error("GROUP_ID_NOT_FOUND", "group '%s' does not exist", name);
    } else if (error == KAFKA_ERROR_NON_EMPTY_GROUP) {
        code = app_error("NON_EMPTY_GROUP", "group '%s' has members; stop them first", name);
    } else if (error != KAFKA_ERROR_NONE) {
        code = app_kafka_error(error, (struct base_slice){0}, "group '%s'", name);
    } else if (command->is_json) {
        printf("{\"group\":");
        app_json_text(stdout, base_slice_text(name));
        printf(",\"deleted\":true}\n");
    } else {
        printf("deleted group '%s'\n", name);
    }
    next_group(command, code);
}

/* ---- list ---- */

static void ask_groups(struct app_command *command)
{
    struct group_command *own = command->own;
    struct kafka_list_groups_request request;
    if (own->broker_at == own->broker_count) {
        group_print_list(own);
        app_finish(command, APP_DONE);
        return;
    }
    kafka_list_groups_request_init(&request);
    ask(command, KAFKA_API_LIST_GROUPS, own->brokers[own->broker_at], &request, 0);
}

static void on_brokers(struct app_command *command, const struct kafka_metadata_response *answer)
{
    struct group_command *own = command->own;
    own->brokers = app_keep(((size_t)base_max_i64(answer->brokers_count, 0) + 1) * sizeof *own->brokers);
    if (own->brokers == NULL) {
        no_memory(command);
        return;
    }
    for (int32_t i = 0; i < answer->brokers_count; i++) { own->brokers[i] = answer->brokers[i].node_id; }
    own->broker_count = (uint32_t)base_max_i64(answer->brokers_count, 0);
    ask_groups(command);
}

static void on_groups(struct app_command *command, const struct kafka_list_groups_response *answer)
{
    struct group_command *own = command->own;
    int32_t broker = own->brokers[own->broker_at];
    if (answer->error_code != KAFKA_ERROR_NONE) {
        app_finish(command,
                   app_kafka_error(answer->error_code, (struct base_slice){0}, "the groups of node %d", (int)broker));
        return;
    }
    for (int32_t i = 0; i < answer->groups_count; i++) {
        if (!group_add_listed(own, &answer->groups[i], broker)) {
            no_memory(command);
            return;
        }
    }
    own->broker_at += 1;
    ask_groups(command);
}

/* ---- describe and reset: members, offsets ---- */

static void ask_offsets(struct app_command *command)
{
    const struct group_command *own = command->own;
    struct kafka_offset_fetch_request request;
    struct kafka_offset_fetch_request_offset_fetch_request_group group;
    kafka_offset_fetch_request_init(&request);
    kafka_offset_fetch_request_offset_fetch_request_group_init(&group);
    group.group_id = kafka_text_words(group_name(own));
    group.topics_count = -1; /* null: all */
    request.groups = &group;
    request.groups_count = 1;
    ask(command, KAFKA_API_OFFSET_FETCH, own->coordinator, &request, VERSION_OF_NAMES);
}

static const char *topic_at(const struct group_command *own, uint32_t i)
{
    return own->word == GROUP_RESET ? own->wanted[i].topic : own->rows[i].topic;
}

static void ask_leaders(struct app_command *command)
{
    const struct group_command *own = command->own;
    uint32_t count = own->word == GROUP_RESET ? own->wanted_count : own->row_count;
    struct kafka_metadata_request request;
    struct kafka_metadata_request_metadata_request_topic *topics = calloc((size_t)count + 1, sizeof *topics);
    if (topics == NULL) {
        no_memory(command);
        return;
    }
    kafka_metadata_request_init(&request);
    request.allow_auto_topic_creation = false;
    request.topics = topics;
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(topic_at(own, i - 1), topic_at(own, i)) == 0) { continue; } /* they are in order */
        kafka_metadata_request_metadata_request_topic_init(&topics[request.topics_count]);
        topics[request.topics_count].name = kafka_text_words(topic_at(own, i));
        request.topics_count += 1;
    }
    ask(command, KAFKA_API_METADATA, -1, &request, 0);
    free(topics);
}

static void on_described(struct app_command *command, const struct kafka_describe_groups_response *answer)
{
    struct group_command *own = command->own;
    const char *name = group_name(own);
    if (answer->groups_count != 1) {
        no_answer(command);
        return;
    }
    const struct kafka_describe_groups_response_described_group *group = &answer->groups[0];
    bool is_missing = group->error_code == KAFKA_ERROR_GROUP_ID_NOT_FOUND ||
                      (group->error_code == KAFKA_ERROR_NONE && kafka_text_is(group->group_state, "Dead"));
    if (!is_missing && group->error_code != KAFKA_ERROR_NONE) {
        app_finish(command,
                   app_kafka_error(group->error_code, kafka_text_slice(group->error_message), "group '%s'", name));
    } else if (own->word == GROUP_RESET && group->members_count > 0) {
        app_finish(command, app_error("NON_EMPTY_GROUP", "group '%s' has %d members; stop them first", name,
                                      (int)group->members_count));
    } else if (own->word == GROUP_RESET) {
        ask_leaders(command); /* offsets may be set for a group that is not there yet */
    } else if (is_missing) {
        app_finish(command, app_error("GROUP_ID_NOT_FOUND", "group '%s' does not exist", name));
    } else if (!group_keep_members(own, group)) {
        no_memory(command);
    } else {
        ask_offsets(command);
    }
}

static bool take_committed(struct group_command *own, struct kafka_text topic, int32_t partition, int64_t offset,
                           int16_t error)
{
    if (offset < 0 && error == KAFKA_ERROR_NONE) { return true; }
    struct group_row *row = group_row(own, kafka_text_slice(topic), partition, own->word == GROUP_DESCRIBE);
    if (row == NULL) { return own->word == GROUP_RESET; }
    row->committed = offset;
    row->error = error;
    return true;
}

static void ask_bounds(struct app_command *command);

static void on_offsets(struct app_command *command, const struct kafka_offset_fetch_response *answer, int16_t version)
{
    struct group_command *own = command->own;
    bool is_good = true;
    if (version >= 8 && answer->groups_count != 1) {
        no_answer(command);
        return;
    }
    int16_t error = version >= 8 ? answer->groups[0].error_code : answer->error_code;
    if (error != KAFKA_ERROR_NONE && error != KAFKA_ERROR_GROUP_ID_NOT_FOUND) {
        app_finish(command,
                   app_kafka_error(error, (struct base_slice){0}, "the offsets of group '%s'", group_name(own)));
        return;
    }
    for (int32_t i = 0; version < 8 && i < answer->topics_count; i++) {
        const struct kafka_offset_fetch_response_offset_fetch_response_topic *topic = &answer->topics[i];
        for (int32_t j = 0; j < topic->partitions_count && is_good; j++) {
            is_good = take_committed(own, topic->name, topic->partitions[j].partition_index,
                                     topic->partitions[j].committed_offset, topic->partitions[j].error_code);
        }
    }
    for (int32_t i = 0; version >= 8 && i < answer->groups[0].topics_count; i++) {
        const struct kafka_offset_fetch_response_offset_fetch_response_topics *topic = &answer->groups[0].topics[i];
        for (int32_t j = 0; j < topic->partitions_count && is_good; j++) {
            is_good = take_committed(own, topic->name, topic->partitions[j].partition_index,
                                     topic->partitions[j].committed_offset, topic->partitions[j].error_code);
        }
    }
    if (!is_good) {
        no_memory(command);
    } else if (own->word == GROUP_RESET) {
        ask_bounds(command);
    } else if (own->row_count == 0) {
        group_print(own, command->is_json);
        app_finish(command, APP_DONE);
    } else {
        ask_leaders(command);
    }
}

/* ---- leaders, and where their logs begin and end ---- */

static const struct kafka_metadata_response_metadata_response_topic *find_topic(
    const struct kafka_metadata_response *answer, const char *name)
{
    for (int32_t i = 0; i < answer->topics_count; i++) {
        if (kafka_text_is(answer->topics[i].name, name)) { return &answer->topics[i]; }
    }
    return NULL;
}

static const struct kafka_metadata_response_metadata_response_partition *find_partition(
    const struct kafka_metadata_response_metadata_response_topic *topic, int32_t partition)
{
    for (int32_t i = 0; i < topic->partitions_count; i++) {
        if (topic->partitions[i].partition_index == partition) { return &topic->partitions[i]; }
    }
    return NULL;
}

/* The partitions that are to be reset. */
static void make_rows(struct app_command *command, const struct kafka_metadata_response *answer)
{
    struct group_command *own = command->own;
    for (uint32_t i = 0; i < own->wanted_count && !command->is_finished; i++) {
        const struct group_wanted *wanted = &own->wanted[i];
        const struct kafka_metadata_response_metadata_response_topic *topic = find_topic(answer, wanted->topic);
        int16_t error = topic == NULL ? KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION : topic->error_code;
        if (error == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION) {
            app_finish(command, app_error(kafka_error_name(error), "topic '%s' does not exist", wanted->topic));
        } else if (error != KAFKA_ERROR_NONE) {
            app_finish(command, app_kafka_error(error, (struct base_slice){0}, "topic '%s'", wanted->topic));
        } else if (wanted->partition >= 0 && find_partition(topic, wanted->partition) == NULL) {
            app_finish(command, app_error("UNKNOWN_TOPIC_OR_PARTITION", "topic '%s' has %d partitions", wanted->topic,
                                          (int)topic->partitions_count));
        }
        for (int32_t j = 0; !command->is_finished && j < topic->partitions_count; j++) {
            int32_t partition = topic->partitions[j].partition_index;
            if (wanted->partition >= 0 && wanted->partition != partition) { continue; }
            if (group_row(own, base_slice_text(wanted->topic), partition, true) == NULL) { no_memory(command); }
        }
    }
}

static void on_leaders(struct app_command *command, const struct kafka_metadata_response *answer)
{
    struct group_command *own = command->own;
    if (own->word == GROUP_RESET) { make_rows(command, answer); }
    for (uint32_t i = 0; i < own->row_count && !command->is_finished; i++) {
        struct group_row *row = &own->rows[i];
        const struct kafka_metadata_response_metadata_response_topic *topic = find_topic(answer, row->topic);
        const struct kafka_metadata_response_metadata_response_partition *part =
            topic == NULL ? NULL : find_partition(topic, row->partition);
        if (part == NULL) {
            row->error = KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION; /* deleted; its offset is still there */
        } else if (part->leader_id < 0) {
            row->error = KAFKA_ERROR_LEADER_NOT_AVAILABLE;
        } else {
            row->leader = part->leader_id;
        }
    }
    if (command->is_finished) { return; }
    if (own->word == GROUP_RESET) {
        ask_offsets(command);
    } else {
        ask_bounds(command);
    }
}

static void ask_commit(struct app_command *command);

static void bounds_known(struct app_command *command)
{
    struct group_command *own = command->own;
    if (own->word == GROUP_DESCRIBE) {
        group_print(own, command->is_json);
        app_finish(command, APP_DONE);
        return;
    }
    int code = group_choose_targets(own);
    if (code != APP_DONE) {
        app_finish(command, code);
    } else if (own->is_execute) {
        ask_commit(command);
    } else {
        for (uint32_t i = 0; i < own->row_count; i++) { group_print_reset(own, &own->rows[i], command->is_json); }
        if (!command->is_json) { fprintf(stderr, "nothing was changed; --execute does it\n"); }
        app_finish(command, APP_DONE);
    }
}

/* The next leader for this bound, in the order of their ids; after the last the next bound. */
static int32_t next_leader(struct group_command *own)
{
    int32_t leader = INT32_MAX;
    for (uint32_t i = 0; i < own->row_count; i++) {
        if (own->rows[i].leader > own->leader_asked && own->rows[i].leader < leader) { leader = own->rows[i].leader; }
    }
    own->leader_asked = leader == INT32_MAX ? -1 : leader;
    return own->leader_asked;
}

static int64_t bound_time(const struct group_command *own)
{
    switch (own->bound) {
    case GROUP_BOUND_START: return TIME_EARLIEST;
    case GROUP_BOUND_END: return TIME_LATEST;
    case GROUP_BOUND_TIME: break;
    }
    return own->to_value;
}

static void ask_bounds(struct app_command *command)
{
    struct group_command *own = command->own;
    enum group_bound last = own->to == GROUP_TO_DATETIME ? GROUP_BOUND_TIME : GROUP_BOUND_END;
    int32_t leader = next_leader(own);
    while (leader < 0 && own->bound < last) {
        own->bound += 1;
        leader = next_leader(own);
    }
    if (leader < 0) {
        bounds_known(command);
        return;
    }
    struct kafka_list_offsets_request request;
    struct kafka_list_offsets_request_list_offsets_topic *topics = calloc(own->row_count, sizeof *topics);
    struct kafka_list_offsets_request_list_offsets_partition *parts = calloc(own->row_count, sizeof *parts);
    kafka_list_offsets_request_init(&request);
    request.replica_id = -1;
    request.timeout_ms = APP_CALL_TIMEOUT_MS;
    request.topics = topics;
    const char *topic = NULL;
    for (uint32_t i = 0; topics != NULL && parts != NULL && i < own->row_count; i++) {
        if (own->rows[i].leader != leader) { continue; }
        if (topic == NULL || strcmp(topic, own->rows[i].topic) != 0) {
            topic = own->rows[i].topic;
            kafka_list_offsets_request_list_offsets_topic_init(&topics[request.topics_count]);
            topics[request.topics_count].name = kafka_text_words(topic);
            topics[request.topics_count].partitions = &parts[i];
            request.topics_count += 1;
        }
        struct kafka_list_offsets_request_list_offsets_topic *last_topic = &topics[request.topics_count - 1];
        struct kafka_list_offsets_request_list_offsets_partition *part =
            &last_topic->partitions[last_topic->partitions_count];
        kafka_list_offsets_request_list_offsets_partition_init(part);
        part->partition_index = own->rows[i].partition;
        part->timestamp = bound_time(own);
        last_topic->partitions_count += 1;
    }
    if (topics == NULL || parts == NULL) {
        no_memory(command);
    } else {
        ask(command, KAFKA_API_LIST_OFFSETS, leader, &request, 0);
    }
    free(topics);
    free(parts);
}

static void on_bounds(struct app_command *command, const struct kafka_list_offsets_response *answer)
{
    struct group_command *own = command->own;
    for (int32_t i = 0; i < answer->topics_count; i++) {
        for (int32_t j = 0; j < answer->topics[i].partitions_count; j++) {
            const struct kafka_list_offsets_response_list_offsets_partition_response *part =
                &answer->topics[i].partitions[j];
            struct group_row *row =
                group_row(own, kafka_text_slice(answer->topics[i].name), part->partition_index, false);
            if (row == NULL) { continue; }
            if (part->error_code != KAFKA_ERROR_NONE) {
                row->error = part->error_code;
            } else {
                row->bounds[own->bound] = part->offset;
            }
        }
    }
    ask_bounds(command);
}

/* ---- reset ---- */

static void ask_commit(struct app_command *command)
{
    const struct group_command *own = command->own;
    struct kafka_offset_commit_request request;
    struct kafka_offset_commit_request_offset_commit_request_topic *topics = calloc(own->row_count, sizeof *topics);
    struct kafka_offset_commit_request_offset_commit_request_partition *parts = calloc(own->row_count, sizeof *parts);
    kafka_offset_commit_request_init(&request);
    request.group_id = kafka_text_words(group_name(own));
    request.topics = topics;
    for (uint32_t i = 0; topics != NULL && parts != NULL && i < own->row_count; i++) {
        if (i == 0 || strcmp(own->rows[i - 1].topic, own->rows[i].topic) != 0) {
            kafka_offset_commit_request_offset_commit_request_topic_init(&topics[request.topics_count]);
            topics[request.topics_count].name = kafka_text_words(own->rows[i].topic);
            topics[request.topics_count].partitions = &parts[i];
            request.topics_count += 1;
        }
        kafka_offset_commit_request_offset_commit_request_partition_init(&parts[i]);
        parts[i].partition_index = own->rows[i].partition;
        parts[i].committed_offset = own->rows[i].target;
        topics[request.topics_count - 1].partitions_count += 1;
    }
    if (topics == NULL || parts == NULL) {
        no_memory(command);
    } else {
        ask(command, KAFKA_API_OFFSET_COMMIT, own->coordinator, &request, VERSION_OF_NAMES);
    }
    free(topics);
    free(parts);
}

static void on_committed(struct app_command *command, const struct kafka_offset_commit_response *answer)
{
    struct group_command *own = command->own;
    uint32_t answered = 0;
    for (int32_t i = 0; i < answer->topics_count; i++) {
        const struct kafka_offset_commit_response_offset_commit_response_topic *topic = &answer->topics[i];
        for (int32_t j = 0; j < topic->partitions_count; j++) {
            struct group_row *row =
                group_row(own, kafka_text_slice(topic->name), topic->partitions[j].partition_index, false);
            if (row == NULL) { continue; }
            answered += 1;
            if (topic->partitions[j].error_code == KAFKA_ERROR_NONE) {
                group_print_reset(own, row, command->is_json);
            } else {
                own->code = app_kafka_error(topic->partitions[j].error_code, (struct base_slice){0},
                                            "group '%s', topic '%s' partition %d", group_name(own), row->topic,
                                            (int)row->partition);
            }
        }
    }
    if (answered != own->row_count) {
        no_answer(command);
    } else {
        app_finish(command, own->code);
    }
}

/* ---- the command ---- */

static void begin(struct app_command *command)
{
    struct kafka_metadata_request request;
    const struct group_command *own = command->own;
    if (own->word != GROUP_LIST) {
        ask_coordinator(command);
        return;
    }
    kafka_metadata_request_init(&request); /* no topic: the brokers alone */
    request.allow_auto_topic_creation = false;
    ask(command, KAFKA_API_METADATA, -1, &request, 0);
}

static void on_metadata(struct app_command *command, const struct kafka_metadata_response *answer)
{
    const struct group_command *own = command->own;
    if (own->word == GROUP_LIST) {
        on_brokers(command, answer);
    } else {
        on_leaders(command, answer);
    }
}

static void on_result(struct app_command *command, const struct client_result *result)
{
    if (result->kind != CLIENT_ANSWER) { return; }
    if (app_result_failed(command, result, "weir group")) { return; }
    switch (result->api_key) {
    case KAFKA_API_FIND_COORDINATOR: on_coordinator(command, result->answer, result->version); break;
    case KAFKA_API_DELETE_GROUPS: on_deleted(command, result->answer); break;
    case KAFKA_API_METADATA: on_metadata(command, result->answer); break;
    case KAFKA_API_LIST_GROUPS: on_groups(command, result->answer); break;
    case KAFKA_API_DESCRIBE_GROUPS: on_described(command, result->answer); break;
    case KAFKA_API_OFFSET_FETCH: on_offsets(command, result->answer, result->version); break;
    case KAFKA_API_LIST_OFFSETS: on_bounds(command, result->answer); break;
    case KAFKA_API_OFFSET_COMMIT: on_committed(command, result->answer); break;
    default: break;
    }
}

const struct app_command_parts group_parts = {.begin = begin, .result = on_result};
