/* broker_stream_groups.c: see broker_stream.h. Requests about groups: by members that are, in generations that are, as a rule.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker_stream.h"

#include <string.h>

#include "wire/kafka/consumer_protocol.h"
#include "wire/kafka/delete_groups.h"
#include "wire/kafka/describe_groups.h"
#include "wire/kafka/find_coordinator.h"
#include "wire/kafka/heartbeat.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/leave_group.h"
#include "wire/kafka/list_groups.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_delete.h"
#include "wire/kafka/offset_fetch.h"
#include "wire/kafka/sync_group.h"

static const char *const groups[STREAM_GROUPS] = {"g0", "g1", "g2"};

const char *stream_group(uint32_t index) { return groups[index]; }

uint32_t stream_group_index(struct kafka_text id)
{
    for (uint32_t i = 0; i < STREAM_GROUPS; i++) {
        if (kafka_text_is(id, groups[i])) { return i; }
    }
    return STREAM_NONE;
}

void stream_joined(struct stream_known *known, uint32_t group, const struct kafka_join_group_response *answer)
{
    struct base_slice id = kafka_text_slice(answer->member_id);
    bool is_given = answer->error_code == KAFKA_ERROR_NONE || answer->error_code == KAFKA_ERROR_MEMBER_ID_REQUIRED;
    if (!is_given || group == STREAM_NONE || id.size_bytes == 0 || id.size_bytes > sizeof known->members[0].id) {
        return;
    }
    uint32_t count = (uint32_t)base_min_u64(known->members_count, STREAM_MEMBERS_MAX);
    struct stream_member *member = NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct stream_member *at = &known->members[i];
        if (at->group == group && base_slice_equal(base_slice_of(at->id, at->id_bytes), id)) { member = at; }
    }
    if (member == NULL) {
        member = &known->members[known->members_count % STREAM_MEMBERS_MAX];
        known->members_count += 1;
        *member = (struct stream_member){.group = group, .id_bytes = id.size_bytes, .generation = -1};
        memcpy(member->id, id.at, id.size_bytes);
    }
    if (answer->error_code == KAFKA_ERROR_NONE) { member->generation = answer->generation_id; }
}

/* ---- who asks ----------------------------------------------------------------------------------------------------------- */

struct who {
    struct kafka_text group;
    struct kafka_text id;
    struct kafka_text instance;
    int32_t generation;
};

static struct who who_of(struct stream_input *input, const struct stream_known *known)
{
    static const char *const instances[] = {"i0", "i1", ""};
    uint32_t byte = stream_take(input, 1);
    uint32_t twist = stream_take(input, 1);
    uint32_t count = (uint32_t)base_min_u64(known->members_count, STREAM_MEMBERS_MAX);
    struct who who = {.group = kafka_text_words(groups[byte % STREAM_GROUPS]),
                      .id = kafka_text_words(""),
                      .instance = kafka_text_null(),
                      .generation = -1};
    if (count > 0 && byte < 200) {
        const struct stream_member *member = &known->members[byte % count];
        who.group = kafka_text_words(groups[member->group]);
        who.id = kafka_text_of(member->id, member->id_bytes);
        who.generation = member->generation;
    }
    if (byte == 255) { who.group = kafka_text_words(""); }
    if (twist % 8 == 7) { who.instance = kafka_text_words(instances[twist / 8 % 3]); }
    if (twist >= 248) { who.id = kafka_text_words("nobody"); }
    if (twist >= 224 && twist < 248) { who.generation = stream_odd_i32(input); }
    return who;
}

static struct kafka_text group_of(struct stream_input *input)
{
    uint32_t byte = stream_take(input, 1);
    return kafka_text_words(byte >= 250 ? "" : byte >= 240 ? "no-such" : groups[byte % STREAM_GROUPS]);
}

static bool fill_texts(struct stream_input *input, struct base_arena *arena, struct kafka_text **texts_out,
                       int32_t *count_out)
{
    *count_out = stream_count(input);
    *texts_out = base_arena_take_array(arena, (size_t)*count_out, sizeof **texts_out);
    if (*texts_out == NULL) { return false; }
    for (int32_t i = 0; i < *count_out; i++) { (*texts_out)[i] = group_of(input); }
    return true;
}

/* A member's words: what a consumer says of itself, or bytes. */
static struct kafka_bytes words_of(struct stream_input *input, struct base_arena *arena, enum kafka_message message)
{
    uint32_t how = stream_take(input, 1);
    uint8_t *at = base_arena_take(arena, 256);
    if (at == NULL) { return kafka_bytes_of("", 0); }
    if (how >= 240) {
        for (uint32_t i = 0; i < how - 240; i++) { at[i] = (uint8_t)stream_take(input, 1); }
        return kafka_bytes_of(at, how - 240);
    }
    int16_t version = (int16_t)(how % 4);
    struct kafka_text topics[2] = {kafka_text_words("a"), kafka_text_words("b")};
    static int32_t partitions[] = {0, 1};
    struct kafka_consumer_protocol_subscription subscription;
    struct kafka_consumer_protocol_assignment assignment;
    struct kafka_consumer_protocol_assignment_topic_partition assigned;
    kafka_consumer_protocol_subscription_init(&subscription);
    kafka_consumer_protocol_assignment_init(&assignment);
    kafka_consumer_protocol_assignment_topic_partition_init(&assigned);
    subscription.topics = topics;
    subscription.topics_count = (int32_t)(how / 4 % 3);
    assigned.topic = topics[how / 4 % 2];
    assigned.partitions = partitions;
    assigned.partitions_count = (int32_t)(how / 8 % 3);
    assignment.assigned_partitions = &assigned;
    assignment.assigned_partitions_count = 1;
    const void *value =
        message == KAFKA_MESSAGE_CONSUMER_PROTOCOL_ASSIGNMENT ? (const void *)&assignment : &subscription;
    struct kafka_writer writer;
    base_put_u16(at, (uint16_t)version);
    kafka_writer_init(&writer, at + 2, 254);
    enum base_rc rc = kafka_encode(message, value, version, &writer);
    CHECK(rc == BASE_OK);
    return kafka_bytes_of(at, 2 + writer.used_bytes);
}

/* ---- requests ----------------------------------------------------------------------------------------------------------- */

static bool fill_join(struct stream_input *input, const struct stream_known *known, struct base_arena *arena,
                      int16_t version, struct kafka_join_group_request *request)
{
    static const char *const protocols[] = {"range", "sticky", "x", ""};
    struct who who = who_of(input, known);
    uint32_t shape = stream_take(input, 1);
    request->group_id = who.group;
    request->member_id = who.id;
    if (version >= 5) { request->group_instance_id = who.instance; }
    request->protocol_type = kafka_text_words(shape >= 250 ? "" : shape >= 230 ? "connect" : "consumer");
    uint32_t times = stream_take(input, 1);
    request->session_timeout_ms = times >= 240 ? stream_odd_i32(input) : 6000 + (int32_t)(times % 8) * 5000;
    request->rebalance_timeout_ms = times >= 248 ? stream_odd_i32(input) : (int32_t)(times / 8 % 4) * 10000;
    request->protocols_count = shape % 16 == 15 ? 0 : 1 + (int32_t)(shape % 16 / 8);
    request->protocols = kafka_join_group_request_join_group_request_protocol_take(arena, request->protocols_count);
    if (request->protocols == NULL) { return false; }
    for (int32_t i = 0; i < request->protocols_count; i++) {
        request->protocols[i].name = kafka_text_words(protocols[(shape / 16 % 2 + (uint32_t)i) % 4]);
        request->protocols[i].metadata = words_of(input, arena, KAFKA_MESSAGE_CONSUMER_PROTOCOL_SUBSCRIPTION);
    }
    return true;
}

/* With something for everyone who is known, as a leader sends it, or with nothing. */
static bool fill_sync(struct stream_input *input, const struct stream_known *known, struct base_arena *arena,
                      int16_t version, struct kafka_sync_group_request *request)
{
    struct who who = who_of(input, known);
    uint32_t shape = stream_take(input, 1);
    request->group_id = who.group;
    request->member_id = who.id;
    request->generation_id = who.generation;
    if (version >= 3) { request->group_instance_id = who.instance; }
    if (version >= 5) {
        request->protocol_type = kafka_text_words(shape >= 240 ? "connect" : "consumer");
        request->protocol_name =
            shape >= 224 ? kafka_text_null() : kafka_text_words(shape % 8 == 7 ? "sticky" : "range");
    }
    uint32_t count = (uint32_t)base_min_u64(known->members_count, STREAM_MEMBERS_MAX);
    request->assignments_count = shape % 4 == 3 ? 0 : (int32_t)count;
    request->assignments =
        kafka_sync_group_request_sync_group_request_assignment_take(arena, request->assignments_count);
    if (request->assignments == NULL) { return false; }
    for (int32_t i = 0; i < request->assignments_count; i++) {
        request->assignments[i].member_id = kafka_text_of(known->members[i].id, known->members[i].id_bytes);
        request->assignments[i].assignment = words_of(input, arena, KAFKA_MESSAGE_CONSUMER_PROTOCOL_ASSIGNMENT);
    }
    return true;
}

static bool fill_leave(struct stream_input *input, const struct stream_known *known, struct base_arena *arena,
                       int16_t version, struct kafka_leave_group_request *request)
{
    struct who who = who_of(input, known);
    request->group_id = who.group;
    if (version < 3) {
        request->member_id = who.id;
        return true;
    }
    request->members_count = stream_count(input);
    request->members = kafka_leave_group_request_member_identity_take(arena, request->members_count);
    if (request->members == NULL) { return false; }
    for (int32_t i = 0; i < request->members_count; i++) {
        if (i > 0) { who = who_of(input, known); }
        request->members[i].member_id = who.id;
        request->members[i].group_instance_id = who.instance;
    }
    return true;
}

static bool fill_commit(struct stream_input *input, const struct stream_known *known, struct base_arena *arena,
                        int16_t version, struct kafka_offset_commit_request *request)
{
    struct who who = who_of(input, known);
    request->group_id = who.group;
    request->member_id = who.id;
    request->generation_id_or_member_epoch = who.generation;
    if (version >= 7) { request->group_instance_id = who.instance; }
    uint32_t shape = stream_take(input, 1);
    if (shape >= 250 && version <= 4) { request->retention_time_ms = stream_odd(input); }
    request->topics_count = stream_count(input);
    request->topics = kafka_offset_commit_request_offset_commit_request_topic_take(arena, request->topics_count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) {
        struct kafka_offset_commit_request_offset_commit_request_topic *topic = &request->topics[t];
        topic->name = stream_topic(input);
        if (version >= 10) { topic->topic_id = stream_id(input, &known->topics); }
        topic->partitions_count = stream_count(input);
        topic->partitions =
            kafka_offset_commit_request_offset_commit_request_partition_take(arena, topic->partitions_count);
        if (topic->partitions == NULL) { return false; }
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            uint32_t how = stream_take(input, 1);
            topic->partitions[p].partition_index = how >= 250 ? stream_odd_i32(input) : (int32_t)(how % 2);
            topic->partitions[p].committed_offset = how >= 240 ? stream_odd(input) : (int32_t)stream_take(input, 1);
            topic->partitions[p].committed_metadata = kafka_text_of("some words of a consumer", how / 4 % 24);
            if (how % 16 == 15) { topic->partitions[p].committed_metadata = kafka_text_null(); }
        }
    }
    return true;
}

static bool fill_fetched(struct stream_input *input, const struct stream_known *known, struct base_arena *arena,
                         int16_t version, struct kafka_offset_fetch_request *request)
{
    static int32_t indexes[] = {0, 1, 2, -1};
    uint32_t shape = stream_take(input, 1);
    if (version >= 7) { request->require_stable = shape % 2 == 1; }
    if (version < 8) {
        request->group_id = group_of(input);
        request->topics_count = shape >= 128 && version >= 2 ? -1 : stream_count(input);
        request->topics =
            kafka_offset_fetch_request_offset_fetch_request_topic_take(arena,
                                                                       (int32_t)base_max_i64(request->topics_count, 0));
        if (request->topics == NULL) { return false; }
        for (int32_t t = 0; t < request->topics_count; t++) {
            request->topics[t].name = stream_topic(input);
            request->topics[t].partition_indexes = indexes;
            request->topics[t].partition_indexes_count = (int32_t)(stream_take(input, 1) % 5);
        }
        return true;
    }
    request->groups_count = stream_count(input);
    request->groups = kafka_offset_fetch_request_offset_fetch_request_group_take(arena, request->groups_count);
    if (request->groups == NULL) { return false; }
    for (int32_t g = 0; g < request->groups_count; g++) {
        struct kafka_offset_fetch_request_offset_fetch_request_group *group = &request->groups[g];
        group->group_id = group_of(input);
        group->topics_count = stream_take(input, 1) >= 128 ? -1 : stream_count(input);
        group->topics =
            kafka_offset_fetch_request_offset_fetch_request_topics_take(arena,
                                                                        (int32_t)base_max_i64(group->topics_count, 0));
        if (group->topics == NULL) { return false; }
        for (int32_t t = 0; t < group->topics_count; t++) {
            group->topics[t].name = stream_topic(input);
            if (version >= 10) { group->topics[t].topic_id = stream_id(input, &known->topics); }
            group->topics[t].partition_indexes = indexes;
            group->topics[t].partition_indexes_count = (int32_t)(stream_take(input, 1) % 5);
        }
    }
    return true;
}

static bool fill_offset_delete(struct stream_input *input, struct base_arena *arena,
                               struct kafka_offset_delete_request *request)
{
    request->group_id = group_of(input);
    request->topics_count = stream_count(input);
    request->topics = kafka_offset_delete_request_offset_delete_request_topic_take(arena, request->topics_count);
    if (request->topics == NULL) { return false; }
    for (int32_t t = 0; t < request->topics_count; t++) {
        struct kafka_offset_delete_request_offset_delete_request_topic *topic = &request->topics[t];
        topic->name = stream_topic(input);
        topic->partitions_count = stream_count(input);
        topic->partitions =
            kafka_offset_delete_request_offset_delete_request_partition_take(arena, topic->partitions_count);
        if (topic->partitions == NULL) { return false; }
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            topic->partitions[p].partition_index = stream_odd_i32(input);
        }
    }
    return true;
}

static bool fill_find(struct stream_input *input, struct base_arena *arena, int16_t version,
                      struct kafka_find_coordinator_request *request)
{
    uint32_t how = stream_take(input, 1);
    if (version >= 1) { request->key_type = how < 200 ? 0 : (int8_t)stream_odd(input); }
    if (version >= 4) { return fill_texts(input, arena, &request->coordinator_keys, &request->coordinator_keys_count); }
    request->key = group_of(input);
    return true;
}

static bool fill_list(struct stream_input *input, struct base_arena *arena, int16_t version,
                      struct kafka_list_groups_request *request)
{
    static const char *const filters[] = {"Stable", "Empty", "PreparingRebalance", "Dead", "classic", "consumer",
                                          "x",      ""};
    struct kafka_text *texts = base_arena_take_array(arena, 4, sizeof *texts);
    if (texts == NULL) { return false; }
    uint32_t shape = stream_take(input, 1);
    for (uint32_t i = 0; i < 4; i++) { texts[i] = kafka_text_words(filters[stream_take(input, 1) % 8]); }
    request->states_filter = request->types_filter = texts;
    if (version >= 4) { request->states_filter_count = (int32_t)(shape % 4); }
    if (version >= 5) { request->types_filter_count = (int32_t)(shape / 4 % 4); }
    return true;
}

bool stream_fill_group(struct stream_input *input, const struct stream_known *known, struct base_arena *arena,
                       int16_t api_key, int16_t version, void *value)
{
    switch (api_key) {
    case KAFKA_API_JOIN_GROUP: return fill_join(input, known, arena, version, value);
    case KAFKA_API_SYNC_GROUP: return fill_sync(input, known, arena, version, value);
    case KAFKA_API_LEAVE_GROUP: return fill_leave(input, known, arena, version, value);
    case KAFKA_API_OFFSET_COMMIT: return fill_commit(input, known, arena, version, value);
    case KAFKA_API_OFFSET_FETCH: return fill_fetched(input, known, arena, version, value);
    case KAFKA_API_OFFSET_DELETE: return fill_offset_delete(input, arena, value);
    case KAFKA_API_FIND_COORDINATOR: return fill_find(input, arena, version, value);
    case KAFKA_API_LIST_GROUPS: return fill_list(input, arena, version, value);
    case KAFKA_API_HEARTBEAT: {
        struct kafka_heartbeat_request *request = value;
        struct who who = who_of(input, known);
        request->group_id = who.group;
        request->member_id = who.id;
        request->generation_id = who.generation;
        if (version >= 3) { request->group_instance_id = who.instance; }
        return true;
    }
    case KAFKA_API_DESCRIBE_GROUPS: {
        struct kafka_describe_groups_request *request = value;
        if (version >= 3) { request->include_authorized_operations = stream_take(input, 1) % 2 == 1; }
        return fill_texts(input, arena, &request->groups, &request->groups_count);
    }
    case KAFKA_API_DELETE_GROUPS: {
        struct kafka_delete_groups_request *request = value;
        return fill_texts(input, arena, &request->groups_names, &request->groups_names_count);
    }
    default: return true; /* ApiVersions: as it is */
    }
}

int16_t stream_group_api(struct stream_input *input)
{
    static const int16_t keys[] = {KAFKA_API_JOIN_GROUP,    KAFKA_API_SYNC_GROUP,      KAFKA_API_JOIN_GROUP,
                                   KAFKA_API_OFFSET_COMMIT, KAFKA_API_HEARTBEAT,       KAFKA_API_SYNC_GROUP,
                                   KAFKA_API_JOIN_GROUP,    KAFKA_API_OFFSET_FETCH,    KAFKA_API_LEAVE_GROUP,
                                   KAFKA_API_OFFSET_COMMIT, KAFKA_API_DESCRIBE_GROUPS, KAFKA_API_LIST_GROUPS,
                                   KAFKA_API_DELETE_GROUPS, KAFKA_API_OFFSET_DELETE,   KAFKA_API_FIND_COORDINATOR,
                                   KAFKA_API_CREATE_TOPICS};
    return keys[stream_take(input, 1) % BASE_ARRAY_COUNT(keys)];
}
