/* cgroup.c: how much memory the control groups of this process leave it.
 *
 * A process is in one group, and what its group or one above it is allowed holds for it. In a container the groups above may not be
 * there to be seen: then the topmost that is there is its own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

static uint64_t limit_in(const char *file)
{
    size_t size_bytes = 0;
    int64_t limit = 0;
    char *words = app_read_file(file, &size_bytes);
    if (words == NULL) { return UINT64_MAX; }
    while (size_bytes > 0 && words[size_bytes - 1] == '\n') { size_bytes -= 1; }
    bool is_number = base_text_parse_i64(base_slice_of(words, size_bytes), &limit) == BASE_OK && limit > 0;
    free(words);
    return is_number ? (uint64_t)limit : UINT64_MAX; /* "max" is none */
}

/* Of the group and all above it. */
static uint64_t limit_of(const char *root, const char *folder, struct base_slice group, const char *name)
{
    char file[PATH_BYTES];
    uint64_t bytes = UINT64_MAX;
    for (;;) {
        while (group.size_bytes > 0 && group.at[group.size_bytes - 1] == '/') { group.size_bytes -= 1; }
        int length = snprintf(file, sizeof file, "%s%s%.*s/%s", root, folder, (int)group.size_bytes,
                              (const char *)group.at, name);
        if (length > 0 && (size_t)length < sizeof file) { bytes = base_min_u64(bytes, limit_in(file)); }
        if (group.size_bytes == 0) { return bytes; }
        while (group.size_bytes > 0 && group.at[group.size_bytes - 1] != '/') { group.size_bytes -= 1; }
    }
}

static bool has_memory(struct base_slice controllers)
{
    while (controllers.size_bytes > 0) {
        if (base_slice_equal(base_slice_take_item(&controllers), base_slice_text("memory"))) { return true; }
    }
    return false;
}

/* NUMBER:CONTROLLERS:GROUP. Version 2 has no controllers. */
static uint64_t limit_by(struct base_slice line, const char *root)
{
    size_t ends[2] = {0};
    size_t count = 0;
    for (size_t i = 0; i < line.size_bytes && count < 2; i++) {
        if (line.at[i] == ':') { ends[count++] = i; }
    }
    if (count < 2) { return UINT64_MAX; }
    struct base_slice controllers = base_slice_of(line.at + ends[0] + 1, ends[1] - ends[0] - 1);
    struct base_slice group = base_slice_of(line.at + ends[1] + 1, line.size_bytes - ends[1] - 1);
    if (controllers.size_bytes == 0) { return limit_of(root, "", group, "memory.max"); }
    return has_memory(controllers) ? limit_of(root, "/memory", group, "memory.limit_in_bytes") : UINT64_MAX;
}

uint64_t app_cgroup_bytes(const char *self, const char *root)
{
    size_t size_bytes = 0;
    char *words = app_read_file(self, &size_bytes);
    if (words == NULL) { return UINT64_MAX; }
    uint64_t bytes = UINT64_MAX;
    size_t start = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        if (words[i] != '\n') { continue; }
        bytes = base_min_u64(bytes, limit_by(base_slice_of(words + start, i - start), root));
        start = i + 1;
    }
    free(words);
    return bytes;
}
