/* fuzz_fetchsession.c: the fetch sessions of a shard (KIP-227), opened, gone on with, judged and ended in any order, beside a plain model.
 *
 * Input   byte 0 steers: bits 0 and 1 how many slots there are (1, 2, 3, 6), bit 2 there is little memory. Then operations, a byte each that
 *         says which (modulo 8) and, in its high bits, how; what they need follows it: an open and a fetch name partitions (a byte of how
 *         many; of each a byte of topic and partition, a byte of the rest), a fetch also its session, user, epoch, and what it forgets.
 * Holds   the model says the same of each verdict, of every list (what is followed, in its order, by which name), of what is told, of who
 *         makes room for whom; a fetch of a connection waits for the one before it, and its turn comes; a session that is gone serves
 *         those who go on with it. Sound after each operation; at the end everything is back. With little memory the model does not say
 *         who goes: it looks, and knows no more than that what is left is as it was.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "fetchsession/fetchsession.h"
#include "input.h"
#include "metadata/metadata.h"

#define TOPICS         6
#define ITEMS_MAX      48 /* that a model's session follows */
#define ASKED_MAX      12 /* in one fetch */
#define SESSIONS_MAX   96
#define LISTS_MAX      6
#define ASKS_MAX       8
#define USERS          3
#define EVICTION_MS    1000
#define OPERATIONS_MAX 400
#define PAGES_BYTES    ((size_t)2 << 20)
#define TIGHT_BYTES    ((size_t)16 << 10)
#define NONE           UINT32_MAX

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct followed {
    uint32_t topic;
    int32_t partition;
    int32_t bytes_max;
    int32_t leader_epoch;
    int64_t offset;
    int64_t watermark, log_start; /* as told last */
};

struct model_session {
    int32_t id;
    int32_t epoch;
    bool uses_ids, is_follower, is_gone, was_old;
    uint64_t opened_ms, used_ms;
    uint64_t turn; /* of its last use */
    struct followed items[ITEMS_MAX];
    uint32_t count;
    bool has_name[TOPICS]; /* by id: what it is called is known */
};

struct model_ask {
    bool is_taken, is_waiting;
    uint64_t turn;
    uint32_t session; /* that it waits for */
    struct fetchsession_ask ask;
    struct fetchsession_item items[ASKED_MAX];
    struct fetchsession_item forgotten[ASKED_MAX];
};

struct model_list {
    struct fetchsession_list *list; /* NULL: free */
    uint32_t session;
    uint32_t ask;
    bool is_judged;
    int32_t epoch;
    uint32_t order[ITEMS_MAX]; /* item -> topic << 8 | partition */
};

static const char *const names[TOPICS] = {
    "t",
    "u",
    "vv",
    "t.u",
    "a topic with a longer name than others have, so long that what is left by chance does not hold it, nor does 64",
    "w"};
static _Alignas(4096) uint8_t pages_memory[PAGES_BYTES];
static _Alignas(16) uint8_t arena_memory[(size_t)64 << 10];
static _Alignas(16) uint8_t image_memory[(size_t)512 << 10];

static struct {
    struct fetchsessions *sessions;
    struct base_pages *pages;
    struct metadata *image;
    struct model_session all[SESSIONS_MAX];
    uint32_t count;
    struct model_ask asks[ASKS_MAX];
    struct model_list lists[LISTS_MAX];
    uint32_t slots;
    uint64_t turn;
    uint64_t now_ms;
    bool is_known[TOPICS]; /* the image has it */
    bool is_tight;
    bool is_told;
} it;

/* ---- the world around ---------------------------------------------------------------------------------------------------- */

static struct base_uuid id_of(uint32_t topic)
{
    struct base_uuid uuid = {{0}};
    base_put_u32(uuid.b, 0x77000000);
    base_put_u32(uuid.b + 12, topic + 1);
    return uuid;
}

static void know(uint32_t topic, bool is_known)
{
    if (it.is_known[topic] == is_known) { return; }
    enum base_rc rc = is_known ? metadata_put_topic(it.image, base_slice_text(names[topic]), id_of(topic))
                               : metadata_remove_topic(it.image, id_of(topic));
    CHECK(rc == BASE_OK);
    it.is_known[topic] = is_known;
}

static void begin_world(uint8_t steer)
{
    static const uint32_t slots[4] = {1, 2, 3, 6};
    memset(&it, 0, sizeof it);
    it.is_told = getenv("WEIR_FUZZ_TRACE") != NULL;
    it.slots = slots[steer & 3];
    it.is_tight = (steer & 4) != 0;
    it.now_ms = 5000;
    struct base_arena arena;
    base_arena_init_zeroed(&arena, arena_memory, sizeof arena_memory);
    memset(arena_memory, 0, sizeof arena_memory);
    memset(pages_memory, 0, base_pages_tables_bytes(sizeof pages_memory));
    const size_t reserve_bytes[BASE_CLASS_COUNT] = {0, 0, 0};
    struct base_region region = {.at = pages_memory, .size_bytes = sizeof pages_memory};
    CHECK(base_pages_create(region, reserve_bytes, &it.pages) == BASE_OK);
    struct fetchsession_config config = {.shard = 1,
                                         .shards = 3,
                                         .slots_max = it.slots,
                                         .spare_max = LISTS_MAX + ASKS_MAX,
                                         .eviction_ms = EVICTION_MS,
                                         .bytes_max = it.is_tight ? TIGHT_BYTES : PAGES_BYTES,
                                         .seed = 4};
    CHECK(fetchsession_create(&arena, it.pages, &config, &it.sessions) == BASE_OK);
    if (it.is_tight) { it.slots = (uint32_t)base_min_u64(it.slots, TIGHT_BYTES / BASE_PAGE_BYTES); }
    struct metadata_config image = {.node_id = 1,
                                    .topics_max = 16,
                                    .partitions_max = 16,
                                    .brokers_max = 2,
                                    .configs_max = 8,
                                    .cluster_id = base_slice_text("AAAAAAAAAAAAAAAAAAAAAA")};
    base_arena_init(&arena, image_memory, sizeof image_memory);
    CHECK(metadata_create(&arena, &image, &it.image) == BASE_OK);
    for (uint32_t i = 0; i < TOPICS / 2; i++) { know(i, true); }
}

/* ---- the model ------------------------------------------------------------------------------------------------------------- */

static struct model_session *live(int32_t id)
{
    for (uint32_t i = 0; i < it.count; i++) {
        if (!it.all[i].is_gone && it.all[i].id == id) { return &it.all[i]; }
    }
    return NULL;
}

static uint32_t live_count(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < it.count; i++) { count += it.all[i].is_gone ? 0 : 1; }
    return count;
}

static uint32_t index_of(const struct model_session *session) { return (uint32_t)(session - it.all); }

static void use(struct model_session *session)
{
    it.turn += 1;
    session->turn = it.turn;
    session->used_ms = it.now_ms;
    session->was_old = it.now_ms - session->opened_ms > EVICTION_MS;
}

/* A follower's after any consumer's, the larger after the smaller. */
static int compare_worth(bool is_follower, uint32_t count, const struct model_session *other)
{
    if (is_follower != other->is_follower) { return is_follower ? 1 : -1; }
    return count == other->count ? 0 : count > other->count ? 1 : -1;
}

/* Who makes room for a session of so many partitions; NULL: nobody. */
static struct model_session *who_goes(bool is_follower, uint32_t count)
{
    struct model_session *longest = NULL;
    struct model_session *smallest = NULL;
    for (uint32_t i = 0; i < it.count; i++) {
        struct model_session *session = &it.all[i];
        if (session->is_gone) { continue; }
        if (longest == NULL || session->turn < longest->turn) { longest = session; }
        if (!session->was_old && !(is_follower && !session->is_follower)) { continue; }
        int compared = smallest == NULL ? -1 : compare_worth(session->is_follower, session->count, smallest);
        bool is_first = compared < 0 || (compared == 0 && session->id < smallest->id);
        if (is_first) { smallest = session; }
    }
    if (longest != NULL && it.now_ms - longest->used_ms > EVICTION_MS) { return longest; }
    return smallest != NULL && compare_worth(is_follower, count, smallest) > 0 ? smallest : NULL;
}

static uint32_t find_followed(const struct model_session *session, uint32_t topic, int32_t partition)
{
    for (uint32_t i = 0; i < session->count; i++) {
        if (session->items[i].topic == topic && session->items[i].partition == partition) { return i; }
    }
    return NONE;
}

static void take_out(struct model_session *session, uint32_t at)
{
    memmove(&session->items[at], &session->items[at + 1], (session->count - at - 1) * sizeof session->items[0]);
    session->count -= 1;
}

static uint32_t topic_of(const struct fetchsession_item *item, bool uses_ids)
{
    for (uint32_t i = 0; i < TOPICS; i++) {
        bool is_it = uses_ids ? base_uuid_compare(item->id, id_of(i)) == 0
                              : base_slice_equal(item->name, base_slice_text(names[i]));
        if (is_it) { return i; }
    }
    UNREACHABLE();
}

static bool follows_topic(const struct model_session *session, uint32_t topic)
{
    for (uint32_t i = 0; i < session->count; i++) {
        if (session->items[i].topic == topic) { return true; }
    }
    return false;
}

static void follow(struct model_session *session, const struct fetchsession_item *item)
{
    uint32_t topic = topic_of(item, session->uses_ids);
    if (!follows_topic(session, topic)) { session->has_name[topic] = item->name.size_bytes > 0; }
    CHECK(session->count < ITEMS_MAX);
    session->items[session->count] = (struct followed){.topic = topic,
                                                       .partition = item->partition,
                                                       .bytes_max = item->bytes_max,
                                                       .leader_epoch = item->leader_epoch,
                                                       .offset = item->offset,
                                                       .watermark = -1,
                                                       .log_start = -1};
    session->count += 1;
}

static bool has_list(uint32_t session, uint64_t user)
{
    for (uint32_t i = 0; i < LISTS_MAX; i++) {
        const struct model_list *list = &it.lists[i];
        if (list->list != NULL && list->session == session && it.asks[list->ask].ask.user == user) { return true; }
    }
    return false;
}

/* With little memory: who went. */
static void look_who_is_left(void)
{
    for (uint32_t i = 0; i < it.count; i++) {
        struct model_session *session = &it.all[i];
        if (session->is_gone) { continue; }
        struct fetchsession_ask ask = {.user = UINT64_MAX,
                                       .id = session->id,
                                       .epoch = session->epoch + 1,
                                       .uses_ids = session->uses_ids};
        struct fetchsession_list *list = NULL;
        enum fetchsession_verdict verdict = fetchsession_begin(it.sessions, &ask, it.image, it.now_ms, &list);
        CHECK(verdict == FETCHSESSION_BAD_EPOCH || verdict == FETCHSESSION_NOT_FOUND);
        session->is_gone = verdict == FETCHSESSION_NOT_FOUND;
    }
}

static void check_all(void)
{
    CHECK(fetchsession_is_sound(it.sessions));
    struct fetchsession_view view;
    fetchsession_view(it.sessions, &view);
    uint32_t lists = 0;
    for (uint32_t i = 0; i < LISTS_MAX; i++) { lists += it.lists[i].list != NULL ? 1 : 0; }
    CHECK(view.lists == lists);
    if (it.is_tight) { return; }
    uint32_t partitions = 0;
    for (uint32_t i = 0; i < it.count; i++) { partitions += it.all[i].is_gone ? 0 : it.all[i].count; }
    CHECK(view.sessions == live_count());
    CHECK(view.partitions == partitions);
}

/* ---- opening --------------------------------------------------------------------------------------------------------------- */

/* Each partition once, as whoever asks makes sure. How many. */
static uint32_t take_items(struct input *input, bool uses_ids, bool is_full, struct fetchsession_item items[ASKED_MAX])
{
    uint32_t asked = take_u8(input) % (ASKED_MAX + 1);
    uint32_t count = 0;
    uint8_t seen[TOPICS][16] = {{0}};
    for (uint32_t i = 0; i < asked; i++) {
        uint8_t which = take_u8(input);
        uint8_t rest = take_u8(input);
        uint32_t topic = which % TOPICS;
        uint32_t partition = (which / TOPICS) % 16;
        if (seen[topic][partition] != 0) { continue; }
        seen[topic][partition] = 1;
        struct fetchsession_item *item = &items[count];
        *item = (struct fetchsession_item){.partition = (int32_t)partition,
                                           .bytes_max = rest >> 4,
                                           .leader_epoch = (rest & 1) != 0 ? -1 : 3,
                                           .offset = rest >> 1,
                                           .watermark = -1,
                                           .log_start = -1};
        if (uses_ids) { item->id = id_of(topic); }
        if (!uses_ids || it.is_known[topic]) { item->name = base_slice_text(names[topic]); }
        if (is_full) {
            item->is_missing = (rest & 2) != 0;
            item->error = (int16_t)(item->is_missing || (rest & 12) == 4 ? 3 : 0);
            item->watermark = item->error != 0 ? -1 : rest >> 5;
            item->log_start = item->error != 0 ? -1 : rest >> 6;
        }
        count += 1;
    }
    return count;
}

static void open_session(struct input *input, uint8_t how)
{
    bool uses_ids = (how & 1) != 0;
    bool is_follower = (how & 2) != 0;
    struct fetchsession_item items[ASKED_MAX];
    uint32_t count = take_items(input, uses_ids, true, items);
    if (count == 0 || it.count == SESSIONS_MAX) { return; }
    struct model_session *goes = NULL;
    bool is_full = live_count() >= it.slots;
    if (!it.is_tight && is_full) { goes = who_goes(is_follower, count); }
    int32_t id = fetchsession_open(it.sessions, items, count, uses_ids, is_follower, it.now_ms);
    if (it.is_told) { fprintf(stderr, "open of %u by %s: %d\n", count, uses_ids ? "ids" : "names", id); }
    if (it.is_tight) { look_who_is_left(); }
    if (goes != NULL) { goes->is_gone = true; }
    bool has_room = !is_full || goes != NULL;
    CHECK(it.is_tight || (id != FETCHSESSION_NONE) == has_room);
    if (id == FETCHSESSION_NONE) { return; }
    CHECK(id > 0 && fetchsession_shard(id, 3) == 1 && live(id) == NULL);
    struct model_session *session = &it.all[it.count];
    it.count += 1;
    *session = (struct model_session){
        .id = id, .epoch = 1, .uses_ids = uses_ids, .is_follower = is_follower, .opened_ms = it.now_ms};
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            if (items[i].is_missing != (pass == 1)) { continue; }
            follow(session, &items[i]);
            struct followed *last = &session->items[session->count - 1];
            last->watermark = items[i].error != 0 ? -1 : items[i].watermark;
            last->log_start = items[i].log_start;
        }
    }
    use(session);
}

/* ---- going on -------------------------------------------------------------------------------------------------------------- */

/* What the list must say. */
static void check_list(const struct model_session *session, const struct fetchsession_list *list)
{
    CHECK(list->count == session->count && list->id == session->id);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct fetchsession_item *item = &list->items[i];
        const struct followed *followed = &session->items[i];
        CHECK(item->partition == followed->partition && item->offset == followed->offset);
        CHECK(item->bytes_max == followed->bytes_max && item->leader_epoch == followed->leader_epoch);
        bool has_name = !session->uses_ids || session->has_name[followed->topic];
        const char *name = has_name ? names[followed->topic] : "";
        CHECK(base_slice_equal(item->name, base_slice_text(name)));
        CHECK(!session->uses_ids || base_uuid_compare(item->id, id_of(followed->topic)) == 0);
    }
}

static enum fetchsession_verdict expected(const struct model_session *session, const struct fetchsession_ask *ask)
{
    if (session == NULL) { return FETCHSESSION_NOT_FOUND; }
    if (has_list(index_of(session), ask->user)) { return FETCHSESSION_WAITS; }
    if (session->epoch != ask->epoch) { return FETCHSESSION_BAD_EPOCH; }
    if (session->uses_ids != ask->uses_ids) { return FETCHSESSION_BAD_KIND; }
    return FETCHSESSION_GOES_ON;
}

static void apply(struct model_session *session, const struct fetchsession_ask *ask)
{
    for (uint32_t i = 0; i < ask->count; i++) {
        const struct fetchsession_item *item = &ask->items[i];
        uint32_t at = find_followed(session, topic_of(item, ask->uses_ids), item->partition);
        if (at == NONE) {
            follow(session, item);
            continue;
        }
        session->items[at].bytes_max = item->bytes_max;
        session->items[at].leader_epoch = item->leader_epoch;
        session->items[at].offset = item->offset;
    }
    for (uint32_t i = 0; i < ask->forgotten_count; i++) {
        const struct fetchsession_item *item = &ask->forgotten[i];
        uint32_t at = find_followed(session, topic_of(item, ask->uses_ids), item->partition);
        if (at != NONE) { take_out(session, at); }
    }
}

static void learn(struct model_session *session)
{
    for (uint32_t i = 0; i < TOPICS; i++) {
        bool is_news = !session->has_name[i] && it.is_known[i] && follows_topic(session, i);
        if (is_news) { session->has_name[i] = true; }
    }
}

static void begin_ask(uint32_t index)
{
    struct model_ask *mine = &it.asks[index];
    uint32_t free_list = 0;
    while (it.lists[free_list].list != NULL) { free_list += 1; } /* there is one: who begins has looked */
    struct model_session *session = live(mine->ask.id);
    enum fetchsession_verdict want = expected(session, &mine->ask);
    struct fetchsession_list *list = NULL;
    enum fetchsession_verdict verdict = fetchsession_begin(it.sessions, &mine->ask, it.image, it.now_ms, &list);
    if (it.is_told) { fprintf(stderr, "fetch of %d epoch %d: %d\n", mine->ask.id, mine->ask.epoch, (int)verdict); }
    if (it.is_tight && want == FETCHSESSION_GOES_ON && verdict == FETCHSESSION_NOT_FOUND) {
        session->is_gone = true; /* it would have grown past what all may have */
        want = verdict;
    }
    mine->is_waiting = verdict == FETCHSESSION_WAITS;
    mine->is_taken = mine->is_waiting || verdict == FETCHSESSION_GOES_ON;
    if (want == FETCHSESSION_GOES_ON) {
        apply(session, &mine->ask);
        session->epoch += 1;
        if (session->count == 0) { want = FETCHSESSION_EMPTY; }
    }
    CHECK(verdict == want);
    if (verdict == FETCHSESSION_WAITS) {
        it.turn += 1;
        mine->turn = it.turn;
        mine->session = index_of(session);
    }
    if (verdict == FETCHSESSION_EMPTY) { session->is_gone = true; }
    if (verdict != FETCHSESSION_GOES_ON) { return; }
    learn(session);
    use(session);
    check_list(session, list);
    struct model_list *lent = &it.lists[free_list];
    *lent = (struct model_list){.list = list, .session = index_of(session), .ask = index, .epoch = session->epoch};
    for (uint32_t i = 0; i < list->count; i++) {
        lent->order[i] = session->items[i].topic << 8 | (uint32_t)session->items[i].partition;
    }
}

/* Of the newest sessions one, gone or not; or none that ever was. */
static int32_t take_id(struct input *input, bool *uses_ids_out, int32_t *epoch_out)
{
    uint8_t which = take_u8(input);
    *uses_ids_out = false;
    *epoch_out = 1;
    if (it.count == 0 || which == 255) { return which; }
    const struct model_session *session = &it.all[it.count - 1 - which % base_min_u64(it.count, 8)];
    *uses_ids_out = session->uses_ids;
    *epoch_out = session->epoch;
    return session->id;
}

static bool has_free_list(void)
{
    uint32_t lent = 0;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < LISTS_MAX; i++) { lent += it.lists[i].list != NULL ? 1 : 0; }
    for (uint32_t i = 0; i < ASKS_MAX; i++) { waiting += it.asks[i].is_waiting ? 1 : 0; }
    return lent < LISTS_MAX - 1 && lent + waiting < ASKS_MAX;
}

static void fetch(struct input *input, uint8_t how)
{
    uint32_t index = 0;
    while (index < ASKS_MAX && it.asks[index].is_taken) { index += 1; }
    if (index == ASKS_MAX || !has_free_list()) { return; }
    struct model_ask *mine = &it.asks[index];
    bool uses_ids;
    int32_t epoch;
    int32_t id = take_id(input, &uses_ids, &epoch);
    if ((how & 7) == 7) { uses_ids = !uses_ids; }
    if ((how & 24) == 24) { epoch += (how & 32) != 0 ? 1 : -1; }
    uint64_t user = 1 + take_u8(input) % USERS;
    uint32_t count = take_items(input, uses_ids, false, mine->items);
    const struct model_session *session = live(id);
    if (session != NULL && session->count + count > ITEMS_MAX) { count = 0; }
    uint32_t forgotten = take_items(input, uses_ids, false, mine->forgotten);
    mine->ask = (struct fetchsession_ask){.user = user,
                                          .id = id,
                                          .epoch = epoch,
                                          .uses_ids = uses_ids,
                                          .items = mine->items,
                                          .count = count,
                                          .forgotten = mine->forgotten,
                                          .forgotten_count = forgotten};
    begin_ask(index);
}

/* ---- telling, ending ------------------------------------------------------------------------------------------------------- */

/* What the model says of one item that was found so; true: it is told. */
static bool told(struct model_session *session, uint32_t key, const struct fetchsession_item *item)
{
    uint32_t at = find_followed(session, key >> 8, (int32_t)(key & 0xff));
    CHECK(at != NONE); /* no fetch has gone on with it since */
    struct followed *followed = &session->items[at];
    bool is_told = item->has_records || item->error != 0 || followed->watermark != item->watermark ||
                   followed->log_start != item->log_start;
    followed->watermark = item->error != 0 ? -1 : item->watermark;
    followed->log_start = item->log_start;
    if (item->has_records) {
        struct followed moved = *followed;
        take_out(session, at);
        session->items[session->count] = moved;
        session->count += 1;
    }
    return is_told;
}

static void judge(struct input *input, struct model_list *lent)
{
    if (lent->list == NULL || lent->is_judged) { return; }
    struct fetchsession_list *list = lent->list;
    for (uint32_t i = 0; i < list->count; i++) {
        uint8_t found = take_u8(input);
        struct fetchsession_item *item = &list->items[i];
        item->error = (found & 7) == 7 ? 1 : 0;
        item->has_records = item->error == 0 && (found & 7) == 6;
        item->watermark = found >> 5;
        item->log_start = found >> 6;
    }
    struct model_session *session = &it.all[lent->session];
    bool is_current = session->epoch == lent->epoch;
    CHECK(fetchsession_judge(it.sessions, list) == is_current);
    lent->is_judged = true;
    for (uint32_t i = 0; is_current && i < list->count; i++) {
        bool is_told = told(session, lent->order[i], &list->items[i]);
        CHECK(list->items[i].is_told == is_told);
    }
    if (it.is_told) { fprintf(stderr, "judged %u: %s\n", list->count, is_current ? "told" : "another went on"); }
}

/* The one that has waited longest of those whose turn it is; NONE. */
static uint32_t whose_turn(uint32_t session)
{
    uint32_t first = NONE;
    for (uint32_t i = 0; i < ASKS_MAX; i++) {
        const struct model_ask *mine = &it.asks[i];
        if (!mine->is_waiting || mine->session != session || has_list(session, mine->ask.user)) { continue; }
        if (first == NONE || mine->turn < it.asks[first].turn) { first = i; }
    }
    return first;
}

static void end(struct model_list *lent)
{
    if (lent->list == NULL) { return; }
    uint32_t session = lent->session;
    uint32_t room_slot = fetchsession_end(it.sessions, lent->list);
    it.asks[lent->ask].is_taken = false;
    lent->list = NULL;
    for (uint32_t want = whose_turn(session); want != NONE; want = whose_turn(session)) {
        struct fetchsession_ask *ask = fetchsession_next(it.sessions, room_slot);
        CHECK(ask == &it.asks[want].ask);
        it.asks[want].is_waiting = false;
        begin_ask(want);
        check_all();
    }
    bool is_held = !it.all[session].is_gone;
    for (uint32_t i = 0; i < LISTS_MAX; i++) {
        is_held = is_held || (it.lists[i].list != NULL && it.lists[i].session == session);
    }
    if (is_held) { CHECK(fetchsession_next(it.sessions, room_slot) == NULL); } /* else the slot is another's */
}

static void operate(struct input *input)
{
    uint8_t word = take_u8(input);
    uint8_t how = word / 8;
    switch (word % 8) {
    case 0: open_session(input, how); break;
    case 1:
    case 2: fetch(input, how); break;
    case 3: judge(input, &it.lists[how % LISTS_MAX]); break;
    case 4: end(&it.lists[how % LISTS_MAX]); break;
    case 5: {
        bool uses_ids;
        int32_t epoch;
        int32_t id = take_id(input, &uses_ids, &epoch);
        fetchsession_close(it.sessions, id);
        struct model_session *session = live(id);
        if (session != NULL) { session->is_gone = true; }
        break;
    }
    case 6: it.now_ms += (uint64_t)how * how * 4; break;
    default: know(how % TOPICS, (how & 16) != 0); break;
    }
    check_all();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {.at = data, .left = size};
    begin_world(take_u8(&input));
    size_t room_bytes = base_pages_room_bytes(it.pages, BASE_REPLICATION);
    for (uint32_t i = 0; i < OPERATIONS_MAX && input.left > 0; i++) { operate(&input); }
    for (bool is_any = true; is_any;) { /* who waited may have a list now */
        is_any = false;
        for (uint32_t i = 0; i < LISTS_MAX; i++) {
            is_any = is_any || it.lists[i].list != NULL;
            end(&it.lists[i]);
        }
    }
    CHECK(fetchsession_is_quiet(it.sessions));
    for (uint32_t i = 0; i < it.count; i++) {
        if (!it.all[i].is_gone) { fetchsession_close(it.sessions, it.all[i].id); }
        it.all[i].is_gone = true;
        check_all();
    }
    struct fetchsession_view view;
    fetchsession_view(it.sessions, &view);
    CHECK(view.bytes == 0 && view.sessions == 0);
    CHECK(base_pages_room_bytes(it.pages, BASE_REPLICATION) == room_bytes);
    return 0;
}
