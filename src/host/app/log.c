/* log.c: log lines on stderr: 2026-11-29T13:18:00.123Z INFO plog topic=orders partition=3: recovered 4 segments
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 8192

static const char *level_name(enum port_level level)
{
    switch (level) {
    case PORT_TRACE: return "TRACE";
    case PORT_DEBUG: return "DEBUG";
    case PORT_INFO: return "INFO";
    case PORT_WARN: return "WARN";
    case PORT_ERROR: return "ERROR";
    case PORT_FATAL: return "FATAL";
    }
    return "UNKNOWN";
}

int64_t app_wall_ms(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) { return 0; }
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void add_time(struct base_text *line, int64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm parts;
    char words[64];
    if (gmtime_r(&seconds, &parts) == NULL || strftime(words, sizeof words, "%Y-%m-%dT%H:%M:%S", &parts) == 0) {
        words[0] = '\0';
    }
    base_text_add(line, words);
    base_text_add(line, ".");
    base_text_add_u64_padded(line, (uint64_t)(wall_ms % 1000), 3);
    base_text_add(line, "Z");
}

/* Names of files and groups need not be UTF-8, but JSON does. */
static void add_json_words(struct base_text *line, struct base_slice words)
{
    while (words.size_bytes > 0) {
        uint8_t c = words.at[0];
        size_t rune_bytes = app_rune_bytes(words);
        if (c == '"' || c == '\\') { base_text_add(line, "\\"); }
        if (c < 0x20) {
            base_text_add(line, "\\u");
            base_text_add_hex(line, c, 4);
        } else if (rune_bytes == 0) {
            base_text_add(line, "\\ufffd");
        } else {
            base_text_add_slice(line, base_slice_of(words.at, rune_bytes));
        }
        size_t taken_bytes = rune_bytes == 0 ? 1 : rune_bytes;
        words.at += taken_bytes;
        words.size_bytes -= taken_bytes;
    }
}

/* A line feed inside a message would be a second line. */
static void add_plain_words(struct base_text *line, struct base_slice words)
{
    for (size_t i = 0; i < words.size_bytes; i++) {
        uint8_t c = words.at[i];
        base_text_add_slice(line, c < 0x20 ? base_slice_text(" ") : base_slice_of(&words.at[i], 1));
    }
}

void app_log_begin(struct app_log *log, const struct settings *settings)
{
    log->settings = settings;
    for (size_t i = 0; i < BROKER_LOGGERS; i++) { atomic_store(&log->levels[i], settings->broker.levels[i]); }
}

void app_log_level(struct app_log *log, struct base_slice room, uint32_t level)
{
    uint32_t logger = room.size_bytes == 0 ? 0 : broker_logger(room);
    CHECK(logger < BROKER_LOGGERS);
    atomic_store(&log->levels[logger], level == PORT_LEVEL_NONE ? -1 : (int)level);
}

static enum port_level least_level(const struct app_log *log, struct base_slice room)
{
    if (log->settings == NULL) { return PORT_INFO; }
    uint32_t logger = broker_logger(room);
    int own = logger < BROKER_LOGGERS ? atomic_load(&log->levels[logger]) : -1;
    return (enum port_level)(own >= 0 ? own : atomic_load(&log->levels[0]));
}

/* A pipe that takes bytes now takes PIPE_BUF of them at least. */
bool app_say_now(const void *bytes, size_t size_bytes)
{
    struct pollfd at = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&at, 1, 0) != 1 || (at.revents & POLLOUT) == 0) { return false; }
    return write(STDERR_FILENO, bytes, size_bytes) == (ssize_t)size_bytes;
}

static pthread_mutex_t say_lock =
    PTHREAD_MUTEX_INITIALIZER;      /* what one was told that there is room for is not another's */
static _Atomic uint64_t lost_count; /* lines, since the last that was written */

/* A log that nobody reads stops nobody: then lines are lost. */
static void say(const void *bytes, size_t size_bytes, uint64_t lost)
{
    bool is_locked = pthread_mutex_lock(&say_lock) == 0;
    if (!app_say_now(bytes, size_bytes)) {
        atomic_fetch_add(&lost_count, lost + 1);
    } /* itself, and those it tells of */
    if (is_locked) { (void)pthread_mutex_unlock(&say_lock); } /* it is ours */
}

void app_log_line(const struct app_log *log, uint32_t shard, int64_t wall_ms, enum port_level level,
                  struct base_slice room, struct base_slice text)
{
    if (level < least_level(log, room)) { return; }
    uint64_t left_out = 0;
    if (level != PORT_FATAL && !app_log_may(room, text, wall_ms, &left_out)) { return; }
    char bytes[LINE_BYTES];
    struct base_text line;
    uint64_t lost = atomic_exchange(&lost_count, 0);
    base_text_init(&line, bytes, sizeof bytes - 4); /* room for the end, however long the text is */
    if (log->settings != NULL && log->settings->log_format == SETTINGS_LOG_JSON) {
        base_text_add(&line, "{\"time\":\"");
        add_time(&line, wall_ms);
        base_text_add(&line, "\",\"level\":\"");
        base_text_add(&line, level_name(level));
        base_text_add(&line, "\",\"room\":\"");
        add_json_words(&line, room);
        base_text_add(&line, "\",\"shard\":");
        base_text_add_i64(&line, shard);
        if (left_out > 0) {
            base_text_add(&line, ",\"left_out\":");
            base_text_add_i64(&line, (int64_t)left_out);
        }
        if (lost > 0) {
            base_text_add(&line, ",\"lost\":");
            base_text_add_i64(&line, (int64_t)lost);
        }
        base_text_add(&line, ",\"message\":\"");
        struct base_text message; /* cut by itself, so that the line stays JSON */
        base_text_init(&message, bytes + line.used_bytes, sizeof bytes - 8 - line.used_bytes);
        add_json_words(&message, base_slice_of(text.at, base_min_size(text.size_bytes, 1200)));
        line = (struct base_text){.at = bytes,
                                  .size_bytes = sizeof bytes,
                                  .used_bytes = line.used_bytes + message.used_bytes};
        base_text_add(&line, "\"}");
    } else {
        add_time(&line, wall_ms);
        base_text_add(&line, " ");
        base_text_add(&line, level_name(level));
        base_text_add(&line, " ");
        base_text_add_slice(&line, room);
        base_text_add(&line, " ");
        add_plain_words(&line, base_slice_of(text.at, base_min_size(text.size_bytes, sizeof bytes - 256)));
        if (left_out > 0) {
            base_text_add(&line, " (");
            base_text_add_i64(&line, (int64_t)left_out);
            base_text_add(&line, " more like it were left out)");
        }
        if (lost > 0) {
            base_text_add(&line, " (");
            base_text_add_i64(&line, (int64_t)lost);
            base_text_add(&line, " lines before it were lost: nobody read them)");
        }
    }
    bytes[line.used_bytes] = '\n';
    say(bytes, line.used_bytes + 1, lost);
}

void app_log_own(const struct app_log *log, enum port_level level, const char *format, ...)
{
    char words[2048];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(words, sizeof words, format, list); /* cut is good enough */
    va_end(list);
    app_log_line(log, 0, app_wall_ms(), level, base_slice_text("app"), base_slice_text(words));
}
