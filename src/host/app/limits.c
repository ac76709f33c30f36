/* limits.c: memory, cores, descriptors, dice and names of this machine.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include "host/uv/address.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct kept {
    struct kept *next;
    max_align_t bytes[];
};
static struct kept *kept_first;

void *app_keep(size_t size_bytes)
{
    struct kept *kept = calloc(1, sizeof *kept + size_bytes);
    if (kept == NULL) { return NULL; }
    kept->next = kept_first;
    kept_first = kept;
    return kept->bytes;
}

static char *read_all(int fd, size_t likely_bytes, size_t bytes_max, size_t *size_bytes_out)
{
    size_t room = likely_bytes < 65536 ? 65536 : likely_bytes + 1; /* one more tells that it was all */
    size_t used = 0;
    char *bytes = malloc(room);
    while (bytes != NULL) {
        ssize_t got = read(fd, bytes + used, room - used);
        if (got < 0 && errno == EINTR) { continue; }
        used += got > 0 ? (size_t)got : 0;
        if (got == 0) {
            *size_bytes_out = used;
            return bytes;
        }
        int error = got < 0 ? errno : used > bytes_max ? EFBIG : 0;
        char *larger = error == 0 && used == room ? realloc(bytes, room * 2) : bytes;
        if (larger == NULL) { error = ENOMEM; }
        if (error != 0) {
            free(bytes);
            errno = error;
            return NULL;
        }
        room = used == room ? room * 2 : room;
        bytes = larger;
    }
    return NULL;
}

static char *read_path(const char *path, int flags, size_t bytes_max, size_t *size_bytes_out)
{
    struct stat info = {.st_size = 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0) { return NULL; }
    char *bytes = NULL;
    bool is_waited_for = (flags & O_NONBLOCK) == 0;
    if (is_waited_for || (fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)))) {
        bytes =
            read_all(fd, (size_t)info.st_size, bytes_max, size_bytes_out); /* a directory opens, but can't be read */
    } else {
        errno = EINVAL;
    }
    int error = errno;
    (void)close(fd); /* only read */
    errno = error;
    return bytes;
}

char *app_read_file(const char *path, size_t *size_bytes_out)
{
    return read_path(path, O_NONBLOCK, SIZE_MAX, size_bytes_out);
}

char *app_read_input(const char *path, size_t bytes_max, size_t *size_bytes_out)
{
    return read_path(path, 0, bytes_max, size_bytes_out);
}

uint64_t app_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : (uint64_t)1 << 30;
    return base_min_u64(bytes, app_cgroup_bytes("/proc/self/cgroup", "/sys/fs/cgroup"));
}

uint32_t app_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) { return 1; }
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : (uint32_t)count;
}

uint64_t app_raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) { return 1024; }
    struct rlimit wanted = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &wanted) == 0) { limit = wanted; }
    return limit.rlim_cur == RLIM_INFINITY ? (uint64_t)1 << 30 : (uint64_t)limit.rlim_cur;
}

bool app_region(size_t size_bytes, struct base_region *region_out)
{
    void *at = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) { return false; }
    *region_out = (struct base_region){.at = at, .size_bytes = size_bytes};
    return true;
}

bool app_region_clear(struct base_region region) { return madvise(region.at, region.size_bytes, MADV_DONTNEED) == 0; }

void app_random(void *at, size_t size_bytes)
{
    uint8_t *to = at;
    while (size_bytes > 0) {
        ssize_t got = getrandom(to, size_bytes, 0);
        if (got < 0 && errno == EINTR) { continue; }
        if (got <= 0) { exit(app_error(NULL, "no random bytes from the system: %s", strerror(errno))); }
        to += got;
        size_bytes -= (size_t)got;
    }
}

bool app_resolve(const char *host, struct port_address *address_out)
{
    if (port_address_from_text(base_slice_text(host), address_out) == BASE_OK) { return true; }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, NULL, &hints, &found) != 0 || found == NULL) { return false; }
    *address_out = host_address_from_system(host_address_best(found)->ai_addr);
    freeaddrinfo(found);
    return true;
}
