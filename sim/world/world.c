/* world.c: nodes from boot to crash, and the loop that gives each shard one event at a time.
 *
 * Room    sim/world; the interface is world.h.
 * Loop    what is for a shard queues in its `ready` list; its timer fires at free_at (a step takes a little time), or at its
 *         alarm. With nothing ready: TURN and CONTINUE, as steps wished. What of two comes first where port.h leaves it
 *         open, the dice say.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- failures and observers ---- */

__attribute__((format(printf, 4, 0))) static void add_failure(struct world *world, uint32_t node, uint32_t shard,
                                                              const char *format, va_list arguments)
{
    char words[512];
    (void)vsnprintf(words, sizeof words, format, arguments); /* cut when too long: still tells what broke */
    char line[640];
    if (node == WORLD_NONE) {
        (void)snprintf(line, sizeof line, "t=%llu: %s", (unsigned long long)world->now_ns, words);
    } else if (shard == WORLD_NONE) {
        (void)snprintf(line, sizeof line, "t=%llu n%u: %s", (unsigned long long)world->now_ns, (unsigned)node, words);
    } else {
        (void)snprintf(line, sizeof line, "t=%llu n%u/%u: %s", (unsigned long long)world->now_ns, (unsigned)node,
                       (unsigned)shard, words);
    }
    world->failures += 1;
    world__trace_note(world, node, line);
    if (world->failure != NULL) { return; }
    world->failure = world__alloc(strlen(line) + 1);
    memcpy(world->failure, line, strlen(line) + 1);
}

void world_fail(struct world *world, uint32_t node, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_failure(world, node, WORLD_NONE, format, arguments);
    va_end(arguments);
}

void world__breach(struct world *world, const struct shard *shard, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_failure(world, shard->node->index, shard->index, format, arguments);
    va_end(arguments);
}

const char *world_failure(const struct world *world) { return world->failure; }
uint32_t world_failures(const struct world *world) { return world->failures; }

void world_observe(struct world *world, const struct world_observer *observer)
{
    CHECK(world->observer_count < WORLD_OBSERVERS_MAX);
    world->observers[world->observer_count] = *observer;
    world->observer_count += 1;
}

#define OBSERVE(world, member, ...)                                                         \
    for (uint32_t observer_at = 0; observer_at < (world)->observer_count; observer_at++) {  \
        const struct world_observer *observer = &(world)->observers[observer_at];           \
        if (observer->member != NULL) { observer->member(observer->context, __VA_ARGS__); } \
    }

/* ---- a node's clocks ---- */

static uint64_t with_drift(const struct node *node, uint64_t span_ns)
{
    int64_t drift_ns =
        (int64_t)(span_ns / 1000000) * node->drift_ppm +
        (int64_t)(span_ns % 1000000) * node->drift_ppm / 1000000; /* in two parts: no overflow, no step back */
    return (uint64_t)((int64_t)span_ns + drift_ns);
}

uint64_t world__node_now(const struct world *world, const struct node *node)
{
    return node->clock_offset_ns + with_drift(node, world->now_ns - node->clock_zero_ns);
}

/* When (about) the node's clock will show `node_ns`: a shard that wakes too early looks again. */
static uint64_t world_time_of(const struct world *world, const struct node *node, uint64_t node_ns)
{
    uint64_t now_ns = world__node_now(world, node);
    if (node_ns <= now_ns) { return world->now_ns; }
    uint64_t left_ns = node_ns - now_ns;
    int64_t less_ns = (int64_t)(left_ns / 1000000) * node->drift_ppm;
    if (less_ns > 0 && (uint64_t)less_ns >= left_ns) { less_ns = 0; }
    left_ns = (uint64_t)((int64_t)base_min_u64(left_ns, (uint64_t)INT64_MAX / 4) - less_ns);
    return base_deadline_ns(world->now_ns, left_ns + 1);
}

static int64_t node_wall_ms(const struct world *world, const struct node *node)
{
    uint64_t since_ns = with_drift(node, world->now_ns - node->clock_zero_ns); /* it is set at each boot, and drifts */
    return world->knobs.wall_start_ms + (int64_t)((node->clock_zero_ns + since_ns) / WORLD_MS) + node->wall_step_ms;
}

/* ---- the shard's loop ---- */

static void shard_fire(struct world *world, struct timer *timer);

static bool is_running(const struct shard *shard)
{
    return shard->node->state == WORLD_UP && !shard->is_stopped && shard->machine != NULL;
}

static void plan(struct world *world, struct shard *shard)
{
    if (!is_running(shard)) {
        world__timer_stop(world, &shard->timer);
        return;
    }
    uint64_t at_ns = UINT64_MAX;
    if (shard->ready != NULL || shard->wants_turn || shard->wants_continue) {
        at_ns = world->now_ns;
    } else if (shard->alarm_ns != UINT64_MAX) {
        at_ns = world_time_of(world, shard->node, shard->alarm_ns);
    }
    if (at_ns == UINT64_MAX) {
        world__timer_stop(world, &shard->timer);
        return;
    }
    at_ns = base_max_u64(at_ns, shard->free_at_ns);
    if (world__timer_is_set(&shard->timer) && shard->timer.at_ns == at_ns) { return; }
    world__timer_set(world, &shard->timer, at_ns, shard_fire);
}

void world__ready(struct world *world, struct shard *shard, struct ready *ready)
{
    ready->next = NULL;
    if (shard->ready == NULL) {
        shard->ready = ready;
    } else {
        shard->ready_tail->next = ready;
    }
    shard->ready_tail = ready;
    if (world->stepping_node != shard->node->index || world->stepping_shard != shard->index) { plan(world, shard); }
}

static void free_message(struct world *world, struct message *message)
{
    base_list_remove(&message->shard->messages, &message->in_shard);
    world__timer_stop(world, &message->timer);
    message->ready.next = world->free_messages == NULL ? NULL : &world->free_messages->ready;
    world->free_messages = message;
}

static void take_ready(struct world *world, struct shard *shard, struct port_event *event, struct base_slice *payload)
{
    struct ready *ready = shard->ready;
    shard->ready = ready->next;
    if (shard->ready == NULL) { shard->ready_tail = NULL; }
    switch (ready->kind) {
    case READY_START:
        event->kind = PORT_EVENT_START;
        shard->has_start = false;
        break;
    case READY_STOP:
        event->kind = PORT_EVENT_STOP;
        shard->has_stop = false;
        break;
    case READY_OP: world__op_deliver(world, BASE_ITEM(ready, struct op, ready), event, payload); break;
    case READY_MESSAGE: {
        struct message *message = BASE_ITEM(ready, struct message, ready);
        event->kind = PORT_EVENT_MESSAGE;
        event->message = message->message;
        free_message(world, message);
        break;
    }
    }
}

/* False: nothing to give after all (the alarm is not due yet by the node's clock). */
static bool choose_event(struct world *world, struct shard *shard, struct port_event *event, struct base_slice *payload)
{
    bool is_due = event->now_ns >= shard->alarm_ns;
    bool has_other = shard->ready != NULL || shard->wants_turn || shard->wants_continue;
    if (is_due && (!has_other || world__draw(world, DICE_STEP, 2) == 0)) {
        event->kind = PORT_EVENT_ALARM;
        return true;
    }
    if (shard->ready != NULL) {
        take_ready(world, shard, event, payload);
        return true;
    }
    if (shard->wants_turn && (!shard->wants_continue || world__draw(world, DICE_STEP, 2) == 0)) {
        event->kind = PORT_EVENT_TURN;
        shard->wants_turn = false;
        return true;
    }
    event->kind = PORT_EVENT_CONTINUE;
    bool is_wished = shard->wants_continue;
    shard->wants_continue = false;
    return is_wished;
}

static void message_fire(struct world *world, struct timer *timer)
{
    struct message *message = BASE_ITEM(timer, struct message, timer);
    world__ready(world, message->shard, &message->ready);
}

/* `order`: messages of one sender arrive in order; WORLD_SHARDS_MAX is the outside. */
static void post(struct world *world, struct shard *to, const struct port_message *sent, uint32_t order, uint16_t from)
{
    if (!is_running(to)) { return; }
    struct message *message = world->free_messages;
    if (message == NULL) {
        message = world__alloc(sizeof *message);
    } else {
        world->free_messages =
            message->ready.next == NULL ? NULL : BASE_ITEM(message->ready.next, struct message, ready);
        memset(message, 0, sizeof *message);
    }
    message->ready.kind = READY_MESSAGE;
    message->shard = to;
    message->message = *sent;
    message->message.from = from;
    base_list_push_back(&to->messages, &message->in_shard);
    if (order == to->index) { /* to itself: nothing to travel */
        world__ready(world, to, &message->ready);
        return;
    }
    uint64_t delay_ns =
        world__between(world, DICE_MESSAGE, world->knobs.message_delay_min_ns, world->knobs.message_delay_max_ns);
    if (world__hit(world, WORLD_MESSAGE_LATE)) { delay_ns += world__slow_ns(world, DICE_MESSAGE); }
    uint64_t at_ns = base_max_u64(world->now_ns + delay_ns, to->message_last_ns[order] + 1);
    to->message_last_ns[order] = at_ns;
    world__timer_set(world, &message->timer, at_ns, message_fire);
}

static void send_message(struct world *world, struct shard *from, const struct port_message *sent)
{
    world__hash_message(world, from->node->index, from->index, sent);
    if (world->trace != NULL) { world__trace_message(world, from, sent); }
    OBSERVE(world, on_message, from->node->index, from->index, sent);
    if (sent->to >= from->node->spec.shard_count) {
        world__breach(world, from, "message to shard %u, which is not there", (unsigned)sent->to);
        return;
    }
    post(world, &from->node->shards[sent->to], sent, from->index, (uint16_t)from->index);
}

static void carry_out(struct world *world, struct shard *shard)
{
    struct node *node = shard->node;
    struct port_out *out = &world->out;
    if (out->effect_count > out->effects_max || out->message_count > out->messages_max) {
        world__breach(world, shard, "more effects or messages than fit");
        return;
    }
    for (uint32_t i = 0; i < out->effect_count; i++) {
        const struct port_effect *effect = &out->effects[i];
        if (world__crashes_before(world, node, (uint32_t)effect->kind)) {
            if (i > 0) { world__count(world, WORLD_CRASH_MID_STEP); }
            return;
        }
        world__hash_effect(world, node->index, shard->index, effect);
        if (world->trace != NULL) { world__trace_effect(world, shard, effect); }
        OBSERVE(world, on_effect, node->index, shard->index, effect);
        world__effect(world, shard, effect);
    }
    for (uint32_t i = 0; i < out->message_count; i++) {
        if (world__crashes_before(world, node, WORLD_BEFORE_MESSAGE)) {
            if (i + out->effect_count > 0) { world__count(world, WORLD_CRASH_MID_STEP); }
            return;
        }
        send_message(world, shard, &out->messages[i]);
    }
}

static void crash_those_due(struct world *world)
{
    world->has_crash_due = false;
    for (uint32_t i = 0; i < world->node_count; i++) {
        struct node *node = world->nodes[i];
        if (!node->crash_is_due) { continue; }
        node->crash_is_due = false;
        world__crash_now(world, node, node->crash_kind);
    }
}

static void slow_down(struct world *world, struct shard *shard)
{
    if (world__hit(world, WORLD_SHARD_SLOW)) { shard->free_at_ns += world__slow_ns(world, DICE_STEP); }
    if (world__hit(world, WORLD_NODE_PAUSE)) {
        world_pause(world, shard->node->index, world__slow_ns(world, DICE_STEP));
    }
}

static void hold_if_due(struct world *world, struct shard *shard)
{
    if (shard->hold_ns == 0) { return; }
    if (shard->hold_steps > 0) {
        shard->hold_steps -= 1;
        return;
    }
    shard->free_at_ns = base_max_u64(shard->free_at_ns, world->now_ns + shard->hold_ns);
    shard->hold_ns = 0;
    world__count(world, WORLD_SHARD_HELD);
}

static void stop_if_all_stopped(struct world *world, struct node *node);

static void shard_fire(struct world *world, struct timer *timer)
{
    struct shard *shard = BASE_ITEM(timer, struct shard, timer);
    struct node *node = shard->node;
    struct port_event event;
    memset(&event, 0, sizeof event);
    event.now_ns = world__node_now(world, node);
    event.wall_ms = node_wall_ms(world, node);
    struct base_slice payload = {0};
    if (!choose_event(world, shard, &event, &payload)) {
        plan(world, shard);
        return;
    }
    world->events += 1;
    world->was_seen = true;
    world->stepping_node = node->index;
    world->stepping_shard = shard->index;
    world->hash =
        port_hash_event(base_hash_u64(world->hash ^ world->now_ns), node->index, shard->index, &event, payload);
    if (world->trace != NULL) { world__trace_event(world, shard, &event, payload); }
    OBSERVE(world, on_event, node->index, shard->index, &event, payload, shard->machine);
    port_out_begin(&world->out);
    node->spec.machine->step(shard->machine, &event, &world->out);
    shard->alarm_ns = world->out.alarm_ns;
    shard->wants_turn |= world->out.wants_turn;
    shard->wants_continue |= world->out.wants_continue;
    shard->free_at_ns =
        world->now_ns + world__between(world, DICE_STEP, world->knobs.step_cost_min_ns, world->knobs.step_cost_max_ns);
    slow_down(world, shard);
    OBSERVE(world, on_step, node->index, shard->index, &world->out, shard->machine);
    carry_out(world, shard);
    hold_if_due(world, shard);
    world->stepping_node = WORLD_NONE;
    world->stepping_shard = WORLD_NONE;
    if (world->has_crash_due) { crash_those_due(world); }
    plan(world, shard);
    stop_if_all_stopped(world, node);
}

/* ---- boot, crash, stop ---- */

static void boot_shard(struct world *world, struct node *node, uint32_t index)
{
    struct shard *shard = &node->shards[index];
    size_t region_bytes = (node->spec.region_bytes + 4095) / 4096 * 4096;
    memset(shard, 0, sizeof *shard);
    shard->world = world;
    shard->node = node;
    shard->index = index;
    shard->alarm_ns = UINT64_MAX;
    base_list_init(&shard->ops);
    base_list_init(&shard->messages);
    if (region_bytes > 0) {
        void *at = mmap(NULL, region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(at != MAP_FAILED);
        shard->region = (struct base_region){.at = at, .size_bytes = region_bytes};
    }
    struct world_boot boot = {
        .node = node->index,
        .shard = index,
        .shard_count = node->spec.shard_count,
        .disk_count = node->spec.disk_count,
        .boot_count = node->boot_count,
        .seed = base_prng_u64(world__dice(world, DICE_BOOT)),
        .address = world__address(node->index, 0),
        .region = shard->region,
    };
    shard->machine = node->spec.machine->create(node->spec.context, &boot);
    CHECK(shard->machine != NULL);
}

static void boot(struct world *world, struct node *node)
{
    CHECK(node->state != WORLD_UP);
    world__timer_stop(world, &node->restart);
    node->boot_count += 1;
    node->handles = 0;
    for (uint32_t i = 0; world->knobs.evicts_at_boot && i < node->spec.disk_count; i++) {
        world__evict(&node->disks[i]);
    }
    if (world->knobs.clock_heal_max_ns > 0) { node->wall_step_ms = 0; } /* set right at each start */
    node->clock_zero_ns = world->now_ns;
    node->clock_offset_ns = WORLD_S + world__draw(world, DICE_BOOT, 1000 * WORLD_S);
    uint64_t drift_max_ppm = world->knobs.drift_max_ppm;
    node->drift_ppm =
        drift_max_ppm == 0 ? 0 : (int64_t)world__draw(world, DICE_BOOT, 2 * drift_max_ppm + 1) - (int64_t)drift_max_ppm;
    for (uint32_t i = 0; i < node->spec.shard_count; i++) { boot_shard(world, node, i); }
    node->state = WORLD_UP;
    world__trace_note(world, node->index, "boot");
    OBSERVE(world, on_boot, node->index);
    for (uint32_t i = 0; i < node->spec.shard_count; i++) {
        struct shard *shard = &node->shards[i];
        shard->free_at_ns = world->now_ns + 1 + world__draw(world, DICE_BOOT, 100 * WORLD_US);
        shard->start.kind = READY_START;
        shard->has_start = true;
        world__ready(world, shard, &shard->start);
    }
    if (!world__timer_is_set(&world->second)) {
        world__timer_set(world, &world->second, world->now_ns + WORLD_S, world__second_fire);
    }
}

/* Everything a node has in memory goes; disks stay. */
static void drop_node(struct world *world, struct node *node, enum world_state state, bool is_power)
{
    for (uint32_t i = 0; i < node->spec.shard_count; i++) {
        struct shard *shard = &node->shards[i];
        world__timer_stop(world, &shard->timer);
        shard->ready = NULL;
        shard->ready_tail = NULL;
        while (!base_list_is_empty(&shard->messages)) {
            free_message(world, BASE_ITEM(base_list_first(&shard->messages), struct message, in_shard));
        }
        while (!base_list_is_empty(&shard->ops)) {
            world__op_free(world, BASE_ITEM(base_list_first(&shard->ops), struct op, in_shard));
        }
    }
    world__net_drop(world, node, is_power);
    for (uint32_t i = 0; i < node->spec.shard_count; i++) {
        struct shard *shard = &node->shards[i];
        world__shard_drop(world, shard);
        if (node->spec.machine->destroy != NULL) { node->spec.machine->destroy(node->spec.context, shard->machine); }
        shard->machine = NULL;
        if (shard->region.at != NULL) { CHECK(munmap(shard->region.at, shard->region.size_bytes) == 0); }
        shard->region = (struct base_region){0};
    }
    for (uint32_t i = 0; i < node->spec.disk_count; i++) { world__disk_outlives(&node->disks[i]); }
    node->handles = 0;
    node->state = state;
}

static void restart_fire(struct world *world, struct timer *timer)
{
    struct node *node = BASE_ITEM(timer, struct node, restart);
    world->was_seen = true;
    boot(world, node);
}

void world__crash_now(struct world *world, struct node *node, enum world_crash kind)
{
    if (node->state != WORLD_UP) { return; }
    world->was_seen = true;
    world->hash = base_hash_u64(world->hash ^ world->now_ns ^ ((uint64_t)node->index << 32 | (uint64_t)kind | 0x100));
    world__trace_note(world, node->index, kind == WORLD_POWER ? "crash: power" : "crash: process");
    OBSERVE(world, on_crash, node->index, kind);
    drop_node(world, node, WORLD_DOWN, kind == WORLD_POWER);
    if (kind == WORLD_POWER) {
        uint64_t first = 0;
        for (uint32_t i = 0; i < node->spec.disk_count; i++) {
            first = world__power_cut(world, &node->disks[i], first);
        }
    }
    node->cut_keep = WORLD_KEEP_ANY;
    if (world->knobs.restart_delay_max_ns > 0) {
        uint64_t delay_ns = 1 + world__draw(world, DICE_BOOT, world->knobs.restart_delay_max_ns);
        world__timer_set(world, &node->restart, world->now_ns + delay_ns, restart_fire);
    }
}

static void check_stopped(struct world *world, struct node *node)
{
    for (uint32_t i = 0; i < node->spec.shard_count; i++) {
        struct shard *shard = &node->shards[i];
        for (struct base_link *link = base_list_first(&shard->ops); link != NULL;
             link = base_list_next(&shard->ops, link)) {
            struct op *op = BASE_ITEM(link, struct op, in_shard);
            world__breach(world, shard, "I25: stopped while %s token=%llu was outstanding",
                          port_effect_name(op->effect.kind), (unsigned long long)op->effect.token);
        }
        static const char *const names[REF_KINDS] = {"connection", "listener", "file"};
        for (uint32_t kind = 0; kind < REF_KINDS; kind++) {
            for (uint32_t slot = 0; slot < shard->refs[kind].refs_max; slot++) {
                const struct ref *ref = shard->refs[kind].refs[slot];
                if (ref == NULL || ref->state == REF_FREE) { continue; }
                world__breach(world, shard, "I25: stopped with %s %u.%u open", names[kind], (unsigned)slot,
                              (unsigned)ref->generation);
            }
        }
    }
}

void world__shard_stopped(struct world *world, struct shard *shard)
{
    (void)world;
    shard->is_stopped = true;
}

static void stop_if_all_stopped(struct world *world, struct node *node)
{
    if (node->state != WORLD_UP) { return; }
    for (uint32_t i = 0; i < node->spec.shard_count; i++) {
        if (!node->shards[i].is_stopped) { return; }
    }
    if (world->knobs.checks_stopped) { check_stopped(world, node); }
    world__trace_note(world, node->index, "stopped");
    drop_node(world, node, WORLD_STOPPED, false);
    OBSERVE(world, on_stopped, node->index);
}

/* ---- the interface ---- */

struct world *world_create(uint64_t seed, const struct world_knobs *knobs)
{
    struct world *world = world__alloc(sizeof *world);
    CHECK(knobs->step_cost_min_ns > 0); /* or a machine that always asks for CONTINUE would stop time */
    CHECK(knobs->segment_max_bytes > 0);
    CHECK(knobs->socket_buffer_bytes > 0);
    world->seed = seed;
    world->knobs = *knobs;
    world->hash = base_hash_u64(seed);
    world->last_fault = WORLD_FAULT_COUNT;
    world->stepping_node = WORLD_NONE;
    world->stepping_shard = WORLD_NONE;
    for (size_t i = 0; i < BASE_ARRAY_COUNT(world->dice); i++) { base_prng_init(&world->dice[i], seed, i); }
    base_prng_init(&world->apart_dice, seed, UINT64_C(0x6170617274646965)); /* "apartdie" */
    base_list_init(&world->links);
    base_list_init(&world->calls);
    base_list_init(&world->heals);
    struct port_out *out = &world->out;
    out->effects_max = PORT_EFFECTS_MAX;
    out->messages_max = PORT_MESSAGES_MAX;
    out->text_bytes = PORT_TEXT_BYTES;
    out->effects = world__alloc(PORT_EFFECTS_MAX * sizeof *out->effects);
    out->messages = world__alloc(PORT_MESSAGES_MAX * sizeof *out->messages);
    out->text = world__alloc(PORT_TEXT_BYTES);
    return world;
}

static void destroy_node(struct world *world, struct node *node)
{
    if (node->state == WORLD_UP) { drop_node(world, node, WORLD_STOPPED, false); }
    for (uint32_t i = 0; i < node->spec.disk_count; i++) { world__disk_destroy(&node->disks[i]); }
    free(node->is_blocked_to);
    free(node);
}

void world_destroy(struct world *world)
{
    if (world == NULL) { return; }
    for (uint32_t i = 0; i < world->node_count; i++) { destroy_node(world, world->nodes[i]); }
    world__net_destroy(world);
    while (!base_list_is_empty(&world->calls)) {
        free(BASE_ITEM(base_list_pop_front(&world->calls), struct call, in_world));
    }
    while (!base_list_is_empty(&world->heals)) {
        free(BASE_ITEM(base_list_pop_front(&world->heals), struct heal, in_world));
    }
    while (world->free_messages != NULL) {
        struct message *message = world->free_messages;
        world->free_messages =
            message->ready.next == NULL ? NULL : BASE_ITEM(message->ready.next, struct message, ready);
        free(message);
    }
    while (world->free_ops != NULL) {
        struct op *op = world->free_ops;
        world->free_ops = op->ready.next == NULL ? NULL : BASE_ITEM(op->ready.next, struct op, ready);
        free(op);
    }
    free(world->clock.cells);
    free(world->out.effects);
    free(world->out.messages);
    free(world->out.text);
    free(world->failure);
    free(world);
}

uint32_t world_add_node(struct world *world, const struct world_node_spec *spec)
{
    CHECK(world->node_count < WORLD_NODES_MAX);
    CHECK(spec->shard_count >= 1 && spec->shard_count <= WORLD_SHARDS_MAX);
    CHECK(spec->disk_count <= WORLD_DISKS_MAX);
    CHECK(spec->machine != NULL && spec->machine->create != NULL && spec->machine->step != NULL);
    struct node *node = world__alloc(sizeof *node);
    node->world = world;
    node->index = world->node_count;
    node->spec = *spec;
    node->state = WORLD_DOWN;
    node->next_port = 32768;
    node->is_blocked_to = world__alloc(WORLD_NODES_MAX / 8 + 1);
    base_list_init(&node->groups);
    for (uint32_t i = 0; i < spec->disk_count; i++) { world__disk_create(world, node, i); }
    world->nodes[world->node_count] = node;
    world->node_count += 1;
    if (!spec->is_down) { boot(world, node); }
    return node->index;
}

static struct node *node_at(const struct world *world, uint32_t node)
{
    CHECK(node < world->node_count);
    return world->nodes[node];
}

uint32_t world_node_count(const struct world *world) { return world->node_count; }
enum world_state world_node_state(const struct world *world, uint32_t node) { return node_at(world, node)->state; }
uint32_t world_boot_count(const struct world *world, uint32_t node) { return node_at(world, node)->boot_count; }

void *world_machine_at(const struct world *world, uint32_t node, uint32_t shard)
{
    CHECK(shard < node_at(world, node)->spec.shard_count);
    return node_at(world, node)->state == WORLD_UP ? node_at(world, node)->shards[shard].machine : NULL;
}

struct port_address world_address(const struct world *world, uint32_t node, uint16_t port)
{
    (void)world;
    return world__address(node, port);
}

bool world_step(struct world *world)
{
    CHECK(world->stepping_node == WORLD_NONE);
    world->was_seen = false;
    while (!world->was_seen) {
        struct timer *timer = world__timer_pop(world);
        if (timer == NULL) { return false; }
        CHECK(timer->at_ns >= world->now_ns);
        world->now_ns = timer->at_ns;
        timer->fire(world, timer);
    }
    return true;
}

bool world_run(struct world *world, uint64_t until_ns)
{
    CHECK(world->stepping_node == WORLD_NONE);
    while (world->failure == NULL && world->clock.count > 0 && world->clock.cells[0].at_ns <= until_ns) {
        struct timer *timer = world__timer_pop(world);
        world->now_ns = timer->at_ns;
        timer->fire(world, timer);
    }
    if (world->failure != NULL || world->clock.count == 0) { return false; }
    world->now_ns = base_max_u64(world->now_ns, until_ns);
    return true;
}

uint64_t world_now(const struct world *world) { return world->now_ns; }
uint64_t world_hash(const struct world *world) { return world->hash; }
uint64_t world_events(const struct world *world) { return world->events; }
uint64_t world_effects(const struct world *world) { return world->effects; }

bool world_last_fault(const struct world *world, enum world_fault *fault_out, uint64_t *event_out)
{
    *fault_out = world->last_fault;
    *event_out = world->last_fault_event;
    return world->last_fault != WORLD_FAULT_COUNT;
}

uint64_t world_hits(const struct world *world, enum world_fault fault)
{
    CHECK(fault < WORLD_FAULT_COUNT);
    return world->hits[fault];
}

static void call_fire(struct world *world, struct timer *timer)
{
    struct call *call = BASE_ITEM(timer, struct call, timer);
    base_list_remove(&world->calls, &call->in_world);
    world->was_seen = true;
    call->call(call->context, world);
    free(call);
}

void world_at(struct world *world, uint64_t at_ns, void (*call)(void *context, struct world *world), void *context)
{
    struct call *made = world__alloc(sizeof *made);
    made->call = call;
    made->context = context;
    base_list_push_back(&world->calls, &made->in_world);
    world__timer_set(world, &made->timer, at_ns, call_fire);
}

void world_post(struct world *world, uint32_t node, uint32_t shard, const struct port_message *message)
{
    CHECK(shard < node_at(world, node)->spec.shard_count);
    if (node_at(world, node)->state != WORLD_UP) { return; }
    post(world, &node_at(world, node)->shards[shard], message, WORLD_SHARDS_MAX, message->from);
}

/* ---- disasters ---- */

void world_crash(struct world *world, uint32_t node, enum world_crash kind)
{
    if (node_at(world, node)->state == WORLD_UP) { world__count(world, WORLD_CRASH_CALLED); }
    if (world->stepping_node == WORLD_NONE) {
        world__crash_now(world, node_at(world, node), kind);
        return;
    }
    node_at(world, node)->crash_is_due = true;
    node_at(world, node)->crash_kind = kind;
    world->has_crash_due = true;
}

void world_restart(struct world *world, uint32_t node)
{
    CHECK(world->stepping_node == WORLD_NONE);
    if (node_at(world, node)->state != WORLD_UP) { boot(world, node_at(world, node)); }
}

void world_stop(struct world *world, uint32_t node)
{
    struct node *stopped = node_at(world, node);
    if (stopped->state != WORLD_UP) { return; }
    for (uint32_t i = 0; i < stopped->spec.shard_count; i++) {
        struct shard *shard = &stopped->shards[i];
        if (shard->has_stop || shard->is_stopped) { continue; }
        shard->stop.kind = READY_STOP;
        shard->has_stop = true;
        world__ready(world, shard, &shard->stop);
    }
}

void world_pause(struct world *world, uint32_t node, uint64_t pause_ns)
{
    struct node *paused = node_at(world, node);
    for (uint32_t i = 0; i < paused->spec.shard_count; i++) {
        struct shard *shard = &paused->shards[i];
        shard->free_at_ns = base_max_u64(shard->free_at_ns, world->now_ns + pause_ns);
        if (world__timer_is_set(&shard->timer)) { plan(world, shard); }
    }
}

void world_hold(struct world *world, uint32_t node, uint32_t shard, uint32_t steps, uint64_t pause_ns)
{
    struct node *held = node_at(world, node);
    CHECK(shard < held->spec.shard_count);
    held->shards[shard].hold_steps = steps;
    held->shards[shard].hold_ns = pause_ns;
}

void world_clock_step(struct world *world, uint32_t node, int64_t step_ms)
{
    node_at(world, node)->wall_step_ms += step_ms;
}

void world_block(struct world *world, uint32_t from, uint32_t to, bool is_blocked)
{
    uint8_t *bits = node_at(world, from)->is_blocked_to + node_at(world, to)->index / 8;
    uint8_t bit = (uint8_t)(1u << (to % 8));
    *bits = (uint8_t)(is_blocked ? *bits | bit : *bits & ~bit);
    world__trace_note(world, from, is_blocked ? "link blocked" : "link healed");
}

void world_set_rate(struct world *world, enum world_fault fault, uint32_t rate_ppm)
{
    CHECK(fault < WORLD_KEPT_WRITE);
    world->knobs.rate_ppm[fault] = rate_ppm;
}

void world_set_keep(struct world *world, enum world_keep keep) { world->knobs.keep = keep; }

void world_set_keep_at(struct world *world, enum world_keep keep, uint32_t at)
{
    world->knobs.keep = keep;
    world->keep_at = at;
}

void world_set_capacity(struct world *world, uint32_t node, uint32_t disk, uint64_t capacity_bytes)
{
    CHECK(disk < node_at(world, node)->spec.disk_count);
    node_at(world, node)->disks[disk].capacity_bytes = capacity_bytes;
}

void world_fill(struct world *world, uint32_t node, uint32_t disk)
{
    CHECK(disk < node_at(world, node)->spec.disk_count);
    uint64_t used_bytes = node_at(world, node)->disks[disk].used_bytes;
    world_set_capacity(world, node, disk, base_max_u64(used_bytes, 1)); /* 0 would be no limit */
}

static void calm_node(struct world *world, struct node *node)
{
    memset(node->is_blocked_to, 0, WORLD_NODES_MAX / 8 + 1);
    for (uint32_t i = 0; i < node->spec.disk_count; i++) {
        node->disks[i].stalled_until_ns = 0;
        node->disks[i].is_full = false;
    }
    if (world->knobs.clock_heal_max_ns > 0) { node->wall_step_ms = 0; }
    if (node->boot_count == 0) { return; } /* it was never up: world_restart's business */
    if (node->state == WORLD_DOWN) { boot(world, node); }
    for (uint32_t i = 0; i < node->spec.shard_count; i++) {
        node->shards[i].hold_ns = 0;
        node->shards[i].free_at_ns =
            base_min_u64(node->shards[i].free_at_ns, world->now_ns + world->knobs.step_cost_max_ns);
        plan(world, &node->shards[i]);
    }
}

void world_calm(struct world *world)
{
    CHECK(world->stepping_node == WORLD_NONE);
    memset(world->knobs.rate_ppm, 0, sizeof world->knobs.rate_ppm);
    world->knobs.handles_max = UINT32_MAX;
    world->knobs.crash_at_effect = 0;
    for (uint32_t i = 0; i < world->node_count; i++) { world->nodes[i]->crash_plan.left = 0; }
    world__trace_note(world, WORLD_NONE, "calm");
    for (uint32_t i = 0; i < world->node_count; i++) { calm_node(world, world->nodes[i]); }
}

/* ---- looking on ---- */

uint32_t world_stepping(const struct world *world, uint32_t *shard_out)
{
    if (shard_out != NULL) { *shard_out = world->stepping_shard; }
    return world->stepping_node;
}

void world_trace_to(struct world *world, FILE *to) { world->trace = to; }

uint32_t world_outstanding(const struct world *world, uint32_t node)
{
    const struct node *seen = node_at(world, node);
    uint32_t count = 0;
    for (uint32_t i = 0; i < seen->spec.shard_count && seen->state == WORLD_UP; i++) {
        count += seen->shards[i].ops.count;
    }
    return count;
}

uint32_t world_open_ids(const struct world *world, uint32_t node)
{
    const struct node *seen = node_at(world, node);
    uint32_t count = 0;
    for (uint32_t i = 0; i < seen->spec.shard_count && seen->state == WORLD_UP; i++) {
        for (uint32_t kind = 0; kind < REF_KINDS; kind++) { count += seen->shards[i].refs[kind].open_count; }
    }
    return count;
}
