/* grow.c: see grow.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "grow.h"

#include <stdlib.h>

void *check__grow(void *at, uint32_t count, uint32_t *room, size_t item_bytes)
{
    if (count < *room) { return at; }
    *room = *room == 0 ? 64 : *room * 2;
    void *grown = realloc(at, *room * item_bytes);
    CHECK(grown != NULL);
    memset((uint8_t *)grown + count * item_bytes, 0, (*room - count) * item_bytes);
    return grown;
}
