/* broker.h: one shard of a broker: the rooms composed, the requests routed.
 *
 * Room    core/broker. Uses every room of the core; nobody in the core uses it.
 * Owns    its region whole: conn, wait, metadata, plog, on shard 0 journal and controller too, and every request in flight.
 *
 * HOW IT STANDS. A shard has a front (its connections: decode, route, split, join, answer) and a back (its partitions: judge,
 * append, read, watch). Front and back, and shard 0's services (journal, controller), talk in messages only: struct
 * port_message, to another shard through the port, to the own one through a queue of the same form. A message that asks
 * gets exactly one that answers; what it lent stays the lender's until then.
 *
 * A partition lives on the shard that its topic id and index hash to; the metadata log, the controller and the journal on
 * shard 0. Every shard has the whole metadata image, kept current by deltas that shard 0 sends when they are committed,
 * before any answer that depends on them.
 *
 * THE MOVES OF A NODE (broker__start.c)
 *   BOOT -journal read, states and entries given to their shards-> RECOVERING -all shards recovered-> LOADING (metadata log)
 *   -applied-> SERVING -STOP-> DRAINING (fronts) -> CHECKPOINTING -> CLOSING -> STOPPED
 *   A start that can't go on (journal unreadable, address taken) says why in one FATAL line and goes to STOPPED.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include "base/base.h"
#include "port/port.h"

struct broker;

#define BROKER_LISTENERS_MAX      4
#define BROKER_SHARDS_MAX         64
#define BROKER_PAIRS_MAX          512
#define BROKER_ADDRESS_LIMITS_MAX 64
#define BROKER_LOGGERS            22
#define BROKER_PARTS_OF_FRONT_MIN 16 /* that a front may ask of the backs at once */

struct broker_listener {
    char name[16];                /* PLAINTEXT */
    char host[PORT_HOST_MAX + 1]; /* as advertised */
    struct port_address address;  /* to bind; port 0: any */
    uint16_t port_advertised;     /* 0: the one really bound */
};

/* A server property that was given: the default of a topic config (log.segment.bytes=...), and what DescribeConfigs shows. Borrowed
 * for as long as the broker lives. */
struct broker_pair {
    struct base_slice name;
    struct base_slice value;
};

struct broker_address_limit {
    uint8_t ip[16]; /* as in struct port_address */
    int32_t connections_max;
};

/* For the simulator and tests: of what else follows from the region or from other limits, only so many. 0: as many as follow. */
struct broker_few {
    uint32_t requests; /* of this shard, in flight */
    /* Of all shards' requests, on its logs at once, and each front asks for its share: BROKER_PARTS_OF_FRONT_MIN times the shards at
     * least. */
    uint32_t parts;
    uint32_t reads;           /* of its logs, under way or lent */
    uint32_t segments;        /* of its logs */
    uint32_t journal_entries; /* under way */
    uint32_t configs;         /* of topics and brokers, beside the defaults */
    uint64_t group_text_bytes;
    uint64_t reserve_bytes;  /* on the disk, for metadata and deletions */
    uint64_t proposal_bytes; /* of the controller: 64 KiB at least */
    uint64_t block_bytes;    /* memory for blocks */
};

struct broker_config {
    uint32_t shard;
    uint32_t shards;
    uint64_t seed; /* real entropy, another for each shard */
    int32_t node_id;
    char cluster_id[23]; /* 22 characters, NUL */
    struct broker_listener listeners[BROKER_LISTENERS_MAX];
    uint32_t listener_count;
    const struct broker_pair *pairs;
    uint32_t pair_count;
    /* limits; 0 in the pool sizes: derived from the region */
    bool is_auto_create;               /* auto.create.topics.enable */
    int32_t partitions_default;        /* num.partitions */
    uint32_t described_partitions_max; /* max.request.partition.size.limit */
    uint32_t request_bytes_max;        /* socket.request.max.bytes */
    uint32_t connections_max;          /* of this shard */
    uint32_t in_flight_max;            /* of a connection */
    uint64_t idle_ms;                  /* connections.max.idle.ms */
    int32_t address_connections_max; /* of one address, on all shards: max.connections.per.ip; INT32_MAX: any number */
    const struct broker_address_limit *address_limits; /* max.connections.per.ip.overrides; borrowed */
    uint32_t address_limit_count;
    uint64_t queued_bytes_max;    /* of this shard: queued.max.request.bytes / shards; 0: as memory goes */
    uint32_t files_max;           /* of this shard: log segments and indexes open at once, weir.files.max / shards */
    int32_t fetch_bytes_max;      /* fetch.max.bytes */
    uint32_t session_slots_max;   /* of the node: max.incremental.fetch.session.cache.slots */
    uint64_t session_eviction_ms; /* weir.fetch.session.eviction.ms */
    uint64_t session_bytes_max;   /* of the node: weir.fetch.session.bytes.max; 0: an eighth of the memory for blocks */
    uint32_t coordinator_groups;  /* weir.coordinator.groups */
    uint64_t coordinator_grown_bytes;  /* a log of the node's own is written anew when it has grown by so much, */
    uint64_t metadata_grown_bytes;     /* and by as much as it held: metadata.log.max.record.bytes.between.snapshots */
    uint64_t own_segment_bytes;        /* of such a log */
    int32_t group_initial_delay_ms;    /* group.initial.rebalance.delay.ms */
    int32_t group_session_min_ms;      /* group.min.session.timeout.ms */
    int32_t group_session_max_ms;      /* group.max.session.timeout.ms */
    int32_t group_size_max;            /* group.max.size */
    uint32_t groups_max;               /* of a shard: weir.groups.max; 0: by the region */
    uint32_t group_members_max;        /* weir.group.members.max */
    uint32_t group_offsets_max;        /* weir.group.offsets.max */
    int32_t offset_metadata_max;       /* offset.metadata.max.bytes */
    int32_t offsets_retention_minutes; /* offsets.retention.minutes */
    uint64_t offsets_check_ms;         /* offsets.retention.check.interval.ms */
    uint32_t topics_max;
    uint32_t partitions_max; /* of the node */
    uint32_t producers_max;  /* of this shard: producers times the partitions that each writes to; 0: by the region */
    uint64_t producer_expiry_ms;     /* producer.id.expiration.ms */
    uint64_t retention_check_ms;     /* log.retention.check.interval.ms */
    uint64_t journal_bytes_max;      /* weir.journal.bytes.max */
    uint64_t journal_file_bytes;     /* 64 MiB */
    uint32_t inline_bytes_max;       /* docs/decisions: 64 KiB */
    uint32_t decompressed_bytes_max; /* max.decompressed.message.bytes */
    uint64_t shutdown_ms;            /* weir.shutdown.timeout.ms */
    uint32_t step_max;               /* items of work per step; 1 in some tests */
    bool validates_records;          /* weir.record.validation=full */
    bool is_check_slow;
    int8_t
        levels[BROKER_LOGGERS]; /* enum port_level of broker_logger_name(i); -1: root's. As they were told at start */
    uint64_t refuse_from;       /* simulator: the n-th taking of a block of memory finds none; 0: none does */
    uint32_t refuse_count;      /* and so many in a row */
    struct broker_few few;
};

/* What has a level of its own for its log lines: "root", whose level is that of all that have none, and then the rooms. */
const char *broker_logger_name(uint32_t index); /* NULL: no more */
uint32_t broker_logger(struct base_slice name); /* BROKER_LOGGERS: no such one */

#define BROKER_REGION_BYTES_MIN      ((size_t)12 << 20)
#define BROKER_FILE_SLOTS(files_max) ((files_max) + 64) /* file slots a shard's host needs */

void broker_config_default(struct broker_config *config);

/* Lays the shard out in `region` (zero-filled). The first event it takes is PORT_EVENT_START.
 * Fails   BASE_FULL: the region is smaller than what the configuration needs. */
MUST_USE
enum base_rc broker_create(struct base_region region, const struct broker_config *config, struct broker **broker_out);

/* One event in, effects and messages out. At most PORT_EFFECTS_MAX effects and PORT_MESSAGES_MAX messages. */
void broker_step(struct broker *broker, const struct port_event *event, struct port_out *out);

/* ---- views: for metrics, checkers and tests; they change nothing ------------------------------------------------------------ */

enum broker_state {
    BROKER_BOOT = 0,
    BROKER_RECOVERING,
    BROKER_LOADING,
    BROKER_SERVING,
    BROKER_DRAINING,
    BROKER_CHECKPOINTING,
    BROKER_CLOSING,
    BROKER_STOPPED
};
const char *broker_state_name(enum broker_state state);

#define BROKER_BUCKETS  16
#define BROKER_APIS_MAX 128
struct broker_histogram {
    uint64_t counts[BROKER_BUCKETS]; /* each of its own bucket alone */
    uint64_t sum_ns;
};
extern const uint64_t
    broker_request_bounds_ns[BROKER_BUCKETS]; /* the upper bounds, inclusive; the last is UINT64_MAX */
/* Needs bounds that rise to UINT64_MAX. */
void broker_histogram_add(struct broker_histogram *histogram, const uint64_t bounds_ns[BROKER_BUCKETS], uint64_t ns);

/* Of this shard, since start. What is produced is counted where the partition is, requests where their connection is. */
struct broker_counters {
    struct broker_histogram requests
        [BROKER_APIS_MAX]; /* by api key: from the whole frame to the answer given to the network, or to where none is due */
    uint64_t requests_closed; /* ended by closing the connection instead of an answer */
    uint64_t produced_batches, produced_records, produced_bytes; /* stored, as they are stored */
    uint64_t duplicate_batches;                                  /* answered as what they repeat */
    uint64_t refused_batches;                                    /* with whatever error */
    uint64_t fetched_bytes;                                      /* of records, in answers */
};
const struct broker_counters *broker_counters(const struct broker *broker);

/* Of an effect: whether it is the journal's, not a log's. */
bool broker_is_token_of_journal(uint64_t token);

struct broker_view {
    enum broker_state state;
    bool is_disk_failed;
    bool is_metadata_anew;                /* shard 0: its log is being written anew */
    uint16_t ports[BROKER_LISTENERS_MAX]; /* of each listener, once bound */
    uint32_t connections;
    uint32_t requests; /* in flight */
    uint32_t parked;   /* fetches waiting */
    uint32_t logs;
    uint32_t refused, refusals_left; /* of refuse_count */
    uint64_t memory_used_bytes;      /* blocks out of the region's pages */
    uint64_t memory_total_bytes;
    uint64_t memory_room_bytes[3];  /* what control, replication and clients could still take (enum base_class) */
    uint64_t memory_class_bytes[3]; /* and what they have taken */
    uint64_t journal_syncs, journal_groups, journal_entries; /* shard 0: issued or written since start */
    uint64_t journal_sync_sizes[BROKER_BUCKETS]; /* shard 0: how many syncs were for 1, up to 2, up to 4 entries ... */
    uint64_t journal_synced_entries;             /* shard 0: of all of them */
    uint64_t journal_bytes;                      /* shard 0: what a restart would read */
    bool is_journal_full;                        /* shard 0: near its limit */
    uint32_t inbox, outbox;                      /* messages waiting */
    uint32_t waiting_for_memory, waiting_for_requests;                 /* connections */
    uint32_t starved;                                                  /* requests that wait for memory */
    uint64_t accepted_total, closed_total, received_bytes, sent_bytes; /* connections */
    uint32_t groups, members, offsets;                                 /* coordinated here */
    uint64_t requests_done;
    uint64_t fetches_evaluated; /* rounds of reads begun for Fetch: what a parked fetch must not add to */
    uint32_t fetch_sessions;    /* that live on this shard, and all that follows is of them */
    uint32_t fetch_session_partitions;
    uint64_t fetch_sessions_opened;
    uint64_t fetch_sessions_evicted;
    uint64_t fetch_sessions_refused; /* there was no room for them */
    uint64_t fetch_session_bytes;
};
void broker_view(const struct broker *broker, struct broker_view *view_out);

struct broker_log_view {
    struct base_part id;
    struct base_slice topic;
    int64_t offset_start;
    int64_t start_next; /* where a move under way brings it */
    int64_t offset_end;
    int64_t watermark;
    int32_t leader_epoch;
    uint64_t size_bytes;
    uint64_t fetched_bytes; /* in answers that have left, since start */
    bool is_failed;
    bool is_damaged;
};
/* The logs of this shard, in slot order; *cursor 0 first; false at the end. */
bool broker_each_log(const struct broker *broker, uint32_t *cursor, struct broker_log_view *view_out);

struct broker_commit_view {
    struct base_slice group;
    struct base_part id;
    int64_t offset;
};
/* The offsets committed to the coordinators of this shard; as broker_each_log. */
bool broker_each_commit(const struct broker *broker, uint32_t *cursor, struct broker_commit_view *view_out);

/* The coordinators of this shard (group/group.h), to be looked at only. */
struct groups;
const struct groups *broker_groups(const struct broker *broker);

/* Nothing in flight: every buffer, lease, slot and watch is back (I25). */
bool broker_is_quiet(const struct broker *broker);
/* Blocks of memory that nobody holds once it is quiet, and that were not given back: 0. Below: some were given back twice. */
int64_t broker_lost_blocks(const struct broker *broker);

#endif
