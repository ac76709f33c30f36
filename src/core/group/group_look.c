/* group_look.c: groups, members and offsets as checkers and tests see them.
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
