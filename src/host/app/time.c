/* time.c: a time on the command line.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__command.h"

#include <string.h>
#include <time.h>

static bool take_digits(const char **at, int digits, int *value_out)
{
    int value = 0;
    for (int i = 0; i < digits; i++) {
        char c = (*at)[i];
        if (c < '0' || c > '9') { return false; }
        value = value * 10 + (c - '0');
    }
    *at += digits;
    *value_out = value;
    return true;
}

static bool take_char(const char **at, const char *choices)
{
    if (**at == '\0' || strchr(choices, **at) == NULL) { return false; }
    *at += 1;
    return true;
}

/* What follows the time: nothing or Z (UTC), or +HH:MM. */
static bool read_zone(const char **at, int *minutes_out)
{
    int hours = 0;
    int minutes = 0;
    *minutes_out = 0;
    if (**at == '\0') { return true; }
    if (take_char(at, "Zz")) { return **at == '\0'; }
    int sign = **at == '-' ? -1 : 1;
    if (!take_char(at, "+-") || !take_digits(at, 2, &hours)) { return false; }
    (void)take_char(at, ":"); /* +0100 is as good as +01:00 */
    if (**at != '\0' && !take_digits(at, 2, &minutes)) { return false; }
    *minutes_out = sign * (hours * 60 + minutes);
    return **at == '\0';
}

/* 2026-11-29, 2026-11-29T13:18, 2026-11-29T13:18:00.123+01:00; UTC where no zone is given. */
static bool read_iso(const char *at, int64_t *ms_out)
{
    struct tm parts_of = {0};
    int millis = 0;
    int zone = 0;
    if (!take_digits(&at, 4, &parts_of.tm_year) || !take_char(&at, "-") || !take_digits(&at, 2, &parts_of.tm_mon) ||
        !take_char(&at, "-") || !take_digits(&at, 2, &parts_of.tm_mday)) {
        return false;
    }
    if (take_char(&at, "Tt ")) {
        if (!take_digits(&at, 2, &parts_of.tm_hour) || !take_char(&at, ":") || !take_digits(&at, 2, &parts_of.tm_min)) {
            return false;
        }
        if (take_char(&at, ":") && !take_digits(&at, 2, &parts_of.tm_sec)) { return false; }
        if (take_char(&at, ".,")) {
            int scale = 100;
            int digit = 0;
            if (*at < '0' || *at > '9') { return false; }
            while (take_digits(&at, 1, &digit)) {
                millis += digit * scale;
                scale /= 10;
            }
        }
    }
    if (!read_zone(&at, &zone) || parts_of.tm_mon < 1 || parts_of.tm_mon > 12 || parts_of.tm_mday < 1 ||
        parts_of.tm_mday > 31 || parts_of.tm_hour > 24 || parts_of.tm_min > 59 || parts_of.tm_sec > 60) {
        return false;
    }
    parts_of.tm_year -= 1900;
    parts_of.tm_mon -= 1;
    *ms_out = ((int64_t)timegm(&parts_of) - (int64_t)zone * 60) * 1000 + millis;
    return true;
}

bool app_read_time(const char *words, int64_t *ms_out)
{
    if (base_text_parse_i64(base_slice_text(words), ms_out) == BASE_OK) { return *ms_out >= 0; }
    return read_iso(words, ms_out);
}
