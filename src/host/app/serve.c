/* serve.c: weir serve: configuration, data directory, memory, signals; then the broker on host/uv until it has stopped.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include "app__observe.h"
#include "broker/broker.h"
#include "host/uv/host.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SETTINGS_BYTES   ((size_t)4 << 20)
#define WARNINGS_BYTES   65536
#define PATIENCE_S       10 /* beyond weir.shutdown.timeout.ms */
#define FDS_RESERVED     64 /* of the process: loops, disks, lock, standard streams */
#define FDS_OF_SHARD     16
#define PARTITIONS_FEW   64
#define SHARD_BYTES      ((uint64_t)48 << 20) /* what one can live on with all that the defaults allow it */
#define CONNECTIONS_MANY 16384                /* of a shard, unless max.connections asks for more: tables cost memory */

static const char usage[] =
    "usage: weir serve [--config FILE] [--set NAME=VALUE]... [--data-dir DIR]\n"
    "\n"
    "Runs a broker on 127.0.0.1:9092 with its data in ./weir-data, unless told otherwise.\n"
    "\n"
    "  --config FILE      Kafka's property names in Java's properties syntax\n"
    "  --set NAME=VALUE   one property, over those of the file\n"
    "  --data-dir DIR     the same as --set log.dirs=DIR\n"
    "\n"
    "Prints one line that begins with 'ready' once it accepts connections; its log goes to standard error.\n"
    "SIGTERM, SIGINT and SIGHUP stop it cleanly; a second one stops it at once, with exit code 1.\n";

struct serve {
    struct settings settings;
    struct app_log log;
    struct app_data_dir data_dir;
    struct host *host;
    struct observe observe; /* its shards, with their brokers */
    void **machines;        /* the same, as the host takes them */
    uint32_t shards;
    uint64_t memory_bytes;    /* of the node ... */
    uint64_t connections_max; /* ... and these, too */
    int64_t begun_ms;
    _Atomic uint32_t ready_count;
    _Atomic bool is_ready; /* every shard */
};

/* A signal handler reaches nothing else. */
static struct host *volatile signal_host;
static volatile sig_atomic_t is_stop_wished;
static unsigned signal_patience_s; /* set before the handler is */

/* The broker bounds its own stop. Should that fail, the process ends all the same, and says so. */
static void on_alarm(int number)
{
    (void)number;
    (void)app_log_now(PORT_FATAL, "the broker did not stop in time; the next start recovers"); /* there is a log */
    _exit(APP_FAILED);
}

static void on_signal(int number)
{
    int error = errno; /* of what it came between */
    enum app_wish wish = app_wish(number);
    if (wish == APP_WISH_STOP_AT_ONCE) {
        (void)app_log_now(PORT_ERROR, "stopped at once by a second signal: what was in flight is not answered");
        _exit(APP_FAILED);
    }
    if (wish == APP_WISH_STOP) {
        (void)app_log_now(PORT_INFO, number == SIGTERM  ? "SIGTERM has come: stopping"
                                     : number == SIGINT ? "SIGINT has come: stopping"
                                                        : "SIGHUP has come: stopping");
        is_stop_wished = 1;
        (void)alarm(signal_patience_s); /* there was none before */
        if (signal_host != NULL) { host_stop(signal_host); }
    }
    errno = error;
}

static void watch_signals(struct host *host, uint64_t shutdown_ms)
{
    signal_host = host;
    signal_patience_s = (unsigned)base_min_u64(shutdown_ms / 1000, 86400) + PATIENCE_S;
    struct sigaction late = {.sa_handler = on_alarm};
    sigemptyset(&late.sa_mask);
    (void)sigaction(SIGALRM, &late, NULL); /* can't fail with this number */
    app_on_signals(on_signal);
}

/* ---- configuration ---- */

static int gather(struct app_args *args, struct base_arena *arena, struct settings_list *list, const char **file_out)
{
    char why_words[1024];
    struct base_text why;
    base_text_init(&why, why_words, sizeof why_words);
    const char *value = NULL;
    while (args->at < args->argc && !args->is_bad) {
        enum base_rc rc = BASE_OK;
        if (app_take_option(args, "--config", &value)) {
            if (*file_out != NULL) { return app_usage("serve", "--config is given twice"); }
            *file_out = value;
        } else if (app_take_option(args, "--set", &value)) {
            rc = settings_add_assignment(list, base_slice_text(value), &why);
        } else if (app_take_option(args, "--data-dir", &value)) {
            if (value[0] == '\0') { return app_usage("serve", "--data-dir is empty: it should name a directory"); }
            rc =
                settings_add(list, SETTINGS_COMMAND_LINE, 0, base_slice_text("log.dirs"), base_slice_text(value), &why);
        } else {
            app_refuse(args);
        }
        if (rc != BASE_OK) { return app_usage("serve", "%s", why_words); }
    }
    if (args->is_bad) { return APP_USAGE; }
    if (*file_out == NULL) { return APP_DONE; }
    size_t size_bytes = 0;
    char *words = app_read_input(*file_out, SETTINGS_BYTES, &size_bytes); /* settings_read copies it */
    if (words == NULL) { return app_usage("serve", "configuration file '%s': %s", *file_out, strerror(errno)); }
    if (settings_read(list, arena, base_slice_of(words, size_bytes), &why) != BASE_OK) {
        free(words);
        return app_usage("serve", "configuration file '%s': %s", *file_out, why_words);
    }
    free(words);
    return APP_DONE;
}

static void log_warnings(const struct app_log *log, char *warnings)
{
    char *rest = NULL;
    for (char *line = strtok_r(warnings, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        app_log_own(log, PORT_WARN, "%s", line);
    }
}

/* The settings of the process; texts in them live as long as it. */
static int configure(struct app_args *args, struct serve *serve, const char **file_out)
{
    void *memory = app_keep(SETTINGS_BYTES);
    char *warning_words = app_keep(WARNINGS_BYTES);
    if (memory == NULL || warning_words == NULL) { return app_error(NULL, "no memory"); }
    struct base_arena arena;
    struct settings_list list;
    base_arena_init(&arena, memory, SETTINGS_BYTES);
    if (settings_list_create(&arena, &list) != BASE_OK) { return app_error(NULL, "no memory"); }
    int code = gather(args, &arena, &list, file_out);
    if (code != APP_DONE) { return code; }
    char why_words[1024];
    struct base_text why;
    struct base_text warnings;
    base_text_init(&why, why_words, sizeof why_words);
    base_text_init(&warnings, warning_words, WARNINGS_BYTES);
    if (settings_apply(&list, &serve->settings, &why, &warnings) != BASE_OK) {
        if (*file_out == NULL) { return app_usage("serve", "%s", why_words); }
        return app_usage("serve", "configuration (%s): %s", *file_out, why_words);
    }
    app_log_begin(&serve->log, &serve->settings);
    log_warnings(&serve->log, warning_words);
    return APP_DONE;
}

static bool has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) { return false; }
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    bool is_there = bind(fd, (const struct sockaddr *)&any, sizeof any) == 0;
    (void)close(fd); /* was only a question */
    return is_there;
}

static void copy_words(char *at, size_t size_bytes, struct base_slice words)
{
    struct base_text text;
    base_text_init(&text, at, size_bytes);
    base_text_add_slice(&text, words); /* settings has checked the lengths */
}

static int resolve_listener(const struct settings_listener *from, struct broker_listener *to)
{
    char host[256];
    *to = (struct broker_listener){.port_advertised = from->port_advertised};
    copy_words(to->name, sizeof to->name, from->name);
    copy_words(host, sizeof host, from->host);
    bool is_any = host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    if (host[0] == '\0') { copy_words(host, sizeof host, base_slice_text(has_ipv6() ? "::" : "0.0.0.0")); }
    if (!app_resolve(host, &to->address)) {
        return app_usage("serve", "listeners: the host '%s' has no address", host);
    }
    to->address.port = from->port;
    if (from->host_advertised.size_bytes > 0) {
        copy_words(to->host, sizeof to->host, from->host_advertised);
    } else if (!is_any) {
        copy_words(to->host, sizeof to->host, base_slice_text(host));
    } else if (gethostname(to->host, sizeof to->host) != 0) {
        copy_words(to->host, sizeof to->host, base_slice_text("localhost"));
    }
    return APP_DONE;
}

/* ---- budgets ---- */

/* One a core, unless told otherwise; fewer where the memory is not enough for so many. */
static uint32_t shards_of(const struct serve *serve)
{
    if (serve->settings.shards != 0) { return serve->settings.shards; }
    uint64_t cores = base_min_u64(app_cores(), BROKER_SHARDS_MAX);
    uint64_t shards = base_max_u64(base_min_u64(cores, serve->memory_bytes / SHARD_BYTES), 1);
    if (shards < cores) {
        app_log_own(&serve->log, PORT_INFO,
                    "%u shards, for %llu bytes of memory are too few for one on each of %u cores", (unsigned)shards,
                    (unsigned long long)serve->memory_bytes, (unsigned)cores);
    }
    return (uint32_t)shards;
}

/* Shares descriptors between files and connections, and the rest between the shards. */
static int share_out(struct serve *serve)
{
    struct settings *settings = &serve->settings;
    struct broker_config *config = &settings->broker;
    serve->memory_bytes = settings->memory_max_bytes != 0 ? settings->memory_max_bytes : app_memory_bytes() / 2;
    serve->shards = shards_of(serve);
    uint64_t fds = app_raise_descriptors();
    uint64_t reserved = FDS_RESERVED + (uint64_t)FDS_OF_SHARD * serve->shards;
    if (settings->http_listener.size_bytes > 0) { reserved += HTTP_CONNECTIONS_MAX; }
    if (fds < reserved + (uint64_t)serve->shards * 32) {
        return app_error(NULL, "%llu descriptors are too few for %u shards (ulimit -n)", (unsigned long long)fds,
                         (unsigned)serve->shards);
    }
    uint64_t room = fds - reserved;
    uint64_t files = base_min_u64(settings->files_max, room / 2);
    uint64_t connections = base_min_u64(settings->connections_max, room - files);
    if (settings->connections_max == INT32_MAX) {
        connections = base_min_u64(connections, (uint64_t)CONNECTIONS_MANY * serve->shards);
    }
    if (files < settings->files_max) {
        app_log_own(&serve->log, PORT_WARN, "weir.files.max is %u, but %llu descriptors allow %llu",
                    (unsigned)settings->files_max, (unsigned long long)fds, (unsigned long long)files);
    }
    if (connections < serve->shards) {
        return app_usage("serve",
                         "max.connections is %u, but each of %u shards needs one: raise it, or lower weir.shards",
                         (unsigned)connections, (unsigned)serve->shards);
    }
    config->shards = serve->shards;
    config->files_max = (uint32_t)base_max_u64(files / serve->shards, 8);
    config->connections_max = (uint32_t)((connections + serve->shards - 1) / serve->shards);
    serve->connections_max = connections;
    return APP_DONE;
}

/* Little memory: tables for fewer topics and partitions. False: they are as small as they may be. */
static bool take_less(struct broker_config *config)
{
    if (config->partitions_max <= PARTITIONS_FEW) { return false; }
    config->topics_max = config->topics_max / 4 * 3;
    config->partitions_max = config->partitions_max / 4 * 3;
    return true;
}

/* A frame is admitted whole while anything is left, so that a part of the limit holds even the longest. */
static uint64_t queued_bytes_of_shard(const struct serve *serve)
{
    int64_t most_bytes = serve->settings.queued_bytes_max;
    return most_bytes > 0 ? base_max_u64((uint64_t)most_bytes / serve->shards, 1) : 0;
}

static int make_brokers(struct serve *serve)
{
    struct settings *settings = &serve->settings;
    uint64_t memory = serve->memory_bytes;
    size_t region_bytes = (size_t)(memory / serve->shards) & ~(size_t)4095;
    serve->observe.shards = app_keep(serve->shards * sizeof *serve->observe.shards);
    serve->observe.shard_count = serve->shards;
    serve->machines = app_keep(serve->shards * sizeof *serve->machines);
    if (serve->observe.shards == NULL || serve->machines == NULL) { return app_error(NULL, "no memory"); }
    for (uint32_t shard = 0; shard < serve->shards; shard++) {
        struct broker_config config = settings->broker;
        struct base_region region;
        config.shard = shard;
        /* Each has its part, and all of them together what was asked for. */
        bool has_one_more = shard < serve->connections_max % serve->shards;
        config.connections_max = (uint32_t)(serve->connections_max / serve->shards) + (has_one_more ? 1 : 0);
        config.queued_bytes_max = queued_bytes_of_shard(serve);
        app_random(&config.seed, sizeof config.seed);
        bool is_made = region_bytes >= BROKER_REGION_BYTES_MIN;
        if (is_made && !app_region(region_bytes, &region)) {
            return app_error(
                NULL, "the system gives no %llu bytes of addresses to each of %u shards: lower weir.memory.max.bytes",
                (unsigned long long)region_bytes, (unsigned)serve->shards);
        }
        while (is_made && broker_create(region, &config, &serve->observe.shards[shard].broker) != BASE_OK) {
            is_made = shard == 0 && take_less(&config) && app_region_clear(region);
        }
        if (!is_made) {
            return app_error(
                NULL,
                "%llu bytes of memory are too few for %u shards: raise weir.memory.max.bytes, or lower weir.shards, "
                "max.connections or weir.files.max",
                (unsigned long long)memory, (unsigned)serve->shards);
        }
        if (config.partitions_max < settings->broker.partitions_max) {
            app_log_own(&serve->log, PORT_INFO, "with %llu bytes of memory: at most %u topics and %u partitions",
                        (unsigned long long)memory, (unsigned)config.topics_max, (unsigned)config.partitions_max);
        }
        serve->machines[shard] = &serve->observe.shards[shard];
        /* The first shard has the most to hold, and all hold the same image. */
        settings->broker.topics_max = config.topics_max;
        settings->broker.partitions_max = config.partitions_max;
    }
    return APP_DONE;
}

/* ---- running ---- */

static void on_log(void *context, uint32_t shard, int64_t wall_ms, enum port_level level, struct base_slice room,
                   struct base_slice text)
{
    const struct serve *serve = context;
    app_log_line(&serve->log, shard, wall_ms, level, room, text);
}

static void on_level(void *context, struct base_slice room, uint32_t level)
{
    struct serve *serve = context;
    app_log_level(&serve->log, room, level);
}

static void on_turn(void *context, uint32_t shard, uint64_t ns)
{
    struct serve *serve = context;
    observe_turn(&serve->observe, shard, ns);
}

static void on_synced(void *context, uint32_t shard, uint64_t token, uint64_t ns)
{
    struct serve *serve = context;
    observe_synced(&serve->observe, shard, token, ns);
}

/* As clients are told. */
static void add_listeners(struct base_text *line, const struct serve *serve, const uint16_t ports[BROKER_LISTENERS_MAX])
{
    const struct broker_config *config = &serve->settings.broker;
    for (uint32_t i = 0; i < config->listener_count; i++) {
        const struct broker_listener *listener = &config->listeners[i];
        uint16_t port = listener->port_advertised != 0 ? listener->port_advertised : ports[i];
        bool is_ipv6 = strchr(listener->host, ':') != NULL;
        base_text_add(line, i == 0 ? "" : ",");
        base_text_add(line, listener->name);
        base_text_add(line, is_ipv6 ? "://[" : "://");
        base_text_add(line, listener->host);
        base_text_add(line, is_ipv6 ? "]:" : ":");
        base_text_add_i64(line, port);
    }
}

static void print_ready(const struct serve *serve, const char *listeners)
{
    const struct broker_config *config = &serve->settings.broker;
    char words[2048];
    struct base_text line;
    base_text_init(&line, words, sizeof words);
    base_text_add(&line, "ready node=");
    base_text_add_i64(&line, config->node_id);
    base_text_add(&line, " cluster=");
    base_text_add(&line, config->cluster_id);
    base_text_add(&line, " listeners=");
    base_text_add(&line, listeners);
    base_text_add(&line, " shards=");
    base_text_add_i64(&line, serve->shards);
    words[line.used_bytes] = '\n';
    ssize_t written = write(STDOUT_FILENO, words, line.used_bytes + 1);
    (void)written; /* whoever waits for it has gone if this fails */
}

static void on_ready(void *context, uint32_t shard)
{
    struct serve *serve = context;
    uint32_t before = atomic_fetch_add(&serve->ready_count, 1);
    if (before + 1 != serve->shards) { return; }
    struct broker_view view;
    char listeners[1536];
    struct base_text text;
    broker_view(serve->observe.shards[shard].broker, &view);
    base_text_init(&text, listeners, sizeof listeners);
    add_listeners(&text, serve, view.ports);
    app_log_own(&serve->log, PORT_INFO, "ready, %lld ms after the start: listeners=%s",
                (long long)(app_wall_ms() - serve->begun_ms), listeners);
    print_ready(serve, listeners);
    atomic_store(&serve->is_ready, true);
}

/* What this start found and took; first of all, so that whatever follows can be told from an earlier life. */
static void log_start(const struct serve *serve, const char *version, const char *path, const char *file)
{
    const struct broker_config *config = &serve->settings.broker;
    app_log_own(
        &serve->log, PORT_INFO,
        "weir %s starts: pid=%ld node=%d cluster=%s data='%s' config='%s' shards=%u memory=%llu connections=%llu "
        "files=%llu",
        version, (long)getpid(), (int)config->node_id, serve->data_dir.cluster_id, path, file == NULL ? "" : file,
        (unsigned)serve->shards, (unsigned long long)serve->memory_bytes, (unsigned long long)serve->connections_max,
        (unsigned long long)config->files_max * (unsigned long long)serve->shards);
}

static int run(struct serve *serve)
{
    const struct broker_config *config = &serve->settings.broker;
    char disk[4096];
    copy_words(disk, sizeof disk, serve->settings.log_dir);
    const char *disks[1] = {disk};
    struct host_config host_config = {
        .shards = serve->shards,
        .disks = disks,
        .disk_count = 1,
        .conns_max = config->connections_max,
        .listeners_max = BROKER_LISTENERS_MAX,
        .files_max = BROKER_FILE_SLOTS(config->files_max),
        .step = observe_step,
        .machines = serve->machines,
        .notes = {.context = serve,
                  .log = on_log,
                  .level = on_level,
                  .ready = on_ready,
                  .turn = on_turn,
                  .synced = on_synced},
    };
    char why[HOST_WHY_BYTES];
    if (host_create(&host_config, &serve->host, why) != PORT_OK) { return app_error(NULL, "%s", why); }
    struct http *http = NULL;
    if (!observe_init(&serve->observe, serve->host)) { return app_error(NULL, "no lock for the shards' snapshots"); }
    int code = http_start(&serve->observe, &serve->settings, &serve->log, &http);
    if (code != APP_DONE) { return code; }
    watch_signals(serve->host, config->shutdown_ms);
    host_run(serve->host);
    (void)alarm(0); /* stopped in time */
    signal_host = NULL;
    observe_over(&serve->observe);
    http_stop(http);
    host_destroy(serve->host);
    bool is_failed = false;
    for (uint32_t shard = 0; shard < serve->shards; shard++) {
        struct broker_view view;
        broker_view(serve->observe.shards[shard].broker, &view);
        is_failed = is_failed || view.is_disk_failed;
    }
    app_log_end(&serve->log);
    if (is_stop_wished == 0) { return app_error(NULL, "the broker stopped by itself; a line above says why"); }
    if (is_failed) {
        app_log_own(&serve->log, PORT_ERROR, "stopped; the log directory had failed: a line above says why");
        return APP_FAILED;
    }
    app_log_own(&serve->log, PORT_INFO, "stopped");
    return APP_DONE;
}

int app_serve(struct app_args *args)
{
    if (app_is_help(args->argc, args->argv)) {
        printf("%s", usage);
        return APP_DONE;
    }
    struct serve *serve = app_keep(sizeof *serve);
    if (serve == NULL) { return app_error(NULL, "no memory"); }
    serve->begun_ms = app_wall_ms();
    const char *file = NULL;
    int code = configure(args, serve, &file);
    if (code != APP_DONE) { return code; }
    struct settings *settings = &serve->settings;
    for (uint32_t i = 0; i < settings->listener_count; i++) {
        code = resolve_listener(&settings->listeners[i], &settings->broker.listeners[i]);
        if (code != APP_DONE) { return code; }
    }
    settings->broker.listener_count = settings->listener_count;
    char path[4096];
    char cluster_id[23];
    copy_words(cluster_id, sizeof cluster_id, settings->cluster_id);
    if (settings->log_dir.size_bytes >= sizeof path) { return app_usage("serve", "log.dirs: the path is too long"); }
    copy_words(path, sizeof path, settings->log_dir);
    code = share_out(serve); /* while nothing is touched */
    if (code != APP_DONE) { return code; }
    code = app_data_dir_open(path, settings->broker.node_id, settings->broker.coordinator_groups, cluster_id,
                             &serve->data_dir);
    if (code != APP_DONE) { return code; }
    memcpy(settings->broker.cluster_id, serve->data_dir.cluster_id, sizeof settings->broker.cluster_id);
    if (serve->data_dir.is_new) {
        app_log_own(&serve->log, PORT_INFO, "new cluster in '%s': weir.cluster.id=%s", path,
                    serve->data_dir.cluster_id);
    }
    log_start(serve, args->version, path, file);
    code = make_brokers(serve);
    if (code == APP_DONE) { code = run(serve); }
    return code;
}
