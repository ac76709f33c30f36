/* run_rot.c: see run.h. Rot: bits of the journal that flip while the broker is down, and what that excuses.
 *
 * What is hit below the synced line must be found and told: the partition is damaged, or, with the cluster's own log, the start
 * is refused. Nothing else is excused: what is not told damaged is read and judged as ever. Segments that are long synced are
 * not looked at by a start; a client's checksum finds what rots there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run__parts.h"

#include <stdlib.h>

#define TRIES_MAX  2000
#define PAGE_BYTES 4096
#define TAIL \
    4 /* groups at the end that no line may cover yet: what is hit there looks torn (docs/formats/journal.md) */

enum { GROUP_MAGIC = 0x574a4731, GROUP_FLAGS_AT = 6, GROUP_POSITION_AT = 40 };
enum { CHECKPOINT_MAGIC = 0x574a4331, CHECKPOINT_BEGIN_AT = 40, CHECKPOINT_HEAD_BYTES = 128 };

struct journal_file {
    char path[64];
    uint64_t number;
    struct base_slice bytes;
};

struct survey { /* of the journal's files */
    struct run *run;
    struct journal_file files[64];
    uint32_t count;
    uint64_t last[TAIL]; /* the highest positions of groups, the highest first */
    uint64_t begin;      /* no start reads what is before it, whichever checkpoint it takes */
};

static void note_group(struct survey *survey, uint64_t position)
{
    for (uint32_t i = 0; i < TAIL; i++) {
        if (position <= survey->last[i]) { continue; }
        memmove(&survey->last[i + 1], &survey->last[i], (TAIL - 1 - i) * sizeof survey->last[0]);
        survey->last[i] = position;
        return;
    }
}

static void note_checkpoint(struct survey *survey, const char *path)
{
    struct base_slice bytes;
    if (!world_file_durable(survey->run->world, survey->run->cast.broker, 0, path, &bytes)) { return; }
    bool is_one = bytes.size_bytes >= CHECKPOINT_HEAD_BYTES && base_get_u32(bytes.at) == CHECKPOINT_MAGIC;
    if (is_one) { survey->begin = base_max_u64(survey->begin, base_get_u64(bytes.at + CHECKPOINT_BEGIN_AT)); }
}

static void look_at(void *context, const char *path, uint64_t size_bytes)
{
    struct survey *survey = context;
    static const char folder[] = "weir-journal/";
    if (strncmp(path, "weir-journal/checkpoint-", 24) == 0) { note_checkpoint(survey, path); }
    bool is_file = strncmp(path, folder, sizeof folder - 1) == 0 && path[sizeof folder - 1] == '0' && size_bytes > 0;
    if (!is_file || survey->count == BASE_ARRAY_COUNT(survey->files) || strlen(path) >= 64) { return; }
    struct journal_file *file = &survey->files[survey->count];
    if (!world_file_durable(survey->run->world, survey->run->cast.broker, 0, path, &file->bytes)) { return; }
    (void)snprintf(file->path, sizeof file->path, "%s", path); /* it fits */
    file->number = strtoull(path + sizeof folder - 1, NULL, 10);
    survey->count += 1;
    for (uint64_t at = 0; at + PAGE_BYTES <= file->bytes.size_bytes; at += PAGE_BYTES) {
        const uint8_t *page = file->bytes.at + at;
        if (base_get_u32(page) != GROUP_MAGIC || base_get_u16(page + GROUP_FLAGS_AT) != 0) { continue; }
        uint64_t position = base_get_u64(page + GROUP_POSITION_AT);
        if (position == file->number * NODE_JOURNAL_FILE_BYTES + at) { note_group(survey, position); }
    }
}

/* A byte that says something, if the first tries find one. `from`: not before that position. */
static void flip_one(struct run *run, const struct survey *survey, uint64_t from)
{
    for (int i = 0; i < TRIES_MAX && survey->count > 0; i++) {
        const struct journal_file *file = &survey->files[base_prng_below(&run->prng, survey->count)];
        if (file->bytes.size_bytes == 0) { continue; }
        uint64_t at = base_prng_below(&run->prng, file->bytes.size_bytes);
        uint64_t position = file->number * NODE_JOURNAL_FILE_BYTES + at;
        if (file->bytes.at[at] == 0 || position < from || position >= survey->last[TAIL - 1]) { continue; }
        if (world_rot_at(run->world, run->cast.broker, 0, file->path, at)) { run->is_rotten = true; }
        return;
    }
}

void run__rot(struct run *run)
{
    struct survey *survey = calloc(1, sizeof *survey);
    CHECK(survey != NULL);
    survey->run = run;
    world_files(run->world, run->cast.broker, 0, look_at, survey);
    /* Every other one where the start will read: most of a journal is behind its checkpoint. */
    for (int64_t i = 0; i < run->shape.rots; i++) { flip_one(run, survey, i % 2 == 0 ? survey->begin : 0); }
    free(survey);
    if (run->is_rotten) { check_stream_rotten(run->stream); }
}

bool run__is_excused(void *context, const char *topic, int32_t partition)
{
    const struct run *run = context;
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards && run->is_rotten; i++) {
        const struct broker *broker = world_machine_at(run->world, run->cast.broker, i);
        struct broker_log_view log;
        for (uint32_t cursor = 0; broker != NULL && broker_each_log(broker, &cursor, &log);) {
            bool is_it = log.id.index == partition && base_slice_equal(log.topic, base_slice_text(topic));
            if (is_it && log.is_damaged) { return true; }
        }
    }
    return false;
}
