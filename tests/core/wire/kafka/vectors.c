/* vectors.c: prints random values of every message and version as bytes, for another implementation to read.
 *
 *     vectors COUNT   lines of: kind key version name hex
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kafka__tables.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const kinds[] = {"request", "response", "header", "data", "metadata"};

static void print_vector(enum kafka_message message, int16_t version, uint64_t number, uint8_t *memory,
                         size_t room_bytes)
{
    uint64_t value[512];
    CHECK(kafka_message_struct_bytes(message) <= sizeof value);
    struct base_prng prng;
    struct base_arena arena;
    struct kafka_writer writer;
    base_prng_init(&prng, (uint64_t)message * 1000 + (uint64_t)version, number + 10000);
    base_arena_init(&arena, memory, room_bytes);
    CHECK(kafka_random(message, version, &prng, &arena, value) == BASE_OK);
    kafka_writer_init(&writer, memory + room_bytes, room_bytes);
    writer.unknown_tags_seed = number % 2 == 0 ? 0 : number;
    CHECK(kafka_encode(message, value, version, &writer) == BASE_OK);
    const struct kafka__message *row = &kafka__messages[message];
    printf("%s %d %d %s ", kinds[row->kind], row->key, version, kafka_message_name(message));
    for (size_t i = 0; i < writer.used_bytes; i++) { printf("%02x", writer.at[i]); }
    printf("\n");
}

int main(int argc, char **argv)
{
    size_t room_bytes = (size_t)4 << 20;
    uint64_t values = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint8_t *memory = aligned_alloc(4096, 2 * room_bytes);
    CHECK(memory != NULL);
    for (int message = 0; message < KAFKA_MESSAGE_COUNT; message++) {
        int16_t last = kafka_message_version_max((enum kafka_message)message);
        for (int16_t version = kafka_message_version_min((enum kafka_message)message); version <= last; version++) {
            for (uint64_t number = 0; number < values; number++) {
                print_vector((enum kafka_message)message, version, number, memory, room_bytes);
            }
        }
    }
    free(memory);
    return 0;
}
