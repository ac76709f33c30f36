/* crowd.c: see crowd__parts.h. The machine: connections, questions, answers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "crowd__parts.h"

#include <stdlib.h>

enum token { TOKEN_CONNECT = 1, TOKEN_SEND, TOKEN_RECV, TOKEN_CLOSE };

/* ---- who they are ------------------------------------------------------------------------------------------------------ */

static void draw_manners(struct actor *actor, struct crowd_member *member)
{
    static const enum crowd_manner manners[] = {MANNER_HASTY,  MANNER_SLEEPY, MANNER_MORTAL,
                                                MANNER_FICKLE, MANNER_IDLE,   MANNER_SLOW};
    if (crowd__chance(actor, 3)) { return; } /* as a client should be */
    for (size_t i = 0; i < BASE_ARRAY_COUNT(manners); i++) {
        if (crowd__chance(actor, 3)) { member->manners |= manners[i]; }
    }
}

static int32_t draw_time(struct actor *actor, int32_t max_ms)
{
    return max_ms / 3 + (int32_t)crowd__below(actor, (uint32_t)(max_ms - max_ms / 3 + 1));
}

static void draw_member(struct actor *actor, struct crowd_member *member, uint32_t at)
{
    const struct actor_spec *spec = actor->spec;
    const struct actor_groups *groups = crowd__groups(actor);
    member->number = at;
    (void)snprintf(member->name, sizeof member->name, "%.3s%c%u", spec->name, 'a' + (int)(at % 26u),
                   (unsigned)(at / 26u) % 100u); /* short */
    member->job = JOB_CONSUMER;
    if (spec->has_operator && at == 0) { member->job = JOB_OPERATOR; }
    if (spec->has_rude && at + 1 == spec->members) { member->job = JOB_RUDE; }
    bool is_simple = member->job == JOB_CONSUMER && (crowd__chance(actor, 6) || spec->is_simple);
    if (is_simple) { member->job = JOB_SIMPLE; }
    uint32_t group = spec->first_group + at % spec->groups;
    (void)snprintf(member->group, sizeof member->group, "%c%u", is_simple ? 's' : 'g',
                   (unsigned)group % 10000u); /* short */
    draw_manners(actor, member);
    member->is_cooperative = group % 3 == 1; /* all of a group */
    member->version = (int16_t)(2 + crowd__below(actor, 8));
    bool is_static = member->job == JOB_CONSUMER && crowd__chance(actor, 3);
    if (is_static) {
        /* One in three has the id of another, by mistake. */
        uint32_t number = crowd__chance(actor, 3) ? 0 : 1 + spec->number * 1000 + at;
        (void)snprintf(member->instance, sizeof member->instance, "i%u", (unsigned)number % 1000000u); /* short */
        member->version = (int16_t)(5 + crowd__below(actor, 5));
    }
    member->session_ms = draw_time(actor, groups->session_max_ms);
    member->rebalance_ms = draw_time(actor, groups->rebalance_max_ms);
    member->topics = 1 + crowd__below(actor, (1u << groups->topic_count) - 1);
    member->conn = (struct port_conn){.slot = at, .generation = 0};
    member->generation = -1;
    member->next_ns = 1 + base_prng_below(&actor->prng, 300 * WORLD_MS);
}

struct crowd *actor__crowd_create(struct actor *actor, struct base_arena *arena)
{
    const struct actor_spec *spec = actor->spec;
    CHECK(spec->members > 0 && spec->members <= ACTOR_MEMBERS_MAX && spec->groups > 0);
    struct crowd *crowd = base_arena_take_array(arena, 1, sizeof *crowd);
    CHECK(crowd != NULL);
    crowd->member_count = spec->members;
    crowd->frame_bytes_max = spec->is_large ? 40 << 10 : 8 << 10;
    crowd->seats_max = spec->is_large ? ACTOR_MEMBERS_MAX : 32;
    crowd->members = base_arena_take_array(arena, crowd->member_count, sizeof *crowd->members);
    crowd->scratch = base_arena_take(arena, CROWD_SCRATCH_BYTES);
    crowd->room = base_arena_take(arena, CROWD_SCRATCH_BYTES);
    CHECK(crowd->members != NULL && crowd->scratch != NULL && crowd->room != NULL);
    for (uint32_t i = 0; i < crowd->member_count; i++) {
        struct crowd_member *member = &crowd->members[i];
        draw_member(actor, member, i);
        member->sent = base_arena_take(arena, crowd->frame_bytes_max);
        member->received = base_arena_take(arena, crowd->frame_bytes_max);
        member->seats = base_arena_take_array(arena, crowd->seats_max, sizeof *member->seats);
        CHECK(member->sent != NULL && member->received != NULL &&
              member->seats != NULL); /* the region is for so many */
    }
    return crowd;
}

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

struct history_op crowd__op(const struct actor *actor, const struct crowd_member *member, enum history_kind kind)
{
    struct history_op op = history_op_init(kind, member->name, actor__world_ns(actor));
    bool has_group = kind >= HISTORY_JOIN && kind <= HISTORY_DISBAND;
    if (!has_group) { return op; }
    struct history_group *group = history_add_group(&op);
    memcpy(group->group, member->group, sizeof group->group);
    memcpy(group->member, member->id, sizeof group->member);
    memcpy(group->instance, member->instance, sizeof group->instance);
    group->generation = kind == HISTORY_JOIN ? -1 : member->generation;
    return op;
}

struct history_op crowd__topic_op(const struct actor *actor, const struct crowd_member *member, enum history_kind kind,
                                  uint32_t topic)
{
    struct history_op op = crowd__op(actor, member, kind);
    memcpy(op.topic, crowd__groups(actor)->topics[topic].name, sizeof crowd__groups(actor)->topics[topic].name);
    return op;
}

/* What may have happened all the same. A coordinator that goes away says so of what it has written, too. */
static bool is_indefinite(int32_t error)
{
    return error == KAFKA_ERROR_NOT_COORDINATOR || error == KAFKA_ERROR_REQUEST_TIMED_OUT ||
           error == KAFKA_ERROR_UNKNOWN_SERVER_ERROR || error == KAFKA_ERROR_KAFKA_STORAGE_ERROR || error < -1;
}

void crowd__end(struct actor *actor, uint32_t op, int32_t error)
{
    struct history *history = actor->spec->cast->history;
    history->ops[op].error = error;
    enum history_what what = error == 0 ? HISTORY_OK : (is_indefinite(error) ? HISTORY_UNKNOWN : HISTORY_FAIL);
    history_end(history, op, what, actor__world_ns(actor));
}

static void give_up(struct actor *actor, struct crowd_member *member)
{
    struct history *history = actor->spec->cast->history;
    for (uint32_t q = 0; q < member->question_count; q++) {
        const struct crowd_question *question = &member->questions[q];
        for (uint32_t i = 0; i < question->op_count; i++) {
            history->ops[question->ops[i]].error = -1;
            history_end(history, question->ops[i], HISTORY_UNKNOWN, actor__world_ns(actor));
        }
    }
    member->question_count = 0;
    member->sent_bytes = 0;
    member->received_bytes = 0;
}

bool crowd__ask(struct actor *actor, struct crowd_member *member, int16_t api_key, int16_t version, const void *request,
                struct history_op *ops, uint32_t op_count, uint64_t patience_ns)
{
    struct crowd *crowd = actor->crowd;
    CHECK(op_count <= CROWD_OPS_MAX);
    struct kafka_writer writer;
    kafka_writer_init(&writer, member->sent + member->sent_bytes, crowd->frame_bytes_max - member->sent_bytes);
    bool is_taken = member->link == LINK_UP && !member->is_sending && member->question_count < CROWD_QUESTIONS_MAX &&
                    kafka_request_encode(kafka_request_message(api_key), request, version, member->correlation + 1,
                                         kafka_text_words(member->name), &writer) == BASE_OK;
    if (!is_taken) {
        for (uint32_t i = 0; i < op_count; i++) { free(ops[i].group); }
        return false;
    }
    member->sent_bytes += writer.used_bytes;
    member->correlation += 1;
    struct crowd_question *question = &member->questions[member->question_count++];
    *question = (struct crowd_question){.correlation = member->correlation,
                                        .api_key = api_key,
                                        .version = version,
                                        .due_ns = actor->now_ns + patience_ns,
                                        .op_count = op_count};
    for (uint32_t i = 0; i < op_count; i++) { question->ops[i] = history_invoke(actor->spec->cast->history, &ops[i]); }
    return true;
}

/* ---- connections --------------------------------------------------------------------------------------------------------- */

static uint64_t token_of(const struct crowd_member *member, enum token token)
{
    return (uint64_t)member->number << 8 | (uint64_t)token;
}

void crowd__cut(struct actor *actor, struct crowd_member *member, struct port_out *out)
{
    if (member->link != LINK_UP) { return; }
    port_emit(out, PORT_CLOSE, token_of(member, TOKEN_CLOSE))->conn = member->conn;
    member->link = LINK_CLOSING;
    give_up(actor, member);
}

static void connect(struct actor *actor, struct crowd_member *member, struct port_out *out)
{
    const struct actor_cast *cast = actor->spec->cast;
    member->conn.generation += 1;
    struct port_effect *effect = port_emit(out, PORT_CONNECT, token_of(member, TOKEN_CONNECT));
    effect->conn = member->conn;
    effect->address = world_address(cast->world, cast->broker, cast->port);
    member->link = LINK_CONNECTING;
}

static void receive(const struct crowd *crowd, struct crowd_member *member, struct port_out *out)
{
    if (member->link != LINK_UP || member->is_receiving) { return; }
    struct port_effect *effect = port_emit(out, PORT_RECV, token_of(member, TOKEN_RECV));
    effect->conn = member->conn;
    effect->buffer = member->received + member->received_bytes;
    effect->size_bytes = crowd->frame_bytes_max - member->received_bytes;
    member->is_receiving = true;
}

static void flush(struct crowd_member *member, struct port_out *out)
{
    if (member->link != LINK_UP || member->is_sending || member->sent_bytes == 0) { return; }
    member->piece = (struct port_piece){.kind = PORT_MEMORY, .at = member->sent, .size_bytes = member->sent_bytes};
    struct port_effect *effect = port_emit(out, PORT_SEND, token_of(member, TOKEN_SEND));
    effect->conn = member->conn;
    effect->pieces = &member->piece;
    effect->piece_count = 1;
    member->is_sending = true;
}

static void take_answer(struct actor *actor, struct crowd_member *member, struct base_slice frame)
{
    struct crowd_question question = member->questions[0];
    member->question_count -= 1;
    memmove(&member->questions[0], &member->questions[1], member->question_count * sizeof question);
    struct base_arena arena;
    base_arena_init(&arena, actor->crowd->scratch, CROWD_SCRATCH_BYTES);
    enum kafka_message message = kafka_response_message(question.api_key);
    void *answer = base_arena_take(&arena, kafka_message_struct_bytes(message));
    int32_t correlation;
    struct base_slice body;
    enum base_rc rc = kafka_response_open(frame, question.api_key, question.version, &correlation, &body);
    if (rc == BASE_OK) { rc = kafka_decode(message, body, question.version, &arena, answer); }
    if (rc != BASE_OK || correlation != question.correlation) {
        world_fail(actor->spec->cast->world, WORLD_NONE, "an answer to %s (api %d version %d) can't be read",
                   member->name, question.api_key, question.version);
        return;
    }
    if (actor->crowd->is_looking) {
        crowd__operator_answer(actor, member, &question, answer);
        return;
    }
    switch (member->job) {
    case JOB_CONSUMER: crowd__member_answer(actor, member, &question, answer); return;
    case JOB_SIMPLE:
    case JOB_RUDE:
    case JOB_OPERATOR: crowd__operator_answer(actor, member, &question, answer); return;
    }
}

/* False: it can't go on. */
static bool take_bytes(struct actor *actor, struct crowd_member *member)
{
    size_t from = 0;
    while (member->received_bytes - from >= 4) {
        size_t bytes = base_get_u32(member->received + from);
        if (bytes > actor->crowd->frame_bytes_max - 4 || member->question_count == 0) { return false; }
        if (member->received_bytes - from - 4 < bytes) { break; }
        take_answer(actor, member, base_slice_of(member->received + from + 4, bytes));
        from += 4 + bytes;
    }
    memmove(member->received, member->received + from, member->received_bytes - from);
    member->received_bytes -= from;
    return true;
}

static void take_done(struct actor *actor, const struct port_event *event, struct port_out *out)
{
    struct crowd *crowd = actor->crowd;
    struct crowd_member *member = &crowd->members[event->done.token >> 8];
    bool is_well = event->done.rc == PORT_OK;
    switch ((enum token)(event->done.token & 0xff)) {
    case TOKEN_CONNECT:
        member->link = is_well ? LINK_UP : LINK_DOWN;
        member->link_ns = actor->now_ns + 5 * WORLD_MS + base_prng_below(&actor->prng, 80 * WORLD_MS);
        break;
    case TOKEN_SEND:
        member->is_sending = false;
        member->sent_bytes = 0;
        if (!is_well) { crowd__cut(actor, member, out); }
        break;
    case TOKEN_RECV:
        member->is_receiving = false;
        if (member->link != LINK_UP) { return; }
        member->received_bytes += is_well ? event->done.count : 0;
        if (!is_well || !take_bytes(actor, member)) { crowd__cut(actor, member, out); }
        break;
    case TOKEN_CLOSE:
        member->link = LINK_DOWN;
        member->is_sending = member->is_receiving = false;
        member->link_ns = actor->now_ns + 10 * WORLD_MS + base_prng_below(&actor->prng, 200 * WORLD_MS);
        break;
    }
    receive(crowd, member, out);
}

/* ---- the machine ---------------------------------------------------------------------------------------------------------- */

static void act(struct actor *actor, struct crowd_member *member, struct port_out *out)
{
    for (uint32_t i = 0; i < member->question_count; i++) {
        if (actor->now_ns >= member->questions[i].due_ns) {
            crowd__cut(actor, member, out);
            return;
        }
    }
    if (member->state == STATE_DEAD || member->link == LINK_CLOSING || member->link == LINK_CONNECTING) { return; }
    if (member->link == LINK_DOWN) {
        bool is_time = actor->now_ns >= member->next_ns && actor->now_ns >= member->link_ns;
        if (is_time) { connect(actor, member, out); }
        return;
    }
    switch (member->job) {
    case JOB_CONSUMER: crowd__member_act(actor, member, out); break;
    case JOB_SIMPLE:
    case JOB_OPERATOR: crowd__operate(actor, member); break;
    case JOB_RUDE: crowd__annoy(actor, member); break;
    }
    flush(member, out);
}

static uint64_t next_of(const struct crowd_member *member)
{
    if (member->state == STATE_DEAD && member->question_count == 0) { return UINT64_MAX; }
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < member->question_count; i++) { next = base_min_u64(next, member->questions[i].due_ns); }
    switch (member->link) {
    case LINK_CONNECTING:
    case LINK_CLOSING: return next;
    case LINK_DOWN: return base_min_u64(next, base_max_u64(member->next_ns, member->link_ns));
    case LINK_UP: return member->question_count > 0 ? next : base_min_u64(next, member->next_ns);
    }
    return next;
}

static void look(struct actor *actor, struct port_out *out)
{
    struct crowd_member *member = &actor->crowd->members[0];
    member->state = STATE_OUT;
    if (member->looks == UINT32_MAX) {
        crowd__cut(actor, member, out);
        member->state = STATE_DEAD;
        return;
    }
    bool is_late = member->question_count > 0 && actor->now_ns >= member->questions[0].due_ns;
    if (is_late) { crowd__cut(actor, member, out); }
    if (member->link == LINK_DOWN && actor->now_ns >= member->link_ns) { connect(actor, member, out); }
    if (member->link != LINK_UP || member->question_count > 0) { return; }
    if (actor->now_ns >= member->next_ns) { crowd__look(actor, member); }
    flush(member, out);
}

void actor__crowd_step(struct actor *actor, const struct port_event *event, struct port_out *out)
{
    struct crowd *crowd = actor->crowd;
    if (event->kind == PORT_EVENT_DONE) { take_done(actor, event, out); }
    bool is_done = event->kind == PORT_EVENT_DONE;
    uint32_t named = is_done ? (uint32_t)(event->done.token >> 8) : 0;
    for (uint32_t i = 0; i < crowd->member_count; i++) {
        struct crowd_member *member = &crowd->members[i];
        if (actor->phase == PHASE_CLOSE) {
            if (!crowd->is_looking || i > 0) {
                crowd__cut(actor, member, out);
                member->state = STATE_DEAD;
            }
            continue;
        }
        bool is_due = (is_done && named == i) || next_of(member) <= actor->now_ns;
        if (!is_due) { continue; }
        act(actor, member, out);
        if (member->next_ns <= actor->now_ns) {
            member->next_ns = actor->now_ns + 20 * WORLD_MS;
        } /* it waits for something */
    }
    if (crowd->is_looking) { look(actor, out); }
    for (uint32_t i = 0; i < crowd->member_count; i++) {
        struct crowd_member *member = &crowd->members[i];
        receive(crowd, member, out);
        uint64_t next = next_of(member);
        if (next != UINT64_MAX) { port_alarm(out, base_max_u64(next, actor->now_ns + 1)); }
    }
}

void actor__crowd_message(struct actor *actor, uint32_t kind)
{
    struct crowd *crowd = actor->crowd;
    actor->probes = 0; /* each member has its own */
    for (uint32_t i = 0; i < crowd->member_count; i++) {
        struct crowd_member *member = &crowd->members[i];
        if (kind == ACTOR_PROBE && member->job != JOB_RUDE && member->state != STATE_DEAD) { member->probes = 1; }
        if (kind == ACTOR_PROBE || kind == ACTOR_DRAIN) {
            member->next_ns = base_min_u64(member->next_ns, actor->now_ns + 1 + member->number);
        }
    }
    if (kind != ACTOR_LOOK || !actor->spec->has_operator) { return; }
    crowd->is_looking = true;
    crowd->members[0].state = STATE_OUT;
    crowd->members[0].looks = 0;
    crowd->members[0].next_ns = actor->now_ns;
}

void actor__crowd_view(const struct actor *actor, struct actor_view *view_out)
{
    const struct crowd *crowd = actor->crowd;
    *view_out = (struct actor_view){.is_finished = true, .is_quiet = true};
    for (uint32_t i = 0; i < crowd->member_count; i++) {
        const struct crowd_member *member = &crowd->members[i];
        view_out->is_quiet = view_out->is_quiet && member->link == LINK_DOWN;
        if (actor->phase == PHASE_CLOSE) { continue; }
        bool is_settled = crowd__is_settled(actor, member);
        bool is_asking =
            member->state != STATE_DEAD && member->probes > 0; /* whoever is fenced meanwhile asks no more */
        view_out->outstanding += (is_settled ? 0u : 1u) + (is_asking ? 1u : 0u);
    }
    if (crowd->is_looking) { view_out->outstanding += crowd->members[0].looks == UINT32_MAX ? 0 : 1; }
}
