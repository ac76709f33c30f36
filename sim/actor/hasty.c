/* hasty.c: see actor.h. Speaks raw messages and waits for no answer: several Produces at once to one partition, without idempotence; a
 * fetch that waits with others behind it that don't, after which it goes away; while topics change, many questions about them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "actor__parts.h"

#include "wire/kafka/fetch.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/metadata.h"
#include "wire/kafka/produce.h"

#define VERSION_PRODUCE  9
#define VERSION_FETCH    12 /* all by names */
#define VERSION_METADATA 12
#define LOOKS_NS         (10 * WORLD_MS) /* so often whether topics change */
#define PATIENCE_NS      (10 * WORLD_S)
#define WAITS_MS         600000
#define SMALL_BYTES      200
#define FETCHED_BYTES    20000
#define PARTITIONS_ASKED 4
#define EVEN_BYTES       300

enum token { TOKEN_CONNECT = 1, TOKEN_SEND, TOKEN_RECV, TOKEN_CLOSE };

/* ---- questions ---- */

static bool put(struct actor *actor, int16_t api_key, int16_t version, const void *request)
{
    struct hasty *hasty = &actor->hasty;
    struct kafka_writer writer;
    kafka_writer_init(&writer, hasty->sent + hasty->sent_bytes, HASTY_SENT_BYTES - hasty->sent_bytes);
    enum base_rc rc = kafka_request_encode(kafka_request_message(api_key), request, version, hasty->correlation + 1,
                                           kafka_text_words(actor->spec->name), &writer);
    if (rc != BASE_OK) { return false; }
    hasty->correlation += 1;
    hasty->sent_bytes += writer.used_bytes;
    return true;
}

static struct base_slice build_batch(struct actor *actor, const struct history_record *record, int64_t timestamp_ms,
                                     size_t value_bytes)
{
    actor_value_make(*record, actor->value, value_bytes);
    char key[ACTOR_KEY_BYTES_MAX];
    actor__key(record, key);
    struct rec_header header = {.key = base_slice_text(ACTOR_HEADER), .value = rec_value_of(base_slice_text(key))};
    struct rec_build build;
    enum base_rc rc = rec_build_init(&build, actor->hasty.batch, HASTY_BATCH_BYTES, rec_build_plain());
    CHECK(rc == BASE_OK);
    rc = rec_build_add(&build, timestamp_ms, key[0] == 0 ? rec_null() : rec_value_of(base_slice_text(key)),
                       rec_value_of(base_slice_of(actor->value, value_bytes)), &header,
                       actor__has_header(record) ? 1 : 0);
    CHECK(rc == BASE_OK); /* values are small */
    return rec_build_end(&build);
}

/* Keys and headers differ in length: the value makes up for that. */
static struct base_slice make_batch(struct actor *actor, const struct history_record *record, int64_t timestamp_ms,
                                    size_t value_bytes)
{
    struct base_slice batch = build_batch(actor, record, timestamp_ms, value_bytes);
    while (actor->hasty.is_even && batch.size_bytes < EVEN_BYTES) {
        value_bytes += EVEN_BYTES - batch.size_bytes > 4 ? EVEN_BYTES - batch.size_bytes - 4 : 1;
        batch = build_batch(actor, record, timestamp_ms, value_bytes);
    }
    return batch;
}

static bool put_record(struct actor *actor, const struct actor_topic *topic, int32_t partition_index, int16_t acks,
                       size_t value_bytes)
{
    struct hasty *hasty = &actor->hasty;
    struct history_op op = actor__op(actor, HISTORY_PRODUCE);
    memcpy(op.topic, topic->name, sizeof op.topic);
    op.partition = partition_index;
    op.acks = acks;
    op.record = (struct history_record){.incarnation = topic->incarnation,
                                        .producer = actor->spec->number,
                                        .sequence = actor->sequence};
    op.timestamp_ms = topic->is_stamped ? -1 : actor->wall_ms;
    struct base_slice batch = make_batch(actor, &op.record, actor->wall_ms, value_bytes);
    struct kafka_produce_request_partition_produce_data partition;
    kafka_produce_request_partition_produce_data_init(&partition);
    partition.index = partition_index;
    partition.records = kafka_records_of(batch.at, batch.size_bytes);
    struct kafka_produce_request_topic_produce_data of;
    kafka_produce_request_topic_produce_data_init(&of);
    of.name = kafka_text_words(op.topic);
    of.partition_data = &partition;
    of.partition_data_count = 1;
    struct kafka_produce_request request;
    kafka_produce_request_init(&request);
    request.acks = acks;
    request.timeout_ms = 8000;
    request.topic_data = &of;
    request.topic_data_count = 1;
    if (!put(actor, KAFKA_API_PRODUCE, VERSION_PRODUCE, &request)) { return false; }
    hasty->asked[hasty->asked_count++] = (struct hasty_asked){.op = history_invoke(actor->spec->cast->history, &op),
                                                              .correlation = hasty->correlation,
                                                              .has_answer = acks != 0};
    actor->sequence += 1;
    return true;
}

/* Of those that are acknowledged before they are on the disk, if there are any. */
static uint32_t even_topic(const struct actor_cast *cast)
{
    for (uint32_t i = 0; i < cast->topic_count; i++) {
        if (cast->topics[i].is_page_cache) { return i; }
    }
    return 0;
}

/* Some are large and some small, some want an answer and some do not: whatever they find, the log has them as they were sent. */
static void rush(struct actor *actor)
{
    const struct actor_cast *cast = actor->spec->cast;
    bool is_even = actor->hasty.is_even;
    uint32_t topic_index = is_even ? even_topic(cast) : actor__draw_topic(actor, false);
    if (topic_index == UINT32_MAX || !cast->topics[topic_index].is_ready) { return; }
    const struct actor_topic *topic = &cast->topics[topic_index];
    int32_t partition = is_even ? 0 : (int32_t)actor__below(actor, (uint32_t)topic->partition_count);
    static const int16_t acks_of[] = {-1, -1, 1, 0};
    int16_t acks = acks_of[actor__below(actor, 4)];
    bool is_mixed = actor__below(actor, 3) == 0;
    uint32_t count = 2 + actor__below(actor, HASTY_ASKED_MAX - 1);
    uint32_t bytes_max = (uint32_t)base_min_u64(actor->spec->value_bytes_max, HASTY_VALUE_BYTES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (is_mixed) { acks = acks_of[actor__below(actor, 4)]; }
        bool is_small = actor__below(actor, 4) > 0;
        uint32_t more_bytes = actor__below(actor, is_small ? SMALL_BYTES : bytes_max);
        if (is_even) { more_bytes = 0; }
        if (!put_record(actor, topic, partition, acks, ACTOR_VALUE_BYTES_MIN + more_bytes)) { break; }
        actor->done += 1;
    }
    actor->hasty.due_ns = actor->now_ns + PATIENCE_NS;
}

/* What is there of a topic, from 0: at once, or (`waits`) when there is more than there will ever be. */
static void put_fetch(struct actor *actor, const struct actor_topic *topic, bool waits)
{
    struct kafka_fetch_request_fetch_partition partitions[PARTITIONS_ASKED];
    struct kafka_fetch_request_fetch_topic of;
    kafka_fetch_request_fetch_topic_init(&of);
    of.topic = kafka_text_words(topic->name);
    of.partitions = partitions;
    of.partitions_count = (int32_t)base_min_i64(topic->partition_count, PARTITIONS_ASKED);
    for (int32_t i = 0; i < of.partitions_count; i++) {
        kafka_fetch_request_fetch_partition_init(&partitions[i]);
        partitions[i].partition = i;
        partitions[i].partition_max_bytes = FETCHED_BYTES;
    }
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.max_wait_ms = waits ? WAITS_MS : 0;
    request.min_bytes = waits ? INT32_MAX : 1;
    request.max_bytes = FETCHED_BYTES;
    request.session_epoch = -1; /* no session: they need not wait for each other */
    request.topics = &of;
    request.topics_count = 1;
    (void)put(actor, KAFKA_API_FETCH, VERSION_FETCH, &request); /* no room: it was asked enough */
}

/* The answers to all but the first are there, and can't leave; then the connection goes. */
static void ask_and_leave(struct actor *actor)
{
    const struct actor_cast *cast = actor->spec->cast;
    uint32_t first = actor__below(actor, cast->topic_count);
    uint32_t count = 1 + actor__below(actor, 3);
    put_fetch(actor, &cast->topics[0], true); /* nobody deletes that one */
    for (uint32_t i = 0; i < count; i++) { put_fetch(actor, &cast->topics[(first + i) % cast->topic_count], false); }
    actor->hasty.is_leaving = true;
}

/* While topics change: what is told of them is looked at where it leaves the broker (sim/check/stream_told.c). */
static void ask_topics(struct actor *actor)
{
    const struct actor_cast *cast = actor->spec->cast;
    struct kafka_metadata_request_metadata_request_topic topics[ACTOR_TOPICS_MAX + 1];
    for (uint32_t i = 0; i < cast->topic_count; i++) {
        kafka_metadata_request_metadata_request_topic_init(&topics[i]);
        topics[i].name = kafka_text_words(cast->topics[i].name);
    }
    kafka_metadata_request_metadata_request_topic_init(&topics[cast->topic_count]);
    topics[cast->topic_count].name = kafka_text_words(ACTOR_WIDE);
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.topics = topics;
    request.topics_count = (int32_t)cast->topic_count + 1;
    request.allow_auto_topic_creation = false;
    struct hasty *hasty = &actor->hasty;
    while (hasty->asked_count < HASTY_ASKED_MAX && put(actor, KAFKA_API_METADATA, VERSION_METADATA, &request)) {
        hasty->asked[hasty->asked_count++] =
            (struct hasty_asked){.correlation = hasty->correlation, .has_answer = true, .is_question = true};
    }
    hasty->due_ns = actor->now_ns + PATIENCE_NS;
}

/* ---- answers ---- */

static void end(struct actor *actor, uint32_t at, enum history_what what)
{
    struct hasty *hasty = &actor->hasty;
    if (!hasty->asked[at].is_question) {
        history_end(actor->spec->cast->history, hasty->asked[at].op, what, actor__world_ns(actor));
    }
    hasty->asked_count -= 1;
    memmove(&hasty->asked[at], &hasty->asked[at + 1], (hasty->asked_count - at) * sizeof hasty->asked[0]);
}

static void take_answer(struct actor *actor, uint32_t at, const struct kafka_produce_response *answer)
{
    struct history_op *op = &actor->spec->cast->history->ops[actor->hasty.asked[at].op];
    bool is_one = answer->responses_count == 1 && answer->responses[0].partition_responses_count == 1;
    if (!is_one) {
        end(actor, at, HISTORY_UNKNOWN);
        return;
    }
    const struct kafka_produce_response_partition_produce_response *part = &answer->responses[0].partition_responses[0];
    op->error = part->error_code;
    if (op->error == 0) {
        op->offset = part->base_offset;
        if (op->timestamp_ms < 0) { op->timestamp_ms = part->log_append_time_ms; }
        if (op->acks == -1) { actor->spec->cast->acknowledged += 1; }
    }
    end(actor, at, op->error == 0 ? HISTORY_OK : HISTORY_UNKNOWN); /* it does not look which errors are definite */
}

/* False: nobody asked for that. */
static bool take_frame(struct actor *actor, struct base_slice frame)
{
    struct hasty *hasty = &actor->hasty;
    uint32_t at = 0;
    while (at < hasty->asked_count && !hasty->asked[at].has_answer) { at += 1; }
    if (at == hasty->asked_count) { return false; }
    if (hasty->asked[at].is_question) {
        bool is_it = frame.size_bytes >= 4 && (int32_t)base_get_u32(frame.at) == hasty->asked[at].correlation;
        end(actor, at, HISTORY_OK);
        return is_it;
    }
    uint64_t memory[512];
    struct base_arena arena;
    base_arena_init(&arena, memory, sizeof memory);
    struct kafka_produce_response answer;
    kafka_produce_response_init(&answer);
    int32_t correlation;
    struct base_slice body;
    enum base_rc rc = kafka_response_open(frame, KAFKA_API_PRODUCE, VERSION_PRODUCE, &correlation, &body);
    if (rc == BASE_OK) { rc = kafka_produce_response_decode(body, VERSION_PRODUCE, &arena, &answer); }
    if (rc != BASE_OK || correlation != hasty->asked[at].correlation) { return false; }
    take_answer(actor, at, &answer);
    return true;
}

static bool take_bytes(struct actor *actor)
{
    struct hasty *hasty = &actor->hasty;
    size_t from = 0;
    while (hasty->received_bytes - from >= 4) {
        size_t bytes = base_get_u32(hasty->received + from);
        if (bytes > HASTY_RECEIVED_BYTES - 4) { return false; }
        if (hasty->received_bytes - from - 4 < bytes) { break; }
        if (!take_frame(actor, base_slice_of(hasty->received + from + 4, bytes))) { return false; }
        from += 4 + bytes;
    }
    memmove(hasty->received, hasty->received + from, hasty->received_bytes - from);
    hasty->received_bytes -= from;
    return true;
}

/* ---- its connection ---- */

static void drop(struct actor *actor, struct port_out *out)
{
    struct hasty *hasty = &actor->hasty;
    if (hasty->link != HASTY_UP) { return; }
    port_emit(out, PORT_CLOSE, TOKEN_CLOSE)->conn = hasty->conn;
    hasty->link = HASTY_CLOSING;
    while (hasty->asked_count > 0) {
        if (!hasty->asked[0].is_question) { actor->spec->cast->history->ops[hasty->asked[0].op].error = -1; }
        end(actor, 0, HISTORY_UNKNOWN);
    }
    hasty->is_leaving = false;
}

static void connect(struct actor *actor, struct port_out *out)
{
    const struct actor_cast *cast = actor->spec->cast;
    struct hasty *hasty = &actor->hasty;
    hasty->conn.generation += 1;
    struct port_effect *effect = port_emit(out, PORT_CONNECT, TOKEN_CONNECT);
    effect->conn = hasty->conn;
    effect->address = world_address(cast->world, cast->broker, cast->port);
    hasty->link = HASTY_CONNECTING;
    hasty->received_bytes = hasty->sent_bytes = 0;
}

static void flush(struct hasty *hasty, struct port_out *out)
{
    if (hasty->link != HASTY_UP || hasty->is_sending || hasty->sent_bytes == 0) { return; }
    hasty->piece = (struct port_piece){.kind = PORT_MEMORY, .at = hasty->sent, .size_bytes = hasty->sent_bytes};
    struct port_effect *effect = port_emit(out, PORT_SEND, TOKEN_SEND);
    effect->conn = hasty->conn;
    effect->pieces = &hasty->piece;
    effect->piece_count = 1;
    hasty->is_sending = true;
}

/* What it waits for no answer of it never reads. */
static void receive(struct hasty *hasty, struct port_out *out)
{
    if (hasty->link != HASTY_UP || hasty->is_receiving || hasty->is_leaving || hasty->asked_count == 0) { return; }
    struct port_effect *effect = port_emit(out, PORT_RECV, TOKEN_RECV);
    effect->conn = hasty->conn;
    effect->buffer = hasty->received + hasty->received_bytes;
    effect->size_bytes = HASTY_RECEIVED_BYTES - hasty->received_bytes;
    hasty->is_receiving = true;
}

/* What wants no answer has ended when it has left. */
static void take_sent(struct actor *actor)
{
    struct hasty *hasty = &actor->hasty;
    for (uint32_t i = hasty->asked_count; i-- > 0;) {
        if (!hasty->asked[i].has_answer) { end(actor, i, HISTORY_OK); }
    }
    hasty->sent_bytes = 0;
}

static void take_done(struct actor *actor, const struct port_event *event, struct port_out *out)
{
    struct hasty *hasty = &actor->hasty;
    bool is_well = event->done.rc == PORT_OK;
    switch ((enum token)event->done.token) {
    case TOKEN_CONNECT:
        hasty->link = is_well ? HASTY_UP : HASTY_DOWN;
        hasty->is_fresh = actor->phase == PHASE_DRAIN;
        return;
    case TOKEN_SEND:
        hasty->is_sending = false;
        if (is_well && hasty->link == HASTY_UP) {
            take_sent(actor);
        } else {
            drop(actor, out);
        }
        return;
    case TOKEN_RECV:
        hasty->is_receiving = false;
        if (hasty->link != HASTY_UP) { return; }
        hasty->received_bytes += is_well ? event->done.count : 0;
        if (!is_well || !take_bytes(actor)) { drop(actor, out); }
        return;
    case TOKEN_CLOSE:
        hasty->link = HASTY_DOWN;
        hasty->is_sending = hasty->is_receiving = false;
        return;
    }
}

/* ---- the machine ---- */

static bool is_at_rest(const struct hasty *hasty)
{
    return hasty->link == HASTY_UP && hasty->asked_count == 0 && !hasty->is_sending;
}

static void act_in_load(struct actor *actor, struct port_out *out)
{
    struct hasty *hasty = &actor->hasty;
    if (hasty->is_leaving) {
        drop(actor, out);
    } else if (hasty->link == HASTY_DOWN) {
        connect(actor, out);
    } else if (is_at_rest(hasty)) {
        bool is_done = actor->done >= actor->spec->wanted;
        if (is_done || actor__below(actor, 4) == 0) {
            ask_and_leave(actor);
        } else {
            rush(actor);
        }
    }
    actor__pause(actor);
}

/* After the faults: a connection that stays as it is until all are closed. */
static void act_at_probe(struct actor *actor, struct port_out *out)
{
    struct hasty *hasty = &actor->hasty;
    if (hasty->link == HASTY_DOWN) { connect(actor, out); }
    if (!is_at_rest(hasty)) { return; }
    if (!hasty->is_fresh) { /* whoever was at its other end may be gone */
        drop(actor, out);
        return;
    }
    if (!hasty->is_leaving) { ask_and_leave(actor); }
    actor->probes = 0;
}

void actor__hasty_create(struct actor *actor, struct base_arena *arena)
{
    struct hasty *hasty = &actor->hasty;
    hasty->conn = (struct port_conn){.slot = 0, .generation = 0};
    hasty->is_even = actor__below(actor, 2) == 0;
    hasty->sent = base_arena_take(arena, HASTY_SENT_BYTES);
    hasty->received = base_arena_take(arena, HASTY_RECEIVED_BYTES);
    hasty->batch = base_arena_take(arena, HASTY_BATCH_BYTES);
    CHECK(hasty->sent != NULL && hasty->received != NULL && hasty->batch != NULL); /* ACTOR_REGION_BYTES is enough */
}

void actor__hasty_step(struct actor *actor, const struct port_event *event, struct port_out *out)
{
    struct hasty *hasty = &actor->hasty;
    bool has_drained = event->kind == PORT_EVENT_MESSAGE && event->message.kind == ACTOR_DRAIN;
    if (event->kind == PORT_EVENT_DONE) { take_done(actor, event, out); }
    bool is_late = hasty->asked_count > 0 && actor->now_ns >= hasty->due_ns;
    if (is_late || actor->phase == PHASE_CLOSE || (has_drained && hasty->is_leaving)) { drop(actor, out); }
    if (actor->phase == PHASE_LOAD && actor->now_ns >= actor->next_ns) { act_in_load(actor, out); }
    bool asks = actor->phase == PHASE_LOAD && actor->spec->cast->changing > 0 && !hasty->is_leaving;
    if (asks && is_at_rest(hasty) && hasty->sent_bytes == 0) { ask_topics(actor); }
    if (actor->phase == PHASE_DRAIN && actor->probes > 0) { act_at_probe(actor, out); }
    if (actor->phase == PHASE_CLOSE) { actor->probes = 0; }
    flush(hasty, out);
    receive(hasty, out);
    uint64_t next_ns = actor->phase == PHASE_LOAD ? base_min_u64(actor->next_ns, actor->now_ns + LOOKS_NS) : UINT64_MAX;
    if (actor->phase == PHASE_DRAIN && actor->probes > 0) { next_ns = actor->now_ns + 20 * WORLD_MS; }
    if (hasty->asked_count > 0) { next_ns = base_min_u64(next_ns, hasty->due_ns); }
    if (next_ns != UINT64_MAX) { port_alarm(out, base_max_u64(next_ns, actor->now_ns + 1)); }
}

void actor__hasty_view(const struct actor *actor, struct actor_view *view_out)
{
    const struct hasty *hasty = &actor->hasty;
    *view_out = (struct actor_view){.outstanding = hasty->asked_count + actor->probes,
                                    .is_finished = actor->done >= actor->spec->wanted,
                                    .is_quiet = hasty->link == HASTY_DOWN};
}
