/* host.c: see host.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host.h"

#include "codec/codec.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGES_BYTES (4u * 1024u * 1024u)

struct journal_config host_config(void)
{
    return (struct journal_config){
        .shard = 0,
        .disk = 0,
        .file_slot_first = 100,
        .entries_max = 64,
        .group_bytes_max = 32768,
        .file_bytes = 65536,
        .bytes_max = 1u << 20,
        .step_max = 7,
        .format_id = {{1, 2, 3}},
        .is_check_slow = true,
    };
}

void host_bytes_of(uint64_t entry, uint8_t *at, uint64_t size_bytes)
{
    uint64_t word = entry * UINT64_C(0x9e3779b97f4a7c15) + 12345;
    for (uint64_t i = 0; i < size_bytes; i++) {
        if (i % 8 == 0) { word = word * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407); }
        at[i] = (uint8_t)(word >> (8 * (i % 8)));
    }
}

struct host *host_make(struct fake_disk *disk, const struct journal_config *config)
{
    struct host *host = calloc(1, sizeof *host);
    host->disk = disk;
    size_t bytes = journal_arena_bytes(config);
    host->arena_memory = calloc(1, bytes);
    host->pages_memory = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(host->pages_memory != MAP_FAILED);
    const size_t reserve[BASE_CLASS_COUNT] = {0, 0, 0};
    struct base_arena arena;
    base_arena_init(&arena, host->arena_memory, bytes);
    struct base_region region = {.at = host->pages_memory, .size_bytes = PAGES_BYTES};
    assert_int_equal(base_pages_create(region, reserve, &host->pages), BASE_OK);
    assert_int_equal(journal_create(&arena, host->pages, config, &host->journal), BASE_OK);
    host->out.effects_max = 256;
    host->out.effects = calloc(host->out.effects_max, sizeof *host->out.effects);
    host->out.text_bytes = 4096;
    host->out.text = calloc(1, host->out.text_bytes);
    host->effects_of_step_max = 0;
    host->now.kind = PORT_EVENT_TURN;
    host->checks_durable = true;
    return host;
}

struct fake_disk *host_free(struct host *host)
{
    struct fake_disk *disk = host->disk;
    for (uint32_t i = 0; i < HOST_ENTRIES; i++) { free(host->bytes[i]); }
    free(host->out.effects);
    free(host->out.text);
    free(host->arena_memory);
    (void)munmap(host->pages_memory, PAGES_BYTES);
    free(host);
    return disk;
}

/* After every call into the machine: at most JOURNAL_EFFECTS_MAX effects, which go to the disk. */
static void flush(struct host *host)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < host->out.effect_count; i++) {
        if (host->out.effects[i].kind == PORT_LOG) { continue; }
        fake_disk_ask(host->disk, &host->out.effects[i]);
        count += 1;
    }
    assert_true(host->out.effect_count <= JOURNAL_EFFECTS_MAX);
    if (count > host->effects_of_step_max) { host->effects_of_step_max = count; }
    bool wants_turn = host->out.wants_turn;
    port_out_begin(&host->out);
    host->out.wants_turn = wants_turn;
}

static void on_replay(struct host *host, const struct journal_out *given)
{
    uint64_t entry = (uint64_t)given->entry.offset_base;
    assert_true(host->replayed_count < HOST_ENTRIES);
    host->replayed_bad[host->replayed_count] = given->is_damaged;
    host->replayed[host->replayed_count] = entry;
    host->replayed_count += 1;
    if (given->is_damaged) {
        host->replayed_bad_count += 1;
        return;
    }
    assert_int_equal(given->entry.kind, entry % 251);
    assert_int_equal(given->entry.id.index, (int32_t)entry);
    assert_int_equal(given->bytes.size_bytes, given->entry.has_bytes ? given->entry.size_bytes : 0);
    if (given->entry.has_bytes) {
        uint8_t *bytes = malloc(given->bytes.size_bytes + 1);
        host_bytes_of(entry, bytes, given->bytes.size_bytes);
        if (given->bytes.size_bytes > 0) { assert_memory_equal(bytes, given->bytes.at, given->bytes.size_bytes); }
        free(bytes);
    }
}

static void on_synced(struct host *host, const struct journal_out *given)
{
    uint64_t entry = host->acked + host->failed + 1;
    assert_int_equal(given->token, entry);
    if (given->result == PORT_OK) {
        assert_int_equal(host->failed, 0);
        host->acked += 1;
        uint64_t size = host->sizes[entry % HOST_ENTRIES];
        bool is_durable = !host->checks_durable || size < 8 ||
                          fake_disk_durable_has(host->disk, host->bytes[entry % HOST_ENTRIES], size);
        if (!is_durable) { host->not_durable += 1; }
    } else {
        host->failed += 1;
        host->failed_rc = given->result;
    }
    free(host->bytes[entry % HOST_ENTRIES]);
    host->bytes[entry % HOST_ENTRIES] = NULL;
}

static void drain(struct host *host)
{
    struct journal_out given;
    flush(host);
    while (journal_poll(host->journal, &given)) {
        switch (given.kind) {
        case JOURNAL_OUT_STATE:
            assert_int_equal(given.bytes.size_bytes, 8);
            host->state = base_get_u64(given.bytes.at);
            host->state_count += 1;
            journal_taken(host->journal, &host->out);
            break;
        case JOURNAL_OUT_REPLAY:
            on_replay(host, &given);
            if (host->replayed_count == host->fails_disk_at) { journal_fail(host->journal, PORT_IO, &host->out); }
            journal_taken(host->journal, &host->out);
            break;
        case JOURNAL_OUT_DAMAGE: host->damage_count += 1; break;
        case JOURNAL_OUT_REPLAYED:
            assert_false(host->is_replayed);
            host->is_replayed = true;
            host->replay_rc = given.result;
            host->is_clean = given.is_clean;
            host->is_torn = given.is_torn;
            assert_int_equal(base_pages_block_count(host->pages), 0);
            break;
        case JOURNAL_OUT_SYNCED: on_synced(host, &given); break;
        case JOURNAL_OUT_FAILED:
            host->is_disk_failed = true;
            host->disk_failed_count += 1;
            break;
        case JOURNAL_OUT_WANT_CHECKPOINT:
            host->wants_checkpoint = true;
            host->want_count += 1;
            break;
        case JOURNAL_OUT_STATE_WRITTEN: host->states_written += 1; break;
        case JOURNAL_OUT_CHECKPOINTED:
            host->is_checkpointing = false;
            host->is_checkpointed = true;
            host->checkpoint_rc = given.result;
            break;
        case JOURNAL_OUT_WANT_HANDLE: host->handle_want_count += 1; break;
        case JOURNAL_OUT_STOPPED: host->is_stopped = true; break;
        }
        flush(host);
    }
    assert_true(journal_is_sound(host->journal));
}

void host_turn(struct host *host)
{
    host->out.wants_turn = false;
    host->now.now_ns += 1000;
    journal_turn(host->journal, &host->now, &host->out);
    drain(host);
    assert_true(journal_next_alarm_ns(host->journal) > host->now.now_ns); /* one in the past comes for ever */
}

/* Nothing is ordered across files: a close may take longer than all that comes after it. */
static uint32_t next_effect(const struct host *host)
{
    for (uint32_t i = 0; host->holds_closes && i < host->disk->queue_count; i++) {
        if (host->disk->queue[i].effect.kind != PORT_CLOSE_FILE) { return i; }
    }
    return 0;
}

bool host_do(struct host *host)
{
    if (host->effects_max != 0 && host->disk->done_count >= host->effects_max) {
        host->is_cut_off = true;
        return false;
    }
    struct port_event event;
    if (!fake_disk_do_at(host->disk, next_effect(host), &event)) { return false; }
    host->now.now_ns += 1000;
    event.now_ns = host->now.now_ns;
    journal_done(host->journal, &event, &host->out);
    drain(host);
    return true;
}

void host_run(struct host *host)
{
    for (uint32_t steps = 0;; steps++) {
        assert_true(steps < 1000000);
        if (host->out.wants_turn) {
            host_turn(host);
            continue;
        }
        if (host_do(host)) { continue; }
        if (host->is_cut_off) { return; }
        if (host->answers_checkpoints && host->wants_checkpoint && !host->is_checkpointing && !host->is_disk_failed) {
            host_checkpoint(host, false);
            continue;
        }
        return;
    }
}

void host_start(struct host *host)
{
    journal_start(host->journal, &host->out);
    drain(host);
    host_run(host);
    if (!host->is_replayed || host->replay_rc != PORT_OK) { return; }
    journal_recovered(host->journal, &host->out);
    drain(host);
    host_run(host);
}

bool host_append(struct host *host, uint64_t size_bytes)
{
    uint64_t entry = host->appended + 1;
    uint64_t slot = entry % HOST_ENTRIES;
    assert_null(host->bytes[slot]);
    uint8_t *bytes = malloc(size_bytes + 1);
    host_bytes_of(entry, bytes, size_bytes);
    struct journal_entry journal_entry = {
        .kind = (uint8_t)(entry % 251),
        .has_bytes = true,
        .id = {.index = (int32_t)entry},
        .segment_base = -5,
        .offset_base = (int64_t)entry,
        .offset_end = (int64_t)entry + 1,
        .crc = codec_crc32c(0, bytes, size_bytes),
        .size_bytes = size_bytes,
    };
    const struct port_piece pieces[2] = {
        {.kind = PORT_MEMORY, .at = bytes, .size_bytes = size_bytes / 3},
        {.kind = PORT_MEMORY, .at = bytes + size_bytes / 3, .size_bytes = size_bytes - size_bytes / 3},
    };
    enum base_rc rc = journal_append(host->journal, &journal_entry, pieces, 2, entry, &host->out);
    if (rc != BASE_OK) {
        free(bytes);
        return false;
    }
    host->appended += 1;
    host->sizes[slot] = size_bytes;
    host->bytes[slot] = bytes;
    drain(host);
    return true;
}

void host_checkpoint(struct host *host, bool is_clean)
{
    host->wants_checkpoint = false;
    host->is_checkpointed = false;
    base_put_u64(host->state_bytes, host->acked);
    if (!journal_checkpoint_begin(host->journal, &host->out)) { return; }
    host->is_checkpointing = true;
    drain(host);
    struct base_slice state = base_slice_of(host->state_bytes, sizeof host->state_bytes);
    assert_int_equal(journal_checkpoint_add(host->journal, state, 77, &host->out), BASE_OK);
    journal_checkpoint_end(host->journal, is_clean, &host->out);
    drain(host);
    host_run(host);
}

void host_stop(struct host *host)
{
    journal_stop(host->journal, &host->out);
    drain(host);
    host_run(host);
}

void host_settle(struct host *host)
{
    host_run(host);
    for (int i = 0; i < 100 && journal_next_alarm_ns(host->journal) != UINT64_MAX; i++) {
        host->now.now_ns = base_max_u64(host->now.now_ns, journal_next_alarm_ns(host->journal));
        host_turn(host);
        host_run(host);
    }
}

static void expect_one(struct host *host, uint64_t acked, uint64_t appended)
{
    if (host->replay_rc != PORT_OK || host->damage_count != 0) {
        fail_msg("recovery: %s, %u damages", port_rc_name(host->replay_rc), host->damage_count);
    }
    uint64_t next = host->state + 1;
    for (uint32_t i = 0; i < host->replayed_count; i++) {
        assert_false(host->replayed_bad[i]);
        if (host->replayed[i] <= host->state) { continue; } /* covered by the state already */
        assert_int_equal(host->replayed[i], next);
        next += 1;
    }
    if (next - 1 < acked) {
        fail_msg("acknowledged %llu, came back %llu", (unsigned long long)acked, (unsigned long long)next - 1);
    }
    assert_true(next - 1 <= appended);
}

uint64_t expect_recovers(const struct fake_disk *disk, const struct journal_config *config, uint64_t acked,
                         uint64_t appended)
{
    struct host *host = host_make(fake_disk_crash(disk, FAKE_KEEP_ALL, 0, 0, true), config);
    host->checks_durable = false;
    host_start(host);
    assert_true(host->is_replayed);
    expect_one(host, acked, appended);
    uint64_t came = host->state;
    if (host->replayed_count > 0 && host->replayed[host->replayed_count - 1] > came) {
        came = host->replayed[host->replayed_count - 1];
    }
    uint32_t effects = (uint32_t)host->disk->done_count;
    /* A crash after it changes nothing either: what was cut does not come back. */
    struct host *next = host_make(fake_disk_crash(host->disk, FAKE_KEEP_NOTHING, 0, 0, false), config);
    next->checks_durable = false;
    host_start(next);
    expect_one(next, came, came);
    fake_disk_free(host_free(next));
    fake_disk_free(host_free(host));
    /* A crash in the middle of that recovery changes nothing of what the next one gives. */
    static uint32_t turn; /* another place in each call */
    turn += 1;
    for (uint32_t cut = 1 + turn * 7 % effects; cut < effects; cut += effects) {
        host = host_make(fake_disk_crash(disk, FAKE_KEEP_ALL, 0, 0, true), config);
        host->checks_durable = false;
        host->effects_max = cut;
        host_start(host);
        struct fake_disk *again =
            fake_disk_crash(host->disk, cut % 2 == 0 ? FAKE_KEEP_NOTHING : FAKE_KEEP_ALL, 0, 0, false);
        fake_disk_free(host_free(host));
        host = host_make(again, config);
        host->checks_durable = false;
        host_start(host);
        expect_one(host, came, came);
        fake_disk_free(host_free(host));
    }
    return came;
}

/* ---- how most tests of a start begin and end ---- */

void host_append_all(struct host *host, uint32_t count, uint64_t size_bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_true(host_append(host, size_bytes));
        host_run(host);
    }
    assert_int_equal(host->acked, host->appended);
}

struct fake_disk *host_copy_of(const struct fake_disk *disk)
{
    return fake_disk_crash(disk, FAKE_KEEP_ALL, 0, 0, true);
}

struct host *host_recovered(struct fake_disk *disk, const struct journal_config *config)
{
    struct host *host = host_make(disk, config);
    host->checks_durable = false;
    host_start(host);
    assert_true(host->is_replayed);
    return host;
}

struct host *host_begun(const struct journal_config *config)
{
    struct host *host = host_recovered(fake_disk_make(), config);
    assert_int_equal(host->replay_rc, PORT_OK);
    return host;
}

void host_end(struct host *host) { fake_disk_free(host_free(host)); }
