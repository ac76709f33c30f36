/* app.h: the program: arguments and files in, machines on host/uv, lines out.
 *
 * Room    host/app. The only room that prints, reads arguments and chooses exit codes; it decides nothing that a room of the
 *         core should decide.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_APP_APP_H
#define HOST_APP_APP_H

#include "port/port.h"

#include <stdbool.h>

enum app_exit {
    APP_DONE = 0,
    APP_FAILED = 1, /* a server's error, disk, lost connection */
    APP_USAGE = 2,  /* usage or configuration */
    APP_CHECK = 134 /* after a CHECK */
};

/* A line of the log of this process, for the one who can't wait for what other lines wait for: a signal handler, a failed check. Like any
 * it is lost where nobody reads. False: this process keeps no log. */
bool app_log_now(enum port_level level, const char *words);

/* The whole program but main: the exit code. */
int app_main(int argc, char **argv, const char *version);

#endif
