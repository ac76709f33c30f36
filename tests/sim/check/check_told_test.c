/* check_told_test.c: a topic that is told with some of its partitions is told of: I23.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stream.h"
#include "talk.h"
#include "wire/kafka/create_partitions.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/describe_topic_partitions.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/metadata.h"

#define PARTITIONS_MAX 8

struct fixture {
    struct check_report report;
    struct check_stream *stream;
    int32_t correlation;
};

static struct talk talk_of(struct fixture *f, int16_t api_key, int16_t version)
{
    f->correlation += 1;
    return (struct talk){.stream = f->stream,
                         .conn = {.slot = (uint32_t)f->correlation, .generation = 1}, /* each by itself */
                         .api_key = api_key,
                         .version = version,
                         .correlation = f->correlation};
}

static struct fixture *given_a_topic_of(int32_t count)
{
    static struct fixture fixture;
    fixture = (struct fixture){.correlation = 0};
    fixture.stream = check_stream_create(&fixture.report);
    struct kafka_create_topics_request_creatable_topic topic;
    kafka_create_topics_request_creatable_topic_init(&topic);
    topic.name = kafka_text_words("t");
    topic.num_partitions = count;
    struct kafka_create_topics_request request;
    kafka_create_topics_request_init(&request);
    request.topics = &topic;
    request.topics_count = 1;
    talk_ask(talk_of(&fixture, KAFKA_API_CREATE_TOPICS, 7), &request);
    return &fixture;
}

static void grow_to(struct fixture *f, int32_t count)
{
    struct kafka_create_partitions_request_create_partitions_topic topic;
    kafka_create_partitions_request_create_partitions_topic_init(&topic);
    topic.name = kafka_text_words("t");
    topic.count = count;
    topic.assignments_count = -1;
    struct kafka_create_partitions_request request;
    kafka_create_partitions_request_init(&request);
    request.topics = &topic;
    request.topics_count = 1;
    talk_ask(talk_of(f, KAFKA_API_CREATE_PARTITIONS, 3), &request);
}

static void tell(struct fixture *f, const char *name, int32_t count)
{
    struct talk talk = talk_of(f, KAFKA_API_METADATA, 12);
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    talk_ask(talk, &request);
    struct kafka_metadata_response_metadata_response_partition partitions[PARTITIONS_MAX];
    for (int32_t i = 0; i < count; i++) { kafka_metadata_response_metadata_response_partition_init(&partitions[i]); }
    struct kafka_metadata_response_metadata_response_topic topic;
    kafka_metadata_response_metadata_response_topic_init(&topic);
    topic.name = kafka_text_words(name);
    topic.partitions = partitions;
    topic.partitions_count = count;
    struct kafka_metadata_response response;
    kafka_metadata_response_init(&response);
    response.topics = &topic;
    response.topics_count = 1;
    talk_answer(talk, &response);
}

static void describe(struct fixture *f, int32_t count)
{
    struct talk talk = talk_of(f, KAFKA_API_DESCRIBE_TOPIC_PARTITIONS, 0);
    struct kafka_describe_topic_partitions_request request;
    kafka_describe_topic_partitions_request_init(&request);
    talk_ask(talk, &request);
    struct kafka_describe_topic_partitions_response_describe_topic_partitions_response_partition
        partitions[PARTITIONS_MAX];
    for (int32_t i = 0; i < count; i++) {
        kafka_describe_topic_partitions_response_describe_topic_partitions_response_partition_init(&partitions[i]);
    }
    struct kafka_describe_topic_partitions_response_describe_topic_partitions_response_topic topic;
    kafka_describe_topic_partitions_response_describe_topic_partitions_response_topic_init(&topic);
    topic.name = kafka_text_words("t");
    topic.partitions = partitions;
    topic.partitions_count = count;
    struct kafka_describe_topic_partitions_response response;
    kafka_describe_topic_partitions_response_init(&response);
    response.topics = &topic;
    response.topics_count = 1;
    talk_answer(talk, &response);
}

static void expect(struct fixture *f, uint32_t judged, uint32_t breaches)
{
    assert_int_equal(check_stream_counts(f->stream)->topics_judged, judged);
    assert_int_equal(f->report.count, breaches);
    if (breaches > 0) { assert_string_equal(f->report.breaches[0].id, "I23"); }
    check_stream_destroy(f->stream);
}

static void a_topic_is_told_with_all_its_partitions(void **state)
{
    (void)state;
    for (int32_t count = 0; count <= 5; count++) {
        struct fixture *f = given_a_topic_of(4);
        tell(f, "t", count);
        describe(f, count);
        expect(f, 2, count == 4 ? 0 : 2);
    }
}

static void a_topic_that_grows_is_told_as_before_or_as_after(void **state)
{
    (void)state;
    for (int32_t count = 1; count <= 5; count++) {
        struct fixture *f = given_a_topic_of(2);
        grow_to(f, 4);
        tell(f, "t", count);
        expect(f, 1, count == 2 || count == 4 ? 0 : 1);
    }
}

static void of_a_topic_that_nobody_made_or_that_has_as_many_as_the_node_gives_nothing_is_known(void **state)
{
    (void)state;
    struct fixture *f = given_a_topic_of(-1);
    tell(f, "t", 3);
    tell(f, "other", 3);
    expect(f, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_is_told_with_all_its_partitions),
        cmocka_unit_test(a_topic_that_grows_is_told_as_before_or_as_after),
        cmocka_unit_test(of_a_topic_that_nobody_made_or_that_has_as_many_as_the_node_gives_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
