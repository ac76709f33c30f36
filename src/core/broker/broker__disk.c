/* broker__disk.c: the journal's side of shard 0: entries, checkpoints, recovery, and what happens when the disk fails or is full.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__node.h"

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

void disk_on_journal(struct broker *broker, const struct port_message *message, struct port_out *out)
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
    if (broker->not_taken != PLOG_OK) { /* the start ends once the journal is read: nothing more is given */
        journal_taken(broker->journal, out);
        return;
    }
    broker->states_given += 1;
    struct base_part id;
    if (plog_state_id(item->bytes, &id) != BASE_OK) {
        log_words(out, PORT_ERROR, "a partition's state in the checkpoint can't be read; every partition is suspect",
                  "");
        broker->has_lost_entries = true;
        node_to_every_shard(broker, MSG_DAMAGE, out);
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
    if (broker->not_taken != PLOG_OK) {
        journal_taken(broker->journal, out);
        return;
    }
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
    broker->bytes_given += message.lent_bytes;
    message_send(broker, &message, out);
}

/* What the journal holds and a segment could not take would be forgotten by the next checkpoint. */
void disk_on_taken(struct broker *broker, enum plog_result result, struct port_out *out)
{
    bool is_lost = result != PLOG_OK && result != PLOG_DAMAGED;
    if (is_lost && broker->not_taken == PLOG_OK) { broker->not_taken = result; }
    journal_taken(broker->journal, out);
}

static const char *why_not_taken(enum plog_result result)
{
    if (result == PLOG_NO_SPACE) {
        return "the disk is full: what the journal holds finds no room; make room, then start again";
    }
    if (result == PLOG_BUSY) {
        return "no memory, or no descriptors, for what the journal holds; start again with more";
    }
    return "what the journal holds can't be written to its partition; see to the disk, then start again";
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
    broker->has_lost_entries = true;
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
    while (ring_pop(&broker->states_waiting, &waiting)) { node_to_shard(broker, waiting.from, MSG_STATE_TAKEN, out); }
    journal_checkpoint_end(broker->journal, false, out); /* the journal has failed: it keeps the one before */
}

/* Which file it was, and what the system said, has the host told. */
static void on_failed(struct broker *broker, const struct base_text *what, struct port_out *out)
{
    if (broker->is_disk_failed) { return; }
    broker->is_disk_failed = true;
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "the log directory is off line until a restart, for reads too: ");
    base_text_add_slice(&text, base_text_slice(what));
    port_log_end(out, PORT_ERROR, "broker", &text);
    journal_fail(broker->journal, PORT_IO, out);
    node_to_every_shard(broker, MSG_DISK_FAILED, out);
    checkpoint_abandon(broker, out);
}

static void on_journal_failed(struct broker *broker, enum port_rc rc, struct port_out *out)
{
    char words[64];
    struct base_text what;
    base_text_init(&what, words, sizeof words);
    base_text_add(&what, "a write or sync of the journal failed: ");
    base_text_add(&what, port_rc_name(rc));
    on_failed(broker, &what, out);
}

void disk_on_back_failed(struct broker *broker, uint32_t shard, struct port_out *out)
{
    char words[64];
    struct base_text what;
    base_text_init(&what, words, sizeof words);
    base_text_add(&what, "a sync of a log on shard ");
    base_text_add_i64(&what, shard);
    base_text_add(&what, " failed");
    on_failed(broker, &what, out);
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
    /* What was appended but is not written yet may land behind it, and so may what waits for room. */
    struct journal_view view;
    journal_view(broker->journal, &view);
    broker->is_checkpointing = true;
    broker->checkpoint_began_ns = broker->now_ns;
    broker->checkpoint_states = 0;
    broker->checkpoint_bytes = 0;
    bool is_waited_for = view.in_flight > 0 || ring_count(&broker->journal_waiting) > 0;
    broker->has_entries_since_checkpoint = is_waited_for || view.is_full;
    broker->states_due = broker->config.shards;
    node_to_every_shard(broker, MSG_CHECKPOINT, out);
}

void disk_checkpoint(struct broker *broker, struct port_out *out)
{
    if (may_checkpoint(broker)) { checkpoint_begin(broker, out); }
}

static void tell_drained(const struct broker *broker, struct port_out *out)
{
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "drained");
    log_add_since(broker, &text, broker->moved_ns);
    base_text_add(&text, broker->is_disk_failed ? ": no checkpoint, for the log directory is off line" : "");
    port_log_end(out, PORT_INFO, "broker", &text);
}

void disk_stop(struct broker *broker, struct port_out *out)
{
    bool is_running = broker->is_checkpointing && !broker->is_disk_failed;
    if (!broker->is_giving_up) { tell_drained(broker, out); }
    if (!is_running && (broker->is_disk_failed || broker->is_giving_up)) {
        node_close_backs(broker, out);
        return;
    }
    node_move_to(broker, BROKER_CHECKPOINTING);
    broker->is_last_checkpoint = false;
    if (is_running) { return; } /* that one first: see on_checkpointed */
    broker->is_last_checkpoint = true;
    checkpoint_begin(broker, out);
    if (!broker->is_checkpointing) { node_close_backs(broker, out); }
}

void disk_end(struct broker *broker, struct port_out *out)
{
    struct port_message waiting;
    while (ring_pop(&broker->journal_waiting, &waiting)) {}
    journal_stop(broker->journal, out);
}

static void tell_checkpoint(const struct broker *broker, struct port_out *out)
{
    bool is_of_stop = broker->state == BROKER_CHECKPOINTING;
    if (!is_of_stop && !port_wants_debug(out)) { return; }
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "checkpoint written: states=");
    base_text_add_i64(&text, (int64_t)broker->checkpoint_states);
    base_text_add(&text, " bytes=");
    base_text_add_i64(&text, (int64_t)broker->checkpoint_bytes);
    log_add_since(broker, &text, broker->checkpoint_began_ns);
    port_log_end(out, is_of_stop ? PORT_INFO : PORT_DEBUG, "journal", &text);
}

static void on_checkpointed(struct broker *broker, const struct journal_out *item, struct port_out *out)
{
    broker->is_checkpointing = false;
    if (item->result == PORT_OK) { tell_checkpoint(broker, out); }
    if (item->result != PORT_OK) { log_words(out, PORT_ERROR, "a checkpoint failed: ", port_rc_name(item->result)); }
    if (item->result == PORT_OK && broker->state != BROKER_CHECKPOINTING) {
        node_to_every_shard(broker, MSG_CHECKPOINTED, out);
    }
    if (broker->state != BROKER_CHECKPOINTING) { return; }
    /* What came while it was written (a deletion that a back had yet to do) would make the stop unclean: once more. */
    bool is_behind = item->result == PORT_OK && broker->has_entries_since_checkpoint;
    bool is_enough = broker->is_last_checkpoint && !is_behind;
    if (is_enough || broker->is_disk_failed || broker->is_giving_up) {
        node_close_backs(broker, out);
        return;
    }
    broker->is_last_checkpoint = true;
    checkpoint_begin(broker, out);
    if (!broker->is_checkpointing) { node_close_backs(broker, out); }
}

void disk_add_state(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    if (broker->states_due == 0) { /* abandoned meanwhile */
        node_to_shard(broker, message->from, MSG_STATE_TAKEN, out);
        return;
    }
    struct base_slice state = base_slice_of(message->lent, (size_t)message->lent_bytes);
    if (journal_checkpoint_add(broker->journal, state, (uint64_t)message->from + 1, out) != BASE_OK) {
        ring_push(&broker->states_waiting, message); /* one a shard at most */
        return;
    }
    broker->checkpoint_states += 1;
    broker->checkpoint_bytes += state.size_bytes;
}

static void on_state_written(struct broker *broker, uint64_t token, struct port_out *out)
{
    node_to_shard(broker, (uint32_t)(token - 1), MSG_STATE_TAKEN, out);
    struct port_message waiting;
    if (ring_pop(&broker->states_waiting, &waiting)) { disk_add_state(broker, &waiting, out); }
}

static void on_replayed(struct broker *broker, const struct journal_out *item, struct port_out *out)
{
    if (item->result != PORT_OK) {
        node_give_up(broker, "the journal can't be read: ", port_rc_name(item->result), out);
        return;
    }
    if (broker->not_taken != PLOG_OK) {
        node_give_up(broker, why_not_taken(broker->not_taken), "", out);
        return;
    }
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "journal read: states=");
    base_text_add_i64(&text, (int64_t)broker->states_given);
    base_text_add(&text, " entries=");
    base_text_add_i64(&text, (int64_t)broker->entries_given);
    base_text_add(&text, " bytes=");
    base_text_add_i64(&text, (int64_t)broker->bytes_given);
    log_add_since(broker, &text, broker->began_ns);
    bool is_new = broker->states_given == 0 && broker->entries_given == 0 && !item->is_clean;
    const char *how = item->is_clean ? "the last stop was clean" : "the last stop was not clean";
    base_text_add(&text, ", ");
    base_text_add(&text, is_new ? "nothing there yet" : how);
    base_text_add(&text,
                  item->is_torn ? "; its last group was not whole, nobody was told of it, and it is left out" : "");
    port_log_end(out, PORT_INFO, "broker", &text);
    node_move_to(broker, BROKER_RECOVERING);
    CHECK(broker->answers_due == 0);
    broker->answers_due = broker->config.shards;
    struct port_message message;
    message_begin(&message, 0, MSG_RECOVERY_END)->words[0] = item->is_clean ? PLOG_LAST_CLEAN : PLOG_LAST_UNCLEAN;
    message_to_all(broker, &message, out);
}

void disk_on_recovered(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    enum plog_result result = (enum plog_result)message->words[1];
    if (result != PLOG_OK) { /* a checkpoint would forget what could not be looked at */
        node_give_up(broker, why_not_taken(result), "", out);
        return;
    }
    broker->raise_shards |= message->words[0] << message->from;
    broker->logs_recovered += message->words[2];
    if (!node_is_last_answer(broker)) { return; }
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "logs recovered: logs=");
    base_text_add_i64(&text, (int64_t)broker->logs_recovered);
    log_add_since(broker, &text, broker->moved_ns);
    base_text_add(&text, broker->raise_shards != 0 ? "; page-cache logs among them may lack their end" : "");
    port_log_end(out, PORT_INFO, "broker", &text);
    image_load(broker, out);
}

bool disk_journal_step(struct broker *broker, struct port_out *out)
{
    struct journal_out item;
    if (!journal_poll(broker->journal, &item)) { return false; }
    switch (item.kind) {
    case JOURNAL_OUT_STATE: give_state(broker, &item, out); break;
    case JOURNAL_OUT_REPLAY: give_entry(broker, &item, out); break;
    case JOURNAL_OUT_DAMAGE: on_damage(broker, &item, out); break;
    case JOURNAL_OUT_REPLAYED: on_replayed(broker, &item, out); break;
    case JOURNAL_OUT_SYNCED: on_journal_synced(broker, &item, out); break;
    case JOURNAL_OUT_FAILED: on_journal_failed(broker, item.result, out); break;
    case JOURNAL_OUT_WANT_CHECKPOINT: disk_checkpoint(broker, out); break;
    case JOURNAL_OUT_STATE_WRITTEN: on_state_written(broker, item.token, out); break;
    case JOURNAL_OUT_CHECKPOINTED: on_checkpointed(broker, &item, out); break;
    case JOURNAL_OUT_WANT_HANDLE: node_to_every_shard(broker, MSG_GIVE_HANDLE, out); break;
    case JOURNAL_OUT_STOPPED: node_to_every_shard(broker, MSG_END, out); break;
    }
    return true;
}

/* Near the journal's limit nothing new is appended, so that logs become quiet for the checkpoint that makes room. On a full disk what
 * only makes more is refused: the room kept in reserve is for deletions and the records of the metadata. */
bool disk_hold_step(struct broker *broker, struct port_out *out)
{
    struct journal_view view;
    journal_view(broker->journal, &view);
    bool is_full = !view.is_failed && view.is_full;
    bool is_room_wanted = is_full || view.is_waiting;
    enum hold hold = is_full ? HOLD_WAIT : HOLD_NOT;
    if (!view.is_failed && view.is_short_of_room) { hold = HOLD_REFUSE; }
    if (hold == broker->hold_told && is_room_wanted == broker->is_full_told) { return false; }
    if (hold == HOLD_REFUSE && broker->hold_told != HOLD_REFUSE) {
        log_words(out, PORT_WARN,
                  "the disk is full: what clients produce is refused; delete topics or lower their retention", "");
    } else if (hold != HOLD_REFUSE && broker->hold_told == HOLD_REFUSE) {
        log_words(out, PORT_INFO, "the disk has room again", "");
    }
    broker->hold_told = hold;
    broker->is_full_told = is_room_wanted;
    controller_refuse_growth(broker->controller, hold == HOLD_REFUSE);
    struct port_message message;
    message_begin(&message, 0, MSG_HOLD)->words[0] = (uint64_t)hold;
    message.words[1] = is_room_wanted ? 1 : 0;
    message_to_all(broker, &message, out);
    return true;
}
