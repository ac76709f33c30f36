/* contract.c: the suite's machine, its checker, and the words of the cases.
 *
 * Threads one lock for everything, recursive because questions are asked with and without it; every step broadcasts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "contract.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT_S 10

/* An order from a test to the machine: what to emit at the next step. Lives until the test frees it with the world. */
struct order {
    struct order *next;
    struct port_effect *effects;
    uint32_t effect_count;
    struct port_message *messages;
    uint32_t message_count;
    uint64_t alarm_after_ns;
    bool wants_turn;
    bool wants_continue;
};

struct machine {
    struct contract *contract;
    uint32_t shard;
    bool is_in_step;
    bool is_planted; /* the event at hand is the test's, not the world's */
    uint64_t last_now_ns;
    uint64_t alarm_ns;
    bool wants_turn;     /* until it comes */
    bool wants_continue; /* until it comes */
    struct port_event *history;
    uint32_t history_count;
    uint32_t history_room;
};

struct asked {
    enum port_effect_kind kind;
    uint32_t shard;
    uint32_t place; /* in the history */
    uint32_t completions;
};

struct contract {
    void *world;
    uint32_t shards;
    struct machine machines[CONTRACT_SHARDS_MAX];
    struct asked *asked; /* token - 1 */
    uint32_t asked_count;
    uint32_t asked_room;
    struct order *orders;
    char complaint[160];
};

static const struct contract_driver *the_driver;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t stepped = PTHREAD_COND_INITIALIZER;

static struct coverage coverage; /* under the lock */

const struct contract_driver *contract_current(void) { return the_driver; }
const struct coverage *contract_coverage(void) { return &coverage; }
void contract_use(const struct contract_driver *driver) { the_driver = driver; }

static void complain(struct contract *contract, const char *what, uint64_t token)
{
    if (contract->complaint[0] != '\0') { return; }
    (void)snprintf(contract->complaint, sizeof contract->complaint, "%s (token %llu)", what, (unsigned long long)token);
}

/* ---- the machine ---- */

static void check_done(struct contract *contract, struct machine *machine, const struct port_event *event)
{
    uint64_t token = event->done.token;
    if (token == 0 || token > contract->asked_count) {
        complain(contract, "a completion of a token that was never asked", token);
        return;
    }
    struct asked *asked = &contract->asked[token - 1];
    asked->completions += 1;
    asked->place = machine->history_count;
    if (asked->completions > 1) { complain(contract, "a second completion", token); }
    if (asked->kind != event->done.effect) { complain(contract, "a completion of another kind", token); }
    if (asked->shard != machine->shard) { complain(contract, "a completion on another shard", token); }
    if (event->done.rc >= PORT_RC_COUNT) {
        complain(contract, "an error word that port.h does not have", token);
    } else if (asked->completions == 1 && !machine->is_planted) {
        coverage_completed(&coverage, asked->kind, event->done.rc);
    }
}

static void keep(struct machine *machine, const struct port_event *event)
{
    if (machine->history_count == machine->history_room) {
        machine->history_room = machine->history_room == 0 ? 64 : machine->history_room * 2;
        machine->history = realloc(machine->history, machine->history_room * sizeof *machine->history);
        CHECK(machine->history != NULL);
    }
    machine->history[machine->history_count] = *event;
    machine->history_count += 1;
}

static void obey(struct machine *machine, const struct order *order, uint64_t now_ns, struct port_out *out)
{
    for (uint32_t i = 0; i < order->effect_count; i++) {
        struct port_effect *effect = port_emit(out, order->effects[i].kind, order->effects[i].token);
        *effect = order->effects[i];
        coverage_asked(&coverage, effect->kind);
    }
    for (uint32_t i = 0; i < order->message_count; i++) {
        struct port_message *message = port_send_message(out, order->messages[i].to, order->messages[i].kind);
        memcpy(message->words, order->messages[i].words, sizeof message->words);
        message->lent = order->messages[i].lent;
        message->lent_bytes = order->messages[i].lent_bytes;
    }
    if (order->alarm_after_ns != 0) { machine->alarm_ns = now_ns + order->alarm_after_ns; }
    if (order->wants_turn) { machine->wants_turn = out->wants_turn = true; } /* said once: the world keeps it */
    if (order->wants_continue) { machine->wants_continue = out->wants_continue = true; }
}

static void take(struct machine *machine, const struct port_event *event, struct port_out *out)
{
    struct contract *contract = machine->contract;
    if (machine->is_in_step) { complain(contract, "an event inside a step", event->done.token); }
    machine->is_in_step = true;
    if (event->now_ns < machine->last_now_ns) { complain(contract, "a clock that went back", 0); }
    machine->last_now_ns = event->now_ns;
    if (event->kind == PORT_EVENT_DONE) { check_done(contract, machine, event); }
    keep(machine, event);
    if (event->kind == PORT_EVENT_MESSAGE && event->message.from == CONTRACT_OUTSIDE) {
        obey(machine, event->message.lent, event->now_ns, out);
    }
    if (event->kind == PORT_EVENT_ALARM) {
        if (event->now_ns < machine->alarm_ns) { complain(contract, "an alarm before its time", 0); }
        machine->alarm_ns = UINT64_MAX;
    }
    if (event->kind == PORT_EVENT_TURN) {
        if (!machine->wants_turn) { complain(contract, "a turn that nobody asked for", 0); }
        machine->wants_turn = false;
    }
    if (event->kind == PORT_EVENT_CONTINUE) {
        if (!machine->wants_continue) { complain(contract, "a continue that nobody asked for", 0); }
        machine->wants_continue = false;
    }
    if (event->kind == PORT_EVENT_STOP) {
        (void)port_emit(out, PORT_STOPPED, 0);
        coverage_asked(&coverage, PORT_STOPPED);
    }
    port_alarm(out, machine->alarm_ns);
    machine->is_in_step = false;
}

void contract_step(void *machine_at, const struct port_event *event, struct port_out *out)
{
    (void)pthread_mutex_lock(&lock);
    take(machine_at, event, out);
    (void)pthread_cond_broadcast(&stepped);
    (void)pthread_mutex_unlock(&lock);
}

void plant_event(struct contract *contract, uint32_t shard, const struct port_event *event)
{
    static struct port_effect effects[4];
    struct port_out out = {.effects = effects, .effects_max = 4};
    struct port_event planted = *event;
    port_out_begin(&out);
    (void)pthread_mutex_lock(&lock);
    planted.now_ns = contract->machines[shard].last_now_ns;
    contract->machines[shard].is_planted = true;
    take(&contract->machines[shard], &planted, &out);
    contract->machines[shard].is_planted = false;
    (void)pthread_mutex_unlock(&lock);
}

bool contract_wait(bool (*is_done)(void *arg), void *arg)
{
    struct timespec until;
    CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
    until.tv_sec += WAIT_S;
    (void)pthread_mutex_lock(&lock);
    int error = 0;
    while (!is_done(arg) && error == 0) { error = pthread_cond_timedwait(&stepped, &lock, &until); }
    bool is_it = is_done(arg);
    (void)pthread_mutex_unlock(&lock);
    return is_it;
}

/* ---- the world's life ---- */

static struct contract *given(uint32_t shards, uint32_t disks)
{
    struct contract *contract = calloc(1, sizeof *contract);
    CHECK(contract != NULL);
    CHECK(shards <= CONTRACT_SHARDS_MAX);
    contract->shards = shards;
    void *machines[CONTRACT_SHARDS_MAX] = {NULL};
    for (uint32_t i = 0; i < shards; i++) {
        contract->machines[i] = (struct machine){.contract = contract, .shard = i, .alarm_ns = UINT64_MAX};
        machines[i] = &contract->machines[i];
    }
    contract->world = the_driver->create(shards, disks, machines);
    assert_non_null(contract->world);
    for (uint32_t i = 0; i < shards; i++) { assert_int_equal(0, await_kind(contract, i, PORT_EVENT_START, 0)); }
    return contract;
}

struct contract *given_shards(uint32_t shards) { return given(shards, 1); }
struct contract *given_disks(uint32_t disks) { return given(1, disks); }
void *contract_world(struct contract *contract) { return contract->world; }

void finish(struct contract *contract)
{
    for (uint32_t i = 0; i < contract->shards; i++) { settle(contract, i); }
    the_driver->destroy(contract->world);
    if (checker_says(contract) != NULL) { fail_msg("%s", contract->complaint); }
    for (uint32_t i = 0; i < contract->asked_count; i++) {
        if (contract->asked[i].completions != (coverage_is_note(contract->asked[i].kind) ? 0 : 1)) {
            fail_msg("token %u (%s) has %u completions", i + 1, port_effect_name(contract->asked[i].kind),
                     contract->asked[i].completions);
        }
    }
    while (contract->orders != NULL) {
        struct order *order = contract->orders;
        contract->orders = order->next;
        free(order->effects);
        free(order->messages);
        free(order);
    }
    for (uint32_t i = 0; i < contract->shards; i++) { free(contract->machines[i].history); }
    free(contract->asked);
    free(contract);
}

const char *checker_says(struct contract *contract)
{
    (void)pthread_mutex_lock(&lock);
    const char *says = contract->complaint[0] == '\0' ? NULL : contract->complaint;
    (void)pthread_mutex_unlock(&lock);
    return says;
}

void forgive(struct contract *contract)
{
    (void)pthread_mutex_lock(&lock);
    contract->complaint[0] = '\0';
    for (uint32_t i = 0; i < contract->asked_count; i++) {
        if (contract->asked[i].completions > 1) { contract->asked[i].completions = 1; }
    }
    (void)pthread_mutex_unlock(&lock);
}

/* ---- asking ---- */

static uint64_t new_token(struct contract *contract, uint32_t shard, enum port_effect_kind kind)
{
    if (contract->asked_count == contract->asked_room) {
        contract->asked_room = contract->asked_room == 0 ? 64 : contract->asked_room * 2;
        contract->asked = realloc(contract->asked, contract->asked_room * sizeof *contract->asked);
        CHECK(contract->asked != NULL);
    }
    contract->asked[contract->asked_count] = (struct asked){.kind = kind, .shard = shard};
    contract->asked_count += 1;
    return contract->asked_count;
}

static void *copy_of(const void *at, size_t count, size_t item_bytes)
{
    void *copy = calloc(count == 0 ? 1 : count, item_bytes);
    CHECK(copy != NULL);
    if (count > 0) { memcpy(copy, at, count * item_bytes); }
    return copy;
}

void wish(struct contract *contract, uint32_t shard, const struct contract_wish *what, uint64_t *tokens_out)
{
    struct order *order = calloc(1, sizeof *order);
    CHECK(order != NULL);
    order->effects = copy_of(what->effects, what->effect_count, sizeof *what->effects);
    order->effect_count = what->effect_count;
    order->messages = copy_of(what->messages, what->message_count, sizeof *what->messages);
    order->message_count = what->message_count;
    order->alarm_after_ns = what->alarm_after_ns;
    order->wants_turn = what->wants_turn;
    order->wants_continue = what->wants_continue;
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < what->effect_count; i++) {
        order->effects[i].token = new_token(contract, shard, what->effects[i].kind);
        if (tokens_out != NULL) { tokens_out[i] = order->effects[i].token; }
    }
    order->next = contract->orders;
    contract->orders = order;
    (void)pthread_mutex_unlock(&lock);
    struct port_message message = {.to = (uint16_t)shard, .from = CONTRACT_OUTSIDE, .lent = order};
    the_driver->poke(contract->world, shard, &message);
}

void ask_all(struct contract *contract, uint32_t shard, const struct port_effect *effects, uint32_t count,
             uint64_t *tokens_out)
{
    wish(contract, shard, &(struct contract_wish){.effects = effects, .effect_count = count}, tokens_out);
}

uint64_t ask(struct contract *contract, uint32_t shard, struct port_effect effect)
{
    uint64_t token;
    ask_all(contract, shard, &effect, 1, &token);
    return token;
}

struct token_wait {
    struct contract *contract;
    uint64_t token;
};

static bool is_token_done(void *arg)
{
    struct token_wait *wait = arg;
    return has_completed(wait->contract, wait->token) || checker_says(wait->contract) != NULL;
}

bool has_completed(struct contract *contract, uint64_t token)
{
    (void)pthread_mutex_lock(&lock);
    bool is_done = contract->asked[token - 1].completions > 0;
    (void)pthread_mutex_unlock(&lock);
    return is_done;
}

uint32_t place_of(struct contract *contract, uint64_t token)
{
    (void)await(contract, token);
    return contract->asked[token - 1].place;
}

struct port_event await(struct contract *contract, uint64_t token)
{
    struct token_wait wait = {.contract = contract, .token = token};
    bool is_done = the_driver->run(contract->world, is_token_done, &wait);
    if (checker_says(contract) != NULL) { fail_msg("%s", contract->complaint); }
    if (!is_done) { fail_msg("no completion of %s", port_effect_name(contract->asked[token - 1].kind)); }
    struct asked *asked = &contract->asked[token - 1];
    return history_at(contract, asked->shard, asked->place);
}

struct port_event do_it(struct contract *contract, uint32_t shard, struct port_effect effect)
{
    return await(contract, ask(contract, shard, effect));
}

/* ---- histories ---- */

uint32_t history_count(struct contract *contract, uint32_t shard)
{
    (void)pthread_mutex_lock(&lock);
    uint32_t count = contract->machines[shard].history_count;
    (void)pthread_mutex_unlock(&lock);
    return count;
}

struct port_event history_at(struct contract *contract, uint32_t shard, uint32_t index)
{
    (void)pthread_mutex_lock(&lock);
    CHECK(index < contract->machines[shard].history_count);
    struct port_event event = contract->machines[shard].history[index];
    (void)pthread_mutex_unlock(&lock);
    return event;
}

struct kind_wait {
    struct contract *contract;
    uint32_t shard;
    uint32_t from;
    enum port_event_kind kind;
    uint32_t found;
};

static bool is_kind_there(void *arg)
{
    struct kind_wait *wait = arg;
    for (; wait->from < history_count(wait->contract, wait->shard); wait->from++) {
        if (history_at(wait->contract, wait->shard, wait->from).kind == wait->kind) {
            wait->found = wait->from;
            return true;
        }
    }
    return false;
}

uint32_t await_kind(struct contract *contract, uint32_t shard, enum port_event_kind kind, uint32_t from)
{
    struct kind_wait wait = {.contract = contract, .shard = shard, .from = from, .kind = kind};
    if (!the_driver->run(contract->world, is_kind_there, &wait)) { fail_msg("no event %s", port_event_name(kind)); }
    return wait.found;
}

void settle(struct contract *contract, uint32_t shard)
{
    for (int i = 0; i < 3; i++) {
        uint32_t from = history_count(contract, shard);
        wish(contract, shard, &(struct contract_wish){.wants_continue = true}, NULL);
        (void)await_kind(contract, shard, PORT_EVENT_CONTINUE, from);
    }
}

/* ---- effects as words ---- */

struct port_file file_id(uint32_t shard, uint32_t slot, uint32_t generation)
{
    return (struct port_file){.shard = shard, .slot = slot, .generation = generation};
}

struct port_piece memory(const void *at, size_t size_bytes)
{
    return (struct port_piece){.kind = PORT_MEMORY, .at = at, .size_bytes = size_bytes};
}

struct port_piece range(struct port_file file, uint64_t position_bytes, uint64_t size_bytes)
{
    return (struct port_piece){.kind = PORT_RANGE,
                               .file = file,
                               .position_bytes = position_bytes,
                               .size_bytes = size_bytes};
}

struct port_effect an_open(struct port_file file, const char *path, uint32_t flags)
{
    return (struct port_effect){.kind = PORT_OPEN, .file = file, .path = base_slice_text(path), .flags = flags};
}

struct port_effect a_write(struct port_file file, uint64_t position_bytes, const struct port_piece *pieces,
                           uint32_t count)
{
    return (struct port_effect){
        .kind = PORT_WRITE, .file = file, .position_bytes = position_bytes, .pieces = pieces, .piece_count = count};
}

struct port_effect a_read(struct port_file file, uint64_t position_bytes, void *buffer, uint64_t size_bytes)
{
    return (struct port_effect){
        .kind = PORT_READ, .file = file, .position_bytes = position_bytes, .buffer = buffer, .size_bytes = size_bytes};
}

struct port_effect a_truncate(struct port_file file, uint64_t size_bytes)
{
    return (struct port_effect){.kind = PORT_TRUNCATE, .file = file, .position_bytes = size_bytes};
}

struct port_effect of_file(enum port_effect_kind kind, struct port_file file)
{
    return (struct port_effect){.kind = kind, .file = file};
}

struct port_effect by_name(enum port_effect_kind kind, const char *path)
{
    return (struct port_effect){.kind = kind, .path = base_slice_text(path)};
}

struct port_effect a_rename(const char *from, const char *to)
{
    return (struct port_effect){.kind = PORT_RENAME, .path = base_slice_text(from), .path_to = base_slice_text(to)};
}

struct port_effect a_list(const char *path, void *buffer, uint64_t size_bytes, uint64_t skip)
{
    return (struct port_effect){.kind = PORT_LIST,
                                .path = base_slice_text(path),
                                .buffer = buffer,
                                .size_bytes = size_bytes,
                                .position_bytes = skip};
}

struct port_effect a_recv(struct port_conn conn, void *buffer, uint64_t size_bytes)
{
    return (struct port_effect){.kind = PORT_RECV, .conn = conn, .buffer = buffer, .size_bytes = size_bytes};
}

struct port_effect a_send(struct port_conn conn, const struct port_piece *pieces, uint32_t count)
{
    return (struct port_effect){.kind = PORT_SEND, .conn = conn, .pieces = pieces, .piece_count = count};
}

struct port_effect of_conn(enum port_effect_kind kind, struct port_conn conn)
{
    return (struct port_effect){.kind = kind, .conn = conn};
}

/* ---- what many cases begin with ---- */

void expect_rc(struct port_event event, enum port_rc rc)
{
    assert_int_equal(event.kind, PORT_EVENT_DONE);
    if (event.done.rc != rc) {
        fail_msg("%s: %s, not %s", port_effect_name(event.done.effect), port_rc_name(event.done.rc), port_rc_name(rc));
    }
}

struct port_file given_file(struct contract *contract, uint32_t slot, const char *path)
{
    struct port_file file = file_id(0, slot, 1);
    expect_rc(do_it(contract, 0, an_open(file, path, PORT_OPEN_WRITE | PORT_OPEN_CREATE)), PORT_OK);
    return file;
}

struct port_file given_file_with(struct contract *contract, uint32_t slot, const char *path, const char *words)
{
    struct port_file file = given_file(contract, slot, path);
    struct port_piece piece = memory(words, strlen(words));
    struct port_event done = do_it(contract, 0, a_write(file, 0, &piece, 1));
    expect_rc(done, PORT_OK);
    assert_int_equal(done.done.count, strlen(words));
    return file;
}

void expect_file_holds(struct contract *contract, struct port_file file, const void *bytes, size_t size_bytes)
{
    uint8_t *buffer = malloc(size_bytes + 16);
    CHECK(buffer != NULL);
    struct port_event done = do_it(contract, file.shard, a_read(file, 0, buffer, size_bytes + 16));
    expect_rc(done, PORT_OK);
    assert_int_equal(done.done.count, size_bytes);
    assert_memory_equal(buffer, bytes, size_bytes);
    free(buffer);
}

struct pair given_pair(struct contract *contract)
{
    struct pair pair = {.listener = {.slot = 0, .generation = 1},
                        .near = {.slot = 0, .generation = 1},
                        .far = {.slot = 1, .generation = 1}};
    struct port_effect listen = {.kind = PORT_LISTEN, .listener = pair.listener, .address = the_driver->address};
    struct port_event done = do_it(contract, 0, listen);
    expect_rc(done, PORT_OK);
    assert_int_not_equal(done.done.address.port, 0);
    pair.bound = done.done.address;
    uint64_t accepted =
        ask(contract, 0, (struct port_effect){.kind = PORT_ACCEPT, .listener = pair.listener, .conn = pair.far});
    expect_rc(do_it(contract, 0, (struct port_effect){.kind = PORT_CONNECT, .conn = pair.near, .address = pair.bound}),
              PORT_OK);
    expect_rc(await(contract, accepted), PORT_OK);
    return pair;
}

void expect_receives(struct contract *contract, struct port_conn conn, const void *bytes, size_t size_bytes)
{
    uint8_t *buffer = malloc(size_bytes);
    CHECK(buffer != NULL);
    size_t got = 0;
    while (got < size_bytes) {
        struct port_event done = do_it(contract, 0, a_recv(conn, buffer + got, size_bytes - got));
        expect_rc(done, PORT_OK);
        assert_true(done.done.count > 0 && done.done.count <= size_bytes - got);
        got += done.done.count;
    }
    assert_memory_equal(buffer, bytes, size_bytes);
    free(buffer);
}
