/* world_breach_test.c: each check of the world reports the fault that is planted for it.
 *
 * Room    tests/sim/world. Includes the world's private header to plant what a machine cannot: a completion too many.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "puppet.h"

#include <stdlib.h>
#include <string.h>

#include "world__world.h"

#define CREATE (PORT_OPEN_WRITE | PORT_OPEN_CREATE)

static struct puppet *given_file(void)
{
    struct puppet *p = given_puppet(1, NULL);
    expect_rc(do_it(p, an_open(0, 1, "a", CREATE)), PORT_OK);
    return p;
}

static void an_id_that_was_never_opened(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    assert_null(world_failure(p->world));
    expect_rc(do_it(p, of_file(PORT_SYNC, 1, 1)), PORT_CLOSED);
    expect_failure(p, "SYNC names file 1.1, which is not open");
    drop_puppet(p);
}

static void an_id_of_another_generation(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    expect_rc(do_it(p, of_file(PORT_SYNC, 0, 2)), PORT_CLOSED);
    expect_failure(p, "names file 0.2, which is not open");
    drop_puppet(p);
}

static void an_id_before_its_open_has_completed(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    struct port_effect both[] = {an_open(1, 1, "b", CREATE), of_file(PORT_SYNC, 1, 1)};
    uint64_t token = ask_all(p, both, 2);
    expect_rc(await(p, token + 1), PORT_CLOSED);
    expect_rc(await(p, token), PORT_OK);
    expect_failure(p, "before its open has completed");
    drop_puppet(p);
}

static void a_slot_used_again_before_its_close_has_completed(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    struct port_effect both[] = {of_file(PORT_CLOSE_FILE, 0, 1), an_open(0, 2, "b", CREATE)};
    uint64_t token = ask_all(p, both, 2);
    expect_rc(await(p, token + 1), PORT_CLOSED);
    expect_rc(await(p, token), PORT_OK);
    expect_failure(p, "slot 0 again before the last event of 0.1");
    drop_puppet(p);
}

static void a_generation_used_a_second_time(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    expect_rc(do_it(p, of_file(PORT_CLOSE_FILE, 0, 1)), PORT_OK);
    assert_null(world_failure(p->world));
    expect_rc(do_it(p, an_open(0, 1, "a", CREATE)), PORT_CLOSED);
    expect_failure(p, "0.1 a second time");
    drop_puppet(p);
}

static void a_slot_is_free_after_its_last_event(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    expect_rc(do_it(p, of_file(PORT_CLOSE_FILE, 0, 1)), PORT_OK);
    expect_rc(do_it(p, an_open(0, 2, "a", CREATE)), PORT_OK);
    expect_rc(do_it(p, an_open(1, 7, "none", PORT_OPEN_READ)), PORT_MISSING);
    expect_rc(do_it(p, an_open(1, 7, "a", PORT_OPEN_READ)), PORT_OK); /* a failed open was its id's last event */
    assert_null(world_failure(p->world));
    drop_puppet(p);
}

static void an_effect_after_the_close_completes_before_it(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    struct port_effect both[] = {of_file(PORT_CLOSE_FILE, 0, 1), of_file(PORT_SYNC, 0, 1)};
    uint64_t token = ask_all(p, both, 2);
    expect_rc(await(p, token), PORT_OK);
    assert_true(has_come(p, token + 1));
    expect_rc(await(p, token + 1), PORT_CLOSED);
    assert_null(world_failure(p->world));
    drop_puppet(p);
}

static void a_second_close(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    struct port_effect both[] = {of_file(PORT_CLOSE_FILE, 0, 1), of_file(PORT_CLOSE_FILE, 0, 1)};
    uint64_t token = ask_all(p, both, 2);
    expect_rc(await(p, token), PORT_OK);
    expect_rc(await(p, token + 1), PORT_CLOSED);
    expect_failure(p, "which is closing already");
    drop_puppet(p);
}

static void lent_bytes_of_a_write_changed(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    char words[] = "words";
    uint64_t token = ask(p, a_write(0, 1, 0, words, 5));
    assert_false(has_come(p, token));
    words[4] = 'x';
    (void)await(p, token);
    expect_failure(p, "lent bytes of WRITE token=1 were changed");
    drop_puppet(p);
}

static void a_lent_buffer_written_to(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    expect_rc(do_it(p, a_write(0, 1, 0, "words", 5)), PORT_OK);
    uint8_t buffer[16] = {0};
    struct port_effect read = of_file(PORT_READ, 0, 1);
    read.buffer = buffer;
    read.size_bytes = sizeof buffer;
    assert_int_equal(do_it(p, read).done.count, 5);
    assert_null(world_failure(p->world));
    uint64_t token = ask(p, read);
    buffer[9] = 1;
    (void)await(p, token);
    expect_failure(p, "lent bytes of READ");
    drop_puppet(p);
}

static void two_recvs_at_once(void **state)
{
    (void)state;
    struct puppet *server = given_puppet(1, NULL);
    struct puppet *client = add_puppet(server->world, 0);
    given_connection(server, client);
    uint8_t buffers[2][4];
    struct port_effect both[] = {of_conn(PORT_RECV, 1, 1), of_conn(PORT_RECV, 1, 1)};
    both[0].buffer = buffers[0];
    both[0].size_bytes = 4;
    both[1].buffer = buffers[1];
    both[1].size_bytes = 4;
    (void)await(server, ask_all(server, both, 2) + 1);
    expect_failure(server, "two RECVs at once on connection 1.1");
    drop_puppet(server);
    free(client);
}

/* A range that a slow reader keeps from draining: all of it is under the lease till then. */
static struct puppet *given_lease(struct puppet **client_out)
{
    struct world_knobs knobs;
    world_knobs_default(&knobs);
    knobs.restart_delay_max_ns = 0;
    knobs.socket_buffer_bytes = 1000;
    struct puppet *server = given_puppet(1, &knobs);
    *client_out = add_puppet(server->world, 0);
    given_connection(server, *client_out);
    static uint8_t bytes[5000];
    expect_rc(do_it(server, an_open(0, 1, "a", CREATE)), PORT_OK);
    expect_rc(do_it(server, a_write(0, 1, 0, bytes, sizeof bytes)), PORT_OK);
    static struct port_piece piece;
    piece = (struct port_piece){.kind = PORT_RANGE, .file = {.slot = 0, .generation = 1}, .size_bytes = sizeof bytes};
    struct port_effect send = of_conn(PORT_SEND, 1, 1);
    send.pieces = &piece;
    send.piece_count = 1;
    uint64_t token = ask(server, send);
    (void)world_run(server->world, world_now(server->world) + WORLD_S);
    assert_false(has_come(server, token));
    assert_null(world_failure(server->world));
    return server;
}

static void a_lease_broken_by_a_truncate(void **state)
{
    (void)state;
    struct puppet *client;
    struct puppet *server = given_lease(&client);
    uint64_t send = server->next_token - 1;
    expect_rc(do_it(server, of_file(PORT_TRUNCATE, 0, 1)), PORT_OK);
    expect_failure(server, "lease broken: TRUNCATE while bytes");
    uint8_t buffer[2000];
    struct port_effect recv = of_conn(PORT_RECV, 1, 1);
    recv.buffer = buffer;
    recv.size_bytes = sizeof buffer;
    (void)do_it(client, recv);
    struct port_event sent = await(server, send);
    expect_rc(sent, PORT_IO); /* never other bytes in its place */
    assert_true(sent.done.count < 5000);
    drop_puppet(server);
    free(client);
}

static void a_lease_broken_by_a_write(void **state)
{
    (void)state;
    struct puppet *client;
    struct puppet *server = given_lease(&client);
    expect_rc(do_it(server, a_write(0, 1, 0, "x", 1)), PORT_OK); /* these bytes have left */
    assert_null(world_failure(server->world));
    expect_rc(do_it(server, a_write(0, 1, 4000, "x", 1)), PORT_OK);
    expect_failure(server, "lease broken: WRITE while bytes");
    drop_puppet(server);
    free(client);
}

static void a_lease_broken_by_a_close(void **state)
{
    (void)state;
    struct puppet *client;
    struct puppet *server = given_lease(&client);
    expect_rc(do_it(server, by_name(PORT_UNLINK, "a")), PORT_OK); /* still readable through its id */
    assert_null(world_failure(server->world));
    expect_rc(do_it(server, of_file(PORT_CLOSE_FILE, 0, 1)), PORT_OK);
    expect_failure(server, "lease broken: CLOSE_FILE while bytes");
    drop_puppet(server);
    free(client);
}

static void a_range_past_the_end_of_its_file(void **state)
{
    (void)state;
    struct puppet *server = given_puppet(1, NULL);
    struct puppet *client = add_puppet(server->world, 0);
    given_connection(server, client);
    expect_rc(do_it(server, an_open(0, 1, "a", CREATE)), PORT_OK);
    struct port_piece piece = {.kind = PORT_RANGE, .file = {.slot = 0, .generation = 1}, .size_bytes = 1};
    struct port_effect send = of_conn(PORT_SEND, 1, 1);
    send.pieces = &piece;
    send.piece_count = 1;
    expect_rc(do_it(server, send), PORT_IO);
    expect_failure(server, "a range that ends at 1 of a file of 0 bytes");
    drop_puppet(server);
    free(client);
}

static void ids_and_effects_left_over_at_the_stop(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    (void)ask(p, of_file(PORT_SYNC, 0, 1));
    assert_int_equal(world_outstanding(p->world, p->node), 1);
    assert_int_equal(world_open_ids(p->world, p->node), 1);
    world_stop(p->world, p->node);
    while (world_node_state(p->world, p->node) == WORLD_UP) { assert_true(world_step(p->world)); }
    assert_int_equal(p->stops, 1);
    expect_failure(p, "I25: stopped while SYNC token=1 was outstanding");
    assert_int_equal(world_failures(p->world), 2);
    drop_puppet(p);
}

static void a_clean_stop_leaves_nothing(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    expect_rc(do_it(p, of_file(PORT_CLOSE_FILE, 0, 1)), PORT_OK);
    world_stop(p->world, p->node);
    while (world_node_state(p->world, p->node) == WORLD_UP) { assert_true(world_step(p->world)); }
    assert_int_equal(world_node_state(p->world, p->node), WORLD_STOPPED);
    assert_null(world_failure(p->world));
    drop_puppet(p);
}

static void a_completion_too_many(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    uint64_t token = ask(p, of_file(PORT_SYNC, 0, 1));
    struct shard *shard = &p->world->nodes[0]->shards[0];
    struct op *op = BASE_ITEM(base_list_first(&shard->ops), struct op, in_shard);
    world__op_done(p->world, op, PORT_OK, 0);
    world__op_done(p->world, op, PORT_OK, 0);
    expect_failure(p, "I24: SYNC token=1 completed twice");
    (void)await(p, token);
    drop_puppet(p);
}

static void a_disk_or_shard_that_is_not_there(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    struct port_effect list = by_name(PORT_LIST, "");
    list.disk = 1;
    expect_rc(do_it(p, list), PORT_MISSING);
    expect_failure(p, "LIST on disk 1, which is not there");
    drop_puppet(p);
}

static void a_write_of_a_range(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    struct port_piece piece = {.kind = PORT_RANGE, .file = {.slot = 0, .generation = 1}, .size_bytes = 1};
    struct port_effect write = of_file(PORT_WRITE, 0, 1);
    write.pieces = &piece;
    write.piece_count = 1;
    expect_rc(do_it(p, write), PORT_OTHER);
    expect_failure(p, "WRITE of a range");
    drop_puppet(p);
}

static void what_a_checker_reports(void **state)
{
    (void)state;
    struct puppet *p = given_file();
    world_fail(p->world, p->node, "I%d: %s", 1, "an acknowledged record is gone");
    expect_failure(p, "n0: I1: an acknowledged record is gone");
    world_fail(p->world, WORLD_NONE, "another");
    expect_failure(p, "I1"); /* the first stays */
    assert_int_equal(world_failures(p->world), 2);
    drop_puppet(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_that_was_never_opened),
        cmocka_unit_test(an_id_of_another_generation),
        cmocka_unit_test(an_id_before_its_open_has_completed),
        cmocka_unit_test(a_slot_used_again_before_its_close_has_completed),
        cmocka_unit_test(a_generation_used_a_second_time),
        cmocka_unit_test(a_slot_is_free_after_its_last_event),
        cmocka_unit_test(an_effect_after_the_close_completes_before_it),
        cmocka_unit_test(a_second_close),
        cmocka_unit_test(lent_bytes_of_a_write_changed),
        cmocka_unit_test(a_lent_buffer_written_to),
        cmocka_unit_test(two_recvs_at_once),
        cmocka_unit_test(a_lease_broken_by_a_truncate),
        cmocka_unit_test(a_lease_broken_by_a_write),
        cmocka_unit_test(a_lease_broken_by_a_close),
        cmocka_unit_test(a_range_past_the_end_of_its_file),
        cmocka_unit_test(ids_and_effects_left_over_at_the_stop),
        cmocka_unit_test(a_clean_stop_leaves_nothing),
        cmocka_unit_test(a_completion_too_many),
        cmocka_unit_test(a_disk_or_shard_that_is_not_there),
        cmocka_unit_test(a_write_of_a_range),
        cmocka_unit_test(what_a_checker_reports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
