/* fuzz_plog_state.c: any state blocks and any journalled runs and changes: recovery ends, within bounds, and the log then works.
 *
 * Input   a first byte that steers (bits 0, 1: the bound of a step; bit 2: files answer with what the input holds, else with
 *         zeros; bit 3: the directory is another's), then operations: an opcode (bits 0, 1) and its arguments. 0: a state block
 *         (length, bytes; magic, version and sum are put right, so that the fuzzer need not find them; bit 2: version 2, else 1).
 *         1: a run. 2: a change. 3: the journal lost entries.
 * Checks  the room's own (is_check_slow); the number of effects is bounded; afterwards a log takes a batch and gives it back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "plog__.h"

#define PAGES_BYTES ((size_t)512 << 10)
#define ARENA_BYTES ((size_t)256 << 10)
#define WALL_MS     INT64_C(1700000000000)
#define STEPS_MAX   100000
#define EFFECTS_MAX 64
#define PENDING_MAX 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
    struct input input;
    struct plog *plog;
    struct port_out out;
    struct port_effect effects[EFFECTS_MAX];
    struct port_effect pending[PENDING_MAX];
    uint32_t first;
    uint32_t count;
    bool is_talking;      /* files answer from the input */
    bool is_ours;         /* the directory says that it is the log's */
    bool is_metadata[16]; /* by slot: partition.metadata */
    bool wants;
    bool is_replayed;
    bool is_recovered;
    bool is_synced;
    bool is_read;
    uint64_t now_ns;
    uint32_t steps;
    char text[256];
};

static void must(bool condition)
{
    if (!condition) { abort(); }
}

static struct base_slice take_bytes(struct input *input, size_t size)
{
    if (size > input->left) { size = input->left; }
    struct base_slice bytes = base_slice_of(input->at, size);
    input->at += size;
    input->left -= size;
    return bytes;
}

static struct base_part part_of(uint64_t index)
{
    return (struct base_part){.topic = {.b = {1}}, .index = (int32_t)(index % 3)};
}

static void settle(struct world *world)
{
    for (;;) {
        for (uint32_t i = 0; i < world->out.effect_count; i++) {
            must(world->count < PENDING_MAX);
            world->pending[(world->first + world->count) % PENDING_MAX] = world->effects[i];
            world->count += 1;
        }
        world->wants = world->wants || world->out.wants_turn || world->out.wants_continue;
        port_out_begin(&world->out);
        struct plog_out out;
        if (!plog_poll(world->plog, &out)) { return; }
        if (out.kind == PLOG_OUT_REPLAYED) { world->is_replayed = true; }
        if (out.kind == PLOG_OUT_RECOVERED) { world->is_recovered = true; }
        if (out.kind == PLOG_OUT_SYNCED || out.kind == PLOG_OUT_FAILED) { world->is_synced = true; }
        if (out.kind == PLOG_OUT_READ || out.kind == PLOG_OUT_TIME) {
            world->is_read = true;
            if (out.lease != 0) { plog_release(world->plog, out.lease, &world->out); }
        }
        if ((out.kind == PLOG_OUT_RUN || out.kind == PLOG_OUT_CHANGE) && out.run_token != 0) {
            plog_journalled(world->plog, out.run_token, PORT_OK, &world->out);
        }
    }
}

static void carry_out(struct world *world, const struct port_effect *effect, struct port_event *event)
{
    uint64_t dice = world->is_talking ? take(&world->input, 1) : 0;
    bool *is_metadata = &world->is_metadata[effect->file.slot % 16];
    if (effect->kind == PORT_OPEN) {
        *is_metadata =
            effect->path.size_bytes > 9 && memcmp(effect->path.at + effect->path.size_bytes - 9, ".metadata", 9) == 0;
        event->done.count = world->is_talking ? take(&world->input, 3) : 0;
        if (dice == 255) { event->done.rc = PORT_MISSING; }
    } else if (effect->kind == PORT_READ && *is_metadata && world->is_ours) {
        struct base_text text;
        base_text_init(&text, (char *)effect->buffer, (size_t)effect->size_bytes);
        if (effect->position_bytes == 0) {
            base_text_add(&text, "version: 0\ntopic_id: ");
            base_text_add_uuid(&text, part_of(0).topic);
            base_text_add(&text, "\n");
        }
        event->done.count = text.used_bytes;
    } else if (effect->kind == PORT_READ) {
        struct base_slice bytes = {NULL, 0};
        if (world->is_talking) {
            bytes = take_bytes(&world->input, base_min_size((size_t)take(&world->input, 2), effect->size_bytes));
        }
        if (bytes.size_bytes > 0) { memcpy(effect->buffer, bytes.at, bytes.size_bytes); }
        event->done.count = bytes.size_bytes;
    } else if (effect->kind == PORT_WRITE) {
        for (uint32_t i = 0; i < effect->piece_count; i++) { event->done.count += effect->pieces[i].size_bytes; }
        if (dice > 240) { event->done.count /= 2; }
        if (dice == 240) { event->done.rc = PORT_IO; }
    } else if (effect->kind == PORT_LIST) {
        event->done.rc = PORT_MISSING;
    }
}

static bool step(struct world *world)
{
    world->steps += 1;
    must(world->steps < STEPS_MAX);
    world->now_ns += 1000;
    struct port_event event = {.now_ns = world->now_ns, .wall_ms = WALL_MS};
    if (world->count > 0) {
        struct port_effect effect = world->pending[world->first];
        world->first = (world->first + 1) % PENDING_MAX;
        world->count -= 1;
        event.kind = PORT_EVENT_DONE;
        event.done.effect = effect.kind;
        event.done.token = effect.token;
        event.done.file = effect.file;
        carry_out(world, &effect, &event);
        plog_done(world->plog, &event, &world->out);
    } else if (world->wants) {
        world->wants = false;
        event.kind = PORT_EVENT_CONTINUE;
        plog_turn(world->plog, &event, &world->out);
    } else {
        return false;
    }
    settle(world);
    return true;
}

static void give_state(struct world *world, uint16_t version)
{
    size_t size = (size_t)take(&world->input, 2) % 4096;
    struct base_slice bytes = take_bytes(&world->input, size);
    size = bytes.size_bytes + 10;
    uint8_t *state = malloc(size);
    must(state != NULL);
    base_put_u32(state, UINT32_C(0x57504c53));
    base_put_u16(state + 4, version);
    if (bytes.size_bytes > 0) { memcpy(state + 6, bytes.at, bytes.size_bytes); }
    base_put_u32(state + size - 4, codec_crc32c(0, state, size - 4));
    struct base_part id;
    enum base_rc rc = plog_state_id(base_slice_of(state, size), &id);
    if (plog_restore(world->plog, base_slice_of(state, size), 1, &world->out) == BASE_OK) { must(rc == BASE_OK); }
    settle(world);
    free(state);
}

static void give_run(struct world *world, bool is_change)
{
    struct input *input = &world->input;
    struct plog_run run = {.id = part_of(take(input, 1))};
    run.change = is_change ? (enum plog_change_kind)(1 + take(input, 1) % 5) : (enum plog_change_kind)0;
    run.segment_base = (int64_t)take(input, 2);
    run.position_bytes = take(input, 3);
    run.offset_base = (int64_t)take(input, 2);
    run.offset_end = run.offset_base + (int64_t)take(input, 2);
    run.leader_epoch = (int32_t)take(input, 1);
    uint64_t flags = take(input, 1);
    if ((flags & 1) != 0) { run.segment_base = -run.segment_base * (INT64_C(1) << 40); }
    struct base_slice bytes = {NULL, 0};
    if ((flags & 2) == 0) {
        bytes = take_bytes(input, (size_t)take(input, 2) % 2048);
        run.size_bytes = bytes.size_bytes;
        run.crc = codec_crc32c(0, bytes.at, bytes.size_bytes);
    } else {
        run.size_bytes = take(input, 2);
        run.crc = (uint32_t)take(input, 4);
    }
    uint8_t birth[16] = {1, 0, 0, 0, 1, 0, 0, 4, 'n', 'a', 'm', 'e'};
    if (run.change == PLOG_CHANGE_SEGMENT && (flags & 4) == 0) { bytes = base_slice_of(birth, 12); }
    world->is_replayed = false;
    if (plog_replay(world->plog, &run, bytes, 2, &world->out) != BASE_OK) { return; }
    settle(world);
    while (!world->is_replayed && step(world)) {}
    must(world->is_replayed);
}

static void recover(struct world *world)
{
    while (world->input.left > 0) {
        uint64_t word = take(&world->input, 1);
        uint64_t opcode = word % 4;
        if (opcode == 0) {
            give_state(world, (word & 4) != 0 ? 2 : 1);
        } else if (opcode < 3) {
            give_run(world, opcode == 2);
        } else {
            plog_mark_suspect(world->plog, part_of(take(&world->input, 1)), &world->out);
            settle(world);
        }
    }
    plog_recovery_end(world->plog, PLOG_LAST_UNCLEAN, &world->out);
    settle(world);
    while (step(world)) {}
    must(world->is_recovered);
}

static void use(struct world *world)
{
    struct plog_log_config config = {.segment_bytes = 1 << 20,
                                     .segment_ms = 1000,
                                     .index_interval_bytes = 256,
                                     .index_bytes_max = 4096,
                                     .retention_ms = -1,
                                     .retention_bytes = -1,
                                     .flush_messages = 1,
                                     .flush_ms = 1};
    struct plog_ref ref;
    if (plog_open(world->plog, part_of(1), base_slice_text("name"), &config, 1000, &ref) != BASE_OK) { return; }
    static uint8_t memory[256];
    struct rec_build build;
    must(rec_build_init(&build, memory, sizeof memory, rec_build_plain()) == BASE_OK);
    must(rec_build_add(&build, 5, rec_null(), rec_null(), NULL, 0) == BASE_OK);
    struct base_slice batch = rec_build_end(&build);
    struct plog_append append = {.token = 3,
                                 .batches = memory,
                                 .size_bytes = (uint32_t)batch.size_bytes,
                                 .leader_epoch = 1000};
    must(plog_append(world->plog, ref, &append, &world->out) == BASE_OK);
    settle(world);
    while (step(world)) {}
    must(world->is_synced);
    struct plog_view view;
    plog_view(world->plog, ref, &view);
    struct plog_read read = {.token = 4, .offset = view.offset_start, .bytes_max = 1000};
    must(plog_read(world->plog, ref, &read, &world->out) == BASE_OK);
    settle(world);
    while (step(world)) {}
    must(world->is_read);
    world->is_read = false;
    must(plog_find_time(world->plog, ref, 5, 1, &world->out) == BASE_OK);
    settle(world);
    while (step(world)) {}
    must(world->is_read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) { return 0; }
    struct world *world = calloc(1, sizeof *world);
    void *arena_memory = calloc(1, ARENA_BYTES);
    void *pages_memory = aligned_alloc(4096, PAGES_BYTES);
    must(world != NULL && arena_memory != NULL && pages_memory != NULL);
    memset(pages_memory, 0, PAGES_BYTES);
    struct plog_config config = {.logs_max = 8,
                                 .segments_max = 32,
                                 .appends_max = 8,
                                 .reads_max = 4,
                                 .producers_max = 16,
                                 .files_max = 8,
                                 .step_max = 1 + (data[0] & 3u),
                                 .inline_bytes_max = 65536,
                                 .is_check_slow = true};
    size_t reserve[BASE_CLASS_COUNT] = {0};
    struct base_pages *pages;
    struct base_arena arena;
    base_arena_init_zeroed(&arena, arena_memory, ARENA_BYTES);
    must(base_pages_create((struct base_region){.at = pages_memory, .size_bytes = PAGES_BYTES}, reserve, &pages) ==
         BASE_OK);
    must(plog_create(&arena, pages, &config, &world->plog) == BASE_OK);
    struct port_event start = {.kind = PORT_EVENT_START, .wall_ms = WALL_MS};
    plog_start(world->plog, &start);
    world->is_talking = (data[0] & 4) != 0;
    world->is_ours = (data[0] & 8) == 0;
    world->input = (struct input){.at = data + 1, .left = size - 1};
    world->out.effects = world->effects;
    world->out.effects_max = EFFECTS_MAX;
    world->out.text = world->text;
    world->out.text_bytes = sizeof world->text;
    port_out_begin(&world->out);
    recover(world);
    use(world);
    free(pages_memory);
    free(arena_memory);
    free(world);
    return 0;
}
