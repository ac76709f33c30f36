/* test_log_limit.c: lines that come again and again: which are written, and that of the others each is counted once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_MS 1000
#define A_SECOND  100 /* lines alike */

void base_panic_host(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    abort();
}

static int64_t second_at; /* each test has its own, later ones */

static int given(void **state)
{
    (void)state;
    second_at += 10;
    return 0;
}

static enum app_log_may say(int64_t second, const char *text, struct app_log_left *left)
{
    struct app_log_words words = {.wall_ms = second * SECOND_MS,
                                  .level = PORT_WARN,
                                  .room = base_slice_text("conn"),
                                  .text = base_slice_text(text)};
    memset(left, 0, sizeof *left);
    return app_log_may(&words, left);
}

/* Says it so many times in a second; how many were written. */
static int flood(int64_t second, const char *text, int count)
{
    int written = 0;
    for (int i = 0; i < count; i++) {
        struct app_log_left left;
        if (say(second, text, &left) == APP_LOG_MAY) { written += 1; }
    }
    return written;
}

static void expect_text(struct base_slice got, const char *want)
{
    assert_true(base_slice_equal(got, base_slice_text(want)));
}

static void a_line_that_comes_later_tells_how_many_were_left_out(void **state)
{
    (void)state;
    struct app_log_left left;
    assert_int_equal(flood(second_at, "port 17 closed", A_SECOND + 5), A_SECOND);
    assert_int_equal(say(second_at + 1, "port 18 closed", &left), APP_LOG_MAY);
    assert_int_equal(left.words.room.size_bytes, 0);
    assert_int_equal(left.left_out, 5);
    assert_false(app_log_left_next((second_at + 2) * SECOND_MS, &left));
    assert_false(left.is_more);
}

static void a_burst_that_never_comes_again_is_told_once_its_second_is_over(void **state)
{
    (void)state;
    struct app_log_left left;
    assert_int_equal(flood(second_at, "port 17 closed", A_SECOND + 5), A_SECOND);
    assert_false(app_log_left_next(second_at * SECOND_MS + 999, &left));
    assert_true(left.is_more);
    assert_true(app_log_left_next((second_at + 1) * SECOND_MS, &left));
    assert_int_equal(left.left_out, 4); /* this one is the fifth */
    assert_int_equal(left.words.level, PORT_WARN);
    assert_int_equal(left.words.wall_ms, second_at * SECOND_MS);
    expect_text(left.words.room, "conn");
    expect_text(left.words.text, "port 17 closed");
    assert_false(app_log_left_next((second_at + 1) * SECOND_MS, &left));
    assert_false(left.is_more);
}

static void the_first_that_is_left_out_asks_for_somebody_who_tells(void **state)
{
    (void)state;
    struct app_log_left left;
    assert_int_equal(flood(second_at, "port 17 closed", A_SECOND), A_SECOND);
    assert_int_equal(say(second_at, "port 17 closed", &left), APP_LOG_FIRST_LEFT_OUT);
    assert_int_equal(say(second_at, "port 17 closed", &left), APP_LOG_LEFT_OUT);
    app_log_left_untold(); /* nobody could */
    assert_int_equal(say(second_at, "port 17 closed", &left), APP_LOG_FIRST_LEFT_OUT);
    assert_true(app_log_left_next(INT64_MAX, &left));
    assert_int_equal(left.left_out, 2);
    assert_false(app_log_left_next(INT64_MAX, &left));
    assert_int_equal(flood(second_at, "port 17 closed", 1), 0);
    assert_true(app_log_left_next(INT64_MAX, &left)); /* as after the last, anew */
    assert_int_equal(left.left_out, 0);
}

static void what_takes_its_place_in_the_table_tells_of_it(void **state)
{
    (void)state;
    char text[] = "aaaa";
    uint64_t told = 0;
    assert_int_equal(flood(second_at, "port 17 closed", A_SECOND + 5), A_SECOND);
    for (int i = 0; i < 20000 && told == 0; i++) {
        struct app_log_left left;
        text[0] = (char)('a' + i % 26);
        text[1] = (char)('a' + i / 26 % 26);
        text[2] = (char)('a' + i / 676 % 26);
        if (say(second_at, text, &left) == APP_LOG_MAY && left.words.room.size_bytes > 0) {
            expect_text(left.words.text, "port 17 closed");
            told = left.left_out + 1;
        }
    }
    assert_int_equal(told, 5);
}

static void what_is_too_long_is_kept_in_part(void **state)
{
    (void)state;
    struct app_log_left left;
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(flood(second_at, text, A_SECOND + 1), A_SECOND);
    assert_true(app_log_left_next(INT64_MAX, &left));
    assert_int_equal(left.words.text.size_bytes, sizeof left.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_line_that_comes_later_tells_how_many_were_left_out, given),
        cmocka_unit_test_setup(a_burst_that_never_comes_again_is_told_once_its_second_is_over, given),
        cmocka_unit_test_setup(the_first_that_is_left_out_asks_for_somebody_who_tells, given),
        cmocka_unit_test_setup(what_takes_its_place_in_the_table_tells_of_it, given),
        cmocka_unit_test_setup(what_is_too_long_is_kept_in_part, given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
