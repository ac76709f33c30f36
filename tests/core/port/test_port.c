/* test_port.c: notes, names, addresses and the trace hash.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <string.h>

#include "port/port.h"

/* ---- out ---- */

struct given_out {
    struct port_effect effects[4];
    struct port_message messages[2];
    char text[32];
    struct port_out out;
};

static struct port_out *given_out(struct given_out *given)
{
    memset(given, 0xa5, sizeof *given);
    given->out = (struct port_out){.effects = given->effects,
                                   .effects_max = 4,
                                   .messages = given->messages,
                                   .messages_max = 2,
                                   .text = given->text,
                                   .text_bytes = sizeof given->text};
    port_out_begin(&given->out);
    return &given->out;
}

static void an_emitted_effect_is_cleared(void **state)
{
    (void)state;
    struct given_out given;
    struct port_out *out = given_out(&given);
    struct port_effect *effect = port_emit(out, PORT_SYNC, 42);
    assert_int_equal(effect->kind, PORT_SYNC);
    assert_int_equal(effect->token, 42);
    assert_null(effect->buffer);
    assert_null(effect->pieces);
    assert_int_equal(effect->piece_count, 0);
    assert_int_equal(port_out_room(out), 3);
    struct port_message *message = port_send_message(out, 3, 9);
    assert_int_equal(message->to, 3);
    assert_int_equal(message->kind, 9);
    assert_null(message->lent);
    assert_int_equal(port_out_message_room(out), 1);
    out->wants_turn = true;
    port_alarm(out, 7);
    port_alarm(out, 9);
    assert_int_equal(out->alarm_ns, 7);
    port_out_begin(out);
    assert_int_equal(port_out_room(out), 4);
    assert_int_equal(out->alarm_ns, UINT64_MAX);
    assert_false(out->wants_turn);
}

static void add_line(struct port_out *out, const char *words)
{
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, words);
    port_log_end(out, PORT_WARN, "plog", &text);
}

static void log_lines_share_the_scratch_and_are_cut_never_overrun(void **state)
{
    (void)state;
    struct given_out given;
    struct port_out *out = given_out(&given);
    add_line(out, "first line");
    add_line(out, "second line that is too long for what is left");
    add_line(out, "no room at all");
    assert_int_equal(out->effect_count, 2);
    assert_true(base_slice_equal(given.effects[0].path, base_slice_text("first line")));
    assert_true(base_slice_equal(given.effects[0].path_to, base_slice_text("plog")));
    assert_int_equal(given.effects[0].flags, PORT_WARN);
    assert_int_equal(given.effects[0].kind, PORT_LOG);
    struct base_slice second = given.effects[1].path;
    assert_true(second.size_bytes < 32);
    assert_memory_equal(second.at, "second line that is too long", second.size_bytes);
}

static void a_line_at_debug_is_made_where_it_is_wanted_and_takes_no_effects_place(void **state)
{
    (void)state;
    static struct port_effect effects[PORT_EFFECTS_MAX];
    static char text[64];
    struct port_out out = {.effects = effects,
                           .effects_max = PORT_EFFECTS_MAX,
                           .text = text,
                           .text_bytes = sizeof text};
    port_out_begin(&out);
    assert_false(port_wants_debug(&out));
    out.wants_debug = true;
    assert_true(port_wants_debug(&out));
    while (port_out_room(&out) > PORT_DEBUG_ROOM) { (void)port_emit(&out, PORT_SYNC, 1); }
    assert_false(port_wants_debug(&out));
    port_out_begin(&out);
    assert_true(port_wants_debug(&out)); /* of the machine, not of a step */
    add_line(&out, "one that leaves less than half of the text");
    assert_false(port_wants_debug(&out));
}

static void a_log_line_without_room_for_an_effect_is_dropped(void **state)
{
    (void)state;
    struct given_out given;
    struct port_out *out = given_out(&given);
    for (int i = 0; i < 4; i++) { (void)port_emit(out, PORT_SYNC, 1); }
    add_line(out, "x");
    assert_int_equal(out->effect_count, 4);
}

/* ---- names ---- */

static void every_word_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int a = 0; a < PORT_RC_COUNT; a++) {
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(port_rc_name((enum port_rc)a), port_rc_name((enum port_rc)b));
        }
    }
    for (int a = 0; a < PORT_EFFECT_COUNT; a++) {
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(port_effect_name((enum port_effect_kind)a),
                                    port_effect_name((enum port_effect_kind)b));
        }
    }
    assert_string_equal(port_event_name(PORT_EVENT_CONTINUE), "CONTINUE");
    assert_string_equal(port_rc_name(PORT_NO_SPACE), "NO_SPACE");
    assert_string_equal(port_effect_name(PORT_CLOSE_FILE), "CLOSE_FILE");
}

/* ---- addresses ---- */

static void addresses_are_written_as_rfc_5952_says(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        const char *out;
    } cases[] = {
        {"127.0.0.1", "127.0.0.1"},
        {"0.0.0.0", "0.0.0.0"},
        {"255.255.255.255", "255.255.255.255"},
        {"::", "::"},
        {"::1", "::1"},
        {"1::", "1::"},
        {"2001:DB8:0:0:8:800:200C:417A", "2001:db8::8:800:200c:417a"},
        {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"}, /* one zero group is not shortened */
        {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},          /* the longest run */
        {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},    /* the first of equals */
        {"::ffff:1.2.3.4", "1.2.3.4"},
        {"::ffff:102:304", "1.2.3.4"},
        {"64:ff9b::192.0.2.33", "64:ff9b::c000:221"},
        {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
        {"0:0:0:0:0:0:0:0", "::"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        struct port_address address;
        char text[47];
        assert_int_equal(port_address_from_text(base_slice_text(cases[i].in), &address), BASE_OK);
        assert_int_equal(address.port, 0);
        port_address_to_text(address, text);
        assert_string_equal(text, cases[i].out);
        struct port_address again;
        assert_int_equal(port_address_from_text(base_slice_text(text), &again), BASE_OK);
        assert_memory_equal(again.ip, address.ip, 16);
    }
}

static void what_is_not_an_address_is_bad(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "localhost",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.256",
        "01.2.3.4",
        "1.2.3.4 ",
        ":",
        ":::",
        "1:2:3",
        "1::2::3",
        "12345::",
        "1:2:3:4:5:6:7:8:9",
        "1:",
        ":1",
        "g::",
        "::1.2.3",
        "::1.2.3.4:5",
        "1:2:3:4:5:6:7:1.2.3.4",
        "[::1]",
        "::1%eth0",
        "1:2:3:4:5:6:7:8::",
        "-1.2.3.4",
        "1..2.3",
        "0x1.2.3.4",
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        struct port_address address = {.port = 77};
        if (port_address_from_text(base_slice_text(cases[i]), &address) != BASE_BAD) { fail_msg("%s", cases[i]); }
        assert_int_equal(address.port, 77); /* untouched */
    }
}

static void a_host_and_its_port_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        const char *host;
        uint16_t port;
    } cases[] = {{"localhost:9092", "localhost", 9092},
                 {"1.2.3.4:65535", "1.2.3.4", 65535},
                 {"[::1]:9092", "::1", 9092},
                 {"::1:9092", "::1", 9092},
                 {":9092", "", 9092},
                 {"[]:1", "", 1},
                 {"a:0", "a", 0},
                 {"[a:1", "[a", 1}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        struct base_slice host;
        uint16_t port = 77;
        assert_int_equal(port_host_from_text(base_slice_text(cases[i].in), &host, &port), BASE_OK);
        assert_true(base_slice_equal(host, base_slice_text(cases[i].host)));
        assert_int_equal(port, cases[i].port);
    }
}

static void what_has_no_port_or_too_long_a_host_is_bad(void **state)
{
    (void)state;
    char longest[PORT_HOST_MAX + 4];
    char longer[PORT_HOST_MAX + 4];
    (void)snprintf(longest, sizeof longest, "%0*d:1", PORT_HOST_MAX, 0);
    (void)snprintf(longer, sizeof longer, "%0*d:1", PORT_HOST_MAX + 1, 0);
    struct base_slice host;
    uint16_t port = 0;
    assert_int_equal(port_host_from_text(base_slice_text(longest), &host, &port), BASE_OK);
    assert_int_equal(host.size_bytes, PORT_HOST_MAX);
    const char *const cases[] = {"", "localhost", "a:", "a:-1", "a:65536", "a:x", "a:1 ", "[::1]", longer};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        port = 77;
        assert_int_equal(port_host_from_text(base_slice_text(cases[i]), &host, &port), BASE_BAD);
        assert_int_equal(port, 77); /* untouched */
    }
}

/* ---- the hash ---- */

static const struct base_slice nothing;

static uint64_t hash_of(const struct port_effect *effect) { return port_hash_effect(1, 2, 3, effect); }

static void fields_that_a_kind_does_not_use_change_nothing(void **state)
{
    (void)state;
    for (int kind = 0; kind < PORT_EFFECT_COUNT; kind++) {
        struct port_effect a = {.kind = (enum port_effect_kind)kind, .token = 5};
        uint8_t bytes[4] = {0};
        struct port_effect b = a;
        b.buffer = bytes; /* an address never counts */
        assert_int_equal(hash_of(&a), hash_of(&b));
    }
    struct port_effect sync = {.kind = PORT_SYNC, .token = 5};
    struct port_effect other = sync;
    other.position_bytes = 9;
    other.conn.slot = 9;
    assert_int_equal(hash_of(&sync), hash_of(&other));
}

static void fields_that_a_kind_uses_change_it(void **state)
{
    (void)state;
    struct port_piece pieces[2] = {{.kind = PORT_MEMORY, .at = (const uint8_t *)"abc", .size_bytes = 3},
                                   {.kind = PORT_MEMORY, .at = (const uint8_t *)"de", .size_bytes = 2}};
    struct port_effect write = {.kind = PORT_WRITE, .token = 1, .pieces = pieces, .piece_count = 2};
    uint64_t first = hash_of(&write);
    assert_int_equal(first, hash_of(&write));
    write.position_bytes = 1;
    assert_int_not_equal(first, hash_of(&write));
    write.position_bytes = 0;
    write.token = 2;
    assert_int_not_equal(first, hash_of(&write));
    write.token = 1;
    pieces[1].at = (const uint8_t *)"dX";
    assert_int_not_equal(first, hash_of(&write)); /* payload bytes count */
    pieces[0] = (struct port_piece){.kind = PORT_MEMORY, .at = (const uint8_t *)"abcd", .size_bytes = 4};
    pieces[1] = (struct port_piece){.kind = PORT_MEMORY, .at = (const uint8_t *)"e", .size_bytes = 1};
    assert_int_not_equal(first, hash_of(&write)); /* and where they are cut */
    assert_int_not_equal(port_hash_effect(1, 2, 3, &write), port_hash_effect(1, 2, 4, &write));
    assert_int_not_equal(port_hash_effect(1, 2, 3, &write), port_hash_effect(1, 3, 3, &write));
    assert_int_not_equal(port_hash_effect(1, 2, 3, &write), port_hash_effect(2, 2, 3, &write));
    struct port_piece ranges[1] = {{.kind = PORT_RANGE, .file = {1, 2, 3}, .position_bytes = 4, .size_bytes = 5}};
    struct port_effect send = {.kind = PORT_SEND, .pieces = ranges, .piece_count = 1};
    first = hash_of(&send);
    ranges[0].position_bytes = 5;
    assert_int_not_equal(first, hash_of(&send));
}

static void every_kind_of_completion_hashes_and_payload_counts(void **state)
{
    (void)state;
    uint64_t seen[PORT_LOG];
    for (int kind = 0; kind < PORT_LOG; kind++) { /* notes have no completion */
        struct port_event event = {.kind = PORT_EVENT_DONE, .now_ns = 1, .wall_ms = 2};
        event.done.effect = (enum port_effect_kind)kind;
        event.done.count = 3;
        seen[kind] = port_hash_event(0, 1, 1, &event, nothing);
        for (int before = 0; before < kind; before++) { assert_int_not_equal(seen[before], seen[kind]); }
        assert_int_not_equal(seen[kind], port_hash_event(0, 1, 1, &event, base_slice_text("abc")));
        event.now_ns = 2;
        assert_int_not_equal(seen[kind], port_hash_event(0, 1, 1, &event, nothing));
    }
}

static void a_message_hashes_by_its_words_and_not_by_what_it_lends(void **state)
{
    (void)state;
    struct port_message message = {.to = 1, .kind = 2, .words = {3, 4, 5}};
    uint64_t first = port_hash_message(0, 1, 1, &message);
    message.lent = &message;
    assert_int_equal(first, port_hash_message(0, 1, 1, &message));
    message.words[PORT_MESSAGE_WORDS - 1] = 1;
    assert_int_not_equal(first, port_hash_message(0, 1, 1, &message));
    struct port_event event = {.kind = PORT_EVENT_MESSAGE, .message = message};
    uint64_t as_event = port_hash_event(0, 1, 1, &event, nothing);
    event.message.lent = NULL;
    assert_int_equal(as_event, port_hash_event(0, 1, 1, &event, nothing));
    event.message.from = 7;
    assert_int_not_equal(as_event, port_hash_event(0, 1, 1, &event, nothing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_emitted_effect_is_cleared),
        cmocka_unit_test(log_lines_share_the_scratch_and_are_cut_never_overrun),
        cmocka_unit_test(a_line_at_debug_is_made_where_it_is_wanted_and_takes_no_effects_place),
        cmocka_unit_test(a_log_line_without_room_for_an_effect_is_dropped),
        cmocka_unit_test(every_word_has_a_name_of_its_own),
        cmocka_unit_test(addresses_are_written_as_rfc_5952_says),
        cmocka_unit_test(what_is_not_an_address_is_bad),
        cmocka_unit_test(a_host_and_its_port_are_read),
        cmocka_unit_test(what_has_no_port_or_too_long_a_host_is_bad),
        cmocka_unit_test(fields_that_a_kind_does_not_use_change_nothing),
        cmocka_unit_test(fields_that_a_kind_uses_change_it),
        cmocka_unit_test(every_kind_of_completion_hashes_and_payload_counts),
        cmocka_unit_test(a_message_hashes_by_its_words_and_not_by_what_it_lends),
    };
    return cmocka_run_group_tests_name("port", tests, NULL, NULL);
}
