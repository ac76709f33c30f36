/* arena.h: memory that is handed over once, and carved from the front.
 *
 * Room    core/base.
 * Owns    nothing: the region belongs to whoever made it, for at least as long as the arena.
 * Rule    a region is zero-filled when it is handed over, so that untouched memory of it costs nothing. An arena may also
 *         be laid over memory that was used before (scratch); it then clears what it promises to clear.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/check.h"

struct base_region {
    void *at; /* aligned to 4096 */
    size_t size_bytes;
};

struct base_arena {
    uint8_t *at;
    size_t size_bytes;
    size_t used_bytes;
    size_t dirty_bytes; /* from here on the memory is still zero, and is not touched before somebody takes it */
};

/* Over memory of any content: scratch. */
void base_arena_init(struct base_arena *arena, void *at, size_t size_bytes);
/* Over memory that is known to be zero: large tables in it cost nothing until they are used. */
void base_arena_init_zeroed(struct base_arena *arena, void *at, size_t size_bytes);

/* `size_bytes` bytes aligned to 16, contents undefined; NULL when they don't fit, nothing changed. */
MUST_USE
void *base_arena_take(struct base_arena *arena, size_t size_bytes);
/* The same for `count` items of `item_bytes`, with the product checked, and cleared. */
MUST_USE
void *base_arena_take_array(struct base_arena *arena, size_t count, size_t item_bytes);
/* Bytes aligned to 1 (for text and payload). */
MUST_USE
void *base_arena_take_bytes(struct base_arena *arena, size_t size_bytes);

static inline size_t base_arena_mark(const struct base_arena *arena) { return arena->used_bytes; }
/* Gives back everything taken since `mark`. */
void base_arena_reset(struct base_arena *arena, size_t mark);

#endif
