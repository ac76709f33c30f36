/* checkpoint.c: the states of all logs, written to the file that does not hold the newest checkpoint.
 *
 * Header, states and an end record in one file, then its sync and that of the directory. Only then is it the newest: begin
 * moves, and what lies before it may go. A crash at any point leaves the other file whole. Nothing is renamed.
 *
 * THE MOVES  IDLE -begin-> OPENING -> GATHERING <-> WRITING; the end written -> SYNCING -> SYNCING_DIR -> IDLE.
 *            A write that fails: the rest is dropped, CHECKPOINTED says so, and the one before stays the newest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "journal__machine.h"

#include "codec/codec.h"

static uint64_t ck_token(void) { return journal__token(JOURNAL__FOR_CHECKPOINT, 0); }

bool journal__ck_is_busy(const struct journal *journal)
{
    enum journal__ck_stage stage = journal->ck.stage;
    return stage != JOURNAL__CK_IDLE && stage != JOURNAL__CK_GATHERING;
}

/* Greater than any that the start found, or that a group calls synced: what a group vouches for is a number. */
static uint64_t sequence_next(const struct journal *journal)
{
    const struct journal__load *load = &journal->load;
    return base_max_u64(journal->checkpoint_synced, base_max_u64(load->checkpoint_max, load->checkpoint_seen)) + 1;
}

static void begin(struct journal *journal, uint32_t which, struct port_out *out)
{
    struct journal__ck *ck = &journal->ck;
    CHECK(ck->stage == JOURNAL__CK_IDLE);
    uint32_t slot = journal__slot_take(journal);
    if (slot == JOURNAL__NO_SLOT) { /* a slow disk still closes the files of those before: as if out of handles */
        *ck = (struct journal__ck){.stage = JOURNAL__CK_GATHERING, .rc = PORT_NO_HANDLES, .slot = JOURNAL__NO_SLOT};
        return;
    }
    *ck = (struct journal__ck){
        .stage = JOURNAL__CK_OPENING,
        .which = which,
        .slot = slot,
        .sequence = sequence_next(journal),
        .begin = journal->end,
        .begin_sequence = journal->sequence,
    };
    struct journal__ck_head head = {
        .id = journal->id,
        .life = journal->life,
        .sequence = ck->sequence,
        .begin = ck->begin,
        .begin_sequence = ck->begin_sequence,
        .file_bytes = journal->file_bytes,
    };
    journal__put_ck_head(ck->ends, &head);
    ck->crc_all = codec_crc32c(0, ck->ends, JOURNAL__CK_HEAD_BYTES);
    struct base_text text;
    base_text_init(&text, journal->slots[slot].path, JOURNAL__NAME_BYTES);
    journal__name_checkpoint(&text, which);
    (void)journal__emit_open(journal, slot, ck_token(), PORT_OPEN_WRITE | PORT_OPEN_CREATE, out);
}

bool journal_checkpoint_begin(struct journal *journal, struct port_out *out)
{
    CHECK(journal->state == JOURNAL__READY || journal__is_failed(journal));
    struct journal__ck *ck = &journal->ck;
    if (ck->stage != JOURNAL__CK_IDLE || ck->is_result_due) { return false; }
    journal->is_checkpoint_wanted = false;
    journal->is_checkpoint_asked = false;
    if (journal__is_failed(journal)) {
        *ck = (struct journal__ck){.stage = JOURNAL__CK_GATHERING, .rc = journal->failed_rc, .slot = JOURNAL__NO_SLOT};
        return true;
    }
    begin(journal, 1 - journal->checkpoint_which, out);
    return true;
}

void journal__ck_format(struct journal *journal, struct port_out *out)
{
    begin(journal, 0, out);
    journal->ck.is_format = true;
    journal->ck.is_ended = true;
}

enum base_rc journal_checkpoint_add(struct journal *journal, struct base_slice state, uint64_t token,
                                    struct port_out *out)
{
    struct journal__ck *ck = &journal->ck;
    CHECK(ck->stage != JOURNAL__CK_IDLE);
    CHECK(!ck->is_ended);
    CHECK(state.size_bytes <= JOURNAL__STATE_BYTES_MAX);
    if (ck->add_tail - ck->add_polled >= JOURNAL__ADDS) { return BASE_FULL; }
    uint32_t index = (uint32_t)(ck->add_tail % JOURNAL__ADDS);
    ck->adds[index] = state;
    ck->tokens[index] = token;
    struct journal__ck_state head = {
        .sequence = ck->sequence,
        .index = ck->count,
        .size_bytes = (uint32_t)state.size_bytes,
        .crc = codec_crc32c(0, state.at, state.size_bytes),
    };
    journal__put_ck_state(ck->heads[index], &head);
    ck->crc_all = codec_crc32c(ck->crc_all, ck->heads[index], JOURNAL__CK_STATE_BYTES);
    ck->count += 1;
    ck->add_tail += 1;
    journal__ck_pump(journal, out);
    return BASE_OK;
}

void journal_checkpoint_end(struct journal *journal, bool is_clean, struct port_out *out)
{
    struct journal__ck *ck = &journal->ck;
    CHECK(ck->stage != JOURNAL__CK_IDLE);
    CHECK(!ck->is_ended);
    ck->is_ended = true;
    ck->is_clean = is_clean;
    journal__ck_pump(journal, out);
}

static void add_piece(struct journal__ck *ck, const uint8_t *at, uint64_t size_bytes)
{
    if (size_bytes == 0) { return; }
    CHECK(ck->piece_count < BASE_ARRAY_COUNT(ck->pieces));
    ck->pieces[ck->piece_count] = (struct port_piece){.kind = PORT_MEMORY, .at = at, .size_bytes = size_bytes};
    ck->piece_count += 1;
}

static void emit_write(struct journal *journal, struct port_out *out)
{
    struct journal__ck *ck = &journal->ck;
    struct port_effect *effect = journal__emit_file(journal, PORT_WRITE, ck->slot, ck_token(), out);
    effect->position_bytes = ck->at;
    effect->pieces = ck->pieces + ck->piece_first;
    effect->piece_count = ck->piece_count - ck->piece_first;
    effect->size_bytes = 0;
    for (uint32_t i = ck->piece_first; i < ck->piece_count; i++) { effect->size_bytes += ck->pieces[i].size_bytes; }
    ck->stage = JOURNAL__CK_WRITING;
}

static void write_waiting(struct journal *journal, struct port_out *out)
{
    struct journal__ck *ck = &journal->ck;
    ck->piece_first = 0;
    ck->piece_count = 0;
    if (ck->at == 0) { add_piece(ck, ck->ends, JOURNAL__CK_HEAD_BYTES); }
    ck->writing_count = (uint32_t)(ck->add_tail - ck->add_written);
    for (uint64_t at = ck->add_written; at < ck->add_tail; at++) {
        add_piece(ck, ck->heads[at % JOURNAL__ADDS], JOURNAL__CK_STATE_BYTES);
        add_piece(ck, ck->adds[at % JOURNAL__ADDS].at, ck->adds[at % JOURNAL__ADDS].size_bytes);
    }
    emit_write(journal, out);
}

static void write_end(struct journal *journal, struct port_out *out)
{
    struct journal__ck *ck = &journal->ck;
    bool is_idle = journal->end == ck->begin && journal->queue_tail == journal->queue_gathered;
    struct journal__ck_end end = {
        .sequence = ck->sequence,
        .count = ck->count,
        .line = journal->line,
        .crc_all = ck->crc_all,
        .is_clean = ck->is_clean && is_idle,
    };
    journal__put_ck_end(ck->ends, &end);
    ck->piece_first = 0;
    ck->piece_count = 0;
    ck->writing_count = 0;
    add_piece(ck, ck->ends, JOURNAL__CK_END_BYTES);
    ck->is_end_written = true;
    emit_write(journal, out);
}

static void finish(struct journal *journal, struct port_out *out)
{
    struct journal__ck *ck = &journal->ck;
    if (ck->slot != JOURNAL__NO_SLOT && journal->slots[ck->slot].state == JOURNAL__SLOT_OPEN) {
        journal__slot_close(journal, ck->slot, out);
    }
    ck->slot = JOURNAL__NO_SLOT;
    ck->stage = JOURNAL__CK_IDLE;
    ck->result = ck->rc;
    ck->is_result_due = !ck->is_format;
    if (ck->rc != PORT_OK) {
        journal->is_checkpoint_wanted = true;
        journal->want_again_ns = base_deadline_ns(journal->now_ns, JOURNAL__RETRY_NS);
        if (ck->rc == PORT_NO_HANDLES) { journal->is_handle_wanted = true; }
        return;
    }
    CHECK(ck->begin >= journal->begin);
    journal->checkpoint_synced = ck->sequence;
    journal->checkpoint_which = ck->which;
    journal->begin = ck->begin;
    journal->is_checkpoint_wanted = false;
    /* It may free nothing for what waits for a file: then the next one is not begun at once. */
    if (journal->files.is_urgent) { journal->want_again_ns = base_deadline_ns(journal->now_ns, JOURNAL__RETRY_NS); }
    journal->files.is_short = false;
    out->wants_turn = true; /* what waited for room, and files that may go */
}

void journal__ck_pump(struct journal *journal, struct port_out *out)
{
    struct journal__ck *ck = &journal->ck;
    if (ck->stage != JOURNAL__CK_GATHERING) { return; }
    if (ck->rc == PORT_OK && journal__is_failed(journal)) { ck->rc = journal->failed_rc; }
    if (ck->rc != PORT_OK) {
        ck->add_written = ck->add_tail;
        if (ck->is_ended) { finish(journal, out); }
        return;
    }
    if (ck->add_written < ck->add_tail || (ck->is_ended && ck->at == 0)) {
        write_waiting(journal, out);
    } else if (ck->is_ended && !ck->is_end_written) {
        /* What was under way when it began is not replayed from it, so it must be synced first. */
        if (journal->line >= ck->begin || ck->is_format) { write_end(journal, out); }
    } else if (ck->is_end_written) {
        (void)journal__emit_file(journal, PORT_SYNC, ck->slot, ck_token(), out);
        ck->stage = JOURNAL__CK_SYNCING;
    }
}

/* The one before stays the newest, whatever was written of this one. */
static void failed(struct journal *journal, enum port_rc rc)
{
    journal->ck.rc = rc;
    if (rc == PORT_NO_SPACE) { journal__reserve_release(journal); }
}

static void written(struct journal *journal, const struct port_event *event, struct port_out *out)
{
    struct journal__ck *ck = &journal->ck;
    uint64_t left = 0;
    for (uint32_t i = ck->piece_first; i < ck->piece_count; i++) { left += ck->pieces[i].size_bytes; }
    ck->stage = JOURNAL__CK_GATHERING;
    if (event->done.rc != PORT_OK || event->done.count == 0 || event->done.count > left) {
        failed(journal, event->done.rc != PORT_OK ? event->done.rc : PORT_IO);
        return;
    }
    ck->at += event->done.count;
    if (event->done.count < left) {
        journal__skip_pieces(ck->pieces, &ck->piece_first, ck->piece_count, event->done.count);
        if (!journal__is_failed(journal)) { emit_write(journal, out); }
        return;
    }
    ck->add_written += ck->writing_count;
}

void journal__ck_done(struct journal *journal, const struct port_event *event, struct port_out *out)
{
    struct journal__ck *ck = &journal->ck;
    enum port_rc rc = event->done.rc;
    switch (ck->stage) {
    case JOURNAL__CK_OPENING:
        journal->slots[ck->slot].state = rc == PORT_OK ? JOURNAL__SLOT_OPEN : JOURNAL__SLOT_FREE;
        ck->stage = JOURNAL__CK_GATHERING;
        if (rc != PORT_OK) {
            ck->slot = JOURNAL__NO_SLOT; /* another's, as soon as it asks */
            failed(journal, rc);
        }
        break;
    case JOURNAL__CK_WRITING: written(journal, event, out); break;
    case JOURNAL__CK_SYNCING:
        ck->stage = JOURNAL__CK_GATHERING;
        if (rc != PORT_OK) { /* never synced again: whatever the word, this disk has lost something */
            ck->rc = rc;
            journal__fail(journal, rc);
        } else if (!journal__is_failed(journal)) {
            (void)journal__emit_dir(journal, PORT_SYNC_DIR, JOURNAL__DIR, ck_token(), out);
            ck->stage = JOURNAL__CK_SYNCING_DIR;
        }
        break;
    case JOURNAL__CK_SYNCING_DIR:
        ck->stage = JOURNAL__CK_GATHERING;
        if (rc != PORT_OK) {
            ck->rc = rc;
            journal__fail(journal, rc);
        } else if (!journal__is_failed(journal)) {
            finish(journal, out);
            return;
        }
        break;
    case JOURNAL__CK_IDLE:
    case JOURNAL__CK_GATHERING: CHECK(false); break;
    }
    journal__ck_pump(journal, out);
}
