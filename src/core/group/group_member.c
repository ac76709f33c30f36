/* group_member.c: members and the state of their group: heartbeats, leaving, expiry, assignments, and when a round of joining begins.
 *
 * Room    core/group.
 *
 * A GROUP     Empty -a join-> preparing -all are there, or the time is over-> Completing -the leader's assignment-> Stable
 *             Completing, Stable -a member joins anew, leaves, expires-> preparing       preparing -nobody is left-> Empty
 *             "Preparing" is this leader's own; the other three are committed. A committed group that lacks a member needs a
 *             rebalance, and says so in its records: the next leader prepares, too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group/group__room.h"

/* ---- what a group is ------------------------------------------------------------------------------------------------- */

bool group__is_empty(const struct group__group *group) { return group->state == GROUP__EMPTY && !group->is_preparing; }

bool group__is_left(const struct group__group *group)
{
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!member->is_going) { return false; }
    }
    return true;
}

/* When the last one has left, the group's being empty may not be written yet; that it is, is seen at once, as in Kafka. */
const char *group__state_name(const struct group__group *group)
{
    if (group->is_preparing) { return group__is_left(group) ? "Empty" : "PreparingRebalance"; }
    switch (group->state) {
    case GROUP__EMPTY: return "Empty";
    case GROUP__COMPLETING: return "CompletingRebalance";
    case GROUP__STABLE: return "Stable";
    }
    UNREACHABLE();
}

/* Who joins an empty group first gives it its type. */
struct base_slice group__protocol_type(const struct group__group *group)
{
    if (!group->is_preparing || group->state != GROUP__EMPTY) { return group->protocol_type; }
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (member->join == NULL) { continue; }
        const struct kafka_join_group_request *asked = member->join->ask.request;
        return kafka_text_slice(asked->protocol_type);
    }
    return group->protocol_type;
}

int16_t group__validate(const struct groups *groups, const struct group__group *group, struct kafka_text member_id,
                        struct kafka_text instance, struct group__member **member_out)
{
    *member_out = NULL;
    if (!kafka_text_is_null(instance)) {
        const struct group__member *holder = group__static(groups, group, kafka_text_slice(instance));
        if (holder == NULL) { return KAFKA_ERROR_UNKNOWN_MEMBER_ID; }
        if (!group__same(holder->id, member_id)) { return KAFKA_ERROR_FENCED_INSTANCE_ID; }
    }
    struct group__member *member = group__member(groups, group, kafka_text_slice(member_id));
    if (member == NULL || !group__counts(member)) { return KAFKA_ERROR_UNKNOWN_MEMBER_ID; }
    *member_out = member;
    return KAFKA_ERROR_NONE;
}

/* ---- a round of joining ----------------------------------------------------------------------------------------------- */

int64_t group__rebalance_ms(const struct group__group *group)
{
    int64_t longest = 0;
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (group__counts(member)) { longest = base_max_i64(longest, group__rebalance_ms_of(member)); }
    }
    return longest;
}

bool group__have_all_joined(const struct group__group *group)
{
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!member->is_going && member->join == NULL) { return false; } /* a pending one is waited for, too */
    }
    return true;
}

static void complete_when_due(struct groups *groups, struct group__group *group)
{
    group__stop_timer(groups, group);
    group->wants_completion = true;
    group__due(groups, group);
}

void group__maybe_complete(struct groups *groups, struct group__group *group)
{
    if (!group->is_preparing || group->is_initial || group->wants_completion) { return; }
    if (group__have_all_joined(group)) { complete_when_due(groups, group); }
}

/* Whoever waits for an assignment joins anew. */
static void wake_syncs(struct groups *groups, struct group__group *group, int16_t error)
{
    for (struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        struct group__request *sync = member->sync;
        if (sync == NULL) { continue; }
        member->sync = NULL;
        group__set_session(groups, member, member->session_ms);
        group__sync_error(groups, sync, error);
    }
}

void group__prepare(struct groups *groups, struct group__group *group)
{
    CHECK(!group->is_preparing);
    group->is_sync_over = false; /* who does not join goes */
    wake_syncs(groups, group, KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    group->is_preparing = true;
    group->is_initial = group->state == GROUP__EMPTY;
    group->is_extended = false;
    int64_t delay_ms = groups->config.initial_delay_ms;
    if (group->is_initial) {
        group->initial_delay_ms = delay_ms;
        group->initial_left_ms = base_max_i64(group__rebalance_ms(group) - delay_ms, 0);
        group__set_timer(groups, group, GROUP__INITIAL, delay_ms);
    } else if (group__have_all_joined(group)) {
        complete_when_due(groups, group);
    } else {
        group__set_timer(groups, group, GROUP__JOINING, group__rebalance_ms(group));
    }
}

void group__prepare_or_complete(struct groups *groups, struct group__group *group)
{
    if (group->is_preparing) {
        group__maybe_complete(groups, group);
    } else {
        group__prepare(groups, group);
    }
}

/* ---- after a proposal -------------------------------------------------------------------------------------------------- */

static void start_completing(struct groups *groups, struct group__group *group)
{
    group->is_preparing = false;
    group->is_initial = false;
    group->heir = NULL;
    group__stop_timer(groups, group);
    for (struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!member->is_committed) { continue; }
        member->is_new = false;
        member->has_synced = false;
        group__set_session(groups, member, member->session_ms);
        if (member->join == NULL) { continue; }
        struct group__request *join = member->join;
        member->join = NULL;
        group__answer_from_state(groups, join, member);
    }
    if (group->state == GROUP__COMPLETING) {
        group__set_timer(groups, group, GROUP__SYNCING, group__rebalance_ms(group));
    }
}

static void give_assignments(struct groups *groups, struct group__group *group)
{
    for (struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!member->is_committed) { continue; }
        group__set_session(groups, member, member->session_ms);
        if (member->sync == NULL) { continue; }
        struct group__request *sync = member->sync;
        member->sync = NULL;
        group__answer_from_state(groups, sync, member);
    }
}

/* The proposal that changed this group was applied: its leader goes on from what the group is now. */
void group__landed(struct groups *groups, struct group__group *group)
{
    bool was_completed = group->was_completed;
    bool was_assigned = group->was_assigned;
    group->is_touched = false;
    group->was_completed = false;
    group->was_assigned = false;
    if (was_completed) { start_completing(groups, group); }
    if (was_assigned) { give_assignments(groups, group); }
    if (group->replacing != NULL) {
        struct group__member *member = group->replacing->member;
        group__set_session(groups, member, member->session_ms);
        group__answer_from_state(groups, group->replacing, member);
        group->replacing = NULL;
    }
    if (group->needs_rebalance && group->state != GROUP__EMPTY && !group->is_preparing) {
        group__prepare(groups, group);
    } else {
        group__maybe_complete(groups, group);
    }
    if (group->has_expired || group->wants_completion) { group__due(groups, group); }
    group__free_if_nothing(groups, group);
}

/* A new leader: everybody has a whole session time-out, and who was being waited for is waited for anew. */
void group__take_over(struct groups *groups, struct group__group *group)
{
    for (struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        member->has_synced = group->state == GROUP__STABLE;
        group__set_session(groups, member, member->session_ms);
    }
    if (group->state == GROUP__EMPTY) { return; }
    if (group->needs_rebalance) {
        group__prepare(groups, group);
    } else if (group->state == GROUP__COMPLETING) {
        group__set_timer(groups, group, GROUP__SYNCING, group__rebalance_ms(group));
    }
}

/* ---- expiry ------------------------------------------------------------------------------------------------------------ */

/* A member that was never committed goes at once; nobody else ever saw it. */
static void drop_uncommitted(struct groups *groups, struct group__member *member)
{
    struct group__group *group = member->group;
    group__member_free(groups, member, KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    if (!group->is_preparing) {
        group__free_if_nothing(groups, group);
        return;
    }
    group__maybe_complete(groups, group);
}

void group__session_ended(struct groups *groups, struct group__member *member)
{
    bool waits = member->join != NULL || member->sync != NULL;
    if (member->is_going) { return; }
    if (!member->is_committed) {
        /* The outstanding proposal may be the one that takes it in: asked again in a while. */
        if (member->group->is_touched) {
            group__set_session(groups, member, 1000);
        } else {
            drop_uncommitted(groups, member);
        }
        return;
    }
    if (waits) {
        group__set_session(groups, member, member->session_ms);
        return;
    }
    member->is_expired = true;
    member->group->has_expired = true;
    group__due(groups, member->group);
}

void group__timer_ended(struct groups *groups, struct group__group *group)
{
    enum group__timer kind = group->timer_kind;
    group->timer_kind = GROUP__NO_TIMER;
    switch (kind) {
    case GROUP__NO_TIMER: return;
    case GROUP__INITIAL:
        if (group->is_extended && group->initial_left_ms > 0) {
            group->is_extended = false;
            int64_t delay_ms = base_min_i64(groups->config.initial_delay_ms, group->initial_left_ms);
            group->initial_left_ms = base_max_i64(group->initial_left_ms - group->initial_delay_ms, 0);
            group->initial_delay_ms = delay_ms;
            group__set_timer(groups, group, GROUP__INITIAL, delay_ms);
            return;
        }
        complete_when_due(groups, group);
        return;
    case GROUP__JOINING: complete_when_due(groups, group); return;
    case GROUP__SYNCING:
        group->is_sync_over = true;
        group->has_expired = true;
        group__due(groups, group);
        return;
    }
    UNREACHABLE();
}

/* A heartbeat that comes before the decision saves whose session has ended, not who is late with its sync. */
static bool has_expired(const struct group__group *group, const struct group__member *member)
{
    if (!member->is_committed || member->is_going) { return false; }
    return member->is_expired || (group->is_sync_over && !member->has_synced);
}

/* Who has expired, as records. */
enum group__verdict group__decide_expired(struct groups *groups, struct group__group *group)
{
    struct group__log *log = group__log(groups, group->log);
    for (struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (has_expired(group, member)) { group__propose_member_gone(groups, log, member); }
    }
    if (log->round.is_full) { return GROUP__FULL; }
    for (struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!has_expired(group, member)) { continue; }
        member->is_expired = false;
        member->is_going = true;
        group__change(groups, group);
    }
    group->has_expired = false;
    group->is_sync_over = false;
    return GROUP__DONE;
}

/* ---- SyncGroup ----------------------------------------------------------------------------------------------------------- */

void group__sync_error(struct groups *groups, struct group__request *request, int16_t error)
{
    struct kafka_sync_group_response *response = kafka_sync_group_response_take(request->ask.arena, 1);
    CHECK(response != NULL); /* GROUP_ANSWER_BYTES */
    kafka_sync_group_response_init(response);
    response->error_code = error;
    group__answer(groups, request, response);
}

bool group__sync_answer(struct groups *groups, struct group__request *request)
{
    const struct group__group *group = request->group;
    const struct group__member *member = request->member;
    size_t bytes = sizeof(struct kafka_sync_group_response) + 128 + member->assignment.size_bytes +
                   group->protocol_type.size_bytes + group->protocol.size_bytes;
    struct base_arena of_block;
    struct base_arena *arena = group__answer_arena(groups, request, bytes, &of_block);
    if (arena == NULL) { return false; }
    struct kafka_sync_group_response *response = kafka_sync_group_response_take(arena, 1);
    CHECK(response != NULL);
    kafka_sync_group_response_init(response);
    response->protocol_type = group__put_text(arena, group->protocol_type);
    response->protocol_name = group__put_text(arena, group->protocol);
    response->assignment = group__put_bytes(arena, member->assignment);
    group__answer(groups, request, response);
    return true;
}

static bool is_other(struct kafka_text asked, struct base_slice ours)
{
    return !kafka_text_is_null(asked) && ours.at != NULL && !group__same(ours, asked);
}

static int16_t sync_error(struct groups *groups, const struct group__group *group,
                          const struct kafka_sync_group_request *asked, struct group__member **member_out)
{
    if (group == NULL) { return KAFKA_ERROR_UNKNOWN_MEMBER_ID; }
    int16_t error = group__validate(groups, group, asked->member_id, asked->group_instance_id, member_out);
    if (error != KAFKA_ERROR_NONE) { return error; }
    if (asked->generation_id != group->generation) { return KAFKA_ERROR_ILLEGAL_GENERATION; }
    if (is_other(asked->protocol_type, group__protocol_type(group)) ||
        is_other(asked->protocol_name, group->protocol)) {
        return KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL;
    }
    if (group__is_empty(group)) { return KAFKA_ERROR_UNKNOWN_MEMBER_ID; }
    return group->is_preparing ? KAFKA_ERROR_REBALANCE_IN_PROGRESS : KAFKA_ERROR_NONE;
}

/* Each member's line of the request. */
static void note_lines(const struct groups *groups, const struct group__group *group,
                       const struct kafka_sync_group_request *asked)
{
    for (struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        member->sync_line = 0;
    }
    for (int32_t i = 0; i < asked->assignments_count; i++) {
        struct group__member *member = group__member(groups, group, kafka_text_slice(asked->assignments[i].member_id));
        if (member != NULL) { member->sync_line = (uint32_t)i + 1; } /* the last one counts, as in Kafka */
    }
}

static struct base_slice assignment_of(const struct kafka_sync_group_request *asked, const struct group__member *member)
{
    if (member->sync_line == 0) { return base_slice_of(NULL, 0); } /* whom the leader forgot gets nothing */
    return kafka_bytes_slice(asked->assignments[member->sync_line - 1].assignment);
}

/* The leader's assignment becomes the group's. */
static enum group__verdict decide_assignment(struct groups *groups, struct group__group *group,
                                             const struct kafka_sync_group_request *asked)
{
    struct group__log *log = group__log(groups, group->log);
    size_t bytes = 0;
    note_lines(groups, group, asked);
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!member->is_committed || member->is_going) { continue; }
        struct base_slice assignment = assignment_of(asked, member);
        bytes += group__more(group__text_bytes(member->assignment), group__bytes_rounded(assignment.size_bytes));
        group__propose_member(groups, log, member, member->id, assignment);
    }
    struct kafka_group_record record = group__record_of(group);
    record.state = GROUP__STABLE;
    record.state_timestamp_ms = groups->wall_ms;
    group__propose_group(groups, log, group, &record);
    if (log->round.is_full) { return GROUP__FULL; }
    if (!group__has_room(groups, 0, 0, 0, bytes)) { return GROUP__STARVED; }
    group__reserve(groups, log, 0, 0, 0, bytes);
    group->is_touched = true;
    group->was_assigned = true;
    group__change(groups, group);
    return GROUP__DONE;
}

/* No proposal can hold it, or the state has no room. As in Kafka whoever waits for it hears so, and all join anew. */
void group__assignment_refused(struct groups *groups, struct group__group *group, int16_t error)
{
    wake_syncs(groups, group, error);
    group__prepare(groups, group);
}

enum group__verdict group__decide_sync(struct groups *groups, struct group__request *request)
{
    const struct kafka_sync_group_request *asked = request->ask.request;
    bool is_named = !kafka_text_is_null(asked->protocol_type) && !kafka_text_is_null(asked->protocol_name);
    if (request->ask.version >= 5 && !is_named) { /* KIP-559: from there on both must be said */
        group__sync_error(groups, request, KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL);
        return GROUP__DONE;
    }
    if (request->ask.group_id.size_bytes == 0) {
        group__sync_error(groups, request, KAFKA_ERROR_INVALID_GROUP_ID);
        return GROUP__DONE;
    }
    struct group__group *group = group__find(groups, request->ask.group_id);
    if (group != NULL && group->is_touched) { return GROUP__LATER; }
    struct group__member *member = NULL;
    int16_t error = sync_error(groups, group, asked, &member);
    if (error != KAFKA_ERROR_NONE) {
        group__sync_error(groups, request, error);
        return GROUP__DONE;
    }
    if (group->state == GROUP__STABLE) {
        member->has_synced = true;
        group__set_session(groups, member, member->session_ms);
        group__answer_from_state(groups, request, member);
        return GROUP__DONE;
    }
    if (base_slice_equal(member->id, group->leader)) {
        struct group__log *log = group__log(groups, group->log);
        struct group__round mark = group__mark(log);
        enum group__verdict verdict = decide_assignment(groups, group, asked);
        if (verdict == GROUP__STARVED) {
            group__rollback(groups, log, mark);
            group__sync_error(groups, request, KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
            group__assignment_refused(groups, group, KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
            return GROUP__DONE;
        }
        if (verdict != GROUP__DONE) { return verdict; }
    }
    if (member->sync != NULL) { group__sync_error(groups, member->sync, KAFKA_ERROR_REBALANCE_IN_PROGRESS); }
    member->has_synced = true;
    member->sync = request;
    return GROUP__DONE;
}

/* ---- Heartbeat ------------------------------------------------------------------------------------------------------------- */

void group__heartbeat_answer(struct groups *groups, struct group__request *request, int16_t error)
{
    struct kafka_heartbeat_response *response = kafka_heartbeat_response_take(request->ask.arena, 1);
    CHECK(response != NULL); /* GROUP_ANSWER_BYTES */
    kafka_heartbeat_response_init(response);
    response->error_code = error;
    group__answer(groups, request, response);
}

enum group__verdict group__decide_heartbeat(struct groups *groups, struct group__request *request)
{
    const struct kafka_heartbeat_request *asked = request->ask.request;
    struct group__member *member = NULL;
    int16_t error = KAFKA_ERROR_UNKNOWN_MEMBER_ID;
    const struct group__group *group = group__find(groups, request->ask.group_id);
    if (request->ask.group_id.size_bytes == 0) {
        error = KAFKA_ERROR_INVALID_GROUP_ID;
    } else if (group != NULL) {
        error = group__validate(groups, group, asked->member_id, asked->group_instance_id, &member);
        if (error == KAFKA_ERROR_NONE && asked->generation_id != group->generation) {
            error = KAFKA_ERROR_ILLEGAL_GENERATION;
        }
        if (error == KAFKA_ERROR_NONE && group__is_empty(group)) { error = KAFKA_ERROR_UNKNOWN_MEMBER_ID; }
    }
    if (error == KAFKA_ERROR_NONE) {
        /* Whoever waits for its first generation has a time-out of its own. */
        if (member->is_committed) { group__set_session(groups, member, member->session_ms); }
        if (group->is_preparing) { error = KAFKA_ERROR_REBALANCE_IN_PROGRESS; }
    }
    group__heartbeat_answer(groups, request, error);
    return GROUP__DONE;
}

/* ---- LeaveGroup ------------------------------------------------------------------------------------------------------------ */

/* The member that one line of the request names; NULL: none goes, and *error_out says why. */
static struct group__member *leaver(const struct groups *groups, const struct group__group *group,
                                    const struct kafka_leave_group_request_member_identity *line, int16_t *error_out)
{
    struct group__member *member = NULL;
    *error_out = KAFKA_ERROR_NONE;
    if (kafka_text_slice(line->member_id).size_bytes == 0) { /* an operator removes whoever has that instance id */
        if (!kafka_text_is_null(line->group_instance_id)) {
            member = group__static(groups, group, kafka_text_slice(line->group_instance_id));
        }
        if (member == NULL) { *error_out = KAFKA_ERROR_UNKNOWN_MEMBER_ID; }
        return member;
    }
    member = group__member(groups, group, kafka_text_slice(line->member_id));
    if (member != NULL && member->is_pending) { return member; }
    *error_out = group__validate(groups, group, line->member_id, line->group_instance_id, &member);
    return member;
}

static void leave(struct groups *groups, struct group__member *member)
{
    struct group__group *group = member->group;
    if (!member->is_committed) {
        group__member_free(groups, member, KAFKA_ERROR_UNKNOWN_MEMBER_ID);
        return;
    }
    member->is_going = true;
    group__change(groups, group);
}

/* The group is not there, and so is none of them: each is told. */
static void nobody_leaves(const struct group__request *request,
                          const struct kafka_leave_group_request_member_identity *lines,
                          struct kafka_leave_group_response *response)
{
    for (int32_t i = 0; i < response->members_count; i++) {
        response->members[i].member_id = lines[i].member_id;
        response->members[i].group_instance_id = lines[i].group_instance_id;
        response->members[i].error_code = KAFKA_ERROR_UNKNOWN_MEMBER_ID;
    }
    if (request->ask.version >= 3) { return; }
    response->error_code = KAFKA_ERROR_UNKNOWN_MEMBER_ID;
    response->members_count = 0;
}

enum group__verdict group__decide_leave(struct groups *groups, struct group__request *request)
{
    const struct kafka_leave_group_request *asked = request->ask.request;
    struct kafka_leave_group_request_member_identity alone;
    kafka_leave_group_request_member_identity_init(&alone);
    alone.member_id = asked->member_id;
    const struct kafka_leave_group_request_member_identity *lines = request->ask.version < 3 ? &alone : asked->members;
    int32_t count = request->ask.version < 3 ? 1 : asked->members_count;

    struct group__group *group = group__find(groups, request->ask.group_id);
    if (group != NULL && group->is_touched) { return GROUP__LATER; }
    size_t each = sizeof(struct kafka_leave_group_response_member_response);
    size_t bytes = sizeof(struct kafka_leave_group_response) + 128 + (size_t)base_max_i64(count, 0) * each;
    struct base_arena of_block;
    struct base_arena *arena = group__answer_arena(groups, request, bytes, &of_block);
    if (arena == NULL) { return GROUP__STARVED; }
    struct kafka_leave_group_response *response = kafka_leave_group_response_take(arena, 1);
    CHECK(response != NULL);
    kafka_leave_group_response_init(response);
    if (request->ask.group_id.size_bytes == 0) {
        response->error_code = KAFKA_ERROR_INVALID_GROUP_ID;
        group__answer(groups, request, response);
        return GROUP__DONE;
    }
    response->members = kafka_leave_group_response_member_response_take(arena, count);
    CHECK(response->members != NULL);
    response->members_count = count;
    if (group == NULL) {
        nobody_leaves(request, lines, response);
        group__answer(groups, request, response);
        return GROUP__DONE;
    }
    struct group__log *log = group__log(groups, group->log);
    bool has_records = false;
    for (int pass = 0; pass < 2; pass++) { /* first what can be refused for want of room, then what can't */
        for (int32_t i = 0; i < count; i++) {
            struct kafka_leave_group_response_member_response *line = &response->members[i];
            struct group__member *member = leaver(groups, group, &lines[i], &line->error_code);
            line->member_id = lines[i].member_id;
            line->group_instance_id = lines[i].group_instance_id;
            if (member == NULL) { continue; }
            if (pass == 1) {
                leave(groups, member);
            } else if (member->is_committed) {
                group__propose_member_gone(groups, log, member);
                has_records = true;
            }
        }
        if (log->round.is_full) { return GROUP__FULL; }
    }
    if (request->ask.version < 3) {
        response->error_code = response->members[0].error_code;
        response->members_count = 0;
    }
    if (has_records) {
        group__answer_landed(groups, request, response);
        return GROUP__DONE;
    }
    group__answer(groups, request, response);
    group__maybe_complete(groups, group);
    group__free_if_nothing(groups, group);
    return GROUP__DONE;
}
