/* check_stream_test.c: a broker's stream that breaks a promise is told: I3, I4, I18, I19.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "record/record.h"
#include "stream.h"
#include "talk.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/produce.h"

#define GROUP_BYTES         4096
#define SEGMENT_WRITE_BYTES 100

struct fixture {
    struct check_report report;
    struct check_stream *stream;
    uint64_t token;
    uint8_t group[GROUP_BYTES];
    struct port_piece piece;
    uint32_t life; /* of the groups that are written */
    int32_t epoch; /* of its page-cache log */
};

static const struct port_file journal_file = {.shard = 0, .slot = 1, .generation = 1};
static const struct port_file segment_file = {.shard = 0, .slot = 2, .generation = 1};
static const struct port_file stray_file = {.shard = 0, .slot = 3, .generation = 1};
static const struct base_part part = {.topic = {{9, 9, 9}}, .index = 0};

static struct fixture *given(void)
{
    static struct fixture fixture;
    fixture = (struct fixture){.stream = NULL};
    fixture.stream = check_stream_create(&fixture.report);
    return &fixture;
}

static void done_with(struct fixture *f) { check_stream_destroy(f->stream); }

static uint64_t ask(struct fixture *f, struct port_effect effect)
{
    effect.token = ++f->token;
    check_stream_effect(f->stream, 0, &effect);
    return f->token;
}

static void done(struct fixture *f, enum port_effect_kind kind, struct port_file file, uint64_t token, enum port_rc rc,
                 uint64_t count)
{
    struct port_event event = {.kind = PORT_EVENT_DONE};
    event.done.effect = kind;
    event.done.file = file;
    event.done.token = token;
    event.done.rc = rc;
    event.done.count = count;
    check_stream_event(f->stream, 0, &event, (struct base_slice){.at = NULL});
}

static void open_file(struct fixture *f, struct port_file file, const char *path)
{
    uint64_t token = ask(f, (struct port_effect){.kind = PORT_OPEN, .file = file, .path = base_slice_text(path)});
    done(f, PORT_OPEN, file, token, PORT_OK, 0);
}

/* Asks for a write of the group, at its place. */
static uint64_t ask_group(struct fixture *f, uint64_t sequence)
{
    base_put_u64(f->group + 32, sequence);
    f->piece = (struct port_piece){.at = f->group, .size_bytes = GROUP_BYTES};
    return ask(f, (struct port_effect){.kind = PORT_WRITE,
                                       .file = journal_file,
                                       .position_bytes = sequence * GROUP_BYTES,
                                       .pieces = &f->piece,
                                       .piece_count = 1});
}

/* A journal group with one run of `part`, as docs/formats/journal.md has it. */
static uint64_t write_run(struct fixture *f, int64_t base, int64_t end, bool has_bytes, uint64_t sequence)
{
    memset(f->group, 0, sizeof f->group);
    base_put_u32(f->group, 0x574a4731);
    base_put_u32(f->group + 24, f->life);
    base_put_u32(f->group + 28, 1);
    uint8_t *row = f->group + 128;
    row[1] = has_bytes ? 1 : 0;
    base_put_u32(row + 4, (uint32_t)part.index);
    memcpy(row + 8, part.topic.b, 16);
    base_put_u64(row + 40, (uint64_t)base);
    base_put_u64(row + 48, (uint64_t)end);
    base_put_u64(row + 64, 100);
    return ask_group(f, sequence);
}

/* A batch that begins at offset `base`, written at that position of the segment; not synced. */
static void write_segment(struct fixture *f, uint64_t position_bytes, int64_t base)
{
    uint8_t bytes[SEGMENT_WRITE_BYTES] = {0};
    base_put_u64(bytes, (uint64_t)base);
    struct port_piece piece = {.at = bytes, .size_bytes = sizeof bytes};
    uint64_t write = ask(f, (struct port_effect){.kind = PORT_WRITE,
                                                 .file = segment_file,
                                                 .position_bytes = position_bytes,
                                                 .pieces = &piece,
                                                 .piece_count = 1});
    done(f, PORT_WRITE, segment_file, write, PORT_OK, sizeof bytes);
}

static uint64_t sync_file(struct fixture *f, struct port_file file)
{
    return ask(f, (struct port_effect){.kind = PORT_SYNC, .file = file});
}

static void sync_to_end(struct fixture *f, struct port_file file, enum port_rc rc)
{
    uint64_t sync = sync_file(f, file);
    done(f, PORT_SYNC, file, sync, rc, 0);
}

static void see_log(struct fixture *f, int64_t watermark, int64_t end)
{
    struct check_log log = {.id = part, .topic = base_slice_text("t"), .offset_end = end, .watermark = watermark};
    check_stream_log(f->stream, &log, true);
}

/* A client asks to produce with acks=all, and is answered with `offset`. */
static void acknowledge(struct fixture *f, int64_t offset)
{
    struct talk talk = {.stream = f->stream,
                        .conn = {.slot = 1, .generation = 1},
                        .api_key = KAFKA_API_PRODUCE,
                        .version = 13,
                        .correlation = 1};
    struct kafka_produce_request request;
    kafka_produce_request_init(&request);
    request.acks = -1;
    talk_ask(talk, &request);

    struct kafka_produce_response_partition_produce_response of_part;
    kafka_produce_response_partition_produce_response_init(&of_part);
    of_part.index = part.index;
    of_part.base_offset = offset;
    struct kafka_produce_response_topic_produce_response topic;
    kafka_produce_response_topic_produce_response_init(&topic);
    topic.topic_id = part.topic;
    topic.partition_responses = &of_part;
    topic.partition_responses_count = 1;
    struct kafka_produce_response response;
    kafka_produce_response_init(&response);
    response.responses = &topic;
    response.responses_count = 1;
    talk_answer(talk, &response);
    assert_int_equal(check_stream_counts(f->stream)->acks_judged, 1);
}

static void expect_only(struct fixture *f, const char *id)
{
    if (id == NULL) {
        if (f->report.count > 0) { fail_msg("%s: %s", f->report.breaches[0].id, f->report.breaches[0].text); }
    } else {
        assert_int_equal(f->report.count, 1);
        assert_string_equal(f->report.breaches[0].id, id);
    }
    done_with(f);
}

static void written_then_synced_then_acknowledged_is_good(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    uint64_t write = write_run(f, 0, 5, true, 1);
    done(f, PORT_WRITE, journal_file, write, PORT_OK, GROUP_BYTES);
    sync_to_end(f, journal_file, PORT_OK);
    see_log(f, 5, 5);
    check_stream_read(f->stream, part, 4);
    acknowledge(f, 0);
    expect_only(f, NULL);
}

static void an_answer_before_the_sync_is_I19(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    uint64_t write = write_run(f, 0, 5, true, 1);
    done(f, PORT_WRITE, journal_file, write, PORT_OK, GROUP_BYTES);
    (void)sync_file(f, journal_file); /* asked, not done */
    acknowledge(f, 0);
    expect_only(f, "I19");
}

static void a_sync_asked_before_the_write_was_done_does_not_count(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    uint64_t write = write_run(f, 0, 5, true, 1);
    uint64_t sync = sync_file(f, journal_file);
    done(f, PORT_WRITE, journal_file, write, PORT_OK, GROUP_BYTES);
    done(f, PORT_SYNC, journal_file, sync, PORT_OK, 0);
    acknowledge(f, 0);
    expect_only(f, "I19");
}

static void a_short_write_is_not_synced_whole(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    uint64_t write = write_run(f, 0, 5, true, 1);
    done(f, PORT_WRITE, journal_file, write, PORT_OK, 1000);
    sync_to_end(f, journal_file, PORT_OK);
    acknowledge(f, 0);
    expect_only(f, "I19");
}

static void a_sync_after_a_failed_one_does_not_count(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    uint64_t write = write_run(f, 0, 5, true, 1);
    done(f, PORT_WRITE, journal_file, write, PORT_OK, GROUP_BYTES);
    sync_to_end(f, journal_file, PORT_IO);
    sync_to_end(f, journal_file, PORT_OK);
    acknowledge(f, 0);
    expect_only(f, "I19");
}

static void a_row_before_its_segment_is_synced_is_I19(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    open_file(f, segment_file, "t-0/00000000000000000000.log");
    see_log(f, 0, 0);
    write_segment(f, 0, 0);
    (void)write_run(f, 0, 5, false, 1); /* only the row matters */
    expect_only(f, "I19");
}

static const char *const segment_path = "t-0/00000000000000000000.log";

/* The row is written; the node ends before anybody knows whether it is synced, or after that. */
static struct fixture *given_a_row_and_a_crash(bool is_synced, enum check_crash crash)
{
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    open_file(f, segment_file, segment_path);
    see_log(f, 0, 0);
    assert_false(check_stream_is_born(f->stream, segment_path));
    uint64_t write = write_run(f, 0, 5, true, 2);
    assert_true(check_stream_is_born(f->stream, segment_path));
    done(f, PORT_WRITE, journal_file, write, PORT_OK, GROUP_BYTES);
    if (is_synced) { sync_to_end(f, journal_file, PORT_OK); }
    check_stream_crash(f->stream, crash);
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    return f;
}

static void a_segment_is_not_born_whose_row_a_crash_took(void **state)
{
    (void)state;
    for (enum check_crash crash = CHECK_POWER; crash <= CHECK_PROCESS; crash++) {
        struct fixture *f = given_a_row_and_a_crash(false, crash);
        assert_false(check_stream_is_born(f->stream, segment_path));
        (void)write_run(f, 0, 3, true, 3); /* the start found nothing, and another row names it now */
        assert_true(check_stream_is_born(f->stream, segment_path));
        expect_only(f, NULL);
        f = given_a_row_and_a_crash(true, crash);
        assert_true(check_stream_is_born(f->stream, segment_path));
        expect_only(f, NULL);
    }
}

static void a_segment_is_born_whose_row_a_start_finds_and_writes_again(void **state)
{
    (void)state;
    struct fixture *f = given_a_row_and_a_crash(false, CHECK_PROCESS);
    uint8_t page[GROUP_BYTES] = {0}; /* of another group, that nothing is known of */
    struct port_piece pieces[] = {{.at = page, .size_bytes = sizeof page}, {.at = f->group, .size_bytes = GROUP_BYTES}};
    (void)ask(f, (struct port_effect){.kind = PORT_WRITE,
                                      .file = journal_file,
                                      .position_bytes = GROUP_BYTES,
                                      .pieces = pieces,
                                      .piece_count = 2});
    assert_true(check_stream_is_born(f->stream, segment_path));
    expect_only(f, NULL);
}

static void what_is_written_anew_after_a_failed_sync_is_synced_by_the_next(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    open_file(f, segment_file, "t-0/00000000000000000000.log");
    see_log(f, 0, 0);
    for (int i = 0; i < 2; i++) {
        write_segment(f, 0, 0);
        sync_to_end(f, segment_file, i == 0 ? PORT_IO : PORT_OK);
    }
    (void)write_run(f, 0, 5, false, 1); /* only the row matters */
    assert_int_equal(f->report.count, 0);
    done_with(f);
}

static void a_watermark_past_what_is_synced_is_I3(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    (void)write_run(f, 0, 5, true, 1); /* not even done */
    see_log(f, 5, 5);
    expect_only(f, "I3");
}

static void synced(struct fixture *f, int64_t base, int64_t end, uint64_t sequence)
{
    uint64_t write = write_run(f, base, end, true, sequence);
    done(f, PORT_WRITE, journal_file, write, PORT_OK, GROUP_BYTES);
    sync_to_end(f, journal_file, PORT_OK);
}

static void a_watermark_that_falls_is_I3(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    synced(f, 0, 5, 1);
    see_log(f, 5, 5);
    see_log(f, 4, 5);
    expect_only(f, "I3");
}

static void a_read_of_what_is_not_synced_is_I4(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    synced(f, 0, 5, 1);
    check_stream_read(f->stream, part, 5);
    expect_only(f, "I4");
}

static void a_log_that_is_gone_after_recovery_is_I18(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    synced(f, 0, 5, 1);
    see_log(f, 5, 5);
    check_stream_crash(f->stream, CHECK_POWER);
    check_stream_recovered(f->stream);
    expect_only(f, "I18");
}

static void a_log_that_is_longer_after_recovery_is_I18(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    synced(f, 0, 5, 1);
    see_log(f, 5, 5);
    check_stream_crash(f->stream, CHECK_POWER);
    see_log(f, 6, 6);
    expect_only(f, "I18");
}

static void see_recovered(struct fixture *f, struct check_log log)
{
    log.id = part;
    log.topic = base_slice_text("t");
    check_stream_log(f->stream, &log, true);
}

/* A log of five records, all of them synced, and the power goes. */
static struct fixture *given_crashed(void)
{
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    synced(f, 0, 5, 1);
    see_log(f, 5, 5);
    check_stream_crash(f->stream, CHECK_POWER);
    return f;
}

static void a_log_that_is_what_it_was_after_recovery_is_good(void **state)
{
    (void)state;
    struct fixture *f = given_crashed();
    see_recovered(f, (struct check_log){.offset_end = 5, .watermark = 5});
    check_stream_recovered(f->stream);
    expect_only(f, NULL);
}

static void a_log_that_is_shorter_after_recovery_is_I18(void **state)
{
    (void)state;
    struct fixture *f = given_crashed();
    see_recovered(f, (struct check_log){.offset_end = 4, .watermark = 4});
    assert_true(f->report.count > 0); /* its watermark fell as well */
    assert_string_equal(f->report.breaches[0].id, "I18");
    done_with(f);
}

static void expect_short(struct fixture *f, bool is_told)
{
    see_recovered(f, (struct check_log){.offset_end = 4, .watermark = 4});
    assert_int_equal(f->report.count > 0, is_told);
    if (is_told) { assert_string_equal(f->report.breaches[0].id, "I18"); }
    done_with(f);
}

static void a_log_may_end_before_what_a_lost_group_of_the_journal_named(void **state)
{
    (void)state;
    struct fixture *f = given_crashed();
    check_stream_lost_rows(f->stream); /* it says so, and no bit has flipped */
    expect_short(f, true);
    f = given_crashed();
    check_stream_rotten(f->stream);
    expect_short(f, true);
    f = given_crashed();
    check_stream_rotten(f->stream);
    check_stream_lost_rows(f->stream);
    expect_short(f, false);
}

static void a_log_that_begins_elsewhere_after_recovery_is_I18(void **state)
{
    (void)state;
    struct fixture *f = given_crashed();
    see_recovered(f, (struct check_log){.offset_start = 1, .offset_end = 5, .watermark = 5});
    expect_only(f, "I18");
}

static void a_start_that_was_on_its_way_may_hold_after_recovery(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    synced(f, 0, 5, 1);
    see_recovered(f, (struct check_log){.start_next = 1, .offset_end = 5, .watermark = 5});
    check_stream_crash(f->stream, CHECK_POWER);
    see_recovered(f, (struct check_log){.offset_start = 1, .offset_end = 5, .watermark = 5});
    expect_only(f, NULL);
}

static void a_log_recovered_past_its_watermark_is_I18(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    synced(f, 0, 5, 1);
    see_log(f, 5, 6); /* one more is written, and not synced */
    check_stream_crash(f->stream, CHECK_POWER);
    see_recovered(f, (struct check_log){.offset_end = 6, .watermark = 5}); /* and kept, but not told to be there */
    expect_only(f, "I18");
}

static void a_log_that_fails_while_no_disk_does_is_I18(void **state)
{
    (void)state;
    struct fixture *f = given_crashed();
    see_recovered(f, (struct check_log){.is_failed = true});
    see_recovered(f, (struct check_log){.is_failed = true}); /* told once */
    expect_only(f, "I18");
}

static void a_log_that_fails_with_its_disk_is_not_told(void **state)
{
    (void)state;
    struct fixture *f = given_crashed();
    sync_to_end(f, journal_file, PORT_IO);
    see_recovered(f, (struct check_log){.is_failed = true});
    expect_only(f, NULL);
}

static void what_a_dead_process_left_unsynced_is_not_synced_by_reading_it(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    open_file(f, segment_file, "t-0/00000000000000000000.log");
    see_log(f, 0, 5);
    write_segment(f, 0, 0);
    check_stream_crash(f->stream, CHECK_PROCESS);
    see_log(f, 5, 5);
    expect_only(f, "I3");
}

/* A row that says where a deletion or a truncation cut. */
static void write_truncate(struct fixture *f, int64_t base, uint64_t sequence)
{
    uint64_t write = write_run(f, base, base, false, sequence); /* then the bytes that the stream sees are told again */
    done(f, PORT_WRITE, journal_file, write, PORT_OK, GROUP_BYTES);
    f->group[128] = 2;
    write = ask_group(f, sequence + 1);
    done(f, PORT_WRITE, journal_file, write, PORT_OK, GROUP_BYTES);
    sync_to_end(f, journal_file, PORT_OK);
}

static void what_was_synced_when_it_was_read_may_be_told_after_its_deletion(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    synced(f, 0, 5, 1);
    write_truncate(f, 0, 2);
    check_stream_read(f->stream, part, 4);
    assert_int_equal(f->report.count, 0);
    check_stream_read(f->stream, part, 5);
    expect_only(f, "I4");
}

static void what_a_sync_of_the_segment_covered_is_synced_though_no_row_names_it(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, segment_file, "t-0/00000000000000000000.log");
    see_log(f, 0, 8);
    write_segment(f, 0, 0);
    sync_to_end(f, segment_file, PORT_OK);
    write_segment(f, SEGMENT_WRITE_BYTES, 5); /* a later one, which nothing synced */
    check_stream_crash(f->stream, CHECK_PROCESS);
    see_log(f, 5, 5);
    assert_int_equal(f->report.count, 0);
    done_with(f);
}

static void a_row_that_never_came_to_the_journal_holds_up_none_after_the_restart(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    open_file(f, segment_file, "t-0/00000000000000000000.log");
    see_log(f, 0, 5);
    write_segment(f, 0, 0);
    sync_to_end(f, segment_file, PORT_OK);
    uint64_t write = write_run(f, 0, 5, true, 1);
    done(f, PORT_WRITE, journal_file, write, PORT_IO, 0);
    check_stream_crash(f->stream, CHECK_PROCESS);
    see_log(f, 5, 5); /* the segment had it */
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    synced(f, 5, 8, 2);
    see_log(f, 8, 8);
    assert_int_equal(f->report.count, 0);
    done_with(f);
}

static void the_header_that_a_torn_group_left_standing_names_nothing(void **state)
{
    (void)state;
    struct fixture *f = given();
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    f->life = 2;
    synced(f, 0, 5, 1);
    synced(f, 5, 8, 2);
    check_stream_crash(f->stream, CHECK_POWER);
    open_file(f, journal_file, "weir-journal/0000000000.wj");
    f->life = 1;
    synced(f, 2, 4, 3); /* a start writes once more what it read, with what was there before */
    see_log(f, 8, 8);
    expect_only(f, NULL);
}

/* ---- page-cache logs: what is written counts ---- */

static void see_page_cache(struct fixture *f, int64_t end)
{
    struct check_log log = {.id = part,
                            .topic = base_slice_text("t"),
                            .offset_end = end,
                            .watermark = end,
                            .leader_epoch = f->epoch,
                            .is_page_cache = true};
    check_stream_log(f->stream, &log, true);
}

/* Asks for a write of a batch of two records. */
static uint64_t ask_batch_in(struct fixture *f, struct port_file file, int64_t base)
{
    struct rec_build build;
    struct rec_build_config config = rec_build_plain();
    config.base_offset = base;
    CHECK(rec_build_init(&build, f->group, sizeof f->group, config) == BASE_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rec_build_add(&build, 1, rec_null(), rec_value_of(base_slice_text("value")), NULL, 0),
                         BASE_OK);
    }
    f->piece = (struct port_piece){.at = f->group, .size_bytes = rec_build_end(&build).size_bytes};
    return ask(f, (struct port_effect){.kind = PORT_WRITE,
                                       .file = file,
                                       .position_bytes = (uint64_t)base * SEGMENT_WRITE_BYTES,
                                       .pieces = &f->piece,
                                       .piece_count = 1});
}

static uint64_t ask_batch(struct fixture *f, int64_t base) { return ask_batch_in(f, segment_file, base); }

static void write_batch(struct fixture *f, int64_t base)
{
    uint64_t write = ask_batch(f, base);
    done(f, PORT_WRITE, segment_file, write, PORT_OK, f->piece.size_bytes);
    see_page_cache(f, base + 2);
}

static struct fixture *given_page_cache(void)
{
    struct fixture *f = given();
    open_file(f, segment_file, "t-0/00000000000000000000.log");
    see_page_cache(f, 0);
    return f;
}

static void a_page_cache_log_is_acknowledged_when_written_and_not_before(void **state)
{
    (void)state;
    struct fixture *f = given_page_cache();
    write_batch(f, 0);
    acknowledge(f, 1);
    check_stream_read(f->stream, part, 1);
    expect_only(f, NULL);
    f = given_page_cache();
    (void)ask_batch(f, 0); /* never done */
    acknowledge(f, 0);
    expect_only(f, "I19");
    f = given_page_cache();
    uint64_t write = ask_batch(f, 0);
    done(f, PORT_WRITE, segment_file, write, PORT_OK, 20); /* short */
    check_stream_read(f->stream, part, 0);
    expect_only(f, "I4");
}

/* Two batches, the first of them synced; then the node is gone, and back with that end. */
static struct fixture *given_crash_and_epoch(enum check_crash crash, int64_t end, int32_t epoch)
{
    struct fixture *f = given_page_cache();
    write_batch(f, 0);
    uint64_t sync = sync_file(f, segment_file);
    write_batch(f, 2);
    done(f, PORT_SYNC, segment_file, sync, PORT_OK, 0);
    check_stream_crash(f->stream, crash);
    f->epoch = epoch;
    see_page_cache(f, end);
    check_stream_recovered(f->stream);
    return f;
}

static struct fixture *given_crash(enum check_crash crash, int64_t end) { return given_crash_and_epoch(crash, end, 1); }

static void a_power_cut_takes_of_a_page_cache_log_what_was_not_synced_and_no_more(void **state)
{
    (void)state;
    expect_only(given_crash(CHECK_POWER, 4), NULL);
    struct fixture *f = given_crash(CHECK_POWER, 2);
    assert_int_equal(check_stream_counts(f->stream)->page_cache_lost, 1);
    assert_int_equal(check_stream_counts(f->stream)->page_cache_held, 1);
    expect_only(f, NULL);
    expect_only(given_crash(CHECK_POWER, 0), "I18");
    expect_only(given_crash(CHECK_POWER, 6), "I18");
}

static void a_log_that_lost_what_was_read_must_not_go_on_under_the_same_epoch(void **state)
{
    (void)state;
    expect_only(given_crash_and_epoch(CHECK_POWER, 2, 0), "I18");
    expect_only(given_crash_and_epoch(CHECK_POWER, 4, 0), NULL); /* it lost nothing */
}

static void a_dead_process_takes_nothing_of_a_page_cache_log(void **state)
{
    (void)state;
    expect_only(given_crash(CHECK_PROCESS, 4), NULL);
    expect_only(given_crash(CHECK_PROCESS, 2), "I18");
    expect_only(given_crash(CHECK_STOPPED, 2), "I18");
}

static void what_a_failed_log_recovered_is_not_known(void **state)
{
    (void)state;
    for (int64_t end = 0; end <= 2; end += 2) {
        struct fixture *f = given_page_cache();
        write_batch(f, 0);
        sync_to_end(f, segment_file, PORT_OK);
        write_batch(f, 2);
        check_stream_crash(f->stream, CHECK_POWER); /* it may have taken the second */
        open_file(f, segment_file, "t-0/00000000000000000000.log");
        sync_to_end(f, segment_file, PORT_IO);
        see_recovered(f, (struct check_log){.is_failed = true, .is_page_cache = true});
        check_stream_recovered(f->stream);
        check_stream_crash(f->stream, CHECK_STOPPED);
        f->epoch = 1;
        see_page_cache(f, end);
        expect_only(f, end == 2 ? NULL : "I18");
    }
}

static void see_flushed(struct fixture *f, int64_t start, int64_t end)
{
    struct check_log log = {.id = part,
                            .topic = base_slice_text("t"),
                            .offset_start = start,
                            .offset_end = end,
                            .watermark = end,
                            .is_page_cache = true,
                            .flush_messages = 4};
    check_stream_log(f->stream, &log, true);
}

static void fewer_records_than_flush_messages_are_acknowledged_and_not_synced(void **state)
{
    (void)state;
    for (int case_at = 0; case_at < 4; case_at++) {
        struct fixture *f = given_page_cache();
        see_flushed(f, 0, 0);
        write_batch(f, 0);
        uint64_t sync = sync_file(f, segment_file);
        if (case_at == 1) { done(f, PORT_SYNC, segment_file, sync, PORT_OK, 0); }
        if (case_at == 2) { done(f, PORT_SYNC, segment_file, sync, PORT_IO, 0); }
        write_batch(f, 2);
        see_flushed(f, case_at == 3 ? 2 : 0, 4); /* or retention took it before it was synced */
        acknowledge(f, 3);
        expect_only(f, case_at == 1 || case_at == 3 ? NULL : "I19");
    }
}

static void what_is_written_of_the_next_topic_of_that_name_is_none_of_the_deleted_one(void **state)
{
    (void)state;
    struct fixture *f = given_page_cache();
    see_flushed(f, 0, 0);
    write_batch(f, 0);
    write_batch(f, 2);
    sync_to_end(f, segment_file, PORT_OK);
    see_flushed(f, 0, 4);
    struct check_log next = {.id = {.topic = {{8}}, .index = part.index},
                             .topic = base_slice_text("t"),
                             .is_page_cache = true,
                             .flush_messages = 4};
    check_stream_log(f->stream, &next, true);
    uint64_t write = ask_batch(f, 0);
    done(f, PORT_WRITE, segment_file, write, PORT_OK, f->piece.size_bytes);
    acknowledge(f, 3); /* of the deleted one, late */
    expect_only(f, NULL);
}

static void what_a_start_left_out_of_a_log_is_not_waited_for(void **state)
{
    (void)state;
    struct fixture *f = given_page_cache();
    write_batch(f, 0);
    sync_to_end(f, segment_file, PORT_OK);
    see_flushed(f, 0, 2);
    open_file(f, stray_file, "t-0/00000000000000000004.log");
    uint64_t stray = ask_batch_in(f, stray_file, 4);
    done(f, PORT_WRITE, stray_file, stray, PORT_OK, f->piece.size_bytes);
    check_stream_crash(f->stream, CHECK_PROCESS);
    see_flushed(f, 0, 2);
    open_file(f, segment_file, "t-0/00000000000000000000.log");
    for (int64_t base = 2; base < 10; base += 2) { write_batch(f, base); }
    sync_to_end(f, segment_file, PORT_OK);
    see_flushed(f, 0, 10);
    check_stream_crash(f->stream, CHECK_PROCESS); /* the log has grown past what was left out */
    see_flushed(f, 0, 10);
    open_file(f, segment_file, "t-0/00000000000000000000.log");
    write_batch(f, 10);
    sync_to_end(f, segment_file, PORT_OK);
    see_flushed(f, 0, 12);
    acknowledge(f, 11);
    expect_only(f, NULL);
}

static void at_ms(struct fixture *f, uint64_t ms)
{
    struct port_event event = {.kind = PORT_EVENT_ALARM, .now_ns = ms * 1000000};
    check_stream_event(f->stream, 0, &event, (struct base_slice){.at = NULL});
}

static void what_is_older_than_flush_ms_is_being_synced(void **state)
{
    (void)state;
    for (int case_at = 0; case_at < 3; case_at++) {
        struct fixture *f = given_page_cache();
        check_stream_late(f->stream, 1000000000);
        struct check_log log = {
            .id = part, .topic = base_slice_text("t"), .is_page_cache = true, .flush_ms = 500, .offset_end = 2};
        at_ms(f, 100);
        uint64_t write = ask_batch(f, 0);
        done(f, PORT_WRITE, segment_file, write, PORT_OK, f->piece.size_bytes);
        check_stream_log(f->stream, &log, true);
        at_ms(f, case_at == 0 ? 1500 : 1700);
        if (case_at == 1) { (void)sync_file(f, segment_file); }
        check_stream_crash(f->stream, CHECK_PROCESS);
        expect_only(f, case_at == 2 ? "I19" : NULL);
    }
}

static void what_lies_in_the_folder_of_a_deleted_topic_is_no_part_of_the_next_one(void **state)
{
    (void)state;
    struct fixture *f = given_page_cache();
    write_batch(f, 0);
    check_stream_effect(f->stream, 0,
                        &(struct port_effect){.kind = PORT_RENAME,
                                              .path = base_slice_text("t-0"),
                                              .path_to = base_slice_text("t-0.5-delete")});
    see_flushed(f, 2, 2);
    assert_int_equal(check_stream_written(f->stream, "t-0/00000000000000000000.log"), 0);
    assert_true(check_stream_written(f->stream, "t-0.5-delete/00000000000000000000.log") > 0);
    expect_only(f, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_then_synced_then_acknowledged_is_good),
        cmocka_unit_test(an_answer_before_the_sync_is_I19),
        cmocka_unit_test(a_sync_asked_before_the_write_was_done_does_not_count),
        cmocka_unit_test(a_short_write_is_not_synced_whole),
        cmocka_unit_test(a_sync_after_a_failed_one_does_not_count),
        cmocka_unit_test(a_row_before_its_segment_is_synced_is_I19),
        cmocka_unit_test(a_segment_is_not_born_whose_row_a_crash_took),
        cmocka_unit_test(a_segment_is_born_whose_row_a_start_finds_and_writes_again),
        cmocka_unit_test(what_is_written_anew_after_a_failed_sync_is_synced_by_the_next),
        cmocka_unit_test(a_watermark_past_what_is_synced_is_I3),
        cmocka_unit_test(a_watermark_that_falls_is_I3),
        cmocka_unit_test(a_read_of_what_is_not_synced_is_I4),
        cmocka_unit_test(a_log_that_is_gone_after_recovery_is_I18),
        cmocka_unit_test(a_log_that_is_longer_after_recovery_is_I18),
        cmocka_unit_test(a_log_that_is_what_it_was_after_recovery_is_good),
        cmocka_unit_test(a_log_that_is_shorter_after_recovery_is_I18),
        cmocka_unit_test(a_log_may_end_before_what_a_lost_group_of_the_journal_named),
        cmocka_unit_test(a_log_that_begins_elsewhere_after_recovery_is_I18),
        cmocka_unit_test(a_start_that_was_on_its_way_may_hold_after_recovery),
        cmocka_unit_test(a_log_recovered_past_its_watermark_is_I18),
        cmocka_unit_test(a_log_that_fails_while_no_disk_does_is_I18),
        cmocka_unit_test(a_log_that_fails_with_its_disk_is_not_told),
        cmocka_unit_test(what_a_dead_process_left_unsynced_is_not_synced_by_reading_it),
        cmocka_unit_test(what_was_synced_when_it_was_read_may_be_told_after_its_deletion),
        cmocka_unit_test(what_a_sync_of_the_segment_covered_is_synced_though_no_row_names_it),
        cmocka_unit_test(a_row_that_never_came_to_the_journal_holds_up_none_after_the_restart),
        cmocka_unit_test(the_header_that_a_torn_group_left_standing_names_nothing),
        cmocka_unit_test(a_page_cache_log_is_acknowledged_when_written_and_not_before),
        cmocka_unit_test(a_power_cut_takes_of_a_page_cache_log_what_was_not_synced_and_no_more),
        cmocka_unit_test(a_log_that_lost_what_was_read_must_not_go_on_under_the_same_epoch),
        cmocka_unit_test(a_dead_process_takes_nothing_of_a_page_cache_log),
        cmocka_unit_test(what_a_failed_log_recovered_is_not_known),
        cmocka_unit_test(fewer_records_than_flush_messages_are_acknowledged_and_not_synced),
        cmocka_unit_test(what_is_written_of_the_next_topic_of_that_name_is_none_of_the_deleted_one),
        cmocka_unit_test(what_a_start_left_out_of_a_log_is_not_waited_for),
        cmocka_unit_test(what_is_older_than_flush_ms_is_being_synced),
        cmocka_unit_test(what_lies_in_the_folder_of_a_deleted_topic_is_no_part_of_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
