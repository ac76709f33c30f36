/* fake_group.c: see fake.h: a coordinator of one group with one real member, and others that are words alone.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake.h"

#include "wire/kafka/consumer_protocol.h"
#include "wire/kafka/find_coordinator.h"
#include "wire/kafka/heartbeat.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/leave_group.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_fetch.h"
#include "wire/kafka/sync_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OURS "m-1"

static const struct base_uuid topic_id = {{7, 7, 7}};

static int16_t next_error(struct fake *fake, int16_t api_key)
{
    struct fake_group *group = &fake->coordinator;
    if (group->errors_used[api_key] == group->error_count[api_key]) { return KAFKA_ERROR_NONE; }
    group->errors_used[api_key] += 1;
    return group->errors[api_key][group->errors_used[api_key] - 1];
}

static void say(struct fake *fake, struct fake_conn *conn, int16_t api_key, const void *answer, int16_t version,
                int32_t correlation)
{
    if (fake->coordinator.lose[api_key] > 0) {
        fake->coordinator.lose[api_key] -= 1;
        conn->is_reset = true;
        return;
    }
    fake_send_answer(conn, api_key, answer, version, correlation);
}

/* Bits of "t". */
static uint32_t bits_of(const int32_t *indexes, int32_t count)
{
    uint32_t bits = 0;
    for (int32_t i = 0; i < count; i++) { bits |= 1U << indexes[i]; }
    return bits;
}

static size_t encode_assignment(uint32_t bits, uint8_t *at, size_t room_bytes)
{
    struct kafka_consumer_protocol_assignment says;
    struct kafka_consumer_protocol_assignment_topic_partition topic;
    int32_t indexes[32];
    kafka_consumer_protocol_assignment_init(&says);
    kafka_consumer_protocol_assignment_topic_partition_init(&topic);
    topic.topic = kafka_text_words("t");
    topic.partitions = indexes;
    topic.partitions_count = 0;
    for (int32_t i = 0; i < 32; i++) {
        if ((bits >> i & 1) != 0) { indexes[topic.partitions_count++] = i; }
    }
    says.assigned_partitions = &topic;
    says.assigned_partitions_count = bits == 0 ? 0 : 1;
    struct kafka_writer writer;
    base_put_u16(at, 1);
    kafka_writer_init(&writer, at + 2, room_bytes - 2);
    assert_int_equal(kafka_consumer_protocol_assignment_encode(&says, 1, &writer), BASE_OK);
    return writer.used_bytes + 2;
}

void fake_group_add(struct fake *fake, const char *id, const char *topics, uint32_t owned, int32_t generation)
{
    struct fake_group *group = &fake->coordinator;
    struct fake_other *other = &group->others[group->other_count];
    struct kafka_consumer_protocol_subscription says;
    struct kafka_consumer_protocol_subscription_topic_partition topic;
    struct kafka_text names[4];
    int32_t indexes[32];
    char words[64];
    assert_true(group->other_count < FAKE_OTHERS_MAX);
    group->other_count += 1;
    *other = (struct fake_other){.id = id};
    kafka_consumer_protocol_subscription_init(&says);
    kafka_consumer_protocol_subscription_topic_partition_init(&topic);
    (void)snprintf(words, sizeof words, "%s", topics);
    says.topics = names;
    char *rest = NULL;
    for (char *word = strtok_r(words, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        names[says.topics_count++] = kafka_text_words(word);
    }
    topic.topic = kafka_text_words("t");
    topic.partitions = indexes;
    for (int32_t i = 0; i < 32; i++) {
        if ((owned >> i & 1) != 0) { indexes[topic.partitions_count++] = i; }
    }
    says.owned_partitions = &topic;
    says.owned_partitions_count = owned == 0 ? 0 : 1;
    says.generation_id = generation;
    struct kafka_writer writer;
    base_put_u16(other->words, 2);
    kafka_writer_init(&writer, other->words + 2, sizeof other->words - 2);
    assert_int_equal(kafka_consumer_protocol_subscription_encode(&says, 2, &writer), BASE_OK);
    other->words_bytes = writer.used_bytes + 2;
}

/* ---- answers ---- */

static void on_find(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation)
{
    struct kafka_find_coordinator_response answer;
    struct kafka_find_coordinator_response_coordinator coordinator;
    kafka_find_coordinator_response_init(&answer);
    kafka_find_coordinator_response_coordinator_init(&coordinator);
    answer.error_code = next_error(fake, KAFKA_API_FIND_COORDINATOR);
    answer.node_id = 1;
    answer.host = kafka_text_words("broker");
    answer.port = 9092;
    if (version >= 4) {
        coordinator.error_code = answer.error_code;
        coordinator.node_id = 1;
        coordinator.host = answer.host;
        coordinator.port = 9092;
        kafka_find_coordinator_response_init(&answer);
        answer.coordinators = &coordinator;
        answer.coordinators_count = 1;
    }
    say(fake, conn, KAFKA_API_FIND_COORDINATOR, &answer, version, correlation);
}

static void note_join(struct fake_group *group, const struct kafka_join_group_request *request)
{
    static uint8_t memory[1 << 16];
    struct base_arena arena;
    struct kafka_consumer_protocol_subscription says;
    struct base_slice words = kafka_bytes_slice(request->protocols[0].metadata);
    base_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(request->protocols_count, 1);
    assert_true(kafka_text_is(request->protocol_type, "consumer"));
    assert_int_equal(base_get_u16(words.at), 3);
    assert_int_equal(kafka_consumer_protocol_subscription_decode(base_slice_of(words.at + 2, words.size_bytes - 2), 3,
                                                                 &arena, &says),
                     BASE_OK);
    assert_true(says.topics_count >= 1 && kafka_text_is(says.topics[0], "t"));
    group->owned_generation = says.generation_id;
    group->owned = 0;
    if (says.owned_partitions_count > 0) {
        group->owned = bits_of(says.owned_partitions[0].partitions, says.owned_partitions[0].partitions_count);
    }
    (void)snprintf(group->strategy, sizeof group->strategy, "%.*s", (int)request->protocols[0].name.size_bytes,
                   (const char *)request->protocols[0].name.at);
}

static void on_join(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation,
                    const struct kafka_join_group_request *request)
{
    struct fake_group *group = &fake->coordinator;
    struct kafka_join_group_response answer;
    struct kafka_join_group_response_join_group_response_member members[FAKE_OTHERS_MAX + 1];
    kafka_join_group_response_init(&answer);
    note_join(group, request);
    answer.error_code = next_error(fake, KAFKA_API_JOIN_GROUP);
    answer.member_id = request->member_id;
    answer.protocol_name = kafka_text_words("");
    answer.leader = kafka_text_words("");
    bool is_static = !kafka_text_is_null(request->group_instance_id);
    if (answer.error_code == KAFKA_ERROR_NONE && request->member_id.size_bytes == 0 && version >= 4 && !is_static) {
        answer.error_code = KAFKA_ERROR_MEMBER_ID_REQUIRED;
        answer.member_id = kafka_text_words(OURS);
    }
    if (answer.error_code == KAFKA_ERROR_NONE) {
        group->generation += 1;
        answer.generation_id = group->generation;
        answer.protocol_type = kafka_text_words("consumer");
        answer.protocol_name = request->protocols[0].name;
        answer.member_id = kafka_text_words(OURS);
        answer.leader = kafka_text_words(group->is_follower ? "m-0" : OURS);
        answer.skip_assignment = group->skips_assignment && version >= 9;
        answer.members = members;
        for (uint32_t i = 0; !group->is_follower && i < group->other_count; i++) {
            struct kafka_join_group_response_join_group_response_member *member = &members[answer.members_count++];
            kafka_join_group_response_join_group_response_member_init(member);
            member->member_id = kafka_text_words(group->others[i].id);
            if (group->others[i].instance_id != NULL) {
                member->group_instance_id = kafka_text_words(group->others[i].instance_id);
            }
            member->metadata = kafka_bytes_of(group->others[i].words, group->others[i].words_bytes);
        }
        if (!group->is_follower) {
            struct kafka_join_group_response_join_group_response_member *member = &members[answer.members_count++];
            kafka_join_group_response_join_group_response_member_init(member);
            member->member_id = kafka_text_words(OURS);
            member->group_instance_id = request->group_instance_id;
            member->metadata = request->protocols[0].metadata;
        }
    }
    say(fake, conn, KAFKA_API_JOIN_GROUP, &answer, version, correlation);
}

static void note_assignment(struct fake_group *group, struct kafka_text id, struct base_slice words)
{
    static uint8_t memory[1 << 16];
    struct base_arena arena;
    struct kafka_consumer_protocol_assignment says;
    size_t used = strlen(group->divided);
    base_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(kafka_consumer_protocol_assignment_decode(base_slice_of(words.at + 2, words.size_bytes - 2),
                                                               (int16_t)base_get_u16(words.at), &arena, &says),
                     BASE_OK);
    used += (size_t)snprintf(group->divided + used, sizeof group->divided - used, "%s%.*s=", used == 0 ? "" : " ",
                             (int)id.size_bytes, (const char *)id.at);
    for (int32_t i = 0; i < says.assigned_partitions_count; i++) {
        assert_true(kafka_text_is(says.assigned_partitions[i].topic, "t"));
        for (int32_t j = 0; j < says.assigned_partitions[i].partitions_count; j++) {
            used += (size_t)snprintf(group->divided + used, sizeof group->divided - used, "%s%d", j == 0 ? "" : ",",
                                     (int)says.assigned_partitions[i].partitions[j]);
        }
    }
}

static void on_sync(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation,
                    const struct kafka_sync_group_request *request)
{
    struct fake_group *group = &fake->coordinator;
    struct kafka_sync_group_response answer;
    static uint8_t words[256];
    kafka_sync_group_response_init(&answer);
    assert_true(kafka_text_is(request->member_id, OURS));
    assert_int_equal(request->generation_id, group->generation);
    answer.error_code = next_error(fake, KAFKA_API_SYNC_GROUP);
    if (answer.error_code == KAFKA_ERROR_NONE) {
        bool divides = !group->is_follower && !group->skips_assignment;
        assert_int_equal(request->assignments_count, divides ? (int)group->other_count + 1 : 0);
        if (divides) { group->divided[0] = '\0'; }
        for (int32_t i = 0; i < request->assignments_count; i++) {
            note_assignment(group, request->assignments[i].member_id,
                            kafka_bytes_slice(request->assignments[i].assignment));
            if (kafka_text_is(request->assignments[i].member_id, OURS)) {
                answer.assignment = request->assignments[i].assignment;
            }
        }
        if (!divides) {
            answer.assignment = kafka_bytes_of(words, encode_assignment(group->given, words, sizeof words));
        }
    }
    say(fake, conn, KAFKA_API_SYNC_GROUP, &answer, version, correlation);
}

static void on_commit(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation,
                      const struct kafka_offset_commit_request *request)
{
    struct fake_group *group = &fake->coordinator;
    struct kafka_offset_commit_response answer;
    struct kafka_offset_commit_response_offset_commit_response_topic topic;
    struct kafka_offset_commit_response_offset_commit_response_partition parts[FAKE_PARTS_MAX];
    kafka_offset_commit_response_init(&answer);
    kafka_offset_commit_response_offset_commit_response_topic_init(&topic);
    assert_int_equal(request->topics_count, 1);
    assert_int_equal(request->generation_id_or_member_epoch, group->generation);
    int16_t error = next_error(fake, KAFKA_API_OFFSET_COMMIT);
    topic.name = kafka_text_words("t");
    topic.topic_id = topic_id;
    topic.partitions = parts;
    topic.partitions_count = request->topics[0].partitions_count;
    for (int32_t i = 0; i < topic.partitions_count; i++) {
        int32_t index = request->topics[0].partitions[i].partition_index;
        kafka_offset_commit_response_offset_commit_response_partition_init(&parts[i]);
        parts[i].partition_index = index;
        parts[i].error_code = error;
        if (error == KAFKA_ERROR_NONE) { group->committed[index] = request->topics[0].partitions[i].committed_offset; }
    }
    answer.topics = &topic;
    answer.topics_count = group->says_nothing ? 0 : 1;
    say(fake, conn, KAFKA_API_OFFSET_COMMIT, &answer, version, correlation);
}

static void on_place(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation,
                     const struct kafka_offset_fetch_request *request)
{
    struct fake_group *group = &fake->coordinator;
    struct kafka_offset_fetch_response answer;
    struct kafka_offset_fetch_response_offset_fetch_response_group of_group;
    struct kafka_offset_fetch_response_offset_fetch_response_topics topics;
    struct kafka_offset_fetch_response_offset_fetch_response_partitions parts[FAKE_PARTS_MAX];
    struct kafka_offset_fetch_response_offset_fetch_response_topic old_topic;
    struct kafka_offset_fetch_response_offset_fetch_response_partition old_parts[FAKE_PARTS_MAX];
    kafka_offset_fetch_response_init(&answer);
    kafka_offset_fetch_response_offset_fetch_response_group_init(&of_group);
    kafka_offset_fetch_response_offset_fetch_response_topics_init(&topics);
    kafka_offset_fetch_response_offset_fetch_response_topic_init(&old_topic);
    bool is_list = version >= 8;
    int16_t error = next_error(fake, KAFKA_API_OFFSET_FETCH);
    int32_t count =
        is_list ? request->groups[0].topics[0].partition_indexes_count : request->topics[0].partition_indexes_count;
    const int32_t *indexes =
        is_list ? request->groups[0].topics[0].partition_indexes : request->topics[0].partition_indexes;
    for (int32_t i = 0; i < count; i++) {
        kafka_offset_fetch_response_offset_fetch_response_partitions_init(&parts[i]);
        kafka_offset_fetch_response_offset_fetch_response_partition_init(&old_parts[i]);
        parts[i].partition_index = indexes[i];
        parts[i].committed_offset = group->committed[indexes[i]];
        parts[i].metadata = kafka_text_words("");
        old_parts[i].partition_index = indexes[i];
        old_parts[i].committed_offset = group->committed[indexes[i]];
        old_parts[i].metadata = kafka_text_words("");
    }
    topics.name = kafka_text_words("t");
    topics.topic_id = topic_id;
    topics.partitions = parts;
    topics.partitions_count = count;
    old_topic.name = topics.name;
    old_topic.partitions = old_parts;
    old_topic.partitions_count = count;
    of_group.group_id = kafka_text_words("g");
    of_group.error_code = error;
    of_group.topics = &topics;
    of_group.topics_count = error == KAFKA_ERROR_NONE && !group->says_nothing ? 1 : 0;
    if (is_list) {
        answer.groups = &of_group;
        answer.groups_count = 1;
    } else {
        answer.error_code = error;
        answer.topics = &old_topic;
        answer.topics_count = of_group.topics_count;
    }
    say(fake, conn, KAFKA_API_OFFSET_FETCH, &answer, version, correlation);
}

static void on_beat(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation)
{
    struct kafka_heartbeat_response answer;
    kafka_heartbeat_response_init(&answer);
    answer.error_code = next_error(fake, KAFKA_API_HEARTBEAT);
    say(fake, conn, KAFKA_API_HEARTBEAT, &answer, version, correlation);
}

static void on_leave(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation,
                     const struct kafka_leave_group_request *request)
{
    struct kafka_leave_group_response answer;
    kafka_leave_group_response_init(&answer);
    assert_true(kafka_text_is(version < 3 ? request->member_id : request->members[0].member_id, OURS));
    answer.error_code = next_error(fake, KAFKA_API_LEAVE_GROUP);
    fake->coordinator.has_left += 1;
    say(fake, conn, KAFKA_API_LEAVE_GROUP, &answer, version, correlation);
}

bool fake_group_serve(struct fake *fake, struct fake_conn *conn, int16_t api_key, int16_t version, int32_t correlation,
                      const void *request)
{
    switch (api_key) {
    case KAFKA_API_FIND_COORDINATOR: on_find(fake, conn, version, correlation); return true;
    case KAFKA_API_JOIN_GROUP: on_join(fake, conn, version, correlation, request); return true;
    case KAFKA_API_SYNC_GROUP: on_sync(fake, conn, version, correlation, request); return true;
    case KAFKA_API_HEARTBEAT: on_beat(fake, conn, version, correlation); return true;
    case KAFKA_API_OFFSET_COMMIT: on_commit(fake, conn, version, correlation, request); return true;
    case KAFKA_API_OFFSET_FETCH: on_place(fake, conn, version, correlation, request); return true;
    case KAFKA_API_LEAVE_GROUP: on_leave(fake, conn, version, correlation, request); return true;
    default: return false;
    }
}
