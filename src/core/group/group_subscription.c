/* group_subscription.c: what a consumer says that it reads, looked at in place: however many topics it names, nothing is taken for it.
 *
 * Room    core/group. The words are ConsumerProtocolSubscription (wire/kafka/schema/consumer_protocol.schema) behind their version; those
 *         of a version to come begin like the last one that is known.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group/group__room.h"

struct words { /* that are being read */
    const uint8_t *at;
    size_t left;
    bool is_bad; /* sticky: looked at once, at the end */
    int32_t version;
    int32_t topics_left;
};

static const uint8_t *take(struct words *words, size_t size_bytes)
{
    if (words->is_bad || size_bytes > words->left) {
        words->is_bad = true;
        return NULL;
    }
    const uint8_t *at = words->at;
    words->at += size_bytes;
    words->left -= size_bytes;
    return at;
}

static int32_t take_i16(struct words *words)
{
    const uint8_t *at = take(words, 2);
    return at == NULL ? 0 : (int16_t)base_get_u16(at);
}

static int32_t take_i32(struct words *words)
{
    const uint8_t *at = take(words, 4);
    return at == NULL ? 0 : (int32_t)base_get_u32(at);
}

enum nulls { NEVER_NULL, MAY_BE_NULL };

/* So many bytes, as the length before them says. */
static struct base_slice take_slice(struct words *words, int32_t size_bytes, enum nulls nulls)
{
    if (size_bytes < 0) {
        if (nulls == NEVER_NULL || size_bytes != -1) { words->is_bad = true; }
        return base_slice_of(NULL, 0);
    }
    const uint8_t *at = take(words, (size_t)size_bytes);
    return base_slice_of(at, at == NULL ? 0 : (size_t)size_bytes);
}

static int32_t take_count(struct words *words)
{
    int32_t count = take_i32(words);
    if (count < 0) { words->is_bad = true; }
    return words->is_bad ? 0 : count;
}

static void pass_owned(struct words *words)
{
    int32_t count = take_count(words);
    for (int32_t i = 0; i < count && !words->is_bad; i++) {
        (void)take_slice(words, take_i16(words), NEVER_NULL);
        (void)take(words, (size_t)take_count(words) * 4); /* partitions */
    }
}

/* The topics come one after another; what is behind them tells whether all of it can be read. */
static void begin(struct words *words, struct base_slice subscription)
{
    *words = (struct words){.at = subscription.at, .left = subscription.size_bytes};
    words->version = take_i16(words);
    words->is_bad = words->is_bad || words->version < 0;
    words->topics_left = take_count(words);
}

static bool next(struct words *words, struct base_slice *topic_out)
{
    if (words->is_bad || words->topics_left == 0) { return false; }
    words->topics_left -= 1;
    *topic_out = take_slice(words, take_i16(words), NEVER_NULL);
    return !words->is_bad;
}

static bool end(struct words *words)
{
    int32_t version = words->version;
    (void)take_slice(words, take_i32(words), MAY_BE_NULL); /* the user's own */
    if (version >= 1) { pass_owned(words); }
    if (version >= 2) { (void)take_i32(words); }                                 /* generation */
    if (version >= 3) { (void)take_slice(words, take_i16(words), MAY_BE_NULL); } /* rack */
    return !words->is_bad;
}

/* ---- of many topics -------------------------------------------------------------------------------------------------- */

size_t group__names_bytes(uint32_t count)
{
    return base_map_bytes(count) + count * (sizeof(struct base_slice) + sizeof(bool)) + 64;
}

void group__names_init(struct group__names *names, struct base_arena *arena, uint32_t count, uint64_t seed)
{
    *names = (struct group__names){.seed = seed};
    enum base_rc rc = base_map_create(arena, count, &names->map);
    names->names = base_arena_take_array(arena, count, sizeof *names->names);
    names->is_read = base_arena_take_array(arena, count, sizeof *names->is_read);
    CHECK(rc == BASE_OK && names->names != NULL && names->is_read != NULL); /* group__names_bytes */
}

static uint32_t find(const struct group__names *names, struct base_slice name, uint64_t hash)
{
    for (uint32_t at = base_map_first(&names->map, hash); at != BASE_MAP_NONE;
         at = base_map_next(&names->map, hash, at)) {
        uint32_t index = base_map_value(&names->map, at);
        if (base_slice_equal(names->names[index], name)) { return index; }
    }
    return GROUP__NONE;
}

uint32_t group__names_add(struct group__names *names, struct base_slice name)
{
    uint64_t hash = base_hash_bytes(name.at, name.size_bytes, names->seed);
    uint32_t index = find(names, name, hash);
    if (index != GROUP__NONE) { return index; }
    index = names->map.count;
    enum base_rc rc = base_map_insert(&names->map, hash, index);
    CHECK(rc == BASE_OK); /* as many as it was made for */
    names->names[index] = name;
    return index;
}

void group__names_read(struct group__names *names, struct base_slice subscription)
{
    struct words words;
    struct base_slice name;
    begin(&words, subscription);
    while (next(&words, &name)) {
        uint32_t index = find(names, name, base_hash_bytes(name.at, name.size_bytes, names->seed));
        if (index != GROUP__NONE) { names->is_read[index] = true; }
    }
    names->is_all = names->is_all || !end(&words);
}

/* Kafka's: a group that says it is a consumer, but not of what, is taken to consume everything. One that was a consumer until its last
 * member left consumes nothing until its next generation. */
void group__names_look(struct group__names *names, const struct group__group *group)
{
    struct base_slice consumer = base_slice_text("consumer");
    if (!base_slice_equal(group__protocol_type(group), consumer)) { return; }
    if (group->state == GROUP__EMPTY) {
        names->is_all = group->is_preparing && !base_slice_equal(group->protocol_type, consumer);
        return;
    }
    for (const struct group__member *member = group__member_first(group); member != NULL && !names->is_all;
         member = group__member_next(group, member)) {
        for (uint32_t i = 0; member->is_committed && i < member->data->protocols_count; i++) {
            const struct group__protocol *protocol = &member->data->protocols[i];
            if (base_slice_equal(protocol->name, group->protocol)) { group__names_read(names, protocol->metadata); }
        }
    }
}

bool group__names_is_read(const struct group__names *names, uint32_t index)
{
    return names->is_all || names->is_read[index];
}
