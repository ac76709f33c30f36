/* verifier.c: see actor.h. After everything: which topics are there, all that is in them, and what the broker says of it.
 *
 *   stage 0: ask for each topic and its configs -> 1: read each partition to its end -> 2: ask for offsets -> UINT32_MAX: done
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "actor__parts.h"

static void ask_all_topics(struct actor *actor)
{
    const struct actor_cast *cast = actor->spec->cast;
    while (actor->done < 2 * cast->topic_count) {
        uint32_t topic = actor->done / 2;
        bool is_asked =
            actor->done % 2 == 0 ? actor__ask_topic(actor, topic, true) : actor__ask_configs(actor, topic, true);
        if (!is_asked) { return; }
        actor->done += 1;
    }
}

bool actor__verify_answered(struct actor *actor, const struct history_op *op)
{
    const struct actor_cast *cast = actor->spec->cast;
    if (op->kind != HISTORY_TOPIC || op->what != HISTORY_OK || op->count <= 0) { return false; }
    for (uint32_t i = 0; i < cast->topic_count; i++) {
        if (strcmp(cast->topics[i].name, op->topic) != 0) { continue; }
        for (int32_t p = 0; p < op->count && actor->assignment_count < ASSIGNMENTS_MAX; p++) {
            if (cast->is_excused != NULL && cast->is_excused(cast->context, op->topic, p)) { continue; }
            actor->assignments[actor->assignment_count] =
                (struct assignment){.topic = i, .partition = p, .is_wanted = true};
            actor__assign(actor, actor->assignment_count++, CLIENT_FROM_BEGINNING, 0);
        }
    }
    return true;
}

static bool has_read_all(struct actor *actor, bool begins_anew)
{
    bool has_all = true;
    for (uint32_t i = 0; i < actor->assignment_count; i++) {
        if (actor->assignments[i].has_end) { continue; }
        has_all = false;
        if (actor->assignments[i].session == 0 && begins_anew) { actor__assign(actor, i, CLIENT_FROM_BEGINNING, 0); }
    }
    return has_all;
}

/* Four questions about each partition, one at a time. */
static void ask_offsets(struct actor *actor)
{
    if (actor->done >= 4 * actor->assignment_count) {
        actor->stage = UINT32_MAX;
        return;
    }
    const struct assignment *assignment = &actor->assignments[actor->done / 4];
    static const int64_t kinds[] = {-1, -2, -3, 0};
    int64_t at = kinds[actor->done % 4];
    bool is_exact = assignment->some_ms > 0 && actor__below(actor, 2) == 0; /* a time that a record has */
    if (at == 0) { at = is_exact ? assignment->some_ms : actor->wall_ms - (int64_t)actor__below(actor, 60000); }
    if (actor__ask_offsets(actor, assignment->topic, assignment->partition, at, true)) { actor->done += 1; }
}

void actor__verify(struct actor *actor)
{
    bool is_time = actor->now_ns >= actor->next_ns;
    actor->probes = 0;
    if (is_time) { actor->next_ns = actor->now_ns + 100 * WORLD_MS; }
    switch (actor->stage) {
    case 0:
        ask_all_topics(actor);
        if (actor->done == 2 * actor->spec->cast->topic_count && actor->outstanding == 0) { actor->stage = 1; }
        return;
    case 1:
        if (!has_read_all(actor, is_time)) { return; }
        actor->stage = 2;
        actor->done = 0;
        return;
    case 2:
        if (actor->outstanding == 0) { ask_offsets(actor); }
        return;
    default: actor->next_ns = UINT64_MAX; return;
    }
}
