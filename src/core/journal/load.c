/* load.c: the start: an empty disk is formatted, else the newest good checkpoint is found and given out.
 *
 * FORMAT happens only where there was nothing: no directory, or the remains of a format that a crash cut short: nothing but
 * a first file without a group in it and a first checkpoint that was never whole. Whatever else has no good checkpoint is
 * damage: the truth about this disk's logs is lost, and the journal can't be used.
 *
 * ORDER of a format: directory, first file, first checkpoint, first group; each durable before the next.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "journal__machine.h"

#include "codec/codec.h"

static uint64_t load_token(void) { return journal__token(JOURNAL__FOR_LOAD, 0); }

void journal__load_end(struct journal *journal, enum port_rc rc)
{
    struct journal__load *load = &journal->load;
    if (load->stage == JOURNAL__LOAD_DONE) { return; }
    load->stage = JOURNAL__LOAD_DONE;
    if (load->rows != NULL) { base_pages_give(journal->pages, load->rows); }
    load->rows = NULL;
    if (journal->reader.blob != NULL) { base_pages_give(journal->pages, journal->reader.blob); }
    journal->reader.blob = NULL;
    if (journal->reader.window != NULL) { base_pages_give(journal->pages, journal->reader.window); }
    journal->reader.window = NULL;
    bool is_clean = load->end.is_clean && !load->has_damage && !load->is_begun;
    load->is_waiting = false;
    load->is_finding = false;
    journal->out = (struct journal_out){.kind = JOURNAL_OUT_REPLAYED,
                                        .result = rc,
                                        .is_clean = rc == PORT_OK && is_clean,
                                        .is_torn = load->is_torn};
    journal->has_out = true;
    journal->state = rc == PORT_OK ? JOURNAL__REPLAYED : JOURNAL__FAILED;
    if (rc == PORT_OK) { journal__limits(journal); }
    journal->failed_rc = rc;
}

void journal__load_damage(struct journal *journal, uint64_t position)
{
    CHECK(!journal->has_out);
    journal->out = (struct journal_out){.kind = JOURNAL_OUT_DAMAGE, .result = PORT_IO, .position_bytes = position};
    journal->has_out = true;
    journal->load.is_finding = true;
    journal->load.has_damage = true;
}

bool journal__load_has_file(const struct journal *journal, uint64_t number)
{
    uint64_t base = journal->load.chosen.begin / journal->file_bytes;
    if (number < base || number - base >= JOURNAL__NUMBERS) { return false; }
    uint64_t bit = number - base;
    return ((uint32_t)journal->load.numbers[bit / 8] & 1u << (bit % 8)) != 0;
}

/* True when the completion of the effect that this stage asked for is there to be judged; false: it was just asked. */
static bool ask_dir(struct journal *journal, enum port_effect_kind kind, const char *path, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (load->is_asked) {
        load->is_asked = false;
        return true;
    }
    (void)journal__emit_dir(journal, kind, path, load_token(), out);
    load->is_asked = true;
    load->is_busy = true;
    return false;
}

static bool make_dir(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (!ask_dir(journal, PORT_MAKE_DIR, JOURNAL__DIR, out)) { return false; }
    if (load->rc != PORT_OK && load->rc != PORT_EXISTS) {
        journal__load_end(journal, load->rc);
        return false;
    }
    load->is_new = load->rc == PORT_OK;
    load->stage = JOURNAL__LOAD_SYNC_ROOT;
    return true;
}

static bool sync_root(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (!ask_dir(journal, PORT_SYNC_DIR, "", out)) { return false; }
    if (load->rc != PORT_OK) {
        journal__load_end(journal, load->rc);
        return false;
    }
    load->stage = load->is_new ? JOURNAL__LOAD_FORMAT : JOURNAL__LOAD_LIST;
    return true;
}

/* ---- what is there ------------------------------------------------------------------------------------------------------ */

static void log_unknown(struct base_slice name, struct port_out *out)
{
    if (port_out_room(out) <= JOURNAL_EFFECTS_MAX / 2) { return; } /* the effects of this step come first */
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, JOURNAL__DIR ": left alone, not a file of this journal: ");
    base_text_add_slice(&text, name);
    port_log_end(out, PORT_WARN, "journal", &text);
}

static void see_file(struct journal *journal, uint64_t number)
{
    struct journal__load *load = &journal->load;
    if (load->stage == JOURNAL__LOAD_LIST) {
        load->has_numbers = true;
        load->number_max = base_max_u64(load->number_max, number);
        return;
    }
    uint64_t base = load->chosen.begin / journal->file_bytes;
    if (number >= base && number - base < JOURNAL__NUMBERS) {
        load->numbers[(number - base) / 8] |= (uint8_t)(1u << ((number - base) % 8));
        load->number_max = base_max_u64(load->number_max, number);
    } else if (number < base && base - number <= JOURNAL__NUMBERS) {
        journal->files.old_first = base_min_u64(journal->files.old_first, number);
    }
}

/* Walks the entries of one PORT_LIST answer. How many there were. */
static uint64_t see_entries(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    const uint8_t *at = journal->reader.window;
    uint64_t left = base_min_u64(load->count, JOURNAL__WINDOW_BYTES);
    uint64_t seen = 0;
    uint32_t logged = 0;
    while (left >= PORT_ENTRY_HEAD_BYTES) {
        uint64_t name_bytes = base_get_u16(at + 9);
        if (left - PORT_ENTRY_HEAD_BYTES < name_bytes) { break; }
        struct base_slice name = base_slice_of(at + PORT_ENTRY_HEAD_BYTES, name_bytes);
        uint64_t number = 0;
        uint32_t which = 0;
        if (at[0] == 0 && journal__is_file_name(name, &number)) {
            see_file(journal, number);
        } else if (at[0] == 0 && journal__is_checkpoint_name(name, &which)) {
            load->is_there[which] = true;
            load->size_bytes[which] = base_get_u64(at + 1);
        } else if (at[0] == 0 && base_slice_equal(name, base_slice_text(JOURNAL__RESERVE_NAME))) {
            journal->reserve.is_there = true;
        } else if (load->stage == JOURNAL__LOAD_LIST && logged < 4) {
            log_unknown(name, out);
            logged += 1;
        }
        seen += 1;
        at += PORT_ENTRY_HEAD_BYTES + name_bytes;
        left -= PORT_ENTRY_HEAD_BYTES + name_bytes;
    }
    return seen;
}

static bool list(struct journal *journal, enum journal__load_stage next, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (!ask_dir(journal, PORT_LIST, JOURNAL__DIR, out)) {
        struct port_effect *effect = &out->effects[out->effect_count - 1];
        effect->buffer = journal->reader.window;
        effect->size_bytes = JOURNAL__WINDOW_BYTES;
        effect->position_bytes = load->list_skip;
        journal__read_forget(journal);
        return false;
    }
    if (load->rc != PORT_OK) {
        journal__load_end(journal, load->rc);
        return false;
    }
    uint64_t seen = see_entries(journal, out);
    load->list_skip += seen;
    if (load->is_more && seen > 0) { return true; }
    load->list_skip = 0;
    load->stage = next;
    return true;
}

/* ---- checkpoints ---------------------------------------------------------------------------------------------------------- */

/* No checkpoint is good. */
static bool format_or_refuse(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    bool is_first = !load->is_there[1] && load->size_bytes[0] <= JOURNAL__PAGE_BYTES && load->number_max == 0;
    if (is_first && load->has_numbers) {
        const uint8_t *head = journal__read(journal, 0, 0, JOURNAL__HEAD_BYTES, out);
        if (head == NULL) { return false; }
        is_first = !journal__is_any_head(head);
    }
    if (!is_first) {
        if (!load->has_damage) {
            journal__load_damage(journal, 0);
            return true;
        }
        journal__load_end(journal, PORT_IO);
        return false;
    }
    journal__read_close(journal, out);
    load->stage = JOURNAL__LOAD_FORMAT;
    return true;
}

static void choose_next(struct journal *journal)
{
    struct journal__load *load = &journal->load;
    const struct journal__ck_head *heads = load->heads;
    load->which = load->is_head_good[0] ? 0 : 1;
    if (load->is_head_good[0] && load->is_head_good[1] && heads[1].sequence > heads[0].sequence) { load->which = 1; }
    load->at = JOURNAL__CK_HEAD_BYTES;
    load->index = 0;
    load->has_state = false;
}

static bool read_heads(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (load->looked == 2) {
        choose_next(journal);
        load->stage = JOURNAL__LOAD_VERIFY;
        return true;
    }
    uint32_t which = load->looked;
    if (load->is_there[which]) {
        const uint8_t *at = journal__read(journal, JOURNAL__CHECKPOINT_A + which, 0, JOURNAL__CK_HEAD_BYTES, out);
        if (at == NULL) { return false; }
        load->is_head_good[which] = journal__get_ck_head(at, &load->heads[which]);
        if (load->is_head_good[which]) {
            load->checkpoint_max = base_max_u64(load->checkpoint_max, load->heads[which].sequence);
            load->life_max = load->life_max > load->heads[which].life ? load->life_max : load->heads[which].life;
        }
    }
    load->looked += 1;
    return true;
}

static bool bad_checkpoint(struct journal *journal)
{
    struct journal__load *load = &journal->load;
    load->is_head_good[load->which] = false;
    choose_next(journal);
    return true;
}

/* The whole checkpoint must be good before a state of it is given out. */
static bool verify(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (!load->is_head_good[load->which]) { return format_or_refuse(journal, out); }
    const struct journal__ck_head *head = &load->heads[load->which];
    uint64_t number = JOURNAL__CHECKPOINT_A + load->which;
    if (load->has_state) {
        uint32_t sum = 0;
        if (!journal__read_sum(journal, number, load->at, load->state.size_bytes, &sum, out)) {
            return !journal->reader.is_busy && load->stage == JOURNAL__LOAD_VERIFY;
        }
        if (sum != load->state.crc) { return bad_checkpoint(journal); }
        load->at += load->state.size_bytes;
        load->index += 1;
        load->has_state = false;
        return true;
    }
    const uint8_t *at = journal__read(journal, number, load->at, JOURNAL__CK_END_BYTES, out);
    if (at == NULL) { return false; }
    if (load->at == JOURNAL__CK_HEAD_BYTES) {
        uint8_t again[JOURNAL__CK_HEAD_BYTES];
        journal__put_ck_head(again, head);
        load->crc_all = codec_crc32c(0, again, sizeof again);
    }
    struct journal__ck_end end;
    if (journal__get_ck_end(at, &end)) {
        bool is_good = end.sequence == head->sequence && end.count == load->index && end.crc_all == load->crc_all;
        if (!is_good) { return bad_checkpoint(journal); }
        load->end = end;
        load->chosen = *head;
        load->chosen_bytes = load->at + JOURNAL__CK_END_BYTES;
        load->at = JOURNAL__CK_HEAD_BYTES;
        load->stage = JOURNAL__LOAD_STATES;
        return true;
    }
    bool is_good = journal__get_ck_state(at, &load->state) && load->state.sequence == head->sequence &&
                   load->state.index == load->index && load->state.size_bytes <= JOURNAL__STATE_BYTES_MAX;
    /* A state that does not fit in the file is not read for nothing. */
    if (!is_good || load->at + load->state.size_bytes > load->size_bytes[load->which]) {
        return bad_checkpoint(journal);
    }
    load->crc_all = codec_crc32c(load->crc_all, at, JOURNAL__CK_STATE_BYTES);
    load->at += JOURNAL__CK_STATE_BYTES;
    load->has_state = true;
    return true;
}

static bool give_states(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    uint64_t number = JOURNAL__CHECKPOINT_A + load->which;
    if (load->at + JOURNAL__CK_END_BYTES >= load->chosen_bytes) {
        journal->id = load->chosen.id;
        journal->file_bytes = load->chosen.file_bytes;
        journal->begin = load->chosen.begin;
        journal->files.old_first = load->chosen.begin / journal->file_bytes;
        load->number_max = journal->files.old_first;
        load->stage = JOURNAL__LOAD_LIST_FILES;
        return true;
    }
    if (!load->has_state) {
        const uint8_t *at = journal__read(journal, number, load->at, JOURNAL__CK_STATE_BYTES, out);
        if (at == NULL) { return false; }
        if (!journal__get_ck_state(at, &load->state)) { /* it was good a moment ago: this disk can't be trusted */
            journal__load_end(journal, PORT_IO);
            return false;
        }
        load->at += JOURNAL__CK_STATE_BYTES;
        load->has_state = true;
    }
    const uint8_t *bytes = journal__read_blob(journal, number, load->at, load->state.size_bytes, out);
    if (bytes == NULL) { return !journal->reader.is_busy && load->stage == JOURNAL__LOAD_STATES; }
    journal->out = (struct journal_out){.kind = JOURNAL_OUT_STATE,
                                        .bytes = base_slice_of(bytes, load->state.size_bytes),
                                        .position_bytes = load->at};
    journal->has_out = true;
    load->is_waiting = true;
    load->at += load->state.size_bytes;
    load->has_state = false;
    return false;
}

/* ---- going on -------------------------------------------------------------------------------------------------------------- */

/* False: it is being made; or it can't be, and the load has ended. */
static bool has_next_file(struct journal *journal, uint64_t number_max, struct port_out *out)
{
    if (journal->files.is_next_ready) { return true; }
    if (journal->files.is_short && journal->reserve.is_wanted && journal->reserve.is_there) {
        journal->files.is_short = false; /* what is kept in reserve goes first: see reserve.c */
        out->wants_turn = true;
        return false;
    }
    if (journal->files.is_short) {
        journal__load_end(journal, journal->files.rc);
    } else if (!journal__files_is_busy(journal) && !journal__reserve_is_busy(journal)) {
        journal__files_want(journal, number_max, out);
    }
    return false;
}

static bool format(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (journal->current_slot == JOURNAL__NO_SLOT) {
        journal->id = journal->config.format_id;
        if (!has_next_file(journal, 0, out)) { return false; }
        journal__files_switch(journal);
        journal->sequence = 1;
        journal->life = 0;
        load->is_begun = true; /* never clean */
        journal__ck_format(journal, out);
        return false;
    }
    if (journal->ck.stage != JOURNAL__CK_IDLE) { return false; }
    if (journal->ck.rc != PORT_OK) {
        journal__load_end(journal, journal->ck.rc);
        return false;
    }
    load->chosen.begin = 0;
    load->checkpoint_max = journal->checkpoint_synced;
    load->stage = JOURNAL__LOAD_MARK;
    return true;
}

/* The file to go on in: where the chain ends, or a new one when that one is missing, full, or damaged at its end. */
static bool open_current(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    uint64_t number = journal->end / journal->file_bytes;
    if (load->is_fresh && !load->is_cut) {
        if (!has_next_file(journal, load->number_max, out)) { return false; }
        journal__files_switch(journal);
        load->stage = JOURNAL__LOAD_MARK;
        return true;
    }
    if (!load->is_asked) {
        journal__read_close(journal, out);
        uint32_t slot = journal__slot_take(journal);
        if (slot == JOURNAL__NO_SLOT) { return false; } /* all are closing: their completions come here again */
        struct base_text text;
        base_text_init(&text, journal->slots[slot].path, JOURNAL__NAME_BYTES);
        journal__name_file(&text, number);
        (void)journal__emit_open(journal, slot, load_token(), PORT_OPEN_WRITE | PORT_OPEN_FRESH, out);
        journal->current_slot = slot;
        journal->current_number = number;
        load->is_asked = true;
        load->is_busy = true;
        return false;
    }
    load->is_asked = false;
    if (load->rc != PORT_OK) {
        journal->current_slot = JOURNAL__NO_SLOT;
        journal__load_end(journal, load->rc);
        return false;
    }
    load->stage = JOURNAL__LOAD_MARK;
    return true;
}

/* The first group of this life has no entries. Once it is synced, groups of lives before that a cut left behind can't come
 * back (lives never fall along the chain), and a stop before it is not clean any more. */
static bool mark(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (!load->is_asked) {
        journal->life = load->life_max + 1;
        struct journal__head head = {
            .id = journal->id,
            .life = journal->life,
            .sequence = journal->sequence,
            .position = journal->end,
            .bytes = JOURNAL__PAGE_BYTES,
            .line = journal->end,
            .checkpoint = journal->checkpoint_synced,
        };
        uint8_t *copy = journal->line_page + JOURNAL__PAGE_BYTES - JOURNAL__TRAILER_BYTES - JOURNAL__HEAD_BYTES;
        memset(journal->line_page, 0, JOURNAL__PAGE_BYTES);
        journal__put_head(journal->line_page, &head);
        journal__put_head(copy, &head);
        journal__put_trailer(copy + JOURNAL__HEAD_BYTES, (struct journal__trailer){journal->end, JOURNAL__HEAD_BYTES});
        uint64_t done = load->mark_done;
        journal->line_piece = (struct port_piece){.kind = PORT_MEMORY,
                                                  .at = journal->line_page + done,
                                                  .size_bytes = JOURNAL__PAGE_BYTES - done};
        struct port_effect *effect = journal__emit_file(journal, PORT_WRITE, journal->current_slot, load_token(), out);
        effect->position_bytes = journal->end % journal->file_bytes + done;
        effect->pieces = &journal->line_piece;
        effect->piece_count = 1;
        effect->size_bytes = journal->line_piece.size_bytes;
        load->is_asked = true;
        load->is_busy = true;
        return false;
    }
    load->is_asked = false;
    if (load->rc != PORT_OK || load->count == 0 || load->count > journal->line_piece.size_bytes) {
        journal__load_end(journal, load->rc != PORT_OK ? load->rc : PORT_IO);
        return false;
    }
    load->mark_done += load->count;
    if (load->mark_done < JOURNAL__PAGE_BYTES) { return true; }
    load->stage = JOURNAL__LOAD_SYNC_MARK;
    return true;
}

static bool sync_mark(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (!load->is_asked) {
        (void)journal__emit_file(journal, PORT_SYNC, journal->current_slot, load_token(), out);
        load->is_asked = true;
        load->is_busy = true;
        return false;
    }
    load->is_asked = false;
    if (load->rc != PORT_OK) {
        journal__load_end(journal, load->rc);
        return false;
    }
    journal->end += JOURNAL__PAGE_BYTES;
    journal->sequence += 1;
    journal->line = journal->end;
    if (load->is_cut) { /* now the new file, and a mark at its begin */
        journal__slot_close(journal, journal->current_slot, out);
        journal->current_slot = JOURNAL__NO_SLOT;
        load->is_cut = false;
        load->mark_done = 0;
        load->stage = JOURNAL__LOAD_OPEN;
        return true;
    }
    journal__read_close(journal, out);
    journal__load_end(journal, PORT_OK);
    return false;
}

/* Names that a life before this one made, and died before it synced them: a group of this life must not outlive the checkpoint
 * that it builds upon. */
static bool sync_dir(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (!ask_dir(journal, PORT_SYNC_DIR, JOURNAL__DIR, out)) { return false; }
    if (load->rc != PORT_OK) {
        journal__load_end(journal, load->rc);
        return false;
    }
    load->stage = JOURNAL__LOAD_OPEN;
    return true;
}

static bool step_stage(struct journal *journal, struct port_out *out)
{
    switch (journal->load.stage) {
    case JOURNAL__LOAD_MAKE_DIR: return make_dir(journal, out);
    case JOURNAL__LOAD_SYNC_ROOT: return sync_root(journal, out);
    case JOURNAL__LOAD_LIST: return list(journal, JOURNAL__LOAD_HEADS, out);
    case JOURNAL__LOAD_HEADS: return read_heads(journal, out);
    case JOURNAL__LOAD_VERIFY: return verify(journal, out);
    case JOURNAL__LOAD_STATES: return give_states(journal, out);
    case JOURNAL__LOAD_LIST_FILES: return list(journal, JOURNAL__LOAD_SURVEY, out);
    case JOURNAL__LOAD_SURVEY: return journal__survey(journal, out);
    case JOURNAL__LOAD_REPLAY: return journal__replay(journal, out);
    case JOURNAL__LOAD_SETTLE: return journal__settle(journal, out);
    case JOURNAL__LOAD_SETTLE_CHECKPOINT: return journal__settle_checkpoint(journal, out);
    case JOURNAL__LOAD_SYNC_DIR: return sync_dir(journal, out);
    case JOURNAL__LOAD_OPEN: return open_current(journal, out);
    case JOURNAL__LOAD_MARK: return mark(journal, out);
    case JOURNAL__LOAD_SYNC_MARK: return sync_mark(journal, out);
    case JOURNAL__LOAD_FORMAT: return format(journal, out);
    case JOURNAL__LOAD_DONE: return false;
    }
    return false;
}

void journal__load_step(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    for (uint32_t work = 0;; work++) {
        if (load->stage == JOURNAL__LOAD_DONE || load->is_busy || journal->reader.is_busy) { return; }
        if (load->failed_rc != PORT_OK) {
            journal__load_end(journal, load->failed_rc);
            return;
        }
        if (load->is_waiting || journal->wants_stop) { return; }
        if (load->is_finding) { /* the owner polls it; the next turn goes on */
            if (journal->has_out) {
                out->wants_turn = true;
                return;
            }
            load->is_finding = false;
        }
        if (work >= journal->config.step_max) {
            out->wants_turn = true;
            return;
        }
        if (!step_stage(journal, out) && !load->is_finding) { return; }
    }
}

void journal__load_done(struct journal *journal, const struct port_event *event, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (((uint32_t)event->done.token & 0xffu) == 1) {
        journal__read_done(journal, event);
    } else {
        CHECK(load->is_busy);
        load->is_busy = false;
        load->rc = event->done.rc;
        load->count = event->done.count;
        load->is_more = event->done.is_more;
        if (event->done.effect == PORT_OPEN) { /* the file to go on in; also where the load ends now, and closes it */
            journal->slots[journal->current_slot].state = load->rc == PORT_OK ? JOURNAL__SLOT_OPEN : JOURNAL__SLOT_FREE;
        }
    }
    journal__load_step(journal, out);
}
