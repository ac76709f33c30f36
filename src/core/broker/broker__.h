/* broker__.h: what the files of this room share: the shard's struct and the words between its parts.
 *
 * Room    core/broker, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BROKER__H
#define BROKER__H

#include "broker/broker.h"
#include "broker__message.h"
#include "codec/codec.h"
#include "conn/conn.h"
#include "controller/controller.h"
#include "fetchsession/fetchsession.h"
#include "group/group.h"
#include "journal/journal.h"
#include "metadata/metadata.h"
#include "plog/plog.h"
#include "record/record.h"
#include "wait/wait.h"
#include "wire/kafka/kafka.h"

/* A step goes on only while so much of `out` is free: more than any one item of work emits. */
#define STEP_EFFECTS_ROOM 96

/* A queue of messages: the own shard's inbox, and what waits for room in `out` towards others. */
struct ring {
    struct port_message *slots;
    uint32_t size; /* a power of two */
    uint32_t head;
    uint32_t tail;
};
static inline uint32_t ring_count(const struct ring *ring) { return ring->tail - ring->head; }
static inline const struct port_message *ring_first(const struct ring *ring)
{
    CHECK(ring_count(ring) > 0);
    return &ring->slots[ring->head & (ring->size - 1)];
}
static inline uint32_t ring_room(const struct ring *ring) { return ring->size - ring_count(ring); }

/* ---- the back --------------------------------------------------------------------------------------------------- */

/* How a topic's batches are compressed: compression.type and its levels. */
struct batch_form {
    bool is_set; /* else as the producer sent them */
    enum codec_kind kind;
    int32_t level;
};
struct stored_batch {
    struct base_slice bytes;
    uint8_t *block; /* of the shard's pages, holds the bytes; NULL: they are the client's own */
};

/* What the back keeps of a log besides plog: the rules for what is produced to it. Indexed by plog_ref.slot. */
struct back_log {
    struct base_part id;
    struct plog_ref ref; /* generation 0: none */
    uint64_t segment_bytes;
    struct rec_rules rules;
    struct batch_form form;
    bool is_damage_told;
    uint64_t fetched_bytes; /* of its batches, in answers, since start */
};

/* Work of plog that somebody waits for. Its token in plog is its pool index + 1. */
enum back_op_kind {
    BACK_APPEND = 1,
    BACK_READ,
    BACK_TIME,
    BACK_METADATA_APPEND,
    BACK_METADATA_READ,
    BACK_DELETE,
    BACK_METADATA_START,
    BACK_GROUP_APPEND, /* of a coordinator: asker.slot is its number */
    BACK_GROUP_READ,
    BACK_GROUP_START
};
struct back_op {
    enum back_op_kind kind;
    uint8_t *block; /* of a batch that is not stored as it came; NULL: none */
    struct asker asker;
    uint32_t batch_bytes, batch_records; /* BACK_APPEND: what is counted once it is done */
};

/* ---- the front -------------------------------------------------------------------------------------------------- */

/*   begin -> ISSUING -all parts asked-> WAITING -parts are back-> ANSWERED -sent, parts back-> free
 *         -> CONTROLLED -the controller answered-> WAITING      Fetch: WAITING -> PARKED -woke, expired, gone->
 *            UNWATCHING -no shard watches for it-> ISSUING, or ANSWERED when its connection is gone
 *   ANSWERED, or WAITING before PARKED -many leases-> RELEASING -> where it went
 *   any of them -no memory-> STARVED -memory came back-> where it was (enum request_retry) */
enum request_state {
    REQUEST_FREE = 0,
    REQUEST_ISSUING,    /* its parts are being asked for, a portion a step; on broker.issuing */
    REQUEST_WAITING,    /* for parts, or in the middle of a step */
    REQUEST_PARKED,     /* Fetch: for a watermark or its deadline; its deadline is in the heap */
    REQUEST_UNWATCHING, /* Fetch: its watches are called off, a few a poll; on broker.unwatching */
    REQUEST_CONTROLLED, /* for the controller; Fetch: for the shard of its session */
    REQUEST_STARVED,    /* for memory; on broker.starved */
    REQUEST_RELEASING,  /* its leases, a few a poll; on broker.releasing */
    REQUEST_ANSWERED,   /* given to conn, or needs no answer; kept until its bytes have left and its parts are back */
};
enum request_retry { RETRY_DECODE = 0, RETRY_PARTS, RETRY_CONTROLLED, RETRY_ANSWER, RETRY_FETCH };

/* The producers of a partition, in the asker's arena; a back fills it in. */
struct producers_page {
    struct plog_producer *at;
    uint32_t max;
    uint32_t count; /* as many as there are: may be more than max */
};

/* Which part of which round of a request named a partition last. */
struct seen {
    uint32_t slot;
    uint32_t generation;
    uint32_t part;
};

/* One partition of a request that is split over shards. In the request's arena. */
struct part {
    struct base_part id;
    uint32_t shard;
    uint32_t topic_index; /* in the decoded request */
    uint32_t first_topic; /* Produce: the first one of the request with its name or id */
    uint32_t partition_index;
    int16_t error;
    bool is_asked;      /* its question has left */
    bool is_superseded; /* the request names its partition once more, later: that counts, and this is not answered */
    bool is_answered;   /* the last answer has come */
    bool is_written;    /* acks=1 has been told */
    bool is_watched;
    struct group_loan *loan; /* group apis: what its coordinator is asked */
    bool is_patient;         /* it may be answered much later: not one of broker.parts_asked */
    bool is_busy;            /* a read found no handle or no room: nothing is said of what is there */
    bool is_told;            /* what was read is in an answer */
    int32_t bad_record_index;
    uint16_t verdict;
    int64_t offset; /* base offset; time: offset found */
    int64_t timestamp_ms;
    int64_t log_start;
    int64_t watermark;
    int32_t leader_epoch;
    struct port_file file;
    uint64_t position_bytes;
    uint64_t size_bytes;
    uint64_t first_batch_bytes;
    uint64_t lease;
    /* what is asked */
    uint8_t *batch;
    uint32_t batch_bytes;
    uint32_t bytes_max;
    int64_t ask_offset;
    int32_t ask_epoch;
    struct producers_page *page;
};

/* What a front asks the shard of a session; in the request's arena. */
enum session_word { SESSION_BEGIN = 0, SESSION_JUDGE };
struct session_loan {
    struct fetchsession_ask ask;
    struct asker asker;
    enum fetchsession_verdict verdict; /* of begin */
    struct fetchsession_list *list;    /* a block of that shard; goes back with MSG_SESSION_END */
    bool is_current;                   /* of judge: no other fetch has gone on with it since */
};
/* What a Fetch is about. Its items are the request's parts, one each. */
struct fetching {
    struct session_loan loan;
    uint32_t shard;                  /* of the session */
    struct fetchsession_item *items; /* of the request, or of the list */
    uint32_t count;
    bool is_begun; /* what is missing is known */
    bool is_judging;
    bool is_judged;     /* what is told is known, and what follows */
    int32_t session_id; /* that is told; 0: none */
    int16_t error;
};

struct memory_block;
struct sized_topic;
struct kept;
struct request {
    struct base_link link;        /* of broker.issuing, starved, watching, unwatching or releasing */
    struct base_link parked_link; /* of the connection's parked requests */
    struct base_link
        unbegun_link; /* of those of the connection that have found no memory to begin, or wait behind such a one */
    struct base_heap_item deadline;
    enum request_state state;
    enum request_retry retry;
    uint32_t generation; /* another one each time old wake-ups must not be heard */
    uint64_t order;      /* of all that have come to this front */
    struct conn_request id;
    struct port_conn conn;
    uint32_t conn_index;
    uint32_t listener;
    int16_t api_key;
    int16_t version;
    int16_t answer_version;
    int32_t correlation;
    struct kafka_text client_id; /* in the frame */
    struct port_address peer;
    uint8_t *frame;
    struct base_slice body;      /* what follows the header, in the frame */
    struct memory_block *memory; /* a chain; the arena is in the newest */
    struct base_arena arena;
    void *decoded;      /* the request, in the arena */
    const void *answer; /* the response, in the arena */
    struct control_loan *loan;
    struct fetching *fetching; /* Fetch, in the arena */
    struct sized_topic *sized; /* DescribeLogDirs */
    uint32_t sized_count;
    bool is_space_known; /* its disk was asked, and has answered: what it said, or -1 */
    int64_t space_total_bytes;
    int64_t space_usable_bytes;
    struct part *parts;
    uint32_t part_count;
    uint32_t part_next;       /* the first not yet asked, watched or released */
    uint32_t parts_open;      /* asked and not yet answered for the last time */
    uint32_t parts_unwritten; /* acks=1: parts that have not said written or failed */
    uint64_t begun_ns;
    uint64_t deadline_ns;      /* Fetch */
    uint64_t shards_unwatched; /* Fetch: a bit each, of this time of calling off */
    uint64_t starves_until_ns; /* 0: has found its memory so far */
    uint8_t *answer_block;
    struct kept *kept;    /* it is being sent that, behind this */
    uint8_t kept_head[8]; /* what is its own of such an answer */
    bool wants_written;
    bool is_sent;       /* conn has let go of the answer (or needed none) */
    bool is_last_round; /* Fetch: answer whatever is found */
};

/* Answers that are sent again to whoever asks the same: broker__kept.c. */
#define KEPT_MAX 16
struct kept_answers {
    struct kept *at[KEPT_MAX];
    uint32_t count;
    size_t bytes;           /* of their blocks */
    uint64_t image_version; /* that they are of */
    uint64_t missed;        /* base_pages_missed, when it was looked at last */
};

/* A struct decoded by a front that shard 0's controller reads, and an answer that it builds in the front's arena. */
struct control_loan {
    struct controller_request request;
    struct asker asker;
    uint32_t shard;
    struct base_arena *arena;
    struct base_link levels_link; /* of broker.levels_waiting */
    const void *answer;           /* set by shard 0; NULL: it could not */
};
struct control_op {
    struct control_loan *loan;
};

/* What a front asks a coordinator about one group. The answer stands in `arena`, or in a block of the coordinator's shard. */
struct group_loan {
    struct group_request request;
    struct asker asker;
    struct base_arena arena;
    const void *response; /* NULL: it could not */
    void *block;          /* of that shard's pages; goes back with MSG_GROUP_GIVE */
};
struct group_op {
    struct group_loan *loan;
};

/* That a connection has a place among those that wait: from its JoinGroup's answer to its SyncGroup. */
struct promise {
    struct base_link link; /* of broker.promised, while it is one */
    uint64_t until_ns;     /* from then on whoever needs the place has it */
};

/* ---- shard 0's services ------------------------------------------------------------------------------------------ */

/* Batches of the metadata log on their way there or from there, lent to shards; given back when all have applied them. One at a time:
 * nothing more is decided until every shard has what was. */
struct delta {
    uint8_t *block; /* NULL: none */
    struct base_slice batches;
    uint32_t takers; /* yet to answer */
};

/* Records on their way into this shard's image and logs, one a poll. */
enum apply_source {
    APPLY_DELTA = 0, /* committed, from shard 0 */
    APPLY_LOADED,    /* shard 0: read from the log at start */
    APPLY_COMMITTED, /* shard 0: the controller has applied it, the logs are left to do */
};
struct applying {
    bool is_on;
    bool has_batch;
    enum apply_source source;
    struct base_slice rest;
    struct rec_walk walk;
    int64_t offset_end;
    /* The topic whose configs changed last: its logs get them when another's do, or at the end. */
    struct base_uuid configured;
};

enum change_kind { CHANGE_OTHER = 0, CHANGE_PARTITION, CHANGE_CONFIG, CHANGE_BROKER_CONFIG, CHANGE_TOPIC_REMOVED };
struct record_change {
    enum change_kind kind;
    struct base_uuid topic;
    int32_t index;
    struct base_slice name;
};
/* broker__records.c. BASE_BAD: not a metadata record. */
MUST_USE
enum base_rc record_change(struct base_slice value, struct base_arena *scratch, struct record_change *change_out);

/* A log of the node's own records: the metadata's, a coordinator's. */
struct own_log {
    struct plog_ref ref; /* generation 0: not open */
    int32_t epoch;
    int64_t next; /* offset that is read next, while it is loaded */
};

/* One coordinator log, on the shard that it hashes to. */
/* When a log of the node's own is written anew. What lies before its start counts in its size until its segment goes. */
struct grown {
    uint64_t held_bytes; /* the state, when it was last written anew */
    uint64_t from_bytes; /* the size of the log then, or less since */
};

struct coordinator {
    struct own_log log;
    uint8_t *block; /* the batch under way */
    struct group_out proposal;
    bool has_proposal; /* not yet appended */
    bool is_snapshotting;
    int64_t snapshot_offset; /* where the one under way began */
    uint64_t snapshot_bytes; /* of the one under way */
    struct grown grown;
};

struct journal_op { /* an entry on its way; its token in journal is its pool index + 1 */
    uint32_t shard;
    uint64_t run_token;
};

/* Kafka's special timestamps of ListOffsets. */
#define LIST_OFFSETS_LATEST                  INT64_C(-1)
#define LIST_OFFSETS_EARLIEST                INT64_C(-2)
#define LIST_OFFSETS_MAX_TIMESTAMP           INT64_C(-3)
#define LIST_OFFSETS_EARLIEST_LOCAL          INT64_C(-4)
#define LIST_OFFSETS_LATEST_TIERED           INT64_C(-5)
#define LIST_OFFSETS_EARLIEST_PENDING_UPLOAD INT64_C(-6)

/* All operations on a topic or the cluster, as bits of AclOperation: nothing is forbidden while there is no authorizer. */
#define TOPIC_OPERATIONS   3576
#define CLUSTER_OPERATIONS 8096

struct broker {
    struct broker_config config;
    enum broker_state state;
    bool is_disk_failed;
    int8_t levels[BROKER_LOGGERS];   /* of log lines; -1: root's */
    bool wants_debug;                /* so says one of them */
    uint32_t levels_due;             /* shard 0: shards that have not yet taken them */
    bool levels_are_news;            /* shard 0: they have changed since they were sent */
    struct base_list levels_waiting; /* shard 0: answers that leave when all shards have them */
    bool is_serving;                 /* this shard's front accepts */
    bool is_stop_asked;
    uint64_t now_ns;
    int64_t wall_ms;
    uint32_t step_left; /* items of work left in this step */
    struct base_prng dice;

    struct base_pages *pages;
    size_t blocks_bytes; /* of all of them */
    struct conns *conns;
    struct wait *wait;
    struct metadata *image;
    struct plog *plog;
    struct journal *journal;       /* shard 0 */
    struct controller *controller; /* shard 0 */
    struct groups *groups;
    struct fetchsessions *sessions;
    uint64_t session_seed; /* of hashes of what requests name */

    struct base_pool addresses; /* of those counted here: struct address */
    struct base_map addresses_by_ip;

    struct broker_counters counters;
    struct ring inbox;
    struct ring outbox;
    struct ring held; /* MSG_APPEND that wait for room in the journal */
    enum hold hold;
    bool is_journal_full;

    /* front */
    struct base_pool requests;
    struct base_heap deadlines; /* of parked requests */
    struct base_list issuing;
    struct base_list starved;
    struct base_list watching;
    struct base_list unwatching;
    struct base_list releasing;
    struct base_list *parked;  /* by connection index; initialised at first use */
    struct base_list *unbegun; /* so too; each of them is on starved */
    struct promise *promises;  /* by connection index */
    struct base_list promised; /* the oldest first */
    struct seen *seen;         /* by partition slot: parts_supersede */
    uint64_t starved_retry_ns;
    uint32_t request_generation;
    uint32_t parked_count;
    uint32_t parts_asked; /* of this front, not yet answered */
    uint32_t parts_asked_max;
    uint32_t patient_count;               /* patient parts of this front, asked and not yet answered, and promises */
    uint32_t patient_max[GROUP_SYNC + 1]; /* a JoinGroup beyond the one, a SyncGroup beyond the other is refused */
    uint16_t ports[BROKER_LISTENERS_MAX];
    uint32_t listeners_bound;
    bool is_draining;
    bool is_conn_stopped;
    bool is_drained;
    uint64_t drain_deadline_ns;
    uint64_t requests_come;
    uint64_t requests_done;
    uint64_t fetches_evaluated;
    struct kept_answers kept;

    /* back */
    struct base_pool back_ops;
    struct back_log *logs;
    uint32_t logs_max;
    struct base_part raising[CONTROLLER_RAISES_MAX]; /* lent to shard 0: see broker__raise.c */
    bool is_reconciling;
    uint32_t reconcile_cursor;
    bool is_configuring;                      /* every topic anew: what all brokers have in common has changed */
    char configured[METADATA_TOPIC_NAME_MAX]; /* the last one done, by name */
    uint32_t configured_bytes;
    bool is_checkpoint_due;
    struct applying applying;
    struct base_arena apply_scratch;

    /* the coordinators that live here */
    struct base_pool group_ops;
    struct coordinator *coordinators; /* by number, those of other shards too */
    uint32_t coordinator_next;        /* the one that is loaded now, or is next */
    bool is_coordinator_reading;
    uint8_t *coordinator_block; /* of the one that is loaded: what was read */
    struct applying coordinator_walk;
    uint32_t coordinator_tries;           /* of the log that is being loaded */
    uint64_t coordinator_load_ns;         /* it is gone on with then; 0: at once */
    uint64_t coordinator_retry_ns;        /* proposals that have not been written are tried again; 0: there are none */
    uint64_t group_refused[GROUP_LIMITS]; /* what has been said of it */
    uint64_t group_told_ns[GROUP_LIMITS]; /* not again before */

    /* shard 0 */
    uint32_t answers_due; /* of the shards, in the step of start or stop that is under way */
    uint32_t states_due;  /* shards whose states are not all in the checkpoint */
    struct base_pool control_ops;
    struct base_pool journal_ops;
    struct ring journal_waiting; /* MSG_JOURNAL that found no room */
    struct ring states_waiting;  /* MSG_STATE that found no room */
    struct own_log metadata_log;
    bool is_loading;
    bool has_lost_entries;    /* the journal has, or states that can't be read: of any log */
    bool is_metadata_suspect; /* it may lack records: what it does not know is not deleted */
    bool is_giving_up;
    enum plog_result not_taken; /* the first state or entry of the journal that a log could not take; PLOG_OK: none */
    bool is_metadata_writing;
    bool has_proposal; /* of the controller, not yet appended */
    struct controller_out proposal;
    uint32_t proposal_tries; /* that the disk refused */
    uint64_t proposal_retry_ns;
    uint64_t began_ns;       /* the first event */
    uint64_t moved_ns;       /* shard 0: when the node came to its state */
    uint64_t states_given;   /* at start */
    uint64_t entries_given;  /* at start */
    uint64_t bytes_given;    /* with them */
    uint64_t logs_recovered; /* on all shards */
    enum hold hold_told;     /* shard 0: what the others were told last */
    bool is_full_told;
    bool is_checkpointing;
    bool is_last_checkpoint;
    uint64_t checkpoint_began_ns;
    uint64_t checkpoint_states;        /* in it so far */
    uint64_t checkpoint_bytes;         /* of those */
    bool has_entries_since_checkpoint; /* since the last one began */
    struct delta delta;
    uint64_t raise_shards; /* a bit each: some log of theirs may lack its end */
    uint32_t raise_shard;  /* the one that is asked now */
    uint64_t raise_cursor;
    struct controller_raise raise;
    struct controller_register registration;
    struct base_arena register_arena;
    bool is_snapshotting;
    bool is_snapshot_read;
    uint64_t snapshot_again_ns; /* not before */
    struct controller_cursor snapshot_cursor;
    int64_t snapshot_offset;
    uint64_t snapshot_bytes;
    struct grown metadata_grown;
};

/* A loan of somebody's bytes that travels as void *: who borrows it knows whether it may be written to. */
static inline void *unconst(const void *at) { return (void *)(uintptr_t)at; }

static inline bool is_first(const struct broker *broker) { return broker->config.shard == 0; }
uint32_t shard_of(const struct broker *broker, struct base_part part);

/* broker.c */
MUST_USE
enum base_rc ring_create(struct base_arena *arena, uint32_t size, struct ring *ring_out);
void ring_push(struct ring *ring, const struct port_message *message);
MUST_USE
bool ring_pop(struct ring *ring, struct port_message *message_out);
struct port_message *message_begin(struct port_message *message, uint32_t to, enum message_kind kind);
void message_send(struct broker *broker, const struct port_message *message, struct port_out *out);
bool may_ask(const struct broker *broker);
uint64_t few_or(uint64_t few, uint64_t derived); /* of struct broker_few */
void message_to_all(struct broker *broker, const struct port_message *message, struct port_out *out); /* itself too */
void log_words(struct port_out *out, enum port_level level, const char *words, const char *detail);
/* " in 12 ms" */
void log_add_since(const struct broker *broker, struct base_text *text, uint64_t since_ns);

/* broker__addresses.c */
bool addresses_are_limited(const struct broker_config *config);
MUST_USE
enum base_rc addresses_create(struct broker *broker, struct base_arena *arena);
void addresses_opened(struct broker *broker, const struct conn_out *item, struct port_out *out);
void addresses_gone(struct broker *broker, const struct conn_out *item, struct port_out *out);
void addresses_message(struct broker *broker, const struct port_message *message, struct port_out *out);

/* broker__counters.c */
void count_answer(struct broker *broker, struct request *request);
void count_appended(struct broker *broker, const struct back_op *op, enum plog_result result);

/* broker__batch.c */
struct rec_rules batch_rules(const struct broker *broker, const struct metadata_topic *topic);
struct batch_form batch_form(const struct broker *broker, const struct metadata_topic *topic);
/* As rec_validate, and what is to be stored. REC_NO_ROOM: not now. */
MUST_USE
enum rec_verdict batch_judge(struct broker *broker, const struct back_log *log, struct base_slice bytes,
                             struct rec_facts *facts, struct stored_batch *stored);

/* broker__back.c */
void back_log_open(struct broker *broker, const struct metadata_topic *topic,
                   const struct metadata_partition *partition, struct port_out *out);
void back_topic_configure(struct broker *broker, const struct metadata_topic *topic);
void back_configure_all(struct broker *broker);  /* begins to give every log its topic's configs anew */
bool back_configure_poll(struct broker *broker); /* one topic; false: all have been done */
void back_reconcile(struct broker *broker);      /* begins to delete the logs that the image does not know */
void back_log_delete(struct broker *broker, struct base_part id, struct port_out *out);
const struct plog_ref *back_log_ref(struct broker *broker, struct base_part id,
                                    struct port_out *out); /* NULL: it is not here */
uint32_t back_take_op(struct broker *broker, enum back_op_kind kind,
                      struct asker asker);             /* BASE_POOL_NONE: none left */
int16_t back_epoch_error(int32_t asked, int32_t ours); /* asked: the leader epoch that a client knows; -1: none */
void back_message(struct broker *broker, const struct port_message *message, struct port_out *out);
bool back_poll(struct broker *broker, struct port_out *out); /* one item; false: none */
uint32_t back_logs(const struct broker *broker);             /* how many there are */
void get_run(const struct port_message *message, struct plog_run *run_out);
void put_run(struct port_message *message, const struct plog_run *run);

/* broker__front.c */
void front_message(struct broker *broker, const struct port_message *message, struct port_out *out);
bool front_poll(struct broker *broker, struct port_out *out);
bool front_issue(struct broker *broker, struct port_out *out);
void front_alarm(struct broker *broker, struct port_out *out);
uint64_t front_next_alarm_ns(const struct broker *broker);
uint32_t next_generation(struct broker *broker);
uint32_t request_slot(const struct broker *broker, const struct request *request);
struct asker request_asker(const struct broker *broker, const struct request *request, uint32_t part);
MUST_USE
bool request_reserve(struct broker *broker, struct request *request, size_t bytes); /* of the arena */
void request_starve(struct broker *broker, struct request *request, enum request_retry retry);
/* Room for `count` parts, cleared. False: no memory now; the request starves and begins anew. */
MUST_USE
bool request_take_parts(struct broker *broker, struct request *request, uint32_t count);
/* Which partition it is, and whose. */
void part_place(const struct broker *broker, struct part *part, const struct metadata_topic *topic, int32_t index);
/* Of a partition that the request has named before, only part `index` counts, the later one. Needs: part.id. True: it was named. */
bool parts_supersede(struct broker *broker, struct request *request, const struct metadata_topic *topic,
                     uint32_t index);
/* NULL: no such topic. */
const struct metadata_topic *request_topic(const struct broker *broker, const struct request *request,
                                           struct kafka_text name, struct base_uuid id);
/* What can be said of a partition without its shard. */
int16_t request_partition_error(const struct broker *broker, const struct request *request,
                                const struct metadata_topic *topic, int32_t index);
bool request_error_is_missing(int16_t error); /* the topic, or the partition, is not there */
void request_ask(struct broker *broker, struct request *request, struct port_out *out); /* begins to ask its parts */
void request_control(struct broker *broker, struct request *request, struct control_loan *loan, struct port_out *out);
void request_release_lease(struct broker *broker, struct part *part, struct port_out *out);
/* Of all parts. False: there are many, and it takes some polls; then the request is freed when it was sent, else fetch_released. */
MUST_USE
bool request_release_all(struct broker *broker, struct request *request, struct port_out *out);
void request_free_if_done(struct broker *broker, struct request *request, struct port_out *out);

/* broker__answer.c */
void request_answer(struct broker *broker, struct request *request, const void *answer, struct port_out *out);
void request_answer_in(struct broker *broker, struct request *request, const void *answer, int16_t version,
                       struct port_out *out);
void request_answer_none(struct broker *broker, struct request *request, struct port_out *out);
void request_answer_end(struct broker *broker, struct request *request, struct port_out *out);
void request_fail(struct broker *broker, struct request *request, const char *why, struct port_out *out);
/* BASE_FULL: no memory for so many pieces, and nothing has changed. */
MUST_USE
enum base_rc request_hand_over(struct broker *broker, struct request *request, const struct port_piece *pieces,
                               uint32_t count, struct port_out *out);

/* broker__kept.c. False: it was not answered, and nothing has changed. */
MUST_USE
bool kept_answer(struct broker *broker, struct request *request, struct port_out *out); /* one that is kept */
/* Keeps the answer and sends it. Needs: it follows from the request and the image, and nothing was made for it. */
MUST_USE
bool kept_add(struct broker *broker, struct request *request, const void *answer, struct port_out *out);
void kept_release(struct broker *broker, struct request *request); /* it has left */
/* After a step: what is kept goes where memory was missed. */
void kept_yield(struct broker *broker, struct port_out *out);

/* broker__produce.c, broker__fetch.c, broker__offsets.c, broker__topics.c */
void produce_begin(struct broker *broker, struct request *request, struct port_out *out);
void produce_answered(struct broker *broker, struct request *request, struct port_out *out);
void produce_written(struct broker *broker, struct request *request, uint32_t index, const struct port_message *message,
                     struct port_out *out);
bool fetch_uses_ids(const struct request *request); /* topics are named by id, not by name */
bool fetch_is_replica(const struct request *request);
void fetch_begin(struct broker *broker, struct request *request, struct port_out *out);
void fetch_answered(struct broker *broker, struct request *request, struct port_out *out);
void fetch_released(struct broker *broker, struct request *request, struct port_out *out);
void fetch_woke(struct broker *broker, struct request *request, struct port_out *out);
void fetch_unwatched(struct broker *broker, struct request *request);
void fetch_expired(struct broker *broker, struct request *request, struct port_out *out);
bool fetch_watch(struct broker *broker, struct port_out *out);
bool fetch_unwatch(struct broker *broker, struct port_out *out);
void fetch_read(struct broker *broker, struct request *request, struct port_out *out); /* its items are known */
void fetch_tell(struct broker *broker, struct request *request, struct port_out *out); /* what is told is known */
void fetch_refuse(struct broker *broker, struct request *request, int16_t error, struct port_out *out);

/* broker__session.c */
void session_begin(struct broker *broker, struct request *request, struct port_out *out);
void session_done(struct broker *broker, struct request *request, struct port_out *out);
/* True: it is known which items are told. False: it was asked, and fetch_tell follows. */
MUST_USE
bool session_judge(struct broker *broker, struct request *request, struct port_out *out);
void session_end(struct broker *broker, struct request *request, struct port_out *out);
void session_message(struct broker *broker, const struct port_message *message, struct port_out *out);

void list_offsets_begin(struct broker *broker, struct request *request, struct port_out *out);
void list_offsets_answered(struct broker *broker, struct request *request, struct port_out *out);
bool topics_serves(int16_t api_key, int16_t version);
void topics_refuse_version(struct broker *broker, struct request *request, struct port_out *out);
void topics_begin(struct broker *broker, struct request *request, struct port_out *out);
void topics_controlled(struct broker *broker, struct request *request, struct port_out *out);

/* The longest words of an error that an answer builds. */
#define ANSWER_WORDS_MAX 400
/* Room for a struct of an answer, which was reserved. */
void *answer_take(struct request *request, size_t size_bytes);
int32_t *answer_copy_ids(struct request *request, const int32_t *ids, uint32_t count);

/* broker__names.c: sorts bytewise, in n log n steps without memory; each name is kept once. Gives how many are left. */
uint32_t names_sort(struct base_slice *at, uint32_t count);

/* broker__metadata.c */
void metadata_begin(struct broker *broker, struct request *request, struct port_out *out);
void metadata_controlled(struct broker *broker, struct request *request, struct port_out *out);

/* broker__about.c */
void about_size(struct broker *broker, const struct port_message *message, struct port_out *out);
void about_producers(struct broker *broker, const struct port_message *message, struct port_out *out);
void about_epoch(struct broker *broker, const struct port_message *message, struct port_out *out);
void about_delete(struct broker *broker, const struct port_message *message, struct port_out *out);
void about_deleted(struct broker *broker, struct asker asker, int16_t error, int64_t offset_start,
                   struct port_out *out);

/* broker__logs.c */
void epochs_begin(struct broker *broker, struct request *request, struct port_out *out);
void epochs_answered(struct broker *broker, struct request *request, struct port_out *out);
void producers_begin(struct broker *broker, struct request *request, struct port_out *out);
void producers_answered(struct broker *broker, struct request *request, struct port_out *out);
void delete_records_begin(struct broker *broker, struct request *request, struct port_out *out);
void delete_records_answered(struct broker *broker, struct request *request, struct port_out *out);
void log_dirs_begin(struct broker *broker, struct request *request, struct port_out *out);
void log_dirs_answered(struct broker *broker, struct request *request, struct port_out *out);
struct kafka_describe_configs_request_describe_configs_resource;
struct kafka_describe_configs_response_describe_configs_result;
bool configs_is_asked_for(const struct kafka_describe_configs_request_describe_configs_resource *resource,
                          struct base_slice name);
bool configs_is_node_id(struct base_slice name, int64_t *id_out);
/* False: `text` says why not, and what besides its id may be named. */
bool configs_is_this_node(const struct broker *broker, struct base_slice name, const char *others,
                          struct base_text *text);
/* A copy in the arena; false: no room. */
bool configs_put_words(struct base_arena *arena, const struct base_text *text, struct kafka_text *words_out);
/* BASE_FULL: no room for the words. */
MUST_USE
enum base_rc configs_refuse(struct request *request,
                            struct kafka_describe_configs_response_describe_configs_result *result,
                            const struct base_text *text);
/* broker__levels.c. What of it BROKER_LOGGER is: one resource of DescribeConfigs (BASE_FULL: the arena is), and on shard 0 all of an
 * IncrementalAlterConfigs that the controller found no fault with, whose answer waits until every shard has what it set. */
struct kafka_describe_configs_response;
struct kafka_incremental_alter_configs_request;
struct kafka_incremental_alter_configs_response;
MUST_USE
enum base_rc levels_describe(const struct broker *broker, struct request *request, int32_t resource_index,
                             struct kafka_describe_configs_response *answer);
void levels_begin(struct broker *broker); /* as configured */
void levels_alter(struct broker *broker, const struct kafka_incremental_alter_configs_request *asked,
                  struct kafka_incremental_alter_configs_response *answer, struct base_arena *arena,
                  struct port_out *out);
void levels_message(struct broker *broker, const struct port_message *message, struct port_out *out);
bool levels_wait(struct broker *broker, struct control_loan *loan); /* False: there is nothing to wait for */
bool levels_poll(struct broker *broker, struct port_out *out);
#define FRONT_TOKEN_ROOM ((uint64_t)0x46)
/* A completion whose token has FRONT_TOKEN_ROOM in its top byte: how much room there is on the disk. */
void front_done(struct broker *broker, const struct port_event *event, struct port_out *out);

/* broker__configs.c */
void describe_configs_begin(struct broker *broker, struct request *request, struct port_out *out);

/* broker__describe.c */
void describe_cluster_begin(struct broker *broker, struct request *request, struct port_out *out);
void describe_topic_partitions_begin(struct broker *broker, struct request *request, struct port_out *out);
void list_config_resources_begin(struct broker *broker, struct request *request, struct port_out *out);

/* broker__groups.c: the front's side of groups */
bool groups_is_api(int16_t api_key);
void groups_begin(struct broker *broker, struct request *request, struct port_out *out);
void groups_ask(struct broker *broker, struct request *request, struct part *part, uint32_t index,
                struct port_out *out);
void groups_answered(struct broker *broker, struct request *request, struct port_out *out);
void groups_part_answered(struct broker *broker, const struct request *request, const struct part *part);
/* Of so many requests of a front: how many JoinGroups, or SyncGroups and those, may wait for their groups. */
uint32_t groups_patient_max(enum group_kind kind, uint32_t requests);
/* What changes a group, or waits for one, holds its connection. */
void groups_hold(struct broker *broker, const struct request *request);
void groups_gone(struct broker *broker, uint32_t conn_index); /* no SyncGroup comes of that connection any more */
void groups_release(struct broker *broker, struct part *part, struct port_out *out);

/* broker__coordinator.c: the coordinators of this shard */
bool is_coordinator_part(struct base_part part);
MUST_USE
enum base_rc coordinator_create(struct broker *broker, struct base_arena *arena, size_t region_bytes,
                                uint32_t requests);
void coordinator_message(struct broker *broker, const struct port_message *message, struct port_out *out);
void coordinator_begin(struct broker *broker); /* the image is there: loads them, one after another */
bool coordinator_poll(struct broker *broker, struct port_out *out);
void coordinator_read(struct broker *broker, const struct plog_out *answer, struct port_out *out);
void coordinator_written(struct broker *broker, uint32_t number, enum plog_result result, struct port_out *out);
uint64_t coordinator_next_alarm_ns(const struct broker *broker);

/* broker__own.c. `number`: the coordinator's; comes back as asker.slot. */
bool is_own_part(struct base_part id);
/* Before the entry is replayed: where it is the first that is left of an own log, and what said how to make the log is damaged or lost,
 * makes it. Fails BASE_FULL: no room for one more log. BASE_BAD: no such log can be. */
MUST_USE
enum base_rc own_log_replays(struct broker *broker, const struct plog_run *run, struct base_slice bytes,
                             struct port_out *out);
/* Under an epoch of its own: none spans a restart of its leader. Fails BASE_FULL: no room for one more log. */
MUST_USE
enum base_rc own_log_open(struct broker *broker, struct base_part id, struct own_log *log_out);
/* From log->next on. Fail BASE_FULL: no room now, and nothing has changed. */
MUST_USE
enum base_rc own_log_read(struct broker *broker, const struct own_log *log, enum back_op_kind kind, uint32_t number,
                          struct port_out *out);
MUST_USE
enum base_rc own_log_append(struct broker *broker, const struct own_log *log, enum back_op_kind kind, uint32_t number,
                            struct base_slice batch, struct port_out *out);
/* If it can be done now: else the next snapshot does it. */
void own_log_move_start(struct broker *broker, const struct own_log *log, enum back_op_kind kind, int64_t offset,
                        struct port_out *out);
/* It has grown by so much since it was last written anew, and by as much as it held then. */
bool own_log_has_grown(const struct broker *broker, const struct own_log *log, struct grown *grown, uint64_t by_bytes);
void own_log_written_anew(const struct broker *broker, const struct own_log *log, struct grown *grown,
                          uint64_t held_bytes);
/* The next record of what is walked through; false: that was the last. */
MUST_USE
bool records_next(struct applying *applying, struct rec_record *record_out);

/* broker__raise.c */
void raise_gather(struct broker *broker, uint64_t cursor, struct port_out *out);

/* broker__start.c */
void start_begin(struct broker *broker, struct port_out *out);
void start_message(struct broker *broker, const struct port_message *message, struct port_out *out);
bool start_poll(struct broker *broker, struct port_out *out); /* shard 0: journal, controller */
void start_listening(struct broker *broker, uint32_t listener, enum port_rc rc, uint16_t port, struct port_out *out);
void start_drained_if_done(struct broker *broker, struct port_out *out);
void stop_begin(struct broker *broker, struct port_out *out);

/* broker__image.c */
uint64_t start_next_alarm_ns(const struct broker *broker);
bool apply_poll(struct broker *broker, struct port_out *out);
void metadata_written(struct broker *broker, enum plog_result result, struct port_out *out);
void metadata_read(struct broker *broker, const struct plog_out *answer, struct port_out *out);

#endif
