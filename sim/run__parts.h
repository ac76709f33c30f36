/* run__parts.h: a run while it goes on.
 *
 * Room    sim, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_PARTS_H
#define RUN_PARTS_H

#include "node.h"
#include "run.h"
#include "sim/actor/actor.h"
#include "sim/check/groups.h"
#include "sim/check/judge.h"

#define RUN_ACTORS_MAX 20

/* Of the broker, smaller than others would have it; 0: as ever. run_limits.c says what each may be. */
struct run_limits {
    int64_t requests, parts, reads, segments, journal_entries, configs, group_text_kb, reserve_kb, proposal_kb,
        block_kb; /* struct broker_few */
    int64_t connections, in_flight, files, queued_kb, fetch_bytes, session_bytes, topics, partitions;
    int64_t groups, members, offsets, group_size;
    int64_t retention_ms; /* what the node says of topics that say nothing: all of the clients' say something then */
};

struct run_shape { /* drawn from the seed; each may be set */
    int64_t shards, step_max, topics, partitions_max, producers, consumers, rudes;
    int64_t records, value_bytes_max, pause_max_ms, crashes, load_ms, segment_bytes, journal_bytes, io_errors,
        clean_stop;
    int64_t state_crashes, sync_errors, full_disks, retention, refusals, region_mb, rots;
    int64_t page_cache; /* 1: some topics are of the page cache, 0: none; -1: as drawn */
    int64_t admin_operations;
    int64_t odds, session_slots, session_eviction_ms;
    int64_t groups; /* of consumers; 0: none */
    int64_t crowds, crowd_members;
    int64_t group_s;      /* for how long they go on at least */
    int64_t group_leaves; /* 1: members leave often, whatever their manners */
    int64_t group_simple; /* 1: who commits is no member */
    int64_t group_session_ms, group_rebalance_ms, group_delay_ms, group_sweep_ms, group_grown_kb;
    int64_t offsets_minutes;                      /* offsets.retention.minutes */
    int64_t metadata_grown_bytes, own_segment_kb; /* of the logs of the node itself */
    int64_t churn; /* every topic but the first is deleted and made anew at times; 0: as drawn */
    int64_t trims; /* deletions of records that the admin asks for */
    int64_t hasties;
    int64_t grows;      /* how often the admin adds partitions */
    int64_t settings;   /* 1: the broker's own are others after each start */
    int64_t has_limits; /* 1: some are drawn */
    struct run_limits limits;
    int64_t holds;       /* how often a shard stands still at most, where the node's state says so */
    int64_t cut_crashes; /* tied to a segment that is really cut, and most of them lose the cut */
    int64_t hold_state;  /* in that one; -1: as drawn */
    int64_t even;        /* the one size of producers' values, each a batch of its own; 0: as they come */
};

#define RUN_TRAPS_MAX 8
/* A crash that waits for a state of the node: the state is let pass `passes` times, then the effects within the next `within`. */
struct run_trap {
    enum run_state state;
    uint64_t passes, within;
    bool is_power; /* else as drawn */
    bool is_apart; /* it keeps bytes and loses sizes */
    bool is_sprung;
};

#define RUN_HOLD_STATES 2
/* Stands still: a shard, within its next steps from a state on; a crash may end that. */
struct run_holds {
    struct base_prng prng;
    enum run_state states[RUN_HOLD_STATES];
    uint64_t left;
    enum run_state crash; /* the state that the next crash is tied to; RUN_STATE_COUNT: none is due */
};

#define RUN_LEFT_MAX 128
struct run_left { /* a log that the broker had at the end */
    char topic[32], folder[48];
    struct base_part id;
    int64_t start;
    int64_t live; /* its first segment: the last that begins at or before its start; -1: there is none */
};

struct run {
    const struct run_config *config;
    struct run_result *result;
    struct run_shape shape;
    struct base_prng prng;
    struct world *world;
    struct node node;
    struct broker_config ample; /* of the node, without small limits */
    struct check_stream *stream;
    struct check_groups *groups; /* NULL: there are none */
    uint64_t groups_applied[WORLD_SHARDS_MAX];
    uint32_t group_restarts;           /* by the operator */
    int64_t wall_ms[WORLD_SHARDS_MAX]; /* of the last event, by the node's clock */
    struct check_report report;
    struct history history;
    struct actor_cast cast;
    struct actor_spec specs[RUN_ACTORS_MAX];
    uint32_t actor_nodes[RUN_ACTORS_MAX];
    uint32_t actor_count;
    uint32_t verifier;     /* its index */
    uint64_t crash_end_ns; /* when the last scheduled one is over */
    struct run_trap traps[RUN_TRAPS_MAX];
    uint32_t trap_count;
    struct run_holds holds;
    uint32_t logs[WORLD_SHARDS_MAX]; /* open on each shard, after its last step */
    enum run_state sprung;           /* whose crash is planned; RUN_STATE_COUNT: of none */
    bool is_calm;                    /* faults have stopped */
    bool drops_writes;               /* its disk: what was written may be gone from the page cache */
    bool is_rotten;                  /* bits of the journal were flipped */
    bool has_lost_rows;              /* the broker told that it can't read some of it, nor whom it is of */
    struct run_left left[RUN_LEFT_MAX];
    uint32_t left_count;
    uint64_t until_step; /* when the states were printed */
    bool is_failed;
    uint64_t slow_max_ns, prompt_ns; /* from then on nothing is slow any more */
    int64_t wall_start_ms;           /* what a right clock said when the run began */
    uint64_t turn_ns;                /* about how long a record takes to its reader, and the reader to ask again */
    void *user;                      /* of who drives it */
    /* of this boot */
    enum broker_state states[WORLD_SHARDS_MAX];
    bool is_open;                    /* a shard takes clients: from now on the logs are looked at after every step */
    bool is_ready[WORLD_SHARDS_MAX]; /* said so */
    bool is_recovered;               /* all of them did */
    bool is_disk_failed, has_failed_checkpoint;
    bool has_read; /* its journal, and said what it found */
    enum run_claim {
        RUN_CLAIM_ANY = 0, /* the start before ended before it could say anything of its own */
        RUN_CLAIM_CLEAN,
        RUN_CLAIM_NOT_CLEAN
    } claim; /* what the next start must say of the stop before it */
    bool was_clean;
    bool is_anew;          /* the metadata log is being written anew */
    bool is_checkpointing; /* one is being written into checkpoint_file */
    struct port_file checkpoint_file;
    uint64_t broker_events, rows_gone;
    uint32_t disk_due;                        /* effects on disks under way */
    uint64_t disk_last_ns;                    /* when one was asked, or ended, last */
    uint32_t alarms_in_row[WORLD_SHARDS_MAX]; /* nothing but alarms, each soon after the one before */
    uint64_t alarm_last_ns[WORLD_SHARDS_MAX]; /* by the node's clock */
};

/* Calls `body`; a failed CHECK of the core ends it early, as a failure of the run. */
void run__guarded(struct run *run, void (*body)(struct run *run));
void run__shape_draw(struct run *run, struct world_knobs *knobs);
/* What the command line says over what was drawn. */
void run__shape_set(struct run *run, struct world_knobs *knobs);
void run__begin(struct run *run, const struct world_knobs *knobs);
bool run__is_loaded(struct run *run); /* what the clients wanted to do is done */
bool run__is_broken(struct run *run);
/* From the drain on: everything ends, a probe succeeds, all is read, the broker stops, the history is judged. */
void run__finish(struct run *run);
void run__end(struct run *run);
/* What is wrong with the files may be the disk's own doing. */
bool run__has_disk_trouble(const struct run *run);
/* After a clean stop: the partitions' files. */
void run__judge_files(struct run *run);
/* Which logs there are while the broker is at rest, and after its stop: what is left that should not be. */
void run__note_logs(struct run *run);
void run__judge_left(struct run *run);
bool run__has_retention(const struct run *run); /* some topics lose their oldest records */
void run__add_actors(struct run *run);
/* Before the sets are applied. */
void run__limits_draw(struct run *run);
int64_t *run__limits_at(struct run_limits *of, const char *name); /* NULL: no such knob */
/* Whether it may have that value. */
bool run__limits_may(const char *name, int64_t value);
/* Before the node is added; what is not small is kept for run__limits_raise. */
void run__limits_configure(struct run *run, const struct world_knobs *knobs);
/* True: some were too small for all that is wanted, and the node's next start has others. */
bool run__limits_raise(struct run *run);
bool run__limits_hold(const struct run *run); /* some are small */
/* What the operator changes in the broker's settings between a stop, or a crash, and a start. */
void run__settings_configure(struct run *run);
void run__settings_loosen(struct run *run);
/* Groups: who is in them, what the node must be told of them, what is watched. All do nothing in a run without any. */
void run__groups_draw(struct run *run);
void run__groups_configure(struct run *run, const struct world_knobs *knobs);
void run__groups_add(struct run *run, void (*add)(struct run *run, const struct actor_spec *spec));
void run__groups_booted(struct run *run);
void run__groups_look(struct run *run, uint32_t shard, const struct broker *broker); /* after its step */
void run__groups_calm(struct run *run);
bool run__groups_are_empty(struct run *run); /* nobody is in any, and nothing is left of a topic that is gone */
uint64_t run__groups_empty_ns(const struct run *run); /* within which they are, when all their members are gone */
bool run__groups_are_refused(const struct run *run);  /* some, until a restart, as the broker has said */
void run__groups_end(struct run *run);
void run__observe(struct run *run);
/* The broker is down: its journal rots. */
void run__rot(struct run *run);
/* The broker says that this partition is damaged, and something has rotted. */
bool run__is_excused(void *context, const char *topic, int32_t partition);
void run__print_states(const struct run *run, FILE *to);
/* From within a step: ends the run here. */
NORETURN void run__leave(struct run *run);
void run__schedule(struct run *run);
/* The broker has stopped, asked or not: somebody starts it again. */
void run__stopped(struct run *run);
/* The broker is in that state now: perhaps a crash waited for it. */
void run__reached(struct run *run, enum run_state state);
void run__fail(struct run *run, const char *id, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
