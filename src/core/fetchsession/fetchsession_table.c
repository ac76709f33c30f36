/* fetchsession_table.c: see fetchsession__table.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fetchsession__table.h"

#define PARTS_FIRST  16
#define TOPICS_FIRST 8
#define NAMES_FIRST  512

/* ---- keys ---- */

static uint64_t topic_hash(const struct table *table, struct base_slice name, struct base_uuid id)
{
    if (table->uses_ids) { return base_hash_bytes(id.b, sizeof id.b, table->seed); }
    return base_hash_bytes(name.at, name.size_bytes, table->seed);
}

static uint64_t part_hash(const struct table *table, uint32_t topic, int32_t partition)
{
    uint64_t key = (uint64_t)topic << 32 | (uint32_t)partition;
    return base_hash_u64(base_hash_u64(key ^ table->seed) + table->seed);
}

static uint32_t topic_find(const struct table *table, struct base_slice name, struct base_uuid id)
{
    if (table->block == NULL) { return TABLE_NONE; }
    uint64_t hash = topic_hash(table, name, id);
    const struct base_map *map = &table->topics_by_key;
    for (uint32_t at = base_map_first(map, hash); at != BASE_MAP_NONE; at = base_map_next(map, hash, at)) {
        const struct table_topic *topic = &table->topics[base_map_value(map, at)];
        bool is_it =
            table->uses_ids ? base_uuid_equal(topic->id, id) : base_slice_equal(fetchsession__name(table, topic), name);
        if (is_it) { return base_map_value(map, at); }
    }
    return TABLE_NONE;
}

uint32_t fetchsession__find(const struct table *table, const struct fetchsession_item *item)
{
    uint32_t topic = topic_find(table, item->name, item->id);
    if (topic == TABLE_NONE) { return TABLE_NONE; }
    uint64_t hash = part_hash(table, topic, item->partition);
    const struct base_map *map = &table->parts_by_key;
    for (uint32_t at = base_map_first(map, hash); at != BASE_MAP_NONE; at = base_map_next(map, hash, at)) {
        const struct table_part *part = &table->parts[base_map_value(map, at)];
        if (part->topic == topic && part->partition == item->partition) { return base_map_value(map, at); }
    }
    return TABLE_NONE;
}

/* ---- room ---- */

/* At least what is needed: a new topic that stands in several places of the request is counted for each. */
struct table_need fetchsession__need(const struct table *table, const struct fetchsession_item *items, uint32_t count)
{
    struct table_need need = {0};
    for (uint32_t i = 0; i < count; i++) {
        bool is_new_topic = i == 0 || !fetchsession_is_same_topic(table->uses_ids, &items[i - 1], &items[i]);
        if (is_new_topic && topic_find(table, items[i].name, items[i].id) == TABLE_NONE) {
            need.topics += 1;
            need.name_bytes += (uint32_t)items[i].name.size_bytes;
        }
        if (fetchsession__find(table, &items[i]) == TABLE_NONE) { need.parts += 1; }
    }
    return need;
}

bool fetchsession__has_room(const struct table *table, struct table_need need)
{
    return table->block != NULL && need.parts <= table->parts_max - table->count &&
           need.topics <= table->topics_max - table->topics_count &&
           need.name_bytes <= table->names_max - table->names_used;
}

static uint32_t larger(uint32_t have, uint32_t live, uint32_t more, uint32_t first)
{
    uint64_t needed = (uint64_t)live + more;
    if (needed <= have) { return have; }
    uint64_t size = base_max_u64(first, have);
    while (size < needed) { size *= 2; }
    return (uint32_t)base_min_u64(size, UINT32_C(1) << 30);
}

struct table_sizes {
    uint32_t parts, topics, names;
};

static struct table_sizes sizes_with(const struct table *table, struct table_need need)
{
    return (struct table_sizes){
        .parts = larger(table->parts_max, table->count, need.parts, PARTS_FIRST),
        .topics = larger(table->topics_max, table->topics_count, need.topics, TOPICS_FIRST),
        /* what names of topics that are gone take is free again once the block is laid out anew; half is left for new ones */
        .names = larger(table->names_max, 2 * table->names_live, need.name_bytes, NAMES_FIRST),
    };
}

static size_t bytes_of(struct table_sizes sizes)
{
    return (size_t)sizes.parts * sizeof(struct table_part) + (size_t)sizes.topics * sizeof(struct table_topic) +
           base_map_bytes(sizes.parts) + base_map_bytes(sizes.topics) + sizes.names + 5 * 16;
}

size_t fetchsession__bytes_with(const struct table *table, struct table_need need)
{
    return (bytes_of(sizes_with(table, need)) + BASE_PAGE_BYTES - 1) / BASE_PAGE_BYTES * BASE_PAGE_BYTES;
}

static uint32_t add_topic(struct table *table, struct base_slice name, struct base_uuid id)
{
    uint32_t at = table->topics_free;
    if (at != TABLE_NONE) {
        table->topics_free = table->topics[at].next_free;
    } else {
        CHECK(table->topics_used < table->topics_max);
        at = table->topics_used;
        table->topics_used += 1;
    }
    CHECK(name.size_bytes <= table->names_max - table->names_used);
    table->topics[at] =
        (struct table_topic){.id = id, .name_at = table->names_used, .name_bytes = (uint32_t)name.size_bytes};
    if (name.size_bytes > 0) { memcpy(table->names + table->names_used, name.at, name.size_bytes); }
    table->names_used += (uint32_t)name.size_bytes;
    table->names_live += (uint32_t)name.size_bytes;
    table->topics_count += 1;
    enum base_rc rc = base_map_insert(&table->topics_by_key, topic_hash(table, name, id), at);
    CHECK(rc == BASE_OK); /* it holds as many as there are slots */
    return at;
}

static void link_last(struct table *table, uint32_t at)
{
    struct table_part *part = &table->parts[at];
    part->next = TABLE_NONE;
    part->prev = table->last;
    if (table->last == TABLE_NONE) {
        table->first = at;
    } else {
        table->parts[table->last].next = at;
    }
    table->last = at;
}

static void unlink_part(struct table *table, const struct table_part *part)
{
    if (part->prev == TABLE_NONE) {
        table->first = part->next;
    } else {
        table->parts[part->prev].next = part->next;
    }
    if (part->next == TABLE_NONE) {
        table->last = part->prev;
    } else {
        table->parts[part->next].prev = part->prev;
    }
}

uint32_t fetchsession__add(struct table *table, const struct fetchsession_item *item)
{
    uint32_t topic = topic_find(table, item->name, item->id);
    if (topic == TABLE_NONE) { topic = add_topic(table, item->name, item->id); }
    uint32_t at = table->parts_free;
    if (at != TABLE_NONE) {
        table->parts_free = table->parts[at].next;
    } else {
        CHECK(table->parts_used < table->parts_max);
        at = table->parts_used;
        table->parts_used += 1;
    }
    table->topics[topic].parts += 1;
    table->parts[at] = (struct table_part){.topic = topic,
                                           .partition = item->partition,
                                           .bytes_max = item->bytes_max,
                                           .leader_epoch = item->leader_epoch,
                                           .offset = item->offset,
                                           .watermark = item->watermark,
                                           .log_start = item->log_start};
    link_last(table, at);
    table->count += 1;
    enum base_rc rc = base_map_insert(&table->parts_by_key, part_hash(table, topic, item->partition), at);
    CHECK(rc == BASE_OK); /* it holds as many as there are slots */
    return at;
}

void fetchsession__remove(struct table *table, uint32_t at)
{
    struct table_part *part = &table->parts[at];
    struct table_topic *topic = &table->topics[part->topic];
    base_map_remove(&table->parts_by_key, part_hash(table, part->topic, part->partition), at);
    unlink_part(table, part);
    CHECK(table->count > 0 && topic->parts > 0);
    table->count -= 1;
    topic->parts -= 1;
    if (topic->parts == 0) {
        struct base_slice name = fetchsession__name(table, topic);
        base_map_remove(&table->topics_by_key, topic_hash(table, name, topic->id), part->topic);
        table->names_live -= topic->name_bytes;
        table->topics_count -= 1;
        topic->next_free = table->topics_free;
        table->topics_free = part->topic;
    }
    part->next = table->parts_free;
    table->parts_free = at;
}

void fetchsession__move_to_end(struct table *table, uint32_t at)
{
    unlink_part(table, &table->parts[at]);
    link_last(table, at);
}

enum base_rc fetchsession__reserve(struct table *table, struct base_pages *pages, struct table_need need)
{
    if (fetchsession__has_room(table, need)) { return BASE_OK; }
    struct table_sizes sizes = sizes_with(table, need);
    struct table to = fetchsession__table(table->uses_ids, table->seed);
    to.block_bytes = fetchsession__bytes_with(table, need);
    to.parts_max = sizes.parts;
    to.topics_max = sizes.topics;
    to.names_max = sizes.names;
    to.block = base_pages_take(pages, BASE_CLIENTS, to.block_bytes);
    if (to.block == NULL) { return BASE_FULL; }
    struct base_arena arena;
    base_arena_init(&arena, to.block, to.block_bytes);
    to.parts = base_arena_take(&arena, to.parts_max * sizeof *to.parts);
    to.topics = base_arena_take(&arena, to.topics_max * sizeof *to.topics);
    enum base_rc rc_parts = base_map_create(&arena, to.parts_max, &to.parts_by_key);
    enum base_rc rc_topics = base_map_create(&arena, to.topics_max, &to.topics_by_key);
    to.names = base_arena_take_bytes(&arena, to.names_max);
    CHECK(to.parts != NULL && to.topics != NULL && to.names != NULL); /* bytes_of counts what is taken here */
    CHECK(rc_parts == BASE_OK && rc_topics == BASE_OK);
    for (uint32_t at = table->first; at != TABLE_NONE; at = table->parts[at].next) {
        const struct table_part *part = &table->parts[at];
        const struct table_topic *topic = &table->topics[part->topic];
        struct fetchsession_item item = {.name = fetchsession__name(table, topic),
                                         .id = topic->id,
                                         .partition = part->partition,
                                         .bytes_max = part->bytes_max,
                                         .leader_epoch = part->leader_epoch,
                                         .offset = part->offset,
                                         .watermark = part->watermark,
                                         .log_start = part->log_start};
        (void)fetchsession__add(&to, &item); /* where it stands is of no matter */
    }
    fetchsession__free(table, pages);
    *table = to;
    return BASE_OK;
}

void fetchsession__free(struct table *table, struct base_pages *pages)
{
    if (table->block != NULL) { base_pages_give(pages, table->block); }
    table->block = NULL;
}

bool fetchsession__table_is_sound(const struct table *table)
{
    if (table->block == NULL) { return table->count == 0; }
    uint32_t count = 0, names = 0, topics = 0;
    uint32_t before = TABLE_NONE;
    for (uint32_t at = table->first; at != TABLE_NONE; at = table->parts[at].next) {
        const struct table_part *part = &table->parts[at];
        const struct table_topic *topic = &table->topics[part->topic];
        struct fetchsession_item key = {.name = fetchsession__name(table, topic),
                                        .id = topic->id,
                                        .partition = part->partition};
        if (part->prev != before || topic->parts == 0 || fetchsession__find(table, &key) != at) { return false; }
        before = at;
        count += 1;
        if (count > table->count) { return false; }
    }
    for (uint32_t i = 0; i < table->topics_used; i++) {
        if (table->topics[i].parts == 0) { continue; }
        topics += 1;
        names += table->topics[i].name_bytes;
    }
    return count == table->count && before == table->last && topics == table->topics_count &&
           names == table->names_live;
}
