/* log.c: log lines on stderr: 2026-11-29T13:18:00.123Z INFO plog topic=orders partition=3: recovered 4 segments
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 8192

/* Of a process that keeps a log: whatever it says goes there. Set once, before there is a second thread. */
static const struct app_log *own_log;

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

/* The date of a day since 1970 (proleptic Gregorian; https://howardhinnant.github.io/date_algorithms.html, civil_from_days): gmtime_r
 * may not be called in a signal handler. */
static void add_date(struct base_text *line, int64_t day)
{
    int64_t from_march = day + 719468; /* since 0000-03-01 */
    int64_t era = from_march / 146097;
    int64_t of_era = from_march % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153; /* 0: March */
    bool is_next_year = month >= 10;
    base_text_add_u64_padded(line, (uint64_t)(era * 400 + year + (is_next_year ? 1 : 0)), 4);
    base_text_add(line, "-");
    base_text_add_u64_padded(line, (uint64_t)(is_next_year ? month - 9 : month + 3), 2);
    base_text_add(line, "-");
    base_text_add_u64_padded(line, (uint64_t)(of_year - (153 * month + 2) / 5 + 1), 2);
}

static void add_time(struct base_text *line, int64_t wall_ms)
{
    int64_t ms = wall_ms < 0 ? 0 : wall_ms; /* a clock that is set before 1970 is wrong anyway */
    add_date(line, ms / 86400000);
    base_text_add(line, "T");
    base_text_add_u64_padded(line, (uint64_t)(ms / 3600000 % 24), 2);
    base_text_add(line, ":");
    base_text_add_u64_padded(line, (uint64_t)(ms / 60000 % 60), 2);
    base_text_add(line, ":");
    base_text_add_u64_padded(line, (uint64_t)(ms / 1000 % 60), 2);
    base_text_add(line, ".");
    base_text_add_u64_padded(line, (uint64_t)(ms % 1000), 3);
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
    own_log = log;
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

/* A line as it is written, its end included; how many bytes it has. Calls nothing that a signal handler may not. */
static size_t compose(const struct app_log *log, const struct app_log_words *words, uint64_t left_out, uint64_t lost,
                      char bytes[LINE_BYTES])
{
    struct base_text line;
    struct base_slice text = words->text;
    base_text_init(&line, bytes, LINE_BYTES - 4); /* room for the end, however long the text is */
    if (log->settings != NULL && log->settings->log_format == SETTINGS_LOG_JSON) {
        base_text_add(&line, "{\"time\":\"");
        add_time(&line, words->wall_ms);
        base_text_add(&line, "\",\"level\":\"");
        base_text_add(&line, level_name(words->level));
        base_text_add(&line, "\",\"room\":\"");
        add_json_words(&line, words->room);
        base_text_add(&line, "\",\"shard\":");
        base_text_add_i64(&line, words->shard);
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
        base_text_init(&message, bytes + line.used_bytes, LINE_BYTES - 8 - line.used_bytes);
        add_json_words(&message, base_slice_of(text.at, base_min_size(text.size_bytes, 1200)));
        line = (struct base_text){.at = bytes,
                                  .size_bytes = LINE_BYTES,
                                  .used_bytes = line.used_bytes + message.used_bytes};
        base_text_add(&line, "\"}");
    } else {
        add_time(&line, words->wall_ms);
        base_text_add(&line, " ");
        base_text_add(&line, level_name(words->level));
        base_text_add(&line, " ");
        base_text_add_slice(&line, words->room);
        base_text_add(&line, " ");
        add_plain_words(&line, base_slice_of(text.at, base_min_size(text.size_bytes, LINE_BYTES - 256)));
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
    return line.used_bytes + 1;
}

static void write_line(const struct app_log *log, const struct app_log_words *words, uint64_t left_out)
{
    char bytes[LINE_BYTES];
    uint64_t lost = atomic_exchange(&lost_count, 0);
    say(bytes, compose(log, words, left_out, lost, bytes), lost);
}

/* What was left out and is not told yet: of all kinds whose second is over, or of all. False: of none. */
static bool tell_left(const struct app_log *log, int64_t wall_ms)
{
    struct app_log_left left;
    while (app_log_left_next(wall_ms, &left)) { write_line(log, &left.words, left.left_out); }
    return left.is_more;
}

/* A thread of its own, while there is something to tell. */
static void *tell_later(void *arg)
{
    struct timespec second = {.tv_sec = 1};
    do {
        (void)nanosleep(&second,
                        NULL); /* all signals are blocked here, and a moment too early is told a second later */
    } while (tell_left(arg, app_wall_ms()));
    return NULL;
}

/* Where there can be no thread, what was left out is told with the next line like it, or at the end. */
static void begin_to_tell(const struct app_log *log)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    if (pthread_attr_init(&attributes) != 0) { return; }
    (void)sigfillset(&all);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED); /* neither can fail with these */
    if (pthread_sigmask(SIG_SETMASK, &all, &before) == 0) { /* signals are the first thread's business */
        /* The const is cast away because a thread's argument has none. */
        int error = pthread_create(&thread, &attributes, tell_later, (void *)(uintptr_t)log);
        if (error != 0) { app_log_left_untold(); }
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* as it was */
    }
    (void)pthread_attr_destroy(&attributes); /* it has no more use */
}

void app_log_line(const struct app_log *log, uint32_t shard, int64_t wall_ms, enum port_level level,
                  struct base_slice room, struct base_slice text)
{
    if (level < least_level(log, room)) { return; }
    struct app_log_words words = {.shard = shard, .wall_ms = wall_ms, .level = level, .room = room, .text = text};
    struct app_log_left left = {0};
    enum app_log_may may = level == PORT_FATAL ? APP_LOG_MAY : app_log_may(&words, &left);
    if (left.words.room.size_bytes > 0) {
        write_line(log, &left.words, left.left_out);
        left.left_out = 0;
    }
    if (may == APP_LOG_MAY) { write_line(log, &words, left.left_out); }
    if (may == APP_LOG_FIRST_LEFT_OUT) { begin_to_tell(log); }
}

__attribute__((format(printf, 3, 0))) static void log_list(const struct app_log *log, enum port_level level,
                                                           const char *format, va_list list)
{
    char words[2048];
    (void)vsnprintf(words, sizeof words, format, list); /* cut is good enough */
    app_log_line(log, 0, app_wall_ms(), level, base_slice_text("app"), base_slice_text(words));
}

void app_log_own(const struct app_log *log, enum port_level level, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    log_list(log, level, format, list);
    va_end(list);
}

void app_log_end(const struct app_log *log)
{
    (void)tell_left(log, INT64_MAX); /* of all kinds, so that none is left */
}

bool app_log_fatal(const char *words)
{
    if (own_log == NULL) { return false; }
    app_log_line(own_log, 0, app_wall_ms(), PORT_FATAL, base_slice_text("app"), base_slice_text(words));
    return true;
}

bool app_log_now(enum port_level level, const char *words)
{
    struct base_slice room = base_slice_text("app");
    if (own_log == NULL) { return false; }
    if (level < least_level(own_log, room)) { return true; }
    struct app_log_words all = {.wall_ms = app_wall_ms(), .level = level, .room = room, .text = base_slice_text(words)};
    char bytes[LINE_BYTES];
    uint64_t lost = atomic_exchange(&lost_count, 0);
    size_t size_bytes = compose(own_log, &all, 0, lost, bytes);
    if (!app_say_now(bytes, size_bytes)) { atomic_fetch_add(&lost_count, lost + 1); }
    return true;
}
