/* main.c: the program weir, and what a failed CHECK does in it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host/app/app.h"

#include "base/check.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* One line that names the check: of the log, but for one that fails while that is written. Where core files are wanted, abort leaves one;
 * a shell then reports 134 all the same. */
void base_panic_host(const char *file, int line, const char *what)
{
    static atomic_bool has_begun;
    char words[1024];
    char plain[1100];
    (void)snprintf(words, sizeof words, "CHECK failed: %s:%d: %s", file, line, what); /* cut is good enough */
    if (atomic_exchange(&has_begun, true) || !app_log_now(PORT_FATAL, words)) {
        (void)snprintf(plain, sizeof plain, "FATAL: %s\n", words); /* there is room */
        ssize_t written = write(STDERR_FILENO, plain, strlen(plain));
        (void)written; /* nowhere left to report to */
    }
    struct rlimit core;
    if (getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur > 0) { abort(); }
    _exit(APP_CHECK);
}

/* A standard stream that the caller closed gets a descriptor that fails, as a closed one does: else the next file or socket of ours
 * would have its number, and get what is printed. */
static bool hold_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) { continue; }
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) { return false; }
    }
    return true;
}

int main(int argc, char **argv)
{
    if (!hold_standard_streams()) { return APP_FAILED; } /* nowhere to say so */
    return app_main(argc, argv, WEIR_VERSION);
}
