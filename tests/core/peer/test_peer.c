/* test_peer.c: connections that are dialled, used, lost and dialled again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "peer/peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TAG          9
#define REGION_BYTES (4U << 20)
#define FRAME_BYTES  24
#define EVENTS_MAX   256

struct rig {
    struct peers *peers;
    struct base_pages *pages;
    void *tables;
    void *region;
    struct port_out out;
    uint64_t now_ns;
    struct peer_id id;
    struct port_effect recv; /* outstanding */
    bool has_recv;
    struct port_effect sends[64]; /* outstanding */
    uint32_t send_count;
    struct port_effect last; /* RESOLVE, CONNECT or CLOSE that waits for its completion */
    bool has_last;
    struct peer_event events[EVENTS_MAX];
    uint8_t frames[EVENTS_MAX][64];
    uint32_t event_count;
    bool takes_frames;
    void *taken;
};

static struct peers_config plain_config(void)
{
    return (struct peers_config){.peers_max = 4,
                                 .in_flight_max = 3,
                                 .conn_slot_first = 10,
                                 .token_tag = TAG,
                                 .frame_bytes_max = 100000,
                                 .connect_timeout_ns = 5000000000,
                                 .backoff_ns = 100000000,
                                 .backoff_max_ns = 1000000000,
                                 .seed = 1,
                                 .class = BASE_CLIENTS};
}

static void look(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->out.effect_count; i++) {
        const struct port_effect *effect = &rig->out.effects[i];
        assert_true(peers_owns(TAG, effect->token));
        if (effect->kind == PORT_RECV) {
            assert_false(rig->has_recv);
            rig->recv = *effect;
            rig->has_recv = true;
        } else if (effect->kind == PORT_SEND) {
            rig->sends[rig->send_count] = *effect;
            rig->send_count += 1;
        } else {
            assert_false(rig->has_last);
            rig->last = *effect;
            rig->has_last = true;
        }
    }
}

static void poll_all(struct rig *rig)
{
    struct peer_event event;
    while (peers_poll(rig->peers, rig->now_ns, &rig->out, &event)) {
        assert_true(rig->event_count < EVENTS_MAX);
        rig->events[rig->event_count] = event;
        if (event.frame.size_bytes > 0 && event.frame.size_bytes <= 64) {
            memcpy(rig->frames[rig->event_count], event.frame.at, event.frame.size_bytes);
        }
        rig->event_count += 1;
        if (event.kind == PEER_ANSWERED && rig->takes_frames) { rig->taken = peers_take_frame(rig->peers); }
    }
}

static void step(struct rig *rig, struct port_event event)
{
    event.now_ns = rig->now_ns;
    port_out_begin(&rig->out);
    peers_step(rig->peers, &event, &rig->out);
    poll_all(rig);
    peers_alarm(rig->peers, &rig->out);
    look(rig);
}

static struct rig *given_rig(struct peers_config config)
{
    struct rig *rig = calloc(1, sizeof *rig);
    static const size_t reserves[BASE_CLASS_COUNT] = {0};
    struct base_arena arena;
    assert_non_null(rig);
    rig->tables = calloc(1, peers_arena_bytes(&config));
    rig->region = aligned_alloc(4096, REGION_BYTES);
    assert_non_null(rig->region);
    memset(rig->region, 0, REGION_BYTES);
    base_arena_init_zeroed(&arena, rig->tables, peers_arena_bytes(&config));
    assert_int_equal(base_pages_create((struct base_region){rig->region, REGION_BYTES}, reserves, &rig->pages),
                     BASE_OK);
    assert_int_equal(peers_create(&arena, &config, rig->pages, &rig->peers), BASE_OK);
    rig->out.effects = calloc(64, sizeof(struct port_effect));
    rig->out.effects_max = 64;
    rig->now_ns = 1000000000;
    assert_int_equal(peer_open(rig->peers, base_slice_text("h"), 9092, rig->now_ns, &rig->id), BASE_OK);
    step(rig, (struct port_event){.kind = PORT_EVENT_TURN});
    return rig;
}

static void complete(struct rig *rig, const struct port_effect *effect, enum port_rc rc, uint64_t count)
{
    struct port_event event = {.kind = PORT_EVENT_DONE};
    event.done.effect = effect->kind;
    event.done.token = effect->token;
    event.done.rc = rc;
    event.done.count = count;
    event.done.conn = effect->conn;
    step(rig, event);
}

static void complete_last(struct rig *rig, enum port_effect_kind kind, enum port_rc rc)
{
    assert_true(rig->has_last);
    assert_int_equal(rig->last.kind, kind);
    struct port_effect effect = rig->last;
    rig->has_last = false;
    complete(rig, &effect, rc, 0);
}

static void complete_sends(struct rig *rig, enum port_rc rc)
{
    while (rig->send_count > 0) {
        struct port_effect effect = rig->sends[0];
        rig->send_count -= 1;
        memmove(rig->sends, rig->sends + 1, rig->send_count * sizeof rig->sends[0]);
        complete(rig, &effect, rc, 0);
    }
}

static void complete_recv(struct rig *rig, enum port_rc rc, const uint8_t *bytes, size_t size_bytes)
{
    assert_true(rig->has_recv);
    struct port_effect effect = rig->recv;
    assert_true(size_bytes <= effect.size_bytes);
    if (size_bytes > 0) { memcpy(effect.buffer, bytes, size_bytes); }
    rig->has_recv = false;
    complete(rig, &effect, rc, size_bytes);
}

/* Everything that is outstanding at a close ends first, then the close itself. */
static void complete_close(struct rig *rig)
{
    assert_true(rig->has_last);
    assert_int_equal(rig->last.kind, PORT_CLOSE);
    complete_sends(rig, PORT_CLOSED);
    if (rig->has_recv) { complete_recv(rig, PORT_CLOSED, NULL, 0); }
    complete_last(rig, PORT_CLOSE, PORT_OK);
}

static struct rig *given_connection(void)
{
    struct rig *rig = given_rig(plain_config());
    complete_last(rig, PORT_RESOLVE, PORT_OK);
    complete_last(rig, PORT_CONNECT, PORT_OK);
    assert_int_equal(rig->event_count, 1);
    assert_int_equal(rig->events[0].kind, PEER_CONNECTED);
    rig->event_count = 0;
    return rig;
}

static void end(struct rig *rig)
{
    peer_close(rig->peers, rig->id);
    step(rig, (struct port_event){.kind = PORT_EVENT_TURN});
    if (rig->has_last && rig->last.kind == PORT_CLOSE) { complete_close(rig); }
    if (rig->taken != NULL) { base_pages_give(rig->pages, rig->taken); }
    assert_true(peers_is_quiet(rig->peers));
    assert_int_equal(base_pages_block_count(rig->pages), 0);
    free(rig->out.effects);
    free(rig->tables);
    free(rig->region);
    free(rig);
}

static void ask(struct rig *rig, uint64_t word, bool is_unanswered)
{
    uint8_t *block = base_pages_take(rig->pages, BASE_CLIENTS, FRAME_BYTES);
    assert_non_null(block);
    memset(block, 0, FRAME_BYTES);
    base_put_u32(block, FRAME_BYTES - 4);
    struct peer_request request = {.word = word,
                                   .block = block,
                                   .frame_bytes = FRAME_BYTES,
                                   .is_unanswered = is_unanswered,
                                   .deadline_ns = rig->now_ns + 1000000000};
    port_out_begin(&rig->out);
    peer_request(rig->peers, rig->id, &request, &rig->out);
    poll_all(rig);
    peers_alarm(rig->peers, &rig->out);
    look(rig);
}

static size_t put_answer(uint8_t *at, int32_t correlation, const char *body)
{
    base_put_u32(at, (uint32_t)(4 + strlen(body)));
    base_put_u32(at + 4, (uint32_t)correlation);
    memcpy(at + 8, body, strlen(body));
    return 8 + strlen(body);
}

/* Gives bytes through as many receives as it takes, pieces of at most `cut`. */
static void give(struct rig *rig, const uint8_t *bytes, size_t size_bytes, size_t cut)
{
    while (size_bytes > 0) {
        assert_true(rig->has_recv);
        size_t count = rig->recv.size_bytes;
        if (count > cut) { count = cut; }
        if (count > size_bytes) { count = size_bytes; }
        complete_recv(rig, PORT_OK, bytes, count);
        bytes += count;
        size_bytes -= count;
    }
}

static void answers_come_in_order_whatever_the_cut(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 30; cut++) {
        struct rig *rig = given_connection();
        uint8_t bytes[64];
        ask(rig, 100, false);
        ask(rig, 101, false);
        complete_sends(rig, PORT_OK);
        size_t used = put_answer(bytes, 0, "one");
        used += put_answer(bytes + used, 1, "twotwo");
        give(rig, bytes, used, cut);
        assert_int_equal(rig->event_count, 2);
        assert_int_equal(rig->events[0].kind, PEER_ANSWERED);
        assert_int_equal(rig->events[0].word, 100);
        assert_memory_equal(rig->frames[0] + 4, "one", 3);
        assert_int_equal(rig->events[1].word, 101);
        assert_memory_equal(rig->frames[1] + 4, "twotwo", 6);
        end(rig);
    }
}

static void requests_carry_the_number_that_their_answer_needs(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    ask(rig, 100, false);
    ask(rig, 101, false);
    assert_int_equal(base_get_u32(rig->sends[0].pieces[0].at + 8), 0);
    assert_int_equal(base_get_u32(rig->sends[1].pieces[0].at + 8), 1);
    end(rig);
}

static void no_more_than_the_limit_is_in_flight(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    uint8_t bytes[64];
    assert_int_equal(peer_room(rig->peers, rig->id), 3);
    for (uint64_t word = 0; word < 3; word++) { ask(rig, word, false); }
    assert_int_equal(peer_room(rig->peers, rig->id), 0);
    complete_sends(rig, PORT_OK);
    give(rig, bytes, put_answer(bytes, 0, "x"), 64);
    assert_int_equal(peer_room(rig->peers, rig->id), 1);
    end(rig);
}

static void expect_all_lost(struct rig *rig, uint32_t lost, enum port_rc rc)
{
    for (uint32_t i = 0; i < lost; i++) {
        assert_int_equal(rig->events[i].kind, PEER_LOST);
        assert_int_equal(rig->events[i].word, 100 + i);
        assert_int_equal(rig->events[i].rc, rc);
    }
    assert_int_equal(rig->events[lost].kind, PEER_FAILED);
    assert_int_equal(rig->event_count, lost + 1);
}

static void an_answer_that_nobody_asked_for_ends_the_connection(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    uint8_t bytes[64];
    ask(rig, 100, false);
    complete_sends(rig, PORT_OK);
    give(rig, bytes, put_answer(bytes, 5, "x"), 64);
    expect_all_lost(rig, 1, PORT_RESET);
    complete_close(rig);
    assert_int_equal(peer_state(rig->peers, rig->id), PEER_WAITING);
    end(rig);
}

static void a_frame_beyond_the_limit_ends_the_connection(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 3, 100001, 0x7fffffff, 0xffffffff};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct rig *rig = given_connection();
        uint8_t bytes[8] = {0};
        ask(rig, 100, false);
        complete_sends(rig, PORT_OK);
        base_put_u32(bytes, sizes[i]);
        give(rig, bytes, 8, 64);
        expect_all_lost(rig, 1, PORT_RESET);
        complete_close(rig);
        end(rig);
    }
}

static void a_large_frame_may_be_taken_and_belongs_to_the_taker(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    size_t frame_bytes = 50000;
    uint8_t *bytes = calloc(1, frame_bytes + 4);
    base_put_u32(bytes, (uint32_t)frame_bytes);
    rig->takes_frames = true;
    ask(rig, 100, false);
    complete_sends(rig, PORT_OK);
    give(rig, bytes, frame_bytes + 4, 7000);
    assert_int_equal(rig->events[0].frame.size_bytes, frame_bytes);
    assert_non_null(rig->taken);
    free(bytes);
    end(rig);
}

static void the_end_of_the_stream_loses_what_is_in_flight(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    ask(rig, 100, false);
    ask(rig, 101, false);
    if (rig->recv.size_bytes == 0) { complete_recv(rig, PORT_OK, NULL, 0); }
    complete_recv(rig, PORT_EOF, NULL, 0);
    expect_all_lost(rig, 2, PORT_RESET);
    complete_close(rig);
    end(rig);
}

static void a_late_answer_loses_the_connection(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    ask(rig, 100, false);
    complete_sends(rig, PORT_OK);
    assert_int_equal(rig->out.alarm_ns, rig->now_ns + 1000000000);
    rig->now_ns = rig->out.alarm_ns;
    step(rig, (struct port_event){.kind = PORT_EVENT_ALARM});
    expect_all_lost(rig, 1, PORT_TIMED_OUT);
    complete_close(rig);
    end(rig);
}

static void what_needs_no_answer_is_over_when_it_left(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    ask(rig, 100, true);
    assert_int_equal(rig->event_count, 0);
    complete_sends(rig, PORT_OK);
    assert_int_equal(rig->event_count, 1);
    assert_int_equal(rig->events[0].kind, PEER_SENT);
    assert_int_equal(peer_room(rig->peers, rig->id), 3);
    end(rig);
}

static void an_idle_connection_holds_no_buffer(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    uint8_t bytes[64];
    assert_int_equal(base_pages_block_count(rig->pages), 0);
    ask(rig, 100, false);
    complete_sends(rig, PORT_OK);
    complete_recv(rig, PORT_OK, NULL, 0); /* something is there */
    give(rig, bytes, put_answer(bytes, 0, "x"), 64);
    assert_int_equal(base_pages_block_count(rig->pages), 0);
    assert_int_equal(rig->recv.size_bytes, 0);
    end(rig);
}

static void a_peer_that_hangs_up_while_idle_is_noticed(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    complete_recv(rig, PORT_OK, NULL, 0);
    assert_true(rig->recv.size_bytes > 0);
    complete_recv(rig, PORT_EOF, NULL, 0);
    expect_all_lost(rig, 0, PORT_RESET);
    complete_close(rig);
    end(rig);
}

static void tries_are_further_and_further_apart_up_to_a_limit(void **state)
{
    (void)state;
    struct rig *rig = given_rig(plain_config());
    uint64_t full_ns = 100000000;
    for (uint32_t i = 0; i < 8; i++) {
        complete_last(rig, PORT_RESOLVE, PORT_OK);
        complete_last(rig, PORT_CONNECT, PORT_REFUSED);
        assert_int_equal(rig->events[i].kind, PEER_FAILED);
        assert_int_equal(rig->events[i].rc, PORT_REFUSED);
        uint64_t delay_ns = rig->out.alarm_ns - rig->now_ns;
        assert_true(delay_ns >= full_ns / 2 && delay_ns <= full_ns);
        full_ns = full_ns * 2 > 1000000000 ? 1000000000 : full_ns * 2;
        rig->now_ns = rig->out.alarm_ns;
        step(rig, (struct port_event){.kind = PORT_EVENT_ALARM});
    }
    peer_close(rig->peers, rig->id);
    complete_last(rig, PORT_RESOLVE, PORT_UNREACHABLE);
    end(rig);
}

static void a_connect_that_hangs_is_given_up(void **state)
{
    (void)state;
    struct rig *rig = given_rig(plain_config());
    complete_last(rig, PORT_RESOLVE, PORT_OK);
    struct port_effect connect = rig->last;
    rig->has_last = false;
    rig->now_ns = rig->out.alarm_ns;
    step(rig, (struct port_event){.kind = PORT_EVENT_ALARM});
    assert_int_equal(rig->last.kind, PORT_CLOSE);
    complete(rig, &connect, PORT_CLOSED, 0);
    complete_last(rig, PORT_CLOSE, PORT_OK);
    assert_int_equal(peer_state(rig->peers, rig->id), PEER_WAITING);
    assert_int_equal(rig->events[0].kind, PEER_FAILED);
    assert_int_equal(rig->events[0].rc, PORT_TIMED_OUT);
    end(rig);
}

static void another_connection_has_another_generation(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    uint32_t generation = rig->recv.conn.generation;
    assert_int_equal(rig->recv.conn.slot, 10);
    peer_reset(rig->peers, rig->id);
    step(rig, (struct port_event){.kind = PORT_EVENT_TURN});
    complete_close(rig);
    rig->now_ns = rig->out.alarm_ns;
    step(rig, (struct port_event){.kind = PORT_EVENT_ALARM});
    complete_last(rig, PORT_RESOLVE, PORT_OK);
    assert_int_equal(rig->last.conn.slot, 10);
    assert_int_not_equal(rig->last.conn.generation, generation);
    complete_last(rig, PORT_CONNECT, PORT_OK);
    end(rig);
}

static void a_closed_peer_gives_back_its_requests_and_its_place(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    struct peer_id ids[4];
    ask(rig, 100, false);
    peer_close(rig->peers, rig->id);
    assert_int_equal(peer_state(rig->peers, rig->id), PEER_FREE);
    step(rig, (struct port_event){.kind = PORT_EVENT_TURN});
    assert_int_equal(rig->event_count, 1); /* no PEER_FAILED: nobody waits for it */
    assert_int_equal(rig->events[0].kind, PEER_LOST);
    complete_close(rig);
    assert_true(peers_is_quiet(rig->peers));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(peer_open(rig->peers, base_slice_text("h"), 1, rig->now_ns, &ids[i]), BASE_OK);
    }
    assert_int_equal(peer_open(rig->peers, base_slice_text("h"), 1, rig->now_ns, &rig->id), BASE_FULL);
    for (uint32_t i = 0; i < 4; i++) { peer_close(rig->peers, ids[i]); }
    end(rig);
}

static void without_memory_it_asks_again_later(void **state)
{
    (void)state;
    struct rig *rig = given_connection();
    uint8_t bytes[64];
    ask(rig, 100, false);
    complete_sends(rig, PORT_OK);
    void *all[2048];
    uint32_t count = 0;
    while (count < 2048 && (all[count] = base_pages_take(rig->pages, BASE_CLIENTS, 4096)) != NULL) { count += 1; }
    complete_recv(rig, PORT_OK, NULL, 0);
    assert_false(rig->has_recv);
    for (uint32_t i = 0; i < count; i++) { base_pages_give(rig->pages, all[i]); }
    rig->now_ns = rig->out.alarm_ns;
    step(rig, (struct port_event){.kind = PORT_EVENT_ALARM});
    give(rig, bytes, put_answer(bytes, 0, "x"), 64);
    assert_int_equal(rig->events[0].kind, PEER_ANSWERED);
    end(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_in_order_whatever_the_cut),
        cmocka_unit_test(requests_carry_the_number_that_their_answer_needs),
        cmocka_unit_test(no_more_than_the_limit_is_in_flight),
        cmocka_unit_test(an_answer_that_nobody_asked_for_ends_the_connection),
        cmocka_unit_test(a_frame_beyond_the_limit_ends_the_connection),
        cmocka_unit_test(a_large_frame_may_be_taken_and_belongs_to_the_taker),
        cmocka_unit_test(the_end_of_the_stream_loses_what_is_in_flight),
        cmocka_unit_test(a_late_answer_loses_the_connection),
        cmocka_unit_test(what_needs_no_answer_is_over_when_it_left),
        cmocka_unit_test(an_idle_connection_holds_no_buffer),
        cmocka_unit_test(a_peer_that_hangs_up_while_idle_is_noticed),
        cmocka_unit_test(tries_are_further_and_further_apart_up_to_a_limit),
        cmocka_unit_test(a_connect_that_hangs_is_given_up),
        cmocka_unit_test(another_connection_has_another_generation),
        cmocka_unit_test(a_closed_peer_gives_back_its_requests_and_its_place),
        cmocka_unit_test(without_memory_it_asks_again_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
