/* puppet.c: see puppet.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "puppet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *puppet_create(void *context, const struct world_boot *boot)
{
    struct puppet *puppet = context;
    (void)boot;
    puppet->boots += 1;
    puppet->last_now_ns = 0;
    puppet->alarm_ns = UINT64_MAX;
    return puppet;
}

static void puppet_step(void *machine, const struct port_event *event, struct port_out *out)
{
    struct puppet *puppet = machine;
    assert_true(event->now_ns >= puppet->last_now_ns);
    puppet->last_now_ns = event->now_ns;
    switch (event->kind) {
    case PORT_EVENT_DONE:
        assert_true(event->done.token < PUPPET_TOKENS_MAX);
        puppet->done[event->done.token] = *event;
        puppet->completions[event->done.token] += 1;
        break;
    case PORT_EVENT_MESSAGE:
        for (uint32_t i = 0; i < puppet->effect_count; i++) {
            *port_emit(out, puppet->effects[i].kind, 0) = puppet->effects[i];
        }
        puppet->effect_count = 0;
        out->wants_turn = puppet->wants_turn;
        puppet->wants_turn = false;
        break;
    case PORT_EVENT_STOP:
        puppet->stops += 1;
        (void)port_emit(out, PORT_STOPPED, 0);
        break;
    case PORT_EVENT_ALARM:
        assert_true(event->now_ns >= puppet->alarm_ns);
        puppet->alarms += 1;
        puppet->alarm_ns = UINT64_MAX;
        break;
    case PORT_EVENT_TURN:
        puppet->turns += 1;
        puppet->alarms_before_turn = puppet->alarms;
        break;
    case PORT_EVENT_START:
    case PORT_EVENT_CONTINUE:
    case PORT_EVENT_COUNT: break;
    }
    port_alarm(out, puppet->alarm_ns);
}

const struct world_machine puppet_machine = {.create = puppet_create, .step = puppet_step};

struct puppet *add_puppet(struct world *world, uint32_t disks)
{
    struct puppet *puppet = calloc(1, sizeof *puppet);
    assert_non_null(puppet);
    puppet->world = world;
    puppet->node = world_add_node(world, &(struct world_node_spec){.machine = &puppet_machine,
                                                                   .context = puppet,
                                                                   .shard_count = 1,
                                                                   .disk_count = disks});
    return puppet;
}

struct puppet *given_puppet(uint64_t seed, const struct world_knobs *knobs)
{
    struct world_knobs plain;
    world_knobs_default(&plain);
    plain.restart_delay_max_ns = 0;
    return add_puppet(world_create(seed, knobs == NULL ? &plain : knobs), 1);
}

void drop_puppet(struct puppet *puppet)
{
    world_destroy(puppet->world);
    free(puppet);
}

uint64_t ask_all(struct puppet *puppet, struct port_effect *effects, uint32_t count)
{
    uint64_t first = puppet->next_token;
    for (uint32_t i = 0; i < count; i++) {
        effects[i].token = puppet->next_token;
        puppet->next_token += 1;
    }
    assert_true(puppet->next_token < PUPPET_TOKENS_MAX);
    puppet->effects = effects;
    puppet->effect_count = count;
    world_post(puppet->world, puppet->node, 0, &(struct port_message){.kind = 1});
    while (puppet->effect_count > 0 && world_node_state(puppet->world, puppet->node) == WORLD_UP) {
        assert_true(world_step(puppet->world));
    }
    return first;
}

uint64_t ask(struct puppet *puppet, struct port_effect effect) { return ask_all(puppet, &effect, 1); }

bool has_come(const struct puppet *puppet, uint64_t token) { return puppet->completions[token] > 0; }

struct port_event await(struct puppet *puppet, uint64_t token)
{
    while (!has_come(puppet, token)) {
        if (!world_step(puppet->world)) { fail_msg("token %llu never completes", (unsigned long long)token); }
    }
    assert_int_equal(puppet->completions[token], 1);
    return puppet->done[token];
}

struct port_event do_it(struct puppet *puppet, struct port_effect effect) { return await(puppet, ask(puppet, effect)); }

void crash_and_restart(struct puppet *puppet, enum world_crash kind)
{
    world_crash(puppet->world, puppet->node, kind);
    world_restart(puppet->world, puppet->node);
}

static struct port_file file_id(uint32_t slot, uint32_t generation)
{
    return (struct port_file){.shard = 0, .slot = slot, .generation = generation};
}

struct port_effect an_open(uint32_t slot, uint32_t generation, const char *path, uint32_t flags)
{
    return (struct port_effect){.kind = PORT_OPEN,
                                .file = file_id(slot, generation),
                                .path = base_slice_text(path),
                                .flags = flags};
}

struct port_effect a_write(uint32_t slot, uint32_t generation, uint64_t position, const void *bytes,
                           uint64_t size_bytes)
{
    static struct port_piece pieces[16];
    static uint32_t next;
    struct port_piece *piece = &pieces[next % BASE_ARRAY_COUNT(pieces)];
    next += 1;
    *piece = (struct port_piece){.kind = PORT_MEMORY, .at = bytes, .size_bytes = size_bytes};
    return (struct port_effect){.kind = PORT_WRITE,
                                .file = file_id(slot, generation),
                                .position_bytes = position,
                                .pieces = piece,
                                .piece_count = 1};
}

struct port_effect of_file(enum port_effect_kind kind, uint32_t slot, uint32_t generation)
{
    return (struct port_effect){.kind = kind, .file = file_id(slot, generation)};
}

struct port_effect of_conn(enum port_effect_kind kind, uint32_t slot, uint32_t generation)
{
    return (struct port_effect){.kind = kind, .conn = {.slot = slot, .generation = generation}};
}

struct port_effect by_name(enum port_effect_kind kind, const char *path)
{
    return (struct port_effect){.kind = kind, .path = base_slice_text(path)};
}

struct port_effect a_rename(const char *from, const char *to)
{
    return (struct port_effect){.kind = PORT_RENAME, .path = base_slice_text(from), .path_to = base_slice_text(to)};
}

void expect_rc(struct port_event event, enum port_rc rc)
{
    if (event.done.rc != rc) {
        fail_msg("%s: %s, not %s", port_effect_name(event.done.effect), port_rc_name(event.done.rc), port_rc_name(rc));
    }
}

bool holds(const struct puppet *puppet, const char *path, const void *bytes, size_t size_bytes)
{
    struct base_slice seen;
    return world_file_view(puppet->world, puppet->node, 0, path, &seen) &&
           base_slice_equal(seen, base_slice_of(bytes, size_bytes));
}

void expect_holds(const struct puppet *puppet, const char *path, const char *words)
{
    struct base_slice seen;
    if (!world_file_view(puppet->world, puppet->node, 0, path, &seen)) { fail_msg("no file %s", path); }
    if (!base_slice_equal(seen, base_slice_text(words))) {
        fail_msg("%s holds '%.*s', not '%s'", path, (int)seen.size_bytes, (const char *)seen.at, words);
    }
}

void expect_failure(const struct puppet *puppet, const char *words)
{
    const char *seen = world_failure(puppet->world);
    if (seen == NULL) { fail_msg("nothing was reported, not '%s'", words); }
    if (strstr(seen, words) == NULL) { fail_msg("'%s' says nothing of '%s'", seen, words); }
}

void given_connection(struct puppet *server, struct puppet *client)
{
    struct port_listener listener = {.slot = 0, .generation = 1};
    struct port_address address = world_address(server->world, server->node, 9092);
    expect_rc(do_it(server, (struct port_effect){.kind = PORT_LISTEN, .listener = listener, .address = address}),
              PORT_OK);
    struct port_effect accept = of_conn(PORT_ACCEPT, 1, 1);
    accept.listener = listener;
    uint64_t accepted = ask(server, accept);
    struct port_effect connect = of_conn(PORT_CONNECT, 1, 1);
    connect.address = address;
    expect_rc(do_it(client, connect), PORT_OK);
    expect_rc(await(server, accepted), PORT_OK);
}
