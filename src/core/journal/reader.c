/* reader.c: bytes of files for the loader, a window of 1 MiB at a time, and a block of its own for what is larger.
 *
 * One file is open at a time, for writing too: the loader writes back what it has read there (replay.c, settle).
 * Past its end, or if it is missing, a file reads as zeros: nothing valid is all zeros.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "journal__machine.h"

#define SUM_STEP_BYTES (256u * 1024u)

#include "codec/codec.h"

static uint64_t read_token(void) { return journal__token(JOURNAL__FOR_LOAD, 1); }

void journal__read_close(struct journal *journal, struct port_out *out)
{
    struct journal__reader *reader = &journal->reader;
    CHECK(!reader->is_busy);
    if (reader->slot != JOURNAL__NO_SLOT) { journal__slot_close(journal, reader->slot, out); }
    reader->slot = JOURNAL__NO_SLOT;
    reader->number = JOURNAL__NO_FILE;
    reader->is_missing = false;
    reader->window_bytes = 0;
    reader->window_want = 0;
    if (reader->blob != NULL) { base_pages_give(journal->pages, reader->blob); }
    reader->blob = NULL;
}

void journal__read_forget(struct journal *journal)
{
    journal->reader.window_bytes = 0;
    journal->reader.window_want = 0;
}

/* True: `number` is the open file, or known to be missing. */
static bool is_open(struct journal *journal, uint64_t number, struct port_out *out)
{
    struct journal__reader *reader = &journal->reader;
    CHECK(!reader->is_busy);
    if (reader->number == number) { return true; }
    journal__read_close(journal, out);
    uint32_t slot = journal__slot_take(journal);
    if (slot == JOURNAL__NO_SLOT) { /* all are closing: their completions end up here */
        out->wants_turn = true;
        return false;
    }
    struct base_text text;
    base_text_init(&text, journal->slots[slot].path, JOURNAL__NAME_BYTES);
    if (number >= JOURNAL__CHECKPOINT_A) {
        journal__name_checkpoint(&text, (uint32_t)(number - JOURNAL__CHECKPOINT_A));
    } else {
        journal__name_file(&text, number);
    }
    reader->slot = slot;
    reader->number = number;
    reader->is_busy = true;
    (void)journal__emit_open(journal, slot, read_token(), PORT_OPEN_WRITE | PORT_OPEN_FRESH, out);
    return false;
}

static void emit_read(struct journal *journal, uint64_t at, uint8_t *buffer, uint64_t size_bytes, struct port_out *out)
{
    struct port_effect *effect = journal__emit_file(journal, PORT_READ, journal->reader.slot, read_token(), out);
    effect->position_bytes = at;
    effect->buffer = buffer;
    effect->size_bytes = size_bytes;
    journal->reader.is_busy = true;
}

const uint8_t *journal__read(struct journal *journal, uint64_t number, uint64_t at, uint64_t size_bytes,
                             struct port_out *out)
{
    struct journal__reader *reader = &journal->reader;
    CHECK(size_bytes <= JOURNAL__WINDOW_BYTES - JOURNAL__PAGE_BYTES);
    if (!is_open(journal, number, out)) { return NULL; }
    uint64_t window_at = at / JOURNAL__PAGE_BYTES * JOURNAL__PAGE_BYTES;
    bool is_inside = at >= reader->window_at && at + size_bytes <= reader->window_at + reader->window_want;
    if (reader->window_want == 0 || !is_inside) {
        reader->window_at = window_at;
        reader->window_bytes = 0;
        uint64_t file_end = number < JOURNAL__CHECKPOINT_A ? journal->file_bytes : reader->size_bytes;
        uint64_t want = base_max_u64(at + size_bytes, file_end) - window_at; /* nothing is looked for behind it */
        reader->window_want = base_min_u64(want, JOURNAL__WINDOW_BYTES);
    }
    uint64_t end = reader->window_at + reader->window_bytes;
    if (reader->window_bytes < reader->window_want && (reader->is_missing || end >= reader->size_bytes)) {
        memset(reader->window + reader->window_bytes, 0, reader->window_want - reader->window_bytes);
        reader->window_bytes = reader->window_want;
    }
    if (at + size_bytes <= reader->window_at + reader->window_bytes) {
        return reader->window + (at - reader->window_at);
    }
    emit_read(journal, end, reader->window + reader->window_bytes, reader->window_want - reader->window_bytes, out);
    return NULL;
}

const uint8_t *journal__read_blob(struct journal *journal, uint64_t number, uint64_t at, uint64_t size_bytes,
                                  struct port_out *out)
{
    struct journal__reader *reader = &journal->reader;
    if (size_bytes <= JOURNAL__WINDOW_BYTES - JOURNAL__PAGE_BYTES) {
        return journal__read(journal, number, at, size_bytes, out);
    }
    if (!is_open(journal, number, out)) { return NULL; }
    if (reader->blob == NULL || reader->blob_at != at || reader->blob_want != size_bytes) {
        if (reader->blob != NULL) { base_pages_give(journal->pages, reader->blob); }
        reader->blob = base_pages_take(journal->pages, BASE_CONTROL, size_bytes);
        if (reader->blob == NULL) {
            journal__load_end(journal, PORT_NO_MEMORY);
            return NULL;
        }
        reader->blob_at = at;
        reader->blob_want = size_bytes;
        reader->blob_bytes = 0;
    }
    uint64_t end = at + reader->blob_bytes;
    if (reader->blob_bytes < size_bytes && (reader->is_missing || end >= reader->size_bytes)) {
        memset(reader->blob + reader->blob_bytes, 0, size_bytes - reader->blob_bytes);
        reader->blob_bytes = size_bytes;
    }
    if (reader->blob_bytes == size_bytes) { return reader->blob; }
    emit_read(journal, end, reader->blob + reader->blob_bytes,
              base_min_u64(size_bytes - reader->blob_bytes, JOURNAL__WINDOW_BYTES), out);
    return NULL;
}

bool journal__read_sum(struct journal *journal, uint64_t number, uint64_t at, uint64_t size_bytes, uint32_t *sum_out,
                       struct port_out *out)
{
    struct journal__reader *reader = &journal->reader;
    CHECK(IMPLIES(reader->sum_done > 0, reader->sum_at == at));
    reader->sum_at = at;
    if (reader->sum_done < size_bytes) {
        uint64_t more = base_min_u64(size_bytes - reader->sum_done, SUM_STEP_BYTES);
        const uint8_t *bytes = journal__read(journal, number, at + reader->sum_done, more, out);
        if (bytes == NULL) { return false; }
        reader->sum = codec_crc32c(reader->sum, bytes, more);
        reader->sum_done += more;
        if (reader->sum_done < size_bytes) { return false; }
    }
    *sum_out = reader->sum;
    reader->sum = 0;
    reader->sum_done = 0;
    return true;
}

void journal__read_done(struct journal *journal, const struct port_event *event)
{
    struct journal__reader *reader = &journal->reader;
    enum port_rc rc = event->done.rc;
    CHECK(reader->is_busy);
    reader->is_busy = false;
    if (event->done.effect == PORT_OPEN) {
        journal->slots[reader->slot].state = rc == PORT_OK ? JOURNAL__SLOT_OPEN : JOURNAL__SLOT_FREE;
        reader->size_bytes = rc == PORT_OK ? event->done.count : 0;
        reader->is_missing = rc == PORT_MISSING;
        if (rc != PORT_OK) { reader->slot = JOURNAL__NO_SLOT; }
        if (rc != PORT_OK && rc != PORT_MISSING) { journal__load_end(journal, rc); }
        return;
    }
    if (rc != PORT_OK) { /* unreadable is not the same as wrong: never cut for it */
        journal__load_end(journal, rc);
        return;
    }
    uint64_t count = event->done.count;
    bool is_blob = reader->blob != NULL && reader->blob_bytes < reader->blob_want;
    if (is_blob) {
        CHECK(count <= reader->blob_want - reader->blob_bytes);
        reader->blob_bytes += count;
        if (count == 0) { reader->size_bytes = reader->blob_at + reader->blob_bytes; }
    } else {
        CHECK(count <= reader->window_want - reader->window_bytes);
        reader->window_bytes += count;
        if (count == 0) { reader->size_bytes = reader->window_at + reader->window_bytes; }
    }
}
