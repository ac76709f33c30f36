/* fuzz_wire_decode.c: any bytes, read as any message in any version, and as whole frames.
 *
 * Input   byte 0, bits 0 and 1: 0 request, 1 response, 2 metadata record, 3 any message by its index; bits 2 and 3: 0 the message
 *         alone, 1 a frame with its header, 2 a metadata record's frame, 3 the front of the bytes; bit 7: the bytes are made, not
 *         given. Two bytes: api key, record type or index, big-endian; one byte: the version; what does not exist is folded into what
 *         does. Then the message; or, made: four bytes of seed for a random value (bit 6: with unknown tags), and edits of its bytes,
 *         four bytes each: what, place (two bytes), byte. So the fuzzer is deep inside any message at once, and bits stay unrepaired.
 * Holds   takes and refuses what a second, plain reader takes and refuses (wire_reference.h), and writes what that one
 *         writes; decode, encode, decode gives the same value; sizes are what is written; never BASE_FULL within 16 arena
 *         bytes for each. Every decoder gets a heap block of exactly its input's size.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "kafka__tables.h"
#include "wire/kafka/header.h"
#include "wire/kafka/kafka.h"
#include "wire_reference.h"

#define VALUE_BYTES_MAX  4096
#define RANDOM_BYTES_MAX ((size_t)1 << 16)

enum shape { SHAPE_MESSAGE = 0, SHAPE_FRAME, SHAPE_RECORD, SHAPE_FRONT };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct decoded {
    uint8_t *memory;
    void *value;
    size_t used_bytes;
};

static uint8_t *exact_copy(struct base_slice of)
{
    uint8_t *bytes = malloc(of.size_bytes == 0 ? 1 : of.size_bytes);
    CHECK(bytes != NULL);
    if (of.size_bytes > 0) { memcpy(bytes, of.at, of.size_bytes); }
    return bytes;
}

/* bytes.at is a heap block of bytes.size_bytes, and outlives the value. */
static enum base_rc decode(enum kafka_message message, int16_t version, struct base_slice bytes, bool is_front,
                           struct decoded *out)
{
    out->memory = malloc(bytes.size_bytes * KAFKA_ARENA_FACTOR + 1); /* aligned to 16 by malloc */
    out->value = malloc(VALUE_BYTES_MAX);
    CHECK(out->memory != NULL && out->value != NULL);
    CHECK(kafka_message_struct_bytes(message) <= VALUE_BYTES_MAX);
    struct base_arena arena;
    base_arena_init(&arena, out->memory, bytes.size_bytes * KAFKA_ARENA_FACTOR);
    out->used_bytes = bytes.size_bytes;
    enum base_rc rc = is_front ? kafka_decode_front(message, bytes, version, &arena, out->value, &out->used_bytes)
                               : kafka_decode(message, bytes, version, &arena, out->value);
    CHECK(rc == BASE_OK || rc == BASE_BAD);
    CHECK(rc == BASE_OK || base_arena_mark(&arena) == 0);
    return rc;
}

static void drop(struct decoded *decoded)
{
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

/* Encodes, with tags that nobody knows unless the seed is 0, and decodes: the same value. *bytes_out: a heap block. */
static struct base_slice encode(enum kafka_message message, int16_t version, const void *value, uint64_t tags_seed)
{
    struct kafka_size size;
    CHECK(kafka_size_unknown_tags(message, value, version, tags_seed, &size) == BASE_OK);
    CHECK(size.splice_bytes == 0);
    uint8_t *bytes = malloc(size.memory_bytes == 0 ? 1 : size.memory_bytes);
    CHECK(bytes != NULL);
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes, size.memory_bytes);
    writer.unknown_tags_seed = tags_seed;
    CHECK(kafka_encode(message, value, version, &writer) == BASE_OK);
    CHECK(writer.used_bytes == size.memory_bytes);
    return base_slice_of(bytes, size.memory_bytes);
}

static void check_reads_back(enum kafka_message message, int16_t version, const void *value, struct base_slice bytes)
{
    struct decoded again;
    CHECK(decode(message, version, bytes, false, &again) == BASE_OK);
    CHECK(kafka_equal(message, value, again.value));
    drop(&again);
    free((void *)(uintptr_t)bytes.at);
}

/* `bytes`: a heap block of exactly that size. */
static void judge_message(enum kafka_message message, int16_t version, struct base_slice bytes, bool is_front)
{
    if (getenv("WEIR_FUZZ_TRACE") != NULL) { /* to see what an input is */
        (void)fprintf(stderr, "%s version %d, %zu bytes\n", kafka_message_name(message), version, bytes.size_bytes);
    }
    struct decoded decoded;
    struct reference_bytes canonical = {0};
    size_t used_bytes = 0;
    enum base_rc rc = decode(message, version, bytes, is_front, &decoded);
    bool is_message = reference_read(message, version, bytes, &canonical, &used_bytes);
    if (is_message && !is_front) { is_message = used_bytes == bytes.size_bytes; }
    CHECK((rc == BASE_OK) == is_message);
    if (rc == BASE_OK) {
        CHECK(decoded.used_bytes == used_bytes);
        print(message, version, decoded.value);
        struct base_slice written = encode(message, version, decoded.value, 0);
        CHECK(base_slice_equal(written, base_slice_of(canonical.at, canonical.size_bytes)));
        check_reads_back(message, version, decoded.value, written);
        written = encode(message, version, decoded.value, 1 + bytes.size_bytes);
        check_reads_back(message, version, decoded.value, written);
    }
    reference_drop(&canonical);
    drop(&decoded);
}

/* ---- frames ------------------------------------------------------------------------------------------------------------- */

static void judge_request_frame(struct base_slice frame)
{
    struct kafka_request_header header;
    struct base_slice body;
    enum base_rc rc = kafka_request_open(frame, &header, &body);
    if (frame.size_bytes < 4 || rc == BASE_MISSING) {
        CHECK(frame.size_bytes < 4 ? rc == BASE_BAD : kafka_api_info((int16_t)base_get_u16(frame.at)) == NULL);
        return;
    }
    struct reference_bytes canonical = {0}; /* the header, read by the other one */
    size_t used_bytes = 0;
    int16_t header_version =
        kafka_request_header_version((int16_t)base_get_u16(frame.at), (int16_t)base_get_u16(frame.at + 2));
    bool is_header = reference_read(KAFKA_MESSAGE_REQUEST_HEADER, header_version, frame, &canonical, &used_bytes);
    CHECK((rc == BASE_OK) == is_header);
    if (rc != BASE_OK) {
        reference_drop(&canonical);
        return;
    }
    CHECK(body.size_bytes <= frame.size_bytes && body.at + body.size_bytes == frame.at + frame.size_bytes);
    CHECK(used_bytes == frame.size_bytes - body.size_bytes);
    struct base_slice written = encode(KAFKA_MESSAGE_REQUEST_HEADER, header_version, &header, 0);
    CHECK(base_slice_equal(written, base_slice_of(canonical.at, canonical.size_bytes)));
    free((void *)(uintptr_t)written.at);
    reference_drop(&canonical);
    if (!kafka_api_has_version(header.request_api_key, header.request_api_version)) { return; }
    uint8_t *bytes = exact_copy(body);
    judge_message(kafka_request_message(header.request_api_key), header.request_api_version,
                  base_slice_of(bytes, body.size_bytes), false);
    free(bytes);
}

static void judge_response_frame(const struct kafka_api_info *info, int16_t version, struct base_slice frame)
{
    int32_t correlation_id = 0;
    struct base_slice body;
    if (kafka_response_open(frame, info->key, version, &correlation_id, &body) != BASE_OK) { return; }
    CHECK(body.size_bytes <= frame.size_bytes && body.at + body.size_bytes == frame.at + frame.size_bytes);
    CHECK(correlation_id == (int32_t)base_get_u32(frame.at));
    uint8_t *bytes = exact_copy(body);
    struct base_slice copy = base_slice_of(bytes, body.size_bytes);
    judge_message(info->response, version, copy, false);
    struct decoded decoded; /* and written again as a whole frame */
    if (decode(info->response, version, copy, false, &decoded) == BASE_OK) {
        struct kafka_size size;
        CHECK(kafka_response_size(info->response, decoded.value, version, &size) == BASE_OK);
        uint8_t *whole = malloc(size.memory_bytes);
        CHECK(whole != NULL);
        struct kafka_writer writer;
        kafka_writer_init(&writer, whole, size.memory_bytes);
        CHECK(kafka_response_encode(info->response, decoded.value, version, correlation_id, &writer) == BASE_OK);
        CHECK(writer.used_bytes == size.memory_bytes && base_get_u32(whole) == size.memory_bytes - 4);
        int32_t again = 0;
        struct base_slice rest = base_slice_of(whole + 4, size.memory_bytes - 4);
        CHECK(kafka_response_open(rest, info->key, version, &again, &body) == BASE_OK && again == correlation_id);
        free(whole);
    }
    drop(&decoded);
    free(bytes);
}

static void judge_record_frame(struct base_slice record)
{
    uint32_t type;
    int16_t version;
    struct base_slice body;
    if (kafka_record_open(record, &type, &version, &body) != BASE_OK) { return; }
    CHECK(version >= 0);
    CHECK(body.size_bytes + 3 <= record.size_bytes && body.at + body.size_bytes == record.at + record.size_bytes);
    enum kafka_message message = kafka_record_message(type);
    if (message == KAFKA_MESSAGE_NONE) { return; }
    uint8_t *bytes = exact_copy(body);
    judge_message(message, version, base_slice_of(bytes, body.size_bytes), false);
    free(bytes);
}

/* ---- what the input says ------------------------------------------------------------------------------------------------ */

static enum kafka_message message_of(uint8_t kind, uint16_t key, const struct kafka_api_info **info_out)
{
    enum kafka_message message = KAFKA_MESSAGE_NONE;
    *info_out = kafka_api_info((int16_t)key);
    if (*info_out == NULL) { *info_out = kafka_api_at(key % KAFKA_API_COUNT); }
    if (kind % 4 == 2) { message = kafka_record_message(key); }
    if (kind % 4 < 2) { message = kind % 4 == 0 ? (*info_out)->request : (*info_out)->response; }
    return message == KAFKA_MESSAGE_NONE ? (enum kafka_message)(key % KAFKA_MESSAGE_COUNT) : message;
}

/* Room for the four bytes of a frame's size, which the target does not get. */
#define FRAME_SIZE_BYTES 4

static bool is_record(enum kafka_message message) { return kafka__messages[message].kind == KAFKA__KIND_METADATA; }

static enum base_rc write_shape(enum shape shape, uint8_t kind, enum kafka_message message, int16_t version,
                                const void *value, struct kafka_writer *writer)
{
    if (shape == SHAPE_RECORD && is_record(message)) { return kafka_record_encode(message, value, version, writer); }
    if (shape == SHAPE_FRAME && kind % 4 == 0) {
        return kafka_request_encode(message, value, version, 7, kafka_text_words("fuzz"), writer);
    }
    if (shape == SHAPE_FRAME && kind % 4 == 1) { return kafka_response_encode(message, value, version, 7, writer); }
    writer->used_bytes = FRAME_SIZE_BYTES;
    return kafka_encode(message, value, version, writer);
}

/* What a peer in its right mind would send, into `room`; 0: nothing. */
static size_t make(uint8_t kind, enum kafka_message message, int16_t version, uint64_t seed, uint8_t *room)
{
    static _Alignas(16) uint8_t memory[1 << 18];
    static _Alignas(16) uint8_t value[VALUE_BYTES_MAX];
    struct base_arena arena;
    base_arena_init(&arena, memory, sizeof memory);
    struct base_prng prng;
    base_prng_init(&prng, seed, 0);
    if (kafka_random(message, version, &prng, &arena, value) != BASE_OK) { return 0; }
    struct kafka_writer writer;
    kafka_writer_init(&writer, room, RANDOM_BYTES_MAX);
    writer.unknown_tags_seed = (kind & 0x40) != 0 ? seed + 1 : 0;
    enum shape shape = (enum shape)(kind >> 2 & 3);
    if (write_shape(shape, kind, message, version, value, &writer) != BASE_OK) { return 0; }
    if (shape == SHAPE_RECORD && is_record(message)) { return writer.used_bytes; }
    memmove(room, room + FRAME_SIZE_BYTES, writer.used_bytes - FRAME_SIZE_BYTES);
    return writer.used_bytes - FRAME_SIZE_BYTES;
}

/* Edits: 0 writes the byte, 1 flips its bits, 2 puts it in, 3 takes `byte` bytes out, 4 cuts the end there, 5 puts four bytes in. */
static size_t edit(uint8_t *room, size_t size_bytes, const uint8_t *edits, size_t edits_bytes)
{
    for (; edits_bytes >= 4; edits += 4, edits_bytes -= 4) {
        size_t at = base_get_u16(edits + 1);
        at = size_bytes == 0 ? 0 : at % (size_bytes + 1);
        size_t after = size_bytes - at;
        uint8_t byte = edits[3];
        size_t more = edits[0] % 6 == 5 ? 4 : 1;
        switch (edits[0] % 6) {
        case 0:
        case 1:
            if (after > 0) { room[at] = edits[0] % 6 == 0 ? byte : room[at] ^ byte; }
            break;
        case 2:
        case 5:
            if (size_bytes + more > RANDOM_BYTES_MAX) { break; }
            memmove(room + at + more, room + at, after);
            memset(room + at, byte, more);
            size_bytes += more;
            break;
        case 3:
            more = base_min_size(byte, after);
            memmove(room + at, room + at + more, after - more);
            size_bytes -= more;
            break;
        default: size_bytes = at; break;
        }
    }
    return size_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t room[RANDOM_BYTES_MAX];
    if (size < 4 || size > (1u << 20)) { return 0; }
    const struct kafka_api_info *info;
    enum kafka_message message = message_of(data[0], base_get_u16(data + 1), &info);
    int16_t version_min = kafka_message_version_min(message);
    int16_t version = data[3];
    if (version < version_min || version > kafka_message_version_max(message)) {
        version = (int16_t)(version_min + version % (kafka_message_version_max(message) - version_min + 1));
    }
    struct base_slice given = base_slice_of(data + 4, size - 4);
    if ((data[0] & 0x80) != 0 && size >= 8) {
        size_t made = make(data[0], message, version, base_get_u32(data + 4), room);
        given = base_slice_of(room, edit(room, made, data + 8, size - 8));
    }
    uint8_t *bytes = exact_copy(given);
    given.at = bytes;
    switch ((enum shape)(data[0] >> 2 & 3)) {
    case SHAPE_MESSAGE: judge_message(message, version, given, false); break;
    case SHAPE_FRONT: judge_message(message, version, given, true); break;
    case SHAPE_RECORD: judge_record_frame(given); break;
    case SHAPE_FRAME:
        if (data[0] % 4 == 1 && kafka_api_has_version(info->key, version)) {
            judge_response_frame(info, version, given);
        } else {
            judge_request_frame(given);
        }
        break;
    }
    free(bytes);
    return 0;
}
