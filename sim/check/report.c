/* report.c: see report.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>

void check_breach(struct check_report *report, const char *id, const char *format, ...)
{
    if (report->count < CHECK_BREACHES_MAX) {
        struct check_breach *breach = &report->breaches[report->count];
        (void)snprintf(breach->id, sizeof breach->id, "%s", id); /* cut: every id is short */
        va_list words;
        va_start(words, format);
        (void)vsnprintf(breach->text, sizeof breach->text, format, words); /* cut: a text is for people */
        va_end(words);
    }
    report->count += 1;
}

bool check_has(const struct check_report *report, const char *id)
{
    uint32_t kept = report->count < CHECK_BREACHES_MAX ? report->count : CHECK_BREACHES_MAX;
    for (uint32_t i = 0; i < kept; i++) {
        if (strcmp(report->breaches[i].id, id) == 0) { return true; }
    }
    return false;
}
