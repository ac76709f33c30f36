/* fuzz_consumer_protocol.c: what consumers say of themselves inside JoinGroup and SyncGroup, and what their group makes of it.
 *
 * Input   byte 0 steers: bit 0 two members (else one), bit 1 the group is no consumers'. Then for each member its subscription, and
 *         for each an assignment: a byte that says how, and the words. How: bit 7 raw bytes, as many as the next byte says; else a value
 *         of version bits 0 and 1 is made: topics of a small set (a byte of how many; bit 2: 128 times as many), user data, owned
 *         partitions, a generation and a rack; bits 3 and 4 say how many edits follow (two bytes of place, one of value), bit 5 that two
 *         bytes of cut follow, bit 6 that the version says more than there is.
 * Holds   the words come back as they were, at the leader and at each member. OffsetDelete, and the expiry of offsets, take a topic
 *         for subscribed when a second, plain reader does: when somebody's words name it, or can't be read. A group that is empty
 *         consumes nothing; one that is no consumers' keeps all. The log, applied to an empty machine, says the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "group/group.h"
#include "input.h"
#include "metadata/metadata.h"
#include "wire/kafka/consumer_protocol.h"
#include "wire/kafka/heartbeat.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/leave_group.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_delete.h"
#include "wire/kafka/sync_group.h"

#define MEMBERS_MAX  2
#define TOPICS       4
#define WORDS_MAX    ((size_t)96 << 10)
#define ARENA_BYTES  ((size_t)8 << 10)
#define GROUPS_BYTES ((size_t)3 << 20)
#define PAGES_BYTES  ((size_t)4 << 20)
#define LOG_BYTES    ((size_t)2 << 20)
#define RECORDS_MAX  512
#define SESSION_MS   1800000
#define RETENTION_MS 3600000
#define OFFSET       7
#define MADE_TOPICS  8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct member {
    uint8_t words[WORDS_MAX]; /* its subscription */
    size_t words_bytes;
    uint8_t assignment[WORDS_MAX];
    size_t assignment_bytes;
    char id[80];
    size_t id_bytes;
};

static const char *const topics[TOPICS] = {"t", "u", "vv", "t.u"};
static struct member members[MEMBERS_MAX];
static _Alignas(16) uint8_t groups_memory[2][GROUPS_BYTES];
static _Alignas(4096) uint8_t pages_memory[PAGES_BYTES];
static _Alignas(16) uint8_t image_memory[(size_t)256 << 10];
static _Alignas(16) uint8_t arena_memory[4][ARENA_BYTES];
static uint8_t log_bytes[LOG_BYTES];
static struct base_slice records[RECORDS_MAX];

static struct {
    struct group_config config;
    struct metadata *image;
    struct base_pages *pages;
    struct groups *groups;
    struct base_arena arenas[4]; /* by token */
    uint32_t count;              /* of members */
    uint32_t records_count;
    size_t log_used;
    uint64_t now_ns;
    int64_t wall_ms;
    bool is_consumer;
    bool is_told;
    struct group_out answers[4]; /* by token */
    uint32_t tokens;
} it;

/* ---- a second reader ----------------------------------------------------------------------------------------------------- */

struct reader {
    const uint8_t *at;
    size_t left;
    bool is_bad;
};

static int64_t read_number(struct reader *reader, uint32_t bytes)
{
    if (reader->left < bytes) { reader->is_bad = true; }
    if (reader->is_bad) { return 0; }
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) { value = value << 8 | reader->at[i]; }
    reader->at += bytes;
    reader->left -= bytes;
    return bytes == 2 ? (int16_t)value : (int32_t)value;
}

static struct base_slice read_bytes(struct reader *reader, uint32_t length_bytes, bool may_be_null)
{
    int64_t size = read_number(reader, length_bytes);
    if (size < 0 && !(size == -1 && may_be_null)) { reader->is_bad = true; }
    if (size > (int64_t)reader->left) { reader->is_bad = true; }
    if (reader->is_bad || size < 0) { return base_slice_of(NULL, 0); }
    struct base_slice slice = base_slice_of(reader->at, (size_t)size);
    reader->at += size;
    reader->left -= (size_t)size;
    return slice;
}

static int64_t read_count(struct reader *reader)
{
    int64_t count = read_number(reader, 4);
    if (count < 0) { reader->is_bad = true; }
    return count;
}

/* True: these words name the topic, or can't be read. */
static bool names_topic(struct base_slice words, const char *topic)
{
    struct reader reader = {.at = words.at, .left = words.size_bytes};
    bool is_named = false;
    int64_t version = read_number(&reader, 2);
    if (version < 0) { return true; }
    int64_t count = read_count(&reader);
    for (int64_t i = 0; i < count && !reader.is_bad; i++) {
        struct base_slice name = read_bytes(&reader, 2, false);
        is_named = is_named || (!reader.is_bad && base_slice_equal(name, base_slice_text(topic)));
    }
    (void)read_bytes(&reader, 4, true); /* the user's own */
    int64_t owned = version >= 1 ? read_count(&reader) : 0;
    for (int64_t i = 0; i < owned && !reader.is_bad; i++) {
        (void)read_bytes(&reader, 2, false);
        int64_t partitions = read_count(&reader);
        for (int64_t k = 0; k < partitions && !reader.is_bad; k++) { (void)read_number(&reader, 4); }
    }
    if (version >= 2) { (void)read_number(&reader, 4); }
    if (version >= 3) { (void)read_bytes(&reader, 2, true); }
    return is_named || reader.is_bad;
}

static bool is_subscribed(const char *topic)
{
    for (uint32_t i = 0; i < it.count; i++) {
        if (names_topic(base_slice_of(members[i].words, members[i].words_bytes), topic)) { return it.is_consumer; }
    }
    return false;
}

/* ---- words ----------------------------------------------------------------------------------------------------------------- */

static size_t encode(enum kafka_message message, const void *value, int16_t version, uint8_t *out)
{
    struct kafka_writer writer;
    struct kafka_size size;
    base_put_u16(out, (uint16_t)version);
    if (kafka_size(message, value, version, &size) != BASE_OK || size.memory_bytes > WORDS_MAX - 2) { return 2; }
    kafka_writer_init(&writer, out + 2, WORDS_MAX - 2);
    CHECK(kafka_encode(message, value, version, &writer) == BASE_OK);
    return 2 + writer.used_bytes;
}

static size_t make_words(struct input *input, uint8_t how, bool is_assignment, uint8_t *out)
{
    static struct kafka_text names[MADE_TOPICS];
    static int32_t partitions[16];
    static struct kafka_consumer_protocol_subscription_topic_partition owned[16];
    static struct kafka_consumer_protocol_assignment_topic_partition assigned[16];
    int16_t version = (int16_t)(how & 3);
    uint32_t count = take_u32(input, 1) % 64 * ((how & 4) != 0 ? 128 : 1);
    uint32_t first = take_u32(input, 1);
    uint32_t sizes = take_u32(input, 1);
    if (is_assignment) {
        struct kafka_consumer_protocol_assignment value;
        kafka_consumer_protocol_assignment_init(&value);
        value.assigned_partitions = assigned;
        value.assigned_partitions_count = (int32_t)(count % 16);
        value.user_data = sizes % 4 == 0 ? kafka_bytes_null() : kafka_bytes_of("user data", sizes % 9);
        for (int32_t i = 0; i < value.assigned_partitions_count; i++) {
            assigned[i].topic = kafka_text_words(topics[(first + (uint32_t)i) % TOPICS]);
            assigned[i].partitions = partitions;
            assigned[i].partitions_count = (int32_t)(sizes % 16);
        }
        return encode(KAFKA_MESSAGE_CONSUMER_PROTOCOL_ASSIGNMENT, &value, version, out);
    }
    static const char *const others[] = {"tt", "T", "", "a-longer-name-of-a-topic", "\xc3\xa4", "u.t", "v", "vvv"};
    struct kafka_consumer_protocol_subscription value;
    kafka_consumer_protocol_subscription_init(&value);
    value.topics = names;
    value.topics_count = (int32_t)count;
    for (uint32_t i = 0; i < count; i++) { /* one of the set now and then, and always in another place */
        uint32_t which = (first + i) % 32;
        names[i] = kafka_text_words(which < TOPICS && i < 8 ? topics[which] : others[which % BASE_ARRAY_COUNT(others)]);
    }
    value.user_data = sizes % 4 == 0 ? kafka_bytes_null() : kafka_bytes_of("user data", sizes % 9);
    value.owned_partitions = owned;
    value.owned_partitions_count = version >= 1 ? (int32_t)(sizes / 16) : 0;
    for (int32_t i = 0; i < value.owned_partitions_count; i++) {
        owned[i].topic = kafka_text_words(topics[i % TOPICS]);
        owned[i].partitions = partitions;
        owned[i].partitions_count = (int32_t)(first % 16);
    }
    if (version >= 2) { value.generation_id = (int32_t)first - 1; }
    if (version >= 3 && first % 2 == 1) { value.rack_id = kafka_text_words("rack"); }
    return encode(KAFKA_MESSAGE_CONSUMER_PROTOCOL_SUBSCRIPTION, &value, version, out);
}

static size_t take_words(struct input *input, bool is_assignment, uint8_t *out)
{
    uint8_t how = take_u8(input);
    size_t size_bytes = 0;
    if ((how & 0x80) != 0) {
        size_bytes = base_min_size(take_u32(input, 1), input->left);
        for (size_t i = 0; i < size_bytes; i++) { out[i] = take_u8(input); }
        return size_bytes;
    }
    size_bytes = make_words(input, how, is_assignment, out);
    for (uint32_t i = 0; i < (uint32_t)(how >> 3 & 3); i++) {
        size_t at = take_u32(input, 2) % size_bytes;
        out[at] = take_u8(input);
    }
    if ((how & 0x20) != 0) { size_bytes = take_u32(input, 2) % (size_bytes + 1); }
    if ((how & 0x40) != 0 && size_bytes >= 2) { base_put_u16(out, (uint16_t)take_u32(input, 2)); }
    return size_bytes;
}

/* ---- the machine ----------------------------------------------------------------------------------------------------------- */

static void keep(const struct group_out *item)
{
    for (uint32_t i = 0; i < item->records_count; i++) {
        struct base_slice value = item->records[i].value;
        CHECK(it.records_count < RECORDS_MAX && value.size_bytes <= LOG_BYTES - it.log_used);
        memcpy(log_bytes + it.log_used, value.at, value.size_bytes);
        records[it.records_count] = base_slice_of(log_bytes + it.log_used, value.size_bytes);
        it.log_used += value.size_bytes;
        it.records_count += 1;
    }
}

static void run(void)
{
    for (;;) {
        struct group_out item;
        group_poll(it.groups, it.now_ns, it.wall_ms, &item);
        CHECK(group_is_sound(it.groups));
        if (item.kind == GROUP_OUT_NOTHING) { return; }
        if (item.kind == GROUP_OUT_ANSWER) { it.answers[item.token] = item; }
        if (item.kind == GROUP_OUT_PROPOSE) {
            keep(&item);
            group_committed(it.groups, item.log);
        }
    }
}

static void pass_ms(int64_t ms)
{
    it.now_ns += (uint64_t)ms * 1000000;
    it.wall_ms += ms;
    run();
}

static struct groups *make(uint32_t place)
{
    struct base_arena arena;
    struct groups *groups;
    CHECK(group_arena_bytes(&it.config) <= GROUPS_BYTES);
    base_arena_init(&arena, groups_memory[place], GROUPS_BYTES);
    CHECK(group_create(&arena, it.pages, &it.config, it.image, &groups) == BASE_OK);
    return groups;
}

static void open_machine(void)
{
    group_config_default(&it.config);
    it.config.logs_count = 1;
    it.config.groups_max = 4;
    it.config.members_max = 8;
    it.config.offsets_max = 16;
    it.config.requests_max = 8;
    it.config.state_bytes = (size_t)512 << 10;
    it.config.initial_delay_ms = 0;
    it.config.offsets_retention_ms = RETENTION_MS;
    it.config.session_max_ms = SESSION_MS;
    const size_t reserve[BASE_CLASS_COUNT] = {0, 0, 0};
    memset(pages_memory, 0, base_pages_tables_bytes(PAGES_BYTES));
    struct base_region region = {.at = pages_memory, .size_bytes = PAGES_BYTES};
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
    for (uint32_t i = 0; i < TOPICS; i++) {
        struct metadata_partition value = {
            .leader = 1, .replicas_count = 1, .isr_count = 1, .replicas = {1}, .isr = {1}};
        base_put_u32(value.id.topic.b + 12, 77 + i);
        CHECK(metadata_put_topic(it.image, base_slice_text(topics[i]), value.id.topic) == BASE_OK);
        CHECK(metadata_put_partition(it.image, &value) == BASE_OK);
    }
    it.groups = make(0);
    group_leads(it.groups, 0, it.now_ns, it.wall_ms);
    run();
}

/* Asks; its answer may come later, in answers[token]. */
static uint32_t ask(enum group_kind kind, int16_t version, const void *request)
{
    uint32_t token = it.tokens % BASE_ARRAY_COUNT(it.answers);
    it.tokens += 1;
    if (it.answers[token].block != NULL) { base_pages_give(it.pages, it.answers[token].block); }
    it.answers[token] = (struct group_out){.kind = GROUP_OUT_NOTHING};
    base_arena_init(&it.arenas[token], arena_memory[token], ARENA_BYTES);
    struct group_request asked = {.token = token,
                                  .kind = kind,
                                  .version = version,
                                  .group_id = base_slice_text("g"),
                                  .request = request,
                                  .client_id = base_slice_text("c"),
                                  .client_host = base_slice_text("/h"),
                                  .arena = &it.arenas[token]};
    CHECK(group_submit(it.groups, &asked) == BASE_OK);
    run();
    return token;
}

static const void *answer_of(uint32_t token)
{
    CHECK(it.answers[token].kind == GROUP_OUT_ANSWER);
    return it.answers[token].response;
}

static void give_answers(void)
{
    for (uint32_t i = 0; i < BASE_ARRAY_COUNT(it.answers); i++) {
        if (it.answers[i].block != NULL) { base_pages_give(it.pages, it.answers[i].block); }
        it.answers[i].block = NULL;
    }
}

static struct kafka_text id_of(const struct member *member) { return kafka_text_of(member->id, member->id_bytes); }

/* ---- the story ------------------------------------------------------------------------------------------------------------- */

static uint32_t join(const struct member *member)
{
    static struct kafka_join_group_request requests[MEMBERS_MAX];
    static struct kafka_join_group_request_join_group_request_protocol protocols[MEMBERS_MAX][2];
    uint32_t place = (uint32_t)(member - members);
    struct kafka_join_group_request *request = &requests[place];
    kafka_join_group_request_init(request);
    request->member_id = id_of(member);
    request->protocol_type = kafka_text_words(it.is_consumer ? "consumer" : "connect");
    request->session_timeout_ms = SESSION_MS;
    request->rebalance_timeout_ms = 60000;
    request->protocols = protocols[place];
    request->protocols_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        kafka_join_group_request_join_group_request_protocol_init(&protocols[place][i]);
    }
    protocols[place][0].name = kafka_text_words("range");
    protocols[place][0].metadata = kafka_bytes_of(member->words, member->words_bytes);
    protocols[place][1].name = kafka_text_words(place == 0 ? "only-mine" : "only-yours"); /* never chosen */
    protocols[place][1].metadata = kafka_bytes_of("x", 1);
    return ask(GROUP_JOIN, 3, request);
}

static void expect_bytes(struct kafka_bytes got, const uint8_t *at, size_t size_bytes)
{
    CHECK(base_slice_equal(kafka_bytes_slice(got), base_slice_of(at, size_bytes)));
}

static int32_t join_all(void)
{
    uint32_t first = join(&members[0]);
    for (uint32_t i = 0; i < it.count; i++) {
        uint32_t token = i == 0 ? first : join(&members[i]);
        if (i > 0) { first = join(&members[0]); }
        const struct kafka_join_group_response *answer = answer_of(token);
        CHECK(answer->error_code == KAFKA_ERROR_NONE);
        members[i].id_bytes = kafka_text_slice(answer->member_id).size_bytes;
        CHECK(members[i].id_bytes <= sizeof members[i].id);
        memcpy(members[i].id, kafka_text_slice(answer->member_id).at, members[i].id_bytes);
    }
    const struct kafka_join_group_response *leader = answer_of(first);
    CHECK(leader->error_code == KAFKA_ERROR_NONE && kafka_text_is(leader->protocol_name, "range"));
    CHECK(leader->members_count == (int32_t)it.count);
    for (uint32_t i = 0; i < it.count; i++) {
        bool is_first = kafka_text_equal(leader->members[i].member_id, id_of(&members[0]));
        const struct member *member = &members[is_first ? 0 : 1];
        CHECK(kafka_text_equal(leader->members[i].member_id, id_of(member)));
        expect_bytes(leader->members[i].metadata, member->words, member->words_bytes);
    }
    int32_t generation = leader->generation_id;
    give_answers();
    return generation;
}

static void sync_all(int32_t generation)
{
    struct kafka_sync_group_request_sync_group_request_assignment lines[MEMBERS_MAX];
    for (uint32_t i = 0; i < it.count; i++) {
        kafka_sync_group_request_sync_group_request_assignment_init(&lines[i]);
        lines[i].member_id = id_of(&members[i]);
        lines[i].assignment = kafka_bytes_of(members[i].assignment, members[i].assignment_bytes);
    }
    for (uint32_t i = 0; i < it.count; i++) { /* the leader is the first */
        struct kafka_sync_group_request request;
        kafka_sync_group_request_init(&request);
        request.member_id = id_of(&members[i]);
        request.generation_id = generation;
        request.assignments = lines;
        request.assignments_count = i == 0 ? (int32_t)it.count : 0;
        const struct kafka_sync_group_response *answer = answer_of(ask(GROUP_SYNC, 4, &request));
        CHECK(answer->error_code == KAFKA_ERROR_NONE);
        expect_bytes(answer->assignment, members[i].assignment, members[i].assignment_bytes);
        give_answers();
    }
}

static void commit_all(int32_t generation)
{
    struct kafka_offset_commit_request_offset_commit_request_topic asked[TOPICS];
    struct kafka_offset_commit_request_offset_commit_request_partition partition;
    kafka_offset_commit_request_offset_commit_request_partition_init(&partition);
    partition.committed_offset = OFFSET;
    for (uint32_t i = 0; i < TOPICS; i++) {
        kafka_offset_commit_request_offset_commit_request_topic_init(&asked[i]);
        asked[i].name = kafka_text_words(topics[i]);
        asked[i].partitions = &partition;
        asked[i].partitions_count = 1;
    }
    struct kafka_offset_commit_request request;
    kafka_offset_commit_request_init(&request);
    request.member_id = id_of(&members[0]);
    request.generation_id_or_member_epoch = generation;
    request.topics = asked;
    request.topics_count = TOPICS;
    const struct kafka_offset_commit_response *answer = answer_of(ask(GROUP_COMMIT, 8, &request));
    for (uint32_t i = 0; i < TOPICS; i++) { CHECK(answer->topics[i].partitions[0].error_code == KAFKA_ERROR_NONE); }
    give_answers();
}

static bool has_offset(uint32_t topic)
{
    struct base_part part = {.index = 0};
    base_put_u32(part.topic.b + 12, 77 + topic);
    int64_t offset;
    bool is_there = group_offset(it.groups, base_slice_text("g"), part, &offset);
    CHECK(!is_there || offset == OFFSET);
    return is_there;
}

/* Of a group that is, in a state that allows it: what is subscribed stays. */
static void delete_offsets(int16_t error_of_all, bool is_empty)
{
    struct kafka_offset_delete_request_offset_delete_request_topic asked[TOPICS];
    struct kafka_offset_delete_request_offset_delete_request_partition partition;
    kafka_offset_delete_request_offset_delete_request_partition_init(&partition);
    for (uint32_t i = 0; i < TOPICS; i++) {
        kafka_offset_delete_request_offset_delete_request_topic_init(&asked[i]);
        asked[i].name = kafka_text_words(topics[i]);
        asked[i].partitions = &partition;
        asked[i].partitions_count = 1;
    }
    struct kafka_offset_delete_request request;
    kafka_offset_delete_request_init(&request);
    request.topics = asked;
    request.topics_count = TOPICS;
    bool had[TOPICS];
    for (uint32_t i = 0; i < TOPICS; i++) { had[i] = has_offset(i); }
    const struct kafka_offset_delete_response *answer = answer_of(ask(GROUP_OFFSET_DELETE, 0, &request));
    CHECK(answer->error_code == error_of_all);
    for (uint32_t i = 0; i < TOPICS; i++) {
        bool stays = error_of_all != KAFKA_ERROR_NONE || (!is_empty && is_subscribed(topics[i]));
        int16_t error = stays ? KAFKA_ERROR_GROUP_SUBSCRIBED_TO_TOPIC : KAFKA_ERROR_NONE;
        if (error_of_all == KAFKA_ERROR_NONE) { CHECK(answer->topics[i].partitions[0].error_code == error); }
        CHECK(has_offset(i) == (had[i] && stays));
    }
    give_answers();
}

static void stay_alive(int32_t generation, int64_t ms)
{
    for (int64_t passed = 0; passed < ms; passed += SESSION_MS / 2) {
        pass_ms(SESSION_MS / 2);
        for (uint32_t i = 0; i < it.count; i++) {
            struct kafka_heartbeat_request request;
            kafka_heartbeat_request_init(&request);
            request.member_id = id_of(&members[i]);
            request.generation_id = generation;
            const struct kafka_heartbeat_response *answer = answer_of(ask(GROUP_HEARTBEAT, 4, &request));
            CHECK(answer->error_code == KAFKA_ERROR_NONE);
            give_answers();
        }
    }
}

static void leave_all(void)
{
    for (uint32_t i = 0; i < it.count; i++) {
        struct kafka_leave_group_request request;
        kafka_leave_group_request_init(&request);
        request.member_id = id_of(&members[i]);
        const struct kafka_leave_group_response *answer = answer_of(ask(GROUP_LEAVE, 2, &request));
        CHECK(answer->error_code == KAFKA_ERROR_NONE);
        give_answers();
    }
}

static void tell(void)
{
    for (uint32_t i = 0; i < it.count; i++) {
        struct base_slice words = base_slice_of(members[i].words, members[i].words_bytes);
        (void)fprintf(stderr, "member %u: %zu bytes of words:", i, words.size_bytes);
        for (uint32_t k = 0; k < TOPICS; k++) {
            (void)fprintf(stderr, " %s %s", topics[k], names_topic(words, topics[k]) ? "yes" : "no");
        }
        (void)fprintf(stderr, "; %zu bytes assigned\n", members[i].assignment_bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {.at = data, .left = size};
    uint8_t steer = take_u8(&input);
    memset(&it, 0, sizeof it);
    it.now_ns = 1000000000;
    it.wall_ms = 1700000000000;
    it.count = 1 + (steer & 1);
    it.is_consumer = (steer & 2) == 0;
    it.is_told = getenv("WEIR_FUZZ_TRACE") != NULL;
    for (uint32_t i = 0; i < it.count; i++) {
        members[i].id_bytes = 0;
        members[i].words_bytes = take_words(&input, false, members[i].words);
        members[i].assignment_bytes = take_words(&input, true, members[i].assignment);
    }
    if (it.is_told) { tell(); }
    open_machine();
    give_answers();
    int32_t generation = join_all();
    sync_all(generation);
    commit_all(generation);
    delete_offsets(it.is_consumer ? KAFKA_ERROR_NONE : KAFKA_ERROR_NON_EMPTY_GROUP, false);
    commit_all(generation);
    stay_alive(generation, RETENTION_MS + (int64_t)it.config.offsets_check_ms);
    for (uint32_t i = 0; i < TOPICS; i++) { CHECK(has_offset(i) == (!it.is_consumer || is_subscribed(topics[i]))); }
    struct groups *other = make(1);
    for (uint32_t i = 0; i < it.records_count; i++) { CHECK(group_apply(other, 0, records[i]) == BASE_OK); }
    CHECK(group_state_hash(other) == group_state_hash(it.groups));
    leave_all();
    delete_offsets(KAFKA_ERROR_NONE, true);
    group_drain(it.groups);
    run();
    give_answers();
    CHECK(group_is_quiet(it.groups));
    CHECK(base_pages_block_count(it.pages) == 0);
    return 0;
}
