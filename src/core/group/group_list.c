/* group_list.c: DescribeGroups, ListGroups, DeleteGroups, and the refusal of any request.
 *
 * Room    core/group.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group/group__room.h"

/* ---- DescribeGroups ---------------------------------------------------------------------------------------------------- */

struct member_words {
    struct base_slice client_id;
    struct base_slice client_host;
    struct base_slice metadata;
};

/* Its metadata is shown in a stable group only, as in Kafka. */
static struct member_words words_of(const struct group__group *group, const struct group__member *member)
{
    struct member_words words = {.client_id = base_slice_of(NULL, 0)};
    if (member->join != NULL) {
        words.client_id = member->join->ask.client_id;
        words.client_host = member->join->ask.client_host;
    } else if (member->data != NULL) {
        words.client_id = member->data->client_id;
        words.client_host = member->data->client_host;
    }
    bool is_stable = group->state == GROUP__STABLE && !group->is_preparing && member->data != NULL;
    for (uint32_t i = 0; is_stable && i < member->data->protocols_count; i++) {
        if (base_slice_equal(member->data->protocols[i].name, group->protocol)) {
            words.metadata = member->data->protocols[i].metadata;
        }
    }
    return words;
}

/* A name may be as long as a text can be: of one that leaves no room for the words about it, its beginning is said. */
static struct kafka_text missing_words(struct base_arena *arena, struct base_slice group_id)
{
    static const char before[] = "Group ";
    static const char after[] = " not found.";
    size_t words_bytes = sizeof before - 1 + sizeof after - 1;
    size_t name_bytes = base_min_size(group_id.size_bytes, KAFKA_TEXT_BYTES_MAX - words_bytes);
    if (name_bytes < group_id.size_bytes) { /* not in the middle of a letter */
        while (name_bytes > 0 && (group_id.at[name_bytes] & 0xc0) == 0x80) { name_bytes -= 1; }
    }
    char *words = base_arena_take_bytes(arena, words_bytes + name_bytes);
    CHECK(words != NULL); /* its room was looked at */
    memcpy(words, before, sizeof before - 1);
    if (name_bytes > 0) { memcpy(words + sizeof before - 1, group_id.at, name_bytes); }
    memcpy(words + sizeof before - 1 + name_bytes, after, sizeof after - 1);
    return kafka_text_of(words, words_bytes + name_bytes);
}

enum group__verdict group__decide_describe(struct groups *groups, struct group__request *request)
{
    const struct group__group *group = group__find(groups, request->ask.group_id);
    size_t bytes =
        sizeof(struct kafka_describe_groups_response_described_group) + 512 + request->ask.group_id.size_bytes;
    int32_t count = 0;
    for (const struct group__member *member = group == NULL ? NULL : group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!group__counts(member)) { continue; }
        struct member_words words = words_of(group, member);
        bytes += sizeof(struct kafka_describe_groups_response_described_group_member) + member->id.size_bytes +
                 words.client_id.size_bytes + words.client_host.size_bytes + words.metadata.size_bytes +
                 member->assignment.size_bytes + group__instance(member).size_bytes + 6;
        count += 1;
    }
    if (group != NULL) { bytes += group__protocol_type(group).size_bytes + group->protocol.size_bytes; }
    struct base_arena of_block;
    struct base_arena *arena = group__answer_arena(groups, request, bytes, &of_block);
    if (arena == NULL) { return GROUP__STARVED; }
    struct kafka_describe_groups_response_described_group *response =
        kafka_describe_groups_response_described_group_take(arena, 1);
    CHECK(response != NULL);
    response->group_id = kafka_text_of_slice(request->ask.group_id);
    response->protocol_type = kafka_text_words("");
    response->protocol_data = kafka_text_words("");
    response->group_state = kafka_text_words("Dead");
    response->members = kafka_describe_groups_response_described_group_member_take(arena, count);
    CHECK(response->members != NULL);
    if (group == NULL) {
        if (request->ask.version >= 6) {
            response->error_code = KAFKA_ERROR_GROUP_ID_NOT_FOUND;
            response->error_message = missing_words(arena, request->ask.group_id);
        }
        group__answer(groups, request, response);
        return GROUP__DONE;
    }
    response->group_state = kafka_text_words(group__state_name(group));
    response->protocol_type = group__put_words(arena, group__protocol_type(group));
    if (group->state == GROUP__STABLE && !group->is_preparing) {
        response->protocol_data = group__put_words(arena, group->protocol);
    }
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!group__counts(member)) { continue; }
        struct kafka_describe_groups_response_described_group_member *line =
            &response->members[response->members_count];
        struct member_words words = words_of(group, member);
        response->members_count += 1;
        line->member_id = group__put_words(arena, member->id);
        line->group_instance_id = group__put_text(arena, group__instance(member));
        line->client_id = group__put_words(arena, words.client_id);
        line->client_host = group__put_words(arena, words.client_host);
        line->member_metadata = group__put_bytes(arena, words.metadata);
        line->member_assignment = group__put_bytes(arena, member->assignment);
    }
    group__answer(groups, request, response);
    return GROUP__DONE;
}

/* ---- ListGroups ---------------------------------------------------------------------------------------------------------- */

static bool is_same_word(struct kafka_text a, const char *b)
{
    struct base_slice words = kafka_text_slice(a);
    if (words.size_bytes != strlen(b)) { return false; }
    for (size_t i = 0; i < words.size_bytes; i++) {
        uint8_t left = words.at[i];
        uint8_t right = (uint8_t)b[i];
        if (left >= 'A' && left <= 'Z') { left = (uint8_t)(left + 32); }
        if (right >= 'A' && right <= 'Z') { right = (uint8_t)(right + 32); }
        if (left != right) { return false; }
    }
    return true;
}

static bool is_among(const struct kafka_text *words, int32_t count, const char *word)
{
    for (int32_t i = 0; i < count; i++) {
        if (is_same_word(words[i], word)) { return true; }
    }
    return count <= 0; /* no filter */
}

/* Filters are looked at once, however long they are, not for each group. */
static const char *const state_names[] = {"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"};
struct listed {
    bool is_classic;
    bool is_state[BASE_ARRAY_COUNT(state_names)];
};

static struct listed listed_by(const struct kafka_list_groups_request *asked)
{
    struct listed listed = {.is_classic = is_among(asked->types_filter, asked->types_filter_count, "classic")};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(state_names); i++) {
        listed.is_state[i] = is_among(asked->states_filter, asked->states_filter_count, state_names[i]);
    }
    return listed;
}

static bool is_listed(const struct groups *groups, const struct group__group *group, const struct listed *listed)
{
    if (!listed->is_classic || group__log(groups, group->log)->state != GROUP__LEADING) { return false; }
    struct base_slice name = base_slice_text(group__state_name(group));
    for (size_t i = 0; i < BASE_ARRAY_COUNT(state_names); i++) {
        if (base_slice_equal(base_slice_text(state_names[i]), name)) { return listed->is_state[i]; }
    }
    UNREACHABLE();
}

enum group__verdict group__decide_list(struct groups *groups, struct group__request *request)
{
    struct listed listed = listed_by(request->ask.request);
    size_t bytes = sizeof(struct kafka_list_groups_response) + 256;
    int32_t count = 0;
    for (uint32_t i = 0; i < groups->groups.fresh; i++) {
        if (!base_pool_is_taken(&groups->groups, i)) { continue; }
        const struct group__group *group = base_pool_at(&groups->groups, i);
        if (!is_listed(groups, group, &listed)) { continue; }
        count += 1;
        bytes += sizeof(struct kafka_list_groups_response_listed_group) + group->id.size_bytes +
                 group__protocol_type(group).size_bytes + 2;
    }
    struct base_arena of_block;
    struct base_arena *arena = group__answer_arena(groups, request, bytes, &of_block);
    if (arena == NULL) { return GROUP__STARVED; }
    struct kafka_list_groups_response *response = kafka_list_groups_response_take(arena, 1);
    CHECK(response != NULL);
    response->groups = kafka_list_groups_response_listed_group_take(arena, count);
    CHECK(response->groups != NULL);
    for (uint32_t i = 0; i < groups->groups.fresh; i++) {
        if (!base_pool_is_taken(&groups->groups, i)) { continue; }
        const struct group__group *group = base_pool_at(&groups->groups, i);
        if (!is_listed(groups, group, &listed)) { continue; }
        struct kafka_list_groups_response_listed_group *line = &response->groups[response->groups_count];
        response->groups_count += 1;
        line->group_id = group__put_words(arena, group->id);
        line->protocol_type = group__put_words(arena, group__protocol_type(group));
        line->group_state = kafka_text_words(group__state_name(group));
        line->group_type = kafka_text_words("classic");
    }
    group__answer(groups, request, response);
    return GROUP__DONE;
}

/* ---- DeleteGroups -------------------------------------------------------------------------------------------------------- */

enum group__verdict group__decide_delete(struct groups *groups, struct group__request *request)
{
    struct group__log *log = group__log(groups, request->log);
    struct group__group *group = group__find(groups, request->ask.group_id);
    if (group != NULL && group->is_touched) { return GROUP__LATER; }
    struct kafka_delete_groups_response_deletable_group_result *response =
        kafka_delete_groups_response_deletable_group_result_take(request->ask.arena, 1);
    CHECK(response != NULL); /* GROUP_ANSWER_BYTES */
    response->group_id = kafka_text_of_slice(request->ask.group_id);
    if (group == NULL || !group__is_empty(group)) {
        response->error_code = group == NULL ? KAFKA_ERROR_GROUP_ID_NOT_FOUND : KAFKA_ERROR_NON_EMPTY_GROUP;
        group__answer(groups, request, response);
        return GROUP__DONE;
    }
    group__propose_group_gone(groups, log, group);
    if (log->round.is_full) { return GROUP__FULL; }
    group__answer_landed(groups, request, response);
    return GROUP__DONE;
}

/* ---- refusals -------------------------------------------------------------------------------------------------------------- */

bool group__refuse(struct groups *groups, struct group__request *request, int16_t error)
{
    struct base_arena *arena = request->ask.arena; /* at least GROUP_ANSWER_BYTES of it */
    switch (request->ask.kind) {
    case GROUP_JOIN: group__join_error(groups, request, error, true); return true;
    case GROUP_SYNC: group__sync_error(groups, request, error); return true;
    case GROUP_COMMIT: return group__commit_error(groups, request, error);
    case GROUP_HEARTBEAT:
        /* While its group is being loaded a member need not know. */
        group__heartbeat_answer(groups, request,
                                error == KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS ? KAFKA_ERROR_NONE : error);
        return true;
    case GROUP_LEAVE: {
        struct kafka_leave_group_response *response = kafka_leave_group_response_take(arena, 1);
        CHECK(response != NULL);
        response->error_code = error;
        group__answer(groups, request, response);
        return true;
    }
    case GROUP_OFFSET_DELETE: {
        struct kafka_offset_delete_response *response = kafka_offset_delete_response_take(arena, 1);
        CHECK(response != NULL);
        response->error_code = error;
        group__answer(groups, request, response);
        return true;
    }
    case GROUP_DELETE: {
        struct kafka_delete_groups_response_deletable_group_result *response =
            kafka_delete_groups_response_deletable_group_result_take(arena, 1);
        CHECK(response != NULL);
        response->group_id = kafka_text_of_slice(request->ask.group_id);
        response->error_code = error;
        group__answer(groups, request, response);
        return true;
    }
    case GROUP_FETCH: {
        struct kafka_offset_fetch_response_offset_fetch_response_group *response =
            kafka_offset_fetch_response_offset_fetch_response_group_take(arena, 1);
        CHECK(response != NULL);
        response->group_id = kafka_text_of_slice(request->ask.group_id);
        response->error_code = error;
        group__answer(groups, request, response);
        return true;
    }
    case GROUP_DESCRIBE: {
        struct kafka_describe_groups_response_described_group *response =
            kafka_describe_groups_response_described_group_take(arena, 1);
        CHECK(response != NULL);
        response->group_id = kafka_text_of_slice(request->ask.group_id);
        response->group_state = kafka_text_words("");
        response->protocol_type = kafka_text_words("");
        response->protocol_data = kafka_text_words("");
        response->error_code = error;
        group__answer(groups, request, response);
        return true;
    }
    case GROUP_LIST: {
        struct kafka_list_groups_response *response = kafka_list_groups_response_take(arena, 1);
        CHECK(response != NULL);
        response->error_code = error;
        group__answer(groups, request, response);
        return true;
    }
    }
    UNREACHABLE();
}
