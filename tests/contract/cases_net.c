/* cases_net.c: what port.h promises of listeners and connections.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "contract.h"

#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES ((size_t)24 << 20) /* more than two socket buffers take */

static uint8_t *given_bytes(size_t size_bytes)
{
    uint8_t *bytes = malloc(size_bytes);
    CHECK(bytes != NULL);
    struct base_prng prng;
    base_prng_init(&prng, 11, 0);
    base_prng_fill(&prng, bytes, size_bytes);
    return bytes;
}

static struct port_effect a_listen(uint32_t slot, uint32_t generation, struct port_address address)
{
    return (struct port_effect){.kind = PORT_LISTEN,
                                .listener = {.slot = slot, .generation = generation},
                                .address = address};
}

static struct port_effect an_accept(struct port_listener listener, struct port_conn conn)
{
    return (struct port_effect){.kind = PORT_ACCEPT, .listener = listener, .conn = conn};
}

static struct port_effect an_unlisten(struct port_listener listener)
{
    return (struct port_effect){.kind = PORT_UNLISTEN, .listener = listener};
}

static struct port_effect a_connect(struct port_conn conn, struct port_address address)
{
    return (struct port_effect){.kind = PORT_CONNECT, .conn = conn, .address = address};
}

static struct port_conn conn_id(uint32_t slot, uint32_t generation)
{
    return (struct port_conn){.slot = slot, .generation = generation};
}

static void expect_sends(struct contract *c, struct port_conn conn, const void *bytes, size_t size_bytes)
{
    struct port_piece piece = memory(bytes, size_bytes);
    struct port_event done = do_it(c, 0, a_send(conn, &piece, 1));
    expect_rc(done, PORT_OK);
    assert_int_equal(done.done.count, size_bytes);
}

static void expect_end(struct contract *c, struct port_conn conn)
{
    uint8_t byte;
    struct port_event done = do_it(c, 0, a_recv(conn, &byte, 1));
    expect_rc(done, PORT_EOF);
    assert_int_equal(done.done.count, 0);
}

static void bytes_go_both_ways(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    expect_sends(c, pair.near, "ping", 4);
    expect_receives(c, pair.far, "ping", 4);
    expect_sends(c, pair.far, "pong!", 5);
    expect_receives(c, pair.near, "pong!", 5);
    finish(c);
}

static void an_accept_tells_the_peers_address(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    uint64_t accepted = ask(c, 0, an_accept(pair.listener, conn_id(2, 1)));
    expect_rc(do_it(c, 0, a_connect(conn_id(3, 1), pair.bound)), PORT_OK);
    struct port_event done = await(c, accepted);
    expect_rc(done, PORT_OK);
    assert_memory_equal(done.done.address.ip, contract_current()->address.ip, 16);
    assert_int_not_equal(done.done.address.port, 0);
    assert_true(port_conn_equal(done.done.conn, conn_id(2, 1)));
    finish(c);
}

static void a_connect_to_nobody_is_refused_and_frees_the_id(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    for (int i = 0; i < 3; i++) {
        expect_rc(do_it(c, 0, a_connect(conn_id(0, 1), contract_current()->refused)), PORT_REFUSED);
    }
    /* a close that crosses the failure still completes, and last */
    struct port_effect effects[] = {a_connect(conn_id(0, 2), contract_current()->refused),
                                    of_conn(PORT_CLOSE, conn_id(0, 2))};
    uint64_t tokens[2];
    ask_all(c, 0, effects, 2, tokens);
    assert_int_not_equal(await(c, tokens[0]).done.rc, PORT_OK);
    (void)await(c, tokens[1]);
    assert_true(place_of(c, tokens[0]) < place_of(c, tokens[1]));
    finish(c);
}

static void the_peers_end_is_eof_again_and_again(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    expect_sends(c, pair.near, "last", 4);
    expect_rc(do_it(c, 0, of_conn(PORT_CLOSE, pair.near)), PORT_OK);
    expect_receives(c, pair.far, "last", 4);
    expect_end(c, pair.far);
    expect_end(c, pair.far);
    expect_rc(do_it(c, 0, of_conn(PORT_CLOSE, pair.far)), PORT_OK);
    finish(c);
}

static void a_half_closed_connection_still_receives(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    struct port_piece piece = memory("before the end", 14);
    struct port_effect effects[] = {a_send(pair.near, &piece, 1), of_conn(PORT_SHUT, pair.near)};
    uint64_t tokens[2];
    ask_all(c, 0, effects, 2, tokens);
    expect_rc(await(c, tokens[0]), PORT_OK);
    expect_rc(await(c, tokens[1]), PORT_OK);
    assert_true(place_of(c, tokens[0]) < place_of(c, tokens[1]));
    expect_receives(c, pair.far, "before the end", 14);
    expect_end(c, pair.far);
    expect_sends(c, pair.far, "after it", 8);
    expect_receives(c, pair.near, "after it", 8);
    finish(c);
}

static void a_recv_of_nothing_waits_without_a_buffer(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    uint64_t idle = ask(c, 0, a_recv(pair.far, NULL, 0));
    settle(c, 0);
    assert_false(has_completed(c, idle));
    expect_sends(c, pair.near, "xyz", 3);
    struct port_event done = await(c, idle);
    expect_rc(done, PORT_OK);
    assert_int_equal(done.done.count, 0);
    expect_rc(do_it(c, 0, a_recv(pair.far, NULL, 0)), PORT_OK); /* still there */
    expect_receives(c, pair.far, "xyz", 3);
    idle = ask(c, 0, a_recv(pair.far, NULL, 0));
    settle(c, 0);
    assert_false(has_completed(c, idle));
    expect_rc(do_it(c, 0, of_conn(PORT_CLOSE, pair.near)), PORT_OK);
    expect_rc(await(c, idle), PORT_OK); /* the end is something to be read */
    expect_end(c, pair.far);
    finish(c);
}

static void a_recv_waits_until_bytes_come(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    uint8_t buffer[8];
    for (int i = 0; i < 3; i++) {
        uint64_t token = ask(c, 0, a_recv(pair.far, buffer, sizeof buffer));
        settle(c, 0);
        assert_false(has_completed(c, token));
        expect_sends(c, pair.near, "ab", 2);
        struct port_event done = await(c, token);
        expect_rc(done, PORT_OK);
        assert_true(done.done.count >= 1 && done.done.count <= 2);
        if (done.done.count == 1) { expect_receives(c, pair.far, "b", 1); }
    }
    finish(c);
}

static void closing_completes_what_is_outstanding_first(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    uint8_t *large = given_bytes(LARGE_BYTES);
    uint8_t byte;
    struct port_piece piece = memory(large, LARGE_BYTES);
    struct port_effect effects[] = {a_recv(pair.near, &byte, 1), a_send(pair.near, &piece, 1),
                                    a_send(pair.near, &piece, 1), of_conn(PORT_SHUT, pair.near)};
    uint64_t tokens[4];
    ask_all(c, 0, effects, 4, tokens);
    settle(c, 0);
    for (int i = 0; i < 4; i++) { assert_false(has_completed(c, tokens[i])); }
    uint64_t closed = ask(c, 0, of_conn(PORT_CLOSE, pair.near));
    expect_rc(await(c, closed), PORT_OK);
    for (int i = 0; i < 4; i++) {
        expect_rc(await(c, tokens[i]), PORT_CLOSED);
        assert_true(place_of(c, tokens[i]) < place_of(c, closed));
    }
    assert_true(await(c, tokens[1]).done.count < LARGE_BYTES);
    assert_int_equal(await(c, tokens[2]).done.count, 0);
    /* the id names nothing any more; the slot serves again */
    expect_rc(do_it(c, 0, a_recv(pair.near, &byte, 1)), PORT_CLOSED);
    expect_rc(do_it(c, 0, a_send(pair.near, &piece, 1)), PORT_CLOSED);
    expect_rc(do_it(c, 0, of_conn(PORT_CLOSE, pair.near)), PORT_CLOSED);
    uint64_t accepted = ask(c, 0, an_accept(pair.listener, conn_id(5, 9)));
    expect_rc(do_it(c, 0, a_connect(conn_id(pair.near.slot, 2), pair.bound)), PORT_OK);
    expect_rc(await(c, accepted), PORT_OK);
    free(large);
    finish(c);
}

static void unlistening_completes_outstanding_accepts_first(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    struct port_effect effects[] = {an_accept(pair.listener, conn_id(2, 1)), an_accept(pair.listener, conn_id(3, 1)),
                                    an_unlisten(pair.listener)};
    uint64_t tokens[3];
    ask_all(c, 0, effects, 3, tokens);
    expect_rc(await(c, tokens[2]), PORT_OK);
    for (int i = 0; i < 2; i++) {
        expect_rc(await(c, tokens[i]), PORT_CLOSED);
        assert_true(place_of(c, tokens[i]) < place_of(c, tokens[2]));
    }
    expect_rc(do_it(c, 0, an_accept(pair.listener, conn_id(2, 1))), PORT_CLOSED);
    expect_rc(do_it(c, 0, an_unlisten(pair.listener)), PORT_CLOSED);
    expect_rc(do_it(c, 0, a_connect(conn_id(4, 1), pair.bound)), PORT_REFUSED);
    expect_sends(c, pair.near, "still open", 10);
    expect_receives(c, pair.far, "still open", 10);
    struct port_event again = do_it(c, 0, a_listen(0, 2, pair.bound));
    expect_rc(again, PORT_OK);
    assert_int_equal(again.done.address.port, pair.bound.port);
    finish(c);
}

static void one_shard_cannot_listen_twice_on_one_address(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    expect_rc(do_it(c, 0, a_listen(1, 1, pair.bound)), PORT_IN_USE);
    struct port_event other = do_it(c, 0, a_listen(1, 1, contract_current()->address)); /* the failure freed the id */
    expect_rc(other, PORT_OK);
    assert_int_not_equal(other.done.address.port, pair.bound.port);
    finish(c);
}

static void shards_that_ask_for_one_address_share_it(void **state)
{
    (void)state;
    struct contract *c = given_shards(2);
    struct port_event first = do_it(c, 0, a_listen(0, 1, contract_current()->address));
    expect_rc(first, PORT_OK);
    struct port_event second = do_it(c, 1, a_listen(0, 1, contract_current()->address));
    expect_rc(second, PORT_OK);
    assert_int_equal(first.done.address.port, second.done.address.port);
    struct port_listener listener = {.slot = 0, .generation = 1};
    /* only the second shard asks for connections: all come to it */
    for (uint32_t i = 0; i < 8; i++) {
        uint64_t accepted = ask(c, 1, an_accept(listener, conn_id(i, 1)));
        expect_rc(do_it(c, 0, a_connect(conn_id(i, 1), first.done.address)), PORT_OK);
        expect_rc(await(c, accepted), PORT_OK);
    }
    /* and when the first has gone, the second still listens */
    expect_rc(do_it(c, 0, an_unlisten(listener)), PORT_OK);
    uint64_t accepted = ask(c, 1, an_accept(listener, conn_id(20, 1)));
    expect_rc(do_it(c, 0, a_connect(conn_id(20, 1), first.done.address)), PORT_OK);
    expect_rc(await(c, accepted), PORT_OK);
    finish(c);
}

static void a_send_completes_when_the_last_byte_has_left(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    uint8_t *large = given_bytes(LARGE_BYTES);
    struct port_piece pieces[] = {memory(large, 3), memory(large + 3, LARGE_BYTES - 5), memory(NULL, 0),
                                  memory(large + LARGE_BYTES - 2, 2)};
    uint64_t sent = ask(c, 0, a_send(pair.near, pieces, 4));
    settle(c, 0);
    assert_false(has_completed(c, sent)); /* the reader has stopped */
    expect_receives(c, pair.far, large, LARGE_BYTES);
    struct port_event done = await(c, sent);
    expect_rc(done, PORT_OK);
    assert_int_equal(done.done.count, LARGE_BYTES);
    free(large);
    finish(c);
}

static void sends_leave_in_the_order_they_were_asked(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    uint8_t *bytes = given_bytes(100 * 1000);
    struct port_piece pieces[100];
    struct port_effect effects[101];
    uint64_t tokens[101];
    for (uint32_t i = 0; i < 100; i++) {
        pieces[i] = memory(bytes + (size_t)i * 1000, 1000);
        effects[i] = a_send(pair.near, &pieces[i], 1);
    }
    effects[100] = a_send(pair.near, NULL, 0); /* nothing to send completes, in its place */
    ask_all(c, 0, effects, 101, tokens);
    expect_receives(c, pair.far, bytes, 100 * 1000);
    for (uint32_t i = 0; i <= 100; i++) {
        expect_rc(await(c, tokens[i]), PORT_OK);
        assert_true(i == 0 || place_of(c, tokens[i - 1]) < place_of(c, tokens[i]));
    }
    free(bytes);
    finish(c);
}

static void ranges_of_files_are_sent_between_memory(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    struct port_file file = given_file_with(c, 0, "a", "0123456789");
    struct port_piece first[] = {memory("<", 1), range(file, 2, 3), memory("|", 1), range(file, 9, 1),
                                 range(file, 0, 0)};
    struct port_piece second[] = {range(file, 0, 10), memory(">", 1)};
    struct port_effect effects[] = {a_send(pair.near, first, 5), a_send(pair.near, second, 2)};
    uint64_t tokens[2];
    ask_all(c, 0, effects, 2, tokens);
    expect_receives(c, pair.far, "<234|90123456789>", 17);
    assert_int_equal(await(c, tokens[0]).done.count, 6);
    assert_int_equal(await(c, tokens[1]).done.count, 11);
    finish(c);
}

static void a_large_range_drains_as_the_reader_reads(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    struct port_file file = given_file(c, 0, "a");
    uint8_t *large = given_bytes(LARGE_BYTES);
    struct port_piece piece = memory(large, LARGE_BYTES);
    uint64_t written = 0;
    while (written < LARGE_BYTES) {
        struct port_piece rest = memory(large + written, LARGE_BYTES - written);
        struct port_event done = do_it(c, 0, a_write(file, written, &rest, 1));
        expect_rc(done, PORT_OK);
        assert_true(done.done.count > 0);
        written += done.done.count;
    }
    piece = range(file, 0, LARGE_BYTES);
    uint64_t sent = ask(c, 0, a_send(pair.near, &piece, 1));
    settle(c, 0);
    assert_false(has_completed(c, sent));
    expect_rc(do_it(c, 0, by_name(PORT_UNLINK, "a")), PORT_OK); /* the lease is on the id, not on the name */
    expect_receives(c, pair.far, large, LARGE_BYTES);
    assert_int_equal(await(c, sent).done.count, LARGE_BYTES);
    free(large);
    finish(c);
}

static void a_range_of_another_shards_file_is_sent(void **state)
{
    (void)state;
    struct contract *c = given_shards(2);
    struct pair pair = given_pair(c);
    struct port_file file = file_id(1, 7, 3);
    expect_rc(do_it(c, 1, an_open(file, "b", PORT_OPEN_WRITE | PORT_OPEN_CREATE)), PORT_OK);
    struct port_piece piece = memory("from the other shard", 20);
    expect_rc(do_it(c, 1, a_write(file, 0, &piece, 1)), PORT_OK);
    piece = range(file, 9, 11);
    expect_rc(do_it(c, 0, a_send(pair.near, &piece, 1)), PORT_OK);
    expect_receives(c, pair.far, "other shard", 11);
    finish(c);
}

static void a_range_that_is_cut_short_fails_the_connection(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    struct port_file file = given_file_with(c, 0, "a", "0123456789");
    struct port_piece pieces[] = {memory("<", 1), range(file, 5, 6), memory("never", 5)};
    struct port_piece more = memory("nor this", 8);
    uint8_t byte;
    struct port_effect effects[] = {a_recv(pair.near, &byte, 1), a_send(pair.near, pieces, 3),
                                    a_send(pair.near, &more, 1)};
    uint64_t tokens[3];
    ask_all(c, 0, effects, 3, tokens);
    for (int i = 0; i < 3; i++) { expect_rc(await(c, tokens[i]), PORT_IO); }
    assert_true(await(c, tokens[1]).done.count <= 6);
    expect_rc(do_it(c, 0, a_send(pair.near, &more, 1)), PORT_IO);
    expect_rc(do_it(c, 0, a_recv(pair.near, &byte, 1)), PORT_IO);
    /* the peer gets a true beginning of it, then the end */
    static const char allowed[] = "<56789";
    size_t got = 0;
    for (;;) {
        struct port_event done = do_it(c, 0, a_recv(pair.far, &byte, 1));
        if (done.done.rc != PORT_OK) {
            assert_true(done.done.rc == PORT_EOF || done.done.rc == PORT_RESET);
            break;
        }
        assert_true(got < 6 && byte == (uint8_t)allowed[got]);
        got += 1;
    }
    expect_rc(do_it(c, 0, of_conn(PORT_CLOSE, pair.near)), PORT_OK);
    finish(c);
}

static void sends_to_a_peer_that_has_gone_fail_at_last(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    expect_rc(do_it(c, 0, of_conn(PORT_CLOSE, pair.far)), PORT_OK);
    struct port_piece piece = memory("hello", 5);
    struct port_event done;
    for (int tries = 0; tries < 1000; tries++) {
        done = do_it(c, 0, a_send(pair.near, &piece, 1));
        if (done.done.rc != PORT_OK) { break; }
    }
    expect_rc(done, PORT_RESET);
    expect_rc(do_it(c, 0, of_conn(PORT_CLOSE, pair.near)), PORT_OK);
    finish(c);
}

static void literals_and_names_are_resolved(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct port_effect resolve = {.kind = PORT_RESOLVE, .path = base_slice_text("192.0.2.7")};
    struct port_event done = do_it(c, 0, resolve);
    expect_rc(done, PORT_OK);
    static const uint8_t expected[16] = {[10] = 0xff, 0xff, 192, 0, 2, 7};
    assert_memory_equal(done.done.address.ip, expected, 16);
    assert_int_equal(done.done.address.port, 0);
    resolve.path = base_slice_text("2001:db8::5");
    done = do_it(c, 0, resolve);
    expect_rc(done, PORT_OK);
    assert_int_equal(done.done.address.ip[15], 5);
    resolve.path = base_slice_text("");
    assert_int_not_equal(do_it(c, 0, resolve).done.rc, PORT_OK);
    finish(c);
}

static void connections_made_before_the_accept_wait_for_it(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    for (uint32_t i = 0; i < 4; i++) { expect_rc(do_it(c, 0, a_connect(conn_id(10 + i, 1), pair.bound)), PORT_OK); }
    for (uint32_t i = 0; i < 4; i++) { expect_rc(do_it(c, 0, an_accept(pair.listener, conn_id(20 + i, 1))), PORT_OK); }
    expect_sends(c, conn_id(10, 1), "a", 1);
    expect_receives(c, conn_id(20, 1), "a", 1);
    finish(c);
}

static void what_is_closed_with_bytes_unread_resets_its_peer(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    expect_sends(c, pair.near, "never read", 10);
    expect_rc(do_it(c, 0, a_recv(pair.far, NULL, 0)), PORT_OK); /* it is there */
    expect_rc(do_it(c, 0, of_conn(PORT_CLOSE, pair.far)), PORT_OK);
    uint8_t byte;
    expect_rc(do_it(c, 0, a_recv(pair.near, &byte, 1)), PORT_RESET);
    expect_rc(do_it(c, 0, of_conn(PORT_CLOSE, pair.near)), PORT_OK);
    finish(c);
}

static void a_connection_that_nobody_accepted_is_reset_when_its_listener_goes(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    struct port_conn waiting = conn_id(5, 1);
    expect_rc(do_it(c, 0, a_connect(waiting, pair.bound)), PORT_OK);
    uint8_t byte;
    uint64_t token = ask(c, 0, a_recv(waiting, &byte, 1));
    settle(c, 0);
    assert_false(has_completed(c, token));
    expect_rc(do_it(c, 0, an_unlisten(pair.listener)), PORT_OK);
    expect_rc(await(c, token), PORT_RESET);
    finish(c);
}

static void where_no_way_leads_is_unreachable(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    for (int i = 0; i < 2; i++) { /* the failure freed the id */
        expect_rc(do_it(c, 0, a_connect(conn_id(0, 1), contract_current()->nowhere)), PORT_UNREACHABLE);
        expect_rc(do_it(c, 0, a_listen(0, 1, contract_current()->foreign)), PORT_UNREACHABLE);
    }
    finish(c);
}

const struct CMUnitTest contract_net_cases[] = {
    cmocka_unit_test(bytes_go_both_ways),
    cmocka_unit_test(an_accept_tells_the_peers_address),
    cmocka_unit_test(a_connect_to_nobody_is_refused_and_frees_the_id),
    cmocka_unit_test(the_peers_end_is_eof_again_and_again),
    cmocka_unit_test(a_half_closed_connection_still_receives),
    cmocka_unit_test(a_recv_of_nothing_waits_without_a_buffer),
    cmocka_unit_test(a_recv_waits_until_bytes_come),
    cmocka_unit_test(closing_completes_what_is_outstanding_first),
    cmocka_unit_test(unlistening_completes_outstanding_accepts_first),
    cmocka_unit_test(one_shard_cannot_listen_twice_on_one_address),
    cmocka_unit_test(shards_that_ask_for_one_address_share_it),
    cmocka_unit_test(a_send_completes_when_the_last_byte_has_left),
    cmocka_unit_test(sends_leave_in_the_order_they_were_asked),
    cmocka_unit_test(ranges_of_files_are_sent_between_memory),
    cmocka_unit_test(a_large_range_drains_as_the_reader_reads),
    cmocka_unit_test(a_range_of_another_shards_file_is_sent),
    cmocka_unit_test(a_range_that_is_cut_short_fails_the_connection),
    cmocka_unit_test(sends_to_a_peer_that_has_gone_fail_at_last),
    cmocka_unit_test(literals_and_names_are_resolved),
    cmocka_unit_test(connections_made_before_the_accept_wait_for_it),
    cmocka_unit_test(what_is_closed_with_bytes_unread_resets_its_peer),
    cmocka_unit_test(a_connection_that_nobody_accepted_is_reset_when_its_listener_goes),
    cmocka_unit_test(where_no_way_leads_is_unreachable),
};
const size_t contract_net_case_count = BASE_ARRAY_COUNT(contract_net_cases);
