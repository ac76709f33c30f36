/* broker__names.c: names sorted in place: of a request that names a topic twice, Kafka sees it once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

static void sift_down(struct base_slice *at, uint32_t from, uint32_t count)
{
    for (uint32_t child = 2 * from + 1; child < count; child = 2 * from + 1) {
        if (child + 1 < count && base_slice_compare(at[child], at[child + 1]) < 0) { child += 1; }
        if (base_slice_compare(at[from], at[child]) >= 0) { return; }
        struct base_slice moved = at[from];
        at[from] = at[child];
        at[child] = moved;
        from = child;
    }
}

uint32_t names_sort(struct base_slice *at, uint32_t count)
{
    for (uint32_t i = count / 2; i > 0; i--) { sift_down(at, i - 1, count); }
    for (uint32_t left = count; left > 1; left--) {
        struct base_slice moved = at[0];
        at[0] = at[left - 1];
        at[left - 1] = moved;
        sift_down(at, 0, left - 1);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && base_slice_equal(at[kept - 1], at[i])) { continue; }
        at[kept] = at[i];
        kept += 1;
    }
    return kept;
}
