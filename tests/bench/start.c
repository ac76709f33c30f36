/* start.c: bench-start, how long a broker takes from exec to the first record that it has taken.
 *
 *   bench-start PORT FRAME ERROR_AT COMMAND...
 *
 * Runs COMMAND, connects to PORT again and again until somebody answers, sends the file FRAME (a whole Produce request, its length in
 * front) until the answer has no error at byte ERROR_AT (a topic may not be led yet), prints the microseconds that all took and ends
 * the command with SIGTERM. Tries follow each other by 100 us, so that waiting is not what is measured.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FRAME_BYTES_MAX ((size_t)64 << 10)
#define WAIT_NS         UINT64_C(120000000000)

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* can't fail */
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static pid_t child;

static int stop(const char *what)
{
    fprintf(stderr, "bench-start: %s: %s\n", what, strerror(errno));
    if (child > 0) { (void)kill(child, SIGKILL); } /* it may have ended by itself */
    exit(1);
}

static void nap(void)
{
    struct timespec t = {0, 100000};
    (void)nanosleep(&t, NULL); /* a shorter one does no harm */
}

static int dial(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) { (void)stop("a socket"); }
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) { return fd; }
    (void)close(fd); /* nothing was sent */
    return -1;
}

static bool receive_all(int fd, uint8_t *at, size_t size_bytes)
{
    while (size_bytes > 0) {
        ssize_t n = recv(fd, at, size_bytes, 0);
        if (n <= 0) { return false; }
        at += n;
        size_bytes -= (size_t)n;
    }
    return true;
}

/* Whether the broker has taken the record. */
static bool is_taken(int fd, const uint8_t *frame, size_t frame_bytes, size_t error_at)
{
    uint8_t answer[1024];
    uint32_t rest_bytes;
    if (send(fd, frame, frame_bytes, MSG_NOSIGNAL) != (ssize_t)frame_bytes) { return false; }
    if (!receive_all(fd, answer, 4)) { return false; }
    memcpy(&rest_bytes, answer, sizeof rest_bytes);
    rest_bytes = ntohl(rest_bytes);
    if (rest_bytes > sizeof answer - 4 || error_at + 2 > rest_bytes + 4) { (void)stop("a strange answer"); }
    if (!receive_all(fd, answer + 4, rest_bytes)) { return false; }
    return answer[error_at] == 0 && answer[error_at + 1] == 0;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: bench-start PORT FRAME ERROR_AT COMMAND...\n");
        return 2;
    }
    uint16_t port = (uint16_t)strtoul(argv[1], NULL, 10);
    size_t error_at = strtoul(argv[3], NULL, 10);
    static uint8_t frame[FRAME_BYTES_MAX];
    int file_fd = open(argv[2], O_RDONLY | O_CLOEXEC);
    ssize_t frame_bytes = file_fd < 0 ? -1 : read(file_fd, frame, sizeof frame);
    if (frame_bytes <= 0) { (void)stop(argv[2]); }

    uint64_t began_ns = now_ns();
    child = fork();
    if (child < 0) { (void)stop("fork"); }
    if (child == 0) {
        int nothing_fd = open("/dev/null", O_WRONLY);
        (void)dup2(nothing_fd, STDOUT_FILENO); /* or it speaks into the figure */
        (void)execvp(argv[4], argv + 4);
        _exit(127);
    }
    int fd = -1;
    bool is_done = false;
    while (!is_done) {
        if (now_ns() > began_ns + WAIT_NS || waitpid(child, NULL, WNOHANG) != 0) { (void)stop("it did not serve"); }
        if (fd < 0) { fd = dial(port); }
        is_done = fd >= 0 && is_taken(fd, frame, (size_t)frame_bytes, error_at);
        if (!is_done) { nap(); }
    }
    printf("%llu\n", (unsigned long long)((now_ns() - began_ns) / 1000));
    if (kill(child, SIGTERM) != 0 || waitpid(child, NULL, 0) != child) { (void)stop("ending it"); }
    return 0;
}
