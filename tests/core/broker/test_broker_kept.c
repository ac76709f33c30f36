/* test_broker_kept.c: who asks for what was asked before is sent the same bytes, as long as they are true and there is room for them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard.h"
#include "wire/kafka/metadata.h"

#define VERSION     9
#define FRAME_BYTES 512
#define ARENA_BYTES ((size_t)64 << 10)
#define NAMES_MAX   4

/* A question, as a frame. `names`: separated by blanks; NULL: all topics. */
struct question {
    uint8_t bytes[FRAME_BYTES];
    size_t size_bytes;
    int16_t version;
};

static struct question question_of(const char *names, int16_t version, int32_t correlation, bool may_make)
{
    char words[FRAME_BYTES] = "";
    struct kafka_metadata_request_metadata_request_topic topics[NAMES_MAX];
    struct kafka_metadata_request request;
    kafka_metadata_request_init(&request);
    request.allow_auto_topic_creation = may_make;
    request.topics_count = names == NULL ? -1 : 0;
    request.topics = topics;
    (void)snprintf(words, sizeof words, "%s", names == NULL ? "" : names);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(request.topics_count < NAMES_MAX);
        kafka_metadata_request_metadata_request_topic_init(&topics[request.topics_count]);
        topics[request.topics_count].name = kafka_text_words(word);
        request.topics_count += 1;
    }
    struct question question = {.version = version};
    question.size_bytes = shard_put_request(question.bytes, sizeof question.bytes, KAFKA_MESSAGE_METADATA_REQUEST,
                                            version, correlation, &request);
    return question;
}

static struct question for_all(int32_t correlation) { return question_of(NULL, VERSION, correlation, false); }

/* One answer, as it was sent: whose it is, and what it says. */
struct told {
    int32_t correlation;
    int32_t topics_count;
    int16_t first_error;
    char host[METADATA_HOST_MAX + 1];
};

static struct told read_answer(const uint8_t *bytes, size_t size_bytes, int16_t version)
{
    static _Alignas(16) uint8_t memory[ARENA_BYTES];
    struct base_arena arena;
    base_arena_init(&arena, memory, sizeof memory);
    assert_true(size_bytes > 4);
    assert_int_equal(base_get_u32(bytes), size_bytes - 4);
    struct told told = {0};
    struct base_slice body;
    assert_int_equal(kafka_response_open(base_slice_of(bytes + 4, size_bytes - 4), KAFKA_API_METADATA, version,
                                         &told.correlation, &body),
                     BASE_OK);
    struct kafka_metadata_response answer;
    assert_int_equal(kafka_decode(KAFKA_MESSAGE_METADATA_RESPONSE, body, version, &arena, &answer), BASE_OK);
    told.topics_count = answer.topics_count;
    told.first_error = answer.topics_count > 0 ? answer.topics[0].error_code : 0;
    if (answer.brokers_count > 0) {
        memcpy(told.host, answer.brokers[0].host.at, (size_t)answer.brokers[0].host.size_bytes);
    }
    return told;
}

static struct told ask(struct shard *shard, uint32_t slot, struct question question)
{
    shard->sent_bytes = 0;
    shard_receive(shard, slot, question.bytes, question.size_bytes, NULL);
    return read_answer(shard->sent, shard->sent_bytes, question.version);
}

/* The same, but the answer does not leave: it is under way when this returns. */
static struct port_effect ask_and_hold(struct shard *shard, uint32_t slot, struct question question)
{
    if (shard->receives[slot].size_bytes == 0) {
        shard_complete_receive(shard, slot, PORT_OK, NULL, 0);
        shard_run(shard);
    }
    shard_complete_receive(shard, slot, PORT_OK, question.bytes, question.size_bytes);
    while (shard->asked_count == 0 || shard->asked[0].kind != PORT_SEND) { assert_true(shard_run_one(shard)); }
    struct port_effect answer = shard->asked[0];
    shard->asked_count -= 1;
    memmove(&shard->asked[0], &shard->asked[1], shard->asked_count * sizeof answer);
    return answer;
}

static struct told let_it_leave(struct shard *shard, struct port_effect answer, int16_t version)
{
    assert_true(shard->asked_count < SHARD_ASKED);
    shard->asked[shard->asked_count++] = answer;
    shard_run(shard);
    return read_answer(shard->sent, shard->sent_bytes, version);
}

static struct shard *given_a_shard_with_a_topic(void)
{
    struct shard *shard = shard_make(0);
    shard_start(shard);
    (void)shard_topic(shard, "first", false);
    return shard;
}

static void who_asks_the_same_is_sent_the_same_bytes_by_its_own_number(void **state)
{
    (void)state;
    struct shard *shard = given_a_shard_with_a_topic();
    uint32_t one = shard_connect(shard);
    uint32_t other = shard_connect(shard);
    struct port_effect first = ask_and_hold(shard, one, for_all(7));
    struct port_effect again = ask_and_hold(shard, other, for_all(-8));
    assert_int_equal(first.piece_count, 2);
    assert_int_equal(again.piece_count, 2);
    assert_ptr_equal(first.pieces[1].at, again.pieces[1].at);
    struct told told = let_it_leave(shard, again, VERSION);
    assert_int_equal(told.correlation, -8);
    assert_int_equal(told.topics_count, 1);
    told = let_it_leave(shard, first, VERSION);
    assert_int_equal(told.correlation, 7);
    assert_int_equal(told.topics_count, 1);
    assert_int_equal(shard->broker->kept.count, 1);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

static void a_change_of_the_image_is_told_at_once(void **state)
{
    (void)state;
    struct shard *shard = given_a_shard_with_a_topic();
    uint32_t slot = shard_connect(shard);
    assert_int_equal(ask(shard, slot, for_all(1)).topics_count, 1);
    struct base_part second = shard_topic(shard, "second", true);
    assert_int_equal(ask(shard, slot, for_all(2)).topics_count, 2);
    assert_int_equal(metadata_remove_topic(shard->broker->image, second.topic), BASE_OK);
    assert_int_equal(ask(shard, slot, for_all(3)).topics_count, 1);
    assert_int_equal(shard->broker->kept.count, 1);
    shard_free(shard);
}

static void an_answer_on_its_way_stays_as_it_is_when_the_image_changes(void **state)
{
    (void)state;
    struct shard *shard = given_a_shard_with_a_topic();
    uint32_t one = shard_connect(shard);
    uint32_t other = shard_connect(shard);
    size_t used_bytes = base_pages_used_bytes(shard->broker->pages);
    struct port_effect old = ask_and_hold(shard, one, for_all(1));
    (void)shard_topic(shard, "second", true);
    assert_int_equal(ask(shard, other, for_all(2)).topics_count, 2);
    assert_int_equal(let_it_leave(shard, old, VERSION).topics_count, 1);
    assert_int_equal(base_pages_used_bytes(shard->broker->pages), used_bytes + BASE_PAGE_BYTES); /* of the new one */
    shard_free(shard);
}

static void who_asks_otherwise_is_told_otherwise(void **state)
{
    (void)state;
    struct shard *shard = given_a_shard_with_a_topic();
    (void)shard_topic(shard, "second", true);
    uint32_t slot = shard_connect(shard);
    for (int32_t round = 0; round < 2; round++) { /* built, and kept */
        assert_int_equal(ask(shard, slot, for_all(1)).topics_count, 2);
        assert_int_equal(ask(shard, slot, question_of(NULL, 7, 2, false)).topics_count, 2);
        assert_int_equal(ask(shard, slot, question_of(NULL, 5, 2, false)).topics_count,
                         2); /* the same, but for its version */
        assert_int_equal(ask(shard, slot, question_of("first", VERSION, 3, false)).topics_count, 1);
        assert_int_equal(ask(shard, slot, question_of("third", VERSION, 4, false)).first_error,
                         KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(ask(shard, slot, question_of("first second", VERSION, 5, false)).topics_count, 2);
        assert_int_equal(shard->broker->kept.count, 6);
    }
    shard_free(shard);
}

/* The second one, where it listens beside the first. */
static void each_listener_tells_its_own_endpoints(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    struct broker_config *config = &shard->broker->config;
    config->listeners[1] = config->listeners[0];
    memcpy(config->listeners[1].name, "INSIDE", sizeof "INSIDE");
    memcpy(config->listeners[1].host, "inside", sizeof "inside");
    config->listener_count = 2;
    shard_start(shard);
    assert_int_equal(shard->accept_count, 2);
    bool is_inside_last = shard->accepts[1].listener.slot > shard->accepts[0].listener.slot;
    uint32_t last = shard_connect(shard);
    struct port_effect next = shard->accepts[shard->accept_count - 1]; /* of the listener that has just accepted */
    shard->accepts[shard->accept_count - 1] = shard->accepts[0];
    shard->accepts[0] = next;
    uint32_t first = shard_connect(shard);
    for (int32_t round = 0; round < 2; round++) {
        assert_string_equal(ask(shard, last, for_all(1)).host, is_inside_last ? "inside" : "localhost");
        assert_string_equal(ask(shard, first, for_all(2)).host, is_inside_last ? "localhost" : "inside");
    }
    shard_free(shard);
}

/* Here none can be made: the node's default.replication.factor is 2. */
static void where_a_topic_would_be_made_its_lack_is_not_kept(void **state)
{
    (void)state;
    struct shard *shard = given_a_shard_with_a_topic();
    uint32_t slot = shard_connect(shard);
    for (int32_t i = 0; i < 2; i++) {
        struct told told = ask(shard, slot, question_of("second", VERSION, i, true));
        assert_int_equal(told.first_error, KAFKA_ERROR_INVALID_REPLICATION_FACTOR);
        assert_int_equal(shard->broker->kept.count, 0);
    }
    (void)shard_topic(shard, "second", true);
    assert_int_equal(ask(shard, slot, question_of("second", VERSION, 3, true)).first_error, KAFKA_ERROR_NONE);
    assert_int_equal(shard->broker->kept.count, 1);
    shard_free(shard);
}

static void take_all_of_the_memory(struct shard *shard)
{
    while (base_pages_take(shard->broker->pages, BASE_REPLICATION, BASE_PAGE_BYTES) != NULL) {}
    shard->broker->kept.missed = base_pages_missed(shard->broker->pages); /* nobody waits for that one */
}

/* A byte of a next question comes with it, or what it was received into would be given back: that would be memory. */
static struct told ask_without_memory(struct shard *shard, uint32_t slot, struct question question)
{
    shard->sent_bytes = 0;
    question.bytes[question.size_bytes] = 0;
    shard_receive(shard, slot, question.bytes, question.size_bytes + 1, take_all_of_the_memory);
    return read_answer(shard->sent, shard->sent_bytes, question.version);
}

static void of_too_many_answers_the_one_asked_for_longest_ago_goes_first(void **state)
{
    (void)state;
    struct shard *shard = given_a_shard_with_a_topic();
    uint32_t slot = shard_connect(shard);
    size_t used_bytes = base_pages_used_bytes(shard->broker->pages);
    char name[16];
    (void)ask(shard, slot, for_all(1));
    for (int i = 0; i < KEPT_MAX + 2; i++) {
        if (i < KEPT_MAX) { (void)ask(shard, slot, for_all(2)); }
        (void)snprintf(name, sizeof name, "none-%d", i);
        (void)ask(shard, slot, question_of(name, VERSION, 3, false));
    }
    assert_int_equal(shard->broker->kept.count, KEPT_MAX);
    assert_int_equal(base_pages_used_bytes(shard->broker->pages), used_bytes + KEPT_MAX * BASE_PAGE_BYTES);
    assert_int_equal(ask_without_memory(shard, slot, for_all(4)).correlation, 4);
    assert_int_equal(shard->broker->kept.count, KEPT_MAX); /* so it was one of them */
    shard_free(shard);
}

static void what_is_kept_needs_no_memory_to_be_sent(void **state)
{
    (void)state;
    struct shard *shard = given_a_shard_with_a_topic();
    uint32_t slot = shard_connect(shard);
    assert_int_equal(ask(shard, slot, for_all(1)).topics_count, 1);
    assert_int_equal(ask_without_memory(shard, slot, for_all(2)).correlation, 2);
    assert_int_equal(shard->broker->kept.count, 1);
    shard_free(shard);
}

/* At once: no time passes here. */
static void what_is_kept_goes_to_who_finds_no_memory(void **state)
{
    (void)state;
    struct shard *shard = given_a_shard_with_a_topic();
    uint32_t slot = shard_connect(shard);
    assert_int_equal(ask(shard, slot, for_all(1)).topics_count, 1);
    assert_int_equal(ask_without_memory(shard, slot, question_of("first", VERSION, 3, false)).correlation, 3);
    assert_int_equal(shard->broker->requests.taken_count, 0);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_the_same_is_sent_the_same_bytes_by_its_own_number),
        cmocka_unit_test(a_change_of_the_image_is_told_at_once),
        cmocka_unit_test(an_answer_on_its_way_stays_as_it_is_when_the_image_changes),
        cmocka_unit_test(who_asks_otherwise_is_told_otherwise),
        cmocka_unit_test(each_listener_tells_its_own_endpoints),
        cmocka_unit_test(where_a_topic_would_be_made_its_lack_is_not_kept),
        cmocka_unit_test(of_too_many_answers_the_one_asked_for_longest_ago_goes_first),
        cmocka_unit_test(what_is_kept_needs_no_memory_to_be_sent),
        cmocka_unit_test(what_is_kept_goes_to_who_finds_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
