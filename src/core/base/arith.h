/* arith.h: arithmetic that says when it would have wrapped.
 *
 * Room    core/base.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_ARITH_H
#define BASE_ARITH_H

#include "base/check.h"

/* True and *sum_out set when the result fits; false and untouched otherwise. */
MUST_USE
static inline bool base_add_size(size_t a, size_t b, size_t *sum_out)
{
    size_t sum = a + b;
    if (sum < a) { return false; }
    *sum_out = sum;
    return true;
}

MUST_USE
static inline bool base_mul_size(size_t a, size_t b, size_t *product_out)
{
    if (a != 0 && b > SIZE_MAX / a) { return false; }
    *product_out = a * b;
    return true;
}

MUST_USE
static inline bool base_add_i64(int64_t a, int64_t b, int64_t *sum_out)
{
    if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b)) { return false; }
    *sum_out = a + b;
    return true;
}

static inline uint64_t base_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t base_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline int64_t base_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t base_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline size_t base_min_size(size_t a, size_t b) { return a < b ? a : b; }

/* An absolute deadline that saturates: never earlier than now. */
static inline uint64_t base_deadline_ns(uint64_t now_ns, uint64_t delay_ns)
{
    return now_ns > UINT64_MAX - delay_ns ? UINT64_MAX : now_ns + delay_ns;
}

#endif
