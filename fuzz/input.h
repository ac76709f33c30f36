/* input.h: the rest of what a fuzz target was given, taken from the front. Past its end everything is 0.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct input {
    const uint8_t *at;
    size_t left;
};

/* The first byte is the highest; of an input that ends before, what there is. */
static inline uint64_t take(struct input *input, uint32_t bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes && input->left > 0; i++) {
        value = value << 8 | *input->at;
        input->at += 1;
        input->left -= 1;
    }
    return value;
}

static inline uint32_t take_u32(struct input *input, uint32_t bytes) { return (uint32_t)take(input, bytes); }
static inline uint8_t take_u8(struct input *input) { return (uint8_t)take(input, 1); }

#endif
