/* broker__fetch.c: Fetch: a round of reads over the shards, joined within the limits of bytes, or parked.
 *
 *   begin -> what it is about: the request's own items, or those of its session (broker__session.c)
 *     -> ROUND: every partition is read (a lease on a file range each)
 *     -> enough bytes, an error, or the last round: what is told is judged, and answered; the ranges leave by sendfile under
 *        their leases
 *     -> else PARKED: leases given back, each partition watched at its shard; nothing happens for it until
 *        a watermark passes its offset (another ROUND) or the deadline comes (the last ROUND)
 *
 * Part i of the request is item i of what it is about. As in Kafka, an item whose topic or partition was not there when the fetch began
 * ends nothing before its time, and is told behind the others; any other error is told at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/fetch.h"

#define ISOLATION_LEVEL_MAX 1
#define BUSY_RETRY_NS       (UINT64_C(20) * 1000000)
#define UNWATCHED_AT_ONCE   16
#define ANSWER_BYTES_MAX \
    (INT64_C(1) << 30) /* far below what its length of 31 bits can say, whatever fetch.max.bytes is */

static const struct kafka_fetch_request *fetch_of(const struct request *request) { return request->decoded; }

static int64_t bytes_max_of(const struct broker *broker, const struct kafka_fetch_request *fetch)
{
    int64_t bytes_max = base_min_i64(broker->config.fetch_bytes_max, ANSWER_BYTES_MAX);
    return base_min_i64(base_max_i64(fetch->max_bytes, 0), bytes_max);
}

bool fetch_uses_ids(const struct request *request) { return request->version >= 13; }

bool fetch_is_replica(const struct request *request)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    return fetch->replica_id >= 0 || fetch->replica_state.replica_id >= 0;
}

/* By id: the topic of that id, as long as it lives. */
static const struct metadata_topic *topic_of(const struct broker *broker, const struct request *request,
                                             const struct fetchsession_item *item)
{
    if (fetch_uses_ids(request)) { return metadata_topic_by_id(broker->image, item->id); }
    return metadata_topic_by_name(broker->image, item->name);
}

static int16_t item_error(const struct broker *broker, const struct request *request,
                          const struct fetchsession_item *item, const struct metadata_topic *topic)
{
    if (topic != NULL && metadata_partition(broker->image, topic, item->partition) != NULL) {
        return fetch_is_replica(request) ? KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER /* no partition has followers */
                                         : KAFKA_ERROR_NONE;
    }
    if (!fetch_uses_ids(request)) { return KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION; }
    if (item->name.size_bytes == 0) { return KAFKA_ERROR_UNKNOWN_TOPIC_ID; }
    const struct metadata_topic *heir = metadata_topic_by_name(broker->image, item->name);
    bool has_heir = topic == NULL && heir != NULL && metadata_partition(broker->image, heir, item->partition) != NULL;
    return has_heir ? KAFKA_ERROR_INCONSISTENT_TOPIC_ID : KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION;
}

/* Parts for a round; the image may have changed since the last one, but what is missing stays so: Kafka looks once at what there
 * is, when the fetch begins. */
static void fill_parts(struct broker *broker, struct request *request)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    struct fetching *fetching = request->fetching;
    for (uint32_t i = 0; i < fetching->count; i++) {
        struct fetchsession_item *item = &fetching->items[i];
        struct part *part = &request->parts[i];
        CHECK(part->lease == 0);
        const struct metadata_topic *topic = topic_of(broker, request, item);
        if (!item->is_missing) { item->error = item_error(broker, request, item, topic); }
        if (!fetching->is_begun) { item->is_missing = request_error_is_missing(item->error); }
        *part = (struct part){.watermark = -1, .log_start = -1, .leader_epoch = -1, .error = item->error};
        if (part->error != KAFKA_ERROR_NONE) {
            part->is_answered = true;
            continue;
        }
        part_place(broker, part, topic, item->partition);
        part->ask_offset = item->offset;
        part->ask_epoch = (int32_t)base_max_i64(item->leader_epoch, -1); /* any below 0 is none */
        int64_t bytes_max = base_min_i64(item->bytes_max, bytes_max_of(broker, fetch));
        part->bytes_max = (uint32_t)base_max_i64(bytes_max, 0);
    }
    fetching->is_begun = true;
}

static void begin_round(struct broker *broker, struct request *request, struct port_out *out)
{
    broker->fetches_evaluated += 1;
    fill_parts(broker, request);
    request_ask(broker, request, out);
}

void fetch_read(struct broker *broker, struct request *request, struct port_out *out)
{
    uint32_t count = request->fetching->count;
    if (!request_reserve(broker, request, count * sizeof *request->parts + 16)) {
        request_starve(broker, request, RETRY_FETCH); /* a session has gone on already: not from the frame on */
        return;
    }
    request->parts = base_arena_take_array(&request->arena, count, sizeof *request->parts);
    request->part_count = count;
    begin_round(broker, request, out);
}

/* ---- answering ------------------------------------------------------------------------------------------------------------ */

/* Walks over what is told: first what was there, then what was missing. */
struct told {
    uint32_t next;
    bool is_missing;
};

static bool next_told(const struct fetching *fetching, struct told *told, uint32_t *item_out)
{
    for (;;) {
        if (told->next == fetching->count) {
            if (told->is_missing) { return false; }
            *told = (struct told){.next = 0, .is_missing = true};
            continue;
        }
        const struct fetchsession_item *item = &fetching->items[told->next];
        told->next += 1;
        if (!item->is_told || item->is_missing != told->is_missing) { continue; }
        *item_out = told->next - 1;
        return true;
    }
}

/* Neighbours of one topic stand in one. */
static bool begins_topic(const struct request *request, const struct fetchsession_item *before,
                         const struct fetchsession_item *item)
{
    return before == NULL || !fetchsession_is_same_topic(fetch_uses_ids(request), before, item);
}

static void fill_partition(const struct kafka_fetch_request *fetch, const struct fetchsession_item *item,
                           const struct part *part, uint32_t splice, struct kafka_fetch_response_partition_data *answer)
{
    answer->partition_index = item->partition;
    answer->error_code = item->error;
    answer->high_watermark = item->watermark;
    answer->last_stable_offset = item->watermark; /* no transactions: nothing is unstable */
    answer->log_start_offset = item->log_start;
    /* None, which Kafka says in two ways: null where it read uncommitted, or tried to. */
    bool is_null = !item->is_missing && (fetch->isolation_level == 0 || item->error != KAFKA_ERROR_NONE);
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
        request_starve(broker, request, request->fetching == NULL ? RETRY_DECODE : RETRY_PARTS);
        return NULL;
    }
    struct kafka_fetch_response *answer = base_arena_take(&request->arena, sizeof *answer);
    CHECK(answer != NULL);
    kafka_fetch_response_init(answer);
    return answer;
}

struct told_counts {
    int32_t topics, partitions;
};

static struct told_counts count_told(const struct request *request)
{
    const struct fetching *fetching = request->fetching;
    struct told_counts counts = {0};
    const struct fetchsession_item *before = NULL;
    struct told told = {0};
    uint32_t i;
    while (next_told(fetching, &told, &i)) {
        if (begins_topic(request, before, &fetching->items[i])) { counts.topics += 1; }
        counts.partitions += 1;
        before = &fetching->items[i];
    }
    return counts;
}

static void answer_told(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct fetching *fetching = request->fetching;
    struct told_counts counts = count_told(request);
    size_t bytes = sizeof(struct kafka_fetch_response) + 128 +
                   (size_t)counts.topics * sizeof(struct kafka_fetch_response_fetchable_topic_response) +
                   (size_t)counts.partitions * sizeof(struct kafka_fetch_response_partition_data);
    struct kafka_fetch_response *answer = new_answer(broker, request, bytes);
    if (answer == NULL) { return; }
    answer->session_id = fetching->session_id;
    answer->responses = kafka_fetch_response_fetchable_topic_response_take(&request->arena, counts.topics);
    struct kafka_fetch_response_partition_data *line =
        kafka_fetch_response_partition_data_take(&request->arena, counts.partitions);
    CHECK(answer->responses != NULL && line != NULL); /* they were reserved */
    const struct fetchsession_item *before = NULL;
    struct told told = {0};
    uint32_t i;
    while (next_told(fetching, &told, &i)) {
        const struct fetchsession_item *item = &fetching->items[i];
        if (begins_topic(request, before, item)) {
            struct kafka_fetch_response_fetchable_topic_response *topic = &answer->responses[answer->responses_count];
            topic->topic = kafka_text_of_slice(item->name);
            topic->topic_id = item->id;
            topic->partitions = line;
            answer->responses_count += 1;
        }
        fill_partition(fetch_of(request), item, &request->parts[i], i + 1, line);
        answer->responses[answer->responses_count - 1].partitions_count += 1;
        line += 1;
        before = item;
    }
    request_answer(broker, request, answer, out);
}

void fetch_refuse(struct broker *broker, struct request *request, int16_t error, struct port_out *out)
{
    request->fetching->error = error;
    request->fetching->is_judged = true;
    fetch_tell(broker, request, out);
}

void fetch_tell(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct fetching *fetching = request->fetching;
    if (fetching->error == KAFKA_ERROR_NONE) {
        answer_told(broker, request, out);
        return;
    }
    struct kafka_fetch_response *answer = new_answer(broker, request, sizeof *answer + 64);
    if (answer == NULL) { return; }
    answer->error_code = fetching->error;
    answer->session_id = fetching->session_id;
    request_answer(broker, request, answer, out);
}

/* ---- a round is over --------------------------------------------------------------------------------------------------------- */

/* Shares out max_bytes in the order of the items: a range is cut to what is left, but only the very first one may be
 * larger than it (KIP-74), so that a client with small limits still moves on. */
static int64_t share_out(const struct broker *broker, struct request *request)
{
    int64_t left = bytes_max_of(broker, fetch_of(request));
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

/* One that ends the waiting: any but that it was missing from the beginning, if there is something else to wait for. */
static bool has_error(const struct request *request)
{
    const struct fetching *fetching = request->fetching;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < request->part_count; i++) {
        if (fetching->items[i].is_missing) {
            missing += 1;
        } else if (request->parts[i].error != KAFKA_ERROR_NONE) {
            return true;
        }
    }
    return missing == request->part_count;
}

/* No watermark wakes what could only not be read now. */
static bool has_busy(const struct request *request)
{
    for (uint32_t i = 0; i < request->part_count; i++) {
        if (request->parts[i].is_busy) { return true; }
    }
    return false;
}

static void note_found(struct request *request)
{
    struct fetching *fetching = request->fetching;
    for (uint32_t i = 0; i < fetching->count; i++) {
        const struct part *part = &request->parts[i];
        struct fetchsession_item *item = &fetching->items[i];
        item->error = part->error;
        item->watermark = part->watermark;
        item->log_start = part->log_start;
        item->has_records = part->size_bytes > 0;
    }
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
        if (!part->is_asked) { return true; } /* missing */
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

/* Calls off up to UNWATCHED_AT_ONCE watches from request->part_next on, once per shard. True: all are. */
static bool unwatch_some(struct broker *broker, struct request *request, struct port_out *out)
{
    uint32_t left = UNWATCHED_AT_ONCE;
    for (; request->part_next < request->part_count && left > 0; request->part_next++) {
        const struct part *part = &request->parts[request->part_next];
        uint64_t shard_bit = UINT64_C(1) << part->shard;
        if (!part->is_watched || (request->shards_unwatched & shard_bit) != 0) { continue; }
        request->shards_unwatched |= shard_bit;
        struct port_message message;
        message_begin(&message, part->shard, MSG_UNWATCH);
        put_asker(&message, 3, request_asker(broker, request, 0));
        message_send(broker, &message, out);
        left -= 1;
    }
    return request->part_next == request->part_count;
}

/* All its watches are called off: from here on old wake-ups are not heard, and it looks once more, if there is anybody to tell. */
static void look_again(struct broker *broker, struct request *request, struct port_out *out)
{
    request->generation = next_generation(broker);
    request->state = REQUEST_WAITING;
    if (conn_is_open(broker->conns, request->conn)) {
        begin_round(broker, request, out);
    } else {
        request_answer_none(broker, request, out);
    }
}

/* A connection's requests may all end at once, and each has watches in many shards: where there is little room they wait in line. */
void fetch_woke(struct broker *broker, struct request *request, struct port_out *out)
{
    CHECK(request->state == REQUEST_PARKED);
    if (base_link_is_on(&request->link)) { base_list_remove(&broker->watching, &request->link); }
    base_list_remove(&broker->parked[request->conn_index], &request->parked_link);
    broker->parked_count -= 1;
    if (base_heap_holds(&request->deadline)) { base_heap_remove(&broker->deadlines, &request->deadline); }
    request->state = REQUEST_UNWATCHING;
    request->part_next = 0;
    request->shards_unwatched = 0;
    if (may_ask(broker) && unwatch_some(broker, request, out)) {
        look_again(broker, request, out);
    } else {
        base_list_push_back(&broker->unwatching, &request->link);
    }
}

/* Calls off more watches of the request that is first in line. */
bool fetch_unwatch(struct broker *broker, struct port_out *out)
{
    struct base_link *link = base_list_first(&broker->unwatching);
    if (link == NULL) { return false; }
    struct request *request = BASE_ITEM(link, struct request, link);
    CHECK(request->state == REQUEST_UNWATCHING);
    if (!unwatch_some(broker, request, out)) { return true; }
    base_list_remove(&broker->unwatching, link);
    look_again(broker, request, out);
    return true;
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
    if (request->fetching->is_judged) { /* it starved while it was answered */
        fetch_tell(broker, request, out);
        return;
    }
    int64_t found = share_out(broker, request);
    int64_t enough =
        base_min_i64(fetch_of(request)->min_bytes, bytes_max_of(broker, fetch_of(request))); /* no more is found */
    bool is_due = request->is_last_round || broker->is_draining || broker->now_ns >= request->deadline_ns ||
                  conn_has_ended(broker->conns, request->conn);
    if (found >= enough || has_error(request) || is_due) {
        note_found(request);
        if (session_judge(broker, request, out)) { fetch_tell(broker, request, out); }
        return;
    }
    if (request_release_all(broker, request, out)) { park(broker, request, out); }
}

/* What it had found it has given back; it waits for more, unless its peer has ended meanwhile: nothing would wake it for that again. */
void fetch_released(struct broker *broker, struct request *request, struct port_out *out)
{
    if (conn_has_ended(broker->conns, request->conn)) {
        look_again(broker, request, out);
    } else {
        park(broker, request, out);
    }
}

void fetch_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    if (fetch->isolation_level < 0 || fetch->isolation_level > ISOLATION_LEVEL_MAX) {
        request_fail(broker, request, "no such isolation level", out);
        return;
    }
    /* A connection whose requests are all waiting is not read, so that its end is not seen: no poll outlasts an idle one. */
    uint64_t wait_max_ms = broker->config.idle_ms == 0 ? UINT64_MAX : broker->config.idle_ms;
    uint64_t wait_ns = base_min_u64((uint64_t)base_max_i64(fetch->max_wait_ms, 0), wait_max_ms) * 1000000;
    if (request->deadline_ns == 0) { request->deadline_ns = base_deadline_ns(broker->now_ns, wait_ns); }
    session_begin(broker, request, out);
}
