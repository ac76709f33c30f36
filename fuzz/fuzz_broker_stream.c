/* fuzz_broker_stream.c: byte streams of a few clients into a whole broker, in the simulated world.
 *
 * Input   byte 0: bit 0 two shards (else one), bit 1 steps of one item (else 256), bit 2 faults of network and disk that cost
 *         nobody anything (cut segments, short counts, small buffers, slow disks), bit 3 a small memory (of one shard), bit 4 topics come by
 *         themselves, bit 5 records are validated, bit 6 most requests are about groups; byte 1: the world's seed. Then operations, an opcode and its arguments each (enum op): requests that
 *         are valid but odd, requests at random, raw frames with a header or without, closes, stalls, time, crashes, stops.
 *         Frame lengths are right unless an operation is there to break them; CRCs of batches too.
 * Holds   no CHECK, nothing that the world calls a breach, every invariant after every step; answers come in order, decode in
 *         the version asked, and an ApiVersions of an unknown version is refused in version 0; at the end, with every
 *         connection closed, the broker is quiet (I25), stops, starts again and has every record that was acknowledged (I1), and every offset that was committed, or one that
 *         may have come after it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker_stream.h"
#include "sim/world/world.h"
#include "wire/kafka/api_versions.h"
#include "wire/kafka/header.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_fetch.h"
#include "wire/kafka/produce.h"

#define PORT            9092
#define CONNS           3
#define SENT_MAX        ((size_t)1 << 18) /* bytes of one connection */
#define RECEIVED_MAX    ((size_t)1 << 20)
#define WAITING_MAX     512
#define ACKED_MAX       64
#define OPS_MAX         64
#define LONGEST_POLL_NS (700 * WORLD_S)
#define POLLS_MAX       16u
#define REQUEST_MAX     (1u << 16) /* socket.request.max.bytes */
#define REGION_BYTES    ((size_t)96 << 20)
#define SMALL_BYTES     ((size_t)24 << 20)
#define TWO_BYTES       ((size_t)192 << 20) /* each of two: the queues between them grow with the memory */
#define ARENA_BYTES     (RECEIVED_MAX * KAFKA_ARENA_FACTOR)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the clients: one node of the world, with a few connections --------------------------------------------------------- */

enum conn_state { CLOSED = 0, CONNECTING, OPEN, CLOSING };
enum token { TOKEN_CONNECT = 1, TOKEN_SEND, TOKEN_RECV, TOKEN_CLOSE };

struct waiting { /* a request that left whole, and is not answered yet */
    int16_t api_key;
    int16_t version;
    int32_t correlation;
    int16_t acks;    /* of a Produce; 0: no answer will come */
    uint32_t group;  /* of a JoinGroup */
    uint32_t commit; /* of an OffsetCommit */
};

struct client_conn {
    enum conn_state state;
    uint32_t generation;
    bool is_wanted;
    bool is_deaf; /* it asks for no bytes, so answers pile up in the broker, until it hears again */
    bool is_sending, is_receiving;
    bool is_garbled; /* what was sent is no longer a row of frames */
    bool has_left;   /* an answer was larger than this client takes: it closes */
    struct port_piece piece;
    uint32_t chunk_bytes;
    uint8_t *sent;
    size_t sent_bytes, left_bytes; /* appended; given to the world */
    size_t framed_bytes;           /* looked at */
    uint8_t *received;
    size_t received_bytes;
    struct waiting waiting[WAITING_MAX];
    uint32_t waiting_first, waiting_end;
};

struct acked {
    uint8_t name[256];
    struct base_slice topic;
    struct base_uuid id;
    int32_t partition;
    int64_t offset_end;
};

struct stream {
    struct world *world;
    struct broker_config config;
    uint32_t broker, clients;
    struct client_conn conns[CONNS];
    struct acked acked[ACKED_MAX];
    uint32_t acked_count;
    bool may_lose; /* acknowledged records may be gone: their topics were deleted, or not durable */
    int32_t correlation;
    struct stream_known known;
    bool is_told;    /* WEIR_FUZZ_TRACE: events, effects and answers, to stderr */
    bool is_judging; /* the next OffsetFetch answer is looked at; not yet: it was loading */
    bool is_judged;
};

static struct stream stream;
static uint8_t *arena_bytes;

static void must(bool is_so, const char *what)
{
    if (is_so) { return; }
    (void)fprintf(stderr, "broken: %s\n", what); /* about to abort */
    abort();
}

static void forget(struct client_conn *conn)
{
    conn->sent_bytes = conn->left_bytes = conn->framed_bytes = conn->received_bytes = 0;
    conn->waiting_first = conn->waiting_end = 0;
    conn->is_garbled = conn->is_deaf = conn->has_left = false;
    conn->chunk_bytes = UINT32_MAX;
}

static void gather_ids(struct stream_ids *ids)
{
    ids->count = 0;
    for (uint32_t shard = 0; shard < stream.config.shards; shard++) {
        const struct broker *broker = world_machine_at(stream.world, stream.broker, shard);
        uint32_t cursor = 0;
        struct broker_log_view view;
        while (broker != NULL && ids->count < STREAM_IDS_MAX && broker_each_log(broker, &cursor, &view)) {
            if (view.topic.size_bytes == 0 || view.topic.at[0] == '_') { continue; }
            ids->ids[ids->count] = view.id.topic;
            ids->names[ids->count] = view.topic;
            ids->count += 1;
        }
    }
}

/* What its answer will be held to. */
static struct waiting waiting_for(const struct kafka_request_header *header, struct base_slice body)
{
    struct waiting waiting = {.api_key = header->request_api_key,
                              .version = header->request_api_version,
                              .correlation = header->correlation_id,
                              .acks = 1,
                              .group = STREAM_NONE,
                              .commit = STREAM_NONE};
    bool deletes = waiting.api_key == KAFKA_API_OFFSET_DELETE || waiting.api_key == KAFKA_API_DELETE_GROUPS ||
                   waiting.api_key == KAFKA_API_DELETE_TOPICS;
    if (deletes) { stream_offsets_may_go(); }
    bool is_looked_at = waiting.api_key == KAFKA_API_PRODUCE || waiting.api_key == KAFKA_API_JOIN_GROUP ||
                        waiting.api_key == KAFKA_API_OFFSET_COMMIT;
    if (!is_looked_at || !kafka_api_has_version(waiting.api_key, waiting.version)) { return waiting; }
    enum kafka_message message = kafka_request_message(waiting.api_key);
    struct base_arena arena;
    base_arena_init(&arena, arena_bytes, ARENA_BYTES);
    void *request = base_arena_take(&arena, kafka_message_struct_bytes(message));
    size_t used_bytes;
    if (kafka_decode_front(message, body, waiting.version, &arena, request, &used_bytes) != BASE_OK) { return waiting; }
    if (waiting.api_key == KAFKA_API_PRODUCE) { waiting.acks = ((struct kafka_produce_request *)request)->acks; }
    if (waiting.api_key == KAFKA_API_JOIN_GROUP) {
        waiting.group = stream_group_index(((struct kafka_join_group_request *)request)->group_id);
    }
    if (waiting.api_key == KAFKA_API_OFFSET_COMMIT) {
        gather_ids(&stream.known.topics);
        waiting.commit = stream_offsets_sent(request, &stream.known.topics, waiting.version >= 10);
    }
    return waiting;
}

/* Cuts what was appended into frames, and notes what each must be answered with. */
static void note_frames(struct client_conn *conn)
{
    while (!conn->is_garbled && conn->sent_bytes - conn->framed_bytes >= 4) {
        const uint8_t *at = conn->sent + conn->framed_bytes;
        uint32_t size_bytes = base_get_u32(at);
        if (size_bytes > REQUEST_MAX) { conn->is_garbled = true; }
        if (conn->is_garbled || conn->sent_bytes - conn->framed_bytes - 4 < size_bytes) { return; }
        struct kafka_request_header header;
        struct base_slice body;
        if (kafka_request_open(base_slice_of(at + 4, size_bytes), &header, &body) != BASE_OK ||
            conn->waiting_end == WAITING_MAX) {
            conn->is_garbled = true; /* the broker closes here */
            stream_offsets_may_go(); /* or it goes on, with more than is noted here */
            return;
        }
        conn->waiting[conn->waiting_end] = waiting_for(&header, body);
        conn->waiting_end += 1;
        conn->framed_bytes += 4 + size_bytes;
    }
}

static void note_acked(const struct kafka_produce_response_topic_produce_response *topic,
                       const struct kafka_produce_response_partition_produce_response *partition)
{
    if (partition->error_code != 0 || partition->base_offset < 0 || stream.acked_count == ACKED_MAX) { return; }
    struct acked *acked = &stream.acked[stream.acked_count];
    stream.acked_count += 1;
    struct base_slice name = kafka_text_slice(topic->name);
    must(name.size_bytes < sizeof acked->name, "a topic with such a name can't be written to");
    if (name.size_bytes > 0) { memcpy(acked->name, name.at, name.size_bytes); }
    acked->topic = base_slice_of(acked->name, name.size_bytes);
    acked->id = topic->topic_id;
    acked->partition = partition->index;
    acked->offset_end = partition->base_offset + 1;
}

static void tell_answer(const struct waiting *waiting, enum kafka_message message, int16_t version, const void *answer)
{
    char words[1024];
    struct base_text text;
    if (!stream.is_told) { return; }
    base_text_init(&text, words, sizeof words);
    kafka_print(message, answer, version, &text);
    (void)fprintf(stderr, "answer to %d: %s v%d %s\n", waiting->correlation, kafka_api_info(waiting->api_key)->name,
                  version, words); /* to stderr: nothing to be done */
}

/* What the rest of the run is to know of an answer. */
static void note_answer(const struct waiting *waiting, const void *answer)
{
    if (waiting->api_key == KAFKA_API_FETCH) { stream_fetched(&stream.known, answer); }
    if (waiting->api_key == KAFKA_API_JOIN_GROUP) { stream_joined(&stream.known, waiting->group, answer); }
    if (waiting->api_key == KAFKA_API_OFFSET_COMMIT) { stream_offsets_answered(waiting->commit, answer); }
    if (waiting->api_key == KAFKA_API_OFFSET_FETCH && stream.is_judging) {
        bool is_loading;
        const char *wrong = stream_offsets_judge(answer, &is_loading);
        must(wrong == NULL, wrong);
        stream.is_judged = !is_loading;
    }
    if (waiting->api_key != KAFKA_API_PRODUCE || waiting->acks != -1) { return; }
    const struct kafka_produce_response *produce = answer;
    for (int32_t t = 0; t < produce->responses_count; t++) {
        for (int32_t p = 0; p < produce->responses[t].partition_responses_count; p++) {
            note_acked(&produce->responses[t], &produce->responses[t].partition_responses[p]);
        }
    }
}

static void take_answer(struct client_conn *conn, struct base_slice frame)
{
    must(frame.size_bytes >= 4, "an answer without a header");
    int32_t correlation = (int32_t)base_get_u32(frame.at);
    struct waiting *waiting = NULL;
    do {
        must(conn->waiting_first < conn->waiting_end, "an answer that nobody asked for, or out of order");
        waiting = &conn->waiting[conn->waiting_first];
        conn->waiting_first += 1;
    } while (waiting->acks == 0);
    must(waiting->correlation == correlation, "an answer out of order");
    int16_t version = waiting->version;
    bool is_refused = waiting->api_key == KAFKA_API_API_VERSIONS && !kafka_api_has_version(waiting->api_key, version);
    if (is_refused) { version = 0; }
    struct base_slice body;
    enum base_rc rc = kafka_response_open(frame, waiting->api_key, version, &correlation, &body);
    must(rc == BASE_OK, "an answer whose header can't be read");
    struct base_arena arena;
    base_arena_init(&arena, arena_bytes, ARENA_BYTES);
    enum kafka_message message = kafka_response_message(waiting->api_key);
    void *answer = base_arena_take(&arena, kafka_message_struct_bytes(message));
    rc = kafka_decode(message, body, version, &arena, answer);
    must(rc == BASE_OK, "an answer that can't be read");
    if (is_refused) {
        must(((struct kafka_api_versions_response *)answer)->error_code == KAFKA_ERROR_UNSUPPORTED_VERSION,
             "an unknown version served");
    }
    tell_answer(waiting, message, version, answer);
    note_answer(waiting, answer);
}

/* What is fetched is as large as it asks for, and so are the configs of one broker, named many times. */
static void leave(struct client_conn *conn)
{
    const struct waiting *waiting = &conn->waiting[conn->waiting_first];
    while (waiting < &conn->waiting[conn->waiting_end] && waiting->acks == 0) { waiting += 1; }
    must(waiting < &conn->waiting[conn->waiting_end], "an answer of that size");
    must(waiting->api_key == KAFKA_API_FETCH || waiting->api_key == KAFKA_API_DESCRIBE_CONFIGS,
         "an answer of that size");
    conn->has_left = true;
    conn->is_wanted = false;
    conn->received_bytes = 0;
}

static void take_answers(struct client_conn *conn)
{
    if (conn->has_left) { conn->received_bytes = 0; }
    size_t at = 0;
    while (conn->received_bytes - at >= 4) {
        uint32_t size_bytes = base_get_u32(conn->received + at);
        if (size_bytes >= RECEIVED_MAX / 2) { leave(conn); }
        if (conn->has_left) { return; }
        if (conn->received_bytes - at - 4 < size_bytes) { break; }
        take_answer(conn, base_slice_of(conn->received + at + 4, size_bytes));
        at += 4 + size_bytes;
    }
    memmove(conn->received, conn->received + at, conn->received_bytes - at);
    conn->received_bytes -= at;
}

static void pump(uint32_t index, struct port_out *out)
{
    struct client_conn *conn = &stream.conns[index];
    struct port_conn id = {.slot = index, .generation = conn->generation};
    if (conn->state == CLOSED && conn->is_wanted) {
        conn->generation += 1;
        conn->state = CONNECTING;
        struct port_effect *effect = port_emit(out, PORT_CONNECT, TOKEN_CONNECT);
        effect->conn = (struct port_conn){.slot = index, .generation = conn->generation};
        effect->address = world_address(stream.world, stream.broker, PORT);
        return;
    }
    if (conn->state != OPEN) { return; }
    if (!conn->is_wanted) {
        conn->state = CLOSING;
        port_emit(out, PORT_CLOSE, TOKEN_CLOSE)->conn = id;
        return;
    }
    if (!conn->is_sending && conn->left_bytes < conn->sent_bytes) {
        uint64_t size_bytes = base_min_u64(conn->chunk_bytes, conn->sent_bytes - conn->left_bytes);
        conn->piece =
            (struct port_piece){.kind = PORT_MEMORY, .at = conn->sent + conn->left_bytes, .size_bytes = size_bytes};
        struct port_effect *effect = port_emit(out, PORT_SEND, TOKEN_SEND);
        effect->conn = id;
        effect->pieces = &conn->piece;
        effect->piece_count = 1;
        conn->left_bytes += size_bytes;
        conn->is_sending = true;
    }
    if (!conn->is_receiving && !conn->is_deaf) {
        must(conn->received_bytes < RECEIVED_MAX, "an answer of that size");
        struct port_effect *effect = port_emit(out, PORT_RECV, TOKEN_RECV);
        effect->conn = id;
        effect->buffer = conn->received + conn->received_bytes;
        effect->size_bytes = base_min_size(RECEIVED_MAX - conn->received_bytes, 65536);
        conn->is_receiving = true;
    }
}

static void on_done(const struct port_event *event)
{
    struct client_conn *conn = &stream.conns[event->done.conn.slot];
    bool is_good = event->done.rc == PORT_OK;
    switch (event->done.token) {
    case TOKEN_CONNECT:
        conn->state = is_good ? OPEN : CLOSED;
        if (!is_good) {
            conn->is_wanted = false;
            forget(conn);
        }
        return;
    case TOKEN_SEND:
        conn->is_sending = false;
        if (!is_good) { conn->is_wanted = false; }
        return;
    case TOKEN_RECV:
        conn->is_receiving = false;
        if (!is_good) {
            conn->is_wanted = false;
            return;
        }
        conn->received_bytes += event->done.count;
        take_answers(conn);
        return;
    case TOKEN_CLOSE:
        conn->state = CLOSED;
        conn->is_wanted = false;
        forget(conn);
        return;
    default: abort();
    }
}

static void *client_create(void *context, const struct world_boot *boot)
{
    (void)boot;
    return context;
}
static void client_step(void *machine, const struct port_event *event, struct port_out *out)
{
    (void)machine;
    if (event->kind == PORT_EVENT_DONE) { on_done(event); }
    if (event->kind == PORT_EVENT_STOP) {
        (void)port_emit(out, PORT_STOPPED, 0);
        return;
    }
    for (uint32_t i = 0; i < CONNS; i++) { pump(i, out); }
}
static const struct world_machine client_machine = {.create = client_create, .step = client_step};

/* ---- the broker ---------------------------------------------------------------------------------------------------------- */

static void *broker_boot(void *context, const struct world_boot *boot)
{
    const struct stream *of = context;
    struct broker_config config = of->config;
    config.shard = boot->shard;
    config.shards = boot->shard_count;
    config.seed = boot->seed;
    config.listeners[0].address = boot->address;
    config.listeners[0].address.port = PORT;
    char host[47];
    port_address_to_text(boot->address, host);
    memcpy(config.listeners[0].host, host, sizeof host);
    struct broker *broker = NULL;
    enum base_rc rc = broker_create(boot->region, &config, &broker);
    must(rc == BASE_OK, "the region is too small for this configuration");
    return broker;
}
static void broker_event(void *machine, const struct port_event *event, struct port_out *out)
{
    broker_step(machine, event, out);
}
static const struct world_machine broker_machine = {.create = broker_boot, .step = broker_event};

static void configure(struct broker_config *config, uint32_t shape)
{
    broker_config_default(config);
    memcpy(config->cluster_id, "fuzzed-cluster-id-0000", 23);
    config->listener_count = 1;
    memcpy(config->listeners[0].name, "PLAINTEXT", sizeof "PLAINTEXT");
    config->is_auto_create = (shape & 16) != 0;
    config->connections_max = 8;
    config->in_flight_max = 4;
    config->files_max = 12;
    config->topics_max = 12;
    config->partitions_max = 24;
    config->producers_max = 8;
    config->request_bytes_max = REQUEST_MAX;
    config->journal_bytes_max = 512 << 10;
    config->journal_file_bytes = 128 << 10;
    config->inline_bytes_max = 1 << 10;
    config->decompressed_bytes_max = 64 << 10;
    config->step_max = (shape & 2) != 0 ? 1 : 256;
    config->validates_records = (shape & 32) != 0;
    config->is_check_slow = true;
    if ((shape & 64) == 0) { return; }
    config->coordinator_groups = 2;
    config->group_initial_delay_ms = (shape & 128) != 0 ? 100 : 0;
}

static void begin(uint32_t shape, uint64_t seed)
{
    for (uint32_t i = 0; i < CONNS; i++) {
        struct client_conn *conn = &stream.conns[i];
        uint8_t *sent = conn->sent, *received = conn->received;
        *conn = (struct client_conn){.sent = sent, .received = received};
        if (sent == NULL) {
            conn->sent = malloc(SENT_MAX);
            conn->received = malloc(RECEIVED_MAX);
        }
        forget(conn);
    }
    if (arena_bytes == NULL) { arena_bytes = malloc(ARENA_BYTES); } /* kept from run to run, as the buffers are */
    stream.acked_count = 0;
    stream.may_lose = false;
    stream.correlation = 0;
    stream.known = (struct stream_known){.has_groups = (shape & 64) != 0};
    stream.is_judging = stream.is_judged = false;
    stream_offsets_begin();
    configure(&stream.config, shape);
    stream.config.shards = 1 + (shape & 1);
    struct world_knobs knobs;
    world_knobs_default(&knobs);
    knobs.checks_lent = true;
    knobs.checks_stopped = true;
    if ((shape & 4) != 0) {
        static const enum world_fault faults[] = {WORLD_NET_CUT,          WORLD_NET_SLOW,   WORLD_NET_SHORT_RECV,
                                                  WORLD_NET_SMALL_BUFFER, WORLD_DISK_LATE,  WORLD_DISK_SHORT_READ,
                                                  WORLD_DISK_SLOW,        WORLD_SHARD_SLOW, WORLD_MESSAGE_LATE};
        for (size_t i = 0; i < BASE_ARRAY_COUNT(faults); i++) { knobs.rate_ppm[faults[i]] = 100000; }
        knobs.slow_max_ns = 50 * WORLD_MS;
    }
    stream.world = world_create(seed, &knobs);
    stream.is_told = getenv("WEIR_FUZZ_TRACE") != NULL;
    if (stream.is_told) { world_trace_to(stream.world, stderr); }
    size_t region_bytes = (shape & 8) != 0 ? SMALL_BYTES : REGION_BYTES;
    if ((shape & 1) != 0) { region_bytes = TWO_BYTES; }
    struct world_node_spec broker = {.machine = &broker_machine,
                                     .context = &stream,
                                     .shard_count = 1 + (shape & 1),
                                     .disk_count = 1,
                                     .region_bytes = region_bytes};
    stream.broker = world_add_node(stream.world, &broker);
    struct world_node_spec clients = {.machine = &client_machine, .context = &stream, .shard_count = 1};
    stream.clients = world_add_node(stream.world, &clients);
}

static void run_for(uint64_t ns)
{
    (void)world_run(stream.world, world_now(stream.world) + ns);
    const char *failure = world_failure(stream.world);
    must(failure == NULL, failure);
}

static bool is_serving(void)
{
    if (world_node_state(stream.world, stream.broker) != WORLD_UP) { return false; }
    for (uint32_t shard = 0; shard < stream.config.shards; shard++) {
        struct broker_view view;
        broker_view(world_machine_at(stream.world, stream.broker, shard), &view);
        if (view.ports[0] == 0 || (shard == 0 && view.state != BROKER_SERVING)) { return false; }
    }
    return true;
}

static void run_until_serving(void)
{
    for (uint32_t i = 0; i < 2000 && !is_serving(); i++) { run_for(10 * WORLD_MS); }
    must(is_serving(), "the broker does not come to serve");
}

static void poke(void)
{
    struct port_message message = {.kind = 1};
    world_post(stream.world, stream.clients, 0, &message);
}

/* ---- the script ---------------------------------------------------------------------------------------------------------- */

static void append(struct client_conn *conn, const uint8_t *at, size_t size_bytes)
{
    if (conn->state == CLOSING || size_bytes > SENT_MAX - conn->sent_bytes) { return; }
    conn->is_wanted = true;
    if (size_bytes > 0) { memcpy(conn->sent + conn->sent_bytes, at, size_bytes); }
    conn->sent_bytes += size_bytes;
    note_frames(conn);
}

static void look_for_losses(const uint8_t *frame, size_t frame_bytes)
{
    bool is_delete = frame_bytes >= 6 && base_get_u16(frame + 4) == KAFKA_API_DELETE_TOPICS;
    if (is_delete || memmem(frame, frame_bytes, "page-cache", 10) != NULL) { stream.may_lose = true; }
}

/* A header that is right, and a body of the script's own bytes. */
static size_t raw_request(struct stream_input *input, int32_t correlation, uint8_t *frame)
{
    const struct kafka_api_info *info = kafka_api_at(stream_take(input, 1) % KAFKA_API_COUNT);
    int16_t version = (int16_t)((int32_t)(stream_take(input, 1) % 24) - 1);
    uint32_t body_bytes = stream_take(input, 1);
    base_put_u16(frame + 4, (uint16_t)info->key);
    base_put_u16(frame + 6, (uint16_t)version);
    base_put_u32(frame + 8, (uint32_t)correlation);
    base_put_u16(frame + 12, UINT16_MAX);
    size_t at = 14;
    if (version >= info->flexible_from && info->key != KAFKA_API_API_VERSIONS) { frame[at++] = 0; }
    for (uint32_t i = 0; i < body_bytes; i++) { frame[at++] = (uint8_t)stream_take(input, 1); }
    base_put_u32(frame, (uint32_t)at - 4);
    return at;
}

static size_t raw_bytes(struct stream_input *input, uint8_t *frame)
{
    uint32_t size_bytes = stream_take(input, 1);
    for (uint32_t i = 0; i < size_bytes; i++) { frame[i] = (uint8_t)stream_take(input, 1); }
    return size_bytes;
}

/* A valid request, then a few bytes of it changed: what decoders must stand. */
static void garble(struct stream_input *input, uint8_t *frame, size_t size_bytes)
{
    uint32_t count = 1 + stream_take(input, 1) % 4;
    for (uint32_t i = 0; i < count && size_bytes > 4; i++) {
        uint32_t at = stream_take(input, 2);
        uint8_t byte = (uint8_t)stream_take(input, 1);
        frame[(at < 60000 ? 4 : 0) + at % (size_bytes - 4)] = byte; /* the length is right as a rule */
    }
}

static void send_request(struct stream_input *input, uint32_t op, struct client_conn *conn)
{
    static uint8_t frame[STREAM_REQUEST_BYTES_MAX];
    gather_ids(&stream.known.topics);
    stream.correlation += 1;
    size_t size_bytes = 0;
    switch (op) {
    case 10: size_bytes = stream_random_request(input, stream.correlation, frame); break;
    case 11: size_bytes = raw_request(input, stream.correlation, frame); break;
    case 12: size_bytes = raw_bytes(input, frame); break;
    default: size_bytes = stream_request(input, &stream.known, stream.correlation, frame); break;
    }
    if (op == 9) { garble(input, frame, size_bytes); }
    look_for_losses(frame, size_bytes);
    append(conn, frame, size_bytes);
    poke();
}

static void start_again(uint32_t how)
{
    switch (how % 3) {
    case 0: world_crash(stream.world, stream.broker, WORLD_POWER); break;
    case 1: world_crash(stream.world, stream.broker, WORLD_PROCESS); break;
    default:
        world_stop(stream.world, stream.broker);
        for (uint32_t i = 0; i < 300 && world_node_state(stream.world, stream.broker) == WORLD_UP; i++) {
            run_for(100 * WORLD_MS);
        }
        must(world_node_state(stream.world, stream.broker) == WORLD_STOPPED, "the broker does not stop");
        break;
    }
    run_for(WORLD_MS);
    world_restart(stream.world, stream.broker);
    if (how < 128) { run_until_serving(); } /* else in the middle of its start */
}

/* Opcodes 0 to 12 send; 0 to 8 a valid request, so that most of a script is. */
static void operate(struct stream_input *input)
{
    static const uint64_t spans_ns[] = {WORLD_US,       100 * WORLD_US, WORLD_MS,     10 * WORLD_MS,
                                        100 * WORLD_MS, WORLD_S,        20 * WORLD_S, 700 * WORLD_S};
    uint32_t op = stream_take(input, 1);
    struct client_conn *conn = &stream.conns[op / 32 % CONNS];
    bool is_waiting = op >= 128; /* else the next operation follows at once */
    op %= 32;
    if (op >= 20) { op -= 20; }
    switch (op) {
    case 13: conn->is_wanted = false; break;
    case 14: conn->is_deaf = !conn->is_deaf; break;
    case 15: conn->chunk_bytes = 1 + stream_take(input, 1); break;
    case 16: run_for(spans_ns[stream_take(input, 1) % BASE_ARRAY_COUNT(spans_ns)]); break;
    case 17: start_again(stream_take(input, 1)); break;
    case 18: run_for(stream_take(input, 2) * WORLD_US); break;
    case 19: conn->chunk_bytes = UINT32_MAX; break;
    default: send_request(input, op, conn); break;
    }
    poke();
    if (is_waiting) { run_for(20 * WORLD_MS); }
}

/* ---- the end ------------------------------------------------------------------------------------------------------------- */

static bool is_quiet(void)
{
    for (uint32_t shard = 0; shard < stream.config.shards; shard++) {
        const struct broker *broker = world_machine_at(stream.world, stream.broker, shard);
        if (broker == NULL || !broker_is_quiet(broker)) { return false; }
    }
    return true;
}

static bool has_given_back(void)
{
    for (uint32_t shard = 0; shard < stream.config.shards; shard++) {
        const struct broker *broker = world_machine_at(stream.world, stream.broker, shard);
        if (broker == NULL || !broker_is_quiet(broker) || broker_lost_blocks(broker) != 0) { return false; }
    }
    return true;
}

static bool has_acked(const struct acked *acked)
{
    for (uint32_t shard = 0; shard < stream.config.shards; shard++) {
        const struct broker *broker = world_machine_at(stream.world, stream.broker, shard);
        uint32_t cursor = 0;
        struct broker_log_view view;
        while (broker_each_log(broker, &cursor, &view)) {
            bool is_it = base_uuid_is_none(acked->id) ? base_slice_equal(view.topic, acked->topic)
                                                      : memcmp(view.id.topic.b, acked->id.b, sizeof acked->id.b) == 0;
            if (is_it && view.id.index == acked->partition && view.watermark >= acked->offset_end) { return true; }
        }
    }
    return false;
}

/* What is committed, asked for by a client that comes after all. */
static void judge_offsets(void)
{
    static uint8_t frame[STREAM_REQUEST_BYTES_MAX];
    struct client_conn *conn = &stream.conns[0];
    stream.is_judging = true;
    for (uint32_t i = 0; i < 50 && !stream.is_judged; i++) {
        stream.correlation += 1;
        append(conn, frame, stream_offsets_question(stream.correlation, frame));
        poke();
        run_for(100 * WORLD_MS);
    }
    must(stream.is_judged, "committed offsets can't be had");
    conn->is_wanted = false;
    poke();
    run_for(100 * WORLD_MS);
    must(is_quiet(), "something is still held of a connection that is closed");
}

static void finish(void)
{
    for (uint32_t i = 0; i < CONNS; i++) {
        struct client_conn *conn = &stream.conns[i];
        conn->is_wanted = conn->is_deaf = false;
        if (conn->state == CLOSED) { forget(conn); } /* what it never came to send */
    }
    world_calm(stream.world);
    poke();
    run_until_serving();
    for (uint32_t i = 0; i < 100 && !is_quiet(); i++) { run_for(100 * WORLD_MS); }
    /* A connection with in_flight_max requests is not read, so its end shows when a long poll among them has ended; and what is read
     * then may be long polls again. */
    for (uint32_t i = 0; i < POLLS_MAX && !is_quiet(); i++) { run_for(LONGEST_POLL_NS); }
    must(is_quiet(), "something is still held though every connection is closed");
    for (uint32_t i = 0; i < 100 && !has_given_back(); i++) { run_for(100 * WORLD_MS); }
    must(has_given_back(), "memory is still held though every connection is closed");
    start_again(2); /* a clean stop: the world looks at ids and effects */
    if (stream.known.has_groups) { judge_offsets(); }
    if (stream.may_lose) { return; }
    for (uint32_t i = 0; i < stream.acked_count; i++) {
        must(has_acked(&stream.acked[i]), "an acknowledged record is gone");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream_input input = {.at = data, .left = size};
    uint32_t shape = stream_take(&input, 1);
    uint32_t seed = stream_take(&input, 1);
    begin(shape, seed);
    run_until_serving();
    for (uint32_t i = 0; i < OPS_MAX && input.left > 0; i++) { operate(&input); }
    finish();
    world_destroy(stream.world);
    return 0;
}
