/* test_broker_patience.c: what a front does with requests for groups before a coordinator has them.
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
#include "wire/kafka/delete_groups.h"
#include "wire/kafka/heartbeat.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/leave_group.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_delete.h"
#include "wire/kafka/offset_fetch.h"
#include "wire/kafka/sync_group.h"

#define BYTES_MAX 1000
#define S         UINT64_C(1000000000)

/* A group whose coordinator is the other shard, which answers nothing by itself. */
static const char *group_of_the_other(const struct shard *shard)
{
    static char name[] = "a";
    for (name[0] = 'a';; name[0]++) {
        assert_true(name[0] <= 'z');
        uint32_t log = group_log_of(base_slice_text(name), shard->broker->config.coordinator_groups);
        if (shard_of(shard->broker, coordinator_part(log)) != shard->number) { return name; }
    }
}

static struct shard *given_shard(void)
{
    struct shard *shard = shard_make(0);
    shard_start(shard);
    assert_true(shard->is_ready);
    return shard;
}

static size_t put_commit(const struct shard *shard, uint8_t *at, size_t size_bytes)
{
    struct kafka_offset_commit_request request;
    kafka_offset_commit_request_init(&request);
    request.group_id = kafka_text_words(group_of_the_other(shard));
    request.generation_id_or_member_epoch = -1;
    return shard_put_request(at, size_bytes, KAFKA_MESSAGE_OFFSET_COMMIT_REQUEST, 8, 1, &request);
}

static size_t put_fetch(const struct shard *shard, uint8_t *at, size_t size_bytes, bool is_stable)
{
    struct kafka_offset_fetch_request request;
    kafka_offset_fetch_request_init(&request);
    request.group_id = kafka_text_words(group_of_the_other(shard));
    request.require_stable = is_stable;
    return shard_put_request(at, size_bytes, KAFKA_MESSAGE_OFFSET_FETCH_REQUEST, 7, 1, &request);
}

static size_t put_join(const struct shard *shard, uint8_t *at, size_t size_bytes)
{
    struct kafka_join_group_request request;
    kafka_join_group_request_init(&request);
    request.group_id = kafka_text_words(group_of_the_other(shard));
    return shard_put_request(at, size_bytes, KAFKA_MESSAGE_JOIN_GROUP_REQUEST, 5, 1, &request);
}

static size_t put_sync(const struct shard *shard, uint8_t *at, size_t size_bytes)
{
    struct kafka_sync_group_request request;
    kafka_sync_group_request_init(&request);
    request.group_id = kafka_text_words(group_of_the_other(shard));
    return shard_put_request(at, size_bytes, KAFKA_MESSAGE_SYNC_GROUP_REQUEST, 4, 1, &request);
}

static size_t put_heartbeat(const struct shard *shard, uint8_t *at, size_t size_bytes)
{
    struct kafka_heartbeat_request request;
    kafka_heartbeat_request_init(&request);
    request.group_id = kafka_text_words(group_of_the_other(shard));
    return shard_put_request(at, size_bytes, KAFKA_MESSAGE_HEARTBEAT_REQUEST, 4, 1, &request);
}

static size_t put_leave(const struct shard *shard, uint8_t *at, size_t size_bytes)
{
    struct kafka_leave_group_request request;
    kafka_leave_group_request_init(&request);
    request.group_id = kafka_text_words(group_of_the_other(shard));
    return shard_put_request(at, size_bytes, KAFKA_MESSAGE_LEAVE_GROUP_REQUEST, 4, 1, &request);
}

static size_t put_offset_delete(const struct shard *shard, uint8_t *at, size_t size_bytes)
{
    struct kafka_offset_delete_request request;
    kafka_offset_delete_request_init(&request);
    request.group_id = kafka_text_words(group_of_the_other(shard));
    return shard_put_request(at, size_bytes, KAFKA_MESSAGE_OFFSET_DELETE_REQUEST, 0, 1, &request);
}

static size_t put_delete(const struct shard *shard, uint8_t *at, size_t size_bytes)
{
    struct kafka_text name = kafka_text_words(group_of_the_other(shard));
    struct kafka_delete_groups_request request;
    kafka_delete_groups_request_init(&request);
    request.groups_names = &name;
    request.groups_names_count = 1;
    return shard_put_request(at, size_bytes, KAFKA_MESSAGE_DELETE_GROUPS_REQUEST, 2, 1, &request);
}

static struct group_loan *asked_last(const struct shard *shard) { return shard_told_last(shard, MSG_GROUP)->lent; }

static struct group_loan *asked_first(const struct shard *shard)
{
    uint32_t i = 0;
    while (shard->told[i].kind != MSG_GROUP) { i += 1; }
    return shard->told[i].lent;
}

/* The other shard says so. */
static void answer(struct shard *shard, struct group_loan *loan, const void *response)
{
    struct port_message message;
    memset(&message, 0, sizeof message);
    message.kind = MSG_GROUPED;
    message.to = (uint16_t)shard->number;
    loan->response = response;
    put_asker(&message, 0, loan->asker);
    shard_tell(shard, &message);
}

static void answer_join(struct shard *shard, struct group_loan *loan, int16_t error)
{
    struct kafka_join_group_response joined;
    kafka_join_group_response_init(&joined);
    joined.error_code = error;
    joined.protocol_name = kafka_text_words("");
    answer(shard, loan, &joined);
}

static void answer_sync(struct shard *shard, struct group_loan *loan)
{
    struct kafka_sync_group_response synced;
    kafka_sync_group_response_init(&synced);
    answer(shard, loan, &synced);
}

static struct group_loan *join(struct shard *shard, uint32_t slot)
{
    uint8_t bytes[BYTES_MAX];
    shard_receive(shard, slot, bytes, put_join(shard, bytes, sizeof bytes), NULL);
    return asked_last(shard);
}

static struct group_loan *sync(struct shard *shard, uint32_t slot)
{
    uint8_t bytes[BYTES_MAX];
    shard_receive(shard, slot, bytes, put_sync(shard, bytes, sizeof bytes), NULL);
    return asked_last(shard);
}

/* Whether a place is left for one more that joins: it is refused, or gives it back. */
static bool has_place(struct shard *shard, uint32_t slot)
{
    struct group_loan *loan = join(shard, slot);
    bool is_refused = loan->request.refusal != KAFKA_ERROR_NONE;
    answer_join(shard, loan, KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    return !is_refused;
}

/* A shard where one may wait; it has joined, and is to sync. */
static struct shard *given_one_that_has_joined(uint32_t *slot_out, uint32_t *other_out)
{
    struct shard *shard = given_shard();
    shard->broker->patient_max[GROUP_JOIN] = 1;
    shard->broker->patient_max[GROUP_SYNC] = 1;
    *slot_out = shard_connect(shard);
    *other_out = shard_connect(shard);
    struct group_loan *loan = join(shard, *slot_out);
    assert_int_equal(loan->request.refusal, KAFKA_ERROR_NONE);
    answer_join(shard, loan, KAFKA_ERROR_NONE);
    return shard;
}

static void an_offset_fetch_sees_what_its_connection_has_committed_before(void **state)
{
    (void)state;
    struct shard *shard = given_shard();
    uint8_t bytes[BYTES_MAX];
    uint32_t slot = shard_connect(shard);
    uint32_t other = shard_connect(shard);
    size_t used_bytes = put_commit(shard, bytes, sizeof bytes);
    used_bytes += put_fetch(shard, bytes + used_bytes, sizeof bytes - used_bytes, false);
    shard_receive(shard, slot, bytes, used_bytes, NULL);
    assert_int_equal(shard_told(shard, MSG_GROUP), 1);
    shard_receive(shard, other, bytes, put_fetch(shard, bytes, sizeof bytes, true), NULL);
    assert_int_equal(shard_told(shard, MSG_GROUP), 2); /* another connection's is not behind it */
    assert_true(asked_last(shard)->request.is_ordered);
    struct kafka_offset_commit_response response;
    kafka_offset_commit_response_init(&response);
    answer(shard, asked_first(shard), &response);
    assert_int_equal(shard_told(shard, MSG_GROUP), 3);
    assert_int_equal(asked_last(shard)->request.kind, GROUP_FETCH);
    assert_false(asked_last(shard)->request.is_ordered);
    shard_free(shard);
}

/* They share their syncs. */
static void commits_of_a_connection_do_not_wait_for_each_other(void **state)
{
    (void)state;
    struct shard *shard = given_shard();
    uint8_t bytes[BYTES_MAX];
    uint32_t slot = shard_connect(shard);
    size_t used_bytes = 0;
    for (uint32_t i = 0; i < 3; i++) { used_bytes += put_commit(shard, bytes + used_bytes, sizeof bytes - used_bytes); }
    shard_receive(shard, slot, bytes, used_bytes, NULL);
    assert_int_equal(shard_told(shard, MSG_GROUP), 3);
    shard_free(shard);
}

/* A heartbeat behind it is asked once it is answered. */
static void expect_held_by(size_t (*put)(const struct shard *shard, uint8_t *at, size_t size_bytes),
                           enum group_kind kind, const void *response)
{
    struct shard *shard = given_shard();
    uint8_t bytes[BYTES_MAX];
    uint32_t slot = shard_connect(shard);
    size_t used_bytes = put(shard, bytes, sizeof bytes);
    used_bytes += put_heartbeat(shard, bytes + used_bytes, sizeof bytes - used_bytes);
    shard_receive(shard, slot, bytes, used_bytes, NULL);
    assert_int_equal(shard_told(shard, MSG_GROUP), 1);
    assert_int_equal(asked_last(shard)->request.kind, kind);
    answer(shard, asked_last(shard), response);
    assert_int_equal(shard_told(shard, MSG_GROUP), 2);
    assert_int_equal(asked_last(shard)->request.kind, GROUP_HEARTBEAT);
    shard_free(shard);
}

static void behind_what_changes_a_group_nothing_of_its_connection_is_worked(void **state)
{
    (void)state;
    struct kafka_offset_commit_response committed;
    kafka_offset_commit_response_init(&committed);
    expect_held_by(put_commit, GROUP_COMMIT, &committed);
    struct kafka_leave_group_response left;
    kafka_leave_group_response_init(&left);
    expect_held_by(put_leave, GROUP_LEAVE, &left);
    struct kafka_offset_delete_response taken;
    kafka_offset_delete_response_init(&taken);
    expect_held_by(put_offset_delete, GROUP_OFFSET_DELETE, &taken);
    struct kafka_delete_groups_response_deletable_group_result gone;
    kafka_delete_groups_response_deletable_group_result_init(&gone);
    gone.group_id = kafka_text_words("");
    expect_held_by(put_delete, GROUP_DELETE, &gone);
}

static void behind_a_join_group_nothing_of_its_connection_is_worked(void **state)
{
    (void)state;
    struct shard *shard = given_shard();
    uint8_t bytes[BYTES_MAX];
    uint32_t slot = shard_connect(shard);
    size_t used_bytes = put_join(shard, bytes, sizeof bytes);
    used_bytes += put_sync(shard, bytes + used_bytes, sizeof bytes - used_bytes);
    used_bytes += put_heartbeat(shard, bytes + used_bytes, sizeof bytes - used_bytes);
    shard_receive(shard, slot, bytes, used_bytes, NULL);
    assert_int_equal(shard_told(shard, MSG_GROUP), 1);
    assert_int_equal(shard->broker->requests.taken_count, 1);
    struct kafka_join_group_response joined;
    kafka_join_group_response_init(&joined);
    joined.protocol_name = kafka_text_words("");
    answer(shard, asked_last(shard), &joined);
    assert_int_equal(shard_told(shard, MSG_GROUP), 2);
    assert_int_equal(asked_last(shard)->request.kind, GROUP_SYNC);
    struct kafka_sync_group_response synced;
    kafka_sync_group_response_init(&synced);
    answer(shard, asked_last(shard), &synced);
    assert_int_equal(asked_last(shard)->request.kind, GROUP_HEARTBEAT);
    shard_free(shard);
}

static void those_that_wait_for_their_groups_leave_requests_to_others(void **state)
{
    (void)state;
    struct shard *shard = given_shard();
    uint32_t requests = shard->broker->requests.slots_max;
    assert_int_equal(shard->broker->patient_max[GROUP_JOIN], requests / 2);
    assert_int_equal(shard->broker->patient_max[GROUP_SYNC], requests - requests / 4);
    shard->broker->patient_max[GROUP_JOIN] = 1;
    shard->broker->patient_max[GROUP_SYNC] = 2;
    uint8_t bytes[BYTES_MAX];
    uint32_t slots[5];
    for (uint32_t i = 0; i < 5; i++) { slots[i] = shard_connect(shard); }
    shard_receive(shard, slots[0], bytes, put_join(shard, bytes, sizeof bytes), NULL);
    struct group_loan *first = asked_last(shard);
    assert_int_equal(first->request.refusal, KAFKA_ERROR_NONE);
    shard_receive(shard, slots[1], bytes, put_sync(shard, bytes, sizeof bytes), NULL);
    assert_int_equal(asked_last(shard)->request.refusal, KAFKA_ERROR_NONE);
    shard_receive(shard, slots[2], bytes, put_join(shard, bytes, sizeof bytes), NULL);
    struct group_loan *refused = asked_last(shard);
    assert_int_equal(refused->request.refusal, KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    shard_receive(shard, slots[3], bytes, put_heartbeat(shard, bytes, sizeof bytes), NULL);
    assert_int_equal(asked_last(shard)->request.refusal, KAFKA_ERROR_NONE);
    answer_join(shard, first, KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    answer_join(shard, refused, KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(shard->broker->patient_count, 1);
    shard_receive(shard, slots[4], bytes, put_sync(shard, bytes, sizeof bytes), NULL);
    assert_int_equal(asked_last(shard)->request.refusal, KAFKA_ERROR_NONE);
    shard_free(shard);
}

static void whoever_has_joined_keeps_its_place_until_it_has_synced(void **state)
{
    (void)state;
    uint32_t slot;
    uint32_t other;
    struct shard *shard = given_one_that_has_joined(&slot, &other);
    assert_false(has_place(shard, other));
    struct group_loan *loan = sync(shard, slot);
    assert_int_equal(loan->request.kind, GROUP_SYNC);
    assert_int_equal(loan->request.refusal, KAFKA_ERROR_NONE);
    assert_false(has_place(shard, other));
    answer_sync(shard, loan);
    assert_int_equal(shard->broker->patient_count, 0);
    assert_true(has_place(shard, other));
    shard_free(shard);
}

static void whoever_joins_anew_has_its_place_already(void **state)
{
    (void)state;
    uint32_t slot;
    uint32_t other;
    struct shard *shard = given_one_that_has_joined(&slot, &other);
    assert_true(has_place(shard, slot));
    assert_int_equal(shard->broker->patient_count, 0);
    assert_true(has_place(shard, other));
    shard_free(shard);
}

static void a_place_that_is_kept_goes_with_its_connection(void **state)
{
    (void)state;
    uint32_t slot;
    uint32_t other;
    struct shard *shard = given_one_that_has_joined(&slot, &other);
    shard_complete_receive(shard, slot, PORT_EOF, NULL, 0);
    shard_run(shard);
    assert_int_equal(shard->broker->patient_count, 0);
    assert_true(has_place(shard, other));
    shard_free(shard);
}

static void no_place_is_kept_for_a_connection_that_went_while_it_joined(void **state)
{
    (void)state;
    struct shard *shard = given_shard();
    shard->broker->patient_max[GROUP_JOIN] = 1;
    uint32_t slot = shard_connect(shard);
    uint32_t other = shard_connect(shard);
    struct group_loan *loan = join(shard, slot);
    shard_complete_receive(shard, slot, PORT_RESET, NULL, 0);
    shard_run(shard);
    assert_false(has_place(shard, other)); /* it waits for its group still */
    answer_join(shard, loan, KAFKA_ERROR_NONE);
    assert_int_equal(shard->broker->patient_count, 0);
    assert_true(has_place(shard, other));
    shard_free(shard);
}

static void a_place_that_is_kept_for_too_long_goes_to_who_asks_for_one(void **state)
{
    (void)state;
    uint32_t slot;
    uint32_t other;
    struct shard *shard = given_one_that_has_joined(&slot, &other);
    shard_wait(shard, shard->now_ns + 59 * S);
    assert_false(has_place(shard, other));
    shard_wait(shard, shard->now_ns + 2 * S);
    assert_true(has_place(shard, other));
    assert_int_equal(shard->broker->patient_count, 0);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_offset_fetch_sees_what_its_connection_has_committed_before),
        cmocka_unit_test(commits_of_a_connection_do_not_wait_for_each_other),
        cmocka_unit_test(behind_what_changes_a_group_nothing_of_its_connection_is_worked),
        cmocka_unit_test(behind_a_join_group_nothing_of_its_connection_is_worked),
        cmocka_unit_test(those_that_wait_for_their_groups_leave_requests_to_others),
        cmocka_unit_test(whoever_has_joined_keeps_its_place_until_it_has_synced),
        cmocka_unit_test(whoever_joins_anew_has_its_place_already),
        cmocka_unit_test(a_place_that_is_kept_goes_with_its_connection),
        cmocka_unit_test(no_place_is_kept_for_a_connection_that_went_while_it_joined),
        cmocka_unit_test(a_place_that_is_kept_for_too_long_goes_to_who_asks_for_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
