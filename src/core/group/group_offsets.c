/* group_offsets.c: offsets: committed, fetched, deleted, and expired by Kafka's rules.
 *
 * Room    core/group.
 * Topics  offsets are kept by topic id: those of a deleted topic are not seen by the next one of its name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group/group__room.h"

#define SLOTS_A_PIECE 64u

/* ---- what a group consumes ------------------------------------------------------------------------------------------- */

static bool is_consumer(const struct group__group *group)
{
    return base_slice_equal(group->protocol_type, base_slice_text("consumer"));
}

/* ---- topics ------------------------------------------------------------------------------------------------------------ */

static const struct metadata_topic *topic_of(const struct groups *groups, bool is_by_id, struct kafka_text name,
                                             struct base_uuid id)
{
    return is_by_id ? metadata_topic_by_id(groups->image, id)
                    : metadata_topic_by_name(groups->image, kafka_text_slice(name));
}

/* ---- OffsetCommit ---------------------------------------------------------------------------------------------------------- */

static int16_t commit_error(struct groups *groups, const struct group__group *group, int16_t version,
                            const struct kafka_offset_commit_request *asked, struct group__member **member_out)
{
    int32_t generation = asked->generation_id_or_member_epoch;
    *member_out = NULL;
    if (group == NULL) {
        int16_t missing = version >= 9 ? KAFKA_ERROR_GROUP_ID_NOT_FOUND : KAFKA_ERROR_ILLEGAL_GENERATION;
        return generation < 0 ? KAFKA_ERROR_NONE : missing;
    }
    if (generation < 0 && group__is_empty(group)) {
        return KAFKA_ERROR_NONE;
    } /* a consumer that assigns by itself, an operator */
    bool is_named = kafka_text_slice(asked->member_id).size_bytes > 0 || !kafka_text_is_null(asked->group_instance_id);
    if (generation < 0 && !is_named) { return KAFKA_ERROR_UNKNOWN_MEMBER_ID; }
    int16_t error = group__validate(groups, group, asked->member_id, asked->group_instance_id, member_out);
    if (error != KAFKA_ERROR_NONE) { return error; }
    if (generation != group->generation) { return KAFKA_ERROR_ILLEGAL_GENERATION; }
    bool is_completing = group->state == GROUP__COMPLETING && !group->is_preparing;
    return is_completing ? KAFKA_ERROR_REBALANCE_IN_PROGRESS : KAFKA_ERROR_NONE;
}

static int16_t partition_error(const struct groups *groups, const struct metadata_topic *topic, bool is_by_id,
                               int32_t index)
{
    if (topic == NULL) { return is_by_id ? KAFKA_ERROR_UNKNOWN_TOPIC_ID : KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION; }
    bool is_there = metadata_partition(groups->image, topic, index) != NULL;
    return is_there ? KAFKA_ERROR_NONE : KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION;
}

static size_t commit_answer_bytes(const struct kafka_offset_commit_request *asked)
{
    size_t bytes = sizeof(struct kafka_offset_commit_response) + 128;
    for (int32_t i = 0; i < asked->topics_count; i++) {
        bytes += sizeof(struct kafka_offset_commit_response_offset_commit_response_topic) + 32 +
                 (size_t)base_max_i64(asked->topics[i].partitions_count, 0) *
                     sizeof(struct kafka_offset_commit_response_offset_commit_response_partition);
    }
    return bytes;
}

/* The same of every partition. */
bool group__commit_error(struct groups *groups, struct group__request *request, int16_t error)
{
    const struct kafka_offset_commit_request *asked = request->ask.request;
    struct base_arena of_block;
    struct base_arena *arena = group__answer_arena(groups, request, commit_answer_bytes(asked), &of_block);
    if (arena == NULL) { return false; }
    struct kafka_offset_commit_response *response = kafka_offset_commit_response_take(arena, 1);
    CHECK(response != NULL);
    response->topics = kafka_offset_commit_response_offset_commit_response_topic_take(arena, asked->topics_count);
    CHECK(response->topics != NULL);
    response->topics_count = asked->topics_count;
    for (int32_t i = 0; i < asked->topics_count; i++) {
        int32_t count = asked->topics[i].partitions_count;
        response->topics[i].name = asked->topics[i].name;
        response->topics[i].topic_id = asked->topics[i].topic_id;
        response->topics[i].partitions =
            kafka_offset_commit_response_offset_commit_response_partition_take(arena, count);
        CHECK(response->topics[i].partitions != NULL);
        response->topics[i].partitions_count = count;
        for (int32_t k = 0; k < count; k++) {
            response->topics[i].partitions[k].partition_index = asked->topics[i].partitions[k].partition_index;
            response->topics[i].partitions[k].error_code = error;
        }
    }
    group__answer(groups, request, response);
    return true;
}

/* As Java counts a text: code units of UTF-16, two for what UTF-8 writes in four bytes. */
static size_t java_length(struct base_slice text)
{
    size_t units = 0;
    for (size_t i = 0; i < text.size_bytes; i++) {
        bool goes_on = (text.at[i] & 0xc0) == 0x80;
        units += goes_on ? 0 : 1;
        units += text.at[i] >= 0xf0 ? 1 : 0;
    }
    return units;
}

/* One partition of a commit: its record, or why there is none. */
static int16_t commit_one(struct groups *groups, struct group__log *log, const struct group__request *request,
                          const struct metadata_topic *topic, const struct group__offset *before,
                          const struct kafka_offset_commit_request_offset_commit_request_partition *line, size_t *bytes)
{
    const struct kafka_offset_commit_request *asked = request->ask.request;
    struct base_slice metadata = kafka_text_slice(line->committed_metadata);
    if (java_length(metadata) > (size_t)groups->config.offset_metadata_max) {
        return KAFKA_ERROR_OFFSET_METADATA_TOO_LARGE;
    }
    struct kafka_group_offset_record record;
    kafka_group_offset_record_init(&record);
    record.group_id = kafka_text_of_slice(request->ask.group_id);
    record.topic_id = topic->id;
    record.partition = line->partition_index;
    record.offset = line->committed_offset;
    record.leader_epoch = line->committed_leader_epoch;
    record.metadata = kafka_text_of_slice(metadata);
    record.commit_timestamp_ms = groups->wall_ms;
    /* -1 asks for none of its own; less, as in Kafka, is over when it is looked at next. */
    if (asked->retention_time_ms != -1 && asked->retention_time_ms <= INT64_MAX - groups->wall_ms) {
        record.expire_timestamp_ms = base_max_i64(groups->wall_ms + asked->retention_time_ms, 0);
    }
    size_t bytes_after = metadata.size_bytes == 0 ? 0 : group__bytes_rounded(metadata.size_bytes);
    *bytes += group__more(before == NULL ? 0 : group__text_bytes(before->metadata), bytes_after);
    group__propose(groups, log, KAFKA_MESSAGE_GROUP_OFFSET_RECORD, &record);
    return KAFKA_ERROR_NONE;
}

/* Fills the answer, and the round when `error` is none. How many records: *records_out. Room is asked for what is not there yet. */
static enum group__verdict commit_all(struct groups *groups, struct group__request *request,
                                      const struct group__group *group, int16_t error,
                                      struct kafka_offset_commit_response *response, struct base_arena *arena,
                                      uint32_t *records_out)
{
    const struct kafka_offset_commit_request *asked = request->ask.request;
    struct group__log *log = group__log(groups, request->log);
    bool is_by_id = request->ask.version >= 10;
    size_t bytes = group == NULL ? group__bytes_rounded(request->ask.group_id.size_bytes) : 0;
    uint32_t offsets = 0;
    response->topics = kafka_offset_commit_response_offset_commit_response_topic_take(arena, asked->topics_count);
    CHECK(response->topics != NULL);
    response->topics_count = 0;
    for (int32_t i = 0; i < asked->topics_count; i++) {
        const struct kafka_offset_commit_request_offset_commit_request_topic *from = &asked->topics[i];
        struct kafka_offset_commit_response_offset_commit_response_topic *to =
            &response->topics[response->topics_count];
        const struct metadata_topic *topic = topic_of(groups, is_by_id, from->name, from->topic_id);
        if (topic != NULL && from->partitions_count <= 0) { continue; } /* as in Kafka, nothing is said of it */
        response->topics_count += 1;
        to->name = from->name;
        to->topic_id = from->topic_id;
        to->partitions =
            kafka_offset_commit_response_offset_commit_response_partition_take(arena, from->partitions_count);
        CHECK(to->partitions != NULL);
        to->partitions_count = from->partitions_count;
        for (int32_t k = 0; k < from->partitions_count; k++) {
            to->partitions[k].partition_index = from->partitions[k].partition_index;
            int16_t code = partition_error(groups, topic, is_by_id, from->partitions[k].partition_index);
            if (code == KAFKA_ERROR_NONE) { code = error; }
            if (code == KAFKA_ERROR_NONE) {
                struct base_part part = {.topic = topic->id, .index = from->partitions[k].partition_index};
                const struct group__offset *before = group == NULL ? NULL : group__offset(groups, group, part);
                code = commit_one(groups, log, request, topic, before, &from->partitions[k], &bytes);
                offsets += code == KAFKA_ERROR_NONE && before == NULL ? 1 : 0;
            }
            to->partitions[k].error_code = code;
            *records_out += code == KAFKA_ERROR_NONE ? 1 : 0;
        }
    }
    if (log->round.is_full) { return GROUP__FULL; }
    uint32_t group_count = group == NULL ? 1 : 0;
    if (*records_out > 0 && !group__has_room(groups, group_count, 0, offsets, bytes)) { return GROUP__STARVED; }
    if (*records_out > 0) { group__reserve(groups, log, group_count, 0, offsets, bytes); }
    return GROUP__DONE;
}

enum group__verdict group__decide_commit(struct groups *groups, struct group__request *request)
{
    const struct kafka_offset_commit_request *asked = request->ask.request;
    struct group__log *log = group__log(groups, request->log);
    struct group__group *group = group__find(groups, request->ask.group_id);
    if (group != NULL && group->is_touched) { return GROUP__LATER; }
    struct group__member *member;
    int16_t error = commit_error(groups, group, request->ask.version, asked, &member);
    struct base_arena of_block;
    struct base_arena *arena = group__answer_arena(groups, request, commit_answer_bytes(asked), &of_block);
    if (arena == NULL) { return GROUP__STARVED; }
    struct kafka_offset_commit_response *response = kafka_offset_commit_response_take(arena, 1);
    CHECK(response != NULL);
    size_t mark_bytes = base_arena_mark(arena);
    struct group__round mark = group__mark(log);
    uint32_t records = 0;
    kafka_offset_commit_response_init(response);
    enum group__verdict verdict = commit_all(groups, request, group, error, response, arena, &records);
    if (verdict == GROUP__FULL) { return GROUP__FULL; }
    if (verdict == GROUP__STARVED) { /* the state has no room: nothing of it is done, and each partition says so */
        group__rollback(groups, log, mark);
        base_arena_reset(arena, mark_bytes);
        records = 0;
        verdict = commit_all(groups, request, group, KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE, response, arena, &records);
        CHECK(verdict == GROUP__DONE && records == 0);
    }
    /* In the classic protocol a commit keeps its member alive. */
    bool is_kept = error == KAFKA_ERROR_NONE && member != NULL && member->is_committed;
    if (is_kept) { group__set_session(groups, member, member->session_ms); }
    if (records > 0) {
        /* Made for whoever got an id, it may lose them before this lands: the room for it would be another's by then. */
        if (group != NULL && !group->is_committed) { group__change(groups, group); }
        group__log(groups, request->log)->round.moved_count += 1;
        group__answer_landed(groups, request, response);
    } else {
        group__answer(groups, request, response);
    }
    return GROUP__DONE;
}

/* ---- OffsetFetch ------------------------------------------------------------------------------------------------------------- */

typedef struct kafka_offset_fetch_response_offset_fetch_response_topics fetched_topic;
typedef struct kafka_offset_fetch_response_offset_fetch_response_partitions fetched_partition;

static void fill_offset(struct base_arena *arena, const struct group__offset *offset, fetched_partition *line)
{
    line->committed_offset = offset == NULL ? -1 : offset->offset;
    line->committed_leader_epoch = offset == NULL ? -1 : offset->leader_epoch;
    line->metadata = offset == NULL ? kafka_text_words("") : group__put_words(arena, offset->metadata);
}

static enum group__verdict fetch_named(struct groups *groups, struct group__request *request,
                                       const struct group__group *group,
                                       const struct kafka_offset_fetch_request_offset_fetch_request_group *asked)
{
    bool is_by_id = request->ask.version >= 10;
    size_t bytes = sizeof(struct kafka_offset_fetch_response_offset_fetch_response_group) + 128;
    for (int pass = 0; pass < 2; pass++) { /* first what it takes, then the answer */
        struct base_arena of_block;
        struct base_arena *arena = NULL;
        struct kafka_offset_fetch_response_offset_fetch_response_group *response = NULL;
        if (pass == 1) {
            arena = group__answer_arena(groups, request, bytes, &of_block);
            if (arena == NULL) { return GROUP__STARVED; }
            response = kafka_offset_fetch_response_offset_fetch_response_group_take(arena, 1);
            CHECK(response != NULL);
            response->group_id = asked->group_id;
            response->topics =
                kafka_offset_fetch_response_offset_fetch_response_topics_take(arena, asked->topics_count);
            CHECK(response->topics != NULL);
            response->topics_count = asked->topics_count;
        }
        for (int32_t i = 0; i < asked->topics_count; i++) {
            const struct kafka_offset_fetch_request_offset_fetch_request_topics *from = &asked->topics[i];
            const struct metadata_topic *topic = topic_of(groups, is_by_id, from->name, from->topic_id);
            bytes += sizeof(fetched_topic) + 32 +
                     (size_t)base_max_i64(from->partition_indexes_count, 0) * (sizeof(fetched_partition) + 1);
            if (pass == 1) {
                response->topics[i].name = from->name;
                response->topics[i].topic_id = from->topic_id;
                response->topics[i].partitions =
                    kafka_offset_fetch_response_offset_fetch_response_partitions_take(arena,
                                                                                      from->partition_indexes_count);
                CHECK(response->topics[i].partitions != NULL);
                response->topics[i].partitions_count = from->partition_indexes_count;
            }
            for (int32_t k = 0; k < from->partition_indexes_count; k++) {
                struct base_part part = {.index = from->partition_indexes[k]};
                if (topic != NULL) { part.topic = topic->id; }
                const struct group__offset *offset =
                    topic == NULL || group == NULL ? NULL : group__offset(groups, group, part);
                bytes += offset == NULL ? 0 : offset->metadata.size_bytes;
                if (pass == 0) { continue; }
                fetched_partition *line = &response->topics[i].partitions[k];
                line->partition_index = part.index;
                fill_offset(arena, offset, line);
                if (is_by_id && topic == NULL) { line->error_code = KAFKA_ERROR_UNKNOWN_TOPIC_ID; }
            }
        }
        if (pass == 1) { group__answer(groups, request, response); }
    }
    return GROUP__DONE;
}

/* Every offset of a topic that is still there. */
static enum group__verdict fetch_all(struct groups *groups, struct group__request *request,
                                     const struct group__group *group,
                                     const struct kafka_offset_fetch_request_offset_fetch_request_group *asked)
{
    size_t bytes = sizeof(struct kafka_offset_fetch_response_offset_fetch_response_group) + 256;
    int32_t topics_count = 0;
    int32_t partitions_count = 0;
    const struct metadata_topic *topic = NULL;
    const struct base_link *first = group == NULL ? NULL : base_list_first(&group->offsets);
    for (const struct base_link *link = first; link != NULL; link = base_list_next(&group->offsets, link)) {
        const struct group__offset *offset = BASE_ITEM((uintptr_t)link, struct group__offset, link);
        const struct metadata_topic *of = metadata_topic_by_id(groups->image, offset->part.topic);
        if (of == NULL) { continue; }
        topics_count += of == topic ? 0 : 1;
        bytes += of == topic ? 0 : sizeof(fetched_topic) + of->name_bytes + 1;
        topic = of;
        partitions_count += 1;
        bytes += sizeof(fetched_partition) + offset->metadata.size_bytes + 1;
    }
    struct base_arena of_block;
    struct base_arena *arena = group__answer_arena(groups, request, bytes, &of_block);
    if (arena == NULL) { return GROUP__STARVED; }
    struct kafka_offset_fetch_response_offset_fetch_response_group *response =
        kafka_offset_fetch_response_offset_fetch_response_group_take(arena, 1);
    fetched_topic *topics = kafka_offset_fetch_response_offset_fetch_response_topics_take(arena, topics_count);
    fetched_partition *lines =
        kafka_offset_fetch_response_offset_fetch_response_partitions_take(arena, partitions_count);
    CHECK(response != NULL && topics != NULL && lines != NULL);
    response->group_id = asked->group_id;
    response->topics = topics;
    topic = NULL;
    for (const struct base_link *link = first; link != NULL; link = base_list_next(&group->offsets, link)) {
        const struct group__offset *offset = BASE_ITEM((uintptr_t)link, struct group__offset, link);
        const struct metadata_topic *of = metadata_topic_by_id(groups->image, offset->part.topic);
        if (of == NULL) { continue; }
        if (of != topic) {
            topics[response->topics_count].name = group__put_words(arena, metadata_topic_name(of));
            topics[response->topics_count].topic_id = of->id;
            topics[response->topics_count].partitions = lines;
            response->topics_count += 1;
            topic = of;
        }
        lines->partition_index = offset->part.index;
        fill_offset(arena, offset, lines);
        topics[response->topics_count - 1].partitions_count += 1;
        lines += 1;
    }
    group__answer(groups, request, response);
    return GROUP__DONE;
}

/* While there are no transactions nothing is unstable but what has not landed. The round need not be asked whose offsets it moves: who is
 * later is the first of the next one, or behind those that were before it. */
enum group__verdict group__decide_fetch(struct groups *groups, struct group__request *request)
{
    const struct kafka_offset_fetch_request_offset_fetch_request_group *asked = request->ask.request;
    const struct group__group *group = group__find(groups, request->ask.group_id);
    bool is_moving = group__log(groups, request->log)->round.moved_count > 0 || (group != NULL && group->is_touched);
    if (request->ask.is_ordered && is_moving) { return GROUP__LATER; }
    if (asked->topics_count < 0) { return fetch_all(groups, request, group, asked); }
    return fetch_named(groups, request, group, asked);
}

/* ---- OffsetDelete -------------------------------------------------------------------------------------------------------------- */

static int16_t offset_delete_error(const struct group__group *group, const struct group__request *request)
{
    if (request->ask.group_id.size_bytes == 0) { return KAFKA_ERROR_INVALID_GROUP_ID; }
    if (group == NULL) { return KAFKA_ERROR_GROUP_ID_NOT_FOUND; }
    bool are_consumers = base_slice_equal(group__protocol_type(group), base_slice_text("consumer"));
    return group__is_empty(group) || are_consumers ? KAFKA_ERROR_NONE : KAFKA_ERROR_NON_EMPTY_GROUP;
}

enum group__verdict group__decide_offset_delete(struct groups *groups, struct group__request *request)
{
    const struct kafka_offset_delete_request *asked = request->ask.request;
    struct group__log *log = group__log(groups, request->log);
    struct group__group *group = group__find(groups, request->ask.group_id);
    if (group != NULL && group->is_touched) { return GROUP__LATER; }
    size_t bytes = sizeof(struct kafka_offset_delete_response) + 128 +
                   group__names_bytes((uint32_t)base_max_i64(asked->topics_count, 0));
    for (int32_t i = 0; i < asked->topics_count; i++) {
        bytes += sizeof(struct kafka_offset_delete_response_offset_delete_response_topic) + 32 +
                 (size_t)base_max_i64(asked->topics[i].partitions_count, 0) *
                     sizeof(struct kafka_offset_delete_response_offset_delete_response_partition);
    }
    struct base_arena of_block;
    struct base_arena *arena = group__answer_arena(groups, request, bytes, &of_block);
    if (arena == NULL) { return GROUP__STARVED; }
    struct kafka_offset_delete_response *response = kafka_offset_delete_response_take(arena, 1);
    CHECK(response != NULL);
    response->error_code = offset_delete_error(group, request);
    uint32_t records_before = log->round.records_count;
    int32_t topics_count = response->error_code == KAFKA_ERROR_NONE ? asked->topics_count : 0;
    response->topics = kafka_offset_delete_response_offset_delete_response_topic_take(arena, topics_count);
    CHECK(response->topics != NULL);
    struct group__names names;
    group__names_init(&names, arena, (uint32_t)base_max_i64(topics_count, 0), groups->config.seed);
    for (int32_t i = 0; i < topics_count; i++) {
        (void)group__names_add(&names, kafka_text_slice(asked->topics[i].name));
    }
    if (topics_count > 0) { group__names_look(&names, group); }
    for (int32_t i = 0; i < topics_count; i++) {
        const struct kafka_offset_delete_request_offset_delete_request_topic *from = &asked->topics[i];
        struct kafka_offset_delete_response_offset_delete_response_topic *to =
            &response->topics[response->topics_count];
        const struct metadata_topic *topic = metadata_topic_by_name(groups->image, kafka_text_slice(from->name));
        if (topic != NULL && from->partitions_count <= 0) { continue; } /* as in Kafka, nothing is said of it */
        response->topics_count += 1;
        bool is_subscribed = group__names_is_read(&names, group__names_add(&names, kafka_text_slice(from->name)));
        to->name = from->name;
        to->partitions =
            kafka_offset_delete_response_offset_delete_response_partition_take(arena, from->partitions_count);
        CHECK(to->partitions != NULL);
        to->partitions_count = from->partitions_count;
        for (int32_t k = 0; k < from->partitions_count; k++) {
            to->partitions[k].partition_index = from->partitions[k].partition_index;
            int16_t code = partition_error(groups, topic, false, from->partitions[k].partition_index);
            if (code == KAFKA_ERROR_NONE && is_subscribed) { code = KAFKA_ERROR_GROUP_SUBSCRIBED_TO_TOPIC; }
            to->partitions[k].error_code = code;
            if (code != KAFKA_ERROR_NONE) { continue; }
            struct base_part part = {.topic = topic->id, .index = from->partitions[k].partition_index};
            const struct group__offset *offset = group__offset(groups, group, part);
            if (offset != NULL) { group__propose_offset_gone(groups, log, offset); }
        }
    }
    if (log->round.is_full) { return GROUP__FULL; }
    if (log->round.records_count > records_before) {
        log->round.moved_count += 1;
        group__answer_landed(groups, request, response);
    } else {
        group__answer(groups, request, response);
    }
    return GROUP__DONE;
}

/* ---- expiry ------------------------------------------------------------------------------------------------------------------------ */

/* Kafka's conditions, but for what the group reads: never while members join, and by the time the group was left when it is empty. */
static bool is_old(const struct groups *groups, const struct group__offset *offset)
{
    const struct group__group *group = offset->group;
    if (group->is_preparing || group->is_touched) { return false; }
    int64_t since_ms = offset->commit_ms;
    if (group->protocol_type.at != NULL) {
        bool is_stable = group->state == GROUP__STABLE && is_consumer(group);
        if (group->state != GROUP__EMPTY && !is_stable) { return false; }
        if (group->state == GROUP__EMPTY && group->state_ms >= 0) { since_ms = group->state_ms; }
    }
    return offset->expire_ms >= 0 ? groups->wall_ms >= offset->expire_ms
                                  : groups->wall_ms - since_ms >= groups->config.offsets_retention_ms;
}

/* Offsets of a piece that go if their groups don't read their topics. */
struct aging {
    const struct group__offset *offset; /* NULL: it stays, or its group was looked at */
    uint32_t slot;
    struct base_slice topic;
};

static void propose_gone(struct groups *groups, struct group__log *log, const struct group__offset *offset,
                         uint32_t slot, uint32_t *next)
{
    group__propose_offset_gone(groups, log, offset);
    if (log->round.is_full) { *next = (uint32_t)base_min_u64(*next, slot); } /* this one once more */
}

/* The words of a group's members are looked at once for all of them. */
static void sweep_aging(struct groups *groups, struct group__log *log, struct aging *aging, uint32_t count,
                        uint32_t *next)
{
    for (uint32_t first = 0; first < count; first++) {
        if (aging[first].offset == NULL) { continue; }
        const struct group__group *group = aging[first].offset->group;
        struct base_arena scratch;
        struct group__names names;
        base_arena_init(&scratch, groups->scratch, GROUP__SCRATCH_BYTES);
        group__names_init(&names, &scratch, count, groups->config.seed);
        for (uint32_t i = first; i < count; i++) {
            bool is_its = aging[i].offset != NULL && aging[i].offset->group == group;
            if (is_its) { (void)group__names_add(&names, aging[i].topic); }
        }
        group__names_look(&names, group);
        for (uint32_t i = first; i < count; i++) {
            if (aging[i].offset == NULL || aging[i].offset->group != group) { continue; }
            bool is_read = group__names_is_read(&names, group__names_add(&names, aging[i].topic));
            if (!is_read) { propose_gone(groups, log, aging[i].offset, aging[i].slot, next); }
            aging[i].offset = NULL;
        }
    }
}

static void sweep_offsets(struct groups *groups, uint32_t log_index, uint32_t end)
{
    struct group__log *log = group__log(groups, log_index);
    struct aging aging[SLOTS_A_PIECE];
    uint32_t count = 0;
    uint32_t next = end;
    for (uint32_t slot = log->sweep_cursor; slot < end; slot++) {
        if (!base_pool_is_taken(&groups->offsets, slot)) { continue; }
        const struct group__offset *offset = base_pool_at(&groups->offsets, slot);
        if (offset->group->log != log_index) { continue; }
        const struct metadata_topic *topic = metadata_topic_by_id(groups->image, offset->part.topic);
        if (topic == NULL) {
            propose_gone(groups, log, offset, slot, &next);
        } else if (!log->is_sweep_of_topics && is_old(groups, offset)) {
            aging[count++] = (struct aging){.offset = offset, .slot = slot, .topic = metadata_topic_name(topic)};
        }
    }
    sweep_aging(groups, log, aging, count, &next);
    log->sweep_cursor = next;
}

/* A group that nobody is in, and that keeps nothing. */
static void sweep_group(struct groups *groups, struct group__log *log, struct group__group *group)
{
    bool is_idle = group->is_committed && group__is_empty(group) && !group->is_touched &&
                   base_list_is_empty(&group->members) && base_list_is_empty(&group->offsets) &&
                   !base_link_is_on(&group->changed);
    if (is_idle) { group__propose_group_gone(groups, log, group); }
}

static void sweep_groups(struct groups *groups, uint32_t log_index, uint32_t end)
{
    struct group__log *log = group__log(groups, log_index);
    for (; log->sweep_cursor < end; log->sweep_cursor++) {
        uint32_t slot = log->sweep_cursor - groups->offsets.fresh;
        if (!base_pool_is_taken(&groups->groups, slot)) { continue; }
        struct group__group *group = base_pool_at(&groups->groups, slot);
        if (group->log == log_index) { sweep_group(groups, log, group); }
        if (log->round.is_full) { return; } /* this one once more */
    }
}

/* Offsets by slot, then groups by slot. */
bool group__sweep(struct groups *groups, uint32_t log_index)
{
    struct group__log *log = group__log(groups, log_index);
    uint32_t offsets_end = groups->offsets.fresh;
    uint32_t end = offsets_end + (log->is_sweep_of_topics ? 0 : groups->groups.fresh);
    uint32_t piece_end = (uint32_t)base_min_u64(log->sweep_cursor + SLOTS_A_PIECE, end);
    if (log->sweep_cursor < offsets_end) {
        sweep_offsets(groups, log_index, (uint32_t)base_min_u64(piece_end, offsets_end));
    } else {
        sweep_groups(groups, log_index, piece_end);
    }
    return log->sweep_cursor < end;
}
