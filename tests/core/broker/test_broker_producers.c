/* test_broker_producers.c: who produces to a partition is described once, however many there are.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/describe_producers.h"
#include "wire/kafka/produce.h"

#define PRODUCE_VERSION 8
#define BYTES_MAX       1024
#define ID_FIRST        1000
#define MANY            70
#define WALL_MS         INT64_C(1700000000000) /* of the shard, when it starts */

static const char topic_name[] = "t";

/* Each has an epoch, a sequence and a time of its own. */
static int16_t epoch_of(int64_t id) { return (int16_t)(id % 3); }
static int32_t sequence_of(int64_t id) { return (int32_t)(10 * id); }
static int64_t time_of(int64_t id) { return WALL_MS - id; }

static void produce(struct shard *shard, uint32_t slot, int64_t id)
{
    uint8_t memory[BYTES_MAX];
    struct rec_build_config config = rec_build_plain();
    config.producer_id = id;
    config.producer_epoch = epoch_of(id);
    config.base_sequence = sequence_of(id) - 1; /* of two records */
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, memory, sizeof memory, config), BASE_OK);
    for (int i = 0; i < 2; i++) {
        struct rec_value value = rec_value_of(base_slice_text("value"));
        assert_int_equal(rec_build_add(&build, time_of(id), rec_null(), value, NULL, 0), BASE_OK);
    }
    (void)shard_produced(shard, slot, PRODUCE_VERSION, topic_name, rec_build_end(&build)); /* wherever */
}

/* The partition is asked about twice in one request: both are answered. */
static void expect_described(struct shard *shard, uint32_t slot, int32_t count)
{
    int32_t indexes[] = {0, 0};
    struct kafka_describe_producers_request_topic_request topic;
    kafka_describe_producers_request_topic_request_init(&topic);
    topic.name = kafka_text_words(topic_name);
    topic.partition_indexes = indexes;
    topic.partition_indexes_count = 2;
    struct kafka_describe_producers_request request;
    kafka_describe_producers_request_init(&request);
    request.topics = &topic;
    request.topics_count = 1;
    shard_ask(shard, slot, KAFKA_MESSAGE_DESCRIBE_PRODUCERS_REQUEST, 0, &request);
    struct kafka_describe_producers_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_DESCRIBE_PRODUCERS_RESPONSE, 0, &answer));
    assert_int_equal(answer.topics_count, 1);
    assert_true(answer.topics[0].partitions_count > 0);
    for (int32_t p = 0; p < answer.topics[0].partitions_count; p++) {
        const struct kafka_describe_producers_response_partition_response *line = &answer.topics[0].partitions[p];
        bool is_met[MANY] = {false};
        assert_int_equal(line->error_code, KAFKA_ERROR_NONE);
        assert_int_equal(line->active_producers_count, count);
        for (int32_t i = 0; i < count; i++) {
            const struct kafka_describe_producers_response_producer_state *producer = &line->active_producers[i];
            int64_t id = producer->producer_id;
            assert_in_range(id, ID_FIRST, ID_FIRST + count - 1);
            assert_false(is_met[id - ID_FIRST]);
            is_met[id - ID_FIRST] = true;
            assert_int_equal(producer->producer_epoch, epoch_of(id));
            assert_int_equal(producer->last_sequence, sequence_of(id));
            assert_int_equal(producer->last_timestamp, time_of(id));
            assert_int_equal(producer->coordinator_epoch, -1);
            assert_int_equal(producer->current_txn_start_offset, -1);
        }
    }
    assert_int_equal(shard->broker->requests.taken_count, 0);
}

static void each_producer_is_described_once_with_its_last_batch(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    (void)shard_topic(shard, topic_name, true);
    uint32_t slot = shard_connect(shard);
    for (int32_t count = 0; count <= MANY; count++) {
        if (count > 0) { produce(shard, slot, ID_FIRST + count - 1); }
        expect_described(shard, slot, count);
    }
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_producer_is_described_once_with_its_last_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
