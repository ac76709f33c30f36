/* crowd_operator.c: see crowd__parts.h. Who commits without being a member, who makes and unmakes topics, groups and offsets, who
 * asks for what it may not; and a last look at all that is committed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "crowd__parts.h"

#include <stdlib.h>

#include "sim/check/groups.h"
#include "wire/kafka/create_partitions.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_groups.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/describe_groups.h"
#include "wire/kafka/find_coordinator.h"
#include "wire/kafka/heartbeat.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/leave_group.h"
#include "wire/kafka/list_groups.h"
#include "wire/kafka/metadata.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_delete.h"
#include "wire/kafka/sync_group.h"

#define PATIENCE_NS (10 * WORLD_S)

static struct history_op call_op(const struct actor *actor, const struct crowd_member *member, int16_t api_key)
{
    struct history_op op = crowd__op(actor, member, HISTORY_CALL);
    op.count = api_key;
    return op;
}

/* A group that is drawn: of consumers, or one that is committed to without members. */
static void draw_group(struct actor *actor, char group_out[16])
{
    uint32_t number = crowd__below(actor, crowd__groups(actor)->group_count);
    bool is_simple = crowd__chance(actor, 4);
    (void)snprintf(group_out, 16, "%c%u", is_simple ? 's' : 'g', (unsigned)number % 10000u); /* short */
}

/* ---- topics ---------------------------------------------------------------------------------------------------------------- */

static bool ask_create(struct actor *actor, struct crowd_member *member, uint32_t t)
{
    struct kafka_create_topics_request_creatable_topic wanted;
    kafka_create_topics_request_creatable_topic_init(&wanted);
    wanted.name = kafka_text_words(crowd__groups(actor)->topics[t].name);
    wanted.num_partitions = 1 + (int32_t)crowd__below(actor, 4);
    wanted.replication_factor = 1;
    struct kafka_create_topics_request request;
    kafka_create_topics_request_init(&request);
    request.topics = &wanted;
    request.topics_count = 1;
    request.timeout_ms = 8000;
    struct history_op op = crowd__topic_op(actor, member, HISTORY_CREATE, t);
    op.count = wanted.num_partitions;
    return crowd__ask(actor, member, KAFKA_API_CREATE_TOPICS, 7, &request, &op, 1, PATIENCE_NS);
}

static bool ask_delete(struct actor *actor, struct crowd_member *member, uint32_t t)
{
    struct kafka_delete_topics_request_delete_topic_state wanted;
    kafka_delete_topics_request_delete_topic_state_init(&wanted);
    wanted.name = kafka_text_words(crowd__groups(actor)->topics[t].name);
    struct kafka_delete_topics_request request;
    kafka_delete_topics_request_init(&request);
    request.topics = &wanted;
    request.topics_count = 1;
    request.timeout_ms = 8000;
    struct history_op op = crowd__topic_op(actor, member, HISTORY_DELETE, t);
    return crowd__ask(actor, member, KAFKA_API_DELETE_TOPICS, 6, &request, &op, 1, PATIENCE_NS);
}

static bool ask_grow(struct actor *actor, struct crowd_member *member, uint32_t t)
{
    struct actor_group_topic *topic = &crowd__groups(actor)->topics[t];
    if (topic->partition_count == 0 || topic->partition_count + 1 >= ACTOR_GROUP_PARTITIONS_MAX) { return false; }
    struct kafka_create_partitions_request_create_partitions_topic wanted;
    kafka_create_partitions_request_create_partitions_topic_init(&wanted);
    wanted.name = kafka_text_words(topic->name);
    wanted.count = topic->partition_count + 1;
    wanted.assignments_count = -1;
    struct kafka_create_partitions_request request;
    kafka_create_partitions_request_init(&request);
    request.topics = &wanted;
    request.topics_count = 1;
    request.timeout_ms = 8000;
    struct history_op op = crowd__topic_op(actor, member, HISTORY_GROW, t);
    op.count = wanted.count;
    return crowd__ask(actor, member, KAFKA_API_CREATE_PARTITIONS, (int16_t)crowd__below(actor, 4), &request, &op, 1,
                      PATIENCE_NS);
}

/* How it is now, whatever became of what was asked. */
static bool ask_topic(struct actor *actor, struct crowd_member *member, uint32_t t)
{
    struct kafka_metadata_request_metadata_request_topic wanted;
    kafka_metadata_request_metadata_request_topic_init(&wanted);
    wanted.name = kafka_text_words(crowd__groups(actor)->topics[t].name);
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.topics = &wanted;
    request.topics_count = 1;
    request.allow_auto_topic_creation = false;
    struct history_op op = crowd__topic_op(actor, member, HISTORY_CALL, t);
    op.count = KAFKA_API_METADATA;
    return crowd__ask(actor, member, KAFKA_API_METADATA, 12, &request, &op, 1, PATIENCE_NS);
}

bool crowd__operator_is_settled(const struct actor *actor)
{
    const struct actor_groups *groups = crowd__groups(actor);
    for (uint32_t t = 0; t < groups->topic_count; t++) {
        if (groups->topics[t].partition_count == 0) { return false; }
    }
    return true;
}

/* ---- groups ---------------------------------------------------------------------------------------------------------------- */

static bool ask_disband(struct actor *actor, struct crowd_member *member)
{
    struct history_op op = crowd__op(actor, member, HISTORY_DISBAND);
    draw_group(actor, op.group->group);
    struct kafka_text name = kafka_text_words(op.group->group);
    struct kafka_delete_groups_request request;
    kafka_delete_groups_request_init(&request);
    request.groups_names = &name;
    request.groups_names_count = 1;
    return crowd__ask(actor, member, KAFKA_API_DELETE_GROUPS, (int16_t)crowd__below(actor, 3), &request, &op, 1,
                      PATIENCE_NS);
}

static bool ask_uncommit(struct actor *actor, struct crowd_member *member)
{
    struct actor_groups *groups = crowd__groups(actor);
    uint32_t t = crowd__below(actor, groups->topic_count);
    struct history_op op = crowd__topic_op(actor, member, HISTORY_UNCOMMIT, t);
    draw_group(actor, op.group->group);
    op.partition = (int32_t)crowd__below(actor, 3);
    struct kafka_offset_delete_request_offset_delete_request_partition line;
    kafka_offset_delete_request_offset_delete_request_partition_init(&line);
    line.partition_index = op.partition;
    struct kafka_offset_delete_request_offset_delete_request_topic topic;
    kafka_offset_delete_request_offset_delete_request_topic_init(&topic);
    topic.name = kafka_text_words(groups->topics[t].name);
    topic.partitions = &line;
    topic.partitions_count = 1;
    struct kafka_offset_delete_request request;
    kafka_offset_delete_request_init(&request);
    request.group_id = kafka_text_words(op.group->group);
    request.topics = &topic;
    request.topics_count = 1;
    return crowd__ask(actor, member, KAFKA_API_OFFSET_DELETE, 0, &request, &op, 1, PATIENCE_NS);
}

static bool ask_describe(struct actor *actor, struct crowd_member *member)
{
    char group[16];
    draw_group(actor, group);
    struct kafka_text name = kafka_text_words(group);
    struct kafka_describe_groups_request request;
    kafka_describe_groups_request_init(&request);
    request.groups = &name;
    request.groups_count = 1;
    struct history_op op = call_op(actor, member, KAFKA_API_DESCRIBE_GROUPS);
    return crowd__ask(actor, member, KAFKA_API_DESCRIBE_GROUPS, (int16_t)crowd__below(actor, 7), &request, &op, 1,
                      PATIENCE_NS);
}

static bool ask_list(struct actor *actor, struct crowd_member *member)
{
    struct kafka_list_groups_request request;
    kafka_list_groups_request_init(&request);
    struct history_op op = call_op(actor, member, KAFKA_API_LIST_GROUPS);
    return crowd__ask(actor, member, KAFKA_API_LIST_GROUPS, (int16_t)crowd__below(actor, 4), &request, &op, 1,
                      PATIENCE_NS);
}

static bool ask_coordinator(struct actor *actor, struct crowd_member *member)
{
    struct kafka_find_coordinator_request request;
    kafka_find_coordinator_request_init(&request);
    request.key = kafka_text_words(member->group);
    struct history_op op = call_op(actor, member, KAFKA_API_FIND_COORDINATOR);
    return crowd__ask(actor, member, KAFKA_API_FIND_COORDINATOR, (int16_t)crowd__below(actor, 4), &request, &op, 1,
                      PATIENCE_NS);
}

/* An operator removes a static member by its instance id. */
static bool ask_remove(struct actor *actor, struct crowd_member *member)
{
    const struct crowd *crowd = actor->crowd;
    const struct crowd_member *other = &crowd->members[crowd__below(actor, crowd->member_count)];
    if (other->instance[0] == 0) { return false; }
    struct history_op op = crowd__op(actor, other, HISTORY_LEAVE);
    op.group->member[0] = 0;
    op.group->generation = -1;
    struct kafka_leave_group_request_member_identity line;
    kafka_leave_group_request_member_identity_init(&line);
    line.member_id = kafka_text_words("");
    line.group_instance_id = kafka_text_words(other->instance);
    struct kafka_leave_group_request request;
    kafka_leave_group_request_init(&request);
    request.group_id = kafka_text_words(other->group);
    request.members = &line;
    request.members_count = 1;
    return crowd__ask(actor, member, KAFKA_API_LEAVE_GROUP, (int16_t)(3 + crowd__below(actor, 3)), &request, &op, 1,
                      PATIENCE_NS);
}

static bool do_something(struct actor *actor, struct crowd_member *member)
{
    struct actor_groups *groups = crowd__groups(actor);
    uint32_t t = crowd__below(actor, groups->topic_count);
    if (groups->topics[t].partition_count == 0) { return ask_create(actor, member, t); }
    switch (crowd__below(actor, 16)) {
    case 0:
    case 1: return ask_grow(actor, member, t);
    case 2: return t > 0 && ask_delete(actor, member, t); /* the first stays */
    case 3:
    case 4: return ask_disband(actor, member);
    case 5:
    case 6:
    case 7: return ask_uncommit(actor, member);
    case 8:
    case 9: return ask_remove(actor, member);
    case 10: return ask_list(actor, member);
    case 11: return ask_coordinator(actor, member);
    case 12: return ask_topic(actor, member, t);
    case 13: {
        char group[16];
        draw_group(actor, group);
        return crowd__fetch(actor, member, group, t);
    }
    default: return ask_describe(actor, member);
    }
}

/* ---- those who are no members ------------------------------------------------------------------------------------------------ */

static void operate(struct actor *actor, struct crowd_member *member)
{
    struct actor_groups *groups = crowd__groups(actor);
    for (uint32_t t = 0; t < groups->topic_count; t++) {
        if (groups->topics[t].partition_count > 0) { continue; }
        bool is_done = crowd__chance(actor, 3) ? ask_topic(actor, member, t) : ask_create(actor, member, t);
        if (is_done) { return; }
    }
    if (member->probes > 0) {
        (void)ask_list(actor, member); /* else later */
        return;
    }
    if (crowd__is_loading(actor) && do_something(actor, member)) { return; }
    member->next_ns = actor->now_ns + 50 * WORLD_MS;
}

/* It assigns partitions by itself, and commits for its group, which has no members; now and then for one that has. */
static void commit_alone(struct actor *actor, struct crowd_member *member)
{
    bool wants = crowd__is_loading(actor) || member->probes > 0;
    char own = member->group[0];
    bool is_strange = crowd__is_loading(actor) && crowd__chance(actor, 10);
    if (is_strange) { member->group[0] = 'g'; }
    bool is_done = wants && (member->probes == 0 && crowd__chance(actor, 3)
                                 ? crowd__fetch(actor, member, member->group,
                                                crowd__below(actor, crowd__groups(actor)->topic_count))
                                 : crowd__commit(actor, member));
    member->group[0] = own;
    if (!is_done) { member->next_ns = actor->now_ns + 50 * WORLD_MS; }
}

void crowd__operate(struct actor *actor, struct crowd_member *member)
{
    if (member->question_count > 0 || actor->now_ns < member->next_ns) { return; }
    if (member->job == JOB_SIMPLE) {
        commit_alone(actor, member);
    } else {
        operate(actor, member);
    }
}

/* ---- rude ones ---------------------------------------------------------------------------------------------------------------- */

static bool join_rudely(struct actor *actor, struct crowd_member *member)
{
    struct kafka_join_group_request_join_group_request_protocol protocol;
    kafka_join_group_request_join_group_request_protocol_init(&protocol);
    protocol.name = kafka_text_words("nobody-else-has-it");
    struct kafka_join_group_request request;
    kafka_join_group_request_init(&request);
    request.group_id = kafka_text_words(member->group);
    request.session_timeout_ms = member->session_ms;
    request.rebalance_timeout_ms = member->rebalance_ms;
    request.protocol_type = kafka_text_words("consumer");
    request.protocols = &protocol;
    request.protocols_count = 1;
    struct history_op op = crowd__op(actor, member, HISTORY_JOIN);
    op.group->session_ms = member->session_ms;
    op.group->rebalance_ms = member->rebalance_ms;
    op.group->member[0] = op.group->instance[0] = 0;
    static const char garbage[] = "\x00\x01\x7f\xff\xff\xffgarbage";
    switch (crowd__below(actor, 6)) {
    case 0: request.protocol_type = kafka_text_words("connect"); break;
    case 1: request.protocols_count = 0; break;
    case 2: request.session_timeout_ms = crowd__chance(actor, 2) ? 1 : INT32_MAX; break;
    case 3:
        request.member_id = kafka_text_words("no-such-member");
        (void)snprintf(op.group->member, sizeof op.group->member, "no-such-member"); /* short */
        break;
    case 4: request.protocol_type = kafka_text_words(""); break;
    default: /* an id is given out, and never used */
        protocol.name = kafka_text_words("range");
        protocol.metadata = kafka_bytes_of(garbage, sizeof garbage - 1);
    }
    return crowd__ask(actor, member, KAFKA_API_JOIN_GROUP, 4, &request, &op, 1, PATIENCE_NS);
}

/* With the id of another, as an old generation has it, or with one that nobody has. */
static void borrow(struct actor *actor, struct crowd_member *member)
{
    const struct crowd *crowd = actor->crowd;
    const struct crowd_member *other = &crowd->members[crowd__below(actor, crowd->member_count)];
    memcpy(member->group, other->group, sizeof member->group);
    memcpy(member->id, other->id, sizeof member->id);
    static const int32_t off[] = {-1, 1, -2, 1000};
    uint32_t which = crowd__below(actor, BASE_ARRAY_COUNT(off));
    member->generation = other->generation + off[which];
    if (member->generation < 0) { member->generation = 77777; }
    if (member->id[0] == 0 || crowd__chance(actor, 3)) {
        (void)snprintf(member->id, sizeof member->id, "no-such-member"); /* short */
    }
}

static bool sync_rudely(struct actor *actor, struct crowd_member *member)
{
    struct history_op op = crowd__op(actor, member, HISTORY_SYNC);
    op.count = 1; /* if it is the leader's id and generation after all: nothing */
    struct kafka_sync_group_request request;
    kafka_sync_group_request_init(&request);
    request.group_id = kafka_text_words(member->group);
    request.generation_id = member->generation;
    request.member_id = kafka_text_words(member->id);
    return crowd__ask(actor, member, KAFKA_API_SYNC_GROUP, 2, &request, &op, 1, PATIENCE_NS);
}

void crowd__annoy(struct actor *actor, struct crowd_member *member)
{
    if (member->question_count > 0 || actor->now_ns < member->next_ns) { return; }
    if (!crowd__is_loading(actor)) {
        member->next_ns = UINT64_MAX;
        return;
    }
    borrow(actor, member);
    member->instance[0] = 0;
    bool is_done = false;
    switch (crowd__below(actor, 5)) {
    case 0: is_done = join_rudely(actor, member); break;
    case 1: is_done = sync_rudely(actor, member); break;
    case 2: is_done = crowd__heartbeat(actor, member); break;
    default: is_done = crowd__commit(actor, member); break;
    }
    if (!is_done) { member->next_ns = actor->now_ns + 50 * WORLD_MS; }
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------ */

static struct actor_group_topic *topic_named(struct actor *actor, const char *name)
{
    struct actor_groups *groups = crowd__groups(actor);
    for (uint32_t t = 0; t < groups->topic_count; t++) {
        if (strcmp(groups->topics[t].name, name) == 0) { return &groups->topics[t]; }
    }
    return NULL;
}

static void take_topic(struct actor *actor, const struct history_op *op, const struct kafka_metadata_response *answer)
{
    struct actor_group_topic *topic = topic_named(actor, op->topic);
    if (topic == NULL || answer->topics_count != 1) { return; }
    bool is_there = answer->topics[0].error_code == 0;
    if (!is_there && answer->topics[0].error_code != KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION) { return; }
    int32_t count = is_there ? answer->topics[0].partitions_count : 0;
    topic->partition_count = (int32_t)base_min_i64(count, ACTOR_GROUP_PARTITIONS_MAX);
    topic->id = is_there ? answer->topics[0].topic_id : (struct base_uuid){{0}};
}

static int32_t error_of(struct actor *actor, const struct crowd_question *question, const struct history_op *op,
                        const void *answer)
{
    struct actor_group_topic *topic = topic_named(actor, op->topic);
    switch (question->api_key) {
    case KAFKA_API_CREATE_TOPICS: {
        const struct kafka_create_topics_response *created = answer;
        if (created->topics_count != 1) { return -1; }
        if (created->topics[0].error_code == 0 && topic != NULL) {
            topic->partition_count = (int32_t)op->count;
            topic->id = created->topics[0].topic_id;
        }
        return created->topics[0].error_code;
    }
    case KAFKA_API_DELETE_TOPICS: {
        const struct kafka_delete_topics_response *deleted = answer;
        if (deleted->responses_count != 1) { return -1; }
        if (deleted->responses[0].error_code == 0 && topic != NULL) {
            topic->partition_count = 0;
            topic->id = (struct base_uuid){{0}};
        }
        return deleted->responses[0].error_code;
    }
    case KAFKA_API_CREATE_PARTITIONS: {
        const struct kafka_create_partitions_response *grown = answer;
        if (grown->results_count != 1) { return -1; }
        if (grown->results[0].error_code == 0 && topic != NULL) { topic->partition_count = (int32_t)op->count; }
        return grown->results[0].error_code;
    }
    case KAFKA_API_METADATA: take_topic(actor, op, answer); return 0;
    case KAFKA_API_DELETE_GROUPS: {
        const struct kafka_delete_groups_response *deleted = answer;
        return deleted->results_count == 1 ? deleted->results[0].error_code : -1;
    }
    case KAFKA_API_OFFSET_DELETE: {
        const struct kafka_offset_delete_response *deleted = answer;
        if (deleted->error_code != 0) { return deleted->error_code; }
        bool is_one = deleted->topics_count == 1 && deleted->topics[0].partitions_count == 1;
        return is_one ? deleted->topics[0].partitions[0].error_code : -1;
    }
    case KAFKA_API_LEAVE_GROUP: return crowd__left_error(answer);
    case KAFKA_API_LIST_GROUPS: return ((const struct kafka_list_groups_response *)answer)->error_code;
    case KAFKA_API_JOIN_GROUP: return ((const struct kafka_join_group_response *)answer)->error_code;
    case KAFKA_API_SYNC_GROUP: return ((const struct kafka_sync_group_response *)answer)->error_code;
    case KAFKA_API_HEARTBEAT: return ((const struct kafka_heartbeat_response *)answer)->error_code;
    default: return 0;
    }
}

void crowd__operator_answer(struct actor *actor, struct crowd_member *member, const struct crowd_question *question,
                            const void *answer)
{
    if (!crowd__common_answer(actor, member, question, answer)) {
        uint32_t op = question->ops[0];
        int32_t error = error_of(actor, question, crowd__op_at(actor, op), answer);
        bool is_probe = question->api_key == KAFKA_API_LIST_GROUPS && error == 0;
        if (is_probe) { member->probes = 0; }
        if (question->api_key == KAFKA_API_SYNC_GROUP && error == 0) { /* it has guessed well */
            const struct kafka_sync_group_response *synced = answer;
            crowd__op_at(actor, op)->group->owned = check_owned_text(kafka_bytes_slice(synced->assignment));
        }
        crowd__end(actor, op, error);
    }
    uint64_t pause_ns = actor->spec->pause_max_ns;
    if (crowd__is_loading(actor)) {
        member->next_ns = actor->now_ns + WORLD_MS + base_prng_below(&actor->prng, 2 * pause_ns);
    }
    if (actor->crowd->is_looking && question->api_key == KAFKA_API_OFFSET_FETCH) {
        bool is_told = true;
        for (uint32_t i = 0; i < question->op_count; i++) {
            is_told = is_told && crowd__op_at(actor, question->ops[i])->what == HISTORY_OK;
        }
        if (is_told) { member->looks += 1; }
    }
}

/* ---- a last look ---------------------------------------------------------------------------------------------------------------- */

void crowd__look(struct actor *actor, struct crowd_member *member)
{
    const struct actor_groups *groups = crowd__groups(actor);
    uint32_t all = 2 * groups->group_count * groups->topic_count;
    if (member->looks >= all) {
        member->looks = UINT32_MAX;
        return;
    }
    uint32_t number = member->looks / groups->topic_count;
    char group[16];
    (void)snprintf(group, sizeof group, "%c%u", number % 2 == 0 ? 'g' : 's',
                   (unsigned)(number / 2) % 10000u);                               /* short */
    (void)crowd__fetch(actor, member, group, member->looks % groups->topic_count); /* else later */
    member->next_ns = actor->now_ns + 5 * WORLD_MS;
}
