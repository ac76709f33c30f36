/* crowd__parts.h: members of groups, many in one machine: their connections, and what they remember.
 *
 * Room    sim/actor, private. They speak the protocol themselves, as rudely as they are made.
 *
 *   OUT -JoinGroup-> JOINED -SyncGroup-> IN -a round begins, or it is told that it is nobody-> OUT
 *   IN -it sleeps, with what it remembers-> AWAY -> IN                   any -another has its instance id, after the faults-> DEAD
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CROWD_PARTS_H
#define CROWD_PARTS_H

#include "actor__parts.h"

#include "wire/kafka/kafka.h"

#define CROWD_OPS_MAX       12 /* of one question */
#define CROWD_QUESTIONS_MAX 3
#define CROWD_SCRATCH_BYTES ((size_t)512 << 10)

struct crowd_question {
    int32_t correlation;
    int16_t api_key, version;
    uint64_t due_ns; /* then its client gives up */
    uint32_t ops[CROWD_OPS_MAX];
    uint32_t op_count;
};

enum crowd_link { LINK_DOWN = 0, LINK_CONNECTING, LINK_UP, LINK_CLOSING };
enum crowd_job { JOB_CONSUMER = 0, JOB_SIMPLE, JOB_OPERATOR, JOB_RUDE };
enum crowd_state { STATE_OUT = 0, STATE_JOINED, STATE_IN, STATE_AWAY, STATE_DEAD };

/* What is wrong with it: bits. */
enum crowd_manner {
    MANNER_HASTY = 1,  /* goes away while it waits for an answer, and asks again */
    MANNER_SLEEPY = 2, /* is silent for longer than its session, and goes on as if nothing had been */
    MANNER_MORTAL = 4, /* is started anew, and remembers nothing */
    MANNER_FICKLE = 8, /* leaves, and comes back */
    MANNER_IDLE = 16,  /* when it leads it assigns nothing, but sends heartbeats */
    MANNER_SLOW = 32,  /* takes its time between answers and questions */
};

struct crowd_seat { /* a member as its leader sees it */
    char id[64];
    uint32_t topics;                        /* bits */
    uint32_t owned[ACTOR_GROUP_TOPICS_MAX]; /* bits of partitions, as it says */
};

struct crowd_member {
    uint32_t number;
    char name[8];
    char group[16];
    char instance[16]; /* empty: none */
    enum crowd_job job;
    uint32_t manners;
    bool is_cooperative;
    int16_t version; /* of JoinGroup; the others follow from it */
    int32_t session_ms, rebalance_ms;
    uint32_t topics; /* bits */
    /* its connection */
    struct port_conn conn;
    enum crowd_link link;
    bool is_sending, is_receiving;
    struct port_piece piece;
    uint8_t *sent, *received;
    size_t sent_bytes, received_bytes;
    struct crowd_question questions[CROWD_QUESTIONS_MAX];
    uint32_t question_count;
    int32_t correlation;
    /* what it remembers */
    enum crowd_state state;
    char id[64];
    char protocol[16];
    int32_t generation;
    bool leads;
    struct crowd_seat *seats;
    uint32_t seat_count;
    uint32_t owned[ACTOR_GROUP_TOPICS_MAX];
    uint32_t owned_total;
    int32_t counts[ACTOR_GROUP_TOPICS_MAX]; /* partitions, when it assigned them */
    uint64_t next_ns, heartbeat_ns, commit_ns, back_ns, link_ns;
    bool has_settled; /* since the drain began */
    uint32_t probes, looks;
};

struct crowd {
    struct crowd_member *members;
    uint32_t member_count;
    size_t frame_bytes_max;
    uint32_t seats_max;
    uint8_t *scratch, *room; /* to decode in; to put assignments in */
    bool is_looking;
};

/* crowd.c */
/* A question, and the operations of the history that it stands for, which are the history's from now on. False: no room now. */
bool crowd__ask(struct actor *actor, struct crowd_member *member, int16_t api_key, int16_t version, const void *request,
                struct history_op *ops, uint32_t op_count, uint64_t patience_ns);
struct history_op crowd__op(const struct actor *actor, const struct crowd_member *member, enum history_kind kind);
/* The same of one of the groups' topics. */
struct history_op crowd__topic_op(const struct actor *actor, const struct crowd_member *member, enum history_kind kind,
                                  uint32_t topic);
/* Ends one; 0: it went well. */
void crowd__end(struct actor *actor, uint32_t op, int32_t error);
void crowd__cut(struct actor *actor, struct crowd_member *member, struct port_out *out);
static inline uint32_t crowd__below(struct actor *actor, uint32_t bound) { return actor__below(actor, bound); }
static inline bool crowd__chance(struct actor *actor, uint32_t of) { return actor__below(actor, of) == 0; }
static inline bool crowd__is_loading(const struct actor *actor) { return actor->phase == PHASE_LOAD; }
static inline struct actor_groups *crowd__groups(const struct actor *actor) { return &actor->spec->cast->groups; }
static inline struct history_op *crowd__op_at(const struct actor *actor, uint32_t op)
{
    return &actor->spec->cast->history->ops[op];
}

/* crowd_member.c */
void crowd__member_act(struct actor *actor, struct crowd_member *member, struct port_out *out);
void crowd__member_answer(struct actor *actor, struct crowd_member *member, const struct crowd_question *question,
                          const void *answer);
bool crowd__commit(struct actor *actor, struct crowd_member *member);
int32_t crowd__left_error(const void *leave_response); /* of the whole, or else of the one that it named */
bool crowd__fetch(struct actor *actor, struct crowd_member *member, const char *group, uint32_t topic);
bool crowd__heartbeat(struct actor *actor, struct crowd_member *member);
bool crowd__is_settled(const struct actor *actor, const struct crowd_member *member);
/* The answers that any of them may be given: of commits, fetches. */
bool crowd__common_answer(struct actor *actor, struct crowd_member *member, const struct crowd_question *question,
                          const void *answer);

/* crowd_assign.c: the texts that members and leaders hand to each other. All borrow `crowd->room` or `crowd->scratch`. */
struct base_slice crowd__subscription(struct actor *actor, const struct crowd_member *member);
void crowd__take_seats(struct actor *actor, struct crowd_member *member, const void *join_response);
/* Every seat's partitions: `given` has ACTOR_GROUP_TOPICS_MAX words for each; how many partitions in all. */
uint32_t crowd__assign(struct actor *actor, struct crowd_member *member, uint32_t *given);
struct base_slice crowd__assignment(struct actor *actor, const uint32_t *given, uint8_t *at, size_t size_bytes);
void crowd__take_owned(struct actor *actor, struct crowd_member *member, struct base_slice assignment);

/* crowd_operator.c: who makes and unmakes, who is rude, and a last look. */
void crowd__operate(struct actor *actor, struct crowd_member *member);
void crowd__operator_answer(struct actor *actor, struct crowd_member *member, const struct crowd_question *question,
                            const void *answer);
bool crowd__operator_is_settled(const struct actor *actor);
void crowd__annoy(struct actor *actor, struct crowd_member *member);
void crowd__look(struct actor *actor, struct crowd_member *member);

#endif
