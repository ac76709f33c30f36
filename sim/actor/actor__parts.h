/* actor__parts.h: the actor behind its machine, and its roles.
 *
 * Room    sim/actor, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ACTOR_PARTS_H
#define ACTOR_PARTS_H

#include "actor.h"

enum actor_phase { PHASE_LOAD = 0, PHASE_DRAIN, PHASE_CLOSE };

#define ASSIGNMENTS_MAX (ACTOR_TOPICS_MAX * ACTOR_PARTITIONS_MAX)
#define RUDE_BYTES      4096

struct assignment {
    uint32_t topic; /* of the cast */
    int32_t partition;
    uint32_t session; /* 0: not assigned now */
    int64_t first;    /* the offset that the session asked for, until its first record comes; -1: none */
    int64_t some_ms;  /* the timestamp of one of its records */
    bool is_wanted;
    bool has_end;
};

struct rude {
    struct port_conn conn;
    bool is_open, is_busy, is_closing, is_receiving;
    struct port_piece piece;
    uint8_t bytes[RUDE_BYTES];
    uint8_t received[256];
};

struct odd {
    int32_t session; /* 0: none */
    int32_t epoch;
    bool is_by_name;
    bool is_opening; /* the fetch under way is a full one */
    bool has_place;  /* where it was told last that a partition ends */
    struct base_uuid topic;
    int32_t partition;
    int64_t end;
};

#define HASTY_ASKED_MAX       8
#define HASTY_VALUE_BYTES_MAX 4000
#define HASTY_BATCH_BYTES     5000
#define HASTY_SENT_BYTES      (HASTY_ASKED_MAX * (HASTY_BATCH_BYTES + 200))
#define HASTY_RECEIVED_BYTES  16384
enum hasty_link { HASTY_DOWN = 0, HASTY_CONNECTING, HASTY_UP, HASTY_CLOSING };
struct hasty_asked { /* a record that was sent, or a question about topics */
    uint32_t op;     /* of the history */
    bool is_question;
    int32_t correlation;
    bool has_answer;
};
struct hasty {
    struct port_conn conn;
    enum hasty_link link;
    bool is_sending, is_receiving;
    bool is_leaving; /* it asked for what it won't wait for */
    bool is_fresh;   /* of after the faults */
    bool is_even;    /* one partition only, and its batches are all of one size */
    struct port_piece piece;
    uint8_t *sent, *received, *batch;
    size_t sent_bytes, received_bytes;
    int32_t correlation;
    struct hasty_asked asked[HASTY_ASKED_MAX]; /* in their order */
    uint32_t asked_count;
    uint64_t due_ns;
};

struct crowd;

struct actor {
    struct actor_spec *spec;
    struct client *client; /* NULL: it speaks raw bytes */
    struct world_boot boot;
    struct base_prng prng;
    enum actor_phase phase;
    uint64_t now_ns; /* its node's clock */
    int64_t wall_ms;
    uint64_t next_ns; /* when it wants to act; UINT64_MAX: no time */
    uint32_t outstanding;
    uint32_t done; /* records or operations begun */
    uint32_t probes;
    uint32_t knocks; /* asked for and not begun */
    uint32_t knock_topic;
    int32_t knock_partition;
    bool wants_removal; /* of knock_topic */
    bool has_met_stale; /* its removal went to a connection that was no more */
    int64_t sequence;
    uint32_t stage; /* admin, verifier: how far */
    struct assignment assignments[ASSIGNMENTS_MAX];
    uint32_t assignment_count;
    uint8_t *value;
    struct rude rude;
    struct odd odd;
    struct hasty hasty;
    struct base_prng trim_prng; /* admin: deletions of records draw from it alone */
    uint32_t trims_asked;
    struct base_prng grow_prng; /* the same: partitions that are added */
    uint32_t grows_asked;
    int32_t wide_count, wide_asked; /* partitions of ACTOR_WIDE; 0: it is not there */
    struct crowd *crowd;            /* NULL: none */
};

#define ACTOR_KEY_BYTES_MAX 24
#define ACTOR_HEADER        "of"
/* What goes with a record besides its value: an empty key is null. */
void actor__key(const struct history_record *record, char key_out[ACTOR_KEY_BYTES_MAX]);
static inline bool actor__has_header(const struct history_record *record) { return record->sequence % 3 == 1; }

void actor__produce(struct actor *actor);
void actor__produced(struct actor *actor, const struct client_result *result);

/* UINT32_MAX: none is ready. */
uint32_t actor__draw_topic(struct actor *actor, bool only_stable);

void actor__consume(struct actor *actor);
void actor__assign(struct actor *actor, uint32_t at, enum client_start start, int64_t offset);
void actor__record(struct actor *actor, const struct client_result *result);
void actor__at_end(struct actor *actor, const struct client_result *result);
void actor__assignment_failed(struct actor *actor, const struct client_result *result);

void actor__administer(struct actor *actor);
void actor__answered(struct actor *actor, const struct client_result *result);
/* Calls, each one operation of the history. False: no room now. */
bool actor__ask_topic(struct actor *actor, uint32_t topic, bool is_final);
bool actor__ask_configs(struct actor *actor, uint32_t topic, bool is_final);
bool actor__ask_offsets(struct actor *actor, uint32_t topic, int32_t partition, int64_t at, bool is_final);

void actor__verify(struct actor *actor);
bool actor__verify_answered(struct actor *actor, const struct history_op *op); /* false: not its own */

void actor__be_odd(struct actor *actor);
void actor__odd_answered(struct actor *actor, const struct client_result *result);
/* Fails NULL: the region is too small. */
struct crowd *actor__crowd_create(struct actor *actor, struct base_arena *arena);
void actor__crowd_step(struct actor *actor, const struct port_event *event, struct port_out *out);
void actor__crowd_message(struct actor *actor, uint32_t kind);
void actor__crowd_view(const struct actor *actor, struct actor_view *view_out);

void actor__hasty_create(struct actor *actor, struct base_arena *arena);
void actor__hasty_step(struct actor *actor, const struct port_event *event, struct port_out *out);
void actor__hasty_view(const struct actor *actor, struct actor_view *view_out);

void actor__rude_step(struct actor *actor, const struct port_event *event, struct port_out *out);

static inline uint64_t actor__world_ns(const struct actor *actor) { return world_now(actor->spec->cast->world); }
static inline struct history_op actor__op(const struct actor *actor, enum history_kind kind)
{
    return history_op_init(kind, actor->spec->name, actor__world_ns(actor));
}
static inline uint32_t actor__below(struct actor *actor, uint32_t bound)
{
    return (uint32_t)base_prng_below(&actor->prng, bound);
}
void actor__pause(struct actor *actor);
/* A consumer that waits for several records at once. */
static inline bool actor__wants_much(const struct actor *actor)
{
    return actor->spec->role == ACTOR_CONSUMER && actor->spec->number % 4 == 2;
}

#endif
