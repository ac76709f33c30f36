/* test_client_consume.c: records out of partitions, and calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake.h"

#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/find_coordinator.h"
#include "wire/kafka/offset_fetch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const letters[] = {"a", "b", "c", "d", "e"};

static void assign_from(struct fake *fake, enum client_start start, int64_t at, enum client_reset reset)
{
    struct client_assignment assignment = {
        .token = 7, .topic = base_slice_text("t"), .partition = 0, .start = start, .at = at, .reset = reset};
    assert_int_equal(client_assign(fake->client, &assignment), BASE_OK);
}

static void expect_values(const struct fake *fake, const char *expected)
{
    char words[65536] = "";
    size_t used = 0;
    int64_t last = -1;
    for (uint32_t i = 0; i < fake->result_count; i++) {
        if (fake->results[i].is.kind != CLIENT_RECORD) { continue; }
        used +=
            (size_t)snprintf(words + used, sizeof words - used, "%s%s", used == 0 ? "" : " ", fake->results[i].value);
        assert_true(fake->results[i].is.offset > last);
        last = fake->results[i].is.offset;
    }
    assert_string_equal(words, expected);
}

static void a_partition_is_read_from_its_beginning_in_order(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake_append(fake, 0, letters, 3, CODEC_NONE);
    fake_append(fake, 0, letters + 3, 2, CODEC_NONE);
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
    fake_run(fake, 1);
    fake_run(fake, 1);
    expect_values(fake, "a b c d e");
    assert_int_equal(fake_count(fake, CLIENT_AT_END), 1);
    fake_free(fake);
}

static void every_compression_is_opened(void **state)
{
    (void)state;
    for (enum codec_kind kind = CODEC_NONE; kind <= CODEC_ZSTD; kind++) {
        struct fake *fake = fake_new();
        fake_append(fake, 0, letters, 5, kind);
        fake_start(fake);
        assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
        fake_run(fake, 1);
        expect_values(fake, "a b c d e");
        fake_free(fake);
    }
}

static void an_offset_inside_a_batch_begins_there(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake_append(fake, 0, letters, 5, CODEC_LZ4);
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_OFFSET, 3, CLIENT_RESET_FAIL);
    fake_run(fake, 1);
    expect_values(fake, "d e");
    fake_free(fake);
}

static void the_end_shows_what_comes_later(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake_append(fake, 0, letters, 3, CODEC_NONE);
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_END, 0, CLIENT_RESET_FAIL);
    fake_run(fake, 600); /* one long poll */
    assert_int_equal(fake_count(fake, CLIENT_AT_END), 1);
    fake_append(fake, 0, letters + 3, 2, CODEC_NONE);
    fake_run(fake, 1);
    expect_values(fake, "d e");
    assert_int_equal(fake_count(fake, CLIENT_AT_END), 2);
    fake_free(fake);
}

static void a_time_begins_at_the_first_record_that_is_as_new(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake_append(fake, 0, letters, 3, CODEC_NONE);     /* 1000 to 1002 */
    fake_append(fake, 0, letters + 3, 2, CODEC_NONE); /* 1003 to 1004 */
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_TIME, 1003, CLIENT_RESET_FAIL);
    fake_run(fake, 1);
    expect_values(fake, "d e");
    assign_from(fake, CLIENT_FROM_TIME, 99999, CLIENT_RESET_FAIL); /* later than everything: the end */
    fake_run(fake, 1);
    expect_values(fake, "d e");
    fake_free(fake);
}

static void an_offset_out_of_range_fails_or_resets_as_told(void **state)
{
    (void)state;
    static const char *const expected[] = {"", "a b c", ""};
    for (enum client_reset reset = CLIENT_RESET_FAIL; reset <= CLIENT_RESET_END; reset++) {
        struct fake *fake = fake_new();
        fake_append(fake, 0, letters, 3, CODEC_NONE);
        fake_start(fake);
        assign_from(fake, CLIENT_FROM_OFFSET, 50, reset);
        fake_run(fake, 1000);
        expect_values(fake, expected[reset]);
        assert_int_equal(fake_count(fake, CLIENT_FAILED), reset == CLIENT_RESET_FAIL ? 1 : 0);
        if (reset == CLIENT_RESET_FAIL) {
            assert_int_equal(fake_result_of(fake, 7)->is.error, KAFKA_ERROR_OFFSET_OUT_OF_RANGE);
        }
        fake_free(fake);
    }
}

static void a_moved_leader_is_looked_up_again(void **state)
{
    (void)state;
    static const int16_t errors[] = {KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER, KAFKA_ERROR_FENCED_LEADER_EPOCH,
                                     KAFKA_ERROR_UNKNOWN_LEADER_EPOCH, KAFKA_ERROR_UNKNOWN_TOPIC_ID};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct fake *fake = fake_new();
        fake_append(fake, 0, letters, 3, CODEC_NONE);
        fake->fetch_errors[0] = errors[i];
        fake->fetch_error_count = 1;
        fake_start(fake);
        assign_from(fake, CLIENT_FROM_OFFSET, 0, CLIENT_RESET_FAIL);
        fake_run(fake, 100);
        uint32_t asked = fake->requests[KAFKA_API_METADATA];
        fake_run(fake, 1000);
        expect_values(fake, "a b c");
        assert_true(asked >= 1);
        fake_free(fake);
    }
}

static void a_rotten_batch_fails_its_partition(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake_append(fake, 0, letters, 3, CODEC_NONE);
    fake->logs[0].batches[0].at[fake->logs[0].batches[0].size_bytes - 1] ^= 1;
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_OFFSET, 0, CLIENT_RESET_FAIL);
    fake_run(fake, 1000);
    expect_values(fake, "");
    assert_int_equal(fake_result_of(fake, 7)->is.error, KAFKA_ERROR_CORRUPT_MESSAGE);
    fake_free(fake);
}

/* A broker without sessions fills its answer in the order of the request: the others must have their turn. */
static void a_partition_that_gave_records_comes_last_into_the_next_fetch(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake->parts = 2;
    fake_start(fake);
    for (int32_t i = 0; i < 2; i++) {
        struct client_assignment assignment = {.token = 7,
                                               .topic = base_slice_text("t"),
                                               .partition = i,
                                               .start = CLIENT_FROM_BEGINNING};
        assert_int_equal(client_assign(fake->client, &assignment), BASE_OK);
    }
    for (int32_t i = 0; i < 4; i++) {
        fake_append(fake, i % 2, letters, 1, CODEC_NONE);
        fake_run(fake, 2000);
        assert_int_equal(fake->fetch_first, 1 - i % 2);
    }
    fake_free(fake);
}

static void a_full_fetch_that_is_refused_is_not_sent_again_at_once(void **state)
{
    (void)state;
    static const int16_t errors[] = {KAFKA_ERROR_FETCH_SESSION_ID_NOT_FOUND, KAFKA_ERROR_INVALID_FETCH_SESSION_EPOCH};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(errors); i++) {
        struct fake *fake = fake_new();
        fake->full_fetch_error = errors[i];
        fake_append(fake, 0, letters, 2, CODEC_NONE);
        fake_start(fake);
        assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
        fake_run(fake, 1000);
        assert_in_range(fake->fetches_full, 5, 21);
        fake->full_fetch_error = 0;
        fake_run(fake, 300);
        expect_values(fake, "a b");
        fake_free(fake);
    }
}

/* Whole batches are read; but the first one is given whole by every broker, and where it is not nothing would ever come. */
static void a_first_batch_that_is_cut_fails_its_partition(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake_append(fake, 0, letters, 3, CODEC_NONE);
    fake_append(fake, 0, letters + 3, 2, CODEC_NONE);
    fake->fetched_bytes_max = fake->logs[0].batches[0].size_bytes + 20;
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
    fake_run(fake, 1000);
    expect_values(fake, "a b c d e");
    assert_int_equal(fake_count(fake, CLIENT_FAILED), 0);
    fake->fetched_bytes_max = 20;
    fake_append(fake, 0, letters, 1, CODEC_NONE);
    fake_run(fake, 1000);
    assert_int_equal(fake_count(fake, CLIENT_FAILED), 1);
    assert_int_equal(fake->results[fake->result_count - 1].is.error, KAFKA_ERROR_CORRUPT_MESSAGE);
    fake_free(fake);
}

static void answers_cut_at_any_byte_give_the_same_records(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 40; cut++) {
        struct fake *fake = fake_new();
        fake->recv_bytes_max = cut;
        fake_append(fake, 0, letters, 5, CODEC_GZIP);
        fake_start(fake);
        assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
        fake_run(fake, 1);
        expect_values(fake, "a b c d e");
        fake_free(fake);
    }
}

static void a_reader_that_is_behind_stops_the_fetching(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake->config.fetch_partition_bytes_max = 100;
    char value[8];
    const char *one = value;
    for (int i = 0; i < 300; i++) {
        (void)snprintf(value, sizeof value, "%d", i);
        fake_append(fake, 0, &one, 1, CODEC_NONE);
    }
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
    fake->polls = false;
    fake_run(fake, 100);
    assert_true(fake->requests[KAFKA_API_FETCH] <= 3);
    fake->polls = true;
    fake_run(fake, 10);
    assert_int_equal(fake_count(fake, CLIENT_RECORD), 300);
    fake_free(fake);
}

static void what_is_not_assigned_any_more_is_not_shown(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake_append(fake, 0, letters, 5, CODEC_NONE);
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
    fake->polls = false;
    fake_run(fake, 1);
    client_unassign(fake->client, base_slice_text("t"), 0);
    fake->polls = true;
    fake_run(fake, 1000);
    expect_values(fake, "");
    fake_free(fake);
}

static struct base_uuid topic_of_record(const struct fake *fake, const char *value)
{
    for (uint32_t i = 0; i < fake->result_count; i++) {
        const struct fake_result *result = &fake->results[i];
        if (result->is.kind == CLIENT_RECORD && strcmp(result->value, value) == 0) { return result->is.topic_id; }
    }
    fail_msg("no record %s", value);
    return (struct base_uuid){0};
}

static void a_record_says_which_topic_it_was_fetched_from_though_another_has_followed(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    struct base_uuid first = fake->topic_id;
    fake->config.metadata_max_age_ms = 100;
    fake_append(fake, 0, letters, 1, CODEC_NONE);
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
    fake->polls = false;
    fake_run(fake, 50);
    fake->topic_id.b[0] = 8;
    fake_append(fake, 0, letters + 1, 1, CODEC_NONE);
    fake_run(fake, 1000); /* the next metadata say the new id, and the next fetch names it */
    fake->polls = true;
    fake_run(fake, 1);
    expect_values(fake, "a b");
    assert_true(base_uuid_equal(topic_of_record(fake, "a"), first));
    assert_true(base_uuid_equal(topic_of_record(fake, "b"), fake->topic_id));
    fake_free(fake);
}

static void an_old_broker_is_fetched_from_by_name(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake->version_max[KAFKA_API_FETCH] = 10;
    fake->version_max[KAFKA_API_METADATA] = 7;
    fake->version_max[KAFKA_API_LIST_OFFSETS] = 3;
    fake_append(fake, 0, letters, 5, CODEC_NONE);
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
    fake_run(fake, 1);
    expect_values(fake, "a b c d e");
    assert_int_equal(fake->versions[KAFKA_API_FETCH], 10);
    fake_free(fake);
}

static void a_missing_topic_fails_its_assignment(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake->has_topic = false;
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
    fake_run(fake, 20000);
    assert_int_equal(fake_result_of(fake, 7)->is.error, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    fake_free(fake);
}

/* ---- calls ---- */

static void call(struct fake *fake, uint64_t token, int16_t api_key, const void *request)
{
    struct client_call wanted = {
        .token = token, .api_key = api_key, .target = CLIENT_TO_CONTROLLER, .request = request, .timeout_ms = 5000};
    assert_int_equal(client_call(fake->client, &wanted), BASE_OK);
}

static void create_topic(struct fake *fake, uint64_t token)
{
    struct kafka_create_topics_request request;
    struct kafka_create_topics_request_creatable_topic topic;
    kafka_create_topics_request_init(&request);
    kafka_create_topics_request_creatable_topic_init(&topic);
    topic.name = kafka_text_words("t");
    topic.num_partitions = -1;
    topic.replication_factor = -1;
    request.topics = &topic;
    request.topics_count = 1;
    call(fake, token, KAFKA_API_CREATE_TOPICS, &request);
}

static void delete_topic(struct fake *fake, uint64_t token)
{
    struct kafka_delete_topics_request request;
    struct kafka_delete_topics_request_delete_topic_state topic;
    kafka_delete_topics_request_init(&request);
    kafka_delete_topics_request_delete_topic_state_init(&topic);
    topic.name = kafka_text_words("t");
    request.topics = &topic;
    request.topics_count = 1;
    call(fake, token, KAFKA_API_DELETE_TOPICS, &request);
}

static void a_call_waits_for_a_node_and_gets_its_answer(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake->connects_refused = 2;
    fake_start(fake);
    create_topic(fake, 1);
    fake->call_errors[0] = KAFKA_ERROR_TOPIC_ALREADY_EXISTS;
    fake->call_error_count = 1;
    fake_run(fake, 4000);
    assert_int_equal(fake_result_of(fake, 1)->answer_error, KAFKA_ERROR_TOPIC_ALREADY_EXISTS);
    fake_free(fake);
}

static void a_broker_that_is_not_the_controller_is_asked_again(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake_start(fake);
    fake->call_errors[0] = KAFKA_ERROR_NOT_CONTROLLER;
    fake->call_error_count = 1;
    create_topic(fake, 1);
    fake_run(fake, 4000);
    assert_int_equal(fake_result_of(fake, 1)->answer_error, KAFKA_ERROR_NONE);
    assert_int_equal(fake->requests[KAFKA_API_CREATE_TOPICS], 2);
    fake_free(fake);
}

static void find_coordinator(struct fake *fake, uint64_t token)
{
    struct kafka_find_coordinator_request request;
    struct kafka_text key = kafka_text_words("one");
    kafka_find_coordinator_request_init(&request);
    request.coordinator_keys = &key;
    request.coordinator_keys_count = 1;
    call(fake, token, KAFKA_API_FIND_COORDINATOR, &request);
}

/* Named in the words of version 9: later ones say ids. */
static void fetch_group_offsets(struct fake *fake, uint64_t token)
{
    struct kafka_offset_fetch_request request;
    struct kafka_offset_fetch_request_offset_fetch_request_group group;
    struct kafka_offset_fetch_request_offset_fetch_request_topics topic;
    int32_t partition = 1;
    kafka_offset_fetch_request_init(&request);
    kafka_offset_fetch_request_offset_fetch_request_group_init(&group);
    kafka_offset_fetch_request_offset_fetch_request_topics_init(&topic);
    topic.name = kafka_text_words("t");
    topic.partition_indexes = &partition;
    topic.partition_indexes_count = 1;
    group.group_id = kafka_text_words("two");
    group.topics = &topic;
    group.topics_count = 1;
    request.groups = &group;
    request.groups_count = 1;
    struct client_call wanted = {
        .token = token, .api_key = KAFKA_API_OFFSET_FETCH, .request = &request, .timeout_ms = 5000, .version_max = 9};
    assert_int_equal(client_call(fake->client, &wanted), BASE_OK);
}

static void a_group_is_asked_about_in_every_version_up_to_the_one_that_is_wanted(void **state)
{
    (void)state;
    for (int16_t version = 1; version <= 10; version++) {
        struct fake *fake = fake_new();
        fake->version_max[KAFKA_API_FIND_COORDINATOR] = version > 6 ? 6 : version;
        fake->version_max[KAFKA_API_OFFSET_FETCH] = version;
        fake_start(fake);
        find_coordinator(fake, 1);
        fake_run(fake, 1000);
        assert_non_null(fake_result_of(fake, 1)->is.answer);
        assert_string_equal(fake->group, "one");
        fetch_group_offsets(fake, 2);
        fake_run(fake, 1000);
        assert_non_null(fake_result_of(fake, 2)->is.answer);
        assert_string_equal(fake->group, "two");
        assert_int_equal(fake->versions[KAFKA_API_OFFSET_FETCH], version > 9 ? 9 : version);
        assert_int_equal(fake_result_of(fake, 2)->is.version, version > 9 ? 9 : version);
        fake_free(fake);
    }
}

static void a_coordinator_that_is_not_ready_is_asked_again(void **state)
{
    (void)state;
    for (int16_t version = 3; version <= 8; version += 5) {
        struct fake *fake = fake_new();
        fake->version_max[KAFKA_API_FIND_COORDINATOR] = version > 6 ? 6 : version;
        fake->version_max[KAFKA_API_OFFSET_FETCH] = version;
        fake->call_errors[0] = KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE;
        fake->call_errors[1] = KAFKA_ERROR_NONE;
        fake->call_errors[2] = KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS;
        fake->call_errors[3] = KAFKA_ERROR_NOT_COORDINATOR;
        fake->call_error_count = 4;
        fake_start(fake);
        find_coordinator(fake, 1);
        fake_run(fake, 1000);
        assert_non_null(fake_result_of(fake, 1)->is.answer);
        assert_int_equal(fake->requests[KAFKA_API_FIND_COORDINATOR], 2);
        fetch_group_offsets(fake, 2);
        fake_run(fake, 1000);
        assert_non_null(fake_result_of(fake, 2)->is.answer); /* another's group: the caller's business */
        assert_int_equal(fake->requests[KAFKA_API_OFFSET_FETCH], 2);
        fake_free(fake);
    }
}

static void calls_are_said_in_every_version(void **state)
{
    (void)state;
    for (int16_t version = 1; version <= 6; version++) {
        struct fake *fake = fake_new();
        fake->version_max[KAFKA_API_DELETE_TOPICS] = version;
        fake->version_max[KAFKA_API_CREATE_TOPICS] = version < 2 ? 2 : version;
        fake_start(fake);
        create_topic(fake, 1);
        delete_topic(fake, 2);
        fake_run(fake, 1000);
        assert_non_null(fake_result_of(fake, 1)->is.answer);
        assert_non_null(fake_result_of(fake, 2)->is.answer);
        assert_int_equal(fake->versions[KAFKA_API_DELETE_TOPICS], version);
        fake_free(fake);
    }
}

static void a_call_that_nobody_knows_is_refused(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake->version_max[KAFKA_API_CREATE_TOPICS] = -1;
    fake_start(fake);
    create_topic(fake, 1);
    fake_run(fake, 1000);
    assert_null(fake_result_of(fake, 1)->is.answer);
    assert_int_equal(fake_result_of(fake, 1)->is.error, KAFKA_ERROR_UNSUPPORTED_VERSION);
    assert_false(fake_result_of(fake, 1)->is.is_indefinite);
    fake_free(fake);
}

static void a_call_without_an_answer_may_have_been_carried_out(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake_start(fake);
    fake_run(fake, 1000);
    fake->drops_requests = true;
    create_topic(fake, 1);
    fake_run(fake, 10000);
    assert_int_equal(fake_result_of(fake, 1)->is.rc, PORT_TIMED_OUT);
    assert_true(fake_result_of(fake, 1)->is.is_indefinite);
    fake_free(fake);
}

static void a_call_with_no_broker_times_out_and_was_not_carried_out(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake->connects_refused = UINT32_MAX;
    fake_start(fake);
    create_topic(fake, 1);
    fake_run(fake, 10000);
    assert_int_equal(fake_result_of(fake, 1)->is.rc, PORT_TIMED_OUT);
    assert_false(fake_result_of(fake, 1)->is.is_indefinite);
    struct client_view view;
    client_view(fake->client, &view);
    assert_int_equal(view.connect_rc, PORT_REFUSED);
    assert_true(fake->connects < 40); /* it backs off */
    fake_free(fake);
}

/* ---- fetch sessions ---- */

static struct fake *given_sessions(void)
{
    struct fake *fake = fake_new();
    fake->has_sessions = true;
    fake->parts = 2;
    fake->config.fetch_wait_ms = 100;
    fake_append(fake, 0, letters, 3, CODEC_NONE);
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
    fake_run(fake, 1);
    fake_run(fake, 1);
    expect_values(fake, "a b c");
    return fake;
}

static void what_a_session_knows_is_not_said_again(void **state)
{
    (void)state;
    struct fake *fake = given_sessions();
    fake_run(fake, 2000); /* some twenty fetches, whose time passes */
    assert_int_equal(fake->fetches_full, 1);
    assert_true(fake->fetches_gone_on > 10);
    assert_int_equal(fake->partitions_said, 1); /* the offset after the records, once */
    assert_int_equal(fake->partitions_forgotten, 0);
    assert_int_equal(fake_count(fake, CLIENT_AT_END), 1);
    fake_append(fake, 0, letters + 3, 2, CODEC_NONE);
    fake_run(fake, 200);
    expect_values(fake, "a b c d e");
    assert_int_equal(fake_count(fake, CLIENT_AT_END), 2);
    assert_int_equal(fake->fetches_full, 1);
    fake_free(fake);
}

static void a_partition_that_is_read_no_more_is_forgotten(void **state)
{
    (void)state;
    struct fake *fake = given_sessions();
    struct client_assignment more = {.token = 8,
                                     .topic = base_slice_text("t"),
                                     .partition = 1,
                                     .start = CLIENT_FROM_OFFSET,
                                     .reset = CLIENT_RESET_FAIL};
    assert_int_equal(client_assign(fake->client, &more), BASE_OK);
    fake_run(fake, 300);
    assert_true(fake->session.follows[0] && fake->session.follows[1]);
    client_unassign(fake->client, base_slice_text("t"), 0);
    fake_run(fake, 300);
    assert_int_equal(fake->partitions_forgotten, 1);
    assert_true(!fake->session.follows[0] && fake->session.follows[1]);
    assert_int_equal(fake->fetches_full, 1);
    fake_free(fake);
}

/* The broker has told where the partition ends, and says no more of it. */
static void the_end_is_told_to_a_new_assignment_though_the_broker_leaves_it_out(void **state)
{
    (void)state;
    struct fake *fake = given_sessions();
    fake_run(fake, 300);
    assert_int_equal(fake_count(fake, CLIENT_AT_END), 1);
    assign_from(fake, CLIENT_FROM_OFFSET, 3, CLIENT_RESET_FAIL);
    fake_run(fake, 300);
    assert_int_equal(fake_count(fake, CLIENT_AT_END), 2);
    assert_int_equal(fake->fetches_full, 1);
    fake_free(fake);
}

static void a_session_that_the_broker_forgot_is_opened_anew(void **state)
{
    (void)state;
    struct fake *fake = given_sessions();
    fake->forgets_session = true;
    fake_append(fake, 0, letters + 3, 2, CODEC_NONE);
    fake_run(fake, 300);
    expect_values(fake, "a b c d e");
    assert_int_equal(fake->fetches_full, 2);
    assert_int_equal(fake->session_closed, 0); /* there is nothing to be ended */
    fake_free(fake);
}

static void a_session_in_disorder_is_ended_and_opened_anew(void **state)
{
    (void)state;
    static const int16_t errors[] = {KAFKA_ERROR_INVALID_FETCH_SESSION_EPOCH, KAFKA_ERROR_FETCH_SESSION_TOPIC_ID_ERROR,
                                     KAFKA_ERROR_UNKNOWN_SERVER_ERROR};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(errors); i++) {
        struct fake *fake = given_sessions();
        int32_t before = fake->session.id;
        fake->session_error = errors[i];
        fake_append(fake, 0, letters + 3, 2, CODEC_NONE);
        fake_run(fake, 1000);
        expect_values(fake, "a b c d e");
        assert_int_equal(fake->session_closed, before);
        assert_true(fake->session.id != before);
        assert_true(fake->fetches_gone_on > 1);
        fake_free(fake);
    }
}

static void without_room_for_a_session_each_fetch_is_a_full_one(void **state)
{
    (void)state;
    struct fake *fake = given_sessions();
    fake->has_sessions = false;
    fake->forgets_session = true;
    fake_append(fake, 0, letters + 3, 2, CODEC_NONE);
    fake_run(fake, 1000);
    expect_values(fake, "a b c d e");
    uint32_t gone_on = fake->fetches_gone_on;
    fake_run(fake, 1000);
    assert_true(fake->fetches_full > 5);
    assert_int_equal(fake->fetches_gone_on, gone_on);
    fake_free(fake);
}

static void an_old_broker_is_not_asked_for_a_session(void **state)
{
    (void)state;
    struct fake *fake = fake_new();
    fake->version_max[KAFKA_API_FETCH] = 6;
    fake_append(fake, 0, letters, 3, CODEC_NONE);
    fake_start(fake);
    assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
    fake_run(fake, 100);
    expect_values(fake, "a b c");
    assert_int_equal(fake->fetches_full + fake->fetches_gone_on, 0);
    fake_free(fake);
}

static void a_partition_that_gives_nothing_but_errors_fails_when_patience_has_an_end(void **state)
{
    (void)state;
    for (uint64_t patience_ms = 0; patience_ms <= 500; patience_ms += 500) {
        struct fake *fake = fake_new();
        fake->config.read_patience_ms = patience_ms;
        fake_append(fake, 0, letters, 2, CODEC_NONE);
        fake_start(fake);
        fake->fetch_error_count = 16;
        for (uint32_t i = 0; i < 16; i++) { fake->fetch_errors[i] = KAFKA_ERROR_KAFKA_STORAGE_ERROR; }
        assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
        fake_run(fake, 4000);
        if (patience_ms == 0) {
            expect_values(fake, "a b");
        } else {
            assert_int_equal(fake_count(fake, CLIENT_FAILED), 1);
            assert_int_equal(fake->results[0].is.error, KAFKA_ERROR_KAFKA_STORAGE_ERROR);
            assert_true(fake->fetch_errors_used > 2);
        }
        fake_free(fake);
    }
}

/* Others answer, and of this one nobody can be asked. */
static void a_leader_that_is_not_there_fails_its_partition_when_patience_has_an_end(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct fake *fake = fake_new();
        bool is_patient_for_ever = i % 2 == 0;
        fake->config.read_patience_ms = is_patient_for_ever ? 0 : 500;
        fake->is_leaderless = i < 2;
        fake->leader_port = i < 2 ? 0 : 9099;
        fake_start(fake);
        assign_from(fake, CLIENT_FROM_BEGINNING, 0, CLIENT_RESET_FAIL);
        fake_run(fake, 400);
        assert_int_equal(fake->result_count, 0);
        fake_run(fake, 4000);
        assert_int_equal(fake_count(fake, CLIENT_FAILED), is_patient_for_ever ? 0 : 1);
        if (!is_patient_for_ever) { assert_int_equal(fake->results[0].is.error, KAFKA_ERROR_LEADER_NOT_AVAILABLE); }
        fake_free(fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partition_is_read_from_its_beginning_in_order),
        cmocka_unit_test(every_compression_is_opened),
        cmocka_unit_test(what_a_session_knows_is_not_said_again),
        cmocka_unit_test(a_partition_that_is_read_no_more_is_forgotten),
        cmocka_unit_test(the_end_is_told_to_a_new_assignment_though_the_broker_leaves_it_out),
        cmocka_unit_test(a_session_that_the_broker_forgot_is_opened_anew),
        cmocka_unit_test(a_session_in_disorder_is_ended_and_opened_anew),
        cmocka_unit_test(without_room_for_a_session_each_fetch_is_a_full_one),
        cmocka_unit_test(an_old_broker_is_not_asked_for_a_session),
        cmocka_unit_test(an_offset_inside_a_batch_begins_there),
        cmocka_unit_test(the_end_shows_what_comes_later),
        cmocka_unit_test(a_time_begins_at_the_first_record_that_is_as_new),
        cmocka_unit_test(an_offset_out_of_range_fails_or_resets_as_told),
        cmocka_unit_test(a_moved_leader_is_looked_up_again),
        cmocka_unit_test(a_rotten_batch_fails_its_partition),
        cmocka_unit_test(a_partition_that_gives_nothing_but_errors_fails_when_patience_has_an_end),
        cmocka_unit_test(a_leader_that_is_not_there_fails_its_partition_when_patience_has_an_end),
        cmocka_unit_test(a_partition_that_gave_records_comes_last_into_the_next_fetch),
        cmocka_unit_test(a_full_fetch_that_is_refused_is_not_sent_again_at_once),
        cmocka_unit_test(a_first_batch_that_is_cut_fails_its_partition),
        cmocka_unit_test(answers_cut_at_any_byte_give_the_same_records),
        cmocka_unit_test(a_reader_that_is_behind_stops_the_fetching),
        cmocka_unit_test(what_is_not_assigned_any_more_is_not_shown),
        cmocka_unit_test(a_record_says_which_topic_it_was_fetched_from_though_another_has_followed),
        cmocka_unit_test(an_old_broker_is_fetched_from_by_name),
        cmocka_unit_test(a_missing_topic_fails_its_assignment),
        cmocka_unit_test(a_call_waits_for_a_node_and_gets_its_answer),
        cmocka_unit_test(a_broker_that_is_not_the_controller_is_asked_again),
        cmocka_unit_test(calls_are_said_in_every_version),
        cmocka_unit_test(a_group_is_asked_about_in_every_version_up_to_the_one_that_is_wanted),
        cmocka_unit_test(a_coordinator_that_is_not_ready_is_asked_again),
        cmocka_unit_test(a_call_that_nobody_knows_is_refused),
        cmocka_unit_test(a_call_without_an_answer_may_have_been_carried_out),
        cmocka_unit_test(a_call_with_no_broker_times_out_and_was_not_carried_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
