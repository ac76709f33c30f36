/* arena.c: see arena.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/arena.h"

#include "base/arith.h"

#include <string.h>

#define ARENA_ALIGN ((size_t)16)

void base_arena_init(struct base_arena *arena, void *at, size_t size_bytes)
{
    CHECK(at != NULL || size_bytes == 0);
    *arena = (struct base_arena){.at = at, .size_bytes = size_bytes, .dirty_bytes = size_bytes};
}

void base_arena_init_zeroed(struct base_arena *arena, void *at, size_t size_bytes)
{
    CHECK(at != NULL || size_bytes == 0);
    *arena = (struct base_arena){.at = at, .size_bytes = size_bytes};
}

static void *take_at(struct base_arena *arena, size_t skip_bytes, size_t size_bytes)
{
    CHECK(arena->used_bytes <= arena->size_bytes);
    size_t room = arena->size_bytes - arena->used_bytes;
    if (skip_bytes > room || size_bytes > room - skip_bytes) { return NULL; }
    uint8_t *at = arena->at + arena->used_bytes + skip_bytes;
    arena->used_bytes += skip_bytes + size_bytes;
    return at;
}

static size_t skip_to_aligned(const struct base_arena *arena)
{
    size_t over = (size_t)((uintptr_t)(arena->at + arena->used_bytes) % ARENA_ALIGN);
    return over == 0 ? 0 : ARENA_ALIGN - over;
}

static void note_dirty(struct base_arena *arena)
{
    if (arena->dirty_bytes < arena->used_bytes) { arena->dirty_bytes = arena->used_bytes; }
}

void *base_arena_take(struct base_arena *arena, size_t size_bytes)
{
    void *at = take_at(arena, skip_to_aligned(arena), size_bytes);
    note_dirty(arena);
    return at;
}

void *base_arena_take_array(struct base_arena *arena, size_t count, size_t item_bytes)
{
    size_t size_bytes;
    if (!base_mul_size(count, item_bytes, &size_bytes)) { return NULL; }
    uint8_t *at = take_at(arena, skip_to_aligned(arena), size_bytes);
    if (at == NULL) { return NULL; }
    size_t begin = (size_t)(at - arena->at);
    if (begin < arena->dirty_bytes) { memset(at, 0, base_min_size(size_bytes, arena->dirty_bytes - begin)); }
    note_dirty(arena);
    return at;
}

void *base_arena_take_bytes(struct base_arena *arena, size_t size_bytes)
{
    void *at = take_at(arena, 0, size_bytes);
    note_dirty(arena);
    return at;
}

void base_arena_reset(struct base_arena *arena, size_t mark)
{
    CHECK(mark <= arena->used_bytes);
    arena->used_bytes = mark;
}
