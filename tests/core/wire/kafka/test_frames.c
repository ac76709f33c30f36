/* test_frames.c: what the random walk over all messages does not say: known bytes, frames, splices, what versions lack,
 * apis and error codes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/kafka/api_versions.h"
#include "wire/kafka/describe_topic_partitions.h"
#include "wire/kafka/fetch.h"
#include "wire/kafka/header.h"
#include "wire/kafka/init_producer_id.h"
#include "wire/kafka/metadata.h"
#include "wire/kafka/metadata_records.h"
#include "wire/kafka/produce.h"

struct room {
    struct base_arena arena;
    struct kafka_writer writer;
    uint8_t bytes[4096];
    _Alignas(16) uint8_t memory[65536];
};

static struct room *given_room(void)
{
    struct room *room = calloc(1, sizeof *room);
    base_arena_init(&room->arena, room->memory, sizeof room->memory);
    kafka_writer_init(&room->writer, room->bytes, sizeof room->bytes);
    return room;
}

static struct base_slice written(const struct room *room)
{
    return base_slice_of(room->writer.at, room->writer.used_bytes);
}

static void expect_bytes(const struct room *room, const void *bytes, size_t size_bytes)
{
    assert_int_equal(room->writer.used_bytes, size_bytes);
    assert_memory_equal(room->writer.at, bytes, size_bytes);
}

/* ---- known bytes -------------------------------------------------------------------------------------------------- */

static void an_api_versions_request_has_the_bytes_that_clients_send(void **state)
{
    (void)state;
    static const uint8_t expected[] = {0,   0,   0,   32,  0,   18,  0,   3,   0,   0,   0,   7,
                                       0,   6,   'c', 'l', 'i', 'e', 'n', 't', 0,   7,   'l', 'i',
                                       'b', 'k', 'a', 'f', 6,   '2', '.', '0', '.', '2', 0};
    struct room *room = given_room();
    struct kafka_api_versions_request request;
    kafka_api_versions_request_init(&request);
    request.client_software_name = kafka_text_words("libkaf");
    request.client_software_version = kafka_text_words("2.0.2");
    assert_int_equal(kafka_request_encode(KAFKA_MESSAGE_API_VERSIONS_REQUEST, &request, 3, 7,
                                          kafka_text_words("client"), &room->writer),
                     BASE_OK);
    uint8_t with_size[sizeof expected];
    memcpy(with_size, expected, sizeof expected);
    with_size[3] = (uint8_t)(sizeof expected - 4);
    expect_bytes(room, with_size, sizeof expected);
    free(room);
}

static void the_answer_to_api_versions_has_a_rigid_header(void **state)
{
    (void)state;
    static const uint8_t expected[] = {0, 0, 0, 19, 0, 0, 0, 9, 0, 35, 2, 0, 18, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0};
    struct room *room = given_room();
    struct kafka_api_versions_response response;
    kafka_api_versions_response_init(&response);
    response.error_code = KAFKA_ERROR_UNSUPPORTED_VERSION;
    response.api_keys = kafka_api_versions_response_api_version_take(&room->arena, 1);
    assert_non_null(response.api_keys);
    response.api_keys_count = 1;
    response.api_keys[0].api_key = 18;
    response.api_keys[0].max_version = 4;
    assert_int_equal(kafka_response_encode(KAFKA_MESSAGE_API_VERSIONS_RESPONSE, &response, 3, 9, &room->writer),
                     BASE_OK);
    expect_bytes(room, expected, sizeof expected);
    free(room);
}

static void a_rigid_produce_request_has_long_lengths(void **state)
{
    (void)state;
    static const uint8_t expected[] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0x75, 0x30, 0, 0, 0, 1, 0,   1,   'a',
                                       0,    0,    0,    1,    0, 0, 0,    2,    0, 0, 0, 3, 'x', 'y', 'z'};
    struct room *room = given_room();
    struct kafka_produce_request_partition_produce_data partition;
    kafka_produce_request_partition_produce_data_init(&partition);
    partition.index = 2;
    partition.records = kafka_records_of("xyz", 3);
    struct kafka_produce_request_topic_produce_data topic;
    kafka_produce_request_topic_produce_data_init(&topic);
    topic.name = kafka_text_words("a");
    topic.partition_data = &partition;
    topic.partition_data_count = 1;
    struct kafka_produce_request request;
    kafka_produce_request_init(&request);
    assert_true(kafka_text_is_null(request.transactional_id));
    request.acks = -1;
    request.timeout_ms = 30000;
    request.topic_data = &topic;
    request.topic_data_count = 1;
    assert_int_equal(kafka_produce_request_encode(&request, 3, &room->writer), BASE_OK);
    expect_bytes(room, expected, sizeof expected);
    struct kafka_produce_request back;
    assert_int_equal(kafka_produce_request_decode(written(room), 3, &room->arena, &back), BASE_OK);
    assert_true(kafka_produce_request_equal(&request, &back));
    assert_ptr_equal(back.topic_data[0].partition_data[0].records.at, room->bytes + sizeof expected - 3);
    free(room);
}

static void a_tag_at_its_default_is_not_sent(void **state)
{
    (void)state;
    struct room *room = given_room();
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    struct kafka_size without;
    struct kafka_size with;
    assert_int_equal(kafka_fetch_request_size(&request, 17, &without), BASE_OK);
    request.replica_state.replica_id = 3;
    assert_int_equal(kafka_fetch_request_size(&request, 17, &with), BASE_OK);
    assert_int_equal(with.memory_bytes - without.memory_bytes,
                     1 + 1 + 4 + 8 + 1); /* tag, size, the struct, its own tags */
    free(room);
}

/* ---- what a version can't say --------------------------------------------------------------------------------------- */

static void a_field_that_the_version_lacks_is_refused_unless_ignorable(void **state)
{
    (void)state;
    struct kafka_size size;
    struct kafka_init_producer_id_request request;
    struct kafka_fetch_request fetch;
    kafka_fetch_request_init(&fetch);
    fetch.rack_id = kafka_text_words("north"); /* 11+, ignorable */
    assert_int_equal(kafka_fetch_request_size(&fetch, 10, &size), BASE_OK);
    kafka_init_producer_id_request_init(&request);
    request.enable2_pc = true; /* 6+, not ignorable */
    assert_int_equal(kafka_init_producer_id_request_size(&request, 5, &size), BASE_BAD);
    assert_int_equal(kafka_init_producer_id_request_size(&request, 6, &size), BASE_OK);
}

static void a_tag_that_the_version_lacks_is_refused_and_leaves_the_writer_alone(void **state)
{
    (void)state;
    struct room *room = given_room();
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.replica_state.replica_epoch = 1; /* 15+ */
    assert_int_equal(kafka_fetch_request_encode(&request, 12, &room->writer), BASE_BAD);
    assert_int_equal(room->writer.used_bytes, 0);
    free(room);
}

static void a_null_where_none_may_be_is_refused_both_ways(void **state)
{
    (void)state;
    struct room *room = given_room();
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.topics_count = -1; /* null 1+ */
    assert_int_equal(kafka_metadata_request_encode(&request, 0, &room->writer), BASE_BAD);
    assert_int_equal(kafka_metadata_request_encode(&request, 1, &room->writer), BASE_OK);
    struct kafka_metadata_request back;
    assert_int_equal(kafka_metadata_request_decode(written(room), 1, &room->arena, &back), BASE_OK);
    assert_int_equal(back.topics_count, -1);
    assert_int_equal(kafka_metadata_request_decode(written(room), 0, &room->arena, &back), BASE_BAD);
    free(room);
}

static void a_text_longer_than_kafka_allows_is_refused(void **state)
{
    (void)state;
    uint8_t *long_text = calloc(1, KAFKA_TEXT_BYTES_MAX + 1);
    struct kafka_size size;
    struct kafka_topic_record record;
    kafka_topic_record_init(&record);
    record.name = kafka_text_of(long_text, KAFKA_TEXT_BYTES_MAX);
    assert_int_equal(kafka_topic_record_size(&record, 0, &size), BASE_OK);
    record.name = kafka_text_of(long_text, KAFKA_TEXT_BYTES_MAX + 1);
    assert_int_equal(kafka_topic_record_size(&record, 0, &size), BASE_BAD);
    free(long_text);
}

static void a_version_that_the_api_lacks_is_refused(void **state)
{
    (void)state;
    struct room *room = given_room();
    struct kafka_produce_request request;
    kafka_produce_request_init(&request);
    assert_int_equal(kafka_produce_request_encode(&request, 2, &room->writer), BASE_BAD);
    assert_int_equal(kafka_produce_request_encode(&request, 14, &room->writer), BASE_BAD);
    assert_int_equal(kafka_produce_request_decode(written(room), -1, &room->arena, &request), BASE_BAD);
    free(room);
}

/* ---- tags from outside ---------------------------------------------------------------------------------------------- */

/* A response header of version 1 with `count` unknown empty tags. */
static size_t given_tags(uint8_t *at, uint32_t count)
{
    size_t size = 0;
    memset(at, 0, 4);
    size += 4;
    at[size++] = (uint8_t)(count | 0x80);
    at[size++] = (uint8_t)(count >> 7);
    for (uint32_t i = 0; i < count; i++) {
        at[size++] = (uint8_t)(i | 0x80);
        at[size++] = (uint8_t)(i >> 7);
        at[size++] = 0;
    }
    return size;
}

static void a_thousand_tags_are_skipped_and_one_more_is_an_error(void **state)
{
    (void)state;
    struct room *room = given_room();
    struct kafka_response_header header;
    size_t size = given_tags(room->bytes, KAFKA_TAGS_MAX);
    assert_int_equal(kafka_response_header_decode(base_slice_of(room->bytes, size), 1, &room->arena, &header), BASE_OK);
    size = given_tags(room->bytes, KAFKA_TAGS_MAX + 1);
    assert_int_equal(kafka_response_header_decode(base_slice_of(room->bytes, size), 1, &room->arena, &header),
                     BASE_BAD);
    free(room);
}

static enum base_rc decode_record(struct room *room, const uint8_t *bytes, size_t size,
                                  struct kafka_unfence_broker_record *out)
{
    return kafka_unfence_broker_record_decode(base_slice_of(bytes, size), 0, &room->arena, out);
}

static void a_length_of_more_than_32_bits_is_an_error(void **state)
{
    (void)state;
    struct room *room = given_room();
    struct kafka_unfence_broker_record record;
    uint8_t bytes[20] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2};
    assert_int_equal(decode_record(room, bytes, 13, &record), BASE_OK); /* no tags */
    static const uint8_t padded[] = {0x80, 0x80, 0x80, 0x80, 0}; /* zero, in more bytes than needed: Kafka takes it */
    memcpy(bytes + 12, padded, sizeof padded);
    assert_int_equal(decode_record(room, bytes, 12 + sizeof padded, &record), BASE_OK);
    bytes[16] = 0x10; /* bit 32 */
    assert_int_equal(decode_record(room, bytes, 12 + sizeof padded, &record), BASE_BAD);
    bytes[16] = 0x80;
    assert_int_equal(decode_record(room, bytes, 18, &record), BASE_BAD);
    free(room);
}

static void a_known_tag_fills_its_size_exactly(void **state)
{
    (void)state;
    struct room *room = given_room();
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.cluster_id = kafka_text_words("abc");
    assert_int_equal(kafka_fetch_request_encode(&request, 12, &room->writer), BASE_OK);
    uint8_t *payload = room->bytes + room->writer.used_bytes - 5; /* size 4, then the text of 3 */
    assert_int_equal(payload[0], 4);
    struct kafka_fetch_request back;
    assert_int_equal(kafka_fetch_request_decode(written(room), 12, &room->arena, &back), BASE_OK);
    payload[1] = 3; /* a text of 2, and a byte that nobody reads */
    assert_int_equal(kafka_fetch_request_decode(written(room), 12, &room->arena, &back), BASE_BAD);
    free(room);
}

/* ---- memory --------------------------------------------------------------------------------------------------------- */

static void an_arena_too_small_is_full_and_stays_as_it_was(void **state)
{
    (void)state;
    struct room *room = given_room();
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.topics = kafka_metadata_request_metadata_request_topic_take(&room->arena, 10);
    request.topics_count = 10;
    assert_int_equal(kafka_metadata_request_encode(&request, 9, &room->writer), BASE_OK);
    struct kafka_metadata_request back;
    size_t needed = 10 * sizeof *request.topics;
    struct base_arena arena;
    _Alignas(16) uint8_t memory[1024];
    base_arena_init(&arena, memory, needed - 1);
    assert_int_equal(kafka_metadata_request_decode(written(room), 9, &arena, &back), BASE_FULL);
    assert_int_equal(base_arena_mark(&arena), 0);
    base_arena_init(&arena, memory, (needed + 15) / 16 * 16);
    assert_int_equal(kafka_metadata_request_decode(written(room), 9, &arena, &back), BASE_OK);
    free(room);
}

/* ---- splices -------------------------------------------------------------------------------------------------------- */

/* A fetch answer of one topic with two partitions: records in a file, and in memory. */
static struct kafka_fetch_response given_fetch_answer(struct room *room, struct kafka_records first)
{
    struct kafka_fetch_response response;
    kafka_fetch_response_init(&response);
    response.responses = kafka_fetch_response_fetchable_topic_response_take(&room->arena, 1);
    response.responses_count = 1;
    response.responses[0].partitions = kafka_fetch_response_partition_data_take(&room->arena, 2);
    response.responses[0].partitions_count = 2;
    response.responses[0].partitions[0].records = first;
    response.responses[0].partitions[1].partition_index = 1;
    response.responses[0].partitions[1].records = kafka_records_of("memory", 6);
    return response;
}

static void records_that_lie_elsewhere_are_spliced_in_at_their_place(void **state)
{
    (void)state;
    static const char file[] = "three hundred bytes would not fit here, but a few words do";
    for (int16_t version = 4; version <= 18; version++) {
        struct room *room = given_room();
        struct kafka_fetch_response spliced = given_fetch_answer(room, kafka_records_elsewhere(sizeof file, 77));
        struct kafka_size size;
        assert_int_equal(kafka_response_size(KAFKA_MESSAGE_FETCH_RESPONSE, &spliced, version, &size), BASE_OK);
        assert_int_equal(size.splices_count, 1);
        assert_int_equal(size.splice_bytes, sizeof file);
        struct kafka_splice splices[1];
        assert_int_equal(kafka_response_encode(KAFKA_MESSAGE_FETCH_RESPONSE, &spliced, version, 1, &room->writer),
                         BASE_FULL);
        kafka_writer_use_splices(&room->writer, splices, 1);
        assert_int_equal(kafka_response_encode(KAFKA_MESSAGE_FETCH_RESPONSE, &spliced, version, 1, &room->writer),
                         BASE_OK);
        assert_int_equal(room->writer.used_bytes, size.memory_bytes);
        assert_int_equal(room->writer.splices_count, 1);
        assert_int_equal(splices[0].splice, 77);
        assert_int_equal(splices[0].size_bytes, sizeof file);

        struct room *whole = given_room();
        struct kafka_fetch_response inline_answer = given_fetch_answer(whole, kafka_records_of(file, sizeof file));
        assert_int_equal(kafka_response_encode(KAFKA_MESSAGE_FETCH_RESPONSE, &inline_answer, version, 1,
                                               &whole->writer),
                         BASE_OK);
        assert_int_equal(whole->writer.used_bytes, size.memory_bytes + size.splice_bytes);
        size_t at = splices[0].at_bytes;
        assert_memory_equal(whole->bytes, room->bytes, at);
        assert_memory_equal(whole->bytes + at, file, sizeof file);
        assert_memory_equal(whole->bytes + at + sizeof file, room->bytes + at, size.memory_bytes - at);
        assert_int_equal(base_get_u32(room->bytes), whole->writer.used_bytes - 4);
        free(room);
        free(whole);
    }
}

/* ---- frames --------------------------------------------------------------------------------------------------------- */

static void a_frame_is_as_long_as_its_size_can_say_and_no_longer(void **state)
{
    (void)state;
    struct room *room = given_room();
    struct kafka_fetch_response answer = given_fetch_answer(room, kafka_records_elsewhere(0, 1));
    struct kafka_size size;
    assert_int_equal(kafka_response_size(KAFKA_MESSAGE_FETCH_RESPONSE, &answer, 11, &size), BASE_OK);
    uint32_t longest_bytes = (uint32_t)(INT32_MAX - size.memory_bytes);
    answer.responses[0].partitions[0].records = kafka_records_elsewhere(longest_bytes, 1);
    assert_int_equal(kafka_response_size(KAFKA_MESSAGE_FETCH_RESPONSE, &answer, 11, &size), BASE_OK);
    answer.responses[0].partitions[0].records = kafka_records_elsewhere(longest_bytes + 1, 1);
    assert_int_equal(kafka_response_size(KAFKA_MESSAGE_FETCH_RESPONSE, &answer, 11, &size), BASE_FULL);
    struct kafka_splice splices[1];
    kafka_writer_use_splices(&room->writer, splices, 1);
    assert_int_equal(kafka_response_encode(KAFKA_MESSAGE_FETCH_RESPONSE, &answer, 11, 1, &room->writer), BASE_FULL);
    assert_int_equal(room->writer.used_bytes, 0);
    free(room);
}

static void a_request_goes_out_and_opens_again_in_every_version(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < KAFKA_API_COUNT; i++) {
        const struct kafka_api_info *info = kafka_api_at(i);
        for (int16_t version = info->version_min; version <= info->version_max; version++) {
            struct room *room = given_room();
            uint64_t value[512];
            struct base_prng prng;
            base_prng_init(&prng, i, (uint64_t)version);
            assert_int_equal(kafka_random(info->request, version, &prng, &room->arena, value), BASE_OK);
            struct kafka_size size;
            struct kafka_text client = i % 2 == 0 ? kafka_text_null() : kafka_text_words("me");
            assert_int_equal(kafka_request_size(info->request, value, version, client, &size), BASE_OK);
            uint8_t *frame = malloc(size.memory_bytes);
            kafka_writer_init(&room->writer, frame, size.memory_bytes);
            assert_int_equal(kafka_request_encode(info->request, value, version, 42, client, &room->writer), BASE_OK);
            assert_int_equal(room->writer.used_bytes, size.memory_bytes);
            assert_int_equal(base_get_u32(frame), size.memory_bytes - 4);
            struct kafka_request_header header;
            struct base_slice body;
            assert_int_equal(kafka_request_open(base_slice_of(frame + 4, size.memory_bytes - 4), &header, &body),
                             BASE_OK);
            assert_int_equal(header.request_api_key, info->key);
            assert_int_equal(header.request_api_version, version);
            assert_int_equal(header.correlation_id, 42);
            assert_true(kafka_text_equal(header.client_id, client));
            uint64_t back[512];
            assert_int_equal(kafka_decode(info->request, body, version, &room->arena, back), BASE_OK);
            assert_true(kafka_equal(info->request, value, back));
            free(frame);
            free(room);
        }
    }
}

static void an_answer_goes_out_and_opens_again_in_every_version(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < KAFKA_API_COUNT; i++) {
        const struct kafka_api_info *info = kafka_api_at(i);
        for (int16_t version = info->version_min; version <= info->version_max; version++) {
            struct room *room = given_room();
            uint64_t value[512];
            struct base_prng prng;
            base_prng_init(&prng, i + 1000, (uint64_t)version);
            assert_int_equal(kafka_random(info->response, version, &prng, &room->arena, value), BASE_OK);
            struct kafka_size size;
            assert_int_equal(kafka_response_size(info->response, value, version, &size), BASE_OK);
            uint8_t *frame = malloc(size.memory_bytes);
            kafka_writer_init(&room->writer, frame, size.memory_bytes);
            assert_int_equal(kafka_response_encode(info->response, value, version, 42, &room->writer), BASE_OK);
            assert_int_equal(base_get_u32(frame), size.memory_bytes - 4);
            int32_t correlation_id;
            struct base_slice body;
            assert_int_equal(kafka_response_open(base_slice_of(frame + 4, size.memory_bytes - 4), info->key, version,
                                                 &correlation_id, &body),
                             BASE_OK);
            assert_int_equal(correlation_id, 42);
            uint64_t back[512];
            assert_int_equal(kafka_decode(info->response, body, version, &room->arena, back), BASE_OK);
            assert_true(kafka_equal(info->response, value, back));
            free(frame);
            free(room);
        }
    }
}

static void a_header_of_an_unknown_api_or_of_too_few_bytes_does_not_open(void **state)
{
    (void)state;
    struct kafka_request_header header;
    struct base_slice body;
    uint8_t bytes[] = {0, 18, 0, 99, 0, 0, 0, 1, 0xff, 0xff, 0};
    assert_int_equal(kafka_request_open(base_slice_of(bytes, sizeof bytes), &header, &body), BASE_OK); /* version 99 */
    assert_int_equal(header.request_api_version, 99);
    for (size_t size = 0; size < sizeof bytes; size++) {
        assert_int_equal(kafka_request_open(base_slice_of(bytes, size), &header, &body), BASE_BAD);
    }
    bytes[1] = 5; /* StopReplica, which is no more */
    assert_int_equal(kafka_request_open(base_slice_of(bytes, sizeof bytes), &header, &body), BASE_MISSING);
}

static void a_metadata_record_goes_out_and_opens_again(void **state)
{
    (void)state;
    static const uint8_t expected[] = {1, 2, 0, 2, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0};
    struct room *room = given_room();
    struct kafka_topic_record record;
    kafka_topic_record_init(&record);
    record.name = kafka_text_words("a");
    record.topic_id.b[15] = 7;
    struct kafka_size size;
    assert_int_equal(kafka_record_size(KAFKA_MESSAGE_TOPIC_RECORD, &record, 0, &size), BASE_OK);
    assert_int_equal(size.memory_bytes, sizeof expected);
    assert_int_equal(kafka_record_encode(KAFKA_MESSAGE_TOPIC_RECORD, &record, 0, &room->writer), BASE_OK);
    expect_bytes(room, expected, sizeof expected);
    uint32_t record_type = 0;
    int16_t version = -1;
    struct base_slice body;
    assert_int_equal(kafka_record_open(written(room), &record_type, &version, &body), BASE_OK);
    assert_int_equal(kafka_record_message(record_type), KAFKA_MESSAGE_TOPIC_RECORD);
    struct kafka_topic_record back;
    assert_int_equal(kafka_topic_record_decode(body, version, &room->arena, &back), BASE_OK);
    assert_true(kafka_topic_record_equal(&record, &back));
    for (size_t cut = 0; cut < 3; cut++) {
        assert_int_equal(kafka_record_open(base_slice_of(room->bytes, cut), &record_type, &version, &body), BASE_BAD);
    }
    room->bytes[0] = 2;
    assert_int_equal(kafka_record_open(written(room), &record_type, &version, &body), BASE_BAD);
    kafka_writer_init(&room->writer, room->bytes, sizeof expected - 1);
    assert_int_equal(kafka_record_encode(KAFKA_MESSAGE_TOPIC_RECORD, &record, 0, &room->writer), BASE_FULL);
    assert_int_equal(room->writer.used_bytes, 0);
    free(room);
}

/* ---- apis and errors -------------------------------------------------------------------------------------------------- */

static void the_api_table_says_what_kafka_says(void **state)
{
    (void)state;
    const struct kafka_api_info *produce = kafka_api_info(KAFKA_API_PRODUCE);
    assert_string_equal(produce->name, "Produce");
    assert_int_equal(produce->version_min, 3);
    assert_int_equal(produce->version_max, 13);
    assert_int_equal(produce->flexible_from, 9);
    assert_int_equal(produce->listeners, KAFKA_LISTENER_BROKER);
    assert_int_equal(kafka_api_info(KAFKA_API_INIT_PRODUCER_ID)->version_stable, 5);
    assert_null(kafka_api_info(4));
    assert_null(kafka_api_info(-1));
    assert_null(kafka_api_info(INT16_MAX));
    for (uint32_t i = 0; i < KAFKA_API_COUNT; i++) {
        const struct kafka_api_info *info = kafka_api_at(i);
        assert_ptr_equal(kafka_api_info(info->key), info);
        assert_true(i == 0 || kafka_api_at(i - 1)->key < info->key);
        assert_true(kafka_api_has_version(info->key, info->version_max));
        assert_false(kafka_api_has_version(info->key, (int16_t)(info->version_max + 1)));
    }
    assert_int_equal(kafka_request_header_version(KAFKA_API_PRODUCE, 8), 1);
    assert_int_equal(kafka_request_header_version(KAFKA_API_PRODUCE, 9), 2);
    assert_int_equal(kafka_response_header_version(KAFKA_API_PRODUCE, 9), 1);
    assert_int_equal(kafka_response_header_version(KAFKA_API_API_VERSIONS, 4), 0);
    assert_int_equal(kafka_request_message(4), KAFKA_MESSAGE_NONE);
    assert_int_equal(kafka_record_message(KAFKA_RECORD_TOPIC), KAFKA_MESSAGE_TOPIC_RECORD);
    assert_int_equal(kafka_record_message(999), KAFKA_MESSAGE_NONE);
}

static void an_error_has_a_name_and_a_name_an_error(void **state)
{
    (void)state;
    assert_string_equal(kafka_error_name(0), "NONE");
    assert_string_equal(kafka_error_name(-1), "UNKNOWN_SERVER_ERROR");
    assert_string_equal(kafka_error_name(KAFKA_ERROR_TOPIC_ALREADY_EXISTS), "TOPIC_ALREADY_EXISTS");
    assert_string_equal(kafka_error_name(30000), "UNKNOWN_ERROR_CODE");
    assert_true(kafka_error_is_retriable(KAFKA_ERROR_NOT_COORDINATOR));
    assert_false(kafka_error_is_retriable(KAFKA_ERROR_TOPIC_ALREADY_EXISTS));
    int16_t code = 0;
    assert_int_equal(kafka_error_from_name(base_slice_text("FENCED_INSTANCE_ID"), &code), BASE_OK);
    assert_int_equal(code, 82);
    assert_int_equal(kafka_error_from_name(base_slice_text("FENCED"), &code), BASE_MISSING);
}

/* ---- text ------------------------------------------------------------------------------------------------------------- */

static void a_value_prints_as_one_line_and_is_cut_where_the_room_ends(void **state)
{
    (void)state;
    struct room *room = given_room();
    struct kafka_describe_topic_partitions_request request;
    kafka_describe_topic_partitions_request_init(&request);
    request.topics = kafka_describe_topic_partitions_request_topic_request_take(&room->arena, 2);
    request.topics_count = 2;
    request.topics[0].name = kafka_text_words("a\"b\n");
    char words[256];
    struct base_text text;
    base_text_init(&text, words, sizeof words);
    kafka_describe_topic_partitions_request_print(&request, 0, &text);
    assert_string_equal(words,
                        "{Topics=[{Name=\"a\\x22b\\x0a\"} {Name=\"\"}] ResponsePartitionLimit=2000 Cursor=null}");
    struct kafka_describe_topic_partitions_request_cursor cursor;
    kafka_describe_topic_partitions_request_cursor_init(&cursor);
    request.cursor = &cursor;
    base_text_init(&text, words, sizeof words);
    kafka_describe_topic_partitions_request_print(&request, 0, &text);
    assert_string_equal(words, "{Topics=[{Name=\"a\\x22b\\x0a\"} {Name=\"\"}] ResponsePartitionLimit=2000 "
                               "Cursor={TopicName=\"\" PartitionIndex=0}}");
    base_text_init(&text, words, 12);
    kafka_describe_topic_partitions_request_print(&request, 0, &text);
    assert_true(text.is_cut);
    assert_true(strlen(words) < 12);
    free(room);
}

/* What is read straight is what the tables read, wherever the bytes end, and with what ends in the middle refused by both. */
static void a_request_header_is_read_as_the_tables_read_it(void **state)
{
    (void)state;
    static const int16_t heads[][2] = {{0, 8}, {0, 9}, {18, 2}, {18, 3}, {68, 0}}; /* rigid and flexible ones */
    static const uint8_t tails[][12] = {
        {0, 3, 'a', 'b', 'c', 0, 'x'}, {0, 3, 'a', 'b', 'c', 1, 5, 2, 'y', 'z', 'x'},
        {0xff, 0xff, 0, 'x'},          {0, 0, 0, 'x'},
        {0xff, 0xfe, 0, 'x'},          {0x7f, 0xff, 'a', 0, 'x'},
    };
    for (size_t h = 0; h < BASE_ARRAY_COUNT(heads); h++) {
        for (size_t t = 0; t < BASE_ARRAY_COUNT(tails); t++) {
            uint8_t bytes[8 + sizeof tails[0]] = {0};
            base_put_u16(bytes, (uint16_t)heads[h][0]);
            base_put_u16(bytes + 2, (uint16_t)heads[h][1]);
            base_put_u32(bytes + 4, 77);
            memcpy(bytes + 8, tails[t], sizeof tails[t]);
            for (size_t size = 4; size <= sizeof bytes; size++) {
                uint8_t *front = malloc(size); /* of its own, so that a read past its end is one */
                assert_non_null(front);
                memcpy(front, bytes, size);
                struct base_slice frame = base_slice_of(front, size);
                struct kafka_request_header wanted;
                struct kafka_request_header header;
                struct base_slice body;
                size_t used_bytes = 0;
                struct base_arena none;
                base_arena_init(&none, NULL, 0);
                int16_t version = kafka_request_header_version(heads[h][0], heads[h][1]);
                enum base_rc rc = kafka_request_header_decode_front(frame, version, &none, &wanted, &used_bytes);
                assert_int_equal(kafka_request_open(frame, &header, &body), rc);
                if (rc == BASE_OK) {
                    assert_true(kafka_request_header_equal(&header, &wanted));
                    assert_ptr_equal(body.at, front + used_bytes);
                    assert_int_equal(body.size_bytes, size - used_bytes);
                }
                free(front);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_header_is_read_as_the_tables_read_it),
        cmocka_unit_test(an_api_versions_request_has_the_bytes_that_clients_send),
        cmocka_unit_test(the_answer_to_api_versions_has_a_rigid_header),
        cmocka_unit_test(a_rigid_produce_request_has_long_lengths),
        cmocka_unit_test(a_tag_at_its_default_is_not_sent),
        cmocka_unit_test(a_field_that_the_version_lacks_is_refused_unless_ignorable),
        cmocka_unit_test(a_tag_that_the_version_lacks_is_refused_and_leaves_the_writer_alone),
        cmocka_unit_test(a_null_where_none_may_be_is_refused_both_ways),
        cmocka_unit_test(a_text_longer_than_kafka_allows_is_refused),
        cmocka_unit_test(a_version_that_the_api_lacks_is_refused),
        cmocka_unit_test(a_thousand_tags_are_skipped_and_one_more_is_an_error),
        cmocka_unit_test(a_length_of_more_than_32_bits_is_an_error),
        cmocka_unit_test(a_known_tag_fills_its_size_exactly),
        cmocka_unit_test(an_arena_too_small_is_full_and_stays_as_it_was),
        cmocka_unit_test(records_that_lie_elsewhere_are_spliced_in_at_their_place),
        cmocka_unit_test(a_frame_is_as_long_as_its_size_can_say_and_no_longer),
        cmocka_unit_test(a_request_goes_out_and_opens_again_in_every_version),
        cmocka_unit_test(an_answer_goes_out_and_opens_again_in_every_version),
        cmocka_unit_test(a_header_of_an_unknown_api_or_of_too_few_bytes_does_not_open),
        cmocka_unit_test(a_metadata_record_goes_out_and_opens_again),
        cmocka_unit_test(the_api_table_says_what_kafka_says),
        cmocka_unit_test(an_error_has_a_name_and_a_name_an_error),
        cmocka_unit_test(a_value_prints_as_one_line_and_is_cut_where_the_room_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
