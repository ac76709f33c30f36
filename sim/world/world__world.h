/* world__world.h: what the parts of the world share; nobody else includes it (but the world's own tests).
 *
 * Room    sim/world, private.
 * Parts   clock.c    timers: a heap of what will happen
 *         faults.c   names, rates and dice; the swarm
 *         world.c    nodes, boot and crash, the shard's loop, looking on
 *         crash.c    crashes at an effect
 *         second.c   what strikes about once a second: partitions, clock steps, full disks; and how it ends
 *         effect.c   an effect's way from the step to its completion; tables of ids; port.h's rules for machines
 *         network.c  listeners, connections, segments
 *         content.c  bytes of a file: cached, durable, and what is between
 *         names.c    directories; effects on names
 *         file.c     effects on open files
 *         cut.c      what a power cut leaves
 *         trace.c    the readable trace
 *         print.c    a node as text
 *         flip.c     what is hashed
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_WORLD_WORLD_H
#define SIM_WORLD_WORLD_H

#include "world.h"

/* ---- clock.c: timers ---- */

struct timer;
typedef void timer_fire(struct world *world, struct timer *timer);

struct timer {
    uint64_t at_ns;
    timer_fire *fire;
    uint32_t place; /* index + 1 in the heap; 0: not set */
};

struct clock_cell { /* beside the timer, so that sifting touches one array */
    uint64_t at_ns;
    uint64_t order; /* random above, counting below: equal times fire in a random but repeatable order */
    struct timer *timer;
};

struct clock {
    struct clock_cell *cells;
    uint32_t count;
    uint32_t cells_max;
    uint64_t next_order;
};

void world__timer_set(struct world *world, struct timer *timer, uint64_t at_ns,
                      timer_fire *fire); /* moves it when it is set */
void world__timer_stop(struct world *world, struct timer *timer);
static inline bool world__timer_is_set(const struct timer *timer) { return timer->place != 0; }
struct timer *world__timer_pop(struct world *world); /* NULL: none */
void *world__alloc(size_t size_bytes);               /* zeroed; never NULL */
void *world__grow(void *old, size_t size_bytes);

/* ---- dice ---- */

enum dice_use { /* one stream per use; faults have streams of their own after these */
                DICE_ORDER = 1,
                DICE_NET_DELAY,
                DICE_SEGMENT,
                DICE_DISK_DELAY,
                DICE_MESSAGE,
                DICE_STEP,
                DICE_BOOT,
                DICE_KEEP,
                DICE_PART, /* how much of a short count, of a torn thing */
                DICE_ACCEPT,
                DICE_SECOND,
                DICE_COVER,
                DICE_USE_COUNT
};
uint64_t world__draw(struct world *world, enum dice_use use, uint64_t bound);                /* [0, bound) */
uint64_t world__between(struct world *world, enum dice_use use, uint64_t min, uint64_t max); /* both included */
bool world__hit(struct world *world, enum world_fault fault); /* rolls, and counts when it hits */
uint64_t world__slow_ns(struct world *world, enum dice_use use);
void world__count(struct world *world, enum world_fault fault);

/* ---- effects and ids (effect.c) ---- */

enum ready_kind { READY_START = 0, READY_STOP, READY_OP, READY_MESSAGE };

struct ready { /* an event that waits for its shard */
    struct ready *next;
    enum ready_kind kind;
};

enum op_state { OP_WAITING = 1, OP_READY, OP_DELIVERED };

struct op { /* an effect without its completion yet */
    struct ready ready;
    struct timer timer;
    struct base_link in_shard;
    struct base_list *queue;   /* NULL: in none */
    struct base_link in_queue; /* of its id: sends, accepts, writes, held syncs */
    struct shard *shard;
    struct ref *ref; /* NULL: names no id, or a wrong one */
    struct port_effect effect;
    enum op_state state;
    enum port_rc rc;
    uint64_t count;
    struct port_address address;
    bool is_more;
    uint64_t total_bytes; /* PORT_SPACE */
    bool is_late;         /* not at once, though ON_SHARD */
    uint64_t lent_sum;
    uint32_t piece_at; /* sends: the piece being sent, and how much of it has left */
    uint64_t piece_used;
    uint32_t lease_count; /* sends: leases taken, as an array */
    struct lease *leases;
    struct inode *inode; /* held: the file, or the directory of a name operation */
    uint64_t cover;      /* write, name: its sequence once done. Sync: up to where it was asked to cover. */
};

enum ref_state { REF_FREE = 0, REF_PENDING, REF_OPEN, REF_CLOSING };
enum ref_kind { REF_CONN = 0, REF_LISTENER, REF_FILE };
#define REF_KINDS 3

struct ref { /* one slot of a shard's table of ids */
    uint32_t slot;
    uint32_t generation;
    enum ref_state state;
    enum ref_kind kind;
    uint32_t waiting;   /* ops on it that are not READY, the closing one aside */
    struct op *opening; /* until it is READY */
    struct op *closing; /* PORT_CLOSE, PORT_CLOSE_FILE, PORT_UNLISTEN */
    struct end *end;    /* by kind; NULL: nothing behind it */
    struct binding *binding;
    struct handle *handle;
};

struct ref_table {
    struct ref **refs; /* by slot; NULL: never used */
    uint32_t refs_max;
    uint32_t open_count;
};
#define REF_SLOTS_MAX (1u << 22)

void world__effect(struct world *world, struct shard *shard, const struct port_effect *effect);
void world__op_done(struct world *world, struct op *op, enum port_rc rc,
                    uint64_t count); /* READY: the event comes next in its turn */
void world__op_deliver(struct world *world, struct op *op, struct port_event *event, struct base_slice *payload_out);
void world__op_free(struct world *world, struct op *op);
void world__shard_drop(struct world *world, struct shard *shard); /* ops and tables, at a crash or stop */
void world__close_if_idle(struct world *world, struct ref *ref);
/* Around the world's own writing into op's buffer. */
void world__fill_begin(struct world *world, const struct op *op);
void world__fill_end(struct world *world, struct op *op);
struct ref *world__ref(struct shard *shard, enum ref_kind kind, uint32_t slot); /* NULL: never used */
void world__ready(struct world *world, struct shard *shard, struct ready *ready);

/* ---- network.c ---- */

struct segment {
    struct segment *next;
    uint64_t at_ns;
    uint32_t size_bytes;
    uint32_t used_bytes;
    enum { SEGMENT_BYTES = 0, SEGMENT_END, SEGMENT_RESET } kind;
    uint8_t bytes[];
};

struct end { /* one side of a connection */
    struct link *link;
    struct end *peer;
    struct node *node;
    struct shard *shard; /* NULL: nobody holds it (backlog, closed) */
    struct ref *ref;
    struct group *group; /* in its backlog */
    struct base_link in_backlog;
    struct port_address address;
    struct base_list sends;
    struct op *recv;
    struct segment *wire, *wire_tail;     /* on their way to this end */
    struct segment *unread, *unread_tail; /* arrived */
    uint64_t wire_bytes, unread_bytes;
    uint64_t last_at_ns;     /* the last arrival planned */
    uint64_t stuck_since_ns; /* UINT64_MAX: not stuck */
    struct timer arrive;
    struct timer pump;
    enum port_rc error; /* PORT_OK: fine */
    bool saw_end;
    bool sent_end;
    bool is_closed;  /* by its owner, or its owner is gone */
    bool is_silent;  /* its node lost power and nobody was told */
    bool told_reset; /* a closed end answers bytes with one reset */
};

struct link {
    struct end ends[2];
    struct base_link in_world;
    uint64_t buffer_bytes;
};

struct group { /* an address that is listened on */
    struct base_link in_node;
    struct port_address address;
    bool is_any_port; /* asked for with port 0 */
    struct base_list bindings;
    struct base_list backlog;
};

struct binding { /* one shard's part in it */
    struct base_link in_group;
    struct group *group;
    struct ref *ref;
    struct shard *shard;
    struct base_list accepts;
};

void world__net_effect(struct world *world, struct op *op);
void world__net_close(struct world *world,
                      struct ref *ref); /* conn or listener: outstanding ops done with PORT_CLOSED */
void world__net_free_ref(struct world *world, struct ref *ref);
void world__net_drop(struct world *world, struct node *node, bool is_power);
void world__net_destroy(struct world *world);
struct port_address world__address(uint32_t node, uint16_t port);

/* ---- content.c, names.c, file.c, cut.c ---- */

struct content {
    uint8_t *at;
    uint64_t size_bytes;
    uint64_t room_bytes;
};

enum pend_kind { PEND_WRITE = 0, PEND_TRUNCATE };
struct pend { /* done in the cache, not yet durable */
    struct pend *next;
    uint64_t seq;
    enum pend_kind kind;
    uint64_t position_bytes; /* truncate: the new size */
    uint64_t size_bytes;
    uint64_t durable_position_bytes; /* where it really goes */
    bool is_void;                    /* never gets there */
    uint8_t bytes[];
};

struct entry {
    char *name;
    uint32_t name_bytes;
    struct inode *inode;
};
struct entries { /* sorted bytewise by name */
    struct entry *at;
    uint32_t count;
    uint32_t entries_max;
};

enum name_kind { NAME_SET = 0, NAME_GONE, NAME_MOVE };
struct name_pend {
    struct name_pend *next;
    uint64_t seq;
    enum name_kind kind;
    bool is_void;
    struct inode *inode;    /* held */
    struct inode *from_dir; /* NAME_MOVE; held */
    char *from;             /* NAME_MOVE */
    uint32_t from_bytes;
    uint32_t name_bytes;
    char name[];
};

struct inode {
    struct disk *disk;
    struct base_link in_disk;
    uint32_t refs;
    bool is_dir;
    bool is_dirty;     /* cached and durable may differ */
    bool has_error;    /* write-back failed; the next sync says so */
    bool has_lost;     /* something was dropped by a failed sync or write-back */
    uint64_t seq;      /* of the last change */
    uint64_t told_seq; /* of the last change whose completion was delivered */
    /* files */
    struct content cached, durable;
    struct pend *pends, *pends_tail;
    uint64_t allocated_bytes; /* reserved up to here */
    uint64_t charged_bytes;   /* of the disk's capacity */
    struct base_list leases;
    /* directories */
    struct entries names, durable_names;
    struct name_pend *name_pends, *name_pends_tail;
};

struct lease {
    struct base_link in_inode;
    struct inode *inode; /* held; NULL: given back */
    struct op *op;
    uint64_t start_bytes, end_bytes; /* not sent yet */
    bool is_broken;
};

struct handle {
    struct inode *inode; /* held */
    struct ref *ref;
    struct node *node;
    bool can_write;
    bool is_running;          /* the first of `changes` has its timer set */
    struct base_list changes; /* writes, truncates, allocations, in order */
    struct base_list held_syncs;
    uint32_t syncs_running;
    uint32_t truncates_waiting;
};

struct disk {
    struct world *world;
    struct node *node;
    uint32_t index;
    struct inode *root;
    struct base_list inodes;
    uint64_t used_bytes;
    uint64_t capacity_bytes; /* 0: no limit */
    uint64_t stalled_until_ns;
    bool is_full; /* for a while, whatever is used */
};

void world__content_write(struct content *content, uint64_t position_bytes, const uint8_t *at, uint64_t size_bytes);
void world__content_resize(struct content *content, uint64_t size_bytes);
void world__content_free(struct content *content);
struct inode *world__inode_create(struct disk *disk, bool is_dir); /* refs 0: the caller holds it */
static inline struct inode *world__inode_hold(struct inode *inode)
{
    inode->refs += 1;
    return inode;
}
void world__inode_release(struct inode *inode);
void world__inode_write(struct inode *inode, uint64_t position_bytes, const uint8_t *at, uint64_t size_bytes);
void world__inode_resize(struct inode *inode, uint64_t size_bytes);
void world__inode_charge(struct inode *inode);
uint64_t world__disk_room(const struct disk *disk);
void world__inode_sync(struct inode *inode, uint64_t cover_seq);
void world__inode_lose(struct inode *inode, uint64_t until_seq); /* a failed sync or write-back */
void world__pend_apply(struct inode *inode, const struct pend *pend);
void world__pends_free(struct inode *inode);

struct inode *world__entry_find(const struct entries *entries, const char *name, uint32_t name_bytes);
void world__entry_set(struct entries *entries, const char *name, uint32_t name_bytes, struct inode *inode);
void world__entry_drop(struct entries *entries, const char *name, uint32_t name_bytes);
void world__entries_clear(struct entries *entries);
void world__name_apply(struct inode *dir, const struct name_pend *pend);
void world__name_pends_free(struct inode *dir);
void world__names_show_durable(struct inode *dir);
void world__names_evict(struct disk *disk); /* every inode is held */
struct inode *world__lookup(const struct disk *disk, const char *path, bool in_durable);
void world__name_effect(struct world *world, struct op *op);
struct inode *world__make_path(struct disk *disk, const char *path,
                               size_t path_bytes); /* durable; the file at its end */

void world__file_effect(struct world *world, struct op *op);
void world__file_close(struct world *world, struct ref *ref);
void world__file_open(struct world *world, struct op *op, struct inode *inode);
void world__handle_free(struct world *world, struct handle *handle);
uint64_t world__disk_delay_ns(struct world *world, struct disk *disk, bool is_sync);
/* Leases of a send. True: taken (or nothing to take); false: a range that is not there. */
bool world__leases_take(struct world *world, struct op *op);
void world__leases_give(struct op *op);
/* The next bytes of a range, from the file as it is now. 0: cut short. */
uint64_t world__range_read(struct world *world, struct op *op, uint8_t *to, uint64_t size_bytes);

void world__disk_create(struct world *world, struct node *node, uint32_t index);
void world__disk_destroy(struct disk *disk);
uint64_t world__power_cut(struct world *world, struct disk *disk, uint64_t first);
void world__disk_outlives(struct disk *disk); /* its process */
void world__evict(struct disk *disk);         /* what a failed sync dropped is seen as it is on disk */

/* ---- world.c ---- */

struct message { /* between shards, on its way or ready */
    struct ready ready;
    struct timer timer;
    struct base_link in_shard; /* of the receiver */
    struct shard *shard;
    struct port_message message;
};

struct shard {
    struct world *world;
    struct node *node;
    uint32_t index;
    void *machine;
    struct base_region region;
    struct timer timer;
    struct ready *ready, *ready_tail;
    struct ready start, stop;
    bool has_start, has_stop;
    uint64_t free_at_ns;
    uint64_t hold_ns; /* 0: none. After hold_steps more steps it stands still for so long */
    uint32_t hold_steps;
    uint64_t alarm_ns; /* by the node's clock */
    bool wants_turn, wants_continue;
    bool is_stopped;
    struct base_list ops;
    uint32_t op_count;
    struct base_list messages;
    uint64_t message_last_ns[WORLD_SHARDS_MAX + 1]; /* by sender, the outside last */
    struct ref_table refs[REF_KINDS];
};

struct crash_plan {
    uint64_t left; /* effects of that kind until it; 0: none */
    uint32_t kind;
    enum world_crash crash;
    enum world_keep keep; /* WORLD_KEEP_ANY: what the knob says */
};

struct node {
    struct world *world;
    uint32_t index;
    struct world_node_spec spec;
    enum world_state state;
    uint32_t boot_count;
    struct shard shards[WORLD_SHARDS_MAX];
    struct disk disks[WORLD_DISKS_MAX];
    struct base_list groups;
    uint16_t next_port;
    uint32_t handles;
    struct timer restart;
    uint64_t clock_zero_ns; /* world time when the clock showed clock_offset_ns */
    uint64_t clock_offset_ns;
    int64_t drift_ppm;
    int64_t wall_step_ms;
    uint8_t *is_blocked_to; /* by node; bit */
    bool crash_is_due;
    enum world_crash crash_kind;
    struct crash_plan crash_plan;
    enum world_keep cut_keep; /* of the power cut that is due; WORLD_KEEP_ANY: what the knob says */
};

struct call {
    struct timer timer;
    struct base_link in_world;
    void (*call)(void *context, struct world *world);
    void *context;
};

enum heal_kind { HEAL_LINK = 0, HEAL_DISK, HEAL_CLOCK };
struct heal { /* the end of a trouble that lasts */
    struct timer timer;
    struct base_link in_world;
    enum heal_kind kind;
    uint32_t node;
    uint32_t to; /* HEAL_LINK: the other node; HEAL_DISK: the disk */
};

struct world {
    uint64_t seed;
    struct world_knobs knobs;
    uint64_t now_ns;
    struct clock clock;
    struct base_prng apart_dice; /* of apart_ppm; not one of dice[], whose streams go by their place */
    struct base_prng dice[(size_t)DICE_USE_COUNT + (size_t)WORLD_FAULT_COUNT];
    uint64_t hits[WORLD_FAULT_COUNT];
    struct node *nodes[WORLD_NODES_MAX];
    uint32_t node_count;
    struct base_list links;
    struct base_list calls;
    struct base_list heals;
    struct op *free_ops;
    struct message *free_messages;
    struct port_out out;
    struct timer second;
    uint64_t hash;
    uint64_t hashed; /* effects and messages so far */
    uint64_t events;
    uint64_t effects;
    uint64_t asked_of[WORLD_BEFORE_COUNT]; /* effects by kind, of nodes with disks */
    uint64_t crashes_before[WORLD_BEFORE_COUNT];
    enum world_fault last_fault; /* WORLD_FAULT_COUNT: none yet */
    uint64_t last_fault_event;
    bool was_seen;    /* world_step: something was visible */
    uint32_t keep_at; /* WORLD_KEEP_ONE and those after it */
    bool has_crash_due;
    uint32_t stepping_node, stepping_shard;
    struct world_observer observers[WORLD_OBSERVERS_MAX];
    uint32_t observer_count;
    FILE *trace;
    char *failure;
    uint32_t failures;
};

uint64_t world__node_now(const struct world *world, const struct node *node);
void world__crash_now(struct world *world, struct node *node, enum world_crash kind);
static inline struct base_prng *world__dice(struct world *world, enum dice_use use) { return &world->dice[use]; }
/* A breach of port.h by the machine of `shard`. */
void world__breach(struct world *world, const struct shard *shard, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint64_t world__lent_sum(const struct port_effect *effect);
void world__shard_stopped(struct world *world, struct shard *shard);
void world__second_fire(struct world *world, struct timer *timer);
bool world__crashes_before(struct world *world, struct node *node, uint32_t kind);

/* ---- flip.c ---- */

void world__hash_effect(struct world *world, uint32_t node, uint32_t shard, const struct port_effect *effect);
void world__hash_message(struct world *world, uint32_t node, uint32_t shard, const struct port_message *message);

/* ---- trace.c ---- */

void world__trace_event(struct world *world, const struct shard *shard, const struct port_event *event,
                        struct base_slice payload);
void world__trace_effect(struct world *world, const struct shard *shard, const struct port_effect *effect);
void world__trace_message(struct world *world, const struct shard *shard, const struct port_message *message);
void world__trace_note(struct world *world, uint32_t node, const char *words);

#endif
