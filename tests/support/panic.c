/* panic.c: what a failed CHECK does in a test that defines no base_panic_host of its own.
 *
 * Room    tests/support.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

void base_panic_host(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "CHECK failed: %s:%d: %s\n", file, line, what); /* about to abort: nowhere to report to */
    abort();
}
