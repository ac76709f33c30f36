/* controller.h: requests in, metadata records out, answers once those are committed.
 *
 * Room    core/controller. Uses base, metadata, wire/kafka. Cannot name a file or a socket.
 * Decide  on the committed image alone (const). All waiting requests are decided together, in order, as one proposal; one that
 *         touches a topic name or id that the proposal already touches waits for the next. One proposal is outstanding at most.
 * Apply   controller_apply is the only writer of the image; recovery runs the very same one. Nothing undecided or uncommitted
 *         is ever visible.
 * Owns    waiting requests and the proposal's bytes. A request, its arena and its response are the caller's, borrowed from
 *         controller_submit until CONTROLLER_OUT_ANSWER.
 * Pull    controller_poll until it says false, at the end of each step.
 * Limits  struct controller_config; CONTROLLER_RECORDS_MAX for one request (Kafka's own limit).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONTROLLER_CONTROLLER_H
#define CONTROLLER_CONTROLLER_H

#include "base/base.h"
#include "metadata/metadata.h"

struct controller;
struct kafka_create_topics_request;
struct kafka_describe_configs_request;
struct kafka_describe_configs_response;

#define CONTROLLER_RECORDS_MAX  10000 /* of one user's request: POLICY_VIOLATION beyond */
#define CONTROLLER_PRODUCER_IDS 1000  /* a block */
#define CONTROLLER_RAISES_MAX   256   /* partitions of one request: fewer than any proposal has room for */

struct controller_config {
    int32_t node_id;
    int32_t partitions_default;  /* num.partitions */
    int16_t replication_default; /* default.replication.factor */
    uint32_t requests_max;       /* waiting or being committed */
    uint32_t proposal_bytes_max; /* of one proposal; a request that needs more is refused with POLICY_VIOLATION */
    uint64_t seed;               /* of topic ids */
    bool is_check_slow;
};

enum controller_kind {                               /* request -> response, both decoded structs */
                       CONTROLLER_CREATE_TOPICS = 0, /* kafka_create_topics_request -> kafka_create_topics_response */
                       CONTROLLER_DELETE_TOPICS,     /* kafka_delete_topics_request -> kafka_delete_topics_response */
                       CONTROLLER_CREATE_PARTITIONS, /* kafka_create_partitions_request -> kafka_create_partitions_response */
                       CONTROLLER_ALTER_CONFIGS,   /* kafka_incremental_alter_configs_request -> ..._response */
                       CONTROLLER_REPLACE_CONFIGS, /* kafka_alter_configs_request -> kafka_alter_configs_response */
                       CONTROLLER_INIT_PRODUCER_ID, /* kafka_init_producer_id_request -> kafka_init_producer_id_response */
                       CONTROLLER_AUTO_CREATE,      /* controller_auto_create -> controller_auto_created */
                       CONTROLLER_REGISTER,         /* controller_register -> controller_registered */
                       CONTROLLER_RAISE_EPOCHS,     /* controller_raise -> controller_raised */
};

struct controller_auto_create { /* topics that a Metadata request named; duplicates are fine */
    const struct base_slice *names;
    uint32_t names_count;
};
struct controller_auto_created {
    int16_t *error_codes; /* beside names: 0 or TOPIC_ALREADY_EXISTS: look again; else why not */
    uint32_t error_codes_count;
};
struct controller_register {       /* this node, when it starts */
    struct metadata_broker broker; /* id, incarnation, directory, rack, endpoints; epoch is given by the controller */
    struct base_uuid cluster_uuid;
    int16_t metadata_level; /* the finalized metadata.version to write when the image has none; 0: none */
};
struct controller_registered {
    int16_t error_code;
    int64_t broker_epoch;
};

struct controller_raise { /* partitions whose next leader epoch is to begin; one that is not there is passed over */
    const struct base_part *ids;
    uint32_t count; /* at most CONTROLLER_RAISES_MAX */
};
struct controller_raised {
    int16_t error_code;
};

struct controller_request {
    uint64_t token;
    enum controller_kind kind;
    int16_t version; /* of the api; picks Kafka's behaviour of that version */
    const void *request;
    struct base_arena *arena; /* the response is built in it */
};

size_t controller_arena_bytes(const struct controller_config *config);
/* `image` is changed by controller_committed alone (and by controller_apply in recovery). */
MUST_USE
enum base_rc controller_create(struct base_arena *arena, struct base_pages *pages,
                               const struct controller_config *config, struct metadata *image,
                               struct controller **controller_out);

/* Fails BASE_FULL: requests_max are waiting; nothing has changed, refuse it. */
MUST_USE
enum base_rc controller_submit(struct controller *controller, const struct controller_request *request);

/* A metadata record value: KRaft's frame (frame version 1, record type, record version, all unsigned varints) and the message. */
struct controller_record {
    uint16_t type; /* Kafka's number */
    int16_t version;
    struct base_slice value; /* the whole record value, ready to be a record of a batch; its key is null */
};

enum controller_out_kind {
    CONTROLLER_OUT_PROPOSE =
        0,                 /* records, records_count: append as one batch to __cluster_metadata-0, synced; then answer
                                   controller_committed or controller_failed. Borrowed until then. */
    CONTROLLER_OUT_ANSWER, /* token, kind, response (the struct of that kind). NULL: its arena was too small */
};
struct controller_out {
    enum controller_out_kind kind;
    const struct controller_record *records;
    uint32_t records_count;
    uint64_t token;
    enum controller_kind request_kind;
    const void *response;
};
MUST_USE
bool controller_poll(struct controller *controller, struct controller_out *item_out);

/* The proposal is durable: applied, its requests answered. */
void controller_committed(struct controller *controller);
/* The proposal is not in the log, and its requests are answered with KAFKA_STORAGE_ERROR; the image is as it was.
 * UNDONE: nothing of it ever will be; what comes next is decided as before. BROKEN: the log has failed, and the proposal may be there
 * after a restart (indefinite): every later request is refused the same way. */
enum controller_failure { CONTROLLER_UNDONE = 0, CONTROLLER_BROKEN };
void controller_failed(struct controller *controller, enum controller_failure failure);
/* On a full disk: topics and partitions are not made (KAFKA_STORAGE_ERROR); deletions and configs are decided as ever. */
void controller_refuse_growth(struct controller *controller, bool is_refused);

bool controller_has_proposal(const struct controller *controller);
bool controller_is_quiet(const struct controller *controller);

/* ---- the image and its records ---------------------------------------------------------------------------------- */

/* Applies one record value. BASE_BAD: not a record, a type or version that is not known, or one that contradicts the image: the
 * log is damaged or newer than this program. BASE_FULL: the image is smaller than what was decided with.
 * scratch: for decoding, at least 16 times the value's bytes; reset by the caller. */
MUST_USE
enum base_rc controller_apply(struct metadata *image, struct base_slice value, struct base_arena *scratch);

/* The image as absolute records, one a call, so that applying them to an empty image gives an equal one. The cursor starts
 * zeroed; the image must not change until it says BASE_MISSING: done. The value stands in `buffer` (at least
 * CONTROLLER_RECORD_BYTES_MAX). */
#define CONTROLLER_RECORD_BYTES_MAX 4096
struct controller_cursor {
    uint32_t stage; /* private */
    uint32_t rank;
    uint32_t index;
    struct metadata_override_cursor override;
    bool is_inside;
};
MUST_USE
enum base_rc controller_snapshot_next(const struct metadata *image, struct controller_cursor *cursor,
                                      uint8_t buffer[CONTROLLER_RECORD_BYTES_MAX],
                                      struct controller_record *record_out);

/* ---- queries ---------------------------------------------------------------------------------------------------- */

/* Answers DescribeConfigs for topics, and says so of resources that have no configs. Those of brokers are left as they are, with
 * their names: the caller knows them. Fails BASE_FULL: the arena is too small. */
MUST_USE
enum base_rc controller_describe_configs(const struct metadata *image,
                                         const struct kafka_describe_configs_request *request, struct base_arena *arena,
                                         struct kafka_describe_configs_response *response_out);

/* A CreateTopics that is refused as a whole, where num.partitions is that: the answer has names and one error, no configs. */
bool controller_creates_too_many(const struct kafka_create_topics_request *request, int32_t partitions_default);

/* 0, or Kafka's error code for a name that no topic may have, and words in `message` (NULL: none are wanted). */
int16_t controller_check_topic_name(struct base_slice name, struct base_text *message);

#endif
