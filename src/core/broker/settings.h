/* settings.h: every property that a server may be given: names, types, defaults, ranges, and what they set.
 *
 * Room    core/broker, but a stranger to the broker's machine: texts in, one value out. Uses base, port, metadata.
 * Owns    nothing. Lists and texts live in the arena handed over; slices of `struct settings` point into it.
 * Rule    Kafka's names (server properties of 4.3.1) mean what they mean there, or are accepted with one warning, or are
 *         refused where ignoring them would be a promise broken (an authorizer). Our own begin with "weir.".
 * Layers  --set over the configuration file over defaults. A name twice in one layer is refused.
 * Limits  SETTINGS_ENTRIES_MAX properties; a name of SETTINGS_NAME_MAX bytes.
 *
 * Use     settings_read for the file, settings_add_assignment for each --set, settings_add for what an option stands for
 *         (--data-dir D is log.dirs=D), then settings_apply once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BROKER_SETTINGS_H
#define BROKER_SETTINGS_H

#include "base/base.h"
#include "broker/broker.h"
#include "port/port.h"

#define SETTINGS_ENTRIES_MAX 512
#define SETTINGS_NAME_MAX    128

enum settings_layer { SETTINGS_FILE = 0, SETTINGS_COMMAND_LINE = 1 };

struct settings_entry {
    struct base_slice name;
    struct base_slice value;
    enum settings_layer layer;
    uint32_t line; /* of the file, from 1 */
};
struct settings_list {
    struct settings_entry *entries;
    uint32_t count;
};

enum settings_protocol { SETTINGS_PLAINTEXT = 0, SETTINGS_SSL, SETTINGS_SASL_PLAINTEXT, SETTINGS_SASL_SSL };

struct settings_listener {
    struct base_slice name;            /* PLAINTEXT */
    struct base_slice host;            /* to bind: a name or an address without brackets; empty: all addresses */
    uint16_t port;                     /* 0: any */
    struct base_slice host_advertised; /* empty: what was bound decides */
    uint16_t port_advertised;          /* 0: the one bound */
};

enum settings_log_format { SETTINGS_LOG_TEXT = 0, SETTINGS_LOG_JSON = 1 };

/* Everything a node is told. What belongs to the machine is in `broker`, already as it wants it, but for the fields that only the
 * host knows: shard, shards, seed, cluster_id, listeners, connections_max, files_max. */
struct settings {
    struct broker_config broker;
    struct broker_pair pairs[BROKER_PAIRS_MAX]; /* broker.pairs points here: don't move this struct afterwards */
    struct settings_listener listeners[BROKER_LISTENERS_MAX];
    uint32_t listener_count;
    struct base_slice log_dir;       /* the only one there may be */
    struct base_slice cluster_id;    /* weir.cluster.id; empty: none told */
    struct base_slice http_listener; /* host:port; empty: off */
    struct base_slice http_host;     /* the same, apart */
    uint16_t http_port;
    enum settings_log_format log_format;
    uint32_t shards;           /* 0: as many as cores */
    uint32_t files_max;        /* of the node */
    uint32_t connections_max;  /* of the node */
    uint64_t memory_max_bytes; /* of the node; 0: half of what the machine has */
    int64_t queued_bytes_max;  /* of the node: queued.max.request.bytes; not above 0: any number */
    struct broker_address_limit address_limits[BROKER_ADDRESS_LIMITS_MAX]; /* broker.address_limits points here too */
    bool is_group_label;                                                   /* weir.metrics.group.label */
    bool is_http_listener_set;                                             /* by somebody, not by default */
};

/* ---- gathering ---- */

MUST_USE
enum base_rc settings_list_create(struct base_arena *arena, struct settings_list *list_out);
/* Java's properties syntax: comments, continued lines, '=' ':' or space after the name, escapes.
 * Fails   BASE_BAD: `why` has a sentence with the line. BASE_FULL: arena or list; `why` says so too. */
MUST_USE
enum base_rc settings_read(struct settings_list *list, struct base_arena *arena, struct base_slice text,
                           struct base_text *why);
/* NAME=VALUE, as after --set. */
MUST_USE
enum base_rc settings_add_assignment(struct settings_list *list, struct base_slice words, struct base_text *why);
/* Both are borrowed for as long as the settings live. */
MUST_USE
enum base_rc settings_add(struct settings_list *list, enum settings_layer layer, uint32_t line, struct base_slice name,
                          struct base_slice value, struct base_text *why);

/* ---- judging ---- */

/* Reads the list over the defaults. `warnings` gets one line (ended by '\n') for each property that is accepted and means
 * nothing here.
 * Fails   BASE_BAD: `why` says which property, where it stands, what is wrong, and the nearest names of an unknown one.
 *         BASE_FULL: too many listeners or topic defaults; `why` says so. *settings_out is then undefined. */
MUST_USE
enum base_rc settings_apply(const struct settings_list *list, struct settings *settings_out, struct base_text *why,
                            struct base_text *warnings);

/* ---- the table ---- */

enum settings_type {
    SETTINGS_BOOLEAN = 1,
    SETTINGS_STRING,
    SETTINGS_INT,
    SETTINGS_SHORT,
    SETTINGS_LONG,
    SETTINGS_DOUBLE,
    SETTINGS_LIST,
};
enum settings_use {
    SETTINGS_MEANT = 0,     /* sets something here */
    SETTINGS_TOPIC_DEFAULT, /* the default of a topic config: handed on, checked by metadata's table */
    SETTINGS_PASSED,        /* handed on as it is, once its type is checked */
    SETTINGS_IGNORED,       /* Kafka's, without a meaning here: one warning */
    SETTINGS_REFUSED,       /* Kafka's; any value but the default is refused */
};
struct settings_definition {
    const char *name;
    const char *default_value; /* NULL: none */
    const char *choices;       /* words with '|' between; NULL: anything of the type */
    int64_t min;               /* numbers: both included */
    int64_t max;
    enum settings_type type;
    enum settings_use use;
};
uint32_t settings_count(void);
const struct settings_definition *settings_at(uint32_t index); /* by name */
/* NULL: no such property. weir.log.level.ROOM is found as weir.log.level. */
const struct settings_definition *settings_find(struct base_slice name);
/* What DescribeConfigs says of one (settings_kinds.c): nothing, as Kafka; its type in Kafka's numbers; that its value is never told;
 * what it is, in a sentence. */
bool settings_is_untold(const struct settings_definition *definition);
int8_t settings_wire_type(const struct settings_definition *definition);
bool settings_is_secret(const struct settings_definition *definition);
const char *settings_documentation(const struct settings_definition *definition);
/* Whether `value` is of its type, in its range, one of its choices; `why` (may be NULL) then says what it should be. */
MUST_USE
enum base_rc settings_check(const struct settings_definition *definition, struct base_slice value,
                            struct base_text *why);
/* Up to three known names, the nearest first. */
uint32_t settings_nearest(struct base_slice name, const char *nearest_out[3]);

#endif
