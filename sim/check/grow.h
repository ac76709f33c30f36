/* grow.h: arrays of the checkers, which grow as they need to.
 *
 * Room    sim/check, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHECK_GROW_H
#define CHECK_GROW_H

#include "base/base.h"

/* Room for one more item; what is new is zero. The array is on the heap, the caller's. */
void *check__grow(void *at, uint32_t count, uint32_t *room, size_t item_bytes);

#endif
