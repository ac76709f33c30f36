/* client.h: a Kafka client as a machine: producer, consumer by assignment or as a member of a group, and any other call.
 *
 * Room    core/client. Uses base, port, record, codec, wire/kafka, peer, metadata.
 * Owns    the region handed over at create, whole: tables at its front, buffers (pages) in the rest. Everything passed in is
 *         copied; slices in a result are borrowed until the next client_poll, client_step or client_turn.
 * Time    absolute monotonic nanoseconds, out of the event.
 * Speaks  ApiVersions with each node, then the highest version that both know; any Kafka from 2.1 on, and Weir.
 *
 * HOW TO USE IT, in a simulator's actor or in a program. The owner has one machine per shard; in its step:
 *
 *     client_step(client, event, out);                          what the world said; events of others don't hurt
 *     while (client_poll(client, &result)) { ... }              what came of it: acked offset, failed, unknown; records; answers
 *     client_produce(client, &record); client_call(...); ...    what is wanted next, with tokens of one's own
 *     client_turn(client, out);                                 sends, and sets the alarm: the last thing in every step
 *
 * No callback, no thread, no clock, no dice but its own: the same seed and events give the same effects. A client that is created
 * does nothing before its first step. It is stopped by client_close; client_is_quiet says when nothing is outstanding any more.
 *
 *     struct client_config config;
 *     client_config_default(&config);
 *     config.seed = seed;
 *     config.bootstrap[0] = (struct client_endpoint){base_slice_text("127.0.0.1"), 9092};
 *     config.bootstrap_count = 1;
 *     client_create(region, &config, &client);
 *
 * WHAT BECOMES OF A RECORD. client_produce takes it or says BASE_FULL (poll, and try again later). Each one taken ends in exactly
 * one CLIENT_PRODUCED:
 *     CLIENT_ACKED      written at `offset` (acks=0: sent, offset -1; a duplicate that the broker knew: offset -1)
 *     CLIENT_REFUSED    a definite error: it is not in the log
 *     CLIENT_UNKNOWN    an indefinite one: an answer was lost, or timed out after it may have been written; it may be in the log
 *                       once; without idempotence it may also be there more than once
 * Retriable errors are retried until delivery_timeout_ms has passed. With idempotence a record is in the log at most once, and
 * records of one partition are in the order in which they were taken; a record whose fate is unknown is never sent under another
 * producer id.
 *
 * A MEMBER OF A GROUP (classic protocol). client_join, once; from then on the machine finds the coordinator, joins, beats, reads what
 * it is given from what is committed, commits, and comes back after every trouble by itself, until client_leave (or
 * CLIENT_GROUP_FAILED). Its owner only polls:
 *     CLIENT_ASSIGNED   this partition is its own from now on
 *     CLIENT_RESUMED    `offset` is what was committed there, -1: nothing; records (CLIENT_RECORD) and ends follow
 *     CLIENT_COMMITTED  `offset` is committed for the group; or `error` says why not (and it is tried again by and by)
 *     CLIENT_REVOKED    it is not its own any more, no record of it follows. outcome CLIENT_ACKED: given up in order; CLIENT_UNKNOWN:
 *                       lost, another member may have had it for some time
 *     CLIENT_GROUP_FAILED  `error`: the group won't have us, ever; nothing more comes of the group
 *     CLIENT_LEFT       after client_leave
 * A record counts as processed once it was polled and client_turn is called: what is committed is the offset after the last one
 * polled, never more. So after a failure records may come twice, and none is skipped. Whoever has processed later than the turn sets
 * auto_commit_ms to 0 and calls client_commit when it has processed everything it was given. The next JoinGroup waits until all
 * CLIENT_REVOKED were polled. After client_leave no record comes any more.
 *
 * Limits  struct client_config. Work per turn is bounded by out's room, by step_max items and by what one request may hold; what
 *         is left asks for PORT_EVENT_CONTINUE. The leader of a group divides it in one turn, in time that grows with members times
 *         partitions.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include "base/base.h"
#include "port/port.h"
#include "record/record.h"

struct client;

#define CLIENT_BOOTSTRAP_MAX  8
#define CLIENT_HEADERS_MAX    64
#define CLIENT_TOPIC_NAME_MAX 249
#define CLIENT_TURN_EFFECTS   16 /* a turn with less room than this in `out` does nothing but ask for CONTINUE */

struct client_endpoint {
    struct base_slice host;
    uint16_t port;
};

enum client_acks { CLIENT_ACKS_ALL = -1, CLIENT_ACKS_NONE = 0, CLIENT_ACKS_LEADER = 1 };
enum client_idempotence {
    CLIENT_IDEMPOTENT = 0,     /* needs CLIENT_ACKS_ALL; a broker that can't: records are refused */
    CLIENT_IDEMPOTENT_IF_ABLE, /* as Java's default where the broker has InitProducerId, else not */
    CLIENT_NOT_IDEMPOTENT,
};

struct client_config {
    uint64_t seed;
    struct base_slice client_id; /* in every request; "weir" */
    struct client_endpoint bootstrap[CLIENT_BOOTSTRAP_MAX];
    uint32_t bootstrap_count;
    /* what it may use of the shard */
    uint32_t conn_slot_first; /* slots from here on, nodes_max of them, are its own */
    uint16_t token_tag;       /* its effects' tokens: the upper 16 bits */
    /* limits */
    uint32_t nodes_max; /* bootstrap endpoints count too */
    uint32_t topics_max;
    uint32_t partitions_max;
    uint32_t records_max; /* taken and not yet polled as CLIENT_PRODUCED */
    uint32_t batches_max;
    uint32_t calls_max;
    uint32_t frame_bytes_max;  /* of an answer */
    uint32_t opened_bytes_max; /* what a compressed batch may open to */
    uint32_t step_max;         /* requests begun per turn */
    /* times */
    uint64_t request_timeout_ms;
    uint64_t connect_timeout_ms;
    uint64_t retry_backoff_ms;
    uint64_t reconnect_backoff_ms;
    uint64_t reconnect_backoff_max_ms;
    uint64_t metadata_max_age_ms;
    uint64_t topic_missing_ms; /* a topic that the cluster says it lacks for so long is given up */
    /* producer */
    enum client_acks acks;
    enum client_idempotence idempotence;
    enum codec_kind compression;
    int32_t compression_level; /* CODEC_LEVEL_DEFAULT */
    uint64_t linger_ms;
    uint64_t delivery_timeout_ms;
    uint32_t batch_bytes; /* a batch is sent once it has so many, uncompressed; a larger record has one of its own */
    uint32_t record_bytes_max;      /* of one batch, uncompressed */
    uint32_t request_bytes;         /* batches are added to a request up to here */
    uint32_t produce_in_flight_max; /* requests of a connection; idempotent: at most 5 */
    bool is_auto_create;            /* ask the cluster to make topics that it lacks */
    /* consumer */
    uint32_t fetch_wait_ms;
    uint32_t fetch_bytes_min;
    uint32_t fetch_bytes_max;
    uint32_t fetch_partition_bytes_max;
    bool uses_fetch_sessions;  /* KIP-227 */
    uint64_t read_patience_ms; /* a partition that has given nothing but errors for so long has failed, or had no leader
                                  that can be reached while other nodes could; 0: never */
    bool is_read_committed;    /* only up to the last stable offset; records of aborted transactions are left out */
    bool is_crc_checked;
};

void client_config_default(struct client_config *config);
/* A region of this size is enough to begin; more is more room for buffers. */
size_t client_region_bytes_min(const struct client_config *config);

/* Lays the client out in `region` (zero-filled). Slices of `config` are copied.
 * Fails   BASE_FULL: the region is smaller than client_region_bytes_min. BASE_BAD: no bootstrap endpoint, or a name too long. */
MUST_USE
enum base_rc client_create(struct base_region region, const struct client_config *config, struct client **client_out);

void client_step(struct client *client, const struct port_event *event, struct port_out *out);
void client_turn(struct client *client, struct port_out *out);
/* Nothing new is sent; what is unfinished ends: records REFUSED or UNKNOWN, calls with PORT_CLOSED. Results may still be polled. */
void client_close(struct client *client);
/* No connection, no effect outstanding, every result polled. */
bool client_is_quiet(const struct client *client);

/* ---- producing ---- */

struct client_record {
    uint64_t token;
    struct base_slice topic;
    int32_t
        partition; /* -1: murmur2 of the key as Java's default, or for a null key one partition until its batch is full */
    int64_t timestamp_ms;
    struct rec_value key;
    struct rec_value value;
    const struct rec_header *headers;
    uint32_t header_count;
};
/* Fails   BASE_FULL: no room now, nothing has changed. BASE_BAD: too large, too many headers, or no topic name; it never fits. */
MUST_USE
enum base_rc client_produce(struct client *client, const struct client_record *record);
/* Records don't wait for linger_ms any more: those taken until now are sent as soon as they can be. */
void client_flush(struct client *client);
uint32_t client_records(const struct client *client); /* taken, and not yet polled */
/* Kafka's hash of a key: partition = (murmur2 & 0x7fffffff) % partitions. */
uint32_t client_murmur2(struct base_slice key);

/* ---- topics ---- */

/* Asks for the metadata of a topic, and keeps them fresh from now on.
 * Fails   BASE_FULL: topics_max. BASE_BAD: the name. */
MUST_USE
enum base_rc client_want_topic(struct client *client, struct base_slice name);
enum client_topic_state { CLIENT_TOPIC_UNKNOWN = 0, CLIENT_TOPIC_KNOWN, CLIENT_TOPIC_FAILED };
struct client_topic_view {
    enum client_topic_state state;
    int16_t error; /* FAILED: Kafka's code */
    int32_t partition_count;
    struct base_uuid id; /* none: the broker has none */
};
void client_topic_view(const struct client *client, struct base_slice name, struct client_topic_view *view_out);

/* ---- consuming by assignment ---- */

enum client_start {
    CLIENT_FROM_OFFSET = 0, /* at: the offset */
    CLIENT_FROM_BEGINNING,
    CLIENT_FROM_END,
    CLIENT_FROM_TIME, /* at: milliseconds; the first record at or after, else the end */
};
enum client_reset {
    CLIENT_RESET_FAIL = 0,
    CLIENT_RESET_BEGINNING,
    CLIENT_RESET_END
}; /* when the offset is out of range */
struct client_assignment {
    uint64_t token; /* comes with each result about it */
    struct base_slice topic;
    int32_t partition;
    enum client_start start;
    int64_t at;
    enum client_reset reset;
};
/* Begins to read a partition; one that is assigned already begins anew.
 * Fails   BASE_FULL: topics_max or partitions_max. BASE_BAD: the name, or a negative partition. */
MUST_USE
enum base_rc client_assign(struct client *client, const struct client_assignment *assignment);
/* No result about it any more. */
void client_unassign(struct client *client, struct base_slice topic, int32_t partition);

/* ---- consuming in a group ---- */

#define CLIENT_GROUP_NAME_MAX   255 /* of a group id, an instance id */
#define CLIENT_GROUP_TOPICS_MAX 16

enum client_strategy { CLIENT_RANGE = 0, CLIENT_COOPERATIVE_STICKY }; /* as Java's assignors of these names */
struct client_group {
    uint64_t token; /* comes with each result of the group */
    struct base_slice group_id;
    struct base_slice instance_id; /* KIP-345: a static member, which does not leave; empty: none */
    struct base_slice topics[CLIENT_GROUP_TOPICS_MAX];
    uint32_t topic_count;
    enum client_strategy strategy;
    enum client_start start; /* where nothing is committed; at: as in client_assignment */
    int64_t at;
    enum client_reset reset; /* where what was committed is out of range */
    uint64_t session_timeout_ms;
    uint64_t rebalance_timeout_ms; /* how long a member may take to give up its partitions and join again */
    uint64_t heartbeat_ms;
    uint64_t
        auto_commit_ms; /* what was polled is committed so often, and whenever a partition is given up; 0: client_commit alone */
};
void client_group_default(struct client_group *group);
/* Begins. A group of nodes_max - 1 nodes at most: its coordinator has a connection of its own.
 * Needs   called once.
 * Fails   BASE_FULL: nodes_max, topics_max. BASE_BAD: an empty or too long name, no topic, too many topics. */
MUST_USE
enum base_rc client_join(struct client *client, const struct client_group *group);
/* Commits what was polled until now, a CLIENT_COMMITTED for each partition whose offset has moved. */
void client_commit(struct client *client);
/* Gives up all partitions, commits (unless auto_commit_ms is 0 and no client_commit waits), leaves; CLIENT_LEFT ends it, in any case
 * within request_timeout_ms. */
void client_leave(struct client *client);

struct client_group_view {
    bool is_member; /* has a generation, and an assignment */
    bool is_leader;
    int32_t generation; /* -1: none */
    struct base_slice member_id;
    uint32_t owned;       /* partitions */
    uint32_t uncommitted; /* of them, those of which more was polled than is committed */
    bool is_committing;
};
void client_group_view(const struct client *client, struct client_group_view *view_out);

/* ---- any other call ---- */

enum client_target { CLIENT_TO_ANY = 0, CLIENT_TO_CONTROLLER, CLIENT_TO_NODE };
struct client_call {
    uint64_t token;
    int16_t api_key;
    enum client_target target;
    int32_t node; /* CLIENT_TO_NODE */
    /* The request, struct kafka_..._request of that api, as its highest version says it. Copied. Sent in the version that the node
     * has; the differences of DeleteTopics (names), CreateTopics (defaults), FindCoordinator (one key) and OffsetFetch (one group)
     * are seen to. Their answers are in the shape of result.version. */
    const void *request;
    uint64_t timeout_ms; /* of the whole call, waiting for a node included; 0: request_timeout_ms */
    int16_t version_max; /* and no higher one: that which `request` is written for; 0: the highest */
};
/* Retried only while it was certainly not carried out (no node yet, NOT_CONTROLLER, a coordinator that loads or is being chosen).
 * Fails   BASE_FULL: calls_max or no room. BASE_BAD: no such api, or the request can't be encoded. */
MUST_USE
enum base_rc client_call(struct client *client, const struct client_call *call);

/* ---- results ---- */

enum client_result_kind {
    CLIENT_PRODUCED = 0, /* token, outcome, error, partition, offset, timestamp_ms */
    CLIENT_RECORD,       /* token, topic, topic_id, partition, record */
    CLIENT_AT_END, /* token, topic, partition, offset: everything there is was given; once each time the end is reached */
    CLIENT_FAILED, /* token, topic, partition, error (rc if not PORT_OK): the assignment has ended */
    CLIENT_ANSWER, /* token, api_key, version, answer; or answer == NULL and error (rc if not PORT_OK), is_indefinite */
    /* of the group, with its token */
    CLIENT_ASSIGNED,     /* topic, partition */
    CLIENT_RESUMED,      /* topic, partition, offset */
    CLIENT_COMMITTED,    /* topic, partition, offset, error */
    CLIENT_REVOKED,      /* topic, partition, outcome */
    CLIENT_GROUP_FAILED, /* error (rc if not PORT_OK) */
    CLIENT_LEFT,
};
enum client_outcome { CLIENT_ACKED = 0, CLIENT_REFUSED, CLIENT_UNKNOWN };

struct client_result {
    enum client_result_kind kind;
    enum client_outcome outcome;
    uint64_t token;
    int16_t error; /* Kafka's code; 0: none */
    enum port_rc rc;
    int32_t partition;
    int64_t offset;
    int64_t timestamp_ms; /* PRODUCED: log append time, or -1 */
    struct base_slice topic;
    /* RECORD: of the topic that it was fetched from, which another of that name may have followed; none: the fetch said the name */
    struct base_uuid topic_id;
    struct rec_record record;
    int16_t api_key;
    int16_t version;
    const void *answer; /* struct kafka_..._response */
    bool is_indefinite; /* the request may have been carried out */
};
/* The next result; false: none now. It emits nothing, but makes room: client_turn afterwards. */
MUST_USE
bool client_poll(struct client *client, struct client_result *result_out);

/* ---- views ---- */

struct client_view {
    uint32_t nodes_ready;     /* connections that requests can be sent on */
    bool was_ready;           /* there was one, ever */
    uint32_t connects_failed; /* since the last that succeeded */
    enum port_rc connect_rc;  /* why the last failed */
    int32_t controller;       /* -1: not known */
    size_t pages_used_bytes;
    uint32_t records;
};
void client_view(const struct client *client, struct client_view *view_out);

#endif
