/* conn.h: the inbound connections of one shard: frames in, answers out in the order of their requests.
 *
 * Room    core/conn. Uses base, port. Knows no Kafka header: a frame is a length of 4 bytes (big-endian) and that many bytes.
 * Owns    the connections, the requests in flight, and the receive blocks (base_pages, BASE_CLIENTS). Answers' bytes and files
 *         are borrowed from conn_answer until CONN_OUT_SENT; the array of pieces is copied.
 * Pull    a call changes the machine and may emit effects; what the broker must know is pulled: conn_poll until it says
 *         false, at the end of each step. All bounded: frames are cut one a poll, connections take turns.
 * Limits  struct conn_config. No call emits more than CONN_EFFECTS_MAX effects, but conn_turn (CONN_TURN_EFFECTS_MAX) and conn_poll
 *         (CONN_POLL_EFFECTS_MAX) looks first whether so many fit, and asks for wants_continue when they don't; both do a
 *         bounded portion, and ask for more in the same way.
 *
 * Memory  while somebody waits for memory, whoever has sent nothing of a begun frame for CONN_HALF_FRAME_NS is closed, the longest
 *         silent first; who waits longer than 30 s is closed too. A frame up to trust_bytes has its whole block at once: with parts
 *         of blocks many could wait for each other.
 *
 * A CONNECTION   ACCEPTING -accepted-> OPEN -peer ended and all answered, conn_close, conn_answer_end at its turn, idle, broken->
 *                CLOSING -closed, GONE pulled-> free
 *                ACCEPTING -failed-> free
 *   While OPEN its receive side is one of: WATCH (RECV of size 0 outstanding, no block), FILL (RECV into its block
 *   outstanding), PARSE (bytes to cut, a poll away), FOR_ANSWERS (in_flight_max reached, or something unread that conn_hold
 *   stops), FOR_REQUESTS and FOR_PAGES (waits in line for a request slot or a block), DONE (stopping).
 * A REQUEST      WAITING -conn_answer-> READY -turn-> SENDING -sent or failed-> SENT -pulled-> free
 *                WAITING -connection gone-> ORPHAN -conn_answer-> SENT;  its frame is released beside that, in any order;
 *                the slot is free when both are done.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONN_CONN_H
#define CONN_CONN_H

#include "base/base.h"
#include "port/port.h"

struct conns;

/* Every token that conn gives to the world has this in its top byte. */
#define CONN_TOKEN_ROOM       ((uint64_t)0x43)
#define CONN_EFFECTS_MAX      32
#define CONN_POLL_EFFECTS_MAX 160
#define CONN_TURN_EFFECTS_MAX 256
#define CONN_LISTENERS_MAX    8
#define CONN_HALF_FRAME_NS    ((uint64_t)1000 * 1000 * 1000)
/* An answer of at most so many pieces always has room: memory, a range of a file, memory. */
#define CONN_PIECES_INLINE    3

struct conn_config {
    uint32_t conn_slot_first;     /* its port_conn ids have slots [conn_slot_first, conn_slot_first + conns_max) */
    uint32_t conns_max;           /* open or being accepted */
    uint32_t listener_slot_first; /* its port_listener ids: + listener index, below CONN_LISTENERS_MAX */
    uint32_t requests_max;        /* of all connections together */
    uint32_t in_flight_max;       /* of one connection: cut but not yet answered and sent */
    uint32_t frame_bytes_max;     /* socket.request.max.bytes */
    uint32_t block_bytes;         /* of a receive block for small frames: 16 KiB */
    uint32_t trust_bytes; /* a longer frame gets its block as its bytes come, doubling; up to this one at once: 2 MiB */
    uint64_t idle_ms;     /* connections.max.idle.ms; 0: never */
    /* While frames not yet released hold so many, no other is admitted; 0: no limit but memory. */
    uint64_t queued_bytes_max;
    bool tells_opened; /* CONN_OUT_OPENED is wanted */
    bool is_check_slow;
};

struct conn_request { /* names one frame until its answer has left and its bytes are released */
    uint32_t slot;
    uint32_t generation; /* 0: none */
};

size_t conn_arena_bytes(const struct conn_config *config);
/* Fails BASE_FULL: the arena is too small. `pages` must live as long. */
MUST_USE
enum base_rc conn_create(struct base_arena *arena, struct base_pages *pages, const struct conn_config *config,
                         struct conns **conns_out);

/* Binds listener `index` (not in use); CONN_OUT_LISTENING says how it went. It accepts from then on. */
void conn_listen(struct conns *conns, uint32_t index, struct port_address address, struct port_out *out);

/* A completion whose token has CONN_TOKEN_ROOM in its top byte. */
void conn_done(struct conns *conns, const struct port_event *event, struct port_out *out);
/* At PORT_EVENT_TURN: each connection's ready answers leave as one send. Asks for another turn when not all fitted. */
void conn_turn(struct conns *conns, struct port_out *out);
/* At an alarm: closes idle connections, and silent ones whose memory others wait for, and accepts again after a failure. Cheap when nothing is due. */
void conn_alarm(struct conns *conns, const struct port_event *event, struct port_out *out);
uint64_t conn_next_alarm_ns(const struct conns *conns);

enum conn_out_kind {
    CONN_OUT_LISTENING = 0, /* listener, address (bound), rc */
    CONN_OUT_OPENED,        /* conn, conn_index, listener, address (peer); before all that comes of it */
    CONN_OUT_REQUEST,       /* request, conn, conn_index, listener, address (peer), frame, frame_bytes */
    CONN_OUT_SENT,          /* cookie: that answer has left or died; its bytes and leases may go */
    CONN_OUT_ENDED, /* conn, conn_index: the peer sends no more; its requests in flight are answered, then it closes */
    CONN_OUT_GONE, /* conn, conn_index: no request of it comes any more; its requests in flight may still be answered */
    CONN_OUT_STOPPED, /* after conn_stop: no connection and no listener is left */
};
struct conn_out {
    enum conn_out_kind kind;
    enum port_rc rc;
    struct conn_request request;
    struct port_conn conn;
    uint32_t conn_index; /* below conns_max: for tables of the broker's own; free again after GONE */
    uint32_t listener;
    struct port_address address;
    uint8_t *frame; /* after the length; may be written; valid until conn_release_frame */
    uint32_t frame_bytes;
    uint64_t cookie;
};
/* The next thing to know. Also moves the receive side on: call it until it says false. */
MUST_USE
bool conn_poll(struct conns *conns, uint64_t now_ns, struct port_out *out, struct conn_out *item_out);

/* Answers a request once: with pieces (the first four bytes of them are the length of the rest), or with nothing (acks=0).
 * Leaves at the next turn, after the answers of earlier requests of that connection. To a connection that is gone it is a
 * no-op; CONN_OUT_SENT comes in every case, later (not for conn_answer_none).
 * Fails BASE_FULL: no memory for that many pieces, nothing has changed. Never with at most CONN_PIECES_INLINE. */
MUST_USE
enum base_rc conn_answer(struct conns *conns, struct conn_request request, const struct port_piece *pieces,
                         uint32_t piece_count, uint64_t cookie, struct port_out *out);
void conn_answer_none(struct conns *conns, struct conn_request request, struct port_out *out);
/* Answers with the end of the connection, at its turn: what is before it leaves first, what is behind it dies, no more is cut. */
void conn_answer_end(struct conns *conns, struct conn_request request, struct port_out *out);
/* The frame's bytes are no longer needed. Once a request, before or after its answer; also for an orphan. */
void conn_release_frame(struct conns *conns, struct conn_request request);

/* No more is cut of the request's connection before it has its answer, but frames that begin with the two bytes `but`, big-endian; where
 * several requests hold it, but what all of them say. To a connection that is gone it is a no-op. */
#define CONN_BUT_NOTHING UINT32_MAX
void conn_hold(struct conns *conns, struct conn_request request, uint32_t but);

/* True until the connection is closing: an answer may still reach it. */
bool conn_is_open(const struct conns *conns, struct port_conn conn);
/* The peer sends no more, or it is gone: nobody should be made to wait for its sake. */
bool conn_has_ended(const struct conns *conns, struct port_conn conn);
/* Closes now. Answers not sent die. A no-op for a connection that is gone. */
void conn_close(struct conns *conns, struct port_conn conn, struct port_out *out);

/* Stops accepting and receiving; answers in flight leave; then everything closes, and CONN_OUT_STOPPED comes. */
enum conn_stop_how { CONN_STOP_CLEAN = 0, CONN_STOP_NOW }; /* NOW: answers in flight die; may follow CLEAN */
void conn_stop(struct conns *conns, enum conn_stop_how how, struct port_out *out);

struct conn_view {
    uint32_t connections; /* open */
    uint32_t requests;    /* slots in use */
    uint32_t blocks;      /* base_pages blocks held */
    uint32_t waiting_for_pages;
    uint32_t waiting_for_requests;
    uint64_t queued_bytes; /* of frames admitted and not yet released */
    uint64_t accepted_total;
    uint64_t closed_total;
    uint64_t bytes_in_total;
    uint64_t bytes_out_total;
};
void conn_view(const struct conns *conns, struct conn_view *view_out);
/* No request, block, answer or out is held; connections may be open and idle. */
bool conn_is_quiet(const struct conns *conns);
/* Every invariant of the room; the tests ask after each step. */
bool conn_is_sound(const struct conns *conns);

#endif
