/* replay.c: follows the chain of groups from the checkpoint's begin: first where it ends, then what it holds.
 *
 * SURVEY   walks the headers. Where the next group is not to be found, the pages after it are searched to the end of the
 *          files: for the copy of its header; for the next file's first group (an honest jump); for any later good group
 *          whose line says that this place was synced: damage, and the chain goes on there. Else the chain ends: the tail
 *          was torn, and what a reordering disk kept of later groups was never acknowledged either.
 * REPLAY   walks again, with the line known. Below it every good entry is given out and every bad one is named. Above it a
 *          group is given out only if it is good in every byte; the first that is not ends the chain.
 * SETTLE   What no line covers may have come out of a page cache that the disk never got (a failed sync leaves clean pages).
 *          It is written once more, in place, and synced, before anybody relies on it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "journal__machine.h"

#include "codec/codec.h"

enum looked { LOOKED_NOT_YET, LOOKED_FOUND, LOOKED_JUMP, LOOKED_GAP, LOOKED_END };

static uint64_t number_of(const struct journal *journal, uint64_t position) { return position / journal->file_bytes; }
static uint64_t offset_of(const struct journal *journal, uint64_t position) { return position % journal->file_bytes; }

static bool is_next(const struct journal__walk *walk, const struct journal__head *head)
{
    return !head->is_line && head->sequence == walk->sequence && head->life >= walk->life;
}

/* Everything that a good header says about others. */
static void believe(struct journal *journal, const struct journal__head *head)
{
    struct journal__load *load = &journal->load;
    load->line = base_max_u64(load->line, head->line);
    load->checkpoint_seen = base_max_u64(load->checkpoint_seen, head->checkpoint);
    if (head->life > load->life_max) { load->life_max = head->life; }
    if (head->life > load->chosen.life) { load->is_begun = true; }
    if (head->is_more) {
        load->number_named = base_max_u64(load->number_named, number_of(journal, head->position) + 1);
    }
}

/* A file after number `from` and before `to` is not there: files are made in order, each before its use. */
static bool has_hole(const struct journal *journal, uint64_t from, uint64_t to)
{
    for (uint64_t number = from + 1; number < to && number - from <= JOURNAL__NUMBERS; number++) {
        if (!journal__load_has_file(journal, number)) { return true; }
    }
    return false;
}

static uint64_t number_last(const struct journal__load *load)
{
    return base_max_u64(load->number_max, load->number_named);
}

static void start_walk(struct journal *journal)
{
    struct journal__load *load = &journal->load;
    load->walk = (struct journal__walk){
        .position = load->chosen.begin,
        .sequence = load->chosen.begin_sequence,
        .life = 0,
    };
}

static void leave(struct journal__walk *walk)
{
    walk->is_scanning = false;
    walk->is_bad = false;
    walk->is_wiped = false;
    walk->has_candidate = false;
}

/* A group of a later life stands inside: what is left of this one is what a cut left behind. */
static bool is_built_upon(const struct journal__walk *walk, const struct journal__head *head)
{
    return walk->has_candidate && walk->candidate.life > head->life &&
           walk->candidate.position < head->position + head->bytes;
}

/* A trailer on this page may lead to the copy of the header that was not found. True: it did, or the copy is being read. */
static bool look_at_copy(struct journal *journal, const uint8_t *page, bool *is_found_out, struct port_out *out)
{
    struct journal__walk *walk = &journal->load.walk;
    struct journal__trailer trailer;
    *is_found_out = false;
    if (!journal__get_trailer(page + JOURNAL__PAGE_BYTES - JOURNAL__TRAILER_BYTES, &trailer)) { return false; }
    uint64_t end = walk->scan_at + JOURNAL__PAGE_BYTES;
    if (trailer.position != walk->position) { return false; }
    if (number_of(journal, trailer.position) != number_of(journal, walk->scan_at)) { return false; }
    uint64_t copy_end = end - JOURNAL__TRAILER_BYTES;
    if (copy_end - walk->position < trailer.copy_bytes) { return false; }
    uint64_t copy_at = copy_end - trailer.copy_bytes;
    const uint8_t *copy =
        journal__read(journal, number_of(journal, copy_at), offset_of(journal, copy_at), trailer.copy_bytes, out);
    if (copy == NULL) { return true; }
    struct journal__head head;
    if (!journal__get_head(copy, journal->id, walk->position, journal->file_bytes, &head)) { return false; }
    if (!is_next(walk, &head) || head.bytes != end - walk->position) { return false; }
    if (journal__table_bytes(head.row_count) != trailer.copy_bytes || is_built_upon(walk, &head)) { return false; }
    walk->head = head;
    walk->table_at = copy_at;
    walk->is_copy = true;
    *is_found_out = true;
    return true;
}

/* The first later group is where the chain goes on after damage; but one that a later life wrote past, from a place before it, or
 * wrote into, is what a cut left behind. */
static void consider(struct journal__walk *walk, const struct journal__head *head)
{
    if (head->is_line || head->sequence < walk->sequence || head->life < walk->life) { return; }
    const struct journal__head *candidate = &walk->candidate;
    bool is_inside = head->position < candidate->position + candidate->bytes;
    bool is_past = head->life > candidate->life && (is_inside || head->sequence <= candidate->sequence);
    if (walk->has_candidate && !is_past) { return; }
    walk->has_candidate = true;
    walk->candidate = *head;
}

static bool is_jump(const struct journal *journal)
{
    const struct journal__walk *walk = &journal->load.walk;
    return walk->has_candidate && offset_of(journal, walk->candidate.position) == 0 && is_next(walk, &walk->candidate);
}

/* One page of the search. */
static enum looked scan(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    struct journal__walk *walk = &load->walk;
    uint64_t number = number_of(journal, walk->scan_at);
    if (number > load->number_max) {
        if (is_jump(journal)) { return LOOKED_JUMP; }
        return load->line > walk->position ? LOOKED_GAP : LOOKED_END;
    }
    if (!journal__load_has_file(journal, number)) {
        walk->scan_at = (number + 1) * journal->file_bytes;
        return LOOKED_NOT_YET;
    }
    const uint8_t *page = journal__read(journal, number, offset_of(journal, walk->scan_at), JOURNAL__PAGE_BYTES, out);
    if (page == NULL) { return LOOKED_NOT_YET; }
    if (offset_of(journal, walk->scan_at) >= journal->reader.size_bytes) { /* nothing but zeros to the file's end */
        walk->scan_at = (number + 1) * journal->file_bytes;
        return LOOKED_NOT_YET;
    }
    struct journal__head head;
    if (journal__get_head(page, journal->id, walk->scan_at, journal->file_bytes, &head)) {
        believe(journal, &head);
        consider(walk, &head);
        if (walk->candidate.position == walk->scan_at && is_jump(journal)) { return LOOKED_JUMP; }
    }
    bool is_found = false;
    if (!walk->is_bad && look_at_copy(journal, page, &is_found, out)) {
        if (!is_found) { return LOOKED_NOT_YET; }
        believe(journal, &walk->head);
        return LOOKED_FOUND;
    }
    walk->scan_at += JOURNAL__PAGE_BYTES;
    return LOOKED_NOT_YET;
}

/* Looks for the group that comes next; bounded, call again after NOT_YET. */
static enum looked look(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    struct journal__walk *walk = &load->walk;
    if (walk->is_scanning) { return scan(journal, out); }
    if (load->is_surveyed && walk->position == load->survey_end) { return LOOKED_END; }
    uint64_t number = number_of(journal, walk->position);
    if (journal__load_has_file(journal, number)) {
        const uint8_t *at =
            journal__read(journal, number, offset_of(journal, walk->position), JOURNAL__HEAD_BYTES, out);
        if (at == NULL) { return LOOKED_NOT_YET; }
        struct journal__head head;
        if (journal__get_head(at, journal->id, walk->position, journal->file_bytes, &head) && is_next(walk, &head)) {
            believe(journal, &head);
            walk->head = head;
            walk->table_at = walk->position;
            walk->is_copy = false;
            return LOOKED_FOUND;
        }
    }
    walk->is_scanning = true;
    walk->scan_at = walk->position;
    walk->has_candidate = false;
    return LOOKED_NOT_YET;
}

static bool may_go_on(const struct journal *journal)
{
    return !journal->reader.is_busy && journal->state == JOURNAL__LOADING;
}

static void pass_group(struct journal__walk *walk)
{
    walk->position += walk->head.bytes;
    walk->sequence += 1;
    walk->life = walk->head.life;
    leave(walk);
}

/* To the candidate: over the unused end of a file, or over damage. */
static void pass_to_candidate(struct journal__walk *walk)
{
    walk->position = walk->candidate.position;
    walk->sequence = walk->candidate.sequence;
    walk->life = walk->candidate.life;
    leave(walk);
}

bool journal__survey(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    struct journal__walk *walk = &load->walk;
    if (!load->has_group) { /* not begun */
        load->has_group = true;
        load->line = base_max_u64(load->end.line, load->chosen.begin);
        start_walk(journal);
    }
    switch (look(journal, out)) {
    case LOOKED_NOT_YET: return may_go_on(journal);
    case LOOKED_FOUND:
        load->is_begun = true;
        pass_group(walk);
        return true;
    case LOOKED_JUMP: pass_to_candidate(walk); return true;
    case LOOKED_GAP:
        if (walk->has_candidate) {
            pass_to_candidate(walk);
            return true;
        }
        load->is_lost_tail = true;
        break;
    case LOOKED_END: break;
    }
    load->survey_end = walk->position;
    load->is_surveyed = true;
    load->has_group = false;
    start_walk(journal);
    load->stage = JOURNAL__LOAD_REPLAY;
    return true;
}

/* ---- replay ------------------------------------------------------------------------------------------------------------- */

/* The walk ends here: what is to be settled, and where the journal goes on. */
static void end_walk(struct journal *journal)
{
    struct journal__load *load = &journal->load;
    struct journal__walk *walk = &load->walk;
    uint64_t number = number_of(journal, walk->position);
    bool is_there = journal__load_has_file(journal, number);
    bool fits = offset_of(journal, walk->position) + JOURNAL__PAGE_BYTES + JOURNAL__FREE_BYTES <= journal->file_bytes;
    journal->end = walk->position;
    journal->sequence = walk->sequence;
    bool is_holed = load->is_lost_tail || !is_there || has_hole(journal, number, number_last(load) + 1);
    load->is_fresh = is_holed || !fits;
    if (load->is_lost_tail) { journal->sequence += 1; } /* the hole stays one for the next recovery */
    load->number_max = is_holed ? number_last(load) + 1 : number + 1;
    load->settle_at = base_max_u64(load->line, load->chosen.begin);
    load->settle_end = base_max_u64(load->settle_at, walk->position);
    bool is_worn = load->life_max >= JOURNAL__LIFE_MAX || journal->sequence >= JOURNAL__SEQUENCE_MAX ||
                   load->checkpoint_max >= JOURNAL__SEQUENCE_MAX || load->checkpoint_seen >= JOURNAL__SEQUENCE_MAX ||
                   load->number_max >= JOURNAL__NUMBER_MAX;
    if (is_worn) { /* no sound writer gets here */
        journal__load_end(journal, PORT_OTHER);
        return;
    }
    load->stage = JOURNAL__LOAD_SETTLE;
}

static void begin_group(struct journal *journal)
{
    struct journal__load *load = &journal->load;
    load->has_group = true;
    load->is_verified = load->walk.position + load->walk.head.bytes <= load->line;
    load->row = 0;
    load->rows_read = 0;
    if (load->rows != NULL) { base_pages_give(journal->pages, load->rows); }
    load->rows = NULL;
    if (load->walk.head.row_count == 0) { return; }
    load->rows = base_pages_take(journal->pages, BASE_CONTROL, 2 * journal__table_bytes(load->walk.head.row_count));
    if (load->rows == NULL) { journal__load_end(journal, PORT_NO_MEMORY); }
}

static void end_group(struct journal *journal)
{
    struct journal__load *load = &journal->load;
    if (load->rows != NULL) { base_pages_give(journal->pages, load->rows); }
    load->rows = NULL;
    load->has_group = false;
}

/* Reads the table, and its copy too if a row is bad. True: done. */
static bool read_rows(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    const struct journal__walk *walk = &load->walk;
    const struct journal__head *head = &walk->head;
    uint64_t bytes = journal__table_bytes(head->row_count);
    if (head->row_count == 0 || load->rows_read == 2) { return true; }
    uint64_t copy_at = walk->position + head->bytes - JOURNAL__TRAILER_BYTES - bytes;
    uint64_t other_at = walk->is_copy ? walk->position : copy_at;
    uint64_t from = load->rows_read == 0 ? walk->table_at : other_at;
    const uint8_t *at = journal__read(journal, number_of(journal, from), offset_of(journal, from), bytes, out);
    if (at == NULL) { return false; }
    memcpy(load->rows + load->rows_read * bytes, at, bytes);
    load->rows_read += 1;
    bool is_good = true;
    for (uint32_t i = 0; i < head->row_count && load->rows_read == 1; i++) {
        struct journal__row row;
        if (!journal__get_row(load->rows + JOURNAL__HEAD_BYTES + (size_t)i * JOURNAL__ROW_BYTES, head, &row)) {
            is_good = false;
            break;
        }
    }
    if (is_good && load->rows_read == 1) {
        memcpy(load->rows + bytes, load->rows, bytes);
        load->rows_read = 2;
    }
    return load->rows_read == 2;
}

static bool get_row(const struct journal__load *load, uint32_t index, struct journal__row *row_out)
{
    const struct journal__head *head = &load->walk.head;
    size_t at = JOURNAL__HEAD_BYTES + (size_t)index * JOURNAL__ROW_BYTES;
    return journal__get_row(load->rows + at, head, row_out) ||
           journal__get_row(load->rows + journal__table_bytes(head->row_count) + at, head, row_out);
}

/* One entry of a group above the line: the first bad one cuts the chain here, unless a page inside of it, which the survey
 * passed over, holds what a later life wrote there. */
static bool verify_row(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    struct journal__row row;
    bool is_good = get_row(load, load->row, &row);
    if (is_good && row.entry.has_bytes) {
        uint64_t at = load->walk.position + row.payload_at;
        uint32_t sum = 0;
        if (!journal__read_sum(journal, number_of(journal, at), offset_of(journal, at), row.entry.size_bytes, &sum,
                               out)) {
            return may_go_on(journal);
        }
        is_good = sum == row.entry.crc;
    }
    if (!is_good) {
        end_group(journal);
        load->walk.is_bad = true;
        load->walk.is_scanning = true;
        load->walk.scan_at = load->walk.position + JOURNAL__PAGE_BYTES;
        load->walk.has_candidate = false;
        return true;
    }
    load->row += 1;
    if (load->row == load->walk.head.row_count) {
        load->row = 0;
        load->is_verified = true;
    }
    return true;
}

static bool give_row(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    struct journal__row row;
    if (!get_row(load, load->row, &row)) {
        load->row += 1;
        journal__load_damage(journal, load->walk.position);
        return true;
    }
    struct journal_out given = {.kind = JOURNAL_OUT_REPLAY,
                                .entry = row.entry,
                                .position_bytes = load->walk.position,
                                .has_id = true};
    if (row.entry.has_bytes && row.entry.size_bytes > 0) {
        uint64_t at = load->walk.position + row.payload_at;
        const uint8_t *bytes =
            journal__read_blob(journal, number_of(journal, at), offset_of(journal, at), row.entry.size_bytes, out);
        if (bytes == NULL) { return may_go_on(journal); }
        given.bytes = base_slice_of(bytes, row.entry.size_bytes);
        given.is_damaged = codec_crc32c(0, bytes, row.entry.size_bytes) != row.entry.crc;
        if (given.is_damaged) {
            given.result = PORT_IO;
            load->has_damage = true;
        }
    }
    load->row += 1;
    journal->out = given;
    journal->has_out = true;
    load->is_waiting = true;
    return false;
}

static bool step_group(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (!read_rows(journal, out)) { return may_go_on(journal); }
    if (!load->is_verified && load->walk.head.row_count > 0) { return verify_row(journal, out); }
    if (load->row < load->walk.head.row_count) { return give_row(journal, out); }
    end_group(journal);
    pass_group(&load->walk);
    return true;
}

/* Asks for a write of the file that was read last, or a sync of it, which is_settled_well judges. */
static struct port_effect *ask(struct journal *journal, enum port_effect_kind kind, struct port_out *out)
{
    journal->load.is_asked = true;
    journal->load.is_busy = true;
    return journal__emit_file(journal, kind, journal->reader.slot, journal__token(JOURNAL__FOR_LOAD, 0), out);
}

static void ask_write(struct journal *journal, uint64_t offset, const uint8_t *from, uint64_t bytes,
                      struct port_out *out)
{
    journal->line_piece = (struct port_piece){.kind = PORT_MEMORY, .at = from, .size_bytes = bytes};
    struct port_effect *effect = ask(journal, PORT_WRITE, out);
    effect->position_bytes = offset;
    effect->pieces = &journal->line_piece;
    effect->piece_count = 1;
    effect->size_bytes = bytes;
}

/* The completion of a write or sync of settling. False: the load has ended. */
static bool is_settled_well(struct journal *journal, bool is_write)
{
    struct journal__load *load = &journal->load;
    load->is_asked = false;
    bool is_short = is_write && (load->count == 0 || load->count > journal->line_piece.size_bytes);
    if (load->rc == PORT_OK && !is_short) { return true; }
    journal__load_end(journal, load->rc != PORT_OK ? load->rc : PORT_IO);
    return false;
}

/* The chain goes on inside of a bad group: its header, left by an older life, would lead the next recovery over all that is
 * acknowledged from now on. */
static bool wipe_header(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    uint64_t at = load->walk.position;
    bool is_write = load->wiped_bytes < JOURNAL__PAGE_BYTES;
    if (load->is_asked) {
        if (!is_settled_well(journal, is_write)) { return false; }
        load->wiped_bytes = is_write ? load->wiped_bytes + load->count : 0;
        load->walk.is_wiped = !is_write;
        journal__read_forget(journal);
        return true;
    }
    if (journal__read(journal, number_of(journal, at), offset_of(journal, at), JOURNAL__PAGE_BYTES, out) == NULL) {
        return may_go_on(journal);
    }
    if (is_write) {
        ask_write(journal, offset_of(journal, at) + load->wiped_bytes, journal__zeros,
                  JOURNAL__PAGE_BYTES - load->wiped_bytes, out);
    } else {
        (void)ask(journal, PORT_SYNC, out);
    }
    return false;
}

bool journal__replay(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    struct journal__walk *walk = &load->walk;
    if (load->has_group) { return step_group(journal, out); }
    enum looked looked = look(journal, out);
    if (looked == LOOKED_NOT_YET) { return may_go_on(journal); }
    if (looked == LOOKED_FOUND) {
        begin_group(journal);
        return journal->state == JOURNAL__LOADING;
    }
    if (looked == LOOKED_GAP && walk->is_bad && !walk->is_wiped) { return wipe_header(journal, out); }
    bool is_lost = looked == LOOKED_END && load->is_lost_tail;
    uint64_t position = walk->position;
    uint64_t number = number_of(journal, position);
    bool is_end = looked == LOOKED_END || (looked == LOOKED_GAP && !walk->has_candidate);
    uint64_t number_to = is_end ? number_last(load) + 1 : number_of(journal, walk->candidate.position);
    bool is_missing = !journal__load_has_file(journal, number) || has_hole(journal, number, number_to);
    if (!is_end) {
        pass_to_candidate(walk);
    } else {
        load->is_lost_tail = load->is_lost_tail || looked == LOOKED_GAP;
        end_walk(journal);
        if (journal->state != JOURNAL__LOADING) { return false; }
        /* The header here is good: the chain would lead through it again once a later line says that this place is synced. So
         * where the journal goes on elsewhere, a mark of this life takes its place first. */
        load->is_torn = walk->is_bad && !load->is_lost_tail;
        load->is_cut = load->is_torn && load->is_fresh;
    }
    if (looked == LOOKED_GAP || is_lost || is_missing) { journal__load_damage(journal, position); }
    return true;
}

/* ---- settle --------------------------------------------------------------------------------------------------------------- */

/* Writes back up to a window of what stands at `at` of file `number`, as it was read. True: a completion is to be judged. */
static bool write_back(struct journal *journal, uint64_t number, uint64_t at, uint64_t end, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (load->is_asked) { return true; }
    uint64_t bytes = base_min_u64(end - at, JOURNAL__WINDOW_BYTES / 2);
    const uint8_t *from = journal__read(journal, number, at, bytes, out);
    if (from == NULL) { return false; }
    if (journal->reader.is_missing) { /* it was there a moment ago */
        journal__load_end(journal, PORT_IO);
        return false;
    }
    ask_write(journal, at, from, bytes, out);
    return false;
}

/* One step of writing [*at, end) of the file again and syncing it. True when `*is_done_out` or more can be done at once. */
static bool settle_file(struct journal *journal, uint64_t number, uint64_t offset, uint64_t offset_end, uint64_t *at,
                        bool *is_done_out, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (offset < offset_end) {
        if (!write_back(journal, number, offset, offset_end, out)) { return may_go_on(journal) && !load->is_busy; }
        if (!is_settled_well(journal, true)) { return false; }
        *at += load->count;
        return true;
    }
    if (!load->is_asked) {
        (void)ask(journal, PORT_SYNC, out);
        return false;
    }
    if (!is_settled_well(journal, false)) { return false; }
    *is_done_out = true;
    return true;
}

bool journal__settle(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    if (load->settle_at >= load->settle_end && !load->is_settling) {
        load->stage = JOURNAL__LOAD_SETTLE_CHECKPOINT;
        load->settle_at = 0;
        load->is_settling = true;
        return true;
    }
    if (!load->is_settling) {
        uint64_t number = number_of(journal, load->settle_at);
        if (!journal__load_has_file(journal, number)) {
            load->settle_at = (number + 1) * journal->file_bytes;
            return true;
        }
        load->is_settling = true;
        load->at = number; /* the file under way */
    }
    uint64_t file_end = (load->at + 1) * journal->file_bytes;
    uint64_t end = base_min_u64(load->settle_end, file_end);
    uint64_t file_at = load->at * journal->file_bytes;
    bool is_done = false;
    bool goes_on =
        settle_file(journal, load->at, load->settle_at - file_at, end - file_at, &load->settle_at, &is_done, out);
    if (is_done) { load->is_settling = false; }
    return goes_on;
}

bool journal__settle_checkpoint(struct journal *journal, struct port_out *out)
{
    struct journal__load *load = &journal->load;
    bool is_done = load->checkpoint_seen >= load->chosen.sequence; /* a group says that it was synced */
    if (!is_done) {
        uint64_t number = JOURNAL__CHECKPOINT_A + load->which;
        bool goes_on =
            settle_file(journal, number, load->settle_at, load->chosen_bytes, &load->settle_at, &is_done, out);
        if (!is_done) { return goes_on; }
    }
    journal->checkpoint_synced = load->chosen.sequence;
    journal->checkpoint_which = load->which;
    journal__read_close(journal, out);
    load->stage = JOURNAL__LOAD_SYNC_DIR;
    return true;
}
