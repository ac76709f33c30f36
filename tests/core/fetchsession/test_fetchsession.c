/* test_fetchsession.c: what a session follows and leaves out, how it goes on and ends, and who makes room for whom.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fetchsession/fetchsession.h"

#define EVICTION_MS 1000
#define NAMES       false
#define IDS         true
#define ME          UINT64_C(7)
#define ANOTHER     UINT64_C(8)
#define UNKNOWN     3 /* Kafka's UNKNOWN_TOPIC_OR_PARTITION */

static _Alignas(4096) uint8_t arena_memory[1 << 20];
static _Alignas(4096) uint8_t pages_memory[8 << 20];
static _Alignas(16) uint8_t image_memory[8 << 20];

static struct fetchsessions *sessions;
static struct base_pages *pages;
static struct metadata *image;
static uint64_t now_ms;

static void given_config(struct fetchsession_config config)
{
    memset(arena_memory, 0, sizeof arena_memory);
    memset(pages_memory, 0, sizeof pages_memory);
    struct base_arena arena;
    base_arena_init_zeroed(&arena, arena_memory, sizeof arena_memory);
    const size_t reserve_bytes[BASE_CLASS_COUNT] = {0, 0, 0};
    struct base_region region = {.at = pages_memory, .size_bytes = sizeof pages_memory};
    assert_int_equal(base_pages_create(region, reserve_bytes, &pages), BASE_OK);
    assert_int_equal(fetchsession_create(&arena, pages, &config, &sessions), BASE_OK);
    struct metadata_config usual = {.node_id = 1,
                                    .topics_max = 16,
                                    .partitions_max = 64,
                                    .brokers_max = 4,
                                    .configs_max = 32,
                                    .cluster_id = base_slice_text("AAAAAAAAAAAAAAAAAAAAAA")};
    base_arena_init(&arena, image_memory, sizeof image_memory);
    assert_true(metadata_arena_bytes(&usual) <= sizeof image_memory);
    assert_int_equal(metadata_create(&arena, &usual, &image), BASE_OK);
    now_ms = 5000;
}

static struct fetchsession_config usual(uint32_t slots_max)
{
    return (struct fetchsession_config){.shard = 1,
                                        .shards = 3,
                                        .slots_max = slots_max,
                                        .spare_max = 8,
                                        .eviction_ms = EVICTION_MS,
                                        .bytes_max = 4 << 20,
                                        .seed = 4};
}

static void given_slots(uint32_t slots_max) { given_config(usual(slots_max)); }

static struct base_uuid id_of(uint32_t number)
{
    struct base_uuid uuid = {{0}};
    base_put_u32(uuid.b, 0x77000000);
    base_put_u32(uuid.b + 12, number);
    return uuid;
}

static struct fetchsession_item named(const char *name, int32_t partition, int64_t offset)
{
    return (struct fetchsession_item){
        .name = base_slice_text(name), .partition = partition, .bytes_max = 100, .leader_epoch = -1, .offset = offset};
}

static struct fetchsession_item by_id(uint32_t number, int32_t partition)
{
    return (struct fetchsession_item){.id = id_of(number), .partition = partition, .bytes_max = 100};
}

/* A session of so many partitions of one topic. */
static int32_t opened(uint32_t count, bool is_follower)
{
    struct fetchsession_item items[64];
    assert_true(count <= BASE_ARRAY_COUNT(items));
    for (uint32_t i = 0; i < count; i++) { items[i] = named("t", (int32_t)i, 0); }
    return fetchsession_open(sessions, items, count, NAMES, is_follower, now_ms);
}

static enum fetchsession_verdict begun(struct fetchsession_ask *ask, struct fetchsession_list **list)
{
    *list = NULL;
    enum fetchsession_verdict verdict = fetchsession_begin(sessions, ask, image, now_ms, list);
    assert_true((*list != NULL) == (verdict == FETCHSESSION_GOES_ON));
    assert_true(fetchsession_is_sound(sessions));
    return verdict;
}

static struct fetchsession_ask asking(int32_t id, int32_t epoch)
{
    return (struct fetchsession_ask){.user = ME, .id = id, .epoch = epoch};
}

static struct fetchsession_list *goes_on(int32_t id, int32_t epoch)
{
    struct fetchsession_ask ask = asking(id, epoch);
    struct fetchsession_list *list;
    assert_int_equal(begun(&ask, &list), FETCHSESSION_GOES_ON);
    return list;
}

static void ends(struct fetchsession_list *list)
{
    uint32_t session = fetchsession_end(sessions, list);
    assert_null(fetchsession_next(sessions, session));
    assert_true(fetchsession_is_sound(sessions));
}

static bool is_there(int32_t id, int32_t epoch)
{
    struct fetchsession_ask ask = asking(id, epoch);
    struct fetchsession_list *list;
    enum fetchsession_verdict verdict = begun(&ask, &list);
    if (list != NULL) { ends(list); }
    return verdict != FETCHSESSION_NOT_FOUND;
}

static struct fetchsession_view viewed(void)
{
    struct fetchsession_view view;
    fetchsession_view(sessions, &view);
    return view;
}

/* "t/0 u/3": the list's items, in their order. */
static const char *words_of(const struct fetchsession_list *list)
{
    static char words[512];
    size_t used = 0;
    words[0] = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct fetchsession_item *item = &list->items[i];
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%.*s/%d", i == 0 ? "" : " ",
                                 (int)item->name.size_bytes, (const char *)item->name.at, (int)item->partition);
    }
    return words;
}

static bool told(struct fetchsession_list *list, uint32_t at, int64_t watermark, int64_t log_start, int16_t error,
                 bool has_records)
{
    list->items[at].watermark = watermark;
    list->items[at].log_start = log_start;
    list->items[at].error = error;
    list->items[at].has_records = has_records;
    assert_true(fetchsession_judge(sessions, list));
    return list->items[at].is_told;
}

/* ---- ids ---- */

static void an_id_tells_the_shard_of_its_session(void **state)
{
    (void)state;
    for (uint32_t shard = 0; shard < 3; shard++) {
        struct fetchsession_config config = usual(100);
        config.shard = shard;
        given_config(config);
        for (uint32_t i = 0; i < 100; i++) {
            int32_t id = opened(1, false);
            assert_true(id > 0);
            assert_int_equal(fetchsession_shard(id, 3), shard);
        }
    }
}

static void no_shard_has_what_is_no_id(void **state)
{
    (void)state;
    assert_int_equal(fetchsession_shard(0, 3), 3);
    assert_int_equal(fetchsession_shard(-1, 3), 3);
    assert_int_equal(fetchsession_shard(INT32_MIN, 3), 3);
    assert_int_equal(fetchsession_shard(INT32_MAX, 3), 3); /* a third of it, thrice, and one */
    assert_int_equal(fetchsession_shard(INT32_MAX, 1), 1);
    assert_int_equal(fetchsession_shard(1, 1), 0);
}

static void shards_share_the_slots_of_the_node_to_the_last_one(void **state)
{
    (void)state;
    for (uint64_t slots = 0; slots < 10; slots++) {
        uint64_t sum = 0;
        for (uint32_t shard = 0; shard < 4; shard++) { sum += fetchsession_share(slots, shard, 4); }
        assert_int_equal(sum, slots);
    }
}

/* ---- epochs ---- */

static void a_fetch_goes_on_only_with_the_epoch_that_is_next(void **state)
{
    (void)state;
    given_slots(4);
    int32_t id = opened(2, false);
    static const int32_t wrong[] = {2, 3, -2, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(wrong); i++) {
        struct fetchsession_ask ask = asking(id, wrong[i]);
        struct fetchsession_list *list;
        assert_int_equal(begun(&ask, &list), FETCHSESSION_BAD_EPOCH);
    }
    ends(goes_on(id, 1));
    ends(goes_on(id, 2));
    struct fetchsession_ask again = asking(id, 2);
    struct fetchsession_list *list;
    assert_int_equal(begun(&again, &list), FETCHSESSION_BAD_EPOCH);
}

static void a_session_by_name_does_not_go_on_by_id(void **state)
{
    (void)state;
    given_slots(4);
    int32_t by_name = opened(1, false);
    struct fetchsession_item item = by_id(1, 0);
    int32_t with_ids = fetchsession_open(sessions, &item, 1, IDS, false, now_ms);
    struct fetchsession_ask asks[2] = {asking(by_name, 1), asking(with_ids, 1)};
    asks[0].uses_ids = true;
    struct fetchsession_list *list;
    assert_int_equal(begun(&asks[0], &list), FETCHSESSION_BAD_KIND);
    assert_int_equal(begun(&asks[1], &list), FETCHSESSION_BAD_KIND);
    ends(goes_on(by_name, 1)); /* and its epoch is what it was */
}

static void nobody_finds_a_session_that_was_closed(void **state)
{
    (void)state;
    given_slots(4);
    int32_t id = opened(1, false);
    fetchsession_close(sessions, id + 1); /* none */
    assert_true(is_there(id, 1));
    fetchsession_close(sessions, id);
    fetchsession_close(sessions, id);
    assert_false(is_there(id, 2));
    assert_int_equal(viewed().sessions, 0);
    assert_int_equal(viewed().bytes, 0);
    assert_int_equal(base_pages_used_bytes(pages), 0);
}

/* ---- what is followed ---- */

static void what_a_fetch_names_is_followed_from_then_on(void **state)
{
    (void)state;
    given_slots(4);
    int32_t id = opened(2, false);
    struct fetchsession_item news[] = {named("u", 5, 3), named("t", 0, 9)};
    struct fetchsession_ask ask = asking(id, 1);
    ask.items = news;
    ask.count = 2;
    struct fetchsession_list *list;
    assert_int_equal(begun(&ask, &list), FETCHSESSION_GOES_ON);
    assert_string_equal(words_of(list), "t/0 t/1 u/5");
    ends(list);
    list = goes_on(id, 2);
    assert_string_equal(words_of(list), "t/0 t/1 u/5");
    assert_int_equal(list->items[0].offset, 9); /* the later word, at the earlier place */
    assert_int_equal(list->items[1].offset, 0);
    assert_int_equal(list->items[2].offset, 3);
    ends(list);
}

static void what_a_fetch_forgets_is_followed_no_more(void **state)
{
    (void)state;
    given_slots(4);
    int32_t id = opened(4, false);
    struct fetchsession_item gone[] = {named("t", 1, 0), named("t", 77, 0), named("none", 1, 0), named("u", 0, 0)};
    struct fetchsession_item news[] = {named("u", 0, 0)};
    struct fetchsession_ask ask = asking(id, 1);
    ask.items = news;
    ask.count = 1;
    ask.forgotten = gone;
    ask.forgotten_count = 4;
    struct fetchsession_list *list;
    assert_int_equal(begun(&ask, &list), FETCHSESSION_GOES_ON);
    assert_string_equal(words_of(list), "t/0 t/2 t/3"); /* u was forgotten in the same breath */
    ends(list);
    assert_int_equal(viewed().partitions, 3);
}

static void a_session_that_follows_nothing_is_over(void **state)
{
    (void)state;
    given_slots(4);
    int32_t id = opened(1, false);
    struct fetchsession_item gone = named("t", 0, 0);
    struct fetchsession_ask ask = asking(id, 1);
    ask.forgotten = &gone;
    ask.forgotten_count = 1;
    struct fetchsession_list *list;
    assert_int_equal(begun(&ask, &list), FETCHSESSION_EMPTY);
    assert_false(is_there(id, 2));
    assert_int_equal(base_pages_used_bytes(pages), 0);
}

static void what_was_missing_stands_behind_what_was_there(void **state)
{
    (void)state;
    given_slots(4);
    struct fetchsession_item items[] = {named("none", 0, 0), named("t", 0, 0), named("none", 1, 0), named("t", 1, 0)};
    items[0].is_missing = items[2].is_missing = true;
    int32_t id = fetchsession_open(sessions, items, 4, NAMES, false, now_ms);
    struct fetchsession_list *list = goes_on(id, 1);
    assert_string_equal(words_of(list), "t/0 t/1 none/0 none/1");
    ends(list);
}

static void a_topic_gets_its_name_once_its_id_is_known_and_keeps_it(void **state)
{
    (void)state;
    given_slots(4);
    struct fetchsession_item items[] = {by_id(1, 0), by_id(2, 0)};
    int32_t id = fetchsession_open(sessions, items, 2, IDS, false, now_ms);
    for (int32_t epoch = 1; epoch <= 3; epoch++) {
        struct fetchsession_ask ask = asking(id, epoch);
        ask.uses_ids = true;
        if (epoch == 2) { assert_int_equal(metadata_put_topic(image, base_slice_text("late"), id_of(2)), BASE_OK); }
        if (epoch == 3) { assert_int_equal(metadata_remove_topic(image, id_of(2)), BASE_OK); }
        struct fetchsession_list *list;
        assert_int_equal(begun(&ask, &list), FETCHSESSION_GOES_ON);
        assert_string_equal(words_of(list), epoch == 1 ? "/0 /0" : "/0 late/0");
        ends(list);
    }
}

/* What the front asked of an older image, this shard may know by then: topics are made meanwhile, and a fetch may have waited. */
static void a_topic_that_is_known_by_the_time_its_id_is_followed_gets_its_name(void **state)
{
    (void)state;
    given_slots(4);
    char name[METADATA_TOPIC_NAME_MAX + 1];
    memset(name, 'n', METADATA_TOPIC_NAME_MAX);
    name[METADATA_TOPIC_NAME_MAX] = '\0';
    assert_int_equal(metadata_put_topic(image, base_slice_text(name), id_of(2)), BASE_OK);
    struct fetchsession_item known = by_id(1, 0);
    known.name = base_slice_text("t");
    int32_t id = fetchsession_open(sessions, &known, 1, IDS, false, now_ms);
    struct fetchsession_item late = by_id(2, 0);
    struct fetchsession_ask ask = asking(id, 1);
    ask.uses_ids = true;
    ask.items = &late;
    ask.count = 1;
    struct fetchsession_list *list;
    assert_int_equal(begun(&ask, &list), FETCHSESSION_GOES_ON);
    assert_int_equal(list->count, 2);
    assert_true(base_slice_equal(list->items[1].name, base_slice_text(name)));
    ends(list);
}

/* 12 of "topic-12" */
static uint32_t number_of(const struct fetchsession_item *item)
{
    uint32_t number = 0;
    for (size_t i = strlen("topic-"); i < item->name.size_bytes; i++) { number = number * 10 + item->name.at[i] - '0'; }
    return number;
}

static void many_partitions_of_many_topics_come_and_go(void **state)
{
    (void)state;
    given_slots(4);
    enum { TOPICS = 40, PARTS = 12 };
    bool is_followed[TOPICS][PARTS] = {{false}};
    char names[TOPICS][16];
    for (uint32_t t = 0; t < TOPICS; t++) { (void)snprintf(names[t], sizeof names[t], "topic-%u", (unsigned)t); }
    struct fetchsession_item first = named(names[0], 0, 0);
    is_followed[0][0] = true;
    int32_t id = fetchsession_open(sessions, &first, 1, NAMES, false, now_ms);
    struct base_prng prng;
    base_prng_init(&prng, 11, 1);
    for (int32_t epoch = 1; epoch < 400; epoch++) {
        struct fetchsession_item news[8], gone[8];
        uint32_t news_count = 0, gone_count = 0;
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t t = (uint32_t)base_prng_below(&prng, TOPICS);
            uint32_t p = (uint32_t)base_prng_below(&prng, PARTS);
            if (t == 0 && p == 0) { continue; } /* this one stays */
            struct fetchsession_item item = named(names[t], (int32_t)p, epoch);
            bool is_twice = false;
            for (uint32_t j = 0; j < news_count; j++) {
                is_twice =
                    is_twice || (news[j].partition == item.partition && base_slice_equal(news[j].name, item.name));
            }
            if (base_prng_chance(&prng, (uint64_t)epoch, 500)) {
                gone[gone_count++] = item;
            } else if (!is_twice) {
                news[news_count++] = item;
            }
        }
        struct fetchsession_ask ask = asking(id, epoch);
        ask.items = news;
        ask.count = news_count;
        ask.forgotten = gone;
        ask.forgotten_count = gone_count;
        for (uint32_t i = 0; i < news_count; i++) { is_followed[number_of(&news[i])][news[i].partition] = true; }
        for (uint32_t i = 0; i < gone_count; i++) { is_followed[number_of(&gone[i])][gone[i].partition] = false; }
        struct fetchsession_list *list;
        assert_int_equal(begun(&ask, &list), FETCHSESSION_GOES_ON);
        uint32_t expected = 0;
        for (uint32_t t = 0; t < TOPICS; t++) {
            for (uint32_t p = 0; p < PARTS; p++) { expected += is_followed[t][p] ? 1 : 0; }
        }
        assert_int_equal(list->count, expected);
        for (uint32_t i = 0; i < list->count; i++) {
            assert_true(is_followed[number_of(&list->items[i])][list->items[i].partition]);
        }
        ends(list);
    }
    fetchsession_close(sessions, id);
    assert_int_equal(base_pages_used_bytes(pages), 0);
}

/* ---- what is told ---- */

static void what_has_not_changed_is_left_out(void **state)
{
    (void)state;
    given_slots(4);
    struct fetchsession_item item = named("t", 0, 0);
    item.watermark = 5;
    item.log_start = 1;
    int32_t id = fetchsession_open(sessions, &item, 1, NAMES, false, now_ms);
    struct fetchsession_list *list = goes_on(id, 1);
    assert_false(told(list, 0, 5, 1, 0, false)); /* as it was told when it was opened */
    assert_true(told(list, 0, 6, 1, 0, false));  /* the watermark */
    assert_false(told(list, 0, 6, 1, 0, false));
    assert_true(told(list, 0, 6, 2, 0, false)); /* the log's start */
    assert_false(told(list, 0, 6, 2, 0, false));
    assert_true(told(list, 0, 6, 2, 0, true)); /* records */
    assert_true(told(list, 0, 6, 2, 0, true)); /* and again: they may be others */
    assert_false(told(list, 0, 6, 2, 0, false));
    ends(list);
}

static void an_error_is_told_each_time_and_so_is_its_end(void **state)
{
    (void)state;
    given_slots(4);
    struct fetchsession_item item = named("t", 0, 0);
    item.watermark = 5;
    int32_t id = fetchsession_open(sessions, &item, 1, NAMES, false, now_ms);
    struct fetchsession_list *list = goes_on(id, 1);
    assert_true(told(list, 0, 5, 0, UNKNOWN, false));
    assert_true(told(list, 0, 5, 0, UNKNOWN, false));
    assert_true(told(list, 0, 5, 0, 0, false));
    assert_false(told(list, 0, 5, 0, 0, false));
    ends(list);
}

static void one_that_had_records_goes_to_the_end(void **state)
{
    (void)state;
    given_slots(4);
    int32_t id = opened(4, false);
    struct fetchsession_list *list = goes_on(id, 1);
    list->items[0].has_records = true;
    list->items[2].has_records = true;
    assert_true(fetchsession_judge(sessions, list));
    ends(list);
    list = goes_on(id, 2);
    assert_string_equal(words_of(list), "t/1 t/3 t/0 t/2");
    ends(list);
}

static void nothing_is_told_to_a_fetch_that_another_has_overtaken(void **state)
{
    (void)state;
    given_slots(4);
    int32_t id = opened(1, false);
    struct fetchsession_list *slow = goes_on(id, 1);
    struct fetchsession_ask ask = asking(id, 2);
    ask.user = ANOTHER;
    struct fetchsession_list *fast;
    assert_int_equal(begun(&ask, &fast), FETCHSESSION_GOES_ON);
    assert_false(fetchsession_judge(sessions, slow));
    assert_true(fetchsession_judge(sessions, fast));
    ends(slow);
    ends(fast);
}

static void nothing_is_told_to_a_fetch_whose_session_another_has_emptied(void **state)
{
    (void)state;
    given_slots(4);
    int32_t id = opened(2, false);
    struct fetchsession_list *slow = goes_on(id, 1);
    struct fetchsession_item gone[] = {named("t", 0, 0), named("t", 1, 0)};
    struct fetchsession_ask ask = asking(id, 2);
    ask.user = ANOTHER;
    ask.forgotten = gone;
    ask.forgotten_count = 2;
    struct fetchsession_list *none;
    assert_int_equal(begun(&ask, &none), FETCHSESSION_EMPTY);
    slow->items[0].has_records = true;
    assert_false(fetchsession_judge(sessions, slow));
    ends(slow);
    assert_int_equal(base_pages_used_bytes(pages), 0);
}

/* ---- one connection ---- */

static void a_fetch_waits_for_the_one_before_it_on_its_connection(void **state)
{
    (void)state;
    given_slots(4);
    int32_t id = opened(1, false);
    struct fetchsession_list *first = goes_on(id, 1);
    struct fetchsession_ask second = asking(id, 2), third = asking(id, 3);
    struct fetchsession_list *list;
    assert_int_equal(begun(&second, &list), FETCHSESSION_WAITS);
    assert_int_equal(begun(&third, &list), FETCHSESSION_WAITS);
    assert_false(fetchsession_is_quiet(sessions));
    uint32_t session = fetchsession_end(sessions, first);
    assert_ptr_equal(fetchsession_next(sessions, session), &second);
    assert_int_equal(begun(&second, &list), FETCHSESSION_GOES_ON);
    assert_null(fetchsession_next(sessions, session)); /* the third waits for the second */
    session = fetchsession_end(sessions, list);
    assert_ptr_equal(fetchsession_next(sessions, session), &third);
    assert_int_equal(begun(&third, &list), FETCHSESSION_GOES_ON);
    ends(list);
    assert_true(fetchsession_is_quiet(sessions));
}

/* It found no memory, and that one was begun meanwhile: its answer would have to leave first. */
static void a_fetch_does_not_wait_for_the_one_behind_it(void **state)
{
    (void)state;
    given_slots(4);
    int32_t id = opened(1, false);
    struct fetchsession_ask first = asking(id, 1);
    struct fetchsession_ask second = asking(id, 1);
    first.order = 1;
    second.order = 2;
    struct fetchsession_list *list, *none;
    assert_int_equal(begun(&second, &list), FETCHSESSION_GOES_ON);
    assert_int_equal(begun(&first, &none), FETCHSESSION_BAD_EPOCH);
    ends(list);
}

static void those_that_have_waited_find_out_that_their_session_is_gone(void **state)
{
    (void)state;
    given_slots(4);
    int32_t id = opened(1, false);
    struct fetchsession_list *first = goes_on(id, 1);
    struct fetchsession_ask second = asking(id, 2), third = asking(id, 3);
    struct fetchsession_list *list;
    assert_int_equal(begun(&second, &list), FETCHSESSION_WAITS);
    assert_int_equal(begun(&third, &list), FETCHSESSION_WAITS);
    fetchsession_close(sessions, id);
    assert_true(fetchsession_judge(sessions, first)); /* it stays for those that go on with it */
    uint32_t session = fetchsession_end(sessions, first);
    assert_ptr_equal(fetchsession_next(sessions, session), &second);
    assert_int_equal(begun(&second, &list), FETCHSESSION_NOT_FOUND); /* sound, with no list and one that waits */
    assert_ptr_equal(fetchsession_next(sessions, session), &third);
    assert_int_equal(begun(&third, &list), FETCHSESSION_NOT_FOUND);
    assert_null(fetchsession_next(sessions, session));
    assert_int_equal(base_pages_used_bytes(pages), 0);
}

/* ---- who makes room ---- */

static void without_slots_there_are_no_sessions(void **state)
{
    (void)state;
    given_slots(0);
    assert_int_equal(opened(3, true), FETCHSESSION_NONE);
    assert_int_equal(base_pages_used_bytes(pages), 0);
}

static void a_new_session_finds_no_room_among_young_ones(void **state)
{
    (void)state;
    given_slots(2);
    int32_t a = opened(1, false), b = opened(1, false);
    assert_int_equal(opened(9, false), FETCHSESSION_NONE); /* however large it is */
    assert_true(is_there(a, 1) && is_there(b, 1));
    assert_int_equal(viewed().refused, 1);
}

static void the_one_unused_for_too_long_goes_first(void **state)
{
    (void)state;
    given_slots(2);
    int32_t a = opened(5, true), b = opened(1, false);
    now_ms += EVICTION_MS;
    ends(goes_on(b, 1));
    assert_int_equal(opened(1, false), FETCHSESSION_NONE); /* not a millisecond too early */
    now_ms += 1;
    assert_true(opened(1, false) != FETCHSESSION_NONE); /* even a follower's, for a smaller one */
    assert_false(is_there(a, 1));
    assert_true(is_there(b, 2));
    assert_int_equal(viewed().evicted, 1);
}

static void a_followers_session_takes_the_place_of_a_consumers_at_once(void **state)
{
    (void)state;
    given_slots(2);
    int32_t small = opened(3, false), large = opened(8, false);
    assert_true(opened(1, true) != FETCHSESSION_NONE);
    assert_false(is_there(small, 1)); /* the smallest */
    assert_true(is_there(large, 1));
    assert_true(opened(1, true) != FETCHSESSION_NONE);
    assert_int_equal(opened(60, true), FETCHSESSION_NONE); /* but not that of another follower, while it is young */
    assert_int_equal(opened(60, false), FETCHSESSION_NONE);
}

static void an_old_session_makes_room_for_a_larger_one(void **state)
{
    (void)state;
    given_slots(2);
    int32_t a = opened(4, false), b = opened(6, false);
    now_ms += EVICTION_MS - 1;
    ends(goes_on(a, 1));
    ends(goes_on(b, 1));
    now_ms += 3;
    assert_int_equal(opened(9, false), FETCHSESSION_NONE); /* when they were used last they were young */
    ends(goes_on(a, 2));
    ends(goes_on(b, 2));
    assert_int_equal(opened(4, false), FETCHSESSION_NONE); /* no larger than the smallest */
    assert_true(opened(5, false) != FETCHSESSION_NONE);
    assert_false(is_there(a, 3));
    assert_true(is_there(b, 3));
}

static void an_old_followers_session_makes_room_for_a_larger_followers_only(void **state)
{
    (void)state;
    given_slots(1);
    int32_t a = opened(4, true);
    now_ms += EVICTION_MS + 1;
    ends(goes_on(a, 1));
    assert_int_equal(opened(60, false), FETCHSESSION_NONE);
    assert_int_equal(opened(4, true), FETCHSESSION_NONE);
    assert_true(opened(5, true) != FETCHSESSION_NONE);
    assert_false(is_there(a, 2));
}

static void a_session_that_goes_stays_for_those_that_go_on_with_it(void **state)
{
    (void)state;
    given_slots(1);
    int32_t a = opened(2, false);
    struct fetchsession_list *list = goes_on(a, 1);
    assert_true(opened(1, true) != FETCHSESSION_NONE);
    assert_string_equal(words_of(list), "t/0 t/1");
    assert_true(told(list, 1, 9, 0, 0, true));
    ends(list);
    assert_false(is_there(a, 2));
    assert_int_equal(viewed().sessions, 1);
}

/* ---- memory ---- */

static void sessions_take_no_more_memory_than_they_may(void **state)
{
    (void)state;
    struct fetchsession_config config = usual(1000);
    config.bytes_max = 10 * BASE_PAGE_BYTES;
    given_config(config);
    uint32_t count = 0;
    while (opened(1, false) != FETCHSESSION_NONE) { count += 1; }
    assert_int_equal(count, 10);
    assert_true(viewed().bytes <= config.bytes_max);
    now_ms += EVICTION_MS + 1;
    assert_true(opened(60, false) != FETCHSESSION_NONE); /* those that are stale make room, as many as it needs */
    assert_true(viewed().evicted > 1);
    assert_true(viewed().bytes <= config.bytes_max);
}

static void a_session_that_may_grow_no_more_is_over(void **state)
{
    (void)state;
    struct fetchsession_config config = usual(10);
    config.bytes_max = 2 * BASE_PAGE_BYTES;
    given_config(config);
    int32_t a = opened(1, false), b = opened(1, false);
    struct fetchsession_item news[200];
    for (int32_t i = 0; i < 200; i++) { news[i] = named("u", i, 0); }
    struct fetchsession_ask ask = asking(a, 1);
    ask.items = news;
    ask.count = 200;
    struct fetchsession_list *list;
    assert_int_equal(begun(&ask, &list), FETCHSESSION_NOT_FOUND);
    assert_false(is_there(a, 1));
    assert_true(is_there(b, 1));
}

/* Each taking of memory in turn finds none; then it goes as if nothing had been. */
static void a_fetch_that_finds_no_memory_may_be_tried_again(void **state)
{
    (void)state;
    for (uint64_t at = 1; at <= 2; at++) {
        given_slots(4);
        int32_t id = opened(1, false);
        struct fetchsession_item news[100];
        for (int32_t i = 0; i < 100; i++) { news[i] = named("u", i, 0); }
        struct fetchsession_ask ask = asking(id, 1);
        ask.items = news;
        ask.count = 100;
        struct fetchsession_list *list;
        base_pages_refuse(pages, at, 1);
        assert_int_equal(begun(&ask, &list), FETCHSESSION_NO_ROOM);
        assert_int_equal(viewed().partitions, 1);
        assert_int_equal(begun(&ask, &list), FETCHSESSION_GOES_ON);
        assert_int_equal(list->count, 101);
        ends(list);
        fetchsession_close(sessions, id);
        assert_int_equal(base_pages_used_bytes(pages), 0);
    }
    given_slots(4);
    base_pages_refuse(pages, 1, 1);
    assert_int_equal(opened(1, false), FETCHSESSION_NONE);
    assert_true(opened(1, false) != FETCHSESSION_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_tells_the_shard_of_its_session),
        cmocka_unit_test(no_shard_has_what_is_no_id),
        cmocka_unit_test(shards_share_the_slots_of_the_node_to_the_last_one),
        cmocka_unit_test(a_fetch_goes_on_only_with_the_epoch_that_is_next),
        cmocka_unit_test(a_session_by_name_does_not_go_on_by_id),
        cmocka_unit_test(nobody_finds_a_session_that_was_closed),
        cmocka_unit_test(what_a_fetch_names_is_followed_from_then_on),
        cmocka_unit_test(what_a_fetch_forgets_is_followed_no_more),
        cmocka_unit_test(a_session_that_follows_nothing_is_over),
        cmocka_unit_test(what_was_missing_stands_behind_what_was_there),
        cmocka_unit_test(a_topic_gets_its_name_once_its_id_is_known_and_keeps_it),
        cmocka_unit_test(a_topic_that_is_known_by_the_time_its_id_is_followed_gets_its_name),
        cmocka_unit_test(many_partitions_of_many_topics_come_and_go),
        cmocka_unit_test(what_has_not_changed_is_left_out),
        cmocka_unit_test(an_error_is_told_each_time_and_so_is_its_end),
        cmocka_unit_test(one_that_had_records_goes_to_the_end),
        cmocka_unit_test(nothing_is_told_to_a_fetch_that_another_has_overtaken),
        cmocka_unit_test(nothing_is_told_to_a_fetch_whose_session_another_has_emptied),
        cmocka_unit_test(a_fetch_waits_for_the_one_before_it_on_its_connection),
        cmocka_unit_test(a_fetch_does_not_wait_for_the_one_behind_it),
        cmocka_unit_test(those_that_have_waited_find_out_that_their_session_is_gone),
        cmocka_unit_test(without_slots_there_are_no_sessions),
        cmocka_unit_test(a_new_session_finds_no_room_among_young_ones),
        cmocka_unit_test(the_one_unused_for_too_long_goes_first),
        cmocka_unit_test(a_followers_session_takes_the_place_of_a_consumers_at_once),
        cmocka_unit_test(an_old_session_makes_room_for_a_larger_one),
        cmocka_unit_test(an_old_followers_session_makes_room_for_a_larger_followers_only),
        cmocka_unit_test(a_session_that_goes_stays_for_those_that_go_on_with_it),
        cmocka_unit_test(sessions_take_no_more_memory_than_they_may),
        cmocka_unit_test(a_session_that_may_grow_no_more_is_over),
        cmocka_unit_test(a_fetch_that_finds_no_memory_may_be_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
