/* signals.c: what SIGTERM, SIGINT and SIGHUP ask for: the first one to stop, a second one to stop at once.
 *
 * timeout(1), and whoever forwards what the terminal sends to all, sends one wish twice: the same signal that comes again within a moment
 * asks for nothing new.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#define MOMENT_MS 1000

static _Atomic int first_number; /* 0: none has come */
static _Atomic int64_t first_ms;

enum app_wish app_wish_of(int number, int64_t now_ms)
{
    if (first_number == 0) {
        first_ms = now_ms;
        first_number = number;
        return APP_WISH_STOP;
    }
    bool is_again = number == first_number && now_ms - first_ms < MOMENT_MS;
    return is_again ? APP_WISH_NONE : APP_WISH_STOP_AT_ONCE;
}

enum app_wish app_wish(int number)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* this clock is always there */
    return app_wish_of(number, (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

void app_on_signals(void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGTERM); /* one at a time */
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGHUP);
    (void)sigaction(SIGTERM, &action, NULL); /* can't fail with these numbers */
    (void)sigaction(SIGINT, &action, NULL);
    struct sigaction now;
    bool is_ignored = sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN; /* nohup(1) */
    if (!is_ignored) { (void)sigaction(SIGHUP, &action, NULL); }
}
