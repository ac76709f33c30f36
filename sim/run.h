/* run.h: one seed: a broker, its clients, its disasters, and what the checkers say.
 *
 * Room    sim. Prints nothing, writes to the files it is given only.
 *
 * THE PHASES OF A RUN
 *   load      topics are made, producers, consumers, an admin and rude clients at work; faults by the swarm, crashes by schedule
 *   drain     world_calm: faults stop, nothing new is begun, everything outstanding must end (I21)
 *   probe     what is asked now must succeed (I21)
 *   knock     readers wait: records come by pairs and long after each other, at last a deletion; each wakes who waits for it (I21)
 *   restart   connections go, everything must be back (I25); a clean stop or a power cut, and a start
 *   verify    a reader reads all there is, asks for topics and offsets
 *   idle      its fetches are parked: nothing may happen (I21)
 *   end       connections go, everything must be back (I25), the broker stops
 *   judge     the history as a whole
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include <stdio.h>

#include "sim/check/groups.h"
#include "sim/check/stream.h"
#include "sim/world/world.h"

#define RUN_SETS_MAX 64

struct run_set {
    const char *name;
    int64_t value;
};

enum run_mode { RUN_BY_SEED = 0, RUN_BROKER, RUN_LOG }; /* BY_SEED: the log mode for one seed in four */

/* Where a test of what watches the run puts a node to sleep, for longer than anything may take. */
enum run_point {
    RUN_AT_NONE = 0,
    RUN_AT_CALM,   /* faults have stopped */
    RUN_AT_PROBE,  /* the probes have been asked for */
    RUN_AT_CLOSE,  /* before the clients are told to go */
    RUN_AT_STOP,   /* before the broker is told to stop */
    RUN_AT_START,  /* it was started again */
    RUN_AT_VERIFY, /* the final reader was started */
    RUN_AT_POINT_COUNT
};

/* For tests of what watches a run: what goes wrong in it. All zero: nothing. */
struct run_plant {
    const struct world_machine *broker; /* instead of node_machine; its machines are brokers */
    enum run_point sleeps_at;
    enum run_sleeper { RUN_BROKER_SLEEPS = 0, RUN_PRODUCER_SLEEPS, RUN_VERIFIER_SLEEPS } sleeper;
};

struct run_config {
    uint64_t seed;
    struct run_set sets[RUN_SETS_MAX]; /* knobs of the world, or of the run (run_knob_wrong) */
    uint32_t set_count;
    enum run_mode mode;
    FILE *trace;    /* NULL: none */
    FILE *history;  /* NULL: none */
    uint64_t until; /* 0: none. After so many events the run is left, and `states` gets every node's state */
    FILE *states;
    struct run_plant plant;
};

enum run_branch { /* what a start or an end met: the broker's recovery */
                  RUN_CRASH_IN_BOOT = 0,
                  RUN_CRASH_IN_RECOVERY,
                  RUN_CRASH_IN_LOADING,
                  RUN_CRASH_IN_SERVICE,
                  RUN_CRASH_IN_STOP,
                  RUN_CRASH_IN_CHECKPOINT, /* one was being written, in service or at a stop; counted besides those above */
                  RUN_START_EMPTY,         /* nothing there yet */
                  RUN_START_CLEAN,         /* after a clean stop */
                  RUN_START_DIRTY,
                  RUN_TAIL_CUT,         /* a segment was truncated while recovering */
                  RUN_BYTES_REPLAYED,   /* bytes were written into a segment while recovering */
                  RUN_STATES_READ,      /* a start read a checkpoint that had states */
                  RUN_CHECKPOINT,       /* a checkpoint was written, and no stop asked for it */
                  RUN_JOURNAL_ROLLED,   /* a journal file was begun while serving */
                  RUN_JOURNAL_TRIMMED,  /* one was dropped, or renamed to be used again */
                  RUN_LARGE_RUN,        /* a row of the journal names a run that was synced in its own segment */
                  RUN_SESSION_OPENED,   /* fetch sessions, by topic id */
                  RUN_SESSION_GONE_ON,  /* fetches that went on with one, and were judged */
                  RUN_SESSION_LEFT_OUT, /* partitions that such an answer left out */
                  RUN_SESSION_EVICTED,  /* one that was known was not found any more */
                  RUN_SESSION_REFUSED,  /* an epoch that is not next was refused */
                  RUN_SEGMENT_ROLLED,
                  RUN_DISK_FAILED,   /* off line until a restart */
                  RUN_DISK_FULL,     /* by schedule */
                  RUN_FULL_REFUSED,  /* the broker said that it refuses what is produced */
                  RUN_START_REFUSED, /* a start ended in STOPPED */
                  RUN_LOG_MODE,      /* seeds that ran the log mode (log.h) */
                  RUN_LOG_TRUNCATED, /* a follower's end was cut, by epoch */
                  RUN_LOG_CRASH_IN_TRUNCATION,
                  RUN_LOG_FILE_CUT,          /* a file was cut while truncations went on */
                  RUN_LOG_SEGMENT_GONE,      /* a file was unlinked */
                  RUN_LOG_WAITED_CHECKPOINT, /* an append to a truncated log was too large for the journal */
                  RUN_DAMAGE_TOLD,           /* a start found what had rotted, and said so of a partition */
                  RUN_GROUPS,                /* seeds with groups */
                  RUN_GROUP_LOG_ANEW,        /* a coordinator's log was written anew */
                  RUN_PAGES,                 /* seeds with page-cache topics */
                  RUN_PAGES_LOST,            /* the power took the acknowledged end of a page-cache log */
                  RUN_PAGES_HELD,            /* ... and left at least its begin, which a sync had covered */
                  RUN_METADATA_ANEW,         /* the metadata log was */
                  RUN_ORDER_JUDGED,          /* batches that were held against what else their connection sent */
                  RUN_TOLD_JUDGED,           /* topics in answers that were held against what was asked for */
                  RUN_BRANCH_COUNT
};
const char *run_branch_name(enum run_branch branch);

enum run_state {                       /* what a crash may be tied to */
                 RUN_STATE_BOOT = 0,   /* the start has begun, the journal is being read */
                 RUN_STATE_RECOVERING, /* its entries are given to their logs */
                 RUN_STATE_LOADING,    /* the metadata log is read */
                 RUN_STATE_SERVING,    /* this very moment */
                 RUN_STATE_STOPPING,
                 RUN_STATE_WRITTEN,    /* a round is written into its segment, the journal not asked yet */
                 RUN_STATE_JOURNALLED, /* the journal is synced, what waited for it not answered */
                 RUN_STATE_CHECKPOINT, /* one is being written */
                 RUN_STATE_ROLL,       /* a segment was begun */
                 RUN_STATE_JOURNAL_ROLL,
                 RUN_STATE_TRIM,      /* a journal file was dropped, or renamed to be used again */
                 RUN_STATE_DELETE,    /* a log's file was asked to go */
                 RUN_STATE_GONE,      /* the journal is being told that a log was deleted */
                 RUN_STATE_ANEW,      /* the metadata log begins to be written anew */
                 RUN_STATE_CUT,       /* a segment is cut while serving: what a crash before left behind its end */
                 RUN_STATE_DELETED,   /* a shard has let go of a deleted log, the journal may not be told yet */
                 RUN_STATE_ANEW_END,  /* the metadata log was written anew, its start is about to move */
                 RUN_STATE_SHORTENED, /* RUN_STATE_CUT, and there is something behind the new end */
                 RUN_STATE_COUNT
};
const char *run_state_name(enum run_state state);

#define RUN_LIMITS 23 /* the broker's limits that may be small; run_limits.c has them */
const char *run_limit_name(uint32_t limit);

struct run_result {
    uint64_t seed;
    bool is_ok;
    bool is_log; /* the log mode ran */
    char id[8];  /* I4, I21, CHECK, ... */
    char text[512];
    uint64_t step;  /* what broke was seen at this event */
    char fault[32]; /* the last one before it; "": none */
    uint64_t fault_step;
    bool is_cut; /* left at `until` */
    uint64_t events;
    uint64_t virtual_ns;
    uint64_t hash;
    uint64_t crashes;
    uint64_t starts;
    uint64_t acknowledged; /* records, acks=all */
    uint64_t operations;
    uint64_t hits[WORLD_FAULT_COUNT];
    uint64_t answers[CHECK_APIS];
    uint64_t branches[RUN_BRANCH_COUNT];
    uint64_t reached[RUN_STATE_COUNT]; /* crashes that were tied to that state */
    uint64_t asked_of[WORLD_BEFORE_COUNT], crashes_before[WORLD_BEFORE_COUNT];
    uint64_t acks_judged;
    uint64_t groups[CHECK_GROUPS_HIT_COUNT];
    uint64_t refused;            /* takings of memory */
    uint64_t limits[RUN_LIMITS]; /* 1: it was small */
};

bool run_is_log(const struct run_config *config);
/* NULL: a knob of the run, or of the world, and a value that it can have; else what is wrong. */
const char *run_knob_wrong(const char *name, int64_t value);
void run_seed(const struct run_config *config, struct run_result *result_out);

#endif
