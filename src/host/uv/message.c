/* message.c: messages between shards, and from outside.
 *
 * Room    host/uv.
 * Order   a ring holds what fits. Once it is full the sender adds to the list, under its lock, until the receiver has
 *         taken the list: so what is in the ring while the list is not empty was sent before everything in the list.
 *         The receiver takes the list only with the lock held and the ring seen empty under it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host__shard.h"

#include <stdlib.h>
#include <string.h>

static struct spill *spill_of(const struct port_message *message)
{
    struct spill *spill = host__allocate(1, sizeof *spill);
    spill->message = *message;
    return spill;
}

void host__ring_push(struct shard *from, const struct port_message *message)
{
    struct host *host = from->host;
    CHECK(message->to < host->config.shards);
    struct ring *ring = &host->rings[(size_t)from->index * host->config.shards + message->to];
    unsigned head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    unsigned tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    if (atomic_load_explicit(&ring->spilled, memory_order_acquire) == 0 && head - tail < RING_SLOTS) {
        struct port_message *slot = &ring->slots[head % RING_SLOTS];
        *slot = *message;
        slot->from = (uint16_t)from->index;
        atomic_store_explicit(&ring->head, head + 1, memory_order_release);
        return;
    }
    struct spill *spill = spill_of(message);
    spill->message.from = (uint16_t)from->index;
    uv_mutex_lock(&ring->lock);
    if (ring->last == NULL) {
        ring->first = spill;
    } else {
        ring->last->next = spill;
    }
    ring->last = spill;
    atomic_fetch_add(&ring->spilled, 1);
    uv_mutex_unlock(&ring->lock);
}

static bool pop_slot(struct ring *ring, struct port_message *message_out)
{
    unsigned tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    unsigned head = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (head == tail) { return false; }
    *message_out = ring->slots[tail % RING_SLOTS];
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

bool host__ring_pop(struct host *host, uint32_t from, uint32_t to, struct port_message *message_out)
{
    struct ring *ring = &host->rings[(size_t)from * host->config.shards + to];
    if (pop_slot(ring, message_out)) { return true; }
    if (atomic_load_explicit(&ring->spilled, memory_order_acquire) == 0) { return false; }
    uv_mutex_lock(&ring->lock);
    struct spill *spill = NULL;
    bool has = pop_slot(ring, message_out); /* filled since the look above, before the list began */
    if (!has) {
        spill = ring->first;
        CHECK(spill != NULL);
        ring->first = spill->next;
        if (ring->first == NULL) { ring->last = NULL; }
        atomic_fetch_sub(&ring->spilled, 1);
    }
    uv_mutex_unlock(&ring->lock);
    if (spill != NULL) {
        *message_out = spill->message;
        free(spill);
    }
    return true;
}

bool host__ring_has(struct host *host, uint32_t from, uint32_t to)
{
    struct ring *ring = &host->rings[(size_t)from * host->config.shards + to];
    return atomic_load(&ring->head) != atomic_load(&ring->tail) || atomic_load(&ring->spilled) != 0;
}

uint64_t host_messages_waiting(const struct host *host, uint32_t shard)
{
    CHECK(shard < host->config.shards);
    uint64_t count = 0;
    for (uint32_t from = 0; from < host->config.shards; from++) {
        const struct ring *ring = &host->rings[(size_t)from * host->config.shards + shard];
        unsigned tail = atomic_load(&ring->tail); /* before the head, which never falls behind it */
        unsigned head = atomic_load(&ring->head);
        count += (head - tail) + (uint64_t)atomic_load(&ring->spilled);
    }
    return count;
}

void host_post(struct host *host, uint32_t shard, const struct port_message *message)
{
    CHECK(shard < host->config.shards);
    struct shard *to = &host->shards[shard];
    struct spill *spill = spill_of(message);
    spill->message.to = (uint16_t)shard;
    spill->message.from = HOST_OUTSIDE;
    uv_mutex_lock(&to->post_lock);
    if (to->post_last == NULL) {
        to->post_first = spill;
    } else {
        to->post_last->next = spill;
    }
    to->post_last = spill;
    atomic_fetch_add(&to->post_count, 1);
    uv_mutex_unlock(&to->post_lock);
    host__wake(to);
}

bool host__post_pop(struct shard *shard, struct port_message *message_out)
{
    if (atomic_load(&shard->post_count) == 0) { return false; }
    uv_mutex_lock(&shard->post_lock);
    struct spill *spill = shard->post_first;
    CHECK(spill != NULL);
    shard->post_first = spill->next;
    if (shard->post_first == NULL) { shard->post_last = NULL; }
    atomic_fetch_sub(&shard->post_count, 1);
    uv_mutex_unlock(&shard->post_lock);
    *message_out = spill->message;
    free(spill);
    return true;
}
