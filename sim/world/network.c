/* network.c: listeners, connections, and bytes on their way.
 *
 * Room    sim/world, private; see world__world.h.
 * Model   a connection is a link of two ends. What an end sends is cut into segments, each with an arrival time, in order.
 *         In flight and unread together are bounded per direction: a sender waits until its peer reads. A segment that
 *         meets a blocked direction, or a node that lost power, waits as TCP's does, and the sender gives up in the end.
 *         An end stays in its link after its owner closed it, to answer late bytes with a reset; the link goes with both.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_MIN_NS  (200 * WORLD_MS)
#define RETRY_MAX_NS  (1000 * WORLD_MS)
#define DRAIN_MAX_NS  (20 * WORLD_US)
#define CUT_MAX_BYTES 16

/* ---- addresses ---- */

struct port_address world__address(uint32_t node, uint16_t port)
{
    struct port_address address = {.ip = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 0, [14] = 0}, .port = port};
    address.ip[15] = (uint8_t)(node + 1);
    return address;
}

static bool is_any(const struct port_address *address)
{
    static const uint8_t any6[16] = {0};
    static const uint8_t any4[16] = {[10] = 0xff, [11] = 0xff};
    return memcmp(address->ip, any6, 16) == 0 || memcmp(address->ip, any4, 16) == 0;
}

static bool is_loopback(const struct port_address *address)
{
    static const uint8_t loop6[16] = {[15] = 1};
    static const uint8_t loop4[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
    return memcmp(address->ip, loop6, 16) == 0 || memcmp(address->ip, loop4, 13) == 0;
}

/* NULL: no node has it. */
static struct node *node_of(struct world *world, struct node *asking, const struct port_address *address)
{
    if (is_any(address) || is_loopback(address)) { return asking; }
    struct port_address first = world__address(0, 0);
    if (memcmp(address->ip, first.ip, 15) != 0 || address->ip[15] == 0) { return NULL; }
    uint32_t index = (uint32_t)address->ip[15] - 1;
    return index < world->node_count ? world->nodes[index] : NULL;
}

static bool is_blocked(const struct node *from, const struct node *to)
{
    return (from->is_blocked_to[to->index / 8] >> (to->index % 8) & 1) != 0;
}

static uint64_t net_delay_ns(struct world *world)
{
    return world__between(world, DICE_NET_DELAY, world->knobs.net_delay_min_ns, world->knobs.net_delay_max_ns);
}

/* ---- segments ---- */

static void arrive_fire(struct world *world, struct timer *timer);
static void pump_fire(struct world *world, struct timer *timer);

static struct segment *segment_create(uint32_t size_bytes)
{
    struct segment *segment = malloc(sizeof *segment + size_bytes);
    CHECK(segment != NULL);
    *segment = (struct segment){.size_bytes = size_bytes};
    return segment;
}

static void segments_free(struct segment **head, struct segment **tail, uint64_t *bytes)
{
    while (*head != NULL) {
        struct segment *segment = *head;
        *head = segment->next;
        free(segment);
    }
    *tail = NULL;
    *bytes = 0;
}

/* Puts a segment on its way to `to`, after what is on its way already. */
static void launch(struct world *world, struct end *to, struct segment *segment)
{
    uint64_t delay_ns = net_delay_ns(world);
    if (world__hit(world, WORLD_NET_SLOW)) { delay_ns += world__slow_ns(world, DICE_NET_DELAY); }
    if (world__hit(world, WORLD_NET_STALL)) { delay_ns += 2 * world__slow_ns(world, DICE_NET_DELAY); }
    segment->at_ns = base_max_u64(world->now_ns + delay_ns, to->last_at_ns + 1);
    to->last_at_ns = segment->at_ns;
    segment->next = NULL;
    to->wire_bytes += segment->size_bytes;
    if (to->wire == NULL) {
        to->wire = segment;
        to->wire_tail = segment;
        world__timer_set(world, &to->arrive, segment->at_ns, arrive_fire);
        return;
    }
    to->wire_tail->next = segment;
    to->wire_tail = segment;
}

static void launch_end(struct world *world, struct end *to)
{
    struct segment *segment = segment_create(0);
    segment->kind = SEGMENT_END;
    launch(world, to, segment);
}

/* A reset overtakes nothing, but may throw away what is still on its way. */
static void launch_reset(struct world *world, struct end *to)
{
    if (to->is_closed && !to->is_silent) { return; }
    if (to->wire != NULL && world__draw(world, DICE_SEGMENT, 2) == 0) {
        segments_free(&to->wire, &to->wire_tail, &to->wire_bytes);
        world__timer_stop(world, &to->arrive);
    }
    struct segment *segment = segment_create(0);
    segment->kind = SEGMENT_RESET;
    launch(world, to, segment);
}

/* ---- links ---- */

static void end_init(struct end *end, struct link *link, struct end *peer, struct node *node)
{
    end->link = link;
    end->peer = peer;
    end->node = node;
    end->stuck_since_ns = UINT64_MAX;
    base_list_init(&end->sends);
}

static struct link *link_create(struct world *world, struct node *from, struct node *to)
{
    struct link *link = world__alloc(sizeof *link);
    end_init(&link->ends[0], link, &link->ends[1], from);
    end_init(&link->ends[1], link, &link->ends[0], to);
    link->buffer_bytes = world->knobs.socket_buffer_bytes;
    if (world__hit(world, WORLD_NET_SMALL_BUFFER)) { link->buffer_bytes = 64 + world__draw(world, DICE_SEGMENT, 2000); }
    base_list_push_back(&world->links, &link->in_world);
    return link;
}

static void end_clear(struct world *world, struct end *end)
{
    segments_free(&end->wire, &end->wire_tail, &end->wire_bytes);
    segments_free(&end->unread, &end->unread_tail, &end->unread_bytes);
    world__timer_stop(world, &end->arrive);
    world__timer_stop(world, &end->pump);
}

static void link_free(struct world *world, struct link *link)
{
    end_clear(world, &link->ends[0]);
    end_clear(world, &link->ends[1]);
    base_list_remove(&world->links, &link->in_world);
    free(link);
}

static void end_try_recv(struct world *world, struct end *end);

/* The connection has failed for this end: what it waits for completes. */
static void end_fail(struct world *world, struct end *end, enum port_rc rc)
{
    if (end->error != PORT_OK || end->is_closed) { return; }
    end->error = rc;
    world__timer_stop(world, &end->pump);
    while (!base_list_is_empty(&end->sends)) {
        struct op *op = BASE_ITEM(base_list_first(&end->sends), struct op, in_queue);
        world__op_done(world, op, rc, op->count);
    }
    if (world__draw(world, DICE_SEGMENT, 2) == 0) {
        segments_free(&end->unread, &end->unread_tail, &end->unread_bytes);
    }
    end_try_recv(world, end);
}

/* Its owner lets go of it. is_silent: nobody is told. The link may be gone afterwards. */
static void end_close(struct world *world, struct end *end, bool is_silent, bool is_reset)
{
    CHECK(!end->is_closed);
    if (end->ref != NULL) {
        end->ref->end = NULL;
        end->node->handles -= end->node->handles > 0 ? 1 : 0;
    }
    if (end->group != NULL) { base_list_remove(&end->group->backlog, &end->in_backlog); }
    end->group = NULL;
    end->ref = NULL;
    end->shard = NULL;
    while (!base_list_is_empty(&end->sends)) {
        struct op *op = BASE_ITEM(base_list_first(&end->sends), struct op, in_queue);
        world__op_done(world, op, PORT_CLOSED, op->count);
    }
    if (end->recv != NULL) {
        struct op *recv = end->recv;
        end->recv = NULL;
        world__op_done(world, recv, PORT_CLOSED, 0);
    }
    world__timer_stop(world, &end->pump);
    bool has_unread = end->unread_bytes > 0;
    segments_free(&end->unread, &end->unread_tail, &end->unread_bytes);
    end->is_closed = true;
    end->is_silent = is_silent;
    if (end->peer->is_closed) {
        link_free(world, end->link);
        return;
    }
    if (is_silent || end->error != PORT_OK) { return; }
    if (is_reset || has_unread) {
        end->told_reset = true;
        launch_reset(world, end->peer);
    } else if (!end->sent_end) {
        end->sent_end = true;
        launch_end(world, end->peer);
    }
}

/* ---- receiving ---- */

static void wake_sender(struct world *world, struct end *end)
{
    if (base_list_is_empty(&end->sends) || world__timer_is_set(&end->pump) || end->error != PORT_OK) { return; }
    world__timer_set(world, &end->pump, world->now_ns + 1 + world__draw(world, DICE_SEGMENT, DRAIN_MAX_NS), pump_fire);
}

static uint64_t take_unread(struct end *end, uint8_t *to, uint64_t size_bytes)
{
    uint64_t taken_bytes = 0;
    while (taken_bytes < size_bytes && end->unread != NULL) {
        struct segment *segment = end->unread;
        uint64_t part_bytes = base_min_u64(size_bytes - taken_bytes, segment->size_bytes - segment->used_bytes);
        memcpy(to + taken_bytes, segment->bytes + segment->used_bytes, part_bytes);
        segment->used_bytes += (uint32_t)part_bytes;
        taken_bytes += part_bytes;
        if (segment->used_bytes < segment->size_bytes) { break; }
        end->unread = segment->next;
        if (end->unread == NULL) { end->unread_tail = NULL; }
        free(segment);
    }
    end->unread_bytes -= taken_bytes;
    return taken_bytes;
}

static void end_try_recv(struct world *world, struct end *end)
{
    struct op *op = end->recv;
    if (op == NULL) { return; }
    if (end->unread_bytes == 0 && !end->saw_end && end->error == PORT_OK) { return; }
    end->recv = NULL;
    if (op->effect.size_bytes == 0) {
        world__op_done(world, op, PORT_OK, 0);
        return;
    }
    if (end->unread_bytes > 0) {
        uint64_t count = base_min_u64(op->effect.size_bytes, end->unread_bytes);
        if (count > 1 && world__hit(world, WORLD_NET_SHORT_RECV)) { count = 1 + world__draw(world, DICE_PART, count); }
        world__fill_begin(world, op);
        count = take_unread(end, op->effect.buffer, count);
        world__fill_end(world, op);
        world__op_done(world, op, PORT_OK, count);
        wake_sender(world, end->peer);
        return;
    }
    world__op_done(world, op, end->error != PORT_OK ? end->error : PORT_EOF, 0);
}

/* True: the first segment has to wait. */
static bool is_stuck(struct world *world, struct end *end)
{
    bool is_dead = end->is_silent && end->node->state != WORLD_UP;
    if (!is_dead && !is_blocked(end->peer->node, end->node)) {
        end->stuck_since_ns = UINT64_MAX;
        return false;
    }
    if (end->stuck_since_ns == UINT64_MAX) { end->stuck_since_ns = world->now_ns; }
    if (world->now_ns - end->stuck_since_ns > world->knobs.give_up_ns) {
        segments_free(&end->wire, &end->wire_tail, &end->wire_bytes);
        end_fail(world, end->peer, PORT_TIMED_OUT);
        return true;
    }
    uint64_t retry_ns = world__between(world, DICE_NET_DELAY, RETRY_MIN_NS, RETRY_MAX_NS);
    end->last_at_ns = base_max_u64(end->last_at_ns, world->now_ns + retry_ns);
    world__timer_set(world, &end->arrive, world->now_ns + retry_ns, arrive_fire);
    return true;
}

static void take_bytes(struct world *world, struct end *end, struct segment *segment)
{
    bool is_reset = world__hit(world, WORLD_NET_RESET);
    if (is_reset) { segment->size_bytes = (uint32_t)world__draw(world, DICE_PART, (uint64_t)segment->size_bytes + 1); }
    if (segment->size_bytes == 0) {
        free(segment);
    } else {
        if (end->unread == NULL) {
            end->unread = segment;
        } else {
            end->unread_tail->next = segment;
        }
        end->unread_tail = segment;
        segment->next = NULL;
        end->unread_bytes += segment->size_bytes;
        end_try_recv(world, end);
    }
    if (is_reset) {
        end_fail(world, end, PORT_RESET);
        launch_reset(world, end->peer);
    }
}

static void arrive_fire(struct world *world, struct timer *timer)
{
    struct end *end = BASE_ITEM(timer, struct end, arrive);
    if (is_stuck(world, end)) { return; }
    struct segment *segment = end->wire;
    end->wire = segment->next;
    if (end->wire == NULL) {
        end->wire_tail = NULL;
    } else {
        world__timer_set(world, &end->arrive, end->wire->at_ns, arrive_fire);
    }
    end->wire_bytes -= segment->size_bytes;
    if (segment->kind == SEGMENT_BYTES && !end->is_closed && end->error == PORT_OK) {
        take_bytes(world, end, segment);
        return;
    }
    bool is_reset = segment->kind == SEGMENT_RESET;
    bool is_end = segment->kind == SEGMENT_END;
    free(segment);
    if (end->is_closed || end->error != PORT_OK) {
        if (!is_reset && (!is_end || end->is_silent) && !end->told_reset) {
            end->told_reset = true;
            launch_reset(world, end->peer);
        }
        return;
    }
    if (is_reset) {
        end_fail(world, end, PORT_RESET);
    } else {
        end->saw_end = true;
        end_try_recv(world, end);
    }
}

/* ---- sending ---- */

/* The next bytes of a send into `to`. False: a range was cut short. */
static bool gather(struct world *world, struct op *op, uint8_t *to, uint32_t size_bytes, uint32_t *count_out)
{
    uint32_t count = 0;
    while (count < size_bytes && op->piece_at < op->effect.piece_count) {
        const struct port_piece *piece = &op->effect.pieces[op->piece_at];
        uint64_t part_bytes = base_min_u64(size_bytes - count, piece->size_bytes - op->piece_used);
        if (piece->kind == PORT_MEMORY && part_bytes > 0) {
            memcpy(to + count, piece->at + op->piece_used, part_bytes);
        } else if (part_bytes > 0) {
            part_bytes = world__range_read(world, op, to + count, part_bytes);
            if (part_bytes == 0) { return false; }
        }
        count += (uint32_t)part_bytes;
        op->piece_used += part_bytes;
        if (op->piece_used < piece->size_bytes) { continue; }
        op->piece_at += 1;
        op->piece_used = 0;
    }
    *count_out = count;
    return true;
}

static uint32_t segment_bytes(struct world *world, uint64_t room_bytes)
{
    uint64_t most = base_min_u64(room_bytes, world->knobs.segment_max_bytes);
    if (world__hit(world, WORLD_NET_CUT)) {
        return (uint32_t)(1 + world__draw(world, DICE_SEGMENT, base_min_u64(most, CUT_MAX_BYTES)));
    }
    if (world__draw(world, DICE_SEGMENT, 4) == 0) { return (uint32_t)(1 + world__draw(world, DICE_SEGMENT, most)); }
    return (uint32_t)most;
}

static uint64_t left_to_send(const struct op *op, uint64_t enough_bytes)
{
    uint64_t left_bytes = 0;
    for (uint32_t i = op->piece_at; i < op->effect.piece_count && left_bytes < enough_bytes; i++) {
        left_bytes += op->effect.pieces[i].size_bytes - (i == op->piece_at ? op->piece_used : 0);
    }
    return base_min_u64(left_bytes, enough_bytes);
}

/* One segment of the first send. False: nothing more can leave now. */
static bool pump_once(struct world *world, struct end *end)
{
    if (base_list_is_empty(&end->sends)) { return false; }
    struct op *op = BASE_ITEM(base_list_first(&end->sends), struct op, in_queue);
    if (op->effect.kind == PORT_SHUT && !end->sent_end) {
        end->sent_end = true;
        launch_end(world, end->peer);
        world__op_done(world, op, PORT_OK, 0);
        return true;
    }
    if (end->sent_end) { /* asked after the SHUT */
        world__op_done(world, op, PORT_RESET, 0);
        return true;
    }
    uint64_t used_bytes = end->peer->wire_bytes + end->peer->unread_bytes;
    uint64_t room_bytes = used_bytes < end->link->buffer_bytes ? end->link->buffer_bytes - used_bytes : 0;
    uint32_t want_bytes = 0;
    if (left_to_send(op, 1) > 0) {
        if (room_bytes == 0) { return false; }
        want_bytes = (uint32_t)left_to_send(op, segment_bytes(world, room_bytes));
    }
    if (want_bytes > 0) {
        struct segment *segment = segment_create(want_bytes);
        if (!gather(world, op, segment->bytes, want_bytes, &segment->size_bytes)) {
            free(segment);
            launch_reset(world, end->peer);
            end_fail(world, end, PORT_IO);
            return false;
        }
        op->count += segment->size_bytes;
        launch(world, end->peer, segment);
    }
    if (left_to_send(op, 1) == 0) { world__op_done(world, op, PORT_OK, op->count); }
    return true;
}

static void pump_fire(struct world *world, struct timer *timer)
{
    struct end *end = BASE_ITEM(timer, struct end, pump);
    if (pump_once(world, end)) { wake_sender(world, end); }
}

static void start_send(struct world *world, struct op *op)
{
    struct end *end = op->ref->end;
    if (end == NULL || end->error != PORT_OK || end->sent_end) {
        world__op_done(world, op, end == NULL || end->error == PORT_OK ? PORT_RESET : end->error, 0);
        return;
    }
    if (op->effect.kind == PORT_SEND && !world__leases_take(world, op)) {
        world__op_done(world, op, PORT_IO, 0);
        launch_reset(world, end->peer);
        end_fail(world, end, PORT_IO);
        return;
    }
    op->queue = &end->sends;
    base_list_push_back(&end->sends, &op->in_queue);
    bool is_first = end->sends.count == 1 && !world__timer_is_set(&end->pump);
    if (is_first && world__draw(world, DICE_SEGMENT, 4) > 0 && !pump_once(world, end)) { return; }
    wake_sender(world, end);
}

static void start_recv(struct world *world, struct op *op)
{
    struct end *end = op->ref->end;
    if (end == NULL) {
        world__op_done(world, op, PORT_RESET, 0);
        return;
    }
    if (end->recv != NULL) {
        world__breach(world, op->shard, "two RECVs at once on connection %u.%u", (unsigned)op->ref->slot,
                      (unsigned)op->ref->generation);
        world__op_done(world, op, PORT_OTHER, 0);
        return;
    }
    end->recv = op;
    end_try_recv(world, end);
}

/* ---- listening and accepting ---- */

static bool same_ip(const struct port_address *a, const struct port_address *b)
{
    return memcmp(a->ip, b->ip, 16) == 0;
}

/* Who listens for what comes to `address` of this node. */
static struct group *group_for(const struct node *node, const struct port_address *address)
{
    for (struct base_link *at = base_list_first(&node->groups); at != NULL; at = base_list_next(&node->groups, at)) {
        struct group *group = BASE_ITEM(at, struct group, in_node);
        if (group->address.port != address->port) { continue; }
        if (is_any(&group->address) || is_any(address) || same_ip(&group->address, address)) { return group; }
    }
    return NULL;
}

static struct group *group_create(struct node *node, const struct port_address *address)
{
    struct group *group = world__alloc(sizeof *group);
    group->address = *address;
    base_list_init(&group->bindings);
    base_list_init(&group->backlog);
    base_list_push_back(&node->groups, &group->in_node);
    return group;
}

static bool has_binding_of(const struct group *group, const struct shard *shard)
{
    for (struct base_link *at = base_list_first(&group->bindings); at != NULL;
         at = base_list_next(&group->bindings, at)) {
        if (BASE_ITEM(at, struct binding, in_group)->shard == shard) { return true; }
    }
    return false;
}

/* Another shard of the node asked for the same address and any port: its port is the one. */
static struct group *group_to_join(const struct shard *shard, const struct port_address *address)
{
    const struct base_list *groups = &shard->node->groups;
    for (struct base_link *at = base_list_first(groups); at != NULL; at = base_list_next(groups, at)) {
        struct group *group = BASE_ITEM(at, struct group, in_node);
        if (group->is_any_port && same_ip(&group->address, address) && !has_binding_of(group, shard)) { return group; }
    }
    return NULL;
}

static void start_listen(struct world *world, struct op *op)
{
    struct node *node = op->shard->node;
    struct port_address address = op->effect.address;
    if (node_of(world, node, &address) != node) {
        world__op_done(world, op, PORT_UNREACHABLE, 0);
        return;
    }
    bool is_any_port = address.port == 0;
    if (is_any_port) {
        struct group *shared = group_to_join(op->shard, &address);
        if (shared != NULL) { address.port = shared->address.port; }
    }
    for (uint32_t tries = 0; address.port == 0 && tries < 20000; tries++) {
        struct port_address tried = address;
        tried.port = node->next_port;
        node->next_port = (uint16_t)(node->next_port >= 60000 ? 32768 : node->next_port + 1);
        if (group_for(node, &tried) == NULL) { address.port = tried.port; }
    }
    struct group *group = group_for(node, &address);
    if (group != NULL && (!same_ip(&group->address, &address) || has_binding_of(group, op->shard))) {
        world__op_done(world, op, PORT_IN_USE, 0);
        return;
    }
    if (group == NULL) {
        group = group_create(node, &address);
        group->is_any_port = is_any_port;
    }
    struct binding *binding = world__alloc(sizeof *binding);
    binding->group = group;
    binding->ref = op->ref;
    binding->shard = op->shard;
    base_list_init(&binding->accepts);
    base_list_push_back(&group->bindings, &binding->in_group);
    op->ref->binding = binding;
    op->address = address;
    world__op_done(world, op, PORT_OK, 0);
}

/* Any shard with an accept may get the next connection. NULL: none has one. */
static struct op *pick_accept(struct world *world, struct group *group)
{
    uint32_t ready_count = 0;
    struct op *picked = NULL;
    for (struct base_link *at = base_list_first(&group->bindings); at != NULL;
         at = base_list_next(&group->bindings, at)) {
        struct binding *binding = BASE_ITEM(at, struct binding, in_group);
        if (base_list_is_empty(&binding->accepts)) { continue; }
        ready_count += 1;
        if (ready_count == 1 || world__draw(world, DICE_ACCEPT, ready_count) == 0) {
            picked = BASE_ITEM(base_list_first(&binding->accepts), struct op, in_queue);
        }
    }
    return picked;
}

static void serve(struct world *world, struct group *group)
{
    while (!base_list_is_empty(&group->backlog)) {
        struct op *op = pick_accept(world, group);
        if (op == NULL) { return; }
        struct node *node = op->shard->node;
        if (node->handles >= world->knobs.handles_max || world__hit(world, WORLD_NET_NO_HANDLES)) {
            world__op_done(world, op, PORT_NO_HANDLES, 0);
            continue;
        }
        struct end *end = BASE_ITEM(base_list_pop_front(&group->backlog), struct end, in_backlog);
        end->group = NULL;
        end->shard = op->shard;
        end->ref = op->ref;
        op->ref->end = end;
        node->handles += 1;
        op->address = end->peer->address;
        world__op_done(world, op, PORT_OK, 0);
    }
}

static void start_accept(struct world *world, struct op *op)
{
    struct ref *ref = world__ref(op->shard, REF_LISTENER, op->effect.listener.slot);
    if (ref == NULL || ref->state == REF_FREE || ref->state == REF_PENDING ||
        ref->generation != op->effect.listener.generation) {
        world__breach(world, op->shard, "ACCEPT names listener %u.%u, which is not open",
                      (unsigned)op->effect.listener.slot, (unsigned)op->effect.listener.generation);
        world__op_done(world, op, PORT_CLOSED, 0);
        return;
    }
    if (ref->state == REF_CLOSING) {
        world__op_done(world, op, PORT_CLOSED, 0);
        return;
    }
    op->queue = &ref->binding->accepts;
    base_list_push_back(&ref->binding->accepts, &op->in_queue);
    serve(world, ref->binding->group);
}

static void binding_free(struct world *world, struct binding *binding)
{
    struct group *group = binding->group;
    while (!base_list_is_empty(&binding->accepts)) {
        world__op_done(world, BASE_ITEM(base_list_first(&binding->accepts), struct op, in_queue), PORT_CLOSED, 0);
    }
    base_list_remove(&group->bindings, &binding->in_group);
    struct node *node = binding->shard->node;
    free(binding);
    if (!base_list_is_empty(&group->bindings)) { return; }
    while (!base_list_is_empty(&group->backlog)) {
        end_close(world, BASE_ITEM(base_list_first(&group->backlog), struct end, in_backlog), false, true);
    }
    base_list_remove(&node->groups, &group->in_node);
    free(group);
}

/* ---- connecting ---- */

static void connect_fire(struct world *world, struct timer *timer);

static void connect_again(struct world *world, struct op *op)
{
    uint64_t at_ns = world->now_ns + world__between(world, DICE_NET_DELAY, RETRY_MIN_NS, RETRY_MAX_NS);
    if (at_ns > op->cover) { /* the deadline */
        world__op_done(world, op, PORT_TIMED_OUT, 0);
        return;
    }
    world__timer_set(world, &op->timer, at_ns, connect_fire);
}

static void connected_fire(struct world *world, struct timer *timer)
{
    world__op_done(world, BASE_ITEM(timer, struct op, timer), PORT_OK, 0);
}

/* The first packet is at the other side. */
static void connect_fire(struct world *world, struct timer *timer)
{
    struct op *op = BASE_ITEM(timer, struct op, timer);
    struct node *from = op->shard->node;
    struct node *to = node_of(world, from, &op->effect.address);
    if (to == NULL) {
        world__op_done(world, op, PORT_UNREACHABLE, 0);
        return;
    }
    bool is_dark = to->state == WORLD_DOWN && world__hit(world, WORLD_NET_HALF_OPEN);
    if (is_blocked(from, to) || is_blocked(to, from) || is_dark) {
        connect_again(world, op);
        return;
    }
    struct group *group = group_for(to, &op->effect.address);
    if (to->state != WORLD_UP || group == NULL || world__hit(world, WORLD_NET_REFUSE)) {
        world__op_done(world, op, PORT_REFUSED, 0);
        return;
    }
    if (group->backlog.count >= world->knobs.backlog_max) {
        connect_again(world, op);
        return;
    }
    struct link *link = link_create(world, from, to);
    struct end *end = &link->ends[0];
    end->shard = op->shard;
    end->ref = op->ref;
    end->address = world__address(from->index, from->next_port);
    from->next_port = (uint16_t)(from->next_port >= 60000 ? 32768 : from->next_port + 1);
    op->ref->end = end;
    from->handles += 1;
    link->ends[1].address = op->effect.address;
    link->ends[1].group = group;
    base_list_push_back(&group->backlog, &link->ends[1].in_backlog);
    world__timer_set(world, &op->timer, world->now_ns + net_delay_ns(world), connected_fire);
    serve(world, group);
}

static void timed_out_fire(struct world *world, struct timer *timer)
{
    world__op_done(world, BASE_ITEM(timer, struct op, timer), PORT_TIMED_OUT, 0);
}

static void start_connect(struct world *world, struct op *op)
{
    if (op->shard->node->handles >= world->knobs.handles_max || world__hit(world, WORLD_NET_NO_HANDLES)) {
        world__op_done(world, op, PORT_NO_HANDLES, 0);
        return;
    }
    op->cover = world->now_ns + world->knobs.connect_timeout_ns;
    if (world__hit(world, WORLD_NET_TIMEOUT)) {
        world__timer_set(world, &op->timer, op->cover, timed_out_fire);
        return;
    }
    world__timer_set(world, &op->timer, world->now_ns + net_delay_ns(world), connect_fire);
}

/* ---- names of hosts ---- */

static void resolve_fire(struct world *world, struct timer *timer)
{
    struct op *op = BASE_ITEM(timer, struct op, timer);
    struct base_slice name = op->effect.path;
    struct port_address address;
    int64_t index = -1;
    if (world__hit(world, WORLD_NET_RESOLVE)) {
        world__op_done(world, op, PORT_UNREACHABLE, 0);
        return;
    }
    if (port_address_from_text(name, &address) == BASE_OK) {
        op->address = address;
    } else if (base_slice_equal(name, base_slice_text("localhost"))) {
        op->address = (struct port_address){.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
    } else if (name.size_bytes > 1 && name.at[0] == 'n' &&
               base_text_parse_i64(base_slice_of(name.at + 1, name.size_bytes - 1), &index) == BASE_OK && index >= 0 &&
               index < (int64_t)world->node_count) {
        op->address = world__address((uint32_t)index, 0);
    } else {
        world__op_done(world, op, PORT_UNREACHABLE, 0);
        return;
    }
    op->address.port = 0;
    world__op_done(world, op, PORT_OK, 0);
}

/* ---- the ways in ---- */

void world__net_effect(struct world *world, struct op *op)
{
    switch ((int)op->effect.kind) {
    case PORT_LISTEN: start_listen(world, op); break;
    case PORT_ACCEPT: start_accept(world, op); break;
    case PORT_CONNECT: start_connect(world, op); break;
    case PORT_RECV: start_recv(world, op); break;
    case PORT_SEND:
    case PORT_SHUT: start_send(world, op); break;
    case PORT_RESOLVE:
        world__timer_set(world, &op->timer, world->now_ns + 2 * net_delay_ns(world), resolve_fire);
        break;
    default: UNREACHABLE();
    }
}

void world__net_close(struct world *world, struct ref *ref)
{
    if (ref->opening != NULL) { world__op_done(world, ref->opening, PORT_CLOSED, 0); }
    if (ref->end != NULL) { end_close(world, ref->end, false, false); }
    if (ref->binding != NULL) {
        struct binding *binding = ref->binding;
        ref->binding = NULL;
        binding_free(world, binding);
    }
}

void world__net_free_ref(struct world *world, struct ref *ref) { world__net_close(world, ref); }

void world__net_drop(struct world *world, struct node *node, bool is_power)
{
    for (uint32_t i = 0; i < node->spec.shard_count; i++) {
        struct ref_table *table = &node->shards[i].refs[REF_CONN];
        for (uint32_t slot = 0; slot < table->refs_max; slot++) {
            struct ref *ref = table->refs[slot];
            if (ref == NULL || ref->end == NULL) { continue; }
            bool is_silent = is_power && world__hit(world, WORLD_NET_HALF_OPEN);
            end_close(world, ref->end, is_silent, is_power);
        }
    }
    for (struct base_link *at = base_list_first(&node->groups); at != NULL; at = base_list_next(&node->groups, at)) {
        struct group *group = BASE_ITEM(at, struct group, in_node);
        while (!base_list_is_empty(&group->backlog)) {
            bool is_silent = is_power && world__hit(world, WORLD_NET_HALF_OPEN);
            end_close(world, BASE_ITEM(base_list_first(&group->backlog), struct end, in_backlog), is_silent, true);
        }
    }
}

void world__net_destroy(struct world *world)
{
    while (!base_list_is_empty(&world->links)) {
        link_free(world, BASE_ITEM(base_list_first(&world->links), struct link, in_world));
    }
}
