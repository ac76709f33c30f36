/* test_broker_produce.c: a Produce is answered as its acks ask, with the offsets that its batches got; what is refused leaves nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/produce.h"

#define VERSION     8 /* the last one without compact fields */
#define BYTES_MAX   8192
#define VALUE_BYTES 1000
#define MANY        100
#define WALL_MS     INT64_C(1700000000000) /* of the shard, when it starts */

static const char topic_name[] = "t";

struct pair {
    const char *name, *value;
};

/* Its topic has a partition here, and these configs. */
static struct shard *given_a_topic(const struct pair *pairs, size_t count)
{
    struct shard *shard = shard_make(0);
    shard_start(shard);
    assert_true(shard->is_ready);
    (void)shard_topic(shard, topic_name, true);
    for (size_t i = 0; i < count; i++) {
        enum base_rc rc =
            metadata_put_config(shard->broker->image, METADATA_RESOURCE_TOPIC, base_slice_text(topic_name),
                                base_slice_text(pairs[i].name), base_slice_text(pairs[i].value));
        assert_int_equal(rc, BASE_OK);
    }
    return shard;
}

static struct plog_view view_of(const struct shard *shard)
{
    uint32_t cursor = 0;
    struct plog_ref ref;
    struct base_part id;
    struct plog_view view = {.offset_end = -1};
    while (plog_each(shard->broker->plog, &cursor, &ref, &id)) {
        plog_view(shard->broker->plog, ref, &view);
        if (base_slice_equal(view.name, base_slice_text(topic_name))) { return view; }
    }
    return (struct plog_view){.offset_end = -1};
}

/* Records of bytes that no codec makes fewer. */
static struct base_slice batch_of(uint8_t memory[BYTES_MAX], int records, size_t value_bytes, int64_t timestamp_ms)
{
    static uint8_t value[BYTES_MAX];
    struct base_prng dice;
    base_prng_init(&dice, 1, 0);
    for (size_t i = 0; i < value_bytes; i++) { value[i] = (uint8_t)base_prng_below(&dice, 256); }
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, memory, BYTES_MAX, rec_build_plain()), BASE_OK);
    for (int i = 0; i < records; i++) {
        struct rec_value words = rec_value_of(base_slice_of(value, value_bytes));
        assert_int_equal(rec_build_add(&build, timestamp_ms, rec_null(), words, NULL, 0), BASE_OK);
    }
    return rec_build_end(&build);
}

static size_t put_produce(uint8_t bytes[BYTES_MAX], int16_t acks, const char *topic, struct base_slice batch)
{
    return shard_put_produce(bytes, BYTES_MAX, VERSION, acks, 1, topic, batch);
}

static void produce(struct shard *shard, uint32_t slot, int16_t acks, const char *topic, struct base_slice batch)
{
    shard_produce(shard, slot, VERSION, acks, topic, batch);
}

static struct kafka_produce_response_partition_produce_response answer_of(struct shard *shard)
{
    struct kafka_produce_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_PRODUCE_RESPONSE, VERSION, &answer));
    assert_int_equal(answer.responses_count, 1);
    assert_int_equal(answer.responses[0].partition_responses_count, 1);
    return answer.responses[0].partition_responses[0];
}

static void expect_taken(struct shard *shard, int64_t base_offset)
{
    struct kafka_produce_response_partition_produce_response line = answer_of(shard);
    assert_int_equal(line.error_code, KAFKA_ERROR_NONE);
    assert_int_equal(line.base_offset, base_offset);
    assert_int_equal(line.log_start_offset, 0);
    assert_int_equal(shard->broker->requests.taken_count, 0);
}

static void expect_refused(struct shard *shard, int16_t error)
{
    struct kafka_produce_response_partition_produce_response line = answer_of(shard);
    assert_int_equal(line.error_code, error);
    assert_int_equal(line.base_offset, -1);
    assert_int_equal(shard->broker->requests.taken_count, 0);
}

static void each_batch_is_answered_with_the_offset_of_its_first_record(void **state)
{
    (void)state;
    static const int16_t acks[] = {-1, 1};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(acks); i++) {
        struct shard *shard = given_a_topic(NULL, 0);
        uint32_t slot = shard_connect(shard);
        static const int records[] = {3, 1, 4, 2};
        int64_t offset = 0;
        for (size_t k = 0; k < BASE_ARRAY_COUNT(records); k++) {
            uint8_t memory[BYTES_MAX];
            produce(shard, slot, acks[i], topic_name, batch_of(memory, records[k], 10, WALL_MS));
            expect_taken(shard, offset);
            assert_int_equal(answer_of(shard).log_append_time_ms, -1);
            offset += records[k];
        }
        assert_int_equal(view_of(shard).watermark, offset);
        shard_free(shard);
    }
}

/* They are written in one round, when nothing of it is synced. */
static void batches_that_come_together_are_answered_each_with_its_own_offset(void **state)
{
    (void)state;
    static const int16_t acks[] = {-1, 1};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(acks); i++) {
        struct shard *shard = given_a_topic(NULL, 0);
        uint32_t slot = shard_connect(shard);
        uint8_t memory[BYTES_MAX];
        static uint8_t bytes[2 * BYTES_MAX];
        size_t used_bytes = put_produce(bytes, acks[i], topic_name, batch_of(memory, 3, 10, WALL_MS));
        used_bytes += put_produce(bytes + used_bytes, acks[i], topic_name, batch_of(memory, 5, 10, WALL_MS));
        used_bytes += put_produce(bytes + used_bytes, acks[i], topic_name, batch_of(memory, 1, 10, WALL_MS));
        shard_receive(shard, slot, bytes, used_bytes, NULL);
        expect_taken(shard, 8); /* the last answer */
        assert_int_equal(view_of(shard).watermark, 9);
        shard_free(shard);
    }
}

/* Else the time index would be misled. */
static void a_batch_whose_header_is_wrong_about_its_latest_record_is_put_right(void **state)
{
    (void)state;
    static const int64_t told[] = {WALL_MS + 1000, WALL_MS - 1000, -1};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(told); i++) {
        struct shard *shard = given_a_topic(NULL, 0);
        uint8_t memory[BYTES_MAX];
        struct base_slice batch = batch_of(memory, 2, 10, WALL_MS);
        rec_stamp(memory, REC_CREATE_TIME, told[i]);
        produce(shard, shard_connect(shard), -1, topic_name, batch);
        expect_taken(shard, 0);
        assert_int_equal(view_of(shard).timestamp_max, WALL_MS);
        shard_free(shard);
    }
}

static void a_batch_that_is_stamped_is_answered_with_its_time(void **state)
{
    (void)state;
    static const struct pair stamped = {"message.timestamp.type", "LogAppendTime"};
    static const int16_t acks[] = {-1, 1};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(acks); i++) {
        struct shard *shard = given_a_topic(&stamped, 1);
        uint32_t slot = shard_connect(shard);
        shard_wait(shard, shard->now_ns + UINT64_C(5000000000));
        uint8_t memory[BYTES_MAX];
        produce(shard, slot, acks[i], topic_name, batch_of(memory, 2, 10, 77));
        expect_taken(shard, 0);
        assert_int_equal(answer_of(shard).log_append_time_ms, WALL_MS + 5000);
        assert_int_equal(view_of(shard).timestamp_max, WALL_MS + 5000);
        shard_free(shard);
    }
}

/* What the log has kept when the answer leaves. */
static void produce_until_answered(struct shard *shard, uint32_t slot, int16_t acks)
{
    uint8_t memory[BYTES_MAX];
    static uint8_t bytes[BYTES_MAX];
    size_t used_bytes = put_produce(bytes, acks, topic_name, batch_of(memory, 1, 10, WALL_MS));
    if (shard->receives[slot].size_bytes == 0) { shard_complete_receive(shard, slot, PORT_OK, NULL, 0); }
    shard_run(shard);
    shard->sent_bytes = 0;
    shard_complete_receive(shard, slot, PORT_OK, bytes, used_bytes);
    while (shard->sent_bytes == 0) { assert_true(shard_run_one(shard)); }
}

static void who_asks_for_written_is_answered_before_it_is_synced_and_who_asks_for_all_is_not(void **state)
{
    (void)state;
    for (int is_all = 0; is_all < 2; is_all++) {
        struct shard *shard = given_a_topic(NULL, 0);
        uint32_t slot = shard_connect(shard);
        produce_until_answered(shard, slot, is_all == 1 ? -1 : 1);
        assert_int_equal(view_of(shard).synced_end, is_all);
        assert_int_equal(view_of(shard).offset_end, 1);
        shard_run(shard);
        assert_int_equal(view_of(shard).synced_end, 1);
        assert_int_equal(shard->broker->requests.taken_count, 0);
        shard_free(shard);
    }
}

/* One topic with its partition twice, or the topic twice. */
static void produce_twice(struct shard *shard, uint32_t slot, bool is_topic_twice)
{
    static uint8_t memory[2][BYTES_MAX];
    struct kafka_produce_request_partition_produce_data partitions[2];
    struct kafka_produce_request_topic_produce_data topics[2];
    for (int i = 0; i < 2; i++) {
        struct base_slice batch = batch_of(memory[i], i == 0 ? 3 : 1, 10, WALL_MS);
        kafka_produce_request_partition_produce_data_init(&partitions[i]);
        partitions[i].records = kafka_records_of(batch.at, batch.size_bytes);
        kafka_produce_request_topic_produce_data_init(&topics[i]);
        topics[i].name = kafka_text_words(topic_name);
        topics[i].partition_data = is_topic_twice ? &partitions[i] : partitions;
        topics[i].partition_data_count = is_topic_twice ? 1 : 2;
    }
    struct kafka_produce_request request;
    kafka_produce_request_init(&request);
    request.acks = -1;
    request.topic_data = topics;
    request.topic_data_count = is_topic_twice ? 2 : 1;
    shard_ask(shard, slot, KAFKA_MESSAGE_PRODUCE_REQUEST, VERSION, &request);
}

static void of_a_partition_that_is_named_twice_the_last_batch_counts_and_is_answered(void **state)
{
    (void)state;
    for (int is_topic_twice = 0; is_topic_twice < 2; is_topic_twice++) {
        struct shard *shard = given_a_topic(NULL, 0);
        produce_twice(shard, shard_connect(shard), is_topic_twice == 1);
        expect_taken(shard, 0);
        assert_int_equal(view_of(shard).watermark, 1);
        shard_free(shard);
    }
}

static void who_asks_for_no_answer_gets_none_and_its_batches_are_there(void **state)
{
    (void)state;
    struct shard *shard = given_a_topic(NULL, 0);
    uint32_t slot = shard_connect(shard);
    uint8_t memory[BYTES_MAX];
    for (int i = 0; i < 7; i++) {
        produce(shard, slot, 0, topic_name, batch_of(memory, 2, 10, WALL_MS));
        assert_int_equal(shard->sent_bytes, 0);
        assert_int_equal(view_of(shard).watermark, 2 * (i + 1));
    }
    produce(shard, slot, 1, topic_name, batch_of(memory, 1, 10, WALL_MS));
    expect_taken(shard, 14);
    shard_free(shard);
}

/* It has no other way to learn of it. */
static void who_asks_for_no_answer_and_is_refused_is_closed(void **state)
{
    (void)state;
    struct shard *shard = given_a_topic(NULL, 0);
    uint32_t slot = shard_connect(shard);
    uint8_t memory[BYTES_MAX];
    produce(shard, slot, 0, "none", batch_of(memory, 1, 10, WALL_MS));
    struct conn_view view;
    conn_view(shard->broker->conns, &view);
    assert_int_equal(view.connections, 0);
    assert_int_equal(shard->sent_bytes, 0);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

/* What is decoded, what is asked and what is answered are pieces of memory of their own, where there are many. */
static void a_produce_for_many_partitions_leaves_no_memory_taken(void **state)
{
    (void)state;
    static struct kafka_produce_request_partition_produce_data partition;
    static struct kafka_produce_request_topic_produce_data topics[MANY];
    static char many[MANY][8];
    kafka_produce_request_partition_produce_data_init(&partition);
    for (int i = 0; i < MANY; i++) {
        kafka_produce_request_topic_produce_data_init(&topics[i]);
        (void)snprintf(many[i], sizeof many[i], "%d", i);
        topics[i].name = kafka_text_words(many[i]);
        topics[i].partition_data = &partition;
        topics[i].partition_data_count = 1;
    }
    struct kafka_produce_request request;
    kafka_produce_request_init(&request);
    request.acks = -1;
    request.topic_data = topics;
    request.topic_data_count = MANY;
    struct shard *shard = given_a_topic(NULL, 0);
    uint32_t slot = shard_connect(shard);
    size_t blocks = 0;
    for (int i = 0; i < 20; i++) {
        shard_ask(shard, slot, KAFKA_MESSAGE_PRODUCE_REQUEST, VERSION, &request);
        struct kafka_produce_response answer;
        assert_true(shard_answer(shard, KAFKA_MESSAGE_PRODUCE_RESPONSE, VERSION, &answer));
        assert_int_equal(answer.responses_count, MANY);
        assert_int_equal(answer.responses[MANY - 1].partition_responses[0].error_code,
                         KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
        if (i == 2) { blocks = base_pages_block_count(shard->broker->pages); }
    }
    assert_int_equal(base_pages_block_count(shard->broker->pages), blocks);
    shard_free(shard);
}

static void only_three_ways_to_be_answered_are_known(void **state)
{
    (void)state;
    static const int16_t acks[] = {2, -2, INT16_MAX, INT16_MIN};
    struct shard *shard = given_a_topic(NULL, 0);
    uint32_t slot = shard_connect(shard);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(acks); i++) {
        uint8_t memory[BYTES_MAX];
        produce(shard, slot, acks[i], topic_name, batch_of(memory, 1, 10, WALL_MS));
        expect_refused(shard, KAFKA_ERROR_INVALID_REQUIRED_ACKS);
    }
    assert_int_equal(view_of(shard).offset_end, -1); /* nobody has asked for the log */
    shard_free(shard);
}

/* ---- partitions of another shard ---- */

#define PARTS 2

/* A topic of one partition on the other shard, which says nothing by itself. */
static void put_topic_of_the_other(struct shard *shard, const char *name, uint8_t number)
{
    struct base_part part = {.topic = {{number}}, .index = 0};
    while (shard_of(shard->broker, part) == shard->number) { part.topic.b[1] += 1; }
    struct metadata_partition partition = {.id = part, .leader = 1, .replicas_count = 1, .replicas = {1}};
    assert_int_equal(metadata_put_topic(shard->broker->image, base_slice_text(name), part.topic), BASE_OK);
    assert_int_equal(metadata_put_partition(shard->broker->image, &partition), BASE_OK);
}

/* A Produce for partitions of the other shard; it has been asked for both. */
static struct shard *given_a_produce_for_the_other_shard(int16_t acks)
{
    static const char *const names[PARTS] = {"x", "y"};
    static uint8_t memory[PARTS][BYTES_MAX];
    struct shard *shard = given_a_topic(NULL, 0);
    struct kafka_produce_request_partition_produce_data partitions[PARTS];
    struct kafka_produce_request_topic_produce_data topics[PARTS];
    for (uint8_t i = 0; i < PARTS; i++) {
        put_topic_of_the_other(shard, names[i], (uint8_t)(i + 2));
        struct base_slice batch = batch_of(memory[i], 1, 10u + i, WALL_MS);
        kafka_produce_request_partition_produce_data_init(&partitions[i]);
        partitions[i].records = kafka_records_of(batch.at, batch.size_bytes);
        kafka_produce_request_topic_produce_data_init(&topics[i]);
        topics[i].name = kafka_text_words(names[i]);
        topics[i].partition_data = &partitions[i];
        topics[i].partition_data_count = 1;
    }
    struct kafka_produce_request request;
    kafka_produce_request_init(&request);
    request.acks = acks;
    request.topic_data = topics;
    request.topic_data_count = PARTS;
    shard_ask(shard, shard_connect(shard), KAFKA_MESSAGE_PRODUCE_REQUEST, VERSION, &request);
    assert_int_equal(shard_told(shard, MSG_APPEND), PARTS);
    return shard;
}

static const struct port_message *asked_of(const struct shard *shard, uint32_t part)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < shard->told_count; i++) {
        if (shard->told[i].kind != MSG_APPEND) { continue; }
        if (number == part) { return &shard->told[i]; }
        number += 1;
    }
    fail_msg("it was not asked");
    return NULL;
}

/* What the other shard says of a part: that it begins at an offset, with a time and a start of its log beside it. */
static void say(struct shard *shard, enum message_kind kind, uint32_t part, int16_t error)
{
    struct port_message message = {.kind = (uint32_t)kind};
    put_asker(&message, 0, get_asker(asked_of(shard, part), 3));
    message.words[2] = error == KAFKA_ERROR_NONE ? 100 + part : (uint64_t)-1;
    message.words[3] = error == KAFKA_ERROR_NONE ? 200 + part : (uint64_t)-1;
    message.words[4] = error == KAFKA_ERROR_NONE ? 50 + part : (uint64_t)-1;
    message.words[5] = (uint16_t)error;
    message.words[6] = (uint64_t)-1;
    shard_tell(shard, &message);
}

static void expect_parts(struct shard *shard, const int16_t errors[PARTS])
{
    struct kafka_produce_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_PRODUCE_RESPONSE, VERSION, &answer));
    assert_int_equal(answer.responses_count, PARTS);
    for (uint32_t i = 0; i < PARTS; i++) {
        const struct kafka_produce_response_partition_produce_response *line =
            &answer.responses[i].partition_responses[0];
        bool is_good = errors[i] == KAFKA_ERROR_NONE;
        assert_int_equal(line->error_code, errors[i]);
        assert_int_equal(line->base_offset, is_good ? 100 + (int64_t)i : -1);
        assert_int_equal(line->log_append_time_ms, is_good ? 200 + (int64_t)i : -1);
        assert_int_equal(line->log_start_offset, is_good ? 50 + (int64_t)i : -1);
    }
}

static void each_partition_is_asked_to_append_its_own_batch_and_to_say_so_as_its_client_asks(void **state)
{
    (void)state;
    for (int16_t acks = -1; acks <= 1; acks++) {
        struct shard *shard = given_a_produce_for_the_other_shard(acks);
        for (uint32_t i = 0; i < PARTS; i++) {
            uint8_t memory[BYTES_MAX];
            struct base_slice batch = batch_of(memory, 1, 10 + i, WALL_MS);
            assert_int_equal(asked_of(shard, i)->lent_bytes, batch.size_bytes);
            assert_memory_equal(asked_of(shard, i)->lent, batch.at, batch.size_bytes);
            assert_int_equal(asked_of(shard, i)->words[5], acks == 1 ? 1 : 0);
        }
        shard_free(shard);
    }
}

static void who_asks_for_all_waits_for_the_last_partition(void **state)
{
    (void)state;
    static const int16_t errors[][PARTS] = {{0, 0}, {KAFKA_ERROR_KAFKA_STORAGE_ERROR, 0}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(errors); i++) {
        struct shard *shard = given_a_produce_for_the_other_shard(-1);
        say(shard, MSG_APPENDED, 0, errors[i][0]);
        assert_int_equal(shard->sent_bytes, 0);
        say(shard, MSG_APPENDED, 1, errors[i][1]);
        expect_parts(shard, errors[i]);
        assert_int_equal(shard->broker->requests.taken_count, 0);
        shard_free(shard);
    }
}

/* The bytes are its shard's until they are synced there. */
static void who_asks_for_written_is_answered_when_all_partitions_are_and_what_it_sent_is_kept_until_they_are_done(
    void **state)
{
    (void)state;
    static const int16_t good[PARTS] = {0, 0};
    struct shard *shard = given_a_produce_for_the_other_shard(1);
    say(shard, MSG_WRITTEN, 1, 0);
    assert_int_equal(shard->sent_bytes, 0);
    say(shard, MSG_WRITTEN, 0, 0);
    expect_parts(shard, good);
    assert_int_equal(shard->broker->requests.taken_count, 1);
    say(shard, MSG_APPENDED, 0, 0);
    assert_int_equal(shard->broker->requests.taken_count, 1);
    say(shard, MSG_APPENDED, 1, KAFKA_ERROR_KAFKA_STORAGE_ERROR); /* too late to be told */
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

static void who_asks_for_written_waits_for_the_others_where_one_has_failed(void **state)
{
    (void)state;
    static const int16_t errors[PARTS] = {KAFKA_ERROR_KAFKA_STORAGE_ERROR, 0};
    for (int was_written = 0; was_written < 2; was_written++) {
        struct shard *shard = given_a_produce_for_the_other_shard(1);
        if (was_written == 1) { say(shard, MSG_WRITTEN, 0, 0); }
        say(shard, MSG_APPENDED, 0, errors[0]);
        assert_int_equal(shard->sent_bytes, 0);
        say(shard, MSG_WRITTEN, 1, 0);
        expect_parts(shard, errors);
        assert_int_equal(shard->broker->requests.taken_count, 1);
        say(shard, MSG_APPENDED, 1, 0);
        assert_int_equal(shard->broker->requests.taken_count, 0);
        shard_free(shard);
    }
}

static void who_asks_for_no_answer_stays_until_its_partitions_are_done(void **state)
{
    (void)state;
    struct shard *shard = given_a_produce_for_the_other_shard(0);
    say(shard, MSG_APPENDED, 1, 0);
    assert_int_equal(shard->broker->requests.taken_count, 1);
    say(shard, MSG_APPENDED, 0, 0);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    assert_int_equal(shard->sent_bytes, 0);
    shard_free(shard);
}

#define MISSING   60
#define PAGES_MAX 16384
#define MS        UINT64_C(1000000)

/* It is long: beside one that is there it names topics that are not. */
static void produce_long(struct shard *shard, struct base_slice batch)
{
    static struct kafka_produce_request_partition_produce_data partitions[MISSING + 1];
    static struct kafka_produce_request_topic_produce_data topics[MISSING + 1];
    static char names[MISSING + 1][8];
    for (int i = 0; i <= MISSING; i++) {
        kafka_produce_request_partition_produce_data_init(&partitions[i]);
        kafka_produce_request_topic_produce_data_init(&topics[i]);
        (void)snprintf(names[i], sizeof names[i], "%d", i);
        topics[i].name = kafka_text_words(names[i]);
        topics[i].partition_data = &partitions[i];
        topics[i].partition_data_count = 1;
    }
    partitions[0].records = kafka_records_of(batch.at, batch.size_bytes);
    put_topic_of_the_other(shard, names[0], 2);
    struct kafka_produce_request request;
    kafka_produce_request_init(&request);
    request.acks = -1;
    request.topic_data = topics;
    request.topic_data_count = MISSING + 1;
    shard_ask(shard, shard_connect(shard), KAFKA_MESSAGE_PRODUCE_REQUEST, VERSION, &request);
}

/* The memory comes back by pages: there is some to build the answer in before there is some to send it from. It is told of what it was
 * asked for, and that once is all: a second time would append it again. */
static void what_is_appended_is_not_asked_for_again_when_its_answer_finds_no_memory(void **state)
{
    (void)state;
    static void *pages[PAGES_MAX];
    uint32_t count = 0;
    struct shard *shard = given_a_topic(NULL, 0);
    struct base_pages *of = shard->broker->pages;
    uint8_t memory[BYTES_MAX];
    produce_long(shard, batch_of(memory, 1, 10, WALL_MS));
    while (count < PAGES_MAX && (pages[count] = base_pages_take(of, BASE_REPLICATION, BASE_PAGE_BYTES)) != NULL) {
        count += 1;
    }
    say(shard, MSG_APPENDED, 0, KAFKA_ERROR_NONE);
    while (shard->sent_bytes == 0 && count > 0) {
        assert_int_equal(shard->broker->starved.count, 1);
        count -= 1;
        base_pages_give(of, pages[count]);
        shard_wait(shard, shard->now_ns + 11 * MS);
    }
    assert_int_equal(shard_told(shard, MSG_APPEND), 1);
    struct kafka_produce_response answer;
    assert_true(shard_answer(shard, KAFKA_MESSAGE_PRODUCE_RESPONSE, VERSION, &answer));
    assert_int_equal(answer.responses_count, MISSING + 1);
    assert_int_equal(answer.responses[0].partition_responses[0].base_offset, 100);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

/* ---- limits ---- */

enum limit { OF_ITS_TOPIC, OF_A_SEGMENT, LIMITS };

static int16_t error_of(enum limit limit)
{
    return limit == OF_ITS_TOPIC ? KAFKA_ERROR_MESSAGE_TOO_LARGE : KAFKA_ERROR_RECORD_LIST_TOO_LARGE;
}

/* A batch may have so many bytes. No topic may have segments as small as that: its log here is told so by hand. */
static struct shard *given_a_limit(enum limit limit, size_t bytes, const char *compression_type)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%zu", limit == OF_ITS_TOPIC ? bytes : 1 << 20);
    const struct pair pairs[] = {{"max.message.bytes", number}, {"compression.type", compression_type}};
    struct shard *shard = given_a_topic(pairs, BASE_ARRAY_COUNT(pairs));
    const struct metadata_topic *topic = metadata_topic_by_name(shard->broker->image, base_slice_text(topic_name));
    port_out_begin(&shard->out);
    back_log_open(shard->broker, topic, metadata_partition(shard->broker->image, topic, 0), &shard->out);
    struct plog_ref ref = plog_find(shard->broker->plog, (struct base_part){topic->id, 0});
    if (limit == OF_A_SEGMENT) { shard->broker->logs[ref.slot].segment_bytes = bytes; }
    return shard;
}

/* Each time anew; and no memory stays taken. */
static void expect_refused_again_and_again(struct shard *shard, uint32_t slot, struct base_slice batch, int16_t error)
{
    size_t blocks = 0;
    for (int i = 0; i < 20; i++) {
        produce(shard, slot, -1, topic_name, batch);
        expect_refused(shard, error);
        if (i == 2) { blocks = base_pages_block_count(shard->broker->pages); }
    }
    assert_int_equal(base_pages_block_count(shard->broker->pages), blocks);
    assert_int_equal(view_of(shard).offset_end, 0);
}

static void a_batch_has_as_many_bytes_as_its_topic_lets_it_and_a_segment_holds(void **state)
{
    (void)state;
    for (int limit = OF_ITS_TOPIC; limit < LIMITS; limit++) {
        uint8_t memory[BYTES_MAX];
        uint8_t larger[BYTES_MAX];
        struct base_slice batch = batch_of(memory, 1, VALUE_BYTES, WALL_MS);
        struct shard *shard = given_a_limit((enum limit)limit, batch.size_bytes, "producer");
        uint32_t slot = shard_connect(shard);
        expect_refused_again_and_again(shard, slot, batch_of(larger, 1, VALUE_BYTES + 1, WALL_MS),
                                       error_of((enum limit)limit));
        produce(shard, slot, -1, topic_name, batch);
        expect_taken(shard, 0);
        shard_free(shard);
    }
}

/* As it came it is not: what it would be stored as is longer. */
static void a_batch_that_is_too_large_as_it_would_be_stored_is_refused(void **state)
{
    (void)state;
    for (int limit = OF_ITS_TOPIC; limit < LIMITS; limit++) {
        uint8_t memory[BYTES_MAX];
        struct base_slice batch = batch_of(memory, 1, VALUE_BYTES, WALL_MS);
        struct shard *shard = given_a_limit((enum limit)limit, batch.size_bytes, "gzip");
        uint32_t slot = shard_connect(shard);
        expect_refused_again_and_again(shard, slot, batch, error_of((enum limit)limit));
        produce(shard, slot, -1, topic_name, batch_of(memory, 1, 10, WALL_MS));
        expect_taken(shard, 0);
        shard_free(shard);
    }
}

/* By the wall clock of the node when it comes. */
static void a_record_is_as_old_or_as_new_as_its_topic_lets_it(void **state)
{
    (void)state;
    static const struct pair pairs[] = {{"message.timestamp.before.max.ms", "7000"},
                                        {"message.timestamp.after.max.ms", "3000"}};
    struct shard *shard = given_a_topic(pairs, BASE_ARRAY_COUNT(pairs));
    uint32_t slot = shard_connect(shard);
    shard_wait(shard, shard->now_ns + UINT64_C(5000000000));
    int64_t now_ms = WALL_MS + 5000;
    const struct {
        int64_t timestamp_ms;
        bool is_taken;
    } expected[] = {{now_ms - 7001, false}, {now_ms - 7000, true}, {now_ms + 3000, true}, {now_ms + 3001, false}};
    int64_t taken = 0;
    for (size_t i = 0; i < BASE_ARRAY_COUNT(expected); i++) {
        uint8_t memory[BYTES_MAX];
        produce(shard, slot, -1, topic_name, batch_of(memory, 1, 10, expected[i].timestamp_ms));
        if (expected[i].is_taken) {
            expect_taken(shard, taken++);
        } else {
            expect_refused(shard, KAFKA_ERROR_INVALID_TIMESTAMP);
        }
    }
    shard_free(shard);
}

static struct base_slice compressed_batch_of(uint8_t out[BYTES_MAX], int64_t timestamp_ms)
{
    static uint8_t memory[BYTES_MAX];
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, memory, BYTES_MAX, rec_build_plain()), BASE_OK);
    assert_int_equal(rec_build_add(&build, timestamp_ms, rec_null(), rec_value_of(base_slice_text("value")), NULL, 0),
                     BASE_OK);
    size_t scratch_bytes = codec_compress_scratch_bytes(CODEC_LZ4, CODEC_LEVEL_DEFAULT, BYTES_MAX);
    struct codec_scratch scratch = {.at = calloc(1, scratch_bytes), .size_bytes = scratch_bytes};
    struct base_slice batch;
    enum codec_rc rc =
        rec_build_end_compressed(&build, CODEC_LZ4, CODEC_LEVEL_DEFAULT, scratch, out, BYTES_MAX, &batch);
    free(scratch.at);
    assert_int_equal(rc, CODEC_OK);
    return batch;
}

/* What it is judged by has to be unpacked first. */
static void a_packed_record_is_as_old_as_its_topic_lets_it(void **state)
{
    (void)state;
    static const struct pair pair = {"message.timestamp.before.max.ms", "7000"};
    struct shard *shard = given_a_topic(&pair, 1);
    uint32_t slot = shard_connect(shard);
    uint8_t memory[BYTES_MAX];
    expect_refused_again_and_again(shard, slot, compressed_batch_of(memory, WALL_MS - 7001),
                                   KAFKA_ERROR_INVALID_TIMESTAMP);
    produce(shard, slot, -1, topic_name, compressed_batch_of(memory, WALL_MS - 7000));
    expect_taken(shard, 0);
    shard_free(shard);
}

static void a_compacted_topic_takes_no_record_without_a_key(void **state)
{
    (void)state;
    static const struct pair compacted = {"cleanup.policy", "compact"};
    struct shard *shard = given_a_topic(&compacted, 1);
    uint32_t slot = shard_connect(shard);
    uint8_t memory[BYTES_MAX];
    produce(shard, slot, -1, topic_name, batch_of(memory, 1, 10, WALL_MS));
    expect_refused(shard, KAFKA_ERROR_INVALID_RECORD);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_batch_is_answered_with_the_offset_of_its_first_record),
        cmocka_unit_test(batches_that_come_together_are_answered_each_with_its_own_offset),
        cmocka_unit_test(a_batch_whose_header_is_wrong_about_its_latest_record_is_put_right),
        cmocka_unit_test(a_batch_that_is_stamped_is_answered_with_its_time),
        cmocka_unit_test(who_asks_for_written_is_answered_before_it_is_synced_and_who_asks_for_all_is_not),
        cmocka_unit_test(of_a_partition_that_is_named_twice_the_last_batch_counts_and_is_answered),
        cmocka_unit_test(who_asks_for_no_answer_gets_none_and_its_batches_are_there),
        cmocka_unit_test(who_asks_for_no_answer_and_is_refused_is_closed),
        cmocka_unit_test(a_produce_for_many_partitions_leaves_no_memory_taken),
        cmocka_unit_test(only_three_ways_to_be_answered_are_known),
        cmocka_unit_test(each_partition_is_asked_to_append_its_own_batch_and_to_say_so_as_its_client_asks),
        cmocka_unit_test(who_asks_for_all_waits_for_the_last_partition),
        cmocka_unit_test(
            who_asks_for_written_is_answered_when_all_partitions_are_and_what_it_sent_is_kept_until_they_are_done),
        cmocka_unit_test(who_asks_for_written_waits_for_the_others_where_one_has_failed),
        cmocka_unit_test(who_asks_for_no_answer_stays_until_its_partitions_are_done),
        cmocka_unit_test(what_is_appended_is_not_asked_for_again_when_its_answer_finds_no_memory),
        cmocka_unit_test(a_batch_has_as_many_bytes_as_its_topic_lets_it_and_a_segment_holds),
        cmocka_unit_test(a_batch_that_is_too_large_as_it_would_be_stored_is_refused),
        cmocka_unit_test(a_record_is_as_old_or_as_new_as_its_topic_lets_it),
        cmocka_unit_test(a_packed_record_is_as_old_as_its_topic_lets_it),
        cmocka_unit_test(a_compacted_topic_takes_no_record_without_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
