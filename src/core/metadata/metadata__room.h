/* metadata__room.h: what metadata.c (the image) and metadata_config.c (the table of configs) share.
 *
 * Room    core/metadata, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef METADATA_METADATA__ROOM_H
#define METADATA_METADATA__ROOM_H

#include "metadata/metadata.h"

#define METADATA__MILLION 1000000              /* a double is a number of millionths */
bool metadata__is_nan(struct base_slice text); /* what Java reads as no number */

struct metadata__override {
    uint32_t next; /* of the same list, by (resource_name, name): index + 1 */
    uint8_t resource_name_bytes;
    uint8_t name_bytes;
    uint16_t value_bytes;
    char resource_name[12]; /* of a broker; a topic's overrides hang on the topic */
    char name[METADATA_WORD_MAX];
    char value[METADATA_VALUE_MAX];
};

struct metadata__topic {
    struct metadata_topic topic; /* first: what is given out */
    uint32_t first_override;     /* index + 1 */
};

struct metadata__static { /* what the node's configuration says for a topic config */
    bool is_set;
    uint8_t synonym; /* the one that says it */
    struct base_slice written;
    struct base_slice text; /* in the topic config's unit */
    int64_t number;
};

struct metadata {
    uint32_t topics_max;
    uint32_t partitions_max;
    uint32_t brokers_max;
    uint32_t configs_max;
    int32_t node_id;
    struct base_slice cluster_id;
    struct metadata_pair *broker_values;
    uint32_t broker_values_count;
    struct metadata__static statics[METADATA_ID_COUNT];
    int64_t defaults[METADATA_ID_COUNT];

    struct base_pool topics;
    struct base_pool partitions;
    struct base_pool overrides;
    struct base_map by_name;
    struct base_map by_folded_name; /* '.' read as '_' */
    struct base_map by_id;
    struct base_map by_part;
    uint32_t *sorted; /* topic slots by name */
    struct metadata_broker *brokers;
    uint32_t brokers_count;
    uint32_t first_broker_override; /* index + 1 */
    struct metadata_feature features[METADATA_FEATURES_MAX];
    uint32_t features_count;
    int32_t controller_id;
    int64_t next_producer_id;
    int64_t next_broker_epoch;
    uint64_t version;
};

const struct metadata__topic *metadata__topic_of(const struct metadata *metadata, const struct metadata_topic *topic);
const struct metadata__override *metadata__override_at(const struct metadata *metadata, uint32_t link);
/* The override `name` in the list that starts at `link`; NULL: none. */
const struct metadata__override *metadata__find_override(const struct metadata *metadata, uint32_t link,
                                                         struct base_slice resource_name, struct base_slice name);
/* In metadata_config.c. Java's String.trim; and how Kafka begins to say that a value is wrong (`message` may be NULL). */
struct base_slice metadata__trimmed(struct base_slice text);
void metadata__say_invalid(struct base_text *message, struct base_slice value, const char *name);
/* The topic config that a broker config is a synonym of, and which of its synonyms. */
bool metadata__find_synonym(struct base_slice name, enum metadata_id *id_out, uint8_t *synonym_out);
/* Adds what is set dynamically for brokers under `resource_name`, if it is. Returns the new count. */
uint32_t metadata__add_dynamic(const struct metadata *metadata, struct base_slice resource_name,
                               enum metadata_source source, struct base_slice name, struct metadata_level *levels,
                               uint32_t count);
#define METADATA__NODE_BYTES 12
struct base_slice metadata__node_name(const struct metadata *metadata, char words[METADATA__NODE_BYTES]);
/* Reads the node's configuration into `statics`. BASE_BAD: a value is not valid. BASE_FULL: arena. */
MUST_USE
enum base_rc metadata__read_statics(struct metadata *metadata, struct base_arena *arena);

#endif
