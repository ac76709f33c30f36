/* group_join.c: JoinGroup, and what its members are told when all have joined: a new generation.
 *
 * Room    core/group.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group/group__room.h"

#define MEMBER_BYTES_FIXED 256 /* of a member's record or data, besides its texts */
#define JOIN_AGAIN_MS      100 /* at the least: members may ask for 0 */

/* ---- answers ---------------------------------------------------------------------------------------------------------- */

void group__join_error(struct groups *groups, struct group__request *request, int16_t error, bool is_named)
{
    const struct kafka_join_group_request *asked = request->ask.request;
    struct kafka_join_group_response *response = kafka_join_group_response_take(request->ask.arena, 1);
    CHECK(response != NULL); /* GROUP_ANSWER_BYTES */
    kafka_join_group_response_init(response);
    response->error_code = error;
    response->member_id = is_named ? asked->member_id : kafka_text_words("");
    response->leader = kafka_text_words("");
    /* Before version 7 a name there must be. */
    response->protocol_name = request->ask.version < 7 ? kafka_text_words("") : kafka_text_null();
    group__answer(groups, request, response);
}

static struct base_slice metadata_for(const struct group__member *member, struct base_slice protocol)
{
    for (uint32_t i = 0; i < member->data->protocols_count; i++) {
        if (base_slice_equal(member->data->protocols[i].name, protocol)) { return member->data->protocols[i].metadata; }
    }
    return base_slice_of(NULL, 0);
}

static size_t members_bytes(const struct group__group *group, uint32_t *count_out)
{
    size_t bytes = 0;
    *count_out = 0;
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!member->is_committed) { continue; }
        *count_out += 1;
        bytes += sizeof(struct kafka_join_group_response_join_group_response_member) + member->id.size_bytes +
                 member->data->instance.size_bytes + metadata_for(member, group->protocol).size_bytes + 3;
    }
    return bytes;
}

static void fill_members(struct base_arena *arena, const struct group__group *group, uint32_t count,
                         struct kafka_join_group_response *response)
{
    response->members = kafka_join_group_response_join_group_response_member_take(arena, (int32_t)count);
    CHECK(response->members != NULL);
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!member->is_committed) { continue; }
        struct kafka_join_group_response_join_group_response_member *line = &response->members[response->members_count];
        struct base_slice metadata = metadata_for(member, group->protocol);
        line->member_id = group__put_text(arena, member->id);
        line->group_instance_id = group__put_text(arena, member->data->instance);
        line->metadata = group__put_bytes(arena, metadata);
        response->members_count += 1;
    }
}

/* What a member of the generation that is committed is told. */
bool group__join_answer(struct groups *groups, struct group__request *request)
{
    const struct group__group *group = request->group;
    const struct group__member *member = request->member;
    bool is_leader = base_slice_equal(member->id, group->leader);
    /* A follower that came back in a stable group, or a static one that was replaced, gets no list: nothing is to be assigned,
     * unless it is told so (version 9). */
    bool has_list = is_leader && (!request->is_replacing || request->ask.version >= 9);
    uint32_t count = 0;
    size_t list_bytes = members_bytes(group, &count);
    size_t bytes = sizeof(struct kafka_join_group_response) + 256 + member->id.size_bytes + group->leader.size_bytes +
                   group->protocol.size_bytes + group->protocol_type.size_bytes + request->leader_before.size_bytes +
                   (has_list ? list_bytes : 0);
    struct base_arena of_block;
    struct base_arena *arena = group__answer_arena(groups, request, bytes, &of_block);
    if (arena == NULL) { return false; }
    struct kafka_join_group_response *response = kafka_join_group_response_take(arena, 1);
    CHECK(response != NULL);
    kafka_join_group_response_init(response);
    response->generation_id = group->generation;
    response->protocol_type = group__put_text(arena, group->protocol_type);
    response->protocol_name = group__put_text(arena, group->protocol);
    response->leader = group__put_text(arena, group->leader);
    response->member_id = group__put_text(arena, member->id);
    response->skip_assignment = request->is_replacing && has_list;
    if (request->is_replacing && !has_list && is_leader) {
        /* An old client must not take itself for the leader: it would assign without a list. */
        response->leader = group__put_text(arena, request->leader_before);
    }
    if (has_list) { fill_members(arena, group, count, response); }
    group__drop(groups, &request->leader_before);
    group__answer(groups, request, response);
    return true;
}

/* ---- who may join -------------------------------------------------------------------------------------------------------- */

static bool has_protocol(const struct group__member *member, struct base_slice name)
{
    for (uint32_t i = 0; i < group__protocols_count(member); i++) {
        if (base_slice_equal(group__protocol(member, i).name, name)) { return true; }
    }
    return false;
}

/* A member that a new generation would have: it has joined, or is static. */
static bool stays(const struct group__member *member)
{
    if (!group__counts(member)) { return false; }
    return member->join != NULL || group__instance(member).at != NULL;
}

/* Of the members as they are, or of those that a new generation would have. */
enum electorate { ALL_MEMBERS, STAYING_MEMBERS };

static bool may_vote(const struct group__member *member, enum electorate who)
{
    return who == ALL_MEMBERS ? group__counts(member) : stays(member);
}

static bool have_voters(const struct group__group *group, enum electorate who, struct base_slice name)
{
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (may_vote(member, who) && !has_protocol(member, name)) { return false; }
    }
    return true;
}

/* Empty, or about to be again: who began the round has given up. Nobody's protocols are to be had, too. */
static bool has_no_voters(const struct group__group *group)
{
    if (group->state != GROUP__EMPTY) { return false; }
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (group__counts(member)) { return false; }
    }
    return true;
}

static bool is_supported(const struct group__group *group, const struct kafka_join_group_request *asked)
{
    if (asked->protocols_count <= 0 || asked->protocols_count > GROUP_PROTOCOLS_MAX) { return false; }
    if (has_no_voters(group)) { return kafka_text_slice(asked->protocol_type).size_bytes > 0; }
    struct base_slice type = group__protocol_type(group);
    if (type.at == NULL || !group__same(type, asked->protocol_type)) { return false; }
    for (int32_t i = 0; i < asked->protocols_count; i++) {
        if (have_voters(group, ALL_MEMBERS, kafka_text_slice(asked->protocols[i].name))) { return true; }
    }
    return false;
}

static bool is_accepted(const struct groups *groups, const struct group__group *group,
                        const struct group__member *known)
{
    if (group__is_empty(group)) { return true; }
    int64_t members = 0;
    int64_t joined = 0;
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        members += group__counts(member) ? 1 : 0;
        joined += group__counts(member) && member->join != NULL ? 1 : 0;
    }
    bool is_member = known != NULL && group__counts(known);
    if (group->is_preparing) { return (is_member && known->join != NULL) || joined < groups->config.size_max; }
    return is_member || members < groups->config.size_max;
}

static struct base_slice asked_instance(const struct group__request *request)
{
    return kafka_text_slice(((const struct kafka_join_group_request *)request->ask.request)->group_instance_id);
}

/* What is kept of it when it is committed. The instance: of the member, which keeps it whether it says so again or not. */
static size_t asked_data_bytes(const struct group__request *request, struct base_slice instance)
{
    const struct kafka_join_group_request *asked = request->ask.request;
    size_t bytes = sizeof(struct group__data) + request->ask.client_id.size_bytes +
                   request->ask.client_host.size_bytes + instance.size_bytes;
    for (int32_t i = 0; i < asked->protocols_count; i++) {
        bytes += sizeof(struct group__protocol) + kafka_text_slice(asked->protocols[i].name).size_bytes +
                 kafka_bytes_slice(asked->protocols[i].metadata).size_bytes;
    }
    return bytes;
}

static size_t asked_bytes(const struct group__request *request)
{
    return MEMBER_BYTES_FIXED + asked_data_bytes(request, asked_instance(request));
}

/* Of one that has joined, or is committed. */
static size_t data_bytes(const struct group__member *member)
{
    return member->join != NULL ? asked_data_bytes(member->join, group__instance(member))
                                : group__data_bytes(member->data);
}

static size_t member_bytes(const struct group__member *member)
{
    if (member->join == NULL && member->data == NULL) { return 0; }
    return MEMBER_BYTES_FIXED + data_bytes(member) + member->id.size_bytes;
}

/* The member that whoever asks is already, or whose place it would take; NULL: none. */
static const struct group__member *succeeded_by(const struct groups *groups, const struct group__group *group,
                                                const struct kafka_join_group_request *asked)
{
    struct base_slice id = kafka_text_slice(asked->member_id);
    if (id.size_bytes > 0) { return group__member(groups, group, id); }
    bool is_static = !kafka_text_is_null(asked->group_instance_id);
    return is_static ? group__static(groups, group, kafka_text_slice(asked->group_instance_id)) : NULL;
}

/* A generation is one proposal: all its members must fit one. Whoever asks counts with its new words alone. */
static bool fits(const struct groups *groups, const struct group__group *group, const struct group__request *request)
{
    const struct group__member *old = succeeded_by(groups, group, request->ask.request);
    size_t bytes = asked_bytes(request) + (old != NULL ? old->id.size_bytes : 0) + group->id.size_bytes;
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        bytes += member == old ? 0 : member_bytes(member) + group->id.size_bytes;
    }
    return bytes <= groups->config.proposal_bytes_max / 2;
}

/* ---- joining ---------------------------------------------------------------------------------------------------------------- */

/* "name-UUID", as Kafka's own look. Fails BASE_FULL: no memory now. */
static enum base_rc make_member_id(struct groups *groups, struct group__request *request, struct base_slice *id_out)
{
    const struct kafka_join_group_request *asked = request->ask.request;
    bool is_static = !kafka_text_is_null(asked->group_instance_id);
    struct base_slice name = is_static ? kafka_text_slice(asked->group_instance_id) : request->ask.client_id;
    size_t bytes = base_min_size(name.size_bytes, KAFKA_TEXT_BYTES_MAX - GROUP_MEMBER_ID_WORDS);
    struct base_arena *arena = request->ask.arena;
    if (arena->size_bytes - arena->used_bytes < bytes + GROUP_MEMBER_ID_WORDS + GROUP_ANSWER_BYTES / 2) {
        return BASE_FULL;
    }
    char *words = base_arena_take_bytes(arena, bytes + GROUP_MEMBER_ID_WORDS);
    CHECK(words != NULL);
    if (bytes > 0) { memcpy(words, name.at, bytes); }
    uint8_t random[16];
    base_prng_fill(&groups->dice, random, sizeof random);
    random[6] = (uint8_t)((random[6] & 0x0f) | 0x40); /* a version 4 UUID */
    random[8] = (uint8_t)((random[8] & 0x3f) | 0x80);
    static const char digits[] = "0123456789abcdef";
    size_t at = bytes;
    for (size_t i = 0; i < sizeof random; i++) {
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) { words[at++] = '-'; }
        words[at++] = digits[random[i] >> 4];
        words[at++] = digits[random[i] & 0x0f];
    }
    *id_out = base_slice_of(words, at);
    return BASE_OK;
}

static void park(struct groups *groups, struct group__member *member, struct group__request *request)
{
    if (member->join != NULL) { group__join_error(groups, member->join, KAFKA_ERROR_REBALANCE_IN_PROGRESS, true); }
    member->join = request;
    member->is_pending = false;
    group__note_instance(groups, member);
    member->session_ms = ((const struct kafka_join_group_request *)request->ask.request)->session_timeout_ms;
}

/* A new member, or one whose id was given out before. */
static void add(struct groups *groups, struct group__member *member, struct group__request *request)
{
    struct group__group *group = member->group;
    if (group->is_preparing && group->state == GROUP__EMPTY) { group->is_extended = true; }
    park(groups, member, request);
    member->is_new = true;
    group__set_session(groups, member, GROUP__NEW_MEMBER_MS);
    group__prepare_or_complete(groups, group);
}

/* A member that was there joins anew. */
static void rejoin(struct groups *groups, struct group__member *member, struct group__request *request)
{
    park(groups, member, request);
    if (member->is_committed) { group__set_session(groups, member, member->session_ms); }
    group__prepare_or_complete(groups, member->group);
}

/* There is no room for one more: Kafka's word for "not now". */
static void refuse_room(struct groups *groups, struct group__group *group, struct group__request *request)
{
    group__join_error(groups, request, KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE, true);
    group__free_if_nothing(groups, group);
}

static enum group__verdict join_dynamic(struct groups *groups, struct group__group *group,
                                        struct group__request *request)
{
    const struct kafka_join_group_request *asked = request->ask.request;
    struct base_slice id;
    bool has_id = make_member_id(groups, request, &id) == BASE_OK;
    if (!has_id || !group__has_room(groups, 0, 1, 0, 2 * id.size_bytes + 4096)) {
        refuse_room(groups, group, request);
        return GROUP__DONE;
    }
    struct group__member *member = group__member_make(groups, group, id);
    CHECK(member != NULL); /* its room was looked at */
    if (request->ask.version < 4) {
        add(groups, member, request);
        return GROUP__DONE;
    }
    member->is_pending = true;
    member->session_ms = asked->session_timeout_ms;
    group__set_session(groups, member, asked->session_timeout_ms);
    group__join_error(groups, request, KAFKA_ERROR_MEMBER_ID_REQUIRED, false);
    ((struct kafka_join_group_response *)(uintptr_t)request->response)->member_id = kafka_text_of_slice(id);
    return GROUP__DONE;
}

/* ---- the protocol -------------------------------------------------------------------------------------------------------- */

/* Each votes for the first of its protocols that all of them have; most votes win. at == NULL: none. */
static struct base_slice select_protocol(const struct group__group *group, enum electorate who)
{
    struct base_slice names[GROUP_PROTOCOLS_MAX];
    uint32_t votes[GROUP_PROTOCOLS_MAX] = {0};
    uint32_t count = 0;
    const struct group__member *first = group__member_first(group);
    while (first != NULL && !may_vote(first, who)) { first = group__member_next(group, first); }
    for (uint32_t i = 0; first != NULL && i < group__protocols_count(first); i++) {
        struct base_slice name = group__protocol(first, i).name;
        if (have_voters(group, who, name)) { names[count++] = name; }
    }
    for (const struct group__member *member = first; member != NULL && count > 0;
         member = group__member_next(group, member)) {
        if (!may_vote(member, who)) { continue; }
        uint32_t liked = count;
        for (uint32_t k = 0; k < group__protocols_count(member) && liked == count; k++) {
            struct base_slice name = group__protocol(member, k).name;
            for (liked = 0; liked < count && !base_slice_equal(names[liked], name);) { liked += 1; }
        }
        CHECK(liked < count); /* it has every one of them */
        votes[liked] += 1;
    }
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (votes[i] > votes[best]) { best = i; }
    }
    return count == 0 ? base_slice_of(NULL, 0) : names[best];
}

/* ---- static members ------------------------------------------------------------------------------------------------------ */

/* Who comes in the place of another one is not one more, but for the moment that the table has room for. */
static uint32_t members_more(const struct groups *groups, const struct group__member *old)
{
    bool has_place = groups->loading_count == 0 && groups->members.taken_count < groups->members.slots_max;
    return old != NULL && has_place ? 0 : 1;
}

/* A static member of a stable group that comes back under another id takes the old one's place without a rebalance (KIP-345), if
 * the group would still choose its protocol. False: it would not, or there is no room. */
static bool replace(struct groups *groups, struct group__group *group, struct group__member *old,
                    struct group__request *request, struct base_slice id, enum group__verdict *verdict_out)
{
    struct group__log *log = group__log(groups, group->log);
    bool leads = base_slice_equal(group->leader, old->id);
    size_t words_bytes =
        group__bytes_rounded(asked_data_bytes(request, group__instance(old))) + group__text_bytes(old->assignment);
    size_t id_bytes = group__bytes_rounded(id.size_bytes);
    size_t bytes =
        id_bytes + group__more(group__member_words_bytes(old), words_bytes) +
        (leads ? group__text_bytes(group->leader) + group__more(group__text_bytes(group->leader), id_bytes) : 0);
    CHECK(old->join == NULL);
    old->join = request; /* judged, and written, with its new words */
    bool is_same = base_slice_equal(select_protocol(group, ALL_MEMBERS), group->protocol);
    bool may_be = is_same && group__has_room(groups, 0, members_more(groups, old), 0, bytes);
    if (may_be) {
        group__propose_member_gone(groups, log, old); /* its words make room for the new ones */
        group__propose_member(groups, log, old, id, old->assignment);
    }
    old->join = NULL;
    if (!may_be) { return false; }
    struct kafka_group_record record = group__record_of(group);
    if (leads) { record.leader = kafka_text_of_slice(id); }
    record.state_timestamp_ms = groups->wall_ms;
    group__propose_group(groups, log, group, &record);
    *verdict_out = GROUP__FULL;
    if (log->round.is_full) { return true; }
    struct group__member *member = group__member_make(groups, group, id);
    bool is_copied = !leads || group__copy(groups, group->leader, &request->leader_before);
    CHECK(member != NULL && is_copied); /* its room was looked at */
    group__reserve(groups, log, 0, 0, 0, bytes);
    old->is_going = true;
    member->has_synced = true;
    request->member = member;
    request->is_replacing = true;
    group->replacing = request;
    group->is_touched = true;
    group__change(groups, group);
    *verdict_out = GROUP__DONE;
    return true;
}

/* Whoever waits under the old id is told that it is fenced. */
static void fence(struct groups *groups, struct group__member *old)
{
    struct group__group *group = old->group;
    if (old->join != NULL) {
        struct group__request *join = old->join;
        old->join = NULL;
        group__join_error(groups, join, KAFKA_ERROR_FENCED_INSTANCE_ID, true);
    }
    if (old->sync != NULL) {
        struct group__request *sync = old->sync;
        old->sync = NULL;
        group__sync_error(groups, sync, KAFKA_ERROR_FENCED_INSTANCE_ID);
    }
    if (!old->is_committed) {
        group__member_free(groups, old, KAFKA_ERROR_FENCED_INSTANCE_ID);
        return;
    }
    old->is_going = true;
    group__change(groups, group);
}

static enum group__verdict join_static(struct groups *groups, struct group__group *group,
                                       struct group__request *request)
{
    const struct kafka_join_group_request *asked = request->ask.request;
    struct group__log *log = group__log(groups, group->log);
    struct group__member *old = group__static(groups, group, kafka_text_slice(asked->group_instance_id));
    struct base_slice id;
    if (make_member_id(groups, request, &id) != BASE_OK) {
        refuse_room(groups, group, request);
        return GROUP__DONE;
    }
    bool is_stable = group->state == GROUP__STABLE && !group->is_preparing && !group->needs_rebalance;
    enum group__verdict verdict;
    if (old != NULL && is_stable && replace(groups, group, old, request, id, &verdict)) { return verdict; }
    if (!group__has_room(groups, 0, members_more(groups, old), 0, group__bytes_rounded(id.size_bytes))) {
        refuse_room(groups, group, request);
        return GROUP__DONE;
    }
    if (old != NULL && old->is_committed) {
        group__propose_member_gone(groups, log, old);
        if (log->round.is_full) { return GROUP__FULL; }
    }
    struct group__member *member = group__member_make(groups, group, id);
    CHECK(member != NULL); /* its room was looked at */
    if (old != NULL) {
        bool leads = group->heir != NULL ? old == group->heir : base_slice_equal(old->id, group->leader);
        fence(groups, old);
        if (leads) { group->heir = member; }
    }
    add(groups, member, request);
    return GROUP__DONE;
}

static bool is_as_before(const struct group__member *member, const struct kafka_join_group_request *asked)
{
    if (member->data == NULL || member->data->protocols_count != (uint32_t)asked->protocols_count) { return false; }
    for (int32_t i = 0; i < asked->protocols_count; i++) {
        const struct group__protocol *has = &member->data->protocols[i];
        if (!group__same(has->name, asked->protocols[i].name) ||
            !base_slice_equal(has->metadata, kafka_bytes_slice(asked->protocols[i].metadata))) {
            return false;
        }
    }
    return true;
}

static void join_known(struct groups *groups, struct group__group *group, struct group__request *request)
{
    const struct kafka_join_group_request *asked = request->ask.request;
    struct group__member *member = group__member(groups, group, kafka_text_slice(asked->member_id));
    if (member != NULL && member->is_pending) {
        /* An id that was given out is a dynamic member's: Kafka has no better word for one that says it is static. */
        if (kafka_text_is_null(asked->group_instance_id)) {
            add(groups, member, request);
        } else {
            group__join_error(groups, request, KAFKA_ERROR_UNKNOWN_SERVER_ERROR, false);
        }
        return;
    }
    int16_t error = group__validate(groups, group, asked->member_id, asked->group_instance_id, &member);
    if (error != KAFKA_ERROR_NONE) {
        group__join_error(groups, request, error, true);
        return;
    }
    if (group->is_preparing) {
        rejoin(groups, member, request);
        return;
    }
    if (group->state == GROUP__EMPTY) { /* it may be old news: the member begins anew */
        group__join_error(groups, request, KAFKA_ERROR_UNKNOWN_MEMBER_ID, false);
        return;
    }
    /* The leader of a stable group asks for a rebalance by joining; others do when their words are new. Else the answer may have
     * been lost: the group is told as it is. */
    bool leads = base_slice_equal(member->id, group->leader);
    if (is_as_before(member, asked) && !(leads && group->state == GROUP__STABLE)) {
        group__set_session(groups, member, member->session_ms);
        group__answer_from_state(groups, request, member);
        return;
    }
    rejoin(groups, member, request);
}

enum group__verdict group__decide_join(struct groups *groups, struct group__request *request)
{
    const struct kafka_join_group_request *asked = request->ask.request;
    const struct group_config *config = &groups->config;
    bool is_new = kafka_text_slice(asked->member_id).size_bytes == 0;
    if (request->ask.group_id.size_bytes == 0) {
        group__join_error(groups, request, KAFKA_ERROR_INVALID_GROUP_ID, true);
        return GROUP__DONE;
    }
    if (asked->session_timeout_ms < config->session_min_ms || asked->session_timeout_ms > config->session_max_ms) {
        group__join_error(groups, request, KAFKA_ERROR_INVALID_SESSION_TIMEOUT, true);
        return GROUP__DONE;
    }
    struct group__group *group = group__find(groups, request->ask.group_id);
    if (group == NULL) {
        if (!is_new) {
            group__join_error(groups, request, KAFKA_ERROR_UNKNOWN_MEMBER_ID, true);
            return GROUP__DONE;
        }
        bool has_room = group__has_room(groups, 1, 1, 0, 2 * request->ask.group_id.size_bytes + 4096);
        group = has_room ? group__make(groups, request->ask.group_id) : NULL;
        if (group == NULL) {
            group__join_error(groups, request, KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE, true);
            return GROUP__DONE;
        }
    }
    if (group->is_touched) { return GROUP__LATER; }
    struct group__member *known = is_new ? NULL : group__member(groups, group, kafka_text_slice(asked->member_id));
    if (!is_accepted(groups, group, known)) {
        group__join_error(groups, request, KAFKA_ERROR_GROUP_MAX_SIZE_REACHED, false);
        if (known != NULL && known->is_pending) {
            group__member_free(groups, known, KAFKA_ERROR_UNKNOWN_MEMBER_ID);
            group__maybe_complete(groups, group);
        }
        return GROUP__DONE;
    }
    if (!is_supported(group, asked)) {
        group__join_error(groups, request, KAFKA_ERROR_INCONSISTENT_GROUP_PROTOCOL, true);
        group__free_if_nothing(groups, group);
        return GROUP__DONE;
    }
    if (!fits(groups, group,
              request)) { /* Kafka says the same, but to SyncGroup: there it is a record for the first time */
        group__join_error(groups, request, KAFKA_ERROR_UNKNOWN_SERVER_ERROR, false);
        group__free_if_nothing(groups, group);
        return GROUP__DONE;
    }
    if (!is_new) {
        join_known(groups, group, request);
        return GROUP__DONE;
    }
    bool is_static = !kafka_text_is_null(asked->group_instance_id);
    return is_static ? join_static(groups, group, request) : join_dynamic(groups, group, request);
}

/* ---- a new generation ---------------------------------------------------------------------------------------------------------- */

static const struct group__member *elect(const struct group__group *group)
{
    if (group->heir != NULL && group__counts(group->heir) && group->heir->join != NULL) { return group->heir; }
    const struct group__member *first = NULL;
    for (const struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!group__counts(member) || member->join == NULL) { continue; }
        if (base_slice_equal(member->id, group->leader)) { return member; }
        if (first == NULL) { first = member; }
    }
    return first;
}

/* The members that did not join anew go, the leader among them; static ones stay. */
static bool drop_absent(struct group__group *group)
{
    bool is_any = false;
    for (struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!group__counts(member) || stays(member)) { continue; }
        CHECK(member->is_committed); /* else it is here because it has joined */
        member->is_going = true;
        is_any = true;
    }
    return is_any;
}

/* Who stays is written with the generation that a leader begins: without one nothing of them changes. */
static size_t propose_members(struct groups *groups, struct group__log *log, const struct group__group *group,
                              const struct group__member *leader, uint32_t *count_out)
{
    size_t bytes = 0;
    for (struct group__member *member = group__member_first(group); member != NULL;
         member = group__member_next(group, member)) {
        if (!group__counts(member)) { continue; }
        if (!stays(member)) {
            group__propose_member_gone(groups, log, member);
            continue;
        }
        *count_out += 1;
        if (leader == NULL) { continue; }
        bytes += group__more(group__member_words_bytes(member),
                             group__bytes_rounded(data_bytes(member)) + group__bytes_rounded(0));
        group__propose_member(groups, log, member, member->id, base_slice_of(NULL, 0));
    }
    return bytes;
}

/* It could not end: once more a while later, and not at once even if that is what its members ask for. */
static void join_again_later(struct groups *groups, struct group__group *group)
{
    group__set_timer(groups, group, GROUP__JOINING, base_max_i64(group__rebalance_ms(group), JOIN_AGAIN_MS));
}

enum group__verdict group__decide_completion(struct groups *groups, struct group__group *group)
{
    if (group->is_touched) { return GROUP__LATER; }
    struct group__log *log = group__log(groups, group->log);
    struct group__round mark = group__mark(log);
    uint32_t staying = 0;
    const struct group__member *leader = elect(group);
    size_t bytes = propose_members(groups, log, group, leader, &staying);
    if (!group->is_committed && staying == 0) { /* whoever made it is gone, and nothing of it was ever written */
        group->wants_completion = false;
        group->is_preparing = false;
        return GROUP__DONE;
    }
    struct kafka_group_record record;
    kafka_group_record_init(&record);
    record.generation = group->generation == INT32_MAX ? 1 : group->generation + 1; /* as in Java, but never negative */
    record.state_timestamp_ms = groups->wall_ms;
    if (staying == 0) {
        record.protocol_type = group__text(group->protocol_type);
        record.state = GROUP__EMPTY;
    } else if (leader != NULL) {
        struct base_slice protocol = select_protocol(group, STAYING_MEMBERS);
        record.protocol_type = group__text(group__protocol_type(group));
        record.protocol_name = group__text(protocol);
        record.leader = kafka_text_of_slice(leader->id);
        record.state = GROUP__COMPLETING;
        bytes += group__more(group__text_bytes(group->protocol), group__bytes_rounded(protocol.size_bytes)) +
                 group__more(group__text_bytes(group->leader), group__bytes_rounded(leader->id.size_bytes)) +
                 group__more(group__text_bytes(group->protocol_type), group__text_bytes(group__protocol_type(group)));
    }
    bool is_postponed = staying > 0 && leader == NULL; /* static members that are away: nobody could assign */
    if (!is_postponed) { group__propose_group(groups, log, group, &record); }
    if (log->round.is_full) { return GROUP__FULL; }
    if (!group__has_room(groups, 0, 0, 0, bytes)) {
        if (mark.records_count > 0) { return GROUP__FULL; } /* there may be room when those have landed */
        group__rollback(groups, log, mark);
        group__completion_refused(groups, group, KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
        return GROUP__DONE;
    }
    group__reserve(groups, log, 0, 0, 0, bytes);
    group->wants_completion = false;
    if (drop_absent(group) || !is_postponed) { group__change(groups, group); }
    if (is_postponed) {
        join_again_later(groups, group);
        return GROUP__DONE;
    }
    group->is_touched = true;
    group->was_completed = true;
    return GROUP__DONE;
}

/* No proposal can hold it, or the state has no room: whoever waits hears so, and the group is what it was. */
void group__completion_refused(struct groups *groups, struct group__group *group, int16_t error)
{
    group->wants_completion = false;
    for (struct base_link *link = base_list_first(&group->members); link != NULL;) {
        struct group__member *member = BASE_ITEM(link, struct group__member, link);
        link = base_list_next(&group->members, link);
        if (member->join == NULL) { continue; }
        struct group__request *join = member->join;
        member->join = NULL;
        group__join_error(groups, join, error, true);
        if (!member->is_committed) { group__member_free(groups, member, error); }
    }
    join_again_later(groups, group);
    group->is_initial = false;
}
