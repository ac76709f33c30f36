/* check_session_test.c: a broker that breaks the promises of fetch sessions is told: I23.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stream.h"
#include "talk.h"
#include "wire/kafka/fetch.h"

#define VERSION    17
#define SESSION    77
#define NOT_FOUND  70
#define BAD_EPOCH  71
#define OUT_OF     1 /* OFFSET_OUT_OF_RANGE */
#define NO_SESSION 0

static const struct base_uuid topic_id = {{9, 9, 9}};

static struct check_report report;
static struct check_stream *stream;
static uint64_t now_ns;
static int32_t correlation;

struct row {
    int32_t partition;
    int64_t offset; /* asked for */
    int64_t watermark, log_start;
    int16_t error;
};

static int given_stream(void **state)
{
    (void)state;
    report = (struct check_report){.count = 0};
    stream = check_stream_create(&report);
    now_ns = 1000;
    correlation = 0;
    return 0;
}

static int drop_stream(void **state)
{
    (void)state;
    check_stream_destroy(stream);
    return 0;
}

/* The broker's log of that partition, as it is from now on. */
static void see(int32_t partition, int64_t log_start, int64_t watermark)
{
    now_ns += 1000;
    struct port_event turn = {.kind = PORT_EVENT_TURN, .now_ns = now_ns};
    check_stream_event(stream, 0, &turn, base_slice_of(NULL, 0));
    struct check_log log = {.id = {.topic = topic_id, .index = partition},
                            .topic = base_slice_text("t"),
                            .offset_start = log_start,
                            .offset_end = watermark,
                            .watermark = watermark};
    check_stream_log(stream, &log, true);
    report.count = 0; /* no journal told that it is synced: that is not what is looked at here */
    now_ns += 1000;
}

static struct port_conn conn_of(uint32_t slot) { return (struct port_conn){.slot = slot, .generation = 1}; }

static struct talk talk(uint32_t slot)
{
    return (struct talk){.stream = stream,
                         .now_ns = now_ns,
                         .conn = conn_of(slot),
                         .api_key = 1,
                         .version = VERSION,
                         .correlation = correlation};
}

static void asks_on(uint32_t slot, int32_t session, int32_t epoch, const struct row *rows, int32_t count,
                    const int32_t *gone, int32_t gone_count)
{
    struct kafka_fetch_request_fetch_partition partitions[4];
    for (int32_t i = 0; i < count; i++) {
        kafka_fetch_request_fetch_partition_init(&partitions[i]);
        partitions[i].partition = rows[i].partition;
        partitions[i].fetch_offset = rows[i].offset;
    }
    struct kafka_fetch_request_fetch_topic topic;
    kafka_fetch_request_fetch_topic_init(&topic);
    topic.topic_id = topic_id;
    topic.partitions = partitions;
    topic.partitions_count = count;
    int32_t forgotten[4];
    for (int32_t i = 0; i < gone_count; i++) { forgotten[i] = gone[i]; }
    struct kafka_fetch_request_forgotten_topic of_gone;
    kafka_fetch_request_forgotten_topic_init(&of_gone);
    of_gone.topic_id = topic_id;
    of_gone.partitions = forgotten;
    of_gone.partitions_count = gone_count;
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.session_id = session;
    request.session_epoch = epoch;
    request.topics = &topic;
    request.topics_count = count > 0 ? 1 : 0;
    request.forgotten_topics_data = &of_gone;
    request.forgotten_topics_data_count = gone_count > 0 ? 1 : 0;
    correlation += 1;
    talk_ask(talk(slot), &request);
}

static void is_answered_on(uint32_t slot, int32_t session, int16_t error, const struct row *rows, int32_t count)
{
    struct kafka_fetch_response_partition_data partitions[4];
    for (int32_t i = 0; i < count; i++) {
        kafka_fetch_response_partition_data_init(&partitions[i]);
        partitions[i].partition_index = rows[i].partition;
        partitions[i].error_code = rows[i].error;
        partitions[i].high_watermark = partitions[i].last_stable_offset = rows[i].watermark;
        partitions[i].log_start_offset = rows[i].log_start;
    }
    struct kafka_fetch_response_fetchable_topic_response topic;
    kafka_fetch_response_fetchable_topic_response_init(&topic);
    topic.topic_id = topic_id;
    topic.partitions = partitions;
    topic.partitions_count = count;
    struct kafka_fetch_response response;
    kafka_fetch_response_init(&response);
    response.session_id = session;
    response.error_code = error;
    response.responses = &topic;
    response.responses_count = count > 0 ? 1 : 0;
    talk_answer(talk(slot), &response);
}

static void asks(int32_t session, int32_t epoch, const struct row *rows, int32_t count)
{
    asks_on(1, session, epoch, rows, count, NULL, 0);
}

static void is_answered(int32_t session, int16_t error, const struct row *rows, int32_t count)
{
    is_answered_on(1, session, error, rows, count);
}

/* Two partitions, both empty and at their end. */
static const struct row both[] = {{.partition = 0}, {.partition = 1}};

static void given_session(void)
{
    see(0, 0, 0);
    see(1, 0, 0);
    asks(NO_SESSION, 0, both, 2);
    is_answered(SESSION, 0, both, 2);
    assert_int_equal(report.count, 0);
}

static void expect_breach(void)
{
    assert_true(check_has(&report, "I23"));
    assert_int_equal(report.count, 1);
}

static void expect_none(void) { assert_int_equal(report.count, 0); }

static void what_has_not_changed_may_be_left_out(void **state)
{
    (void)state;
    given_session();
    for (int32_t epoch = 1; epoch <= 3; epoch++) {
        asks(SESSION, epoch, NULL, 0);
        is_answered(SESSION, 0, NULL, 0);
    }
    expect_none();
    assert_int_equal(check_stream_counts(stream)->sessions_gone_on, 3);
    assert_int_equal(check_stream_counts(stream)->sessions_left_out, 6);
}

static void a_watermark_that_has_moved_and_is_left_out_is_told(void **state)
{
    (void)state;
    given_session();
    see(1, 0, 5);
    asks(SESSION, 1, NULL, 0);
    is_answered(SESSION, 0, NULL, 0);
    expect_breach();
}

static void a_watermark_that_moves_after_the_question_may_be_left_out(void **state)
{
    (void)state;
    given_session();
    asks(SESSION, 1, NULL, 0);
    see(1, 0, 5);
    is_answered(SESSION, 0, NULL, 0);
    expect_none();
}

static void a_log_start_that_has_moved_and_is_left_out_is_told(void **state)
{
    (void)state;
    see(0, 0, 7);
    struct row row = {.partition = 0, .offset = 7, .watermark = 7};
    asks(NO_SESSION, 0, &row, 1);
    is_answered(SESSION, 0, &row, 1);
    see(0, 3, 7);
    asks(SESSION, 1, NULL, 0);
    is_answered(SESSION, 0, NULL, 0);
    expect_breach();
}

static void an_offset_that_is_out_of_range_and_left_out_is_told(void **state)
{
    (void)state;
    given_session();
    struct row row = {.partition = 0, .offset = 9};
    asks(SESSION, 1, &row, 1);
    is_answered(SESSION, 0, NULL, 0);
    expect_breach();
}

static void the_end_of_an_error_that_is_left_out_is_told(void **state)
{
    (void)state;
    given_session();
    struct row row = {.partition = 0, .offset = 9, .watermark = -1, .log_start = -1, .error = OUT_OF};
    asks(SESSION, 1, &row, 1);
    is_answered(SESSION, 0, &row, 1);
    expect_none();
    row.offset = 0;
    asks(SESSION, 2, &row, 1);
    is_answered(SESSION, 0, NULL, 0);
    expect_breach();
}

static void a_partition_that_was_forgotten_and_is_answered_is_told(void **state)
{
    (void)state;
    given_session();
    static const int32_t gone[] = {1};
    asks_on(1, SESSION, 1, NULL, 0, gone, 1);
    is_answered(SESSION, 0, &both[1], 1);
    expect_breach();
}

static void an_epoch_that_is_taken_twice_is_told(void **state)
{
    (void)state;
    given_session();
    asks(SESSION, 1, NULL, 0);
    is_answered(SESSION, 0, NULL, 0);
    asks(SESSION, 1, NULL, 0);
    is_answered(SESSION, 0, NULL, 0);
    expect_breach();
}

static void an_epoch_that_is_next_and_refused_is_told(void **state)
{
    (void)state;
    given_session();
    asks(SESSION, 1, NULL, 0);
    is_answered(NO_SESSION, BAD_EPOCH, NULL, 0);
    expect_breach();
}

static void an_epoch_that_is_not_next_may_be_refused(void **state)
{
    (void)state;
    given_session();
    asks(SESSION, 2, NULL, 0);
    is_answered(NO_SESSION, BAD_EPOCH, NULL, 0);
    asks(SESSION, 1, NULL, 0);
    is_answered(SESSION, 0, NULL, 0);
    expect_none();
}

static void a_session_may_be_evicted(void **state)
{
    (void)state;
    given_session();
    see(1, 0, 5);
    asks(SESSION, 1, NULL, 0);
    is_answered(NO_SESSION, NOT_FOUND, NULL, 0);
    expect_none();
}

static void what_became_of_a_fetch_without_an_answer_is_not_known(void **state)
{
    (void)state;
    given_session();
    asks_on(2, SESSION, 1, NULL, 0, NULL, 0);
    struct port_event closed = {.kind = PORT_EVENT_DONE, .now_ns = now_ns};
    closed.done.effect = PORT_CLOSE;
    closed.done.conn = conn_of(2);
    check_stream_event(stream, 0, &closed, base_slice_of(NULL, 0));
    asks(SESSION, 1, NULL, 0);
    is_answered(NO_SESSION, BAD_EPOCH, NULL, 0);
    expect_none();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_has_not_changed_may_be_left_out, given_stream, drop_stream),
        cmocka_unit_test_setup_teardown(a_watermark_that_has_moved_and_is_left_out_is_told, given_stream, drop_stream),
        cmocka_unit_test_setup_teardown(a_watermark_that_moves_after_the_question_may_be_left_out, given_stream,
                                        drop_stream),
        cmocka_unit_test_setup_teardown(a_log_start_that_has_moved_and_is_left_out_is_told, given_stream, drop_stream),
        cmocka_unit_test_setup_teardown(an_offset_that_is_out_of_range_and_left_out_is_told, given_stream, drop_stream),
        cmocka_unit_test_setup_teardown(the_end_of_an_error_that_is_left_out_is_told, given_stream, drop_stream),
        cmocka_unit_test_setup_teardown(a_partition_that_was_forgotten_and_is_answered_is_told, given_stream,
                                        drop_stream),
        cmocka_unit_test_setup_teardown(an_epoch_that_is_taken_twice_is_told, given_stream, drop_stream),
        cmocka_unit_test_setup_teardown(an_epoch_that_is_next_and_refused_is_told, given_stream, drop_stream),
        cmocka_unit_test_setup_teardown(an_epoch_that_is_not_next_may_be_refused, given_stream, drop_stream),
        cmocka_unit_test_setup_teardown(a_session_may_be_evicted, given_stream, drop_stream),
        cmocka_unit_test_setup_teardown(what_became_of_a_fetch_without_an_answer_is_not_known, given_stream,
                                        drop_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
