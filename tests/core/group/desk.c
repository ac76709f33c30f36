/* desk.c: see desk.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "desk.h"

#include <stdio.h>

#define MIB         ((size_t)1 << 20)
#define ARENA_BYTES 2048
#define RECORDS_MAX 65536
#define LOG_BYTES   (24 * MIB)

struct desk desk;

static _Alignas(4096) uint8_t pages_memory[16 * MIB];
static _Alignas(16) uint8_t image_memory[16 * MIB];
static _Alignas(16) uint8_t groups_memory[2][48 * MIB];
static uint8_t log_memory[LOG_BYTES];
static size_t log_used;
static struct {
    uint32_t log;
    size_t at;
    size_t size_bytes;
} log_records[RECORDS_MAX];
static uint32_t log_count;
static uint32_t log_from[GROUP_LOGS_MAX]; /* after a snapshot: the first record that counts */
static uint32_t snapshot_from[GROUP_LOGS_MAX];
static bool is_snapshot;

static struct {
    struct base_arena arena;
    uint8_t *memory;
    const void *response;
    void *block;
    bool is_answered;
} tokens[TOKENS_MAX];
static uint32_t tokens_count;
static struct group_out waiting[GROUP_LOGS_MAX];
static uint32_t waiting_count;
static struct base_arena texts;
static _Alignas(16) uint8_t texts_memory[32 * MIB];
static uint32_t topics_count;

/* ---- the machine ------------------------------------------------------------------------------------------------------ */

int given_desk(void **state)
{
    (void)state;
    desk = (struct desk){.now_ns = UINT64_C(1000000000), .wall_ms = INT64_C(1700000000000), .is_checked = true};
    group_config_default(&desk.config);
    desk.config.logs_count = 4;
    desk.config.initial_delay_ms = 100;
    desk.config.is_check_slow = true;
    desk.config.seed = 7;
    log_used = 0;
    log_count = 0;
    tokens_count = 0;
    waiting_count = 0;
    topics_count = 0;
    is_snapshot = false;
    memset(log_from, 0, sizeof log_from);
    base_arena_init(&texts, texts_memory, sizeof texts_memory);
    return 0;
}

static struct groups *make(uint32_t place)
{
    struct base_arena arena;
    struct groups *groups;
    size_t bytes = group_arena_bytes(&desk.config);
    assert_true(bytes <= sizeof groups_memory[place]);
    base_arena_init(&arena, groups_memory[place], bytes);
    assert_int_equal(group_create(&arena, desk.pages, &desk.config, desk.image, &groups), BASE_OK);
    return groups;
}

void lead(void)
{
    for (uint32_t i = 0; i < desk.config.logs_count; i++) { group_leads(desk.groups, i, desk.now_ns, desk.wall_ms); }
    run_desk();
}

void open_desk_loading(void)
{
    struct base_arena arena;
    struct metadata_config image = {.node_id = 1,
                                    .topics_max = 64,
                                    .partitions_max = 4096,
                                    .brokers_max = 4,
                                    .configs_max = 64,
                                    .cluster_id = base_slice_text("AAAAAAAAAAAAAAAAAAAAAA")};
    size_t reserve[BASE_CLASS_COUNT] = {0, 0, 0};
    memset(pages_memory, 0, sizeof pages_memory);
    struct base_region region = {.at = pages_memory, .size_bytes = sizeof pages_memory};
    assert_int_equal(base_pages_create(region, reserve, &desk.pages), BASE_OK);
    base_arena_init(&arena, image_memory, sizeof image_memory);
    assert_int_equal(metadata_create(&arena, &image, &desk.image), BASE_OK);
    desk.groups = make(0);
    put_topic("t", 4);
    put_topic("u", 4);
}

void open_desk(void)
{
    open_desk_loading();
    lead();
}

static void keep(const struct group_out *item)
{
    for (uint32_t i = 0; i < item->records_count; i++) {
        size_t bytes = item->records[i].value.size_bytes;
        assert_true(log_count < RECORDS_MAX && log_used + bytes <= LOG_BYTES);
        memcpy(log_memory + log_used, item->records[i].value.at, bytes);
        log_records[log_count].log = item->log;
        log_records[log_count].at = log_used;
        log_records[log_count].size_bytes = bytes;
        log_count += 1;
        log_used += bytes;
        desk.records += 1;
    }
    if (!item->is_snapshot_end) { return; }
    log_from[item->log] = snapshot_from[item->log];
    is_snapshot = false;
}

static void commit_item(const struct group_out *item)
{
    keep(item);
    group_committed(desk.groups, item->log);
}

static void pull(void)
{
    struct group_out item;
    for (;;) {
        group_poll(desk.groups, desk.now_ns, desk.wall_ms, &item);
        if (item.kind == GROUP_OUT_NOTHING) { return; }
        if (item.kind == GROUP_OUT_PROPOSE) {
            desk.proposals += 1;
            if (desk.is_holding) {
                waiting[waiting_count++] = item;
            } else {
                commit_item(&item);
            }
        } else if (item.kind == GROUP_OUT_ANSWER) {
            assert_true(item.token < tokens_count && !tokens[item.token].is_answered);
            tokens[item.token].is_answered = true;
            tokens[item.token].response = item.response;
            tokens[item.token].block = item.block;
        }
        assert_true(group_is_sound(desk.groups));
    }
}

void run_desk(void) { pull(); }

void begin_snapshot(uint32_t log)
{
    snapshot_from[log] = log_count;
    is_snapshot = true;
    group_snapshot(desk.groups, log);
    run_desk();
}

bool snapshot_is_running(void) { return is_snapshot; }

uint32_t held(void) { return waiting_count; }

void land(void)
{
    uint32_t count = waiting_count;
    struct group_out items[GROUP_LOGS_MAX];
    memcpy(items, waiting, count * sizeof items[0]);
    waiting_count = 0;
    for (uint32_t i = 0; i < count; i++) { commit_item(&items[i]); }
    pull();
}

void fail_log(void)
{
    assert_int_equal(waiting_count, 1);
    waiting_count = 0;
    desk.is_checked = false;
    group_failed(desk.groups, waiting[0].log);
    pull();
}

void pass_ms(int64_t ms)
{
    while (ms > 0) {
        int64_t step = ms < 100 ? ms : 100;
        desk.now_ns += (uint64_t)step * 1000000;
        desk.wall_ms += step;
        ms -= step;
        pull();
    }
}

/* A log after the other, as a broker loads them. */
static enum base_rc replay(struct groups *into)
{
    for (uint32_t log = 0; log < desk.config.logs_count; log++) {
        for (uint32_t i = log_from[log]; i < log_count; i++) {
            if (log_records[i].log != log) { continue; }
            struct base_slice value = base_slice_of(log_memory + log_records[i].at, log_records[i].size_bytes);
            enum base_rc rc = group_apply(into, log, value);
            if (rc != BASE_OK) { return rc; }
        }
    }
    return BASE_OK;
}

enum base_rc loaded(void) { return replay(make(1)); }

static void give_blocks(void)
{
    for (uint32_t i = 0; i < tokens_count; i++) {
        if (tokens[i].block != NULL) { base_pages_give(desk.pages, tokens[i].block); }
        tokens[i].block = NULL;
    }
}

void restart(void)
{
    assert_int_equal(waiting_count, 0);
    group_drain(desk.groups);
    pull();
    give_blocks();
    assert_int_equal(base_pages_block_count(desk.pages), 0);
    desk.config.seed += 1; /* no node has another's dice, nor its own of before */
    desk.groups = make(0);
    assert_int_equal(replay(desk.groups), BASE_OK);
    lead();
}

/* Whatever a test did: its log, applied to an empty machine, says the same; and nothing is left lying about. */
int expect_the_log_says_all(void **state)
{
    (void)state;
    if (desk.is_checked) {
        struct groups *other = make(1);
        assert_int_equal(replay(other), BASE_OK);
        assert_true(group_state_hash(other) == group_state_hash(desk.groups));
    }
    group_drain(desk.groups);
    desk.is_holding = false;
    land();
    for (uint32_t i = 0; i < tokens_count; i++) { assert_true(tokens[i].is_answered); }
    assert_true(group_is_quiet(desk.groups));
    give_blocks();
    assert_int_equal(base_pages_block_count(desk.pages), 0);
    for (uint32_t i = 0; i < tokens_count; i++) { free(tokens[i].memory); }
    tokens_count = 0;
    return 0;
}

/* ---- topics ------------------------------------------------------------------------------------------------------------ */

void put_topic(const char *name, int32_t partitions)
{
    struct base_uuid id = {{0}};
    topics_count += 1;
    base_put_u32(id.b, 0x77000000);
    base_put_u32(id.b + 12, topics_count);
    assert_int_equal(metadata_put_topic(desk.image, base_slice_text(name), id), BASE_OK);
    for (int32_t i = 0; i < partitions; i++) {
        struct metadata_partition value = {
            .id = {id, i}, .leader = 1, .replicas_count = 1, .isr_count = 1, .replicas = {1}, .isr = {1}};
        assert_int_equal(metadata_put_partition(desk.image, &value), BASE_OK);
    }
}

void remove_topic(const char *name)
{
    const struct metadata_topic *topic = metadata_topic_by_name(desk.image, base_slice_text(name));
    assert_non_null(topic);
    assert_int_equal(metadata_remove_topic(desk.image, topic->id), BASE_OK);
    group_topics_changed(desk.groups);
    run_desk();
}

struct base_part part_of(const char *topic, int32_t index)
{
    const struct metadata_topic *known = metadata_topic_by_name(desk.image, base_slice_text(topic));
    assert_non_null(known);
    return (struct base_part){.topic = known->id, .index = index};
}

/* ---- asking ------------------------------------------------------------------------------------------------------------- */

static void *take(size_t bytes)
{
    void *at = base_arena_take_array(&texts, 1, bytes);
    assert_non_null(at);
    return at;
}

static char *copy(const char *words, size_t bytes)
{
    char *at = take(bytes + 1);
    memcpy(at, words, bytes);
    return at;
}

const char *text_of(struct kafka_text text)
{
    if (kafka_text_is_null(text)) { return NULL; }
    struct base_slice slice = kafka_text_slice(text);
    return copy(slice.size_bytes == 0 ? "" : (const char *)slice.at, slice.size_bytes);
}

static struct kafka_text text(const char *words) { return words == NULL ? kafka_text_null() : kafka_text_words(words); }

static uint32_t submit(enum group_kind kind, int16_t version, struct base_slice group, const void *request,
                       const char *client)
{
    assert_true(tokens_count < TOKENS_MAX);
    uint32_t token = tokens_count++;
    memset(&tokens[token], 0, sizeof tokens[token]);
    size_t bytes = ARENA_BYTES + 2 * strlen(client);
    tokens[token].memory = malloc(bytes);
    base_arena_init(&tokens[token].arena, tokens[token].memory, bytes);
    struct group_request asked = {.token = token,
                                  .kind = kind,
                                  .version = version,
                                  .group_id = group,
                                  .request = request,
                                  .client_id = base_slice_text(client),
                                  .client_host = base_slice_text("/10.0.0.1"),
                                  .is_ordered = kind == GROUP_FETCH && desk.is_ordered,
                                  .arena = &tokens[token].arena};
    assert_int_equal(group_submit(desk.groups, &asked), BASE_OK);
    run_desk();
    return token;
}

uint32_t ask(enum group_kind kind, int16_t version, const char *group, const void *request)
{
    return submit(kind, version, base_slice_text(group), request, "client");
}

bool is_answered(uint32_t token) { return tokens[token].is_answered; }

const void *answer_of(uint32_t token)
{
    assert_true(is_answered(token));
    return tokens[token].response;
}

static const char *group_of(struct who who) { return who.group == NULL ? "g" : who.group; }
static const char *member_of(struct who who) { return who.member == NULL ? "" : who.member; }

uint32_t join(struct who who)
{
    struct kafka_join_group_request *request = take(sizeof *request);
    kafka_join_group_request_init(request);
    request->group_id = text(group_of(who));
    request->member_id = text(member_of(who));
    request->group_instance_id = text(who.instance);
    request->protocol_type = text(who.type == NULL ? "consumer" : who.type);
    request->session_timeout_ms = who.session_ms == 0 ? 10000 : who.session_ms;
    request->rebalance_timeout_ms = who.rebalance_ms == 0 ? 60000 : who.rebalance_ms;
    const char *words = who.protocols == NULL ? "range:m" : who.protocols;
    request->protocols = take(GROUP_PROTOCOLS_MAX * sizeof request->protocols[0]);
    for (; *words != '\0'; request->protocols_count++) {
        size_t end = strcspn(words, ",");
        size_t name = strcspn(words, ":,");
        struct kafka_join_group_request_join_group_request_protocol *protocol =
            &request->protocols[request->protocols_count];
        protocol->name = kafka_text_of(words, name);
        protocol->metadata = name == end ? kafka_bytes_of("", 0) : kafka_bytes_of(words + name + 1, end - name - 1);
        words += words[end] == ',' ? end + 1 : end;
    }
    const char *client = who.client == NULL ? "client" : who.client;
    return submit(GROUP_JOIN, who.version == 0 ? 5 : who.version, base_slice_text(group_of(who)), request, client);
}

int16_t join_error(uint32_t token) { return ((const struct kafka_join_group_response *)answer_of(token))->error_code; }

const struct kafka_join_group_response *joined(uint32_t token)
{
    assert_int_equal(join_error(token), KAFKA_ERROR_NONE);
    return answer_of(token);
}

const char *id_of_new(struct who who, uint32_t *token_out)
{
    uint32_t first = join(who);
    assert_int_equal(join_error(first), KAFKA_ERROR_MEMBER_ID_REQUIRED);
    const struct kafka_join_group_response *answer = answer_of(first);
    who.member = text_of(answer->member_id);
    *token_out = join(who);
    return who.member;
}

uint32_t sync(struct who who, const char *assignments)
{
    struct kafka_sync_group_request *request = take(sizeof *request);
    kafka_sync_group_request_init(request);
    request->group_id = text(group_of(who));
    request->member_id = text(member_of(who));
    request->group_instance_id = text(who.instance);
    request->generation_id = who.generation;
    request->protocol_type = text(who.type);
    request->protocol_name = text(who.protocols);
    request->assignments = take(256 * sizeof request->assignments[0]);
    for (const char *words = assignments; words != NULL && *words != '\0'; request->assignments_count++) {
        size_t end = strcspn(words, ",");
        size_t name = strcspn(words, "=");
        struct kafka_sync_group_request_sync_group_request_assignment *line =
            &request->assignments[request->assignments_count];
        line->member_id = kafka_text_of(words, name);
        line->assignment = kafka_bytes_of(words + name + 1, end - name - 1);
        words += words[end] == ',' ? end + 1 : end;
    }
    bool is_named = who.type != NULL && who.protocols != NULL; /* version 5 asks for both */
    int16_t version = is_named ? 5 : 4;
    return ask(GROUP_SYNC, who.version == 0 ? version : who.version, group_of(who), request);
}

int16_t sync_error(uint32_t token) { return ((const struct kafka_sync_group_response *)answer_of(token))->error_code; }

const char *assigned(uint32_t token)
{
    assert_int_equal(sync_error(token), KAFKA_ERROR_NONE);
    struct base_slice words =
        kafka_bytes_slice(((const struct kafka_sync_group_response *)answer_of(token))->assignment);
    return copy(words.size_bytes == 0 ? "" : (const char *)words.at, words.size_bytes);
}

int16_t heartbeat(struct who who)
{
    struct kafka_heartbeat_request *request = take(sizeof *request);
    kafka_heartbeat_request_init(request);
    request->group_id = text(group_of(who));
    request->member_id = text(member_of(who));
    request->group_instance_id = text(who.instance);
    request->generation_id = who.generation;
    return ((const struct kafka_heartbeat_response *)answer_of(ask(GROUP_HEARTBEAT, 4, group_of(who), request)))
        ->error_code;
}

uint32_t leave(int16_t version, const char *member, const char *instance)
{
    struct kafka_leave_group_request *request = take(sizeof *request);
    kafka_leave_group_request_init(request);
    request->group_id = text("g");
    if (version < 3) {
        request->member_id = text(member);
        return ask(GROUP_LEAVE, version, "g", request);
    }
    request->members = kafka_leave_group_request_member_identity_take(&texts, 1);
    request->members_count = 1;
    request->members[0].member_id = text(member);
    request->members[0].group_instance_id = text(instance);
    return ask(GROUP_LEAVE, version, "g", request);
}

int16_t leave_error(uint32_t token)
{
    const struct kafka_leave_group_response *answer = answer_of(token);
    if (answer->error_code != KAFKA_ERROR_NONE || answer->members_count == 0) { return answer->error_code; }
    return answer->members[0].error_code;
}

uint32_t commit(struct who who, const char *topic, int32_t partition, int64_t offset)
{
    struct kafka_offset_commit_request *request = take(sizeof *request);
    kafka_offset_commit_request_init(request);
    request->group_id = text(group_of(who));
    request->member_id = text(member_of(who));
    request->group_instance_id = text(who.instance);
    request->generation_id_or_member_epoch = who.generation;
    request->topics = kafka_offset_commit_request_offset_commit_request_topic_take(&texts, 1);
    request->topics_count = 1;
    request->topics[0].name = text(topic);
    request->topics[0].partitions = kafka_offset_commit_request_offset_commit_request_partition_take(&texts, 1);
    request->topics[0].partitions_count = 1;
    request->topics[0].partitions[0].partition_index = partition;
    request->topics[0].partitions[0].committed_offset = offset;
    request->topics[0].partitions[0].committed_leader_epoch = 3;
    request->topics[0].partitions[0].committed_metadata = kafka_text_words("");
    return ask(GROUP_COMMIT, 8, group_of(who), request);
}

int16_t commit_error(uint32_t token)
{
    return ((const struct kafka_offset_commit_response *)answer_of(token))->topics[0].partitions[0].error_code;
}

uint32_t fetch(const char *group, const char *topic, int32_t partition)
{
    struct kafka_offset_fetch_request_offset_fetch_request_group *request =
        kafka_offset_fetch_request_offset_fetch_request_group_take(&texts, 1);
    request->group_id = text(group);
    request->topics = kafka_offset_fetch_request_offset_fetch_request_topics_take(&texts, 1);
    request->topics_count = 1;
    request->topics[0].name = text(topic);
    request->topics[0].partition_indexes = take(sizeof(int32_t));
    request->topics[0].partition_indexes[0] = partition;
    request->topics[0].partition_indexes_count = 1;
    return ask(GROUP_FETCH, 8, group, request);
}

static const struct kafka_offset_fetch_response_offset_fetch_response_partitions *line_of(uint32_t token)
{
    const struct kafka_offset_fetch_response_offset_fetch_response_group *answer = answer_of(token);
    assert_int_equal(answer->error_code, KAFKA_ERROR_NONE);
    assert_int_equal(answer->topics_count, 1);
    assert_int_equal(answer->topics[0].partitions_count, 1);
    return &answer->topics[0].partitions[0];
}

const struct kafka_offset_fetch_response_offset_fetch_response_partitions *fetched_line(const char *group,
                                                                                        const char *topic,
                                                                                        int32_t partition)
{
    uint32_t token = fetch(group, topic, partition);
    const struct kafka_offset_fetch_response_offset_fetch_response_partitions *line = line_of(token);
    const struct kafka_offset_fetch_response_offset_fetch_response_group *answer = answer_of(token);
    assert_string_equal(text_of(answer->topics[0].name), topic);
    assert_int_equal(line->partition_index, partition);
    return line;
}

int64_t fetched_by(uint32_t token) { return line_of(token)->committed_offset; }

int64_t fetched(const char *group, const char *topic, int32_t partition)
{
    return fetched_line(group, topic, partition)->committed_offset;
}

const struct kafka_describe_groups_response_described_group *described(const char *group, int16_t version)
{
    return answer_of(ask(GROUP_DESCRIBE, version, group, NULL));
}

const char *state_of(const char *group) { return text_of(described(group, 5)->group_state); }
int32_t members_count(const char *group) { return described(group, 5)->members_count; }

void given_stable(uint32_t count, const char *ids[STABLE_MAX])
{
    uint32_t joins[STABLE_MAX];
    uint32_t syncs[STABLE_MAX];
    assert_true(count <= STABLE_MAX);
    for (uint32_t i = 0; i < count; i++) { ids[i] = id_of_new((struct who){.group = "g"}, &joins[i]); }
    pass_ms(1000); /* the initial delay is over */
    for (uint32_t i = 0; i < count; i++) { assert_int_equal(joined(joins[i])->generation_id, 1); }
    for (uint32_t i = count; i-- > 0;) { syncs[i] = sync((struct who){.member = ids[i], .generation = 1}, NULL); }
    for (uint32_t i = 0; i < count; i++) { assert_string_equal(assigned(syncs[i]), ""); }
    assert_string_equal(text_of(joined(joins[0])->leader), ids[0]);
    assert_string_equal(state_of("g"), "Stable");
}

void hold_log_of(const char *group)
{
    uint32_t log = group_log_of(base_slice_text(group), desk.config.logs_count);
    char other[8] = "other-a";
    while (group_log_of(base_slice_text(other), desk.config.logs_count) != log) { other[6] += 1; }
    desk.is_holding = true;
    (void)commit((struct who){.group = other, .generation = -1}, "t", 0, 7); /* answered when it has landed */
    assert_int_equal(held(), 1);
}
