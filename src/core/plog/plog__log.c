/* plog__log.c: create, open, views; who is ready; what comes out; the clock's work.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

#define NOTES_PER_LOG      12u
#define RETENTION_CHECK_MS ((uint64_t)300000)
#define RUN_BYTES_MAX      (64u << 10)
#define FLUSH_LOOK_NS      (UINT64_C(10) * NS_PER_MS)
#define WALL_AHEAD_MAX_MS  3600000
#define NS_PER_MS          UINT64_C(1000000)

/* ---- memory ---- */

static size_t pool_bytes(size_t slot_bytes, uint32_t count) { return ((slot_bytes + 15) / 16 * 16 + 4) * count + 64; }

static size_t map_bytes(uint32_t count) { return base_map_bytes(count) + 64; }

static uint32_t notes_max(const struct plog_config *config)
{
    uint64_t count = (uint64_t)config->appends_max * 4 + config->reads_max +
                     (uint64_t)config->logs_max * NOTES_PER_LOG + PLOG__LOOSE_NOTES_MAX + 64;
    CHECK(count < UINT32_MAX);
    return (uint32_t)count;
}

size_t plog_arena_bytes(const struct plog_config *config)
{
    return sizeof(struct plog) + 64 + pool_bytes(sizeof(struct plog__log), config->logs_max) +
           pool_bytes(sizeof(struct plog__segment), config->segments_max) +
           pool_bytes(sizeof(struct plog__append), config->appends_max) +
           pool_bytes(sizeof(struct plog__round), config->appends_max) +
           pool_bytes(sizeof(struct plog__read), config->reads_max) +
           pool_bytes(sizeof(struct plog__producer), config->producers_max) +
           (sizeof(struct plog__file) + 4) * (size_t)config->files_max + 64 + map_bytes(config->logs_max) +
           map_bytes(config->producers_max) + notes_max(config) * sizeof(struct plog__note) + 64 +
           map_bytes(config->logs_max) + sizeof(struct base_part) * (size_t)config->logs_max + 64;
}

static enum base_rc take_tables(struct base_arena *arena, const struct plog_config *config, struct plog *plog)
{
    if (base_pool_create(arena, sizeof(struct plog__log), config->logs_max, &plog->logs) != BASE_OK ||
        base_pool_create(arena, sizeof(struct plog__segment), config->segments_max, &plog->segments) != BASE_OK ||
        base_pool_create(arena, sizeof(struct plog__append), config->appends_max, &plog->appends) != BASE_OK ||
        base_pool_create(arena, sizeof(struct plog__round), config->appends_max, &plog->rounds) != BASE_OK ||
        base_pool_create(arena, sizeof(struct plog__read), config->reads_max, &plog->reads) != BASE_OK ||
        base_pool_create(arena, sizeof(struct plog__producer), config->producers_max, &plog->producers) != BASE_OK ||
        base_map_create(arena, config->logs_max, &plog->by_id) != BASE_OK ||
        base_map_create(arena, config->producers_max, &plog->by_producer) != BASE_OK ||
        base_map_create(arena, config->logs_max, &plog->by_orphan) != BASE_OK) {
        return BASE_FULL;
    }
    plog->files = base_arena_take_array(arena, config->files_max, sizeof(struct plog__file));
    plog->free_files = base_arena_take_array(arena, config->files_max, sizeof(uint32_t));
    plog->orphans = base_arena_take_array(arena, config->logs_max, sizeof(struct base_part));
    plog->notes_max = notes_max(config);
    plog->notes = base_arena_take(arena, plog->notes_max * sizeof(struct plog__note));
    return plog->files == NULL || plog->free_files == NULL || plog->orphans == NULL || plog->notes == NULL ? BASE_FULL
                                                                                                           : BASE_OK;
}

enum base_rc plog_create(struct base_arena *arena, struct base_pages *pages, const struct plog_config *config,
                         struct plog **plog_out)
{
    CHECK(config->files_max >= 8);
    CHECK(config->step_max > 0);
    size_t mark = base_arena_mark(arena);
    struct plog *plog = base_arena_take_array(arena, 1, sizeof *plog);
    if (plog == NULL || take_tables(arena, config, plog) != BASE_OK) {
        base_arena_reset(arena, mark);
        return BASE_FULL;
    }
    plog->config = *config;
    if (plog->config.retention_check_ms == 0) { plog->config.retention_check_ms = RETENTION_CHECK_MS; }
    plog->pages = pages;
    for (uint32_t i = 0; i < config->files_max; i++) { plog->free_files[i] = config->files_max - 1 - i; }
    plog->free_file_count = config->files_max;
    struct base_list *lists[] = {&plog->lru,          &plog->retries,       &plog->ready,
                                 &plog->slot_waiters, &plog->lease_waiters, &plog->producer_lru,
                                 &plog->deleting,     &plog->doomed,        &plog->handle_waiters,
                                 &plog->cuts};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(lists); i++) { base_list_init(lists[i]); }
    plog__task_init(&plog->capture.task, PLOG__TASK_CAPTURE, 0);
    plog__task_init(&plog->reaper.task, PLOG__TASK_REAP, 0);
    plog__task_init(&plog->cutter.task, PLOG__TASK_CUT, 0);
    plog->cutter.segment = PLOG__NONE;
    if (plog->config.run_bytes_max == 0) { plog->config.run_bytes_max = RUN_BYTES_MAX; }
    plog->capture.segment = PLOG__NONE;
    plog->sweep_at_ns = UINT64_MAX;
    plog->flush_at_ns = UINT64_MAX;
    plog->reap_at_ns = UINT64_MAX;
    plog->handles_at_ns = UINT64_MAX;
    *plog_out = plog;
    return BASE_OK;
}

/* ---- slots ---- */

struct plog__log *plog__log_at(const struct plog *plog, uint32_t slot) { return base_pool_at(&plog->logs, slot); }
struct plog__segment *plog__segment_at(const struct plog *plog, uint32_t slot)
{
    return base_pool_at(&plog->segments, slot);
}
uint32_t plog__log_slot(const struct plog *plog, const struct plog__log *log)
{
    return base_pool_index(&plog->logs, log);
}
uint32_t plog__segment_slot(const struct plog *plog, const struct plog__segment *segment)
{
    return base_pool_index(&plog->segments, segment);
}

struct plog__log *plog__log_of(const struct plog *plog, struct plog_ref ref)
{
    if (ref.generation == 0 || !base_pool_is_taken(&plog->logs, ref.slot)) { return NULL; }
    struct plog__log *log = plog__log_at(plog, ref.slot);
    return log->generation == ref.generation && !log->is_deleting ? log : NULL;
}

struct plog__log *plog__log_by_id(const struct plog *plog, struct base_part id)
{
    uint64_t hash = base_part_hash(id);
    for (uint32_t at = base_map_first(&plog->by_id, hash); at != BASE_MAP_NONE;
         at = base_map_next(&plog->by_id, hash, at)) {
        struct plog__log *log = plog__log_at(plog, base_map_value(&plog->by_id, at));
        if (base_part_equal(log->id, id)) { return log; }
    }
    return NULL;
}

static struct plog_log_config config_before_open(void)
{
    return (struct plog_log_config){.segment_bytes = UINT64_C(1) << 30,
                                    .segment_ms = UINT64_MAX,
                                    .index_interval_bytes = 4096,
                                    .index_bytes_max = 10u << 20,
                                    .retention_ms = -1,
                                    .retention_bytes = -1,
                                    .flush_messages = UINT64_MAX,
                                    .flush_ms = UINT64_MAX};
}

enum base_rc plog__log_make(struct plog *plog, struct base_part id, struct base_slice name, struct plog__log **log_out)
{
    CHECK(plog__log_by_id(plog, id) == NULL);
    if (name.size_bytes == 0 || name.size_bytes > PLOG__NAME_MAX || id.index < 0) { return BASE_BAD; }
    uint32_t slot = plog__log_slot_take(plog);
    if (slot == BASE_POOL_NONE) { return BASE_FULL; }
    struct plog__log *log = plog__log_at(plog, slot);
    plog->log_high = slot >= plog->log_high ? slot + 1 : plog->log_high;
    plog->next_generation += 1;
    if (plog->next_generation == 0) { plog->next_generation = 1; }
    log->generation = plog->next_generation;
    log->id = id;
    log->config = config_before_open();
    memcpy(log->name, name.at, name.size_bytes);
    log->name_bytes = (uint16_t)name.size_bytes;
    struct base_text dir;
    base_text_init(&dir, log->dir, sizeof log->dir);
    base_text_add_slice(&dir, name);
    base_text_add(&dir, "-");
    base_text_add_i64(&dir, id.index);
    CHECK(!dir.is_cut);
    log->dir_bytes = (uint16_t)dir.used_bytes;
    log->leader_epoch = -1;
    log->timestamp_max = -1;
    log->timestamp_max_offset = -1;
    log->mark_segment = PLOG__NONE;
    log->mark_offset = -1;
    log->writing = PLOG__NONE;
    struct base_list *lists[] = {&log->segments,  &log->doomed,  &log->queue, &log->rounds,
                                 &log->producers, &log->touched, &log->held};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(lists); i++) { base_list_init(lists[i]); }
    for (size_t i = 0; i < PLOG__HINTS; i++) { log->hints[i].segment = PLOG__NONE; }
    plog__tail_reset(&log->tail);
    plog__epochs_init(log);
    plog__task_init(&log->writer, PLOG__TASK_WRITER, slot);
    plog__birth_write(log);
    enum base_rc rc = base_map_insert(&plog->by_id, base_part_hash(id), slot);
    CHECK(rc == BASE_OK); /* as many cells as slots */
    *log_out = log;
    return BASE_OK;
}

/* Its id was taken out of the map when it was deleted. */
void plog__log_free(struct plog *plog, struct plog__log *log)
{
    CHECK(log->is_deleting);
    CHECK(log->asked == PLOG__ASKED_NOTHING);
    CHECK(log->reads == 0);
    CHECK(log->changes_in_flight == 0);
    CHECK(base_list_is_empty(&log->rounds) && base_list_is_empty(&log->queue) && base_list_is_empty(&log->held));
    CHECK(!log->is_cutting && !log->is_epoch_out);
    plog__producers_free(plog, log);
    plog__epochs_free(plog, log);
    struct base_list *lists[] = {&log->segments, &log->doomed};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(lists); i++) {
        while (!base_list_is_empty(lists[i])) {
            plog__segment_free(plog, log, BASE_ITEM(base_list_first(lists[i]), struct plog__segment, link));
        }
    }
    plog__task_take_off(&log->writer);
    plog__log_slot_give(plog, plog__log_slot(plog, log));
}

void plog__log_fail(struct plog *plog, struct plog__log *log)
{
    if (log->is_failed) { return; }
    log->is_failed = true;
    plog__rounds_give_up(plog, log, PLOG_STORAGE);
    plog__note_mark(plog, log);
}

bool plog__log_is_idle(const struct plog__log *log)
{
    return log->asked == PLOG__ASKED_NOTHING && log->writing == PLOG__NONE && base_list_is_empty(&log->queue) &&
           base_list_is_empty(&log->rounds) && log->flush == PLOG__FLUSH_NONE && log->small == PLOG__SMALL_NONE &&
           !log->needs_undo && log->replay.state == PLOG__REPLAY_NONE && !log->is_cut_out;
}

/* Where this is the only replica, what is synced is committed. */
static void mark_follow(struct plog *plog, struct plog__log *log)
{
    if (log->config.is_mark_told || log->watermark == log->synced_end) { return; }
    log->watermark = log->synced_end;
    plog__note_mark(plog, log);
}

void plog_watermark(struct plog *plog, struct plog_ref ref, int64_t offset, struct port_out *out)
{
    plog__begin(plog, out);
    struct plog__log *log = plog__log_of(plog, ref);
    if (log == NULL || !log->config.is_mark_told || log->is_cutting) { return; }
    offset = base_min_i64(offset, log->synced_end);
    if (offset <= log->watermark) { return; }
    log->watermark = offset;
    plog__note_mark(plog, log);
    plog__end(plog, out);
}

/* By flush.ms; UINT64_MAX: never. */
static uint64_t flush_due_ns(const struct plog__log *log)
{
    if (!log->config.is_page_cache || log->unflushed_since_ns == 0 || log->config.flush_ms == UINT64_MAX) {
        return UINT64_MAX;
    }
    uint64_t delay_ns = log->config.flush_ms > UINT64_MAX / NS_PER_MS ? UINT64_MAX : log->config.flush_ms * NS_PER_MS;
    return base_deadline_ns(log->unflushed_since_ns, delay_ns);
}

/* Each sweep looks at all logs, so those that are due at about the same time have one together. */
void plog__flush_look(struct plog *plog, const struct plog__log *log)
{
    uint64_t due_ns = flush_due_ns(log);
    if (due_ns == UINT64_MAX) { return; }
    uint64_t soon_ns = base_deadline_ns(plog->now_ns, FLUSH_LOOK_NS);
    plog->flush_at_ns = base_min_u64(plog->flush_at_ns, base_max_u64(due_ns, soon_ns));
}

/* What recovery makes of a segment hangs on how its rounds became durable, so that a log with segments keeps to its way. */
static void take_config(struct plog__log *log, const struct plog_log_config *config)
{
    bool is_born = plog__segment_last(log) != NULL || !base_list_is_empty(&log->rounds);
    bool is_page_cache = log->config.is_page_cache;
    log->config = *config;
    if (is_born) { log->config.is_page_cache = is_page_cache; }
}

enum base_rc plog_open(struct plog *plog, struct base_part id, struct base_slice name,
                       const struct plog_log_config *config, int32_t leader_epoch, struct plog_ref *ref_out)
{
    struct plog__log *log = plog__log_by_id(plog, id);
    if (log == NULL) {
        enum base_rc rc = plog__log_make(plog, id, name, &log);
        if (rc != BASE_OK) { return rc; }
        log->is_lost = plog__is_orphan(plog, id);
        log->is_damaged = log->is_lost;
        log->is_failed = log->is_lost;
    }
    log->is_restored = false;
    take_config(log, config);
    mark_follow(plog, log);
    plog__birth_write(log);
    plog__flush_look(plog, log); /* what the start has read */
    if (leader_epoch > log->leader_epoch) { log->leader_epoch = leader_epoch; }
    if (leader_epoch >= 0 && plog__epoch_last(log) < leader_epoch) {
        plog__epochs_assign(plog, log, leader_epoch, log->offset_end);
    }
    *ref_out = (struct plog_ref){.slot = plog__log_slot(plog, log), .generation = log->generation};
    return BASE_OK;
}

void plog_configure(struct plog *plog, struct plog_ref ref, const struct plog_log_config *config)
{
    struct plog__log *log = plog__log_of(plog, ref);
    if (log == NULL) { return; }
    take_config(log, config);
    mark_follow(plog, log);
    plog__birth_write(log);
    plog->sweep_at_ns = base_min_u64(plog->sweep_at_ns, plog->now_ns);
}

struct plog_ref plog_find(const struct plog *plog, struct base_part id)
{
    const struct plog__log *log = plog__log_by_id(plog, id);
    if (log == NULL) { return (struct plog_ref){0, 0}; }
    return (struct plog_ref){.slot = plog__log_slot(plog, log), .generation = log->generation};
}

bool plog_each(const struct plog *plog, uint32_t *cursor, struct plog_ref *ref_out, struct base_part *id_out)
{
    for (; *cursor < plog->log_high; *cursor += 1) {
        if (!base_pool_is_taken(&plog->logs, *cursor)) { continue; }
        const struct plog__log *log = plog__log_at(plog, *cursor);
        if (log->is_deleting) { continue; }
        *ref_out = (struct plog_ref){.slot = *cursor, .generation = log->generation};
        *id_out = log->id;
        *cursor += 1;
        return true;
    }
    return false;
}

void plog_view(const struct plog *plog, struct plog_ref ref, struct plog_view *view_out)
{
    const struct plog__log *log = plog__log_of(plog, ref);
    *view_out = (struct plog_view){
        .is_failed = true, .timestamp_max = -1, .timestamp_max_offset = -1, .leader_epoch = -1, .epoch_last = -1};
    if (log == NULL) { return; }
    *view_out = (struct plog_view){
        .id = log->id,
        .name = base_slice_of(log->name, log->name_bytes),
        .offset_start = log->offset_start,
        .start_next = log->is_start_moving ? log->start_next : log->offset_start,
        .offset_end = log->offset_end,
        .synced_end = log->synced_end,
        .watermark = log->watermark,
        .leader_epoch = log->leader_epoch,
        .epoch_last = plog__epoch_last(log),
        .timestamp_max = log->timestamp_max,
        .timestamp_max_offset = log->timestamp_max_offset,
        .size_bytes = log->size_bytes,
        .is_failed = log->is_failed || plog->is_failed,
        .is_off_line = plog->is_failed,
        .is_damaged = log->is_damaged || log->damaged_count > 0,
        .may_lack_end = log->may_lack_end,
    };
    const struct plog__segment *last = plog__segment_last(log); /* the only one that may be empty */
    view_out->segment_count = log->segments.count - (last != NULL && last->size_bytes == 0 ? 1 : 0);
}

const struct plog_log_config *plog_log_configured(const struct plog *plog, struct plog_ref ref)
{
    const struct plog__log *log = plog__log_of(plog, ref);
    return log == NULL ? NULL : &log->config;
}

uint64_t plog_size_bytes(const struct plog *plog, struct plog_ref ref)
{
    const struct plog__log *log = plog__log_of(plog, ref);
    return log == NULL ? 0 : log->size_bytes;
}

/* ---- paths ---- */

void plog__path(const struct plog__log *log, const struct plog__segment *segment, enum plog__which which,
                struct base_text *text)
{
    static const char *const suffixes[] = {[PLOG__LOG] = ".log", [PLOG__INDEX] = ".index", [PLOG__TIME] = ".timeindex"};
    base_text_add_slice(text, base_slice_of(log->dir, log->dir_bytes));
    base_text_add(text, "/");
    if (which == PLOG__SMALL) {
        base_text_add(text, log->small_kind == PLOG__SMALL_METADATA ? "partition.metadata" : "leader-epoch-checkpoint");
        return;
    }
    base_text_add_u64_padded(text, (uint64_t)segment->base, 20);
    base_text_add(text, suffixes[which]);
}

/* ---- steps and tasks ---- */

void plog__begin(struct plog *plog, const struct port_out *out) { plog->effects_begin = out->effect_count; }

bool plog__may_emit(const struct plog *plog, const struct port_out *out)
{
    return out->effect_count - plog->effects_begin + PLOG__EFFECTS_OF_ONE <= PLOG_EFFECTS_MAX;
}

struct port_effect *plog__emit(struct plog *plog, struct port_out *out, enum port_effect_kind kind,
                               enum plog__token token, uint32_t slot)
{
    CHECK(out->effect_count - plog->effects_begin < PLOG_EFFECTS_MAX);
    plog->effects_in_flight += 1;
    return port_emit(out, kind, plog__token(token, slot));
}

void plog__task_init(struct plog__task *task, enum plog__task_kind kind, uint32_t slot)
{
    *task = (struct plog__task){.kind = kind, .slot = slot, .open_rc = PORT_OK};
}

void plog__task_ready(struct plog *plog, struct plog__task *task)
{
    if (task->list != NULL) { return; }
    base_list_push_back(&plog->ready, &task->link);
    task->list = &plog->ready;
}

void plog__task_take_off(struct plog__task *task)
{
    if (task->list == NULL) { return; }
    base_list_remove(task->list, &task->link);
    task->list = NULL;
}

static void run_task(struct plog *plog, struct plog__task *task, struct port_out *out)
{
    switch (task->kind) {
    case PLOG__TASK_WRITER: plog__writer_advance(plog, plog__log_at(plog, task->slot), out); break;
    case PLOG__TASK_READ: plog__read_advance(plog, base_pool_at(&plog->reads, task->slot), out); break;
    case PLOG__TASK_SYNC: plog__sync_advance(plog, plog__segment_at(plog, task->slot), out); break;
    case PLOG__TASK_CAPTURE: plog__capture_advance(plog, out); break;
    case PLOG__TASK_REAP: plog__reap_advance(plog, out); break;
    case PLOG__TASK_CUT: plog__cut_advance(plog, out); break;
    }
}

/* What is under way ends first; whatever ends it looks again. */
static bool stop_must_wait(const struct plog *plog)
{
    return plog->effects_in_flight > 0 || plog->appends.taken_count > 0 || plog->reads.taken_count > 0 ||
           plog->cutting_count > 0 || plog->scans_left > 0;
}

void plog__end(struct plog *plog, struct port_out *out)
{
    plog__file_wake(plog);
    bool is_stopping = plog->life == PLOG__STOPPING && !stop_must_wait(plog);
    if (!base_list_is_empty(&plog->ready) || plog->is_sweeping || is_stopping) { out->wants_continue = true; }
    CHECK_SLOW(plog->config.is_check_slow, plog_is_sound(plog));
}

/* ---- the clock's work ---- */

void plog__clock(struct plog *plog, const struct port_event *event)
{
    CHECK(plog->is_started && event->now_ns >= plog->now_ns);
    plog->now_ns = event->now_ns;
    plog->wall_ms = event->wall_ms;
}

/* Before anything is replayed: a start takes as long as it takes, and the wall clock may step meanwhile. */
void plog_start(struct plog *plog, const struct port_event *event)
{
    CHECK(!plog->is_started);
    plog->is_started = true;
    plog__clock(plog, event);
    plog->wall_ahead_ms = event->wall_ms - (int64_t)(event->now_ns / NS_PER_MS);
    plog->sweep_at_ns = base_deadline_ns(event->now_ns, plog->config.retention_check_ms * NS_PER_MS);
}

void plog_hold_retention(struct plog *plog, bool is_held) { plog->is_retention_held = is_held; }

/* Where the wall clock would be, had it not stepped since the start. */
static int64_t steady_wall_ms(const struct plog *plog)
{
    return plog->wall_ahead_ms + (int64_t)(plog->now_ns / NS_PER_MS);
}

/* Wall time that ran ahead of monotonic time by more than an hour deletes nothing. */
bool plog__wall_is_sane(const struct plog *plog) { return plog->wall_ms - steady_wall_ms(plog) <= WALL_AHEAD_MAX_MS; }

/* When what is appended or replayed now came, for how old it will be: a clock that was set back makes nothing older. */
int64_t plog__came_ms(const struct plog *plog) { return base_max_i64(plog->wall_ms, steady_wall_ms(plog)); }

/* Whether a timestamp is one, and not from the future; the clock of a client may be up to an hour ahead. */
bool plog__has_passed(const struct plog *plog, int64_t timestamp_ms)
{
    return timestamp_ms >= 0 && plog__age_ms(timestamp_ms, plog->wall_ms) <= WALL_AHEAD_MAX_MS;
}

static void sweep_flush(struct plog *plog, struct plog__log *log)
{
    struct plog__segment *last = plog__segment_last(log);
    uint64_t at_ns = flush_due_ns(log);
    if (at_ns == UINT64_MAX || last == NULL) { return; }
    if (at_ns <= plog->now_ns) {
        /* For flush.messages they go on to count: they are not on the disk before the sync has ended. */
        log->unflushed_since_ns = 0;
        /* One that retention left empty has no file; what stands before it was synced when it was full. */
        if (last->synced_bytes < last->size_bytes) { plog__sync_want(plog, last); }
    } else {
        plog__flush_look(plog, log);
    }
}

static void sweep_step(struct plog *plog)
{
    for (uint32_t i = 0; i < plog->config.step_max && plog->sweep_log < plog->log_high; i++, plog->sweep_log++) {
        if (!base_pool_is_taken(&plog->logs, plog->sweep_log)) { continue; }
        struct plog__log *log = plog__log_at(plog, plog->sweep_log);
        if (log->is_deleting || log->is_restored) { continue; }
        plog__retain(plog, log);
        if (plog__wall_is_sane(plog)) { plog__producers_expire(plog, log); }
        sweep_flush(plog, log);
    }
    if (plog->sweep_log >= plog->log_high) { plog->is_sweeping = false; }
}

uint64_t plog_next_alarm_ns(const struct plog *plog)
{
    if (plog->life != PLOG__SERVING) { return plog->handles_at_ns; }
    uint64_t sweep_at_ns = plog->is_retention_held ? UINT64_MAX : plog->sweep_at_ns;
    uint64_t at_ns = base_min_u64(sweep_at_ns, plog->flush_at_ns);
    return base_min_u64(base_min_u64(at_ns, plog->reap_at_ns), plog->handles_at_ns);
}

void plog_alarm(struct plog *plog, const struct port_event *event, struct port_out *out)
{
    plog__clock(plog, event);
    plog__begin(plog, out);
    if (plog->handles_at_ns <= plog->now_ns) { plog__file_retry(plog); }
    if (plog->life == PLOG__SERVING) {
        bool is_sweep_due = !plog->is_retention_held && plog->sweep_at_ns <= plog->now_ns;
        if (is_sweep_due || plog->flush_at_ns <= plog->now_ns) {
            if (is_sweep_due) {
                plog->sweep_at_ns = base_deadline_ns(plog->now_ns, plog->config.retention_check_ms * NS_PER_MS);
            }
            plog->flush_at_ns = UINT64_MAX;
            plog->is_sweeping = true;
            plog->sweep_log = 0;
        }
        if (plog->reap_at_ns <= plog->now_ns) {
            plog->reap_at_ns =
                UINT64_MAX; /* the reaper says when next: an alarm left in the past comes before all else */
            plog__task_ready(plog, &plog->reaper.task);
        }
    }
    plog__end(plog, out);
}

static void stop_step(struct plog *plog, struct port_out *out)
{
    if (stop_must_wait(plog) || !base_list_is_empty(&plog->ready)) { return; }
    for (uint32_t i = 0; i < plog->config.step_max && plog->stop_log < plog->log_high && !plog->is_failed; i++) {
        if (base_pool_is_taken(&plog->logs, plog->stop_log) &&
            plog__writer_finish(plog, plog__log_at(plog, plog->stop_log))) {
            return; /* and looked at again when that is done */
        }
        plog->stop_log += 1;
    }
    if (plog->stop_log < plog->log_high && !plog->is_failed) { return; }
    while (plog__may_emit(plog, out) && plog__files_close_one(plog, out)) {}
    if (plog->open_count == 0) {
        plog->life = PLOG__STOPPED;
        plog__note(plog, (struct plog__note){.kind = PLOG_OUT_STOPPED});
    }
}

void plog_stop(struct plog *plog, struct port_out *out)
{
    plog__begin(plog, out);
    plog->life = PLOG__STOPPING;
    out->wants_continue = true;
}

void plog_turn(struct plog *plog, const struct port_event *event, struct port_out *out)
{
    plog__clock(plog, event);
    plog__begin(plog, out);
    for (uint32_t i = 0; i < plog->config.step_max && !base_list_is_empty(&plog->ready) && plog__may_emit(plog, out);
         i++) {
        struct plog__task *task = BASE_ITEM(base_list_first(&plog->ready), struct plog__task, link);
        plog__task_take_off(task);
        run_task(plog, task, out);
    }
    if (plog->is_sweeping) { sweep_step(plog); }
    if (plog->life == PLOG__STOPPING) { stop_step(plog, out); }
    plog__end(plog, out);
}

void plog_done(struct plog *plog, const struct port_event *event, struct port_out *out)
{
    CHECK(event->done.token >> 56 == PLOG_TOKEN_ROOM);
    CHECK(plog->effects_in_flight > 0);
    plog__clock(plog, event);
    plog__begin(plog, out);
    plog->effects_in_flight -= 1;
    enum plog__token kind = (enum plog__token)(event->done.token >> 48 & 0xff);
    uint32_t slot = (uint32_t)event->done.token;
    switch (kind) {
    case PLOG__TOKEN_OPEN: plog__file_opened(plog, slot, event, out); break;
    case PLOG__TOKEN_CLOSE: plog__file_closed(plog, slot, out); break;
    case PLOG__TOKEN_WRITER: plog__writer_done(plog, plog__log_at(plog, slot), event, out); break;
    case PLOG__TOKEN_READ: plog__read_done(plog, base_pool_at(&plog->reads, slot), event, out); break;
    case PLOG__TOKEN_SYNC: plog__sync_done(plog, plog__segment_at(plog, slot), event, out); break;
    case PLOG__TOKEN_CAPTURE: plog__capture_done(plog, event, out); break;
    case PLOG__TOKEN_REAP: plog__reap_done(plog, event, out); break;
    case PLOG__TOKEN_CUT: plog__cut_done(plog, event, out); break;
    }
    /* Who waited for this goes on at once, as far as the step reaches. */
    for (uint32_t i = 0; i < plog->config.step_max && !base_list_is_empty(&plog->ready) && plog__may_emit(plog, out);
         i++) {
        struct plog__task *task = BASE_ITEM(base_list_first(&plog->ready), struct plog__task, link);
        if (task->kind == PLOG__TASK_WRITER && kind != PLOG__TOKEN_OPEN) {
            break;
        } /* appends are gathered until the turn */
        plog__task_take_off(task);
        run_task(plog, task, out);
    }
    plog__end(plog, out);
}

void plog_disk_failed(struct plog *plog, struct port_out *out)
{
    plog__begin(plog, out);
    plog__disk_fail(plog);
    plog__end(plog, out);
}

void plog_mark_suspect(struct plog *plog, struct base_part id, struct port_out *out)
{
    plog__begin(plog, out);
    plog->has_lost_entries = true;
    struct plog__log *log = plog__log_by_id(plog, id);
    if (log != NULL) { log->is_suspect = true; }
    plog__end(plog, out);
}

/* ---- deletion's first step ---- */

void plog_delete(struct plog *plog, struct plog_ref ref, struct port_out *out)
{
    plog__begin(plog, out);
    struct plog__log *log = plog__log_of(plog, ref);
    CHECK(log != NULL);
    base_map_remove(&plog->by_id, base_part_hash(log->id), ref.slot);
    log->is_deleting = true;
    base_list_push_back(&plog->deleting, &log->reap);
    plog__rounds_give_up(plog, log, PLOG_GONE);
    log->changes_in_flight += 1;
    plog__note(plog, (struct plog__note){.kind = PLOG_OUT_CHANGE, .slot = ref.slot, .change = PLOG_CHANGE_GONE});
    plog__task_ready(plog, &log->writer);
    plog__end(plog, out);
}
