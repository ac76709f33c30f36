/* command.c: runs a client machine for one command.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__command.h"

#include "wire/kafka/kafka.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REGION_BYTES      ((size_t)512 << 20) /* of address space: untouched memory of it costs nothing */
#define COMMANDS_MAX      2
#define BOOTSTRAP_DEFAULT "127.0.0.1:9092"
#define UNREADY_FIRST_NS  UINT64_C(3000000000)  /* a broker that is just starting is given so long */
#define UNREADY_LATER_NS  UINT64_C(15000000000) /* and one that was there before, so long to come back */

void app_command_init(struct app_command *command, const char *name, const struct app_command_parts *parts, void *own)
{
    *command = (struct app_command){.name = name, .parts = parts, .own = own, .bootstrap = BOOTSTRAP_DEFAULT};
    client_config_default(&command->config);
    app_random(&command->config.seed, sizeof command->config.seed);
}

bool app_take_common(struct app_args *args, struct app_command *command)
{
    if (app_take_option(args, "--bootstrap", &command->bootstrap)) { return true; }
    if (!app_take_flag(args, "--json")) { return false; }
    command->is_json = true;
    return true;
}

bool app_number(const char *command, const char *option, const char *words, int64_t min, int64_t max,
                int64_t *value_out)
{
    int64_t value = 0;
    if (base_text_parse_i64(base_slice_text(words), &value) == BASE_OK && value >= min && value <= max) {
        *value_out = value;
        return true;
    }
    (void)app_usage(command, "%s is '%s': should be a whole number from %lld to %lld", option, words, (long long)min,
                    (long long)max); /* the caller has its code */
    return false;
}

/* HOST:PORT[,HOST:PORT]...; [::1]:9092. The words are borrowed. */
static bool read_bootstrap(struct app_command *command)
{
    struct base_slice rest = base_slice_text(command->bootstrap);
    while (rest.size_bytes > 0 && command->config.bootstrap_count < CLIENT_BOOTSTRAP_MAX) {
        struct client_endpoint *endpoint = &command->config.bootstrap[command->config.bootstrap_count];
        if (!app_read_endpoint(base_slice_take_item(&rest), &endpoint->host, &endpoint->port)) { return false; }
        command->config.bootstrap_count += 1;
    }
    return rest.size_bytes == 0 && command->config.bootstrap_count > 0;
}

void app_finish(struct app_command *command, int code)
{
    if (command->code == APP_DONE) { command->code = code; }
    command->is_finished = true;
}

int app_kafka_error(int16_t code, struct base_slice message, const char *format, ...)
{
    char words[1024];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(words, sizeof words, format, list); /* cut is good enough */
    va_end(list);
    if (message.size_bytes == 0) { return app_error(kafka_error_name(code), "%s", words); }
    return app_error(kafka_error_name(code), "%s: %.*s", words, (int)message.size_bytes, (const char *)message.at);
}

static const char *rc_words(enum port_rc rc)
{
    switch (rc) {
    case PORT_REFUSED: return "connection refused";
    case PORT_RESET: return "connection lost";
    case PORT_CLOSED: return "connection closed";
    case PORT_UNREACHABLE: return "no route, or no such name";
    case PORT_TIMED_OUT: return "no answer in time";
    case PORT_NO_MEMORY: return "no memory for the answer";
    case PORT_OK:
    case PORT_EOF:
    case PORT_IN_USE:
    case PORT_IO:
    case PORT_NO_SPACE:
    case PORT_NO_HANDLES:
    case PORT_EXISTS:
    case PORT_MISSING:
    case PORT_NOT_DIR:
    case PORT_NOT_EMPTY:
    case PORT_DENIED:
    case PORT_BAD_NAME:
    case PORT_OTHER:
    case PORT_RC_COUNT: break;
    }
    return port_rc_name(rc);
}

bool app_result_failed(struct app_command *command, const struct client_result *result, const char *what)
{
    if (result->answer != NULL) { return false; }
    const char *tail = result->is_indefinite ? "; it may have been carried out" : "";
    if (result->error != KAFKA_ERROR_NONE) {
        const char *why =
            result->error == KAFKA_ERROR_UNSUPPORTED_VERSION ? "the broker does not know this request" : "refused";
        app_finish(command, app_error(kafka_error_name(result->error), "%s: %s%s", what, why, tail));
    } else {
        const char *name = result->rc == PORT_TIMED_OUT ? "REQUEST_TIMED_OUT" : "NETWORK_EXCEPTION";
        app_finish(command, app_error(name, "%s: %s%s", what, rc_words(result->rc), tail));
    }
    return true;
}

/* Gives up on a cluster of which nobody answers. */
static void watch_connection(struct app_command *command, struct port_out *out)
{
    struct client_view view;
    client_view(command->client, &view);
    if (view.nodes_ready > 0) {
        command->unready_since_ns = UINT64_MAX;
        return;
    }
    if (command->unready_since_ns == UINT64_MAX) { command->unready_since_ns = command->now_ns; }
    uint64_t patience_ns = view.was_ready ? UNREADY_LATER_NS : UNREADY_FIRST_NS;
    uint64_t deadline_ns = base_deadline_ns(command->unready_since_ns, patience_ns);
    if (command->now_ns < deadline_ns || view.connects_failed == 0) {
        port_alarm(out, command->now_ns < deadline_ns ? deadline_ns : command->now_ns + UNREADY_FIRST_NS);
        return;
    }
    app_finish(command, app_error("BROKER_NOT_AVAILABLE", "%s can't be reached: %s", command->bootstrap,
                                  rc_words(view.connect_rc)));
}

static void step(void *machine, const struct port_event *event, struct port_out *out)
{
    struct app_command *command = machine;
    const struct app_command_parts *parts = command->parts;
    command->now_ns = event->now_ns;
    command->alarm_ns = UINT64_MAX;
    command->wall_ms = event->wall_ms;
    client_step(command->client, event, out);
    if (event->kind == PORT_EVENT_START && parts->begin != NULL) { parts->begin(command); }
    if (event->kind == PORT_EVENT_MESSAGE && parts->message != NULL) { parts->message(command, &event->message); }
    if (event->kind == PORT_EVENT_STOP) {
        if (parts->stop != NULL) {
            parts->stop(command);
        } else if (!command->is_finished) {
            app_finish(command, app_error(NULL, "stopped by a signal before the broker had answered"));
        }
    }
    struct client_result result;
    while (client_poll(command->client, &result)) {
        if (!command->is_finished) { parts->result(command, &result); }
    }
    if (!command->is_finished && parts->after != NULL) { parts->after(command); }
    if (!command->is_finished) { watch_connection(command, out); }
    if (command->is_finished) { client_close(command->client); }
    client_turn(command->client, out);
    port_alarm(out, command->alarm_ns);
    if (command->is_finished && !command->is_closed && client_is_quiet(command->client)) {
        command->is_closed = true;
        (void)port_emit(out, PORT_STOPPED, 0); /* a note needs nothing more */
    }
}

static struct host *volatile signal_host;

static void on_signal(int number)
{
    int error = errno; /* of what it came between */
    enum app_wish wish = app_wish(number);
    if (wish == APP_WISH_STOP_AT_ONCE) { _exit(APP_FAILED); }
    if (wish == APP_WISH_STOP && signal_host != NULL) { host_stop(signal_host); }
    errno = error;
}

void app_stop_on_signals(struct host *host)
{
    signal_host = host;
    if (host != NULL) { app_on_signals(on_signal); }
}

bool app_acks(const char *command, const char *words, struct client_config *config)
{
    if (strcmp(words, "all") == 0 || strcmp(words, "-1") == 0) {
        config->acks = CLIENT_ACKS_ALL;
    } else if (strcmp(words, "1") == 0) {
        config->acks = CLIENT_ACKS_LEADER;
    } else if (strcmp(words, "0") == 0) {
        config->acks = CLIENT_ACKS_NONE;
    } else {
        (void)app_usage(command, "--acks is '%s': should be all, 1 or 0", words); /* the caller has its code */
        return false;
    }
    return true;
}

bool app_compression(const char *command, const char *words, struct client_config *config)
{
    static const char *const kinds[] = {"none", "gzip", "snappy", "lz4", "zstd"};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(kinds); i++) {
        if (strcmp(words, kinds[i]) != 0) { continue; }
        config->compression = (enum codec_kind)i;
        return true;
    }
    (void)app_usage(command, "--compression is '%s': should be none, gzip, snappy, lz4 or zstd", words); /* as above */
    return false;
}

static int make_client(struct app_command *command)
{
    struct base_region region;
    if (!read_bootstrap(command)) {
        return app_usage(command->name,
                         "--bootstrap is '%s': should be HOST:PORT, or up to %d of them with commas between",
                         command->bootstrap, CLIENT_BOOTSTRAP_MAX);
    }
    if (!app_region(REGION_BYTES, &region) || client_create(region, &command->config, &command->client) != BASE_OK) {
        return app_error(NULL, "no memory");
    }
    command->unready_since_ns = UINT64_MAX;
    return APP_DONE;
}

int app_commands_run(struct app_command *const *commands, uint32_t count)
{
    void *machines[COMMANDS_MAX];
    CHECK(count > 0 && count <= COMMANDS_MAX);
    struct host_config config = {
        .shards = count, .listeners_max = 1, .files_max = 1, .step = step, .machines = machines};
    for (uint32_t i = 0; i < count; i++) {
        int code = make_client(commands[i]);
        if (code != APP_DONE) { return code; }
        machines[i] = commands[i];
        config.conns_max = (uint32_t)base_max_u64(config.conns_max, commands[i]->config.nodes_max);
    }
    struct host *host;
    char why[HOST_WHY_BYTES];
    if (host_create(&config, &host, why) != PORT_OK) { return app_error(NULL, "%s", why); }
    for (uint32_t i = 0; i < count; i++) { commands[i]->host = host; }
    app_stop_on_signals(host);
    host_run(host);
    app_stop_on_signals(NULL);
    for (uint32_t i = 0; i < count; i++) {
        if (commands[i]->parts->end != NULL) { commands[i]->parts->end(commands[i]); }
    }
    host_destroy(host);
    for (uint32_t i = 0; i < count; i++) {
        if (commands[i]->code != APP_DONE) { return commands[i]->code; }
    }
    return APP_DONE;
}

int app_command_run(struct app_command *command) { return app_commands_run(&command, 1); }
