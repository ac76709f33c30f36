/* test_broker_wait.c: a Fetch that waits for records sleeps until there is something to be seen.
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

#define VERSION        12 /* the last one that names topics */
#define BY_ID          13
#define BYTES_MAX      400
#define MS             UINT64_C(1000000)
#define WAIT_MS        500
#define MANY           17 /* more than are given back at once */
#define MANY_BYTES_MAX 1000

static const char topic_name[] = "t";

static void say(struct shard *shard, uint32_t slot, enum kafka_message message, int16_t version, const void *request)
{
    uint8_t bytes[BYTES_MAX];
    size_t used_bytes = shard_put_request(bytes, sizeof bytes, message, version, 1, request);
    shard_receive(shard, slot, bytes, used_bytes, NULL);
}

static void produce(struct shard *shard, uint32_t slot)
{
    uint8_t memory[BYTES_MAX];
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, memory, sizeof memory, rec_build_plain()), BASE_OK);
    assert_int_equal(rec_build_add(&build, 1000, rec_null(), rec_value_of(base_slice_text("value")), NULL, 0), BASE_OK);
    shard_produce(shard, slot, VERSION, -1, topic_name, rec_build_end(&build));
}

/* One that waits for a byte. */
static struct kafka_fetch_request fetch_that_waits(void)
{
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.max_wait_ms = WAIT_MS;
    request.min_bytes = 1;
    request.max_bytes = 1000;
    return request;
}

static void fetch(struct shard *shard, uint32_t slot)
{
    struct kafka_fetch_request_fetch_partition partition;
    kafka_fetch_request_fetch_partition_init(&partition);
    partition.partition_max_bytes = 1000;
    struct kafka_fetch_request_fetch_topic topic;
    kafka_fetch_request_fetch_topic_init(&topic);
    topic.topic = kafka_text_words(topic_name);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    struct kafka_fetch_request request = fetch_that_waits();
    request.session_epoch = FETCHSESSION_EPOCH_FINAL;
    request.topics = &topic;
    request.topics_count = 1;
    say(shard, slot, KAFKA_MESSAGE_FETCH_REQUEST, VERSION, &request);
}

/* A topic with a partition of this shard; it is empty. */
static struct base_part given_a_topic(struct shard *shard)
{
    struct base_part part = shard_topic(shard, topic_name, true);
    port_out_begin(&shard->out);
    back_log_open(shard->broker, metadata_topic_by_id(shard->broker->image, part.topic),
                  metadata_partition_by_id(shard->broker->image, part), &shard->out);
    return part;
}

/* In its place lie bytes that what was lost may have named. */
static void given_a_topic_whose_log_fails_when_it_is_written(struct shard *shard)
{
    struct base_part part = given_a_topic(shard);
    plog_mark_suspect(shard->broker->plog, part, &shard->out);
    struct shard_file *file = &shard->files[shard->file_count++];
    *file = (struct shard_file){.path = "t-0/00000000000000000000.log", .size_bytes = 50};
}

static bool has_failed(const struct shard *shard)
{
    struct broker_log_view log;
    uint32_t cursor = 0;
    while (broker_each_log(shard->broker, &cursor, &log)) {
        if (base_slice_equal(log.topic, base_slice_text(topic_name))) { return log.is_failed; }
    }
    return false;
}

/* It is read as before, and nothing comes to it any more: to look again and again would find nothing, and take all of a processor. */
static void a_fetch_waits_at_the_end_of_a_log_that_has_failed(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    given_a_topic_whose_log_fails_when_it_is_written(shard);
    uint32_t slot = shard_connect(shard);
    produce(shard, slot);
    assert_true(has_failed(shard));
    assert_int_equal(shard->broker->requests.taken_count, 0); /* it was refused */
    fetch(shard, slot);
    assert_int_equal(shard->broker->parked_count, 1);
    shard_wait(shard, shard->now_ns + WAIT_MS * MS);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

static void fetch_on(struct shard *shard, uint32_t slot, int32_t session, int32_t epoch, const struct base_uuid *news)
{
    struct kafka_fetch_request_fetch_partition partition;
    kafka_fetch_request_fetch_partition_init(&partition);
    struct kafka_fetch_request_fetch_topic topic;
    kafka_fetch_request_fetch_topic_init(&topic);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    struct kafka_fetch_request request = fetch_that_waits();
    request.session_id = session;
    request.session_epoch = epoch;
    if (news != NULL) {
        topic.topic_id = *news;
        request.topics = &topic;
        request.topics_count = 1;
    }
    say(shard, slot, KAFKA_MESSAGE_FETCH_REQUEST, BY_ID, &request);
}

/* Its front did not know the topic, and the session does; its name needs more than the few bytes that are left by chance. */
static void a_topic_may_be_made_while_a_fetch_that_follows_it_waits_for_the_one_before_it(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    struct base_part part = given_a_topic(shard);
    struct fetchsession_item item = {.name = base_slice_text(topic_name), .id = part.topic, .bytes_max = 100};
    int32_t session = fetchsession_open(shard->broker->sessions, &item, 1, true, false, 0);
    uint32_t slot = shard_connect(shard);
    struct base_uuid news = {{9}};
    fetch_on(shard, slot, session, 1, NULL);
    fetch_on(shard, slot, session, 2, &news);
    assert_int_equal(shard->broker->requests.taken_count, 2);
    char name[METADATA_TOPIC_NAME_MAX + 1];
    memset(name, 'n', METADATA_TOPIC_NAME_MAX);
    name[METADATA_TOPIC_NAME_MAX] = '\0';
    assert_int_equal(metadata_put_topic(shard->broker->image, base_slice_text(name), news), BASE_OK);
    shard_wait(shard, shard->now_ns + WAIT_MS * MS); /* the first one is answered, and the second one begun */
    shard_wait(shard, shard->now_ns + WAIT_MS * MS);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

/* It asks for one partition that is there and many that are not: what it holds is given back a few at a time. */
static void fetch_many(struct shard *shard, uint32_t slot)
{
    struct kafka_fetch_request_fetch_partition partitions[MANY];
    for (int32_t i = 0; i < MANY; i++) {
        kafka_fetch_request_fetch_partition_init(&partitions[i]);
        partitions[i].partition = i;
        partitions[i].partition_max_bytes = 1000;
    }
    struct kafka_fetch_request_fetch_topic topic;
    kafka_fetch_request_fetch_topic_init(&topic);
    topic.topic = kafka_text_words(topic_name);
    topic.partitions = partitions;
    topic.partitions_count = MANY;
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.max_wait_ms = WAIT_MS;
    request.min_bytes = 1;
    request.max_bytes = 1000;
    request.session_epoch = FETCHSESSION_EPOCH_FINAL;
    request.topics = &topic;
    request.topics_count = 1;
    uint8_t bytes[MANY_BYTES_MAX];
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(kafka_request_encode(KAFKA_MESSAGE_FETCH_REQUEST, &request, VERSION, 1, kafka_text_words("client"),
                                          &writer),
                     BASE_OK);
    shard_complete_receive(shard, slot, PORT_OK, bytes, writer.used_bytes);
}

/* That a peer sends no more wakes what waits then; it must not begin to wait afterwards. */
static void a_fetch_whose_peer_ends_while_it_gives_back_what_it_holds_is_answered_at_once(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    (void)given_a_topic(shard);
    uint32_t slot = shard_connect(shard);
    shard_complete_receive(shard, slot, PORT_OK, NULL, 0); /* there is something */
    shard_run(shard);
    shard->broker->config.step_max = 1;
    fetch_many(shard, slot);
    while (base_list_is_empty(&shard->broker->releasing)) { assert_true(shard_run_one(shard)); }
    shard_complete_receive(shard, slot, PORT_EOF, NULL, 0);
    shard_run(shard);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    assert_true(shard->sent_bytes > 0);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fetch_waits_at_the_end_of_a_log_that_has_failed),
        cmocka_unit_test(a_topic_may_be_made_while_a_fetch_that_follows_it_waits_for_the_one_before_it),
        cmocka_unit_test(a_fetch_whose_peer_ends_while_it_gives_back_what_it_holds_is_answered_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
