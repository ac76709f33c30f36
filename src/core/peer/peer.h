/* peer.h: outbound connections: dial, back off, frame, correlate, bound what is in flight.
 *
 * Room    core/peer. Uses base, port and wire/kafka (frame headers only: it knows no API).
 * Owns    every connection it opens, and blocks of `pages` that requests and answers lie in. The pages themselves are the
 *         caller's, shared with it: a request's block moves in with peer_request, an answer's may be taken out.
 * Tokens  its effects have tokens of config.token_tag in the upper 16 bits; peers_owns tells them from others.
 * Ids     connection slots config.conn_slot_first .. + peers_max - 1 of the shard are its own.
 * Time    absolute monotonic nanoseconds, out of the event.
 * Effects a peers_step emits at most 2, a peers_poll at most PEER_POLL_EFFECTS, a peer_request 1.
 *
 * THE MOVES OF A PEER (move_to in peer.c)
 *
 *     FREE -peer_open-> WAITING -deadline-> RESOLVING -address-> CONNECTING -connected-> UP
 *     RESOLVING, CONNECTING -failed-> WAITING (back-off, doubled each time, with jitter)
 *     UP -end, error, timeout, bad frame-> CLOSING -closed-> WAITING
 *     any -peer_close-> its end is FREE, by way of CLOSING where there is a connection
 *
 * A peer that is open reconnects for ever; the caller decides when to give up. Requests are taken only in UP. Each request gets
 * exactly one PEER_ANSWERED, PEER_SENT (when no answer was expected) or PEER_LOST; PEER_LOST says nothing about what the other
 * side did with it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PEER_PEER_H
#define PEER_PEER_H

#include "base/base.h"
#include "port/port.h"

#define PEER_HOST_MAX     255
#define PEER_FRAME_MIN    4096 /* frames up to PEER_READ_BYTES share a buffer, larger ones have a block of their own */
#define PEER_READ_BYTES   16384
#define PEER_POLL_EFFECTS 2
#define PEER_TOKEN_SHIFT  48

struct peers;
struct peer_id {
    uint32_t slot;
    uint32_t generation; /* 0: none */
};

struct peers_config {
    uint32_t peers_max;
    uint32_t in_flight_max; /* requests of one connection */
    uint32_t conn_slot_first;
    uint16_t token_tag;          /* not 0 */
    uint32_t frame_bytes_max;    /* of an answer; a longer one fails the connection */
    uint64_t connect_timeout_ns; /* of one try */
    uint64_t backoff_ns;         /* after the first failure */
    uint64_t backoff_max_ns;
    uint64_t seed;
    enum base_class class; /* what its buffers are taken as */
};

size_t peers_arena_bytes(const struct peers_config *config);
/* Lives as long as the arena and `pages`.
 * Fails   BASE_FULL: the arena is too small. */
MUST_USE
enum base_rc peers_create(struct base_arena *arena, const struct peers_config *config, struct base_pages *pages,
                          struct peers **peers_out);

/* Begins to dial at the next step or poll with an `out`; `host` is copied.
 * Fails   BASE_FULL: peers_max are open. BASE_BAD: the name is empty or longer than PEER_HOST_MAX. */
MUST_USE
enum base_rc peer_open(struct peers *peers, struct base_slice host, uint16_t port, uint64_t now_ns,
                       struct peer_id *id_out);
/* Unanswered requests become PEER_LOST; then nothing of this id comes any more. */
void peer_close(struct peers *peers, struct peer_id id);
/* Ends the connection, as after a bad answer; it is dialled again. Unanswered requests become PEER_LOST. */
void peer_reset(struct peers *peers, struct peer_id id);

enum peer_state { PEER_FREE = 0, PEER_WAITING, PEER_RESOLVING, PEER_CONNECTING, PEER_UP, PEER_CLOSING };
enum peer_state peer_state(const struct peers *peers, struct peer_id id);
/* How many requests may be given now: 0 unless UP. */
uint32_t peer_room(const struct peers *peers, struct peer_id id);
uint32_t peer_in_flight(const struct peers *peers, struct peer_id id);

struct peer_request {
    uint64_t word;        /* the caller's; comes back */
    uint8_t *block;       /* of `pages`; moves in, is given back when it has left */
    uint32_t frame_bytes; /* the frame at the start of block, size field included; its correlation id is filled in */
    bool is_unanswered;   /* no answer will come (acks=0) */
    uint64_t deadline_ns; /* then the connection is given up, with all that is in flight on it */
};
/* Needs   peer_room > 0 and port_out_room(out) > 0. */
void peer_request(struct peers *peers, struct peer_id id, const struct peer_request *request, struct port_out *out);

static inline bool peers_owns(uint16_t token_tag, uint64_t token) { return token >> PEER_TOKEN_SHIFT == token_tag; }
/* Takes an event: a completion of its own, an alarm, or any other (then only deadlines are looked at). */
void peers_step(struct peers *peers, const struct port_event *event, struct port_out *out);

enum peer_event_kind {
    PEER_CONNECTED = 0, /* requests may be given */
    PEER_ANSWERED,      /* word, frame */
    PEER_SENT,          /* word: left, and no answer was expected */
    PEER_LOST,          /* word, rc */
    PEER_FAILED,        /* rc: the connection, or a try to make one, is gone; after all PEER_LOST of it */
};
struct peer_event {
    enum peer_event_kind kind;
    struct peer_id id;
    uint64_t word;
    enum port_rc rc;
    struct base_slice frame; /* without its four bytes of size; borrowed until the next peers_poll or peers_step */
};
/* The next thing that happened; false: nothing more now. To be called until false, after each step; at most `now`'s work.
 * Needs   port_out_room(out) >= PEER_POLL_EFFECTS. */
MUST_USE
bool peers_poll(struct peers *peers, uint64_t now_ns, struct port_out *out, struct peer_event *event_out);
/* After PEER_ANSWERED: takes the block that the frame lies in, when it has one of its own; it is the caller's then, to be given
 * back to the pages. NULL: the frame shares its buffer, copy what must stay. */
MUST_USE
void *peers_take_frame(struct peers *peers);

/* Sets the alarm for the earliest deadline. To be called at the end of every step of the shard. */
void peers_alarm(const struct peers *peers, struct port_out *out);
/* No connection, no effect outstanding, no block taken. */
bool peers_is_quiet(const struct peers *peers);

#endif
