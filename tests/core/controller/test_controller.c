/* test_controller.c: what is decided, that nothing shows before its commit, and that the log says all.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "controller/controller.h"
#include "wire/kafka/alter_configs.h"
#include "wire/kafka/create_partitions.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/describe_configs.h"
#include "wire/kafka/incremental_alter_configs.h"
#include "wire/kafka/init_producer_id.h"
#include "wire/kafka/metadata_records.h"

#define MIB       ((size_t)1 << 20)
#define ANSWERS   64
#define LOG_BYTES (4 * MIB)

struct desk { /* a broker's hand: it submits, keeps the log, and collects answers */
    struct metadata *image;
    struct metadata *other; /* an image to compare with */
    struct controller *controller;
    struct base_pages *pages;
    struct base_arena arena; /* of requests and answers */
    struct controller_out proposal;
    bool has_proposal;
    uint32_t proposals;
    struct controller_out answers[ANSWERS];
    uint32_t answers_count;
    uint64_t next_token;
    uint8_t *log; /* lengths and values of all committed records */
    size_t log_bytes;
};

static struct desk *desk;
static _Alignas(4096) uint8_t pages_memory[8 * MIB];
static _Alignas(16) uint8_t image_memory[2][16 * MIB];
static _Alignas(16) uint8_t controller_memory[4 * MIB];
static _Alignas(16) uint8_t arena_memory[16 * MIB];
static uint8_t log_memory[LOG_BYTES];
static struct desk the_desk;

static struct metadata_config image_config;
static struct controller_config controller_config;

static void given_defaults(void)
{
    image_config = (struct metadata_config){.node_id = 1,
                                            .topics_max = 100,
                                            .partitions_max = 12000,
                                            .brokers_max = 5,
                                            .configs_max = 100,
                                            .cluster_id = base_slice_text("AAAAAAAAAAAAAAAAAAAAAA")};
    controller_config = (struct controller_config){.node_id = 1,
                                                   .partitions_default = 1,
                                                   .replication_default = 1,
                                                   .requests_max = 32,
                                                   .proposal_bytes_max = 2 * MIB,
                                                   .seed = 1,
                                                   .is_check_slow = true};
}

static struct metadata *given_image(uint32_t place)
{
    struct base_arena arena;
    struct metadata *image;
    base_arena_init(&arena, image_memory[place], sizeof image_memory[place]);
    assert_int_equal(metadata_create(&arena, &image_config, &image), BASE_OK);
    return image;
}

static void given_desk(void)
{
    struct base_arena arena;
    size_t reserve[BASE_CLASS_COUNT] = {0, 0, 0};
    desk = &the_desk;
    *desk = (struct desk){.log = log_memory};
    memset(pages_memory, 0, sizeof pages_memory);
    assert_int_equal(base_pages_create((struct base_region){pages_memory, sizeof pages_memory}, reserve, &desk->pages),
                     BASE_OK);
    desk->image = given_image(0);
    desk->other = given_image(1);
    size_t bytes = controller_arena_bytes(&controller_config);
    assert_true(bytes <= sizeof controller_memory);
    base_arena_init(&arena, controller_memory, bytes);
    assert_int_equal(controller_create(&arena, desk->pages, &controller_config, desk->image, &desk->controller),
                     BASE_OK);
    base_arena_init(&desk->arena, arena_memory, sizeof arena_memory);
}

static uint64_t submit(enum controller_kind kind, int16_t version, const void *request)
{
    desk->next_token += 1;
    struct controller_request submitted = {
        .token = desk->next_token, .kind = kind, .version = version, .request = request, .arena = &desk->arena};
    assert_int_equal(controller_submit(desk->controller, &submitted), BASE_OK);
    return desk->next_token;
}

static void pull(void)
{
    struct controller_out out;
    while (controller_poll(desk->controller, &out)) {
        if (out.kind == CONTROLLER_OUT_PROPOSE) {
            assert_false(desk->has_proposal);
            desk->proposal = out;
            desk->has_proposal = true;
            desk->proposals += 1;
        } else {
            assert_true(desk->answers_count < ANSWERS);
            desk->answers[desk->answers_count++] = out;
        }
    }
}

static void expect_the_snapshot_says_all(void)
{
    static _Alignas(16) uint8_t scratch_memory[1 << 17];
    struct base_arena scratch;
    base_arena_init(&scratch, scratch_memory, sizeof scratch_memory);
    metadata_reset(desk->other);
    struct controller_cursor cursor = {0};
    struct controller_record record;
    uint8_t buffer[CONTROLLER_RECORD_BYTES_MAX];
    while (controller_snapshot_next(desk->image, &cursor, buffer, &record) == BASE_OK) {
        assert_int_equal(controller_apply(desk->other, record.value, &scratch), BASE_OK);
    }
    assert_true(metadata_equal(desk->image, desk->other));
    assert_true(metadata_is_sound(desk->other));
}

/* The log applied to an empty image gives the image; so does its snapshot. */
static void expect_the_log_says_all(void)
{
    static _Alignas(16) uint8_t scratch_memory[1 << 17];
    struct base_arena scratch;
    base_arena_init(&scratch, scratch_memory, sizeof scratch_memory);
    metadata_reset(desk->other);
    for (size_t at = 0; at < desk->log_bytes;) {
        uint32_t bytes = base_get_u32(desk->log + at);
        assert_int_equal(controller_apply(desk->other, base_slice_of(desk->log + at + 4, bytes), &scratch), BASE_OK);
        at += 4 + bytes;
    }
    assert_true(metadata_equal(desk->image, desk->other));
    expect_the_snapshot_says_all();
}

static void log_add(struct base_slice value)
{
    assert_true(desk->log_bytes + 4 + value.size_bytes <= LOG_BYTES);
    base_put_u32(desk->log + desk->log_bytes, (uint32_t)value.size_bytes);
    memcpy(desk->log + desk->log_bytes + 4, value.at, value.size_bytes);
    desk->log_bytes += 4 + value.size_bytes;
}

static void commit(void)
{
    assert_true(desk->has_proposal);
    for (uint32_t i = 0; i < desk->proposal.records_count; i++) { log_add(desk->proposal.records[i].value); }
    controller_committed(desk->controller);
    desk->has_proposal = false;
    expect_the_log_says_all();
    pull();
}

static const void *answer_of(uint64_t token)
{
    for (uint32_t i = 0; i < desk->answers_count; i++) {
        if (desk->answers[i].token == token) { return desk->answers[i].response; }
    }
    fail_msg("not answered yet");
    return NULL;
}

static bool is_answered(uint64_t token)
{
    for (uint32_t i = 0; i < desk->answers_count; i++) {
        if (desk->answers[i].token == token) { return true; }
    }
    return false;
}

/* Submits and commits whatever it takes. */
static const void *run(enum controller_kind kind, int16_t version, const void *request)
{
    uint64_t token = submit(kind, version, request);
    pull();
    if (desk->has_proposal) { commit(); }
    return answer_of(token);
}

static void given_broker(int32_t id)
{
    struct controller_register request = {.metadata_level = 25};
    request.broker = (struct metadata_broker){.id = id, .incarnation = {{1}}, .directory = {{2}}, .endpoints_count = 1};
    request.broker.endpoints[0] = (struct metadata_endpoint){.name = "PLAINTEXT", .host = "127.0.0.1", .port = 9092};
    const struct controller_registered *answer = run(CONTROLLER_REGISTER, 0, &request);
    assert_int_equal(answer->error_code, 0);
}

static void given_node(void)
{
    given_defaults();
    given_desk();
    given_broker(1);
}

typedef struct kafka_create_topics_request_creatable_topic wanted_topic;
typedef struct kafka_create_topics_response_creatable_topic_result topic_result;

static struct kafka_create_topics_request *create_request(int32_t count)
{
    struct kafka_create_topics_request *request = kafka_create_topics_request_take(&desk->arena, 1);
    request->topics = kafka_create_topics_request_creatable_topic_take(&desk->arena, count);
    request->topics_count = count;
    for (int32_t i = 0; i < count; i++) {
        request->topics[i].num_partitions = -1;
        request->topics[i].replication_factor = -1;
    }
    return request;
}

static struct kafka_create_topics_request *create_named(const char *name)
{
    struct kafka_create_topics_request *request = create_request(1);
    request->topics[0].name = kafka_text_words(name);
    return request;
}

static void configure(wanted_topic *topic, const char *name, const char *value)
{
    topic->configs = kafka_create_topics_request_creatable_topic_config_take(&desk->arena, 1);
    topic->configs_count = 1;
    topic->configs[0].name = kafka_text_words(name);
    topic->configs[0].value = value == NULL ? kafka_text_null() : kafka_text_words(value);
}

static const topic_result *create(const struct kafka_create_topics_request *request)
{
    const struct kafka_create_topics_response *response = run(CONTROLLER_CREATE_TOPICS, 7, request);
    assert_int_equal(response->topics_count, 1);
    return &response->topics[0];
}

static void expect_refused(const struct kafka_create_topics_request *request, int16_t code, const char *message)
{
    uint64_t version = metadata_version(desk->image);
    const topic_result *result = create(request);
    assert_int_equal(result->error_code, code);
    if (message != NULL) {
        if (!kafka_text_is(result->error_message, message)) {
            fail_msg("it says: %.*s", (int)result->error_message.size_bytes, (const char *)result->error_message.at);
        }
    }
    assert_int_equal(metadata_version(desk->image), version);
    assert_true(controller_is_quiet(desk->controller));
}

static void given_topic(const char *name, int32_t partitions)
{
    struct kafka_create_topics_request *request = create_named(name);
    request->topics[0].num_partitions = partitions;
    assert_int_equal(create(request)->error_code, 0);
}

static const struct metadata_topic *topic(const char *name)
{
    return metadata_topic_by_name(desk->image, base_slice_text(name));
}

/* ---- committing --------------------------------------------------------------------------------------------------- */

static void a_topic_shows_only_once_its_records_are_committed(void **state)
{
    (void)state;
    given_node();
    uint64_t token = submit(CONTROLLER_CREATE_TOPICS, 7, create_named("a"));
    pull();
    assert_true(desk->has_proposal);
    assert_int_equal(desk->proposal.records_count, 2);
    assert_int_equal(desk->proposal.records[0].type, 2);
    assert_int_equal(desk->proposal.records[1].type, 3);
    assert_null(topic("a"));
    assert_false(is_answered(token));
    commit();
    assert_non_null(topic("a"));
    const struct kafka_create_topics_response *response = answer_of(token);
    assert_int_equal(response->topics[0].error_code, 0);
    assert_int_equal(response->topics[0].num_partitions, 1);
    assert_int_equal(response->topics[0].replication_factor, 1);
    assert_memory_equal(response->topics[0].topic_id.b, topic("a")->id.b, 16);
    const struct metadata_partition *partition = metadata_partition(desk->image, topic("a"), 0);
    assert_int_equal(partition->leader, 1);
    assert_int_equal(partition->isr_count, 1);
    assert_int_equal(partition->directories[0].b[0], 2);
    assert_true(controller_is_quiet(desk->controller));
    assert_int_equal(base_pages_block_count(desk->pages), 0);
}

static void a_failed_proposal_changes_nothing_and_says_so_from_then_on(void **state)
{
    (void)state;
    given_node();
    uint64_t version = metadata_version(desk->image);
    struct kafka_create_topics_request *mixed = create_request(2);
    mixed->topics[0].name = kafka_text_words("a");
    mixed->topics[1].name = kafka_text_words("..");
    uint64_t first = submit(CONTROLLER_CREATE_TOPICS, 7, mixed);
    struct kafka_init_producer_id_request init;
    kafka_init_producer_id_request_init(&init);
    init.transactional_id = kafka_text_null();
    uint64_t ids = submit(CONTROLLER_INIT_PRODUCER_ID, 4, &init);
    pull();
    controller_failed(desk->controller, CONTROLLER_BROKEN);
    desk->has_proposal = false;
    pull();
    const struct kafka_create_topics_response *response = answer_of(first);
    assert_int_equal(response->topics[0].error_code, KAFKA_ERROR_KAFKA_STORAGE_ERROR);
    assert_int_equal(response->topics[1].error_code, KAFKA_ERROR_INVALID_TOPIC_EXCEPTION);
    const struct kafka_init_producer_id_response *id = answer_of(ids);
    assert_int_equal(id->error_code, KAFKA_ERROR_KAFKA_STORAGE_ERROR);
    assert_int_equal(id->producer_id, -1);
    assert_int_equal(create(create_named("b"))->error_code, KAFKA_ERROR_KAFKA_STORAGE_ERROR);
    assert_int_equal(create(create_named(".."))->error_code, KAFKA_ERROR_INVALID_TOPIC_EXCEPTION);
    assert_int_equal(metadata_version(desk->image), version);
    assert_true(controller_is_quiet(desk->controller));
}

static void a_proposal_that_was_undone_changes_nothing_and_the_next_is_decided(void **state)
{
    (void)state;
    given_node();
    uint64_t version = metadata_version(desk->image);
    uint64_t first = submit(CONTROLLER_CREATE_TOPICS, 7, create_named("a"));
    pull();
    controller_failed(desk->controller, CONTROLLER_UNDONE);
    desk->has_proposal = false;
    pull();
    const struct kafka_create_topics_response *response = answer_of(first);
    assert_int_equal(response->topics[0].error_code, KAFKA_ERROR_KAFKA_STORAGE_ERROR);
    assert_int_equal(metadata_version(desk->image), version);
    assert_int_equal(create(create_named("a"))->error_code, 0);
    assert_true(controller_is_quiet(desk->controller));
}

static void on_a_full_disk_nothing_is_made_and_the_rest_is_decided(void **state)
{
    (void)state;
    given_node();
    assert_int_equal(create(create_named("a"))->error_code, 0);
    controller_refuse_growth(desk->controller, true);
    assert_int_equal(create(create_named("b"))->error_code, KAFKA_ERROR_KAFKA_STORAGE_ERROR);
    assert_int_equal(create(create_named("a"))->error_code, KAFKA_ERROR_TOPIC_ALREADY_EXISTS);
    struct kafka_init_producer_id_request init;
    kafka_init_producer_id_request_init(&init);
    init.transactional_id = kafka_text_null();
    const struct kafka_init_producer_id_response *id = run(CONTROLLER_INIT_PRODUCER_ID, 4, &init);
    assert_int_equal(id->error_code, 0);
    controller_refuse_growth(desk->controller, false);
    assert_int_equal(create(create_named("b"))->error_code, 0);
}

static void waiting_requests_are_one_proposal_but_for_those_that_touch_the_same_name(void **state)
{
    (void)state;
    given_node();
    uint64_t a = submit(CONTROLLER_CREATE_TOPICS, 7, create_named("a"));
    uint64_t b = submit(CONTROLLER_CREATE_TOPICS, 7, create_named("b.x"));
    uint64_t same = submit(CONTROLLER_CREATE_TOPICS, 7, create_named("a"));
    uint64_t colliding = submit(CONTROLLER_CREATE_TOPICS, 7, create_named("b_x"));
    pull();
    assert_int_equal(desk->proposal.records_count, 4);
    commit();
    pull();
    assert_int_equal(desk->proposals, 2); /* the first was the broker's registration */
    assert_int_equal(((const struct kafka_create_topics_response *)answer_of(a))->topics[0].error_code, 0);
    assert_int_equal(((const struct kafka_create_topics_response *)answer_of(b))->topics[0].error_code, 0);
    assert_int_equal(((const struct kafka_create_topics_response *)answer_of(same))->topics[0].error_code,
                     KAFKA_ERROR_TOPIC_ALREADY_EXISTS);
    assert_int_equal(((const struct kafka_create_topics_response *)answer_of(colliding))->topics[0].error_code,
                     KAFKA_ERROR_INVALID_TOPIC_EXCEPTION);
}

static void a_dry_run_keeps_nobody_waiting(void **state)
{
    (void)state;
    given_node();
    struct kafka_create_topics_request *dry = create_named("a");
    dry->validate_only = true;
    (void)submit(CONTROLLER_CREATE_TOPICS, 7, create_named("z"));
    (void)submit(CONTROLLER_CREATE_TOPICS, 7, dry);
    (void)submit(CONTROLLER_CREATE_TOPICS, 7, create_named("a"));
    pull();
    assert_int_equal(desk->proposal.records_count, 4);
    commit();
    assert_non_null(topic("a"));
}

static void a_request_past_requests_max_is_refused_at_the_door(void **state)
{
    (void)state;
    given_defaults();
    controller_config.requests_max = 2;
    given_desk();
    given_broker(1);
    (void)submit(CONTROLLER_CREATE_TOPICS, 7, create_named("a"));
    (void)submit(CONTROLLER_CREATE_TOPICS, 7, create_named("b"));
    struct controller_request third = {.token = 9,
                                       .kind = CONTROLLER_CREATE_TOPICS,
                                       .version = 7,
                                       .request = create_named("c"),
                                       .arena = &desk->arena};
    assert_int_equal(controller_submit(desk->controller, &third), BASE_FULL);
    pull();
    commit();
    assert_int_equal(controller_submit(desk->controller, &third), BASE_OK);
}

static struct {
    void *pages[2100];
    uint32_t given, count; /* those from the first on were given back one by one */
} taken;

static void take_all_memory(void)
{
    taken.given = taken.count = 0;
    while ((taken.pages[taken.count] = base_pages_take(desk->pages, BASE_CONTROL, 4096)) != NULL) { taken.count += 1; }
}

static void give_first_pages(uint32_t count)
{
    while (taken.given < count) { base_pages_give(desk->pages, taken.pages[taken.given++]); }
}

static void give_all_memory(void)
{
    while (taken.count > taken.given) { base_pages_give(desk->pages, taken.pages[--taken.count]); }
}

static void without_pages_a_round_waits(void **state)
{
    (void)state;
    given_node();
    take_all_memory();
    (void)submit(CONTROLLER_CREATE_TOPICS, 7, create_named("a"));
    pull();
    assert_false(desk->has_proposal);
    give_all_memory();
    pull();
    assert_true(desk->has_proposal);
    commit();
}

/* A block that is smaller than a round may have holds what is small; what is not has its answer when there is a larger one. */
static void what_does_not_fit_the_block_that_there_is_waits_for_a_larger_one(void **state)
{
    (void)state;
    given_node();
    take_all_memory();
    give_first_pages(16);
    desk->answers_count = 0;
    uint64_t small = submit(CONTROLLER_CREATE_TOPICS, 7, create_named("a"));
    struct kafka_create_topics_request *request = create_named("b");
    request->topics[0].num_partitions = 1000;
    uint64_t large = submit(CONTROLLER_CREATE_TOPICS, 7, request);
    pull();
    commit();
    assert_non_null(answer_of(small));
    assert_non_null(topic("a"));
    assert_false(desk->has_proposal);
    assert_int_equal(desk->answers_count, 1); /* not that there is none */
    give_all_memory();
    pull();
    commit();
    assert_int_equal(((const struct kafka_create_topics_response *)answer_of(large))->topics[0].error_code, 0);
    assert_int_equal(metadata_partitions_count(desk->image), 1001);
}

/* Who begins to produce touches nothing, and does not wait behind what waits for a larger block. */
static void producer_ids_do_not_wait_for_a_larger_block(void **state)
{
    (void)state;
    given_node();
    take_all_memory();
    give_first_pages(16);
    struct kafka_create_topics_request *request = create_named("b");
    request->topics[0].num_partitions = 1000;
    uint64_t large = submit(CONTROLLER_CREATE_TOPICS, 7, request);
    uint64_t behind = submit(CONTROLLER_CREATE_TOPICS, 7, create_named("c"));
    struct kafka_init_producer_id_request init;
    kafka_init_producer_id_request_init(&init);
    init.transactional_id = kafka_text_null();
    desk->answers_count = 0;
    for (uint32_t i = 0; i < 3; i++) { /* the first takes a block of ids, the others what is left of it */
        uint64_t ids = submit(CONTROLLER_INIT_PRODUCER_ID, 4, &init);
        pull();
        if (desk->has_proposal) { commit(); }
        const struct kafka_init_producer_id_response *answer = answer_of(ids);
        assert_int_equal(answer->error_code, 0);
        assert_int_equal(answer->producer_id, i);
        assert_int_equal(desk->answers_count, i + 1);
    }
    assert_int_equal(metadata_topics_count(desk->image), 0);
    give_all_memory();
    pull();
    commit();
    assert_int_equal(((const struct kafka_create_topics_response *)answer_of(large))->topics[0].error_code, 0);
    assert_int_equal(((const struct kafka_create_topics_response *)answer_of(behind))->topics[0].error_code, 0);
}

/* The batch of a round needs memory, too. */
static void a_round_keeps_no_more_than_its_records(void **state)
{
    (void)state;
    given_node();
    size_t before_bytes = base_pages_used_bytes(desk->pages);
    (void)submit(CONTROLLER_CREATE_TOPICS, 7, create_named("a"));
    pull();
    assert_true(desk->has_proposal);
    assert_int_equal(base_pages_used_bytes(desk->pages), before_bytes + 4096);
    commit();
    assert_non_null(topic("a"));
    assert_int_equal(base_pages_used_bytes(desk->pages), before_bytes);
}

/* Every size of the answer's arena: no answer and no topic, or both. */
static void an_answer_that_finds_no_memory_does_nothing(void **state)
{
    (void)state;
    given_node();
    bool is_done = false;
    for (size_t bytes = 0; !is_done; bytes += 48) {
        struct kafka_create_topics_request *request = create_named("a");
        request->topics[0].num_partitions = 2;
        static _Alignas(16) uint8_t memory[1 << 16];
        struct base_arena small;
        base_arena_init(&small, memory, bytes);
        struct controller_request submitted = {
            .token = 7, .kind = CONTROLLER_CREATE_TOPICS, .version = 7, .request = request, .arena = &small};
        assert_int_equal(controller_submit(desk->controller, &submitted), BASE_OK);
        desk->answers_count = 0;
        pull();
        if (desk->has_proposal) {
            commit();
            is_done = true;
        }
        assert_int_equal(answer_of(7) != NULL, is_done);
        assert_int_equal(topic("a") != NULL, is_done);
    }
}

static void rounds_that_do_not_fit_are_split(void **state)
{
    (void)state;
    given_defaults();
    controller_config.proposal_bytes_max = 65536;
    given_desk();
    given_broker(1);
    uint64_t tokens[3];
    for (size_t i = 0; i < 3; i++) {
        const char *names[] = {"a", "b", "c"};
        struct kafka_create_topics_request *request = create_named(names[i]);
        request->topics[0].num_partitions = 300;
        tokens[i] = submit(CONTROLLER_CREATE_TOPICS, 7, request);
    }
    pull();
    uint32_t commits = 0;
    while (desk->has_proposal) {
        commit();
        commits += 1;
    }
    assert_true(commits > 1);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(((const struct kafka_create_topics_response *)answer_of(tokens[i]))->topics[0].error_code, 0);
    }
    assert_int_equal(metadata_partitions_count(desk->image), 900);
}

static void a_request_that_fits_no_proposal_is_refused_as_a_whole(void **state)
{
    (void)state;
    given_defaults();
    controller_config.proposal_bytes_max = 65536;
    controller_config.partitions_default = 3000;
    given_desk();
    given_broker(1);
    struct kafka_create_topics_request *request = create_named("a");
    request->topics[0].num_partitions = 1;
    assert_int_equal(create(request)->error_code, 0);
    uint64_t version = metadata_version(desk->image);
    request = create_named("b");
    request->topics[0].num_partitions = 3000;
    assert_int_equal(create(request)->error_code, KAFKA_ERROR_POLICY_VIOLATION);
    struct kafka_create_partitions_request grow;
    struct kafka_create_partitions_request_create_partitions_topic growing;
    kafka_create_partitions_request_init(&grow);
    kafka_create_partitions_request_create_partitions_topic_init(&growing);
    growing.name = kafka_text_words("a");
    growing.count = 3000;
    growing.assignments_count = -1;
    grow.topics = &growing;
    grow.topics_count = 1;
    const struct kafka_create_partitions_response *grown = run(CONTROLLER_CREATE_PARTITIONS, 3, &grow);
    assert_int_equal(grown->results[0].error_code, KAFKA_ERROR_POLICY_VIOLATION);
    const struct base_slice name = base_slice_text("c");
    struct controller_auto_create named = {&name, 1};
    const struct controller_auto_created *made = run(CONTROLLER_AUTO_CREATE, 0, &named);
    assert_int_equal(made->error_codes[0], KAFKA_ERROR_POLICY_VIOLATION);
    assert_int_equal(metadata_version(desk->image), version);
    request = create_named("d");
    request->topics[0].num_partitions = 2;
    assert_int_equal(create(request)->error_code, 0);
}

/* ---- CreateTopics ------------------------------------------------------------------------------------------------- */

static void names_are_judged_as_kafka_does(void **state)
{
    (void)state;
    given_node();
    char longest[250];
    char longer[251];
    memset(longest, 'n', 249);
    longest[249] = 0;
    memset(longer, 'n', 250);
    longer[250] = 0;
    given_topic(longest, 1);
    given_topic("a.b_c-D9", 1);
    given_topic("_.", 1);
    const int16_t invalid = KAFKA_ERROR_INVALID_TOPIC_EXCEPTION;
    expect_refused(create_named(""), invalid, "Topic name is invalid: the empty string is not allowed");
    expect_refused(create_named("."), invalid, "Topic name is invalid: '.' is not allowed");
    expect_refused(create_named(".."), invalid, "Topic name is invalid: '..' is not allowed");
    expect_refused(create_named(longer), invalid, NULL);
    expect_refused(
        create_named("a b"), invalid,
        "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
        "and '-'");
    expect_refused(create_named("a_b.c-D9"), invalid, "Topic 'a_b.c-D9' collides with existing topic: a.b_c-D9");
    expect_refused(create_named("a.b_c-D9"), KAFKA_ERROR_TOPIC_ALREADY_EXISTS, "Topic 'a.b_c-D9' already exists.");
    expect_refused(create_named("__cluster_metadata"), KAFKA_ERROR_INVALID_REQUEST,
                   "Creation of internal topic __cluster_metadata is prohibited.");
    expect_refused(create_named("__consumer_offsets"), invalid,
                   "Topic '__consumer_offsets' is reserved: committed offsets are not kept in a topic here");
    /* Who wants no words gives no place for them. */
    assert_int_equal(controller_check_topic_name(base_slice_text(".."), NULL), invalid);
    assert_int_equal(controller_check_topic_name(base_slice_text("a"), NULL), 0);
}

static void counts_are_judged_as_kafka_does(void **state)
{
    (void)state;
    static const struct {
        int32_t partitions;
        int16_t replication;
        int16_t code;
        const char *message;
    } cases[] = {
        {-1, -1, 0, NULL},
        {3, 1, 0, NULL},
        {0, 1, KAFKA_ERROR_INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."},
        {-2, 1, KAFKA_ERROR_INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."},
        {1, 0, KAFKA_ERROR_INVALID_REPLICATION_FACTOR,
         "Replication factor must be larger than 0, or -1 to use the default value."},
        {1, -2, KAFKA_ERROR_INVALID_REPLICATION_FACTOR,
         "Replication factor must be larger than 0, or -1 to use the default value."},
        {0, 0, KAFKA_ERROR_INVALID_REPLICATION_FACTOR,
         "Replication factor must be larger than 0, or -1 to use the default value."},
        {1, 3, KAFKA_ERROR_INVALID_REPLICATION_FACTOR,
         "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
         "only 1 "
         "broker(s) are registered or some brokers have all their log directories cordoned."},
        {10001, 1, KAFKA_ERROR_POLICY_VIOLATION, "Excessively large number of partitions per request."},
        {INT32_MAX, 1, KAFKA_ERROR_POLICY_VIOLATION, "Excessively large number of partitions per request."},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        given_node();
        struct kafka_create_topics_request *request = create_named("a");
        request->topics[0].num_partitions = cases[i].partitions;
        request->topics[0].replication_factor = cases[i].replication;
        if (cases[i].code == 0) {
            assert_int_equal(create(request)->error_code, 0);
            assert_int_equal(topic("a")->partitions_count, cases[i].partitions == -1 ? 1 : cases[i].partitions);
        } else {
            expect_refused(request, cases[i].code, cases[i].message);
        }
    }
}

static void configs_are_judged_and_kept(void **state)
{
    (void)state;
    given_node();
    const int16_t invalid = KAFKA_ERROR_INVALID_CONFIG;
    struct kafka_create_topics_request *request = create_named("a");
    configure(&request->topics[0], "nope", "1");
    expect_refused(request, invalid, "Unknown topic config name: nope");
    configure(&request->topics[0], "retention.ms", "x");
    expect_refused(request, invalid, "Invalid value x for configuration retention.ms: Not a number of type LONG");
    configure(&request->topics[0], "retention.ms", NULL);
    expect_refused(request, invalid, "Null value not supported for topic configs: retention.ms");
    configure(&request->topics[0], "max.compaction.lag.ms", "5");
    assert_int_equal(create(request)->error_code, 0); /* min is 0 */
    request->topics[0].name = kafka_text_words("b");
    configure(&request->topics[0], "min.compaction.lag.ms", "9223372036854775807");
    assert_int_equal(create(request)->error_code, 0); /* max is the same */
    request->topics[0].name = kafka_text_words("c");
    configure(&request->topics[0], "remote.storage.enable", "true");
    expect_refused(request, invalid, NULL);
    configure(&request->topics[0], "cleanup.policy", "");
    const topic_result *result = create(request);
    assert_int_equal(result->error_code, 0);
    assert_int_equal(result->configs_count, METADATA_ID_COUNT);
    assert_true(kafka_text_is(result->configs[METADATA_CLEANUP_POLICY].value, ""));
    assert_int_equal(result->configs[METADATA_CLEANUP_POLICY].config_source, METADATA_SOURCE_TOPIC);
    assert_int_equal(result->configs[METADATA_RETENTION_MS].config_source, METADATA_SOURCE_DEFAULT);
    assert_int_equal(metadata_number(desk->image, topic("c"), METADATA_CLEANUP_POLICY), 0);
    request->topics[0].name = kafka_text_words("d");
    request->topics[0].configs = kafka_create_topics_request_creatable_topic_config_take(&desk->arena, 2);
    request->topics[0].configs_count = 2;
    request->topics[0].configs[0].name = kafka_text_words("min.compaction.lag.ms");
    request->topics[0].configs[0].value = kafka_text_words("10");
    request->topics[0].configs[1].name = kafka_text_words("max.compaction.lag.ms");
    request->topics[0].configs[1].value = kafka_text_words("5");
    expect_refused(request, invalid,
                   "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)");
}

static void assign(wanted_topic *topic, int32_t place, int32_t partition, const int32_t *ids, int32_t count)
{
    topic->assignments[place].partition_index = partition;
    topic->assignments[place].broker_ids = (int32_t *)(uintptr_t)ids;
    topic->assignments[place].broker_ids_count = count;
}

static void manual_assignments_are_judged_as_kafka_does(void **state)
{
    (void)state;
    given_node();
    given_broker(2);
    static const int32_t one[] = {1};
    static const int32_t two_one[] = {2, 1};
    static const int32_t one_two[] = {1, 2};
    static const int32_t twice[] = {1, 1};
    static const int32_t nobody[] = {9};
    const int16_t invalid = KAFKA_ERROR_INVALID_REPLICA_ASSIGNMENT;
    struct kafka_create_topics_request *request = create_named("a");
    wanted_topic *wanted = &request->topics[0];
    wanted->assignments = kafka_create_topics_request_creatable_replica_assignment_take(&desk->arena, 2);
    wanted->assignments_count = 2;
    assign(wanted, 0, 1, one_two, 2);
    assign(wanted, 1, 1, one_two, 2);
    expect_refused(request, invalid, "Found multiple manual partition assignments for partition 1");
    assign(wanted, 1, 2, one_two, 2);
    expect_refused(request, invalid, "partitions should be a consecutive 0-based integer sequence");
    assign(wanted, 1, 0, one, 1);
    expect_refused(
        request, invalid,
        "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with "
        "previous partitions, which have 1 replica(s).");
    assign(wanted, 1, 0, twice, 2);
    expect_refused(request, invalid, "The manual partition assignment includes the broker 1 more than once.");
    assign(wanted, 1, 0, nobody, 1);
    expect_refused(request, invalid,
                   "The manual partition assignment includes broker 9, but no such broker is registered.");
    assign(wanted, 1, 0, nobody, 0);
    expect_refused(request, invalid, "The manual partition assignment includes an empty replica list.");
    assign(wanted, 1, 0, two_one, 2);
    wanted->num_partitions = 2;
    expect_refused(request, KAFKA_ERROR_INVALID_REQUEST,
                   "A manual partition assignment was specified, but numPartitions was not set to -1.");
    wanted->replication_factor = 2;
    expect_refused(request, KAFKA_ERROR_INVALID_REQUEST,
                   "A manual partition assignment was specified, but replication factor was not set to -1.");
    wanted->num_partitions = -1;
    wanted->replication_factor = -1;
    const topic_result *result = create(request);
    assert_int_equal(result->error_code, 0);
    assert_int_equal(result->num_partitions, 2);
    assert_int_equal(result->replication_factor, 2);
    assert_int_equal(metadata_partition(desk->image, topic("a"), 0)->leader, 2);
    assert_int_equal(metadata_partition(desk->image, topic("a"), 1)->leader, 1);
}

static void of_duplicates_in_a_request_none_is_created_and_one_result_says_so(void **state)
{
    (void)state;
    given_node();
    struct kafka_create_topics_request *request = create_request(5);
    const char *names[] = {"a", "b", "a", "x.y", "x_y"};
    for (size_t i = 0; i < 5; i++) { request->topics[i].name = kafka_text_words(names[i]); }
    const struct kafka_create_topics_response *response = run(CONTROLLER_CREATE_TOPICS, 7, request);
    assert_int_equal(response->topics_count, 4);
    assert_int_equal(response->topics[0].error_code, KAFKA_ERROR_INVALID_REQUEST);
    assert_true(kafka_text_is(response->topics[0].error_message, "Duplicate topic name."));
    assert_int_equal(response->topics[1].error_code, 0);
    assert_int_equal(response->topics[2].error_code, 0);
    assert_int_equal(response->topics[3].error_code, KAFKA_ERROR_INVALID_TOPIC_EXCEPTION);
    assert_null(topic("a"));
    assert_non_null(topic("b"));
    assert_null(topic("x_y"));
}

static void validating_only_says_the_same_and_creates_nothing(void **state)
{
    (void)state;
    given_node();
    struct kafka_create_topics_request *request = create_named("a");
    request->validate_only = true;
    expect_refused(request, 0, NULL);
    assert_null(topic("a"));
    given_topic("a", 1);
    expect_refused(request, KAFKA_ERROR_TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.");
}

static void limits_of_the_image_are_seen_when_deciding(void **state)
{
    (void)state;
    given_defaults();
    image_config.topics_max = 3;
    image_config.partitions_max = 5;
    image_config.configs_max = 1;
    given_desk();
    given_broker(1);
    given_topic("a", 3);
    struct kafka_create_topics_request *request = create_request(3); /* in one request: the sums count */
    request->topics[0].name = kafka_text_words("b");
    request->topics[1].name = kafka_text_words("c");
    request->topics[1].num_partitions = 2;
    request->topics[2].name = kafka_text_words("d");
    configure(&request->topics[2], "retention.ms", "1");
    const struct kafka_create_topics_response *response = run(CONTROLLER_CREATE_TOPICS, 7, request);
    assert_int_equal(response->topics[0].error_code, 0);
    assert_int_equal(response->topics[1].error_code, KAFKA_ERROR_POLICY_VIOLATION);
    assert_int_equal(response->topics[2].error_code, 0);
    expect_refused(create_named("e"), KAFKA_ERROR_POLICY_VIOLATION, NULL);
}

static void a_topic_made_again_has_another_id(void **state)
{
    (void)state;
    given_node();
    given_topic("a", 1);
    struct base_uuid before = topic("a")->id;
    assert_int_equal(before.b[6] >> 4, 4);
    struct kafka_delete_topics_request request;
    kafka_delete_topics_request_init(&request);
    struct kafka_text name = kafka_text_words("a");
    request.topic_names = &name;
    request.topic_names_count = 1;
    const struct kafka_delete_topics_response *response = run(CONTROLLER_DELETE_TOPICS, 5, &request);
    assert_int_equal(response->responses[0].error_code, 0);
    assert_null(topic("a"));
    assert_int_equal(metadata_partitions_count(desk->image), 0);
    given_topic("a", 1);
    assert_memory_not_equal(topic("a")->id.b, before.b, 16);
}

/* ---- DeleteTopics ------------------------------------------------------------------------------------------------- */

static void topics_are_deleted_by_name_or_id_and_never_by_both(void **state)
{
    (void)state;
    given_node();
    const char *names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 4; i++) { given_topic(names[i], 2); }
    struct kafka_delete_topics_request request;
    kafka_delete_topics_request_init(&request);
    request.topics = kafka_delete_topics_request_delete_topic_state_take(&desk->arena, 9);
    request.topics_count = 9;
    struct base_uuid b = topic("b")->id;
    request.topics[0].name = kafka_text_words("a");
    request.topics[1].topic_id = b;
    request.topics[2].name = kafka_text_words("zz");
    request.topics[3].topic_id = (struct base_uuid){{9}};
    request.topics[5].name = kafka_text_words("c");
    request.topics[5].topic_id = topic("c")->id;
    request.topics[6].name = kafka_text_words("c");
    request.topics[7].name = kafka_text_words("d");
    request.topics[8].topic_id = topic("d")->id;
    const struct kafka_delete_topics_response *response = run(CONTROLLER_DELETE_TOPICS, 6, &request);
    const int16_t codes[] = {0,
                             0,
                             KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION,
                             KAFKA_ERROR_UNKNOWN_TOPIC_ID,
                             KAFKA_ERROR_INVALID_REQUEST,
                             KAFKA_ERROR_INVALID_REQUEST,
                             0,
                             KAFKA_ERROR_INVALID_REQUEST};
    assert_int_equal(response->responses_count, 8); /* d's name speaks for its id */
    for (int32_t i = 0; i < 8; i++) { assert_int_equal(response->responses[i].error_code, codes[i]); }
    assert_true(kafka_text_is(response->responses[1].name, "b"));
    assert_memory_equal(response->responses[1].topic_id.b, b.b, 16);
    assert_memory_equal(response->responses[7].topic_id.b, topic("d")->id.b, 16);
    assert_int_equal(metadata_topics_count(desk->image), 1);
    assert_non_null(topic("d"));
}

static void what_is_to_be_deleted_twice_is_answered_once_and_stays(void **state)
{
    (void)state;
    given_node();
    given_topic("a", 1);
    given_topic("b", 1);
    given_topic("c", 1);
    struct base_uuid b = topic("b")->id;
    struct base_uuid c = topic("c")->id;
    struct kafka_delete_topics_request request;
    kafka_delete_topics_request_init(&request);
    request.topics = kafka_delete_topics_request_delete_topic_state_take(&desk->arena, 9);
    request.topics_count = 9;
    request.topics[0].name = kafka_text_words("a");
    request.topics[1].topic_id = b;
    request.topics[2].name = kafka_text_words("a");
    request.topics[3].topic_id = b;
    request.topics[4].name = kafka_text_words("b"); /* names what is there twice by its id */
    request.topics[5].name = kafka_text_words("a");
    request.topics[6].name = kafka_text_words("c");
    request.topics[7].topic_id = c; /* names once what is there twice by name: goes */
    request.topics[8].name = kafka_text_words("c");
    const struct kafka_delete_topics_response *response = run(CONTROLLER_DELETE_TOPICS, 6, &request);
    static const struct {
        int16_t code;
        const char *message;
    } wanted[] = {{KAFKA_ERROR_INVALID_REQUEST, "Duplicate topic name."},
                  {KAFKA_ERROR_INVALID_REQUEST, "Duplicate topic id."},
                  {KAFKA_ERROR_INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."},
                  {KAFKA_ERROR_INVALID_REQUEST, "Duplicate topic name."},
                  {0, NULL}};
    assert_int_equal(response->responses_count, 5);
    for (int32_t i = 0; i < 5; i++) {
        assert_int_equal(response->responses[i].error_code, wanted[i].code);
        if (wanted[i].message != NULL) {
            assert_true(kafka_text_is(response->responses[i].error_message, wanted[i].message));
        }
    }
    assert_non_null(topic("a"));
    assert_non_null(topic("b"));
    assert_null(topic("c"));
}

/* ---- CreatePartitions --------------------------------------------------------------------------------------------- */

typedef struct kafka_create_partitions_response_create_partitions_topic_result growth_result;

static const growth_result *asked_to_grow(const char *name, int32_t count)
{
    struct kafka_create_partitions_request request;
    kafka_create_partitions_request_init(&request);
    struct kafka_create_partitions_request_create_partitions_topic wanted;
    kafka_create_partitions_request_create_partitions_topic_init(&wanted);
    wanted.name = kafka_text_words(name);
    wanted.count = count;
    wanted.assignments_count = -1;
    request.topics = &wanted;
    request.topics_count = 1;
    const struct kafka_create_partitions_response *response = run(CONTROLLER_CREATE_PARTITIONS, 3, &request);
    return &response->results[0];
}

static int16_t grow(const char *name, int32_t count) { return asked_to_grow(name, count)->error_code; }

static void partitions_are_only_added(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t count;
        int16_t code;
        const char *message;
    } cases[] = {
        {"a", 5, 0, NULL},
        {"a", 3, KAFKA_ERROR_INVALID_PARTITIONS, "Topic already has 3 partition(s)."},
        {"a", 2, KAFKA_ERROR_INVALID_PARTITIONS,
         "The topic a currently has 3 partition(s); 2 would not be an increase."},
        {"a", -1, KAFKA_ERROR_INVALID_PARTITIONS,
         "The topic a currently has 3 partition(s); -1 would not be an increase."},
        {"b", 5, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION, NULL},
        {"a", INT32_MAX, KAFKA_ERROR_POLICY_VIOLATION, "Excessively large number of partitions per request."},
    };
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        given_node();
        given_topic("a", 3);
        const growth_result *result = asked_to_grow(cases[i].name, cases[i].count);
        assert_int_equal(result->error_code, cases[i].code);
        if (cases[i].message != NULL) { assert_true(kafka_text_is(result->error_message, cases[i].message)); }
        assert_int_equal(topic("a")->partitions_count, cases[i].code == 0 ? cases[i].count : 3);
    }
}

/* ---- configs ------------------------------------------------------------------------------------------------------ */

static int16_t alter(const char *name, int8_t operation, const char *value)
{
    struct kafka_incremental_alter_configs_request request;
    struct kafka_incremental_alter_configs_request_alter_configs_resource resource;
    struct kafka_incremental_alter_configs_request_alterable_config config;
    kafka_incremental_alter_configs_request_init(&request);
    kafka_incremental_alter_configs_request_alter_configs_resource_init(&resource);
    kafka_incremental_alter_configs_request_alterable_config_init(&config);
    request.resources = &resource;
    request.resources_count = 1;
    resource.resource_type = METADATA_RESOURCE_TOPIC;
    resource.resource_name = kafka_text_words("a");
    resource.configs = &config;
    resource.configs_count = 1;
    config.name = kafka_text_words(name);
    config.config_operation = operation;
    config.value = value == NULL ? kafka_text_null() : kafka_text_words(value);
    const struct kafka_incremental_alter_configs_response *response = run(CONTROLLER_ALTER_CONFIGS, 1, &request);
    return response->responses[0].error_code;
}

static void configs_are_set_taken_away_appended_and_subtracted(void **state)
{
    (void)state;
    given_node();
    assert_int_equal(alter("retention.ms", 0, "5"), KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    given_topic("a", 1);
    assert_int_equal(alter("retention.ms", 0, "5"), 0);
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_RETENTION_MS), 5);
    assert_int_equal(alter("retention.ms", 1, NULL), 0);
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_RETENTION_MS), 604800000);
    assert_int_equal(alter("cleanup.policy", 2, "compact"), 0);
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_CLEANUP_POLICY), 3);
    assert_int_equal(alter("cleanup.policy", 3, "delete"), 0);
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_CLEANUP_POLICY), METADATA_CLEANUP_COMPACT);
    assert_int_equal(alter("retention.ms", 2, "5"), KAFKA_ERROR_INVALID_CONFIG);
    assert_int_equal(alter("retention.ms", 0, "x"), KAFKA_ERROR_INVALID_CONFIG);
    assert_int_equal(alter("retention.ms", 0, NULL), KAFKA_ERROR_INVALID_REQUEST);
    assert_int_equal(alter("retention.ms", 4, "5"), KAFKA_ERROR_UNKNOWN_SERVER_ERROR); /* Kafka's, and no more */
    assert_int_equal(alter("nope", 0, "5"), KAFKA_ERROR_INVALID_CONFIG);
    assert_int_equal(alter("weir.durability", 0, "page-cache"), KAFKA_ERROR_INVALID_CONFIG); /* for life */
    assert_int_equal(alter("weir.durability", 0, "synced"), 0);                              /* as it is */
}

/* The one result of a change of one key of one resource, by AlterConfigs or by IncrementalAlterConfigs. */
static int16_t change(bool replaces, int8_t type, const char *name, const char *key, const char *value)
{
    struct kafka_incremental_alter_configs_request request;
    kafka_incremental_alter_configs_request_init(&request);
    struct kafka_incremental_alter_configs_request_alter_configs_resource resource;
    struct kafka_incremental_alter_configs_request_alterable_config config;
    kafka_incremental_alter_configs_request_alter_configs_resource_init(&resource);
    kafka_incremental_alter_configs_request_alterable_config_init(&config);
    resource.resource_type = type;
    resource.resource_name = kafka_text_words(name);
    resource.configs = &config;
    resource.configs_count = 1;
    config.name = kafka_text_words(key);
    config.value = kafka_text_words(value);
    request.resources = &resource;
    request.resources_count = 1;
    if (!replaces) {
        const struct kafka_incremental_alter_configs_response *response = run(CONTROLLER_ALTER_CONFIGS, 1, &request);
        return response->responses[0].error_code;
    }
    struct kafka_alter_configs_request old;
    struct kafka_alter_configs_request_alter_configs_resource old_resource;
    struct kafka_alter_configs_request_alterable_config old_config;
    kafka_alter_configs_request_init(&old);
    kafka_alter_configs_request_alter_configs_resource_init(&old_resource);
    kafka_alter_configs_request_alterable_config_init(&old_config);
    old_resource.resource_type = type;
    old_resource.resource_name = resource.resource_name;
    old_resource.configs = &old_config;
    old_resource.configs_count = 1;
    old_config.name = config.name;
    old_config.value = config.value;
    old.resources = &old_resource;
    old.resources_count = 1;
    const struct kafka_alter_configs_response *response = run(CONTROLLER_REPLACE_CONFIGS, 2, &old);
    return response->responses[0].error_code;
}

static void what_a_replacement_does_not_name_is_taken_away(void **state)
{
    (void)state;
    given_node();
    given_topic("a", 1);
    given_topic("b", 1);
    assert_int_equal(change(false, METADATA_RESOURCE_TOPIC, "a", "retention.ms", "5"), 0);
    assert_int_equal(change(false, METADATA_RESOURCE_TOPIC, "b", "retention.ms", "6"), 0);
    assert_int_equal(change(true, METADATA_RESOURCE_TOPIC, "a", "flush.ms", "x"), KAFKA_ERROR_INVALID_CONFIG);
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_RETENTION_MS), 5);
    assert_int_equal(change(true, METADATA_RESOURCE_TOPIC, "a", "flush.ms", "7"), 0);
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_RETENTION_MS), 604800000);
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_FLUSH_MS), 7);
    assert_int_equal(metadata_number(desk->image, topic("b"), METADATA_RETENTION_MS), 6);
    assert_int_equal(change(true, METADATA_RESOURCE_TOPIC, "zz", "flush.ms", "7"),
                     KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(change(true, METADATA_RESOURCE_TOPIC, "", "flush.ms", "7"), KAFKA_ERROR_INVALID_REQUEST);
    assert_int_equal(change(true, METADATA_RESOURCE_TOPIC, "a b", "flush.ms", "7"),
                     KAFKA_ERROR_INVALID_TOPIC_EXCEPTION);
}

static void brokers_change_one_by_one_or_all_together(void **state)
{
    (void)state;
    given_node();
    given_topic("a", 1);
    const int8_t broker = METADATA_RESOURCE_BROKER;
    assert_int_equal(change(false, broker, "", "log.retention.ms", "5"), 0);
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_RETENTION_MS), 5);
    assert_int_equal(change(false, broker, "1", "log.retention.ms", "6"), 0);
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_RETENTION_MS), 6);
    assert_int_equal(change(true, broker, "1", "num.partitions", "3"), 0); /* takes the 6 away */
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_RETENTION_MS), 5);
    given_topic("b", -1);
    assert_int_equal(topic("b")->partitions_count, 3);
    static const struct {
        const char *name;
        const char *key;
        const char *value;
    } wrong[] = {{"1", "num.partitions", "0"}, {"", "num.partitions", "x"},       {"2", "num.partitions", "2"},
                 {"x", "num.partitions", "2"}, {"1", "log.retention.hours", "2"}, {"1", "nope", "2"}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(wrong); i++) {
        assert_int_equal(change(false, broker, wrong[i].name, wrong[i].key, wrong[i].value),
                         KAFKA_ERROR_INVALID_REQUEST);
    }
    assert_int_equal(change(false, 16, "1", "root", "INFO"), KAFKA_ERROR_INVALID_REQUEST);
    assert_int_equal(change(true, METADATA_RESOURCE_LOGGER, "1", "root", "INFO"), KAFKA_ERROR_INVALID_REQUEST);
    /* Levels of log lines are no records: whoever keeps them judges them. */
    assert_int_equal(change(false, METADATA_RESOURCE_LOGGER, "1", "root", "INFO"), KAFKA_ERROR_NONE);
}

static void a_broker_is_one_however_its_number_is_written(void **state)
{
    (void)state;
    given_node();
    struct kafka_incremental_alter_configs_request request;
    struct kafka_incremental_alter_configs_request_alter_configs_resource resources[2];
    struct kafka_incremental_alter_configs_request_alterable_config config;
    kafka_incremental_alter_configs_request_init(&request);
    kafka_incremental_alter_configs_request_alterable_config_init(&config);
    config.name = kafka_text_words("log.retention.ms");
    config.value = kafka_text_words("5");
    for (size_t i = 0; i < 2; i++) {
        kafka_incremental_alter_configs_request_alter_configs_resource_init(&resources[i]);
        resources[i].resource_type = METADATA_RESOURCE_BROKER;
        resources[i].resource_name = kafka_text_words(i == 0 ? "1" : "01");
        resources[i].configs = &config;
        resources[i].configs_count = 1;
    }
    request.resources = resources;
    request.resources_count = 2;
    const struct kafka_incremental_alter_configs_response *response = run(CONTROLLER_ALTER_CONFIGS, 1, &request);
    for (size_t i = 0; i < 2; i++) { assert_int_equal(response->responses[i].error_code, KAFKA_ERROR_INVALID_REQUEST); }
    request.resources_count = 1;
    struct kafka_incremental_alter_configs_request other = request;
    other.resources = &resources[1];
    uint32_t proposals = desk->proposals;
    (void)submit(CONTROLLER_ALTER_CONFIGS, 1, &request);
    (void)submit(CONTROLLER_ALTER_CONFIGS, 1, &other); /* waits for what it goes on from */
    pull();
    while (desk->has_proposal) { commit(); }
    assert_int_equal(desk->proposals - proposals, 2);
}

/* The configs of the broker, of all, that a topic's come from: changed by the same proposal, or while the answer is under way. */
static void an_answer_keeps_the_configs_that_it_was_decided_with(void **state)
{
    (void)state;
    given_node();
    assert_int_equal(change(false, METADATA_RESOURCE_BROKER, "", "log.retention.ms", "604800001"), 0);
    uint64_t token = submit(CONTROLLER_CREATE_TOPICS, 7, create_named("a"));
    assert_int_equal(change(false, METADATA_RESOURCE_BROKER, "", "log.retention.ms", "1"), 0);
    assert_int_equal(desk->proposals, 3); /* the node's, and both of them together */
    const struct kafka_create_topics_response *response = answer_of(token);
    assert_true(kafka_text_is(response->topics[0].configs[METADATA_RETENTION_MS].value, "604800001"));
}

static void at_the_limit_of_configs_those_that_are_there_can_be_changed(void **state)
{
    (void)state;
    given_defaults();
    image_config.configs_max = 2;
    given_desk();
    given_broker(1);
    given_topic("a", 1);
    const int8_t type = METADATA_RESOURCE_TOPIC;
    assert_int_equal(change(false, METADATA_RESOURCE_BROKER, "1", "num.partitions", "3"), 0);
    assert_int_equal(change(false, type, "a", "retention.ms", "5"), 0);
    assert_int_equal(change(false, type, "a", "retention.bytes", "5"), KAFKA_ERROR_POLICY_VIOLATION);
    assert_int_equal(change(false, type, "a", "retention.ms", "6"), 0);
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_RETENTION_MS), 6);
    assert_int_equal(change(true, METADATA_RESOURCE_BROKER, "1", "num.partitions", "4"), 0);
    given_topic("b", -1);
    assert_int_equal(topic("b")->partitions_count, 4);
}

static int64_t durability_of(const struct metadata *image, const char *name)
{
    const struct metadata_topic *it = metadata_topic_by_name(image, base_slice_text(name));
    assert_non_null(it);
    return metadata_number(image, it, METADATA_WEIR_DURABILITY);
}

/* Made on a node of one default, and read from the log on one of the other. */
static void a_topic_keeps_the_durability_it_was_made_with_whatever_the_default_becomes(void **state)
{
    (void)state;
    struct metadata_pair pair = {base_slice_text("weir.log.durability"), base_slice_text("page-cache")};
    given_node();
    image_config.broker_values = &pair;
    image_config.broker_values_count = 1;
    desk->other = given_image(1);
    given_topic("a", 1);
    assert_int_equal(durability_of(desk->image, "a"), METADATA_SYNCED);
    assert_int_equal(durability_of(desk->other, "a"), METADATA_SYNCED);
    assert_int_equal(metadata_number(desk->other, NULL, METADATA_WEIR_DURABILITY), METADATA_PAGE_CACHE);

    given_desk();
    given_broker(1);
    image_config.broker_values_count = 0;
    desk->other = given_image(1);
    given_topic("a", 1);
    assert_int_equal(durability_of(desk->image, "a"), METADATA_PAGE_CACHE);
    assert_int_equal(durability_of(desk->other, "a"), METADATA_PAGE_CACHE);
    assert_int_equal(change(true, METADATA_RESOURCE_TOPIC, "a", "retention.ms", "5"),
                     0); /* it is not named: it stays */
    assert_int_equal(durability_of(desk->other, "a"), METADATA_PAGE_CACHE);
    assert_int_equal(alter("weir.durability", 1, NULL), KAFKA_ERROR_INVALID_CONFIG);
    struct kafka_create_topics_request *request = create_named("b");
    configure(&request->topics[0], "weir.durability", "synced");
    assert_int_equal(create(request)->error_code, 0);
    assert_int_equal(durability_of(desk->image, "b"), METADATA_SYNCED);
}

/* What the topics' logs were made with would be told otherwise, and partitions that are added later would be otherwise. */
static void the_default_of_durability_stays_while_a_node_runs(void **state)
{
    (void)state;
    given_node();
    given_topic("a", 1);
    assert_int_equal(change(false, METADATA_RESOURCE_BROKER, "", "weir.log.durability", "page-cache"),
                     KAFKA_ERROR_INVALID_REQUEST);
    assert_int_equal(metadata_number(desk->image, topic("a"), METADATA_WEIR_DURABILITY), METADATA_SYNCED);
}

static const struct kafka_describe_configs_response *describe_keys(int8_t type, const char *name, const char *key,
                                                                   int32_t keys_count)
{
    static struct kafka_describe_configs_response response;
    struct kafka_describe_configs_request request;
    struct kafka_describe_configs_request_describe_configs_resource resource;
    struct kafka_text key_text = kafka_text_words(key == NULL ? "" : key);
    kafka_describe_configs_request_init(&request);
    kafka_describe_configs_request_describe_configs_resource_init(&resource);
    request.resources = &resource;
    request.resources_count = 1;
    request.include_synonyms = true;
    request.include_documentation = true;
    resource.resource_type = type;
    resource.resource_name = kafka_text_words(name);
    resource.configuration_keys = key == NULL ? NULL : &key_text;
    resource.configuration_keys_count = keys_count;
    assert_int_equal(controller_describe_configs(desk->image, &request, &desk->arena, &response), BASE_OK);
    return &response;
}

static const struct kafka_describe_configs_response *describe(int8_t type, const char *name, const char *key)
{
    return describe_keys(type, name, key, key == NULL ? -1 : 1);
}

static void configs_are_described_with_their_sources(void **state)
{
    (void)state;
    given_defaults();
    static struct metadata_pair pairs[1];
    pairs[0] = (struct metadata_pair){base_slice_text("log.retention.hours"), base_slice_text("2")};
    image_config.broker_values = pairs;
    image_config.broker_values_count = 1;
    given_desk();
    given_broker(1);
    given_topic("a", 1);
    assert_int_equal(alter("segment.ms", 0, "77"), 0);
    assert_int_equal(alter("preallocate", 0, "TRUE"), 0);
    const struct kafka_describe_configs_response *response = describe(2, "a", NULL);
    assert_int_equal(response->results[0].configs_count, METADATA_ID_COUNT);
    response = describe_keys(2, "a", NULL, 0); /* none asked for by name: all, as in Kafka */
    assert_int_equal(response->results[0].configs_count, METADATA_ID_COUNT);
    response = describe(2, "a", "retention.ms");
    assert_int_equal(response->results[0].configs_count, 1);
    const struct kafka_describe_configs_response_describe_configs_resource_result *config =
        response->results[0].configs;
    assert_true(kafka_text_is(config->value, "7200000"));
    assert_int_equal(config->config_source, METADATA_SOURCE_DEFAULT); /* Kafka does not say that it is the hours' */
    assert_int_equal(config->config_type, METADATA_LONG);
    assert_int_equal(config->synonyms_count, 0);
    assert_false(config->read_only);
    assert_false(kafka_text_is_null(config->documentation));
    config = describe(2, "a", "segment.ms")->results[0].configs;
    assert_true(kafka_text_is(config->value, "77"));
    assert_int_equal(config->config_source, METADATA_SOURCE_TOPIC);
    assert_int_equal(describe(2, "zz", NULL)->results[0].error_code, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(describe(2, "..", NULL)->results[0].error_code, KAFKA_ERROR_INVALID_TOPIC_EXCEPTION);
    config = describe(2, "a", "preallocate")->results[0].configs;
    assert_true(kafka_text_is(config->value, "true")); /* read and written again */
    assert_int_equal(config->synonyms_count, 2);
    assert_int_equal(describe(4, "1", NULL)->results[0].configs_count, 0); /* a broker is described by itself */
    assert_int_equal(describe(16, "x", NULL)->results[0].error_code, KAFKA_ERROR_INVALID_REQUEST);
}

/* ---- the rest ----------------------------------------------------------------------------------------------------- */

static void producer_ids_are_given_once_and_a_block_is_lost_with_the_node(void **state)
{
    (void)state;
    given_node();
    struct kafka_init_producer_id_request request;
    kafka_init_producer_id_request_init(&request);
    request.transactional_id = kafka_text_null();
    request.producer_id = 17; /* what it had is of no account */
    request.producer_epoch = 3;
    uint32_t proposals = desk->proposals;
    for (int64_t i = 0; i < 2500; i++) {
        desk->answers_count = 0;
        base_arena_reset(&desk->arena, 0);
        const struct kafka_init_producer_id_response *response = run(CONTROLLER_INIT_PRODUCER_ID, 4, &request);
        assert_int_equal(response->error_code, 0);
        assert_int_equal(response->producer_id, i);
        assert_int_equal(response->producer_epoch, 0);
    }
    assert_int_equal(desk->proposals - proposals, 3);
    assert_int_equal(metadata_next_producer_id(desk->image), 3000);
    request.transactional_id = kafka_text_words("t");
    const struct kafka_init_producer_id_response *response = run(CONTROLLER_INIT_PRODUCER_ID, 4, &request);
    assert_int_equal(response->error_code, KAFKA_ERROR_INVALID_REQUEST);
    assert_int_equal(response->producer_id, -1);
    assert_int_equal(response->producer_epoch, -1);
    request.transactional_id = kafka_text_null();
    request.producer_epoch = -1; /* an id without its epoch */
    response = run(CONTROLLER_INIT_PRODUCER_ID, 4, &request);
    assert_int_equal(response->error_code, KAFKA_ERROR_INVALID_REQUEST);
    request.producer_id = -1;
    struct base_arena arena; /* a new life on the same image */
    base_arena_init(&arena, controller_memory, sizeof controller_memory);
    assert_int_equal(controller_create(&arena, desk->pages, &controller_config, desk->image, &desk->controller),
                     BASE_OK);
    request.transactional_id = kafka_text_null();
    desk->answers_count = 0;
    response = run(CONTROLLER_INIT_PRODUCER_ID, 4, &request);
    assert_int_equal(response->producer_id, 3000);
    assert_int_equal(response->producer_epoch, 0);
}

static void topics_named_by_a_reader_are_created_together(void **state)
{
    (void)state;
    given_node();
    given_topic("old", 1);
    const struct base_slice names[] = {base_slice_text("new"),
                                       base_slice_text("old"),
                                       base_slice_text("new"),
                                       base_slice_text(".."),
                                       base_slice_text("__consumer_offsets"),
                                       base_slice_text("other")};
    struct controller_auto_create request = {names, 6};
    const struct controller_auto_created *response = run(CONTROLLER_AUTO_CREATE, 0, &request);
    const int16_t codes[] = {0,
                             KAFKA_ERROR_TOPIC_ALREADY_EXISTS,
                             KAFKA_ERROR_TOPIC_ALREADY_EXISTS,
                             KAFKA_ERROR_INVALID_TOPIC_EXCEPTION,
                             KAFKA_ERROR_INVALID_TOPIC_EXCEPTION,
                             0};
    for (size_t i = 0; i < 6; i++) { assert_int_equal(response->error_codes[i], codes[i]); }
    assert_non_null(topic("new"));
    assert_non_null(topic("other"));
}

/* Its answer has no words: the room for codes is all that is given. */
static void topics_named_by_a_reader_need_no_room_for_words(void **state)
{
    (void)state;
    given_node();
    const struct base_slice names[] = {base_slice_text("new"), base_slice_text("not a name, and a long one at that")};
    struct controller_auto_create request = {names, 2};
    static _Alignas(16) uint8_t memory[sizeof(struct controller_auto_created) + 32];
    struct base_arena arena;
    base_arena_init(&arena, memory, sizeof memory);
    struct controller_request submitted = {.token = 99,
                                           .kind = CONTROLLER_AUTO_CREATE,
                                           .request = &request,
                                           .arena = &arena};
    assert_int_equal(controller_submit(desk->controller, &submitted), BASE_OK);
    pull();
    if (desk->has_proposal) { commit(); }
    const struct controller_auto_created *response = answer_of(99);
    assert_non_null(response);
    assert_int_equal(response->error_codes[0], 0);
    assert_int_equal(response->error_codes[1], KAFKA_ERROR_INVALID_TOPIC_EXCEPTION);
    assert_non_null(topic("new"));
}

static int16_t error_of_deleting(const char *name)
{
    struct kafka_text names[] = {kafka_text_words(name)};
    struct kafka_delete_topics_request request;
    kafka_delete_topics_request_init(&request);
    request.topic_names = names;
    request.topic_names_count = 1;
    const struct kafka_delete_topics_response *response = run(CONTROLLER_DELETE_TOPICS, 5, &request);
    assert_int_equal(response->responses_count, 1);
    return response->responses[0].error_code;
}

static void deletion_is_switched_off_however_false_is_written(void **state)
{
    (void)state;
    const struct {
        const char *value;
        int16_t error;
    } cases[] = {{"false", KAFKA_ERROR_TOPIC_DELETION_DISABLED},
                 {"FALSE", KAFKA_ERROR_TOPIC_DELETION_DISABLED},
                 {" False ", KAFKA_ERROR_TOPIC_DELETION_DISABLED},
                 {"True", 0}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        struct metadata_pair pair = {base_slice_text("delete.topic.enable"), base_slice_text(cases[i].value)};
        given_defaults();
        image_config.broker_values = &pair;
        image_config.broker_values_count = 1;
        given_desk();
        given_broker(1);
        given_topic("a", 1);
        assert_int_equal(error_of_deleting("a"), cases[i].error);
        assert_int_equal(topic("a") == NULL, cases[i].error == 0);
    }
}

/* Names that are one when '.' is read as '_'. */
static struct kafka_delete_topics_request *delete_request_of_colliding(uint32_t count, uint8_t other)
{
    struct kafka_delete_topics_request *request = kafka_delete_topics_request_take(&desk->arena, 1);
    kafka_delete_topics_request_init(request);
    request->topic_names = base_arena_take_array(&desk->arena, count, sizeof *request->topic_names);
    request->topic_names_count = (int32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *name = base_arena_take_bytes(&desk->arena, METADATA_TOPIC_NAME_MAX);
        memset(name, '_', METADATA_TOPIC_NAME_MAX);
        for (uint32_t bit = 0; bit < 16; bit++) {
            if ((i >> bit & 1) != 0) { name[METADATA_TOPIC_NAME_MAX - 1 - bit] = other; }
        }
        request->topic_names[i] = kafka_text_of(name, METADATA_TOPIC_NAME_MAX);
    }
    return request;
}

static clock_t time_of_deciding(uint8_t other)
{
    given_node();
    const struct kafka_delete_topics_request *request = delete_request_of_colliding(CONTROLLER_RECORDS_MAX, other);
    clock_t begin = clock();
    const struct kafka_delete_topics_response *response = run(CONTROLLER_DELETE_TOPICS, 5, request);
    clock_t end = clock();
    assert_int_equal(response->responses_count, CONTROLLER_RECORDS_MAX);
    return end - begin;
}

static void names_that_collide_cost_no_more_than_others(void **state)
{
    (void)state;
    clock_t others = time_of_deciding('x');
    clock_t colliding = time_of_deciding('.');
    assert_true(colliding < 20 * others + CLOCKS_PER_SEC / 20); /* when each is compared to all: some thousand times */
}

static void registering_writes_the_node_and_the_first_feature_level(void **state)
{
    (void)state;
    given_node();
    assert_int_equal(metadata_feature_level(desk->image, base_slice_text("metadata.version")), 25);
    const struct metadata_broker *broker = metadata_broker(desk->image, 1);
    assert_int_equal(broker->endpoints[0].port, 9092);
    assert_false(broker->is_fenced);
    int64_t epoch = broker->epoch;
    given_broker(1);
    assert_true(metadata_broker(desk->image, 1)->epoch > epoch);
    for (int32_t id = 2; id <= 5; id++) { given_broker(id); }
    struct controller_register request = {.broker = {.id = 6}};
    const struct controller_registered *response = run(CONTROLLER_REGISTER, 0, &request);
    assert_int_equal(response->error_code, KAFKA_ERROR_POLICY_VIOLATION);
}

static void a_raised_leader_epoch_is_all_that_changes_of_a_partition(void **state)
{
    (void)state;
    given_node();
    given_topic("a", 3);
    const struct base_part ids[] = {{.topic = topic("a")->id, .index = 0},
                                    {.topic = {{99}}, .index = 0}, /* which is not there */
                                    {.topic = topic("a")->id, .index = 2}};
    struct metadata_partition before = *metadata_partition(desk->image, topic("a"), 2);
    struct controller_raise request = {.ids = ids, .count = BASE_ARRAY_COUNT(ids)};
    const struct controller_raised *answer = run(CONTROLLER_RAISE_EPOCHS, 0, &request);
    assert_int_equal(answer->error_code, 0);
    assert_int_equal(metadata_partition(desk->image, topic("a"), 0)->leader_epoch, 1);
    assert_int_equal(metadata_partition(desk->image, topic("a"), 1)->leader_epoch, 0);
    const struct metadata_partition *after = metadata_partition(desk->image, topic("a"), 2);
    before.leader_epoch = before.partition_epoch = 1;
    assert_int_equal(after->leader, before.leader);
    assert_int_equal(after->leader_epoch, before.leader_epoch);
    assert_int_equal(after->partition_epoch, before.partition_epoch);
    assert_int_equal(after->replicas_count, before.replicas_count);
    assert_int_equal(after->isr_count, before.isr_count);
    assert_memory_equal(after->directories, before.directories, sizeof before.directories);
    request.count = 0;
    answer = run(CONTROLLER_RAISE_EPOCHS, 0, &request); /* nothing to be written */
    assert_int_equal(answer->error_code, 0);
    assert_true(controller_is_quiet(desk->controller));
}

static void a_raise_that_is_not_written_says_so(void **state)
{
    (void)state;
    given_node();
    given_topic("a", 1);
    const struct base_part id = {.topic = topic("a")->id, .index = 0};
    struct controller_raise request = {.ids = &id, .count = 1};
    uint64_t token = submit(CONTROLLER_RAISE_EPOCHS, 0, &request);
    pull();
    controller_failed(desk->controller, CONTROLLER_UNDONE);
    desk->has_proposal = false;
    pull();
    const struct controller_raised *answer = answer_of(token);
    assert_int_equal(answer->error_code, KAFKA_ERROR_KAFKA_STORAGE_ERROR);
    assert_int_equal(metadata_partition(desk->image, topic("a"), 0)->leader_epoch, 0);
}

static void replicas_are_spread_over_the_brokers(void **state)
{
    (void)state;
    given_node();
    given_broker(2);
    given_broker(3);
    struct kafka_create_topics_request *request = create_named("a");
    request->topics[0].num_partitions = 30;
    request->topics[0].replication_factor = 2;
    assert_int_equal(create(request)->error_code, 0);
    uint32_t leads[4] = {0};
    for (int32_t i = 0; i < 30; i++) {
        const struct metadata_partition *partition = metadata_partition(desk->image, topic("a"), i);
        assert_int_equal(partition->replicas_count, 2);
        assert_int_not_equal(partition->replicas[0], partition->replicas[1]);
        leads[partition->leader] += 1;
    }
    for (size_t i = 1; i <= 3; i++) { assert_int_equal(leads[i], 10); }
}

static enum base_rc apply(uint8_t type, int16_t version, enum kafka_message kind, const void *message)
{
    static _Alignas(16) uint8_t scratch_memory[1 << 16];
    uint8_t bytes[512] = {1, type, (uint8_t)version};
    struct base_arena scratch;
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes + 3, sizeof bytes - 3);
    assert_int_equal(kafka_encode(kind, message, version, &writer), BASE_OK);
    base_arena_init(&scratch, scratch_memory, sizeof scratch_memory);
    enum base_rc rc = controller_apply(desk->image, base_slice_of(bytes, 3 + writer.used_bytes), &scratch);
    if (rc == BASE_OK) { log_add(base_slice_of(bytes, 3 + writer.used_bytes)); }
    return rc;
}

static void a_topic_made_beside_a_fenced_broker_has_a_leader_for_every_partition(void **state)
{
    (void)state;
    given_node();
    given_broker(2);
    struct kafka_fence_broker_record fence = {.id = 2, .epoch = metadata_broker(desk->image, 2)->epoch};
    assert_int_equal(apply(7, 0, KAFKA_MESSAGE_FENCE_BROKER_RECORD, &fence), BASE_OK);
    given_topic("a", 4);
    for (int32_t i = 0; i < 4; i++) { assert_int_equal(metadata_partition(desk->image, topic("a"), i)->leader, 1); }
}

static void a_topic_without_replicas_does_not_grow_where_no_broker_is_known(void **state)
{
    (void)state;
    given_desk();
    struct kafka_topic_record made;
    kafka_topic_record_init(&made);
    made.name = kafka_text_words("a");
    made.topic_id.b[0] = 7;
    assert_int_equal(apply(2, 0, KAFKA_MESSAGE_TOPIC_RECORD, &made), BASE_OK);
    struct kafka_partition_record partition;
    kafka_partition_record_init(&partition);
    partition.topic_id = made.topic_id;
    partition.partition_id = 0;
    partition.leader = -1;
    assert_int_equal(apply(3, 1, KAFKA_MESSAGE_PARTITION_RECORD, &partition), BASE_OK);
    assert_int_equal(grow("a", 2), KAFKA_ERROR_INVALID_REPLICATION_FACTOR);
    assert_int_equal(topic("a")->partitions_count, 1);
}

static void changes_of_partitions_and_nodes_are_applied_as_kafka_does(void **state)
{
    (void)state;
    given_node();
    given_topic("a", 1);
    const struct metadata_partition *partition = metadata_partition(desk->image, topic("a"), 0);
    struct kafka_partition_change_record change;
    kafka_partition_change_record_init(&change);
    change.partition_id = 0;
    change.topic_id = topic("a")->id;
    change.leader = -1;
    assert_int_equal(apply(5, 1, KAFKA_MESSAGE_PARTITION_CHANGE_RECORD, &change), BASE_OK);
    assert_int_equal(partition->leader, -1);
    assert_int_equal(partition->leader_epoch, 1);
    assert_int_equal(partition->partition_epoch, 1);
    int32_t isr[] = {1, 2};
    change.leader = -2; /* as it was */
    change.isr = isr;
    change.isr_count = 2;
    assert_int_equal(apply(5, 1, KAFKA_MESSAGE_PARTITION_CHANGE_RECORD, &change), BASE_OK);
    assert_int_equal(partition->leader_epoch, 1);
    assert_int_equal(partition->partition_epoch, 2);
    assert_int_equal(partition->isr_count, 2);
    change.partition_id = 7;
    assert_int_equal(apply(5, 1, KAFKA_MESSAGE_PARTITION_CHANGE_RECORD, &change), BASE_BAD);
    struct kafka_fence_broker_record fence = {.id = 1, .epoch = metadata_broker(desk->image, 1)->epoch};
    assert_int_equal(apply(7, 0, KAFKA_MESSAGE_FENCE_BROKER_RECORD, &fence), BASE_OK);
    assert_true(metadata_broker(desk->image, 1)->is_fenced);
    expect_refused(create_named("b"), KAFKA_ERROR_INVALID_REPLICATION_FACTOR,
                   "Unable to replicate the partition 1 time(s): All brokers are currently fenced or in controlled "
                   "shutdown.");
    struct kafka_unfence_broker_record unfence = {.id = 1, .epoch = fence.epoch};
    assert_int_equal(apply(8, 0, KAFKA_MESSAGE_UNFENCE_BROKER_RECORD, &unfence), BASE_OK);
    assert_false(metadata_broker(desk->image, 1)->is_fenced);
    unfence.epoch += 1;
    assert_int_equal(apply(8, 0, KAFKA_MESSAGE_UNFENCE_BROKER_RECORD, &unfence), BASE_BAD);
}

static void an_overlong_varint_is_no_record(void **state)
{
    (void)state;
    given_node();
    uint8_t memory[64];
    struct base_arena scratch;
    base_arena_init(&scratch, memory, sizeof memory);
    const uint8_t overlong[] = {0x81, 0x80, 0x80, 0x80, 0x10, 20, 0, 0}; /* 2^32 + 1 is not frame version 1 */
    const uint8_t no_op[] = {1, 20, 0, 0};
    assert_int_equal(controller_apply(desk->image, base_slice_of(overlong, sizeof overlong), &scratch), BASE_BAD);
    assert_int_equal(controller_apply(desk->image, base_slice_of(no_op, sizeof no_op), &scratch), BASE_OK);
}

/* Each byte of a real log changed or cut: applied or refused, never a crash. */
static void damaged_records_are_refused_or_applied_but_never_more(void **state)
{
    (void)state;
    given_node();
    given_topic("a", 2);
    assert_int_equal(alter("retention.ms", 0, "5"), 0);
    static _Alignas(16) uint8_t scratch_memory[1 << 17];
    struct base_arena scratch;
    base_arena_init(&scratch, scratch_memory, sizeof scratch_memory);
    for (size_t at = 0; at < desk->log_bytes;) {
        uint32_t bytes = base_get_u32(desk->log + at);
        uint8_t value[CONTROLLER_RECORD_BYTES_MAX];
        for (size_t i = 0; i < bytes; i++) {
            assert_int_equal(controller_apply(desk->other, base_slice_of(desk->log + at + 4, i), &scratch), BASE_BAD);
            for (unsigned bit = 0; bit < 8; bit++) {
                memcpy(value, desk->log + at + 4, bytes);
                value[i] ^= (uint8_t)(1u << bit);
                enum base_rc rc = controller_apply(desk->other, base_slice_of(value, bytes), &scratch);
                assert_in_range(rc, BASE_OK, BASE_BAD); /* whether it still is a record is luck */
                assert_true(metadata_is_sound(desk->other));
            }
        }
        at += 4 + bytes;
    }
}

static void a_snapshot_keeps_the_configs_of_a_broker_that_is_not_registered(void **state)
{
    (void)state;
    given_node();
    struct base_slice name = base_slice_text("log.retention.ms");
    assert_int_equal(metadata_put_config(desk->image, METADATA_RESOURCE_BROKER, base_slice_text("7"), name,
                                         base_slice_text("5")),
                     BASE_OK);
    expect_the_snapshot_says_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_made_beside_a_fenced_broker_has_a_leader_for_every_partition),
        cmocka_unit_test(a_snapshot_keeps_the_configs_of_a_broker_that_is_not_registered),
        cmocka_unit_test(a_topic_shows_only_once_its_records_are_committed),
        cmocka_unit_test(a_failed_proposal_changes_nothing_and_says_so_from_then_on),
        cmocka_unit_test(a_proposal_that_was_undone_changes_nothing_and_the_next_is_decided),
        cmocka_unit_test(on_a_full_disk_nothing_is_made_and_the_rest_is_decided),
        cmocka_unit_test(waiting_requests_are_one_proposal_but_for_those_that_touch_the_same_name),
        cmocka_unit_test(a_dry_run_keeps_nobody_waiting),
        cmocka_unit_test(a_topic_without_replicas_does_not_grow_where_no_broker_is_known),
        cmocka_unit_test(changes_of_partitions_and_nodes_are_applied_as_kafka_does),
        cmocka_unit_test(an_overlong_varint_is_no_record),
        cmocka_unit_test(a_request_past_requests_max_is_refused_at_the_door),
        cmocka_unit_test(without_pages_a_round_waits),
        cmocka_unit_test(what_does_not_fit_the_block_that_there_is_waits_for_a_larger_one),
        cmocka_unit_test(producer_ids_do_not_wait_for_a_larger_block),
        cmocka_unit_test(a_round_keeps_no_more_than_its_records),
        cmocka_unit_test(an_answer_that_finds_no_memory_does_nothing),
        cmocka_unit_test(rounds_that_do_not_fit_are_split),
        cmocka_unit_test(a_request_that_fits_no_proposal_is_refused_as_a_whole),
        cmocka_unit_test(names_are_judged_as_kafka_does),
        cmocka_unit_test(counts_are_judged_as_kafka_does),
        cmocka_unit_test(configs_are_judged_and_kept),
        cmocka_unit_test(manual_assignments_are_judged_as_kafka_does),
        cmocka_unit_test(of_duplicates_in_a_request_none_is_created_and_one_result_says_so),
        cmocka_unit_test(validating_only_says_the_same_and_creates_nothing),
        cmocka_unit_test(limits_of_the_image_are_seen_when_deciding),
        cmocka_unit_test(a_topic_made_again_has_another_id),
        cmocka_unit_test(topics_are_deleted_by_name_or_id_and_never_by_both),
        cmocka_unit_test(what_is_to_be_deleted_twice_is_answered_once_and_stays),
        cmocka_unit_test(partitions_are_only_added),
        cmocka_unit_test(configs_are_set_taken_away_appended_and_subtracted),
        cmocka_unit_test(what_a_replacement_does_not_name_is_taken_away),
        cmocka_unit_test(brokers_change_one_by_one_or_all_together),
        cmocka_unit_test(a_broker_is_one_however_its_number_is_written),
        cmocka_unit_test(configs_are_described_with_their_sources),
        cmocka_unit_test(producer_ids_are_given_once_and_a_block_is_lost_with_the_node),
        cmocka_unit_test(topics_named_by_a_reader_are_created_together),
        cmocka_unit_test(registering_writes_the_node_and_the_first_feature_level),
        cmocka_unit_test(a_raised_leader_epoch_is_all_that_changes_of_a_partition),
        cmocka_unit_test(a_raise_that_is_not_written_says_so),
        cmocka_unit_test(replicas_are_spread_over_the_brokers),
        cmocka_unit_test(an_answer_keeps_the_configs_that_it_was_decided_with),
        cmocka_unit_test(at_the_limit_of_configs_those_that_are_there_can_be_changed),
        cmocka_unit_test(topics_named_by_a_reader_need_no_room_for_words),
        cmocka_unit_test(names_that_collide_cost_no_more_than_others),
        cmocka_unit_test(deletion_is_switched_off_however_false_is_written),
        cmocka_unit_test(the_default_of_durability_stays_while_a_node_runs),
        cmocka_unit_test(a_topic_keeps_the_durability_it_was_made_with_whatever_the_default_becomes),
        cmocka_unit_test(damaged_records_are_refused_or_applied_but_never_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
