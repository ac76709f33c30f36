/* coverage.c: see coverage.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "coverage.h"

#include <string.h>

bool coverage_is_note(enum port_effect_kind kind)
{
    return kind == PORT_LOG || kind == PORT_LEVEL || kind == PORT_READY || kind == PORT_STOPPED;
}

void coverage_asked(struct coverage *coverage, enum port_effect_kind kind)
{
    CHECK(kind < PORT_EFFECT_COUNT);
    coverage->asked[kind] += 1;
}

void coverage_completed(struct coverage *coverage, enum port_effect_kind kind, enum port_rc rc)
{
    CHECK(kind < PORT_EFFECT_COUNT);
    CHECK(rc < PORT_RC_COUNT);
    coverage->completed[kind][rc] += 1;
}

static bool has_case_of_kind(const struct coverage *coverage, enum port_effect_kind kind)
{
    return coverage_is_note(kind) ? coverage->asked[kind] > 0 : coverage->completed[kind][PORT_OK] > 0;
}

static bool has_case_of_word(const struct coverage *coverage, enum port_rc rc)
{
    for (size_t kind = 0; kind < PORT_EFFECT_COUNT; kind++) {
        if (coverage->completed[kind][rc] > 0) { return true; }
    }
    return false;
}

static bool is_excused(const char *name, const struct coverage_excuse *excuses, size_t excuse_count)
{
    for (size_t i = 0; i < excuse_count; i++) {
        if (strcmp(excuses[i].name, name) == 0) { return true; }
    }
    return false;
}

static void look_at(struct coverage_gaps *gaps, const char *name, bool is_met, bool is_let_off)
{
    if (is_met != is_let_off) { return; }
    gaps->names[gaps->count] = name;
    gaps->whys[gaps->count] = is_met ? "is excused, and a case meets it" : "has no case";
    gaps->count += 1;
}

void coverage_find_gaps(const struct coverage *coverage, const struct coverage_excuse *excuses, size_t excuse_count,
                        struct coverage_gaps *gaps_out)
{
    gaps_out->count = 0;
    for (uint32_t i = 0; i < PORT_EFFECT_COUNT; i++) {
        const char *name = port_effect_name((enum port_effect_kind)i);
        look_at(gaps_out, name, has_case_of_kind(coverage, (enum port_effect_kind)i),
                is_excused(name, excuses, excuse_count));
    }
    for (uint32_t i = 0; i < PORT_RC_COUNT; i++) {
        const char *name = port_rc_name((enum port_rc)i);
        look_at(gaps_out, name, has_case_of_word(coverage, (enum port_rc)i), is_excused(name, excuses, excuse_count));
    }
}
