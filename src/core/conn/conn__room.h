/* conn__room.h: what conn.c (listeners, life and death), conn_receive.c and conn_answer.c share.
 *
 * Room    core/conn, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONN_CONN__ROOM_H
#define CONN_CONN__ROOM_H

#include "conn/conn.h"

enum conn__op { /* of a token: bits 48 to 55 */
                CONN__LISTEN = 1,
                CONN__UNLISTEN,
                CONN__ACCEPT, /* value: the listener's index */
                CONN__WATCH,  /* value: the connection's index */
                CONN__FILL,
                CONN__CLOSE,
                CONN__SEND, /* value: the first request of the group */
};

enum conn__state { CONN__FREE = 0, CONN__ACCEPTING, CONN__OPEN, CONN__CLOSING };

/* The receive side of an open connection. In PARSE and in the FOR_* it is on the list of that name, but for FOR_ANSWERS. */
enum conn__side {
    CONN__SIDE_WATCH = 0,
    CONN__SIDE_FILL,
    CONN__SIDE_PARSE,
    CONN__SIDE_FOR_ANSWERS,
    CONN__SIDE_FOR_REQUESTS,
    CONN__SIDE_FOR_PAGES,
    CONN__SIDE_DONE,
};

/* Stands at the start of a receive block. `holders`: the connection while it receives into it, and each frame in it. */
struct conn__block {
    uint32_t holders;
    uint32_t room_bytes; /* after this head */
    uint64_t reserved;
};
_Static_assert(sizeof(struct conn__block) == 16, "frames stand right behind it");

struct conn__conn {
    struct base_link age;   /* on `ages` while open, by last_ns */
    struct base_link line;  /* on `to_parse`, `for_requests`, `for_pages` by side; on `gone` when closing */
    struct base_link ready; /* on `ready` when its oldest request has an answer */
    struct base_link half;  /* on `halves` while the host fills its block */
    struct base_link ended; /* on `ended` until CONN_OUT_ENDED is pulled */
    struct base_link fresh; /* on `fresh` until CONN_OUT_OPENED is pulled, where that is wanted */
    struct conn__block *block;
    uint64_t last_ns; /* when bytes came or left */
    uint64_t fill_ns; /* since when the host fills its block */
    uint32_t start;   /* of what is in the block but not cut yet */
    uint32_t end;
    uint32_t admitted_bytes; /* of the frame at `start`, once it counts in queued_bytes; 0: not yet */
    uint32_t first;          /* requests in order of arrival, not yet sending: index + 1 */
    uint32_t last;
    uint32_t in_flight; /* those, and the ones being sent */
    uint32_t sending;   /* the ones being sent */
    uint32_t holding;   /* those without an answer that hold it: conn_hold */
    uint32_t but;       /* nothing is cut meanwhile but what begins so */
    uint32_t generation;
    struct port_address peer;
    uint8_t state;
    uint8_t side;
    uint8_t listener;
    bool is_readable;  /* WATCH has said so, and no block was at hand yet */
    bool is_ending;    /* closes once in_flight is 0 */
    bool has_ended;    /* the peer sends no more */
    bool is_told_gone; /* closing: CONN_OUT_GONE was pulled */
    bool is_closed;    /* closing: PORT_CLOSE has completed */
};

enum conn__request_state {
    CONN__WAITING = 0,
    CONN__ORPHAN, /* WAITING, but its connection is gone */
    CONN__READY,
    CONN__SENDING,
    CONN__SENT,     /* on the list of what is to be told */
    CONN__FINISHED, /* only its frame is still held */
};

struct conn__request {
    struct conn__block *block; /* of its frame; NULL: released */
    uint64_t cookie;
    struct port_piece *pieces; /* of its answer: `inline_pieces`, or a block of its own */
    struct port_piece *gather; /* of the group it leads: a block, or NULL */
    uint32_t piece_count;
    uint32_t conn; /* index; none for an orphan */
    uint32_t next; /* index + 1: of its connection, its group, or the list of what is to be told */
    uint32_t generation;
    uint32_t group_count; /* of the group it leads */
    uint32_t frame_bytes; /* what it counts in queued_bytes until its frame is released */
    uint8_t state;
    bool is_holding; /* conn_hold */
    bool is_none;    /* an answer of no bytes */
    bool is_end;     /* none, and at its turn the connection ends */
    struct port_piece inline_pieces[CONN_PIECES_INLINE];
};

enum conn__listener_state { CONN__OFF = 0, CONN__BINDING, CONN__LISTENING, CONN__UNLISTENING };
struct conn__listener {
    enum conn__listener_state state;
    uint32_t generation;
    bool has_accept;
    bool has_news; /* LISTENING is to be told */
    enum port_rc rc;
    struct port_address address;
    uint64_t retry_ns; /* accepts again at; 0: now */
};

struct conns {
    struct conn_config config;
    struct base_pages *pages;
    struct base_pool conns;
    struct base_pool requests;
    uint32_t *conn_generations; /* of the last use of each slot */
    uint32_t *request_generations;
    struct conn__listener listeners[CONN_LISTENERS_MAX];
    uint32_t news_count;    /* of listeners */
    uint32_t next_listener; /* whose turn it is to take a free slot */
    struct base_list ages;
    struct base_list to_parse;
    struct base_list for_requests;
    struct base_list for_pages;
    struct base_list ready;
    struct base_list gone;
    struct base_list fresh;
    struct base_list ended;
    struct base_list halves; /* by fill_ns */
    uint32_t sent_first;     /* requests whose end is to be told: index + 1 */
    uint32_t sent_last;
    uint32_t effects_outstanding;
    uint32_t blocks;
    uint64_t queued_bytes;
    uint32_t stop_next; /* while stopping: slots from here on have not been told yet */
    bool is_stopping;
    bool is_stopping_now;
    bool is_stop_told;
    uint64_t accepted_total;
    uint64_t closed_total;
    uint64_t bytes_in_total;
    uint64_t bytes_out_total;
};

/* conn.c */
struct port_effect *conn__emit(struct conns *conns, struct port_out *out, enum port_effect_kind kind, enum conn__op op,
                               uint32_t value);
struct port_conn conn__id(const struct conns *conns, const struct conn__conn *conn);
struct conn__conn *conn__at(const struct conns *conns, uint32_t index);
struct conn__request *conn__request_at(const struct conns *conns, uint32_t index);
uint32_t conn__index(const struct conns *conns, const struct conn__conn *conn);
void conn__touch(struct conns *conns, struct conn__conn *conn, uint64_t now_ns);
/* What is counted in `bytes` is not queued any longer. */
void conn__unqueue(struct conns *conns, uint32_t *bytes);
/* OPEN -> CLOSING: one PORT_CLOSE. `why`: for the log line; one that ends as connections do is told at PORT_DEBUG. */
void conn__end(struct conns *conns, struct conn__conn *conn, const char *why, struct port_out *out);
void conn__end_as_usual(struct conns *conns, struct conn__conn *conn, const char *why, struct port_out *out);
/* No more receiving; closes now if nothing is in flight. */
void conn__drain(struct conns *conns, struct conn__conn *conn, struct port_out *out);
void conn__end_if_drained(struct conns *conns, struct conn__conn *conn, struct port_out *out);

/* conn_receive.c */
void conn__watch(struct conns *conns, struct conn__conn *conn, struct port_out *out);
void conn__received(struct conns *conns, struct conn__conn *conn, const struct port_event *event, struct port_out *out);
void conn__watched(struct conns *conns, struct conn__conn *conn, const struct port_event *event, struct port_out *out);
/* One frame cut, or one connection moved on. True: there may be more to do; item_out is set when `is_item_out`. */
bool conn__receive_some(struct conns *conns, uint64_t now_ns, struct port_out *out, struct conn_out *item_out,
                        bool *is_item_out);
void conn__drop_block(struct conns *conns, struct conn__block *block);
void conn__leave_block(struct conns *conns, struct conn__conn *conn);
void conn__to_parse(struct conns *conns, struct conn__conn *conn);
/* What is next of it may not be cut before others have their answers. */
bool conn__is_held(const struct conn__conn *conn);
/* Off whichever list its side put it on. */
void conn__leave_line(struct conns *conns, struct conn__conn *conn);

/* conn_answer.c */
bool conn__has_ready(const struct conns *conns, const struct conn__conn *conn); /* an answer that may leave */
void conn__sent(struct conns *conns, uint32_t first_request, const struct port_event *event, struct port_out *out);
/* Its requests have nobody to go to any more. */
void conn__orphan_requests(struct conns *conns, struct conn__conn *conn);
bool conn__tell_sent(struct conns *conns, struct conn_out *item_out);

#endif
