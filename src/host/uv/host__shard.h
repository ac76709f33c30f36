/* host__shard.h: what the files of this room share: a shard, an operation, the tables.
 *
 * Room    host/uv, private.
 * Owns    struct op: one effect that was asked and has not completed. It lives in exactly one place at a time: a connection's
 *         send queue, a listener's accepts, a file's queues, a disk thread, or the shard's list of ready completions.
 * Threads everything in struct shard belongs to the shard's thread, but for the fields under "shared".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_UV_HOST_SHARD_H
#define HOST_UV_HOST_SHARD_H

#include <stdatomic.h>
#include <uv.h>

#include "host/uv/host.h"

struct shard;
struct disk;

struct op {
    struct base_link link; /* on the shard's lists */
    struct op *next;       /* on a thread's list, or the free list */
    struct shard *shard;
    struct port_effect effect;
    enum port_rc rc;
    int error; /* file work: why the system refused it */
    bool is_more;
    uint64_t total_bytes; /* PORT_SPACE */
    bool is_warming;      /* not an effect: reads what a connection is about to send into the page cache */
    int fd;               /* file work: the descriptor; -1: by name */
    uint64_t count;
    uint64_t begun_ns; /* work on a file: when it was asked for */
    struct port_address address;
    uint32_t piece;            /* sends: the piece at hand ... */
    uint64_t piece_done_bytes; /* ... and how much of it has left */
};

/* ---- connections and listeners (net.c) ----
 *
 * FREE --connect--> CONNECTING --ok--> OPEN --close--> CLOSING --handle closed--> FREE
 *   \--accepted----------------------->/                  ^
 *                   CONNECTING --failed, close------------/
 */
enum conn_state { CONN_FREE = 0, CONN_CONNECTING, CONN_OPEN, CONN_CLOSING };

/* What is known about bytes to read. MAYBE: the last read filled its buffer. */
enum conn_input { INPUT_UNKNOWN = 0, INPUT_MAYBE, INPUT_READY };

struct conn {
    uv_poll_t poll;
    struct shard *shard;
    struct base_list sends;      /* ops, SEND and SHUT, in the order asked */
    struct base_link flush_link; /* on shard.flush while there is something to send and the socket may take it */
    struct op *connecting;
    struct op *closing;
    uint64_t warm_bytes; /* of the range at the head, from where it stands: known to be cached */
    uint64_t recv_token;
    uint8_t *recv_buffer;
    uint64_t recv_size_bytes;
    int fd;
    uint32_t generation;
    enum conn_state state;
    enum conn_input input;
    int interest; /* UV_READABLE | UV_WRITABLE, as libuv has it */
    bool has_recv;
    bool is_blocked;         /* the socket's buffer is full: wait for UV_WRITABLE */
    bool is_warming;         /* the range at the head is being read into the page cache: wait for that */
    enum port_rc send_rc;    /* not OK: every send fails with it from now on */
    enum port_rc receive_rc; /* the same for RECV */
};

struct listener {
    uv_poll_t poll;
    struct shard *shard;
    struct base_list accepts; /* ops */
    struct op *closing;
    uint32_t share; /* index in host.shares */
    uint32_t generation;
    int fd;
    int interest;
    enum conn_state state; /* FREE, OPEN or CLOSING */
};

/* ---- files (file.c) ---- */
enum file_state { FILE_FREE = 0, FILE_OPENING, FILE_OPEN, FILE_CLOSING };

struct file {
    int fd;
    uint32_t generation;
    enum file_state state;
    uint32_t disk;
    uint32_t running; /* ops of this file on threads */
    uint32_t syncs_running;
    uint32_t truncates_pending; /* asked and not done */
    bool can_write;
    bool is_ordered_running;  /* the first of `ordered` is on a thread */
    struct base_list ordered; /* writes, truncates, allocations for the threads, in the order asked */
    struct base_list held;    /* syncs that wait for a truncate */
    struct op *closing;
};

struct work_queue {
    uv_mutex_t lock;
    uv_cond_t filled;
    struct op *first;
    struct op *last;
    bool is_ended;
};

struct disk_thread {
    uv_thread_t thread;
    struct work_queue *queue;
    atomic_ullong busy_since_ns; /* 0: it waits for work */
};

struct disk {
    int fd;
    struct work_queue sync;      /* one thread */
    struct work_queue work;      /* host.config.disk_threads threads */
    struct disk_thread *threads; /* the first one's is sync */
    uint32_t thread_count;
};

/* ---- messages (message.c) ---- */
#define RING_SLOTS 256
struct spill {
    struct spill *next;
    struct port_message message;
};

/* From one shard to another: a ring, and a list for what does not fit. Only the sender adds, only the receiver takes. */
struct ring {
    _Alignas(64) atomic_uint head; /* the sender's: next slot to fill */
    _Alignas(64) atomic_uint tail; /* the receiver's: next slot to take */
    _Alignas(64) atomic_uint spilled;
    uv_mutex_t lock; /* for the list */
    struct spill *first;
    struct spill *last;
    struct port_message *slots; /* RING_SLOTS of them */
};

/* A listening socket that shards share. */
struct share {
    struct port_address asked;
    struct port_address bound;
    int fd; /* -1: unused */
    uint32_t holders;
    bool *is_held; /* by shard */
};

#define OPS_PER_CHUNK 64
struct op_chunk {
    struct op_chunk *next;
    struct op ops[OPS_PER_CHUNK];
};

struct shard {
    struct host *host;
    uint32_t index;
    void *machine;
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t alarm;
    uint64_t alarm_set_ns; /* what the timer is set for; UINT64_MAX: not set */
    uint64_t now_ns;
    int64_t wall_ms;
    struct port_out out;
    struct port_event event;
    struct base_list ready; /* ops that have completed, to be delivered */
    struct base_list flush; /* conns */
    struct conn *conns;
    struct listener *listeners;
    struct file *files; /* .fd and .generation are read by other shards under a lease */
    struct op *free_ops;
    struct op_chunk *chunks;
    uint32_t delivered; /* events since the last poll */
    bool wants_turn;    /* wished for by a step, and not given yet */
    bool wants_continue;
    bool has_polled; /* since CONTINUE was asked for */
    bool has_stopped;
    bool is_stop_given;
    uv_thread_t thread;

    /* shared */
    atomic_bool is_asleep;
    atomic_bool is_stop_asked;
    atomic_uint done_count; /* ops in done, roughly: looked at before taking the lock */
    uv_mutex_t done_lock;
    struct op *done_first; /* back from the threads */
    struct op *done_last;
    atomic_uint post_count;
    uv_mutex_t post_lock;
    struct spill *post_first;
    struct spill *post_last;
};

struct host {
    struct host_config config;
    struct shard *shards;
    struct disk *disks;
    struct ring *rings; /* [from * shards + to] */
    uv_mutex_t share_lock;
    struct share *shares;
    uint32_t share_count;
    uint32_t asyncs_made; /* shards whose loop exists, for destroy */
    atomic_uint stopped_count;
    atomic_bool is_over;
};

/* memory: out of memory in the host is the end of the process, like a CHECK */
void *host__allocate(size_t count, size_t item_bytes); /* cleared */

/* shard.c */
struct op *host__op_take(struct shard *shard, const struct port_effect *effect);
void host__op_give(struct shard *shard, struct op *op);
void host__complete(struct op *op, enum port_rc rc, uint64_t count);
void host__wake(struct shard *shard); /* from any thread, after what it is to see was published */
void host__shard_run(struct shard *shard);
int64_t host__wall_ms(void);

/* net.c */
void host__net_do(struct shard *shard, const struct port_effect *effect);
void host__net_flush(struct shard *shard); /* one round over shard.flush */
void host__net_warmed(struct op *op);      /* back from a thread, on the shard */
void host__net_end(struct shard *shard);

/* file.c */
void host__file_do(struct shard *shard, const struct port_effect *effect);
void host__file_done(struct op *op); /* back from a thread, on the shard */
/* For sends: of any shard's file; -1: not open. */
int host__file_fd(struct host *host, struct port_file file, uint32_t *disk_out);
void host__file_end(struct shard *shard);

/* disk.c */
void host__disk_run(struct op *op); /* carries out the system calls of file work, on any thread */
void host__disk_start(struct host *host);
void host__disk_stop(struct host *host);
void host__disk_push(struct disk *disk, struct op *op);

/* tell.c */
void host__disk_tell(const struct op *op); /* that its call failed, while its file is open; on any thread */

/* message.c */
void host__ring_push(struct shard *from, const struct port_message *message);
bool host__ring_pop(struct host *host, uint32_t from, uint32_t to, struct port_message *message_out);
bool host__ring_has(struct host *host, uint32_t from, uint32_t to);
bool host__post_pop(struct shard *shard, struct port_message *message_out);

#endif
