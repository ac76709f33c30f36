/* groups_state.c: see groups.h. What the coordinators have committed, look by look.
 *
 * A look compares what is there with what was there at the look before. Nothing lands twice between two looks of a log: one
 * proposal of it is outstanding at most, and a look comes after every step. So what a record changed was decided on what was
 * seen before, at some moment since the log had nothing to decide (known_log.idle_ns).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "groups__parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void check_groups_rules(struct check_groups *groups, int64_t retention_ms, uint64_t round_ns)
{
    groups->has_state = true;
    groups->retention_ms = retention_ms;
    groups->round_ns = round_ns;
}

void check_groups_boot(struct check_groups *groups)
{
    /* What a start finds may have been decided in the life before: since when the log had nothing to decide is kept. */
    for (uint32_t i = 0; i < groups->log_count; i++) {
        groups->logs[i].is_led = groups->logs[i].was_outstanding = false;
    }
    for (uint32_t i = 0; i < groups->group_count; i++) {
        struct known_group *group = &groups->groups[i];
        group->carried_generation = group->is_in && !group->was.is_empty ? group->was.generation : -1;
        group->phase = PHASE_NONE;
        group->phase_ns = 0;
    }
}

void check_groups_calm(struct check_groups *groups, uint64_t gone_ns) { groups->gone_ns = gone_ns; }

/* ---- finding --------------------------------------------------------------------------------------------------------- */

static uint32_t hint(const struct slots *slots, uint32_t slot) { return slot < slots->room ? slots->at[slot] : 0; }

static void set_hint(struct slots *slots, uint32_t slot, uint32_t value)
{
    while (slot >= slots->room) { slots->at = check__grow(slots->at, slots->room, &slots->room, sizeof *slots->at); }
    slots->at[slot] = value + 1;
}

static uint32_t group_of(struct check_groups *groups, uint32_t slot, struct base_slice id)
{
    uint32_t at = hint(&groups->group_slots[groups->shard], slot);
    if (at > 0 && groups__is_text(groups->groups[at - 1].id, id)) { return at - 1; }
    at = groups__group(groups, id);
    if (slot != GROUPS_NONE) { set_hint(&groups->group_slots[groups->shard], slot, at); }
    return at;
}

/* ---- a look ---------------------------------------------------------------------------------------------------------- */

void check_groups_look(struct check_groups *groups, uint32_t shard, uint64_t now_ns, int64_t wall_ms, bool is_changed)
{
    check_groups_told(groups);
    groups->look += 1;
    groups->shard = shard;
    groups->now_ns = now_ns;
    groups->wall_ms = wall_ms;
    groups->is_changed = is_changed;
}

void check_groups_log(struct check_groups *groups, uint32_t log, const struct check_group_log *look)
{
    struct known_log *known = &groups->logs[log];
    if (log >= groups->log_count) { groups->log_count = log + 1; }
    known->seen = groups->look;
    known->now = *look;
    known->is_fresh = look->is_led && !known->is_led;
    known->is_led = look->is_led;
    known->wall_max_ms = base_max_i64(known->wall_max_ms, groups->wall_ms);
    if (known->is_fresh) { groups->is_changed = true; } /* what was there before the start may not be there */
}

bool check_groups_wants_all(const struct check_groups *groups) { return groups->is_changed; }

/* After the judgements: what is decided from now on is decided on this. */
static void end_look_at_logs(struct check_groups *groups)
{
    for (uint32_t i = 0; i < groups->log_count; i++) {
        struct known_log *log = &groups->logs[i];
        if (log->seen != groups->look) { continue; }
        log->was_outstanding = log->now.is_outstanding;
        if (log->now.is_deciding || !log->is_led) { continue; }
        log->idle_ns = groups->now_ns;
        log->wall_max_ms = groups->wall_ms;
    }
}

void check_groups_group(struct check_groups *groups, uint32_t slot, const struct check_group *look)
{
    uint32_t at = group_of(groups, slot, look->id);
    struct known_group *group = &groups->groups[at];
    group->shard = groups->shard;
    group->log = look->log;
    group->seen = groups->look;
    group->now = *look;
    if (!groups->is_changed) { return; }
    group->has_type_now = look->protocol_type.at != NULL;
    group->is_consumer_now = base_slice_equal(look->protocol_type, base_slice_text("consumer"));
    groups__put_text(group->leads_now, sizeof group->leads_now, look->leader);
}

void check_groups_member(struct check_groups *groups, uint32_t slot, const struct check_group_member *look)
{
    struct known_group *group = &groups->groups[group_of(groups, GROUPS_NONE, look->group_id)];
    uint32_t at = hint(&groups->member_slots[groups->shard], slot);
    bool is_it = at > 0 && at - 1 < group->member_count && groups__is_text(group->members[at - 1].id, look->id);
    if (!is_it) {
        at = groups__member(group, look->id) + 1;
        set_hint(&groups->member_slots[groups->shard], slot, at - 1);
    }
    struct known_member *member = &group->members[at - 1];
    member->seen = groups->look;
    member->is_new = !member->is_in;
    groups__put_text(member->instance, sizeof member->instance, look->instance);
    if (member->session_ms == 0 || member->is_new) {
        member->session_ms = look->session_ms;
        member->rebalance_ms = look->rebalance_ms;
    }
    uint64_t hash = base_hash_bytes(look->assignment.at, look->assignment.size_bytes, 1);
    bool is_same = member->owned != NULL && member->assignment_hash == hash &&
                   member->assignment_bytes == look->assignment.size_bytes;
    if (is_same) { return; }
    free(member->owned);
    member->owned = check_owned_text(look->assignment);
    member->assignment_hash = hash;
    member->assignment_bytes = look->assignment.size_bytes;
}

int64_t check_commit_tag(struct base_slice metadata)
{
    if (metadata.size_bytes < 5 || memcmp(metadata.at, "tag=", 4) != 0) { return -1; }
    int64_t tag = -1;
    enum base_rc rc = base_text_parse_i64(base_slice_of(metadata.at + 4, metadata.size_bytes - 4), &tag);
    return rc == BASE_OK ? tag : -1;
}

static bool is_offset(const struct check_groups *groups, uint32_t at, uint32_t group, struct base_part part)
{
    const struct known_offset *offset = &groups->offsets[at];
    return offset->group == group && base_part_equal(offset->part, part);
}

void check_groups_offset(struct check_groups *groups, uint32_t slot, const struct check_group_offset *look)
{
    uint32_t group = group_of(groups, GROUPS_NONE, look->group_id);
    uint32_t at = hint(&groups->offset_slots[groups->shard], slot);
    bool is_it = at > 0 && is_offset(groups, at - 1, group, look->part);
    if (!is_it) {
        for (at = 0; at < groups->offset_count && !is_offset(groups, at, group, look->part);) { at += 1; }
        if (at == groups->offset_count) {
            groups->offsets =
                check__grow(groups->offsets, groups->offset_count, &groups->offset_room, sizeof *groups->offsets);
            groups->offsets[groups->offset_count++] = (struct known_offset){.group = group, .part = look->part};
        }
        at += 1;
        set_hint(&groups->offset_slots[groups->shard], slot, at - 1);
    }
    struct known_offset *offset = &groups->offsets[at - 1];
    offset->seen = groups->look;
    offset->now = *look;
    offset->tag_now = check_commit_tag(look->metadata);
}

/* ---- offsets --------------------------------------------------------------------------------------------------------- */

static const struct history_op *op_of(const struct check_groups *groups, int64_t tag)
{
    const struct known_commit *commit = groups__commit(groups, tag);
    return commit == NULL ? NULL : &groups->history->ops[commit->op];
}

static void supersede(struct check_groups *groups, int64_t tag)
{
    struct known_commit *commit = groups__commit(groups, tag);
    if (commit != NULL) { commit->superseded_ns = groups->now_ns; }
}

/* A commit is taken of a member of the generation that is committed, or of anybody when nobody is in. Who has joined and waits for
 * its first generation is a member, too, as in Kafka. */
static const char *why_not_taken(const struct check_groups *groups, const struct known_group *group,
                                 const struct history_group *by)
{
    bool was_joining = group->joining_ns >= groups->logs[group->log].idle_ns && group->joining_ns > 0;
    if (by->generation < 0) {
        return !group->is_in || group->was.is_empty ? NULL : "of nobody's, while the group has members";
    }
    if (!group->is_in && !was_joining) { return "of a generation, and there is no such group"; }
    if (by->generation != (group->is_in ? group->was.generation : 0)) { return "of another generation"; }
    uint32_t at = groups__find_member(group, base_slice_text(by->member));
    bool is_member = at != GROUPS_NONE && group->members[at].is_in;
    return is_member || was_joining ? NULL : "of who is no member";
}

static void judge_commit(struct check_groups *groups, const struct known_group *group,
                         const struct known_offset *offset)
{
    const struct history_op *op = op_of(groups, offset->tag_now);
    bool is_it = op != NULL && strcmp(op->group->group, group->id) == 0 && op->partition == offset->part.index &&
                 op->at == offset->now.offset;
    if (!is_it) {
        check_breach(groups->report, "I12",
                     "offset %" PRId64 " (tag %" PRId64 ") of partition %" PRId32
                     " is committed in group %s, and nobody has asked for that",
                     offset->now.offset, offset->tag_now, offset->part.index, group->id);
        return;
    }
    struct known_commit *commit = &groups->commits[offset->tag_now];
    if (op->what == HISTORY_FAIL) {
        check_breach(groups->report, "I22",
                     "offset %" PRId64 " of %s-%" PRId32 " in group %s was refused with %" PRId32 ", and is committed",
                     op->at, op->topic, op->partition, group->id, op->error);
    }
    if (commit->is_applied) {
        check_breach(groups->report, "I12",
                     "offset %" PRId64 " of %s-%" PRId32 " in group %s is back, and another was committed meanwhile",
                     op->at, op->topic, op->partition, group->id);
    }
    bool is_over = offset->now.expire_ms >= 0 && offset->now.expire_ms <= offset->now.commit_ms;
    if (is_over) { /* who asks for an expiry asks for some time */
        check_breach(groups->report, "I12",
                     "offset %" PRId64 " of %s-%" PRId32 " in group %s has an expiry that is over as it is committed",
                     op->at, op->topic, op->partition, group->id);
    }
    const char *why = why_not_taken(groups, group, op->group);
    if (why != NULL) {
        check_breach(groups->report, "I12",
                     "offset %" PRId64 " of %s-%" PRId32 " is committed in group %s by a commit of generation %" PRId32
                     ", %s (generation %" PRId32 ")",
                     op->at, op->topic, op->partition, group->id, op->group->generation, why, group->was.generation);
    }
    groups__hit(groups, CHECK_GROUPS_COMMITTED);
    if (offset->is_in && offset->now.offset < offset->offset) { groups__hit(groups, CHECK_GROUPS_WENT_BACK); }
    if (op->what == HISTORY_UNKNOWN) { groups__hit(groups, CHECK_GROUPS_LATE); }
    commit->is_applied = true;
}

/* A request of that kind may have taken what is gone now: it is under way, or its client has given up on it. */
static bool is_asked(const struct check_groups *groups, enum history_kind kind, const char *group,
                     const struct history_op *by)
{
    for (uint32_t i = groups->history->op_count; i-- > 0;) {
        const struct history_op *op = &groups->history->ops[i];
        if (op->kind != kind) { continue; }
        if (kind == HISTORY_DELETE) {
            bool is_after = op->what != HISTORY_OK || (by != NULL && op->end_ns >= by->invoke_ns);
            if (op->what != HISTORY_FAIL && by != NULL && is_after && strcmp(op->topic, by->topic) == 0) {
                return true;
            }
            continue;
        }
        if (op->what != HISTORY_INVOKE && op->what != HISTORY_UNKNOWN) { continue; }
        if (strcmp(op->group->group, group) != 0) { continue; }
        bool is_it = kind == HISTORY_DISBAND || (by != NULL && history_is_of(op, by->topic, by->partition));
        if (is_it) { return true; }
    }
    return false;
}

static bool has_topic(const char *topics, const char *topic)
{
    size_t bytes = strlen(topic);
    for (const char *at = strstr(topics, topic); at != NULL; at = strstr(at + 1, topic)) {
        bool is_word = (at == topics || at[-1] == ',') && (at[bytes] == 0 || at[bytes] == ',');
        if (is_word) { return true; }
    }
    return false;
}

/* It has asked to join without that topic, and has not been answered: it may be in with what it asked for. */
static bool asks_without(const struct check_groups *groups, const struct known_group *group, const char *member,
                         const char *topic)
{
    for (uint32_t i = groups->history->op_count; i-- > 0;) {
        const struct history_op *op = &groups->history->ops[i];
        bool is_open = op->kind == HISTORY_JOIN && (op->what == HISTORY_INVOKE || op->what == HISTORY_UNKNOWN);
        bool is_its = is_open && strcmp(op->group->group, group->id) == 0 && strcmp(op->group->member, member) == 0;
        if (is_its && !has_topic(op->topic, topic)) { return true; }
    }
    return false;
}

static bool is_subscribed(const struct check_groups *groups, const struct known_group *group, const char *topic)
{
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct known_member *member = &group->members[i];
        bool is_so = member->is_in && has_topic(member->topics, topic);
        if (is_so && !asks_without(groups, group, member->id, topic)) { return true; }
    }
    return false;
}

/* Kafka's rules, at some moment since the log was idle. NULL: it may go. */
static const char *why_it_stays(const struct check_groups *groups, const struct known_group *group,
                                const struct known_offset *offset, const struct history_op *by)
{
    const struct known_log *log = &groups->logs[group->log];
    if (group->calm_ns < log->idle_ns) { return "while its group was joining"; }
    int64_t since_ms = offset->commit_ms;
    if (group->is_in && group->has_type) {
        bool is_stable = group->was.is_stable && group->is_consumer;
        if (!group->was.is_empty && !is_stable) { return "while its group waited for an assignment"; }
        if (is_stable && by != NULL && is_subscribed(groups, group, by->topic)) {
            return "while its group reads that topic";
        }
        if (group->was.is_empty && group->was.state_ms >= 0) { since_ms = group->was.state_ms; }
    }
    bool is_old = offset->expire_ms >= 0 ? log->wall_max_ms >= offset->expire_ms
                                         : log->wall_max_ms - since_ms >= groups->retention_ms;
    return is_old ? NULL : "before its time";
}

static void judge_gone_offset(struct check_groups *groups, const struct known_group *group,
                              const struct known_offset *offset)
{
    const struct history_op *by = op_of(groups, offset->tag);
    if (is_asked(groups, HISTORY_DISBAND, group->id, by)) { return; }
    if (is_asked(groups, HISTORY_UNCOMMIT, group->id, by)) {
        groups__hit(groups, CHECK_GROUPS_UNCOMMITTED);
        return;
    }
    if (is_asked(groups, HISTORY_DELETE, group->id, by)) {
        groups__hit(groups, CHECK_GROUPS_TOPIC_GONE);
        return;
    }
    const char *why = why_it_stays(groups, group, offset, by);
    if (why == NULL) {
        groups__hit(groups, CHECK_GROUPS_EXPIRED);
        return;
    }
    check_breach(groups->report, "I12", "the committed offset %" PRId64 " of %s-%" PRId32 " in group %s is gone, %s",
                 offset->offset, by == NULL ? "?" : by->topic, offset->part.index, group->id, why);
}

/* After the faults: what is of a topic that was deleted goes soon. */
static void judge_orphan(struct check_groups *groups, const struct known_group *group, struct known_offset *offset)
{
    if (groups->gone_ns == UINT64_MAX || offset->now.has_topic) {
        offset->orphan_ns = 0;
        return;
    }
    if (offset->orphan_ns == 0) { offset->orphan_ns = groups->now_ns; }
    if (groups->now_ns - offset->orphan_ns <= groups->gone_ns) { return; }
    check_breach(groups->report, "I12",
                 "the committed offset %" PRId64 " of partition %" PRId32 " in group %s outlives its topic",
                 offset->offset, offset->part.index, group->id);
}

static void judge_offsets(struct check_groups *groups)
{
    for (uint32_t i = 0; i < groups->offset_count; i++) {
        struct known_offset *offset = &groups->offsets[i];
        const struct known_group *group = &groups->groups[offset->group];
        if (group->shard != groups->shard || !groups->logs[group->log].is_led) { continue; }
        if (offset->seen != groups->look) {
            if (!offset->is_in) { continue; }
            judge_gone_offset(groups, group, offset);
            supersede(groups, offset->tag);
            offset->is_in = false;
            continue;
        }
        bool is_other = !offset->is_in || offset->tag != offset->tag_now || offset->offset != offset->now.offset;
        if (is_other) {
            judge_commit(groups, group, offset);
            if (groups->logs[group->log].is_fresh) { groups__hit(groups, CHECK_GROUPS_MORE_FOUND); }
            if (offset->is_in) { supersede(groups, offset->tag); }
            offset->changed_ns = groups->now_ns;
        }
        offset->is_in = true;
        offset->tag = offset->tag_now;
        offset->offset = offset->now.offset;
        offset->commit_ms = offset->now.commit_ms;
        offset->expire_ms = offset->now.expire_ms;
        judge_orphan(groups, group, offset);
    }
}

/* ---- members --------------------------------------------------------------------------------------------------------- */

/* Somebody else asked to be that static member. */
static bool is_taken_over(const struct check_groups *groups, const struct known_group *group,
                          const struct known_member *member)
{
    if (member->instance[0] == 0) { return false; }
    for (uint32_t i = groups->history->op_count; i-- > 0;) {
        const struct history_op *op = &groups->history->ops[i];
        if (op->kind != HISTORY_JOIN || strcmp(op->group->group, group->id) != 0) { continue; }
        if (strcmp(op->group->instance, member->instance) != 0 || strcmp(op->group->member, member->id) == 0) {
            continue;
        }
        if (op->group->given[0] != 0 && strcmp(op->group->given, member->id) == 0) { continue; }
        if (op->what == HISTORY_OK && op->end_ns < member->heard_ns) { continue; }
        return true;
    }
    return false;
}

static void judge_gone_member(struct check_groups *groups, const struct known_group *group,
                              const struct known_member *member)
{
    if (member->has_left) {
        groups__hit(groups, CHECK_GROUPS_LEFT);
        return;
    }
    if (is_taken_over(groups, group, member)) { return; }
    uint64_t end_ns = groups__lease_end_ns(member);
    if (groups->now_ns >= end_ns) {
        groups__hit(groups, CHECK_GROUPS_SILENT);
        return;
    }
    check_breach(groups->report, "I12",
                 "%s is dropped from group %s %" PRIu64 " ms after it was heard of, %" PRIu64 " ms too early",
                 member->id, group->id, (groups->now_ns - member->heard_ns) / 1000000,
                 (end_ns - groups->now_ns) / 1000000);
}

/* Who took a static member's place in the same generation has what that one had. */
static void judge_replaced(struct check_groups *groups, const struct known_group *group,
                           const struct known_member *member)
{
    if (member->instance[0] == 0 || !group->is_in || !group->now.is_stable || !group->was.is_stable ||
        group->now.generation != group->was.generation) {
        return;
    }
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct known_member *old = &group->members[i];
        bool is_old = old->is_in && old->seen != groups->look && strcmp(old->instance, member->instance) == 0;
        if (!is_old) { continue; }
        groups__hit(groups, CHECK_GROUPS_REPLACED);
        if (strcmp(old->owned, member->owned) == 0) { return; }
        check_breach(groups->report, "I12", "%s took the place of %s in group %s, which had \"%s\", and has \"%s\"",
                     member->id, old->id, group->id, old->owned, member->owned);
        return;
    }
}

static void judge_instance(struct check_groups *groups, const struct known_group *group,
                           const struct known_member *member)
{
    for (uint32_t i = 0; i < group->member_count && member->instance[0] != 0; i++) {
        const struct known_member *other = &group->members[i];
        bool is_double =
            other != member && other->seen == groups->look && strcmp(other->instance, member->instance) == 0;
        if (!is_double) { continue; }
        check_breach(groups->report, "I12", "%s and %s are both members of group %s as %s", other->id, member->id,
                     group->id, member->instance);
    }
}

/* How many went since the last look. */
static uint32_t judge_members(struct check_groups *groups, struct known_group *group)
{
    uint32_t gone = 0;
    for (uint32_t i = 0; i < group->member_count; i++) {
        struct known_member *member = &group->members[i];
        bool is_here = member->seen == groups->look;
        if (is_here && member->is_new) {
            judge_replaced(groups, group, member);
            judge_instance(groups, group, member);
        }
        if (member->is_in && !is_here) {
            gone += 1;
            judge_gone_member(groups, group, member);
        }
    }
    for (uint32_t i = 0; i < group->member_count; i++) {
        struct known_member *member = &group->members[i];
        member->is_in = member->seen == groups->look;
        member->is_new = false;
    }
    return gone;
}

/* ---- groups ---------------------------------------------------------------------------------------------------------- */

/* What the leader may have given out in that generation; -1: nothing is known of it. */
static bool gave_out(const struct check_groups *groups, const struct known_group *group, int64_t count)
{
    bool is_known = false;
    for (uint32_t i = groups->history->op_count; i-- > 0;) {
        const struct history_op *op = &groups->history->ops[i];
        if (op->invoke_ns < group->born_ns) { break; }
        bool is_it = op->kind == HISTORY_SYNC && op->group->generation == group->now.generation && op->count > 0 &&
                     strcmp(op->group->group, group->id) == 0;
        if (!is_it) { continue; }
        is_known = true;
        if (op->count - 1 == count) { return true; } /* one more than it is, so that none is not nothing */
    }
    return !is_known;
}

static void judge_assignment(struct check_groups *groups, struct known_group *group, uint32_t gone)
{
    int64_t count = 0;
    bool is_read = true;
    for (uint32_t i = 0; i < group->member_count; i++) {
        struct known_member *member = &group->members[i];
        if (!member->is_in) { continue; }
        free(member->given);
        member->given = strdup(member->owned);
        CHECK(member->given != NULL);
        member->given_generation = group->now.generation;
        if (member->owned[0] == '?') { is_read = false; }
        for (const char *at = member->owned; *at != 0 && *at != '?';) {
            size_t bytes = strcspn(at, ",");
            count += 1;
            for (uint32_t k = 0; k < i; k++) {
                const struct known_member *other = &group->members[k];
                const char *found = other->is_in ? other->owned : "";
                while (*found != 0) {
                    size_t found_bytes = strcspn(found, ",");
                    if (found_bytes == bytes && memcmp(found, at, bytes) == 0) {
                        check_breach(groups->report, "I12",
                                     "%.*s is given to %s and to %s in generation %" PRId32 " of group %s", (int)bytes,
                                     at, other->id, member->id, group->now.generation, group->id);
                    }
                    found += found_bytes + (found[found_bytes] == ',' ? 1 : 0);
                }
            }
            at += bytes + (at[bytes] == ',' ? 1 : 0);
        }
    }
    if (!is_read || gone > 0 || gave_out(groups, group, count)) { return; } /* who goes with it takes its part along */
    check_breach(groups->report, "I12",
                 "generation %" PRId32 " of group %s has %" PRId64
                 " partitions given out, and no leader gave out so many",
                 group->now.generation, group->id, count);
}

static void judge_step(struct check_groups *groups, struct known_group *group, uint32_t gone)
{
    int32_t was = group->is_in ? group->was.generation : 0, now = group->now.generation;
    if (now < was || now > was + 1) {
        check_breach(groups->report, "I12", "the committed generation of group %s goes from %" PRId32 " to %" PRId32,
                     group->id, was, now);
    }
    bool is_stable_anew = group->now.is_stable && (!group->was.is_stable || now != was);
    if (now != was) {
        groups__hit(groups, group->now.is_empty ? CHECK_GROUPS_EMPTIED : CHECK_GROUPS_ROUND);
    } else if (group->is_in && group->was.is_stable && !group->now.is_stable) {
        check_breach(groups->report, "I12", "group %s has lost the assignment of generation %" PRId32, group->id, now);
    }
    if (is_stable_anew) {
        groups__hit(groups, CHECK_GROUPS_ASSIGNED);
        judge_assignment(groups, group, gone);
    }
    bool is_carried = group->carried_generation >= 0 && groups->logs[group->log].is_fresh &&
                      now == group->carried_generation && !group->now.is_empty;
    if (is_carried) { groups__hit(groups, CHECK_GROUPS_CARRIED_ON); }
}

static void judge_gone_group(struct check_groups *groups, struct known_group *group)
{
    bool is_asked_for = is_asked(groups, HISTORY_DISBAND, group->id, NULL);
    bool has_members = false;
    for (uint32_t i = 0; i < group->member_count; i++) { has_members = has_members || group->members[i].is_in; }
    bool has_offsets = false;
    for (uint32_t i = 0; i < groups->offset_count; i++) {
        const struct known_offset *offset = &groups->offsets[i];
        has_offsets = has_offsets || (offset->is_in && &groups->groups[offset->group] == group);
    }
    bool may_go = group->was.is_empty && (is_asked_for || (!has_members && !has_offsets));
    if (!may_go) {
        check_breach(groups->report, "I12", "group %s is gone, and it was not %s", group->id,
                     group->was.is_empty ? "asked for" : "empty");
    }
    groups__hit(groups, is_asked_for ? CHECK_GROUPS_DISBANDED : CHECK_GROUPS_SWEPT);
    for (uint32_t i = 0; i < group->member_count; i++) { group->members[i].is_in = false; }
    groups__end_life(group, groups->now_ns);
}

/* For how long it joins, or waits for an assignment: the time that its log waits for the disk is taken off. */
static void note_phase(struct check_groups *groups, struct known_group *group, uint64_t passed_ns)
{
    const struct known_log *log = &groups->logs[group->log];
    bool is_completing = group->now.is_committed && !group->now.is_empty && !group->now.is_stable;
    int phase = !group->is_there          ? PHASE_NONE
                : group->now.is_preparing ? PHASE_PREPARING
                : is_completing           ? PHASE_COMPLETING
                                          : PHASE_NONE;
    bool is_same = (int)group->phase == phase && (!group->is_in || group->was.generation == group->now.generation);
    group->phase_ns = is_same && phase != PHASE_NONE ? group->phase_ns + (log->was_outstanding ? 0 : passed_ns) : 0;
    group->phase =
        phase == PHASE_PREPARING ? PHASE_PREPARING : (phase == PHASE_COMPLETING ? PHASE_COMPLETING : PHASE_NONE);
    if (group->phase_ns <= groups->round_ns) { return; }
    check_breach(groups->report, "I13", "group %s has been %s for %" PRIu64 " ms", group->id,
                 phase == PHASE_PREPARING ? "joining" : "waiting for its leader's assignment",
                 group->phase_ns / 1000000);
    group->phase_ns = 0;
}

void check_groups_looked(struct check_groups *groups)
{
    uint64_t passed_ns = groups->now_ns - groups->looked_ns[groups->shard];
    groups->looked_ns[groups->shard] = groups->now_ns;
    if (groups->is_changed) { judge_offsets(groups); }
    for (uint32_t i = 0; i < groups->group_count; i++) {
        struct known_group *group = &groups->groups[i];
        if (group->shard != groups->shard || !groups->logs[group->log].is_led) { continue; }
        bool is_there = group->seen == groups->look;
        if (!is_there && !group->is_there && !group->is_in) { continue; }
        group->is_there = is_there;
        bool is_committed = is_there && group->now.is_committed;
        note_phase(groups, group, passed_ns);
        if (groups->is_changed && group->is_in && !is_committed) {
            judge_gone_group(groups, group);
            group->is_in = false;
        } else if (groups->is_changed && is_committed) {
            judge_step(groups, group, judge_members(groups, group));
            /* It became empty within this step: for a moment nobody was joining, though the next ones join by its end. */
            bool is_empty_anew =
                group->now.is_empty && (!group->was.is_empty || group->now.generation != group->was.generation);
            if (is_empty_anew) { group->calm_ns = groups->now_ns; }
            group->was = group->now;
            group->has_type = group->has_type_now;
            group->is_consumer = group->is_consumer_now;
            memcpy(group->leads, group->leads_now, sizeof group->leads);
            group->is_in = true;
        }
        bool is_joining = is_there && group->now.is_preparing;
        if (is_joining) { group->joining_ns = groups->now_ns; }
        if (!is_joining) { group->calm_ns = groups->now_ns; }
    }
    end_look_at_logs(groups);
}
