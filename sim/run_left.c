/* run_left.c: see run.h. What should be gone when all is over: files of deleted topics, of what a log start has passed, and logs of
 * topics that are not there (I25).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run__parts.h"

#include <inttypes.h>
#include <stdlib.h>

#define BASE_DIGITS 20

/* While the node is at rest, and long enough before its end for what a moved start leaves behind to be taken away. */
void run__note_logs(struct run *run)
{
    run->left_count = 0;
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        const struct broker *broker = world_machine_at(run->world, run->cast.broker, i);
        struct broker_log_view view;
        for (uint32_t cursor = 0; broker != NULL && broker_each_log(broker, &cursor, &view);) {
            if (run->left_count == RUN_LEFT_MAX) { return; }
            struct run_left *left = &run->left[run->left_count++];
            *left = (struct run_left){.id = view.id, .start = view.offset_start, .live = -1};
            int bytes = (int)base_min_size(view.topic.size_bytes, sizeof left->topic - 1); /* names here are short */
            const char *topic = (const char *)view.topic.at;
            memcpy(left->topic, topic, (size_t)bytes);
            (void)snprintf(left->folder, sizeof left->folder, "%.*s-%" PRId32, bytes, topic,
                           view.id.index); /* as above */
        }
    }
}

/* What the final reader was told of that topic; NULL: it did not ask, or got no answer. */
static const struct history_op *final_topic(const struct run *run, const char *topic)
{
    for (uint32_t i = run->history.op_count; i-- > 0;) {
        const struct history_op *op = &run->history.ops[i];
        bool is_it =
            op->kind == HISTORY_TOPIC && op->is_final && op->what == HISTORY_OK && strcmp(op->topic, topic) == 0;
        if (is_it) { return op; }
    }
    return NULL;
}

static void judge_logs(struct run *run)
{
    for (uint32_t i = 0; i < run->left_count; i++) {
        const struct run_left *left = &run->left[i];
        const struct history_op *topic = final_topic(run, left->topic);
        if (topic == NULL || (topic->count > left->id.index && base_uuid_equal(topic->id, left->id.topic))) {
            continue;
        }
        check_breach(&run->report, "I25", "the broker keeps a log %s, and there is no such partition of topic %s",
                     left->folder, left->topic);
        return;
    }
}

struct tidy {
    struct run *run;
    bool is_second; /* the live segments are known */
};

static struct run_left *left_of(struct run *run, const char *path, size_t folder_bytes)
{
    for (uint32_t i = 0; i < run->left_count; i++) {
        bool is_it =
            strlen(run->left[i].folder) == folder_bytes && memcmp(run->left[i].folder, path, folder_bytes) == 0;
        if (is_it) { return &run->left[i]; }
    }
    return NULL;
}

/* -1: not a segment's. */
static int64_t base_of(const char *name)
{
    char *end;
    int64_t base = strtoll(name, &end, 10);
    return end - name == BASE_DIGITS && *end == '.' ? base : -1;
}

static void look_at(void *context, const char *path, uint64_t size_bytes)
{
    struct tidy *tidy = context;
    struct run *run = tidy->run;
    const char *slash = strchr(path, '/');
    if (slash == NULL || strncmp(path, "weir-journal/", 13) == 0) { return; }
    size_t folder_bytes = (size_t)(slash - path);
    struct run_left *left = left_of(run, path, folder_bytes);
    int64_t base = base_of(slash + 1);
    /* What a crash left before the journal was told of it is known to nobody: a folder, a segment. It is not the log's, either. */
    char log[64] = "";
    if (base >= 0) { (void)snprintf(log, sizeof log, "%.*s.log", (int)(slash + 1 + BASE_DIGITS - path), path); }
    bool is_born = check_stream_is_born(run->stream, log);
    if (!tidy->is_second) { /* the last segment that begins at or before the start */
        bool is_log = base >= 0 && strcmp(path, log) == 0;
        if (left != NULL && is_log && is_born && base <= left->start) { left->live = base_max_i64(left->live, base); }
        return;
    }
    bool is_going = memmem(path, folder_bytes, "-delete", 7) != NULL && size_bytes > 0;
    if (!is_going && !is_born) { return; }
    if (left == NULL) {
        check_breach(&run->report, "I25", "%s is left on the disk, and no log has that folder", path);
    } else if (base >= 0 && base < left->live) {
        check_breach(&run->report, "I25", "%s is left on the disk, and its log begins at %" PRId64, path, left->start);
    }
}

void run__judge_left(struct run *run)
{
    if (run->left_count == 0 || run__has_disk_trouble(run)) { return; }
    judge_logs(run);
    struct tidy tidy = {.run = run};
    world_files(run->world, run->cast.broker, 0, look_at, &tidy);
    tidy.is_second = true;
    world_files(run->world, run->cast.broker, 0, look_at, &tidy);
}
