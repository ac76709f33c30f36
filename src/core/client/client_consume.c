/* client_consume.c: offsets and fetches for the partitions that are assigned.
 *
 * Each answer holds records of many partitions; it is kept, and client_records.c gives them out one by one. The next fetch of a
 * node goes out before the last one was read, so that the wire and the reader both have work.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

#include "wire/kafka/list_offsets.h"

#define FETCH_BY_NAME_MAX (FETCH_BY_ID_FIRST - 1)
#define OFFSET_LATEST     INT64_C(-1)
#define OFFSET_EARLIEST   INT64_C(-2)
#define FETCH_SLACK_MS    5000 /* a fetch that waits fetch_wait_ms is not late before this */

static uint64_t backoff_until(struct client *client)
{
    uint64_t backoff_ns = client->config.retry_backoff_ms * MS;
    return base_deadline_ns(client->now_ns, backoff_ns / 2 + base_prng_below(&client->prng, backoff_ns + 1));
}

/* ---- assigning ---- */

void client__part_release(struct client *client, struct part *part)
{
    part->generation += 1;
    part->is_asked = false;
    part->has_failed = false;
    if (base_link_is_on(&part->assigned)) { base_list_remove(&client->assigned, &part->assigned); }
}

enum base_rc client_assign(struct client *client, const struct client_assignment *assignment)
{
    struct topic *topic = NULL;
    struct part *part = NULL;
    if (assignment->partition < 0) { return BASE_BAD; }
    enum base_rc rc = client__topic_take(client, assignment->topic, &topic);
    if (rc == BASE_OK) {
        rc = client__part_take(client, client__topic_index(client, topic), assignment->partition, &part);
    }
    if (rc != BASE_OK) { return rc; }
    client__part_release(client, part);
    base_list_push_back(&client->assigned, &part->assigned);
    part->token = assignment->token;
    part->reset = assignment->reset;
    part->position = assignment->at;
    part->consumed = assignment->at;
    part->seek_ms = assignment->at;
    part->fetch_retry_ns = 0;
    part->errors_since_ns = 0;
    part->missed_since_ns = 0;
    part->is_end_told = false;
    part->is_spoilt = false;
    part->error = KAFKA_ERROR_NONE;
    part->rc = PORT_OK;
    switch (assignment->start) {
    case CLIENT_FROM_OFFSET: part->seek = SEEK_NOT; break;
    case CLIENT_FROM_BEGINNING: part->seek = SEEK_BEGINNING; break;
    case CLIENT_FROM_END: part->seek = SEEK_END; break;
    case CLIENT_FROM_TIME: part->seek = SEEK_TIME; break;
    }
    return BASE_OK;
}

void client_unassign(struct client *client, struct base_slice topic, int32_t partition)
{
    const struct topic *found = client__topic_find(client, topic);
    struct part *part = found == NULL ? NULL : client__part_find(client, client__topic_index(client, found), partition);
    if (part != NULL) { client__part_release(client, part); }
}

void client__part_fail(struct client *client, struct part *part, int16_t error, enum port_rc rc)
{
    client->has_news = true; /* polled from the list of the assigned */
    part->has_failed = true;
    part->error = error;
    part->rc = rc;
}

/* ---- errors of one partition ---- */

static void try_later(struct client *client, struct part *part)
{
    part->fetch_retry_ns = backoff_until(client);
    client__want_metadata(client);
}

static bool is_patient(const struct client *client, struct part *part)
{
    uint64_t patience_ns = client->config.read_patience_ms * MS;
    if (part->errors_since_ns == 0) { part->errors_since_ns = client->now_ns; }
    return patience_ns == 0 || client->now_ns - part->errors_since_ns < patience_ns;
}

static void on_error(struct client *client, struct part *part, int16_t error)
{
    bool may_heal = kafka_error_is_retriable(error) || error == KAFKA_ERROR_FENCED_LEADER_EPOCH ||
                    error == KAFKA_ERROR_UNKNOWN_LEADER_EPOCH;
    if (error == KAFKA_ERROR_OFFSET_OUT_OF_RANGE && part->reset != CLIENT_RESET_FAIL) {
        part->seek = part->reset == CLIENT_RESET_BEGINNING ? SEEK_BEGINNING : SEEK_END;
        part->fetch_retry_ns = backoff_until(client);
    } else if (may_heal && error != KAFKA_ERROR_OFFSET_OUT_OF_RANGE && is_patient(client, part)) {
        if (error == KAFKA_ERROR_FENCED_LEADER_EPOCH) { part->leader_epoch = -1; }
        try_later(client, part);
    } else {
        client__part_fail(client, part, error, PORT_OK);
    }
}

/* The part that an ask was about; NULL: it has been assigned anew, or no more, since. */
static struct part *part_of(struct client *client, const struct ask *ask, uint32_t place)
{
    struct part *part = client__part(client, ask->parts[place]);
    return part->generation == ask->generations[place] && base_link_is_on(&part->assigned) ? part : NULL;
}

static struct part *part_named(struct client *client, const struct ask *ask, const struct topic *topic, int32_t index)
{
    for (uint32_t i = 0; topic != NULL && i < ask->part_count; i++) {
        struct part *part = part_of(client, ask, i);
        if (part != NULL && part->is_asked && part->index == index &&
            part->topic == client__topic_index(client, topic)) {
            return part;
        }
    }
    return NULL;
}

/* No answer for these, or none that could be read. */
void client__lost_parts(struct client *client, const struct ask *ask)
{
    for (uint32_t i = 0; i < ask->part_count; i++) {
        struct part *part = part_of(client, ask, i);
        if (part == NULL || !part->is_asked) { continue; }
        part->is_asked = false;
        try_later(client, part);
    }
}

/* ---- which partitions go into a request ---- */

/* The parts of this node that have something to ask, at most PARTS_OF_ASK. Those asked move to the end of the list, so that
 * each has its turn. */
static uint32_t gather(struct client *client, const struct node *node, bool is_seek, uint32_t parts_out[PARTS_OF_ASK])
{
    uint32_t count = 0;
    uint32_t looked = client->assigned.count;
    struct base_link *link = base_list_first(&client->assigned);
    while (looked > 0 && count < PARTS_OF_ASK) {
        struct part *part = BASE_ITEM(link, struct part, assigned);
        link = base_list_next(&client->assigned, link);
        looked -= 1;
        const struct topic *topic = &client->topics[part->topic];
        bool is_due = part->leader == node->id && !part->is_asked && !part->has_failed &&
                      part->fetch_retry_ns <= client->now_ns && (part->seek != SEEK_NOT) == is_seek &&
                      topic->state == CLIENT_TOPIC_KNOWN;
        if (is_seek && part->queued > 0) { continue; } /* first what was fetched before */
        if (!is_due) { continue; }
        parts_out[count] = client__part_index(client, part);
        count += 1;
        base_list_remove(&client->assigned, &part->assigned);
        base_list_push_back(&client->assigned, &part->assigned);
    }
    return count;
}

static void note_asked(struct client *client, struct ask *ask, const uint32_t *parts, uint32_t count)
{
    ask->part_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct part *part = client__part(client, parts[i]);
        ask->parts[i] = parts[i];
        ask->generations[i] = part->generation;
        part->is_asked = true;
    }
}

static int32_t count_of_topic(const struct client *client, const uint32_t *parts, uint32_t count, uint32_t topic)
{
    int32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (client__part(client, parts[i])->topic == topic) { found += 1; }
    }
    return found;
}

/* ---- ListOffsets ---- */

static int64_t timestamp_of(const struct part *part)
{
    switch (part->seek) {
    case SEEK_BEGINNING: return OFFSET_EARLIEST;
    case SEEK_TIME: return part->seek_ms;
    case SEEK_NOT:
    case SEEK_END: return OFFSET_LATEST;
    }
    return OFFSET_LATEST;
}

static void ask_offsets(struct client *client, struct node *node, struct port_out *out)
{
    uint32_t parts[PARTS_OF_ASK];
    uint32_t count = gather(client, node, true, parts);
    if (count == 0) { return; }
    int16_t version = client__version(node, KAFKA_API_LIST_OFFSETS, INT16_MAX);
    struct base_arena scratch = client__scratch(client);
    struct kafka_list_offsets_request request;
    kafka_list_offsets_request_init(&request);
    request.replica_id = -1;
    request.isolation_level = client->config.is_read_committed ? 1 : 0;
    request.timeout_ms = (int32_t)base_min_u64(client->config.request_timeout_ms, INT32_MAX);
    request.topics = kafka_list_offsets_request_list_offsets_topic_take(&scratch, (int32_t)count);
    CHECK(request.topics != NULL); /* PARTS_OF_ASK fit the scratch */
    for (uint32_t i = 0; i < count; i++) {
        const struct part *part = client__part(client, parts[i]);
        struct base_slice name = client__topic_name(&client->topics[part->topic]);
        int32_t at = 0;
        while (at < request.topics_count && !base_slice_equal(kafka_text_slice(request.topics[at].name), name)) {
            at += 1;
        }
        struct kafka_list_offsets_request_list_offsets_topic *topic = &request.topics[at];
        if (at == request.topics_count) {
            request.topics_count += 1;
            topic->name = kafka_text_of_slice(name);
            topic->partitions =
                kafka_list_offsets_request_list_offsets_partition_take(&scratch, count_of_topic(client, parts, count,
                                                                                                part->topic));
            CHECK(topic->partitions != NULL); /* PARTS_OF_ASK fit the scratch */
        }
        topic->partitions[topic->partitions_count].partition_index = part->index;
        topic->partitions[topic->partitions_count].current_leader_epoch = part->leader_epoch;
        topic->partitions[topic->partitions_count].timestamp = timestamp_of(part);
        topic->partitions_count += 1;
    }
    struct ask *ask = NULL;
    enum base_rc rc = version < 0 ? BASE_BAD
                                  : client__send(client, node, ASK_OFFSETS, KAFKA_API_LIST_OFFSETS, version, &request,
                                                 false, client->config.request_timeout_ms, out, &ask);
    if (rc == BASE_OK) { note_asked(client, ask, parts, count); }
    if (rc == BASE_FULL) { client__later(client); }
    for (uint32_t i = 0; i < count && rc == BASE_BAD; i++) {
        client__part_fail(client, client__part(client, parts[i]), KAFKA_ERROR_UNSUPPORTED_VERSION, PORT_OK);
    }
}

static void on_offset(struct client *client, struct part *part,
                      const struct kafka_list_offsets_response_list_offsets_partition_response *answer)
{
    part->is_asked = false;
    if (answer->error_code != KAFKA_ERROR_NONE) {
        on_error(client, part, answer->error_code);
        return;
    }
    part->errors_since_ns = 0;
    if (part->seek == SEEK_TIME && answer->offset < 0) { /* nothing that new: what comes next is */
        part->seek = SEEK_END;
        return;
    }
    if (answer->offset < 0) {
        try_later(client, part);
        return;
    }
    part->seek = SEEK_NOT;
    part->position = answer->offset;
    part->consumed = answer->offset;
    part->is_end_told = false;
}

void client__on_offsets(struct client *client, const struct ask *ask, struct base_slice body)
{
    void *decoded = NULL;
    uint8_t *memory = NULL;
    struct base_arena arena;
    if (client__decode(client, KAFKA_MESSAGE_LIST_OFFSETS_RESPONSE, body, ask->version, 0, &decoded, &memory, &arena) !=
        BASE_OK) {
        client__lost_parts(client, ask);
        return;
    }
    const struct kafka_list_offsets_response *answer = decoded;
    for (int32_t i = 0; i < answer->topics_count; i++) {
        const struct topic *topic = client__topic_find(client, kafka_text_slice(answer->topics[i].name));
        for (int32_t j = 0; j < answer->topics[i].partitions_count; j++) {
            const struct kafka_list_offsets_response_list_offsets_partition_response *given =
                &answer->topics[i].partitions[j];
            struct part *part = part_named(client, ask, topic, given->partition_index);
            if (part != NULL) { on_offset(client, part, given); }
        }
    }
    client__give(client, memory);
    client__lost_parts(client, ask); /* those that the answer has left out */
}

/* ---- Fetch ---- */

static void ask_records(struct client *client, struct node *node, struct port_out *out)
{
    uint32_t parts[PARTS_OF_ASK];
    uint32_t count = gather(client, node, false, parts);
    if (count == 0) { return; }
    int16_t cap = INT16_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const struct part *part = client__part(client, parts[i]);
        if (base_uuid_is_none(client->topics[part->topic].id)) { cap = FETCH_BY_NAME_MAX; }
    }
    int16_t version = client__version(node, KAFKA_API_FETCH, cap);
    struct base_arena scratch = client__scratch(client);
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.max_wait_ms = (int32_t)client->config.fetch_wait_ms;
    request.min_bytes = (int32_t)client->config.fetch_bytes_min;
    request.max_bytes = (int32_t)client->config.fetch_bytes_max;
    request.isolation_level = client->config.is_read_committed ? 1 : 0;
    struct session next;
    client__session_fill(client, node, parts, count, version, &scratch, &request, &next);
    uint64_t timeout_ms =
        base_max_u64(client->config.request_timeout_ms, (uint64_t)client->config.fetch_wait_ms + FETCH_SLACK_MS);
    struct ask *ask = NULL;
    enum base_rc rc = version < 0 ? BASE_BAD
                                  : client__send(client, node, ASK_FETCH, KAFKA_API_FETCH, version, &request, false,
                                                 timeout_ms, out, &ask);
    if (rc == BASE_OK) {
        note_asked(client, ask, parts, count);
        ask->session_epoch = request.session_epoch;
        node->session = next;
    }
    if (rc == BASE_FULL) { client__later(client); }
    for (uint32_t i = 0; i < count && rc == BASE_BAD; i++) {
        client__part_fail(client, client__part(client, parts[i]), KAFKA_ERROR_UNSUPPORTED_VERSION, PORT_OK);
    }
}

/* Where the next fetch begins: after the last whole batch. */
static void advance(struct part *part, struct base_slice records)
{
    struct rec_batch batch;
    while (rec_batch_next(&records, &batch) == REC_OK) {
        if (rec_offset_end(&batch) > part->position) { part->position = rec_offset_end(&batch); }
    }
}

static void take_piece(struct client *client, struct fetched *fetched, struct part *part, struct base_uuid topic_id,
                       struct kafka_fetch_response_partition_data *data)
{
    part->is_asked = false;
    if (data->error_code != KAFKA_ERROR_NONE) {
        on_error(client, part, data->error_code);
        return;
    }
    part->errors_since_ns = 0;
    bool has_end = client->config.is_read_committed && data->last_stable_offset >= 0;
    fetched->pieces[fetched->piece_count] = (struct piece){
        .part = client__part_index(client, part),
        .generation = part->generation,
        .topic_id = topic_id,
        .rest = kafka_records_slice(data->records),
        .end_offset = has_end ? data->last_stable_offset : data->high_watermark,
        .aborted = client->config.is_read_committed ? data->aborted_transactions : NULL,
        .aborted_count = data->aborted_transactions_count < 0 ? 0 : data->aborted_transactions_count,
    };
    fetched->piece_count += 1;
    part->queued += 1;
    struct base_slice records = kafka_records_slice(data->records);
    /* Others come first into the next request: without a session a broker fills in its order. */
    if (records.size_bytes > 0) {
        base_list_remove(&client->assigned, &part->assigned);
        base_list_push_back(&client->assigned, &part->assigned);
    }
    advance(part, records);
}

static void take_pieces(struct client *client, const struct ask *ask, struct fetched *fetched,
                        const struct kafka_fetch_response *answer)
{
    for (int32_t i = 0; i < answer->responses_count; i++) {
        struct kafka_fetch_response_fetchable_topic_response *of_topic = &answer->responses[i];
        const struct topic *topic = ask->version > FETCH_BY_NAME_MAX
                                        ? client__topic_by_id(client, of_topic->topic_id)
                                        : client__topic_find(client, kafka_text_slice(of_topic->topic));
        for (int32_t j = 0; j < of_topic->partitions_count; j++) {
            struct part *part = part_named(client, ask, topic, of_topic->partitions[j].partition_index);
            if (part != NULL && fetched->piece_count < ask->part_count) {
                take_piece(client, fetched, part, of_topic->topic_id, &of_topic->partitions[j]);
            }
        }
    }
}

/* What a session's answer has left out is as it was: that its end was reached may still have to be told. */
static void take_unchanged(struct client *client, const struct ask *ask, struct fetched *fetched)
{
    for (uint32_t i = 0; i < ask->part_count; i++) {
        struct part *part = part_of(client, ask, i);
        if (part == NULL || !part->is_asked) { continue; }
        part->is_asked = false;
        int64_t end_offset = client__session_end_offset(client, &client->nodes[ask->node], part);
        if (part->is_end_told || end_offset < 0) { continue; }
        fetched->pieces[fetched->piece_count] = (struct piece){.part = client__part_index(client, part),
                                                               .generation = part->generation,
                                                               .end_offset = end_offset};
        fetched->piece_count += 1;
        part->queued += 1;
    }
}

/* Nothing came of it, and it may be asked again at once. */
static void ask_again(struct client *client, const struct ask *ask)
{
    for (uint32_t i = 0; i < ask->part_count; i++) {
        struct part *part = part_of(client, ask, i);
        if (part != NULL) { part->is_asked = false; }
    }
}

void client__on_fetched(struct client *client, const struct ask *ask, struct base_slice frame, struct base_slice body)
{
    void *decoded = NULL;
    uint8_t *memory = NULL;
    struct base_arena arena;
    uint32_t slot = base_pool_take(&client->fetched_pool);
    uint8_t *kept = slot == BASE_POOL_NONE ? NULL : client__keep_frame(client, frame, &body);
    size_t pieces_bytes = ask->part_count * sizeof(struct piece) + 64;
    if (kept == NULL || client__decode(client, KAFKA_MESSAGE_FETCH_RESPONSE, body, ask->version, pieces_bytes, &decoded,
                                       &memory, &arena) != BASE_OK) {
        client__give(client, kept);
        if (slot != BASE_POOL_NONE) { base_pool_give(&client->fetched_pool, slot); }
        client__session_lost(&client->nodes[ask->node]); /* what it has told is not told again */
        client__lost_parts(client, ask);
        return;
    }
    const struct kafka_fetch_response *answer = decoded;
    struct fetched *fetched = base_pool_at(&client->fetched_pool, slot);
    fetched->frame = kept;
    fetched->memory = memory;
    fetched->node = ask->node;
    fetched->pieces = base_arena_take_array(&arena, ask->part_count, sizeof(struct piece));
    CHECK(fetched->pieces != NULL); /* extra bytes were asked for */
    base_list_push_back(&client->fetched, &fetched->link);
    client->nodes[ask->node].fetched_count += 1;
    enum session_news news = client__session_answered(client, &client->nodes[ask->node], ask, answer);
    bool is_told = news == SESSION_ALL_TOLD || news == SESSION_CHANGES_TOLD;
    if (is_told) { take_pieces(client, ask, fetched, answer); }
    if (news == SESSION_CHANGES_TOLD) { take_unchanged(client, ask, fetched); }
    if (news == SESSION_OVER) { ask_again(client, ask); }
    client__lost_parts(client, ask); /* those that a full answer has left out, or all */
    if (fetched->piece_count == 0) { client__fetched_free(client, fetched); }
}

/* ---- the turn ---- */

/* It has no leader, or one that can't be reached, though others of the cluster answer. */
static void miss_leader(struct client *client, struct part *part)
{
    uint64_t patience_ns = client->config.read_patience_ms * MS;
    if (patience_ns == 0) { return; }
    if (client__node_any(client) == NULL) {
        part->missed_since_ns = 0;
        return;
    }
    if (part->missed_since_ns == 0) { part->missed_since_ns = client->now_ns; }
    uint64_t deadline_ns = base_deadline_ns(part->missed_since_ns, patience_ns);
    if (deadline_ns <= client->now_ns) {
        client__part_fail(client, part, KAFKA_ERROR_LEADER_NOT_AVAILABLE, PORT_OK);
    } else {
        client__alarm(client, deadline_ns);
    }
}

void client__turn_consumer(struct client *client, struct port_out *out)
{
    if (client->is_closing) { return; }
    for (struct base_link *link = base_list_first(&client->assigned); link != NULL;
         link = base_list_next(&client->assigned, link)) {
        struct part *part = BASE_ITEM(link, struct part, assigned);
        const struct topic *topic = &client->topics[part->topic];
        if (part->has_failed || part->is_asked) { continue; }
        if (topic->state == CLIENT_TOPIC_FAILED) {
            client__part_fail(client, part, topic->error, PORT_OK);
        } else if (client__is_owned(part) && topic->state == CLIENT_TOPIC_KNOWN &&
                   part->index >= topic->partition_count) {
            client__want_metadata(client); /* the leader of the group has seen it before us */
        } else if (topic->state == CLIENT_TOPIC_KNOWN && part->index >= topic->partition_count) {
            client__part_fail(client, part, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION, PORT_OK);
        } else if (part->leader < 0) {
            client__want_metadata(client);
            miss_leader(client, part);
        } else if (client__node_use(client, part->leader) == NULL) { /* dials it */
            miss_leader(client, part);
        } else {
            part->missed_since_ns = 0;
            if (part->fetch_retry_ns > client->now_ns) { client__alarm(client, part->fetch_retry_ns); }
        }
    }
    for (uint32_t i = 0; i < client->config.nodes_max && client->assigned.count > 0; i++) {
        struct node *node = &client->nodes[i];
        if (!node->is_used || node->is_bootstrap || node->is_coordinator || node->state != NODE_READY) { continue; }
        if (!client__may_work(client, out)) { return; }
        if (client__can_send(client, node, out)) { ask_offsets(client, node, out); }
        bool has_enough = node->is_fetching || node->fetched_count >= FETCHED_OF_NODE;
        if (!has_enough && client__can_send(client, node, out)) { ask_records(client, node, out); }
    }
}
