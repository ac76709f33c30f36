/* world_net_test.c: what connections and clocks go through.
 *
 * Room    tests/sim/world.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "puppet.h"

#include <stdlib.h>
#include <string.h>

struct two {
    struct puppet *server, *client;
    struct world *world;
};

static struct two given_two(uint64_t seed, const struct world_knobs *knobs)
{
    struct two two;
    two.server = given_puppet(seed, knobs);
    two.world = two.server->world;
    two.client = add_puppet(two.world, 0);
    given_connection(two.server, two.client);
    return two;
}

static void drop_two(struct two two)
{
    free(two.client);
    drop_puppet(two.server);
}

static struct port_effect a_recv(void *buffer, uint64_t size_bytes)
{
    struct port_effect recv = of_conn(PORT_RECV, 1, 1);
    recv.buffer = buffer;
    recv.size_bytes = size_bytes;
    return recv;
}

static struct port_effect a_send(const void *bytes, uint64_t size_bytes)
{
    static struct port_piece pieces[8];
    static uint32_t next;
    struct port_piece *piece = &pieces[next % BASE_ARRAY_COUNT(pieces)];
    next += 1;
    *piece = (struct port_piece){.kind = PORT_MEMORY, .at = bytes, .size_bytes = size_bytes};
    struct port_effect send = of_conn(PORT_SEND, 1, 1);
    send.pieces = piece;
    send.piece_count = 1;
    return send;
}

static void a_reset_may_come_inside_a_frame(void **state)
{
    (void)state;
    uint32_t inside = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct two two = given_two(seed, NULL);
        uint8_t got[100];
        world_set_rate(two.world, WORLD_NET_RESET, 1000000);
        uint8_t frame[100];
        memset(frame, 'f', sizeof frame);
        (void)ask(two.client, a_send(frame, sizeof frame));
        uint64_t count = 0;
        struct port_event event = do_it(two.server, a_recv(got, sizeof got));
        while (event.done.rc == PORT_OK) {
            count += event.done.count;
            event = do_it(two.server, a_recv(got, sizeof got));
        }
        expect_rc(event, PORT_RESET);
        inside += count > 0 && count < sizeof frame ? 1 : 0;
        expect_rc(do_it(two.client, a_recv(got, sizeof got)), PORT_RESET);
        assert_null(world_failure(two.world));
        drop_two(two);
    }
    assert_true(inside > 0);
}

static void a_slow_reader_makes_its_sender_wait(void **state)
{
    (void)state;
    struct world_knobs knobs;
    world_knobs_default(&knobs);
    knobs.socket_buffer_bytes = 1000;
    struct two two = given_two(1, &knobs);
    static uint8_t sent[10000];
    static uint8_t got[10000];
    for (size_t i = 0; i < sizeof sent; i++) { sent[i] = (uint8_t)(i * 31 >> 3); }
    uint64_t token = ask(two.client, a_send(sent, sizeof sent));
    (void)world_run(two.world, world_now(two.world) + 10 * WORLD_S);
    assert_false(has_come(two.client, token));
    size_t count = 0;
    while (count < sizeof got) {
        struct port_event event = do_it(two.server, a_recv(got + count, base_min_u64(300, sizeof got - count)));
        expect_rc(event, PORT_OK);
        count += event.done.count;
    }
    assert_memory_equal(sent, got, sizeof sent);
    assert_int_equal(await(two.client, token).done.count, sizeof sent);
    drop_two(two);
}

static void the_peer_of_a_process_that_died_is_told(void **state)
{
    (void)state;
    struct two two = given_two(1, NULL);
    uint8_t got[4];
    uint64_t token = ask(two.client, a_recv(got, sizeof got));
    world_crash(two.world, two.server->node, WORLD_PROCESS);
    expect_rc(await(two.client, token), PORT_EOF);
    drop_two(two);
}

static void the_peer_of_a_node_without_power_may_not_be_told(void **state)
{
    (void)state;
    struct two two = given_two(1, NULL);
    uint8_t got[4];
    world_set_rate(two.world, WORLD_NET_HALF_OPEN, 1000000);
    uint64_t token = ask(two.client, a_recv(got, sizeof got));
    world_crash(two.world, two.server->node, WORLD_POWER);
    (void)world_run(two.world, world_now(two.world) + 500 * WORLD_S);
    assert_false(has_come(two.client, token)); /* silence: a machine needs a time-out of its own */
    expect_rc(do_it(two.client, a_send("ping", 4)), PORT_OK);
    expect_rc(await(two.client, token), PORT_TIMED_OUT); /* its system gives up on the bytes */
    assert_true(world_hits(two.world, WORLD_NET_HALF_OPEN) > 0);
    drop_two(two);
}

static void a_node_that_is_back_resets_what_it_does_not_know(void **state)
{
    (void)state;
    struct two two = given_two(1, NULL);
    uint8_t got[4];
    world_set_rate(two.world, WORLD_NET_HALF_OPEN, 1000000);
    uint64_t token = ask(two.client, a_recv(got, sizeof got));
    crash_and_restart(two.server, WORLD_POWER);
    expect_rc(do_it(two.client, a_send("ping", 4)), PORT_OK);
    expect_rc(await(two.client, token), PORT_RESET);
    drop_two(two);
}

static void bytes_wait_while_a_link_is_blocked(void **state)
{
    (void)state;
    struct two two = given_two(1, NULL);
    uint8_t got[4];
    world_block(two.world, two.client->node, two.server->node, true);
    uint64_t token = ask(two.server, a_recv(got, sizeof got));
    (void)ask(two.client, a_send("ping", 4));
    (void)world_run(two.world, world_now(two.world) + 5 * WORLD_S);
    assert_false(has_come(two.server, token));
    uint8_t back[4]; /* the other direction is open */
    (void)ask(two.server, a_send("pong", 4));
    assert_int_equal(do_it(two.client, a_recv(back, sizeof back)).done.count, 4);
    world_block(two.world, two.client->node, two.server->node, false);
    assert_int_equal(await(two.server, token).done.count, 4);
    assert_memory_equal(got, "ping", 4);
    drop_two(two);
}

static void a_sender_gives_up_on_a_link_that_stays_blocked(void **state)
{
    (void)state;
    struct two two = given_two(1, NULL);
    uint8_t got[4];
    world_block(two.world, two.client->node, two.server->node, true);
    (void)ask(two.client, a_send("ping", 4));
    expect_rc(do_it(two.client, a_recv(got, sizeof got)), PORT_TIMED_OUT);
    drop_two(two);
}

static void connects_fail_in_every_way(void **state)
{
    (void)state;
    struct two two = given_two(1, NULL);
    struct port_effect connect = of_conn(PORT_CONNECT, 2, 1);
    connect.address = world_address(two.world, two.server->node, 9093);
    expect_rc(do_it(two.client, connect), PORT_REFUSED);
    connect.address = world_address(two.world, 77, 9092);
    expect_rc(do_it(two.client, connect), PORT_UNREACHABLE);
    connect.address = world_address(two.world, two.server->node, 9092);
    world_set_rate(two.world, WORLD_NET_REFUSE, 1000000);
    expect_rc(do_it(two.client, connect), PORT_REFUSED);
    world_set_rate(two.world, WORLD_NET_REFUSE, 0);
    world_set_rate(two.world, WORLD_NET_TIMEOUT, 1000000);
    expect_rc(do_it(two.client, connect), PORT_TIMED_OUT);
    world_set_rate(two.world, WORLD_NET_TIMEOUT, 0);
    world_set_rate(two.world, WORLD_NET_NO_HANDLES, 1000000);
    expect_rc(do_it(two.client, connect), PORT_NO_HANDLES);
    world_set_rate(two.world, WORLD_NET_NO_HANDLES, 0);
    world_block(two.world, two.server->node, two.client->node, true);
    expect_rc(do_it(two.client, connect), PORT_TIMED_OUT);
    world_block(two.world, two.server->node, two.client->node, false);
    expect_rc(do_it(two.client, connect), PORT_OK); /* the backlog takes it */
    world_crash(two.world, two.server->node, WORLD_POWER);
    uint8_t got[1];
    struct port_effect recv = a_recv(got, 1);
    recv.conn = (struct port_conn){.slot = 2, .generation = 1};
    expect_rc(do_it(two.client, recv), PORT_RESET);
    assert_null(world_failure(two.world));
    drop_two(two);
}

static void a_close_ends_a_connect_that_is_under_way(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        struct two two = given_two(seed, NULL);
        struct port_effect connect = of_conn(PORT_CONNECT, 2, 1);
        connect.address = world_address(two.world, two.server->node, 9092);
        struct port_effect both[] = {connect, of_conn(PORT_CLOSE, 2, 1)};
        uint64_t token = ask_all(two.client, both, 2);
        expect_rc(await(two.client, token + 1), PORT_OK);
        assert_true(has_come(two.client, token));
        assert_int_not_equal(await(two.client, token).done.rc, PORT_OK);
        token = ask(two.client,
                    connect = (struct port_effect){.kind = PORT_CONNECT, .conn = {2, 2}, .address = connect.address});
        (void)world_run(two.world,
                        world_now(two.world) + seed * 40 * WORLD_US); /* near its completion, before or after */
        (void)do_it(two.client, of_conn(PORT_CLOSE, 2, 2));
        assert_true(has_come(two.client, token));
        assert_null(world_failure(two.world));
        drop_two(two);
    }
}

static void an_alarm_is_never_early_whatever_the_drift(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 30; seed++) {
        struct world_knobs knobs;
        world_knobs_default(&knobs);
        knobs.drift_max_ppm = 500000;
        struct puppet *p = given_puppet(seed, &knobs);
        for (uint32_t i = 1; i <= 10; i++) {
            (void)do_it(p, by_name(PORT_SYNC_DIR, ""));
            p->alarm_ns = p->last_now_ns + i * i * 777 * WORLD_US; /* the puppet asserts that it is not early */
            (void)do_it(p, by_name(PORT_SYNC_DIR, ""));
            while (p->alarms < i) { assert_true(world_step(p->world)); }
        }
        drop_puppet(p);
    }
}

static void a_due_alarm_comes_before_a_turn_or_after_it(void **state)
{
    (void)state;
    uint32_t alarm_first = 0;
    enum { SEEDS = 40 };
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct puppet *p = given_puppet(seed, NULL);
        (void)world_run(p->world, WORLD_MS);
        p->alarm_ns = p->last_now_ns; /* due at once */
        p->wants_turn = true;
        (void)ask_all(p, NULL, 0);
        (void)world_run(p->world, 2 * WORLD_MS);
        assert_int_equal(p->alarms, 1);
        assert_int_equal(p->turns, 1);
        alarm_first += p->alarms_before_turn;
        drop_puppet(p);
    }
    assert_in_range(alarm_first, SEEDS / 4, SEEDS * 3 / 4);
}

static void the_wall_clock_steps_and_the_other_does_not(void **state)
{
    (void)state;
    struct puppet *p = given_puppet(1, NULL);
    struct port_event before = do_it(p, by_name(PORT_SYNC_DIR, ""));
    world_clock_step(p->world, p->node, -INT64_C(86400000));
    struct port_event after = do_it(p, by_name(PORT_SYNC_DIR, ""));
    assert_true(after.wall_ms < before.wall_ms);
    assert_true(after.now_ns > before.now_ns && after.now_ns < before.now_ns + WORLD_S);
    drop_puppet(p);
}

static void a_paused_node_is_given_nothing(void **state)
{
    (void)state;
    struct puppet *p = given_puppet(1, NULL);
    (void)do_it(p, by_name(PORT_SYNC_DIR, ""));
    uint64_t token = ask(p, by_name(PORT_SYNC_DIR, ""));
    uint64_t paused_ns = world_now(p->world);
    world_pause(p->world, p->node, 3 * WORLD_S);
    (void)await(p, token);
    assert_true(world_now(p->world) >= paused_ns + 3 * WORLD_S);
    drop_puppet(p);
}

static void note_call(void *context, struct world *world) { *(uint64_t *)context = world_now(world); }

static void the_harness_is_called_at_its_time(void **state)
{
    (void)state;
    struct puppet *p = given_puppet(1, NULL);
    uint64_t called_ns = 0;
    world_at(p->world, 5 * WORLD_S, note_call, &called_ns);
    while (called_ns == 0) { assert_true(world_step(p->world)); }
    assert_int_equal(called_ns, 5 * WORLD_S);
    drop_puppet(p);
}

struct seen {
    uint32_t events, effects, boots, crashes;
    uint64_t payload_bytes;
};

static void see_event(void *context, uint32_t node, uint32_t shard, const struct port_event *event,
                      struct base_slice payload, const void *machine)
{
    struct seen *seen = context;
    (void)node;
    (void)shard;
    (void)event;
    assert_non_null(machine);
    seen->events += 1;
    seen->payload_bytes += payload.size_bytes;
}
static void see_effect(void *context, uint32_t node, uint32_t shard, const struct port_effect *effect)
{
    (void)node;
    (void)shard;
    (void)effect;
    ((struct seen *)context)->effects += 1;
}
static void see_boot(void *context, uint32_t node)
{
    (void)node;
    ((struct seen *)context)->boots += 1;
}
static void see_crash(void *context, uint32_t node, enum world_crash kind)
{
    (void)node;
    (void)kind;
    ((struct seen *)context)->crashes += 1;
}

static void observers_see_every_event_and_effect(void **state)
{
    (void)state;
    struct two two = given_two(1, NULL);
    struct seen seen = {0};
    uint64_t events_before = world_events(two.world);
    world_observe(two.world, &(struct world_observer){.context = &seen,
                                                      .on_event = see_event,
                                                      .on_effect = see_effect,
                                                      .on_boot = see_boot,
                                                      .on_crash = see_crash});
    uint8_t got[4];
    (void)ask(two.client, a_send("ping", 4));
    assert_int_equal(do_it(two.server, a_recv(got, sizeof got)).done.count, 4);
    assert_int_equal(seen.events, world_events(two.world) - events_before);
    assert_int_equal(seen.effects, 2);
    assert_int_equal(seen.payload_bytes, 4);
    crash_and_restart(two.server, WORLD_POWER);
    assert_int_equal(seen.crashes, 1);
    assert_int_equal(seen.boots, 1);
    drop_two(two);
}

static void crashed_nodes_come_back_by_themselves_if_asked(void **state)
{
    (void)state;
    struct world_knobs knobs;
    world_knobs_default(&knobs);
    struct puppet *p = given_puppet(1, &knobs);
    world_crash(p->world, p->node, WORLD_POWER);
    assert_int_equal(world_node_state(p->world, p->node), WORLD_DOWN);
    (void)world_run(p->world, world_now(p->world) + knobs.restart_delay_max_ns);
    assert_int_equal(world_node_state(p->world, p->node), WORLD_UP);
    assert_int_equal(world_boot_count(p->world, p->node), 2);
    drop_puppet(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reset_may_come_inside_a_frame),
        cmocka_unit_test(a_slow_reader_makes_its_sender_wait),
        cmocka_unit_test(the_peer_of_a_process_that_died_is_told),
        cmocka_unit_test(the_peer_of_a_node_without_power_may_not_be_told),
        cmocka_unit_test(a_node_that_is_back_resets_what_it_does_not_know),
        cmocka_unit_test(bytes_wait_while_a_link_is_blocked),
        cmocka_unit_test(a_sender_gives_up_on_a_link_that_stays_blocked),
        cmocka_unit_test(connects_fail_in_every_way),
        cmocka_unit_test(a_close_ends_a_connect_that_is_under_way),
        cmocka_unit_test(an_alarm_is_never_early_whatever_the_drift),
        cmocka_unit_test(a_due_alarm_comes_before_a_turn_or_after_it),
        cmocka_unit_test(the_wall_clock_steps_and_the_other_does_not),
        cmocka_unit_test(a_paused_node_is_given_nothing),
        cmocka_unit_test(the_harness_is_called_at_its_time),
        cmocka_unit_test(observers_see_every_event_and_effect),
        cmocka_unit_test(crashed_nodes_come_back_by_themselves_if_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
