/* group_state.c: groups, members and offsets as things: found, made, freed.
 *
 * Room    core/group.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group/group__room.h"

/* ---- texts ---------------------------------------------------------------------------------------------------------- */

bool group__copy(struct groups *groups, struct base_slice from, struct base_slice *to_out)
{
    uint8_t *at = group__bytes_take(groups, from.size_bytes);
    if (at == NULL) { return false; }
    if (from.size_bytes > 0) { memcpy(at, from.at, from.size_bytes); }
    *to_out = base_slice_of(at, from.size_bytes);
    return true;
}

void group__drop(struct groups *groups, struct base_slice *slice)
{
    if (slice->at == NULL) { return; }
    group__bytes_give(&groups->bytes, slice->at, slice->size_bytes);
    *slice = base_slice_of(NULL, 0);
}

bool group__has_room(struct groups *groups, uint32_t group_count, uint32_t members, uint32_t offsets, size_t bytes)
{
    const struct group_config *config = &groups->config;
    /* What the others will be is not known yet: who takes their place now would keep them out. */
    if (groups->loading_count > 0 && group_count + members + offsets > 0) { return false; }
    /* What takes no more of it than it has may be whatever the others are: they may have come before the limit did. */
    size_t bytes_max = bytes > 0 ? groups->bytes.room_bytes : GROUP__TABLES * groups->bytes.room_bytes;
    enum group_limit limit;
    if (group_count > 0 && groups->groups.taken_count + groups->reserved_groups + group_count > config->groups_max) {
        limit = GROUP_LIMIT_GROUPS;
    } else if (members > 0 && groups->members.taken_count + groups->reserved_members + members > config->members_max) {
        limit = GROUP_LIMIT_MEMBERS;
    } else if (offsets > 0 && groups->offsets.taken_count + groups->reserved_offsets + offsets > config->offsets_max) {
        limit = GROUP_LIMIT_OFFSETS;
    } else if (groups->bytes.used_bytes + groups->reserved_bytes + bytes > bytes_max) {
        limit = GROUP_LIMIT_BYTES;
    } else {
        return true;
    }
    groups->starved[limit] += 1;
    return false;
}

/* ---- groups --------------------------------------------------------------------------------------------------------- */

struct group__group *group__find(const struct groups *groups, struct base_slice id)
{
    uint64_t hash = base_hash_bytes(id.at, id.size_bytes, 1);
    for (uint32_t at = base_map_first(&groups->groups_map, hash); at != BASE_MAP_NONE;
         at = base_map_next(&groups->groups_map, hash, at)) {
        struct group__group *group = base_pool_at(&groups->groups, base_map_value(&groups->groups_map, at));
        if (base_slice_equal(group->id, id)) { return group; }
    }
    return NULL;
}

struct group__group *group__make(struct groups *groups, struct base_slice id)
{
    struct base_slice copy;
    uint32_t index = base_pool_take(&groups->groups);
    if (index == BASE_POOL_NONE) { return NULL; }
    if (!group__copy(groups, id, &copy)) {
        base_pool_give(&groups->groups, index);
        return NULL;
    }
    struct group__group *group = base_pool_at(&groups->groups, index);
    *group = (struct group__group){.id = copy,
                                   .log = group_log_of(id, groups->config.logs_count),
                                   .hash = base_hash_bytes(id.at, id.size_bytes, 1),
                                   .state_ms = -1};
    base_list_init(&group->members);
    base_list_init(&group->offsets);
    enum base_rc rc = base_map_insert(&groups->groups_map, group->hash, index);
    CHECK(rc == BASE_OK); /* as many as the pool */
    return group;
}

void group__free(struct groups *groups, struct group__group *group)
{
    CHECK(group->answers_due == 0);
    for (struct base_link *link; (link = base_list_first(&group->members)) != NULL;) {
        group__member_free(groups, BASE_ITEM(link, struct group__member, link), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    }
    for (struct base_link *link; (link = base_list_first(&group->offsets)) != NULL;) {
        group__offset_free(groups, BASE_ITEM(link, struct group__offset, link));
    }
    group__stop_timer(groups, group);
    struct group__log *log = group__log(groups, group->log);
    if (base_link_is_on(&group->due)) { base_list_remove(&log->due, &group->due); }
    if (base_link_is_on(&group->changed)) { base_list_remove(&log->changed, &group->changed); }
    group__drop(groups, &group->protocol_type);
    group__drop(groups, &group->protocol);
    group__drop(groups, &group->leader);
    uint32_t index = base_pool_index(&groups->groups, group);
    base_map_remove(&groups->groups_map, group->hash, index);
    group__drop(groups, &group->id);
    base_pool_give(&groups->groups, index);
}

/* A group that was made for somebody who is gone, and was never written. */
void group__free_if_nothing(struct groups *groups, struct group__group *group)
{
    bool is_used = group->is_committed || group->is_touched || group->answers_due > 0 || base_link_is_on(&group->due) ||
                   base_link_is_on(&group->changed);
    if (is_used || !base_list_is_empty(&group->members) || !base_list_is_empty(&group->offsets)) { return; }
    group__free(groups, group);
}

/* ---- members -------------------------------------------------------------------------------------------------------- */

struct group__member *group__member(const struct groups *groups, const struct group__group *group, struct base_slice id)
{
    uint64_t hash = base_hash_bytes(id.at, id.size_bytes, group->hash);
    for (uint32_t at = base_map_first(&groups->members_map, hash); at != BASE_MAP_NONE;
         at = base_map_next(&groups->members_map, hash, at)) {
        struct group__member *member = base_pool_at(&groups->members, base_map_value(&groups->members_map, at));
        if (member->group == group && base_slice_equal(member->id, id)) { return member; }
    }
    return NULL;
}

static uint64_t hash_of_instance(const struct group__group *group, struct base_slice instance)
{
    return base_hash_bytes(instance.at, instance.size_bytes, group->hash + 1);
}

struct group__member *group__static(const struct groups *groups, const struct group__group *group,
                                    struct base_slice instance)
{
    uint64_t hash = hash_of_instance(group, instance);
    for (uint32_t at = base_map_first(&groups->instances_map, hash); at != BASE_MAP_NONE;
         at = base_map_next(&groups->instances_map, hash, at)) {
        struct group__member *member = base_pool_at(&groups->members, base_map_value(&groups->instances_map, at));
        if (member->group != group || !group__counts(member)) { continue; }
        struct base_slice has = group__instance(member);
        if (has.at != NULL && base_slice_equal(has, instance)) { return member; }
    }
    return NULL;
}

static void forget_instance(struct groups *groups, struct group__member *member)
{
    if (!member->has_instance_hash) { return; }
    base_map_remove(&groups->instances_map, member->instance_hash, base_pool_index(&groups->members, member));
    member->has_instance_hash = false;
}

void group__note_instance(struct groups *groups, struct group__member *member)
{
    forget_instance(groups, member);
    struct base_slice instance = group__instance(member);
    if (instance.at == NULL) { return; }
    member->instance_hash = hash_of_instance(member->group, instance);
    enum base_rc rc =
        base_map_insert(&groups->instances_map, member->instance_hash, base_pool_index(&groups->members, member));
    CHECK(rc == BASE_OK); /* as many as the pool */
    member->has_instance_hash = true;
}

struct group__member *group__member_make(struct groups *groups, struct group__group *group, struct base_slice id)
{
    struct base_slice copy;
    uint32_t index = base_pool_take(&groups->members);
    if (index == BASE_POOL_NONE) { return NULL; }
    if (!group__copy(groups, id, &copy)) {
        base_pool_give(&groups->members, index);
        return NULL;
    }
    struct group__member *member = base_pool_at(&groups->members, index);
    *member =
        (struct group__member){.group = group, .id = copy, .hash = base_hash_bytes(id.at, id.size_bytes, group->hash)};
    base_list_push_back(&group->members, &member->link);
    enum base_rc rc = base_map_insert(&groups->members_map, member->hash, index);
    CHECK(rc == BASE_OK); /* as many as the pool */
    return member;
}

void group__member_forget_words(struct groups *groups, struct group__member *member)
{
    group__drop(groups, &member->assignment);
    if (member->data != NULL) { group__bytes_give(&groups->bytes, member->data, group__data_bytes(member->data)); }
    member->data = NULL;
    groups->committed_members -= member->is_committed ? 1 : 0;
    member->is_committed = false;
}

void group__member_free(struct groups *groups, struct group__member *member, int16_t error_of_parked)
{
    struct group__group *group = member->group;
    if (group->heir == member) { group->heir = NULL; }
    if (member->join != NULL) {
        struct group__request *join = member->join;
        member->join = NULL;
        group__join_error(groups, join, error_of_parked, error_of_parked != KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    }
    if (member->sync != NULL) {
        struct group__request *sync = member->sync;
        member->sync = NULL;
        group__sync_error(groups, sync, error_of_parked);
    }
    if (base_heap_holds(&member->session)) { base_heap_remove(&groups->sessions, &member->session); }
    group__member_forget_words(groups, member);
    forget_instance(groups, member);
    uint32_t index = base_pool_index(&groups->members, member);
    base_map_remove(&groups->members_map, member->hash, index);
    base_list_remove(&group->members, &member->link);
    group__drop(groups, &member->id);
    base_pool_give(&groups->members, index);
}

size_t group__data_bytes(const struct group__data *data)
{
    size_t bytes = sizeof *data + data->protocols_count * sizeof data->protocols[0] + data->instance.size_bytes +
                   data->client_id.size_bytes + data->client_host.size_bytes;
    for (uint32_t i = 0; i < data->protocols_count; i++) {
        bytes += data->protocols[i].name.size_bytes + data->protocols[i].metadata.size_bytes;
    }
    return bytes;
}

size_t group__member_words_bytes(const struct group__member *member)
{
    size_t data_bytes = member->data == NULL ? 0 : group__bytes_rounded(group__data_bytes(member->data));
    return data_bytes + group__text_bytes(member->assignment);
}

static const struct kafka_join_group_request *asked_by(const struct group__member *member)
{
    return member->join->ask.request;
}

struct base_slice group__instance(const struct group__member *member)
{
    if (member->is_committed) { return member->data->instance; }
    if (member->join == NULL || kafka_text_is_null(asked_by(member)->group_instance_id)) {
        return base_slice_of(NULL, 0);
    }
    return kafka_text_slice(asked_by(member)->group_instance_id);
}

uint32_t group__protocols_count(const struct group__member *member)
{
    if (member->join != NULL) { return (uint32_t)asked_by(member)->protocols_count; }
    return member->data == NULL ? 0 : member->data->protocols_count;
}

struct group__protocol group__protocol(const struct group__member *member, uint32_t index)
{
    if (member->join == NULL) { return member->data->protocols[index]; }
    const struct kafka_join_group_request_join_group_request_protocol *protocol = &asked_by(member)->protocols[index];
    return (struct group__protocol){.name = kafka_text_slice(protocol->name),
                                    .metadata = kafka_bytes_slice(protocol->metadata)};
}

int32_t group__rebalance_ms_of(const struct group__member *member)
{
    if (member->join == NULL) { return member->data == NULL ? 0 : member->data->rebalance_ms; }
    int32_t asked_ms = asked_by(member)->rebalance_timeout_ms;
    return asked_ms == -1 ? asked_by(member)->session_timeout_ms : asked_ms;
}

/* ---- offsets -------------------------------------------------------------------------------------------------------- */

static uint64_t offset_hash(const struct group__group *group, struct base_part part)
{
    return base_hash_u64(base_part_hash(part) ^ group->hash);
}

struct group__offset *group__offset(const struct groups *groups, const struct group__group *group,
                                    struct base_part part)
{
    uint64_t hash = offset_hash(group, part);
    for (uint32_t at = base_map_first(&groups->offsets_map, hash); at != BASE_MAP_NONE;
         at = base_map_next(&groups->offsets_map, hash, at)) {
        struct group__offset *offset = base_pool_at(&groups->offsets, base_map_value(&groups->offsets_map, at));
        if (offset->group == group && base_part_equal(offset->part, part)) { return offset; }
    }
    return NULL;
}

/* Partitions of a topic stand side by side where that is cheap to find, so that an answer names the topic once. */
#define NEIGHBOURS_MAX 32

struct group__offset *group__offset_make(struct groups *groups, struct group__group *group, struct base_part part)
{
    uint32_t index = base_pool_take(&groups->offsets);
    if (index == BASE_POOL_NONE) { return NULL; }
    struct group__offset *offset = base_pool_at(&groups->offsets, index);
    *offset = (struct group__offset){.group = group, .hash = offset_hash(group, part), .part = part};
    struct base_link *place = &group->offsets.head;
    for (unsigned i = 0; i < NEIGHBOURS_MAX && place->prev != &group->offsets.head; i++) {
        const struct group__offset *before = BASE_ITEM(place->prev, struct group__offset, link);
        if (base_uuid_equal(before->part.topic, part.topic)) { break; }
        place = place->prev;
        if (i + 1 == NEIGHBOURS_MAX) { place = &group->offsets.head; }
    }
    if (place->prev == &group->offsets.head) { place = &group->offsets.head; }
    base_list_insert_before(&group->offsets, place, &offset->link);
    enum base_rc rc = base_map_insert(&groups->offsets_map, offset->hash, index);
    CHECK(rc == BASE_OK); /* as many as the pool */
    return offset;
}

void group__offset_free(struct groups *groups, struct group__offset *offset)
{
    uint32_t index = base_pool_index(&groups->offsets, offset);
    base_map_remove(&groups->offsets_map, offset->hash, index);
    base_list_remove(&offset->group->offsets, &offset->link);
    group__drop(groups, &offset->metadata);
    base_pool_give(&groups->offsets, index);
}
