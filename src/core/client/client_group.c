/* client_group.c: a member of a group: its states (drawn in client__.h), what it owns, and what is told of it.
 *
 * What is committed of a partition is part->consumed at a turn: everything before it was polled. A partition that is given up gives no
 * record from the moment on that this is taken.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

#include "wire/kafka/consumer_protocol.h"
#include "wire/kafka/join_group.h"

void client_group_default(struct client_group *group)
{
    *group = (struct client_group){.strategy = CLIENT_RANGE,
                                   .start = CLIENT_FROM_END,
                                   .reset = CLIENT_RESET_END,
                                   .session_timeout_ms = 45000,
                                   .rebalance_timeout_ms = 300000,
                                   .heartbeat_ms = 3000,
                                   .auto_commit_ms = 5000};
}

static void move_to(struct client *client, enum member_state state)
{
    struct member *member = &client->member;
    CHECK(member->state != MEMBER_ENDED);
    CHECK(IMPLIES(state == MEMBER_JOINING, member->state == MEMBER_OUT));
    CHECK(IMPLIES(state == MEMBER_CHOOSING, member->state == MEMBER_JOINING));
    CHECK(IMPLIES(state == MEMBER_STABLE, member->state == MEMBER_SYNCING));
    member->state = state;
    client->has_more = true; /* the new state has something to do */
}

/* ---- begin ---- */

static bool is_good(const struct client_group *group)
{
    if (group->group_id.size_bytes == 0 || group->group_id.size_bytes > CLIENT_GROUP_NAME_MAX) { return false; }
    if (group->instance_id.size_bytes > CLIENT_GROUP_NAME_MAX) { return false; }
    if (group->topic_count == 0 || group->topic_count > CLIENT_GROUP_TOPICS_MAX) { return false; }
    for (uint32_t i = 0; i < group->topic_count; i++) {
        size_t bytes = group->topics[i].size_bytes;
        if (bytes == 0 || bytes > CLIENT_TOPIC_NAME_MAX) { return false; }
    }
    return group->session_timeout_ms <= INT32_MAX && group->rebalance_timeout_ms <= INT32_MAX &&
           group->heartbeat_ms > 0;
}

static struct base_slice keep(uint8_t *room, struct base_slice text)
{
    if (text.size_bytes > 0) { memcpy(room, text.at, text.size_bytes); }
    return base_slice_of(room, text.size_bytes);
}

enum base_rc client_join(struct client *client, const struct client_group *group)
{
    struct member *member = &client->member;
    CHECK(member->state == MEMBER_NONE);
    if (!is_good(group)) { return BASE_BAD; }
    for (uint32_t i = 0; i < group->topic_count; i++) {
        struct topic *topic = NULL;
        if (client__topic_take(client, group->topics[i], &topic) != BASE_OK) { return BASE_FULL; }
        member->topics[i] = client__topic_index(client, topic);
        member->counted[i] = -1;
    }
    struct node *node = client__node_coordinator_take(client);
    if (node == NULL) { return BASE_FULL; }
    member->config = *group;
    member->config.group_id = keep(member->group_id, group->group_id);
    member->config.instance_id = keep(member->instance_id, group->instance_id);
    member->coordinator = client__node_index(client, node);
    member->generation = -1;
    member->life = 1;
    move_to(client, MEMBER_OUT);
    return BASE_OK;
}

/* ---- what is told ---- */

void client__tell(struct client *client, struct part *part, enum tell tell)
{
    part->tells |= (uint8_t)tell;
    if (!base_link_is_on(&part->told)) { base_list_push_back(&client->member.tells, &part->told); }
    client->has_news = true;
}

static void fill_told(const struct client *client, const struct part *part, enum tell tell,
                      struct client_result *result_out)
{
    *result_out = (struct client_result){.token = client->member.config.token,
                                         .topic = client__topic_name(&client->topics[part->topic]),
                                         .partition = part->index,
                                         .offset = -1};
    switch (tell) {
    case TELL_COMMITTED:
        result_out->kind = CLIENT_COMMITTED;
        result_out->offset = part->committed;
        result_out->error = part->commit_error;
        return;
    case TELL_REVOKED:
        result_out->kind = CLIENT_REVOKED;
        result_out->outcome = part->is_lost ? CLIENT_UNKNOWN : CLIENT_ACKED;
        return;
    case TELL_ASSIGNED: result_out->kind = CLIENT_ASSIGNED; return;
    case TELL_RESUMED:
        result_out->kind = CLIENT_RESUMED;
        result_out->offset = part->committed;
        return;
    }
}

static bool poll_end(struct client *client, struct client_result *result_out)
{
    struct member *member = &client->member;
    if (!member->is_end_to_tell) { return false; }
    member->is_end_to_tell = false;
    bool is_left = member->error == KAFKA_ERROR_NONE && member->rc == PORT_OK;
    *result_out = (struct client_result){.kind = is_left ? CLIENT_LEFT : CLIENT_GROUP_FAILED,
                                         .token = member->config.token,
                                         .error = member->error,
                                         .rc = member->rc,
                                         .partition = -1,
                                         .offset = -1};
    return true;
}

bool client__poll_group(struct client *client, struct client_result *result_out)
{
    struct base_link *link = base_list_first(&client->member.tells);
    if (link == NULL) { return poll_end(client, result_out); }
    struct part *part = BASE_ITEM(link, struct part, told);
    uint8_t tell = (uint8_t)(part->tells & -part->tells); /* the lowest */
    fill_told(client, part, (enum tell)tell, result_out);
    part->tells &= (uint8_t)~tell;
    if (part->tells == 0) { base_list_remove(&client->member.tells, link); }
    return true;
}

/* ---- partitions ---- */

static bool has_started(const struct part *part)
{
    return !part->is_unplaced && part->seek == SEEK_NOT && part->consumed >= 0;
}

/* What is to be committed now: of all partitions, or of those that are given up. */
static void take_offsets(struct client *client, bool is_of_all)
{
    struct member *member = &client->member;
    for (struct base_link *link = base_list_first(&member->owned); link != NULL;
         link = base_list_next(&member->owned, link)) {
        struct part *part = BASE_ITEM(link, struct part, owned);
        if (!is_of_all && !part->is_leaving) { continue; }
        if (!has_started(part) || part->consumed == part->committed) { continue; }
        part->commit_at = part->consumed;
        part->is_dirty = true;
        member->has_commit = true;
    }
}

static void disown(struct client *client, struct part *part, bool is_lost)
{
    client__part_release(client, part);
    base_list_remove(&client->member.owned, &part->owned);
    part->is_leaving = false;
    part->is_dirty = false;
    part->is_unplaced = false;
    part->is_placing = false;
    part->is_lost = is_lost;
    bool is_known = (part->tells & TELL_ASSIGNED) == 0; /* else the owner has not heard of it, and need not */
    part->tells &= (uint8_t)~(TELL_ASSIGNED | TELL_RESUMED);
    if (is_known) { client__tell(client, part, TELL_REVOKED); }
    if (part->tells == 0 && base_link_is_on(&part->told)) { base_list_remove(&client->member.tells, &part->told); }
}

static void disown_all(struct client *client, bool is_lost)
{
    for (;;) {
        struct base_link *link = base_list_first(&client->member.owned);
        if (link == NULL) { return; }
        disown(client, BASE_ITEM(link, struct part, owned), is_lost);
    }
}

/* Nothing more is given from those that are given up; their offsets are committed, then others may have them. */
static void begin_giving(struct client *client, bool is_of_all)
{
    struct member *member = &client->member;
    bool commits = member->config.auto_commit_ms > 0 || member->is_commit_wanted;
    for (struct base_link *link = base_list_first(&member->owned); link != NULL;
         link = base_list_next(&member->owned, link)) {
        struct part *part = BASE_ITEM(link, struct part, owned);
        if (!is_of_all && !part->is_leaving) { continue; }
        part->is_leaving = true;
        client__part_release(client, part);
    }
    if (commits && member->generation >= 0) { take_offsets(client, is_of_all); }
    member->is_commit_wanted = false;
    uint64_t patience_ms = base_min_u64(member->config.rebalance_timeout_ms, client->config.request_timeout_ms);
    if (member->is_leave_wanted) { patience_ms = client->config.request_timeout_ms / 2; }
    member->deadline_ns = base_deadline_ns(client->now_ns, patience_ms * MS);
    move_to(client, MEMBER_GIVING);
}

static void end_giving(struct client *client)
{
    struct member *member = &client->member;
    struct base_link *link = base_list_first(&member->owned);
    while (link != NULL) {
        struct part *part = BASE_ITEM(link, struct part, owned);
        link = base_list_next(&member->owned, link);
        if (part->is_leaving) { disown(client, part, part->is_dirty); } /* not committed in time: it comes twice */
    }
    member->has_commit = false;
    if (member->is_leave_wanted) {
        member->deadline_ns = base_deadline_ns(client->now_ns, client->config.request_timeout_ms * MS / 4);
        move_to(client, MEMBER_LEAVING);
    } else {
        move_to(client, MEMBER_OUT);
    }
}

/* ---- what the answers say ---- */

void client__group_later(struct client *client)
{
    uint64_t backoff_ns = client->config.retry_backoff_ms * MS;
    client->member.retry_ns =
        base_deadline_ns(client->now_ns, backoff_ns / 2 + base_prng_below(&client->prng, backoff_ns + 1));
}

void client__group_found(struct client *client, int32_t node, struct kafka_text host, int32_t port)
{
    struct member *member = &client->member;
    struct base_slice name = kafka_text_slice(host);
    if (name.size_bytes == 0 || name.size_bytes > PEER_HOST_MAX || port <= 0 || port > UINT16_MAX) {
        client__group_later(client);
        return;
    }
    client__node_coordinator_set(client, &client->nodes[member->coordinator], node, name, (uint16_t)port);
    member->is_coordinator_known = true;
    client->has_more = true;
}

void client__group_unfound(struct client *client)
{
    client->member.is_coordinator_known = false;
    client__group_later(client);
}

void client__group_node_failed(struct client *client)
{
    if (client->member.is_coordinator_known) { client__group_unfound(client); }
}

void client__group_forget_join(struct client *client)
{
    struct member *member = &client->member;
    client__give(client, member->join_memory);
    client__give(client, member->join_frame);
    member->join_memory = NULL;
    member->join_frame = NULL;
    member->join = NULL;
}

static void leave_round(struct client *client)
{
    struct member *member = &client->member;
    client__group_forget_join(client);
    member->life += 1;
    member->asked &= 1U << GROUP_ASK_FIND;
}

void client__group_rejoin(struct client *client)
{
    struct member *member = &client->member;
    switch (member->state) {
    case MEMBER_JOINING:
    case MEMBER_CHOOSING:
    case MEMBER_SYNCING:
        leave_round(client);
        move_to(client, MEMBER_OUT);
        return;
    case MEMBER_STABLE: member->is_rejoin_wanted = true; return;
    case MEMBER_GIVING: /* the round goes on without our commit: those waiting can't be committed any more */
    case MEMBER_OUT:
    case MEMBER_LEAVING:
    case MEMBER_NONE:
    case MEMBER_ENDED: return;
    }
}

void client__group_lost(struct client *client, bool keeps_id)
{
    struct member *member = &client->member;
    if (member->state == MEMBER_NONE || member->state == MEMBER_ENDED) { return; }
    leave_round(client);
    disown_all(client, true);
    member->has_commit = false;
    member->generation = -1;
    member->is_leader = false;
    member->is_rejoin_wanted = false;
    if (!keeps_id) { member->member_id_bytes = 0; }
    if (member->state == MEMBER_LEAVING) { return; }
    if (member->state == MEMBER_GIVING && member->is_leave_wanted) {
        end_giving(client);
    } else {
        move_to(client, MEMBER_OUT);
    }
}

void client__group_end(struct client *client, int16_t error, enum port_rc rc)
{
    struct member *member = &client->member;
    leave_round(client);
    disown_all(client, true);
    move_to(client, MEMBER_ENDED);
    member->error = error;
    member->rc = rc;
    member->is_end_to_tell = true;
    client->has_news = true;
}

bool client__group_keep_id(struct client *client, struct kafka_text text)
{
    struct member *member = &client->member;
    struct base_slice id = kafka_text_slice(text);
    if (id.size_bytes == 0 || id.size_bytes > sizeof member->member_id) {
        client__group_end(client, KAFKA_ERROR_UNKNOWN_SERVER_ERROR, PORT_OK);
        return false;
    }
    memcpy(member->member_id, id.at, id.size_bytes);
    member->member_id_bytes = (uint32_t)id.size_bytes;
    return true;
}

void client__group_joined(struct client *client, const struct ask *ask, struct base_slice frame, struct base_slice body)
{
    struct member *member = &client->member;
    void *answer = NULL;
    struct base_arena arena;
    member->join_frame = client__keep_frame(client, frame, &body);
    enum base_rc rc = member->join_frame == NULL
                          ? BASE_FULL
                          : client__decode(client, KAFKA_MESSAGE_JOIN_GROUP_RESPONSE, body, ask->version, 0, &answer,
                                           &member->join_memory, &arena);
    if (rc != BASE_OK) {
        member->join_memory = NULL;
        client__group_rejoin(client);
        client__group_later(client);
        return;
    }
    const struct kafka_join_group_response *join = answer;
    if (!client__group_keep_id(client, join->member_id)) { return; }
    member->generation = join->generation_id;
    member->is_rejoin_wanted = false;
    member->is_leader = kafka_text_equal(join->leader, join->member_id);
    member->beat_ns = base_deadline_ns(client->now_ns, member->config.heartbeat_ms * MS);
    for (uint32_t i = 0; i < member->config.topic_count; i++) { member->counted[i] = -1; }
    if (!member->is_leader || join->skip_assignment) {
        client__group_forget_join(client);
        move_to(client, MEMBER_SYNCING);
        return;
    }
    member->join = join;
    if (client__choose_topics(client, join) != BASE_OK) {
        client__group_end(client, KAFKA_ERROR_NONE, PORT_NO_MEMORY);
        return;
    }
    move_to(client, MEMBER_CHOOSING);
}

/* ---- an assignment ---- */

static void own(struct client *client, struct part *part)
{
    base_list_push_back(&client->member.owned, &part->owned);
    part->is_unplaced = true;
    part->is_placing = false;
    part->is_leaving = false;
    part->is_dirty = false;
    part->committed = -1;
    client__tell(client, part, TELL_ASSIGNED);
}

static enum base_rc want_all(struct client *client, const struct kafka_consumer_protocol_assignment *assignment)
{
    for (int32_t i = 0; i < assignment->assigned_partitions_count; i++) {
        const struct kafka_consumer_protocol_assignment_topic_partition *of_topic = &assignment->assigned_partitions[i];
        struct topic *topic = client__topic_find(client, kafka_text_slice(of_topic->topic));
        if (topic == NULL && client__topic_take(client, kafka_text_slice(of_topic->topic), &topic) != BASE_OK) {
            return BASE_FULL;
        }
        for (int32_t j = 0; j < of_topic->partitions_count; j++) {
            struct part *part = NULL;
            if (of_topic->partitions[j] < 0) { return BASE_BAD; }
            if (client__part_take(client, client__topic_index(client, topic), of_topic->partitions[j], &part) !=
                BASE_OK) {
                return BASE_FULL;
            }
            part->is_wanted = true;
            if (!client__is_owned(part)) { own(client, part); }
        }
    }
    return BASE_OK;
}

/* True: there are some that we own and were not given again. */
static bool mark_leaving(struct client *client)
{
    bool is_any = false;
    struct member *member = &client->member;
    for (struct base_link *link = base_list_first(&member->owned); link != NULL;
         link = base_list_next(&member->owned, link)) {
        struct part *part = BASE_ITEM(link, struct part, owned);
        part->is_leaving = !part->is_wanted;
        is_any = is_any || part->is_leaving;
    }
    return is_any;
}

void client__group_assigned(struct client *client, struct base_slice bytes)
{
    struct member *member = &client->member;
    for (struct base_link *link = base_list_first(&member->owned); link != NULL;
         link = base_list_next(&member->owned, link)) {
        BASE_ITEM(link, struct part, owned)->is_wanted = false;
    }
    enum base_rc rc = BASE_OK;
    if (bytes.size_bytes > 0) { /* empty: nothing, as Kafka gives to whom the leader forgot */
        size_t room_bytes = bytes.size_bytes * KAFKA_ARENA_FACTOR + 256;
        uint8_t *memory = base_pages_take(client->pages, BASE_CONTROL, room_bytes);
        struct kafka_consumer_protocol_assignment assignment;
        struct base_arena arena;
        int16_t version = -1;
        rc = BASE_FULL;
        if (memory != NULL) {
            base_arena_init(&arena, memory, room_bytes);
            rc =
                client__protocol_read(KAFKA_MESSAGE_CONSUMER_PROTOCOL_ASSIGNMENT, bytes, &arena, &assignment, &version);
        }
        if (rc == BASE_OK) { rc = want_all(client, &assignment); }
        client__give(client, memory);
    }
    if (rc != BASE_OK) {
        client__group_end(client, rc == BASE_BAD ? KAFKA_ERROR_INVALID_REQUEST : KAFKA_ERROR_NONE,
                          rc == BASE_BAD ? PORT_OK : PORT_NO_MEMORY);
        return;
    }
    member->look_ns = base_deadline_ns(client->now_ns, client->config.metadata_max_age_ms * MS);
    member->beat_ns = base_deadline_ns(client->now_ns, member->config.heartbeat_ms * MS);
    member->commit_ns = base_deadline_ns(client->now_ns, member->config.auto_commit_ms * MS);
    move_to(client, MEMBER_STABLE);
    if (mark_leaving(client)) { begin_giving(client, false); }
}

/* ---- the turn ---- */

/* The leader looks whether its topics have other partitions than those that it divided. */
static void watch_topics(struct client *client)
{
    struct member *member = &client->member;
    bool looks_again = member->look_ns <= client->now_ns;
    if (looks_again) { member->look_ns = base_deadline_ns(client->now_ns, client->config.metadata_max_age_ms * MS); }
    for (uint32_t i = 0; i < member->config.topic_count; i++) {
        struct topic *topic = &client->topics[member->topics[i]];
        if (topic->state == CLIENT_TOPIC_UNKNOWN) { continue; }
        int32_t count = client__topic_partitions(topic);
        if (member->counted[i] < 0) {
            member->counted[i] = count;
        } /* a leader that was not asked to divide (KIP-814) */
        if (member->is_leader && member->counted[i] != count) { member->is_rejoin_wanted = true; }
        if (topic->state == CLIENT_TOPIC_FAILED && looks_again) {
            enum base_rc rc = client__topic_take(client, client__topic_name(topic), &topic);
            CHECK(rc == BASE_OK); /* it is in the table */
        }
    }
    client__alarm(client, member->look_ns);
}

static bool is_asked(const struct client *client, enum group_ask what)
{
    return (client->member.asked & 1U << what) != 0;
}

/* The coordinator, when requests can be sent to it. */
static struct node *coordinator(struct client *client, struct port_out *out)
{
    struct member *member = &client->member;
    if (member->retry_ns > client->now_ns) {
        client__alarm(client, member->retry_ns);
        return NULL;
    }
    if (!member->is_coordinator_known) {
        struct node *any = client__node_any(client);
        if (!is_asked(client, GROUP_ASK_FIND) && any != NULL && client__may_work(client, out)) {
            client__group_ask(client, GROUP_ASK_FIND, any, out);
        }
        return NULL;
    }
    struct node *node = &client->nodes[member->coordinator];
    client__node_dial(client, node);
    bool is_ready = node->state == NODE_READY && client__may_work(client, out) && client__can_send(client, node, out);
    return is_ready ? node : NULL;
}

/* Topics of the members are known, or known to be missing. */
static bool is_all_known(const struct client *client)
{
    for (uint32_t i = 0; i < client->topics_used; i++) {
        if (client->topics[i].state == CLIENT_TOPIC_UNKNOWN) { return false; }
    }
    return true;
}

static void beat(struct client *client, struct node *node, struct port_out *out)
{
    struct member *member = &client->member;
    if (is_asked(client, GROUP_ASK_BEAT) || member->generation < 0) { return; }
    if (client->now_ns < member->beat_ns) {
        client__alarm(client, member->beat_ns);
        return;
    }
    client__group_ask(client, GROUP_ASK_BEAT, node, out);
}

static void commit(struct client *client, struct node *node, struct port_out *out)
{
    struct member *member = &client->member;
    if (member->has_commit && !is_asked(client, GROUP_ASK_COMMIT)) {
        client__group_ask(client, GROUP_ASK_COMMIT, node, out);
    }
}

static void turn_stable(struct client *client, struct node *node, struct port_out *out)
{
    struct member *member = &client->member;
    if (!member->has_commit) {
        bool is_due = member->config.auto_commit_ms > 0 && member->commit_ns <= client->now_ns;
        if (is_due || member->is_commit_wanted) {
            take_offsets(client, true);
            member->is_commit_wanted = false;
            member->commit_ns = base_deadline_ns(client->now_ns, member->config.auto_commit_ms * MS);
        }
        if (member->config.auto_commit_ms > 0) { client__alarm(client, member->commit_ns); }
    }
    if (node == NULL) { return; }
    beat(client, node, out);
    commit(client, node, out);
    if (!is_asked(client, GROUP_ASK_PLACE)) { client__group_ask(client, GROUP_ASK_PLACE, node, out); }
}

static void turn_giving(struct client *client, struct node *node, struct port_out *out)
{
    struct member *member = &client->member;
    bool is_over = !member->has_commit || member->deadline_ns <= client->now_ns;
    if (is_over && base_list_is_empty(&member->tells)) {
        end_giving(client);
        return;
    }
    client__alarm(client, member->deadline_ns);
    if (node == NULL) { return; }
    beat(client, node, out);
    commit(client, node, out);
}

static void turn_leaving(struct client *client, struct node *node, struct port_out *out)
{
    struct member *member = &client->member;
    bool is_static = member->config.instance_id.size_bytes > 0;
    if (member->member_id_bytes == 0 || is_static || member->deadline_ns <= client->now_ns) {
        client__group_end(client, KAFKA_ERROR_NONE, PORT_OK);
        return;
    }
    client__alarm(client, member->deadline_ns);
    if (node != NULL && !is_asked(client, GROUP_ASK_LEAVE)) { client__group_ask(client, GROUP_ASK_LEAVE, node, out); }
}

/* Moves that need no answer. */
static void advance(struct client *client)
{
    struct member *member = &client->member;
    bool is_over = member->state == MEMBER_GIVING || member->state == MEMBER_LEAVING;
    if (member->is_leave_wanted && !is_over) {
        if (is_asked(client, GROUP_ASK_JOIN) ||
            is_asked(client, GROUP_ASK_SYNC)) { /* they would hold up what follows */
            client__node_reset(client, &client->nodes[member->coordinator]);
        }
        leave_round(client);
        begin_giving(client, true);
    } else if (member->state == MEMBER_STABLE && member->is_rejoin_wanted && base_list_is_empty(&member->tells)) {
        member->is_rejoin_wanted = false;
        if (member->config.strategy == CLIENT_RANGE) {
            begin_giving(client, true);
        } else if (!member->has_commit) { /* what is on its way is let land first */
            leave_round(client);
            move_to(client, MEMBER_OUT);
        } else {
            member->is_rejoin_wanted = true;
        }
    }
}

void client__turn_group(struct client *client, struct port_out *out)
{
    struct member *member = &client->member;
    if (member->state == MEMBER_NONE || member->state == MEMBER_ENDED || client->is_closing) { return; }
    if (member->state == MEMBER_STABLE) { watch_topics(client); }
    advance(client);
    struct node *node = coordinator(client, out);
    switch (member->state) {
    case MEMBER_OUT:
        if (node != NULL && base_list_is_empty(&member->tells)) {
            leave_round(client); /* what was asked in the old one says nothing about the new one */
            move_to(client, MEMBER_JOINING);
            client__group_ask(client, GROUP_ASK_JOIN, node, out);
        }
        break;
    case MEMBER_JOINING: break;
    case MEMBER_CHOOSING:
        if (node == NULL) { break; }
        if (is_all_known(client)) {
            move_to(client, MEMBER_SYNCING);
            client__group_ask(client, GROUP_ASK_SYNC, node, out);
        } else {
            beat(client, node, out);
        }
        break;
    case MEMBER_SYNCING:
        if (node != NULL && !is_asked(client, GROUP_ASK_SYNC)) { client__group_ask(client, GROUP_ASK_SYNC, node, out); }
        break;
    case MEMBER_STABLE: turn_stable(client, node, out); break;
    case MEMBER_GIVING: turn_giving(client, node, out); break;
    case MEMBER_LEAVING: turn_leaving(client, node, out); break;
    case MEMBER_NONE:
    case MEMBER_ENDED: break;
    }
}

/* ---- what the owner wants ---- */

void client_commit(struct client *client) { client->member.is_commit_wanted = true; }

void client_leave(struct client *client)
{
    struct member *member = &client->member;
    if (member->state == MEMBER_NONE || member->state == MEMBER_ENDED || member->is_leave_wanted) { return; }
    member->is_leave_wanted = true;
    for (struct base_link *link = base_list_first(&member->owned); link != NULL;
         link = base_list_next(&member->owned, link)) {
        client__part_release(client, BASE_ITEM(link, struct part, owned));
    }
}

void client_group_view(const struct client *client, struct client_group_view *view_out)
{
    const struct member *member = &client->member;
    *view_out =
        (struct client_group_view){.is_member = member->state == MEMBER_STABLE || member->state == MEMBER_GIVING,
                                   .is_leader = member->is_leader,
                                   .generation = member->state == MEMBER_NONE ? -1 : member->generation,
                                   .member_id = base_slice_of(member->member_id, member->member_id_bytes),
                                   .owned = member->owned.count,
                                   .is_committing = member->has_commit};
    for (struct base_link *link = base_list_first(&member->owned); link != NULL;
         link = base_list_next(&member->owned, link)) {
        const struct part *part = BASE_ITEM(link, struct part, owned);
        if (has_started(part) && part->consumed != part->committed) { view_out->uncommitted += 1; }
    }
}
