/* fuzz_wire_decode.c: any bytes, read as any message in any version.
 *
 * Input   one byte: 0 request, 1 response, 2 metadata record, 3 any message by its index; two bytes: api key, record type
 *         or index, big-endian; one byte: the version; the rest: the message. What does not exist is folded into what does.
 *         It is decoded from a heap block of exactly its size, in 16 arena bytes for each.
 * Holds   decode, then encode, then decode gives the same value; the size is what is written; never BASE_FULL.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "wire/kafka/kafka.h"

#define VALUE_BYTES_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct decoded {
    uint8_t *bytes;
    uint8_t *memory;
    void *value;
};

static enum base_rc decode(enum kafka_message message, int16_t version, const uint8_t *at, size_t size_bytes,
                           struct decoded *out)
{
    out->bytes = malloc(size_bytes == 0 ? 1 : size_bytes);
    out->memory = malloc(size_bytes * KAFKA_ARENA_FACTOR + 1); /* aligned to 16 by malloc */
    out->value = malloc(VALUE_BYTES_MAX);
    CHECK(out->bytes != NULL && out->memory != NULL && out->value != NULL);
    CHECK(kafka_message_struct_bytes(message) <= VALUE_BYTES_MAX);
    if (size_bytes > 0) { memcpy(out->bytes, at, size_bytes); }
    struct base_arena arena;
    base_arena_init(&arena, out->memory, size_bytes * KAFKA_ARENA_FACTOR);
    enum base_rc rc = kafka_decode(message, base_slice_of(out->bytes, size_bytes), version, &arena, out->value);
    CHECK(rc == BASE_OK || rc == BASE_BAD);
    return rc;
}

static void drop(struct decoded *decoded)
{
    free(decoded->bytes);
    free(decoded->memory);
    free(decoded->value);
}

static void print(enum kafka_message message, int16_t version, const void *value)
{
    char words[200];
    struct base_text text;
    base_text_init(&text, words, sizeof words);
    kafka_print(message, value, version, &text);
    CHECK(strlen(words) < sizeof words);
}

static void check_round_trip(enum kafka_message message, int16_t version, const void *value)
{
    struct kafka_size size;
    CHECK(kafka_size(message, value, version, &size) == BASE_OK);
    uint8_t *bytes = malloc(size.memory_bytes == 0 ? 1 : size.memory_bytes);
    CHECK(bytes != NULL);
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes, size.memory_bytes);
    CHECK(kafka_encode(message, value, version, &writer) == BASE_OK);
    CHECK(writer.used_bytes == size.memory_bytes);
    struct decoded again;
    CHECK(decode(message, version, bytes, size.memory_bytes, &again) == BASE_OK);
    CHECK(kafka_equal(message, value, again.value));
    drop(&again);
    free(bytes);
}

static enum kafka_message message_of(uint8_t kind, uint16_t key)
{
    enum kafka_message message = KAFKA_MESSAGE_NONE;
    if (kind % 4 == 2) { message = kafka_record_message(key); }
    if (kind % 4 < 2) {
        const struct kafka_api_info *info = kafka_api_info((int16_t)key);
        if (info == NULL) { info = kafka_api_at(key % KAFKA_API_COUNT); }
        message = kind % 4 == 0 ? info->request : info->response;
    }
    return message == KAFKA_MESSAGE_NONE ? (enum kafka_message)(key % KAFKA_MESSAGE_COUNT) : message;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4 || size > (1u << 20)) { return 0; }
    enum kafka_message message = message_of(data[0], base_get_u16(data + 1));
    int16_t version_min = kafka_message_version_min(message);
    int16_t version = data[3];
    if (version < version_min || version > kafka_message_version_max(message)) {
        version = (int16_t)(version_min + version % (kafka_message_version_max(message) - version_min + 1));
    }
    struct decoded decoded;
    if (decode(message, version, data + 4, size - 4, &decoded) == BASE_OK) {
        print(message, version, decoded.value);
        check_round_trip(message, version, decoded.value);
    }
    drop(&decoded);
    return 0;
}
