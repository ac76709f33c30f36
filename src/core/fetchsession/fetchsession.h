/* fetchsession.h: the fetch sessions of one shard (KIP-227): which partitions a client follows, and what it was told of each.
 *
 * Room    core/fetchsession. Uses base, and asks metadata's image what a topic id is called.
 * Owns    its sessions, each a block of pages; the lists that it lends (fetchsession_begin) until fetchsession_end.
 * Time    milliseconds of the monotonic clock, passed in.
 * Limits  config.slots_max sessions, config.bytes_max for all of them.
 *
 * A session is opened by a full fetch, under an id that tells its shard (fetchsession_shard), and goes on with incremental
 * fetches: each names the epoch that is next, what is new or different, and what is forgotten. The room then lends the list of
 * all that is followed; who reads fills in what was found; fetchsession_judge says which partitions the client must be told of:
 * those with records, with an error, and those whose watermark or log start is not what it was told last. One that had
 * records goes to the end of the list, so that limits of bytes are shared fairly.
 *
 * WHO MAY MAKE ROOM FOR A NEW SESSION, when all slots are taken (FetchSessionCacheShard of Kafka 4.3):
 *     the one unused longest, once it was not used for eviction_ms; else the smallest that may be evicted, if the new one is
 *     larger or only the new one is a follower's. A consumer's session may be evicted by a follower's at any time; any other
 *     only eviction_ms after it was opened, as seen when it was used last.
 * A session that goes while fetches go on with it stays for those.
 *
 * ONE CONNECTION, ONE FETCH AT A TIME. Kafka takes a connection's next request when it has answered the last one. Here requests of a
 * connection go side by side, so that a fetch which goes on with a session waits for the one before it: FETCHSESSION_WAITS,
 * and fetchsession_next gives it back when its turn has come. It never waits for one behind it, whose answer can't leave before its own:
 * such a one may have overtaken it while there was NO_ROOM.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FETCHSESSION_FETCHSESSION_H
#define FETCHSESSION_FETCHSESSION_H

#include "base/base.h"
#include "metadata/metadata.h"

struct fetchsessions;

#define FETCHSESSION_NONE          0 /* no session's id */
#define FETCHSESSION_EPOCH_INITIAL 0
#define FETCHSESSION_EPOCH_FINAL   (-1)

struct fetchsession_config {
    uint32_t shard, shards;
    uint32_t slots_max; /* 0: no sessions */
    uint32_t spare_max; /* sessions that are gone, and still gone on with; more, and no new one is opened */
    uint64_t eviction_ms;
    size_t bytes_max; /* of all sessions' blocks */
    uint64_t seed;
};

/* Of the node's slots and bytes, what one shard has. */
static inline uint64_t fetchsession_share(uint64_t of_node, uint32_t shard, uint32_t shards)
{
    return of_node / shards + (shard < of_node % shards ? 1 : 0);
}

/* One partition that is followed. */
struct fetchsession_item {
    struct base_slice name; /* by id: what the topic was called when its id was first known; empty: it never was */
    struct base_uuid id;    /* by name: none */
    int32_t partition;
    int32_t bytes_max;
    int32_t leader_epoch;
    int64_t offset;
    /* what was found, by whoever reads */
    int64_t watermark;
    int64_t log_start;
    int16_t error;
    bool has_records;
    bool is_missing; /* there was no such topic or partition when the fetch began: it is told last */
    /* of a list */
    bool is_told;  /* by fetchsession_judge */
    uint32_t slot; /* the room's */
};

static inline bool fetchsession_is_same_topic(bool uses_ids, const struct fetchsession_item *a,
                                              const struct fetchsession_item *b)
{
    return uses_ids ? base_uuid_equal(a->id, b->id) : base_slice_equal(a->name, b->name);
}

/* All that a session follows, in its order: a copy, in a block of its own. */
struct fetchsession_list {
    struct base_link link; /* this, and the next three: the room's */
    uint64_t user, order;
    uint32_t session;
    int32_t epoch;
    int32_t id;
    struct fetchsession_item *items;
    uint32_t count;
};

/* A fetch that goes on with a session. Everything in it is borrowed until it was answered. */
struct fetchsession_ask {
    struct base_link link; /* the room's, while it waits */
    uint64_t user;         /* the connection; not 0 */
    uint64_t order;        /* what the connection asked before is not greater */
    int32_t id;
    int32_t epoch;
    bool uses_ids; /* version 13 on */
    const struct fetchsession_item *items;
    uint32_t count;
    const struct fetchsession_item *forgotten; /* name or id, partition */
    uint32_t forgotten_count;
};

enum fetchsession_verdict {
    FETCHSESSION_GOES_ON = 0, /* the list was lent */
    FETCHSESSION_EMPTY,       /* nothing is followed any more: the session is gone, and the fetch is without one */
    FETCHSESSION_NOT_FOUND,
    FETCHSESSION_BAD_EPOCH,
    FETCHSESSION_BAD_KIND, /* it follows by id what is asked by name, or the other way round */
    FETCHSESSION_WAITS,    /* for the fetch before it on the same connection */
    FETCHSESSION_NO_ROOM,  /* no memory now, and nothing has changed: try again */
};

/* Fails BASE_FULL: the arena is too small. */
MUST_USE
enum base_rc fetchsession_create(struct base_arena *arena, struct base_pages *pages,
                                 const struct fetchsession_config *config, struct fetchsessions **sessions_out);

/* The shard whose session that may be; `shards` when it is none's. */
uint32_t fetchsession_shard(int32_t id, uint32_t shards);

/* After a full fetch: `items` with what was found, in the order in which the request names them. The id of the session; FETCHSESSION_NONE: there
 * is no room for it, and the client goes on without. */
int32_t fetchsession_open(struct fetchsessions *sessions, const struct fetchsession_item *items, uint32_t count,
                          bool uses_ids, bool is_follower, uint64_t now_ms);
/* Its end, if it is there. */
void fetchsession_close(struct fetchsessions *sessions, int32_t id);

/* `ask` names each partition once. *list_out is set when it GOES_ON, and is the caller's until fetchsession_end. */
MUST_USE
enum fetchsession_verdict fetchsession_begin(struct fetchsessions *sessions, struct fetchsession_ask *ask,
                                             const struct metadata *image, uint64_t now_ms,
                                             struct fetchsession_list **list_out);
/* Sets is_told of the items. False: another fetch has gone on with the session since; nothing is told but
 * INVALID_FETCH_SESSION_EPOCH. */
MUST_USE
bool fetchsession_judge(struct fetchsessions *sessions, struct fetchsession_list *list);
/* Takes the list back. Gives where to look for asks that have waited: fetchsession_next, until it gives none. */
uint32_t fetchsession_end(struct fetchsessions *sessions, struct fetchsession_list *list);
/* An ask whose turn has come, off the room's hands: to be begun again. NULL: none. */
struct fetchsession_ask *fetchsession_next(struct fetchsessions *sessions, uint32_t session);

struct fetchsession_view {
    uint32_t sessions;
    uint32_t partitions; /* of all sessions */
    uint32_t lists;      /* lent */
    uint64_t opened;
    uint64_t evicted;
    uint64_t refused; /* full fetches that found no room for a session */
    uint64_t bytes;
};
void fetchsession_view(const struct fetchsessions *sessions, struct fetchsession_view *view_out);
/* Every list is back, and no ask waits. */
bool fetchsession_is_quiet(const struct fetchsessions *sessions);
uint32_t fetchsession_blocks(const struct fetchsessions *sessions); /* what it then holds of the pages */
/* For tests and CHECK_SLOW: counts, order and tables agree. */
bool fetchsession_is_sound(const struct fetchsessions *sessions);

#endif
