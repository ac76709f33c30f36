/* host_driver.h: the suite over src/host/uv: loopback, and directories under TMPDIR.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_CONTRACT_HOST_DRIVER_H
#define TESTS_CONTRACT_HOST_DRIVER_H

#include "contract.h"

extern const struct contract_driver host_driver;
const char *host_driver_disk(void *world, uint32_t disk);

/* The directories of the next worlds' disks are made in this one, when not NULL. */
void host_driver_root(const char *directory);

extern const struct CMUnitTest contract_host_cases[]; /* cases_host.c */
extern const size_t contract_host_case_count;

#endif
