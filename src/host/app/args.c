/* args.c: the command line, and the errors that it prints.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <stdarg.h>
#include <string.h>

static const char *next_option(struct app_args *args)
{
    if (args->is_bad || args->is_plain || args->at >= args->argc) { return NULL; }
    const char *word = args->argv[args->at];
    return word[0] == '-' && word[1] != '\0' ? word : NULL;
}

bool app_take_option(struct app_args *args, const char *name, const char **value_out)
{
    const char *word = next_option(args);
    size_t name_bytes = strlen(name);
    if (word == NULL || strncmp(word, name, name_bytes) != 0) { return false; }
    if (word[name_bytes] == '=') {
        *value_out = word + name_bytes + 1;
        args->at += 1;
        return true;
    }
    if (word[name_bytes] != '\0') { return false; }
    if (args->at + 1 >= args->argc) {
        (void)app_usage(args->argv[1], "%s needs a value", name); /* is_bad says it */
        args->is_bad = true;
        return false;
    }
    *value_out = args->argv[args->at + 1];
    args->at += 2;
    return true;
}

bool app_take_flag(struct app_args *args, const char *name)
{
    const char *word = next_option(args);
    if (word == NULL || strcmp(word, name) != 0) { return false; }
    args->at += 1;
    return true;
}

bool app_take_word(struct app_args *args, const char **word_out)
{
    if (args->is_bad || args->at >= args->argc) { return false; }
    if (!args->is_plain && strcmp(args->argv[args->at], "--") == 0) {
        args->is_plain = true;
        args->at += 1;
        if (args->at >= args->argc) { return false; }
    }
    if (next_option(args) != NULL) { return false; }
    *word_out = args->argv[args->at];
    args->at += 1;
    return true;
}

void app_refuse(struct app_args *args)
{
    if (args->is_bad || args->at >= args->argc) { return; }
    (void)app_usage(args->argv[1], "unexpected '%s'", args->argv[args->at]); /* is_bad says it */
    args->is_bad = true;
}

bool app_read_endpoint(struct base_slice words, struct base_slice *host_out, uint16_t *port_out)
{
    return port_host_from_text(words, host_out, port_out) == BASE_OK && host_out->size_bytes > 0 && *port_out > 0;
}

bool app_is_help(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) { return false; }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) { return true; }
    }
    return false;
}

int app_error(const char *name, const char *format, ...)
{
    char words[2048];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(words, sizeof words, format, list); /* cut is good enough */
    va_end(list);
    if (app_log_fatal(words)) { return APP_FAILED; }
    (void)fflush(stdout); /* in order on a terminal */
    fprintf(stderr, "error: %s%s%s\n", name == NULL ? "" : name, name == NULL ? "" : ": ", words);
    return APP_FAILED;
}

int app_usage(const char *command, const char *format, ...)
{
    char words[2048];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(words, sizeof words, format, list); /* cut is good enough */
    va_end(list);
    if (app_log_fatal(words)) { return APP_USAGE; }
    fprintf(stderr, "error: %s; see weir %s%s--help\n", words, command, command[0] == '\0' ? "" : " ");
    return APP_USAGE;
}
