/* history.h: what clients asked for and what they were told, in the order it happened (docs/formats/history.md).
 *
 * Room    sim/check.
 * Owns    its arrays, on the heap. One history is one run: of the simulator, or of a real cluster.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHECK_HISTORY_H
#define CHECK_HISTORY_H

#include <stdio.h>

#include "base/base.h"

enum history_kind {
    HISTORY_PRODUCE = 0, /* topic, partition, acks, idempotent, record; ok: offset (-1: not told) */
    HISTORY_READ,        /* one line, ok: topic, id, partition, offset, record, session, final */
    HISTORY_END, /* one line, ok: a reader has read everything there was: topic, partition, offset (the end), final */
    HISTORY_CREATE,  /* topic, count: its partitions */
    HISTORY_DELETE,  /* topic */
    HISTORY_OFFSETS, /* topic, partition, at (-1 latest, -2 earliest, else a time); ok: offset, timestamp */
    HISTORY_TOPIC,   /* is it there: topic; ok: count partitions, -1: it is not */
    HISTORY_CALL,    /* any other call; count: the api key */
    HISTORY_NOTE,    /* one line, ok; text: "calm", "final", "crash", "restart", "age" */
    HISTORY_KIND_COUNT
};

enum history_what { HISTORY_INVOKE = 0, HISTORY_OK, HISTORY_FAIL, HISTORY_UNKNOWN };

struct history_record {
    uint32_t incarnation; /* of the topic, as the producer saw it */
    uint32_t producer;
    int64_t sequence; /* -1: none */
};

struct history_op {
    enum history_kind kind;
    enum history_what what; /* INVOKE: not ended */
    char actor[8];
    char topic[24]; /* HISTORY_NOTE: the text */
    struct base_uuid id;
    uint64_t invoke_ns;
    uint64_t end_ns;
    int32_t partition;
    int32_t acks;
    int64_t offset; /* -1: none */
    int64_t at;
    int64_t timestamp_ms;
    int64_t count;
    struct history_record record;
    uint32_t session; /* readers: one for each time they began somewhere */
    int32_t error;
    bool is_idempotent;
    bool is_final; /* after everything */
};

struct history_line {
    uint32_t op;
    bool is_end;
};

struct history {
    struct history_op *ops;
    struct history_line *lines; /* the order of what happened */
    uint32_t op_count, op_room;
    uint32_t line_count, line_room;
};

/* Zero is an empty history. */
void history_free(struct history *history);
/* An op with nothing set. */
struct history_op history_op_init(enum history_kind kind, const char *actor, uint64_t now_ns);
/* Begins an operation; its number. */
uint32_t history_invoke(struct history *history, const struct history_op *op);
/* Ends it: OK, FAIL (it did not happen), UNKNOWN. What came back is set in history->ops[op] by the caller. */
void history_end(struct history *history, uint32_t op, enum history_what what, uint64_t now_ns);
/* One that begins and ends at once, with `what` OK. */
void history_once(struct history *history, const struct history_op *op);

void history_write(const struct history *history, FILE *to);
/* Fails BASE_BAD: a line is none; *line_out names it. */
MUST_USE
enum base_rc history_read(struct history *history, FILE *from, uint32_t *line_out);

#endif
