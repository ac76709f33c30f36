/* fetchsession__table.h: what one session follows: partitions in their order, found by topic and number.
 *
 * Room    core/fetchsession, private.
 * Owns    one block of pages: partitions, their map, topics, their map, the topics' names. It is laid out anew, larger, when
 *         something does not fit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FETCHSESSION_TABLE_H
#define FETCHSESSION_TABLE_H

#include "fetchsession/fetchsession.h"

#define TABLE_NONE UINT32_MAX

struct table_topic {
    struct base_uuid id;
    uint32_t name_at;
    uint32_t name_bytes; /* 0: its id is not known to the image yet */
    uint32_t parts;      /* that are followed; 0: the slot is free */
    uint32_t next_free;
};

struct table_part {
    uint32_t topic;
    uint32_t next, prev; /* in the session's order; next of a free one: the next free one */
    int32_t partition;
    int32_t bytes_max;
    int32_t leader_epoch;
    int64_t offset;
    int64_t watermark; /* as it was told last; -1 after an error, so that its end is told */
    int64_t log_start;
};

struct table {
    uint8_t *block;
    size_t block_bytes;
    bool uses_ids;
    uint64_t seed;
    struct table_part *parts;
    uint32_t parts_max, parts_used,
        parts_free; /* used: slots below it were taken once; free: the first, or TABLE_NONE */
    uint32_t count;
    uint32_t first, last;
    struct base_map parts_by_key;
    struct table_topic *topics;
    uint32_t topics_max, topics_used, topics_free, topics_count;
    struct base_map topics_by_key;
    uint8_t *names;
    uint32_t names_max, names_used, names_live;
};

struct table_need { /* so many more of each */
    uint32_t parts, topics, name_bytes;
};
static inline struct table fetchsession__table(bool uses_ids,
                                               uint64_t seed) /* that follows nothing, and has no block */
{
    return (struct table){.uses_ids = uses_ids,
                          .seed = seed,
                          .parts_free = TABLE_NONE,
                          .topics_free = TABLE_NONE,
                          .first = TABLE_NONE,
                          .last = TABLE_NONE};
}
/* What `items` would add. */
struct table_need fetchsession__need(const struct table *table, const struct fetchsession_item *items, uint32_t count);
bool fetchsession__has_room(const struct table *table, struct table_need need);
size_t fetchsession__bytes_with(const struct table *table, struct table_need need); /* of the block that holds it all */
/* Fails BASE_FULL: nothing has changed. */
MUST_USE
enum base_rc fetchsession__reserve(struct table *table, struct base_pages *pages, struct table_need need);
void fetchsession__free(struct table *table, struct base_pages *pages);

uint32_t fetchsession__find(const struct table *table, const struct fetchsession_item *item); /* TABLE_NONE */
/* At the end. Needs room for it, and that it is not there. */
uint32_t fetchsession__add(struct table *table, const struct fetchsession_item *item);
void fetchsession__remove(struct table *table, uint32_t part);
void fetchsession__move_to_end(struct table *table, uint32_t part);
static inline struct base_slice fetchsession__name(const struct table *table, const struct table_topic *topic)
{
    return base_slice_of(table->names + topic->name_at, topic->name_bytes);
}
bool fetchsession__table_is_sound(const struct table *table);

#endif
