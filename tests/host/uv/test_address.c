/* test_address.c: of the addresses of one name the same is chosen to listen on and to connect to.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host/uv/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void ipv4_is_chosen_wherever_it_stands_and_else_the_first(void **state)
{
    (void)state;
    struct addrinfo v6[2] = {{.ai_family = AF_INET6}, {.ai_family = AF_INET6}};
    struct addrinfo v4[2] = {{.ai_family = AF_INET}, {.ai_family = AF_INET}};
    assert_null(host_address_best(NULL));
    v6[0].ai_next = &v6[1];
    assert_ptr_equal(host_address_best(v6), &v6[0]);
    v6[1].ai_next = &v4[0]; /* as "localhost" has them: ::1, then 127.0.0.1 */
    v4[0].ai_next = &v4[1];
    assert_ptr_equal(host_address_best(v6), &v4[0]);
    v4[1].ai_next = NULL;
    v4[0].ai_next = &v6[1];
    v6[1].ai_next = NULL;
    assert_ptr_equal(host_address_best(v4), &v4[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ipv4_is_chosen_wherever_it_stands_and_else_the_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
