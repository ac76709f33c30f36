/* client_choose.c: who reads what: the leader of a group divides the partitions of its members' topics.
 *
 * Members may be of any client: their subscriptions are read as ConsumerProtocolSubscription, whatever version. Nothing here fails
 * on what a member says: one whose words can't be read gets nothing.
 *
 * Range: of each topic, its members in the order of their ids get runs of partitions, the first ones one more. Cooperative-sticky:
 * who has a partition keeps it where that is fair; what somebody else still has is given to nobody this time, so that it changes
 * hands only after its owner gave it up (KIP-429).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

#include "wire/kafka/consumer_protocol.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/sync_group.h"

#define ASSIGNMENT_VERSION 0

struct reader { /* a member */
    const struct kafka_join_group_response_join_group_response_member *is;
    bool is_readable;
    struct kafka_consumer_protocol_subscription says;
    int32_t generation; /* of what it says to own */
    uint32_t load;
    uint32_t first; /* of its places in `places` */
};
struct place { /* a partition */
    uint32_t topic;
    int32_t index;
    uint32_t reader; /* who gets it; NONE */
    uint32_t owner;  /* who says to own it, of the latest generation; NONE */
    int32_t generation;
    bool is_contested; /* two say so, of the same generation */
    bool is_claimed;   /* anybody says so */
};
struct choice {
    struct client *client;
    struct reader *readers; /* in the order of their ids */
    uint32_t reader_count;
    struct place *places; /* by topic and index */
    uint32_t place_count;
    uint32_t *firsts; /* by topic of the client: its first place */
};

/* ---- what members say ---- */

enum base_rc client__protocol_read(enum kafka_message message, struct base_slice bytes, struct base_arena *arena,
                                   void *says_out, int16_t *version_out)
{
    int16_t version = bytes.size_bytes < 2 ? -1 : (int16_t)base_get_u16(bytes.at);
    int16_t version_max = kafka_message_version_max(message);
    size_t used_bytes = 0;
    if (version < 0) { return BASE_BAD; }
    if (version > version_max) { version = version_max; } /* later ones begin in the same way */
    *version_out = version;
    return kafka_decode_front(message, base_slice_of(bytes.at + 2, bytes.size_bytes - 2), version, arena, says_out,
                              &used_bytes);
}

enum base_rc client__protocol_write(enum kafka_message message, const void *says, int16_t version,
                                    struct base_arena *arena, struct kafka_bytes *bytes_out)
{
    struct kafka_size size;
    if (kafka_size(message, says, version, &size) != BASE_OK) { return BASE_BAD; }
    uint8_t *at = base_arena_take_bytes(arena, size.memory_bytes + 2);
    if (at == NULL) { return BASE_FULL; }
    struct kafka_writer writer;
    base_put_u16(at, (uint16_t)version);
    kafka_writer_init(&writer, at + 2, size.memory_bytes);
    enum base_rc rc = kafka_encode(message, says, version, &writer);
    CHECK(rc == BASE_OK); /* it was sized */
    *bytes_out = kafka_bytes_of(at, size.memory_bytes + 2);
    return BASE_OK;
}

/* ---- reading ---- */

static bool read_says(struct reader *reader, struct base_arena *arena)
{
    struct base_slice bytes = kafka_bytes_slice(reader->is->metadata);
    int16_t version = -1;
    if (client__protocol_read(KAFKA_MESSAGE_CONSUMER_PROTOCOL_SUBSCRIPTION, bytes, arena, &reader->says, &version) !=
        BASE_OK) {
        return false;
    }
    reader->generation = reader->says.generation_id;
    struct base_slice words = kafka_bytes_slice(reader->says.user_data);
    if (version < 2 && words.size_bytes == 4) { reader->generation = (int32_t)base_get_u32(words.at); } /* Java's */
    return true;
}

static size_t said_bytes(const struct kafka_join_group_response *join)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < join->members_count; i++) {
        bytes += kafka_bytes_slice(join->members[i].metadata).size_bytes;
    }
    return bytes;
}

enum base_rc client__choose_topics(struct client *client, const void *join_answer)
{
    const struct kafka_join_group_response *join = join_answer;
    size_t room_bytes = said_bytes(join) * KAFKA_ARENA_FACTOR + 256;
    uint8_t *memory = base_pages_take(client->pages, BASE_CONTROL, room_bytes);
    if (memory == NULL) { return BASE_FULL; }
    enum base_rc rc = BASE_OK;
    for (int32_t i = 0; i < join->members_count && rc == BASE_OK; i++) {
        struct base_arena arena;
        struct reader reader = {.is = &join->members[i]};
        base_arena_init(&arena, memory, room_bytes);
        bool is_readable = read_says(&reader, &arena);
        for (int32_t j = 0; is_readable && rc == BASE_OK && j < reader.says.topics_count; j++) {
            struct base_slice name = kafka_text_slice(reader.says.topics[j]);
            struct topic *topic = client__topic_find(client, name);
            if (topic != NULL || name.size_bytes == 0 || name.size_bytes > CLIENT_TOPIC_NAME_MAX) { continue; }
            rc = client__topic_take(client, name, &topic);
        }
    }
    client__give(client, memory);
    return rc;
}

/* Static members keep their place through restarts: they are ordered by their instance ids, before the others. */
static bool is_before(const struct reader *a, const struct reader *b)
{
    bool is_static = !kafka_text_is_null(a->is->group_instance_id);
    if (is_static != !kafka_text_is_null(b->is->group_instance_id)) { return is_static; }
    struct kafka_text own = is_static ? a->is->group_instance_id : a->is->member_id;
    struct kafka_text other = is_static ? b->is->group_instance_id : b->is->member_id;
    return base_slice_compare(kafka_text_slice(own), kafka_text_slice(other)) < 0;
}

static void read_readers(struct choice *choice, const struct kafka_join_group_response *join, struct base_arena *arena)
{
    for (int32_t i = 0; i < join->members_count; i++) {
        struct reader reader = {.is = &join->members[i]};
        reader.is_readable = read_says(&reader, arena);
        if (!reader.is_readable) { kafka_consumer_protocol_subscription_init(&reader.says); }
        uint32_t at = choice->reader_count;
        while (at > 0 && is_before(&reader, &choice->readers[at - 1])) {
            choice->readers[at] = choice->readers[at - 1];
            at -= 1;
        }
        choice->readers[at] = reader;
        choice->reader_count += 1;
    }
}

static bool reads(const struct choice *choice, const struct reader *reader, uint32_t topic)
{
    struct base_slice name = client__topic_name(&choice->client->topics[topic]);
    for (int32_t i = 0; i < reader->says.topics_count; i++) {
        if (base_slice_equal(kafka_text_slice(reader->says.topics[i]), name)) { return true; }
    }
    return false;
}

static int32_t partitions_of(const struct client *client, uint32_t topic)
{
    return client__topic_partitions(&client->topics[topic]);
}

static void list_places(struct choice *choice)
{
    for (uint32_t topic = 0; topic < choice->client->topics_used; topic++) {
        choice->firsts[topic] = choice->place_count;
        for (int32_t i = 0; i < partitions_of(choice->client, topic); i++) {
            choice->places[choice->place_count] =
                (struct place){.topic = topic, .index = i, .reader = NONE, .owner = NONE};
            choice->place_count += 1;
        }
    }
}

/* ---- range ---- */

static void divide_topic(struct choice *choice, uint32_t topic)
{
    uint32_t count = (uint32_t)partitions_of(choice->client, topic);
    uint32_t readers = 0;
    for (uint32_t i = 0; i < choice->reader_count; i++) {
        if (reads(choice, &choice->readers[i], topic)) { readers += 1; }
    }
    uint32_t at = choice->firsts[topic];
    uint32_t number = 0;
    for (uint32_t i = 0; i < choice->reader_count && readers > 0; i++) {
        if (!reads(choice, &choice->readers[i], topic)) { continue; }
        uint32_t quota = count / readers + (number < count % readers ? 1 : 0);
        for (uint32_t end = at + quota; at < end; at++) { choice->places[at].reader = i; }
        number += 1;
    }
}

/* ---- cooperative-sticky ---- */

static void claim(struct choice *choice, uint32_t reader)
{
    const struct reader *of = &choice->readers[reader];
    for (int32_t i = 0; i < of->says.owned_partitions_count; i++) {
        const struct kafka_consumer_protocol_subscription_topic_partition *owned = &of->says.owned_partitions[i];
        const struct topic *topic = client__topic_find(choice->client, kafka_text_slice(owned->topic));
        if (topic == NULL) { continue; }
        uint32_t number = client__topic_index(choice->client, topic);
        for (int32_t j = 0; j < owned->partitions_count; j++) {
            int32_t index = owned->partitions[j];
            if (index < 0 || index >= partitions_of(choice->client, number)) { continue; }
            struct place *place = &choice->places[choice->firsts[number] + (uint32_t)index];
            bool is_later = place->owner == NONE || of->generation > place->generation;
            place->is_claimed = true;
            if (!is_later && of->generation < place->generation) { continue; }
            place->is_contested = !is_later && place->owner != reader;
            place->owner = reader;
            place->generation = of->generation;
        }
    }
}

static void give(struct choice *choice, struct place *place, uint32_t reader)
{
    if (place->reader != NONE) { choice->readers[place->reader].load -= 1; }
    place->reader = reader;
    choice->readers[reader].load += 1;
}

/* The one with the fewest partitions of those that read the topic; NONE: nobody does. */
static uint32_t least_loaded(const struct choice *choice, uint32_t topic)
{
    uint32_t least = NONE;
    for (uint32_t i = 0; i < choice->reader_count; i++) {
        bool is_less = least == NONE || choice->readers[i].load < choice->readers[least].load;
        if (is_less && reads(choice, &choice->readers[i], topic)) { least = i; }
    }
    return least;
}

static void divide_sticky(struct choice *choice)
{
    for (uint32_t i = 0; i < choice->reader_count; i++) { claim(choice, i); }
    for (uint32_t i = 0; i < choice->place_count; i++) {
        struct place *place = &choice->places[i];
        bool keeps =
            place->owner != NONE && !place->is_contested && reads(choice, &choice->readers[place->owner], place->topic);
        if (keeps) { give(choice, place, place->owner); }
    }
    for (uint32_t i = 0; i < choice->place_count; i++) {
        struct place *place = &choice->places[i];
        uint32_t least = place->reader == NONE ? least_loaded(choice, place->topic) : NONE;
        if (least != NONE) { give(choice, place, least); }
    }
    for (uint32_t i = 0; i < choice->place_count; i++) { /* fair: nobody has two more than one who could have it */
        struct place *place = &choice->places[i];
        if (place->reader == NONE) { continue; }
        uint32_t least = least_loaded(choice, place->topic);
        if (choice->readers[place->reader].load > choice->readers[least].load + 1) { give(choice, place, least); }
    }
    for (uint32_t i = 0; i < choice->place_count; i++) {
        struct place *place = &choice->places[i];
        bool changes_hands = place->is_claimed && (place->is_contested || place->reader != place->owner);
        if (!changes_hands || place->reader == NONE) { continue; }
        choice->readers[place->reader].load -= 1;
        place->reader = NONE;
    }
}

/* ---- writing ---- */

/* Places of each reader, one after another in `sorted`, by topic and index. */
static void sort_places(struct choice *choice, uint32_t *sorted)
{
    for (uint32_t i = 0; i < choice->reader_count; i++) { choice->readers[i].load = 0; }
    for (uint32_t i = 0; i < choice->place_count; i++) {
        if (choice->places[i].reader != NONE) { choice->readers[choice->places[i].reader].load += 1; }
    }
    uint32_t first = 0;
    for (uint32_t i = 0; i < choice->reader_count; i++) {
        choice->readers[i].first = first;
        first += choice->readers[i].load;
        choice->readers[i].load = 0;
    }
    for (uint32_t i = 0; i < choice->place_count; i++) {
        if (choice->places[i].reader == NONE) { continue; }
        struct reader *reader = &choice->readers[choice->places[i].reader];
        sorted[reader->first + reader->load] = i;
        reader->load += 1;
    }
}

/* The assignment of a reader as bytes. */
static enum base_rc write_assignment(const struct choice *choice, const struct reader *reader, const uint32_t *sorted,
                                     struct base_arena *arena, struct kafka_bytes *bytes_out)
{
    struct kafka_consumer_protocol_assignment says;
    kafka_consumer_protocol_assignment_init(&says);
    uint32_t topics = 0;
    for (uint32_t i = 0; i < reader->load; i++) {
        const struct place *place = &choice->places[sorted[reader->first + i]];
        bool is_first = i == 0 || choice->places[sorted[reader->first + i - 1]].topic != place->topic;
        topics += is_first ? 1 : 0;
    }
    says.assigned_partitions = kafka_consumer_protocol_assignment_topic_partition_take(arena, (int32_t)topics);
    int32_t *indexes = base_arena_take_array(arena, reader->load + 1, sizeof *indexes);
    if ((topics > 0 && says.assigned_partitions == NULL) || indexes == NULL) { return BASE_FULL; }
    for (uint32_t i = 0; i < reader->load; i++) {
        const struct place *place = &choice->places[sorted[reader->first + i]];
        bool is_first = i == 0 || choice->places[sorted[reader->first + i - 1]].topic != place->topic;
        if (is_first) {
            struct kafka_consumer_protocol_assignment_topic_partition *next =
                &says.assigned_partitions[says.assigned_partitions_count++];
            next->topic = kafka_text_of_slice(client__topic_name(&choice->client->topics[place->topic]));
            next->partitions = &indexes[i];
            next->partitions_count = 0;
        }
        indexes[i] = place->index;
        says.assigned_partitions[says.assigned_partitions_count - 1].partitions_count += 1;
    }
    enum base_rc rc =
        client__protocol_write(KAFKA_MESSAGE_CONSUMER_PROTOCOL_ASSIGNMENT, &says, ASSIGNMENT_VERSION, arena, bytes_out);
    CHECK(rc != BASE_BAD); /* every version can say it */
    return rc;
}

static enum base_rc write_all(struct choice *choice, struct base_arena *arena, struct kafka_sync_group_request *request)
{
    uint32_t *sorted = base_arena_take_array(arena, choice->place_count + 1, sizeof *sorted);
    request->assignments =
        kafka_sync_group_request_sync_group_request_assignment_take(arena, (int32_t)choice->reader_count);
    if (sorted == NULL || request->assignments == NULL) { return BASE_FULL; }
    sort_places(choice, sorted);
    for (uint32_t i = 0; i < choice->reader_count; i++) {
        struct kafka_sync_group_request_sync_group_request_assignment *assignment = &request->assignments[i];
        assignment->member_id = choice->readers[i].is->member_id;
        if (write_assignment(choice, &choice->readers[i], sorted, arena, &assignment->assignment) != BASE_OK) {
            return BASE_FULL;
        }
    }
    request->assignments_count = (int32_t)choice->reader_count;
    return BASE_OK;
}

/* Enough for all of it: each topic of a subscription is in its member's assignment once at most. */
static size_t choice_bytes(const struct client *client, const struct kafka_join_group_response *join, uint32_t places)
{
    size_t said = said_bytes(join);
    size_t members = (size_t)join->members_count + 1;
    size_t of_member =
        sizeof(struct reader) + sizeof(struct kafka_sync_group_request_sync_group_request_assignment) + 128;
    size_t of_place = sizeof(struct place) + 4 * sizeof(uint32_t);
    size_t of_topic = sizeof(struct kafka_consumer_protocol_assignment_topic_partition) + 64;
    return 4096 + members * of_member + places * of_place + client->topics_used * sizeof(uint32_t) +
           said * (KAFKA_ARENA_FACTOR + 1) + said / 2 * of_topic;
}

enum base_rc client__choose(struct client *client, const void *join_answer, struct kafka_sync_group_request *request,
                            uint8_t **memory_out)
{
    const struct kafka_join_group_response *join = join_answer;
    struct choice choice = {.client = client};
    uint32_t places = 0;
    for (uint32_t i = 0; i < client->topics_used; i++) { places += (uint32_t)partitions_of(client, i); }
    size_t room_bytes = choice_bytes(client, join, places);
    uint8_t *memory = base_pages_take(client->pages, BASE_CONTROL, room_bytes);
    if (memory == NULL) { return BASE_FULL; }
    struct base_arena arena;
    base_arena_init(&arena, memory, room_bytes);
    choice.readers = base_arena_take_array(&arena, (size_t)join->members_count + 1, sizeof *choice.readers);
    choice.places = base_arena_take_array(&arena, (size_t)places + 1, sizeof *choice.places);
    choice.firsts = base_arena_take_array(&arena, (size_t)client->topics_used + 1, sizeof *choice.firsts);
    CHECK(choice.readers != NULL && choice.places != NULL && choice.firsts != NULL); /* they were counted */
    read_readers(&choice, join, &arena);
    list_places(&choice);
    if (client->member.config.strategy == CLIENT_RANGE) {
        for (uint32_t i = 0; i < client->topics_used; i++) { divide_topic(&choice, i); }
    } else {
        divide_sticky(&choice);
    }
    enum base_rc rc = write_all(&choice, &arena, request);
    if (rc != BASE_OK) {
        client__give(client, memory);
        return rc;
    }
    *memory_out = memory;
    return BASE_OK;
}
