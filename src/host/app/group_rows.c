/* group_rows.c: what weir group keeps of the answers, and how it prints it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__group.h"

#include "wire/kafka/consumer_protocol.h"

#include <stdlib.h>
#include <string.h>

/* ---- keeping ---- */

static bool keep(struct kafka_text text, char **words_out)
{
    struct base_slice slice = kafka_text_slice(text);
    *words_out = slice.size_bytes == 0 ? strdup("") : strndup((const char *)slice.at, slice.size_bytes);
    return *words_out != NULL;
}

bool group_add_listed(struct group_command *own, const struct kafka_list_groups_response_listed_group *group,
                      int32_t coordinator)
{
    struct group_listed *larger = realloc(own->listed, ((size_t)own->listed_count + 1) * sizeof *larger);
    if (larger == NULL) { return false; }
    own->listed = larger;
    struct group_listed *listed = &larger[own->listed_count];
    *listed = (struct group_listed){.coordinator = coordinator};
    own->listed_count += 1;
    return keep(group->group_id, &listed->name) && keep(group->group_state, &listed->state) &&
           keep(group->protocol_type, &listed->type);
}

static int compare(const struct group_row *row, struct base_slice topic, int32_t partition)
{
    int order = base_slice_compare(base_slice_text(row->topic), topic);
    if (order != 0) { return order; }
    return row->partition < partition ? -1 : (row->partition > partition ? 1 : 0);
}

struct group_row *group_row(struct group_command *own, struct base_slice topic, int32_t partition, bool is_made)
{
    uint32_t low = 0;
    uint32_t high = own->row_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare(&own->rows[middle], topic, partition);
        if (order == 0) { return &own->rows[middle]; }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (!is_made) { return NULL; }
    if (own->row_count == own->row_room) {
        uint32_t room = own->row_room == 0 ? 64 : own->row_room * 2;
        struct group_row *larger = realloc(own->rows, (size_t)room * sizeof *larger);
        if (larger == NULL) { return NULL; }
        own->rows = larger;
        own->row_room = room;
    }
    char *name = NULL;
    if (!keep(kafka_text_of_slice(topic), &name)) { return NULL; }
    struct group_row *row = &own->rows[low];
    memmove(row + 1, row, (own->row_count - low) * sizeof *row);
    own->row_count += 1;
    *row = (struct group_row){
        .topic = name, .partition = partition, .leader = -1, .committed = -1, .bounds = {-1, -1, -1}, .target = -1};
    return row;
}

/* What a member of a group of consumers has; of other groups nobody but they knows. False: no memory. */
static bool keep_assignment(struct group_command *own, struct group_member *member, struct base_slice bytes)
{
    struct base_arena arena;
    struct kafka_consumer_protocol_assignment assignment;
    if (bytes.size_bytes < 2) { return true; }
    int16_t version = (int16_t)base_get_u16(bytes.at);
    size_t memory_bytes = bytes.size_bytes * KAFKA_ARENA_FACTOR + 256;
    void *memory = malloc(memory_bytes);
    if (memory == NULL) { return false; }
    base_arena_init(&arena, memory, memory_bytes);
    size_t used_bytes = 0;
    if (version > 3) { version = 3; } /* later ones begin in the same way */
    bool is_good = true;
    struct base_slice body = base_slice_of(bytes.at + 2, bytes.size_bytes - 2);
    bool is_read = version >= 0 && kafka_consumer_protocol_assignment_decode_front(body, version, &arena, &assignment,
                                                                                   &used_bytes) == BASE_OK;
    for (int32_t i = 0; is_read && i < assignment.assigned_partitions_count; i++) {
        const struct kafka_consumer_protocol_assignment_topic_partition *topic = &assignment.assigned_partitions[i];
        for (int32_t j = 0; is_good && j < topic->partitions_count; j++) {
            struct group_row *row = group_row(own, kafka_text_slice(topic->topic), topic->partitions[j], true);
            is_good = row != NULL;
            if (!is_good) { break; }
            row->member = member;
            member->assigned += 1;
        }
    }
    free(memory);
    return is_good;
}

bool group_keep_members(struct group_command *own, const struct kafka_describe_groups_response_described_group *group)
{
    uint32_t count = (uint32_t)base_max_i64(group->members_count, 0);
    own->members = app_keep(((size_t)count + 1) * sizeof *own->members);
    if (own->members == NULL || !keep(group->group_state, &own->state) || !keep(group->protocol_type, &own->type) ||
        !keep(group->protocol_data, &own->protocol)) {
        return false;
    }
    own->member_count = count;
    for (uint32_t i = 0; i < count; i++) {
        const struct kafka_describe_groups_response_described_group_member *from = &group->members[i];
        struct group_member *member = &own->members[i];
        if (!keep(from->member_id, &member->id) || !keep(from->client_id, &member->client) ||
            !keep(from->client_host, &member->host)) {
            return false;
        }
        if (!kafka_text_is_null(from->group_instance_id) && !keep(from->group_instance_id, &member->instance)) {
            return false;
        }
        bool is_known = strcmp(own->type, "consumer") == 0;
        if (is_known && !keep_assignment(own, member, kafka_bytes_slice(from->member_assignment))) { return false; }
    }
    return true;
}

/* ---- where offsets are to go ---- */

static int64_t clamp(int64_t offset, const struct group_row *row)
{
    if (offset < row->bounds[GROUP_BOUND_START]) { return row->bounds[GROUP_BOUND_START]; }
    return offset > row->bounds[GROUP_BOUND_END] ? row->bounds[GROUP_BOUND_END] : offset;
}

static int64_t target(const struct group_command *own, const struct group_row *row)
{
    int64_t shifted = 0;
    switch (own->to) {
    case GROUP_TO_NOTHING: break;
    case GROUP_TO_EARLIEST: return row->bounds[GROUP_BOUND_START];
    case GROUP_TO_LATEST: return row->bounds[GROUP_BOUND_END];
    case GROUP_TO_OFFSET: return clamp(own->to_value, row);
    case GROUP_TO_DATETIME:
        return row->bounds[GROUP_BOUND_TIME] < 0 ? row->bounds[GROUP_BOUND_END] : row->bounds[GROUP_BOUND_TIME];
    case GROUP_TO_SHIFTED:
        if (__builtin_add_overflow(row->committed, own->to_value, &shifted)) { shifted = INT64_MAX; }
        return clamp(shifted, row); /* committed >= 0: only upwards can it overflow */
    }
    return row->committed;
}

int group_choose_targets(struct group_command *own)
{
    int code = APP_DONE;
    for (uint32_t i = 0; i < own->row_count; i++) {
        struct group_row *row = &own->rows[i];
        bool is_known = row->bounds[GROUP_BOUND_START] >= 0 && row->bounds[GROUP_BOUND_END] >= 0;
        if (row->error != KAFKA_ERROR_NONE || !is_known) {
            int16_t error = row->error == KAFKA_ERROR_NONE ? (int16_t)KAFKA_ERROR_UNKNOWN_SERVER_ERROR : row->error;
            code = app_kafka_error(error, (struct base_slice){0}, "topic '%s' partition %d", row->topic,
                                   (int)row->partition);
        } else if (own->to == GROUP_TO_SHIFTED && row->committed < 0) {
            code = app_error(NULL, "topic '%s' partition %d: there is no committed offset to shift", row->topic,
                             (int)row->partition);
        } else {
            row->target = target(own, row);
        }
    }
    return code;
}

/* ---- printing ---- */

static int compare_listed(const void *a, const void *b)
{
    const struct group_listed *left = a;
    const struct group_listed *right = b;
    return strcmp(left->name, right->name);
}

static void print_field(const char *name, const char *words)
{
    app_json_value(stdout, name, words == NULL ? rec_null() : rec_value_of(base_slice_text(words)));
}

void group_print_list(struct group_command *own)
{
    if (own->listed_count > 1) { qsort(own->listed, own->listed_count, sizeof *own->listed, compare_listed); }
    for (uint32_t i = 0; i < own->listed_count; i++) {
        const struct group_listed *listed = &own->listed[i];
        if (!own->command.is_json) {
            printf("%s\n", app_shown(listed->name));
            continue;
        }
        printf("{");
        print_field("group", listed->name);
        printf(",");
        print_field("state", listed->state[0] == '\0' ? NULL : listed->state); /* old brokers don't say */
        printf(",");
        print_field("type", listed->type);
        printf(",\"coordinator\":%d}\n", (int)listed->coordinator);
    }
}

/* A number that may not be known. */
static void print_number(const char *name, int64_t value, bool is_json)
{
    printf(is_json ? ",\"%s\":" : " %s=", name);
    if (value >= 0) {
        printf("%lld", (long long)value);
    } else {
        printf(is_json ? "null" : "-");
    }
}

/* Records before the log's start are not there to be read. -1: not known. */
static int64_t lag(const struct group_row *row)
{
    int64_t start = row->bounds[GROUP_BOUND_START];
    int64_t end = row->bounds[GROUP_BOUND_END];
    if (row->committed < 0 || start < 0 || end < 0) { return -1; }
    return end - clamp(row->committed, row);
}

static void print_member(const struct group_member *member, bool is_json)
{
    if (is_json) {
        printf("{");
        print_field("member", member->id);
        printf(",");
        print_field("client", member->client);
        printf(",");
        print_field("host", member->host);
        printf(",");
        print_field("instance", member->instance);
        printf(",\"partitions\":%u}", (unsigned)member->assigned);
    } else {
        printf("  member=%s client=%s host=%s instance=%s partitions=%u\n", app_shown(member->id),
               app_shown(member->client), app_shown(member->host),
               member->instance == NULL ? "-" : app_shown(member->instance), (unsigned)member->assigned);
    }
}

static void print_row(const struct group_row *row, bool is_json)
{
    const struct group_member *member = row->member;
    if (is_json) {
        printf("{");
        print_field("topic", row->topic);
        printf(",\"partition\":%d", (int)row->partition);
    } else {
        printf("  topic=%s partition=%d", row->topic, (int)row->partition);
    }
    print_number("committed", row->committed, is_json);
    print_number("start", row->bounds[GROUP_BOUND_START], is_json);
    print_number("end", row->bounds[GROUP_BOUND_END], is_json);
    print_number("lag", lag(row), is_json);
    const char *error = row->error == KAFKA_ERROR_NONE ? NULL : kafka_error_name(row->error);
    if (is_json) {
        printf(",");
        print_field("member", member == NULL ? NULL : member->id);
        printf(",");
        print_field("client", member == NULL ? NULL : member->client);
        printf(",");
        print_field("host", member == NULL ? NULL : member->host);
        printf(",");
        print_field("error", error);
        printf("}");
    } else {
        printf(" client=%s host=%s", member == NULL ? "-" : app_shown(member->client),
               member == NULL ? "-" : app_shown(member->host));
        if (error != NULL) { printf(" error=%s", error); }
        printf("\n");
    }
}

void group_print(const struct group_command *own, bool is_json)
{
    if (is_json) {
        printf("{");
        print_field("group", own->names[0]);
        printf(",");
        print_field("state", own->state);
        printf(",");
        print_field("type", own->type);
        printf(",");
        print_field("protocol", own->protocol);
        printf(",\"coordinator\":%d,\"members\":[", (int)own->coordinator);
    } else {
        printf("group=%s state=%s type=%s protocol=%s coordinator=%d members=%u\n", app_shown(own->names[0]),
               own->state, own->type[0] == '\0' ? "-" : app_shown(own->type),
               own->protocol[0] == '\0' ? "-" : app_shown(own->protocol), (int)own->coordinator,
               (unsigned)own->member_count);
    }
    for (uint32_t i = 0; i < own->member_count; i++) {
        if (is_json && i > 0) { printf(","); }
        print_member(&own->members[i], is_json);
    }
    if (is_json) { printf("],\"partitions\":["); }
    for (uint32_t i = 0; i < own->row_count; i++) {
        if (is_json && i > 0) { printf(","); }
        print_row(&own->rows[i], is_json);
    }
    if (is_json) { printf("]}\n"); }
}

void group_print_reset(const struct group_command *own, const struct group_row *row, bool is_json)
{
    if (is_json) {
        printf("{");
        print_field("group", own->names[0]);
        printf(",");
        print_field("topic", row->topic);
        printf(",\"partition\":%d", (int)row->partition);
    } else {
        printf("topic=%s partition=%d", row->topic, (int)row->partition);
    }
    print_number("committed", row->committed, is_json);
    print_number("target", row->target, is_json);
    if (is_json) {
        printf(",\"executed\":%s}\n", own->is_execute ? "true" : "false");
    } else {
        printf("\n");
    }
}
