/* world.h: a small world for tests of plog: a disk that can crash and fail, a journal, and the outs that came.
 *
 * An effect takes place when it is delivered (in the order asked, or by dice where port.h leaves it open), so that whatever
 * the machine forgets to wait for is seen. A crash keeps all that took place (the process died) or only what was synced
 * (the power went), by dice also some of what was not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_PLOG_WORLD_H
#define TESTS_PLOG_WORLD_H

#include "plog/plog.h"
#include "record/record.h"

#define NODES_MAX   2048
#define ANSWERS_MAX 20000

struct node {
    bool is_dir;
    bool is_live;
    bool is_durable; /* as a name */
    int parent;      /* live; -1: the disk */
    int durable_parent;
    char name[300];
    char durable_name[300];
    uint8_t *bytes;
    size_t size;
    uint8_t *synced;
    size_t synced_size;
    uint64_t reserved; /* disk beyond what the bytes need, up to here; given back by a truncate */
};

struct pending {
    bool is_used;
    struct port_effect effect;
    uint64_t order;
    uint8_t *snapshot; /* PORT_SYNC: what it covers */
    size_t snapshot_size;
};

struct entry {
    struct plog_run run;
    uint8_t *bytes; /* NULL: none */
    uint64_t token;
    bool is_synced;
};

struct state {
    uint8_t *bytes;
    size_t size;
};

struct answer { /* of an append or a read, by token */
    bool is_written;
    bool is_done;
    enum plog_out_kind kind;
    enum plog_result result;
    int64_t base_offset;
    int64_t log_append_time_ms;
    struct plog_out out;
    uint8_t *batch; /* freed when done */
};

enum crash { CRASH_PROCESS, CRASH_POWER, CRASH_TORN };

struct fault {
    enum port_effect_kind kind;
    const char *suffix; /* of the path of the file or name; NULL: any */
    int skip;           /* so many go well first */
    int times;
    enum port_rc rc;
    uint64_t count; /* PORT_OK: at most so many bytes */
};

struct world {
    struct base_prng dice;
    bool is_shuffled;
    bool is_journal_held; /* its syncs wait for world_journal_sync */
    bool is_held;         /* effects wait */
    bool is_state_held;   /* a state is taken only by world_state_take */
    struct node nodes[NODES_MAX];
    int node_count;
    struct pending pending[4096];
    size_t pending_end; /* none in use from here on */
    uint64_t next_order;
    struct {
        struct port_file id;
        int node;
    } open[512];
    int open_count;
    int open_peak;
    struct fault faults[8];
    int fault_count;

    struct entry *entries;
    size_t entry_count, entries_max;
    size_t entries_begin;      /* of the newest checkpoint */
    size_t entries_begin_next; /* of the one being taken */
    size_t entry_answered;
    struct state states[256], states_next[256];
    size_t state_count, state_count_next;
    bool is_capturing;
    int full_count; /* PLOG_OUT_FULL */
    int checkpoints;
    enum plog_result states_end;

    struct plog_config config;
    struct plog_log_config log_config;
    struct base_arena arena;
    void *arena_memory;
    void *pages_memory;
    struct base_pages *pages;
    struct plog *plog;
    struct port_out out;
    uint64_t now_ns;
    int64_t wall_ms;
    int64_t start_step_ms; /* by how much the wall clock steps right after the next START */
    bool wants_turn, wants_continue;
    struct answer answers[ANSWERS_MAX];
    uint64_t next_token;
    bool is_recovered, is_stopped, is_disk_failed, is_replayed;
    enum plog_result replayed;
    enum plog_result recovered; /* of the last PLOG_OUT_RECOVERED */
    bool may_not_recover;       /* world_start expects no good one */
    int not_taken;              /* replays that ended neither well nor in damage: a start gives up then */
    int deleted;
    int marks;
    int checkpoints_wanted;
    uint64_t steps;
    uint64_t effects_seen;
    int64_t crash_after; /* effects; < 0: never */
    bool is_crashed;
    bool is_clock_held;    /* no time passes while somebody waits for it */
    bool is_recovery_open; /* world_start stops before the end of recovery */
    enum plog_last_stop last_stop;
    bool takes_refusals; /* a state or an entry may be refused at a start: somebody has changed them */
    bool mark_damaged;   /* at the next start the journal says that it lost entries of log 0, ... */
    size_t mark_before;  /* ... before this entry; 0: behind all */
    uint64_t effects_max_seen;
};

struct world *world_make(uint64_t seed);
struct world *given_world(void); /* seed 1, started */
void world_free(struct world *world);
void world_start(struct world *world); /* the machine, empty, or with what disk and journal hold */
/* On the disk it is longer by so many zeros than what is seen of it, as after a cut that nobody synced. */
void world_undo_cut(struct node *node, size_t more_bytes);
void world_crash(struct world *world, enum crash crash);
void world_restart(struct world *world, enum crash crash);
void world_restart_behind(
    struct world *world);             /* replays its journal with the clock a year behind; then it is set right */
void world_stop(struct world *world); /* checkpoint, clean stop, start again */

/* One event; false: nothing is left to do. */
bool world_step(struct world *world);
void world_run(struct world *world);    /* until nothing is left */
void world_settle(struct world *world); /* takes what a call of the machine asked for and said */
void world_alarm(struct world *world, uint64_t after_ms);
void world_journal_sync(struct world *world, size_t count); /* so many more entries become durable, and are answered */
void world_checkpoint(struct world *world);
void world_state_take(struct world *world); /* ... and those after it at once */
void world_fault(struct world *world, struct fault fault);

struct plog_ref world_log(struct world *world, int index, const char *name, int32_t epoch);
struct base_part world_part(int index);

struct batch_ask {
    int records;
    size_t value_bytes;
    int64_t timestamp;
    int64_t producer_id; /* 0: none */
    int16_t epoch;
    int32_t sequence;
    bool is_log_append_time;
    bool wants_written;
    bool is_compressed;
    int32_t leader_epoch;
    bool is_assigned; /* a follower's: */
    int64_t base_offset;
    int32_t batch_epoch;
};
uint64_t world_append(struct world *world, struct plog_ref ref, struct batch_ask ask);
uint64_t world_read(struct world *world, struct plog_ref ref, int64_t offset, uint32_t bytes_max);
/* 0: refused for want of room. */
uint64_t world_truncate(struct world *world, struct plog_ref ref, int64_t offset);
uint64_t world_begin_epoch(struct world *world, struct plog_ref ref, int32_t epoch);
uint64_t world_find_time(struct world *world, struct plog_ref ref, int64_t timestamp);
struct answer *world_answer(struct world *world, uint64_t token);
struct plog_view world_view(struct world *world, struct plog_ref ref);

int world_node(struct world *world, const char *path); /* -1: none */
/* A file with these bytes, as if another had put it there; its directory too. */
void world_put(struct world *world, const char *path, const char *bytes);
/* The bytes a read's answer names. */
const uint8_t *world_range(struct world *world, const struct plog_out *out);
void world_release(struct world *world, const struct plog_out *out);
/* Reads [start, watermark) and fails the test unless it is whole batches at dense offsets. Returns the records seen. */
int64_t world_read_all(struct world *world, struct plog_ref ref);

#endif
