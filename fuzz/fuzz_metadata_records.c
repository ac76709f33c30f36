/* fuzz_metadata_records.c: any records of the metadata log, applied to the image; snapshots of it; a controller that goes on.
 *
 * Input   byte 0 steers: bit 0 small limits. Then operations, an opcode and its arguments each: record values of any bytes, bodies
 *         of any bytes in a right frame, values at random (with tags that nobody knows), and records about a few topics, partitions,
 *         brokers and configs that meet each other; snapshots; requests to a controller on the same image.
 * Holds   an image is sound after each record; a record that is refused changes nothing, and is refused again; an image
 *         that is replayed from what was accepted, or made from a snapshot, is equal; an absolute record twice is as once; what
 *         a controller proposes is applied as it said; decoding gets a heap block of exactly the record's size.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "controller/controller.h"
#include "input.h"
#include "metadata/metadata.h"
#include "wire/kafka/create_partitions.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/incremental_alter_configs.h"
#include "wire/kafka/init_producer_id.h"
#include "wire/kafka/metadata_records.h"

#define IMAGES        3
#define IMAGE_BYTES   ((size_t)1 << 20)
#define RECORD_MAX    4096
#define SCRATCH_BYTES ((size_t)RECORD_MAX * 16 + 4096)
#define PAGES_BYTES   ((size_t)8 << 20)
#define OPS_MAX       64
#define VALUE_MAX     ((size_t)2048)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 0: lives; 1: replayed beside it, record by record; 2: made from snapshots. */
enum image { LIVE = 0, REPLAYED, COPY };

static struct metadata *images[IMAGES];
static uint32_t ops;

static void make_images(bool is_small)
{
    static _Alignas(16) uint8_t memory[IMAGES][IMAGE_BYTES];
    struct metadata_config config = {.node_id = 1,
                                     .topics_max = is_small ? 2 : 16,
                                     .partitions_max = is_small ? 4 : 64,
                                     .brokers_max = is_small ? 1 : 4,
                                     .configs_max = is_small ? 3 : 32,
                                     .cluster_id = base_slice_text("AAAAAAAAAAAAAAAAAAAAAA")};
    CHECK(metadata_arena_bytes(&config) <= IMAGE_BYTES);
    for (uint32_t i = 0; i < IMAGES; i++) {
        struct base_arena arena;
        base_arena_init(&arena, memory[i], IMAGE_BYTES);
        CHECK(metadata_create(&arena, &config, &images[i]) == BASE_OK);
    }
}

/* A snapshot of the image, applied to an empty one: equal. */
static void check_snapshot(void)
{
    static _Alignas(16) uint8_t scratch_bytes[SCRATCH_BYTES];
    metadata_reset(images[COPY]);
    struct controller_cursor cursor = {0};
    uint8_t buffer[CONTROLLER_RECORD_BYTES_MAX];
    struct controller_record record;
    while (controller_snapshot_next(images[LIVE], &cursor, buffer, &record) == BASE_OK) {
        struct base_arena scratch;
        base_arena_init(&scratch, scratch_bytes, sizeof scratch_bytes);
        CHECK(controller_apply(images[COPY], record.value, &scratch) == BASE_OK);
    }
    CHECK(metadata_equal(images[LIVE], images[COPY]));
    CHECK(metadata_is_sound(images[COPY]));
}

static enum base_rc apply(enum image which, struct base_slice value)
{
    uint8_t *bytes = malloc(value.size_bytes == 0 ? 1 : value.size_bytes);
    size_t scratch_size = value.size_bytes * 16 + 4096;
    uint8_t *memory = malloc(scratch_size);
    CHECK(bytes != NULL && memory != NULL);
    if (value.size_bytes > 0) { memcpy(bytes, value.at, value.size_bytes); }
    struct base_arena scratch;
    base_arena_init(&scratch, memory, scratch_size);
    enum base_rc rc = controller_apply(images[which], base_slice_of(bytes, value.size_bytes), &scratch);
    CHECK(metadata_is_sound(images[which]));
    free(memory); /* nothing of them may be in the image */
    free(bytes);
    return rc;
}

/* Its type, when it is one that says how things are, not how they change. */
static bool is_absolute(struct base_slice value)
{
    uint32_t type;
    int16_t version;
    struct base_slice body;
    if (kafka_record_open(value, &type, &version, &body) != BASE_OK) { return false; }
    enum kafka_message message = kafka_record_message(type);
    return message == KAFKA_MESSAGE_REGISTER_BROKER_RECORD || message == KAFKA_MESSAGE_TOPIC_RECORD ||
           message == KAFKA_MESSAGE_PARTITION_RECORD || message == KAFKA_MESSAGE_CONFIG_RECORD ||
           message == KAFKA_MESSAGE_FEATURE_LEVEL_RECORD || message == KAFKA_MESSAGE_PRODUCER_IDS_RECORD;
}

static void give(struct base_slice value)
{
    uint64_t version = metadata_version(images[LIVE]);
    enum base_rc rc = apply(LIVE, value);
    CHECK(rc == BASE_OK || rc == BASE_BAD || rc == BASE_FULL);
    if (rc != BASE_OK) {
        CHECK(metadata_version(images[LIVE]) == version);
        CHECK(metadata_equal(images[LIVE], images[REPLAYED]));
        CHECK(apply(REPLAYED, value) == rc);
        return;
    }
    if (is_absolute(value)) { CHECK(apply(LIVE, value) == BASE_OK); }
    CHECK(apply(REPLAYED, value) == BASE_OK);
    CHECK(metadata_equal(images[LIVE], images[REPLAYED]));
}

/* ---- records ------------------------------------------------------------------------------------------------------------- */

static struct base_uuid id_of(uint64_t byte)
{
    struct base_uuid id = {{0}};
    id.b[0] = (uint8_t)(byte % 5);
    id.b[15] = 9;
    return id;
}

static struct kafka_text name_of(uint64_t byte)
{
    static const char *const names[] = {
        "a", "b", "a.b", "a_b", "", "retention.ms", "cleanup.policy", "1", "c", "metadata.version"};
    static char long_name[600];
    byte %= BASE_ARRAY_COUNT(names) + 6;
    if (byte < BASE_ARRAY_COUNT(names)) { return kafka_text_words(names[byte]); }
    static const uint32_t sizes[] = {80, 81, 249, 250, 400, 401};
    memset(long_name, 'n', sizeof long_name);
    return kafka_text_of(long_name, sizes[byte - BASE_ARRAY_COUNT(names)]);
}

/* Lists about as long as they may be. */
static void take_lists(struct input *input, int32_t **replicas, int32_t *replicas_count, int32_t **isr,
                       int32_t *isr_count)
{
    static int32_t ids[METADATA_REPLICAS_MAX + 2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    uint64_t what = take(input, 1);
    if ((what & 3) != 0) { return; }
    *replicas = *isr = ids;
    *replicas_count = METADATA_REPLICAS_MAX - 1 + (int32_t)(what / 4 % 4);
    *isr_count = METADATA_REPLICAS_MAX - 1 + (int32_t)(what / 16 % 4);
}

/* The value with the fields that meet others drawn from a few. */
static void meet(struct input *input, enum kafka_message message, void *value)
{
    if (message == KAFKA_MESSAGE_TOPIC_RECORD) {
        struct kafka_topic_record *record = value;
        record->topic_id = id_of(take(input, 1));
        record->name = name_of(take(input, 1));
    } else if (message == KAFKA_MESSAGE_PARTITION_RECORD) {
        struct kafka_partition_record *record = value;
        record->topic_id = id_of(take(input, 1));
        record->partition_id = (int32_t)(take(input, 1) % 6) - 1;
        if ((take(input, 1) & 1) == 0) {
            record->adding_replicas_count = record->removing_replicas_count = 0;
            record->eligible_leader_replicas_count = record->last_known_elr_count = 0;
            record->leader_recovery_state = 0;
        }
        take_lists(input, &record->replicas, &record->replicas_count, &record->isr, &record->isr_count);
        if ((take(input, 1) & 1) == 0) { record->directories_count = 0; }
    } else if (message == KAFKA_MESSAGE_PARTITION_CHANGE_RECORD) {
        struct kafka_partition_change_record *record = value;
        record->topic_id = id_of(take(input, 1));
        record->partition_id = (int32_t)(take(input, 1) % 6) - 1;
        if ((take(input, 1) & 1) == 0) {
            record->adding_replicas_count = record->removing_replicas_count = -1;
            record->eligible_leader_replicas_count = record->last_known_elr_count = -1;
            record->leader_recovery_state = -1;
        }
        take_lists(input, &record->replicas, &record->replicas_count, &record->isr, &record->isr_count);
        if ((take(input, 1) & 1) == 0) { record->directories_count = -1; }
    } else if (message == KAFKA_MESSAGE_CONFIG_RECORD) {
        struct kafka_config_record *record = value;
        record->resource_type = (int8_t)(take(input, 1) % 6);
        record->resource_name = name_of(take(input, 1));
        record->name = name_of(take(input, 1));
        if ((take(input, 1) & 3) != 0) { record->value = name_of(take(input, 1)); }
    } else if (message == KAFKA_MESSAGE_REMOVE_TOPIC_RECORD) {
        ((struct kafka_remove_topic_record *)value)->topic_id = id_of(take(input, 1));
    } else if (message == KAFKA_MESSAGE_REGISTER_BROKER_RECORD) {
        struct kafka_register_broker_record *record = value;
        record->broker_id = (int32_t)(take(input, 1) % 6) - 1;
        record->broker_epoch = (int64_t)(take(input, 1) % 4);
        if ((take(input, 1) & 1) == 0) { record->rack = name_of(take(input, 1)); }
    } else if (message == KAFKA_MESSAGE_UNREGISTER_BROKER_RECORD) {
        ((struct kafka_unregister_broker_record *)value)->broker_id = (int32_t)(take(input, 1) % 6) - 1;
    } else if (message == KAFKA_MESSAGE_FENCE_BROKER_RECORD) {
        struct kafka_fence_broker_record *record = value;
        record->id = (int32_t)(take(input, 1) % 6) - 1;
        record->epoch = (int64_t)(take(input, 1) % 4);
    } else if (message == KAFKA_MESSAGE_UNFENCE_BROKER_RECORD) {
        struct kafka_unfence_broker_record *record = value;
        record->id = (int32_t)(take(input, 1) % 6) - 1;
        record->epoch = (int64_t)(take(input, 1) % 4);
    } else if (message == KAFKA_MESSAGE_BROKER_REGISTRATION_CHANGE_RECORD) {
        struct kafka_broker_registration_change_record *record = value;
        record->broker_id = (int32_t)(take(input, 1) % 6) - 1;
        record->broker_epoch = (int64_t)(take(input, 1) % 4);
        record->fenced = (int8_t)(take(input, 1) % 4 - 1);
    } else if (message == KAFKA_MESSAGE_FEATURE_LEVEL_RECORD) {
        struct kafka_feature_level_record *record = value;
        record->name = name_of(take(input, 1));
        record->feature_level = (int16_t)(take(input, 1) % 5) - 1;
    }
}

static void give_made(struct input *input, bool meets)
{
    static const uint32_t types[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 17, 20, 2, 3, 4};
    static _Alignas(16) uint8_t memory[1 << 16];
    static _Alignas(16) uint8_t value[VALUE_MAX];
    static uint8_t bytes[1 << 16];
    enum kafka_message message = kafka_record_message(types[take(input, 1) % BASE_ARRAY_COUNT(types)]);
    CHECK(message != KAFKA_MESSAGE_NONE && kafka_message_struct_bytes(message) <= VALUE_MAX);
    int16_t version_max = kafka_message_version_max(message);
    int16_t version = (int16_t)(version_max - (int16_t)take(input, 1) % (version_max + 1));
    uint64_t seed = take(input, 2);
    struct base_arena arena;
    base_arena_init(&arena, memory, sizeof memory);
    struct base_prng prng;
    base_prng_init(&prng, seed, 0);
    if (kafka_random(message, version, &prng, &arena, value) != BASE_OK) { return; }
    if (meets) { meet(input, message, value); }
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes, sizeof bytes);
    writer.unknown_tags_seed = seed & 1 ? seed : 0;
    if (kafka_record_encode(message, value, version, &writer) == BASE_OK) {
        give(base_slice_of(bytes, writer.used_bytes));
    }
}

static void give_bytes(struct input *input, bool has_frame)
{
    uint8_t bytes[3 + 255];
    size_t at = 0;
    if (has_frame) {
        bytes[at++] = 1;
        bytes[at++] = (uint8_t)(take(input, 1) % 30);
        bytes[at++] = (uint8_t)(take(input, 1) % 6);
    }
    size_t size = take(input, 1);
    size = size < input->left ? size : input->left;
    if (size > 0) { memcpy(bytes + at, input->at, size); }
    input->at += size;
    input->left -= size;
    give(base_slice_of(bytes, at + size));
}

/* ---- the controller ------------------------------------------------------------------------------------------------------- */

static struct controller *controller;
static struct base_arena request_arena;

static void start_controller(void)
{
    static _Alignas(16) uint8_t memory[4 << 20];
    static void *pages_memory;
    if (pages_memory == NULL) { pages_memory = aligned_alloc(4096, PAGES_BYTES); }
    CHECK(pages_memory != NULL);
    memset(pages_memory, 0, base_pages_tables_bytes(PAGES_BYTES));
    struct controller_config config = {.node_id = 1,
                                       .partitions_default = 2,
                                       .replication_default = 1,
                                       .requests_max = 4,
                                       .proposal_bytes_max = 2 << 20,
                                       .seed = 5,
                                       .is_check_slow = true};
    struct base_arena arena;
    CHECK(controller_arena_bytes(&config) <= sizeof memory);
    base_arena_init(&arena, memory, sizeof memory);
    size_t reserve[BASE_CLASS_COUNT] = {0};
    struct base_pages *pages;
    CHECK(base_pages_create((struct base_region){.at = pages_memory, .size_bytes = PAGES_BYTES}, reserve, &pages) ==
          BASE_OK);
    CHECK(controller_create(&arena, pages, &config, images[LIVE], &controller) == BASE_OK);
}

/* Everything that it proposes is committed, and means to another image what it means to its own. */
static void settle_controller(void)
{
    struct controller_out item;
    while (controller_poll(controller, &item)) {
        if (item.kind != CONTROLLER_OUT_PROPOSE) { continue; }
        for (uint32_t i = 0; i < item.records_count; i++) {
            CHECK(apply(REPLAYED, item.records[i].value) == BASE_OK); /* decided against the image: it fits */
        }
        controller_committed(controller);
        CHECK(metadata_is_sound(images[LIVE]));
        CHECK(metadata_equal(images[LIVE], images[REPLAYED]));
    }
    CHECK(controller_is_quiet(controller));
}

static void submit(enum controller_kind kind, int16_t version, const void *request)
{
    struct controller_request item = {
        .token = 1, .kind = kind, .version = version, .request = request, .arena = &request_arena};
    CHECK(controller_submit(controller, &item) == BASE_OK);
    settle_controller();
}

static void ask_controller(struct input *input)
{
    static _Alignas(16) uint8_t memory[1 << 18];
    base_arena_init(&request_arena, memory, sizeof memory);
    uint64_t what = take(input, 1);
    if (what % 4 == 0) {
        struct kafka_create_topics_request request;
        struct kafka_create_topics_request_creatable_topic topic;
        kafka_create_topics_request_init(&request);
        kafka_create_topics_request_creatable_topic_init(&topic);
        topic.name = name_of(take(input, 1));
        topic.num_partitions = (int32_t)(take(input, 1) % 6) - 1;
        topic.replication_factor = (int16_t)(take(input, 1) % 3) - 1;
        request.topics = &topic;
        request.topics_count = 1;
        submit(CONTROLLER_CREATE_TOPICS, 7, &request);
    } else if (what % 4 == 1) {
        struct kafka_delete_topics_request request;
        struct kafka_delete_topics_request_delete_topic_state topic;
        kafka_delete_topics_request_init(&request);
        kafka_delete_topics_request_delete_topic_state_init(&topic);
        topic.name = name_of(take(input, 1));
        request.topics = &topic;
        request.topics_count = 1;
        submit(CONTROLLER_DELETE_TOPICS, 6, &request);
    } else if (what % 4 == 2) {
        struct kafka_create_partitions_request request;
        struct kafka_create_partitions_request_create_partitions_topic topic;
        kafka_create_partitions_request_init(&request);
        kafka_create_partitions_request_create_partitions_topic_init(&topic);
        topic.name = name_of(take(input, 1));
        topic.count = (int32_t)(take(input, 1) % 9) - 1;
        topic.assignments_count = -1;
        request.topics = &topic;
        request.topics_count = 1;
        submit(CONTROLLER_CREATE_PARTITIONS, 3, &request);
    } else {
        struct kafka_init_producer_id_request request;
        kafka_init_producer_id_request_init(&request);
        request.transactional_id = kafka_text_null();
        submit(CONTROLLER_INIT_PRODUCER_ID, 4, &request);
    }
}

static void operate(struct input *input)
{
    switch (take(input, 1) % 8) {
    case 0: give_bytes(input, false); break;
    case 1: give_bytes(input, true); break;
    case 2: give_made(input, false); break;
    case 3: check_snapshot(); break;
    case 4: ask_controller(input); break;
    default: give_made(input, true); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {.at = data, .left = size};
    make_images((take(&input, 1) & 1) != 0);
    start_controller();
    for (ops = 0; ops < OPS_MAX && input.left > 0; ops++) { operate(&input); }
    check_snapshot();
    return 0;
}
