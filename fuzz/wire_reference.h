/* wire_reference.h: a second reader of Kafka's wire, slow and plain, to judge the room's by.
 *
 * It walks the same tables (what the messages are), and shares no code with the room (how they are read): it recurses, keeps
 * no value, and writes what it reads at once in the one canonical form: short varints, no tag that is unknown or at its default,
 * tags in their order, 1 for true. What it takes or refuses, decode must; what it writes, encode must write of the value.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FUZZ_WIRE_REFERENCE_H
#define FUZZ_WIRE_REFERENCE_H

#include "wire/kafka/kafka.h"

/* Bytes that grow. */
struct reference_bytes {
    uint8_t *at;
    size_t size_bytes;
    size_t room_bytes;
};
void reference_drop(struct reference_bytes *bytes);

/* Reads a message off the front of `in`. False: there is none. *used_out: its bytes. */
bool reference_read(enum kafka_message message, int16_t version, struct base_slice in, struct reference_bytes *out,
                    size_t *used_out);

#endif
