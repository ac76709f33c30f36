/* conn.c: listeners, and the life and death of connections.
 *
 * Room    core/conn.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "conn/conn__room.h"

#define ACCEPT_RETRY_NS    ((uint64_t)100 * 1000 * 1000) /* after a failed accept: out of descriptors, most likely */
#define PAGES_WAIT_NS      ((uint64_t)30 * 1000 * 1000 * 1000)
#define ALARM_HALVES_MAX   4 /* a few at a time: the memory of one may be enough */
#define ALARM_CLOSES_MAX   8
#define STOP_SLOTS_A_POLL  64
#define STOP_CLOSES_A_POLL 8
#define MOVES_A_POLL       64 /* each gives two effects at most: a close and a log line */
#define NS_PER_MS          ((uint64_t)1000 * 1000)

size_t conn_arena_bytes(const struct conn_config *config)
{
    size_t conn = sizeof(struct conn__conn) + 16 + 8;
    size_t request = sizeof(struct conn__request) + 16 + 8;
    return sizeof(struct conns) + 4096 + conn * config->conns_max + request * config->requests_max;
}

enum base_rc conn_create(struct base_arena *arena, struct base_pages *pages, const struct conn_config *config,
                         struct conns **conns_out)
{
    CHECK(config->conns_max > 0);
    CHECK(config->requests_max > 0);
    CHECK(config->in_flight_max > 0);
    CHECK(config->frame_bytes_max > 0 && config->frame_bytes_max < INT32_MAX / 2);
    CHECK(config->block_bytes >= 64 && config->trust_bytes >= config->block_bytes);
    CHECK(config->trust_bytes <= INT32_MAX / 2);
    struct conns *conns = base_arena_take_array(arena, 1, sizeof *conns);
    if (conns == NULL) { return BASE_FULL; }
    conns->config = *config;
    conns->pages = pages;
    conns->conn_generations = base_arena_take_array(arena, config->conns_max, sizeof(uint32_t));
    conns->request_generations = base_arena_take_array(arena, config->requests_max, sizeof(uint32_t));
    if (conns->conn_generations == NULL || conns->request_generations == NULL ||
        base_pool_create(arena, sizeof(struct conn__conn), config->conns_max, &conns->conns) != BASE_OK ||
        base_pool_create(arena, sizeof(struct conn__request), config->requests_max, &conns->requests) != BASE_OK) {
        return BASE_FULL;
    }
    base_list_init(&conns->ages);
    base_list_init(&conns->to_parse);
    base_list_init(&conns->for_requests);
    base_list_init(&conns->for_pages);
    base_list_init(&conns->ready);
    base_list_init(&conns->gone);
    base_list_init(&conns->fresh);
    base_list_init(&conns->ended);
    base_list_init(&conns->halves);
    *conns_out = conns;
    return BASE_OK;
}

struct port_effect *conn__emit(struct conns *conns, struct port_out *out, enum port_effect_kind kind, enum conn__op op,
                               uint32_t value)
{
    conns->effects_outstanding += 1;
    return port_emit(out, kind, CONN_TOKEN_ROOM << 56 | (uint64_t)op << 48 | value);
}

struct conn__conn *conn__at(const struct conns *conns, uint32_t index) { return base_pool_at(&conns->conns, index); }

struct conn__request *conn__request_at(const struct conns *conns, uint32_t index)
{
    return base_pool_at(&conns->requests, index);
}

uint32_t conn__index(const struct conns *conns, const struct conn__conn *conn)
{
    return base_pool_index(&conns->conns, conn);
}

struct port_conn conn__id(const struct conns *conns, const struct conn__conn *conn)
{
    return (struct port_conn){.slot = conns->config.conn_slot_first + conn__index(conns, conn),
                              .generation = conn->generation};
}

static struct conn__conn *find(const struct conns *conns, struct port_conn id)
{
    CHECK(id.slot >= conns->config.conn_slot_first);
    uint32_t index = id.slot - conns->config.conn_slot_first;
    CHECK(index < conns->config.conns_max);
    if (!base_pool_is_taken(&conns->conns, index)) { return NULL; }
    struct conn__conn *conn = conn__at(conns, index);
    return conn->generation == id.generation && conn->state == CONN__OPEN ? conn : NULL;
}

void conn__touch(struct conns *conns, struct conn__conn *conn, uint64_t now_ns)
{
    CHECK(conn->state == CONN__OPEN);
    conn->last_ns = now_ns;
    base_list_remove(&conns->ages, &conn->age);
    base_list_push_back(&conns->ages, &conn->age);
}

/* ---- listeners ---------------------------------------------------------------------------------------------------- */

static struct port_listener listener_id(const struct conns *conns, uint32_t index)
{
    return (struct port_listener){.slot = conns->config.listener_slot_first + index,
                                  .generation = conns->listeners[index].generation};
}

void conn_listen(struct conns *conns, uint32_t index, struct port_address address, struct port_out *out)
{
    CHECK(index < CONN_LISTENERS_MAX);
    struct conn__listener *listener = &conns->listeners[index];
    CHECK(listener->state == CONN__OFF);
    CHECK(!conns->is_stopping);
    listener->generation += 1;
    listener->state = CONN__BINDING;
    struct port_effect *effect = conn__emit(conns, out, PORT_LISTEN, CONN__LISTEN, index);
    effect->listener = listener_id(conns, index);
    effect->address = address;
}

static void accept_next(struct conns *conns, uint32_t index, struct port_out *out)
{
    struct conn__listener *listener = &conns->listeners[index];
    if (listener->state != CONN__LISTENING || listener->has_accept || listener->retry_ns != 0 || conns->is_stopping) {
        return;
    }
    uint32_t conn_index = base_pool_take(&conns->conns);
    if (conn_index == BASE_POOL_NONE) { return; } /* a slot that comes back asks again */
    struct conn__conn *conn = conn__at(conns, conn_index);
    conns->conn_generations[conn_index] += 1;
    if (conns->conn_generations[conn_index] == 0) { conns->conn_generations[conn_index] = 1; }
    conn->generation = conns->conn_generations[conn_index];
    conn->state = CONN__ACCEPTING;
    conn->listener = (uint8_t)index;
    listener->has_accept = true;
    struct port_effect *effect = conn__emit(conns, out, PORT_ACCEPT, CONN__ACCEPT, index);
    effect->listener = listener_id(conns, index);
    effect->conn = conn__id(conns, conn);
}

/* A slot is free: whoever lacked one asks, in turns. */
static void accept_all(struct conns *conns, struct port_out *out)
{
    for (uint32_t i = 0; i < CONN_LISTENERS_MAX; i++) {
        uint32_t index = (conns->next_listener + i) % CONN_LISTENERS_MAX;
        accept_next(conns, index, out);
    }
    conns->next_listener = (conns->next_listener + 1) % CONN_LISTENERS_MAX;
}

static void free_conn(struct conns *conns, struct conn__conn *conn, struct port_out *out)
{
    CHECK(conn->block == NULL);
    CHECK(conn->in_flight == 0);
    base_pool_give(&conns->conns, conn__index(conns, conn));
    accept_all(conns, out);
}

static void unlisten(struct conns *conns, uint32_t index, struct port_out *out)
{
    CHECK(conns->listeners[index].state == CONN__LISTENING);
    conns->listeners[index].state = CONN__UNLISTENING;
    struct port_effect *effect = conn__emit(conns, out, PORT_UNLISTEN, CONN__UNLISTEN, index);
    effect->listener = listener_id(conns, index);
}

static void on_listen(struct conns *conns, uint32_t index, const struct port_event *event, struct port_out *out)
{
    struct conn__listener *listener = &conns->listeners[index];
    CHECK(listener->state == CONN__BINDING);
    listener->rc = event->done.rc;
    listener->address = event->done.address;
    conns->news_count += listener->has_news ? 0 : 1;
    listener->has_news = true;
    listener->state = event->done.rc == PORT_OK ? CONN__LISTENING : CONN__OFF;
    if (listener->state != CONN__LISTENING) { return; }
    if (conns->is_stopping) {
        unlisten(conns, index, out);
    } else {
        accept_next(conns, index, out);
    }
}

static void on_accept(struct conns *conns, uint32_t index, const struct port_event *event, struct port_out *out)
{
    struct conn__listener *listener = &conns->listeners[index];
    CHECK(listener->has_accept);
    struct conn__conn *conn = conn__at(conns, event->done.conn.slot - conns->config.conn_slot_first);
    CHECK(conn->state == CONN__ACCEPTING);
    CHECK(conn->generation == event->done.conn.generation);
    listener->has_accept = false;
    if (event->done.rc != PORT_OK) {
        if (listener->state == CONN__LISTENING) {
            listener->retry_ns = base_deadline_ns(event->now_ns, ACCEPT_RETRY_NS);
        }
        free_conn(conns, conn, out);
        return;
    }
    conns->accepted_total += 1;
    conn->state = CONN__OPEN;
    conn->peer = event->done.address;
    conn->last_ns = event->now_ns;
    base_list_push_back(&conns->ages, &conn->age);
    if (conns->config.tells_opened) { base_list_push_back(&conns->fresh, &conn->fresh); }
    if (conns->is_stopping) {
        conn->side = CONN__SIDE_DONE;
        conn__end_as_usual(conns, conn, "the node stops", out);
        return;
    }
    conn__watch(conns, conn, out);
    accept_next(conns, index, out);
}

/* ---- closing ------------------------------------------------------------------------------------------------------ */

static void log_end(const struct conn__conn *conn, const char *why, enum port_level level, struct port_out *out)
{
    struct base_text text;
    char address[47];
    port_log_begin(out, &text);
    port_address_to_text(conn->peer, address);
    base_text_add(&text, "connection from ");
    base_text_add(&text, address);
    base_text_add(&text, " port ");
    base_text_add_i64(&text, conn->peer.port);
    base_text_add(&text, " closed: ");
    base_text_add(&text, why);
    port_log_end(out, level, "conn", &text);
}

void conn__unqueue(struct conns *conns, uint32_t *bytes)
{
    CHECK(conns->queued_bytes >= *bytes);
    conns->queued_bytes -= *bytes;
    *bytes = 0;
}

static void end(struct conns *conns, struct conn__conn *conn, struct port_out *out)
{
    CHECK(conn->state == CONN__OPEN);
    CHECK(!conn->is_closed);
    conn__unqueue(conns, &conn->admitted_bytes);
    bool is_filling = conn->side == CONN__SIDE_FILL; /* the host still has the block */
    if (is_filling) { base_list_remove(&conns->halves, &conn->half); }
    conn__leave_line(conns, conn);
    if (!is_filling) { conn__leave_block(conns, conn); }
    if (base_link_is_on(&conn->ended)) { base_list_remove(&conns->ended, &conn->ended); }
    base_list_remove(&conns->ages, &conn->age);
    conn__orphan_requests(conns, conn);
    conn->state = CONN__CLOSING;
    conns->closed_total += 1;
    base_list_push_back(&conns->gone, &conn->line);
    struct port_effect *effect = conn__emit(conns, out, PORT_CLOSE, CONN__CLOSE, conn__index(conns, conn));
    effect->conn = conn__id(conns, conn);
}

void conn__end(struct conns *conns, struct conn__conn *conn, const char *why, struct port_out *out)
{
    log_end(conn, why, PORT_WARN, out);
    end(conns, conn, out);
}

void conn__end_as_usual(struct conns *conns, struct conn__conn *conn, const char *why, struct port_out *out)
{
    if (port_wants_debug(out)) { log_end(conn, why, PORT_DEBUG, out); }
    end(conns, conn, out);
}

void conn__end_if_drained(struct conns *conns, struct conn__conn *conn, struct port_out *out)
{
    if (conn->state == CONN__OPEN && conn->is_ending && conn->in_flight == 0) {
        conn__end_as_usual(conns, conn, "nothing is owed to it any more", out);
    }
}

void conn__drain(struct conns *conns, struct conn__conn *conn, struct port_out *out)
{
    CHECK(conn->state == CONN__OPEN);
    conn->is_ending = true;
    if (conn->side != CONN__SIDE_WATCH && conn->side != CONN__SIDE_FILL) {
        conn__leave_line(conns, conn);
        conn__leave_block(conns, conn);
        conn__unqueue(conns, &conn->admitted_bytes);
        conn->side = CONN__SIDE_DONE;
    }
    conn__end_if_drained(conns, conn, out);
}

bool conn_is_open(const struct conns *conns, struct port_conn conn) { return find(conns, conn) != NULL; }

bool conn_has_ended(const struct conns *conns, struct port_conn id)
{
    const struct conn__conn *conn = find(conns, id);
    return conn == NULL || conn->has_ended;
}

void conn_close(struct conns *conns, struct port_conn id, struct port_out *out)
{
    struct conn__conn *conn = find(conns, id);
    if (conn != NULL) { conn__end_as_usual(conns, conn, "it was turned away", out); }
}

static void free_if_over(struct conns *conns, struct conn__conn *conn, struct port_out *out)
{
    CHECK(conn->state == CONN__CLOSING);
    if (conn->is_closed && conn->is_told_gone) { free_conn(conns, conn, out); }
}

void conn_done(struct conns *conns, const struct port_event *event, struct port_out *out)
{
    CHECK(event->kind == PORT_EVENT_DONE);
    CHECK(event->done.token >> 56 == CONN_TOKEN_ROOM);
    CHECK(conns->effects_outstanding > 0);
    conns->effects_outstanding -= 1;
    uint32_t value = (uint32_t)event->done.token;
    switch ((enum conn__op)(event->done.token >> 48 & 0xff)) {
    case CONN__LISTEN: on_listen(conns, value, event, out); break;
    case CONN__UNLISTEN:
        CHECK(conns->listeners[value].state == CONN__UNLISTENING);
        conns->listeners[value].state = CONN__OFF;
        break;
    case CONN__ACCEPT: on_accept(conns, value, event, out); break;
    case CONN__WATCH: conn__watched(conns, conn__at(conns, value), event, out); break;
    case CONN__FILL: conn__received(conns, conn__at(conns, value), event, out); break;
    case CONN__SEND: conn__sent(conns, value, event, out); break;
    case CONN__CLOSE: {
        struct conn__conn *conn = conn__at(conns, value);
        CHECK(conn->state == CONN__CLOSING);
        CHECK(!conn->is_closed);
        conn->is_closed = true;
        free_if_over(conns, conn, out);
        break;
    }
    }
    CHECK_SLOW(conns->config.is_check_slow, conn_is_sound(conns));
}

/* ---- time --------------------------------------------------------------------------------------------------------- */

static uint64_t idle_ns(const struct conns *conns)
{
    return conns->config.idle_ms == 0 ? UINT64_MAX : conns->config.idle_ms * NS_PER_MS;
}

/* When the one that is silent longest in the middle of a frame may be closed for the sake of others. */
static uint64_t half_deadline_ns(const struct conns *conns)
{
    if (base_list_is_empty(&conns->halves)) { return UINT64_MAX; }
    const struct conn__conn *half = BASE_ITEM(base_list_first(&conns->halves), struct conn__conn, half);
    return base_deadline_ns(half->fill_ns, CONN_HALF_FRAME_NS);
}

uint64_t conn_next_alarm_ns(const struct conns *conns)
{
    uint64_t next_ns = UINT64_MAX;
    if (!base_list_is_empty(&conns->ages) && conns->config.idle_ms != 0) {
        const struct conn__conn *oldest = BASE_ITEM(base_list_first(&conns->ages), struct conn__conn, age);
        next_ns = base_deadline_ns(oldest->last_ns, idle_ns(conns));
    }
    if (!base_list_is_empty(&conns->for_pages)) {
        const struct conn__conn *first = BASE_ITEM(base_list_first(&conns->for_pages), struct conn__conn, line);
        next_ns = base_min_u64(next_ns, base_deadline_ns(first->last_ns, PAGES_WAIT_NS));
        next_ns = base_min_u64(next_ns, half_deadline_ns(conns));
    }
    for (uint32_t i = 0; i < CONN_LISTENERS_MAX; i++) {
        if (conns->listeners[i].retry_ns != 0) { next_ns = base_min_u64(next_ns, conns->listeners[i].retry_ns); }
    }
    return next_ns;
}

/* A request that waits for us is not idleness of the peer; an answer that it does not read is. */
static bool owes_an_answer(const struct conns *conns, const struct conn__conn *conn)
{
    return conn->first != 0 && conn__request_at(conns, conn->first - 1)->state == CONN__WAITING;
}

void conn_alarm(struct conns *conns, const struct port_event *event, struct port_out *out)
{
    for (uint32_t i = 0; i < CONN_LISTENERS_MAX; i++) {
        struct conn__listener *listener = &conns->listeners[i];
        if (listener->retry_ns != 0 && listener->retry_ns <= event->now_ns) {
            listener->retry_ns = 0;
            accept_next(conns, i, out);
        }
    }
    for (uint32_t i = 0; i < ALARM_CLOSES_MAX && !base_list_is_empty(&conns->ages); i++) {
        struct conn__conn *oldest = BASE_ITEM(base_list_first(&conns->ages), struct conn__conn, age);
        if (base_deadline_ns(oldest->last_ns, idle_ns(conns)) > event->now_ns || conns->config.idle_ms == 0) { break; }
        if (owes_an_answer(conns, oldest)) {
            conn__touch(conns, oldest, event->now_ns);
        } else {
            conn__end_as_usual(conns, oldest, "idle for longer than connections.max.idle.ms", out);
        }
    }
    if (!base_list_is_empty(&conns->for_pages)) {
        for (uint32_t i = 0; i < ALARM_HALVES_MAX && half_deadline_ns(conns) <= event->now_ns; i++) {
            struct conn__conn *half = BASE_ITEM(base_list_first(&conns->halves), struct conn__conn, half);
            conn__end(conns, half, "others need the memory of a frame that it does not go on with", out);
        }
        struct conn__conn *first = BASE_ITEM(base_list_first(&conns->for_pages), struct conn__conn, line);
        if (base_deadline_ns(first->last_ns, PAGES_WAIT_NS) <= event->now_ns) {
            conn__end(conns, first, "no memory for what it sends", out);
        }
    }
    CHECK_SLOW(conns->config.is_check_slow, conn_is_sound(conns));
}

/* ---- stopping ----------------------------------------------------------------------------------------------------- */

void conn_stop(struct conns *conns, enum conn_stop_how how, struct port_out *out)
{
    if (!conns->is_stopping) {
        conns->is_stopping = true;
        for (uint32_t i = 0; i < CONN_LISTENERS_MAX; i++) {
            conns->listeners[i].retry_ns = 0;
            if (conns->listeners[i].state == CONN__LISTENING) { unlisten(conns, i, out); }
        }
    }
    if (how == CONN_STOP_NOW && !conns->is_stopping_now) {
        conns->is_stopping_now = true;
        conns->stop_next = 0;
    }
}

/* Tells a portion of the connections that it is over; each gives one effect at most. */
static void stop_some(struct conns *conns, struct port_out *out)
{
    uint32_t end = conns->stop_next + STOP_SLOTS_A_POLL;
    uint32_t closes = 0;
    while (conns->stop_next < conns->config.conns_max && conns->stop_next < end && closes < STOP_CLOSES_A_POLL) {
        uint32_t index = conns->stop_next;
        conns->stop_next += 1;
        if (index >= conns->conns.fresh) {
            conns->stop_next = conns->config.conns_max; /* never used from here on */
            break;
        }
        if (!base_pool_is_taken(&conns->conns, index)) { continue; }
        struct conn__conn *conn = conn__at(conns, index);
        if (conn->state != CONN__OPEN) { continue; }
        closes += 1;
        if (conns->is_stopping_now) {
            conn__end_as_usual(conns, conn, "the node stops, and waits no longer", out);
        } else {
            conn__drain(conns, conn, out);
        }
    }
    if (conns->stop_next < conns->config.conns_max) { out->wants_continue = true; }
}

static bool is_stopped(const struct conns *conns)
{
    if (!conns->is_stopping || conns->is_stop_told || conns->stop_next < conns->config.conns_max) { return false; }
    for (uint32_t i = 0; i < CONN_LISTENERS_MAX; i++) {
        if (conns->listeners[i].state != CONN__OFF) { return false; }
    }
    return conns->conns.taken_count == 0 && conns->effects_outstanding == 0;
}

/* ---- what the broker pulls ---------------------------------------------------------------------------------------- */

static bool tell_listening(struct conns *conns, struct conn_out *item_out)
{
    for (uint32_t i = 0; conns->news_count > 0 && i < CONN_LISTENERS_MAX; i++) {
        struct conn__listener *listener = &conns->listeners[i];
        if (!listener->has_news) { continue; }
        listener->has_news = false;
        conns->news_count -= 1;
        *item_out = (struct conn_out){.kind = CONN_OUT_LISTENING,
                                      .rc = listener->rc,
                                      .listener = i,
                                      .address = listener->address};
        return true;
    }
    return false;
}

static struct conn_out item_of(const struct conns *conns, const struct conn__conn *conn, enum conn_out_kind kind)
{
    return (struct conn_out){.kind = kind,
                             .conn = conn__id(conns, conn),
                             .conn_index = conn__index(conns, conn),
                             .listener = conn->listener,
                             .address = conn->peer};
}

static bool tell_opened(struct conns *conns, struct conn_out *item_out)
{
    struct base_link *link = base_list_pop_front(&conns->fresh);
    if (link == NULL) { return false; }
    const struct conn__conn *conn = BASE_ITEM(link, struct conn__conn, fresh);
    *item_out = item_of(conns, conn, CONN_OUT_OPENED);
    return true;
}

static bool tell_ended(struct conns *conns, struct conn_out *item_out)
{
    struct base_link *link = base_list_pop_front(&conns->ended);
    if (link == NULL) { return false; }
    const struct conn__conn *conn = BASE_ITEM(link, struct conn__conn, ended);
    *item_out = item_of(conns, conn, CONN_OUT_ENDED);
    return true;
}

static bool tell_gone(struct conns *conns, struct port_out *out, struct conn_out *item_out)
{
    struct base_link *link = base_list_pop_front(&conns->gone);
    if (link == NULL) { return false; }
    struct conn__conn *conn = BASE_ITEM(link, struct conn__conn, line);
    *item_out = item_of(conns, conn, CONN_OUT_GONE);
    conn->is_told_gone = true;
    free_if_over(conns, conn, out);
    return true;
}

/* Most polls, at one look. Whatever conn_poll below may have something from stands here too, or it is not told. */
static bool has_nothing(const struct conns *conns)
{
    uint32_t listed = conns->fresh.count | conns->ended.count | conns->gone.count | conns->to_parse.count |
                      conns->for_requests.count | conns->for_pages.count;
    return listed == 0 && conns->sent_first == 0 && conns->news_count == 0 && !conns->is_stopping;
}

bool conn_poll(struct conns *conns, uint64_t now_ns, struct port_out *out, struct conn_out *item_out)
{
    if (port_out_room(out) < CONN_POLL_EFFECTS_MAX) {
        out->wants_continue = true;
        return false;
    }
    if (has_nothing(conns)) { return false; }
    if (tell_listening(conns, item_out)) { return true; }
    if (tell_opened(conns, item_out)) { return true; }
    if (tell_ended(conns, item_out)) { return true; }
    if (conn__tell_sent(conns, item_out)) { return true; }
    if (tell_gone(conns, out, item_out)) { return true; }
    if (conns->is_stopping && conns->stop_next < conns->config.conns_max) {
        stop_some(conns, out);
        if (tell_gone(conns, out, item_out)) { return true; }
    }
    bool is_item = false;
    uint32_t moves = 0;
    while (moves < MOVES_A_POLL && conn__receive_some(conns, now_ns, out, item_out, &is_item)) {
        if (is_item) { return true; }
        moves += 1;
    }
    if (moves == MOVES_A_POLL) { out->wants_continue = true; }
    if (tell_gone(conns, out, item_out)) { return true; } /* a bad frame has just closed one */
    if (conn__tell_sent(conns, item_out)) { return true; }
    if (is_stopped(conns)) {
        conns->is_stop_told = true;
        *item_out = (struct conn_out){.kind = CONN_OUT_STOPPED};
        return true;
    }
    return false;
}

/* ---- views -------------------------------------------------------------------------------------------------------- */

void conn_view(const struct conns *conns, struct conn_view *view_out)
{
    *view_out = (struct conn_view){.connections = conns->ages.count,
                                   .requests = conns->requests.taken_count,
                                   .blocks = conns->blocks,
                                   .waiting_for_pages = conns->for_pages.count,
                                   .waiting_for_requests = conns->for_requests.count,
                                   .queued_bytes = conns->queued_bytes,
                                   .accepted_total = conns->accepted_total,
                                   .closed_total = conns->closed_total,
                                   .bytes_in_total = conns->bytes_in_total,
                                   .bytes_out_total = conns->bytes_out_total};
}

bool conn_is_quiet(const struct conns *conns)
{
    return conns->requests.taken_count == 0 && conns->blocks == 0 && conns->sent_first == 0 &&
           conns->queued_bytes == 0 && base_list_is_empty(&conns->fresh) && base_list_is_empty(&conns->ended) &&
           base_list_is_empty(&conns->gone) && base_list_is_empty(&conns->to_parse) &&
           base_list_is_empty(&conns->for_pages) && base_list_is_empty(&conns->for_requests);
}

static bool is_conn_sound(const struct conns *conns, const struct conn__conn *conn)
{
    bool is_open = conn->state == CONN__OPEN;
    if (base_link_is_on(&conn->age) != is_open) { return false; }
    if (conn->state == CONN__ACCEPTING) { return conn->block == NULL && conn->in_flight == 0; }
    uint32_t queued = 0;
    for (uint32_t at = conn->first; at != 0; at = conn__request_at(conns, at - 1)->next) {
        const struct conn__request *request = conn__request_at(conns, at - 1);
        if (request->state != CONN__WAITING && request->state != CONN__READY) { return false; }
        queued += 1;
        if (queued > conn->in_flight || (request->next == 0) != (conn->last == at)) { return false; }
    }
    if (!is_open) { return queued == 0 && !base_link_is_on(&conn->ready); }
    enum conn__side side = (enum conn__side)conn->side;
    bool is_in_line = side == CONN__SIDE_PARSE || side == CONN__SIDE_FOR_REQUESTS || side == CONN__SIDE_FOR_PAGES;
    if (base_link_is_on(&conn->line) != is_in_line) { return false; }
    if (base_link_is_on(&conn->half) != (side == CONN__SIDE_FILL)) { return false; }
    if (conn->in_flight > conns->config.in_flight_max || conn->holding > queued) { return false; }
    if ((side == CONN__SIDE_WATCH || side == CONN__SIDE_DONE) && conn->block != NULL) { return false; }
    if (side == CONN__SIDE_FOR_ANSWERS && conn->in_flight == 0) { return false; } /* it would wait for ever */
    return base_link_is_on(&conn->ready) == conn__has_ready(conns, conn) && conn->sending + queued == conn->in_flight &&
           IMPLIES(conn->block != NULL, conn->start <= conn->end && conn->end <= conn->block->room_bytes);
}

bool conn_is_sound(const struct conns *conns)
{
    uint32_t open = 0;
    uint32_t in_flight = 0;
    for (uint32_t i = 0; i < conns->conns.fresh; i++) {
        if (!base_pool_is_taken(&conns->conns, i)) { continue; }
        const struct conn__conn *conn = conn__at(conns, i);
        if (!is_conn_sound(conns, conn)) { return false; }
        open += conn->state == CONN__OPEN ? 1 : 0;
        in_flight += conn->in_flight;
    }
    return open == conns->ages.count && in_flight <= conns->requests.taken_count;
}
