/* group_model.h: what answers say that groups hold, as tables: a second keeper of committed offsets and assignments.
 *
 * Knows   what was asked and what was answered, nothing of the machine. Topics have one name here; when it is made anew, all is forgotten.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FUZZ_GROUP_MODEL_H
#define FUZZ_GROUP_MODEL_H

#include "base/base.h"
#include "group/group.h"

#define MODEL_GROUPS     4
#define MODEL_PARTITIONS 3
#define MODEL_ROWS       64

struct model_offset {
    bool is_there;
    bool is_unsure; /* committed while the topic was made anew: to the old one, or to the new one */
    int64_t offset;
    int64_t sure_until_ms; /* from then on it may have expired */
};

/* Of one generation: what a member was told. */
struct model_row {
    uint32_t group;
    int32_t generation;
    enum group_kind kind;
    uint64_t member; /* hash of its id; of JOIN: 0 */
    uint64_t told;   /* hash of its assignment, of the protocol */
};

struct model {
    struct model_offset offsets[MODEL_GROUPS][MODEL_PARTITIONS];
    struct model_row rows[MODEL_ROWS];
    uint32_t rows_count;
    uint32_t topic_number;
    int64_t start_ms;
    int64_t retention_ms;
};

struct model_asked {
    uint32_t group; /* index of its name */
    enum group_kind kind;
    const void *request;
    uint32_t topic_number; /* then */
    int64_t wall_ms;
};

void model_init(struct model *model, int64_t wall_ms, int64_t retention_ms);
void model_topic_changed(struct model *model);
void model_group_gone(struct model *model, uint32_t group); /* generations begin anew */
/* An answer, in the order that they come. False: it contradicts an earlier one. */
bool model_answered(struct model *model, const struct model_asked *asked, const void *response);
/* What the machine holds of a place. False: not what was committed there. */
bool model_agrees(struct model *model, uint32_t group, uint32_t partition, bool is_there, int64_t offset,
                  int64_t wall_ms);

#endif
