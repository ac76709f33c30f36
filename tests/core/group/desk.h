/* desk.h: a broker's hand for the group room's tests: it asks, keeps the log, lets time pass, and recovers the log into another
 * machine at the end of every test: what it knows must be the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GROUP_DESK_H
#define GROUP_DESK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "group/group.h"
#include "wire/kafka/delete_groups.h"
#include "wire/kafka/describe_groups.h"
#include "wire/kafka/heartbeat.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/leave_group.h"
#include "wire/kafka/list_groups.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_delete.h"
#include "wire/kafka/offset_fetch.h"
#include "wire/kafka/sync_group.h"

#define TOKENS_MAX 8192

struct desk {
    struct group_config config; /* may be changed before open_desk */
    struct groups *groups;
    struct metadata *image;
    struct base_pages *pages;
    uint64_t now_ns;
    int64_t wall_ms;
    bool is_holding; /* proposals wait for land() */
    bool is_ordered; /* OffsetFetches wait for what was asked before them */
    bool is_checked; /* recovered and compared at the end; on by default */
    uint32_t proposals;
    uint32_t records;
};
extern struct desk desk;

int given_desk(void **state);              /* setup: defaults, not open */
int expect_the_log_says_all(void **state); /* teardown */
void open_desk(void);
void open_desk_loading(void); /* its logs do not lead yet */
void lead(void);              /* they do now */
void run_desk(void);          /* until nothing is left to do now */
void land(void);              /* what is held */
void fail_log(void);          /* what is held */
void pass_ms(int64_t ms);     /* by steps of at most 100 */
void restart(void);           /* a new machine from the log, which leads at once */
enum base_rc loaded(void);    /* what another machine with the configuration of now says of the log */
void begin_snapshot(uint32_t log);
bool snapshot_is_running(void);
uint32_t held(void);                 /* proposals that wait */
void hold_log_of(const char *group); /* another group's commit waits there: what is asked now is decided together */
void put_topic(const char *name, int32_t partitions);
void remove_topic(const char *name);
struct base_part part_of(const char *topic, int32_t index);

/* ---- asking: what is not set is as a plain consumer has it ---- */

struct who {
    const char *group;     /* "g" */
    const char *member;    /* "" */
    const char *instance;  /* none */
    const char *type;      /* "consumer" */
    const char *protocols; /* "range:m", ','-separated, metadata behind ':' */
    const char *client;    /* "client" */
    int16_t version;       /* JOIN: 5 */
    int32_t session_ms;    /* 10000 */
    int32_t rebalance_ms;  /* 60000 */
    int32_t generation;
};
uint32_t ask(enum group_kind kind, int16_t version, const char *group, const void *request);
bool is_answered(uint32_t token);
const void *answer_of(uint32_t token); /* it is there */

uint32_t join(struct who who);
const struct kafka_join_group_response *joined(uint32_t token); /* without an error */
int16_t join_error(uint32_t token);
/* Asks for an id, and joins with it: the text is the desk's. */
const char *id_of_new(struct who who, uint32_t *token_out);
const char *text_of(struct kafka_text text); /* as a C string; the desk's */

/* assignments: "member=words,member=words" */
uint32_t sync(struct who who, const char *assignments);
const char *assigned(uint32_t token); /* without an error */
int16_t sync_error(uint32_t token);
int16_t heartbeat(struct who who);
uint32_t leave(int16_t version, const char *member, const char *instance);
int16_t leave_error(uint32_t token);
uint32_t commit(struct who who, const char *topic, int32_t partition, int64_t offset);
int16_t commit_error(uint32_t token);
/* What is fetched of the partition alone. */
const struct kafka_offset_fetch_response_offset_fetch_response_partitions *fetched_line(const char *group,
                                                                                        const char *topic,
                                                                                        int32_t partition);
uint32_t fetch(const char *group, const char *topic, int32_t partition);
int64_t fetched_by(uint32_t token);                                       /* -1: none */
int64_t fetched(const char *group, const char *topic, int32_t partition); /* at once */
const struct kafka_describe_groups_response_described_group *described(const char *group, int16_t version);
const char *state_of(const char *group);
int32_t members_count(const char *group);

/* A group of so many members in generation 1, stable; ids in `ids`, the leader first. */
#define STABLE_MAX 64
void given_stable(uint32_t count, const char *ids[STABLE_MAX]);

#endif
