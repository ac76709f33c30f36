/* fuzz_plog_recovery.c: logs that live, crash, and find their directory, journal and state blocks changed by somebody.
 *
 * Input   byte 0 steers: bits 0 and 1 the bound of a step (1, 2, 7, 100), bit 2 page-cache logs, bit 3 completions in any order,
 *         bit 4 small segments, bit 5 runs are synced in their segments, not journalled; byte 1: the dice. Then operations, an
 *         opcode and its arguments each (enum op): appends, checkpoints, deletions, crashes, and changes of what a crash left: any
 *         file cut, flipped, removed or renamed, entries of the journal changed, dropped, doubled, state blocks changed (their
 *         sums put right or not).
 * Holds   every start ends, and the room is sound after each event; after honest crashes every acknowledged record is there,
 *         dense and whole; an index is never trusted: whatever its files hold, reads are right; where logs were cut short or are
 *         missing, a read gives what was there or says that it is damaged, and never skips; where the journal or the bytes
 *         themselves lie, every read still stays inside of its file; a log that is not failed takes a batch afterwards.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "input.h"
#include "world.h"

#define LOGS      3
#define OPS_MAX   48
#define STEPS_MAX 400000
#define READS_MAX 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum op {
    OP_APPEND = 0, /* and 1, 2, 3: what, bytes */
    OP_CHECKPOINT = 4,
    OP_CRASH, /* how */
    OP_ALARM, /* how late */
    OP_MOVE_START,
    OP_STOP,
    OP_FIND_TIME,
    OP_CHANGE_FILE, /* the next ones crash first, and start afterwards unless bit 7 says that more is coming */
    OP_CHANGE_ENTRY,
    OP_CHANGE_STATE,
    OP_MARK_DAMAGED,
    OP_DELETE,
    OP_START
};

/* How far what is on the disk can be believed. */
enum faith { FAITH_WHOLE, FAITH_CUT, FAITH_NONE };

struct model {
    bool is_there;
    bool is_deleted; /* its id never comes back */
    int64_t acked_end;
    int32_t sequence;
};

struct play {
    struct input input;
    struct world *world;
    bool is_down;
    enum faith faith;
    struct model models[LOGS];
};

#define must(condition) must_at((condition), __LINE__)
static void must_at(bool condition, int line)
{
    if (condition) { return; }
    (void)fprintf(stderr, "broken: fuzz_plog_recovery.c:%d\n", line); /* about to abort */
    abort();
}

static void run(struct play *play)
{
    world_settle(play->world);
    while (world_step(play->world)) { must(play->world->steps < STEPS_MAX); }
}

static struct plog_ref log_of(struct play *play, int index)
{
    struct plog_ref known = plog_find(play->world->plog, world_part(index));
    int32_t epoch = known.generation != 0 ? world_view(play->world, known).leader_epoch : 1;
    return world_log(play->world, index, "topic", epoch);
}

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

/* The end of what an answer's range holds, from `offset` on. */
static int64_t judge_range(struct play *play, const struct plog_out *out, int64_t offset, int64_t watermark)
{
    const uint8_t *bytes = world_range(play->world, out);   /* inside of the file, or it fails */
    uint32_t sum = codec_crc32c(0, bytes, out->size_bytes); /* every byte can be read */
    if (play->faith == FAITH_NONE) { return offset + 1 + (sum & 1); }
    struct base_slice rest = base_slice_of(bytes, out->size_bytes);
    struct rec_batch batch;
    bool is_first = true;
    while (rec_batch_next(&rest, &batch) == REC_OK) {
        must(rec_crc_is_right(&batch));
        must(is_first ? batch.base_offset <= offset : batch.base_offset == offset);
        must(rec_offset_end(&batch) > offset && rec_offset_end(&batch) <= watermark);
        offset = rec_offset_end(&batch);
        is_first = false;
    }
    must(!is_first);
    return offset;
}

/* What was read from `offset` on ends at the offset that is returned; at `otherwise` where it is damaged. */
static int64_t read_at(struct play *play, struct plog_ref ref, int64_t offset, int64_t watermark, int64_t otherwise)
{
    uint64_t token = world_read(play->world, ref, offset, 100000);
    if (token == 0) { return otherwise; }
    run(play);
    struct answer *answer = world_answer(play->world, token);
    must(answer->is_done);
    must(play->faith != FAITH_WHOLE || answer->result == PLOG_OK);
    int64_t end = otherwise;
    if (answer->result == PLOG_OK) {
        must(answer->out.size_bytes > 0);
        end = judge_range(play, &answer->out, offset, watermark);
    }
    world_release(play->world, &answer->out);
    run(play);
    return end;
}

static void read_all(struct play *play, struct plog_ref ref)
{
    struct plog_view view = world_view(play->world, ref);
    must(view.offset_start <= view.watermark);
    int64_t count = view.watermark - view.offset_start;
    for (int64_t i = 1; i < 5 && count > 1; i++) { /* here and there, by the indexes: nothing is remembered yet */
        (void)read_at(play, ref, view.offset_start + (count < 5 ? count * i / 5 : count / 5 * i), view.watermark, 0);
    }
    int64_t offset = view.offset_start;
    for (int64_t i = 0; i < READS_MAX && offset < view.watermark; i++) {
        offset = read_at(play, ref, offset, view.watermark, offset + 1 + i * i);
    }
    must(play->faith != FAITH_WHOLE || offset == view.watermark);
}

static void judge_all(struct play *play)
{
    for (int i = 0; i < LOGS; i++) {
        struct model *model = &play->models[i];
        if (plog_find(play->world->plog, world_part(i)).generation == 0) {
            must(play->faith == FAITH_NONE || !model->is_there);
            continue;
        }
        struct plog_ref ref = log_of(play, i);
        struct plog_view view = world_view(play->world, ref);
        if (getenv("WEIR_FUZZ_TRACE") != NULL) {
            (void)fprintf(stderr,
                          "log %d: start %lld, watermark %lld, end %lld, acknowledged %lld, segments %u, failed %d, "
                          "damaged %d, faith %d\n",
                          i, (long long)view.offset_start, (long long)view.watermark, (long long)view.offset_end,
                          (long long)model->acked_end, view.segment_count, view.is_failed, view.is_damaged,
                          (int)play->faith);
        }
        if (play->faith != FAITH_NONE && !play->world->log_config.is_page_cache) {
            must(view.watermark >= model->acked_end);
        }
        if (play->faith == FAITH_WHOLE) { must(!view.is_failed && !view.is_damaged); }
        read_all(play, ref);
    }
}

/* ---- living -------------------------------------------------------------------------------------------------------------- */

static void append(struct play *play, int index, bool waits)
{
    uint32_t what = (uint32_t)take(&play->input, 1);
    size_t value_bytes = take(&play->input, 1) * (size_t)((what & 0x80) != 0 ? 64 : 4);
    struct model *model = &play->models[index];
    struct plog_ref ref = log_of(play, index);
    struct batch_ask ask = {.records = 1 + (int)(what & 3),
                            .value_bytes = value_bytes,
                            .timestamp = 1700000000000 + (int64_t)(what & 0x30) * 1000,
                            .is_compressed = (what & 0x40) != 0,
                            .leader_epoch = 1};
    if ((what & 0xc) == 4 && waits && !play->world->log_config.is_page_cache) {
        ask.producer_id = 7 + index;
        ask.sequence = model->sequence;
    }
    uint64_t token = world_append(play->world, ref, ask);
    if (token == 0) { return; }
    if (!waits) { return; } /* what is in flight when a crash comes may be there or not */
    run(play);
    struct answer *answer = world_answer(play->world, token);
    must(answer->is_done);
    if (play->faith == FAITH_WHOLE) { must(answer->kind == PLOG_OUT_SYNCED && answer->result == PLOG_OK); }
    if (answer->kind != PLOG_OUT_SYNCED || answer->result != PLOG_OK) { return; }
    if (ask.producer_id != 0) { model->sequence += ask.records; }
    model->is_there = true;
    model->acked_end = base_max_i64(model->acked_end, answer->base_offset + ask.records);
}

static void go_down(struct play *play, enum crash crash)
{
    if (play->is_down) { return; }
    world_crash(play->world, crash);
    play->is_down = true;
}

static void come_up(struct play *play)
{
    if (!play->is_down) { return; }
    play->is_down = false;
    play->world->takes_refusals = play->faith == FAITH_NONE;
    world_start(play->world);
    must(play->world->is_recovered);
    judge_all(play);
}

static void lose_faith(struct play *play, enum faith faith)
{
    if (play->world->log_config.is_page_cache) { faith = FAITH_NONE; } /* nothing says what its files should hold */
    if (faith > play->faith) { play->faith = faith; }
}

/* ---- changing what is there ---------------------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *suffix)
{
    size_t bytes = strlen(name);
    return bytes >= strlen(suffix) && strcmp(name + bytes - strlen(suffix), suffix) == 0;
}

static void resize(struct node *node, size_t size_bytes)
{
    node->bytes = realloc(node->bytes, size_bytes + 1);
    must(node->bytes != NULL);
    if (size_bytes > node->size) { memset(node->bytes + node->size, 0, size_bytes - node->size); }
    node->size = size_bytes;
}

static void set_synced(struct node *node) /* it is what the disk holds now */
{
    free(node->synced);
    node->synced = malloc(node->size + 1);
    must(node->synced != NULL);
    if (node->size > 0) { memcpy(node->synced, node->bytes, node->size); }
    node->synced_size = node->size;
}

static void change_file(struct play *play)
{
    struct input *input = &play->input;
    struct world *world = play->world;
    uint64_t which = take(input, 1);
    uint64_t how = take(input, 1);
    uint64_t at = take(input, 2);
    uint8_t byte = (uint8_t)take(input, 1);
    struct node *node = NULL;
    for (int i = 0, seen = 0; i < world->node_count * 2 && node == NULL; i++) {
        struct node *candidate = &world->nodes[i % world->node_count];
        if (!candidate->is_live || candidate->is_dir) { continue; }
        if ((uint64_t)seen == which % 32) { node = candidate; }
        seen += 1;
    }
    if (node == NULL) { return; }
    bool is_index = ends_with(node->name, "index");
    bool is_log = ends_with(node->name, ".log");
    if (node->size > 0) { at %= node->size; }
    switch (how % 7) {
    case 6: { /* an entry of an index over another one, whole or but the place that it names */
        size_t entry = ends_with(node->name, ".timeindex") ? 12 : 8;
        size_t entries = node->size / entry;
        if (!is_index || entries == 0) { return; }
        size_t from = how < 128 ? 0 : entry - 4;
        memcpy(node->bytes + at % entries * entry + from, node->bytes + byte % entries * entry + from, entry - from);
        break;
    }
    case 0: /* flip */
        if (node->size > 0) { node->bytes[at] ^= byte; }
        if (!is_index) { lose_faith(play, FAITH_NONE); }
        break;
    case 1: /* cut */
        resize(node, node->size == 0 ? 0 : at);
        if (!is_index) { lose_faith(play, is_log ? FAITH_CUT : FAITH_NONE); }
        break;
    case 2: /* grown */
        resize(node, node->size + at + byte);
        if (!is_index && !is_log) { lose_faith(play, FAITH_NONE); }
        if (is_log && world->log_config.is_page_cache) { lose_faith(play, FAITH_NONE); }
        break;
    case 3: /* gone */
        node->is_live = false;
        node->is_durable = false;
        if (!is_index) { lose_faith(play, is_log ? FAITH_CUT : FAITH_NONE); }
        break;
    case 4: /* called otherwise */
        node->name[strlen(node->name) - 1] = (char)('a' + byte % 26);
        memcpy(node->durable_name, node->name, sizeof node->name);
        lose_faith(play, FAITH_NONE);
        break;
    case 5: /* eight bytes written over */
        for (size_t i = at; i < node->size && i < at + 8; i++) { node->bytes[i] = (uint8_t)take(input, 1); }
        if (!is_index) { lose_faith(play, FAITH_NONE); }
        break;
    }
    set_synced(node);
}

static void set_entry_bytes(struct entry *entry, uint64_t size_bytes)
{
    if (entry->bytes != NULL && size_bytes <= 65536) {
        uint8_t *bytes = calloc(1, size_bytes + 1);
        must(bytes != NULL);
        memcpy(bytes, entry->bytes, base_min_u64(size_bytes, entry->run.size_bytes));
        free(entry->bytes);
        entry->bytes = bytes;
    } else {
        free(entry->bytes);
        entry->bytes = NULL;
    }
    entry->run.size_bytes = size_bytes;
}

static void drop_entry(struct world *world, size_t at)
{
    free(world->entries[at].bytes);
    memmove(&world->entries[at], &world->entries[at + 1], (world->entry_count - at - 1) * sizeof world->entries[0]);
    world->entry_count -= 1;
    world->entry_answered -= 1;
}

static void change_entry(struct play *play)
{
    struct input *input = &play->input;
    struct world *world = play->world;
    size_t count = world->entry_count - world->entries_begin;
    uint64_t which = take(input, 1);
    uint64_t how = take(input, 1);
    int64_t value = (int64_t)take(input, 2);
    if (count == 0) { return; }
    lose_faith(play, how % 16 == 12 ? FAITH_CUT : FAITH_NONE);
    if ((how & 0x40) != 0) { value = -value; }
    if ((how & 0x80) != 0) { value *= INT64_C(1) << 40; }
    size_t at = world->entries_begin + which % count;
    struct entry *entry = &world->entries[at];
    switch (how % 16 % 13) {
    case 12: /* its bytes, and not the sum: they count for nothing then */
        if (entry->bytes == NULL || entry->run.change != 0 || entry->run.size_bytes == 0) { break; }
        if (getenv("WEIR_FUZZ_TRACE") != NULL) {
            (void)fprintf(stderr, "bytes of entry %zu changed, not their sum\n", at);
        }
        entry->bytes[(uint64_t)value % entry->run.size_bytes] ^= (uint8_t)(1 + (how >> 4));
        break;
    case 0: entry->run.segment_base += value; break;
    case 1: entry->run.position_bytes += (uint64_t)value; break;
    case 2: entry->run.offset_base += value; break;
    case 3: entry->run.offset_end += value; break;
    case 4: entry->run.leader_epoch = (int32_t)value; break;
    case 5: entry->run.crc ^= (uint32_t)value; break;
    case 6: set_entry_bytes(entry, (uint64_t)value & UINT32_MAX); break;
    case 7: entry->run.change = (enum plog_change_kind)((uint64_t)value % 6); break;
    case 8: drop_entry(world, at); break;
    case 9: { /* two change places */
        size_t other = world->entries_begin + (uint64_t)value % count;
        struct entry kept = world->entries[at];
        world->entries[at] = world->entries[other];
        world->entries[other] = kept;
        break;
    }
    case 10: entry->run.id = world_part((int)((uint64_t)value % LOGS)); break;
    case 11: /* its bytes, and the sum put right */
        if (entry->bytes == NULL || entry->run.size_bytes == 0) { break; }
        entry->bytes[(uint64_t)value % entry->run.size_bytes] ^= (uint8_t)(1 + (how >> 4));
        entry->run.crc = codec_crc32c(0, entry->bytes, entry->run.size_bytes);
        break;
    default: break;
    }
}

static void change_state(struct play *play)
{
    struct input *input = &play->input;
    struct world *world = play->world;
    uint64_t which = take(input, 1);
    uint64_t how = take(input, 1);
    size_t at = take(input, 2);
    uint8_t byte = (uint8_t)take(input, 1);
    if (world->state_count == 0) { return; }
    struct state *state = &world->states[which % world->state_count];
    if (state->size < 5) { return; }
    lose_faith(play, FAITH_NONE);
    uint8_t *exact = malloc(state->size);
    must(exact != NULL);
    memcpy(exact, state->bytes, state->size);
    at %= state->size - 4;
    switch (how % 4) {
    case 0: exact[at] ^= byte; break;
    case 1: exact[at] = byte; break;
    case 2:
        for (size_t i = at; i < state->size - 4 && i < at + 8; i++) { exact[i] = (uint8_t)take(input, 1); }
        break;
    default: state->size = at + 4; break;
    }
    if ((how & 0x80) == 0) { base_put_u32(exact + state->size - 4, codec_crc32c(0, exact, state->size - 4)); }
    free(state->bytes);
    state->bytes = malloc(state->size); /* exactly, so that one byte too far is seen */
    must(state->bytes != NULL);
    memcpy(state->bytes, exact, state->size);
    free(exact);
}

/* ---- the script ---------------------------------------------------------------------------------------------------------- */

static void find_time(struct play *play, int index)
{
    struct plog_ref ref = log_of(play, index);
    int64_t asked = 1700000000000 + (int64_t)take(&play->input, 1) * 250;
    run(play);
    uint64_t token = play->world->next_token; /* as world_read does */
    must(token < ANSWERS_MAX);
    play->world->answers[token] = (struct answer){0};
    if (plog_find_time(play->world->plog, ref, token, asked, &play->world->out) != BASE_OK) { return; }
    play->world->next_token += 1;
    run(play);
    struct answer *answer = world_answer(play->world, token);
    must(answer->is_done);
    if (play->faith != FAITH_WHOLE) { return; }
    must(answer->result == PLOG_OK);
    struct plog_view view = world_view(play->world, ref);
    must(answer->out.offset == -1 || (answer->out.offset >= view.offset_start && answer->out.offset < view.watermark));
    must(answer->out.offset == -1 || answer->out.timestamp_ms >= asked);
    must(answer->out.offset != -1 || view.timestamp_max < asked || view.offset_start > 0);
}

static void move_start(struct play *play, int index)
{
    struct plog_ref ref = log_of(play, index);
    struct plog_view view = world_view(play->world, ref);
    int64_t offset = view.offset_start + (int64_t)take(&play->input, 1);
    uint64_t token = play->world->next_token;
    must(token < ANSWERS_MAX);
    play->world->answers[token] = (struct answer){0};
    offset = base_min_i64(offset, view.watermark);
    if (plog_move_start(play->world->plog, ref, token, offset, &play->world->out) == BASE_OK) {
        play->world->next_token += 1;
    }
    run(play);
}

static void delete_log(struct play *play, int index)
{
    struct plog_ref ref = plog_find(play->world->plog, world_part(index));
    if (ref.generation == 0) { return; }
    plog_delete(play->world->plog, ref, &play->world->out);
    play->models[index] = (struct model){.is_deleted = true};
    run(play);
}

static void change_what_is_there(struct play *play, enum op op, uint64_t opcode)
{
    go_down(play, CRASH_PROCESS);
    switch ((int)op) {
    case OP_CHANGE_FILE: change_file(play); break;
    case OP_CHANGE_ENTRY: change_entry(play); break;
    case OP_CHANGE_STATE: change_state(play); break;
    default:
        play->world->mark_damaged = true;
        lose_faith(play, FAITH_NONE);
        break;
    }
    if ((opcode & 0x80) == 0) { come_up(play); }
}

static void operate(struct play *play)
{
    uint64_t opcode = take(&play->input, 1);
    enum op op = (enum op)(opcode % 16);
    int index = (int)(opcode >> 4) % LOGS;
    bool is_of_log = op < OP_CHECKPOINT || op == OP_MOVE_START || op == OP_FIND_TIME || op == OP_DELETE;
    if (is_of_log && play->models[index].is_deleted) { return; }
    if (op < OP_CHANGE_FILE || op == OP_DELETE) { come_up(play); }
    switch ((int)op) {
    case OP_CHECKPOINT:
        if (play->world->is_capturing) { run(play); }
        must(!play->world->is_capturing); /* a checkpoint always ends */
        world_checkpoint(play->world);
        if ((opcode & 0x80) == 0) { run(play); }
        break;
    case OP_CRASH: {
        static const enum crash crashes[] = {CRASH_PROCESS, CRASH_POWER, CRASH_TORN};
        go_down(play, crashes[(opcode >> 4) % 3]);
        break;
    }
    case OP_ALARM:
        run(play);
        world_alarm(play->world, take(&play->input, 1) * 100);
        break;
    case OP_MOVE_START: move_start(play, index); break;
    case OP_STOP:
        if (play->faith != FAITH_WHOLE) { break; }
        world_stop(play->world);
        play->is_down = false;
        go_down(play, CRASH_POWER);
        break;
    case OP_FIND_TIME: find_time(play, index); break;
    case OP_CHANGE_FILE:
    case OP_CHANGE_ENTRY:
    case OP_CHANGE_STATE:
    case OP_MARK_DAMAGED: change_what_is_there(play, op, opcode); break;
    case OP_DELETE: delete_log(play, index); break;
    case OP_START: come_up(play); break;
    default: append(play, index, (opcode & 0x80) == 0); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t bounds[] = {1, 2, 7, 100};
    if (setenv("CMOCKA_TEST_ABORT", "1", 1) != 0) { abort(); } /* the world's own checks */
    static struct play play;
    play = (struct play){.input = {.at = data, .left = size}};
    uint32_t steer = (uint32_t)take(&play.input, 1);
    struct world *world = world_make(take(&play.input, 1));
    play.world = world;
    world->is_shuffled = (steer & 8) != 0;
    world->config.step_max = bounds[steer & 3];
    world->config.logs_max = 8;
    world->config.segments_max = 64;
    world->log_config.is_page_cache = (steer & 4) != 0;
    if ((steer & 4) != 0) { world->log_config.flush_messages = 1; }
    world->log_config.segment_bytes = (steer & 16) != 0 ? 2000 : 1 << 20;
    world->config.inline_bytes_max = (steer & 32) != 0 ? 1 : 4096;
    world_start(world);
    for (uint32_t i = 0; i < OPS_MAX && play.input.left > 0; i++) { operate(&play); }
    come_up(&play);
    go_down(&play, CRASH_PROCESS);
    come_up(&play);
    for (int i = 0; i < LOGS; i++) {
        if (!play.models[i].is_deleted) { append(&play, i, true); }
    }
    world_free(world);
    return 0;
}
