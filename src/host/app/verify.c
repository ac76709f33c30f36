/* verify.c: 'weir log verify': reads a data directory that no broker uses, and names what is damaged in it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__verify.h"

#include "app__command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: weir log verify --data-dir DIR [--json]\n"
                            "\n"
                            "Reads the journal, its checkpoints, and all segments and indexes of a data directory that "
                            "no broker uses, and names what is\n"
                            "damaged: the file, the place in it, the partition and its offsets. Changes nothing.\n"
                            "\n"
                            "Exit codes: 0 nothing is damaged, 1 something is (or can't be read), 2 usage.\n";

void *verify_grow(void *at, uint32_t count, uint32_t *room, size_t item_bytes)
{
    if (count < *room) { return at; }
    *room = *room == 0 ? 16 : *room * 2;
    void *grown = realloc(at, *room * item_bytes);
    if (grown == NULL) {
        (void)app_error(NULL, "no memory");
        exit(APP_FAILED);
    }
    return grown;
}

uint8_t *verify_read(struct verify *verify, const char *file, size_t *size_bytes_out)
{
    char path[VERIFY_PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", verify->dir, file);
    if (length < 0 || (size_t)length >= sizeof path) {
        (void)app_error(NULL, "'%s/%s': the path is too long", verify->dir, file);
        verify->is_stopped = true;
        return NULL;
    }
    char *bytes = app_read_file(path, size_bytes_out);
    if (bytes == NULL && errno != ENOENT) {
        int error = errno;
        verify_damage(verify, &(struct verify_place){.file = file, .offset_first = -1, .offset_end = -1},
                      "can't be read: %s", strerror(error));
    }
    return (uint8_t *)bytes;
}

static void print_text(const struct verify_place *place, const char *what)
{
    printf("damage: %s at byte %" PRIu64, place->file, place->position_bytes);
    if (place->size_bytes > 0) { printf(" (%" PRIu64 " bytes)", place->size_bytes); }
    if (place->log != NULL) { printf(": %s-%" PRId32, place->log->name, place->log->id.index); }
    if (place->offset_first >= 0) {
        printf(" offsets %" PRId64 " to %" PRId64, place->offset_first, place->offset_end - 1);
    }
    printf(": %s\n", what);
}

static void print_json(const struct verify_place *place, const char *what)
{
    printf("{\"kind\":\"damage\",\"file\":");
    app_json_text(stdout, base_slice_text(place->file));
    printf(",\"position\":%" PRIu64 ",\"size\":%" PRIu64, place->position_bytes, place->size_bytes);
    if (place->log != NULL) {
        printf(",\"topic\":");
        app_json_text(stdout, base_slice_text(place->log->name));
        printf(",\"partition\":%" PRId32, place->log->id.index);
    }
    if (place->offset_first >= 0) {
        printf(",\"offset_first\":%" PRId64 ",\"offset_last\":%" PRId64, place->offset_first, place->offset_end - 1);
    }
    printf(",\"what\":");
    app_json_text(stdout, base_slice_text(what));
    printf("}\n");
}

void verify_damage(struct verify *verify, const struct verify_place *place, const char *format, ...)
{
    char what[512];
    va_list words;
    va_start(words, format);
    (void)vsnprintf(what, sizeof what, format, words); /* cut: it is for people */
    va_end(words);
    verify->damages += 1;
    if (verify->is_json) {
        print_json(place, what);
    } else {
        print_text(place, what);
    }
}

static int run(struct verify *verify)
{
    verify_journal(verify);
    uint64_t partitions = 0;
    for (uint32_t i = 0; i < verify->log_count && !verify->is_stopped; i++) {
        if (verify->logs[i].is_gone) { continue; }
        partitions += 1;
        verify_log_files(verify, &verify->logs[i]);
    }
    if (verify->is_stopped) { return APP_FAILED; }
    printf(verify->is_json ? "{\"kind\":\"summary\",\"partitions\":%" PRIu64 ",\"segments\":%" PRIu64
                             ",\"batches\":%" PRIu64 ",\"damages\":%" PRIu64 "}\n"
                           : "%" PRIu64 " partitions, %" PRIu64 " segments, %" PRIu64 " batches: %" PRIu64 " damages\n",
           partitions, verify->segments, verify->batches, verify->damages);
    return verify->damages == 0 ? APP_DONE : APP_FAILED;
}

static void free_all(struct verify *verify)
{
    for (uint32_t i = 0; i < verify->log_count; i++) {
        free(verify->logs[i].segments);
        free(verify->logs[i].runs);
        free(verify->logs[i].epochs);
    }
    free(verify->logs);
}

int app_log(struct app_args *args)
{
    const char *word = NULL;
    if (app_is_help(args->argc, args->argv)) {
        printf("%s", usage);
        return APP_DONE;
    }
    if (!app_take_word(args, &word) || strcmp(word, "verify") != 0) {
        return app_usage("log",
                         word == NULL ? "what is to be done? (verify)" : "there is no 'log %s'; there is: verify",
                         word);
    }
    struct verify verify = {.dir = NULL};
    while (args->at < args->argc && !args->is_bad) {
        if (app_take_option(args, "--data-dir", &verify.dir)) { continue; }
        if (app_take_flag(args, "--json")) {
            verify.is_json = true;
        } else {
            app_refuse(args);
        }
    }
    if (args->is_bad) { return APP_USAGE; }
    if (verify.dir == NULL || verify.dir[0] == '\0') { return app_usage("log", "--data-dir DIR is missing"); }
    int lock_fd = -1;
    int code = app_data_dir_lock(verify.dir, true, &lock_fd); /* for as long as this process lives */
    if (code != APP_DONE) { return code; }
    code = run(&verify);
    free_all(&verify);
    return code;
}
