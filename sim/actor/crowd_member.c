/* crowd_member.c: see crowd__parts.h. A member of a group: joins, is assigned partitions, commits; and how it misbehaves.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "crowd__parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "sim/check/groups.h"
#include "wire/kafka/heartbeat.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/leave_group.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_fetch.h"
#include "wire/kafka/sync_group.h"

#define PATIENCE_NS (6 * WORLD_S)
#define IDLE_NS     (60 * WORLD_S) /* longer than any round may take */

typedef struct kafka_offset_commit_request_offset_commit_request_partition commit_line;
typedef struct kafka_offset_fetch_response_offset_fetch_response_partitions fetched_line;

static bool has(const struct crowd_member *member, enum crowd_manner manner) { return (member->manners & manner) != 0; }

static struct kafka_text instance_of(const struct crowd_member *member)
{
    return member->instance[0] == 0 ? kafka_text_null() : kafka_text_words(member->instance);
}

/* While it waits: some are hasty. */
static uint64_t patience(struct actor *actor, const struct crowd_member *member, uint64_t patience_ns)
{
    bool is_short = has(member, MANNER_HASTY) && crowd__is_loading(actor) && crowd__chance(actor, 3);
    return is_short ? 1 + base_prng_below(&actor->prng, 800 * WORLD_MS) : patience_ns;
}

static uint64_t round_ns(const struct actor *actor)
{
    const struct actor_groups *groups = crowd__groups(actor);
    return (uint64_t)(groups->rebalance_max_ms + groups->session_max_ms) * 2 * WORLD_MS + 20 * WORLD_S;
}

/* ---- asking -------------------------------------------------------------------------------------------------------------- */

static void join(struct actor *actor, struct crowd_member *member)
{
    struct history_op op = crowd__op(actor, member, HISTORY_JOIN);
    const struct actor_groups *groups = crowd__groups(actor);
    for (uint32_t t = 0; t < groups->topic_count; t++) {
        if ((member->topics >> t & 1u) == 0) { continue; }
        size_t used = strlen(op.topic);
        (void)snprintf(op.topic + used, sizeof op.topic - used, "%s%s", used == 0 ? "" : ",",
                       groups->topics[t].name); /* fits */
    }
    op.group->session_ms = member->session_ms;
    op.group->rebalance_ms = member->rebalance_ms;
    struct base_slice words = crowd__subscription(actor, member);
    struct kafka_join_group_request_join_group_request_protocol protocols[2];
    for (size_t i = 0; i < BASE_ARRAY_COUNT(protocols); i++) {
        kafka_join_group_request_join_group_request_protocol_init(&protocols[i]);
        protocols[i].name =
            kafka_text_words(i == 0 && member->is_cooperative ? "cooperative" : (i == 0 ? "range" : "plain"));
        protocols[i].metadata = kafka_bytes_of(words.at, words.size_bytes);
    }
    struct kafka_join_group_request request;
    kafka_join_group_request_init(&request);
    request.group_id = kafka_text_words(member->group);
    request.session_timeout_ms = member->session_ms;
    request.rebalance_timeout_ms = member->rebalance_ms;
    request.member_id = kafka_text_words(member->id);
    if (member->version >= 5) { request.group_instance_id = instance_of(member); }
    request.protocol_type = kafka_text_words("consumer");
    request.protocols = protocols;
    request.protocols_count = (int32_t)(1 + member->number % 2);
    uint64_t patience_ns = patience(actor, member, round_ns(actor));
    (void)crowd__ask(actor, member, KAFKA_API_JOIN_GROUP, member->version, &request, &op, 1,
                     patience_ns); /* else later */
}

static void sync(struct actor *actor, struct crowd_member *member)
{
    struct crowd *crowd = actor->crowd;
    struct history_op op = crowd__op(actor, member, HISTORY_SYNC);
    struct kafka_sync_group_request request;
    kafka_sync_group_request_init(&request);
    request.group_id = kafka_text_words(member->group);
    request.generation_id = member->generation;
    request.member_id = kafka_text_words(member->id);
    int16_t version = (int16_t)(member->version >= 5 ? 3 + (int16_t)(member->number % 3) : member->version % 3);
    if (version >= 3) { request.group_instance_id = instance_of(member); }
    if (version >= 5) {
        request.protocol_type = kafka_text_words("consumer");
        request.protocol_name = kafka_text_words(member->protocol);
    }
    typedef struct kafka_sync_group_request_sync_group_request_assignment line;
    line lines[ACTOR_MEMBERS_MAX];
    uint32_t given[ACTOR_MEMBERS_MAX * ACTOR_GROUP_TOPICS_MAX];
    if (member->leads) {
        op.count = 1 + (int64_t)crowd__assign(actor, member, given);
        size_t used = 0;
        for (uint32_t i = 0; i < member->seat_count; i++) {
            struct base_slice words = crowd__assignment(actor, given + (size_t)i * ACTOR_GROUP_TOPICS_MAX,
                                                        crowd->room + used, CROWD_SCRATCH_BYTES - used);
            used += words.size_bytes;
            kafka_sync_group_request_sync_group_request_assignment_init(&lines[i]);
            lines[i].member_id = kafka_text_words(member->seats[i].id);
            lines[i].assignment = kafka_bytes_of(words.at, words.size_bytes);
        }
        request.assignments = lines;
        request.assignments_count = (int32_t)member->seat_count;
    }
    uint64_t patience_ns = patience(actor, member, round_ns(actor));
    (void)crowd__ask(actor, member, KAFKA_API_SYNC_GROUP, version, &request, &op, 1, patience_ns); /* else later */
}

bool crowd__heartbeat(struct actor *actor, struct crowd_member *member)
{
    struct history_op op = crowd__op(actor, member, HISTORY_HEARTBEAT);
    struct kafka_heartbeat_request request;
    kafka_heartbeat_request_init(&request);
    request.group_id = kafka_text_words(member->group);
    request.generation_id = member->generation;
    request.member_id = kafka_text_words(member->id);
    int16_t version = member->instance[0] != 0 ? 3 + (int16_t)(member->number % 2) : (int16_t)(member->number % 5);
    if (version >= 3) { request.group_instance_id = instance_of(member); }
    return crowd__ask(actor, member, KAFKA_API_HEARTBEAT, version, &request, &op, 1, PATIENCE_NS);
}

static bool leave(struct actor *actor, struct crowd_member *member)
{
    struct history_op op = crowd__op(actor, member, HISTORY_LEAVE);
    op.group->generation = -1;
    struct kafka_leave_group_request_member_identity line;
    kafka_leave_group_request_member_identity_init(&line);
    struct kafka_leave_group_request request;
    kafka_leave_group_request_init(&request);
    request.group_id = kafka_text_words(member->group);
    int16_t version = member->instance[0] != 0 ? 3 + (int16_t)(member->number % 3) : (int16_t)(member->number % 6);
    if (version < 3) {
        request.member_id = kafka_text_words(member->id);
    } else {
        line.member_id = kafka_text_words(member->id);
        line.group_instance_id = instance_of(member);
        request.members = &line;
        request.members_count = 1;
    }
    return crowd__ask(actor, member, KAFKA_API_LEAVE_GROUP, version, &request, &op, 1, PATIENCE_NS);
}

/* Of one topic, one to three partitions: of those that it owns; one that is nobody's, or nobody: of any. */
bool crowd__commit(struct actor *actor, struct crowd_member *member)
{
    struct actor_groups *groups = crowd__groups(actor);
    uint32_t t = crowd__below(actor, groups->topic_count);
    bool is_member = member->job == JOB_CONSUMER;
    uint32_t of = is_member ? member->owned[t] : (1u << groups->topics[t].partition_count) - 1;
    if (of == 0) { return false; }
    int16_t version = (int16_t)(2 + crowd__below(actor, 9));
    if (member->instance[0] != 0) { version = (int16_t)(7 + crowd__below(actor, 4)); }
    if (version == 10 && base_uuid_is_none(groups->topics[t].id)) { version = 9; }
    commit_line lines[CROWD_OPS_MAX];
    struct history_op ops[CROWD_OPS_MAX];
    char tags[CROWD_OPS_MAX][24];
    uint32_t count = 0;
    for (int32_t p = 0; p < ACTOR_GROUP_PARTITIONS_MAX && count < 3; p++) {
        if ((of >> p & 1u) == 0 || (count > 0 && crowd__chance(actor, 2))) { continue; }
        if (count == 0 && (of >> (p + 1)) != 0 && crowd__chance(actor, 2)) { continue; }
        int64_t offset = 1 + crowd__below(actor, 1000);
        kafka_offset_commit_request_offset_commit_request_partition_init(&lines[count]);
        (void)snprintf(tags[count], sizeof tags[count], "tag=%" PRId64, groups->tags); /* short */
        lines[count].partition_index = p;
        lines[count].committed_offset = offset;
        lines[count].committed_metadata = kafka_text_words(tags[count]);
        struct history_op op = crowd__topic_op(actor, member, HISTORY_COMMIT, t);
        op.partition = p;
        op.at = offset;
        op.group->tag = groups->tags;
        ops[count] = op;
        groups->tags += 1;
        count += 1;
    }
    struct kafka_offset_commit_request_offset_commit_request_topic topic;
    kafka_offset_commit_request_offset_commit_request_topic_init(&topic);
    topic.name = kafka_text_words(groups->topics[t].name);
    topic.topic_id = groups->topics[t].id;
    topic.partitions = lines;
    topic.partitions_count = (int32_t)count;
    struct kafka_offset_commit_request request;
    kafka_offset_commit_request_init(&request);
    request.group_id = kafka_text_words(member->group);
    request.generation_id_or_member_epoch = member->generation;
    request.member_id = kafka_text_words(member->id);
    if (version >= 7) { request.group_instance_id = instance_of(member); }
    bool is_short = groups->has_short_lives && version <= 4 && crowd__is_loading(actor) && crowd__chance(actor, 2);
    if (is_short) { request.retention_time_ms = 200 + (int64_t)crowd__below(actor, 3000); }
    request.topics = &topic;
    request.topics_count = 1;
    return crowd__ask(actor, member, KAFKA_API_OFFSET_COMMIT, version, &request, ops, count,
                      patience(actor, member, PATIENCE_NS));
}

/* All partitions of a topic, by name. */
bool crowd__fetch(struct actor *actor, struct crowd_member *member, const char *group, uint32_t topic)
{
    const struct actor_groups *groups = crowd__groups(actor);
    int32_t indexes[CROWD_OPS_MAX];
    struct history_op ops[CROWD_OPS_MAX];
    int32_t count = (int32_t)base_min_i64(base_max_i64(groups->topics[topic].partition_count, 1), CROWD_OPS_MAX);
    for (int32_t p = 0; p < count; p++) {
        indexes[p] = p;
        ops[p] = crowd__topic_op(actor, member, HISTORY_COMMITTED, topic);
        ops[p].group->member[0] = 0;
        ops[p].group->instance[0] = 0;
        ops[p].group->generation = -1;
        (void)snprintf(ops[p].group->group, sizeof ops[p].group->group, "%s", group); /* as long */
        ops[p].partition = p;
    }
    int16_t version = (int16_t)(2 + crowd__below(actor, 8));
    struct kafka_offset_fetch_request_offset_fetch_request_topic old;
    kafka_offset_fetch_request_offset_fetch_request_topic_init(&old);
    old.name = kafka_text_words(groups->topics[topic].name);
    old.partition_indexes = indexes;
    old.partition_indexes_count = count;
    struct kafka_offset_fetch_request_offset_fetch_request_topics line;
    kafka_offset_fetch_request_offset_fetch_request_topics_init(&line);
    line.name = old.name;
    line.partition_indexes = indexes;
    line.partition_indexes_count = count;
    struct kafka_offset_fetch_request_offset_fetch_request_group one;
    kafka_offset_fetch_request_offset_fetch_request_group_init(&one);
    one.group_id = kafka_text_words(group);
    one.topics = &line;
    one.topics_count = 1;
    struct kafka_offset_fetch_request request;
    kafka_offset_fetch_request_init(&request);
    if (version < 8) {
        request.group_id = one.group_id;
        request.topics = &old;
        request.topics_count = 1;
    } else {
        request.groups = &one;
        request.groups_count = 1;
    }
    return crowd__ask(actor, member, KAFKA_API_OFFSET_FETCH, version, &request, ops, (uint32_t)count, PATIENCE_NS);
}

/* ---- answers -------------------------------------------------------------------------------------------------------------- */

static void copy_text(char *to, size_t size_bytes, struct kafka_text from)
{
    struct base_slice text = kafka_text_slice(from);
    size_t bytes = base_min_size(size_bytes - 1, text.size_bytes);
    if (bytes > 0) { memcpy(to, text.at, bytes); }
    to[bytes] = 0;
}

static void be_nobody(struct crowd_member *member)
{
    member->id[0] = 0;
    member->generation = -1;
    member->leads = false;
    member->state = STATE_OUT;
    member->has_settled = false;
    memset(member->owned, 0, sizeof member->owned);
}

static void begin_anew(struct crowd_member *member)
{
    member->state = STATE_OUT;
    member->has_settled = false;
    if (!member->is_cooperative) { memset(member->owned, 0, sizeof member->owned); }
}

/* What any of its requests may be told. */
static void refused(struct actor *actor, struct crowd_member *member, int32_t error)
{
    switch (error) {
    case KAFKA_ERROR_UNKNOWN_MEMBER_ID:
        /* A few go on for a while as if they had not heard it. */
        if (member->job == JOB_CONSUMER && has(member, MANNER_SLEEPY) && crowd__is_loading(actor) &&
            crowd__chance(actor, 2)) {
            return;
        }
        be_nobody(member);
        return;
    case KAFKA_ERROR_ILLEGAL_GENERATION:
        if (has(member, MANNER_SLEEPY) && crowd__is_loading(actor) && crowd__chance(actor, 3)) { return; }
        memset(member->owned, 0, sizeof member->owned);
        begin_anew(member);
        return;
    case KAFKA_ERROR_REBALANCE_IN_PROGRESS: begin_anew(member); return;
    case KAFKA_ERROR_FENCED_INSTANCE_ID:
        be_nobody(member);
        if (!crowd__is_loading(actor)) { member->state = STATE_DEAD; } /* the other one goes on */
        member->next_ns = actor->now_ns + 500 * WORLD_MS + base_prng_below(&actor->prng, 2 * WORLD_S);
        return;
    case KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL: be_nobody(member); return;
    default: return; /* later, again */
    }
}

/* A static one that is started anew as soon as it has joined, while its leader's assignment is waited for, and is back at once: it
 * remembers nothing but who it is. */
static bool is_started_anew(struct actor *actor, const struct crowd_member *member)
{
    bool may_be = member->instance[0] != 0 && has(member, MANNER_MORTAL) && crowd__is_loading(actor);
    return may_be && crowd__chance(actor, 3);
}

static void joined(struct actor *actor, struct crowd_member *member, uint32_t op,
                   const struct kafka_join_group_response *answer)
{
    struct history_group *told = crowd__op_at(actor, op)->group;
    copy_text(told->given, sizeof told->given, answer->member_id);
    copy_text(told->leader, sizeof told->leader, answer->leader);
    if (answer->error_code == KAFKA_ERROR_NONE) { told->generation = answer->generation_id; }
    crowd__end(actor, op, answer->error_code);
    member->next_ns = actor->now_ns + 5 * WORLD_MS + base_prng_below(&actor->prng, 50 * WORLD_MS);
    if (answer->error_code == KAFKA_ERROR_MEMBER_ID_REQUIRED) {
        copy_text(member->id, sizeof member->id, answer->member_id);
        /* Some never come back with it. */
        if (has(member, MANNER_MORTAL) && crowd__is_loading(actor) && crowd__chance(actor, 3)) { be_nobody(member); }
        return;
    }
    if (answer->error_code != KAFKA_ERROR_NONE) {
        bool is_far = answer->error_code == KAFKA_ERROR_NOT_COORDINATOR; /* until somebody starts the node anew */
        member->next_ns += (is_far ? 700 : 100) * WORLD_MS;
        refused(actor, member, answer->error_code);
        return;
    }
    copy_text(member->id, sizeof member->id, answer->member_id);
    copy_text(member->protocol, sizeof member->protocol, answer->protocol_name);
    member->generation = answer->generation_id;
    member->leads = kafka_text_equal(answer->leader, answer->member_id) && answer->members_count > 0;
    crowd__take_seats(actor, member, answer);
    if (is_started_anew(actor, member)) {
        be_nobody(member);
        member->next_ns = actor->now_ns + 1 + base_prng_below(&actor->prng, 10 * WORLD_MS);
        return;
    }
    member->state = STATE_JOINED;
    bool is_idle = member->leads && has(member, MANNER_IDLE) && crowd__is_loading(actor) && crowd__chance(actor, 2);
    member->back_ns = actor->now_ns + (is_idle ? IDLE_NS : 0);
    member->heartbeat_ns = actor->now_ns + (uint64_t)member->session_ms * WORLD_MS / 3;
    if (has(member, MANNER_SLOW) && crowd__is_loading(actor)) {
        member->next_ns += base_prng_below(&actor->prng, (uint64_t)member->rebalance_ms * WORLD_MS);
    }
}

static void synced(struct actor *actor, struct crowd_member *member, uint32_t op,
                   const struct kafka_sync_group_response *answer)
{
    struct base_slice assignment = kafka_bytes_slice(answer->assignment);
    bool is_well = answer->error_code == KAFKA_ERROR_NONE;
    if (is_well) { crowd__op_at(actor, op)->group->owned = check_owned_text(assignment); }
    crowd__end(actor, op, answer->error_code);
    member->next_ns = actor->now_ns + WORLD_MS + base_prng_below(&actor->prng, 20 * WORLD_MS);
    if (!is_well) {
        member->next_ns += 20 * WORLD_MS;
        refused(actor, member, answer->error_code);
        return;
    }
    uint32_t before[ACTOR_GROUP_TOPICS_MAX];
    memcpy(before, member->owned, sizeof before);
    crowd__take_owned(actor, member, assignment);
    member->state = STATE_IN;
    member->heartbeat_ns = actor->now_ns;
    uint64_t soon_ns = (actor->spec->is_restless ? 40 : 400) * WORLD_MS;
    member->commit_ns = actor->now_ns + base_prng_below(&actor->prng, soon_ns);
    for (uint32_t t = 0; t < ACTOR_GROUP_TOPICS_MAX && member->is_cooperative; t++) {
        if ((before[t] & ~member->owned[t]) != 0) {
            member->state = STATE_OUT;
        } /* what it gives back is for another round */
    }
}

static int32_t first_error(const struct kafka_offset_commit_response *answer, int32_t index)
{
    for (int32_t t = 0; t < answer->topics_count; t++) {
        for (int32_t p = 0; p < answer->topics[t].partitions_count; p++) {
            if (answer->topics[t].partitions[p].partition_index == index) {
                return answer->topics[t].partitions[p].error_code;
            }
        }
    }
    return -1;
}

static void take_fetched(struct actor *actor, uint32_t op, int32_t error, int64_t offset, struct kafka_text metadata)
{
    struct history_op *asked = crowd__op_at(actor, op);
    asked->offset = offset;
    asked->group->tag = check_commit_tag(kafka_text_slice(metadata));
    crowd__end(actor, op, error);
}

static int32_t fetched(struct actor *actor, const struct crowd_question *question,
                       const struct kafka_offset_fetch_response *answer)
{
    bool is_old = question->version < 8;
    int32_t error = is_old ? answer->error_code : (answer->groups_count == 1 ? answer->groups[0].error_code : -1);
    for (uint32_t i = 0; i < question->op_count; i++) {
        int32_t index = crowd__op_at(actor, question->ops[i])->partition;
        const fetched_line *line = NULL;
        fetched_line of_old;
        int32_t topics =
            is_old ? answer->topics_count : (answer->groups_count == 1 ? answer->groups[0].topics_count : 0);
        for (int32_t t = 0; t < topics; t++) {
            int32_t count = is_old ? answer->topics[t].partitions_count : answer->groups[0].topics[t].partitions_count;
            for (int32_t p = 0; p < count; p++) {
                if (is_old) {
                    const struct kafka_offset_fetch_response_offset_fetch_response_partition *from =
                        &answer->topics[t].partitions[p];
                    of_old = (fetched_line){.partition_index = from->partition_index,
                                            .committed_offset = from->committed_offset,
                                            .metadata = from->metadata,
                                            .error_code = from->error_code};
                }
                const fetched_line *at = is_old ? &of_old : &answer->groups[0].topics[t].partitions[p];
                if (at->partition_index == index) { line = at; }
                if (line != NULL) { break; }
            }
            if (line != NULL) { break; }
        }
        if (error != 0 || line == NULL) {
            take_fetched(actor, question->ops[i], error == 0 ? -1 : error, -1, kafka_text_null());
        } else {
            take_fetched(actor, question->ops[i], line->error_code, line->committed_offset, line->metadata);
        }
    }
    return error;
}

int32_t crowd__left_error(const void *leave_response)
{
    const struct kafka_leave_group_response *left = leave_response;
    bool is_of_one = left->error_code == 0 && left->members_count == 1;
    return is_of_one ? left->members[0].error_code : left->error_code;
}

bool crowd__common_answer(struct actor *actor, struct crowd_member *member, const struct crowd_question *question,
                          const void *answer)
{
    member->next_ns = actor->now_ns + 5 * WORLD_MS + base_prng_below(&actor->prng, 60 * WORLD_MS);
    if (question->api_key == KAFKA_API_OFFSET_FETCH) {
        (void)fetched(actor, question, answer); /* each operation has its error */
        return true;
    }
    if (question->api_key != KAFKA_API_OFFSET_COMMIT) { return false; }
    int32_t worst = 0;
    for (uint32_t i = 0; i < question->op_count; i++) {
        int32_t error = first_error(answer, crowd__op_at(actor, question->ops[i])->partition);
        crowd__end(actor, question->ops[i], error);
        if (error != 0) { worst = error; }
    }
    /* A topic that has gone meanwhile is no fault of the commit. */
    bool is_done =
        worst == 0 || worst == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION || worst == KAFKA_ERROR_UNKNOWN_TOPIC_ID;
    if (is_done) { member->probes = 0; }
    if (member->job == JOB_CONSUMER) { refused(actor, member, worst); }
    return true;
}

void crowd__member_answer(struct actor *actor, struct crowd_member *member, const struct crowd_question *question,
                          const void *answer)
{
    if (crowd__common_answer(actor, member, question, answer)) { return; }
    uint32_t op = question->ops[0];
    switch (question->api_key) {
    case KAFKA_API_JOIN_GROUP: joined(actor, member, op, answer); return;
    case KAFKA_API_SYNC_GROUP: synced(actor, member, op, answer); return;
    case KAFKA_API_HEARTBEAT: {
        int32_t error = ((const struct kafka_heartbeat_response *)answer)->error_code;
        crowd__end(actor, op, error);
        member->heartbeat_ns = actor->now_ns + (uint64_t)member->session_ms * WORLD_MS /
                                                   4; /* on a slow network, too, others get their turn */
        if (error == 0 && !crowd__is_loading(actor) && member->state == STATE_IN) {
            member->has_settled = true;
            if (member->owned_total == 0) { member->probes = 0; } /* it has nothing that it could commit */
        }
        refused(actor, member, error);
        return;
    }
    case KAFKA_API_LEAVE_GROUP:
        crowd__end(actor, op, crowd__left_error(answer));
        be_nobody(member);
        if (crowd__is_loading(actor)) { member->next_ns += base_prng_below(&actor->prng, 2 * WORLD_S); }
        return;
    default: return;
    }
}

/* ---- acting --------------------------------------------------------------------------------------------------------------- */

bool crowd__is_settled(const struct actor *actor, const struct crowd_member *member)
{
    switch (member->job) {
    case JOB_CONSUMER: return member->state == STATE_DEAD || (member->state == STATE_IN && member->has_settled);
    case JOB_SIMPLE: return member->question_count == 0;
    case JOB_OPERATOR: return member->question_count == 0 && crowd__operator_is_settled(actor);
    case JOB_RUDE: return member->question_count == 0;
    }
    return true;
}

/* True: it does what it should not, and nothing else in this step. */
static bool misbehave(struct actor *actor, struct crowd_member *member, struct port_out *out)
{
    if (!crowd__is_loading(actor)) { return false; }
    if (actor->spec->is_restless && crowd__chance(actor, 6)) { return leave(actor, member); }
    if (!crowd__chance(actor, 40)) { return false; }
    if (has(member, MANNER_SLEEPY) && crowd__chance(actor, 3)) {
        uint64_t sleep_ns = (uint64_t)member->session_ms * WORLD_MS;
        member->back_ns = actor->now_ns + sleep_ns / 2 + base_prng_below(&actor->prng, 2 * sleep_ns);
        member->next_ns = member->back_ns;
        member->state = STATE_AWAY;
        if (crowd__chance(actor, 2)) { crowd__cut(actor, member, out); }
        return true;
    }
    if (has(member, MANNER_MORTAL) && crowd__chance(actor, 3)) {
        crowd__cut(actor, member, out);
        be_nobody(member);
        member->next_ns = actor->now_ns + base_prng_below(&actor->prng, 3 * WORLD_S);
        return true;
    }
    return has(member, MANNER_FICKLE) && crowd__chance(actor, 3) && leave(actor, member);
}

/* Its topics have more partitions, or fewer, than it gave out; or it would read others. */
static bool wants_round(struct actor *actor, struct crowd_member *member)
{
    const struct actor_groups *groups = crowd__groups(actor);
    if (!crowd__is_loading(actor)) { return false; }
    for (uint32_t t = 0; t < groups->topic_count && member->leads; t++) {
        if (member->counts[t] != groups->topics[t].partition_count) { return true; }
    }
    if (!crowd__chance(actor, 200)) { return false; }
    member->topics = 1 + crowd__below(actor, (1u << groups->topic_count) - 1);
    return true;
}

static void be_in(struct actor *actor, struct crowd_member *member, struct port_out *out)
{
    if (misbehave(actor, member, out)) { return; }
    if (wants_round(actor, member)) {
        begin_anew(member);
        join(actor, member);
        return;
    }
    if (actor->now_ns >= member->heartbeat_ns) {
        if (crowd__heartbeat(actor, member)) {
            member->heartbeat_ns = actor->now_ns + (uint64_t)member->session_ms * WORLD_MS / 4;
        }
        return;
    }
    bool wants_commit = member->probes > 0 || (crowd__is_loading(actor) && actor->now_ns >= member->commit_ns);
    if (wants_commit && member->owned_total > 0) {
        member->commit_ns = actor->now_ns + 50 * WORLD_MS + base_prng_below(&actor->prng, 500 * WORLD_MS);
        if (crowd__commit(actor, member)) { return; }
    }
    if (crowd__is_loading(actor) && crowd__chance(actor, 8)) {
        uint32_t topic = crowd__below(actor, crowd__groups(actor)->topic_count);
        if (crowd__fetch(actor, member, member->group, topic)) { return; }
    }
    uint64_t next = member->heartbeat_ns;
    if (crowd__is_loading(actor)) {
        next = base_min_u64(next, base_max_u64(member->commit_ns, actor->now_ns + 20 * WORLD_MS));
    }
    if (member->probes > 0) { next = base_min_u64(next, actor->now_ns + 20 * WORLD_MS); }
    member->next_ns = base_max_u64(next, actor->now_ns + WORLD_MS);
}

void crowd__member_act(struct actor *actor, struct crowd_member *member, struct port_out *out)
{
    if (member->question_count > 0 || actor->now_ns < member->next_ns) { return; }
    switch (member->state) {
    case STATE_OUT: join(actor, member); return;
    case STATE_JOINED:
        if (actor->now_ns >= member->back_ns) {
            sync(actor, member);
            return;
        }
        if (actor->now_ns >= member->heartbeat_ns && crowd__heartbeat(actor, member)) {
            member->heartbeat_ns = actor->now_ns + (uint64_t)member->session_ms * WORLD_MS / 4;
        }
        member->next_ns = base_max_u64(member->heartbeat_ns, actor->now_ns + WORLD_MS);
        return;
    case STATE_IN: be_in(actor, member, out); return;
    case STATE_AWAY:
        member->state = STATE_IN;
        /* It commits first, and asks afterwards whether it may. */
        if (!crowd__commit(actor, member)) { (void)crowd__heartbeat(actor, member); }
        return;
    case STATE_DEAD: return;
    }
}
