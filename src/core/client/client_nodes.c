/* client_nodes.c: which brokers there are, what they speak, and requests to them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

#include "wire/kafka/api_versions.h"

#define ROOM_RETRY_MS  10
#define CLIENT_NAME    "weir"
#define CLIENT_VERSION "0.1"

void client__alarm(struct client *client, uint64_t deadline_ns)
{
    if (deadline_ns < client->alarm_ns) { client->alarm_ns = deadline_ns; }
}

void client__later(struct client *client)
{
    client__alarm(client, base_deadline_ns(client->now_ns, ROOM_RETRY_MS * MS));
}

struct base_arena client__scratch(struct client *client)
{
    struct base_arena arena;
    base_arena_init(&arena, client->scratch, SCRATCH_BYTES);
    return arena;
}

void client__give(struct client *client, uint8_t *block)
{
    if (block != NULL) { base_pages_give(client->pages, block); }
}

bool client__may_work(struct client *client, const struct port_out *out)
{
    if (client->step_left == 0 || port_out_room(out) < CLIENT_TURN_EFFECTS) {
        client->has_more = true;
        return false;
    }
    return true;
}

/* ---- the table ---- */

uint32_t client__node_index(const struct client *client, const struct node *node)
{
    return (uint32_t)(node - client->nodes);
}

static void set_host(struct node *node, struct base_slice host, uint16_t port)
{
    CHECK(host.size_bytes <= sizeof node->host);
    memcpy(node->host, host.at, host.size_bytes);
    node->host_bytes = (uint16_t)host.size_bytes;
    node->port = port;
    node->session = (struct session){.id = 0}; /* who is there knows nothing of it */
}

void client__nodes_init(struct client *client)
{
    for (uint32_t i = 0; i < client->config.bootstrap_count; i++) {
        struct node *node = &client->nodes[i];
        *node = (struct node){.is_used = true, .is_bootstrap = true, .id = -1};
        set_host(node, client->config.bootstrap[i].host, client->config.bootstrap[i].port);
    }
    client->next_candidate = (uint32_t)base_prng_below(&client->prng, client->config.bootstrap_count);
}

struct node *client__node_by_id(struct client *client, int32_t id)
{
    for (uint32_t i = 0; id >= 0 && i < client->config.nodes_max; i++) {
        struct node *node = &client->nodes[i];
        if (node->is_used && !node->is_bootstrap && !node->is_coordinator && node->id == id) { return node; }
    }
    return NULL;
}

static void close_node(struct client *client, struct node *node)
{
    if (node->state == NODE_CLOSED) { return; }
    peer_close(client->peers, node->peer); /* its requests come back as lost */
    node->state = NODE_CLOSED;
}

void client__node_put(struct client *client, int32_t id, struct kafka_text host, int32_t port)
{
    struct base_slice name = kafka_text_slice(host);
    if (id < 0 || name.size_bytes == 0 || name.size_bytes > PEER_HOST_MAX || port <= 0 || port > UINT16_MAX) { return; }
    struct node *node = client__node_by_id(client, id);
    if (node != NULL) {
        bool is_same = node->port == port && base_slice_equal(base_slice_of(node->host, node->host_bytes), name);
        if (is_same) { return; }
        close_node(client, node);
        set_host(node, name, (uint16_t)port);
        return;
    }
    for (uint32_t i = 0; i < client->config.nodes_max; i++) {
        node = &client->nodes[i];
        if (node->is_used) { continue; }
        *node = (struct node){.is_used = true, .id = id};
        set_host(node, name, (uint16_t)port);
        return;
    }
    /* More brokers than nodes_max: those beyond stay unknown, and partitions that they lead wait. */
}

void client__node_dial(struct client *client, struct node *node)
{
    if (node->state != NODE_CLOSED || client->is_closing) { return; }
    struct base_slice host = base_slice_of(node->host, node->host_bytes);
    if (peer_open(client->peers, host, node->port, client->now_ns, &node->peer) != BASE_OK) {
        client__later(client); /* one that was closed is still on its way out */
        return;
    }
    node->state = NODE_DIALING;
    node->produce_in_flight = 0;
    node->is_fetching = false;
}

struct node *client__node_coordinator_take(struct client *client)
{
    for (uint32_t i = 0; i < client->config.nodes_max; i++) {
        struct node *node = &client->nodes[i];
        if (node->is_used) { continue; }
        *node = (struct node){.is_used = true, .is_coordinator = true, .id = -1};
        return node;
    }
    return NULL;
}

void client__node_coordinator_set(struct client *client, struct node *node, int32_t id, struct base_slice host,
                                  uint16_t port)
{
    bool is_same = node->port == port && base_slice_equal(base_slice_of(node->host, node->host_bytes), host);
    node->id = id;
    if (is_same) { return; }
    close_node(client, node);
    set_host(node, host, port);
}

struct node *client__node_use(struct client *client, int32_t id)
{
    struct node *node = client__node_by_id(client, id);
    if (node == NULL) { return NULL; }
    client__node_dial(client, node);
    return node->state == NODE_READY ? node : NULL;
}

struct node *client__node_any(struct client *client)
{
    uint32_t first = client->asks_to_any;
    for (uint32_t i = 0; i < client->config.nodes_max; i++) {
        uint32_t index = (first + i) % client->config.nodes_max;
        struct node *node = &client->nodes[index];
        if (!node->is_used || node->is_coordinator || node->state != NODE_READY) { continue; }
        client->asks_to_any = index; /* stays with one that works */
        return node;
    }
    return NULL;
}

/* Someone to talk to: dials one candidate after another while none is ready. A candidate that failed keeps trying by itself. */
void client__turn_nodes(struct client *client)
{
    if (client->is_closing) { return; }
    for (uint32_t i = 0; i < client->config.nodes_max; i++) {
        const struct node *node = &client->nodes[i];
        if (node->is_coordinator) { continue; }
        if (node->is_used && (node->state == NODE_READY || node->state == NODE_GREETING)) { return; }
        if (node->is_used && node->state == NODE_DIALING && peer_state(client->peers, node->peer) != PEER_WAITING) {
            return; /* a try is under way */
        }
    }
    for (uint32_t i = 0; i < client->config.nodes_max; i++) {
        struct node *node = &client->nodes[(client->next_candidate + i) % client->config.nodes_max];
        if (!node->is_used || node->is_coordinator || node->state != NODE_CLOSED) { continue; }
        client->next_candidate = client__node_index(client, node) + 1;
        client__node_dial(client, node);
        return;
    }
}

static struct node *node_of_peer(struct client *client, struct peer_id id)
{
    for (uint32_t i = 0; i < client->config.nodes_max; i++) {
        struct node *node = &client->nodes[i];
        if (node->is_used && node->state != NODE_CLOSED && node->peer.slot == id.slot &&
            node->peer.generation == id.generation) {
            return node;
        }
    }
    return NULL;
}

void client__node_reset(struct client *client, struct node *node)
{
    if (node->state != NODE_CLOSED) { peer_reset(client->peers, node->peer); }
}

/* ---- versions ---- */

int16_t client__version(const struct node *node, int16_t api_key, int16_t cap)
{
    const struct kafka_api_info *info = kafka_api_info(api_key);
    if (info == NULL || api_key < 0 || api_key >= API_KEYS || node->version_max[api_key] < 0) { return -1; }
    int16_t version = info->version_stable < cap ? info->version_stable : cap;
    if (node->version_max[api_key] < version) { version = node->version_max[api_key]; }
    bool is_shared = version >= info->version_min && version >= node->version_min[api_key];
    return is_shared ? version : -1;
}

static void greet(struct client *client, struct node *node, struct port_out *out)
{
    struct kafka_api_versions_request request;
    kafka_api_versions_request_init(&request);
    request.client_software_name = kafka_text_words(CLIENT_NAME);
    request.client_software_version = kafka_text_words(CLIENT_VERSION);
    int16_t version = node->is_old ? 0 : kafka_api_info(KAFKA_API_API_VERSIONS)->version_stable;
    struct ask *ask = NULL;
    node->state = NODE_GREETING;
    enum base_rc rc = client__send(client, node, ASK_VERSIONS, KAFKA_API_API_VERSIONS, version, &request, false,
                                   client->config.request_timeout_ms, out, &ask);
    CHECK(rc != BASE_BAD);                                   /* every version can say it */
    if (rc != BASE_OK) { client__node_reset(client, node); } /* no room now: the next connection tries again */
}

static void on_versions(struct client *client, struct ask *ask, struct base_slice body, struct port_out *out)
{
    struct node *node = &client->nodes[ask->node];
    void *decoded = NULL;
    uint8_t *memory = NULL;
    struct base_arena arena;
    /* A broker that lacks the version answers in version 0, error UNSUPPORTED_VERSION (KIP-511). */
    bool is_refused = body.size_bytes >= 2 && base_get_u16(body.at) == KAFKA_ERROR_UNSUPPORTED_VERSION;
    if (is_refused && !node->is_old) {
        node->is_old = true;
        greet(client, node, out);
        return;
    }
    if (client__decode(client, KAFKA_MESSAGE_API_VERSIONS_RESPONSE, body, ask->version, 0, &decoded, &memory, &arena) !=
        BASE_OK) {
        client__node_reset(client, node);
        return;
    }
    const struct kafka_api_versions_response *answer = decoded;
    for (uint32_t i = 0; i < API_KEYS; i++) {
        node->version_min[i] = -1;
        node->version_max[i] = -1;
    }
    for (int32_t i = 0; i < answer->api_keys_count; i++) {
        const struct kafka_api_versions_response_api_version *api = &answer->api_keys[i];
        if (api->api_key < 0 || api->api_key >= API_KEYS) { continue; }
        node->version_min[api->api_key] = api->min_version;
        node->version_max[api->api_key] = api->max_version;
    }
    bool is_good = answer->error_code == KAFKA_ERROR_NONE;
    client__give(client, memory);
    if (!is_good) {
        client__node_reset(client, node);
        return;
    }
    node->state = NODE_READY;
    client->was_ready = true;
    client->connects_failed = 0;
}

/* ---- requests ---- */

bool client__can_send(const struct client *client, const struct node *node, const struct port_out *out)
{
    return node->state >= NODE_GREETING && peer_room(client->peers, node->peer) > 0 && port_out_room(out) > 0 &&
           client->asks.taken_count < client->asks.slots_max;
}

enum base_rc client__send(struct client *client, struct node *node, enum ask_kind kind, int16_t api_key,
                          int16_t version, const void *request, bool is_unanswered, uint64_t timeout_ms,
                          struct port_out *out, struct ask **ask_out)
{
    if (!client__can_send(client, node, out)) { return BASE_FULL; }
    enum kafka_message message = kafka_request_message(api_key);
    struct kafka_text name = kafka_text_of_slice(client->config.client_id);
    struct kafka_size size;
    if (kafka_request_size(message, request, version, name, &size) != BASE_OK) { return BASE_BAD; }
    uint8_t *block = base_pages_take(client->pages, BASE_CONTROL, size.memory_bytes);
    if (block == NULL) { return BASE_FULL; }
    struct kafka_writer writer;
    kafka_writer_init(&writer, block, size.memory_bytes);
    enum base_rc rc = kafka_request_encode(message, request, version, 0, name, &writer);
    CHECK(rc == BASE_OK); /* it was sized */
    uint32_t index = base_pool_take(&client->asks);
    CHECK(index != BASE_POOL_NONE); /* client__can_send has looked */
    struct ask *ask = base_pool_at(&client->asks, index);
    ask->kind = kind;
    ask->node = client__node_index(client, node);
    ask->peer = node->peer;
    if (kind == ASK_PRODUCE) { node->produce_in_flight += 1; }
    if (kind == ASK_FETCH) { node->is_fetching = true; }
    ask->api_key = api_key;
    ask->version = version;
    base_list_init(&ask->batches);
    struct peer_request sent = {.word = index,
                                .block = block,
                                .frame_bytes = (uint32_t)writer.used_bytes,
                                .is_unanswered = is_unanswered,
                                .deadline_ns = base_deadline_ns(client->now_ns, timeout_ms * MS)};
    peer_request(client->peers, node->peer, &sent, out);
    if (client->step_left > 0) { client->step_left -= 1; }
    *ask_out = ask;
    return BASE_OK;
}

uint8_t *client__keep_frame(struct client *client, struct base_slice frame, struct base_slice *body)
{
    uint8_t *block = peers_take_frame(client->peers);
    if (block != NULL) { return block; }
    block = base_pages_take(client->pages, BASE_CONTROL, frame.size_bytes);
    if (block == NULL) { return NULL; }
    memcpy(block, frame.at, frame.size_bytes);
    body->at = block + (body->at - frame.at);
    return block;
}

/* The arrays of an answer take some multiple of its bytes; most take little. */
enum base_rc client__decode(struct client *client, enum kafka_message message, struct base_slice body, int16_t version,
                            size_t extra_bytes, void **answer_out, uint8_t **memory_out, struct base_arena *arena_out)
{
    size_t struct_bytes = kafka_message_struct_bytes(message) + 64;
    size_t most_bytes = body.size_bytes * KAFKA_ARENA_FACTOR;
    size_t try_bytes = base_min_size(body.size_bytes / 16 + BASE_PAGE_BYTES, most_bytes);
    for (;;) {
        size_t memory_bytes = struct_bytes + try_bytes + extra_bytes;
        uint8_t *memory = base_pages_take(client->pages, BASE_CONTROL, memory_bytes);
        if (memory == NULL) { return BASE_FULL; }
        base_arena_init(arena_out, memory, memory_bytes - extra_bytes);
        void *answer = base_arena_take(arena_out, struct_bytes - 64);
        CHECK(answer != NULL);
        enum base_rc rc = kafka_decode(message, body, version, arena_out, answer);
        if (rc == BASE_OK) {
            arena_out->size_bytes = memory_bytes;
            *answer_out = answer;
            *memory_out = memory;
            return BASE_OK;
        }
        base_pages_give(client->pages, memory);
        if (rc != BASE_FULL || try_bytes >= most_bytes + 64) { return rc == BASE_FULL ? BASE_BAD : rc; }
        try_bytes = base_min_size(try_bytes * 4, most_bytes + 64);
    }
}

/* ---- what peers say ---- */

static void free_ask(struct client *client, struct ask *ask)
{
    CHECK(base_list_is_empty(&ask->batches));
    struct node *node = &client->nodes[ask->node];
    bool is_of_this_peer = node->peer.slot == ask->peer.slot && node->peer.generation == ask->peer.generation;
    if (ask->kind == ASK_PRODUCE && is_of_this_peer) {
        CHECK(node->produce_in_flight > 0);
        node->produce_in_flight -= 1;
    }
    if (ask->kind == ASK_FETCH && is_of_this_peer) { node->is_fetching = false; }
    base_pool_give(&client->asks, base_pool_index(&client->asks, ask));
}

static void lose(struct client *client, struct ask *ask, enum port_rc rc)
{
    switch (ask->kind) {
    case ASK_VERSIONS: break; /* the connection is gone too */
    case ASK_METADATA: client__lost_metadata(client); break;
    case ASK_PRODUCER_ID: client__lost_producer_id(client); break;
    case ASK_PRODUCE: client__lost_produce(client, ask, false); break;
    case ASK_OFFSETS: client__lost_parts(client, ask); break;
    case ASK_FETCH:
        client__session_lost(&client->nodes[ask->node]);
        client__lost_parts(client, ask);
        break;
    case ASK_CALL: client__lost_call(client, ask, rc); break;
    case ASK_GROUP: client__lost_group(client, ask); break;
    }
    free_ask(client, ask);
}

static void on_answer(struct client *client, const struct peer_event *event, struct port_out *out)
{
    struct ask *ask = base_pool_at(&client->asks, (uint32_t)event->word);
    struct node *node = &client->nodes[ask->node];
    int32_t correlation = 0;
    struct base_slice body;
    if (kafka_response_open(event->frame, ask->api_key, ask->version, &correlation, &body) != BASE_OK) {
        lose(client, ask, PORT_OTHER);
        client__node_reset(client, node);
        return;
    }
    switch (ask->kind) {
    case ASK_VERSIONS: on_versions(client, ask, body, out); break;
    case ASK_METADATA: client__on_metadata(client, ask, body); break;
    case ASK_PRODUCER_ID: client__on_producer_id(client, ask, body); break;
    case ASK_PRODUCE: client__on_produced(client, ask, body); break;
    case ASK_OFFSETS: client__on_offsets(client, ask, body); break;
    case ASK_FETCH: client__on_fetched(client, ask, event->frame, body); break;
    case ASK_CALL: client__on_call(client, ask, event->frame, body); break;
    case ASK_GROUP: client__on_group(client, ask, event->frame, body); break;
    }
    free_ask(client, ask);
}

static void on_failed(struct client *client, struct node *node, enum port_rc rc)
{
    bool was_ready = node->state == NODE_READY;
    node->state = NODE_DIALING;
    if (node->is_coordinator) {
        client__group_node_failed(client);
        return;
    }
    client->connect_rc = rc;
    if (!was_ready) { client->connects_failed += 1; }
    client__want_metadata(client); /* leaders may have moved */
}

void client__take_peer_events(struct client *client, struct port_out *out)
{
    struct peer_event event;
    while (port_out_room(out) >= CLIENT_TURN_EFFECTS) {
        if (!peers_poll(client->peers, client->now_ns, out, &event)) { return; }
        struct node *node = node_of_peer(client, event.id);
        switch (event.kind) {
        case PEER_CONNECTED:
            if (node != NULL) { greet(client, node, out); }
            break;
        case PEER_ANSWERED: on_answer(client, &event, out); break;
        case PEER_SENT: {
            struct ask *ask = base_pool_at(&client->asks, (uint32_t)event.word);
            client__lost_produce(client, ask, true);
            free_ask(client, ask);
            break;
        }
        case PEER_LOST: lose(client, base_pool_at(&client->asks, (uint32_t)event.word), event.rc); break;
        case PEER_FAILED:
            if (node != NULL) { on_failed(client, node, event.rc); }
            break;
        }
    }
    client->has_more = true;
}
