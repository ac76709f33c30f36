/* app__parts.h: what the parts of the program share.
 *
 * Room    host/app, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_APP_PARTS_H
#define HOST_APP_PARTS_H

#include "app.h"

#include "base/base.h"
#include "broker/settings.h"
#include "port/port.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- arguments (args.c) ---- */

struct app_args {
    const char *version; /* of the program */
    int argc;
    char **argv;
    int at;        /* the next to read */
    bool is_bad;   /* sticky; a message has been printed */
    bool is_plain; /* after "--": no more options */
};

/* True when the next argument is the option `name` with a value (--name V, --name=V); both are then taken. */
bool app_take_option(struct app_args *args, const char *name, const char **value_out);
/* The same for an option without a value. */
bool app_take_flag(struct app_args *args, const char *name);
/* The next argument when it is no option. */
bool app_take_word(struct app_args *args, const char **word_out);
/* What is next is neither: says so and sets is_bad. */
void app_refuse(struct app_args *args);
/* HOST:PORT of a broker to connect to; the host is borrowed. False: it is none. */
MUST_USE
bool app_read_endpoint(struct base_slice words, struct base_slice *host_out, uint16_t *port_out);
/* How many bytes the rune at the front of some words has (json.c); 0: it is no UTF-8. */
size_t app_rune_bytes(struct base_slice words);
bool app_is_help(int argc, char **argv); /* --help or -h before "--" */

/* "error: NAME: message" on stderr; name may be NULL. Returns APP_FAILED. Where the process keeps a log it is a FATAL line of that. */
int app_error(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "error: message" and a hint to --help, or such a line. Returns APP_USAGE. */
int app_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- log lines (log.c) ---- */

struct app_log {
    const struct settings *settings;    /* NULL: info and above, as text */
    _Atomic int levels[BROKER_LOGGERS]; /* as they are now; -1: that of the first. Set when settings are */
};
struct app_log_words {
    uint32_t shard;
    int64_t wall_ms;
    enum port_level level;
    struct base_slice room;
    struct base_slice text;
};
/* Takes the settings' levels, and what a shard says of one later (host_notes.level): the latter from any thread. From the first on this
 * process keeps a log: see app_error. */
void app_log_begin(struct app_log *log, const struct settings *settings);
void app_log_level(struct app_log *log, struct base_slice room, uint32_t level);
/* One line on stderr in one write: safe from any thread. */
void app_log_line(const struct app_log *log, uint32_t shard, int64_t wall_ms, enum port_level level,
                  struct base_slice room, struct base_slice text);
/* On stderr, if that takes it without a wait; in a signal handler, too. */
bool app_say_now(const void *bytes, size_t size_bytes);
void app_log_own(const struct app_log *log, enum port_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void app_log_end(const struct app_log *log); /* what was left out and is not told yet is told */
bool app_log_fatal(const char *words);       /* false: this process keeps no log */
int64_t app_wall_ms(void);

/* What is kept of lines that come again and again (log_limit.c), from any thread: how many of them were left out, and the last of them;
 * words.room is empty: it is not to be written. */
struct app_log_left {
    struct app_log_words words; /* in room and text, once it was given out */
    uint64_t left_out;
    bool is_more; /* there are some whose second is not over */
    char room[16];
    char text[480];
};
enum app_log_may {
    APP_LOG_MAY = 0,
    APP_LOG_LEFT_OUT,
    APP_LOG_FIRST_LEFT_OUT /* and somebody is to see to it that app_log_left_next is called a little later, until there is nothing more */
};
/* Whether a line is to be written. Before it what is in `left`, if anything; else it has left->left_out more that were not written. */
MUST_USE
enum app_log_may app_log_may(const struct app_log_words *words, struct app_log_left *left);
/* One whose second is over: it is to be written. False: none. */
MUST_USE
bool app_log_left_next(int64_t wall_ms, struct app_log_left *left);
void app_log_left_untold(void); /* nobody could see to it */

/* ---- the data directory (data_dir.c) ---- */

struct app_data_dir {
    int lock_fd;
    int32_t node_id;
    uint32_t coordinator_groups; /* of the first start, and ever after */
    char cluster_id[23];
    char directory_id[23];
    bool is_new;
    bool is_complete; /* its file says everything */
};

/* Makes the directory when it is missing, locks it against other processes for as long as this one lives, and reads its
 * meta.properties; in an empty directory makes one, with a new cluster id. `cluster_id`: what the configuration says, or "".
 * An exit code; what went wrong has been printed. */
int app_data_dir_open(const char *path, int32_t node_id, uint32_t coordinator_groups, const char *cluster_id,
                      struct app_data_dir *dir_out);

/* Its lock alone, for as long as this process lives. is_read_only_good: the directory will only be read, and may be one that can't be
 * written to. */
int app_data_dir_lock(const char *path, bool is_read_only_good, int *fd_out);

/* ---- memory and limits (limits.c) ---- */

uint64_t app_memory_bytes(void); /* of the machine, or of the cgroup where that is less */
/* What the groups in a file like /proc/self/cgroup are allowed, below a folder like /sys/fs/cgroup (cgroup.c). UINT64_MAX: nothing is said. */
uint64_t app_cgroup_bytes(const char *self, const char *root);
uint32_t app_cores(void);             /* that this process may run on */
uint64_t app_raise_descriptors(void); /* to the hard limit; how many there may be */
MUST_USE
bool app_region(size_t size_bytes, struct base_region *region_out); /* zero-filled, touched when used */
bool app_region_clear(struct base_region region);                   /* as it was at first */
void app_random(void *at, size_t size_bytes); /* from the system; ends the process when it has none */
/* Zero-filled memory that lives as long as the process; never freed, and always reachable. NULL: none. Main thread only. */
void *app_keep(size_t size_bytes);
/* A name or literal into the address that a client of ours would connect to. */
MUST_USE
bool app_resolve(const char *host, struct port_address *address_out);
/* A whole file, and nothing else that has a name, which could have no end; NULL: why is in errno. To be freed. */
char *app_read_file(const char *path, size_t *size_bytes_out);
/* The same of anything that can be read to an end, a pipe too; EFBIG where it has more bytes than that. */
char *app_read_input(const char *path, size_t bytes_max, size_t *size_bytes_out);

/* ---- signals (signals.c) ---- */

enum app_wish { APP_WISH_NONE, APP_WISH_STOP, APP_WISH_STOP_AT_ONCE };
/* What a SIGTERM, SIGINT or SIGHUP that has come asks for; in a handler. */
enum app_wish app_wish(int number);
enum app_wish app_wish_of(int number, int64_t now_ms);
/* They have this handler from now on, SIGHUP only where it is not ignored; it is interrupted by none of them. */
void app_on_signals(void (*handler)(int number));
/* They stop this host; a second one ends the process. NULL: no host any more. */
struct host;
void app_stop_on_signals(struct host *host);

/* ---- commands ---- */

int app_serve(struct app_args *args);
int app_topic(struct app_args *args);
int app_group(struct app_args *args);
int app_produce(struct app_args *args);
int app_consume(struct app_args *args);
int app_log(struct app_args *args); /* verify.c */
int app_bench(struct app_args *args);

#endif
