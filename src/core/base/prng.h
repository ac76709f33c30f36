/* prng.h: the machine's own dice: one stream per use (splitmix64 seeding xoshiro256**, Blackman and Vigna 2018).
 *
 * Room    core/base.
 * Rule    not for secrets.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include "base/check.h"

struct base_prng {
    uint64_t s[4];
};

/* The stream `use` of `seed`: streams of one seed are independent, so a new use shifts no old one. */
void base_prng_init(struct base_prng *prng, uint64_t seed, uint64_t use);
uint64_t base_prng_u64(struct base_prng *prng);
uint64_t base_prng_below(struct base_prng *prng, uint64_t bound); /* uniform in [0, bound); bound > 0 */
bool base_prng_chance(struct base_prng *prng, uint64_t numerator, uint64_t denominator);
void base_prng_fill(struct base_prng *prng, void *at, size_t size_bytes);

#endif
