/* log_check.c: what is asked of a log and what must hold: I1, I3, I4, I7, I8, I15, I18, I20.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "log__parts.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- what is outstanding ---- */

uint32_t log_op_take(struct log_pair *pair, enum log_op_kind kind, uint32_t replica)
{
    for (uint32_t i = 0; i < LOG_OPS_MAX; i++) {
        if (pair->ops[i].kind != LOG_OP_FREE) { continue; }
        uint32_t generation = pair->ops[i].generation + 1;
        pair->ops[i] = (struct log_op){.kind = kind,
                                       .generation = generation,
                                       .replica = replica,
                                       .version = pair->replicas[replica].version,
                                       .cuts = pair->replicas[replica].model.cuts};
        pair->op_count += 1;
        return i;
    }
    return LOG_OPS_MAX;
}

void log_op_give(struct log_pair *pair, struct log_op *op)
{
    free(op->buffer);
    free(op->wanted);
    *op = (struct log_op){.generation = op->generation};
    pair->op_count -= 1;
}

uint64_t log_op_token(const struct log_pair *pair, const struct log_op *op)
{
    return (uint64_t)(pair->index + 1) << 48 | (uint64_t)(op->generation & 0xffffff) << 16 | (uint64_t)(op - pair->ops);
}

struct log_op *log_op_of(struct log_run *run, uint64_t token, struct log_pair **pair_out)
{
    uint32_t pair = (uint32_t)(token >> 48 & 0xff) - 1, at = (uint32_t)(token & 0xffff);
    CHECK(pair < LOG_PAIRS_MAX && at < LOG_OPS_MAX);
    struct log_op *op = &run->pairs[pair].ops[at];
    CHECK(op->kind != LOG_OP_FREE && (op->generation & 0xffffff) == (uint32_t)(token >> 16 & 0xffffff));
    *pair_out = &run->pairs[pair];
    return op;
}

struct log_replica *log_replica_of(struct log_run *run, struct base_part id, struct log_pair **pair_out)
{
    *pair_out = &run->pairs[id.index / 2];
    return &(*pair_out)->replicas[id.index % 2];
}

/* ---- a log as it is ---- */

static const char *name_of(const struct log_pair *pair, uint32_t replica, char text[24])
{
    (void)snprintf(text, 24, "log %" PRIu32 "%c", pair->index, replica == 0 ? 'a' : 'b'); /* short */
    return text;
}

void log_check_epochs(struct log_pair *pair, uint32_t replica, struct plog *plog)
{
    const struct log_replica *at = &pair->replicas[replica];
    char name[24];
    for (int32_t epoch = pair->epoch > 24 ? pair->epoch - 24 : 0; epoch <= pair->epoch + 1; epoch++) {
        int32_t found, wanted;
        int64_t end, wanted_end;
        plog_epoch_end(plog, at->ref, epoch, &found, &end);
        log_model_epoch_end(&at->model, epoch, &wanted, &wanted_end);
        if (found == wanted && end == wanted_end) { continue; }
        log_fail(pair->run, "I7",
                 "%s: epoch %" PRId32 " ends as (%" PRId32 ", %" PRId64 "), not as (%" PRId32 ", %" PRId64 ")",
                 name_of(pair, replica, name), epoch, found, end, wanted, wanted_end);
        return;
    }
}

static int64_t timestamp_max(const struct log_pair *pair, const struct log_model *model, int64_t *offset_out)
{
    int64_t max = -1;
    *offset_out = -1;
    for (uint32_t i = 0; i < model->batch_count; i++) {
        const struct log_batch *batch = &pair->pool[model->batches[i]];
        if (batch->timestamp_max <= max) { continue; }
        max = batch->timestamp_max;
        *offset_out = batch->last;
    }
    return max;
}

void log_check_view(struct log_pair *pair, uint32_t replica, struct plog *plog)
{
    struct log_replica *at = &pair->replicas[replica];
    struct log_run *run = pair->run;
    if (run->is_failed || run->is_disk_failed) { return; }
    struct plog_view view;
    plog_view(plog, at->ref, &view);
    char name[24];
    name_of(pair, replica, name);
    if (view.is_failed && log_tolerates(run)) {
        /* What is damaged may refuse for good: bytes that nobody accounts for are in its way. Else a restart helps. */
        pair->is_broken = pair->is_broken || (view.is_damaged && run->shape.io_errors != 0);
        run->has_failed_log = run->has_failed_log || !pair->is_broken;
        return;
    }
    if (view.is_failed) { log_fail(run, "I21", "%s takes nothing any more", name); }
    if (view.is_damaged && !log_tolerates(run)) { log_fail(run, "I20", "%s is called damaged", name); }
    if (view.offset_end != at->model.end || view.offset_start != at->model.start) {
        log_fail(run, "I8", "%s is [%" PRId64 ", %" PRId64 "), not [%" PRId64 ", %" PRId64 ")", name, view.offset_start,
                 view.offset_end, at->model.start, at->model.end);
    }
    if (view.synced_end != at->synced_end) {
        log_fail(run, "I19", "%s says synced to %" PRId64 ", and answered for %" PRId64, name, view.synced_end,
                 at->synced_end);
    }
    if (view.watermark != at->watermark) {
        log_fail(run, view.watermark < at->watermark ? "I3" : "I4", "%s has the watermark %" PRId64 ", not %" PRId64,
                 name, view.watermark, at->watermark);
    }
    if (view.watermark > pair->committed_end) {
        log_fail(run, "I4", "%s shows up to %" PRId64 ", and %" PRId64 " is committed", name, view.watermark,
                 pair->committed_end);
    }
    int64_t offset;
    int64_t max = timestamp_max(pair, &at->model, &offset);
    if (!pair->moves_start && (view.timestamp_max != max || view.timestamp_max_offset != offset)) {
        log_fail(run, "I15", "%s has %" PRId64 " at %" PRId64 " as its greatest timestamp, not %" PRId64 " at %" PRId64,
                 name, view.timestamp_max, view.timestamp_max_offset, max, offset);
    }
}

void log_check_committed(struct log_pair *pair, uint32_t replica, const char *when)
{
    const struct log_model *model = &pair->replicas[replica].model;
    char name[24];
    for (uint32_t i = 0; i < pair->committed_count; i++) {
        if (i < model->batch_count && model->batches[i] == pair->committed[i]) { continue; }
        log_fail(pair->run, "I1", "%s: %s has lost the committed records at %" PRId64, when,
                 name_of(pair, replica, name), pair->pool[pair->committed[i]].base);
        return;
    }
}

/* ---- after recovery ---- */

/* What a log may be when a crash came: with or without what the journal had not answered for. */
struct option {
    bool has_cut, has_epoch;
};

static void try_option(struct log_pair *pair, const struct log_model *before, struct option option, int64_t end,
                       struct log_model *model_out)
{
    struct log_model model = {.start = 0};
    for (uint32_t i = 0; i < before->event_count; i++) {
        struct log_event event = before->events[i];
        if (!event.is_durable) {
            if (event.kind == LOG_CUT && !option.has_cut) { continue; }
            if (event.kind == LOG_EPOCH && !option.has_epoch) { continue; }
            if (event.kind == LOG_BATCH && pair->pool[event.batch].base >= end) { continue; }
            event.is_durable = true; /* it has been read from there */
        }
        log_model_add(&model, pair, event);
    }
    *model_out = model;
}

static bool is_as(const struct log_pair *pair, const struct log_replica *at, const struct log_model *model,
                  const struct plog *plog)
{
    for (int32_t epoch = 0; epoch <= pair->epoch + 1; epoch++) {
        int32_t found, wanted;
        int64_t end, wanted_end;
        plog_epoch_end(plog, at->ref, epoch, &found, &end);
        log_model_epoch_end(model, epoch, &wanted, &wanted_end);
        if (found != wanted || end != wanted_end) { return false; }
    }
    return true;
}

void log_check_recovered(struct log_pair *pair, uint32_t replica, struct plog *plog)
{
    struct log_replica *at = &pair->replicas[replica];
    struct log_run *run = pair->run;
    struct plog_view view;
    plog_view(plog, at->ref, &view);
    char name[24];
    name_of(pair, replica, name);
    if (view.is_damaged && run->shape.io_errors == 0) {
        log_fail(run, "I20", "%s is called damaged after a start", name);
    }
    if (at->is_starting && view.offset_start > at->model.start) {
        log_model_add(&at->model, pair,
                      (struct log_event){.kind = LOG_START, .offset = view.offset_start, .is_durable = true});
    }
    at->is_starting = false;
    bool has_end = false, is_found = false;
    for (int i = 0; i < 4 && !is_found; i++) {
        struct log_model model;
        struct option option = {.has_cut = (i & 1) == 0, .has_epoch = (i & 2) == 0};
        try_option(pair, &at->model, option, view.offset_end, &model);
        bool is_end = model.end == view.offset_end && model.start == view.offset_start;
        has_end = has_end || is_end;
        is_found = is_end && is_as(pair, at, &model, plog);
        if (is_found) {
            log_model_free(&at->model);
            at->model = model;
        } else {
            log_model_free(&model);
        }
    }
    if (!is_found && !view.is_failed) {
        log_fail(run, has_end ? "I7" : (view.offset_end < at->synced_end ? "I1" : "I18"),
                 "%s comes back as [%" PRId64 ", %" PRId64 "), it was [%" PRId64 ", %" PRId64 ") and synced to %" PRId64
                 "%s",
                 name, view.offset_start, view.offset_end, at->model.start, at->model.end, at->synced_end,
                 has_end ? ": its epochs are not those of its records" : "");
        return;
    }
    if (view.watermark > at->watermark) {
        log_fail(run, "I3", "%s comes back with the watermark %" PRId64 ", it was told %" PRId64, name, view.watermark,
                 at->watermark);
    }
    at->synced_end = at->model.end;
    at->watermark = view.watermark;
    at->is_cutting = false;
    at->asked_end = at->model.end;
    at->version += 1;
    at->audit_next = at->model.start;
    at->is_audited = false;
}

/* ---- reads ---- */

/* The batches of the model from the one that holds the offset on: the bytes that a read gives begin with them. */
void log_check_range(struct log_pair *pair, struct log_op *op, struct base_slice bytes, const char *how)
{
    const struct log_model *model = &pair->replicas[op->replica].model;
    if (op->cuts != model->cuts) { return; } /* it may be of before */
    uint32_t i = log_model_at(model, pair, op->offset);
    size_t at = 0;
    char name[24];
    for (; i < model->batch_count && at < bytes.size_bytes; i++) {
        const struct log_batch *batch = &pair->pool[model->batches[i]];
        size_t size_bytes = base_min_size(batch->size_bytes, bytes.size_bytes - at);
        if (memcmp(bytes.at + at, batch->bytes, size_bytes) != 0) {
            log_fail(pair->run, "I15", "%s: %s from %" PRId64 " does not give the records at %" PRId64,
                     name_of(pair, op->replica, name), how, op->offset, batch->base);
            return;
        }
        at += size_bytes;
    }
    if (at < bytes.size_bytes) {
        log_fail(pair->run, "I15", "%s: %s from %" PRId64 " gives more than there is", name_of(pair, op->replica, name),
                 how, op->offset);
    }
}

void log_ask_audit(struct log_pair *pair, uint32_t replica, struct plog *plog, struct port_out *out)
{
    struct log_replica *at = &pair->replicas[replica];
    at->audit_next = base_max_i64(at->audit_next, at->model.start);
    if (at->audit_next >= at->model.end) {
        at->is_audited = true;
        return;
    }
    for (uint32_t i = 0; i < LOG_OPS_MAX; i++) {
        if (pair->ops[i].kind == LOG_OP_AUDIT && pair->ops[i].replica == replica) { return; }
    }
    uint32_t slot = log_op_take(pair, LOG_OP_AUDIT, replica);
    if (slot == LOG_OPS_MAX) { return; }
    struct log_op *op = &pair->ops[slot];
    op->offset = at->audit_next;
    struct plog_read read = {.token = log_op_token(pair, op),
                             .offset = op->offset,
                             .bytes_max = 1 + (uint32_t)log_below(pair->run, 40000),
                             .takes_oversized_first = true,
                             .is_end_unlimited = true};
    if (plog_read_bytes(plog, at->ref, &read, out) != BASE_OK) { log_op_give(pair, op); }
}

void log_ask_random_reads(struct log_pair *pair, uint32_t replica, struct plog *plog, uint64_t now_ns,
                          struct port_out *out)
{
    struct log_run *run = pair->run;
    struct log_replica *at = &pair->replicas[replica];
    bool is_time = log_chance(run, 2);
    uint32_t slot = log_op_take(pair, is_time ? LOG_OP_TIME : LOG_OP_READ, replica);
    if (slot == LOG_OPS_MAX) { return; }
    struct log_op *op = &pair->ops[slot];
    enum base_rc rc;
    if (is_time) {
        uint32_t count = at->model.batch_count;
        op->offset = count == 0 ? 1 : pair->pool[at->model.batches[log_below(run, count)]].timestamp_base;
        op->offset += (int64_t)log_below(run, 9) - 3;
        rc = plog_find_time(plog, at->ref, log_op_token(pair, op), op->offset, out);
    } else {
        int64_t span = at->watermark - at->model.start;
        op->offset = at->model.start + (int64_t)log_below(run, (uint64_t)span + 1);
        if (log_chance(run, 3)) {
            op->offset = base_max_i64(at->watermark - (int64_t)log_below(run, 20), at->model.start);
        }
        op->bytes_max = log_chance(run, 4) ? 10 : (uint32_t)log_below(run, 30000);
        op->drain_at_ns = now_ns + (log_chance(run, 3) ? log_below(run, 400 * WORLD_MS) : 0);
        struct plog_read read = {.token = log_op_token(pair, op),
                                 .offset = op->offset,
                                 .bytes_max = op->bytes_max,
                                 .takes_oversized_first = true,
                                 .is_prompt = log_chance(run, 2)};
        rc = plog_read(plog, at->ref, &read, out);
    }
    if (rc != BASE_OK) { log_op_give(pair, op); }
}

/* What a lease names: the whole batches that fit, of those below the watermark. */
static void check_lease(struct log_pair *pair, struct log_op *op, const struct plog_out *item)
{
    const struct log_replica *at = &pair->replicas[op->replica];
    if (op->version != at->version) { return; } /* it may be of before */
    if (op->offset < at->watermark && item->size_bytes == 0) {
        log_fail(pair->run, "I15", "a read at %" PRId64 " below the watermark %" PRId64 " gives nothing", op->offset,
                 at->watermark);
    }
    uint32_t i = log_model_at(&at->model, pair, op->offset);
    uint64_t bytes = 0;
    for (; i < at->model.batch_count && pair->pool[at->model.batches[i]].last < at->watermark; i++) {
        bytes += pair->pool[at->model.batches[i]].size_bytes;
    }
    if (item->size_bytes > bytes) {
        log_fail(pair->run, "I4", "a read at %" PRId64 " gives bytes at or above the watermark %" PRId64, op->offset,
                 at->watermark);
    }
}

static void take_lease(struct log_pair *pair, struct log_op *op, const struct plog_out *item)
{
    check_lease(pair, op, item);
    op->has_lease = true;
    op->lease = item->lease;
    op->file = item->file;
    op->position_bytes = item->position_bytes;
    op->size_bytes = item->size_bytes;
    op->wanted = malloc(item->size_bytes);
    op->buffer = malloc(item->size_bytes);
    CHECK(op->wanted != NULL && op->buffer != NULL);
    const struct log_model *model = &pair->replicas[op->replica].model;
    uint32_t i = log_model_at(model, pair, op->offset);
    size_t at = 0;
    for (; i < model->batch_count && at < item->size_bytes; i++) {
        const struct log_batch *batch = &pair->pool[model->batches[i]];
        size_t size_bytes = base_min_size(batch->size_bytes, item->size_bytes - at);
        memcpy(op->wanted + at, batch->bytes, size_bytes);
        at += size_bytes;
    }
    if (op->cuts != model->cuts) {
        op->size_bytes = 0; /* as above */
        return;
    }
    if (at == item->size_bytes) { return; }
    log_fail(pair->run, "I4", "a read at %" PRId64 " gives more bytes than there are", op->offset);
}

void log_take_read(struct log_pair *pair, struct log_op *op, struct log_shard *machine, const struct plog_out *item,
                   uint64_t now_ns, struct port_out *out)
{
    struct log_replica *at = &pair->replicas[op->replica];
    bool is_same = op->version == at->version;
    (void)now_ns;
    if (item->result == PLOG_OK && op->kind == LOG_OP_READ) {
        if (item->lease != 0) {
            take_lease(pair, op, item);
            return;
        }
        check_lease(pair, op, item);
    } else if (item->result == PLOG_OK && item->block != NULL) {
        log_check_range(pair, op, base_slice_of(item->block, (size_t)item->size_bytes), "an audit");
        base_pages_give(log_pages(machine), item->block);
        if (is_same) {
            uint32_t i = log_model_at(&at->model, pair, op->offset);
            uint64_t left = item->size_bytes;
            for (; i < at->model.batch_count && left >= pair->pool[at->model.batches[i]].size_bytes; i++) {
                left -= pair->pool[at->model.batches[i]].size_bytes;
                at->audit_next = pair->pool[at->model.batches[i]].last + 1;
            }
        }
    } else if (item->result != PLOG_BUSY && item->result != PLOG_OK && is_same && !log_tolerates(pair->run)) {
        log_fail(pair->run, "I20", "a read at %" PRId64 " of [%" PRId64 ", %" PRId64 ") is answered with %d",
                 op->offset, at->model.start, at->model.end, (int)item->result);
    }
    (void)out;
    log_op_give(pair, op);
}

void log_take_time(struct log_pair *pair, struct log_op *op, const struct plog_out *item)
{
    struct log_replica *at = &pair->replicas[op->replica];
    if (item->result == PLOG_OK && op->version == at->version) {
        int64_t timestamp = -1;
        int32_t epoch = -1;
        int64_t wanted = log_model_time(&at->model, pair, op->offset, at->watermark, &timestamp, &epoch);
        if (item->offset != wanted || (wanted >= 0 && item->timestamp_ms != timestamp)) {
            log_fail(pair->run, "I15", "the time %" PRId64 " is looked up as offset %" PRId64 ", a scan finds %" PRId64,
                     op->offset, item->offset, wanted);
        } else if (wanted >= 0 && item->leader_epoch != epoch) {
            log_fail(pair->run, "I15",
                     "the time %" PRId64 " is looked up as offset %" PRId64 " of epoch %" PRId32
                     ", whose epoch is %" PRId32,
                     op->offset, item->offset, item->leader_epoch, epoch);
        }
    } else if (item->result != PLOG_OK && item->result != PLOG_BUSY && op->version == at->version &&
               !log_tolerates(pair->run)) {
        log_fail(pair->run, "I20", "the time %" PRId64 " is answered with %d", op->offset, (int)item->result);
    }
    log_op_give(pair, op);
}
