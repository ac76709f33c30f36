/* produce.c: weir produce: each line of standard input is a record.
 *
 * A thread reads standard input and posts what it has read, whole lines, to the machine; it waits while CHUNKS_MAX of them have
 * not been taken, so that a slow broker slows the writer of the pipe.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__command.h"

#include "wire/kafka/kafka.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHUNKS_MAX     4
#define CHUNK_BYTES    ((size_t)256 << 10)
#define LINE_BYTES_MAX ((size_t)64 << 20)
#define ERRORS_SHOWN   10

static const char usage[] = "usage: weir produce TOPIC [OPTION]...\n"
                            "\n"
                            "Sends each line of standard input as a record.\n"
                            "\n"
                            "  --bootstrap HOST:PORT   a broker of the cluster (127.0.0.1:9092)\n"
                            "  --key-separator S       what is before the first S of a line is the key\n"
                            "  --header NAME=VALUE     a header of every record; may be given more than once\n"
                            "  --acks all|1|0          what is waited for (all)\n"
                            "  --compression C         none, gzip, snappy, lz4 or zstd (none)\n"
                            "  --partition P           instead of one chosen by the key\n"
                            "  --json                  the summary as JSON on standard output\n"
                            "\n"
                            "Count and rate go to standard error. Exits 1 if any record failed.\n";

enum message { MESSAGE_LINES = 1, MESSAGE_END, MESSAGE_FAILED, MESSAGE_TOO_LONG };

struct chunk {
    char *at;
    size_t size_bytes;
    size_t taken_bytes;
};
struct produce {
    struct app_command command;
    const char *topic;
    const char *separator;
    struct rec_header headers[CLIENT_HEADERS_MAX];
    uint32_t header_count;
    int64_t partition;
    sem_t room; /* chunks that the reader may still post */
    pthread_mutex_t lock;
    bool is_over; /* under the lock: the host is gone, and the reader is left to end with the process */
    struct chunk chunks[CHUNKS_MAX];
    uint32_t chunk_first;
    uint32_t chunk_count;
    bool is_at_end; /* of the input */
    bool is_told_to_stop;
    bool is_stopped;
    bool is_summed;
    uint64_t lines;
    uint64_t acked;
    uint64_t failed;
    uint64_t bytes;
    uint64_t began_ns;
};

/* ---- the reader ---- */

static void post(struct produce *own, enum message kind, char *at, size_t size_bytes)
{
    struct port_message message = {.kind = (uint32_t)kind, .lent = at, .lent_bytes = size_bytes};
    if (kind == MESSAGE_FAILED) { message.words[0] = (uint64_t)errno; }
    if (pthread_mutex_lock(&own->lock) != 0) { abort(); } /* it was made, and is no thread's twice */
    if (own->is_over) {
        free(at);
    } else {
        host_post(own->command.host, 0, &message);
    }
    (void)pthread_mutex_unlock(&own->lock); /* it is ours */
}

static void wait_for_room(struct produce *own)
{
    while (sem_wait(&own->room) != 0) { /* interrupted */
    }
}

/* Posts the whole lines at the front of `bytes`, all of it at the end (nothing new); what is left moves into a buffer of its own. The
 * last `new_bytes` alone may have line feeds. */
static char *post_lines(struct produce *own, char *bytes, size_t new_bytes, size_t *used_bytes, size_t *room_bytes)
{
    size_t lines_bytes = *used_bytes;
    if (new_bytes > 0) {
        const char *feed = memrchr(bytes + *used_bytes - new_bytes, '\n', new_bytes);
        lines_bytes = feed == NULL ? 0 : (size_t)(feed - bytes) + 1;
    }
    if (lines_bytes == 0) { return bytes; }
    size_t rest_bytes = *used_bytes - lines_bytes;
    *room_bytes = rest_bytes + CHUNK_BYTES;
    char *next = malloc(*room_bytes);
    if (next == NULL) { return NULL; }
    memcpy(next, bytes + lines_bytes, rest_bytes);
    *used_bytes = rest_bytes;
    wait_for_room(own);
    post(own, MESSAGE_LINES, bytes, lines_bytes);
    return next;
}

static void *read_input(void *context)
{
    struct produce *own = context;
    size_t room_bytes = CHUNK_BYTES;
    size_t used_bytes = 0;
    char *bytes = malloc(room_bytes);
    while (bytes != NULL) {
        if (used_bytes == room_bytes) {
            if (room_bytes >= LINE_BYTES_MAX) {
                free(bytes);
                post(own, MESSAGE_TOO_LONG, NULL, 0);
                return NULL;
            }
            room_bytes *= 2;
            char *larger = realloc(bytes, room_bytes);
            if (larger == NULL) { break; }
            bytes = larger;
        }
        ssize_t got = read(STDIN_FILENO, bytes + used_bytes, room_bytes - used_bytes);
        if (got < 0 && errno == EINTR) { continue; }
        if (got < 0) { break; }
        used_bytes += (size_t)got;
        bytes = post_lines(own, bytes, (size_t)got, &used_bytes, &room_bytes);
        if (got > 0) { continue; }
        free(bytes);
        post(own, MESSAGE_END, NULL, 0);
        return NULL;
    }
    free(bytes);
    post(own, MESSAGE_FAILED, NULL, 0);
    return NULL;
}

/* ---- the machine ---- */

static void drop_chunk(struct produce *own)
{
    free(own->chunks[own->chunk_first].at);
    own->chunk_first = (own->chunk_first + 1) % CHUNKS_MAX;
    own->chunk_count -= 1;
    (void)sem_post(&own->room); /* can't overflow: the reader took one before */
}

static void on_message(struct app_command *command, const struct port_message *message)
{
    struct produce *own = command->own;
    switch ((enum message)message->kind) {
    case MESSAGE_LINES: {
        if (own->is_told_to_stop) { /* an input without end must not keep us */
            free(message->lent);
            return;
        }
        CHECK(own->chunk_count < CHUNKS_MAX); /* the semaphore counts them */
        struct chunk *chunk = &own->chunks[(own->chunk_first + own->chunk_count) % CHUNKS_MAX];
        *chunk = (struct chunk){.at = message->lent, .size_bytes = (size_t)message->lent_bytes};
        own->chunk_count += 1;
        return;
    }
    case MESSAGE_END: break;
    case MESSAGE_FAILED: command->code = app_error(NULL, "standard input: %s", strerror((int)message->words[0])); break;
    case MESSAGE_TOO_LONG:
        command->code = app_error("MESSAGE_TOO_LARGE", "a line is longer than %zu bytes", LINE_BYTES_MAX);
        break;
    }
    own->is_at_end = true;
}

static void note_failure(struct app_command *command, uint64_t line, const char *name, const char *words)
{
    struct produce *own = command->own;
    own->failed += 1;
    command->code = APP_FAILED;
    if (own->failed <= ERRORS_SHOWN) { (void)app_error(name, "line %llu: %s", (unsigned long long)line, words); }
    if (own->failed == ERRORS_SHOWN + 1) { fprintf(stderr, "error: more failed records are only counted\n"); }
}

/* False: no room now; the line stays. */
static bool send_line(struct app_command *command, struct base_slice line)
{
    struct produce *own = command->own;
    struct client_record record = {.token = own->lines + 1,
                                   .topic = base_slice_text(own->topic),
                                   .partition = (int32_t)own->partition,
                                   .timestamp_ms = command->wall_ms,
                                   .key = rec_null(),
                                   .value = rec_value_of(line),
                                   .headers = own->headers,
                                   .header_count = own->header_count};
    if (own->separator != NULL) {
        size_t separator_bytes = strlen(own->separator);
        const uint8_t *at =
            line.size_bytes == 0 ? NULL : memmem(line.at, line.size_bytes, own->separator, separator_bytes);
        if (at == NULL) {
            own->lines += 1;
            note_failure(command, own->lines, NULL, "has no key separator");
            own->is_stopped = true; /* whatever it means, the rest means it too */
            return true;
        }
        size_t key_bytes = (size_t)(at - line.at);
        record.key = rec_value_of(base_slice_of(line.at, key_bytes));
        record.value = rec_value_of(base_slice_of(at + separator_bytes, line.size_bytes - key_bytes - separator_bytes));
    }
    enum base_rc rc = client_produce(command->client, &record);
    if (rc == BASE_FULL) { return false; }
    own->lines += 1;
    own->bytes += line.size_bytes;
    if (rc == BASE_BAD) {
        note_failure(command, own->lines, "MESSAGE_TOO_LARGE", "is too large, or the topic's name is bad");
    }
    return true;
}

static void summary(struct app_command *command)
{
    struct produce *own = command->own;
    own->is_summed = true;
    uint64_t unknown = own->lines - own->acked - own->failed; /* nobody has answered */
    uint64_t took_ns = command->now_ns - own->began_ns;
    double seconds = (double)(took_ns == 0 ? 1 : took_ns) / 1e9;
    if (command->is_json) {
        printf("{\"records\":%llu,\"failed\":%llu,\"unknown\":%llu,\"bytes\":%llu,\"seconds\":%.3f}\n",
               (unsigned long long)own->acked, (unsigned long long)own->failed, (unsigned long long)unknown,
               (unsigned long long)own->bytes, seconds);
    }
    if (unknown > 0) {
        fprintf(stderr, "%llu records may or may not have been written\n", (unsigned long long)unknown);
    }
    fprintf(stderr, "%llu records produced, %llu failed, %.3f s, %.0f records/s, %.2f MB/s\n",
            (unsigned long long)own->acked, (unsigned long long)own->failed, seconds, (double)own->acked / seconds,
            (double)own->bytes / seconds / 1e6);
}

static void after(struct app_command *command)
{
    struct produce *own = command->own;
    while (own->chunk_count > 0 && !own->is_stopped) {
        struct chunk *chunk = &own->chunks[own->chunk_first];
        if (chunk->taken_bytes == chunk->size_bytes) {
            drop_chunk(own);
            continue;
        }
        const char *at = chunk->at + chunk->taken_bytes;
        size_t left_bytes = chunk->size_bytes - chunk->taken_bytes;
        const char *feed = memchr(at, '\n', left_bytes);
        size_t line_bytes = feed == NULL ? left_bytes : (size_t)(feed - at);
        if (!send_line(command, base_slice_of(at, line_bytes))) { return; }
        chunk->taken_bytes += feed == NULL ? line_bytes : line_bytes + 1;
    }
    if (!own->is_at_end && !own->is_stopped) { return; }
    client_flush(command->client);
    if (client_records(command->client) > 0) { return; }
    summary(command);
    app_finish(command, command->code);
}

static void on_result(struct app_command *command, const struct client_result *result)
{
    struct produce *own = command->own;
    if (result->kind != CLIENT_PRODUCED) { return; }
    if (result->outcome == CLIENT_ACKED) {
        own->acked += 1;
        return;
    }
    const char *words = result->outcome == CLIENT_UNKNOWN ? "may or may not have been written"
                        : result->error == KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION
                            ? "there is no such topic or partition"
                            : "was refused";
    note_failure(command, result->token, kafka_error_name(result->error), words);
}

/* What has been read is still sent. */
static void stop(struct app_command *command)
{
    struct produce *own = command->own;
    own->is_at_end = true;
    own->is_told_to_stop = true;
}

static void end(struct app_command *command)
{
    struct produce *own = command->own;
    if (pthread_mutex_lock(&own->lock) != 0) { abort(); } /* as above */
    own->is_over = true;
    (void)pthread_mutex_unlock(&own->lock); /* it is ours */
}

static void begin(struct app_command *command)
{
    struct produce *own = command->own;
    pthread_t thread;
    own->began_ns = command->now_ns;
    if (pthread_create(&thread, NULL, read_input, own) != 0) {
        app_finish(command, app_error(NULL, "no thread"));
        return;
    }
    (void)pthread_detach(thread); /* it ends with the input, or with the process */
}

static const struct app_command_parts parts = {
    .begin = begin, .message = on_message, .result = on_result, .after = after, .stop = stop, .end = end};

/* ---- arguments ---- */

static bool take_header(struct produce *own, const char *words)
{
    const char *equals = strchr(words, '=');
    if (equals == NULL || equals == words || own->header_count == CLIENT_HEADERS_MAX) {
        (void)app_usage("produce", "--header is '%s': should be NAME=VALUE, %d at most", words,
                        CLIENT_HEADERS_MAX); /* as above */
        return false;
    }
    own->headers[own->header_count] = (struct rec_header){.key = base_slice_of(words, (size_t)(equals - words)),
                                                          .value = rec_value_of(base_slice_text(equals + 1))};
    own->header_count += 1;
    return true;
}

static int read_arguments(struct app_args *args, struct produce *own)
{
    const char *value = NULL;
    bool is_good = true;
    while (args->at < args->argc && !args->is_bad && is_good) {
        if (app_take_common(args, &own->command)) { continue; }
        if (app_take_option(args, "--key-separator", &value)) {
            own->separator = value;
            is_good = value[0] != '\0';
            if (!is_good) { (void)app_usage("produce", "--key-separator is empty"); } /* as above */
        } else if (app_take_option(args, "--header", &value)) {
            is_good = take_header(own, value);
        } else if (app_take_option(args, "--acks", &value)) {
            is_good = app_acks("produce", value, &own->command.config);
        } else if (app_take_option(args, "--compression", &value)) {
            is_good = app_compression("produce", value, &own->command.config);
        } else if (app_take_option(args, "--partition", &value)) {
            is_good = app_number("produce", "--partition", value, 0, INT32_MAX, &own->partition);
        } else if (own->topic == NULL && app_take_word(args, &value)) {
            own->topic = value;
        } else {
            app_refuse(args);
        }
    }
    return args->is_bad || !is_good ? APP_USAGE : APP_DONE;
}

int app_produce(struct app_args *args)
{
    if (app_is_help(args->argc, args->argv)) {
        printf("%s", usage);
        return APP_DONE;
    }
    struct produce *own = app_keep(sizeof *own); /* the reader may use it until the end */
    if (own == NULL || sem_init(&own->room, 0, CHUNKS_MAX) != 0 || pthread_mutex_init(&own->lock, NULL) != 0) {
        return app_error(NULL, "no memory");
    }
    own->partition = -1;
    app_command_init(&own->command, "produce", &parts, own);
    own->command.config.is_auto_create = true;
    own->command.config.batch_bytes = 262144;
    own->command.config.record_bytes_max = 64U << 20; /* the broker's limit decides */
    own->command.config.records_max = 1U << 18;
    own->command.config.delivery_timeout_ms = 60000;
    int code = read_arguments(args, own);
    if (code != APP_DONE) { return code; }
    if (own->topic == NULL) { return app_usage("produce", "which topic?"); }
    if (own->topic[0] == '\0' || strlen(own->topic) > CLIENT_TOPIC_NAME_MAX) {
        return app_usage("produce", "the topic's name is empty or too long");
    }
    code = app_command_run(&own->command);
    if (!own->is_summed && own->lines > 0) {
        summary(&own->command);
    } /* the broker is gone: what was sent is told all the same */
    return code;
}
