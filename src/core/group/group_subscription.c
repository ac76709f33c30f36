/* group_subscription.c: what a consumer says that it reads, looked at in place: however many topics it names, nothing is taken for it.
 *
 * Room    core/group. The words are ConsumerProtocolSubscription (wire/kafka/schema/consumer_protocol.schema) behind their version; those
 *         of a version to come begin like the last one that is known.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group/group__room.h"

struct words {
    const uint8_t *at;
    size_t left;
    bool is_bad; /* sticky: looked at once, at the end */
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

enum group__reads group__reads_topic(struct base_slice subscription, struct base_slice topic)
{
    struct words words = {.at = subscription.at, .left = subscription.size_bytes};
    bool is_named = false;
    int32_t version = take_i16(&words);
    if (version < 0) { return GROUP__UNREADABLE; }
    int32_t count = take_count(&words);
    for (int32_t i = 0; i < count && !words.is_bad; i++) {
        is_named = base_slice_equal(take_slice(&words, take_i16(&words), NEVER_NULL), topic) || is_named;
    }
    (void)take_slice(&words, take_i32(&words), MAY_BE_NULL); /* the user's own */
    if (version >= 1) { pass_owned(&words); }
    if (version >= 2) { (void)take_i32(&words); }                                  /* generation */
    if (version >= 3) { (void)take_slice(&words, take_i16(&words), MAY_BE_NULL); } /* rack */
    if (words.is_bad) { return GROUP__UNREADABLE; }
    return is_named ? GROUP__READS : GROUP__READS_NOT;
}
