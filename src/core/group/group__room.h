/* group__room.h: groups, members, offsets, rounds: what the files of this room share.
 *
 * Room    core/group, private.
 * Rule    fields under "committed" are written by group_record.c alone; the rest is this leader's own and dies with it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GROUP_GROUP__ROOM_H
#define GROUP_GROUP__ROOM_H

#include "group/group.h"
#include "wire/kafka/delete_groups.h"
#include "wire/kafka/describe_groups.h"
#include "wire/kafka/group_records.h"
#include "wire/kafka/heartbeat.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/leave_group.h"
#include "wire/kafka/list_groups.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_delete.h"
#include "wire/kafka/offset_fetch.h"
#include "wire/kafka/sync_group.h"

/* Kafka's own: how long a member that waits for its first generation may wait for it. */
#define GROUP__NEW_MEMBER_MS 300000
#define GROUP__NONE          UINT32_MAX
/* The tables, and the bytes of texts, hold so many times what group__has_room promises: logs are loaded one after the other, and beside
 * all that is there now the one that is being loaded may hold what it held at its fullest, when the others had less. */
#define GROUP__TABLES        2u
#define GROUP__MS            UINT64_C(1000000)

/* ---- bytes ---------------------------------------------------------------------------------------------------------- */

#define GROUP__CLASSES 7 /* 32 .. 2048; what is larger takes pages */
#define GROUP__ORDERS  32

struct group__bytes {
    struct base_region halves[2];
    unsigned half;            /* where the texts are; they move to the other one when they lie too widely */
    struct base_pages *pages; /* over that half */
    void *free[GROUP__CLASSES];
    uint32_t of_order[GROUP__ORDERS]; /* texts that are out, by the order of their pages */
    size_t used_bytes;                /* as rounded */
    size_t room_bytes;                /* what may be used */
    size_t all_bytes;
};

/* ---- state ---------------------------------------------------------------------------------------------------------- */

enum group__state { GROUP__EMPTY = 0, GROUP__COMPLETING = 1, GROUP__STABLE = 2 };

struct group__protocol {
    struct base_slice name;
    struct base_slice metadata;
};

/* What is committed of a member, in one piece of bytes; the slices point behind it. */
struct group__data {
    struct base_slice instance; /* at == NULL: none */
    struct base_slice client_id;
    struct base_slice client_host;
    int32_t session_ms;
    int32_t rebalance_ms;
    uint32_t protocols_count;
    struct group__protocol protocols[];
};

struct group__request;
struct group__group;

struct group__member {
    struct base_link link; /* of its group, in the order of joining */
    struct group__group *group;
    uint64_t hash;
    struct base_slice id;
    /* committed */
    bool is_committed;
    struct group__data *data;
    struct base_slice assignment;
    /* this leader's */
    bool is_pending; /* its id was given out, nothing was joined yet (KIP-394) */
    bool is_new;     /* waits for its first generation */
    bool is_going;   /* the outstanding proposal takes it away: it is not there any more */
    bool is_expired; /* its session has ended: to be decided */
    bool has_synced;
    bool has_instance_hash;
    uint64_t instance_hash; /* of the instance that it was last known by */
    uint32_t sync_line;     /* its line in the SyncGroup that is being decided, + 1 */
    int32_t session_ms;
    struct base_heap_item session;
    struct group__request *join; /* parked */
    struct group__request *sync;
};

enum group__timer { GROUP__NO_TIMER = 0, GROUP__INITIAL, GROUP__JOINING, GROUP__SYNCING };

struct group__group {
    uint32_t log;
    uint64_t hash;
    struct base_slice id;
    struct base_list members;
    struct base_list offsets;
    /* committed */
    bool is_committed;
    enum group__state state;
    bool needs_rebalance;
    int32_t generation;
    int64_t state_ms;
    struct base_slice protocol_type; /* at == NULL: none */
    struct base_slice protocol;
    struct base_slice leader;
    /* this leader's */
    struct base_link due;     /* of its log: a decision without a request */
    struct base_link changed; /* of its log: by the proposal being built, or outstanding */
    bool wants_completion;
    bool has_expired;
    bool is_sync_over; /* the time for it: who has not asked for its assignment goes, however alive */
    bool is_preparing;
    bool is_initial;  /* it was empty when this round of joining began */
    bool is_extended; /* a member came during the initial delay */
    int64_t initial_left_ms;
    int64_t initial_delay_ms;
    struct group__member *heir; /* the static member that has come in its leader's place since; NULL: none */
    bool is_touched;            /* the proposal being built, or outstanding, changes what others must see first */
    bool was_completed;         /* by the proposal that is outstanding */
    bool was_assigned;
    struct group__request *replacing; /* by that proposal; NULL: none */
    uint32_t answers_due;             /* joins and syncs to be answered from the state as it is */
    enum group__timer timer_kind;
    struct base_heap_item timer;
};

struct group__offset {
    struct base_link link; /* of its group */
    struct group__group *group;
    uint64_t hash;
    struct base_part part;
    int64_t offset;
    int64_t commit_ms;
    int64_t expire_ms; /* -1: by the retention */
    int32_t leader_epoch;
    struct base_slice metadata;
};

/* ---- requests and rounds --------------------------------------------------------------------------------------------- */

struct group__request {
    struct base_link link;
    struct group_request ask;
    uint32_t log;
    const void *response; /* built */
    void *block;
    size_t arena_mark;
    int16_t refusal;           /* of one on groups.refused */
    bool is_too_long;          /* its answer: it gets none */
    uint64_t starves_until_ns; /* 0: it does not wait for memory */
    uint64_t waits_since_ns;   /* for a proposal to land; 0: no */
    /* a join or sync that is to be answered from the state */
    struct group__group *group;
    struct group__member *member;
    bool is_replacing;               /* a static member in the place of an older id (KIP-345) */
    struct base_slice leader_before; /* then, and when that one led: its id; owned */
};

enum group__log_state { GROUP__LOADING = 0, GROUP__TAKING_OVER, GROUP__LEADING, GROUP__REFUSING };

struct group__round {
    uint8_t *block; /* base_pages; NULL: no round. Records grow from its front, their bytes from its end */
    size_t block_bytes;
    size_t bytes_at;
    uint32_t records_count;
    uint32_t swept_count; /* of them: a sweep's, which comes before all decisions */
    uint32_t moved_count; /* decisions in it that change offsets */
    bool is_full;         /* a record did not fit: the decision is undone */
    uint32_t groups;      /* room that its records will take */
    uint32_t members;
    uint32_t offsets;
    size_t bytes;
};

struct group__log {
    enum group__log_state state;
    bool is_awaited; /* to be led here: not to have it yet is not to have no groups */
    struct base_list waiting;
    struct base_list later;    /* of keys that the round touches */
    struct base_list proposed; /* answered when the round has landed */
    struct base_list due;      /* groups */
    struct base_list changed;  /* groups */
    struct group__round round;
    size_t next_block_bytes; /* 0: the ordinary */
    uint64_t retry_ns;       /* memory was short: nothing of it is decided before then */
    uint32_t answers_due;    /* joins and syncs to be answered from the state as it is */
    bool is_outstanding;
    uint64_t proposed_ns; /* 0: nothing, since it was last looked at */
    bool asks_first;      /* the last proposal took long: what waits is decided before what is due */
    bool is_upkeep_turn;  /* the last round was for requests: a piece of a snapshot or sweep goes before the next */
    uint32_t lead_cursor;
    bool is_sweeping;
    bool is_sweep_of_topics;
    bool is_sweep_wanted; /* of topics, behind this one: another one went meanwhile */
    uint32_t sweep_cursor;
    bool is_snapshotting;
    bool is_snapshot_piece;
    uint32_t snapshot_stage;
    uint32_t snapshot_cursor;
};

struct groups {
    struct group_config config;
    struct base_pages *pages;
    const struct metadata *image;
    struct group__bytes bytes;
    struct base_pool groups;
    struct base_pool members;
    struct base_pool offsets;
    struct base_pool requests;
    struct base_map groups_map;
    struct base_map members_map;
    struct base_map instances_map; /* of members that are static, or were: whoever looks compares */
    struct base_map offsets_map;
    struct base_heap sessions; /* of members */
    struct base_heap timers;   /* of groups */
    struct base_list beats;    /* heartbeats: they need no memory, and who beats must not be held up by who does */
    struct base_list reads;
    struct base_list answering; /* joins and syncs, answered from the state */
    struct base_list answered;  /* response is there */
    struct base_list refused;   /* to be answered with an error */
    uint32_t drain_cursor;
    struct group__log *logs;
    uint32_t log_cursor;
    uint32_t outstanding_count;
    uint32_t loading_count;   /* logs that are awaited */
    uint32_t reserved_groups; /* by rounds that have not landed */
    uint32_t reserved_members;
    uint32_t reserved_offsets;
    size_t reserved_bytes;
    uint32_t committed_members;
    uint64_t now_ns;
    int64_t wall_ms;
    uint64_t patient_until_ns; /* no timer ends before: the node was away */
    uint64_t patient_from_ns;
    uint64_t answers_retry_ns; /* memory was short: what is answered from the state, or refused, tries again then */
    uint64_t reads_retry_ns;
    uint64_t logs_retry_ns; /* the first log that does */
    uint64_t
        idle_until_ns; /* a poll before then finds nothing to do, unless somebody has told something: group__wake */
    uint64_t sweep_ns;
    uint64_t proposals;
    uint64_t applied;
    uint64_t starved[GROUP_LIMITS]; /* by enum group_limit */
    bool is_draining;
    struct base_prng dice;
    uint8_t *scratch;
};
/* By everything that tells the room something: the next poll looks. */
static inline void group__wake(struct groups *groups) { groups->idle_until_ns = 0; }

#define GROUP__SCRATCH_BYTES ((size_t)64 << 10)

enum group__verdict {
    GROUP__DONE = 0, /* answered, parked, or proposed */
    GROUP__LATER,    /* its key is touched by the round */
    GROUP__FULL,     /* the round has no room for it */
    GROUP__STARVED,  /* no memory now */
};

static inline bool group__same(struct base_slice a, struct kafka_text b)
{
    return base_slice_equal(a, kafka_text_slice(b));
}
static inline struct kafka_text group__text(struct base_slice slice)
{
    return slice.at == NULL ? kafka_text_null() : kafka_text_of_slice(slice);
}

/* Copies into an answer, whose room was counted before. */
static inline struct kafka_bytes group__put_bytes(struct base_arena *arena, struct base_slice from)
{
    uint8_t *at = base_arena_take_bytes(arena, from.size_bytes + 1);
    CHECK(at != NULL);
    if (from.size_bytes > 0) { memcpy(at, from.at, from.size_bytes); }
    return kafka_bytes_of(at, from.size_bytes);
}
static inline struct kafka_text group__put_words(struct base_arena *arena, struct base_slice from)
{
    return kafka_text_of(group__put_bytes(arena, from).at, from.size_bytes);
}
static inline struct kafka_text group__put_text(struct base_arena *arena, struct base_slice from) /* null as it is */
{
    return from.at == NULL ? kafka_text_null() : group__put_words(arena, from);
}

/* group_bytes.c */
size_t group__bytes_arena_bytes(size_t size_bytes);
MUST_USE
enum base_rc group__bytes_create(struct base_arena *arena, size_t size_bytes, struct group__bytes *bytes_out);
size_t group__bytes_rounded(size_t size_bytes);
void *group__bytes_take(struct groups *groups, size_t size_bytes); /* NULL: no room; texts may have moved */
void group__bytes_give(struct group__bytes *bytes, const void *at, size_t size_bytes);
/* group_state.c */
MUST_USE
bool group__copy(struct groups *groups, struct base_slice from, struct base_slice *to_out); /* at is never NULL then */
void group__drop(struct groups *groups, struct base_slice *slice);
struct group__group *group__find(const struct groups *groups, struct base_slice id); /* NULL: none */
struct group__group *group__make(struct groups *groups, struct base_slice id);       /* NULL: no room */
void group__free(struct groups *groups, struct group__group *group);
void group__free_if_nothing(struct groups *groups, struct group__group *group);
struct group__member *group__member(const struct groups *groups, const struct group__group *group,
                                    struct base_slice id);
/* The member that has that instance's place; NULL: none. */
struct group__member *group__static(const struct groups *groups, const struct group__group *group,
                                    struct base_slice instance);
void group__note_instance(struct groups *groups, struct group__member *member); /* it may be another one than before */
struct group__member *group__member_make(struct groups *groups, struct group__group *group, struct base_slice id);
void group__member_forget_words(struct groups *groups, struct group__member *member); /* and it is not committed */
void group__member_free(struct groups *groups, struct group__member *member, int16_t error_of_parked);
struct group__offset *group__offset(const struct groups *groups, const struct group__group *group,
                                    struct base_part part);
struct group__offset *group__offset_make(struct groups *groups, struct group__group *group, struct base_part part);
void group__offset_free(struct groups *groups, struct group__offset *offset);
/* So many more than there are; a no is counted, as the first limit that says it. */
bool group__has_room(struct groups *groups, uint32_t group_count, uint32_t members, uint32_t offsets, size_t bytes);
size_t group__data_bytes(const struct group__data *data);
/* A member's own words, from its parked join or from what is committed. */
struct base_slice group__instance(const struct group__member *member); /* at == NULL: none */
uint32_t group__protocols_count(const struct group__member *member);
struct group__protocol group__protocol(const struct group__member *member, uint32_t index);
int32_t group__rebalance_ms_of(const struct group__member *member);
int64_t group__rebalance_ms(const struct group__group *group); /* the longest of its members */
static inline struct group__member *group__member_first(const struct group__group *group)
{
    struct base_link *link = base_list_first(&group->members);
    return link == NULL ? NULL : BASE_ITEM(link, struct group__member, link);
}
static inline struct group__member *group__member_next(const struct group__group *group,
                                                       const struct group__member *member)
{
    struct base_link *link = base_list_next(&group->members, &member->link);
    return link == NULL ? NULL : BASE_ITEM(link, struct group__member, link);
}
/* What words take that come in the place of others: those go first. */
static inline size_t group__more(size_t bytes_before, size_t bytes_after)
{
    return bytes_after > bytes_before ? bytes_after - bytes_before : 0;
}
static inline size_t group__text_bytes(struct base_slice text) /* at == NULL: it takes none */
{
    return text.at == NULL ? 0 : group__bytes_rounded(text.size_bytes);
}
size_t group__member_words_bytes(const struct group__member *member); /* what is committed of it */
/* Not pending, not going: what Kafka calls a member. */
static inline bool group__counts(const struct group__member *member)
{
    return !member->is_pending && !member->is_going;
}

/* group_record.c */
void group__propose(struct groups *groups, struct group__log *log, enum kafka_message message, const void *value);
struct group__round group__mark(const struct group__log *log);
void group__rollback(struct groups *groups, struct group__log *log, struct group__round mark);
void group__reserve(struct groups *groups, struct group__log *log, uint32_t group_count, uint32_t members,
                    uint32_t offsets, size_t bytes);
struct kafka_group_record group__record_of(const struct group__group *group); /* as it is committed */
void group__propose_group(struct groups *groups, struct group__log *log, const struct group__group *group,
                          const struct kafka_group_record *value);
void group__propose_group_gone(struct groups *groups, struct group__log *log,
                               struct group__group *group); /* and touches it */
void group__propose_member(struct groups *groups, struct group__log *log, const struct group__member *member,
                           struct base_slice id, struct base_slice assignment);
void group__propose_member_gone(struct groups *groups, struct group__log *log, struct group__member *member);
void group__propose_offset(struct groups *groups, struct group__log *log, const struct group__offset *offset);
void group__propose_offset_gone(struct groups *groups, struct group__log *log, const struct group__offset *offset);
/* The next record of the log's state into its round; false: that was all. */
bool group__snapshot_next(struct groups *groups, uint32_t log_index);

/* group.c */
/* An arena for an answer of at most so many bytes (`of_block` when the request's own has no room); NULL: no memory now. */
struct base_arena *group__answer_arena(struct groups *groups, struct group__request *request, size_t bytes,
                                       struct base_arena *of_block);
/* Its answer is there: it leaves at once, or when the round has landed. */
void group__answer(struct groups *groups, struct group__request *request, const void *response);
void group__answer_landed(struct groups *groups, struct group__request *request, const void *response);
/* To be answered from the state as it is: a join or sync that succeeded. */
void group__answer_from_state(struct groups *groups, struct group__request *request, struct group__member *member);
void group__change(struct groups *groups, struct group__group *group); /* by the round: see group__landed */
void group__due(struct groups *groups, struct group__group *group);
void group__set_timer(struct groups *groups, struct group__group *group, enum group__timer kind, int64_t delay_ms);
void group__stop_timer(struct groups *groups, struct group__group *group);
void group__set_session(struct groups *groups, struct group__member *member, int64_t delay_ms);
static inline struct group__log *group__log(const struct groups *groups, uint32_t log) { return &groups->logs[log]; }

/* group_join.c */
enum group__verdict group__decide_join(struct groups *groups, struct group__request *request);
enum group__verdict group__decide_completion(struct groups *groups, struct group__group *group);
/* Always finds room. is_named: with the member id that it asked with. */
void group__join_error(struct groups *groups, struct group__request *request, int16_t error, bool is_named);
void group__completion_refused(struct groups *groups, struct group__group *group, int16_t error);
bool group__join_answer(struct groups *groups, struct group__request *request);

/* group_member.c */
bool group__is_empty(const struct group__group *group); /* Kafka's state Empty, as seen from outside */
bool group__is_left(const struct group__group *group);  /* nobody is there, or on the way */
const char *group__state_name(const struct group__group *group);
struct base_slice group__protocol_type(const struct group__group *group);
int16_t group__validate(const struct groups *groups, const struct group__group *group, struct kafka_text member_id,
                        struct kafka_text instance, struct group__member **member_out);
bool group__have_all_joined(const struct group__group *group);
void group__prepare(struct groups *groups, struct group__group *group);
void group__maybe_complete(struct groups *groups, struct group__group *group);
void group__prepare_or_complete(struct groups *groups, struct group__group *group);
void group__landed(struct groups *groups, struct group__group *group);
void group__take_over(struct groups *groups, struct group__group *group);
void group__session_ended(struct groups *groups, struct group__member *member);
void group__timer_ended(struct groups *groups, struct group__group *group);
enum group__verdict group__decide_expired(struct groups *groups, struct group__group *group);
enum group__verdict group__decide_sync(struct groups *groups, struct group__request *request);
enum group__verdict group__decide_heartbeat(struct groups *groups, struct group__request *request);
enum group__verdict group__decide_leave(struct groups *groups, struct group__request *request);
void group__assignment_refused(struct groups *groups, struct group__group *group, int16_t error);
bool group__sync_answer(struct groups *groups, struct group__request *request);
void group__heartbeat_answer(struct groups *groups, struct group__request *request, int16_t error);
void group__sync_error(struct groups *groups, struct group__request *request, int16_t error);

/* group_offsets.c */
enum group__verdict group__decide_commit(struct groups *groups, struct group__request *request);
bool group__commit_error(struct groups *groups, struct group__request *request,
                         int16_t error); /* false: no memory now */
enum group__verdict group__decide_fetch(struct groups *groups, struct group__request *request);
enum group__verdict group__decide_offset_delete(struct groups *groups, struct group__request *request);
/* Looks at a piece of the table; false: the sweep of this log is at its end. */
bool group__sweep(struct groups *groups, uint32_t log_index);

/* group_list.c */
enum group__verdict group__decide_describe(struct groups *groups, struct group__request *request);
enum group__verdict group__decide_list(struct groups *groups, struct group__request *request);
enum group__verdict group__decide_delete(struct groups *groups, struct group__request *request);
bool group__refuse(struct groups *groups, struct group__request *request,
                   int16_t error); /* any kind; false: no memory now */

/* group_subscription.c */
/* Topics that are asked about together, so that the words of a group's members are looked at once for all of them. */
struct group__names {
    struct base_map map; /* by name: indexes of the two rows */
    struct base_slice *names;
    bool *is_read;
    bool is_all;
    uint64_t seed;
};
size_t group__names_bytes(uint32_t count);
void group__names_init(struct group__names *names, struct base_arena *arena, uint32_t count, uint64_t seed);
uint32_t group__names_add(struct group__names *names,
                          struct base_slice name); /* its index, also of one that is there */
void group__names_read(struct group__names *names,
                       struct base_slice subscription); /* words that can't be read name every topic */
void group__names_look(struct group__names *names, const struct group__group *group);
bool group__names_is_read(const struct group__names *names, uint32_t index);

#endif
