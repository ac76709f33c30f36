/* cases_world.c: the failures of port.h, as the simulated world gives them: asked for one by one, while the rest goes well.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world_driver.h"

#include <string.h>

#define ALWAYS 1000000u

static void let(struct contract *c, enum world_fault fault) { world_set_rate(world_driver_world(c), fault, ALWAYS); }
static void let_no_more(struct contract *c, enum world_fault fault) { world_set_rate(world_driver_world(c), fault, 0); }

/* Under that fault the effect completes with that word, and once it has gone with PORT_OK. */
static void expect_under(struct contract *c, enum world_fault fault, struct port_effect effect, enum port_rc rc)
{
    let(c, fault);
    expect_rc(do_it(c, 0, effect), rc);
    let_no_more(c, fault);
    expect_rc(do_it(c, 0, effect), PORT_OK);
}

static struct port_effect a_connect(struct port_conn conn, struct port_address address)
{
    return (struct port_effect){.kind = PORT_CONNECT, .conn = conn, .address = address};
}

static void short_counts_are_ok_and_the_rest_can_follow(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file(c, 0, "a");
    static const char words[] = "words that take many writes and reads";
    static const enum world_fault faults[] = {WORLD_DISK_SHORT_WRITE, WORLD_DISK_SHORT_READ};
    for (size_t i = 0; i < 2; i++) {
        let(c, faults[i]);
        char buffer[sizeof words];
        size_t at = 0;
        uint32_t shorts = 0;
        while (at < sizeof words) {
            struct port_piece rest = memory(words + at, sizeof words - at);
            struct port_event done =
                do_it(c, 0, i == 0 ? a_write(file, at, &rest, 1) : a_read(file, at, buffer + at, sizeof words - at));
            expect_rc(done, PORT_OK);
            assert_true(done.done.count > 0 && done.done.count <= sizeof words - at);
            shorts += done.done.count < sizeof words - at;
            at += done.done.count;
        }
        assert_true(shorts > 0);
        if (i == 1) { assert_memory_equal(buffer, words, sizeof words); }
        let_no_more(c, faults[i]);
    }
    expect_file_holds(c, file, words, sizeof words);
    finish(c);
}

static void a_full_disk_is_no_space_and_heals_when_something_is_deleted(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file large = given_file(c, 0, "large");
    static uint8_t bytes[64 << 10];
    struct port_piece piece = memory(bytes, sizeof bytes);
    expect_rc(do_it(c, 0, a_write(large, 0, &piece, 1)), PORT_OK);
    struct port_file file = given_file(c, 1, "a");
    world_set_capacity(world_driver_world(c), 0, 0, sizeof bytes);
    expect_rc(do_it(c, 0, a_write(file, 0, &piece, 1)), PORT_NO_SPACE);
    struct port_effect allocate = of_file(PORT_ALLOCATE, file);
    allocate.size_bytes = sizeof bytes;
    expect_rc(do_it(c, 0, allocate), PORT_NO_SPACE);
    uint8_t byte;
    assert_int_equal(do_it(c, 0, a_read(large, 0, &byte, 1)).done.count, 1);
    expect_rc(do_it(c, 0, by_name(PORT_UNLINK, "large")), PORT_OK);
    expect_rc(do_it(c, 0, by_name(PORT_SYNC_DIR, "")), PORT_OK); /* a power cut can't bring it back */
    expect_rc(do_it(c, 0, of_file(PORT_CLOSE_FILE, large)), PORT_OK);
    expect_rc(do_it(c, 0, a_write(file, 0, &piece, 1)), PORT_OK);
    finish(c);
}

static void what_is_written_takes_of_the_room_that_a_disk_has(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    const struct port_effect space = {.kind = PORT_SPACE};
    uint64_t free_bytes = do_it(c, 0, space).done.count;
    static uint8_t bytes[64 << 10];
    struct port_piece piece = memory(bytes, sizeof bytes);
    expect_rc(do_it(c, 0, a_write(given_file(c, 0, "a"), 0, &piece, 1)), PORT_OK);
    struct port_event said = do_it(c, 0, space);
    expect_rc(said, PORT_OK);
    assert_true(said.done.count + sizeof bytes <= free_bytes);
    world_set_capacity(world_driver_world(c), 0, 0, 2 * sizeof bytes);
    said = do_it(c, 0, space);
    assert_int_equal(said.done.total_bytes, 2 * sizeof bytes);
    assert_true(said.done.count <= sizeof bytes);
    world_fill(world_driver_world(c), 0, 0);
    assert_int_equal(do_it(c, 0, space).done.count, 0);
    finish(c);
}

static void errors_of_the_disk_are_io(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "abc");
    uint8_t buffer[64];
    struct port_piece piece = memory("x", 1);
    struct port_effect allocate = of_file(PORT_ALLOCATE, file);
    allocate.size_bytes = 1;
    expect_under(c, WORLD_DISK_EIO_READ, a_read(file, 0, buffer, 3), PORT_IO);
    expect_under(c, WORLD_DISK_EIO_WRITE, a_write(file, 0, &piece, 1), PORT_IO);
    expect_under(c, WORLD_DISK_EIO_WRITE, a_truncate(file, 2), PORT_IO);
    expect_under(c, WORLD_DISK_EIO_WRITE, allocate, PORT_IO);
    expect_under(c, WORLD_DISK_EIO_SYNC, of_file(PORT_SYNC, file), PORT_IO);
    expect_under(c, WORLD_DISK_EIO_NAME, an_open(file_id(0, 1, 1), "a", PORT_OPEN_READ), PORT_IO);
    expect_under(c, WORLD_DISK_EIO_NAME, a_rename("a", "b"), PORT_IO);
    expect_under(c, WORLD_DISK_EIO_NAME, by_name(PORT_UNLINK, "b"), PORT_IO);
    expect_under(c, WORLD_DISK_EIO_NAME, by_name(PORT_MAKE_DIR, "d"), PORT_IO);
    expect_under(c, WORLD_DISK_EIO_NAME, by_name(PORT_REMOVE_DIR, "d"), PORT_IO);
    expect_under(c, WORLD_DISK_EIO_NAME, by_name(PORT_SYNC_DIR, ""), PORT_IO);
    expect_under(c, WORLD_DISK_EIO_NAME, by_name(PORT_SPACE, ""), PORT_IO);
    expect_under(c, WORLD_DISK_EIO_LIST, a_list("", buffer, sizeof buffer, 0), PORT_IO);
    finish(c);
}

static void without_handles_or_memory_opens_connects_and_accepts_say_so(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct pair pair = given_pair(c);
    struct port_file file = given_file_with(c, 0, "a", "abc");
    uint8_t buffer[3];
    struct port_conn waiting = {.slot = 5, .generation = 1};
    struct port_effect accept = {.kind = PORT_ACCEPT, .listener = pair.listener, .conn = {.slot = 6, .generation = 1}};
    expect_under(c, WORLD_DISK_NO_HANDLES, an_open(file_id(0, 1, 1), "a", PORT_OPEN_READ), PORT_NO_HANDLES);
    expect_under(c, WORLD_DISK_NO_MEMORY, an_open(file_id(0, 2, 1), "a", PORT_OPEN_READ), PORT_NO_MEMORY);
    expect_under(c, WORLD_DISK_NO_MEMORY, a_read(file, 0, buffer, 3), PORT_NO_MEMORY);
    expect_under(c, WORLD_NET_NO_HANDLES, a_connect(waiting, pair.bound), PORT_NO_HANDLES);
    expect_under(c, WORLD_NET_NO_HANDLES, accept, PORT_NO_HANDLES); /* it was still waiting, and the id was free */
    finish(c);
}

static void connects_fail_in_every_way(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct pair pair = given_pair(c);
    expect_under(c, WORLD_NET_REFUSE, a_connect((struct port_conn){5, 1}, pair.bound), PORT_REFUSED);
    expect_under(c, WORLD_NET_TIMEOUT, a_connect((struct port_conn){6, 1}, pair.bound), PORT_TIMED_OUT);
    struct port_effect resolve = {.kind = PORT_RESOLVE, .path = base_slice_text("n0")};
    expect_under(c, WORLD_NET_RESOLVE, resolve, PORT_UNREACHABLE);
    finish(c);
}

static void a_reset_ends_both_directions(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct pair pair = given_pair(c);
    let(c, WORLD_NET_RESET);
    struct port_piece piece = memory("cut off", 7);
    expect_rc(do_it(c, 0, a_send(pair.near, &piece, 1)), PORT_OK); /* all of it left */
    uint8_t buffer[8];
    size_t got = 0;
    struct port_event done;
    while ((done = do_it(c, 0, a_recv(pair.far, buffer + got, sizeof buffer - got))).done.rc == PORT_OK) {
        got += done.done.count;
    }
    expect_rc(done, PORT_RESET);
    assert_true(got <= 7);
    assert_memory_equal(buffer, "cut off", got);
    expect_rc(do_it(c, 0, a_recv(pair.near, buffer, 1)), PORT_RESET);
    finish(c);
}

static void expect_durable(struct contract *c, const char *path, const char *words)
{
    struct base_slice bytes;
    assert_true(world_file_durable(world_driver_world(c), 0, 0, path, &bytes));
    assert_true(base_slice_equal(bytes, base_slice_text(words)));
}

static void a_sync_covers_what_had_completed_and_a_sync_of_the_directory_the_name(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct port_file file = given_file_with(c, 0, "a", "abc");
    struct base_slice bytes;
    assert_false(world_file_durable(world_driver_world(c), 0, 0, "a", &bytes));
    expect_rc(do_it(c, 0, by_name(PORT_SYNC_DIR, "")), PORT_OK);
    expect_durable(c, "a", ""); /* the name alone */
    expect_rc(do_it(c, 0, of_file(PORT_SYNC, file)), PORT_OK);
    expect_durable(c, "a", "abc");
    struct port_piece piece = memory("d", 1);
    expect_rc(do_it(c, 0, a_write(file, 3, &piece, 1)), PORT_OK);
    expect_durable(c, "a", "abc"); /* a write is not a sync */
    expect_rc(do_it(c, 0, a_rename("a", "b")), PORT_OK);
    expect_durable(c, "a", "abc");
    expect_rc(do_it(c, 0, of_file(PORT_SYNC, file)), PORT_OK);
    expect_durable(c, "a", "abcd"); /* by its old name still */
    expect_rc(do_it(c, 0, by_name(PORT_SYNC_DIR, "")), PORT_OK);
    assert_false(world_file_durable(world_driver_world(c), 0, 0, "a", &bytes));
    expect_durable(c, "b", "abcd");
    finish(c);
}

const struct CMUnitTest contract_world_cases[] = {
    cmocka_unit_test(short_counts_are_ok_and_the_rest_can_follow),
    cmocka_unit_test(a_full_disk_is_no_space_and_heals_when_something_is_deleted),
    cmocka_unit_test(what_is_written_takes_of_the_room_that_a_disk_has),
    cmocka_unit_test(errors_of_the_disk_are_io),
    cmocka_unit_test(without_handles_or_memory_opens_connects_and_accepts_say_so),
    cmocka_unit_test(connects_fail_in_every_way),
    cmocka_unit_test(a_reset_ends_both_directions),
    cmocka_unit_test(a_sync_covers_what_had_completed_and_a_sync_of_the_directory_the_name),
};
const size_t contract_world_case_count = BASE_ARRAY_COUNT(contract_world_cases);
