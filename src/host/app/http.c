/* http.c: GET /metrics, /health and /health/live on weir.http.listener, by GNU libmicrohttpd on a thread of its own.
 *
 * /health       200 once the node serves; 503 and why, in JSON, before that, while it stops, while a log directory is failed, and
 *               when a shard or the disk does not answer.
 * /health/live  200 as long as every shard answers, whatever it does.
 *
 * Memory        the library and the nine that it brings (gnutls above all) are loaded where there is a listener to serve, and not
 *               before: they are a third of what an idle node takes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__observe.h"

#include "host/uv/address.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTION_BYTES  ((size_t)8 << 10) /* of a request with its headers */
#define CONNECTION_IDLE_S 15

#define LIBRARY "libmicrohttpd.so.12" /* the one whose header this was built with; see the check below */
_Static_assert(MHD_VERSION >= 0x00097000 && MHD_VERSION < 0x02000000,
               "LIBRARY is its name, and enum MHD_Result what it answers, in these alone");

/* What is called of it, by the types of its header. */
struct library {
    __typeof__(MHD_start_daemon) *start_daemon;
    __typeof__(MHD_stop_daemon) *stop_daemon;
    __typeof__(MHD_create_response_from_buffer) *create_response;
    __typeof__(MHD_add_response_header) *add_header;
    __typeof__(MHD_queue_response) *queue_response;
    __typeof__(MHD_destroy_response) *destroy_response;
};

struct http {
    struct library library;
    struct observe *observe;
    struct MHD_Daemon *daemon;
    int listener;
    bool is_group_label;
};

static enum MHD_Result answer(const struct http *http, struct MHD_Connection *connection, unsigned status,
                              const char *type, char *body, size_t size_bytes)
{
    const struct library *library = &http->library;
    struct MHD_Response *response = library->create_response(size_bytes, body, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(body);
        return MHD_NO; /* closes the connection */
    }
    enum MHD_Result result = library->add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (result == MHD_YES && status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        result = library->add_header(response, MHD_HTTP_HEADER_ALLOW, "GET");
    }
    if (result == MHD_YES) { result = library->queue_response(connection, status, response); }
    library->destroy_response(response);
    return result;
}

static enum MHD_Result answer_words(const struct http *http, struct MHD_Connection *connection, unsigned status,
                                    const char *words)
{
    char *body = strdup(words);
    return body == NULL ? MHD_NO : answer(http, connection, status, "text/plain; charset=utf-8", body, strlen(body));
}

/* What keeps a node from serving. */
struct trouble {
    const char *reason; /* NULL: nothing does */
    const char *state;
    uint32_t shard;
    uint64_t silent_s; /* how long the disk has not answered; 0: it is not about that */
};

/* NULL: it serves. */
static const char *reason_of(enum broker_state state)
{
    switch (state) {
    case BROKER_BOOT:
    case BROKER_RECOVERING: return "starting: the journal is read";
    case BROKER_LOADING: return "starting: logs and metadata are loaded";
    case BROKER_SERVING: return NULL;
    case BROKER_DRAINING:
    case BROKER_CHECKPOINTING:
    case BROKER_CLOSING:
    case BROKER_STOPPED: return "stopping";
    }
    return "unknown";
}

static const char *state_of(const struct observe_snapshot *snapshot)
{
    return snapshot->is_there ? broker_state_name(snapshot->view.state) : "unknown";
}

/* What no restart mends, and what says more, comes first. */
static struct trouble trouble_of(const struct http *http, const struct observe_snapshot *snapshots, bool is_only_live)
{
    struct observe *observe = http->observe;
    struct trouble trouble = {.reason = NULL};
    if (observe_is_over(observe)) {
        const struct trouble end = {.reason = "stopping", .state = broker_state_name(BROKER_STOPPED)};
        return is_only_live ? trouble : end;
    }
    for (uint32_t i = observe->shard_count; i > 0; i--) { /* the first shard says most */
        const struct observe_snapshot *snapshot = &snapshots[i - 1];
        const char *reason = is_only_live ? NULL : reason_of(snapshot->view.state);
        if (!snapshot->is_there) { reason = "a shard does not answer"; }
        if (reason == NULL) { continue; }
        trouble = (struct trouble){.reason = reason, .state = state_of(snapshot), .shard = i - 1};
    }
    for (uint32_t i = 0; i < observe->shard_count && !is_only_live; i++) {
        if (!snapshots[i].view.is_disk_failed) { continue; }
        return (struct trouble){"the log directory has failed", state_of(&snapshots[i]), i, 0};
    }
    uint64_t silent_ms = host_disk_silent_ns(observe->host, 0) / 1000000;
    if (!is_only_live && silent_ms >= OBSERVE_DISK_MS) {
        return (struct trouble){"the disk does not answer", state_of(&snapshots[0]), 0, silent_ms / 1000};
    }
    return trouble;
}

static enum MHD_Result answer_health(const struct http *http, struct MHD_Connection *connection, bool is_only_live)
{
    struct observe_snapshot *snapshots = observe_take(http->observe, OBSERVE_VIEWS);
    if (snapshots == NULL) { return MHD_NO; }
    struct trouble trouble = trouble_of(http, snapshots, is_only_live);
    observe_free(http->observe, snapshots);
    char *body = NULL;
    size_t size_bytes = 0;
    FILE *file = open_memstream(&body, &size_bytes);
    if (file == NULL) { return MHD_NO; }
    if (trouble.reason == NULL) {
        fprintf(file, "{\"status\":\"%s\"}\n", is_only_live ? "live" : "ready");
    } else {
        fprintf(file, "{\"status\":\"unavailable\",\"reason\":\"%s", trouble.reason);
        if (trouble.silent_s > 0) { fprintf(file, ", for %" PRIu64 " s", trouble.silent_s); }
        fprintf(file, "\",\"shard\":%" PRIu32 ",\"state\":\"%s\"}\n", trouble.shard, trouble.state);
    }
    if (fclose(file) != 0) {
        free(body);
        return MHD_NO;
    }
    unsigned status = trouble.reason == NULL ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    return answer(http, connection, status, "application/json", body, size_bytes);
}

static enum MHD_Result answer_metrics(const struct http *http, struct MHD_Connection *connection)
{
    struct observe_snapshot *snapshots =
        observe_take(http->observe, http->is_group_label ? OBSERVE_GROUPS : OBSERVE_TABLES);
    if (snapshots == NULL) { return MHD_NO; }
    char *body = NULL;
    size_t size_bytes = 0;
    FILE *file = open_memstream(&body, &size_bytes);
    if (file != NULL) { metrics_print(file, http->observe, snapshots, http->is_group_label); }
    observe_free(http->observe, snapshots);
    if (file == NULL || fclose(file) != 0) {
        free(body);
        return MHD_NO;
    }
    return answer(http, connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", body, size_bytes);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes, void **state)
{
    const struct http *http = context;
    (void)version;
    (void)upload;
    if (*state == NULL) { /* the headers; the answer waits until the whole request is there */
        *state = context;
        return MHD_YES;
    }
    if (*upload_bytes > 0) { /* a body that nobody asked for */
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0) {
        return answer_words(http, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is served\n");
    }
    if (strcmp(url, "/metrics") == 0) { return answer_metrics(http, connection); }
    if (strcmp(url, "/health") == 0 || strcmp(url, "/health/ready") == 0) {
        return answer_health(http, connection, false);
    }
    if (strcmp(url, "/health/live") == 0) { return answer_health(http, connection, true); }
    return answer_words(http, connection, MHD_HTTP_NOT_FOUND, "there are /metrics, /health and /health/live\n");
}

/* -1: why is in errno. */
static int open_listener(struct port_address address)
{
    union host_address at;
    socklen_t at_bytes = host_address_to_system(address, &at);
    int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) { return -1; }
    int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 || bind(fd, &at.any, at_bytes) != 0 ||
        listen(fd, HTTP_CONNECTIONS_MAX) != 0) {
        int why = errno;
        (void)close(fd); /* it was never used */
        errno = why;
        return -1;
    }
    return fd;
}

static uint16_t port_of(int fd)
{
    union host_address at;
    socklen_t at_bytes = sizeof at;
    return getsockname(fd, &at.any, &at_bytes) == 0 ? host_address_from_system(&at.any).port : 0;
}

/* False: dlerror() says why. It stays loaded: its threads may outlast what we know of them. */
static bool load(struct library *library)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) { return false; }
    const struct {
        const char *name;
        void *place; /* of a pointer to a function: POSIX has dlsym give those as pointers to void */
    } wanted[] = {{"MHD_start_daemon", &library->start_daemon},
                  {"MHD_stop_daemon", &library->stop_daemon},
                  {"MHD_create_response_from_buffer", &library->create_response},
                  {"MHD_add_response_header", &library->add_header},
                  {"MHD_queue_response", &library->queue_response},
                  {"MHD_destroy_response", &library->destroy_response}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(wanted); i++) {
        void *found = dlsym(handle, wanted[i].name);
        if (found == NULL) { return false; }
        memcpy(wanted[i].place, &found, sizeof found);
    }
    return true;
}

/* Its threads take no signal: those are for the main one. */
static struct MHD_Daemon *start_daemon(struct http *http)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) { return NULL; }
    struct MHD_Daemon *daemon =
        http->library.start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC, 0, NULL, NULL,
                                   on_request, http, MHD_OPTION_LISTEN_SOCKET, http->listener,
                                   MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
                                   MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
                                   (unsigned)CONNECTION_IDLE_S, MHD_OPTION_END);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* worked a moment ago */
    return daemon;
}

int http_start(struct observe *observe, const struct settings *settings, const struct app_log *log,
               struct http **http_out)
{
    *http_out = NULL;
    struct base_slice words = settings->http_listener;
    if (words.size_bytes == 0) { return APP_DONE; }
    struct port_address address;
    char host[PORT_HOST_MAX + 1];
    memcpy(host, settings->http_host.at, settings->http_host.size_bytes);
    host[settings->http_host.size_bytes] = '\0';
    if (!app_resolve(host, &address)) { return app_error(NULL, "weir.http.listener: '%s' has no address", host); }
    address.port = settings->http_port;
    struct http *http = app_keep(sizeof *http);
    if (http == NULL) { return app_error(NULL, "no memory"); }
    *http = (struct http){.observe = observe, .is_group_label = settings->is_group_label};
    http->listener = open_listener(address);
    if (http->listener < 0) {
        int why = errno;
        if (settings->is_http_listener_set) {
            return app_error(NULL, "weir.http.listener %.*s: %s", (int)words.size_bytes, (const char *)words.at,
                             strerror(why));
        }
        app_log_own(log, PORT_WARN, "no /health and /metrics: %.*s: %s", (int)words.size_bytes, (const char *)words.at,
                    strerror(why));
        return APP_DONE;
    }
    uint16_t port = port_of(http->listener);
    if (!load(&http->library)) { return app_error(NULL, "weir.http.listener: %s", dlerror()); }
    http->daemon = start_daemon(http);
    if (http->daemon == NULL) { return app_error(NULL, "weir.http.listener: it can't be served"); }
    app_log_own(log, PORT_INFO, "/health and /metrics on http://%s%s%s:%u", strchr(host, ':') != NULL ? "[" : "", host,
                strchr(host, ':') != NULL ? "]" : "", (unsigned)port);
    *http_out = http;
    return APP_DONE;
}

void http_stop(struct http *http)
{
    if (http != NULL) { http->library.stop_daemon(http->daemon); }
}
