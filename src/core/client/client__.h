/* client__.h: the client from inside.
 *
 * Room    core/client, private.
 * Files   client.c (create, step, turn, poll), client_nodes.c (connections, versions, requests), client_topics.c (metadata),
 *         client_accept.c (records into batches), client_produce.c (batches to leaders), client_consume.c (offsets, fetches),
 *         client_session.c (fetch sessions),
 *         client_records.c (records out of fetched bytes), client_calls.c (any other call), client_group.c (a member of a group),
 *         client_group_ask.c (its requests), client_choose.c (who gets what, when it leads).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CLIENT_PRIVATE_H
#define CLIENT_PRIVATE_H

#include "client/client.h"

#include "peer/peer.h"
#include "wire/kafka/fetch.h"
#include "wire/kafka/kafka.h"

#define NONE                 UINT32_MAX
#define MS                   UINT64_C(1000000)
#define API_KEYS             128 /* versions are kept for keys below this */
#define SCRATCH_BYTES        65536
#define PARTS_OF_ASK         64 /* partitions in one request */
#define IN_FLIGHT_IDEMPOTENT 5
#define FETCHED_OF_NODE      2 /* answers of one node that wait to be read */

/* ---- fetch sessions ---- */

#define FETCH_SESSIONS_FIRST 7
#define FETCH_BY_ID_FIRST    13

struct followed {
    uint32_t topic;
    int32_t partition;
    struct base_uuid id; /* none: by name */
    int64_t offset;      /* as it was asked for last */
    int32_t leader_epoch;
    int64_t end; /* as it was told last; -1: never */
};
struct session {
    int32_t id;    /* 0: none */
    int32_t epoch; /* of the next fetch; 0: a full one */
    bool uses_ids;
    uint32_t count;
    struct followed followed[PARTS_OF_ASK];
};
enum session_news {
    SESSION_ALL_TOLD = 0,
    SESSION_CHANGES_TOLD, /* what is left out is as it was */
    SESSION_OVER,         /* nothing is told; a full fetch may follow at once */
    SESSION_REFUSED       /* nothing is told */
};

/* ---- nodes ---- */

/* CLOSED -client__node_use-> DIALING -connected-> GREETING -versions known-> READY; a lost connection: back to DIALING. */
enum node_state { NODE_CLOSED = 0, NODE_DIALING, NODE_GREETING, NODE_READY };
struct node {
    enum node_state state;
    bool is_used; /* the slot */
    bool is_bootstrap;
    bool
        is_coordinator; /* a second connection to a node: what waits there (JoinGroup) would hold up fetches. Only for the group */
    bool is_old; /* its ApiVersions is answered in version 0 only */
    int32_t id;  /* -1: bootstrap */
    uint16_t port;
    uint16_t host_bytes;
    struct peer_id peer;
    uint32_t produce_in_flight;
    bool is_fetching;
    uint32_t fetched_count;
    struct session session;
    int16_t version_min[API_KEYS]; /* -1: it has no such api */
    int16_t version_max[API_KEYS];
    uint8_t host[PEER_HOST_MAX];
};

/* ---- requests in flight ---- */

enum ask_kind {
    ASK_VERSIONS = 0,
    ASK_METADATA,
    ASK_PRODUCER_ID,
    ASK_PRODUCE,
    ASK_OFFSETS,
    ASK_FETCH,
    ASK_CALL,
    ASK_GROUP
};
struct ask {
    enum ask_kind kind;
    uint32_t node;
    struct peer_id peer; /* of the node, when it was sent */
    int16_t api_key;
    int16_t version;
    uint32_t item;                /* ASK_CALL: the call; ASK_GROUP: enum group_ask */
    uint32_t life;                /* ASK_PRODUCE: of the producer id; ASK_GROUP: of the membership */
    struct base_list batches;     /* ASK_PRODUCE */
    uint32_t parts[PARTS_OF_ASK]; /* ASK_OFFSETS, ASK_FETCH */
    uint32_t generations[PARTS_OF_ASK];
    uint32_t part_count;
    int32_t session_epoch; /* ASK_FETCH */
};

/* ---- topics ---- */

struct topic {
    bool is_used;
    bool is_answered; /* since it was last asked anew */
    enum client_topic_state state;
    int16_t error;
    uint64_t missing_until_ns; /* UINT64_MAX: it is not missing */
    struct base_uuid id;
    int32_t partition_count;
    int32_t sticky;          /* where records without a key go now; -1: to be drawn */
    struct base_list parked; /* records that wait for the metadata */
    uint64_t parked_deadline_ns;
    uint32_t name_bytes;
    uint8_t name[CLIENT_TOPIC_NAME_MAX];
};

/* Records in their own form, one after another; see client_accept.c. */
struct parked {
    struct base_link link;
    size_t size_bytes;
    size_t used_bytes;
    size_t read_bytes;
};

enum seek { SEEK_NOT = 0, SEEK_BEGINNING, SEEK_END, SEEK_TIME };
struct part {
    uint32_t topic;
    int32_t index;
    int32_t leader; /* -1: none known */
    int32_t leader_epoch;
    /* producing */
    struct base_link busy;  /* on client->busy while queue is not empty */
    struct base_list queue; /* batches, in the order of their records */
    uint64_t retry_ns;      /* nothing is sent before */
    int32_t next_sequence;
    uint32_t life; /* of the producer id that next_sequence belongs to */
    /* consuming */
    struct base_link assigned; /* on client->assigned */
    uint64_t token;
    uint32_t generation; /* of the assignment: older answers are not for it */
    enum seek seek;
    enum client_reset reset;
    int64_t seek_ms;
    int64_t position; /* the next to fetch */
    int64_t consumed; /* the next to give */
    uint64_t fetch_retry_ns;
    uint64_t errors_since_ns; /* 0: the last answer was good */
    uint64_t missed_since_ns; /* 0: its leader can be asked, or nobody can */
    bool is_asked;            /* in a request that is in flight */
    bool is_end_told;
    bool is_spoilt;  /* what was fetched can't be read on */
    uint32_t queued; /* pieces that were fetched and not read to their end */
    bool has_failed; /* to be reported */
    int16_t error;
    enum port_rc rc;
    /* consuming in a group */
    struct base_link owned; /* on member.owned */
    struct base_link told;  /* on member.tells while tells is not 0 */
    uint8_t tells;          /* what is still to be polled: enum tell */
    bool is_unplaced;       /* what is committed is not known yet */
    bool is_placing;        /* in an OffsetFetch that is in flight */
    bool is_wanted;         /* the assignment at hand has it */
    bool is_leaving;        /* given up: released once its offset is committed */
    bool is_lost;           /* how: without a commit */
    bool is_dirty;          /* commit_at is to be committed */
    int64_t commit_at;
    int64_t commit_sent; /* of the OffsetCommit that is in flight */
    int64_t committed;   /* -1: nothing known */
    int16_t commit_error;
};
/* In the order in which they are told. */
enum tell { TELL_COMMITTED = 1, TELL_REVOKED = 2, TELL_ASSIGNED = 4, TELL_RESUMED = 8 };

/* ---- batches ---- */

/* FILLING -full, lingered, flushed-> READY -client_produce.c-> IN_FLIGHT -answer-> DONE; a retriable end: back to READY. */
enum batch_state { BATCH_FILLING = 0, BATCH_READY, BATCH_IN_FLIGHT, BATCH_DONE };
struct batch {
    struct base_link link; /* on its part's queue, then on client->done */
    struct base_link in_ask;
    enum batch_state state;
    uint32_t part;
    uint32_t first_cell;
    uint32_t last_cell;
    uint32_t record_count;
    struct rec_build build;
    uint8_t *block;         /* where build writes, or where wire lies */
    struct base_slice wire; /* once sealed */
    bool is_sealed;
    bool is_maybe_written; /* an attempt ended without a definite answer */
    uint64_t ready_ns;     /* FILLING: when it has lingered */
    uint64_t deadline_ns;
    uint32_t attempts;
    int32_t sequence; /* -1: none yet */
    uint32_t life;    /* of the producer id that its sequence belongs to */
    /* DONE */
    enum client_outcome outcome;
    int16_t error;
    int64_t base_offset;
    int64_t append_ms;
};
struct cell { /* one record's token */
    uint64_t token;
    uint32_t next;
};

/* ---- fetched ---- */

struct piece {
    uint32_t part;
    uint32_t generation;
    struct base_uuid topic_id; /* none: it was fetched by name */
    struct base_slice rest;    /* batches not looked at yet */
    bool has_begun;            /* one was looked at */
    int64_t end_offset;        /* the high watermark, or last stable offset */
    struct kafka_fetch_response_aborted_transaction *aborted;
    int32_t aborted_count;
};
struct fetched {
    struct base_link link; /* on client->fetched, in order of arrival */
    uint32_t node;
    uint8_t *frame;
    uint8_t *memory; /* the decoded answer and the pieces */
    struct piece *pieces;
    uint32_t piece_count;
    uint32_t piece;
    uint8_t *opened; /* of the batch at hand; NULL: it was not compressed */
    struct rec_walk walk;
    bool is_walking;
};

struct call {
    struct base_link link; /* waiting, then done */
    bool is_sent;
    uint64_t token;
    int16_t api_key;
    int16_t version;
    enum client_target target;
    int32_t node;
    uint64_t deadline_ns;
    uint64_t retry_ns;
    int16_t version_max;
    uint8_t *body; /* in version_max */
    uint32_t body_bytes;
    uint8_t *frame; /* of the answer */
    uint8_t *memory;
    const void *answer;
    int16_t error;
    enum port_rc rc;
    bool is_indefinite;
};

/* ---- a member of a group ---- */

/*  NONE -client_join-> OUT -JoinGroup sent-> JOINING -answer, not leader-> SYNCING -assignment-> STABLE
 *                                                    -answer, leader-> CHOOSING -topics known, SyncGroup sent-> SYNCING
 *  STABLE -told to rejoin, eager; some are to be given up, cooperative-> GIVING -committed, told-> OUT
 *  STABLE -told to rejoin, cooperative-> OUT, and its partitions are read on
 *  JOINING, CHOOSING, SYNCING -trouble-> OUT; any -thrown out of the group-> OUT, its partitions lost
 *  any -client_leave-> GIVING -> LEAVING -answer, or nobody answers-> ENDED; any -an error for good-> ENDED
 *  Partitions are owned in all of them; records are given in all but GIVING (of those given up), LEAVING and ENDED. */
enum member_state {
    MEMBER_NONE = 0,
    MEMBER_OUT,
    MEMBER_JOINING,
    MEMBER_CHOOSING,
    MEMBER_SYNCING,
    MEMBER_STABLE,
    MEMBER_GIVING,
    MEMBER_LEAVING,
    MEMBER_ENDED,
};
enum group_ask {
    GROUP_ASK_FIND = 0,
    GROUP_ASK_JOIN,
    GROUP_ASK_SYNC,
    GROUP_ASK_BEAT,
    GROUP_ASK_COMMIT,
    GROUP_ASK_PLACE,
    GROUP_ASK_LEAVE
};
#define MEMBER_ID_MAX (2 * CLIENT_GROUP_NAME_MAX)
struct member {
    enum member_state state;
    struct client_group config; /* its texts lie below */
    uint32_t topics[CLIENT_GROUP_TOPICS_MAX];
    int32_t counted[CLIENT_GROUP_TOPICS_MAX]; /* partitions of each when it was divided; -1: by another leader */
    uint32_t coordinator;                     /* its node */
    bool is_coordinator_known;
    uint32_t asked; /* enum group_ask, as bits: in flight */
    uint32_t life;  /* of what is asked: answers of an older one mean nothing */
    bool is_leader;
    bool is_rejoin_wanted;
    bool is_leave_wanted;
    bool is_commit_wanted;
    bool has_commit; /* parts are dirty */
    int32_t generation;
    uint64_t retry_ns; /* of what is asked next */
    uint64_t beat_ns;
    uint64_t commit_ns;
    uint64_t look_ns;     /* when topics that are missing are looked for again */
    uint64_t deadline_ns; /* GIVING, LEAVING: no longer than this */
    uint8_t *join_frame;  /* CHOOSING: the answer */
    uint8_t *join_memory;
    const void *join;
    struct base_list owned;
    struct base_list tells;
    bool is_end_to_tell; /* CLIENT_LEFT or CLIENT_GROUP_FAILED */
    int16_t error;
    enum port_rc rc;
    uint32_t member_id_bytes;
    uint8_t member_id[MEMBER_ID_MAX];
    uint8_t group_id[CLIENT_GROUP_NAME_MAX];
    uint8_t instance_id[CLIENT_GROUP_NAME_MAX];
};

enum identity_state { IDENTITY_NONE = 0, IDENTITY_ASKED, IDENTITY_HELD, IDENTITY_REFUSED };

struct client {
    struct client_config config;
    struct base_pages *pages;
    struct peers *peers;
    struct base_prng prng;
    uint8_t *scratch;
    uint64_t now_ns;
    int64_t wall_ms;
    bool is_closing;
    uint32_t step_left;
    uint64_t alarm_ns;
    bool has_more; /* work was left for want of room in the step */
    bool has_news; /* something to be polled came up outside of client_step */
    /* nodes */
    struct node *nodes;
    uint32_t next_candidate;
    int32_t controller;
    uint32_t asks_to_any; /* turns among ready nodes */
    bool was_ready;
    uint32_t connects_failed;
    enum port_rc connect_rc;
    struct base_pool asks;
    /* topics */
    struct topic *topics;
    uint32_t topics_used; /* slots below it */
    struct base_pool parts;
    struct base_map parts_by_place;
    bool is_metadata_wanted;
    bool is_metadata_asked;
    uint64_t metadata_ns; /* not asked before */
    uint64_t metadata_due_ns;
    /* producer */
    struct base_pool batches;
    struct base_pool cells;
    struct base_list busy;
    struct base_list done;
    uint32_t records;      /* taken and not yet polled */
    uint32_t parked_count; /* of them, those that are parked */
    enum identity_state identity;
    bool is_idempotent;
    int64_t producer_id;
    int16_t producer_epoch;
    int16_t identity_error;
    uint32_t life;
    uint64_t identity_ns;
    uint32_t batches_in_flight;
    bool is_identity_spoilt; /* a sequence will never be used, or the broker refused one: take another producer id */
    /* consumer */
    struct base_list assigned;
    struct base_pool fetched_pool;
    struct base_list fetched;
    /* calls */
    struct base_pool calls;
    struct base_list calls_waiting;
    struct base_list calls_done;
    uint32_t call_shown; /* its answer is borrowed until the next poll; NONE */
    struct member member;
};

/* ---- client_nodes.c ---- */
void client__nodes_init(struct client *client);
struct node *client__node_by_id(struct client *client, int32_t id);
/* A node that requests can be sent to; NULL: none yet, and one is being dialled. */
struct node *client__node_any(struct client *client);
/* The same for one node; NULL: not ready, and being dialled. */
struct node *client__node_use(struct client *client, int32_t id);
void client__node_put(struct client *client, int32_t id, struct kafka_text host, int32_t port);
/* The node that is kept for the coordinator; NULL: no slot is free. */
struct node *client__node_coordinator_take(struct client *client);
void client__node_coordinator_set(struct client *client, struct node *node, int32_t id, struct base_slice host,
                                  uint16_t port);
void client__node_dial(struct client *client, struct node *node);
uint32_t client__node_index(const struct client *client, const struct node *node);
void client__node_reset(struct client *client, struct node *node);
/* The highest version that both know, at most `cap`; -1: none. */
int16_t client__version(const struct node *node, int16_t api_key, int16_t cap);
bool client__can_send(const struct client *client, const struct node *node, const struct port_out *out);
/* Encodes and sends. BASE_FULL: no memory or no ask now. BASE_BAD: the version can't say it. */
MUST_USE
enum base_rc client__send(struct client *client, struct node *node, enum ask_kind kind, int16_t api_key,
                          int16_t version, const void *request, bool is_unanswered, uint64_t timeout_ms,
                          struct port_out *out, struct ask **ask_out);
void client__turn_nodes(struct client *client);
/* Takes what peers has to say until there is nothing more. */
void client__take_peer_events(struct client *client, struct port_out *out);
/* Decodes an answer into a block of pages (to be given back). */
MUST_USE
enum base_rc client__decode(struct client *client, enum kafka_message message, struct base_slice body, int16_t version,
                            size_t extra_bytes, void **answer_out, uint8_t **memory_out, struct base_arena *arena_out);
/* The frame of the answer at hand as a block of its own; *body moves with it. NULL: no memory. */
MUST_USE
uint8_t *client__keep_frame(struct client *client, struct base_slice frame, struct base_slice *body);
void client__give(struct client *client, uint8_t *block); /* NULL is nothing */
void client__alarm(struct client *client, uint64_t deadline_ns);
void client__later(struct client *client); /* no memory now: look again soon */
struct base_arena client__scratch(struct client *client);
bool client__may_work(struct client *client, const struct port_out *out); /* counts step_left down */

/* ---- client_topics.c ---- */
struct topic *client__topic_find(const struct client *client, struct base_slice name);
MUST_USE
enum base_rc client__topic_take(struct client *client, struct base_slice name, struct topic **topic_out);
struct topic *client__topic_by_id(const struct client *client, struct base_uuid id);
static inline struct base_slice client__topic_name(const struct topic *topic)
{
    return base_slice_of(topic->name, topic->name_bytes);
}
/* Of one that is there, as far as we know. */
static inline int32_t client__topic_partitions(const struct topic *topic)
{
    return topic->state == CLIENT_TOPIC_KNOWN ? topic->partition_count : 0;
}
uint32_t client__topic_index(const struct client *client, const struct topic *topic);
struct part *client__part_find(const struct client *client, uint32_t topic, int32_t index);
MUST_USE
enum base_rc client__part_take(struct client *client, uint32_t topic, int32_t index, struct part **part_out);
static inline struct part *client__part(const struct client *client, uint32_t index)
{
    return base_pool_at(&client->parts, index);
}
uint32_t client__part_index(const struct client *client, const struct part *part);
void client__want_metadata(struct client *client);
void client__turn_metadata(struct client *client, struct port_out *out);
void client__on_metadata(struct client *client, const struct ask *ask, struct base_slice body);
void client__lost_metadata(struct client *client);

/* ---- client_accept.c ---- */
void client__turn_parked(struct client *client);
/* Whether client__poll_parked would say something. */
bool client__has_parked_end(const struct client *client);
bool client__poll_parked(struct client *client, struct client_result *result_out);
void client__seal_lingered(struct client *client, struct part *part);

/* ---- client_produce.c ---- */
void client__turn_producer(struct client *client, struct port_out *out);
void client__on_producer_id(struct client *client, const struct ask *ask, struct base_slice body);
void client__lost_producer_id(struct client *client);
void client__on_produced(struct client *client, struct ask *ask, struct base_slice body);
void client__lost_produce(struct client *client, struct ask *ask, bool was_unanswered);
bool client__poll_done(struct client *client, struct client_result *result_out);
void client__batch_end(struct client *client, struct batch *batch, enum client_outcome outcome, int16_t error);

/* ---- client_consume.c ---- */
void client__turn_consumer(struct client *client, struct port_out *out);
void client__on_offsets(struct client *client, const struct ask *ask, struct base_slice body);
void client__on_fetched(struct client *client, const struct ask *ask, struct base_slice frame, struct base_slice body);
void client__lost_parts(struct client *client, const struct ask *ask);
void client__part_release(struct client *client,
                          struct part *part); /* nothing is read from it, and nothing of it is given */
void client__part_fail(struct client *client, struct part *part, int16_t error, enum port_rc rc);

/* ---- client_session.c ---- */
/* What is to be said to the node of these parts, and in *next the session as it is once that was sent. */
void client__session_fill(struct client *client, const struct node *node, const uint32_t *parts, uint32_t count,
                          int16_t version, struct base_arena *scratch, struct kafka_fetch_request *request,
                          struct session *next);
enum session_news client__session_answered(struct client *client, struct node *node, const struct ask *ask,
                                           const struct kafka_fetch_response *answer);
void client__session_lost(struct node *node);
/* Where the part ends, as the node said last; -1: not known. */
int64_t client__session_end_offset(struct client *client, const struct node *node, const struct part *part);

/* ---- client_records.c ---- */
bool client__poll_records(struct client *client, struct client_result *result_out);
void client__fetched_free(struct client *client, struct fetched *fetched);

/* ---- client_calls.c ---- */
void client__turn_calls(struct client *client, struct port_out *out);
void client__on_call(struct client *client, const struct ask *ask, struct base_slice frame, struct base_slice body);
void client__lost_call(struct client *client, const struct ask *ask, enum port_rc rc);
bool client__poll_calls(struct client *client, struct client_result *result_out);
void client__forget_call(struct client *client);

/* ---- client_group.c ---- */
static inline bool client__is_owned(const struct part *part) { return base_link_is_on(&part->owned); }
void client__turn_group(struct client *client, struct port_out *out);
bool client__poll_group(struct client *client, struct client_result *result_out);
void client__tell(struct client *client, struct part *part, enum tell tell);
/* What the answers say. */
void client__group_found(struct client *client, int32_t node, struct kafka_text host, int32_t port);
void client__group_unfound(struct client *client); /* the coordinator is another one, or none yet */
void client__group_later(struct client *client);
bool client__group_keep_id(struct client *client, struct kafka_text id); /* our member id; false: it is none */
void client__group_rejoin(struct client *client);                        /* the group divides itself anew */
void client__group_lost(struct client *client,
                        bool keeps_id); /* we are no member any more, or not of this generation */
void client__group_end(struct client *client, int16_t error, enum port_rc rc);
void client__group_joined(struct client *client, const struct ask *ask, struct base_slice frame,
                          struct base_slice body);
void client__group_assigned(struct client *client, struct base_slice assignment);
void client__group_forget_join(struct client *client);

/* ---- client_group_ask.c ---- */
void client__group_ask(struct client *client, enum group_ask what, struct node *node, struct port_out *out);
void client__on_group(struct client *client, const struct ask *ask, struct base_slice frame, struct base_slice body);
void client__lost_group(struct client *client, const struct ask *ask);
void client__group_node_failed(struct client *client);

/* ---- client_choose.c ---- */
/* What members say to each other, its version in front. Reads what later versions begin with; *version_out is the one it was read as. */
MUST_USE
enum base_rc client__protocol_read(enum kafka_message message, struct base_slice bytes, struct base_arena *arena,
                                   void *says_out, int16_t *version_out);
/* BASE_FULL: no room in the arena. BASE_BAD: the version can't say it. */
MUST_USE
enum base_rc client__protocol_write(enum kafka_message message, const void *says, int16_t version,
                                    struct base_arena *arena, struct kafka_bytes *bytes_out);
/* The topics of all members become our own, so that their partitions get known. BASE_FULL: topics_max, or no memory.  */
MUST_USE
enum base_rc client__choose_topics(struct client *client, const void *join);
/* Fills the assignments of a SyncGroup. All in `*memory_out`, to be given back. BASE_FULL: no memory. */
struct kafka_sync_group_request;
MUST_USE
enum base_rc client__choose(struct client *client, const void *join, struct kafka_sync_group_request *request,
                            uint8_t **memory_out);

#endif
