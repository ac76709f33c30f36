/* broker__session.c: fetch sessions: what a Fetch is about, told by its request or by the session it goes on with; and the sessions that
 * live on this shard, asked by the fronts of all.
 *
 * A session lives on the shard whose front opened it, and its id says which (fetchsession_shard): a client that comes back to
 * another shard finds it there. See docs/decisions/0007-fetch-sessions-live-where-they-were-opened.md.
 *
 *   front                                  the session's shard
 *     MSG_SESSION, begin          ->       epochs compared, the session changed, its list lent
 *     rounds of reads, parked or not       (broker__fetch.c)
 *     MSG_SESSION, judge          ->       what must be told is marked, and noted as told
 *     the answer has left, or there is none any more
 *     MSG_SESSION_END             ->       the list is taken back; a fetch of the same connection that has waited begins
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/fetch.h"

#define NS_PER_MS UINT64_C(1000000)

static const struct kafka_fetch_request *fetch_of(const struct request *request) { return request->decoded; }

/* ---- what the request says ------------------------------------------------------------------------------------------------ */

struct counts {
    uint32_t items, forgotten;
};

static struct counts count_of(const struct kafka_fetch_request *fetch)
{
    struct counts counts = {0};
    for (int32_t t = 0; t < fetch->topics_count; t++) { counts.items += (uint32_t)fetch->topics[t].partitions_count; }
    for (int32_t t = 0; t < fetch->forgotten_topics_data_count; t++) {
        counts.forgotten += (uint32_t)fetch->forgotten_topics_data[t].partitions_count;
    }
    return counts;
}

/* What an id is called is asked once, at the beginning, as Kafka does: a topic that goes meanwhile keeps its name for this fetch. */
static struct base_slice name_in(struct broker *broker, const struct request *request, struct kafka_text name,
                                 struct base_uuid id, struct base_arena *arena)
{
    if (!fetch_uses_ids(request)) { return kafka_text_slice(name); }
    const struct metadata_topic *topic = metadata_topic_by_id(broker->image, id);
    if (topic == NULL) { return base_slice_of(NULL, 0); }
    uint8_t *copy = base_arena_take_bytes(arena, topic->name_bytes); /* the image may change while it waits */
    CHECK(copy != NULL);
    memcpy(copy, topic->name, topic->name_bytes);
    return base_slice_of(copy, topic->name_bytes);
}

static uint64_t hash_of(const struct broker *broker, const struct request *request, struct base_slice name,
                        struct base_uuid id, int32_t partition)
{
    uint64_t seed = broker->session_seed + (uint32_t)partition;
    if (fetch_uses_ids(request)) { return base_hash_bytes(id.b, sizeof id.b, seed); }
    return base_hash_bytes(name.at, name.size_bytes, seed);
}

/* One that the request has named before gets the later words at the earlier place (Kafka keeps them in a LinkedHashMap). */
static void put_item(const struct broker *broker, const struct request *request, struct fetching *fetching,
                     struct base_map *map, const struct fetchsession_item *item)
{
    uint64_t hash = hash_of(broker, request, item->name, item->id, item->partition);
    for (uint32_t at = base_map_first(map, hash); at != BASE_MAP_NONE; at = base_map_next(map, hash, at)) {
        struct fetchsession_item *before = &fetching->items[base_map_value(map, at)];
        bool is_it =
            before->partition == item->partition && fetchsession_is_same_topic(fetch_uses_ids(request), before, item);
        if (!is_it) { continue; }
        *before = *item;
        return;
    }
    enum base_rc rc = base_map_insert(map, hash, fetching->count);
    CHECK(rc == BASE_OK); /* it was made for all of them */
    fetching->items[fetching->count] = *item;
    fetching->count += 1;
}

static size_t names_bytes(const struct broker *broker, const struct request *request)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    size_t bytes = 0;
    for (int32_t t = 0; fetch_uses_ids(request) && t < fetch->topics_count; t++) {
        const struct metadata_topic *topic = metadata_topic_by_id(broker->image, fetch->topics[t].topic_id);
        if (topic != NULL) { bytes += topic->name_bytes; }
    }
    return bytes;
}

static void fill_items(struct broker *broker, struct request *request, struct base_map *map)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    struct fetching *fetching = request->fetching;
    for (int32_t t = 0; t < fetch->topics_count; t++) {
        const struct kafka_fetch_request_fetch_topic *topic = &fetch->topics[t];
        struct base_slice name = name_in(broker, request, topic->topic, topic->topic_id, &request->arena);
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            const struct kafka_fetch_request_fetch_partition *asked = &topic->partitions[p];
            struct fetchsession_item item = {.name = name,
                                             .partition = asked->partition,
                                             .bytes_max = asked->partition_max_bytes,
                                             .leader_epoch = asked->current_leader_epoch,
                                             .offset = asked->fetch_offset,
                                             .watermark = -1,
                                             .log_start = -1};
            if (fetch_uses_ids(request)) { item.id = topic->topic_id; }
            put_item(broker, request, fetching, map, &item);
        }
    }
}

static void fill_forgotten(const struct request *request, struct fetchsession_item *forgotten)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    uint32_t at = 0;
    for (int32_t t = 0; t < fetch->forgotten_topics_data_count; t++) {
        const struct kafka_fetch_request_forgotten_topic *topic = &fetch->forgotten_topics_data[t];
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            forgotten[at] = (struct fetchsession_item){.partition = topic->partitions[p]};
            if (fetch_uses_ids(request)) {
                forgotten[at].id = topic->topic_id;
            } else {
                forgotten[at].name = kafka_text_slice(topic->topic);
            }
            at += 1;
        }
    }
}

static uint64_t user_of(const struct broker *broker, const struct request *request)
{
    return (uint64_t)(broker->config.shard + 1) << 56 | (uint64_t)request->conn.generation << 24 |
           (request->conn_index & 0xffffff);
}

/* False: no memory now, and it starves. */
static bool take_fetching(struct broker *broker, struct request *request)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    struct counts counts = count_of(fetch);
    size_t bytes = sizeof(struct fetching) +
                   ((size_t)counts.items + counts.forgotten) * sizeof(struct fetchsession_item) +
                   base_map_bytes(counts.items) + names_bytes(broker, request) + 128;
    if (!request_reserve(broker, request, bytes)) {
        request_starve(broker, request, RETRY_DECODE);
        return false;
    }
    struct fetching *fetching = base_arena_take_array(&request->arena, 1, sizeof *fetching);
    struct fetchsession_item *items = base_arena_take(&request->arena, counts.items * sizeof *items);
    struct fetchsession_item *forgotten = base_arena_take(&request->arena, counts.forgotten * sizeof *forgotten);
    struct base_map map;
    enum base_rc rc = base_map_create(&request->arena, counts.items, &map);
    CHECK(fetching != NULL && items != NULL && forgotten != NULL && rc == BASE_OK); /* they were reserved */
    fetching->items = items;
    request->fetching = fetching;
    fill_items(broker, request, &map);
    fill_forgotten(request, forgotten);
    fetching->loan.ask = (struct fetchsession_ask){.user = user_of(broker, request),
                                                   .order = request->order,
                                                   .id = fetch->session_id,
                                                   .epoch = fetch->session_epoch,
                                                   .uses_ids = fetch_uses_ids(request),
                                                   .items = items,
                                                   .count = fetching->count,
                                                   .forgotten = forgotten,
                                                   .forgotten_count = counts.forgotten};
    return true;
}

/* ---- the front -------------------------------------------------------------------------------------------------------------- */

static void ask_session(struct broker *broker, struct request *request, enum session_word word, struct port_out *out)
{
    struct fetching *fetching = request->fetching;
    fetching->loan.asker = request_asker(broker, request, 0);
    request->state = REQUEST_CONTROLLED;
    struct port_message message;
    message_begin(&message, fetching->shard, MSG_SESSION)->words[0] = (uint64_t)word;
    message.lent = &fetching->loan;
    message.lent_bytes = sizeof fetching->loan;
    message_send(broker, &message, out);
}

void session_begin(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    if (!take_fetching(broker, request)) { return; }
    struct fetching *fetching = request->fetching;
    fetching->shard = fetchsession_shard(fetch->session_id, broker->config.shards);
    bool is_full =
        fetch->session_epoch == FETCHSESSION_EPOCH_INITIAL || fetch->session_epoch == FETCHSESSION_EPOCH_FINAL;
    bool has_shard = fetching->shard < broker->config.shards;
    if (!is_full && has_shard) {
        ask_session(broker, request, SESSION_BEGIN, out);
        return;
    }
    if (!is_full) {
        fetch_refuse(broker, request, KAFKA_ERROR_FETCH_SESSION_ID_NOT_FOUND, out);
        return;
    }
    if (has_shard) { /* whatever comes of the rest, the session that it names is over */
        struct port_message message;
        message_begin(&message, fetching->shard, MSG_SESSION_CLOSE)->words[0] = (uint64_t)(uint32_t)fetch->session_id;
        message_send(broker, &message, out);
    }
    fetch_read(broker, request, out);
}

static int16_t error_of(enum fetchsession_verdict verdict)
{
    switch (verdict) {
    case FETCHSESSION_NOT_FOUND: return KAFKA_ERROR_FETCH_SESSION_ID_NOT_FOUND;
    case FETCHSESSION_BAD_EPOCH: return KAFKA_ERROR_INVALID_FETCH_SESSION_EPOCH;
    case FETCHSESSION_BAD_KIND: return KAFKA_ERROR_FETCH_SESSION_TOPIC_ID_ERROR;
    case FETCHSESSION_GOES_ON:
    case FETCHSESSION_EMPTY:
    case FETCHSESSION_WAITS:
    case FETCHSESSION_NO_ROOM: break;
    }
    UNREACHABLE();
}

/* The session's shard has answered. */
void session_done(struct broker *broker, struct request *request, struct port_out *out)
{
    struct fetching *fetching = request->fetching;
    if (fetching->is_judging) {
        fetching->is_judging = false;
        fetching->is_judged = true;
        fetching->session_id = fetching->loan.list->id;
        if (!fetching->loan.is_current) { fetching->error = KAFKA_ERROR_INVALID_FETCH_SESSION_EPOCH; }
        fetch_tell(broker, request, out);
        return;
    }
    switch (fetching->loan.verdict) {
    case FETCHSESSION_GOES_ON:
        fetching->items = fetching->loan.list->items;
        fetching->count = fetching->loan.list->count;
        fetch_read(broker, request, out);
        return;
    case FETCHSESSION_EMPTY: fetch_read(broker, request, out); return; /* what the request itself names */
    case FETCHSESSION_NO_ROOM: request_starve(broker, request, RETRY_DECODE); return;
    case FETCHSESSION_NOT_FOUND:
    case FETCHSESSION_BAD_EPOCH:
    case FETCHSESSION_BAD_KIND: fetch_refuse(broker, request, error_of(fetching->loan.verdict), out); return;
    case FETCHSESSION_WAITS: break; /* answered when its turn has come */
    }
    UNREACHABLE();
}

/* What was found stands in the items. Before the answer is built: which of it is told, and under which session. */
bool session_judge(struct broker *broker, struct request *request, struct port_out *out)
{
    const struct kafka_fetch_request *fetch = fetch_of(request);
    struct fetching *fetching = request->fetching;
    if (fetching->is_judged) { return true; }
    if (fetching->loan.list != NULL) {
        fetching->is_judging = true;
        ask_session(broker, request, SESSION_JUDGE, out);
        return false;
    }
    for (uint32_t i = 0; i < fetching->count; i++) { fetching->items[i].is_told = true; }
    fetching->is_judged = true;
    if (fetch->session_epoch == FETCHSESSION_EPOCH_INITIAL) {
        fetching->session_id =
            fetchsession_open(broker->sessions, fetching->items, fetching->count, fetch_uses_ids(request),
                              fetch_is_replica(request), broker->now_ns / NS_PER_MS);
    }
    return true;
}

/* The request is over. */
void session_end(struct broker *broker, struct request *request, struct port_out *out)
{
    struct fetching *fetching = request->fetching;
    if (fetching == NULL || fetching->loan.list == NULL) { return; }
    struct port_message message;
    message_begin(&message, fetching->shard, MSG_SESSION_END);
    message.lent = fetching->loan.list;
    message.lent_bytes = sizeof *fetching->loan.list;
    message_send(broker, &message, out);
    fetching->loan.list = NULL;
}

/* ---- the session's shard --------------------------------------------------------------------------------------------------- */

static void answer(struct broker *broker, const struct session_loan *loan, struct port_out *out)
{
    struct port_message message;
    message_begin(&message, loan->asker.shard, MSG_SESSION_DONE);
    put_asker(&message, 0, loan->asker);
    message_send(broker, &message, out);
}

static void begin(struct broker *broker, struct session_loan *loan, struct port_out *out)
{
    loan->verdict =
        fetchsession_begin(broker->sessions, &loan->ask, broker->image, broker->now_ns / NS_PER_MS, &loan->list);
    if (loan->verdict != FETCHSESSION_WAITS) { answer(broker, loan, out); }
}

static void end(struct broker *broker, struct fetchsession_list *list, struct port_out *out)
{
    uint32_t session = fetchsession_end(broker->sessions, list);
    struct fetchsession_ask *ask; /* of one connection: no more than it may have in flight */
    while ((ask = fetchsession_next(broker->sessions, session)) != NULL) {
        begin(broker, BASE_ITEM(ask, struct session_loan, ask), out);
    }
}

void session_message(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    switch (message->kind) {
    case MSG_SESSION: {
        struct session_loan *loan = message->lent;
        if (message->words[0] == SESSION_BEGIN) {
            begin(broker, loan, out);
        } else {
            loan->is_current = fetchsession_judge(broker->sessions, loan->list);
            answer(broker, loan, out);
        }
        break;
    }
    case MSG_SESSION_END: end(broker, message->lent, out); break;
    case MSG_SESSION_CLOSE: fetchsession_close(broker->sessions, (int32_t)(uint32_t)message->words[0]); break;
    default: UNREACHABLE();
    }
    CHECK_SLOW(broker->config.is_check_slow, fetchsession_is_sound(broker->sessions));
}
