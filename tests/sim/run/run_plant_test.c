/* run_plant_test.c: what watches a whole run meets what it is there for: a node that sleeps, a broker that is restless, that asks
 * what it may not, that leaves things open, spoils its files or fails a CHECK; and tells it by the invariant's id.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "broker/broker.h"
#include "node.h"
#include "run.h"

/* With a slow network something is always under way, and the load is not over when the faults stop. */
enum pace { FAST_MS = 1, SLOW_MS = 500 };

static struct run_config config_with(uint64_t seed, const struct run_plant *plant, enum pace pace)
{
    int64_t net_delay_ns = (int64_t)pace * (int64_t)WORLD_MS;
    return (struct run_config){.seed = seed,
                               .mode = RUN_BROKER,
                               .sets = {{"crashes", 0},
                                        {"state_crashes", 0},
                                        {"clean_stop", 1},
                                        {"records", 1000},
                                        {"net_delay_min_ns", net_delay_ns},
                                        {"net_delay_max_ns", net_delay_ns}},
                               .set_count = 6,
                               .plant = *plant};
}

static struct run_result run_with(uint64_t seed, const struct run_plant *plant, enum pace pace)
{
    struct run_config config = config_with(seed, plant, pace);
    struct run_result result;
    run_seed(&config, &result);
    return result;
}

/* Whether anything is under way just when a node falls asleep is the seed's: one of ten has to tell. */
static void expect_told(const struct run_plant *plant, enum pace pace, const char *id, const char *words)
{
    struct run_result result;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        result = run_with(seed, plant, pace);
        if (!result.is_ok && strcmp(result.id, id) == 0 && strstr(result.text, words) != NULL) { return; }
    }
    fail_msg("%s: %s, instead of %s: %s", result.is_ok ? "nothing was told" : result.id, result.text, id, words);
}

static void without_a_plant_nothing_is_told(void **state)
{
    (void)state;
    static const enum pace paces[] = {FAST_MS, SLOW_MS};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(paces); i++) {
        struct run_result result = run_with(1, &(struct run_plant){.sleeps_at = RUN_AT_NONE}, paces[i]);
        if (!result.is_ok) { fail_msg("%s: %s", result.id, result.text); }
        assert_true(result.acknowledged > 0);
    }
}

static void a_node_that_sleeps_is_told(void **state)
{
    (void)state;
    static const struct {
        enum run_point point;
        enum run_sleeper sleeper;
        enum pace pace;
        const char *id, *words;
    } rows[] = {
        {RUN_AT_CALM, RUN_PRODUCER_SLEEPS, SLOW_MS, "I21", "never end"},
        {RUN_AT_PROBE, RUN_PRODUCER_SLEEPS, SLOW_MS, "I21", "what is asked after the faults does not end"},
        {RUN_AT_CLOSE, RUN_PRODUCER_SLEEPS, FAST_MS, "I21", "the clients' connections do not end"},
        {RUN_AT_CLOSE, RUN_BROKER_SLEEPS, FAST_MS, "I25", "does not come to rest"},
        {RUN_AT_STOP, RUN_BROKER_SLEEPS, FAST_MS, "I21", "the broker does not stop"},
        {RUN_AT_START, RUN_BROKER_SLEEPS, FAST_MS, "I21", "the broker does not start"},
        {RUN_AT_VERIFY, RUN_VERIFIER_SLEEPS, FAST_MS, "I21", "the final reader does not get to the end"},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(rows); i++) {
        struct run_plant plant = {.sleeps_at = rows[i].point, .sleeper = rows[i].sleeper};
        expect_told(&plant, rows[i].pace, rows[i].id, rows[i].words);
    }
}

/* ---- brokers with a mistake between them and the world ---- */

static const void *machines[WORLD_SHARDS_MAX]; /* of this boot */

static void *create(void *context, const struct world_boot *boot)
{
    void *machine = node_machine.create(context, boot);
    machines[boot->shard] = machine;
    return machine;
}

/* Drops what it asks of that kind. */
static void step_without(void *machine, const struct port_event *event, struct port_out *out,
                         enum port_effect_kind kind)
{
    broker_step(machine, event, out);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < out->effect_count; i++) {
        if (out->effects[i].kind != kind) { out->effects[kept++] = out->effects[i]; }
    }
    out->effect_count = kept;
}

static void never_ready(void *machine, const struct port_event *event, struct port_out *out)
{
    step_without(machine, event, out, PORT_READY);
}

/* Files are left open: it waits for their closes. */
static void leaving_files_open(void *machine, const struct port_event *event, struct port_out *out)
{
    step_without(machine, event, out, PORT_CLOSE_FILE);
}

/* A deadline in the past that nothing takes away. */
static void looping(void *machine, const struct port_event *event, struct port_out *out)
{
    broker_step(machine, event, out);
    port_alarm(out, event->now_ns);
}

static void restless(void *machine, const struct port_event *event, struct port_out *out)
{
    broker_step(machine, event, out);
    port_alarm(out, event->now_ns + 100 * WORLD_MS);
}

/* Its disk is never still: it syncs its directory while it serves, again and again, and keeps that from the broker. */
static void syncing_without_end(void *machine, const struct port_event *event, struct port_out *out)
{
    static const uint64_t token = 77;
    static bool is_stopping, is_ready, is_under_way;
    struct port_event passed = *event;
    if (event->kind == PORT_EVENT_START) { is_stopping = is_ready = is_under_way = false; }
    if (event->kind == PORT_EVENT_STOP) { is_stopping = true; }
    if (event->kind == PORT_EVENT_DONE && event->done.token == token) {
        passed.kind = PORT_EVENT_TURN;
        is_under_way = false;
    }
    broker_step(machine, &passed, out);
    for (uint32_t i = 0; i < out->effect_count; i++) { is_ready = is_ready || out->effects[i].kind == PORT_READY; }
    if (!is_ready || is_stopping || is_under_way || port_out_room(out) == 0) { return; }
    (void)port_emit(out, PORT_SYNC_DIR, token); /* path "" */
    is_under_way = true;
}

/* Asks for a sync of a file that is not open, and keeps the answer from the broker. */
static void asking_for_what_is_not_open(void *machine, const struct port_event *event, struct port_out *out)
{
    static const uint64_t token = 77;
    struct port_event passed = *event;
    if (event->kind == PORT_EVENT_DONE && event->done.token == token) { passed.kind = PORT_EVENT_TURN; }
    broker_step(machine, &passed, out);
    if (event->kind != PORT_EVENT_START || port_out_room(out) == 0) { return; }
    port_emit(out, PORT_SYNC, token)->file = (struct port_file){.slot = 4000, .generation = 1};
}

/* What it writes into an index is not what it meant to. Lookups don't mind: an entry is not believed before it is proved. */
static void spoiling_its_indexes(void *machine, const struct port_event *event, struct port_out *out)
{
    static struct {
        bool is_index;
        struct port_piece piece;
    } files[WORLD_SHARDS_MAX][256]; /* by slot */
    static const uint8_t bytes[64 << 10] = {1};
    broker_step(machine, event, out);
    for (uint32_t i = 0; i < out->effect_count; i++) {
        struct port_effect *effect = &out->effects[i];
        uint32_t shard = effect->file.shard, slot = effect->file.slot;
        if (effect->kind != PORT_OPEN && effect->kind != PORT_WRITE) { continue; }
        CHECK(shard < WORLD_SHARDS_MAX && slot < BASE_ARRAY_COUNT(files[0]));
        if (effect->kind == PORT_OPEN) {
            files[shard][slot].is_index = memmem(effect->path.at, effect->path.size_bytes, ".index", 6) != NULL;
        } else if (files[shard][slot].is_index) {
            CHECK(effect->piece_count == 1 && effect->pieces[0].size_bytes <= sizeof bytes);
            files[shard][slot].piece =
                (struct port_piece){.kind = PORT_MEMORY, .at = bytes, .size_bytes = effect->pieces[0].size_bytes};
            effect->pieces = &files[shard][slot].piece;
        }
    }
}

/* Its clients are there, it never says that it serves, and no sync that it asks for is one: a read takes its place. */
static void syncing_nothing_before_it_is_ready(void *machine, const struct port_event *event, struct port_out *out)
{
    static uint64_t tokens[64]; /* that ever were a sync's: they are nothing else's; 0: none */
    static uint8_t nothing;
    struct port_event passed = *event;
    for (size_t i = 0; i < BASE_ARRAY_COUNT(tokens) && event->kind == PORT_EVENT_DONE; i++) {
        if (event->done.effect != PORT_READ || tokens[i] != event->done.token) { continue; }
        passed.done.effect = PORT_SYNC;
        passed.done.rc = PORT_OK;
    }
    never_ready(machine, &passed, out);
    for (uint32_t i = 0; i < out->effect_count; i++) {
        struct port_effect *effect = &out->effects[i];
        if (effect->kind != PORT_SYNC) { continue; }
        size_t at = 0;
        while (at < BASE_ARRAY_COUNT(tokens) && tokens[at] != 0 && tokens[at] != effect->token) { at += 1; }
        CHECK(at < BASE_ARRAY_COUNT(tokens));
        tokens[at] = effect->token;
        effect->kind = PORT_READ;
        effect->buffer = &nothing;
        effect->size_bytes = 0;
    }
}

static uint32_t shard_of(const void *machine)
{
    uint32_t shard = 0;
    while (shard < WORLD_SHARDS_MAX && machines[shard] != machine) { shard += 1; }
    CHECK(shard < WORLD_SHARDS_MAX);
    return shard;
}

/* A segment that goes is not unlinked, though it thinks so: another sync of its directory takes the place of that. */
static void leaving_segments(void *machine, const struct port_event *event, struct port_out *out)
{
    static bool is_swapped[WORLD_SHARDS_MAX]; /* one is on its way */
    static uint64_t tokens[WORLD_SHARDS_MAX];
    struct port_event passed = *event;
    uint32_t shard = shard_of(machine);
    if (event->kind == PORT_EVENT_START) { is_swapped[shard] = false; }
    if (event->kind == PORT_EVENT_DONE && is_swapped[shard] && event->done.token == tokens[shard]) {
        passed.done.effect = PORT_UNLINK;
        is_swapped[shard] = false;
    }
    broker_step(machine, &passed, out);
    for (uint32_t i = 0; i < out->effect_count; i++) {
        struct port_effect *effect = &out->effects[i];
        bool is_segment = effect->kind == PORT_UNLINK && effect->path.size_bytes > 4 &&
                          memmem(effect->path.at, effect->path.size_bytes, "-delete", 7) == NULL &&
                          memcmp(effect->path.at + effect->path.size_bytes - 4, ".log", 4) == 0;
        if (!is_segment) { continue; }
        effect->kind = PORT_SYNC_DIR;
        effect->path.size_bytes -= 25; /* "/", 20 digits, ".log" */
        is_swapped[shard] = true;
        tokens[shard] = effect->token;
    }
}

enum { STRAY_TOKEN = 77, STRAY_SLOT = 4000 };
static uint32_t strays_made;

static struct stray {
    bool is_under_way;
    uint32_t generation; /* of the last file */
    uint32_t boots;
    char folder[300], path[330];
} strays[WORLD_SHARDS_MAX]; /* of the run */

/* A file with the name of a segment, where its log starts: no segment of the log has that name if one goes on across its start. */
static void make_stray(const struct broker *broker, uint32_t shard, struct stray *stray, struct port_out *out)
{
    struct broker_log_view view;
    for (uint32_t cursor = 0; broker_each_log(broker, &cursor, &view);) {
        char folder[sizeof stray->folder];
        (void)snprintf(folder, sizeof folder, "%.*s-%" PRId32, (int)view.topic.size_bytes, (const char *)view.topic.at,
                       view.id.index); /* a topic's name has 249 bytes at most */
        if (strcmp(folder, stray->folder) != 0 || view.offset_start == view.offset_end) { continue; }
        (void)snprintf(stray->path, sizeof stray->path, "%s/%020" PRId64 ".log", folder, view.offset_start);
        struct port_effect *effect = port_emit(out, PORT_OPEN, STRAY_TOKEN);
        effect->file = (struct port_file){.shard = shard, .slot = STRAY_SLOT, .generation = ++stray->generation};
        effect->flags = PORT_OPEN_WRITE | PORT_OPEN_CREATE | PORT_OPEN_EXCLUSIVE;
        effect->path = base_slice_text(stray->path);
        stray->is_under_way = true;
        return;
    }
}

static void go_on_with_stray(struct stray *stray, const struct port_event *event, struct port_out *out)
{
    CHECK(port_out_room(out) > 0);
    stray->is_under_way = false;
    if (event->done.effect == PORT_OPEN && event->done.rc == PORT_OK) {
        port_emit(out, PORT_CLOSE_FILE, STRAY_TOKEN)->file = event->done.file;
    } else if (event->done.effect == PORT_CLOSE_FILE) {
        port_emit(out, PORT_SYNC_DIR, STRAY_TOKEN)->path = base_slice_text(stray->folder);
    } else {
        strays_made += event->done.effect == PORT_SYNC_DIR ? 1 : 0;
        return;
    }
    stray->is_under_way = true;
}

/* Where a segment goes, there is soon a file with the name of one that the journal never heard of, as crashes leave them. */
static void leaving_strays(void *machine, const struct port_event *event, struct port_out *out)
{
    struct port_event passed = *event;
    uint32_t shard = shard_of(machine);
    struct stray *stray = &strays[shard];
    bool is_mine = event->kind == PORT_EVENT_DONE && event->done.token == STRAY_TOKEN;
    if (event->kind == PORT_EVENT_START) { stray->boots += 1; }
    if (is_mine) { passed.kind = PORT_EVENT_TURN; }
    broker_step(machine, &passed, out);
    if (is_mine) { go_on_with_stray(stray, event, out); }
    if (stray->boots > 1) { return; } /* a crash comes between it and the final reader */
    for (uint32_t i = 0; i < out->effect_count && !stray->is_under_way && port_out_room(out) > 0; i++) {
        struct base_slice path = out->effects[i].path;
        bool is_segment = out->effects[i].kind == PORT_UNLINK && path.size_bytes > 25 &&
                          path.size_bytes < sizeof stray->folder &&
                          memcmp(path.at + path.size_bytes - 4, ".log", 4) == 0;
        if (!is_segment) { continue; }
        (void)snprintf(stray->folder, sizeof stray->folder, "%.*s", (int)path.size_bytes - 25, (const char *)path.at);
        make_stray(machine, shard, stray, out);
    }
}

static void failing_a_check(void *machine, const struct port_event *event, struct port_out *out)
{
    broker_step(machine, event, out);
    CHECK(event->kind != PORT_EVENT_STOP);
}

static void a_broker_with_a_mistake_is_told(void **state)
{
    (void)state;
    static const struct {
        void (*step)(void *machine, const struct port_event *event, struct port_out *out);
        const char *id, *words;
    } rows[] = {
        {never_ready, "I21", "the broker does not come back"},
        {leaving_files_open, "I25", "does not come to rest"},
        {looping, "I21", "alarms and nothing else"},
        {restless, "I21", "events in 3 s while a fetch was parked"},
        {syncing_without_end, "I21", "the disk does not come to rest"},
        {asking_for_what_is_not_open, "I24", "names file 4000.1, which is not open"},
        {spoiling_its_indexes, "I15", ".index"},
        {leaving_segments, "I25", "is left on the disk, and its log begins at"},
        {syncing_nothing_before_it_is_ready, "I3", ", and it is synced up to "},
        {failing_a_check, "CHECK", "event->kind != PORT_EVENT_STOP"},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(rows); i++) {
        struct world_machine machine = {.create = create, .step = rows[i].step};
        expect_told(&(struct run_plant){.broker = &machine}, FAST_MS, rows[i].id, rows[i].words);
    }
}

/* It is not where the log begins: what stands before it is the log's. */
static void a_segment_that_nothing_names_is_nobodys(void **state)
{
    (void)state;
    struct world_machine machine = {.create = create, .step = leaving_strays};
    strays_made = 0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct run_config config = config_with(seed, &(struct run_plant){.broker = &machine}, FAST_MS);
        static const struct run_set sets[] = {{"clean_stop", 0},
                                              {"groups", 1},
                                              {"group_grown_kb", 2},
                                              {"own_segment_kb", 8}};
        for (size_t i = 0; i < BASE_ARRAY_COUNT(sets); i++) { config.sets[config.set_count++] = sets[i]; }
        memset(strays, 0, sizeof strays);
        struct run_result result;
        run_seed(&config, &result);
        if (!result.is_ok) { fail_msg("seed %" PRIu64 ": %s: %s", seed, result.id, result.text); }
    }
    assert_true(strays_made > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_plant_nothing_is_told),
        cmocka_unit_test(a_node_that_sleeps_is_told),
        cmocka_unit_test(a_broker_with_a_mistake_is_told),
        cmocka_unit_test(a_segment_that_nothing_names_is_nobodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
