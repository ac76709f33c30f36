/* group_record.c: the records of a coordinator's log: proposed, applied, and the state as a row of them.
 *
 * Room    core/group.
 * Format  docs/formats/groups.md: KRaft's record frame, our own record types. Every record is absolute.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group/group__room.h"

#define VERSION 0 /* of every record that is written */

/* ---- proposing ------------------------------------------------------------------------------------------------------ */

void group__propose(struct groups *groups, struct group__log *log, enum kafka_message message, const void *value)
{
    (void)groups;
    struct group__round *round = &log->round;
    CHECK(round->block != NULL);
    if (round->is_full) { return; }
    struct kafka_size size;
    enum base_rc rc = kafka_record_size(message, value, VERSION, &size);
    CHECK(rc == BASE_OK); /* every text came in by the wire, or from here */
    size_t records_end = (size_t)(round->records_count + 1) * sizeof(struct group_record);
    if (records_end + size.memory_bytes > round->bytes_at) {
        round->is_full = true;
        return;
    }
    round->bytes_at -= size.memory_bytes;
    uint8_t *at = round->block + round->bytes_at;
    struct kafka_writer writer;
    kafka_writer_init(&writer, at, size.memory_bytes);
    rc = kafka_record_encode(message, value, VERSION, &writer);
    CHECK(rc == BASE_OK);
    struct group_record *records = (struct group_record *)(void *)round->block;
    records[round->records_count] = (struct group_record){.value = base_slice_of(at, size.memory_bytes)};
    round->records_count += 1;
}

struct group__round group__mark(const struct group__log *log) { return log->round; }

static void unreserve(struct groups *groups, const struct group__round *round, const struct group__round *down_to)
{
    groups->reserved_groups -= round->groups - down_to->groups;
    groups->reserved_members -= round->members - down_to->members;
    groups->reserved_offsets -= round->offsets - down_to->offsets;
    groups->reserved_bytes -= round->bytes - down_to->bytes;
}

void group__rollback(struct groups *groups, struct group__log *log, struct group__round mark)
{
    unreserve(groups, &log->round, &mark);
    log->round = mark;
}

void group__reserve(struct groups *groups, struct group__log *log, uint32_t group_count, uint32_t members,
                    uint32_t offsets, size_t bytes)
{
    log->round.groups += group_count;
    log->round.members += members;
    log->round.offsets += offsets;
    log->round.bytes += bytes;
    groups->reserved_groups += group_count;
    groups->reserved_members += members;
    groups->reserved_offsets += offsets;
    groups->reserved_bytes += bytes;
}

/* Somebody goes with the round that is being made: the record of that says so, and another one behind it must not unsay it. */
static bool has_going(const struct group__group *group)
{
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (member->is_going) { return true; }
    }
    return false;
}

struct kafka_group_record group__record_of(const struct group__group *group)
{
    struct kafka_group_record record;
    kafka_group_record_init(&record);
    record.protocol_type = group__text(group->protocol_type);
    record.protocol_name = group__text(group->protocol);
    record.leader = group__text(group->leader);
    record.generation = group->generation;
    record.state = (int8_t)group->state;
    record.needs_rebalance = group->needs_rebalance || (group->state != GROUP__EMPTY && has_going(group));
    record.state_timestamp_ms = group->state_ms;
    return record;
}

void group__propose_group(struct groups *groups, struct group__log *log, const struct group__group *group,
                          const struct kafka_group_record *value)
{
    struct kafka_group_record message = *value;
    message.group_id = kafka_text_of_slice(group->id);
    group__propose(groups, log, KAFKA_MESSAGE_GROUP_RECORD, &message);
}

void group__propose_group_gone(struct groups *groups, struct group__log *log, struct group__group *group)
{
    struct kafka_group_gone_record message;
    kafka_group_gone_record_init(&message);
    message.group_id = kafka_text_of_slice(group->id);
    group__propose(groups, log, KAFKA_MESSAGE_GROUP_GONE_RECORD, &message);
    if (log->round.is_full) { return; }
    group->is_touched = true;
    group__change(groups, group);
}

/* The member as it has joined, or else as it is committed, under `id` and with `assignment`. */
void group__propose_member(struct groups *groups, struct group__log *log, const struct group__member *member,
                           struct base_slice id, struct base_slice assignment)
{
    uint32_t count = group__protocols_count(member);
    CHECK(count <= GROUP_PROTOCOLS_MAX);
    struct base_arena scratch;
    base_arena_init(&scratch, groups->scratch, GROUP__SCRATCH_BYTES);
    struct kafka_group_member_record message;
    kafka_group_member_record_init(&message);
    message.protocols = kafka_group_member_record_group_member_protocol_take(&scratch, (int32_t)count);
    CHECK(message.protocols != NULL);
    message.protocols_count = (int32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        struct group__protocol protocol = group__protocol(member, i);
        message.protocols[i].name = kafka_text_of_slice(protocol.name);
        message.protocols[i].metadata = kafka_bytes_of(protocol.metadata.at, protocol.metadata.size_bytes);
    }
    message.group_id = kafka_text_of_slice(member->group->id);
    message.member_id = kafka_text_of_slice(id);
    message.instance_id = group__text(group__instance(member));
    if (member->join != NULL) {
        const struct kafka_join_group_request *asked = member->join->ask.request;
        message.client_id = kafka_text_of_slice(member->join->ask.client_id);
        message.client_host = kafka_text_of_slice(member->join->ask.client_host);
        message.session_timeout_ms = asked->session_timeout_ms;
    } else {
        message.client_id = kafka_text_of_slice(member->data->client_id);
        message.client_host = kafka_text_of_slice(member->data->client_host);
        message.session_timeout_ms = member->data->session_ms;
    }
    message.rebalance_timeout_ms = group__rebalance_ms_of(member);
    message.assignment = kafka_bytes_of(assignment.at, assignment.size_bytes);
    group__propose(groups, log, KAFKA_MESSAGE_GROUP_MEMBER_RECORD, &message);
}

void group__propose_member_gone(struct groups *groups, struct group__log *log, struct group__member *member)
{
    struct kafka_group_member_gone_record message;
    kafka_group_member_gone_record_init(&message);
    message.group_id = kafka_text_of_slice(member->group->id);
    message.member_id = kafka_text_of_slice(member->id);
    group__propose(groups, log, KAFKA_MESSAGE_GROUP_MEMBER_GONE_RECORD, &message);
}

void group__propose_offset(struct groups *groups, struct group__log *log, const struct group__offset *offset)
{
    struct kafka_group_offset_record message;
    kafka_group_offset_record_init(&message);
    message.group_id = kafka_text_of_slice(offset->group->id);
    message.topic_id = offset->part.topic;
    message.partition = offset->part.index;
    message.offset = offset->offset;
    message.leader_epoch = offset->leader_epoch;
    message.metadata = kafka_text_of_slice(offset->metadata);
    message.commit_timestamp_ms = offset->commit_ms;
    message.expire_timestamp_ms = offset->expire_ms;
    group__propose(groups, log, KAFKA_MESSAGE_GROUP_OFFSET_RECORD, &message);
}

void group__propose_offset_gone(struct groups *groups, struct group__log *log, const struct group__offset *offset)
{
    struct kafka_group_offset_gone_record message;
    kafka_group_offset_gone_record_init(&message);
    message.group_id = kafka_text_of_slice(offset->group->id);
    message.topic_id = offset->part.topic;
    message.partition = offset->part.index;
    group__propose(groups, log, KAFKA_MESSAGE_GROUP_OFFSET_GONE_RECORD, &message);
}

/* ---- applying ------------------------------------------------------------------------------------------------------- */

static bool set_text(struct groups *groups, struct base_slice *at, struct kafka_text text)
{
    group__drop(groups, at); /* first: no more room was promised than the new one takes beyond it */
    return kafka_text_is_null(text) || group__copy(groups, kafka_text_slice(text), at);
}

static struct group__group *find_or_make(struct groups *groups, struct kafka_text id)
{
    struct group__group *group = group__find(groups, kafka_text_slice(id));
    if (group == NULL) { group = group__make(groups, kafka_text_slice(id)); }
    if (group != NULL) { group->is_committed = true; }
    return group;
}

static enum base_rc apply_group(struct groups *groups, const struct kafka_group_record *record)
{
    if (record->state < GROUP__EMPTY || record->state > GROUP__STABLE || record->generation < 0) { return BASE_BAD; }
    struct group__group *group = find_or_make(groups, record->group_id);
    if (group == NULL || !set_text(groups, &group->protocol_type, record->protocol_type) ||
        !set_text(groups, &group->protocol, record->protocol_name) ||
        !set_text(groups, &group->leader, record->leader)) {
        return BASE_FULL;
    }
    group->state = (enum group__state)record->state;
    group->generation = record->generation;
    group->needs_rebalance = record->needs_rebalance;
    group->state_ms = record->state_timestamp_ms;
    return BASE_OK;
}

static enum base_rc apply_group_gone(struct groups *groups, const struct kafka_group_gone_record *record)
{
    struct group__group *group = group__find(groups, kafka_text_slice(record->group_id));
    if (group != NULL) { group__free(groups, group); }
    return BASE_OK;
}

static struct base_slice put_slice(uint8_t **at, struct base_slice from)
{
    if (from.size_bytes > 0) { memcpy(*at, from.at, from.size_bytes); }
    struct base_slice to = base_slice_of(*at, from.size_bytes);
    *at += from.size_bytes;
    return to;
}

static struct group__data *make_data(struct groups *groups, const struct kafka_group_member_record *record)
{
    bool is_static = !kafka_text_is_null(record->instance_id);
    struct base_slice instance = kafka_text_slice(record->instance_id);
    struct base_slice client_id = kafka_text_slice(record->client_id);
    struct base_slice client_host = kafka_text_slice(record->client_host);
    size_t head_bytes = sizeof(struct group__data) + (size_t)record->protocols_count * sizeof(struct group__protocol);
    size_t bytes = head_bytes + instance.size_bytes + client_id.size_bytes + client_host.size_bytes;
    for (int32_t i = 0; i < record->protocols_count; i++) {
        bytes += kafka_text_slice(record->protocols[i].name).size_bytes +
                 kafka_bytes_slice(record->protocols[i].metadata).size_bytes;
    }
    struct group__data *data = group__bytes_take(groups, bytes);
    if (data == NULL) { return NULL; }
    uint8_t *at = (uint8_t *)data + head_bytes;
    *data = (struct group__data){.session_ms = record->session_timeout_ms,
                                 .rebalance_ms = record->rebalance_timeout_ms,
                                 .protocols_count = (uint32_t)record->protocols_count};
    data->client_id = put_slice(&at, client_id);
    data->client_host = put_slice(&at, client_host);
    data->instance = is_static ? put_slice(&at, instance) : base_slice_of(NULL, 0);
    for (int32_t i = 0; i < record->protocols_count; i++) {
        data->protocols[i].name = put_slice(&at, kafka_text_slice(record->protocols[i].name));
        data->protocols[i].metadata = put_slice(&at, kafka_bytes_slice(record->protocols[i].metadata));
    }
    return data;
}

static enum base_rc apply_member(struct groups *groups, const struct kafka_group_member_record *record)
{
    if (record->protocols_count > GROUP_PROTOCOLS_MAX) { return BASE_BAD; }
    struct group__group *group = find_or_make(groups, record->group_id);
    if (group == NULL) { return BASE_FULL; }
    struct group__member *member = group__member(groups, group, kafka_text_slice(record->member_id));
    if (member == NULL) { member = group__member_make(groups, group, kafka_text_slice(record->member_id)); }
    if (member == NULL) { return BASE_FULL; }
    group__member_forget_words(groups, member); /* before the new ones come: see set_text */
    if (!group__copy(groups, kafka_bytes_slice(record->assignment), &member->assignment)) { return BASE_FULL; }
    member->data = make_data(groups, record);
    if (member->data == NULL) { return BASE_FULL; }
    member->session_ms = member->data->session_ms;
    groups->committed_members += 1;
    member->is_committed = true;
    group__note_instance(groups, member);
    member->is_pending = false;
    return BASE_OK;
}

static enum base_rc apply_member_gone(struct groups *groups, const struct kafka_group_member_gone_record *record)
{
    struct group__group *group = group__find(groups, kafka_text_slice(record->group_id));
    if (group == NULL) { return BASE_OK; }
    /* Also of one that isn't known: a log that is written anew may begin between a member's record and its going, with the group
     * as it was before. */
    group->needs_rebalance = group->needs_rebalance || group->state != GROUP__EMPTY;
    struct group__member *member = group__member(groups, group, kafka_text_slice(record->member_id));
    if (member != NULL) { group__member_free(groups, member, KAFKA_ERROR_UNKNOWN_MEMBER_ID); }
    return BASE_OK;
}

static enum base_rc apply_offset(struct groups *groups, const struct kafka_group_offset_record *record)
{
    if (record->partition < 0) { return BASE_BAD; }
    struct group__group *group = find_or_make(groups, record->group_id);
    if (group == NULL) { return BASE_FULL; }
    struct base_part part = {.topic = record->topic_id, .index = record->partition};
    struct group__offset *offset = group__offset(groups, group, part);
    if (offset == NULL) { offset = group__offset_make(groups, group, part); }
    if (offset == NULL) { return BASE_FULL; }
    /* Most have none: no bytes are taken for that. */
    struct base_slice metadata = kafka_text_slice(record->metadata);
    if (metadata.size_bytes == 0) {
        group__drop(groups, &offset->metadata);
    } else if (!set_text(groups, &offset->metadata, record->metadata)) {
        return BASE_FULL;
    }
    offset->offset = record->offset;
    offset->leader_epoch = record->leader_epoch;
    offset->commit_ms = record->commit_timestamp_ms;
    offset->expire_ms = record->expire_timestamp_ms;
    return BASE_OK;
}

static enum base_rc apply_offset_gone(struct groups *groups, const struct kafka_group_offset_gone_record *record)
{
    struct group__group *group = group__find(groups, kafka_text_slice(record->group_id));
    if (group == NULL) { return BASE_OK; }
    struct base_part part = {.topic = record->topic_id, .index = record->partition};
    struct group__offset *offset = group__offset(groups, group, part);
    if (offset != NULL) { group__offset_free(groups, offset); }
    return BASE_OK;
}

union any_record {
    struct kafka_group_record group;
    struct kafka_group_gone_record group_gone;
    struct kafka_group_member_record member;
    struct kafka_group_member_gone_record member_gone;
    struct kafka_group_offset_record offset;
    struct kafka_group_offset_gone_record offset_gone;
};

static enum base_rc apply(struct groups *groups, struct base_slice value)
{
    uint32_t type;
    int16_t version;
    struct base_slice body;
    if (kafka_record_open(value, &type, &version, &body) != BASE_OK) { return BASE_BAD; }
    enum kafka_message message = kafka_record_message(type);
    if (type < KAFKA_RECORD_GROUP || type > KAFKA_RECORD_GROUP_OFFSET_GONE) { return BASE_BAD; }
    union any_record record;
    struct base_arena scratch;
    base_arena_init(&scratch, groups->scratch, GROUP__SCRATCH_BYTES);
    enum base_rc rc = kafka_decode(message, body, version, &scratch, &record);
    if (rc != BASE_OK) { return BASE_BAD; }
    groups->applied += 1;
    switch (type) {
    case KAFKA_RECORD_GROUP: return apply_group(groups, &record.group);
    case KAFKA_RECORD_GROUP_GONE: return apply_group_gone(groups, &record.group_gone);
    case KAFKA_RECORD_GROUP_MEMBER: return apply_member(groups, &record.member);
    case KAFKA_RECORD_GROUP_MEMBER_GONE: return apply_member_gone(groups, &record.member_gone);
    case KAFKA_RECORD_GROUP_OFFSET: return apply_offset(groups, &record.offset);
    case KAFKA_RECORD_GROUP_OFFSET_GONE: return apply_offset_gone(groups, &record.offset_gone);
    default: return BASE_BAD;
    }
}

enum base_rc group_apply(struct groups *groups, uint32_t log, struct base_slice value)
{
    group__wake(groups);
    CHECK(log < groups->config.logs_count);
    bool is_loading = groups->logs[log].state == GROUP__LOADING;
    /* It could never be written anew. */
    bool is_too_large = value.size_bytes + sizeof(struct group_record) > groups->config.proposal_bytes_max;
    if (is_loading && is_too_large) { return BASE_FULL; }
    enum base_rc rc = apply(groups, value);
    if (rc != BASE_OK || !is_loading) { return rc; }
    /* What others were promised meanwhile stays theirs. */
    size_t bytes = groups->bytes.used_bytes + groups->reserved_bytes;
    return bytes > GROUP__TABLES * groups->bytes.room_bytes ? BASE_FULL : BASE_OK;
}

/* ---- the state as records ------------------------------------------------------------------------------------------- */

/* What is committed, whatever this member asks for meanwhile. */
static void propose_committed_member(struct groups *groups, struct group__log *log, const struct group__member *member)
{
    struct group__member committed = *member;
    committed.join = NULL;
    group__propose_member(groups, log, &committed, member->id, member->assignment);
}

static bool is_of(const struct group__group *group, uint32_t log) { return group->is_committed && group->log == log; }

/* Groups, then members, then offsets, by slot. What changes meanwhile has a record of its own behind this one. */
bool group__snapshot_next(struct groups *groups, uint32_t log_index)
{
    struct group__log *log = group__log(groups, log_index);
    struct base_pool *pools[] = {&groups->groups, &groups->members, &groups->offsets};
    while (log->snapshot_stage < BASE_ARRAY_COUNT(pools)) {
        struct base_pool *pool = pools[log->snapshot_stage];
        if (log->snapshot_cursor >= pool->fresh) {
            log->snapshot_stage += 1;
            log->snapshot_cursor = 0;
            continue;
        }
        uint32_t index = log->snapshot_cursor;
        log->snapshot_cursor += 1;
        if (!base_pool_is_taken(pool, index)) { return true; }
        const void *slot = base_pool_at(pool, index);
        const struct group__group *group = slot;
        const struct group__member *member = slot;
        const struct group__offset *offset = slot;
        switch (log->snapshot_stage) {
        case 0:
            if (is_of(group, log_index)) {
                struct kafka_group_record record = group__record_of(group);
                group__propose_group(groups, log, group, &record);
            }
            break;
        case 1:
            if (member->is_committed && is_of(member->group, log_index)) {
                propose_committed_member(groups, log, member);
            }
            break;
        default:
            if (is_of(offset->group, log_index)) { group__propose_offset(groups, log, offset); }
            break;
        }
        if (log->round.is_full) { log->snapshot_cursor = index; }
        return true;
    }
    return false;
}
