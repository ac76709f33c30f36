/* cases_file.c: what port.h promises of files and names.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "contract.h"

#include <stdlib.h>
#include <string.h>

static const enum port_where wheres[] = {PORT_ON_DISK, PORT_ON_SHARD};

static struct port_effect at_where(struct port_effect effect, enum port_where where)
{
    effect.where = where;
    return effect;
}

static void expect_count(struct port_event done, uint64_t count)
{
    expect_rc(done, PORT_OK);
    assert_int_equal(done.done.count, count);
}

static void a_missing_file_opens_only_with_create(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = file_id(0, 3, 1);
    expect_rc(do_it(c, 0, an_open(file, "a.log", PORT_OPEN_READ)), PORT_MISSING);
    /* the failure was the id's last event: slot and generation are free at once */
    expect_rc(do_it(c, 0, an_open(file, "a.log", PORT_OPEN_WRITE)), PORT_MISSING);
    expect_count(do_it(c, 0, an_open(file, "a.log", PORT_OPEN_WRITE | PORT_OPEN_CREATE)), 0);
    finish(c);
}

static void an_exclusive_create_finds_what_is_there(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = file_id(0, 0, 1);
    uint32_t flags = PORT_OPEN_WRITE | PORT_OPEN_CREATE | PORT_OPEN_EXCLUSIVE;
    expect_count(do_it(c, 0, an_open(file, "a", flags)), 0);
    expect_rc(do_it(c, 0, an_open(file_id(0, 1, 1), "a", flags)), PORT_EXISTS);
    finish(c);
}

static void opening_tells_the_size(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    (void)given_file_with(c, 0, "a", "twelve bytes");
    struct port_event done = do_it(c, 0, an_open(file_id(0, 1, 1), "a", PORT_OPEN_READ));
    expect_count(done, 12);
    assert_true(port_file_equal(done.done.file, file_id(0, 1, 1)));
    finish(c);
}

static void a_closed_slot_serves_again_with_another_generation(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "aaaa");
    expect_rc(do_it(c, 0, of_file(PORT_CLOSE_FILE, file)), PORT_OK);
    struct port_file next = file_id(0, 0, 2);
    expect_count(do_it(c, 0, an_open(next, "a", PORT_OPEN_READ)), 4);
    uint8_t byte;
    expect_rc(do_it(c, 0, a_read(file, 0, &byte, 1)), PORT_CLOSED); /* the old name names nothing */
    expect_rc(do_it(c, 0, of_file(PORT_CLOSE_FILE, file)), PORT_CLOSED);
    expect_count(do_it(c, 0, a_read(next, 0, &byte, 1)), 1);
    finish(c);
}

static void reading_at_the_end_is_short_and_past_it_nothing(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "0123456789");
    for (size_t i = 0; i < BASE_ARRAY_COUNT(wheres); i++) {
        uint8_t buffer[32];
        memset(buffer, 'x', sizeof buffer);
        expect_count(do_it(c, 0, at_where(a_read(file, 2, buffer, 4), wheres[i])), 4);
        assert_memory_equal(buffer, "2345xxxx", 8);
        expect_count(do_it(c, 0, at_where(a_read(file, 6, buffer, 32), wheres[i])), 4);
        assert_memory_equal(buffer, "6789xxxx", 8);
        expect_count(do_it(c, 0, at_where(a_read(file, 10, buffer, 32), wheres[i])), 0);
        expect_count(do_it(c, 0, at_where(a_read(file, 1000, buffer, 32), wheres[i])), 0);
        expect_count(do_it(c, 0, at_where(a_read(file, 0, buffer, 0), wheres[i])), 0);
    }
    finish(c);
}

static void a_gap_before_a_write_reads_as_zeros(void **state)
{
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_COUNT(wheres); i++) {
        struct contract *c = given_disks(1);
        struct port_file file = given_file_with(c, 0, "a", "ab");
        struct port_piece piece = memory("z", 1);
        expect_count(do_it(c, 0, at_where(a_write(file, 6, &piece, 1), wheres[i])), 1);
        expect_file_holds(c, file, "ab\0\0\0\0z", 7);
        finish(c);
    }
}

static void the_pieces_of_a_write_follow_each_other(void **state)
{
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_COUNT(wheres); i++) {
        struct contract *c = given_disks(1);
        struct port_file file = given_file_with(c, 0, "a", "........");
        struct port_piece pieces[] = {memory("ab", 2), memory(NULL, 0), memory("c", 1), memory("def", 3)};
        expect_count(do_it(c, 0, at_where(a_write(file, 1, pieces, 4), wheres[i])), 6);
        expect_file_holds(c, file, ".abcdef.", 8);
        expect_count(do_it(c, 0, at_where(a_write(file, 1, pieces, 0), wheres[i])), 0);
        finish(c);
    }
}

/* Wherever each runs: the later one must be what is read afterwards, and completions come in the order asked. */
static void writes_and_truncates_of_a_file_run_in_the_order_asked(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file(c, 0, "a");
    static const char *const words[] = {"1111", "2222", "3333", "4444", "5555", "6666", "7777", "8888"};
    for (uint32_t mask = 0; mask < 256; mask += 5) {
        struct port_piece pieces[8];
        struct port_effect effects[8];
        uint64_t tokens[8];
        for (uint32_t i = 0; i < 8; i++) {
            pieces[i] = memory(words[i], 4);
            enum port_where where = (mask >> i & 1) != 0 ? PORT_ON_SHARD : PORT_ON_DISK;
            effects[i] = at_where(a_write(file, i == 7 ? 1 : 0, &pieces[i], 1), where);
        }
        effects[5] = a_truncate(file, 2);
        ask_all(c, 0, effects, 8, tokens);
        for (uint32_t i = 0; i < 8; i++) { expect_rc(await(c, tokens[i]), PORT_OK); }
        for (uint32_t i = 1; i < 8; i++) { assert_true(place_of(c, tokens[i - 1]) < place_of(c, tokens[i])); }
        expect_file_holds(c, file, "78888", 5);
    }
    finish(c);
}

static void truncating_then_appending_leaves_what_was_appended(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "0123456789");
    struct port_piece piece = memory("new", 3);
    struct port_effect effects[] = {a_truncate(file, 4), at_where(a_write(file, 4, &piece, 1), PORT_ON_SHARD)};
    uint64_t tokens[2];
    ask_all(c, 0, effects, 2, tokens);
    expect_rc(await(c, tokens[0]), PORT_OK);
    expect_count(await(c, tokens[1]), 3);
    expect_file_holds(c, file, "0123new", 7);
    expect_rc(do_it(c, 0, a_truncate(file, 9)), PORT_OK); /* larger: zeros */
    expect_file_holds(c, file, "0123new\0\0", 9);
    finish(c);
}

static void allocating_keeps_the_size(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "abc");
    struct port_effect allocate = of_file(PORT_ALLOCATE, file);
    allocate.position_bytes = 3;
    allocate.size_bytes = 65536;
    expect_rc(do_it(c, 0, allocate), PORT_OK);
    expect_file_holds(c, file, "abc", 3);
    finish(c);
}

static void syncs_of_a_file_and_its_directory_complete(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "abc");
    expect_rc(do_it(c, 0, of_file(PORT_SYNC, file)), PORT_OK);
    expect_rc(do_it(c, 0, by_name(PORT_SYNC_DIR, "")), PORT_OK);
    expect_rc(do_it(c, 0, by_name(PORT_MAKE_DIR, "d")), PORT_OK);
    expect_rc(do_it(c, 0, by_name(PORT_SYNC_DIR, "d")), PORT_OK);
    expect_rc(do_it(c, 0, by_name(PORT_SYNC_DIR, "e")), PORT_MISSING);
    expect_rc(do_it(c, 0, by_name(PORT_SYNC_DIR, "a")), PORT_NOT_DIR);
    finish(c);
}

static void a_disk_says_how_large_it_is_and_how_much_of_it_is_free(void **state)
{
    (void)state;
    struct contract *c = given_disks(2);
    for (uint32_t disk = 0; disk < 2; disk++) {
        struct port_effect space = {.kind = PORT_SPACE, .disk = disk};
        struct port_event said = do_it(c, 0, space);
        expect_rc(said, PORT_OK);
        assert_true(said.done.total_bytes > 0);
        assert_true(said.done.count <= said.done.total_bytes);
    }
    finish(c);
}

static void syncs_and_truncates_of_a_file_take_turns(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "0123456789");
    struct port_piece piece = memory("+", 1);
    for (int round = 0; round < 8; round++) {
        struct port_effect effects[] = {of_file(PORT_SYNC, file),    a_truncate(file, 3),      of_file(PORT_SYNC, file),
                                        a_write(file, 3, &piece, 1), of_file(PORT_SYNC, file), a_truncate(file, 2),
                                        a_write(file, 2, &piece, 1)};
        uint64_t tokens[7];
        ask_all(c, 0, effects, 7, tokens);
        for (int i = 0; i < 7; i++) { expect_rc(await(c, tokens[i]), PORT_OK); }
        assert_true(place_of(c, tokens[0]) < place_of(c, tokens[1])); /* the truncate waited for the sync */
        assert_true(place_of(c, tokens[1]) < place_of(c, tokens[2])); /* and the next sync for the truncate */
        expect_file_holds(c, file, "01+", 3);
    }
    finish(c);
}

static void closing_a_file_waits_for_what_is_outstanding(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "0123456789");
    struct port_piece piece = memory("w", 1);
    uint8_t buffer[4];
    struct port_effect effects[] = {a_read(file, 0, buffer, 4), a_write(file, 0, &piece, 1),
                                    of_file(PORT_SYNC, file),   a_truncate(file, 5),
                                    of_file(PORT_SYNC, file),   of_file(PORT_CLOSE_FILE, file)};
    uint64_t tokens[6];
    ask_all(c, 0, effects, 6, tokens);
    expect_rc(await(c, tokens[5]), PORT_OK);
    for (int i = 0; i < 5; i++) {
        assert_true(has_completed(c, tokens[i]));
        assert_true(place_of(c, tokens[i]) < place_of(c, tokens[5]));
        expect_rc(await(c, tokens[i]), PORT_OK);
    }
    expect_count(do_it(c, 0, an_open(file_id(0, 0, 2), "a", PORT_OPEN_READ)), 5);
    finish(c);
}

static void renaming_over_an_open_file_keeps_it_readable(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file old = given_file_with(c, 0, "old", "old words");
    struct port_file new = given_file_with(c, 1, "new", "new words!");
    expect_rc(do_it(c, 0, a_rename("new", "old")), PORT_OK);
    expect_file_holds(c, old, "old words", 9);
    expect_file_holds(c, new, "new words!", 10);
    expect_count(do_it(c, 0, an_open(file_id(0, 2, 1), "old", PORT_OPEN_READ)), 10);
    expect_rc(do_it(c, 0, an_open(file_id(0, 3, 1), "new", PORT_OPEN_READ)), PORT_MISSING);
    expect_rc(do_it(c, 0, a_rename("new", "x")), PORT_MISSING);
    finish(c);
}

static void an_unlinked_file_stays_readable_and_writable(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "abc");
    expect_rc(do_it(c, 0, by_name(PORT_UNLINK, "a")), PORT_OK);
    expect_rc(do_it(c, 0, by_name(PORT_UNLINK, "a")), PORT_MISSING);
    struct port_piece piece = memory("d", 1);
    expect_count(do_it(c, 0, a_write(file, 3, &piece, 1)), 1);
    expect_file_holds(c, file, "abcd", 4);
    expect_count(do_it(c, 0, an_open(file_id(0, 1, 1), "a", PORT_OPEN_WRITE | PORT_OPEN_CREATE)), 0);
    expect_file_holds(c, file, "abcd", 4);
    finish(c);
}

static void directories_are_made_filled_and_removed(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    expect_rc(do_it(c, 0, by_name(PORT_MAKE_DIR, "d")), PORT_OK);
    expect_rc(do_it(c, 0, by_name(PORT_MAKE_DIR, "d")), PORT_EXISTS);
    expect_rc(do_it(c, 0, by_name(PORT_MAKE_DIR, "e/f")), PORT_MISSING);
    (void)given_file_with(c, 0, "d/a", "abc");
    expect_rc(do_it(c, 0, by_name(PORT_REMOVE_DIR, "d")), PORT_NOT_EMPTY);
    expect_rc(do_it(c, 0, by_name(PORT_MAKE_DIR, "d/a/b")), PORT_NOT_DIR);
    expect_rc(do_it(c, 0, an_open(file_id(0, 1, 1), "d", PORT_OPEN_READ)), PORT_NOT_DIR);
    expect_rc(do_it(c, 0, by_name(PORT_UNLINK, "d")), PORT_NOT_DIR);
    expect_rc(do_it(c, 0, by_name(PORT_REMOVE_DIR, "d/a")), PORT_NOT_DIR);
    expect_rc(do_it(c, 0, by_name(PORT_UNLINK, "d/a")), PORT_OK);
    expect_rc(do_it(c, 0, by_name(PORT_REMOVE_DIR, "d")), PORT_OK);
    expect_rc(do_it(c, 0, by_name(PORT_REMOVE_DIR, "d")), PORT_MISSING);
    finish(c);
}

static void names_that_leave_the_disk_are_refused(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    static const char *const bad[] = {"/tmp/x", "../x", "a/../../x", "..", "a//b", "a/", "", "./a", "."};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(bad); i++) {
        expect_rc(do_it(c, 0, an_open(file_id(0, 0, 1), bad[i], PORT_OPEN_WRITE | PORT_OPEN_CREATE)), PORT_BAD_NAME);
        expect_rc(do_it(c, 0, by_name(PORT_UNLINK, bad[i])), PORT_BAD_NAME);
        expect_rc(do_it(c, 0, a_rename("a", bad[i])), PORT_BAD_NAME);
        expect_rc(do_it(c, 0, a_rename(bad[i], "a")), PORT_BAD_NAME);
    }
    struct port_effect with_nul = by_name(PORT_MAKE_DIR, "a");
    with_nul.path = base_slice_of("a\0b", 3);
    expect_rc(do_it(c, 0, with_nul), PORT_BAD_NAME);
    (void)given_file(c, 1, "..a");
    finish(c);
}

static size_t add_entry(uint8_t *at, uint8_t kind, uint64_t size_bytes, const char *name)
{
    at[0] = kind;
    base_put_u64(at + 1, size_bytes);
    base_put_u16(at + 9, (uint16_t)strlen(name));
    memcpy(at + PORT_ENTRY_HEAD_BYTES, name, strlen(name));
    return PORT_ENTRY_HEAD_BYTES + strlen(name);
}

static void a_listing_is_sorted_bytewise_and_tells_kinds_and_sizes(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    (void)given_file_with(c, 0, "b", "bb");
    (void)given_file_with(c, 1, "a.log", "1");
    (void)given_file_with(c, 2, "B", "");
    expect_rc(do_it(c, 0, by_name(PORT_MAKE_DIR, "a")), PORT_OK);
    (void)given_file_with(c, 3, "a/inner", "12345");
    uint8_t expected[128];
    size_t size_bytes = add_entry(expected, 0, 0, "B");
    size_bytes += add_entry(expected + size_bytes, 1, 0, "a");
    size_bytes += add_entry(expected + size_bytes, 0, 1, "a.log");
    size_bytes += add_entry(expected + size_bytes, 0, 2, "b");
    uint8_t buffer[128];
    struct port_event done = do_it(c, 0, a_list("", buffer, sizeof buffer, 0));
    expect_count(done, size_bytes);
    assert_false(done.done.is_more);
    assert_memory_equal(buffer, expected, size_bytes);
    size_bytes = add_entry(expected, 0, 5, "inner");
    expect_count(do_it(c, 0, a_list("a", buffer, sizeof buffer, 0)), size_bytes);
    assert_memory_equal(buffer, expected, size_bytes);
    expect_rc(do_it(c, 0, a_list("b", buffer, sizeof buffer, 0)), PORT_NOT_DIR);
    expect_rc(do_it(c, 0, a_list("c", buffer, sizeof buffer, 0)), PORT_MISSING);
    finish(c);
}

static void a_listing_continues_where_the_buffer_ended(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    static const char *const names[] = {"f0", "f1", "f2", "f3", "f4"};
    for (uint32_t i = 0; i < 5; i++) { (void)given_file(c, i, names[i]); }
    uint8_t buffer[2 * (PORT_ENTRY_HEAD_BYTES + 2) + 1];
    uint64_t skip = 0;
    for (;;) {
        struct port_event done = do_it(c, 0, a_list("", buffer, sizeof buffer, skip));
        expect_rc(done, PORT_OK);
        uint64_t entries = done.done.count / (PORT_ENTRY_HEAD_BYTES + 2);
        for (uint64_t i = 0; i < entries; i++) {
            const uint8_t *at = buffer + i * (PORT_ENTRY_HEAD_BYTES + 2);
            assert_memory_equal(at + PORT_ENTRY_HEAD_BYTES, names[skip + i], 2);
        }
        skip += entries;
        if (!done.done.is_more) { break; }
        assert_int_equal(entries, 2);
    }
    assert_int_equal(skip, 5);
    expect_count(do_it(c, 0, a_list("", buffer, sizeof buffer, 5)), 0);
    expect_count(do_it(c, 0, a_list("", buffer, sizeof buffer, 500)), 0);
    struct port_event small = do_it(c, 0, a_list("", buffer, 3, 0));
    expect_count(small, 0);
    assert_true(small.done.is_more);
    finish(c);
}

static void two_disks_have_names_of_their_own(void **state)
{
    (void)state;
    struct contract *c = given_disks(2);
    (void)given_file_with(c, 0, "a", "on the first");
    struct port_effect open = an_open(file_id(0, 1, 1), "a", PORT_OPEN_WRITE | PORT_OPEN_CREATE);
    open.disk = 1;
    expect_count(do_it(c, 0, open), 0);
    finish(c);
}

static void a_file_open_for_reading_refuses_writes(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "abc");
    struct port_file reader = file_id(0, 1, 1);
    expect_count(do_it(c, 0, an_open(reader, "a", PORT_OPEN_READ)), 3);
    struct port_piece piece = memory("x", 1);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(wheres); i++) {
        expect_rc(do_it(c, 0, at_where(a_write(reader, 0, &piece, 1), wheres[i])), PORT_DENIED);
    }
    expect_rc(do_it(c, 0, a_truncate(reader, 1)), PORT_DENIED);
    struct port_effect allocate = of_file(PORT_ALLOCATE, reader);
    allocate.size_bytes = 1;
    expect_rc(do_it(c, 0, allocate), PORT_DENIED);
    expect_rc(do_it(c, 0, of_file(PORT_SYNC, reader)), PORT_OK); /* and holds nothing up */
    expect_file_holds(c, file, "abc", 3);
    finish(c);
}

static void many_reads_run_beside_writes(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "0123456789abcdef");
    struct port_piece piece = memory("z", 1);
    struct port_effect effects[64];
    uint64_t tokens[64];
    static uint8_t buffers[64][8];
    for (uint32_t i = 0; i < 64; i++) {
        enum port_where where = i % 3 == 0 ? PORT_ON_SHARD : PORT_ON_DISK;
        effects[i] = i % 2 == 0 ? at_where(a_write(file, 15 + i, &piece, 1), where)
                                : at_where(a_read(file, 0, buffers[i], 8), where);
    }
    ask_all(c, 0, effects, 64, tokens);
    for (uint32_t i = 0; i < 64; i++) {
        struct port_event done = await(c, tokens[i]);
        expect_count(done, i % 2 == 0 ? 1 : 8);
        if (i % 2 == 1) { assert_memory_equal(buffers[i], "01234567", 8); }
    }
    finish(c);
}

const struct CMUnitTest contract_file_cases[] = {
    cmocka_unit_test(a_missing_file_opens_only_with_create),
    cmocka_unit_test(an_exclusive_create_finds_what_is_there),
    cmocka_unit_test(opening_tells_the_size),
    cmocka_unit_test(a_closed_slot_serves_again_with_another_generation),
    cmocka_unit_test(reading_at_the_end_is_short_and_past_it_nothing),
    cmocka_unit_test(a_gap_before_a_write_reads_as_zeros),
    cmocka_unit_test(the_pieces_of_a_write_follow_each_other),
    cmocka_unit_test(writes_and_truncates_of_a_file_run_in_the_order_asked),
    cmocka_unit_test(truncating_then_appending_leaves_what_was_appended),
    cmocka_unit_test(allocating_keeps_the_size),
    cmocka_unit_test(syncs_of_a_file_and_its_directory_complete),
    cmocka_unit_test(a_disk_says_how_large_it_is_and_how_much_of_it_is_free),
    cmocka_unit_test(syncs_and_truncates_of_a_file_take_turns),
    cmocka_unit_test(closing_a_file_waits_for_what_is_outstanding),
    cmocka_unit_test(renaming_over_an_open_file_keeps_it_readable),
    cmocka_unit_test(an_unlinked_file_stays_readable_and_writable),
    cmocka_unit_test(directories_are_made_filled_and_removed),
    cmocka_unit_test(names_that_leave_the_disk_are_refused),
    cmocka_unit_test(a_listing_is_sorted_bytewise_and_tells_kinds_and_sizes),
    cmocka_unit_test(a_listing_continues_where_the_buffer_ended),
    cmocka_unit_test(two_disks_have_names_of_their_own),
    cmocka_unit_test(a_file_open_for_reading_refuses_writes),
    cmocka_unit_test(many_reads_run_beside_writes),
};
const size_t contract_file_case_count = BASE_ARRAY_COUNT(contract_file_cases);
