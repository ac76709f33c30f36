/* net.c: connections and listeners: plain non-blocking sockets that libuv only watches.
 *
 * Room    host/uv.
 * Read    a RECV is tried at once when bytes are known to be there, else when the socket says so. Interest in reading stays
 *         on between two RECVs and is taken away only when the socket speaks up while nobody asks: changing it is two
 *         system calls.
 * Send    ops queue up per connection; flushing takes neighbouring memory pieces into one sendmsg, ranges by sendfile.
 *         A range that the page cache lacks is read by the disk's threads first, so that it stalls its own connection only.
 *         One flush sends at most FLUSH_BYTES_MAX of a connection, so that a fast reader does not starve the others.
 * Close   the completion of CLOSE comes from libuv's close callback, when the slot may be used again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host__shard.h"

#include "address.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FLUSH_BYTES_MAX    ((uint64_t)2 << 20)
#define SENDFILE_BYTES_MAX ((uint64_t)1 << 20)
#define VECTORS_MAX        64
#define BACKLOG            4096

static bool is_same_address(struct port_address a, struct port_address b)
{
    return a.port == b.port && memcmp(a.ip, b.ip, sizeof a.ip) == 0;
}

static void set_no_delay(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* a slower socket is still a socket */
}

/* ---- the table ---- */

static struct conn *slot_of(struct shard *shard, struct port_conn id)
{
    CHECK(id.slot < shard->host->config.conns_max);
    CHECK(id.generation != 0);
    return &shard->conns[id.slot];
}

/* NULL: free, or of another generation. */
static struct conn *find(struct shard *shard, struct port_conn id)
{
    if (id.slot >= shard->host->config.conns_max) { return NULL; }
    struct conn *conn = &shard->conns[id.slot];
    return conn->state != CONN_FREE && conn->generation == id.generation ? conn : NULL;
}

static void on_conn(uv_poll_t *poll, int status, int events);

static void set_interest(struct conn *conn, int interest)
{
    if (interest == conn->interest) { return; }
    conn->interest = interest;
    if (interest == 0) {
        CHECK(uv_poll_stop(&conn->poll) == 0);
    } else {
        CHECK(uv_poll_start(&conn->poll, interest, on_conn) == 0);
    }
}

/* Takes the descriptor; the slot is free. */
static enum port_rc begin(struct shard *shard, struct port_conn id, int fd, enum conn_state state)
{
    struct conn *conn = slot_of(shard, id);
    CHECK(conn->state == CONN_FREE);
    memset(conn, 0, sizeof *conn);
    int error = uv_poll_init(&shard->loop, &conn->poll, fd);
    if (error != 0) { return host_rc_of_errno(-error); }
    conn->poll.data = conn;
    conn->shard = shard;
    conn->fd = fd;
    conn->generation = id.generation;
    conn->state = state;
    base_list_init(&conn->sends);
    return PORT_OK;
}

static void on_conn_closed(uv_handle_t *handle)
{
    struct conn *conn = handle->data;
    struct op *connecting = conn->connecting;
    struct op *closing = conn->closing;
    conn->state = CONN_FREE;
    conn->generation = 0;
    if (connecting != NULL) { base_list_push_back(&conn->shard->ready, &connecting->link); }
    if (closing != NULL) { host__complete(closing, PORT_OK, 0); }
}

static void end(struct conn *conn)
{
    CHECK(conn->state == CONN_CONNECTING || conn->state == CONN_OPEN);
    CHECK(base_list_is_empty(&conn->sends) && !conn->has_recv);
    if (base_link_is_on(&conn->flush_link)) { base_list_remove(&conn->shard->flush, &conn->flush_link); }
    conn->state = CONN_CLOSING;
    conn->interest = 0;
    uv_close((uv_handle_t *)&conn->poll, on_conn_closed);
    (void)close(conn->fd); /* a socket's close has nothing to say that matters now */
    conn->fd = -1;
}

/* ---- receiving ---- */

static void complete_recv(struct conn *conn, enum port_rc rc, uint64_t count)
{
    CHECK(conn->has_recv);
    conn->has_recv = false;
    struct port_effect effect = {
        .kind = PORT_RECV,
        .token = conn->recv_token,
        .conn = {.slot = (uint32_t)(conn - conn->shard->conns), .generation = conn->generation},
    };
    host__complete(host__op_take(conn->shard, &effect), rc, count);
}

static void receive(struct conn *conn)
{
    if (conn->recv_size_bytes == 0) {
        conn->input = INPUT_READY;
        complete_recv(conn, PORT_OK, 0);
        return;
    }
    ssize_t got;
    do {
        got = recv(conn->fd, conn->recv_buffer, conn->recv_size_bytes, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        conn->input = (uint64_t)got == conn->recv_size_bytes ? INPUT_MAYBE : INPUT_UNKNOWN;
        complete_recv(conn, PORT_OK, (uint64_t)got);
        return;
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        conn->input = INPUT_UNKNOWN;
        set_interest(conn, conn->interest | UV_READABLE);
        return;
    }
    conn->input = INPUT_READY; /* the end and an error stay */
    if (got < 0) { conn->receive_rc = host_rc_of_errno(errno); }
    complete_recv(conn, got == 0 ? PORT_EOF : conn->receive_rc, 0);
}

static void do_recv(struct shard *shard, struct conn *conn, const struct port_effect *effect)
{
    CHECK(!conn->has_recv); /* one at a time */
    (void)shard;
    conn->has_recv = true;
    conn->recv_token = effect->token;
    conn->recv_buffer = effect->buffer;
    conn->recv_size_bytes = effect->size_bytes;
    if (conn->receive_rc != PORT_OK) {
        complete_recv(conn, effect->size_bytes == 0 ? PORT_OK : conn->receive_rc, 0);
    } else if (conn->input == INPUT_READY || (conn->input == INPUT_MAYBE && effect->size_bytes > 0)) {
        receive(conn);
    } else {
        set_interest(conn, conn->interest | UV_READABLE);
    }
}

/* ---- sending ---- */

static void want_flush(struct conn *conn)
{
    if (conn->is_blocked || conn->is_warming || base_link_is_on(&conn->flush_link)) { return; }
    base_list_push_back(&conn->shard->flush, &conn->flush_link);
}

static void fail_sends(struct conn *conn, enum port_rc rc)
{
    conn->send_rc = rc;
    struct base_link *link;
    while ((link = base_list_pop_front(&conn->sends)) != NULL) {
        struct op *op = BASE_ITEM(link, struct op, link);
        host__complete(op, rc, op->count);
    }
}

/* The stream can't be continued: its next bytes are gone. */
static void break_stream(struct conn *conn)
{
    (void)shutdown(conn->fd, SHUT_RDWR); /* fails when the peer was faster */
    fail_sends(conn, PORT_IO);
    conn->receive_rc = PORT_IO;
    conn->input = INPUT_READY;
    set_interest(conn, 0);
    if (conn->has_recv) { complete_recv(conn, conn->recv_size_bytes == 0 ? PORT_OK : PORT_IO, 0); }
}

/* Moves past `size_bytes` that have left, which the op has. */
static void advance(struct op *op, uint64_t size_bytes)
{
    op->count += size_bytes;
    op->piece_done_bytes += size_bytes;
    while (op->piece < op->effect.piece_count && op->piece_done_bytes >= op->effect.pieces[op->piece].size_bytes) {
        op->piece_done_bytes -= op->effect.pieces[op->piece].size_bytes;
        op->piece += 1;
    }
}

static bool is_sent(const struct op *op) { return op->piece == op->effect.piece_count; }

/* Completes the sends at the head that have left, and the shuts behind them. */
static void retire_sends(struct conn *conn)
{
    struct base_link *link;
    while ((link = base_list_first(&conn->sends)) != NULL) {
        struct op *op = BASE_ITEM(link, struct op, link);
        if (op->effect.kind == PORT_SEND && !is_sent(op)) { return; }
        base_list_remove(&conn->sends, link);
        enum port_rc rc = PORT_OK;
        if (op->effect.kind == PORT_SHUT && shutdown(conn->fd, SHUT_WR) < 0) { rc = host_rc_of_errno(errno); }
        host__complete(op, rc, op->count);
    }
}

struct batch {
    struct iovec vectors[VECTORS_MAX];
    size_t count;
    uint64_t size_bytes;
    bool is_more; /* a range follows: wait with the last packet */
};

/* Memory pieces from the head of the queue on, up to the first range. */
static void gather(const struct conn *conn, uint64_t budget_bytes, struct batch *batch)
{
    batch->count = 0;
    batch->size_bytes = 0;
    batch->is_more = false;
    for (struct base_link *link = base_list_first(&conn->sends); link != NULL;
         link = base_list_next(&conn->sends, link)) {
        const struct op *op = BASE_ITEM(link, struct op, link);
        if (op->effect.kind == PORT_SHUT) { return; }
        uint64_t done_bytes = op->piece_done_bytes;
        for (uint32_t i = op->piece; i < op->effect.piece_count; i++) {
            const struct port_piece *piece = &op->effect.pieces[i];
            uint64_t left_bytes = piece->size_bytes - done_bytes;
            done_bytes = 0;
            if (left_bytes == 0) { continue; }
            if (piece->kind == PORT_RANGE) {
                batch->is_more = true;
                return;
            }
            if (batch->count == VECTORS_MAX || batch->size_bytes >= budget_bytes) { return; }
            const uint8_t *at = piece->at + (piece->size_bytes - left_bytes);
            size_t take_bytes = base_min_size(left_bytes, budget_bytes - batch->size_bytes);
            /* The const is cast away because an iovec has none; sendmsg only reads. */
            batch->vectors[batch->count] = (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = take_bytes};
            batch->count += 1;
            batch->size_bytes += take_bytes;
            if (take_bytes < left_bytes) { return; }
        }
    }
}

static void advance_queue(struct conn *conn, uint64_t size_bytes)
{
    struct base_link *link = base_list_first(&conn->sends);
    while (size_bytes > 0) {
        CHECK(link != NULL);
        struct op *op = BASE_ITEM(link, struct op, link);
        while (size_bytes > 0 && !is_sent(op)) {
            uint64_t left_bytes = op->effect.pieces[op->piece].size_bytes - op->piece_done_bytes;
            uint64_t step_bytes = base_min_u64(left_bytes, size_bytes);
            advance(op, step_bytes);
            size_bytes -= step_bytes;
        }
        link = base_list_next(&conn->sends, link);
    }
    retire_sends(conn);
}

static void block(struct conn *conn)
{
    conn->is_blocked = true;
    set_interest(conn, conn->interest | UV_WRITABLE);
}

static uint64_t send_memory(struct conn *conn, struct batch *batch)
{
    struct msghdr message = {.msg_iov = batch->vectors, .msg_iovlen = batch->count};
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (batch->is_more ? MSG_MORE : 0);
    ssize_t sent;
    do {
        sent = sendmsg(conn->fd, &message, flags);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            block(conn);
        } else {
            fail_sends(conn, host_rc_of_errno(errno));
        }
        return 0;
    }
    if ((uint64_t)sent < batch->size_bytes) { block(conn); }
    advance_queue(conn, (uint64_t)sent);
    return (uint64_t)sent;
}

/* Its first and last page stand for all of it. */
static bool is_cached(int fd, off_t position, size_t size_bytes)
{
    off_t places[] = {position, position + (off_t)size_bytes - 1};
    for (size_t i = 0; i < (size_bytes > 4096 ? BASE_ARRAY_COUNT(places) : 1); i++) {
        uint8_t byte;
        struct iovec vector = {.iov_base = &byte, .iov_len = 1};
        if (preadv2(fd, &vector, 1, places[i], RWF_NOWAIT) < 0 && errno == EAGAIN) { return false; }
    }
    return true; /* or it can't be known: then sending will tell */
}

/* False: can't; send it as it is. */
static bool start_warming(struct conn *conn, int fd, uint32_t disk, uint64_t position_bytes, size_t size_bytes)
{
    int own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own_fd < 0) { return false; }
    struct port_effect read = {
        .kind = PORT_READ,
        .conn = {.slot = (uint32_t)(conn - conn->shard->conns), .generation = conn->generation},
        .position_bytes = position_bytes,
        .size_bytes = size_bytes,
    };
    struct op *op = host__op_take(conn->shard, &read);
    op->is_warming = true;
    op->fd = own_fd;
    conn->is_warming = true;
    host__disk_push(&conn->shard->host->disks[disk], op);
    return true;
}

void host__net_warmed(struct op *op)
{
    struct conn *conn = find(op->shard, op->effect.conn);
    if (conn != NULL && conn->state == CONN_OPEN) {
        conn->is_warming = false;
        conn->warm_bytes = op->effect.size_bytes; /* once is enough, even if it was evicted since */
        if (!base_list_is_empty(&conn->sends)) { want_flush(conn); }
    }
    host__op_give(op->shard, op);
}

/* The head of the queue is a range. */
static uint64_t send_range(struct conn *conn, struct op *op)
{
    const struct port_piece *piece = &op->effect.pieces[op->piece];
    uint32_t disk;
    int fd = host__file_fd(conn->shard->host, piece->file, &disk);
    if (fd < 0) {
        break_stream(conn);
        return 0;
    }
    off_t position = (off_t)(piece->position_bytes + op->piece_done_bytes);
    size_t want_bytes = base_min_size(piece->size_bytes - op->piece_done_bytes, SENDFILE_BYTES_MAX);
    if (conn->warm_bytes == 0 && op->effect.where == PORT_ON_DISK) {
        if (!is_cached(fd, position, want_bytes) && start_warming(conn, fd, disk, (uint64_t)position, want_bytes)) {
            return 0;
        }
        conn->warm_bytes = want_bytes;
    }
    ssize_t sent;
    do {
        sent = sendfile(conn->fd, fd, &position, want_bytes);
    } while (sent < 0 && errno == EINTR);
    if (sent > 0) {
        conn->warm_bytes -= base_min_u64(conn->warm_bytes, (uint64_t)sent);
        advance_queue(conn, (uint64_t)sent);
        return (uint64_t)sent;
    }
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        block(conn);
        return 0;
    }
    enum port_rc rc = sent == 0 ? PORT_IO : host_rc_of_errno(errno);
    if (rc == PORT_RESET || rc == PORT_TIMED_OUT || rc == PORT_UNREACHABLE) {
        fail_sends(conn, rc); /* the peer; anything else is the file */
    } else {
        break_stream(conn);
    }
    return 0;
}

/* True: there is more, and the socket may take it. */
static bool flush_conn(struct conn *conn)
{
    uint64_t budget_bytes = FLUSH_BYTES_MAX;
    struct batch batch;
    retire_sends(conn);
    while (!base_list_is_empty(&conn->sends) && !conn->is_blocked && !conn->is_warming) {
        if (budget_bytes == 0) { return true; }
        uint64_t sent_bytes;
        gather(conn, budget_bytes, &batch);
        if (batch.count > 0) {
            sent_bytes = send_memory(conn, &batch);
        } else {
            sent_bytes = send_range(conn, BASE_ITEM(base_list_first(&conn->sends), struct op, link));
        }
        budget_bytes -= base_min_u64(budget_bytes, sent_bytes);
    }
    if (base_list_is_empty(&conn->sends) && (conn->interest & UV_WRITABLE) != 0) {
        conn->is_blocked = false;
        set_interest(conn, conn->interest & ~UV_WRITABLE);
    }
    return false;
}

void host__net_flush(struct shard *shard)
{
    for (uint32_t n = shard->flush.count; n > 0; n--) {
        struct conn *conn = BASE_ITEM(base_list_pop_front(&shard->flush), struct conn, flush_link);
        if (flush_conn(conn)) { base_list_push_back(&shard->flush, &conn->flush_link); }
    }
}

static void do_send(struct conn *conn, struct op *op)
{
    if (conn->send_rc != PORT_OK) {
        host__complete(op, conn->send_rc, 0);
        return;
    }
    advance(op, 0); /* past empty pieces */
    base_list_push_back(&conn->sends, &op->link);
    want_flush(conn);
}

/* ---- the life of a connection ---- */

static void connected(struct conn *conn, int error)
{
    struct op *op = conn->connecting;
    if (error != 0) {
        op->rc = host_rc_of_errno(error);
        end(conn); /* which hands out conn->connecting */
        return;
    }
    conn->connecting = NULL;
    conn->state = CONN_OPEN;
    set_interest(conn, UV_READABLE);
    host__complete(op, PORT_OK, 0);
}

static void on_conn(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    if (status < 0) { /* libuv saw an error on the socket and stopped watching; the next call on it says which */
        conn->interest = 0;
        events = UV_READABLE | UV_WRITABLE;
    }
    if (conn->state == CONN_CONNECTING) {
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) { error = errno; }
        connected(conn, error);
        return;
    }
    CHECK(conn->state == CONN_OPEN);
    if ((events & UV_WRITABLE) != 0) {
        conn->is_blocked = false;
        if (base_list_is_empty(&conn->sends)) {
            set_interest(conn, conn->interest & ~UV_WRITABLE);
        } else {
            want_flush(conn);
        }
    }
    if ((events & UV_READABLE) != 0) {
        conn->input = INPUT_READY;
        if (conn->has_recv) {
            receive(conn);
        } else {
            set_interest(conn, conn->interest & ~UV_READABLE);
        }
    }
}

static void do_connect(struct shard *shard, struct op *op)
{
    union host_address to;
    socklen_t to_bytes = host_address_to_system(op->effect.address, &to);
    CHECK(slot_of(shard, op->effect.conn)->state == CONN_FREE);
    int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        host__complete(op, host_rc_of_errno(errno), 0);
        return;
    }
    set_no_delay(fd);
    int result = connect(fd, &to.any, to_bytes);
    int error = result < 0 ? errno : 0;
    enum port_rc rc = error == 0 || error == EINPROGRESS ? PORT_OK : host_rc_of_errno(error);
    if (rc == PORT_OK) { rc = begin(shard, op->effect.conn, fd, CONN_CONNECTING); }
    if (rc != PORT_OK) {
        (void)close(fd); /* never used */
        host__complete(op, rc, 0);
        return;
    }
    struct conn *conn = slot_of(shard, op->effect.conn);
    conn->connecting = op;
    if (error == 0) {
        connected(conn, 0);
    } else {
        set_interest(conn, UV_WRITABLE);
    }
}

static void do_close(struct conn *conn, struct op *op)
{
    if (conn->state == CONN_CLOSING) {
        if (conn->closing != NULL) {
            host__complete(op, PORT_CLOSED, 0);
        } else {
            conn->closing = op; /* a failed connect is about to be told */
        }
        return;
    }
    if (conn->connecting != NULL) {
        host__complete(conn->connecting, PORT_CLOSED, 0);
        conn->connecting = NULL;
    }
    fail_sends(conn, PORT_CLOSED);
    if (conn->has_recv) { complete_recv(conn, PORT_CLOSED, 0); }
    conn->closing = op;
    end(conn);
}

static void do_by_id(struct shard *shard, const struct port_effect *effect)
{
    struct conn *conn = find(shard, effect->conn);
    bool is_open = conn != NULL && conn->state == CONN_OPEN;
    if (is_open && effect->kind == PORT_RECV) {
        do_recv(shard, conn, effect);
        return;
    }
    struct op *op = host__op_take(shard, effect);
    if (conn != NULL && effect->kind == PORT_CLOSE) {
        do_close(conn, op);
    } else if (is_open) {
        do_send(conn, op);
    } else {
        host__complete(op, PORT_CLOSED, 0);
    }
}

/* ---- listeners ---- */

static void set_listen_interest(struct listener *listener, int interest);

static void drop_share(struct host *host, struct listener *listener)
{
    uv_mutex_lock(&host->share_lock);
    struct share *share = &host->shares[listener->share];
    share->is_held[listener->shard->index] = false;
    share->holders -= 1;
    if (share->holders == 0) {
        (void)close(share->fd); /* nothing is ever written to it */
        share->fd = -1;
    }
    uv_mutex_unlock(&host->share_lock);
}

static int open_listener(struct port_address address, struct port_address *bound_out)
{
    union host_address at;
    socklen_t at_bytes = host_address_to_system(address, &at);
    int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) { return -1; }
    int on = 1;
    int off = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* bind tells if it mattered */
    if (at.any.sa_family == AF_INET6) { (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off); }
    if (bind(fd, &at.any, at_bytes) == 0 && listen(fd, BACKLOG) == 0 && getsockname(fd, &at.any, &at_bytes) == 0) {
        *bound_out = host_address_from_system(&at.any);
        return fd;
    }
    int error = errno;
    (void)close(fd); /* never used */
    errno = error;
    return -1;
}

/* An entry that another shard opened for this address, asked for or bound, and that this shard does not hold yet: so the
 * second port 0 of one shard is another port, and the second one of the next shard the same. Under the lock. */
static struct share *find_share(struct host *host, uint32_t shard, struct port_address address)
{
    for (uint32_t i = 0; i < host->share_count; i++) {
        struct share *share = &host->shares[i];
        if (share->fd < 0 || share->is_held[shard]) { continue; }
        if (is_same_address(share->asked, address) || is_same_address(share->bound, address)) { return share; }
    }
    return NULL;
}

static struct share *new_share(struct host *host)
{
    for (uint32_t i = 0; i < host->share_count; i++) {
        if (host->shares[i].fd < 0) { return &host->shares[i]; }
    }
    struct share *more = realloc(host->shares, (host->share_count + 1) * sizeof *more);
    CHECK(more != NULL);
    host->shares = more;
    host->share_count += 1;
    more[host->share_count - 1] =
        (struct share){.fd = -1, .is_held = host__allocate(host->config.shards, sizeof(bool))};
    return &more[host->share_count - 1];
}

/* A descriptor of its own for the shard; -1 and errno. */
static int take_share(struct shard *shard, struct port_address address, struct listener *listener,
                      struct port_address *bound_out)
{
    struct host *host = shard->host;
    uv_mutex_lock(&host->share_lock);
    int fd = -1;
    struct share *share = find_share(host, shard->index, address);
    if (share == NULL) {
        struct port_address bound;
        int shared_fd = open_listener(address, &bound);
        if (shared_fd >= 0) {
            share = new_share(host);
            share->asked = address;
            share->bound = bound;
            share->fd = shared_fd;
            share->holders = 0;
        }
    }
    if (share != NULL) {
        fd = dup(share->fd);
        int error = errno;
        if (fd >= 0) {
            share->holders += 1;
            share->is_held[shard->index] = true;
            listener->share = (uint32_t)(share - host->shares);
            *bound_out = share->bound;
        } else if (share->holders == 0) {
            (void)close(share->fd); /* never used */
            share->fd = -1;
        }
        errno = error;
    }
    uv_mutex_unlock(&host->share_lock);
    return fd;
}

static void do_listen(struct shard *shard, struct op *op)
{
    CHECK(op->effect.listener.slot < shard->host->config.listeners_max);
    CHECK(op->effect.listener.generation != 0);
    struct listener *listener = &shard->listeners[op->effect.listener.slot];
    CHECK(listener->state == CONN_FREE);
    memset(listener, 0, sizeof *listener);
    listener->shard = shard;
    listener->fd = take_share(shard, op->effect.address, listener, &op->address);
    if (listener->fd < 0) {
        host__complete(op, host_rc_of_errno(errno), 0);
        return;
    }
    int error = uv_poll_init(&shard->loop, &listener->poll, listener->fd);
    if (error != 0) {
        (void)close(listener->fd); /* never used */
        drop_share(shard->host, listener);
        host__complete(op, host_rc_of_errno(-error), 0);
        return;
    }
    listener->poll.data = listener;
    listener->generation = op->effect.listener.generation;
    listener->state = CONN_OPEN;
    base_list_init(&listener->accepts);
    host__complete(op, PORT_OK, 0);
}

static void accepted(struct op *op, int fd, const union host_address *peer)
{
    set_no_delay(fd);
    enum port_rc rc = begin(op->shard, op->effect.conn, fd, CONN_OPEN);
    if (rc != PORT_OK) { (void)close(fd); } /* the peer sees it */
    op->address = host_address_from_system(&peer->any);
    host__complete(op, rc, 0);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    (void)events;
    if (status < 0) { listener->interest = 0; }
    while (!base_list_is_empty(&listener->accepts)) {
        union host_address peer;
        socklen_t peer_bytes = sizeof peer;
        int fd = accept4(listener->fd, &peer.any, &peer_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        int error = fd < 0 ? errno : 0;
        if (error == EINTR || error == ECONNABORTED || error == EPROTO) { continue; }
        if (error == EAGAIN || error == EWOULDBLOCK) {
            set_listen_interest(listener, UV_READABLE); /* another shard was faster */
            return;
        }
        struct op *op = BASE_ITEM(base_list_pop_front(&listener->accepts), struct op, link);
        if (error != 0) {
            host__complete(op, host_rc_of_errno(error), 0);
            continue;
        }
        accepted(op, fd, &peer);
    }
    set_listen_interest(listener, 0); /* nobody asks: don't be told again and again */
}

static void set_listen_interest(struct listener *listener, int interest)
{
    if (interest == listener->interest) { return; }
    listener->interest = interest;
    if (interest == 0) {
        CHECK(uv_poll_stop(&listener->poll) == 0);
    } else {
        CHECK(uv_poll_start(&listener->poll, interest, on_listener) == 0);
    }
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct listener *listener = handle->data;
    listener->state = CONN_FREE;
    listener->generation = 0;
    host__complete(listener->closing, PORT_OK, 0);
}

static void do_unlisten(struct listener *listener, struct op *op)
{
    struct base_link *link;
    while ((link = base_list_pop_front(&listener->accepts)) != NULL) {
        host__complete(BASE_ITEM(link, struct op, link), PORT_CLOSED, 0);
    }
    listener->state = CONN_CLOSING;
    listener->closing = op;
    uv_close((uv_handle_t *)&listener->poll, on_listener_closed);
    (void)close(listener->fd); /* nothing is ever written to it */
    listener->fd = -1;
    drop_share(listener->shard->host, listener);
}

static void do_by_listener(struct shard *shard, struct op *op)
{
    struct listener *listener = NULL;
    if (op->effect.listener.slot < shard->host->config.listeners_max) {
        listener = &shard->listeners[op->effect.listener.slot];
        bool is_open = listener->state == CONN_OPEN && listener->generation == op->effect.listener.generation;
        if (!is_open) { listener = NULL; }
    }
    if (listener == NULL) {
        host__complete(op, PORT_CLOSED, 0);
    } else if (op->effect.kind == PORT_UNLISTEN) {
        do_unlisten(listener, op);
    } else {
        CHECK(slot_of(shard, op->effect.conn)->state == CONN_FREE);
        base_list_push_back(&listener->accepts, &op->link);
        set_listen_interest(listener, UV_READABLE);
    }
}

/* ---- names ---- */

struct resolution {
    uv_getaddrinfo_t request;
    struct op *op;
};

static enum port_rc rc_of_resolver(int status)
{
    switch (status) {
    case 0: return PORT_OK;
    case UV_EAI_MEMORY:
    case UV_ENOMEM: return PORT_NO_MEMORY;
    case UV_EAI_AGAIN: return PORT_TIMED_OUT;
    case UV_ECANCELED: return PORT_CLOSED;
    default: return PORT_UNREACHABLE;
    }
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct resolution *resolution = request->data;
    struct op *op = resolution->op;
    enum port_rc rc = rc_of_resolver(status);
    const struct addrinfo *best = host_address_best(list); /* one address comes back */
    if (rc == PORT_OK && best == NULL) { rc = PORT_UNREACHABLE; }
    if (rc == PORT_OK) {
        op->address = host_address_from_system(best->ai_addr);
        op->address.port = 0;
    }
    uv_freeaddrinfo(list);
    free(resolution);
    host__complete(op, rc, 0);
}

static void do_resolve(struct shard *shard, struct op *op)
{
    char name[256];
    struct base_slice words = op->effect.path;
    if (port_address_from_text(words, &op->address) == BASE_OK) {
        host__complete(op, PORT_OK, 0);
        return;
    }
    if (words.size_bytes == 0 || words.size_bytes >= sizeof name || memchr(words.at, 0, words.size_bytes) != NULL) {
        host__complete(op, PORT_BAD_NAME, 0);
        return;
    }
    memcpy(name, words.at, words.size_bytes);
    name[words.size_bytes] = '\0';
    struct resolution *resolution = host__allocate(1, sizeof *resolution);
    resolution->op = op;
    resolution->request.data = resolution;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int error = uv_getaddrinfo(&shard->loop, &resolution->request, on_resolved, name, NULL, &hints);
    if (error != 0) {
        free(resolution);
        host__complete(op, rc_of_resolver(error), 0);
    }
}

/* ---- effects ---- */

void host__net_do(struct shard *shard, const struct port_effect *effect)
{
    switch (effect->kind) {
    case PORT_LISTEN: do_listen(shard, host__op_take(shard, effect)); break;
    case PORT_UNLISTEN:
    case PORT_ACCEPT: do_by_listener(shard, host__op_take(shard, effect)); break;
    case PORT_RESOLVE: do_resolve(shard, host__op_take(shard, effect)); break;
    case PORT_CONNECT: do_connect(shard, host__op_take(shard, effect)); break;
    case PORT_RECV:
    case PORT_SEND:
    case PORT_SHUT:
    case PORT_CLOSE: do_by_id(shard, effect); break;
    case PORT_OPEN:
    case PORT_READ:
    case PORT_WRITE:
    case PORT_TRUNCATE:
    case PORT_ALLOCATE:
    case PORT_SYNC:
    case PORT_CLOSE_FILE:
    case PORT_RENAME:
    case PORT_UNLINK:
    case PORT_MAKE_DIR:
    case PORT_REMOVE_DIR:
    case PORT_SYNC_DIR:
    case PORT_LIST:
    case PORT_SPACE:
    case PORT_LOG:
    case PORT_LEVEL:
    case PORT_READY:
    case PORT_STOPPED:
    case PORT_EFFECT_COUNT: UNREACHABLE();
    }
}

/* After the last event: only descriptors are left to care for; host.c closes the handles. */
void host__net_end(struct shard *shard)
{
    for (uint32_t i = 0; i < shard->host->config.conns_max; i++) {
        struct conn *conn = &shard->conns[i];
        if (conn->state != CONN_CONNECTING && conn->state != CONN_OPEN) { continue; }
        uv_close((uv_handle_t *)&conn->poll, NULL);
        (void)close(conn->fd); /* the peer sees it */
    }
    for (uint32_t i = 0; i < shard->host->config.listeners_max; i++) {
        struct listener *listener = &shard->listeners[i];
        if (listener->state != CONN_OPEN) { continue; }
        uv_close((uv_handle_t *)&listener->poll, NULL);
        (void)close(listener->fd); /* nothing is ever written to it */
        drop_share(shard->host, listener);
    }
}
