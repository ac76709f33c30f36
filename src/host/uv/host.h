/* host.h: runs machines on real sockets, disks and clocks: carries out the effects of port.h and reports its events.
 *
 * Room    host/uv. Uses base and port. Knows no protocol and no retry: it reports, the machine decides.
 * Owns    one libuv loop per shard; per disk one thread for syncs and some for other file work; every descriptor.
 *         The machines belong to the caller and must outlive host_destroy.
 * Threads shard 0 runs on the thread that calls host_run, each other shard on a thread of its own. A machine is stepped by
 *         its shard's thread only. host_stop and host_post may be called from anywhere.
 * Limits  the tables below have a fixed size, because sends name files of other shards' tables: a slot that the machine
 *         chooses must be below the maximum (CHECK).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_UV_HOST_H
#define HOST_UV_HOST_H

#include "base/base.h"
#include "port/port.h"

struct host;

/* A step of the shard's machine, for example a thin wrapper around broker_step. */
typedef void (*host_step_fn)(void *machine, const struct port_event *event, struct port_out *out);

/* What leaves a machine as a note. Each may be NULL. They run on the thread of the shard and must be thread-safe; slices are
 * borrowed for the call. */
struct host_notes {
    void *context;
    /* Of the host itself, too (room "host/uv"), on a thread of a disk: that a call of the system failed, which no machine can name. */
    void (*log)(void *context, uint32_t shard, int64_t wall_ms, enum port_level level, struct base_slice room,
                struct base_slice text);
    void (*level)(void *context, struct base_slice room, uint32_t level); /* as PORT_LEVEL has them */
    void (*ready)(void *context, uint32_t shard);
    void (*stopped)(void *context, uint32_t shard);
    /* One step with what it asked for carried out, or one round of sends, has kept the shard from all else for so long. */
    void (*turn)(void *context, uint32_t shard, uint64_t ns);
    /* A PORT_SYNC is done: so long after it was asked for, what it waited for the disk's thread included. */
    void (*synced)(void *context, uint32_t shard, uint64_t token, uint64_t ns);
};

struct host_config {
    uint32_t shards;          /* 1 to 1024 */
    const char *const *disks; /* paths of directories that exist; may be NULL when disk_count is 0 */
    uint32_t disk_count;
    uint32_t conns_max;     /* per shard: slots of connections are below this */
    uint32_t listeners_max; /* per shard */
    uint32_t files_max;     /* per shard */
    uint32_t effects_max;   /* room of a step's out; 0: PORT_EFFECTS_MAX */
    uint32_t messages_max;  /* 0: PORT_MESSAGES_MAX */
    uint32_t disk_threads;  /* per disk, for all file work but syncs; 0: 2 */
    host_step_fn step;
    void *const *machines; /* one per shard */
    struct host_notes notes;
};

#define HOST_WHY_BYTES 256

/* Opens the disks' directories and makes the loops; no step runs yet. Ignores SIGPIPE and SIGXFSZ for the
 * process.
 * Fails   the error word, and why_out a line for people; *host_out is then untouched. */
MUST_USE
enum port_rc host_create(const struct host_config *config, struct host **host_out, char why_out[HOST_WHY_BYTES]);

/* Delivers PORT_EVENT_START to every shard and runs until every shard has emitted PORT_STOPPED. A shard that has stopped
 * early still gets its events until the last one has. To be called once. */
void host_run(struct host *host);

/* Delivers one PORT_EVENT_STOP to every shard. Safe in a signal handler and from any thread, between host_create and
 * host_destroy. Further calls do nothing. */
void host_stop(struct host *host);

/* Delivers PORT_EVENT_MESSAGE to a shard from outside, with from == HOST_OUTSIDE; in order for one calling thread.
 * Safe from any thread between host_create and host_destroy; never blocks. A message that comes after the last
 * PORT_STOPPED is dropped. */
#define HOST_OUTSIDE UINT16_MAX
void host_post(struct host *host, uint32_t shard, const struct port_message *message);

/* Messages of other shards that wait for `shard` and that its machine has not been given yet. From any thread, between host_create and
 * host_destroy. */
MUST_USE
uint64_t host_messages_waiting(const struct host *host, uint32_t shard);

/* How long the file work that has been under way longest has not come back from the disk; 0: none is under way. Of what runs on shards'
 * own threads nothing is known. From any thread, between host_create and host_destroy. */
MUST_USE
uint64_t host_disk_silent_ns(const struct host *host, uint32_t disk);

/* Closes whatever the machines left open. Not while host_run runs. */
void host_destroy(struct host *host);

/* What port.h calls an errno. */
enum port_rc host_rc_of_errno(int error);

#endif
