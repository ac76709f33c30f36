/* client_produce.c: batches to the leaders of their partitions, and what becomes of them.
 *
 * With idempotence a batch gets its sequence when it is first sent, and keeps it. Up to five batches of a partition are in
 * flight; one that is sent again goes alone, and those behind it wait. So does the first under a producer id: a broker takes
 * any sequence of a producer that it does not know, and so the second where it has just refused the first. When a sequence is lost for good (a batch was given up, or
 * the broker does not know the producer any more) the producer id is changed: first every answer of the old one is awaited; then
 * batches that may have been written under it end as unknown, and the others get new sequences.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

#include "wire/kafka/init_producer_id.h"
#include "wire/kafka/produce.h"

/* The last version that names topics by name. */
#define PRODUCE_BY_NAME_MAX 12

static uint64_t backoff_until(struct client *client)
{
    uint64_t backoff_ns = client->config.retry_backoff_ms * MS;
    return base_deadline_ns(client->now_ns, backoff_ns / 2 + base_prng_below(&client->prng, backoff_ns + 1));
}

/* ---- the end of a batch ---- */

void client__batch_end(struct client *client, struct batch *batch, enum client_outcome outcome, int16_t error)
{
    CHECK(batch->state == BATCH_FILLING || batch->state == BATCH_READY);
    struct part *part = client__part(client, batch->part);
    base_list_remove(&part->queue, &batch->link);
    if (base_list_is_empty(&part->queue)) { base_list_remove(&client->busy, &part->busy); }
    client__give(client, batch->block);
    batch->block = NULL;
    batch->state = BATCH_DONE;
    batch->outcome = outcome;
    batch->error = error;
    if (outcome != CLIENT_ACKED) { batch->base_offset = -1; }
    if (outcome != CLIENT_ACKED && batch->sequence >= 0 && batch->life == client->life) {
        client->is_identity_spoilt = true; /* the next sequence would come after a hole */
    }
    base_list_push_back(&client->done, &batch->link);
}

static void give_up(struct client *client, struct batch *batch, int16_t error)
{
    client__batch_end(client, batch, batch->is_maybe_written ? CLIENT_UNKNOWN : CLIENT_REFUSED, error);
}

/* Once more, or not at all. `error` is Kafka's. */
static void retry(struct client *client, struct batch *batch, int16_t error)
{
    bool is_of_old_id = batch->sequence >= 0 && batch->life != client->life;
    bool is_late = client->now_ns >= batch->deadline_ns || client->is_closing;
    if (is_late || (is_of_old_id && batch->is_maybe_written)) {
        give_up(client, batch, error);
        return;
    }
    if (is_of_old_id) { batch->sequence = -1; }
    client__part(client, batch->part)->retry_ns = backoff_until(client);
    client__want_metadata(client);
}

/* Errors after which the records may be in the log. */
static bool is_indefinite(int16_t error)
{
    return error == KAFKA_ERROR_NOT_ENOUGH_REPLICAS_AFTER_APPEND || error == KAFKA_ERROR_REQUEST_TIMED_OUT ||
           error == KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER ||
           error == KAFKA_ERROR_UNKNOWN_SERVER_ERROR || /* it does not say at which step */
           error ==
               KAFKA_ERROR_KAFKA_STORAGE_ERROR; /* its sync failed, maybe; the bytes may come back with a restart */
}

static bool is_of_identity(int16_t error)
{
    return error == KAFKA_ERROR_OUT_OF_ORDER_SEQUENCE_NUMBER || error == KAFKA_ERROR_UNKNOWN_PRODUCER_ID ||
           error == KAFKA_ERROR_INVALID_PRODUCER_EPOCH || error == KAFKA_ERROR_PRODUCER_FENCED ||
           error == KAFKA_ERROR_INVALID_PRODUCER_ID_MAPPING;
}

static bool is_first(const struct client *client, const struct batch *batch)
{
    return base_list_first(&client__part(client, batch->part)->queue) == &batch->link;
}

static void on_refused(struct client *client, struct batch *batch, int16_t error)
{
    if (is_indefinite(error)) { batch->is_maybe_written = true; }
    if (batch->sequence >= 0 && is_of_identity(error)) {
        /* Behind another that failed, it had to fail; that one says why. */
        bool is_own_fault = is_first(client, batch) || error != KAFKA_ERROR_OUT_OF_ORDER_SEQUENCE_NUMBER;
        if (is_own_fault && batch->life == client->life) { client->is_identity_spoilt = true; }
        if (is_own_fault && batch->is_maybe_written) {
            give_up(client, batch, error);
        } else {
            retry(client, batch, error);
        }
        return;
    }
    if (kafka_error_is_retriable(error)) {
        retry(client, batch, error);
    } else {
        give_up(client, batch, error);
    }
}

static void land(struct client *client, struct ask *ask, struct batch *batch)
{
    CHECK(batch->state == BATCH_IN_FLIGHT && client->batches_in_flight > 0);
    base_list_remove(&ask->batches, &batch->in_ask);
    batch->state = BATCH_READY;
    client->batches_in_flight -= 1;
}

static void on_answered(struct client *client, struct batch *batch,
                        const struct kafka_produce_response_partition_produce_response *answer)
{
    batch->append_ms = answer->log_append_time_ms;
    if (answer->error_code == KAFKA_ERROR_NONE) {
        batch->base_offset = answer->base_offset;
        client__batch_end(client, batch, CLIENT_ACKED, KAFKA_ERROR_NONE);
    } else if (answer->error_code == KAFKA_ERROR_DUPLICATE_SEQUENCE_NUMBER && batch->sequence >= 0) {
        batch->base_offset = -1; /* written before, and too long ago for the broker to know where */
        client__batch_end(client, batch, CLIENT_ACKED, KAFKA_ERROR_NONE);
    } else {
        on_refused(client, batch, answer->error_code);
    }
}

static struct batch *batch_of(const struct client *client, const struct ask *ask, const struct topic *topic,
                              int32_t index)
{
    for (struct base_link *link = base_list_first(&ask->batches); link != NULL;
         link = base_list_next(&ask->batches, link)) {
        struct batch *batch = BASE_ITEM(link, struct batch, in_ask);
        const struct part *part = client__part(client, batch->part);
        if (part->index == index && part->topic == client__topic_index(client, topic)) { return batch; }
    }
    return NULL;
}

void client__lost_produce(struct client *client, struct ask *ask, bool was_unanswered)
{
    while (!base_list_is_empty(&ask->batches)) {
        struct batch *batch = BASE_ITEM(base_list_first(&ask->batches), struct batch, in_ask);
        land(client, ask, batch);
        if (was_unanswered) {
            batch->base_offset = -1;
            client__batch_end(client, batch, CLIENT_ACKED, KAFKA_ERROR_NONE);
            continue;
        }
        batch->is_maybe_written = true;
        if (client->config.acks == CLIENT_ACKS_NONE) {
            give_up(client, batch, KAFKA_ERROR_NETWORK_EXCEPTION); /* at most once is what was asked for */
        } else {
            retry(client, batch, KAFKA_ERROR_NETWORK_EXCEPTION);
        }
    }
}

void client__on_produced(struct client *client, struct ask *ask, struct base_slice body)
{
    void *decoded = NULL;
    uint8_t *memory = NULL;
    struct base_arena arena;
    if (client__decode(client, KAFKA_MESSAGE_PRODUCE_RESPONSE, body, ask->version, 0, &decoded, &memory, &arena) !=
        BASE_OK) {
        client__lost_produce(client, ask, false);
        return;
    }
    const struct kafka_produce_response *answer = decoded;
    for (int32_t i = 0; i < answer->responses_count; i++) {
        const struct kafka_produce_response_topic_produce_response *of_topic = &answer->responses[i];
        const struct topic *topic = ask->version > PRODUCE_BY_NAME_MAX
                                        ? client__topic_by_id(client, of_topic->topic_id)
                                        : client__topic_find(client, kafka_text_slice(of_topic->name));
        for (int32_t j = 0; topic != NULL && j < of_topic->partition_responses_count; j++) {
            const struct kafka_produce_response_partition_produce_response *of_part = &of_topic->partition_responses[j];
            struct batch *batch = batch_of(client, ask, topic, of_part->index);
            if (batch == NULL) { continue; } /* nobody asked */
            land(client, ask, batch);
            on_answered(client, batch, of_part);
        }
    }
    client__give(client, memory);
    client__lost_produce(client, ask, false); /* those that the answer has left out */
}

/* ---- the producer id ---- */

/* Every answer under the old id has come: what may have been written under it is unknown, the rest begins anew. */
static void change_identity(struct client *client)
{
    if (client->batches_in_flight > 0) { return; }
    client->is_identity_spoilt = false;
    if (client->identity != IDENTITY_HELD || !client->is_idempotent) { return; }
    client->identity = IDENTITY_NONE;
    client->life += 1;
    struct base_link *next_part = base_list_first(&client->busy);
    while (next_part != NULL) {
        struct part *part = BASE_ITEM(next_part, struct part, busy);
        next_part = base_list_next(&client->busy, next_part);
        struct base_link *next = base_list_first(&part->queue);
        while (next != NULL) {
            struct batch *batch = BASE_ITEM(next, struct batch, link);
            next = base_list_next(&part->queue, next);
            if (batch->sequence < 0) { continue; }
            if (batch->is_maybe_written) {
                batch->sequence = -1; /* its id is gone already: nothing more is spoilt */
                give_up(client, batch, KAFKA_ERROR_UNKNOWN_PRODUCER_ID);
            } else {
                batch->sequence = -1;
            }
        }
    }
}

static void ask_identity(struct client *client, struct port_out *out)
{
    if (client->identity != IDENTITY_NONE || base_list_is_empty(&client->busy) || client->is_closing) { return; }
    if (client->now_ns < client->identity_ns) {
        client__alarm(client, client->identity_ns);
        return;
    }
    struct node *node = client__node_any(client);
    if (node == NULL || !client__may_work(client, out)) { return; }
    int16_t version = client__version(node, KAFKA_API_INIT_PRODUCER_ID, INT16_MAX);
    if (version < 0 && client->config.idempotence == CLIENT_IDEMPOTENT_IF_ABLE) {
        client->is_idempotent = false;
        client->identity = IDENTITY_HELD;
        return;
    }
    if (version < 0) {
        client->identity = IDENTITY_REFUSED;
        client->identity_error = KAFKA_ERROR_UNSUPPORTED_VERSION;
        return;
    }
    struct kafka_init_producer_id_request request;
    kafka_init_producer_id_request_init(&request);
    request.transactional_id = kafka_text_null();
    request.transaction_timeout_ms = INT32_MAX;
    struct ask *ask = NULL;
    enum base_rc rc = client__send(client, node, ASK_PRODUCER_ID, KAFKA_API_INIT_PRODUCER_ID, version, &request, false,
                                   client->config.request_timeout_ms, out, &ask);
    CHECK(rc != BASE_BAD); /* every version can say it */
    if (rc == BASE_OK) { client->identity = IDENTITY_ASKED; }
}

void client__lost_producer_id(struct client *client)
{
    client->identity = IDENTITY_NONE;
    client->identity_ns = backoff_until(client);
}

void client__on_producer_id(struct client *client, const struct ask *ask, struct base_slice body)
{
    void *decoded = NULL;
    uint8_t *memory = NULL;
    struct base_arena arena;
    if (client__decode(client, KAFKA_MESSAGE_INIT_PRODUCER_ID_RESPONSE, body, ask->version, 0, &decoded, &memory,
                       &arena) != BASE_OK) {
        client__lost_producer_id(client);
        return;
    }
    const struct kafka_init_producer_id_response *answer = decoded;
    int16_t error = answer->error_code;
    if (error == KAFKA_ERROR_NONE && answer->producer_id >= 0) {
        client->producer_id = answer->producer_id;
        client->producer_epoch = answer->producer_epoch;
        client->identity = IDENTITY_HELD;
    } else if (error == KAFKA_ERROR_NONE || kafka_error_is_retriable(error)) {
        client__lost_producer_id(client);
    } else {
        client->identity = IDENTITY_REFUSED;
        client->identity_error = error;
    }
    client__give(client, memory);
}

/* ---- sending ---- */

/* BASE_FULL: no memory to compress in now. */
static enum base_rc seal(struct client *client, struct batch *batch)
{
    if (batch->is_sealed) { return BASE_OK; }
    enum codec_kind kind = client->config.compression;
    if (kind == CODEC_NONE) {
        batch->wire = rec_build_end(&batch->build);
        batch->is_sealed = true;
        return BASE_OK;
    }
    size_t in_bytes = rec_build_records_bytes(&batch->build);
    size_t scratch_bytes = codec_compress_scratch_bytes(kind, client->config.compression_level, in_bytes);
    size_t out_bytes = REC_HEADER_BYTES + codec_compress_bound_bytes(kind, in_bytes);
    uint8_t *wire = base_pages_take(client->pages, BASE_CONTROL, out_bytes);
    uint8_t *scratch = scratch_bytes == 0 ? NULL : base_pages_take(client->pages, BASE_CONTROL, scratch_bytes);
    if (wire == NULL || (scratch == NULL && scratch_bytes > 0)) {
        client__give(client, wire);
        client__give(client, scratch);
        return BASE_FULL;
    }
    enum codec_rc rc =
        rec_build_end_compressed(&batch->build, kind, client->config.compression_level,
                                 (struct codec_scratch){scratch, scratch_bytes}, wire, out_bytes, &batch->wire);
    CHECK(rc == CODEC_OK); /* it had the room that it asked for */
    client__give(client, scratch);
    base_pages_give(client->pages, batch->block);
    batch->block = wire;
    base_pages_shrink(client->pages, wire, batch->wire.size_bytes);
    batch->is_sealed = true;
    return BASE_OK;
}

/* Gives a batch its producer id and sequence, once for each id. */
static void number(struct client *client, struct part *part, struct batch *batch)
{
    if (!client->is_idempotent || batch->sequence >= 0) { return; }
    if (part->life != client->life) {
        part->life = client->life;
        part->next_sequence = 0;
    }
    batch->sequence = part->next_sequence;
    batch->life = client->life;
    part->next_sequence = rec_sequence_add(part->next_sequence, (int32_t)batch->record_count);
    CHECK(batch->wire.at >= batch->block);
    uint8_t *wire = batch->block + (batch->wire.at - batch->block);
    base_put_u64(wire + REC_PRODUCER_ID_AT, (uint64_t)client->producer_id);
    base_put_u16(wire + REC_PRODUCER_EPOCH_AT, (uint16_t)client->producer_epoch);
    base_put_u32(wire + REC_BASE_SEQUENCE_AT, (uint32_t)batch->sequence);
    base_put_u32(wire + REC_CRC_AT,
                 codec_crc32c(0, wire + REC_ATTRIBUTES_AT, batch->wire.size_bytes - REC_ATTRIBUTES_AT));
}

/* The next batch of a partition that may be sent. */
static struct batch *candidate(struct client *client, struct part *part)
{
    uint32_t in_flight = 0;
    uint32_t in_flight_max = client->is_idempotent ? IN_FLIGHT_IDEMPOTENT : 1;
    if (part->retry_ns > client->now_ns) { return NULL; }
    for (struct base_link *link = base_list_first(&part->queue); link != NULL;
         link = base_list_next(&part->queue, link)) {
        struct batch *batch = BASE_ITEM(link, struct batch, link);
        if (batch->state == BATCH_IN_FLIGHT) {
            in_flight += 1;
            bool is_alone = batch->attempts > 1 || batch->sequence == 0; /* sent again, or the first of its id */
            if (is_alone || in_flight == in_flight_max) { return NULL; }
            continue;
        }
        bool is_sendable = batch->state == BATCH_READY && (batch->attempts == 0 || in_flight == 0);
        return is_sendable ? batch : NULL;
    }
    return NULL;
}

struct load { /* what goes into one request */
    struct batch *batches[PARTS_OF_ASK];
    uint32_t count;
    size_t bytes;
    bool has_topic_without_id;
};

static void gather(struct client *client, const struct node *node, uint32_t count_max, struct load *load)
{
    for (struct base_link *link = base_list_first(&client->busy); link != NULL && load->count < count_max;
         link = base_list_next(&client->busy, link)) {
        struct part *part = BASE_ITEM(link, struct part, busy);
        if (part->leader != node->id) { continue; }
        struct batch *batch = candidate(client, part);
        if (batch == NULL) { continue; }
        if (seal(client, batch) != BASE_OK) {
            client__later(client);
            continue;
        }
        if (load->count > 0 && load->bytes + batch->wire.size_bytes > client->config.request_bytes) { continue; }
        load->batches[load->count] = batch;
        load->count += 1;
        load->bytes += batch->wire.size_bytes;
        if (base_uuid_is_none(client->topics[part->topic].id)) { load->has_topic_without_id = true; }
    }
}

static struct kafka_produce_request_topic_produce_data *topic_entry(struct client *client, const struct load *load,
                                                                    struct kafka_produce_request *request,
                                                                    struct base_arena *scratch, uint32_t topic_index)
{
    struct topic *topic = &client->topics[topic_index];
    for (int32_t i = 0; i < request->topic_data_count; i++) {
        if (base_slice_equal(kafka_text_slice(request->topic_data[i].name), client__topic_name(topic))) {
            return &request->topic_data[i];
        }
    }
    struct kafka_produce_request_topic_produce_data *entry = &request->topic_data[request->topic_data_count];
    request->topic_data_count += 1;
    entry->name = kafka_text_of_slice(client__topic_name(topic));
    entry->topic_id = topic->id;
    int32_t count = 0;
    for (uint32_t i = 0; i < load->count; i++) {
        if (client__part(client, load->batches[i]->part)->topic == topic_index) { count += 1; }
    }
    entry->partition_data = kafka_produce_request_partition_produce_data_take(scratch, count);
    CHECK(entry->partition_data != NULL); /* PARTS_OF_ASK in all, see below */
    return entry;
}
_Static_assert(PARTS_OF_ASK * (sizeof(struct kafka_produce_request_topic_produce_data) + 16 +
                               sizeof(struct kafka_produce_request_partition_produce_data) + 16) <=
                   SCRATCH_BYTES,
               "a request of PARTS_OF_ASK partitions fits the scratch");

/* BASE_MISSING: there is nothing to send. */
static enum base_rc send_load(struct client *client, struct node *node, uint32_t count_max, struct port_out *out)
{
    struct load load = {0};
    gather(client, node, count_max, &load);
    if (load.count == 0) { return BASE_MISSING; }
    int16_t cap = load.has_topic_without_id ? PRODUCE_BY_NAME_MAX : INT16_MAX;
    int16_t version = client__version(node, KAFKA_API_PRODUCE, cap);
    struct base_arena scratch = client__scratch(client);
    struct kafka_produce_request request;
    kafka_produce_request_init(&request);
    request.acks = (int16_t)client->config.acks;
    request.timeout_ms = (int32_t)base_min_u64(client->config.request_timeout_ms, INT32_MAX);
    request.topic_data = kafka_produce_request_topic_produce_data_take(&scratch, (int32_t)load.count);
    CHECK(request.topic_data != NULL);
    for (uint32_t i = 0; i < load.count; i++) {
        struct batch *batch = load.batches[i];
        struct part *part = client__part(client, batch->part);
        if (version < 0) { break; }
        number(client, part, batch);
        struct kafka_produce_request_topic_produce_data *entry =
            topic_entry(client, &load, &request, &scratch, part->topic);
        entry->partition_data[entry->partition_data_count].index = part->index;
        entry->partition_data[entry->partition_data_count].records =
            kafka_records_of(batch->wire.at, batch->wire.size_bytes);
        entry->partition_data_count += 1;
    }
    struct ask *ask = NULL;
    bool is_unanswered = client->config.acks == CLIENT_ACKS_NONE;
    enum base_rc rc = version < 0 ? BASE_BAD
                                  : client__send(client, node, ASK_PRODUCE, KAFKA_API_PRODUCE, version, &request,
                                                 is_unanswered, client->config.request_timeout_ms, out, &ask);
    for (uint32_t i = 0; i < load.count && rc != BASE_FULL; i++) {
        struct batch *batch = load.batches[i];
        if (rc == BASE_BAD) {
            give_up(client, batch, KAFKA_ERROR_UNSUPPORTED_VERSION);
            continue;
        }
        batch->state = BATCH_IN_FLIGHT;
        batch->attempts += 1;
        client->batches_in_flight += 1;
        base_list_push_back(&ask->batches, &batch->in_ask);
        struct part *part = client__part(client, batch->part);
        base_list_remove(&client->busy, &part->busy); /* it had its turn: others come first into the next request */
        base_list_push_back(&client->busy, &part->busy);
    }
    return rc;
}

static void send_to_leaders(struct client *client, struct port_out *out)
{
    uint32_t in_flight_max = client->config.produce_in_flight_max;
    if (client->is_idempotent && in_flight_max > IN_FLIGHT_IDEMPOTENT) { in_flight_max = IN_FLIGHT_IDEMPOTENT; }
    for (uint32_t i = 0; i < client->config.nodes_max; i++) {
        struct node *node = &client->nodes[i];
        while (node->is_used && node->state == NODE_READY && !node->is_bootstrap &&
               node->produce_in_flight < in_flight_max && client__can_send(client, node, out)) {
            if (!client__may_work(client, out)) { return; }
            enum base_rc rc = BASE_FULL;
            for (uint32_t most = PARTS_OF_ASK; most > 0 && rc == BASE_FULL; most /= 4) {
                rc = send_load(client, node, most, out); /* memory may be there for a smaller request */
            }
            if (rc == BASE_FULL) { client__later(client); }
            if (rc != BASE_OK) { break; }
        }
    }
}

/* ---- the turn ---- */

/* Makes batches ready, ends late ones, and asks for the leaders that are needed. */
static void look_over(struct client *client)
{
    struct base_link *next_part = base_list_first(&client->busy);
    while (next_part != NULL) {
        struct part *part = BASE_ITEM(next_part, struct part, busy);
        next_part = base_list_next(&client->busy, next_part);
        client__seal_lingered(client, part);
        if (part->retry_ns > client->now_ns) { client__alarm(client, part->retry_ns); }
        if (part->leader < 0) {
            client__want_metadata(client);
        } else {
            (void)client__node_use(client, part->leader); /* dials it */
        }
        struct base_link *next = base_list_first(&part->queue);
        while (next != NULL) {
            struct batch *batch = BASE_ITEM(next, struct batch, link);
            next = base_list_next(&part->queue, next);
            if (batch->state != BATCH_READY) { continue; }
            int16_t error =
                client->identity == IDENTITY_REFUSED ? client->identity_error : KAFKA_ERROR_REQUEST_TIMED_OUT;
            if (batch->deadline_ns <= client->now_ns || client->is_closing || client->identity == IDENTITY_REFUSED) {
                give_up(client, batch, error);
            } else {
                client__alarm(client, batch->deadline_ns);
            }
        }
    }
}

void client__turn_producer(struct client *client, struct port_out *out)
{
    client__turn_parked(client);
    look_over(client);
    if (client->is_identity_spoilt) { change_identity(client); }
    if (client->is_identity_spoilt) { return; } /* until every answer has come */
    if (client->is_idempotent) { ask_identity(client, out); }
    if (client->is_idempotent && client->identity != IDENTITY_HELD) { return; }
    send_to_leaders(client, out);
}

bool client__poll_done(struct client *client, struct client_result *result_out)
{
    struct base_link *link = base_list_first(&client->done);
    if (link == NULL) { return client__poll_parked(client, result_out); }
    struct batch *batch = BASE_ITEM(link, struct batch, link);
    const struct part *part = client__part(client, batch->part);
    uint32_t slot = batch->first_cell;
    CHECK(slot != NONE);
    struct cell *cell = base_pool_at(&client->cells, slot);
    *result_out = (struct client_result){.kind = CLIENT_PRODUCED,
                                         .outcome = batch->outcome,
                                         .token = cell->token,
                                         .topic = client__topic_name(&client->topics[part->topic]),
                                         .partition = part->index,
                                         .error = batch->error,
                                         .offset = batch->base_offset,
                                         .timestamp_ms = batch->outcome == CLIENT_ACKED ? batch->append_ms : -1};
    if (batch->base_offset >= 0) { batch->base_offset += 1; }
    batch->first_cell = cell->next;
    base_pool_give(&client->cells, slot);
    client->records -= 1;
    if (batch->first_cell == NONE) {
        base_list_remove(&client->done, link);
        base_pool_give(&client->batches, base_pool_index(&client->batches, batch));
    }
    return true;
}
