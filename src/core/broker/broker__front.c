/* broker__front.c: the life of a request: from a frame to its answer.
 *
 *   frame -> header, body decoded into the request's arena -> the API's own begin
 *     -> parts asked of their shards, a portion a step (front_issue) -> answers counted in -> the API's own end
 *     -> encoded, handed to conn (broker__answer.c)
 *     -> the last byte left, the last part is back -> slot, arena, leases and frame are given back
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/header.h"

#define ARENA_BYTES_FIRST ((size_t)4096)
#define RELEASED_AT_ONCE  16                 /* leases given back by one poll */
#define RETRY_NS          UINT64_C(10000000) /* a request that found no memory looks again, should no release wake it before */
#define STARVE_MAX_NS \
    UINT64_C(30000000000) /* one that never finds any ends with its connection: its client has given up */

/* ---- slots ------------------------------------------------------------------------------------------------------------ */

static struct request *request_at(const struct broker *broker, uint32_t slot)
{
    return base_pool_at(&broker->requests, slot);
}

/* Never 0, which would name nothing. */
uint32_t next_generation(struct broker *broker)
{
    broker->request_generation += 1;
    if (broker->request_generation == 0) { broker->request_generation = 1; }
    return broker->request_generation;
}

uint32_t request_slot(const struct broker *broker, const struct request *request)
{
    return base_pool_index(&broker->requests, request);
}

struct asker request_asker(const struct broker *broker, const struct request *request, uint32_t part)
{
    return (struct asker){.slot = request_slot(broker, request),
                          .generation = request->generation,
                          .part = part,
                          .shard = broker->config.shard};
}

/* NULL: that request, or that round of it, is over. */
static struct request *request_of(const struct broker *broker, struct asker asker)
{
    CHECK(asker.shard == broker->config.shard);
    if (!base_pool_is_taken(&broker->requests, asker.slot)) { return NULL; }
    struct request *request = request_at(broker, asker.slot);
    return request->generation == asker.generation ? request : NULL;
}

void request_release_lease(struct broker *broker, struct part *part, struct port_out *out)
{
    if (part->lease == 0) { return; }
    struct port_message message;
    message_begin(&message, part->shard, MSG_RELEASE)->words[0] = part->lease;
    if (part->is_told) {
        put_part(&message, 1, part->id);
        message.words[4] = part->size_bytes;
    }
    message_send(broker, &message, out);
    part->lease = 0;
}

static void release_part(struct broker *broker, struct part *part, struct port_out *out)
{
    request_release_lease(broker, part, out);
    if (part->loan != NULL) { groups_release(broker, part, out); }
}

/* Up to RELEASED_AT_ONCE parts from request->part_next on. True: all have been seen to. */
static bool release_some(struct broker *broker, struct request *request, struct port_out *out)
{
    uint32_t end = request->part_count;
    if (end - request->part_next > RELEASED_AT_ONCE) { end = request->part_next + RELEASED_AT_ONCE; }
    for (; request->part_next < end; request->part_next++) {
        release_part(broker, &request->parts[request->part_next], out);
    }
    return request->part_next == request->part_count;
}

bool request_release_all(struct broker *broker, struct request *request, struct port_out *out)
{
    CHECK(!base_link_is_on(&request->link));
    request->part_next = 0;
    if (release_some(broker, request, out)) { return true; }
    request->state = REQUEST_RELEASING;
    base_list_push_back(&broker->releasing, &request->link);
    return false;
}

/* ---- memory of a request ----------------------------------------------------------------------------------------------- */

/* A request's memory is a chain of blocks; its arena is in the newest. */
struct memory_block {
    struct memory_block *older;
};

bool request_reserve(struct broker *broker, struct request *request, size_t bytes)
{
    size_t left = request->arena.size_bytes - request->arena.used_bytes;
    if (request->memory != NULL && left >= bytes) { return true; }
    size_t block_bytes = base_max_u64(bytes + sizeof(struct memory_block) + 64, ARENA_BYTES_FIRST);
    struct memory_block *block = base_pages_take(broker->pages, BASE_REPLICATION, block_bytes);
    if (block == NULL) { return false; }
    *block = (struct memory_block){.older = request->memory};
    request->memory = block;
    base_arena_init(&request->arena, block + 1, block_bytes - sizeof *block);
    return true;
}

static void give_memory(struct broker *broker, struct request *request)
{
    while (request->memory != NULL) {
        struct memory_block *block = request->memory;
        request->memory = block->older;
        base_pages_give(broker->pages, block);
    }
    request->arena = (struct base_arena){.at = NULL};
}

/* What a connection asks is begun in the order in which it was asked, as in Kafka: what it produces behind a request that has found no
 * memory waits for that, or a log would have it in another order. The oldest is the first. */
static struct base_list *unbegun_of(struct broker *broker, const struct request *request)
{
    struct base_list *list = &broker->unbegun[request->conn_index];
    if (list->head.next == NULL) { base_list_init(list); }
    return list;
}

void request_starve(struct broker *broker, struct request *request, enum request_retry retry)
{
    CHECK(!base_link_is_on(&request->link));
    if (retry == RETRY_DECODE) { /* from the frame on: what it holds would only grow from one try to the next */
        CHECK(request->parts_open == 0);
        give_memory(broker, request);
        request->loan = NULL;
        request->parts = NULL;
        request->part_count = 0;
        request->sized = NULL;
        CHECK(request->fetching == NULL || request->fetching->loan.list == NULL);
        request->fetching = NULL;
        if (!base_link_is_on(&request->unbegun_link)) {
            base_list_push_front(unbegun_of(broker, request), &request->unbegun_link);
        }
    }
    request->state = REQUEST_STARVED;
    request->retry = retry;
    if (request->starves_until_ns == 0) { request->starves_until_ns = base_deadline_ns(broker->now_ns, STARVE_MAX_NS); }
    base_list_push_back(&broker->starved, &request->link);
    if (broker->starved_retry_ns <= broker->now_ns) { /* who waits already is not put off by who comes */
        broker->starved_retry_ns = base_deadline_ns(broker->now_ns, RETRY_NS);
    }
}

static void free_request(struct broker *broker, struct request *request, struct port_out *out)
{
    conn_release_frame(broker->conns, request->id);
    session_end(broker, request, out);
    if (request->answer_block != NULL) { base_pages_give(broker->pages, request->answer_block); }
    kept_release(broker, request);
    give_memory(broker, request);
    base_pool_give(&broker->requests, request_slot(broker, request));
    broker->requests_done += 1;
    start_drained_if_done(broker, out);
}

void request_free_if_done(struct broker *broker, struct request *request, struct port_out *out)
{
    if (request->state != REQUEST_ANSWERED || !request->is_sent || request->parts_open > 0) { return; }
    CHECK(!base_link_is_on(&request->parked_link));
    CHECK(!base_link_is_on(&request->unbegun_link));
    CHECK(!base_heap_holds(&request->deadline));
    if (request_release_all(broker, request, out)) { free_request(broker, request, out); }
}

/* The leases of a request with many parts, a few a poll. */
static bool release_poll(struct broker *broker, struct port_out *out)
{
    struct base_link *link = base_list_first(&broker->releasing);
    if (link == NULL) { return false; }
    struct request *request = BASE_ITEM(link, struct request, link);
    if (!release_some(broker, request, out)) { return true; }
    base_list_remove(&broker->releasing, link);
    if (request->is_sent) {
        free_request(broker, request, out);
    } else {
        request->state = REQUEST_WAITING;
        fetch_released(broker, request, out);
    }
    return true;
}

/* ---- from a frame ------------------------------------------------------------------------------------------------------- */

static enum base_rc decode_in(struct broker *broker, struct request *request, size_t arena_bytes)
{
    enum kafka_message message = kafka_request_message(request->api_key);
    if (!request_reserve(broker, request, arena_bytes)) { return BASE_FULL; }
    request->decoded = base_arena_take(&request->arena, kafka_message_struct_bytes(message));
    if (request->decoded == NULL) { return BASE_FULL; }
    size_t
        used_bytes; /* what follows is left unread, as Kafka does: librdkafka 2.16 pads a Metadata request for all topics */
    return kafka_decode_front(message, request->body, request->version, &request->arena, request->decoded, &used_bytes);
}

static void begin(struct broker *broker, struct request *request, struct port_out *out)
{
    request->state = REQUEST_WAITING;
    switch (request->api_key) {
    case KAFKA_API_PRODUCE: produce_begin(broker, request, out); return;
    case KAFKA_API_FETCH: fetch_begin(broker, request, out); return;
    case KAFKA_API_LIST_OFFSETS: list_offsets_begin(broker, request, out); return;
    case KAFKA_API_OFFSET_FOR_LEADER_EPOCH: epochs_begin(broker, request, out); return;
    case KAFKA_API_DESCRIBE_PRODUCERS: producers_begin(broker, request, out); return;
    case KAFKA_API_DELETE_RECORDS: delete_records_begin(broker, request, out); return;
    case KAFKA_API_DESCRIBE_LOG_DIRS: log_dirs_begin(broker, request, out); return;
    default: break;
    }
    if (groups_is_api(request->api_key)) {
        groups_begin(broker, request, out);
    } else {
        topics_begin(broker, request, out);
    }
}

/* Most requests fit a page; a long list of partitions may decode to sixteen times its bytes. Where there is no block so large, it grows
 * by smaller steps. */
static void decode(struct broker *broker, struct request *request, struct port_out *out)
{
    if (kept_answer(broker, request, out)) { return; }
    size_t bytes_max = KAFKA_ARENA_FACTOR * request->body.size_bytes + ARENA_BYTES_FIRST;
    size_t bytes = ARENA_BYTES_FIRST - 128;
    size_t too_few_bytes = 0;
    size_t times = 16;
    for (;;) {
        enum base_rc rc = decode_in(broker, request, bytes);
        if (rc == BASE_OK) { break; }
        bool has_block = request->memory != NULL;
        give_memory(broker, request);
        if (rc == BASE_BAD) {
            request_fail(broker, request, "the request can't be read", out);
            return;
        }
        bool is_last = has_block ? bytes >= bytes_max : too_few_bytes == 0 || times == 2;
        if (is_last) {
            request_starve(broker, request, RETRY_DECODE); /* until others have given theirs back */
            return;
        }
        if (has_block) {
            too_few_bytes = bytes;
        } else {
            times = 2;
        }
        bytes = base_min_size(too_few_bytes * times, bytes_max);
    }
    begin(broker, request, out);
}

static void on_request(struct broker *broker, const struct conn_out *item, struct port_out *out)
{
    uint32_t slot = base_pool_take(&broker->requests);
    CHECK(slot != BASE_POOL_NONE); /* conn has no more requests than we have slots */
    struct request *request = request_at(broker, slot);
    broker->requests_come += 1;
    *request = (struct request){.state = REQUEST_WAITING,
                                .generation = next_generation(broker),
                                .order = broker->requests_come,
                                .id = item->request,
                                .conn = item->conn,
                                .conn_index = item->conn_index,
                                .listener = item->listener,
                                .peer = item->address,
                                .frame = item->frame,
                                .begun_ns = broker->now_ns};

    struct kafka_request_header header;
    enum base_rc rc = kafka_request_open(base_slice_of(item->frame, item->frame_bytes), &header, &request->body);
    if (rc != BASE_OK) {
        request_fail(broker, request, rc == BASE_MISSING ? "no such api" : "the request header can't be read", out);
        return;
    }
    request->api_key = header.request_api_key;
    request->version = header.request_api_version;
    request->correlation = header.correlation_id;
    request->client_id = header.client_id;
    if (!topics_serves(request->api_key, request->version)) {
        topics_refuse_version(broker, request, out);
        return;
    }
    groups_hold(broker, request);
    bool is_behind = !base_list_is_empty(unbegun_of(broker, request));
    if (is_behind) { base_list_push_back(unbegun_of(broker, request), &request->unbegun_link); }
    if (is_behind || (!broker->is_serving && !broker->is_draining)) {
        request_starve(broker, request, RETRY_DECODE); /* until those before it are begun, or the node is registered */
        return;
    }
    decode(broker, request, out);
}

/* ---- parts -------------------------------------------------------------------------------------------------------------- */

bool request_take_parts(struct broker *broker, struct request *request, uint32_t count)
{
    if (!request_reserve(broker, request, count * sizeof *request->parts + 16)) {
        request_starve(broker, request, RETRY_DECODE);
        return false;
    }
    request->parts = base_arena_take_array(&request->arena, count, sizeof *request->parts);
    request->part_count = count;
    return true;
}

void part_place(const struct broker *broker, struct part *part, const struct metadata_topic *topic, int32_t index)
{
    part->id = (struct base_part){.topic = topic->id, .index = index};
    part->shard = shard_of(broker, part->id);
}

bool parts_supersede(struct broker *broker, struct request *request, const struct metadata_topic *topic, uint32_t index)
{
    const struct metadata_partition *partition =
        metadata_partition(broker->image, topic, request->parts[index].id.index);
    CHECK(partition != NULL);
    struct seen *seen = &broker->seen[partition->slot];
    struct seen before = *seen;
    *seen = (struct seen){.slot = request_slot(broker, request), .generation = request->generation, .part = index};
    if (before.slot != seen->slot || before.generation != seen->generation || before.part >= index) { return false; }
    struct part *earlier = &request->parts[before.part];
    if (!base_part_equal(earlier->id, request->parts[index].id)) { return false; } /* of a round before this one */
    earlier->is_superseded = true;
    earlier->is_answered = true;
    earlier->error = KAFKA_ERROR_NONE;
    return true;
}

/* Produce and Fetch name topics by id from version 13 on, both (KIP-516). */
const struct metadata_topic *request_topic(const struct broker *broker, const struct request *request,
                                           struct kafka_text name, struct base_uuid id)
{
    if (request->version >= 13) { return metadata_topic_by_id(broker->image, id); }
    return metadata_topic_by_name(broker->image, kafka_text_slice(name));
}

int16_t request_partition_error(const struct broker *broker, const struct request *request,
                                const struct metadata_topic *topic, int32_t index)
{
    if (topic == NULL) {
        bool is_by_id = request->api_key == KAFKA_API_PRODUCE || request->api_key == KAFKA_API_FETCH;
        return is_by_id && request->version >= 13 ? KAFKA_ERROR_UNKNOWN_TOPIC_ID
                                                  : KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION;
    }
    bool is_there = metadata_partition(broker->image, topic, index) != NULL;
    return is_there ? KAFKA_ERROR_NONE : KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION;
}

bool request_error_is_missing(int16_t error)
{
    return error == KAFKA_ERROR_UNKNOWN_TOPIC_ID || error == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION;
}

void request_ask(struct broker *broker, struct request *request, struct port_out *out)
{
    (void)out;
    CHECK(request->parts_open == 0);
    request->state = REQUEST_ISSUING;
    request->starves_until_ns = 0; /* a Fetch may be here again much later */
    request->part_next = 0;
    base_list_push_back(&broker->issuing, &request->link);
}

static void ask_part(struct broker *broker, struct request *request, uint32_t index, struct port_out *out)
{
    struct part *part = &request->parts[index];
    if (part->loan != NULL) {
        groups_ask(broker, request, part, index, out);
        return;
    }
    struct port_message message;
    switch (request->api_key) {
    case KAFKA_API_PRODUCE:
        message_begin(&message, part->shard, MSG_APPEND);
        message.words[5] = request->wants_written ? 1 : 0;
        message.lent = part->batch;
        message.lent_bytes = part->batch_bytes;
        break;
    case KAFKA_API_FETCH:
        message_begin(&message, part->shard, MSG_READ);
        message.words[5] = (uint64_t)part->ask_offset;
        message.words[6] = part->bytes_max;
        message.words[7] = (uint64_t)(uint32_t)part->ask_epoch;
        break;
    case KAFKA_API_LIST_OFFSETS:
        message_begin(&message, part->shard, MSG_TIME);
        message.words[5] = (uint64_t)part->ask_offset;
        message.words[6] = (uint64_t)(uint32_t)part->ask_epoch;
        break;
    case KAFKA_API_OFFSET_FOR_LEADER_EPOCH:
        message_begin(&message, part->shard, MSG_EPOCH);
        message.words[5] = (uint64_t)(uint32_t)part->ask_offset;
        message.words[6] = (uint64_t)(uint32_t)part->ask_epoch;
        break;
    case KAFKA_API_DESCRIBE_PRODUCERS:
        message_begin(&message, part->shard, MSG_PRODUCERS);
        message.lent = part->page;
        message.lent_bytes = sizeof *part->page;
        break;
    case KAFKA_API_DELETE_RECORDS:
        message_begin(&message, part->shard, MSG_DELETE);
        message.words[5] = (uint64_t)part->ask_offset;
        break;
    case KAFKA_API_DESCRIBE_LOG_DIRS: message_begin(&message, part->shard, MSG_SIZE); break;
    default: UNREACHABLE();
    }
    put_part(&message, 0, part->id);
    put_asker(&message, 3, request_asker(broker, request, index));
    part->is_asked = true;
    request->parts_open += 1;
    broker->parts_asked += 1;
    message_send(broker, &message, out);
}

/* acks=1 waits for parts that have not been written, everything else for parts that are not back. */
static bool has_enough(const struct request *request)
{
    return request->wants_written ? request->parts_unwritten == 0 : request->parts_open == 0;
}

static void parts_answered(struct broker *broker, struct request *request, struct port_out *out)
{
    switch (request->api_key) {
    case KAFKA_API_PRODUCE: produce_answered(broker, request, out); return;
    case KAFKA_API_FETCH: fetch_answered(broker, request, out); return;
    case KAFKA_API_LIST_OFFSETS: list_offsets_answered(broker, request, out); return;
    case KAFKA_API_OFFSET_FOR_LEADER_EPOCH: epochs_answered(broker, request, out); return;
    case KAFKA_API_DESCRIBE_PRODUCERS: producers_answered(broker, request, out); return;
    case KAFKA_API_DELETE_RECORDS: delete_records_answered(broker, request, out); return;
    case KAFKA_API_DESCRIBE_LOG_DIRS: log_dirs_answered(broker, request, out); return;
    default: groups_answered(broker, request, out); return;
    }
}

/* Asks one more part of the request that is first in line. */
bool front_issue(struct broker *broker, struct port_out *out)
{
    if (fetch_watch(broker, out) || fetch_unwatch(broker, out) || release_poll(broker, out)) { return true; }
    struct base_link *link = base_list_first(&broker->issuing);
    if (link == NULL) { return false; }
    if (broker->parts_asked >= broker->parts_asked_max) { return false; } /* an answer makes room and brings us back */
    struct request *request = BASE_ITEM(link, struct request, link);
    while (request->part_next < request->part_count && request->parts[request->part_next].is_answered) {
        request->part_next += 1; /* decided by the front: no such partition */
    }
    if (request->part_next < request->part_count) {
        ask_part(broker, request, request->part_next, out);
        request->part_next += 1;
    }
    if (request->part_next == request->part_count) {
        base_list_remove(&broker->issuing, &request->link);
        request->state = REQUEST_WAITING;
        if (has_enough(request)) { parts_answered(broker, request, out); }
    }
    return true;
}

static void on_part_answer(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct asker asker = get_asker(message, 0);
    struct request *request = request_of(broker, asker);
    CHECK(request != NULL); /* a request stays until its parts are back */
    struct part *part = &request->parts[asker.part];
    CHECK(part->is_asked && !part->is_answered);
    switch (message->kind) {
    case MSG_APPENDED:
        part->offset = (int64_t)message->words[2];
        part->timestamp_ms = (int64_t)message->words[3];
        part->log_start = (int64_t)message->words[4];
        part->error = (int16_t)(message->words[5] & 0xffff);
        part->verdict = (uint16_t)(message->words[5] >> 16);
        part->bad_record_index = (int32_t)(uint32_t)message->words[6];
        break;
    case MSG_READ_DONE:
        part->error = (int16_t)message->words[2];
        part->watermark = (int64_t)message->words[3];
        part->log_start = (int64_t)message->words[4];
        part->file.shard = (uint32_t)message->words[5];
        part->file.slot = (uint32_t)(message->words[5] >> 32);
        part->file.generation = (uint32_t)message->words[6];
        part->position_bytes = message->words[7];
        part->size_bytes = message->words[8];
        part->lease = message->words[9];
        part->first_batch_bytes = message->words[10];
        part->leader_epoch = (int32_t)(uint32_t)message->words[11];
        part->is_busy = message->words[12] != 0;
        break;
    case MSG_TIME_DONE:
        part->error = (int16_t)message->words[2];
        part->offset = (int64_t)message->words[3];
        part->timestamp_ms = (int64_t)message->words[4];
        part->leader_epoch = (int32_t)(uint32_t)message->words[5];
        break;
    case MSG_GROUPED: groups_part_answered(broker, request, part); break; /* what it says is in the loan */
    case MSG_DELETED:
        part->error = (int16_t)message->words[2];
        part->log_start = (int64_t)message->words[3];
        break;
    case MSG_SIZE_DONE:
        part->error = (int16_t)message->words[2];
        part->size_bytes = message->words[3];
        break;
    case MSG_PRODUCERS_DONE: part->error = (int16_t)message->words[2]; break;
    case MSG_EPOCH_DONE:
        part->error = (int16_t)message->words[2];
        part->leader_epoch = (int32_t)(uint32_t)message->words[3];
        part->offset = (int64_t)message->words[4];
        break;
    default: UNREACHABLE();
    }
    part->is_answered = true;
    CHECK(request->parts_open > 0);
    request->parts_open -= 1;
    if (!part->is_patient) {
        CHECK(broker->parts_asked > 0);
        broker->parts_asked -= 1;
    }
    if (request->wants_written && !part->is_written && request->state != REQUEST_ANSWERED) {
        request->parts_unwritten -= 1; /* it failed before it was written */
    }
    if (request->state == REQUEST_ANSWERED) { /* acks=1 or 0: the journal is done with the bytes now */
        request_free_if_done(broker, request, out);
        return;
    }
    if (request->state != REQUEST_WAITING) { return; } /* still issuing */
    if (has_enough(request)) { parts_answered(broker, request, out); }
}

void front_done(struct broker *broker, const struct port_event *event, struct port_out *out)
{
    struct request *request = request_at(broker, (uint32_t)event->done.token);
    CHECK(event->done.effect == PORT_SPACE);
    CHECK(request->state == REQUEST_WAITING && request->parts_open == 1); /* it stays until its disk has answered */
    request->parts_open = 0;
    request->is_space_known = true;
    bool is_known = event->done.rc == PORT_OK;
    request->space_total_bytes = is_known ? (int64_t)base_min_u64(event->done.total_bytes, INT64_MAX) : -1;
    request->space_usable_bytes = is_known ? (int64_t)base_min_u64(event->done.count, INT64_MAX) : -1;
    parts_answered(broker, request, out);
}

/* ---- the controller ------------------------------------------------------------------------------------------------------ */

void request_control(struct broker *broker, struct request *request, struct control_loan *loan, struct port_out *out)
{
    loan->asker = request_asker(broker, request, 0);
    loan->shard = broker->config.shard;
    loan->arena = &request->arena;
    request->loan = loan;
    request->state = REQUEST_CONTROLLED;
    struct port_message message;
    message_begin(&message, 0, MSG_CONTROL);
    message.lent = loan;
    message.lent_bytes = sizeof *loan;
    message_send(broker, &message, out);
}

static void on_controlled(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct request *request = request_of(broker, get_asker(message, 0));
    CHECK(request != NULL);
    CHECK(request->state == REQUEST_CONTROLLED);
    request->state = REQUEST_WAITING;
    if (message->kind == MSG_SESSION_DONE) {
        session_done(broker, request, out);
    } else {
        topics_controlled(broker, request, out);
    }
}

/* ---- listening, stopping ------------------------------------------------------------------------------------------------- */

static void on_serve(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    plog_hold_retention(broker->plog, false); /* the metadata are whole: each log has its own configs */
    if (message->words[12] == 0) { back_reconcile(broker); }
    coordinator_begin(broker);
    broker->listeners_bound = 0;
    for (uint32_t i = 0; i < broker->config.listener_count; i++) {
        struct port_address address = broker->config.listeners[i].address;
        if (!is_first(broker)) { address.port = (uint16_t)message->words[i]; }
        conn_listen(broker->conns, i, address, out);
    }
}

static void front_drain(struct broker *broker, struct port_out *out)
{
    broker->is_serving = false;
    broker->is_draining = true;
    broker->state = BROKER_DRAINING;
    group_drain(broker->groups);
    /* What it took away would be journalled, perhaps after the last checkpoint, and the next start would call the stop unclean. */
    plog_hold_retention(broker->plog, true);
    conn_stop(broker->conns, CONN_STOP_CLEAN, out);
    broker->drain_deadline_ns = base_deadline_ns(broker->now_ns, broker->config.shutdown_ms * 1000000);
}

void front_message(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    switch (message->kind) {
    case MSG_WRITTEN: {
        struct request *request = request_of(broker, get_asker(message, 0));
        CHECK(request != NULL);
        produce_written(broker, request, get_asker(message, 0).part, message, out);
        return;
    }
    case MSG_APPENDED:
    case MSG_READ_DONE:
    case MSG_DELETED:
    case MSG_SIZE_DONE:
    case MSG_PRODUCERS_DONE:
    case MSG_EPOCH_DONE:
    case MSG_TIME_DONE:
    case MSG_GROUPED: on_part_answer(broker, message, out); return;
    case MSG_WOKE: {
        struct request *request = request_of(broker, get_asker(message, 0));
        if (request == NULL || request->state != REQUEST_PARKED) { return; } /* woken before, by something else */
        if (message->words[2] != 0) {
            fetch_unwatched(broker, request);
        } else {
            fetch_woke(broker, request, out);
        }
        return;
    }
    case MSG_CONTROLLED:
    case MSG_SESSION_DONE: on_controlled(broker, message, out); return;
    case MSG_SERVE: on_serve(broker, message, out); return;
    case MSG_DRAIN: front_drain(broker, out); return;
    default: UNREACHABLE();
    }
}

/* ---- what conn says ------------------------------------------------------------------------------------------------------- */

/* A peer that is gone, or sends no more, waits for nothing any more. */
static void on_gone(struct broker *broker, const struct conn_out *item, struct port_out *out)
{
    groups_gone(broker, item->conn_index);
    struct base_list *parked = &broker->parked[item->conn_index];
    struct base_link *link;
    while (parked->head.next != NULL && (link = base_list_first(parked)) != NULL) {
        struct request *request = BASE_ITEM(link, struct request, parked_link);
        fetch_woke(broker, request, out);
    }
}

static bool retry_starved(struct broker *broker, struct port_out *out)
{
    struct base_link *link = base_list_first(&broker->starved);
    bool may_retry = broker->is_serving || broker->is_draining;
    if (link == NULL || broker->now_ns < broker->starved_retry_ns || !may_retry) { return false; }
    struct request *request = BASE_ITEM(link, struct request, link);
    base_list_remove(&broker->starved, link);
    bool is_gone = !conn_is_open(broker->conns, request->conn); /* who only sends no more still waits for its answer */
    if (base_link_is_on(&request->unbegun_link)) {
        struct base_list *unbegun = unbegun_of(broker, request);
        bool is_oldest = base_list_first(unbegun) == &request->unbegun_link;
        if (!is_gone && !is_oldest) { /* one before it comes to its turn, too */
            base_list_push_back(&broker->starved, link);
            request->starves_until_ns = base_deadline_ns(broker->now_ns, STARVE_MAX_NS); /* it has not been tried */
            return true;
        }
        base_list_remove(unbegun, &request->unbegun_link);
    }
    if (is_gone) {
        request_answer_end(broker, request, out);
        return true;
    }
    if (broker->now_ns >= request->starves_until_ns) {
        request_fail(broker, request, "no memory for a request or its answer", out);
        return true;
    }
    switch (request->retry) {
    case RETRY_DECODE: decode(broker, request, out); break;
    case RETRY_PARTS:
        request->state = REQUEST_WAITING;
        parts_answered(broker, request, out);
        break;
    case RETRY_CONTROLLED:
        request->state = REQUEST_WAITING;
        topics_controlled(broker, request, out);
        break;
    case RETRY_ANSWER:
        request->state = REQUEST_WAITING;
        request_answer_in(broker, request, request->answer, request->answer_version, out);
        break;
    case RETRY_FETCH:
        request->state = REQUEST_WAITING;
        fetch_read(broker, request, out);
        break;
    }
    return true;
}

static void on_sent(struct broker *broker, uint64_t cookie, struct port_out *out)
{
    struct request *request = request_at(broker, (uint32_t)(cookie - 1));
    request->is_sent = true;
    request_free_if_done(broker, request, out);
    broker->starved_retry_ns = 0; /* memory came back */
}

/* While records are being applied nothing is begun or answered: a topic that is being made has some of its partitions only, and who
 * was told so would believe it for as long as clients keep what they were told. */
bool front_poll(struct broker *broker, struct port_out *out)
{
    if (broker->applying.is_on) { return false; }
    if (retry_starved(broker, out)) { return true; }
    struct base_heap_item *due = base_heap_first(&broker->deadlines);
    /* While draining nothing waits any longer: fetches are answered with what there is. */
    if (due != NULL && (broker->is_draining || due->key <= broker->now_ns)) {
        fetch_expired(broker, BASE_ITEM(due, struct request, deadline), out);
        return true;
    }
    struct conn_out item;
    if (!conn_poll(broker->conns, broker->now_ns, out, &item)) { return false; }
    switch (item.kind) {
    case CONN_OUT_LISTENING: start_listening(broker, item.listener, item.rc, item.address.port, out); break;
    case CONN_OUT_REQUEST: on_request(broker, &item, out); break;
    case CONN_OUT_SENT: on_sent(broker, item.cookie, out); break;
    case CONN_OUT_OPENED: addresses_opened(broker, &item, out); break;
    case CONN_OUT_ENDED: on_gone(broker, &item, out); break;
    case CONN_OUT_GONE:
        on_gone(broker, &item, out);
        addresses_gone(broker, &item, out);
        break;
    case CONN_OUT_STOPPED:
        broker->is_conn_stopped = true;
        start_drained_if_done(broker, out);
        break;
    }
    return true;
}

void front_alarm(struct broker *broker, struct port_out *out)
{
    if (broker->is_draining && broker->now_ns >= broker->drain_deadline_ns) {
        broker->drain_deadline_ns = UINT64_MAX;
        conn_stop(broker->conns, CONN_STOP_NOW, out);
        if (is_first(broker)) { journal_wait_no_more(broker->journal, out); }
    }
}

uint64_t front_next_alarm_ns(const struct broker *broker)
{
    uint64_t next = base_heap_first_key(&broker->deadlines);
    if (!base_list_is_empty(&broker->starved) && (broker->is_serving || broker->is_draining)) {
        next = base_min_u64(next, broker->starved_retry_ns);
    }
    if (broker->is_draining) { next = base_min_u64(next, broker->drain_deadline_ns); }
    return next;
}
