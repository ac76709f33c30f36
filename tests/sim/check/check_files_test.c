/* check_files_test.c: the files of a partition, right and wrong.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "files.h"
#include "record/record.h"

#define BATCHES     3
#define BATCH_BYTES 200

struct files {
    struct check_segment segment;
    uint8_t log[BATCHES * BATCH_BYTES];
    uint8_t index[8 * BATCHES];
    uint8_t timeindex[12 * BATCHES];
    uint32_t at[BATCHES];
};

/* Batches of two records each, from offset 10 on, an entry of both indexes for each but the first. */
static struct files *given_files(void)
{
    static struct files files;
    files = (struct files){.segment = {.name = "t-0/00000000000000000010", .base = 10, .end = -1, .is_last = true}};
    uint32_t used = 0;
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct rec_build build;
        struct rec_build_config config = rec_build_plain();
        config.base_offset = 10 + 2 * (int64_t)i;
        CHECK(rec_build_init(&build, files.log + used, BATCH_BYTES, config) == BASE_OK);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(rec_build_add(&build, 100 + (int64_t)i, rec_null(), rec_value_of(base_slice_text("value")),
                                           NULL, 0),
                             BASE_OK);
        }
        files.at[i] = used;
        used += (uint32_t)rec_build_end(&build).size_bytes;
        if (i == 0) { continue; }
        uint8_t *entry = files.index + 8 * (i - 1);
        base_put_u32(entry, 2 * i + 1);
        base_put_u32(entry + 4, files.at[i]);
        entry = files.timeindex + 12 * (i - 1);
        base_put_u64(entry, 100 + i);
        base_put_u32(entry + 8, 2 * i + 1);
    }
    files.segment.log = base_slice_of(files.log, used);
    files.segment.index = base_slice_of(files.index, 8 * (BATCHES - 1));
    files.segment.timeindex = base_slice_of(files.timeindex, 12 * (BATCHES - 1));
    return &files;
}

static void expect_only(const struct files *files, const char *id)
{
    struct check_report report = {.count = 0};
    check_segment(&report, &files->segment);
    assert_int_equal(report.count, id == NULL ? 0 : 1);
    if (id != NULL) { assert_string_equal(report.breaches[0].id, id); }
}

/* Batches of a producer: { epoch, first sequence } each, of two records; the timestamps are 100, 101, 102. */
struct word {
    int16_t epoch;
    int32_t sequence;
};
static struct files *given_files_of_a_producer(const struct word words[BATCHES], struct check_producers *producers)
{
    struct files *files = given_files();
    uint32_t used = 0;
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct rec_build build;
        struct rec_build_config config = rec_build_plain();
        config.base_offset = 10 + 2 * (int64_t)i;
        config.producer_id = 7;
        config.producer_epoch = words[i].epoch;
        config.base_sequence = words[i].sequence;
        CHECK(rec_build_init(&build, files->log + used, BATCH_BYTES, config) == BASE_OK);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(rec_build_add(&build, 100 + (int64_t)i, rec_null(), rec_value_of(base_slice_text("value")),
                                           NULL, 0),
                             BASE_OK);
        }
        used += (uint32_t)rec_build_end(&build).size_bytes;
    }
    files->segment.log = base_slice_of(files->log, used);
    files->segment.producers = producers;
    return files;
}

static void batches_of_a_producer_that_kafka_would_not_take_are_I9(void **state)
{
    (void)state;
    static const struct {
        struct word words[BATCHES];
        bool is_right;
    } rows[] = {
        {{{0, 0}, {0, 2}, {0, 4}}, true},
        {{{0, 5}, {0, 7}, {0, 9}}, true}, /* nobody knew it */
        {{{0, INT32_MAX - 1}, {0, 0}, {0, 2}}, true},
        {{{0, 5}, {1, 0}, {1, 2}}, true},
        {{{0, 0}, {0, 0}, {0, 2}}, false}, /* twice */
        {{{0, 0}, {0, 3}, {0, 5}}, false}, /* one is missing */
        {{{0, 2}, {0, 0}, {0, 2}}, false}, /* the first behind the second */
        {{{0, 0}, {1, 2}, {1, 4}}, false}, /* a new epoch begins at 0 */
        {{{1, 0}, {0, 0}, {0, 2}}, false}, /* an epoch that is over */
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(rows); i++) {
        struct check_report report = {.count = 0};
        struct check_producers producers = {.count = 0};
        check_segment(&report, &given_files_of_a_producer(rows[i].words, &producers)->segment);
        bool is_right = report.count == 0;
        if (is_right != rows[i].is_right) { fail_msg("row %zu", i); }
        if (!is_right) { assert_string_equal(report.breaches[0].id, "I9"); }
    }
}

static void a_producer_is_known_from_one_segment_to_the_next_until_it_is_forgotten(void **state)
{
    (void)state;
    static const struct word words[BATCHES] = {{0, 0}, {0, 2}, {0, 4}};
    struct check_producers producers = {.count = 0};
    struct files *files = given_files_of_a_producer(words, &producers);
    expect_only(files, NULL);
    expect_only(files, "I9"); /* all of it a second time */
    producers.forgotten_ms = 103;
    expect_only(files, NULL);
}

static void right_files_are_right(void **state)
{
    (void)state;
    expect_only(given_files(), NULL);
}

static void a_segment_that_begins_elsewhere_than_it_is_named_is_I8(void **state)
{
    (void)state;
    struct files *files = given_files();
    files->segment.base = 9;
    files->segment.index.size_bytes = files->segment.timeindex.size_bytes = 0;
    expect_only(files, "I8");
}

static void a_flipped_bit_is_I20(void **state)
{
    (void)state;
    struct files *files = given_files();
    files->log[files->at[1] + REC_HEADER_BYTES + 3] ^= 4;
    expect_only(files, "I20");
}

static void bytes_after_the_last_batch_of_a_log_are_I20(void **state)
{
    (void)state;
    struct files *files = given_files();
    files->segment.log.size_bytes += 5;
    expect_only(files, "I20");
    files->segment.is_last = false;
    expect_only(files, NULL);
}

static void what_a_crash_left_behind_the_end_of_a_log_is_not_looked_at(void **state)
{
    (void)state;
    struct files *files = given_files();
    files->log[files->at[2] + REC_HEADER_BYTES + 3] ^= 4;
    files->segment.index.size_bytes = 8; /* of the second batch alone */
    files->segment.timeindex.size_bytes = 12;
    files->segment.is_last = false;
    files->segment.end = 14;
    expect_only(files, NULL);
    files->segment.is_last = true; /* written to since: nothing may be left */
    struct check_report report = {.count = 0};
    check_segment(&report, &files->segment);
    assert_true(check_has(&report, "I20"));
}

static void a_log_that_ends_elsewhere_than_its_batches_is_I8(void **state)
{
    (void)state;
    struct files *files = given_files();
    files->segment.end = 17;
    expect_only(files, "I8");
    files->segment.end = 16;
    expect_only(files, NULL);
}

static void an_index_entry_that_names_no_batch_is_I15(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8 * (BATCHES - 1); i++) {
        struct files *files = given_files();
        files->index[i] ^= 1;
        expect_only(files, "I15");
    }
    struct files *files = given_files();
    files->segment.index.size_bytes += 8; /* zeros */
    expect_only(files, "I15");
}

static void a_time_entry_that_is_not_the_greatest_timestamp_is_I15(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 12 * (BATCHES - 1); i++) {
        struct files *files = given_files();
        files->timeindex[i] ^= 1;
        expect_only(files, "I15");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_files_are_right),
        cmocka_unit_test(a_segment_that_begins_elsewhere_than_it_is_named_is_I8),
        cmocka_unit_test(a_flipped_bit_is_I20),
        cmocka_unit_test(bytes_after_the_last_batch_of_a_log_are_I20),
        cmocka_unit_test(what_a_crash_left_behind_the_end_of_a_log_is_not_looked_at),
        cmocka_unit_test(a_log_that_ends_elsewhere_than_its_batches_is_I8),
        cmocka_unit_test(batches_of_a_producer_that_kafka_would_not_take_are_I9),
        cmocka_unit_test(a_producer_is_known_from_one_segment_to_the_next_until_it_is_forgotten),
        cmocka_unit_test(an_index_entry_that_names_no_batch_is_I15),
        cmocka_unit_test(a_time_entry_that_is_not_the_greatest_timestamp_is_I15),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
