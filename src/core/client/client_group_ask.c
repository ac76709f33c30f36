/* client_group_ask.c: the requests of a member to its coordinator, and what their answers mean.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

#include "wire/kafka/consumer_protocol.h"
#include "wire/kafka/find_coordinator.h"
#include "wire/kafka/heartbeat.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/leave_group.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_fetch.h"
#include "wire/kafka/sync_group.h"

#define WAIT_SLACK_MS          5000 /* an answer that waits for others is not late before their time and this */
#define SUBSCRIPTION_VERSION   3
#define OFFSETS_BY_NAME_MAX    9 /* of OffsetCommit and OffsetFetch */
#define OFFSETS_OF_GROUPS_FROM 8 /* OffsetFetch: asks for several groups */
#define LEAVE_OF_MEMBERS_FROM  3

static const int16_t keys[] = {
    [GROUP_ASK_FIND] = KAFKA_API_FIND_COORDINATOR, [GROUP_ASK_JOIN] = KAFKA_API_JOIN_GROUP,
    [GROUP_ASK_SYNC] = KAFKA_API_SYNC_GROUP,       [GROUP_ASK_BEAT] = KAFKA_API_HEARTBEAT,
    [GROUP_ASK_COMMIT] = KAFKA_API_OFFSET_COMMIT,  [GROUP_ASK_PLACE] = KAFKA_API_OFFSET_FETCH,
    [GROUP_ASK_LEAVE] = KAFKA_API_LEAVE_GROUP,
};

static struct kafka_text group_text(const struct client *client)
{
    return kafka_text_of_slice(client->member.config.group_id);
}
static struct kafka_text member_text(const struct client *client)
{
    return kafka_text_of(client->member.member_id, client->member.member_id_bytes);
}
/* Old versions can't say it; a null may be left out. */
static struct kafka_text instance_text(const struct client *client)
{
    struct base_slice id = client->member.config.instance_id;
    return id.size_bytes == 0 ? kafka_text_null() : kafka_text_of_slice(id);
}
static struct kafka_text strategy_text(const struct client *client)
{
    return kafka_text_words(client->member.config.strategy == CLIENT_RANGE ? "range" : "cooperative-sticky");
}

/* JoinGroup and SyncGroup are answered when the others have come too. */
static uint64_t round_ms(const struct client *client)
{
    return base_max_u64(client->member.config.rebalance_timeout_ms, client->config.request_timeout_ms) + WAIT_SLACK_MS;
}

/* Sends, and notes that it was. BASE_FULL: later. BASE_BAD: the coordinator is too old for us. */
static enum base_rc send(struct client *client, struct node *node, enum group_ask what, int16_t version,
                         const void *request, uint64_t timeout_ms, struct port_out *out, struct ask **ask_out)
{
    enum base_rc rc = version < 0 ? BASE_BAD
                                  : client__send(client, node, ASK_GROUP, keys[what], version, request, false,
                                                 timeout_ms, out, ask_out);
    if (rc == BASE_FULL) { client__later(client); }
    if (rc == BASE_BAD) { client__group_end(client, KAFKA_ERROR_UNSUPPORTED_VERSION, PORT_OK); }
    if (rc != BASE_OK) { return rc; }
    (*ask_out)->item = (uint32_t)what;
    (*ask_out)->life = client->member.life;
    (*ask_out)->part_count = 0;
    client->member.asked |= 1U << what;
    return BASE_OK;
}

static void send_plain(struct client *client, struct node *node, enum group_ask what, const void *request,
                       struct port_out *out)
{
    struct ask *ask = NULL;
    int16_t version = client__version(node, keys[what], INT16_MAX);
    (void)send(client, node, what, version, request, client->config.request_timeout_ms, out,
               &ask); /* BASE_FULL: asked again at the next turn */
}

/* ---- FindCoordinator, Heartbeat, LeaveGroup ---- */

static void ask_find(struct client *client, struct node *node, struct port_out *out)
{
    struct kafka_find_coordinator_request request;
    struct kafka_text key = group_text(client);
    kafka_find_coordinator_request_init(&request);
    if (client__version(node, KAFKA_API_FIND_COORDINATOR, INT16_MAX) < 4) {
        request.key = key;
    } else {
        request.coordinator_keys = &key;
        request.coordinator_keys_count = 1;
    }
    send_plain(client, node, GROUP_ASK_FIND, &request, out);
}

static void ask_beat(struct client *client, struct node *node, struct port_out *out)
{
    struct kafka_heartbeat_request request;
    kafka_heartbeat_request_init(&request);
    request.group_id = group_text(client);
    request.generation_id = client->member.generation;
    request.member_id = member_text(client);
    request.group_instance_id = instance_text(client);
    send_plain(client, node, GROUP_ASK_BEAT, &request, out);
}

static void ask_leave(struct client *client, struct node *node, struct port_out *out)
{
    struct kafka_leave_group_request request;
    struct kafka_leave_group_request_member_identity identity;
    kafka_leave_group_request_init(&request);
    kafka_leave_group_request_member_identity_init(&identity);
    request.group_id = group_text(client);
    if (client__version(node, KAFKA_API_LEAVE_GROUP, INT16_MAX) < LEAVE_OF_MEMBERS_FROM) {
        request.member_id = member_text(client);
    } else {
        identity.member_id = member_text(client);
        request.members = &identity;
        request.members_count = 1;
    }
    send_plain(client, node, GROUP_ASK_LEAVE, &request, out);
}

/* ---- JoinGroup ---- */

/* Owned partitions by topic, into `arena`; the count, or -1: no room. */
static int32_t list_owned(struct client *client, struct base_arena *arena,
                          struct kafka_consumer_protocol_subscription_topic_partition **topics_out)
{
    const struct member *member = &client->member;
    int32_t count = 0;
    uint32_t owned = member->owned.count;
    struct kafka_consumer_protocol_subscription_topic_partition *topics =
        kafka_consumer_protocol_subscription_topic_partition_take(arena, (int32_t)client->topics_used);
    int32_t *indexes = base_arena_take_array(arena, owned + 1, sizeof *indexes);
    if (topics == NULL || indexes == NULL) { return -1; }
    for (uint32_t i = 0; i < client->topics_used; i++) {
        int32_t *first = indexes;
        for (struct base_link *link = base_list_first(&member->owned); link != NULL;
             link = base_list_next(&member->owned, link)) {
            const struct part *part = BASE_ITEM(link, struct part, owned);
            if (part->topic == i) { *indexes++ = part->index; }
        }
        if (indexes == first) { continue; }
        topics[count].topic = kafka_text_of_slice(client__topic_name(&client->topics[i]));
        topics[count].partitions = first;
        topics[count].partitions_count = (int32_t)(indexes - first);
        count += 1;
    }
    *topics_out = topics;
    return count;
}

/* The subscription as bytes in `arena`. */
static enum base_rc subscription_of(struct client *client, struct base_arena *arena, struct kafka_bytes *bytes_out)
{
    const struct member *member = &client->member;
    struct kafka_consumer_protocol_subscription says;
    kafka_consumer_protocol_subscription_init(&says);
    says.topics = base_arena_take_array(arena, CLIENT_GROUP_TOPICS_MAX, sizeof *says.topics);
    if (says.topics == NULL) { return BASE_FULL; }
    for (uint32_t i = 0; i < member->config.topic_count; i++) {
        says.topics[i] = kafka_text_of_slice(client__topic_name(&client->topics[member->topics[i]]));
    }
    says.topics_count = (int32_t)member->config.topic_count;
    says.generation_id = member->generation;
    says.owned_partitions_count = list_owned(client, arena, &says.owned_partitions);
    if (says.owned_partitions_count < 0) { return BASE_FULL; }
    return client__protocol_write(KAFKA_MESSAGE_CONSUMER_PROTOCOL_SUBSCRIPTION, &says, SUBSCRIPTION_VERSION, arena,
                                  bytes_out);
}

static void ask_join(struct client *client, struct node *node, struct port_out *out)
{
    struct member *member = &client->member;
    size_t topic_bytes =
        sizeof(struct kafka_consumer_protocol_subscription_topic_partition) + CLIENT_TOPIC_NAME_MAX + 16;
    size_t room_bytes = 4096 + member->owned.count * 2 * sizeof(int32_t) +
                        (client->topics_used + CLIENT_GROUP_TOPICS_MAX) * (topic_bytes + CLIENT_TOPIC_NAME_MAX);
    uint8_t *memory = base_pages_take(client->pages, BASE_CONTROL, room_bytes);
    struct base_arena arena;
    struct ask *ask = NULL;
    struct kafka_join_group_request_join_group_request_protocol protocol;
    enum base_rc rc = BASE_FULL;
    kafka_join_group_request_join_group_request_protocol_init(&protocol);
    if (memory != NULL) {
        base_arena_init(&arena, memory, room_bytes);
        rc = subscription_of(client, &arena, &protocol.metadata);
    }
    if (rc == BASE_OK) {
        struct kafka_join_group_request request;
        kafka_join_group_request_init(&request);
        request.group_id = group_text(client);
        request.session_timeout_ms = (int32_t)member->config.session_timeout_ms;
        request.rebalance_timeout_ms = (int32_t)member->config.rebalance_timeout_ms;
        request.member_id = member_text(client);
        request.group_instance_id = instance_text(client);
        request.protocol_type = kafka_text_words("consumer");
        protocol.name = strategy_text(client);
        request.protocols = &protocol;
        request.protocols_count = 1;
        int16_t version = client__version(node, KAFKA_API_JOIN_GROUP, INT16_MAX);
        rc = send(client, node, GROUP_ASK_JOIN, version, &request, round_ms(client), out, &ask);
    } else {
        client__later(client);
    }
    client__give(client, memory);
    if (rc == BASE_FULL) { client__group_rejoin(client); }
}

/* ---- SyncGroup ---- */

static void note_counts(struct client *client)
{
    struct member *member = &client->member;
    for (uint32_t i = 0; i < member->config.topic_count; i++) {
        member->counted[i] = client__topic_partitions(&client->topics[member->topics[i]]);
    }
}

static void ask_sync(struct client *client, struct node *node, struct port_out *out)
{
    struct member *member = &client->member;
    struct kafka_sync_group_request request;
    struct ask *ask = NULL;
    uint8_t *memory = NULL;
    kafka_sync_group_request_init(&request);
    if (member->join != NULL) {
        if (client__choose(client, member->join, &request, &memory) != BASE_OK) {
            client__later(client);
            return;
        }
        note_counts(client);
    }
    request.group_id = group_text(client);
    request.generation_id = member->generation;
    request.member_id = member_text(client);
    request.group_instance_id = instance_text(client);
    request.protocol_type = kafka_text_words("consumer");
    request.protocol_name = strategy_text(client);
    int16_t version = client__version(node, KAFKA_API_SYNC_GROUP, INT16_MAX);
    enum base_rc rc = send(client, node, GROUP_ASK_SYNC, version, &request, round_ms(client), out, &ask);
    client__give(client, memory);
    if (rc == BASE_OK) { client__group_forget_join(client); }
}

/* ---- OffsetCommit ---- */

/* By topic ids where all have one, else by names. */
static int16_t cap_of(const struct client *client, const uint32_t *parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (base_uuid_is_none(client->topics[client__part(client, parts[i])->topic].id)) { return OFFSETS_BY_NAME_MAX; }
    }
    return INT16_MAX;
}

static bool is_of_ask(const struct part *part, enum group_ask what)
{
    return what == GROUP_ASK_COMMIT ? part->is_dirty : part->is_unplaced && !part->is_leaving;
}

/* What there is to commit or to place, one topic after another, PARTS_OF_ASK at most. */
static uint32_t gather(struct client *client, enum group_ask what, uint32_t parts_out[PARTS_OF_ASK])
{
    uint32_t count = 0;
    const struct base_list *owned = &client->member.owned;
    for (struct base_link *link = base_list_first(owned); link != NULL && count < PARTS_OF_ASK;
         link = base_list_next(owned, link)) {
        const struct part *part = BASE_ITEM(link, struct part, owned);
        if (!is_of_ask(part, what)) { continue; }
        parts_out[count] = client__part_index(client, part);
        for (uint32_t at = count; at > 0; at--) { /* by topic */
            if (client__part(client, parts_out[at - 1])->topic <= part->topic) { break; }
            uint32_t other = parts_out[at - 1];
            parts_out[at - 1] = parts_out[at];
            parts_out[at] = other;
        }
        count += 1;
    }
    return count;
}

static uint32_t run_of_topic(const struct client *client, const uint32_t *parts, uint32_t count, uint32_t from)
{
    uint32_t end = from;
    while (end < count && client__part(client, parts[end])->topic == client__part(client, parts[from])->topic) {
        end += 1;
    }
    return end - from;
}

static void note_parts(struct ask *ask, const uint32_t *parts, uint32_t count)
{
    ask->part_count = count;
    memcpy(ask->parts, parts, count * sizeof *parts);
}

static void ask_commit(struct client *client, struct node *node, struct port_out *out)
{
    uint32_t parts[PARTS_OF_ASK];
    uint32_t count = gather(client, GROUP_ASK_COMMIT, parts);
    if (count == 0) {
        client->member.has_commit = false;
        client->has_more = true;
        return;
    }
    struct base_arena scratch = client__scratch(client);
    struct kafka_offset_commit_request request;
    kafka_offset_commit_request_init(&request);
    request.group_id = group_text(client);
    request.generation_id_or_member_epoch = client->member.generation;
    request.member_id = member_text(client);
    request.group_instance_id = instance_text(client);
    request.topics = kafka_offset_commit_request_offset_commit_request_topic_take(&scratch, (int32_t)count);
    struct kafka_offset_commit_request_offset_commit_request_partition *says =
        kafka_offset_commit_request_offset_commit_request_partition_take(&scratch, (int32_t)count);
    CHECK(request.topics != NULL && says != NULL); /* PARTS_OF_ASK fit the scratch */
    for (uint32_t i = 0; i < count;) {
        const struct topic *topic = &client->topics[client__part(client, parts[i])->topic];
        uint32_t run = run_of_topic(client, parts, count, i);
        struct kafka_offset_commit_request_offset_commit_request_topic *of_topic =
            &request.topics[request.topics_count++];
        of_topic->name = kafka_text_of_slice(client__topic_name(topic));
        of_topic->topic_id = topic->id;
        of_topic->partitions = &says[i];
        of_topic->partitions_count = (int32_t)run;
        for (uint32_t end = i + run; i < end; i++) {
            const struct part *part = client__part(client, parts[i]);
            says[i].partition_index = part->index;
            says[i].committed_offset = part->commit_at;
            says[i].committed_metadata = kafka_text_words("");
        }
    }
    struct ask *ask = NULL;
    int16_t version = client__version(node, KAFKA_API_OFFSET_COMMIT, cap_of(client, parts, count));
    if (send(client, node, GROUP_ASK_COMMIT, version, &request, client->config.request_timeout_ms, out, &ask) ==
        BASE_OK) {
        note_parts(ask, parts, count);
        for (uint32_t i = 0; i < count; i++) {
            struct part *part = client__part(client, parts[i]);
            part->commit_sent = part->commit_at;
        }
    }
}
_Static_assert(PARTS_OF_ASK * (sizeof(struct kafka_offset_commit_request_offset_commit_request_topic) + 16 +
                               sizeof(struct kafka_offset_commit_request_offset_commit_request_partition) + 16) <=
                   SCRATCH_BYTES,
               "a commit of PARTS_OF_ASK partitions fits the scratch");

/* ---- OffsetFetch ---- */

/* Older versions name the group's topics in the request itself. */
static void fill_place(struct client *client, const uint32_t *parts, uint32_t count, int16_t version,
                       struct base_arena *scratch, struct kafka_offset_fetch_request *request)
{
    struct kafka_offset_fetch_request_offset_fetch_request_group *group =
        kafka_offset_fetch_request_offset_fetch_request_group_take(scratch, 1);
    int32_t *indexes = base_arena_take_array(scratch, count, sizeof *indexes);
    group->topics = kafka_offset_fetch_request_offset_fetch_request_topics_take(scratch, (int32_t)count);
    request->topics = kafka_offset_fetch_request_offset_fetch_request_topic_take(scratch, (int32_t)count);
    CHECK(group->topics != NULL && indexes != NULL && request->topics != NULL); /* PARTS_OF_ASK fit the scratch */
    int32_t topics = 0;
    for (uint32_t i = 0; i < count;) {
        const struct topic *topic = &client->topics[client__part(client, parts[i])->topic];
        uint32_t run = run_of_topic(client, parts, count, i);
        group->topics[topics].name = kafka_text_of_slice(client__topic_name(topic));
        group->topics[topics].topic_id = topic->id;
        group->topics[topics].partition_indexes = &indexes[i];
        group->topics[topics].partition_indexes_count = (int32_t)run;
        request->topics[topics].name = group->topics[topics].name;
        request->topics[topics].partition_indexes = &indexes[i];
        request->topics[topics].partition_indexes_count = (int32_t)run;
        topics += 1;
        for (uint32_t end = i + run; i < end; i++) { indexes[i] = client__part(client, parts[i])->index; }
    }
    if (version >= OFFSETS_OF_GROUPS_FROM) {
        request->topics_count = 0;
        group->group_id = group_text(client);
        group->topics_count = topics;
        request->groups = group;
        request->groups_count = 1;
    } else {
        request->group_id = group_text(client);
        request->topics_count = topics;
    }
    request->require_stable = client->config.is_read_committed && version >= 7;
}

static void ask_place(struct client *client, struct node *node, struct port_out *out)
{
    uint32_t parts[PARTS_OF_ASK];
    uint32_t count = gather(client, GROUP_ASK_PLACE, parts);
    if (count == 0) { return; }
    int16_t version = client__version(node, KAFKA_API_OFFSET_FETCH, cap_of(client, parts, count));
    struct base_arena scratch = client__scratch(client);
    struct kafka_offset_fetch_request request;
    kafka_offset_fetch_request_init(&request);
    fill_place(client, parts, count, version, &scratch, &request);
    struct ask *ask = NULL;
    if (send(client, node, GROUP_ASK_PLACE, version, &request, client->config.request_timeout_ms, out, &ask) !=
        BASE_OK) {
        return;
    }
    note_parts(ask, parts, count);
    for (uint32_t i = 0; i < count; i++) { client__part(client, parts[i])->is_placing = true; }
}

void client__group_ask(struct client *client, enum group_ask what, struct node *node, struct port_out *out)
{
    switch (what) {
    case GROUP_ASK_FIND: ask_find(client, node, out); return;
    case GROUP_ASK_JOIN: ask_join(client, node, out); return;
    case GROUP_ASK_SYNC: ask_sync(client, node, out); return;
    case GROUP_ASK_BEAT: ask_beat(client, node, out); return;
    case GROUP_ASK_COMMIT: ask_commit(client, node, out); return;
    case GROUP_ASK_PLACE: ask_place(client, node, out); return;
    case GROUP_ASK_LEAVE: ask_leave(client, node, out); return;
    }
}

/* ---- what an error means ---- */

/* True: there was none. Else it was dealt with. */
static bool is_fine(struct client *client, int16_t error)
{
    switch (error) {
    case KAFKA_ERROR_NONE: return true;
    case KAFKA_ERROR_NOT_COORDINATOR:
    case KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE: client__group_unfound(client); return false;
    case KAFKA_ERROR_REBALANCE_IN_PROGRESS: client__group_rejoin(client); return false;
    case KAFKA_ERROR_UNKNOWN_MEMBER_ID: client__group_lost(client, false); return false;
    case KAFKA_ERROR_ILLEGAL_GENERATION: client__group_lost(client, true); return false;
    default: break;
    }
    if (kafka_error_is_retriable(error)) {
        client__group_later(client);
    } else {
        client__group_end(client, error, PORT_OK);
    }
    return false;
}

/* The same of what the round of joining asks: what can be tried again begins with JoinGroup. */
static bool is_fine_in_round(struct client *client, int16_t error)
{
    bool was_fine = is_fine(client, error);
    if (!was_fine && client->member.state != MEMBER_ENDED) { client__group_rejoin(client); }
    return was_fine;
}

/* ---- answers ---- */

static void on_found(struct client *client, const struct kafka_find_coordinator_response *answer, int16_t version)
{
    const struct kafka_find_coordinator_response_coordinator *first = answer->coordinators;
    bool is_list = version >= 4;
    if (is_list && answer->coordinators_count < 1) {
        client__group_later(client);
        return;
    }
    if (!is_fine(client, is_list ? first->error_code : answer->error_code)) { return; }
    client__group_found(client, is_list ? first->node_id : answer->node_id, is_list ? first->host : answer->host,
                        is_list ? first->port : answer->port);
}

static void on_joined(struct client *client, const struct ask *ask, const struct kafka_join_group_response *answer,
                      struct base_slice frame, struct base_slice body)
{
    if (answer->error_code == KAFKA_ERROR_MEMBER_ID_REQUIRED) { /* KIP-394: this is our id, come again */
        if (client__group_keep_id(client, answer->member_id)) { client__group_rejoin(client); }
        return;
    }
    if (is_fine_in_round(client, answer->error_code)) { client__group_joined(client, ask, frame, body); }
}

/* The owned partition of an ask; NULL: it is not ours any more, or anew. */
static struct part *part_named(struct client *client, const struct ask *ask, const struct topic *topic, int32_t index)
{
    for (uint32_t i = 0; topic != NULL && i < ask->part_count; i++) {
        struct part *part = client__part(client, ask->parts[i]);
        if (part->index == index && part->topic == client__topic_index(client, topic) && client__is_owned(part)) {
            return part;
        }
    }
    return NULL;
}

static struct topic *topic_named(struct client *client, struct kafka_text name, struct base_uuid id, int16_t version)
{
    return version > OFFSETS_BY_NAME_MAX ? client__topic_by_id(client, id)
                                         : client__topic_find(client, kafka_text_slice(name));
}

static bool is_of_partition(int16_t error) /* of it alone: the others are well */
{
    return error == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION || error == KAFKA_ERROR_UNKNOWN_TOPIC_ID ||
           error == KAFKA_ERROR_TOPIC_AUTHORIZATION_FAILED || error == KAFKA_ERROR_OFFSET_METADATA_TOO_LARGE ||
           error == KAFKA_ERROR_INVALID_COMMIT_OFFSET_SIZE;
}

/* Of what was polled while the request was under way (a partition given up takes it along) its answer says nothing. */
static void end_commit(struct client *client, struct part *part, int16_t error)
{
    part->is_dirty = error == KAFKA_ERROR_NONE && part->commit_at != part->commit_sent;
    part->commit_error = error;
    if (error == KAFKA_ERROR_NONE) { part->committed = part->commit_sent; }
    client__tell(client, part, TELL_COMMITTED);
}

/* Their offsets can't be committed in this generation any more. Those that stay are tried anew in the next. */
static void drop_commit(struct client *client)
{
    struct member *member = &client->member;
    member->has_commit = false;
    for (struct base_link *link = base_list_first(&member->owned); link != NULL;
         link = base_list_next(&member->owned, link)) {
        struct part *part = BASE_ITEM(link, struct part, owned);
        if (!part->is_leaving) { part->is_dirty = false; }
    }
}

/* Those that the answer has left out are asked for again, but not at once. */
static void after_parts(struct client *client, const struct ask *ask, enum group_ask what)
{
    for (uint32_t i = 0; i < ask->part_count; i++) {
        const struct part *part = client__part(client, ask->parts[i]);
        bool is_left_out = what == GROUP_ASK_COMMIT ? part->is_dirty && part->commit_at == part->commit_sent
                                                    : part->is_placing && !part->is_leaving;
        if (!client__is_owned(part) || !is_left_out) { continue; }
        client__group_later(client);
        return;
    }
}

static void on_committed(struct client *client, const struct ask *ask,
                         const struct kafka_offset_commit_response *answer)
{
    for (int32_t i = 0; i < answer->topics_count; i++) {
        const struct kafka_offset_commit_response_offset_commit_response_topic *of_topic = &answer->topics[i];
        const struct topic *topic = topic_named(client, of_topic->name, of_topic->topic_id, ask->version);
        for (int32_t j = 0; j < of_topic->partitions_count; j++) {
            int16_t error = of_topic->partitions[j].error_code;
            struct part *part = part_named(client, ask, topic, of_topic->partitions[j].partition_index);
            if (part == NULL || !part->is_dirty) { continue; }
            if (error == KAFKA_ERROR_NONE || is_of_partition(error)) {
                end_commit(client, part, error);
                continue;
            }
            if (error == KAFKA_ERROR_REBALANCE_IN_PROGRESS) { drop_commit(client); }
            (void)is_fine(client, error); /* it is not */
            return;
        }
    }
    after_parts(client, ask, GROUP_ASK_COMMIT);
}

static void place(struct client *client, struct part *part, int64_t offset)
{
    const struct member *member = &client->member;
    bool has_offset = offset >= 0;
    struct client_assignment assignment = {.token = member->config.token,
                                           .topic = client__topic_name(&client->topics[part->topic]),
                                           .partition = part->index,
                                           .start = has_offset ? CLIENT_FROM_OFFSET : member->config.start,
                                           .at = has_offset ? offset : member->config.at,
                                           .reset = member->config.reset};
    enum base_rc rc = client_assign(client, &assignment);
    CHECK(rc == BASE_OK); /* the topic and the partition are there */
    part->is_unplaced = false;
    part->committed = has_offset ? offset : -1;
    client__tell(client, part, TELL_RESUMED);
}

/* False: the answer as a whole has failed. */
static bool on_place(struct client *client, const struct ask *ask, const struct topic *topic, int32_t index,
                     int64_t offset, int16_t error)
{
    struct part *part = part_named(client, ask, topic, index);
    if (part == NULL || !part->is_placing || part->is_leaving) { return true; }
    part->is_placing = false;
    if (is_of_partition(error)) { /* its topic has gone, or another one has come: nothing is committed for that */
        place(client, part, -1);
        return true;
    }
    if (!is_fine(client, error)) { return false; }
    place(client, part, offset);
    return true;
}

static void on_placed(struct client *client, const struct ask *ask, const struct kafka_offset_fetch_response *answer)
{
    bool is_list = ask->version >= OFFSETS_OF_GROUPS_FROM;
    if (is_list && answer->groups_count != 1) {
        client__group_later(client);
        return;
    }
    if (!is_fine(client, is_list ? answer->groups[0].error_code : answer->error_code)) { return; }
    for (int32_t i = 0; is_list && i < answer->groups[0].topics_count; i++) {
        const struct kafka_offset_fetch_response_offset_fetch_response_topics *of_topic = &answer->groups[0].topics[i];
        const struct topic *topic = topic_named(client, of_topic->name, of_topic->topic_id, ask->version);
        for (int32_t j = 0; j < of_topic->partitions_count; j++) {
            const struct kafka_offset_fetch_response_offset_fetch_response_partitions *of = &of_topic->partitions[j];
            if (!on_place(client, ask, topic, of->partition_index, of->committed_offset, of->error_code)) { return; }
        }
    }
    for (int32_t i = 0; !is_list && i < answer->topics_count; i++) {
        const struct kafka_offset_fetch_response_offset_fetch_response_topic *of_topic = &answer->topics[i];
        const struct topic *topic = client__topic_find(client, kafka_text_slice(of_topic->name));
        for (int32_t j = 0; j < of_topic->partitions_count; j++) {
            const struct kafka_offset_fetch_response_offset_fetch_response_partition *of = &of_topic->partitions[j];
            if (!on_place(client, ask, topic, of->partition_index, of->committed_offset, of->error_code)) { return; }
        }
    }
    after_parts(client, ask, GROUP_ASK_PLACE);
}

static void on_sync(struct client *client, const struct kafka_sync_group_response *answer)
{
    if (is_fine_in_round(client, answer->error_code)) {
        client__group_assigned(client, kafka_bytes_slice(answer->assignment));
    }
}

static void on_beat(struct client *client, int16_t error)
{
    struct member *member = &client->member;
    member->beat_ns = base_deadline_ns(client->now_ns, member->config.heartbeat_ms * MS);
    (void)is_fine(client, error); /* whatever it is, it was dealt with */
}

void client__on_group(struct client *client, const struct ask *ask, struct base_slice frame, struct base_slice body)
{
    struct member *member = &client->member;
    enum group_ask what = (enum group_ask)ask->item;
    void *answer = NULL;
    uint8_t *memory = NULL;
    struct base_arena arena;
    if (ask->life != member->life && what != GROUP_ASK_FIND) { return; } /* of an older membership or round */
    member->asked &= ~(1U << what);
    if (member->state == MEMBER_ENDED) { return; }
    client->has_more = true;
    if (client__decode(client, kafka_response_message(ask->api_key), body, ask->version, 0, &answer, &memory, &arena) !=
        BASE_OK) {
        client__group_later(client);
        if (what == GROUP_ASK_JOIN || what == GROUP_ASK_SYNC) { client__group_rejoin(client); }
        return;
    }
    switch (what) {
    case GROUP_ASK_FIND: on_found(client, answer, ask->version); break;
    case GROUP_ASK_JOIN: on_joined(client, ask, answer, frame, body); break;
    case GROUP_ASK_SYNC: on_sync(client, answer); break;
    case GROUP_ASK_BEAT: on_beat(client, ((const struct kafka_heartbeat_response *)answer)->error_code); break;
    case GROUP_ASK_COMMIT: on_committed(client, ask, answer); break;
    case GROUP_ASK_PLACE: on_placed(client, ask, answer); break;
    case GROUP_ASK_LEAVE:
        client__group_end(client, KAFKA_ERROR_NONE, PORT_OK);
        break; /* an error: we were gone already */
    }
    client__give(client, memory);
}

void client__lost_group(struct client *client, const struct ask *ask)
{
    struct member *member = &client->member;
    enum group_ask what = (enum group_ask)ask->item;
    if (ask->life != member->life && what != GROUP_ASK_FIND) { return; }
    member->asked &= ~(1U << what);
    if (member->state == MEMBER_ENDED || client->is_closing) { return; }
    if (what == GROUP_ASK_FIND) {
        client__group_later(client);
        return;
    }
    client__group_unfound(client);
    if (what == GROUP_ASK_JOIN || what == GROUP_ASK_SYNC) { client__group_rejoin(client); }
}
