/* plog__out.c: what comes out, in the order it was noted; and the journal's answers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

#define TOKEN_ROUND (UINT64_C(1) << 48)
#define TOKEN_START (UINT64_C(2) << 48)
#define TOKEN_GONE  (UINT64_C(3) << 48)
#define TOKEN_CUT   (UINT64_C(4) << 48)
#define TOKEN_EPOCH (UINT64_C(5) << 48)
#define TOKEN_KIND  (UINT64_C(0xff) << 48)

void plog__note(struct plog *plog, struct plog__note note)
{
    CHECK(plog->note_count < plog->notes_max);
    plog->notes[(plog->note_first + plog->note_count) % plog->notes_max] = note;
    plog->note_count += 1;
}

enum base_rc plog__note_loose(struct plog *plog, struct plog__note note)
{
    if (plog->loose_notes == PLOG__LOOSE_NOTES_MAX) { return BASE_FULL; }
    plog->loose_notes += 1;
    note.slot = PLOG__NONE;
    plog__note(plog, note);
    return BASE_OK;
}

void plog__note_mark(struct plog *plog, struct plog__log *log)
{
    if (log->is_mark_out || log->is_deleting) { return; }
    log->is_mark_out = true;
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_WATERMARK,
                                         .slot = plog__log_slot(plog, log),
                                         .token = log->generation});
}

void plog__note_full(struct plog *plog)
{
    if (plog->is_full_out) { return; }
    plog->is_full_out = true;
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_FULL});
}

static struct plog_ref ref_of(const struct plog *plog, const struct plog__log *log)
{
    return (struct plog_ref){.slot = plog__log_slot(plog, log), .generation = log->generation};
}

static bool give_append(struct plog *plog, const struct plog__note *note, struct plog_out *out)
{
    struct plog__append *append = plog__append_at(plog, note->slot);
    out->token = append->ask.token;
    out->result = note->kind == PLOG_OUT_WRITTEN ? (append->is_duplicate ? PLOG_DUPLICATE : PLOG_OK) : append->result;
    out->base_offset = append->base_offset;
    out->log_append_time_ms = append->log_append_time_ms;
    out->offset_start = append->offset_start;
    if (append->log != PLOG__NONE && base_pool_is_taken(&plog->logs, append->log)) {
        const struct plog__log *log = plog__log_at(plog, append->log);
        out->ref = ref_of(plog, log);
        out->id = log->id;
        out->watermark = log->watermark;
    }
    if (note->kind != PLOG_OUT_WRITTEN) { base_pool_give(&plog->appends, note->slot); }
    return true;
}

static bool give_mark(struct plog *plog, const struct plog__note *note, struct plog_out *out)
{
    if (!base_pool_is_taken(&plog->logs, note->slot)) { return false; }
    struct plog__log *log = plog__log_at(plog, note->slot);
    if (log->generation != note->token || log->is_deleting) { return false; }
    log->is_mark_out = false;
    out->token = 0;
    out->ref = ref_of(plog, log);
    out->id = log->id;
    out->watermark = log->watermark;
    out->offset_start = log->offset_start;
    return true;
}

static void fill_run(const struct plog *plog, const struct plog__log *log, struct plog_out *out)
{
    out->ref = ref_of(plog, log);
    out->id = log->id;
    out->run.id = log->id;
    out->run.leader_epoch = log->leader_epoch;
    out->run.cuts = log->cuts;
}

static bool give_run(struct plog *plog, const struct plog__note *note, struct plog_out *out)
{
    struct plog__round *round = plog__round_at(plog, note->slot);
    struct plog__log *log = plog__log_at(plog, round->log);
    if (plog->is_failed) { /* the journal takes nothing any more */
        plog__round_fail(plog, log, round, PLOG_STORAGE);
        return false;
    }
    fill_run(plog, log, out);
    out->run_token = TOKEN_ROUND | note->slot;
    out->run.segment_base = plog__segment_at(plog, round->segment)->base;
    out->run.position_bytes = round->position_bytes;
    out->run.offset_base = round->offset_base;
    out->run.offset_end = round->offset_end;
    out->run.leader_epoch = round->leader_epoch;
    out->run.crc = round->crc;
    out->run.size_bytes = round->size_bytes;
    if (!round->is_large) {
        out->run.pieces = round->pieces;
        out->run.piece_count = round->piece_count;
    }
    return true;
}

static void give_birth_bytes(const struct plog__log *log, struct plog_out *out)
{
    out->run.size_bytes = log->birth_bytes;
    out->run.crc = codec_crc32c(0, log->birth, log->birth_bytes);
    out->run.pieces = &log->birth_piece;
    out->run.piece_count = 1;
}

static bool give_birth(struct plog *plog, const struct plog__note *note, struct plog_out *out)
{
    struct plog__round *round = plog__round_at(plog, note->slot);
    struct plog__log *log = plog__log_at(plog, round->log);
    if (plog->is_failed) {
        if (round->is_only_birth) { plog__round_fail(plog, log, round, PLOG_STORAGE); }
        return false; /* else its run comes next, and fails it */
    }
    fill_run(plog, log, out);
    out->run_token = round->is_only_birth ? TOKEN_ROUND | note->slot : 0;
    out->run.change = PLOG_CHANGE_SEGMENT;
    out->run.segment_base = plog__segment_at(plog, round->segment)->base;
    out->run.offset_base = out->run.segment_base;
    out->run.offset_end = out->run.segment_base;
    give_birth_bytes(log, out);
    return true;
}

static uint64_t token_of(enum plog_change_kind change)
{
    switch (change) {
    case PLOG_CHANGE_START: return TOKEN_START;
    case PLOG_CHANGE_TRUNCATE: return TOKEN_CUT;
    case PLOG_CHANGE_GONE: return TOKEN_GONE;
    case PLOG_CHANGE_EPOCH: return TOKEN_EPOCH;
    case PLOG_CHANGE_SEGMENT: break; /* its round's */
    }
    UNREACHABLE();
}

static void change_done(struct plog *plog, struct plog__log *log, uint64_t token, enum port_rc rc)
{
    CHECK(log->changes_in_flight > 0);
    log->changes_in_flight -= 1;
    if (token == TOKEN_START) { plog__start_done(plog, log, rc); }
    if (token == TOKEN_CUT) { plog__cut_journalled(plog, log, rc); }
    if (token == TOKEN_EPOCH) { plog__epoch_done(plog, log, rc == PORT_OK ? PLOG_OK : PLOG_STORAGE); }
}

/* The journal names it, or a checkpoint does. */
static bool is_heard_of(const struct plog__log *log)
{
    const struct plog__segment *first = plog__segment_first(log);
    return (first != NULL && first->is_born) || !base_list_is_empty(&log->doomed);
}

static bool give_change(struct plog *plog, const struct plog__note *note, struct plog_out *out)
{
    if (note->change == PLOG_CHANGE_SEGMENT) { return give_birth(plog, note, out); }
    struct plog__log *log = plog__log_at(plog, note->slot);
    uint64_t token = token_of(note->change);
    if (plog->is_failed) {
        change_done(plog, log, token, PORT_IO);
        plog__task_ready(plog, &plog->reaper.task);
        return false;
    }
    fill_run(plog, log, out);
    out->token = 0;
    out->run_token = token | note->slot;
    out->run.change = note->change;
    out->run.offset_base = note->offset;
    out->run.offset_end = note->offset;
    if (note->change == PLOG_CHANGE_EPOCH) {
        out->run.leader_epoch = (int32_t)note->token;
        give_birth_bytes(log, out); /* it may be the first that is heard of the log */
    }
    if (note->change == PLOG_CHANGE_GONE && !is_heard_of(log)) { /* there may be files of it that a crash leaves */
        give_birth_bytes(log, out);
    }
    if (note->change == PLOG_CHANGE_TRUNCATE) {
        out->run.segment_base = log->cut_segment_base;
        out->run.position_bytes = log->cut_position_bytes;
        out->run.size_bytes = log->cut_piece.size_bytes;
        out->run.crc = codec_crc32c(0, log->cut_piece.at, log->cut_piece.size_bytes);
        out->run.pieces = &log->cut_piece;
        out->run.piece_count = 1;
    }
    return true;
}

static bool give(struct plog *plog, const struct plog__note *note, struct plog_out *out)
{
    switch (note->kind) {
    case PLOG_OUT_WRITTEN:
    case PLOG_OUT_SYNCED:
    case PLOG_OUT_FAILED: return give_append(plog, note, out);
    case PLOG_OUT_READ:
    case PLOG_OUT_TIME: plog__read_note(plog, base_pool_at(&plog->reads, note->slot), out); return true;
    case PLOG_OUT_WATERMARK: return give_mark(plog, note, out);
    case PLOG_OUT_RUN: return give_run(plog, note, out);
    case PLOG_OUT_CHANGE: return give_change(plog, note, out);
    case PLOG_OUT_STATE:
        out->id = plog->capture.id;
        out->block = plog->capture.block;
        out->size_bytes = plog->capture.block_bytes;
        return true;
    case PLOG_OUT_REPLAYED: out->run_token = note->token; return true;
    case PLOG_OUT_STARTED:
    case PLOG_OUT_TRUNCATED:
    case PLOG_OUT_EPOCH:
        if (note->slot == PLOG__NONE) {
            plog->loose_notes -= 1;
        } else if (base_pool_is_taken(&plog->logs, note->slot)) {
            out->ref = ref_of(plog, plog__log_at(plog, note->slot));
        }
        return true;
    case PLOG_OUT_FULL: plog->is_full_out = false; return true;
    case PLOG_OUT_WANT_CHECKPOINT: plog->is_checkpoint_wanted = false; return true;
    case PLOG_OUT_STATES_END:
    case PLOG_OUT_RECOVERED:
    case PLOG_OUT_DELETED:
    case PLOG_OUT_STOPPED:
    case PLOG_OUT_DISK_FAILED: return true;
    }
    UNREACHABLE();
}

bool plog_poll(struct plog *plog, struct plog_out *plog_out)
{
    while (plog->note_count > 0) {
        struct plog__note note = plog->notes[plog->note_first];
        plog->note_first = (plog->note_first + 1) % plog->notes_max;
        plog->note_count -= 1;
        *plog_out = (struct plog_out){.kind = note.kind,
                                      .result = note.result,
                                      .token = note.token,
                                      .id = note.id,
                                      .base_offset = -1,
                                      .log_append_time_ms = -1,
                                      .offset = note.offset,
                                      .offset_start = note.offset,
                                      .timestamp_ms = -1,
                                      .leader_epoch = -1};
        if (give(plog, &note, plog_out)) { return true; }
    }
    return false;
}

void plog_journalled(struct plog *plog, uint64_t run_token, enum port_rc rc, struct port_out *out)
{
    plog__begin(plog, out);
    uint32_t slot = (uint32_t)run_token;
    uint64_t kind = run_token & TOKEN_KIND;
    if (kind == TOKEN_ROUND) {
        struct plog__round *round = plog__round_at(plog, slot);
        struct plog__log *log = plog__log_at(plog, round->log);
        CHECK(round->state == PLOG__LEFT);
        if (rc != PORT_OK || plog->is_failed || log->is_deleting) {
            plog__round_fail(plog, log, round, log->is_deleting ? PLOG_GONE : PLOG_STORAGE);
            if (rc != PORT_OK) { plog__disk_fail(plog); } /* whether it is in the journal, nobody knows */
            if (log->is_deleting) { plog__task_ready(plog, &plog->reaper.task); }
        } else {
            round->state = PLOG__DURABLE;
            plog__rounds_finish(plog, log);
        }
    } else {
        CHECK(kind == TOKEN_START || kind == TOKEN_GONE || kind == TOKEN_CUT || kind == TOKEN_EPOCH);
        change_done(plog, plog__log_at(plog, slot), kind, rc);
        if (rc != PORT_OK) { plog__disk_fail(plog); }
        plog__task_ready(plog, &plog->reaper.task);
    }
    plog__end(plog, out);
}
