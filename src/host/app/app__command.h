/* app__command.h: what the commands that speak to a broker share: one client machine on one shard of host/uv.
 *
 * Room    host/app, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_APP_COMMAND_H
#define HOST_APP_COMMAND_H

#include "app__parts.h"

#include "client/client.h"
#include "host/uv/host.h"

#define APP_CALL_TIMEOUT_MS 30000

struct app_command;
/* What one command does in the step; each may be NULL. They set command->code and call app_finish when it is done. */
struct app_command_parts {
    void (*begin)(struct app_command *command);
    void (*message)(struct app_command *command, const struct port_message *message);
    void (*result)(struct app_command *command, const struct client_result *result);
    void (*after)(struct app_command *command); /* at the end of each step, before the client's turn */
    void (*stop)(struct app_command *command);  /* asked to stop; NULL: finished at once */
    void (*end)(struct app_command *command);   /* the host is about to go: no thread may post to it any more */
};
struct app_command {
    const char *name; /* for messages: "topic" */
    const struct app_command_parts *parts;
    void *own;                   /* the command's state */
    struct client_config config; /* to be changed between app_command_init and app_command_run */
    struct client *client;
    struct host *host;
    const char *bootstrap; /* HOST:PORT[,HOST:PORT]... */
    bool is_json;
    uint64_t now_ns;
    uint64_t alarm_ns; /* set by `after`: another step by then; UINT64_MAX at the begin of each step */
    int64_t wall_ms;
    uint64_t unready_since_ns;
    bool is_finished;
    bool is_closed;
    int code;
};

void app_command_init(struct app_command *command, const char *name, const struct app_command_parts *parts, void *own);
/* --bootstrap and --json. */
bool app_take_common(struct app_args *args, struct app_command *command);
/* Runs until the command has finished and every connection is closed; its exit code. */
int app_command_run(struct app_command *command);
/* The command has nothing left to do; the first code that is not APP_DONE stays. */
void app_finish(struct app_command *command, int code);
/* A result that is a failure of the whole request: says so. True: it was one. */
bool app_result_failed(struct app_command *command, const struct client_result *result, const char *what);
/* Kafka's name of an error code and its message, or a sentence of our own. */
int app_kafka_error(int16_t code, struct base_slice message, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Runs several, each with a client and a thread of its own; the bootstrap words are those of each. The first code that is not APP_DONE. */
int app_commands_run(struct app_command *const *commands, uint32_t count);

/* What --acks and --compression say. False: an error has been printed. */
MUST_USE
bool app_acks(const char *command, const char *words, struct client_config *config);
MUST_USE
bool app_compression(const char *command, const char *words, struct client_config *config);

/* ---- JSON (json.c) ---- */

void app_json_text(FILE *file, struct base_slice words); /* quoted; bytes that are no UTF-8 must not come here */
bool app_is_utf8(struct base_slice words);
/* What a stranger chose, for people and line by line: control characters as \xHH. The same words where there are none, else kept. */
const char *app_shown(const char *words);
/* "name":"text", or "name_base64":"...", or "name":null */
void app_json_value(FILE *file, const char *name, struct rec_value value);

/* Milliseconds since 1970, or an ISO time (2026-11-29T13:18:00Z); time.c. */
MUST_USE
bool app_read_time(const char *words, int64_t *ms_out);
/* An integer from min to max; an error otherwise. */
MUST_USE
bool app_number(const char *command, const char *option, const char *words, int64_t min, int64_t max,
                int64_t *value_out);

#endif
