/* check_groups_test.c: the checker of groups meets what must not be, told and committed, and says so; and what may be, and is silent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "groups.h"

static struct history history;
static struct check_report report;
static struct check_groups *groups;

/* Takes in the lines of a history; a header is put before them. */
static void given(const char *lines)
{
    report = (struct check_report){.count = 0};
    history = (struct history){.ops = NULL};
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(fprintf(file, "weir-history 1\n%s", lines) > 0);
    rewind(file);
    uint32_t line = 0;
    enum base_rc rc = history_read(&history, file, &line);
    if (rc != BASE_OK) { fail_msg("line %u is none", line); }
    assert_int_equal(fclose(file), 0);
    groups = check_groups_create(&report, &history);
}

static void end(void)
{
    check_groups_destroy(groups);
    history_free(&history);
}

static void expect_first(const char *id, const char *words)
{
    bool is_told =
        report.count > 0 && strcmp(report.breaches[0].id, id) == 0 && strstr(report.breaches[0].text, words) != NULL;
    if (!is_told) { fail_msg("%s instead of: %s", report.count == 0 ? "nothing" : report.breaches[0].text, words); }
    end();
}

static void expect_told(const char *lines, const char *id, const char *words)
{
    given(lines);
    check_groups_told(groups);
    expect_first(id, words);
}

static void expect_nothing_told(void)
{
    if (report.count > 0) { fail_msg("%s: %s", report.breaches[0].id, report.breaches[0].text); }
    end();
}

static void expect_silence(const char *lines)
{
    given(lines);
    check_groups_told(groups);
    expect_nothing_told();
}

#define JOINED(at, op, member, leader, generation)                                                                 \
    at " m1 " op " invoke join topic=t group=g member=" member " session_ms=1000 rebalance_ms=1000\n" at " m1 " op \
       " ok join topic=t group=g member=" member " given=" member " leader=" leader " generation=" generation      \
       " session_ms=1000 rebalance_ms=1000\n"
#define SYNCED(at, op, member, generation, owned)                                                  \
    at " m1 " op " invoke sync group=g member=" member " generation=" generation "\n" at " m1 " op \
       " ok sync group=g member=" member " generation=" generation " owned=" owned "\n"
#define COMMITTED(at, op, what, member, generation, tag)                                                    \
    at " m1 " op " invoke commit topic=t partition=0 at=5 group=g member=" member " generation=" generation \
       " tag=" tag "\n" at " m1 " op " " what " commit topic=t partition=0 at=5 group=g member=" member     \
       " generation=" generation " tag=" tag "\n"

static void a_good_group_is_good(void **state)
{
    (void)state;
    expect_silence(JOINED("10", "0", "a", "a", "1") JOINED("11", "1", "b", "a", "1") SYNCED("12", "2", "a", "1", "t:0")
                       SYNCED("13", "3", "b", "1", "t:1,t:2") COMMITTED("14", "4", "ok", "a", "1", "1")
                           JOINED("20", "5", "a", "a", "2") SYNCED("21", "6", "a", "2", "t:1"));
}

static void two_owners_of_a_partition_are_told(void **state)
{
    (void)state;
    expect_told(SYNCED("10", "0", "a", "1", "t:0,t:1") SYNCED("11", "1", "b", "1", "t:2,t:1"), "I12",
                "t:1 belongs to a and to b in generation 1");
}

static void a_generation_that_goes_back_is_told(void **state)
{
    (void)state;
    /* Its member was heard of just before: it can't have been empty, and made anew. */
    expect_told(JOINED("10", "0", "a", "a", "5") SYNCED("11", "1", "a", "5", "t:0") JOINED("12", "2", "b", "b", "4"),
                "I12", "told generation 4");
}

static void two_leaders_of_a_generation_are_told(void **state)
{
    (void)state;
    expect_told(JOINED("10", "0", "a", "a", "1") JOINED("11", "1", "b", "b", "1"), "I12", "is led by a and by b");
}

static void a_commit_of_an_older_generation_is_told(void **state)
{
    (void)state;
    expect_told(JOINED("10", "0", "a", "a", "1") JOINED("11", "1", "a", "a", "2")
                    COMMITTED("12", "2", "ok", "a", "1", "1"),
                "I12", "as of generation 1");
}

static void an_offset_that_was_refused_or_never_asked_for_is_told(void **state)
{
    (void)state;
#define FETCHED(op, tag, offset)                                  \
    "20 m2 " op " invoke committed topic=t partition=0 group=g\n" \
    "21 m2 " op " ok committed topic=t partition=0 group=g tag=" tag " offset=" offset "\n"
    expect_told(COMMITTED("12", "0", "fail", "a", "1", "1") FETCHED("1", "1", "5"), "I22", "which was refused");
    expect_told(FETCHED("0", "7", "5"), "I12", "nobody has committed that");
    expect_silence(COMMITTED("12", "0", "unknown", "a", "1", "1") FETCHED("1", "1", "5"));
#undef FETCHED
}

/* ---- what is committed ----------------------------------------------------------------------------------------------------- */

static void begin_look(uint64_t now_ns)
{
    check_groups_look(groups, 0, now_ns, (int64_t)(now_ns / 1000000), true);
    struct check_group_log log = {.is_led = true};
    check_groups_log(groups, 0, &log);
}

static void see_group(int32_t generation, bool is_stable)
{
    struct check_group group = {.id = base_slice_text("g"),
                                .is_committed = true,
                                .is_stable = is_stable,
                                .generation = generation,
                                .state_ms = 0,
                                .protocol_type = base_slice_text("consumer"),
                                .leader = base_slice_text("a")};
    check_groups_group(groups, 0, &group);
}

static void see_owner(uint32_t slot, const char *id, const char *instance, struct base_slice assignment)
{
    struct check_group_member member = {.group_id = base_slice_text("g"),
                                        .id = base_slice_text(id),
                                        .instance =
                                            instance == NULL ? base_slice_of(NULL, 0) : base_slice_text(instance),
                                        .assignment = assignment,
                                        .session_ms = 1000,
                                        .rebalance_ms = 1000};
    check_groups_member(groups, slot, &member);
}

static void see_member(uint32_t slot, const char *id, const char *instance)
{
    see_owner(slot, id, instance, base_slice_of("", 0));
}

static void see_offset_until(int64_t offset, const char *metadata, int64_t commit_ms, int64_t expire_ms)
{
    struct check_group_offset look = {.group_id = base_slice_text("g"),
                                      .offset = offset,
                                      .commit_ms = commit_ms,
                                      .expire_ms = expire_ms,
                                      .metadata = base_slice_text(metadata),
                                      .has_topic = true};
    check_groups_offset(groups, 0, &look);
}

static void see_offset(int64_t offset, const char *metadata) { see_offset_until(offset, metadata, 0, -1); }

static void expect_breach(const char *id, const char *words)
{
    check_groups_looked(groups);
    expect_first(id, words);
}

/* Member a is alone in generation 1. */
static void look_at_first(void)
{
    check_groups_rules(groups, 60000, 5000000000);
    begin_look(1);
    see_group(1, true);
    see_member(0, "a", NULL);
    check_groups_looked(groups);
}

/* Member a, alone in generation 1, has committed offset 5. */
static void given_state(const char *more)
{
    char lines[2048];
    (void)snprintf(lines, sizeof lines, "%s%s",
                   JOINED("10", "0", "a", "a", "1") COMMITTED("14", "1", "ok", "a", "1", "1"), more);
    given(lines);
    look_at_first();
    begin_look(2);
    see_group(1, true);
    see_member(0, "a", NULL);
    see_offset(5, "tag=1");
    check_groups_looked(groups);
    report.count = 0; /* the lines were all told before the first look */
}

static void an_offset_that_is_gone_is_told(void **state)
{
    (void)state;
    given_state("");
    begin_look(3);
    see_group(1, true);
    see_member(0, "a", NULL);
    expect_breach("I12", "is gone, while its group reads that topic");
}

static void an_offset_may_go_whose_topic_a_join_that_waits_has_left_out(void **state)
{
    (void)state;
    given_state("16 m1 2 invoke join topic=u group=g member=a session_ms=1000 rebalance_ms=1000\n");
    begin_look(70000000000);
    see_group(1, true);
    see_member(0, "a", NULL);
    check_groups_looked(groups);
    expect_nothing_told();
}

static void an_offset_that_nobody_committed_is_told(void **state)
{
    (void)state;
    given_state("");
    begin_look(3);
    see_group(1, true);
    see_member(0, "a", NULL);
    see_offset(6, "tag=1");
    expect_breach("I12", "nobody has asked for that");
}

static void a_committed_generation_that_leaps_is_told(void **state)
{
    (void)state;
    given_state("");
    begin_look(3);
    see_group(3, true);
    see_member(0, "a", NULL);
    see_offset(5, "tag=1");
    expect_breach("I12", "goes from 1 to 3");
}

/* Generation 2 gives t:0 to a; generation 3 is committed before a hears of that. */
static void given_that_the_next_round_came_first(void)
{
    static const uint8_t assignment[] = {0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0, 255, 255, 255, 255};
    given(JOINED("10", "0", "a", "a", "2"));
    look_at_first();
    begin_look(2);
    see_group(2, true);
    see_owner(0, "a", NULL, base_slice_of(assignment, sizeof assignment));
    check_groups_looked(groups);
    begin_look(3);
    see_group(3, false);
    see_member(0, "a", NULL);
    check_groups_looked(groups);
    report.count = 0;
}

static void tell_sync(const char *owned)
{
    struct history_op op = history_op_init(HISTORY_SYNC, "m1", 3);
    struct history_group *group = history_add_group(&op);
    group->group[0] = 'g';
    group->member[0] = 'a';
    group->generation = 2;
    group->owned = strdup(owned);
    history_end(&history, history_invoke(&history, &op), HISTORY_OK, 4);
    check_groups_told(groups);
}

static void an_assignment_may_be_told_when_the_next_round_is_committed(void **state)
{
    (void)state;
    given_that_the_next_round_came_first();
    tell_sync("t:0");
    expect_nothing_told();
}

static void an_assignment_that_was_not_committed_is_told_after_the_next_round_too(void **state)
{
    (void)state;
    given_that_the_next_round_came_first();
    tell_sync("t:1");
    expect_first("I12", "was told that it owns \"t:1\" in generation 2, and \"t:0\" is committed");
}

static void one_instance_with_two_members_is_told(void **state)
{
    (void)state;
    given_state("");
    begin_look(3);
    see_group(1, true);
    see_member(0, "a", NULL);
    see_member(1, "b", "i");
    see_member(2, "c", "i");
    see_offset(5, "tag=1");
    expect_breach("I12", "are both members of group g as i");
}

static void a_group_that_waits_for_ever_is_told(void **state)
{
    (void)state;
    given_state("");
    for (uint64_t now_ns = 3; now_ns < 8; now_ns++) {
        begin_look(now_ns * 1000000000);
        see_group(2, false);
        see_member(0, "a", NULL);
        see_offset(5, "tag=1");
        check_groups_looked(groups);
    }
    assert_int_equal(report.count, 0);
    begin_look(9000000000);
    see_group(2, false);
    see_member(0, "a", NULL);
    see_offset(5, "tag=1");
    expect_breach("I13", "waiting for its leader's assignment");
}

/* ---- what is acknowledged -------------------------------------------------------------------------------------------------- */

/* Of nobody's, in group g, of the one partition that these tests know. */
static uint32_t ask_to_commit(uint64_t now_ns, int64_t offset, int64_t tag)
{
    struct history_op op = history_op_init(HISTORY_COMMIT, "m3", now_ns);
    op.topic[0] = 't';
    op.partition = 0;
    op.at = offset;
    struct history_group *group = history_add_group(&op);
    group->group[0] = 'g';
    group->generation = -1;
    group->tag = tag;
    return history_invoke(&history, &op);
}

static void look_at_offset_until(uint64_t now_ns, int64_t offset, const char *metadata, int64_t commit_ms,
                                 int64_t expire_ms)
{
    begin_look(now_ns);
    struct check_group group = {.id = base_slice_text("g"), .is_committed = true, .is_empty = true, .state_ms = -1};
    check_groups_group(groups, 0, &group);
    if (metadata != NULL) { see_offset_until(offset, metadata, commit_ms, expire_ms); }
    check_groups_looked(groups);
}

static void look_at_offset(uint64_t now_ns, int64_t offset, const char *metadata)
{
    look_at_offset_until(now_ns, offset, metadata, 0, -1);
}

static void given_nothing_committed(void)
{
    given("");
    check_groups_rules(groups, 60000, 5000000000);
    look_at_offset(1, 0, NULL);
}

static void tell_commit(uint32_t op, uint64_t now_ns)
{
    history_end(&history, op, HISTORY_OK, now_ns);
    check_groups_told(groups);
}

#define OLD_NS UINT64_C(100000000000) /* longer than offsets are kept here */

static void an_acknowledged_offset_that_was_never_committed_is_told(void **state)
{
    (void)state;
    given_nothing_committed();
    uint32_t op = ask_to_commit(2, 5, 0);
    look_at_offset(3, 0, NULL);
    tell_commit(op, 4);
    expect_first("I12", "was acknowledged to m3, and is not committed");
}

static void an_offset_may_be_replaced_before_its_client_hears_of_it(void **state)
{
    (void)state;
    given_nothing_committed();
    uint32_t op = ask_to_commit(2, 5, 0);
    (void)ask_to_commit(2, 6, 1);
    look_at_offset(3, 6, "tag=1"); /* one change held both */
    tell_commit(op, 4);
    expect_nothing_told();
}

static void what_replaced_an_offset_may_go_by_age_before_its_client_hears_of_it(void **state)
{
    (void)state;
    given_nothing_committed();
    uint32_t op = ask_to_commit(2, 5, 0);
    (void)ask_to_commit(2, 6, 1);
    look_at_offset(3, 6, "tag=1");
    look_at_offset(OLD_NS, 0, NULL);
    tell_commit(op, OLD_NS + 1);
    expect_nothing_told();
}

static void an_offset_is_not_replaced_by_one_that_was_committed_before_it_was_asked_for(void **state)
{
    (void)state;
    given_nothing_committed();
    uint32_t other = ask_to_commit(2, 6, 1);
    look_at_offset(3, 6, "tag=1");
    tell_commit(other, 4);
    uint32_t op = ask_to_commit(5, 5, 0);
    look_at_offset(OLD_NS, 0, NULL);
    tell_commit(op, OLD_NS + 1);
    expect_first("I12", "was acknowledged to m3, and is not committed");
}

static void look_at_expiry(int64_t commit_ms, int64_t expire_ms)
{
    given_nothing_committed();
    (void)ask_to_commit(2, 6, 1);
    look_at_offset_until(3, 6, "tag=1", commit_ms, expire_ms);
}

static void an_offset_whose_expiry_is_over_as_it_is_committed_is_told(void **state)
{
    (void)state;
    look_at_expiry(1000, 1001);
    expect_nothing_told();
    look_at_expiry(1000, 1000);
    expect_first("I12", "has an expiry that is over as it is committed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_group_is_good),
        cmocka_unit_test(two_owners_of_a_partition_are_told),
        cmocka_unit_test(a_generation_that_goes_back_is_told),
        cmocka_unit_test(two_leaders_of_a_generation_are_told),
        cmocka_unit_test(a_commit_of_an_older_generation_is_told),
        cmocka_unit_test(an_offset_that_was_refused_or_never_asked_for_is_told),
        cmocka_unit_test(an_offset_that_is_gone_is_told),
        cmocka_unit_test(an_offset_may_go_whose_topic_a_join_that_waits_has_left_out),
        cmocka_unit_test(an_offset_that_nobody_committed_is_told),
        cmocka_unit_test(a_committed_generation_that_leaps_is_told),
        cmocka_unit_test(one_instance_with_two_members_is_told),
        cmocka_unit_test(an_assignment_may_be_told_when_the_next_round_is_committed),
        cmocka_unit_test(an_assignment_that_was_not_committed_is_told_after_the_next_round_too),
        cmocka_unit_test(a_group_that_waits_for_ever_is_told),
        cmocka_unit_test(an_acknowledged_offset_that_was_never_committed_is_told),
        cmocka_unit_test(an_offset_may_be_replaced_before_its_client_hears_of_it),
        cmocka_unit_test(what_replaced_an_offset_may_go_by_age_before_its_client_hears_of_it),
        cmocka_unit_test(an_offset_is_not_replaced_by_one_that_was_committed_before_it_was_asked_for),
        cmocka_unit_test(an_offset_whose_expiry_is_over_as_it_is_committed_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
