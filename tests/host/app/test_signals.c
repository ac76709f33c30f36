/* test_signals.c: which signal asks for what.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* As from timeout(1): to the process, and to its group. */
static void a_wish_that_is_sent_twice_is_one(void **state)
{
    (void)state;
    assert_int_equal(app_wish_of(SIGTERM, 5000), APP_WISH_STOP);
    assert_int_equal(app_wish_of(SIGTERM, 5000), APP_WISH_NONE);
    assert_int_equal(app_wish_of(SIGTERM, 5999), APP_WISH_NONE);
    assert_int_equal(app_wish_of(SIGINT, 5001), APP_WISH_STOP_AT_ONCE);
    assert_int_equal(app_wish_of(SIGTERM, 6000), APP_WISH_STOP_AT_ONCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_wish_that_is_sent_twice_is_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
