/* broker__fetch.c: Fetch: a round of reads over the shards, joined within the limits of bytes, or parked.
 *
 *   begin -> ROUND: every partition is read (a lease on a file range each)
 *     -> enough bytes, an error, or the last round: answer, the ranges leave by sendfile under their leases
 *     -> else PARKED: leases given back, each partition watched at its shard; nothing happens for it until
 *        a watermark passes its offset (another ROUND) or the deadline comes (the last ROUND)
 *
 * Sessions (KIP-227) are not kept: the answer's session id is 0, and every request is a full one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/fetch.h"

#define ISOLATION_LEVEL_MAX 1
#define BUSY_RETRY_NS       (UINT64_C(20) * 1000000)
/* Kafka's default of fetch.max.bytes. It also keeps an answer far below what its length of 31 bits can say. */
#define ANSWER_BYTES_MAX    57671680

static const struct kafka_fetch_request *fetch_of(const struct request *request) { return request->decoded; }

static int64_t bytes_max_of(const struct kafka_fetch_request *fetch)
{
    return base_min_i64(base_max_i64(fetch->max_bytes, 0), ANSWER_BYTES_MAX);
}

static bool is_replica(const struct kafka_fetch_request *fetch)
{
    return fetch->replica_id >= 0 || fetch->replica_state.replica_id >= 0;
}

static int16_t part_error(const struct broker *broker, const struct request *request,
                          const struct metadata_topic *topic, int32_t index)
{
    int16_t error = request_partition_error(broker, request, topic, index);
    if (error != KAFKA_ERROR_NONE) { return error; }
    if (is_replica(fetch_of(request))) { return KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER; } /* no partition has followers */
    return KAFKA_ERROR_NONE;
}

/* Parts for a round; the image may have changed since the last one. */
static void fill_parts(struct broker *broker, struct request *request)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    uint32_t at = 0;
    for (int32_t t = 0; t < fetch->topics_count; t++) {
        const struct kafka_fetch_request_fetch_topic *data = &fetch->topics[t];
        const struct metadata_topic *topic = request_topic(broker, request, data->topic, data->topic_id);
        for (int32_t p = 0; p < data->partitions_count; p++) {
            const struct kafka_fetch_request_fetch_partition *asked = &data->partitions[p];
            struct part *part = &request->parts[at++];
            CHECK(part->lease == 0);
            *part = (struct part){.topic_index = (uint32_t)t,
                                  .partition_index = (uint32_t)p,
                                  .watermark = -1,
                                  .log_start = -1,
                                  .leader_epoch = -1,
                                  .error = part_error(broker, request, topic, asked->partition)};
            if (part->error != KAFKA_ERROR_NONE) {
                part->is_answered = true;
                continue;
            }
            part_place(broker, part, topic, asked->partition);
            parts_supersede(broker, request, topic, at - 1);
            part->ask_offset = asked->fetch_offset;
            part->ask_epoch = (int32_t)base_max_i64(asked->current_leader_epoch, -1); /* any below 0 is none */
            int64_t bytes_max = base_min_i64(asked->partition_max_bytes, bytes_max_of(fetch));
            part->bytes_max = (uint32_t)base_max_i64(bytes_max, 0);
        }
    }
}

static void begin_round(struct broker *broker, struct request *request, struct port_out *out)
{
    broker->fetches_evaluated += 1;
    fill_parts(broker, request);
    request_ask(broker, request, out);
}

/* ---- answering ------------------------------------------------------------------------------------------------------------ */

static size_t answer_bytes(const struct request *request)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    return sizeof(struct kafka_fetch_response) + 64 +
           (size_t)fetch->topics_count * (sizeof(struct kafka_fetch_response_fetchable_topic_response) + 16) +
           request->part_count * sizeof(struct kafka_fetch_response_partition_data);
}

static void fill_partition(const struct kafka_fetch_request *fetch, const struct part *part, uint32_t splice,
                           struct kafka_fetch_response_partition_data *answer)
{
    answer->partition_index = fetch->topics[part->topic_index].partitions[part->partition_index].partition;
    answer->error_code = part->error;
    answer->high_watermark = part->watermark;
    answer->last_stable_offset = part->watermark; /* no transactions: nothing is unstable */
    answer->log_start_offset = part->log_start;
    /* None, which Kafka says in two ways: null where it read uncommitted, or tried to. */
    bool is_null = part->is_asked && (fetch->isolation_level == 0 || part->error != KAFKA_ERROR_NONE);
    answer->aborted_transactions_count = is_null ? -1 : 0;
    if (part->size_bytes > 0) {
        answer->records = kafka_records_elsewhere(part->size_bytes, splice);
    } else {
        answer->records = kafka_records_of(NULL, 0);
    }
}

static struct kafka_fetch_response *new_answer(struct broker *broker, struct request *request, size_t bytes)
{
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_PARTS);
        return NULL;
    }
    struct kafka_fetch_response *answer = base_arena_take(&request->arena, sizeof *answer);
    CHECK(answer != NULL);
    kafka_fetch_response_init(answer);
    return answer;
}

static void answer_found(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    struct kafka_fetch_response *answer = new_answer(broker, request, answer_bytes(request));
    if (answer == NULL) { return; }
    answer->responses = kafka_fetch_response_fetchable_topic_response_take(&request->arena, fetch->topics_count);
    uint32_t at = 0;
    for (int32_t t = 0; t < fetch->topics_count; t++) {
        struct kafka_fetch_response_fetchable_topic_response *topic = &answer->responses[answer->responses_count];
        topic->topic = fetch->topics[t].topic;
        topic->topic_id = fetch->topics[t].topic_id;
        topic->partitions =
            kafka_fetch_response_partition_data_take(&request->arena, fetch->topics[t].partitions_count);
        for (int32_t p = 0; p < fetch->topics[t].partitions_count; p++, at++) {
            if (request->parts[at].is_superseded) { continue; }
            fill_partition(fetch, &request->parts[at], at + 1, &topic->partitions[topic->partitions_count]);
            topic->partitions_count += 1;
        }
        if (topic->partitions_count > 0) { answer->responses_count += 1; } /* as Kafka, which groups by topic */
    }
    request_answer(broker, request, answer, out);
}

static void answer_error(struct broker *broker, struct request *request, int16_t error, struct port_out *out)
{
    struct kafka_fetch_response *answer = new_answer(broker, request, sizeof *answer + 64);
    if (answer == NULL) { return; }
    answer->error_code = error;
    request_answer(broker, request, answer, out);
}

/* ---- a round is over --------------------------------------------------------------------------------------------------------- */

/* Shares out max_bytes in the order of the request: a range is cut to what is left, but only the very first one may be
 * larger than it (KIP-74), so that a client with small limits still moves on. */
static int64_t share_out(struct request *request)
{
    int64_t left = bytes_max_of(fetch_of(request));
    int64_t found = 0;
    for (uint32_t i = 0; i < request->part_count; i++) {
        struct part *part = &request->parts[i];
        if (part->size_bytes == 0) { continue; }
        int64_t size = (int64_t)part->size_bytes;
        if (found > 0 && size > left) { size = (int64_t)part->first_batch_bytes > left ? 0 : left; }
        /* Only the first answer with bytes may be one batch that its own partition's limit would not hold. */
        if (found > 0 && part->first_batch_bytes > part->bytes_max) { size = 0; }
        part->size_bytes = (uint64_t)size;
        found += size;
        left = base_max_i64(left - size, 0);
    }
    return found;
}

static bool has_error(const struct request *request)
{
    for (uint32_t i = 0; i < request->part_count; i++) {
        if (request->parts[i].error != KAFKA_ERROR_NONE) { return true; }
    }
    return false;
}

/* No watermark wakes what could only not be read now. */
static bool has_busy(const struct request *request)
{
    for (uint32_t i = 0; i < request->part_count; i++) {
        if (request->parts[i].is_busy) { return true; }
    }
    return false;
}

static void park(struct broker *broker, struct request *request, struct port_out *out)
{
    request->state = REQUEST_PARKED;
    struct base_list *parked = &broker->parked[request->conn_index];
    if (parked->head.next == NULL) { base_list_init(parked); }
    base_list_push_back(parked, &request->parked_link);
    broker->parked_count += 1;
    uint64_t until_ns = request->deadline_ns;
    if (has_busy(request)) { until_ns = base_min_u64(until_ns, base_deadline_ns(broker->now_ns, BUSY_RETRY_NS)); }
    enum base_rc rc = base_heap_insert(&broker->deadlines, &request->deadline, until_ns);
    CHECK(rc == BASE_OK); /* the heap holds as many as there are requests */
    request->part_next = 0;
    base_list_push_back(&broker->watching, &request->link); /* the watches leave a portion a step */
    (void)out;
}

/* Asks for one more watch of the request that is first in line. */
bool fetch_watch(struct broker *broker, struct port_out *out)
{
    struct base_link *link = base_list_first(&broker->watching);
    if (link == NULL) { return false; }
    struct request *request = BASE_ITEM(link, struct request, link);
    CHECK(request->state == REQUEST_PARKED);
    if (request->part_next < request->part_count) {
        struct part *part = &request->parts[request->part_next];
        request->part_next += 1;
        if (part->is_superseded) { return true; }
        struct port_message message;
        message_begin(&message, part->shard, MSG_WATCH);
        put_part(&message, 0, part->id);
        put_asker(&message, 3, request_asker(broker, request, 0));
        message.words[5] = (uint64_t)base_max_i64(part->ask_offset, part->watermark);
        part->is_watched = true;
        message_send(broker, &message, out);
    }
    if (request->part_next == request->part_count) { base_list_remove(&broker->watching, &request->link); }
    return true;
}

/* Takes a parked request back: its watches are called off (once per shard), and old wake-ups won't be heard. */
void fetch_stop_waiting(struct broker *broker, struct request *request, struct port_out *out)
{
    CHECK(request->state == REQUEST_PARKED);
    uint64_t told = 0;
    for (uint32_t i = 0; i < request->part_count; i++) {
        const struct part *part = &request->parts[i];
        if (!part->is_watched || (told & UINT64_C(1) << part->shard) != 0) { continue; }
        told |= UINT64_C(1) << part->shard;
        struct port_message message;
        message_begin(&message, part->shard, MSG_UNWATCH);
        put_asker(&message, 3, request_asker(broker, request, 0));
        message_send(broker, &message, out);
    }
    if (base_link_is_on(&request->link)) { base_list_remove(&broker->watching, &request->link); }
    base_list_remove(&broker->parked[request->conn_index], &request->parked_link);
    broker->parked_count -= 1;
    if (base_heap_holds(&request->deadline)) { base_heap_remove(&broker->deadlines, &request->deadline); }
    request->generation = next_generation(broker);
    request->state = REQUEST_WAITING;
}

void fetch_woke(struct broker *broker, struct request *request, struct port_out *out)
{
    fetch_stop_waiting(broker, request, out);
    begin_round(broker, request, out);
}

/* A shard has no room to watch for it: it looks for itself, a little later. */
void fetch_unwatched(struct broker *broker, struct request *request)
{
    CHECK(request->state == REQUEST_PARKED);
    uint64_t soon_ns = base_deadline_ns(broker->now_ns, BUSY_RETRY_NS);
    if (request->deadline.key <= soon_ns) { return; }
    base_heap_remove(&broker->deadlines, &request->deadline);
    enum base_rc rc = base_heap_insert(&broker->deadlines, &request->deadline, soon_ns);
    CHECK(rc == BASE_OK); /* it has just left it */
}

void fetch_expired(struct broker *broker, struct request *request, struct port_out *out)
{
    request->is_last_round = broker->is_draining || broker->now_ns >= request->deadline_ns; /* else it was busy */
    fetch_woke(broker, request, out);
}

void fetch_answered(struct broker *broker, struct request *request, struct port_out *out)
{
    if (!conn_is_open(broker->conns, request->conn)) { /* parked, it would stay until its deadline, for nobody */
        request_answer_none(broker, request, out);
        return;
    }
    const struct kafka_fetch_request *fetch = fetch_of(request);
    int64_t found = share_out(request);
    int64_t enough = base_min_i64(fetch->min_bytes, bytes_max_of(fetch)); /* more is never found */
    bool is_due = request->is_last_round || broker->is_draining || broker->now_ns >= request->deadline_ns;
    if (found >= enough || has_error(request) || is_due || request->part_count == 0) {
        answer_found(broker, request, out);
        return;
    }
    if (request_release_all(broker, request, out)) { park(broker, request, out); }
}

/* What it had found it has given back; it waits for more. */
void fetch_released(struct broker *broker, struct request *request, struct port_out *out)
{
    if (conn_is_open(broker->conns, request->conn)) {
        park(broker, request, out);
    } else {
        request_answer_none(broker, request, out);
    }
}

void fetch_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    if (fetch->isolation_level < 0 || fetch->isolation_level > ISOLATION_LEVEL_MAX) {
        request_fail(broker, request, "no such isolation level", out);
        return;
    }
    if (fetch->session_epoch != 0 && fetch->session_epoch != -1) { /* it goes on with a session */
        answer_error(broker, request, KAFKA_ERROR_FETCH_SESSION_ID_NOT_FOUND, out);
        return;
    }
    uint32_t count = 0;
    for (int32_t t = 0; t < fetch->topics_count; t++) { count += (uint32_t)fetch->topics[t].partitions_count; }
    if (!request_take_parts(broker, request, count)) { return; }
    /* A connection whose requests are all waiting is not read, so that its end is not seen: no poll outlasts an idle one. */
    uint64_t wait_max_ms = broker->config.idle_ms == 0 ? UINT64_MAX : broker->config.idle_ms;
    uint64_t wait_ns = base_min_u64((uint64_t)base_max_i64(fetch->max_wait_ms, 0), wait_max_ms) * 1000000;
    request->deadline_ns = base_deadline_ns(broker->now_ns, wait_ns);
    begin_round(broker, request, out);
}
