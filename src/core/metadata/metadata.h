/* metadata.h: the cluster image as a value: nodes, topics, partitions, configs, features, producer ids; and the table of
 * topic configs.
 *
 * Room    core/metadata. Uses base. Knows no record format: controller turns records into the absolute puts below.
 * Owns    everything in it; texts are copied. Pointers it gives out are valid until its next change.
 * Change  only metadata_put_* and metadata_remove_*: absolute, so that putting the same again changes nothing.
 *         Deciding asks metadata_has_room first; a put that was decided so never fails for want of room.
 * Order   topics by name (bytewise), partitions by index, brokers by id, configs of one resource by name.
 * Limits  struct metadata_config; METADATA_*_MAX for texts and lists.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef METADATA_METADATA_H
#define METADATA_METADATA_H

#include "base/base.h"

struct metadata;

#define METADATA_TOPIC_NAME_MAX 249 /* bytes; Kafka's limit */
#define METADATA_REPLICAS_MAX   8   /* of one partition */
#define METADATA_ENDPOINTS_MAX  4   /* of one broker */
#define METADATA_HOST_MAX       255
#define METADATA_WORD_MAX       80  /* names of listeners, features, configs; racks; the cluster id */
#define METADATA_VALUE_MAX      400 /* of one config value */
#define METADATA_FEATURES_MAX   32

enum metadata_resource { /* Kafka's ConfigResource.Type */
                         METADATA_RESOURCE_TOPIC = 2,
                         METADATA_RESOURCE_BROKER = 4,
                         METADATA_RESOURCE_LOGGER = 8, /* a node's own: no record is of it */
};

struct metadata_pair {
    struct base_slice name;
    struct base_slice value;
};

struct metadata_config {
    int32_t node_id; /* whose dynamic broker configs are in force here */
    uint32_t topics_max;
    uint32_t partitions_max;
    uint32_t brokers_max;
    uint32_t configs_max;         /* overrides of all topics and brokers */
    struct base_slice cluster_id; /* Kafka's text form, 22 characters; copied */
    /* The configuration file of this node: names as Kafka's broker configs (log.retention.hours, weir.log.durability ...), valid
     * (metadata_broker_value_check). Copied. Names that the topic table does not know are kept for metadata_broker_value. */
    const struct metadata_pair *broker_values;
    uint32_t broker_values_count;
};

size_t metadata_arena_bytes(const struct metadata_config *config);
/* Fails BASE_FULL: the arena is too small. BASE_BAD: a broker value of a topic config's synonym is not valid. */
MUST_USE
enum base_rc metadata_create(struct base_arena *arena, const struct metadata_config *config,
                             struct metadata **metadata_out);
/* Back to the empty image (the configuration of the node stays). */
void metadata_reset(struct metadata *metadata);

/* ---- what stands in it ------------------------------------------------------------------------------------------ */

struct metadata_endpoint {
    char name[METADATA_WORD_MAX + 1]; /* of the listener; NUL-ended */
    char host[METADATA_HOST_MAX + 1];
    uint16_t port;
    int16_t security_protocol; /* Kafka's: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL */
};
struct metadata_broker {
    int32_t id;
    int64_t epoch;
    struct base_uuid incarnation;
    struct base_uuid directory; /* of its first log directory; none: unknown */
    char rack[METADATA_WORD_MAX + 1];
    bool has_rack;
    bool is_fenced;
    bool is_in_controlled_shutdown;
    uint32_t endpoints_count;
    struct metadata_endpoint endpoints[METADATA_ENDPOINTS_MAX];
};
struct metadata_topic {
    struct base_uuid id;
    uint32_t slot;             /* below topics_max; stays while the topic lives */
    uint32_t partitions_count; /* indexes 0 .. count - 1 are all there */
    uint32_t name_bytes;
    char name[METADATA_TOPIC_NAME_MAX + 1];
};
struct metadata_partition {
    struct base_part id;
    uint32_t slot; /* below partitions_max; stays while the partition lives */
    uint32_t topic_slot;
    int32_t leader; /* -1: none */
    int32_t leader_epoch;
    int32_t partition_epoch;
    uint32_t replicas_count;
    uint32_t isr_count;
    int32_t replicas[METADATA_REPLICAS_MAX];
    int32_t isr[METADATA_REPLICAS_MAX];
    struct base_uuid directories[METADATA_REPLICAS_MAX]; /* beside replicas */
};
struct metadata_feature {
    char name[METADATA_WORD_MAX + 1];
    int16_t level;
};

static inline struct base_slice metadata_topic_name(const struct metadata_topic *topic)
{
    return base_slice_of(topic->name, topic->name_bytes);
}

/* ---- queries: NULL is "no such thing" --------------------------------------------------------------------------- */

struct base_slice metadata_cluster_id(const struct metadata *metadata);
int32_t metadata_controller_id(const struct metadata *metadata); /* -1: none known */
uint64_t metadata_version(const struct metadata *metadata);      /* grows with every change */
int64_t metadata_next_producer_id(const struct metadata *metadata);
int64_t metadata_next_broker_epoch(const struct metadata *metadata); /* above every epoch ever put */

const struct metadata_topic *metadata_topic_by_name(const struct metadata *metadata, struct base_slice name);
const struct metadata_topic *metadata_topic_by_id(const struct metadata *metadata, struct base_uuid id);
uint32_t metadata_topics_count(const struct metadata *metadata);
/* A cursor that survives changes: the first topic whose name is > `name` (empty: the first of all). O(log n). */
const struct metadata_topic *metadata_topic_after(const struct metadata *metadata, struct base_slice name);
/* By place in the order of names, 0 .. topics_count - 1; valid until the next change. O(1). */
const struct metadata_topic *metadata_topic_at(const struct metadata *metadata, uint32_t rank);
/* A topic, not `name` itself, whose name becomes equal to it when every '.' is read as '_'; NULL: none. */
const struct metadata_topic *metadata_topic_colliding(const struct metadata *metadata, struct base_slice name);
bool metadata_names_collide(struct base_slice a, struct base_slice b);

const struct metadata_partition *metadata_partition(const struct metadata *metadata, const struct metadata_topic *topic,
                                                    int32_t index);
const struct metadata_partition *metadata_partition_by_id(const struct metadata *metadata, struct base_part id);
const struct metadata_partition *metadata_partition_by_slot(const struct metadata *metadata, uint32_t slot);
uint32_t metadata_partitions_count(const struct metadata *metadata);

const struct metadata_broker *metadata_broker(const struct metadata *metadata, int32_t id);
uint32_t metadata_brokers_count(const struct metadata *metadata);
const struct metadata_broker *metadata_broker_at(const struct metadata *metadata, uint32_t rank); /* by id */
/* The endpoint of the listener of that name; NULL: it has none. */
const struct metadata_endpoint *metadata_broker_endpoint(const struct metadata_broker *broker,
                                                         struct base_slice listener);

uint32_t metadata_features_count(const struct metadata *metadata);
const struct metadata_feature *metadata_feature_at(const struct metadata *metadata, uint32_t rank); /* by name */
int16_t metadata_feature_level(const struct metadata *metadata, struct base_slice name);            /* 0: not set */

/* Room for so many more of each. */
bool metadata_has_room(const struct metadata *metadata, uint32_t topics, uint32_t partitions, uint32_t configs);
bool metadata_has_room_for_broker(const struct metadata *metadata, int32_t id); /* true for one that is there */
bool metadata_equal(const struct metadata *a,
                    const struct metadata *b); /* contents; not slots, versions, or node settings */
bool metadata_is_sound(const struct metadata *metadata);

/* ---- changes ---------------------------------------------------------------------------------------------------- */
/* BASE_FULL: a limit. BASE_BAD: contradicts what is there, or a text or list is longer than its limit. BASE_MISSING: the topic
 * or broker that it is about is not there. Nothing has changed then. */

/* BASE_BAD: the name with another id, or the id with another name. */
MUST_USE
enum base_rc metadata_put_topic(struct metadata *metadata, struct base_slice name, struct base_uuid id);
/* `value`: id, leader, epochs, replicas, isr, directories; its slots are ignored. A new one has the next index (else BASE_BAD). */
MUST_USE
enum base_rc metadata_put_partition(struct metadata *metadata, const struct metadata_partition *value);
/* With its partitions and configs. */
MUST_USE
enum base_rc metadata_remove_topic(struct metadata *metadata, struct base_uuid id);
/* The override `name` of a resource; a NULL value (value.at == NULL) removes it. resource_name: a topic, a broker id in decimal, or
 * empty for all brokers. Any config name: whether it is known was decided before. */
MUST_USE
enum base_rc metadata_put_config(struct metadata *metadata, enum metadata_resource resource,
                                 struct base_slice resource_name, struct base_slice name, struct base_slice value);
MUST_USE
enum base_rc metadata_put_broker(struct metadata *metadata, const struct metadata_broker *value);
MUST_USE
enum base_rc metadata_remove_broker(struct metadata *metadata, int32_t id);
MUST_USE
enum base_rc metadata_put_feature(struct metadata *metadata, struct base_slice name, int16_t level); /* 0 removes */
void metadata_put_next_producer_id(struct metadata *metadata, int64_t next_producer_id);
void metadata_set_controller(struct metadata *metadata,
                             int32_t controller_id); /* known from the quorum, not from a record */

/* ---- the table of topic configs (Kafka 4.3.1, and weir.durability) ---------------------------------------------- */

enum metadata_type { /* the numbers of DescribeConfigs */
                     METADATA_BOOLEAN = 1,
                     METADATA_STRING = 2,
                     METADATA_INT = 3,
                     METADATA_LONG = 5,
                     METADATA_DOUBLE = 6, /* kept in millionths */
                     METADATA_LIST = 7,
};
enum metadata_source {                                     /* the numbers of DescribeConfigs */
                       METADATA_SOURCE_TOPIC = 1,          /* an override of the topic */
                       METADATA_SOURCE_BROKER = 2,         /* dynamic, of one broker */
                       METADATA_SOURCE_DEFAULT_BROKER = 3, /* dynamic, of all brokers */
                       METADATA_SOURCE_STATIC = 4,         /* the node's configuration */
                       METADATA_SOURCE_DEFAULT = 5,
};

enum metadata_id { /* in the order of their names */
                   METADATA_CLEANUP_POLICY = 0,
                   METADATA_COMPRESSION_GZIP_LEVEL,
                   METADATA_COMPRESSION_LZ4_LEVEL,
                   METADATA_COMPRESSION_TYPE,
                   METADATA_COMPRESSION_ZSTD_LEVEL,
                   METADATA_DELETE_RETENTION_MS,
                   METADATA_FILE_DELETE_DELAY_MS,
                   METADATA_FLUSH_MESSAGES,
                   METADATA_FLUSH_MS,
                   METADATA_FOLLOWER_REPLICATION_THROTTLED_REPLICAS,
                   METADATA_INDEX_INTERVAL_BYTES,
                   METADATA_LEADER_REPLICATION_THROTTLED_REPLICAS,
                   METADATA_LOCAL_RETENTION_BYTES,
                   METADATA_LOCAL_RETENTION_MS,
                   METADATA_MAX_COMPACTION_LAG_MS,
                   METADATA_MAX_MESSAGE_BYTES,
                   METADATA_MESSAGE_TIMESTAMP_AFTER_MAX_MS,
                   METADATA_MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
                   METADATA_MESSAGE_TIMESTAMP_TYPE,
                   METADATA_MIN_CLEANABLE_DIRTY_RATIO,
                   METADATA_MIN_COMPACTION_LAG_MS,
                   METADATA_MIN_INSYNC_REPLICAS,
                   METADATA_PREALLOCATE,
                   METADATA_REMOTE_LOG_COPY_DISABLE,
                   METADATA_REMOTE_LOG_DELETE_ON_DISABLE,
                   METADATA_REMOTE_STORAGE_ENABLE,
                   METADATA_RETENTION_BYTES,
                   METADATA_RETENTION_MS,
                   METADATA_SEGMENT_BYTES,
                   METADATA_SEGMENT_INDEX_BYTES,
                   METADATA_SEGMENT_JITTER_MS,
                   METADATA_SEGMENT_MS,
                   METADATA_UNCLEAN_LEADER_ELECTION_ENABLE,
                   METADATA_WEIR_DURABILITY,
                   METADATA_ID_COUNT
};
#define METADATA_SYNONYMS_MAX 3

struct metadata_synonym {
    const char *name; /* of a broker config; NULL: no more */
    int64_t factor;   /* its unit in the topic config's: 3600000 for log.retention.hours */
};
struct metadata_definition {
    const char *name;
    enum metadata_type type;
    const char *default_value;
    int64_t min; /* numbers: both included; DOUBLE in millionths */
    int64_t max;
    const char *choices[8]; /* STRING and LIST: what is allowed, ended by NULL; none: anything */
    struct metadata_synonym synonyms[METADATA_SYNONYMS_MAX]; /* the first that is set wins */
    const char *documentation;
};
const struct metadata_definition *metadata_definition(enum metadata_id id);
MUST_USE
bool metadata_id_of(struct base_slice name, enum metadata_id *id_out);

/* A value as numbers: BOOLEAN 0 or 1; INT and LONG; DOUBLE in millionths; STRING with choices: the index of the choice; LIST with
 * choices: a bit for each. Other texts: 0.
 * Fails BASE_BAD, and then `message` (may be NULL) has Kafka's words for it. */
MUST_USE
enum base_rc metadata_parse(enum metadata_id id, struct base_slice value, int64_t *number_out,
                            struct base_text *message);
/* The same for a broker config that is a synonym of a topic config; any other name is BASE_MISSING. */
MUST_USE
enum base_rc metadata_broker_value_check(struct base_slice name, struct base_slice value, struct base_text *message);

enum metadata_cleanup {
    METADATA_CLEANUP_COMPACT = 1,
    METADATA_CLEANUP_DELETE = 2
}; /* bits of METADATA_CLEANUP_POLICY */
enum metadata_compression { /* numbers of METADATA_COMPRESSION_TYPE */
                            METADATA_UNCOMPRESSED = 0,
                            METADATA_ZSTD,
                            METADATA_LZ4,
                            METADATA_SNAPPY,
                            METADATA_GZIP,
                            METADATA_PRODUCER
};
enum metadata_timestamp { METADATA_CREATE_TIME = 0, METADATA_LOG_APPEND_TIME }; /* of METADATA_MESSAGE_TIMESTAMP_TYPE */
enum metadata_durability { METADATA_SYNCED = 0, METADATA_PAGE_CACHE };          /* of METADATA_WEIR_DURABILITY */

/* The value in force for a topic (NULL: for one that is made now, without overrides). The node's weir.log.durability is of new topics
 * alone: where it is not the default, it becomes an override of those. */
int64_t metadata_number(const struct metadata *metadata, const struct metadata_topic *topic, enum metadata_id id);
struct base_slice metadata_text(const struct metadata *metadata, const struct metadata_topic *topic,
                                enum metadata_id id, enum metadata_source *source_out);
/* Every level that Kafka tells of, the first first: DescribeConfigs' synonyms. At most METADATA_LEVELS_MAX. The one in force may be
 * none of them: of retention.ms Kafka does not tell what log.retention.hours says, unless log.retention.ms says something too. */
#define METADATA_LEVELS_MAX (METADATA_SYNONYMS_MAX * 3 + 2)
struct metadata_level {
    struct base_slice name;  /* the topic config's name, or the synonym's */
    struct base_slice value; /* as it was written: in the synonym's unit */
    enum metadata_source source;
};
uint32_t metadata_levels(const struct metadata *metadata, const struct metadata_topic *topic, enum metadata_id id,
                         struct metadata_level levels_out[METADATA_LEVELS_MAX]);

/* The overrides of a resource, by name: the first, and the next; false at the end. The pair points into the image. */
struct metadata_override_cursor {
    uint32_t next; /* private; index + 1 */
};
MUST_USE
bool metadata_overrides(const struct metadata *metadata, enum metadata_resource resource,
                        struct base_slice resource_name, struct metadata_override_cursor *cursor_out);
MUST_USE
bool metadata_override_next(const struct metadata *metadata, struct metadata_override_cursor *cursor,
                            struct metadata_pair *pair_out);
/* The overrides of all brokers, registered or not, in order: from the first. */
struct metadata_override_cursor metadata_broker_overrides(const struct metadata *metadata);
MUST_USE
bool metadata_broker_override_next(const struct metadata *metadata, struct metadata_override_cursor *cursor,
                                   struct base_slice *resource_name_out, struct metadata_pair *pair_out);

/* ---- broker configs that change while the node runs (metadata_dynamic.c) ---- */

/* Those are overrides of METADATA_RESOURCE_BROKER: of one node, by its id in decimal, or of all (""). */
bool metadata_is_dynamic(struct base_slice name);
/* The topic config whose first synonym a broker config is. */
bool metadata_first_synonym(struct base_slice name, enum metadata_id *id_out);
/* BASE_MISSING: that one can't change. BASE_BAD: the value is wrong, `message` (may be NULL) has Kafka's words. */
MUST_USE
enum base_rc metadata_dynamic_check(struct base_slice name, struct base_slice value, struct base_text *message);
/* The same of a broker config that is a synonym of a topic config; 0: it is none, or there is nothing to tell. */
uint32_t metadata_synonym_levels(const struct metadata *metadata, struct base_slice name,
                                 struct metadata_level levels_out[METADATA_LEVELS_MAX]);
/* Of any broker config by its own name, the level in force first: dynamic ones, then the node's configuration. No default. */
#define METADATA_BROKER_LEVELS_MAX 3
uint32_t metadata_broker_levels(const struct metadata *metadata, struct base_slice name,
                                struct metadata_level levels_out[METADATA_BROKER_LEVELS_MAX]);
/* What an override says of a number or a boolean (0, 1); none, or one that can't be read: `otherwise`. */
int64_t metadata_dynamic_number(const struct metadata *metadata, struct base_slice name, int64_t otherwise);
/* A value as Kafka shows it: read and written again. One that can't be read is shown as it is. */
void metadata_show(enum metadata_id id, struct base_slice value, struct base_text *text);

/* The node's own configuration, by number in the order given, and by name (at == NULL: not set). */
uint32_t metadata_broker_values_count(const struct metadata *metadata);
struct metadata_pair metadata_broker_value_at(const struct metadata *metadata, uint32_t index);
struct base_slice metadata_broker_value(const struct metadata *metadata, struct base_slice name);
/* One that is true or false, in capitals or not, as Java reads it; `otherwise` when it is not set. */
bool metadata_broker_flag(const struct metadata *metadata, struct base_slice name, bool otherwise);

#endif
