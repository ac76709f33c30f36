/* contract_run.c: all cases of the suite, one after the other.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "contract.h"

#include <stdlib.h>
#include <string.h>

int contract_run(const struct contract_driver *driver)
{
    contract_use(driver);
    size_t total = contract_file_case_count + contract_net_case_count + contract_loop_case_count;
    struct CMUnitTest *all = calloc(total, sizeof *all);
    CHECK(all != NULL);
    size_t at = 0;
    memcpy(all + at, contract_file_cases, contract_file_case_count * sizeof *all);
    at += contract_file_case_count;
    memcpy(all + at, contract_net_cases, contract_net_case_count * sizeof *all);
    at += contract_net_case_count;
    memcpy(all + at, contract_loop_cases, contract_loop_case_count * sizeof *all);
    int failed = _cmocka_run_group_tests(driver->name, all, total, NULL, NULL);
    free(all);
    return failed;
}
