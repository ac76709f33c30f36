/* test_broker_order.c: what one connection asks is begun in the order in which it was asked, though one finds no memory.
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

#define VERSION      9
#define BATCH_BYTES  100
#define FRAME_MAX    400
#define MS           UINT64_C(1000000)
#define DECODE_TAKES 1 /* of memory, by a request that finds none: where a page is too much, more is not asked for */

static const char topic_name[] = "t";

/* A Produce whose batch begins with the byte `mark`. */
static size_t put_produce(uint8_t *at, size_t size_bytes, uint8_t mark)
{
    uint8_t batch[BATCH_BYTES];
    memset(batch, 0, sizeof batch);
    batch[0] = mark;
    return shard_put_produce(at, size_bytes, VERSION, -1, mark, topic_name, base_slice_of(batch, sizeof batch));
}

static void receive_produces(struct shard *shard, uint32_t slot, uint8_t first, uint8_t last,
                             void (*before)(struct shard *shard))
{
    uint8_t bytes[4 * FRAME_MAX];
    size_t used_bytes = 0;
    for (uint8_t mark = first; mark <= last; mark++) {
        used_bytes += put_produce(bytes + used_bytes, sizeof bytes - used_bytes, mark);
    }
    shard_receive(shard, slot, bytes, used_bytes, before);
}

/* The marks of what the other shard was asked to append, in order. */
static const char *appended(const struct shard *shard)
{
    static char marks[16];
    size_t count = 0;
    for (uint32_t i = 0; i < shard->told_count; i++) {
        if (shard->told[i].kind != MSG_APPEND) { continue; }
        assert_true(count + 1 < sizeof marks);
        marks[count++] = (char)*(const uint8_t *)shard->told[i].lent;
    }
    marks[count] = '\0';
    return marks;
}

static void refuse_the_next(struct shard *shard) { base_pages_refuse(shard->broker->pages, 1, DECODE_TAKES); }

static void what_is_produced_behind_a_request_that_finds_no_memory_waits_for_it(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    assert_true(shard->is_ready);
    (void)shard_topic(shard, topic_name, false);
    uint32_t slot = shard_connect(shard);
    receive_produces(shard, slot, 'a', 'b', refuse_the_next);
    assert_int_equal(base_pages_refused(shard->broker->pages), DECODE_TAKES);
    for (uint32_t i = 0; i < 10; i++) { shard_wait(shard, shard->now_ns + 11 * MS); }
    assert_string_equal(appended(shard), "ab");
    shard_free(shard);
}

static void refuse_many(struct shard *shard) { base_pages_refuse(shard->broker->pages, 1, 3 * DECODE_TAKES); }

/* Each time the first one finds no memory it goes behind the others in the line of all connections, and stays before them in its own. */
static void those_that_wait_keep_their_order_however_often_the_first_one_finds_no_memory(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    (void)shard_topic(shard, topic_name, false);
    uint32_t slot = shard_connect(shard);
    receive_produces(shard, slot, 'a', 'd', refuse_many);
    for (uint32_t i = 0; i < 10; i++) { shard_wait(shard, shard->now_ns + 11 * MS); }
    assert_int_equal(base_pages_refused(shard->broker->pages), 3 * DECODE_TAKES);
    assert_string_equal(appended(shard), "abcd");
    shard_free(shard);
}

/* A session that follows a topic which is not there: each fetch of it is answered at once. */
static int32_t given_a_session(struct shard *shard)
{
    struct fetchsession_item item = {.name = base_slice_text("none"), .bytes_max = 100, .leader_epoch = -1};
    int32_t id = fetchsession_open(shard->broker->sessions, &item, 1, false, false, 0);
    assert_int_not_equal(id, FETCHSESSION_NONE);
    return id;
}

static size_t put_fetch(uint8_t *at, size_t size_bytes, int32_t session, int32_t epoch)
{
    struct kafka_fetch_request fetch;
    kafka_fetch_request_init(&fetch);
    fetch.max_bytes = 1000;
    fetch.session_id = session;
    fetch.session_epoch = epoch;
    return shard_put_request(at, size_bytes, KAFKA_MESSAGE_FETCH_REQUEST, 12, epoch, &fetch);
}

/* The second one would have the session, and could not be answered before the first one, which would wait for the session. */
static void two_fetches_that_find_no_memory_end(void (*refuse)(struct shard *shard), uint32_t refused)
{
    struct shard *shard = shard_make(0);
    shard_start(shard);
    int32_t session = given_a_session(shard);
    uint32_t slot = shard_connect(shard);
    uint8_t bytes[2 * FRAME_MAX];
    size_t used_bytes = put_fetch(bytes, FRAME_MAX, session, 1);
    used_bytes += put_fetch(bytes + used_bytes, FRAME_MAX, session, 1);
    shard_receive(shard, slot, bytes, used_bytes, refuse);
    assert_int_equal(base_pages_refused(shard->broker->pages), refused);
    for (uint32_t i = 0; i < 10; i++) { shard_wait(shard, shard->now_ns + 11 * MS); }
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

/* Both are decoded; then the first one's list of the session finds none. */
static void refuse_the_third(struct shard *shard) { base_pages_refuse(shard->broker->pages, 3, 1); }

static void two_fetches_with_the_same_epoch_do_not_wait_for_each_other(void **state)
{
    (void)state;
    two_fetches_that_find_no_memory_end(refuse_the_next, DECODE_TAKES);
    two_fetches_that_find_no_memory_end(refuse_the_third, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_produced_behind_a_request_that_finds_no_memory_waits_for_it),
        cmocka_unit_test(those_that_wait_keep_their_order_however_often_the_first_one_finds_no_memory),
        cmocka_unit_test(two_fetches_with_the_same_epoch_do_not_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
