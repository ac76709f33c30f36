/* broker__groups.c: the front's side of groups: FindCoordinator, and requests that the coordinators of their groups answer.
 *
 *   one group   JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetDelete: one part, answered as it comes
 *   several     DescribeGroups, DeleteGroups, OffsetFetch: a part for each group, put together here; ListGroups: one for each shard
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

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

/* All operations on a group, as bits of AclOperation. */
#define GROUP_OPERATIONS 3400
#define HOST_BYTES       64
#define PROMISE_NS       UINT64_C(60000000000) /* clients send SyncGroup as soon as they hear that they have joined */

enum { KEY_GROUP = 0, KEY_TRANSACTION = 1, KEY_SHARE = 2 };

typedef struct kafka_offset_fetch_request_offset_fetch_request_group fetch_group;
typedef struct kafka_offset_fetch_response_offset_fetch_response_group fetched_group;

bool groups_is_api(int16_t api_key)
{
    switch (api_key) {
    case KAFKA_API_FIND_COORDINATOR:
    case KAFKA_API_JOIN_GROUP:
    case KAFKA_API_SYNC_GROUP:
    case KAFKA_API_HEARTBEAT:
    case KAFKA_API_LEAVE_GROUP:
    case KAFKA_API_OFFSET_COMMIT:
    case KAFKA_API_OFFSET_DELETE:
    case KAFKA_API_OFFSET_FETCH:
    case KAFKA_API_DESCRIBE_GROUPS:
    case KAFKA_API_LIST_GROUPS:
    case KAFKA_API_DELETE_GROUPS: return true;
    default: return false;
    }
}

/* ---- FindCoordinator ---------------------------------------------------------------------------------------------------- */

/* No retriable code for what does not exist yet: a client would wait for ever. */
static const char *key_type_trouble(int8_t key_type)
{
    switch (key_type) {
    case KEY_GROUP: return NULL;
    case KEY_TRANSACTION: return "Transactions are not supported by this broker.";
    case KEY_SHARE: return "Share groups are not supported by this broker.";
    default: return KAFKA_WORDS_INVALID_REQUEST;
    }
}

static void find_coordinator(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_find_coordinator_request *asked = request->decoded;
    int32_t count = request->version >= 4 ? asked->coordinator_keys_count : 0;
    size_t bytes = sizeof(struct kafka_find_coordinator_response) + METADATA_HOST_MAX + 256 +
                   (size_t)base_max_i64(count, 0) * sizeof(struct kafka_find_coordinator_response_coordinator);
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    struct kafka_find_coordinator_response *answer = answer_take(request, sizeof *answer);
    kafka_find_coordinator_response_init(answer);
    const struct metadata_broker *node = metadata_broker(broker->image, broker->config.node_id);
    struct base_slice listener = base_slice_text(broker->config.listeners[request->listener].name);
    const struct metadata_endpoint *endpoint = node == NULL ? NULL : metadata_broker_endpoint(node, listener);
    const char *trouble = key_type_trouble(asked->key_type);
    struct kafka_find_coordinator_response_coordinator one;
    kafka_find_coordinator_response_coordinator_init(&one);
    one.node_id = -1;
    one.host = kafka_text_words("");
    one.port = -1;
    if (trouble != NULL) {
        one.error_code = KAFKA_ERROR_INVALID_REQUEST;
        one.error_message = kafka_text_words(trouble);
    } else if (endpoint == NULL) {
        one.error_code = KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE;
    } else {
        size_t host_bytes = strlen(endpoint->host);
        char *host = answer_take(request, host_bytes + 1);
        memcpy(host, endpoint->host, host_bytes);
        one.node_id = broker->config.node_id;
        one.host = kafka_text_of(host, host_bytes);
        one.port = endpoint->port;
    }
    if (request->version < 4) {
        answer->error_code = one.error_code;
        /* Old versions name the error in words even when there is none, as Kafka does. */
        answer->error_message = one.error_code == KAFKA_ERROR_NONE ? kafka_text_words("NONE") : one.error_message;
        answer->node_id = one.node_id;
        answer->host = one.host;
        answer->port = one.port;
        request_answer(broker, request, answer, out);
        return;
    }
    answer->coordinators = kafka_find_coordinator_response_coordinator_take(&request->arena, count);
    CHECK(answer->coordinators != NULL);
    answer->coordinators_count = count;
    for (int32_t i = 0; i < count; i++) {
        answer->coordinators[i] = one;
        answer->coordinators[i].key = asked->coordinator_keys[i];
    }
    request_answer(broker, request, answer, out);
}

/* ---- asking ------------------------------------------------------------------------------------------------------------- */

struct question {
    enum group_kind kind;
    struct kafka_text group_id;
    const void *request;
    size_t answer_bytes; /* of the arena that an answer is built in, if it fits */
};

/* The one group that the request is about; false: it is about several. */
static bool one_question(const struct request *request, struct question *question_out)
{
    const void *asked = request->decoded;
    const struct kafka_join_group_request *join = asked;
    const struct kafka_sync_group_request *sync = asked;
    const struct kafka_heartbeat_request *heartbeat = asked;
    const struct kafka_leave_group_request *leave = asked;
    const struct kafka_offset_commit_request *commit = asked;
    const struct kafka_offset_delete_request *delete = asked;
    struct question question = {.request = asked, .answer_bytes = GROUP_ANSWER_BYTES};
    size_t ids_bytes = 0;
    switch (request->api_key) {
    case KAFKA_API_JOIN_GROUP:
        ids_bytes =
            kafka_text_slice(request->client_id).size_bytes + kafka_text_slice(join->group_instance_id).size_bytes;
        question.kind = GROUP_JOIN;
        question.group_id = join->group_id;
        question.answer_bytes = 2 * GROUP_ANSWER_BYTES + 2 * ids_bytes;
        break;
    case KAFKA_API_SYNC_GROUP:
        question.kind = GROUP_SYNC;
        question.group_id = sync->group_id;
        question.answer_bytes = 2 * GROUP_ANSWER_BYTES;
        break;
    case KAFKA_API_HEARTBEAT:
        question.kind = GROUP_HEARTBEAT;
        question.group_id = heartbeat->group_id;
        break;
    case KAFKA_API_LEAVE_GROUP:
        question.kind = GROUP_LEAVE;
        question.group_id = leave->group_id;
        break;
    case KAFKA_API_OFFSET_COMMIT:
        question.kind = GROUP_COMMIT;
        question.group_id = commit->group_id;
        break;
    case KAFKA_API_OFFSET_DELETE:
        question.kind = GROUP_OFFSET_DELETE;
        question.group_id = delete->group_id;
        break;
    default: return false;
    }
    *question_out = question;
    return true;
}

static uint32_t questions_count(const struct broker *broker, const struct request *request)
{
    const struct kafka_describe_groups_request *describe = request->decoded;
    const struct kafka_delete_groups_request *delete = request->decoded;
    const struct kafka_offset_fetch_request *fetch = request->decoded;
    switch (request->api_key) {
    case KAFKA_API_DESCRIBE_GROUPS: return (uint32_t)base_max_i64(describe->groups_count, 0);
    case KAFKA_API_DELETE_GROUPS: return (uint32_t)base_max_i64(delete->groups_names_count, 0);
    case KAFKA_API_OFFSET_FETCH: return request->version < 8 ? 1 : (uint32_t)base_max_i64(fetch->groups_count, 0);
    case KAFKA_API_LIST_GROUPS: return broker->config.shards;
    default: return 1;
    }
}

/* OffsetFetch before version 8 is about one group, and says it in another shape. */
static fetch_group *old_fetch(struct request *request)
{
    const struct kafka_offset_fetch_request *asked = request->decoded;
    fetch_group *group = kafka_offset_fetch_request_offset_fetch_request_group_take(&request->arena, 1);
    CHECK(group != NULL); /* reserved by old_fetch_bytes */
    group->group_id = asked->group_id;
    group->topics_count = -1;
    if (asked->topics_count < 0) { return group; }
    group->topics = kafka_offset_fetch_request_offset_fetch_request_topics_take(&request->arena, asked->topics_count);
    CHECK(group->topics != NULL);
    group->topics_count = asked->topics_count;
    for (int32_t i = 0; i < asked->topics_count; i++) {
        group->topics[i].name = asked->topics[i].name;
        group->topics[i].partition_indexes = asked->topics[i].partition_indexes;
        group->topics[i].partition_indexes_count = asked->topics[i].partition_indexes_count;
    }
    return group;
}

static size_t old_fetch_bytes(const struct request *request)
{
    const struct kafka_offset_fetch_request *asked = request->decoded;
    if (request->api_key != KAFKA_API_OFFSET_FETCH || request->version >= 8) { return 0; }
    return sizeof(fetch_group) + 64 +
           (size_t)base_max_i64(asked->topics_count, 0) *
               sizeof(struct kafka_offset_fetch_request_offset_fetch_request_topics);
}

static struct question question_of(struct request *request, uint32_t index)
{
    struct question question = {.answer_bytes = GROUP_ANSWER_BYTES, .group_id = kafka_text_words("")};
    const struct kafka_describe_groups_request *describe = request->decoded;
    const struct kafka_delete_groups_request *delete = request->decoded;
    const struct kafka_offset_fetch_request *fetch = request->decoded;
    switch (request->api_key) {
    case KAFKA_API_DESCRIBE_GROUPS:
        question.kind = GROUP_DESCRIBE;
        question.group_id = describe->groups[index];
        return question;
    case KAFKA_API_DELETE_GROUPS:
        question.kind = GROUP_DELETE;
        question.group_id = delete->groups_names[index];
        return question;
    case KAFKA_API_OFFSET_FETCH: {
        const fetch_group *group = request->version < 8 ? old_fetch(request) : &fetch->groups[index];
        question.kind = GROUP_FETCH;
        question.group_id = group->group_id;
        question.request = group;
        return question;
    }
    case KAFKA_API_LIST_GROUPS:
        question.kind = GROUP_LIST;
        question.request = request->decoded;
        return question;
    default: break;
    }
    bool is_one = one_question(request, &question);
    CHECK(is_one);
    return question;
}

static uint32_t shard_of_group(const struct broker *broker, struct base_slice group_id)
{
    return shard_of(broker, coordinator_part(group_log_of(group_id, broker->config.coordinator_groups)));
}

/* It waits for the other members, for minutes perhaps. */
static bool is_patient(int16_t api_key) { return api_key == KAFKA_API_JOIN_GROUP || api_key == KAFKA_API_SYNC_GROUP; }

static void fill_part(struct broker *broker, struct request *request, uint32_t index, struct base_slice host)
{
    struct part *part = &request->parts[index];
    struct question question = question_of(request, index);
    struct group_loan *loan = answer_take(request, sizeof *loan);
    *loan = (struct group_loan){.request = {.kind = question.kind,
                                            .version = request->version,
                                            .group_id = kafka_text_slice(question.group_id),
                                            .request = question.request,
                                            .client_id = kafka_text_slice(request->client_id),
                                            .client_host = host}};
    base_arena_init(&loan->arena, answer_take(request, question.answer_bytes), question.answer_bytes);
    part->loan = loan;
    part->is_patient = is_patient(request->api_key);
    part->shard = question.kind == GROUP_LIST ? index : shard_of_group(broker, loan->request.group_id);
}

/* "/127.0.0.1", as Java writes an address. */
static struct base_slice host_of(struct request *request)
{
    char *words = answer_take(request, HOST_BYTES);
    words[0] = '/';
    port_address_to_text(request->peer, words + 1);
    return base_slice_text(words);
}

/* Of a group that is named twice Kafka sees one. */
static void forget_repeated(struct request *request, struct kafka_delete_groups_request *asked)
{
    uint32_t count = (uint32_t)base_max_i64(asked->groups_names_count, 0);
    struct base_slice *names = answer_take(request, (count + 1) * sizeof *names);
    for (uint32_t i = 0; i < count; i++) { names[i] = kafka_text_slice(asked->groups_names[i]); }
    asked->groups_names_count = (int32_t)names_sort(names, count);
    for (int32_t i = 0; i < asked->groups_names_count; i++) { asked->groups_names[i] = kafka_text_of_slice(names[i]); }
}

void groups_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    if (request->api_key == KAFKA_API_FIND_COORDINATOR) {
        find_coordinator(broker, request, out);
        return;
    }
    struct question question;
    uint32_t count = questions_count(broker, request);
    if (request->api_key == KAFKA_API_DELETE_GROUPS) {
        if (!request_reserve(broker, request, (count + 1) * sizeof(struct base_slice) + 16)) {
            request_starve(broker, request, RETRY_DECODE);
            return;
        }
        forget_repeated(request, request->decoded);
        count = questions_count(broker, request);
    }
    size_t answer_bytes = one_question(request, &question) ? question.answer_bytes : GROUP_ANSWER_BYTES;
    size_t bytes = HOST_BYTES + 64 + old_fetch_bytes(request) +
                   count * (sizeof(struct part) + sizeof(struct group_loan) + answer_bytes + 64);
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_DECODE);
        return;
    }
    if (!request_take_parts(broker, request, count)) { return; }
    struct base_slice host = host_of(request);
    for (uint32_t i = 0; i < count; i++) { fill_part(broker, request, i, host); }
    request_ask(broker, request, out);
}

/* As in Kafka nothing of a connection is worked behind a request that changes a group or waits for one, before that is answered; nor has it
 * a slot meanwhile. Commits follow commits: they keep their order in the log of their group, and many of them share a sync. */
void groups_hold(struct broker *broker, const struct request *request)
{
    switch (request->api_key) {
    case KAFKA_API_OFFSET_COMMIT: conn_hold(broker->conns, request->id, KAFKA_API_OFFSET_COMMIT); return;
    case KAFKA_API_JOIN_GROUP:
    case KAFKA_API_SYNC_GROUP:
    case KAFKA_API_LEAVE_GROUP:
    case KAFKA_API_OFFSET_DELETE:
    case KAFKA_API_DELETE_GROUPS: conn_hold(broker->conns, request->id, CONN_BUT_NOTHING); return;
    default: return;
    }
}

/* They may wait for minutes, those of connections that are gone, too: the others are to find requests beside them. Whoever has joined is to
 * find one for its SyncGroup, or nobody would come further: most have a promise, these are for the others. */
uint32_t groups_patient_max(enum group_kind kind, uint32_t requests)
{
    return kind == GROUP_JOIN ? requests / 2 : requests - requests / 4;
}

static void give_place(struct broker *broker)
{
    CHECK(broker->patient_count > 0);
    broker->patient_count -= 1;
}

static void take_back(struct broker *broker, struct promise *promise)
{
    base_list_remove(&broker->promised, &promise->link);
    give_place(broker);
}

/* One that nobody has come for in its time makes room. */
static void take_back_expired(struct broker *broker)
{
    struct base_link *link = base_list_first(&broker->promised);
    if (link == NULL) { return; }
    struct promise *promise = BASE_ITEM(link, struct promise, link);
    if (broker->now_ns >= promise->until_ns) { take_back(broker, promise); }
}

void groups_gone(struct broker *broker, uint32_t conn_index)
{
    struct promise *promise = &broker->promises[conn_index];
    if (base_link_is_on(&promise->link)) { take_back(broker, promise); }
}

/* False: no more may wait, and this one is refused; it counts until that is answered. The promise is its own, or that of nobody: requests are
 * asked in turn, one of a connection that is gone before those of the one that has its index now. */
static bool take_place(struct broker *broker, const struct request *request, enum group_kind kind)
{
    struct promise *promise = &broker->promises[request->conn_index];
    if (base_link_is_on(&promise->link)) { /* it is counted */
        base_list_remove(&broker->promised, &promise->link);
        return true;
    }
    if (broker->patient_count >= broker->patient_max[kind]) { take_back_expired(broker); }
    bool has_room = broker->patient_count < broker->patient_max[kind];
    broker->patient_count += 1;
    return has_room;
}

/* Whoever has joined keeps its place for its SyncGroup. Else the JoinGroups of another group could take it, and those wait for each other:
 * a leader's SyncGroup would find none while its followers wait for it. Of one connection one JoinGroup or SyncGroup is under way. */
static bool keep_place(struct broker *broker, const struct request *request, const struct part *part)
{
    const struct kafka_join_group_response *joined = part->loan->response;
    if (part->loan->request.kind != GROUP_JOIN || joined == NULL) { return false; }
    if (joined->error_code != KAFKA_ERROR_NONE || !conn_is_open(broker->conns, request->conn)) { return false; }
    struct promise *promise = &broker->promises[request->conn_index];
    promise->until_ns = base_deadline_ns(broker->now_ns, PROMISE_NS);
    base_list_push_back(&broker->promised, &promise->link);
    return true;
}

/* An OffsetFetch sees what anybody has asked before it, where it asks so. What its own connection has changed is answered by then. */
static bool is_ordered(const struct request *request)
{
    if (request->api_key != KAFKA_API_OFFSET_FETCH) { return false; }
    const struct kafka_offset_fetch_request *asked = request->decoded;
    return asked->require_stable;
}

void groups_ask(struct broker *broker, struct request *request, struct part *part, uint32_t index, struct port_out *out)
{
    struct group_request *asked = &part->loan->request;
    asked->is_ordered = is_ordered(request);
    if (part->is_patient && !take_place(broker, request, asked->kind)) {
        asked->refusal = KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE;
    }
    part->loan->asker = request_asker(broker, request, index);
    part->is_asked = true;
    request->parts_open += 1;
    if (!part->is_patient) { broker->parts_asked += 1; }
    struct port_message message;
    message_begin(&message, part->shard, MSG_GROUP);
    message.lent = part->loan;
    message.lent_bytes = sizeof *part->loan;
    message_send(broker, &message, out);
}

void groups_part_answered(struct broker *broker, const struct request *request, const struct part *part)
{
    if (part->is_patient && !keep_place(broker, request, part)) { give_place(broker); }
}

void groups_release(struct broker *broker, struct part *part, struct port_out *out)
{
    if (part->loan->block == NULL) { return; }
    struct port_message message;
    message_begin(&message, part->shard, MSG_GROUP_GIVE);
    message.lent = part->loan->block;
    message_send(broker, &message, out);
    part->loan->block = NULL;
}

/* ---- answering ------------------------------------------------------------------------------------------------------------ */

static size_t answer_bytes(const struct request *request)
{
    size_t bytes = 1024;
    for (uint32_t i = 0; i < request->part_count; i++) {
        const struct group_loan *loan = request->parts[i].loan;
        const struct kafka_list_groups_response *list = loan->response;
        const fetched_group *group = loan->response;
        switch (request->api_key) {
        case KAFKA_API_DESCRIBE_GROUPS: bytes += sizeof(struct kafka_describe_groups_response_described_group); break;
        case KAFKA_API_DELETE_GROUPS:
            bytes += sizeof(struct kafka_delete_groups_response_deletable_group_result);
            break;
        case KAFKA_API_LIST_GROUPS:
            bytes += (size_t)list->groups_count * sizeof(struct kafka_list_groups_response_listed_group);
            break;
        default:
            bytes += sizeof *group;
            if (request->version >= 8) { break; }
            for (int32_t k = 0; k < group->topics_count; k++) {
                bytes += sizeof(struct kafka_offset_fetch_response_offset_fetch_response_topic) + 32 +
                         (size_t)group->topics[k].partitions_count *
                             sizeof(struct kafka_offset_fetch_response_offset_fetch_response_partition);
            }
            break;
        }
    }
    const struct kafka_offset_fetch_request *fetch = request->decoded;
    if (request->api_key == KAFKA_API_OFFSET_FETCH && request->version < 2) { /* an error stands at each partition */
        for (int32_t i = 0; i < fetch->topics_count; i++) {
            bytes += sizeof(struct kafka_offset_fetch_response_offset_fetch_response_topic) + 32 +
                     (size_t)base_max_i64(fetch->topics[i].partition_indexes_count, 0) *
                         sizeof(struct kafka_offset_fetch_response_offset_fetch_response_partition);
        }
    }
    return bytes;
}

static const void *describe_answer(struct request *request)
{
    const struct kafka_describe_groups_request *asked = request->decoded;
    struct kafka_describe_groups_response *answer = kafka_describe_groups_response_take(&request->arena, 1);
    int32_t count = (int32_t)request->part_count;
    CHECK(answer != NULL);
    answer->groups = kafka_describe_groups_response_described_group_take(&request->arena, count);
    CHECK(answer->groups != NULL);
    answer->groups_count = count;
    for (int32_t i = 0; i < count; i++) {
        const struct kafka_describe_groups_response_described_group *group = request->parts[i].loan->response;
        answer->groups[i] = *group;
        bool says_operations = asked->include_authorized_operations && group->error_code == KAFKA_ERROR_NONE;
        if (says_operations) { answer->groups[i].authorized_operations = GROUP_OPERATIONS; }
    }
    return answer;
}

static const void *delete_answer(struct request *request)
{
    struct kafka_delete_groups_response *answer = kafka_delete_groups_response_take(&request->arena, 1);
    int32_t count = (int32_t)request->part_count;
    CHECK(answer != NULL);
    answer->results = kafka_delete_groups_response_deletable_group_result_take(&request->arena, count);
    CHECK(answer->results != NULL);
    answer->results_count = count;
    for (int32_t i = 0; i < count; i++) {
        const struct kafka_delete_groups_response_deletable_group_result *result = request->parts[i].loan->response;
        answer->results[i] = *result;
    }
    return answer;
}

static const void *list_answer(struct request *request)
{
    struct kafka_list_groups_response *answer = kafka_list_groups_response_take(&request->arena, 1);
    CHECK(answer != NULL);
    int32_t count = 0;
    for (uint32_t i = 0; i < request->part_count; i++) {
        const struct kafka_list_groups_response *of_shard = request->parts[i].loan->response;
        if (answer->error_code == KAFKA_ERROR_NONE) { answer->error_code = of_shard->error_code; }
        count += of_shard->groups_count;
    }
    if (answer->error_code != KAFKA_ERROR_NONE) { return answer; }
    answer->groups = kafka_list_groups_response_listed_group_take(&request->arena, count);
    CHECK(answer->groups != NULL);
    for (uint32_t i = 0; i < request->part_count; i++) {
        const struct kafka_list_groups_response *of_shard = request->parts[i].loan->response;
        for (int32_t k = 0; k < of_shard->groups_count; k++) {
            answer->groups[answer->groups_count++] = of_shard->groups[k];
        }
    }
    return answer;
}

typedef struct kafka_offset_fetch_response_offset_fetch_response_topic old_topic;
typedef struct kafka_offset_fetch_response_offset_fetch_response_partition old_partition;

static void fill_old_topics(struct request *request, const fetched_group *group,
                            struct kafka_offset_fetch_response *answer)
{
    answer->topics = kafka_offset_fetch_response_offset_fetch_response_topic_take(&request->arena, group->topics_count);
    CHECK(answer->topics != NULL);
    answer->topics_count = group->topics_count;
    for (int32_t i = 0; i < group->topics_count; i++) {
        old_topic *topic = &answer->topics[i];
        int32_t count = group->topics[i].partitions_count;
        topic->name = group->topics[i].name;
        topic->partitions = kafka_offset_fetch_response_offset_fetch_response_partition_take(&request->arena, count);
        CHECK(topic->partitions != NULL);
        topic->partitions_count = count;
        for (int32_t k = 0; k < count; k++) {
            topic->partitions[k] =
                (old_partition){.partition_index = group->topics[i].partitions[k].partition_index,
                                .committed_offset = group->topics[i].partitions[k].committed_offset,
                                .committed_leader_epoch = group->topics[i].partitions[k].committed_leader_epoch,
                                .metadata = group->topics[i].partitions[k].metadata,
                                .error_code = group->topics[i].partitions[k].error_code};
        }
    }
}

/* Version 1 has no place for the error of a group. */
static void fill_old_errors(struct request *request, int16_t error, struct kafka_offset_fetch_response *answer)
{
    const struct kafka_offset_fetch_request *asked = request->decoded;
    answer->topics = kafka_offset_fetch_response_offset_fetch_response_topic_take(&request->arena, asked->topics_count);
    CHECK(answer->topics != NULL);
    answer->topics_count = asked->topics_count;
    for (int32_t i = 0; i < asked->topics_count; i++) {
        old_topic *topic = &answer->topics[i];
        int32_t count = asked->topics[i].partition_indexes_count;
        topic->name = asked->topics[i].name;
        topic->partitions = kafka_offset_fetch_response_offset_fetch_response_partition_take(&request->arena, count);
        CHECK(topic->partitions != NULL);
        topic->partitions_count = count;
        for (int32_t k = 0; k < count; k++) {
            topic->partitions[k].partition_index = asked->topics[i].partition_indexes[k];
            topic->partitions[k].committed_offset = -1;
            topic->partitions[k].metadata = kafka_text_words("");
            topic->partitions[k].error_code = error;
        }
    }
}

static const void *fetch_answer(struct request *request)
{
    struct kafka_offset_fetch_response *answer = kafka_offset_fetch_response_take(&request->arena, 1);
    CHECK(answer != NULL);
    if (request->version >= 8) {
        int32_t count = (int32_t)request->part_count;
        answer->groups = kafka_offset_fetch_response_offset_fetch_response_group_take(&request->arena, count);
        CHECK(answer->groups != NULL);
        answer->groups_count = count;
        for (int32_t i = 0; i < count; i++) {
            answer->groups[i] = *(const fetched_group *)request->parts[i].loan->response;
        }
        return answer;
    }
    const fetched_group *group = request->parts[0].loan->response;
    if (request->version < 2 && group->error_code != KAFKA_ERROR_NONE) {
        fill_old_errors(request, group->error_code, answer);
        return answer;
    }
    answer->error_code = request->version < 2 ? KAFKA_ERROR_NONE : group->error_code;
    fill_old_topics(request, group, answer);
    return answer;
}

void groups_answered(struct broker *broker, struct request *request, struct port_out *out)
{
    for (uint32_t i = 0; i < request->part_count; i++) {
        if (request->parts[i].loan->response == NULL) {
            request_fail(broker, request, "too many requests wait for group coordinators, or an answer found no memory",
                         out);
            return;
        }
    }
    struct question question;
    if (one_question(request, &question)) {
        request_answer(broker, request, request->parts[0].loan->response, out);
        return;
    }
    if (!request_reserve(broker, request, answer_bytes(request))) {
        request_starve(broker, request, RETRY_PARTS);
        return;
    }
    switch (request->api_key) {
    case KAFKA_API_DESCRIBE_GROUPS: request_answer(broker, request, describe_answer(request), out); return;
    case KAFKA_API_DELETE_GROUPS: request_answer(broker, request, delete_answer(request), out); return;
    case KAFKA_API_LIST_GROUPS: request_answer(broker, request, list_answer(request), out); return;
    case KAFKA_API_OFFSET_FETCH: request_answer(broker, request, fetch_answer(request), out); return;
    default: UNREACHABLE();
    }
}
