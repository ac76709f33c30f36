/* report.h: what the checkers found: the invariant's id and a sentence.
 *
 * Room    sim/check.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

#include "base/base.h"

#define CHECK_TEXT_BYTES   400
#define CHECK_BREACHES_MAX 16
#define CHECK_AHEAD_MAX_MS \
    (3600 * INT64_C(1000)) /* a clock's, before retention holds what it says to be from the future */

struct check_breach {
    char id[4]; /* "I19" */
    char text[CHECK_TEXT_BYTES];
};

struct check_report {
    struct check_breach breaches[CHECK_BREACHES_MAX]; /* the first ones */
    uint32_t count;                                   /* all */
};

void check_breach(struct check_report *report, const char *id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* True when a breach of `id` was reported (among the first CHECK_BREACHES_MAX). */
bool check_has(const struct check_report *report, const char *id);

#endif
