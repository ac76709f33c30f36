/* log_driver.c: plays the producers, the controller and the two replicas of each pair.
 *
 * A leader is in sync with itself. The follower is in sync once it has truncated for the leader's epoch and has, synced, what is
 * committed and what came before that epoch (KAFKA-7128). Committed is what all in sync have synced; a leader comes from among
 * them. No epoch is used twice, and none spans a restart.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "log__parts.h"

#include <inttypes.h>
#include <stdlib.h>

static struct log_replica *leader_of(struct log_pair *pair) { return &pair->replicas[pair->leader]; }
static struct log_replica *follower_of(struct log_pair *pair) { return &pair->replicas[1 - pair->leader]; }

static bool has_op(const struct log_pair *pair, uint32_t replica, enum log_op_kind kind)
{
    for (uint32_t i = 0; i < LOG_OPS_MAX; i++) {
        if (pair->ops[i].kind == kind && pair->ops[i].replica == replica) { return true; }
    }
    return false;
}

/* ---- boots ---- */

static struct plog_log_config log_config(const struct log_pair *pair)
{
    return (struct plog_log_config){.segment_bytes = (uint64_t)pair->run->shape.segment_bytes,
                                    .segment_ms = UINT64_C(604800000),
                                    .index_interval_bytes = 300,
                                    .index_bytes_max = 10 << 20,
                                    .retention_ms = -1,
                                    .retention_bytes = -1,
                                    .delete_delay_ms = 50,
                                    .flush_messages = UINT64_MAX,
                                    .flush_ms = UINT64_MAX,
                                    .is_mark_told = true};
}

void log_driver_boot(struct log_run *run)
{
    for (uint32_t p = 0; p < (uint32_t)run->shape.pairs; p++) {
        struct log_pair *pair = &run->pairs[p];
        for (uint32_t i = 0; i < LOG_OPS_MAX; i++) {
            if (pair->ops[i].kind != LOG_OP_FREE) { log_op_give(pair, &pair->ops[i]); }
        }
        pair->is_led = pair->is_epoch_asked = false;
        pair->next_act_ns = pair->next_election_ns = 0; /* another boot, another clock */
        for (int r = 0; r < 2; r++) { pair->replicas[r].is_open = false; }
    }
}

void log_driver_serve(struct log_run *run, uint32_t shard, struct log_shard *machine, struct port_out *out)
{
    (void)out;
    for (uint32_t p = 0; p < (uint32_t)run->shape.pairs; p++) {
        struct log_pair *pair = &run->pairs[p];
        if (log_shard_of(run, pair) != shard) { continue; }
        for (uint32_t r = 0; r < 2; r++) {
            struct log_replica *at = &pair->replicas[r];
            struct plog_log_config config = log_config(pair);
            enum base_rc rc = plog_open(log_plog(machine), at->id, base_slice_text("t"), &config, -1, &at->ref);
            CHECK(rc == BASE_OK);
            at->is_open = true;
            log_check_recovered(pair, r, log_plog(machine));
        }
        log_check_committed(pair, pair->leader, "after a start");
        if (pair->is_follower_in_sync) { log_check_committed(pair, 1 - pair->leader, "after a start"); }
    }
    run->is_serving[shard] = true;
}

/* ---- batches ---- */

static uint32_t add_batch(struct log_pair *pair)
{
    if (pair->pool_count == pair->pool_room) {
        pair->pool_room = pair->pool_room * 2 + 64;
        pair->pool = realloc(pair->pool, pair->pool_room * sizeof pair->pool[0]);
        CHECK(pair->pool != NULL);
    }
    pair->pool[pair->pool_count] = (struct log_batch){.base = -1, .producer_id = -1, .epoch = -1};
    return pair->pool_count++;
}

/* Builds one batch into the op's buffer, behind what is there. */
static void build(struct log_pair *pair, struct log_op *op, int64_t producer_id, int16_t epoch, int32_t sequence)
{
    struct log_run *run = pair->run;
    int records = 1 + (int)log_below(run, 4);
    /* One draw after another: operands have no order. */
    size_t value_bytes = log_below(run, (uint64_t)run->shape.value_bytes_max);
    value_bytes /= log_chance(run, 3) ? 1 : 8;
    uint32_t at = add_batch(pair);
    struct log_batch *batch = &pair->pool[at];
    pair->timestamp_ms += (int64_t)log_below(run, 60);
    pair->timestamp_ms -= log_chance(run, 6) ? 200 : 10;
    batch->timestamp_base = pair->timestamp_ms + (log_chance(run, 40) ? 1000000 : 0);
    batch->timestamp_max = batch->timestamp_base + records - 1;
    batch->producer_id = producer_id;
    batch->producer_epoch = epoch;
    batch->sequence_first = sequence;
    batch->sequence_last = sequence + records - 1;
    struct rec_build_config config = rec_build_plain();
    if (producer_id >= 0) {
        config.producer_id = producer_id;
        config.producer_epoch = epoch;
        config.base_sequence = sequence;
    }
    size_t room = 128 + (size_t)records * (value_bytes + 64);
    uint8_t *value = calloc(1, value_bytes + 8);
    op->buffer = realloc(op->buffer, op->buffer_bytes + room);
    CHECK(value != NULL && op->buffer != NULL);
    for (size_t i = 0; i < value_bytes; i++) { value[i] = (uint8_t)(pair->content + i * 13); }
    struct rec_build build;
    enum base_rc rc = rec_build_init(&build, op->buffer + op->buffer_bytes, room, config);
    for (int i = 0; rc == BASE_OK && i < records; i++) {
        pair->content += 1;
        base_put_u64(value, pair->content);
        rc = rec_build_add(&build, batch->timestamp_base + i, rec_null(),
                           rec_value_of(base_slice_of(value, value_bytes + 8)), NULL, 0);
    }
    CHECK(rc == BASE_OK);
    struct base_slice slice = rec_build_end(&build);
    memmove(op->buffer + op->buffer_bytes, slice.at, slice.size_bytes);
    op->buffer_bytes += (uint32_t)slice.size_bytes;
    op->batches[op->batch_count++] = at;
    free(value);
}

/* ---- the watermark ---- */

static void commit(struct log_pair *pair, int64_t end)
{
    const struct log_model *model = &leader_of(pair)->model;
    while (pair->committed_count < model->batch_count) {
        uint32_t at = model->batches[pair->committed_count];
        if (pair->pool[at].last >= end) { break; }
        if (pair->committed_count == pair->committed_room) {
            pair->committed_room = pair->committed_room * 2 + 64;
            pair->committed = realloc(pair->committed, pair->committed_room * sizeof pair->committed[0]);
            CHECK(pair->committed != NULL);
        }
        pair->committed[pair->committed_count++] = at;
        pair->committed_end = pair->pool[at].last + 1;
    }
}

static void tell(struct log_pair *pair, uint32_t replica, struct plog *plog, struct port_out *out)
{
    struct log_replica *at = &pair->replicas[replica];
    plog_watermark(plog, at->ref, pair->committed_end, out);
    int64_t mark = base_min_i64(pair->committed_end, at->synced_end);
    if (at->is_cutting || mark <= at->watermark) { return; }
    at->watermark = mark;
    at->version += 1;
}

static void advance(struct log_pair *pair)
{
    struct log_replica *leader = leader_of(pair), *follower = follower_of(pair);
    const struct log_model *model = &leader->model;
    int64_t epoch_start = model->epoch_count == 0 ? 0 : model->epochs[model->epoch_count - 1].start;
    bool is_known = !follower->needs_truncation && !follower->is_cutting;
    if (is_known && follower->synced_end >= base_max_i64(pair->committed_end, epoch_start)) {
        if (!pair->is_follower_in_sync && log_chance(pair->run, 4)) { pair->is_follower_in_sync = true; }
    }
    if (pair->is_follower_in_sync && !is_known) { return; } /* where it is, the leader has not heard yet */
    int64_t end = leader->synced_end;
    if (pair->is_follower_in_sync) { end = base_min_i64(end, follower->synced_end); }
    commit(pair, end);
}

/* ---- what a leader does ---- */

/* A batch of a producer: mostly its next, at times what must be told apart from it. */
static void build_of_producer(struct log_pair *pair, struct log_op *op, int64_t id)
{
    struct log_run *run = pair->run;
    struct log_sequence known = log_model_producer(&leader_of(pair)->model, pair, id);
    const struct log_batch *last = known.count == 0 ? NULL : &pair->pool[known.kept[known.count - 1]];
    int32_t next = last == NULL ? 0 : last->sequence_last + 1;
    int16_t epoch = known.epoch < 0 ? 0 : known.epoch;
    op->expected = PLOG_OK;
    uint64_t dice = log_below(run, 12);
    if (last == NULL && dice < 3) {
        next = (int32_t)log_below(run, 40); /* nobody knows it: it is taken at its word */
    } else if (last != NULL && dice < 3) {  /* one of the last five again */
        const struct log_batch *old = &pair->pool[known.kept[log_below(run, known.count)]];
        op->buffer = malloc(old->size_bytes);
        CHECK(op->buffer != NULL);
        memcpy(op->buffer, old->bytes, old->size_bytes);
        op->buffer_bytes = old->size_bytes;
        op->expected = PLOG_DUPLICATE;
        op->expected_base = old->base;
        return;
    } else if (last != NULL && dice == 3) {
        next += 1 + (int32_t)log_below(run, 3);
        op->expected = PLOG_OUT_OF_ORDER;
    } else if (last != NULL && dice == 4) {
        epoch = (int16_t)(epoch + 1);
        next = log_chance(run, 3) ? 1 : 0;
        op->expected = next == 0 ? PLOG_OK : PLOG_OUT_OF_ORDER;
    } else if (last != NULL && dice == 5 && epoch > 0) {
        epoch = (int16_t)(epoch - 1);
        op->expected = PLOG_FENCED;
    }
    build(pair, op, id, epoch, next);
}

static bool is_producer_busy(const struct log_pair *pair, int64_t id)
{
    for (uint32_t i = 0; i < LOG_OPS_MAX; i++) {
        const struct log_op *op = &pair->ops[i];
        if (op->kind != LOG_OP_APPEND) { continue; }
        if (op->expected == PLOG_DUPLICATE) { return true; }
        if (op->batch_count > 0 && pair->pool[op->batches[0]].producer_id == id) { return true; }
    }
    return false;
}

static void append(struct log_pair *pair, struct plog *plog, struct port_out *out)
{
    struct log_run *run = pair->run;
    if (run->is_journal_full) { return; }
    uint32_t slot = log_op_take(pair, LOG_OP_APPEND, pair->leader);
    if (slot == LOG_OPS_MAX) { return; }
    struct log_op *op = &pair->ops[slot];
    int64_t id = pair->index * 10 + (int64_t)log_below(run, LOG_PRODUCERS);
    if (pair->has_producers && log_chance(run, 2) && !is_producer_busy(pair, id)) {
        build_of_producer(pair, op, id);
    } else {
        for (uint64_t left = log_chance(run, 4) ? 1 + log_below(run, 3) : 1; left > 0; left--) {
            build(pair, op, -1, -1, -1);
        }
    }
    struct plog_append ask = {.token = log_op_token(pair, op),
                              .batches = op->buffer,
                              .size_bytes = op->buffer_bytes,
                              .leader_epoch = pair->epoch,
                              .wants_written = true};
    if (plog_append(plog, leader_of(pair)->ref, &ask, out) != BASE_OK) { log_op_give(pair, op); }
}

static void begin_epoch(struct log_pair *pair, struct plog *plog, struct port_out *out)
{
    struct log_replica *leader = leader_of(pair);
    if (leader->is_cutting) { return; }
    uint32_t slot = log_op_take(pair, LOG_OP_EPOCH, pair->leader);
    if (slot == LOG_OPS_MAX) { return; }
    pair->epoch += 1;
    pair->is_led = false;
    follower_of(pair)->needs_truncation = true;
    pair->ops[slot].offset = pair->epoch;
    if (plog_begin_epoch(plog, leader->ref, log_op_token(pair, &pair->ops[slot]), pair->epoch, out) != BASE_OK) {
        log_op_give(pair, &pair->ops[slot]);
        return;
    }
    pair->is_epoch_asked = true;
}

/* Another leader, or the same one again: from among those in sync. */
static void elect(struct log_pair *pair, struct plog *plog, struct port_out *out)
{
    struct log_replica *follower = follower_of(pair);
    bool may_swap = pair->is_follower_in_sync && !follower->is_cutting && !pair->is_epoch_asked;
    if (may_swap && log_chance(pair->run, 2)) {
        log_check_committed(pair, 1 - pair->leader, "elected");
        pair->leader = 1 - pair->leader;
        pair->is_led = false;
        follower_of(pair)->needs_truncation = true;
        leader_of(pair)->needs_truncation = false;
    }
    begin_epoch(pair, plog, out);
}

static void move_start(struct log_pair *pair, uint32_t replica, struct plog *plog, struct port_out *out)
{
    struct log_replica *at = &pair->replicas[replica];
    int64_t limit = base_min_i64(pair->replicas[0].watermark, pair->replicas[1].watermark);
    if (limit <= at->model.start || at->is_starting || at->is_cutting) { return; }
    uint32_t slot = log_op_take(pair, LOG_OP_START, replica);
    if (slot == LOG_OPS_MAX) { return; }
    int64_t offset = at->model.start + (int64_t)log_below(pair->run, (uint64_t)(limit - at->model.start) + 1);
    if (plog_move_start(plog, at->ref, log_op_token(pair, &pair->ops[slot]), offset, out) != BASE_OK) {
        log_op_give(pair, &pair->ops[slot]);
        return;
    }
    at->is_starting = true;
}

/* ---- what a follower does ---- */

static void truncate(struct log_pair *pair, uint32_t replica, int64_t offset, struct plog *plog, struct port_out *out)
{
    struct log_replica *at = &pair->replicas[replica];
    if (at->is_cutting || at->is_starting) { return; }
    uint32_t slot = log_op_take(pair, LOG_OP_TRUNCATE, replica);
    if (slot == LOG_OPS_MAX) { return; }
    pair->ops[slot].offset = offset;
    if (plog_truncate(plog, at->ref, log_op_token(pair, &pair->ops[slot]), offset, out) != BASE_OK) {
        log_op_give(pair, &pair->ops[slot]);
        return;
    }
    at->is_cutting = true;
    at->cut_offset = offset;
}

/* One step of the truncation by epoch: a question to the leader, and what follows from its answer (KIP-279). */
static void truncate_by_epoch(struct log_pair *pair, struct plog *plog, struct port_out *out)
{
    struct log_replica *follower = follower_of(pair);
    uint32_t replica = 1 - pair->leader;
    if (follower->is_cutting || has_op(pair, replica, LOG_OP_COPY) || has_op(pair, replica, LOG_OP_APPEND) ||
        has_op(pair, replica, LOG_OP_EPOCH)) {
        return;
    }
    struct plog_view view;
    plog_view(plog, follower->ref, &view);
    if (view.epoch_last < 0) { /* it has nothing */
        follower->needs_truncation = false;
        return;
    }
    int32_t epoch, own_epoch;
    int64_t end, own_end;
    plog_epoch_end(plog, leader_of(pair)->ref, view.epoch_last, &epoch, &end);
    if (epoch < 0) {
        end = own_end = follower->watermark; /* the leader knows nothing of it */
        own_epoch = epoch;
    } else {
        plog_epoch_end(plog, follower->ref, epoch, &own_epoch, &own_end);
    }
    int64_t offset = base_min_i64(own_end, end);
    bool is_last_question = epoch < 0 || own_epoch == epoch;
    if (is_last_question) { follower->needs_truncation = false; }
    bool is_short = offset < follower->model.end;
    truncate(pair, replica, offset, plog, out); /* at the end too: an epoch without records may stand there */
    if (!follower->is_cutting) {
        follower->needs_truncation = true; /* no room: asked again */
        return;
    }
    if (is_short) { pair->run->result->branches[RUN_LOG_TRUNCATED] += 1; }
    /* The leader's answer brings its watermark along: of what is to replace the tail, not of the tail. */
    if (is_last_question && log_chance(pair->run, 2)) { tell(pair, replica, plog, out); }
}

/* The next batches of the leader: written there, synced or not. */
static void copy(struct log_pair *pair, struct plog *plog, struct port_out *out)
{
    struct log_run *run = pair->run;
    struct log_replica *follower = follower_of(pair);
    const struct log_model *from = &leader_of(pair)->model;
    if (follower->needs_truncation || follower->is_cutting || run->is_journal_full) { return; }
    if (!has_op(pair, 1 - pair->leader, LOG_OP_COPY)) {
        follower->asked_end = follower->model.end;
        follower->has_copy_failed = false;
    }
    if (follower->has_copy_failed) { return; }
    uint32_t first = log_model_at(from, pair, follower->asked_end);
    if (first == from->batch_count) { return; }
    if (pair->pool[from->batches[first]].base != follower->asked_end) {
        log_fail(run, "I2",
                 "log %" PRIu32 ": the follower ends at %" PRId64 ", inside a batch of its leader at %" PRId64,
                 pair->index, follower->asked_end, pair->pool[from->batches[first]].base);
        return;
    }
    uint32_t slot = log_op_take(pair, LOG_OP_COPY, 1 - pair->leader);
    if (slot == LOG_OPS_MAX) { return; }
    struct log_op *op = &pair->ops[slot];
    uint64_t wanted = 1 + log_below(run, 7);
    for (uint32_t i = first; i < from->batch_count && op->batch_count < wanted; i++) {
        const struct log_batch *batch = &pair->pool[from->batches[i]];
        if (op->buffer_bytes > 0 && op->buffer_bytes + batch->size_bytes > LOG_RUN_BYTES_MAX) { break; }
        op->buffer = realloc(op->buffer, op->buffer_bytes + batch->size_bytes);
        CHECK(op->buffer != NULL);
        memcpy(op->buffer + op->buffer_bytes, batch->bytes, batch->size_bytes);
        op->buffer_bytes += batch->size_bytes;
        op->batches[op->batch_count++] = from->batches[i];
        follower->asked_end = batch->last + 1;
    }
    struct plog_append ask = {.token = log_op_token(pair, op),
                              .batches = op->buffer,
                              .size_bytes = op->buffer_bytes,
                              .leader_epoch = pair->epoch,
                              .is_assigned = true,
                              .wants_written = true};
    if (plog_append(plog, follower->ref, &ask, out) != BASE_OK) {
        log_op_give(pair, op);
        follower->asked_end = follower->model.end;
    }
}

/* ---- what comes back ---- */

static void mark_durable(struct log_model *model, enum log_event_kind kind, int64_t end, const struct log_pair *pair)
{
    for (uint32_t i = model->event_count; i-- > 0;) {
        struct log_event *event = &model->events[i];
        if (event->kind != kind) { continue; }
        if (event->is_durable) { return; }
        if (kind != LOG_BATCH || pair->pool[event->batch].last < end) { event->is_durable = true; }
    }
}

static void on_written(struct log_pair *pair, struct log_op *op, const struct plog_out *item)
{
    struct log_replica *at = &pair->replicas[op->replica];
    if (item->result == PLOG_DUPLICATE) { return; }
    op->is_written = true;
    struct base_slice rest = base_slice_of(op->buffer, op->buffer_bytes);
    struct rec_batch view;
    uint32_t i = 0;
    int64_t next = at->model.end;
    while (rec_batch_next(&rest, &view) == REC_OK && i < op->batch_count) {
        struct log_batch *batch = &pair->pool[op->batches[i]];
        const uint8_t *bytes = view.at;
        if (view.base_offset != next) {
            log_fail(pair->run, "I8", "log %" PRIu32 ": a batch is given the offset %" PRId64 ", the end is %" PRId64,
                     pair->index, view.base_offset, next);
            return;
        }
        next = rec_offset_end(&view);
        if (op->kind == LOG_OP_APPEND) {
            batch->base = view.base_offset;
            batch->last = next - 1;
            batch->epoch = view.leader_epoch;
            batch->size_bytes = (uint32_t)view.size_bytes;
            batch->bytes = malloc(batch->size_bytes);
            CHECK(batch->bytes != NULL);
            memcpy(batch->bytes, bytes, batch->size_bytes);
        } else if (memcmp(bytes, batch->bytes, batch->size_bytes) != 0) {
            log_fail(pair->run, "I2", "log %" PRIu32 ": a follower's batch was changed", pair->index);
        }
        log_model_add(&at->model, pair, (struct log_event){.kind = LOG_BATCH, .batch = op->batches[i]});
        i += 1;
    }
    at->version += 1;
}

static void on_synced(struct log_pair *pair, struct log_op *op, const struct plog_out *item)
{
    struct log_replica *at = &pair->replicas[op->replica];
    struct log_run *run = pair->run;
    if (op->expected == PLOG_DUPLICATE || item->result == PLOG_DUPLICATE) {
        if (op->expected != item->result || item->base_offset != op->expected_base) {
            log_fail(run, "I9",
                     "log %" PRIu32 ": a batch of a producer is answered with %d at %" PRId64
                     ", not with %d at %" PRId64,
                     pair->index, (int)item->result, item->base_offset, (int)op->expected, op->expected_base);
        }
        return;
    }
    if (op->expected != PLOG_OK || !op->is_written) {
        log_fail(run, "I9", "log %" PRIu32 ": a batch is taken that should be answered with %d", pair->index,
                 (int)op->expected);
        return;
    }
    int64_t end = pair->pool[op->batches[op->batch_count - 1]].last + 1;
    at->synced_end = base_max_i64(at->synced_end, end);
    at->version += 1;
    mark_durable(&at->model, LOG_BATCH, end, pair);
    run->result->acknowledged += op->batch_count;
}

static void on_failed(struct log_pair *pair, struct log_op *op, const struct plog_out *item)
{
    struct log_run *run = pair->run;
    enum plog_result result = item->result;
    struct log_replica *at = &pair->replicas[op->replica];
    bool is_behind = result == PLOG_NOT_NEXT && op->kind == LOG_OP_COPY && at->has_copy_failed;
    if (op->kind == LOG_OP_COPY) { at->has_copy_failed = true; }
    if (result == op->expected && op->expected != PLOG_OK) { return; }
    bool is_old = result == PLOG_OLD_EPOCH; /* an election came between */
    bool is_room = result == PLOG_BUSY && op->buffer_bytes > LOG_RUN_BYTES_MAX;
    bool is_disk = (result == PLOG_STORAGE || result == PLOG_NO_SPACE || result == PLOG_BUSY) && log_tolerates(run);
    bool is_full = result == PLOG_NO_SPACE && log_was_full(run);
    if (is_room) { run->result->branches[RUN_LOG_WAITED_CHECKPOINT] += 1; }
    if (is_old || is_room || is_behind || is_disk || is_full) { return; }
    log_fail(run, op->kind == LOG_OP_COPY ? "I2" : "I9", "log %" PRIu32 ": an append is refused with %d, not with %d",
             pair->index, (int)result, (int)op->expected);
}

static void on_truncated(struct log_pair *pair, struct log_op *op, const struct plog_out *item)
{
    struct log_replica *at = &pair->replicas[op->replica];
    at->is_cutting = false;
    at->asked_end = at->model.end;
    if (item->result == PLOG_OK) {
        mark_durable(&at->model, LOG_CUT, 0, pair);
        return;
    }
    if (op->replica != pair->leader) { at->needs_truncation = true; }
    if (log_tolerates(pair->run)) { return; }
    log_fail(pair->run, "I21", "log %" PRIu32 ": a truncation to %" PRId64 " is answered with %d", pair->index,
             op->offset, (int)item->result);
}

/* Memory has been truncated. */
static void on_cut(struct log_pair *pair, uint32_t replica, int64_t offset)
{
    struct log_replica *at = &pair->replicas[replica];
    uint32_t i = log_model_at(&at->model, pair, at->cut_offset);
    int64_t wanted = i == at->model.batch_count ? at->model.end : pair->pool[at->model.batches[i]].base;
    wanted = base_min_i64(wanted, at->cut_offset);
    if (!at->is_cutting || offset != wanted) {
        log_fail(pair->run, "I8", "log %" PRIu32 " is truncated to %" PRId64 ", not to %" PRId64, pair->index, offset,
                 wanted);
    }
    int64_t kept = at->watermark;
    if (pair->is_follower_in_sync) { kept = base_max_i64(kept, pair->committed_end); }
    if (offset < kept) {
        log_fail(pair->run, "I1", "log %" PRIu32 " is truncated to %" PRId64 ", and %" PRId64 " is committed",
                 pair->index, offset, kept);
    }
    log_model_add(&at->model, pair, (struct log_event){.kind = LOG_CUT, .offset = offset});
    at->synced_end = base_min_i64(at->synced_end, offset);
    at->watermark = base_min_i64(at->watermark, offset);
    at->version += 1;
}

static void on_change(struct log_run *run, const struct plog_run *change)
{
    struct log_pair *pair;
    struct log_replica *at = log_replica_of(run, change->id, &pair);
    if (change->change == PLOG_CHANGE_TRUNCATE) { on_cut(pair, (uint32_t)(at - pair->replicas), change->offset_base); }
    if (change->change != PLOG_CHANGE_EPOCH) { return; }
    if (change->offset_base != at->model.end) {
        log_fail(run, "I7", "epoch %" PRId32 " begins at %" PRId64 ", the end is %" PRId64, change->leader_epoch,
                 change->offset_base, at->model.end);
    }
    log_model_add(&at->model, pair,
                  (struct log_event){.kind = LOG_EPOCH, .epoch = change->leader_epoch, .offset = change->offset_base});
    at->version += 1;
}

static bool is_answer(enum plog_out_kind kind)
{
    return kind == PLOG_OUT_WRITTEN || kind == PLOG_OUT_SYNCED || kind == PLOG_OUT_FAILED || kind == PLOG_OUT_READ ||
           kind == PLOG_OUT_TIME || kind == PLOG_OUT_TRUNCATED || kind == PLOG_OUT_STARTED || kind == PLOG_OUT_EPOCH;
}

void log_driver_out(struct log_run *run, uint32_t shard, struct log_shard *machine, const struct plog_out *item,
                    uint64_t now_ns, struct port_out *out)
{
    (void)shard;
    struct log_pair *pair = NULL;
    if (item->kind == PLOG_OUT_CHANGE) { on_change(run, &item->run); }
    if (!is_answer(item->kind)) { return; }
    struct log_op *op = log_op_of(run, item->token, &pair);
    struct log_replica *at = &pair->replicas[op->replica];
    switch (item->kind) {
    case PLOG_OUT_WRITTEN: on_written(pair, op, item); return;
    case PLOG_OUT_SYNCED: on_synced(pair, op, item); break;
    case PLOG_OUT_FAILED: on_failed(pair, op, item); break;
    case PLOG_OUT_READ: log_take_read(pair, op, machine, item, now_ns, out); return;
    case PLOG_OUT_TIME: log_take_time(pair, op, item); return;
    case PLOG_OUT_TRUNCATED: on_truncated(pair, op, item); break;
    case PLOG_OUT_STARTED:
        at->is_starting =
            item->result == PLOG_STORAGE; /* the journal may have it all the same: known after a restart */
        if (item->result == PLOG_OK && item->offset > at->model.start) {
            log_model_add(&at->model, pair,
                          (struct log_event){.kind = LOG_START, .offset = item->offset, .is_durable = true});
            at->version += 1;
        }
        break;
    case PLOG_OUT_EPOCH:
        pair->is_epoch_asked = false;
        if (item->result == PLOG_OK) {
            mark_durable(&at->model, LOG_EPOCH, 0, pair);
            pair->is_led = op->replica == pair->leader && op->offset == pair->epoch;
        }
        break;
    case PLOG_OUT_WATERMARK:
    case PLOG_OUT_RUN:
    case PLOG_OUT_CHANGE:
    case PLOG_OUT_STATE:
    case PLOG_OUT_STATES_END:
    case PLOG_OUT_REPLAYED:
    case PLOG_OUT_RECOVERED:
    case PLOG_OUT_DELETED:
    case PLOG_OUT_WANT_CHECKPOINT:
    case PLOG_OUT_FULL:
    case PLOG_OUT_DISK_FAILED:
    case PLOG_OUT_STOPPED: return;
    }
    log_op_give(pair, op);
}

/* ---- leases ---- */

static void drain(struct log_pair *pair, struct log_op *op, struct log_shard *machine, struct port_out *out)
{
    if (op->size_bytes == 0) {
        plog_release(log_plog(machine), op->lease, out);
        log_op_give(pair, op);
        return;
    }
    op->is_draining = true;
    struct port_effect *effect =
        port_emit(out, PORT_READ, LOG_TOKEN_ROOM << 56 | (log_op_token(pair, op) & UINT64_C(0xffffffffffffff)));
    effect->file = op->file;
    effect->position_bytes = op->position_bytes;
    effect->buffer = op->buffer;
    effect->size_bytes = op->size_bytes;
}

void log_driver_done(struct log_run *run, struct log_shard *machine, const struct port_event *event,
                     struct port_out *out)
{
    struct log_pair *pair;
    struct log_op *op = log_op_of(run, event->done.token & UINT64_C(0xffffffffffffff), &pair);
    uint64_t count = event->done.rc == PORT_OK ? base_min_u64(event->done.count, op->size_bytes) : 0;
    if (event->done.rc != PORT_OK && !log_tolerates(run)) {
        log_fail(run, "I15", "a leased range can't be read: %s", port_rc_name(event->done.rc));
    }
    if (event->done.rc == PORT_OK && (count == 0 || memcmp(op->buffer, op->wanted, (size_t)count) != 0)) {
        log_fail(run, "I15", "log %" PRIu32 ": the bytes of a lease at %" PRId64 " are not there any more", pair->index,
                 op->offset);
    }
    plog_release(log_plog(machine), op->lease, out);
    log_op_give(pair, op);
}

/* ---- what is due ---- */

static void act_at_random(struct log_pair *pair, struct log_shard *machine, uint64_t now_ns, struct port_out *out)
{
    struct log_run *run = pair->run;
    struct plog *plog = log_plog(machine);
    uint32_t replica = (uint32_t)log_below(run, 2);
    uint64_t dice = log_below(run, 100);
    if (dice < 40) {
        append(pair, plog, out);
    } else if (dice < 62) {
        copy(pair, plog, out);
    } else if (dice < 82) {
        log_ask_random_reads(pair, replica, plog, now_ns, out);
    } else if (dice < 86 && pair->moves_start) {
        move_start(pair, replica, plog, out);
    } else if (dice < 88) {
        pair->replicas[replica].is_audited = false;
        pair->replicas[replica].audit_next = pair->replicas[replica].model.start;
    } else if (dice < 90) {
        log_want_checkpoint(machine);
    } else if (dice < 92) {
        pair->is_follower_in_sync = false; /* it is too slow for its leader */
    } else if (dice < 95 && !has_op(pair, 1 - pair->leader, LOG_OP_COPY)) {
        /* To somewhere that is not committed, at or beyond the end at times; the follower then fetches it again. */
        struct log_replica *follower = follower_of(pair);
        int64_t from = base_min_i64(pair->committed_end, follower->model.end);
        int64_t offset = from + (int64_t)log_below(run, (uint64_t)(follower->model.end - from) + 3);
        truncate(pair, 1 - pair->leader, offset, plog, out);
    }
}

static void act(struct log_pair *pair, struct log_shard *machine, uint64_t now_ns, struct port_out *out)
{
    struct log_run *run = pair->run;
    struct plog *plog = log_plog(machine);
    bool is_audited = true;
    for (uint32_t r = 0; r < 2; r++) {
        log_check_view(pair, r, plog);
        if (!run->is_disk_failed) { log_check_epochs(pair, r, plog); }
        if (pair->replicas[r].is_audited) { continue; }
        log_ask_audit(pair, r, plog, out);
        is_audited = false;
    }
    if (run->is_failed || run->is_disk_failed) { return; }
    if (!pair->is_led) {
        if (!pair->is_epoch_asked && is_audited) { elect(pair, plog, out); }
        return;
    }
    if (run->phase == LOG_LOAD && now_ns >= pair->next_election_ns) {
        /* At times at once again: epochs without writes. */
        pair->next_election_ns = now_ns + (log_chance(run, 3) ? 1 : 1 + log_below(run, 500)) * WORLD_MS;
        elect(pair, plog, out);
        return;
    }
    if (follower_of(pair)->needs_truncation) { truncate_by_epoch(pair, plog, out); }
    advance(pair);
    for (uint32_t r = 0; r < 2; r++) {
        if (r != pair->leader && follower_of(pair)->needs_truncation) { continue; }
        if (run->phase != LOG_LOAD || log_chance(run, 3)) { tell(pair, r, plog, out); }
    }
    if (run->phase == LOG_LOAD) {
        act_at_random(pair, machine, now_ns, out);
    } else {
        copy(pair, plog, out);
    }
}

bool log_driver_act(struct log_run *run, uint32_t shard, struct log_shard *machine, uint64_t now_ns,
                    struct port_out *out)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t p = 0; p < (uint32_t)run->shape.pairs; p++) {
        struct log_pair *pair = &run->pairs[p];
        if (log_shard_of(run, pair) != shard) { continue; }
        for (uint32_t i = 0; i < LOG_OPS_MAX; i++) {
            struct log_op *op = &pair->ops[i];
            if (op->kind != LOG_OP_READ || !op->has_lease || op->is_draining) { continue; }
            if (op->drain_at_ns <= now_ns || run->phase == LOG_STOPPING) {
                drain(pair, op, machine, out);
                return true;
            }
            next_ns = base_min_u64(next_ns, op->drain_at_ns);
        }
        if (run->phase == LOG_STOPPING) { continue; }
        if (pair->next_act_ns <= now_ns) {
            pair->next_act_ns = now_ns + 1 + log_below(run, (uint64_t)run->shape.pause_max_us * WORLD_US);
            act(pair, machine, now_ns, out);
            return true;
        }
        next_ns = base_min_u64(next_ns, pair->next_act_ns);
    }
    port_alarm(out, next_ns);
    return false;
}

bool log_driver_is_idle(const struct log_run *run, uint32_t shard)
{
    for (uint32_t p = 0; p < (uint32_t)run->shape.pairs; p++) {
        if (log_shard_of(run, &run->pairs[p]) == shard && run->pairs[p].op_count > 0) { return false; }
    }
    return true;
}

bool log_driver_is_even(const struct log_pair *pair)
{
    const struct log_replica *a = &pair->replicas[0], *b = &pair->replicas[1];
    if (pair->is_broken) { return pair->op_count == 0; }
    if (!pair->is_led || a->is_cutting || b->is_cutting || !a->is_audited || !b->is_audited) { return false; }
    if (pair->replicas[1 - pair->leader].needs_truncation || pair->op_count > 0) { return false; }
    return a->model.end == b->model.end && a->watermark == a->model.end && b->watermark == b->model.end;
}
