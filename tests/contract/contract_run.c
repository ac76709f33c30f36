/* contract_run.c: all cases of the suite, one after the other, and then what of port.h none of them has met.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the self-test leaves out, the excuse that it plants, and the names that the check then has to tell, in the order of
 * port.h. Each of the cases is the only one of its names. */
static const char *const dropped[] = {"a_half_closed_connection_still_receives",
                                      "one_shard_cannot_listen_twice_on_one_address"};
static const struct coverage_excuse planted = {"EXISTS", "the self-test says so, and it is not true"};
static const char *const to_be_told[] = {"SHUT", "IN_USE", "EXISTS"};

static void every_effect_kind_and_error_word_has_a_case(void **state)
{
    (void)state;
    const struct contract_driver *driver = contract_current();
    for (size_t i = 0; i < driver->excuse_count; i++) {
        print_message("excused over %s: %s: %s\n", driver->name, driver->excuses[i].name, driver->excuses[i].reason);
    }
    struct coverage_gaps gaps;
    coverage_find_gaps(contract_coverage(), driver->excuses, driver->excuse_count, &gaps);
    for (size_t i = 0; i < gaps.count; i++) {
        print_error("%s of port.h %s over %s\n", gaps.names[i], gaps.whys[i], driver->name);
    }
    if (gaps.count > 0) { fail(); }
}

static void what_lost_its_case_is_told_and_so_is_a_false_excuse(void **state)
{
    (void)state;
    const struct contract_driver *driver = contract_current();
    struct coverage_excuse *excuses = calloc(driver->excuse_count + 1, sizeof *excuses);
    CHECK(excuses != NULL);
    for (size_t i = 0; i < driver->excuse_count; i++) { excuses[i] = driver->excuses[i]; }
    excuses[driver->excuse_count] = planted;
    struct coverage_gaps gaps;
    coverage_find_gaps(contract_coverage(), excuses, driver->excuse_count + 1, &gaps);
    free(excuses);
    for (size_t i = 0; i < gaps.count; i++) { print_message("told: %s %s\n", gaps.names[i], gaps.whys[i]); }
    assert_int_equal(gaps.count, BASE_ARRAY_COUNT(to_be_told));
    for (size_t i = 0; i < gaps.count; i++) { assert_string_equal(gaps.names[i], to_be_told[i]); }
}

static bool is_dropped(const char *name)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(dropped); i++) {
        if (strcmp(name, dropped[i]) == 0) { return true; }
    }
    return false;
}

struct group {
    struct CMUnitTest *cases;
    size_t count;
    bool is_selftest;
    size_t dropped_count;
};

static void add(struct group *group, const struct CMUnitTest *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (group->is_selftest && is_dropped(cases[i].name)) {
            group->dropped_count += 1;
            continue;
        }
        group->cases[group->count] = cases[i];
        group->count += 1;
    }
}

int contract_run(const struct contract_driver *driver, int argc, char **argv)
{
    contract_use(driver);
    struct group group = {.is_selftest = argc == 2 && strcmp(argv[1], "--selftest") == 0};
    if (argc != (group.is_selftest ? 2 : 1)) {
        (void)fprintf(stderr, "usage: %s [--selftest]\n", argv[0]); /* the exit code says it too */
        return 2;
    }
    size_t total = contract_file_case_count + contract_net_case_count + contract_loop_case_count;
    group.cases = calloc(total + driver->own_case_count + 1, sizeof *group.cases);
    CHECK(group.cases != NULL);
    add(&group, contract_file_cases, contract_file_case_count);
    add(&group, contract_net_cases, contract_net_case_count);
    add(&group, contract_loop_cases, contract_loop_case_count);
    add(&group, driver->own_cases, driver->own_case_count);
    CHECK(group.dropped_count == (group.is_selftest ? BASE_ARRAY_COUNT(dropped) : 0)); /* their names are still true */
    static const struct CMUnitTest checks[] = {
        cmocka_unit_test(every_effect_kind_and_error_word_has_a_case),
        cmocka_unit_test(what_lost_its_case_is_told_and_so_is_a_false_excuse),
    };
    add(&group, &checks[group.is_selftest ? 1 : 0], 1);
    int failed = _cmocka_run_group_tests(driver->name, group.cases, group.count, NULL, NULL);
    free(group.cases);
    return failed;
}
