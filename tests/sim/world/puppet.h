/* puppet.h: a machine without a will: it emits what the test asks, and keeps the completions.
 *
 * Room    tests/sim/world.
 * Use     one node with one shard and one disk. do_it emits one effect from a step of its own and steps the world until its
 *         completion came; ask only emits. A crash forgets what is outstanding, the puppet itself stays.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_SIM_PUPPET_H
#define TESTS_SIM_PUPPET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/world/world.h"

#define PUPPET_TOKENS_MAX 4096

struct puppet {
    struct world *world;
    uint32_t node;
    struct port_event done[PUPPET_TOKENS_MAX];
    uint32_t completions[PUPPET_TOKENS_MAX];
    uint64_t next_token;
    const struct port_effect *effects; /* to be emitted at the next step */
    uint32_t effect_count;
    bool wants_turn; /* at the next step that is asked to emit */
    uint32_t boots, stops, alarms, turns;
    uint32_t alarms_before_turn; /* when the last turn came */
    uint64_t last_now_ns;
    uint64_t alarm_ns;
};

extern const struct world_machine puppet_machine;

struct puppet *given_puppet(uint64_t seed,
                            const struct world_knobs *knobs);   /* a world with one node; knobs NULL: default */
struct puppet *add_puppet(struct world *world, uint32_t disks); /* one more node */
void drop_puppet(struct puppet *puppet);                        /* with its world */

uint64_t ask(struct puppet *puppet, struct port_effect effect);
uint64_t ask_all(struct puppet *puppet, struct port_effect *effects, uint32_t count); /* one step; the first token */
struct port_event await(struct puppet *puppet, uint64_t token);
bool has_come(const struct puppet *puppet, uint64_t token);
struct port_event do_it(struct puppet *puppet, struct port_effect effect);
void crash_and_restart(struct puppet *puppet, enum world_crash kind);

struct port_effect an_open(uint32_t slot, uint32_t generation, const char *path, uint32_t flags);
struct port_effect a_write(uint32_t slot, uint32_t generation, uint64_t position, const void *bytes,
                           uint64_t size_bytes); /* one at a time */
struct port_effect of_file(enum port_effect_kind kind, uint32_t slot, uint32_t generation);
struct port_effect of_conn(enum port_effect_kind kind, uint32_t slot, uint32_t generation);
struct port_effect by_name(enum port_effect_kind kind, const char *path);
struct port_effect a_rename(const char *from, const char *to);
void expect_rc(struct port_event event, enum port_rc rc);
void expect_holds(const struct puppet *puppet, const char *path, const char *words);
void expect_failure(const struct puppet *puppet, const char *words);
bool holds(const struct puppet *puppet, const char *path, const void *bytes, size_t size_bytes);

/* Two puppets with a connection: slot 1 of both. */
void given_connection(struct puppet *server, struct puppet *client);

#endif
