/* group.h: the coordinators of this shard: consumer groups of the classic protocol, and committed offsets.
 *
 * Room    core/group. Uses base, metadata, wire/kafka. Cannot name a file or a socket.
 * Logs    a key (group id) belongs to one coordinator log (group_log_of); this machine leads some of the logs of its node. Each
 *         log is a replicated machine: it is told group_leads, proposes records, and is told group_committed or group_failed.
 * Decide  on committed state. All that waits for a log is decided together, as one proposal of records; one proposal of a log is
 *         outstanding at most, and what arrives meanwhile waits for it. A key that the proposal changes in a way that others must
 *         see first (a new generation, an assignment) is decided again only after it landed. Reads are answered from committed
 *         state at once, but a FETCH that is_ordered: it sees whatever was asked before it.
 * Apply   group_apply is the only writer of what is replicated, in life and in recovery. Records are absolute.
 * Not     replicated: timers, requests that wait for a rebalance, member ids given out but not yet joined. A new leader gives
 *         every member one full session time-out.
 * Owns    the texts of groups and members, and a proposal's bytes until it landed. A request, what it points at and its arena
 *         are borrowed from group_submit until its answer.
 * Pull    group_poll until it says GROUP_OUT_NOTHING, at the end of each step; one item of work a call. Of one group's members
 *         a call may look at all.
 * Limits  struct group_config. Deciding is refused for want of room; applying never is: the memory is for twice as much, so that logs
 *         that fitted together are loaded one after the other, whatever each held in between.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GROUP_GROUP_H
#define GROUP_GROUP_H

#include "base/base.h"
#include "metadata/metadata.h"

struct groups;

#define GROUP_LOGS_MAX        1024 /* weir.coordinator.groups */
#define GROUP_PROTOCOLS_MAX   64   /* of one member */
#define GROUP_ANSWER_BYTES    512  /* room in a request's arena that holds any answer without lists */
#define GROUP_MEMBER_ID_WORDS 37   /* '-' and a UUID, after the client's or instance's name */

struct group_config {
    uint32_t logs_count; /* of the node: weir.coordinator.groups */
    uint32_t groups_max;
    uint32_t members_max;
    uint32_t offsets_max;
    uint32_t requests_max;       /* submitted and not yet answered */
    size_t state_bytes;          /* for texts, subscriptions, assignments */
    uint32_t proposal_bytes;     /* of an ordinary proposal */
    uint32_t proposal_bytes_max; /* of one that holds a single large decision */
    size_t answer_bytes_max;     /* of a block for one: a longer answer is none */
    int32_t size_max;            /* group.max.size */
    int32_t session_min_ms;      /* group.min.session.timeout.ms */
    int32_t session_max_ms;
    int32_t initial_delay_ms;     /* group.initial.rebalance.delay.ms */
    int32_t offset_metadata_max;  /* offset.metadata.max.bytes */
    int64_t offsets_retention_ms; /* offsets.retention.minutes */
    uint64_t offsets_check_ms;    /* offsets.retention.check.interval.ms */
    uint64_t seed;                /* real entropy: of member ids */
    bool is_check_slow;
};
void group_config_default(struct group_config *config);

size_t group_arena_bytes(const struct group_config *config);
/* Fails BASE_FULL: the arena is too small. `image` is read only; `pages` lends proposals and large answers. */
MUST_USE
enum base_rc group_create(struct base_arena *arena, struct base_pages *pages, const struct group_config *config,
                          const struct metadata *image, struct groups **groups_out);

/* The log of a key: the same on every node. */
uint32_t group_log_of(struct base_slice group_id, uint32_t logs_count);

/* ---- what a log says ---------------------------------------------------------------------------------------------- */

/* The log will be led here: until it is, ListGroups get COORDINATOR_LOAD_IN_PROGRESS, not a list without its groups. */
void group_awaits(struct groups *groups, uint32_t log);
/* Every record up to the end is applied: its keys are served from the next poll on. Before: COORDINATOR_LOAD_IN_PROGRESS. */
void group_leads(struct groups *groups, uint32_t log, uint64_t now_ns, int64_t wall_ms);
/* The log can't be served: NOT_COORDINATOR. */
void group_refuses(struct groups *groups, uint32_t log);
bool group_is_leading(const struct groups *groups, uint32_t log);

/* Applies one record value. BASE_BAD: no such record. BASE_FULL: the limits are smaller than what was decided with. */
MUST_USE
enum base_rc group_apply(struct groups *groups, uint32_t log, struct base_slice value);

/* The outstanding proposal of the log is durable: applied, its requests answered. */
void group_committed(struct groups *groups, uint32_t log);
/* It may or may not be in the log: nothing more is decided, its requests and all later ones get NOT_COORDINATOR. */
void group_failed(struct groups *groups, uint32_t log);

/* The log is to be written anew as absolute records: proposals with is_snapshot follow, the last has is_snapshot_end. */
void group_snapshot(struct groups *groups, uint32_t log);

/* The node stops: whoever waits is answered NOT_COORDINATOR, and so is whoever comes. */
void group_drain(struct groups *groups);
/* A topic was deleted: its offsets are not seen any more, and go. */
void group_topics_changed(struct groups *groups);

/* ---- requests ----------------------------------------------------------------------------------------------------- */

enum group_kind {                 /* request -> response; (of one group) stands for a part of the message */
                  GROUP_JOIN = 0, /* kafka_join_group_request -> kafka_join_group_response */
                  GROUP_SYNC,
                  GROUP_HEARTBEAT,
                  GROUP_LEAVE,
                  GROUP_COMMIT,        /* kafka_offset_commit_request -> ..._response */
                  GROUP_OFFSET_DELETE, /* kafka_offset_delete_request -> ..._response */
                  GROUP_DELETE,        /* none -> kafka_delete_groups_response_deletable_group_result */
                  GROUP_FETCH,         /* kafka_offset_fetch_request_offset_fetch_request_group -> ..._response_group */
                  GROUP_DESCRIBE,      /* none -> kafka_describe_groups_response_described_group */
                  GROUP_LIST, /* kafka_list_groups_request -> kafka_list_groups_response: of all logs led here */
};

struct group_request {
    uint64_t token;
    enum group_kind kind;
    int16_t version; /* of the api */
    struct base_slice group_id;
    const void *request;
    struct base_slice client_id;
    struct base_slice client_host;
    int16_t refusal; /* not 0: it gets this error, and nothing is decided */
    bool is_ordered; /* FETCH: what was asked of the group before it has landed when it is answered */
    struct base_arena
        *arena; /* at least GROUP_ANSWER_BYTES; for JOIN the client's and the instance's id besides. An answer that
                                 does not fit it gets a block */
};

/* Fails BASE_FULL: requests_max are waiting; nothing has changed, refuse it. */
MUST_USE
enum base_rc group_submit(struct groups *groups, const struct group_request *request);

struct group_record {
    struct base_slice value; /* a whole record value; its key is null */
};

enum group_out_kind {
    GROUP_OUT_NOTHING = 0, /* no work left, but what group_next_alarm_ns says */
    GROUP_OUT_WORKED,      /* something was done; ask again */
    GROUP_OUT_PROPOSE, /* log, records: append as one batch, synced; then group_committed or group_failed. Borrowed until then */
    GROUP_OUT_ANSWER, /* token, response (NULL: it finds no block, and never will or has not for 30 s), block (base_pages: the caller gives it back when it has read
                         the response; may be NULL) */
};
struct group_out {
    enum group_out_kind kind;
    uint32_t log;
    const struct group_record *records;
    uint32_t records_count; /* 0: an empty piece of a snapshot: answer group_committed at once */
    bool is_snapshot;
    bool is_snapshot_end;
    uint64_t token;
    const void *response;
    void *block;
};
void group_poll(struct groups *groups, uint64_t now_ns, int64_t wall_ms, struct group_out *item_out);
uint64_t group_next_alarm_ns(const struct groups *groups);

/* ---- views ---------------------------------------------------------------------------------------------------------- */

bool group_is_quiet(const struct groups *groups); /* no request, no proposal, no answer */
bool group_is_sound(const struct groups *groups); /* every invariant that can be seen from memory */

enum group_limit { GROUP_LIMIT_GROUPS = 0, GROUP_LIMIT_MEMBERS, GROUP_LIMIT_OFFSETS, GROUP_LIMIT_BYTES };
#define GROUP_LIMITS 4
struct group_view {
    uint32_t groups;
    uint32_t members; /* committed */
    uint32_t offsets;
    uint32_t requests;
    uint64_t proposals;
    uint64_t applied; /* records, in recovery and in life */
    size_t state_used_bytes;
    uint64_t refused[GROUP_LIMITS]; /* how often something found no room, by enum group_limit */
};
void group_view(const struct groups *groups, struct group_view *view_out);
/* Of that view alone: GROUP_LIMITS counts, by enum group_limit. Borrowed, and they count on as long as `groups` lives. */
const uint64_t *group_refused(const struct groups *groups);
/* A committed offset; false: none. For checkers and tests. */
bool group_offset(const struct groups *groups, struct base_slice group_id, struct base_part part, int64_t *offset_out);
/* The committed generation; false: no such group. */
bool group_generation(const struct groups *groups, struct base_slice group_id, int32_t *generation_out);

/* Each by each, in slot order; *cursor 0 first; false at the end. The slices live until the next call that changes anything. */
struct group_look {
    struct base_slice id;
    uint32_t log;
    bool is_committed; /* a record names it */
    bool is_preparing; /* a round of joining goes on here */
    bool is_empty;     /* committed; neither this nor the next: its assignment is waited for */
    bool is_stable;
    int32_t generation;
    int64_t state_ms;
    struct base_slice protocol_type; /* at == NULL: none */
    struct base_slice leader;
};
bool group_each(const struct groups *groups, uint32_t *cursor, struct group_look *look_out);
struct group_member_look { /* committed */
    struct base_slice group_id;
    uint32_t log;
    struct base_slice id;
    struct base_slice instance; /* at == NULL: none */
    struct base_slice assignment;
    int32_t session_ms;
    int32_t rebalance_ms;
};
bool group_each_member(const struct groups *groups, uint32_t *cursor, struct group_member_look *look_out);
struct group_offset_look {
    struct base_slice group_id;
    uint32_t log;
    struct base_part part;
    int64_t offset;
    int64_t commit_ms;
    int64_t expire_ms;
    struct base_slice metadata;
    bool has_topic; /* it was not deleted */
};
bool group_each_offset(const struct groups *groups, uint32_t *cursor, struct group_offset_look *look_out);
struct group_log_look {
    bool is_here;        /* it will be led here, or is: group_awaits */
    bool is_led;         /* loaded, and nothing of it has failed; a node that stops leads on for what is outstanding */
    bool is_refused;     /* it can't be served: not until a restart */
    bool is_deciding;    /* a proposal is being made, or is outstanding */
    bool is_outstanding; /* it waits for the disk */
    bool is_snapshotting;
};
void group_log_look(const struct groups *groups, uint32_t log, struct group_log_look *look_out);

/* The group as absolute records of one log, a piece at a time, equal states give equal rows: see tests. */
uint64_t group_state_hash(const struct groups *groups);

#endif
