/* log_machine.c: plog and journal as one node's shards: carries plog's wishes to the journal of shard 0 and back, as broker does.
 *
 * START   states and entries of the journal go to the shards of their logs, one at a time; all recover; the driver opens logs.
 * STOP    the driver comes to rest; a last checkpoint; plogs close; the journal stops.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "log__parts.h"

#include <stdlib.h>

#define STEP_EFFECTS_ROOM 64u

enum message {
    TO_JOURNAL = 1, /* a run in words, 9 token, 10 pieces; lent: the pieces -> JOURNALLED */
    JOURNALLED,     /* 0 token, 1 port_rc */
    RESTORE,        /* lent: a state -> TAKEN */
    REPLAY,         /* a run in words; lent: its bytes -> TAKEN */
    TAKEN,
    DAMAGE, /* 0-2 part, or none */
    RECOVERY_END,
    RECOVERED,
    SERVE,
    CHECKPOINT,
    STATE, /* lent: a state -> STATE_TAKEN */
    STATE_TAKEN,
    STATES_END,
    CHECKPOINTED,
    WANT_CHECKPOINT,
    FAILED,      /* to shard 0 */
    DISK_FAILED, /* to all */
    DRAIN,
    DRAINED,
    CLOSE,
    CLOSED,
    END,
};

struct fifo {
    struct port_message *at;
    uint32_t first, count, room;
};

struct token { /* of the journal: who asked */
    uint32_t shard;
    uint64_t run_token;
};

struct log_shard {
    struct log_run *run;
    uint32_t shard, shards;
    struct base_pages *pages;
    struct plog *plog;
    struct journal *journal; /* shard 0 */
    struct fifo inbox, waiting, states;
    struct token *tokens;
    uint32_t token_count, token_room;
    uint64_t tokens_first; /* tokens come back in order */
    uint32_t answers_due, states_due;
    bool is_recovering, is_checkpoint_due, is_checkpointing, is_last_checkpoint, has_entries;
    bool is_draining, is_drained, is_stopping, is_stop_asked, is_serving, is_disk_failed;
    bool wants_turn, wants_continue;
    uint64_t now_ns;
    uint32_t step_left;
};

struct plog *log_plog(struct log_shard *shard) { return shard->plog; }
struct base_pages *log_pages(struct log_shard *shard) { return shard->pages; }

static void push(struct fifo *fifo, const struct port_message *message)
{
    if (fifo->count == fifo->room) {
        uint32_t room = fifo->room * 2 + 16;
        struct port_message *larger = malloc(room * sizeof *larger);
        CHECK(larger != NULL);
        for (uint32_t i = 0; i < fifo->count; i++) { larger[i] = fifo->at[(fifo->first + i) % fifo->room]; }
        free(fifo->at);
        *fifo = (struct fifo){.at = larger, .count = fifo->count, .room = room};
    }
    fifo->at[(fifo->first + fifo->count++) % fifo->room] = *message;
}

static bool pop(struct fifo *fifo, struct port_message *message_out)
{
    if (fifo->count == 0) { return false; }
    *message_out = fifo->at[fifo->first];
    fifo->first = (fifo->first + 1) % fifo->room;
    fifo->count -= 1;
    return true;
}

static void send(struct log_shard *shard, struct port_message message, uint32_t to, struct port_out *out)
{
    message.to = (uint16_t)to;
    message.from = (uint16_t)shard->shard;
    if (to == shard->shard) {
        push(&shard->inbox, &message);
        return;
    }
    struct port_message *sent = port_send_message(out, to, message.kind);
    *sent = message;
}

static void tell(struct log_shard *shard, enum message kind, uint32_t to, struct port_out *out)
{
    send(shard, (struct port_message){.kind = kind}, to, out);
}

static void tell_all(struct log_shard *shard, enum message kind, struct port_out *out)
{
    for (uint32_t i = 0; i < shard->shards; i++) { tell(shard, kind, i, out); }
}

static void ask_all(struct log_shard *shard, enum message kind, struct port_out *out)
{
    shard->answers_due = shard->shards;
    tell_all(shard, kind, out);
}

static bool is_last_answer(struct log_shard *shard)
{
    CHECK(shard->answers_due > 0);
    shard->answers_due -= 1;
    return shard->answers_due == 0;
}

static uint32_t shard_of(const struct log_shard *shard, struct base_part id)
{
    return ((uint32_t)id.index / 2) % shard->shards;
}

/* ---- runs in words ---- */

static void put_part(struct port_message *message, struct base_part id)
{
    message->words[0] = base_get_u64(id.topic.b);
    message->words[1] = base_get_u64(id.topic.b + 8);
    message->words[2] = (uint32_t)id.index;
}

static struct base_part get_part(const struct port_message *message)
{
    struct base_part id = {.index = (int32_t)(uint32_t)message->words[2]};
    base_put_u64(id.topic.b, message->words[0]);
    base_put_u64(id.topic.b + 8, message->words[1]);
    return id;
}

static void put_run(struct port_message *message, const struct plog_run *run)
{
    put_part(message, run->id);
    message->words[2] |= (uint64_t)(uint32_t)run->leader_epoch << 32;
    message->words[3] = (uint64_t)run->segment_base;
    message->words[4] = run->position_bytes;
    message->words[5] = (uint64_t)run->offset_base;
    message->words[6] = (uint64_t)run->offset_end;
    message->words[7] = (uint64_t)run->cuts << 48 | (uint64_t)run->change << 32 | run->crc;
    message->words[8] = run->size_bytes;
}

static struct plog_run get_run(const struct port_message *message)
{
    return (struct plog_run){.change = (enum plog_change_kind)(message->words[7] >> 32 & 0xff),
                             .cuts = (uint16_t)(message->words[7] >> 48),
                             .id = get_part(message),
                             .segment_base = (int64_t)message->words[3],
                             .position_bytes = message->words[4],
                             .offset_base = (int64_t)message->words[5],
                             .offset_end = (int64_t)message->words[6],
                             .leader_epoch = (int32_t)(uint32_t)(message->words[2] >> 32),
                             .crc = (uint32_t)message->words[7],
                             .size_bytes = message->words[8]};
}

static void *unconst(const void *at)
{
    union {
        const void *from;
        void *to;
    } u = {.from = at};
    return u.to;
}

/* ---- the journal, on shard 0 ---- */

static bool journal_now(struct log_shard *shard, const struct port_message *message, struct port_out *out)
{
    struct plog_run run = get_run(message);
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
    if (journal_append(shard->journal, &entry, message->lent, (uint32_t)message->words[10],
                       shard->tokens_first + shard->token_count, out) != BASE_OK) {
        return false;
    }
    if (shard->token_count == shard->token_room) {
        shard->token_room = shard->token_room * 2 + 16;
        shard->tokens = realloc(shard->tokens, shard->token_room * sizeof shard->tokens[0]);
        CHECK(shard->tokens != NULL);
    }
    shard->tokens[shard->token_count++] = (struct token){.shard = message->from, .run_token = message->words[9]};
    return true;
}

static void on_synced(struct log_shard *shard, const struct journal_out *item, struct port_out *out)
{
    CHECK(shard->token_count > 0 && item->token == shard->tokens_first);
    struct token token = shard->tokens[0];
    shard->token_count -= 1;
    shard->tokens_first += 1;
    memmove(shard->tokens, shard->tokens + 1, shard->token_count * sizeof shard->tokens[0]);
    if (item->result != PORT_OK) { shard->run->is_disk_failed = true; }
    struct port_message message = {.kind = JOURNALLED, .words = {token.run_token, (uint64_t)item->result}};
    send(shard, message, token.shard, out);
    struct port_message first;
    while (shard->waiting.count > 0 && journal_now(shard, &shard->waiting.at[shard->waiting.first], out)) {
        bool was_there = pop(&shard->waiting, &first);
        CHECK(was_there);
    }
}

static void give_entry(struct log_shard *shard, const struct journal_out *item, struct port_out *out)
{
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
    struct port_message message = {.kind = REPLAY};
    put_run(&message, &run);
    if (entry->has_bytes && !item->is_damaged) {
        message.lent = unconst(item->bytes.at);
        message.lent_bytes = item->bytes.size_bytes;
    }
    send(shard, message, shard_of(shard, entry->id), out);
}

static void give_state(struct log_shard *shard, const struct journal_out *item, struct port_out *out)
{
    struct base_part id;
    if (plog_state_id(item->bytes, &id) != BASE_OK) {
        log_fail(shard->run, "I20", "a state of the checkpoint can't be read");
        journal_taken(shard->journal, out);
        return;
    }
    struct port_message message = {.kind = RESTORE};
    message.lent = unconst(item->bytes.at);
    message.lent_bytes = item->bytes.size_bytes;
    send(shard, message, shard_of(shard, id), out);
}

static void abandon_checkpoint(struct log_shard *shard, struct port_out *out)
{
    if (!shard->is_checkpointing || shard->states_due == 0) { return; }
    shard->states_due = 0;
    struct port_message waiting;
    while (pop(&shard->states, &waiting)) { tell(shard, STATE_TAKEN, waiting.from, out); }
    journal_checkpoint_end(shard->journal, false, out);
}

static void disk_failed(struct log_shard *shard, struct port_out *out)
{
    if (shard->is_disk_failed) { return; }
    shard->is_disk_failed = true;
    shard->run->is_disk_failed = true;
    shard->run->result->branches[RUN_DISK_FAILED] += 1;
    journal_fail(shard->journal, PORT_IO, out);
    tell_all(shard, DISK_FAILED, out);
    abandon_checkpoint(shard, out);
}

static void begin_checkpoint(struct log_shard *shard, struct port_out *out)
{
    if (shard->is_checkpointing || shard->is_disk_failed || shard->is_recovering || shard->is_stopping) { return; }
    if (!journal_checkpoint_begin(shard->journal, out)) { return; }
    shard->is_checkpointing = true;
    shard->has_entries = false;
    shard->states_due = shard->shards;
    tell_all(shard, CHECKPOINT, out);
}

void log_want_checkpoint(struct log_shard *shard)
{
    push(&shard->inbox, &(struct port_message){.kind = shard->shard == 0 ? WANT_CHECKPOINT : 0});
}

static void add_state(struct log_shard *shard, const struct port_message *message, struct port_out *out)
{
    if (shard->states_due == 0) {
        tell(shard, STATE_TAKEN, message->from, out);
    } else if (journal_checkpoint_add(shard->journal, base_slice_of(message->lent, (size_t)message->lent_bytes),
                                      (uint64_t)message->from + 1, out) != BASE_OK) {
        push(&shard->states, message);
    }
}

static void close_backs(struct log_shard *shard, struct port_out *out)
{
    shard->is_stopping = true;
    ask_all(shard, CLOSE, out);
}

static void last_checkpoint(struct log_shard *shard, struct port_out *out)
{
    if (shard->is_checkpointing) { return; } /* that one first */
    shard->is_last_checkpoint = true;
    begin_checkpoint(shard, out);
    if (!shard->is_checkpointing) { close_backs(shard, out); }
}

static void on_checkpointed(struct log_shard *shard, const struct journal_out *item, struct port_out *out)
{
    shard->is_checkpointing = false;
    if (item->result == PORT_OK) {
        shard->run->result->branches[RUN_CHECKPOINT] += 1;
        tell_all(shard, CHECKPOINTED, out);
    }
    if (!shard->is_drained) { return; }
    bool is_enough = shard->is_last_checkpoint && (item->result != PORT_OK || !shard->has_entries);
    if (is_enough || shard->is_disk_failed) {
        close_backs(shard, out);
    } else {
        last_checkpoint(shard, out);
    }
}

static void on_replayed(struct log_shard *shard, const struct journal_out *item, struct port_out *out)
{
    struct log_run *run = shard->run;
    if (item->result != PORT_OK) {
        run->result->branches[RUN_START_REFUSED] += 1;
        if (!log_may_refuse(run)) { log_fail(run, "I18", "the journal can't be read: %s", port_rc_name(item->result)); }
        close_backs(shard, out);
        return;
    }
    if (run->clean == LOG_CLEAN && !item->is_clean) { log_fail(run, "I18", "a clean stop is not known of"); }
    if (run->clean == LOG_UNCLEAN && item->is_clean) {
        log_fail(run, "I18", "a stop that was none is taken for clean");
    }
    run->result
        ->branches[run->result->starts == 1 ? RUN_START_EMPTY : (item->is_clean ? RUN_START_CLEAN : RUN_START_DIRTY)] +=
        1;
    run->clean = LOG_UNCLEAN;
    shard->answers_due = shard->shards;
    struct port_message message = {.kind = RECOVERY_END};
    message.words[0] = item->is_clean ? PLOG_LAST_CLEAN : PLOG_LAST_UNCLEAN;
    for (uint32_t i = 0; i < shard->shards; i++) { send(shard, message, i, out); }
}

static bool journal_item(struct log_shard *shard, struct port_out *out)
{
    struct journal_view view;
    journal_view(shard->journal, &view);
    shard->run->is_journal_full = view.is_full && !view.is_failed;
    struct journal_out item;
    if (!journal_poll(shard->journal, &item)) { return false; }
    struct port_message message = {.kind = STATE_TAKEN};
    switch (item.kind) {
    case JOURNAL_OUT_STATE: give_state(shard, &item, out); break;
    case JOURNAL_OUT_REPLAY: give_entry(shard, &item, out); break;
    case JOURNAL_OUT_DAMAGE: log_fail(shard->run, "I20", "the journal finds damage"); break;
    case JOURNAL_OUT_REPLAYED: on_replayed(shard, &item, out); break;
    case JOURNAL_OUT_SYNCED: on_synced(shard, &item, out); break;
    case JOURNAL_OUT_FAILED: disk_failed(shard, out); break;
    case JOURNAL_OUT_WANT_CHECKPOINT: begin_checkpoint(shard, out); break;
    case JOURNAL_OUT_STATE_WRITTEN:
        tell(shard, STATE_TAKEN, (uint32_t)(item.token - 1), out);
        if (pop(&shard->states, &message)) { add_state(shard, &message, out); }
        break;
    case JOURNAL_OUT_CHECKPOINTED: on_checkpointed(shard, &item, out); break;
    case JOURNAL_OUT_WANT_HANDLE: break; /* it tries again by itself */
    case JOURNAL_OUT_STOPPED: tell_all(shard, END, out); break;
    }
    return true;
}

/* ---- what plog says ---- */

static bool plog_item(struct log_shard *shard, struct port_out *out)
{
    bool is_awaited = shard->is_draining && !shard->run->is_journal_full && !plog_is_quiet(shard->plog);
    if (shard->is_checkpoint_due && !is_awaited) {
        shard->is_checkpoint_due = false;
        plog_checkpoint(shard->plog, out);
        return true;
    }
    struct plog_out item;
    if (!plog_poll(shard->plog, &item)) { return false; }
    if (item.kind == PLOG_OUT_DISK_FAILED) { shard->run->is_disk_failed = true; }
    log_driver_out(shard->run, shard->shard, shard, &item, shard->now_ns, out);
    struct port_message message = {.kind = TO_JOURNAL};
    switch (item.kind) {
    case PLOG_OUT_RUN:
    case PLOG_OUT_CHANGE:
        put_run(&message, &item.run);
        message.words[9] = item.run_token;
        message.words[10] = item.run.piece_count;
        message.lent = unconst(item.run.pieces);
        message.lent_bytes = item.run.pieces == NULL ? 0 : item.run.size_bytes;
        send(shard, message, 0, out);
        break;
    case PLOG_OUT_STATE:
        message.kind = STATE;
        message.lent = item.block;
        message.lent_bytes = item.size_bytes;
        send(shard, message, 0, out);
        break;
    case PLOG_OUT_STATES_END: tell(shard, STATES_END, 0, out); break;
    case PLOG_OUT_REPLAYED:
        message.kind = TAKEN;
        message.words[0] = (uint64_t)item.result;
        send(shard, message, 0, out);
        break;
    case PLOG_OUT_RECOVERED:
        message.kind = RECOVERED;
        message.words[0] = (uint64_t)item.result;
        send(shard, message, 0, out);
        break;
    case PLOG_OUT_WANT_CHECKPOINT: tell(shard, WANT_CHECKPOINT, 0, out); break;
    case PLOG_OUT_DISK_FAILED: tell(shard, FAILED, 0, out); break;
    case PLOG_OUT_STOPPED: tell(shard, CLOSED, 0, out); break;
    case PLOG_OUT_WRITTEN:
    case PLOG_OUT_SYNCED:
    case PLOG_OUT_FAILED:
    case PLOG_OUT_READ:
    case PLOG_OUT_TIME:
    case PLOG_OUT_STARTED:
    case PLOG_OUT_TRUNCATED:
    case PLOG_OUT_EPOCH:
    case PLOG_OUT_WATERMARK:
    case PLOG_OUT_FULL:
    case PLOG_OUT_DELETED: break;
    }
    return true;
}

/* ---- messages ---- */

static void on_restore(struct log_shard *shard, const struct port_message *message, struct port_out *out)
{
    struct base_slice state = base_slice_of(message->lent, (size_t)message->lent_bytes);
    if (plog_restore(shard->plog, state, 1, out) != BASE_OK) {
        log_fail(shard->run, "I18", "a state of the checkpoint can't be restored");
        tell(shard, TAKEN, 0, out);
    }
}

static void on_replay(struct log_shard *shard, const struct port_message *message, struct port_out *out)
{
    struct plog_run run = get_run(message);
    struct base_slice bytes = base_slice_of(message->lent, (size_t)message->lent_bytes);
    if (plog_replay(shard->plog, &run, bytes, 1, out) != BASE_OK) {
        log_fail(shard->run, "I18", "an entry of the journal can't be replayed");
        tell(shard, TAKEN, 0, out);
    }
}

/* What could not be replayed must not be forgotten by a checkpoint: the start has failed. */
static void refuse_start(struct log_shard *shard, enum plog_result result, struct port_out *out)
{
    shard->run->result->branches[RUN_START_REFUSED] += 1;
    if (!log_may_refuse(shard->run)) { log_fail(shard->run, "I18", "a replay ends with %d", (int)result); }
    close_backs(shard, out);
}

static void on_taken(struct log_shard *shard, enum plog_result result, struct port_out *out)
{
    journal_taken(shard->journal, out);
    if (result != PLOG_OK && result != PLOG_DAMAGED && !shard->is_stopping) { refuse_start(shard, result, out); }
}

static void serve(struct log_shard *shard, struct port_out *out)
{
    shard->is_serving = true;
    log_driver_serve(shard->run, shard->shard, shard, out);
    (void)port_emit(out, PORT_READY, 0); /* it has no more to say */
}

static void drain(struct log_shard *shard, struct port_out *out)
{
    shard->is_stop_asked = false;
    ask_all(shard, DRAIN, out);
}

static void on_message(struct log_shard *shard, const struct port_message *message, struct port_out *out)
{
    switch (message->kind) {
    case TO_JOURNAL:
        shard->has_entries = true;
        if (shard->waiting.count > 0 || !journal_now(shard, message, out)) { push(&shard->waiting, message); }
        return;
    case JOURNALLED:
        if (message->words[0] != 0) {
            plog_journalled(shard->plog, message->words[0], (enum port_rc)message->words[1], out);
        }
        return;
    case RESTORE: on_restore(shard, message, out); return;
    case REPLAY: on_replay(shard, message, out); return;
    case TAKEN: on_taken(shard, (enum plog_result)message->words[0], out); return;
    case RECOVERY_END: plog_recovery_end(shard->plog, (enum plog_last_stop)message->words[0], out); return;
    case RECOVERED:
        if (shard->is_stopping) { return; } /* another could not recover */
        if (message->words[0] != PLOG_OK) {
            refuse_start(shard, (enum plog_result)message->words[0], out);
            return;
        }
        if (!is_last_answer(shard)) { return; }
        shard->is_recovering = false;
        journal_recovered(shard->journal, out);
        tell_all(shard, SERVE, out);
        if (shard->is_stop_asked) { drain(shard, out); }
        return;
    case SERVE: serve(shard, out); return;
    case CHECKPOINT: shard->is_checkpoint_due = true; return;
    case STATE: add_state(shard, message, out); return;
    case STATE_TAKEN: plog_state_taken(shard->plog, out); return;
    case STATES_END:
        if (shard->states_due == 0) { return; }
        shard->states_due -= 1;
        if (shard->states_due == 0) { journal_checkpoint_end(shard->journal, shard->is_last_checkpoint, out); }
        return;
    case CHECKPOINTED: plog_checkpointed(shard->plog); return;
    case WANT_CHECKPOINT: begin_checkpoint(shard, out); return;
    case FAILED: disk_failed(shard, out); return;
    case DISK_FAILED: plog_disk_failed(shard->plog, out); return;
    case DRAIN: shard->is_draining = true; return;
    case DRAINED:
        if (!is_last_answer(shard)) { return; }
        shard->is_drained = true;
        if (shard->is_disk_failed) {
            close_backs(shard, out);
        } else {
            last_checkpoint(shard, out);
        }
        return;
    case CLOSE: plog_stop(shard->plog, out); return;
    case CLOSED:
        if (is_last_answer(shard)) { journal_stop(shard->journal, out); }
        return;
    case END: (void)port_emit(out, PORT_STOPPED, 0); return; /* as above */
    default: return;
    }
}

/* ---- steps ---- */

static bool driver_item(struct log_shard *shard, struct port_out *out)
{
    if (!shard->is_serving) { return false; }
    if (shard->is_draining) {
        bool is_idle = log_driver_is_idle(shard->run, shard->shard);
        if (is_idle) {
            shard->is_serving = false; /* said once */
            tell(shard, DRAINED, 0, out);
            return true;
        }
        return log_driver_act(shard->run, shard->shard, shard, shard->now_ns, out);
    }
    return log_driver_act(shard->run, shard->shard, shard, shard->now_ns, out);
}

static void work(struct log_shard *shard, struct port_out *out)
{
    bool is_moving = true;
    while (is_moving) {
        if (shard->step_left == 0 || port_out_room(out) < STEP_EFFECTS_ROOM || port_out_message_room(out) < 32) {
            out->wants_continue = true;
            return;
        }
        shard->step_left -= 1;
        struct port_message message;
        is_moving = pop(&shard->inbox, &message);
        if (is_moving) { on_message(shard, &message, out); }
        if (shard->shard == 0 && journal_item(shard, out)) { is_moving = true; }
        if (plog_item(shard, out)) { is_moving = true; }
        if (!is_moving && driver_item(shard, out)) { is_moving = true; } /* it sees what plog has said */
    }
}

static void on_done(struct log_shard *shard, const struct port_event *event, struct port_out *out)
{
    switch (event->done.token >> 56) {
    case PLOG_TOKEN_ROOM: plog_done(shard->plog, event, out); return;
    case JOURNAL_TOKEN_ROOM: journal_done(shard->journal, event, out); return;
    case LOG_TOKEN_ROOM: log_driver_done(shard->run, shard, event, out); return;
    }
    UNREACHABLE();
}

static void step(void *machine, const struct port_event *event, struct port_out *out)
{
    struct log_shard *shard = machine;
    shard->now_ns = event->now_ns;
    shard->step_left = (uint32_t)shard->run->shape.step_max;
    switch (event->kind) {
    case PORT_EVENT_START:
        plog_start(shard->plog, event);
        if (shard->shard == 0) { journal_start(shard->journal, out); }
        break;
    case PORT_EVENT_DONE: on_done(shard, event, out); break;
    case PORT_EVENT_ALARM:
        if (shard->shard == 0) { journal_turn(shard->journal, event, out); }
        plog_alarm(shard->plog, event, out);
        break;
    case PORT_EVENT_TURN:
    case PORT_EVENT_CONTINUE:
        shard->wants_turn = shard->wants_continue = false;
        plog_turn(shard->plog, event, out);
        if (shard->shard == 0) { journal_turn(shard->journal, event, out); }
        break;
    case PORT_EVENT_MESSAGE: push(&shard->inbox, &event->message); break;
    case PORT_EVENT_STOP:
        if (shard->shard != 0) { break; }
        if (shard->is_recovering) {
            shard->is_stop_asked = true;
        } else if (!shard->is_draining && !shard->is_stopping) {
            drain(shard, out);
        }
        break;
    case PORT_EVENT_COUNT: UNREACHABLE();
    }
    work(shard, out);
    shard->wants_turn |= out->wants_turn;
    shard->wants_continue |= out->wants_continue;
    out->wants_turn = shard->wants_turn;
    out->wants_continue = shard->wants_continue;
    port_alarm(out, plog_next_alarm_ns(shard->plog));
    if (shard->shard == 0) { port_alarm(out, journal_next_alarm_ns(shard->journal)); }
}

static void *create(void *context, const struct world_boot *boot)
{
    struct log_run *run = context;
    struct log_shard *shard = calloc(1, sizeof *shard);
    CHECK(shard != NULL);
    *shard = (struct log_shard){
        .run = run, .shard = boot->shard, .shards = boot->shard_count, .tokens_first = 1, .is_recovering = true};
    struct base_arena arena;
    size_t tables = LOG_REGION_BYTES / 2;
    base_arena_init_zeroed(&arena, boot->region.at, tables);
    struct base_region rest = {.at = (uint8_t *)boot->region.at + tables, .size_bytes = LOG_REGION_BYTES - tables};
    const size_t reserve_bytes[BASE_CLASS_COUNT] = {rest.size_bytes / 4, 0, 0};
    struct plog_config plog = {.shard = boot->shard,
                               .logs_max = 2 * LOG_PAIRS_MAX,
                               .segments_max =
                                   2048, /* no shape fills so many: an append would be refused for want of one */
                               .appends_max = 256,
                               .reads_max = 64,
                               .producers_max = 64,
                               .files_max = 12,
                               .inline_bytes_max = 4 << 10,
                               .run_bytes_max = LOG_RUN_BYTES_MAX,
                               .step_max = (uint32_t)run->shape.step_max,
                               .producer_expiry_ms = UINT64_C(864000000),
                               .is_check_slow = true};
    struct journal_config journal = {.file_slot_first = plog.files_max,
                                     .entries_max = 128,
                                     .group_bytes_max = 32 << 10,
                                     .file_bytes = 64 << 10,
                                     .bytes_max = (uint64_t)run->shape.journal_bytes,
                                     .step_max = (uint32_t)run->shape.step_max,
                                     .is_check_slow = true};
    struct base_prng dice;
    base_prng_init(&dice, boot->seed, 2);
    base_prng_fill(&dice, journal.format_id.b, sizeof journal.format_id.b);
    enum base_rc rc = base_pages_create(rest, reserve_bytes, &shard->pages);
    CHECK(rc == BASE_OK);
    rc = plog_create(&arena, shard->pages, &plog, &shard->plog);
    CHECK(rc == BASE_OK);
    if (boot->shard == 0) { rc = journal_create(&arena, shard->pages, &journal, &shard->journal); }
    CHECK(rc == BASE_OK);
    return shard;
}

static void destroy(void *context, void *machine)
{
    (void)context;
    struct log_shard *shard = machine;
    free(shard->inbox.at);
    free(shard->waiting.at);
    free(shard->states.at);
    free(shard->tokens);
    free(shard);
}

const struct world_machine log_machine = {.create = create, .step = step, .destroy = destroy};
