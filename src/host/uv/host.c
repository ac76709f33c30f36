/* host.c: makes, runs, stops and ends the shards and the disks' threads.
 *
 * Room    host/uv.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host__shard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DISK_THREADS 2

static void ignore_signals(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    CHECK(sigaction(SIGPIPE, &ignore, NULL) == 0); /* sendfile has no MSG_NOSIGNAL */
    CHECK(sigaction(SIGXFSZ, &ignore, NULL) == 0); /* a write past the limit on files: PORT_NO_SPACE, not the end */
}

static void on_wake(uv_async_t *wake) { (void)wake; /* that the loop came round is all it is for */ }

static int shard_init(struct host *host, uint32_t index)
{
    struct shard *shard = &host->shards[index];
    const struct host_config *config = &host->config;
    int error = uv_loop_init(&shard->loop);
    if (error != 0) { return error; }
    error = uv_async_init(&shard->loop, &shard->wake, on_wake);
    if (error != 0) {
        CHECK(uv_loop_close(&shard->loop) == 0);
        return error;
    }
    CHECK(uv_timer_init(&shard->loop, &shard->alarm) == 0);
    host->asyncs_made = index + 1;
    shard->alarm.data = shard;
    shard->alarm_set_ns = UINT64_MAX;
    shard->host = host;
    shard->index = index;
    shard->machine = config->machines[index];
    base_list_init(&shard->ready);
    base_list_init(&shard->flush);
    shard->conns = host__allocate(config->conns_max, sizeof *shard->conns);
    shard->listeners = host__allocate(config->listeners_max, sizeof *shard->listeners);
    shard->files = host__allocate(config->files_max, sizeof *shard->files);
    shard->out.effects = host__allocate(config->effects_max, sizeof *shard->out.effects);
    shard->out.effects_max = config->effects_max;
    shard->out.messages = host__allocate(config->messages_max, sizeof *shard->out.messages);
    shard->out.messages_max = config->messages_max;
    shard->out.text = host__allocate(1, PORT_TEXT_BYTES);
    shard->out.text_bytes = PORT_TEXT_BYTES;
    CHECK(uv_mutex_init(&shard->done_lock) == 0);
    CHECK(uv_mutex_init(&shard->post_lock) == 0);
    return 0;
}

static void make_rings(struct host *host)
{
    size_t count = (size_t)host->config.shards * host->config.shards;
    host->rings = aligned_alloc(_Alignof(struct ring), count * sizeof *host->rings);
    CHECK(host->rings != NULL);
    memset(host->rings, 0, count * sizeof *host->rings);
    for (size_t i = 0; i < count; i++) {
        CHECK(uv_mutex_init(&host->rings[i].lock) == 0);
        host->rings[i].slots = host__allocate(RING_SLOTS, sizeof *host->rings[i].slots);
    }
}

static enum port_rc open_disks(struct host *host, char why_out[HOST_WHY_BYTES])
{
    for (uint32_t i = 0; i < host->config.disk_count; i++) {
        host->disks[i].fd = open(host->config.disks[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (host->disks[i].fd < 0) {
            int error = errno;
            (void)snprintf(why_out, HOST_WHY_BYTES, "cannot open directory '%s': %s", host->config.disks[i],
                           strerror(error)); /* cut where it is too long */
            return host_rc_of_errno(error);
        }
    }
    return PORT_OK;
}

enum port_rc host_create(const struct host_config *config, struct host **host_out, char why_out[HOST_WHY_BYTES])
{
    CHECK(config->shards >= 1 && config->shards <= 1024);
    CHECK(config->step != NULL);
    struct host *host = host__allocate(1, sizeof *host);
    host->config = *config;
    if (host->config.effects_max == 0) { host->config.effects_max = PORT_EFFECTS_MAX; }
    if (host->config.messages_max == 0) { host->config.messages_max = PORT_MESSAGES_MAX; }
    if (host->config.disk_threads == 0) { host->config.disk_threads = DISK_THREADS; }
    ignore_signals();
    CHECK(uv_mutex_init(&host->share_lock) == 0);
    host->disks = host__allocate(config->disk_count, sizeof *host->disks);
    for (uint32_t i = 0; i < config->disk_count; i++) {
        struct disk *disk = &host->disks[i];
        disk->fd = -1;
        disk->thread_count = 1 + host->config.disk_threads;
        disk->threads = host__allocate(disk->thread_count, sizeof *disk->threads);
    }
    host->shards = aligned_alloc(64, ((size_t)config->shards * sizeof *host->shards + 63) / 64 * 64);
    CHECK(host->shards != NULL);
    memset(host->shards, 0, (size_t)config->shards * sizeof *host->shards);
    make_rings(host);
    enum port_rc rc = open_disks(host, why_out);
    for (uint32_t i = 0; rc == PORT_OK && i < config->shards; i++) {
        int error = shard_init(host, i);
        if (error != 0) {
            (void)snprintf(why_out, HOST_WHY_BYTES, "cannot make the loop of shard %u: %s", i, uv_strerror(error));
            rc = host_rc_of_errno(-error); /* libuv's errors are negated errnos here */
        }
    }
    if (rc != PORT_OK) {
        host_destroy(host);
        return rc;
    }
    *host_out = host;
    return PORT_OK;
}

static void shard_main(void *arg) { host__shard_run(arg); }

/* Signals are the first thread's business: a handler that runs elsewhere could only do what host_stop does. */
static void run_threads(struct host *host)
{
    sigset_t all;
    sigset_t before;
    CHECK(sigfillset(&all) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    host__disk_start(host);
    for (uint32_t i = 1; i < host->config.shards; i++) {
        CHECK(uv_thread_create(&host->shards[i].thread, shard_main, &host->shards[i]) == 0);
    }
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
}

void host_run(struct host *host)
{
    run_threads(host);
    host__shard_run(&host->shards[0]);
    for (uint32_t i = 1; i < host->config.shards; i++) { CHECK(uv_thread_join(&host->shards[i].thread) == 0); }
    host__disk_stop(host);
}

void host_stop(struct host *host)
{
    for (uint32_t i = 0; i < host->config.shards; i++) {
        struct shard *shard = &host->shards[i];
        atomic_store(&shard->is_stop_asked, true);
        CHECK(uv_async_send(&shard->wake) == 0);
    }
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) { uv_close(handle, NULL); }
}

static void shard_end(struct shard *shard)
{
    host__net_end(shard);
    host__file_end(shard);
    uv_walk(&shard->loop, close_handle, NULL);
    (void)uv_run(&shard->loop, UV_RUN_DEFAULT); /* names being resolved end first */
    CHECK(uv_loop_close(&shard->loop) == 0);
    struct port_message message;
    while (host__post_pop(shard, &message)) {}
    uv_mutex_destroy(&shard->done_lock);
    uv_mutex_destroy(&shard->post_lock);
    while (shard->chunks != NULL) {
        struct op_chunk *chunk = shard->chunks;
        shard->chunks = chunk->next;
        free(chunk);
    }
    free(shard->conns);
    free(shard->listeners);
    free(shard->files);
    free(shard->out.effects);
    free(shard->out.messages);
    free(shard->out.text);
}

void host_destroy(struct host *host)
{
    for (uint32_t i = 0; i < host->asyncs_made; i++) { shard_end(&host->shards[i]); }
    for (uint32_t from = 0; from < host->config.shards; from++) {
        for (uint32_t to = 0; to < host->config.shards; to++) {
            struct port_message message;
            while (host__ring_pop(host, from, to, &message)) {}
            struct ring *ring = &host->rings[(size_t)from * host->config.shards + to];
            uv_mutex_destroy(&ring->lock);
            free(ring->slots);
        }
    }
    for (uint32_t i = 0; i < host->config.disk_count; i++) {
        if (host->disks[i].fd >= 0) { (void)close(host->disks[i].fd); } /* read only: nothing to lose */
        free(host->disks[i].threads);
    }
    for (uint32_t i = 0; i < host->share_count; i++) { free(host->shares[i].is_held); }
    free(host->shares);
    uv_mutex_destroy(&host->share_lock);
    free(host->rings);
    free(host->shards);
    free(host->disks);
    free(host);
}
