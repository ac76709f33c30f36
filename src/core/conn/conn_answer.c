/* conn_answer.c: answers wait for those before them, and leave together.
 *
 * Room    core/conn.
 * Memory  never needed to send: an answer of a few pieces has its array in the request, a longer one got a block when it was given.
 *         Several that leave together get a gathered array if there is memory for one; if not they leave one by one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "conn/conn__room.h"

#define GATHER_PIECES_MAX 256u /* of one send of several answers */
#define CONN_NONE         UINT32_MAX

static struct conn__request *find(const struct conns *conns, struct conn_request id)
{
    CHECK(base_pool_is_taken(&conns->requests, id.slot));
    struct conn__request *request = conn__request_at(conns, id.slot);
    CHECK(request->generation == id.generation); /* answered or released twice, else */
    return request;
}

static uint32_t index_of(const struct conns *conns, const struct conn__request *request)
{
    return base_pool_index(&conns->requests, request);
}

/* The answer is over; the slot is free once the frame is released, too. */
static void finish(struct conns *conns, struct conn__request *request)
{
    request->state = CONN__FINISHED;
    if (request->block == NULL) { base_pool_give(&conns->requests, index_of(conns, request)); }
}

void conn_release_frame(struct conns *conns, struct conn_request id)
{
    struct conn__request *request = find(conns, id);
    CHECK(request->block != NULL);
    conn__drop_block(conns, request->block);
    request->block = NULL;
    conn__unqueue(conns, &request->frame_bytes);
    if (request->state == CONN__FINISHED) { base_pool_give(&conns->requests, id.slot); }
}

/* What was lent for its answer goes back: to be told. */
static void push_sent(struct conns *conns, struct conn__request *request)
{
    if (request->pieces != NULL && request->pieces != request->inline_pieces) {
        base_pages_give(conns->pages, request->pieces);
        conns->blocks -= 1;
    }
    request->pieces = NULL;
    request->state = CONN__SENT;
    request->next = 0;
    uint32_t link = index_of(conns, request) + 1;
    if (conns->sent_last == 0) {
        conns->sent_first = link;
    } else {
        conn__request_at(conns, conns->sent_last - 1)->next = link;
    }
    conns->sent_last = link;
}

bool conn__tell_sent(struct conns *conns, struct conn_out *item_out)
{
    if (conns->sent_first == 0) { return false; }
    struct conn__request *request = conn__request_at(conns, conns->sent_first - 1);
    CHECK(request->state == CONN__SENT);
    conns->sent_first = request->next;
    if (conns->sent_first == 0) { conns->sent_last = 0; }
    *item_out = (struct conn_out){.kind = CONN_OUT_SENT,
                                  .request = {.slot = index_of(conns, request), .generation = request->generation},
                                  .cookie = request->cookie};
    finish(conns, request);
    return true;
}

static struct conn__request *pop_first(struct conns *conns, struct conn__conn *conn)
{
    struct conn__request *request = conn__request_at(conns, conn->first - 1);
    conn->first = request->next;
    if (conn->first == 0) { conn->last = 0; }
    request->next = 0;
    return request;
}

static bool is_first_ready(const struct conns *conns, const struct conn__conn *conn)
{
    return conn->first != 0 && conn__request_at(conns, conn->first - 1)->state == CONN__READY;
}

bool conn__has_ready(const struct conns *conns, const struct conn__conn *conn)
{
    return is_first_ready(conns, conn) && !conn__request_at(conns, conn->first - 1)->is_end;
}

/* After an answer was given or has left: empty answers at the front are over, the connection is on the list of those with
 * something to send or not, and receives again if it had too much in flight. */
static void settle(struct conns *conns, struct conn__conn *conn, struct port_out *out)
{
    CHECK(conn->state == CONN__OPEN);
    while (is_first_ready(conns, conn) && conn__request_at(conns, conn->first - 1)->is_none) {
        if (conn__request_at(conns, conn->first - 1)->is_end) {
            if (conn->sending == 0) { conn__end_as_usual(conns, conn, "a request of it ended it", out); }
            break;
        }
        finish(conns, pop_first(conns, conn));
        conn->in_flight -= 1;
    }
    if (conn->state != CONN__OPEN) { return; }
    if (conn__has_ready(conns, conn)) {
        if (!base_link_is_on(&conn->ready)) { base_list_push_back(&conns->ready, &conn->ready); }
        out->wants_turn = true;
    } else if (base_link_is_on(&conn->ready)) {
        base_list_remove(&conns->ready, &conn->ready);
    }
    bool may_cut = !conn__is_held(conn) && conn->in_flight < conns->config.in_flight_max;
    if (conn->side == CONN__SIDE_FOR_ANSWERS && may_cut) { conn__to_parse(conns, conn); }
    conn__end_if_drained(conns, conn, out);
}

void conn_hold(struct conns *conns, struct conn_request id, uint32_t but)
{
    struct conn__request *request = find(conns, id);
    if (request->state == CONN__ORPHAN || request->is_holding) { return; }
    CHECK(request->state == CONN__WAITING);
    request->is_holding = true;
    struct conn__conn *conn = conn__at(conns, request->conn);
    if (conn->holding == 0) { conn->but = but; }
    if (conn->but != but) { conn->but = CONN_BUT_NOTHING; }
    conn->holding += 1;
}

static void hold_no_more(struct conns *conns, struct conn__request *request)
{
    if (!request->is_holding) { return; }
    request->is_holding = false;
    struct conn__conn *conn = conn__at(conns, request->conn);
    CHECK(conn->holding > 0);
    conn->holding -= 1;
}

enum base_rc conn_answer(struct conns *conns, struct conn_request id, const struct port_piece *pieces,
                         uint32_t piece_count, uint64_t cookie, struct port_out *out)
{
    CHECK(piece_count > 0);
    struct conn__request *request = find(conns, id);
    if (request->state == CONN__ORPHAN) {
        request->cookie = cookie;
        push_sent(conns, request);
        return BASE_OK;
    }
    CHECK(request->state == CONN__WAITING);
    struct port_piece *copy = request->inline_pieces;
    if (piece_count > CONN_PIECES_INLINE) {
        copy = base_pages_take(conns->pages, BASE_CLIENTS, (size_t)piece_count * sizeof *copy);
        if (copy == NULL) { return BASE_FULL; }
        conns->blocks += 1;
    }
    memcpy(copy, pieces, (size_t)piece_count * sizeof *copy);
    request->pieces = copy;
    request->piece_count = piece_count;
    request->cookie = cookie;
    request->state = CONN__READY;
    hold_no_more(conns, request);
    settle(conns, conn__at(conns, request->conn), out);
    return BASE_OK;
}

static void answer_without_bytes(struct conns *conns, struct conn_request id, bool is_end, struct port_out *out)
{
    struct conn__request *request = find(conns, id);
    if (request->state == CONN__ORPHAN) {
        finish(conns, request);
        return;
    }
    CHECK(request->state == CONN__WAITING);
    request->is_none = true;
    request->is_end = is_end;
    request->state = CONN__READY;
    hold_no_more(conns, request);
    struct conn__conn *conn = conn__at(conns, request->conn);
    if (is_end) { conn__drain(conns, conn, out); } /* it is in flight: this does not close */
    settle(conns, conn, out);
}

void conn_answer_none(struct conns *conns, struct conn_request request, struct port_out *out)
{
    answer_without_bytes(conns, request, false, out);
}

void conn_answer_end(struct conns *conns, struct conn_request request, struct port_out *out)
{
    answer_without_bytes(conns, request, true, out);
}

void conn__orphan_requests(struct conns *conns, struct conn__conn *conn)
{
    if (base_link_is_on(&conn->ready)) { base_list_remove(&conns->ready, &conn->ready); }
    while (conn->first != 0) {
        struct conn__request *request = pop_first(conns, conn);
        conn->in_flight -= 1;
        hold_no_more(conns, request);
        request->conn = CONN_NONE;
        if (request->state == CONN__WAITING) {
            request->state = CONN__ORPHAN;
        } else if (request->is_none) {
            finish(conns, request);
        } else {
            push_sent(conns, request);
        }
    }
}

/* ---- sending ------------------------------------------------------------------------------------------------------ */

/* How many answers leave as one, and of how many pieces. */
static uint32_t count_group(const struct conns *conns, const struct conn__conn *conn, uint32_t *pieces_out)
{
    uint32_t answers = 0;
    uint32_t pieces = 0;
    for (uint32_t at = conn->first; at != 0; at = conn__request_at(conns, at - 1)->next) {
        const struct conn__request *request = conn__request_at(conns, at - 1);
        if (request->state != CONN__READY || request->is_end) { break; }
        if (request->is_none) { continue; }
        if (answers > 0 && pieces + request->piece_count > GATHER_PIECES_MAX) { break; }
        answers += 1;
        pieces += request->piece_count;
    }
    *pieces_out = pieces;
    return answers;
}

/* Needs a ready answer at the front. One effect. */
static void send_group(struct conns *conns, struct conn__conn *conn, struct port_out *out)
{
    uint32_t pieces_count;
    uint32_t answers = count_group(conns, conn, &pieces_count);
    CHECK(answers > 0);
    struct port_piece *gather = NULL;
    if (answers > 1) {
        gather = base_pages_take(conns->pages, BASE_CLIENTS, (size_t)pieces_count * sizeof *gather);
        if (gather == NULL) { answers = 1; }
    }
    struct conn__request *leader = NULL;
    struct conn__request *last = NULL;
    uint32_t gathered = 0;
    while (answers > 0) {
        struct conn__request *request = pop_first(conns, conn);
        CHECK(request->state == CONN__READY);
        if (request->is_none) { /* between two that leave: it holds nothing */
            conn->in_flight -= 1;
            finish(conns, request);
            continue;
        }
        answers -= 1;
        request->state = CONN__SENDING;
        if (leader == NULL) {
            leader = request;
        } else {
            last->next = index_of(conns, request) + 1;
        }
        last = request;
        leader->group_count += 1;
        if (gather != NULL) {
            memcpy(gather + gathered, request->pieces, (size_t)request->piece_count * sizeof *gather);
            gathered += request->piece_count;
        }
    }
    CHECK(IMPLIES(gather != NULL, gathered == pieces_count));
    conn->sending += leader->group_count;
    leader->gather = gather;
    if (gather != NULL) { conns->blocks += 1; }
    struct port_effect *effect = conn__emit(conns, out, PORT_SEND, CONN__SEND, index_of(conns, leader));
    effect->conn = conn__id(conns, conn);
    effect->pieces = gather != NULL ? gather : leader->pieces;
    effect->piece_count = gather != NULL ? gathered : leader->piece_count;
}

void conn_turn(struct conns *conns, struct port_out *out)
{
    for (uint32_t i = 0; i < CONN_TURN_EFFECTS_MAX; i++) {
        struct base_link *link = base_list_first(&conns->ready);
        if (link == NULL) { return; }
        if (port_out_room(out) < CONN_EFFECTS_MAX) { break; }
        struct conn__conn *conn = BASE_ITEM(link, struct conn__conn, ready);
        send_group(conns, conn, out);
        base_list_remove(&conns->ready, &conn->ready); /* behind the others, if it has more */
        settle(conns, conn, out);
    }
    if (!base_list_is_empty(&conns->ready)) { out->wants_turn = true; }
    CHECK_SLOW(conns->config.is_check_slow, conn_is_sound(conns));
}

void conn__sent(struct conns *conns, uint32_t first_request, const struct port_event *event, struct port_out *out)
{
    struct conn__request *leader = conn__request_at(conns, first_request);
    CHECK(leader->state == CONN__SENDING);
    struct conn__conn *conn =
        conn__at(conns, leader->conn); /* its PORT_CLOSE has not completed: sends complete first */
    CHECK(conn->state == CONN__OPEN || conn->state == CONN__CLOSING);
    CHECK(conn->in_flight >= leader->group_count);
    if (leader->gather != NULL) {
        base_pages_give(conns->pages, leader->gather);
        leader->gather = NULL;
        conns->blocks -= 1;
    }
    conns->bytes_out_total += event->done.count;
    uint32_t count = leader->group_count;
    conn->in_flight -= count;
    conn->sending -= count;
    for (struct conn__request *request = leader; count > 0; count--) {
        uint32_t next = request->next;
        CHECK(request->state == CONN__SENDING);
        push_sent(conns, request);
        CHECK((next == 0) == (count == 1));
        if (next != 0) { request = conn__request_at(conns, next - 1); }
    }
    if (conn->state != CONN__OPEN) { return; }
    if (event->done.rc != PORT_OK) {
        conn__end_as_usual(conns, conn, "an answer could not be sent", out);
        return;
    }
    conn__touch(conns, conn, event->now_ns);
    settle(conns, conn, out);
}
