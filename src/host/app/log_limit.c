/* log_limit.c: lines that come again and again are left out: what one client can cause must not fill a disk.
 *
 * Two lines are the same when they differ in digits alone. Of one line at most LINES_A_SECOND are written in a second of wall time;
 * the first of it in a later second says how many were not. The table is small: a rare line may take the place of another, which
 * then counts anew.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <pthread.h>

#define LINES_A_SECOND 100
#define KINDS          256 /* a power of two */

struct kind {
    uint64_t hash;
    int64_t second;
    uint32_t written;
    uint64_t left_out;
};

static struct kind kinds[KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(struct base_slice room, struct base_slice text)
{
    uint64_t hash = base_hash_bytes(room.at, room.size_bytes, 0);
    size_t from = 0;
    for (size_t i = 0; i <= text.size_bytes; i++) {
        bool is_digit = i < text.size_bytes && text.at[i] >= '0' && text.at[i] <= '9';
        if (i < text.size_bytes && !is_digit) { continue; }
        hash = base_hash_bytes(text.at + from, i - from, hash);
        from = i + 1;
    }
    return hash;
}

bool app_log_may(struct base_slice room, struct base_slice text, int64_t wall_ms, uint64_t *left_out)
{
    uint64_t hash = hash_of(room, text);
    int64_t second = wall_ms / 1000;
    *left_out = 0;
    if (pthread_mutex_lock(&lock) != 0) { return true; }
    struct kind *kind = &kinds[hash & (KINDS - 1)];
    if (kind->hash != hash) { *kind = (struct kind){.hash = hash, .second = second}; }
    if (kind->second != second) {
        *left_out = kind->left_out;
        *kind = (struct kind){.hash = hash, .second = second};
    }
    bool may = kind->written < LINES_A_SECOND;
    if (may) {
        kind->written += 1;
    } else {
        kind->left_out += 1;
    }
    (void)pthread_mutex_unlock(&lock); /* it is ours */
    return may;
}
