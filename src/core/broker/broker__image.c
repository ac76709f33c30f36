/* broker__image.c: the metadata log and the image: loading, applying on every shard, committing what the controller decides, snapshots.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__node.h"

#define METADATA_DAMAGED                                                                                           \
    "the metadata log is damaged, and nothing else says which topics there are: 'weir log verify --data-dir DIR' " \
    "names the place; bring the data directory back from a copy"
#define PROPOSAL_RETRY_NS  UINT64_C(10000000)  /* no memory */
#define PROPOSAL_AGAIN_NS  UINT64_C(200000000) /* no disk */
#define PROPOSAL_TRIES_MAX 10u

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

/* The logs of the topic whose configs have changed get them: once, however many have. */
static void configure_changed(struct broker *broker)
{
    const struct metadata_topic *topic = metadata_topic_by_id(broker->image, broker->applying.configured);
    if (topic != NULL) { back_topic_configure(broker, topic); }
    broker->applying.configured = (struct base_uuid){{0}};
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
        if (topic == NULL || base_uuid_equal(broker->applying.configured, topic->id)) { return; }
        configure_changed(broker);
        broker->applying.configured = topic->id;
        return;
    case CHANGE_BROKER_CONFIG: back_configure_all(broker); return;
    case CHANGE_TOPIC_REMOVED: group_topics_changed(broker->groups); return;
    case CHANGE_OTHER: return;
    }
}

void image_apply(struct broker *broker, struct base_slice batches, enum apply_source source)
{
    CHECK(!broker->applying.is_on);
    broker->applying = (struct applying){.is_on = true, .source = source, .rest = batches, .offset_end = -1};
}

static void apply_end(struct broker *broker, struct port_out *out)
{
    struct applying done = broker->applying;
    broker->applying.is_on = false;
    if (done.source == APPLY_COMMITTED) { return; } /* see metadata_written */
    if (done.source == APPLY_LOADED && done.offset_end > broker->metadata_log.next) {
        broker->metadata_log.next = done.offset_end;
    }
    node_to_shard(broker, 0, MSG_DELTA_TAKEN, out);
}

/* One record a call; false: nothing to apply. While this goes on no message is taken, so that nothing that follows a
 * change is seen before it. */
bool apply_poll(struct broker *broker, struct port_out *out)
{
    struct applying *applying = &broker->applying;
    if (!applying->is_on) { return false; }
    struct rec_record record;
    if (!records_next(applying, &record)) {
        configure_changed(broker);
        /* Of all topics once, however many configs of brokers have changed. */
        if (!back_configure_poll(broker)) { apply_end(broker, out); }
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
            node_give_up(broker, "the metadata log can't be applied: ",
                         rc == BASE_FULL ? "it holds more than the configured limits allow"
                                         : "it is damaged, or newer than this program",
                         out);
            return true;
        }
        /* While the log is loaded shard 0 says why; what it committed later it has applied to an image of the same limits. */
        CHECK(rc == BASE_OK || !broker->is_serving);
    }
    after_apply(broker, &change, out);
    return true;
}

static void give_delta(struct broker *broker)
{
    base_pages_give(broker->pages, broker->delta.block);
    broker->delta = (struct delta){.block = NULL};
}

/* Lends it to the shards from `first` on; it is given back when all have applied it. */
static void send_delta(struct broker *broker, uint32_t first, struct port_out *out)
{
    broker->delta.takers = broker->config.shards - first;
    for (uint32_t shard = first; shard < broker->config.shards; shard++) {
        struct port_message message;
        message_begin(&message, shard, MSG_DELTA);
        message.lent = unconst(broker->delta.batches.at);
        message.lent_bytes = broker->delta.batches.size_bytes;
        message_send(broker, &message, out);
    }
}

static void load_more(struct broker *broker, struct port_out *out);

void image_delta_taken(struct broker *broker, struct port_out *out)
{
    CHECK(broker->delta.block != NULL && broker->delta.takers > 0);
    broker->delta.takers -= 1;
    if (broker->delta.takers > 0) { return; }
    give_delta(broker);
    if (broker->state == BROKER_LOADING && broker->is_loading) { load_more(broker, out); }
}

/* ---- loading ------------------------------------------------------------------------------------------------------------- */

void image_loaded(struct broker *broker, struct port_out *out)
{
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "metadata read: topics=");
    base_text_add_i64(&text, metadata_topics_count(broker->image));
    base_text_add(&text, " partitions=");
    base_text_add_i64(&text, metadata_partitions_count(broker->image));
    log_add_since(broker, &text, broker->moved_ns);
    port_log_end(out, PORT_INFO, "broker", &text);
    struct port_message message;
    message_begin(&message, 0, MSG_SERVE)->words[12] = broker->is_metadata_suspect;
    message_send(broker, &message, out);
}

static void load_more(struct broker *broker, struct port_out *out)
{
    if (broker->is_giving_up) { return; }
    struct plog_view view;
    plog_view(broker->plog, broker->metadata_log.ref, &view);
    if (view.is_failed) {
        node_give_up(broker, view.is_damaged ? METADATA_DAMAGED : "the metadata log can't be used: the disk failed", "",
                     out);
        return;
    }
    if (broker->metadata_log.next >= view.watermark) {
        broker->is_loading = false;
        raise_next(broker, out);
        return;
    }
    if (own_log_read(broker, &broker->metadata_log, BACK_METADATA_READ, 0, out) != BASE_OK) {
        node_give_up(broker, "no memory to read the metadata log", "", out);
    }
}

void image_load(struct broker *broker, struct port_out *out)
{
    node_move_to(broker, BROKER_LOADING);
    broker->is_loading = true;
    journal_recovered(broker->journal, out);
    /* No log has an entry before this one's first: where entries were lost, it was there, and is not begun anew. */
    if (broker->has_lost_entries && plog_find(broker->plog, metadata_part()).generation == 0) {
        node_give_up(broker, METADATA_DAMAGED, "", out);
        return;
    }
    if (own_log_open(broker, metadata_part(), &broker->metadata_log) != BASE_OK) {
        node_give_up(broker, "no memory for the metadata log", "", out);
        return;
    }
    struct plog_view view;
    plog_view(broker->plog, broker->metadata_log.ref, &view);
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
        node_give_up(broker, is_damaged ? METADATA_DAMAGED : "the metadata log can't be read: the disk gives errors",
                     "", out);
        return;
    }
    CHECK(broker->delta.block == NULL); /* one block at a time is loaded */
    broker->delta = (struct delta){.block = answer->block, .batches = base_slice_of(answer->block, answer->size_bytes)};
    send_delta(broker, 0, out);
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
    CHECK(!broker->is_metadata_writing && broker->delta.block == NULL);
    size_t bytes = batch_bytes(records, count);
    uint8_t *block = base_pages_take(broker->pages, BASE_CONTROL, bytes);
    if (block == NULL) { return false; }
    struct rec_build build;
    enum base_rc rc = rec_build_init(&build, block, bytes, rec_build_plain());
    for (uint32_t i = 0; rc == BASE_OK && i < count; i++) {
        rc = rec_build_add(&build, broker->wall_ms, rec_null(), rec_value_of(records[i].value), NULL, 0);
    }
    CHECK(rc == BASE_OK);
    broker->delta = (struct delta){.block = block, .batches = rec_build_end(&build)};
    rc = own_log_append(broker, &broker->metadata_log, BACK_METADATA_APPEND, 0, broker->delta.batches, out);
    broker->is_metadata_writing = rc == BASE_OK;
    if (rc != BASE_OK) { give_delta(broker); }
    return rc == BASE_OK;
}

/* A proposal that finds no memory waits for it: the controller decides nothing more until it has landed or failed. */
bool image_propose(struct broker *broker, struct port_out *out)
{
    if (!broker->has_proposal || broker->now_ns < broker->proposal_retry_ns) { return false; }
    broker->has_proposal = !append_metadata(broker, broker->proposal.records, broker->proposal.records_count, out);
    if (broker->has_proposal) { broker->proposal_retry_ns = base_deadline_ns(broker->now_ns, PROPOSAL_RETRY_NS); }
    return !broker->has_proposal;
}

uint64_t start_next_alarm_ns(const struct broker *broker)
{
    return broker->has_proposal && !node_controller_waits(broker) ? broker->proposal_retry_ns : UINT64_MAX;
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
    plog_view(broker->plog, broker->metadata_log.ref, &view);
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
    bool is_snapshot = broker->is_snapshotting;
    if (result != PLOG_OK || is_snapshot) {
        give_delta(broker);
        if (is_snapshot) {
            snapshot_written(broker, result, out);
        } else {
            proposal_failed(broker, result, out);
        }
        return;
    }
    before_commit(broker, broker->delta.batches, out);
    controller_committed(broker->controller);
    /* The others apply it; here its logs are opened and closed. Their answers follow: see apply_poll. */
    send_delta(broker, 1, out);
    broker->delta.takers += 1;
    image_apply(broker, broker->delta.batches, APPLY_COMMITTED);
    node_to_shard(broker, 0, MSG_DELTA_TAKEN,
                  out); /* its own share of the loan ends when it has been through the records */
}

/* ---- snapshots: the image as records at the end of the log, whose start then moves up to them ------------------------------ */

#define SNAPSHOT_BYTES    ((size_t)256 << 10)
#define SNAPSHOT_RECORDS  1024u /* of one batch, which is one sync: the controller answers nobody until the last */
#define SNAPSHOT_RETRY_NS UINT64_C(60000000000) /* what failed for want of room or disk is begun again so much later */

void image_snapshot_begin_if_due(struct broker *broker)
{
    if (broker->is_snapshotting || controller_has_proposal(broker->controller) || broker->applying.is_on) { return; }
    if (broker->state != BROKER_SERVING || broker->is_disk_failed) { return; }
    if (broker->now_ns < broker->snapshot_again_ns) { return; }
    uint64_t by_bytes = broker->config.metadata_grown_bytes;
    if (!own_log_has_grown(broker, &broker->metadata_log, &broker->metadata_grown, by_bytes)) { return; }
    struct plog_view view;
    plog_view(broker->plog, broker->metadata_log.ref, &view);
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
bool image_snapshot_poll(struct broker *broker, struct port_out *out)
{
    if (!broker->is_snapshotting || broker->is_metadata_writing || broker->is_snapshot_read) { return false; }
    size_t bytes = SNAPSHOT_BYTES + SNAPSHOT_RECORDS * sizeof(struct controller_record);
    uint8_t *block = base_pages_take(broker->pages, BASE_CONTROL, bytes);
    if (block == NULL) {
        snapshot_abandon(broker);
        return false;
    }
    struct controller_record *records = (struct controller_record *)(void *)(block + SNAPSHOT_BYTES);
    uint32_t count = 0;
    size_t used_bytes = 0;
    while (count < SNAPSHOT_RECORDS && used_bytes + CONTROLLER_RECORD_BYTES_MAX <= SNAPSHOT_BYTES) {
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
    own_log_written_anew(broker, &broker->metadata_log, &broker->metadata_grown, broker->snapshot_bytes);
    own_log_move_start(broker, &broker->metadata_log, BACK_METADATA_START, broker->snapshot_offset, out);
}
