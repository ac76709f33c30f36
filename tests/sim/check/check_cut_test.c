/* check_cut_test.c: what a page-cache log has cut off, and written behind, comes back after no power cut: I18.
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

#define BATCH_BYTES (REC_HEADER_BYTES + 8)

struct fixture {
    struct check_report report;
    struct check_stream *stream;
    uint64_t token;
    int32_t epoch; /* each start has its own */
};

static const struct base_part part = {.topic = {{9, 9, 9}}, .index = 0};

static void see_log(struct fixture *f, int64_t end)
{
    struct check_log log = {.id = part,
                            .topic = base_slice_text("t"),
                            .offset_end = end,
                            .watermark = end,
                            .leader_epoch = f->epoch,
                            .is_page_cache = true};
    check_stream_log(f->stream, &log, true);
}

/* A start whose log ends there. */
static void start(struct fixture *f, int64_t end)
{
    struct port_effect open = {.kind = PORT_OPEN,
                               .file = {.shard = 0, .slot = 2, .generation = 1},
                               .path = base_slice_text("t-0/00000000000000000000.log")};
    check_stream_effect(f->stream, 0, &open);
    f->epoch += 1;
    see_log(f, end);
    check_stream_recovered(f->stream);
}

static struct fixture *given(void)
{
    static struct fixture fixture;
    fixture = (struct fixture){.token = 0};
    fixture.stream = check_stream_create(&fixture.report);
    start(&fixture, 0);
    return &fixture;
}

static void ask(struct fixture *f, struct port_effect effect, uint64_t count)
{
    effect.file = (struct port_file){.shard = 0, .slot = 2, .generation = 1};
    effect.token = ++f->token;
    check_stream_effect(f->stream, 0, &effect);
    struct port_event event = {.kind = PORT_EVENT_DONE};
    event.done.effect = effect.kind;
    event.done.file = effect.file;
    event.done.token = effect.token;
    event.done.count = count;
    check_stream_event(f->stream, 0, &event, (struct base_slice){.at = NULL});
}

/* Batches of a record each, as one write; the offset is where they stand. */
static void append(struct fixture *f, int64_t from, int64_t to)
{
    uint8_t bytes[8 * BATCH_BYTES] = {0};
    for (int64_t offset = from; offset < to; offset++) {
        uint8_t *batch = bytes + (offset - from) * BATCH_BYTES;
        base_put_u64(batch + REC_BASE_OFFSET_AT, (uint64_t)offset);
        base_put_u32(batch + REC_LENGTH_AT, BATCH_BYTES - REC_LENGTH_PREFIX_BYTES);
        batch[REC_MAGIC_AT] = 2;
        base_put_u32(batch + REC_RECORD_COUNT_AT, 1);
    }
    struct port_piece piece = {.at = bytes, .size_bytes = (uint64_t)(to - from) * BATCH_BYTES};
    ask(f,
        (struct port_effect){
            .kind = PORT_WRITE, .position_bytes = (uint64_t)from * BATCH_BYTES, .pieces = &piece, .piece_count = 1},
        piece.size_bytes);
    see_log(f, to);
}

static void cut(struct fixture *f, int64_t offset)
{
    ask(f, (struct port_effect){.kind = PORT_TRUNCATE, .position_bytes = (uint64_t)offset * BATCH_BYTES}, 0);
}

static void expect(struct fixture *f, uint32_t breaches)
{
    assert_int_equal(f->report.count, breaches);
    if (breaches > 0) { assert_string_equal(f->report.breaches[0].id, "I18"); }
    check_stream_destroy(f->stream);
}

/* Offsets 2 to 6 are lost, and cut off; 2 and 3 are given out again. */
static struct fixture *given_a_cut_log(void)
{
    struct fixture *f = given();
    append(f, 0, 2);
    append(f, 2, 6);
    check_stream_crash(f->stream, CHECK_POWER);
    start(f, 2);
    cut(f, 2);
    return f;
}

static void what_was_cut_off_does_not_come_back_behind_what_was_written_there(void **state)
{
    (void)state;
    struct fixture *f = given_a_cut_log();
    append(f, 2, 4);
    check_stream_crash(f->stream, CHECK_POWER);
    start(f, 6);
    expect(f, 1);
}

static void what_was_written_there_may_stay_or_go(void **state)
{
    (void)state;
    for (int64_t end = 2; end <= 4; end++) {
        struct fixture *f = given_a_cut_log();
        append(f, 2, 4);
        check_stream_crash(f->stream, CHECK_POWER);
        start(f, end);
        expect(f, 0);
    }
}

static void what_was_cut_off_may_come_back_while_nothing_was_written_there(void **state)
{
    (void)state;
    struct fixture *f = given_a_cut_log();
    check_stream_crash(f->stream, CHECK_POWER);
    start(f, 6);
    expect(f, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_cut_off_does_not_come_back_behind_what_was_written_there),
        cmocka_unit_test(what_was_written_there_may_stay_or_go),
        cmocka_unit_test(what_was_cut_off_may_come_back_while_nothing_was_written_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
