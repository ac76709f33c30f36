/* coverage.h: which effects of port.h were asked for and which error words came back, over all cases; and what no case has met.
 *
 * Rule    for every effect kind that completes, a case in which it completes with PORT_OK; every note is emitted in a case;
 *         every error word comes back from some effect. What an adapter can't give is excused with a reason, and an excuse for
 *         what is met after all is a gap too.
 * Threads as the suite's machine: under its lock.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_CONTRACT_COVERAGE_H
#define TESTS_CONTRACT_COVERAGE_H

#include "base/base.h"
#include "port/port.h"

struct coverage {
    uint32_t asked[PORT_EFFECT_COUNT];
    uint32_t completed[PORT_EFFECT_COUNT][PORT_RC_COUNT];
};

struct coverage_excuse {
    const char *name; /* as port_effect_name or port_rc_name has it */
    const char *reason;
};

#define COVERAGE_GAPS_MAX ((size_t)PORT_EFFECT_COUNT + (size_t)PORT_RC_COUNT)
struct coverage_gaps {
    const char *names[COVERAGE_GAPS_MAX];
    const char *whys[COVERAGE_GAPS_MAX];
    size_t count;
};

bool coverage_is_note(enum port_effect_kind kind); /* no completion follows */
void coverage_asked(struct coverage *coverage, enum port_effect_kind kind);
void coverage_completed(struct coverage *coverage, enum port_effect_kind kind, enum port_rc rc);
void coverage_find_gaps(const struct coverage *coverage, const struct coverage_excuse *excuses, size_t excuse_count,
                        struct coverage_gaps *gaps_out);

#endif
