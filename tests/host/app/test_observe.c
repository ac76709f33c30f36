/* test_observe.c: who waits for shards is told when there is nothing to wait for any more.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__observe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#define SHARDS 2

/* A host that does not run: its shards answer nobody. */
struct node {
    struct host *host;
    struct observe observe;
    struct observe_shard shards[SHARDS];
    void *machines[SHARDS];
};

static void given_node(struct node *node)
{
    *node = (struct node){.host = NULL};
    for (uint32_t i = 0; i < SHARDS; i++) { node->machines[i] = &node->shards[i]; }
    struct host_config config = {.shards = SHARDS, .step = observe_step, .machines = node->machines};
    char why[HOST_WHY_BYTES];
    assert_int_equal(host_create(&config, &node->host, why), PORT_OK);
    node->observe.shards = node->shards;
    node->observe.shard_count = SHARDS;
    assert_true(observe_init(&node->observe, node->host));
}

static uint64_t now_ms(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* On a thread of its own, where cmocka's words are no use. */
static void *ask(void *arg)
{
    struct node *node = arg;
    struct observe_snapshot *snapshots = observe_take(&node->observe, OBSERVE_TABLES);
    CHECK(snapshots != NULL);
    for (uint32_t i = 0; i < SHARDS; i++) { CHECK(!snapshots[i].is_there && !snapshots[i].is_whole); }
    observe_free(&node->observe, snapshots);
    return NULL;
}

static bool is_waiting(struct node *node)
{
    assert_int_equal(pthread_mutex_lock(&node->observe.lock), 0);
    bool is_so = node->observe.waiting == SHARDS;
    assert_int_equal(pthread_mutex_unlock(&node->observe.lock), 0);
    return is_so;
}

static void who_waits_when_the_shards_end_waits_no_longer(void **state)
{
    (void)state;
    struct node node;
    given_node(&node);
    pthread_t thread;
    uint64_t begun_ms = now_ms();
    assert_int_equal(pthread_create(&thread, NULL, ask, &node), 0);
    while (!is_waiting(&node)) {}
    assert_false(observe_is_over(&node.observe));
    observe_over(&node.observe);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(observe_is_over(&node.observe));
    assert_true(now_ms() - begun_ms < OBSERVE_WAIT_MS);
    host_destroy(node.host);
}

static void who_asks_after_the_shards_have_ended_does_not_wait(void **state)
{
    (void)state;
    struct node node;
    given_node(&node);
    observe_over(&node.observe);
    uint64_t begun_ms = now_ms();
    (void)ask(&node);
    assert_true(now_ms() - begun_ms < OBSERVE_WAIT_MS);
    host_destroy(node.host);
}

static void a_shard_that_does_not_answer_is_told_of_as_it_was(void **state)
{
    (void)state;
    struct node node;
    given_node(&node);
    node.shards[1].last.counters.produced_records = 7;
    observe_over(&node.observe);
    struct observe_snapshot *snapshots = observe_take(&node.observe, OBSERVE_VIEWS);
    assert_non_null(snapshots);
    assert_false(snapshots[1].is_there);
    assert_int_equal(snapshots[1].counters.produced_records, 7);
    observe_free(&node.observe, snapshots);
    host_destroy(node.host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_when_the_shards_end_waits_no_longer),
        cmocka_unit_test(who_asks_after_the_shards_have_ended_does_not_wait),
        cmocka_unit_test(a_shard_that_does_not_answer_is_told_of_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
