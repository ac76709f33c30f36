/* test_broker_logs.c: a back and its logs while topics come and go: a partition that found no room is served once there is some.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "record/record.h"
#include "shard.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/metadata_records.h"

#define PARTITIONS 16 /* as many as the node may have */

/* Records of the metadata log, gathered into a batch. */
struct records {
    struct rec_build build;
    uint8_t memory[16384];
};

static void begin_delta(struct records *delta)
{
    assert_int_equal(rec_build_init(&delta->build, delta->memory, sizeof delta->memory, rec_build_plain()), BASE_OK);
}

static void add_record(struct records *delta, uint8_t type, int16_t version, enum kafka_message kind,
                       const void *record)
{
    uint8_t bytes[512] = {1, type, (uint8_t)version};
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes + 3, sizeof bytes - 3);
    assert_int_equal(kafka_encode(kind, record, version, &writer), BASE_OK);
    struct base_slice value = base_slice_of(bytes, 3 + writer.used_bytes);
    assert_int_equal(rec_build_add(&delta->build, 1000, rec_null(), rec_value_of(value), NULL, 0), BASE_OK);
}

static void apply_delta(struct shard *shard, struct records *delta)
{
    struct base_slice batch = rec_build_end(&delta->build);
    struct port_message message = {.kind = MSG_DELTA, .lent = delta->memory, .lent_bytes = batch.size_bytes};
    shard_tell(shard, &message);
}

static struct base_uuid topic_id(uint8_t number) { return (struct base_uuid){{number}}; }

static void make_topic(struct shard *shard, uint8_t number)
{
    struct records delta;
    begin_delta(&delta);
    struct kafka_topic_record topic;
    kafka_topic_record_init(&topic);
    topic.name = kafka_text_words("topic");
    topic.topic_id = topic_id(number);
    add_record(&delta, 2, 0, KAFKA_MESSAGE_TOPIC_RECORD, &topic);
    for (int32_t i = 0; i < PARTITIONS; i++) {
        int32_t replica = 1;
        struct kafka_partition_record partition;
        kafka_partition_record_init(&partition);
        partition.topic_id = topic_id(number);
        partition.partition_id = i;
        partition.replicas = &replica;
        partition.replicas_count = 1;
        partition.isr = &replica;
        partition.isr_count = 1;
        partition.leader = 1;
        add_record(&delta, 3, 0, KAFKA_MESSAGE_PARTITION_RECORD, &partition);
    }
    apply_delta(shard, &delta);
}

static void remove_topic(struct shard *shard, uint8_t number)
{
    struct records delta;
    begin_delta(&delta);
    struct kafka_remove_topic_record record;
    kafka_remove_topic_record_init(&record);
    record.topic_id = topic_id(number);
    add_record(&delta, 9, 0, KAFKA_MESSAGE_REMOVE_TOPIC_RECORD, &record);
    apply_delta(shard, &delta);
}

/* What the back says of a partition's end, as an error code. */
static int16_t error_of_partition(struct shard *shard, uint8_t number, int32_t index)
{
    struct port_message message = {.kind = MSG_TIME};
    put_part(&message, 0, (struct base_part){.topic = topic_id(number), .index = index});
    message.words[5] = (uint64_t)LIST_OFFSETS_LATEST;
    message.words[6] = (uint64_t)(uint32_t)-1;
    shard_tell(shard, &message);
    const struct port_message *answer = shard_told_last(shard, MSG_TIME_DONE);
    assert_non_null(answer);
    return (int16_t)answer->words[2];
}

static uint32_t partitions_served(struct shard *shard, uint8_t number)
{
    uint32_t count = 0;
    for (int32_t i = 0; i < PARTITIONS; i++) {
        struct base_part id = {.topic = topic_id(number), .index = i};
        if (shard_of(shard->broker, id) != shard->number) { continue; }
        count += error_of_partition(shard, number, i) == KAFKA_ERROR_NONE ? 1 : 0;
    }
    return count;
}

static uint32_t partitions_here(struct shard *shard, uint8_t number)
{
    uint32_t count = 0;
    for (int32_t i = 0; i < PARTITIONS; i++) {
        count += shard_of(shard->broker, (struct base_part){.topic = topic_id(number), .index = i}) == shard->number;
    }
    return count;
}

static struct shard *given_a_back(void)
{
    struct shard *shard = shard_make(1);
    shard_start(shard);
    shard_tell_word(shard, MSG_RECOVERY_END, 0, 0);
    return shard;
}

/* Shard 0 keeps what it was asked to, all of it. */
static void keep_all_in_the_journal(struct shard *shard)
{
    for (uint32_t i = 0; i < shard->told_count; i++) {
        if (shard->told[i].kind != MSG_JOURNAL) { continue; }
        shard->told[i].kind = MSG_END; /* looked at */
        shard_tell_word(shard, MSG_JOURNALLED, shard->told[i].words[9], PORT_OK);
    }
}

static void a_topic_made_while_many_deleted_logs_are_still_there_is_served_when_they_are_gone(void **state)
{
    (void)state;
    struct shard *shard = given_a_back();
    uint8_t number = 1;
    make_topic(shard, number);
    while (partitions_served(shard, number) == partitions_here(shard, number)) {
        assert_in_range(number, 1, 8); /* their deletions wait for the journal, and their logs for them */
        remove_topic(shard, number);
        number += 1;
        make_topic(shard, number);
    }
    keep_all_in_the_journal(shard);
    assert_int_equal(partitions_served(shard, number), partitions_here(shard, number));
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_made_while_many_deleted_logs_are_still_there_is_served_when_they_are_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
