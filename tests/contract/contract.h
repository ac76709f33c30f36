/* contract.h: one suite that holds every carrier of effects to port.h: host/uv and sim/world.
 *
 * Parts   contract.c: a machine without a will of its own, that emits what a test asks and keeps every event; and the words
 *         below. cases_*.c: the sentences. coverage.c: what of port.h they met. host_driver.c: the real world, with
 *         cases_host.c; world_driver.c: the simulated one, with cases_world.c. Each driver is a program of its own: `main`
 *         calls contract_run with it.
 * Driver  a struct contract_driver. `create` makes one node with the given machines, stepped by contract_step, on empty
 *         disks, and starts it (PORT_EVENT_START to each shard). `poke` has a shard's machine stepped with a
 *         PORT_EVENT_MESSAGE whose `from` is CONTRACT_OUTSIDE, some time soon and in the order of the calls. `run` lets the
 *         world go on until is_done(arg) says so, which it asks after every step or whenever the host was heard of;
 *         false: nothing more will happen, or ten seconds went by. `destroy` has PORT_EVENT_STOP delivered to every
 *         shard, ends when each has answered PORT_STOPPED, and drops everything.
 * Threads is_done may be called with or without a step going on; a driver whose shards run on threads of their own waits in
 *         contract_wait, which a step wakes; the simulator's `run` steps its world instead.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_CONTRACT_H
#define TESTS_CONTRACT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "coverage.h"
#include "port/port.h"

#define CONTRACT_OUTSIDE       UINT16_MAX
#define CONTRACT_SHARDS_MAX    4
#define CONTRACT_CONNS_MAX     64
#define CONTRACT_FILES_MAX     64
#define CONTRACT_LISTENERS_MAX 8

struct contract_driver {
    const char *name;
    struct port_address address; /* the node's own, port 0: where to listen, and where to connect to */
    struct port_address refused; /* where nobody listens */
    struct port_address foreign; /* not the node's */
    struct port_address nowhere; /* where no way leads */
    void *(*create)(uint32_t shards, uint32_t disks, void *const machines[]);
    void (*poke)(void *world, uint32_t shard, const struct port_message *message);
    bool (*run)(void *world, bool (*is_done)(void *arg), void *arg);
    void (*destroy)(void *world);
    const struct CMUnitTest *own_cases; /* what only this carrier can be brought to do */
    size_t own_case_count;
    const struct coverage_excuse *excuses; /* what of port.h it has no case for, and why */
    size_t excuse_count;
};

/* The step of the suite's machine, as the worlds call it. */
void contract_step(void *machine, const struct port_event *event, struct port_out *out);

/* Runs every case over the driver, and then asks whether each effect kind and error word of port.h had one; what main returns.
 * With the argument --selftest: leaves cases out and plants excuses, and succeeds when exactly their names are told. */
int contract_run(const struct contract_driver *driver, int argc, char **argv);

/* The driver that the words below use. */
void contract_use(const struct contract_driver *driver);

/* Of all cases so far. */
const struct coverage *contract_coverage(void);

/* Blocks until is_done(arg), at most ten seconds; woken by every step of every machine. For drivers with threads. */
bool contract_wait(bool (*is_done)(void *arg), void *arg);

/* ---- the words of the cases ---- */

struct contract;

struct contract *given_shards(uint32_t shards);  /* and one disk */
struct contract *given_disks(uint32_t disks);    /* and one shard */
void finish(struct contract *contract);          /* every effect has completed exactly once; drops the world */
void *contract_world(struct contract *contract); /* the driver's */

/* Emits one effect, from a step of its own. Its token is chosen here and returned. */
uint64_t ask(struct contract *contract, uint32_t shard, struct port_effect effect);
/* Emits all of them from one and the same step, in order. */
void ask_all(struct contract *contract, uint32_t shard, const struct port_effect *effects, uint32_t count,
             uint64_t *tokens_out);
/* What a step may say besides effects. A turn or a continue is wished for by that one step, and by none after it. */
struct contract_wish {
    const struct port_effect *effects;
    uint32_t effect_count;
    const struct port_message *messages;
    uint32_t message_count;
    uint64_t alarm_after_ns; /* 0: leaves the alarm alone; counted from the step's now_ns */
    bool wants_turn;
    bool wants_continue;
};
void wish(struct contract *contract, uint32_t shard, const struct contract_wish *what, uint64_t *tokens_out);

struct port_event await(struct contract *contract, uint64_t token);
struct port_event do_it(struct contract *contract, uint32_t shard, struct port_effect effect); /* ask and await */
bool has_completed(struct contract *contract, uint64_t token);
/* Lets everything that is on its way arrive: three times PORT_EVENT_CONTINUE, which comes after whatever is ready. */
void settle(struct contract *contract, uint32_t shard);

/* The history of a shard: every event in order, the outside's pokes included. */
uint32_t history_count(struct contract *contract, uint32_t shard);
struct port_event history_at(struct contract *contract, uint32_t shard, uint32_t index);
uint32_t place_of(struct contract *contract, uint64_t token); /* of its completion, in its shard's history */
/* Waits for the next event of this kind at or after `from` in the history; its place. */
uint32_t await_kind(struct contract *contract, uint32_t shard, enum port_event_kind kind, uint32_t from);

const struct contract_driver *contract_current(void);

/* Why the suite's checker is unhappy with what was delivered so far, or NULL: a completion nobody waits for (a second one,
 * an unknown token, another kind), a clock that went back, an event inside a step. */
const char *checker_says(struct contract *contract);
/* For the test of the checker itself: has the machine see an event that the world did not send. */
void plant_event(struct contract *contract, uint32_t shard, const struct port_event *event);
void forgive(struct contract *contract); /* what the checker found so far */

/* ---- effects as words ---- */
struct port_file file_id(uint32_t shard, uint32_t slot, uint32_t generation);
struct port_piece memory(const void *at, size_t size_bytes);
struct port_piece range(struct port_file file, uint64_t position_bytes, uint64_t size_bytes);
struct port_effect an_open(struct port_file file, const char *path, uint32_t flags);
struct port_effect a_write(struct port_file file, uint64_t position_bytes, const struct port_piece *pieces,
                           uint32_t count);
struct port_effect a_read(struct port_file file, uint64_t position_bytes, void *buffer, uint64_t size_bytes);
struct port_effect a_truncate(struct port_file file, uint64_t size_bytes);
struct port_effect of_file(enum port_effect_kind kind, struct port_file file);
struct port_effect by_name(enum port_effect_kind kind, const char *path);
struct port_effect a_rename(const char *from, const char *to);
struct port_effect a_list(const char *path, void *buffer, uint64_t size_bytes, uint64_t skip);
struct port_effect a_recv(struct port_conn conn, void *buffer, uint64_t size_bytes);
struct port_effect a_send(struct port_conn conn, const struct port_piece *pieces, uint32_t count);
struct port_effect of_conn(enum port_effect_kind kind, struct port_conn conn);

/* Opens or makes a file for writing, expects PORT_OK. */
struct port_file given_file(struct contract *contract, uint32_t slot, const char *path);
/* The same, holding `words`. */
struct port_file given_file_with(struct contract *contract, uint32_t slot, const char *path, const char *words);
void expect_file_holds(struct contract *contract, struct port_file file, const void *bytes, size_t size_bytes);

/* Two ends of one connection of shard 0, by listener 0. */
struct pair {
    struct port_listener listener;
    struct port_address bound;
    struct port_conn near; /* connected */
    struct port_conn far;  /* accepted */
};
struct pair given_pair(struct contract *contract);
void expect_rc(struct port_event event, enum port_rc rc);
/* Receives until exactly `size_bytes` have come. */
void expect_receives(struct contract *contract, struct port_conn conn, const void *bytes, size_t size_bytes);

/* The cases, by file. */
extern const struct CMUnitTest contract_file_cases[];
extern const size_t contract_file_case_count;
extern const struct CMUnitTest contract_net_cases[];
extern const size_t contract_net_case_count;
extern const struct CMUnitTest contract_loop_cases[];
extern const size_t contract_loop_case_count;

#endif
