/* reserve.c: a file without content that keeps room on the disk for what must go on when the disk is full.
 *
 * While it is held there is room. When something finds none (here, or elsewhere on this disk: journal_release_room), the file is
 * unlinked, so that the metadata, deletions and checkpoints have its room, and the owner refuses what only makes more. From then on it is
 * made again now and then, twice as large, which its own room does not do: once that succeeds there is room again, whoever made it.
 *
 * THE MOVES  GONE -pump-> OPENING -> [no room was found: PROBING -> CUTTING ->] ALLOCATING -> HELD
 *            HELD, or GONE while the name is there -wanted-> UNLINKING -> GONE
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "journal__machine.h"

#define RESERVE_BYTES_MIN ((uint64_t)64 << 10)

static uint64_t reserve_token(void) { return journal__token(JOURNAL__FOR_RESERVE, 0); }

static uint64_t reserve_bytes(const struct journal *journal)
{
    return base_min_u64(base_max_u64(journal->file_bytes / 4, RESERVE_BYTES_MIN), journal->config.reserve_bytes_max);
}

bool journal__reserve_is_busy(const struct journal *journal)
{
    enum journal__reserve_stage stage = journal->reserve.stage;
    return stage != JOURNAL__RESERVE_GONE && stage != JOURNAL__RESERVE_HELD;
}

static bool is_due(const struct journal *journal)
{
    return journal->state == JOURNAL__READY && !journal->wants_stop && journal->config.reserve_bytes_max > 0;
}

/* Once it has come, what still keeps the file from being made (no slot, a file that comes first) has an event or an alarm of its
 * own. */
uint64_t journal__reserve_retry_ns(const struct journal *journal)
{
    bool is_missed = journal->reserve.stage == JOURNAL__RESERVE_GONE && is_due(journal);
    return is_missed ? journal__alarm_ns(journal, journal->reserve.retry_ns) : UINT64_MAX;
}

void journal__reserve_release(struct journal *journal)
{
    journal->reserve.is_wanted = true;
    journal->reserve.is_short = true;
}

static void unlink_it(struct journal *journal, struct port_out *out)
{
    struct journal__reserve *reserve = &journal->reserve;
    reserve->is_wanted = false;
    reserve->is_there = false;
    reserve->stage = JOURNAL__RESERVE_UNLINKING;
    (void)journal__emit_dir(journal, PORT_UNLINK, JOURNAL__RESERVE_PATH, reserve_token(), out);
}

/* Not beside a next file that finds no room: that one comes first. */
static bool may_make(const struct journal *journal)
{
    bool is_first_waiting = journal->files.is_short && journal->files.is_urgent;
    return is_due(journal) && !is_first_waiting && journal->now_ns >= journal->reserve.retry_ns;
}

void journal__reserve_pump(struct journal *journal, struct port_out *out)
{
    struct journal__reserve *reserve = &journal->reserve;
    if (journal__reserve_is_busy(journal) || journal__is_failed(journal)) { return; }
    if (reserve->is_wanted && reserve->is_there) {
        unlink_it(journal, out);
        return;
    }
    if (reserve->is_wanted) { reserve->retry_ns = base_deadline_ns(journal->now_ns, JOURNAL__RETRY_NS); }
    reserve->is_wanted = false;
    if (reserve->stage == JOURNAL__RESERVE_HELD || !may_make(journal)) { return; }
    uint32_t slot = journal__slot_take(journal);
    if (slot == JOURNAL__NO_SLOT) { return; } /* their completions come here again */
    struct base_text text;
    base_text_init(&text, journal->slots[slot].path, JOURNAL__NAME_BYTES);
    base_text_add(&text, JOURNAL__RESERVE_PATH);
    reserve->slot = slot;
    reserve->stage = JOURNAL__RESERVE_OPENING;
    reserve->is_there = true;
    (void)journal__emit_open(journal, slot, reserve_token(), PORT_OPEN_WRITE | PORT_OPEN_CREATE, out);
}

/* Tried again later; until then what there is of it is no use. */
static void fail(struct journal *journal)
{
    struct journal__reserve *reserve = &journal->reserve;
    reserve->stage = JOURNAL__RESERVE_GONE;
    reserve->is_wanted = true;
}

static void allocate(struct journal *journal, enum journal__reserve_stage stage, struct port_out *out)
{
    struct journal__reserve *reserve = &journal->reserve;
    struct port_effect *effect = journal__emit_file(journal, PORT_ALLOCATE, reserve->slot, reserve_token(), out);
    effect->size_bytes = reserve_bytes(journal) * (stage == JOURNAL__RESERVE_PROBING ? 2 : 1);
    reserve->stage = stage;
}

static void opened(struct journal *journal, enum port_rc rc, struct port_out *out)
{
    struct journal__reserve *reserve = &journal->reserve;
    journal->slots[reserve->slot].state = rc == PORT_OK ? JOURNAL__SLOT_OPEN : JOURNAL__SLOT_FREE;
    if (rc != PORT_OK) {
        if (rc == PORT_NO_SPACE) { reserve->is_short = true; }
        fail(journal);
        return;
    }
    allocate(journal, reserve->is_short ? JOURNAL__RESERVE_PROBING : JOURNAL__RESERVE_ALLOCATING, out);
}

/* OTHER: a file system that can't. Nothing is kept. */
static bool is_done(enum port_rc rc) { return rc == PORT_OK || rc == PORT_OTHER; }

static void go_on(struct journal *journal, enum port_rc rc, struct port_out *out)
{
    struct journal__reserve *reserve = &journal->reserve;
    enum journal__reserve_stage stage = reserve->stage;
    if (rc == PORT_NO_SPACE) { reserve->is_short = true; }
    if (is_done(rc) && stage == JOURNAL__RESERVE_PROBING) {
        (void)journal__emit_file(journal, PORT_TRUNCATE, reserve->slot, reserve_token(), out); /* to nothing */
        reserve->stage = JOURNAL__RESERVE_CUTTING;
        return;
    }
    if (is_done(rc) && stage == JOURNAL__RESERVE_CUTTING) {
        allocate(journal, JOURNAL__RESERVE_ALLOCATING, out);
        return;
    }
    journal__slot_close(journal, reserve->slot, out);
    if (!is_done(rc)) {
        fail(journal);
        return;
    }
    reserve->stage = JOURNAL__RESERVE_HELD;
    reserve->is_short = reserve->is_wanted;
}

void journal__reserve_done(struct journal *journal, const struct port_event *event, struct port_out *out)
{
    struct journal__reserve *reserve = &journal->reserve;
    switch (reserve->stage) {
    case JOURNAL__RESERVE_OPENING: opened(journal, event->done.rc, out); break;
    case JOURNAL__RESERVE_PROBING:
    case JOURNAL__RESERVE_CUTTING:
    case JOURNAL__RESERVE_ALLOCATING: go_on(journal, event->done.rc, out); break;
    case JOURNAL__RESERVE_UNLINKING:
        reserve->stage = JOURNAL__RESERVE_GONE;
        reserve->retry_ns = base_deadline_ns(journal->now_ns, JOURNAL__RETRY_NS);
        /* What waited for room may have it now. */
        journal->files.retry_ns = journal->now_ns;
        journal->want_again_ns = journal->now_ns;
        out->wants_turn = true;
        break;
    case JOURNAL__RESERVE_GONE:
    case JOURNAL__RESERVE_HELD: CHECK(false);
    }
}
