/* consumer.c: see actor.h. Reads by assignment, and notes every record it is given.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "actor__parts.h"

static struct assignment *assignment_of(struct actor *actor, uint64_t token)
{
    uint32_t at = (uint32_t)(token >> 32);
    CHECK(at < actor->assignment_count);
    struct assignment *assignment = &actor->assignments[at];
    return assignment->session == (uint32_t)token ? assignment : NULL; /* NULL: of an assignment before */
}

void actor__assign(struct actor *actor, uint32_t at, enum client_start start, int64_t offset)
{
    struct assignment *assignment = &actor->assignments[at];
    struct actor_cast *cast = actor->spec->cast;
    cast->sessions += 1;
    struct client_assignment wanted = {.token = (uint64_t)at << 32 | cast->sessions,
                                       .topic = base_slice_text(cast->topics[assignment->topic].name),
                                       .partition = assignment->partition,
                                       .start = start,
                                       .at = offset,
                                       .reset = CLIENT_RESET_FAIL};
    assignment->first = start == CLIENT_FROM_OFFSET ? offset : (start == CLIENT_FROM_BEGINNING ? 0 : -1);
    assignment->session = client_assign(actor->client, &wanted) == BASE_OK ? cast->sessions : 0;
}

/* The key and the header follow from what the value says, as produce_one of producer.c makes them. */
static bool record_is_whole(const struct rec_record *record, struct history_record *says_out)
{
    if (!actor_value_read(record->value.bytes, says_out)) { return false; }
    char key[ACTOR_KEY_BYTES_MAX];
    actor__key(says_out, key);
    bool is_keyed = !record->key.is_null && base_slice_equal(record->key.bytes, base_slice_text(key));
    if (record->key.is_null != (key[0] == 0) || (!record->key.is_null && !is_keyed)) { return false; }
    if (!actor__has_header(says_out)) { return record->header_count == 0; }
    struct base_slice headers = record->headers;
    struct rec_header header;
    return record->header_count == 1 && rec_header_next(&headers, &header) && !header.value.is_null &&
           base_slice_equal(header.key, base_slice_text(ACTOR_HEADER)) &&
           base_slice_equal(header.value.bytes, base_slice_text(key));
}

void actor__record(struct actor *actor, const struct client_result *result)
{
    struct actor_cast *cast = actor->spec->cast;
    struct assignment *assignment = assignment_of(actor, result->token);
    if (assignment == NULL) { return; }
    struct history_op op = actor__op(actor, HISTORY_READ);
    if (actor__below(actor, 8) == 0) { assignment->some_ms = result->record.timestamp_ms; }
    op.at = assignment->first > 0 ? assignment->first : 0;
    assignment->first = -1;
    memcpy(op.topic, cast->topics[assignment->topic].name, sizeof op.topic);
    op.id = result->topic_id;
    op.partition = result->partition;
    op.offset = result->record.offset;
    op.timestamp_ms = result->record.timestamp_ms;
    op.session = assignment->session;
    op.is_final = actor->spec->role == ACTOR_VERIFIER;
    if (!record_is_whole(&result->record, &op.record)) {
        op.record = (struct history_record){.producer = UINT32_MAX, .sequence = 0}; /* nobody's: the judge says so */
    }
    history_once(cast->history, &op);
    if (cast->on_read != NULL) {
        cast->on_read(cast->context, (struct base_part){.topic = op.id, .index = op.partition}, op.offset);
    }
}

void actor__at_end(struct actor *actor, const struct client_result *result)
{
    struct actor_cast *cast = actor->spec->cast;
    struct assignment *assignment = assignment_of(actor, result->token);
    if (assignment == NULL || assignment->has_end) { return; }
    assignment->has_end = true;
    struct history_op op = actor__op(actor, HISTORY_END);
    memcpy(op.topic, cast->topics[assignment->topic].name, sizeof op.topic);
    op.partition = result->partition;
    op.offset = result->offset;
    op.is_final = actor->spec->role == ACTOR_VERIFIER;
    history_once(cast->history, &op);
}

void actor__assignment_failed(struct actor *actor, const struct client_result *result)
{
    struct assignment *assignment = assignment_of(actor, result->token);
    if (assignment == NULL) { return; }
    assignment->session = 0; /* begun anew by and by */
    if (actor->next_ns == UINT64_MAX) { actor->next_ns = actor->now_ns + 100 * WORLD_MS; }
}

static void begin(struct actor *actor, uint32_t at)
{
    enum client_start start = CLIENT_FROM_BEGINNING;
    uint32_t draw = actor__below(actor, 4);
    if (draw == 0) { start = CLIENT_FROM_END; }
    if (draw == 1) { start = CLIENT_FROM_OFFSET; }
    actor__assign(actor, at, start, actor__below(actor, 60));
}

static void choose(struct actor *actor, uint32_t wanted)
{
    const struct actor_cast *cast = actor->spec->cast;
    for (uint32_t i = 0; i < wanted; i++) {
        uint32_t topic = actor__below(actor, cast->topic_count);
        int32_t partition = (int32_t)actor__below(actor, (uint32_t)cast->topics[topic].partition_count);
        bool is_new = true;
        for (uint32_t j = 0; j < actor->assignment_count; j++) {
            is_new = is_new && (actor->assignments[j].topic != topic || actor->assignments[j].partition != partition);
        }
        if (!is_new || actor->assignment_count == ASSIGNMENTS_MAX) { continue; }
        actor->assignments[actor->assignment_count++] =
            (struct assignment){.topic = topic, .partition = partition, .is_wanted = true};
    }
}

void actor__consume(struct actor *actor)
{
    actor->probes = 0;
    if (actor->phase != PHASE_LOAD) {
        actor->next_ns = UINT64_MAX;
        return;
    }
    if (actor->now_ns < actor->next_ns) { return; }
    if (actor->assignment_count == 0) { choose(actor, 1 + actor__below(actor, 6)); }
    if (actor->done % 4 == 3) { choose(actor, 1); } /* one that was added, perhaps */
    for (uint32_t i = 0; i < actor->assignment_count; i++) {
        if (actor->assignments[i].session == 0) { begin(actor, i); }
    }
    if (actor__below(actor, 4) == 0) {
        uint32_t at = actor__below(actor, actor->assignment_count);
        const struct assignment *assignment = &actor->assignments[at];
        client_unassign(actor->client, base_slice_text(actor->spec->cast->topics[assignment->topic].name),
                        assignment->partition);
        begin(actor, at);
    }
    actor->done += 1;
    actor->next_ns = actor->now_ns + 100 * WORLD_MS + base_prng_below(&actor->prng, 2 * WORLD_S);
}

bool actor_reads(const void *machine, uint64_t n, bool is_stable, uint32_t *topic_out, int32_t *partition_out)
{
    const struct actor *actor = machine;
    if (actor->spec->role != ACTOR_CONSUMER || actor->assignment_count == 0) { return false; }
    if (actor__wants_much(actor)) { return false; } /* a record or two do not wake it */
    for (uint32_t i = 0; i < actor->assignment_count; i++) {
        const struct assignment *assignment = &actor->assignments[(n + i) % actor->assignment_count];
        const struct actor_topic *topic = &actor->spec->cast->topics[assignment->topic];
        if (!topic->is_ready || topic->is_stable != is_stable || assignment->session == 0) { continue; }
        *topic_out = assignment->topic;
        *partition_out = assignment->partition;
        return true;
    }
    return false;
}
