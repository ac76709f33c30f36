/* fuzz_group.c: any sequence of what clients ask of groups, of what a log says, and of records that nobody wrote.
 *
 * Input   byte 0 steers: bit 0 small limits, bit 1 no initial delay. Then operations, an opcode and its arguments each: the requests of
 *         the classic protocol with ids that meet each other (those that were given out among them) and with ones that do not;
 *         time; proposals that are held, land, or fail; a topic that goes and comes; snapshots; restarts; records of any bytes.
 * Holds   the machine is sound after each item of work; no committed generation goes back; every request is answered once, at
 *         the latest when the node stops; every answer can be said in the version that was asked; the log, applied to an empty
 *         machine, says what the live one knows; nothing of the pages is left. A second keeper of offsets and assignments
 *         (group_model.h), which sees requests and answers alone, finds every committed offset there, and nothing else; and
 *         whoever asks twice in a generation is told the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "group/group.h"
#include "group_model.h"
#include "input.h"
#include "metadata/metadata.h"
#include "wire/kafka/heartbeat.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/leave_group.h"
#include "wire/kafka/list_groups.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_delete.h"
#include "wire/kafka/offset_fetch.h"
#include "wire/kafka/sync_group.h"

#define OPS_MAX      128
#define ASKS_MAX     128
#define ARENA_BYTES  8192
#define GROUPS_BYTES ((size_t)2 << 20)
#define PAGES_BYTES  ((size_t)2 << 20)
#define LOG_BYTES    ((size_t)1 << 20)
#define RECORDS_MAX  8192
#define IDS_MAX      4
#define LOGS         2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct asked {
    enum group_kind kind;
    int16_t version;
    struct model_asked asked;
    bool is_answered;
    struct base_arena arena;
    _Alignas(16) uint8_t memory[ARENA_BYTES];
};

static _Alignas(16) uint8_t groups_memory[2][GROUPS_BYTES];
static _Alignas(4096) uint8_t pages_memory[PAGES_BYTES];
static _Alignas(16) uint8_t image_memory[(size_t)256 << 10];
static uint8_t log_bytes[LOG_BYTES];
static struct {
    uint32_t log;
    struct base_slice value;
} records[RECORDS_MAX];
static struct asked asks[ASKS_MAX];
static struct {
    char words[80];
    size_t size_bytes;
} ids[IDS_MAX];

static struct {
    struct group_config config;
    struct groups *groups;
    struct metadata *image;
    struct base_pages *pages;
    struct group_out held[LOGS];
    bool is_held[LOGS];
    bool has_failed;
    bool is_leading;
    bool has_strangers; /* records that the machine did not decide: it holds no promise about them but to stay sound */
    uint32_t asks_count;
    uint32_t records_count;
    size_t log_used;
    uint32_t ids_next;
    uint64_t now_ns;
    int64_t wall_ms;
    int32_t generations[4];
    uint32_t topic_number;
    uint32_t asked_name;
    struct model model;
    bool is_told; /* WEIR_FUZZ_TRACE: operations, answers and committed offsets that changed, to stderr */
} it;

static const char *const names[] = {"", "a", "b", "cc"};

static void __attribute__((format(printf, 1, 2))) tell(const char *format, ...)
{
    if (!it.is_told) { return; }
    va_list list;
    va_start(list, format);
    (void)vfprintf(stderr, format, list);
    va_end(list);
}

/* ---- the machine --------------------------------------------------------------------------------------------------------- */

static struct groups *make(uint32_t place)
{
    struct base_arena arena;
    struct groups *groups;
    CHECK(group_arena_bytes(&it.config) <= GROUPS_BYTES);
    base_arena_init(&arena, groups_memory[place], GROUPS_BYTES);
    CHECK(group_create(&arena, it.pages, &it.config, it.image, &groups) == BASE_OK);
    return groups;
}

static void put_topic(void)
{
    struct base_uuid id = {{0}};
    it.topic_number += 1;
    base_put_u32(id.b + 12, 77 + it.topic_number);
    CHECK(metadata_put_topic(it.image, base_slice_text("t"), id) == BASE_OK);
    for (int32_t i = 0; i < 2; i++) {
        struct metadata_partition value = {
            .id = {id, i}, .leader = 1, .replicas_count = 1, .isr_count = 1, .replicas = {1}, .isr = {1}};
        CHECK(metadata_put_partition(it.image, &value) == BASE_OK);
    }
}

static void remember_id(struct kafka_text id)
{
    if (kafka_text_slice(id).size_bytes == 0 || kafka_text_slice(id).size_bytes > sizeof ids[0].words) { return; }
    for (uint32_t i = 0; i < IDS_MAX; i++) {
        struct base_slice known = base_slice_of(ids[i].words, ids[i].size_bytes);
        if (base_slice_equal(known, kafka_text_slice(id))) { return; }
    }
    memcpy(ids[it.ids_next % IDS_MAX].words, kafka_text_slice(id).at, kafka_text_slice(id).size_bytes);
    ids[it.ids_next % IDS_MAX].size_bytes = kafka_text_slice(id).size_bytes;
    it.ids_next += 1;
}

static const enum kafka_message answers[] = {
    [GROUP_JOIN] = KAFKA_MESSAGE_JOIN_GROUP_RESPONSE,
    [GROUP_SYNC] = KAFKA_MESSAGE_SYNC_GROUP_RESPONSE,
    [GROUP_HEARTBEAT] = KAFKA_MESSAGE_HEARTBEAT_RESPONSE,
    [GROUP_LEAVE] = KAFKA_MESSAGE_LEAVE_GROUP_RESPONSE,
    [GROUP_COMMIT] = KAFKA_MESSAGE_OFFSET_COMMIT_RESPONSE,
    [GROUP_OFFSET_DELETE] = KAFKA_MESSAGE_OFFSET_DELETE_RESPONSE,
    [GROUP_DELETE] = KAFKA_MESSAGE_NONE,
    [GROUP_FETCH] = KAFKA_MESSAGE_NONE,
    [GROUP_DESCRIBE] = KAFKA_MESSAGE_NONE,
    [GROUP_LIST] = KAFKA_MESSAGE_LIST_GROUPS_RESPONSE,
};

static void answered(const struct group_out *item)
{
    CHECK(item->token < it.asks_count && !asks[item->token].is_answered);
    struct asked *asked = &asks[item->token];
    asked->is_answered = true;
    char words[512] = "";
    if (answers[asked->kind] != KAFKA_MESSAGE_NONE) {
        struct base_text text;
        base_text_init(&text, words, sizeof words);
        if (it.is_told) { kafka_print(answers[asked->kind], item->response, asked->version, &text); }
        struct kafka_size size;
        CHECK(kafka_response_size(answers[asked->kind], item->response, asked->version, &size) == BASE_OK);
    }
    if (asked->kind == GROUP_JOIN) {
        remember_id(((const struct kafka_join_group_response *)item->response)->member_id);
    }
    tell("answer %u: kind %d, group \"%s\" %s\n", (unsigned)item->token, (int)asked->kind, names[asked->asked.group],
         words);
    bool is_plausible = model_answered(&it.model, &asked->asked, item->response);
    CHECK(is_plausible || it.has_strangers || it.has_failed);
    if (item->block != NULL) { base_pages_give(it.pages, item->block); }
}

static void keep(const struct group_out *item)
{
    tell("log %u: %u records%s\n", item->log, item->records_count, item->is_snapshot ? ", of a snapshot" : "");
    for (uint32_t i = 0; i < item->records_count; i++) {
        struct base_slice value = item->records[i].value;
        for (size_t k = 0; k < value.size_bytes; k++) { tell("%02x", value.at[k]); }
        tell("\n");
        if (it.records_count == RECORDS_MAX || value.size_bytes > LOG_BYTES - it.log_used) {
            it.has_strangers = true; /* the log is longer than what is kept of it here */
            return;
        }
        memcpy(log_bytes + it.log_used, value.at, value.size_bytes);
        records[it.records_count].log = item->log;
        records[it.records_count].value = base_slice_of(log_bytes + it.log_used, value.size_bytes);
        it.log_used += value.size_bytes;
        it.records_count += 1;
    }
}

static void check_generations(void)
{
    for (uint32_t i = 0; i < BASE_ARRAY_COUNT(names); i++) {
        int32_t generation;
        bool is_there = group_generation(it.groups, base_slice_text(names[i]), &generation);
        if (!is_there) { /* deleted, or expired: the next one of its name begins anew */
            generation = 0;
            model_group_gone(&it.model, i);
        }
        if (is_there && !it.has_strangers) { CHECK(generation >= it.generations[i]); }
        it.generations[i] = generation;
    }
}

static void check_offsets(void)
{
    const struct metadata_topic *topic = metadata_topic_by_name(it.image, base_slice_text("t"));
    if (topic == NULL || it.has_strangers || it.has_failed) { return; }
    for (uint32_t i = 0; i < BASE_ARRAY_COUNT(names); i++) {
        for (int32_t p = 0; p < MODEL_PARTITIONS; p++) {
            int64_t offset = 0;
            struct base_part part = {.topic = topic->id, .index = p};
            bool is_there = group_offset(it.groups, base_slice_text(names[i]), part, &offset);
            if (is_there || it.model.offsets[i][p].is_there) {
                tell("  offset of \"%s\" %d: %lld; sure for %lld ms\n", names[i], p, is_there ? (long long)offset : -1,
                     (long long)(it.model.offsets[i][p].sure_until_ms - it.wall_ms));
            }
            CHECK(model_agrees(&it.model, i, (uint32_t)p, is_there, offset, it.wall_ms));
        }
    }
}

static void run(void)
{
    for (uint32_t steps = 0;; steps++) {
        struct group_out item;
        CHECK(steps < 100000); /* nothing goes round in circles */
        group_poll(it.groups, it.now_ns, it.wall_ms, &item);
        CHECK(group_is_sound(it.groups) || it.has_strangers || it.has_failed);
        check_generations();
        if (item.kind == GROUP_OUT_NOTHING) { break; }
        if (item.kind == GROUP_OUT_ANSWER) { answered(&item); }
        if (item.kind == GROUP_OUT_PROPOSE) {
            CHECK(!it.is_held[item.log]);
            it.held[item.log] = item;
            it.is_held[item.log] = true;
        }
    }
    check_offsets();
}

static void land(uint32_t log)
{
    if (!it.is_held[log]) { return; }
    it.is_held[log] = false;
    keep(&it.held[log]);
    group_committed(it.groups, log);
    run();
}

static void land_all(void)
{
    for (uint32_t turn = 0; turn < 1000 && (it.is_held[0] || it.is_held[1]); turn++) {
        land(0);
        land(1);
    }
}

static void lead(struct groups *groups)
{
    it.is_leading = true;
    for (uint32_t i = 0; i < LOGS; i++) { group_leads(groups, i, it.now_ns, it.wall_ms); }
}

static void replay(struct groups *into)
{
    for (uint32_t i = 0; i < it.records_count; i++) {
        CHECK(group_apply(into, records[i].log, records[i].value) == BASE_OK);
    }
}

static void stop(void)
{
    land_all();
    group_drain(it.groups);
    run();
    land_all();
    for (uint32_t i = 0; i < it.asks_count; i++) { CHECK(asks[i].is_answered); }
    CHECK(group_is_quiet(it.groups));
    CHECK(base_pages_block_count(it.pages) == 0);
}

/* ---- asking ---------------------------------------------------------------------------------------------------------------- */

static void *arena_take(struct asked *asked, size_t bytes)
{
    void *at = base_arena_take_array(&asked->arena, 1, bytes);
    CHECK(at != NULL); /* ARENA_BYTES holds a request and a small answer */
    return at;
}

static struct kafka_text member_of(struct input *input)
{
    uint8_t which = take_u8(input);
    if (which % 8 == 0) { return kafka_text_words(""); }
    if (which % 8 == 1) { return kafka_text_words("nobody"); }
    return kafka_text_of(ids[which / 8 % IDS_MAX].words, ids[which / 8 % IDS_MAX].size_bytes);
}

static struct kafka_text instance_of(struct input *input)
{
    static const char *const instances[] = {NULL, NULL, "i0", "i1"};
    const char *words = instances[take_u8(input) % 4];
    return words == NULL ? kafka_text_null() : kafka_text_words(words);
}

/* Mostly the one that is, so that more is met than refusals. */
static int32_t generation_of(struct input *input)
{
    uint8_t which = take_u8(input);
    return which % 4 == 0 ? which / 4 % 8 : it.generations[it.asked_name];
}

static const void *join_request(struct input *input, struct asked *asked)
{
    struct kafka_join_group_request *request = arena_take(asked, sizeof *request);
    kafka_join_group_request_init(request);
    request->member_id = member_of(input);
    if (asked->version >= 5) { request->group_instance_id = instance_of(input); }
    uint8_t words = take_u8(input);
    request->protocol_type = kafka_text_words((words & 1) != 0 && (words & 2) != 0 ? "connect" : "consumer");
    request->session_timeout_ms = 6000 + (words >> 2) * 100;
    request->rebalance_timeout_ms = (take_u8(input) % 32) * 1000;
    request->protocols_count = words % 3 + 1;
    request->protocols =
        kafka_join_group_request_join_group_request_protocol_take(&asked->arena, request->protocols_count);
    CHECK(request->protocols != NULL);
    static const char *const protocols[] = {"range", "sticky", "x"};
    for (int32_t i = 0; i < request->protocols_count; i++) {
        request->protocols[i].name = kafka_text_words(protocols[(words + i) % 3]);
        request->protocols[i].metadata = kafka_bytes_of(input->at, base_min_size(input->left, words % 8));
    }
    return request;
}

static const void *sync_request(struct input *input, struct asked *asked)
{
    struct kafka_sync_group_request *request = arena_take(asked, sizeof *request);
    kafka_sync_group_request_init(request);
    request->member_id = member_of(input);
    request->generation_id = generation_of(input);
    request->protocol_type = kafka_text_words("consumer");
    request->protocol_name = kafka_text_words(request->generation_id % 5 == 4 ? "sticky" : "range");
    request->assignments_count = 2;
    request->assignments = kafka_sync_group_request_sync_group_request_assignment_take(&asked->arena, 2);
    CHECK(request->assignments != NULL);
    for (int32_t i = 0; i < 2; i++) {
        request->assignments[i].member_id = member_of(input);
        request->assignments[i].assignment = kafka_bytes_of("assignment", take_u8(input) % 10);
    }
    return request;
}

static const void *leave_request(struct input *input, struct asked *asked)
{
    struct kafka_leave_group_request *request = arena_take(asked, sizeof *request);
    kafka_leave_group_request_init(request);
    request->member_id = member_of(input);
    request->members_count = asked->version < 3 ? 0 : take_u8(input) % 4;
    request->members = kafka_leave_group_request_member_identity_take(&asked->arena, request->members_count);
    CHECK(request->members != NULL);
    for (int32_t i = 0; i < request->members_count; i++) {
        request->members[i].member_id = member_of(input);
        request->members[i].group_instance_id = instance_of(input);
    }
    return request;
}

static const void *commit_request(struct input *input, struct asked *asked)
{
    struct kafka_offset_commit_request *request = arena_take(asked, sizeof *request);
    kafka_offset_commit_request_init(request);
    request->member_id = member_of(input);
    request->generation_id_or_member_epoch = take_u8(input) % 4 == 0 ? -1 : generation_of(input);
    request->retention_time_ms = take_u8(input) % 2 == 0 ? -1 : 1000;
    request->topics = kafka_offset_commit_request_offset_commit_request_topic_take(&asked->arena, 1);
    CHECK(request->topics != NULL);
    request->topics_count = 1;
    request->topics[0].name = kafka_text_words(take_u8(input) % 8 == 0 ? "none" : "t");
    request->topics[0].partitions_count = take_u8(input) % 4;
    request->topics[0].partitions =
        kafka_offset_commit_request_offset_commit_request_partition_take(&asked->arena,
                                                                         request->topics[0].partitions_count);
    CHECK(request->topics[0].partitions != NULL);
    for (int32_t i = 0; i < request->topics[0].partitions_count; i++) {
        request->topics[0].partitions[i].partition_index = take_u8(input) % 3;
        request->topics[0].partitions[i].committed_offset = take_u8(input);
        request->topics[0].partitions[i].committed_metadata = kafka_text_of("metadata", take_u8(input) % 8);
    }
    return request;
}

static const void *request_of(struct input *input, struct asked *asked)
{
    switch (asked->kind) {
    case GROUP_JOIN: return join_request(input, asked);
    case GROUP_SYNC: return sync_request(input, asked);
    case GROUP_LEAVE: return leave_request(input, asked);
    case GROUP_COMMIT: return commit_request(input, asked);
    case GROUP_HEARTBEAT: {
        struct kafka_heartbeat_request *request = arena_take(asked, sizeof *request);
        kafka_heartbeat_request_init(request);
        request->member_id = member_of(input);
        request->group_instance_id = instance_of(input);
        request->generation_id = generation_of(input);
        return request;
    }
    case GROUP_FETCH: {
        struct kafka_offset_fetch_request_offset_fetch_request_group *request = arena_take(asked, sizeof *request);
        kafka_offset_fetch_request_offset_fetch_request_group_init(request);
        request->topics_count = -1;
        return request;
    }
    case GROUP_OFFSET_DELETE: {
        struct kafka_offset_delete_request *request = arena_take(asked, sizeof *request);
        kafka_offset_delete_request_init(request);
        request->topics = kafka_offset_delete_request_offset_delete_request_topic_take(&asked->arena, 1);
        CHECK(request->topics != NULL);
        request->topics_count = 1;
        request->topics[0].name = kafka_text_words("t");
        request->topics[0].partitions =
            kafka_offset_delete_request_offset_delete_request_partition_take(&asked->arena, 1);
        CHECK(request->topics[0].partitions != NULL);
        request->topics[0].partitions_count = 1;
        request->topics[0].partitions[0].partition_index = take_u8(input) % 3;
        return request;
    }
    case GROUP_LIST: {
        struct kafka_list_groups_request *request = arena_take(asked, sizeof *request);
        kafka_list_groups_request_init(request);
        return request;
    }
    case GROUP_DELETE:
    case GROUP_DESCRIBE: return NULL;
    }
    UNREACHABLE();
}

static void ask(struct input *input, enum group_kind kind)
{
    static const int16_t versions[] = {
        [GROUP_JOIN] = 9,          [GROUP_SYNC] = 5,   [GROUP_HEARTBEAT] = 4, [GROUP_LEAVE] = 5,    [GROUP_COMMIT] = 9,
        [GROUP_OFFSET_DELETE] = 0, [GROUP_DELETE] = 2, [GROUP_FETCH] = 9,     [GROUP_DESCRIBE] = 6, [GROUP_LIST] = 5,
    };
    if (it.asks_count == ASKS_MAX) { return; }
    tell("ask %u: kind %d\n", it.asks_count, (int)kind);
    struct asked *asked = &asks[it.asks_count];
    asked->kind = kind;
    asked->is_answered = false;
    uint8_t which = take_u8(input);
    it.asked_name = which % 8 < 6 ? 1 : which / 8 % BASE_ARRAY_COUNT(names);
    asked->version = which % 16 < 12 ? versions[kind] : (int16_t)(which / 16 % (versions[kind] + 1));
    if (kind == GROUP_COMMIT && asked->version < 2) { asked->version = 2; }
    base_arena_init(&asked->arena, asked->memory, ARENA_BYTES);
    struct group_request request = {.token = it.asks_count,
                                    .kind = kind,
                                    .version = asked->version,
                                    .group_id = base_slice_text(kind == GROUP_LIST ? "" : names[it.asked_name]),
                                    .client_id = base_slice_text("c"),
                                    .client_host = base_slice_text("/h"),
                                    .arena = &asked->arena};
    request.request = request_of(input, asked);
    asked->asked = (struct model_asked){.group = it.asked_name,
                                        .kind = kind,
                                        .request = request.request,
                                        .topic_number = it.model.topic_number,
                                        .wall_ms = it.wall_ms};
    if (group_submit(it.groups, &request) == BASE_OK) { it.asks_count += 1; }
}

/* ---- operations -------------------------------------------------------------------------------------------------------------- */

static void pass(uint64_t ms)
{
    it.now_ns += ms * 1000000;
    it.wall_ms += (int64_t)ms;
}

/* Bytes of anybody, as a record, while the log is being loaded: what is no record changes nothing. */
static void apply_bytes(struct input *input)
{
    uint8_t head[] = {1, 0xa1, 0x9c, 1, 0}; /* a right frame of one of our types */
    uint8_t bytes[64];
    if (it.is_leading) { return; }
    size_t head_bytes = take_u8(input) % 4 == 0 ? 0 : sizeof head;
    head[1] = (uint8_t)(0xa1 + take_u8(input) % 6);
    size_t size = base_min_size(take_u8(input) % 56, input->left);
    memcpy(bytes, head, head_bytes);
    for (size_t i = 0; i < size; i++) { bytes[head_bytes + i] = take_u8(input); }
    uint64_t before = group_state_hash(it.groups);
    enum base_rc rc = group_apply(it.groups, take_u8(input) % LOGS, base_slice_of(bytes, head_bytes + size));
    CHECK(rc != BASE_BAD || group_state_hash(it.groups) == before);
    it.has_strangers = it.has_strangers || rc != BASE_BAD;
}

static void restart(void)
{
    if (it.has_failed || it.has_strangers) { return; }
    stop();
    it.asks_count = 0;
    it.config.seed += 1;
    it.groups = make(0);
    replay(it.groups);
    lead(it.groups);
}

static void operate(struct input *input, uint8_t op)
{
    static const enum group_kind kinds[] = {GROUP_JOIN,      GROUP_JOIN,     GROUP_SYNC,   GROUP_SYNC,
                                            GROUP_HEARTBEAT, GROUP_LEAVE,    GROUP_COMMIT, GROUP_FETCH,
                                            GROUP_DELETE,    GROUP_DESCRIBE, GROUP_LIST,   GROUP_OFFSET_DELETE};
    if (op % 32 >= 12 && op % 32 < 24) { tell("operation %d\n", op % 32); }
    switch (op % 32) {
    case 12: land(0); return;
    case 13: land(1); return;
    case 14:
    case 15: land_all(); return;
    case 16: pass((uint64_t)take_u8(input) * 10); return;
    case 17: pass((uint64_t)take_u8(input) * 1000); return;
    case 18: pass((uint64_t)take_u8(input) * 100000); return;
    case 19: {
        const struct metadata_topic *topic = metadata_topic_by_name(it.image, base_slice_text("t"));
        if (topic == NULL) {
            put_topic();
        } else {
            CHECK(metadata_remove_topic(it.image, topic->id) == BASE_OK);
            group_topics_changed(it.groups);
            model_topic_changed(&it.model);
        }
        return;
    }
    case 20: group_snapshot(it.groups, take_u8(input) % LOGS); return;
    case 21: restart(); return;
    case 22:
        if (!it.is_held[0]) { return; }
        it.is_held[0] = false;
        it.has_failed = true;
        group_failed(it.groups, 0);
        return;
    case 23: apply_bytes(input); return;
    default: ask(input, kinds[op % 32 % BASE_ARRAY_COUNT(kinds)]); return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {.at = data, .left = size};
    uint8_t steer = take_u8(&input);
    memset(&it, 0, sizeof it);
    it.is_told = getenv("WEIR_FUZZ_TRACE") != NULL;
    memset(ids, 0, sizeof ids);
    it.now_ns = 1000000000;
    it.wall_ms = 1700000000000;
    group_config_default(&it.config);
    bool is_small = (steer & 1) != 0;
    it.config.logs_count = LOGS;
    it.config.groups_max = is_small ? 3 : 64;
    it.config.members_max = is_small ? 4 : 128;
    it.config.offsets_max = is_small ? 3 : 64;
    it.config.requests_max = ASKS_MAX;
    it.config.state_bytes = (size_t)256 << 10;
    it.config.proposal_bytes = is_small ? 4096 : 64 << 10;
    it.config.size_max = is_small ? 2 : INT32_MAX;
    it.config.initial_delay_ms = (steer & 2) != 0 ? 0 : 1000;
    it.config.offsets_retention_ms = 3600000;
    model_init(&it.model, it.wall_ms, it.config.offsets_retention_ms);
    it.config.is_check_slow = false; /* looked at here, where strangers' records are known */
    size_t reserve[BASE_CLASS_COUNT] = {0, 0, 0};
    struct base_region region = {.at = pages_memory, .size_bytes = PAGES_BYTES};
    memset(pages_memory, 0, sizeof pages_memory);
    CHECK(base_pages_create(region, reserve, &it.pages) == BASE_OK);
    struct metadata_config image = {.node_id = 1,
                                    .topics_max = 4,
                                    .partitions_max = 16,
                                    .brokers_max = 1,
                                    .configs_max = 4,
                                    .cluster_id = base_slice_text("AAAAAAAAAAAAAAAAAAAAAA")};
    struct base_arena arena;
    CHECK(metadata_arena_bytes(&image) <= sizeof image_memory);
    base_arena_init(&arena, image_memory, sizeof image_memory);
    CHECK(metadata_create(&arena, &image, &it.image) == BASE_OK);
    put_topic();
    it.groups = make(0);
    for (uint32_t ops = 0; ops < OPS_MAX && input.left > 0; ops++) {
        uint8_t op = take_u8(&input);
        if (!it.is_leading && op % 32 != 23) { lead(it.groups); }
        operate(&input, op);
        run();
    }
    land_all();
    if (!it.has_failed && !it.has_strangers) {
        struct groups *other = make(1);
        replay(other);
        CHECK(group_state_hash(other) == group_state_hash(it.groups));
    }
    stop();
    return 0;
}
