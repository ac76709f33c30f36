/* test_broker_node.c: a node is what its settings say.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/kafka.h"

static struct shard *given_a_node(void)
{
    struct shard *shard = shard_make(0);
    shard_start(shard);
    assert_true(shard->is_ready);
    return shard;
}

static void a_node_is_registered_with_its_rack(void **state)
{
    (void)state;
    struct shard *shard = given_a_node();
    const struct metadata_broker *node = metadata_broker(shard->broker->image, shard->broker->config.node_id);
    assert_non_null(node);
    assert_true(node->has_rack);
    assert_string_equal(node->rack, "a-rack");
    shard_free(shard);
}

static void a_topic_without_a_replication_factor_gets_the_default_one(void **state)
{
    (void)state;
    struct shard *shard = given_a_node();
    static _Alignas(16) uint8_t memory[1024];
    struct base_arena arena;
    base_arena_init(&arena, memory, sizeof memory);
    const struct base_slice name = base_slice_text("topic");
    const struct controller_auto_create create = {&name, 1};
    struct control_loan loan = {.request = {.kind = CONTROLLER_AUTO_CREATE, .request = &create},
                                .shard = 1,
                                .arena = &arena};
    struct port_message message = {.kind = MSG_CONTROL, .lent = &loan, .lent_bytes = sizeof loan};
    shard_tell(shard, &message);
    assert_int_equal(shard_told(shard, MSG_CONTROLLED), 1);
    const struct controller_auto_created *created = loan.answer;
    assert_non_null(created);
    assert_int_equal(created->error_codes[0], KAFKA_ERROR_INVALID_REPLICATION_FACTOR); /* there is one node */
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_registered_with_its_rack),
        cmocka_unit_test(a_topic_without_a_replication_factor_gets_the_default_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
