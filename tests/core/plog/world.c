/* world.c: see world.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "world.h"

#define PAGES_BYTES ((size_t)24 << 20)

static void *must(void *at)
{
    assert_non_null(at);
    return at;
}

static uint8_t *copy_of(const void *at, size_t size)
{
    uint8_t *copy = must(malloc(size + 1));
    if (size > 0) { memcpy(copy, at, size); }
    return copy;
}

/* ---- the disk ---- */

static int find_in(struct world *world, int parent, const char *name, size_t size)
{
    for (int i = 0; i < world->node_count; i++) {
        const struct node *node = &world->nodes[i];
        if (node->is_live && node->parent == parent && strlen(node->name) == size &&
            memcmp(node->name, name, size) == 0) {
            return i;
        }
    }
    return -1;
}

/* The parent of the last name of the path: -1 the disk, -2 there is none; and that name. */
static int walk(struct world *world, struct base_slice path, const char **name, size_t *size)
{
    const char *at = (const char *)path.at;
    const char *slash = path.size_bytes == 0 ? NULL : memchr(at, '/', path.size_bytes);
    if (slash == NULL) {
        *name = at;
        *size = path.size_bytes;
        return -1;
    }
    *name = slash + 1;
    *size = path.size_bytes - (size_t)(slash + 1 - at);
    int dir = find_in(world, -1, at, (size_t)(slash - at));
    return dir < 0 ? -2 : dir;
}

int world_node(struct world *world, const char *path)
{
    const char *name;
    size_t size;
    int parent = walk(world, base_slice_text(path), &name, &size);
    return parent == -2 ? -1 : find_in(world, parent, name, size);
}

static int make_node(struct world *world, int parent, const char *name, size_t size, bool is_dir)
{
    assert_true(world->node_count < NODES_MAX);
    assert_true(size < sizeof world->nodes[0].name);
    struct node *node = &world->nodes[world->node_count];
    *node = (struct node){.is_dir = is_dir, .is_live = true, .parent = parent};
    memcpy(node->name, name, size);
    return world->node_count++;
}

static void set_size(struct node *node, size_t size)
{
    node->bytes = must(realloc(node->bytes, size + 1));
    if (size > node->size) { memset(node->bytes + node->size, 0, size - node->size); }
    node->size = size;
}

void world_put(struct world *world, const char *path, const char *bytes)
{
    const char *name;
    size_t size;
    int parent = walk(world, base_slice_text(path), &name, &size);
    if (parent == -2) { parent = make_node(world, -1, path, (size_t)(name - path) - 1, true); }
    int at = make_node(world, parent, name, size, false);
    set_size(&world->nodes[at], strlen(bytes));
    memcpy(world->nodes[at].bytes, bytes, strlen(bytes));
}

static int open_node(struct world *world, struct port_file file)
{
    for (int i = 0; i < world->open_count; i++) {
        if (port_file_equal(world->open[i].id, file)) { return world->open[i].node; }
    }
    return -1;
}

static void do_open(struct world *world, const struct port_effect *effect, struct port_event *event)
{
    const char *name;
    size_t size;
    int parent = walk(world, effect->path, &name, &size);
    int at = parent == -2 ? -1 : find_in(world, parent, name, size);
    if (parent == -2 || (at < 0 && (effect->flags & PORT_OPEN_CREATE) == 0)) {
        event->done.rc = PORT_MISSING;
        return;
    }
    if (at < 0) { at = make_node(world, parent, name, size, false); }
    for (int i = 0; i < world->open_count; i++) { assert_int_not_equal(world->open[i].id.slot, effect->file.slot); }
    assert_true(world->open_count < 512);
    world->open[world->open_count].id = effect->file;
    world->open[world->open_count].node = at;
    world->open_count += 1;
    if (world->open_count > world->open_peak) { world->open_peak = world->open_count; }
    event->done.count = world->nodes[at].size;
}

static void do_write(struct world *world, const struct port_effect *effect, struct port_event *event, uint64_t limit)
{
    struct node *node = &world->nodes[open_node(world, effect->file)];
    uint64_t at = effect->position_bytes;
    for (uint32_t i = 0; i < effect->piece_count && limit > 0; i++) {
        uint64_t size = base_min_u64(effect->pieces[i].size_bytes, limit);
        if (at + size > node->size) { set_size(node, at + size); }
        memcpy(node->bytes + at, effect->pieces[i].at, size);
        at += size;
        limit -= size;
    }
    event->done.count = at - effect->position_bytes;
}

static void do_read(struct world *world, const struct port_effect *effect, struct port_event *event, uint64_t limit)
{
    const struct node *node = &world->nodes[open_node(world, effect->file)];
    uint64_t size = effect->position_bytes >= node->size ? 0 : node->size - effect->position_bytes;
    size = base_min_u64(base_min_u64(size, effect->size_bytes), limit);
    if (size > 0) { memcpy(effect->buffer, node->bytes + effect->position_bytes, size); }
    event->done.count = size;
}

static void do_sync_dir(struct world *world, const struct port_effect *effect, struct port_event *event)
{
    int dir = -1;
    if (effect->path.size_bytes > 0) {
        const char *name;
        size_t size;
        dir = walk(world, effect->path, &name, &size);
        dir = dir == -2 ? -2 : find_in(world, dir, name, size);
        if (dir < 0) {
            event->done.rc = PORT_MISSING;
            return;
        }
    }
    for (int i = 0; i < world->node_count; i++) {
        struct node *node = &world->nodes[i];
        if ((node->is_live && node->parent == dir) || (node->is_durable && node->durable_parent == dir)) {
            node->is_durable = node->is_live;
            node->durable_parent = node->parent;
            memcpy(node->durable_name, node->name, sizeof node->name);
        }
    }
}

static void do_name(struct world *world, const struct port_effect *effect, struct port_event *event)
{
    const char *name;
    size_t size;
    int parent = walk(world, effect->path, &name, &size);
    int at = parent == -2 ? -1 : find_in(world, parent, name, size);
    if (effect->kind == PORT_MAKE_DIR) {
        if (at >= 0) {
            event->done.rc = PORT_EXISTS;
        } else {
            (void)make_node(world, parent, name, size, true);
        }
        return;
    }
    if (at < 0) {
        event->done.rc = PORT_MISSING;
        return;
    }
    struct node *node = &world->nodes[at];
    if (effect->kind == PORT_RENAME) {
        assert_true(effect->path_to.size_bytes < sizeof node->name);
        memset(node->name, 0, sizeof node->name);
        memcpy(node->name, effect->path_to.at, effect->path_to.size_bytes);
        return;
    }
    for (int i = 0; effect->kind == PORT_REMOVE_DIR && i < world->node_count; i++) {
        if (world->nodes[i].is_live && world->nodes[i].parent == at) {
            event->done.rc = PORT_NOT_EMPTY;
            return;
        }
    }
    node->is_live = false;
}

static void do_list(struct world *world, const struct port_effect *effect, struct port_event *event)
{
    const char *name;
    size_t size;
    int parent = walk(world, effect->path, &name, &size);
    int dir = parent == -2 ? -1 : find_in(world, parent, name, size);
    if (dir < 0) {
        event->done.rc = PORT_MISSING;
        return;
    }
    for (int i = 0; i < world->node_count; i++) {
        const struct node *node = &world->nodes[i];
        if (!node->is_live || node->parent != dir) { continue; }
        size_t length = strlen(node->name);
        if (event->done.count + PORT_ENTRY_HEAD_BYTES + length > effect->size_bytes) {
            event->done.is_more = true;
            return;
        }
        uint8_t *to = effect->buffer + event->done.count;
        to[0] = node->is_dir ? 1 : 0;
        base_put_u64(to + 1, node->size);
        base_put_u16(to + 9, (uint16_t)length);
        memcpy(to + PORT_ENTRY_HEAD_BYTES, node->name, length);
        event->done.count += PORT_ENTRY_HEAD_BYTES + length;
    }
}

static bool has_suffix(struct world *world, const struct port_effect *effect, const char *suffix)
{
    if (suffix == NULL) { return true; }
    char path[700];
    size_t size = 0;
    if (effect->path.size_bytes > 0) {
        size = effect->path.size_bytes;
        memcpy(path, effect->path.at, size);
    } else {
        int node = open_node(world, effect->file);
        if (node >= 0) {
            size = strlen(world->nodes[node].name);
            memcpy(path, world->nodes[node].name, size);
        }
    }
    size_t length = strlen(suffix);
    return size >= length && memcmp(path + size - length, suffix, length) == 0;
}

static struct fault *fault_for(struct world *world, const struct port_effect *effect)
{
    for (int i = 0; i < world->fault_count; i++) {
        struct fault *fault = &world->faults[i];
        if (fault->kind != effect->kind || fault->times == 0 || !has_suffix(world, effect, fault->suffix)) { continue; }
        if (fault->skip > 0) {
            fault->skip -= 1;
            continue;
        }
        fault->times -= 1;
        return fault;
    }
    return NULL;
}

void world_fault(struct world *world, struct fault fault)
{
    assert_true(world->fault_count < 8);
    world->faults[world->fault_count++] = fault;
}

static void do_sync(struct world *world, struct pending *pending)
{
    struct node *node = &world->nodes[open_node(world, pending->effect.file)];
    free(node->synced);
    node->synced = pending->snapshot;
    node->synced_size = pending->snapshot_size;
    pending->snapshot = NULL;
}

static void do_close(struct world *world, const struct port_effect *effect)
{
    for (int i = 0; i < world->open_count; i++) {
        if (port_file_equal(world->open[i].id, effect->file)) {
            world->open_count -= 1;
            world->open[i] = world->open[world->open_count];
            return;
        }
    }
    fail_msg("closed twice");
}

static void carry_out(struct world *world, struct pending *pending, struct port_event *event)
{
    const struct port_effect *effect = &pending->effect;
    event->kind = PORT_EVENT_DONE;
    event->done.effect = effect->kind;
    event->done.token = effect->token;
    event->done.file = effect->file;
    uint64_t limit = UINT64_MAX;
    const struct fault *fault = fault_for(world, effect);
    if (fault != NULL && fault->rc != PORT_OK) {
        if (effect->kind == PORT_WRITE && fault->count > 0) { do_write(world, effect, event, fault->count); }
        event->done.rc = fault->rc;
        event->done.count = 0;
        return;
    }
    if (fault != NULL) { limit = fault->count; }
    bool is_of_file = effect->kind == PORT_READ || effect->kind == PORT_WRITE || effect->kind == PORT_TRUNCATE ||
                      effect->kind == PORT_ALLOCATE || effect->kind == PORT_SYNC || effect->kind == PORT_CLOSE_FILE;
    if (is_of_file) { assert_true(open_node(world, effect->file) >= 0); }
    if (effect->kind == PORT_OPEN) {
        do_open(world, effect, event);
    } else if (effect->kind == PORT_READ) {
        do_read(world, effect, event, limit);
    } else if (effect->kind == PORT_WRITE) {
        do_write(world, effect, event, limit);
    } else if (effect->kind == PORT_TRUNCATE) {
        set_size(&world->nodes[open_node(world, effect->file)], effect->position_bytes);
        world->nodes[open_node(world, effect->file)].reserved = 0;
    } else if (effect->kind == PORT_ALLOCATE) {
        world->nodes[open_node(world, effect->file)].reserved = effect->position_bytes + effect->size_bytes;
    } else if (effect->kind == PORT_SYNC) {
        do_sync(world, pending);
    } else if (effect->kind == PORT_CLOSE_FILE) {
        do_close(world, effect);
    } else if (effect->kind == PORT_SYNC_DIR) {
        do_sync_dir(world, effect, event);
    } else if (effect->kind == PORT_LIST) {
        do_list(world, effect, event);
    } else {
        do_name(world, effect, event);
    }
}

/* ---- what comes out ---- */

static void journal_entry(struct world *world, const struct plog_out *out)
{
    if (world->entry_count == world->entries_max) {
        world->entries_max = world->entries_max * 2 + 64;
        world->entries = must(realloc(world->entries, world->entries_max * sizeof world->entries[0]));
    }
    struct entry *entry = &world->entries[world->entry_count++];
    *entry = (struct entry){.run = out->run, .token = out->run_token};
    if (out->run.pieces == NULL) {
        if (out->kind == PLOG_OUT_RUN &&
            !world->takes_refusals) { /* what is not in the journal is synced in the segment */
            char path[400];
            (void)snprintf(path, sizeof path, "topic-%d/%020lld.log", out->id.index, (long long)out->run.segment_base);
            const struct node *node = &world->nodes[world_node(world, path)];
            assert_true(node->synced_size >= out->run.position_bytes + out->run.size_bytes);
            assert_int_equal(codec_crc32c(0, node->synced + out->run.position_bytes, out->run.size_bytes),
                             out->run.crc);
        }
        return;
    }
    entry->bytes = must(malloc(out->run.size_bytes + 1));
    uint64_t at = 0;
    for (uint32_t i = 0; i < out->run.piece_count; i++) {
        memcpy(entry->bytes + at, out->run.pieces[i].at, out->run.pieces[i].size_bytes);
        at += out->run.pieces[i].size_bytes;
    }
    assert_int_equal(at, out->run.size_bytes);
    assert_int_equal(codec_crc32c(0, entry->bytes, at), out->run.crc);
}

/* A run leaves only when the file's name and its directory's are durable. */
static void expect_named(struct world *world, const struct plog_out *out)
{
    if (world->takes_refusals) { return; } /* it may have been told of a file that never was */
    char path[400];
    (void)snprintf(path, sizeof path, "topic-%d/%020lld.log", out->id.index, (long long)out->run.segment_base);
    int at = world_node(world, path);
    assert_true(at >= 0);
    assert_true(world->nodes[at].is_durable);
    assert_true(world->nodes[world->nodes[at].parent].is_durable);
}

static void end_answer(struct world *world, const struct plog_out *out)
{
    struct answer *answer = world_answer(world, out->token);
    assert_false(answer->is_done);
    answer->is_done = true;
    answer->kind = out->kind;
    answer->result = out->result;
    answer->base_offset = out->base_offset;
    answer->log_append_time_ms = out->log_append_time_ms;
    answer->out = *out;
    free(answer->batch);
    answer->batch = NULL;
}

static void take_states_end(struct world *world, enum plog_result result)
{
    world->is_capturing = false;
    world->states_end = result;
    if (result != PLOG_OK) { return; }
    for (size_t i = 0; i < world->state_count; i++) { free(world->states[i].bytes); }
    memcpy(world->states, world->states_next, sizeof world->states);
    world->state_count = world->state_count_next;
    world->entries_begin = world->entries_begin_next;
    world->checkpoints += 1;
    plog_checkpointed(world->plog);
}

static void take_out(struct world *world, const struct plog_out *out)
{
    switch (out->kind) {
    case PLOG_OUT_WRITTEN: world_answer(world, out->token)->is_written = true; break;
    case PLOG_OUT_SYNCED:
    case PLOG_OUT_FAILED:
    case PLOG_OUT_READ:
    case PLOG_OUT_TIME:
    case PLOG_OUT_TRUNCATED:
    case PLOG_OUT_EPOCH:
    case PLOG_OUT_STARTED: end_answer(world, out); break;
    case PLOG_OUT_WATERMARK: world->marks += 1; break;
    case PLOG_OUT_RUN:
        expect_named(world, out);
        journal_entry(world, out);
        break;
    case PLOG_OUT_CHANGE:
        if (out->run.change == PLOG_CHANGE_SEGMENT) { expect_named(world, out); }
        journal_entry(world, out);
        break;
    case PLOG_OUT_STATE:
        assert_true(world->state_count_next < 256);
        world->states_next[world->state_count_next++] =
            (struct state){.bytes = copy_of(out->block, out->size_bytes), .size = out->size_bytes};
        if (!world->is_state_held) { plog_state_taken(world->plog, &world->out); }
        break;
    case PLOG_OUT_FULL: world->full_count += 1; break;
    case PLOG_OUT_STATES_END: take_states_end(world, out->result); break;
    case PLOG_OUT_REPLAYED:
        world->is_replayed = true;
        world->replayed = out->result;
        world->not_taken += out->result == PLOG_OK || out->result == PLOG_DAMAGED ? 0 : 1;
        break;
    case PLOG_OUT_RECOVERED:
        world->recovered = out->result;
        world->is_recovered = true;
        break;
    case PLOG_OUT_DELETED: world->deleted += 1; break;
    case PLOG_OUT_STOPPED: world->is_stopped = true; break;
    case PLOG_OUT_WANT_CHECKPOINT: world->checkpoints_wanted += 1; break;
    case PLOG_OUT_DISK_FAILED: world->is_disk_failed = true; break;
    }
}

static void queue_effects(struct world *world)
{
    for (uint32_t i = 0; i < world->out.effect_count; i++) {
        struct pending *pending = NULL;
        for (size_t k = 0; k < BASE_ARRAY_COUNT(world->pending) && pending == NULL; k++) {
            if (!world->pending[k].is_used) { pending = &world->pending[k]; }
            if (k == world->pending_end) { world->pending_end += 1; }
        }
        must(pending);
        *pending = (struct pending){.is_used = true, .effect = world->out.effects[i], .order = world->next_order++};
        if (pending->effect.kind == PORT_SYNC) {
            int at = open_node(world, pending->effect.file);
            assert_true(at >= 0);
            pending->snapshot = copy_of(world->nodes[at].bytes, world->nodes[at].size);
            pending->snapshot_size = world->nodes[at].size;
        }
        world->effects_seen += 1;
    }
    world->effects_max_seen = base_max_u64(world->effects_max_seen, world->out.effect_count);
    world->wants_turn = world->wants_turn || world->out.wants_turn;
    world->wants_continue = world->wants_continue || world->out.wants_continue;
    port_out_begin(&world->out);
}

static void settle(struct world *world)
{
    queue_effects(world);
    struct plog_out out;
    while (plog_poll(world->plog, &out)) {
        take_out(world, &out);
        queue_effects(world);
    }
    assert_true(plog_is_sound(world->plog));
}

void world_settle(struct world *world) { settle(world); }

/* ---- events ---- */

static bool is_ordered_after(const struct pending *a,
                             const struct pending *b) /* a was asked later, and must wait for b */
{
    if (a->order <= b->order || !port_file_equal(a->effect.file, b->effect.file) || a->effect.file.generation == 0) {
        return false;
    }
    if (a->effect.kind == PORT_CLOSE_FILE) { return true; }
    bool is_a_change = a->effect.kind == PORT_WRITE || a->effect.kind == PORT_TRUNCATE;
    bool is_b_change = b->effect.kind == PORT_WRITE || b->effect.kind == PORT_TRUNCATE;
    if (is_a_change && is_b_change) { return true; }
    return (a->effect.kind == PORT_TRUNCATE && b->effect.kind == PORT_SYNC) ||
           (a->effect.kind == PORT_SYNC && b->effect.kind == PORT_TRUNCATE);
}

static struct pending *choose(struct world *world)
{
    struct pending *chosen = NULL;
    uint64_t seen = 0;
    for (size_t k = 0; k < world->pending_end; k++) {
        struct pending *pending = &world->pending[k];
        if (!pending->is_used) { continue; }
        bool is_blocked = false;
        for (size_t j = 0; j < world->pending_end && !is_blocked; j++) {
            is_blocked = world->pending[j].is_used && is_ordered_after(pending, &world->pending[j]);
        }
        if (is_blocked) { continue; }
        seen += 1;
        if (chosen == NULL ||
            (world->is_shuffled ? base_prng_below(&world->dice, seen) == 0 : pending->order < chosen->order)) {
            chosen = pending;
        }
    }
    return chosen;
}

static struct port_event now(struct world *world, enum port_event_kind kind)
{
    world->now_ns += 1000;
    return (struct port_event){.kind = kind, .now_ns = world->now_ns, .wall_ms = world->wall_ms};
}

void world_journal_sync(struct world *world, size_t count)
{
    while (count > 0 && world->entry_answered < world->entry_count) {
        struct entry *entry = &world->entries[world->entry_answered++];
        entry->is_synced = true;
        count -= 1;
        if (entry->token != 0) {
            plog_journalled(world->plog, entry->token, world->is_disk_failed ? PORT_IO : PORT_OK, &world->out);
            settle(world);
        }
    }
}

bool world_step(struct world *world)
{
    if (world->is_crashed) { return false; }
    world->steps += 1;
    assert_true(world->steps < 5000000);
    struct pending *pending = world->is_held ? NULL : choose(world);
    if (pending != NULL) {
        if (world->crash_after == 0) {
            world->is_crashed = true;
            return false;
        }
        world->crash_after -= world->crash_after > 0 ? 1 : 0;
        struct port_event event = now(world, PORT_EVENT_DONE);
        struct pending carried = *pending;
        pending->is_used = false;
        carry_out(world, &carried, &event);
        free(carried.snapshot);
        if (getenv("WORLD_TRACE") != NULL) {
            (void)printf("%s %.*s%s at %llu -> rc %d count %llu\n", port_effect_name(carried.effect.kind),
                         (int)carried.effect.path.size_bytes,
                         carried.effect.path.at == NULL ? "" : (const char *)carried.effect.path.at, "",
                         (unsigned long long)carried.effect.position_bytes, (int)event.done.rc,
                         (unsigned long long)event.done.count);
        }
        plog_done(world->plog, &event, &world->out);
        settle(world);
        return true;
    }
    if (world->wants_turn || world->wants_continue) {
        struct port_event event = now(world, world->wants_turn ? PORT_EVENT_TURN : PORT_EVENT_CONTINUE);
        world->wants_turn = false;
        world->wants_continue = false;
        plog_turn(world->plog, &event, &world->out);
        settle(world);
        return true;
    }
    if (!world->is_journal_held && world->entry_answered < world->entry_count) {
        world_journal_sync(world, 1);
        return true;
    }
    uint64_t alarm_ns = plog_next_alarm_ns(world->plog);
    if (!world->is_clock_held && !world->is_held && alarm_ns <= world->now_ns + 200000000) { /* who tries again soon */
        world->now_ns = base_max_u64(world->now_ns, alarm_ns);
        struct port_event event = now(world, PORT_EVENT_ALARM);
        plog_alarm(world->plog, &event, &world->out);
        settle(world);
        return true;
    }
    return false;
}

void world_run(struct world *world)
{
    while (world_step(world)) {}
}

void world_alarm(struct world *world, uint64_t after_ms)
{
    world->now_ns += after_ms * 1000000;
    world->wall_ms += (int64_t)after_ms;
    struct port_event event = now(world, PORT_EVENT_ALARM);
    plog_alarm(world->plog, &event, &world->out);
    assert_true(plog_next_alarm_ns(world->plog) > world->now_ns); /* or nothing but alarms would come from here on */
    settle(world);
    world_run(world);
}

void world_checkpoint(struct world *world)
{
    world->is_capturing = true;
    world->entries_begin_next = world->entry_count;
    world->state_count_next = 0;
    plog_checkpoint(world->plog, &world->out);
    settle(world);
}

void world_state_take(struct world *world)
{
    assert_true(world->is_state_held);
    world->is_state_held = false;
    plog_state_taken(world->plog, &world->out);
    settle(world);
}

/* ---- life ---- */

struct world *world_make(uint64_t seed)
{
    struct world *world = must(calloc(1, sizeof *world));
    base_prng_init(&world->dice, seed, 0);
    world->config = (struct plog_config){.logs_max = 128,
                                         .segments_max = 512,
                                         .appends_max = 256,
                                         .reads_max = 128,
                                         .producers_max = 64,
                                         .files_max = 16,
                                         .file_slot_first = 5,
                                         .inline_bytes_max = 4096,
                                         .step_max = 1,
                                         .producer_expiry_ms = 86400000,
                                         .is_check_slow = true};
    world->log_config = (struct plog_log_config){.segment_bytes = 1 << 20,
                                                 .segment_ms = UINT64_C(604800000),
                                                 .index_interval_bytes = 256,
                                                 .index_bytes_max = 10 << 20,
                                                 .retention_ms = -1,
                                                 .retention_bytes = -1,
                                                 .delete_delay_ms = 1000,
                                                 .flush_messages = UINT64_MAX,
                                                 .flush_ms = UINT64_MAX};
    world->out.effects = must(calloc(64, sizeof world->out.effects[0]));
    world->out.effects_max = 64;
    world->out.text = must(calloc(1, 1024));
    world->out.text_bytes = 1024;
    world->wall_ms = 1700000000000;
    world->now_ns = 1000000000;
    world->next_token = 1;
    world->crash_after = -1;
    return world;
}

struct world *given_world(void)
{
    struct world *world = world_make(1);
    world_start(world);
    return world;
}

static void drop_machine(struct world *world)
{
    for (size_t k = 0; k < world->pending_end; k++) {
        if (!world->pending[k].is_used) { continue; }
        free(world->pending[k].snapshot);
        world->pending[k].is_used = false;
    }
    world->pending_end = 0;
    free(world->arena_memory);
    if (world->pages_memory != NULL) { (void)munmap(world->pages_memory, PAGES_BYTES); }
    world->arena_memory = NULL;
    world->pages_memory = NULL;
    world->open_count = 0;
    for (uint64_t i = 0; i < world->next_token; i++) {
        free(world->answers[i].batch);
        world->answers[i].batch = NULL;
    }
}

void world_free(struct world *world)
{
    bool is_at_rest = world->pages != NULL && plog_is_quiet(world->plog) && !world->is_capturing;
    if (is_at_rest) { assert_int_equal(base_pages_block_count(world->pages), plog_blocks(world->plog)); }
    drop_machine(world);
    for (int i = 0; i < world->node_count; i++) {
        free(world->nodes[i].bytes);
        free(world->nodes[i].synced);
    }
    for (size_t i = 0; i < world->entry_count; i++) { free(world->entries[i].bytes); }
    for (size_t i = 0; i < world->state_count; i++) { free(world->states[i].bytes); }
    for (size_t i = 0; world->is_capturing && i < world->state_count_next; i++) { free(world->states_next[i].bytes); }
    free(world->entries);
    free(world->out.effects);
    free(world->out.text);
    free(world);
}

static void replay_entry(struct world *world, const struct entry *entry)
{
    struct plog_run run = entry->run;
    run.pieces = NULL;
    run.piece_count = 0;
    world->is_replayed = false;
    struct base_slice bytes = base_slice_of(entry->bytes, entry->bytes == NULL ? 0 : entry->run.size_bytes);
    enum base_rc rc = plog_replay(world->plog, &run, bytes, 77, &world->out);
    assert_true(rc == BASE_OK || world->takes_refusals);
    settle(world);
    if (rc != BASE_OK) { return; }
    while (!world->is_replayed && world_step(world)) {}
}

void world_start(struct world *world)
{
    size_t arena_bytes = plog_arena_bytes(&world->config);
    world->arena_memory = must(calloc(1, arena_bytes));
    world->pages_memory = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(world->pages_memory != MAP_FAILED);
    size_t reserve[BASE_CLASS_COUNT] = {0};
    struct base_region region = {.at = world->pages_memory, .size_bytes = PAGES_BYTES};
    assert_int_equal(base_pages_create(region, reserve, &world->pages), BASE_OK);
    base_arena_init_zeroed(&world->arena, world->arena_memory, arena_bytes);
    assert_int_equal(plog_create(&world->arena, world->pages, &world->config, &world->plog), BASE_OK);
    struct port_event event = now(world, PORT_EVENT_START);
    plog_start(world->plog, &event);
    world->wall_ms += world->start_step_ms;
    world->start_step_ms = 0;
    port_out_begin(&world->out);
    world->wants_turn = false;
    world->wants_continue = false;
    world->is_recovered = false;
    world->is_stopped = false;
    world->is_disk_failed = false;
    world->is_crashed = false;
    world->is_capturing = false;
    for (size_t i = 0; i < world->state_count && !world->is_crashed; i++) {
        struct base_slice state = base_slice_of(world->states[i].bytes, world->states[i].size);
        enum base_rc rc = plog_restore(world->plog, state, 1, &world->out);
        assert_true(rc == BASE_OK || world->takes_refusals);
        settle(world);
    }
    for (size_t i = world->entries_begin; i < world->entry_count && !world->is_crashed; i++) {
        if (world->mark_damaged && world->mark_before > 0 && i == world->mark_before) {
            plog_mark_suspect(world->plog, world_part(0), &world->out);
            world->mark_damaged = false;
        }
        replay_entry(world, &world->entries[i]);
    }
    if (world->mark_damaged) { plog_mark_suspect(world->plog, world_part(0), &world->out); }
    world->mark_damaged = false;
    if (world->is_recovery_open) { return; }
    if (!world->is_crashed) {
        plog_recovery_end(world->plog, world->last_stop, &world->out);
        settle(world);
        world_run(world);
    }
    if (!world->is_crashed) { assert_true(world->is_recovered); }
    bool must_recover = !world->is_crashed && !world->may_not_recover && !world->takes_refusals;
    if (must_recover) { assert_int_equal(world->recovered, PLOG_OK); }
    world->last_stop = PLOG_LAST_UNCLEAN; /* of this life, until it stops */
}

static void forget_unsynced(struct world *world, enum crash crash)
{
    for (int i = 0; i < world->node_count; i++) {
        struct node *node = &world->nodes[i];
        bool keeps = crash == CRASH_TORN && base_prng_chance(&world->dice, 1, 2);
        if (!keeps) {
            node->is_live = node->is_durable;
            node->parent = node->durable_parent;
            memcpy(node->name, node->durable_name, sizeof node->name);
        }
        if (node->is_dir) { continue; }
        if (crash == CRASH_TORN) { /* each 64 bytes by dice: old, new, or zeros past the synced end */
            size_t size = base_prng_chance(&world->dice, 1, 2) ? node->size : node->synced_size;
            uint8_t *bytes = must(calloc(1, size + 1));
            for (size_t at = 0; at < size; at += 64) {
                size_t piece = base_min_size(64, size - at);
                bool is_new = base_prng_chance(&world->dice, 1, 2);
                if (is_new && at < node->size) {
                    memcpy(bytes + at, node->bytes + at, base_min_size(piece, node->size - at));
                } else if (at < node->synced_size) {
                    memcpy(bytes + at, node->synced + at, base_min_size(piece, node->synced_size - at));
                }
            }
            free(node->bytes);
            node->bytes = bytes;
            node->size = size;
            continue;
        }
        set_size(node, node->synced_size);
        if (node->synced_size > 0) { memcpy(node->bytes, node->synced, node->synced_size); }
    }
    for (int i = 0; i < world->node_count; i++) { /* who lost its directory is lost */
        struct node *node = &world->nodes[i];
        if (node->is_live && node->parent >= 0 && !world->nodes[node->parent].is_live) { node->is_live = false; }
    }
}

/* What a crash leaves is what a disk has: it is all durable now. */
static void settle_disk(struct world *world)
{
    for (int i = 0; i < world->node_count; i++) {
        struct node *node = &world->nodes[i];
        node->is_durable = node->is_live;
        node->durable_parent = node->parent;
        memcpy(node->durable_name, node->name, sizeof node->name);
        free(node->synced);
        node->synced = copy_of(node->bytes, node->size);
        node->synced_size = node->size;
    }
}

void world_undo_cut(struct node *node, size_t more_bytes)
{
    free(node->synced);
    node->synced_size = node->size + more_bytes;
    node->synced = calloc(1, node->synced_size);
    assert_non_null(node->synced);
    memcpy(node->synced, node->bytes, node->size);
}

void world_crash(struct world *world, enum crash crash)
{
    drop_machine(world);
    if (crash != CRASH_PROCESS) {
        forget_unsynced(world, crash);
        settle_disk(world);
    }
    size_t kept = world->entry_answered;
    for (size_t i = world->entry_answered; i < world->entry_count; i++) {
        free(world->entries[i].bytes);
        world->entries[i].bytes = NULL;
    }
    world->entry_count = kept;
    for (size_t i = 0; world->is_capturing && i < world->state_count_next; i++) { free(world->states_next[i].bytes); }
    world->is_capturing = false;
    world->crash_after = -1;
    world->fault_count = 0;
}

void world_restart(struct world *world, enum crash crash)
{
    world_crash(world, crash);
    world_start(world);
}

void world_restart_behind(struct world *world)
{
    world->wall_ms -= INT64_C(31536000000);
    world_restart(world, CRASH_POWER); /* the journal is replayed */
    world_run(world);
    world_checkpoint(world);
    world_run(world);
    world->wall_ms += INT64_C(31536000000);
    world_restart(world, CRASH_POWER);
    world_run(world);
}

void world_stop(struct world *world)
{
    world_run(world);
    world_checkpoint(world);
    world_run(world);
    assert_int_equal(world->states_end, PLOG_OK);
    plog_stop(world->plog, &world->out);
    settle(world);
    world_run(world);
    assert_true(world->is_stopped);
    assert_int_equal(world->open_count, 0);
    world->last_stop = PLOG_LAST_CLEAN;
}

/* ---- asking ---- */

struct base_part world_part(int index)
{
    struct base_part part = {.index = index};
    memcpy(part.topic.b, "0123456789abcdef", 16);
    return part;
}

struct plog_ref world_log(struct world *world, int index, const char *name, int32_t epoch)
{
    struct plog_ref ref;
    assert_int_equal(plog_open(world->plog, world_part(index), base_slice_text(name), &world->log_config, epoch, &ref),
                     BASE_OK);
    return ref;
}

struct answer *world_answer(struct world *world, uint64_t token)
{
    assert_true(token < ANSWERS_MAX);
    return &world->answers[token];
}

static uint64_t new_token(struct world *world)
{
    assert_true(world->next_token < ANSWERS_MAX);
    world->answers[world->next_token] = (struct answer){0};
    return world->next_token++;
}

uint64_t world_append(struct world *world, struct plog_ref ref, struct batch_ask ask)
{
    if (ask.records == 0) { ask.records = 1; }
    size_t room = 128 + (size_t)ask.records * (ask.value_bytes + 64);
    uint8_t *memory = must(malloc(room));
    uint8_t *value = must(calloc(1, ask.value_bytes + 1));
    for (size_t i = 0; i < ask.value_bytes; i++) {
        value[i] = (uint8_t)(world->next_token + i * (ask.is_compressed ? 0 : 7));
    }
    struct rec_build_config config = rec_build_plain();
    if (ask.producer_id != 0) {
        config.producer_id = ask.producer_id;
        config.producer_epoch = ask.epoch;
        config.base_sequence = ask.sequence;
    }
    if (ask.is_assigned) {
        config.base_offset = ask.base_offset;
        config.leader_epoch = ask.batch_epoch;
    }
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, memory, room, config), BASE_OK);
    for (int i = 0; i < ask.records; i++) {
        assert_int_equal(rec_build_add(&build, ask.timestamp + i, rec_null(),
                                       rec_value_of(base_slice_of(value, ask.value_bytes)), NULL, 0),
                         BASE_OK);
    }
    struct base_slice batch;
    uint8_t *owned = NULL;
    if (ask.is_compressed) {
        size_t out_max = room + 1024;
        owned = must(malloc(out_max));
        size_t scratch_bytes = codec_compress_scratch_bytes(CODEC_LZ4, CODEC_LEVEL_DEFAULT, room);
        struct codec_scratch scratch = {.at = must(aligned_alloc(16, (scratch_bytes + 31) / 16 * 16)),
                                        .size_bytes = scratch_bytes};
        assert_int_equal(rec_build_end_compressed(&build, CODEC_LZ4, CODEC_LEVEL_DEFAULT, scratch, owned, out_max,
                                                  &batch),
                         CODEC_OK);
        free(scratch.at);
        free(memory);
    } else {
        batch = rec_build_end(&build);
        owned = memory;
    }
    free(value);
    uint64_t token = new_token(world);
    struct plog_append append = {.token = token,
                                 .batches = owned,
                                 .size_bytes = (uint32_t)batch.size_bytes,
                                 .leader_epoch = ask.leader_epoch,
                                 .is_log_append_time = ask.is_log_append_time,
                                 .is_assigned = ask.is_assigned,
                                 .wants_written = ask.wants_written};
    if (plog_append(world->plog, ref, &append, &world->out) != BASE_OK) {
        free(owned);
        world->next_token -= 1;
        return 0;
    }
    world->answers[token].batch = owned;
    settle(world);
    return token;
}

static uint64_t asked(struct world *world, uint64_t token, enum base_rc rc)
{
    if (rc != BASE_OK) {
        world->next_token -= 1;
        return 0;
    }
    settle(world);
    return token;
}

uint64_t world_truncate(struct world *world, struct plog_ref ref, int64_t offset)
{
    uint64_t token = new_token(world);
    return asked(world, token, plog_truncate(world->plog, ref, token, offset, &world->out));
}

uint64_t world_begin_epoch(struct world *world, struct plog_ref ref, int32_t epoch)
{
    uint64_t token = new_token(world);
    return asked(world, token, plog_begin_epoch(world->plog, ref, token, epoch, &world->out));
}

uint64_t world_find_time(struct world *world, struct plog_ref ref, int64_t timestamp)
{
    uint64_t token = new_token(world);
    return asked(world, token, plog_find_time(world->plog, ref, token, timestamp, &world->out));
}

uint64_t world_read(struct world *world, struct plog_ref ref, int64_t offset, uint32_t bytes_max)
{
    uint64_t token = new_token(world);
    struct plog_read read = {.token = token, .offset = offset, .bytes_max = bytes_max, .takes_oversized_first = true};
    if (plog_read(world->plog, ref, &read, &world->out) != BASE_OK) {
        world->next_token -= 1;
        return 0;
    }
    settle(world);
    return token;
}

struct plog_view world_view(struct world *world, struct plog_ref ref)
{
    struct plog_view view;
    plog_view(world->plog, ref, &view);
    return view;
}

const uint8_t *world_range(struct world *world, const struct plog_out *out)
{
    int at = open_node(world, out->file);
    assert_true(at >= 0);
    assert_true(out->position_bytes + out->size_bytes <= world->nodes[at].size);
    return world->nodes[at].bytes + out->position_bytes;
}

void world_release(struct world *world, const struct plog_out *out)
{
    if (out->lease == 0) { return; }
    plog_release(world->plog, out->lease, &world->out);
    settle(world);
}

int64_t world_read_all(struct world *world, struct plog_ref ref)
{
    struct plog_view view = world_view(world, ref);
    int64_t offset = view.offset_start;
    while (offset < view.watermark) {
        uint64_t token = world_read(world, ref, offset, 100000);
        world_run(world);
        struct answer *answer = world_answer(world, token);
        assert_true(answer->is_done);
        assert_int_equal(answer->result, PLOG_OK);
        assert_true(answer->out.size_bytes > 0);
        struct base_slice rest = base_slice_of(world_range(world, &answer->out), answer->out.size_bytes);
        struct rec_batch batch;
        int64_t before = offset;
        while (rec_batch_next(&rest, &batch) == REC_OK) {
            assert_true(rec_crc_is_right(&batch));
            assert_true(batch.base_offset <= offset);
            assert_true(rec_offset_end(&batch) > offset || batch.base_offset < before);
            if (offset > before || batch.base_offset >= before) { assert_int_equal(batch.base_offset, offset); }
            offset = rec_offset_end(&batch);
        }
        assert_true(offset > before);
        world_release(world, &answer->out);
    }
    assert_int_equal(offset, view.watermark);
    return offset - view.offset_start;
}
