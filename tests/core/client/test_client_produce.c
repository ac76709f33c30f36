/* test_client_produce.c: what becomes of a record.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct fake *given_broker(void)
{
    struct fake *fake = fake_new();
    return fake;
}

static void expect(const struct fake *fake, uint64_t token, enum client_outcome outcome, int16_t error)
{
    const struct fake_result *result = fake_result_of(fake, token);
    assert_int_equal(result->is.kind, CLIENT_PRODUCED);
    assert_int_equal(result->is.error, error);
    assert_int_equal(result->is.outcome, outcome);
}

static void produce(struct fake *fake, uint64_t token, const char *value)
{
    assert_int_equal(fake_produce(fake, token, 0, NULL, value), BASE_OK);
}

static void each_record_is_acked_with_its_offset(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake_start(fake);
    produce(fake, 1, "a");
    produce(fake, 2, "b");
    fake_run(fake, 1000);
    produce(fake, 3, "c");
    fake_run(fake, 1000);
    for (uint64_t token = 1; token <= 3; token++) {
        expect(fake, token, CLIENT_ACKED, 0);
        assert_int_equal(fake_result_of(fake, token)->is.offset, token - 1);
    }
    assert_string_equal(fake_values(fake, 0), "a b c");
    fake_free(fake);
}

static void answers_cut_at_any_byte_say_the_same(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 40; cut++) {
        struct fake *fake = given_broker();
        fake->recv_bytes_max = cut;
        fake_start(fake);
        produce(fake, 1, "a");
        fake_run(fake, 1000);
        expect(fake, 1, CLIENT_ACKED, 0);
        fake_free(fake);
    }
}

static void every_compression_reaches_the_log(void **state)
{
    (void)state;
    for (enum codec_kind kind = CODEC_NONE; kind <= CODEC_ZSTD; kind++) {
        struct fake *fake = given_broker();
        fake->config.compression = kind;
        fake_start(fake);
        produce(fake, 1, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        produce(fake, 2, "b");
        fake_run(fake, 1000);
        expect(fake, 2, CLIENT_ACKED, 0);
        assert_string_equal(fake_values(fake, 0), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b");
        fake_free(fake);
    }
}

static void keys_go_where_java_sends_them(void **state)
{
    (void)state;
    /* From Utils.murmur2 of kafka-clients, its own test's values. */
    assert_int_equal((int32_t)client_murmur2(base_slice_text("21")), -973932308);
    assert_int_equal((int32_t)client_murmur2(base_slice_text("foobar")), -790332482);
    assert_int_equal((int32_t)client_murmur2(base_slice_text("a-little-bit-long-string")), -985981536);
    assert_int_equal((int32_t)client_murmur2(base_slice_text("a-little-bit-longer-string")), -1486304829);
    assert_int_equal((int32_t)client_murmur2(base_slice_text("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8")),
                     -58897971);
    assert_int_equal((int32_t)client_murmur2(base_slice_text("abc")), 479470107);
    struct fake *fake = given_broker();
    fake->parts = 4;
    fake_start(fake);
    assert_int_equal(fake_produce(fake, 1, -1, "foobar", "x"), BASE_OK);
    fake_run(fake, 1000);
    assert_int_equal(fake_result_of(fake, 1)->is.partition, (-790332482 & 0x7fffffff) % 4);
    fake_free(fake);
}

static void records_without_a_key_stay_together_until_their_batch_is_full(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->parts = 4;
    fake_start(fake);
    for (uint64_t token = 1; token <= 20; token++) {
        assert_int_equal(fake_produce(fake, token, -1, NULL, "x"), BASE_OK);
    }
    fake_run(fake, 1000);
    for (uint64_t token = 2; token <= 20; token++) {
        assert_int_equal(fake_result_of(fake, token)->is.partition, fake_result_of(fake, 1)->is.partition);
    }
    fake_free(fake);
}

static void a_retriable_error_is_retried_in_order(void **state)
{
    (void)state;
    static const int16_t errors[] = {KAFKA_ERROR_LEADER_NOT_AVAILABLE, KAFKA_ERROR_NOT_ENOUGH_REPLICAS,
                                     KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER, KAFKA_ERROR_KAFKA_STORAGE_ERROR,
                                     KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct fake *fake = given_broker();
        fake->config.batch_bytes = 80; /* one record a batch */
        fake->produce_errors[0] = errors[i];
        fake->produce_error_count = 1;
        fake_start(fake);
        char value[16];
        for (uint64_t token = 1; token <= 6; token++) {
            (void)snprintf(value, sizeof value, "v%02u-0123456789", (unsigned)token);
            produce(fake, token, value);
        }
        fake_run(fake, 3000);
        for (uint64_t token = 1; token <= 6; token++) { expect(fake, token, CLIENT_ACKED, 0); }
        assert_string_equal(fake_values(fake, 0), "v01-0123456789 v02-0123456789 v03-0123456789 v04-0123456789 "
                                                  "v05-0123456789 v06-0123456789");
        fake_free(fake);
    }
}

static void a_definite_error_means_that_the_record_is_not_there(void **state)
{
    (void)state;
    static const int16_t errors[] = {KAFKA_ERROR_MESSAGE_TOO_LARGE, KAFKA_ERROR_TOPIC_AUTHORIZATION_FAILED,
                                     KAFKA_ERROR_INVALID_RECORD};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct fake *fake = given_broker();
        fake->produce_errors[0] = errors[i];
        fake->produce_error_count = 1;
        fake_start(fake);
        produce(fake, 1, "a");
        fake_run(fake, 1000);
        produce(fake, 2, "b"); /* under another producer id: the sequence of the first is lost */
        fake_run(fake, 1000);
        expect(fake, 1, CLIENT_REFUSED, errors[i]);
        expect(fake, 2, CLIENT_ACKED, 0);
        assert_string_equal(fake_values(fake, 0), "b");
        assert_int_equal(fake->requests[KAFKA_API_INIT_PRODUCER_ID], 2);
        fake_free(fake);
    }
}

static void a_lost_answer_is_asked_for_again_and_nothing_is_doubled(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->config.batch_bytes = 80;
    fake->lose_answers = 3;
    fake_start(fake);
    produce(fake, 1, "first-0123456789");
    produce(fake, 2, "second-0123456789");
    produce(fake, 3, "third-0123456789");
    fake_run(fake, 10000);
    for (uint64_t token = 1; token <= 3; token++) {
        expect(fake, token, CLIENT_ACKED, 0);
        assert_int_equal(fake_result_of(fake, token)->is.offset, token - 1);
    }
    assert_string_equal(fake_values(fake, 0), "first-0123456789 second-0123456789 third-0123456789");
    fake_free(fake);
}

static void a_lost_request_is_sent_again(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->lose_requests = 2;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 10000);
    expect(fake, 1, CLIENT_ACKED, 0);
    assert_string_equal(fake_values(fake, 0), "a");
    fake_free(fake);
}

static void without_idempotence_a_lost_answer_may_double(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->config.idempotence = CLIENT_NOT_IDEMPOTENT;
    fake->lose_answers = 1;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 10000);
    expect(fake, 1, CLIENT_ACKED, 0);
    assert_int_equal(fake_times(fake, 0, "a"), 2);
    fake_free(fake);
}

static void what_may_have_been_written_ends_as_unknown_when_its_time_is_up(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->lose_answers = UINT32_MAX;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 60000);
    assert_int_equal(fake_result_of(fake, 1)->is.outcome, CLIENT_UNKNOWN);
    assert_int_equal(fake_times(fake, 0, "a"), 1);
    fake->lose_answers = 0;
    produce(fake, 2, "b"); /* goes on under another id */
    fake_run(fake, 5000);
    expect(fake, 2, CLIENT_ACKED, 0);
    assert_string_equal(fake_values(fake, 0), "a b");
    fake_free(fake);
}

static void a_request_without_an_answer_times_out_and_is_sent_again(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake_start(fake);
    fake_run(fake, 1000);
    produce(fake, 1, "a");
    fake->drops_requests = true;
    fake_run(fake, 2500);
    fake->drops_requests = false;
    fake_run(fake, 5000);
    expect(fake, 1, CLIENT_ACKED, 0);
    assert_int_equal(fake_times(fake, 0, "a"), 1);
    fake_free(fake);
}

static void a_producer_that_the_broker_forgot_takes_another_id(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 1000);
    fake->forgets_producers = true;
    produce(fake, 2, "b");
    fake_run(fake, 2000);
    expect(fake, 2, CLIENT_ACKED, 0);
    assert_string_equal(fake_values(fake, 0), "a b");
    assert_int_equal(fake->requests[KAFKA_API_INIT_PRODUCER_ID], 2);
    fake_free(fake);
}

static void an_error_after_the_append_is_unknown_but_never_doubled(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->error_after_append = true;
    for (uint32_t i = 0; i < 64; i++) { fake->produce_errors[i] = KAFKA_ERROR_NOT_ENOUGH_REPLICAS_AFTER_APPEND; }
    fake->produce_error_count = 3;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 5000);
    expect(fake, 1, CLIENT_ACKED, 0);
    assert_int_equal(fake_times(fake, 0, "a"), 1);
    fake_free(fake);
}

static void without_acks_a_record_is_acked_when_it_left(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->config.acks = CLIENT_ACKS_NONE;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 1000);
    expect(fake, 1, CLIENT_ACKED, 0);
    assert_int_equal(fake_result_of(fake, 1)->is.offset, -1);
    assert_string_equal(fake_values(fake, 0), "a");
    fake_free(fake);
}

static void a_topic_that_stays_missing_refuses_its_records(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->has_topic = false;
    fake_start(fake);
    produce(fake, 1, "a");
    produce(fake, 2, "b");
    fake_run(fake, 30000);
    expect(fake, 1, CLIENT_REFUSED, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    expect(fake, 2, CLIENT_REFUSED, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    fake_free(fake);
}

static void a_topic_that_comes_late_gets_what_waited_for_it(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->has_topic = false;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 1000);
    fake->has_topic = true;
    fake_run(fake, 1000);
    expect(fake, 1, CLIENT_ACKED, 0);
    fake_free(fake);
}

static void a_partition_that_is_not_there_refuses(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake_start(fake);
    assert_int_equal(fake_produce(fake, 1, 3, NULL, "a"), BASE_OK);
    fake_run(fake, 1000);
    expect(fake, 1, CLIENT_REFUSED, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(fake_produce(fake, 2, 3, NULL, "a"), BASE_OK);
    fake_run(fake, 1000);
    expect(fake, 2, CLIENT_REFUSED, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    fake_free(fake);
}

/* Together with one of the others it is too large for a request, and they are always there first. */
static void a_large_batch_has_its_turn_among_small_ones(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    char large[501];
    memset(large, 'x', 500);
    large[500] = '\0';
    fake->parts = 2;
    fake->config.batch_bytes = 80; /* one record a batch */
    fake->config.request_bytes = 600;
    fake_start(fake);
    for (int32_t i = 0; i < 2; i++) { assert_int_equal(fake_produce(fake, 1, i, NULL, "first-0123456789"), BASE_OK); }
    fake_run(fake, 1000);
    fake->result_count = 0;
    for (uint64_t token = 2; token <= 30; token++) { produce(fake, token, "small-0123456789"); }
    assert_int_equal(fake_produce(fake, 99, 1, NULL, large), BASE_OK);
    fake_run(fake, 1000);
    assert_int_equal(fake_count(fake, CLIENT_PRODUCED), 30);
    uint32_t before = 0;
    while (fake->results[before].is.token != 99) { before += 1; }
    assert_true(before < 15);
    fake_free(fake);
}

/* Nothing else may happen for minutes: the step that took it asks for another one. */
static void a_refusal_of_a_known_topic_is_there_at_once(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 1000);
    assert_int_equal(fake_produce(fake, 2, 3, NULL, "b"), BASE_OK);
    port_out_begin(&fake->out);
    client_turn(fake->client, &fake->out); /* the end of the step in which it was taken */
    assert_int_equal(fake->out.effect_count, 0);
    assert_true(fake->out.wants_continue);
    fake_run(fake, 0);
    expect(fake, 2, CLIENT_REFUSED, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    fake_free(fake);
}

/* A partition is missing, and another one there twice: such an answer can't be relied on. */
static void metadata_that_name_a_partition_twice_are_no_metadata(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->parts = 2;
    fake->is_one_said_twice = true;
    fake_start(fake);
    assert_int_equal(fake_produce(fake, 1, 1, NULL, "a"), BASE_OK);
    fake_run(fake, 1000);
    assert_int_equal(fake_count(fake, CLIENT_PRODUCED), 0);
    fake->is_one_said_twice = false;
    fake_run(fake, 1000);
    expect(fake, 1, CLIENT_ACKED, 0);
    fake_free(fake);
}

static void an_unexpected_error_leaves_it_open_whether_it_was_written(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->produce_errors[0] = KAFKA_ERROR_UNKNOWN_SERVER_ERROR;
    fake->produce_error_count = 1;
    fake->error_after_append = true;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 1000);
    expect(fake, 1, CLIENT_UNKNOWN, KAFKA_ERROR_UNKNOWN_SERVER_ERROR);
    assert_string_equal(fake_values(fake, 0), "a");
    fake_free(fake);
}

static void a_leaderless_partition_refuses_when_the_time_is_up(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->is_leaderless = true;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 30000);
    expect(fake, 1, CLIENT_REFUSED, KAFKA_ERROR_REQUEST_TIMED_OUT);
    fake_free(fake);
}

/* A failed sync says nothing about the disk: after a restart the bytes may be there. */
static void a_storage_error_leaves_it_open_whether_it_was_written(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->config.delivery_timeout_ms = 500;
    for (uint32_t i = 0; i < 64; i++) { fake->produce_errors[i] = KAFKA_ERROR_KAFKA_STORAGE_ERROR; }
    fake->produce_error_count = 64;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 3000);
    assert_int_equal(fake_result_of(fake, 1)->is.outcome, CLIENT_UNKNOWN);
    fake_free(fake);
}

static void memory_is_bounded_and_comes_back(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->is_leaderless = true;
    fake->config.records_max = 100000;
    fake->memory_bytes = client_region_bytes_min(&fake->config) + (1 << 16);
    fake_start(fake);
    fake_run(fake, 1000);
    char value[2001];
    memset(value, 'v', 2000);
    value[2000] = '\0';
    uint64_t taken = 0;
    while (fake_produce(fake, taken + 1, 0, NULL, value) == BASE_OK) { taken += 1; }
    assert_true(taken > 50 && taken < 2000);
    fake->is_leaderless = false;
    fake_run(fake, 10000);
    assert_int_equal(fake_count(fake, CLIENT_PRODUCED), taken);
    for (uint64_t token = 1; token <= taken; token++) { expect(fake, token, CLIENT_ACKED, 0); }
    fake_free(fake);
}

static void records_beyond_the_limit_wait_for_a_poll(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->config.records_max = 3;
    fake_start(fake);
    produce(fake, 1, "a");
    produce(fake, 2, "b");
    produce(fake, 3, "c");
    assert_int_equal(fake_produce(fake, 4, 0, NULL, "d"), BASE_FULL);
    fake_run(fake, 1000);
    assert_int_equal(fake_produce(fake, 4, 0, NULL, "d"), BASE_OK);
    fake_run(fake, 1000);
    expect(fake, 4, CLIENT_ACKED, 0);
    fake_free(fake);
}

static void a_record_that_never_fits_is_bad(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->config.record_bytes_max = 1000;
    fake_start(fake);
    char value[1001];
    memset(value, 'v', 1000);
    value[1000] = '\0';
    assert_int_equal(fake_produce(fake, 1, 0, NULL, value), BASE_BAD);
    fake_free(fake);
}

static void a_closed_client_gives_every_record_an_end(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake_start(fake);
    produce(fake, 3, "before");
    fake_run(fake, 1000);
    fake->drops_requests = true;
    produce(fake, 1, "in flight");
    fake_run(fake, 100);
    produce(fake, 2, "waiting");
    client_close(fake->client);
    fake_run(fake, 1000);
    assert_int_equal(fake_result_of(fake, 1)->is.outcome, CLIENT_UNKNOWN);
    assert_int_equal(fake_result_of(fake, 2)->is.outcome, CLIENT_REFUSED);
    fake_free(fake);
}

static void an_old_broker_is_spoken_to_in_old_versions(void **state)
{
    (void)state;
    struct fake *fake = given_broker(); /* Kafka 2.1 */
    fake->is_old = true;
    fake->version_max[KAFKA_API_API_VERSIONS] = 2;
    fake->version_max[KAFKA_API_METADATA] = 7;
    fake->version_max[KAFKA_API_PRODUCE] = 7;
    fake->version_max[KAFKA_API_INIT_PRODUCER_ID] = 1;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 1000);
    expect(fake, 1, CLIENT_ACKED, 0);
    assert_int_equal(fake->versions[KAFKA_API_PRODUCE], 7);
    assert_int_equal(fake->versions[KAFKA_API_METADATA], 7);
    fake_free(fake);
}

static void a_broker_without_producer_ids_refuses_or_is_spared_them(void **state)
{
    (void)state;
    struct fake *fake = given_broker();
    fake->version_max[KAFKA_API_INIT_PRODUCER_ID] = -1;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 1000);
    expect(fake, 1, CLIENT_REFUSED, KAFKA_ERROR_UNSUPPORTED_VERSION);
    fake_free(fake);
    fake = given_broker();
    fake->config.idempotence = CLIENT_IDEMPOTENT_IF_ABLE;
    fake->version_max[KAFKA_API_INIT_PRODUCER_ID] = -1;
    fake_start(fake);
    produce(fake, 1, "a");
    fake_run(fake, 1000);
    expect(fake, 1, CLIENT_ACKED, 0);
    fake_free(fake);
}

static void random_faults_lose_and_double_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct fake *fake = given_broker();
        struct base_prng dice;
        base_prng_init(&dice, seed, 9);
        fake->config.seed = seed;
        fake->config.batch_bytes = 120;
        fake->recv_bytes_max = 1 + base_prng_below(&dice, 200);
        static const int16_t errors[] = {0, 0, KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER, KAFKA_ERROR_NOT_ENOUGH_REPLICAS,
                                         KAFKA_ERROR_REQUEST_TIMED_OUT};
        for (uint32_t i = 0; i < 20; i++) { fake->produce_errors[i] = errors[base_prng_below(&dice, 5)]; }
        fake->produce_error_count = 20;
        fake->error_after_append = base_prng_chance(&dice, 1, 2);
        fake_start(fake);
        uint64_t token = 0;
        for (uint32_t round = 0; round < 20; round++) {
            char value[32];
            for (uint64_t i = base_prng_below(&dice, 6); i > 0; i--) {
                token += 1;
                (void)snprintf(value, sizeof value, "r%llu", (unsigned long long)token);
                produce(fake, token, value);
            }
            if (base_prng_chance(&dice, 1, 4)) { fake->lose_answers += 1; }
            if (base_prng_chance(&dice, 1, 4)) { fake->lose_requests += 1; }
            fake_run(fake, base_prng_below(&dice, 300));
        }
        fake->lose_answers = 0;
        fake->lose_requests = 0;
        fake_run(fake, 30000);
        char expected[4096];
        size_t used = 0;
        for (uint64_t i = 1; i <= token; i++) {
            expect(fake, i, CLIENT_ACKED, 0);
            used += (size_t)snprintf(expected + used, sizeof expected - used, "%sr%llu", i == 1 ? "" : " ",
                                     (unsigned long long)i);
        }
        if (token > 0) { assert_string_equal(fake_values(fake, 0), expected); }
        fake_free(fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_storage_error_leaves_it_open_whether_it_was_written),
        cmocka_unit_test(each_record_is_acked_with_its_offset),
        cmocka_unit_test(answers_cut_at_any_byte_say_the_same),
        cmocka_unit_test(every_compression_reaches_the_log),
        cmocka_unit_test(keys_go_where_java_sends_them),
        cmocka_unit_test(records_without_a_key_stay_together_until_their_batch_is_full),
        cmocka_unit_test(a_retriable_error_is_retried_in_order),
        cmocka_unit_test(a_definite_error_means_that_the_record_is_not_there),
        cmocka_unit_test(a_lost_answer_is_asked_for_again_and_nothing_is_doubled),
        cmocka_unit_test(a_lost_request_is_sent_again),
        cmocka_unit_test(without_idempotence_a_lost_answer_may_double),
        cmocka_unit_test(what_may_have_been_written_ends_as_unknown_when_its_time_is_up),
        cmocka_unit_test(a_request_without_an_answer_times_out_and_is_sent_again),
        cmocka_unit_test(a_producer_that_the_broker_forgot_takes_another_id),
        cmocka_unit_test(an_error_after_the_append_is_unknown_but_never_doubled),
        cmocka_unit_test(without_acks_a_record_is_acked_when_it_left),
        cmocka_unit_test(a_topic_that_stays_missing_refuses_its_records),
        cmocka_unit_test(a_topic_that_comes_late_gets_what_waited_for_it),
        cmocka_unit_test(a_partition_that_is_not_there_refuses),
        cmocka_unit_test(a_large_batch_has_its_turn_among_small_ones),
        cmocka_unit_test(a_refusal_of_a_known_topic_is_there_at_once),
        cmocka_unit_test(metadata_that_name_a_partition_twice_are_no_metadata),
        cmocka_unit_test(an_unexpected_error_leaves_it_open_whether_it_was_written),
        cmocka_unit_test(a_leaderless_partition_refuses_when_the_time_is_up),
        cmocka_unit_test(memory_is_bounded_and_comes_back),
        cmocka_unit_test(records_beyond_the_limit_wait_for_a_poll),
        cmocka_unit_test(a_record_that_never_fits_is_bad),
        cmocka_unit_test(a_closed_client_gives_every_record_an_end),
        cmocka_unit_test(an_old_broker_is_spoken_to_in_old_versions),
        cmocka_unit_test(a_broker_without_producer_ids_refuses_or_is_spared_them),
        cmocka_unit_test(random_faults_lose_and_double_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
