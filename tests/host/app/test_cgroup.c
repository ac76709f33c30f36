/* test_cgroup.c: the least that the groups of a process are allowed is what it has.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/weir-cgroup.XXXXXX";

static int make_root(void **state)
{
    (void)state;
    CHECK(mkdtemp(root) != NULL);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    static const char *const names[] = {"/self",
                                        "/memory.max",
                                        "/a/memory.max",
                                        "/a/b/memory.max",
                                        "/a/b",
                                        "/a",
                                        "/memory/memory.limit_in_bytes",
                                        "/memory/c/memory.limit_in_bytes",
                                        "/memory/c",
                                        "/memory",
                                        ""};
    char path[256];
    for (size_t i = 0; i < BASE_ARRAY_COUNT(names); i++) {
        (void)snprintf(path, sizeof path, "%s%s", root, names[i]);
        CHECK(remove(path) == 0);
    }
    return 0;
}

static void put(const char *name, const char *words)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_not_equal(fputs(words, file), EOF);
    assert_int_equal(fclose(file), 0);
}

static void make(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static uint64_t limit_of(const char *self)
{
    char path[256];
    put("self", self);
    (void)snprintf(path, sizeof path, "%s/self", root);
    return app_cgroup_bytes(path, root);
}

static void the_least_of_all_groups_counts(void **state)
{
    (void)state;
    make("a");
    make("a/b");
    make("memory");
    make("memory/c");
    put("memory.max", "900\n");
    put("a/memory.max", "300\n");
    put("a/b/memory.max", "max\n");
    put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/c/memory.limit_in_bytes", "200\n");
    assert_int_equal(limit_of("0::/\n"), 900);
    assert_int_equal(limit_of("0::/a\n"), 300);
    assert_int_equal(limit_of("0::/a/b\n"), 300);         /* of a group above */
    assert_int_equal(limit_of("0::/elsewhere/b\n"), 900); /* a container does not see its own name */
    assert_int_equal(limit_of("5:cpu,memory:/c\n0::/a\n"), 200);
    assert_int_equal(limit_of("5:cpu,memory:/c/d\n"), 200);
    assert_int_equal(limit_of("4:memory:/\n"), INT64_C(9223372036854771712));
    assert_true(limit_of("3:cpu:/c\n") == UINT64_MAX);
    assert_true(limit_of("nonsense\n") == UINT64_MAX);
    assert_true(app_cgroup_bytes("/no/such/file", root) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_of_all_groups_counts)};
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
