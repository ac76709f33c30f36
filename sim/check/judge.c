/* judge.c: see judge.h. Records: I1, I4, I8, I9, I20, I22.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge__parts.h"

#include <inttypes.h>
#include <stdlib.h>

#define RECORD        "%" PRIu32 ".%" PRIu32 ".%" PRId64
#define RECORD_OF(op) (op)->record.incarnation, (op)->record.producer, (op)->record.sequence
#define PLACE         "%s-%" PRId32 " offset %" PRId64
#define PLACE_OF(op)  (op)->topic, (op)->partition, (op)->offset
#define CONN_KNOWN_NS (UINT64_C(1) * 1000000000) /* since it was sent something: it is open, or known not to be */

/* ---- sorted views ---- */

static int compare_i64(int64_t a, int64_t b) { return a < b ? -1 : (a > b ? 1 : 0); }

int judge__compare_place(const struct history_op *a, const struct history_op *b)
{
    int order = strcmp(a->topic, b->topic);
    if (order == 0) { order = compare_i64(a->partition, b->partition); }
    return order != 0 ? order : compare_i64(a->offset, b->offset);
}

static int by_place(const void *a, const void *b)
{
    const struct history_op *one = *(const struct history_op *const *)a;
    const struct history_op *two = *(const struct history_op *const *)b;
    int order = judge__compare_place(one, two);
    return order != 0 ? order : (one < two ? -1 : (one > two ? 1 : 0)); /* in one array: the order of the history */
}

static int compare_id_place(const struct history_op *a, const struct history_op *b)
{
    int order = base_uuid_compare(a->id, b->id);
    return order != 0 ? order : judge__compare_place(a, b);
}

static int by_id_place(const void *a, const void *b)
{
    const struct history_op *one = *(const struct history_op *const *)a;
    const struct history_op *two = *(const struct history_op *const *)b;
    int order = compare_id_place(one, two);
    return order != 0 ? order : (one < two ? -1 : (one > two ? 1 : 0));
}

static int compare_record(const struct history_record *a, const struct history_record *b)
{
    int order = compare_i64(a->producer, b->producer);
    return order != 0 ? order : compare_i64(a->sequence, b->sequence);
}

static int by_record(const void *a, const void *b)
{
    return compare_record(&(*(const struct history_op *const *)a)->record,
                          &(*(const struct history_op *const *)b)->record);
}

static const struct history_op **pick(const struct history *history, enum history_kind kind, bool only_final,
                                      int (*compare)(const void *, const void *), uint32_t *count_out)
{
    const struct history_op **picked = malloc((history->op_count + 1) * sizeof *picked);
    CHECK(picked != NULL);
    *count_out = 0;
    for (uint32_t i = 0; i < history->op_count; i++) {
        const struct history_op *op = &history->ops[i];
        if (op->kind != kind || (only_final && !op->is_final)) { continue; }
        picked[(*count_out)++] = op;
    }
    qsort(picked, *count_out, sizeof *picked, compare);
    return picked;
}

const struct history_op *judge__final_at(const struct judge *judge, const char *topic, int32_t partition,
                                         int64_t offset)
{
    struct history_op key = {.partition = partition, .offset = offset};
    (void)snprintf(key.topic, sizeof key.topic, "%s", topic); /* of the same size */
    uint32_t low = 0, high = judge->final_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (judge__compare_place(judge->finals[middle], &key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == judge->final_count || judge__compare_place(judge->finals[low], &key) != 0) { return NULL; }
    return judge->finals[low];
}

int64_t judge__final_end(const struct judge *judge, const char *topic, int32_t partition)
{
    for (uint32_t i = judge->end_count; i-- > 0;) {
        const struct history_op *op = judge->ends[i];
        if (history_is_of(op, topic, partition)) { return op->offset; }
    }
    return -1;
}

bool judge__may_be_deleted(const struct judge *judge, const struct history_op *op)
{
    for (uint32_t i = 0; i < judge->delete_count; i++) {
        const struct history_op *other = judge->deletes[i];
        if (other->what == HISTORY_FAIL || strcmp(other->topic, op->topic) != 0) { continue; }
        if (other->what != HISTORY_OK || other->end_ns >= op->invoke_ns) { return true; }
    }
    return false;
}

bool judge__was_deleted(const struct judge *judge, const char *topic)
{
    for (uint32_t i = 0; i < judge->delete_count; i++) {
        const struct history_op *op = judge->deletes[i];
        if (op->what != HISTORY_FAIL && strcmp(op->topic, topic) == 0) { return true; }
    }
    return false;
}

bool judge__same_record(const struct history_op *a, const struct history_op *b)
{
    return compare_record(&a->record, &b->record) == 0 && a->record.incarnation == b->record.incarnation;
}

static const struct history_op *produced_as(const struct judge *judge, const struct history_op *read)
{
    uint32_t low = 0, high = judge->produced_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare_record(&judge->produced[middle]->record, &read->record);
        if (order == 0) { return judge->produced[middle]; }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* ---- I1: acknowledged, so there ---- */

static const struct history_op *find_final(const struct judge *judge, const struct history_op *produce)
{
    for (uint32_t i = 0; i < judge->final_count; i++) {
        const struct history_op *read = judge->finals[i];
        if (judge__same_record(read, produce) && strcmp(read->topic, produce->topic) == 0) { return read; }
    }
    return NULL;
}

/* With acks=all it was synced when that was answered. With acks=1 it was written, and is synced soon, if the broker lives and its disk
 * does not fail. */
static bool is_sure(const struct judge *judge, const struct history_op *op)
{
    return op->acks == -1 || (op->acks == 1 && op->offset >= 0 && judge__has_time(judge, op));
}

/* The power took it (no deletion did), and with it all that stood behind it then: what was acknowledged behind it before that is not there
 * either. */
static void judge_lost(struct judge *judge, const struct history_op *lost)
{
    if (lost->offset < 0) { return; }
    uint64_t cut_ns = judge__power_cut(judge, lost->invoke_ns);
    for (uint32_t i = 0; i < judge->produced_count; i++) {
        const struct history_op *op = judge->produced[i];
        if (op->what != HISTORY_OK || op->acks != -1 || op->offset <= lost->offset) { continue; }
        if (!history_is_of(op, lost->topic, lost->partition) || op->end_ns >= cut_ns) { continue; }
        if (judge__may_be_deleted(judge, op)) { continue; }
        const struct history_op *there = judge__final_at(judge, op->topic, op->partition, op->offset);
        if (there == NULL || !judge__same_record(there, op)) { continue; }
        check_breach(judge->report, "I1",
                     "record " RECORD " was acknowledged at " PLACE " and is gone, and " RECORD
                     ", acknowledged behind it before the power went, is not",
                     RECORD_OF(lost), PLACE_OF(lost), RECORD_OF(op));
        return;
    }
}

static void judge_acknowledged(struct judge *judge)
{
    for (uint32_t i = 0; i < judge->produced_count; i++) {
        const struct history_op *op = judge->produced[i];
        if (op->what != HISTORY_OK || !is_sure(judge, op)) { continue; }
        if (judge__may_be_deleted(judge, op)) { continue; }
        if (judge__final_end(judge, op->topic, op->partition) < 0) { continue; } /* I21 has that */
        const struct history_op *there =
            op->offset >= 0 ? judge__final_at(judge, op->topic, op->partition, op->offset) : find_final(judge, op);
        if (there == NULL && judge__may_be_trimmed(judge, op)) { continue; }
        bool is_there = there != NULL && judge__same_record(there, op);
        if (!is_there && judge__may_be_lost(judge, op)) {
            judge_lost(judge, op);
            continue;
        }
        if (there == NULL) {
            check_breach(judge->report, "I1", "record " RECORD " was acknowledged at " PLACE " and is gone",
                         RECORD_OF(op), PLACE_OF(op));
        } else if (!is_there) {
            check_breach(judge->report, "I1",
                         "record " RECORD " was acknowledged at " PLACE ", where " RECORD " is now", RECORD_OF(op),
                         PLACE_OF(op), RECORD_OF(there));
        }
    }
}

/* When a producer sent the first record after the faults: by its connection it learns whether the broker lives. */
static uint64_t first_final_ns(const struct judge *judge, uint32_t producer)
{
    uint64_t first_ns = UINT64_MAX;
    for (uint32_t i = 0; i < judge->produced_count; i++) {
        const struct history_op *op = judge->produced[i];
        if (op->is_final && op->record.producer == producer) { first_ns = base_min_u64(first_ns, op->invoke_ns); }
    }
    return first_ns;
}

/* Nobody is told of what asks for no answer: what is sent a while after the faults has come. */
static void judge_unanswered(struct judge *judge)
{
    for (uint32_t i = 0; i < judge->produced_count; i++) {
        const struct history_op *op = judge->produced[i];
        bool is_sent = op->acks == 0 && op->is_final && op->what == HISTORY_OK && judge__has_time(judge, op);
        if (!is_sent || judge__may_be_deleted(judge, op) || judge__may_be_lost(judge, op)) { continue; }
        if (op->invoke_ns < base_deadline_ns(first_final_ns(judge, op->record.producer), CONN_KNOWN_NS)) { continue; }
        if (judge__final_end(judge, op->topic, op->partition) < 0 || judge__may_be_trimmed(judge, op)) { continue; }
        if (find_final(judge, op) != NULL) { continue; }
        check_breach(judge->report, "I1",
                     "record " RECORD " was sent to %s-%" PRId32 " after the faults, without acks, and is not there",
                     RECORD_OF(op), op->topic, op->partition);
    }
}

static void judge_reads_of_acknowledged(struct judge *judge)
{
    for (uint32_t i = 0; i < judge->read_count; i++) {
        const struct history_op *read = judge->reads[i];
        const struct history_op *op = produced_as(judge, read);
        if (op == NULL || !judge__same_record(read, op)) {
            check_breach(judge->report, "I20", "read at " PLACE " the record " RECORD ", which nobody produced",
                         PLACE_OF(read), RECORD_OF(read));
            continue;
        }
        if (!history_is_of(op, read->topic, read->partition)) {
            check_breach(judge->report, "I20", "read at " PLACE " the record " RECORD ", produced to %s-%" PRId32,
                         PLACE_OF(read), RECORD_OF(read), op->topic, op->partition);
        }
        /* Not a second copy, by a retry. */
        bool is_it = (op->offset < 0 || op->offset == read->offset) && !judge__may_be_deleted(judge, op) &&
                     !judge__may_be_lost(judge, read);
        if (is_it && op->timestamp_ms >= 0 && read->timestamp_ms >= 0 && op->timestamp_ms != read->timestamp_ms) {
            check_breach(judge->report, "I20",
                         "record " RECORD " was produced with the timestamp %" PRId64 " and is read at " PLACE
                         " with %" PRId64,
                         RECORD_OF(op), op->timestamp_ms, PLACE_OF(read), read->timestamp_ms);
        }
        if (op->what == HISTORY_FAIL) {
            check_breach(judge->report, "I22", "record " RECORD " failed with %" PRId32 " and is read at " PLACE,
                         RECORD_OF(op), op->error, PLACE_OF(read));
        }
        /* Without idempotence it may stand there a second time, by a retry. */
        bool is_elsewhere =
            op->what == HISTORY_OK && op->acks == -1 && op->is_idempotent && op->offset >= 0 &&
            read->offset != op->offset && !judge__may_be_deleted(judge, op) && !judge__may_be_lost(judge, read) &&
            !judge__may_be_trimmed(judge, read); /* what is known of a producer may go with its records */
        if (is_elsewhere) {
            check_breach(judge->report, "I1",
                         "record " RECORD " was acknowledged at offset %" PRId64 " and is read at " PLACE,
                         RECORD_OF(op), op->offset, PLACE_OF(read));
        }
    }
}

/* ---- I4: read once, read for ever ---- */

static void judge_repeated_reads(struct judge *judge)
{
    for (uint32_t i = 1; i < judge->read_count; i++) {
        const struct history_op *before = judge->reads[i - 1];
        const struct history_op *read = judge->reads[i];
        if (compare_id_place(before, read) != 0 || judge__same_record(before, read)) { continue; }
        if (judge__may_be_lost(judge, before)) { continue; }
        check_breach(judge->report, "I4", "at " PLACE " " RECORD " was read, and another time " RECORD, PLACE_OF(read),
                     RECORD_OF(before), RECORD_OF(read));
    }
    for (uint32_t i = 0; i < judge->read_count; i++) {
        const struct history_op *read = judge->reads[i];
        if (read->is_final || judge__was_deleted(judge, read->topic)) { continue; }
        int64_t end = judge__final_end(judge, read->topic, read->partition);
        if (end >= 0 && read->offset >= end && !judge__may_be_lost(judge, read)) {
            check_breach(judge->report, "I4", RECORD " was read at " PLACE ", and the log ended at %" PRId64 " later",
                         RECORD_OF(read), PLACE_OF(read), end);
        }
    }
}

/* ---- I8: dense and unique ---- */

static void judge_density(struct judge *judge)
{
    for (uint32_t i = 0; i < judge->final_count; i++) {
        const struct history_op *read = judge->finals[i];
        const struct history_op *before = i == 0 ? NULL : judge->finals[i - 1];
        bool is_first = before == NULL || !history_is_of(before, read->topic, read->partition);
        /* Or retention took on from where the reader was, which then began anew. */
        bool begins = is_first || before->session != read->session;
        bool is_trimmed = begins && read->offset <= judge__start_max(judge, read->topic, read->partition);
        int64_t expected = is_trimmed ? read->offset : (is_first ? 0 : before->offset + 1);
        if (read->offset != expected) {
            check_breach(judge->report, "I8", "the final read of " PLACE " came where %" PRId64 " was expected",
                         PLACE_OF(read), expected);
        }
    }
    uint32_t sessions_max = 0;
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        if (judge->history->ops[i].session > sessions_max) { sessions_max = judge->history->ops[i].session; }
    }
    int64_t *next = calloc((size_t)sessions_max + 1, sizeof *next); /* offset + 1; 0: none yet */
    CHECK(next != NULL);
    for (uint32_t i = 0; i < judge->history->op_count; i++) {
        const struct history_op *op = &judge->history->ops[i];
        if (op->kind != HISTORY_READ || op->session == 0) { continue; }
        if (next[op->session] == 0 && op->at > 0 && op->offset != op->at) {
            check_breach(judge->report, "I8", "reader %s asked for offset %" PRId64 " and met " PLACE, op->actor,
                         op->at, PLACE_OF(op));
        }
        if (next[op->session] != 0 && op->offset != next[op->session]) {
            check_breach(judge->report, "I8", "reader %s met " PLACE " where %" PRId64 " was next", op->actor,
                         PLACE_OF(op), next[op->session]);
        }
        next[op->session] = op->offset + 1;
    }
    free(next);
}

static void judge_unique_acks(struct judge *judge)
{
    uint32_t count;
    const struct history_op **acked = pick(judge->history, HISTORY_PRODUCE, false, by_place, &count);
    const struct history_op *before = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct history_op *op = acked[i];
        if (op->what != HISTORY_OK || op->offset < 0 || !is_sure(judge, op)) { continue; }
        bool is_same = before != NULL && judge__compare_place(before, op) == 0 &&
                       !judge__may_be_deleted(judge, before) && !judge__may_be_lost(judge, before);
        if (is_same) {
            check_breach(judge->report, "I8", RECORD " and " RECORD " were both acknowledged at " PLACE,
                         RECORD_OF(before), RECORD_OF(op), PLACE_OF(op));
        }
        before = op;
    }
    free(acked);
}

/* ---- I9: once, in order ---- */

static int by_producer_place(const void *a, const void *b)
{
    const struct history_op *one = *(const struct history_op *const *)a;
    const struct history_op *two = *(const struct history_op *const *)b;
    int order = compare_i64(one->record.producer, two->record.producer);
    return order != 0 ? order : judge__compare_place(one, two);
}

/* Of one producer in one partition. Whom the log does not know is taken at its word, with whatever sequence: where its first batch was
 * refused (there was no memory, no room on the disk) and the next one was under way, that one comes first, and the refused one later, by a
 * newer epoch. So what is before the first of all has an order of its own. The files' sequences are judged by themselves (files.h). */
struct order {
    int64_t first, last; /* of the first batch on */
    int64_t late;        /* of those before it; -1: none yet */
};

static bool is_in_order(struct order *order, int64_t sequence)
{
    int64_t *last = sequence < order->first ? &order->late : &order->last;
    if (sequence <= *last) { return false; }
    *last = sequence;
    return true;
}

static void judge_idempotence(struct judge *judge)
{
    uint32_t count;
    const struct history_op **finals = pick(judge->history, HISTORY_READ, true, by_producer_place, &count);
    struct order order = {.first = -1};
    for (uint32_t i = 0; i < count; i++) {
        const struct history_op *before = i == 0 ? NULL : finals[i - 1];
        const struct history_op *read = finals[i];
        if (before == NULL || before->record.producer != read->record.producer ||
            !history_is_of(before, read->topic, read->partition)) {
            order = (struct order){.first = read->record.sequence, .last = read->record.sequence, .late = -1};
            continue;
        }
        const struct history_op *produce = produced_as(judge, read);
        if (produce == NULL || !produce->is_idempotent || is_in_order(&order, read->record.sequence)) { continue; }
        check_breach(judge->report, "I9", "after " RECORD " at offset %" PRId64 " comes " RECORD " at " PLACE,
                     RECORD_OF(before), before->offset, RECORD_OF(read), PLACE_OF(read));
    }
    free(finals);
}

void judge_history(const struct history *history, struct check_report *report)
{
    struct judge judge = {.history = history, .report = report};
    judge.finals = pick(history, HISTORY_READ, true, by_place, &judge.final_count);
    judge.reads = pick(history, HISTORY_READ, false, by_id_place, &judge.read_count);
    judge.produced = pick(history, HISTORY_PRODUCE, false, by_record, &judge.produced_count);
    judge.creates = pick(history, HISTORY_CREATE, false, by_place, &judge.create_count);
    judge.deletes = pick(history, HISTORY_DELETE, false, by_place, &judge.delete_count);
    judge.notes = pick(history, HISTORY_NOTE, false, by_place, &judge.note_count);
    judge.ends = pick(history, HISTORY_END, true, by_place, &judge.end_count);
    judge.trims = pick(history, HISTORY_TRIM, false, by_place, &judge.trim_count);
    judge__age(&judge);
    judge_acknowledged(&judge);
    judge_unanswered(&judge);
    judge_reads_of_acknowledged(&judge);
    judge_repeated_reads(&judge);
    judge_density(&judge);
    judge_unique_acks(&judge);
    judge_idempotence(&judge);
    judge__answers(&judge);
    judge__trims(&judge);
    free(judge.finals);
    free(judge.reads);
    free(judge.produced);
    free(judge.creates);
    free(judge.deletes);
    free(judge.notes);
    free(judge.ends);
    free(judge.trims);
}
