/* shard.c: one shard's loop: delivers events one at a time and carries out what each step asks.
 *
 * Room    host/uv.
 * Order   of one round: the alarm if it is due, a stop, messages, completions; when none of them is left, TURN if a step
 *         wished for it; then the sends gathered so far are flushed; then CONTINUE if a step wished for it and the loop has
 *         been polled since; then the loop is polled, and waited for only when nothing is left to do.
 * Bound   after DELIVERED_MAX events the loop is polled whatever else is ready, so that sockets and threads are heard.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host__shard.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DELIVERED_MAX      512
#define MESSAGES_PER_ROUND 128

void *host__allocate(size_t count, size_t item_bytes)
{
    void *at = calloc(count == 0 ? 1 : count, item_bytes);
    CHECK(at != NULL);
    return at;
}

/* ---- operations ---- */

struct op *host__op_take(struct shard *shard, const struct port_effect *effect)
{
    if (shard->free_ops == NULL) {
        struct op_chunk *chunk = host__allocate(1, sizeof *chunk);
        chunk->next = shard->chunks;
        shard->chunks = chunk;
        for (size_t i = OPS_PER_CHUNK; i > 0; i--) {
            chunk->ops[i - 1].next = shard->free_ops;
            shard->free_ops = &chunk->ops[i - 1];
        }
    }
    struct op *op = shard->free_ops;
    shard->free_ops = op->next;
    *op = (struct op){.shard = shard, .effect = *effect, .fd = -1};
    return op;
}

void host__op_give(struct shard *shard, struct op *op)
{
    CHECK(!base_link_is_on(&op->link));
    op->next = shard->free_ops;
    shard->free_ops = op;
}

void host__complete(struct op *op, enum port_rc rc, uint64_t count)
{
    op->rc = rc;
    op->count = count;
    base_list_push_back(&op->shard->ready, &op->link);
}

/* ---- stepping ---- */

int64_t host__wall_ms(void)
{
    struct timespec wall;
    CHECK(clock_gettime(CLOCK_REALTIME, &wall) == 0);
    return (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
}

static void read_clocks(struct shard *shard)
{
    uint64_t now_ns = uv_hrtime();
    if (now_ns > shard->now_ns) { shard->now_ns = now_ns; }
    shard->wall_ms = host__wall_ms();
}

static void note_stopped(struct shard *shard)
{
    struct host *host = shard->host;
    CHECK(!shard->has_stopped);
    shard->has_stopped = true;
    if (host->config.notes.stopped != NULL) { host->config.notes.stopped(host->config.notes.context, shard->index); }
    if (atomic_fetch_add(&host->stopped_count, 1) + 1 < host->config.shards) { return; }
    atomic_store(&host->is_over, true);
    for (uint32_t i = 0; i < host->config.shards; i++) { host__wake(&host->shards[i]); }
}

static void carry_out(struct shard *shard, const struct port_effect *effect)
{
    const struct host_notes *notes = &shard->host->config.notes;
    switch (effect->kind) {
    case PORT_LISTEN:
    case PORT_UNLISTEN:
    case PORT_ACCEPT:
    case PORT_RESOLVE:
    case PORT_CONNECT:
    case PORT_RECV:
    case PORT_SEND:
    case PORT_SHUT:
    case PORT_CLOSE: host__net_do(shard, effect); break;
    case PORT_OPEN:
    case PORT_READ:
    case PORT_WRITE:
    case PORT_TRUNCATE:
    case PORT_ALLOCATE:
    case PORT_SYNC:
    case PORT_CLOSE_FILE:
    case PORT_RENAME:
    case PORT_UNLINK:
    case PORT_MAKE_DIR:
    case PORT_REMOVE_DIR:
    case PORT_SYNC_DIR:
    case PORT_LIST:
    case PORT_SPACE: host__file_do(shard, effect); break;
    case PORT_LOG:
        if (notes->log != NULL) {
            notes->log(notes->context, shard->index, shard->wall_ms, (enum port_level)effect->flags, effect->path_to,
                       effect->path);
        }
        break;
    case PORT_LEVEL:
        if (notes->level != NULL) { notes->level(notes->context, effect->path_to, effect->flags); }
        break;
    case PORT_READY:
        if (notes->ready != NULL) { notes->ready(notes->context, shard->index); }
        break;
    case PORT_STOPPED: note_stopped(shard); break;
    case PORT_EFFECT_COUNT: UNREACHABLE();
    }
}

static void send_messages(struct shard *shard)
{
    struct port_out *out = &shard->out;
    for (uint32_t i = 0; i < out->message_count; i++) { host__ring_push(shard, &out->messages[i]); }
    for (uint32_t i = 0; i < out->message_count; i++) {
        uint32_t to = out->messages[i].to;
        if (to != shard->index) { host__wake(&shard->host->shards[to]); }
    }
}

/* Without anybody who wants to know, no clock is read. */
static uint64_t begin_turn(const struct shard *shard)
{
    return shard->host->config.notes.turn == NULL ? 0 : uv_hrtime();
}

static void end_turn(const struct shard *shard, uint64_t begun_ns)
{
    const struct host_notes *notes = &shard->host->config.notes;
    if (notes->turn != NULL) { notes->turn(notes->context, shard->index, uv_hrtime() - begun_ns); }
}

/* shard->event is filled in but for the clocks. */
static void step(struct shard *shard, enum port_event_kind kind)
{
    struct port_event *event = &shard->event;
    event->kind = kind;
    event->now_ns = shard->now_ns;
    event->wall_ms = shard->wall_ms;
    if (kind == PORT_EVENT_TURN) { shard->wants_turn = false; }
    if (kind == PORT_EVENT_CONTINUE) { shard->wants_continue = false; }
    if (!shard->wants_continue) { shard->has_polled = false; } /* what is ready when it is asked for comes first */
    port_out_begin(&shard->out);
    uint64_t begun_ns = begin_turn(shard);
    shard->host->config.step(shard->machine, event, &shard->out);
    shard->wants_turn |= shard->out.wants_turn;
    shard->wants_continue |= shard->out.wants_continue;
    shard->delivered += 1;
    for (uint32_t i = 0; i < shard->out.effect_count; i++) { carry_out(shard, &shard->out.effects[i]); }
    if (shard->out.message_count > 0) { send_messages(shard); }
    end_turn(shard, begun_ns);
}

static void flush(struct shard *shard)
{
    if (base_list_is_empty(&shard->flush)) { return; }
    uint64_t begun_ns = begin_turn(shard);
    host__net_flush(shard);
    end_turn(shard, begun_ns);
}

/* ---- what is ready ---- */

static void deliver_message(struct shard *shard, const struct port_message *message)
{
    shard->event.message = *message;
    step(shard, PORT_EVENT_MESSAGE);
}

static void deliver_messages(struct shard *shard)
{
    struct port_message message;
    for (uint32_t n = 0; n < MESSAGES_PER_ROUND && host__post_pop(shard, &message); n++) {
        deliver_message(shard, &message);
    }
    for (uint32_t from = 0; from < shard->host->config.shards; from++) {
        for (uint32_t n = 0; n < MESSAGES_PER_ROUND; n++) {
            if (!host__ring_pop(shard->host, from, shard->index, &message)) { break; }
            deliver_message(shard, &message);
        }
    }
}

static void collect_from_threads(struct shard *shard)
{
    if (atomic_load(&shard->done_count) == 0) { return; }
    uv_mutex_lock(&shard->done_lock);
    struct op *op = shard->done_first;
    shard->done_first = NULL;
    shard->done_last = NULL;
    atomic_store(&shard->done_count, 0);
    uv_mutex_unlock(&shard->done_lock);
    while (op != NULL) {
        struct op *next = op->next;
        host__file_done(op);
        op = next;
    }
}

static void deliver_completions(struct shard *shard)
{
    struct base_link *link;
    while (shard->delivered < DELIVERED_MAX && (link = base_list_pop_front(&shard->ready)) != NULL) {
        struct op *op = BASE_ITEM(link, struct op, link);
        struct port_event *event = &shard->event;
        event->done.effect = op->effect.kind;
        event->done.rc = op->rc;
        event->done.token = op->effect.token;
        event->done.count = op->count;
        event->done.total_bytes = op->total_bytes;
        event->done.conn = op->effect.conn;
        event->done.listener = op->effect.listener;
        event->done.file = op->effect.file;
        event->done.address = op->address;
        event->done.is_more = op->is_more;
        const struct host_notes *notes = &shard->host->config.notes;
        if (op->effect.kind == PORT_SYNC && notes->synced != NULL) {
            notes->synced(notes->context, shard->index, op->effect.token, shard->now_ns - op->begun_ns);
        }
        host__op_give(shard, op);
        step(shard, PORT_EVENT_DONE);
    }
}

static bool has_inbox(struct shard *shard)
{
    struct host *host = shard->host;
    if (atomic_load(&shard->done_count) != 0 || atomic_load(&shard->post_count) != 0) { return true; }
    if (atomic_load(&shard->is_stop_asked) && !shard->is_stop_given) { return true; }
    for (uint32_t from = 0; from < host->config.shards; from++) {
        if (host__ring_has(host, from, shard->index)) { return true; }
    }
    return false;
}

/* ---- waiting ---- */

void host__wake(struct shard *shard)
{
    atomic_thread_fence(memory_order_seq_cst); /* what was published comes before the look at is_asleep */
    if (atomic_exchange(&shard->is_asleep, false)) { CHECK(uv_async_send(&shard->wake) == 0); }
}

static void on_alarm(uv_timer_t *timer) { (void)timer; /* that the loop came round is all it is for */ }

/* The timer repeats every millisecond once it is due: libuv 1.44 runs timers before it polls, and would then wait for
 * ever for a timer that fired just there; and its clock, in whole milliseconds, may be a little early for ours. */
static void set_alarm(struct shard *shard)
{
    uint64_t due_ns = shard->out.alarm_ns;
    if (due_ns == shard->alarm_set_ns) { return; }
    shard->alarm_set_ns = due_ns;
    if (due_ns == UINT64_MAX) {
        CHECK(uv_timer_stop(&shard->alarm) == 0);
        return;
    }
    uv_update_time(&shard->loop);
    uint64_t now_ns = uv_hrtime();
    uint64_t wait_ms = due_ns <= now_ns ? 0 : (due_ns - now_ns - 1) / 1000000 + 1;
    CHECK(uv_timer_start(&shard->alarm, on_alarm, wait_ms, 1) == 0);
}

static void poll_now(struct shard *shard)
{
    (void)uv_run(&shard->loop, UV_RUN_NOWAIT); /* says whether handles are left: always */
    shard->delivered = 0;
}

static void poll_and_wait(struct shard *shard)
{
    set_alarm(shard);
    atomic_store(&shard->is_asleep, true);
    atomic_thread_fence(memory_order_seq_cst); /* pairs with host__wake */
    bool is_ready = has_inbox(shard) || atomic_load(&shard->host->is_over) || shard->out.alarm_ns <= uv_hrtime();
    (void)uv_run(&shard->loop, is_ready ? UV_RUN_NOWAIT : UV_RUN_ONCE);
    atomic_store(&shard->is_asleep, false);
    shard->delivered = 0;
}

void host__shard_run(struct shard *shard)
{
    bool is_alarm_given = false; /* once a poll, so that an alarm left in the past starves nobody */
    read_clocks(shard);
    step(shard, PORT_EVENT_START);
    for (;;) {
        read_clocks(shard);
        if (shard->out.alarm_ns <= shard->now_ns && !is_alarm_given) {
            is_alarm_given = true;
            step(shard, PORT_EVENT_ALARM);
        }
        if (!shard->is_stop_given && atomic_load(&shard->is_stop_asked)) {
            shard->is_stop_given = true;
            step(shard, PORT_EVENT_STOP);
        }
        deliver_messages(shard);
        collect_from_threads(shard);
        deliver_completions(shard);
        bool is_idle = base_list_is_empty(&shard->ready) && !has_inbox(shard);
        if (shard->delivered < DELIVERED_MAX) {
            if (!is_idle) { continue; }
            if (shard->wants_turn) {
                step(shard, PORT_EVENT_TURN);
                continue;
            }
        }
        flush(shard);
        if (atomic_load(&shard->host->is_over)) { return; }
        bool is_flushed = base_list_is_empty(&shard->flush);
        is_idle = base_list_is_empty(&shard->ready) && !has_inbox(shard);
        if (!is_idle && is_flushed && shard->delivered < DELIVERED_MAX) { continue; }
        /* What was ready when it was asked has had its round: more of it must not put this off for ever. */
        if (shard->wants_continue && shard->has_polled) {
            step(shard, PORT_EVENT_CONTINUE);
            continue;
        }
        if (is_idle && is_flushed && !shard->wants_turn && !shard->wants_continue) {
            poll_and_wait(shard);
        } else {
            poll_now(shard);
        }
        shard->has_polled = true;
        is_alarm_given = false;
    }
}
