/* app.h: the program: arguments and files in, machines on host/uv, lines out.
 *
 * Room    host/app. The only room that prints, reads arguments and chooses exit codes; it decides nothing that a room of the
 *         core should decide.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_APP_APP_H
#define HOST_APP_APP_H

enum app_exit {
    APP_DONE = 0,
    APP_FAILED = 1, /* a server's error, disk, lost connection */
    APP_USAGE = 2,  /* usage or configuration */
    APP_CHECK = 134 /* after a CHECK */
};

/* The whole program but main: the exit code. */
int app_main(int argc, char **argv, const char *version);

#endif
