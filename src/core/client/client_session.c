/* client_session.c: the fetch session with each node (KIP-227): what the node knows that we follow, so that it need not be said again.
 *
 *   none, or lost -a full fetch-> open -incremental fetches-> open ... -an error, a lost answer-> lost: the next fetch is a full one, and
 *   names the session that it ends. A node that has no room for one answers with none, and each fetch is a full one.
 * One fetch of a node is under way at a time. What the next session is stands in a copy until the request is sent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

static bool is_same_topic(const struct followed *a, const struct followed *b)
{
    return a->topic == b->topic && base_uuid_equal(a->id, b->id);
}

static const struct followed *find_followed(const struct session *session, const struct followed *wanted)
{
    for (uint32_t i = 0; i < session->count; i++) {
        const struct followed *followed = &session->followed[i];
        if (followed->partition == wanted->partition && is_same_topic(followed, wanted)) { return followed; }
    }
    return NULL;
}

static struct followed wanted_of(const struct client *client, uint32_t part_index, bool uses_ids)
{
    const struct part *part = client__part(client, part_index);
    struct followed wanted = {.topic = part->topic,
                              .partition = part->index,
                              .offset = part->position,
                              .leader_epoch = part->leader_epoch,
                              .end = -1};
    if (uses_ids) { wanted.id = client->topics[part->topic].id; }
    return wanted;
}

static int32_t epoch_after(int32_t epoch) { return epoch == INT32_MAX ? 1 : epoch + 1; }

/* ---- asking ---- */

static void put_wanted(const struct client *client, struct base_arena *scratch, struct kafka_fetch_request *request,
                       const struct followed *wanted, uint32_t room)
{
    struct kafka_fetch_request_fetch_topic *topic = NULL;
    struct base_slice name = client__topic_name(&client->topics[wanted->topic]);
    for (int32_t i = 0; i < request->topics_count && topic == NULL; i++) {
        bool is_it = base_slice_equal(kafka_text_slice(request->topics[i].topic), name);
        if (is_it) { topic = &request->topics[i]; }
    }
    if (topic == NULL) {
        topic = &request->topics[request->topics_count];
        request->topics_count += 1;
        topic->topic = kafka_text_of_slice(name);
        topic->topic_id = wanted->id;
        topic->partitions = kafka_fetch_request_fetch_partition_take(scratch, (int32_t)room);
        CHECK(topic->partitions != NULL); /* FOLLOWED_BYTES: each topic has room for all its partitions */
    }
    struct kafka_fetch_request_fetch_partition *line = &topic->partitions[topic->partitions_count];
    topic->partitions_count += 1;
    line->partition = wanted->partition;
    line->current_leader_epoch = wanted->leader_epoch;
    line->fetch_offset = wanted->offset;
    line->partition_max_bytes = (int32_t)client->config.fetch_partition_bytes_max;
}

static uint32_t count_of_topic(const struct followed *wanted, uint32_t count, uint32_t topic)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) { found += wanted[i].topic == topic ? 1 : 0; }
    return found;
}

static void put_forgotten(const struct client *client, struct base_arena *scratch, struct kafka_fetch_request *request,
                          const struct followed *gone)
{
    struct kafka_fetch_request_forgotten_topic *line =
        &request->forgotten_topics_data[request->forgotten_topics_data_count];
    request->forgotten_topics_data_count += 1;
    line->topic = kafka_text_of_slice(client__topic_name(&client->topics[gone->topic]));
    line->topic_id = gone->id;
    line->partitions = base_arena_take_array(scratch, 1, sizeof *line->partitions);
    CHECK(line->partitions != NULL); /* FOLLOWED_BYTES */
    line->partitions[0] = gone->partition;
    line->partitions_count = 1;
}

#define FOLLOWED_BYTES                                                                                                \
    (PARTS_OF_ASK *                                                                                                   \
     (sizeof(struct kafka_fetch_request_fetch_topic) + 16 + sizeof(struct kafka_fetch_request_fetch_partition) + 16 + \
      sizeof(struct kafka_fetch_request_forgotten_topic) + sizeof(int32_t) + 16 + 16))
_Static_assert(FOLLOWED_BYTES + 64 <= SCRATCH_BYTES, "a fetch of PARTS_OF_ASK partitions fits the scratch");

/* Whether the session knows it as it is wanted now: then it need not be said. */
static bool is_known(const struct session *before, const struct followed *wanted, struct followed *wanted_out)
{
    const struct followed *known = find_followed(before, wanted);
    *wanted_out = *wanted;
    if (known == NULL) { return false; }
    wanted_out->end = known->end;
    return known->offset == wanted->offset && known->leader_epoch == wanted->leader_epoch;
}

void client__session_fill(struct client *client, const struct node *node, const uint32_t *parts, uint32_t count,
                          int16_t version, struct base_arena *scratch, struct kafka_fetch_request *request,
                          struct session *next)
{
    const struct session *before = &node->session;
    bool uses_ids = version >= FETCH_BY_ID_FIRST;
    bool has_sessions = version >= FETCH_SESSIONS_FIRST && client->config.uses_fetch_sessions;
    bool goes_on = has_sessions && uses_ids == before->uses_ids; /* one by id is no longer one by name */
    int32_t epoch = goes_on ? before->epoch : 0;
    bool is_full = epoch == 0;
    *next = (struct session){.id = before->id, .epoch = epoch, .uses_ids = uses_ids, .count = count};
    request->session_id = has_sessions ? before->id : 0;
    request->session_epoch = has_sessions ? epoch : -1;
    struct followed wanted[PARTS_OF_ASK];
    for (uint32_t i = 0; i < count; i++) { wanted[i] = wanted_of(client, parts[i], uses_ids); }
    request->topics = kafka_fetch_request_fetch_topic_take(scratch, (int32_t)count);
    request->forgotten_topics_data = kafka_fetch_request_forgotten_topic_take(scratch, PARTS_OF_ASK);
    CHECK(request->topics != NULL && request->forgotten_topics_data != NULL); /* FOLLOWED_BYTES */
    for (uint32_t i = 0; i < count; i++) {
        bool needs_no_word = is_known(before, &wanted[i], &next->followed[i]) && !is_full;
        if (needs_no_word) { continue; }
        put_wanted(client, scratch, request, &wanted[i], count_of_topic(wanted, count, wanted[i].topic));
    }
    for (uint32_t i = 0; i < before->count && !is_full; i++) {
        /* a topic made anew is another: its old id is forgotten */
        if (find_followed(next, &before->followed[i]) == NULL) {
            put_forgotten(client, scratch, request, &before->followed[i]);
        }
    }
}

/* ---- answers ---- */

void client__session_lost(struct node *node) { node->session.epoch = 0; } /* its id stays, to be named as ended */

int64_t client__session_end_offset(struct client *client, const struct node *node, const struct part *part)
{
    struct followed wanted = wanted_of(client, client__part_index(client, part), node->session.uses_ids);
    const struct followed *followed = find_followed(&node->session, &wanted);
    return followed == NULL ? -1 : followed->end;
}

/* Notes where the node said that each partition ends: it says no more until that changes. */
static void note_ends(const struct client *client, struct session *session, const struct kafka_fetch_response *answer)
{
    for (int32_t i = 0; i < answer->responses_count; i++) {
        const struct kafka_fetch_response_fetchable_topic_response *of_topic = &answer->responses[i];
        for (uint32_t j = 0; j < session->count; j++) {
            struct followed *followed = &session->followed[j];
            bool is_it = session->uses_ids ? base_uuid_equal(followed->id, of_topic->topic_id)
                                           : base_slice_equal(client__topic_name(&client->topics[followed->topic]),
                                                              kafka_text_slice(of_topic->topic));
            for (int32_t p = 0; is_it && p < of_topic->partitions_count; p++) {
                const struct kafka_fetch_response_partition_data *data = &of_topic->partitions[p];
                if (data->partition_index != followed->partition) { continue; }
                bool has_end = client->config.is_read_committed && data->last_stable_offset >= 0;
                followed->end = has_end ? data->last_stable_offset : data->high_watermark;
            }
        }
    }
}

enum session_news client__session_answered(struct client *client, struct node *node, const struct ask *ask,
                                           const struct kafka_fetch_response *answer)
{
    struct session *session = &node->session;
    if (ask->version < FETCH_SESSIONS_FIRST || ask->session_epoch < 0) {
        return answer->error_code == KAFKA_ERROR_NONE ? SESSION_ALL_TOLD : SESSION_REFUSED;
    }
    if (answer->error_code != KAFKA_ERROR_NONE) {
        if (answer->error_code == KAFKA_ERROR_FETCH_SESSION_ID_NOT_FOUND) { session->id = 0; }
        session->epoch = 0;
        bool is_of_session = answer->error_code == KAFKA_ERROR_FETCH_SESSION_ID_NOT_FOUND ||
                             answer->error_code == KAFKA_ERROR_INVALID_FETCH_SESSION_EPOCH ||
                             answer->error_code == KAFKA_ERROR_FETCH_SESSION_TOPIC_ID_ERROR;
        bool was_full = ask->session_epoch == 0; /* there is nothing else to try at once */
        return is_of_session && !was_full ? SESSION_OVER : SESSION_REFUSED;
    }
    note_ends(client, session, answer);
    session->id = answer->session_id;
    session->epoch = answer->session_id == 0 ? 0 : epoch_after(ask->session_epoch);
    return ask->session_epoch == 0 ? SESSION_ALL_TOLD : SESSION_CHANGES_TOLD;
}
