/* reference.h: a second encoder, written for clarity, that knows where each count and length stands and can lie about one.
 *
 * It shares nothing with the room under test but the tables.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TEST_REFERENCE_H
#define TEST_REFERENCE_H

#include "wire/kafka/kafka.h"

#define REFERENCE_NO_LIE (-1)

struct reference {
    uint8_t *at; /* malloc; freed by reference_free */
    size_t size_bytes;
    size_t room_bytes;
    int32_t counts;         /* counts and lengths written so far */
    int32_t lie;            /* which of them is replaced by the greatest its encoding can hold */
    size_t after_lie_bytes; /* where the lie ends */
    bool is_lie_short;      /* the lie is a length of two bytes: 0x7fff */
};

void reference_encode(enum kafka_message message, const void *value, int16_t version, int32_t lie,
                      struct reference *reference);
void reference_free(struct reference *reference);

#endif
