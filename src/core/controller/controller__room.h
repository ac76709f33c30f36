/* controller__room.h: what the deciders and the records share.
 *
 * Room    core/controller, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONTROLLER_CONTROLLER__ROOM_H
#define CONTROLLER_CONTROLLER__ROOM_H

#include "controller/controller.h"
#include "wire/kafka/create_partitions.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/describe_configs.h"
#include "wire/kafka/incremental_alter_configs.h"
#include "wire/kafka/init_producer_id.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/metadata_records.h"

#define CONTROLLER__TOUCHED_MAX (2 * CONTROLLER_RECORDS_MAX)
#define CONTROLLER__MESSAGE_MAX 640 /* bytes of an error message; longer ones are cut */

/* A topic name that a request of this round creates, changes or deletes. */
struct controller__touched {
    uint64_t hash;          /* of the name */
    uint64_t folded_hash;   /* of the name with '.' read as '_' */
    struct base_slice name; /* borrowed from its request, or from the image, for this round */
    uint32_t request;       /* number within the round */
    uint32_t count;         /* how often its request names it */
    bool is_first;          /* of those that are one name with '.' read as '_': all of the same request */
    bool is_reported;
};

/* The proposal that is being built, or is outstanding. Records grow from the front of the block, their bytes from its end. */
struct controller__round {
    uint8_t *block; /* base_pages; NULL: no round */
    size_t block_bytes;
    uint32_t records_count;
    size_t bytes_at;
    struct base_map touched_map;
    struct base_map
        folded_map; /* the first of each that are one name with '.' read as '_': however many, one look finds it */
    struct controller__touched *touched;
    uint32_t touched_count;
    uint32_t topics; /* room of the image that this round takes */
    uint32_t partitions;
    uint32_t configs;
    int64_t ids_first; /* of the block of producer ids that this round takes */
    int64_t ids_used;
    bool has_ids;
    bool is_full; /* a record did not fit: the request must be rolled back */
};

/* What a decider sees: nothing it could change but the round and the response. */
struct controller__decision {
    const struct metadata *image;
    const struct controller_config *config;
    struct controller__round *round;
    struct base_prng *dice;
    struct base_arena *arena;
    const void *request;
    int16_t version;
    uint32_t request_number;
    bool is_wordless;   /* the answer has codes alone */
    bool is_too_large;  /* its records fit no proposal: it is refused as a whole */
    bool must_wait;     /* it touches what the round already touches */
    bool is_arena_full; /* no response can be given, so nothing may happen */
};

/* An error code with words, or neither. */
struct controller__error {
    int16_t code;
    struct kafka_text message; /* null: none */
};

static inline struct controller__error controller__no_error(void)
{
    return (struct controller__error){.code = 0, .message = kafka_text_null()};
}
static inline struct controller__error controller__error_words(int16_t code, const char *words)
{
    return (struct controller__error){.code = code, .message = kafka_text_words(words)};
}

/* controller.c */
enum controller__touch { CONTROLLER__NEW, CONTROLLER__AGAIN, CONTROLLER__COLLIDING, CONTROLLER__TAKEN };
enum controller__touch controller__touch(struct controller__decision *decision, struct base_slice name);
struct controller__touched *controller__find_touched(const struct controller__decision *decision,
                                                     struct base_slice name);
/* The first that this request names of those that are one name with `name` when '.' is read as '_': maybe itself. NULL: none. */
const struct controller__touched *controller__find_colliding(const struct controller__decision *decision,
                                                             struct base_slice name);

/* controller_record.c */
/* Adds a record to the round; sets is_full when it does not fit. */
void controller__propose(struct controller__round *round, uint16_t type, int16_t version, const void *message);
enum base_rc controller__encode(uint8_t *at, size_t room_bytes, uint16_t type, int16_t version, const void *message,
                                size_t *used_bytes_out);
void controller__propose_partition(struct controller__round *round, const struct metadata_partition *partition);
void controller__propose_epoch(struct controller__round *round, const struct metadata_partition *partition);
void controller__propose_broker(struct controller__round *round, const struct metadata_broker *broker);

/* Deciders: each builds a response (NULL when must_wait or is_arena_full) and proposes records. */
const void *controller__create_topics(struct controller__decision *decision);     /* controller_topics.c */
const void *controller__delete_topics(struct controller__decision *decision);     /* controller_delete.c */
const void *controller__create_partitions(struct controller__decision *decision); /* controller_partitions.c */
const void *controller__auto_create(struct controller__decision *decision);       /* controller_topics.c */
const void *controller__alter_configs(struct controller__decision *decision);     /* controller_alter.c */
const void *controller__replace_configs(struct controller__decision *decision);   /* controller_alter.c */

/* controller_topics.c */
int32_t controller__partitions_default(const struct controller__decision *decision); /* num.partitions, as it is now */
struct controller__error controller__words(struct controller__decision *decision, int16_t code,
                                           const struct base_text *text);
bool controller__has_room(const struct controller__decision *decision, uint32_t topics, uint32_t partitions,
                          uint32_t configs);

/* controller_partitions.c */
struct controller__replicas {
    uint32_t count;
    int32_t ids[METADATA_REPLICAS_MAX];
};
/* Replicas of partition `index`, spread over the brokers from `start` on. */
struct controller__error controller__place(struct controller__decision *decision, uint32_t replication, uint32_t start,
                                           uint32_t index, struct controller__replicas *replicas_out);
/* expected_count: of the partitions before; 0: there are none. */
struct controller__error controller__check_manual(struct controller__decision *decision, const int32_t *ids,
                                                  int32_t ids_count, uint32_t expected_count,
                                                  struct controller__replicas *replicas_out);
/* A new partition led by its first replica that is up; false: none is. */
bool controller__new_partition(const struct controller__decision *decision, struct base_part id,
                               const struct controller__replicas *replicas, struct metadata_partition *partition_out);

/* controller_config.c */
struct controller__setting { /* one topic config as it would be; at == NULL: taken away */
    struct base_slice name;
    struct base_slice value;
};
/* The settings over what `topic` has (NULL: a new one). */
struct controller__error controller__check_settings(struct controller__decision *decision,
                                                    const struct metadata_topic *topic,
                                                    const struct controller__setting *settings, uint32_t count);

#endif
