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
#include <string.h>

#include "base/base.h"

enum history_kind {
    HISTORY_PRODUCE = 0, /* topic, partition, acks, idempotent, record; ok: offset (-1: not told) */
    HISTORY_READ,        /* one line, ok: topic, id, partition, offset, record, session, final */
    HISTORY_END, /* one line, ok: a reader has read everything there was: topic, partition, offset (the end), final */
    HISTORY_CREATE, /* topic, count: its partitions, at: HISTORY_TRIMMED, HISTORY_LOSSY */
    HISTORY_DELETE, /* topic */
    HISTORY_OFFSETS, /* topic, partition, at (-1 latest, -2 earliest, -3 greatest time, else a time); ok: offset, timestamp */
    HISTORY_TOPIC, /* is it there: topic; ok: count partitions, -1: it is not */
    HISTORY_TRIM, /* topic, partition, at: records before it go (-1: before the watermark); ok: offset, where it begins */
    HISTORY_CALL, /* any other call; count: the api key */
    /* of a group's coordinator; the fields of history_group */
    HISTORY_JOIN,      /* topic: "T,T", what it subscribes to; ok: generation, given, leader */
    HISTORY_SYNC,      /* count: partitions that it assigns, when it leads; ok: owned */
    HISTORY_HEARTBEAT, /* of a member */
    HISTORY_LEAVE,     /* by its id, or (an operator) by the instance alone */
    HISTORY_COMMIT,    /* topic, partition, at: the offset; tag */
    HISTORY_COMMITTED, /* topic, partition; ok: offset (-1: none), tag (-1: not one of ours) */
    HISTORY_UNCOMMIT,  /* topic, partition: the committed offset goes */
    HISTORY_DISBAND,   /* the group goes */
    HISTORY_GROW,      /* topic, count: its partitions from now on */
    HISTORY_ALTER,     /* topic, at: what its ALTERED config becomes (-1: its default again) */
    HISTORY_CONFIG, /* topic; ok: at (ALTERED, as it is told; -1: it is the default), count: HISTORY_LOSSY, -1: it is not there */
    HISTORY_NOTE, /* one line, ok; text: "calm", "final", "crash", "restart", "age", "disk" */
    HISTORY_KIND_COUNT
};

#define HISTORY_ALTERED "min.compaction.lag.ms" /* a config of topics that changes nothing */

/* What may be gone of a topic: what is at the front; what was there when the power went. */
enum { HISTORY_TRIMMED = 1, HISTORY_LOSSY = 2 };

enum history_what { HISTORY_INVOKE = 0, HISTORY_OK, HISTORY_FAIL, HISTORY_UNKNOWN };

struct history_record {
    uint32_t incarnation; /* of the topic, as the producer saw it */
    uint32_t producer;
    int64_t sequence; /* -1: none */
};

/* What an operation says of a group, besides. */
struct history_group {
    char group[16];
    char member[64];    /* the id that is asked with; empty: none */
    char instance[16];  /* empty: none */
    char given[64];     /* join, ok: the id of the member */
    char leader[64];    /* join, ok */
    int32_t generation; /* join: told; else: asked with; -1: none */
    int32_t session_ms; /* join */
    int32_t rebalance_ms;
    int64_t tag; /* of a commit: its own number */
    char *owned; /* sync, ok: "T:0,T:2", or NULL; on the heap */
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
    bool is_final;               /* after everything */
    struct history_group *group; /* on the heap, the history's from invoke on; NULL: none */
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
/* Gives it what it has to say of a group: all empty, -1 where there may be none. */
struct history_group *history_add_group(struct history_op *op);
const char *history_kind_name(enum history_kind kind);

static inline bool history_is_of(const struct history_op *op, const char *topic, int32_t partition)
{
    return op->partition == partition && strcmp(op->topic, topic) == 0;
}
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
