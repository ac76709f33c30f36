/* broker.c: creation, the step, and the messages between the parts of a node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

/* ---- messages ------------------------------------------------------------------------------------------------------- */

enum base_rc ring_create(struct base_arena *arena, uint32_t size, struct ring *ring_out)
{
    CHECK(size > 0 && (size & (size - 1)) == 0);
    struct port_message *slots = base_arena_take(arena, size * sizeof *slots);
    if (slots == NULL) { return BASE_FULL; }
    *ring_out = (struct ring){.slots = slots, .size = size};
    return BASE_OK;
}

void ring_push(struct ring *ring, const struct port_message *message)
{
    CHECK(ring_room(ring) > 0); /* whoever asks is bounded (parts_asked_max, appends_max): see sizes_of */
    ring->slots[ring->tail & (ring->size - 1)] = *message;
    ring->tail += 1;
}

bool ring_pop(struct ring *ring, struct port_message *message_out)
{
    if (ring_count(ring) == 0) { return false; }
    *message_out = ring->slots[ring->head & (ring->size - 1)];
    ring->head += 1;
    return true;
}

struct port_message *message_begin(struct port_message *message, uint32_t to, enum message_kind kind)
{
    *message = (struct port_message){.to = (uint16_t)to, .kind = (uint32_t)kind};
    return message;
}

static void emit_message(struct port_out *out, const struct port_message *message)
{
    struct port_message *slot = port_send_message(out, message->to, message->kind);
    uint16_t from = slot->from;
    *slot = *message;
    slot->from = from;
}

static void flush_outbox(struct broker *broker, struct port_out *out)
{
    struct port_message message;
    while (port_out_message_room(out) > 0 && ring_pop(&broker->outbox, &message)) { emit_message(out, &message); }
}

void message_send(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    CHECK(message->to < broker->config.shards);
    if (message->to == broker->config.shard) {
        struct port_message own = *message;
        own.from = own.to;
        ring_push(&broker->inbox, &own);
    } else if (ring_count(&broker->outbox) == 0 && port_out_message_room(out) > 0) {
        emit_message(out, message);
    } else {
        ring_push(&broker->outbox, message); /* in order: nothing overtakes what already waits */
    }
}

void message_to_all(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    for (uint32_t shard = 0; shard < broker->config.shards; shard++) {
        struct port_message copy = *message;
        copy.to = (uint16_t)shard;
        message_send(broker, &copy, out);
    }
}

void log_words(struct port_out *out, enum port_level level, const char *words, const char *detail)
{
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, words);
    base_text_add(&text, detail);
    port_log_end(out, level, "broker", &text);
}

void log_add_since(const struct broker *broker, struct base_text *text, uint64_t since_ns)
{
    base_text_add(text, " in ");
    base_text_add_i64(text, (int64_t)((broker->now_ns - since_ns) / 1000000));
    base_text_add(text, " ms");
}

uint32_t shard_of(const struct broker *broker, struct base_part part)
{
    if (broker->config.shards == 1 || base_part_equal(part, metadata_part())) { return 0; }
    return (uint32_t)(base_part_hash(part) % broker->config.shards);
}

static void on_message(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    switch ((enum message_kind)message->kind) {
    case MSG_APPEND:
    case MSG_READ:
    case MSG_RELEASE:
    case MSG_TIME:
    case MSG_DELETE:
    case MSG_SIZE:
    case MSG_PRODUCERS:
    case MSG_EPOCH:
    case MSG_WATCH:
    case MSG_UNWATCH:
    case MSG_JOURNALLED:
    case MSG_DISK_FAILED:
    case MSG_HOLD:
    case MSG_GIVE_HANDLE:
    case MSG_RESTORE:
    case MSG_REPLAY:
    case MSG_DAMAGE:
    case MSG_RECOVERY_END:
    case MSG_RAISE:
    case MSG_CHECKPOINT:
    case MSG_STATE_TAKEN:
    case MSG_CHECKPOINTED:
    case MSG_CLOSE: back_message(broker, message, out); return;
    case MSG_WRITTEN:
    case MSG_APPENDED:
    case MSG_READ_DONE:
    case MSG_TIME_DONE:
    case MSG_DELETED:
    case MSG_SIZE_DONE:
    case MSG_PRODUCERS_DONE:
    case MSG_EPOCH_DONE:
    case MSG_WOKE:
    case MSG_CONTROLLED:
    case MSG_GROUPED:
    case MSG_SESSION_DONE:
    case MSG_SERVE:
    case MSG_DRAIN: front_message(broker, message, out); return;
    case MSG_GROUP:
    case MSG_GROUP_GIVE: coordinator_message(broker, message, out); return;
    case MSG_OPENED:
    case MSG_GONE:
    case MSG_TURN_AWAY: addresses_message(broker, message, out); return;
    case MSG_SESSION:
    case MSG_SESSION_END:
    case MSG_SESSION_CLOSE: session_message(broker, message, out); return;
    case MSG_LEVELS:
    case MSG_LEVELS_TAKEN: levels_message(broker, message, out); return;
    case MSG_CONTROL:
    case MSG_DELTA:
    case MSG_DELTA_TAKEN:
    case MSG_JOURNAL:
    case MSG_BACK_FAILED:
    case MSG_BACK_FULL:
    case MSG_HANDLE_COMES:
    case MSG_TAKEN:
    case MSG_RECOVERED:
    case MSG_RAISED:
    case MSG_SERVING:
    case MSG_STATE:
    case MSG_STATES_END:
    case MSG_WANT_CHECKPOINT:
    case MSG_DRAINED:
    case MSG_CLOSED:
    case MSG_END: start_message(broker, message, out); return;
    }
    UNREACHABLE();
}

/* ---- the step -------------------------------------------------------------------------------------------------------- */

/* Messages are taken in order, and none while records are being applied: what follows a change is not seen before it. */
static bool take_message(struct broker *broker, struct port_out *out)
{
    struct port_message message;
    if (broker->applying.is_on || !ring_pop(&broker->inbox, &message)) { return false; }
    on_message(broker, &message, out);
    return true;
}

static bool has_room(const struct broker *broker, const struct port_out *out)
{
    return broker->step_left > 0 && port_out_room(out) >= STEP_EFFECTS_ROOM;
}

/* Whatever asks more of others waits while queues are nearly full; taking messages empties them. */
bool may_ask(const struct broker *broker)
{
    return ring_room(&broker->inbox) >= broker->inbox.size / 2 && ring_room(&broker->outbox) >= broker->outbox.size / 2;
}

/* Goes round the parts, a few items each, until nothing is left to do or the step has had its share. The order is fixed, and a
 * round gives each part its turn, so that none starves another; several items, so that a busy part is not charged for asking
 * each of the idle ones between any two of its own. */
#define PORTION 16

static void work(struct broker *broker, struct port_out *out)
{
    static const struct {
        bool (*const poll)(struct broker *, struct port_out *);
        bool asks;
    } parts[] = {{apply_poll, false},      {take_message, false}, {back_poll, true},  {start_poll, true},
                 {coordinator_poll, true}, {front_poll, true},    {front_issue, true}};
    size_t idle_count = 0; /* so many in a row have had nothing to do */
    for (size_t i = 0; idle_count < BASE_ARRAY_COUNT(parts); i = (i + 1) % BASE_ARRAY_COUNT(parts)) {
        idle_count += 1;
        for (uint32_t n = 0; n < PORTION; n++) {
            if (!has_room(broker, out)) {
                out->wants_continue = true;
                return;
            }
            if (parts[i].asks && !may_ask(broker)) { break; }
            if (!parts[i].poll(broker, out)) { break; }
            broker->step_left -= 1;
            /* Asked until it had nothing: that was its turn in the next round, too. */
            idle_count = n + 1 < PORTION ? 1 : 0;
        }
    }
}

static void on_done(struct broker *broker, const struct port_event *event, struct port_out *out)
{
    switch (event->done.token >> 56) {
    case PLOG_TOKEN_ROOM: plog_done(broker->plog, event, out); return;
    case JOURNAL_TOKEN_ROOM: journal_done(broker->journal, event, out); return;
    case CONN_TOKEN_ROOM: conn_done(broker->conns, event, out); return;
    case FRONT_TOKEN_ROOM: front_done(broker, event, out); return;
    }
    UNREACHABLE();
}

bool broker_is_token_of_journal(uint64_t token) { return token >> 56 == JOURNAL_TOKEN_ROOM; }

static void on_turn(struct broker *broker, const struct port_event *event, struct port_out *out)
{
    plog_turn(broker->plog, event, out);
    if (is_first(broker)) { journal_turn(broker->journal, event, out); }
    conn_turn(broker->conns, out);
}

static void on_alarm(struct broker *broker, const struct port_event *event, struct port_out *out)
{
    if (is_first(broker)) { journal_turn(broker->journal, event, out); }
    plog_alarm(broker->plog, event, out);
    conn_alarm(broker->conns, event, out);
    front_alarm(broker, out);
}

static void set_alarm(const struct broker *broker, struct port_out *out)
{
    port_alarm(out, plog_next_alarm_ns(broker->plog));
    port_alarm(out, conn_next_alarm_ns(broker->conns));
    if (is_first(broker)) { port_alarm(out, journal_next_alarm_ns(broker->journal)); }
    port_alarm(out, front_next_alarm_ns(broker));
    port_alarm(out, start_next_alarm_ns(broker));
    port_alarm(out, coordinator_next_alarm_ns(broker));
}

void broker_step(struct broker *broker, const struct port_event *event, struct port_out *out)
{
    CHECK(event->now_ns >= broker->now_ns); /* a step back would fire deadlines twice */
    broker->now_ns = event->now_ns;
    broker->wall_ms = event->wall_ms;
    broker->step_left = broker->config.step_max;
    out->wants_debug = broker->wants_debug;
    flush_outbox(broker, out);
    switch (event->kind) {
    case PORT_EVENT_START:
        broker->began_ns = event->now_ns;
        plog_start(broker->plog, event);
        /* Until the metadata are loaded: a log is open before its configs are known. */
        plog_hold_retention(broker->plog, true);
        start_begin(broker, out);
        break;
    case PORT_EVENT_DONE: on_done(broker, event, out); break;
    case PORT_EVENT_ALARM: on_alarm(broker, event, out); break;
    case PORT_EVENT_TURN: on_turn(broker, event, out); break;
    case PORT_EVENT_CONTINUE: on_turn(broker, event, out); break;
    case PORT_EVENT_MESSAGE: ring_push(&broker->inbox, &event->message); break;
    case PORT_EVENT_STOP: stop_begin(broker, out); break;
    case PORT_EVENT_COUNT: UNREACHABLE();
    }
    work(broker, out);
    kept_yield(broker, out);
    if (ring_count(&broker->outbox) > 0) { out->wants_continue = true; }
    set_alarm(broker, out);
    CHECK_SLOW(broker->config.is_check_slow, plog_is_sound(broker->plog));
}

/* ---- creation --------------------------------------------------------------------------------------------------------- */

void broker_config_default(struct broker_config *config)
{
    *config = (struct broker_config){
        .shards = 1,
        .node_id = 1,
        .is_auto_create = true,
        .partitions_default = 1,
        .described_partitions_max = 2000,
        .fetch_bytes_max = 57671680,
        .session_slots_max = 1000,
        .session_eviction_ms = 120000,
        .coordinator_groups = 8,
        .coordinator_grown_bytes = (uint64_t)4 << 20,
        .metadata_grown_bytes = (uint64_t)20 << 20,
        .own_segment_bytes = (uint64_t)16 << 20,
        .group_initial_delay_ms = 3000,
        .group_session_min_ms = 6000,
        .group_session_max_ms = 1800000,
        .group_size_max = INT32_MAX,
        .offset_metadata_max = 4096,
        .offsets_retention_minutes = 10080,
        .offsets_check_ms = 600000,
        .request_bytes_max = 104857600,
        .connections_max = 1024,
        .in_flight_max = 128,
        .idle_ms = 600000,
        .address_connections_max = INT32_MAX,
        .files_max = 1024,
        .topics_max = 10000,
        .partitions_max = 20000,
        .producer_expiry_ms = 86400000,
        .retention_check_ms = 300000,
        .journal_bytes_max = (uint64_t)1 << 30,
        .journal_file_bytes = (uint64_t)64 << 20,
        .inline_bytes_max = 64 << 10,
        .decompressed_bytes_max = 64 << 20,
        .shutdown_ms = 10000,
        .step_max = 256,
    };
    memset(config->levels, -1, sizeof config->levels);
    config->levels[0] = PORT_INFO;
}

#define RESERVE_BYTES_MAX ((uint64_t)16 << 20) /* of the file that keeps room for metadata and deletions */

/* How much of everything: in proportion to the region, within what makes sense for a shard. */
struct sizes {
    uint32_t requests;
    uint32_t parts;    /* asked by this front at once */
    uint32_t back_ops; /* of all fronts, on this back */
    uint32_t ring;
    uint32_t producers;
};

static uint32_t power_of_two_at_least(uint64_t n)
{
    uint32_t power = 16;
    while (power < n) { power *= 2; }
    return power;
}

/* What was asked for, where something was, but never more than follows by itself. */
uint64_t few_or(uint64_t few, uint64_t derived) { return few > 0 ? base_min_u64(few, derived) : derived; }

static struct sizes sizes_of(const struct broker_config *config, size_t region_bytes)
{
    /* Rings are powers of two: of those of 32 MiB the next would take more than a little more memory brings. */
    size_t little_bytes = (size_t)32 << 20;
    size_t bytes = region_bytes < 2 * little_bytes ? base_min_size(region_bytes, little_bytes) : region_bytes;
    uint64_t requests = base_min_u64(base_max_u64(bytes / (64 << 10), 128), 16384);
    uint64_t parts = base_min_u64(base_max_u64(bytes / (64 << 10), 512), 8192);
    requests = few_or(config->few.requests, requests);
    parts = few_or(config->few.parts, parts);
    /* One that makes room for another is forgotten, and a late retry of its is taken for news: there are many. */
    uint64_t producers = base_min_u64(base_max_u64(region_bytes / (16 << 10), 1024), 262144);
    return (struct sizes){.requests = (uint32_t)requests,
                          .parts = (uint32_t)parts,
                          .back_ops = (uint32_t)parts,
                          .ring = power_of_two_at_least(4 * (requests + parts) + 4096),
                          .producers = config->producers_max != 0 ? config->producers_max : (uint32_t)producers};
}

/* Partitions lie where their hash says: twice a shard's share and a thousand more is out of chance's reach, and a shard that had
 * no room would say so (back_log_open). */
static uint32_t logs_of_back(const struct broker_config *config)
{
    uint64_t share = ((uint64_t)config->partitions_max + config->shards - 1) / config->shards;
    /* and the metadata log, and the coordinators' */
    return (uint32_t)base_min_u64(config->partitions_max, 2 * share + 1024) + 1 + config->coordinator_groups;
}

/* The fronts share what a back can have under way. */
static uint32_t parts_of_front(const struct broker_config *config, const struct sizes *sizes)
{
    return (uint32_t)base_max_u64(sizes->parts / config->shards, BROKER_PARTS_OF_FRONT_MIN);
}

#define JOURNAL_GROUP_HEAD_BYTES 8192u /* more than the table of a group of one entry, twice, and the end of a page */

static uint32_t journal_group_bytes(const struct broker_config *config)
{
    return (uint32_t)base_min_u64(1 << 20, config->journal_file_bytes / 2);
}

static struct plog_config plog_config_of(const struct broker_config *config, const struct sizes *sizes)
{
    return (struct plog_config){.shard = config->shard,
                                .disk = 0,
                                .logs_max = logs_of_back(config),
                                .segments_max = (uint32_t)few_or(config->few.segments, 2 * logs_of_back(config) + 4096),
                                .appends_max = sizes->back_ops,
                                .reads_max = (uint32_t)few_or(config->few.reads, 2 * sizes->back_ops),
                                .producers_max = sizes->producers,
                                .files_max = config->files_max,
                                .file_slot_first = 0,
                                .inline_bytes_max = config->inline_bytes_max,
                                .run_bytes_max = (uint32_t)base_min_u64(64 << 10, journal_group_bytes(config) -
                                                                                      JOURNAL_GROUP_HEAD_BYTES),
                                .step_max = config->step_max,
                                .producer_expiry_ms = config->producer_expiry_ms,
                                .opened_bytes_max = config->decompressed_bytes_max,
                                .retention_check_ms = config->retention_check_ms,
                                .is_check_slow = config->is_check_slow};
}

static enum base_rc create_conns(struct broker *broker, struct base_arena *arena, const struct sizes *sizes)
{
    const struct broker_config *config = &broker->config;
    struct conn_config conn = {.conns_max = config->connections_max,
                               .requests_max = sizes->requests,
                               .in_flight_max = config->in_flight_max,
                               .frame_bytes_max = config->request_bytes_max,
                               .block_bytes = 16 << 10,
                               .trust_bytes = 2 << 20,
                               .idle_ms = config->idle_ms,
                               .queued_bytes_max = config->queued_bytes_max,
                               .tells_opened = addresses_are_limited(config),
                               .is_check_slow = config->is_check_slow};
    return conn_create(arena, broker->pages, &conn, &broker->conns);
}

static enum base_rc create_image(struct broker *broker, struct base_arena *arena)
{
    const struct broker_config *config = &broker->config;
    struct metadata_pair pairs[BROKER_PAIRS_MAX];
    CHECK(config->pair_count <= BROKER_PAIRS_MAX);
    for (uint32_t i = 0; i < config->pair_count; i++) {
        pairs[i] = (struct metadata_pair){.name = config->pairs[i].name, .value = config->pairs[i].value};
    }
    struct metadata_config image = {.node_id = config->node_id,
                                    .topics_max = config->topics_max,
                                    .partitions_max = config->partitions_max,
                                    .brokers_max = 16,
                                    .configs_max = (uint32_t)few_or(config->few.configs, 4 * config->topics_max + 64),
                                    .cluster_id = base_slice_text(config->cluster_id),
                                    .broker_values = pairs,
                                    .broker_values_count = config->pair_count};
    return metadata_create(arena, &image, &broker->image);
}

/* What all fronts together may have asked of one back. */
static uint32_t parts_of_all(const struct broker_config *config, const struct sizes *sizes)
{
    return config->shards * parts_of_front(config, sizes);
}

/* It was judged with the other settings. */
static int16_t replication_default(const struct broker *broker)
{
    int64_t number;
    struct base_slice value = metadata_broker_value(broker->image, base_slice_text("default.replication.factor"));
    bool is_set = base_text_parse_i64(value, &number) == BASE_OK && number >= 1 && number <= INT16_MAX;
    return is_set ? (int16_t)number : 1;
}

/* What only shard 0 has. */
static enum base_rc create_services(struct broker *broker, struct base_arena *arena, const struct sizes *sizes)
{
    const struct broker_config *config = &broker->config;
    uint32_t runs_max = parts_of_all(config, sizes);
    /* A run may bring its segment's birth along; any log may be deleted, or its start moved, all of them at once. */
    uint32_t controls_max = (uint32_t)base_min_u64((uint64_t)sizes->requests * config->shards, 16384);
    uint64_t logs_max = (uint64_t)config->partitions_max + 1 + config->coordinator_groups;
    uint64_t waiting_max = 2 * (uint64_t)runs_max + 2 * logs_max;
    struct journal_config journal = {.shard = config->shard,
                                     .disk = 0,
                                     .file_slot_first = config->files_max,
                                     .entries_max = (uint32_t)few_or(config->few.journal_entries,
                                                                     base_max_u64(base_min_u64(runs_max, 8192), 64)),
                                     .group_bytes_max = journal_group_bytes(config),
                                     .file_bytes = config->journal_file_bytes,
                                     .bytes_max = config->journal_bytes_max,
                                     .reserve_bytes_max = few_or(config->few.reserve_bytes, RESERVE_BYTES_MAX),
                                     .step_max = config->step_max,
                                     .is_check_slow = config->is_check_slow};
    base_prng_fill(&broker->dice, journal.format_id.b, sizeof journal.format_id.b);
    struct controller_config controller = {.node_id = config->node_id,
                                           .partitions_default = config->partitions_default,
                                           .replication_default = replication_default(broker),
                                           .requests_max = sizes->requests,
                                           .proposal_bytes_max = (uint32_t)few_or(config->few.proposal_bytes, 2 << 20),
                                           .seed = config->seed,
                                           .is_check_slow = config->is_check_slow};
    uint8_t *register_bytes = base_arena_take(arena, 4096);
    if (register_bytes == NULL) { return BASE_FULL; }
    base_arena_init(&broker->register_arena, register_bytes, 4096);
    if (journal_create(arena, broker->pages, &journal, &broker->journal) != BASE_OK ||
        controller_create(arena, broker->pages, &controller, broker->image, &broker->controller) != BASE_OK ||
        base_pool_create(arena, sizeof(struct control_op), controls_max, &broker->control_ops) != BASE_OK ||
        base_pool_create(arena, sizeof(struct journal_op), journal.entries_max, &broker->journal_ops) != BASE_OK ||
        ring_create(arena, power_of_two_at_least(waiting_max), &broker->journal_waiting) != BASE_OK) {
        return BASE_FULL;
    }
    return ring_create(arena, power_of_two_at_least(config->shards), &broker->states_waiting);
}

static enum base_rc create_tables(struct broker *broker, struct base_arena *arena, const struct sizes *sizes)
{
    const struct broker_config *config = &broker->config;
    const size_t scratch_bytes = (size_t)64 << 10;
    uint8_t *scratch = base_arena_take(arena, scratch_bytes);
    broker->logs_max = logs_of_back(config);
    broker->logs = base_arena_take_array(arena, broker->logs_max, sizeof *broker->logs);
    broker->parked = base_arena_take_array(arena, config->connections_max, sizeof *broker->parked);
    broker->unbegun = base_arena_take_array(arena, config->connections_max, sizeof *broker->unbegun);
    broker->seen = base_arena_take_array(arena, config->partitions_max, sizeof *broker->seen);
    broker->promises = base_arena_take_array(arena, config->connections_max, sizeof *broker->promises);
    if (broker->seen == NULL || broker->unbegun == NULL || broker->promises == NULL) { return BASE_FULL; }
    if (scratch == NULL || broker->logs == NULL || broker->parked == NULL) { return BASE_FULL; }
    base_arena_init(&broker->apply_scratch, scratch, scratch_bytes);
    base_list_init(&broker->issuing);
    base_list_init(&broker->starved);
    base_list_init(&broker->watching);
    base_list_init(&broker->unwatching);
    base_list_init(&broker->releasing);
    base_list_init(&broker->promised);
    broker->parts_asked_max = parts_of_front(config, sizes);
    broker->patient_max[GROUP_JOIN] = groups_patient_max(GROUP_JOIN, sizes->requests);
    broker->patient_max[GROUP_SYNC] = groups_patient_max(GROUP_SYNC, sizes->requests);
    if (base_pool_create(arena, sizeof(struct request), sizes->requests, &broker->requests) != BASE_OK ||
        base_pool_create(arena, sizeof(struct back_op), 2 * sizes->back_ops + 16, &broker->back_ops) != BASE_OK ||
        base_heap_create(arena, sizes->requests, &broker->deadlines) != BASE_OK ||
        ring_create(arena, sizes->ring, &broker->inbox) != BASE_OK) {
        return BASE_FULL;
    }
    if (ring_create(arena, sizes->ring, &broker->held) != BASE_OK) { return BASE_FULL; }
    if (addresses_create(broker, arena) != BASE_OK) { return BASE_FULL; }
    return ring_create(arena, sizes->ring, &broker->outbox);
}

static enum base_rc create_sessions(struct broker *broker, struct base_arena *arena, const struct sizes *sizes,
                                    size_t blocks_bytes)
{
    const struct broker_config *config = &broker->config;
    uint64_t bytes_max = fetchsession_share(config->session_bytes_max, config->shard, config->shards);
    if (config->session_bytes_max == 0) { bytes_max = blocks_bytes / 8; }
    uint64_t slots_max = fetchsession_share(config->session_slots_max, config->shard, config->shards);
    struct fetchsession_config sessions = {.shard = config->shard,
                                           .shards = config->shards,
                                           .slots_max = (uint32_t)slots_max,
                                           .spare_max = (uint32_t)base_min_u64(sizes->requests, 128),
                                           .eviction_ms = config->session_eviction_ms,
                                           .bytes_max = (size_t)base_min_u64(bytes_max, blocks_bytes),
                                           .seed = config->seed};
    broker->session_seed = base_hash_u64(config->seed + UINT64_C(0x6e616d6573)); /* "names" */
    return fetchsession_create(arena, broker->pages, &sessions, &broker->sessions);
}

enum base_rc broker_create(struct base_region region, const struct broker_config *config, struct broker **broker_out)
{
    CHECK(config->shards > 0 && config->shards <= BROKER_SHARDS_MAX && config->shard < config->shards);
    CHECK(config->listener_count > 0 && config->listener_count <= BROKER_LISTENERS_MAX);
    CHECK(IMPLIES(config->few.parts > 0, config->few.parts >= BROKER_PARTS_OF_FRONT_MIN * config->shards));
    CHECK(IMPLIES(config->few.proposal_bytes > 0, config->few.proposal_bytes >= 64 << 10));
    if (region.size_bytes < BROKER_REGION_BYTES_MIN) { return BASE_FULL; }
    struct sizes sizes = sizes_of(config, region.size_bytes);
    struct base_arena arena;
    /* Half for tables, half for blocks; the tables' half is address space, and costs what is used of it. */
    size_t tables_max = region.size_bytes / 2 / BASE_PAGE_BYTES * BASE_PAGE_BYTES;
    base_arena_init_zeroed(&arena, region.at, tables_max);
    struct broker *broker = base_arena_take_array(&arena, 1, sizeof *broker);
    if (broker == NULL) { return BASE_FULL; }
    broker->config = *config;
    CHECK(config->levels[0] >= 0);
    levels_begin(broker);
    base_prng_init(&broker->dice, config->seed, 1);

    struct base_region rest = {.at = (uint8_t *)region.at + tables_max, .size_bytes = region.size_bytes - tables_max};
    rest.size_bytes = (size_t)few_or(config->few.block_bytes, rest.size_bytes);
    const size_t reserve_bytes[BASE_CLASS_COUNT] = {rest.size_bytes / 16, rest.size_bytes / 4, 0};
    struct plog_config plog = plog_config_of(config, &sizes);
    uint32_t fronts = (uint32_t)base_min_u64(config->shards, 4);
    struct wait_config wait = {.parked_max = sizes.requests * fronts,
                               .watches_max = 4 * sizes.parts * fronts,
                               .is_check_slow = config->is_check_slow};
    broker->blocks_bytes = rest.size_bytes;
    if (base_pages_create(rest, reserve_bytes, &broker->pages) != BASE_OK ||
        create_tables(broker, &arena, &sizes) != BASE_OK || create_conns(broker, &arena, &sizes) != BASE_OK ||
        wait_create(&arena, &wait, &broker->wait) != BASE_OK || create_image(broker, &arena) != BASE_OK ||
        plog_create(&arena, broker->pages, &plog, &broker->plog) != BASE_OK) {
        return BASE_FULL;
    }
    if (coordinator_create(broker, &arena, region.size_bytes, sizes.requests) != BASE_OK) { return BASE_FULL; }
    if (create_sessions(broker, &arena, &sizes, rest.size_bytes) != BASE_OK) { return BASE_FULL; }
    if (config->shard == 0 && create_services(broker, &arena, &sizes) != BASE_OK) { return BASE_FULL; }
    base_pages_refuse(broker->pages, config->refuse_from, config->refuse_count);
    *broker_out = broker;
    return BASE_OK;
}

/* ---- views -------------------------------------------------------------------------------------------------------------- */

const char *broker_state_name(enum broker_state state)
{
    switch (state) {
    case BROKER_BOOT: return "boot";
    case BROKER_RECOVERING: return "recovering";
    case BROKER_LOADING: return "loading";
    case BROKER_SERVING: return "serving";
    case BROKER_DRAINING: return "draining";
    case BROKER_CHECKPOINTING: return "checkpointing";
    case BROKER_CLOSING: return "closing";
    case BROKER_STOPPED: return "stopped";
    }
    return "?";
}

void broker_view(const struct broker *broker, struct broker_view *view_out)
{
    struct conn_view conns;
    conn_view(broker->conns, &conns);
    *view_out = (struct broker_view){.state = broker->state,
                                     .is_disk_failed = broker->is_disk_failed,
                                     .is_metadata_anew = broker->is_snapshotting,
                                     .connections = conns.connections,
                                     .requests = broker->requests.taken_count,
                                     .parked = broker->parked_count,
                                     .refused = base_pages_refused(broker->pages),
                                     .refusals_left = base_pages_refusals_left(broker->pages),
                                     .memory_used_bytes = base_pages_used_bytes(broker->pages),
                                     .memory_total_bytes = broker->blocks_bytes,
                                     .inbox = ring_count(&broker->inbox),
                                     .outbox = ring_count(&broker->outbox),
                                     .waiting_for_memory = conns.waiting_for_pages,
                                     .waiting_for_requests = conns.waiting_for_requests,
                                     .starved = broker->starved.count,
                                     .accepted_total = conns.accepted_total,
                                     .closed_total = conns.closed_total,
                                     .received_bytes = conns.bytes_in_total,
                                     .sent_bytes = conns.bytes_out_total,
                                     .requests_done = broker->requests_done,
                                     .fetches_evaluated = broker->fetches_evaluated};
    memcpy(view_out->ports, broker->ports, sizeof view_out->ports);
    struct fetchsession_view sessions;
    fetchsession_view(broker->sessions, &sessions);
    view_out->fetch_sessions = sessions.sessions;
    view_out->fetch_session_partitions = sessions.partitions;
    view_out->fetch_sessions_opened = sessions.opened;
    view_out->fetch_sessions_evicted = sessions.evicted;
    view_out->fetch_sessions_refused = sessions.refused;
    view_out->fetch_session_bytes = sessions.bytes;
    if (is_first(broker)) {
        struct journal_view journal;
        journal_view(broker->journal, &journal);
        view_out->journal_syncs = journal.syncs;
        view_out->journal_groups = journal.groups;
        view_out->journal_entries = journal.entries;
        _Static_assert(sizeof view_out->journal_sync_sizes == sizeof journal.sync_sizes, "copied whole");
        memcpy(view_out->journal_sync_sizes, journal.sync_sizes, sizeof journal.sync_sizes);
        view_out->journal_synced_entries = journal.synced_entries;
        view_out->journal_bytes = journal.bytes;
        view_out->is_journal_full = journal.is_full;
    }
    for (unsigned class = 0; class < BASE_CLASS_COUNT; class ++) {
        view_out->memory_room_bytes[class] = base_pages_room_bytes(broker->pages, (enum base_class) class);
        view_out->memory_class_bytes[class] = base_pages_class_bytes(broker->pages, (enum base_class) class);
    }
    struct group_view groups;
    group_view(broker->groups, &groups);
    view_out->groups = groups.groups;
    view_out->members = groups.members;
    view_out->offsets = groups.offsets;
    view_out->logs = back_logs(broker);
}

bool broker_each_log(const struct broker *broker, uint32_t *cursor, struct broker_log_view *view_out)
{
    struct plog_ref ref;
    struct base_part id;
    if (!plog_each(broker->plog, cursor, &ref, &id)) { return false; }
    struct plog_view view;
    plog_view(broker->plog, ref, &view);
    const struct back_log *log = &broker->logs[ref.slot];
    *view_out =
        (struct broker_log_view){.id = view.id,
                                 .fetched_bytes = log->ref.generation == ref.generation ? log->fetched_bytes : 0,
                                 .topic = view.name,
                                 .offset_start = view.offset_start,
                                 .start_next = view.start_next,
                                 .offset_end = view.offset_end,
                                 .watermark = view.watermark,
                                 .leader_epoch = view.leader_epoch,
                                 .size_bytes = view.size_bytes,
                                 .is_failed = view.is_failed,
                                 .is_damaged = view.is_damaged};
    return true;
}

bool broker_each_commit(const struct broker *broker, uint32_t *cursor, struct broker_commit_view *view_out)
{
    struct group_offset_look look;
    if (!group_each_offset(broker->groups, cursor, &look)) { return false; }
    *view_out = (struct broker_commit_view){.group = look.group_id, .id = look.part, .offset = look.offset};
    return true;
}

bool broker_is_quiet(const struct broker *broker)
{
    if (broker->requests.taken_count > 0 || broker->back_ops.taken_count > 0 || broker->parts_asked > 0) {
        return false;
    }
    if (ring_count(&broker->inbox) > 0 || ring_count(&broker->outbox) > 0 || broker->applying.is_on) { return false; }
    if (!plog_is_quiet(broker->plog) || !conn_is_quiet(broker->conns)) { return false; }
    if (wait_parked_count(broker->wait) > 0) { return false; }
    if (!group_is_quiet(broker->groups) || !fetchsession_is_quiet(broker->sessions)) { return false; }
    return !is_first(broker) || (journal_is_quiet(broker->journal) && controller_is_quiet(broker->controller));
}

int64_t broker_lost_blocks(const struct broker *broker)
{
    int64_t held = broker->kept.count;
    held += plog_blocks(broker->plog);
    held += fetchsession_blocks(broker->sessions);
    return (int64_t)base_pages_block_count(broker->pages) - held;
}
