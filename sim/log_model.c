/* log_model.c: what a log is, by what happened to it: written from the rules, not from plog.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "log__parts.h"

#include <stdlib.h>

static void *grow(void *at, uint32_t count, uint32_t *room, size_t item_bytes)
{
    if (count < *room) { return at; }
    *room = *room * 2 + 16;
    void *larger = realloc(at, *room * item_bytes);
    CHECK(larger != NULL);
    return larger;
}

void log_model_free(struct log_model *model)
{
    free(model->events);
    free(model->batches);
    free(model->epochs);
    *model = (struct log_model){.start = 0};
}

/* An epoch begins where it was said to, or with its first record; one without records gives way to the next. */
static void begin_epoch(struct log_model *model, int32_t epoch, int64_t start)
{
    if (model->epoch_count > 0 && model->epochs[model->epoch_count - 1].epoch == epoch) { return; }
    while (model->epoch_count > 0) {
        const struct log_epoch *last = &model->epochs[model->epoch_count - 1];
        if (last->epoch < epoch && last->start < start) { break; }
        model->epoch_count -= 1;
    }
    model->epochs = grow(model->epochs, model->epoch_count, &model->epoch_room, sizeof model->epochs[0]);
    model->epochs[model->epoch_count++] = (struct log_epoch){.epoch = epoch, .start = start};
}

static void apply_start(struct log_model *model, int64_t offset)
{
    model->start = base_max_i64(model->start, offset);
    uint32_t gone = 0;
    while (gone + 1 < model->epoch_count && model->epochs[gone + 1].start <= model->start) { gone += 1; }
    if (gone > 0) {
        memmove(model->epochs, model->epochs + gone, (model->epoch_count - gone) * sizeof model->epochs[0]);
        model->epoch_count -= gone;
    }
    if (model->epoch_count > 0) { model->epochs[0].start = base_max_i64(model->epochs[0].start, model->start); }
}

static void apply(struct log_model *model, const struct log_pair *pair, const struct log_event *event)
{
    switch (event->kind) {
    case LOG_BATCH: {
        const struct log_batch *batch = &pair->pool[event->batch];
        model->batches = grow(model->batches, model->batch_count, &model->batch_room, sizeof model->batches[0]);
        model->batches[model->batch_count++] = event->batch;
        begin_epoch(model, batch->epoch, batch->base);
        model->end = batch->last + 1;
        return;
    }
    case LOG_EPOCH: begin_epoch(model, event->epoch, event->offset); return;
    case LOG_CUT:
        while (model->batch_count > 0 && pair->pool[model->batches[model->batch_count - 1]].last >= event->offset) {
            model->batch_count -= 1;
        }
        while (model->epoch_count > 0 && model->epochs[model->epoch_count - 1].start >= event->offset) {
            model->epoch_count -= 1;
        }
        model->end = event->offset;
        model->cuts += 1;
        return;
    case LOG_START: apply_start(model, event->offset); return;
    }
}

void log_model_add(struct log_model *model, const struct log_pair *pair, struct log_event event)
{
    model->events = grow(model->events, model->event_count, &model->event_room, sizeof model->events[0]);
    model->events[model->event_count++] = event;
    apply(model, pair, &event);
}

void log_model_fold(struct log_model *model, const struct log_pair *pair)
{
    model->batch_count = 0;
    model->epoch_count = 0;
    model->start = model->end = 0;
    model->cuts = 0;
    for (uint32_t i = 0; i < model->event_count; i++) { apply(model, pair, &model->events[i]); }
}

void log_model_epoch_end(const struct log_model *model, int32_t epoch, int32_t *epoch_out, int64_t *end_out)
{
    *epoch_out = -1;
    *end_out = -1;
    if (model->epoch_count == 0 || epoch < 0 || epoch > model->epochs[model->epoch_count - 1].epoch) { return; }
    *epoch_out = epoch;
    *end_out = model->end;
    for (uint32_t i = model->epoch_count; i-- > 0;) {
        if (model->epochs[i].epoch <= epoch) {
            *epoch_out = model->epochs[i].epoch;
            return;
        }
        *end_out = model->epochs[i].start;
    }
}

uint32_t log_model_at(const struct log_model *model, const struct log_pair *pair, int64_t offset)
{
    uint32_t low = 0, high = model->batch_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (pair->pool[model->batches[middle]].last < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct log_sequence log_model_producer(const struct log_model *model, const struct log_pair *pair, int64_t id)
{
    struct log_sequence sequence = {.epoch = -1};
    for (uint32_t i = 0; i < model->batch_count; i++) {
        const struct log_batch *batch = &pair->pool[model->batches[i]];
        if (batch->producer_id != id) { continue; }
        if (sequence.epoch != batch->producer_epoch) {
            sequence.epoch = batch->producer_epoch;
            sequence.count = 0;
        }
        if (sequence.count == 5) {
            memmove(sequence.kept, sequence.kept + 1, 4 * sizeof sequence.kept[0]);
            sequence.count = 4;
        }
        sequence.kept[sequence.count++] = model->batches[i];
    }
    return sequence;
}

int64_t log_model_time(const struct log_model *model, const struct log_pair *pair, int64_t timestamp_ms, int64_t limit,
                       int64_t *timestamp_out, int32_t *epoch_out)
{
    for (uint32_t i = 0; i < model->batch_count; i++) {
        const struct log_batch *batch = &pair->pool[model->batches[i]];
        if (batch->last >= limit) { break; }
        if (batch->timestamp_max < timestamp_ms || batch->last < model->start) { continue; }
        int64_t at = base_max_i64(base_max_i64(timestamp_ms - batch->timestamp_base, 0), model->start - batch->base);
        *timestamp_out = batch->timestamp_base + at;
        *epoch_out = batch->epoch;
        return batch->base + at;
    }
    return -1;
}
