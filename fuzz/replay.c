/* replay.c: runs a fuzz target over files, without a fuzzer: the corpus as a test.
 *
 * Usage   PROGRAM FILE_OR_FOLDER...   Every file of the folders named, in the order of their names.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long replayed;

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    size_t room = 0;
    size_t size = 0;
    uint8_t *bytes = NULL;
    for (;;) {
        if (size == room) {
            room = room == 0 ? 4096 : room * 2;
            bytes = realloc(bytes, room);
            if (bytes == NULL) { abort(); }
        }
        size_t got = fread(bytes + size, 1, room - size, file);
        if (got == 0) { break; }
        size += got;
    }
    (void)fclose(file);                        /* it was only read */
    (void)LLVMFuzzerTestOneInput(bytes, size); /* its answer is for fuzzers */
    free(bytes);
    replayed += 1;
    return 0;
}

static int replay(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(status.st_mode)) { return replay_file(path); }
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    int failed = count < 0 ? 1 : 0;
    for (int i = 0; i < count; i++) {
        char name[4096];
        int length = snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && length > 0 && (size_t)length < sizeof name) { failed |= replay_file(name); }
        free(entries[i]);
    }
    if (count >= 0) { free(entries); }
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) { failed |= replay(argv[i]); }
    printf("%lu inputs replayed\n", replayed);
    if (replayed == 0) {
        fprintf(stderr, "nothing to replay\n");
        return 1;
    }
    return failed;
}
