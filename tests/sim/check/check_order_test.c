/* check_order_test.c: records of one connection that are appended in another order than they were sent are told: I9.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/record.h"
#include "stream.h"
#include "talk.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/produce.h"

#define BATCH_BYTES (REC_HEADER_BYTES + 8)

struct fixture {
    struct check_report report;
    struct check_stream *stream;
    uint64_t position_bytes;
    int16_t acks, version;
    int64_t producer_id;
};

static const struct port_file segment_file = {.shard = 0, .slot = 2, .generation = 1};

static struct fixture *given(int16_t acks, int64_t producer_id)
{
    static struct fixture fixture;
    fixture = (struct fixture){.acks = acks, .version = 13, .producer_id = producer_id};
    fixture.stream = check_stream_create(&fixture.report);
    struct port_effect open = {.kind = PORT_OPEN,
                               .file = segment_file,
                               .path = base_slice_text("t-0/00000000000000000000.log")};
    check_stream_effect(fixture.stream, 0, &open);
    return &fixture;
}

/* Its one record is `mark`, which is its sequence too. */
static void make_batch(const struct fixture *f, uint8_t mark, int64_t offset, uint8_t batch_out[BATCH_BYTES])
{
    memset(batch_out, mark, BATCH_BYTES);
    memset(batch_out, 0, REC_HEADER_BYTES);
    base_put_u64(batch_out + REC_BASE_OFFSET_AT, (uint64_t)offset);
    base_put_u32(batch_out + REC_LENGTH_AT, BATCH_BYTES - REC_LENGTH_PREFIX_BYTES);
    batch_out[REC_MAGIC_AT] = 2;
    base_put_u64(batch_out + REC_PRODUCER_ID_AT, (uint64_t)f->producer_id);
    base_put_u32(batch_out + REC_BASE_SEQUENCE_AT, f->producer_id < 0 ? UINT32_MAX : mark);
    base_put_u32(batch_out + REC_RECORD_COUNT_AT, 1);
}

static void send_to(const struct fixture *f, uint32_t slot, int32_t partition_index, uint8_t mark)
{
    uint8_t batch[BATCH_BYTES];
    make_batch(f, mark, 0, batch);
    struct kafka_produce_request_partition_produce_data partition;
    kafka_produce_request_partition_produce_data_init(&partition);
    partition.index = partition_index;
    partition.records = kafka_records_of(batch, sizeof batch);
    struct kafka_produce_request_topic_produce_data topic;
    kafka_produce_request_topic_produce_data_init(&topic);
    if (f->version >= 13) {
        topic.topic_id = (struct base_uuid){{7}};
    } else {
        topic.name = kafka_text_words("t");
    }
    topic.partition_data = &partition;
    topic.partition_data_count = 1;
    struct kafka_produce_request request;
    kafka_produce_request_init(&request);
    request.acks = f->acks;
    request.topic_data = &topic;
    request.topic_data_count = 1;
    talk_ask((struct talk){.stream = f->stream,
                           .conn = {.slot = slot, .generation = 1},
                           .api_key = KAFKA_API_PRODUCE,
                           .version = f->version,
                           .correlation = mark},
             &request);
}

static void send(const struct fixture *f, uint32_t slot, uint8_t mark) { send_to(f, slot, 0, mark); }

/* As one write, in the order of `marks`; the offset and what a broker stamps are its own. */
static void append(struct fixture *f, const char *marks)
{
    uint8_t bytes[8 * BATCH_BYTES];
    size_t size_bytes = 0;
    for (; *marks != 0; marks++, size_bytes += BATCH_BYTES) {
        make_batch(f, (uint8_t)*marks, (int64_t)(f->position_bytes + size_bytes) / BATCH_BYTES, bytes + size_bytes);
        base_put_u32(bytes + size_bytes + REC_CRC_AT, 12345);
        base_put_u64(bytes + size_bytes + REC_MAX_TIMESTAMP_AT, 1700000000000);
    }
    struct port_piece piece = {.at = bytes, .size_bytes = size_bytes};
    struct port_effect write = {.kind = PORT_WRITE,
                                .file = segment_file,
                                .position_bytes = f->position_bytes,
                                .pieces = &piece,
                                .piece_count = 1};
    check_stream_effect(f->stream, 0, &write);
    f->position_bytes += size_bytes;
}

static void expect(struct fixture *f, uint64_t judged, uint32_t breaches)
{
    assert_int_equal(check_stream_counts(f->stream)->orders_judged, judged);
    assert_int_equal(f->report.count, breaches);
    if (breaches > 0) { assert_string_equal(f->report.breaches[0].id, "I9"); }
    check_stream_destroy(f->stream);
}

static void what_is_appended_in_its_order_is_right(void **state)
{
    (void)state;
    struct fixture *f = given(-1, REC_NO_PRODUCER_ID);
    send(f, 1, 'a');
    send(f, 1, 'b');
    append(f, "a");
    send(f, 1, 'c');
    append(f, "bc");
    expect(f, 3, 0);
}

static void what_overtakes_is_told_whatever_answer_is_wanted(void **state)
{
    (void)state;
    static const int16_t acks[] = {-1, 0, 1};
    static const int64_t producer_ids[] = {REC_NO_PRODUCER_ID, 4711};
    for (size_t i = 0; i < 3 * 2 * 2; i++) {
        struct fixture *f = given(acks[i % 3], producer_ids[i / 3 % 2]);
        f->version = i / 6 == 0 ? 13 : 9; /* by the topic's name */
        send(f, 1, 'a');
        send(f, 1, 'b');
        append(f, "b");
        append(f, "a");
        expect(f, 2, 1);
    }
}

static void what_overtakes_within_one_write_is_told(void **state)
{
    (void)state;
    struct fixture *f = given(-1, REC_NO_PRODUCER_ID);
    send(f, 1, 'a');
    send(f, 1, 'b');
    send(f, 1, 'c');
    append(f, "acb");
    expect(f, 3, 1);
}

static void other_connections_and_partitions_have_an_order_of_their_own(void **state)
{
    (void)state;
    struct fixture *f = given(-1, REC_NO_PRODUCER_ID);
    send(f, 1, 'a');
    send(f, 2, 'b');
    send_to(f, 2, 1, 'c');
    send(f, 2, 'd');
    append(f, "dc");
    append(f, "a");
    expect(f, 3, 0);
}

static void what_was_refused_and_what_is_written_again_overtake_nothing(void **state)
{
    (void)state;
    struct fixture *f = given(-1, REC_NO_PRODUCER_ID);
    send(f, 1, 'a'); /* never written */
    send(f, 1, 'b');
    send(f, 1, 'c');
    append(f, "b");
    append(f, "c");
    f->position_bytes = 0;
    append(f, "b"); /* by a start that finds it in the journal */
    expect(f, 2, 0);
}

static void what_was_sent_twice_may_be_either(void **state)
{
    (void)state;
    struct fixture *f = given(-1, REC_NO_PRODUCER_ID);
    send(f, 1, 'a'); /* refused */
    send(f, 1, 'b');
    append(f, "b");
    send(f, 1, 'a');
    append(f, "a");
    expect(f, 1, 0);
}

static void what_was_sent_once_and_is_appended_twice_is_told(void **state)
{
    (void)state;
    struct fixture *f = given(1, REC_NO_PRODUCER_ID);
    send(f, 1, 'a');
    append(f, "aa");
    expect(f, 1, 1);
}

static void what_was_sent_twice_may_be_appended_twice(void **state)
{
    (void)state;
    struct fixture *f = given(1, REC_NO_PRODUCER_ID);
    send(f, 1, 'a');
    append(f, "a");
    send(f, 2, 'a');
    append(f, "a");
    expect(f, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_appended_in_its_order_is_right),
        cmocka_unit_test(what_overtakes_is_told_whatever_answer_is_wanted),
        cmocka_unit_test(what_overtakes_within_one_write_is_told),
        cmocka_unit_test(other_connections_and_partitions_have_an_order_of_their_own),
        cmocka_unit_test(what_was_refused_and_what_is_written_again_overtake_nothing),
        cmocka_unit_test(what_was_sent_twice_may_be_either),
        cmocka_unit_test(what_was_sent_once_and_is_appended_twice_is_told),
        cmocka_unit_test(what_was_sent_twice_may_be_appended_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
