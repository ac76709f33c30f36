/* broker__coordinator.c: the coordinators that live on this shard: their logs, loaded at the start, appended to, written anew.
 *
 * LOG     __coordinator-K, one of weir.coordinator.groups, on the shard that its id hashes to; no file before its first record.
 * START   once the metadata has been applied here, each log is read from its start and its records are applied; then it leads.
 *         Until then its groups' requests get COORDINATOR_LOAD_IN_PROGRESS.
 * LIFE    a proposal is one batch; it is committed when it is synced. When the log has grown enough its state is written at its
 *         end once more, in pieces between the proposals, and its start moves to the first of them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/join_group.h"

#define AGAIN_NS              UINT64_C(500000000) /* after a write that failed */
#define RETRY_NS              UINT64_C(10000000)
#define TELL_NS               UINT64_C(60000000000)
#define LOAD_TRIES_MAX        20u /* of reads that fail */
#define STATE_BYTES_OF_REGION 64  /* a part of the shard's memory is for texts of groups */
#define REGION_BYTES_AMPLE    ((size_t)1 << 30)

bool is_coordinator_part(struct base_part part) { return base_uuid_equal(part.topic, coordinator_part(0).topic); }

/* ---- creation --------------------------------------------------------------------------------------------------------- */

/* In proportion to the region, as the other tables: what is not used of it costs address space only. */
static struct group_config config_of(const struct broker_config *broker, size_t region_bytes, uint32_t requests)
{
    struct group_config config;
    group_config_default(&config);
    /* The tables hold twice the limits: where memory is short these are half, or connections and partitions would have less. */
    size_t all_bytes = region_bytes;
    if (all_bytes < REGION_BYTES_AMPLE) { region_bytes /= 2; }
    uint64_t groups = base_min_u64(base_max_u64(region_bytes / 32768, 256), 65536);
    if (broker->groups_max > 0) { groups = broker->groups_max; }
    config.logs_count = broker->coordinator_groups;
    config.groups_max = (uint32_t)groups;
    config.members_max = (uint32_t)(2 * groups);
    config.offsets_max = (uint32_t)base_min_u64(base_max_u64(region_bytes / 8192, 1024), 1 << 20);
    if (broker->group_members_max > 0) { config.members_max = broker->group_members_max; }
    if (broker->group_offsets_max > 0) { config.offsets_max = broker->group_offsets_max; }
    /* Every front may have all its requests here; one more is refused. */
    config.requests_max = (uint32_t)base_min_u64((uint64_t)requests * broker->shards, 32768);
    config.state_bytes = base_max_u64(region_bytes / STATE_BYTES_OF_REGION / BASE_PAGE_BYTES, 64) * BASE_PAGE_BYTES;
    config.state_bytes = (size_t)few_or(broker->few.group_text_bytes, config.state_bytes);
    config.proposal_bytes = (uint32_t)base_min_u64(256 << 10, all_bytes / 256);
    config.proposal_bytes_max = (uint32_t)base_min_u64(8 << 20, all_bytes / 64);
    config.answer_bytes_max = all_bytes / 8;
    /* All members of a group join at once, and all of them may have connected to one front. */
    config.size_max = (int32_t)base_min_u64((uint64_t)broker->group_size_max, groups_patient_max(GROUP_JOIN, requests));
    config.session_min_ms = broker->group_session_min_ms;
    config.session_max_ms = broker->group_session_max_ms;
    config.initial_delay_ms = broker->group_initial_delay_ms;
    config.offset_metadata_max = broker->offset_metadata_max;
    config.offsets_retention_ms = (int64_t)broker->offsets_retention_minutes * 60000;
    config.offsets_check_ms = broker->offsets_check_ms;
    config.seed = broker->seed;
    config.is_check_slow = broker->is_check_slow;
    return config;
}

enum base_rc coordinator_create(struct broker *broker, struct base_arena *arena, size_t region_bytes, uint32_t requests)
{
    struct group_config config = config_of(&broker->config, region_bytes, requests);
    broker->coordinators = base_arena_take_array(arena, config.logs_count, sizeof *broker->coordinators);
    broker->coordinator_next = UINT32_MAX;
    if (broker->coordinators == NULL ||
        base_pool_create(arena, sizeof(struct group_op), config.requests_max, &broker->group_ops) != BASE_OK) {
        return BASE_FULL;
    }
    enum base_rc rc = group_create(arena, broker->pages, &config, broker->image, &broker->groups);
    if (rc != BASE_OK) { return rc; }
    for (uint32_t i = 0; i < config.logs_count;
         i++) { /* from the start: another shard may ask before this one serves */
        if (shard_of(broker, coordinator_part(i)) == broker->config.shard) { group_awaits(broker->groups, i); }
    }
    return BASE_OK;
}

const struct groups *broker_groups(const struct broker *broker) { return broker->groups; }

/* ---- loading ------------------------------------------------------------------------------------------------------------ */

void coordinator_begin(struct broker *broker) { broker->coordinator_next = 0; }

static void say(const char *words, uint32_t number, enum port_level level, struct port_out *out)
{
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "coordinator ");
    base_text_add_i64(&text, number);
    base_text_add(&text, words);
    port_log_end(out, level, "broker", &text);
}

static void refuse(struct broker *broker, const char *words, struct port_out *out)
{
    say(words, broker->coordinator_next, PORT_ERROR, out);
    group_refuses(broker->groups, broker->coordinator_next);
    broker->coordinator_next += 1;
    broker->coordinator_tries = 0;
}

/* What fails for want of memory or descriptors, or once, may go well in a while: its groups are loaded the longer. */
static void try_again(struct broker *broker, const char *words, struct port_out *out)
{
    if (broker->coordinator_tries == LOAD_TRIES_MAX) {
        refuse(broker, words, out);
        return;
    }
    broker->coordinator_tries += 1;
    broker->coordinator_load_ns = base_deadline_ns(broker->now_ns, AGAIN_NS);
}

static void open_log(struct broker *broker, uint32_t number, struct port_out *out)
{
    if (own_log_open(broker, coordinator_part(number), &broker->coordinators[number].log) != BASE_OK) {
        try_again(broker, ": no room for its log", out);
    }
}

static void read_more(struct broker *broker, uint32_t number, struct port_out *out)
{
    struct coordinator *coordinator = &broker->coordinators[number];
    struct plog_view view;
    plog_view(broker->plog, coordinator->log.ref, &view);
    if (view.is_failed || view.is_damaged) {
        refuse(broker, ": its log is damaged; its groups can't be served", out);
        return;
    }
    if (coordinator->log.next >= view.watermark) {
        group_leads(broker->groups, number, broker->now_ns, broker->wall_ms);
        broker->coordinator_next += 1;
        broker->coordinator_tries = 0;
        return;
    }
    broker->is_coordinator_reading = own_log_read(broker, &coordinator->log, BACK_GROUP_READ, number, out) == BASE_OK;
    if (!broker->is_coordinator_reading) { broker->coordinator_load_ns = base_deadline_ns(broker->now_ns, RETRY_NS); }
}

void coordinator_read(struct broker *broker, const struct plog_out *answer, struct port_out *out)
{
    broker->is_coordinator_reading = false;
    if (answer->result == PLOG_BUSY) {
        broker->coordinator_load_ns = base_deadline_ns(broker->now_ns, RETRY_NS);
        return;
    }
    if (answer->result != PLOG_OK || answer->size_bytes == 0) {
        if (answer->block != NULL) { base_pages_give(broker->pages, answer->block); }
        static const char words[] = ": its log can't be read; its groups can't be served";
        if (answer->result == PLOG_STORAGE) {
            try_again(broker, words, out);
        } else {
            refuse(broker, words, out);
        }
        return;
    }
    broker->coordinator_block = answer->block;
    broker->coordinator_walk =
        (struct applying){.rest = base_slice_of(answer->block, answer->size_bytes), .offset_end = -1};
}

/* One record of what was read. */
static void apply_one(struct broker *broker, uint32_t number, struct port_out *out)
{
    struct rec_record record;
    if (records_next(&broker->coordinator_walk, &record)) {
        enum base_rc rc = group_apply(broker->groups, number, record.value.bytes);
        if (rc == BASE_OK) { return; }
        base_pages_give(broker->pages, broker->coordinator_block);
        broker->coordinator_block = NULL;
        refuse(broker,
               rc == BASE_FULL ? ": it holds more than the configured limits allow; its groups can't be served"
                               : ": its log is damaged, or newer than this program; its groups can't be served",
               out);
        return;
    }
    base_pages_give(broker->pages, broker->coordinator_block);
    broker->coordinator_block = NULL;
    struct coordinator *coordinator = &broker->coordinators[number];
    if (broker->coordinator_walk.offset_end <= coordinator->log.next) {
        refuse(broker, ": its log does not go on; its groups can't be served", out);
        return;
    }
    coordinator->log.next = broker->coordinator_walk.offset_end;
}

static bool load_poll(struct broker *broker, struct port_out *out)
{
    uint32_t number = broker->coordinator_next;
    if (number >= broker->config.coordinator_groups || broker->is_coordinator_reading) { return false; }
    if (shard_of(broker, coordinator_part(number)) != broker->config.shard) {
        broker->coordinator_next += 1;
        return true;
    }
    if (broker->coordinator_block != NULL) {
        apply_one(broker, number, out);
        return true;
    }
    if (broker->now_ns < broker->coordinator_load_ns) { return false; }
    broker->coordinator_load_ns = 0;
    if (broker->coordinators[number].log.ref.generation == 0) {
        open_log(broker, number, out);
        return true;
    }
    read_more(broker, number, out);
    return true;
}

/* ---- committing --------------------------------------------------------------------------------------------------------- */

static size_t batch_bytes(const struct group_out *proposal)
{
    size_t bytes = REC_HEADER_BYTES;
    for (uint32_t i = 0; i < proposal->records_count; i++) {
        bytes += rec_build_record_bytes_max(rec_null(), rec_value_of(proposal->records[i].value), NULL, 0);
    }
    return bytes;
}

/* False: no room, and nothing has changed. */
static bool append(struct broker *broker, uint32_t number, struct port_out *out)
{
    struct coordinator *coordinator = &broker->coordinators[number];
    const struct group_out *proposal = &coordinator->proposal;
    size_t bytes = batch_bytes(proposal);
    coordinator->block = base_pages_take(broker->pages, BASE_CONTROL, bytes);
    if (coordinator->block == NULL) { return false; }
    struct rec_build build;
    enum base_rc rc = rec_build_init(&build, coordinator->block, bytes, rec_build_plain());
    for (uint32_t i = 0; rc == BASE_OK && i < proposal->records_count; i++) {
        rc = rec_build_add(&build, broker->wall_ms, rec_null(), rec_value_of(proposal->records[i].value), NULL, 0);
    }
    CHECK(rc == BASE_OK);
    rc = own_log_append(broker, &coordinator->log, BACK_GROUP_APPEND, number, rec_build_end(&build), out);
    if (rc == BASE_OK) { return true; }
    base_pages_give(broker->pages, coordinator->block);
    coordinator->block = NULL;
    return false;
}

static void move_start(struct broker *broker, uint32_t number, struct port_out *out)
{
    struct coordinator *coordinator = &broker->coordinators[number];
    coordinator->is_snapshotting = false;
    own_log_written_anew(broker, &coordinator->log, &coordinator->grown, coordinator->snapshot_bytes);
    own_log_move_start(broker, &coordinator->log, BACK_GROUP_START, coordinator->snapshot_offset, out);
}

static void snapshot_if_due(struct broker *broker, uint32_t number)
{
    struct coordinator *coordinator = &broker->coordinators[number];
    if (coordinator->is_snapshotting || broker->is_disk_failed || broker->is_draining) { return; }
    uint64_t by_bytes = broker->config.coordinator_grown_bytes;
    if (!own_log_has_grown(broker, &coordinator->log, &coordinator->grown, by_bytes)) { return; }
    struct plog_view view;
    plog_view(broker->plog, coordinator->log.ref, &view);
    coordinator->is_snapshotting = true;
    coordinator->snapshot_offset = view.offset_end;
    coordinator->snapshot_bytes = 0;
    group_snapshot(broker->groups, number);
}

void coordinator_written(struct broker *broker, uint32_t number, enum plog_result result, struct port_out *out)
{
    struct coordinator *coordinator = &broker->coordinators[number];
    struct group_out done = coordinator->proposal;
    base_pages_give(broker->pages, coordinator->block);
    coordinator->block = NULL;
    struct plog_view view;
    plog_view(broker->plog, coordinator->log.ref, &view);
    /* A write that failed has left nothing of it: it is tried again until the disk has room, or gives up. While the disk is off line
     * nobody knows what became of it, and nothing more is decided; a node that stops waits for no disk. */
    if (result != PLOG_OK && !view.is_failed && !broker->is_draining) {
        coordinator->has_proposal = true;
        broker->coordinator_retry_ns = base_deadline_ns(broker->now_ns, AGAIN_NS);
        return;
    }
    if (result != PLOG_OK) {
        say(": a change could not be made durable; its groups are not served until a restart", number, PORT_ERROR, out);
        group_failed(broker->groups, number);
        return;
    }
    if (done.is_snapshot) { coordinator->snapshot_bytes += batch_bytes(&done); }
    group_committed(broker->groups, number);
    if (done.is_snapshot_end) { move_start(broker, number, out); }
    snapshot_if_due(broker, number);
}

/* A proposal that finds no memory waits for it; nothing more of that log is decided until it has landed. */
static void propose(struct broker *broker, uint32_t number, struct port_out *out)
{
    struct coordinator *coordinator = &broker->coordinators[number];
    if (coordinator->proposal.records_count == 0) { /* the last piece of a snapshot may be empty */
        bool is_end = coordinator->proposal.is_snapshot_end;
        group_committed(broker->groups, number);
        if (is_end) { move_start(broker, number, out); }
        return;
    }
    coordinator->has_proposal = !append(broker, number, out);
    if (coordinator->has_proposal) { broker->coordinator_retry_ns = base_deadline_ns(broker->now_ns, RETRY_NS); }
}

static bool retry_proposals(struct broker *broker, struct port_out *out)
{
    if (broker->coordinator_retry_ns == 0 || broker->now_ns < broker->coordinator_retry_ns) { return false; }
    broker->coordinator_retry_ns = 0;
    for (uint32_t i = 0; i < broker->config.coordinator_groups; i++) {
        if (broker->coordinators[i].has_proposal) { propose(broker, i, out); }
    }
    return true;
}

uint64_t coordinator_next_alarm_ns(const struct broker *broker)
{
    uint64_t next = group_next_alarm_ns(broker->groups);
    if (broker->coordinator_load_ns != 0) { next = base_min_u64(next, broker->coordinator_load_ns); }
    return broker->coordinator_retry_ns == 0 ? next : base_min_u64(next, broker->coordinator_retry_ns);
}

/* ---- questions and answers ------------------------------------------------------------------------------------------------ */

static void answer(struct broker *broker, const struct group_loan *loan, struct port_out *out)
{
    struct port_message message;
    message_begin(&message, loan->asker.shard, MSG_GROUPED);
    put_asker(&message, 0, loan->asker);
    message_send(broker, &message, out);
}

void coordinator_message(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    if (message->kind == MSG_GROUP_GIVE) {
        base_pages_give(broker->pages, message->lent);
        return;
    }
    CHECK(message->kind == MSG_GROUP);
    struct group_loan *loan = message->lent;
    uint32_t index = base_pool_take(&broker->group_ops);
    if (index != BASE_POOL_NONE) {
        ((struct group_op *)base_pool_at(&broker->group_ops, index))->loan = loan;
        loan->request.token = (uint64_t)index + 1;
        loan->request.arena = &loan->arena;
        if (group_submit(broker->groups, &loan->request) == BASE_OK) { return; }
        base_pool_give(&broker->group_ops, index);
    }
    loan->response = NULL;
    answer(broker, loan, out);
}

/* Somebody was refused for want of room: which limit it was, not more often than TELL_NS. */
static void tell_refusals(struct broker *broker, struct port_out *out)
{
    static const struct {
        const char *what;
        const char *setting;
    } words[GROUP_LIMITS] = {[GROUP_LIMIT_GROUPS] = {"groups", "weir.groups.max"},
                             [GROUP_LIMIT_MEMBERS] = {"members of groups", "weir.group.members.max"},
                             [GROUP_LIMIT_OFFSETS] = {"offsets of groups", "weir.group.offsets.max"},
                             [GROUP_LIMIT_BYTES] = {"words of groups", "weir.memory.max.bytes"}};
    const uint64_t *refused = group_refused(broker->groups);
    if (memcmp(refused, broker->group_refused, sizeof broker->group_refused) == 0) { return; }
    for (uint32_t i = 0; i < GROUP_LIMITS; i++) {
        bool is_told = refused[i] == broker->group_refused[i] || broker->now_ns < broker->group_told_ns[i];
        if (is_told) { continue; }
        struct base_text text;
        port_log_begin(out, &text);
        base_text_add(&text, "no room for more ");
        base_text_add(&text, words[i].what);
        base_text_add(&text, " on this shard: ");
        base_text_add_i64(&text, (int64_t)(refused[i] - broker->group_refused[i]));
        base_text_add(&text, " requests get COORDINATOR_NOT_AVAILABLE; see ");
        base_text_add(&text, words[i].setting);
        port_log_end(out, PORT_WARN, "broker", &text);
        broker->group_refused[i] = refused[i];
        broker->group_told_ns[i] = base_deadline_ns(broker->now_ns, TELL_NS);
    }
}

/* Of each generation one line: its leader is answered. */
static void tell_join(const struct group_request *request, const struct kafka_join_group_response *joined,
                      struct port_out *out)
{
    bool is_leader = joined != NULL && joined->error_code == KAFKA_ERROR_NONE &&
                     base_slice_equal(kafka_text_slice(joined->leader), kafka_text_slice(joined->member_id));
    if (!is_leader) { return; }
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "group=");
    base_text_add_slice(&text, request->group_id);
    base_text_add(&text, ": generation ");
    base_text_add_i64(&text, joined->generation_id);
    base_text_add(&text, " with ");
    base_text_add_i64(&text, joined->members_count);
    base_text_add(&text, " members");
    port_log_end(out, PORT_DEBUG, "group", &text);
}

bool coordinator_poll(struct broker *broker, struct port_out *out)
{
    if (retry_proposals(broker, out) || load_poll(broker, out)) { return true; }
    struct group_out item;
    group_poll(broker->groups, broker->now_ns, broker->wall_ms, &item);
    switch (item.kind) {
    case GROUP_OUT_NOTHING: tell_refusals(broker, out); return false;
    case GROUP_OUT_WORKED: return true;
    case GROUP_OUT_PROPOSE:
        broker->coordinators[item.log].proposal = item;
        propose(broker, item.log, out);
        return true;
    case GROUP_OUT_ANSWER: {
        uint32_t index = (uint32_t)(item.token - 1);
        struct group_loan *loan = ((struct group_op *)base_pool_at(&broker->group_ops, index))->loan;
        base_pool_give(&broker->group_ops, index);
        loan->response = item.response;
        loan->block = item.block;
        if (loan->request.kind == GROUP_JOIN && port_wants_debug(out)) {
            tell_join(&loan->request, item.response, out);
        }
        answer(broker, loan, out);
        return true;
    }
    }
    UNREACHABLE();
}
