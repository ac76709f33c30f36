/* group_look.c: groups, members and offsets as checkers and tests see them, and the room as a whole.
 *
 * Room    core/group. Changes nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group/group__room.h"

void group_log_look(const struct groups *groups, uint32_t log, struct group_log_look *look_out)
{
    const struct group__log *of = &groups->logs[log];
    *look_out = (struct group_log_look){.is_here = of->is_awaited,
                                        .is_led = of->state == GROUP__LEADING,
                                        .is_refused = of->state == GROUP__REFUSING,
                                        .is_deciding = of->round.block != NULL,
                                        .is_outstanding = of->is_outstanding,
                                        .is_snapshotting = of->is_snapshotting || of->is_snapshot_piece};
}

/* The next slot that is taken; NULL at the end. */
static const void *next_of(const struct base_pool *pool, uint32_t *cursor)
{
    while (*cursor < pool->fresh) {
        uint32_t at = *cursor;
        *cursor += 1;
        if (base_pool_is_taken(pool, at)) { return base_pool_at(pool, at); }
    }
    return NULL;
}

bool group_each(const struct groups *groups, uint32_t *cursor, struct group_look *look_out)
{
    const struct group__group *group = next_of(&groups->groups, cursor);
    if (group == NULL) { return false; }
    *look_out = (struct group_look){.id = group->id,
                                    .log = group->log,
                                    .is_committed = group->is_committed,
                                    .is_preparing = group->is_preparing,
                                    .is_empty = group->state == GROUP__EMPTY,
                                    .is_stable = group->state == GROUP__STABLE,
                                    .generation = group->generation,
                                    .state_ms = group->state_ms,
                                    .protocol_type = group->protocol_type,
                                    .leader = group->leader};
    return true;
}

bool group_each_member(const struct groups *groups, uint32_t *cursor, struct group_member_look *look_out)
{
    const struct group__member *member = next_of(&groups->members, cursor);
    while (member != NULL && !member->is_committed) { member = next_of(&groups->members, cursor); }
    if (member == NULL) { return false; }
    *look_out = (struct group_member_look){.group_id = member->group->id,
                                           .log = member->group->log,
                                           .id = member->id,
                                           .instance = member->data->instance,
                                           .assignment = member->assignment,
                                           .session_ms = member->data->session_ms,
                                           .rebalance_ms = member->data->rebalance_ms};
    return true;
}

bool group_each_offset(const struct groups *groups, uint32_t *cursor, struct group_offset_look *look_out)
{
    const struct group__offset *offset = next_of(&groups->offsets, cursor);
    if (offset == NULL) { return false; }
    *look_out =
        (struct group_offset_look){.group_id = offset->group->id,
                                   .log = offset->group->log,
                                   .part = offset->part,
                                   .offset = offset->offset,
                                   .commit_ms = offset->commit_ms,
                                   .expire_ms = offset->expire_ms,
                                   .metadata = offset->metadata,
                                   .has_topic = metadata_topic_by_id(groups->image, offset->part.topic) != NULL};
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------ */

bool group_is_quiet(const struct groups *groups)
{
    return groups->requests.taken_count == 0 && groups->outstanding_count == 0;
}

void group_view(const struct groups *groups, struct group_view *view_out)
{
    *view_out = (struct group_view){.groups = groups->groups.taken_count,
                                    .members = groups->committed_members,
                                    .offsets = groups->offsets.taken_count,
                                    .requests = groups->requests.taken_count,
                                    .proposals = groups->proposals,
                                    .applied = groups->applied,
                                    .state_used_bytes = groups->bytes.used_bytes};
    memcpy(view_out->refused, groups->starved, sizeof view_out->refused);
}

const uint64_t *group_refused(const struct groups *groups) { return groups->starved; }

bool group_offset(const struct groups *groups, struct base_slice group_id, struct base_part part, int64_t *offset_out)
{
    const struct group__group *group = group__find(groups, group_id);
    const struct group__offset *offset = group == NULL ? NULL : group__offset(groups, group, part);
    if (offset != NULL) { *offset_out = offset->offset; }
    return offset != NULL;
}

bool group_generation(const struct groups *groups, struct base_slice group_id, int32_t *generation_out)
{
    const struct group__group *group = group__find(groups, group_id);
    if (group == NULL || !group->is_committed) { return false; }
    *generation_out = group->generation;
    return true;
}

static bool group_is_well(const struct groups *groups, const struct group__group *group)
{
    bool has_leader = false;
    uint32_t committed = 0;
    bool has_failed = group__log(groups, group->log)->state == GROUP__REFUSING;
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        bool is_leader = member->is_committed && base_slice_equal(member->id, group->leader);
        has_leader = has_leader || is_leader;
        committed += member->is_committed ? 1 : 0;
        if (member->group != group || (member->is_committed && member->data == NULL)) { return false; }
        /* It went with the proposal. */
        if (member->is_going && !has_failed && !base_link_is_on(&group->changed)) { return false; }
        if (member->is_pending && (member->is_committed || member->join != NULL)) { return false; }
        if (member->join != NULL && !group->is_preparing && !group->is_touched) { return false; }
        if (member->sync != NULL && (group->is_preparing || group->state != GROUP__COMPLETING)) { return false; }
    }
    bool is_led = group__log(groups, group->log)->state == GROUP__LEADING && !groups->is_draining;
    if (!is_led) { return true; }
    if (group->state != GROUP__EMPTY && committed == 0 && !group->is_preparing) { return false; }
    /* Without its leader, or with a member less, a group is joining anew (G4 would be one that is not). */
    if (group->state != GROUP__EMPTY && (!has_leader || group->needs_rebalance) && !group->is_preparing) {
        return false;
    }
    bool goes_on = group->wants_completion || group->is_touched || group->timer_kind != GROUP__NO_TIMER;
    return !group->is_preparing || goes_on;
}

bool group_is_sound(const struct groups *groups)
{
    for (uint32_t i = 0; i < groups->groups.fresh; i++) {
        if (!base_pool_is_taken(&groups->groups, i)) { continue; }
        if (!group_is_well(groups, base_pool_at(&groups->groups, i))) { return false; }
    }
    return groups->groups.taken_count == groups->groups_map.count &&
           groups->members.taken_count == groups->members_map.count &&
           groups->offsets.taken_count == groups->offsets_map.count;
}

/* A sum, so that the order of slots, which recovery does not keep, says nothing. */
uint64_t group_state_hash(const struct groups *groups)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < groups->groups.fresh; i++) {
        if (!base_pool_is_taken(&groups->groups, i)) { continue; }
        const struct group__group *group = base_pool_at(&groups->groups, i);
        if (!group->is_committed) { continue; }
        uint64_t one = base_hash_bytes(group->id.at, group->id.size_bytes, (uint64_t)group->generation);
        one = base_hash_bytes(group->protocol_type.at, group->protocol_type.size_bytes, one + (uint64_t)group->state);
        one = base_hash_bytes(group->leader.at, group->leader.size_bytes, one + (group->needs_rebalance ? 1 : 0));
        one = base_hash_bytes(group->protocol.at, group->protocol.size_bytes, one + (uint64_t)group->state_ms);
        sum += one;
        for (const struct group__member *member = group__member_first(group); member != NULL;
             member = group__member_next(group, member)) {
            if (!member->is_committed) { continue; }
            uint64_t of_member = base_hash_bytes(member->id.at, member->id.size_bytes, group->hash);
            of_member = base_hash_bytes(member->assignment.at, member->assignment.size_bytes, of_member);
            for (uint32_t k = 0; k < member->data->protocols_count; k++) {
                struct base_slice metadata = member->data->protocols[k].metadata;
                of_member = base_hash_bytes(metadata.at, metadata.size_bytes, of_member);
            }
            sum += of_member;
        }
        for (struct base_link *link = base_list_first(&group->offsets); link != NULL;
             link = base_list_next(&group->offsets, link)) {
            const struct group__offset *offset = BASE_ITEM(link, struct group__offset, link);
            uint64_t of_offset = base_hash_u64(offset->hash + (uint64_t)offset->offset);
            of_offset = base_hash_u64(of_offset + (uint64_t)(int64_t)offset->leader_epoch);
            of_offset = base_hash_u64(of_offset + (uint64_t)offset->commit_ms);
            sum += base_hash_bytes(offset->metadata.at, offset->metadata.size_bytes, of_offset);
        }
    }
    return sum;
}
