/* check.h: the crash that is better than a wrong answer.
 *
 * Room    core/base. Used by every room.
 * Rule    CHECK judges our own mistakes only. What a peer sends or a disk returns is never a CHECK.
 *         It stays on whatever NDEBUG says. CHECK_SLOW is always compiled and asks the node's configuration.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_USE __attribute__((warn_unused_result))
#define NORETURN __attribute__((noreturn))
#define INLINE   static inline __attribute__((always_inline)) /* for what runs for each field or word */

/* The one function the core calls that it does not own: whoever links the core provides it. It never returns. */
NORETURN void base_panic_host(const char *file, int line, const char *what);

#define CHECK(condition) ((condition) ? (void)0 : base_panic_host(__FILE__, __LINE__, #condition))
#define CHECK_SLOW(is_on, condition) \
    ((!(is_on) || (condition)) ? (void)0 : base_panic_host(__FILE__, __LINE__, #condition))
#define IMPLIES(a, b) (!(a) || (b))
#define UNREACHABLE() base_panic_host(__FILE__, __LINE__, "unreachable")

/* What a call inside the core can fail with. BASE_FULL: no room, and nothing has changed. */
enum base_rc {
    BASE_OK = 0,
    BASE_FULL = 1,    /* a pool, an arena, a queue or a limit: refuse or slow the peer */
    BASE_BAD = 2,     /* the bytes are not what they claim to be */
    BASE_MISSING = 3, /* no such thing */
};

#define BASE_ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif
