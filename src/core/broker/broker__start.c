/* broker__start.c: how a node starts, remembers and stops: the journal's and the controller's side of shard 0.
 *
 * START   every state and entry that the journal kept goes to the shard of its log, one at a time, in order; then all shards
 *         end their recovery; then the metadata log is read from its start and applied on every shard; then shard 0 listens,
 *         registers the node with the port it got, and tells the others to listen too.
 * STOP    fronts drain; a last checkpoint; backs close; the journal stops; every shard says STOPPED.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#define METADATA_NAME "__cluster_metadata"
#define METADATA_DAMAGED                                                                                           \
    "the metadata log is damaged, and nothing else says which topics there are: 'weir log verify --data-dir DIR' " \
    "names "                                                                                                       \
    "the place; bring the data directory back from a copy"
#define METADATA_READ_BYTES ((uint32_t)1 << 20)
#define PROPOSAL_RETRY_NS   UINT64_C(10000000)  /* no memory */
#define PROPOSAL_AGAIN_NS   UINT64_C(200000000) /* no disk */
#define PROPOSAL_TRIES_MAX  10u

static void to_shard(struct broker *broker, uint32_t shard, enum message_kind kind, struct port_out *out)
{
    struct port_message message;
    message_begin(&message, shard, kind);
    message_send(broker, &message, out);
}

static void to_every_shard(struct broker *broker, enum message_kind kind, struct port_out *out)
{
    for (uint32_t shard = 0; shard < broker->config.shards; shard++) { to_shard(broker, shard, kind, out); }
}

static void ask_every_shard(struct broker *broker, enum message_kind kind, struct port_out *out)
{
    CHECK(broker->answers_due == 0);
    broker->answers_due = broker->config.shards;
    to_every_shard(broker, kind, out);
}

static bool is_last_answer(struct broker *broker)
{
    CHECK(broker->answers_due > 0);
    broker->answers_due -= 1;
    return broker->answers_due == 0;
}

/* ---- moves --------------------------------------------------------------------------------------------------------------- */

static bool may_move(enum broker_state from, enum broker_state to)
{
    switch (from) {
    case BROKER_BOOT: return to == BROKER_RECOVERING || to == BROKER_CLOSING;
    case BROKER_RECOVERING: return to == BROKER_LOADING || to == BROKER_CLOSING;
    case BROKER_LOADING: return to == BROKER_SERVING || to == BROKER_DRAINING;
    case BROKER_SERVING: return to == BROKER_DRAINING;
    case BROKER_DRAINING: return to == BROKER_CHECKPOINTING || to == BROKER_CLOSING;
    case BROKER_CHECKPOINTING: return to == BROKER_CLOSING;
    case BROKER_CLOSING: return to == BROKER_STOPPED;
    case BROKER_STOPPED: return false;
    }
    return false;
}

static void move_to(struct broker *broker, enum broker_state to)
{
    CHECK(may_move(broker->state, to));
    broker->state = to; /* of the node, on shard 0; the others have their own share of it */
}

static void close_backs(struct broker *broker, struct port_out *out)
{
    move_to(broker, BROKER_CLOSING);
    ask_every_shard(broker, MSG_CLOSE, out);
}

static void begin_drain(struct broker *broker, struct port_out *out)
{
    move_to(broker, BROKER_DRAINING);
    ask_every_shard(broker, MSG_DRAIN, out);
}

/* The node can't serve: it says why, and stops. What is on disk is left as it is. */
static void give_up(struct broker *broker, const char *why, const char *detail, struct port_out *out)
{
    log_words(out, PORT_FATAL, why, detail);
    broker->is_giving_up = true;
    if (broker->state == BROKER_BOOT || broker->state == BROKER_RECOVERING) {
        broker->answers_due = 0;
        close_backs(broker, out);
    } else if (broker->state == BROKER_LOADING) {
        broker->answers_due = 0;
        begin_drain(broker, out);
    }
}

void stop_begin(struct broker *broker, struct port_out *out)
{
    if (!is_first(broker) || broker->is_stop_asked) { return; }
    broker->is_stop_asked = true;
    if (broker->state == BROKER_SERVING) { begin_drain(broker, out); } /* else once it serves */
}

/* ---- the cluster's metadata: reading, applying --------------------------------------------------------------------------- */

/* What each shard does about a record, besides its image. */
static void before_apply(struct broker *broker, const struct record_change *change, struct port_out *out)
{
    if (change->kind != CHANGE_TOPIC_REMOVED) { return; }
    const struct metadata_topic *topic = metadata_topic_by_id(broker->image, change->topic);
    for (uint32_t i = 0; topic != NULL && i < topic->partitions_count; i++) {
        back_log_delete(broker, (struct base_part){.topic = topic->id, .index = (int32_t)i}, out);
    }
}

static void after_apply(struct broker *broker, const struct record_change *change, struct port_out *out)
{
    const struct metadata_topic *topic = NULL;
    switch (change->kind) {
    case CHANGE_PARTITION: {
        topic = metadata_topic_by_id(broker->image, change->topic);
        if (topic == NULL) { return; }
        const struct metadata_partition *partition = metadata_partition(broker->image, topic, change->index);
        if (partition != NULL) { back_log_open(broker, topic, partition, out); }
        return;
    }
    case CHANGE_CONFIG:
        topic = metadata_topic_by_name(broker->image, change->name);
        if (topic != NULL) { back_topic_configure(broker, topic); }
        return;
    case CHANGE_BROKER_CONFIG: back_configure_all(broker); return;
    case CHANGE_TOPIC_REMOVED: group_topics_changed(broker->groups); return;
    case CHANGE_OTHER: return;
    }
}

bool records_next(struct applying *applying, struct rec_record *record_out)
{
    for (;;) {
        if (applying->has_batch && rec_walk_next(&applying->walk, record_out) == REC_OK) { return true; }
        applying->has_batch = false;
        struct rec_batch batch;
        if (rec_batch_next(&applying->rest, &batch) != REC_OK) { return false; }
        applying->offset_end = rec_offset_end(&batch);
        struct base_slice records;
        struct base_arena none;
        base_arena_init(&none, NULL, 0);
        if (rec_is_control(&batch) || rec_open(&batch, 0, &none, &records) != REC_OK) { continue; }
        rec_walk_init(&applying->walk, &batch, records);
        applying->has_batch = true;
    }
}

static void apply_begin(struct broker *broker, struct base_slice batches, enum apply_source source, uint64_t token)
{
    CHECK(!broker->applying.is_on);
    broker->applying =
        (struct applying){.is_on = true, .source = source, .rest = batches, .token = token, .offset_end = -1};
}

static void apply_end(struct broker *broker, struct port_out *out)
{
    struct applying done = broker->applying;
    broker->applying.is_on = false;
    struct port_message message;
    switch (done.source) {
    case APPLY_DELTA:
        message_begin(&message, 0, MSG_DELTA_TAKEN)->words[0] = done.token;
        message_send(broker, &message, out);
        return;
    case APPLY_LOADED:
        if (done.offset_end > broker->metadata_next) { broker->metadata_next = done.offset_end; }
        message_begin(&message, 0, MSG_DELTA_TAKEN)->words[0] = done.token;
        message_send(broker, &message, out);
        return;
    case APPLY_COMMITTED: return;
    }
}

/* One record a call; false: nothing to apply. While this goes on no message is taken, so that nothing that follows a
 * change is seen before it. */
bool apply_poll(struct broker *broker, struct port_out *out)
{
    struct applying *applying = &broker->applying;
    if (!applying->is_on) { return false; }
    if (back_configure_poll(broker)) { return true; }
    struct rec_record record;
    if (!records_next(applying, &record)) {
        apply_end(broker, out);
        return true;
    }
    struct record_change change;
    base_arena_reset(&broker->apply_scratch, 0);
    if (record_change(record.value.bytes, &broker->apply_scratch, &change) != BASE_OK) {
        change.kind = CHANGE_OTHER; /* controller_apply says what is wrong with it */
    }
    if (applying->source != APPLY_COMMITTED) {
        before_apply(broker, &change, out);
        struct base_arena scratch = broker->apply_scratch;
        enum base_rc rc = controller_apply(broker->image, record.value.bytes, &scratch);
        if (rc != BASE_OK && is_first(broker)) {
            applying->rest = base_slice_of(NULL, 0);
            applying->has_batch = false;
            give_up(broker, "the metadata log can't be applied: ",
                    rc == BASE_FULL ? "it holds more than the configured limits allow"
                                    : "it is damaged, or newer than this program",
                    out);
            return true;
        }
    }
    after_apply(broker, &change, out);
    return true;
}

static struct delta *free_delta(struct broker *broker, uint64_t *token_out)
{
    for (uint64_t i = 0; i < DELTAS_MAX; i++) {
        if (broker->deltas[i].block == NULL) {
            *token_out = i;
            return &broker->deltas[i];
        }
    }
    return NULL;
}

/* Lends `block` to `takers` shards from `first` on; it is given back when all have applied it. */
static void send_deltas(struct broker *broker, uint64_t token, struct base_slice batches, uint32_t first,
                        struct port_out *out)
{
    struct delta *delta = &broker->deltas[token];
    delta->takers = broker->config.shards - first;
    for (uint32_t shard = first; shard < broker->config.shards; shard++) {
        struct port_message message;
        message_begin(&message, shard, MSG_DELTA)->words[0] = token;
        message.lent = delta->block + (batches.at - delta->block);
        message.lent_bytes = batches.size_bytes;
        message_send(broker, &message, out);
    }
}

static void load_more(struct broker *broker, struct port_out *out);

static void on_delta_taken(struct broker *broker, uint64_t token, struct port_out *out)
{
    struct delta *delta = &broker->deltas[token];
    CHECK(delta->block != NULL && delta->takers > 0);
    delta->takers -= 1;
    if (delta->takers > 0) { return; }
    base_pages_give(broker->pages, delta->block);
    *delta = (struct delta){.block = NULL};
    if (broker->state == BROKER_LOADING && broker->is_loading) { load_more(broker, out); }
}

/* ---- loading ------------------------------------------------------------------------------------------------------------- */

struct plog_log_config metadata_log_config(void)
{
    return (struct plog_log_config){.segment_bytes = (uint64_t)16 << 20,
                                    .segment_ms = UINT64_MAX,
                                    .index_interval_bytes = 4096,
                                    .index_bytes_max = 1 << 20,
                                    .retention_ms = -1,
                                    .retention_bytes = -1,
                                    .flush_messages = UINT64_MAX,
                                    .flush_ms = UINT64_MAX,
                                    .is_metadata = true};
}

static void listen_first(struct broker *broker, struct port_out *out)
{
    broker->is_loading = false;
    if (broker->is_giving_up) { return; }
    struct port_message message;
    message_begin(&message, 0, MSG_SERVE)->words[12] = broker->is_metadata_suspect;
    message_send(broker, &message, out);
}

static void load_more(struct broker *broker, struct port_out *out)
{
    if (broker->is_giving_up) { return; }
    struct plog_view view;
    plog_view(broker->plog, broker->metadata_log, &view);
    if (view.is_failed) {
        give_up(broker, view.is_damaged ? METADATA_DAMAGED : "the metadata log can't be used: the disk failed", "",
                out);
        return;
    }
    if (broker->metadata_next >= view.watermark) {
        listen_first(broker, out);
        return;
    }
    uint32_t op = back_op_take(broker, BACK_METADATA_READ);
    struct plog_read read = {.token = (uint64_t)op + 1,
                             .offset = broker->metadata_next,
                             .bytes_max = METADATA_READ_BYTES,
                             .takes_oversized_first = true};
    if (op == BASE_POOL_NONE || plog_read_bytes(broker->plog, broker->metadata_log, &read, out) != BASE_OK) {
        give_up(broker, "no memory to read the metadata log", "", out);
    }
}

static void begin_loading(struct broker *broker, struct port_out *out)
{
    move_to(broker, BROKER_LOADING);
    broker->is_loading = true;
    journal_recovered(broker->journal, out);
    struct plog_log_config config = metadata_log_config();
    /* No epoch spans a restart of its leader. */
    int32_t epoch = 1;
    struct plog_ref known = plog_find(broker->plog, metadata_part());
    struct plog_view view;
    if (known.generation != 0) {
        plog_view(broker->plog, known, &view);
        epoch = view.leader_epoch + 1;
    }
    if (plog_open(broker->plog, metadata_part(), base_slice_text(METADATA_NAME), &config, epoch,
                  &broker->metadata_log) != BASE_OK) {
        give_up(broker, "no memory for the metadata log", "", out);
        return;
    }
    plog_view(broker->plog, broker->metadata_log, &view);
    broker->metadata_next = view.offset_start;
    broker->metadata_epoch = epoch;
    broker->is_metadata_suspect = view.is_damaged;
    if (view.is_damaged) {
        log_words(
            out, PORT_ERROR,
            "the metadata log may lack its last changes before a crash: a topic made or deleted then may not be as it "
            "was; "
            "partitions that it does not know stay on disk ('weir log verify --data-dir DIR' says what is damaged)",
            "");
    }
    load_more(broker, out);
}

void metadata_read(struct broker *broker, const struct plog_out *answer, struct port_out *out)
{
    if (answer->result != PLOG_OK || answer->size_bytes == 0) {
        if (answer->block != NULL) { base_pages_give(broker->pages, answer->block); }
        bool is_damaged = answer->result == PLOG_DAMAGED;
        give_up(broker, is_damaged ? METADATA_DAMAGED : "the metadata log can't be read: the disk gives errors", "",
                out);
        return;
    }
    uint64_t token = 0;
    struct delta *delta = free_delta(broker, &token);
    CHECK(delta != NULL); /* one block at a time is loaded */
    delta->block = answer->block;
    send_deltas(broker, token, base_slice_of(answer->block, answer->size_bytes), 0, out);
}

/* ---- committing ----------------------------------------------------------------------------------------------------------- */

static size_t batch_bytes(const struct controller_record *records, uint32_t count)
{
    size_t bytes = REC_HEADER_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        bytes += rec_build_record_bytes_max(rec_null(), rec_value_of(records[i].value), NULL, 0);
    }
    return bytes;
}

/* False: no room, and nothing has changed. */
MUST_USE
static bool append_metadata(struct broker *broker, const struct controller_record *records, uint32_t count,
                            struct port_out *out)
{
    CHECK(!broker->is_metadata_writing);
    uint64_t token = 0;
    struct delta *delta = free_delta(broker, &token);
    uint32_t op = back_op_take(broker, BACK_METADATA_APPEND);
    size_t bytes = batch_bytes(records, count);
    uint8_t *block = delta == NULL || op == BASE_POOL_NONE ? NULL : base_pages_take(broker->pages, BASE_CONTROL, bytes);
    bool is_appended = false;
    if (block != NULL) {
        struct rec_build build;
        enum base_rc rc = rec_build_init(&build, block, bytes, rec_build_plain());
        for (uint32_t i = 0; rc == BASE_OK && i < count; i++) {
            rc = rec_build_add(&build, broker->wall_ms, rec_null(), rec_value_of(records[i].value), NULL, 0);
        }
        CHECK(rc == BASE_OK);
        struct base_slice batch = rec_build_end(&build);
        delta->block = block;
        delta->batches_at = (size_t)(batch.at - block);
        delta->batches_bytes = batch.size_bytes;
        broker->metadata_delta = token;
        struct plog_append append = {.token = (uint64_t)op + 1,
                                     .batches = block + delta->batches_at,
                                     .size_bytes = (uint32_t)batch.size_bytes,
                                     .leader_epoch = broker->metadata_epoch};
        is_appended = plog_append(broker->plog, broker->metadata_log, &append, out) == BASE_OK;
    }
    broker->is_metadata_writing = is_appended;
    if (is_appended) { return true; }
    if (op != BASE_POOL_NONE) { base_pool_give(&broker->back_ops, op); }
    if (block != NULL) {
        base_pages_give(broker->pages, block);
        *delta = (struct delta){.block = NULL};
    }
    return false;
}

/* A proposal that finds no memory waits for it: the controller decides nothing more until it has landed or failed. */
static bool propose(struct broker *broker, struct port_out *out)
{
    if (!broker->has_proposal || broker->now_ns < broker->proposal_retry_ns) { return false; }
    broker->has_proposal = !append_metadata(broker, broker->proposal.records, broker->proposal.records_count, out);
    if (broker->has_proposal) { broker->proposal_retry_ns = base_deadline_ns(broker->now_ns, PROPOSAL_RETRY_NS); }
    return !broker->has_proposal;
}

uint64_t start_next_alarm_ns(const struct broker *broker)
{
    return broker->has_proposal ? broker->proposal_retry_ns : UINT64_MAX;
}

static void before_commit(struct broker *broker, struct base_slice batches, struct port_out *out)
{
    struct applying walk = {.rest = batches};
    struct rec_record record;
    while (records_next(&walk, &record)) {
        struct record_change change;
        base_arena_reset(&broker->apply_scratch, 0);
        if (record_change(record.value.bytes, &broker->apply_scratch, &change) == BASE_OK) {
            before_apply(broker, &change, out);
        }
    }
}

static void snapshot_written(struct broker *broker, enum plog_result result, struct port_out *out);

/* A write that failed has left nothing of it, so it may be tried again: a disk without room finds some in the reserve, other trouble
 * may pass. While the disk is off line nobody knows what became of it, and nothing more is decided. */
static void proposal_failed(struct broker *broker, enum plog_result result, struct port_out *out)
{
    struct plog_view view;
    plog_view(broker->plog, broker->metadata_log, &view);
    if (!view.is_failed && broker->proposal_tries < PROPOSAL_TRIES_MAX) {
        broker->proposal_tries += 1;
        broker->has_proposal = true;
        broker->proposal_retry_ns = base_deadline_ns(broker->now_ns, PROPOSAL_AGAIN_NS);
        return;
    }
    log_words(out, PORT_ERROR, "a change of the metadata could not be written: ",
              result == PLOG_NO_SPACE ? "the disk is full" : "the disk gives errors");
    controller_failed(broker->controller, view.is_failed ? CONTROLLER_BROKEN : CONTROLLER_UNDONE);
}

void metadata_written(struct broker *broker, enum plog_result result, struct port_out *out)
{
    CHECK(broker->is_metadata_writing);
    broker->is_metadata_writing = false;
    uint64_t token = broker->metadata_delta;
    struct delta *delta = &broker->deltas[token];
    struct base_slice batches = base_slice_of(delta->block + delta->batches_at, delta->batches_bytes);
    bool is_snapshot = broker->is_snapshotting;
    if (result != PLOG_OK || is_snapshot) {
        base_pages_give(broker->pages, delta->block);
        *delta = (struct delta){.block = NULL};
        if (is_snapshot) {
            snapshot_written(broker, result, out);
        } else {
            proposal_failed(broker, result, out);
        }
        return;
    }
    before_commit(broker, batches, out);
    controller_committed(broker->controller);
    /* The others apply it; here its logs are opened and closed. Their answers follow: see apply_poll. */
    send_deltas(broker, token, batches, 1, out);
    delta->takers += 1;
    apply_begin(broker, batches, APPLY_COMMITTED, token);
    struct port_message message; /* this shard's own share of the loan ends when it has been through the records */
    message_begin(&message, 0, MSG_DELTA_TAKEN)->words[0] = token;
    message_send(broker, &message, out);
}

/* ---- snapshots: the image as records at the end of the log, whose start then moves up to them ------------------------------ */

#define SNAPSHOT_BYTES    ((size_t)256 << 10)
#define SNAPSHOT_RETRY_NS UINT64_C(60000000000) /* what failed for want of room or disk is begun again so much later */

static void snapshot_begin_if_due(struct broker *broker)
{
    if (broker->is_snapshotting || controller_has_proposal(broker->controller) || broker->applying.is_on) { return; }
    if (broker->state != BROKER_SERVING || broker->is_disk_failed) { return; }
    if (broker->now_ns < broker->snapshot_again_ns) { return; }
    struct plog_view view;
    plog_view(broker->plog, broker->metadata_log, &view);
    if (view.size_bytes < 2 * broker->metadata_snapshot_bytes + METADATA_SNAPSHOT_AFTER_BYTES) { return; }
    broker->is_snapshotting = true;
    broker->snapshot_cursor = (struct controller_cursor){.stage = 0};
    broker->snapshot_offset = view.offset_end;
    broker->snapshot_bytes = 0;
    broker->is_snapshot_read = false;
}

/* What it has written is the image too, so the log is whole; its start stays where it was. */
static void snapshot_abandon(struct broker *broker)
{
    broker->is_snapshotting = false;
    broker->snapshot_again_ns = base_deadline_ns(broker->now_ns, SNAPSHOT_RETRY_NS);
}

/* Gathers the next records of the image into one batch. The image stands still: no proposal is taken meanwhile. */
static bool snapshot_poll(struct broker *broker, struct port_out *out)
{
    if (!broker->is_snapshotting || broker->is_metadata_writing || broker->is_snapshot_read) { return false; }
    uint8_t *block = base_pages_take(broker->pages, BASE_CONTROL, SNAPSHOT_BYTES);
    if (block == NULL) {
        snapshot_abandon(broker);
        return false;
    }
    struct controller_record records[64];
    uint32_t count = 0;
    size_t used_bytes = 0;
    while (count < BASE_ARRAY_COUNT(records) && used_bytes + CONTROLLER_RECORD_BYTES_MAX <= SNAPSHOT_BYTES) {
        enum base_rc rc =
            controller_snapshot_next(broker->image, &broker->snapshot_cursor, block + used_bytes, &records[count]);
        if (rc != BASE_OK) {
            broker->is_snapshot_read = true;
            break;
        }
        used_bytes += records[count].value.size_bytes;
        count += 1;
    }
    broker->snapshot_bytes += used_bytes;
    if (count > 0 && !append_metadata(broker, records, count, out)) { snapshot_abandon(broker); }
    base_pages_give(broker->pages, block);
    if (count == 0) { snapshot_written(broker, PLOG_OK, out); }
    return true;
}

static void snapshot_written(struct broker *broker, enum plog_result result, struct port_out *out)
{
    if (result != PLOG_OK) {
        snapshot_abandon(broker);
        return;
    }
    if (!broker->is_snapshot_read) { return; } /* the next batch follows */
    broker->is_snapshotting = false;
    broker->metadata_snapshot_bytes = broker->snapshot_bytes;
    uint32_t op = back_op_take(broker, BACK_METADATA_START);
    if (op == BASE_POOL_NONE) { return; }
    if (plog_move_start(broker->plog, broker->metadata_log, (uint64_t)op + 1, broker->snapshot_offset, out) !=
        BASE_OK) {
        base_pool_give(&broker->back_ops, op);
    }
}

/* ---- the controller -------------------------------------------------------------------------------------------------------- */

static void on_control(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct control_loan *loan = message->lent;
    uint32_t index = base_pool_take(&broker->control_ops);
    if (index != BASE_POOL_NONE) {
        struct control_op *op = base_pool_at(&broker->control_ops, index);
        op->loan = loan;
        loan->request.token = (uint64_t)index + 1;
        loan->request.arena = loan->arena;
        if (controller_submit(broker->controller, &loan->request) == BASE_OK) { return; }
        base_pool_give(&broker->control_ops, index);
    }
    loan->answer = NULL;
    struct port_message answer;
    message_begin(&answer, loan->shard, MSG_CONTROLLED);
    put_asker(&answer, 0, loan->asker);
    message_send(broker, &answer, out);
}

static void registered(struct broker *broker, const struct controller_registered *answer, struct port_out *out)
{
    if (answer == NULL || answer->error_code != 0) {
        give_up(broker, "this node could not be registered in the metadata log", "", out);
        return;
    }
    struct port_message message;
    message_begin(&message, 0, MSG_SERVE);
    for (uint32_t i = 0; i < broker->config.listener_count; i++) { message.words[i] = broker->ports[i]; }
    message.words[12] = broker->is_metadata_suspect;
    broker->answers_due = broker->config.shards;
    for (uint32_t shard = 1; shard < broker->config.shards; shard++) {
        message.to = (uint16_t)shard;
        message_send(broker, &message, out);
    }
    to_shard(broker, 0, MSG_SERVING, out);
}

static void on_controller_answer(struct broker *broker, const struct controller_out *item, struct port_out *out)
{
    if (item->token == 0) {
        registered(broker, item->response, out);
        return;
    }
    uint32_t index = (uint32_t)(item->token - 1);
    struct control_loan *loan = ((struct control_op *)base_pool_at(&broker->control_ops, index))->loan;
    base_pool_give(&broker->control_ops, index);
    loan->answer = item->response;
    struct port_message answer;
    message_begin(&answer, loan->shard, MSG_CONTROLLED);
    put_asker(&answer, 0, loan->asker);
    message_send(broker, &answer, out);
}

static void register_node(struct broker *broker, struct port_out *out)
{
    struct controller_register *node = &broker->registration;
    *node = (struct controller_register){.broker = {.id = broker->config.node_id}};
    base_prng_fill(&broker->dice, node->broker.incarnation.b, sizeof node->broker.incarnation.b);
    node->broker.endpoints_count = broker->config.listener_count;
    for (uint32_t i = 0; i < broker->config.listener_count; i++) {
        const struct broker_listener *listener = &broker->config.listeners[i];
        struct metadata_endpoint *endpoint = &node->broker.endpoints[i];
        memcpy(endpoint->name, listener->name, strlen(listener->name) + 1);
        memcpy(endpoint->host, listener->host, strlen(listener->host) + 1);
        endpoint->port = listener->port_advertised != 0 ? listener->port_advertised : broker->ports[i];
    }
    enum base_rc rc =
        base_uuid_from_text(broker->config.cluster_id, strlen(broker->config.cluster_id), &node->cluster_uuid);
    (void)rc; /* another form of cluster id is allowed; it then has no uuid */
    base_arena_reset(&broker->register_arena, 0);
    struct controller_request request = {.token = 0,
                                         .kind = CONTROLLER_REGISTER,
                                         .request = node,
                                         .arena = &broker->register_arena};
    if (controller_submit(broker->controller, &request) != BASE_OK) {
        give_up(broker, "no memory to register this node", "", out);
    }
}

/* What was decided is answered once every shard has it: a client that was told so finds it so at any of them. */
static bool is_delta_out(const struct broker *broker)
{
    for (size_t i = 0; i < DELTAS_MAX; i++) {
        if (broker->deltas[i].takers > 0) { return true; }
    }
    return false;
}

static bool controller_step(struct broker *broker, struct port_out *out)
{
    /* Its records' logs first; room in the journal first. */
    if (broker->applying.is_on || broker->hold == HOLD_WAIT || is_delta_out(broker)) { return false; }
    snapshot_begin_if_due(broker);
    if (snapshot_poll(broker, out)) { return true; }
    if (broker->is_snapshotting) { return false; }
    if (propose(broker, out)) { return true; }
    struct controller_out item;
    if (!controller_poll(broker->controller, &item)) { return false; }
    switch (item.kind) {
    case CONTROLLER_OUT_PROPOSE:
        broker->proposal = item; /* borrowed until it is committed or has failed */
        broker->has_proposal = true;
        broker->proposal_tries = 0;
        broker->proposal_retry_ns = 0;
        break;
    case CONTROLLER_OUT_ANSWER: on_controller_answer(broker, &item, out); break;
    }
    return true;
}

/* ---- listening --------------------------------------------------------------------------------------------------------------- */

void start_listening(struct broker *broker, uint32_t listener, enum port_rc rc, uint16_t port, struct port_out *out)
{
    if (broker->is_draining) { return; } /* another shard could not listen: the node is on its way out */
    if (rc != PORT_OK) {
        struct port_message message;
        message_begin(&message, 0, MSG_SERVING)->words[0] = (uint64_t)rc;
        message_send(broker, &message, out);
        return;
    }
    broker->ports[listener] = port;
    broker->listeners_bound += 1;
    if (broker->listeners_bound < broker->config.listener_count) { return; }
    if (is_first(broker)) {
        register_node(broker, out);
        return;
    }
    broker->is_serving = true;
    broker->state = BROKER_SERVING; /* as far as this shard knows: only shard 0 decides */
    broker->starved_retry_ns = 0;
    to_shard(broker, 0, MSG_SERVING, out);
    (void)port_emit(out, PORT_READY, 0); /* it has no more to say */
}

static void on_serving(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    if (message->words[0] != PORT_OK) {
        give_up(broker, "can't listen: ", port_rc_name((enum port_rc)message->words[0]), out);
        return;
    }
    if (broker->is_giving_up || !is_last_answer(broker)) { return; }
    broker->is_serving = true;
    broker->starved_retry_ns = 0;
    move_to(broker, BROKER_SERVING);
    (void)port_emit(out, PORT_READY, 0); /* it has no more to say */
    if (broker->is_stop_asked) { begin_drain(broker, out); }
}

/* ---- the journal -------------------------------------------------------------------------------------------------------------- */

/* False: no room in the journal now. */
MUST_USE
static bool journal_now(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    uint32_t index = base_pool_take(&broker->journal_ops);
    struct plog_run run;
    get_run(message, &run);
    struct journal_entry entry = {.kind = (uint8_t)run.change,
                                  .has_bytes = message->lent != NULL,
                                  .id = run.id,
                                  .segment_base = run.segment_base,
                                  .position_bytes = run.position_bytes,
                                  .offset_base = run.offset_base,
                                  .offset_end = run.offset_end,
                                  .leader_epoch = run.leader_epoch,
                                  .crc = run.crc,
                                  .cuts = run.cuts,
                                  .size_bytes = run.size_bytes};
    if (index == BASE_POOL_NONE) { return false; }
    struct journal_op *op = base_pool_at(&broker->journal_ops, index);
    *op = (struct journal_op){.shard = message->from, .run_token = message->words[9]};
    if (journal_append(broker->journal, &entry, message->lent, (uint32_t)message->words[10], (uint64_t)index + 1,
                       out) == BASE_OK) {
        return true;
    }
    base_pool_give(&broker->journal_ops, index);
    return false;
}

static void on_journal(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    broker->has_entries_since_checkpoint = true;
    /* In order: nothing overtakes what already waits. */
    if (ring_count(&broker->journal_waiting) > 0 || !journal_now(broker, message, out)) {
        ring_push(&broker->journal_waiting, message);
    }
}

static void on_journal_synced(struct broker *broker, const struct journal_out *item, struct port_out *out)
{
    uint32_t index = (uint32_t)(item->token - 1);
    struct journal_op op = *(struct journal_op *)base_pool_at(&broker->journal_ops, index);
    base_pool_give(&broker->journal_ops, index);
    struct port_message answer;
    message_begin(&answer, op.shard, MSG_JOURNALLED);
    answer.words[0] = op.run_token;
    answer.words[1] = (uint64_t)item->result;
    message_send(broker, &answer, out);
    /* The first in line stays first when the room that came back is too little for it. */
    struct port_message waiting;
    while (ring_count(&broker->journal_waiting) > 0 && journal_now(broker, ring_first(&broker->journal_waiting), out)) {
        bool was_there = ring_pop(&broker->journal_waiting, &waiting);
        CHECK(was_there);
    }
}

static void give_state(struct broker *broker, const struct journal_out *item, struct port_out *out)
{
    broker->states_given += 1;
    struct base_part id;
    if (plog_state_id(item->bytes, &id) != BASE_OK) {
        log_words(out, PORT_ERROR, "a partition's state in the checkpoint can't be read; every partition is suspect",
                  "");
        to_every_shard(broker, MSG_DAMAGE, out);
        journal_taken(broker->journal, out);
        return;
    }
    struct port_message message;
    message_begin(&message, shard_of(broker, id), MSG_RESTORE);
    message.lent = unconst(item->bytes.at);
    message.lent_bytes = item->bytes.size_bytes;
    message_send(broker, &message, out);
}

static void give_entry(struct broker *broker, const struct journal_out *item, struct port_out *out)
{
    broker->entries_given += 1;
    const struct journal_entry *entry = &item->entry;
    struct plog_run run = {.change = (enum plog_change_kind)entry->kind,
                           .id = entry->id,
                           .segment_base = entry->segment_base,
                           .position_bytes = entry->position_bytes,
                           .offset_base = entry->offset_base,
                           .offset_end = entry->offset_end,
                           .leader_epoch = entry->leader_epoch,
                           .crc = entry->crc,
                           .cuts = entry->cuts,
                           .size_bytes = entry->size_bytes};
    struct port_message message;
    message_begin(&message, shard_of(broker, entry->id), MSG_REPLAY);
    put_run(&message, &run);
    /* Bytes that went bad in the journal may still be whole in the segment: it is checked there. */
    bool has_bytes = entry->has_bytes && !item->is_damaged;
    message.lent = has_bytes ? unconst(item->bytes.at) : NULL;
    message.lent_bytes = has_bytes ? item->bytes.size_bytes : 0;
    message_send(broker, &message, out);
}

/* What the journal holds and a segment could not take would be forgotten by the next checkpoint. */
static void on_taken(struct broker *broker, enum plog_result result, struct port_out *out)
{
    bool is_lost = result != PLOG_OK && result != PLOG_DAMAGED;
    if (is_lost && !broker->is_giving_up) {
        give_up(broker,
                result == PLOG_NO_SPACE
                    ? "the disk is full: what the journal holds finds no room; make room, then start again"
                    : "what the journal holds can't be written to its partition; see to the disk, then "
                      "start again",
                "", out);
    }
    journal_taken(broker->journal, out);
}

static void on_damage(struct broker *broker, const struct journal_out *item, struct port_out *out)
{
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "damage below the synced line of the journal, at byte ");
    base_text_add_i64(&text, (int64_t)item->position_bytes);
    base_text_add(&text, item->has_id ? ", of one partition" : ", of any partition");
    port_log_end(out, PORT_ERROR, "journal", &text);
    struct port_message message;
    message_begin(&message, 0, MSG_DAMAGE);
    if (item->has_id) {
        put_part(&message, 0, item->entry.id);
        message.to = (uint16_t)shard_of(broker, item->entry.id);
        message_send(broker, &message, out);
        return;
    }
    message_to_all(broker, &message, out);
}

/* The checkpoint that is being written will never have all states: it ends, and does not count. */
static void checkpoint_abandon(struct broker *broker, struct port_out *out)
{
    if (!broker->is_checkpointing || broker->states_due == 0) { return; }
    broker->states_due = 0;
    struct port_message waiting;
    while (ring_pop(&broker->states_waiting, &waiting)) { to_shard(broker, waiting.from, MSG_STATE_TAKEN, out); }
    journal_checkpoint_end(broker->journal, false, out); /* the journal has failed: it keeps the one before */
}

static void disk_failed(struct broker *broker, struct port_out *out)
{
    if (broker->is_disk_failed) { return; }
    broker->is_disk_failed = true;
    log_words(out, PORT_ERROR,
              "a write or sync of the log directory failed: it is off line until a restart; reads of it fail too", "");
    journal_fail(broker->journal, PORT_IO, out);
    to_every_shard(broker, MSG_DISK_FAILED, out);
    checkpoint_abandon(broker, out);
}

/* While fronts drain, too: appends that are held until the journal has room would else never be answered. */
static bool may_checkpoint(const struct broker *broker)
{
    if (broker->is_giving_up) { return false; }
    return broker->state == BROKER_LOADING || broker->state == BROKER_SERVING || broker->state == BROKER_DRAINING;
}

static void checkpoint_begin(struct broker *broker, struct port_out *out)
{
    if (broker->is_checkpointing || broker->is_disk_failed) { return; }
    if (!journal_checkpoint_begin(broker->journal, out)) { return; }
    broker->is_checkpointing = true;
    broker->has_entries_since_checkpoint = false;
    broker->states_due = broker->config.shards;
    to_every_shard(broker, MSG_CHECKPOINT, out);
}

static void stop_checkpoint(struct broker *broker, struct port_out *out)
{
    bool is_running = broker->is_checkpointing && !broker->is_disk_failed;
    if (!is_running && (broker->is_disk_failed || broker->is_giving_up)) {
        close_backs(broker, out);
        return;
    }
    move_to(broker, BROKER_CHECKPOINTING);
    broker->is_last_checkpoint = false;
    if (is_running) { return; } /* that one first: see on_checkpointed */
    broker->is_last_checkpoint = true;
    checkpoint_begin(broker, out);
    if (!broker->is_checkpointing) { close_backs(broker, out); }
}

static void on_checkpointed(struct broker *broker, const struct journal_out *item, struct port_out *out)
{
    broker->is_checkpointing = false;
    if (item->result != PORT_OK) { log_words(out, PORT_ERROR, "a checkpoint failed: ", port_rc_name(item->result)); }
    if (item->result == PORT_OK && broker->state != BROKER_CHECKPOINTING) {
        to_every_shard(broker, MSG_CHECKPOINTED, out);
    }
    if (broker->state != BROKER_CHECKPOINTING) { return; }
    /* What came while it was written (a deletion that a back had yet to do) would make the stop unclean: once more. */
    bool is_behind = item->result == PORT_OK && broker->has_entries_since_checkpoint;
    bool is_enough = broker->is_last_checkpoint && !is_behind;
    if (is_enough || broker->is_disk_failed || broker->is_giving_up) {
        close_backs(broker, out);
        return;
    }
    broker->is_last_checkpoint = true;
    checkpoint_begin(broker, out);
    if (!broker->is_checkpointing) { close_backs(broker, out); }
}

static void add_state(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    if (broker->states_due == 0) { /* abandoned meanwhile */
        to_shard(broker, message->from, MSG_STATE_TAKEN, out);
        return;
    }
    struct base_slice state = base_slice_of(message->lent, (size_t)message->lent_bytes);
    if (journal_checkpoint_add(broker->journal, state, (uint64_t)message->from + 1, out) != BASE_OK) {
        ring_push(&broker->states_waiting, message); /* one a shard at most */
    }
}

static void on_state_written(struct broker *broker, uint64_t token, struct port_out *out)
{
    to_shard(broker, (uint32_t)(token - 1), MSG_STATE_TAKEN, out);
    struct port_message waiting;
    if (ring_pop(&broker->states_waiting, &waiting)) { add_state(broker, &waiting, out); }
}

static void on_replayed(struct broker *broker, const struct journal_out *item, struct port_out *out)
{
    if (item->result != PORT_OK) {
        give_up(broker, "the journal can't be read: ", port_rc_name(item->result), out);
        return;
    }
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "journal read: states=");
    base_text_add_i64(&text, (int64_t)broker->states_given);
    base_text_add(&text, " entries=");
    base_text_add_i64(&text, (int64_t)broker->entries_given);
    bool is_new = broker->states_given == 0 && broker->entries_given == 0 && !item->is_clean;
    const char *how = item->is_clean ? "the last stop was clean" : "the last stop was not clean";
    base_text_add(&text, ", ");
    base_text_add(&text, is_new ? "nothing there yet" : how);
    port_log_end(out, PORT_INFO, "broker", &text);
    move_to(broker, BROKER_RECOVERING);
    ask_every_shard(broker, MSG_RECOVERY_END, out);
}

static bool journal_step(struct broker *broker, struct port_out *out)
{
    struct journal_out item;
    if (!journal_poll(broker->journal, &item)) { return false; }
    switch (item.kind) {
    case JOURNAL_OUT_STATE: give_state(broker, &item, out); break;
    case JOURNAL_OUT_REPLAY: give_entry(broker, &item, out); break;
    case JOURNAL_OUT_DAMAGE: on_damage(broker, &item, out); break;
    case JOURNAL_OUT_REPLAYED: on_replayed(broker, &item, out); break;
    case JOURNAL_OUT_SYNCED: on_journal_synced(broker, &item, out); break;
    case JOURNAL_OUT_FAILED: disk_failed(broker, out); break;
    case JOURNAL_OUT_WANT_CHECKPOINT:
        if (may_checkpoint(broker)) { checkpoint_begin(broker, out); }
        break;
    case JOURNAL_OUT_STATE_WRITTEN: on_state_written(broker, item.token, out); break;
    case JOURNAL_OUT_CHECKPOINTED: on_checkpointed(broker, &item, out); break;
    case JOURNAL_OUT_STOPPED: to_every_shard(broker, MSG_END, out); break;
    }
    return true;
}

/* Near the journal's limit nothing new is appended, so that logs become quiet for the checkpoint that makes room. On a full disk what
 * only makes more is refused: the room kept in reserve is for deletions and the records of the metadata. */
static bool hold_step(struct broker *broker, struct port_out *out)
{
    struct journal_view view;
    journal_view(broker->journal, &view);
    enum hold hold = HOLD_NOT;
    if (!view.is_failed && view.is_short_of_room) {
        hold = HOLD_REFUSE;
    } else if (!view.is_failed && view.is_full) {
        hold = HOLD_WAIT;
    }
    if (hold == broker->hold_told) { return false; }
    if (hold == HOLD_REFUSE) {
        log_words(out, PORT_WARN,
                  "the disk is full: what clients produce is refused; delete topics or lower their retention", "");
    } else if (broker->hold_told == HOLD_REFUSE) {
        log_words(out, PORT_INFO, "the disk has room again", "");
    }
    broker->hold_told = hold;
    controller_refuse_growth(broker->controller, hold == HOLD_REFUSE);
    struct port_message message;
    message_begin(&message, 0, MSG_HOLD)->words[0] = (uint64_t)hold;
    message_to_all(broker, &message, out);
    return true;
}

bool start_poll(struct broker *broker, struct port_out *out)
{
    if (!is_first(broker)) { return false; }
    if (hold_step(broker, out)) { return true; }
    return journal_step(broker, out) || controller_step(broker, out);
}

/* ---- begin, and what the others answer ----------------------------------------------------------------------------------------- */

void start_begin(struct broker *broker, struct port_out *out)
{
    if (is_first(broker)) { journal_start(broker->journal, out); }
}

/* This front has no connection and no request left: what a client that is gone asked of the controller has been done, too. */
void start_drained_if_done(struct broker *broker, struct port_out *out)
{
    if (!broker->is_conn_stopped || broker->is_drained || broker->requests.taken_count > 0) { return; }
    CHECK(broker->parts_asked == 0);
    broker->is_drained = true;
    to_shard(broker, 0, MSG_DRAINED, out);
}

static void end(struct broker *broker, struct port_out *out)
{
    broker->state = BROKER_STOPPED;
    (void)port_emit(out, PORT_STOPPED, 0); /* it has no more to say */
}

void start_message(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    switch (message->kind) {
    case MSG_CONTROL: on_control(broker, message, out); return;
    case MSG_DELTA:
        apply_begin(broker, base_slice_of(message->lent, (size_t)message->lent_bytes),
                    is_first(broker) ? APPLY_LOADED : APPLY_DELTA, message->words[0]);
        return;
    case MSG_DELTA_TAKEN: on_delta_taken(broker, message->words[0], out); return;
    case MSG_JOURNAL: on_journal(broker, message, out); return;
    case MSG_BACK_FAILED: disk_failed(broker, out); return;
    case MSG_BACK_FULL: journal_release_room(broker->journal, out); return;
    case MSG_TAKEN: on_taken(broker, (enum plog_result)message->words[0], out); return;
    case MSG_RECOVERED:
        if (broker->state == BROKER_RECOVERING && is_last_answer(broker)) { begin_loading(broker, out); }
        return;
    case MSG_SERVING: on_serving(broker, message, out); return;
    case MSG_STATE: add_state(broker, message, out); return;
    case MSG_WANT_CHECKPOINT:
        if (may_checkpoint(broker)) { checkpoint_begin(broker, out); }
        return;
    case MSG_STATES_END:
        if (broker->states_due == 0) { return; } /* abandoned meanwhile */
        broker->states_due -= 1;
        if (broker->states_due == 0) { journal_checkpoint_end(broker->journal, broker->is_last_checkpoint, out); }
        return;
    case MSG_DRAINED:
        if (is_last_answer(broker)) { stop_checkpoint(broker, out); }
        return;
    case MSG_CLOSED:
        if (is_last_answer(broker)) { journal_stop(broker->journal, out); }
        return;
    case MSG_END: end(broker, out); return;
    default: UNREACHABLE();
    }
}
