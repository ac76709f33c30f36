/* run_files.c: see run.h. What the last stop left on the disk.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run__parts.h"

#include <stdlib.h>

#include "sim/check/files.h"

#define NAME_BYTES_MAX 300
#define BASE_DIGITS    20

/* `is_index`: as far as it was written to in this life. */
static struct base_slice view_file(const struct run *run, const char *name, const char *suffix, bool is_index)
{
    char path[NAME_BYTES_MAX + 16];
    struct base_slice bytes;
    (void)snprintf(path, sizeof path, "%s%s", name, suffix); /* `name` is of that size */
    if (!world_file_view(run->world, run->cast.broker, 0, path, &bytes)) { return (struct base_slice){0}; }
    uint64_t written = is_index ? check_stream_written(run->stream, path) : UINT64_MAX;
    return base_slice_of(bytes.at, (size_t)base_min_u64(bytes.size_bytes, written));
}

/* Paths come sorted: the segment before is the last of its log when the next one has another folder. */
struct looking {
    struct run *run;
    char name[NAME_BYTES_MAX]; /* of the segment before, without ".log"; empty: none */
    struct check_producers producers;
};

static size_t folder_bytes(const char *name)
{
    const char *slash = strchr(name, '/');
    return slash == NULL ? 0 : (size_t)(slash - name) + 1;
}

static int64_t base_of(const char *name) { return strtoll(name + folder_bytes(name), NULL, 10); }

/* A producer is forgotten after a day without a batch; one that a clock far behind had stamped, sooner. The clock that a broker goes by
 * may be an hour ahead. */
static int64_t forgotten_ms(const struct run *run)
{
    int64_t now_ms = run->wall_start_ms + (int64_t)(world_now(run->world) / WORLD_MS);
    return now_ms - (int64_t)run->node.config.producer_expiry_ms + 3600 * INT64_C(1000);
}

static void judge_segment(struct looking *looking, const char *next)
{
    const struct run *run = looking->run;
    const char *name = looking->name;
    if (name[0] == 0) { return; }
    size_t bytes = folder_bytes(name);
    char log[NAME_BYTES_MAX + 16];
    (void)snprintf(log, sizeof log, "%s.log", name); /* as above */
    bool is_last = strncmp(name, next, bytes) != 0;
    int64_t start, end;
    bool is_known = check_stream_log_of(run->stream, log, &start, &end);
    bool is_taken = is_known && start == end && base_of(name) < start; /* by retention, its files are yet to go */
    struct check_segment segment = {.name = name,
                                    .base = base_of(name),
                                    .log = view_file(run, name, ".log", false),
                                    .index = view_file(run, name, ".index", true),
                                    .timeindex = view_file(run, name, ".timeindex", true),
                                    .producers = &looking->producers,
                                    .end = is_last && is_known && !is_taken ? end : -1,
                                    .is_last = is_last && check_stream_written(run->stream, log) > 0};
    check_segment(&looking->run->report, &segment);
}

static void look_at_file(void *context, const char *path, uint64_t size_bytes)
{
    (void)size_bytes;
    struct looking *looking = context;
    size_t path_bytes = strlen(path);
    size_t bytes = folder_bytes(path);
    bool is_segment = bytes > 0 && path_bytes < NAME_BYTES_MAX && path_bytes - bytes == BASE_DIGITS + 4 &&
                      strcmp(path + path_bytes - 4, ".log") == 0;
    /* A folder of a topic that goes has another name. */
    if (!is_segment || memchr(path, '.', bytes) != NULL) { return; }
    /* The final reader has read every record. What nobody opened for that belongs to no log: a crash came between a segment's
     * first bytes and its row in the journal. And what begins behind the end of its log is on its way out. */
    if (!check_stream_opened(looking->run->stream, path)) { return; }
    int64_t start, end;
    if (check_stream_log_of(looking->run->stream, path, &start, &end) && base_of(path) > end) { return; }
    judge_segment(looking, path);
    if (strncmp(looking->name, path, bytes) != 0) { /* another log */
        looking->producers = (struct check_producers){.forgotten_ms = forgotten_ms(looking->run)};
    }
    memset(looking->name, 0, sizeof looking->name);
    memcpy(looking->name, path, path_bytes - 4);
}

bool run__has_disk_trouble(const struct run *run)
{
    for (int i = WORLD_DISK_EIO_READ; i <= WORLD_DISK_ROT; i++) {
        if (world_hits(run->world, (enum world_fault)i) > 0) { return true; }
    }
    return world_hits(run->world, WORLD_OLD_BYTES) > 0;
}

void run__judge_files(struct run *run)
{
    if (run__has_disk_trouble(run)) { return; }
    struct looking looking = {.run = run};
    world_files(run->world, run->cast.broker, 0, look_at_file, &looking);
    judge_segment(&looking, "");
}
