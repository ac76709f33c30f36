/* plog__append.c: rounds: what waits for a log is judged, gets its offsets and becomes one write; then one run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

struct plog__round *plog__round_at(const struct plog *plog, uint32_t slot) { return base_pool_at(&plog->rounds, slot); }
struct plog__append *plog__append_at(const struct plog *plog, uint32_t slot)
{
    return base_pool_at(&plog->appends, slot);
}

static struct plog__append *append_on(struct base_link *link) { return BASE_ITEM(link, struct plog__append, link); }
static struct plog__round *round_on(struct base_link *link) { return BASE_ITEM(link, struct plog__round, link); }

/* ---- the answers ---- */

static void note_append(struct plog *plog, struct plog__append *append, enum plog_out_kind kind)
{
    plog__note(plog, (struct plog__note){.kind = kind, .slot = base_pool_index(&plog->appends, append)});
}

static void fail_append(struct plog *plog, struct plog__append *append, enum plog_result result)
{
    append->result = result;
    note_append(plog, append, PLOG_OUT_FAILED);
}

static void finish_append(struct plog *plog, const struct plog__log *log, struct plog__append *append)
{
    append->result = append->is_duplicate ? PLOG_DUPLICATE : PLOG_OK;
    append->offset_start = log->offset_start;
    note_append(plog, append, PLOG_OUT_SYNCED);
}

enum base_rc plog_append(struct plog *plog, struct plog_ref ref, const struct plog_append *ask, struct port_out *out)
{
    CHECK(ask->size_bytes > 0);
    plog__begin(plog, out);
    uint32_t slot = base_pool_take(&plog->appends);
    if (slot == BASE_POOL_NONE) { return BASE_FULL; }
    struct plog__append *append = base_pool_at(&plog->appends, slot);
    append->ask = *ask;
    append->log = PLOG__NONE;
    append->base_offset = -1;
    append->log_append_time_ms = -1;
    struct plog__log *log = plog__log_of(plog, ref);
    if (log == NULL) {
        fail_append(plog, append, PLOG_GONE);
    } else if (plog->is_failed || log->is_failed || plog->life != PLOG__SERVING) {
        fail_append(plog, append, PLOG_STORAGE);
    } else {
        append->log = ref.slot;
        base_list_push_back(log->is_cutting ? &log->held : &log->queue, &append->link);
        plog__task_ready(plog, &log->writer);
        out->wants_turn = true;
        return BASE_OK; /* gathered until the turn ends */
    }
    plog__end(plog, out);
    return BASE_OK;
}

/* ---- judging ---- */

struct plan { /* of an append */
    int64_t offset_first;
    int32_t epoch_last;
    bool is_dense; /* offsets and epochs, as they are in the batches */
    uint32_t batch_count;
    int64_t offset_count;
    int64_t timestamp_max;
    int64_t producer_id; /* -1: none */
    bool is_mixed;       /* more than one producer: from no client */
};

static bool measure(const struct plog *plog, const struct plog__append *append, struct plan *plan_out)
{
    struct plan plan = {.timestamp_max = -1, .producer_id = -1, .epoch_last = -1, .is_dense = true};
    int64_t offset_next = -1;
    uint64_t at = 0;
    while (at < append->ask.size_bytes) {
        struct plog__head head;
        if (append->ask.size_bytes - at < REC_HEADER_BYTES ||
            !plog__head_read(append->ask.batches + at, INT64_MIN, &head) ||
            head.size_bytes > append->ask.size_bytes - at) {
            return false;
        }
        if (at == 0) { plan.offset_first = offset_next = head.base_offset; }
        if (head.base_offset != offset_next || head.leader_epoch < plan.epoch_last) { plan.is_dense = false; }
        offset_next = head.offset_last + 1;
        plan.epoch_last = head.leader_epoch;
        plan.offset_count += head.offset_last - head.base_offset + 1;
        plan.timestamp_max =
            base_max_i64(plan.timestamp_max, append->ask.is_log_append_time ? plog->wall_ms : head.max_timestamp_ms);
        if (plan.batch_count > 0 && head.producer_id != plan.producer_id) { plan.is_mixed = true; }
        plan.producer_id = base_max_i64(plan.producer_id, head.producer_id);
        plan.batch_count += 1;
        at += head.size_bytes;
    }
    *plan_out = plan;
    return true;
}

static enum plog_result result_of(enum plog__verdict verdict)
{
    switch (verdict) {
    case PLOG__ACCEPT: return PLOG_OK;
    case PLOG__DUPLICATE: return PLOG_DUPLICATE;
    case PLOG__OUT_OF_ORDER: return PLOG_OUT_OF_ORDER;
    case PLOG__FENCED: return PLOG_FENCED;
    case PLOG__NO_ROOM: return PLOG_BUSY;
    }
    UNREACHABLE();
}

/* The batches of one append stand or fall together, and one that is there already makes all of it a duplicate. */
static enum plog__verdict judge(struct plog *plog, struct plog__log *log, struct plog__append *append,
                                const struct plan *plan, int64_t offset_base)
{
    if (plan->producer_id < 0) { return PLOG__ACCEPT; }
    if (plan->is_mixed) { return PLOG__OUT_OF_ORDER; }
    struct plog__producer *producer = plog__producer_find(plog, plog__log_slot(plog, log), plan->producer_id);
    struct plog__sequence next = {.epoch = REC_NO_EPOCH};
    if (producer != NULL) { next = producer->now; }
    int64_t offset = offset_base;
    for (uint64_t at = 0; at < append->ask.size_bytes;) {
        struct plog__head head;
        struct plog__kept kept;
        bool is_head = plog__head_read(append->ask.batches + at, INT64_MIN, &head);
        CHECK(is_head); /* measured */
        enum plog__verdict verdict = plog__sequence_judge(&next, &head, &kept);
        if (verdict == PLOG__DUPLICATE) {
            append->base_offset = kept.base_offset;
            append->log_append_time_ms = kept.timestamp_ms; /* Kafka's answer has it whoever set it */
        }
        if (verdict != PLOG__ACCEPT) { return verdict; }
        int64_t delta = head.offset_last - head.base_offset;
        head.base_offset = offset;
        head.offset_last = offset + delta;
        if (append->ask.is_log_append_time) { head.max_timestamp_ms = plog->wall_ms; }
        plog__sequence_apply(&next, &head, plog__came_ms(plog));
        offset += delta + 1;
        at += head.size_bytes;
    }
    bool is_new = producer == NULL;
    if (is_new) { producer = plog__producer_make(plog, log, plan->producer_id); }
    if (producer == NULL) { return PLOG__NO_ROOM; }
    plog__producer_touch(log, producer);
    if (is_new) { producer->is_new = true; }
    producer->now = next;
    plog__producer_used(plog, producer);
    return PLOG__ACCEPT;
}

/* A follower's batches were judged where they were first appended: they only move their producers. */
static void follow(struct plog *plog, struct plog__log *log, const struct plog__append *append)
{
    for (uint64_t at = 0; at < append->ask.size_bytes;) {
        struct plog__head head;
        bool is_head = plog__head_read(append->ask.batches + at, INT64_MIN, &head);
        CHECK(is_head); /* measured */
        at += head.size_bytes;
        if (head.producer_id < 0) { continue; }
        struct plog__producer *producer = plog__producer_find(plog, plog__log_slot(plog, log), head.producer_id);
        bool is_new = producer == NULL;
        if (is_new) { producer = plog__producer_make(plog, log, head.producer_id); }
        if (producer == NULL) { continue; } /* as if evicted at once */
        plog__producer_touch(log, producer);
        if (is_new) { producer->is_new = true; }
        plog__sequence_apply(&producer->now, &head, plog__came_ms(plog));
        plog__producer_used(plog, producer);
    }
}

/* Its offsets are the next ones, and no epoch is behind what the log has or ahead of its leader. */
static bool is_next(const struct plog__log *log, const struct plog__append *append, const struct plan *plan,
                    int64_t offset_next)
{
    struct plog__head head;
    bool is_head = plog__head_read(append->ask.batches, INT64_MIN, &head);
    CHECK(is_head); /* measured */
    return plan->is_dense && plan->offset_first == offset_next && head.leader_epoch >= plog__epoch_last(log) &&
           plan->epoch_last <= append->ask.leader_epoch && !append->ask.is_log_append_time;
}

static void assign(const struct plog *plog, struct plog__append *append, int64_t offset_base)
{
    int64_t offset = offset_base;
    append->base_offset = offset_base;
    append->log_append_time_ms = append->ask.is_log_append_time ? plog->wall_ms : -1;
    for (uint64_t at = 0; at < append->ask.size_bytes;) {
        struct plog__head head;
        bool is_head = plog__head_read(append->ask.batches + at, INT64_MIN, &head);
        CHECK(is_head);
        rec_assign(append->ask.batches + at, offset, append->ask.leader_epoch);
        if (append->ask.is_log_append_time) { rec_stamp(append->ask.batches + at, REC_LOG_APPEND_TIME, plog->wall_ms); }
        offset += head.offset_last - head.base_offset + 1;
        at += head.size_bytes;
    }
}

/* ---- rolling ---- */

/* Logs that began together do not roll together. The same for a segment whenever it is asked. */
static uint64_t jitter_ms(const struct plog__log *log, const struct plog__segment *segment)
{
    uint64_t most_ms = base_min_u64(log->config.segment_jitter_ms, log->config.segment_ms);
    if (most_ms == 0) { return 0; }
    return base_hash_u64(base_part_hash(log->id) ^ base_hash_u64((uint64_t)segment->base)) % most_ms;
}

bool plog__should_roll(const struct plog *plog, const struct plog__log *log, const struct plog__segment *segment,
                       uint64_t size_bytes, int64_t offset_last, int64_t timestamp_ms)
{
    if (segment->is_sealed || segment->damage_to > 0) { return true; }
    if (segment->size_bytes == 0 && segment->base == log->offset_end) { return false; }
    if (offset_last - segment->base > INT32_MAX || segment->size_bytes + size_bytes > PLOG__SEGMENT_BYTES_MAX) {
        return true;
    }
    if (!plog__has_segment_slot(plog)) { return false; } /* a long segment is better than a refusal */
    if (segment->size_bytes + size_bytes > log->config.segment_bytes || plog__index_is_full(log, segment)) {
        return true;
    }
    /* Kafka: by the distance of timestamps, by the age of the file where there is none. */
    int64_t waited_ms = segment->timestamp_first >= 0 ? timestamp_ms - segment->timestamp_first
                                                      : plog__age_ms(plog->wall_ms, segment->created_wall_ms);
    return waited_ms > 0 && (uint64_t)waited_ms > log->config.segment_ms - jitter_ms(log, segment);
}

/* ---- a round ---- */

static bool round_has_room(struct plog *plog, struct plog__round *round)
{
    if (round->append_count < round->pieces_max) { return true; }
    if (round->pieces_block != NULL || round->append_count == PLOG__ROUND_APPENDS_MAX) { return false; }
    size_t size_bytes = PLOG__ROUND_APPENDS_MAX * sizeof(struct port_piece);
    round->pieces_block = base_pages_take(plog->pages, BASE_CLIENTS, size_bytes);
    if (round->pieces_block == NULL) { return false; } /* a shorter round, then */
    round->pieces = round->pieces_block;
    round->pieces_max = PLOG__ROUND_APPENDS_MAX;
    return true;
}

void plog__round_pieces(const struct plog *plog, struct plog__round *round, uint64_t skip_bytes)
{
    (void)plog;
    round->piece_count = 0;
    for (struct base_link *link = base_list_first(&round->appends); link != NULL;
         link = base_list_next(&round->appends, link)) {
        const struct plog__append *append = append_on(link);
        if (append->is_duplicate) { continue; }
        uint64_t size_bytes = append->ask.size_bytes;
        if (skip_bytes >= size_bytes) {
            skip_bytes -= size_bytes;
            continue;
        }
        CHECK(round->piece_count < round->pieces_max);
        round->pieces[round->piece_count] = (struct port_piece){.kind = PORT_MEMORY,
                                                                .at = append->ask.batches + skip_bytes,
                                                                .size_bytes = size_bytes - skip_bytes};
        round->piece_count += 1;
        skip_bytes = 0;
    }
}

static void free_round(struct plog *plog, struct plog__log *log, struct plog__round *round)
{
    CHECK(base_list_is_empty(&round->appends));
    if (base_link_is_on(&round->link)) { base_list_remove(&log->rounds, &round->link); }
    if (round->pieces_block != NULL) { base_pages_give(plog->pages, round->pieces_block); }
    base_pool_give(&plog->rounds, base_pool_index(&plog->rounds, round));
}

static void want_checkpoint(struct plog *plog)
{
    if (plog->is_checkpoint_wanted) { return; }
    plog->is_checkpoint_wanted = true;
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_WANT_CHECKPOINT});
}

/* Takes the first append of the queue into the round. False: it begins another round. */
static bool take_append(struct plog *plog, struct plog__log *log, struct plog__round *round,
                        struct plog__segment *segment)
{
    struct plog__append *append = append_on(base_list_first(&log->queue));
    struct plan plan;
    enum plog_result bad = PLOG_OK;
    if (!measure(plog, append, &plan)) {
        bad = PLOG_STORAGE; /* not batches */
    } else if (append->ask.leader_epoch < log->leader_epoch) {
        bad = PLOG_OLD_EPOCH;
    } else if (append->ask.is_assigned && !is_next(log, append, &plan, round->offset_end)) {
        bad = PLOG_NOT_NEXT;
    } else if (log->is_cut && append->ask.size_bytes > plog->config.run_bytes_max) {
        bad = PLOG_BUSY;
        want_checkpoint(plog);
    }
    if (bad != PLOG_OK) {
        base_list_remove(&log->queue, &append->link);
        fail_append(plog, append, bad);
        return true;
    }
    uint64_t size_bytes = round->size_bytes + append->ask.size_bytes;
    if (round->append_count > 0) {
        if (append->ask.leader_epoch != round->leader_epoch || size_bytes > PLOG__ROUND_BYTES_MAX) { return false; }
        if (log->is_cut && size_bytes > plog->config.run_bytes_max) { return false; }
    }
    /* Also where those before it left no bytes: who looked whether to roll looked at the first of the queue. */
    if (plog__should_roll(plog, log, segment, size_bytes, round->offset_end + plan.offset_count - 1,
                          plan.timestamp_max)) {
        return false;
    }
    if (!round_has_room(plog, round)) { return false; }
    base_list_remove(&log->queue, &append->link);
    enum plog__verdict verdict = PLOG__ACCEPT;
    if (append->ask.is_assigned) {
        follow(plog, log, append);
        append->base_offset = plan.offset_first;
    } else {
        verdict = judge(plog, log, append, &plan, round->offset_end);
    }
    if (verdict == PLOG__DUPLICATE) {
        append->is_duplicate = true;
        base_list_push_back(&round->appends, &append->link);
        return true;
    }
    if (verdict != PLOG__ACCEPT) {
        fail_append(plog, append, result_of(verdict));
        return true;
    }
    if (!append->ask.is_assigned) { assign(plog, append, round->offset_end); }
    round->crc = codec_crc32c(round->crc, append->ask.batches, append->ask.size_bytes);
    round->leader_epoch = append->ask.leader_epoch;
    round->size_bytes = size_bytes;
    round->offset_end += plan.offset_count;
    round->append_count += 1;
    base_list_push_back(&round->appends, &append->link);
    return true;
}

/* Only duplicates: each waits for the last round that is out, or for nothing. */
static void settle_duplicates(struct plog *plog, struct plog__log *log, struct plog__round *round)
{
    while (!base_list_is_empty(&round->appends)) {
        struct plog__append *append = append_on(base_list_pop_front(&round->appends));
        if (append->ask.wants_written) { note_append(plog, append, PLOG_OUT_WRITTEN); }
        if (base_list_is_empty(&log->rounds)) {
            finish_append(plog, log, append);
        } else {
            base_list_push_back(&round_on(log->rounds.head.prev)->appends, &append->link);
        }
    }
    free_round(plog, log, round);
}

bool plog__queue_wants_roll(const struct plog *plog, const struct plog__log *log, const struct plog__segment *segment)
{
    const struct plog__append *append = append_on(base_list_first(&log->queue));
    struct plan plan;
    if (!measure(plog, append, &plan)) { return false; }
    return plog__should_roll(plog, log, segment, append->ask.size_bytes, log->offset_end + plan.offset_count - 1,
                             plan.timestamp_max);
}

void plog__round_unbegin(struct plog *plog, struct plog__log *log, struct plog__round *round)
{
    CHECK(round->state == PLOG__WRITING);
    CHECK(round->written_bytes == 0);
    plog__producers_undo(plog, log);
    log->writing = PLOG__NONE;
    while (!base_list_is_empty(&round->appends)) {
        struct base_link *link = round->appends.head.prev;
        base_list_remove(&round->appends, link);
        base_list_push_front(&log->queue, link);
        append_on(link)->is_duplicate = false;
    }
    free_round(plog, log, round);
    plog__epoch_look(plog, log);
}

/* A whole checkpoint knows of the log's last truncation: nothing from before it is replayed again. */
static void forget_cut(const struct plog *plog, struct plog__log *log)
{
    if (log->is_cut && log->captured_cuts == log->cuts && log->captured_in > 0 &&
        log->captured_in <= plog->capture_whole) {
        log->is_cut = false;
    }
}

void plog__round_begin(struct plog *plog, struct plog__log *log)
{
    CHECK(log->writing == PLOG__NONE);
    CHECK(!base_list_is_empty(&log->queue));
    CHECK(!log->is_cut_out);
    forget_cut(plog, log);
    struct plog__segment *segment = plog__segment_last(log);
    if (segment != NULL && segment->size_bytes == 0 && segment->base == log->offset_end) {
        segment->is_sealed = false; /* an empty one of that name is as good as a new one */
    }
    if (segment == NULL || segment->is_sealed) { segment = plog__segment_make(plog, log, log->offset_end); }
    if (segment == NULL) {
        plog__queue_fail(plog, log, PLOG_BUSY);
        return;
    }
    uint32_t slot = base_pool_take(&plog->rounds);
    CHECK(slot != BASE_POOL_NONE); /* each round has an append of its own */
    struct plog__round *round = plog__round_at(plog, slot);
    round->log = plog__log_slot(plog, log);
    round->segment = plog__segment_slot(plog, segment);
    round->position_bytes = segment->size_bytes;
    round->offset_base = log->offset_end;
    round->offset_end = log->offset_end;
    round->pieces = round->pieces_inline;
    round->pieces_max = PLOG__PIECES_INLINE;
    base_list_init(&round->appends);
    while (!base_list_is_empty(&log->queue)) {
        if (!take_append(plog, log, round, segment)) { break; }
    }
    if (round->append_count == 0) {
        settle_duplicates(plog, log, round);
        return;
    }
    if (log->leader_epoch < round->leader_epoch) { log->leader_epoch = round->leader_epoch; }
    round->is_large = !log->config.is_page_cache && !log->is_cut && round->size_bytes >= plog->config.inline_bytes_max;
    plog__round_pieces(plog, round, 0);
    base_list_push_back(&log->rounds, &round->link);
    log->writing = slot;
}

/* All its bytes are in the file. */
void plog__round_written(struct plog *plog, struct plog__log *log, struct plog__round *round)
{
    CHECK(round->state == PLOG__WRITING);
    CHECK(round->written_bytes == round->size_bytes);
    struct plog__segment *segment = plog__segment_at(plog, round->segment);
    CHECK(segment->size_bytes == round->position_bytes); /* nothing else was written there meanwhile */
    CHECK(log->offset_end == round->offset_base);
    log->unflushed_messages += (uint64_t)(round->offset_end - round->offset_base);
    round->is_flush = log->config.is_page_cache && log->unflushed_messages >= log->config.flush_messages;
    if (round->is_flush) { log->unflushed_messages = log->unflushed_since_ns = 0; }
    uint64_t position = round->position_bytes;
    for (struct base_link *link = base_list_first(&round->appends); link != NULL;
         link = base_list_next(&round->appends, link)) {
        struct plog__append *append = append_on(link);
        if (append->ask.wants_written && !round->is_flush) { note_append(plog, append, PLOG_OUT_WRITTEN); }
        if (append->is_duplicate) { continue; }
        struct plog__head head;
        if (position == round->position_bytes && plog__head_read(append->ask.batches, INT64_MIN, &head)) {
            plog__hint_add(log, segment, round->segment, position, &head);
        }
        plog__apply(plog, log, segment, position, base_slice_of(append->ask.batches, append->ask.size_bytes),
                    PLOG__LIVE);
        position += append->ask.size_bytes;
    }
    CHECK(segment->end == round->offset_end);
    segment->size_bytes += round->size_bytes;
    log->size_bytes += round->size_bytes;
    log->offset_end = round->offset_end;
    if (!round->is_flush && log->unflushed_since_ns == 0) {
        log->unflushed_since_ns = base_max_u64(plog->now_ns, 1);
        plog__flush_look(plog, log);
    }
    plog__producers_keep(log);
    log->writing = PLOG__NONE;
    round->state = PLOG__WRITTEN;
    plog__round_pieces(plog, round, 0);
    if (round->is_large || round->is_flush) { plog__sync_want(plog, segment); }
    plog__rounds_leave(plog, log);
    plog__rounds_finish(plog, log);
    plog__epoch_look(plog, log);
}

/* Its appends fail; the caller has seen to the file. */
void plog__round_fail(struct plog *plog, struct plog__log *log, struct plog__round *round, enum plog_result result)
{
    uint32_t slot = base_pool_index(&plog->rounds, round);
    if (log->writing == slot) {
        plog__producers_undo(plog, log);
        log->writing = PLOG__NONE;
    }
    while (!base_list_is_empty(&round->appends)) {
        fail_append(plog, append_on(base_list_pop_front(&round->appends)), result);
    }
    free_round(plog, log, round);
    plog__epoch_look(plog, log);
    plog__cut_look(plog, log);
}

void plog__queue_fail(struct plog *plog, struct plog__log *log, enum plog_result result)
{
    while (!base_list_is_empty(&log->queue)) { fail_append(plog, append_on(base_list_pop_front(&log->queue)), result); }
    if (result == PLOG_BUSY) { return; } /* what waits behind a truncation is not refused yet */
    while (!base_list_is_empty(&log->held)) { fail_append(plog, append_on(base_list_pop_front(&log->held)), result); }
}

/* The rounds that nobody else holds bytes of; the others end when the world or the journal answers. */
void plog__rounds_give_up(struct plog *plog, struct plog__log *log, enum plog_result result)
{
    plog__queue_fail(plog, log, result);
    if (log->is_cutting || log->has_epoch) { plog__task_ready(plog, &log->writer); } /* it ends them */
    struct base_link *link = base_list_first(&log->rounds);
    while (link != NULL) {
        struct plog__round *round = round_on(link);
        link = base_list_next(&log->rounds, link);
        if (round->state == PLOG__WRITTEN || round->state == PLOG__DURABLE) {
            plog__round_fail(plog, log, round, result);
        } else if (round->state == PLOG__WRITING && log->asked != PLOG__ASKED_WRITE) {
            plog__round_fail(plog, log, round, result);
        }
    }
}

static void leave(struct plog *plog, struct plog__log *log, struct plog__round *round)
{
    struct plog__segment *segment = plog__segment_at(plog, round->segment);
    uint32_t slot = base_pool_index(&plog->rounds, round);
    bool is_birth = !segment->is_born;
    if (is_birth) {
        CHECK(segment->is_named); /* the file is found after a crash, whatever the journal says of it (OSDI'14) */
        segment->is_born = true;
        round->is_only_birth = log->config.is_page_cache;
        plog__note(plog, (struct plog__note){.kind = PLOG_OUT_CHANGE, .slot = slot, .change = PLOG_CHANGE_SEGMENT});
    }
    if (log->config.is_page_cache) {
        round->state = is_birth ? PLOG__LEFT : PLOG__DURABLE;
        return;
    }
    round->state = PLOG__LEFT;
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_RUN, .slot = slot});
}

bool plog__rounds_have_left(const struct plog__log *log)
{
    if (base_list_is_empty(&log->rounds)) { return true; }
    enum plog__round_state state = round_on(log->rounds.head.prev)->state;
    return state == PLOG__LEFT || state == PLOG__DURABLE;
}

/* Large bytes go into no journal entry, so they are synced themselves; a flush is of all that came before: see plog__sync_advance. */
static bool waits_for_sync(struct plog *plog, const struct plog__round *round)
{
    if (!round->is_large && !round->is_flush) { return false; }
    struct plog__segment *segment = plog__segment_at(plog, round->segment);
    if (segment->synced_bytes >= round->position_bytes + round->size_bytes) { return false; }
    if (!segment->is_sync_in_flight && !segment->is_sync_wanted) { plog__sync_want(plog, segment); }
    return true;
}

/* Runs leave in offset order, each when its own bytes allow it. */
void plog__rounds_leave(struct plog *plog, struct plog__log *log)
{
    if (plog->is_failed || log->is_failed || log->is_deleting) { return; }
    for (struct base_link *link = base_list_first(&log->rounds); link != NULL;
         link = base_list_next(&log->rounds, link)) {
        struct plog__round *round = round_on(link);
        if (round->state == PLOG__WRITING) { return; }
        if (round->state != PLOG__WRITTEN) { continue; }
        if (waits_for_sync(plog, round)) { return; }
        leave(plog, log, round);
    }
    plog__epoch_look(plog, log);
}

void plog__rounds_finish(struct plog *plog, struct plog__log *log)
{
    while (!base_list_is_empty(&log->rounds)) {
        struct plog__round *round = round_on(base_list_first(&log->rounds));
        if (round->state != PLOG__DURABLE) { return; }
        CHECK(round->offset_end > log->synced_end);
        log->synced_end = round->offset_end;
        if (!log->config.is_mark_told) {
            log->watermark = round->offset_end;
            log->mark_offset = round->offset_end;
            log->mark_segment = round->segment;
            log->mark_bytes = round->position_bytes + round->size_bytes;
        }
        while (!base_list_is_empty(&round->appends)) {
            finish_append(plog, log, append_on(base_list_pop_front(&round->appends)));
        }
        free_round(plog, log, round);
        plog__note_mark(plog, log);
    }
    plog__cut_look(plog, log);
}
