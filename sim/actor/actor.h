/* actor.h: who loads the broker in a simulated run: producers, consumers, an admin, rude clients, members of groups, a final
 * reader; one that is odd about fetch sessions, and one that waits for no answer.
 *
 * Room    sim/actor. Machines for sim/world, each a node of its own without disks, built on core/client (rude and hasty ones and crowds speak raw bytes).
 * Owns    nothing but its region. The cast, shared by all actors of a run, is the harness's: the topics that there are meant to
 *         be, and the history that every actor writes to.
 *
 * A run tells its actors what to do by messages (world_post): enum actor_message.
 *
 * WHAT A RECORD SAYS   "i=INCARNATION p=PRODUCER s=SEQUENCE;" and then bytes that follow from these three, so that each record read
 *                      can be told from every other, and a changed byte is seen. Its key and its header follow from them too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ACTOR_ACTOR_H
#define ACTOR_ACTOR_H

#include "client/client.h"
#include "sim/check/history.h"
#include "sim/world/world.h"

#define ACTOR_TOPICS_MAX     12
#define ACTOR_PARTITIONS_MAX 6
#define ACTOR_REGION_BYTES   ((size_t)8 << 20)
#define ACTOR_WIDE           "wide" /* a topic of many partitions that nobody writes to: how it is told of is what counts */
#define ACTOR_HEARS_MS       700 /* of what topics there are, so often, where these grow */
#define ACTOR_MEMBERS_MAX    160 /* of a crowd; of those that are large, whose region is twice as large, too */

struct actor_topic {
    char name[24];
    uint32_t segment_bytes;   /* about; 0: as large as they come */
    uint32_t retention_bytes; /* 0: for ever */
    uint32_t retention_ms;    /* the same */
    int32_t partition_count;
    uint32_t incarnation;    /* how often its creation was asked for */
    bool is_stamped;         /* message.timestamp.type=LogAppendTime */
    bool is_page_cache;      /* weir.durability: acknowledged when written */
    uint32_t flush_messages; /* 0: as the topic's default has it; the same */
    uint32_t flush_ms;
    bool is_stable;     /* created once, never deleted */
    bool is_slow_to_go; /* files that are not wanted any more stay for two seconds, not for a third of one */
    bool is_ready;      /* somebody saw it created */
};

static inline bool actor_topic_is_trimmed(const struct actor_topic *topic) /* its start moves */
{
    return topic->retention_bytes > 0 || topic->retention_ms > 0;
}

/* What groups read; they have topics of their own, in which nothing is written. Whoever is in a crowd knows what is known here. */
#define ACTOR_GROUP_TOPICS_MAX     3
#define ACTOR_GROUP_PARTITIONS_MAX 12
struct actor_group_topic {
    char name[8];
    int32_t partition_count; /* as last heard of; 0: it is not there */
    struct base_uuid id;
};
struct actor_groups {
    struct actor_group_topic topics[ACTOR_GROUP_TOPICS_MAX];
    uint32_t topic_count;
    uint32_t group_count; /* g0, g1, ... */
    int64_t tags;         /* given to commits */
    int32_t session_max_ms, rebalance_max_ms;
    bool has_short_lives; /* some commits say that they expire soon */
};

struct actor_cast {
    struct world *world;
    struct history *history;
    struct actor_topic topics[ACTOR_TOPICS_MAX];
    uint32_t topic_count;
    struct actor_groups groups;
    bool is_churning;           /* topics are deleted and made anew twice as often */
    bool is_growing;            /* ... get more partitions: who has not heard of them is refused by its own client */
    uint32_t changing;          /* topics that are being made, or grow */
    bool is_default_page_cache; /* what the broker gives a topic that says nothing of durability */
    bool is_default_open;       /* ... may be another by now: every topic says it */
    /* Records go soon of a topic that says nothing of how long it keeps them: every topic says it. */
    bool is_default_short;
    uint32_t sessions;     /* drawn by readers */
    uint64_t acknowledged; /* records, acks=all */
    uint32_t broker;       /* its node */
    uint16_t port;
    void *context;
    void (*on_read)(void *context, struct base_part part, int64_t offset); /* may be NULL */
    /* True: nobody can read that partition any more, the final reader neither. May be NULL. */
    bool (*is_excused)(void *context, const char *topic, int32_t partition);
};

enum actor_role {
    ACTOR_PRODUCER = 0,
    ACTOR_CONSUMER,
    ACTOR_ADMIN,
    ACTOR_RUDE,
    ACTOR_VERIFIER,
    ACTOR_ODD,
    ACTOR_CROWD,
    ACTOR_HASTY
};

struct actor_spec {
    struct actor_cast *cast;
    enum actor_role role;
    char name[8];    /* "p3" */
    uint32_t number; /* record.producer */
    uint32_t wanted; /* records, or operations */
    uint32_t trims;  /* admin: deletions of records, besides */
    uint32_t grows;  /* ... and how often partitions are added */
    uint64_t pause_max_ns;
    uint32_t value_bytes_max;
    uint32_t value_bytes_even; /* of every value of a producer, each in a batch of its own; 0: they differ */
    enum client_acks acks;
    enum client_idempotence idempotence;
    enum codec_kind compression;
    uint64_t linger_ms;
    bool is_by_name; /* resolves the broker's name */
    /* a crowd: members of groups, each with a connection of its own */
    uint32_t members;
    uint32_t first_group; /* its members go round these */
    uint32_t groups;
    bool is_large;     /* answers with a hundred members are taken */
    bool is_restless;  /* its members leave, and come back, often */
    bool is_simple;    /* ... commit without being members */
    bool has_operator; /* its first member makes topics, deletes groups and offsets, looks on */
    bool has_rude;     /* its last one asks for what it may not */
};

enum actor_message {
    ACTOR_DRAIN = 1, /* begin nothing new */
    ACTOR_PROBE,     /* one more operation, which must succeed */
    ACTOR_CLOSE,     /* drop all connections */
    ACTOR_LOOK,      /* a crowd, after that: ask once for every offset that is committed, and go again */
    ACTOR_KNOCK, /* a producer: one record more, to the partition words[1] of topic words[0] of the cast; it must succeed */
    ACTOR_REMOVE, /* the admin: topic words[0] is deleted; it must succeed */
};

struct actor_view {
    uint32_t outstanding; /* operations that did not end yet */
    bool is_finished;     /* all that was wanted was done (the verifier: everything was read) */
    bool is_quiet;        /* after ACTOR_CLOSE: nothing is left */
};

extern const struct world_machine actor_machine; /* with a struct actor_spec as the context */
void actor_view(const void *machine, struct actor_view *view_out);
/* The n-th of a consumer's partitions whose topic is there, modulo their number. False: it has none. */
bool actor_reads(const void *machine, uint64_t n, bool is_stable, uint32_t *topic_out, int32_t *partition_out);

/* ---- values, also for tests ---- */

#define ACTOR_VALUE_BYTES_MIN 64
/* Fills `size_bytes` (at least ACTOR_VALUE_BYTES_MIN). */
void actor_value_make(struct history_record record, uint8_t *at, size_t size_bytes);
/* False: not a value that actor_value_make made. */
bool actor_value_read(struct base_slice value, struct history_record *record_out);

#endif
