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

const uint64_t observe_turn_bounds_ns[BROKER_BUCKETS] = {10 * US,  20 * US,  50 * US,   100 * US,  200 * US, 500 * US,
                                                         1 * MS,   2 * MS,   5 * MS,    10 * MS,   20 * MS,  50 * MS,
                                                         100 * MS, 500 * MS, 2000 * MS, UINT64_MAX};

static uint64_t now_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) { return 0; }
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

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

static bool add_name(struct observe_snapshot *snapshot, struct base_slice name, size_t *room_bytes, uint32_t *at_out)
{
    if (snapshot->names_bytes + name.size_bytes > UINT32_MAX) { return false; }
    if (snapshot->names_bytes + name.size_bytes > *room_bytes) {
        size_t wanted = 2 * (snapshot->names_bytes + name.size_bytes) + 4096;
        char *larger = realloc(snapshot->names, wanted);
        if (larger == NULL) { return false; }
        snapshot->names = larger;
        *room_bytes = wanted;
    }
    *at_out = (uint32_t)snapshot->names_bytes;
    if (name.size_bytes > 0) { memcpy(snapshot->names + snapshot->names_bytes, name.at, name.size_bytes); }
    snapshot->names_bytes += name.size_bytes;
    return true;
}

/* What does not fit in memory is left out: an answer with less is better than none. */
static void take_tables(const struct broker *broker, struct observe_snapshot *snapshot)
{
    size_t room_bytes = 0;
    uint32_t cursor = 0;
    struct broker_log_view log;
    while (broker_each_log(broker, &cursor, &log)) {
        uint32_t at = 0;
        if (!grow((void **)&snapshot->logs, snapshot->log_count, sizeof *snapshot->logs)) { return; }
        if (!add_name(snapshot, log.topic, &room_bytes, &at)) { return; }
        snapshot->logs[snapshot->log_count] = (struct observe_log){.id = log.id,
                                                                   .size_bytes = log.size_bytes,
                                                                   .offset_start = log.offset_start,
                                                                   .watermark = log.watermark,
                                                                   .topic_at = at,
                                                                   .topic_bytes = (uint32_t)log.topic.size_bytes,
                                                                   .is_failed = log.is_failed,
                                                                   .is_damaged = log.is_damaged};
        snapshot->log_count += 1;
    }
    cursor = 0;
    struct broker_commit_view commit;
    while (broker_each_commit(broker, &cursor, &commit)) {
        uint32_t at = 0;
        if (!grow((void **)&snapshot->commits, snapshot->commit_count, sizeof *snapshot->commits)) { return; }
        if (!add_name(snapshot, commit.group, &room_bytes, &at)) { return; }
        snapshot->commits[snapshot->commit_count] = (struct observe_commit){
            .id = commit.id, .offset = commit.offset, .group_at = at, .group_bytes = (uint32_t)commit.group.size_bytes};
        snapshot->commit_count += 1;
    }
}

static void answer(struct observe_shard *shard)
{
    struct observe *observe = shard->observe;
    if (pthread_mutex_lock(&observe->lock) != 0) { return; }
    struct observe_snapshot *snapshot = shard->wanted; /* gone when nobody waits any longer */
    if (snapshot != NULL) {
        broker_view(shard->broker, &snapshot->view);
        snapshot->counters = *broker_counters(shard->broker);
        snapshot->turns = shard->turns;
        if (observe->with_logs) { take_tables(shard->broker, snapshot); }
        snapshot->is_there = true;
        shard->wanted = NULL;
        observe->waiting -= 1;
        (void)pthread_cond_signal(&observe->changed); /* can't fail for one that is there */
    }
    (void)pthread_mutex_unlock(&observe->lock); /* it is ours */
}

void observe_step(void *machine, const struct port_event *event, struct port_out *out)
{
    struct observe_shard *shard = machine;
    if (event->kind == PORT_EVENT_MESSAGE && event->message.from == HOST_OUTSIDE) {
        answer(shard);
        out->alarm_ns = shard->alarm_ns; /* that of the machine's last step still stands */
        return;
    }
    uint64_t begin_ns = now_ns();
    broker_step(shard->broker, event, out);
    shard->alarm_ns = out->alarm_ns;
    broker_histogram_add(&shard->turns, observe_turn_bounds_ns, now_ns() - begin_ns);
}

struct observe_snapshot *observe_take(struct observe *observe, bool with_logs)
{
    struct observe_snapshot *snapshots = calloc(observe->shard_count, sizeof *snapshots);
    if (snapshots == NULL) { return NULL; }
    if (pthread_mutex_lock(&observe->lock) != 0) {
        free(snapshots);
        return NULL;
    }
    observe->waiting = observe->shard_count;
    observe->with_logs = with_logs;
    for (uint32_t i = 0; i < observe->shard_count; i++) { observe->shards[i].wanted = &snapshots[i]; }
    (void)pthread_mutex_unlock(&observe->lock); /* it is ours */
    for (uint32_t i = 0; i < observe->shard_count; i++) {
        struct port_message message = {
            .to = (uint16_t)i}; /* what is asked stands in observe: an old one may still be under way */
        host_post(observe->host, i, &message);
    }
    struct timespec deadline;
    (void)clock_gettime(CLOCK_MONOTONIC, &deadline); /* this clock is always there */
    deadline.tv_sec += OBSERVE_WAIT_MS / 1000;
    if (pthread_mutex_lock(&observe->lock) != 0) { abort(); } /* the shards write into what we would free */
    int rc = 0;
    while (observe->waiting > 0 && rc == 0) {
        rc = pthread_cond_timedwait(&observe->changed, &observe->lock, &deadline);
    }
    for (uint32_t i = 0; i < observe->shard_count; i++) { observe->shards[i].wanted = NULL; }
    (void)pthread_mutex_unlock(&observe->lock); /* it is ours */
    return snapshots;
}

void observe_free(struct observe *observe, struct observe_snapshot *snapshots)
{
    for (uint32_t i = 0; snapshots != NULL && i < observe->shard_count; i++) {
        free(snapshots[i].logs);
        free(snapshots[i].commits);
        free(snapshots[i].names);
    }
    free(snapshots);
}
