/* judge_trim.c: see judge.h. What may be gone: by retention, of topics with limits of their own, and of what is older than the node keeps;
 * by a power cut, of page-cache topics; by a client that deletes records, whose word for it then holds (I23).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge__parts.h"

#include <inttypes.h>

enum { ERROR_OUT_OF_RANGE = 1 }; /* Kafka's */

/* Whatever is slow: what was written is synced by then; and when nothing is slow any more. */
#define SYNCED_NS      (UINT64_C(20) * 1000000000)
#define CALM_SYNCED_NS (UINT64_C(1) * 1000000000)
#define ON_THE_WAY_NS  (UINT64_C(10) * 1000000000) /* what was sent before the power went may be read after it */

void judge__age(struct judge *judge)
{
    judge->aged_ms = INT64_MIN;
    uint64_t end_ns = 0;
    const struct history_op *age = NULL;
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        if (op->kind == HISTORY_NOTE && strcmp(op->topic, "age") == 0) { age = op; }
        end_ns = base_max_u64(end_ns, base_max_u64(op->invoke_ns, op->end_ns));
    }
    if (age == NULL) { return; }
    int64_t now_ms = age->timestamp_ms + (int64_t)((end_ns - age->invoke_ns) / 1000000);
    judge->aged_ms = now_ms + CHECK_AHEAD_MAX_MS - age->at;
}

/* As HISTORY_TRIMMED: with limits of its own; as HISTORY_LOSSY: a page-cache topic. */
static bool was_created(const struct judge *judge, const char *topic, int64_t as)
{
    for (uint32_t i = 0; i < judge->create_count; i++) {
        const struct history_op *op = judge->creates[i];
        if ((op->at & as) != 0 && strcmp(op->topic, topic) == 0) { return true; }
    }
    return false;
}

uint64_t judge__power_cut(const struct judge *judge, uint64_t from_ns)
{
    for (uint32_t i = 0; i < judge->note_count; i++) {
        const struct history_op *op = judge->notes[i];
        bool is_cut = strcmp(op->topic, "crash") == 0 && op->count == 1;
        if (is_cut && op->invoke_ns >= from_ns) { return op->invoke_ns; }
    }
    return UINT64_MAX;
}

bool judge__has_time(const struct judge *judge, const struct history_op *op)
{
    for (uint32_t i = 0; i < judge->note_count; i++) {
        const struct history_op *note = judge->notes[i];
        if (strcmp(note->topic, "disk") == 0) { return false; }
        if (strcmp(note->topic, "crash") != 0 || note->invoke_ns < op->invoke_ns) { continue; }
        if (note->invoke_ns < op->end_ns + (op->is_final ? CALM_SYNCED_NS : SYNCED_NS)) { return false; }
    }
    return true;
}

bool judge__may_be_lost(const struct judge *judge, const struct history_op *op)
{
    if (!was_created(judge, op->topic, HISTORY_LOSSY)) { return false; }
    uint64_t way_ns = op->kind == HISTORY_READ ? ON_THE_WAY_NS : 0;
    return judge__power_cut(judge, op->invoke_ns - base_min_u64(op->invoke_ns, way_ns)) != UINT64_MAX;
}

/* A record that is known: where it stands and since when. */
static bool is_known(const struct history_op *op)
{
    bool is_record = op->kind == HISTORY_READ || op->kind == HISTORY_PRODUCE;
    return is_record && op->what == HISTORY_OK && op->offset >= 0 && op->timestamp_ms >= 0;
}

/* How far a client may have moved the start. */
static int64_t trimmed_max(const struct judge *judge, const char *topic, int32_t partition)
{
    int64_t to = 0;
    for (uint32_t i = 0; i < judge->trim_count; i++) {
        const struct history_op *op = judge->trims[i];
        if (op->what == HISTORY_FAIL || !history_is_of(op, topic, partition)) { continue; }
        bool is_told = op->what == HISTORY_OK;
        to = base_max_i64(to, op->at >= 0 ? op->at : (is_told ? op->offset : INT64_MAX));
    }
    return to;
}

int64_t judge__start_max(const struct judge *judge, const char *topic, int32_t partition)
{
    if (was_created(judge, topic, HISTORY_TRIMMED)) { return INT64_MAX; }
    int64_t trimmed = trimmed_max(judge, topic, partition);
    if (judge->aged_ms == INT64_MIN) { return trimmed; }
    int64_t aged_end = 0, end = INT64_MAX;
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        if (!is_known(op) || !history_is_of(op, topic, partition)) { continue; }
        if (op->timestamp_ms < judge->aged_ms) {
            aged_end = base_max_i64(aged_end, op->offset + 1);
        } else if (op->offset < end && !judge__may_be_deleted(judge, op)) {
            end = op->offset;
        }
    }
    /* What nobody was told of and nobody read may be too old as well, before the first that is known not to be. */
    return base_max_i64(trimmed, aged_end == 0 && end == INT64_MAX ? 0 : end);
}

int64_t judge__final_start(const struct judge *judge, const char *topic, int32_t partition)
{
    int64_t start = judge__final_end(judge, topic, partition);
    /* Sorted by offset: back to the last hole, which retention made. */
    for (uint32_t i = judge->final_count; i-- > 0;) {
        const struct history_op *op = judge->finals[i];
        if (!history_is_of(op, topic, partition) || op->offset >= start) { continue; }
        if (op->offset < start - 1) { break; }
        start = op->offset;
    }
    return start;
}

/* Where the log began when all was over: retention may have gone on beside the final reader. */
static int64_t start_told(const struct judge *judge, const struct history_op *of)
{
    int64_t start = judge__final_start(judge, of->topic, of->partition);
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        bool is_it = op->kind == HISTORY_OFFSETS && op->what == HISTORY_OK && op->is_final && op->at == -2 &&
                     history_is_of(op, of->topic, of->partition);
        if (is_it && op->offset > start) { start = op->offset; }
    }
    return start;
}

/* Or (its offset was not told) perhaps. */
bool judge__may_be_trimmed(const struct judge *judge, const struct history_op *op)
{
    int64_t start_max = judge__start_max(judge, op->topic, op->partition);
    return start_max > 0 && op->offset < start_max && op->offset < start_told(judge, op);
}

/* ---- what a client deleted ---- */

/* What was told of a start stays told: nothing before it is read by who asks later, nor called the first. */
static void judge_trimmed(struct judge *judge, const struct history_op *trim)
{
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        bool is_read = op->kind == HISTORY_READ;
        bool is_earliest = op->kind == HISTORY_OFFSETS && op->at == -2;
        if ((!is_read && !is_earliest) || op->what != HISTORY_OK || op->offset >= trim->offset) { continue; }
        if (!history_is_of(op, trim->topic, trim->partition)) { continue; }
        uint64_t way_ns = is_read && !op->is_final ? ON_THE_WAY_NS : 0;
        if (op->invoke_ns <= trim->end_ns + way_ns) { continue; }
        check_breach(judge->report, "I23",
                     "%s-%" PRId32 " began at %" PRId64 " once its records were deleted, and later offset %" PRId64
                     " %s",
                     trim->topic, trim->partition, trim->offset, op->offset,
                     is_read ? "was read" : "was called the earliest");
        return;
    }
}

/* At most; -1: nobody knows. */
static int64_t partitions_of(const struct judge *judge, const char *topic)
{
    int64_t count = -1;
    for (uint32_t i = 0; i < judge->create_count; i++) {
        if (strcmp(judge->creates[i]->topic, topic) == 0) { count = base_max_i64(count, judge->creates[i]->count); }
    }
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        bool may_have_grown = op->kind == HISTORY_GROW && op->what != HISTORY_FAIL && strcmp(op->topic, topic) == 0;
        if (may_have_grown && count >= 0) { count = base_max_i64(count, op->count); }
    }
    return count;
}

void judge__trims(struct judge *judge)
{
    for (uint32_t i = 0; i < judge->trim_count; i++) {
        const struct history_op *op = judge->trims[i];
        bool is_out_of_range = op->what == HISTORY_FAIL && op->error == ERROR_OUT_OF_RANGE;
        if (is_out_of_range && !judge__was_deleted(judge, op->topic) && op->at <= judge__end_known_at(judge, op)) {
            check_breach(judge->report, "I23",
                         "deletion of records up to %" PRId64 " of %s-%" PRId32 " is out of range", op->at, op->topic,
                         op->partition);
        }
        if (op->what != HISTORY_OK || op->error != 0) { continue; }
        int64_t count = partitions_of(judge, op->topic);
        int64_t end = judge__final_end(judge, op->topic, op->partition);
        bool may_be_less = judge__may_be_deleted(judge, op) || judge__may_be_lost(judge, op);
        bool is_beyond = end >= 0 && op->offset > end && !may_be_less;
        if (op->offset < op->at || is_beyond || (count >= 0 && op->partition >= count)) {
            check_breach(judge->report, "I23",
                         "records of %s-%" PRId32 " up to %" PRId64 " were deleted, its end is %" PRId64
                         ", and the answer was that it begins at %" PRId64,
                         op->topic, op->partition, op->at, end, op->offset);
        }
        if (!judge__may_be_deleted(judge, op)) { judge_trimmed(judge, op); }
    }
}
