/* app__observe.h: snapshots of the shards for other threads: /health and /metrics are made of them.
 *
 * Room    host/app, private.
 * How     whoever wants to know posts a message to each shard and waits; the shard's own thread, between two steps of its machine,
 *         writes down what the views say. The machine hears nothing of it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_APP_OBSERVE_H
#define HOST_APP_OBSERVE_H

#include "app__parts.h"

#include "broker/broker.h"
#include "host/uv/host.h"

#include <pthread.h>

#define OBSERVE_WAIT_MS 2000 /* a shard that does not answer for so long counts as stuck */

struct observe_log {
    struct base_part id;
    uint64_t size_bytes;
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

struct observe_snapshot {
    bool is_there; /* the shard has answered this time */
    struct broker_view view;
    struct broker_counters counters;
    struct broker_histogram turns; /* how long the machine's steps took */
    struct observe_log *logs;
    uint32_t log_count;
    struct observe_commit *commits;
    uint32_t commit_count;
    char *names;
    size_t names_bytes;
};

/* One a shard: what the host calls its machine. */
struct observe_shard {
    struct broker *broker;
    struct observe *observe;
    uint32_t index;
    uint64_t alarm_ns; /* of the machine's last step */
    struct broker_histogram turns;
    struct observe_snapshot *wanted; /* under observe.lock: to be filled in; NULL: nothing is asked */
};

struct observe {
    struct host *host;
    struct observe_shard *shards;
    uint32_t shard_count;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a snapshot is there; by CLOCK_MONOTONIC */
    uint32_t waiting;       /* shards that have not answered yet */
    bool with_logs;         /* what is asked now */
};

extern const uint64_t observe_turn_bounds_ns[BROKER_BUCKETS];

/* Before host_run. `shards` and their brokers are set, the rest is filled in here. False: no such lock here. */
MUST_USE
bool observe_init(struct observe *observe, struct host *host);
/* host_config.step, with struct observe_shard as machine. */
void observe_step(void *machine, const struct port_event *event, struct port_out *out);
/* Asks every shard; from one thread at a time. with_logs: their tables too. To be freed; NULL: no memory. */
MUST_USE
struct observe_snapshot *observe_take(struct observe *observe, bool with_logs);
void observe_free(struct observe *observe, struct observe_snapshot *snapshots);

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
