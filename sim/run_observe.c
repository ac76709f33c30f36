/* run_observe.c: see run.h. What is watched while a run goes on: the node's stream, its logs, the branches of recovery.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run__parts.h"

#include <inttypes.h>

#define PLOG_ROOM    UINT64_C(0x50) /* the top byte of their tokens */
#define JOURNAL_ROOM UINT64_C(0x4a)

static bool has_part(struct base_slice text, const char *part)
{
    return text.size_bytes > 0 && memmem(text.at, text.size_bytes, part, strlen(part)) != NULL;
}

static bool is_serving(const struct run *run, uint32_t shard) { return run->states[shard] >= BROKER_SERVING; }

static void note_event(struct run *run, uint32_t shard, const struct port_event *event)
{
    if (event->kind == PORT_EVENT_START && shard == 0) { run__reached(run, RUN_STATE_BOOT); }
    bool is_done = event->kind == PORT_EVENT_DONE && event->done.rc == PORT_OK && is_serving(run, shard);
    if (!is_done) { return; }
    uint64_t room = event->done.token >> 56;
    if (event->done.effect == PORT_WRITE && room == PLOG_ROOM) { run__reached(run, RUN_STATE_WRITTEN); }
    if (event->done.effect == PORT_SYNC && room == JOURNAL_ROOM) { run__reached(run, RUN_STATE_JOURNALLED); }
}

#define ALARMS_IN_ROW_MAX 1000
#define ALARM_SOON_NS     WORLD_MS

/* A deadline that has come and is not taken away is an alarm again and again: the shard loops. */
static void note_alarm(struct run *run, uint32_t shard, const struct port_event *event)
{
    bool is_alarm = event->kind == PORT_EVENT_ALARM;
    bool is_soon = event->now_ns - run->alarm_last_ns[shard] < ALARM_SOON_NS;
    run->alarms_in_row[shard] = is_alarm && is_soon ? run->alarms_in_row[shard] + 1 : 0;
    if (is_alarm) { run->alarm_last_ns[shard] = event->now_ns; }
    if (run->alarms_in_row[shard] < ALARMS_IN_ROW_MAX) { return; }
    run__fail(run, "I21", "shard %" PRIu32 " was given %d alarms and nothing else within a moment", shard,
              ALARMS_IN_ROW_MAX);
}

static bool is_of_disk(enum port_effect_kind kind) { return kind >= PORT_OPEN && kind <= PORT_SPACE; }

static void on_event(void *context, uint32_t node, uint32_t shard, const struct port_event *event,
                     struct base_slice payload, const void *machine)
{
    (void)machine;
    struct run *run = context;
    if (run->config->until > 0 && world_events(run->world) > run->config->until) { run__leave(run); }
    if (node != run->cast.broker) { return; }
    run->broker_events += 1;
    if (event->kind == PORT_EVENT_DONE && is_of_disk(event->done.effect)) {
        run->disk_due -= 1;
        run->disk_last_ns = world_now(run->world);
    }
    note_event(run, shard, event);
    note_alarm(run, shard, event);
    check_stream_event(run->stream, shard, event, payload);
    run->wall_ms[shard] = event->wall_ms;
}

/* From its open until its close, by when it and its name are synced. */
static void note_checkpoint(struct run *run, const struct port_effect *effect)
{
    bool is_create = effect->kind == PORT_OPEN && (effect->flags & PORT_OPEN_CREATE) != 0;
    if (is_create && has_part(effect->path, "weir-journal/checkpoint-")) {
        run->is_checkpointing = true;
        run->checkpoint_file = effect->file;
        run__reached(run, RUN_STATE_CHECKPOINT);
    }
    if (!run->is_checkpointing || effect->kind != PORT_CLOSE_FILE) { return; }
    if (effect->file.slot != run->checkpoint_file.slot || effect->file.shard != run->checkpoint_file.shard) { return; }
    run->is_checkpointing = false;
    bool is_asked_by_stop = run->states[0] < BROKER_LOADING || run->states[0] > BROKER_SERVING;
    if (!is_asked_by_stop) { run->result->branches[RUN_CHECKPOINT] += 1; }
}

/* The broker says what it has read. */
static void note_words(struct run *run, const struct port_effect *effect)
{
    if (has_part(effect->path, "the disk is full: what clients produce is refused")) {
        run->result->branches[RUN_FULL_REFUSED] += 1;
    }
    if (has_part(effect->path, "a checkpoint failed")) { run->has_failed_checkpoint = true; }
    if (has_part(effect->path, "of any partition")) {
        run->has_lost_rows = run->is_rotten;
        check_stream_lost_rows(run->stream);
    }
    if (!has_part(effect->path, "journal read: states=")) { return; }
    if (!has_part(effect->path, "states=0 ")) { run->result->branches[RUN_STATES_READ] += 1; }
    run->has_read = true;
    bool is_clean = has_part(effect->path, "the last stop was clean");
    if (is_clean && run->claim == RUN_CLAIM_NOT_CLEAN) {
        run__fail(run, "I18", "a start says that the stop before it was clean, and it was a crash");
    }
    if (!is_clean && run->claim == RUN_CLAIM_CLEAN) {
        run__fail(run, "I18", "a start says that the stop before it was not clean, and it was");
    }
}

/* The node is gone: was it a stop that the next start must know as clean? */
static void note_end(struct run *run, bool is_stop)
{
    bool is_failed = run->is_disk_failed || run->has_failed_checkpoint;
    bool is_near = run->states[0] >= BROKER_CHECKPOINTING; /* its last checkpoint may be there */
    if (is_stop && run->is_recovered && !is_failed) {
        run->claim = RUN_CLAIM_CLEAN;
    } else if (is_stop || is_failed || is_near) {
        run->claim = RUN_CLAIM_ANY;
    } else if (run->has_read) {
        run->claim = RUN_CLAIM_NOT_CLEAN;
    } else if (run->claim == RUN_CLAIM_CLEAN) {
        run->claim = RUN_CLAIM_ANY; /* it may have come as far as to unmake it */
    }
    run->has_read = run->is_disk_failed = run->has_failed_checkpoint = false;
}

static void note_disk_effect(struct run *run, uint32_t shard, const struct port_effect *effect)
{
    uint64_t *branches = run->result->branches;
    bool is_log = has_part(effect->path, ".log");
    bool is_journal = has_part(effect->path, "weir-journal/");
    bool is_create = effect->kind == PORT_OPEN && (effect->flags & PORT_OPEN_CREATE) != 0;
    if (is_serving(run, shard)) {
        if (is_create && is_log && !has_part(effect->path, "/00000000000000000000.log")) {
            branches[RUN_SEGMENT_ROLLED] += 1;
            run__reached(run, RUN_STATE_ROLL);
        }
        bool is_checkpoint = is_journal && has_part(effect->path, "/checkpoint-");
        if (is_create && is_journal && !is_checkpoint) {
            branches[RUN_JOURNAL_ROLLED] += 1;
            run__reached(run, RUN_STATE_JOURNAL_ROLL);
        }
        bool is_gone = effect->kind == PORT_UNLINK || effect->kind == PORT_RENAME;
        if (is_gone && is_journal) {
            branches[RUN_JOURNAL_TRIMMED] += 1;
            run__reached(run, RUN_STATE_TRIM);
        }
        if (is_gone && is_log) { run__reached(run, RUN_STATE_DELETE); }
        bool is_cut = effect->kind == PORT_TRUNCATE && effect->token >> 56 == PLOG_ROOM;
        if (is_cut && effect->position_bytes > 0) { run__reached(run, RUN_STATE_CUT); }
        /* Most cut nothing: a log's first write after a start asks for it whatever is there. */
        bool has_more = is_cut && world_size_of(run->world, run->cast.broker, effect->file) > effect->position_bytes;
        if (has_more) { run__reached(run, RUN_STATE_SHORTENED); }
        return;
    }
    if (effect->kind == PORT_TRUNCATE) { branches[RUN_TAIL_CUT] += 1; }
    if (effect->kind == PORT_WRITE && effect->token >> 56 == PLOG_ROOM) { branches[RUN_BYTES_REPLAYED] += 1; }
}

static const struct actor_topic *topic_of(const struct run *run, struct base_slice name)
{
    for (uint32_t i = 0; i < run->cast.topic_count; i++) {
        const struct actor_topic *known = &run->cast.topics[i];
        if (base_slice_equal(base_slice_text(known->name), name)) { return known; }
    }
    return NULL;
}

/* How many there are. */
static uint32_t look_at_logs(struct run *run, const struct broker *broker)
{
    struct broker_log_view view;
    uint32_t count = 0;
    for (uint32_t cursor = 0; broker_each_log(broker, &cursor, &view);) {
        count += 1;
        const struct actor_topic *topic = topic_of(run, view.topic);
        const struct node_settings *settings = &run->node.settings;
        uint32_t flush_messages = topic == NULL ? 0 : topic->flush_messages;
        uint64_t flush_ms = topic == NULL ? 0 : topic->flush_ms;
        struct check_log log = {.id = view.id,
                                .topic = view.topic,
                                .offset_start = view.offset_start,
                                .start_next = view.start_next,
                                .offset_end = view.offset_end,
                                .watermark = view.watermark,
                                .leader_epoch = view.leader_epoch,
                                .is_failed = view.is_failed || view.is_damaged,
                                .is_page_cache = topic != NULL && topic->is_page_cache,
                                .flush_messages = flush_messages > 0 ? flush_messages : settings->flush_messages,
                                .flush_ms = flush_ms > 0 ? flush_ms : settings->flush_ms};
        if (run->is_rotten && view.is_damaged) { run->result->branches[RUN_DAMAGE_TOLD] = 1; }
        check_stream_log(run->stream, &log, true);
    }
    return count;
}

/* The first shard takes clients now: every shard has recovered, and nobody has appended to any. That the node is ready is said when
 * the last one takes some; until then logs grow, and may lose what they had. */
static void now_open(struct run *run)
{
    if (run->is_open) { return; }
    run->is_open = true;
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        const struct broker *broker = world_machine_at(run->world, run->cast.broker, i);
        if (broker != NULL) { run->logs[i] = look_at_logs(run, broker); }
    }
    check_stream_recovered(run->stream);
}

/* Shards but the first never say so in their view. */
static void now_serves(struct run *run, uint32_t shard)
{
    run->is_ready[shard] = true;
    run->states[shard] = BROKER_SERVING;
}

static void on_effect(void *context, uint32_t node, uint32_t shard, const struct port_effect *effect)
{
    struct run *run = context;
    if (node != run->cast.broker) { return; }
    if (effect->kind == PORT_ACCEPT) { now_open(run); }
    if (effect->kind == PORT_READY) { now_serves(run, shard); }
    if (effect->kind == PORT_LOG) { note_words(run, effect); }
    if (is_of_disk(effect->kind)) {
        run->disk_due += 1;
        run->disk_last_ns = world_now(run->world);
    }
    note_checkpoint(run, effect);
    note_disk_effect(run, shard, effect);
    check_stream_effect(run->stream, shard, effect);
    uint64_t rows_gone = check_stream_counts(run->stream)->rows_gone;
    if (rows_gone != run->rows_gone) { run__reached(run, RUN_STATE_GONE); }
    run->rows_gone = rows_gone;
}

static void note_move(struct run *run, enum broker_state to)
{
    switch (to) {
    case BROKER_RECOVERING: run__reached(run, RUN_STATE_RECOVERING); return;
    case BROKER_LOADING: run__reached(run, RUN_STATE_LOADING); return;
    case BROKER_SERVING: run__reached(run, RUN_STATE_SERVING); return;
    case BROKER_DRAINING:
    case BROKER_CHECKPOINTING:
    case BROKER_CLOSING: run__reached(run, RUN_STATE_STOPPING); return;
    case BROKER_BOOT:
    case BROKER_STOPPED: return;
    }
}

static void note_anew(struct run *run, bool is_anew)
{
    if (is_anew && !run->is_anew) {
        run->result->branches[RUN_METADATA_ANEW] += 1;
        run__reached(run, RUN_STATE_ANEW);
    }
    if (!is_anew && run->is_anew) { run__reached(run, RUN_STATE_ANEW_END); }
    run->is_anew = is_anew;
}

static void on_step(void *context, uint32_t node, uint32_t shard, const struct port_out *out, const void *machine)
{
    (void)out;
    struct run *run = context;
    if (run->report.count > 0) { run__fail(run, run->report.breaches[0].id, "%s", run->report.breaches[0].text); }
    if (node != run->cast.broker) { return; }
    const struct broker *broker = machine;
    struct broker_view view;
    broker_view(broker, &view);
    if (view.state == BROKER_STOPPED && run->states[shard] != BROKER_STOPPED && shard == 0 && !run->is_ready[0]) {
        run->result->branches[RUN_START_REFUSED] += 1;
    }
    if (shard == 0 && view.state != run->states[0]) { note_move(run, view.state); }
    if (shard == 0) { note_anew(run, view.is_metadata_anew); }
    if (shard == 0 || !run->is_ready[shard]) { run->states[shard] = view.state; }
    if (view.state == BROKER_STOPPED && run->states[shard] != BROKER_STOPPED) { run->result->refused += view.refused; }
    if (view.is_disk_failed && shard == 0) { run->result->branches[RUN_DISK_FAILED] = 1; }
    if (view.is_disk_failed) { run->is_disk_failed = true; }
    if (run->is_open && view.state < BROKER_CLOSING) {
        uint32_t before = run->logs[shard];
        run->logs[shard] = look_at_logs(run, broker);
        if (run->logs[shard] < before) { run__reached(run, RUN_STATE_DELETED); }
    }
    run__groups_look(run, shard, broker);
    if (run->is_recovered) { return; }
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        if (!run->is_ready[i]) { return; }
    }
    run->is_recovered = true;
    run->result->branches[run->result->starts == 1 ? RUN_START_EMPTY
                          : run->was_clean         ? RUN_START_CLEAN
                                                   : RUN_START_DIRTY] += 1;
}

static void on_boot(void *context, uint32_t node)
{
    struct run *run = context;
    if (node != run->cast.broker) { return; }
    for (uint32_t i = 0; i < WORLD_SHARDS_MAX; i++) {
        run->states[i] = BROKER_BOOT;
        run->is_ready[i] = false;
        run->alarms_in_row[i] = 0;
        run->alarm_last_ns[i] = 0;
    }
    run->is_open = run->is_recovered = run->is_anew = false;
    run->disk_due = 0;
    run__groups_booted(run);
    run->result->starts += 1;
    if (run->result->starts == 1) { return; }
    struct history_op op = history_op_init(HISTORY_NOTE, "", world_now(run->world));
    memcpy(op.topic, "restart", sizeof "restart");
    history_once(&run->history, &op);
}

/* Before the memory goes. */
static void note_refusals(struct run *run)
{
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        const struct broker *broker = world_machine_at(run->world, run->cast.broker, i);
        if (broker == NULL) { continue; }
        struct broker_view view;
        broker_view(broker, &view);
        run->result->refused += view.refused;
    }
}

static void on_crash(void *context, uint32_t node, enum world_crash kind)
{
    struct run *run = context;
    if (node != run->cast.broker) { return; }
    static const enum run_branch branches[] = {
        [BROKER_BOOT] = RUN_CRASH_IN_BOOT,       [BROKER_RECOVERING] = RUN_CRASH_IN_RECOVERY,
        [BROKER_LOADING] = RUN_CRASH_IN_LOADING, [BROKER_SERVING] = RUN_CRASH_IN_SERVICE,
        [BROKER_DRAINING] = RUN_CRASH_IN_STOP,   [BROKER_CHECKPOINTING] = RUN_CRASH_IN_STOP,
        [BROKER_CLOSING] = RUN_CRASH_IN_STOP,    [BROKER_STOPPED] = RUN_CRASH_IN_STOP,
    };
    run->result->branches[branches[run->states[0]]] += 1;
    run->result->crashes += 1;
    note_refusals(run);
    if (run->sprung != RUN_STATE_COUNT && !world_is_crash_planned(run->world, node)) {
        run->result->reached[run->sprung] += 1;
        run->sprung = RUN_STATE_COUNT;
    }
    if (run->is_checkpointing) { run->result->branches[RUN_CRASH_IN_CHECKPOINT] += 1; }
    run->is_checkpointing = false;
    run->was_clean = false;
    note_end(run, false);
    run__settings_loosen(run);
    check_stream_crash(run->stream, kind == WORLD_POWER ? CHECK_POWER : CHECK_PROCESS);
    struct history_op op = history_op_init(HISTORY_NOTE, "", world_now(run->world));
    memcpy(op.topic, "crash", sizeof "crash");
    op.count = kind == WORLD_POWER ? 1 : 2;
    history_once(&run->history, &op);
}

static void on_stopped(void *context, uint32_t node)
{
    struct run *run = context;
    if (node != run->cast.broker) { return; }
    run->was_clean = run->is_recovered;
    note_end(run, true);
    run->is_checkpointing = false;
    run__stopped(run);
    run__settings_loosen(run);
    check_stream_crash(run->stream, CHECK_STOPPED);
}

void run__observe(struct run *run)
{
    world_observe(run->world, &(struct world_observer){.context = run,
                                                       .on_event = on_event,
                                                       .on_effect = on_effect,
                                                       .on_step = on_step,
                                                       .on_boot = on_boot,
                                                       .on_crash = on_crash,
                                                       .on_stopped = on_stopped});
}
