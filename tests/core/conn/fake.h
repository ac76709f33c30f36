/* fake.h: peers, a network and a broker's hand for the tests of conn: just enough of port.h's contract, and it checks it.
 *
 * Room    tests/core/conn.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONN_FAKE_H
#define CONN_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conn/conn.h"

#define PEERS_MAX    64
#define PENDING_MAX  512
#define OUTS_MAX     20000
#define STREAM_BYTES 300000

struct peer {
    bool is_used;
    bool is_accepted;
    bool is_closed; /* by us: PORT_CLOSE has completed */
    bool is_ended;  /* by the peer, after its bytes */
    bool is_reset;
    bool is_deaf; /* reads nothing: sends don't complete */
    uint32_t generation;
    uint32_t slot;
    uint8_t *stream; /* what it sends */
    size_t stream_bytes;
    size_t taken_bytes;
    uint8_t *heard; /* what reached it */
    size_t heard_bytes;
    uint32_t sends;         /* PORT_SENDs that reached it */
    size_t recv_bytes_most; /* the largest receive asked for */
};

struct held { /* a request that the test has not answered */
    struct conn_request request;
    struct port_conn conn;
    uint8_t *frame;
    uint32_t frame_bytes;
};

struct fake {
    void **owned; /* a chain of what fake_end frees */
    struct conns *conns;
    struct base_pages *pages;
    struct port_out out;
    struct port_effect effects[PORT_EFFECTS_MAX];
    struct port_message messages[4];
    char text[PORT_TEXT_BYTES];
    char log[4096]; /* every log line */
    struct port_effect pending[PENDING_MAX];
    uint32_t pending_count;
    struct peer peers[PEERS_MAX];
    uint32_t dialled; /* peers waiting to be accepted are those not accepted, in order */
    enum port_rc accept_rc;
    size_t chunk_bytes; /* at most so many bytes a receive */
    uint64_t now_ns;
    struct conn_out outs[OUTS_MAX];
    uint32_t outs_count;
    uint32_t max_polls_a_step; /* 0: until false */
    bool is_busy;              /* the broker's hand does not poll */
    char trace[8192];          /* effects and outs, one a line, when is_tracing */
    bool is_tracing;
    uint32_t effects_room; /* of each step; 0: all */
    uint32_t holds_but;    /* what may be cut meanwhile: as conn_hold has it */
    char holds_below;      /* whose first letter is below it holds its connection until it is answered; 0: none */
};

struct fake *given_fake(const struct conn_config *config, size_t pages_bytes);
void fake_end(struct fake *fake);
struct conn_config usual_config(void);
void fake_listen(struct fake *fake);
/* A peer dials; it is accepted at the next run. */
uint32_t fake_dial(struct fake *fake);
void peer_sends(struct fake *fake, uint32_t peer, const void *bytes, size_t size_bytes);
void peer_sends_frame(struct fake *fake, uint32_t peer, const char *words);
/* Carries out what can be carried out until nothing moves. */
void fake_run(struct fake *fake);
void fake_alarm(struct fake *fake, uint64_t now_ns);
/* Ends the step that a call outside fake_run was part of. */
void fake_collect(struct fake *fake);
/* The outs of that kind so far. */
uint32_t fake_count(const struct fake *fake, enum conn_out_kind kind);
const struct conn_out *fake_out(const struct fake *fake, enum conn_out_kind kind, uint32_t number);
/* Answers with "=" and the frame's own bytes, framed; releases the frame. The bytes stand in a static place. */
void fake_echo(struct fake *fake, const struct conn_out *request);

#endif
