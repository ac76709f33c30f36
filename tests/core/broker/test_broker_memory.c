/* test_broker_memory.c: a request waits for memory only where there is too little for it, and holds no more of it the longer it waits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/init_producer_id.h"
#include "wire/kafka/metadata.h"

#define ROUND_BYTES ((size_t)2 << 20)
#define VERSION     4 /* the first one that may ask for topics without making them */
#define NAMES_MAX   2300
#define NAME_BYTES  4
#define BYTES_MAX   16000
#define BLOCK_BYTES ((size_t)64 << 10)
#define BLOCKS_MAX  1024
#define MS          UINT64_C(1000000)

static size_t room_bytes; /* that is left */
static void *blocks[BLOCKS_MAX];
static uint32_t blocks_count;

static void take_most_of_the_memory(struct shard *shard)
{
    struct base_pages *pages = shard->broker->pages;
    for (blocks_count = 0; base_pages_room_bytes(pages, BASE_REPLICATION) > room_bytes; blocks_count++) {
        assert_true(blocks_count < BLOCKS_MAX);
        blocks[blocks_count] = base_pages_take(pages, BASE_REPLICATION, BLOCK_BYTES);
        assert_non_null(blocks[blocks_count]);
    }
}

static void give_it_back(struct shard *shard)
{
    for (uint32_t i = 0; i < blocks_count; i++) { base_pages_give(shard->broker->pages, blocks[i]); }
}

/* Of topics that are not there, when so much memory is left. */
static void ask_for_topics(struct shard *shard, uint32_t slot, uint32_t count, size_t left_bytes)
{
    static char names[NAMES_MAX][NAME_BYTES];
    static struct kafka_metadata_request_metadata_request_topic topics[NAMES_MAX];
    assert_true(count <= NAMES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "%03x", (unsigned)i);
        kafka_metadata_request_metadata_request_topic_init(&topics[i]);
        topics[i].name = kafka_text_words(names[i]);
    }
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.topics = topics;
    request.topics_count = (int32_t)count;
    request.allow_auto_topic_creation = false;
    static uint8_t bytes[BYTES_MAX];
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(kafka_request_encode(KAFKA_MESSAGE_METADATA_REQUEST, &request, VERSION, 1,
                                          kafka_text_words("client"), &writer),
                     BASE_OK);
    room_bytes = left_bytes;
    shard_receive(shard, slot, bytes, writer.used_bytes, take_most_of_the_memory);
}

/* Many that wait would else take from each other what each of them waits for. */
static void topics_that_find_no_memory_for_their_answer_take_no_more_with_each_try(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    uint32_t slot = shard_connect(shard);
    ask_for_topics(shard, slot, 1500, (size_t)192 << 10); /* what is asked, the names in order, not the answer too */
    size_t used_bytes = base_pages_used_bytes(shard->broker->pages);
    assert_int_equal(shard->broker->starved.count, 1);
    for (uint32_t i = 0; i < 5; i++) {
        shard_wait(shard, shard->now_ns + 11 * MS);
        assert_int_equal(shard->broker->starved.count, 1);
        assert_int_equal(base_pages_used_bytes(shard->broker->pages), used_bytes);
    }
    give_it_back(shard);
    shard_wait(shard, shard->now_ns + 11 * MS);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

/* As who shuts its side down behind its last request, and reads on. */
static void who_sends_no_more_has_its_answer_once_there_is_memory(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    uint32_t slot = shard_connect(shard);
    ask_for_topics(shard, slot, 1500, (size_t)192 << 10);
    assert_int_equal(shard->broker->starved.count, 1);
    shard_complete_receive(shard, slot, PORT_EOF, NULL, 0);
    shard_run(shard);
    shard_wait(shard, shard->now_ns + 11 * MS);
    assert_int_equal(shard->broker->starved.count, 1);
    give_it_back(shard);
    shard_wait(shard, shard->now_ns + 11 * MS);
    struct conn_view view;
    conn_view(shard->broker->conns, &view);
    assert_true(view.bytes_out_total > (uint64_t)1500 * (NAME_BYTES - 1)); /* it was told of each */
    assert_int_equal(view.connections, 0);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

/* A request that a page does not hold is decoded into more; it must not wait for more than the most that it can take. */
static void a_request_that_there_is_memory_enough_for_is_answered_at_once(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    uint32_t slot = shard_connect(shard);
    ask_for_topics(shard, slot, NAMES_MAX, (size_t)704 << 10);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

/* A producer of the other shard asks for an id, and gets one at once. */
static void begin_to_produce(struct shard *shard)
{
    static _Alignas(16) uint8_t memory[1024];
    struct base_arena arena;
    base_arena_init(&arena, memory, sizeof memory);
    struct kafka_init_producer_id_request request;
    kafka_init_producer_id_request_init(&request);
    request.transactional_id = kafka_text_null();
    struct control_loan loan = {.request = {.kind = CONTROLLER_INIT_PRODUCER_ID, .request = &request},
                                .shard = 1,
                                .arena = &arena};
    struct port_message message = {.kind = MSG_CONTROL, .lent = &loan, .lent_bytes = sizeof loan};
    shard_tell(shard, &message);
    assert_int_equal(shard_told(shard, MSG_CONTROLLED), 1);
    const struct kafka_init_producer_id_response *answer = loan.answer;
    assert_non_null(answer);
    assert_int_equal(answer->error_code, KAFKA_ERROR_NONE);
}

/* What clients leave is kept for control, and need not lie in one piece: those who begin to produce wait for nobody. */
static void the_controller_decides_while_clients_have_all_their_memory(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    while (base_pages_take(shard->broker->pages, BASE_REPLICATION, BASE_PAGE_BYTES) != NULL) {}
    begin_to_produce(shard);
    shard_free(shard);
}

/* A round's batch finds memory beside the round, though that had all there was. */
static void the_controller_decides_where_one_piece_is_left_that_it_takes_whole(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard_start(shard);
    void *piece = base_pages_take(shard->broker->pages, BASE_CONTROL, ROUND_BYTES);
    assert_non_null(piece);
    while (base_pages_take(shard->broker->pages, BASE_CONTROL, BASE_PAGE_BYTES) != NULL) {}
    base_pages_give(shard->broker->pages, piece);
    begin_to_produce(shard);
    shard_free(shard);
}

static bool has_room_in(size_t region_bytes, uint32_t connections, uint32_t files)
{
    struct broker_config config;
    broker_config_default(&config);
    memcpy(config.cluster_id, "a-cluster-of-one-shard", sizeof config.cluster_id);
    memcpy(config.listeners[0].name, "PLAINTEXT", sizeof "PLAINTEXT");
    memcpy(config.listeners[0].host, "localhost", sizeof "localhost");
    config.listener_count = 1;
    config.seed = 1;
    config.connections_max = connections;
    config.files_max = files;
    config.topics_max = 25;
    config.partitions_max = 60;
    void *memory = mmap(NULL, region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    struct base_region region = {.at = memory, .size_bytes = region_bytes};
    struct broker *broker;
    bool has_room = broker_create(region, &config, &broker) == BASE_OK;
    assert_int_equal(munmap(memory, region_bytes), 0);
    return has_room;
}

/* Tables grow with the memory that there is, and must not take more of it than came with them. */
static void what_starts_in_little_memory_starts_in_more(void **state)
{
    (void)state;
    static const struct {
        uint32_t connections, files;
        size_t least_mib; /* as docs/OPERATING.md has it */
    } cases[] = {{1000, 1000, 25}, {6000, 4000, 32}, {16384, 8192, 42}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
        size_t mib = 1;
        while (!has_room_in(mib << 20, cases[i].connections, cases[i].files)) { mib += 1; }
        assert_true(mib <= cases[i].least_mib);
        for (; mib <= 160; mib++) { assert_true(has_room_in(mib << 20, cases[i].connections, cases[i].files)); }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topics_that_find_no_memory_for_their_answer_take_no_more_with_each_try),
        cmocka_unit_test(who_sends_no_more_has_its_answer_once_there_is_memory),
        cmocka_unit_test(a_request_that_there_is_memory_enough_for_is_answered_at_once),
        cmocka_unit_test(what_starts_in_little_memory_starts_in_more),
        cmocka_unit_test(the_controller_decides_while_clients_have_all_their_memory),
        cmocka_unit_test(the_controller_decides_where_one_piece_is_left_that_it_takes_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
