/* judge_file.c: see judge_file.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/check/groups.h"
#include "sim/check/judge.h"

/* How much there was to judge: a history of nothing breaks nothing. */
struct tally {
    uint32_t acknowledged, reads, final_reads, ends;
};

static struct tally tally_of(const struct history *history)
{
    struct tally tally = {0};
    for (uint32_t i = 0; i < history->op_count; i++) {
        const struct history_op *op = &history->ops[i];
        if (op->kind == HISTORY_PRODUCE && op->what == HISTORY_OK && op->acks == -1) { tally.acknowledged += 1; }
        if (op->kind == HISTORY_READ && !op->is_final) { tally.reads += 1; }
        if (op->kind == HISTORY_READ && op->is_final) { tally.final_reads += 1; }
        if (op->kind == HISTORY_END && op->is_final) { tally.ends += 1; }
    }
    return tally;
}

static int judge_one(const char *path, const struct history *history)
{
    static struct check_report report;
    report = (struct check_report){.count = 0};
    judge_history(history, &report);
    struct check_groups *groups = check_groups_create(&report, history);
    check_groups_told(groups);
    check_groups_destroy(groups);
    uint32_t told = report.count < CHECK_BREACHES_MAX ? report.count : CHECK_BREACHES_MAX;
    for (uint32_t i = 0; i < told; i++) {
        (void)printf("%s: %s: %s\n", path, report.breaches[i].id,
                     report.breaches[i].text); /* the exit code says it too */
    }
    struct tally tally = tally_of(history);
    (void)printf("%s: operations=%" PRIu32 " acknowledged=%" PRIu32 " reads=%" PRIu32 " final_reads=%" PRIu32
                 " ends=%" PRIu32 " broken=%" PRIu32 "\n",
                 path, history->op_count, tally.acknowledged, tally.reads, tally.final_reads, tally.ends, report.count);
    return report.count == 0 ? 0 : 1;
}

static int judge_path(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        (void)fprintf(stderr, "error: %s: %s\n", path, strerror(errno)); /* the exit code says it too */
        return 2;
    }
    struct history history = {.ops = NULL};
    uint32_t line = 0;
    int code;
    if (history_read(&history, file, &line) == BASE_OK && ferror(file) == 0) {
        code = judge_one(path, &history);
    } else {
        (void)fprintf(stderr, "error: %s:%" PRIu32 ": no line of a history (docs/formats/history.md)\n", path, line);
        code = 2;
    }
    history_free(&history);
    (void)fclose(file); /* read only */
    return code;
}

int judge_files(char *const *paths, int count)
{
    int worst = 0;
    for (int i = 0; i < count; i++) {
        int code = judge_path(paths[i]);
        if (code > worst) { worst = code; }
    }
    return worst;
}
