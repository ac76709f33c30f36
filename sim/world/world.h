/* world.h: the outside as a simulation: virtual clock, network, crash-disks and faults, all from one seed.
 *
 * Room    sim/world. Uses base and port only: it carries out port.h's effects and knows no protocol.
 * Owns    every machine it boots, the memory they live in, the disks, the sockets. world_destroy gives all of it back.
 * Order   everything that happens follows from the seed, the knobs and the sequence of calls. No wall time, no address,
 *         no thread.
 *
 * HOW TO USE IT
 *
 *     struct world_knobs knobs;
 *     world_knobs_default(&knobs);              // no faults, moderate latencies; or world_knobs_swarm(&knobs, seed)
 *     struct world *world = world_create(seed, &knobs);
 *     uint32_t broker = world_add_node(world, &(struct world_node_spec){.machine = &broker_machine, .context = &config,
 *                                      .shard_count = 2, .disk_count = 1, .region_bytes = 64 << 20});
 *     world_observe(world, &checker);           // sees every event before its step and every effect after it
 *     while (world_now(world) < limit_ns && world_failure(world) == NULL && world_step(world)) { }
 *     world_calm(world);                        // faults stop, links heal, crashed nodes come back: progress is now due
 *     ...
 *     world_stop(world, broker);                // PORT_EVENT_STOP; at PORT_STOPPED all ids and effects must be back
 *     const char *what = world_failure(world);  // NULL: nothing wrong was seen
 *     world_destroy(world);
 *
 * NODES. A node is 1 to WORLD_SHARDS_MAX shards; each is a machine in a region of its own. With disks it is a broker, and
 * may be crashed by a fault; without it is a client, and is not. Node n has the address 10.0.0.(n + 1) and the name "n<n>".
 * Boot (world_add_node, world_restart) makes a fresh zero-filled region per shard, calls `create`, and START follows.
 * A crash drops the regions at once: `destroy` is called first and must not touch the world.
 *
 * TIME. world_now is nanoseconds since the world began. A node's own clocks (now_ns, wall_ms of its events) have an offset
 * and may drift; world_clock_step moves the wall clock. Each step takes a little virtual time, in which what arrives gathers.
 *
 * FAULTS. enum world_fault names all of them. knobs.rate_ppm[fault] is the chance per opportunity, in millionths; each
 * fault draws from its own dice. world_hits counts how often each happened. Faults that no single node can survive
 * without losing what it acknowledged (lost and misdirected writes, rot, lost names, lying syncs) are never in the swarm.
 *
 * FAILURES. A breach of port.h by a machine (an id before its open, a slot before its CLOSED, lent bytes changed, a lease
 * broken, two RECVs, ids left over at PORT_STOPPED) is kept as a line of text; the run goes on. Checkers add theirs
 * with world_fail. The first one is what world_failure returns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdio.h>

#include "base/base.h"
#include "port/port.h"

#define WORLD_SHARDS_MAX    8
#define WORLD_DISKS_MAX     8
#define WORLD_NODES_MAX     250
#define WORLD_OBSERVERS_MAX 8
#define WORLD_NONE          UINT32_MAX

#define WORLD_US UINT64_C(1000)
#define WORLD_MS UINT64_C(1000000)
#define WORLD_S  UINT64_C(1000000000)

struct world;

/* ---- faults and knobs ------------------------------------------------------------------------------------------------ */

enum world_fault {
    /* network; an opportunity is in brackets */
    WORLD_NET_CUT = 0,      /* [segment] a few bytes only, so that frames are cut anywhere */
    WORLD_NET_SLOW,         /* [segment] a long delay */
    WORLD_NET_STALL,        /* [segment] the direction stands still for a while: a slow reader's path */
    WORLD_NET_RESET,        /* [segment] the connection is reset, after part of the segment */
    WORLD_NET_SHORT_RECV,   /* [recv] fewer bytes than there are */
    WORLD_NET_SMALL_BUFFER, /* [connection] socket buffers of a few hundred bytes: senders block and drain in pieces */
    WORLD_NET_REFUSE,       /* [connect] refused */
    WORLD_NET_TIMEOUT,      /* [connect] times out */
    WORLD_NET_RESOLVE,      /* [resolve] name not known */
    WORLD_NET_HALF_OPEN,    /* [connection of a crashed node] the peer is not told */
    WORLD_NET_NO_HANDLES,   /* [connect, accept] out of descriptors */
    WORLD_NET_PARTITION,    /* [about once a second] one direction between two nodes blocked for a while */
    /* disk */
    WORLD_DISK_SLOW,        /* [file operation] a long delay */
    WORLD_DISK_STALL,       /* [file operation] the disk stands still; an ON_SHARD write then holds its shard */
    WORLD_DISK_LATE,        /* [ON_SHARD operation] not at once, but as if ON_DISK */
    WORLD_DISK_SHORT_READ,  /* [read] */
    WORLD_DISK_SHORT_WRITE, /* [write] */
    WORLD_DISK_EIO_READ,    /* [read] */
    WORLD_DISK_EIO_WRITE,   /* [write, truncate, allocate] maybe part of it was done */
    WORLD_DISK_EIO_SYNC, /* [sync] fails; what it should have covered stays readable and clean until a crash brings old bytes back */
    WORLD_DISK_EIO_BACK, /* [write] write-back fails in the background: as above, and the next sync says so, once */
    WORLD_DISK_EIO_NAME, /* [open, rename, unlink, make, remove, sync of a directory] */
    WORLD_DISK_EIO_LIST, /* [list] */
    WORLD_DISK_NO_SPACE, /* [write, allocate, open that creates, make] */
    WORLD_DISK_FULL, /* [about once a second, per disk] nothing new fits for a while: a file grows no more, none is made */
    WORLD_DISK_NO_HANDLES,  /* [open] */
    WORLD_DISK_LOST_WRITE,  /* [write] never reaches the disk, though synced. Not in the swarm. */
    WORLD_DISK_MISDIRECTED, /* [write] reaches the disk somewhere else in the file. Not in the swarm. */
    WORLD_DISK_LOST_NAME,   /* [rename] never reaches the disk, though synced. Not in the swarm. */
    WORLD_DISK_SYNC_LIES,   /* [sync] covers nothing and says so never. Not in the swarm. */
    WORLD_DISK_ROT,         /* [crash] one bit of what is durable flips. Not in the swarm; or world_rot. */
    /* nodes */
    WORLD_CRASH_POWER,    /* [effect of a node with disks] the power goes: only what the disk kept remains */
    WORLD_CRASH_PROCESS,  /* [effect of a node with disks] the process dies: the page cache remains */
    WORLD_CRASH_KIND,     /* [effect or message of a kind that knobs.crash_kinds names] the power goes */
    WORLD_SHARD_SLOW,     /* [step] a shard pauses */
    WORLD_NODE_PAUSE,     /* [step] all shards of the node pause */
    WORLD_MESSAGE_LATE,   /* [message between shards] a long delay */
    WORLD_CLOCK_STEP,     /* [about once a second, per node] the wall clock moves, by years at times */
    WORLD_DISK_NO_MEMORY, /* [open, read] the system has none for it */
    /* what became of things at a power cut: counted, no rate of their own */
    WORLD_KEPT_WRITE,      /* an unsynced write was kept */
    WORLD_LOST_WRITE,      /* lost */
    WORLD_TORN_WRITE,      /* kept in part */
    WORLD_REORDERED_WRITE, /* kept, though an earlier one of the same file was lost */
    WORLD_SIZE_ONLY_WRITE, /* the size was kept, the bytes were not: zeros */
    WORLD_KEPT_TRUNCATE,
    WORLD_LOST_TRUNCATE,
    WORLD_KEPT_NAME, /* an unsynced create, rename, unlink or directory was kept */
    WORLD_LOST_NAME,
    WORLD_OLD_BYTES,      /* bytes of a failed sync or failed write-back fell back to what was there before */
    WORLD_CRASH_PLANNED,  /* by world_crash_before or crash_at_effect */
    WORLD_CRASH_CALLED,   /* by world_crash */
    WORLD_CRASH_MID_STEP, /* a crash came after some, not all, effects of a step */
    WORLD_SHARD_HELD,     /* a shard stood still, by world_hold */
    WORLD_APART_BYTES,    /* a power cut of a disk kept bytes, and lost sizes and names */
    WORLD_APART_NAMES,    /* ... kept sizes and names, and lost bytes */
    WORLD_OUTLIVED_CUT,   /* an unsynced write was kept, though a truncate of the file before it was lost */
    WORLD_FAULT_COUNT
};

/* What a crash may stand before: an effect, by its kind, or a message between shards. */
#define WORLD_BEFORE_MESSAGE ((uint32_t)PORT_EFFECT_COUNT)
#define WORLD_BEFORE_COUNT   ((uint32_t)PORT_EFFECT_COUNT + 1)
#define WORLD_BEFORE_ANY     UINT32_MAX

/* What a power cut keeps of what is not synced. */
enum world_keep {
    WORLD_KEEP_ANY = 0, /* one of those below, drawn at each crash */
    WORLD_KEEP_NOTHING,
    WORLD_KEEP_ALL,
    WORLD_KEEP_EACH,   /* each write and name for itself: kept, lost, torn */
    WORLD_KEEP_PREFIX, /* in order up to a point, per file and directory; the one at the point torn */
    WORLD_KEEP_BYTES,  /* bytes, as far as a file's durable size reaches; no size (truncates, growth) and no name */
    WORLD_KEEP_NAMES,  /* sizes and names; of what was written zeros where the file grew, else what was there before */
    WORLD_KEEP_ONE,    /* of all the node's writes and names the one chosen by world_set_keep_at */
    WORLD_LOSE_ONE,    /* all but that one */
    WORLD_TEAR_ONE,    /* those before it, and the first half of it */
};

/* What of an effect the hash is given with one bit changed: a test of the hash. What the effect does not have is not changed. */
enum world_flip {
    WORLD_FLIP_NOTHING = 0,
    WORLD_FLIP_PAYLOAD,  /* bytes of memory that are sent or written */
    WORLD_FLIP_RANGE,    /* where a range that is sent begins */
    WORLD_FLIP_PATH,     /* a name, a line for the log */
    WORLD_FLIP_POSITION, /* position_bytes */
    WORLD_FLIP_SIZE,     /* size_bytes */
    WORLD_FLIP_TOKEN,
    WORLD_FLIP_WORD /* the first word of a message */
};

struct world_knobs {
    uint32_t rate_ppm[WORLD_FAULT_COUNT];
    uint64_t net_delay_min_ns, net_delay_max_ns;   /* one way */
    uint64_t disk_delay_min_ns, disk_delay_max_ns; /* read, write, name */
    uint64_t sync_delay_min_ns, sync_delay_max_ns;
    uint64_t message_delay_min_ns, message_delay_max_ns; /* between shards */
    uint64_t step_cost_min_ns, step_cost_max_ns;         /* virtual time a step takes; min > 0 */
    uint64_t slow_max_ns;                                /* the longest delay, stall or pause that a fault draws */
    uint64_t connect_timeout_ns;
    uint64_t give_up_ns;          /* a silent peer: the sender's system gives up (PORT_TIMED_OUT) */
    uint32_t segment_max_bytes;   /* of the network */
    uint32_t socket_buffer_bytes; /* unread and in flight, per direction */
    uint32_t backlog_max;         /* connections not yet accepted, per address */
    uint32_t handles_max;         /* files and connections per node */
    uint64_t disk_capacity_bytes; /* per disk; 0: no limit */
    uint64_t file_max_bytes;      /* past it: PORT_NO_SPACE */
    enum world_keep keep;
    uint32_t apart_ppm; /* with WORLD_KEEP_ANY: the chance of a power cut that it is KEEP_BYTES or KEEP_NAMES */
    uint64_t
        restart_delay_max_ns; /* a node crashed by a fault or by crash_at_effect comes back by itself within this; 0: never */
    uint64_t
        crash_at_effect;  /* 0: none. The n-th effect (from 1) of nodes with disks is the first that is not carried out:
                                      that node's power goes just before it. See world_effects. */
    uint64_t crash_kinds; /* what the fault crash_kind comes before: bit k for effects of kind k, the one above them
                                      for messages */
    uint64_t
        flip_effect; /* 0: none. The n-th effect or message (from 1, of all nodes, as the trace counts them) is hashed with
                             one bit of `flip` changed; the run itself is not. */
    enum world_flip flip;
    uint64_t drift_max_ppm;     /* of monotonic clocks, each node its own; 0: none */
    uint64_t clock_heal_max_ns; /* a stepped wall clock is set right within this, and at each boot; 0: it stays */
    int64_t wall_start_ms;
    bool evicts_at_boot; /* a node that starts reads past the page cache, as it must after a failed sync: what
                                      such a sync dropped is seen as it is on disk. Off: a process that dies and starts again still
                                      sees the clean pages. */
    bool checks_lent;    /* checksum lent bytes when asked and when done */
    bool checks_stopped; /* at PORT_STOPPED of all shards of a node every id and effect must be back */
};

void world_knobs_default(struct world_knobs *knobs); /* every rate 0 */
void world_knobs_swarm(struct world_knobs *knobs,
                       uint64_t seed); /* default, then a random subset of faults on, with random rates */
bool world_knob_is_known(const char *name);
/* "net_reset=500" (a fault by its name: its rate in ppm) or "disk_capacity_bytes=1000000", as `name`, `value`. False: no such
 * knob, or a value that it can't have. */
MUST_USE
bool world_knobs_set(struct world_knobs *knobs, const char *name, int64_t value);
const char *world_fault_name(enum world_fault fault); /* "net_cut" */
bool world_fault_is_in_swarm(enum world_fault fault);
void world_knobs_print(const struct world_knobs *knobs, FILE *to); /* "name=value" per line, rates of 0 left out */

/* ---- machines and nodes ---------------------------------------------------------------------------------------------- */

struct world_boot {
    uint32_t node;
    uint32_t shard;
    uint32_t shard_count;
    uint32_t disk_count;
    uint32_t boot_count;         /* 1 at the first */
    uint64_t seed;               /* another one at each boot of each shard: for the machine's dice */
    struct port_address address; /* of the node, port 0 */
    struct base_region region;   /* zero-filled, 4096-aligned; the world's, until destroy */
};

struct world_machine {
    void *(*create)(void *context, const struct world_boot *boot); /* never NULL */
    void (*step)(void *machine, const struct port_event *event, struct port_out *out);
    void (*destroy)(void *context, void *machine); /* may be NULL. The region goes afterwards. */
};

struct world_node_spec {
    const struct world_machine *machine; /* outlives the world */
    void *context;
    uint32_t shard_count;
    uint32_t disk_count;
    size_t region_bytes; /* per shard; 0: none */
    bool is_down;        /* don't boot yet: world_restart does */
};

enum world_crash { WORLD_POWER = 0, WORLD_PROCESS = 1 };
enum world_state { WORLD_UP = 0, WORLD_DOWN, WORLD_STOPPED };

struct world *world_create(uint64_t seed, const struct world_knobs *knobs);
void world_destroy(struct world *world);
uint32_t world_add_node(struct world *world, const struct world_node_spec *spec); /* the node's number: 0, 1, ... */
uint32_t world_node_count(const struct world *world);
enum world_state world_node_state(const struct world *world, uint32_t node);
uint32_t world_boot_count(const struct world *world, uint32_t node);
void *world_machine_at(const struct world *world, uint32_t node, uint32_t shard); /* NULL when the node is not up */
struct port_address world_address(const struct world *world, uint32_t node, uint16_t port);

/* ---- running --------------------------------------------------------------------------------------------------------- */

/* Up to and with the next event that a machine is given (or a crash, boot or call below). False: nothing is left to happen. */
bool world_step(struct world *world);
/* Steps until `until_ns` (world time; later things stay), a failure, or nothing is left. True: time was reached. */
bool world_run(struct world *world, uint64_t until_ns);
uint64_t world_now(const struct world *world);
uint64_t world_hash(const struct world *world);    /* of the whole trace so far */
uint64_t world_events(const struct world *world);  /* given to machines so far */
uint64_t world_effects(const struct world *world); /* of nodes with disks so far: what crash_at_effect counts */
uint64_t world_hits(const struct world *world, enum world_fault fault);
uint64_t world_asked_of(const struct world *world, uint32_t kind);       /* by nodes with disks; WORLD_BEFORE_* */
uint64_t world_crashes_before(const struct world *world, uint32_t kind); /* crashes that came just before one */
/* What happened last: the fault, and after how many events. False: none yet. */
bool world_last_fault(const struct world *world, enum world_fault *fault_out, uint64_t *event_out);
/* Calls back at `at_ns` (world time, not before now), between steps: a harness's own schedule. */
void world_at(struct world *world, uint64_t at_ns, void (*call)(void *context, struct world *world), void *context);

/* A message to a shard from outside its node (`from` stays as given), soon, in the order of the calls. Dropped when the node is
 * not up. */
void world_post(struct world *world, uint32_t node, uint32_t shard, const struct port_message *message);

/* ---- disasters on demand --------------------------------------------------------------------------------------------- */

/* No-op when it is not up. Between steps, or in an observer (then it takes effect after the step's effects). */
void world_crash(struct world *world, uint32_t node, enum world_crash kind);
/* The `count`-th effect of `kind` (WORLD_BEFORE_*) of that node from now on is the first that is not carried out. One plan a
 * node, a later one takes its place, and one that comes true, or a calm, ends it. count 0: none. May be called by observers. */
void world_crash_before(struct world *world, uint32_t node, uint32_t kind, uint64_t count, enum world_crash crash);
/* What the power cut keeps that is planned there now, whatever the knob `keep` says. Needs: a plan (world_crash_before); keep is
 * none of the ..._ONE. */
void world_crash_keeps(struct world *world, uint32_t node, enum world_keep keep);
bool world_is_crash_planned(const struct world *world, uint32_t node);
void world_restart(struct world *world, uint32_t node); /* no-op when it is up */
void world_stop(struct world *world, uint32_t node);    /* PORT_EVENT_STOP to every shard */
void world_pause(struct world *world, uint32_t node, uint64_t pause_ns);
/* That shard stands still for `pause_ns` after `steps` more steps; within one of its steps 0 is the end of that one. One plan a
 * shard, a later one takes its place; a boot or a calm ends it. May be called by observers. */
void world_hold(struct world *world, uint32_t node, uint32_t shard, uint32_t steps, uint64_t pause_ns);
void world_clock_step(struct world *world, uint32_t node, int64_t step_ms); /* the wall clock */
void world_wipe(struct world *world, uint32_t node, uint32_t disk);         /* an empty disk; the node is not up */
/* Blocks or heals one direction. What is sent waits, as TCP does, until it heals or the sender gives up. */
void world_block(struct world *world, uint32_t from, uint32_t to, bool is_blocked);
void world_set_rate(struct world *world, enum world_fault fault, uint32_t rate_ppm);
void world_set_keep(struct world *world, enum world_keep keep);
/* For WORLD_KEEP_ONE and those after it: which, below world_unsynced of the node. */
void world_set_keep_at(struct world *world, enum world_keep keep, uint32_t at);
/* Writes, truncations and names of the node's disks that a power cut would decide about now. */
uint32_t world_unsynced(const struct world *world, uint32_t node);
void world_fill(struct world *world, uint32_t node, uint32_t disk); /* its capacity is what is used now */
void world_set_capacity(struct world *world, uint32_t node, uint32_t disk, uint64_t capacity_bytes); /* 0: no limit */
/* Flips a random bit of what is durable; the page cache may still hide it. False: nothing durable there. */
bool world_rot(struct world *world, uint32_t node, uint32_t disk);
/* Flips one bit of one byte of a file, durable and cached. False: no such byte. */
bool world_rot_at(struct world *world, uint32_t node, uint32_t disk, const char *path, uint64_t position_bytes);
/* Rates to 0, no limit of handles, stalls and pauses over, links healed, disks with room, crashed nodes restarted. */
void world_calm(struct world *world);

/* ---- looking on ------------------------------------------------------------------------------------------------------ */

/* Any member may be NULL. They must not change machines, nor call world_step or world_run. */
struct world_observer {
    void *context;
    /* Before the step. `payload`: what a DONE of RECV, READ or LIST delivered, else empty. `machine` is read only. */
    void (*on_event)(void *context, uint32_t node, uint32_t shard, const struct port_event *event,
                     struct base_slice payload, const void *machine);
    /* Before each effect and message of a node with disks, and before on_effect. True: the power goes here. */
    bool (*may_crash)(void *context, uint32_t node);
    /* After the step, before the effect is carried out; notes (PORT_LOG ...) too. */
    void (*on_effect)(void *context, uint32_t node, uint32_t shard, const struct port_effect *effect);
    void (*on_message)(void *context, uint32_t node, uint32_t shard, const struct port_message *message);
    void (*on_step)(void *context, uint32_t node, uint32_t shard, const struct port_out *out,
                    const void *machine);                                  /* after the step, before on_effect */
    void (*on_boot)(void *context, uint32_t node);                         /* after `create` of all shards */
    void (*on_crash)(void *context, uint32_t node, enum world_crash kind); /* before the memory goes */
    void (*on_stopped)(void *context, uint32_t node);
};
void world_observe(struct world *world, const struct world_observer *observer); /* copied */

const char *world_failure(const struct world *world); /* the first; NULL: none */
uint32_t world_failures(const struct world *world);
void world_fail(struct world *world, uint32_t node, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* node may be WORLD_NONE */
/* The machine being stepped now (for a base_panic_host that names it), or WORLD_NONE. */
uint32_t world_stepping(const struct world *world, uint32_t *shard_out);
/* One line per event and effect, until NULL. The file stays the caller's. */
void world_trace_to(struct world *world, FILE *to);

/* A failed write-back that no sync has told of yet: the next one will, faults over or not. A power cut ends that too. */
bool world_hides_error(const struct world *world, uint32_t node);
/* The node, what is under way in it, its files, as text. */
void world_print(const struct world *world, uint32_t node, FILE *to);
uint32_t world_outstanding(const struct world *world, uint32_t node); /* effects without a completion */
uint32_t world_open_ids(const struct world *world, uint32_t node);    /* connections, listeners and files */
/* Of an open file, as its machine sees it. 0: there is no such id. */
uint64_t world_size_of(const struct world *world, uint32_t node, struct port_file file);
/* What a machine would read there now / would find after a power cut that keeps nothing. Valid until the next call into
 * the world. False: no such file. */
MUST_USE
bool world_file_view(const struct world *world, uint32_t node, uint32_t disk, const char *path,
                     struct base_slice *bytes_out);
MUST_USE
bool world_file_durable(const struct world *world, uint32_t node, uint32_t disk, const char *path,
                        struct base_slice *bytes_out);
/* Puts a file there, durable, with its directories: what was there before the run. */
void world_file_put(struct world *world, uint32_t node, uint32_t disk, const char *path, struct base_slice bytes);
/* Paths of all files of the disk, sorted, one call each. */
void world_files(const struct world *world, uint32_t node, uint32_t disk,
                 void (*call)(void *context, const char *path, uint64_t size_bytes), void *context);

#endif
