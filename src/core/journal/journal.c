/* journal.c: the doors of the room: create, events in, outs out, stop.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "journal__machine.h"

static size_t round_up(size_t bytes) { return (bytes + 15) / 16 * 16; }

static uint32_t rows_max_of(const struct journal_config *config)
{
    return config->entries_max < JOURNAL__ROWS_MAX ? config->entries_max : JOURNAL__ROWS_MAX;
}

static uint32_t pieces_max_of(const struct journal_config *config)
{
    return 4 * config->entries_max + JOURNAL_PIECES_MAX;
}

size_t journal_arena_bytes(const struct journal_config *config)
{
    size_t group = round_up((size_t)journal__table_bytes(rows_max_of(config))) + JOURNAL__TRAILER_BYTES +
                   round_up(JOURNAL__GROUP_PIECES * sizeof(struct port_piece));
    return round_up(sizeof(struct journal)) + round_up(config->entries_max * sizeof(struct journal__queued)) +
           round_up(pieces_max_of(config) * sizeof(struct port_piece)) + JOURNAL__GROUPS * group + JOURNAL__PAGE_BYTES +
           16;
}

/* A journal that has little room is made of smaller files, so that there are enough of them to take turns. */
static uint64_t format_file_bytes(const struct journal_config *config)
{
    uint64_t bytes = config->file_bytes;
    for (;;) {
        uint64_t half = bytes / 2 / JOURNAL__PAGE_BYTES * JOURNAL__PAGE_BYTES;
        if (config->bytes_max / 8 >= bytes || half < JOURNAL__FILE_BYTES_MIN) { return bytes; }
        if (half < config->group_bytes_max + (uint64_t)JOURNAL__FREE_BYTES) { return bytes; }
        bytes = half;
    }
}

void journal__limits(struct journal *journal)
{
    uint64_t file_bytes = journal->file_bytes;
    journal->bytes_max = base_max_u64(journal->config.bytes_max, 8 * file_bytes);
    journal->bytes_max = base_min_u64(journal->bytes_max, (JOURNAL__NUMBERS - 8) * file_bytes);
    journal->limit_bytes =
        journal->bytes_max - 3 * file_bytes; /* begin and end stand inside files, and one is ready ahead */
}

enum base_rc journal_create(struct base_arena *arena, struct base_pages *pages, const struct journal_config *config,
                            struct journal **journal_out)
{
    CHECK(config->entries_max > 0);
    CHECK(config->step_max > 0);
    CHECK(config->file_bytes % JOURNAL__PAGE_BYTES == 0);
    CHECK(config->file_bytes >= JOURNAL__FILE_BYTES_MIN);
    CHECK(config->file_bytes <= JOURNAL__FILE_BYTES_MAX);
    CHECK(config->group_bytes_max >= JOURNAL__PAGE_BYTES);
    CHECK(config->group_bytes_max + (uint64_t)JOURNAL__FREE_BYTES <= config->file_bytes);
    size_t mark = base_arena_mark(arena);
    struct journal *journal = base_arena_take_array(arena, 1, sizeof *journal);
    if (journal == NULL) { return BASE_FULL; }
    *journal = (struct journal){.config = *config, .pages = pages};
    journal->rows_max = rows_max_of(config);
    journal->pieces_max = pieces_max_of(config);
    journal->queue = base_arena_take_array(arena, config->entries_max, sizeof *journal->queue);
    journal->pieces = base_arena_take_array(arena, journal->pieces_max, sizeof *journal->pieces);
    journal->line_page = base_arena_take(arena, JOURNAL__PAGE_BYTES);
    bool is_full = journal->queue == NULL || journal->pieces == NULL || journal->line_page == NULL;
    for (uint32_t i = 0; i < JOURNAL__GROUPS; i++) {
        struct journal__group *group = &journal->groups[i];
        group->table = base_arena_take(arena, (size_t)journal__table_bytes(journal->rows_max));
        group->trailer = base_arena_take(arena, JOURNAL__TRAILER_BYTES);
        group->pieces = base_arena_take_array(arena, JOURNAL__GROUP_PIECES, sizeof *group->pieces);
        is_full = is_full || group->table == NULL || group->trailer == NULL || group->pieces == NULL;
    }
    if (is_full) {
        base_arena_reset(arena, mark);
        return BASE_FULL;
    }
    journal->file_bytes = format_file_bytes(config);
    journal->current_slot = JOURNAL__NO_SLOT;
    journal->files.next_slot = JOURNAL__NO_SLOT;
    journal->ck.slot = JOURNAL__NO_SLOT;
    for (uint32_t i = 0; i < JOURNAL__GROUPS; i++) { journal->groups[i].retry_ns = UINT64_MAX; }
    journal->reader.slot = JOURNAL__NO_SLOT;
    journal->reader.number = JOURNAL__NO_FILE;
    journal__limits(journal);
    *journal_out = journal;
    return BASE_OK;
}

/* ---- helpers of the other parts ------------------------------------------------------------------------------------------ */

uint64_t journal__token(enum journal__purpose purpose, uint32_t low)
{
    return JOURNAL_TOKEN_ROOM << 56 | (uint64_t)purpose << 32 | low;
}

/* The disk is off line for this life: nothing is written, synced or acknowledged again. */
void journal__fail(struct journal *journal, enum port_rc rc)
{
    CHECK(rc != PORT_OK);
    if (journal->state == JOURNAL__LOADING && (journal->load.is_busy || journal->reader.is_busy)) {
        journal->load.failed_rc = rc; /* the blocks are the host's until it is done with them */
        return;
    }
    if (journal->state == JOURNAL__LOADING) {
        journal__load_end(journal, rc);
        return;
    }
    if (journal->state != JOURNAL__READY && journal->state != JOURNAL__REPLAYED) { return; }
    journal->state = JOURNAL__FAILED;
    journal->failed_rc = rc;
    journal->is_failed_due = true;
}

void journal_fail(struct journal *journal, enum port_rc rc, struct port_out *out)
{
    journal__fail(journal, rc);
    out->wants_turn = true;
}

void journal_release_room(struct journal *journal, struct port_out *out)
{
    journal__reserve_release(journal);
    out->wants_turn = true;
}

void journal__skip_pieces(struct port_piece *pieces, uint32_t *first, uint32_t count, uint64_t bytes)
{
    while (bytes > 0) {
        CHECK(*first < count);
        struct port_piece *piece = &pieces[*first];
        uint64_t part = base_min_u64(bytes, piece->size_bytes);
        piece->at += part;
        piece->size_bytes -= part;
        bytes -= part;
        if (piece->size_bytes == 0) { *first += 1; }
    }
}

/* ---- events ---------------------------------------------------------------------------------------------------------------- */

void journal_start(struct journal *journal, struct port_out *out)
{
    CHECK(journal->state == JOURNAL__CLOSED);
    journal->state = JOURNAL__LOADING;
    journal->reader.window = base_pages_take(journal->pages, BASE_CONTROL, JOURNAL__WINDOW_BYTES);
    if (journal->reader.window == NULL) {
        journal__load_end(journal, PORT_NO_MEMORY);
        return;
    }
    journal__load_step(journal, out);
}

void journal_taken(struct journal *journal, struct port_out *out)
{
    if (journal__is_failed(journal)) { return; } /* its disk failed while this was being taken: the load has ended */
    CHECK(journal->load.is_waiting);
    CHECK(!journal->has_out);
    journal->load.is_waiting = false;
    journal__load_step(journal, out);
    if (journal->wants_stop) { out->wants_turn = true; }
}

void journal_recovered(struct journal *journal, struct port_out *out)
{
    if (journal__is_failed(journal)) { return; }
    CHECK(journal->state == JOURNAL__REPLAYED);
    journal->state = JOURNAL__READY;
    out->wants_turn = true;
}

/* Entries have no place, and none can be made. */
static bool is_waiting(const struct journal *journal)
{
    return journal->files.is_short && journal->files.is_urgent && !journal__is_failed(journal);
}

/* Closes what is open once nothing is under way, then says STOPPED. */
static void stop_if_done(struct journal *journal, struct port_out *out)
{
    if (!journal->wants_stop || journal->state == JOURNAL__STOPPED) { return; }
    bool is_busy = journal->load.is_busy || journal->reader.is_busy || journal->load.is_waiting ||
                   journal__files_is_busy(journal) || journal__ck_is_busy(journal) || journal__reserve_is_busy(journal);
    if (is_busy) { return; }
    if (journal->state == JOURNAL__LOADING) { journal__load_end(journal, PORT_CLOSED); }
    bool has_never_begun = journal->state == JOURNAL__REPLAYED && journal->queue_gathered == journal->queue_tail;
    if (journal->state == JOURNAL__REPLAYED && !has_never_begun) { journal->state = JOURNAL__READY; }
    /* Nobody waits for room on the disk at a stop: what has no place fails. */
    if (is_waiting(journal)) { journal__fail(journal, PORT_NO_SPACE); }
    if (!journal__append_is_idle(journal) || journal->ck.stage != JOURNAL__CK_IDLE) { return; }
    bool is_open = false;
    for (uint32_t i = 0; i < JOURNAL_FILES; i++) {
        if (journal->slots[i].state == JOURNAL__SLOT_OPEN) { journal__slot_close(journal, i, out); }
        is_open = is_open || journal->slots[i].state != JOURNAL__SLOT_FREE;
    }
    if (is_open) { return; }
    if (!journal__is_failed(journal)) { journal->state = JOURNAL__STOPPED; }
    journal->is_stopped_due = true;
    journal->wants_stop = false;
}

static void go_on(struct journal *journal, struct port_out *out)
{
    if (journal->state == JOURNAL__LOADING) {
        journal__load_step(journal, out);
    } else {
        journal__ck_pump(journal, out);
        journal__files_pump(journal, out);
    }
    journal__reserve_pump(journal, out);
    bool may_find_room = !journal->is_hasty || journal__files_is_busy(journal);
    if (is_waiting(journal) && !may_find_room) { journal__fail(journal, PORT_NO_SPACE); }
    stop_if_done(journal, out);
    CHECK_SLOW(journal->config.is_check_slow, journal_is_sound(journal));
}

void journal_done(struct journal *journal, const struct port_event *event, struct port_out *out)
{
    CHECK(event->kind == PORT_EVENT_DONE);
    CHECK(event->done.token >> 56 == JOURNAL_TOKEN_ROOM);
    journal->now_ns = event->now_ns;
    uint32_t low = (uint32_t)event->done.token;
    switch ((enum journal__purpose)(event->done.token >> 32 & 0xffu)) {
    case JOURNAL__FOR_GROUP: journal__group_written(journal, event, out); break;
    case JOURNAL__FOR_SYNC: journal__group_synced(journal, event, out); break;
    case JOURNAL__FOR_LINE: journal__line_written(journal); break;
    case JOURNAL__FOR_RESERVE: journal__reserve_done(journal, event, out); break;
    case JOURNAL__FOR_FILES:
        journal__files_done(journal, event, out);
        if (journal->queue_gathered < journal->queue_tail) { out->wants_turn = true; } /* it may have waited for this */
        break;
    case JOURNAL__FOR_CHECKPOINT: journal__ck_done(journal, event, out); break;
    case JOURNAL__FOR_LOAD: journal__load_done(journal, event, out); break;
    case JOURNAL__FOR_CLOSE: journal__slot_closed(journal, low); break;
    default: CHECK(false);
    }
    go_on(journal, out);
}

void journal_turn(struct journal *journal, const struct port_event *event, struct port_out *out)
{
    journal->now_ns = event->now_ns;
    journal__group_retry(journal, out);
    journal__append_pump(journal, out);
    journal__append_line(journal, out);
    go_on(journal, out);
}

static bool may_ask_for_checkpoint(const struct journal *journal)
{
    bool is_due = journal->is_checkpoint_wanted && !journal->is_checkpoint_asked;
    return is_due && journal->state == JOURNAL__READY && !journal->wants_stop && journal->ck.stage == JOURNAL__CK_IDLE;
}

uint64_t journal_next_alarm_ns(const struct journal *journal)
{
    const struct journal__files *files = &journal->files;
    bool is_retrying = files->is_short && files->is_urgent && !journal__is_failed(journal);
    uint64_t at_ns = is_retrying ? journal__alarm_ns(journal, files->retry_ns) : UINT64_MAX;
    if (may_ask_for_checkpoint(journal)) {
        at_ns = base_min_u64(at_ns, journal__alarm_ns(journal, journal->want_again_ns));
    }
    return base_min_u64(base_min_u64(at_ns, journal__reserve_retry_ns(journal)), journal__group_retry_ns(journal));
}

void journal_handle_comes(struct journal *journal)
{
    struct journal__files *files = &journal->files;
    uint64_t at_ns = base_deadline_ns(journal->now_ns, JOURNAL__HANDLE_NS);
    if (files->is_short && files->rc == PORT_NO_HANDLES) { files->retry_ns = base_min_u64(files->retry_ns, at_ns); }
    if (journal->is_checkpoint_wanted) { journal->want_again_ns = base_min_u64(journal->want_again_ns, at_ns); }
}

void journal_wait_no_more(struct journal *journal, struct port_out *out)
{
    journal->is_hasty = true;
    out->wants_turn = true;
}

void journal_stop(struct journal *journal, struct port_out *out)
{
    CHECK(!journal->wants_stop);
    CHECK(journal->state != JOURNAL__STOPPED);
    journal->wants_stop = true;
    out->wants_turn = true;
}

/* ---- outs ------------------------------------------------------------------------------------------------------------------ */

static bool poll_synced(struct journal *journal, struct journal_out *journal_out)
{
    bool is_synced = journal->queue_out < journal->queue_synced;
    /* The bytes of a write under way are the host's until it completes, failed or not. */
    bool is_failed =
        journal__is_failed(journal) && journal->writes_in_flight == 0 && journal->queue_out < journal->queue_tail;
    if (!is_synced && !is_failed) { return false; }
    const struct journal__queued *queued = &journal->queue[journal->queue_out % journal->config.entries_max];
    *journal_out = (struct journal_out){.kind = JOURNAL_OUT_SYNCED,
                                        .token = queued->token,
                                        .result = is_synced ? PORT_OK : journal->failed_rc};
    journal->queue_out += 1;
    if (!is_synced) { /* no group will take it any more */
        journal->queue_synced = journal->queue_out;
        if (journal->queue_gathered < journal->queue_out) {
            journal->queue_gathered = journal->queue_out;
            journal->piece_head += queued->piece_count;
        }
    }
    return true;
}

static bool poll_checkpoint(struct journal *journal, struct journal_out *journal_out)
{
    struct journal__ck *ck = &journal->ck;
    if (ck->add_polled < ck->add_written) {
        uint64_t token = ck->tokens[ck->add_polled % JOURNAL__ADDS];
        *journal_out = (struct journal_out){.kind = JOURNAL_OUT_STATE_WRITTEN, .token = token, .result = ck->rc};
        ck->add_polled += 1;
        return true;
    }
    if (ck->is_result_due) {
        *journal_out = (struct journal_out){.kind = JOURNAL_OUT_CHECKPOINTED, .result = ck->result};
        ck->is_result_due = false;
        return true;
    }
    if (may_ask_for_checkpoint(journal) && journal->now_ns >= journal->want_again_ns) {
        *journal_out = (struct journal_out){.kind = JOURNAL_OUT_WANT_CHECKPOINT};
        journal->is_checkpoint_asked = true;
        return true;
    }
    return false;
}

bool journal_poll(struct journal *journal, struct journal_out *journal_out)
{
    if (journal->has_out) {
        *journal_out = journal->out;
        journal->has_out = false;
        return true;
    }
    if (journal->is_failed_due) {
        *journal_out = (struct journal_out){.kind = JOURNAL_OUT_FAILED, .result = journal->failed_rc};
        journal->is_failed_due = false;
        return true;
    }
    if (poll_synced(journal, journal_out) || poll_checkpoint(journal, journal_out)) { return true; }
    if (journal->is_handle_wanted) {
        *journal_out = (struct journal_out){.kind = JOURNAL_OUT_WANT_HANDLE};
        journal->is_handle_wanted = false;
        return true;
    }
    if (journal->is_stopped_due) {
        *journal_out = (struct journal_out){.kind = JOURNAL_OUT_STOPPED};
        journal->is_stopped_due = false;
        return true;
    }
    return false;
}

/* ---- looking in -------------------------------------------------------------------------------------------------------------- */

void journal_view(const struct journal *journal, struct journal_view *view_out)
{
    uint64_t bytes = journal->end - journal->begin;
    *view_out = (struct journal_view){
        .bytes = bytes,
        .groups = journal->groups_written,
        .entries = journal->entries_written,
        .syncs = journal->syncs,
        .in_flight = (uint32_t)(journal->queue_tail - journal->queue_out),
        .is_full = bytes >= journal->limit_bytes / 8 * 7,
        .is_short_of_room = journal->reserve.is_short,
        .is_waiting = is_waiting(journal),
        .is_failed = journal__is_failed(journal),
        .synced_entries = journal->synced_entries,
    };
    memcpy(view_out->sync_sizes, journal->sync_sizes, sizeof view_out->sync_sizes);
}

bool journal_is_sound(const struct journal *journal)
{
    const struct journal__ck *ck = &journal->ck;
    bool is_queue_sound =
        journal->queue_out <= journal->queue_synced && journal->queue_synced <= journal->queue_gathered &&
        journal->queue_gathered <= journal->queue_tail &&
        journal->queue_tail - journal->queue_out <= journal->config.entries_max &&
        journal->piece_head <= journal->piece_tail && journal->piece_tail - journal->piece_head <= journal->pieces_max;
    bool is_ck_sound = ck->add_polled <= ck->add_written && ck->add_written <= ck->add_tail &&
                       ck->add_tail - ck->add_polled <= JOURNAL__ADDS;
    bool is_running = journal->state == JOURNAL__READY || journal->state == JOURNAL__REPLAYED;
    /* The limit is no bound here: what a start found may be longer. */
    bool is_place_sound = !is_running || (journal->begin <= journal->line && journal->line <= journal->end);
    uint32_t syncing = 0;
    uint32_t writing = 0;
    for (uint32_t i = 0; i < JOURNAL__GROUPS; i++) {
        syncing += journal->groups[i].state == JOURNAL__GROUP_SYNCING ? 1 : 0;
        writing += journal->groups[i].state == JOURNAL__GROUP_WRITING ? 1 : 0;
    }
    bool are_groups_sound = journal->group_tail - journal->group_out <= JOURNAL__GROUPS && syncing <= 1 &&
                            writing <= 1 && journal->writes_in_flight <= 1;
    return is_queue_sound && is_ck_sound && is_place_sound && are_groups_sound;
}

bool journal_is_quiet(const struct journal *journal)
{
    for (uint32_t i = 0; i < JOURNAL_FILES; i++) {
        enum journal__slot_state state = journal->slots[i].state;
        if (state == JOURNAL__SLOT_OPENING || state == JOURNAL__SLOT_CLOSING) { return false; }
    }
    bool is_loading = journal->state == JOURNAL__LOADING;
    bool is_checkpointing = journal->ck.stage != JOURNAL__CK_IDLE || journal->ck.is_result_due;
    return !is_loading && !is_checkpointing && journal->queue_out == journal->queue_tail &&
           journal__append_is_idle(journal) && !journal__files_is_busy(journal) && !journal__reserve_is_busy(journal) &&
           !journal->has_out;
}
