/* test_every_message.c: what holds for all messages in all versions, seen on random values of each.
 *
 * Built several times, each with its SHARD of the messages. Bytes lie in heap blocks of exactly their size, so that the
 * address sanitizer sees the first one too many; arenas have exactly 16 bytes for each byte of input.
 *
 * Prefixes: all of them for values up to 512 bytes; of longer ones the first and last 128, and every 61st.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kafka__tables.h"
#include "reference.h"

#define VALUES        200
#define PREFIXES_FULL 512
#define SCRATCH_BYTES ((size_t)8 << 20)

struct fixture {
    uint8_t *scratch; /* for values */
    uint8_t *decoded; /* for decoders, as much as a test allows */
    void *value;
    void *other;
};

/* A message, a version, and the seed of a value. */
struct one {
    enum kafka_message message;
    int16_t version;
    int32_t number;
};

static void fail_at(struct one one, const char *what, long detail)
{
    fail_msg("%s version %d value %d: %s (%ld)", kafka_message_name(one.message), one.version, one.number, what,
             detail);
}

static int set_up(void **state)
{
    struct fixture *fixture = malloc(sizeof *fixture);
    fixture->scratch = aligned_alloc(4096, SCRATCH_BYTES);
    fixture->decoded = aligned_alloc(4096, 2 * SCRATCH_BYTES);
    fixture->value = malloc(4096);
    fixture->other = malloc(4096);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    free(fixture->scratch);
    free(fixture->decoded);
    free(fixture->value);
    free(fixture->other);
    free(fixture);
    return 0;
}

static void given_value(struct fixture *fixture, struct one one)
{
    struct base_prng prng;
    struct base_arena arena;
    base_prng_init(&prng, (uint64_t)one.message * 1000 + (uint64_t)one.version, (uint64_t)one.number);
    base_arena_init(&arena, fixture->scratch, SCRATCH_BYTES);
    assert_true(kafka_message_struct_bytes(one.message) <= 4096);
    if (kafka_random(one.message, one.version, &prng, &arena, fixture->value) != BASE_OK) {
        fail_at(one, "no value", 0);
    }
}

/* Decodes a copy of exactly `size_bytes` bytes, with 16 arena bytes for each. */
static enum base_rc decode_copy(struct fixture *fixture, struct one one, const uint8_t *at, size_t size_bytes,
                                void *out, uint8_t **copy_out)
{
    uint8_t *copy = malloc(size_bytes == 0 ? 1 : size_bytes);
    if (size_bytes > 0) { memcpy(copy, at, size_bytes); }
    struct base_arena arena;
    CHECK(size_bytes * KAFKA_ARENA_FACTOR <= 2 * SCRATCH_BYTES);
    base_arena_init(&arena, fixture->decoded, size_bytes * KAFKA_ARENA_FACTOR);
    enum base_rc rc = kafka_decode(one.message, base_slice_of(copy, size_bytes), one.version, &arena, out);
    if (copy_out == NULL) {
        free(copy);
    } else {
        *copy_out = copy;
    }
    return rc;
}

/* Encodes into a block of exactly the size that was counted. */
static uint8_t *encode(struct fixture *fixture, struct one one, uint64_t unknown_tags_seed, size_t *size_bytes_out)
{
    struct kafka_size size;
    if (kafka_size_unknown_tags(one.message, fixture->value, one.version, unknown_tags_seed, &size) != BASE_OK) {
        fail_at(one, "has no size", 0);
    }
    uint8_t *at = malloc(size.memory_bytes == 0 ? 1 : size.memory_bytes);
    struct kafka_writer writer;
    kafka_writer_init(&writer, at, size.memory_bytes);
    writer.unknown_tags_seed = unknown_tags_seed;
    enum base_rc rc = kafka_encode(one.message, fixture->value, one.version, &writer);
    if (rc != BASE_OK) { fail_at(one, "is not encoded", rc); }
    if (writer.used_bytes != size.memory_bytes) {
        fail_at(one, "takes another size than was counted", (long)writer.used_bytes - (long)size.memory_bytes);
    }
    *size_bytes_out = size.memory_bytes;
    return at;
}

static void for_each(void **state, void (*check)(struct fixture *fixture, struct one one))
{
    for (int message = SHARD; message < KAFKA_MESSAGE_COUNT; message += SHARDS) {
        struct one one = {.message = (enum kafka_message)message};
        int16_t last = kafka_message_version_max(one.message);
        for (one.version = kafka_message_version_min(one.message); one.version <= last; one.version++) {
            for (one.number = 0; one.number < VALUES; one.number++) {
                given_value(*state, one);
                check(*state, one);
            }
        }
    }
}

static void check_size(struct fixture *fixture, struct one one)
{
    size_t size_bytes;
    uint8_t *bytes = encode(fixture, one, 0, &size_bytes);
    if (size_bytes > 0) { /* one byte less is refused, and nothing is left behind */
        struct kafka_writer writer;
        uint8_t *less = malloc(size_bytes);
        kafka_writer_init(&writer, less, size_bytes - 1);
        enum base_rc rc = kafka_encode(one.message, fixture->value, one.version, &writer);
        if (rc != BASE_FULL || writer.used_bytes != 0) { fail_at(one, "fits into less", rc); }
        free(less);
    }
    free(bytes);
}

static void the_size_is_what_is_written(void **state) { for_each(state, check_size); }

static void check_round_trip(struct fixture *fixture, struct one one)
{
    for (uint64_t seed = 0; seed < 2; seed++) {
        size_t size_bytes;
        uint8_t *bytes = encode(fixture, one, seed * (uint64_t)(one.number + 1), &size_bytes);
        uint8_t *copy;
        enum base_rc rc = decode_copy(fixture, one, bytes, size_bytes, fixture->other, &copy);
        if (rc != BASE_OK) { fail_at(one, "is not decoded", rc); }
        if (!kafka_equal(one.message, fixture->value, fixture->other)) {
            fail_at(one, "comes back different", (long)seed);
        }
        free(copy);
        free(bytes);
    }
}

static void decoding_gives_the_value_back_whatever_tags_are_added(void **state) { for_each(state, check_round_trip); }

static void check_reference(struct fixture *fixture, struct one one)
{
    size_t size_bytes;
    uint8_t *bytes = encode(fixture, one, 0, &size_bytes);
    struct reference reference;
    reference_encode(one.message, fixture->value, one.version, REFERENCE_NO_LIE, &reference);
    if (reference.size_bytes != size_bytes || (size_bytes > 0 && memcmp(reference.at, bytes, size_bytes) != 0)) {
        fail_at(one, "the reference has other bytes", (long)reference.size_bytes);
    }
    reference_free(&reference);
    free(bytes);
}

static void a_second_encoder_writes_the_same_bytes(void **state) { for_each(state, check_reference); }

static void check_prefixes(struct fixture *fixture, struct one one)
{
    size_t size_bytes;
    uint8_t *bytes = encode(fixture, one, (uint64_t)(one.number % 2), &size_bytes);
    for (size_t prefix = 0; prefix < size_bytes; prefix++) {
        bool is_near = prefix < 128 || prefix + 128 >= size_bytes;
        if (size_bytes > PREFIXES_FULL && !is_near && prefix % 61 != 0) { continue; }
        enum base_rc rc = decode_copy(fixture, one, bytes, prefix, fixture->other, NULL);
        if (rc != BASE_BAD) { fail_at(one, "a prefix is no error", (long)prefix); }
    }
    uint8_t *longer = malloc(size_bytes + 1);
    memcpy(longer, bytes, size_bytes);
    longer[size_bytes] = 0;
    if (decode_copy(fixture, one, longer, size_bytes + 1, fixture->other, NULL) != BASE_BAD) {
        fail_at(one, "a byte too many is no error", (long)size_bytes);
    }
    free(longer);
    free(bytes);
}

static void every_prefix_is_an_error(void **state) { for_each(state, check_prefixes); }

static void check_lies(struct fixture *fixture, struct one one)
{
    for (int32_t lie = 0;; lie++) {
        struct reference reference;
        reference_encode(one.message, fixture->value, one.version, lie, &reference);
        if (lie >= reference.counts) {
            reference_free(&reference);
            return;
        }
        enum base_rc rc = decode_copy(fixture, one, reference.at, reference.size_bytes, fixture->other, NULL);
        size_t left = reference.size_bytes - reference.after_lie_bytes;
        bool is_true = reference.is_lie_short && left >= 0x7fff; /* then it is merely another message */
        if (rc != BASE_BAD && !(is_true && rc == BASE_OK)) { fail_at(one, "a lie is believed", lie); }
        reference_free(&reference);
    }
}

static void every_lied_count_is_an_error_and_takes_no_memory(void **state) { for_each(state, check_lies); }

/* A struct is set to its defaults from a list of those that are not zero; each field alone, by its own. */
static void a_struct_at_its_defaults_has_every_field_at_its_own(void **state)
{
    struct fixture *fixture = *state;
    uint32_t last = 0; /* a message's structs stand before it */
    for (uint32_t m = 0; m < KAFKA_MESSAGE_COUNT; m++) {
        if (kafka__messages[m].struct_index > last) { last = kafka__messages[m].struct_index; }
    }
    for (uint32_t index = 0; index <= last; index++) {
        const struct kafka__struct *type = &kafka__structs[index];
        uint8_t *value = fixture->value;
        uint8_t *other = fixture->other;
        assert_true(type->size_bytes <= 4096);
        memset(value, 0xaa, type->size_bytes);
        memset(other, 0, type->size_bytes);
        kafka__struct_init(type, value);
        for (uint32_t i = 0; i < type->field_count; i++) {
            const struct kafka__field *field = &kafka__fields[type->field_first + i];
            kafka__set_default(field, other + field->place);
            assert_true(kafka__field_is_default(field, value + field->place));
        }
        assert_memory_equal(value, other, type->size_bytes);
    }
}

/* How often each field of a message was at its default and not, nulls and pointers included. */
static void check_dice(struct fixture *fixture, enum kafka_message message)
{
    const struct kafka__message *row = &kafka__messages[message];
    const struct kafka__struct *type = &kafka__structs[row->struct_index];
    int set[64] = {0};
    struct one one = {.message = message, .version = kafka_message_version_max(message)};
    for (one.number = 0; one.number < VALUES; one.number++) {
        given_value(fixture, one);
        for (uint32_t i = 0; i < type->field_count; i++) {
            const struct kafka__field *field = &kafka__fields[type->field_first + i];
            set[i] += !kafka__field_is_default(field, (uint8_t *)fixture->value + field->place);
        }
    }
    for (uint32_t i = 0; i < type->field_count; i++) {
        const struct kafka__field *field = &kafka__fields[type->field_first + i];
        bool is_here = kafka__in_version(field, one.version);
        if (is_here != (set[i] > 0)) { fail_at(one, &kafka__names[field->name], set[i]); }
        if (set[i] == VALUES && !kafka__is_struct_itself(field)) { fail_at(one, &kafka__names[field->name], set[i]); }
    }
}

static void the_dice_set_and_leave_every_field(void **state)
{
    for (int message = SHARD; message < KAFKA_MESSAGE_COUNT; message += SHARDS) {
        check_dice(*state, (enum kafka_message)message);
    }
}

/* Bytes of a field in its struct. */
static size_t field_bytes(const struct kafka__field *field)
{
    if ((field->flags & KAFKA__ARRAY) != 0) { return sizeof(void *) + sizeof(int32_t); }
    if ((field->flags & KAFKA__POINTER) != 0) { return sizeof(void *); }
    if (field->type == KAFKA__STRUCT) { return kafka__structs[field->struct_index].size_bytes; }
    return kafka__scalar_bytes((enum kafka__type)field->type);
}

/* A fault that encoder, decoder and dice would share. The highest struct is the last message's own. */
static void every_field_has_a_place_of_its_own(void **state)
{
    (void)state;
    uint32_t structs = kafka__messages[KAFKA_MESSAGE_COUNT - 1].struct_index + 1u;
    for (uint32_t s = 0; s < structs; s++) {
        const struct kafka__struct *type = &kafka__structs[s];
        uint8_t taken[4096] = {0};
        for (uint32_t i = 0; i < type->field_count; i++) {
            const struct kafka__field *field = &kafka__fields[type->field_first + i];
            assert_true(field->place + field_bytes(field) <= type->size_bytes);
            for (size_t at = field->place; at < field->place + field_bytes(field); at++) {
                if (taken[at] != 0) { fail_msg("struct %u: %s shares its place", s, &kafka__names[field->name]); }
                taken[at] = 1;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_size_is_what_is_written),
        cmocka_unit_test(decoding_gives_the_value_back_whatever_tags_are_added),
        cmocka_unit_test(a_second_encoder_writes_the_same_bytes),
        cmocka_unit_test(every_prefix_is_an_error),
        cmocka_unit_test(every_lied_count_is_an_error_and_takes_no_memory),
        cmocka_unit_test(a_struct_at_its_defaults_has_every_field_at_its_own),
        cmocka_unit_test(the_dice_set_and_leave_every_field),
        cmocka_unit_test(every_field_has_a_place_of_its_own),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
