/* bench_replay.c: weir bench replay: requests encoded once, sent again and again.
 *
 * No work is done for a record and next to none for a request, so that what is measured is the broker. A Fetch always asks for
 * the same offset; but those of e2e follow the end of the log, and say how long each record was under way.
 *
 * e2e     one connection sends, --followers others read. A first request, which is not counted, tells where the log ends; each follower
 *         begins there. What a follower receives is told apart by offsets: the times are those of requests, in the order they were sent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__bench.h"
#include "app__command.h"
#include "app__replay.h"

#include "wire/kafka/kafka.h"

#include <stdlib.h>
#include <string.h>

#define CONNS_MAX      2048
#define IN_FLIGHT_MAX  1024
#define PARTITIONS_MAX 100000
#define UNREAD_MAX     (1U << 20) /* requests of e2e that not every follower has; their times are kept */
#define RECEIVE_BYTES  ((size_t)256 << 10)
#define SENDS_A_STEP   64

static const char usage[] =
    "usage: weir bench replay produce|fetch|metadata|e2e [OPTION]...\n"
    "\n"
    "Sends requests again and again that were encoded once. fetch reads from the same offset each time, metadata asks "
    "for all\n"
    "topics, e2e produces and follows the end of the log.\n"
    "\n"
    "  --bootstrap HOST:PORT   the broker that leads the partitions (127.0.0.1:9092)\n"
    "  --topic NAME            bench; it must be there\n"
    "  --partition P           0\n"
    "  --partitions N          one request to P, the next to P + 1, ... N of them (1)\n"
    "  --requests N            how many (100000)\n"
    "  --seconds N             no more are sent after so long; 0: only --requests counts (0)\n"
    "  --connections N         shared out among so many (1)\n"
    "  --in-flight N           requests of a connection that are not answered yet (5)\n"
    "  --rate N                requests a second over all; 0: as fast as it goes (0)\n"
    "  --spin                  with --rate: keep a core busy to send at the very moment; else up to a millisecond "
    "later\n"
    "  --records N             produce, e2e: records of a batch (100)\n"
    "  --size BYTES            produce, e2e: of a record's value (100)\n"
    "  --compression C         produce, e2e: none, gzip, snappy, lz4 or zstd (none); values are then of few words\n"
    "  --acks all|1            produce, e2e: what is waited for (all)\n"
    "  --max-bytes N           fetch, e2e: of an answer (1048576)\n"
    "  --followers N           e2e: connections that read (1)\n"
    "  --json                  the result as one object\n";

enum op { OP_RESOLVE = 1, OP_CONNECT, OP_SEND, OP_RECV, OP_CLOSE };

struct replay_conn {
    uint32_t index;
    bool is_follower;
    bool is_up;
    bool is_open; /* until PORT_CLOSE has completed */
    bool is_sending;
    bool is_closing;
    uint32_t in_flight;
    uint32_t first; /* the oldest of due_ns */
    uint64_t due_ns[IN_FLIGHT_MAX];
    struct port_piece pieces[2 * SENDS_A_STEP];
    uint8_t *buffer;
    size_t used_bytes;
    struct replay_reader reader;
    uint8_t *follow_frame; /* of a follower: its copy of the Fetch */
    uint64_t next_offset;
};

struct replay {
    struct host *host;
    struct replay_conn conns[CONNS_MAX]; /* those that send, then the followers */
    const char *bootstrap;
    struct base_slice host_name;
    uint16_t port;
    bool is_json;
    bool is_e2e;
    bool is_spinning;
    struct replay_wanted wanted;
    int64_t requests, connections, in_flight, rate, followers, seconds;
    struct replay_frames frames;
    struct replay_frames follow; /* e2e: the Fetch */
    struct port_address address;
    uint64_t sent;
    uint64_t answered;
    uint64_t failed;
    uint64_t answer_bytes;
    uint64_t began_ns; /* e2e: after the first request */
    uint64_t ended_ns;
    struct bench_times times;
    uint32_t up;
    uint32_t open;
    bool is_over;
    bool is_stopped;
    int code;
    /* e2e */
    bool is_primed; /* the first request is answered */
    uint64_t base_offset;
    uint64_t delivered; /* requests, over all followers */
    uint64_t *unread_due_ns;
};

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

static void send_pieces(struct replay_conn *conn, uint32_t count, struct port_out *out)
{
    struct port_effect *effect = emit(out, conn, PORT_SEND, OP_SEND);
    effect->pieces = conn->pieces;
    effect->piece_count = count;
    conn->is_sending = true;
}

/* The request with this index, as one piece or as two. */
static uint32_t put_request(struct replay *replay, struct replay_conn *conn, uint64_t index, uint32_t count)
{
    const struct replay_frames *frames = &replay->frames;
    uint64_t place = index % (uint64_t)replay->wanted.partitions;
    bool is_one = replay->wanted.partitions == 1;
    size_t body_bytes = frames->body.size_bytes;
    conn->pieces[count++] = (struct port_piece){.kind = PORT_MEMORY,
                                                .at = frames->heads + place * frames->head_bytes,
                                                .size_bytes = frames->head_bytes + (is_one ? body_bytes : 0)};
    if (!is_one && body_bytes > 0) {
        conn->pieces[count++] =
            (struct port_piece){.kind = PORT_MEMORY, .at = frames->body.at, .size_bytes = body_bytes};
    }
    return count;
}

static bool has_sent_all(const struct replay *replay, uint64_t now_ns)
{
    if (replay->sent >= (uint64_t)replay->requests) { return true; }
    return replay->seconds > 0 && now_ns >= replay->began_ns + (uint64_t)replay->seconds * UINT64_C(1000000000);
}

static bool may_send(const struct replay *replay, const struct replay_conn *conn, uint64_t now_ns)
{
    if (conn->in_flight >= (uint64_t)replay->in_flight || has_sent_all(replay, now_ns)) { return false; }
    return !replay->is_e2e || replay->sent * (uint64_t)replay->followers - replay->delivered < UNREAD_MAX;
}

/* As many as may be sent now, in one send. */
static void send_some(struct replay *replay, struct replay_conn *conn, uint64_t now_ns, struct port_out *out)
{
    uint32_t count = 0;
    if (conn->is_sending || !conn->is_up || conn->is_follower || replay->began_ns == 0) { return; }
    for (uint32_t i = 0; i < SENDS_A_STEP && may_send(replay, conn, now_ns); i++) {
        uint64_t due_ns = now_ns;
        if (replay->rate > 0) {
            due_ns = bench_due_ns(replay->began_ns, replay->sent, (uint64_t)replay->rate);
            if (due_ns > now_ns) { break; }
        }
        conn->due_ns[(conn->first + conn->in_flight) % IN_FLIGHT_MAX] = due_ns;
        if (replay->is_e2e) { replay->unread_due_ns[replay->sent % UNREAD_MAX] = due_ns; }
        conn->in_flight += 1;
        count = put_request(replay, conn, replay->sent, count);
        replay->sent += 1;
    }
    if (count > 0) { send_pieces(conn, count, out); }
}

static void send_all(struct replay *replay, uint64_t now_ns, struct port_out *out)
{
    for (uint32_t i = 0; i < (uint32_t)replay->connections; i++) { send_some(replay, &replay->conns[i], now_ns, out); }
}

static void count_error(struct replay *replay, int16_t error)
{
    replay->failed += 1;
    if (replay->failed > 1) { return; }
    (void)app_error(kafka_error_name(error), "topic '%s'; more are only counted",
                    replay->wanted.topic); /* so the sum says */
}

/* ---- e2e ---- */

static void send_first(struct replay *replay, struct port_out *out)
{
    struct replay_conn *conn = &replay->conns[0];
    send_pieces(conn, put_request(replay, conn, 0, 0), out);
}

static void follow(struct replay *replay, struct replay_conn *conn, struct port_out *out)
{
    replay_set_offset(&replay->follow, conn->follow_frame, conn->next_offset);
    conn->pieces[0] =
        (struct port_piece){.kind = PORT_MEMORY, .at = conn->follow_frame, .size_bytes = replay->follow.head_bytes};
    send_pieces(conn, 1, out);
}

static void on_primed(struct replay *replay, const struct replay_answer *answer, uint64_t now_ns, struct port_out *out)
{
    if (answer->error != KAFKA_ERROR_NONE) {
        count_error(replay, answer->error);
        end(replay, APP_FAILED, now_ns);
        return;
    }
    replay->is_primed = true;
    replay->base_offset = answer->base_offset + (uint64_t)replay->wanted.records;
    for (int64_t i = 0; i < replay->followers; i++) {
        struct replay_conn *conn = &replay->conns[replay->connections + i];
        conn->next_offset = replay->base_offset;
        follow(replay, conn, out);
    }
    replay->began_ns = now_ns;
}

static void on_followed(struct replay *replay, struct replay_conn *conn, uint64_t now_ns, struct port_out *out)
{
    const struct replay_answer *answer = &conn->reader.answer;
    replay->answer_bytes += answer->size_bytes;
    if (answer->error != KAFKA_ERROR_NONE) {
        count_error(replay, answer->error);
        end(replay, APP_FAILED, now_ns);
        return;
    }
    uint64_t records = (uint64_t)replay->wanted.records;
    uint64_t from = (conn->next_offset - replay->base_offset) / records;
    if (answer->next_offset > conn->next_offset) { conn->next_offset = answer->next_offset; }
    uint64_t until = base_min_u64((conn->next_offset - replay->base_offset) / records, replay->sent);
    for (uint64_t i = from; i < until; i++) {
        bench_times_add(&replay->times, now_ns - base_min_u64(replay->unread_due_ns[i % UNREAD_MAX], now_ns));
    }
    replay->delivered += until > from ? until - from : 0;
    follow(replay, conn, out);
}

/* ---- answers ---- */

static void on_answer(struct replay *replay, struct replay_conn *conn, uint64_t now_ns)
{
    const struct replay_answer *answer = &conn->reader.answer;
    if (answer->error != KAFKA_ERROR_NONE) { count_error(replay, answer->error); }
    if (!replay->is_e2e) {
        bench_times_add(&replay->times, now_ns - base_min_u64(conn->due_ns[conn->first], now_ns));
        replay->answer_bytes += answer->size_bytes;
    }
    conn->first = (conn->first + 1) % IN_FLIGHT_MAX;
    conn->in_flight -= 1;
    replay->answered += 1;
}

static void take_answers(struct replay *replay, struct replay_conn *conn, uint64_t now_ns, struct port_out *out)
{
    size_t at = 0;
    while (!replay->is_over) {
        size_t taken_bytes = 0;
        enum replay_read got = replay_read(&conn->reader, conn->is_follower ? &replay->follow : &replay->frames,
                                           base_slice_of(conn->buffer + at, conn->used_bytes - at), &taken_bytes);
        at += taken_bytes;
        if (got == REPLAY_MORE) { break; }
        bool is_first = replay->is_e2e && !conn->is_follower && !replay->is_primed;
        if (got == REPLAY_BAD || (!conn->is_follower && !is_first && conn->in_flight == 0)) {
            end(replay, app_error(NULL, "an answer can't be read: the topic is not there, or this is no such broker"),
                now_ns);
            return;
        }
        if (is_first) {
            on_primed(replay, &conn->reader.answer, now_ns, out);
        } else if (conn->is_follower) {
            on_followed(replay, conn, now_ns, out);
        } else {
            on_answer(replay, conn, now_ns);
        }
    }
    memmove(conn->buffer, conn->buffer + at, conn->used_bytes - at);
    conn->used_bytes -= at;
}

static void on_connected(struct replay *replay, struct replay_conn *conn, uint64_t now_ns, struct port_out *out)
{
    conn->is_up = true;
    receive(conn, out);
    replay->up += 1;
    if (replay->up < (uint32_t)(replay->connections + replay->followers)) { return; }
    if (replay->is_e2e) {
        send_first(replay, out);
    } else {
        replay->began_ns = now_ns;
        send_all(replay, now_ns, out);
    }
}

static void on_closed(struct replay *replay, struct replay_conn *conn)
{
    conn->is_open = false;
    replay->open -= 1;
}

static void on_done(struct replay *replay, const struct port_event *event, struct port_out *out)
{
    struct replay_conn *conn = &replay->conns[event->done.token >> 8];
    enum port_rc rc = event->done.rc;
    enum op op = (enum op)(event->done.token & 0xff);
    if (op == OP_CLOSE) {
        on_closed(replay, conn);
        return;
    }
    if (op == OP_SEND) { conn->is_sending = false; }
    if (rc != PORT_OK) {
        if (op == OP_CONNECT && !conn->is_closing) { on_closed(replay, conn); } /* its last event */
        if (replay->is_over) { return; }
        end(replay, app_error("NETWORK_EXCEPTION", "%s: %s", replay->bootstrap, port_rc_name(rc)), event->now_ns);
        return;
    }
    if (replay->is_over) {
        if (op == OP_CONNECT) { close_conn(conn, out); }
        return;
    }
    switch (op) {
    case OP_RESOLVE:
        replay->address = event->done.address;
        replay->address.port = replay->port;
        for (uint32_t i = 0; i < (uint32_t)(replay->connections + replay->followers); i++) {
            replay->conns[i].is_open = true;
            replay->open += 1;
            emit(out, &replay->conns[i], PORT_CONNECT, OP_CONNECT)->address = replay->address;
        }
        break;
    case OP_CONNECT: on_connected(replay, conn, event->now_ns, out); break;
    case OP_RECV:
        conn->used_bytes += (size_t)event->done.count;
        take_answers(replay, conn, event->now_ns, out);
        if (!replay->is_over) { receive(conn, out); }
        break;
    case OP_SEND:
    case OP_CLOSE: break;
    }
    if (!replay->is_over) { send_some(replay, conn, event->now_ns, out); }
}

/* Nothing is under way any more, and nothing is to come. */
static bool is_done(const struct replay *replay, uint64_t now_ns)
{
    if (replay->began_ns == 0 || replay->answered < replay->sent || !has_sent_all(replay, now_ns)) { return false; }
    return !replay->is_e2e || replay->delivered == replay->sent * (uint64_t)replay->followers;
}

/* Of those that wait for their time. */
static void wait_for_next(struct replay *replay, uint64_t now_ns, struct port_out *out)
{
    if (replay->rate == 0 || replay->began_ns == 0 || has_sent_all(replay, now_ns)) { return; }
    if (replay->is_spinning) {
        out->wants_continue = true;
    } else {
        port_alarm(out, bench_due_ns(replay->began_ns, replay->sent, (uint64_t)replay->rate));
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
    case PORT_EVENT_CONTINUE: send_all(replay, event->now_ns, out); break;
    case PORT_EVENT_TURN:
    case PORT_EVENT_MESSAGE: break;
    case PORT_EVENT_COUNT: UNREACHABLE();
    }
    if (!replay->is_over && is_done(replay, event->now_ns)) { end(replay, APP_DONE, event->now_ns); }
    if (!replay->is_over) {
        wait_for_next(replay, event->now_ns, out);
        return;
    }
    for (uint32_t i = 0; i < (uint32_t)(replay->connections + replay->followers); i++) {
        if (replay->conns[i].is_open) { close_conn(&replay->conns[i], out); }
    }
    if (replay->open == 0 && !replay->is_stopped) {
        replay->is_stopped = true;
        (void)port_emit(out, PORT_STOPPED, 0); /* a note needs nothing more */
    }
}

/* ---- arguments ---- */

static bool take_codec(const char *words, struct replay *replay)
{
    struct client_config config = {.compression = CODEC_NONE};
    bool is_good = app_compression("bench", words, &config);
    replay->wanted.codec = config.compression;
    return is_good;
}

static int read_arguments(struct app_args *args, struct replay *replay)
{
    static const struct {
        const char *name;
        size_t at;
        int64_t min, max;
    } numbers[] = {
        {"--partition", offsetof(struct replay, wanted.partition), 0, INT32_MAX},
        {"--partitions", offsetof(struct replay, wanted.partitions), 1, PARTITIONS_MAX},
        {"--requests", offsetof(struct replay, requests), 1, INT64_MAX / 2},
        {"--seconds", offsetof(struct replay, seconds), 0, 1000000},
        {"--connections", offsetof(struct replay, connections), 1, CONNS_MAX / 2},
        {"--followers", offsetof(struct replay, followers), 1, CONNS_MAX / 2},
        {"--in-flight", offsetof(struct replay, in_flight), 1, IN_FLIGHT_MAX},
        {"--rate", offsetof(struct replay, rate), 0, 100000000},
        {"--records", offsetof(struct replay, wanted.records), 1, 1000000},
        {"--size", offsetof(struct replay, wanted.size_bytes), 0, 16 << 20},
        {"--max-bytes", offsetof(struct replay, wanted.max_bytes), 1, 1 << 30},
    };
    const char *value = NULL;
    bool is_good = true;
    while (args->at < args->argc && !args->is_bad && is_good) {
        bool is_taken = app_take_option(args, "--bootstrap", &replay->bootstrap) ||
                        app_take_option(args, "--topic", &replay->wanted.topic);
        if (!is_taken && app_take_flag(args, "--json")) { is_taken = replay->is_json = true; }
        if (!is_taken && app_take_flag(args, "--spin")) { is_taken = replay->is_spinning = true; }
        if (!is_taken && app_take_option(args, "--compression", &value)) {
            is_taken = true;
            is_good = take_codec(value, replay);
        }
        if (!is_taken && app_take_option(args, "--acks", &value)) {
            is_taken = true;
            replay->wanted.acks = strcmp(value, "1") == 0 ? 1 : -1;
            is_good = replay->wanted.acks == 1 || strcmp(value, "all") == 0;
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
    if (replay->wanted.topic[0] == '\0' || strlen(replay->wanted.topic) > CLIENT_TOPIC_NAME_MAX) {
        return app_usage("bench", "the topic's name is empty or too long");
    }
    if (replay->is_e2e && (replay->connections > 1 || replay->wanted.partitions > 1)) {
        return app_usage("bench",
                         "e2e sends over one connection to one partition: what is read could not be told apart");
    }
    return APP_DONE;
}

static bool make_conns(struct replay *replay)
{
    for (int64_t i = 0; i < replay->connections + replay->followers; i++) {
        struct replay_conn *conn = &replay->conns[i];
        conn->index = (uint32_t)i;
        conn->is_follower = i >= replay->connections;
        conn->reader.is_looking = conn->is_follower;
        conn->buffer = app_keep(RECEIVE_BYTES);
        if (conn->buffer == NULL) { return false; }
        if (!conn->is_follower) { continue; }
        conn->follow_frame = app_keep(replay->follow.head_bytes);
        if (conn->follow_frame == NULL) { return false; }
        memcpy(conn->follow_frame, replay->follow.heads, replay->follow.head_bytes);
    }
    return true;
}

static bool make_memory(struct replay *replay)
{
    if (!replay_frames_make(&replay->wanted, &replay->frames)) { return false; }
    if (replay->is_e2e) {
        struct replay_wanted wanted = replay->wanted;
        wanted.kind = REPLAY_FETCH;
        replay->unread_due_ns = app_keep(UNREAD_MAX * sizeof *replay->unread_due_ns);
        if (replay->unread_due_ns == NULL || !replay_frames_make(&wanted, &replay->follow)) { return false; }
    }
    return make_conns(replay);
}

static int run(struct replay *replay)
{
    void *machines[1] = {replay};
    struct host_config config = {.shards = 1,
                                 .conns_max = CONNS_MAX,
                                 .listeners_max = 1,
                                 .files_max = 1,
                                 .effects_max = 2 * CONNS_MAX,
                                 .step = step,
                                 .machines = machines};
    char why[HOST_WHY_BYTES];
    if (host_create(&config, &replay->host, why) != PORT_OK) { return app_error(NULL, "%s", why); }
    app_stop_on_signals(replay->host);
    host_run(replay->host);
    app_stop_on_signals(NULL);
    host_destroy(replay->host);
    return replay->code == APP_DONE && replay->failed > 0 ? APP_FAILED : replay->code;
}

static bool read_word(const char *word, struct replay *replay)
{
    replay->is_e2e = strcmp(word, "e2e") == 0;
    replay->wanted.kind = strcmp(word, "fetch") == 0      ? REPLAY_FETCH
                          : strcmp(word, "metadata") == 0 ? REPLAY_METADATA
                                                          : REPLAY_PRODUCE;
    return replay->is_e2e || replay->wanted.kind != REPLAY_PRODUCE || strcmp(word, "produce") == 0;
}

static void print_sum(const struct replay *replay)
{
    static const char *const names[] = {"replay produce", "replay fetch", "replay metadata"};
    const struct replay_wanted *wanted = &replay->wanted;
    uint64_t good = replay->answered - base_min_u64(replay->failed, replay->answered);
    struct bench_sum sum = {
        .what = replay->is_e2e ? "replay e2e" : names[wanted->kind],
        .records = good,
        .failed = replay->failed,
        .bytes = replay->answer_bytes,
        .requests = replay->answered,
        .request_bytes = replay->answered * (replay->frames.head_bytes + replay->frames.body.size_bytes),
        .seconds = (double)(replay->ended_ns - base_min_u64(replay->began_ns, replay->ended_ns)) / 1e9,
        .times = &replay->times,
        .times_are = replay->rate > 0 ? "from the intended send to the answer" : "from the send to the answer"};
    if (replay->is_e2e) {
        sum.records = replay->delivered * (uint64_t)wanted->records;
        sum.times_are = replay->rate > 0 ? "from the intended send to a follower" : "from the send to a follower";
    } else if (wanted->kind == REPLAY_PRODUCE) {
        sum.records = good * (uint64_t)wanted->records;
        sum.bytes = sum.records * (uint64_t)wanted->size_bytes;
    }
    bench_print(&sum, replay->is_json);
}

int bench_replay(struct app_args *args)
{
    const char *word = NULL;
    if (app_is_help(args->argc, args->argv)) {
        printf("%s", usage);
        return APP_DONE;
    }
    struct replay *replay = app_keep(sizeof *replay);
    if (replay == NULL) { return app_error(NULL, "no memory"); }
    *replay = (struct replay){.bootstrap = "127.0.0.1:9092",
                              .requests = 100000,
                              .connections = 1,
                              .in_flight = 5,
                              .followers = -1,
                              .wanted = {.topic = "bench",
                                         .partitions = 1,
                                         .records = 100,
                                         .size_bytes = 100,
                                         .max_bytes = 1 << 20,
                                         .min_bytes = 1,
                                         .max_wait_ms = 500,
                                         .acks = -1}};
    if (!app_take_word(args, &word) || !read_word(word, replay)) {
        return app_usage("bench", "replay which one: produce, fetch, metadata or e2e?");
    }
    int code = read_arguments(args, replay);
    if (code != APP_DONE) { return code; }
    if (replay->followers > 0 && !replay->is_e2e) { return app_usage("bench", "--followers is for e2e"); }
    replay->followers = !replay->is_e2e ? 0 : replay->followers < 0 ? 1 : replay->followers;
    if (!make_memory(replay)) { return app_error(NULL, "no memory, or the batch is too large"); }
    code = run(replay);
    if (replay->answered > 0) { print_sum(replay); }
    return code;
}
