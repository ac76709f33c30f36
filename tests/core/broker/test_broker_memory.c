/* test_broker_memory.c: a request that waits for memory holds what it had when it began to wait, and no more.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/metadata.h"

#define VERSION     4 /* the first one that may ask for topics without making them */
#define NAMES       1500
#define NAME_BYTES  6
#define BYTES_MAX   16000
#define BLOCK_BYTES ((size_t)64 << 10)
#define BLOCKS_MAX  1024
#define ROOM_BYTES  ((size_t)192 << 10) /* for what is asked and for the names in order, not for the answer too */
#define MS          UINT64_C(1000000)

static void *blocks[BLOCKS_MAX];
static uint32_t blocks_count;

static void take_most_of_the_memory(struct shard *shard)
{
    struct base_pages *pages = shard->broker->pages;
    for (blocks_count = 0; base_pages_room_bytes(pages, BASE_REPLICATION) > ROOM_BYTES; blocks_count++) {
        assert_true(blocks_count < BLOCKS_MAX);
        blocks[blocks_count] = base_pages_take(pages, BASE_REPLICATION, BLOCK_BYTES);
        assert_non_null(blocks[blocks_count]);
    }
}

static void give_it_back(struct shard *shard)
{
    for (uint32_t i = 0; i < blocks_count; i++) { base_pages_give(shard->broker->pages, blocks[i]); }
}

/* Of many topics that are not there. */
static void ask_for_topics(struct shard *shard, uint32_t slot)
{
    static char names[NAMES][NAME_BYTES];
    static struct kafka_metadata_request_metadata_request_topic topics[NAMES];
    for (uint32_t i = 0; i < NAMES; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%04u", (unsigned)(i % 10000));
        kafka_metadata_request_metadata_request_topic_init(&topics[i]);
        topics[i].name = kafka_text_words(names[i]);
    }
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.topics = topics;
    request.topics_count = NAMES;
    request.allow_auto_topic_creation = false;
    static uint8_t bytes[BYTES_MAX];
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(kafka_request_encode(KAFKA_MESSAGE_METADATA_REQUEST, &request, VERSION, 1,
                                          kafka_text_words("client"), &writer),
                     BASE_OK);
    shard_receive(shard, slot, bytes, writer.used_bytes, take_most_of_the_memory);
}

/* Many that wait would else take from each other what each of them waits for. */
static void topics_that_find_no_memory_for_their_answer_take_no_more_with_each_try(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    uint32_t slot = shard_connect(shard);
    ask_for_topics(shard, slot);
    size_t used_bytes = base_pages_used_bytes(shard->broker->pages);
    assert_int_equal(shard->broker->starved.count, 1);
    for (uint32_t i = 0; i < 5; i++) {
        shard_wait(shard, shard->now_ns + 11 * MS);
        assert_int_equal(shard->broker->starved.count, 1);
        assert_int_equal(base_pages_used_bytes(shard->broker->pages), used_bytes);
    }
    give_it_back(shard);
    shard_wait(shard, shard->now_ns + 11 * MS);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topics_that_find_no_memory_for_their_answer_take_no_more_with_each_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
