/* world_driver.h: the suite over sim/world.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_CONTRACT_WORLD_DRIVER_H
#define TESTS_CONTRACT_WORLD_DRIVER_H

#include "contract.h"
#include "sim/world/world.h"

struct world *world_driver_world(struct contract *contract); /* its node is number 0 */

extern const struct CMUnitTest contract_world_cases[]; /* cases_world.c */
extern const size_t contract_world_case_count;

#endif
