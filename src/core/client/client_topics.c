/* client_topics.c: which topics there are, how many partitions they have and who leads them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

#include "wire/kafka/metadata.h"

uint32_t client__topic_index(const struct client *client, const struct topic *topic)
{
    return (uint32_t)(topic - client->topics);
}

struct topic *client__topic_find(const struct client *client, struct base_slice name)
{
    for (uint32_t i = 0; i < client->topics_used; i++) {
        struct topic *topic = &client->topics[i];
        if (base_slice_equal(client__topic_name(topic), name)) { return topic; }
    }
    return NULL;
}

struct topic *client__topic_by_id(const struct client *client, struct base_uuid id)
{
    for (uint32_t i = 0; i < client->topics_used; i++) {
        if (base_uuid_equal(client->topics[i].id, id)) { return &client->topics[i]; }
    }
    return NULL;
}

enum base_rc client__topic_take(struct client *client, struct base_slice name, struct topic **topic_out)
{
    if (name.size_bytes == 0 || name.size_bytes > CLIENT_TOPIC_NAME_MAX) { return BASE_BAD; }
    struct topic *topic = client__topic_find(client, name);
    if (topic == NULL) {
        if (client->topics_used == client->config.topics_max) { return BASE_FULL; }
        topic = &client->topics[client->topics_used];
        client->topics_used += 1;
        *topic = (struct topic){.is_used = true, .sticky = -1, .missing_until_ns = UINT64_MAX};
        topic->name_bytes = (uint32_t)name.size_bytes;
        memcpy(topic->name, name.at, name.size_bytes);
        base_list_init(&topic->parked);
        client__want_metadata(client);
    }
    if (topic->state == CLIENT_TOPIC_FAILED) { /* asked for again: a new chance */
        topic->state = CLIENT_TOPIC_UNKNOWN;
        topic->error = KAFKA_ERROR_NONE;
        topic->missing_until_ns = UINT64_MAX;
        topic->is_answered = false;
        client__want_metadata(client);
    }
    *topic_out = topic;
    return BASE_OK;
}

enum base_rc client_want_topic(struct client *client, struct base_slice name)
{
    struct topic *topic = NULL;
    return client__topic_take(client, name, &topic);
}

void client_topic_view(const struct client *client, struct base_slice name, struct client_topic_view *view_out)
{
    const struct topic *topic = client__topic_find(client, name);
    *view_out = (struct client_topic_view){0};
    if (topic == NULL) { return; }
    *view_out = (struct client_topic_view){.state = topic->state,
                                           .error = topic->error,
                                           .partition_count = topic->partition_count,
                                           .id = topic->id};
}

/* ---- partitions ---- */

static uint64_t place_hash(uint32_t topic, int32_t index)
{
    return base_hash_u64((uint64_t)topic << 32 | (uint32_t)index);
}

uint32_t client__part_index(const struct client *client, const struct part *part)
{
    return base_pool_index(&client->parts, part);
}

struct part *client__part_find(const struct client *client, uint32_t topic, int32_t index)
{
    const struct base_map *map = &client->parts_by_place;
    uint64_t hash = place_hash(topic, index);
    for (uint32_t at = base_map_first(map, hash); at != BASE_MAP_NONE; at = base_map_next(map, hash, at)) {
        struct part *part = client__part(client, base_map_value(map, at));
        if (part->topic == topic && part->index == index) { return part; }
    }
    return NULL;
}

enum base_rc client__part_take(struct client *client, uint32_t topic, int32_t index, struct part **part_out)
{
    struct part *part = client__part_find(client, topic, index);
    if (part == NULL) {
        uint32_t slot = base_pool_take(&client->parts);
        if (slot == BASE_POOL_NONE) { return BASE_FULL; }
        enum base_rc rc = base_map_insert(&client->parts_by_place, place_hash(topic, index), slot);
        CHECK(rc == BASE_OK); /* as many cells as slots */
        part = client__part(client, slot);
        *part = (struct part){.topic = topic, .index = index, .leader = -1, .leader_epoch = -1};
        base_list_init(&part->queue);
    }
    *part_out = part;
    return BASE_OK;
}

/* ---- metadata ---- */

void client__want_metadata(struct client *client) { client->is_metadata_wanted = true; }

static bool is_any_unanswered(const struct client *client)
{
    for (uint32_t i = 0; i < client->topics_used; i++) {
        if (client->topics[i].state == CLIENT_TOPIC_UNKNOWN) { return true; }
    }
    return false;
}

void client__turn_metadata(struct client *client, struct port_out *out)
{
    if (client->metadata_due_ns <= client->now_ns || is_any_unanswered(client)) { client->is_metadata_wanted = true; }
    if (client->is_metadata_asked || client->is_closing) { return; }
    if (!client->is_metadata_wanted) {
        client__alarm(client, client->metadata_due_ns);
        return;
    }
    if (client->now_ns < client->metadata_ns) {
        client__alarm(client, client->metadata_ns);
        return;
    }
    struct node *node = client__node_any(client);
    if (node == NULL || !client__may_work(client, out)) { return; }
    int16_t version = client__version(node, KAFKA_API_METADATA, INT16_MAX);
    if (version < 1) { return; } /* no Kafka since 0.10 */
    struct base_arena scratch = client__scratch(client);
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.allow_auto_topic_creation = client->config.is_auto_create || version < 4;
    uint32_t count = client->topics_used;
    request.topics = kafka_metadata_request_metadata_request_topic_take(&scratch, (int32_t)count);
    CHECK(count == 0 || request.topics != NULL); /* topics_max is bounded by what the scratch holds */
    request.topics_count = (int32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        request.topics[i].name = kafka_text_of_slice(client__topic_name(&client->topics[i]));
    }
    struct ask *ask = NULL;
    enum base_rc rc = client__send(client, node, ASK_METADATA, KAFKA_API_METADATA, version, &request, false,
                                   client->config.request_timeout_ms, out, &ask);
    CHECK(rc != BASE_BAD); /* every version from 1 on can say it */
    if (rc != BASE_OK) { return; }
    for (uint32_t i = 0; i < count; i++) { client->topics[i].is_answered = false; }
    client->is_metadata_asked = true;
    client->is_metadata_wanted = false;
}

/* Another topic under the old name begins anew: offsets and epochs of the old one mean nothing. */
static void set_topic_id(struct client *client, struct topic *topic, struct base_uuid id)
{
    bool is_new = !base_uuid_is_none(topic->id) && !base_uuid_equal(topic->id, id);
    topic->id = id;
    if (!is_new) { return; }
    for (int32_t i = 0; i < topic->partition_count; i++) {
        struct part *part = client__part_find(client, client__topic_index(client, topic), i);
        if (part != NULL) { part->leader_epoch = -1; }
    }
}

static void take_parts(struct client *client, struct topic *topic,
                       const struct kafka_metadata_response_metadata_response_topic *from)
{
    int32_t count = 0;
    for (int32_t i = 0; i < from->partitions_count; i++) {
        const struct kafka_metadata_response_metadata_response_partition *given = &from->partitions[i];
        struct part *part = NULL;
        if (given->partition_index < 0 || given->partition_index >= from->partitions_count) { continue; }
        count += 1;
        if (client__part_take(client, client__topic_index(client, topic), given->partition_index, &part) != BASE_OK) {
            topic->state = CLIENT_TOPIC_FAILED; /* more partitions than we have been given room for */
            topic->error = KAFKA_ERROR_UNKNOWN_SERVER_ERROR;
            return;
        }
        if (given->leader_epoch >= 0 && given->leader_epoch < part->leader_epoch) { continue; } /* older news */
        part->leader = given->leader_id;
        part->leader_epoch = given->leader_epoch;
        if (part->leader < 0) { client__want_metadata(client); }
    }
    if (count != from->partitions_count || count == 0) { return; }
    for (int32_t i = 0; i < count; i++) { /* one that is named twice takes the place of another */
        if (client__part_find(client, client__topic_index(client, topic), i) == NULL) { return; }
    }
    topic->partition_count = count;
    topic->state = CLIENT_TOPIC_KNOWN;
    topic->missing_until_ns = UINT64_MAX;
}

static void topic_is_missing(struct client *client, struct topic *topic, int16_t error)
{
    bool may_heal = kafka_error_is_retriable(error);
    if (topic->missing_until_ns == UINT64_MAX) {
        topic->missing_until_ns = base_deadline_ns(client->now_ns, client->config.topic_missing_ms * MS);
    }
    if (!may_heal || (error == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION && client->now_ns >= topic->missing_until_ns)) {
        topic->state = CLIENT_TOPIC_FAILED;
        topic->error = error;
        return;
    }
    if (topic->state != CLIENT_TOPIC_FAILED) { client__want_metadata(client); }
}

static void take_topic(struct client *client, const struct kafka_metadata_response_metadata_response_topic *from)
{
    struct topic *topic = client__topic_find(client, kafka_text_slice(from->name));
    if (topic == NULL) { return; }
    topic->is_answered = true;
    if (from->error_code != KAFKA_ERROR_NONE) {
        topic_is_missing(client, topic, from->error_code);
        return;
    }
    set_topic_id(client, topic, from->topic_id);
    take_parts(client, topic, from);
}

static void after_metadata(struct client *client, bool is_good)
{
    uint64_t backoff_ns = client->config.retry_backoff_ms * MS;
    client->is_metadata_asked = false;
    client->metadata_ns =
        base_deadline_ns(client->now_ns, backoff_ns / 2 + base_prng_below(&client->prng, backoff_ns + 1));
    if (!is_good) {
        client->is_metadata_wanted = true;
        return;
    }
    client->metadata_due_ns = base_deadline_ns(client->now_ns, client->config.metadata_max_age_ms * MS);
}

void client__lost_metadata(struct client *client) { after_metadata(client, false); }

void client__on_metadata(struct client *client, const struct ask *ask, struct base_slice body)
{
    void *decoded = NULL;
    uint8_t *memory = NULL;
    struct base_arena arena;
    if (client__decode(client, KAFKA_MESSAGE_METADATA_RESPONSE, body, ask->version, 0, &decoded, &memory, &arena) !=
        BASE_OK) {
        after_metadata(client, false);
        return;
    }
    const struct kafka_metadata_response *answer = decoded;
    bool is_good = answer->error_code == KAFKA_ERROR_NONE;
    if (is_good) {
        client->controller = answer->controller_id;
        for (int32_t i = 0; i < answer->brokers_count; i++) {
            const struct kafka_metadata_response_metadata_response_broker *broker = &answer->brokers[i];
            client__node_put(client, broker->node_id, broker->host, broker->port);
        }
        for (int32_t i = 0; i < answer->topics_count; i++) { take_topic(client, &answer->topics[i]); }
    }
    client__give(client, memory);
    after_metadata(client, is_good);
}
