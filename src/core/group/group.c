/* group.c: requests and rounds: who waits for whom, what is decided together, and what a commit or a failure does.
 *
 * Room    core/group.
 *
 * A REQUEST   WAITING -decided, with records-> PROPOSED -landed-> ANSWERED -pulled-> free
 *             WAITING -decided, without records-> ANSWERED        WAITING -its key is touched-> LATER -landed-> WAITING
 *             WAITING -joins, syncs-> PARKED (at its member) -the group went on-> ANSWERING -built from the state-> ANSWERED
 * A ROUND     of a log takes what is due and what waits, in order, until nothing is left or its block is full; then it is the
 *             log's one outstanding proposal.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group/group__room.h"

#define DICE_OF_MEMBER_IDS 1u
#define RETRY_NS           UINT64_C(10000000)
#define STARVES_NS         UINT64_C(30000000000) /* an answer for want of memory, as a request in the front */
#define SLOTS_A_PIECE      64u
#define AWAY_AGAIN_NS      UINT64_C(10000000000)
#define WAITS_NS           UINT64_C(15000000000) /* for a proposal to land: then it is told to come again */
#define LATE_NS \
    UINT64_C(1000000000) /* a proposal that takes longer has kept who asks waiting for longer than they may know */

/* ---- creation ------------------------------------------------------------------------------------------------------- */

void group_config_default(struct group_config *config)
{
    *config = (struct group_config){.logs_count = 8,
                                    .groups_max = 1024,
                                    .members_max = 2048,
                                    .offsets_max = 16384,
                                    .requests_max = 1024,
                                    .state_bytes = (size_t)4 << 20,
                                    .proposal_bytes = 256 << 10,
                                    .proposal_bytes_max = 2 << 20,
                                    .answer_bytes_max = (size_t)8 << 20,
                                    .size_max = INT32_MAX,
                                    .session_min_ms = 6000,
                                    .session_max_ms = 1800000,
                                    .initial_delay_ms = 3000,
                                    .offset_metadata_max = 4096,
                                    .offsets_retention_ms = INT64_C(10080) * 60000,
                                    .offsets_check_ms = 600000};
}

size_t group_arena_bytes(const struct group_config *config)
{
    size_t each = 64;        /* a map's cells, a heap's place, a pool's link, and alignment */
    size_t of_instance = 24; /* another map's cells */
    return sizeof(struct groups) + config->logs_count * sizeof(struct group__log) +
           GROUP__TABLES * ((size_t)config->groups_max * (sizeof(struct group__group) + each) +
                            (size_t)config->members_max * (sizeof(struct group__member) + each + of_instance) +
                            (size_t)config->offsets_max * (sizeof(struct group__offset) + each)) +
           config->requests_max * (sizeof(struct group__request) + each) +
           group__bytes_arena_bytes(config->state_bytes) + GROUP__SCRATCH_BYTES + 8 * BASE_PAGE_BYTES;
}

static enum base_rc create_tables(struct groups *groups, struct base_arena *arena)
{
    const struct group_config *config = &groups->config;
    uint32_t groups_max = GROUP__TABLES * config->groups_max;
    uint32_t members_max = GROUP__TABLES * config->members_max;
    uint32_t offsets_max = GROUP__TABLES * config->offsets_max;
    if (base_pool_create(arena, sizeof(struct group__group), groups_max, &groups->groups) != BASE_OK ||
        base_pool_create(arena, sizeof(struct group__member), members_max, &groups->members) != BASE_OK ||
        base_pool_create(arena, sizeof(struct group__offset), offsets_max, &groups->offsets) != BASE_OK ||
        base_pool_create(arena, sizeof(struct group__request), config->requests_max, &groups->requests) != BASE_OK ||
        base_map_create(arena, groups_max, &groups->groups_map) != BASE_OK ||
        base_map_create(arena, members_max, &groups->members_map) != BASE_OK ||
        base_map_create(arena, members_max, &groups->instances_map) != BASE_OK ||
        base_map_create(arena, offsets_max, &groups->offsets_map) != BASE_OK ||
        base_heap_create(arena, members_max, &groups->sessions) != BASE_OK) {
        return BASE_FULL;
    }
    return base_heap_create(arena, groups_max, &groups->timers);
}

enum base_rc group_create(struct base_arena *arena, struct base_pages *pages, const struct group_config *config,
                          const struct metadata *image, struct groups **groups_out)
{
    CHECK(config->logs_count > 0 && config->logs_count <= GROUP_LOGS_MAX);
    CHECK(config->proposal_bytes <= config->proposal_bytes_max);
    CHECK(config->groups_max <= INT32_MAX / GROUP__TABLES);
    CHECK(config->members_max <= INT32_MAX / GROUP__TABLES);
    CHECK(config->offsets_max <= INT32_MAX / GROUP__TABLES);
    CHECK(config->proposal_bytes_max <= config->answer_bytes_max); /* a generation's members are told of each other */
    struct groups *groups = base_arena_take_array(arena, 1, sizeof *groups);
    if (groups == NULL) { return BASE_FULL; }
    groups->config = *config;
    groups->pages = pages;
    groups->image = image;
    groups->sweep_ns = UINT64_MAX;
    groups->scratch = base_arena_take(arena, GROUP__SCRATCH_BYTES);
    groups->logs = base_arena_take_array(arena, config->logs_count, sizeof *groups->logs);
    if (groups->scratch == NULL || groups->logs == NULL || create_tables(groups, arena) != BASE_OK ||
        group__bytes_create(arena, config->state_bytes, &groups->bytes) != BASE_OK) {
        return BASE_FULL;
    }
    base_list_init(&groups->beats);
    base_list_init(&groups->reads);
    base_list_init(&groups->answering);
    base_list_init(&groups->answered);
    base_list_init(&groups->refused);
    for (uint32_t i = 0; i < config->logs_count; i++) {
        struct group__log *log = &groups->logs[i];
        base_list_init(&log->waiting);
        base_list_init(&log->later);
        base_list_init(&log->proposed);
        base_list_init(&log->due);
        base_list_init(&log->changed);
    }
    base_prng_init(&groups->dice, config->seed, DICE_OF_MEMBER_IDS);
    *groups_out = groups;
    return BASE_OK;
}

uint32_t group_log_of(struct base_slice group_id, uint32_t logs_count)
{
    return (uint32_t)(base_hash_bytes(group_id.at, group_id.size_bytes, 0) % logs_count);
}

/* ---- answers -------------------------------------------------------------------------------------------------------- */

/* Memory was short: who needs it tries again then, and nobody else waits for that. */
static uint64_t soon(const struct groups *groups) { return base_deadline_ns(groups->now_ns, RETRY_NS); }

struct base_arena *group__answer_arena(struct groups *groups, struct group__request *request, size_t bytes,
                                       struct base_arena *of_block)
{
    CHECK(request->block == NULL);
    struct base_arena *own = request->ask.arena;
    if (own->size_bytes - own->used_bytes >= bytes) { return own; }
    request->is_too_long = bytes > groups->config.answer_bytes_max;
    if (request->is_too_long) { return NULL; }
    request->block = base_pages_take(groups->pages, BASE_CONTROL, bytes);
    if (request->block == NULL) {
        if (request->starves_until_ns == 0) {
            request->starves_until_ns = base_deadline_ns(groups->now_ns, STARVES_NS);
        }
        return NULL;
    }
    request->starves_until_ns = 0;
    base_arena_init(of_block, request->block, bytes);
    return of_block;
}

void group__answer(struct groups *groups, struct group__request *request, const void *response)
{
    request->response = response;
    base_list_push_back(&groups->answered, &request->link);
}

/* What no block will ever hold is not waited for, and nothing is waited for without an end: the blocks may be those of other
 * answers to the same client's question, which go back when it has this one, too. */
static bool answer_nothing(struct groups *groups, struct group__request *request)
{
    bool is_over = request->starves_until_ns != 0 && groups->now_ns >= request->starves_until_ns;
    if (!request->is_too_long && !is_over) { return false; }
    group__drop(groups, &request->leader_before);
    group__answer(groups, request, NULL);
    return true;
}

void group__answer_landed(struct groups *groups, struct group__request *request, const void *response)
{
    request->response = response;
    base_list_push_back(&group__log(groups, request->log)->proposed, &request->link);
}

void group__answer_from_state(struct groups *groups, struct group__request *request, struct group__member *member)
{
    request->group = member->group;
    request->member = member;
    member->group->answers_due += 1;
    group__log(groups, request->log)->answers_due += 1;
    base_list_push_back(&groups->answering, &request->link);
}

static void refuse_later(struct groups *groups, struct group__request *request, int16_t error)
{
    if (request->block != NULL) { base_pages_give(groups->pages, request->block); }
    request->block = NULL;
    group__drop(groups, &request->leader_before);
    base_arena_reset(request->ask.arena, request->arena_mark);
    request->refusal = error;
    base_list_push_back(&groups->refused, &request->link);
}

static void refuse_parked(struct groups *groups, struct group__member *member)
{
    if (member->join != NULL) { refuse_later(groups, member->join, KAFKA_ERROR_NOT_COORDINATOR); }
    if (member->sync != NULL) { refuse_later(groups, member->sync, KAFKA_ERROR_NOT_COORDINATOR); }
    member->join = NULL;
    member->sync = NULL;
}

/* ---- timers --------------------------------------------------------------------------------------------------------- */

void group__due(struct groups *groups, struct group__group *group)
{
    if (!base_link_is_on(&group->due)) { base_list_push_back(&group__log(groups, group->log)->due, &group->due); }
}

void group__change(struct groups *groups, struct group__group *group)
{
    if (!base_link_is_on(&group->changed)) {
        base_list_push_back(&group__log(groups, group->log)->changed, &group->changed);
    }
}

static uint64_t deadline(const struct groups *groups, int64_t delay_ms)
{
    return base_deadline_ns(groups->now_ns, (uint64_t)base_max_i64(delay_ms, 0) * GROUP__MS);
}

void group__stop_timer(struct groups *groups, struct group__group *group)
{
    if (base_heap_holds(&group->timer)) { base_heap_remove(&groups->timers, &group->timer); }
    group->timer_kind = GROUP__NO_TIMER;
}

void group__set_timer(struct groups *groups, struct group__group *group, enum group__timer kind, int64_t delay_ms)
{
    group__stop_timer(groups, group);
    group->timer_kind = kind;
    enum base_rc rc = base_heap_insert(&groups->timers, &group->timer, deadline(groups, delay_ms));
    CHECK(rc == BASE_OK); /* as many as groups */
}

void group__set_session(struct groups *groups, struct group__member *member, int64_t delay_ms)
{
    if (base_heap_holds(&member->session)) { base_heap_remove(&groups->sessions, &member->session); }
    member->is_expired = false;
    enum base_rc rc = base_heap_insert(&groups->sessions, &member->session, deadline(groups, delay_ms));
    CHECK(rc == BASE_OK); /* as many as members */
}

/* A timer that is late by this much was not late by itself: the node was away (stopped, paused, without a processor), and what its
 * members sent meanwhile is still to be read. It is, before anybody's time is over; but not time and again. */
static bool is_over(struct groups *groups, const struct base_heap_item *item)
{
    if (item == NULL || item->key > groups->now_ns) { return false; }
    if (groups->now_ns - item->key >= LATE_NS && groups->now_ns >= groups->patient_from_ns) {
        groups->patient_until_ns = base_deadline_ns(groups->now_ns, LATE_NS);
        groups->patient_from_ns = base_deadline_ns(groups->now_ns, AWAY_AGAIN_NS);
    }
    return groups->now_ns >= groups->patient_until_ns;
}

static bool poll_timers(struct groups *groups)
{
    if (groups->is_draining) { return false; }
    struct base_heap_item *item = base_heap_first(&groups->sessions);
    if (is_over(groups, item)) {
        base_heap_remove(&groups->sessions, item);
        group__session_ended(groups, BASE_ITEM(item, struct group__member, session));
        return true;
    }
    item = base_heap_first(&groups->timers);
    if (is_over(groups, item)) {
        base_heap_remove(&groups->timers, item);
        group__timer_ended(groups, BASE_ITEM(item, struct group__group, timer));
        return true;
    }
    if (groups->sweep_ns > groups->now_ns) { return false; }
    groups->sweep_ns = base_deadline_ns(groups->now_ns, groups->config.offsets_check_ms * GROUP__MS);
    for (uint32_t i = 0; i < groups->config.logs_count; i++) {
        struct group__log *log = &groups->logs[i];
        bool goes_on =
            log->is_sweeping && !log->is_sweep_of_topics; /* it comes to its end first, however often it is due */
        if (log->state != GROUP__LEADING || goes_on) { continue; }
        log->is_sweeping = true;
        log->is_sweep_of_topics = false;
        log->sweep_cursor = 0;
    }
    return true;
}

/* ---- deciding ------------------------------------------------------------------------------------------------------- */

static bool is_read(enum group_kind kind)
{
    return kind == GROUP_FETCH || kind == GROUP_DESCRIBE || kind == GROUP_LIST;
}

/* Whether nothing that was asked of the log is still to be seen. */
static bool is_all_seen(const struct group__log *log)
{
    return !log->is_outstanding && log->round.records_count == 0 && base_list_is_empty(&log->waiting);
}

enum base_rc group_submit(struct groups *groups, const struct group_request *ask)
{
    group__wake(groups);
    uint32_t index = base_pool_take(&groups->requests);
    if (index == BASE_POOL_NONE) { return BASE_FULL; }
    struct group__request *request = base_pool_at(&groups->requests, index);
    *request = (struct group__request){.ask = *ask,
                                       .log = group_log_of(ask->group_id, groups->config.logs_count),
                                       .arena_mark = base_arena_mark(ask->arena)};
    if (ask->refusal != KAFKA_ERROR_NONE) {
        refuse_later(groups, request, ask->refusal);
        return BASE_OK;
    }
    struct group__log *log = group__log(groups, request->log);
    request->ask.is_ordered = ask->is_ordered && !is_all_seen(log);
    struct base_list *list = is_read(ask->kind) && !request->ask.is_ordered ? &groups->reads : &log->waiting;
    base_list_push_back(ask->kind == GROUP_HEARTBEAT ? &groups->beats : list, &request->link);
    return BASE_OK;
}

static int16_t log_error(const struct groups *groups, const struct group__log *log)
{
    if (groups->is_draining || log->state == GROUP__REFUSING) { return KAFKA_ERROR_NOT_COORDINATOR; }
    return log->state == GROUP__LEADING ? KAFKA_ERROR_NONE : KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS;
}

/* What can be said of any request before its kind is looked at. */
static int16_t common_error(const struct groups *groups, const struct group__request *request)
{
    if (request->ask.kind == GROUP_LIST) {
        int16_t error = groups->is_draining ? KAFKA_ERROR_NOT_COORDINATOR : KAFKA_ERROR_NONE;
        for (uint32_t i = 0; i < groups->config.logs_count && error == KAFKA_ERROR_NONE; i++) {
            const struct group__log *log = &groups->logs[i];
            bool is_loading = log->state == GROUP__TAKING_OVER || (log->state == GROUP__LOADING && log->is_awaited);
            if (is_loading) { error = KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS; }
        }
        return error;
    }
    return log_error(groups, &groups->logs[request->log]);
}

static enum group__verdict decide(struct groups *groups, struct group__request *request)
{
    int16_t error = common_error(groups, request);
    if (error != KAFKA_ERROR_NONE) {
        refuse_later(groups, request, error);
        return GROUP__DONE;
    }
    switch (request->ask.kind) {
    case GROUP_JOIN: return group__decide_join(groups, request);
    case GROUP_SYNC: return group__decide_sync(groups, request);
    case GROUP_HEARTBEAT: return group__decide_heartbeat(groups, request);
    case GROUP_LEAVE: return group__decide_leave(groups, request);
    case GROUP_COMMIT: return group__decide_commit(groups, request);
    case GROUP_OFFSET_DELETE: return group__decide_offset_delete(groups, request);
    case GROUP_DELETE: return group__decide_delete(groups, request);
    case GROUP_FETCH: return group__decide_fetch(groups, request);
    case GROUP_DESCRIBE: return group__decide_describe(groups, request);
    case GROUP_LIST: return group__decide_list(groups, request);
    }
    UNREACHABLE();
}

static enum group__verdict decide_due(struct groups *groups, struct group__group *group)
{
    if (group->is_touched) { return GROUP__LATER; }
    if (!group->has_expired) { return group->wants_completion ? group__decide_completion(groups, group) : GROUP__DONE; }
    enum group__verdict verdict = group__decide_expired(groups, group);
    /* The next decision is one of its own: where the round has no room for that, this one stays in it. */
    if (verdict == GROUP__DONE && group->wants_completion) { group__due(groups, group); }
    return verdict;
}

static bool begin_round(struct groups *groups, struct group__log *log)
{
    struct group__round *round = &log->round;
    if (round->block != NULL) { return true; }
    size_t bytes = log->next_block_bytes != 0 ? log->next_block_bytes : groups->config.proposal_bytes;
    uint8_t *block = base_pages_take(groups->pages, BASE_CONTROL, bytes);
    if (block == NULL) {
        log->retry_ns = soon(groups);
        return false;
    }
    *round = (struct group__round){.block = block, .block_bytes = bytes, .bytes_at = bytes};
    return true;
}

static void end_round(struct groups *groups, struct group__log *log)
{
    uint8_t *block = log->round.block;
    group__rollback(groups, log, (struct group__round){.block = NULL});
    log->next_block_bytes = 0;
    if (block != NULL) { base_pages_give(groups->pages, block); }
}

static void propose_round(struct groups *groups, uint32_t log_index, struct group_out *item_out)
{
    struct group__log *log = &groups->logs[log_index];
    log->is_outstanding = true;
    log->proposed_ns = groups->now_ns;
    groups->outstanding_count += 1;
    groups->proposals += 1;
    *item_out = (struct group_out){.kind = GROUP_OUT_PROPOSE,
                                   .log = log_index,
                                   .records = (const struct group_record *)(const void *)log->round.block,
                                   .records_count = log->round.records_count,
                                   .is_snapshot = log->is_snapshot_piece,
                                   .is_snapshot_end = log->is_snapshot_piece && !log->is_snapshotting};
}

/* The round has no room for a decision. True: it is proposed as it is, or made anew and larger; false: none is large enough. */
static bool make_room(struct groups *groups, uint32_t log_index, struct group_out *item_out)
{
    struct group__log *log = &groups->logs[log_index];
    if (log->round.records_count > 0) {
        propose_round(groups, log_index, item_out);
        return true;
    }
    size_t bytes = log->round.block_bytes;
    end_round(groups, log);
    if (bytes >= groups->config.proposal_bytes_max) { return false; }
    log->next_block_bytes = base_min_size(bytes * 4, groups->config.proposal_bytes_max);
    return true;
}

/* Kafka's words for what is larger than a record may be. */
static int16_t too_large_error(enum group_kind kind)
{
    return kind == GROUP_COMMIT ? KAFKA_ERROR_INVALID_COMMIT_OFFSET_SIZE : KAFKA_ERROR_UNKNOWN_SERVER_ERROR;
}

static void refuse_too_large(struct groups *groups, struct group__request *request)
{
    int16_t error = too_large_error(request->ask.kind);
    refuse_later(groups, request, error);
    if (request->ask.kind != GROUP_SYNC) { return; }
    struct group__group *group = group__find(groups, request->ask.group_id);
    CHECK(group != NULL); /* it was its leader's */
    group__assignment_refused(groups, group, error);
}

static void poll_due(struct groups *groups, uint32_t log_index, struct group_out *item_out)
{
    struct group__log *log = &groups->logs[log_index];
    struct group__group *group = BASE_ITEM(base_list_pop_front(&log->due), struct group__group, due);
    struct group__round mark = group__mark(log);
    enum group__verdict verdict = decide_due(groups, group);
    if (verdict == GROUP__DONE || verdict == GROUP__LATER) { /* later: see group__landed */
        if (verdict == GROUP__DONE) { group__free_if_nothing(groups, group); }
        return;
    }
    group__rollback(groups, log, mark);
    if (verdict == GROUP__FULL && !make_room(groups, log_index, item_out)) {
        group__completion_refused(groups, group, KAFKA_ERROR_UNKNOWN_SERVER_ERROR);
        return;
    }
    base_list_push_front(&log->due, &group->due);
}

/* A group that all have left is to be empty: that is seen at once, and decided before whoever asks about it. */
static bool poll_left(struct groups *groups, uint32_t log_index, struct group_out *item_out)
{
    struct group__log *log = &groups->logs[log_index];
    struct group__request *request = BASE_ITEM(base_list_first(&log->waiting), struct group__request, link);
    struct group__group *group = group__find(groups, request->ask.group_id);
    bool is_due = group != NULL && base_link_is_on(&group->due) && group->wants_completion && !group->is_touched;
    if (!is_due || !group__is_left(group) || log_error(groups, log) != KAFKA_ERROR_NONE) { return false; }
    base_list_remove(&log->due, &group->due);
    base_list_push_front(&log->due, &group->due);
    poll_due(groups, log_index, item_out);
    return true;
}

static void poll_request(struct groups *groups, uint32_t log_index, struct group_out *item_out)
{
    struct group__log *log = &groups->logs[log_index];
    if (poll_left(groups, log_index, item_out)) { return; }
    struct group__request *request = BASE_ITEM(base_list_pop_front(&log->waiting), struct group__request, link);
    struct group__round mark = group__mark(log);
    enum group__verdict verdict = decide(groups, request);
    if (verdict == GROUP__DONE) { return; }
    group__rollback(groups, log, mark);
    if (verdict == GROUP__LATER) {
        if (request->waits_since_ns == 0) { request->waits_since_ns = groups->now_ns; }
        base_list_push_back(&log->later, &request->link);
        return;
    }
    if (request->block != NULL) { base_pages_give(groups->pages, request->block); }
    request->block = NULL;
    base_arena_reset(request->ask.arena, request->arena_mark);
    if (answer_nothing(groups, request)) { return; }
    if (is_read(request->ask.kind)) { /* its turn has come: what it still lacks holds nobody up */
        request->ask.is_ordered = false;
        base_list_push_back(&groups->reads, &request->link);
        return;
    }
    if (verdict == GROUP__STARVED) { log->retry_ns = soon(groups); }
    if (verdict == GROUP__FULL && !make_room(groups, log_index, item_out)) {
        refuse_too_large(groups, request);
        return;
    }
    base_list_push_front(&log->waiting, &request->link);
}

static void poll_snapshot(struct groups *groups, uint32_t log_index, struct group_out *item_out)
{
    struct group__log *log = &groups->logs[log_index];
    for (uint32_t i = 0; i < SLOTS_A_PIECE && log->is_snapshotting && !log->round.is_full; i++) {
        log->is_snapshotting = group__snapshot_next(groups, log_index);
    }
    bool is_full = log->round.is_full;
    log->round.is_full = false;
    if (is_full && log->round.records_count == 0) {
        bool is_larger = make_room(groups, log_index, item_out);
        CHECK(is_larger); /* it was proposed once in a block of that size */
        return;
    }
    log->is_snapshot_piece = true;
    propose_round(groups, log_index, item_out);
}

static void poll_take_over(struct groups *groups, uint32_t log_index)
{
    struct group__log *log = &groups->logs[log_index];
    for (uint32_t i = 0; i < SLOTS_A_PIECE; i++, log->lead_cursor++) {
        if (log->lead_cursor >= groups->groups.fresh) {
            log->state = GROUP__LEADING;
            if (groups->sweep_ns == UINT64_MAX) {
                groups->sweep_ns = base_deadline_ns(groups->now_ns, groups->config.offsets_check_ms * GROUP__MS);
            }
            return;
        }
        if (!base_pool_is_taken(&groups->groups, log->lead_cursor)) { continue; }
        struct group__group *group = base_pool_at(&groups->groups, log->lead_cursor);
        if (group->log == log_index) { group__take_over(groups, group); }
    }
}

/* From the beginning, where the one before has come to its end: it would never, if one that is under way began anew. */
static void sweep_topics(struct group__log *log)
{
    log->is_sweep_wanted = false;
    log->is_sweeping = true;
    log->is_sweep_of_topics = true;
    log->sweep_cursor = 0;
}

static void poll_sweep(struct groups *groups, uint32_t log_index, struct group_out *item_out)
{
    struct group__log *log = &groups->logs[log_index];
    log->is_sweeping = group__sweep(groups, log_index);
    if (!log->is_sweeping && log->is_sweep_wanted) { sweep_topics(log); }
    log->round.swept_count = log->round.records_count;
    if (!log->round.is_full) { return; }
    log->round.is_full = false; /* what went in stays; the sweep goes on from what did not */
    bool is_larger = make_room(groups, log_index, item_out);
    CHECK(is_larger); /* a piece fits the smallest block */
}

/* Who asked while a proposal was on its way to a slow disk was in time: it is heard before it is decided whose session has ended. */
static void look_at_delay(const struct groups *groups, struct group__log *log)
{
    if (log->proposed_ns != 0) {
        log->asks_first = groups->now_ns - log->proposed_ns >= LATE_NS;
        log->proposed_ns = 0;
    }
    log->asks_first = log->asks_first && !base_list_is_empty(&log->waiting);
}

/* One item of a log's work; false: it has none now. */
static bool poll_log(struct groups *groups, uint32_t log_index, struct group_out *item_out)
{
    struct group__log *log = &groups->logs[log_index];
    /* What is to be answered from the state goes first: the state stays as it is until it has been. */
    if (log->is_outstanding || log->answers_due > 0) { return false; }
    look_at_delay(groups, log);
    if (log->state == GROUP__TAKING_OVER) {
        poll_take_over(groups, log_index);
        return true;
    }
    bool is_leading = log->state == GROUP__LEADING && !groups->is_draining;
    bool has_due = is_leading && !base_list_is_empty(&log->due);
    /* What a sweep takes away it judges by what is committed: a commit that the same round has decided it would not see. */
    bool has_sweep = is_leading && log->is_sweeping && log->round.records_count == log->round.swept_count;
    bool has_snapshot = is_leading && log->is_snapshotting;
    bool is_fresh = log->round.records_count == 0;
    if (has_snapshot && is_fresh && log->is_upkeep_turn) { /* else a busy log would never be written anew */
        if (!begin_round(groups, log)) { return false; }
        poll_snapshot(groups, log_index, item_out);
        return true;
    }
    bool is_sweep_first = has_sweep && is_fresh && log->is_upkeep_turn;
    if (has_due || has_sweep || !base_list_is_empty(&log->waiting)) {
        if (!begin_round(groups, log)) { return false; }
        if (is_sweep_first) {
            log->is_upkeep_turn = false;
            poll_sweep(groups, log_index, item_out);
        } else if (has_due && !log->asks_first) {
            poll_due(groups, log_index, item_out);
        } else if (!base_list_is_empty(&log->waiting)) {
            poll_request(groups, log_index, item_out);
        } else {
            poll_sweep(groups, log_index, item_out);
        }
        return true;
    }
    if (log->round.records_count > 0) {
        propose_round(groups, log_index, item_out);
        return true;
    }
    if (log->round.block != NULL) { end_round(groups, log); }
    if (!has_snapshot || !begin_round(groups, log)) { return false; }
    poll_snapshot(groups, log_index, item_out);
    return true;
}

/* Whether poll_log has nothing to look at: asked of every log at each poll, and most of the time true of all. */
static bool is_idle(const struct group__log *log)
{
    if (log->is_outstanding) { return true; }
    if (log->state == GROUP__TAKING_OVER || log->is_sweeping || log->is_snapshotting) { return false; }
    return log->round.records_count == 0 && log->round.block == NULL && base_list_is_empty(&log->due) &&
           base_list_is_empty(&log->waiting);
}

/* While a disk takes nothing, and for as long, clients give up and ask again: each of their requests would have its slot till then, and
 * those that need no disk would find none. So whoever has waited long, and of whom nothing is decided yet, is told to come again. */
static bool poll_late(struct groups *groups, struct group__log *log)
{
    for (struct base_link *link = log->waiting.head.prev; link != &log->waiting.head; link = link->prev) {
        struct group__request *request = BASE_ITEM(link, struct group__request, link);
        if (request->waits_since_ns != 0) { break; } /* and all before it */
        request->waits_since_ns = groups->now_ns;
    }
    struct base_link *link = base_list_first(&log->waiting);
    if (link == NULL) { return false; }
    struct group__request *request = BASE_ITEM(link, struct group__request, link);
    uint64_t until_ns = base_deadline_ns(request->waits_since_ns, WAITS_NS);
    if (groups->now_ns < until_ns) {
        groups->logs_retry_ns = base_min_u64(groups->logs_retry_ns, until_ns);
        return false;
    }
    base_list_remove(&log->waiting, link);
    /* Old clients of Java end with what else there is to say of an OffsetFetch. */
    bool is_fetch = request->ask.kind == GROUP_FETCH;
    refuse_later(groups, request,
                 is_fetch ? KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS : KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    return true;
}

/* In turn; false: none has work now. */
static bool poll_logs(struct groups *groups, struct group_out *item_out)
{
    groups->logs_retry_ns = UINT64_MAX;
    for (uint32_t i = 0; i < groups->config.logs_count; i++) {
        struct group__log *log = &groups->logs[groups->log_cursor];
        if (log->is_outstanding && poll_late(groups, log)) { return true; }
        bool may_try = groups->now_ns >= log->retry_ns;
        if (may_try && !is_idle(log) && poll_log(groups, groups->log_cursor, item_out)) { return true; }
        if (log->retry_ns > groups->now_ns) {
            groups->logs_retry_ns = base_min_u64(groups->logs_retry_ns, log->retry_ns);
        }
        groups->log_cursor = groups->log_cursor + 1 == groups->config.logs_count ? 0 : groups->log_cursor + 1;
    }
    return false;
}

/* ---- polling -------------------------------------------------------------------------------------------------------- */

static void give_answer(struct groups *groups, struct group__request *request, struct group_out *item_out)
{
    *item_out = (struct group_out){.kind = GROUP_OUT_ANSWER,
                                   .log = request->log,
                                   .token = request->ask.token,
                                   .response = request->response,
                                   .block = request->block};
    base_pool_give(&groups->requests, base_pool_index(&groups->requests, request));
}

/* A join or sync that succeeded: what it is told is what the group is now. */
static bool poll_answering(struct groups *groups)
{
    struct base_link *link = base_list_first(&groups->answering);
    if (link == NULL) { return false; }
    struct group__request *request = BASE_ITEM(link, struct group__request, link);
    base_list_remove(&groups->answering, link);
    struct group__group *group = request->group;
    bool is_join = request->ask.kind == GROUP_JOIN;
    bool is_built = is_join ? group__join_answer(groups, request) : group__sync_answer(groups, request);
    if (is_built || answer_nothing(groups, request)) {
        group->answers_due -= 1;
        group__log(groups, request->log)->answers_due -= 1;
        return true;
    }
    groups->answers_retry_ns = soon(groups);
    base_list_push_back(&groups->answering, link); /* others may need less */
    return false;
}

static bool poll_refused(struct groups *groups)
{
    struct base_link *link = base_list_first(&groups->refused);
    if (link == NULL) { return false; }
    struct group__request *request = BASE_ITEM(link, struct group__request, link);
    base_list_remove(&groups->refused, link);
    if (group__refuse(groups, request, request->refusal) || answer_nothing(groups, request)) { return true; }
    groups->answers_retry_ns = soon(groups);
    base_list_push_back(&groups->refused, link);
    return false;
}

static bool poll_beats(struct groups *groups)
{
    struct base_link *link = base_list_pop_front(&groups->beats);
    if (link == NULL) { return false; }
    enum group__verdict verdict = decide(groups, BASE_ITEM(link, struct group__request, link));
    CHECK(verdict == GROUP__DONE);
    return true;
}

static bool poll_reads(struct groups *groups)
{
    struct base_link *link = base_list_first(&groups->reads);
    if (link == NULL) { return false; }
    struct group__request *request = BASE_ITEM(link, struct group__request, link);
    base_list_remove(&groups->reads, link);
    if (decide(groups, request) == GROUP__DONE) { return true; }
    base_arena_reset(request->ask.arena, request->arena_mark);
    if (answer_nothing(groups, request)) { return true; }
    groups->reads_retry_ns = soon(groups);
    base_list_push_back(&groups->reads, link); /* others may need less */
    return false;
}

static bool poll_drain(struct groups *groups)
{
    if (!groups->is_draining || groups->drain_cursor >= groups->members.fresh) { return false; }
    for (uint32_t i = 0; i < SLOTS_A_PIECE && groups->drain_cursor < groups->members.fresh;
         i++, groups->drain_cursor++) {
        if (!base_pool_is_taken(&groups->members, groups->drain_cursor)) { continue; }
        struct group__member *member = base_pool_at(&groups->members, groups->drain_cursor);
        refuse_parked(groups, member);
    }
    return true;
}

void group_poll(struct groups *groups, uint64_t now_ns, int64_t wall_ms, struct group_out *item_out)
{
    groups->now_ns = now_ns;
    groups->wall_ms = wall_ms;
    if (now_ns < groups->idle_until_ns) {
        item_out->kind = GROUP_OUT_NOTHING;
        return;
    }
    *item_out = (struct group_out){.kind = GROUP_OUT_WORKED};
    struct base_link *link = base_list_pop_front(&groups->answered);
    if (link != NULL) {
        give_answer(groups, BASE_ITEM(link, struct group__request, link), item_out);
        return;
    }
    if (poll_timers(groups) || poll_beats(groups)) { return; }
    if (now_ns >= groups->answers_retry_ns && (poll_answering(groups) || poll_refused(groups))) { return; }
    if (poll_drain(groups)) { return; }
    if (now_ns >= groups->reads_retry_ns && poll_reads(groups)) { return; }
    if (poll_logs(groups, item_out)) { return; }
    item_out->kind = GROUP_OUT_NOTHING;
    groups->idle_until_ns =
        group_next_alarm_ns(groups); /* whoever sleeps until then misses nothing, nor does who looks away */
}

uint64_t group_next_alarm_ns(const struct groups *groups)
{
    uint64_t next = UINT64_MAX;
    const uint64_t retries[] = {groups->answers_retry_ns, groups->reads_retry_ns, groups->logs_retry_ns};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(retries); i++) {
        if (retries[i] > groups->now_ns) { next = base_min_u64(next, retries[i]); }
    }
    if (groups->is_draining) { return next; }
    uint64_t timer_ns = base_min_u64(base_heap_first_key(&groups->sessions), base_heap_first_key(&groups->timers));
    next = base_min_u64(next, base_max_u64(timer_ns, groups->patient_until_ns));
    return base_min_u64(next, groups->sweep_ns);
}

/* ---- what a log says ------------------------------------------------------------------------------------------------ */

void group_awaits(struct groups *groups, uint32_t log)
{
    group__wake(groups);
    CHECK(groups->logs[log].state == GROUP__LOADING);
    groups->loading_count += groups->logs[log].is_awaited ? 0 : 1;
    groups->logs[log].is_awaited = true;
}

/* It is led, or never will be. */
static void loaded(struct groups *groups, const struct group__log *log)
{
    if (log->is_awaited && log->state == GROUP__LOADING) { groups->loading_count -= 1; }
}

void group_leads(struct groups *groups, uint32_t log, uint64_t now_ns, int64_t wall_ms)
{
    group__wake(groups);
    CHECK(groups->logs[log].state == GROUP__LOADING);
    groups->now_ns = now_ns;
    groups->wall_ms = wall_ms;
    loaded(groups, &groups->logs[log]);
    groups->logs[log].state = GROUP__TAKING_OVER;
    groups->logs[log].lead_cursor = 0;
}

void group_refuses(struct groups *groups, uint32_t log)
{
    group__wake(groups);
    loaded(groups, &groups->logs[log]);
    groups->logs[log].state = GROUP__REFUSING;
}

bool group_is_leading(const struct groups *groups, uint32_t log)
{
    return groups->logs[log].state == GROUP__LEADING && !groups->is_draining;
}

static void round_over(struct groups *groups, struct group__log *log)
{
    for (struct base_link *link = log->later.head.prev; !base_list_is_empty(&log->later); link = log->later.head.prev) {
        base_list_remove(&log->later, link);
        base_list_push_front(&log->waiting, link);
    }
    log->is_outstanding = false;
    log->is_upkeep_turn = !log->is_snapshot_piece;
    log->is_snapshot_piece = false;
    groups->outstanding_count -= 1;
    end_round(groups, log);
}

void group_committed(struct groups *groups, uint32_t log_index)
{
    group__wake(groups);
    struct group__log *log = &groups->logs[log_index];
    CHECK(log->is_outstanding);
    const struct group_record *records = (const struct group_record *)(const void *)log->round.block;
    for (uint32_t i = 0; i < log->round.records_count && !log->is_snapshot_piece; i++) {
        enum base_rc rc = group_apply(groups, log_index, records[i].value);
        CHECK(rc == BASE_OK); /* limits were looked at when it was decided; applying can't be refused */
    }
    for (struct base_link *link; (link = base_list_pop_front(&log->proposed)) != NULL;) {
        base_list_push_back(&groups->answered, link);
    }
    round_over(groups, log);
    for (struct base_link *link; (link = base_list_pop_front(&log->changed)) != NULL;) {
        group__landed(groups, BASE_ITEM(link, struct group__group, changed));
    }
    CHECK_SLOW(groups->config.is_check_slow, group_is_sound(groups));
}

void group_failed(struct groups *groups, uint32_t log_index)
{
    group__wake(groups);
    struct group__log *log = &groups->logs[log_index];
    CHECK(log->is_outstanding);
    log->state = GROUP__REFUSING;
    for (struct base_link *link; (link = base_list_pop_front(&log->proposed)) != NULL;) {
        refuse_later(groups, BASE_ITEM(link, struct group__request, link), KAFKA_ERROR_NOT_COORDINATOR);
    }
    round_over(groups, log);
    for (struct base_link *link; (link = base_list_pop_front(&log->changed)) != NULL;) {
        struct group__group *group = BASE_ITEM(link, struct group__group, changed);
        if (group->replacing != NULL) { refuse_later(groups, group->replacing, KAFKA_ERROR_NOT_COORDINATOR); }
        group->replacing = NULL;
    }
    while (base_list_pop_front(&log->due) != NULL) {}
    for (uint32_t i = 0; i < groups->members.fresh;
         i++) { /* once in a life: nobody of this log is waited for any more */
        if (!base_pool_is_taken(&groups->members, i)) { continue; }
        struct group__member *member = base_pool_at(&groups->members, i);
        if (member->group->log != log_index) { continue; }
        if (base_heap_holds(&member->session)) { base_heap_remove(&groups->sessions, &member->session); }
        group__stop_timer(groups, member->group);
        refuse_parked(groups, member);
    }
}

void group_snapshot(struct groups *groups, uint32_t log)
{
    group__wake(groups);
    groups->logs[log].is_snapshotting = true;
    groups->logs[log].snapshot_stage = 0;
    groups->logs[log].snapshot_cursor = 0;
}

void group_drain(struct groups *groups)
{
    group__wake(groups);
    groups->is_draining = true;
}

void group_topics_changed(struct groups *groups)
{
    group__wake(groups);
    for (uint32_t i = 0; i < groups->config.logs_count; i++) {
        struct group__log *log = &groups->logs[i];
        if (log->state == GROUP__LOADING || log->state == GROUP__REFUSING) { continue; }
        log->is_sweep_wanted = true;
        if (!log->is_sweeping) { sweep_topics(log); }
    }
}
