/* append.c: entries wait in a queue, leave as groups, are synced, and are answered in order.
 *
 * A group holds what waited when its turn came: one write, then one sync. At most one sync runs, and at most one group is
 * written behind it, so what comes meanwhile shares the next write and the next sync. A sync is asked only for a group whose
 * write has completed (port.h, rule 5); the line moves when the sync has completed.
 *
 * After the last group of a busy time a page with the line alone is written where the next group will stand, without a sync:
 * so that damage to that last group is seen as damage even if no group ever follows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "journal__machine.h"

static struct journal__queued *queued_at(struct journal *journal, uint64_t counter)
{
    return &journal->queue[counter % journal->config.entries_max];
}

static uint64_t group_bytes_max(const struct journal *journal)
{
    return base_min_u64(journal->config.group_bytes_max, journal->file_bytes - JOURNAL__FREE_BYTES);
}

enum base_rc journal_append(struct journal *journal, const struct journal_entry *entry, const struct port_piece *pieces,
                            uint32_t piece_count, uint64_t token, struct port_out *out)
{
    CHECK(journal->state == JOURNAL__READY || journal->state == JOURNAL__REPLAYED || journal__is_failed(journal));
    CHECK(!journal->wants_stop);
    CHECK(IMPLIES(!entry->has_bytes, piece_count == 0));
    CHECK(piece_count <= JOURNAL_PIECES_MAX);
    if (journal->queue_tail - journal->queue_out >= journal->config.entries_max) { return BASE_FULL; }
    if (journal->piece_tail - journal->piece_head + piece_count > journal->pieces_max) { return BASE_FULL; }
    uint64_t size_bytes = 0;
    for (uint32_t i = 0; i < piece_count; i++) {
        CHECK(pieces[i].kind == PORT_MEMORY);
        size_bytes += pieces[i].size_bytes;
        journal->pieces[(journal->piece_tail + i) % journal->pieces_max] = pieces[i];
    }
    CHECK(IMPLIES(entry->has_bytes, size_bytes == entry->size_bytes));
    CHECK(journal__group_bytes(1, size_bytes) <= journal->config.group_bytes_max);
    *queued_at(journal, journal->queue_tail) =
        (struct journal__queued){.entry = *entry, .token = token, .piece_count = piece_count};
    journal->piece_tail += piece_count;
    journal->queue_tail += 1;
    out->wants_turn = true;
    return BASE_OK;
}

/* ---- a group ---------------------------------------------------------------------------------------------------------- */

/* How many of the waiting entries one group takes, and the bytes of their payload. */
static uint32_t measure(struct journal *journal, uint64_t *payload_bytes_out)
{
    uint64_t payload_bytes = 0;
    uint32_t pieces = 4; /* table, padding, copy, trailer */
    uint32_t rows = 0;
    for (uint64_t at = journal->queue_gathered; at < journal->queue_tail && rows < journal->rows_max; at++) {
        const struct journal__queued *queued = queued_at(journal, at);
        uint64_t more = queued->entry.has_bytes ? queued->entry.size_bytes : 0;
        if (rows > 0 && (journal__group_bytes(rows + 1, payload_bytes + more) > group_bytes_max(journal) ||
                         pieces + queued->piece_count > JOURNAL__GROUP_PIECES)) {
            break;
        }
        payload_bytes += more;
        pieces += queued->piece_count;
        rows += 1;
    }
    *payload_bytes_out = payload_bytes;
    return rows;
}

/* Finds the place for `bytes`. False: the next file is not ready, or the journal is full. */
static bool make_place(struct journal *journal, uint64_t bytes, struct port_out *out)
{
    uint64_t offset = journal->end % journal->file_bytes;
    bool fits = offset + bytes + JOURNAL__FREE_BYTES <= journal->file_bytes;
    uint64_t position = fits ? journal->end : (journal->current_number + 1) * journal->file_bytes;
    /* On the way to a stop no checkpoint may come any more: what waits goes beyond the limit. */
    if (position + bytes - journal->begin > journal->limit_bytes && !journal->wants_stop && !journal->is_hasty) {
        journal->is_checkpoint_wanted = true;
        return false;
    }
    if (fits) { return true; }
    if (!journal->files.is_next_ready) {
        journal__files_want(journal, journal->current_number + 1, out);
        return false;
    }
    journal__files_switch(journal);
    return true;
}

static void add_piece(struct journal__group *group, const uint8_t *at, uint64_t size_bytes)
{
    if (size_bytes == 0) { return; }
    CHECK(group->piece_count < JOURNAL__GROUP_PIECES);
    group->pieces[group->piece_count] = (struct port_piece){.kind = PORT_MEMORY, .at = at, .size_bytes = size_bytes};
    group->piece_count += 1;
}

/* Lays out header, rows and pieces of the next `rows` entries. */
static void lay_out(struct journal *journal, struct journal__group *group, uint32_t rows, uint64_t payload_bytes)
{
    struct journal__head head = {
        .id = journal->id,
        .life = journal->life,
        .sequence = journal->sequence,
        .position = group->position,
        .bytes = group->bytes,
        .line = journal->line,
        .checkpoint = journal->checkpoint_synced,
        .payload_bytes = payload_bytes,
        .row_count = rows,
    };
    uint64_t table_bytes = journal__table_bytes(rows);
    journal__put_head(group->table, &head);
    group->piece_first = 0;
    group->piece_count = 0;
    add_piece(group, group->table, table_bytes);
    uint64_t payload_at = table_bytes;
    for (uint32_t i = 0; i < rows; i++) {
        const struct journal__queued *queued = queued_at(journal, journal->queue_gathered + i);
        struct journal__row row = {.entry = queued->entry, .payload_at = payload_at};
        journal__put_row(group->table + JOURNAL__HEAD_BYTES + (size_t)i * JOURNAL__ROW_BYTES, &row, &head);
        for (uint32_t k = 0; k < queued->piece_count; k++) {
            const struct port_piece *piece = &journal->pieces[journal->piece_head % journal->pieces_max];
            add_piece(group, piece->at, piece->size_bytes);
            payload_at += piece->size_bytes;
            journal->piece_head += 1;
        }
    }
    CHECK(payload_at == table_bytes + payload_bytes);
    uint64_t padding = group->bytes - 2 * table_bytes - payload_bytes - JOURNAL__TRAILER_BYTES;
    CHECK(padding < JOURNAL__PAGE_BYTES);
    add_piece(group, journal__zeros, padding);
    add_piece(group, group->table, table_bytes);
    journal__put_trailer(group->trailer, (struct journal__trailer){group->position, (uint32_t)table_bytes});
    add_piece(group, group->trailer, JOURNAL__TRAILER_BYTES);
}

static void emit_write(struct journal *journal, struct journal__group *group, struct port_out *out)
{
    uint32_t index = (uint32_t)(group - journal->groups);
    struct port_effect *effect =
        journal__emit_file(journal, PORT_WRITE, group->slot, journal__token(JOURNAL__FOR_GROUP, index), out);
    effect->position_bytes = group->position % journal->file_bytes + group->bytes_written;
    effect->pieces = group->pieces + group->piece_first;
    effect->piece_count = group->piece_count - group->piece_first;
    effect->size_bytes = group->bytes - group->bytes_written;
    journal->writes_in_flight += 1;
}

static void write_group(struct journal *journal, struct port_out *out)
{
    uint64_t payload_bytes = 0;
    uint32_t rows = measure(journal, &payload_bytes);
    uint64_t bytes = journal__group_bytes(rows, payload_bytes);
    if (!make_place(journal, bytes, out)) { return; }
    struct journal__group *group = &journal->groups[journal->group_tail % JOURNAL__GROUPS];
    CHECK(group->state == JOURNAL__GROUP_FREE);
    group->state = JOURNAL__GROUP_WRITING;
    group->slot = journal->current_slot;
    group->position = journal->end;
    group->bytes = bytes;
    group->bytes_written = 0;
    group->tries = 0;
    group->retry_ns = UINT64_MAX;
    lay_out(journal, group, rows, payload_bytes);
    journal->queue_gathered += rows;
    group->queue_end = journal->queue_gathered;
    journal->group_tail += 1;
    journal->end += bytes;
    journal->sequence += 1;
    journal->line_told = journal->line;
    journal->groups_written += 1;
    journal->entries_written += rows;
    emit_write(journal, group, out);
}

/* A group that no sync has been asked for holds back the next one. */
static bool is_one_unsynced(const struct journal *journal)
{
    for (uint32_t i = 0; i < JOURNAL__GROUPS; i++) {
        enum journal__group_state state = journal->groups[i].state;
        if (state == JOURNAL__GROUP_WRITING || state == JOURNAL__GROUP_WRITTEN) { return true; }
    }
    return false;
}

void journal__append_pump(struct journal *journal, struct port_out *out)
{
    if (journal->state != JOURNAL__READY) { return; }
    if (journal->queue_gathered < journal->queue_tail && !is_one_unsynced(journal)) { write_group(journal, out); }
    if (journal->end - journal->begin >= journal->bytes_max / 2) { journal->is_checkpoint_wanted = true; }
}

/* Only one sync is under way, so that all before this group are synced. */
static void count_sync(struct journal *journal, const struct journal__group *group)
{
    uint64_t entries = group->queue_end - journal->queue_synced;
    uint32_t size = 0;
    while (size + 1 < JOURNAL_SYNC_SIZES && entries > UINT64_C(1) << size) { size += 1; }
    journal->syncs += 1;
    journal->sync_sizes[size] += 1;
    journal->synced_entries += entries;
}

void journal__append_sync(struct journal *journal, struct port_out *out)
{
    if (journal__is_failed(journal) || journal->is_syncing || journal->group_out == journal->group_tail) { return; }
    struct journal__group *group = &journal->groups[journal->group_out % JOURNAL__GROUPS];
    if (group->state != JOURNAL__GROUP_WRITTEN) { return; }
    (void)journal__emit_file(journal, PORT_SYNC, group->slot, journal__token(JOURNAL__FOR_SYNC, 0), out);
    group->state = JOURNAL__GROUP_SYNCING;
    journal->is_syncing = true;
    count_sync(journal, group);
    if (journal->queue_gathered < journal->queue_tail) { out->wants_turn = true; }
}

/* ---- completions ------------------------------------------------------------------------------------------------------ */

/* No sync was asked for it, and nothing is written behind it: written once more in its place it is as if it never failed. */
static void retry_later(struct journal *journal, struct journal__group *group, enum port_rc rc)
{
    if (rc == PORT_NO_SPACE) { journal__reserve_release(journal); }
    bool is_full = rc == PORT_NO_SPACE && !journal->wants_stop;
    bool is_given_up = rc == PORT_NO_SPACE && journal->is_hasty;
    if ((group->tries >= JOURNAL_TRIES_MAX && !is_full) || is_given_up) {
        journal__fail(journal, rc);
        return;
    }
    group->tries += 1;
    group->retry_ns = base_deadline_ns(journal->now_ns, JOURNAL__RETRY_NS);
}

uint64_t journal__group_retry_ns(const struct journal *journal)
{
    if (journal__is_failed(journal)) { return UINT64_MAX; }
    uint64_t at_ns = UINT64_MAX;
    for (uint32_t i = 0; i < JOURNAL__GROUPS; i++) { at_ns = base_min_u64(at_ns, journal->groups[i].retry_ns); }
    return at_ns;
}

void journal__group_retry(struct journal *journal, struct port_out *out)
{
    if (journal__is_failed(journal)) { return; }
    for (uint32_t i = 0; i < JOURNAL__GROUPS; i++) {
        struct journal__group *group = &journal->groups[i];
        if (group->retry_ns > journal->now_ns) { continue; }
        CHECK(group->state == JOURNAL__GROUP_WRITING);
        group->retry_ns = UINT64_MAX;
        emit_write(journal, group, out);
    }
}

void journal__group_written(struct journal *journal, const struct port_event *event, struct port_out *out)
{
    uint32_t index = (uint32_t)event->done.token & 0xffu;
    CHECK(index < JOURNAL__GROUPS);
    struct journal__group *group = &journal->groups[index];
    CHECK(group->state == JOURNAL__GROUP_WRITING);
    CHECK(journal->writes_in_flight > 0);
    journal->writes_in_flight -= 1;
    if (journal__is_failed(journal)) { return; }
    uint64_t left = group->bytes - group->bytes_written;
    if (event->done.rc != PORT_OK || event->done.count == 0 || event->done.count > left) {
        retry_later(journal, group, event->done.rc != PORT_OK ? event->done.rc : PORT_IO);
        return;
    }
    group->tries = 0;
    group->bytes_written += event->done.count;
    if (event->done.count < left) {
        journal__skip_pieces(group->pieces, &group->piece_first, group->piece_count, event->done.count);
        emit_write(journal, group, out);
        return;
    }
    group->state = JOURNAL__GROUP_WRITTEN;
    journal__append_sync(journal, out);
}

void journal__group_synced(struct journal *journal, const struct port_event *event, struct port_out *out)
{
    CHECK(journal->is_syncing);
    journal->is_syncing = false;
    if (journal__is_failed(journal)) { return; }
    if (event->done.rc != PORT_OK) { /* what the file holds is unknown from now on: never sync it again */
        journal__fail(journal, event->done.rc);
        return;
    }
    struct journal__group *group = &journal->groups[journal->group_out % JOURNAL__GROUPS];
    CHECK(group->state == JOURNAL__GROUP_SYNCING);
    group->state = JOURNAL__GROUP_FREE;
    journal->group_out += 1;
    CHECK(group->queue_end >= journal->queue_synced);
    journal->queue_synced = group->queue_end;
    journal->line = group->position + group->bytes;
    journal__append_sync(journal, out);
    out->wants_turn = true; /* the line, or what waited */
}

/* ---- the line alone ----------------------------------------------------------------------------------------------------- */

/* At a turn with nothing to write. Where it stands the next group is written over it: writes of a file keep their order. */
void journal__append_line(struct journal *journal, struct port_out *out)
{
    if (journal->state != JOURNAL__READY || journal->is_line_writing || journal->line_told == journal->line) { return; }
    if (journal->group_out != journal->group_tail || journal->queue_gathered != journal->queue_tail) { return; }
    CHECK(journal->line == journal->end);
    struct journal__head head = {
        .id = journal->id,
        .life = journal->life,
        .is_line = true,
        .sequence = journal->sequence,
        .position = journal->end,
        .bytes = JOURNAL__PAGE_BYTES,
        .line = journal->line,
        .checkpoint = journal->checkpoint_synced,
    };
    memset(journal->line_page, 0, JOURNAL__PAGE_BYTES);
    journal__put_head(journal->line_page, &head);
    journal->line_piece =
        (struct port_piece){.kind = PORT_MEMORY, .at = journal->line_page, .size_bytes = JOURNAL__PAGE_BYTES};
    struct port_effect *effect =
        journal__emit_file(journal, PORT_WRITE, journal->current_slot, journal__token(JOURNAL__FOR_LINE, 0), out);
    effect->position_bytes = journal->end % journal->file_bytes;
    effect->pieces = &journal->line_piece;
    effect->piece_count = 1;
    effect->size_bytes = JOURNAL__PAGE_BYTES;
    journal->line_told = journal->line;
    journal->is_line_writing = true;
}

void journal__line_written(struct journal *journal)
{
    CHECK(journal->is_line_writing);
    journal->is_line_writing = false; /* failed or short: the page is no line then, and nothing depends on it */
}

bool journal__append_is_idle(const struct journal *journal)
{
    if (journal->writes_in_flight > 0 || journal->is_syncing || journal->is_line_writing) { return false; }
    return journal__is_failed(journal) ||
           (journal->group_out == journal->group_tail && journal->queue_gathered == journal->queue_tail);
}
