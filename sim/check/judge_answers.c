/* judge_answers.c: see judge.h. What was asked: I21, I23.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge__parts.h"

#include <inttypes.h>

enum { ERROR_OUT_OF_ORDER = 45, ERROR_UNKNOWN_PRODUCER = 59 }; /* Kafka's */

/* ---- I21: everything ends, and goes well once the faults stopped ---- */

/* Nobody answers an acks=0 produce: on a connection whose other end died unseen it is lost, and its client can't know. */
static bool is_unanswered(const struct history_op *op)
{
    return op->kind == HISTORY_PRODUCE && op->acks == 0 && op->what == HISTORY_UNKNOWN;
}

/* What the power took of a page-cache topic leaves its producers out of order: they take a new identity, and what may have been
 * written under the old one, in any partition, is not sent again. */
static bool is_of_lost_identity(const struct judge *judge, const struct history_op *op)
{
    bool is_told = op->error == ERROR_OUT_OF_ORDER || op->error == ERROR_UNKNOWN_PRODUCER;
    if (op->kind != HISTORY_PRODUCE || !op->is_idempotent || op->what != HISTORY_UNKNOWN || !is_told) { return false; }
    for (uint32_t i = 0; i < judge->produced_count; i++) {
        const struct history_op *other = judge->produced[i];
        if (other->record.producer == op->record.producer && judge__may_be_lost(judge, other)) { return true; }
    }
    return false;
}

static void judge_progress(struct judge *judge)
{
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        if (op->what == HISTORY_INVOKE) {
            check_breach(judge->report, "I21", "operation %" PRIu32 " (%s of %s on %s-%" PRId32 ") never ended", i,
                         history_kind_name(op->kind), op->actor, op->topic, op->partition);
        } else if (op->is_final && op->what != HISTORY_OK && !is_unanswered(op) && !is_of_lost_identity(judge, op)) {
            check_breach(judge->report, "I21",
                         "operation %" PRIu32 " (%s of %s on %s-%" PRId32
                         ") came after the faults and failed with %" PRId32,
                         i, history_kind_name(op->kind), op->actor, op->topic, op->partition, op->error);
        }
    }
}

/* ---- I23: ListOffsets ---- */

int64_t judge__end_known_at(const struct judge *judge, const struct history_op *asked)
{
    int64_t end = 0;
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        bool is_news = op->kind == HISTORY_READ || (op->kind == HISTORY_PRODUCE && op->acks == -1);
        if (!is_news || op->what != HISTORY_OK || op->end_ns >= asked->invoke_ns || op->offset < end) { continue; }
        if (!history_is_of(op, asked->topic, asked->partition)) { continue; }
        if (judge__may_be_lost(judge, op)) { continue; }
        end = op->offset + 1;
    }
    return end;
}

static void judge_time(struct judge *judge, const struct history_op *asked)
{
    int64_t expected = -1;
    int64_t start = judge__final_start(judge, asked->topic, asked->partition);
    bool is_trimmed = judge__start_max(judge, asked->topic, asked->partition) > 0;
    if (is_trimmed && asked->offset >= 0 && asked->offset < start) { return; } /* the start moved after it was asked */
    for (int64_t offset = is_trimmed ? start : 0;; offset++) {
        const struct history_op *read = judge__final_at(judge, asked->topic, asked->partition, offset);
        if (read == NULL) { break; }
        if (read->timestamp_ms >= asked->at) {
            expected = offset;
            break;
        }
    }
    /* What retention took meanwhile is no answer any more: a later record is, or none. */
    const struct history_op *later =
        is_trimmed ? judge__final_at(judge, asked->topic, asked->partition, asked->offset) : NULL;
    bool is_later = later != NULL && asked->offset > expected && later->timestamp_ms >= asked->at;
    if (is_trimmed && (is_later || asked->offset < 0)) { return; }
    if (expected != asked->offset) {
        check_breach(judge->report, "I23",
                     "the first offset of %s-%" PRId32 " at or after %" PRId64 " is %" PRId64
                     ", and the answer was %" PRId64,
                     asked->topic, asked->partition, asked->at, expected, asked->offset);
    }
}

/* The first record with the greatest timestamp. Where the start moves one that is deleted may be told, or be gone by now. */
static void judge_greatest(struct judge *judge, const struct history_op *asked)
{
    if (judge__start_max(judge, asked->topic, asked->partition) > 0) { return; }
    int64_t expected = -1, greatest = INT64_MIN;
    for (int64_t offset = 0;; offset++) {
        const struct history_op *read = judge__final_at(judge, asked->topic, asked->partition, offset);
        if (read == NULL) { break; }
        if (read->timestamp_ms <= greatest) { continue; }
        greatest = read->timestamp_ms;
        expected = offset;
    }
    if (expected == asked->offset) { return; }
    check_breach(judge->report, "I23",
                 "the first offset of %s-%" PRId32 " with its greatest timestamp is %" PRId64
                 ", and the answer was %" PRId64,
                 asked->topic, asked->partition, expected, asked->offset);
}

/* Beside the offset of a record its timestamp is told, and beside others none. */
static void judge_told_time(struct judge *judge, const struct history_op *asked)
{
    bool is_place = asked->at == -1 || asked->at == -2;
    int64_t timestamp_ms = -1;
    if (asked->offset >= 0 && !is_place) {
        const struct history_op *read = judge__final_at(judge, asked->topic, asked->partition, asked->offset);
        if (read == NULL || judge__may_be_lost(judge, asked)) { return; }
        timestamp_ms = read->timestamp_ms;
    }
    if (asked->timestamp_ms == timestamp_ms) { return; }
    check_breach(judge->report, "I23",
                 "offset %" PRId64 " of %s-%" PRId32 " is told (for %" PRId64 ") with the timestamp %" PRId64
                 ", which is %" PRId64,
                 asked->offset, asked->topic, asked->partition, asked->at, asked->timestamp_ms, timestamp_ms);
}

static void judge_offsets(struct judge *judge, const struct history_op *asked)
{
    if (judge__may_be_deleted(judge, asked)) { return; }
    judge_told_time(judge, asked);
    bool is_trimmed = judge__start_max(judge, asked->topic, asked->partition) > 0;
    int64_t start = is_trimmed ? judge__final_start(judge, asked->topic, asked->partition) : 0;
    /* After the final reader had begun it may have moved on. */
    bool may_have_moved = asked->is_final && is_trimmed;
    if (asked->at == -2 && start >= 0 && asked->offset > start && !may_have_moved) {
        check_breach(judge->report, "I23",
                     "the earliest offset of %s-%" PRId32 " was never above %" PRId64 ", and the answer was %" PRId64,
                     asked->topic, asked->partition, start, asked->offset);
    }
    int64_t end = judge__final_end(judge, asked->topic, asked->partition);
    if (asked->at == -1) {
        /* News of a topic that was deleted before may come late, and be about that one. */
        int64_t least = judge__was_deleted(judge, asked->topic) ? 0 : judge__end_known_at(judge, asked);
        bool is_above = end >= 0 && asked->offset > end && !judge__may_be_lost(judge, asked);
        if (asked->offset < least || is_above) {
            check_breach(judge->report, "I23",
                         "the latest offset of %s-%" PRId32 " is from %" PRId64 " to %" PRId64
                         ", and the answer was %" PRId64,
                         asked->topic, asked->partition, least, end, asked->offset);
        }
    }
    if (asked->at >= 0 && asked->is_final && end >= 0) { judge_time(judge, asked); }
    if (asked->at == -3 && asked->is_final && end >= 0) { judge_greatest(judge, asked); }
}

/* ---- I23: is the topic there? ---- */

/* True: another operation of `kind` on that topic may have taken effect between the begin of `since` and the end of `asked`. */
static bool may_have_happened(const struct judge *judge, enum history_kind kind, const struct history_op *since,
                              const struct history_op *asked)
{
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        if (op->kind != kind || op->what == HISTORY_FAIL || strcmp(op->topic, asked->topic) != 0) { continue; }
        if (op->invoke_ns > asked->end_ns) { continue; }
        if (since == NULL || op->what != HISTORY_OK || op->end_ns >= since->invoke_ns) { return true; }
    }
    return false;
}

/* The last that had surely happened when it was asked; NULL: none. */
static const struct history_op *last_sure(const struct judge *judge, enum history_kind kind,
                                          const struct history_op *asked)
{
    const struct history_op *last = NULL;
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        if (op->what != HISTORY_OK || op->end_ns >= asked->invoke_ns || strcmp(op->topic, asked->topic) != 0) {
            continue;
        }
        if (op->kind == kind) { last = op; }
    }
    return last;
}

static const struct history_op *last_created(const struct judge *judge, const struct history_op *asked)
{
    return last_sure(judge, HISTORY_CREATE, asked);
}

/* How many partitions it surely had. */
static int64_t count_known(const struct judge *judge, const struct history_op *asked, const struct history_op *created)
{
    int64_t count = created->count;
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        bool is_sure = op->kind == HISTORY_GROW && op->what == HISTORY_OK && op->end_ns < asked->invoke_ns &&
                       op->invoke_ns >= created->invoke_ns;
        if (is_sure && strcmp(op->topic, asked->topic) == 0) { count = base_max_i64(count, op->count); }
    }
    return count;
}

/* All of them, or all that it may have grown to: none of a growth alone. */
static bool is_grown_to(const struct judge *judge, const struct history_op *asked, const struct history_op *created)
{
    int64_t known = count_known(judge, asked, created);
    if (asked->count == known) { return true; }
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        if (op->kind != HISTORY_GROW || op->what == HISTORY_FAIL || strcmp(op->topic, asked->topic) != 0) { continue; }
        bool may_be = op->what != HISTORY_OK || op->end_ns >= asked->invoke_ns;
        if (may_be && op->invoke_ns <= asked->end_ns && op->count == asked->count && op->count > known) { return true; }
    }
    return false;
}

static void judge_topic(struct judge *judge, const struct history_op *asked)
{
    const struct history_op *created = last_created(judge, asked);
    const struct history_op *deleted = last_sure(judge, HISTORY_DELETE, asked);
    bool is_there = asked->count >= 0;
    if (is_there && !may_have_happened(judge, HISTORY_CREATE, deleted, asked)) {
        check_breach(judge->report, "I23", "topic %s can't be there, and the answer was that it is", asked->topic);
    }
    if (created == NULL || may_have_happened(judge, HISTORY_DELETE, created, asked)) { return; }
    if (is_there && is_grown_to(judge, asked, created)) { return; }
    check_breach(judge->report, "I23", "topic %s has %" PRId64 " partitions, and the answer was %" PRId64, asked->topic,
                 count_known(judge, asked, created), asked->count);
}

/* ---- I23: what is told of its configs ---- */

/* Nothing that is sure came after it, before it was asked. */
static bool is_last_sure(const struct judge *judge, const struct history_op *alter, const struct history_op *asked)
{
    if (alter->what != HISTORY_OK) { return true; } /* it may come yet */
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        if (op->kind != HISTORY_ALTER || op->what != HISTORY_OK || strcmp(op->topic, asked->topic) != 0) { continue; }
        if (op->invoke_ns >= alter->end_ns && op->end_ns < asked->invoke_ns && op != alter) { return false; }
    }
    return true;
}

/* It was set to that, and is so still, or may be. */
static bool may_be_set(const struct judge *judge, const struct history_op *asked, const struct history_op *created)
{
    bool is_any_sure = false;
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        if (op->kind != HISTORY_ALTER || op->what == HISTORY_FAIL || strcmp(op->topic, asked->topic) != 0) { continue; }
        bool is_of_it = op->invoke_ns <= asked->end_ns && (op->what != HISTORY_OK || op->end_ns >= created->invoke_ns);
        if (!is_of_it) { continue; }
        is_any_sure = is_any_sure || (op->what == HISTORY_OK && op->end_ns < asked->invoke_ns);
        if (op->at == asked->at && is_last_sure(judge, op, asked)) { return true; }
    }
    return asked->at == -1 && !is_any_sure;
}

static void judge_config(struct judge *judge, const struct history_op *asked)
{
    const struct history_op *created = last_created(judge, asked);
    if (created == NULL || may_have_happened(judge, HISTORY_DELETE, created, asked)) { return; }
    if (asked->count < 0) {
        check_breach(judge->report, "I23", "topic %s is there, and its configs are those of none", asked->topic);
        return;
    }
    if ((asked->count & HISTORY_LOSSY) != (created->at & HISTORY_LOSSY)) {
        check_breach(judge->report, "I23", "topic %s was made %s, and is told to be %s", asked->topic,
                     (created->at & HISTORY_LOSSY) != 0 ? "page-cache" : "synced",
                     (asked->count & HISTORY_LOSSY) != 0 ? "page-cache" : "synced");
    }
    if (!may_be_set(judge, asked, created)) {
        check_breach(judge->report, "I23",
                     HISTORY_ALTERED " of topic %s is told to be %" PRId64
                                     ", which nobody can have left it at (-1: its default)",
                     asked->topic, asked->at);
    }
}

void judge__answers(struct judge *judge)
{
    judge_progress(judge);
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        if (op->what != HISTORY_OK || op->error != 0) { continue; }
        if (op->kind == HISTORY_OFFSETS) { judge_offsets(judge, op); }
        if (op->kind == HISTORY_TOPIC) { judge_topic(judge, op); }
        if (op->kind == HISTORY_CONFIG) { judge_config(judge, op); }
    }
}
