/* log_limit.c: lines that come again and again are left out: what one client can cause must not fill a disk.
 *
 * Two lines are the same when they differ in digits alone. Of one line at most LINES_A_SECOND are written in a second of wall time.
 * The first of it in a later second says how many were not; where none comes, the last of those is written once the second is over,
 * and says how many others there were. The table is small: a rare line may take the place of another, whose last is written then.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <pthread.h>
#include <string.h>

#define LINES_A_SECOND 100
#define KINDS          256 /* a power of two */

struct kind {
    uint64_t hash;
    int64_t second;
    uint32_t written;
    uint64_t left_out;
    struct app_log_left last; /* of those left out; its counts are not kept up */
};

static struct kind kinds[KINDS];
static bool is_told_later; /* whoever left the first one out has seen to it */
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

/* Its words lie in itself. */
static void keep(struct app_log_left *left, const struct app_log_words *words)
{
    struct base_slice room = base_slice_of(words->room.at, base_min_size(words->room.size_bytes, sizeof left->room));
    struct base_slice text = base_slice_of(words->text.at, base_min_size(words->text.size_bytes, sizeof left->text));
    left->words = *words;
    left->words.room.size_bytes = room.size_bytes;
    left->words.text.size_bytes = text.size_bytes;
    memcpy(left->room, room.at, room.size_bytes);
    memcpy(left->text, text.at, text.size_bytes);
}

/* The last that was left out is to be written, and tells of the others. */
static void give(struct kind *kind, struct app_log_left *left_out)
{
    *left_out = kind->last;
    left_out->words.room.at = (const uint8_t *)left_out->room;
    left_out->words.text.at = (const uint8_t *)left_out->text;
    left_out->left_out = kind->left_out - 1;
    kind->left_out = 0;
}

enum app_log_may app_log_may(const struct app_log_words *words, struct app_log_left *left)
{
    uint64_t hash = hash_of(words->room, words->text);
    int64_t second = words->wall_ms / 1000;
    enum app_log_may may = APP_LOG_MAY;
    if (pthread_mutex_lock(&lock) != 0) { return may; }
    struct kind *kind = &kinds[hash & (KINDS - 1)];
    bool is_other = kind->hash != hash;
    if (is_other && kind->left_out > 0) {
        give(kind, left);
    } else if (kind->second != second) {
        left->left_out = kind->left_out;
    }
    if (is_other || kind->second != second) {
        kind->hash = hash;
        kind->second = second;
        kind->written = 0;
        kind->left_out = 0;
    }
    if (kind->written < LINES_A_SECOND) {
        kind->written += 1;
    } else {
        kind->left_out += 1;
        keep(&kind->last, words);
        may = is_told_later ? APP_LOG_LEFT_OUT : APP_LOG_FIRST_LEFT_OUT;
        is_told_later = true;
    }
    (void)pthread_mutex_unlock(&lock); /* it is ours */
    return may;
}

bool app_log_left_next(int64_t wall_ms, struct app_log_left *left)
{
    bool is_found = false;
    bool is_more = false;
    if (pthread_mutex_lock(&lock) != 0) {
        left->is_more = true;
        return false;
    }
    for (size_t i = 0; i < KINDS && !is_found; i++) {
        if (kinds[i].left_out == 0) { continue; }
        is_found = kinds[i].second != wall_ms / 1000;
        is_more = !is_found;
        if (is_found) { give(&kinds[i], left); }
    }
    left->is_more = is_more;
    if (!is_found && !is_more) { is_told_later = false; }
    (void)pthread_mutex_unlock(&lock); /* it is ours */
    return is_found;
}

void app_log_left_untold(void)
{
    if (pthread_mutex_lock(&lock) != 0) { return; }
    is_told_later = false;
    (void)pthread_mutex_unlock(&lock); /* it is ours */
}
