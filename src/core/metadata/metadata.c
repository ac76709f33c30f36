/* metadata.c: the image: what stands in it, and the absolute puts.
 *
 * Room    core/metadata.
 * Layout  pools for topics, partitions and overrides; maps for lookups; one sorted array of topic slots for the order, where a
 *         new name costs a binary search and a memmove of four bytes a topic.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "metadata/metadata__room.h"

static size_t map_bytes(uint32_t items_max) { return (size_t)items_max * 3 * sizeof(struct base_map_cell) + 256; }

size_t metadata_arena_bytes(const struct metadata_config *config)
{
    size_t bytes = sizeof(struct metadata) + 8192;
    bytes += (sizeof(struct metadata__topic) + 16 + 8) * config->topics_max + 3 * map_bytes(config->topics_max);
    bytes += (sizeof(struct metadata_partition) + 16 + 4) * config->partitions_max + map_bytes(config->partitions_max);
    bytes += (sizeof(struct metadata__override) + 16 + 4) * config->configs_max;
    bytes += sizeof(struct metadata_broker) * config->brokers_max;
    bytes += config->cluster_id.size_bytes + METADATA_ID_COUNT * 32;
    for (uint32_t i = 0; i < config->broker_values_count; i++) {
        bytes += sizeof(struct metadata_pair) + 64 + config->broker_values[i].name.size_bytes +
                 config->broker_values[i].value.size_bytes;
    }
    return bytes;
}

/* NULL at: no room. A copy of no bytes has an address, too. */
static struct base_slice copy(struct base_arena *arena, struct base_slice text)
{
    uint8_t *at = base_arena_take_bytes(arena, text.size_bytes + 1);
    if (at != NULL && text.size_bytes > 0) { memcpy(at, text.at, text.size_bytes); }
    return base_slice_of(at, text.size_bytes);
}

static enum base_rc copy_settings(struct metadata *metadata, struct base_arena *arena,
                                  const struct metadata_config *config)
{
    metadata->cluster_id = copy(arena, config->cluster_id);
    metadata->broker_values_count = config->broker_values_count;
    metadata->broker_values = base_arena_take_array(arena, config->broker_values_count, sizeof(struct metadata_pair));
    if (metadata->cluster_id.at == NULL || metadata->broker_values == NULL) { return BASE_FULL; }
    for (uint32_t i = 0; i < config->broker_values_count; i++) {
        struct metadata_pair *pair = &metadata->broker_values[i];
        pair->name = copy(arena, config->broker_values[i].name);
        pair->value = copy(arena, config->broker_values[i].value);
        if (pair->name.at == NULL || pair->value.at == NULL) { return BASE_FULL; }
    }
    return metadata__read_statics(metadata, arena);
}

enum base_rc metadata_create(struct base_arena *arena, const struct metadata_config *config,
                             struct metadata **metadata_out)
{
    CHECK(config->topics_max > 0);
    CHECK(config->partitions_max > 0);
    CHECK(config->brokers_max > 0);
    CHECK(config->configs_max > 0);
    struct metadata *metadata = base_arena_take_array(arena, 1, sizeof *metadata);
    if (metadata == NULL) { return BASE_FULL; }
    metadata->topics_max = config->topics_max;
    metadata->partitions_max = config->partitions_max;
    metadata->brokers_max = config->brokers_max;
    metadata->configs_max = config->configs_max;
    metadata->node_id = config->node_id;
    metadata->controller_id = -1;
    metadata->sorted = base_arena_take_array(arena, config->topics_max, sizeof(uint32_t));
    metadata->brokers = base_arena_take_array(arena, config->brokers_max, sizeof(struct metadata_broker));
    if (metadata->sorted == NULL || metadata->brokers == NULL ||
        base_pool_create(arena, sizeof(struct metadata__topic), config->topics_max, &metadata->topics) != BASE_OK ||
        base_pool_create(arena, sizeof(struct metadata_partition), config->partitions_max, &metadata->partitions) !=
            BASE_OK ||
        base_pool_create(arena, sizeof(struct metadata__override), config->configs_max, &metadata->overrides) !=
            BASE_OK ||
        base_map_create(arena, config->topics_max, &metadata->by_name) != BASE_OK ||
        base_map_create(arena, config->topics_max, &metadata->by_folded_name) != BASE_OK ||
        base_map_create(arena, config->topics_max, &metadata->by_id) != BASE_OK ||
        base_map_create(arena, config->partitions_max, &metadata->by_part) != BASE_OK) {
        return BASE_FULL;
    }
    enum base_rc rc = copy_settings(metadata, arena, config);
    if (rc != BASE_OK) { return rc; }
    *metadata_out = metadata;
    return BASE_OK;
}

/* ---- lookups ------------------------------------------------------------------------------------------------------ */

static struct metadata__topic *topic_at(const struct metadata *metadata, uint32_t slot)
{
    return base_pool_at(&metadata->topics, slot);
}

const struct metadata__topic *metadata__topic_of(const struct metadata *metadata, const struct metadata_topic *topic)
{
    const struct metadata__topic *found = topic_at(metadata, topic->slot);
    CHECK(&found->topic == topic);
    return found;
}

const struct metadata__override *metadata__override_at(const struct metadata *metadata, uint32_t link)
{
    return base_pool_at(&metadata->overrides, link - 1);
}

static uint64_t name_hash(struct base_slice name) { return base_hash_bytes(name.at, name.size_bytes, 0); }
static uint64_t id_hash(struct base_uuid id) { return base_hash_bytes(id.b, sizeof id.b, 0); }

static uint64_t folded_hash(struct base_slice name)
{
    uint8_t folded[METADATA_TOPIC_NAME_MAX];
    CHECK(name.size_bytes <= sizeof folded);
    for (size_t i = 0; i < name.size_bytes; i++) { folded[i] = name.at[i] == '.' ? '_' : name.at[i]; }
    return base_hash_bytes(folded, name.size_bytes, 0);
}

bool metadata_names_collide(struct base_slice a, struct base_slice b)
{
    if (a.size_bytes != b.size_bytes) { return false; }
    for (size_t i = 0; i < a.size_bytes; i++) {
        uint8_t x = a.at[i] == '.' ? '_' : a.at[i];
        uint8_t y = b.at[i] == '.' ? '_' : b.at[i];
        if (x != y) { return false; }
    }
    return true;
}

const struct metadata_topic *metadata_topic_by_name(const struct metadata *metadata, struct base_slice name)
{
    uint64_t hash = name_hash(name);
    for (uint32_t at = base_map_first(&metadata->by_name, hash); at != BASE_MAP_NONE;
         at = base_map_next(&metadata->by_name, hash, at)) {
        const struct metadata_topic *topic = &topic_at(metadata, base_map_value(&metadata->by_name, at))->topic;
        if (base_slice_equal(metadata_topic_name(topic), name)) { return topic; }
    }
    return NULL;
}

const struct metadata_topic *metadata_topic_by_id(const struct metadata *metadata, struct base_uuid id)
{
    uint64_t hash = id_hash(id);
    for (uint32_t at = base_map_first(&metadata->by_id, hash); at != BASE_MAP_NONE;
         at = base_map_next(&metadata->by_id, hash, at)) {
        const struct metadata_topic *topic = &topic_at(metadata, base_map_value(&metadata->by_id, at))->topic;
        if (base_uuid_equal(topic->id, id)) { return topic; }
    }
    return NULL;
}

const struct metadata_topic *metadata_topic_colliding(const struct metadata *metadata, struct base_slice name)
{
    if (name.size_bytes > METADATA_TOPIC_NAME_MAX) { return NULL; }
    uint64_t hash = folded_hash(name);
    const struct metadata_topic *first = NULL;
    for (uint32_t at = base_map_first(&metadata->by_folded_name, hash); at != BASE_MAP_NONE;
         at = base_map_next(&metadata->by_folded_name, hash, at)) {
        const struct metadata_topic *topic = &topic_at(metadata, base_map_value(&metadata->by_folded_name, at))->topic;
        struct base_slice other = metadata_topic_name(topic);
        if (base_slice_equal(other, name) || !metadata_names_collide(other, name)) { continue; }
        if (first == NULL || base_slice_compare(other, metadata_topic_name(first)) < 0) { first = topic; }
    }
    return first;
}

/* The first place whose name is > `name`, or >= `name`. */
enum bound { AFTER, AT };
static uint32_t rank_of(const struct metadata *metadata, struct base_slice name, enum bound bound)
{
    uint32_t first = 0;
    uint32_t end = metadata->topics.taken_count;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        int order = base_slice_compare(metadata_topic_name(&topic_at(metadata, metadata->sorted[middle])->topic), name);
        if (order < 0 || (order == 0 && bound == AFTER)) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

uint32_t metadata_topics_count(const struct metadata *metadata) { return metadata->topics.taken_count; }

const struct metadata_topic *metadata_topic_at(const struct metadata *metadata, uint32_t rank)
{
    CHECK(rank < metadata->topics.taken_count);
    return &topic_at(metadata, metadata->sorted[rank])->topic;
}

const struct metadata_topic *metadata_topic_after(const struct metadata *metadata, struct base_slice name)
{
    uint32_t rank = rank_of(metadata, name, AFTER);
    return rank < metadata->topics.taken_count ? metadata_topic_at(metadata, rank) : NULL;
}

const struct metadata_partition *metadata_partition_by_id(const struct metadata *metadata, struct base_part id)
{
    uint64_t hash = base_part_hash(id);
    for (uint32_t at = base_map_first(&metadata->by_part, hash); at != BASE_MAP_NONE;
         at = base_map_next(&metadata->by_part, hash, at)) {
        const struct metadata_partition *partition =
            base_pool_at(&metadata->partitions, base_map_value(&metadata->by_part, at));
        if (base_part_equal(partition->id, id)) { return partition; }
    }
    return NULL;
}

const struct metadata_partition *metadata_partition(const struct metadata *metadata, const struct metadata_topic *topic,
                                                    int32_t index)
{
    if (index < 0 || (uint32_t)index >= topic->partitions_count) { return NULL; }
    const struct metadata_partition *partition =
        metadata_partition_by_id(metadata, (struct base_part){.topic = topic->id, .index = index});
    CHECK(partition != NULL); /* indexes below the count are all there */
    return partition;
}

const struct metadata_partition *metadata_partition_by_slot(const struct metadata *metadata, uint32_t slot)
{
    if (slot >= metadata->partitions_max || !base_pool_is_taken(&metadata->partitions, slot)) { return NULL; }
    return base_pool_at(&metadata->partitions, slot);
}

uint32_t metadata_partitions_count(const struct metadata *metadata) { return metadata->partitions.taken_count; }

struct base_slice metadata_cluster_id(const struct metadata *metadata) { return metadata->cluster_id; }
int32_t metadata_controller_id(const struct metadata *metadata) { return metadata->controller_id; }
uint64_t metadata_version(const struct metadata *metadata) { return metadata->version; }
int64_t metadata_next_producer_id(const struct metadata *metadata) { return metadata->next_producer_id; }
int64_t metadata_next_broker_epoch(const struct metadata *metadata) { return metadata->next_broker_epoch; }

/* ---- brokers and features ----------------------------------------------------------------------------------------- */

static uint32_t broker_rank(const struct metadata *metadata, int32_t id)
{
    uint32_t rank = 0;
    while (rank < metadata->brokers_count && metadata->brokers[rank].id < id) { rank += 1; }
    return rank;
}

const struct metadata_broker *metadata_broker(const struct metadata *metadata, int32_t id)
{
    uint32_t rank = broker_rank(metadata, id);
    return rank < metadata->brokers_count && metadata->brokers[rank].id == id ? &metadata->brokers[rank] : NULL;
}

uint32_t metadata_brokers_count(const struct metadata *metadata) { return metadata->brokers_count; }

const struct metadata_broker *metadata_broker_at(const struct metadata *metadata, uint32_t rank)
{
    CHECK(rank < metadata->brokers_count);
    return &metadata->brokers[rank];
}

const struct metadata_endpoint *metadata_broker_endpoint(const struct metadata_broker *broker,
                                                         struct base_slice listener)
{
    for (uint32_t i = 0; i < broker->endpoints_count; i++) {
        if (base_slice_equal(base_slice_text(broker->endpoints[i].name), listener)) { return &broker->endpoints[i]; }
    }
    return NULL;
}

enum base_rc metadata_put_broker(struct metadata *metadata, const struct metadata_broker *value)
{
    if (value->endpoints_count > METADATA_ENDPOINTS_MAX || value->id < 0) { return BASE_BAD; }
    uint32_t rank = broker_rank(metadata, value->id);
    bool is_there = rank < metadata->brokers_count && metadata->brokers[rank].id == value->id;
    if (!is_there) {
        if (metadata->brokers_count == metadata->brokers_max) { return BASE_FULL; }
        memmove(&metadata->brokers[rank + 1], &metadata->brokers[rank],
                (size_t)(metadata->brokers_count - rank) * sizeof *metadata->brokers);
        metadata->brokers_count += 1;
    }
    metadata->brokers[rank] = *value;
    if (value->epoch >= metadata->next_broker_epoch && value->epoch < INT64_MAX) {
        metadata->next_broker_epoch = value->epoch + 1;
    }
    metadata->version += 1;
    return BASE_OK;
}

enum base_rc metadata_remove_broker(struct metadata *metadata, int32_t id)
{
    uint32_t rank = broker_rank(metadata, id);
    if (rank == metadata->brokers_count || metadata->brokers[rank].id != id) { return BASE_MISSING; }
    metadata->brokers_count -= 1;
    memmove(&metadata->brokers[rank], &metadata->brokers[rank + 1],
            (size_t)(metadata->brokers_count - rank) * sizeof *metadata->brokers);
    metadata->version += 1;
    return BASE_OK;
}

bool metadata_has_room_for_broker(const struct metadata *metadata, int32_t id)
{
    return metadata->brokers_count < metadata->brokers_max || metadata_broker(metadata, id) != NULL;
}

uint32_t metadata_features_count(const struct metadata *metadata) { return metadata->features_count; }

const struct metadata_feature *metadata_feature_at(const struct metadata *metadata, uint32_t rank)
{
    CHECK(rank < metadata->features_count);
    return &metadata->features[rank];
}

static uint32_t feature_rank(const struct metadata *metadata, struct base_slice name, bool *is_there_out)
{
    uint32_t rank = 0;
    int order = 1;
    while (rank < metadata->features_count) {
        order = base_slice_compare(base_slice_text(metadata->features[rank].name), name);
        if (order >= 0) { break; }
        rank += 1;
    }
    *is_there_out = rank < metadata->features_count && order == 0;
    return rank;
}

int16_t metadata_feature_level(const struct metadata *metadata, struct base_slice name)
{
    bool is_there;
    uint32_t rank = feature_rank(metadata, name, &is_there);
    return is_there ? metadata->features[rank].level : 0;
}

enum base_rc metadata_put_feature(struct metadata *metadata, struct base_slice name, int16_t level)
{
    if (name.size_bytes == 0 || name.size_bytes > METADATA_WORD_MAX || level < 0) { return BASE_BAD; }
    bool is_there;
    uint32_t rank = feature_rank(metadata, name, &is_there);
    struct metadata_feature *features = metadata->features;
    if (level == 0 && is_there) {
        metadata->features_count -= 1;
        memmove(&features[rank], &features[rank + 1], (metadata->features_count - rank) * sizeof *features);
    } else if (level != 0) {
        if (!is_there) {
            if (metadata->features_count == METADATA_FEATURES_MAX) { return BASE_FULL; }
            memmove(&features[rank + 1], &features[rank], (metadata->features_count - rank) * sizeof *features);
            metadata->features_count += 1;
            memset(&features[rank], 0, sizeof *features);
            memcpy(features[rank].name, name.at, name.size_bytes);
        }
        features[rank].level = level;
    }
    metadata->version += 1;
    return BASE_OK;
}

void metadata_put_next_producer_id(struct metadata *metadata, int64_t next_producer_id)
{
    metadata->next_producer_id = next_producer_id;
    metadata->version += 1;
}

void metadata_set_controller(struct metadata *metadata, int32_t controller_id)
{
    metadata->controller_id = controller_id;
    metadata->version += 1;
}

/* ---- topics and partitions ---------------------------------------------------------------------------------------- */

bool metadata_has_room(const struct metadata *metadata, uint32_t topics, uint32_t partitions, uint32_t configs)
{
    return topics <= metadata->topics_max - metadata->topics.taken_count &&
           partitions <= metadata->partitions_max - metadata->partitions.taken_count &&
           configs <= metadata->configs_max - metadata->overrides.taken_count;
}

/* The maps have room for whatever the pools have room for. */
static void must_insert(struct base_map *map, uint64_t hash, uint32_t value)
{
    enum base_rc rc = base_map_insert(map, hash, value);
    CHECK(rc == BASE_OK);
}

enum base_rc metadata_put_topic(struct metadata *metadata, struct base_slice name, struct base_uuid id)
{
    if (name.size_bytes == 0 || name.size_bytes > METADATA_TOPIC_NAME_MAX || base_uuid_is_none(id)) { return BASE_BAD; }
    const struct metadata_topic *by_name = metadata_topic_by_name(metadata, name);
    const struct metadata_topic *by_id = metadata_topic_by_id(metadata, id);
    if (by_name != by_id) { return BASE_BAD; }
    if (by_name != NULL) { return BASE_OK; }
    uint32_t rank = rank_of(metadata, name, AT);
    uint32_t count = metadata->topics.taken_count;
    uint32_t slot = base_pool_take(&metadata->topics);
    if (slot == BASE_POOL_NONE) { return BASE_FULL; }
    struct metadata_topic *topic = &topic_at(metadata, slot)->topic;
    topic->id = id;
    topic->slot = slot;
    topic->name_bytes = (uint32_t)name.size_bytes;
    memcpy(topic->name, name.at, name.size_bytes);
    memmove(&metadata->sorted[rank + 1], &metadata->sorted[rank], (size_t)(count - rank) * sizeof(uint32_t));
    metadata->sorted[rank] = slot;
    must_insert(&metadata->by_name, name_hash(name), slot);
    must_insert(&metadata->by_folded_name, folded_hash(name), slot);
    must_insert(&metadata->by_id, id_hash(id), slot);
    metadata->version += 1;
    return BASE_OK;
}

enum base_rc metadata_put_partition(struct metadata *metadata, const struct metadata_partition *value)
{
    if (value->replicas_count > METADATA_REPLICAS_MAX || value->isr_count > METADATA_REPLICAS_MAX) { return BASE_BAD; }
    const struct metadata_topic *topic = metadata_topic_by_id(metadata, value->id.topic);
    if (topic == NULL) { return BASE_MISSING; }
    if (value->id.index < 0 || (uint32_t)value->id.index > topic->partitions_count) { return BASE_BAD; }
    uint32_t slot;
    if ((uint32_t)value->id.index < topic->partitions_count) {
        slot = metadata_partition(metadata, topic, value->id.index)->slot;
    } else {
        slot = base_pool_take(&metadata->partitions);
        if (slot == BASE_POOL_NONE) { return BASE_FULL; }
        must_insert(&metadata->by_part, base_part_hash(value->id), slot);
        topic_at(metadata, topic->slot)->topic.partitions_count += 1;
    }
    struct metadata_partition *partition = base_pool_at(&metadata->partitions, slot);
    *partition = *value;
    partition->slot = slot;
    partition->topic_slot = topic->slot;
    metadata->version += 1;
    return BASE_OK;
}

static void remove_override_list(struct metadata *metadata, uint32_t first)
{
    while (first != 0) {
        uint32_t next = metadata__override_at(metadata, first)->next;
        base_pool_give(&metadata->overrides, first - 1);
        first = next;
    }
}

enum base_rc metadata_remove_topic(struct metadata *metadata, struct base_uuid id)
{
    const struct metadata_topic *found = metadata_topic_by_id(metadata, id);
    if (found == NULL) { return BASE_MISSING; }
    struct metadata__topic *it = topic_at(metadata, found->slot);
    for (uint32_t i = 0; i < it->topic.partitions_count; i++) {
        const struct metadata_partition *partition = metadata_partition(metadata, &it->topic, (int32_t)i);
        base_map_remove(&metadata->by_part, base_part_hash(partition->id), partition->slot);
        base_pool_give(&metadata->partitions, partition->slot);
    }
    remove_override_list(metadata, it->first_override);
    struct base_slice name = metadata_topic_name(&it->topic);
    uint32_t slot = it->topic.slot;
    uint32_t rank = rank_of(metadata, name, AT);
    CHECK(metadata->sorted[rank] == slot);
    uint32_t count_after = metadata->topics.taken_count - 1;
    memmove(&metadata->sorted[rank], &metadata->sorted[rank + 1], (size_t)(count_after - rank) * sizeof(uint32_t));
    base_map_remove(&metadata->by_name, name_hash(name), slot);
    base_map_remove(&metadata->by_folded_name, folded_hash(name), slot);
    base_map_remove(&metadata->by_id, id_hash(id), slot);
    base_pool_give(&metadata->topics, slot);
    metadata->version += 1;
    return BASE_OK;
}

void metadata_reset(struct metadata *metadata)
{
    while (metadata->topics.taken_count > 0) {
        enum base_rc rc = metadata_remove_topic(metadata, metadata_topic_at(metadata, 0)->id);
        CHECK(rc == BASE_OK);
    }
    remove_override_list(metadata, metadata->first_broker_override);
    metadata->first_broker_override = 0;
    metadata->brokers_count = 0;
    metadata->features_count = 0;
    metadata->next_producer_id = 0;
    metadata->next_broker_epoch = 0;
    metadata->version += 1;
}

/* ---- overrides ---------------------------------------------------------------------------------------------------- */

static struct base_slice resource_name_of(const struct metadata__override *override)
{
    return base_slice_of(override->resource_name, override->resource_name_bytes);
}

static int compare_override(const struct metadata__override *override, struct base_slice resource_name,
                            struct base_slice name)
{
    int order = base_slice_compare(resource_name_of(override), resource_name);
    if (order != 0) { return order; }
    return base_slice_compare(base_slice_of(override->name, override->name_bytes), name);
}

const struct metadata__override *metadata__find_override(const struct metadata *metadata, uint32_t link,
                                                         struct base_slice resource_name, struct base_slice name)
{
    for (; link != 0; link = metadata__override_at(metadata, link)->next) {
        const struct metadata__override *override = metadata__override_at(metadata, link);
        int order = compare_override(override, resource_name, name);
        if (order == 0) { return override; }
        if (order > 0) { break; }
    }
    return NULL;
}

/* The head of the list that holds the overrides of a resource; NULL: no such topic. */
static uint32_t *list_of(struct metadata *metadata, enum metadata_resource resource, struct base_slice resource_name)
{
    if (resource == METADATA_RESOURCE_BROKER) { return &metadata->first_broker_override; }
    const struct metadata_topic *topic = metadata_topic_by_name(metadata, resource_name);
    return topic == NULL ? NULL : &topic_at(metadata, topic->slot)->first_override;
}

enum base_rc metadata_put_config(struct metadata *metadata, enum metadata_resource resource,
                                 struct base_slice resource_name, struct base_slice name, struct base_slice value)
{
    struct metadata__override *before = NULL;
    if (name.size_bytes == 0 || name.size_bytes > METADATA_WORD_MAX || value.size_bytes > METADATA_VALUE_MAX) {
        return BASE_BAD;
    }
    if (resource == METADATA_RESOURCE_BROKER && resource_name.size_bytes > sizeof before->resource_name) {
        return BASE_BAD;
    }
    uint32_t *link = list_of(metadata, resource, resource_name);
    if (link == NULL) { return BASE_MISSING; }
    struct base_slice owner = resource == METADATA_RESOURCE_BROKER ? resource_name : base_slice_of("", 0);
    int order = 1;
    while (*link != 0) {
        before = base_pool_at(&metadata->overrides, *link - 1);
        order = compare_override(before, owner, name);
        if (order >= 0) { break; }
        link = &before->next;
    }
    bool is_there = *link != 0 && order == 0;
    if (value.at == NULL) {
        if (is_there) {
            uint32_t slot = *link - 1;
            *link = before->next;
            base_pool_give(&metadata->overrides, slot);
        }
        metadata->version += 1;
        return BASE_OK;
    }
    struct metadata__override *override = before;
    if (!is_there) {
        uint32_t slot = base_pool_take(&metadata->overrides);
        if (slot == BASE_POOL_NONE) { return BASE_FULL; }
        override = base_pool_at(&metadata->overrides, slot);
        override->next = *link;
        *link = slot + 1;
        override->resource_name_bytes = (uint8_t)owner.size_bytes;
        if (owner.size_bytes > 0) { memcpy(override->resource_name, owner.at, owner.size_bytes); }
        override->name_bytes = (uint8_t)name.size_bytes;
        memcpy(override->name, name.at, name.size_bytes);
    }
    override->value_bytes = (uint16_t)value.size_bytes;
    if (value.size_bytes > 0) { memcpy(override->value, value.at, value.size_bytes); }
    metadata->version += 1;
    return BASE_OK;
}

bool metadata_overrides(const struct metadata *metadata, enum metadata_resource resource,
                        struct base_slice resource_name, struct metadata_override_cursor *cursor_out)
{
    uint32_t link = metadata->first_broker_override;
    if (resource == METADATA_RESOURCE_TOPIC) {
        const struct metadata_topic *topic = metadata_topic_by_name(metadata, resource_name);
        link = topic == NULL ? 0 : topic_at(metadata, topic->slot)->first_override;
    } else {
        while (link != 0) {
            const struct metadata__override *override = metadata__override_at(metadata, link);
            if (base_slice_equal(resource_name_of(override), resource_name)) { break; }
            link = override->next;
        }
    }
    cursor_out->next = link;
    return link != 0;
}

static bool take_override(const struct metadata *metadata, struct metadata_override_cursor *cursor,
                          struct base_slice *resource_name_out, struct metadata_pair *pair_out)
{
    if (cursor->next == 0) { return false; }
    const struct metadata__override *override = metadata__override_at(metadata, cursor->next);
    *resource_name_out = resource_name_of(override);
    *pair_out = (struct metadata_pair){.name = base_slice_of(override->name, override->name_bytes),
                                       .value = base_slice_of(override->value, override->value_bytes)};
    cursor->next = override->next;
    return true;
}

bool metadata_override_next(const struct metadata *metadata, struct metadata_override_cursor *cursor,
                            struct metadata_pair *pair_out)
{
    struct base_slice name;
    if (!take_override(metadata, cursor, &name, pair_out)) { return false; }
    if (cursor->next == 0) { return true; }
    /* Another broker's begin where the resource changes. */
    if (!base_slice_equal(resource_name_of(metadata__override_at(metadata, cursor->next)), name)) { cursor->next = 0; }
    return true;
}

struct metadata_override_cursor metadata_broker_overrides(const struct metadata *metadata)
{
    return (struct metadata_override_cursor){.next = metadata->first_broker_override};
}

bool metadata_broker_override_next(const struct metadata *metadata, struct metadata_override_cursor *cursor,
                                   struct base_slice *resource_name_out, struct metadata_pair *pair_out)
{
    return take_override(metadata, cursor, resource_name_out, pair_out);
}

/* ---- comparing and checking --------------------------------------------------------------------------------------- */

static bool is_same_list(const int32_t *a, uint32_t a_count, const int32_t *b, uint32_t b_count)
{
    if (a_count != b_count) { return false; }
    for (uint32_t i = 0; i < a_count; i++) {
        if (a[i] != b[i]) { return false; }
    }
    return true;
}

static bool is_same_partition(const struct metadata_partition *a, const struct metadata_partition *b)
{
    if (!base_part_equal(a->id, b->id) || a->leader != b->leader || a->leader_epoch != b->leader_epoch ||
        a->partition_epoch != b->partition_epoch ||
        !is_same_list(a->replicas, a->replicas_count, b->replicas, b->replicas_count) ||
        !is_same_list(a->isr, a->isr_count, b->isr, b->isr_count)) {
        return false;
    }
    for (uint32_t i = 0; i < a->replicas_count; i++) {
        if (!base_uuid_equal(a->directories[i], b->directories[i])) { return false; }
    }
    return true;
}

static bool is_same_overrides(const struct metadata *a, uint32_t a_link, const struct metadata *b, uint32_t b_link)
{
    while (a_link != 0 && b_link != 0) {
        const struct metadata__override *x = metadata__override_at(a, a_link);
        const struct metadata__override *y = metadata__override_at(b, b_link);
        if (compare_override(x, resource_name_of(y), base_slice_of(y->name, y->name_bytes)) != 0 ||
            !base_slice_equal(base_slice_of(x->value, x->value_bytes), base_slice_of(y->value, y->value_bytes))) {
            return false;
        }
        a_link = x->next;
        b_link = y->next;
    }
    return a_link == 0 && b_link == 0;
}

static bool is_same_text(const char *a, const char *b)
{
    return base_slice_equal(base_slice_text(a), base_slice_text(b));
}

static bool is_same_broker(const struct metadata_broker *a, const struct metadata_broker *b)
{
    if (a->id != b->id || a->epoch != b->epoch || !base_uuid_equal(a->incarnation, b->incarnation) ||
        !base_uuid_equal(a->directory, b->directory) || a->has_rack != b->has_rack || !is_same_text(a->rack, b->rack) ||
        a->is_fenced != b->is_fenced || a->is_in_controlled_shutdown != b->is_in_controlled_shutdown ||
        a->endpoints_count != b->endpoints_count) {
        return false;
    }
    for (uint32_t i = 0; i < a->endpoints_count; i++) {
        const struct metadata_endpoint *x = &a->endpoints[i];
        const struct metadata_endpoint *y = &b->endpoints[i];
        if (!is_same_text(x->name, y->name) || !is_same_text(x->host, y->host) || x->port != y->port ||
            x->security_protocol != y->security_protocol) {
            return false;
        }
    }
    return true;
}

static bool is_same_topic(const struct metadata *a, const struct metadata *b, uint32_t rank)
{
    const struct metadata_topic *x = metadata_topic_at(a, rank);
    const struct metadata_topic *y = metadata_topic_at(b, rank);
    if (!base_slice_equal(metadata_topic_name(x), metadata_topic_name(y)) || !base_uuid_equal(x->id, y->id) ||
        x->partitions_count != y->partitions_count) {
        return false;
    }
    for (uint32_t i = 0; i < x->partitions_count; i++) {
        if (!is_same_partition(metadata_partition(a, x, (int32_t)i), metadata_partition(b, y, (int32_t)i))) {
            return false;
        }
    }
    return is_same_overrides(a, metadata__topic_of(a, x)->first_override, b, metadata__topic_of(b, y)->first_override);
}

bool metadata_equal(const struct metadata *a, const struct metadata *b)
{
    if (a->topics.taken_count != b->topics.taken_count || a->partitions.taken_count != b->partitions.taken_count ||
        a->brokers_count != b->brokers_count || a->features_count != b->features_count ||
        a->next_producer_id != b->next_producer_id) {
        return false;
    }
    for (uint32_t i = 0; i < a->topics.taken_count; i++) {
        if (!is_same_topic(a, b, i)) { return false; }
    }
    for (uint32_t i = 0; i < a->brokers_count; i++) {
        if (!is_same_broker(&a->brokers[i], &b->brokers[i])) { return false; }
    }
    for (uint32_t i = 0; i < a->features_count; i++) {
        if (!is_same_text(a->features[i].name, b->features[i].name) || a->features[i].level != b->features[i].level) {
            return false;
        }
    }
    return is_same_overrides(a, a->first_broker_override, b, b->first_broker_override);
}

bool metadata_is_sound(const struct metadata *metadata)
{
    uint32_t partitions = 0;
    uint32_t overrides = 0;
    for (uint32_t rank = 0; rank < metadata->topics.taken_count; rank++) {
        const struct metadata_topic *topic = metadata_topic_at(metadata, rank);
        if (metadata_topic_by_name(metadata, metadata_topic_name(topic)) != topic) { return false; }
        if (metadata_topic_by_id(metadata, topic->id) != topic) { return false; }
        if (rank > 0 && base_slice_compare(metadata_topic_name(metadata_topic_at(metadata, rank - 1)),
                                           metadata_topic_name(topic)) >= 0) {
            return false;
        }
        for (uint32_t i = 0; i < topic->partitions_count; i++) {
            const struct metadata_partition *partition = metadata_partition(metadata, topic, (int32_t)i);
            if (partition->topic_slot != topic->slot ||
                metadata_partition_by_slot(metadata, partition->slot) != partition) {
                return false;
            }
        }
        partitions += topic->partitions_count;
        for (uint32_t at = metadata__topic_of(metadata, topic)->first_override; at != 0;
             at = metadata__override_at(metadata, at)->next) {
            overrides += 1;
        }
    }
    for (uint32_t at = metadata->first_broker_override; at != 0; at = metadata__override_at(metadata, at)->next) {
        overrides += 1;
    }
    return partitions == metadata->partitions.taken_count && overrides == metadata->overrides.taken_count;
}
