/* fake.c: see fake.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

struct conn_config usual_config(void)
{
    return (struct conn_config){.conn_slot_first = 100,
                                .conns_max = 16,
                                .listener_slot_first = 7,
                                .requests_max = 64,
                                .in_flight_max = 8,
                                .frame_bytes_max = 100000,
                                .block_bytes = 4096,
                                .trust_bytes = 16384,
                                .idle_ms = 1000,
                                .is_check_slow = true};
}

static void begin_step(struct fake *fake)
{
    fake->out.effects = fake->effects;
    fake->out.messages = fake->messages;
    fake->out.text = fake->text;
    fake->out.effects_max = fake->effects_room != 0 ? fake->effects_room : PORT_EFFECTS_MAX;
    fake->out.messages_max = 4;
    fake->out.text_bytes = PORT_TEXT_BYTES;
    port_out_begin(&fake->out);
}

/* Memory that lives until fake_end. */
static void *own(struct fake *fake, size_t size_bytes)
{
    void **memory = NULL;
    assert_int_equal(posix_memalign((void **)&memory, 4096, size_bytes + 4096), 0);
    *memory = fake->owned;
    fake->owned = memory;
    return (uint8_t *)memory + 4096;
}

struct fake *given_fake(const struct conn_config *config, size_t pages_bytes)
{
    struct fake *fake = calloc(1, sizeof *fake);
    void *region = own(fake, pages_bytes);
    memset(region, 0, pages_bytes);
    size_t reserve[BASE_CLASS_COUNT] = {0, 0, 0};
    assert_int_equal(base_pages_create((struct base_region){region, pages_bytes}, reserve, &fake->pages), BASE_OK);
    size_t arena_bytes = conn_arena_bytes(config);
    void *memory = own(fake, arena_bytes);
    struct base_arena arena;
    base_arena_init(&arena, memory, arena_bytes);
    assert_int_equal(conn_create(&arena, fake->pages, config, &fake->conns), BASE_OK);
    fake->chunk_bytes = SIZE_MAX;
    fake->accept_rc = PORT_OK;
    fake->holds_but = CONN_BUT_NOTHING;
    fake->now_ns = 1;
    begin_step(fake);
    return fake;
}

void fake_end(struct fake *fake)
{
    for (void **memory = fake->owned; memory != NULL;) {
        void **next = *memory;
        free(memory);
        memory = next;
    }
    free(fake);
}

static struct peer *peer_of(struct fake *fake, struct port_conn conn)
{
    for (uint32_t i = 0; i < fake->dialled; i++) {
        struct peer *peer = &fake->peers[i];
        if (peer->is_accepted && !peer->is_closed && peer->slot == conn.slot && peer->generation == conn.generation) {
            return peer;
        }
    }
    return NULL;
}

void fake_listen(struct fake *fake)
{
    struct port_address address = {.port = 9092};
    conn_listen(fake->conns, 0, address, &fake->out);
    fake_run(fake);
}

uint32_t fake_dial(struct fake *fake)
{
    assert_true(fake->dialled < PEERS_MAX);
    struct peer *peer = &fake->peers[fake->dialled];
    *peer = (struct peer){.is_used = true, .stream = own(fake, STREAM_BYTES), .heard = own(fake, STREAM_BYTES)};
    fake->dialled += 1;
    return fake->dialled - 1;
}

void peer_sends(struct fake *fake, uint32_t peer, const void *bytes, size_t size_bytes)
{
    struct peer *it = &fake->peers[peer];
    assert_true(it->stream_bytes + size_bytes <= STREAM_BYTES);
    memcpy(it->stream + it->stream_bytes, bytes, size_bytes);
    it->stream_bytes += size_bytes;
}

void peer_sends_frame(struct fake *fake, uint32_t peer, const char *words)
{
    uint8_t head[4];
    base_put_u32(head, (uint32_t)strlen(words));
    peer_sends(fake, peer, head, 4);
    peer_sends(fake, peer, words, strlen(words));
}

static void trace(struct fake *fake, const char *who, const char *what, struct port_conn conn, uint64_t number)
{
    if (!fake->is_tracing) { return; }
    struct base_text line;
    size_t used = strlen(fake->trace);
    base_text_init(&line, fake->trace + used, sizeof fake->trace - used);
    base_text_add(&line, "t=");
    base_text_add_i64(&line, (int64_t)fake->now_ns);
    base_text_add(&line, who);
    base_text_add(&line, what);
    if (conn.generation != 0) {
        base_text_add(&line, " conn ");
        base_text_add_i64(&line, conn.slot);
        base_text_add(&line, ".");
        base_text_add_i64(&line, conn.generation);
    }
    base_text_add(&line, " ");
    base_text_add_i64(&line, (int64_t)number);
    base_text_add(&line, "\n");
    assert_false(line.is_cut);
}

static void trace_out(struct fake *fake, const struct conn_out *item)
{
    static const char *const names[] = {"listening", "opened", "request", "sent", "ended", "gone", "stopped"};
    trace(fake, " tells ", names[item->kind], item->conn, item->kind == CONN_OUT_REQUEST ? item->frame_bytes : 0);
}

/* What the last call emitted goes to the pending ones; then the broker's hand pulls. */
static void take_effects(struct fake *fake)
{
    for (uint32_t i = 0; i < fake->out.effect_count; i++) {
        const struct port_effect *effect = &fake->out.effects[i];
        if (effect->kind == PORT_LOG) {
            size_t used = strlen(fake->log);
            assert_true(used + effect->path.size_bytes + 2 < sizeof fake->log);
            memcpy(fake->log + used, effect->path.at, effect->path.size_bytes);
            strcpy(fake->log + used + effect->path.size_bytes, "\n");
            continue;
        }
        assert_true(fake->pending_count < PENDING_MAX);
        if (effect->kind == PORT_RECV) {
            for (uint32_t j = 0; j < fake->pending_count; j++) {
                assert_false(fake->pending[j].kind == PORT_RECV &&
                             port_conn_equal(fake->pending[j].conn, effect->conn));
            }
        }
        if (effect->kind == PORT_RECV || effect->kind == PORT_SEND || effect->kind == PORT_CLOSE) {
            assert_non_null(peer_of(fake, effect->conn));
        }
        uint64_t number = effect->kind == PORT_SEND ? effect->piece_count : effect->size_bytes;
        trace(fake, " asks ", port_effect_name(effect->kind), effect->conn, number);
        fake->pending[fake->pending_count] = *effect;
        fake->pending_count += 1;
    }
    begin_step(fake);
}

void fake_collect(struct fake *fake)
{
    bool wants_turn = false;
    bool wants_continue;
    do {
        uint32_t polls = 0;
        while (!fake->is_busy && (fake->max_polls_a_step == 0 || polls < fake->max_polls_a_step)) {
            struct conn_out item;
            if (!conn_poll(fake->conns, fake->now_ns, &fake->out, &item)) { break; }
            assert_true(fake->outs_count < OUTS_MAX);
            trace_out(fake, &item);
            fake->outs[fake->outs_count] = item;
            fake->outs_count += 1;
            polls += 1;
            bool holds = item.kind == CONN_OUT_REQUEST && item.frame_bytes > 0 && item.frame[0] < fake->holds_below;
            if (holds) { conn_hold(fake->conns, item.request, fake->holds_but); }
        }
        wants_continue = fake->out.wants_continue || (fake->max_polls_a_step != 0 && polls == fake->max_polls_a_step);
        wants_turn = wants_turn || fake->out.wants_turn;
        take_effects(fake);
        assert_true(conn_is_sound(fake->conns));
    } while (wants_continue);
    fake->out.wants_turn = wants_turn;
}

static void complete(struct fake *fake, uint32_t index, enum port_rc rc, uint64_t count)
{
    struct port_effect effect = fake->pending[index];
    memmove(&fake->pending[index], &fake->pending[index + 1],
            (fake->pending_count - index - 1) * sizeof fake->pending[0]);
    fake->pending_count -= 1;
    struct port_event event = {.kind = PORT_EVENT_DONE, .now_ns = fake->now_ns};
    event.done.effect = effect.kind;
    event.done.rc = rc;
    event.done.token = effect.token;
    event.done.count = count;
    event.done.conn = effect.conn;
    event.done.listener = effect.listener;
    event.done.address = (struct port_address){.ip = {[10] = 0xff, [11] = 0xff, [12] = 10}, .port = 555};
    bool wants_turn = fake->out.wants_turn;
    conn_done(fake->conns, &event, &fake->out);
    fake->out.wants_turn = fake->out.wants_turn || wants_turn;
    fake_collect(fake);
}

static bool carry_out_accept(struct fake *fake, uint32_t index)
{
    const struct port_effect *effect = &fake->pending[index];
    for (uint32_t i = 0; i < fake->dialled; i++) {
        struct peer *peer = &fake->peers[i];
        if (peer->is_accepted) { continue; }
        if (fake->accept_rc == PORT_OK) {
            assert_null(peer_of(fake, effect->conn)); /* the slot was free */
            peer->is_accepted = true;
            peer->slot = effect->conn.slot;
            peer->generation = effect->conn.generation;
        }
        complete(fake, index, fake->accept_rc, 0);
        return true;
    }
    return false;
}

static bool carry_out_recv(struct fake *fake, uint32_t index)
{
    const struct port_effect *effect = &fake->pending[index];
    struct peer *peer = peer_of(fake, effect->conn);
    size_t left_bytes = peer->stream_bytes - peer->taken_bytes;
    if (left_bytes == 0 && !peer->is_ended && !peer->is_reset) { return false; }
    if (effect->size_bytes == 0) { /* an error is there to be read, too */
        complete(fake, index, PORT_OK, 0);
        return true;
    }
    if (peer->is_reset) {
        complete(fake, index, PORT_RESET, 0);
        return true;
    }
    if (effect->size_bytes > peer->recv_bytes_most) { peer->recv_bytes_most = effect->size_bytes; }
    if (left_bytes == 0) {
        complete(fake, index, PORT_EOF, 0);
        return true;
    }
    size_t bytes = left_bytes;
    if (bytes > effect->size_bytes) { bytes = effect->size_bytes; }
    if (bytes > fake->chunk_bytes) { bytes = fake->chunk_bytes; }
    memcpy(effect->buffer, peer->stream + peer->taken_bytes, bytes);
    peer->taken_bytes += bytes;
    complete(fake, index, PORT_OK, bytes);
    return true;
}

static bool carry_out_send(struct fake *fake, uint32_t index)
{
    const struct port_effect *effect = &fake->pending[index];
    struct peer *peer = peer_of(fake, effect->conn);
    if (peer->is_reset) {
        complete(fake, index, PORT_RESET, 0);
        return true;
    }
    if (peer->is_deaf) { return false; }
    for (uint32_t i = 0; i < index; i++) { /* in the order asked */
        if (fake->pending[i].kind == PORT_SEND && port_conn_equal(fake->pending[i].conn, effect->conn)) {
            return false;
        }
    }
    size_t bytes = 0;
    for (uint32_t i = 0; i < effect->piece_count; i++) {
        const struct port_piece *piece = &effect->pieces[i];
        assert_int_equal(piece->kind, PORT_MEMORY);
        assert_true(peer->heard_bytes + piece->size_bytes <= STREAM_BYTES);
        memcpy(peer->heard + peer->heard_bytes, piece->at, piece->size_bytes);
        peer->heard_bytes += piece->size_bytes;
        bytes += piece->size_bytes;
    }
    peer->sends += 1;
    complete(fake, index, PORT_OK, bytes);
    return true;
}

static bool carry_out_close(struct fake *fake, uint32_t index)
{
    struct port_conn conn = fake->pending[index].conn;
    for (uint32_t i = 0; i < fake->pending_count; i++) {
        const struct port_effect *other = &fake->pending[i];
        if (i != index && port_conn_equal(other->conn, conn) &&
            (other->kind == PORT_RECV || other->kind == PORT_SEND)) {
            complete(fake, i, PORT_CLOSED, 0);
            return true;
        }
    }
    peer_of(fake, conn)->is_closed = true;
    complete(fake, index, PORT_OK, 0);
    return true;
}

static bool carry_out_unlisten(struct fake *fake, uint32_t index)
{
    for (uint32_t i = 0; i < fake->pending_count; i++) {
        if (fake->pending[i].kind == PORT_ACCEPT) {
            complete(fake, i, PORT_CLOSED, 0);
            return true;
        }
    }
    complete(fake, index, PORT_OK, 0);
    return true;
}

static bool carry_out(struct fake *fake, uint32_t index)
{
    enum port_effect_kind kind = fake->pending[index].kind;
    if (kind == PORT_UNLISTEN) { return carry_out_unlisten(fake, index); }
    if (kind == PORT_ACCEPT) { return carry_out_accept(fake, index); }
    if (kind == PORT_RECV) { return carry_out_recv(fake, index); }
    if (kind == PORT_SEND) { return carry_out_send(fake, index); }
    if (kind == PORT_CLOSE) { return carry_out_close(fake, index); }
    assert_int_equal(kind, PORT_LISTEN); /* conn asks for nothing else */
    complete(fake, index, PORT_OK, 0);
    return true;
}

void fake_run(struct fake *fake)
{
    fake_collect(fake);
    for (uint32_t i = 0; i < fake->pending_count || fake->out.wants_turn;) {
        if (i < fake->pending_count) {
            i = carry_out(fake, i) ? 0 : i + 1;
        } else {
            fake->out.wants_turn = false;
            conn_turn(fake->conns, &fake->out);
            fake_collect(fake);
            i = 0;
        }
    }
}

void fake_alarm(struct fake *fake, uint64_t now_ns)
{
    fake->now_ns = now_ns;
    struct port_event event = {.kind = PORT_EVENT_ALARM, .now_ns = now_ns};
    conn_alarm(fake->conns, &event, &fake->out);
    fake_run(fake);
}

uint32_t fake_count(const struct fake *fake, enum conn_out_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < fake->outs_count; i++) { count += fake->outs[i].kind == kind ? 1 : 0; }
    return count;
}

const struct conn_out *fake_out(const struct fake *fake, enum conn_out_kind kind, uint32_t number)
{
    for (uint32_t i = 0; i < fake->outs_count; i++) {
        if (fake->outs[i].kind != kind) { continue; }
        if (number == 0) { return &fake->outs[i]; }
        number -= 1;
    }
    fail_msg("there is no such out");
    return NULL;
}

void fake_echo(struct fake *fake, const struct conn_out *request)
{
    uint8_t *bytes = own(fake, (size_t)request->frame_bytes + 5);
    base_put_u32(bytes, request->frame_bytes + 1);
    bytes[4] = '=';
    memcpy(bytes + 5, request->frame, request->frame_bytes);
    struct port_piece pieces[1] = {
        {.kind = PORT_MEMORY, .at = bytes, .size_bytes = (uint64_t)request->frame_bytes + 5}};
    assert_int_equal(conn_answer(fake->conns, request->request, pieces, 1, (uint64_t)(uintptr_t)bytes, &fake->out),
                     BASE_OK);
    conn_release_frame(fake->conns, request->request);
}
