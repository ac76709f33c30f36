/* flip.c: what the hash of a run is given, with one bit of one effect or message changed when the knobs say so.
 *
 * Room    sim/world, private; see world__world.h.
 * Why     that the hash sees every byte is worth as much as the test of it. Only what is hashed is changed: the run is the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <stdlib.h>
#include <string.h>

static bool is_next(struct world *world, enum world_flip *flip_out)
{
    world->hashed += 1;
    *flip_out = world->knobs.flip;
    return world->hashed == world->knobs.flip_effect;
}

/* The same bytes but for the lowest bit of the one in the middle; the caller's to free. */
static uint8_t *flipped(const uint8_t *at, size_t size_bytes)
{
    uint8_t *copy = world__alloc(size_bytes);
    memcpy(copy, at, size_bytes);
    copy[size_bytes / 2] ^= 1;
    return copy;
}

static bool is_to_change(const struct port_piece *piece, enum world_flip flip)
{
    enum port_piece_kind kind = flip == WORLD_FLIP_PAYLOAD ? PORT_MEMORY : PORT_RANGE;
    return piece->kind == kind && piece->size_bytes > 0;
}

/* The last piece of the kind that `flip` is about. */
static uint64_t hash_with_piece(const struct world *world, uint32_t node, uint32_t shard,
                                const struct port_effect *effect, enum world_flip flip)
{
    struct port_piece *pieces = world__alloc(effect->piece_count * sizeof *pieces);
    if (effect->piece_count > 0) { memcpy(pieces, effect->pieces, effect->piece_count * sizeof *pieces); }
    uint8_t *bytes = NULL;
    for (uint32_t i = effect->piece_count; i-- > 0;) {
        struct port_piece *piece = &pieces[i];
        if (!is_to_change(piece, flip)) { continue; }
        if (flip == WORLD_FLIP_PAYLOAD) {
            bytes = flipped(piece->at, piece->size_bytes);
            piece->at = bytes;
        } else {
            piece->position_bytes ^= 1;
        }
        break;
    }
    struct port_effect changed = *effect;
    changed.pieces = pieces;
    uint64_t hash = port_hash_effect(world->hash, node, shard, &changed);
    free(bytes);
    free(pieces);
    return hash;
}

static uint64_t hash_with_path(const struct world *world, uint32_t node, uint32_t shard,
                               const struct port_effect *effect)
{
    struct port_effect changed = *effect;
    uint8_t *bytes = NULL;
    if (effect->path.size_bytes > 0) {
        bytes = flipped(effect->path.at, effect->path.size_bytes);
        changed.path.at = bytes;
    }
    uint64_t hash = port_hash_effect(world->hash, node, shard, &changed);
    free(bytes);
    return hash;
}

void world__hash_effect(struct world *world, uint32_t node, uint32_t shard, const struct port_effect *effect)
{
    enum world_flip flip;
    struct port_effect changed = *effect;
    if (!is_next(world, &flip)) { flip = WORLD_FLIP_NOTHING; }
    switch (flip) {
    case WORLD_FLIP_PAYLOAD:
    case WORLD_FLIP_RANGE: world->hash = hash_with_piece(world, node, shard, effect, flip); return;
    case WORLD_FLIP_PATH: world->hash = hash_with_path(world, node, shard, effect); return;
    case WORLD_FLIP_POSITION: changed.position_bytes ^= 1; break;
    case WORLD_FLIP_SIZE: changed.size_bytes ^= 1; break;
    case WORLD_FLIP_TOKEN: changed.token ^= 1; break;
    case WORLD_FLIP_NOTHING:
    case WORLD_FLIP_WORD: break;
    }
    world->hash = port_hash_effect(world->hash, node, shard, &changed);
}

void world__hash_message(struct world *world, uint32_t node, uint32_t shard, const struct port_message *message)
{
    enum world_flip flip;
    struct port_message changed = *message;
    if (is_next(world, &flip) && flip == WORLD_FLIP_WORD) { changed.words[0] ^= 1; }
    world->hash = port_hash_message(world->hash, node, shard, &changed);
}
