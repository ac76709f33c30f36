/* crowd_assign.c: see crowd__parts.h. What members and leaders say to each other through the coordinator, as consumers do.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "crowd__parts.h"

#include "wire/kafka/consumer_protocol.h"
#include "wire/kafka/join_group.h"

#define VERSION 1 /* of what is said */

typedef struct kafka_consumer_protocol_subscription_topic_partition owned_topic;
typedef struct kafka_consumer_protocol_assignment_topic_partition given_topic;

static uint32_t topic_of(const struct actor_groups *groups, struct kafka_text name)
{
    for (uint32_t t = 0; t < groups->topic_count; t++) {
        if (kafka_text_is(name, groups->topics[t].name)) { return t; }
    }
    return UINT32_MAX;
}

static int32_t partitions_of(uint32_t bits, int32_t at[ACTOR_GROUP_PARTITIONS_MAX])
{
    int32_t count = 0;
    for (int32_t p = 0; p < ACTOR_GROUP_PARTITIONS_MAX; p++) {
        if ((bits >> p & 1u) != 0) { at[count++] = p; }
    }
    return count;
}

static uint32_t bits_of(const int32_t *partitions, int32_t count)
{
    uint32_t bits = 0;
    for (int32_t i = 0; i < count; i++) {
        if (partitions[i] >= 0 && partitions[i] < ACTOR_GROUP_PARTITIONS_MAX) { bits |= 1u << partitions[i]; }
    }
    return bits;
}

static struct base_slice put(uint8_t *at, size_t size_bytes, enum kafka_message message, const void *value)
{
    struct kafka_writer writer;
    base_put_u16(at, VERSION);
    kafka_writer_init(&writer, at + 2, size_bytes - 2);
    enum base_rc rc = kafka_encode(message, value, VERSION, &writer);
    CHECK(rc == BASE_OK); /* three topics of a dozen partitions */
    return base_slice_of(at, writer.used_bytes + 2);
}

struct base_slice crowd__subscription(struct actor *actor, const struct crowd_member *member)
{
    const struct actor_groups *groups = crowd__groups(actor);
    struct kafka_text names[ACTOR_GROUP_TOPICS_MAX];
    owned_topic owned[ACTOR_GROUP_TOPICS_MAX];
    int32_t partitions[ACTOR_GROUP_TOPICS_MAX][ACTOR_GROUP_PARTITIONS_MAX];
    struct kafka_consumer_protocol_subscription words;
    kafka_consumer_protocol_subscription_init(&words);
    words.topics = names;
    words.owned_partitions = owned;
    for (uint32_t t = 0; t < groups->topic_count; t++) {
        if ((member->topics >> t & 1u) != 0) { names[words.topics_count++] = kafka_text_words(groups->topics[t].name); }
        int32_t count = member->is_cooperative ? partitions_of(member->owned[t], partitions[t]) : 0;
        if (count == 0) { continue; }
        owned_topic *line = &owned[words.owned_partitions_count++];
        kafka_consumer_protocol_subscription_topic_partition_init(line);
        line->topic = kafka_text_words(groups->topics[t].name);
        line->partitions = partitions[t];
        line->partitions_count = count;
    }
    return put(actor->crowd->room, CROWD_SCRATCH_BYTES, KAFKA_MESSAGE_CONSUMER_PROTOCOL_SUBSCRIPTION, &words);
}

void crowd__take_seats(struct actor *actor, struct crowd_member *member, const void *join_response)
{
    const struct kafka_join_group_response *answer = join_response;
    const struct actor_groups *groups = crowd__groups(actor);
    member->seat_count = 0;
    for (int32_t i = 0; i < answer->members_count && member->seat_count < actor->crowd->seats_max; i++) {
        struct crowd_seat *seat = &member->seats[member->seat_count++];
        *seat = (struct crowd_seat){.topics = 0};
        struct base_slice id = kafka_text_slice(answer->members[i].member_id);
        memcpy(seat->id, id.at, base_min_size(id.size_bytes, sizeof seat->id - 1));
        struct base_slice bytes = kafka_bytes_slice(answer->members[i].metadata);
        if (bytes.size_bytes < 2) { continue; }
        uint8_t room[4096];
        struct base_arena arena;
        base_arena_init(&arena, room, sizeof room);
        struct kafka_consumer_protocol_subscription words;
        size_t used_bytes;
        enum base_rc rc =
            kafka_consumer_protocol_subscription_decode_front(base_slice_of(bytes.at + 2, bytes.size_bytes - 2),
                                                              VERSION, &arena, &words, &used_bytes);
        if (rc != BASE_OK) { continue; } /* a rude one's */
        for (int32_t k = 0; k < words.topics_count; k++) {
            uint32_t topic = topic_of(groups, words.topics[k]);
            if (topic != UINT32_MAX) { seat->topics |= 1u << topic; }
        }
        for (int32_t k = 0; k < words.owned_partitions_count; k++) {
            uint32_t topic = topic_of(groups, words.owned_partitions[k].topic);
            if (topic == UINT32_MAX) { continue; }
            seat->owned[topic] |=
                bits_of(words.owned_partitions[k].partitions, words.owned_partitions[k].partitions_count);
        }
    }
}

/* Round robin over those that read the topic, from a seat that the leader draws each time: when its answer was lost, it gives out
 * otherwise. Cooperative: what another says that it owns is given to nobody until that one has given it back. */
uint32_t crowd__assign(struct actor *actor, struct crowd_member *member, uint32_t *given)
{
    const struct actor_groups *groups = crowd__groups(actor);
    uint32_t total = 0;
    uint32_t at = crowd__below(actor, member->seat_count + 1);
    memset(given, 0, sizeof *given * ACTOR_GROUP_TOPICS_MAX * member->seat_count);
    for (uint32_t t = 0; t < groups->topic_count; t++) {
        member->counts[t] = groups->topics[t].partition_count;
        for (int32_t p = 0; p < member->counts[t]; p++) {
            uint32_t holders = 0, holder = 0, taker = UINT32_MAX;
            for (uint32_t i = 0; i < member->seat_count; i++) {
                bool holds = member->is_cooperative && (member->seats[i].owned[t] >> p & 1u) != 0;
                if (holds) {
                    holders += 1;
                    holder = i;
                }
            }
            for (uint32_t i = 0; i < member->seat_count && taker == UINT32_MAX; i++, at++) {
                uint32_t seat = at % member->seat_count;
                if ((member->seats[seat].topics >> t & 1u) != 0) { taker = seat; }
            }
            /* Most stay where they are. */
            bool stays = holders == 1 && (member->seats[holder].topics >> t & 1u) != 0 && !crowd__chance(actor, 4);
            if (stays) { taker = holder; }
            if (taker == UINT32_MAX || holders > 1 || (holders == 1 && holder != taker)) { continue; }
            given[taker * ACTOR_GROUP_TOPICS_MAX + t] |= 1u << p;
            total += 1;
        }
    }
    return total;
}

struct base_slice crowd__assignment(struct actor *actor, const uint32_t *given, uint8_t *at, size_t size_bytes)
{
    const struct actor_groups *groups = crowd__groups(actor);
    given_topic lines[ACTOR_GROUP_TOPICS_MAX];
    int32_t partitions[ACTOR_GROUP_TOPICS_MAX][ACTOR_GROUP_PARTITIONS_MAX];
    struct kafka_consumer_protocol_assignment words;
    kafka_consumer_protocol_assignment_init(&words);
    words.assigned_partitions = lines;
    for (uint32_t t = 0; t < groups->topic_count; t++) {
        int32_t count = partitions_of(given[t], partitions[t]);
        if (count == 0) { continue; }
        given_topic *line = &lines[words.assigned_partitions_count++];
        kafka_consumer_protocol_assignment_topic_partition_init(line);
        line->topic = kafka_text_words(groups->topics[t].name);
        line->partitions = partitions[t];
        line->partitions_count = count;
    }
    return put(at, size_bytes, KAFKA_MESSAGE_CONSUMER_PROTOCOL_ASSIGNMENT, &words);
}

void crowd__take_owned(struct actor *actor, struct crowd_member *member, struct base_slice assignment)
{
    const struct actor_groups *groups = crowd__groups(actor);
    memset(member->owned, 0, sizeof member->owned);
    member->owned_total = 0;
    if (assignment.size_bytes < 2) { return; }
    uint8_t room[4096];
    struct base_arena arena;
    base_arena_init(&arena, room, sizeof room);
    struct kafka_consumer_protocol_assignment words;
    size_t used_bytes;
    enum base_rc rc =
        kafka_consumer_protocol_assignment_decode_front(base_slice_of(assignment.at + 2, assignment.size_bytes - 2),
                                                        VERSION, &arena, &words, &used_bytes);
    if (rc != BASE_OK) { return; }
    for (int32_t k = 0; k < words.assigned_partitions_count; k++) {
        uint32_t topic = topic_of(groups, words.assigned_partitions[k].topic);
        if (topic == UINT32_MAX) { continue; }
        member->owned[topic] |=
            bits_of(words.assigned_partitions[k].partitions, words.assigned_partitions[k].partitions_count);
        member->owned_total += (uint32_t)words.assigned_partitions[k].partitions_count;
    }
}
