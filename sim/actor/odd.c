/* odd.c: see actor.h. Speaks of fetch sessions as no client should: wrong epochs, sessions that are not there or not its own, several
 * fetches at once, partitions that it does not follow forgotten, topics that are not there, names where it said ids; and leaves
 * its sessions behind.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "actor__parts.h"

#include "wire/kafka/fetch.h"

#define LAST_BY_NAME  12
#define AT_ONCE_MAX   4
#define ROWS_MAX      4
#define ANSWER_BYTES  20000
#define NO_SUCH_EPOCH 77

struct rows {
    struct kafka_fetch_request_fetch_topic topics[ROWS_MAX];
    struct kafka_fetch_request_fetch_partition partitions[ROWS_MAX];
    struct kafka_fetch_request_forgotten_topic gone[ROWS_MAX];
    int32_t gone_partitions[ROWS_MAX];
};

/* A topic of the cast, or in one of eight nobody's. False: its id is not known yet. */
static bool draw_topic(struct actor *actor, struct kafka_text *name_out, struct base_uuid *id_out,
                       int32_t *partition_out)
{
    const struct actor_cast *cast = actor->spec->cast;
    const struct actor_topic *topic = &cast->topics[actor__below(actor, cast->topic_count)];
    *partition_out = (int32_t)actor__below(actor, (uint32_t)topic->partition_count + 1); /* one too many */
    if (actor__below(actor, 8) == 0) {
        *name_out = kafka_text_words("nobody");
        base_prng_fill(&actor->prng, id_out->b, sizeof id_out->b);
        return true;
    }
    struct client_topic_view view;
    client_topic_view(actor->client, base_slice_text(topic->name), &view);
    *name_out = kafka_text_words(topic->name);
    *id_out = view.id;
    return view.state == CLIENT_TOPIC_KNOWN && !base_uuid_is_none(view.id);
}

/* At the end of the partition that it was told of last, where nothing is read; at times in an epoch that nobody leads. */
static void draw_end(struct actor *actor, struct kafka_fetch_request_fetch_topic *topic,
                     struct kafka_fetch_request_fetch_partition *partition)
{
    const struct odd *odd = &actor->odd;
    topic->topic_id = odd->topic;
    topic->topic = kafka_text_words("nobody");
    partition->partition = odd->partition;
    partition->fetch_offset = odd->end;
    partition->partition_max_bytes = ANSWER_BYTES;
    if (actor__below(actor, 2) == 0) { partition->current_leader_epoch = NO_SUCH_EPOCH; }
}

static void draw_rows(struct actor *actor, struct rows *rows, struct kafka_fetch_request *request, uint32_t rows_max)
{
    uint32_t wanted = actor__below(actor, rows_max + 1);
    request->topics = rows->topics;
    for (uint32_t i = 0; i < wanted; i++) {
        struct kafka_fetch_request_fetch_topic *topic = &rows->topics[request->topics_count];
        struct kafka_fetch_request_fetch_partition *partition = &rows->partitions[request->topics_count];
        kafka_fetch_request_fetch_topic_init(topic);
        kafka_fetch_request_fetch_partition_init(partition);
        bool is_end = actor__below(actor, 3) > 0 && i == 0 && actor->odd.has_place;
        if (is_end) { draw_end(actor, topic, partition); }
        if (!is_end && !draw_topic(actor, &topic->topic, &topic->topic_id, &partition->partition)) { continue; }
        topic->partitions = partition;
        topic->partitions_count = 1;
        request->topics_count += 1;
        if (is_end) { continue; }
        partition->fetch_offset = (int64_t)actor__below(actor, 80) - 2;
        partition->partition_max_bytes = (int32_t)actor__below(actor, ANSWER_BYTES);
    }
}

static void draw_gone(struct actor *actor, struct rows *rows, struct kafka_fetch_request *request)
{
    uint32_t wanted = actor__below(actor, 3);
    request->forgotten_topics_data = rows->gone;
    for (uint32_t i = 0; i < wanted; i++) {
        struct kafka_fetch_request_forgotten_topic *topic = &rows->gone[request->forgotten_topics_data_count];
        int32_t *partition = &rows->gone_partitions[request->forgotten_topics_data_count];
        kafka_fetch_request_forgotten_topic_init(topic);
        if (!draw_topic(actor, &topic->topic, &topic->topic_id, partition)) { continue; }
        topic->partitions = partition;
        topic->partitions_count = 1;
        request->forgotten_topics_data_count += 1;
    }
}

static bool send(struct actor *actor, int32_t session, int32_t epoch, bool is_by_name)
{
    struct rows rows;
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.max_wait_ms = (int32_t)actor__below(actor, 400);
    request.min_bytes = 1;
    request.max_bytes = ANSWER_BYTES;
    request.session_id = session;
    request.session_epoch = epoch;
    draw_rows(actor, &rows, &request, epoch == 0 ? ROWS_MAX : 2);
    if (epoch != 0) { draw_gone(actor, &rows, &request); }
    struct history *history = actor->spec->cast->history;
    struct client_call call = {.token = (uint64_t)history->op_count + 1,
                               .api_key = KAFKA_API_FETCH,
                               .target = CLIENT_TO_ANY,
                               .request = &request,
                               .timeout_ms = 10000,
                               .version_max = is_by_name ? LAST_BY_NAME : 0};
    if (client_call(actor->client, &call) != BASE_OK) { return false; }
    struct history_op op = actor__op(actor, HISTORY_CALL);
    op.count = KAFKA_API_FETCH;
    (void)history_invoke(history, &op); /* its number is the token less one */
    actor->outstanding += 1;
    return true;
}

static int32_t any_epoch(struct actor *actor)
{
    static const int32_t epochs[] = {-2, 1, 2, 3, INT32_MAX, INT32_MIN};
    return epochs[actor__below(actor, BASE_ARRAY_COUNT(epochs))];
}

static void go_on(struct actor *actor)
{
    struct odd *odd = &actor->odd;
    uint32_t count = actor__below(actor, 4) == 0 ? 1 + actor__below(actor, AT_ONCE_MAX) : 1;
    for (uint32_t i = 0; i < count; i++) {
        if (!send(actor, odd->session, odd->epoch, odd->is_by_name)) { return; }
        if (actor__below(actor, 5) > 0) { odd->epoch += 1; } /* else the same once more */
    }
}

void actor__be_odd(struct actor *actor)
{
    struct odd *odd = &actor->odd;
    const struct actor_cast *cast = actor->spec->cast;
    actor->probes = 0;
    if (actor->phase != PHASE_LOAD) {
        actor->next_ns = UINT64_MAX;
        return;
    }
    if (actor->now_ns < actor->next_ns) { return; }
    for (uint32_t i = 0; i < cast->topic_count && actor->done == 0; i++) {
        enum base_rc rc = client_want_topic(actor->client, base_slice_text(cast->topics[i].name));
        CHECK(rc == BASE_OK); /* it has room for all of the cast */
    }
    bool is_busy = actor->outstanding >= AT_ONCE_MAX;
    bool is_sent = true;
    if (!is_busy) {
        uint32_t draw = actor__below(actor, 12);
        int32_t epoch = any_epoch(actor);
        int32_t session = (int32_t)(uint32_t)base_prng_u64(&actor->prng);
        if (draw < 6 && odd->session != 0 && actor->outstanding == 0) {
            go_on(actor);
        } else if (draw < 7) {
            is_sent = send(actor, odd->session, epoch, odd->is_by_name);
        } else if (draw < 8) {
            is_sent = send(actor, session, epoch, odd->is_by_name);
        } else if (draw < 9) {
            is_sent = send(actor, odd->session, odd->epoch, !odd->is_by_name);
        } else if (draw < 10) {
            is_sent = send(actor, odd->session, -1, odd->is_by_name);
        } else if (actor->outstanding == 0) {
            odd->is_by_name = actor__below(actor, 3) == 0;
            odd->is_opening = true;
            is_sent = send(actor, actor__below(actor, 2) == 0 ? odd->session : 0, 0, odd->is_by_name);
        }
        actor->done += is_sent ? 1 : 0;
    }
    actor__pause(actor);
}

/* Of one partition, as long as the session lasts. */
static void note_end(struct odd *odd, const struct kafka_fetch_response *answer)
{
    for (int32_t t = 0; t < answer->responses_count; t++) {
        const struct kafka_fetch_response_partition_data *data = answer->responses[t].partitions;
        if (answer->responses[t].partitions_count == 0 || data[0].error_code != 0) { continue; }
        bool is_it =
            base_uuid_equal(odd->topic, answer->responses[t].topic_id) && odd->partition == data[0].partition_index;
        if (!is_it && odd->has_place && !odd->is_opening) { continue; }
        odd->has_place = true;
        odd->topic = answer->responses[t].topic_id;
        odd->partition = data[0].partition_index;
        odd->end = data[0].high_watermark;
    }
}

void actor__odd_answered(struct actor *actor, const struct client_result *result)
{
    struct odd *odd = &actor->odd;
    const struct kafka_fetch_response *answer = result->answer;
    if (answer != NULL) { note_end(odd, answer); }
    if (!odd->is_opening || actor->outstanding > 0) { return; }
    odd->is_opening = false;
    odd->session = answer == NULL || answer->error_code != 0 ? 0 : answer->session_id;
    odd->epoch = 1;
}
