/* keeper.c: see keeper.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "keeper.h"

#include <stdlib.h>
#include <string.h>

#define CONNS        4
#define BUFFER_BYTES 64
#define PORT         9092

enum conn_state { CONN_FREE = 0, CONN_OPENING, CONN_OPEN, CONN_CLOSING };

struct conn {
    enum conn_state state;
    bool has_file_work; /* a write or sync names its bytes: the slot is not free */
    uint32_t generation;
    uint8_t buffer[BUFFER_BYTES];
    uint8_t stored[BUFFER_BYTES];
    uint32_t count, written;
    uint64_t position;
    struct port_piece piece;
};

enum stage { STAGE_BOOT = 0, STAGE_LOG, STAGE_LISTEN, STAGE_UP, STAGE_STOPPING };

struct server {
    struct keeper_plan *plan;
    struct world_boot boot;
    struct base_prng prng;
    enum stage stage;
    uint32_t at; /* in the errands of the boot */
    bool is_asking, is_reading, has_file, has_listener, is_broken, is_closing_file, is_closing_listener, is_stopped;
    uint32_t file_generation, listener_generation;
    uint64_t end_bytes;
    uint64_t sent[WORLD_SHARDS_MAX], got[WORLD_SHARDS_MAX];
    uint64_t retry_ns;
    struct conn conns[CONNS];
    char name[8];
    uint8_t list[256];
    uint8_t read[256];
};

static uint8_t byte_at(uint64_t position, uint32_t shard) { return (uint8_t)(1 + (position * 7 + shard) % 250); }

static struct port_conn conn_id(uint32_t slot, const struct conn *conn)
{
    return (struct port_conn){.slot = slot, .generation = conn->generation};
}

static void *server_create(void *context, const struct world_boot *boot)
{
    struct server *server = boot->region.at;
    CHECK(sizeof *server <= boot->region.size_bytes);
    server->plan = context;
    server->boot = *boot;
    base_prng_init(&server->prng, boot->seed, 1);
    server->retry_ns = UINT64_MAX;
    memcpy(server->name, "log0", 5);
    server->name[3] = (char)('0' + boot->shard);
    return server;
}

/* ---- the boot: errands in turn, whatever comes of them ---- */

static const struct {
    enum port_effect_kind kind;
    const char *path, *path_to;
    uint32_t flags;
} errands[] = {
    {PORT_RESOLVE, "n0", NULL, 0},
    {PORT_MAKE_DIR, "d", NULL, 0},
    {PORT_OPEN, "d/tmp", NULL, PORT_OPEN_WRITE | PORT_OPEN_CREATE},
    {PORT_RENAME, "d/tmp", "d/kept", 0},
    {PORT_LIST, "", NULL, 0},
    {PORT_UNLINK, "d/kept", NULL, 0},
    {PORT_MAKE_DIR, "e", NULL, 0},
    {PORT_REMOVE_DIR, "e", NULL, 0},
    {PORT_SYNC_DIR, "d", NULL, 0},
    {PORT_SYNC_DIR, "", NULL, 0},
};

static struct port_file log_id(const struct server *server)
{
    return (struct port_file){.shard = server->boot.shard, .slot = 0, .generation = server->file_generation};
}

static struct port_listener listener_id(const struct server *server)
{
    return (struct port_listener){.slot = 0, .generation = server->listener_generation};
}

static void emit_errand(struct server *server, struct port_out *out)
{
    struct port_effect *effect = port_emit(out, errands[server->at].kind, 100 + server->at);
    effect->path = base_slice_text(errands[server->at].path);
    if (errands[server->at].path_to != NULL) { effect->path_to = base_slice_text(errands[server->at].path_to); }
    effect->flags = errands[server->at].flags;
    effect->file = (struct port_file){.shard = server->boot.shard, .slot = 1, .generation = 1};
    if (effect->kind == PORT_LIST) {
        effect->buffer = server->list;
        effect->size_bytes = sizeof server->list;
    }
}

static void go_on(struct server *server, struct port_out *out)
{
    if (server->is_asking || server->stage == STAGE_STOPPING) { return; }
    switch (server->stage) {
    case STAGE_BOOT:
        if (server->at < BASE_ARRAY_COUNT(errands)) {
            emit_errand(server, out);
            server->is_asking = true;
            return;
        }
        server->stage = STAGE_LOG;
        go_on(server, out);
        return;
    case STAGE_LOG: {
        server->file_generation += 1;
        struct port_effect *open = port_emit(out, PORT_OPEN, 1);
        open->file = log_id(server);
        open->path = base_slice_text(server->name);
        open->flags = PORT_OPEN_WRITE | PORT_OPEN_CREATE;
        break;
    }
    case STAGE_LISTEN: {
        server->listener_generation += 1;
        struct port_effect *listen = port_emit(out, PORT_LISTEN, 2);
        listen->listener = listener_id(server);
        listen->address = server->boot.address;
        listen->address.port = PORT;
        break;
    }
    case STAGE_UP:
        for (uint32_t i = 0; i < CONNS; i++) {
            if (server->conns[i].state != CONN_FREE || server->conns[i].has_file_work) { continue; }
            server->conns[i].generation += 1;
            server->conns[i].state = CONN_OPENING;
            struct port_effect *accept = port_emit(out, PORT_ACCEPT, 3);
            accept->listener = listener_id(server);
            accept->conn = conn_id(i, &server->conns[i]);
        }
        return;
    case STAGE_STOPPING: return;
    }
    server->is_asking = true;
}

/* ---- one connection: RECV, WRITE, SYNC, SEND, again ---- */

static void recv_more(struct conn *conn, uint32_t slot, struct port_out *out)
{
    struct port_effect *recv = port_emit(out, PORT_RECV, slot);
    recv->conn = conn_id(slot, conn);
    recv->buffer = conn->buffer;
    recv->size_bytes = BUFFER_BYTES;
}

static void close_conn(struct conn *conn, uint32_t slot, struct port_out *out)
{
    if (conn->state != CONN_OPEN && conn->state != CONN_OPENING) { return; }
    conn->state = CONN_CLOSING;
    port_emit(out, PORT_CLOSE, slot)->conn = conn_id(slot, conn);
}

static void write_rest(struct server *server, struct conn *conn, uint32_t slot, struct port_out *out)
{
    struct port_effect *write = port_emit(out, PORT_WRITE, slot);
    conn->has_file_work = true;
    write->file = log_id(server);
    write->where = base_prng_chance(&server->prng, 1, 2) ? PORT_ON_SHARD : PORT_ON_DISK;
    write->position_bytes = conn->position + conn->written;
    conn->piece = (struct port_piece){.kind = PORT_MEMORY,
                                      .at = conn->stored + conn->written,
                                      .size_bytes = conn->count - conn->written};
    write->pieces = &conn->piece;
    write->piece_count = 1;
}

static void take_bytes(struct server *server, struct conn *conn, uint32_t slot, uint64_t count, struct port_out *out)
{
    if (server->is_broken || !server->has_file || server->end_bytes + count > KEEPER_FILE_MAX_BYTES) {
        close_conn(conn, slot, out);
        return;
    }
    conn->count = (uint32_t)count;
    conn->written = 0;
    conn->position = server->end_bytes;
    server->end_bytes += count;
    for (uint32_t i = 0; i < conn->count; i++) { conn->stored[i] = byte_at(conn->position + i, server->boot.shard); }
    write_rest(server, conn, slot, out);
    if (server->boot.shard_count > 1) {
        uint32_t to = (server->boot.shard + 1) % server->boot.shard_count;
        struct port_message *message = port_send_message(out, to, 1);
        message->words[0] = server->sent[to];
        server->sent[to] += 1;
    }
    if (!server->is_reading && base_prng_chance(&server->prng, 1, 2)) {
        server->is_reading = true;
        struct port_effect *read = port_emit(out, PORT_READ, 4);
        read->file = log_id(server);
        read->buffer = server->read;
        read->size_bytes = sizeof server->read;
    }
    if (base_prng_chance(&server->prng, 1, 8)) {
        struct port_effect *allocate = port_emit(out, PORT_ALLOCATE, 1000);
        allocate->file = log_id(server);
        allocate->position_bytes = server->end_bytes;
        allocate->size_bytes = 4096;
    }
}

static void promise(struct server *server, const struct conn *conn)
{
    struct keeper_plan *plan = server->plan;
    uint32_t shard = server->boot.shard;
    memset(plan->promised[shard] + conn->position, 1, conn->count);
    plan->promised_end[shard] = base_max_u64(plan->promised_end[shard], conn->position + conn->count);
}

static void conn_done(struct server *server, const struct port_event *event, struct port_out *out)
{
    bool is_file = event->done.effect == PORT_WRITE || event->done.effect == PORT_SYNC;
    uint32_t slot = is_file ? (uint32_t)event->done.token : event->done.conn.slot;
    struct conn *conn = &server->conns[slot];
    bool is_ok = event->done.rc == PORT_OK;
    bool is_current = conn->state == CONN_OPEN;
    if (is_file) { conn->has_file_work = false; }
    if (is_file && !is_ok) { server->is_broken = true; }
    switch ((int)event->done.effect) {
    case PORT_ACCEPT:
        if (conn->state != CONN_OPENING) { return; }
        conn->state = is_ok ? CONN_OPEN : CONN_FREE;
        if (is_ok) { recv_more(conn, slot, out); }
        if (!is_ok) { server->retry_ns = event->now_ns + 5 * WORLD_MS; }
        return;
    case PORT_CLOSE: conn->state = CONN_FREE; return;
    case PORT_RECV:
        if (is_current && is_ok) { take_bytes(server, conn, slot, event->done.count, out); }
        break;
    case PORT_WRITE:
        if (!is_ok || server->is_broken || conn->state != CONN_OPEN) { break; }
        conn->written += (uint32_t)event->done.count;
        if (conn->written < conn->count) {
            write_rest(server, conn, slot, out);
        } else {
            port_emit(out, PORT_SYNC, slot)->file = log_id(server);
            conn->has_file_work = true;
        }
        return;
    case PORT_SYNC: {
        if (!is_ok || server->is_broken || conn->state != CONN_OPEN) { break; }
        promise(server, conn);
        struct port_effect *send = port_emit(out, PORT_SEND, slot);
        send->conn = conn_id(slot, conn);
        conn->piece = (struct port_piece){.kind = PORT_MEMORY, .at = conn->buffer, .size_bytes = conn->count};
        send->pieces = &conn->piece;
        send->piece_count = 1;
        return;
    }
    case PORT_SEND:
        if (is_current && is_ok) { recv_more(conn, slot, out); }
        break;
    default: UNREACHABLE();
    }
    if (!is_ok || server->is_broken) { close_conn(conn, slot, out); }
}

/* ---- the server ---- */

static void boot_done(struct server *server, const struct port_event *event, struct port_out *out)
{
    bool is_ok = event->done.rc == PORT_OK;
    server->is_asking = false;
    if (event->done.effect == PORT_OPEN && event->done.token == 1) {
        if (is_ok) {
            server->has_file = true;
            server->end_bytes = event->done.count;
            port_emit(out, PORT_SYNC, 4000)->file = log_id(server); /* what is read must be durable */
            port_emit(out, PORT_SYNC_DIR, 4001);
            server->is_asking = true;
        } else {
            server->retry_ns = event->now_ns + 10 * WORLD_MS;
        }
        return;
    }
    if (event->done.effect == PORT_LISTEN) {
        server->has_listener = is_ok;
        if (is_ok && server->stage != STAGE_STOPPING) { server->stage = STAGE_UP; }
        if (!is_ok) { server->retry_ns = event->now_ns + 10 * WORLD_MS; }
        return;
    }
    if (event->done.effect == PORT_OPEN && is_ok) { port_emit(out, PORT_CLOSE_FILE, 5)->file = event->done.file; }
    server->at += 1;
}

static void server_done(struct server *server, const struct port_event *event, struct port_out *out)
{
    switch (event->done.effect) {
    case PORT_ACCEPT:
    case PORT_CLOSE:
    case PORT_RECV:
    case PORT_SEND:
    case PORT_WRITE: conn_done(server, event, out); break;
    case PORT_SYNC:
        if (event->done.token == 4000) {
            server->is_broken = server->is_broken || event->done.rc != PORT_OK;
        } else {
            conn_done(server, event, out);
        }
        break;
    case PORT_CLOSE_FILE:
        if (event->done.file.slot == 0) { server->has_file = false; }
        break;
    case PORT_UNLISTEN: server->has_listener = false; break;
    case PORT_SYNC_DIR:
        if (event->done.token == 4001) {
            server->is_broken = server->is_broken || event->done.rc != PORT_OK;
            if (server->stage == STAGE_LOG) {
                server->stage = STAGE_LISTEN;
            } /* no promise before the name is durable */
            server->is_asking = false;
            break;
        }
        boot_done(server, event, out);
        break;
    case PORT_READ: server->is_reading = false; break;
    case PORT_ALLOCATE: break;
    case PORT_LISTEN:
    case PORT_RESOLVE:
    case PORT_CONNECT:
    case PORT_SHUT:
    case PORT_OPEN:
    case PORT_TRUNCATE:
    case PORT_RENAME:
    case PORT_UNLINK:
    case PORT_MAKE_DIR:
    case PORT_REMOVE_DIR:
    case PORT_LIST:
    case PORT_SPACE: boot_done(server, event, out); break;
    case PORT_LOG:
    case PORT_LEVEL:
    case PORT_READY:
    case PORT_STOPPED:
    case PORT_EFFECT_COUNT: UNREACHABLE();
    }
}

static void stop_on(struct server *server, struct port_out *out)
{
    bool is_idle = !server->is_asking;
    for (uint32_t i = 0; i < CONNS; i++) {
        close_conn(&server->conns[i], i, out);
        is_idle = is_idle && server->conns[i].state == CONN_FREE && !server->conns[i].has_file_work;
    }
    if (!is_idle || server->is_stopped) { return; }
    if (server->has_listener && !server->is_closing_listener) {
        server->is_closing_listener = true;
        port_emit(out, PORT_UNLISTEN, 6)->listener = listener_id(server);
    }
    if (server->has_file && !server->is_closing_file) {
        server->is_closing_file = true;
        port_emit(out, PORT_CLOSE_FILE, 7)->file = log_id(server);
    }
    if (server->has_listener || server->has_file) { return; }
    if (world_outstanding(server->plan->world, server->boot.node) > 0 && server->boot.shard_count == 1) {
        out->wants_continue = true; /* an errand's CLOSE_FILE or SYNC_DIR is still on its way */
        return;
    }
    server->is_stopped = true;
    (void)port_emit(out, PORT_STOPPED, 0);
}

static void server_step(void *machine, const struct port_event *event, struct port_out *out)
{
    struct server *server = machine;
    switch (event->kind) {
    case PORT_EVENT_START: {
        struct base_text text;
        port_log_begin(out, &text);
        base_text_add(&text, "boot ");
        base_text_add_i64(&text, server->plan->extra_byte);
        port_log_end(out, PORT_INFO, "keeper", &text);
        break;
    }
    case PORT_EVENT_DONE: server_done(server, event, out); break;
    case PORT_EVENT_MESSAGE:
        if (event->message.words[0] != server->got[event->message.from]) { server->plan->wrong += 1; }
        server->got[event->message.from] += 1;
        break;
    case PORT_EVENT_STOP: server->stage = STAGE_STOPPING; break;
    case PORT_EVENT_ALARM: server->retry_ns = UINT64_MAX; break;
    case PORT_EVENT_TURN: server->plan->turns += 1; break;
    case PORT_EVENT_CONTINUE: server->plan->continues += 1; break;
    case PORT_EVENT_COUNT: break;
    }
    if (server->stage == STAGE_STOPPING) {
        stop_on(server, out);
    } else if (server->retry_ns == UINT64_MAX) {
        go_on(server, out);
    }
    if (server->stage != STAGE_STOPPING) { port_alarm(out, server->retry_ns); }
    out->wants_turn = event->kind == PORT_EVENT_DONE;
    out->wants_continue =
        out->wants_continue || (event->kind == PORT_EVENT_DONE && base_prng_chance(&server->prng, 1, 8));
}

const struct world_machine keeper_machine = {.create = server_create, .step = server_step};

/* ---- the client ---- */

struct client {
    struct keeper_plan *plan;
    struct base_prng prng;
    struct conn conn;
    uint64_t retry_ns;
    uint32_t compared;
    bool is_stopping, is_stopped;
    uint8_t got[BUFFER_BYTES];
};

static void *client_create(void *context, const struct world_boot *boot)
{
    struct client *client = boot->region.at;
    client->plan = context;
    client->retry_ns = UINT64_MAX;
    base_prng_init(&client->prng, boot->seed, 1);
    return client;
}

static void client_connect(struct client *client, struct port_out *out)
{
    client->conn.generation += 1;
    client->conn.state = CONN_OPENING;
    struct port_effect *connect = port_emit(out, PORT_CONNECT, 1);
    connect->conn = conn_id(0, &client->conn);
    connect->address = world_address(client->plan->world, 0, PORT);
}

static void client_send(struct client *client, struct port_out *out)
{
    struct conn *conn = &client->conn;
    conn->count = 1 + (uint32_t)base_prng_below(&client->prng, BUFFER_BYTES);
    base_prng_fill(&client->prng, conn->stored, conn->count);
    conn->stored[0] = client->plan->extra_byte;
    client->compared = 0;
    conn->piece = (struct port_piece){.kind = PORT_MEMORY, .at = conn->stored, .size_bytes = conn->count};
    struct port_effect *send = port_emit(out, PORT_SEND, 2);
    send->conn = conn_id(0, conn);
    send->pieces = &conn->piece;
    send->piece_count = 1;
}

static void client_recv(struct client *client, struct port_out *out)
{
    struct port_effect *recv = port_emit(out, PORT_RECV, 3);
    recv->conn = conn_id(0, &client->conn);
    recv->buffer = client->got;
    recv->size_bytes = sizeof client->got;
}

static void client_compare(struct client *client, uint64_t count, struct port_out *out)
{
    struct conn *conn = &client->conn;
    if (client->compared + count > conn->count || memcmp(client->got, conn->stored + client->compared, count) != 0) {
        client->plan->wrong += 1;
        close_conn(conn, 0, out);
        return;
    }
    client->compared += (uint32_t)count;
    if (client->compared < conn->count) {
        client_recv(client, out);
        return;
    }
    client->plan->echoes += 1;
    client_send(client, out);
}

static void client_done(struct client *client, const struct port_event *event, struct port_out *out)
{
    struct conn *conn = &client->conn;
    bool is_ok = event->done.rc == PORT_OK;
    switch ((int)event->done.effect) {
    case PORT_CONNECT:
        if (conn->state != CONN_OPENING) { return; }
        conn->state = is_ok ? CONN_OPEN : CONN_FREE;
        if (is_ok) { client_send(client, out); }
        if (!is_ok) { client->retry_ns = event->now_ns + 20 * WORLD_MS; }
        return;
    case PORT_CLOSE:
        conn->state = CONN_FREE;
        client->retry_ns = event->now_ns + 20 * WORLD_MS;
        return;
    case PORT_SEND:
        if (is_ok && conn->state == CONN_OPEN) {
            client_recv(client, out);
            return;
        }
        break;
    case PORT_RECV:
        if (is_ok && conn->state == CONN_OPEN) {
            client_compare(client, event->done.count, out);
            return;
        }
        break;
    default: UNREACHABLE();
    }
    if (!is_ok) { close_conn(conn, 0, out); }
}

static void client_step(void *machine, const struct port_event *event, struct port_out *out)
{
    struct client *client = machine;
    switch (event->kind) {
    case PORT_EVENT_START: client->retry_ns = event->now_ns + WORLD_MS; break;
    case PORT_EVENT_DONE: client_done(client, event, out); break;
    case PORT_EVENT_STOP: client->is_stopping = true; break;
    case PORT_EVENT_ALARM:
        client->retry_ns = UINT64_MAX;
        if (!client->is_stopping && client->conn.state == CONN_FREE) { client_connect(client, out); }
        break;
    case PORT_EVENT_MESSAGE:
    case PORT_EVENT_TURN:
    case PORT_EVENT_CONTINUE:
    case PORT_EVENT_COUNT: break;
    }
    /* Half-open peers never answer: a machine has time-outs of its own, this one a dull one. */
    if (client->conn.state == CONN_OPEN && client->retry_ns == UINT64_MAX) {
        client->retry_ns = event->now_ns + 5 * WORLD_S;
    }
    if (event->kind == PORT_EVENT_ALARM && client->conn.state == CONN_OPEN) { close_conn(&client->conn, 0, out); }
    if (client->is_stopping) {
        close_conn(&client->conn, 0, out);
        if (client->conn.state == CONN_FREE && !client->is_stopped) {
            client->is_stopped = true;
            (void)port_emit(out, PORT_STOPPED, 0);
        }
        return;
    }
    port_alarm(out, client->retry_ns);
}

const struct world_machine client_machine = {.create = client_create, .step = client_step};

/* ---- a run ---- */

void keeper_judge(struct keeper_plan *plan, uint32_t node, uint32_t shards)
{
    for (uint32_t shard = 0; shard < shards; shard++) {
        char name[8] = "log0";
        name[3] = (char)('0' + shard);
        struct base_slice seen = {0};
        bool is_there = world_file_view(plan->world, node, 0, name, &seen);
        for (uint64_t i = 0; i < plan->promised_end[shard]; i++) {
            if (plan->promised[shard][i] == 0) { continue; }
            if (!is_there || i >= seen.size_bytes || seen.at[i] != byte_at(i, shard)) {
                world_fail(plan->world, node, "promised byte %llu of %s is gone", (unsigned long long)i, name);
                plan->wrong += 1;
                return;
            }
        }
    }
}

static void on_boot(void *context, uint32_t node)
{
    struct keeper_plan *plan = context;
    if (node == 0) { keeper_judge(plan, node, plan->promised[1] == NULL ? 1 : 2); }
}

static void stop_all(struct world *world)
{
    for (uint32_t i = 0; i < world_node_count(world); i++) { world_stop(world, i); }
    uint64_t until_ns = world_now(world) + 300 * WORLD_S;
    bool is_up = true;
    while (is_up && world_now(world) < until_ns && world_step(world)) {
        is_up = false;
        for (uint32_t i = 0; i < world_node_count(world); i++) {
            is_up = is_up || world_node_state(world, i) == WORLD_UP;
        }
    }
    if (is_up) { world_fail(world, WORLD_NONE, "a node does not stop"); }
}

void keeper_run(struct keeper_run *run)
{
    struct keeper_plan plan = {.extra_byte = run->extra_byte};
    CHECK(run->shards <= 2);
    for (uint32_t i = 0; i < run->shards; i++) { plan.promised[i] = calloc(1, KEEPER_FILE_MAX_BYTES); }
    struct world *world = world_create(run->seed, run->knobs);
    plan.world = world;
    world_trace_to(world, run->trace);
    world_observe(world, &(struct world_observer){.context = &plan, .on_boot = on_boot});
    struct world_node_spec server = {.machine = &keeper_machine,
                                     .context = &plan,
                                     .shard_count = run->shards,
                                     .disk_count = 1,
                                     .region_bytes = KEEPER_REGION_BYTES};
    (void)world_add_node(world, &server);
    struct world_node_spec client = {.machine = &client_machine,
                                     .context = &plan,
                                     .shard_count = 1,
                                     .region_bytes = KEEPER_REGION_BYTES};
    for (uint32_t i = 0; i < run->clients; i++) { (void)world_add_node(world, &client); }
    (void)world_run(world, run->until_ns);
    uint64_t echoes_before = plan.echoes;
    if (world_failure(world) == NULL) {
        world_calm(world);
        world_crash(world, 0, WORLD_POWER); /* whatever broke it is over */
        world_restart(world, 0);
        (void)world_run(world, world_now(world) + run->calm_ns);
    }
    run->echoes_calm = plan.echoes - echoes_before;
    if (world_failure(world) == NULL) { stop_all(world); }
    if (world_failure(world) == NULL) { keeper_judge(&plan, 0, run->shards); }
    run->hash = world_hash(world);
    run->events = world_events(world);
    run->echoes = plan.echoes;
    run->wrong = plan.wrong;
    run->boots = world_boot_count(world, 0);
    for (uint32_t i = 0; i < WORLD_FAULT_COUNT; i++) { run->hits[i] += world_hits(world, (enum world_fault)i); }
    run->failure[0] = '\0';
    if (world_failure(world) != NULL) { (void)snprintf(run->failure, sizeof run->failure, "%s", world_failure(world)); }
    world_destroy(world);
    for (uint32_t i = 0; i < run->shards; i++) { free(plan.promised[i]); }
}
