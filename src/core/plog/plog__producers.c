/* plog__producers.c: idempotence (KIP-98), as Kafka 4.3's ProducerStateManager and ProducerAppendInfo have it.
 *
 * A producer is moved when a round begins, so that the batches of one round are judged in order; its state from before the
 * round is kept beside until the round is written, and put back when it is not.
 * A producer that nobody knows is taken at its word, whatever its sequence: its state may
 * have expired, or made room for others.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

#define EVICT_TRIES 64u

/* ---- one producer ---- */

static bool is_next(int32_t sequence_last, int32_t sequence_next)
{
    return sequence_next == (sequence_last == INT32_MAX ? 0 : sequence_last + 1);
}

/* The epoch against the one we know (NEW: we know none), and the sequence against the last of that epoch. */
enum epoch_place { EPOCH_NEW, EPOCH_OLDER, EPOCH_SAME, EPOCH_NEWER };
enum sequence_place { SEQUENCE_ZERO, SEQUENCE_NEXT, SEQUENCE_OTHER };
static const enum plog__verdict verdicts[4][3] = {
    [EPOCH_NEW] = {PLOG__ACCEPT, PLOG__ACCEPT, PLOG__ACCEPT},
    [EPOCH_OLDER] = {PLOG__FENCED, PLOG__FENCED, PLOG__FENCED},
    [EPOCH_SAME] = {PLOG__OUT_OF_ORDER, PLOG__ACCEPT, PLOG__OUT_OF_ORDER},
    [EPOCH_NEWER] = {PLOG__ACCEPT, PLOG__OUT_OF_ORDER, PLOG__OUT_OF_ORDER},
};

enum plog__verdict plog__sequence_judge(const struct plog__sequence *sequence, const struct plog__head *head,
                                        struct plog__kept *duplicate_out)
{
    enum epoch_place epoch = EPOCH_NEW;
    if (sequence != NULL && sequence->epoch >= 0) {
        epoch = head->producer_epoch < sequence->epoch    ? EPOCH_OLDER
                : head->producer_epoch == sequence->epoch ? EPOCH_SAME
                                                          : EPOCH_NEWER;
    }
    enum sequence_place place = head->base_sequence == 0 ? SEQUENCE_ZERO : SEQUENCE_OTHER;
    if (epoch == EPOCH_SAME) {
        for (uint32_t i = 0; i < sequence->kept_count; i++) {
            const struct plog__kept *kept = &sequence->kept[i];
            if (kept->sequence_first == head->base_sequence && kept->sequence_last == head->sequence_last) {
                *duplicate_out = *kept;
                return PLOG__DUPLICATE;
            }
        }
        int32_t last =
            sequence->kept_count == 0 ? REC_NO_SEQUENCE : sequence->kept[sequence->kept_count - 1].sequence_last;
        if (is_next(last, head->base_sequence)) { place = SEQUENCE_NEXT; }
    }
    return verdicts[epoch][place];
}

void plog__sequence_apply(struct plog__sequence *sequence, const struct plog__head *head, int64_t wall_ms)
{
    if (sequence->epoch != head->producer_epoch) {
        sequence->epoch = head->producer_epoch;
        sequence->kept_count = 0;
    }
    if (sequence->kept_count == PLOG__BATCHES_KEPT) {
        memmove(&sequence->kept[0], &sequence->kept[1], (PLOG__BATCHES_KEPT - 1) * sizeof sequence->kept[0]);
        sequence->kept_count -= 1;
    }
    sequence->kept[sequence->kept_count] = (struct plog__kept){
        .base_offset = head->base_offset,
        .offset_last = head->offset_last,
        .timestamp_ms = head->max_timestamp_ms,
        .sequence_first = head->base_sequence,
        .sequence_last = head->sequence_last,
    };
    sequence->kept_count = (uint8_t)(sequence->kept_count + 1);
    sequence->last_wall_ms = wall_ms;
}

/* Those of its batches that stay. A first batch of epoch 0, or one that stays of the same epoch, says that there are no older ones. */
bool plog__sequence_cut(struct plog__sequence *now, int64_t offset)
{
    bool is_first_known = now->kept_count > 0 && now->kept[0].sequence_first == 0;
    uint8_t kept_count = now->kept_count;
    while (now->kept_count > 0 && now->kept[now->kept_count - 1].offset_last >= offset) { now->kept_count -= 1; }
    if (now->kept_count == kept_count) { return false; }
    bool is_whole = is_first_known && (now->kept_count > 0 || now->epoch == 0);
    if (now->kept_count == 0) { now->epoch = REC_NO_EPOCH; }
    return !is_whole;
}

/* ---- all of them ---- */

static uint64_t hash_of(uint32_t log_slot, int64_t id) { return base_hash_u64((uint64_t)id ^ base_hash_u64(log_slot)); }

struct plog__producer *plog__producer_find(const struct plog *plog, uint32_t log_slot, int64_t id)
{
    uint64_t hash = hash_of(log_slot, id);
    for (uint32_t at = base_map_first(&plog->by_producer, hash); at != BASE_MAP_NONE;
         at = base_map_next(&plog->by_producer, hash, at)) {
        struct plog__producer *producer = base_pool_at(&plog->producers, base_map_value(&plog->by_producer, at));
        if (producer->log == log_slot && producer->id == id) { return producer; }
    }
    return NULL;
}

void plog__producer_free(struct plog *plog, struct plog__producer *producer)
{
    struct plog__log *log = plog__log_at(plog, producer->log);
    if (base_link_is_on(&producer->touched)) { base_list_remove(&log->touched, &producer->touched); }
    base_list_remove(&log->producers, &producer->of_log);
    base_list_remove(&plog->producer_lru, &producer->lru);
    uint32_t slot = base_pool_index(&plog->producers, producer);
    base_map_remove(&plog->by_producer, hash_of(producer->log, producer->id), slot);
    base_pool_give(&plog->producers, slot);
}

static bool has_work(const struct plog *plog, const struct plog__producer *producer)
{
    if (base_link_is_on(&producer->touched)) { return true; }
    if (producer->now.kept_count == 0) { return false; }
    return producer->now.kept[producer->now.kept_count - 1].offset_last >= plog__log_at(plog, producer->log)->watermark;
}

static bool evict_one(struct plog *plog)
{
    struct base_link *link = base_list_first(&plog->producer_lru);
    for (uint32_t i = 0; i < EVICT_TRIES && link != NULL; i++) {
        struct plog__producer *producer = BASE_ITEM(link, struct plog__producer, lru);
        if (!has_work(plog, producer)) {
            plog__producer_free(plog, producer);
            return true;
        }
        link = base_list_next(&plog->producer_lru, link);
    }
    return false;
}

struct plog__producer *plog__producer_make(struct plog *plog, struct plog__log *log, int64_t id)
{
    uint32_t slot = base_pool_take(&plog->producers);
    if (slot == BASE_POOL_NONE) {
        if (!evict_one(plog)) { return NULL; }
        slot = base_pool_take(&plog->producers);
        CHECK(slot != BASE_POOL_NONE);
    }
    struct plog__producer *producer = base_pool_at(&plog->producers, slot);
    producer->log = plog__log_slot(plog, log);
    producer->id = id;
    producer->now.epoch = REC_NO_EPOCH;
    enum base_rc rc = base_map_insert(&plog->by_producer, hash_of(producer->log, id), slot);
    CHECK(rc == BASE_OK); /* as many cells as slots */
    base_list_push_back(&log->producers, &producer->of_log);
    base_list_push_back(&plog->producer_lru, &producer->lru);
    return producer;
}

/* In its log's list too: a checkpoint writes that as it is, and a start makes them in this order. */
void plog__producer_used(struct plog *plog, struct plog__producer *producer)
{
    struct plog__log *log = plog__log_at(plog, producer->log);
    base_list_remove(&log->producers, &producer->of_log);
    base_list_push_back(&log->producers, &producer->of_log);
    base_list_remove(&plog->producer_lru, &producer->lru);
    base_list_push_back(&plog->producer_lru, &producer->lru);
}

void plog__producer_touch(struct plog__log *log, struct plog__producer *producer)
{
    if (base_link_is_on(&producer->touched)) { return; }
    producer->before = producer->now;
    base_list_push_back(&log->touched, &producer->touched);
}

void plog__producers_keep(struct plog__log *log)
{
    while (!base_list_is_empty(&log->touched)) {
        struct base_link *link = base_list_pop_front(&log->touched);
        BASE_ITEM(link, struct plog__producer, touched)->is_new = false;
    }
}

void plog__producers_undo(struct plog *plog, struct plog__log *log)
{
    while (!base_list_is_empty(&log->touched)) {
        struct base_link *link = base_list_pop_front(&log->touched);
        struct plog__producer *producer = BASE_ITEM(link, struct plog__producer, touched);
        if (producer->is_new) {
            plog__producer_free(plog, producer);
        } else {
            producer->now = producer->before;
        }
    }
}

void plog__producers_free(struct plog *plog, struct plog__log *log)
{
    while (!base_list_is_empty(&log->producers)) {
        plog__producer_free(plog, BASE_ITEM(base_list_first(&log->producers), struct plog__producer, of_log));
    }
}

/* When it was last used; its newest batch knows better than a clock that was behind when it was replayed. */
static int64_t used_ms(const struct plog *plog, const struct plog__sequence *now)
{
    int64_t timestamp_ms = now->kept_count == 0 ? -1 : now->kept[now->kept_count - 1].timestamp_ms;
    if (!plog__has_passed(plog, timestamp_ms)) { return now->last_wall_ms; }
    return base_max_i64(now->last_wall_ms, timestamp_ms);
}

void plog__producers_expire(struct plog *plog, struct plog__log *log)
{
    struct base_link *link = base_list_first(&log->producers);
    while (link != NULL) {
        struct plog__producer *producer = BASE_ITEM(link, struct plog__producer, of_log);
        link = base_list_next(&log->producers, link);
        int64_t idle_ms = plog__age_ms(plog->wall_ms, used_ms(plog, &producer->now));
        if ((uint64_t)idle_ms >= plog->config.producer_expiry_ms && !has_work(plog, producer)) {
            plog__producer_free(plog, producer);
        }
    }
}

uint32_t plog_producers(const struct plog *plog, struct plog_ref ref, struct plog_producer *producers_out, uint32_t max)
{
    const struct plog__log *log = plog__log_of(plog, ref);
    uint32_t count = 0;
    if (log == NULL) { return 0; }
    for (struct base_link *link = base_list_first(&log->producers); link != NULL;
         link = base_list_next(&log->producers, link)) {
        const struct plog__producer *producer = BASE_ITEM(link, struct plog__producer, of_log);
        count += 1;
        if (count > max) { continue; }
        const struct plog__sequence *now = &producer->now;
        const struct plog__kept *last = now->kept_count == 0 ? NULL : &now->kept[now->kept_count - 1];
        producers_out[count - 1] = (struct plog_producer){.id = producer->id,
                                                          .epoch = now->epoch,
                                                          .sequence_last = last == NULL ? -1 : last->sequence_last,
                                                          .timestamp_ms = last == NULL ? -1 : last->timestamp_ms};
    }
    return count;
}
