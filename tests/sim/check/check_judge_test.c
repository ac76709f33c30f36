/* check_judge_test.c: each judge of a history meets a bad one, and says so; and a good one, and is silent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "judge.h"

/* Judges the lines of a history; a header is put before them. */
static struct check_report judge(const char *lines)
{
    static struct check_report report;
    report = (struct check_report){.count = 0};
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(fprintf(file, "weir-history 1\n%s", lines) > 0);
    rewind(file);
    struct history history = {.ops = NULL};
    uint32_t line = 0;
    enum base_rc rc = history_read(&history, file, &line);
    if (rc != BASE_OK) { fail_msg("line %u is none", line); }
    judge_history(&history, &report);
    history_free(&history);
    assert_int_equal(fclose(file), 0);
    return report;
}

static void expect_only(const char *lines, const char *id)
{
    struct check_report report = judge(lines);
    if (report.count == 0) { fail_msg("%s was not reported", id); }
    for (uint32_t i = 0; i < report.count && i < CHECK_BREACHES_MAX; i++) {
        if (strcmp(report.breaches[i].id, id) != 0) {
            fail_msg("%s instead of %s: %s", report.breaches[i].id, id, report.breaches[i].text);
        }
    }
}

/* By these words of it: more than one breach may be in such a history. */
static void expect_told(const char *lines, const char *id, const char *words)
{
    struct check_report report = judge(lines);
    for (uint32_t i = 0; i < report.count && i < CHECK_BREACHES_MAX; i++) {
        if (strcmp(report.breaches[i].id, id) == 0 && strstr(report.breaches[i].text, words) != NULL) { return; }
    }
    fail_msg("%s was not told: %s", id, words);
}

#define ID             " id=AAAAAAAAAAAAAAAAAAAAAQ"
#define CREATED        "1 a1 0 invoke create topic=t count=1\n2 a1 0 ok create topic=t count=1\n"
#define ASKED(op, seq) "10 p1 " op " invoke produce topic=t partition=0 acks=-1 idempotent=1 record=1.1." seq "\n"
#define ACKED(op, seq, offset) \
    ASKED(op, seq)             \
    "11 p1 " op " ok produce topic=t partition=0 acks=-1 idempotent=1 record=1.1." seq " offset=" offset "\n"
#define READ(at, op, seq, offset) \
    at " c1 " op " ok read topic=t" ID " partition=0 record=1.1." seq " session=7 offset=" offset "\n"
#define FINAL(at, op, seq, offset)                                                                            \
    at " v1 " op " ok read topic=t" ID " partition=0 record=1.1." seq " session=9 final=1 timestamp=1" offset \
       " offset=" offset "\n"
#define END(op, offset) "90 v1 " op " ok end topic=t partition=0 final=1 offset=" offset "\n"

static void a_good_history_is_good(void **state)
{
    (void)state;
    struct check_report report = judge(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") READ("20", "3", "0", "0")
                                           FINAL("30", "4", "0", "0") FINAL("31", "5", "1", "1") END("6", "2"));
    assert_int_equal(report.count, 0);
}

static void an_acknowledged_record_that_is_gone_is_I1(void **state)
{
    (void)state;
    expect_only(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") FINAL("30", "3", "0", "0") END("4", "1"), "I1");
}

/* ---- what is written, and what nobody is told of ---- */

#define WRITTEN(op, seq, offset)                                                           \
    "10 p1 " op " invoke produce topic=t partition=0 acks=1 record=1.1." seq "\n11 p1 " op \
    " ok produce topic=t partition=0 acks=1 record=1.1." seq " offset=" offset "\n"
#define CRASHED(at) at " - 2 ok note topic=crash count=1\n"

static void a_record_that_was_written_and_had_time_may_not_go(void **state)
{
    (void)state;
    expect_only(CREATED WRITTEN("1", "0", "0") WRITTEN("2", "1", "1") FINAL("30", "3", "0", "0") END("4", "1"), "I1");
    expect_told(CREATED WRITTEN("1", "0", "0") WRITTEN("2", "1", "0") FINAL("30", "3", "0", "0") END("4", "1"), "I1",
                "where 1.1.0 is now");
    expect_told(CREATED WRITTEN("1", "0", "0") WRITTEN("2", "1", "0") FINAL("30", "3", "0", "0") END("4", "1"), "I8",
                "were both acknowledged");
}

static void a_record_that_was_written_when_a_crash_or_a_bad_disk_came_may_go(void **state)
{
    (void)state;
    assert_int_equal(judge(CREATED WRITTEN("1", "0", "0") CRASHED("12") END("3", "0")).count, 0);
    assert_int_equal(judge(CREATED WRITTEN("1", "0", "0") END("2", "0") "95 - 3 ok note topic=disk\n").count, 0);
    expect_only(CREATED WRITTEN("1", "0", "0") CRASHED("30000000000") END("3", "0"), "I1"); /* long after it */
}

#define SENT(at, op, seq)                                                                               \
    at " p1 " op " invoke produce topic=t partition=0 acks=0 record=1.1." seq " final=1\n" at " p1 " op \
       " ok produce topic=t partition=0 acks=0 record=1.1." seq " final=1\n"

static void a_record_without_acks_that_was_sent_a_while_after_the_faults_has_come(void **state)
{
    (void)state;
    assert_int_equal(
        judge(CREATED SENT("10", "1", "0") SENT("1000000010", "2", "1") FINAL("30", "3", "1", "0") END("4", "1")).count,
        0);
    expect_only(CREATED SENT("10", "1", "0") SENT("1000000010", "2", "1") FINAL("30", "3", "0", "0") END("4", "1"),
                "I1");
}

#define CREATED_TRIMMED "1 a1 0 invoke create topic=t at=1 count=1\n2 a1 0 ok create topic=t at=1 count=1\n"
#define EARLIEST(op, offset)                                  \
    "40 a1 " op " invoke offsets topic=t partition=0 at=-2\n" \
    "41 a1 " op " ok offsets topic=t partition=0 at=-2 offset=" offset "\n"

static void records_before_the_start_of_a_topic_with_retention_may_go(void **state)
{
    (void)state;
    struct check_report report = judge(CREATED_TRIMMED ACKED("1", "0", "0") ACKED("2", "1", "1")
                                           FINAL("30", "3", "1", "1") END("4", "2") EARLIEST("5", "1"));
    assert_int_equal(report.count, 0);
}

static void records_that_retention_takes_beside_the_final_reader_may_go(void **state)
{
    (void)state;
    struct check_report report =
        judge(CREATED_TRIMMED ACKED("1", "0", "0") ACKED("2", "1", "1") FINAL("30", "3", "0", "0")
                  END("4", "2") "91 v1 5 invoke offsets topic=t partition=0 at=-2 final=1\n"
                                "92 v1 5 ok offsets topic=t partition=0 at=-2 final=1 offset=2\n");
    for (uint32_t i = 0; i < report.count; i++) { assert_string_not_equal(report.breaches[i].id, "I1"); }
}

static void records_behind_the_start_of_a_topic_with_retention_may_not_go(void **state)
{
    (void)state;
    expect_only(CREATED_TRIMMED ACKED("1", "0", "0") ACKED("2", "1", "1") FINAL("30", "3", "0", "0") END("4", "1"),
                "I1");
    expect_only(CREATED_TRIMMED ACKED("1", "0", "0") ACKED("2", "1", "1") FINAL("30", "3", "1", "1") END("4", "2")
                    EARLIEST("5", "2"),
                "I23");
}

#define TRIM(op, to, end)                                      \
    "20 a1 " op " invoke trim topic=t partition=0 at=" to "\n" \
    "21 a1 " op " " end "\n"
#define TRIMMED(op, to, start) TRIM(op, to, "ok trim topic=t partition=0 at=" to " offset=" start)

static void records_before_an_offset_up_to_which_a_client_deleted_are_gone(void **state)
{
    (void)state;
    struct check_report report = judge(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") TRIMMED("3", "1", "1")
                                           FINAL("30", "4", "1", "1") END("5", "2") EARLIEST("6", "1"));
    assert_int_equal(report.count, 0);
    report = judge(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1")
                       TRIM("3", "-1", "ok trim topic=t partition=0 at=-1 offset=2") END("4", "2"));
    assert_int_equal(report.count, 0);
}

static void a_deletion_of_records_that_may_have_happened_leaves_them_or_takes_them(void **state)
{
    (void)state;
    struct check_report report =
        judge(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") TRIM("3", "1", "unknown trim topic=t partition=0 at=1")
                  FINAL("30", "4", "1", "1") END("5", "2"));
    assert_int_equal(report.count, 0);
    report =
        judge(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") TRIM("3", "1", "unknown trim topic=t partition=0 at=1")
                  FINAL("30", "4", "0", "0") FINAL("31", "5", "1", "1") END("6", "2"));
    assert_int_equal(report.count, 0);
}

static void a_deletion_of_records_that_failed_takes_none(void **state)
{
    (void)state;
    expect_told(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1")
                    TRIM("3", "1", "fail trim topic=t partition=0 at=1 error=6") FINAL("30", "4", "1", "1")
                        END("5", "2"),
                "I1", "is gone");
}

static void a_record_at_the_offset_up_to_which_a_client_deleted_may_not_go(void **state)
{
    (void)state;
    expect_told(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") ACKED("3", "2", "2") TRIMMED("4", "1", "1")
                    FINAL("30", "5", "2", "2") END("6", "3"),
                "I1", "record 1.1.1 was acknowledged at t-0 offset 1 and is gone");
}

static void a_record_that_was_deleted_and_is_read_later_is_I23(void **state)
{
    (void)state;
    expect_only(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") TRIMMED("3", "1", "1") FINAL("30", "4", "0", "0")
                    FINAL("31", "5", "1", "1") END("6", "2"),
                "I23");
}

static void a_fetch_that_was_on_its_way_may_bring_what_was_deleted(void **state)
{
    (void)state;
    struct check_report report = judge(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") TRIMMED("3", "1", "1")
                                           READ("22", "4", "0", "0") FINAL("30", "5", "1", "1") END("6", "2"));
    assert_int_equal(report.count, 0);
    expect_only(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") TRIMMED("3", "1", "1")
                    READ("20000000000", "4", "0", "0") FINAL("30000000000", "5", "1", "1") END("6", "2"),
                "I23");
}

static void an_earliest_offset_that_was_deleted_is_I23(void **state)
{
    (void)state;
    expect_told(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") TRIMMED("3", "1", "1") EARLIEST("4", "0")
                    FINAL("30", "5", "1", "1") END("6", "2"),
                "I23", "was called the earliest");
}

static void a_deletion_beyond_the_end_that_succeeds_is_I23(void **state)
{
    (void)state;
    expect_told(CREATED ACKED("1", "0", "0") TRIMMED("2", "9", "1") END("3", "1"), "I23", "were deleted");
    expect_told(CREATED ACKED("1", "0", "0") TRIMMED("2", "9", "9") END("3", "1"), "I23", "were deleted");
}

static void a_deletion_in_a_partition_that_is_not_there_and_succeeds_is_I23(void **state)
{
    (void)state;
    expect_told(CREATED "20 a1 1 invoke trim topic=t partition=3\n21 a1 1 ok trim topic=t partition=3 offset=0\n",
                "I23", "were deleted");
}

static void a_deletion_up_to_what_was_acknowledged_is_not_out_of_range(void **state)
{
    (void)state;
    expect_told(CREATED ACKED("1", "0", "0") TRIM("2", "1", "fail trim topic=t partition=0 at=1 error=1")
                    FINAL("30", "3", "0", "0") END("4", "1"),
                "I23", "is out of range");
}

static void records_of_a_topic_without_retention_may_not_go_from_the_front(void **state)
{
    (void)state;
    struct check_report report =
        judge(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") FINAL("30", "3", "1", "1") END("4", "2"));
    assert_true(report.count > 0);
}

/* The run began at 1,000,000,000 ms by the right clock, and what is older than a day may go. */
#define AGE "0 - 0 ok note topic=age at=86400000 timestamp=1000000000\n"
#define STAMPED(op, seq, offset, timestamp)                                                              \
    "10 p1 " op " invoke produce topic=t partition=0 acks=-1 idempotent=1 record=1.1." seq "\n"          \
    "11 p1 " op " ok produce topic=t partition=0 acks=-1 idempotent=1 record=1.1." seq " offset=" offset \
    " timestamp=" timestamp "\n"
#define FINAL_STAMPED(op, seq, offset, timestamp)                                                              \
    "30 v1 " op " ok read topic=t" ID " partition=0 record=1.1." seq " session=9 final=1 timestamp=" timestamp \
    " offset=" offset "\n"
#define CREATED_1 "1 a1 1 invoke create topic=t count=1\n2 a1 1 ok create topic=t count=1\n"
#define OLD       "900000000"
#define YOUNG     "999000000"

static void records_stamped_by_a_clock_far_behind_may_go_from_the_front(void **state)
{
    (void)state;
    struct check_report report = judge(AGE CREATED_1 STAMPED("2", "0", "0", OLD) STAMPED("3", "1", "1", YOUNG)
                                           FINAL_STAMPED("4", "1", "1", YOUNG) END("5", "2") EARLIEST("6", "1"));
    if (report.count > 0) { fail_msg("%s: %s", report.breaches[0].id, report.breaches[0].text); }
}

static void a_record_that_is_not_too_old_may_not_go_with_those_that_are(void **state)
{
    (void)state;
    expect_told(AGE CREATED_1 STAMPED("2", "0", "0", OLD) STAMPED("3", "1", "1", YOUNG) END("4", "2"), "I1",
                "acknowledged at t-0 offset 1 and is gone");
    /* Its age protects what stands behind it. */
    expect_told(AGE CREATED_1 STAMPED("2", "0", "0", YOUNG) STAMPED("3", "1", "1", OLD) END("4", "2"), "I1",
                "acknowledged at t-0 offset 1 and is gone");
    /* Nor may a hole be behind one. */
    expect_told(AGE CREATED_1 STAMPED("2", "0", "0", YOUNG) STAMPED("3", "1", "1", OLD)
                    FINAL_STAMPED("4", "0", "0", YOUNG) END("5", "2"),
                "I1", "acknowledged at t-0 offset 1 and is gone");
    expect_told(AGE CREATED_1 STAMPED("2", "0", "0", OLD) STAMPED("3", "1", "1", YOUNG) STAMPED("4", "2", "2", YOUNG)
                    FINAL_STAMPED("5", "2", "2", YOUNG) END("6", "3"),
                "I8", "t-0 offset 2 came where 0 was expected");
}

static void what_nobody_was_told_of_may_be_too_old_as_well(void **state)
{
    (void)state;
    struct check_report report = judge(AGE CREATED_1 STAMPED("2", "1", "1", YOUNG) FINAL_STAMPED("3", "1", "1", YOUNG)
                                           END("4", "2") EARLIEST("5", "1"));
    if (report.count > 0) { fail_msg("%s: %s", report.breaches[0].id, report.breaches[0].text); }
    expect_told(CREATED STAMPED("1", "1", "1", YOUNG) FINAL_STAMPED("2", "1", "1", YOUNG) END("3", "2"), "I8",
                "t-0 offset 1 came where 0 was expected");
}

static void without_a_word_of_the_nodes_age_nothing_is_too_old(void **state)
{
    (void)state;
    expect_told(CREATED STAMPED("1", "0", "0", OLD) STAMPED("2", "1", "1", YOUNG) FINAL_STAMPED("3", "1", "1", YOUNG)
                    END("4", "2"),
                "I1", "acknowledged at t-0 offset 0 and is gone");
}

#define CREATED_LOSSY    "1 a1 0 invoke create topic=t at=2 count=1\n2 a1 0 ok create topic=t at=2 count=1\n"
#define CRASH(op, count) "20 - " op " ok note topic=crash count=" count "\n"

static void what_a_power_cut_takes_of_a_page_cache_topic_may_be_gone(void **state)
{
    (void)state;
    struct check_report report = judge(CREATED_LOSSY ACKED("1", "0", "0") ACKED("2", "1", "1") CRASH("3", "1")
                                           FINAL("30", "4", "0", "0") END("5", "1"));
    if (report.count > 0) { fail_msg("%s: %s", report.breaches[0].id, report.breaches[0].text); }
    expect_only(CREATED_LOSSY ACKED("1", "0", "0") ACKED("2", "1", "1") CRASH("3", "2") FINAL("30", "4", "0", "0")
                    END("5", "1"),
                "I1"); /* the process died */
    expect_only(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") CRASH("3", "1") FINAL("30", "4", "0", "0")
                    END("5", "1"),
                "I1"); /* another topic */
}

static void a_power_cut_takes_no_record_from_between_others(void **state)
{
    (void)state;
    expect_told(CREATED_LOSSY ACKED("1", "0", "0") ACKED("2", "1", "1") ACKED("3", "2", "2") CRASH("4", "1")
                    FINAL("30", "5", "0", "0") FINAL("31", "6", "2", "2") END("7", "3"),
                "I1", "1.1.1 was acknowledged at t-0 offset 1 and is gone, and 1.1.2, acknowledged behind it");
}

static void an_acknowledged_record_at_another_offset_is_I1(void **state)
{
    (void)state;
    expect_only(CREATED ACKED("1", "0", "1")
                    ASKED("2", "1") "12 p1 2 unknown produce topic=t partition=0 acks=-1 idempotent=1 "
                                    "record=1.1.1\n" FINAL("30", "3", "0", "0") FINAL("31", "4", "1", "1")
                                        END("5", "2"),
                "I1");
}

static void another_record_where_one_was_acknowledged_is_I1(void **state)
{
    (void)state;
    expect_only(CREATED ACKED("1", "0", "0")
                    ASKED("2", "1") "12 p1 2 unknown produce topic=t partition=0 acks=-1 idempotent=1 "
                                    "record=1.1.1\n" FINAL("30", "3", "1", "0") END("4", "1"),
                "I1");
}

static void an_acknowledged_record_read_at_another_offset_too_is_I1(void **state)
{
    (void)state;
    expect_told(CREATED ACKED("1", "0", "0") READ("20", "2", "0", "1") FINAL("30", "3", "0", "0") END("4", "1"), "I1",
                "record 1.1.0 was acknowledged at offset 0 and is read at t-0 offset 1");
}

static void a_record_of_a_topic_deleted_later_may_be_gone(void **state)
{
    (void)state;
    struct check_report report =
        judge(CREATED ACKED("1", "0", "0") "20 a1 2 invoke delete topic=t\n21 a1 2 ok delete topic=t\n" END("3", "0"));
    assert_int_equal(report.count, 0);
}

static void two_records_read_at_one_offset_are_I4(void **state)
{
    (void)state;
    expect_only(CREATED ASKED("1", "0")
                    ASKED("2", "1") "12 p1 1 unknown produce topic=t partition=0 record=1.1.0\n"
                                    "12 p1 2 unknown produce topic=t partition=0 record=1.1.1\n" READ("20", "3", "0",
                                                                                                      "0")
                                        FINAL("30", "4", "1", "0") END("5", "1"),
                "I4");
}

static void a_record_read_and_gone_is_I4(void **state)
{
    (void)state;
    expect_only(CREATED ASKED("1", "0") "12 p1 1 unknown produce topic=t partition=0 record=1.1.0\n" READ("20", "2",
                                                                                                          "0", "0")
                    END("3", "0"),
                "I4");
}

static void a_hole_in_the_final_read_is_I8(void **state)
{
    (void)state;
    expect_only(CREATED ACKED("1", "0", "0") ACKED("2", "1", "2") FINAL("30", "3", "0", "0") FINAL("31", "4", "1", "2")
                    END("5", "3"),
                "I8");
}

/* Of no session: nothing but the density of the whole tells it. */
static void a_final_read_that_does_not_begin_at_0_is_I8(void **state)
{
    (void)state;
    expect_only(CREATED ACKED("1", "0",
                              "1") "30 v1 2 ok read topic=t partition=0 record=1.1.0 final=1 offset=1\n" END("3", "2"),
                "I8");
}

static void a_reader_that_misses_an_offset_is_I8(void **state)
{
    (void)state;
    expect_only(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") ACKED("3", "2", "2") READ("20", "4", "0", "0")
                    READ("21", "5", "2", "2") FINAL("30", "6", "0", "0") FINAL("31", "7", "1", "1")
                        FINAL("32", "8", "2", "2") END("9", "3"),
                "I8");
}

static void two_acknowledgements_of_one_offset_are_I8(void **state)
{
    (void)state;
    struct check_report report =
        judge(CREATED ACKED("1", "0", "0") ACKED("2", "1", "0") FINAL("30", "3", "0", "0") END("4", "1"));
    assert_true(check_has(&report, "I8"));
}

static void a_duplicate_of_an_idempotent_producer_is_I9(void **state)
{
    (void)state;
    expect_only(
        CREATED ASKED("1", "0") "12 p1 1 unknown produce topic=t partition=0 acks=-1 idempotent=1 record=1.1.0\n" FINAL(
            "30", "2", "0", "0") FINAL("31", "3", "0", "1") END("4", "2"),
        "I9");
}

static void records_of_an_idempotent_producer_out_of_order_are_I9(void **state)
{
    (void)state;
    expect_only(CREATED ACKED("1", "0", "0") ACKED("2", "2", "1") ACKED("3", "1", "2") FINAL("30", "4", "0", "0")
                    FINAL("31", "5", "2", "1") FINAL("32", "6", "1", "2") END("7", "3"),
                "I9");
}

static void what_was_refused_of_an_unknown_producer_may_come_behind_what_was_not(void **state)
{
    (void)state;
    struct check_report report = judge(CREATED ACKED("1", "2", "0") ACKED("2", "0", "1") ACKED("3", "1", "2")
                                           ACKED("4", "3", "3") FINAL("30", "5", "2", "0") FINAL("31", "6", "0", "1")
                                               FINAL("32", "7", "1", "2") FINAL("33", "8", "3", "3") END("9", "4"));
    if (report.count > 0) { fail_msg("%s: %s", report.breaches[0].id, report.breaches[0].text); }
    expect_told(CREATED ACKED("1", "2", "0") ACKED("2", "1", "1") ACKED("3", "0", "2") FINAL("30", "4", "2", "0")
                    FINAL("31", "5", "1", "1") FINAL("32", "6", "0", "2") END("7", "3"),
                "I9", "after 1.1.1 at offset 1 comes 1.1.0");
}

static void a_reader_that_begins_elsewhere_than_it_asked_is_I8(void **state)
{
    (void)state;
#define BEGUN(op, session, at) \
    "20 c1 " op " ok read topic=t" ID " partition=0 record=1.1.1 session=" session " at=" at " offset=1\n"
#define READ_WHOLE FINAL("30", "4", "0", "0") FINAL("31", "5", "1", "1") END("6", "2")
    struct check_report report =
        judge(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") BEGUN("3", "7", "1") READ_WHOLE);
    assert_int_equal(report.count, 0);
    expect_only(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") BEGUN("3", "7", "2") READ_WHOLE, "I8");
}

static void a_record_with_another_timestamp_is_I20(void **state)
{
    (void)state;
    expect_only(CREATED "10 p1 1 invoke produce topic=t partition=0 acks=-1 idempotent=1 record=1.1.0 timestamp=5\n"
                        "11 p1 1 ok produce topic=t partition=0 acks=-1 idempotent=1 record=1.1.0 timestamp=5 "
                        "offset=0\n" FINAL("30", "2", "0", "0") END("3", "1"),
                "I20");
}

static void a_record_that_nobody_produced_is_I20(void **state)
{
    (void)state;
    expect_only(CREATED FINAL("30", "1", "5", "0") END("2", "1"), "I20");
}

static void a_record_of_another_partition_is_I20(void **state)
{
    (void)state;
    expect_told(CREATED ACKED("1", "0", "0") FINAL("30", "2", "0", "0")
                    END("3", "1") "40 c1 4 ok read topic=t partition=1 record=1.1.0 session=5 offset=0\n",
                "I20", "read at t-1 offset 0 the record 1.1.0, produced to t-0");
}

static void an_operation_without_an_end_is_I21(void **state)
{
    (void)state;
    expect_only(CREATED ASKED("1", "0") END("2", "0"), "I21");
}

static void a_failure_after_the_faults_is_I21(void **state)
{
    (void)state;
    expect_only(CREATED "10 p1 1 invoke produce topic=t partition=0 acks=-1 record=1.1.0 final=1\n"
                        "11 p1 1 fail produce topic=t partition=0 acks=-1 record=1.1.0 final=1 error=7\n" END("2", "0"),
                "I21");
}

static void what_nobody_answers_may_be_lost_after_the_faults(void **state)
{
    (void)state;
    struct check_report report = judge(
        CREATED "10 p1 1 invoke produce topic=t partition=0 acks=0 record=1.1.0 final=1\n"
                "11 p1 1 unknown produce topic=t partition=0 acks=0 record=1.1.0 final=1 error=13\n" END("2", "0"));
    assert_int_equal(report.count, 0);
}

static void a_definite_error_that_is_read_is_I22(void **state)
{
    (void)state;
    expect_only(
        CREATED ASKED("1", "0") "12 p1 1 fail produce topic=t partition=0 acks=-1 record=1.1.0 error=10\n" FINAL(
            "30", "2", "0", "0") END("3", "1"),
        "I22");
}

#define OFFSETS(op, at, offset)                                                    \
    "60 a1 " op " invoke offsets topic=t partition=0 at=" at " final=1\n61 a1 " op \
    " ok offsets topic=t partition=0 at=" at " final=1 offset=" offset "\n"

static void a_latest_offset_below_what_is_known_is_I23(void **state)
{
    (void)state;
    expect_only(CREATED ACKED("1", "0", "0") FINAL("30", "2", "0", "0") END("3", "1") OFFSETS("4", "-1", "0"), "I23");
}

static void an_earliest_offset_that_is_not_0_is_I23(void **state)
{
    (void)state;
    expect_only(CREATED ACKED("1", "0", "0") FINAL("30", "2", "0", "0") END("3", "1") OFFSETS("4", "-2", "1"), "I23");
}

static void a_wrong_offset_for_a_time_is_I23(void **state)
{
    (void)state;
    expect_only(CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") FINAL("30", "3", "0", "0") FINAL("31", "4", "1", "1")
                    END("5", "2") OFFSETS("6", "11", "0"),
                "I23");
}

#define TIMED(op, at, offset, timestamp)                                           \
    "60 a1 " op " invoke offsets topic=t partition=0 at=" at " final=1\n61 a1 " op \
    " ok offsets topic=t partition=0 at=" at " final=1 offset=" offset " timestamp=" timestamp "\n"
#define TWO_RECORDS                                                                                         \
    CREATED ACKED("1", "0", "0") ACKED("2", "1", "1") FINAL("30", "3", "0", "0") FINAL("31", "4", "1", "1") \
        END("5", "2") /* of the times 10 and 11 */

static void the_greatest_time_is_told_with_its_record(void **state)
{
    (void)state;
    assert_int_equal(judge(TWO_RECORDS TIMED("6", "-3", "1", "11")).count, 0);
    expect_only(TWO_RECORDS TIMED("6", "-3", "0", "10"), "I23");
    expect_only(TWO_RECORDS TIMED("6", "-3", "-1", "-1"), "I23");
}

static void an_offset_is_told_with_the_time_of_its_record(void **state)
{
    (void)state;
    assert_int_equal(judge(TWO_RECORDS TIMED("6", "11", "1", "11")).count, 0);
    expect_told(TWO_RECORDS TIMED("6", "9", "0", "9"), "I23", "is told (for 9) with the timestamp 9, which is 10");
    expect_told(TWO_RECORDS TIMED("6", "-3", "1", "10"), "I23", "with the timestamp 10, which is 11");
    expect_told(TWO_RECORDS TIMED("6", "-1", "2", "11"), "I23", "with the timestamp 11, which is -1");
}

static void a_topic_that_was_created_and_is_said_to_lack_is_I23(void **state)
{
    (void)state;
    expect_only(CREATED "30 a1 1 invoke topic topic=t\n31 a1 1 ok topic topic=t count=-1\n", "I23");
}

static void a_topic_that_was_never_created_and_is_there_is_I23(void **state)
{
    (void)state;
    expect_only("30 a1 0 invoke topic topic=u\n31 a1 0 ok topic topic=u count=1\n", "I23");
}

static void a_history_reads_as_it_was_written(void **state)
{
    (void)state;
    struct history history = {.ops = NULL};
    struct history_op op = history_op_init(HISTORY_PRODUCE, "p1", 5);
    memcpy(op.topic, "t", 2);
    op.partition = 3;
    op.acks = -1;
    op.is_idempotent = true;
    op.record = (struct history_record){.incarnation = 2, .producer = 4, .sequence = 0};
    uint32_t number = history_invoke(&history, &op);
    op = history_op_init(HISTORY_NOTE, "", 6);
    memcpy(op.topic, "crash", 6);
    history_once(&history, &op);
    history.ops[number].offset = 17;
    history_end(&history, number, HISTORY_OK, 9);

    char first[2000] = {0}, second[2000] = {0};
    FILE *file = fmemopen(first, sizeof first, "w");
    history_write(&history, file);
    assert_int_equal(fclose(file), 0);
    struct history again = {.ops = NULL};
    uint32_t line;
    file = fmemopen(first, strlen(first), "r");
    assert_int_equal(history_read(&again, file, &line), BASE_OK);
    assert_int_equal(fclose(file), 0);
    file = fmemopen(second, sizeof second, "w");
    history_write(&again, file);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(first, second);
    assert_int_equal(again.ops[0].offset, 17);
    history_free(&history);
    history_free(&again);
}

/* Asked from 20 to 30. */
#define TOLD(op, count) "20 a1 " op " invoke topic topic=t\n30 a1 " op " ok topic topic=t count=" count "\n"
#define GROWN(op, begin, end, what, count) \
    begin " a2 " op " invoke grow topic=t count=" count "\n" end " a2 " op " " what " grow topic=t count=" count "\n"
#define GROWS(op, count)     "10 a2 " op " invoke grow topic=t count=" count "\n"
#define HAS_GROWN(op, count) "40 a2 " op " ok grow topic=t count=" count "\n"

static void expect_good(const char *lines)
{
    struct check_report report = judge(lines);
    if (report.count > 0) { fail_msg("%s: %s", report.breaches[0].id, report.breaches[0].text); }
}

static void a_topic_that_has_grown_is_told_with_all_its_partitions(void **state)
{
    (void)state;
    expect_good(CREATED GROWN("1", "5", "6", "ok", "4") TOLD("2", "4"));
    expect_only(CREATED GROWN("1", "5", "6", "ok", "4") TOLD("2", "1"), "I23");
    expect_only(CREATED GROWN("1", "5", "6", "ok", "4") TOLD("2", "3"), "I23");
    expect_only(CREATED GROWN("1", "5", "6", "fail", "4") TOLD("2", "4"), "I23");
    expect_only(CREATED TOLD("1", "2"), "I23");
    expect_only(CREATED TOLD("1", "-2"), "I23"); /* an answer that is not whole in itself */
}

static void records_of_a_partition_that_was_added_may_be_deleted(void **state)
{
    (void)state;
    const char *trim =
        "20 a1 2 invoke trim topic=t partition=1 at=0\n30 a1 2 ok trim topic=t partition=1 at=0 offset=0\n";
    char lines[1000];
    (void)snprintf(lines, sizeof lines, CREATED GROWN("1", "5", "6", "ok", "2") "%s", trim);
    expect_good(lines);
    (void)snprintf(lines, sizeof lines, CREATED GROWN("1", "5", "6", "fail", "2") "%s", trim);
    expect_only(lines, "I23");
}

static void a_topic_that_grows_is_told_as_before_or_as_after_and_never_between(void **state)
{
    (void)state;
    expect_good(CREATED GROWS("1", "4") TOLD("2", "1") HAS_GROWN("1", "4"));
    expect_good(CREATED GROWS("1", "4") TOLD("2", "4") HAS_GROWN("1", "4"));
    expect_only(CREATED GROWS("1", "4") TOLD("2", "2") HAS_GROWN("1", "4"), "I23");
    expect_good(CREATED GROWN("1", "5", "6", "unknown", "4") TOLD("2", "1"));
    expect_good(CREATED GROWN("1", "5", "6", "unknown", "4") TOLD("2", "4"));
    expect_only(CREATED GROWN("1", "5", "6", "unknown", "4") TOLD("2", "3"), "I23");
}

#define ALTERED(op, begin, end, what, at) \
    begin " a2 " op " invoke alter topic=t at=" at "\n" end " a2 " op " " what " alter topic=t at=" at "\n"
#define CONFIG(op, at, count) \
    "20 a1 " op " invoke config topic=t\n30 a1 " op " ok config topic=t at=" at " count=" count "\n"

static void a_config_is_told_as_it_was_set_last(void **state)
{
    (void)state;
    expect_good(CREATED CONFIG("1", "-1", "0"));
    expect_only(CREATED CONFIG("1", "7", "0"), "I23");
    expect_good(CREATED ALTERED("1", "5", "6", "ok", "7") CONFIG("2", "7", "0"));
    expect_only(CREATED ALTERED("1", "5", "6", "ok", "7") CONFIG("2", "-1", "0"), "I23");
    expect_only(CREATED ALTERED("1", "5", "6", "ok", "7") ALTERED("2", "7", "8", "ok", "9") CONFIG("3", "7", "0"),
                "I23");
    expect_good(CREATED ALTERED("1", "5", "6", "ok", "7") ALTERED("2", "7", "8", "ok", "-1") CONFIG("3", "-1", "0"));
    expect_only(CREATED ALTERED("1", "5", "6", "fail", "7") CONFIG("2", "7", "0"), "I23");
    expect_only(CREATED CONFIG("1", "-1", "-1"), "I23"); /* as if it were not there */
}

static void a_config_whose_change_may_have_happened_is_told_either_way(void **state)
{
    (void)state;
    expect_good(CREATED ALTERED("1", "5", "6", "unknown", "7") CONFIG("2", "7", "0"));
    expect_good(CREATED ALTERED("1", "5", "6", "unknown", "7") CONFIG("2", "-1", "0"));
    expect_good(CREATED ALTERED("1", "5", "6", "ok", "8") ALTERED("2", "7", "8", "unknown", "7") CONFIG("3", "8", "0"));
    expect_only(CREATED ALTERED("1", "5", "6", "ok", "8") ALTERED("2", "7", "8", "unknown", "7") CONFIG("3", "-1", "0"),
                "I23");
}

static void a_topic_is_told_with_the_durability_that_it_was_made_with(void **state)
{
    (void)state;
    expect_only(CREATED CONFIG("1", "-1", "2"), "I23");
    expect_good(
        "1 a1 0 invoke create topic=t count=1 at=2\n2 a1 0 ok create topic=t count=1 at=2\n" CONFIG("1", "-1", "2"));
    expect_only("1 a1 0 invoke create topic=t count=1 at=2\n2 a1 0 ok create topic=t count=1 at=2\n" CONFIG("1", "-1",
                                                                                                            "0"),
                "I23");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_history_is_good),
        cmocka_unit_test(an_acknowledged_record_that_is_gone_is_I1),
        cmocka_unit_test(a_record_that_was_written_and_had_time_may_not_go),
        cmocka_unit_test(a_record_that_was_written_when_a_crash_or_a_bad_disk_came_may_go),
        cmocka_unit_test(a_record_without_acks_that_was_sent_a_while_after_the_faults_has_come),
        cmocka_unit_test(records_before_the_start_of_a_topic_with_retention_may_go),
        cmocka_unit_test(records_that_retention_takes_beside_the_final_reader_may_go),
        cmocka_unit_test(records_behind_the_start_of_a_topic_with_retention_may_not_go),
        cmocka_unit_test(records_before_an_offset_up_to_which_a_client_deleted_are_gone),
        cmocka_unit_test(a_deletion_of_records_that_may_have_happened_leaves_them_or_takes_them),
        cmocka_unit_test(a_deletion_of_records_that_failed_takes_none),
        cmocka_unit_test(a_record_at_the_offset_up_to_which_a_client_deleted_may_not_go),
        cmocka_unit_test(a_record_that_was_deleted_and_is_read_later_is_I23),
        cmocka_unit_test(a_fetch_that_was_on_its_way_may_bring_what_was_deleted),
        cmocka_unit_test(an_earliest_offset_that_was_deleted_is_I23),
        cmocka_unit_test(a_deletion_beyond_the_end_that_succeeds_is_I23),
        cmocka_unit_test(a_deletion_in_a_partition_that_is_not_there_and_succeeds_is_I23),
        cmocka_unit_test(a_deletion_up_to_what_was_acknowledged_is_not_out_of_range),
        cmocka_unit_test(records_of_a_topic_without_retention_may_not_go_from_the_front),
        cmocka_unit_test(records_stamped_by_a_clock_far_behind_may_go_from_the_front),
        cmocka_unit_test(a_record_that_is_not_too_old_may_not_go_with_those_that_are),
        cmocka_unit_test(what_nobody_was_told_of_may_be_too_old_as_well),
        cmocka_unit_test(without_a_word_of_the_nodes_age_nothing_is_too_old),
        cmocka_unit_test(what_a_power_cut_takes_of_a_page_cache_topic_may_be_gone),
        cmocka_unit_test(a_power_cut_takes_no_record_from_between_others),
        cmocka_unit_test(an_acknowledged_record_at_another_offset_is_I1),
        cmocka_unit_test(another_record_where_one_was_acknowledged_is_I1),
        cmocka_unit_test(an_acknowledged_record_read_at_another_offset_too_is_I1),
        cmocka_unit_test(a_record_of_a_topic_deleted_later_may_be_gone),
        cmocka_unit_test(two_records_read_at_one_offset_are_I4),
        cmocka_unit_test(a_record_read_and_gone_is_I4),
        cmocka_unit_test(a_hole_in_the_final_read_is_I8),
        cmocka_unit_test(a_final_read_that_does_not_begin_at_0_is_I8),
        cmocka_unit_test(a_reader_that_misses_an_offset_is_I8),
        cmocka_unit_test(two_acknowledgements_of_one_offset_are_I8),
        cmocka_unit_test(a_duplicate_of_an_idempotent_producer_is_I9),
        cmocka_unit_test(records_of_an_idempotent_producer_out_of_order_are_I9),
        cmocka_unit_test(what_was_refused_of_an_unknown_producer_may_come_behind_what_was_not),
        cmocka_unit_test(a_record_that_nobody_produced_is_I20),
        cmocka_unit_test(a_record_with_another_timestamp_is_I20),
        cmocka_unit_test(a_reader_that_begins_elsewhere_than_it_asked_is_I8),
        cmocka_unit_test(a_record_of_another_partition_is_I20),
        cmocka_unit_test(an_operation_without_an_end_is_I21),
        cmocka_unit_test(a_failure_after_the_faults_is_I21),
        cmocka_unit_test(what_nobody_answers_may_be_lost_after_the_faults),
        cmocka_unit_test(a_definite_error_that_is_read_is_I22),
        cmocka_unit_test(a_latest_offset_below_what_is_known_is_I23),
        cmocka_unit_test(an_earliest_offset_that_is_not_0_is_I23),
        cmocka_unit_test(a_wrong_offset_for_a_time_is_I23),
        cmocka_unit_test(the_greatest_time_is_told_with_its_record),
        cmocka_unit_test(an_offset_is_told_with_the_time_of_its_record),
        cmocka_unit_test(a_topic_that_was_created_and_is_said_to_lack_is_I23),
        cmocka_unit_test(a_topic_that_was_never_created_and_is_there_is_I23),
        cmocka_unit_test(a_history_reads_as_it_was_written),
        cmocka_unit_test(a_topic_that_has_grown_is_told_with_all_its_partitions),
        cmocka_unit_test(records_of_a_partition_that_was_added_may_be_deleted),
        cmocka_unit_test(a_topic_that_grows_is_told_as_before_or_as_after_and_never_between),
        cmocka_unit_test(a_config_is_told_as_it_was_set_last),
        cmocka_unit_test(a_config_whose_change_may_have_happened_is_told_either_way),
        cmocka_unit_test(a_topic_is_told_with_the_durability_that_it_was_made_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
