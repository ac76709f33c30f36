/* groups.h: watches consumer groups, from two sides: what clients were told (the lines of a history), and, in the simulator, what
 * the coordinators have committed: I12, I13, and I22 for commits.
 *
 * Room    sim/check. The history it is given is one and the same for its life. Without the committed side it judges a file.
 *
 *     I12  the owners' view: in one generation no partition belongs to two members, and one leads; generations told never go
 *          back; who is of an older generation than was told commits nothing; a member that was heard of within the lesser of its
 *          time-outs is not dropped
 *     I12  the committed state: a generation follows the one before; an assignment is disjoint, is all that the leader gave out, is
 *          what its members are told, and passes to who takes a static member's place; a member that goes has left, was removed or
 *          was silent; an offset changes by a commit of the group's generation, goes by a request, with its topic or its group, or
 *          by Kafka's rules for expiry; what is acknowledged is there, and what came before it never comes back; the same over restarts
 *     I13  a round of joining, and a wait for the leader's assignment, end in time
 *     I22  a commit that failed is never seen
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHECK_GROUPS_H
#define CHECK_GROUPS_H

#include "history.h"
#include "report.h"

struct check_groups;

struct check_groups *check_groups_create(struct check_report *report, const struct history *history);
void check_groups_destroy(struct check_groups *groups);

/* The lines that have come since the last call. */
void check_groups_told(struct check_groups *groups);

/* ---- the committed side --------------------------------------------------------------------------------------------- */

struct check_group_log {
    bool is_led;
    bool is_deciding;
    bool is_outstanding;
};
struct check_group {
    struct base_slice id;
    uint32_t log;
    bool is_committed, is_preparing, is_empty, is_stable;
    int32_t generation;
    int64_t state_ms;
    struct base_slice protocol_type; /* at == NULL: none */
    struct base_slice leader;
};
struct check_group_member {
    struct base_slice group_id;
    uint32_t log;
    struct base_slice id, instance;
    struct base_slice assignment; /* its bytes */
    int32_t session_ms, rebalance_ms;
};
struct check_group_offset {
    struct base_slice group_id;
    uint32_t log;
    struct base_part part;
    int64_t offset, commit_ms, expire_ms;
    struct base_slice metadata; /* "tag=N" */
    bool has_topic;
};

/* A node's coordinators: retention_ms as configured; a round ends within round_ns. Before the first look. */
void check_groups_rules(struct check_groups *groups, int64_t retention_ms, uint64_t round_ns);
void check_groups_boot(struct check_groups *groups); /* the node starts: nobody leads a log */
/* The faults have stopped, and offsets of topics that are gone must go within this. */
void check_groups_calm(struct check_groups *groups, uint64_t gone_ns);

/* One look at a shard, after a step: every log, every group; and when a record was applied since the last look (is_changed) every
 * member and offset, which check_groups_wants_all says too. `slot` is a hint: where it lies. */
void check_groups_look(struct check_groups *groups, uint32_t shard, uint64_t now_ns, int64_t wall_ms, bool is_changed);
void check_groups_log(struct check_groups *groups, uint32_t log, const struct check_group_log *look);
bool check_groups_wants_all(const struct check_groups *groups); /* after the logs: one is led anew */
void check_groups_group(struct check_groups *groups, uint32_t slot, const struct check_group *look);
void check_groups_member(struct check_groups *groups, uint32_t slot, const struct check_group_member *look);
void check_groups_offset(struct check_groups *groups, uint32_t slot, const struct check_group_offset *look);
void check_groups_looked(struct check_groups *groups);

/* ---- what was met ---------------------------------------------------------------------------------------------------- */

enum check_groups_hit {
    CHECK_GROUPS_ROUND = 0,   /* a generation was completed */
    CHECK_GROUPS_ASSIGNED,    /* its leader's assignment was committed */
    CHECK_GROUPS_EMPTIED,     /* the last member went */
    CHECK_GROUPS_LEFT,        /* a member, by its own request or an operator's */
    CHECK_GROUPS_SILENT,      /* a member, by a time-out */
    CHECK_GROUPS_REPLACED,    /* a static member came back under another id, and took its place */
    CHECK_GROUPS_CARRIED_ON,  /* a member was heard of before a start and is still one after it, in its generation */
    CHECK_GROUPS_MORE_FOUND,  /* a start found what nobody had seen committed */
    CHECK_GROUPS_COMMITTED,   /* an offset */
    CHECK_GROUPS_WENT_BACK,   /* to a lower offset, by a request */
    CHECK_GROUPS_LATE,        /* a commit whose client had given up */
    CHECK_GROUPS_FENCED,      /* a commit of an old generation, or of nobody: refused */
    CHECK_GROUPS_UNSTEADY,    /* a commit while the group was joining: taken or refused */
    CHECK_GROUPS_UNCOMMITTED, /* an offset was deleted */
    CHECK_GROUPS_EXPIRED,     /* an offset, by its age */
    CHECK_GROUPS_TOPIC_GONE,  /* an offset, with its topic */
    CHECK_GROUPS_DISBANDED,   /* a group was deleted */
    CHECK_GROUPS_SWEPT,       /* a group that kept nothing went */
    CHECK_GROUPS_ID_ASKED,    /* MEMBER_ID_REQUIRED */
    CHECK_GROUPS_LOADING,     /* COORDINATOR_LOAD_IN_PROGRESS */
    CHECK_GROUPS_INSTANCE_FENCED,
    CHECK_GROUPS_INCONSISTENT, /* INCONSISTENT_GROUP_PROTOCOL */
    CHECK_GROUPS_JOIN_LOST,    /* a join or sync whose answer never came */
    CHECK_GROUPS_GROWN,        /* a topic got more partitions */
    CHECK_GROUPS_HIT_COUNT
};
const char *check_groups_hit_name(enum check_groups_hit hit);
uint64_t check_groups_hits(const struct check_groups *groups, enum check_groups_hit hit);

/* The partitions of a consumer's assignment, "t:0,t:2"; "?" when it can't be read. The text is on the heap, the caller's. */
char *check_owned_text(struct base_slice assignment);
int64_t check_commit_tag(struct base_slice metadata); /* N of "tag=N"; -1: it is no such text */

#endif
