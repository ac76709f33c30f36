/* check_fetch_test.c: a broker whose fetches wait too long, or not long enough, or say what is not so, is told, and one whose first
 * and last offsets are not so: I3, I21, I23.
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
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/fetch.h"
#include "wire/kafka/heartbeat.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/list_offsets.h"
#include "wire/kafka/produce.h"

enum { LIST_OFFSETS = 2, LIST_VERSION = 9, LATEST = -1, EARLIEST = -2 };
enum { FETCH = 1, FETCH_VERSION = 16, DELETE_TOPICS = 20, DELETE_VERSION = 6, WAIT_MS = 500, LATE_MS = 100 };

static const struct base_part part = {.topic = {{9, 9, 9}}, .index = 0};
static const struct port_conn conn = {.slot = 1, .generation = 1}, other_conn = {.slot = 2, .generation = 1};

struct fixture {
    struct check_report report;
    struct check_stream *stream;
    uint64_t now_ms;
};

/* A log from 10 to 20, all of it synced and read. */
static struct fixture *given(void)
{
    static struct fixture fixture;
    fixture = (struct fixture){.now_ms = 1};
    fixture.stream = check_stream_create(&fixture.report);
    check_stream_late(fixture.stream, (uint64_t)LATE_MS * 1000000);
    return &fixture;
}

/* What follows is done at the time that it is now. */
static void turn(struct fixture *f)
{
    struct port_event event = {.kind = PORT_EVENT_TURN, .now_ns = f->now_ms * 1000000};
    check_stream_event(f->stream, 0, &event, (struct base_slice){.at = NULL});
}

static void see(struct fixture *f, int64_t start, int64_t watermark)
{
    turn(f);
    struct check_log log = {.id = part,
                            .topic = base_slice_text("t"),
                            .offset_start = start,
                            .offset_end = watermark,
                            .watermark = watermark};
    check_stream_log(f->stream, &log, true);
}

static struct talk talk(const struct fixture *f, struct port_conn with, int16_t api, int16_t version)
{
    return (struct talk){.stream = f->stream,
                         .now_ns = f->now_ms * 1000000,
                         .conn = with,
                         .api_key = api,
                         .version = version,
                         .correlation = 1};
}

static void ask_fetch(struct fixture *f, int64_t offset)
{
    struct kafka_fetch_request_fetch_partition of_part;
    kafka_fetch_request_fetch_partition_init(&of_part);
    of_part.fetch_offset = offset;
    struct kafka_fetch_request_fetch_topic topic;
    kafka_fetch_request_fetch_topic_init(&topic);
    topic.topic_id = part.topic;
    topic.partitions = &of_part;
    topic.partitions_count = 1;
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.max_wait_ms = WAIT_MS;
    request.min_bytes = 1;
    request.topics = &topic;
    request.topics_count = 1;
    talk_ask(talk(f, conn, FETCH, FETCH_VERSION), &request);
}

static void answer_fetch(struct fixture *f, int16_t error, int64_t start, int64_t watermark)
{
    struct kafka_fetch_response_partition_data of_part;
    kafka_fetch_response_partition_data_init(&of_part);
    of_part.error_code = error;
    of_part.log_start_offset = start;
    of_part.high_watermark = of_part.last_stable_offset = watermark;
    struct kafka_fetch_response_fetchable_topic_response topic;
    kafka_fetch_response_fetchable_topic_response_init(&topic);
    topic.topic_id = part.topic;
    topic.partitions = &of_part;
    topic.partitions_count = 1;
    struct kafka_fetch_response response;
    kafka_fetch_response_init(&response);
    response.responses = &topic;
    response.responses_count = 1;
    turn(f);
    talk_answer(talk(f, conn, FETCH, FETCH_VERSION), &response);
    assert_int_equal(check_stream_counts(f->stream)->answers[FETCH], 1);
}

/* The broker opens it, and is told that. */
static void open_file(struct fixture *f, const char *path, enum port_rc rc)
{
    const struct port_file file = {.slot = 1, .generation = 1};
    struct port_effect open = {.kind = PORT_OPEN, .token = 1, .file = file, .path = base_slice_text(path)};
    check_stream_effect(f->stream, 0, &open);
    struct port_event done = {.kind = PORT_EVENT_DONE, .now_ns = f->now_ms * 1000000};
    done.done.effect = PORT_OPEN;
    done.done.token = 1;
    done.done.file = file;
    done.done.rc = rc;
    check_stream_event(f->stream, 0, &done, (struct base_slice){.at = NULL});
}

static void ask_delete_topic(struct fixture *f)
{
    struct kafka_delete_topics_request_delete_topic_state wanted;
    kafka_delete_topics_request_delete_topic_state_init(&wanted);
    wanted.name = kafka_text_null();
    wanted.topic_id = part.topic;
    struct kafka_delete_topics_request request;
    kafka_delete_topics_request_init(&request);
    request.topics = &wanted;
    request.topics_count = 1;
    talk_ask(talk(f, other_conn, DELETE_TOPICS, DELETE_VERSION), &request);
}

static void answer_delete_topic(struct fixture *f)
{
    turn(f);
    struct kafka_delete_topics_response_deletable_topic_result result;
    kafka_delete_topics_response_deletable_topic_result_init(&result);
    result.topic_id = part.topic;
    struct kafka_delete_topics_response response;
    kafka_delete_topics_response_init(&response);
    response.responses = &result;
    response.responses_count = 1;
    talk_answer(talk(f, other_conn, DELETE_TOPICS, DELETE_VERSION), &response);
}

static void delete_topic(struct fixture *f)
{
    ask_delete_topic(f);
    answer_delete_topic(f);
}

static void ask_offset(struct fixture *f, int64_t at, int64_t answer)
{
    struct kafka_list_offsets_request_list_offsets_partition wanted;
    kafka_list_offsets_request_list_offsets_partition_init(&wanted);
    wanted.timestamp = at;
    struct kafka_list_offsets_request_list_offsets_topic of;
    kafka_list_offsets_request_list_offsets_topic_init(&of);
    of.name = kafka_text_words("t");
    of.partitions = &wanted;
    of.partitions_count = 1;
    struct kafka_list_offsets_request request;
    kafka_list_offsets_request_init(&request);
    request.topics = &of;
    request.topics_count = 1;
    talk_ask(talk(f, conn, LIST_OFFSETS, LIST_VERSION), &request);
    struct kafka_list_offsets_response_list_offsets_partition_response of_part;
    kafka_list_offsets_response_list_offsets_partition_response_init(&of_part);
    of_part.offset = answer;
    struct kafka_list_offsets_response_list_offsets_topic_response topic;
    kafka_list_offsets_response_list_offsets_topic_response_init(&topic);
    topic.name = kafka_text_words("t");
    topic.partitions = &of_part;
    topic.partitions_count = 1;
    struct kafka_list_offsets_response response;
    kafka_list_offsets_response_init(&response);
    response.topics = &topic;
    response.topics_count = 1;
    talk_answer(talk(f, conn, LIST_OFFSETS, LIST_VERSION), &response);
    assert_int_equal(check_stream_counts(f->stream)->answers[LIST_OFFSETS], 1);
}

/* Of what is told about fetches and offsets alone: in these tests nothing is synced. */
static void expect(struct fixture *f, const char *words)
{
    bool is_told = false;
    for (uint32_t i = 0; i < f->report.count; i++) {
        bool is_about_fetch = strstr(f->report.breaches[i].text, "fetch") != NULL ||
                              strstr(f->report.breaches[i].text, "out of range") != NULL ||
                              strstr(f->report.breaches[i].text, "the answer is") != NULL;
        if (words == NULL && is_about_fetch) {
            fail_msg("%s: %s", f->report.breaches[i].id, f->report.breaches[i].text);
        }
        is_told = is_told || (words != NULL && strstr(f->report.breaches[i].text, words) != NULL);
    }
    check_stream_destroy(f->stream);
    if (words != NULL && !is_told) { fail_msg("not told: %s", words); }
}

static void a_fetch_that_finds_nothing_may_be_answered_when_its_time_is_over(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 0, 0);
    ask_fetch(f, 0);
    f->now_ms += WAIT_MS;
    answer_fetch(f, 0, 0, 0);
    expect(f, NULL);
}

static void a_fetch_that_is_answered_with_nothing_too_soon_is_I21(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 0, 0);
    ask_fetch(f, 0);
    f->now_ms += WAIT_MS - 10;
    answer_fetch(f, 0, 0, 0);
    expect(f, "a fetch for 1 bytes or more is answered with 0, 10 ms before its time is over");
}

/* Of two partitions, by names in an old version: how much it wants, and what it is given. */
struct amounts {
    int32_t min_bytes, max_bytes, part_max_bytes;
    size_t given_bytes[2];
    int64_t unstable; /* before the watermark */
    int16_t version;
};

static void fetch_two(struct fixture *f, const struct amounts *amounts, uint64_t wait_ms)
{
    static const uint8_t zeros[1000];
    bool is_by_id = amounts->version >= 13;
    struct kafka_fetch_request_fetch_partition wanted[2];
    struct kafka_fetch_response_partition_data given_parts[2];
    for (int32_t i = 0; i < 2; i++) {
        kafka_fetch_request_fetch_partition_init(&wanted[i]);
        wanted[i].partition = i;
        wanted[i].partition_max_bytes = amounts->part_max_bytes;
        kafka_fetch_response_partition_data_init(&given_parts[i]);
        given_parts[i].partition_index = i;
        given_parts[i].high_watermark = 10;
        given_parts[i].last_stable_offset = 10 - amounts->unstable;
        given_parts[i].records = kafka_records_of(zeros, amounts->given_bytes[i]);
    }
    struct kafka_fetch_request_fetch_topic of;
    kafka_fetch_request_fetch_topic_init(&of);
    struct kafka_fetch_response_fetchable_topic_response topic;
    kafka_fetch_response_fetchable_topic_response_init(&topic);
    of.topic = topic.topic = is_by_id ? kafka_text_words("") : kafka_text_words("t");
    if (is_by_id) { of.topic_id = topic.topic_id = part.topic; }
    of.partitions = wanted;
    topic.partitions = given_parts;
    of.partitions_count = topic.partitions_count = 2;
    struct kafka_fetch_request request;
    kafka_fetch_request_init(&request);
    request.max_wait_ms = WAIT_MS;
    request.min_bytes = amounts->min_bytes;
    request.max_bytes = amounts->max_bytes;
    request.session_epoch = -1;
    request.topics = &of;
    request.topics_count = 1;
    turn(f);
    talk_ask(talk(f, conn, FETCH, amounts->version), &request);
    struct kafka_fetch_response response;
    kafka_fetch_response_init(&response);
    response.responses = &topic;
    response.responses_count = 1;
    f->now_ms += wait_ms;
    turn(f);
    talk_answer(talk(f, conn, FETCH, amounts->version), &response);
    assert_int_equal(check_stream_counts(f->stream)->answers[FETCH], 1);
}

static struct amounts amounts(int32_t min_bytes, int32_t max_bytes, int32_t part_max_bytes, size_t first, size_t second)
{
    return (struct amounts){.min_bytes = min_bytes,
                            .max_bytes = max_bytes,
                            .part_max_bytes = part_max_bytes,
                            .given_bytes = {first, second},
                            .version = 12};
}

static struct amounts by_id(struct amounts amounts)
{
    amounts.version = 16;
    return amounts;
}

static void expect_two(struct amounts wanted, uint64_t wait_ms, const char *words)
{
    struct fixture *f = given();
    fetch_two(f, &wanted, wait_ms);
    expect(f, words);
}

static void a_fetch_has_what_it_asked_for_before_its_time_is_over(void **state)
{
    (void)state;
    expect_two(amounts(100, 1000, 1000, 60, 40), 10, NULL);
    expect_two(amounts(100, 1000, 1000, 60, 39), WAIT_MS, NULL);
    expect_two(amounts(100, 1000, 1000, 60, 39), 10,
               "a fetch for 100 bytes or more is answered with 99, 490 ms before its time is over");
    expect_two(amounts(INT32_MAX, 80, 1000, 60, 20), 10, NULL); /* no more is given */
    expect_two(amounts(100, 1000, 1000, 60, 39), WAIT_MS + LATE_MS + 10,
               "a fetch is answered 110 ms after its time was over");
}

static void a_fetch_has_no_more_than_the_broker_gives(void **state)
{
    (void)state;
    for (int32_t max = 98; max <= 99; max++) {
        struct fixture *f = given();
        check_stream_fetch_max(f->stream, max);
        struct amounts wanted = amounts(200, 1000, 1000, 60, 39);
        fetch_two(f, &wanted, 10);
        expect(f, max == 99 ? NULL : "a fetch is given 99 bytes of 2 partitions, and 98 are the most");
    }
}

static void a_fetch_is_given_no_more_than_it_asked_for_but_one_batch_that_is_first(void **state)
{
    (void)state;
    expect_two(amounts(1, 100, 1000, 60, 40), 10, NULL);
    expect_two(amounts(1, 100, 1000, 60, 41), 10, "101 bytes of 2 partitions, and 100 are the most");
    expect_two(amounts(1, 100, 1000, 500, 0), 10, NULL);
    expect_two(by_id(amounts(1, 1000, 50, 60, 50)), 10, NULL);
    expect_two(by_id(amounts(1, 1000, 50, 0, 60)), 10, NULL);
    expect_two(by_id(amounts(1, 1000, 50, 60, 51)), 10,
               "a fetch is given 51 bytes of partition 1, behind others, and asked for 50 at most");
}

static void a_watermark_up_to_which_not_all_is_stable_is_I23(void **state)
{
    (void)state;
    struct amounts wanted = amounts(1, 100, 100, 10, 0);
    wanted.unstable = 1;
    expect_two(wanted, 10, "a fetch says that partition 0 is stable up to 9, its watermark is 10");
}

static void a_peer_that_sends_no_more_may_be_answered_at_once(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 0, 0);
    ask_fetch(f, 0);
    f->now_ms += 10;
    talk_end(talk(f, conn, FETCH, FETCH_VERSION));
    answer_fetch(f, 0, 0, 0);
    expect(f, NULL);
}

static void a_peer_that_sends_no_more_and_is_made_to_wait_is_I21(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 0, 0);
    ask_fetch(f, 0);
    f->now_ms += 10;
    talk_end(talk(f, conn, FETCH, FETCH_VERSION));
    f->now_ms += LATE_MS + 50;
    answer_fetch(f, 0, 0, 0);
    expect(f, "a fetch is answered 150 ms after its time was over");
}

static void at_a_stop_it_may_be_answered_at_once(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 0, 0);
    ask_fetch(f, 0);
    struct port_event stop = {.kind = PORT_EVENT_STOP, .now_ns = f->now_ms * 1000000};
    check_stream_event(f->stream, 0, &stop, (struct base_slice){.at = NULL});
    answer_fetch(f, 0, 0, 0);
    expect(f, NULL);
}

#define SEGMENT "t-0/00000000000000000000.log"

/* A record comes when a fetch waits for it already; the open of its segment, a while later, ends so; and then so much time goes. */
static struct fixture *given_an_open(const char *path, enum port_rc rc, uint64_t then_ms)
{
    struct fixture *f = given();
    see(f, 0, 0);
    ask_fetch(f, 0);
    see(f, 0, 1);
    f->now_ms += LATE_MS + 50;
    open_file(f, path, rc);
    f->now_ms += then_ms;
    return f;
}

static void a_fetch_waits_on_while_there_is_no_handle_for_its_segment(void **state)
{
    (void)state;
    struct fixture *f = given_an_open(SEGMENT, PORT_NO_HANDLES, LATE_MS);
    answer_fetch(f, KAFKA_ERROR_KAFKA_STORAGE_ERROR, 0, 0);
    expect(f, NULL);
}

static void a_fetch_that_waits_on_though_no_handle_was_refused_any_more_is_I21(void **state)
{
    (void)state;
    struct fixture *f = given_an_open(SEGMENT, PORT_NO_HANDLES, LATE_MS + 10);
    answer_fetch(f, KAFKA_ERROR_KAFKA_STORAGE_ERROR, 0, 0);
    expect(f, "a fetch is answered 110 ms after there was something");
}

static void no_handle_for_another_file_is_no_reason_to_wait(void **state)
{
    (void)state;
    static const char *const paths[] = {"t-0/00000000000000000000.index", "t-1/00000000000000000000.log"};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(paths); i++) {
        struct fixture *f = given_an_open(paths[i], PORT_NO_HANDLES, 10);
        answer_fetch(f, KAFKA_ERROR_KAFKA_STORAGE_ERROR, 0, 0);
        expect(f, "a fetch is answered 160 ms after there was something");
    }
}

static void no_other_end_of_an_open_is_a_reason_to_wait(void **state)
{
    (void)state;
    static const enum port_rc rcs[] = {PORT_OK, PORT_IO};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(rcs); i++) {
        struct fixture *f = given_an_open(SEGMENT, rcs[i], 10);
        answer_fetch(f, KAFKA_ERROR_KAFKA_STORAGE_ERROR, 0, 0);
        expect(f, "a fetch is answered 160 ms after there was something");
    }
}

static void a_fetch_that_finds_no_handle_is_answered_when_its_time_is_over(void **state)
{
    (void)state;
    struct fixture *f = given_an_open(SEGMENT, PORT_NO_HANDLES, WAIT_MS - 50);
    open_file(f, SEGMENT, PORT_NO_HANDLES);
    f->now_ms += 10;
    answer_fetch(f, KAFKA_ERROR_KAFKA_STORAGE_ERROR, 0, 0);
    expect(f, "a fetch is answered 110 ms after its time was over");
}

/* Answers leave in the order of their questions. A heartbeat before it is answered long after the fetch's time; and then so much time goes. */
static struct fixture *given_an_answer_before_it(uint64_t then_ms)
{
    struct fixture *f = given();
    see(f, 0, 0);
    struct kafka_heartbeat_request beat;
    kafka_heartbeat_request_init(&beat);
    talk_ask(talk(f, conn, KAFKA_API_HEARTBEAT, 4), &beat);
    ask_fetch(f, 0);
    f->now_ms += WAIT_MS + LATE_MS + 50;
    struct kafka_heartbeat_response answer;
    kafka_heartbeat_response_init(&answer);
    turn(f);
    talk_answer(talk(f, conn, KAFKA_API_HEARTBEAT, 4), &answer);
    f->now_ms += then_ms;
    return f;
}

static void a_fetch_waits_for_the_answer_before_it(void **state)
{
    (void)state;
    struct fixture *f = given_an_answer_before_it(LATE_MS);
    answer_fetch(f, 0, 0, 0);
    expect(f, NULL);
}

static void a_fetch_that_waits_on_after_the_answer_before_it_is_I21(void **state)
{
    (void)state;
    struct fixture *f = given_an_answer_before_it(LATE_MS + 10);
    answer_fetch(f, 0, 0, 0);
    expect(f, "a fetch is answered 110 ms after its time was over");
}

/* Long after the fetch's time the host has no handle for a file of the journal; and then so much time goes. */
static struct fixture *given_a_journal_without_a_handle(bool is_after_silent, uint64_t then_ms)
{
    struct fixture *f = given();
    see(f, 0, 0);
    struct kafka_produce_request produce;
    kafka_produce_request_init(&produce);
    produce.acks = 0;
    if (is_after_silent) { talk_ask(talk(f, conn, KAFKA_API_PRODUCE, 9), &produce); }
    ask_fetch(f, 0);
    f->now_ms += WAIT_MS + LATE_MS + 50;
    open_file(f, "weir-journal/0000000001.wj", PORT_NO_HANDLES);
    f->now_ms += then_ms;
    answer_fetch(f, 0, 0, 0);
    return f;
}

static void a_fetch_behind_what_no_answer_tells_the_end_of_waits_while_there_is_no_handle(void **state)
{
    (void)state;
    expect(given_a_journal_without_a_handle(true, LATE_MS), NULL);
}

static void a_fetch_behind_what_no_answer_tells_the_end_of_that_waits_on_is_I21(void **state)
{
    (void)state;
    expect(given_a_journal_without_a_handle(true, LATE_MS + 10), "a fetch is answered 110 ms after its time was over");
}

static void no_handle_for_the_journal_is_no_reason_for_a_fetch_alone_to_wait(void **state)
{
    (void)state;
    expect(given_a_journal_without_a_handle(false, 10), "a fetch is answered 160 ms after its time was over");
}

static void a_handle_that_an_earlier_start_was_refused_is_no_reason_to_wait(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 0, 0);
    f->now_ms = WAIT_MS;
    open_file(f, SEGMENT, PORT_NO_HANDLES);
    check_stream_crash(f->stream, CHECK_PROCESS);
    f->now_ms = 1;
    see(f, 0, 0);
    ask_fetch(f, 0);
    see(f, 0, 1);
    f->now_ms += LATE_MS + 10;
    answer_fetch(f, KAFKA_ERROR_KAFKA_STORAGE_ERROR, 0, 0);
    expect(f, "a fetch is answered 110 ms after there was something");
}

static void a_fetch_that_waits_on_when_its_topic_was_deleted_is_I21(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 0, 0);
    ask_fetch(f, 0);
    f->now_ms += 1;
    delete_topic(f);
    f->now_ms += LATE_MS + 50;
    answer_fetch(f, KAFKA_ERROR_UNKNOWN_TOPIC_ID, -1, -1);
    expect(f, "a fetch is answered 150 ms after t-0 was deleted");
}

static void a_fetch_that_ends_soon_after_the_deletion_is_good(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 0, 0);
    ask_fetch(f, 0);
    f->now_ms += 1;
    delete_topic(f);
    f->now_ms += LATE_MS - 50;
    answer_fetch(f, KAFKA_ERROR_UNKNOWN_TOPIC_ID, -1, -1);
    expect(f, NULL);
}

static void a_fetch_that_came_while_its_topic_was_being_deleted_may_wait(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 0, 0);
    ask_delete_topic(f);
    f->now_ms += 1;
    ask_fetch(f, 0);
    f->now_ms += 1;
    answer_delete_topic(f);
    f->now_ms += WAIT_MS;
    answer_fetch(f, KAFKA_ERROR_UNKNOWN_TOPIC_ID, -1, -1);
    expect(f, NULL);
}

static void an_offset_that_is_there_and_called_out_of_range_is_I23(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 10, 20);
    ask_fetch(f, 20);
    answer_fetch(f, KAFKA_ERROR_OFFSET_OUT_OF_RANGE, -1, -1);
    expect(f, "offset 20 of t-0 is called out of range");
}

static void an_offset_before_the_start_may_be_called_out_of_range(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 10, 20);
    ask_fetch(f, 9);
    answer_fetch(f, KAFKA_ERROR_OFFSET_OUT_OF_RANGE, -1, -1);
    expect(f, NULL);
}

static void a_watermark_that_is_told_and_not_synced_is_I3(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 0, 0);
    ask_fetch(f, 0);
    f->now_ms += WAIT_MS;
    answer_fetch(f, 0, 0, 1);
    expect(f, "a fetch says that the watermark of t-0 is 1");
}

static void a_start_that_is_told_and_is_none_is_I23(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 10, 20);
    ask_fetch(f, 20);
    f->now_ms += WAIT_MS;
    answer_fetch(f, 0, 0, 20);
    expect(f, "a fetch says that t-0 begins at 0");
}

static void a_first_offset_that_is_the_start_is_good(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 10, 20);
    ask_offset(f, EARLIEST, 10);
    expect(f, NULL);
}

static void a_first_offset_that_is_not_the_start_is_I23(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 10, 20);
    ask_offset(f, EARLIEST, 9);
    expect(f, "the earliest offset of t-0 was from 10 to 10, and the answer is 9");
}

static void a_last_offset_that_is_not_synced_is_I23(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 0, 0);
    ask_offset(f, LATEST, 1);
    expect(f, "the latest offset of t-0 was from 0 to 0, and the answer is 1");
}

static void of_an_offset_for_a_time_nothing_is_told(void **state)
{
    (void)state;
    struct fixture *f = given();
    see(f, 10, 20);
    ask_offset(f, 1234, 15);
    expect(f, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fetch_that_finds_nothing_may_be_answered_when_its_time_is_over),
        cmocka_unit_test(a_fetch_that_is_answered_with_nothing_too_soon_is_I21),
        cmocka_unit_test(a_fetch_has_what_it_asked_for_before_its_time_is_over),
        cmocka_unit_test(a_fetch_has_no_more_than_the_broker_gives),
        cmocka_unit_test(a_fetch_is_given_no_more_than_it_asked_for_but_one_batch_that_is_first),
        cmocka_unit_test(a_watermark_up_to_which_not_all_is_stable_is_I23),
        cmocka_unit_test(a_peer_that_sends_no_more_may_be_answered_at_once),
        cmocka_unit_test(a_peer_that_sends_no_more_and_is_made_to_wait_is_I21),
        cmocka_unit_test(at_a_stop_it_may_be_answered_at_once),
        cmocka_unit_test(a_fetch_waits_on_while_there_is_no_handle_for_its_segment),
        cmocka_unit_test(a_fetch_that_waits_on_though_no_handle_was_refused_any_more_is_I21),
        cmocka_unit_test(no_handle_for_another_file_is_no_reason_to_wait),
        cmocka_unit_test(no_other_end_of_an_open_is_a_reason_to_wait),
        cmocka_unit_test(a_fetch_that_finds_no_handle_is_answered_when_its_time_is_over),
        cmocka_unit_test(a_fetch_waits_for_the_answer_before_it),
        cmocka_unit_test(a_fetch_that_waits_on_after_the_answer_before_it_is_I21),
        cmocka_unit_test(a_fetch_behind_what_no_answer_tells_the_end_of_waits_while_there_is_no_handle),
        cmocka_unit_test(a_fetch_behind_what_no_answer_tells_the_end_of_that_waits_on_is_I21),
        cmocka_unit_test(no_handle_for_the_journal_is_no_reason_for_a_fetch_alone_to_wait),
        cmocka_unit_test(a_handle_that_an_earlier_start_was_refused_is_no_reason_to_wait),
        cmocka_unit_test(a_fetch_that_waits_on_when_its_topic_was_deleted_is_I21),
        cmocka_unit_test(a_fetch_that_ends_soon_after_the_deletion_is_good),
        cmocka_unit_test(a_fetch_that_came_while_its_topic_was_being_deleted_may_wait),
        cmocka_unit_test(an_offset_that_is_there_and_called_out_of_range_is_I23),
        cmocka_unit_test(an_offset_before_the_start_may_be_called_out_of_range),
        cmocka_unit_test(a_watermark_that_is_told_and_not_synced_is_I3),
        cmocka_unit_test(a_start_that_is_told_and_is_none_is_I23),
        cmocka_unit_test(a_first_offset_that_is_the_start_is_good),
        cmocka_unit_test(a_first_offset_that_is_not_the_start_is_I23),
        cmocka_unit_test(a_last_offset_that_is_not_synced_is_I23),
        cmocka_unit_test(of_an_offset_for_a_time_nothing_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
