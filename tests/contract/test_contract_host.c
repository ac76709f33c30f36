/* test_contract_host.c: the suite over host/uv.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host_driver.h"

int main(void) { return contract_run(&host_driver); }
