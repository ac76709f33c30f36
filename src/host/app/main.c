/* main.c: the program weir, and what a failed CHECK does in it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host/app/app.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* One line that names the check. Where core files are wanted, abort leaves one; a shell then reports 134 all the same. */
void base_panic_host(const char *file, int line, const char *what)
{
    char words[1024];
    int length = snprintf(words, sizeof words, "FATAL: CHECK failed: %s:%d: %s\n", file, line, what);
    if (length < 0) { length = 0; }
    if ((size_t)length >= sizeof words) { length = (int)sizeof words - 1; }
    ssize_t written = write(STDERR_FILENO, words, (size_t)length);
    (void)written; /* nowhere left to report to */
    struct rlimit core;
    if (getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur > 0) { abort(); }
    _exit(APP_CHECK);
}

int main(int argc, char **argv) { return app_main(argc, argv, WEIR_VERSION); }
