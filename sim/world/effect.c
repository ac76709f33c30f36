/* effect.c: an effect's way from the step to its one completion, the tables of ids, and port.h's rules for machines.
 *
 * Room    sim/world, private; see world__world.h.
 * States  an op is WAITING from the step on, READY once it is decided (its event queues for the shard), DELIVERED with
 *         that event, and then free. A ref is PENDING from its open on, OPEN once that completion is delivered,
 *         CLOSING from its close on, FREE with the delivery of that completion (or of a failed open).
 *         world__op_done makes the move to READY, world__op_deliver those of refs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <stdlib.h>
#include <string.h>

/* ---- lent bytes ---- */

static uint64_t sum_bytes(uint64_t sum, const uint8_t *at, uint64_t size_bytes)
{
    uint64_t i = 0;
    for (; i + 8 <= size_bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, at + i, 8);
        sum = (sum ^ word) * UINT64_C(0x9fb21c651e98df25);
        sum ^= sum >> 32;
    }
    for (; i < size_bytes; i++) { sum = (sum ^ at[i]) * UINT64_C(0x100000001b3); }
    return sum;
}

#define BUFFER_EDGE_BYTES 64

/* A checksum of what is lent, compared within one run only. Of buffers to be filled, the edges: they may be large. */
uint64_t world__lent_sum(const struct port_effect *effect)
{
    uint64_t sum = sum_bytes(1, effect->path.at, effect->path.size_bytes);
    sum = sum_bytes(sum, effect->path_to.at, effect->path_to.size_bytes);
    for (uint32_t i = 0; i < effect->piece_count; i++) {
        const struct port_piece *piece = &effect->pieces[i];
        sum = (sum ^ piece->size_bytes ^ (uint64_t)piece->kind << 60) * UINT64_C(0x9fb21c651e98df25);
        switch (piece->kind) {
        case PORT_MEMORY: sum = sum_bytes(sum, piece->at, piece->size_bytes); break;
        case PORT_RANGE: sum = (sum ^ piece->position_bytes ^ piece->file.slot) * UINT64_C(0x9fb21c651e98df25); break;
        }
    }
    if (effect->buffer != NULL) {
        uint64_t edge_bytes = base_min_u64(effect->size_bytes, BUFFER_EDGE_BYTES);
        sum = sum_bytes(sum, effect->buffer, edge_bytes);
        sum = sum_bytes(sum, effect->buffer + effect->size_bytes - edge_bytes, edge_bytes);
    }
    return sum;
}

static void check_lent(struct world *world, const struct op *op)
{
    if (!world->knobs.checks_lent || world__lent_sum(&op->effect) == op->lent_sum) { return; }
    world__breach(world, op->shard, "lent bytes of %s token=%llu were changed before its completion",
                  port_effect_name(op->effect.kind), (unsigned long long)op->effect.token);
}

void world__fill_begin(struct world *world, const struct op *op) { check_lent(world, op); }

void world__fill_end(struct world *world, struct op *op)
{
    if (world->knobs.checks_lent) { op->lent_sum = world__lent_sum(&op->effect); }
}

/* ---- ids ---- */

struct ref *world__ref(struct shard *shard, enum ref_kind kind, uint32_t slot)
{
    const struct ref_table *table = &shard->refs[kind];
    return slot < table->refs_max ? table->refs[slot] : NULL;
}

static struct ref *ref_make(struct shard *shard, enum ref_kind kind, uint32_t slot)
{
    struct ref_table *table = &shard->refs[kind];
    if (slot >= table->refs_max) {
        uint32_t wanted = table->refs_max == 0 ? 64 : table->refs_max;
        while (wanted <= slot) { wanted *= 2; }
        table->refs = world__grow(table->refs, wanted * sizeof *table->refs);
        memset(table->refs + table->refs_max, 0, (wanted - table->refs_max) * sizeof *table->refs);
        table->refs_max = wanted;
    }
    if (table->refs[slot] == NULL) {
        table->refs[slot] = world__alloc(sizeof(struct ref));
        table->refs[slot]->slot = slot;
        table->refs[slot]->kind = kind;
    }
    return table->refs[slot];
}

struct id { /* what an effect says about an id */
    enum ref_kind kind;
    uint32_t slot;
    uint32_t generation;
};

static struct id conn_id(const struct port_effect *effect)
{
    return (struct id){REF_CONN, effect->conn.slot, effect->conn.generation};
}
static struct id listener_id(const struct port_effect *effect)
{
    return (struct id){REF_LISTENER, effect->listener.slot, effect->listener.generation};
}
static struct id file_id(const struct port_effect *effect)
{
    return (struct id){REF_FILE, effect->file.slot, effect->file.generation};
}

static const char *const kind_names[REF_KINDS] = {"connection", "listener", "file"};

/* For a new id. NULL: a breach, reported. */
static struct ref *claim(struct world *world, struct shard *shard, const struct port_effect *effect, struct id id)
{
    const char *words = port_effect_name(effect->kind);
    if (id.generation == 0 || id.slot >= REF_SLOTS_MAX) {
        world__breach(world, shard, "%s with %s %u.%u, which is no id", words, kind_names[id.kind], id.slot,
                      id.generation);
        return NULL;
    }
    if (id.kind == REF_FILE && effect->file.shard != shard->index) {
        world__breach(world, shard, "%s into the table of shard %u", words, effect->file.shard);
        return NULL;
    }
    struct ref *ref = ref_make(shard, id.kind, id.slot);
    if (ref->state != REF_FREE) {
        world__breach(world, shard, "%s uses %s slot %u again before the last event of %u.%u", words,
                      kind_names[id.kind], id.slot, id.slot, ref->generation);
        return NULL;
    }
    if (ref->generation == id.generation) {
        world__breach(world, shard, "%s uses %s %u.%u a second time", words, kind_names[id.kind], id.slot,
                      id.generation);
        return NULL;
    }
    ref->generation = id.generation;
    ref->state = REF_PENDING;
    ref->waiting = 0;
    ref->closing = NULL;
    shard->refs[id.kind].open_count += 1;
    return ref;
}

/* For an id that is there. NULL: a breach, reported. */
static struct ref *find(struct world *world, struct shard *shard, const struct port_effect *effect, struct id id)
{
    struct ref *ref = world__ref(shard, id.kind, id.slot);
    bool is_here = id.kind != REF_FILE || effect->file.shard == shard->index;
    if (ref == NULL || ref->state == REF_FREE || ref->generation != id.generation || !is_here) {
        world__breach(world, shard, "%s names %s %u.%u, which is not open", port_effect_name(effect->kind),
                      kind_names[id.kind], id.slot, id.generation);
        return NULL;
    }
    return ref;
}

static void free_ref(struct world *world, struct shard *shard, struct ref *ref)
{
    CHECK(ref->state != REF_FREE);
    CHECK(ref->waiting == 0);
    switch (ref->kind) {
    case REF_CONN:
    case REF_LISTENER: world__net_free_ref(world, ref); break;
    case REF_FILE:
        if (ref->handle != NULL) { world__handle_free(world, ref->handle); }
        ref->handle = NULL;
        break;
    }
    ref->state = REF_FREE;
    ref->closing = NULL;
    shard->refs[ref->kind].open_count -= 1;
}

void world__shard_drop(struct world *world, struct shard *shard)
{
    for (uint32_t kind = 0; kind < REF_KINDS; kind++) {
        struct ref_table *table = &shard->refs[kind];
        for (uint32_t slot = 0; slot < table->refs_max; slot++) {
            struct ref *ref = table->refs[slot];
            if (ref == NULL) { continue; }
            ref->waiting = 0;
            ref->opening = NULL;
            if (ref->state != REF_FREE) { free_ref(world, shard, ref); }
            free(ref);
        }
        free(table->refs);
        *table = (struct ref_table){0};
    }
}

/* ---- ops ---- */

static struct op *op_create(struct world *world, struct shard *shard, const struct port_effect *effect)
{
    struct op *op = world->free_ops;
    if (op == NULL) {
        op = world__alloc(sizeof *op);
    } else {
        world->free_ops = op->ready.next == NULL ? NULL : BASE_ITEM(op->ready.next, struct op, ready);
        memset(op, 0, sizeof *op);
    }
    op->ready.kind = READY_OP;
    op->shard = shard;
    op->effect = *effect;
    op->state = OP_WAITING;
    if (world->knobs.checks_lent) { op->lent_sum = world__lent_sum(effect); }
    base_list_push_back(&shard->ops, &op->in_shard);
    return op;
}

void world__op_free(struct world *world, struct op *op)
{
    world__timer_stop(world, &op->timer);
    if (op->queue != NULL) { base_list_remove(op->queue, &op->in_queue); }
    op->queue = NULL;
    if (op->ref != NULL && op->ref->kind == REF_CONN && op->ref->end != NULL && op->ref->end->recv == op) {
        op->ref->end->recv = NULL;
    }
    world__leases_give(op);
    if (op->inode != NULL) { world__inode_release(op->inode); }
    op->inode = NULL;
    base_list_remove(&op->shard->ops, &op->in_shard);
    op->state = OP_DELIVERED;
    op->ready.next = world->free_ops == NULL ? NULL : &world->free_ops->ready;
    world->free_ops = op;
}

static void insert_before(struct shard *shard, struct ready *before, struct ready *ready)
{
    struct ready **at = &shard->ready;
    while (*at != before) { at = &(*at)->next; }
    ready->next = before;
    *at = ready;
}

void world__close_if_idle(struct world *world, struct ref *ref)
{
    if (ref->state != REF_CLOSING || ref->waiting > 0 || ref->closing->state != OP_WAITING) { return; }
    world__op_done(world, ref->closing, PORT_OK, 0);
}

void world__op_done(struct world *world, struct op *op, enum port_rc rc, uint64_t count)
{
    if (op->state != OP_WAITING) {
        world__breach(world, op->shard, "I24: %s token=%llu completed twice", port_effect_name(op->effect.kind),
                      (unsigned long long)op->effect.token);
        return;
    }
    world__timer_stop(world, &op->timer);
    if (op->queue != NULL) { base_list_remove(op->queue, &op->in_queue); }
    op->queue = NULL;
    world__leases_give(op);
    op->state = OP_READY;
    op->rc = rc;
    op->count = count;
    struct ref *ref = op->ref;
    if (ref == NULL) {
        world__ready(world, op->shard, &op->ready);
        return;
    }
    if (ref->closing != NULL && ref->closing != op && ref->closing->state == OP_READY) {
        insert_before(op->shard, &ref->closing->ready, &op->ready); /* CLOSED stays the last event of its id */
    } else {
        world__ready(world, op->shard, &op->ready);
    }
    if (ref->opening == op) { ref->opening = NULL; }
    if (ref->closing == op) { return; }
    CHECK(ref->waiting > 0);
    ref->waiting -= 1;
    world__close_if_idle(world, ref);
}

static bool is_open_kind(enum port_effect_kind kind)
{
    return kind == PORT_LISTEN || kind == PORT_ACCEPT || kind == PORT_CONNECT || kind == PORT_OPEN;
}

static void settle_ref(struct world *world, struct op *op)
{
    struct ref *ref = op->ref;
    if (ref == NULL) { return; }
    if (ref->closing == op) {
        free_ref(world, op->shard, ref);
    } else if (is_open_kind(op->effect.kind) && ref->state == REF_PENDING) {
        if (op->rc == PORT_OK) {
            ref->state = REF_OPEN;
        } else {
            free_ref(world, op->shard, ref);
            ref->generation = 0; /* never open: the same id may be asked for again */
        }
    }
}

void world__op_deliver(struct world *world, struct op *op, struct port_event *event, struct base_slice *payload_out)
{
    const struct port_effect *effect = &op->effect;
    CHECK(op->state == OP_READY);
    event->kind = PORT_EVENT_DONE;
    event->done.effect = effect->kind;
    event->done.rc = op->rc;
    event->done.token = effect->token;
    event->done.count = op->count;
    event->done.conn = effect->conn;
    event->done.listener = effect->listener;
    event->done.file = effect->file;
    event->done.address = op->address;
    event->done.is_more = op->is_more;
    event->done.total_bytes = op->total_bytes;
    bool fills = effect->kind == PORT_RECV || effect->kind == PORT_READ || effect->kind == PORT_LIST;
    if (fills && op->rc == PORT_OK && op->count > 0) { *payload_out = base_slice_of(effect->buffer, op->count); }
    check_lent(world, op);
    if (op->inode != NULL && op->cover > op->inode->told_seq &&
        (effect->kind != PORT_SYNC && effect->kind != PORT_SYNC_DIR)) {
        op->inode->told_seq = op->cover;
    }
    settle_ref(world, op);
    world__op_free(world, op);
}

/* ---- from the step ---- */

static void refuse(struct world *world, struct op *op)
{
    op->ref = NULL;
    world__op_done(world, op, PORT_CLOSED, 0);
}

static void open_id(struct world *world, struct op *op, struct id id, void (*start)(struct world *, struct op *))
{
    op->ref = claim(world, op->shard, &op->effect, id);
    if (op->ref == NULL) {
        refuse(world, op);
        return;
    }
    op->ref->waiting += 1;
    op->ref->opening = op;
    start(world, op);
}

static void use_id(struct world *world, struct op *op, struct id id, void (*start)(struct world *, struct op *))
{
    struct ref *ref = find(world, op->shard, &op->effect, id);
    if (ref != NULL && ref->state == REF_PENDING) {
        world__breach(world, op->shard, "%s names %s %u.%u before its open has completed",
                      port_effect_name(op->effect.kind), kind_names[id.kind], id.slot, id.generation);
        ref = NULL;
    }
    if (ref == NULL) {
        refuse(world, op);
        return;
    }
    op->ref = ref;
    ref->waiting += 1;
    if (ref->state == REF_CLOSING) {
        world__op_done(world, op, PORT_CLOSED, 0);
        return;
    }
    start(world, op);
}

static void close_id(struct world *world, struct op *op, struct id id)
{
    struct ref *ref = find(world, op->shard, &op->effect, id);
    if (ref != NULL && ref->state == REF_CLOSING) {
        world__breach(world, op->shard, "%s of %s %u.%u, which is closing already", port_effect_name(op->effect.kind),
                      kind_names[id.kind], id.slot, id.generation);
        ref = NULL;
    }
    if (ref == NULL) {
        refuse(world, op);
        return;
    }
    op->ref = ref;
    ref->state = REF_CLOSING;
    ref->closing = op;
    switch (ref->kind) {
    case REF_CONN:
    case REF_LISTENER: world__net_close(world, ref); break;
    case REF_FILE: world__file_close(world, ref); break;
    }
    world__close_if_idle(world, ref);
}

void world__effect(struct world *world, struct shard *shard, const struct port_effect *effect)
{
    if (effect->kind == PORT_STOPPED) { world__shard_stopped(world, shard); }
    if (effect->kind == PORT_STOPPED || effect->kind == PORT_LOG || effect->kind == PORT_LEVEL ||
        effect->kind == PORT_READY) {
        return;
    }
    if (effect->kind >= PORT_EFFECT_COUNT) {
        world__breach(world, shard, "effect of unknown kind %u", (unsigned)effect->kind);
        return;
    }
    struct op *op = op_create(world, shard, effect);
    switch (effect->kind) {
    case PORT_LISTEN: open_id(world, op, listener_id(effect), world__net_effect); break;
    case PORT_ACCEPT:
    case PORT_CONNECT: open_id(world, op, conn_id(effect), world__net_effect); break;
    case PORT_RESOLVE: world__net_effect(world, op); break;
    case PORT_RECV:
    case PORT_SEND:
    case PORT_SHUT: use_id(world, op, conn_id(effect), world__net_effect); break;
    case PORT_OPEN: open_id(world, op, file_id(effect), world__name_effect); break;
    case PORT_READ:
    case PORT_WRITE:
    case PORT_TRUNCATE:
    case PORT_ALLOCATE:
    case PORT_SYNC: use_id(world, op, file_id(effect), world__file_effect); break;
    case PORT_CLOSE: close_id(world, op, conn_id(effect)); break;
    case PORT_UNLISTEN: close_id(world, op, listener_id(effect)); break;
    case PORT_CLOSE_FILE: close_id(world, op, file_id(effect)); break;
    case PORT_RENAME:
    case PORT_UNLINK:
    case PORT_MAKE_DIR:
    case PORT_REMOVE_DIR:
    case PORT_SYNC_DIR:
    case PORT_LIST:
    case PORT_SPACE: world__name_effect(world, op); break;
    case PORT_LOG:
    case PORT_LEVEL:
    case PORT_READY:
    case PORT_STOPPED:
    case PORT_EFFECT_COUNT: break;
    }
}
