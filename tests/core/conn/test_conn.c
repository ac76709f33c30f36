/* test_conn.c: frames in, answers out, limits, life and death of connections.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "conn__room.h"
#include "fake.h"

#define MIB ((size_t)1 << 20)
#define MS  ((uint64_t)1000 * 1000)

static struct fake *given_listening(const struct conn_config *config)
{
    struct fake *fake = given_fake(config, 4 * MIB);
    fake_listen(fake);
    return fake;
}

static struct fake *given_usual(void)
{
    struct conn_config config = usual_config();
    return given_listening(&config);
}

static const struct conn_out *request_number(const struct fake *fake, uint32_t number)
{
    return fake_out(fake, CONN_OUT_REQUEST, number);
}

static void expect_request(const struct fake *fake, uint32_t number, const char *words)
{
    const struct conn_out *out = request_number(fake, number);
    assert_int_equal(out->frame_bytes, strlen(words));
    assert_memory_equal(out->frame, words, strlen(words));
}

static void expect_heard(const struct fake *fake, uint32_t peer, const char *frames[], uint32_t count)
{
    const uint8_t *at = fake->peers[peer].heard;
    const uint8_t *end = at + fake->peers[peer].heard_bytes;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(end - at >= 4);
        uint32_t bytes = base_get_u32(at);
        assert_int_equal(bytes, strlen(frames[i]));
        assert_true((size_t)(end - at) >= 4 + bytes);
        assert_memory_equal(at + 4, frames[i], bytes);
        at += 4 + bytes;
    }
    assert_ptr_equal(at, end);
}

static void a_listener_says_where_it_is_bound(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    const struct conn_out *out = fake_out(fake, CONN_OUT_LISTENING, 0);
    assert_int_equal(out->rc, PORT_OK);
    assert_int_equal(out->listener, 0);
    fake_end(fake);
}

static void an_idle_connection_holds_no_block_and_few_bytes(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    (void)fake_dial(fake);
    fake_run(fake);
    struct conn_view view;
    conn_view(fake->conns, &view);
    assert_int_equal(view.connections, 1);
    assert_int_equal(view.blocks, 0);
    assert_int_equal(base_pages_block_count(fake->pages), 0);
    assert_true(conn_is_quiet(fake->conns));
    assert_true(sizeof(struct conn__conn) + 16 + 8 <= 350);
    fake_end(fake);
}

static void a_request_is_answered(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    peer_sends_frame(fake, peer, "hello");
    fake_run(fake);
    expect_request(fake, 0, "hello");
    assert_int_equal(request_number(fake, 0)->address.port, 555);
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    const char *heard[] = {"=hello"};
    expect_heard(fake, peer, heard, 1);
    assert_int_equal(fake_count(fake, CONN_OUT_SENT), 1);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

/* The whole stream in receives of every size: the same frames. */
static void frames_cut_at_any_byte_are_the_same_frames(void **state)
{
    (void)state;
    static char big[6000];
    memset(big, 'b', sizeof big - 1);
    const char *frames[] = {"a", "second one", big, "x", "yy", "the end"};
    for (size_t chunk = 1; chunk < 9000; chunk = chunk < 40 ? chunk + 1 : chunk * 3 / 2) {
        struct fake *fake = given_usual();
        fake->chunk_bytes = chunk;
        uint32_t peer = fake_dial(fake);
        for (size_t i = 0; i < 6; i++) { peer_sends_frame(fake, peer, frames[i]); }
        fake_run(fake);
        assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 6);
        for (uint32_t i = 0; i < 6; i++) { expect_request(fake, i, frames[i]); }
        for (uint32_t i = 0; i < 6; i++) { fake_echo(fake, request_number(fake, i)); }
        fake_run(fake);
        assert_true(conn_is_quiet(fake->conns));
        assert_int_equal(base_pages_block_count(fake->pages), 0);
        fake_end(fake);
    }
}

/* One cut at each byte of three frames. */
static void frames_in_two_pieces_are_the_same_frames(void **state)
{
    (void)state;
    const char *frames[] = {"one", "twelve bytes", "3"};
    uint8_t bytes[64];
    size_t size = 0;
    for (size_t i = 0; i < 3; i++) {
        base_put_u32(bytes + size, (uint32_t)strlen(frames[i]));
        memcpy(bytes + size + 4, frames[i], strlen(frames[i]));
        size += 4 + strlen(frames[i]);
    }
    for (size_t cut = 1; cut < size; cut++) {
        struct fake *fake = given_usual();
        uint32_t peer = fake_dial(fake);
        peer_sends(fake, peer, bytes, cut);
        fake_run(fake);
        peer_sends(fake, peer, bytes + cut, size - cut);
        fake_run(fake);
        assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 3);
        for (uint32_t i = 0; i < 3; i++) { expect_request(fake, i, frames[i]); }
        fake_end(fake);
    }
}

static void pipelined_frames_share_one_block(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    for (int i = 0; i < 5; i++) { peer_sends_frame(fake, peer, "small"); }
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 5);
    assert_int_equal(base_pages_block_count(fake->pages), 1);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(base_pages_block_count(fake->pages), 1);
        fake_echo(fake, request_number(fake, i));
    }
    assert_int_equal(base_pages_block_count(fake->pages), 0);
    fake_end(fake);
}

static void a_parked_request_holds_only_the_pages_it_fills(void **state)
{
    (void)state;
    struct conn_config config = usual_config();
    config.block_bytes = 16384;
    struct fake *fake = given_listening(&config);
    uint32_t peer = fake_dial(fake);
    peer_sends_frame(fake, peer, "a long poll");
    fake_run(fake);
    assert_int_equal(base_pages_used_bytes(fake->pages), 4096);
    fake_end(fake);
}

/* The page of the one before it was given back, and is kept. */
static void a_frame_that_came_alone_is_whole_where_it_moved_to(void **state)
{
    (void)state;
    struct conn_config config = usual_config();
    config.block_bytes = 16384;
    struct fake *fake = given_listening(&config);
    uint32_t peer = fake_dial(fake);
    peer_sends_frame(fake, peer, "the first");
    fake_run(fake);
    uintptr_t place = (uintptr_t)request_number(fake, 0)->frame;
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    peer_sends_frame(fake, peer, "the second, received elsewhere");
    fake_run(fake);
    expect_request(fake, 1, "the second, received elsewhere");
    assert_int_equal((uintptr_t)request_number(fake, 1)->frame, place);
    assert_int_equal(base_pages_used_bytes(fake->pages), 4096);
    fake_echo(fake, request_number(fake, 1));
    assert_int_equal(base_pages_block_count(fake->pages), 0);
    fake_end(fake);
}

static void a_large_frame_is_received_into_a_block_of_its_size(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    static char large[12001];
    memset(large, 'L', 12000);
    peer_sends_frame(fake, peer, large);
    fake_run(fake);
    expect_request(fake, 0, large);
    assert_int_equal(fake->peers[peer].recv_bytes_most, 12004 - 4080); /* the rest, at once and no further */
    assert_int_equal(base_pages_used_bytes(fake->pages), 12288);
    fake_end(fake);
}

static void a_claimed_length_gets_memory_only_as_its_bytes_come(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    static uint8_t bytes[90004];
    memset(bytes, 'z', sizeof bytes);
    base_put_u32(bytes, 90000);
    peer_sends(fake, peer, bytes, 10);
    fake_run(fake);
    assert_true(base_pages_used_bytes(fake->pages) <= 16384 + 4096);
    for (size_t sent = 10; sent < sizeof bytes; sent += 2222) {
        size_t more = sizeof bytes - sent < 2222 ? sizeof bytes - sent : 2222;
        peer_sends(fake, peer, bytes + sent, more);
        fake_run(fake);
        size_t limit = 2 * (sent + more) + 8192;
        assert_true(base_pages_used_bytes(fake->pages) <= (limit < 20480 ? 20480 : limit));
    }
    const struct conn_out *out = request_number(fake, 0);
    assert_int_equal(out->frame_bytes, 90000);
    assert_memory_equal(out->frame, bytes + 4, 90000);
    fake_end(fake);
}

static void a_lied_length_closes_the_connection_with_one_line(void **state)
{
    (void)state;
    const uint32_t lengths[] = {0, 100001, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffc};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(lengths); i++) {
        struct fake *fake = given_usual();
        uint32_t peer = fake_dial(fake);
        peer_sends_frame(fake, peer, "good");
        uint8_t head[8] = {0};
        base_put_u32(head, lengths[i]);
        peer_sends(fake, peer, head, sizeof head);
        fake_run(fake);
        expect_request(fake, 0, "good");
        assert_true(fake->peers[peer].is_closed);
        assert_int_equal(fake_count(fake, CONN_OUT_GONE), 1);
        assert_non_null(strstr(fake->log, "connection from 10.0.0.0 port 555 closed: it sent a"));
        assert_ptr_equal(strchr(fake->log, '\n'), fake->log + strlen(fake->log) - 1);
        conn_answer_none(fake->conns, request_number(fake, 0)->request, &fake->out);
        conn_release_frame(fake->conns, request_number(fake, 0)->request);
        fake_run(fake);
        assert_true(conn_is_quiet(fake->conns));
        fake_end(fake);
    }
    struct fake *fake = given_usual(); /* the longest that is allowed */
    uint32_t peer = fake_dial(fake);
    static uint8_t bytes[100004];
    base_put_u32(bytes, 100000);
    peer_sends(fake, peer, bytes, sizeof bytes);
    fake_run(fake);
    assert_int_equal(request_number(fake, 0)->frame_bytes, 100000);
    fake_end(fake);
}

static const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static void answers_leave_in_the_order_of_requests_however_they_are_given(void **state)
{
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        for (int is_turn_between = 0; is_turn_between < 2; is_turn_between++) {
            struct fake *fake = given_usual();
            uint32_t peer = fake_dial(fake);
            peer_sends_frame(fake, peer, "a");
            peer_sends_frame(fake, peer, "b");
            peer_sends_frame(fake, peer, "c");
            fake_run(fake);
            for (size_t j = 0; j < 3; j++) {
                fake_echo(fake, request_number(fake, orders[i][j]));
                if (is_turn_between) { fake_run(fake); }
            }
            fake_run(fake);
            const char *heard[] = {"=a", "=b", "=c"};
            expect_heard(fake, peer, heard, 3);
            if (!is_turn_between) { assert_int_equal(fake->peers[peer].sends, 1); }
            assert_int_equal(fake_count(fake, CONN_OUT_SENT), 3);
            assert_true(conn_is_quiet(fake->conns));
            fake_end(fake);
        }
    }
}

/* Each of four requests answered with bytes or with nothing, in both orders. */
static void empty_answers_keep_their_place_and_leave_nothing(void **state)
{
    (void)state;
    const char *words[] = {"a", "b", "c", "d"};
    const char *echoes[] = {"=a", "=b", "=c", "=d"};
    for (uint32_t pattern = 0; pattern < 16; pattern++) {
        for (int is_backwards = 0; is_backwards < 2; is_backwards++) {
            struct fake *fake = given_usual();
            uint32_t peer = fake_dial(fake);
            for (size_t i = 0; i < 4; i++) { peer_sends_frame(fake, peer, words[i]); }
            fake_run(fake);
            const char *heard[4];
            uint32_t heard_count = 0;
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t number = is_backwards ? 3 - i : i;
                const struct conn_out *request = request_number(fake, number);
                if ((pattern >> number & 1) != 0) {
                    fake_echo(fake, request);
                } else {
                    conn_answer_none(fake->conns, request->request, &fake->out);
                    conn_release_frame(fake->conns, request->request);
                }
                if ((pattern >> i & 1) != 0) { heard[heard_count++] = echoes[i]; }
            }
            fake_run(fake);
            expect_heard(fake, peer, heard, heard_count);
            assert_int_equal(fake_count(fake, CONN_OUT_SENT), heard_count);
            assert_true(conn_is_quiet(fake->conns));
            fake_end(fake);
        }
    }
}

static void a_frame_may_be_held_after_its_answer_has_left(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    peer_sends_frame(fake, peer, "acks=1");
    fake_run(fake);
    const struct conn_out request = *request_number(fake, 0);
    static const uint8_t answer[] = {0, 0, 0, 1, '!'};
    struct port_piece piece = {.kind = PORT_MEMORY, .at = answer, .size_bytes = sizeof answer};
    assert_int_equal(conn_answer(fake->conns, request.request, &piece, 1, 77, &fake->out), BASE_OK);
    fake_run(fake);
    assert_int_equal(fake_out(fake, CONN_OUT_SENT, 0)->cookie, 77);
    expect_request(fake, 0, "acks=1");
    assert_false(conn_is_quiet(fake->conns));
    conn_release_frame(fake->conns, request.request);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void an_answer_of_many_pieces_leaves_whole(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    peer_sends_frame(fake, peer, "a");
    peer_sends_frame(fake, peer, "b");
    fake_run(fake);
    static uint8_t bytes[2][304];
    for (uint32_t i = 0; i < 2; i++) {
        memset(bytes[i], 'a' + (int)i, 304);
        base_put_u32(bytes[i], 300);
        struct port_piece pieces[304];
        for (uint32_t j = 0; j < 304; j++) {
            pieces[j] = (struct port_piece){.kind = PORT_MEMORY, .at = &bytes[i][j], .size_bytes = 1};
        }
        assert_int_equal(conn_answer(fake->conns, request_number(fake, i)->request, pieces, 304, i, &fake->out),
                         BASE_OK);
        memset(pieces, 0, sizeof pieces); /* the array was copied */
        conn_release_frame(fake->conns, request_number(fake, i)->request);
    }
    fake_run(fake);
    assert_int_equal(fake->peers[peer].heard_bytes, 608);
    assert_memory_equal(fake->peers[peer].heard, bytes[0], 304);
    assert_memory_equal(fake->peers[peer].heard + 304, bytes[1], 304);
    assert_true(conn_is_quiet(fake->conns));
    assert_int_equal(base_pages_block_count(fake->pages), 0);
    fake_end(fake);
}

static void too_many_in_flight_stop_the_receiving_until_answers_leave(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    for (int i = 0; i < 30; i++) { peer_sends_frame(fake, peer, "more"); }
    fake_run(fake);
    for (uint32_t answered = 0; answered < 30; answered++) {
        uint32_t expected = answered + 8 < 30 ? answered + 8 : 30;
        assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), expected);
        fake_echo(fake, request_number(fake, answered));
        fake_run(fake);
    }
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void nothing_is_cut_behind_a_request_that_holds_its_connection(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    fake->holds_below = 'i';
    uint32_t peer = fake_dial(fake);
    uint32_t other = fake_dial(fake);
    peer_sends_frame(fake, peer, "sooner");
    peer_sends_frame(fake, peer, "hold");
    peer_sends_frame(fake, peer, "more");
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 2);
    peer_sends_frame(fake, peer, "yet more");
    peer_sends_frame(fake, other, "other");
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 3);
    fake_echo(fake, request_number(fake, 1)); /* the one before it has no answer yet: that does not matter */
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 5);
    const uint32_t others[] = {0, 2, 3, 4};
    for (uint32_t i = 0; i < 4; i++) { fake_echo(fake, request_number(fake, others[i])); }
    fake_run(fake);
    const char *heard[] = {"=sooner", "=hold", "=more", "=yet more"};
    expect_heard(fake, peer, heard, 4);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static uint32_t given_a_held_connection(struct fake *fake, uint32_t but, const char *words)
{
    fake->holds_below = 'i';
    fake->holds_but = but;
    uint32_t peer = fake_dial(fake);
    peer_sends_frame(fake, peer, words);
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 1);
    return peer;
}

/* However its bytes come, and those of what waits behind it. */
static void what_begins_as_a_hold_allows_is_cut_and_nothing_behind_another(void **state)
{
    (void)state;
    for (size_t chunk_bytes = 1; chunk_bytes <= 30; chunk_bytes++) {
        struct fake *fake = given_usual();
        fake->chunk_bytes = chunk_bytes;
        uint32_t peer = given_a_held_connection(fake, 'a' << 8 | 'b', "ab1");
        const char *frames[] = {"ab2", "ab", "ac3", "ab4"};
        for (uint32_t i = 0; i < 4; i++) { peer_sends_frame(fake, peer, frames[i]); }
        fake_run(fake);
        assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 3);
        fake_echo(fake, request_number(fake, 2));
        fake_echo(fake, request_number(fake, 0));
        fake_run(fake);
        assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 3);
        fake_echo(fake, request_number(fake, 1));
        fake_run(fake);
        expect_request(fake, 3, "ac3");
        fake_echo(fake, request_number(fake, 3));
        fake_run(fake);
        expect_request(fake, 4, "ab4");
        fake_echo(fake, request_number(fake, 4));
        fake_run(fake);
        const char *heard[] = {"=ab1", "=ab2", "=ab", "=ac3", "=ab4"};
        expect_heard(fake, peer, heard, 5);
        assert_true(conn_is_quiet(fake->conns));
        fake_end(fake);
    }
}

static void what_one_hold_allows_waits_for_another_that_allows_nothing(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = given_a_held_connection(fake, 'a' << 8 | 'b', "ab1");
    fake->holds_but = CONN_BUT_NOTHING;
    peer_sends_frame(fake, peer, "ab2");
    peer_sends_frame(fake, peer, "ab3");
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 2);
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 2);
    fake_echo(fake, request_number(fake, 1));
    fake_run(fake);
    expect_request(fake, 2, "ab3");
    fake_echo(fake, request_number(fake, 2));
    fake_run(fake);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

/* There is one more each time an answer leaves, though the others hold the connection still. */
static void as_many_as_may_be_in_flight_are_cut_though_they_hold_their_connection(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = given_a_held_connection(fake, 'a' << 8 | 'b', "ab");
    for (uint32_t i = 1; i < 20; i++) { peer_sends_frame(fake, peer, "ab"); }
    fake_run(fake);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), i + 8 < 20 ? i + 8 : 20);
        fake_echo(fake, request_number(fake, i));
        fake_run(fake);
    }
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void who_is_gone_while_its_connection_is_held_is_seen_to_be(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = given_a_held_connection(fake, CONN_BUT_NOTHING, "hold");
    fake->peers[peer].is_reset = true;
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_GONE), 1);
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void who_sends_no_more_while_its_connection_is_held_has_its_answer_first(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = given_a_held_connection(fake, CONN_BUT_NOTHING, "hold");
    fake->peers[peer].is_ended = true;
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_ENDED), 1);
    assert_false(fake->peers[peer].is_closed);
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    const char *heard[] = {"=hold"};
    expect_heard(fake, peer, heard, 1);
    assert_true(fake->peers[peer].is_closed);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

/* What is received to see the end is kept, one byte of a frame as a whole one. */
static void what_comes_while_a_connection_is_held_is_kept(void **state)
{
    (void)state;
    for (size_t first_bytes = 1; first_bytes <= 8; first_bytes++) {
        struct fake *fake = given_usual();
        uint32_t peer = given_a_held_connection(fake, CONN_BUT_NOTHING, "hold");
        const char more[] = "\0\0\0\4more";
        peer_sends(fake, peer, more, first_bytes);
        fake_run(fake);
        peer_sends(fake, peer, more + first_bytes, 8 - first_bytes);
        fake_run(fake);
        assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 1);
        assert_int_equal(fake->peers[peer].taken_bytes, 8 + first_bytes);
        fake_echo(fake, request_number(fake, 0));
        fake_run(fake);
        expect_request(fake, 1, "more");
        fake_echo(fake, request_number(fake, 1));
        fake_run(fake);
        assert_true(conn_is_quiet(fake->conns));
        fake_end(fake);
    }
}

static void a_peer_that_does_not_read_is_bounded_and_then_closed(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    fake->peers[peer].is_deaf = true;
    for (int i = 0; i < 30; i++) { peer_sends_frame(fake, peer, "more"); }
    fake_run(fake);
    for (uint32_t i = 0; i < 8; i++) { fake_echo(fake, request_number(fake, i)); }
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 8);
    assert_int_equal(fake_count(fake, CONN_OUT_SENT), 0);
    fake_alarm(fake, 2000 * MS);
    assert_true(fake->peers[peer].is_closed);
    assert_int_equal(fake_count(fake, CONN_OUT_SENT), 8);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void request_slots_that_come_back_are_shared_fairly(void **state)
{
    (void)state;
    struct conn_config config = usual_config();
    config.requests_max = 3;
    struct fake *fake = given_listening(&config);
    for (uint32_t peer = 0; peer < 6; peer++) {
        (void)fake_dial(fake);
        for (int i = 0; i < 5; i++) { peer_sends_frame(fake, peer, "x"); }
    }
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 3);
    uint32_t served[6] = {0};
    for (uint32_t i = 0; i < 30; i++) {
        const struct conn_out *request = request_number(fake, i);
        served[request->conn_index] += 1;
        uint32_t least = UINT32_MAX;
        uint32_t most = 0;
        for (size_t j = 0; j < 6; j++) {
            if (served[j] < least) { least = served[j]; }
            if (served[j] > most) { most = served[j]; }
        }
        assert_true(most - least <= 4); /* the first to come took all three and stood in line first */
        fake_echo(fake, request);
        fake_run(fake);
    }
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 30);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static uint32_t take_all_pages(struct fake *fake, void *taken[])
{
    uint32_t count = 0;
    for (void *block; (block = base_pages_take(fake->pages, BASE_CLIENTS, 4096)) != NULL;) { taken[count++] = block; }
    return count;
}

static void without_pages_receiving_waits_and_goes_on_when_they_return(void **state)
{
    (void)state;
    static void *taken[2000];
    struct fake *fake = given_usual();
    for (uint32_t i = 0; i < 5; i++) { (void)fake_dial(fake); }
    fake_run(fake);
    uint32_t count = take_all_pages(fake, taken);
    for (uint32_t i = 0; i < 5; i++) { peer_sends_frame(fake, i, "x"); }
    fake_run(fake);
    struct conn_view view;
    conn_view(fake->conns, &view);
    assert_int_equal(view.waiting_for_pages, 5);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 0);
    for (uint32_t i = 0; i < 5; i++) { /* one page at a time serves one connection at a time, in order */
        base_pages_give(fake->pages, taken[--count]);
        fake_run(fake);
        assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), i + 1);
        assert_int_equal(request_number(fake, i)->conn_index, i);
    }
    for (uint32_t i = 0; i < 5; i++) { fake_echo(fake, request_number(fake, i)); }
    fake_run(fake);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void answers_leave_one_by_one_when_there_is_no_page_to_gather_them(void **state)
{
    (void)state;
    static void *taken[2000];
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    for (int i = 0; i < 4; i++) { peer_sends_frame(fake, peer, "x"); }
    fake_run(fake);
    (void)take_all_pages(fake, taken);
    struct port_piece many[CONN_PIECES_INLINE + 1] = {
        {.kind = PORT_MEMORY, .at = (const uint8_t *)"", .size_bytes = 1}};
    assert_int_equal(conn_answer(fake->conns, request_number(fake, 0)->request, many, BASE_ARRAY_COUNT(many), 9,
                                 &fake->out),
                     BASE_FULL);
    static uint8_t answer[] = {0, 0, 0, 1, '!'};
    struct port_piece two[2] = {{.kind = PORT_MEMORY, .at = answer, .size_bytes = 4},
                                {.kind = PORT_MEMORY, .at = answer + 4, .size_bytes = 1}};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(conn_answer(fake->conns, request_number(fake, i)->request, two, 2, 9, &fake->out), BASE_OK);
    }
    fake_run(fake);
    const char *heard[] = {"!", "!", "!", "!"};
    expect_heard(fake, peer, heard, 4);
    assert_int_equal(fake->peers[peer].sends, 4);
    for (uint32_t i = 0; i < 4; i++) { conn_release_frame(fake->conns, request_number(fake, i)->request); }
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void a_connection_that_waits_too_long_for_pages_is_closed(void **state)
{
    (void)state;
    static void *taken[2000];
    struct conn_config config = usual_config();
    config.idle_ms = 0;
    struct fake *fake = given_listening(&config);
    uint32_t peer = fake_dial(fake);
    fake_run(fake);
    (void)take_all_pages(fake, taken);
    peer_sends_frame(fake, peer, "x");
    fake_run(fake);
    assert_int_equal(conn_next_alarm_ns(fake->conns), 1 + 30000 * MS);
    fake_alarm(fake, 1 + 30000 * MS);
    assert_true(fake->peers[peer].is_closed);
    fake_end(fake);
}

static uint64_t queued_bytes(const struct fake *fake)
{
    struct conn_view view;
    conn_view(fake->conns, &view);
    return view.queued_bytes;
}

static void frames_queue_up_to_the_limit_and_the_next_wait_in_turn(void **state)
{
    (void)state;
    struct conn_config config = usual_config();
    config.queued_bytes_max = 8;
    struct fake *fake = given_listening(&config);
    uint32_t peers[4];
    for (uint32_t i = 0; i < 4; i++) { peers[i] = fake_dial(fake); }
    peer_sends_frame(fake, peers[0], "first");
    fake_run(fake);
    peer_sends_frame(fake, peers[1], "second, which is let in whole");
    fake_run(fake);
    assert_int_equal(queued_bytes(fake), 5 + 29);
    peer_sends_frame(fake, peers[2], "third");
    fake_run(fake);
    peer_sends_frame(fake, peers[3], "fourth");
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 2);
    fake_echo(fake, request_number(fake, 0)); /* 29 bytes are still more than 8 */
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 2);
    fake_echo(fake, request_number(fake, 1));
    fake_run(fake);
    expect_request(fake, 2, "third");
    expect_request(fake, 3, "fourth");
    fake_echo(fake, request_number(fake, 2));
    fake_echo(fake, request_number(fake, 3));
    fake_run(fake);
    assert_int_equal(queued_bytes(fake), 0);
    fake_end(fake);
}

static void a_frame_that_never_ends_counts_until_its_connection_is_gone(void **state)
{
    (void)state;
    struct conn_config config = usual_config();
    config.queued_bytes_max = 8;
    config.idle_ms = 0;
    struct fake *fake = given_listening(&config);
    uint32_t half = fake_dial(fake);
    uint32_t other = fake_dial(fake);
    peer_sends(fake, half, "\0\0\x80\0x", 5);
    fake_run(fake);
    assert_int_equal(queued_bytes(fake), 0x8000);
    peer_sends_frame(fake, other, "patience");
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_REQUEST), 0);
    fake->peers[half].is_reset = true;
    fake_run(fake);
    expect_request(fake, 0, "patience");
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    assert_int_equal(queued_bytes(fake), 0);
    fake_end(fake);
}

/* Who sends half a frame and falls silent holds memory only for as long as nobody else needs it. */
static void silent_halves_of_frames_make_room_for_whole_ones(void **state)
{
    (void)state;
    struct conn_config config = usual_config();
    config.idle_ms = 0;
    config.queued_bytes_max = 8;
    struct fake *fake = given_listening(&config);
    uint32_t silent = fake_dial(fake);
    peer_sends(fake, silent, "\0\0\0\x20 half of it", 15);
    fake_run(fake);
    assert_int_equal(conn_next_alarm_ns(fake->conns), UINT64_MAX); /* nobody waits */
    fake->now_ns = 600 * MS;
    uint32_t other = fake_dial(fake);
    peer_sends_frame(fake, other, "needs room");
    fake_run(fake);
    assert_int_equal(conn_next_alarm_ns(fake->conns), 1 + 1000 * MS);
    fake_alarm(fake, 1000 * MS);
    assert_false(fake->peers[silent].is_closed);
    fake_alarm(fake, 1001 * MS);
    assert_true(fake->peers[silent].is_closed);
    expect_request(fake, 0, "needs room");
    fake_end(fake);
}

static void who_goes_on_with_a_frame_is_not_closed_for_others(void **state)
{
    (void)state;
    struct conn_config config = usual_config();
    config.idle_ms = 0;
    config.queued_bytes_max = 5;
    struct fake *fake = given_listening(&config);
    uint32_t slow = fake_dial(fake);
    uint32_t other = fake_dial(fake);
    peer_sends(fake, slow, "\0\0\0\x05", 4);
    fake_run(fake);
    peer_sends_frame(fake, other, "is patient");
    fake_run(fake);
    for (uint64_t i = 1; i <= 4; i++) {
        fake->now_ns = i * 900 * MS;
        peer_sends(fake, slow, ".", 1);
        fake_run(fake);
        fake_alarm(fake, i * 900 * MS + 50 * MS);
        assert_false(fake->peers[slow].is_closed);
    }
    peer_sends(fake, slow, "!", 1);
    fake_run(fake);
    expect_request(fake, 0, "....!");
    fake_end(fake);
}

static void an_opened_connection_is_told_before_anything_else_of_it(void **state)
{
    (void)state;
    struct conn_config config = usual_config();
    config.tells_opened = true;
    struct fake *fake = given_listening(&config);
    uint32_t peer = fake_dial(fake);
    fake->is_busy = true;
    fake_run(fake);
    fake->peers[peer].is_reset = true;
    fake_run(fake);
    fake->is_busy = false;
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_OPENED), 1);
    assert_int_equal(fake_count(fake, CONN_OUT_GONE), 1);
    const struct conn_out *opened = fake_out(fake, CONN_OUT_OPENED, 0);
    const struct conn_out *gone = fake_out(fake, CONN_OUT_GONE, 0);
    assert_true(opened < gone);
    assert_int_equal(opened->conn.slot, gone->conn.slot);
    assert_int_equal(opened->conn.generation, gone->conn.generation);
    assert_memory_equal(opened->address.ip, gone->address.ip, 16);
    fake_end(fake);
}

static void idle_connections_are_closed_and_busy_ones_are_not(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t idle = fake_dial(fake);
    uint32_t waiting = fake_dial(fake);
    uint32_t talking = fake_dial(fake);
    peer_sends_frame(fake, waiting, "long poll");
    fake_run(fake);
    assert_int_equal(conn_next_alarm_ns(fake->conns), 1 + 1000 * MS);
    fake->now_ns = 900 * MS;
    peer_sends_frame(fake, talking, "hello");
    fake_run(fake);
    fake_echo(fake, request_number(fake, 1));
    fake_run(fake);
    fake_alarm(fake, 1 + 1000 * MS);
    assert_true(fake->peers[idle].is_closed);
    assert_false(fake->peers[waiting].is_closed);
    assert_false(fake->peers[talking].is_closed);
    assert_int_equal(conn_next_alarm_ns(fake->conns), 1900 * MS);
    fake_alarm(fake, 1900 * MS);
    assert_true(fake->peers[talking].is_closed);
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    fake_alarm(fake, 2900 * MS);
    assert_true(fake->peers[waiting].is_closed);
    assert_int_equal(conn_next_alarm_ns(fake->conns), UINT64_MAX);
    fake_end(fake);
}

static void a_peer_that_breaks_off_leaves_its_requests_to_be_answered_in_vain(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    for (int i = 0; i < 4; i++) { peer_sends_frame(fake, peer, "x"); }
    fake_run(fake);
    fake_echo(fake, request_number(fake, 1)); /* ready, behind one that is not */
    conn_answer_none(fake->conns, request_number(fake, 2)->request, &fake->out);
    fake->peers[peer].is_reset = true;
    fake_run(fake);
    assert_true(fake->peers[peer].is_closed);
    assert_int_equal(fake_count(fake, CONN_OUT_GONE), 1);
    assert_int_equal(fake_count(fake, CONN_OUT_SENT), 1);
    assert_false(conn_is_open(fake->conns, request_number(fake, 0)->conn));
    uint32_t next = fake_dial(fake); /* the slot is used again meanwhile */
    fake_run(fake);
    assert_true(fake->peers[next].is_accepted);
    fake_echo(fake, request_number(fake, 0));
    conn_answer_none(fake->conns, request_number(fake, 3)->request, &fake->out);
    conn_release_frame(fake->conns, request_number(fake, 3)->request);
    conn_release_frame(fake->conns, request_number(fake, 2)->request);
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_SENT), 2);
    assert_int_equal(fake->peers[peer].heard_bytes, 0);
    assert_int_equal(fake->peers[next].heard_bytes, 0);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void a_peer_that_sends_no_more_hears_its_answers_first(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    peer_sends_frame(fake, peer, "a");
    peer_sends_frame(fake, peer, "b");
    peer_sends(fake, peer, "\0\0\0\x09half", 8);
    fake->peers[peer].is_ended = true;
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_ENDED), 1);
    assert_true(conn_is_open(fake->conns, request_number(fake, 0)->conn));
    assert_true(conn_has_ended(fake->conns, request_number(fake, 0)->conn));
    fake_echo(fake, request_number(fake, 1));
    fake_run(fake);
    assert_false(fake->peers[peer].is_closed);
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    const char *heard[] = {"=a", "=b"};
    expect_heard(fake, peer, heard, 2);
    assert_true(fake->peers[peer].is_closed);
    assert_int_equal(fake_count(fake, CONN_OUT_GONE), 1);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void bytes_sent_before_the_end_are_still_cut(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    for (int i = 0; i < 20; i++) { peer_sends_frame(fake, peer, "acks=0"); }
    fake->peers[peer].is_ended = true;
    fake_run(fake);
    for (uint32_t i = 0; i < 20; i++) {
        conn_answer_none(fake->conns, request_number(fake, i)->request, &fake->out);
        conn_release_frame(fake->conns, request_number(fake, i)->request);
        fake_run(fake);
    }
    assert_true(fake->peers[peer].is_closed);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void closing_kills_what_was_not_sent(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    fake->peers[peer].is_deaf = true;
    peer_sends_frame(fake, peer, "a");
    peer_sends_frame(fake, peer, "b");
    fake_run(fake);
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake); /* being sent */
    fake_echo(fake, request_number(fake, 1));
    conn_close(fake->conns, request_number(fake, 0)->conn, &fake->out);
    conn_close(fake->conns, request_number(fake, 0)->conn, &fake->out); /* twice is once */
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_SENT), 2);
    assert_int_equal(fake_count(fake, CONN_OUT_GONE), 1);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

/* Of three requests the second is answered with the end, before, between or after the answers of the others. */
static void an_end_at_its_turn_follows_what_is_before_it_and_kills_what_is_behind(void **state)
{
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        for (int is_turn_between = 0; is_turn_between < 2; is_turn_between++) {
            struct fake *fake = given_usual();
            uint32_t peer = fake_dial(fake);
            peer_sends_frame(fake, peer, "a");
            peer_sends_frame(fake, peer, "b");
            peer_sends_frame(fake, peer, "c");
            fake_run(fake);
            peer_sends_frame(fake, peer, "too late");
            for (size_t j = 0; j < 3; j++) {
                const struct conn_out *request = request_number(fake, orders[i][j]);
                if (orders[i][j] == 1) {
                    conn_answer_end(fake->conns, request->request, &fake->out);
                    conn_release_frame(fake->conns, request->request);
                } else {
                    fake_echo(fake, request);
                }
                if (is_turn_between) { fake_run(fake); }
            }
            fake_run(fake);
            const char *heard[] = {"=a"};
            expect_heard(fake, peer, heard, 1);
            assert_true(fake->peers[peer].is_closed);
            for (uint32_t k = 3; k < fake_count(fake, CONN_OUT_REQUEST); k++) {
                fake_echo(fake, request_number(fake, k));
            }
            fake_run(fake);
            assert_true(conn_is_quiet(fake->conns));
            fake_end(fake);
        }
    }
}

static void a_broken_send_closes_the_connection(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    peer_sends_frame(fake, peer, "a");
    fake_run(fake);
    fake->peers[peer].is_reset = true;
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    assert_true(fake->peers[peer].is_closed);
    assert_int_equal(fake_count(fake, CONN_OUT_SENT), 1);
    assert_int_equal(fake_count(fake, CONN_OUT_GONE), 1);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void a_block_that_the_host_receives_into_is_kept_until_it_says_so(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    peer_sends_frame(fake, peer, "whole");
    peer_sends(fake, peer, "\0\0\0\7part", 8);
    fake_run(fake);
    fake_echo(fake, request_number(fake, 0));
    assert_int_equal(base_pages_block_count(fake->pages), 1);
    conn_close(fake->conns, request_number(fake, 0)->conn, &fake->out);
    assert_int_equal(base_pages_block_count(fake->pages), 1);
    fake_run(fake);
    assert_int_equal(base_pages_block_count(fake->pages), 0);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

static void a_slot_is_used_again_only_after_the_broker_knows_it_is_gone(void **state)
{
    (void)state;
    struct conn_config config = usual_config();
    config.conns_max = 1;
    struct fake *fake = given_listening(&config);
    uint32_t peer = fake_dial(fake);
    uint32_t next = fake_dial(fake);
    peer_sends(fake, peer, "\0\0\0\7part", 8); /* it is received: a watch would only say that there is something */
    fake_run(fake);
    fake->is_busy = true;
    fake->peers[peer].is_reset = true;
    fake_run(fake);
    assert_true(fake->peers[peer].is_closed);
    assert_false(fake->peers[next].is_accepted);
    fake->is_busy = false;
    fake_run(fake);
    assert_int_equal(fake_count(fake, CONN_OUT_GONE), 1);
    assert_true(fake->peers[next].is_accepted);
    fake_end(fake);
}

/* One story as a reviewer can read it: two pipelined requests, answered the other way round, then the peer ends. */
static void a_story_reads_as_expected(void **state)
{
    (void)state;
    struct conn_config config = usual_config();
    struct fake *fake = given_fake(&config, 4 * MIB);
    fake->is_tracing = true;
    fake_listen(fake);
    uint32_t peer = fake_dial(fake);
    fake->now_ns = 10;
    peer_sends_frame(fake, peer, "one");
    peer_sends_frame(fake, peer, "second");
    fake_run(fake);
    fake->now_ns = 20;
    fake_echo(fake, request_number(fake, 1));
    fake_run(fake);
    fake->now_ns = 30;
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    fake->now_ns = 40;
    fake->peers[peer].is_ended = true;
    fake_run(fake);
    assert_string_equal(fake->trace, "t=1 asks LISTEN 0\n"
                                     "t=1 tells listening 0\n"
                                     "t=1 asks ACCEPT conn 100.1 0\n"
                                     "t=10 asks RECV conn 100.1 0\n"
                                     "t=10 asks ACCEPT conn 101.1 0\n"
                                     "t=10 asks RECV conn 100.1 4080\n"
                                     "t=10 tells request conn 100.1 3\n"
                                     "t=10 tells request conn 100.1 6\n"
                                     "t=10 asks RECV conn 100.1 0\n"
                                     "t=30 asks SEND conn 100.1 2\n"
                                     "t=30 tells sent 0\n"
                                     "t=30 tells sent 0\n"
                                     "t=40 asks RECV conn 100.1 4080\n"
                                     "t=40 tells gone conn 100.1 0\n"
                                     "t=40 asks CLOSE conn 100.1 0\n");
    fake_end(fake);
}

static void no_more_than_conns_max_are_accepted_and_a_free_slot_takes_the_next(void **state)
{
    (void)state;
    struct conn_config config = usual_config();
    config.conns_max = 3;
    struct fake *fake = given_listening(&config);
    for (int i = 0; i < 5; i++) { (void)fake_dial(fake); }
    fake_run(fake);
    assert_true(fake->peers[2].is_accepted);
    assert_false(fake->peers[3].is_accepted);
    fake->peers[1].is_ended = true;
    fake_run(fake);
    assert_true(fake->peers[3].is_accepted);
    assert_int_equal(fake->peers[3].slot, fake->peers[1].slot);
    assert_int_not_equal(fake->peers[3].generation, fake->peers[1].generation);
    assert_false(fake->peers[4].is_accepted);
    fake_end(fake);
}

static void a_failed_accept_is_tried_again_after_a_while(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    fake->accept_rc = PORT_NO_HANDLES;
    uint32_t peer = fake_dial(fake);
    fake_run(fake);
    assert_false(fake->peers[peer].is_accepted);
    assert_int_equal(conn_next_alarm_ns(fake->conns), 1 + 100 * MS);
    fake->accept_rc = PORT_OK;
    fake_alarm(fake, 1 + 100 * MS);
    assert_true(fake->peers[peer].is_accepted);
    fake_end(fake);
}

static void stopping_lets_answers_in_flight_leave(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t busy = fake_dial(fake);
    uint32_t idle = fake_dial(fake);
    peer_sends_frame(fake, busy, "a");
    fake_run(fake);
    conn_stop(fake->conns, CONN_STOP_CLEAN, &fake->out);
    fake_run(fake);
    assert_true(fake->peers[idle].is_closed);
    assert_false(fake->peers[busy].is_closed);
    assert_int_equal(fake_count(fake, CONN_OUT_STOPPED), 0);
    peer_sends_frame(fake, busy, "too late");
    fake_run(fake);
    uint32_t late = fake_dial(fake);
    fake_run(fake);
    assert_false(fake->peers[late].is_accepted);
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    const char *heard[] = {"=a"};
    expect_heard(fake, busy, heard, 1);
    assert_true(fake->peers[busy].is_closed);
    assert_int_equal(fake_count(fake, CONN_OUT_STOPPED), 1);
    assert_int_equal(fake->outs[fake->outs_count - 1].kind, CONN_OUT_STOPPED);
    assert_int_equal(fake->pending_count, 0);
    fake_end(fake);
}

static void stopping_now_waits_for_nobody(void **state)
{
    (void)state;
    struct fake *fake = given_usual();
    uint32_t peer = fake_dial(fake);
    peer_sends_frame(fake, peer, "a");
    fake_run(fake);
    conn_stop(fake->conns, CONN_STOP_CLEAN, &fake->out);
    fake_run(fake);
    conn_stop(fake->conns, CONN_STOP_NOW, &fake->out);
    fake_run(fake);
    assert_true(fake->peers[peer].is_closed);
    assert_int_equal(fake_count(fake, CONN_OUT_STOPPED), 1);
    fake_echo(fake, request_number(fake, 0));
    fake_run(fake);
    assert_true(conn_is_quiet(fake->conns));
    fake_end(fake);
}

/* Many peers, frames of all sizes, chunks of all sizes, answers in any order, little room for anything: whatever happens,
 * a peer hears the echo of what it sent, in order, and everything comes back. */
static void peers_at_random_hear_their_echoes_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct base_prng dice;
        base_prng_init(&dice, seed, 0);
        struct conn_config config = usual_config();
        config.requests_max = 5 + (uint32_t)base_prng_below(&dice, 30);
        config.in_flight_max = 1 + (uint32_t)base_prng_below(&dice, 6);
        config.idle_ms = 0;
        struct fake *fake = given_fake(&config, 96 * 4096 + base_prng_below(&dice, 300) * 4096);
        fake->max_polls_a_step = (uint32_t)base_prng_below(&dice, 3);
        fake->holds_below = seed % 2 == 0 ? 'g' : 0;
        if (base_prng_chance(&dice, 1, 2)) { fake->effects_room = CONN_POLL_EFFECTS_MAX + CONN_EFFECTS_MAX; }
        fake_listen(fake);
        static char words[20001];
        struct conn_out held[64];
        uint32_t held_count = 0;
        uint32_t seen = 0;
        for (uint32_t i = 0; i < 8; i++) { (void)fake_dial(fake); }
        for (uint32_t step = 0; step < 400 || held_count > 0 || seen < fake->outs_count; step++) {
            fake->chunk_bytes = 1 + base_prng_below(&dice, base_prng_chance(&dice, 1, 2) ? 20 : 9000);
            uint32_t peer = (uint32_t)base_prng_below(&dice, 8);
            if (step < 400) {
                size_t bytes = 1 + base_prng_below(&dice, base_prng_chance(&dice, 1, 8) ? 20000 : 300);
                memset(words, 'a' + (int)base_prng_below(&dice, 26), bytes);
                words[bytes] = 0;
                if (fake->peers[peer].stream_bytes + bytes + 4 < STREAM_BYTES / 2) {
                    peer_sends_frame(fake, peer, words);
                }
            }
            fake_run(fake);
            for (; seen < fake->outs_count; seen++) {
                if (fake->outs[seen].kind == CONN_OUT_REQUEST) { held[held_count++] = fake->outs[seen]; }
            }
            if (held_count > 0 && base_prng_chance(&dice, 3, 4)) {
                uint32_t index = (uint32_t)base_prng_below(&dice, held_count);
                fake_echo(fake, &held[index]);
                held[index] = held[--held_count];
                fake_run(fake);
            }
        }
        assert_true(conn_is_quiet(fake->conns));
        assert_int_equal(base_pages_block_count(fake->pages), 0);
        for (uint32_t i = 0; i < 8; i++) {
            struct peer *peer = &fake->peers[i];
            assert_int_equal(peer->taken_bytes, peer->stream_bytes);
            const uint8_t *heard = peer->heard;
            for (size_t at = 0; at < peer->stream_bytes;) {
                uint32_t bytes = base_get_u32(peer->stream + at);
                assert_int_equal(base_get_u32(heard), bytes + 1);
                assert_memory_equal(heard + 5, peer->stream + at + 4, bytes);
                at += 4 + bytes;
                heard += 5 + bytes;
            }
            assert_int_equal(heard - peer->heard, peer->heard_bytes);
        }
        fake_end(fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listener_says_where_it_is_bound),
        cmocka_unit_test(an_idle_connection_holds_no_block_and_few_bytes),
        cmocka_unit_test(a_request_is_answered),
        cmocka_unit_test(frames_cut_at_any_byte_are_the_same_frames),
        cmocka_unit_test(frames_in_two_pieces_are_the_same_frames),
        cmocka_unit_test(pipelined_frames_share_one_block),
        cmocka_unit_test(a_parked_request_holds_only_the_pages_it_fills),
        cmocka_unit_test(a_frame_that_came_alone_is_whole_where_it_moved_to),
        cmocka_unit_test(a_large_frame_is_received_into_a_block_of_its_size),
        cmocka_unit_test(a_claimed_length_gets_memory_only_as_its_bytes_come),
        cmocka_unit_test(a_lied_length_closes_the_connection_with_one_line),
        cmocka_unit_test(answers_leave_in_the_order_of_requests_however_they_are_given),
        cmocka_unit_test(empty_answers_keep_their_place_and_leave_nothing),
        cmocka_unit_test(a_frame_may_be_held_after_its_answer_has_left),
        cmocka_unit_test(an_answer_of_many_pieces_leaves_whole),
        cmocka_unit_test(too_many_in_flight_stop_the_receiving_until_answers_leave),
        cmocka_unit_test(nothing_is_cut_behind_a_request_that_holds_its_connection),
        cmocka_unit_test(what_begins_as_a_hold_allows_is_cut_and_nothing_behind_another),
        cmocka_unit_test(what_one_hold_allows_waits_for_another_that_allows_nothing),
        cmocka_unit_test(as_many_as_may_be_in_flight_are_cut_though_they_hold_their_connection),
        cmocka_unit_test(who_is_gone_while_its_connection_is_held_is_seen_to_be),
        cmocka_unit_test(who_sends_no_more_while_its_connection_is_held_has_its_answer_first),
        cmocka_unit_test(what_comes_while_a_connection_is_held_is_kept),
        cmocka_unit_test(a_peer_that_does_not_read_is_bounded_and_then_closed),
        cmocka_unit_test(request_slots_that_come_back_are_shared_fairly),
        cmocka_unit_test(without_pages_receiving_waits_and_goes_on_when_they_return),
        cmocka_unit_test(answers_leave_one_by_one_when_there_is_no_page_to_gather_them),
        cmocka_unit_test(a_connection_that_waits_too_long_for_pages_is_closed),
        cmocka_unit_test(frames_queue_up_to_the_limit_and_the_next_wait_in_turn),
        cmocka_unit_test(a_frame_that_never_ends_counts_until_its_connection_is_gone),
        cmocka_unit_test(silent_halves_of_frames_make_room_for_whole_ones),
        cmocka_unit_test(who_goes_on_with_a_frame_is_not_closed_for_others),
        cmocka_unit_test(an_opened_connection_is_told_before_anything_else_of_it),
        cmocka_unit_test(idle_connections_are_closed_and_busy_ones_are_not),
        cmocka_unit_test(a_peer_that_breaks_off_leaves_its_requests_to_be_answered_in_vain),
        cmocka_unit_test(a_peer_that_sends_no_more_hears_its_answers_first),
        cmocka_unit_test(bytes_sent_before_the_end_are_still_cut),
        cmocka_unit_test(closing_kills_what_was_not_sent),
        cmocka_unit_test(an_end_at_its_turn_follows_what_is_before_it_and_kills_what_is_behind),
        cmocka_unit_test(a_broken_send_closes_the_connection),
        cmocka_unit_test(a_block_that_the_host_receives_into_is_kept_until_it_says_so),
        cmocka_unit_test(a_slot_is_used_again_only_after_the_broker_knows_it_is_gone),
        cmocka_unit_test(a_story_reads_as_expected),
        cmocka_unit_test(no_more_than_conns_max_are_accepted_and_a_free_slot_takes_the_next),
        cmocka_unit_test(a_failed_accept_is_tried_again_after_a_while),
        cmocka_unit_test(stopping_lets_answers_in_flight_leave),
        cmocka_unit_test(stopping_now_waits_for_nobody),
        cmocka_unit_test(peers_at_random_hear_their_echoes_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
