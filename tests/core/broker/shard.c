/* shard.c: see shard.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "broker/broker__.h"
#include "wire/kafka/produce.h"

#define REGION_BYTES ((size_t)64 << 20)
#define STEPS_MAX    200000 /* of a test: one that loops ends */
#define START_NS     UINT64_C(1000000000)
#define ARENA_BYTES  16384
#define FRAME_BYTES  4096

static void *must(void *at)
{
    assert_non_null(at);
    return at;
}

static struct port_event event_of(const struct shard *shard, enum port_event_kind kind)
{
    int64_t wall_ms = INT64_C(1700000000000) + (int64_t)((shard->now_ns - START_NS) / 1000000);
    return (struct port_event){.kind = kind, .now_ns = shard->now_ns, .wall_ms = wall_ms};
}

/* ---- the disk ---- */

static struct shard_file *file_by_name(struct shard *shard, struct base_slice path)
{
    for (uint32_t i = 0; i < shard->file_count; i++) {
        if (base_slice_equal(base_slice_text(shard->files[i].path), path)) { return &shard->files[i]; }
    }
    return NULL;
}

static struct shard_file *file_by_id(struct shard *shard, struct port_file id)
{
    for (uint32_t i = 0; i < shard->file_count; i++) {
        if (port_file_equal(shard->files[i].id, id)) { return &shard->files[i]; }
    }
    return must(NULL);
}

static void name_file(struct shard_file *file, struct base_slice path)
{
    assert_true(path.size_bytes < sizeof file->path);
    memset(file->path, 0, sizeof file->path);
    memcpy(file->path, path.at, path.size_bytes);
}

static enum port_rc open_file(struct shard *shard, const struct port_effect *effect, uint64_t *size_out)
{
    struct shard_file *file = file_by_name(shard, effect->path);
    if (shard->is_out_of_handles) { return PORT_NO_HANDLES; }
    if (file == NULL && (effect->flags & PORT_OPEN_CREATE) == 0) { return PORT_MISSING; }
    if (file == NULL) {
        assert_true(shard->file_count < SHARD_FILES);
        file = &shard->files[shard->file_count++];
        *file = (struct shard_file){.size_bytes = 0};
        name_file(file, effect->path);
    }
    file->id = effect->file;
    *size_out = file->size_bytes;
    return PORT_OK;
}

static enum port_rc write_file(struct shard *shard, const struct port_effect *effect, uint64_t *count_out)
{
    struct shard_file *file = file_by_id(shard, effect->file);
    size_t length = strlen(file->path);
    size_t suffix = shard->failing_suffix == NULL ? 0 : strlen(shard->failing_suffix);
    if (suffix > 0 && suffix <= length && strcmp(file->path + length - suffix, shard->failing_suffix) == 0) {
        return PORT_IO;
    }
    for (uint32_t i = 0; i < effect->piece_count; i++) { *count_out += effect->pieces[i].size_bytes; }
    file->size_bytes = base_max_u64(file->size_bytes, effect->position_bytes + *count_out);
    return PORT_OK;
}

static enum port_rc rename_file(struct shard *shard, const struct port_effect *effect)
{
    struct shard_file *file = file_by_name(shard, effect->path);
    struct shard_file *old = file_by_name(shard, effect->path_to);
    if (file == NULL) { return PORT_MISSING; }
    if (old != NULL) { old->path[0] = '\0'; }
    name_file(file, effect->path_to);
    return PORT_OK;
}

/* ---- what is carried out ---- */

static void keep_sent(struct shard *shard, const struct port_effect *effect)
{
    shard->sent_bytes = 0;
    for (uint32_t i = 0; i < effect->piece_count; i++) {
        const struct port_piece *piece = &effect->pieces[i];
        if (piece->size_bytes > sizeof shard->sent - shard->sent_bytes) { return; }
        uint8_t *at = shard->sent + shard->sent_bytes;
        memset(at, 0, piece->size_bytes);
        if (piece->kind == PORT_MEMORY) { memcpy(at, piece->at, piece->size_bytes); }
        shard->sent_bytes += piece->size_bytes;
    }
}

static void step(struct shard *shard, const struct port_event *event);

static void complete(struct shard *shard, const struct port_effect *effect, enum port_rc rc, uint64_t count)
{
    struct port_event event = event_of(shard, PORT_EVENT_DONE);
    event.done.effect = effect->kind;
    event.done.rc = rc;
    event.done.token = effect->token;
    event.done.count = count;
    event.done.conn = effect->conn;
    event.done.listener = effect->listener;
    event.done.file = effect->file;
    event.done.address = effect->address;
    step(shard, &event);
}

static void carry_out(struct shard *shard)
{
    struct port_effect effect = shard->asked[0];
    shard->asked_count -= 1;
    memmove(&shard->asked[0], &shard->asked[1], shard->asked_count * sizeof effect);
    enum port_rc rc = PORT_OK;
    uint64_t count = 0;
    switch ((int)effect.kind) {
    case PORT_ACCEPT:
        assert_true(shard->accept_count < SHARD_ACCEPTS);
        shard->accepts[shard->accept_count++] = effect;
        return;
    case PORT_RECV:
        assert_true(effect.conn.slot < SHARD_CONNS && !shard->has_receive[effect.conn.slot]);
        shard->receives[effect.conn.slot] = effect;
        shard->has_receive[effect.conn.slot] = true;
        return;
    case PORT_UNLISTEN:
        while (shard->accept_count > 0) {
            shard->accept_count -= 1;
            complete(shard, &shard->accepts[shard->accept_count], PORT_CLOSED, 0);
        }
        break;
    case PORT_OPEN: rc = open_file(shard, &effect, &count); break;
    case PORT_WRITE: rc = write_file(shard, &effect, &count); break;
    case PORT_TRUNCATE: file_by_id(shard, effect.file)->size_bytes = effect.position_bytes; break;
    case PORT_RENAME: rc = rename_file(shard, &effect); break;
    case PORT_UNLINK:
        if (file_by_name(shard, effect.path) == NULL) {
            rc = PORT_MISSING;
        } else {
            file_by_name(shard, effect.path)->path[0] = '\0';
        }
        break;
    case PORT_LIST: rc = PORT_MISSING; break;
    case PORT_ALLOCATE: rc = shard->is_full ? PORT_NO_SPACE : PORT_OK; break;
    case PORT_SEND:
        keep_sent(shard, &effect);
        for (uint32_t i = 0; i < effect.piece_count; i++) { count += effect.pieces[i].size_bytes; }
        break;
    case PORT_READ: fail_msg("a disk without bytes is read"); break;
    default: break;
    }
    complete(shard, &effect, rc, count);
}

/* ---- the other shard ---- */

static void answer_next(struct shard *shard)
{
    const struct port_message *asked = &shard->told[shard->answered_count++];
    switch ((int)asked->kind) {
    case MSG_RECOVERY_END: shard_tell_word(shard, MSG_RECOVERED, 0, 0); return;
    case MSG_DELTA: shard_tell_word(shard, MSG_DELTA_TAKEN, 0, 0); return;
    case MSG_SERVE: shard_tell_word(shard, MSG_SERVING, PORT_OK, 0); return;
    case MSG_DRAIN:
        if (!shard->is_slow_to_drain) { shard_tell_word(shard, MSG_DRAINED, 0, 0); }
        return;
    case MSG_CLOSE: shard_tell_word(shard, MSG_CLOSED, 0, 0); return;
    case MSG_STATE: shard_tell_word(shard, MSG_STATE_TAKEN, 0, 0); return;
    default: return;
    }
}

/* ---- steps ---- */

static void step(struct shard *shard, const struct port_event *event)
{
    shard->steps += 1;
    assert_true(shard->steps < STEPS_MAX);
    port_out_begin(&shard->out);
    broker_step(shard->broker, event, &shard->out);
    shard->alarm_ns = shard->out.alarm_ns;
    shard->wants_turn = shard->wants_turn || shard->out.wants_turn;
    shard->wants_continue = shard->wants_continue || shard->out.wants_continue;
    for (uint32_t i = 0; i < shard->out.effect_count; i++) {
        const struct port_effect *effect = &shard->out.effects[i];
        shard->is_ready = shard->is_ready || effect->kind == PORT_READY;
        shard->is_stopped = shard->is_stopped || effect->kind == PORT_STOPPED;
        bool is_note = effect->kind == PORT_LOG || effect->kind == PORT_LEVEL || effect->kind == PORT_READY ||
                       effect->kind == PORT_STOPPED;
        if (is_note) { continue; }
        assert_true(shard->asked_count < SHARD_ASKED);
        shard->asked[shard->asked_count++] = *effect;
    }
    for (uint32_t i = 0; i < shard->out.message_count; i++) {
        assert_true(shard->told_count < SHARD_TOLD);
        shard->told[shard->told_count++] = shard->out.messages[i];
    }
}

bool shard_run_one(struct shard *shard)
{
    if (shard->answered_count < shard->told_count) {
        answer_next(shard);
    } else if (shard->asked_count > 0) {
        carry_out(shard);
    } else if (shard->wants_turn || shard->wants_continue) {
        struct port_event event = event_of(shard, shard->wants_turn ? PORT_EVENT_TURN : PORT_EVENT_CONTINUE);
        shard->wants_turn = shard->wants_turn && event.kind != PORT_EVENT_TURN;
        shard->wants_continue = shard->wants_continue && event.kind != PORT_EVENT_CONTINUE;
        step(shard, &event);
    } else {
        return false;
    }
    return true;
}

void shard_run(struct shard *shard)
{
    while (shard_run_one(shard)) {}
}

void shard_tell_only(struct shard *shard, const struct port_message *message)
{
    struct port_event event = event_of(shard, PORT_EVENT_MESSAGE);
    event.message = *message;
    event.message.to = (uint16_t)shard->number;
    event.message.from = (uint16_t)(1 - shard->number);
    step(shard, &event);
}

void shard_tell(struct shard *shard, const struct port_message *message)
{
    shard_tell_only(shard, message);
    shard_run(shard);
}

void shard_tell_word(struct shard *shard, enum message_kind kind, uint64_t word0, uint64_t word1)
{
    struct port_message message = {.kind = (uint32_t)kind, .words = {word0, word1}};
    shard_tell(shard, &message);
}

/* ---- clients ---- */

struct base_part shard_topic(struct shard *shard, const char *name, bool is_here)
{
    struct base_part part = {.topic = {{1}}, .index = 0};
    while ((shard_of(shard->broker, part) == shard->number) != is_here) { part.topic.b[1] += 1; }
    struct metadata_partition partition = {.id = part, .leader = 1, .replicas_count = 1, .replicas = {1}};
    assert_int_equal(metadata_put_topic(shard->broker->image, base_slice_text(name), part.topic), BASE_OK);
    assert_int_equal(metadata_put_partition(shard->broker->image, &partition), BASE_OK);
    return part;
}

size_t shard_put_request(uint8_t *at, size_t size_bytes, enum kafka_message message, int16_t version,
                         int32_t correlation, const void *request)
{
    struct kafka_writer writer;
    kafka_writer_init(&writer, at, size_bytes);
    enum base_rc rc = kafka_request_encode(message, request, version, correlation, kafka_text_words("client"), &writer);
    assert_int_equal(rc, BASE_OK);
    return writer.used_bytes;
}

size_t shard_put_produce(uint8_t *at, size_t size_bytes, int16_t version, int16_t acks, int32_t correlation,
                         const char *topic, struct base_slice records)
{
    struct kafka_produce_request_partition_produce_data partition;
    kafka_produce_request_partition_produce_data_init(&partition);
    partition.records = kafka_records_of(records.at, records.size_bytes);
    struct kafka_produce_request_topic_produce_data of_topic;
    kafka_produce_request_topic_produce_data_init(&of_topic);
    of_topic.name = kafka_text_words(topic);
    of_topic.partition_data = &partition;
    of_topic.partition_data_count = 1;
    struct kafka_produce_request produce;
    kafka_produce_request_init(&produce);
    produce.acks = acks;
    produce.topic_data = &of_topic;
    produce.topic_data_count = 1;
    return shard_put_request(at, size_bytes, KAFKA_MESSAGE_PRODUCE_REQUEST, version, correlation, &produce);
}

uint32_t shard_connect(struct shard *shard)
{
    assert_true(shard->accept_count > 0);
    shard->accept_count -= 1;
    struct port_effect accept = shard->accepts[shard->accept_count];
    complete(shard, &accept, PORT_OK, 0);
    shard_run(shard);
    return accept.conn.slot;
}

void shard_complete_receive(struct shard *shard, uint32_t slot, enum port_rc rc, const void *bytes, size_t size_bytes)
{
    assert_true(shard->has_receive[slot]);
    struct port_effect receive = shard->receives[slot];
    assert_true(receive.size_bytes >= size_bytes);
    if (size_bytes > 0) { memcpy(receive.buffer, bytes, size_bytes); }
    shard->has_receive[slot] = false;
    complete(shard, &receive, rc, size_bytes);
}

void shard_receive(struct shard *shard, uint32_t slot, const void *bytes, size_t size_bytes,
                   void (*before)(struct shard *shard))
{
    assert_true(shard->has_receive[slot]);
    if (shard->receives[slot].size_bytes == 0) { /* it only says that there is something */
        shard_complete_receive(shard, slot, PORT_OK, NULL, 0);
        shard_run(shard);
    }
    if (before != NULL) { before(shard); }
    shard_complete_receive(shard, slot, PORT_OK, bytes, size_bytes);
    shard_run(shard);
}

void shard_ask(struct shard *shard, uint32_t slot, enum kafka_message message, int16_t version, const void *request)
{
    uint8_t bytes[FRAME_BYTES];
    size_t used_bytes = shard_put_request(bytes, sizeof bytes, message, version, 1, request);
    shard->sent_bytes = 0;
    shard_receive(shard, slot, bytes, used_bytes, NULL);
}

void shard_produce(struct shard *shard, uint32_t slot, int16_t version, int16_t acks, const char *topic,
                   struct base_slice records)
{
    uint8_t bytes[FRAME_BYTES];
    size_t used_bytes = shard_put_produce(bytes, sizeof bytes, version, acks, 1, topic, records);
    shard->sent_bytes = 0;
    shard_receive(shard, slot, bytes, used_bytes, NULL);
}

bool shard_answer(struct shard *shard, enum kafka_message message, int16_t version, void *answer_out)
{
    static _Alignas(16) uint8_t memory[ARENA_BYTES];
    struct base_arena arena;
    base_arena_init(&arena, memory, sizeof memory);
    if (shard->sent_bytes == 0) { return false; }
    /* Its length, whose answer it is, no tags. */
    size_t head_bytes = kafka_message_is_flexible(message, version) ? 9 : 8;
    size_t at = 0;
    for (size_t next = 0; next < shard->sent_bytes; next += 4 + base_get_u32(shard->sent + next)) { at = next; }
    assert_true(shard->sent_bytes > at + head_bytes);
    struct base_slice bytes = base_slice_of(shard->sent + at + head_bytes, shard->sent_bytes - at - head_bytes);
    assert_int_equal(kafka_decode(message, bytes, version, &arena, answer_out), BASE_OK);
    return true;
}

void shard_stop(struct shard *shard)
{
    struct port_event event = event_of(shard, PORT_EVENT_STOP);
    step(shard, &event);
    shard_run(shard);
}

void shard_wait(struct shard *shard, uint64_t to_ns)
{
    shard->now_ns = to_ns;
    if (shard->alarm_ns > to_ns) { return; }
    struct port_event event = event_of(shard, PORT_EVENT_ALARM);
    step(shard, &event);
    shard_run(shard);
}

uint32_t shard_told(const struct shard *shard, enum message_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < shard->told_count; i++) { count += shard->told[i].kind == (uint32_t)kind ? 1 : 0; }
    return count;
}

const struct port_message *shard_told_last(const struct shard *shard, enum message_kind kind)
{
    for (uint32_t i = shard->told_count; i-- > 0;) {
        if (shard->told[i].kind == (uint32_t)kind) { return &shard->told[i]; }
    }
    return NULL;
}

/* What a test tells of its node. */
static const struct broker_pair pairs[] = {{{(const uint8_t *)"broker.rack", 11}, {(const uint8_t *)"a-rack", 6}},
                                           {{(const uint8_t *)"default.replication.factor", 26},
                                            {(const uint8_t *)"2", 1}}};

struct shard *shard_make(uint32_t number) { return shard_make_told(number, NULL); }

struct shard *shard_make_told(uint32_t number, void (*tell)(struct broker_config *config))
{
    struct shard *shard = must(calloc(1, sizeof *shard));
    struct broker_config config;
    broker_config_default(&config);
    memcpy(config.cluster_id, "a-cluster-of-one-shard", sizeof config.cluster_id);
    memcpy(config.listeners[0].name, "PLAINTEXT", sizeof "PLAINTEXT");
    memcpy(config.listeners[0].host, "localhost", sizeof "localhost");
    config.listeners[0].address.port = 9092;
    config.listener_count = 1;
    config.pairs = pairs;
    config.pair_count = BASE_ARRAY_COUNT(pairs);
    config.shard = number;
    config.shards = 2;
    config.seed = 1;
    config.connections_max = 8;
    config.in_flight_max = 4;
    config.files_max = 16;
    config.topics_max = 8;
    config.partitions_max = 16;
    config.coordinator_groups = 1;
    config.journal_bytes_max = 1 << 20;
    config.journal_file_bytes = 128 << 10;
    config.is_check_slow = true;
    if (tell != NULL) { tell(&config); }
    shard->number = number;
    shard->now_ns = START_NS;
    shard->memory = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(shard->memory != MAP_FAILED);
    struct base_region region = {.at = shard->memory, .size_bytes = REGION_BYTES};
    assert_int_equal(broker_create(region, &config, &shard->broker), BASE_OK);
    shard->out = (struct port_out){.effects = must(calloc(PORT_EFFECTS_MAX, sizeof(struct port_effect))),
                                   .messages = must(calloc(PORT_MESSAGES_MAX, sizeof(struct port_message))),
                                   .text = must(calloc(1, PORT_TEXT_BYTES)),
                                   .effects_max = PORT_EFFECTS_MAX,
                                   .messages_max = PORT_MESSAGES_MAX,
                                   .text_bytes = PORT_TEXT_BYTES};
    return shard;
}

void shard_start(struct shard *shard)
{
    struct port_event event = event_of(shard, PORT_EVENT_START);
    step(shard, &event);
    shard_run(shard);
}

void shard_free(struct shard *shard)
{
    (void)munmap(shard->memory, REGION_BYTES);
    free(shard->out.effects);
    free(shard->out.messages);
    free(shard->out.text);
    free(shard);
}

int64_t shard_produced(struct shard *shard, uint32_t slot, int16_t version, const char *topic,
                       struct base_slice records)
{
    struct kafka_produce_response answer;
    shard_produce(shard, slot, version, -1, topic, records);
    assert_true(shard_answer(shard, KAFKA_MESSAGE_PRODUCE_RESPONSE, version, &answer));
    assert_int_equal(answer.responses[0].partition_responses[0].error_code, KAFKA_ERROR_NONE);
    return answer.responses[0].partition_responses[0].base_offset;
}
