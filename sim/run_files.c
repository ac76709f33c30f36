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

static void look_at_file(void *context, const char *path, uint64_t size_bytes)
{
    (void)size_bytes;
    struct run *run = context;
    size_t path_bytes = strlen(path);
    const char *slash = strchr(path, '/');
    bool is_segment = slash != NULL && path_bytes < NAME_BYTES_MAX && strlen(slash) == 1 + BASE_DIGITS + 4 &&
                      strcmp(path + path_bytes - 4, ".log") == 0;
    /* A folder of a topic that goes has another name. */
    if (!is_segment || memchr(path, '.', (size_t)(slash - path)) != NULL) { return; }
    char name[NAME_BYTES_MAX] = "";
    memcpy(name, path, path_bytes - 4);
    struct check_segment segment = {.name = name,
                                    .base = strtoll(slash + 1, NULL, 10),
                                    .log = view_file(run, name, ".log", false),
                                    .index = view_file(run, name, ".index", true),
                                    .timeindex = view_file(run, name, ".timeindex", true)};
    char log[NAME_BYTES_MAX + 16];
    (void)snprintf(log, sizeof log, "%s.log", name); /* as above */
    segment.is_written = check_stream_written(run->stream, log) > 0;
    check_segment(&run->report, &segment);
}

void run__judge_files(struct run *run) { world_files(run->world, run->cast.broker, 0, look_at_file, run); }
