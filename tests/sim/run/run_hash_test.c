/* run_hash_test.c: a run is its seed, and the hash sees every byte.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run.h"
#include "sim/actor/actor.h"

static struct run_result run(uint64_t seed)
{
    struct run_config config = {.seed = seed};
    struct run_result result;
    run_seed(&config, &result);
    return result;
}

static void a_seed_gives_the_same_run_twice(void **state)
{
    (void)state;
    struct run_result first = run(1), second = run(1), other = run(2);
    assert_true(first.hash == second.hash);
    assert_true(first.events == second.events);
    assert_true(first.hash != other.hash);
}

static void a_knob_changes_the_run(void **state)
{
    (void)state;
    struct run_config config = {.seed = 1, .sets = {{"shards", 2}}, .set_count = 1};
    struct run_result two, three;
    run_seed(&config, &two);
    config.sets[0].value = 3;
    run_seed(&config, &three);
    assert_true(two.hash != three.hash);
}

static uint64_t hash_of_sends(uint8_t changed_byte)
{
    uint8_t bytes[3][16] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
    bytes[1][7] = changed_byte;
    uint64_t hash = 0;
    for (int i = 0; i < 3; i++) {
        struct port_piece piece = {.kind = PORT_MEMORY, .at = bytes[i], .size_bytes = sizeof bytes[i]};
        struct port_effect effect = {
            .kind = PORT_SEND, .token = 1, .conn = {.slot = 1, .generation = 1}, .pieces = &piece, .piece_count = 1};
        hash = port_hash_effect(hash, 0, 0, &effect);
    }
    return hash;
}

static void one_byte_of_one_effect_changes_the_hash(void **state)
{
    (void)state;
    assert_true(hash_of_sends(0) == hash_of_sends(0));
    for (unsigned byte = 1; byte < 256; byte++) { assert_true(hash_of_sends((uint8_t)byte) != hash_of_sends(0)); }
}

static void a_value_says_whose_it_is_and_a_changed_byte_is_seen(void **state)
{
    (void)state;
    uint8_t value[200];
    struct history_record record = {.incarnation = 3, .producer = 2, .sequence = 77}, got;
    actor_value_make(record, value, sizeof value);
    assert_true(actor_value_read(base_slice_of(value, sizeof value), &got));
    assert_int_equal(got.incarnation, 3);
    assert_int_equal(got.producer, 2);
    assert_int_equal(got.sequence, 77);
    for (size_t i = 0; i < sizeof value; i++) {
        value[i] ^= 1;
        bool is_same = actor_value_read(base_slice_of(value, sizeof value), &got) && got.incarnation == 3 &&
                       got.producer == 2 && got.sequence == 77;
        assert_false(is_same);
        value[i] ^= 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_gives_the_same_run_twice),
        cmocka_unit_test(a_knob_changes_the_run),
        cmocka_unit_test(one_byte_of_one_effect_changes_the_hash),
        cmocka_unit_test(a_value_says_whose_it_is_and_a_changed_byte_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
