/* app__observe.h: snapshots of the shards for other threads: /health and /metrics are made of them.
 *
 * Room    host/app, private.
 * How     whoever wants to know posts a message to each shard and waits; the shard's own thread, between two steps of its machine,
 *         writes down what the views say. The machine hears nothing of it. Tables may be long: they are written down a part at a time,
 *         between which the shard does its other work. Nothing is gathered under the lock: only what is done is handed over under it.
 * Ends    observe_over, after host_run: no shard answers any more, and nobody waits for one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_APP_OBSERVE_H
#define HOST_APP_OBSERVE_H

#include "app__parts.h"

#include "broker/broker.h"
#include "host/uv/host.h"

#include <pthread.h>

#define OBSERVE_WAIT_MS 2000  /* a shard that does not answer for so long counts as stuck */
#define OBSERVE_DISK_MS 10000 /* and so does a disk */

struct observe_log {
    struct base_part id;
    uint64_t size_bytes;
    uint64_t fetched_bytes;
    int64_t offset_start;
    int64_t watermark;
    uint32_t topic_at; /* its name, in names */
    uint32_t topic_bytes;
    bool is_failed;
    bool is_damaged;
};
struct observe_commit {
    struct base_part id;
    int64_t offset;
    uint32_t group_at; /* its id, in names */
    uint32_t group_bytes;
};

/* How long the host took for what the machine asked. */
struct observe_times {
    struct broker_histogram turns; /* steps with what they asked to be done at once, and rounds of sends */
    struct broker_histogram journal_syncs, log_syncs;
};

struct observe_snapshot {
    bool is_there; /* the shard has answered this time; if not, view, counters and times are those of its last answer */
    bool is_whole; /* its tables are all here */
    struct broker_view view;
    struct broker_counters counters;
    struct observe_times times;
    struct observe_log *logs;
    uint32_t log_count;
    struct observe_commit *commits;
    uint32_t commit_count;
    char *names;
    size_t names_bytes;
    size_t names_room_bytes;
};

enum observe_what {
    OBSERVE_VIEWS = 0,
    OBSERVE_TABLES, /* logs and commits, too */
    OBSERVE_GROUPS, /* and the ids of the groups that committed */
};

/* One a shard: what the host calls its machine. */
struct observe_shard {
    struct broker *broker;
    struct observe *observe;
    uint32_t index;
    uint64_t alarm_ns;   /* of the machine's last step */
    bool wants_continue; /* the machine does */
    struct observe_times times;
    /* The tables that are being written down. */
    struct observe_snapshot tables;
    uint64_t round; /* for whom; 0: for nobody */
    enum observe_what what;
    bool is_at_commits; /* the logs are done */
    uint32_t cursor;
    /* Of whoever asks. */
    struct observe_snapshot last;    /* the last answer, without tables */
    struct observe_snapshot *wanted; /* under observe.lock: to be filled in; NULL: nothing is asked */
};

struct observe {
    struct host *host;
    struct observe_shard *shards;
    uint32_t shard_count;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a snapshot is there; by CLOCK_MONOTONIC */
    uint32_t waiting;       /* shards that have not answered yet */
    uint64_t round;         /* which asking this is */
    enum observe_what what; /* what is asked now */
    bool is_over;
};

extern const uint64_t observe_turn_bounds_ns[BROKER_BUCKETS];

/* Before host_run. `shards` and their brokers are set, the rest is filled in here. False: no such lock here. */
MUST_USE
bool observe_init(struct observe *observe, struct host *host);
/* host_config.step, with struct observe_shard as machine. */
void observe_step(void *machine, const struct port_event *event, struct port_out *out);
/* As in host_notes. */
void observe_turn(struct observe *observe, uint32_t shard, uint64_t ns);
void observe_synced(struct observe *observe, uint32_t shard, uint64_t token, uint64_t ns);
/* Asks every shard; from one thread at a time. To be freed; NULL: no memory. */
MUST_USE
struct observe_snapshot *observe_take(struct observe *observe, enum observe_what what);
void observe_free(struct observe *observe, struct observe_snapshot *snapshots);
/* The shards have ended. Whoever waits for them is told so at once. */
void observe_over(struct observe *observe);
bool observe_is_over(struct observe *observe);

/* ---- what is said (metrics.c) ---- */

/* Prometheus' text format, version 0.0.4. */
void metrics_print(FILE *file, const struct observe *observe, const struct observe_snapshot *snapshots,
                   bool is_group_label);

/* ---- over HTTP (http.c) ---- */

#define HTTP_CONNECTIONS_MAX 64
struct http;
/* Serves GET /metrics, /health, /health/live. An exit code, and words printed when it is not APP_DONE. *http_out NULL: off. */
int http_start(struct observe *observe, const struct settings *settings, const struct app_log *log,
               struct http **http_out);
void http_stop(struct http *http); /* NULL is fine */

#endif
