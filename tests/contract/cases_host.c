/* cases_host.c: what only the real world has: its error words, a full disk, no descriptors left, names from the system.
 *
 * Errors  are the kernel's own, and need no right that a plain container lacks: NO_SPACE by a limit on the size of files, IO by
 *         reading and writing /proc/self/mem where nothing is mapped, NO_MEMORY by reading a file of /proc/sys with a buffer that
 *         the kernel finds too large, DENIED by unlinking in /proc, NO_HANDLES by a limit on descriptors, TIMED_OUT by a peer that
 *         reads nothing for longer than TCP_USER_TIMEOUT. Links in the disk's directory lead to those files.
 * Mounts  a disk that is really full, or read-only, is a small tmpfs: where none can be mounted the case is skipped, and says
 *         so; the words do not depend on it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/uv/host.h"

static const enum port_where wheres[] = {PORT_ON_DISK, PORT_ON_SHARD};

static void every_errno_that_matters_has_its_word(void **state)
{
    (void)state;
    static const struct {
        int error;
        enum port_rc rc;
    } words[] = {
        {0, PORT_OK},
        {ENOSPC, PORT_NO_SPACE},
        {EDQUOT, PORT_NO_SPACE},
        {EIO, PORT_IO},
        {EMFILE, PORT_NO_HANDLES},
        {ENFILE, PORT_NO_HANDLES},
        {ECONNREFUSED, PORT_REFUSED},
        {ECONNRESET, PORT_RESET},
        {EPIPE, PORT_RESET},
        {EADDRINUSE, PORT_IN_USE},
        {ETIMEDOUT, PORT_TIMED_OUT},
        {EHOSTUNREACH, PORT_UNREACHABLE},
        {EROFS, PORT_DENIED},
        {EACCES, PORT_DENIED},
        {ENOENT, PORT_MISSING},
        {EEXIST, PORT_EXISTS},
        {ENOTDIR, PORT_NOT_DIR},
        {EISDIR, PORT_NOT_DIR},
        {ENOTEMPTY, PORT_NOT_EMPTY},
        {ENAMETOOLONG, PORT_BAD_NAME},
        {EBADF, PORT_OTHER},
        {12345, PORT_OTHER},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(words); i++) {
        assert_int_equal(host_rc_of_errno(words[i].error), words[i].rc);
    }
}

/* One disk, a tmpfs of a MiB that is mounted in a new directory. Skips the test where none can be mounted. */
static struct contract *given_mount(char *mount_point)
{
    assert_non_null(mkdtemp(mount_point));
    if (mount("tmpfs", mount_point, "tmpfs", 0, "size=1m") != 0) {
        print_message("skipped: cannot mount a tmpfs here: %s\n", strerror(errno));
        assert_int_equal(rmdir(mount_point), 0);
        skip();
    }
    host_driver_root(mount_point);
    struct contract *c = given_disks(1);
    host_driver_root(NULL);
    return c;
}

static void finish_mount(struct contract *c, const char *mount_point)
{
    finish(c);
    assert_int_equal(umount(mount_point), 0);
    assert_int_equal(rmdir(mount_point), 0);
}

static void a_full_disk_is_no_space_and_heals_when_something_is_deleted(void **state)
{
    (void)state;
    char mount_point[] = "/tmp/weir-full-XXXXXX";
    struct contract *c = given_mount(mount_point);
    static uint8_t large[(size_t)4 << 20];
    for (uint32_t i = 0; i < 2; i++) {
        struct port_file file = given_file(c, i, "a");
        struct port_piece piece = memory(large, sizeof large);
        struct port_effect write = a_write(file, 0, &piece, 1);
        write.where = wheres[i];
        struct port_event done = do_it(c, 0, write); /* what fits is written, and counts */
        expect_rc(done, PORT_OK);
        assert_true(done.done.count > 0 && done.done.count < sizeof large);
        write.position_bytes = done.done.count;
        expect_rc(do_it(c, 0, write), PORT_NO_SPACE);
        struct port_effect allocate = of_file(PORT_ALLOCATE, file);
        allocate.size_bytes = sizeof large;
        expect_rc(do_it(c, 0, allocate), PORT_NO_SPACE);
        uint8_t byte;
        assert_int_equal(do_it(c, 0, a_read(file, 0, &byte, 1)).done.count, 1);
        expect_rc(do_it(c, 0, by_name(PORT_UNLINK, "a")), PORT_OK);
        expect_rc(do_it(c, 0, of_file(PORT_CLOSE_FILE, file)), PORT_OK);
    }
    finish_mount(c, mount_point);
}

static void a_read_only_disk_is_denied(void **state)
{
    (void)state;
    char mount_point[] = "/tmp/weir-ro-XXXXXX";
    struct contract *c = given_mount(mount_point);
    assert_int_equal(mount("tmpfs", mount_point, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m"), 0);
    expect_rc(do_it(c, 0, an_open(file_id(0, 0, 1), "a", PORT_OPEN_WRITE | PORT_OPEN_CREATE)), PORT_DENIED);
    expect_rc(do_it(c, 0, by_name(PORT_MAKE_DIR, "d")), PORT_DENIED);
    assert_int_equal(mount("tmpfs", mount_point, "tmpfs", MS_REMOUNT, "size=1m"), 0);
    finish_mount(c, mount_point);
}

static void without_descriptors_opens_and_accepts_say_so(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    (void)given_file_with(c, 0, "a", "abc");
    /* one more that waits to be accepted, then no descriptor is left */
    struct port_conn next = {.slot = 5, .generation = 1};
    expect_rc(do_it(c, 0, (struct port_effect){.kind = PORT_CONNECT, .conn = next, .address = pair.bound}), PORT_OK);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct port_effect accept = {.kind = PORT_ACCEPT, .listener = pair.listener, .conn = {.slot = 6, .generation = 1}};
    struct port_event accepted = do_it(c, 0, accept);
    struct port_event opened = do_it(c, 0, an_open(file_id(0, 1, 1), "a", PORT_OPEN_READ));
    struct port_event listed = do_it(c, 0, by_name(PORT_SYNC_DIR, ""));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    expect_rc(accepted, PORT_NO_HANDLES);
    expect_rc(opened, PORT_NO_HANDLES);
    expect_rc(listed, PORT_NO_HANDLES);
    expect_rc(do_it(c, 0, accept), PORT_OK); /* it was still waiting, and the id was free */
    finish(c);
}

static void names_of_the_system_are_resolved(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct port_effect resolve = {.kind = PORT_RESOLVE, .path = base_slice_text("localhost")};
    struct port_event done = do_it(c, 0, resolve);
    expect_rc(done, PORT_OK);
    assert_memory_equal(done.done.address.ip, host_driver.address.ip, 16);
    resolve.path = base_slice_text("no-such-name.invalid");
    assert_int_not_equal(do_it(c, 0, resolve).done.rc, PORT_OK);
    finish(c);
}

static void a_pipe_is_not_a_file(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    char path[300];
    (void)snprintf(path, sizeof path, "%s/pipe", host_driver_disk(contract_world(c), 0));
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_rc(do_it(c, 0, an_open(file_id(0, 0, 1), "pipe", PORT_OPEN_READ)), PORT_OTHER);
    uint8_t buffer[64];
    struct port_event done = do_it(c, 0, a_list("", buffer, sizeof buffer, 0));
    assert_int_equal(done.done.count, PORT_ENTRY_HEAD_BYTES + 4);
    assert_int_equal(buffer[0], 2);
    finish(c);
}

static void a_missing_directory_says_which(void **state)
{
    (void)state;
    static const char *const disks[] = {"/no/such/directory"};
    void *machine = NULL;
    struct host_config config = {
        .shards = 1, .disks = disks, .disk_count = 1, .step = contract_step, .machines = &machine};
    struct host *host = NULL;
    char why[HOST_WHY_BYTES];
    assert_int_equal(host_create(&config, &host, why), PORT_MISSING);
    assert_null(host);
    assert_non_null(strstr(why, "/no/such/directory"));
}

/* Written, synced, and dropped from the page cache (where the file system does that): read by the disk's threads. */
static void ranges_that_are_not_cached_are_sent_whole(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    struct pair pair = given_pair(c);
    struct port_file file = given_file(c, 0, "cold");
    size_t size_bytes = (size_t)9 << 20;
    uint8_t *bytes = malloc(size_bytes);
    CHECK(bytes != NULL);
    struct base_prng prng;
    base_prng_init(&prng, 5, 0);
    base_prng_fill(&prng, bytes, size_bytes);
    struct port_piece piece = memory(bytes, size_bytes);
    assert_int_equal(do_it(c, 0, a_write(file, 0, &piece, 1)).done.count, size_bytes);
    expect_rc(do_it(c, 0, of_file(PORT_SYNC, file)), PORT_OK);
    char path[300];
    (void)snprintf(path, sizeof path, "%s/cold", host_driver_disk(contract_world(c), 0));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        struct port_piece pieces[] = {memory(bytes, 10), range(file, 10, size_bytes - 20),
                                      range(file, size_bytes - 10, 10)};
        uint64_t sent = ask(c, 0, a_send(pair.near, pieces, 3));
        expect_receives(c, pair.far, bytes, size_bytes);
        expect_rc(await(c, sent), PORT_OK);
    }
    /* and a close while the disk reads */
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    struct port_piece all = range(file, 0, size_bytes);
    uint64_t token = ask(c, 0, a_send(pair.near, &all, 1));
    expect_rc(do_it(c, 0, of_conn(PORT_CLOSE, pair.near)), PORT_OK);
    assert_true(has_completed(c, token));
    expect_rc(do_it(c, 0, of_file(PORT_CLOSE_FILE, file)), PORT_OK);
    assert_int_equal(close(fd), 0);
    free(bytes);
    finish(c);
}

/* What waits in the system is ready too: the loop is polled between the step that asks and CONTINUE. */
static void continue_comes_after_what_the_system_has_ready(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    struct port_conn waiting = {.slot = 5, .generation = 1};
    expect_rc(do_it(c, 0, (struct port_effect){.kind = PORT_CONNECT, .conn = waiting, .address = pair.bound}), PORT_OK);
    struct port_effect accept = {.kind = PORT_ACCEPT, .listener = pair.listener, .conn = {.slot = 6, .generation = 1}};
    uint64_t token;
    uint32_t from = history_count(c, 0);
    wish(c, 0, &(struct contract_wish){.effects = &accept, .effect_count = 1, .wants_continue = true}, &token);
    uint32_t place = await_kind(c, 0, PORT_EVENT_CONTINUE, from);
    assert_true(place_of(c, token) < place);
    finish(c);
}

static size_t descriptor_count(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 256; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) { count += 1; }
    }
    return count;
}

static void a_world_leaves_no_descriptor_behind(void **state)
{
    (void)state;
    struct contract *first = given_shards(2); /* libuv opens some that stay, once per process */
    finish(first);
    size_t before = descriptor_count();
    struct contract *c = given_shards(2);
    (void)given_pair(c);
    (void)given_file_with(c, 0, "a", "abc");
    finish(c);
    assert_int_equal(descriptor_count(), before);
}

/* ---- errors of the kernel ---- */

/* A name on the disk that leads to `target`. */
static void given_link(struct contract *c, const char *name, const char *target)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", host_driver_disk(contract_world(c), 0), name);
    assert_int_equal(symlink(target, path), 0);
}

static void a_file_that_may_not_grow_takes_what_fits_and_is_no_space_then(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    static uint8_t bytes[3000];
    for (uint32_t i = 0; i < BASE_ARRAY_COUNT(wheres); i++) {
        struct port_file file = given_file_with(c, i, i == 0 ? "a" : "b", "0123456789");
        struct rlimit before;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 1000, .rlim_max = before.rlim_max}), 0);
        struct port_piece piece = memory(bytes, sizeof bytes);
        struct port_effect write = a_write(file, 10, &piece, 1);
        write.where = wheres[i];
        struct port_event cut = do_it(c, 0, write);
        write.position_bytes = 1000;
        struct port_event full = do_it(c, 0, write);
        struct port_event larger = do_it(c, 0, a_truncate(file, 1001));
        write.position_bytes = 0;
        write.pieces = &(struct port_piece){.at = bytes, .size_bytes = 1000};
        struct port_event inside = do_it(c, 0, write);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        expect_rc(cut, PORT_OK); /* a short write */
        assert_int_equal(cut.done.count, 990);
        expect_rc(full, PORT_NO_SPACE);
        expect_rc(larger, PORT_NO_SPACE);
        expect_rc(inside, PORT_OK);
        write.position_bytes = 1000;
        expect_rc(do_it(c, 0, write), PORT_OK); /* it heals */
    }
    finish(c);
}

static void an_error_of_the_device_is_io(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    given_link(c, "mem", "/proc/self/mem");
    struct port_file file = file_id(0, 0, 1);
    expect_rc(do_it(c, 0, an_open(file, "mem", PORT_OPEN_WRITE)), PORT_OK);
    uint8_t byte = 0;
    struct port_piece piece = memory(&byte, 1);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(wheres); i++) {
        struct port_effect read = a_read(file, 0, &byte, 1); /* nothing is mapped at address 0 */
        read.where = wheres[i];
        struct port_event done = do_it(c, 0, read);
        expect_rc(done, PORT_IO);
        assert_int_equal(done.done.count, 0);
        struct port_effect write = a_write(file, 0, &piece, 1);
        write.where = wheres[i];
        expect_rc(do_it(c, 0, write), PORT_IO);
    }
    struct port_event synced = do_it(c, 0, of_file(PORT_SYNC, file)); /* such a file can't be synced */
    assert_int_not_equal(synced.done.rc, PORT_OK);
    expect_rc(do_it(c, 0, of_file(PORT_CLOSE_FILE, file)), PORT_OK);
    finish(c);
}

static void a_kernel_without_memory_says_so(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    given_link(c, "ostype", "/proc/sys/kernel/ostype");
    struct port_file file = file_id(0, 0, 1);
    expect_rc(do_it(c, 0, an_open(file, "ostype", PORT_OPEN_READ)), PORT_OK);
    size_t size_bytes = (size_t)64 << 20; /* more than the kernel is ready to allocate for it */
    uint8_t *buffer = malloc(size_bytes);
    CHECK(buffer != NULL);
    expect_rc(do_it(c, 0, a_read(file, 0, buffer, size_bytes)), PORT_NO_MEMORY);
    assert_int_equal(do_it(c, 0, a_read(file, 0, buffer, 5)).done.count, 5);
    assert_memory_equal(buffer, "Linux", 5);
    free(buffer);
    finish(c);
}

static void a_name_that_may_not_be_changed_is_denied(void **state)
{
    (void)state;
    struct contract *c = given_disks(1);
    given_link(c, "proc", "/proc/self");
    expect_rc(do_it(c, 0, by_name(PORT_UNLINK, "proc/stat")), PORT_DENIED); /* not even for root */
    finish(c);
}

/* The descriptor that is connected to `port`. */
static int descriptor_to(uint16_t port)
{
    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_in peer;
        socklen_t size_bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size_bytes) != 0 || peer.sin_family != AF_INET) { continue; }
        if (ntohs(peer.sin_port) == port) { return fd; }
    }
    fail_msg("no connection to port %u", port);
    return -1;
}

static void a_peer_that_takes_nothing_for_too_long_times_out(void **state)
{
    (void)state;
    struct contract *c = given_shards(1);
    struct pair pair = given_pair(c);
    unsigned patience_ms = 50;
    int fd = descriptor_to(pair.bound.port);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms), 0);
    size_t size_bytes = (size_t)24 << 20; /* more than two socket buffers take */
    uint8_t *large = calloc(1, size_bytes);
    CHECK(large != NULL);
    struct port_piece piece = memory(large, size_bytes);
    struct port_event done = do_it(c, 0, a_send(pair.near, &piece, 1));
    expect_rc(done, PORT_TIMED_OUT);
    assert_true(done.done.count < size_bytes);
    expect_rc(do_it(c, 0, a_send(pair.near, &piece, 1)), PORT_TIMED_OUT); /* as every send from now on */
    expect_rc(do_it(c, 0, of_conn(PORT_CLOSE, pair.near)), PORT_OK);
    free(large);
    finish(c);
}

const struct CMUnitTest contract_host_cases[] = {
    cmocka_unit_test(every_errno_that_matters_has_its_word),
    cmocka_unit_test(a_full_disk_is_no_space_and_heals_when_something_is_deleted),
    cmocka_unit_test(a_read_only_disk_is_denied),
    cmocka_unit_test(without_descriptors_opens_and_accepts_say_so),
    cmocka_unit_test(names_of_the_system_are_resolved),
    cmocka_unit_test(a_pipe_is_not_a_file),
    cmocka_unit_test(a_missing_directory_says_which),
    cmocka_unit_test(continue_comes_after_what_the_system_has_ready),
    cmocka_unit_test(ranges_that_are_not_cached_are_sent_whole),
    cmocka_unit_test(a_world_leaves_no_descriptor_behind),
    cmocka_unit_test(a_file_that_may_not_grow_takes_what_fits_and_is_no_space_then),
    cmocka_unit_test(an_error_of_the_device_is_io),
    cmocka_unit_test(a_kernel_without_memory_says_so),
    cmocka_unit_test(a_name_that_may_not_be_changed_is_denied),
    cmocka_unit_test(a_peer_that_takes_nothing_for_too_long_times_out),
};
const size_t contract_host_case_count = BASE_ARRAY_COUNT(contract_host_cases);
