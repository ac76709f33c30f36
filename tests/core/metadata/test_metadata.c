/* test_metadata.c: the image and its limits, and the table of topic configs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "metadata/metadata.h"

static _Alignas(16) uint8_t memory[2][24 << 20];

static struct metadata *given_image_with(uint32_t place, const struct metadata_config *config)
{
    struct base_arena arena;
    struct metadata *metadata;
    size_t bytes = metadata_arena_bytes(config);
    assert_true(bytes <= sizeof memory[place]);
    base_arena_init(&arena, memory[place], bytes);
    assert_int_equal(metadata_create(&arena, config, &metadata), BASE_OK);
    return metadata;
}

static struct metadata_config usual(void)
{
    return (struct metadata_config){.node_id = 1,
                                    .topics_max = 16,
                                    .partitions_max = 64,
                                    .brokers_max = 4,
                                    .configs_max = 32,
                                    .cluster_id = base_slice_text("AAAAAAAAAAAAAAAAAAAAAA")};
}

static struct metadata *given_image(uint32_t place)
{
    struct metadata_config config = usual();
    return given_image_with(place, &config);
}

static struct base_slice text(const char *words) { return base_slice_text(words); }

static struct base_uuid id(uint32_t number)
{
    struct base_uuid uuid = {{0}};
    base_put_u32(uuid.b, 0x77000000);
    base_put_u32(uuid.b + 12, number);
    return uuid;
}

static struct metadata_partition partition(uint32_t topic, int32_t index)
{
    return (struct metadata_partition){
        .id = {id(topic), index}, .leader = 1, .replicas_count = 1, .isr_count = 1, .replicas = {1}, .isr = {1}};
}

static void put(struct metadata *metadata, const char *name, uint32_t number, int32_t partitions)
{
    assert_int_equal(metadata_put_topic(metadata, text(name), id(number)), BASE_OK);
    for (int32_t i = 0; i < partitions; i++) {
        struct metadata_partition value = partition(number, i);
        assert_int_equal(metadata_put_partition(metadata, &value), BASE_OK);
    }
}

static void configure(struct metadata *metadata, const char *topic, const char *name, const char *value)
{
    struct base_slice slice = value == NULL ? base_slice_of(NULL, 0) : text(value);
    assert_int_equal(metadata_put_config(metadata, METADATA_RESOURCE_TOPIC, text(topic), text(name), slice), BASE_OK);
}

static void topics_are_found_by_name_and_id_and_stand_in_order(void **state)
{
    (void)state;
    struct metadata *metadata = given_image(0);
    put(metadata, "b", 2, 1);
    put(metadata, "a.x", 1, 3);
    put(metadata, "c", 3, 0);
    assert_int_equal(metadata_topics_count(metadata), 3);
    assert_int_equal(metadata_partitions_count(metadata), 4);
    assert_ptr_equal(metadata_topic_by_name(metadata, text("b")), metadata_topic_by_id(metadata, id(2)));
    assert_null(metadata_topic_by_name(metadata, text("bb")));
    assert_null(metadata_topic_by_id(metadata, id(9)));
    const struct metadata_topic *topic = metadata_topic_after(metadata, text(""));
    assert_string_equal(topic->name, "a.x");
    assert_string_equal(metadata_topic_after(metadata, text("a.x"))->name, "b");
    assert_string_equal(metadata_topic_after(metadata, text("bzz"))->name, "c");
    assert_null(metadata_topic_after(metadata, text("c")));
    assert_int_equal(metadata_partition(metadata, topic, 2)->id.index, 2);
    assert_null(metadata_partition(metadata, topic, 3));
    assert_null(metadata_partition(metadata, topic, -1));
    assert_string_equal(metadata_topic_colliding(metadata, text("a_x"))->name, "a.x");
    assert_null(metadata_topic_colliding(metadata, text("a.x")));
    assert_true(metadata_is_sound(metadata));
}

static void putting_the_same_again_changes_nothing_and_a_contradiction_is_refused(void **state)
{
    (void)state;
    struct metadata *metadata = given_image(0);
    struct metadata *other = given_image(1);
    put(metadata, "a", 1, 2);
    put(other, "a", 1, 2);
    put(metadata, "a", 1, 2);
    assert_true(metadata_equal(metadata, other));
    assert_int_equal(metadata_put_topic(metadata, text("a"), id(2)), BASE_BAD);
    assert_int_equal(metadata_put_topic(metadata, text("b"), id(1)), BASE_BAD);
    assert_int_equal(metadata_put_topic(metadata, text(""), id(3)), BASE_BAD);
    struct metadata_partition value = partition(1, 3); /* 2 is the next */
    assert_int_equal(metadata_put_partition(metadata, &value), BASE_BAD);
    value = partition(9, 0);
    assert_int_equal(metadata_put_partition(metadata, &value), BASE_MISSING);
    assert_int_equal(metadata_remove_topic(metadata, id(9)), BASE_MISSING);
    assert_true(metadata_equal(metadata, other));
    value = partition(1, 1);
    value.leader_epoch = 5;
    assert_int_equal(metadata_put_partition(metadata, &value), BASE_OK);
    assert_false(metadata_equal(metadata, other));
}

static void limits_are_seen_when_deciding_and_nothing_changes_past_them(void **state)
{
    (void)state;
    struct metadata_config config = usual();
    config.topics_max = 2;
    config.partitions_max = 3;
    config.configs_max = 1;
    config.brokers_max = 1;
    struct metadata *metadata = given_image_with(0, &config);
    assert_true(metadata_has_room(metadata, 2, 3, 1));
    assert_false(metadata_has_room(metadata, 3, 3, 1));
    put(metadata, "a", 1, 3);
    assert_true(metadata_has_room(metadata, 1, 0, 1));
    assert_false(metadata_has_room(metadata, 1, 1, 1));
    put(metadata, "b", 2, 0);
    struct metadata_partition value = partition(2, 0);
    assert_int_equal(metadata_put_partition(metadata, &value), BASE_FULL);
    assert_int_equal(metadata_put_topic(metadata, text("c"), id(3)), BASE_FULL);
    configure(metadata, "a", "retention.ms", "1");
    assert_int_equal(metadata_put_config(metadata, METADATA_RESOURCE_TOPIC, text("a"), text("x"), text("1")),
                     BASE_FULL);
    struct metadata_broker broker = {.id = 1};
    assert_int_equal(metadata_put_broker(metadata, &broker), BASE_OK);
    broker.id = 2;
    assert_int_equal(metadata_put_broker(metadata, &broker), BASE_FULL);
    assert_true(metadata_is_sound(metadata));
    assert_int_equal(metadata_remove_topic(metadata, id(1)), BASE_OK);
    assert_true(metadata_has_room(metadata, 1, 3, 1));
    assert_true(metadata_is_sound(metadata));
}

static void an_arena_too_small_is_full_at_every_size(void **state)
{
    (void)state;
    struct metadata_config config = usual();
    const struct metadata_pair pairs[] = {{text("log.retention.hours"), text("2")}};
    config.broker_values = pairs;
    config.broker_values_count = 1;
    size_t needed = 0;
    for (size_t bytes = 0; needed == 0; bytes += 64) {
        struct base_arena arena;
        struct metadata *metadata;
        base_arena_init(&arena, memory[0], bytes);
        if (metadata_create(&arena, &config, &metadata) == BASE_OK) { needed = bytes; }
    }
    assert_true(needed <= metadata_arena_bytes(&config));
}

static void brokers_and_features_stand_in_order(void **state)
{
    (void)state;
    struct metadata *metadata = given_image(0);
    const int32_t ids[] = {3, 1, 2};
    for (size_t i = 0; i < 3; i++) {
        struct metadata_broker broker = {.id = ids[i], .epoch = 10 * ids[i], .endpoints_count = 1};
        broker.endpoints[0] = (struct metadata_endpoint){.name = "PLAINTEXT", .host = "h", .port = 9092};
        assert_int_equal(metadata_put_broker(metadata, &broker), BASE_OK);
    }
    for (uint32_t i = 0; i < 3; i++) { assert_int_equal(metadata_broker_at(metadata, i)->id, (int32_t)i + 1); }
    assert_int_equal(metadata_next_broker_epoch(metadata), 31);
    assert_non_null(metadata_broker_endpoint(metadata_broker(metadata, 2), text("PLAINTEXT")));
    assert_null(metadata_broker_endpoint(metadata_broker(metadata, 2), text("SSL")));
    assert_int_equal(metadata_remove_broker(metadata, 2), BASE_OK);
    assert_int_equal(metadata_remove_broker(metadata, 2), BASE_MISSING);
    assert_null(metadata_broker(metadata, 2));
    assert_int_equal(metadata_put_feature(metadata, text("metadata.version"), 25), BASE_OK);
    assert_int_equal(metadata_put_feature(metadata, text("group.version"), 1), BASE_OK);
    assert_string_equal(metadata_feature_at(metadata, 0)->name, "group.version");
    assert_int_equal(metadata_feature_level(metadata, text("metadata.version")), 25);
    assert_int_equal(metadata_put_feature(metadata, text("group.version"), 0), BASE_OK);
    assert_int_equal(metadata_feature_level(metadata, text("group.version")), 0);
    assert_int_equal(metadata_features_count(metadata), 1);
}

static void each_change_is_another_version_and_a_reset_forgets_all(void **state)
{
    (void)state;
    struct metadata *metadata = given_image(0);
    struct metadata_broker broker = {.id = 0, .epoch = 7, .endpoints_count = METADATA_ENDPOINTS_MAX}; /* the least */
    struct metadata_broker many = {.id = 1, .endpoints_count = METADATA_ENDPOINTS_MAX + 1};
    struct metadata_broker none = {.id = -1};
    uint64_t versions[10];
    size_t count = 0;
    versions[count++] = metadata_version(metadata);
    put(metadata, "t", 1, 1);
    versions[count++] = metadata_version(metadata);
    configure(metadata, "t", "retention.ms", "5");
    versions[count++] = metadata_version(metadata);
    assert_int_equal(metadata_put_broker(metadata, &broker), BASE_OK);
    versions[count++] = metadata_version(metadata);
    assert_int_equal(metadata_put_feature(metadata, text("metadata.version"), 25), BASE_OK);
    versions[count++] = metadata_version(metadata);
    metadata_put_next_producer_id(metadata, 5000);
    versions[count++] = metadata_version(metadata);
    assert_int_equal(metadata_remove_topic(metadata, id(1)), BASE_OK);
    versions[count++] = metadata_version(metadata);
    assert_int_equal(metadata_remove_broker(metadata, 0), BASE_OK);
    versions[count++] = metadata_version(metadata);
    assert_int_equal(metadata_put_broker(metadata, &many), BASE_BAD);
    assert_int_equal(metadata_put_broker(metadata, &none), BASE_BAD);
    assert_int_equal(metadata_version(metadata), versions[count - 1]);
    metadata_reset(metadata);
    versions[count++] = metadata_version(metadata);
    for (size_t i = 1; i < count; i++) { assert_true(versions[i] > versions[i - 1]); }
    assert_int_equal(metadata_features_count(metadata), 0);
    assert_int_equal(metadata_brokers_count(metadata), 0);
    assert_int_equal(metadata_next_producer_id(metadata), 0);
    assert_int_equal(metadata_next_broker_epoch(metadata), 0);
}

static void names_collide_where_points_and_underscores_alone_tell_them_apart(void **state)
{
    (void)state;
    assert_true(metadata_names_collide(text("a.b_c"), text("a_b.c")));
    assert_true(metadata_names_collide(text("a"), text("a")));
    assert_false(metadata_names_collide(text("a.b"), text("a-b")));
    assert_false(metadata_names_collide(text("a.b"), text("a.bc")));
    assert_false(metadata_names_collide(text("a.b"), text("a.")));
}

static void thousands_of_topics_come_and_go_like_in_a_model(void **state)
{
    (void)state;
    struct metadata_config config = usual();
    config.topics_max = 4000;
    config.partitions_max = 10000;
    config.configs_max = 2000;
    struct metadata *metadata = given_image_with(0, &config);
    struct base_prng dice;
    base_prng_init(&dice, 7, 0);
    static bool is_there[4000];
    uint32_t count = 0;
    for (uint32_t step = 0; step < 30000; step++) {
        uint32_t number = (uint32_t)base_prng_below(&dice, 4000);
        char name[32];
        struct base_text words;
        base_text_init(&words, name, sizeof name);
        base_text_add_hex(&words, base_hash_u64(number), 16);
        base_text_add(&words, number % 2 == 0 ? ".t" : "_t");
        if (!is_there[number] && base_prng_chance(&dice, 2, 3)) {
            put(metadata, name, number + 1, (int32_t)(number % 3));
            if (number % 4 == 0) { configure(metadata, name, "retention.ms", "5"); }
            is_there[number] = true;
            count += 1;
        } else if (is_there[number]) {
            assert_int_equal(metadata_remove_topic(metadata, id(number + 1)), BASE_OK);
            is_there[number] = false;
            count -= 1;
        }
        assert_int_equal(metadata_topics_count(metadata), count);
        assert_int_equal(metadata_topic_by_name(metadata, text(name)) != NULL, is_there[number]);
    }
    assert_true(metadata_is_sound(metadata));
    metadata_reset(metadata);
    assert_true(metadata_has_room(metadata, 4000, 10000, 2000));
    assert_true(metadata_is_sound(metadata));
}

static void overrides_are_kept_by_name_and_by_resource(void **state)
{
    (void)state;
    struct metadata *metadata = given_image(0);
    put(metadata, "a", 1, 1);
    put(metadata, "b", 2, 1);
    configure(metadata, "a", "retention.ms", "5");
    configure(metadata, "a", "cleanup.policy", "");
    configure(metadata, "a", "segment.ms", "7");
    configure(metadata, "b", "retention.ms", "6");
    configure(metadata, "a", "segment.ms", NULL);
    const char *brokers[] = {"2", "", "1"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(metadata_put_config(metadata, METADATA_RESOURCE_BROKER, text(brokers[i]),
                                             text("log.segment.bytes"), text("9")),
                         BASE_OK);
    }
    struct metadata_override_cursor cursor;
    struct metadata_pair pair;
    assert_true(metadata_overrides(metadata, METADATA_RESOURCE_TOPIC, text("a"), &cursor));
    assert_true(metadata_override_next(metadata, &cursor, &pair));
    assert_true(base_slice_equal(pair.name, text("cleanup.policy")));
    assert_int_equal(pair.value.size_bytes, 0);
    assert_true(metadata_override_next(metadata, &cursor, &pair));
    assert_true(base_slice_equal(pair.name, text("retention.ms")));
    assert_false(metadata_override_next(metadata, &cursor, &pair));
    assert_true(metadata_overrides(metadata, METADATA_RESOURCE_BROKER, text("1"), &cursor));
    assert_true(metadata_override_next(metadata, &cursor, &pair));
    assert_false(metadata_override_next(metadata, &cursor, &pair));
    assert_false(metadata_overrides(metadata, METADATA_RESOURCE_BROKER, text("3"), &cursor));
    assert_int_equal(metadata_put_config(metadata, METADATA_RESOURCE_TOPIC, text("zz"), text("x"), text("1")),
                     BASE_MISSING);
    assert_true(metadata_is_sound(metadata));
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

static void every_row_of_the_table_is_whole_and_in_order(void **state)
{
    (void)state;
    for (unsigned i = 0; i < METADATA_ID_COUNT; i++) {
        const struct metadata_definition *definition = metadata_definition((enum metadata_id)i);
        enum metadata_id found;
        int64_t number;
        assert_non_null(definition->name);
        assert_non_null(definition->documentation);
        assert_true(metadata_id_of(text(definition->name), &found));
        assert_int_equal(found, i);
        assert_int_equal(metadata_parse(found, text(definition->default_value), &number, NULL), BASE_OK);
        if (i > 0) {
            const char *before = metadata_definition((enum metadata_id)(i - 1))->name;
            assert_true(base_slice_compare(text(before), text(definition->name)) < 0);
        }
    }
    enum metadata_id none;
    assert_false(metadata_id_of(text("retention.m"), &none));
    assert_false(metadata_id_of(text(""), &none));
    assert_false(metadata_id_of(text("zzz"), &none));
}

/* Verdicts and words are those of Kafka 4.3.1's LogConfig.validate. "": accepted. */
static const struct {
    enum metadata_id id;
    const char *value;
    int64_t number;
    const char *message;
} verdicts[] = {
    {METADATA_RETENTION_MS, "abc", 0, "Invalid value abc for configuration retention.ms: Not a number of type LONG"},
    {METADATA_RETENTION_MS, "-2", 0, "Invalid value -2 for configuration retention.ms: Value must be at least -1"},
    {METADATA_RETENTION_MS, " 5 ", 5, ""},
    {METADATA_RETENTION_MS, "+5", 5, ""},
    {METADATA_RETENTION_MS, "+-5", 0, "Invalid value +-5 for configuration retention.ms: Not a number of type LONG"},
    {METADATA_RETENTION_MS, "", 0, "Invalid value  for configuration retention.ms: Not a number of type LONG"},
    {METADATA_RETENTION_MS, "9223372036854775807", INT64_MAX, ""},
    {METADATA_RETENTION_MS, "9223372036854775808", 0,
     "Invalid value 9223372036854775808 for configuration retention.ms: Not a number of type LONG"},
    {METADATA_RETENTION_MS, "0x10", 0, "Invalid value 0x10 for configuration retention.ms: Not a number of type LONG"},
    {METADATA_RETENTION_BYTES, "-5", -5, ""},
    {METADATA_SEGMENT_BYTES, "1", 0, "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"},
    {METADATA_SEGMENT_BYTES, "1048576", 1048576, ""},
    {METADATA_SEGMENT_BYTES, "2147483648", 0,
     "Invalid value 2147483648 for configuration segment.bytes: Not a number of type INT"},
    {METADATA_COMPRESSION_ZSTD_LEVEL, "23", 0,
     "Invalid value 23 for configuration compression.zstd.level: Value must be no more than 22"},
    {METADATA_COMPRESSION_ZSTD_LEVEL, "-131072", -131072, ""},
    {METADATA_COMPRESSION_GZIP_LEVEL, "0", 0,
     "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
    {METADATA_COMPRESSION_GZIP_LEVEL, "-1", -1, ""},
    {METADATA_COMPRESSION_GZIP_LEVEL, "9", 9, ""},
    {METADATA_COMPRESSION_TYPE, "x", 0,
     "Invalid value x for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, "
     "gzip, "
     "producer"},
    {METADATA_COMPRESSION_TYPE, " gzip ", METADATA_GZIP, ""},
    {METADATA_COMPRESSION_TYPE, "producer", METADATA_PRODUCER, ""},
    {METADATA_CLEANUP_POLICY, "x", 0,
     "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete"},
    {METADATA_CLEANUP_POLICY, "", 0, ""},
    {METADATA_CLEANUP_POLICY, "delete,delete", METADATA_CLEANUP_DELETE, ""},
    {METADATA_CLEANUP_POLICY, "delete, compact", METADATA_CLEANUP_DELETE | METADATA_CLEANUP_COMPACT, ""},
    {METADATA_CLEANUP_POLICY, "delete,", 0, "Configuration 'cleanup.policy' values must not be empty."},
    {METADATA_CLEANUP_POLICY, "Delete", 0,
     "Invalid value Delete for configuration cleanup.policy: String must be one of: compact, delete"},
    {METADATA_PREALLOCATE, "yes", 0,
     "Invalid value yes for configuration preallocate: Expected value to be either true or false"},
    {METADATA_PREALLOCATE, "TRUE", 1, ""},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "1.5", 0,
     "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "-0.1", 0,
     "Invalid value -0.1 for configuration min.cleanable.dirty.ratio: Value must be at least 0"},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, ".25", 250000, ""},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "1.", 1000000, ""},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "5e-3", 5000, ""},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "0.000012E+4f", 120000, ""},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "00000000000000000000000.5d", 500000, ""},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "1000000000000000000000e-21", 1000000, ""},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "1e-999999999999999999999", 1, ""},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "0e999999999999999999999", 0, ""},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "NaN", 1000000, ""},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "-NaN", 1000000, ""},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "1e1", 0,
     "Invalid value 1e1 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "1.0000001", 0,
     "Invalid value 1.0000001 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "-1e-9", 0,
     "Invalid value -1e-9 for configuration min.cleanable.dirty.ratio: Value must be at least 0"},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "Infinity", 0,
     "Invalid value Infinity for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "1e", 0,
     "Invalid value 1e for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "0.5fd", 0,
     "Invalid value 0.5fd for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "e1", 0,
     "Invalid value e1 for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"},
    {METADATA_MIN_CLEANABLE_DIRTY_RATIO, ".", 0,
     "Invalid value . for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"},
    {METADATA_LEADER_REPLICATION_THROTTLED_REPLICAS, "*", 0, ""},
    {METADATA_LEADER_REPLICATION_THROTTLED_REPLICAS, "0:1,1:2", 0, ""},
    {METADATA_LEADER_REPLICATION_THROTTLED_REPLICAS, "0:1:2", 0,
     "Invalid value [0:1:2] for configuration leader.replication.throttled.replicas: "
     "leader.replication.throttled.replicas "
     "must be the literal '*' or a list of replicas in the following format: "
     "[partitionId]:[brokerId],[partitionId]:[brokerId],..."},
    {METADATA_MIN_INSYNC_REPLICAS, "0", 0,
     "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"},
    {METADATA_WEIR_DURABILITY, "page-cache", METADATA_PAGE_CACHE, ""},
    {METADATA_WEIR_DURABILITY, "fast", 0,
     "Invalid value fast for configuration weir.durability: String must be one of: synced, page-cache"},
};

static void values_are_judged_in_kafkas_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_COUNT(verdicts); i++) {
        char words[400];
        struct base_text message;
        int64_t number = 0;
        base_text_init(&message, words, sizeof words);
        enum base_rc rc = metadata_parse(verdicts[i].id, text(verdicts[i].value), &number, &message);
        assert_string_equal(words, verdicts[i].message);
        assert_int_equal(rc, verdicts[i].message[0] == 0 ? BASE_OK : BASE_BAD);
        assert_int_equal(number, verdicts[i].number);
    }
}

static void expect_in_force(const struct metadata *metadata, const char *topic, enum metadata_id config,
                            const char *value, int64_t number, enum metadata_source source)
{
    enum metadata_source found;
    const struct metadata_topic *it = topic == NULL ? NULL : metadata_topic_by_name(metadata, text(topic));
    struct base_slice slice = metadata_text(metadata, it, config, &found);
    assert_true(base_slice_equal(slice, text(value)));
    assert_int_equal(found, source);
    assert_int_equal(metadata_number(metadata, it, config), number);
}

static void the_value_in_force_is_the_topics_then_the_nodes_then_the_default(void **state)
{
    (void)state;
    struct metadata_config config = usual();
    const struct metadata_pair pairs[] = {{text("log.retention.hours"), text("2")},
                                          {text("log.roll.hours"), text("3")},
                                          {text("log.roll.ms"), text("44")},
                                          {text("weir.log.durability"), text("page-cache")},
                                          {text("num.partitions"), text("5")}};
    config.broker_values = pairs;
    config.broker_values_count = BASE_ARRAY_COUNT(pairs);
    struct metadata *metadata = given_image_with(0, &config);
    put(metadata, "a", 1, 1);
    /* Kafka does not say that it is the hours' */
    expect_in_force(metadata, "a", METADATA_RETENTION_MS, "7200000", 7200000, METADATA_SOURCE_DEFAULT);
    expect_in_force(metadata, NULL, METADATA_SEGMENT_MS, "44", 44, METADATA_SOURCE_STATIC); /* ms before hours */
    expect_in_force(metadata, NULL, METADATA_WEIR_DURABILITY, "page-cache", METADATA_PAGE_CACHE,
                    METADATA_SOURCE_STATIC);
    expect_in_force(metadata, "a", METADATA_WEIR_DURABILITY, "synced", METADATA_SYNCED,
                    METADATA_SOURCE_DEFAULT); /* as it was made */
    expect_in_force(metadata, "a", METADATA_SEGMENT_BYTES, "1073741824", 1073741824, METADATA_SOURCE_DEFAULT);
    configure(metadata, "a", "retention.ms", " 9 ");
    expect_in_force(metadata, "a", METADATA_RETENTION_MS, "9", 9, METADATA_SOURCE_TOPIC);
    assert_int_equal(metadata_put_config(metadata, METADATA_RESOURCE_BROKER, text(""), text("log.segment.bytes"),
                                         text("2000000")),
                     BASE_OK);
    expect_in_force(metadata, "a", METADATA_SEGMENT_BYTES, "2000000", 2000000, METADATA_SOURCE_DEFAULT_BROKER);
    assert_int_equal(metadata_put_config(metadata, METADATA_RESOURCE_BROKER, text("1"), text("log.segment.bytes"),
                                         text("3000000")),
                     BASE_OK);
    expect_in_force(metadata, "a", METADATA_SEGMENT_BYTES, "3000000", 3000000, METADATA_SOURCE_BROKER);
    struct metadata_level levels[METADATA_LEVELS_MAX];
    const struct metadata_topic *topic = metadata_topic_by_name(metadata, text("a"));
    assert_int_equal(metadata_levels(metadata, topic, METADATA_RETENTION_MS, levels), 1);
    assert_true(base_slice_equal(levels[0].name, text("retention.ms")));
    assert_int_equal(metadata_put_config(metadata, METADATA_RESOURCE_BROKER, text("1"), text("log.retention.ms"),
                                         text("6")),
                     BASE_OK);
    assert_int_equal(metadata_levels(metadata, topic, METADATA_RETENTION_MS, levels), 4);
    assert_true(base_slice_equal(levels[1].name, text("log.retention.ms")));
    assert_true(base_slice_equal(levels[2].name, text("log.retention.hours")));
    assert_true(base_slice_equal(levels[2].value, text("2")));
    assert_true(base_slice_equal(levels[3].value, text("168")));
    assert_int_equal(levels[3].source, METADATA_SOURCE_DEFAULT);
    assert_int_equal(metadata_synonym_levels(metadata, text("log.retention.hours"), levels), 2);
    assert_int_equal(metadata_synonym_levels(metadata, text("num.partitions"), levels), 0);
    assert_int_equal(metadata_levels(metadata, topic, METADATA_REMOTE_STORAGE_ENABLE, levels), 0);
    assert_true(base_slice_equal(metadata_broker_value(metadata, text("num.partitions")), text("5")));
    assert_null(metadata_broker_value(metadata, text("nope")).at);
}

static void the_finer_synonym_wins_in_any_order_and_minus_one_has_no_unit(void **state)
{
    (void)state;
    struct metadata_config config = usual();
    const struct metadata_pair pairs[] = {{text("log.roll.ms"), text("44")},
                                          {text("log.roll.hours"), text("3")},
                                          {text("log.retention.hours"), text("-1")}};
    config.broker_values = pairs;
    config.broker_values_count = BASE_ARRAY_COUNT(pairs);
    struct metadata *metadata = given_image_with(0, &config);
    expect_in_force(metadata, NULL, METADATA_SEGMENT_MS, "44", 44, METADATA_SOURCE_STATIC);
    expect_in_force(metadata, NULL, METADATA_RETENTION_MS, "-1", -1, METADATA_SOURCE_DEFAULT);
}

static void some_broker_values_change_while_the_node_runs(void **state)
{
    (void)state;
    struct metadata_config config = usual();
    const struct metadata_pair pairs[] = {{text("num.partitions"), text("5")}};
    config.broker_values = pairs;
    config.broker_values_count = 1;
    struct metadata *metadata = given_image_with(0, &config);
    assert_int_equal(metadata_dynamic_number(metadata, text("num.partitions"), 7),
                     7); /* who asks knows what was given */
    static const char *const resources[] = {"", "1"};
    for (int64_t i = 0; i < 2; i++) {
        const char *value = i == 0 ? "8" : "9";
        assert_int_equal(metadata_put_config(metadata, METADATA_RESOURCE_BROKER, text(resources[i]),
                                             text("num.partitions"), text(value)),
                         BASE_OK);
        assert_int_equal(metadata_dynamic_number(metadata, text("num.partitions"), 7), 8 + i);
    }
    struct metadata_level levels[METADATA_BROKER_LEVELS_MAX];
    assert_int_equal(metadata_broker_levels(metadata, text("num.partitions"), levels), 3);
    assert_int_equal(levels[0].source, METADATA_SOURCE_BROKER);
    assert_int_equal(levels[2].source, METADATA_SOURCE_STATIC);
    assert_true(metadata_is_dynamic(text("log.retention.ms")));
    assert_false(metadata_is_dynamic(text("log.retention.hours")));
    assert_false(metadata_is_dynamic(text("weir.log.durability")));
    static const struct {
        const char *name;
        const char *value;
        enum base_rc rc;
        const char *message;
    } judged[] = {
        {"num.partitions", "1", BASE_OK, ""},
        {"num.partitions", "2147483647", BASE_OK, ""},
        {"num.partitions", "2147483648", BASE_BAD,
         "Invalid value 2147483648 for configuration num.partitions: Not a number of type INT"},
        {"num.partitions", "0", BASE_BAD, "Invalid value 0 for configuration num.partitions: Value must be at least 1"},
        {"num.partitions", "x", BASE_BAD, "Invalid value x for configuration num.partitions: Not a number of type INT"},
        {"auto.create.topics.enable", "false", BASE_OK, ""},
        {"auto.create.topics.enable", "no", BASE_BAD,
         "Invalid value no for configuration auto.create.topics.enable: Expected value to be either true or false"},
        {"log.segment.bytes", "1", BASE_BAD,
         "Invalid value 1 for configuration log.segment.bytes: Value must be at least 1048576"},
        {"log.retention.hours", "1", BASE_MISSING, ""},
        {"node.id", "1", BASE_MISSING, ""},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(judged); i++) {
        char words[200] = "";
        struct base_text message;
        base_text_init(&message, words, sizeof words);
        assert_int_equal(metadata_dynamic_check(text(judged[i].name), text(judged[i].value), &message), judged[i].rc);
        assert_string_equal(words, judged[i].message);
    }
}

static void a_switch_of_all_brokers_is_turned_on_and_off_while_the_node_runs(void **state)
{
    (void)state;
    struct metadata *metadata = given_image(0);
    static const struct base_slice none = {0};
    struct base_slice name = text("auto.create.topics.enable");
    const struct {
        const char *value;
        int64_t otherwise, number;
    } steps[] = {{"false", 1, 0},
                 {"true", 0, 1},
                 {"false", 7, 0},
                 {"no", 7, 7}}; /* the last one is another version's */
    assert_int_equal(metadata_dynamic_number(metadata, name, 1), 1);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(steps); i++) {
        assert_int_equal(metadata_put_config(metadata, METADATA_RESOURCE_BROKER, text(""), name, text(steps[i].value)),
                         BASE_OK);
        assert_int_equal(metadata_dynamic_number(metadata, name, steps[i].otherwise), steps[i].number);
    }
    assert_int_equal(metadata_put_config(metadata, METADATA_RESOURCE_BROKER, text(""), name, none), BASE_OK);
    assert_int_equal(metadata_dynamic_number(metadata, name, 1), 1); /* it was taken away */
}

static void values_are_shown_read_and_written_again(void **state)
{
    (void)state;
    static const struct {
        enum metadata_id id;
        const char *value;
        const char *shown;
    } values[] = {
        {METADATA_RETENTION_MS, " +5 ", "5"},
        {METADATA_PREALLOCATE, "TRUE", "true"},
        {METADATA_CLEANUP_POLICY, " compact , delete,compact", "compact,delete"},
        {METADATA_CLEANUP_POLICY, "", ""},
        {METADATA_MIN_CLEANABLE_DIRTY_RATIO, ".5", "0.5"},
        {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "+0.25", "0.25"},
        {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "1", "1.0"},
        {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "0.0125", "0.0125"},
        {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "1e-3", "0.001"},
        {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "0.0001", "1.0E-4"},
        {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "0.000123", "1.23E-4"},
        {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "0.000103", "1.03E-4"},
        {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "0.000012", "1.2E-5"},
        {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "0.000001", "1.0E-6"},
        {METADATA_MIN_CLEANABLE_DIRTY_RATIO, "+NaN", "NaN"},
        {METADATA_COMPRESSION_TYPE, " zstd", "zstd"},
        {METADATA_RETENTION_MS, "x", "x"},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(values); i++) {
        char words[64];
        struct base_text shown;
        base_text_init(&shown, words, sizeof words);
        metadata_show(values[i].id, text(values[i].value), &shown);
        assert_string_equal(words, values[i].shown);
    }
}

static void a_broker_value_is_judged_under_its_own_name(void **state)
{
    (void)state;
    char words[200];
    struct base_text message;
    base_text_init(&message, words, sizeof words);
    assert_int_equal(metadata_broker_value_check(text("log.retention.hours"), text("x"), &message), BASE_BAD);
    assert_string_equal(words, "Invalid value x for configuration log.retention.hours: Not a number of type LONG");
    assert_int_equal(metadata_broker_value_check(text("log.retention.hours"), text("-1"), NULL), BASE_OK);
    assert_int_equal(metadata_broker_value_check(text("log.retention.hours"), text("9223372036854775"), NULL),
                     BASE_BAD);
    assert_int_equal(metadata_broker_value_check(text("num.partitions"), text("x"), NULL), BASE_MISSING);
    struct metadata_config config = usual();
    const struct metadata_pair pairs[] = {{text("log.segment.bytes"), text("1")}};
    config.broker_values = pairs;
    config.broker_values_count = 1;
    struct base_arena arena;
    struct metadata *metadata;
    base_arena_init(&arena, memory[0], metadata_arena_bytes(&config));
    assert_int_equal(metadata_create(&arena, &config, &metadata), BASE_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topics_are_found_by_name_and_id_and_stand_in_order),
        cmocka_unit_test(putting_the_same_again_changes_nothing_and_a_contradiction_is_refused),
        cmocka_unit_test(limits_are_seen_when_deciding_and_nothing_changes_past_them),
        cmocka_unit_test(an_arena_too_small_is_full_at_every_size),
        cmocka_unit_test(brokers_and_features_stand_in_order),
        cmocka_unit_test(each_change_is_another_version_and_a_reset_forgets_all),
        cmocka_unit_test(names_collide_where_points_and_underscores_alone_tell_them_apart),
        cmocka_unit_test(thousands_of_topics_come_and_go_like_in_a_model),
        cmocka_unit_test(overrides_are_kept_by_name_and_by_resource),
        cmocka_unit_test(every_row_of_the_table_is_whole_and_in_order),
        cmocka_unit_test(values_are_judged_in_kafkas_words),
        cmocka_unit_test(the_value_in_force_is_the_topics_then_the_nodes_then_the_default),
        cmocka_unit_test(the_finer_synonym_wins_in_any_order_and_minus_one_has_no_unit),
        cmocka_unit_test(some_broker_values_change_while_the_node_runs),
        cmocka_unit_test(a_switch_of_all_brokers_is_turned_on_and_off_while_the_node_runs),
        cmocka_unit_test(values_are_shown_read_and_written_again),
        cmocka_unit_test(a_broker_value_is_judged_under_its_own_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
