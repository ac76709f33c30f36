/* test_echo.c: a tiny machine on the real adapter: frames of a 4-byte length and that many bytes come back as they are.
 *
 * The machine shows the shape of every larger one: idle connections hold no buffer; what is received is cut into frames,
 * wherever the cuts fall; answers of one turn leave together; the shard stops when it is asked to and everything is closed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/uv/host.h"

/* ---- the machine ---- */

#define CONNS           8
#define FRAME_BYTES_MAX 600
#define IN_BYTES        4096
#define OUT_BYTES       65536

enum doing { IDLE = 0, LISTENS, ACCEPTS, WAITS, RECEIVES, SENDS, CLOSES };

/* A token is what is being done, and the slot. */
static uint64_t token_of(enum doing doing, uint32_t slot) { return (uint64_t)doing << 32 | slot; }

struct client {
    uint32_t generation;
    bool is_open;
    bool is_sending;
    bool is_ended;
    uint8_t in[IN_BYTES];
    uint32_t in_bytes;
    uint8_t out[OUT_BYTES];
    uint32_t out_bytes;
    struct port_piece piece;
};

struct echo {
    uint32_t recv_bytes_max; /* what one RECV may take: where the cuts fall */
    struct client clients[CONNS];
    uint32_t open_count;
    uint32_t outstanding;
    bool is_stopping;
    bool has_stopped;
    pthread_mutex_t lock;
    pthread_cond_t listening;
    uint16_t port; /* under the lock */
    uint64_t frames;
};

static const struct port_listener the_listener = {.slot = 0, .generation = 1};

static struct port_conn conn_of(const struct echo *echo, uint32_t slot)
{
    return (struct port_conn){.slot = slot, .generation = echo->clients[slot].generation};
}

static struct port_effect *emit(struct echo *echo, struct port_out *out, enum port_effect_kind kind, enum doing doing,
                                uint32_t slot)
{
    struct port_effect *effect = port_emit(out, kind, token_of(doing, slot));
    effect->conn = conn_of(echo, slot);
    effect->listener = the_listener;
    echo->outstanding += 1;
    return effect;
}

static void accept_into(struct echo *echo, uint32_t slot, struct port_out *out)
{
    struct client *client = &echo->clients[slot];
    uint32_t generation = client->generation + 1;
    memset(client, 0, sizeof *client);
    client->generation = generation;
    (void)emit(echo, out, PORT_ACCEPT, ACCEPTS, slot);
}

static void wait_for_bytes(struct echo *echo, uint32_t slot, struct port_out *out)
{
    (void)emit(echo, out, PORT_RECV, WAITS, slot);
}

static void receive(struct echo *echo, uint32_t slot, struct port_out *out)
{
    struct client *client = &echo->clients[slot];
    struct port_effect *effect = emit(echo, out, PORT_RECV, RECEIVES, slot);
    effect->buffer = client->in + client->in_bytes;
    effect->size_bytes = base_min_u64(IN_BYTES - client->in_bytes, echo->recv_bytes_max);
}

static void close_client(struct echo *echo, uint32_t slot, struct port_out *out)
{
    (void)emit(echo, out, PORT_CLOSE, CLOSES, slot);
    echo->clients[slot].is_open = false;
}

/* Moves whole frames from in to out, as many as fit. */
static void cut_frames(struct echo *echo, struct client *client)
{
    uint32_t at = 0;
    while (client->in_bytes - at >= 4) {
        uint32_t frame_bytes = 4 + base_get_u32(client->in + at);
        CHECK(frame_bytes <= FRAME_BYTES_MAX);
        if (client->in_bytes - at < frame_bytes || OUT_BYTES - client->out_bytes < frame_bytes) { break; }
        memcpy(client->out + client->out_bytes, client->in + at, frame_bytes);
        client->out_bytes += frame_bytes;
        at += frame_bytes;
        echo->frames += 1;
    }
    memmove(client->in, client->in + at, client->in_bytes - at);
    client->in_bytes -= at;
}

static void on_turn(struct echo *echo, struct port_out *out)
{
    for (uint32_t i = 0; i < CONNS; i++) {
        struct client *client = &echo->clients[i];
        if (!client->is_open || client->is_sending) { continue; }
        if (client->out_bytes > 0) {
            client->is_sending = true;
            client->piece = (struct port_piece){.at = client->out, .size_bytes = client->out_bytes};
            struct port_effect *effect = emit(echo, out, PORT_SEND, SENDS, i);
            effect->pieces = &client->piece;
            effect->piece_count = 1;
        } else if (client->is_ended) {
            close_client(echo, i, out);
        }
    }
}

static bool has_turn_work(const struct echo *echo)
{
    for (uint32_t i = 0; i < CONNS; i++) {
        const struct client *client = &echo->clients[i];
        if (client->is_open && !client->is_sending && (client->out_bytes > 0 || client->is_ended)) { return true; }
    }
    return false;
}

static void on_done(struct echo *echo, const struct port_event *event, struct port_out *out)
{
    enum doing doing = (enum doing)(event->done.token >> 32);
    uint32_t slot = (uint32_t)event->done.token;
    struct client *client = &echo->clients[slot];
    bool is_ok = event->done.rc == PORT_OK;
    echo->outstanding -= 1;
    switch (doing) {
    case LISTENS:
        CHECK(is_ok);
        for (uint32_t i = 0; i < CONNS; i++) { accept_into(echo, i, out); }
        (void)pthread_mutex_lock(&echo->lock);
        echo->port = event->done.address.port;
        (void)pthread_cond_signal(&echo->listening);
        (void)pthread_mutex_unlock(&echo->lock);
        break;
    case ACCEPTS:
        if (!is_ok) { break; }
        client->is_open = true;
        wait_for_bytes(echo, slot, out);
        break;
    case WAITS:
        if (is_ok) { receive(echo, slot, out); }
        break;
    case RECEIVES:
        if (event->done.rc == PORT_CLOSED) { break; }
        client->in_bytes += (uint32_t)event->done.count;
        cut_frames(echo, client);
        client->is_ended = !is_ok;
        if (is_ok) { wait_for_bytes(echo, slot, out); }
        break;
    case SENDS:
        client->is_sending = false;
        client->out_bytes = 0;
        cut_frames(echo, client);
        break;
    case CLOSES:
        if (!echo->is_stopping) { accept_into(echo, slot, out); }
        break;
    case IDLE: UNREACHABLE();
    }
}

static void on_stop(struct echo *echo, struct port_out *out)
{
    echo->is_stopping = true;
    (void)emit(echo, out, PORT_UNLISTEN, CLOSES, 0);
    for (uint32_t i = 0; i < CONNS; i++) {
        if (echo->clients[i].is_open) { close_client(echo, i, out); }
    }
}

static void echo_step(void *machine, const struct port_event *event, struct port_out *out)
{
    struct echo *echo = machine;
    switch (event->kind) {
    case PORT_EVENT_START: {
        struct port_effect *effect = emit(echo, out, PORT_LISTEN, LISTENS, 0);
        effect->address = (struct port_address){.ip = {[10] = 0xff, 0xff, 127, 0, 0, 1}};
        break;
    }
    case PORT_EVENT_DONE: on_done(echo, event, out); break;
    case PORT_EVENT_TURN: on_turn(echo, out); break;
    case PORT_EVENT_STOP: on_stop(echo, out); break;
    case PORT_EVENT_ALARM:
    case PORT_EVENT_CONTINUE:
    case PORT_EVENT_MESSAGE:
    case PORT_EVENT_COUNT: UNREACHABLE();
    }
    out->wants_turn = has_turn_work(echo);
    if (echo->is_stopping && echo->outstanding == 0 && !echo->has_stopped) {
        echo->has_stopped = true;
        (void)port_emit(out, PORT_STOPPED, 0);
    }
}

/* ---- the clients: plain blocking sockets ---- */

static int dial(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    int on = 1;
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    return fd;
}

static void put(int fd, const uint8_t *at, size_t size_bytes)
{
    while (size_bytes > 0) {
        ssize_t sent = send(fd, at, size_bytes, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += sent;
        size_bytes -= (size_t)sent;
    }
}

static void expect(int fd, const uint8_t *at, size_t size_bytes)
{
    uint8_t buffer[4096];
    while (size_bytes > 0) {
        ssize_t got = recv(fd, buffer, base_min_size(size_bytes, sizeof buffer), 0);
        assert_true(got > 0);
        assert_memory_equal(buffer, at, (size_t)got);
        at += got;
        size_bytes -= (size_t)got;
    }
}

static size_t make_frames(uint8_t *at, size_t size_bytes, uint32_t count, uint64_t seed)
{
    struct base_prng prng;
    base_prng_init(&prng, seed, 0);
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t body_bytes = (uint32_t)base_prng_below(&prng, 40);
        CHECK(used + 4 + body_bytes <= size_bytes);
        base_put_u32(at + used, body_bytes);
        base_prng_fill(&prng, at + used + 4, body_bytes);
        used += 4 + body_bytes;
    }
    return used;
}

/* ---- the runs ---- */

struct run {
    struct echo echo;
    struct host *host;
    pthread_t thread;
};

static void *run_host(void *arg)
{
    host_run(arg);
    return NULL;
}

static void start(struct run *run, uint32_t recv_bytes_max)
{
    memset(run, 0, sizeof *run);
    run->echo.recv_bytes_max = recv_bytes_max;
    assert_int_equal(pthread_mutex_init(&run->echo.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&run->echo.listening, NULL), 0);
    void *machine = &run->echo;
    struct host_config config = {
        .shards = 1, .conns_max = CONNS, .listeners_max = 1, .step = echo_step, .machines = &machine};
    char why[HOST_WHY_BYTES];
    assert_int_equal(host_create(&config, &run->host, why), PORT_OK);
    assert_int_equal(pthread_create(&run->thread, NULL, run_host, run->host), 0);
    (void)pthread_mutex_lock(&run->echo.lock);
    while (run->echo.port == 0) { (void)pthread_cond_wait(&run->echo.listening, &run->echo.lock); }
    (void)pthread_mutex_unlock(&run->echo.lock);
}

static void stop(struct run *run)
{
    host_stop(run->host);
    assert_int_equal(pthread_join(run->thread, NULL), 0);
    assert_int_equal(run->echo.outstanding, 0);
    host_destroy(run->host);
    (void)pthread_mutex_destroy(&run->echo.lock);
    (void)pthread_cond_destroy(&run->echo.listening);
}

static struct run the_run;

static void three_pipelining_clients_get_their_frames_back(void **state)
{
    (void)state;
    static uint8_t streams[3][8192];
    size_t sizes[3];
    for (uint64_t i = 0; i < 3; i++) { sizes[i] = make_frames(streams[i], sizeof streams[i], 150, i); }
    start(&the_run, IN_BYTES);
    int fds[3];
    for (int i = 0; i < 3; i++) { fds[i] = dial(the_run.echo.port); }
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 3; i++) { put(fds[i], streams[i], sizes[i]); }
        for (int i = 0; i < 3; i++) { expect(fds[i], streams[i], sizes[i]); }
    }
    for (int i = 0; i < 3; i++) { assert_int_equal(close(fds[i]), 0); }
    stop(&the_run);
    assert_int_equal(the_run.echo.frames, 3 * 50 * 150);
}

/* The cuts fall where the receive buffer ends, so at every byte; and where the client cuts. */
static void frames_cut_at_every_byte_come_back_whole(void **state)
{
    (void)state;
    static uint8_t stream[2048];
    size_t size = make_frames(stream, sizeof stream, 12, 7);
    for (uint32_t cut = 1; cut <= size; cut++) {
        start(&the_run, cut);
        int fds[3];
        for (int i = 0; i < 3; i++) { fds[i] = dial(the_run.echo.port); }
        for (int i = 0; i < 3; i++) { put(fds[i], stream, cut); }
        for (int i = 0; i < 3; i++) { put(fds[i], stream + cut, size - cut); }
        for (int i = 0; i < 3; i++) { expect(fds[i], stream, size); }
        for (int i = 0; i < 3; i++) { assert_int_equal(shutdown(fds[i], SHUT_WR), 0); }
        uint8_t byte;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(recv(fds[i], &byte, 1, 0), 0);
            assert_int_equal(close(fds[i]), 0);
        }
        stop(&the_run);
    }
}

static void a_stop_with_open_connections_ends_at_once(void **state)
{
    (void)state;
    start(&the_run, IN_BYTES);
    int fd = dial(the_run.echo.port);
    static const uint8_t frame[] = {0, 0, 0, 2, 'h', 'i'};
    put(fd, frame, sizeof frame);
    expect(fd, frame, sizeof frame);
    stop(&the_run);
    uint8_t byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    assert_int_equal(close(fd), 0);
}

static void a_connection_cut_inside_a_frame_is_closed_and_its_slot_serves_again(void **state)
{
    (void)state;
    start(&the_run, IN_BYTES);
    static const uint8_t frame[] = {0, 0, 0, 2, 'h', 'i'};
    for (int i = 0; i < 5 * CONNS; i++) {
        int fd = dial(the_run.echo.port);
        put(fd, frame, sizeof frame);
        expect(fd, frame, sizeof frame);
        put(fd, frame, (size_t)i % sizeof frame);
        assert_int_equal(close(fd), 0);
    }
    stop(&the_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_pipelining_clients_get_their_frames_back),
        cmocka_unit_test(frames_cut_at_every_byte_come_back_whole),
        cmocka_unit_test(a_stop_with_open_connections_ends_at_once),
        cmocka_unit_test(a_connection_cut_inside_a_frame_is_closed_and_its_slot_serves_again),
    };
    return cmocka_run_group_tests_name("echo", tests, NULL, NULL);
}
