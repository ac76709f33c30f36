/* ids.h: names that several rooms share, as types that can't be mixed up.
 *
 * Room    core/base.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_IDS_H
#define BASE_IDS_H

#include "base/check.h"

#include <string.h>

struct base_uuid {
    uint8_t b[16]; /* all zero: none */
};

/* One partition of one creation of a topic (KIP-516). The log of the cluster metadata has the topic id of KRaft's
 * __cluster_metadata, 00000000-0000-0000-0000-000000000001. */
struct base_part {
    struct base_uuid topic;
    int32_t index;
};

static inline bool base_uuid_is_none(struct base_uuid id)
{
    static const struct base_uuid none = {{0}};
    return memcmp(&id, &none, sizeof id) == 0;
}

static inline bool base_uuid_equal(struct base_uuid a, struct base_uuid b) { return memcmp(a.b, b.b, sizeof a.b) == 0; }

static inline int base_uuid_compare(struct base_uuid a, struct base_uuid b)
{
    int order = memcmp(a.b, b.b, sizeof a.b);
    return order < 0 ? -1 : (order > 0 ? 1 : 0);
}

static inline int base_part_compare(struct base_part a, struct base_part b)
{
    int order = base_uuid_compare(a.topic, b.topic);
    if (order != 0) { return order; }
    return a.index < b.index ? -1 : (a.index > b.index ? 1 : 0);
}

static inline bool base_part_equal(struct base_part a, struct base_part b)
{
    return a.index == b.index && base_uuid_equal(a.topic, b.topic);
}

/* The same on every node and build: it decides the shard of a partition. */
uint64_t base_part_hash(struct base_part part);

/* Kafka's text form of an id: URL-safe base64 without padding, 22 characters and a NUL (Uuid.toString of kafka-clients). */
void base_uuid_to_text(struct base_uuid id, char text_out[23]);
MUST_USE
enum base_rc base_uuid_from_text(const char *text, size_t text_bytes, struct base_uuid *id_out);

#endif
