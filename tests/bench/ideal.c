/* ideal.c: bench-ideal, the least work that a broker can be: what `tests/bench/compare` holds Weir against.
 *
 * One thread, one epoll, one file a partition. A frame that `weir bench replay` sends is not decoded: of a Produce the place of the
 * batch is worked out, its crc computed, its base offset set, and it is written as it lies; of a Fetch the offset and the size are read,
 * and it is answered with sendfile. No topics, no versions, no errors, no index, no memory limit, no recovery: whatever a real broker
 * takes beyond this figure is the price of those.
 *
 * Owns    its files, which go away with it; a receive buffer a connection, from malloc, touched only as far as frames reach.
 * Turn    all connections that are readable are read, what came is written (one call for frames that lie behind each other and go to one
 *         partition), with --sync every file written to is synced, and only then are the answers sent: group commit in its least form.
 * Offsets where each batch begins is remembered, 16 bytes in memory; a Fetch begins at a batch.
 * Waits   a Fetch at the end waits until something is appended, whatever it says of time.
 * Limits  IDEAL_LOGS partitions, frames of RECEIVE_BYTES. A frame that is not as expected ends the program: it is no server.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define IDEAL_LOGS     4096
#define RECEIVE_BYTES  ((size_t)4 << 20)
#define READ_BYTES     ((size_t)64 << 10)
#define AHEAD_BYTES    ((off_t)64 << 20) /* preallocated before a log's end, its size kept */
#define EVENTS         256
#define PIECES         512
#define ACKS_A_SEND    1024
#define ACK_BYTES      60 /* of a Produce answer, version 7, for a topic of 8 letters */
#define HEAD_BYTES_MAX 512

/* Where things stand in the replayer's frames, the length included; the client's id is "replay". */
enum {
    KEY_AT = 4,
    CORRELATION_AT = 8,
    BODY_AT = 20,
    PRODUCE_NAME_AT = BODY_AT + 2 + 2 + 4 + 4, /* transaction, acks, timeout, topics */
    FETCH_MAX_BYTES_AT = BODY_AT + 12,
    FETCH_NAME_AT = BODY_AT + 29, /* replica, wait, least, most, isolation, session, epoch, topics */
};
/* In a batch. */
enum { BATCH_CRC_AT = 17, BATCH_COVERED_AT = 21, BATCH_LAST_DELTA_AT = 23 };

struct place {
    uint64_t offset;
    off_t at_bytes;
};
struct log {
    int fd;             /* -1: not there yet */
    off_t end_bytes;    /* of what is written */
    off_t queued_bytes; /* of what was taken from frames: ahead of end_bytes within a turn only */
    off_t allocated_bytes;
    uint64_t next_offset;
    struct place *batches;
    size_t batch_count, batch_room;
    bool is_dirty; /* written to in this turn */
};

struct conn {
    int fd;
    uint8_t *buffer;
    size_t used_bytes;
    uint32_t acks; /* to be sent at the end of the turn */
    struct ack {
        uint8_t correlation[4];
        uint64_t offset;
    } *acked;
    size_t ack_offset_at; /* behind topics, name, partitions, index and error */
    bool is_waiting;      /* a Fetch at the end; its frame is the first of the buffer */
    bool is_sending;      /* an answer that the socket would not take whole */
    uint8_t head[HEAD_BYTES_MAX];
    size_t head_bytes, head_sent_bytes;
    struct log *log; /* of the answer, with what of it is still to be sent */
    off_t at_bytes, until_bytes;
};

static struct {
    int epoll_fd;
    int directory_fd;
    bool is_synced;
    struct log logs[IDEAL_LOGS];
    struct log *dirty[IDEAL_LOGS];
    uint32_t dirty_count;
    struct conn *acking[EVENTS];
    uint32_t acking_count;
    struct conn **waiting;
    uint32_t waiting_count, waiting_room;
    uint8_t acks[ACKS_A_SEND * ACK_BYTES];
} ideal;

static void stop(const char *what)
{
    fprintf(stderr, "bench-ideal: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint16_t get_u16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }
static uint32_t get_u32(const uint8_t *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return ntohl(v);
}
static uint64_t get_u64(const uint8_t *at) { return (uint64_t)get_u32(at) << 32 | get_u32(at + 4); }
static void put_u32(uint8_t *at, uint32_t v)
{
    v = htonl(v);
    memcpy(at, &v, sizeof v);
}
static void put_u64(uint8_t *at, uint64_t v)
{
    put_u32(at, (uint32_t)(v >> 32));
    put_u32(at + 4, (uint32_t)v);
}

static struct log *log_of(uint32_t partition)
{
    if (partition >= IDEAL_LOGS) { stop("a partition above its limit"); }
    struct log *log = &ideal.logs[partition];
    if (log->fd < 0) {
        char name[16];
        (void)snprintf(name, sizeof name, "%u", partition);
        log->fd = openat(ideal.directory_fd, name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
        if (log->fd < 0 || unlinkat(ideal.directory_fd, name, 0) != 0) { stop("a file"); }
    }
    return log;
}

static void watch(struct conn *conn, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = conn};
    if (epoll_ctl(ideal.epoll_fd, EPOLL_CTL_MOD, conn->fd, &event) != 0) { stop("epoll"); }
}

/* ---- answers to Fetch ---- */

/* The client has gone, or will see that we have: the next read ends the connection. */
static void give_up(struct conn *conn)
{
    if (errno != EPIPE && errno != ECONNRESET) { stop("sending"); }
    (void)shutdown(conn->fd, SHUT_RDWR); /* it is down already */
    conn->head_sent_bytes = conn->head_bytes;
    conn->at_bytes = conn->until_bytes;
}

/* Sends on what was begun; when all is gone, the connection is read from again. */
static void send_answer(struct conn *conn)
{
    bool was_sending = conn->is_sending;
    while (conn->head_sent_bytes < conn->head_bytes) {
        ssize_t n =
            send(conn->fd, conn->head + conn->head_sent_bytes, conn->head_bytes - conn->head_sent_bytes, MSG_MORE);
        if (n < 0 && errno == EAGAIN) { break; }
        if (n < 0) { give_up(conn); }
        if (n > 0) { conn->head_sent_bytes += (size_t)n; }
    }
    while (conn->head_sent_bytes == conn->head_bytes && conn->at_bytes < conn->until_bytes) {
        ssize_t n = sendfile(conn->fd, conn->log->fd, &conn->at_bytes, (size_t)(conn->until_bytes - conn->at_bytes));
        if (n == 0) { stop("a log that is too short"); }
        if (n < 0 && errno == EAGAIN) { break; }
        if (n < 0) { give_up(conn); }
    }
    conn->is_sending = conn->head_sent_bytes < conn->head_bytes || conn->at_bytes < conn->until_bytes;
    if (conn->is_sending != was_sending) { watch(conn, conn->is_sending ? EPOLLOUT : EPOLLIN); }
}

/* Where the batch with this first offset stands. Most ask for the newest. */
static off_t place_of(const struct log *log, uint64_t offset)
{
    if (offset == log->next_offset) { return log->end_bytes; }
    size_t low = 0;
    size_t high = log->batch_count;
    if (high > 0 && log->batches[high - 1].offset <= offset) { low = high - 1; }
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        if (log->batches[middle].offset <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    if (high == 0 || log->batches[low].offset != offset) { stop("a Fetch that begins at no batch"); }
    return log->batches[low].at_bytes;
}

/* false: it waits. The answer is version 11's; of its fields those are set that the replayer reads. */
static bool answer_fetch(struct conn *conn, const uint8_t *frame)
{
    size_t name_bytes = get_u16(frame + FETCH_NAME_AT);
    const uint8_t *partition_at = frame + FETCH_NAME_AT + 2 + name_bytes + 4;
    if (name_bytes > 255) { stop("a long name"); }
    struct log *log = log_of(get_u32(partition_at));
    off_t from_bytes = place_of(log, get_u64(partition_at + 8));
    if (from_bytes == log->end_bytes) { return false; }
    off_t most_bytes = (off_t)get_u32(frame + FETCH_MAX_BYTES_AT);
    off_t left_bytes = log->end_bytes - from_bytes;
    size_t records_bytes = (size_t)(left_bytes < most_bytes ? left_bytes : most_bytes);

    uint8_t *head = conn->head;
    memset(head, 0, 24 + name_bytes + 46);
    memcpy(head + 4, frame + CORRELATION_AT, 4);
    put_u32(head + 18, 1); /* topics, behind throttle, error and session */
    memcpy(head + 22, frame + FETCH_NAME_AT, 2 + name_bytes);
    uint8_t *rest = head + 24 + name_bytes;
    put_u32(rest, 1);
    memcpy(rest + 4, partition_at, 4);
    put_u64(rest + 10, log->next_offset); /* high watermark */
    put_u32(rest + 34, UINT32_MAX);       /* no aborted transactions */
    put_u32(rest + 38, UINT32_MAX);       /* no other replica to read from */
    put_u32(rest + 42, (uint32_t)records_bytes);
    conn->head_bytes = (size_t)(rest + 46 - head);
    put_u32(head, (uint32_t)(conn->head_bytes - 4 + records_bytes));
    conn->head_sent_bytes = 0;
    conn->log = log;
    conn->at_bytes = from_bytes;
    conn->until_bytes = from_bytes + (off_t)records_bytes;
    send_answer(conn);
    return true;
}

static void wait_for_more(struct conn *conn)
{
    if (conn->is_waiting) { return; }
    conn->is_waiting = true;
    if (ideal.waiting_count == ideal.waiting_room) {
        ideal.waiting_room = ideal.waiting_room == 0 ? 64 : 2 * ideal.waiting_room;
        ideal.waiting = realloc(ideal.waiting, ideal.waiting_room * sizeof *ideal.waiting);
        if (ideal.waiting == NULL) { stop("memory"); }
    }
    ideal.waiting[ideal.waiting_count++] = conn;
}

/* ---- appending ---- */

static void allocate_ahead(struct log *log, size_t more_bytes)
{
    off_t end_bytes = log->end_bytes + (off_t)more_bytes;
    if (end_bytes <= log->allocated_bytes || log->end_bytes < 1 << 20) { return; }
    off_t until_bytes = end_bytes + AHEAD_BYTES;
    if (fallocate(log->fd, FALLOC_FL_KEEP_SIZE, log->allocated_bytes, until_bytes - log->allocated_bytes) != 0) {
        stop("preallocation");
    }
    log->allocated_bytes = until_bytes;
}

static void write_pieces(struct log *log, struct iovec *pieces, int count, size_t size_bytes)
{
    if (count == 0) { return; }
    allocate_ahead(log, size_bytes);
    if (pwritev(log->fd, pieces, count, log->end_bytes) != (ssize_t)size_bytes) { stop("a write"); }
    log->end_bytes += (off_t)size_bytes;
    if (!log->is_dirty) {
        log->is_dirty = true;
        ideal.dirty[ideal.dirty_count++] = log;
    }
}

/* What has been found of a connection's frames and not been written yet. */
struct run {
    struct log *log;
    struct iovec pieces[PIECES];
    int count;
    size_t size_bytes;
};

static void end_run(struct run *run)
{
    write_pieces(run->log, run->pieces, run->count, run->size_bytes);
    run->count = 0;
    run->size_bytes = 0;
}

static void give_offset(struct log *log, uint8_t *batch, size_t batch_bytes)
{
    if (log->batch_count == log->batch_room) {
        log->batch_room = log->batch_room == 0 ? 1024 : 2 * log->batch_room;
        log->batches = realloc(log->batches, log->batch_room * sizeof *log->batches);
        if (log->batches == NULL) { stop("memory"); }
    }
    log->batches[log->batch_count++] = (struct place){log->next_offset, log->queued_bytes};
    log->queued_bytes += (off_t)batch_bytes;
    put_u64(batch, log->next_offset);
    log->next_offset += get_u32(batch + BATCH_LAST_DELTA_AT) + 1;
}

static void take_produce(struct conn *conn, uint8_t *frame, size_t frame_bytes, struct run *run)
{
    uint8_t *partition_at = frame + PRODUCE_NAME_AT + 2 + get_u16(frame + PRODUCE_NAME_AT) + 4;
    struct log *log = log_of(get_u32(partition_at));
    uint8_t *batch = partition_at + 8;
    size_t batch_bytes = get_u32(partition_at + 4);
    if (batch + batch_bytes != frame + frame_bytes || batch_bytes < 61) { stop("a Produce that is no replay"); }
    uint32_t crc =
        ~crc32_iscsi((unsigned char *)batch + BATCH_COVERED_AT, (int)(batch_bytes - BATCH_COVERED_AT), UINT32_MAX);
    if (crc != get_u32(batch + BATCH_CRC_AT)) { stop("a crc"); }
    if (run->log != log || run->count == PIECES) { end_run(run); }
    run->log = log;
    run->pieces[run->count++] = (struct iovec){.iov_base = batch, .iov_len = batch_bytes};
    run->size_bytes += batch_bytes;
    if (conn->acks == 0) { ideal.acking[ideal.acking_count++] = conn; }
    if (conn->acks == ACKS_A_SEND) { stop("more in flight than it has answers for"); }
    struct ack *ack = &conn->acked[conn->acks++];
    memcpy(ack->correlation, frame + CORRELATION_AT, 4);
    ack->offset = log->next_offset;
    conn->ack_offset_at = 24 + (size_t)get_u16(frame + PRODUCE_NAME_AT);
    if (conn->ack_offset_at + 8 > ACK_BYTES) { stop("a long name"); }
    give_offset(log, batch, batch_bytes);
}

static void send_acks(struct conn *conn)
{
    for (uint32_t i = 0; i < conn->acks; i++) { /* all else in it stays as it is */
        uint8_t *ack = ideal.acks + (size_t)i * ACK_BYTES;
        memcpy(ack + 4, conn->acked[i].correlation, 4);
        put_u64(ack + conn->ack_offset_at, conn->acked[i].offset);
    }
    size_t size_bytes = (size_t)conn->acks * ACK_BYTES;
    conn->acks = 0;
    ssize_t n = send(conn->fd, ideal.acks, size_bytes, 0);
    if (n < 0) {
        give_up(conn);
    } else if (n != (ssize_t)size_bytes) {
        stop("a client that does not read");
    }
}

/* ---- the loop ---- */

static void take_frames(struct conn *conn)
{
    static struct run run;
    size_t at = 0;
    while (conn->used_bytes - at >= 4 && !conn->is_sending) {
        uint8_t *frame = conn->buffer + at;
        size_t frame_bytes = (size_t)get_u32(frame) + 4;
        if (frame_bytes > RECEIVE_BYTES) { stop("a frame above its limit"); }
        if (conn->used_bytes - at < frame_bytes) { break; }
        uint16_t key = get_u16(frame + KEY_AT);
        if (key == 0) {
            take_produce(conn, frame, frame_bytes, &run);
        } else if (key != 1) {
            stop("neither Produce nor Fetch");
        } else if (!answer_fetch(conn, frame)) {
            wait_for_more(conn);
            break;
        }
        at += frame_bytes;
    }
    end_run(&run);
    if (at == 0) { return; }
    memmove(conn->buffer, conn->buffer + at, conn->used_bytes - at);
    conn->used_bytes -= at;
}

static void close_conn(struct conn *conn)
{
    for (uint32_t i = 0; i < ideal.waiting_count && conn->is_waiting; i++) {
        if (ideal.waiting[i] != conn) { continue; }
        ideal.waiting[i] = ideal.waiting[--ideal.waiting_count];
        conn->is_waiting = false;
    }
    (void)close(conn->fd); /* its last reader has gone */
    free(conn->buffer);
    free(conn->acked);
    free(conn);
}

/* Of a large frame what is left of it, so that nothing behind it is to be moved, and the memory stays in the cache. */
static size_t bytes_to_read(const struct conn *conn)
{
    size_t frame_bytes = conn->used_bytes >= 4 ? (size_t)get_u32(conn->buffer) + 4 : 0;
    if (frame_bytes > conn->used_bytes && frame_bytes > READ_BYTES && frame_bytes <= RECEIVE_BYTES) {
        return frame_bytes - conn->used_bytes;
    }
    return RECEIVE_BYTES - conn->used_bytes < READ_BYTES ? RECEIVE_BYTES - conn->used_bytes : READ_BYTES;
}

static void read_conn(struct conn *conn)
{
    ssize_t n = recv(conn->fd, conn->buffer + conn->used_bytes, bytes_to_read(conn), 0);
    if (n < 0 && errno == EAGAIN) { return; }
    if (n <= 0) {
        close_conn(conn);
        return;
    }
    conn->used_bytes += (size_t)n;
    if (!conn->is_waiting) { take_frames(conn); }
}

static void accept_conn(int listener_fd)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL) { stop("memory"); }
    conn->fd = accept4(listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    conn->buffer = malloc(RECEIVE_BYTES);
    conn->acked = malloc(ACKS_A_SEND * sizeof *conn->acked);
    int one = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    if (conn->fd < 0 || conn->buffer == NULL || conn->acked == NULL ||
        setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        epoll_ctl(ideal.epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0) {
        stop("a connection");
    }
}

static void end_turn(void)
{
    for (uint32_t i = 0; i < ideal.dirty_count; i++) {
        if (ideal.is_synced && fdatasync(ideal.dirty[i]->fd) != 0) { stop("a sync"); }
        ideal.dirty[i]->is_dirty = false;
    }
    for (uint32_t i = 0; i < ideal.acking_count; i++) { send_acks(ideal.acking[i]); }
    ideal.acking_count = 0;
    uint32_t waiting_count = ideal.dirty_count > 0 ? ideal.waiting_count : 0;
    ideal.dirty_count = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < waiting_count; i++) {
        struct conn *conn = ideal.waiting[i];
        conn->is_waiting = false;
        ideal.waiting_count = kept; /* whoever still waits puts itself back, never past what was read */
        take_frames(conn);
        kept = ideal.waiting_count;
    }
}

static void serve(int listener_fd)
{
    struct epoll_event events[EVENTS];
    for (;;) {
        int count = epoll_wait(ideal.epoll_fd, events, EVENTS, -1);
        if (count < 0 && errno != EINTR) { stop("epoll"); }
        for (int i = 0; i < count; i++) {
            struct conn *conn = events[i].data.ptr;
            if (conn == NULL) {
                accept_conn(listener_fd);
            } else if (conn->is_sending) {
                send_answer(conn);
                if (!conn->is_sending) { take_frames(conn); }
            } else {
                read_conn(conn);
            }
        }
        end_turn();
    }
}

static int listen_at(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t address_bytes = sizeof address;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    ideal.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &address_bytes) != 0 || ideal.epoll_fd < 0 ||
        epoll_ctl(ideal.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        stop("listening");
    }
    printf("ready listeners=PLAINTEXT://127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
    (void)fflush(stdout); /* whoever waits for the line sees that it does not come */
    return fd;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "--sync") != 0)) {
        fprintf(stderr, "usage: bench-ideal DIRECTORY [--sync]\n");
        return 2;
    }
    ideal.is_synced = argc == 3;
    ideal.directory_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ideal.directory_fd < 0) { stop(argv[1]); }
    for (uint32_t i = 0; i < IDEAL_LOGS; i++) { ideal.logs[i].fd = -1; }
    for (uint32_t i = 0; i < ACKS_A_SEND; i++) { put_u32(ideal.acks + (size_t)i * ACK_BYTES, ACK_BYTES - 4); }
    (void)signal(SIGPIPE, SIG_IGN); /* a client that has gone is seen by send */
    serve(listen_at(0));
}
