/* wait.h: parks answers until a watermark passes what they watch, something disturbs it, or their deadline comes.
 *
 * Room    core/wait. Uses base.
 * Owns    the parked tokens and their watches; memory from the arena at create.
 * Time    absolute monotonic nanoseconds, passed in.
 * Cost    nothing at all for a parked one until it is due; O(log n) for everything else, by watches.
 * Pull    advance, disturb and expire only mark; wait_next_due hands the due ones out one by one, so a step may stop anywhere.
 *         A token that is handed out is no longer parked, and its watches are gone.
 * Limits  struct wait_config; one more is BASE_FULL.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef WAIT_WAIT_H
#define WAIT_WAIT_H

#include "base/base.h"

struct wait;

struct wait_config {
    uint32_t parked_max;
    uint32_t watches_max; /* of all together */
    bool is_check_slow;
};

enum wait_why {
    WAIT_REACHED = 0, /* the watermark of a place it watches is past the offset it watches */
    WAIT_DISTURBED,   /* leadership, deletion, an error: look again */
    WAIT_EXPIRED,
};

size_t wait_arena_bytes(const struct wait_config *config);
MUST_USE
enum base_rc wait_create(struct base_arena *arena, const struct wait_config *config, struct wait **wait_out);

/* Parks `token` (not 0, not parked) until `deadline_ns` (UINT64_MAX: for ever). Fails BASE_FULL, nothing changed. */
MUST_USE
enum base_rc wait_park(struct wait *wait, uint64_t token, uint64_t deadline_ns);
/* Makes parked `token` due, too, when the watermark of `place` is > `offset`. Any number of times, also for one place.
 * It looks at no watermark of the past: the caller knows the one of now.
 * Fails BASE_FULL, nothing changed: wait_cancel, and answer with what there is. */
MUST_USE
enum base_rc wait_watch(struct wait *wait, uint64_t token, uint32_t place, int64_t offset);

/* The watermark of `place` is now `watermark`: all that watch an offset < watermark there are due. */
void wait_advance(struct wait *wait, uint32_t place, int64_t watermark);
/* All that watch `place` are due. */
void wait_disturb(struct wait *wait, uint32_t place);
/* All whose deadline is <= now_ns are due. */
void wait_expire(struct wait *wait, uint64_t now_ns);
/* The token is parked no more, and will not be handed out; a no-op when it is not parked. */
void wait_cancel(struct wait *wait, uint64_t token);

/* The next one that is due: expired ones first, by deadline; then by the order in which places were marked, and in one place by
 * the offset watched, then by age. Between the mark and the pull more may come: a watch added meanwhile on a marked place may
 * be handed out, too (look again, park again). */
MUST_USE
bool wait_next_due(struct wait *wait, uint64_t *token_out, enum wait_why *why_out);
/* The earliest deadline of all that are parked, those due but not pulled included; UINT64_MAX: none. */
uint64_t wait_next_deadline_ns(const struct wait *wait);

bool wait_is_parked(const struct wait *wait, uint64_t token);
uint32_t wait_parked_count(const struct wait *wait);
uint32_t wait_watch_count(const struct wait *wait);
bool wait_is_sound(const struct wait *wait);

#endif
