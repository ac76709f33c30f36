/* cases_loop.c: what port.h promises of events: the checker itself, alarms, turns, messages, notes, the end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "contract.h"

#include <string.h>

static void the_checker_sees_a_second_completion(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct port_event done = do_it(c, 0, by_name(PORT_MAKE_DIR, "d"));
    assert_null(checker_says(c));
    plant_event(c, 0, &done);
    assert_non_null(checker_says(c));
    assert_non_null(strstr(checker_says(c), "a second completion"));
    forgive(c);
    done.done.token += 1;
    plant_event(c, 0, &done);
    assert_non_null(strstr(checker_says(c), "never asked"));
    forgive(c);
    finish(c);
}

static void start_is_the_first_event_of_every_shard(void **state)
{
    (void)state;
    struct contract *c = given_shards(2);
    for (uint32_t i = 0; i < 2; i++) {
        struct port_event first = history_at(c, i, 0);
        assert_int_equal(first.kind, PORT_EVENT_START);
        assert_true(first.wall_ms > 0);
    }
    finish(c);
}

static void an_alarm_comes_at_or_after_its_time(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    static const uint64_t after_ns[] = {1, 1000, 300000, 2000000, 25000000};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(after_ns); i++) {
        uint32_t from = history_count(c, 0);
        wish(c, 0, &(struct contract_wish){.alarm_after_ns = after_ns[i]}, NULL);
        uint32_t asked = await_kind(c, 0, PORT_EVENT_MESSAGE, from);
        uint32_t rang = await_kind(c, 0, PORT_EVENT_ALARM, from);
        uint64_t waited_ns = history_at(c, 0, rang).now_ns - history_at(c, 0, asked).now_ns;
        assert_true(waited_ns >= after_ns[i]);
    }
    finish(c);
}

static void the_last_step_alone_sets_the_alarm(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    wish(c, 0, &(struct contract_wish){.alarm_after_ns = 3600ull * 1000000000},
         NULL); /* an hour: taken back by the next */
    uint32_t from = history_count(c, 0);
    wish(c, 0, &(struct contract_wish){.alarm_after_ns = 1000000}, NULL);
    (void)await_kind(c, 0, PORT_EVENT_ALARM, from);
    wish(c, 0, &(struct contract_wish){.alarm_after_ns = UINT64_MAX / 4}, NULL);
    settle(c, 0);
    finish(c);
}

static void a_turn_comes_after_the_completions_that_are_ready(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct port_file file = given_file(c, 0, "a");
    struct port_piece piece = memory("abc", 3);
    struct port_effect write = a_write(file, 0, &piece, 1);
    write.where = PORT_ON_SHARD;
    struct port_effect resolve = {.kind = PORT_RESOLVE, .path = base_slice_text("127.0.0.1")};
    struct port_effect effects[] = {write, resolve};
    uint64_t tokens[2];
    uint32_t from = history_count(c, 0);
    struct contract_wish both = {.effects = effects, .effect_count = 2, .wants_turn = true, .wants_continue = true};
    wish(c, 0, &both, tokens);
    uint32_t turn = await_kind(c, 0, PORT_EVENT_TURN, from);
    uint32_t next = await_kind(c, 0, PORT_EVENT_CONTINUE, from);
    expect_rc(await(c, tokens[0]), PORT_OK);
    expect_rc(await(c, tokens[1]), PORT_OK);
    (void)turn; /* how long a completion takes is the world's; once asked, both come, and once each */
    (void)next;
    settle(c, 0);
    uint32_t turns = 0;
    for (uint32_t i = from; i < history_count(c, 0); i++) {
        if (history_at(c, 0, i).kind == PORT_EVENT_TURN) { turns += 1; }
    }
    assert_int_equal(turns, 1);
    finish(c);
}

static void continue_lets_others_in_first(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    /* A step asks for CONTINUE and sends its own shard messages: they are ready, so they come first, in order. */
    struct port_message messages[3];
    memset(messages, 0, sizeof messages);
    for (uint32_t i = 0; i < 3; i++) { messages[i].kind = 7 + i; }
    uint32_t from = history_count(c, 0);
    wish(c, 0, &(struct contract_wish){.messages = messages, .message_count = 3, .wants_continue = true}, NULL);
    uint32_t place = await_kind(c, 0, PORT_EVENT_CONTINUE, from);
    uint32_t seen = 0;
    for (uint32_t i = from; i < place; i++) {
        struct port_event event = history_at(c, 0, i);
        if (event.kind != PORT_EVENT_MESSAGE || event.message.from == CONTRACT_OUTSIDE) { continue; }
        assert_int_equal(event.message.kind, 7 + seen);
        assert_int_equal(event.message.from, 0);
        seen += 1;
    }
    assert_int_equal(seen, 3);
    finish(c);
}

static uint32_t count_of(struct contract *c, enum port_event_kind kind, uint32_t from)
{
    uint32_t count = 0;
    for (uint32_t i = from; i < history_count(c, 0); i++) {
        if (history_at(c, 0, i).kind == kind) { count += 1; }
    }
    return count;
}

/* Between the step that wishes and what it wishes for there are steps that wish for nothing: they take nothing back. */
static void a_wish_stands_until_it_has_come(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct port_message messages[5];
    memset(messages, 0, sizeof messages);
    static const struct {
        bool turn, next;
    } wishes[] = {{true, false}, {false, true}, {true, true}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(wishes); i++) {
        uint32_t from = history_count(c, 0);
        wish(c, 0,
             &(struct contract_wish){.messages = messages,
                                     .message_count = 5,
                                     .wants_turn = wishes[i].turn,
                                     .wants_continue = wishes[i].next},
             NULL);
        if (wishes[i].turn) { (void)await_kind(c, 0, PORT_EVENT_TURN, from); }
        if (wishes[i].next) { (void)await_kind(c, 0, PORT_EVENT_CONTINUE, from); }
        assert_true(count_of(c, PORT_EVENT_MESSAGE, from) >= 6);
        assert_int_equal(count_of(c, PORT_EVENT_TURN, from), wishes[i].turn ? 1 : 0); /* and comes once */
        assert_int_equal(count_of(c, PORT_EVENT_CONTINUE, from), wishes[i].next ? 1 : 0);
    }
    finish(c);
}

/* More than any ring holds, both ways at once. */
static void messages_between_shards_arrive_in_order_and_whole(void **state)
{
    (void)state;
    struct contract *c = given_shards(2);
    enum { WISHES = 60, EACH = 250 };
    static uint8_t lent[16];
    for (uint32_t w = 0; w < WISHES; w++) {
        for (uint32_t from = 0; from < 2; from++) {
            struct port_message messages[EACH];
            memset(messages, 0, sizeof messages);
            for (uint32_t i = 0; i < EACH; i++) {
                messages[i].to = (uint16_t)(1 - from);
                messages[i].kind = 1;
                messages[i].words[0] = (uint64_t)w * EACH + i;
                messages[i].words[PORT_MESSAGE_WORDS - 1] = ~messages[i].words[0];
                messages[i].lent = lent;
                messages[i].lent_bytes = sizeof lent;
            }
            wish(c, from, &(struct contract_wish){.messages = messages, .message_count = EACH}, NULL);
        }
    }
    for (uint32_t to = 0; to < 2; to++) {
        uint64_t next = 0;
        for (uint32_t at = 0; next < (uint64_t)WISHES * EACH; at++) {
            at = await_kind(c, to, PORT_EVENT_MESSAGE, at);
            struct port_event event = history_at(c, to, at);
            if (event.message.from == CONTRACT_OUTSIDE) { continue; }
            assert_int_equal(event.message.from, 1 - to);
            assert_int_equal(event.message.to, to);
            assert_int_equal(event.message.words[0], next);
            assert_int_equal(event.message.words[PORT_MESSAGE_WORDS - 1], ~next);
            assert_ptr_equal(event.message.lent, lent);
            assert_int_equal(event.message.lent_bytes, sizeof lent);
            next += 1;
        }
    }
    finish(c);
}

static void a_step_may_be_as_large_as_the_out_allows(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    static struct port_effect effects[PORT_EFFECTS_MAX];
    static uint64_t tokens[PORT_EFFECTS_MAX];
    for (uint32_t i = 0; i < PORT_EFFECTS_MAX; i++) {
        effects[i] = (struct port_effect){.kind = PORT_RESOLVE, .path = base_slice_text("::1")};
    }
    ask_all(c, 0, effects, PORT_EFFECTS_MAX, tokens);
    for (uint32_t i = 0; i < PORT_EFFECTS_MAX; i++) { expect_rc(await(c, tokens[i]), PORT_OK); }
    finish(c);
}

static void notes_have_no_completion(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct port_effect effects[] = {{.kind = PORT_LOG,
                                     .flags = PORT_INFO,
                                     .path = base_slice_text("a line for people"),
                                     .path_to = base_slice_text("contract")},
                                    {.kind = PORT_LEVEL, .flags = PORT_WARN, .path_to = base_slice_text("contract")},
                                    {.kind = PORT_READY},
                                    by_name(PORT_MAKE_DIR, "d")};
    uint64_t tokens[4];
    ask_all(c, 0, effects, 4, tokens);
    expect_rc(await(c, tokens[3]), PORT_OK); /* what follows them is carried out */
    settle(c, 0);
    for (int i = 0; i < 3; i++) { assert_false(has_completed(c, tokens[i])); }
    finish(c);
}

static void a_stop_is_one_event_and_nothing_is_outstanding_after_it(void **state)
{
    (void)state;
    struct contract *c = given_shards(3);
    (void)given_file_with(c, 0, "left-open", "abc");
    (void)given_pair(c);
    finish(c); /* which fails on a missing or second completion, and does not return before every shard has stopped */
}

const struct CMUnitTest contract_loop_cases[] = {
    cmocka_unit_test(the_checker_sees_a_second_completion),
    cmocka_unit_test(start_is_the_first_event_of_every_shard),
    cmocka_unit_test(an_alarm_comes_at_or_after_its_time),
    cmocka_unit_test(the_last_step_alone_sets_the_alarm),
    cmocka_unit_test(a_turn_comes_after_the_completions_that_are_ready),
    cmocka_unit_test(continue_lets_others_in_first),
    cmocka_unit_test(a_wish_stands_until_it_has_come),
    cmocka_unit_test(messages_between_shards_arrive_in_order_and_whole),
    cmocka_unit_test(a_step_may_be_as_large_as_the_out_allows),
    cmocka_unit_test(notes_have_no_completion),
    cmocka_unit_test(a_stop_is_one_event_and_nothing_is_outstanding_after_it),
};
const size_t contract_loop_case_count = BASE_ARRAY_COUNT(contract_loop_cases);
