/* broker__start.c: how a node starts, remembers and stops: the journal's and the controller's side of shard 0.
 *
 * START   every state and entry that the journal kept goes to the shard of its log, one at a time, in order; then all shards
 *         end their recovery; then the metadata log is read from its start and applied on every shard; then shard 0 listens,
 *         registers the node with the port it got, and tells the others to listen too.
 * STOP    fronts drain; a last checkpoint; backs close; the journal stops; every shard says STOPPED.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__node.h"

void node_to_shard(struct broker *broker, uint32_t shard, enum message_kind kind, struct port_out *out)
{
    struct port_message message;
    message_begin(&message, shard, kind);
    message_send(broker, &message, out);
}

void node_to_every_shard(struct broker *broker, enum message_kind kind, struct port_out *out)
{
    for (uint32_t shard = 0; shard < broker->config.shards; shard++) { node_to_shard(broker, shard, kind, out); }
}

void node_ask_every_shard(struct broker *broker, enum message_kind kind, struct port_out *out)
{
    CHECK(broker->answers_due == 0);
    broker->answers_due = broker->config.shards;
    node_to_every_shard(broker, kind, out);
}

bool node_is_last_answer(struct broker *broker)
{
    CHECK(broker->answers_due > 0);
    broker->answers_due -= 1;
    return broker->answers_due == 0;
}

/* ---- moves --------------------------------------------------------------------------------------------------------------- */

static bool may_move(enum broker_state from, enum broker_state to)
{
    switch (from) {
    case BROKER_BOOT: return to == BROKER_RECOVERING || to == BROKER_CLOSING;
    case BROKER_RECOVERING: return to == BROKER_LOADING || to == BROKER_CLOSING;
    case BROKER_LOADING: return to == BROKER_SERVING || to == BROKER_DRAINING;
    case BROKER_SERVING: return to == BROKER_DRAINING;
    case BROKER_DRAINING: return to == BROKER_CHECKPOINTING || to == BROKER_CLOSING;
    case BROKER_CHECKPOINTING: return to == BROKER_CLOSING;
    case BROKER_CLOSING: return to == BROKER_STOPPED;
    case BROKER_STOPPED: return false;
    }
    return false;
}

void node_move_to(struct broker *broker, enum broker_state to)
{
    CHECK(may_move(broker->state, to));
    broker->state = to; /* of the node, on shard 0; the others have their own share of it */
    broker->moved_ns = broker->now_ns;
}

void node_close_backs(struct broker *broker, struct port_out *out)
{
    node_move_to(broker, BROKER_CLOSING);
    node_ask_every_shard(broker, MSG_CLOSE, out);
}

static void tell_drain(const struct broker *broker, struct port_out *out)
{
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "draining: nothing more is taken, and what is in flight has ");
    base_text_add_i64(&text, (int64_t)broker->config.shutdown_ms);
    base_text_add(&text, " ms");
    port_log_end(out, PORT_INFO, "broker", &text);
}

void node_begin_drain(struct broker *broker, struct port_out *out)
{
    node_move_to(broker, BROKER_DRAINING);
    if (!broker->is_giving_up) { tell_drain(broker, out); }
    node_ask_every_shard(broker, MSG_DRAIN, out);
}

/* The node can't serve: it says why, and stops. What is on disk is left as it is. */
void node_give_up(struct broker *broker, const char *why, const char *detail, struct port_out *out)
{
    log_words(out, PORT_FATAL, why, detail);
    broker->is_giving_up = true;
    if (broker->state == BROKER_BOOT || broker->state == BROKER_RECOVERING) {
        broker->answers_due = 0;
        node_close_backs(broker, out);
    } else if (broker->state == BROKER_LOADING) {
        broker->answers_due = 0;
        node_begin_drain(broker, out);
    }
}

void stop_begin(struct broker *broker, struct port_out *out)
{
    if (!is_first(broker) || broker->is_stop_asked) { return; }
    broker->is_stop_asked = true;
    if (broker->state == BROKER_SERVING) { node_begin_drain(broker, out); } /* else once it serves */
}

/* ---- the controller -------------------------------------------------------------------------------------------------------- */

void node_controlled(struct broker *broker, const struct control_loan *loan, struct port_out *out)
{
    struct port_message answer;
    message_begin(&answer, loan->shard, MSG_CONTROLLED);
    put_asker(&answer, 0, loan->asker);
    message_send(broker, &answer, out);
}

static void on_control(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct control_loan *loan = message->lent;
    uint32_t index = base_pool_take(&broker->control_ops);
    if (index != BASE_POOL_NONE) {
        struct control_op *op = base_pool_at(&broker->control_ops, index);
        op->loan = loan;
        loan->request.token = (uint64_t)index + 1;
        loan->request.arena = loan->arena;
        if (controller_submit(broker->controller, &loan->request) == BASE_OK) { return; }
        base_pool_give(&broker->control_ops, index);
    }
    loan->answer = NULL;
    node_controlled(broker, loan, out);
}

static void registered(struct broker *broker, const struct controller_registered *answer, struct port_out *out)
{
    if (answer == NULL || answer->error_code != 0) {
        node_give_up(broker, "this node could not be registered in the metadata log", "", out);
        return;
    }
    struct port_message message;
    message_begin(&message, 0, MSG_SERVE);
    for (uint32_t i = 0; i < broker->config.listener_count; i++) { message.words[i] = broker->ports[i]; }
    message.words[12] = broker->is_metadata_suspect;
    broker->answers_due = broker->config.shards;
    for (uint32_t shard = 1; shard < broker->config.shards; shard++) {
        message.to = (uint16_t)shard;
        message_send(broker, &message, out);
    }
    node_to_shard(broker, 0, MSG_SERVING, out);
}

static void on_controller_answer(struct broker *broker, const struct controller_out *item, struct port_out *out)
{
    if (item->request_kind == CONTROLLER_RAISE_EPOCHS) {
        raise_decided(broker, item->response, out);
        return;
    }
    if (item->token == 0) {
        registered(broker, item->response, out);
        return;
    }
    uint32_t index = (uint32_t)(item->token - 1);
    struct control_loan *loan = ((struct control_op *)base_pool_at(&broker->control_ops, index))->loan;
    base_pool_give(&broker->control_ops, index);
    loan->answer = item->response;
    if (loan->request.kind == CONTROLLER_ALTER_CONFIGS && loan->answer != NULL) {
        struct kafka_incremental_alter_configs_response *altered = (void *)(uintptr_t)loan->answer; /* in its arena */
        levels_alter(broker, loan->request.request, altered, loan->arena, out);
        if (levels_wait(broker, loan)) { return; }
    }
    node_controlled(broker, loan, out);
}

static void register_node(struct broker *broker, struct port_out *out)
{
    struct controller_register *node = &broker->registration;
    *node = (struct controller_register){.broker = {.id = broker->config.node_id}};
    base_prng_fill(&broker->dice, node->broker.incarnation.b, sizeof node->broker.incarnation.b);
    struct base_slice rack = metadata_broker_value(broker->image, base_slice_text("broker.rack"));
    CHECK(rack.size_bytes <= METADATA_WORD_MAX); /* judged with the other settings */
    node->broker.has_rack = rack.size_bytes > 0;
    if (rack.size_bytes > 0) { memcpy(node->broker.rack, rack.at, rack.size_bytes); }
    node->broker.endpoints_count = broker->config.listener_count;
    for (uint32_t i = 0; i < broker->config.listener_count; i++) {
        const struct broker_listener *listener = &broker->config.listeners[i];
        struct metadata_endpoint *endpoint = &node->broker.endpoints[i];
        memcpy(endpoint->name, listener->name, strlen(listener->name) + 1);
        memcpy(endpoint->host, listener->host, strlen(listener->host) + 1);
        endpoint->port = listener->port_advertised != 0 ? listener->port_advertised : broker->ports[i];
    }
    enum base_rc rc =
        base_uuid_from_text(broker->config.cluster_id, strlen(broker->config.cluster_id), &node->cluster_uuid);
    (void)rc; /* another form of cluster id is allowed; it then has no uuid */
    base_arena_reset(&broker->register_arena, 0);
    struct controller_request request = {.token = 0,
                                         .kind = CONTROLLER_REGISTER,
                                         .request = node,
                                         .arena = &broker->register_arena};
    if (controller_submit(broker->controller, &request) != BASE_OK) {
        node_give_up(broker, "no memory to register this node", "", out);
    }
}

/* Its records' logs first; room in the journal first. What was decided is answered once every shard has it: a client that was told so
 * finds it so at any of them. Each of these ends with an event of its own. */
bool node_controller_waits(const struct broker *broker)
{
    return broker->applying.is_on || broker->hold == HOLD_WAIT || broker->delta.takers > 0;
}

static bool controller_step(struct broker *broker, struct port_out *out)
{
    if (node_controller_waits(broker)) { return false; }
    image_snapshot_begin_if_due(broker);
    if (image_snapshot_poll(broker, out)) { return true; }
    if (broker->is_snapshotting) { return false; }
    if (image_propose(broker, out)) { return true; }
    struct controller_out item;
    if (!controller_poll(broker->controller, &item)) { return false; }
    switch (item.kind) {
    case CONTROLLER_OUT_PROPOSE:
        broker->proposal = item; /* borrowed until it is committed or has failed */
        broker->has_proposal = true;
        broker->proposal_tries = 0;
        broker->proposal_retry_ns = 0;
        break;
    case CONTROLLER_OUT_ANSWER: on_controller_answer(broker, &item, out); break;
    }
    return true;
}

/* ---- listening --------------------------------------------------------------------------------------------------------------- */

void start_listening(struct broker *broker, uint32_t listener, enum port_rc rc, uint16_t port, struct port_out *out)
{
    if (broker->is_draining) { return; } /* another shard could not listen: the node is on its way out */
    if (rc != PORT_OK) {
        struct port_message message;
        message_begin(&message, 0, MSG_SERVING)->words[0] = (uint64_t)rc;
        message.words[1] = listener;
        message_send(broker, &message, out);
        return;
    }
    broker->ports[listener] = port;
    broker->listeners_bound += 1;
    if (broker->listeners_bound < broker->config.listener_count) { return; }
    if (is_first(broker)) {
        register_node(broker, out);
        return;
    }
    broker->is_serving = true;
    broker->state = BROKER_SERVING; /* as far as this shard knows: only shard 0 decides */
    broker->starved_retry_ns = 0;
    node_to_shard(broker, 0, MSG_SERVING, out);
    (void)port_emit(out, PORT_READY, 0); /* it has no more to say */
}

static void cannot_listen(struct broker *broker, enum port_rc rc, uint32_t listener, struct port_out *out)
{
    CHECK(listener < broker->config.listener_count);
    struct port_address address = broker->config.listeners[listener].address;
    char ip[47];
    char words[128];
    struct base_text text;
    port_address_to_text(address, ip);
    base_text_init(&text, words, sizeof words);
    base_text_add(&text, ip);
    base_text_add(&text, " port ");
    base_text_add_i64(&text, address.port);
    base_text_add(&text, rc == PORT_IN_USE ? ": the address is in use by another process" : ": ");
    if (rc != PORT_IN_USE) { base_text_add(&text, port_rc_name(rc)); }
    node_give_up(broker, "can't listen on ", words, out);
}

static void on_serving(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    if (message->words[0] != PORT_OK) {
        cannot_listen(broker, (enum port_rc)message->words[0], (uint32_t)message->words[1], out);
        return;
    }
    if (broker->is_giving_up || !node_is_last_answer(broker)) { return; }
    broker->is_serving = true;
    broker->starved_retry_ns = 0;
    node_move_to(broker, BROKER_SERVING);
    (void)port_emit(out, PORT_READY, 0); /* it has no more to say */
    if (broker->is_stop_asked) { node_begin_drain(broker, out); }
}

bool start_poll(struct broker *broker, struct port_out *out)
{
    if (!is_first(broker)) { return false; }
    if (disk_hold_step(broker, out)) { return true; }
    return disk_journal_step(broker, out) || levels_poll(broker, out) || controller_step(broker, out);
}

/* ---- begin, and what the others answer ----------------------------------------------------------------------------------------- */

void start_begin(struct broker *broker, struct port_out *out)
{
    if (is_first(broker)) { journal_start(broker->journal, out); }
}

/* This front has no connection and no request left: what a client that is gone asked of the controller has been done, too. */
void start_drained_if_done(struct broker *broker, struct port_out *out)
{
    if (!broker->is_conn_stopped || broker->is_drained || broker->requests.taken_count > 0) { return; }
    CHECK(broker->parts_asked == 0);
    broker->is_drained = true;
    node_to_shard(broker, 0, MSG_DRAINED, out);
}

static void end(struct broker *broker, struct port_out *out)
{
    broker->state = BROKER_STOPPED;
    (void)port_emit(out, PORT_STOPPED, 0); /* it has no more to say */
}

void start_message(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    switch (message->kind) {
    case MSG_CONTROL: on_control(broker, message, out); return;
    case MSG_DELTA:
        image_apply(broker, base_slice_of(message->lent, (size_t)message->lent_bytes),
                    is_first(broker) ? APPLY_LOADED : APPLY_DELTA);
        return;
    case MSG_DELTA_TAKEN: image_delta_taken(broker, out); return;
    case MSG_JOURNAL: disk_on_journal(broker, message, out); return;
    case MSG_BACK_FAILED: disk_on_back_failed(broker, message->from, out); return;
    case MSG_BACK_FULL: journal_release_room(broker->journal, out); return;
    case MSG_HANDLE_COMES: journal_handle_comes(broker->journal); return;
    case MSG_TAKEN: disk_on_taken(broker, (enum plog_result)message->words[0], out); return;
    case MSG_RECOVERED:
        if (broker->state == BROKER_RECOVERING) { disk_on_recovered(broker, message, out); }
        return;
    case MSG_RAISED: raise_gathered(broker, message, out); return;
    case MSG_SERVING: on_serving(broker, message, out); return;
    case MSG_STATE: disk_add_state(broker, message, out); return;
    case MSG_WANT_CHECKPOINT: disk_checkpoint(broker, out); return;
    case MSG_STATES_END:
        if (broker->states_due == 0) { return; } /* abandoned meanwhile */
        broker->states_due -= 1;
        if (broker->states_due == 0) { journal_checkpoint_end(broker->journal, broker->is_last_checkpoint, out); }
        return;
    case MSG_DRAINED:
        if (node_is_last_answer(broker)) { disk_stop(broker, out); }
        return;
    case MSG_CLOSED:
        if (node_is_last_answer(broker)) { disk_end(broker, out); }
        return;
    case MSG_END: end(broker, out); return;
    default: UNREACHABLE();
    }
}
