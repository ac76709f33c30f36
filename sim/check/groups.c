/* groups.c: see groups.h. What clients were told, line by line.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "groups__parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/kafka/consumer_protocol.h"
#include "wire/kafka/kafka.h"

static const char *const hit_names[CHECK_GROUPS_HIT_COUNT] = {
    "round",     "assigned",  "emptied",  "left",    "silent",          "replaced",     "carried_on", "more_found",
    "committed", "went_back", "late",     "fenced",  "unsteady",        "deleted",      "expired",    "topic_gone",
    "disbanded", "swept",     "id_asked", "loading", "instance_fenced", "inconsistent", "join_lost",  "grown",
};
const char *check_groups_hit_name(enum check_groups_hit hit) { return hit_names[hit]; }
uint64_t check_groups_hits(const struct check_groups *groups, enum check_groups_hit hit) { return groups->hits[hit]; }

struct check_groups *check_groups_create(struct check_report *report, const struct history *history)
{
    struct check_groups *groups = calloc(1, sizeof *groups);
    CHECK(groups != NULL);
    groups->report = report;
    groups->history = history;
    groups->gone_ns = UINT64_MAX;
    return groups;
}

void check_groups_destroy(struct check_groups *groups)
{
    for (uint32_t i = 0; i < groups->group_count; i++) {
        for (uint32_t m = 0; m < groups->groups[i].member_count; m++) {
            free(groups->groups[i].members[m].owned);
            free(groups->groups[i].members[m].given);
        }
        free(groups->groups[i].members);
        free(groups->groups[i].owners);
    }
    for (uint32_t i = 0; i < GROUPS_SHARDS; i++) {
        free(groups->group_slots[i].at);
        free(groups->member_slots[i].at);
        free(groups->offset_slots[i].at);
    }
    free(groups->groups);
    free(groups->commits);
    free(groups->offsets);
    free(groups);
}

void groups__put_text(char *to, size_t size_bytes, struct base_slice from)
{
    size_t bytes = base_min_size(size_bytes - 1, from.size_bytes);
    if (bytes > 0) { memcpy(to, from.at, bytes); }
    to[bytes] = 0;
}

uint32_t groups__group(struct check_groups *groups, struct base_slice id)
{
    for (uint32_t i = 0; i < groups->group_count; i++) {
        if (groups__is_text(groups->groups[i].id, id)) { return i; }
    }
    groups->groups = check__grow(groups->groups, groups->group_count, &groups->group_room, sizeof *groups->groups);
    struct known_group *group = &groups->groups[groups->group_count];
    *group = (struct known_group){.leader = {.generation = -1}, .carried_generation = -1};
    groups__put_text(group->id, sizeof group->id, id);
    return groups->group_count++;
}

uint32_t groups__find_member(const struct known_group *group, struct base_slice id)
{
    for (uint32_t i = group->member_count; i-- > 0;) { /* the young ones are asked for most */
        if (groups__is_text(group->members[i].id, id)) { return i; }
    }
    return GROUPS_NONE;
}

uint32_t groups__member(struct known_group *group, struct base_slice id)
{
    uint32_t at = groups__find_member(group, id);
    if (at != GROUPS_NONE) { return at; }
    group->members = check__grow(group->members, group->member_count, &group->member_room, sizeof *group->members);
    struct known_member *member = &group->members[group->member_count];
    *member = (struct known_member){.given_generation = -1, .synced_generation = -1};
    groups__put_text(member->id, sizeof member->id, id);
    return group->member_count++;
}

void groups__end_life(struct known_group *group, uint64_t now_ns)
{
    group->told_count = 0;
    group->owner_count = 0;
    group->leader.generation = -1;
    group->born_ns = now_ns;
    group->carried_generation = -1;
}

/* ---- generations ------------------------------------------------------------------------------------------------------- */

/* The youngest that was told before `at_ns`; -1: none. */
static int32_t told_before(const struct known_group *group, uint64_t at_ns)
{
    int32_t youngest = -1;
    uint32_t count = group->told_count < GROUPS_TOLD_MAX ? group->told_count : GROUPS_TOLD_MAX;
    for (uint32_t i = 0; i < count; i++) {
        bool is_before = group->told[i].end_ns < at_ns;
        if (is_before && group->told[i].generation > youngest) { youngest = group->told[i].generation; }
    }
    return youngest;
}

static void note_told(struct known_group *group, int32_t generation, uint64_t end_ns)
{
    uint32_t count = group->told_count < GROUPS_TOLD_MAX ? group->told_count : GROUPS_TOLD_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (group->told[i].generation == generation) { return; }
    }
    group->told[group->told_count % GROUPS_TOLD_MAX] = (struct told){.generation = generation, .end_ns = end_ns};
    group->told_count += 1;
}

/* Without the committed side: may the group have been deleted, or have gone as nobody was in it, when `op` was answered? */
static bool may_have_begun_anew(const struct check_groups *groups, const struct known_group *group,
                                const struct history_op *op)
{
    for (uint32_t i = 0; i < groups->history->op_count; i++) {
        const struct history_op *other = &groups->history->ops[i];
        bool is_disband = other->kind == HISTORY_DISBAND && strcmp(other->group->group, group->id) == 0;
        if (is_disband && other->what != HISTORY_FAIL && other->invoke_ns <= op->end_ns) { return true; }
    }
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct known_member *member = &group->members[i];
        bool is_held = !member->has_left && member->instance[0] == 0;
        if (is_held && groups__lease_end_ns(member) > op->end_ns) { return false; }
    }
    return true;
}

/* A generation that was told: not before one that was told before it was asked for. */
static void judge_told(struct check_groups *groups, struct known_group *group, const struct history_op *op)
{
    int32_t generation = op->group->generation;
    if (op->invoke_ns < group->born_ns) { return; }
    int32_t youngest = told_before(group, op->invoke_ns);
    if (generation < youngest) {
        bool is_anew = !groups->has_state && may_have_begun_anew(groups, group, op);
        if (is_anew) {
            groups__end_life(group, op->invoke_ns);
        } else {
            check_breach(groups->report, "I12",
                         "%s of group %s told generation %" PRId32 " to %s, and %" PRId32 " was told before it asked",
                         history_kind_name(op->kind), group->id, generation, op->actor, youngest);
        }
    }
    if (groups->has_state && group->is_in && generation > group->was.generation && op->kind == HISTORY_JOIN) {
        check_breach(groups->report, "I12",
                     "a join of group %s told generation %" PRId32 ", and %" PRId32 " is the last that is committed",
                     group->id, generation, group->was.generation);
    }
    note_told(group, generation, op->end_ns);
}

/* ---- members --------------------------------------------------------------------------------------------------------- */

static void hear(struct known_member *member, uint64_t asked_ns, bool is_settled)
{
    member->heard_ns = base_max_u64(member->heard_ns, asked_ns);
    if (is_settled) { member->settled_ns = base_max_u64(member->settled_ns, asked_ns); }
}

static void judge_leader(struct check_groups *groups, struct known_group *group, const struct history_op *op)
{
    const struct history_group *told = op->group;
    if (op->invoke_ns < group->born_ns || told->leader[0] == 0) { return; }
    bool is_same = group->leader.generation == told->generation;
    if (is_same && strcmp(group->leader.id, told->leader) != 0) {
        uint32_t before = groups__find_member(group, base_slice_text(group->leader.id));
        uint32_t now = groups__find_member(group, base_slice_text(told->leader));
        bool is_static = (before != GROUPS_NONE && group->members[before].instance[0] != 0) ||
                         (now != GROUPS_NONE && group->members[now].instance[0] != 0) || told->instance[0] != 0;
        if (!is_static) { /* a static member's place, and so the lead, may be taken */
            check_breach(groups->report, "I12", "generation %" PRId32 " of group %s is led by %s and by %s",
                         told->generation, group->id, group->leader.id, told->leader);
        }
    }
    if (told->generation >= group->leader.generation) {
        group->leader.generation = told->generation;
        (void)snprintf(group->leader.id, sizeof group->leader.id, "%s", told->leader); /* as long */
    }
}

static void joined(struct check_groups *groups, struct known_group *group, const struct history_op *op)
{
    const struct history_group *told = op->group;
    judge_told(groups, group, op);
    judge_leader(groups, group, op);
    uint32_t at = groups__member(group, base_slice_text(told->given)); /* it may move the members */
    struct known_member *member = &group->members[at];
    memcpy(member->instance, told->instance, sizeof member->instance);
    memcpy(member->topics, op->topic, sizeof member->topics);
    member->session_ms = told->session_ms;
    member->rebalance_ms = told->rebalance_ms;
    hear(member, op->invoke_ns, false); /* the wait for its sync may have begun with a join whose answer was lost */
}

/* "t:0,t:2": the next one from *at on, NULL: none. */
static const char *next_part(const char **at, char part_out[32])
{
    if (*at == NULL || **at == 0) { return NULL; }
    const char *comma = strchr(*at, ',');
    size_t bytes = comma == NULL ? strlen(*at) : (size_t)(comma - *at);
    if (bytes > 31) { bytes = 31; }
    memcpy(part_out, *at, bytes);
    part_out[bytes] = 0;
    *at = comma == NULL ? NULL : comma + 1;
    return part_out;
}

static void forget_owners(struct known_group *group, int32_t before)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < group->owner_count; i++) {
        if (group->owners[i].generation >= before) { group->owners[kept++] = group->owners[i]; }
    }
    group->owner_count = kept;
}

static void own(struct check_groups *groups, struct known_group *group, uint32_t member, int32_t generation,
                const char *part)
{
    for (uint32_t i = 0; i < group->owner_count; i++) {
        const struct owner *owner = &group->owners[i];
        if (owner->generation != generation || strcmp(owner->part, part) != 0) { continue; }
        if (owner->member == member) { return; }
        const struct known_member *one = &group->members[owner->member], *two = &group->members[member];
        bool is_same = one->instance[0] != 0 && strcmp(one->instance, two->instance) == 0; /* the other one is fenced */
        if (!is_same) {
            check_breach(groups->report, "I12", "%s belongs to %s and to %s in generation %" PRId32 " of group %s",
                         part, one->id, two->id, generation, group->id);
        }
    }
    group->owners = check__grow(group->owners, group->owner_count, &group->owner_room, sizeof *group->owners);
    struct owner *owner = &group->owners[group->owner_count++];
    *owner = (struct owner){.generation = generation, .member = member};
    (void)snprintf(owner->part, sizeof owner->part, "%s", part); /* as long */
}

static void synced(struct check_groups *groups, struct known_group *group, uint32_t at, const struct history_op *op)
{
    const struct history_group *told = op->group;
    judge_told(groups, group, op);
    if (op->invoke_ns < group->born_ns) { return; }
    struct known_member *member = &group->members[at];
    if (told->instance[0] != 0) { memcpy(member->instance, told->instance, sizeof member->instance); }
    forget_owners(group, told->generation - 4);
    char part[32];
    for (const char *rest = told->owned; next_part(&rest, part) != NULL;) {
        own(groups, group, at, told->generation, part);
    }
    bool is_known = groups->has_state && member->is_in && member->given_generation == told->generation;
    const char *owned = told->owned == NULL ? "" : told->owned;
    if (is_known && strcmp(member->given, owned) != 0) {
        check_breach(groups->report, "I12",
                     "%s of group %s was told that it owns \"%s\" in generation %" PRId32 ", and \"%s\" is committed",
                     member->id, group->id, owned, told->generation, member->given);
    }
}

/* ---- commits --------------------------------------------------------------------------------------------------------- */

static void note_commit(struct check_groups *groups, uint32_t number, const struct history_op *op)
{
    int64_t tag = op->group->tag;
    if (tag < 0 || tag >= GROUPS_TAGS_MAX) { return; }
    while ((int64_t)groups->commit_room <= tag) {
        uint32_t old = groups->commit_room;
        groups->commits = check__grow(groups->commits, old, &groups->commit_room, sizeof *groups->commits);
        for (uint32_t i = old; i < groups->commit_room; i++) { groups->commits[i].op = GROUPS_NONE; }
    }
    groups->commits[tag].op = number;
}

struct known_commit *groups__commit(const struct check_groups *groups, int64_t tag)
{
    if (tag < 0 || tag >= (int64_t)groups->commit_room || groups->commits[tag].op == GROUPS_NONE) { return NULL; }
    return &groups->commits[tag];
}

static bool is_of_same_place(const struct history_op *a, const struct history_op *b)
{
    return history_is_of(a, b->topic, b->partition) && strcmp(a->group->group, b->group->group) == 0;
}

/* A request of that kind and place may have taken its effect after `since_ns`. */
static bool may_have_happened(const struct check_groups *groups, enum history_kind kind, const struct history_op *place,
                              uint64_t since_ns)
{
    for (uint32_t i = 0; i < groups->history->op_count; i++) {
        const struct history_op *op = &groups->history->ops[i];
        if (op->kind != kind || op->what == HISTORY_FAIL) { continue; }
        if (op->what == HISTORY_OK && op->end_ns < since_ns) { continue; }
        bool is_it = kind == HISTORY_DELETE    ? strcmp(op->topic, place->topic) == 0
                     : kind == HISTORY_DISBAND ? strcmp(op->group->group, place->group->group) == 0
                                               : is_of_same_place(op, place);
        if (is_it) { return true; }
    }
    return false;
}

static void acknowledged(struct check_groups *groups, struct known_group *group, const struct history_op *op)
{
    int32_t youngest = told_before(group, op->invoke_ns);
    bool is_of_member = op->group->generation >= 0 && op->invoke_ns >= group->born_ns;
    if (is_of_member && op->group->generation < youngest) {
        check_breach(groups->report, "I12",
                     "%s committed in group %s as of generation %" PRId32 ", and %" PRId32 " had been told before",
                     op->actor, group->id, op->group->generation, youngest);
    }
    if (!groups->has_state) { return; }
    for (uint32_t i = 0; i < groups->offset_count; i++) {
        const struct known_offset *offset = &groups->offsets[i];
        const struct known_commit *by = groups__commit(groups, offset->tag);
        bool is_of_place = by != NULL && &groups->groups[offset->group] == group &&
                           is_of_same_place(&groups->history->ops[by->op], op);
        if (!is_of_place) { continue; }
        if (offset->is_in && offset->tag == op->group->tag) { return; }
        /* Another that was committed while it was under way: one change may have held both, and no look saw the first. The
         * other may be gone by now, when a client that sleeps hears of its own: that was judged then. */
        if (offset->changed_ns >= op->invoke_ns) { return; }
    }
    const struct known_commit *commit = groups__commit(groups, op->group->tag);
    if (commit != NULL && commit->is_applied) { return; } /* and gone since: that was judged then */
    bool may_be_gone = may_have_happened(groups, HISTORY_DELETE, op, op->invoke_ns) ||
                       may_have_happened(groups, HISTORY_DISBAND, op, op->invoke_ns) ||
                       may_have_happened(groups, HISTORY_UNCOMMIT, op, op->invoke_ns);
    if (may_be_gone) { return; }
    check_breach(groups->report, "I12",
                 "offset %" PRId64 " of %s-%" PRId32 " in group %s was acknowledged to %s, and is not committed",
                 op->at, op->topic, op->partition, group->id, op->actor);
}

/* What OffsetFetch says, against what is committed. */
static void judge_fetched(struct check_groups *groups, struct known_group *group, const struct history_op *op)
{
    const struct known_commit *commit = groups__commit(groups, op->group->tag);
    if (op->offset >= 0) {
        const struct history_op *by = commit == NULL ? NULL : &groups->history->ops[commit->op];
        if (by == NULL || !is_of_same_place(by, op) || by->at != op->offset) {
            check_breach(groups->report, "I12",
                         "%s was told that %" PRId64 " is committed of %s-%" PRId32
                         " in group %s, and nobody has committed that",
                         op->actor, op->offset, op->topic, op->partition, group->id);
        } else if (by->what == HISTORY_FAIL) {
            check_breach(groups->report, "I22",
                         "%s was told that %" PRId64 " is committed of %s-%" PRId32 " in group %s, which was refused",
                         op->actor, op->offset, op->topic, op->partition, group->id);
        } else if (groups->has_state && commit->superseded_ns != 0 && commit->superseded_ns < op->invoke_ns) {
            check_breach(groups->report, "I12",
                         "%s was told that %" PRId64 " is committed of %s-%" PRId32
                         " in group %s, and another was, before it asked",
                         op->actor, op->offset, op->topic, op->partition, group->id);
        }
        return;
    }
    if (!groups->has_state) { return; }
    for (uint32_t i = 0; i < groups->offset_count; i++) {
        const struct known_offset *offset = &groups->offsets[i];
        const struct known_commit *by = offset->is_in ? groups__commit(groups, offset->tag) : NULL;
        bool is_here = by != NULL && &groups->groups[offset->group] == group && offset->changed_ns < op->invoke_ns &&
                       is_of_same_place(&groups->history->ops[by->op], op);
        if (!is_here || may_have_happened(groups, HISTORY_DELETE, op, groups->history->ops[by->op].invoke_ns)) {
            continue;
        }
        check_breach(groups->report, "I12",
                     "%s was told that nothing is committed of %s-%" PRId32 " in group %s, and %" PRId64 " is",
                     op->actor, op->topic, op->partition, group->id, offset->offset);
    }
}

/* A deletion that was answered has happened: of the group, or (place) of one offset. */
static void judge_deleted(struct check_groups *groups, const struct known_group *group, const struct history_op *op)
{
    for (uint32_t i = 0; i < groups->offset_count && groups->has_state; i++) {
        const struct known_offset *offset = &groups->offsets[i];
        const struct known_commit *by = offset->is_in ? groups__commit(groups, offset->tag) : NULL;
        if (by == NULL || &groups->groups[offset->group] != group || offset->changed_ns >= op->invoke_ns) { continue; }
        bool is_of_it = op->kind == HISTORY_DISBAND || is_of_same_place(&groups->history->ops[by->op], op);
        /* Of a topic's name before it was deleted: nobody sees it, and it goes by and by. */
        if (!is_of_it || may_have_happened(groups, HISTORY_DELETE, &groups->history->ops[by->op], 0)) { continue; }
        check_breach(groups->report, "I12",
                     "%s was told that the offset %" PRId64 " of partition %" PRId32
                     " in group %s is deleted, and it is not",
                     op->actor, offset->offset, offset->part.index, group->id);
    }
}

/* ---- lines ----------------------------------------------------------------------------------------------------------- */

static void note_refusal(struct check_groups *groups, const struct history_op *op)
{
    switch (op->error) {
    case KAFKA_ERROR_MEMBER_ID_REQUIRED: groups__hit(groups, CHECK_GROUPS_ID_ASKED); return;
    case KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS: groups__hit(groups, CHECK_GROUPS_LOADING); return;
    case KAFKA_ERROR_FENCED_INSTANCE_ID: groups__hit(groups, CHECK_GROUPS_INSTANCE_FENCED); return;
    case KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL: groups__hit(groups, CHECK_GROUPS_INCONSISTENT); return;
    case KAFKA_ERROR_REBALANCE_IN_PROGRESS:
        if (op->kind == HISTORY_COMMIT) { groups__hit(groups, CHECK_GROUPS_UNSTEADY); }
        return;
    case KAFKA_ERROR_UNKNOWN_MEMBER_ID:
    case KAFKA_ERROR_ILLEGAL_GENERATION:
        if (op->kind == HISTORY_COMMIT) { groups__hit(groups, CHECK_GROUPS_FENCED); }
        return;
    default: return;
    }
}

static void take_end(struct check_groups *groups, const struct history_op *op)
{
    uint32_t at = groups__group(groups, base_slice_text(op->group->group));
    struct known_group *group = &groups->groups[at];
    bool is_member = op->group->member[0] != 0 && op->invoke_ns >= group->born_ns;
    uint32_t member = GROUPS_NONE;
    if (op->what == HISTORY_OK && is_member) { member = groups__member(group, base_slice_text(op->group->member)); }
    if (op->what == HISTORY_UNKNOWN && (op->kind == HISTORY_JOIN || op->kind == HISTORY_SYNC)) {
        groups__hit(groups, CHECK_GROUPS_JOIN_LOST);
    }
    if (op->what != HISTORY_OK) {
        note_refusal(groups, op);
        return;
    }
    switch ((int)op->kind) {
    case HISTORY_JOIN: joined(groups, group, op); return;
    case HISTORY_SYNC:
        if (member != GROUPS_NONE) { synced(groups, group, member, op); }
        break;
    case HISTORY_COMMIT: acknowledged(groups, group, op); break;
    case HISTORY_COMMITTED: judge_fetched(groups, group, op); return;
    case HISTORY_LEAVE: return;
    case HISTORY_UNCOMMIT:
    case HISTORY_DISBAND: judge_deleted(groups, group, op); return;
    default: break;
    }
    if (member == GROUPS_NONE || op->group->generation < 0) { return; }
    struct known_member *known = &group->members[member];
    if (op->kind == HISTORY_SYNC) { known->synced_generation = op->group->generation; }
    /* A commit is taken while others join; and whoever has not synced is waited for no longer than that. */
    bool is_settled = op->kind != HISTORY_COMMIT && known->synced_generation == op->group->generation;
    hear(known, op->invoke_ns, is_settled);
}

static void take_begin(struct check_groups *groups, uint32_t number, const struct history_op *op)
{
    uint32_t at = groups__group(groups, base_slice_text(op->group->group));
    struct known_group *group = &groups->groups[at];
    if (op->kind == HISTORY_COMMIT) { note_commit(groups, number, op); }
    if (op->kind != HISTORY_LEAVE) { return; }
    for (uint32_t i = 0; i < group->member_count; i++) {
        struct known_member *member = &group->members[i];
        bool is_named = op->group->member[0] != 0 ? strcmp(member->id, op->group->member) == 0
                                                  : strcmp(member->instance, op->group->instance) == 0;
        member->has_left = member->has_left || is_named;
    }
}

void check_groups_told(struct check_groups *groups)
{
    const struct history *history = groups->history;
    for (; groups->line < history->line_count; groups->line++) {
        const struct history_line *line = &history->lines[groups->line];
        const struct history_op *op = &history->ops[line->op];
        if (op->kind == HISTORY_GROW && line->is_end && op->what == HISTORY_OK) {
            groups__hit(groups, CHECK_GROUPS_GROWN);
        }
        if (op->group == NULL || op->group->group[0] == 0) { continue; }
        if (line->is_end) {
            take_end(groups, op);
        } else {
            take_begin(groups, line->op, op);
        }
    }
}

/* ---- assignments ----------------------------------------------------------------------------------------------------- */

char *check_owned_text(struct base_slice assignment)
{
    static const enum kafka_message message = KAFKA_MESSAGE_CONSUMER_PROTOCOL_ASSIGNMENT;
    size_t room_bytes = 16 * assignment.size_bytes + 1024;
    uint8_t *room = malloc(room_bytes);
    size_t text_bytes = 64 * assignment.size_bytes + 16;
    char *text = malloc(text_bytes);
    CHECK(room != NULL && text != NULL);
    text[0] = 0;
    size_t used = 0, used_bytes;
    struct base_arena arena;
    base_arena_init(&arena, room, room_bytes);
    struct kafka_consumer_protocol_assignment owned;
    if (assignment.size_bytes >= 2) {
        int16_t version = (int16_t)base_get_u16(assignment.at);
        struct base_slice body = base_slice_of(assignment.at + 2, assignment.size_bytes - 2);
        if (version < 0 || version > kafka_message_version_max(message) ||
            kafka_decode_front(message, body, version, &arena, &owned, &used_bytes) != BASE_OK) {
            (void)snprintf(text, text_bytes, "?"); /* short */
            free(room);
            return text;
        }
        for (int32_t t = 0; t < owned.assigned_partitions_count; t++) {
            struct base_slice topic = kafka_text_slice(owned.assigned_partitions[t].topic);
            for (int32_t p = 0; p < owned.assigned_partitions[t].partitions_count; p++) {
                int wrote =
                    snprintf(text + used, text_bytes - used, "%s%.*s:%" PRId32, used == 0 ? "" : ",",
                             (int)topic.size_bytes, (const char *)topic.at, owned.assigned_partitions[t].partitions[p]);
                CHECK(wrote > 0 && (size_t)wrote < text_bytes - used);
                used += (size_t)wrote;
            }
        }
    }
    free(room);
    return text;
}
