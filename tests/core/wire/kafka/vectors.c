/* vectors.c: prints random values of every message and version as bytes, for another implementation to read; and reads what that one
 * prints.
 *
 *     vectors COUNT    lines of: kind key version name hex
 *     vectors --check  reads such lines; decodes each value, encodes it again, and compares the bytes. Versions that we lack are counted.
 *                      Exit 1 when some differ.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kafka__tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_WORDS = 512, ROOM_BYTES = 4 << 20 };

static const char *const kinds[] = {"request", "response", "header", "data", "metadata"};

static void print_vector(enum kafka_message message, int16_t version, uint64_t number, uint8_t *memory,
                         size_t room_bytes)
{
    uint64_t value[VALUE_WORDS];
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

/* ---- checking ------------------------------------------------------------------------------------------------------------------ */

enum { LINE_BYTES_MAX = 1 << 20 };

struct counts {
    size_t values, versions, lacking, different;
};

/* Lines of one message and version come together. */
struct last {
    int message, version;
};

static int find(const char *kind, int key)
{
    for (int message = 0; message < KAFKA_MESSAGE_COUNT; message++) {
        const struct kafka__message *row = &kafka__messages[message];
        if (row->key == key && strcmp(kinds[row->kind], kind) == 0) { return message; }
    }
    return -1;
}

static size_t unhex(const char *text, uint8_t *out)
{
    size_t size_bytes = 0;
    unsigned byte;
    for (; sscanf(text, "%2x", &byte) == 1; text += 2) {
        out[size_bytes] = (uint8_t)byte;
        size_bytes += 1;
    }
    return size_bytes;
}

/* NULL: the same bytes. */
static const char *difference(enum kafka_message message, int16_t version, struct base_slice bytes, uint8_t *memory)
{
    uint64_t value[VALUE_WORDS];
    CHECK(kafka_message_struct_bytes(message) <= sizeof value);
    struct base_arena arena;
    struct kafka_writer writer;
    base_arena_init(&arena, memory, ROOM_BYTES);
    if (kafka_decode(message, bytes, version, &arena, value) != BASE_OK) { return "is not decoded"; }
    kafka_writer_init(&writer, memory + ROOM_BYTES, ROOM_BYTES);
    if (kafka_encode(message, value, version, &writer) != BASE_OK) { return "is not encoded"; }
    if (writer.used_bytes != bytes.size_bytes) { return "is encoded with another length"; }
    return memcmp(writer.at, bytes.at, bytes.size_bytes) == 0 ? NULL : "is encoded otherwise";
}

static void check_line(const char *line, uint8_t *bytes, uint8_t *memory, struct last *last, struct counts *counts)
{
    char kind[16];
    char name[128];
    int key = -1;
    int version = -1;
    int at = 0;
    CHECK(sscanf(line, "%15s %d %d %127s %n", kind, &key, &version, name, &at) == 4);
    int message = find(kind, key);
    bool is_new = last->message != message || last->version != version;
    *last = (struct last){.message = message, .version = version};
    if (message < 0 || version < kafka_message_version_min((enum kafka_message)message) ||
        version > kafka_message_version_max((enum kafka_message)message)) {
        counts->lacking += is_new ? 1 : 0;
        return;
    }
    struct base_slice slice = base_slice_of(bytes, unhex(line + at, bytes));
    const char *what = difference((enum kafka_message)message, (int16_t)version, slice, memory);
    counts->values += 1;
    counts->versions += is_new ? 1 : 0;
    if (what == NULL) { return; }
    counts->different += 1;
    if (counts->different <= 40) { printf("%s %d %d %s %s: %s\n", kind, key, version, name, what, line + at); }
}

static int check(uint8_t *memory)
{
    struct counts counts = {0};
    struct last last = {.message = -1, .version = -1};
    char *line = malloc(LINE_BYTES_MAX);
    uint8_t *bytes = malloc(LINE_BYTES_MAX / 2);
    CHECK(line != NULL);
    CHECK(bytes != NULL);
    while (fgets(line, LINE_BYTES_MAX, stdin) != NULL) {
        size_t length = strcspn(line, "\n");
        CHECK(length < LINE_BYTES_MAX - 1);
        line[length] = '\0';
        check_line(line, bytes, memory, &last, &counts);
    }
    printf("read by ours: %zu values in %zu versions of messages, %zu differ; ours lacks %zu versions\n", counts.values,
           counts.versions, counts.different, counts.lacking);
    free(line);
    free(bytes);
    return counts.different == 0 && counts.values > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    uint8_t *memory = aligned_alloc(4096, (size_t)2 * ROOM_BYTES);
    CHECK(memory != NULL);
    if (argc > 1 && strcmp(argv[1], "--check") == 0) {
        int code = check(memory);
        free(memory);
        return code;
    }
    uint64_t values = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    for (int message = 0; message < KAFKA_MESSAGE_COUNT; message++) {
        int16_t last = kafka_message_version_max((enum kafka_message)message);
        for (int16_t version = kafka_message_version_min((enum kafka_message)message); version <= last; version++) {
            for (uint64_t number = 0; number < values; number++) {
                print_vector((enum kafka_message)message, version, number, memory, ROOM_BYTES);
            }
        }
    }
    free(memory);
    return 0;
}
