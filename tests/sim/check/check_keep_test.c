/* check_keep_test.c: a broker whose retention takes what it may not, or leaves what it must take, is told: I1, I25.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "record/record.h"
#include "stream.h"
#include "talk.h"
#include "wire/kafka/delete_records.h"
#include "wire/kafka/kafka.h"

enum { FIRST_MS = 100000000, BATCH_BYTES = 100 };

static const struct base_part part = {.topic = {{9, 9, 9}}, .index = 0};

struct fixture {
    struct check_report report;
    struct check_stream *stream;
    uint32_t slots;
};

static struct fixture *given(int64_t bytes, int64_t age_ms)
{
    static struct fixture fixture;
    fixture = (struct fixture){.slots = 0};
    fixture.stream = check_stream_create(&fixture.report);
    check_stream_keeps(fixture.stream, "t", bytes, age_ms);
    return &fixture;
}

/* A segment of `count` batches, of one record and about BATCH_BYTES each, a second after one another. */
static void write_segment(struct fixture *f, int64_t base, int64_t count)
{
    char path[64];
    (void)snprintf(path, sizeof path, "t-0/%020lld.log", (long long)base);
    struct port_file file = {.shard = 0, .slot = ++f->slots, .generation = 1};
    struct port_effect open = {.kind = PORT_OPEN, .file = file, .path = base_slice_text(path)};
    check_stream_effect(f->stream, 0, &open);
    uint64_t position = 0;
    for (int64_t i = 0; i < count; i++) {
        static const uint8_t value[BATCH_BYTES];
        uint8_t bytes[512];
        struct rec_build build;
        assert_int_equal(rec_build_init(&build, bytes, sizeof bytes, rec_build_plain()), BASE_OK);
        int64_t at_ms = FIRST_MS + (base + i) * 1000;
        assert_int_equal(rec_build_add(&build, at_ms, rec_null(), rec_value_of(base_slice_of(value, sizeof value)),
                                       NULL, 0),
                         BASE_OK);
        struct base_slice batch = rec_build_end(&build);
        rec_assign(bytes, base + i, 0);
        struct port_piece piece = {.kind = PORT_MEMORY, .at = batch.at, .size_bytes = batch.size_bytes};
        struct port_effect write = {
            .kind = PORT_WRITE, .file = file, .position_bytes = position, .pieces = &piece, .piece_count = 1};
        check_stream_effect(f->stream, 0, &write);
        position += batch.size_bytes;
    }
}

static void see(struct fixture *f, int64_t start, int64_t end, int64_t wall_ms)
{
    struct port_event event = {.kind = PORT_EVENT_TURN, .wall_ms = wall_ms};
    check_stream_event(f->stream, 0, &event, (struct base_slice){.at = NULL});
    struct check_log log = {
        .id = part, .topic = base_slice_text("t"), .offset_start = start, .offset_end = end, .watermark = 0};
    check_stream_log(f->stream, &log, true);
}

static void expect_only(struct fixture *f, const char *id)
{
    if (id == NULL && f->report.count > 0) { fail_msg("%s: %s", f->report.breaches[0].id, f->report.breaches[0].text); }
    if (id != NULL) {
        assert_int_equal(f->report.count, 1);
        assert_string_equal(f->report.breaches[0].id, id);
    }
    check_stream_destroy(f->stream);
}

static void a_segment_may_go_when_enough_comes_after_it(void **state)
{
    (void)state;
    struct fixture *f = given(2 * BATCH_BYTES, -1);
    write_segment(f, 0, 2);
    write_segment(f, 2, 2);
    see(f, 0, 4, FIRST_MS);
    see(f, 2, 4, FIRST_MS);
    check_stream_kept(f->stream, true);
    expect_only(f, NULL);
}

static void a_segment_that_goes_when_too_little_comes_after_it_is_I1(void **state)
{
    (void)state;
    struct fixture *f = given(6 * BATCH_BYTES, -1);
    write_segment(f, 0, 2);
    write_segment(f, 2, 2);
    see(f, 0, 4, FIRST_MS);
    see(f, 2, 4, FIRST_MS);
    expect_only(f, "I1");
}

static void see_again_after_a_power_cut(struct fixture *f, bool is_page_cache)
{
    struct check_log log = {
        .id = part, .topic = base_slice_text("t"), .offset_end = 6, .watermark = 0, .is_page_cache = is_page_cache};
    check_stream_log(f->stream, &log, true);
    check_stream_crash(f->stream, CHECK_POWER);
    log.offset_start = 2;
    log.offset_end = 4;
    check_stream_log(f->stream, &log, true);
}

static void what_the_power_took_of_a_page_cache_log_came_after_a_segment_that_went(void **state)
{
    (void)state;
    for (int is_page_cache = 0; is_page_cache < 2; is_page_cache++) {
        struct fixture *f = given(4 * BATCH_BYTES, -1);
        for (int64_t base = 0; base < 6; base += 2) { write_segment(f, base, 2); }
        see_again_after_a_power_cut(f, is_page_cache == 1);
        bool is_told = check_has(&f->report, "I1");
        assert_int_equal(is_told, is_page_cache == 0);
        check_stream_destroy(f->stream);
    }
}

static void a_start_inside_of_a_segment_is_I1(void **state)
{
    (void)state;
    struct fixture *f = given(1, -1);
    write_segment(f, 0, 4);
    see(f, 0, 4, FIRST_MS);
    see(f, 2, 4, FIRST_MS);
    expect_only(f, "I1");
}

static void a_segment_may_go_when_its_newest_record_is_old(void **state)
{
    (void)state;
    struct fixture *f = given(-1, 5000);
    write_segment(f, 0, 2);
    write_segment(f, 2, 2);
    see(f, 0, 4, FIRST_MS);
    see(f, 2, 4, FIRST_MS + 1000 + 5001);
    expect_only(f, NULL);
}

static void a_segment_that_goes_when_only_its_first_record_is_old_is_I1(void **state)
{
    (void)state;
    struct fixture *f = given(-1, 5000);
    write_segment(f, 0, 2);
    write_segment(f, 2, 2);
    see(f, 0, 4, FIRST_MS);
    see(f, 2, 4, FIRST_MS + 5001);
    expect_only(f, "I1");
}

static void what_was_from_the_future_when_the_clock_was_behind_may_go_by_how_far_the_clock_went(void **state)
{
    (void)state;
    enum { HOUR_MS = 3600000 };
    struct fixture *f = given(-1, 5000);
    write_segment(f, 0, 2);
    write_segment(f, 2, 2);
    see(f, 0, 4, FIRST_MS - 2 * HOUR_MS);
    see(f, 2, 4, FIRST_MS - 2 * HOUR_MS + 5001);
    expect_only(f, NULL);
}

static void what_was_from_the_future_and_goes_before_the_clock_went_so_far_is_I1(void **state)
{
    (void)state;
    enum { HOUR_MS = 3600000 };
    struct fixture *f = given(-1, 5000);
    write_segment(f, 0, 2);
    write_segment(f, 2, 2);
    see(f, 0, 4, FIRST_MS - 2 * HOUR_MS);
    see(f, 2, 4, FIRST_MS - 2 * HOUR_MS + 5000);
    expect_only(f, "I1");
}

static void a_topic_without_retention_keeps_all(void **state)
{
    (void)state;
    struct fixture *f = given(-1, -1);
    write_segment(f, 0, 2);
    write_segment(f, 2, 2);
    see(f, 0, 4, FIRST_MS);
    see(f, 2, 4, FIRST_MS + 1000000);
    expect_only(f, "I1");
}

static void ask_to_delete_before(struct fixture *f, int64_t offset)
{
    struct kafka_delete_records_request_delete_records_partition wanted;
    kafka_delete_records_request_delete_records_partition_init(&wanted);
    wanted.offset = offset;
    struct kafka_delete_records_request_delete_records_topic of;
    kafka_delete_records_request_delete_records_topic_init(&of);
    of.name = kafka_text_words("t");
    of.partitions = &wanted;
    of.partitions_count = 1;
    struct kafka_delete_records_request request;
    kafka_delete_records_request_init(&request);
    request.topics = &of;
    request.topics_count = 1;
    talk_ask((struct talk){.stream = f->stream, .api_key = KAFKA_API_DELETE_RECORDS, .version = 2}, &request);
}

static void a_start_moves_to_where_a_client_asked_and_no_further(void **state)
{
    (void)state;
    for (int64_t asked = 0; asked < 4; asked++) {
        struct fixture *f = given(-1, -1);
        write_segment(f, 0, 2);
        write_segment(f, 2, 2);
        see(f, 0, 4, FIRST_MS);
        ask_to_delete_before(f, asked);
        see(f, 2, 4, FIRST_MS);
        expect_only(f, asked < 2 ? "I1" : NULL);
    }
    struct fixture *f = given(-1, -1);
    write_segment(f, 0, 2);
    see(f, 0, 2, FIRST_MS);
    ask_to_delete_before(f, -1); /* the watermark */
    see(f, 2, 2, FIRST_MS);
    expect_only(f, NULL);
}

static void a_segment_that_stays_when_enough_comes_after_it_is_I25(void **state)
{
    (void)state;
    struct fixture *f = given(2 * BATCH_BYTES, -1);
    write_segment(f, 0, 2);
    write_segment(f, 2, 2);
    see(f, 0, 4, FIRST_MS);
    check_stream_kept(f->stream, true);
    expect_only(f, "I25");
}

static void a_segment_that_stays_when_it_is_old_is_I25(void **state)
{
    (void)state;
    struct fixture *f = given(-1, 5000);
    write_segment(f, 0, 2);
    see(f, 0, 2, FIRST_MS + 20000);
    check_stream_kept(f->stream, true);
    expect_only(f, "I25");
}

static void with_a_wrong_clock_an_old_one_may_stay(void **state)
{
    (void)state;
    struct fixture *f = given(-1, 5000);
    write_segment(f, 0, 2);
    see(f, 0, 2, FIRST_MS + 20000);
    check_stream_kept(f->stream, false);
    expect_only(f, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_may_go_when_enough_comes_after_it),
        cmocka_unit_test(a_segment_that_goes_when_too_little_comes_after_it_is_I1),
        cmocka_unit_test(what_the_power_took_of_a_page_cache_log_came_after_a_segment_that_went),
        cmocka_unit_test(a_start_inside_of_a_segment_is_I1),
        cmocka_unit_test(a_segment_may_go_when_its_newest_record_is_old),
        cmocka_unit_test(a_segment_that_goes_when_only_its_first_record_is_old_is_I1),
        cmocka_unit_test(what_was_from_the_future_when_the_clock_was_behind_may_go_by_how_far_the_clock_went),
        cmocka_unit_test(what_was_from_the_future_and_goes_before_the_clock_went_so_far_is_I1),
        cmocka_unit_test(a_topic_without_retention_keeps_all),
        cmocka_unit_test(a_start_moves_to_where_a_client_asked_and_no_further),
        cmocka_unit_test(a_segment_that_stays_when_enough_comes_after_it_is_I25),
        cmocka_unit_test(a_segment_that_stays_when_it_is_old_is_I25),
        cmocka_unit_test(with_a_wrong_clock_an_old_one_may_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
