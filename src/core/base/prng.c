/* prng.c: see prng.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/prng.h"

static uint64_t splitmix(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t v, unsigned bits) { return v << bits | v >> (64 - bits); }

void base_prng_init(struct base_prng *prng, uint64_t seed, uint64_t use)
{
    uint64_t use_state = use;
    uint64_t state = seed ^ rotate_left(splitmix(&use_state), 17); /* neighbouring uses start far apart */
    for (size_t i = 0; i < BASE_ARRAY_COUNT(prng->s); i++) { prng->s[i] = splitmix(&state); }
    /* splitmix is a bijection of distinct states, so at most one of the four words is zero */
    CHECK((prng->s[0] | prng->s[1]) != 0);
}

uint64_t base_prng_u64(struct base_prng *prng)
{
    uint64_t *s = prng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t base_prng_below(struct base_prng *prng, uint64_t bound)
{
    CHECK(bound > 0);
    uint64_t uneven = (0 - bound) % bound; /* 2^64 mod bound: throws below it would favour small results */
    uint64_t v = base_prng_u64(prng);
    while (v < uneven) { v = base_prng_u64(prng); }
    return v % bound;
}

bool base_prng_chance(struct base_prng *prng, uint64_t numerator, uint64_t denominator)
{
    return base_prng_below(prng, denominator) < numerator;
}

void base_prng_fill(struct base_prng *prng, void *at, size_t size_bytes)
{
    uint8_t *b = at;
    uint64_t v = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        if (i % 8 == 0) { v = base_prng_u64(prng); }
        b[i] = (uint8_t)v; /* the low byte first, whatever the machine's order */
        v >>= 8;
    }
}
