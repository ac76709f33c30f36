/* conn_receive.c: bytes come in, frames are cut in place.
 *
 * Room    core/conn.
 * Blocks  an idle connection has none. When bytes are there it gets a small one; several frames may stand in it, each holding it
 *         until released. A frame that needs more gets a block of its own size, so that the rest of it is received where it stays;
 *         beyond trust_bytes the block doubles with the bytes that have really come, because a length is only a claim.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "conn/conn__room.h"

#define HEAD_BYTES ((uint32_t)sizeof(struct conn__block))
#define SIZE_BYTES 4u /* the length before a frame */

static uint8_t *bytes_of(struct conn__block *block) { return (uint8_t *)block + HEAD_BYTES; }

static struct conn__block *take_block(struct conns *conns, uint32_t room_bytes)
{
    struct conn__block *block = base_pages_take(conns->pages, BASE_CLIENTS, (size_t)room_bytes + HEAD_BYTES);
    if (block == NULL) { return NULL; }
    *block = (struct conn__block){.holders = 1, .room_bytes = room_bytes};
    conns->blocks += 1;
    return block;
}

void conn__drop_block(struct conns *conns, struct conn__block *block)
{
    CHECK(block->holders > 0);
    block->holders -= 1;
    if (block->holders > 0) { return; }
    CHECK(conns->blocks > 0);
    conns->blocks -= 1;
    base_pages_give(conns->pages, block);
}

void conn__leave_block(struct conns *conns, struct conn__conn *conn)
{
    struct conn__block *block = conn->block;
    if (block == NULL) { return; }
    conn->block = NULL;
    /* What nobody received into goes back now: a parked request must not hold a whole block. */
    if (block->holders > 1) {
        uint32_t used_bytes = conn->end == 0 ? 1 : conn->end;
        base_pages_shrink(conns->pages, block, (size_t)used_bytes + HEAD_BYTES);
        block->room_bytes = used_bytes;
    }
    conn->start = 0;
    conn->end = 0;
    conn__drop_block(conns, block);
}

/* Gives back now what nobody received into; nobody points into the block yet, so it may move. */
static void squeeze(struct conns *conns, struct conn__conn *conn)
{
    conn->block = base_pages_squeeze(conns->pages, conn->block, (size_t)conn->end + HEAD_BYTES);
    conn->block->room_bytes = conn->end;
}

/* ---- sides -------------------------------------------------------------------------------------------------------- */

void conn__leave_line(struct conns *conns, struct conn__conn *conn)
{
    switch ((enum conn__side)conn->side) {
    case CONN__SIDE_PARSE: base_list_remove(&conns->to_parse, &conn->line); break;
    case CONN__SIDE_FOR_REQUESTS: base_list_remove(&conns->for_requests, &conn->line); break;
    case CONN__SIDE_FOR_PAGES: base_list_remove(&conns->for_pages, &conn->line); break;
    case CONN__SIDE_WATCH:
    case CONN__SIDE_FILL:
    case CONN__SIDE_FOR_ANSWERS:
    case CONN__SIDE_DONE: break;
    }
    CHECK(!base_link_is_on(&conn->line));
}

void conn__to_parse(struct conns *conns, struct conn__conn *conn)
{
    CHECK(conn->state == CONN__OPEN);
    conn__leave_line(conns, conn);
    conn->side = CONN__SIDE_PARSE;
    base_list_push_back(&conns->to_parse, &conn->line);
}

static void stand_in_line(struct conns *conns, struct conn__conn *conn, enum conn__side side)
{
    conn__leave_line(conns, conn);
    conn->side = (uint8_t)side;
    base_list_push_back(side == CONN__SIDE_FOR_PAGES ? &conns->for_pages : &conns->for_requests, &conn->line);
}

void conn__watch(struct conns *conns, struct conn__conn *conn, struct port_out *out)
{
    CHECK(conn->block == NULL);
    conn__leave_line(conns, conn);
    conn->side = CONN__SIDE_WATCH;
    struct port_effect *effect = conn__emit(conns, out, PORT_RECV, CONN__WATCH, conn__index(conns, conn));
    effect->conn = conn__id(conns, conn);
}

static void fill(struct conns *conns, struct conn__conn *conn, uint64_t now_ns, struct port_out *out)
{
    CHECK(conn->block != NULL);
    CHECK(conn->end < conn->block->room_bytes);
    conn__leave_line(conns, conn);
    conn->side = CONN__SIDE_FILL;
    conn->fill_ns = now_ns;
    base_list_push_back(&conns->halves, &conn->half);
    struct port_effect *effect = conn__emit(conns, out, PORT_RECV, CONN__FILL, conn__index(conns, conn));
    effect->conn = conn__id(conns, conn);
    effect->buffer = bytes_of(conn->block) + conn->end;
    effect->size_bytes = conn->block->room_bytes - conn->end;
}

/* A receive has ended; false: nothing more comes of it. */
static bool goes_on(struct conns *conns, struct conn__conn *conn, const struct port_event *event, struct port_out *out)
{
    if (conn->state != CONN__OPEN) { /* closed while the host had the block */
        conn__leave_block(conns, conn);
        return false;
    }
    if (event->done.rc != PORT_OK) {
        conn->side = CONN__SIDE_DONE;
        if (event->done.rc != PORT_EOF || conn->in_flight == 0) {
            conn__end_as_usual(conns, conn, event->done.rc == PORT_EOF ? "by the client" : "it broke", out);
            return false;
        }
        conn->has_ended = true; /* as in Kafka, who sends no more may still be waiting for answers */
        base_list_push_back(&conns->ended, &conn->ended);
        conn__drain(conns, conn, out);
        return false;
    }
    if (conn->is_ending) {
        conn->side = CONN__SIDE_DONE;
        conn__drain(conns, conn, out); /* the rest of it, now that the host has nothing of it */
        return false;
    }
    conn__touch(conns, conn, event->now_ns);
    return true;
}

void conn__watched(struct conns *conns, struct conn__conn *conn, const struct port_event *event, struct port_out *out)
{
    CHECK(conn->side == CONN__SIDE_WATCH);
    if (!goes_on(conns, conn, event, out)) { return; }
    conn->is_readable = true;
    conn__to_parse(conns, conn);
}

void conn__received(struct conns *conns, struct conn__conn *conn, const struct port_event *event, struct port_out *out)
{
    CHECK(conn->side == CONN__SIDE_FILL);
    if (base_link_is_on(&conn->half)) { base_list_remove(&conns->halves, &conn->half); }
    if (!goes_on(conns, conn, event, out)) { return; }
    CHECK(event->done.count > 0);
    CHECK(event->done.count <= conn->block->room_bytes - conn->end);
    conn->end += (uint32_t)event->done.count;
    conns->bytes_in_total += event->done.count;
    conn__to_parse(conns, conn);
}

/* ---- cutting ------------------------------------------------------------------------------------------------------ */

/* How much room the frame at `start` deserves now; total: length included, SIZE_BYTES while it is unknown. */
static uint32_t room_deserved(const struct conns *conns, const struct conn__conn *conn, uint32_t total_bytes)
{
    uint32_t have_bytes = conn->end - conn->start;
    uint32_t most_bytes = conns->config.trust_bytes;
    if (have_bytes > most_bytes / 2) { most_bytes = have_bytes > UINT32_MAX / 2 ? UINT32_MAX : 2 * have_bytes; }
    uint32_t room_bytes = total_bytes < most_bytes ? total_bytes : most_bytes;
    uint32_t small_bytes = conns->config.block_bytes - HEAD_BYTES;
    return room_bytes < small_bytes ? small_bytes : room_bytes;
}

/* Makes room for more of a frame that is not whole. Emits the receive, or stands in line for memory. */
static void receive_more(struct conns *conns, struct conn__conn *conn, uint32_t total_bytes, bool may_take,
                         uint64_t now_ns, struct port_out *out)
{
    struct conn__block *block = conn->block;
    uint32_t have_bytes = conn->end - conn->start;
    bool fits = block != NULL && total_bytes <= block->room_bytes - conn->start;
    bool is_growing = block != NULL && conn->start == 0 && block->room_bytes >= conns->config.block_bytes &&
                      conn->end < block->room_bytes; /* a claim that is being proved */
    if (fits || is_growing) {
        fill(conns, conn, now_ns, out);
        return;
    }
    if (block != NULL && block->holders == 1 &&
        total_bytes <= block->room_bytes) { /* nobody else is in it: move down */
        memmove(bytes_of(block), bytes_of(block) + conn->start, have_bytes);
        conn->start = 0;
        conn->end = have_bytes;
        fill(conns, conn, now_ns, out);
        return;
    }
    struct conn__block *larger = may_take ? take_block(conns, room_deserved(conns, conn, total_bytes)) : NULL;
    if (larger == NULL) {
        stand_in_line(conns, conn, CONN__SIDE_FOR_PAGES);
        return;
    }
    if (have_bytes > 0) { memcpy(bytes_of(larger), bytes_of(block) + conn->start, have_bytes); }
    conn__leave_block(conns, conn);
    conn->block = larger;
    conn->start = 0;
    conn->end = have_bytes;
    conn->is_readable = false;
    fill(conns, conn, now_ns, out);
}

static void issue_request(struct conns *conns, struct conn__conn *conn, uint32_t frame_bytes, struct conn_out *item_out)
{
    uint32_t index = base_pool_take(&conns->requests);
    CHECK(index != BASE_POOL_NONE); /* the caller has looked */
    struct conn__request *request = conn__request_at(conns, index);
    conns->request_generations[index] += 1;
    if (conns->request_generations[index] == 0) { conns->request_generations[index] = 1; }
    request->generation = conns->request_generations[index];
    request->conn = conn__index(conns, conn);
    bool is_alone = conn->block->holders == 1 && conn->end - conn->start == SIZE_BYTES + frame_bytes;
    if (is_alone) { squeeze(conns, conn); } /* nothing more is received into it: see conn__leave_block */
    request->block = conn->block;
    request->frame_bytes = conn->admitted_bytes;
    conn->admitted_bytes = 0;
    conn->block->holders += 1;
    if (conn->last == 0) {
        conn->first = index + 1;
    } else {
        conn__request_at(conns, conn->last - 1)->next = index + 1;
    }
    conn->last = index + 1;
    conn->in_flight += 1;
    *item_out = (struct conn_out){.kind = CONN_OUT_REQUEST,
                                  .request = {.slot = index, .generation = request->generation},
                                  .conn = conn__id(conns, conn),
                                  .conn_index = request->conn,
                                  .listener = conn->listener,
                                  .address = conn->peer,
                                  .frame = bytes_of(conn->block) + conn->start + SIZE_BYTES,
                                  .frame_bytes = frame_bytes};
    conn->start += SIZE_BYTES + frame_bytes;
    if (conn->start == conn->end) { conn__leave_block(conns, conn); }
    conn__to_parse(conns, conn); /* behind the others: connections take turns */
}

/* As Kafka's memory pool for requests: a frame is let in whole while others leave anything at all of the limit, in turn. */
static bool is_admitted(struct conns *conns, struct conn__conn *conn, uint32_t frame_bytes, bool is_its_turn)
{
    if (conn->admitted_bytes > 0) { return true; }
    uint64_t most_bytes = conns->config.queued_bytes_max;
    if (most_bytes > 0 && (!is_its_turn || conns->queued_bytes >= most_bytes)) { return false; }
    conn->admitted_bytes = frame_bytes;
    conns->queued_bytes += frame_bytes;
    return true;
}

/* With nothing unread it is not: the end of who waits for its answer is seen by receiving alone. */
bool conn__is_held(const struct conn__conn *conn)
{
    uint32_t have_bytes = conn->end - conn->start;
    if (conn->holding == 0 || have_bytes == 0) { return false; }
    if (conn->but == CONN_BUT_NOTHING) { return true; }
    if (have_bytes < SIZE_BYTES + 2) { return false; }
    return base_get_u16(bytes_of(conn->block) + conn->start + SIZE_BYTES) != conn->but;
}

/* Moves one connection on by one thing. True: it was a frame. */
static bool cut(struct conns *conns, struct conn__conn *conn, bool may_take_request, bool may_take_pages,
                uint64_t now_ns, struct port_out *out, struct conn_out *item_out)
{
    uint32_t have_bytes = conn->end - conn->start;
    if (conn->in_flight >= conns->config.in_flight_max) {
        conn__leave_line(conns, conn);
        conn->side = CONN__SIDE_FOR_ANSWERS;
        return false;
    }
    if (have_bytes == 0 && !conn->is_readable) {
        conn__leave_block(conns, conn);
        conn__watch(conns, conn, out);
        return false;
    }
    if (conn__is_held(conn)) {
        conn__leave_line(conns, conn);
        conn->side = CONN__SIDE_FOR_ANSWERS;
        return false;
    }
    if (have_bytes < SIZE_BYTES) {
        receive_more(conns, conn, SIZE_BYTES, may_take_pages, now_ns, out);
        return false;
    }
    uint32_t frame_bytes = base_get_u32(bytes_of(conn->block) + conn->start);
    if (frame_bytes == 0 || frame_bytes > conns->config.frame_bytes_max) { /* a negative length is a large one here */
        conn__end(conns, conn, frame_bytes == 0 ? "it sent an empty frame" : "it sent a frame longer than allowed",
                  out);
        return false;
    }
    if (!is_admitted(conns, conn, frame_bytes, may_take_pages)) {
        stand_in_line(conns, conn, CONN__SIDE_FOR_PAGES);
        return false;
    }
    if (have_bytes - SIZE_BYTES < frame_bytes) {
        receive_more(conns, conn, SIZE_BYTES + frame_bytes, may_take_pages, now_ns, out);
        return false;
    }
    if (!may_take_request) {
        stand_in_line(conns, conn, CONN__SIDE_FOR_REQUESTS);
        return false;
    }
    issue_request(conns, conn, frame_bytes, item_out);
    return true;
}

/* Those who stand in line go before those who just came, so that nobody is overtaken for ever. */
bool conn__receive_some(struct conns *conns, uint64_t now_ns, struct port_out *out, struct conn_out *item_out,
                        bool *is_item_out)
{
    bool has_request = conns->requests.taken_count < conns->requests.slots_max;
    struct base_link *link = base_list_first(&conns->for_requests);
    if (has_request && link != NULL) {
        *is_item_out = cut(conns, BASE_ITEM(link, struct conn__conn, line), true, true, now_ns, out, item_out);
        return true;
    }
    link = base_list_first(&conns->to_parse);
    if (link != NULL) {
        CHECK(!has_request || base_list_is_empty(&conns->for_requests)); /* those in line have been before */
        bool has_pages = base_list_is_empty(&conns->for_pages);
        *is_item_out =
            cut(conns, BASE_ITEM(link, struct conn__conn, line), has_request, has_pages, now_ns, out, item_out);
        return true;
    }
    link = base_list_first(&conns->for_pages);
    if (link == NULL) { return false; }
    struct conn__conn *conn = BASE_ITEM(link, struct conn__conn, line);
    *is_item_out = cut(conns, conn, has_request, true, now_ns, out, item_out);
    if (*is_item_out || conn->state != CONN__OPEN || conn->side != CONN__SIDE_FOR_PAGES) { return true; }
    /* Still no memory: the first stays the first, and is tried again when a later step asks. */
    base_list_remove(&conns->for_pages, &conn->line);
    base_list_push_front(&conns->for_pages, &conn->line);
    return false;
}
