/* test_group_subscription.c: what a consumer says that it reads, against the decoder that is made from the schema.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "group__room.h"
#include "wire/kafka/consumer_protocol.h"

#define TOPICS_MAX 20000
#define WORDS_MAX  ((size_t)256 << 10)

enum reads { READS_NOT, READS, UNREADABLE };

static uint8_t words[WORDS_MAX];

static size_t given_words(int16_t version, int32_t topics, const char *last)
{
    static struct kafka_text names[TOPICS_MAX];
    static int32_t partitions[] = {3, 4};
    struct kafka_consumer_protocol_subscription_topic_partition owned[2];
    struct kafka_consumer_protocol_subscription value;
    kafka_consumer_protocol_subscription_init(&value);
    for (int32_t i = 0; i < topics; i++) { names[i] = kafka_text_words(i + 1 == topics ? last : "other"); }
    value.topics = names;
    value.topics_count = topics;
    value.user_data = kafka_bytes_of("own", 3);
    value.owned_partitions = owned;
    value.owned_partitions_count = version >= 1 ? 2 : 0;
    for (int i = 0; i < 2; i++) {
        owned[i].topic = kafka_text_words("owned");
        owned[i].partitions = partitions;
        owned[i].partitions_count = 2;
    }
    if (version >= 3) { value.rack_id = kafka_text_words("r"); }
    struct kafka_writer writer;
    base_put_u16(words, (uint16_t)version);
    kafka_writer_init(&writer, words + 2, WORDS_MAX - 2);
    assert_int_equal(kafka_consumer_protocol_subscription_encode(&value, version, &writer), BASE_OK);
    return 2 + writer.used_bytes;
}

/* By the decoder; `at` has exactly so many bytes. */
static enum reads decoded(const uint8_t *at, size_t size_bytes, const char *topic)
{
    static _Alignas(16) uint8_t memory[KAFKA_ARENA_FACTOR * 512];
    if (size_bytes < 2 || (int16_t)base_get_u16(at) < 0) { return UNREADABLE; }
    int16_t version = (int16_t)base_min_i64((int16_t)base_get_u16(at), 3);
    struct base_arena arena;
    struct kafka_consumer_protocol_subscription value;
    size_t used_bytes;
    assert_true(size_bytes <= 512);
    base_arena_init(&arena, memory, sizeof memory);
    if (kafka_consumer_protocol_subscription_decode_front(base_slice_of(at + 2, size_bytes - 2), version, &arena,
                                                          &value, &used_bytes) != BASE_OK) {
        return UNREADABLE;
    }
    for (int32_t i = 0; i < value.topics_count; i++) {
        if (kafka_text_is(value.topics[i], topic)) { return READS; }
    }
    return READS_NOT;
}

static enum reads looked_for(struct base_slice subscription, const char *topic)
{
    static _Alignas(16) uint8_t memory[1024];
    struct base_arena arena;
    struct group__names names;
    assert_true(group__names_bytes(1) <= sizeof memory);
    base_arena_init(&arena, memory, sizeof memory);
    group__names_init(&names, &arena, 1, 7);
    uint32_t index = group__names_add(&names, base_slice_text(topic));
    group__names_read(&names, subscription);
    if (names.is_all) { return UNREADABLE; }
    return group__names_is_read(&names, index) ? READS : READS_NOT;
}

/* From a heap block of exactly so many bytes. */
static enum reads read_exactly(size_t size_bytes, const char *topic)
{
    uint8_t *exact = malloc(size_bytes == 0 ? 1 : size_bytes);
    assert_non_null(exact);
    memcpy(exact, words, size_bytes);
    enum reads reads = looked_for(base_slice_of(exact, size_bytes), topic);
    assert_int_equal(reads, decoded(exact, size_bytes, topic));
    free(exact);
    return reads;
}

static void whole_words_name_their_topics(void **state)
{
    (void)state;
    for (int16_t version = 0; version <= 3; version++) {
        size_t size = given_words(version, 3, "t");
        assert_int_equal(read_exactly(size, "t"), READS);
        assert_int_equal(read_exactly(size, "other"), READS);
        assert_int_equal(read_exactly(size, "owned"), READS_NOT);
        assert_int_equal(read_exactly(size, "own"), READS_NOT);
        base_put_u16(words, 9); /* a version to come says what the last one says, and more */
        assert_int_equal(read_exactly(size, "t"), version == 3 ? READS : UNREADABLE);
    }
}

static void words_that_are_cut_anywhere_are_read_as_the_decoder_reads_them(void **state)
{
    (void)state;
    for (int16_t version = 0; version <= 3; version++) {
        size_t size = given_words(version, 3, "t");
        for (size_t cut = 0; cut < size; cut++) { assert_int_equal(read_exactly(cut, "t"), UNREADABLE); }
    }
}

static void words_with_any_byte_changed_are_read_as_the_decoder_reads_them(void **state)
{
    (void)state;
    static const uint8_t others[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};
    for (int16_t version = 0; version <= 3; version++) {
        size_t size = given_words(version, 3, "t");
        for (size_t at = 0; at < size; at++) {
            uint8_t kept = words[at];
            for (size_t i = 0; i < sizeof others; i++) {
                words[at] = others[i];
                (void)read_exactly(size, "t");
            }
            words[at] = kept;
        }
    }
}

static void a_topic_among_twenty_thousand_is_found_and_one_that_is_not_there_is_not(void **state)
{
    (void)state;
    size_t size = given_words(3, TOPICS_MAX, "t");
    assert_int_equal(looked_for(base_slice_of(words, size), "t"), READS);
    assert_int_equal(looked_for(base_slice_of(words, size), "u"), READS_NOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_words_name_their_topics),
        cmocka_unit_test(words_that_are_cut_anywhere_are_read_as_the_decoder_reads_them),
        cmocka_unit_test(words_with_any_byte_changed_are_read_as_the_decoder_reads_them),
        cmocka_unit_test(a_topic_among_twenty_thousand_is_found_and_one_that_is_not_there_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
