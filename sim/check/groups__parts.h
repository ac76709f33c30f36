/* groups__parts.h: what is known of groups: by what was told, and by what is committed.
 *
 * Room    sim/check, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GROUPS_PARTS_H
#define GROUPS_PARTS_H

#include "groups.h"
#include "grow.h"

#define GROUPS_NONE     UINT32_MAX
#define GROUPS_LOGS_MAX 1024
#define GROUPS_SHARDS   64
#define GROUPS_TOLD_MAX 16
#define GROUPS_TAGS_MAX 10000000
#define GROUPS_LEASE_PPM \
    900000 /* of a time-out, which is in milliseconds: so many nanoseconds for each, as clocks drift */

struct known_member {
    char id[64];
    char instance[16];
    char topics[24]; /* that it subscribes to */
    int32_t session_ms, rebalance_ms;
    uint64_t heard_ns;   /* when it asked for what was granted last: its session is as young as that; 0: nothing was */
    uint64_t settled_ns; /* the same of what is granted only while no round of joining goes on */
    int32_t synced_generation;
    bool has_left; /* it has asked to */
    /* committed */
    bool is_in;
    uint32_t seen; /* the look */
    uint64_t assignment_hash;
    size_t assignment_bytes;
    char *owned;              /* as committed last */
    char *given;              /* what it owned when an assignment was committed last; NULL: none was */
    int32_t given_generation; /* of that */
    bool is_new;              /* since the look before */
};

struct owner {
    int32_t generation;
    char part[32]; /* "t:0" */
    uint32_t member;
};

struct told {
    int32_t generation;
    uint64_t end_ns; /* when that was first told */
};

struct known_group {
    char id[16];
    struct known_member *members;
    uint32_t member_count, member_room;
    struct owner *owners; /* of the latest generations */
    uint32_t owner_count, owner_room;
    struct told told[GROUPS_TOLD_MAX];
    uint32_t told_count; /* ever; the last ones are kept */
    struct {
        int32_t generation;
        char id[64];
    } leader;
    uint64_t born_ns; /* what was asked before is of the group that had the name before */
    /* committed */
    uint32_t shard;
    uint32_t log;
    uint32_t seen;
    struct check_group was, now; /* their slices are not to be used */
    bool has_type, has_type_now;
    bool is_consumer, is_consumer_now;
    char leads[64], leads_now[64];
    bool is_in;          /* `was` holds */
    bool is_there;       /* in memory, committed or not */
    uint64_t calm_ns;    /* the last look at which nobody was joining */
    uint64_t joining_ns; /* the last one at which somebody was */
    uint64_t phase_ns;   /* how long it is in it, the disk's time taken off */
    enum { PHASE_NONE = 0, PHASE_PREPARING, PHASE_COMPLETING } phase;
    int32_t carried_generation; /* at the start; -1: none */
};

struct known_log {
    struct check_group_log now;
    bool is_led, is_fresh; /* fresh: the first look since it is led */
    bool was_outstanding;
    uint32_t seen;
    uint64_t idle_ns;    /* the last look at which nothing of it was being decided */
    int64_t wall_max_ms; /* since then */
};

struct known_commit {
    uint32_t op; /* GROUPS_NONE: no such tag */
    bool is_applied;
    uint64_t superseded_ns; /* 0: it stands, or never did */
};

struct known_offset {
    uint32_t group;
    struct base_part part;
    bool is_in;
    uint32_t seen;
    int64_t tag, offset, commit_ms, expire_ms;
    struct check_group_offset now;
    int64_t tag_now;
    uint64_t changed_ns;
    uint64_t orphan_ns; /* since when it is seen without its topic, after the calm; 0: it is not */
};

struct slots {
    uint32_t *at;
    uint32_t room;
};

struct check_groups {
    struct check_report *report;
    const struct history *history;
    uint32_t line; /* the next */
    struct known_group *groups;
    uint32_t group_count, group_room;
    struct known_commit *commits; /* by tag */
    uint32_t commit_room;
    struct known_offset *offsets;
    uint32_t offset_count, offset_room;
    uint64_t hits[CHECK_GROUPS_HIT_COUNT];
    /* committed */
    bool has_state;
    int64_t retention_ms;
    uint64_t round_ns;
    uint64_t gone_ns; /* UINT64_MAX: before the calm */
    struct known_log logs[GROUPS_LOGS_MAX];
    uint32_t log_count; /* seen */
    uint32_t look, shard;
    uint64_t now_ns;
    uint64_t looked_ns[GROUPS_SHARDS];
    int64_t wall_ms;
    bool is_changed;
    struct slots group_slots[GROUPS_SHARDS], member_slots[GROUPS_SHARDS], offset_slots[GROUPS_SHARDS];
};

static inline bool groups__is_text(const char *text, struct base_slice slice)
{
    return base_slice_equal(base_slice_text(text), slice);
}
void groups__put_text(char *to, size_t size_bytes, struct base_slice from); /* as much as fits */
uint32_t groups__group(struct check_groups *groups, struct base_slice id);  /* found, or made */
uint32_t groups__member(struct known_group *group, struct base_slice id);   /* the same */
uint32_t groups__find_member(const struct known_group *group, struct base_slice id);
struct known_commit *groups__commit(const struct check_groups *groups, int64_t tag); /* NULL: nobody asked for it */
/* The name ends: another of that name begins anew. */
void groups__end_life(struct known_group *group, uint64_t now_ns);
static inline void groups__hit(struct check_groups *groups, enum check_groups_hit hit) { groups->hits[hit] += 1; }
/* Nobody may drop it before, if it asks for nothing: its session, or a round that begins at once, ends then. */
static inline uint64_t groups__lease_end_ns(const struct known_member *member)
{
    if (member->heard_ns == 0 || member->settled_ns == 0) { return 0; }
    uint64_t session_ns = (uint64_t)base_max_i64(member->session_ms, 0) * GROUPS_LEASE_PPM;
    uint64_t rebalance_ns = (uint64_t)base_max_i64(member->rebalance_ms, 0) * GROUPS_LEASE_PPM;
    return base_min_u64(member->heard_ns + session_ns, member->settled_ns + rebalance_ns);
}

#endif
