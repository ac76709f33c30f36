/* observe.c: see app__observe.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__observe.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define US ((uint64_t)1000)
#define MS ((uint64_t)1000 * 1000)

#define ROWS_OF_A_TURN 2048 /* a few tenths of a millisecond */

const uint64_t observe_turn_bounds_ns[BROKER_BUCKETS] = {10 * US,  20 * US,  50 * US,   100 * US,  200 * US, 500 * US,
                                                         1 * MS,   2 * MS,   5 * MS,    10 * MS,   20 * MS,  50 * MS,
                                                         100 * MS, 500 * MS, 2000 * MS, UINT64_MAX};

bool observe_init(struct observe *observe, struct host *host)
{
    observe->host = host;
    observe->waiting = 0;
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) { return false; }
    bool is_made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                   pthread_cond_init(&observe->changed, &attributes) == 0 &&
                   pthread_mutex_init(&observe->lock, NULL) == 0;
    (void)pthread_condattr_destroy(&attributes); /* can't fail for one that is there */
    for (uint32_t i = 0; i < observe->shard_count; i++) {
        observe->shards[i].observe = observe;
        observe->shards[i].index = i;
        observe->shards[i].alarm_ns = UINT64_MAX;
    }
    return is_made;
}

/* Room for one more item. False: no memory; what was there stays. */
static bool grow(void **items, uint32_t count, size_t item_bytes)
{
    if (count > 0 && (count & (count - 1)) != 0) { return true; }
    void *larger = realloc(*items, (count == 0 ? 1 : 2 * (size_t)count) * item_bytes);
    if (larger == NULL) { return false; }
    *items = larger;
    return true;
}

static bool add_name(struct observe_snapshot *snapshot, struct base_slice name, uint32_t *at_out)
{
    if (snapshot->names_bytes + name.size_bytes > UINT32_MAX) { return false; }
    if (snapshot->names_bytes + name.size_bytes > snapshot->names_room_bytes) {
        size_t wanted = 2 * (snapshot->names_bytes + name.size_bytes) + 4096;
        char *larger = realloc(snapshot->names, wanted);
        if (larger == NULL) { return false; }
        snapshot->names = larger;
        snapshot->names_room_bytes = wanted;
    }
    *at_out = (uint32_t)snapshot->names_bytes;
    if (name.size_bytes > 0) { memcpy(snapshot->names + snapshot->names_bytes, name.at, name.size_bytes); }
    snapshot->names_bytes += name.size_bytes;
    return true;
}

static void free_tables(struct observe_snapshot *snapshot)
{
    free(snapshot->logs);
    free(snapshot->commits);
    free(snapshot->names);
}

/* ---- on the shard ---- */

enum taken { TAKEN, AT_END, NO_MEMORY };

static enum taken take_log(struct observe_shard *shard)
{
    struct observe_snapshot *tables = &shard->tables;
    struct broker_log_view log;
    uint32_t at = 0;
    if (!broker_each_log(shard->broker, &shard->cursor, &log)) { return AT_END; }
    if (!grow((void **)&tables->logs, tables->log_count, sizeof *tables->logs)) { return NO_MEMORY; }
    if (!add_name(tables, log.topic, &at)) { return NO_MEMORY; }
    tables->logs[tables->log_count] = (struct observe_log){.id = log.id,
                                                           .size_bytes = log.size_bytes,
                                                           .fetched_bytes = log.fetched_bytes,
                                                           .offset_start = log.offset_start,
                                                           .watermark = log.watermark,
                                                           .topic_at = at,
                                                           .topic_bytes = (uint32_t)log.topic.size_bytes,
                                                           .is_failed = log.is_failed,
                                                           .is_damaged = log.is_damaged};
    tables->log_count += 1;
    return TAKEN;
}

static enum taken take_commit(struct observe_shard *shard)
{
    struct observe_snapshot *tables = &shard->tables;
    struct broker_commit_view commit;
    uint32_t at = 0;
    if (!broker_each_commit(shard->broker, &shard->cursor, &commit)) { return AT_END; }
    struct base_slice group = shard->what == OBSERVE_GROUPS ? commit.group : base_slice_of("", 0);
    if (!grow((void **)&tables->commits, tables->commit_count, sizeof *tables->commits)) { return NO_MEMORY; }
    if (!add_name(tables, group, &at)) { return NO_MEMORY; }
    tables->commits[tables->commit_count] = (struct observe_commit){.id = commit.id,
                                                                    .offset = commit.offset,
                                                                    .group_at = at,
                                                                    .group_bytes = (uint32_t)group.size_bytes};
    tables->commit_count += 1;
    return TAKEN;
}

static void drop_tables(struct observe_shard *shard)
{
    free_tables(&shard->tables);
    shard->tables = (struct observe_snapshot){.is_there = false};
    shard->round = 0;
}

/* Under the lock. */
static void answered(struct observe_shard *shard)
{
    shard->wanted = NULL;
    shard->observe->waiting -= 1;
    (void)pthread_cond_signal(&shard->observe->changed); /* can't fail for one that is there */
}

static void hand_over_tables(struct observe_shard *shard, bool is_whole)
{
    struct observe *observe = shard->observe;
    if (pthread_mutex_lock(&observe->lock) != 0) { return; }
    struct observe_snapshot *snapshot = shard->wanted; /* gone when nobody waits any longer */
    if (snapshot != NULL && observe->round == shard->round) {
        snapshot->logs = shard->tables.logs;
        snapshot->log_count = shard->tables.log_count;
        snapshot->commits = shard->tables.commits;
        snapshot->commit_count = shard->tables.commit_count;
        snapshot->names = shard->tables.names;
        snapshot->names_bytes = shard->tables.names_bytes;
        snapshot->is_whole = is_whole;
        shard->tables = (struct observe_snapshot){.is_there = false};
        answered(shard);
    }
    (void)pthread_mutex_unlock(&observe->lock); /* it is ours */
    drop_tables(shard);
}

static void take_some(struct observe_shard *shard)
{
    for (uint32_t n = 0; n < ROWS_OF_A_TURN; n++) {
        enum taken taken = shard->is_at_commits ? take_commit(shard) : take_log(shard);
        if (taken == TAKEN) { continue; }
        if (taken == NO_MEMORY || shard->is_at_commits) {
            hand_over_tables(shard, taken == AT_END);
            return;
        }
        shard->is_at_commits = true;
        shard->cursor = 0;
    }
}

/* What is asked stands in observe: an old message may still be under way when it has been answered, or given up. */
static void answer(struct observe_shard *shard)
{
    struct observe *observe = shard->observe;
    struct broker_view view;
    broker_view(shard->broker, &view);
    const struct broker_counters *counters = broker_counters(shard->broker); /* they change on this thread alone */
    if (pthread_mutex_lock(&observe->lock) != 0) { return; }
    struct observe_snapshot *snapshot = shard->wanted;
    bool is_new = snapshot != NULL && observe->round != shard->round;
    if (is_new) {
        snapshot->view = view;
        snapshot->counters = *counters;
        snapshot->times = shard->times;
        snapshot->is_there = true;
    }
    uint64_t round = observe->round;
    enum observe_what what = observe->what;
    if (is_new && what == OBSERVE_VIEWS) { answered(shard); }
    (void)pthread_mutex_unlock(&observe->lock); /* it is ours */
    if (!is_new) { return; }
    drop_tables(shard); /* of one who did not wait for them */
    if (what == OBSERVE_VIEWS) { return; }
    shard->round = round;
    shard->what = what;
    shard->is_at_commits = false;
    shard->cursor = 0;
    take_some(shard);
}

/* The tables go on when the machine would: once all that was ready has had its turn. A CONTINUE that the machine has not wished for is not
 * for it. */
void observe_step(void *machine, const struct port_event *event, struct port_out *out)
{
    struct observe_shard *shard = machine;
    bool is_question = event->kind == PORT_EVENT_MESSAGE && event->message.from == HOST_OUTSIDE;
    bool is_continue = event->kind == PORT_EVENT_CONTINUE;
    bool is_for_machine = !is_question && (!is_continue || shard->wants_continue);
    if (is_continue) {
        shard->wants_continue = false;
        if (shard->round != 0) { take_some(shard); }
    }
    if (is_question) { answer(shard); }
    if (is_for_machine) {
        broker_step(shard->broker, event, out);
        shard->alarm_ns = out->alarm_ns;
        shard->wants_continue |= out->wants_continue;
    } else {
        out->alarm_ns = shard->alarm_ns; /* that of the machine's last step still stands */
    }
    if (shard->round != 0) { out->wants_continue = true; }
}

void observe_turn(struct observe *observe, uint32_t shard, uint64_t ns)
{
    broker_histogram_add(&observe->shards[shard].times.turns, observe_turn_bounds_ns, ns);
}

void observe_synced(struct observe *observe, uint32_t shard, uint64_t token, uint64_t ns)
{
    struct observe_times *times = &observe->shards[shard].times;
    bool is_journal = broker_is_token_of_journal(token);
    broker_histogram_add(is_journal ? &times->journal_syncs : &times->log_syncs, broker_request_bounds_ns, ns);
}

/* ---- who asks ---- */

/* With the lock. */
static void ask(struct observe *observe, struct observe_snapshot *snapshots, enum observe_what what)
{
    observe->waiting = observe->shard_count;
    observe->round += 1;
    observe->what = what;
    for (uint32_t i = 0; i < observe->shard_count; i++) { observe->shards[i].wanted = &snapshots[i]; }
}

/* A shard that has not answered is told of as it was when it last did: so that no counter falls. */
static void remember(struct observe_shard *shard, struct observe_snapshot *snapshot)
{
    if (snapshot->is_there) {
        shard->last.view = snapshot->view;
        shard->last.counters = snapshot->counters;
        shard->last.times = snapshot->times;
        return;
    }
    *snapshot = shard->last;
}

struct observe_snapshot *observe_take(struct observe *observe, enum observe_what what)
{
    struct observe_snapshot *snapshots = calloc(observe->shard_count, sizeof *snapshots);
    if (snapshots == NULL) { return NULL; }
    if (pthread_mutex_lock(&observe->lock) != 0) {
        free(snapshots);
        return NULL;
    }
    bool is_over = observe->is_over;
    if (!is_over) { ask(observe, snapshots, what); }
    (void)pthread_mutex_unlock(&observe->lock); /* it is ours */
    for (uint32_t i = 0; !is_over && i < observe->shard_count; i++) {
        struct port_message message = {.to = (uint16_t)i};
        host_post(observe->host, i, &message);
    }
    struct timespec deadline;
    (void)clock_gettime(CLOCK_MONOTONIC, &deadline); /* this clock is always there */
    deadline.tv_sec += OBSERVE_WAIT_MS / 1000;
    if (pthread_mutex_lock(&observe->lock) != 0) { abort(); } /* the shards write into what we would free */
    int rc = 0;
    while (observe->waiting > 0 && !observe->is_over && rc == 0) {
        rc = pthread_cond_timedwait(&observe->changed, &observe->lock, &deadline);
    }
    observe->waiting = 0;
    for (uint32_t i = 0; i < observe->shard_count; i++) { observe->shards[i].wanted = NULL; }
    (void)pthread_mutex_unlock(&observe->lock); /* it is ours */
    for (uint32_t i = 0; i < observe->shard_count; i++) { remember(&observe->shards[i], &snapshots[i]); }
    return snapshots;
}

void observe_free(struct observe *observe, struct observe_snapshot *snapshots)
{
    for (uint32_t i = 0; snapshots != NULL && i < observe->shard_count; i++) { free_tables(&snapshots[i]); }
    free(snapshots);
}

void observe_over(struct observe *observe)
{
    if (pthread_mutex_lock(&observe->lock) != 0) { abort(); } /* whoever waits would do so for nothing */
    observe->is_over = true;
    (void)pthread_cond_signal(&observe->changed); /* can't fail for one that is there */
    (void)pthread_mutex_unlock(&observe->lock);   /* it is ours */
    for (uint32_t i = 0; i < observe->shard_count; i++) { drop_tables(&observe->shards[i]); }
}

bool observe_is_over(struct observe *observe)
{
    if (pthread_mutex_lock(&observe->lock) != 0) { return false; }
    bool is_over = observe->is_over;
    (void)pthread_mutex_unlock(&observe->lock); /* it is ours */
    return is_over;
}
