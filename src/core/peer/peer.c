/* peer.c: see peer.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "peer/peer.h"

#include "wire/kafka/kafka.h"

#define SIZE_BYTES           4
#define CORRELATION_AT_BYTES 8
#define MEMORY_RETRY_NS      UINT64_C(10000000)

/* The lower bits of a token: what, slot, and the place in the ring for sends. */
enum what { WHAT_RESOLVE = 0, WHAT_CONNECT, WHAT_RECV, WHAT_SEND, WHAT_CLOSE };

struct flight {
    uint64_t word;
    uint64_t deadline_ns;
    uint8_t *block; /* NULL: has left, and was given back */
    struct port_piece piece;
    int32_t correlation;
    bool is_unanswered;
    bool is_done; /* reported */
};

struct peer {
    struct base_heap_item timer;
    struct base_link pending; /* on peers->pending: it may have something to report, or to do */
    enum peer_state state;
    enum port_rc why; /* of the last failure */
    uint32_t generation;
    uint32_t conn_generation;
    uint32_t failures; /* in a row */
    uint16_t port;
    uint16_t host_bytes;
    bool is_closing_for_good;
    bool has_connected; /* to be reported */
    bool has_failed;    /* to be reported, after the lost requests */
    bool is_receiving;
    bool is_readable; /* idle, and something is there to be read */
    bool wants_close; /* CLOSING: the effect is still to be asked */
    bool is_closed;   /* CLOSING: the connection is gone, lost requests may still be reported */
    struct port_address address;
    uint64_t wait_until_ns; /* WAITING, CONNECTING, or a retry for memory */
    /* answers */
    uint8_t *in;
    size_t in_bytes;
    size_t used_bytes;
    size_t parsed_bytes;
    /* requests, in order: places head .. tail - 1 modulo in_flight_max */
    struct flight *flights;
    uint32_t head;
    uint32_t tail;
    int32_t next_correlation;
    uint8_t host[PEER_HOST_MAX];
};

struct peers {
    struct peers_config config;
    struct base_pages *pages;
    struct peer *peers;
    struct base_heap timers;
    struct base_list pending;
    struct base_prng prng;
    uint64_t now_ns;
    uint32_t open_count; /* not FREE */
    struct peer *shown;  /* its frame was handed out by the last poll */
    size_t shown_bytes;
};

size_t peers_arena_bytes(const struct peers_config *config)
{
    size_t each = sizeof(struct peer) + config->in_flight_max * sizeof(struct flight) + sizeof(void *) + 64;
    return sizeof(struct peers) + config->peers_max * each + 256;
}

enum base_rc peers_create(struct base_arena *arena, const struct peers_config *config, struct base_pages *pages,
                          struct peers **peers_out)
{
    CHECK(config->peers_max > 0 && config->in_flight_max > 0 && config->token_tag != 0);
    CHECK(config->in_flight_max <= UINT16_MAX && config->peers_max < 1U << 24); /* tokens hold both */
    CHECK(config->frame_bytes_max >= PEER_FRAME_MIN && config->frame_bytes_max <= INT32_MAX);
    size_t mark = base_arena_mark(arena);
    struct peers *peers = base_arena_take_array(arena, 1, sizeof *peers);
    struct peer *all = base_arena_take_array(arena, config->peers_max, sizeof *all);
    size_t flights = (size_t)config->peers_max * config->in_flight_max;
    struct flight *ring = base_arena_take_array(arena, flights, sizeof *ring);
    if (peers == NULL || all == NULL || ring == NULL ||
        base_heap_create(arena, config->peers_max, &peers->timers) != BASE_OK) {
        base_arena_reset(arena, mark);
        return BASE_FULL;
    }
    peers->config = *config;
    peers->pages = pages;
    peers->peers = all;
    base_list_init(&peers->pending);
    base_prng_init(&peers->prng, config->seed, 1);
    for (uint32_t i = 0; i < config->peers_max; i++) { all[i].flights = ring + (size_t)i * config->in_flight_max; }
    *peers_out = peers;
    return BASE_OK;
}

/* ---- small things ---- */

static uint32_t slot_of(const struct peers *peers, const struct peer *peer) { return (uint32_t)(peer - peers->peers); }

static struct peer_id id_of(const struct peers *peers, const struct peer *peer)
{
    return (struct peer_id){.slot = slot_of(peers, peer), .generation = peer->generation};
}

static struct peer *find(const struct peers *peers, struct peer_id id)
{
    if (id.generation == 0 || id.slot >= peers->config.peers_max) { return NULL; }
    struct peer *peer = &peers->peers[id.slot];
    return peer->state != PEER_FREE && peer->generation == id.generation && !peer->is_closing_for_good ? peer : NULL;
}

static struct flight *flight_at(const struct peers *peers, const struct peer *peer, uint32_t place)
{
    return &peer->flights[place % peers->config.in_flight_max];
}

static struct port_conn conn_of(const struct peers *peers, const struct peer *peer)
{
    return (struct port_conn){.slot = peers->config.conn_slot_first + slot_of(peers, peer),
                              .generation = peer->conn_generation};
}

static uint64_t token_of(const struct peers *peers, const struct peer *peer, enum what what, uint32_t place)
{
    return (uint64_t)peers->config.token_tag << PEER_TOKEN_SHIFT | (uint64_t)what << 40 |
           (uint64_t)(place % peers->config.in_flight_max) << 24 | slot_of(peers, peer);
}

static void mark_pending(struct peers *peers, struct peer *peer)
{
    if (!base_link_is_on(&peer->pending)) { base_list_push_back(&peers->pending, &peer->pending); }
}

static void give_input(struct peers *peers, struct peer *peer)
{
    CHECK(!peer->is_receiving);
    if (peer->in != NULL) { base_pages_give(peers->pages, peer->in); }
    peer->in = NULL;
    peer->in_bytes = 0;
    peer->used_bytes = 0;
    peer->parsed_bytes = 0;
}

/* The oldest request that has no end yet; NULL: none. There are few. */
static struct flight *oldest(const struct peers *peers, const struct peer *peer)
{
    for (uint32_t place = peer->head; place != peer->tail; place++) {
        struct flight *flight = flight_at(peers, peer, place);
        if (!flight->is_done) { return flight; }
    }
    return NULL;
}

/* The request that the next answer is for; NULL: none. */
static struct flight *next_answered(const struct peers *peers, const struct peer *peer)
{
    for (uint32_t place = peer->head; place != peer->tail; place++) {
        struct flight *flight = flight_at(peers, peer, place);
        if (!flight->is_done && !flight->is_unanswered) { return flight; }
    }
    return NULL;
}

/* The earliest of what the peer waits for. */
static void set_timer(struct peers *peers, struct peer *peer)
{
    uint64_t deadline_ns = peer->wait_until_ns;
    const struct flight *flight = peer->state == PEER_UP ? oldest(peers, peer) : NULL;
    if (flight != NULL) { deadline_ns = base_min_u64(deadline_ns, flight->deadline_ns); }
    if (base_heap_holds(&peer->timer)) {
        if (peer->timer.key == deadline_ns) { return; }
        base_heap_remove(&peers->timers, &peer->timer);
    }
    if (deadline_ns == UINT64_MAX || peer->state == PEER_FREE) { return; }
    enum base_rc rc = base_heap_insert(&peers->timers, &peer->timer, deadline_ns);
    CHECK(rc == BASE_OK); /* one timer a peer, room for each */
}

static bool may_move(enum peer_state from, enum peer_state to)
{
    switch (from) {
    case PEER_FREE: return to == PEER_WAITING;
    case PEER_WAITING: return to == PEER_RESOLVING || to == PEER_FREE;
    case PEER_RESOLVING: return to == PEER_CONNECTING || to == PEER_WAITING || to == PEER_FREE;
    case PEER_CONNECTING: return to == PEER_UP || to == PEER_WAITING || to == PEER_FREE || to == PEER_CLOSING;
    case PEER_UP: return to == PEER_CLOSING;
    case PEER_CLOSING: return to == PEER_WAITING || to == PEER_FREE;
    }
    return false;
}

static void move_to(struct peers *peers, struct peer *peer, enum peer_state to)
{
    CHECK(may_move(peer->state, to));
    peer->state = to; /* the only assignment to state in this room */
    if (to == PEER_FREE) { peers->open_count -= 1; }
}

/* Half of the back-off is sure, half is drawn, so that many clients don't come back at once. */
static uint64_t backoff_ns(struct peers *peers, uint32_t failures)
{
    uint64_t delay_ns = peers->config.backoff_ns;
    for (uint32_t i = 1; i < failures && delay_ns < peers->config.backoff_max_ns; i++) { delay_ns *= 2; }
    delay_ns = base_min_u64(delay_ns, peers->config.backoff_max_ns);
    return delay_ns / 2 + base_prng_below(&peers->prng, delay_ns / 2 + 1);
}

/* Nothing of the old connection is left: wait, or be free. */
static void rest_or_free(struct peers *peers, struct peer *peer)
{
    CHECK(peer->in == NULL && peer->head == peer->tail);
    if (peer->is_closing_for_good) {
        move_to(peers, peer, PEER_FREE);
        peer->wait_until_ns = UINT64_MAX;
        if (base_link_is_on(&peer->pending)) { base_list_remove(&peers->pending, &peer->pending); }
    } else {
        move_to(peers, peer, PEER_WAITING);
        peer->failures += 1;
        peer->wait_until_ns = base_deadline_ns(peers->now_ns, backoff_ns(peers, peer->failures));
    }
    set_timer(peers, peer);
}

static void begin_closing(struct peers *peers, struct peer *peer, enum port_rc why)
{
    if (peer->state == PEER_CLOSING) { return; }
    move_to(peers, peer, PEER_CLOSING);
    peer->why = why;
    peer->has_failed = !peer->is_closing_for_good;
    peer->has_connected = false;
    peer->wants_close = true;
    peer->is_closed = false;
    peer->is_readable = false;
    peer->wait_until_ns = UINT64_MAX;
    if (!peer->is_receiving && peers->shown != peer) { give_input(peers, peer); }
    set_timer(peers, peer);
    mark_pending(peers, peer);
}

/* ---- the caller's side ---- */

enum base_rc peer_open(struct peers *peers, struct base_slice host, uint16_t port, uint64_t now_ns,
                       struct peer_id *id_out)
{
    if (host.size_bytes == 0 || host.size_bytes > PEER_HOST_MAX) { return BASE_BAD; }
    uint32_t slot = 0;
    while (slot < peers->config.peers_max && peers->peers[slot].state != PEER_FREE) { slot += 1; }
    if (slot == peers->config.peers_max) { return BASE_FULL; }
    struct peer *peer = &peers->peers[slot];
    move_to(peers, peer, PEER_WAITING);
    peers->open_count += 1;
    peer->generation = peer->generation == UINT32_MAX ? 1 : peer->generation + 1;
    peer->failures = 0;
    peer->port = port;
    peer->host_bytes = (uint16_t)host.size_bytes;
    memcpy(peer->host, host.at, host.size_bytes);
    peer->is_closing_for_good = false;
    peer->has_failed = false;
    peer->has_connected = false;
    peer->head = 0;
    peer->tail = 0;
    peer->wait_until_ns = now_ns;
    set_timer(peers, peer);
    mark_pending(peers, peer);
    *id_out = id_of(peers, peer);
    return BASE_OK;
}

void peer_reset(struct peers *peers, struct peer_id id)
{
    struct peer *peer = find(peers, id);
    if (peer != NULL && peer->state == PEER_UP) { begin_closing(peers, peer, PORT_RESET); }
}

void peer_close(struct peers *peers, struct peer_id id)
{
    struct peer *peer = find(peers, id);
    if (peer == NULL) { return; }
    peer->is_closing_for_good = true;
    peer->has_failed = false;
    if (peer->state == PEER_UP || peer->state == PEER_CONNECTING) { begin_closing(peers, peer, PORT_CLOSED); }
    if (peer->state == PEER_WAITING) { rest_or_free(peers, peer); }
}

enum peer_state peer_state(const struct peers *peers, struct peer_id id)
{
    const struct peer *peer = find(peers, id);
    return peer == NULL ? PEER_FREE : peer->state;
}

uint32_t peer_room(const struct peers *peers, struct peer_id id)
{
    const struct peer *peer = find(peers, id);
    if (peer == NULL || peer->state != PEER_UP || peer->has_connected) { return 0; }
    return peers->config.in_flight_max - (peer->tail - peer->head);
}

uint32_t peer_in_flight(const struct peers *peers, struct peer_id id)
{
    const struct peer *peer = find(peers, id);
    return peer == NULL ? 0 : peer->tail - peer->head;
}

void peer_request(struct peers *peers, struct peer_id id, const struct peer_request *request, struct port_out *out)
{
    struct peer *peer = find(peers, id);
    CHECK(peer != NULL);
    CHECK(peer_room(peers, id) > 0);
    CHECK(request->frame_bytes >= CORRELATION_AT_BYTES + 4);
    uint32_t place = peer->tail;
    struct flight *flight = flight_at(peers, peer, place);
    *flight = (struct flight){.word = request->word,
                              .deadline_ns = request->deadline_ns,
                              .block = request->block,
                              .correlation = peer->next_correlation,
                              .is_unanswered = request->is_unanswered};
    base_put_u32(request->block + CORRELATION_AT_BYTES, (uint32_t)peer->next_correlation);
    peer->next_correlation = peer->next_correlation == INT32_MAX ? 0 : peer->next_correlation + 1;
    peer->tail += 1;
    flight->piece = (struct port_piece){.kind = PORT_MEMORY, .at = request->block, .size_bytes = request->frame_bytes};
    struct port_effect *effect = port_emit(out, PORT_SEND, token_of(peers, peer, WHAT_SEND, place));
    effect->conn = conn_of(peers, peer);
    effect->pieces = &flight->piece;
    effect->piece_count = 1;
    set_timer(peers, peer);
    mark_pending(peers, peer); /* it may have to begin to read */
}

/* ---- answers ---- */

/* Places whose block has gone and whose end was reported are free. */
static void pop_flights(struct peers *peers, struct peer *peer)
{
    while (peer->head != peer->tail) {
        const struct flight *flight = flight_at(peers, peer, peer->head);
        if (!flight->is_done || flight->block != NULL) { return; }
        peer->head += 1;
    }
}

/* Room for what comes next; false: no memory now, a timer asks again. */
static bool make_input(struct peers *peers, struct peer *peer)
{
    size_t rest_bytes = peer->used_bytes - peer->parsed_bytes;
    size_t wanted_bytes = PEER_READ_BYTES;
    if (rest_bytes >= SIZE_BYTES) {
        wanted_bytes = base_get_u32(peer->in + peer->parsed_bytes) + (size_t)SIZE_BYTES;
        if (wanted_bytes < PEER_READ_BYTES) { wanted_bytes = PEER_READ_BYTES; }
    }
    if (peer->in != NULL && peer->in_bytes >= wanted_bytes && peer->in_bytes <= PEER_READ_BYTES) {
        if (peer->parsed_bytes > 0) { memmove(peer->in, peer->in + peer->parsed_bytes, rest_bytes); }
        peer->used_bytes = rest_bytes;
        peer->parsed_bytes = 0;
        return true;
    }
    if (peer->in != NULL && peer->in_bytes >= wanted_bytes && peer->parsed_bytes == 0) { return true; }
    uint8_t *block = base_pages_take(peers->pages, peers->config.class, wanted_bytes);
    if (block == NULL) { return false; }
    if (rest_bytes > 0) { memcpy(block, peer->in + peer->parsed_bytes, rest_bytes); }
    give_input(peers, peer);
    peer->in = block;
    peer->in_bytes = wanted_bytes;
    peer->used_bytes = rest_bytes;
    return true;
}

/* Asks for more bytes, when none are asked for and all there are have been looked at. */
static void receive(struct peers *peers, struct peer *peer, struct port_out *out)
{
    if (peer->state != PEER_UP || peer->is_receiving || peer->has_connected) { return; }
    bool is_waiting =
        next_answered(peers, peer) == NULL && peer->used_bytes == peer->parsed_bytes && !peer->is_readable;
    if (is_waiting) { give_input(peers, peer); } /* an idle connection needs no buffer */
    if (!is_waiting && !make_input(peers, peer)) {
        peer->wait_until_ns = base_deadline_ns(peers->now_ns, MEMORY_RETRY_NS);
        set_timer(peers, peer);
        return;
    }
    peer->wait_until_ns = UINT64_MAX;
    struct port_effect *effect = port_emit(out, PORT_RECV, token_of(peers, peer, WHAT_RECV, 0));
    effect->conn = conn_of(peers, peer);
    if (!is_waiting) {
        effect->buffer = peer->in + peer->used_bytes;
        effect->size_bytes = peer->in_bytes - peer->used_bytes;
        CHECK(effect->size_bytes > 0);
        peer->is_readable = false;
    }
    peer->is_receiving = true;
    set_timer(peers, peer);
}

/* The whole frame at the front of the input, or none, or a connection that is spoilt. */
static bool take_frame(struct peers *peers, struct peer *peer, struct peer_event *event_out)
{
    size_t rest_bytes = peer->used_bytes - peer->parsed_bytes;
    if (rest_bytes < SIZE_BYTES) { return false; }
    const uint8_t *at = peer->in + peer->parsed_bytes;
    uint32_t size_bytes = base_get_u32(at);
    if (size_bytes < 4 || size_bytes > peers->config.frame_bytes_max) {
        begin_closing(peers, peer, PORT_RESET);
        return false;
    }
    if (rest_bytes - SIZE_BYTES < size_bytes) { return false; }
    /* Answers come in the order of the requests. One that nobody asked for means that the two sides disagree. */
    struct flight *flight = next_answered(peers, peer);
    if (flight == NULL || (uint32_t)flight->correlation != base_get_u32(at + SIZE_BYTES)) {
        begin_closing(peers, peer, PORT_RESET);
        return false;
    }
    *event_out = (struct peer_event){.kind = PEER_ANSWERED,
                                     .id = id_of(peers, peer),
                                     .word = flight->word,
                                     .frame = base_slice_of(at + SIZE_BYTES, size_bytes)};
    flight->is_done = true;
    peer->failures = 0;
    peer->parsed_bytes += SIZE_BYTES + size_bytes;
    peers->shown = peer;
    peers->shown_bytes = SIZE_BYTES + size_bytes;
    pop_flights(peers, peer);
    set_timer(peers, peer);
    return true;
}

/* What the last poll showed is over. */
static void forget_shown(struct peers *peers)
{
    struct peer *peer = peers->shown;
    peers->shown = NULL;
    if (peer == NULL) { return; }
    if (peer->state == PEER_CLOSING && !peer->is_receiving) { give_input(peers, peer); }
    if (peer->in != NULL && peer->in_bytes > PEER_READ_BYTES && peer->parsed_bytes == peer->used_bytes) {
        give_input(peers, peer); /* a large frame's own block */
    }
}

void *peers_take_frame(struct peers *peers)
{
    struct peer *peer = peers->shown;
    CHECK(peer != NULL);
    bool is_own = peer->in_bytes > PEER_READ_BYTES && peer->parsed_bytes == peers->shown_bytes &&
                  peer->used_bytes == peer->parsed_bytes && !peer->is_receiving;
    if (!is_own) { return NULL; }
    void *block = peer->in;
    peer->in = NULL;
    give_input(peers, peer);
    return block;
}

/* ---- reporting ---- */

/* A request without an answer that has left. */
static bool take_sent(struct peers *peers, struct peer *peer, struct peer_event *event_out)
{
    for (uint32_t place = peer->head; place != peer->tail; place++) {
        struct flight *flight = flight_at(peers, peer, place);
        if (!flight->is_unanswered || flight->is_done || flight->block != NULL) { continue; }
        flight->is_done = true;
        *event_out = (struct peer_event){.kind = PEER_SENT, .id = id_of(peers, peer), .word = flight->word};
        pop_flights(peers, peer);
        set_timer(peers, peer);
        return true;
    }
    return false;
}

static bool take_lost(struct peers *peers, struct peer *peer, struct peer_event *event_out)
{
    for (uint32_t place = peer->head; place != peer->tail; place++) {
        struct flight *flight = flight_at(peers, peer, place);
        if (flight->is_done) { continue; }
        flight->is_done = true;
        *event_out =
            (struct peer_event){.kind = PEER_LOST, .id = id_of(peers, peer), .word = flight->word, .rc = peer->why};
        pop_flights(peers, peer);
        return true;
    }
    return false;
}

static bool report(struct peers *peers, struct peer *peer, struct peer_event *event_out)
{
    if (peer->has_connected) {
        peer->has_connected = false;
        *event_out = (struct peer_event){.kind = PEER_CONNECTED, .id = id_of(peers, peer)};
        return true;
    }
    if (peer->state == PEER_UP && !peer->is_receiving && take_frame(peers, peer, event_out)) { return true; }
    if (peer->state == PEER_UP && take_sent(peers, peer, event_out)) { return true; }
    if (peer->state == PEER_CLOSING && take_lost(peers, peer, event_out)) { return true; }
    if (peer->has_failed) {
        peer->has_failed = false;
        *event_out = (struct peer_event){.kind = PEER_FAILED, .id = id_of(peers, peer), .rc = peer->why};
        return true;
    }
    return false;
}

/* What a peer asks of the world when it has nothing to report. */
static void act(struct peers *peers, struct peer *peer, struct port_out *out)
{
    if (peer->state == PEER_CLOSING && peer->wants_close) {
        peer->wants_close = false;
        port_emit(out, PORT_CLOSE, token_of(peers, peer, WHAT_CLOSE, 0))->conn = conn_of(peers, peer);
    }
    if (peer->state == PEER_CLOSING && peer->is_closed) { rest_or_free(peers, peer); } /* all lost were reported */
    if (peer->state == PEER_UP) { receive(peers, peer, out); }
    if (peer->state == PEER_WAITING && peer->wait_until_ns <= peers->now_ns) {
        move_to(peers, peer, PEER_RESOLVING);
        peer->wait_until_ns = UINT64_MAX;
        struct port_effect *effect = port_emit(out, PORT_RESOLVE, token_of(peers, peer, WHAT_RESOLVE, 0));
        effect->path = base_slice_of(peer->host, peer->host_bytes);
        set_timer(peers, peer);
    }
}

bool peers_poll(struct peers *peers, uint64_t now_ns, struct port_out *out, struct peer_event *event_out)
{
    CHECK(port_out_room(out) >= PEER_POLL_EFFECTS);
    peers->now_ns = base_max_u64(peers->now_ns, now_ns);
    forget_shown(peers);
    while (!base_list_is_empty(&peers->pending)) {
        struct base_link *link = base_list_first(&peers->pending);
        struct peer *peer = BASE_ITEM(link, struct peer, pending);
        if (report(peers, peer, event_out)) { return true; }
        if (port_out_room(out) < PEER_POLL_EFFECTS) {
            out->wants_continue = true;
            return false;
        }
        base_list_remove(&peers->pending, link);
        act(peers, peer, out);
    }
    return false;
}

/* ---- events ---- */

static void on_resolved(struct peers *peers, struct peer *peer, const struct port_event *event, struct port_out *out)
{
    CHECK(peer->state == PEER_RESOLVING);
    if (event->done.rc != PORT_OK || peer->is_closing_for_good) {
        peer->why = event->done.rc;
        peer->has_failed = !peer->is_closing_for_good;
        mark_pending(peers, peer);
        rest_or_free(peers, peer);
        return;
    }
    move_to(peers, peer, PEER_CONNECTING);
    peer->address = event->done.address;
    peer->address.port = peer->port;
    peer->conn_generation = peer->conn_generation == UINT32_MAX ? 1 : peer->conn_generation + 1;
    peer->wait_until_ns = base_deadline_ns(peers->now_ns, peers->config.connect_timeout_ns);
    struct port_effect *effect = port_emit(out, PORT_CONNECT, token_of(peers, peer, WHAT_CONNECT, 0));
    effect->conn = conn_of(peers, peer);
    effect->address = peer->address;
    set_timer(peers, peer);
}

static void on_connected(struct peers *peers, struct peer *peer, const struct port_event *event)
{
    bool is_given_up = peer->state == PEER_CLOSING; /* the time was up: the close is asked already */
    CHECK(is_given_up || peer->state == PEER_CONNECTING);
    if (event->done.rc != PORT_OK) {
        if (is_given_up) { return; } /* CLOSED comes for the close */
        peer->why = event->done.rc;
        peer->has_failed = !peer->is_closing_for_good;
        mark_pending(peers, peer);
        rest_or_free(peers, peer);
        return;
    }
    if (is_given_up) { return; }
    if (peer->is_closing_for_good) {
        begin_closing(peers, peer, PORT_CLOSED);
        peer->has_failed = false;
        return;
    }
    move_to(peers, peer, PEER_UP);
    peer->wait_until_ns = UINT64_MAX;
    peer->has_connected = true;
    peer->next_correlation = 0;
    set_timer(peers, peer);
    mark_pending(peers, peer);
}

static void on_received(struct peers *peers, struct peer *peer, const struct port_event *event)
{
    CHECK(peer->is_receiving);
    peer->is_receiving = false;
    if (peer->state != PEER_UP) { /* closing: nobody reads this any more */
        give_input(peers, peer);
        return;
    }
    if (event->done.rc != PORT_OK) {
        begin_closing(peers, peer, event->done.rc == PORT_EOF ? PORT_RESET : event->done.rc);
        return;
    }
    if (peer->in == NULL) {
        CHECK(event->done.count == 0);
        peer->is_readable = true; /* an answer, the end, or what take_frame refuses */
    }
    peer->used_bytes += (size_t)event->done.count;
    mark_pending(peers, peer);
}

static void on_sent(struct peers *peers, struct peer *peer, const struct port_event *event)
{
    uint32_t index = (uint32_t)(event->done.token >> 24) & 0xFFFFU;
    struct flight *flight = &peer->flights[index];
    CHECK(flight->block != NULL);
    base_pages_give(peers->pages, flight->block);
    flight->block = NULL;
    pop_flights(peers, peer);
    if (event->done.rc != PORT_OK && peer->state == PEER_UP) { begin_closing(peers, peer, event->done.rc); }
    if (flight->is_unanswered || peer->state == PEER_CLOSING) { mark_pending(peers, peer); }
}

static void on_closed(struct peers *peers, struct peer *peer)
{
    CHECK(peer->state == PEER_CLOSING);
    give_input(peers, peer);
    peer->is_closed = true;
    mark_pending(peers, peer);
}

static void on_done(struct peers *peers, const struct port_event *event, struct port_out *out)
{
    uint32_t slot = (uint32_t)event->done.token & 0xFFFFFFU;
    CHECK(slot < peers->config.peers_max);
    struct peer *peer = &peers->peers[slot];
    switch ((enum what)(event->done.token >> 40 & 0xFFU)) {
    case WHAT_RESOLVE: on_resolved(peers, peer, event, out); break;
    case WHAT_CONNECT: on_connected(peers, peer, event); break;
    case WHAT_RECV: on_received(peers, peer, event); break;
    case WHAT_SEND: on_sent(peers, peer, event); break;
    case WHAT_CLOSE: on_closed(peers, peer); break;
    }
}

static void on_deadline(struct peers *peers, struct peer *peer)
{
    switch (peer->state) {
    case PEER_UP:
        if (oldest(peers, peer) != NULL && oldest(peers, peer)->deadline_ns <= peers->now_ns) {
            begin_closing(peers, peer, PORT_TIMED_OUT);
            return;
        }
        peer->wait_until_ns = UINT64_MAX; /* memory may be there now */
        break;
    case PEER_CONNECTING: begin_closing(peers, peer, PORT_TIMED_OUT); return;
    case PEER_WAITING: break;
    case PEER_FREE:
    case PEER_RESOLVING:
    case PEER_CLOSING: peer->wait_until_ns = UINT64_MAX; break;
    }
    mark_pending(peers, peer);
}

void peers_step(struct peers *peers, const struct port_event *event, struct port_out *out)
{
    peers->now_ns = base_max_u64(peers->now_ns, event->now_ns);
    forget_shown(peers);
    if (event->kind == PORT_EVENT_DONE && peers_owns(peers->config.token_tag, event->done.token)) {
        on_done(peers, event, out);
    }
    while (base_heap_first_key(&peers->timers) <= peers->now_ns) {
        struct base_heap_item *item = base_heap_first(&peers->timers);
        base_heap_remove(&peers->timers, item);
        on_deadline(peers, BASE_ITEM(item, struct peer, timer));
    }
}

void peers_alarm(const struct peers *peers, struct port_out *out)
{
    port_alarm(out, base_heap_first_key(&peers->timers));
    if (!base_list_is_empty(&peers->pending)) { out->wants_continue = true; }
}

bool peers_is_quiet(const struct peers *peers) { return peers->open_count == 0 && peers->timers.count == 0; }
