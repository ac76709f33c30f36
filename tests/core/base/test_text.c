/* test_text.c: texts, slices and the text form of ids.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

static void a_text_holds_words_and_numbers(void **state)
{
    (void)state;
    char room[200];
    struct base_text text;
    base_text_init(&text, room, sizeof room);
    base_text_add(&text, "a ");
    base_text_add_i64(&text, INT64_MIN);
    base_text_add(&text, " ");
    base_text_add_i64(&text, 0);
    base_text_add(&text, " ");
    base_text_add_u64_padded(&text, 42, 20);
    base_text_add(&text, " ");
    base_text_add_u64_padded(&text, UINT64_MAX, 1);
    base_text_add(&text, " ");
    base_text_add_hex(&text, 0xbeef, 6);
    base_text_add_slice(&text, base_slice_of(NULL, 0));
    assert_string_equal(room, "a -9223372036854775808 0 00000000000000000042 18446744073709551615 00beef");
    assert_false(text.is_cut);
    assert_int_equal(base_text_slice(&text).size_bytes, strlen(room));
}

static void a_text_is_cut_and_never_overrun(void **state)
{
    (void)state;
    for (size_t room_bytes = 1; room_bytes < 12; room_bytes++) {
        char room[16];
        memset(room, '#', sizeof room);
        struct base_text text;
        base_text_init(&text, room, room_bytes);
        base_text_add(&text, "0123");
        base_text_add_i64(&text, 456789);
        assert_int_equal(text.is_cut, room_bytes < 11);
        assert_int_equal(strlen(room), room_bytes < 11 ? room_bytes - 1 : 10);
        assert_memory_equal(room, "0123456789", strlen(room));
        assert_int_equal(room[room_bytes], '#');
    }
}

static void numbers_are_parsed_to_the_last_and_no_further(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        enum base_rc rc;
        int64_t value;
    } cases[] = {
        {"0", BASE_OK, 0},
        {"-0", BASE_OK, 0},
        {"0017", BASE_OK, 17},
        {"9223372036854775807", BASE_OK, INT64_MAX},
        {"-9223372036854775808", BASE_OK, INT64_MIN},
        {"9223372036854775808", BASE_BAD, 0},
        {"-9223372036854775809", BASE_BAD, 0},
        {"99999999999999999999", BASE_BAD, 0},
        {"", BASE_BAD, 0},
        {"-", BASE_BAD, 0},
        {"+1", BASE_BAD, 0},
        {" 1", BASE_BAD, 0},
        {"1 ", BASE_BAD, 0},
        {"1a", BASE_BAD, 0},
        {"--1", BASE_BAD, 0},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        int64_t value = 12345;
        assert_int_equal(base_text_parse_i64(base_slice_text(cases[i].words), &value), cases[i].rc);
        assert_int_equal(value, cases[i].rc == BASE_OK ? cases[i].value : 12345);
    }
}

/* Written by kafka-clients 4.3.1: new Uuid(0x0123456789abcdefL, 0xfedcba9876543210L) and Uuid.ONE_UUID. */
static void ids_have_the_text_form_of_kafka(void **state)
{
    (void)state;
    struct base_uuid id = {
        {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10}};
    struct base_uuid one = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    char words[23];
    base_uuid_to_text(id, words);
    assert_string_equal(words, "ASNFZ4mrze_-3LqYdlQyEA");
    base_uuid_to_text(one, words);
    assert_string_equal(words, "AAAAAAAAAAAAAAAAAAAAAQ");
    char room[30];
    struct base_text text;
    base_text_init(&text, room, sizeof room);
    base_text_add_uuid(&text, id);
    assert_string_equal(room, "ASNFZ4mrze_-3LqYdlQyEA");
}

static void every_id_survives_its_text(void **state)
{
    (void)state;
    struct base_prng dice;
    base_prng_init(&dice, 5, 0);
    for (int i = 0; i < 2000; i++) {
        struct base_uuid id, back;
        char words[23];
        base_prng_fill(&dice, id.b, sizeof id.b);
        base_uuid_to_text(id, words);
        assert_int_equal(base_uuid_from_text(words, 22, &back), BASE_OK);
        assert_memory_equal(&id, &back, sizeof id);
        assert_int_equal(base_uuid_compare(id, back), 0);
        assert_false(base_uuid_is_none(id));
    }
}

static void what_is_no_id_is_refused(void **state)
{
    (void)state;
    struct base_uuid id = {{9}};
    static const char *const cases[] = {
        "ASNFZ4mrze_-3LqYdlQyE",  "ASNFZ4mrze_-3LqYdlQyEAA",  "ASNFZ4mrze/-3LqYdlQyEA",
        "ASNFZ4mrze+-3LqYdlQyEA", "ASNFZ4mrze_-3LqYdlQyEB", /* bits beyond the last byte */
        "ASNFZ4mrze_-3LqYdlQyEE", "ASNFZ4mrze_-3LqYdlQyEA==", "",
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        assert_int_equal(base_uuid_from_text(cases[i], strlen(cases[i]), &id), BASE_BAD);
    }
    assert_int_equal(id.b[0], 9);
}

static void slices_compare_bytewise_and_shorter_first(void **state)
{
    (void)state;
    assert_int_equal(base_slice_compare(base_slice_text("ab"), base_slice_text("abc")), -1);
    assert_int_equal(base_slice_compare(base_slice_text("b"), base_slice_text("abc")), 1);
    assert_int_equal(base_slice_compare(base_slice_text("\xff"), base_slice_text("a")), 1);
    assert_int_equal(base_slice_compare(base_slice_of(NULL, 0), base_slice_text("")), 0);
    assert_true(base_slice_equal(base_slice_of(NULL, 0), base_slice_text("")));
    uint8_t bytes[8];
    base_put_u64(bytes, UINT64_C(0x0102030405060708));
    assert_int_equal(bytes[0], 1);
    assert_int_equal(base_get_u64(bytes), UINT64_C(0x0102030405060708));
    assert_int_equal(base_get_u32(bytes + 1), 0x02030405);
    assert_int_equal(base_get_u16(bytes + 6), 0x0708);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_holds_words_and_numbers),
        cmocka_unit_test(a_text_is_cut_and_never_overrun),
        cmocka_unit_test(numbers_are_parsed_to_the_last_and_no_further),
        cmocka_unit_test(ids_have_the_text_form_of_kafka),
        cmocka_unit_test(every_id_survives_its_text),
        cmocka_unit_test(what_is_no_id_is_refused),
        cmocka_unit_test(slices_compare_bytewise_and_shorter_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
