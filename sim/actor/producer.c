/* producer.c: see actor.h. Writes records, and notes what became of each.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "actor__parts.h"

#include <inttypes.h>

#define WINDOW 48 /* records taken and not answered */

static size_t draw_size(struct actor *actor)
{
    uint32_t max = actor->spec->value_bytes_max;
    if (actor->spec->value_bytes_even > 0) { return actor->spec->value_bytes_even; }
    uint32_t kind = actor__below(actor, 20);
    uint32_t bound = kind < 15 ? 200 : (kind < 19 ? 3000 : max);
    if (bound > max) { bound = max; }
    return ACTOR_VALUE_BYTES_MIN + actor__below(actor, bound);
}

void actor__key(const struct history_record *record, char key_out[ACTOR_KEY_BYTES_MAX])
{
    key_out[0] = 0;
    if (record->sequence % 2 == 0) { return; }
    (void)snprintf(key_out, ACTOR_KEY_BYTES_MAX, "k%" PRId64, record->sequence); /* short */
}

static bool produce_one(struct actor *actor, uint32_t topic_index, int32_t partition, bool is_final)
{
    struct actor_cast *cast = actor->spec->cast;
    const struct actor_topic *topic = &cast->topics[topic_index];
    struct history_op op = actor__op(actor, HISTORY_PRODUCE);
    memcpy(op.topic, topic->name, sizeof op.topic);
    op.partition = partition;
    op.acks = (int32_t)actor->spec->acks;
    op.is_idempotent = actor->spec->idempotence == CLIENT_IDEMPOTENT;
    op.is_final = is_final;
    op.record = (struct history_record){.incarnation = topic->incarnation,
                                        .producer = actor->spec->number,
                                        .sequence = actor->sequence};
    size_t size_bytes = draw_size(actor);
    actor_value_make(op.record, actor->value, size_bytes);
    /* Most are of now, some of long before: timestamps need not rise. */
    int64_t timestamp_ms = actor->wall_ms - (actor__below(actor, 4) == 0 ? actor__below(actor, 3000) : 0);
    op.timestamp_ms = topic->is_stamped ? -1 : timestamp_ms; /* -1: the broker says it */
    char key[ACTOR_KEY_BYTES_MAX];
    actor__key(&op.record, key);
    struct rec_header header = {.key = base_slice_text(ACTOR_HEADER), .value = rec_value_of(base_slice_text(key))};
    struct client_record record = {.token = (uint64_t)cast->history->op_count + 1,
                                   .topic = base_slice_text(topic->name),
                                   .partition = partition,
                                   .timestamp_ms = timestamp_ms,
                                   .key = key[0] == 0 ? rec_null() : rec_value_of(base_slice_text(key)),
                                   .headers = &header,
                                   .header_count = actor__has_header(&op.record) ? 1 : 0,
                                   .value = rec_value_of(base_slice_of(actor->value, size_bytes))};
    if (client_produce(actor->client, &record) != BASE_OK) { return false; }
    (void)history_invoke(cast->history, &op); /* its number is the token less one */
    actor->sequence += 1;
    actor->outstanding += 1;
    return true;
}

uint32_t actor__draw_topic(struct actor *actor, bool only_stable)
{
    const struct actor_cast *cast = actor->spec->cast;
    uint32_t first = actor__below(actor, cast->topic_count);
    for (uint32_t i = 0; i < cast->topic_count; i++) {
        uint32_t at = (first + i) % cast->topic_count;
        if (cast->topics[at].is_ready && (cast->topics[at].is_stable || !only_stable)) { return at; }
    }
    return UINT32_MAX;
}

void actor__produce(struct actor *actor)
{
    const struct actor_cast *cast = actor->spec->cast;
    while (actor->probes > 0) {
        uint32_t topic = actor__draw_topic(actor, true);
        if (topic == UINT32_MAX) {
            actor->probes = 0;
            break;
        }
        int32_t partition = (int32_t)actor__below(actor, (uint32_t)cast->topics[topic].partition_count);
        if (!produce_one(actor, topic, partition, true)) {
            actor->next_ns = actor->now_ns + 50 * WORLD_MS;
            return;
        }
        actor->probes -= 1;
    }
    while (actor->knocks > 0) {
        if (!produce_one(actor, actor->knock_topic, actor->knock_partition, true)) {
            actor->next_ns = actor->now_ns + 50 * WORLD_MS;
            return;
        }
        actor->knocks -= 1;
        client_flush(actor->client);
    }
    if (actor->phase != PHASE_LOAD || actor->done >= actor->spec->wanted) {
        actor->next_ns = UINT64_MAX;
        return;
    }
    if (actor->now_ns < actor->next_ns) { return; }
    uint32_t burst = 1 + actor__below(actor, 8);
    uint32_t topic = actor__draw_topic(actor, false);
    for (uint32_t i = 0; i < burst && topic != UINT32_MAX && actor->outstanding < WINDOW; i++) {
        int32_t partition = (int32_t)actor__below(actor, (uint32_t)cast->topics[topic].partition_count);
        if (!produce_one(actor, topic, partition, false)) { break; }
        if (actor->spec->value_bytes_even > 0) { client_flush(actor->client); } /* each is a batch of its own */
        actor->done += 1;
        if (actor->done >= actor->spec->wanted) { break; }
        if (actor__below(actor, 4) == 0) { topic = actor__draw_topic(actor, false); }
    }
    if (actor__below(actor, 8) == 0) { client_flush(actor->client); }
    actor__pause(actor);
}

void actor__produced(struct actor *actor, const struct client_result *result)
{
    struct actor_cast *cast = actor->spec->cast;
    uint32_t number = (uint32_t)(result->token - 1);
    struct history_op *op = &cast->history->ops[number];
    op->offset = result->outcome == CLIENT_ACKED ? result->offset : -1;
    op->error = result->error;
    bool is_told = result->outcome == CLIENT_ACKED && actor->spec->acks != CLIENT_ACKS_NONE;
    if (is_told && op->timestamp_ms < 0) { op->timestamp_ms = result->timestamp_ms; }
    if (result->outcome == CLIENT_ACKED && actor->spec->acks == CLIENT_ACKS_ALL) { cast->acknowledged += 1; }
    static const enum history_what whats[] = {HISTORY_OK, HISTORY_FAIL, HISTORY_UNKNOWN};
    history_end(cast->history, number, whats[result->outcome], actor__world_ns(actor));
    CHECK(actor->outstanding > 0);
    actor->outstanding -= 1;
}
