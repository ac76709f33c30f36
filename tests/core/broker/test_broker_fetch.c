/* test_broker_fetch.c: a Fetch finds no more than its limits let it, and waits for as much as it asks for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/fetch.h"

#define VERSION         11 /* the last one without compact fields */
#define PRODUCE_VERSION 8
#define PARTITIONS      3 /* each of a topic of its own */
#define VALUE_BYTES     1000
#define BYTES_MAX       4096
#define WAIT_MS         500
#define MS              UINT64_C(1000000)
#define ANY             INT32_MAX

static const char *const names[PARTITIONS] = {"a", "b", "c"};
static size_t batch_bytes; /* of each that is produced */

static void tell_bytes_max(struct broker_config *config) { config->fetch_bytes_max = 1024; }

static struct shard *given_topics(void (*tell)(struct broker_config *config))
{
    struct shard *shard = shard_make_told(0, tell);
    shard_start(shard);
    assert_true(shard->is_ready);
    for (uint8_t i = 0; i < PARTITIONS; i++) {
        struct base_part part = {.topic = {{(uint8_t)(i + 1)}}, .index = 0};
        while (shard_of(shard->broker, part) != shard->number) { part.topic.b[1] += 1; }
        struct metadata_partition partition = {.id = part, .leader = 1, .replicas_count = 1, .replicas = {1}};
        assert_int_equal(metadata_put_topic(shard->broker->image, base_slice_text(names[i]), part.topic), BASE_OK);
        assert_int_equal(metadata_put_partition(shard->broker->image, &partition), BASE_OK);
    }
    return shard;
}

/* One record. */
static void produce(struct shard *shard, uint32_t slot, const char *topic)
{
    uint8_t memory[BYTES_MAX];
    static uint8_t value[VALUE_BYTES];
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, memory, sizeof memory, rec_build_plain()), BASE_OK);
    assert_int_equal(rec_build_add(&build, 1000, rec_null(), rec_value_of(base_slice_of(value, sizeof value)), NULL, 0),
                     BASE_OK);
    struct base_slice batch = rec_build_end(&build);
    batch_bytes = batch.size_bytes;
    shard_produce(shard, slot, PRODUCE_VERSION, -1, topic, batch);
}

static void produce_many(struct shard *shard, uint32_t slot, const char *topic, int count)
{
    for (int i = 0; i < count; i++) { produce(shard, slot, topic); }
}

struct ask {
    int32_t min_bytes, max_bytes, wait_ms;
    uint32_t count; /* of the partitions, from the first one on */
    int32_t partition_max_bytes[PARTITIONS];
    int64_t offset; /* in the first one */
};

static void fetch(struct shard *shard, uint32_t slot, struct ask ask)
{
    struct kafka_fetch_request_fetch_partition partitions[PARTITIONS];
    struct kafka_fetch_request_fetch_topic topics[PARTITIONS];
    for (uint32_t i = 0; i < ask.count; i++) {
        kafka_fetch_request_fetch_partition_init(&partitions[i]);
        partitions[i].partition_max_bytes = ask.partition_max_bytes[i];
        partitions[i].fetch_offset = i == 0 ? ask.offset : 0;
        kafka_fetch_request_fetch_topic_init(&topics[i]);
        topics[i].topic = kafka_text_words(names[i]);
        topics[i].partitions = &partitions[i];
        topics[i].partitions_count = 1;
    }
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.max_wait_ms = ask.wait_ms;
    request.min_bytes = ask.min_bytes;
    request.max_bytes = ask.max_bytes;
    request.session_epoch = FETCHSESSION_EPOCH_FINAL;
    request.topics = topics;
    request.topics_count = (int32_t)ask.count;
    shard_ask(shard, slot, KAFKA_MESSAGE_FETCH_REQUEST, VERSION, &request);
}

static bool is_answered(struct shard *shard, struct kafka_fetch_response *answer_out)
{
    if (!shard_answer(shard, KAFKA_MESSAGE_FETCH_RESPONSE, VERSION, answer_out)) { return false; }
    assert_int_equal(answer_out->error_code, KAFKA_ERROR_NONE);
    return true;
}

static void expect_waiting(struct shard *shard)
{
    struct kafka_fetch_response answer;
    assert_false(is_answered(shard, &answer));
    assert_int_equal(shard->broker->parked_count, 1);
}

static void expect_bytes(struct shard *shard, uint32_t count, const size_t bytes[])
{
    struct kafka_fetch_response answer;
    assert_true(is_answered(shard, &answer));
    assert_int_equal(answer.responses_count, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct kafka_fetch_response_partition_data *line = &answer.responses[i].partitions[0];
        assert_int_equal(line->error_code, KAFKA_ERROR_NONE);
        assert_int_equal(line->records.size_bytes, bytes[i]);
    }
    assert_int_equal(shard->broker->requests.taken_count, 0);
}

/* So many whole batches of each. */
static void expect_batches(struct shard *shard, uint32_t count, const uint32_t batches[])
{
    size_t bytes[PARTITIONS];
    for (uint32_t i = 0; i < count; i++) { bytes[i] = batches[i] * batch_bytes; }
    expect_bytes(shard, count, bytes);
}

static void a_partition_gives_no_more_than_its_own_limit_but_always_one_batch(void **state)
{
    (void)state;
    struct shard *shard = given_topics(NULL);
    uint32_t slot = shard_connect(shard);
    produce_many(shard, slot, names[0], 4);
    /* The last one may be there in part, as in Kafka. */
    const struct {
        size_t limit_bytes, bytes;
    } expected[] = {{0, batch_bytes},
                    {1, batch_bytes},
                    {batch_bytes - 1, batch_bytes},
                    {batch_bytes + 1, batch_bytes + 1},
                    {2 * batch_bytes, 2 * batch_bytes},
                    {4 * batch_bytes - 1, 4 * batch_bytes - 1},
                    {ANY, 4 * batch_bytes}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(expected); i++) {
        int32_t limit_bytes = (int32_t)expected[i].limit_bytes;
        fetch(shard, slot, (struct ask){1, ANY, WAIT_MS, 1, {limit_bytes}, 0});
        expect_bytes(shard, 1, &expected[i].bytes);
        fetch(shard, slot, (struct ask){1, limit_bytes, WAIT_MS, 1, {ANY}, 0}); /* the whole answer's limit alike */
        expect_bytes(shard, 1, &expected[i].bytes);
    }
    shard_free(shard);
}

static void partitions_share_the_limit_of_an_answer_in_their_order(void **state)
{
    (void)state;
    struct shard *shard = given_topics(NULL);
    uint32_t slot = shard_connect(shard);
    for (uint32_t i = 0; i < PARTITIONS; i++) { produce_many(shard, slot, names[i], 2); }
    const struct {
        size_t limit_bytes;
        uint32_t batches[PARTITIONS];
    } expected[] = {{0, {1, 0, 0}},
                    {2 * batch_bytes, {2, 0, 0}},
                    {3 * batch_bytes - 1, {2, 0, 0}},
                    {3 * batch_bytes, {2, 1, 0}},
                    {5 * batch_bytes, {2, 2, 1}},
                    {6 * batch_bytes, {2, 2, 2}}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(expected); i++) {
        fetch(shard, slot, (struct ask){1, (int32_t)expected[i].limit_bytes, WAIT_MS, 3, {ANY, ANY, ANY}, 0});
        expect_batches(shard, 3, expected[i].batches);
    }
    shard_free(shard);
}

static void only_the_first_partition_with_records_may_give_more_than_its_own_limit(void **state)
{
    (void)state;
    struct shard *shard = given_topics(NULL);
    uint32_t slot = shard_connect(shard);
    for (uint32_t i = 1; i < PARTITIONS; i++) { produce_many(shard, slot, names[i], 2); } /* the first one has none */
    fetch(shard, slot, (struct ask){1, ANY, WAIT_MS, 3, {1, 1, 1}, 0});
    expect_batches(shard, 3, (const uint32_t[]){0, 1, 0});
    fetch(shard, slot, (struct ask){1, ANY, WAIT_MS, 3, {1, 1, (int32_t)batch_bytes}, 0});
    expect_batches(shard, 3, (const uint32_t[]){0, 1, 1});
    shard_free(shard);
}

static void an_answer_of_several_ranges_leaves_no_memory_taken(void **state)
{
    (void)state;
    struct shard *shard = given_topics(NULL);
    uint32_t slot = shard_connect(shard);
    for (uint32_t i = 0; i < PARTITIONS; i++) { produce_many(shard, slot, names[i], 2); }
    size_t blocks = 0;
    for (int i = 0; i < 20; i++) {
        for (uint32_t count = 1; count <= PARTITIONS; count++) {
            fetch(shard, slot, (struct ask){1, ANY, WAIT_MS, count, {ANY, ANY, ANY}, 0});
            expect_batches(shard, count, (const uint32_t[]){2, 2, 2});
        }
        if (i == 2) { blocks = base_pages_block_count(shard->broker->pages); }
    }
    assert_int_equal(base_pages_block_count(shard->broker->pages), blocks);
    assert_true(plog_is_quiet(shard->broker->plog)); /* nothing is lent any more */
    shard_free(shard);
}

static void a_node_gives_no_more_than_it_was_told_to(void **state)
{
    (void)state;
    struct shard *shard = given_topics(tell_bytes_max);
    uint32_t slot = shard_connect(shard);
    produce_many(shard, slot, names[0], 3);
    fetch(shard, slot, (struct ask){1, ANY, WAIT_MS, 1, {ANY}, 0});
    expect_batches(shard, 1, (const uint32_t[]){1});
    shard_free(shard);
}

static void a_fetch_waits_for_as_many_bytes_as_it_asks_for(void **state)
{
    (void)state;
    struct shard *shard = given_topics(NULL);
    uint32_t slot = shard_connect(shard);
    uint32_t producer = shard_connect(shard);
    produce(shard, producer, names[0]);
    fetch(shard, slot, (struct ask){(int32_t)batch_bytes, ANY, WAIT_MS, 1, {ANY}, 0}); /* they are there */
    expect_batches(shard, 1, (const uint32_t[]){1});
    fetch(shard, slot, (struct ask){(int32_t)(3 * batch_bytes), ANY, WAIT_MS, 2, {ANY, ANY}, 0});
    expect_waiting(shard);
    produce(shard, producer, names[1]);
    assert_int_equal(shard->broker->parked_count, 1); /* that of the producer was sent last */
    produce(shard, producer, names[0]);
    assert_int_equal(shard->broker->parked_count, 0);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

static void a_fetch_that_has_waited_long_enough_gets_what_there_is(void **state)
{
    (void)state;
    struct shard *shard = given_topics(NULL);
    uint32_t slot = shard_connect(shard);
    produce(shard, slot, names[0]);
    uint64_t until_ns = shard->now_ns + WAIT_MS * MS;
    fetch(shard, slot, (struct ask){(int32_t)batch_bytes + 1, ANY, WAIT_MS, 1, {ANY}, 0});
    expect_waiting(shard);
    shard_wait(shard, until_ns - 1);
    expect_waiting(shard);
    shard_wait(shard, until_ns);
    expect_batches(shard, 1, (const uint32_t[]){1});
    fetch(shard, slot, (struct ask){(int32_t)batch_bytes + 1, ANY, 0, 1, {ANY}, 0}); /* it does not wait at all */
    expect_batches(shard, 1, (const uint32_t[]){1});
    shard_free(shard);
}

static void tell_one_read(struct broker_config *config) { config->few.reads = 1; }

/* No record wakes it for what was there and could only not be read; and what has looked at all looks no more until it is woken. */
static void a_fetch_that_waits_looks_again_soon_where_it_could_not_read_all_and_only_there(void **state)
{
    (void)state;
    for (int is_busy = 0; is_busy < 2; is_busy++) {
        struct shard *shard = given_topics(is_busy == 1 ? tell_one_read : NULL);
        uint32_t slot = shard_connect(shard);
        for (uint32_t i = 0; i < 2; i++) { produce(shard, slot, names[i]); }
        fetch(shard, slot, (struct ask){(int32_t)(2 * batch_bytes) + 1, ANY, WAIT_MS, 2, {ANY, ANY}, 0});
        expect_waiting(shard);
        uint64_t looks = shard->broker->fetches_evaluated;
        uint64_t until_ns = shard->now_ns + (WAIT_MS - 1) * MS;
        while (shard->now_ns < until_ns) { shard_wait(shard, base_min_u64(shard->now_ns + 10 * MS, until_ns)); }
        looks = shard->broker->fetches_evaluated - looks;
        assert_true(is_busy == 1 ? looks > 20 : looks == 0);
        expect_waiting(shard);
        shard_free(shard);
    }
}

/* Else it would wait in vain, each time. */
static void a_fetch_does_not_wait_for_more_than_it_may_get(void **state)
{
    (void)state;
    for (int is_of_node = 0; is_of_node < 2; is_of_node++) {
        struct shard *shard = given_topics(is_of_node == 1 ? tell_bytes_max : NULL);
        uint32_t slot = shard_connect(shard);
        produce(shard, slot, names[0]);
        int32_t max_bytes = is_of_node == 1 ? ANY : (int32_t)batch_bytes;
        fetch(shard, slot, (struct ask){ANY, max_bytes, WAIT_MS, 1, {ANY}, 0});
        expect_batches(shard, 1, (const uint32_t[]){1});
        shard_free(shard);
    }
}

static void what_is_told_of_a_partition_is_how_far_it_goes(void **state)
{
    (void)state;
    struct shard *shard = given_topics(NULL);
    uint32_t slot = shard_connect(shard);
    produce_many(shard, slot, names[0], 3);
    for (int64_t offset = 0; offset <= 3; offset += 3) {
        fetch(shard, slot, (struct ask){0, ANY, 0, 1, {ANY}, offset});
        expect_batches(shard, 1, (const uint32_t[]){(uint32_t)(3 - offset)});
        struct kafka_fetch_response answer;
        assert_true(is_answered(shard, &answer));
        const struct kafka_fetch_response_partition_data *line = &answer.responses[0].partitions[0];
        assert_int_equal(line->high_watermark, 3);
        assert_int_equal(line->last_stable_offset, 3);
        assert_int_equal(line->log_start_offset, 0);
    }
    shard_free(shard);
}

static void a_fetch_beyond_the_end_is_told_so_at_once(void **state)
{
    (void)state;
    struct shard *shard = given_topics(NULL);
    uint32_t slot = shard_connect(shard);
    produce_many(shard, slot, names[0], 3);
    static const int64_t offsets[] = {4, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(offsets); i++) {
        fetch(shard, slot, (struct ask){1, ANY, WAIT_MS, 1, {ANY}, offsets[i]});
        struct kafka_fetch_response answer;
        assert_true(is_answered(shard, &answer));
        assert_int_equal(answer.responses[0].partitions[0].error_code, KAFKA_ERROR_OFFSET_OUT_OF_RANGE);
        assert_int_equal(answer.responses[0].partitions[0].records.size_bytes, 0);
    }
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partition_gives_no_more_than_its_own_limit_but_always_one_batch),
        cmocka_unit_test(partitions_share_the_limit_of_an_answer_in_their_order),
        cmocka_unit_test(only_the_first_partition_with_records_may_give_more_than_its_own_limit),
        cmocka_unit_test(an_answer_of_several_ranges_leaves_no_memory_taken),
        cmocka_unit_test(a_node_gives_no_more_than_it_was_told_to),
        cmocka_unit_test(a_fetch_waits_for_as_many_bytes_as_it_asks_for),
        cmocka_unit_test(a_fetch_that_has_waited_long_enough_gets_what_there_is),
        cmocka_unit_test(a_fetch_that_waits_looks_again_soon_where_it_could_not_read_all_and_only_there),
        cmocka_unit_test(a_fetch_does_not_wait_for_more_than_it_may_get),
        cmocka_unit_test(what_is_told_of_a_partition_is_how_far_it_goes),
        cmocka_unit_test(a_fetch_beyond_the_end_is_told_so_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
