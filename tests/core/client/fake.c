/* fake.c: see fake.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake.h"

#include "wire/kafka/api_versions.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/fetch.h"
#include "wire/kafka/find_coordinator.h"
#include "wire/kafka/header.h"
#include "wire/kafka/init_producer_id.h"
#include "wire/kafka/list_offsets.h"
#include "wire/kafka/metadata.h"
#include "wire/kafka/offset_fetch.h"
#include "wire/kafka/produce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EVENTS_MAX 8192
#define TOPIC      "t"

struct fake *fake_new(void)
{
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    client_config_default(&fake->config);
    fake->config.seed = 42;
    fake->config.bootstrap[0] = (struct client_endpoint){.host = base_slice_text("broker"), .port = 9092};
    fake->config.bootstrap_count = 1;
    fake->config.nodes_max = 4;
    fake->config.partitions_max = 16;
    fake->config.records_max = 512;
    fake->config.batches_max = 64;
    fake->config.batch_bytes = 4096;
    fake->config.record_bytes_max = 65536;
    fake->config.opened_bytes_max = 1 << 20;
    fake->config.frame_bytes_max = 1 << 20;
    fake->config.fetch_bytes_max = 1 << 18;
    fake->config.fetch_partition_bytes_max = 1 << 16;
    fake->config.delivery_timeout_ms = 20000;
    fake->config.request_timeout_ms = 2000;
    fake->config.idempotence = CLIENT_IDEMPOTENT;
    fake->memory_bytes = (size_t)8 << 20;
    fake->polls = true;
    fake->has_topic = true;
    fake->topic_id = (struct base_uuid){{7, 7, 7}};
    fake->parts = 1;
    fake->recv_bytes_max = SIZE_MAX;
    fake->next_producer_id = 1000;
    fake->now_ns = 1000000000;
    for (int16_t key = 0; key < 128; key++) {
        const struct kafka_api_info *info = kafka_api_info(key);
        fake->version_max[key] = info == NULL ? -1 : info->version_stable;
    }
    return fake;
}

static void push(struct fake *fake, struct port_event event)
{
    assert_true(fake->event_count < EVENTS_MAX);
    fake->events[(fake->event_first + fake->event_count) % EVENTS_MAX] = event;
    fake->event_count += 1;
}

static void complete(struct fake *fake, const struct port_effect *effect, enum port_rc rc, uint64_t count)
{
    struct port_event event = {.kind = PORT_EVENT_DONE};
    event.done.effect = effect->kind;
    event.done.rc = rc;
    event.done.token = effect->token;
    event.done.count = count;
    event.done.conn = effect->conn;
    event.done.address = effect->address;
    push(fake, event);
}

/* ---- the broker ---- */

static void append_log(struct fake_log *log, struct base_slice batch_bytes, const struct rec_batch *batch)
{
    assert_true(log->count < FAKE_BATCHES_MAX);
    struct fake_batch *kept = &log->batches[log->count];
    kept->at = malloc(batch_bytes.size_bytes);
    assert_non_null(kept->at);
    memcpy(kept->at, batch_bytes.at, batch_bytes.size_bytes);
    kept->size_bytes = batch_bytes.size_bytes;
    kept->base_offset = log->end;
    rec_assign(kept->at, log->end, 0);
    log->end += batch->record_count;
    log->count += 1;
}

/* Kafka's rule for sequences, with a memory of every batch. */
static int16_t append(struct fake *fake, struct fake_log *log, struct base_slice bytes, int64_t *offset_out)
{
    struct rec_batch batch;
    assert_int_equal(rec_batch_view(bytes, &batch), REC_OK);
    assert_true(rec_crc_is_right(&batch));
    assert_int_equal(batch.size_bytes, bytes.size_bytes);
    *offset_out = -1;
    if (rec_has_producer(&batch)) {
        if (fake->forgets_producers) {
            fake->forgets_producers = false;
            log->producer_id = -1;
            return KAFKA_ERROR_UNKNOWN_PRODUCER_ID;
        }
        for (uint32_t i = 0; i < log->count; i++) {
            struct rec_batch old;
            assert_int_equal(rec_batch_view(base_slice_of(log->batches[i].at, log->batches[i].size_bytes), &old),
                             REC_OK);
            if (old.producer_id == batch.producer_id && old.base_sequence == batch.base_sequence) {
                *offset_out = log->batches[i].base_offset;
                return KAFKA_ERROR_NONE;
            }
        }
        bool is_known = log->producer_id == batch.producer_id; /* else it is taken at its word */
        if (is_known && batch.base_sequence != log->next_sequence) { return KAFKA_ERROR_OUT_OF_ORDER_SEQUENCE_NUMBER; }
        log->producer_id = batch.producer_id;
        log->next_sequence = batch.base_sequence + batch.record_count;
    }
    *offset_out = log->end;
    append_log(log, bytes, &batch);
    return KAFKA_ERROR_NONE;
}

void fake_send_answer(struct fake_conn *conn, int16_t api_key, const void *answer, int16_t version, int32_t correlation)
{
    enum kafka_message message = kafka_response_message(api_key);
    struct kafka_size size;
    struct kafka_writer writer;
    assert_int_equal(kafka_response_size(message, answer, version, &size), BASE_OK);
    conn->out = realloc(conn->out, conn->out_bytes + size.memory_bytes);
    assert_non_null(conn->out);
    kafka_writer_init(&writer, conn->out + conn->out_bytes, size.memory_bytes);
    assert_int_equal(kafka_response_encode(message, answer, version, correlation, &writer), BASE_OK);
    conn->out_bytes += writer.used_bytes;
}

static void answer_versions(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation)
{
    struct kafka_api_versions_response answer;
    struct kafka_api_versions_response_api_version apis[128];
    kafka_api_versions_response_init(&answer);
    answer.api_keys = apis;
    answer.api_keys_count = 0;
    if (fake->is_old && version > 2) {
        answer.error_code = KAFKA_ERROR_UNSUPPORTED_VERSION;
        fake_send_answer(conn, KAFKA_API_API_VERSIONS, &answer, 0, correlation);
        return;
    }
    for (int16_t key = 0; key < 128; key++) {
        if (fake->version_max[key] < 0) { continue; }
        apis[answer.api_keys_count] =
            (struct kafka_api_versions_response_api_version){.api_key = key,
                                                             .min_version = 0,
                                                             .max_version = fake->version_max[key]};
        answer.api_keys_count += 1;
    }
    fake_send_answer(conn, KAFKA_API_API_VERSIONS, &answer, version, correlation);
}

static void answer_metadata(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation,
                            const struct kafka_metadata_request *request)
{
    struct kafka_metadata_response answer;
    struct kafka_metadata_response_metadata_response_broker broker;
    struct kafka_metadata_response_metadata_response_topic topics[8];
    struct kafka_metadata_response_metadata_response_partition parts[FAKE_PARTS_MAX];
    kafka_metadata_response_init(&answer);
    kafka_metadata_response_metadata_response_broker_init(&broker);
    broker.node_id = 1;
    broker.host = kafka_text_words("broker");
    broker.port = fake->leader_port == 0 ? 9092 : fake->leader_port;
    answer.brokers = &broker;
    answer.brokers_count = 1;
    answer.controller_id = 1;
    for (int32_t i = 0; i < fake->parts; i++) {
        kafka_metadata_response_metadata_response_partition_init(&parts[i]);
        parts[i].partition_index = i;
        parts[i].leader_id = fake->is_leaderless ? -1 : 1;
        parts[i].leader_epoch = 0;
    }
    if (fake->is_one_said_twice) { parts[fake->parts - 1].partition_index = 0; }
    assert_true(request->topics_count <= 8);
    for (int32_t i = 0; i < request->topics_count; i++) {
        bool is_ours = kafka_text_is(request->topics[i].name, TOPIC) && fake->has_topic;
        kafka_metadata_response_metadata_response_topic_init(&topics[i]);
        topics[i].name = request->topics[i].name;
        if (is_ours) { topics[i].topic_id = fake->topic_id; }
        topics[i].partitions = parts;
        topics[i].partitions_count = is_ours ? fake->parts : 0;
        if (!is_ours) { topics[i].error_code = KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION; }
    }
    answer.topics = topics;
    answer.topics_count = request->topics_count < 0 ? 0 : request->topics_count;
    fake_send_answer(conn, KAFKA_API_METADATA, &answer, version, correlation);
}

static void answer_produce(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation,
                           const struct kafka_produce_request *request)
{
    struct kafka_produce_response answer;
    struct kafka_produce_response_topic_produce_response topic;
    struct kafka_produce_response_partition_produce_response parts[FAKE_PARTS_MAX];
    assert_int_equal(request->topic_data_count, 1);
    kafka_produce_response_init(&answer);
    kafka_produce_response_topic_produce_response_init(&topic);
    if (fake->lose_requests > 0) {
        fake->lose_requests -= 1;
        conn->is_reset = true;
        return;
    }
    topic.name = kafka_text_words(TOPIC);
    topic.topic_id = fake->topic_id;
    topic.partition_responses = parts;
    for (int32_t i = 0; i < request->topic_data[0].partition_data_count; i++) {
        const struct kafka_produce_request_partition_produce_data *data = &request->topic_data[0].partition_data[i];
        kafka_produce_response_partition_produce_response_init(&parts[i]);
        parts[i].index = data->index;
        bool has_script = fake->produce_errors_used < fake->produce_error_count;
        int16_t error = has_script ? fake->produce_errors[fake->produce_errors_used] : 0;
        if (has_script) { fake->produce_errors_used += 1; }
        if (error == KAFKA_ERROR_NONE || fake->error_after_append) {
            int16_t own =
                append(fake, &fake->logs[data->index], kafka_records_slice(data->records), &parts[i].base_offset);
            if (error == KAFKA_ERROR_NONE) { error = own; }
        }
        parts[i].error_code = error;
        if (error != KAFKA_ERROR_NONE) { parts[i].base_offset = -1; }
        topic.partition_responses_count += 1;
    }
    answer.responses = &topic;
    answer.responses_count = 1;
    if (fake->lose_answers > 0) {
        fake->lose_answers -= 1;
        conn->is_reset = true;
        return;
    }
    if (request->acks != 0) { fake_send_answer(conn, KAFKA_API_PRODUCE, &answer, version, correlation); }
}

static void answer_offsets(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation,
                           const struct kafka_list_offsets_request *request)
{
    struct kafka_list_offsets_response answer;
    struct kafka_list_offsets_response_list_offsets_topic_response topic;
    struct kafka_list_offsets_response_list_offsets_partition_response parts[FAKE_PARTS_MAX];
    kafka_list_offsets_response_init(&answer);
    kafka_list_offsets_response_list_offsets_topic_response_init(&topic);
    topic.name = kafka_text_words(TOPIC);
    topic.partitions = parts;
    topic.partitions_count = request->topics[0].partitions_count;
    for (int32_t i = 0; i < topic.partitions_count; i++) {
        const struct kafka_list_offsets_request_list_offsets_partition *asked = &request->topics[0].partitions[i];
        const struct fake_log *log = &fake->logs[asked->partition_index];
        kafka_list_offsets_response_list_offsets_partition_response_init(&parts[i]);
        parts[i].partition_index = asked->partition_index;
        parts[i].offset = asked->timestamp == -1 ? log->end : (asked->timestamp == -2 ? log->start : -1);
        for (uint32_t j = 0; asked->timestamp >= 0 && j < log->count && parts[i].offset < 0; j++) {
            struct rec_batch batch;
            assert_int_equal(rec_batch_view(base_slice_of(log->batches[j].at, log->batches[j].size_bytes), &batch),
                             REC_OK);
            if (batch.max_timestamp_ms >= asked->timestamp) { parts[i].offset = batch.base_offset; }
        }
    }
    answer.topics = &topic;
    answer.topics_count = 1;
    fake_send_answer(conn, KAFKA_API_LIST_OFFSETS, &answer, version, correlation);
}

/* What a fetch is about: what it says, and what its session follows beside. */
static void note_followed(const struct fake *fake, const struct kafka_fetch_request *request, struct fake_session *next)
{
    *next = request->session_epoch > 0 ? fake->session : (struct fake_session){.id = 0};
    for (int32_t t = 0; t < request->topics_count; t++) {
        for (int32_t i = 0; i < request->topics[t].partitions_count; i++) {
            const struct kafka_fetch_request_fetch_partition *asked = &request->topics[t].partitions[i];
            if (!next->follows[asked->partition]) { next->told_ends[asked->partition] = -1; }
            next->follows[asked->partition] = true;
            next->offsets[asked->partition] = asked->fetch_offset;
        }
    }
    for (int32_t t = 0; t < request->forgotten_topics_data_count; t++) {
        for (int32_t i = 0; i < request->forgotten_topics_data[t].partitions_count; i++) {
            next->follows[request->forgotten_topics_data[t].partitions[i]] = false;
        }
    }
}

/* The error of a fetch that goes on with a session that is not there, or not in that epoch. */
static int16_t session_error(struct fake *fake, const struct kafka_fetch_request *request)
{
    if (request->session_epoch == 0) {
        fake->fetches_full += 1;
        if (request->session_id != 0) { fake->session_closed = request->session_id; }
    }
    if (request->session_epoch == 0 && fake->full_fetch_error != 0) { return fake->full_fetch_error; }
    if (request->session_epoch <= 0) { return KAFKA_ERROR_NONE; }
    fake->fetches_gone_on += 1;
    for (int32_t t = 0; t < request->topics_count; t++) {
        fake->partitions_said += (uint32_t)request->topics[t].partitions_count;
    }
    for (int32_t t = 0; t < request->forgotten_topics_data_count; t++) {
        fake->partitions_forgotten += (uint32_t)request->forgotten_topics_data[t].partitions_count;
    }
    int16_t scripted = fake->session_error;
    fake->session_error = KAFKA_ERROR_NONE;
    if (scripted != KAFKA_ERROR_NONE) { return scripted; }
    if (fake->forgets_session) { fake->session.id = 0; }
    fake->forgets_session = false;
    if (fake->session.id == 0 || request->session_id != fake->session.id) {
        return KAFKA_ERROR_FETCH_SESSION_ID_NOT_FOUND;
    }
    return request->session_epoch == fake->session.epoch ? KAFKA_ERROR_NONE : KAFKA_ERROR_INVALID_FETCH_SESSION_EPOCH;
}

static size_t read_log(const struct fake_log *log, int64_t offset, uint8_t *bytes)
{
    size_t used = 0;
    for (uint32_t j = 0; j < log->count; j++) {
        struct rec_batch batch;
        assert_int_equal(rec_batch_view(base_slice_of(log->batches[j].at, log->batches[j].size_bytes), &batch), REC_OK);
        if (rec_offset_end(&batch) <= offset) { continue; }
        if (used > 0 && used + batch.size_bytes > (size_t)1 << 16) { break; } /* as fake_new asks for */
        memcpy(bytes + used, log->batches[j].at, batch.size_bytes);
        used += batch.size_bytes;
    }
    return used;
}

static void answer_fetch(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation,
                         const struct kafka_fetch_request *request)
{
    struct kafka_fetch_response answer;
    struct kafka_fetch_response_fetchable_topic_response topic;
    struct kafka_fetch_response_partition_data parts[FAKE_PARTS_MAX];
    uint8_t *bytes[FAKE_PARTS_MAX] = {NULL};
    kafka_fetch_response_init(&answer);
    kafka_fetch_response_fetchable_topic_response_init(&topic);
    topic.topic = kafka_text_words(TOPIC);
    topic.topic_id = fake->topic_id;
    topic.partitions = parts;
    answer.error_code = session_error(fake, request);
    struct fake_session next;
    note_followed(fake, request, &next);
    if (request->topics_count > 0) { fake->fetch_first = request->topics[0].partitions[0].partition; }
    for (int32_t p = 0; p < FAKE_PARTS_MAX && answer.error_code == 0; p++) {
        if (!next.follows[p]) { continue; }
        const struct fake_log *log = &fake->logs[p];
        struct kafka_fetch_response_partition_data *part = &parts[topic.partitions_count];
        kafka_fetch_response_partition_data_init(part);
        part->partition_index = p;
        part->high_watermark = log->end;
        bool has_script = fake->fetch_errors_used < fake->fetch_error_count;
        part->error_code = has_script ? fake->fetch_errors[fake->fetch_errors_used] : 0;
        if (has_script) { fake->fetch_errors_used += 1; }
        if (next.offsets[p] < log->start || next.offsets[p] > log->end) {
            part->error_code = KAFKA_ERROR_OFFSET_OUT_OF_RANGE;
        }
        bytes[p] = malloc(1 << 20);
        assert_non_null(bytes[p]);
        size_t used = part->error_code == 0 ? read_log(log, next.offsets[p], bytes[p]) : 0;
        if (fake->fetched_bytes_max > 0 && used > fake->fetched_bytes_max) { used = fake->fetched_bytes_max; }
        part->records = kafka_records_of(bytes[p], used);
        bool is_left_out =
            request->session_epoch > 0 && used == 0 && part->error_code == 0 && next.told_ends[p] == log->end;
        next.told_ends[p] = part->error_code == 0 ? log->end : -1;
        if (!is_left_out) { topic.partitions_count += 1; }
    }
    if (fake->has_sessions && answer.error_code == 0 && request->session_epoch >= 0) {
        next.id = request->session_epoch == 0 ? fake->session_closed + 100 : fake->session.id;
        next.epoch = request->session_epoch + 1;
        fake->session = next;
        answer.session_id = next.id;
    }
    answer.responses = &topic;
    answer.responses_count = topic.partitions_count > 0 ? 1 : 0;
    fake_send_answer(conn, KAFKA_API_FETCH, &answer, version, correlation);
    for (int32_t p = 0; p < FAKE_PARTS_MAX; p++) { free(bytes[p]); }
}

static int16_t next_call_error(struct fake *fake)
{
    if (fake->call_errors_used == fake->call_error_count) { return KAFKA_ERROR_NONE; }
    fake->call_errors_used += 1;
    return fake->call_errors[fake->call_errors_used - 1];
}

static void answer_call(struct fake *fake, struct fake_conn *conn, int16_t api_key, int16_t version,
                        int32_t correlation, const void *request)
{
    struct kafka_create_topics_response created;
    struct kafka_create_topics_response_creatable_topic_result made;
    struct kafka_delete_topics_response deleted;
    struct kafka_delete_topics_response_deletable_topic_result gone;
    if (api_key == KAFKA_API_CREATE_TOPICS) {
        kafka_create_topics_response_init(&created);
        kafka_create_topics_response_creatable_topic_result_init(&made);
        made.name = kafka_text_words(TOPIC);
        made.error_code = next_call_error(fake);
        created.topics = &made;
        created.topics_count = 1;
        fake_send_answer(conn, api_key, &created, version, correlation);
        return;
    }
    const struct kafka_delete_topics_request *asked = request;
    kafka_delete_topics_response_init(&deleted);
    kafka_delete_topics_response_deletable_topic_result_init(&gone);
    assert_int_equal(version >= 6 ? asked->topics_count : asked->topic_names_count, 1);
    gone.name = version >= 6 ? asked->topics[0].name : asked->topic_names[0];
    gone.error_code = next_call_error(fake);
    deleted.responses = &gone;
    deleted.responses_count = 1;
    fake_send_answer(conn, api_key, &deleted, version, correlation);
}

/* The one group that is asked about is written down, in whatever shape it comes. */
static void keep_group(struct fake *fake, struct kafka_text name)
{
    (void)snprintf(fake->group, sizeof fake->group, "%.*s", (int)kafka_text_slice(name).size_bytes,
                   (const char *)kafka_text_slice(name).at);
}

static void answer_coordinator(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation,
                               const struct kafka_find_coordinator_request *request)
{
    struct kafka_find_coordinator_response answer;
    struct kafka_find_coordinator_response_coordinator coordinator;
    kafka_find_coordinator_response_init(&answer);
    kafka_find_coordinator_response_coordinator_init(&coordinator);
    int16_t error = next_call_error(fake);
    if (version >= 4) {
        assert_int_equal(request->coordinator_keys_count, 1);
        keep_group(fake, request->coordinator_keys[0]);
        coordinator.key = request->coordinator_keys[0];
        coordinator.error_code = error;
        answer.coordinators = &coordinator;
        answer.coordinators_count = 1;
    } else {
        keep_group(fake, request->key);
        answer.error_code = error;
    }
    fake_send_answer(conn, KAFKA_API_FIND_COORDINATOR, &answer, version, correlation);
}

static void answer_group_offsets(struct fake *fake, struct fake_conn *conn, int16_t version, int32_t correlation,
                                 const struct kafka_offset_fetch_request *request)
{
    struct kafka_offset_fetch_response answer;
    struct kafka_offset_fetch_response_offset_fetch_response_group group;
    kafka_offset_fetch_response_init(&answer);
    kafka_offset_fetch_response_offset_fetch_response_group_init(&group);
    int16_t error = next_call_error(fake);
    if (version >= 8) {
        assert_int_equal(request->groups_count, 1);
        assert_int_equal(request->groups[0].topics_count, 1);
        assert_true(kafka_text_is(request->groups[0].topics[0].name, TOPIC));
        assert_int_equal(request->groups[0].topics[0].partition_indexes[0], 1);
        keep_group(fake, request->groups[0].group_id);
        group.group_id = request->groups[0].group_id;
        group.error_code = error;
        answer.groups = &group;
        answer.groups_count = 1;
    } else {
        assert_int_equal(request->topics_count, 1);
        assert_true(kafka_text_is(request->topics[0].name, TOPIC));
        assert_int_equal(request->topics[0].partition_indexes[0], 1);
        keep_group(fake, request->group_id);
        answer.error_code = error;
    }
    fake_send_answer(conn, KAFKA_API_OFFSET_FETCH, &answer, version, correlation);
}

static void serve_request(struct fake *fake, struct fake_conn *conn, struct base_slice frame)
{
    struct kafka_request_header header;
    struct base_slice body;
    static uint8_t memory[1 << 21];
    static uint8_t value[4096];
    struct base_arena arena;
    assert_int_equal(kafka_request_open(frame, &header, &body), BASE_OK);
    int16_t api_key = header.request_api_key;
    int16_t version = header.request_api_version;
    int32_t correlation = header.correlation_id;
    fake->requests[api_key] += 1;
    fake->versions[api_key] = version;
    if (api_key == KAFKA_API_API_VERSIONS) {
        answer_versions(fake, conn, version, correlation);
        return;
    }
    assert_true(version <= fake->version_max[api_key]);
    base_arena_init(&arena, memory, sizeof memory);
    assert_true(kafka_message_struct_bytes(kafka_request_message(api_key)) <= sizeof value);
    assert_int_equal(kafka_decode(kafka_request_message(api_key), body, version, &arena, value), BASE_OK);
    const void *request = value;
    if (fake->drops_requests && api_key != KAFKA_API_METADATA) { return; }
    if (fake->coordinator.is_on && fake_group_serve(fake, conn, api_key, version, correlation, request)) { return; }
    switch (api_key) {
    case KAFKA_API_METADATA: answer_metadata(fake, conn, version, correlation, request); break;
    case KAFKA_API_PRODUCE: answer_produce(fake, conn, version, correlation, request); break;
    case KAFKA_API_LIST_OFFSETS: answer_offsets(fake, conn, version, correlation, request); break;
    case KAFKA_API_FETCH: answer_fetch(fake, conn, version, correlation, request); break;
    case KAFKA_API_INIT_PRODUCER_ID: {
        struct kafka_init_producer_id_response answer;
        kafka_init_producer_id_response_init(&answer);
        answer.producer_id = fake->next_producer_id;
        fake->next_producer_id += 1;
        fake_send_answer(conn, api_key, &answer, version, correlation);
        break;
    }
    case KAFKA_API_CREATE_TOPICS:
    case KAFKA_API_DELETE_TOPICS: answer_call(fake, conn, api_key, version, correlation, request); break;
    case KAFKA_API_FIND_COORDINATOR: answer_coordinator(fake, conn, version, correlation, request); break;
    case KAFKA_API_OFFSET_FETCH: answer_group_offsets(fake, conn, version, correlation, request); break;
    default: fail_msg("an api that nobody answers: %d", api_key);
    }
}

/* Whether the request is a fetch that finds nothing yet: then it stays at the front until its time is up. Or a commit that is held. */
static bool has_to_wait(struct fake *fake, struct fake_conn *conn, struct base_slice frame)
{
    static uint8_t memory[1 << 18];
    struct kafka_request_header header;
    struct kafka_fetch_request request;
    struct base_slice body;
    struct base_arena arena;
    assert_int_equal(kafka_request_open(frame, &header, &body), BASE_OK);
    if (header.request_api_key == KAFKA_API_OFFSET_COMMIT && fake->coordinator.holds_commits) {
        conn->is_waiting = true;
        conn->wait_until_ns = UINT64_MAX;
        return true;
    }
    if (header.request_api_key != KAFKA_API_FETCH || fake->fetch_errors_used < fake->fetch_error_count) {
        return false;
    }
    base_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(kafka_fetch_request_decode(body, header.request_api_version, &arena, &request), BASE_OK);
    bool is_refused = request.session_epoch > 0 && (fake->session_error != 0 || fake->forgets_session);
    struct fake_session next;
    note_followed(fake, &request, &next);
    for (int32_t p = 0; p < FAKE_PARTS_MAX; p++) {
        if (is_refused || (next.follows[p] && next.offsets[p] != fake->logs[p].end)) { return false; }
    }
    if (!conn->is_waiting) { conn->wait_until_ns = fake->now_ns + (uint64_t)request.max_wait_ms * 1000000; }
    conn->is_waiting = fake->now_ns < conn->wait_until_ns;
    return conn->is_waiting;
}

static void serve_requests(struct fake *fake, struct fake_conn *conn)
{
    size_t at = 0;
    while (!conn->is_reset && conn->in_bytes - at >= 4) {
        size_t frame_bytes = base_get_u32(conn->in + at);
        if (conn->in_bytes - at - 4 < frame_bytes) { break; }
        if (has_to_wait(fake, conn, base_slice_of(conn->in + at + 4, frame_bytes))) { break; }
        conn->is_waiting = false;
        serve_request(fake, conn, base_slice_of(conn->in + at + 4, frame_bytes));
        at += 4 + frame_bytes;
    }
    memmove(conn->in, conn->in + at, conn->in_bytes - at);
    conn->in_bytes -= at;
}

/* ---- the world ---- */

static void give_bytes(struct fake *fake, struct fake_conn *conn)
{
    if (!conn->has_recv) { return; }
    if (conn->out_bytes == 0) {
        if (!conn->is_reset) { return; }
        conn->has_recv = false;
        complete(fake, &conn->recv, PORT_RESET, 0);
        return;
    }
    size_t count = conn->recv.size_bytes;
    if (count > conn->out_bytes) { count = conn->out_bytes; }
    if (count > fake->recv_bytes_max) { count = fake->recv_bytes_max; }
    if (count > 0) { memcpy(conn->recv.buffer, conn->out, count); }
    memmove(conn->out, conn->out + count, conn->out_bytes - count);
    conn->out_bytes -= count;
    conn->has_recv = false;
    complete(fake, &conn->recv, PORT_OK, count);
}

static void on_send(struct fake *fake, struct fake_conn *conn, const struct port_effect *effect)
{
    for (uint32_t i = 0; i < effect->piece_count; i++) {
        const struct port_piece *piece = &effect->pieces[i];
        conn->in = realloc(conn->in, conn->in_bytes + piece->size_bytes);
        assert_non_null(conn->in);
        memcpy(conn->in + conn->in_bytes, piece->at, piece->size_bytes);
        conn->in_bytes += piece->size_bytes;
    }
    complete(fake, effect, conn->is_reset ? PORT_RESET : PORT_OK, 0);
    serve_requests(fake, conn);
}

static void carry_out(struct fake *fake, const struct port_effect *effect)
{
    struct fake_conn *conn = effect->conn.slot < FAKE_CONNS_MAX ? &fake->conns[effect->conn.slot] : NULL;
    bool is_open = conn != NULL && conn->is_open && conn->generation == effect->conn.generation;
    switch ((int)effect->kind) {
    case PORT_RESOLVE: complete(fake, effect, PORT_OK, 0); return;
    case PORT_CONNECT:
        fake->connects += 1;
        bool is_nobody = fake->leader_port != 0 && effect->address.port == fake->leader_port;
        if (is_nobody || fake->connects_refused > 0) {
            fake->connects_refused -= is_nobody ? 0 : 1;
            complete(fake, effect, PORT_REFUSED, 0);
            return;
        }
        assert_false(conn->is_open);
        conn->is_open = true;
        conn->is_reset = false;
        conn->generation = effect->conn.generation;
        conn->in_bytes = 0;
        conn->out_bytes = 0;
        conn->is_waiting = false;
        complete(fake, effect, PORT_OK, 0);
        return;
    case PORT_SEND:
        assert_true(is_open);
        on_send(fake, conn, effect);
        return;
    case PORT_RECV:
        assert_true(is_open);
        assert_false(conn->has_recv);
        conn->has_recv = true;
        conn->recv = *effect;
        return;
    case PORT_CLOSE:
        assert_true(is_open);
        if (conn->has_recv) { complete(fake, &conn->recv, PORT_CLOSED, 0); }
        conn->has_recv = false;
        conn->is_open = false;
        complete(fake, effect, PORT_OK, 0);
        return;
    default: fail_msg("an effect that a client does not ask for");
    }
}

static void keep_result(struct fake *fake, const struct client_result *result)
{
    assert_true(fake->result_count < FAKE_RESULTS_MAX);
    struct fake_result *kept = &fake->results[fake->result_count];
    fake->result_count += 1;
    kept->is = *result;
    if (result->kind == CLIENT_RECORD) {
        (void)snprintf(kept->key, sizeof kept->key, "%.*s", (int)result->record.key.bytes.size_bytes,
                       (const char *)result->record.key.bytes.at);
        (void)snprintf(kept->value, sizeof kept->value, "%.*s", (int)result->record.value.bytes.size_bytes,
                       (const char *)result->record.value.bytes.at);
    }
    if (result->kind == CLIENT_ANSWER && result->answer != NULL) {
        const struct kafka_create_topics_response *created = result->answer;
        const struct kafka_delete_topics_response *deleted = result->answer;
        if (result->api_key == KAFKA_API_CREATE_TOPICS) { kept->answer_error = created->topics[0].error_code; }
        if (result->api_key == KAFKA_API_DELETE_TOPICS) { kept->answer_error = deleted->responses[0].error_code; }
    }
}

static void step(struct fake *fake, struct port_event event)
{
    event.now_ns = fake->now_ns;
    event.wall_ms = (int64_t)(fake->now_ns / 1000000);
    port_out_begin(&fake->out);
    client_step(fake->client, &event, &fake->out);
    struct client_result result;
    while (fake->polls && client_poll(fake->client, &result)) { keep_result(fake, &result); }
    client_turn(fake->client, &fake->out);
    fake->wants_continue = fake->out.wants_continue;
    fake->alarm_ns = fake->out.alarm_ns;
    for (uint32_t i = 0; i < fake->out.effect_count; i++) { carry_out(fake, &fake->out.effects[i]); }
    for (uint32_t i = 0; i < FAKE_CONNS_MAX; i++) {
        if (fake->conns[i].is_open && fake->conns[i].is_waiting) { serve_requests(fake, &fake->conns[i]); }
        give_bytes(fake, &fake->conns[i]);
    }
}

static uint64_t next_ns(const struct fake *fake)
{
    uint64_t next = fake->alarm_ns;
    for (uint32_t i = 0; i < FAKE_CONNS_MAX; i++) {
        const struct fake_conn *conn = &fake->conns[i];
        if (conn->is_open && conn->is_waiting && conn->wait_until_ns < next) { next = conn->wait_until_ns; }
    }
    return next;
}

void fake_start(struct fake *fake)
{
    struct base_region region = {.size_bytes = fake->memory_bytes};
    fake->memory = aligned_alloc(4096, fake->memory_bytes);
    assert_non_null(fake->memory);
    memset(fake->memory, 0, fake->memory_bytes);
    region.at = fake->memory;
    assert_int_equal(client_create(region, &fake->config, &fake->client), BASE_OK);
    fake->out.effects = calloc(PORT_EFFECTS_MAX, sizeof(struct port_effect));
    fake->out.messages = calloc(PORT_MESSAGES_MAX, sizeof(struct port_message));
    fake->out.text = calloc(1, PORT_TEXT_BYTES);
    fake->out.effects_max = PORT_EFFECTS_MAX;
    fake->out.messages_max = PORT_MESSAGES_MAX;
    fake->out.text_bytes = PORT_TEXT_BYTES;
    fake->events = calloc(EVENTS_MAX, sizeof(struct port_event));
    assert_non_null(fake->events);
    step(fake, (struct port_event){.kind = PORT_EVENT_START});
}

void fake_run(struct fake *fake, uint64_t ms)
{
    uint64_t end_ns = fake->now_ns + ms * 1000000;
    step(fake, (struct port_event){.kind = PORT_EVENT_TURN}); /* what the test has just asked for */
    for (uint32_t steps = 0;; steps++) {
        assert_true(steps < 200000); /* a client that never rests */
        if (fake->event_count > 0) {
            struct port_event event = fake->events[fake->event_first];
            fake->event_first = (fake->event_first + 1) % EVENTS_MAX;
            fake->event_count -= 1;
            step(fake, event);
        } else if (fake->wants_continue) {
            step(fake, (struct port_event){.kind = PORT_EVENT_CONTINUE});
        } else if (next_ns(fake) <= end_ns) {
            if (next_ns(fake) > fake->now_ns) { fake->now_ns = next_ns(fake); }
            step(fake, (struct port_event){.kind = PORT_EVENT_ALARM});
        } else {
            fake->now_ns = end_ns;
            return;
        }
    }
}

void fake_free(struct fake *fake)
{
    fake->polls = true;
    client_close(fake->client);
    fake_run(fake, 60000);
    assert_true(client_is_quiet(fake->client));
    struct client_view view;
    client_view(fake->client, &view);
    assert_int_equal(view.pages_used_bytes, 0); /* every byte came back */
    for (uint32_t i = 0; i < FAKE_CONNS_MAX; i++) {
        assert_false(fake->conns[i].is_open);
        free(fake->conns[i].in);
        free(fake->conns[i].out);
    }
    for (uint32_t i = 0; i < FAKE_PARTS_MAX; i++) {
        for (uint32_t j = 0; j < fake->logs[i].count; j++) { free(fake->logs[i].batches[j].at); }
    }
    free(fake->out.effects);
    free(fake->out.messages);
    free(fake->out.text);
    free(fake->events);
    free(fake->memory);
    free(fake);
}

/* ---- what tests say ---- */

enum base_rc fake_produce(struct fake *fake, uint64_t token, int32_t partition, const char *key, const char *value)
{
    struct client_record record = {.token = token,
                                   .topic = base_slice_text(TOPIC),
                                   .partition = partition,
                                   .timestamp_ms = (int64_t)(fake->now_ns / 1000000),
                                   .key = key == NULL ? rec_null() : rec_value_of(base_slice_text(key)),
                                   .value = rec_value_of(base_slice_text(value))};
    step(fake, (struct port_event){.kind = PORT_EVENT_TURN}); /* whoever produces is in a step, and the time is known */
    return client_produce(fake->client, &record);
}

const struct fake_result *fake_result_of(const struct fake *fake, uint64_t token)
{
    const struct fake_result *found = NULL;
    for (uint32_t i = 0; i < fake->result_count; i++) {
        if (fake->results[i].is.token != token) { continue; }
        assert_null(found);
        found = &fake->results[i];
    }
    assert_non_null(found);
    return found;
}

uint32_t fake_count(const struct fake *fake, enum client_result_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < fake->result_count; i++) {
        if (fake->results[i].is.kind == kind) { count += 1; }
    }
    return count;
}

const char *fake_values(const struct fake *fake, int32_t partition)
{
    static char words[65536];
    static uint8_t opened[1 << 20];
    size_t used = 0;
    words[0] = '\0';
    const struct fake_log *log = &fake->logs[partition];
    for (uint32_t i = 0; i < log->count; i++) {
        struct rec_batch batch;
        struct base_slice records;
        struct base_arena arena;
        struct rec_walk walk;
        struct rec_record record;
        assert_int_equal(rec_batch_view(base_slice_of(log->batches[i].at, log->batches[i].size_bytes), &batch), REC_OK);
        base_arena_init(&arena, opened, sizeof opened);
        assert_int_equal(rec_open(&batch, sizeof opened / 2, &arena, &records), REC_OK);
        rec_walk_init(&walk, &batch, records);
        while (rec_walk_next(&walk, &record) == REC_OK) {
            used += (size_t)snprintf(words + used, sizeof words - used, "%s%.*s", used == 0 ? "" : " ",
                                     (int)record.value.bytes.size_bytes, (const char *)record.value.bytes.at);
        }
    }
    return words;
}

uint32_t fake_times(const struct fake *fake, int32_t partition, const char *value)
{
    char words[65536];
    uint32_t times = 0;
    char *rest = NULL;
    (void)snprintf(words, sizeof words, "%s", fake_values(fake, partition));
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (strcmp(word, value) == 0) { times += 1; }
    }
    return times;
}

void fake_append(struct fake *fake, int32_t partition, const char *const *values, uint32_t count, enum codec_kind kind)
{
    static uint8_t plain[65536];
    static uint8_t packed[131072];
    static uint8_t scratch[1 << 22] __attribute__((aligned(16)));
    struct rec_build build;
    struct rec_batch batch;
    assert_int_equal(rec_build_init(&build, plain, sizeof plain, rec_build_plain()), BASE_OK);
    for (uint32_t i = 0; i < count; i++) {
        enum base_rc rc = rec_build_add(&build, 1000 + fake->logs[partition].end + i, rec_null(),
                                        rec_value_of(base_slice_text(values[i])), NULL, 0);
        assert_int_equal(rc, BASE_OK);
    }
    struct base_slice bytes;
    if (kind == CODEC_NONE) {
        bytes = rec_build_end(&build);
    } else {
        struct codec_scratch room = {scratch, sizeof scratch};
        assert_int_equal(rec_build_end_compressed(&build, kind, CODEC_LEVEL_DEFAULT, room, packed, sizeof packed,
                                                  &bytes),
                         CODEC_OK);
    }
    assert_int_equal(rec_batch_view(bytes, &batch), REC_OK);
    append_log(&fake->logs[partition], bytes, &batch);
}
