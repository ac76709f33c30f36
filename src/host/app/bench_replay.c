/* bench_replay.c: weir bench replay: one request, encoded once, sent again and again.
 *
 * No work is done for a record and next to none for a request, so that what is measured is the broker. A Fetch always asks for
 * the same offset. Versions: Produce 7 and Fetch 11, which every Kafka from 2.3 on has.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__bench.h"
#include "app__command.h"

#include "record/record.h"
#include "wire/kafka/kafka.h"

#include <stdlib.h>
#include <string.h>

#define CONNS_MAX     256
#define IN_FLIGHT_MAX 1024
#define RECEIVE_BYTES ((size_t)256 << 10)
#define CLIENT_ID     "replay"
#define PRODUCE_KEY   0
#define PRODUCE_V     7
#define FETCH_KEY     1
#define FETCH_V       11
#define SENDS_A_STEP  64

static const char usage[] = "usage: weir bench replay produce|fetch [OPTION]...\n"
                            "\n"
                            "Sends one request again and again, encoded once.\n"
                            "\n"
                            "  --bootstrap HOST:PORT   the broker that leads the partition (127.0.0.1:9092)\n"
                            "  --topic NAME            bench; it must be there\n"
                            "  --partition P           0\n"
                            "  --requests N            how many (100000)\n"
                            "  --connections N         shared out among so many (1)\n"
                            "  --in-flight N           requests of a connection that are not answered yet (5)\n"
                            "  --rate N                requests a second over all; 0: as fast as it goes (0)\n"
                            "  --records N             produce: records of a batch (100)\n"
                            "  --size BYTES            produce: of a record's value (100)\n"
                            "  --acks all|1            produce: what is waited for (all)\n"
                            "  --max-bytes N           fetch: of an answer (1048576)\n"
                            "  --json                  the result as one object\n";

enum op { OP_RESOLVE = 1, OP_CONNECT, OP_SEND, OP_RECV, OP_CLOSE };

struct replay_conn {
    uint32_t index;
    bool is_up;
    bool is_open; /* until PORT_CLOSE has completed */
    bool is_sending;
    bool is_closing;
    uint32_t in_flight;
    uint32_t first; /* the oldest of due_ns */
    uint64_t due_ns[IN_FLIGHT_MAX];
    struct port_piece pieces[SENDS_A_STEP];
    uint8_t *buffer;
    size_t used_bytes;
    uint64_t skip_bytes; /* of an answer whose head was seen */
};

struct replay {
    struct host *host;
    struct replay_conn conns[CONNS_MAX];
    const char *bootstrap;
    struct base_slice host_name;
    uint16_t port;
    const char *topic;
    bool is_json;
    bool is_fetch;
    int64_t partition, requests, connections, in_flight, rate, records, size_bytes, max_bytes, acks;
    uint8_t *frame;
    size_t frame_bytes;
    size_t error_at; /* in an answer, its length included */
    struct port_address address;
    uint64_t sent;
    uint64_t answered;
    uint64_t failed;
    uint64_t answer_bytes;
    uint64_t began_ns;
    uint64_t ended_ns;
    struct bench_times times;
    uint32_t open;
    bool is_over;
    bool is_stopped;
    int code;
};

/* ---- the request ---- */

struct writer {
    uint8_t *at;
    size_t used_bytes;
};
static void put_i16(struct writer *w, int64_t v)
{
    base_put_u16(w->at + w->used_bytes, (uint16_t)v);
    w->used_bytes += 2;
}
static void put_i32(struct writer *w, int64_t v)
{
    base_put_u32(w->at + w->used_bytes, (uint32_t)v);
    w->used_bytes += 4;
}
static void put_i64(struct writer *w, int64_t v)
{
    base_put_u64(w->at + w->used_bytes, (uint64_t)v);
    w->used_bytes += 8;
}
static void put_words(struct writer *w, const char *words)
{
    size_t size_bytes = strlen(words);
    put_i16(w, (int64_t)size_bytes);
    memcpy(w->at + w->used_bytes, words, size_bytes);
    w->used_bytes += size_bytes;
}

static void put_header(struct writer *w, int16_t key, int16_t version)
{
    put_i32(w, 0); /* the length, set at the end */
    put_i16(w, key);
    put_i16(w, version);
    put_i32(w, 1); /* correlation: answers come in order */
    put_words(w, CLIENT_ID);
}

static bool put_batch(struct replay *replay, struct writer *w, size_t room_bytes)
{
    struct rec_build build;
    uint8_t *value = calloc(1, (size_t)replay->size_bytes + 1);
    if (value == NULL) { return false; }
    struct base_prng dice;
    base_prng_init(&dice, 1, 0);
    bool is_good =
        rec_build_init(&build, w->at + w->used_bytes + 4, room_bytes - w->used_bytes - 4, rec_build_plain()) == BASE_OK;
    for (int64_t i = 0; i < replay->records && is_good; i++) {
        base_prng_fill(&dice, value, (size_t)replay->size_bytes);
        struct base_slice bytes = base_slice_of(value, (size_t)replay->size_bytes);
        is_good = rec_build_add(&build, app_wall_ms(), rec_null(), rec_value_of(bytes), NULL, 0) == BASE_OK;
    }
    free(value);
    if (!is_good) { return false; }
    struct base_slice batch = rec_build_end(&build);
    put_i32(w, (int64_t)batch.size_bytes);
    w->used_bytes += batch.size_bytes;
    return true;
}

static bool make_frame(struct replay *replay)
{
    size_t room_bytes = 4096 + (size_t)replay->records * ((size_t)replay->size_bytes + 64);
    replay->frame = app_keep(room_bytes);
    if (replay->frame == NULL) { return false; }
    struct writer w = {.at = replay->frame};
    size_t name_bytes = strlen(replay->topic);
    if (replay->is_fetch) {
        put_header(&w, FETCH_KEY, FETCH_V);
        put_i32(&w, -1);  /* replica */
        put_i32(&w, 500); /* most to wait, ms */
        put_i32(&w, 1);
        put_i32(&w, replay->max_bytes);
        w.at[w.used_bytes++] = 0; /* isolation */
        put_i32(&w, 0);           /* no session */
        put_i32(&w, -1);
        put_i32(&w, 1);
        put_words(&w, replay->topic);
        put_i32(&w, 1);
        put_i32(&w, replay->partition);
        put_i32(&w, -1); /* leader epoch */
        put_i64(&w, 0);  /* offset */
        put_i64(&w, -1); /* log start */
        put_i32(&w, replay->max_bytes);
        put_i32(&w, 0);    /* forgotten */
        put_words(&w, ""); /* rack */
        /* length, correlation, throttle, error, session, topics, name, partitions, index */
        replay->error_at = 4 + 4 + 4 + 2 + 4 + 4 + 2 + name_bytes + 4 + 4;
    } else {
        put_header(&w, PRODUCE_KEY, PRODUCE_V);
        put_i16(&w, -1); /* no transaction */
        put_i16(&w, replay->acks);
        put_i32(&w, 30000);
        put_i32(&w, 1);
        put_words(&w, replay->topic);
        put_i32(&w, 1);
        put_i32(&w, replay->partition);
        if (!put_batch(replay, &w, room_bytes)) { return false; }
        /* length, correlation, topics, name, partitions, index */
        replay->error_at = 4 + 4 + 4 + 2 + name_bytes + 4 + 4;
    }
    base_put_u32(replay->frame, (uint32_t)w.used_bytes - 4);
    replay->frame_bytes = w.used_bytes;
    return true;
}

/* ---- the machine ---- */

static struct port_effect *emit(struct port_out *out, const struct replay_conn *conn, enum port_effect_kind kind,
                                enum op op)
{
    struct port_effect *effect = port_emit(out, kind, (uint64_t)conn->index << 8 | (uint64_t)op);
    effect->conn = (struct port_conn){.slot = conn->index, .generation = 1};
    return effect;
}

static void end(struct replay *replay, int code, uint64_t now_ns)
{
    if (replay->code == APP_DONE) { replay->code = code; }
    if (replay->ended_ns == 0) { replay->ended_ns = now_ns; }
    replay->is_over = true;
}

static void receive(struct replay_conn *conn, struct port_out *out)
{
    struct port_effect *effect = emit(out, conn, PORT_RECV, OP_RECV);
    effect->buffer = conn->buffer + conn->used_bytes;
    effect->size_bytes = RECEIVE_BYTES - conn->used_bytes;
}

static void close_conn(struct replay_conn *conn, struct port_out *out)
{
    if (conn->is_closing) { return; }
    conn->is_closing = true;
    conn->is_up = false;
    (void)emit(out, conn, PORT_CLOSE, OP_CLOSE);
}

/* As many as may be sent now, in one send. */
static void send_some(struct replay *replay, struct replay_conn *conn, uint64_t now_ns, struct port_out *out)
{
    uint32_t count = 0;
    while (!conn->is_sending && conn->is_up && count < SENDS_A_STEP && conn->in_flight < (uint64_t)replay->in_flight &&
           replay->sent < (uint64_t)replay->requests) {
        uint64_t due_ns = now_ns;
        if (replay->rate > 0) {
            due_ns = bench_due_ns(replay->began_ns, replay->sent, (uint64_t)replay->rate);
            if (due_ns > now_ns) {
                port_alarm(out, due_ns);
                break;
            }
        }
        conn->due_ns[(conn->first + conn->in_flight) % IN_FLIGHT_MAX] = due_ns;
        conn->in_flight += 1;
        replay->sent += 1;
        conn->pieces[count++] =
            (struct port_piece){.kind = PORT_MEMORY, .at = replay->frame, .size_bytes = replay->frame_bytes};
    }
    if (count == 0) { return; }
    struct port_effect *effect = emit(out, conn, PORT_SEND, OP_SEND);
    effect->pieces = conn->pieces;
    effect->piece_count = count;
    conn->is_sending = true;
}

static void on_answer(struct replay *replay, struct replay_conn *conn, const uint8_t *at, uint64_t now_ns)
{
    int16_t error = (int16_t)base_get_u16(at + replay->error_at);
    if (replay->is_fetch && base_get_u16(at + 12) != 0) { error = (int16_t)base_get_u16(at + 12); }
    if (error != KAFKA_ERROR_NONE) {
        replay->failed += 1;
        if (replay->failed == 1) {
            (void)app_error(kafka_error_name(error), "topic '%s' partition %lld; more are only counted", replay->topic,
                            (long long)replay->partition); /* the count says it again */
        }
    }
    bench_times_add(&replay->times, now_ns - base_min_u64(conn->due_ns[conn->first], now_ns));
    conn->first = (conn->first + 1) % IN_FLIGHT_MAX;
    conn->in_flight -= 1;
    replay->answered += 1;
}

static void take_answers(struct replay *replay, struct replay_conn *conn, uint64_t now_ns)
{
    size_t at = 0;
    while (at < conn->used_bytes) {
        size_t left_bytes = conn->used_bytes - at;
        if (conn->skip_bytes > 0) {
            size_t gone = (size_t)base_min_u64(conn->skip_bytes, left_bytes);
            conn->skip_bytes -= gone;
            at += gone;
            continue;
        }
        if (left_bytes < replay->error_at + 2) { break; }
        uint64_t whole_bytes = (uint64_t)base_get_u32(conn->buffer + at) + 4;
        if (whole_bytes < replay->error_at + 2 || conn->in_flight == 0) {
            end(replay, app_error(NULL, "an answer can't be read: the topic is not there, or this is no such broker"),
                now_ns);
            return;
        }
        on_answer(replay, conn, conn->buffer + at, now_ns);
        replay->answer_bytes += whole_bytes;
        conn->skip_bytes = whole_bytes;
    }
    memmove(conn->buffer, conn->buffer + at, conn->used_bytes - at);
    conn->used_bytes -= at;
}

static void on_done(struct replay *replay, const struct port_event *event, struct port_out *out)
{
    struct replay_conn *conn = &replay->conns[event->done.token >> 8];
    enum port_rc rc = event->done.rc;
    enum op op = (enum op)(event->done.token & 0xff);
    if (op == OP_CLOSE) {
        conn->is_open = false;
        replay->open -= 1;
        return;
    }
    if (op == OP_SEND) { conn->is_sending = false; }
    if (replay->is_over) {
        if (op == OP_CONNECT && rc != PORT_OK) {
            conn->is_open = false;
            replay->open -= 1;
        }
        return;
    }
    if (rc != PORT_OK) {
        if (op == OP_CONNECT) { /* its last event */
            conn->is_open = false;
            replay->open -= 1;
        }
        end(replay, app_error("NETWORK_EXCEPTION", "%s: %s", replay->bootstrap, port_rc_name(rc)), event->now_ns);
        return;
    }
    switch (op) {
    case OP_RESOLVE:
        replay->address = event->done.address;
        replay->address.port = replay->port;
        for (uint32_t i = 0; i < (uint32_t)replay->connections; i++) {
            replay->conns[i].is_open = true;
            replay->open += 1;
            emit(out, &replay->conns[i], PORT_CONNECT, OP_CONNECT)->address = replay->address;
        }
        break;
    case OP_CONNECT:
        if (replay->began_ns == 0) { replay->began_ns = event->now_ns; }
        conn->is_up = true;
        receive(conn, out);
        break;
    case OP_RECV:
        conn->used_bytes += (size_t)event->done.count;
        take_answers(replay, conn, event->now_ns);
        if (!replay->is_over) { receive(conn, out); }
        break;
    case OP_SEND:
    case OP_CLOSE: break;
    }
}

static void step(void *machine, const struct port_event *event, struct port_out *out)
{
    struct replay *replay = machine;
    switch (event->kind) {
    case PORT_EVENT_START: {
        struct port_effect *effect = port_emit(out, PORT_RESOLVE, OP_RESOLVE);
        effect->path = replay->host_name;
        break;
    }
    case PORT_EVENT_DONE: on_done(replay, event, out); break;
    case PORT_EVENT_STOP: end(replay, APP_FAILED, event->now_ns); break;
    case PORT_EVENT_ALARM:
    case PORT_EVENT_TURN:
    case PORT_EVENT_CONTINUE:
    case PORT_EVENT_MESSAGE: break;
    case PORT_EVENT_COUNT: UNREACHABLE();
    }
    if (replay->answered == (uint64_t)replay->requests) { end(replay, APP_DONE, event->now_ns); }
    for (uint32_t i = 0; i < (uint32_t)replay->connections; i++) {
        struct replay_conn *conn = &replay->conns[i];
        if (!replay->is_over) {
            send_some(replay, conn, event->now_ns, out);
        } else if (conn->is_up) {
            close_conn(conn, out);
        }
    }
    if (replay->is_over && replay->open == 0 && !replay->is_stopped) {
        replay->is_stopped = true;
        (void)port_emit(out, PORT_STOPPED, 0); /* a note needs nothing more */
    }
}

/* ---- arguments ---- */

static int read_arguments(struct app_args *args, struct replay *replay)
{
    static const struct {
        const char *name;
        size_t at;
        int64_t min, max;
    } numbers[] = {
        {"--partition", offsetof(struct replay, partition), 0, INT32_MAX},
        {"--requests", offsetof(struct replay, requests), 1, INT64_MAX / 2},
        {"--connections", offsetof(struct replay, connections), 1, CONNS_MAX},
        {"--in-flight", offsetof(struct replay, in_flight), 1, IN_FLIGHT_MAX},
        {"--rate", offsetof(struct replay, rate), 0, 100000000},
        {"--records", offsetof(struct replay, records), 1, 1000000},
        {"--size", offsetof(struct replay, size_bytes), 0, 16 << 20},
        {"--max-bytes", offsetof(struct replay, max_bytes), 1, 1 << 30},
    };
    const char *value = NULL;
    bool is_good = true;
    while (args->at < args->argc && !args->is_bad && is_good) {
        bool is_taken = app_take_option(args, "--bootstrap", &replay->bootstrap) ||
                        app_take_option(args, "--topic", &replay->topic);
        if (!is_taken && app_take_flag(args, "--json")) { is_taken = replay->is_json = true; }
        if (!is_taken && app_take_option(args, "--acks", &value)) {
            is_taken = true;
            replay->acks = strcmp(value, "1") == 0 ? 1 : -1;
            is_good = replay->acks == 1 || strcmp(value, "all") == 0;
            if (!is_good) {
                (void)app_usage("bench", "--acks is '%s': should be all or 1, since answers are counted", value);
            }
        }
        for (size_t i = 0; i < BASE_ARRAY_COUNT(numbers) && !is_taken; i++) {
            if (!app_take_option(args, numbers[i].name, &value)) { continue; }
            is_taken = true;
            int64_t number = 0;
            is_good = app_number("bench", numbers[i].name, value, numbers[i].min, numbers[i].max, &number);
            memcpy((uint8_t *)replay + numbers[i].at, &number, sizeof number);
        }
        if (!is_taken) { app_refuse(args); }
    }
    if (args->is_bad || !is_good) { return APP_USAGE; }
    if (!app_read_endpoint(base_slice_text(replay->bootstrap), &replay->host_name, &replay->port)) {
        return app_usage("bench", "--bootstrap is '%s': should be HOST:PORT", replay->bootstrap);
    }
    if (replay->topic[0] == '\0' || strlen(replay->topic) > CLIENT_TOPIC_NAME_MAX) {
        return app_usage("bench", "the topic's name is empty or too long");
    }
    return APP_DONE;
}

static int run(struct replay *replay)
{
    void *machines[1] = {replay};
    struct host_config config = {
        .shards = 1, .conns_max = CONNS_MAX, .listeners_max = 1, .files_max = 1, .step = step, .machines = machines};
    char why[HOST_WHY_BYTES];
    if (host_create(&config, &replay->host, why) != PORT_OK) { return app_error(NULL, "%s", why); }
    app_stop_on_signals(replay->host);
    host_run(replay->host);
    app_stop_on_signals(NULL);
    host_destroy(replay->host);
    return replay->code == APP_DONE && replay->failed > 0 ? APP_FAILED : replay->code;
}

int bench_replay(struct app_args *args)
{
    const char *word = NULL;
    if (app_is_help(args->argc, args->argv)) {
        printf("%s", usage);
        return APP_DONE;
    }
    if (!app_take_word(args, &word) || (strcmp(word, "produce") != 0 && strcmp(word, "fetch") != 0)) {
        return app_usage("bench", "replay which one: produce or fetch?");
    }
    struct replay *replay = app_keep(sizeof *replay);
    if (replay == NULL) { return app_error(NULL, "no memory"); }
    *replay = (struct replay){.bootstrap = "127.0.0.1:9092",
                              .topic = "bench",
                              .is_fetch = strcmp(word, "fetch") == 0,
                              .requests = 100000,
                              .connections = 1,
                              .in_flight = 5,
                              .records = 100,
                              .size_bytes = 100,
                              .max_bytes = 1 << 20,
                              .acks = -1};
    int code = read_arguments(args, replay);
    if (code != APP_DONE) { return code; }
    bool has_memory = make_frame(replay);
    for (uint32_t i = 0; i < (uint32_t)replay->connections && has_memory; i++) {
        replay->conns[i].index = i;
        replay->conns[i].buffer = app_keep(RECEIVE_BYTES);
        has_memory = replay->conns[i].buffer != NULL;
    }
    if (!has_memory) { return app_error(NULL, "no memory, or the batch is too large"); }
    code = run(replay);
    uint64_t good = replay->answered - replay->failed;
    struct bench_sum sum = {.what = replay->is_fetch ? "replay fetch" : "replay produce",
                            .records = replay->is_fetch ? good : good * (uint64_t)replay->records,
                            .failed = replay->failed,
                            .bytes = replay->is_fetch ? replay->answer_bytes
                                                      : good * (uint64_t)replay->records * (uint64_t)replay->size_bytes,
                            .requests = replay->answered,
                            .seconds =
                                (double)(replay->ended_ns - base_min_u64(replay->began_ns, replay->ended_ns)) / 1e9,
                            .times = &replay->times,
                            .times_are = replay->rate > 0 ? "from the intended send to the answer"
                                                          : "from the send to the answer"};
    if (replay->answered > 0) { bench_print(&sum, replay->is_json); }
    return code;
}
