/* base.h: the ground floor: checks, slices, checked arithmetic, memory out of a given region, containers, dice, ids.
 *
 * Room    core/base. Uses nothing. Everyone may use it.
 * Memory  every struct here lives where its owner puts it; nothing allocates behind anybody's back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "base/arena.h"
#include "base/arith.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/ids.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pages.h"
#include "base/pool.h"
#include "base/prng.h"
#include "base/slice.h"
#include "base/text.h"

#endif
