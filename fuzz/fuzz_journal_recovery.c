/* fuzz_journal_recovery.c: any content of a journal's directory: recovery ends, within bounds, and the journal then works.
 *
 * Input   a first byte that steers (bits 0 to 2: the bound of a step; bit 3: reads and writes are short), then operations that
 *         fill the directory, each an opcode and its arguments: raw bytes, whole groups, line pages and checkpoints with
 *         good CRCs and any fields, flipped bits. So the fuzzer need not find a CRC.
 * Checks  the number of effects is bounded; every out comes with bytes that can be read; a journal that says it can be used
 *         takes an entry, and a second start gives that entry back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "codec/codec.h"
#include "input.h"
#include "journal/journal.h"
#include "journal__format.h"

#define FILES_MAX   16
#define FILE_ROOM   ((size_t)160 * 1024)
#define FILE_BYTES  65536u
#define PAGES_BYTES ((size_t)16 * 1024 * 1024)
#define STEPS_MAX   200000
#define ALARMS_MAX  (2 * JOURNAL_TRIES_MAX)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct file {
    char path[64];
    uint8_t *bytes; /* FILE_ROOM */
    size_t size_bytes;
};

struct world {
    struct file files[FILES_MAX];
    uint32_t file_count;
    uint32_t open[JOURNAL_FILES]; /* file index + 1, by slot */
    bool is_short;
    bool is_full; /* a write found no room */
    uint32_t steps;
    uint64_t now_ns;
    uint64_t entry_seen; /* times the entry of the first start came back in the second */
};

static const struct base_uuid journal_id = {{9, 9, 9}};
static bool is_told; /* WEIR_FUZZ_TRACE: what the input makes, and what the journal says, to stderr */

/* ---- the directory ------------------------------------------------------------------------------------------------------ */

static struct file *find(struct world *world, const char *path)
{
    for (uint32_t i = 0; i < world->file_count; i++) {
        if (strcmp(world->files[i].path, path) == 0) { return &world->files[i]; }
    }
    return NULL;
}

static struct file *make(struct world *world, const char *path)
{
    struct file *file = find(world, path);
    if (file != NULL || world->file_count == FILES_MAX) { return file; }
    file = &world->files[world->file_count];
    memset(file->path, 0, sizeof file->path);
    memcpy(file->path, path, strlen(path));
    file->size_bytes = 0;
    if (file->bytes == NULL) { file->bytes = malloc(FILE_ROOM); }
    memset(file->bytes, 0, FILE_ROOM);
    world->file_count += 1;
    return file;
}

static struct file *target(struct world *world, uint32_t which)
{
    char path[64];
    struct base_text text;
    base_text_init(&text, path, sizeof path);
    which %= 8;
    if (which < 2) {
        journal__name_checkpoint(&text, which);
    } else if (which < 7) {
        journal__name_file(&text, which - 2);
    } else {
        base_text_add(&text, JOURNAL__DIR "/0000009999.wj");
    }
    return make(world, path);
}

static void store(struct file *file, size_t at, const uint8_t *bytes, size_t size_bytes)
{
    if (file == NULL || at > FILE_ROOM || size_bytes > FILE_ROOM - at) { return; }
    if (size_bytes > 0) { memcpy(file->bytes + at, bytes, size_bytes); }
    if (at + size_bytes > file->size_bytes) { file->size_bytes = at + size_bytes; }
}

static void build_group(struct world *world, struct input *input)
{
    static uint8_t group[FILE_BYTES];
    uint32_t page = take_u32(input, 1) % 80;
    struct journal__head head = {.id = journal_id};
    head.life = take_u32(input, 1) % 4;
    head.sequence = take_u32(input, 1) % 32;
    uint32_t flags = take_u32(input, 1);
    uint32_t payload = take_u32(input, 1) * 64;
    head.row_count = (flags & 3) == 0 ? flags / 4 % 8 : 0;
    head.is_line = (flags & 3) == 1;
    head.is_more = (flags & 3) == 2;
    head.payload_bytes = head.row_count == 0 ? 0 : payload;
    head.position = (uint64_t)page * 4096;
    head.line = base_min_u64((uint64_t)(take_u32(input, 1) % 80) * 4096, head.position);
    head.checkpoint = take_u32(input, 1) % 8;
    head.bytes = journal__group_bytes(head.row_count, head.payload_bytes);
    memset(group, 0, sizeof group);
    uint64_t table = journal__table_bytes(head.row_count);
    journal__put_head(group, &head);
    uint64_t at = table;
    for (uint32_t i = 0; i < head.row_count; i++) {
        uint64_t bytes =
            i + 1 == head.row_count ? table + head.payload_bytes - at : head.payload_bytes / head.row_count;
        bool is_bad = (take_u32(input, 1) & 7) == 7;
        struct journal__row row = {.payload_at = at};
        row.entry = (struct journal_entry){.kind = 1, .has_bytes = true, .offset_base = 5, .size_bytes = bytes};
        row.entry.crc = codec_crc32c(0, group + at, bytes) ^ (is_bad ? 1u : 0u);
        journal__put_row(group + JOURNAL__HEAD_BYTES + (size_t)i * JOURNAL__ROW_BYTES, &row, &head);
        at += bytes;
    }
    memcpy(group + head.bytes - JOURNAL__TRAILER_BYTES - table, group, table);
    journal__put_trailer(group + head.bytes - JOURNAL__TRAILER_BYTES,
                         (struct journal__trailer){head.position, (uint32_t)table});
    if (is_told) {
        (void)fprintf(stderr,
                      "group: page %u, life %u, seq %u, rows %u, line %d more %d, bytes %u, line page %u, ck %u\n",
                      page, head.life, (unsigned)head.sequence, head.row_count, head.is_line, head.is_more,
                      (unsigned)head.bytes, (unsigned)head.line / 4096, (unsigned)head.checkpoint);
    }
    uint64_t offset = head.position % FILE_BYTES;
    if (offset + head.bytes > FILE_BYTES) { return; }
    store(target(world, 2 + page / 16), offset, group, head.bytes);
}

static void build_checkpoint(struct world *world, struct input *input)
{
    static uint8_t bytes[8192];
    uint32_t which = take_u32(input, 1) % 2;
    struct journal__ck_head head = {.id = journal_id, .file_bytes = FILE_BYTES};
    head.sequence = take_u32(input, 1) % 8;
    head.life = take_u32(input, 1) % 4;
    head.begin = (uint64_t)(take_u32(input, 1) % 80) * 4096;
    head.begin_sequence = take_u32(input, 1) % 32;
    uint32_t flags = take_u32(input, 1);
    if ((flags & 0x40) != 0) { head.file_bytes = take_u32(input, 4); }
    if ((flags & 0x80) != 0) { head.begin = (uint64_t)take_u32(input, 4) * 4096; }
    journal__put_ck_head(bytes, &head);
    struct journal__ck_end end = {.sequence = head.sequence, .is_clean = (flags & 1) != 0};
    end.line = (uint64_t)(take_u32(input, 1) % 80) * 4096;
    end.crc_all = codec_crc32c(0, bytes, JOURNAL__CK_HEAD_BYTES);
    size_t at = JOURNAL__CK_HEAD_BYTES;
    end.count = flags / 2 % 4;
    for (uint64_t i = 0; i < end.count; i++) {
        struct journal__ck_state state = {.sequence = head.sequence, .index = i, .size_bytes = take_u32(input, 1) * 4};
        memset(bytes + at + JOURNAL__CK_STATE_BYTES, (int)i, state.size_bytes);
        state.crc = codec_crc32c(0, bytes + at + JOURNAL__CK_STATE_BYTES, state.size_bytes);
        if ((flags & 0x20) != 0) { state.size_bytes = take_u32(input, 4); }
        journal__put_ck_state(bytes + at, &state);
        end.crc_all = codec_crc32c(end.crc_all, bytes + at, JOURNAL__CK_STATE_BYTES);
        at += JOURNAL__CK_STATE_BYTES + ((flags & 0x20) != 0 ? 0 : state.size_bytes);
    }
    journal__put_ck_end(bytes + at, &end);
    store(target(world, which), 0, bytes, at + JOURNAL__CK_END_BYTES);
}

static void fill(struct world *world, struct input *input)
{
    while (input->left > 0) {
        switch (take_u32(input, 1) % 5) {
        case 0: {
            struct file *file = target(world, take_u32(input, 1));
            size_t at = take_u32(input, 3) % FILE_ROOM;
            size_t size_bytes = take_u32(input, 2);
            size_bytes = base_min_size(size_bytes, input->left); /* left as it is after the take */
            store(file, at, input->at, size_bytes);
            input->at += size_bytes;
            input->left -= size_bytes;
            break;
        }
        case 1: build_group(world, input); break;
        case 2: build_checkpoint(world, input); break;
        case 3: {
            struct file *file = target(world, take_u32(input, 1));
            size_t at = take_u32(input, 3) % FILE_ROOM;
            uint8_t mask = (uint8_t)take_u32(input, 1);
            if (file != NULL && at < file->size_bytes) { file->bytes[at] ^= mask; }
            break;
        }
        case 4: {
            struct file *file = target(world, take_u32(input, 1));
            size_t size_bytes = take_u32(input, 3) % FILE_ROOM;
            if (file != NULL) {
                file->size_bytes = size_bytes;
                memset(file->bytes + size_bytes, 0, FILE_ROOM - size_bytes); /* past the end a file is zeros */
            }
            break;
        }
        default: break;
        }
    }
}

/* ---- effects -------------------------------------------------------------------------------------------------------------- */

static uint64_t list(struct world *world, const struct port_effect *effect)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < world->file_count; i++) { /* not sorted: nothing depends on it */
        const char *name = world->files[i].path + strlen(JOURNAL__DIR) + 1;
        size_t size_bytes = strlen(name);
        CHECK(used + PORT_ENTRY_HEAD_BYTES + size_bytes <= effect->size_bytes);
        uint8_t *at = effect->buffer + used;
        at[0] = 0;
        base_put_u64(at + 1, world->files[i].size_bytes);
        base_put_u16(at + 9, (uint16_t)size_bytes);
        memcpy(at + PORT_ENTRY_HEAD_BYTES, name, size_bytes);
        used += PORT_ENTRY_HEAD_BYTES + size_bytes;
    }
    return used;
}

static enum port_rc open_one(struct world *world, const struct port_effect *effect, const char *path, uint64_t *count)
{
    struct file *file = find(world, path);
    if (file == NULL && (effect->flags & PORT_OPEN_CREATE) == 0) { return PORT_MISSING; }
    if (file == NULL) { file = make(world, path); }
    if (file == NULL) { return PORT_NO_SPACE; }
    CHECK(effect->file.slot < JOURNAL_FILES && world->open[effect->file.slot] == 0);
    world->open[effect->file.slot] = (uint32_t)(file - world->files) + 1;
    *count = file->size_bytes;
    return PORT_OK;
}

static enum port_rc use_file(struct world *world, const struct port_effect *effect, uint64_t *count)
{
    CHECK(effect->file.slot < JOURNAL_FILES && world->open[effect->file.slot] != 0);
    struct file *file = &world->files[world->open[effect->file.slot] - 1];
    uint64_t limit = world->is_short ? 1000 : UINT64_MAX;
    if (effect->kind == PORT_CLOSE_FILE) { world->open[effect->file.slot] = 0; }
    if (effect->kind == PORT_READ) {
        uint64_t left = effect->position_bytes < file->size_bytes ? file->size_bytes - effect->position_bytes : 0;
        *count = base_min_u64(base_min_u64(left, effect->size_bytes), limit);
        if (*count > 0) { memcpy(effect->buffer, file->bytes + effect->position_bytes, *count); }
    }
    if (effect->kind == PORT_WRITE) {
        for (uint32_t i = 0; i < effect->piece_count && *count < limit; i++) {
            uint64_t bytes = base_min_u64(effect->pieces[i].size_bytes, limit - *count);
            uint64_t at = effect->position_bytes + *count;
            if (at > FILE_ROOM || bytes > FILE_ROOM - at) {
                world->is_full = true;
                return PORT_NO_SPACE;
            }
            store(file, at, effect->pieces[i].at, bytes);
            *count += bytes;
        }
    }
    return PORT_OK;
}

static void carry_out(struct world *world, const struct port_effect *effect, struct port_event *event)
{
    char path[64] = "";
    if (effect->path.size_bytes > 0) { memcpy(path, effect->path.at, effect->path.size_bytes); }
    event->kind = PORT_EVENT_DONE;
    event->done.effect = effect->kind;
    event->done.token = effect->token;
    event->done.file = effect->file;
    uint64_t count = 0;
    bool is_file = effect->kind == PORT_READ || effect->kind == PORT_WRITE || effect->kind == PORT_SYNC ||
                   effect->kind == PORT_CLOSE_FILE || effect->kind == PORT_ALLOCATE;
    if (effect->kind == PORT_MAKE_DIR) {
        event->done.rc = PORT_EXISTS;
    } else if (effect->kind == PORT_LIST) {
        count = list(world, effect);
    } else if (effect->kind == PORT_OPEN) {
        event->done.rc = open_one(world, effect, path, &count);
    } else if (effect->kind == PORT_RENAME || effect->kind == PORT_UNLINK) {
        event->done.rc = PORT_MISSING; /* old files are not used again: FILES_MAX is small */
    } else if (is_file) {
        event->done.rc = use_file(world, effect, &count);
    }
    event->done.count = count;
    if (is_told) {
        (void)fprintf(stderr, "%s slot %u %s, at %llu, %llu bytes: %s, %llu\n", port_effect_name(effect->kind),
                      effect->file.slot, path, (unsigned long long)effect->position_bytes,
                      (unsigned long long)effect->size_bytes, port_rc_name(event->done.rc), (unsigned long long)count);
    }
}

/* ---- a start ---------------------------------------------------------------------------------------------------------------- */

struct start {
    struct world *world;
    struct journal *journal;
    struct port_out out;
    struct port_effect queue[64];
    uint32_t queued;
    bool is_replayed, is_good, is_synced, is_stopped;
    uint32_t sum;
};

static void tell_out(const struct journal_out *given)
{
    if (!is_told) { return; }
    (void)fprintf(stderr, "JOURNAL_OUT %d: at page %llu, kind %u, result %d%s%s\n", (int)given->kind,
                  (unsigned long long)given->position_bytes / 4096, given->entry.kind, (int)given->result,
                  given->is_damaged ? ", damaged" : "", given->is_clean ? ", clean" : "");
}

static void drain(struct start *start)
{
    struct journal_out given;
    for (;;) {
        for (uint32_t i = 0; i < start->out.effect_count; i++) {
            if (start->out.effects[i].kind == PORT_LOG) { continue; }
            CHECK(start->queued < BASE_ARRAY_COUNT(start->queue));
            start->queue[start->queued++] = start->out.effects[i];
        }
        bool wants_turn = start->out.wants_turn;
        port_out_begin(&start->out);
        start->out.wants_turn = wants_turn;
        if (!journal_poll(start->journal, &given)) { return; }
        tell_out(&given);
        if (given.kind == JOURNAL_OUT_STATE || given.kind == JOURNAL_OUT_REPLAY) {
            CHECK(!start->is_replayed);
            start->sum = codec_crc32c(start->sum, given.bytes.at, given.bytes.size_bytes); /* the bytes are there */
            bool is_mine = given.kind == JOURNAL_OUT_REPLAY && given.entry.kind == 77 && !given.is_damaged;
            start->world->entry_seen += is_mine ? 1 : 0;
            /* A row as the operations make them, or as this target appends: whatever else a flipped bit made, its sum was wrong. */
            CHECK(given.entry.kind != 1 || given.kind == JOURNAL_OUT_STATE || given.entry.offset_base == 5);
            CHECK(given.entry.kind != 77 || given.entry.size_bytes == 100);
            journal_taken(start->journal, &start->out);
        }
        if (given.kind == JOURNAL_OUT_REPLAYED) {
            start->is_replayed = true;
            start->is_good = given.result == PORT_OK;
        }
        if (given.kind == JOURNAL_OUT_SYNCED) { start->is_synced = given.result == PORT_OK; }
        if (given.kind == JOURNAL_OUT_STOPPED) { start->is_stopped = true; }
    }
}

/* On a full disk the journal writes again after a while, for as long as it takes; at a stop only a few times. */
static bool passes_time(struct start *start, uint32_t *alarms)
{
    uint64_t at_ns = journal_next_alarm_ns(start->journal);
    if (at_ns == UINT64_MAX || *alarms == ALARMS_MAX) { return false; }
    *alarms += 1;
    start->world->now_ns = base_max_u64(start->world->now_ns, at_ns);
    start->out.wants_turn = true;
    return true;
}

static void run(struct start *start)
{
    uint32_t alarms = 0;
    drain(start);
    while (start->queued > 0 || start->out.wants_turn || passes_time(start, &alarms)) {
        CHECK(start->world->steps++ < STEPS_MAX);
        start->world->now_ns += 1;
        if (start->queued > 0) {
            struct port_effect effect = start->queue[0];
            start->queued -= 1;
            memmove(&start->queue[0], &start->queue[1], start->queued * sizeof start->queue[0]);
            struct port_event event = {.now_ns = start->world->now_ns};
            carry_out(start->world, &effect, &event);
            journal_done(start->journal, &event, &start->out);
        } else {
            struct port_event event = {.kind = PORT_EVENT_TURN, .now_ns = start->world->now_ns};
            start->out.wants_turn = false;
            journal_turn(start->journal, &event, &start->out);
        }
        drain(start);
    }
}

/* True: it could be used, and the entry was acknowledged. */
static bool start_once(struct world *world, const struct journal_config *config, void *memory, size_t arena_bytes,
                       bool appends)
{
    static struct port_effect effects[64];
    static char text[4096];
    struct start start = {.world = world};
    start.out = (struct port_out){.effects = effects, .effects_max = 64, .text = text, .text_bytes = sizeof text};
    port_out_begin(&start.out);
    struct base_arena arena;
    struct base_pages *pages = NULL;
    const size_t reserve[BASE_CLASS_COUNT] = {0, 0, 0};
    uint8_t *pages_memory = (uint8_t *)memory;
    memset(pages_memory, 0, base_pages_tables_bytes(PAGES_BYTES));
    base_arena_init(&arena, pages_memory + PAGES_BYTES, arena_bytes);
    CHECK(base_pages_create((struct base_region){.at = pages_memory, .size_bytes = PAGES_BYTES}, reserve, &pages) ==
          BASE_OK);
    CHECK(journal_create(&arena, pages, config, &start.journal) == BASE_OK);
    memset(world->open, 0, sizeof world->open);
    if (is_told) { (void)fprintf(stderr, "-- start\n"); }
    journal_start(start.journal, &start.out);
    run(&start);
    CHECK(start.is_replayed);
    CHECK(base_pages_block_count(pages) == 0);
    if (start.is_good && appends) {
        journal_recovered(start.journal, &start.out);
        static const uint8_t bytes[100] = {1, 2, 3};
        struct journal_entry entry = {.kind = 77, .has_bytes = true, .size_bytes = sizeof bytes};
        entry.crc = codec_crc32c(0, bytes, sizeof bytes);
        const struct port_piece piece = {.kind = PORT_MEMORY, .at = bytes, .size_bytes = sizeof bytes};
        CHECK(journal_append(start.journal, &entry, &piece, 1, 1, &start.out) == BASE_OK);
        run(&start);
    }
    journal_stop(start.journal, &start.out);
    run(&start);
    CHECK(start.is_stopped);
    return start.is_good && (!appends || start.is_synced);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    static void *memory;
    struct input input = {.at = data, .left = size};
    uint32_t steer = take_u32(&input, 1);
    is_told = getenv("WEIR_FUZZ_TRACE") != NULL;
    struct journal_config config = {.entries_max = 16,
                                    .group_bytes_max = 16384,
                                    .file_bytes = FILE_BYTES,
                                    .bytes_max = 1u << 20,
                                    .step_max = 1 + (steer & 7) * 50,
                                    .format_id = journal_id,
                                    .is_check_slow = true};
    size_t arena_bytes = journal_arena_bytes(&config);
    if (memory == NULL) { memory = aligned_alloc(4096, (PAGES_BYTES + arena_bytes + 4095) / 4096 * 4096); }
    world.file_count = 0;
    world.is_short = (steer & 8) != 0;
    world.steps = 0;
    world.now_ns = 0;
    world.entry_seen = 0;
    fill(&world, &input);
    bool is_good = start_once(&world, &config, memory, arena_bytes, true);
    world.entry_seen = 0;
    world.is_full = false;
    bool is_good_again = start_once(&world, &config, memory, arena_bytes, false);
    if (is_good) {
        CHECK(is_good_again || world.is_full);
        CHECK(world.entry_seen == 1);
    }
    return 0;
}
