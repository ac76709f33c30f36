/* judge__parts.h: what the judges of a history share: its operations, sorted.
 *
 * Room    sim/check, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef JUDGE_PARTS_H
#define JUDGE_PARTS_H

#include "judge.h"

struct judge {
    const struct history *history;
    struct check_report *report;
    const struct history_op **finals;   /* final reads by topic, partition, offset */
    const struct history_op **reads;    /* all reads by topic, id, partition, offset, final ones last */
    const struct history_op **produced; /* by producer, sequence */
    const struct history_op **creates;
    const struct history_op **deletes;
    const struct history_op **notes; /* each kind of them in the order of the history */
    const struct history_op **ends;
    const struct history_op **trims;
    uint32_t final_count, read_count, produced_count, create_count, delete_count, note_count, end_count, trim_count;
    int64_t aged_ms; /* a record of before this may be too old, by any clock of the run; INT64_MIN: none */
};

int judge__compare_place(const struct history_op *a, const struct history_op *b); /* topic, partition, offset */
/* NULL: nobody read that offset at the end. */
const struct history_op *judge__final_at(const struct judge *judge, const char *topic, int32_t partition,
                                         int64_t offset);
/* Where the final reader met the end; -1: it did not. */
int64_t judge__final_end(const struct judge *judge, const char *topic, int32_t partition);
/* The first offset that the final reader was given; the end when it was given none; -1: it did not meet the end. */
int64_t judge__final_start(const struct judge *judge, const char *topic, int32_t partition);
/* How far retention, or a client, may have moved its start: INT64_MAX where the topic has limits of its own; else up to the first record that is
 * known not to be too old for the node's; 0: not at all. */
int64_t judge__start_max(const struct judge *judge, const char *topic, int32_t partition);
/* Before the start that retention moved. */
bool judge__may_be_trimmed(const struct judge *judge, const struct history_op *op);
/* The first power cut from then on; UINT64_MAX: none. */
uint64_t judge__power_cut(const struct judge *judge, uint64_t from_ns);
/* Of a page-cache topic, and the power went after it was asked for. */
bool judge__may_be_lost(const struct judge *judge, const struct history_op *op);
/* No crash came before what it wrote was synced, and no disk failed. */
bool judge__has_time(const struct judge *judge, const struct history_op *op);
void judge__age(struct judge *judge); /* what the history says of the node's retention: first of all */
/* The topic that `op` meant may have been deleted since `op` began. */
bool judge__may_be_deleted(const struct judge *judge, const struct history_op *op);
/* A deletion of that topic was ever asked for, and did not fail. */
bool judge__was_deleted(const struct judge *judge, const char *topic);
bool judge__same_record(const struct history_op *a, const struct history_op *b);

/* The least end that whoever asked then must see. */
int64_t judge__end_known_at(const struct judge *judge, const struct history_op *asked);

void judge__answers(struct judge *judge); /* I21, I23 */
void judge__trims(struct judge *judge);   /* I23: what a client deleted of the front */

#endif
