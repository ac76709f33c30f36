/* log__parts.h: the parts of the log mode: its machine (log_machine.c), the model of a log (log_model.c), the driver (log_driver.c,
 * log_check.c), the run (log_run.c).
 *
 * Room    sim, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOG_PARTS_H
#define LOG_PARTS_H

#include "journal/journal.h"
#include "log.h"
#include "plog/plog.h"
#include "record/record.h"

#define LOG_PAIRS_MAX     4u
#define LOG_OPS_MAX       48u /* of a pair */
#define LOG_PRODUCERS     3
#define LOG_REGION_BYTES  ((size_t)24 << 20)
#define LOG_RUN_BYTES_MAX (24u << 10)
#define LOG_TOKEN_ROOM    ((uint64_t)0x44) /* of the driver's own reads of leased ranges */

/* ---- the model of a log ---- */

struct log_batch { /* of a pair; a follower's is the leader's */
    int64_t base, last;
    int64_t timestamp_base, timestamp_max; /* record i has timestamp_base + i */
    int64_t producer_id;                   /* -1: none */
    int32_t epoch;
    int32_t sequence_first, sequence_last;
    int16_t producer_epoch;
    uint8_t *bytes;
    uint32_t size_bytes;
};

enum log_event_kind { LOG_BATCH = 0, LOG_EPOCH, LOG_CUT, LOG_START };
struct log_event { /* what happened to a log, in order: from it follows what it is */
    enum log_event_kind kind;
    bool is_durable;
    uint32_t batch;
    int32_t epoch;
    int64_t offset;
};

struct log_epoch {
    int32_t epoch;
    int64_t start;
};

struct log_model {
    struct log_event *events;
    uint32_t event_count, event_room;
    /* what follows */
    uint32_t *batches;
    uint32_t batch_count, batch_room;
    struct log_epoch *epochs;
    uint32_t epoch_count, epoch_room;
    int64_t start, end;
    uint32_t cuts;
};

struct log_pair;
void log_model_free(struct log_model *model);
void log_model_add(struct log_model *model, const struct log_pair *pair, struct log_event event);
/* Everything anew from its events. */
void log_model_fold(struct log_model *model, const struct log_pair *pair);
void log_model_epoch_end(const struct log_model *model, int32_t epoch, int32_t *epoch_out, int64_t *end_out);
/* The batch that holds the offset, as an index of model.batches; batch_count: none. */
uint32_t log_model_at(const struct log_model *model, const struct log_pair *pair, int64_t offset);
struct log_sequence { /* of a producer, as the records say */
    int16_t epoch;    /* -1: unknown */
    uint32_t count;
    uint32_t kept[5]; /* batches, the newest last */
};
struct log_sequence log_model_producer(const struct log_model *model, const struct log_pair *pair, int64_t id);
/* The first record below `limit` with that timestamp or a later one; -1: none. */
int64_t log_model_time(const struct log_model *model, const struct log_pair *pair, int64_t timestamp_ms, int64_t limit,
                       int64_t *timestamp_out, int32_t *epoch_out);

/* ---- the driver ---- */

enum log_op_kind {
    LOG_OP_FREE = 0,
    LOG_OP_APPEND,
    LOG_OP_COPY,
    LOG_OP_READ,
    LOG_OP_TIME,
    LOG_OP_AUDIT,
    LOG_OP_TRUNCATE,
    LOG_OP_EPOCH,
    LOG_OP_START
};
struct log_op {
    enum log_op_kind kind;
    uint32_t generation;
    uint32_t replica;
    uint64_t version; /* of the replica, when it was asked */
    uint32_t cuts;    /* as above: what stands at an offset changes with these alone */
    uint8_t *buffer;  /* APPEND, COPY: what plog borrowed */
    uint32_t buffer_bytes;
    uint32_t batches[8];
    uint32_t batch_count;
    bool is_written;
    enum plog_result expected; /* APPEND */
    int64_t expected_base;     /* of a duplicate */
    int64_t offset;            /* READ, AUDIT, TRUNCATE, START; TIME: timestamp */
    uint32_t bytes_max;
    /* READ: a lease that drains slowly */
    bool has_lease, is_draining;
    uint64_t lease, drain_at_ns;
    struct port_file file;
    uint64_t position_bytes, size_bytes;
    uint8_t *wanted; /* what it must hold until it is given back */
};

struct log_replica {
    struct base_part id;
    struct plog_ref ref;
    struct log_model model;
    uint64_t version; /* one more with each change */
    int64_t synced_end, watermark;
    int64_t asked_end; /* follower: what is on its way */
    bool is_open;      /* in this boot */
    bool is_cutting;
    int64_t cut_offset;
    bool needs_truncation; /* a follower of a new leader */
    bool is_audited;       /* all of it was read since the boot */
    int64_t audit_next;
    bool is_starting;     /* its start moves */
    bool has_copy_failed; /* those behind it do not follow the end */
};

struct log_pair {
    struct log_run *run;
    uint32_t index;
    struct log_replica replicas[2];
    struct log_batch *pool;
    uint32_t pool_count, pool_room;
    struct log_op ops[LOG_OPS_MAX];
    uint32_t op_count;
    int32_t epoch; /* the controller's: never used twice */
    uint32_t leader;
    bool is_led; /* the leader has begun its epoch */
    bool is_epoch_asked;
    bool is_broken; /* the disk's errors have damaged a replica, and it refuses more: no progress is due */
    bool is_follower_in_sync;
    uint32_t *committed; /* batches below the watermark, in order: they stay */
    uint32_t committed_count, committed_room;
    int64_t committed_end;
    bool has_producers, moves_start, is_page_cache;
    uint64_t next_act_ns, next_election_ns;
    int64_t timestamp_ms;
    uint64_t content; /* makes each batch another */
};

enum log_clean { LOG_UNCLEAN = 0, LOG_MAYBE_CLEAN, LOG_CLEAN }; /* MAYBE: a start after a clean stop was cut short */
enum log_phase { LOG_LOAD = 0, LOG_CATCH_UP, LOG_STOPPING };

struct log_shape {
    int64_t shards, step_max, pairs, load_ms, crashes, segment_bytes, journal_bytes, io_errors, sync_errors,
        value_bytes_max, pause_max_us;
};

struct log_run {
    const struct run_config *config;
    struct run_result *result;
    struct log_shape shape;
    struct base_prng prng;   /* of the schedule */
    struct base_prng driver; /* of what is asked */
    struct world *world;
    uint32_t node;
    struct log_pair pairs[LOG_PAIRS_MAX];
    bool is_failed;
    enum log_phase phase;
    uint64_t crash_end_ns;
    bool is_serving[WORLD_SHARDS_MAX];
    bool is_disk_failed; /* in this boot */
    bool has_failed_log; /* as above */
    bool is_journal_full;
    enum log_clean clean;
    bool waits_for_stop;
    enum log_phase phase_before_stop;
};

struct log_shard; /* the machine */
extern const struct world_machine log_machine;
struct plog *log_plog(struct log_shard *shard);
struct base_pages *log_pages(struct log_shard *shard);
bool log_is_quiet(const struct log_shard *shard);
void log_want_checkpoint(struct log_shard *shard);

void log_fail(struct log_run *run, const char *id, const char *format, ...) __attribute__((format(printf, 3, 4)));
static inline uint64_t log_below(struct log_run *run, uint64_t count) { return base_prng_below(&run->driver, count); }
static inline bool log_chance(struct log_run *run, uint32_t of) { return base_prng_chance(&run->driver, 1, of); }

/* The node's memory is gone: what was asked is, too. */
void log_driver_boot(struct log_run *run);
/* Recovery has ended on this shard: its logs are opened, and judged. */
void log_driver_serve(struct log_run *run, uint32_t shard, struct log_shard *machine, struct port_out *out);
/* What is due now; sets the alarm. False: nothing was. */
bool log_driver_act(struct log_run *run, uint32_t shard, struct log_shard *machine, uint64_t now_ns,
                    struct port_out *out);
void log_driver_out(struct log_run *run, uint32_t shard, struct log_shard *machine, const struct plog_out *item,
                    uint64_t now_ns, struct port_out *out);
void log_driver_done(struct log_run *run, struct log_shard *machine, const struct port_event *event,
                     struct port_out *out);
/* Nothing of this shard's pairs is outstanding. */
bool log_driver_is_idle(const struct log_run *run, uint32_t shard);
/* Both replicas are the same, and committed to the end. */
bool log_driver_is_even(const struct log_pair *pair);

/* log_check.c */
uint32_t log_op_take(struct log_pair *pair, enum log_op_kind kind, uint32_t replica); /* LOG_OPS_MAX: none left */
void log_op_give(struct log_pair *pair, struct log_op *op);
uint64_t log_op_token(const struct log_pair *pair, const struct log_op *op);
struct log_op *log_op_of(struct log_run *run, uint64_t token, struct log_pair **pair_out);
struct log_replica *log_replica_of(struct log_run *run, struct base_part id, struct log_pair **pair_out);
void log_check_recovered(struct log_pair *pair, uint32_t replica, struct plog *plog);
void log_check_view(struct log_pair *pair, uint32_t replica, struct plog *plog);
void log_check_epochs(struct log_pair *pair, uint32_t replica, struct plog *plog);
void log_check_range(struct log_pair *pair, struct log_op *op, struct base_slice bytes, const char *how);
void log_check_committed(struct log_pair *pair, uint32_t replica, const char *when);
void log_ask_random_reads(struct log_pair *pair, uint32_t replica, struct plog *plog, uint64_t now_ns,
                          struct port_out *out);
void log_ask_audit(struct log_pair *pair, uint32_t replica, struct plog *plog, struct port_out *out);
void log_take_read(struct log_pair *pair, struct log_op *op, struct log_shard *machine, const struct plog_out *item,
                   uint64_t now_ns, struct port_out *out);
void log_take_time(struct log_pair *pair, struct log_op *op, const struct plog_out *item);

static inline uint32_t log_shard_of(const struct log_run *run, const struct log_pair *pair)
{
    return pair->index % (uint32_t)run->shape.shards;
}
static inline bool log_was_full(const struct log_run *run) { return world_hits(run->world, WORLD_DISK_FULL) > 0; }
/* A start may be refused: what it wrote found no room, or could not be synced. */
static inline bool log_may_refuse(const struct log_run *run)
{
    return log_was_full(run) || run->shape.io_errors != 0 || world_hits(run->world, WORLD_DISK_EIO_SYNC) > 0;
}
static inline bool log_tolerates(const struct log_run *run) { return run->shape.io_errors != 0 || run->is_disk_failed; }

#endif
