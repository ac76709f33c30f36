/* test_broker_offsets.c: where a partition begins and ends, by leader too, and who may move its start, and how far.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/delete_records.h"
#include "wire/kafka/fetch.h"
#include "wire/kafka/list_offsets.h"
#include "wire/kafka/offset_for_leader_epoch.h"

/* The last ones without compact fields; of what they may be asked, see the tests. */
#define PRODUCE_VERSION 8
#define LIST_VERSION    5
#define FETCH_VERSION   11
#define EPOCH_VERSION   3
#define DELETE_VERSION  1
#define LIST_LAST       11
#define BYTES_MAX       1024
#define EPOCH           3
#define RECORDS         5
#define NO_EPOCH        (-1)

static const char topic_name[] = "t";

/* A partition that has been led before, and some records of its leader of now. */
static struct shard *given_records(uint32_t *slot_out)
{
    struct shard *shard = shard_make(0);
    shard_start(shard);
    assert_true(shard->is_ready);
    struct base_part part = {.topic = {{1}}, .index = 0};
    while (shard_of(shard->broker, part) != shard->number) { part.topic.b[1] += 1; }
    struct metadata_partition partition = {
        .id = part, .leader = 1, .leader_epoch = EPOCH, .replicas_count = 1, .replicas = {1}};
    assert_int_equal(metadata_put_topic(shard->broker->image, base_slice_text(topic_name), part.topic), BASE_OK);
    assert_int_equal(metadata_put_partition(shard->broker->image, &partition), BASE_OK);
    *slot_out = shard_connect(shard);
    uint8_t memory[BYTES_MAX];
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, memory, sizeof memory, rec_build_plain()), BASE_OK);
    for (int i = 0; i < RECORDS; i++) {
        struct rec_value value = rec_value_of(base_slice_text("value"));
        assert_int_equal(rec_build_add(&build, 1000 + i, rec_null(), value, NULL, 0), BASE_OK);
    }
    shard_produce(shard, *slot_out, PRODUCE_VERSION, -1, topic_name, rec_build_end(&build));
    return shard;
}

static struct kafka_list_offsets_response_list_offsets_partition_response listed(struct shard *shard, uint32_t slot,
                                                                                 int16_t version, int64_t when,
                                                                                 int32_t leader_epoch)
{
    struct kafka_list_offsets_request_list_offsets_partition partition;
    kafka_list_offsets_request_list_offsets_partition_init(&partition);
    partition.timestamp = when;
    partition.current_leader_epoch = leader_epoch;
    struct kafka_list_offsets_request_list_offsets_topic topic;
    kafka_list_offsets_request_list_offsets_topic_init(&topic);
    topic.name = kafka_text_words(topic_name);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    struct kafka_list_offsets_request request;
    kafka_list_offsets_request_init(&request);
    request.replica_id = -1;
    request.topics = &topic;
    request.topics_count = 1;
    shard_ask(shard, slot, KAFKA_MESSAGE_LIST_OFFSETS_REQUEST, version, &request);
    struct kafka_list_offsets_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_LIST_OFFSETS_RESPONSE, version, &answer));
    assert_int_equal(answer.topics_count, 1);
    assert_int_equal(answer.topics[0].partitions_count, 1);
    return answer.topics[0].partitions[0];
}

static void expect_listed(struct shard *shard, uint32_t slot, int16_t version, int64_t when, int64_t offset,
                          int32_t epoch)
{
    struct kafka_list_offsets_response_list_offsets_partition_response line =
        listed(shard, slot, version, when, NO_EPOCH);
    assert_int_equal(line.error_code, KAFKA_ERROR_NONE);
    assert_int_equal(line.offset, offset);
    assert_int_equal(line.leader_epoch, epoch);
    assert_int_equal(line.timestamp, -1);
}

static int64_t error_of_fetch(struct shard *shard, uint32_t slot, int32_t leader_epoch)
{
    struct kafka_fetch_request_fetch_partition partition;
    kafka_fetch_request_fetch_partition_init(&partition);
    partition.current_leader_epoch = leader_epoch;
    partition.fetch_offset = RECORDS;
    struct kafka_fetch_request_fetch_topic topic;
    kafka_fetch_request_fetch_topic_init(&topic);
    topic.topic = kafka_text_words(topic_name);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.session_epoch = FETCHSESSION_EPOCH_FINAL;
    request.topics = &topic;
    request.topics_count = 1;
    shard_ask(shard, slot, KAFKA_MESSAGE_FETCH_REQUEST, FETCH_VERSION, &request);
    struct kafka_fetch_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_FETCH_RESPONSE, FETCH_VERSION, &answer));
    return answer.responses[0].partitions[0].error_code;
}

static struct kafka_offset_for_leader_epoch_response_epoch_end_offset epoch_end(struct shard *shard, uint32_t slot,
                                                                                int32_t asked, int32_t leader_epoch)
{
    struct kafka_offset_for_leader_epoch_request_offset_for_leader_partition partition;
    kafka_offset_for_leader_epoch_request_offset_for_leader_partition_init(&partition);
    partition.leader_epoch = asked;
    partition.current_leader_epoch = leader_epoch;
    struct kafka_offset_for_leader_epoch_request_offset_for_leader_topic topic;
    kafka_offset_for_leader_epoch_request_offset_for_leader_topic_init(&topic);
    topic.topic = kafka_text_words(topic_name);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    struct kafka_offset_for_leader_epoch_request request;
    kafka_offset_for_leader_epoch_request_init(&request);
    request.replica_id = -1;
    request.topics = &topic;
    request.topics_count = 1;
    shard_ask(shard, slot, KAFKA_MESSAGE_OFFSET_FOR_LEADER_EPOCH_REQUEST, EPOCH_VERSION, &request);
    struct kafka_offset_for_leader_epoch_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_OFFSET_FOR_LEADER_EPOCH_RESPONSE, EPOCH_VERSION, &answer));
    return answer.topics[0].partitions[0];
}

/* What it did; where the partition begins then. */
static int16_t delete_before(struct shard *shard, uint32_t slot, const char *name, int64_t offset, int64_t *start_out)
{
    struct kafka_delete_records_request_delete_records_partition partition;
    kafka_delete_records_request_delete_records_partition_init(&partition);
    partition.offset = offset;
    struct kafka_delete_records_request_delete_records_topic topic;
    kafka_delete_records_request_delete_records_topic_init(&topic);
    topic.name = kafka_text_words(name);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    struct kafka_delete_records_request request;
    kafka_delete_records_request_init(&request);
    request.timeout_ms = 1000;
    request.topics = &topic;
    request.topics_count = 1;
    shard_ask(shard, slot, KAFKA_MESSAGE_DELETE_RECORDS_REQUEST, DELETE_VERSION, &request);
    struct kafka_delete_records_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_DELETE_RECORDS_RESPONSE, DELETE_VERSION, &answer));
    *start_out = answer.topics[0].partitions[0].low_watermark;
    return answer.topics[0].partitions[0].error_code;
}

static void who_knows_another_leader_is_told_who_is_behind(void **state)
{
    (void)state;
    static const struct {
        int32_t epoch;
        int16_t error;
    } expected[] = {{NO_EPOCH, KAFKA_ERROR_NONE},
                    {EPOCH, KAFKA_ERROR_NONE},
                    {EPOCH - 1, KAFKA_ERROR_FENCED_LEADER_EPOCH},
                    {0, KAFKA_ERROR_FENCED_LEADER_EPOCH},
                    {EPOCH + 1, KAFKA_ERROR_UNKNOWN_LEADER_EPOCH},
                    {INT32_MAX, KAFKA_ERROR_UNKNOWN_LEADER_EPOCH}};
    uint32_t slot;
    struct shard *shard = given_records(&slot);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(expected); i++) {
        int32_t epoch = expected[i].epoch;
        int16_t error = expected[i].error;
        assert_int_equal(listed(shard, slot, LIST_VERSION, LIST_OFFSETS_LATEST, epoch).error_code, error);
        assert_int_equal(listed(shard, slot, LIST_VERSION, LIST_OFFSETS_EARLIEST, epoch).error_code, error);
        assert_int_equal(error_of_fetch(shard, slot, epoch), error);
        assert_int_equal(epoch_end(shard, slot, EPOCH, epoch).error_code, error);
    }
    shard_free(shard);
}

static void an_epoch_ends_where_the_next_one_begins(void **state)
{
    (void)state;
    static const struct {
        int32_t asked, epoch;
        int64_t end;
    } expected[] = {{EPOCH, EPOCH, RECORDS}, {EPOCH - 1, EPOCH - 1, 0}, {EPOCH + 1, -1, -1}, {-1, -1, -1}, {-2, -2, 0}};
    uint32_t slot;
    struct shard *shard = given_records(&slot);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(expected); i++) {
        struct kafka_offset_for_leader_epoch_response_epoch_end_offset line =
            epoch_end(shard, slot, expected[i].asked, NO_EPOCH);
        assert_int_equal(line.error_code, KAFKA_ERROR_NONE);
        assert_int_equal(line.leader_epoch, expected[i].epoch);
        assert_int_equal(line.end_offset, expected[i].end);
    }
    shard_free(shard);
}

static void a_partition_begins_and_ends_where_its_records_do_and_nothing_of_it_is_elsewhere(void **state)
{
    (void)state;
    uint32_t slot;
    struct shard *shard = given_records(&slot);
    static const int16_t versions[] = {4, LIST_VERSION, LIST_LAST};
    int64_t start = 0;
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        for (size_t i = 0; i < BASE_ARRAY_COUNT(versions); i++) {
            expect_listed(shard, slot, versions[i], LIST_OFFSETS_EARLIEST, start, EPOCH);
            expect_listed(shard, slot, versions[i], LIST_OFFSETS_LATEST, RECORDS, EPOCH);
        }
        expect_listed(shard, slot, LIST_LAST, LIST_OFFSETS_EARLIEST_LOCAL, start, EPOCH);
        expect_listed(shard, slot, LIST_LAST, LIST_OFFSETS_LATEST_TIERED, -1, NO_EPOCH);
        expect_listed(shard, slot, LIST_LAST, LIST_OFFSETS_EARLIEST_PENDING_UPLOAD, -1, NO_EPOCH);
        assert_int_equal(delete_before(shard, slot, topic_name, 2, &start), KAFKA_ERROR_NONE);
        assert_int_equal(start, 2);
    }
    shard_free(shard);
}

static void records_are_deleted_up_to_any_offset_that_is_there(void **state)
{
    (void)state;
    static const struct {
        int64_t before, start;
        int16_t error;
    } steps[] = {{RECORDS + 1, -1, KAFKA_ERROR_OFFSET_OUT_OF_RANGE},
                 {-2, -1, KAFKA_ERROR_OFFSET_OUT_OF_RANGE},
                 {INT64_MIN, -1, KAFKA_ERROR_OFFSET_OUT_OF_RANGE},
                 {0, 0, KAFKA_ERROR_NONE},
                 {3, 3, KAFKA_ERROR_NONE},
                 {1, 3, KAFKA_ERROR_NONE}, /* they are gone already */
                 {3, 3, KAFKA_ERROR_NONE},
                 {-1, RECORDS, KAFKA_ERROR_NONE}, /* all */
                 {RECORDS, RECORDS, KAFKA_ERROR_NONE},
                 {RECORDS + 1, -1, KAFKA_ERROR_OFFSET_OUT_OF_RANGE}};
    uint32_t slot;
    struct shard *shard = given_records(&slot);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(steps); i++) {
        int64_t start;
        assert_int_equal(delete_before(shard, slot, topic_name, steps[i].before, &start), steps[i].error);
        assert_int_equal(start, steps[i].start);
    }
    expect_listed(shard, slot, LIST_VERSION, LIST_OFFSETS_EARLIEST, RECORDS, EPOCH);
    shard_free(shard);
}

static void records_of_a_topic_that_is_only_compacted_are_not_deleted(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        int16_t error;
    } expected[] = {{"compact", KAFKA_ERROR_POLICY_VIOLATION},
                    {"", KAFKA_ERROR_POLICY_VIOLATION},
                    {"compact,delete", KAFKA_ERROR_NONE}};
    uint32_t slot;
    struct shard *shard = given_records(&slot);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(expected); i++) {
        assert_int_equal(metadata_put_config(shard->broker->image, METADATA_RESOURCE_TOPIC, base_slice_text(topic_name),
                                             base_slice_text("cleanup.policy"), base_slice_text(expected[i].policy)),
                         BASE_OK);
        int64_t start;
        assert_int_equal(delete_before(shard, slot, topic_name, 1, &start), expected[i].error);
        assert_int_equal(start, expected[i].error == KAFKA_ERROR_NONE ? 1 : -1);
    }
    int64_t start;
    assert_int_equal(delete_before(shard, slot, "none", 1, &start), KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_knows_another_leader_is_told_who_is_behind),
        cmocka_unit_test(an_epoch_ends_where_the_next_one_begins),
        cmocka_unit_test(a_partition_begins_and_ends_where_its_records_do_and_nothing_of_it_is_elsewhere),
        cmocka_unit_test(records_are_deleted_up_to_any_offset_that_is_there),
        cmocka_unit_test(records_of_a_topic_that_is_only_compacted_are_not_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
