/* rude.c: see actor.h. Speaks no Kafka, or half of it: garbage, half frames, huge lengths, connections opened and dropped.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "actor__parts.h"

enum token { TOKEN_CONNECT = 1, TOKEN_SEND, TOKEN_RECV, TOKEN_CLOSE };

static uint32_t draw_bytes(struct actor *actor)
{
    struct rude *rude = &actor->rude;
    uint32_t size_bytes = 1 + actor__below(actor, RUDE_BYTES / 2);
    base_prng_fill(&actor->prng, rude->bytes, size_bytes);
    switch (actor__below(actor, 6)) {
    case 0: break;                                                                         /* garbage */
    case 1: base_put_u32(rude->bytes, UINT32_MAX); return size_bytes < 4 ? 4 : size_bytes; /* a negative length */
    case 2: base_put_u32(rude->bytes, 0x7fffffff); return size_bytes < 4 ? 4 : size_bytes; /* a huge one */
    case 3:
        base_put_u32(rude->bytes, 100000);
        return size_bytes < 4 ? 4 : size_bytes; /* most of the frame never comes */
    case 4:                                     /* a header of an api that exists, and garbage after it */
        base_put_u32(rude->bytes, 60);
        base_put_u16(rude->bytes + 4, (uint16_t)actor__below(actor, 40));
        base_put_u16(rude->bytes + 6, (uint16_t)actor__below(actor, 14));
        base_put_u32(rude->bytes + 8, 7);
        base_put_u16(rude->bytes + 12, UINT16_MAX); /* no client id */
        return 64;
    default: /* ApiVersions 0, several times, the last one cut */
        for (uint32_t at = 0; at + 14 < RUDE_BYTES / 4; at += 14) {
            base_put_u32(rude->bytes + at, 10);
            base_put_u16(rude->bytes + at + 4, 18);
            base_put_u16(rude->bytes + at + 6, 0);
            base_put_u32(rude->bytes + at + 8, at);
            base_put_u16(rude->bytes + at + 12, UINT16_MAX);
        }
        size_bytes = 14 * (1 + actor__below(actor, 8));
        return size_bytes + actor__below(actor, 14);
    }
    return size_bytes;
}

static void send_bytes(struct actor *actor, struct port_out *out)
{
    struct rude *rude = &actor->rude;
    rude->piece = (struct port_piece){.kind = PORT_MEMORY, .at = rude->bytes, .size_bytes = draw_bytes(actor)};
    struct port_effect *send = port_emit(out, PORT_SEND, TOKEN_SEND);
    send->conn = rude->conn;
    send->pieces = &rude->piece;
    send->piece_count = 1;
    rude->is_busy = true;
}

static void receive(struct actor *actor, struct port_out *out)
{
    struct port_effect *recv = port_emit(out, PORT_RECV, TOKEN_RECV);
    recv->conn = actor->rude.conn;
    recv->buffer = actor->rude.received;
    recv->size_bytes = sizeof actor->rude.received;
    actor->rude.is_receiving = true;
}

static void drop(struct actor *actor, struct port_out *out)
{
    struct rude *rude = &actor->rude;
    if (!rude->is_open || rude->is_closing) { return; }
    port_emit(out, PORT_CLOSE, TOKEN_CLOSE)->conn = rude->conn;
    rude->is_closing = true;
}

static void done(struct actor *actor, const struct port_event *event, struct port_out *out)
{
    struct rude *rude = &actor->rude;
    switch (event->done.token) {
    case TOKEN_CONNECT:
        rude->is_busy = false;
        rude->is_open = event->done.rc == PORT_OK;
        if (rude->is_open && actor__below(actor, 5) > 0) { send_bytes(actor, out); }
        if (rude->is_open && actor__below(actor, 2) == 0) { receive(actor, out); }
        actor__pause(actor);
        return;
    case TOKEN_SEND: rude->is_busy = false; return;
    case TOKEN_RECV: rude->is_receiving = false; return;
    case TOKEN_CLOSE:
        rude->is_open = rude->is_closing = false;
        actor__pause(actor);
        return;
    default: return;
    }
}

void actor__rude_step(struct actor *actor, const struct port_event *event, struct port_out *out)
{
    struct rude *rude = &actor->rude;
    const struct actor_cast *cast = actor->spec->cast;
    actor->probes = 0;
    if (event->kind == PORT_EVENT_DONE) { done(actor, event, out); }
    if (actor->phase != PHASE_LOAD) {
        actor->next_ns = UINT64_MAX;
        drop(actor, out);
        return;
    }
    if (actor->now_ns < actor->next_ns || rude->is_closing) { return; }
    actor->next_ns = UINT64_MAX;
    if (rude->is_open) {
        if (!rude->is_busy && actor__below(actor, 2) == 0) {
            send_bytes(actor, out);
            actor__pause(actor);
        } else {
            drop(actor, out);
        }
        return;
    }
    if (rude->is_busy) { return; }
    rude->conn.generation += 1;
    struct port_effect *connect = port_emit(out, PORT_CONNECT, TOKEN_CONNECT);
    connect->conn = rude->conn;
    connect->address = world_address(cast->world, cast->broker, cast->port);
    rude->is_busy = true;
    actor->done += 1;
}
