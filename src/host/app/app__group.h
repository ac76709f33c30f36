/* app__group.h: what the parts of 'weir group' share.
 *
 * Room    host/app, private.
 * Parts   group_args.c (the command line), group.c (calls and answers), group_rows.c (what is kept of them, and printed)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_APP_GROUP_H
#define HOST_APP_GROUP_H

#include "app__command.h"

#include "wire/kafka/describe_groups.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/list_groups.h"

#define GROUP_NAMES_MAX  1000 /* on one command line */
#define GROUP_WANTED_MAX 64   /* --topic */

enum group_word { GROUP_LIST = 1, GROUP_DESCRIBE, GROUP_DELETE, GROUP_RESET };
enum group_to {
    GROUP_TO_NOTHING = 0,
    GROUP_TO_EARLIEST,
    GROUP_TO_LATEST,
    GROUP_TO_OFFSET,
    GROUP_TO_DATETIME,
    GROUP_TO_SHIFTED
};
enum group_bound { GROUP_BOUND_START = 0, GROUP_BOUND_END, GROUP_BOUND_TIME };
#define GROUP_BOUNDS 3

struct group_wanted {
    char *topic;
    int32_t partition; /* -1: all */
};
struct group_listed {
    char *name, *state, *type;
    int32_t coordinator;
};
struct group_member {
    char *id, *client, *host, *instance; /* instance: NULL: it is no static member */
    uint32_t assigned;
};
/* A partition; in the order of topics and numbers. */
struct group_row {
    char *topic;
    int32_t partition;
    int32_t leader;               /* -1: none */
    int16_t error;                /* why something of it is not known */
    int64_t committed;            /* -1: nothing */
    int64_t bounds[GROUP_BOUNDS]; /* -1: not known; GROUP_BOUND_TIME: no such record */
    int64_t target;               /* reset: the new one */
    const struct group_member *member;
};

struct group_command {
    struct app_command command;
    enum group_word word;
    const char *names[GROUP_NAMES_MAX];
    uint32_t name_count, name_at;
    int code;
    /* reset */
    struct group_wanted wanted[GROUP_WANTED_MAX]; /* in the order of the topics */
    uint32_t wanted_count;
    enum group_to to;
    int64_t to_value;
    bool is_execute;
    /* what was answered */
    int32_t *brokers;
    uint32_t broker_count, broker_at;
    struct group_listed *listed;
    uint32_t listed_count;
    int32_t coordinator;
    char *state, *type, *protocol;
    struct group_member *members;
    uint32_t member_count;
    struct group_row *rows;
    uint32_t row_count, row_room;
    enum group_bound bound;
    int32_t leader_asked; /* -1: none yet for this bound */
};

extern const struct app_command_parts group_parts; /* group.c */

/* group_rows.c. False or NULL: no memory. */
bool group_add_listed(struct group_command *own, const struct kafka_list_groups_response_listed_group *group,
                      int32_t coordinator);
/* Its state and members; a row for each partition that a member has. */
bool group_keep_members(struct group_command *own, const struct kafka_describe_groups_response_described_group *group);
/* The row of a partition; NULL: there is none, and none was to be made. */
struct group_row *group_row(struct group_command *own, struct base_slice topic, int32_t partition, bool is_made);
/* Where each partition is to go; an exit code, and what went wrong has been printed. */
int group_choose_targets(struct group_command *own);
void group_print_list(struct group_command *own);
void group_print(const struct group_command *own, bool is_json);
void group_print_reset(const struct group_command *own, const struct group_row *row, bool is_json);

#endif
