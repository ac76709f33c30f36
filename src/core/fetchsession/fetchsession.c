/* fetchsession.c: see fetchsession.h. The slots: ids, epochs, who goes when there is no room.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fetchsession__table.h"

#define EVICTIONS_FOR_BYTES 8 /* sessions that go at most to make room for one */

struct session {
    struct table table;
    struct base_link used; /* on sessions->used, the one unused longest first */
    /* Keys: the privilege, how many partitions, the id; as Kafka's EvictableKey. */
    struct base_heap_item any;      /* may be evicted by any larger one */
    struct base_heap_item follower; /* may be evicted by a follower's */
    int32_t id;
    int32_t epoch; /* that the next fetch must name */
    bool is_follower;
    bool is_gone; /* it stays for those that go on with it, and nobody finds it */
    uint64_t opened_ms;
    uint64_t used_ms;
    uint32_t counted;         /* of sessions->partitions */
    struct base_list lists;   /* lent */
    struct base_list waiting; /* asks */
};

struct fetchsessions {
    struct fetchsession_config config;
    struct base_pages *pages;
    struct base_prng dice;
    uint64_t hash_seed;
    struct base_pool slots;
    struct base_map by_id;
    struct base_list used;
    struct base_heap any;
    struct base_heap follower;
    uint32_t partitions;
    uint32_t lists;
    uint32_t waiting;
    uint64_t opened, evicted, refused;
    size_t bytes;
};

static uint32_t id_range(uint32_t shards) { return (uint32_t)INT32_MAX / shards; }

static uint64_t hash_of(int32_t id) { return base_hash_u64((uint32_t)id); }

enum base_rc fetchsession_create(struct base_arena *arena, struct base_pages *pages,
                                 const struct fetchsession_config *config, struct fetchsessions **sessions_out)
{
    CHECK(config->shards > 0 && config->shard < config->shards);
    struct fetchsessions *sessions = base_arena_take_array(arena, 1, sizeof *sessions);
    if (sessions == NULL) { return BASE_FULL; }
    sessions->config = *config;
    sessions->pages = pages;
    base_prng_init(&sessions->dice, config->seed, UINT64_C(0x66657463686573)); /* "fetches" */
    sessions->hash_seed = base_prng_u64(&sessions->dice);
    /* Each takes a page at least, so that there are never more. */
    uint64_t most = base_min_u64(config->slots_max, config->bytes_max / BASE_PAGE_BYTES);
    sessions->config.slots_max = (uint32_t)base_min_u64(most, INT32_MAX / 2);
    uint32_t slots = sessions->config.slots_max + config->spare_max;
    base_list_init(&sessions->used);
    if (base_pool_create(arena, sizeof(struct session), slots, &sessions->slots) != BASE_OK ||
        base_map_create(arena, sessions->config.slots_max, &sessions->by_id) != BASE_OK ||
        base_heap_create(arena, sessions->config.slots_max, &sessions->any) != BASE_OK ||
        base_heap_create(arena, sessions->config.slots_max, &sessions->follower) != BASE_OK) {
        return BASE_FULL;
    }
    *sessions_out = sessions;
    return BASE_OK;
}

uint32_t fetchsession_shard(int32_t id, uint32_t shards)
{
    if (id <= FETCHSESSION_NONE) { return shards; }
    return (uint32_t)base_min_u64((uint32_t)id / id_range(shards), shards);
}

static struct session *session_at(const struct fetchsessions *sessions, uint32_t slot)
{
    return base_pool_at(&sessions->slots, slot);
}

static struct session *session_of(const struct fetchsessions *sessions, int32_t id)
{
    uint64_t hash = hash_of(id);
    const struct base_map *map = &sessions->by_id;
    for (uint32_t at = base_map_first(map, hash); at != BASE_MAP_NONE; at = base_map_next(map, hash, at)) {
        struct session *session = session_at(sessions, base_map_value(map, at));
        if (session->id == id) { return session; }
    }
    return NULL;
}

static int32_t new_id(struct fetchsessions *sessions)
{
    uint32_t range = id_range(sessions->config.shards);
    uint32_t from = sessions->config.shard * range;
    int32_t id;
    do {
        id = (int32_t)(from + (uint32_t)base_prng_below(&sessions->dice, range));
    } while (id == FETCHSESSION_NONE || session_of(sessions, id) != NULL);
    return id;
}

static int32_t epoch_after(int32_t epoch) { return epoch == INT32_MAX ? 1 : epoch + 1; }

/* ---- which ones may go ---- */

static uint64_t evictable_key(bool is_follower, uint32_t partitions, int32_t id)
{
    return (uint64_t)is_follower << 63 | (uint64_t)base_min_u64(partitions, INT32_MAX) << 32 | (uint32_t)id;
}

static void drop_keys(struct fetchsessions *sessions, struct session *session)
{
    if (base_heap_holds(&session->any)) { base_heap_remove(&sessions->any, &session->any); }
    if (base_heap_holds(&session->follower)) { base_heap_remove(&sessions->follower, &session->follower); }
}

static void put_key(struct base_heap *heap, struct base_heap_item *item, uint64_t key)
{
    enum base_rc rc = base_heap_insert(heap, item, key);
    CHECK(rc == BASE_OK); /* it holds as many as there are sessions */
}

static void touch(struct fetchsessions *sessions, struct session *session, uint64_t now_ms)
{
    if (base_link_is_on(&session->used)) { base_list_remove(&sessions->used, &session->used); }
    base_list_push_back(&sessions->used, &session->used);
    session->used_ms = now_ms;
    drop_keys(sessions, session);
    uint64_t key = evictable_key(session->is_follower, session->table.count, session->id);
    bool is_old = now_ms - session->opened_ms > sessions->config.eviction_ms;
    if (is_old || !session->is_follower) { put_key(&sessions->follower, &session->follower, key); }
    if (is_old) { put_key(&sessions->any, &session->any, key); }
    sessions->partitions = sessions->partitions - session->counted + session->table.count;
    session->counted = session->table.count;
}

static void free_if_done(struct fetchsessions *sessions, struct session *session)
{
    if (!session->is_gone || !base_list_is_empty(&session->lists) || !base_list_is_empty(&session->waiting)) { return; }
    if (session->table.block != NULL) { sessions->bytes -= session->table.block_bytes; }
    fetchsession__free(&session->table, sessions->pages);
    base_pool_give(&sessions->slots, base_pool_index(&sessions->slots, session));
}

static void remove_session(struct fetchsessions *sessions, struct session *session)
{
    CHECK(!session->is_gone);
    base_map_remove(&sessions->by_id, hash_of(session->id), base_pool_index(&sessions->slots, session));
    base_list_remove(&sessions->used, &session->used);
    drop_keys(sessions, session);
    sessions->partitions -= session->counted;
    session->is_gone = true;
    free_if_done(sessions, session);
}

/* False: nobody may go for a session of so many partitions. */
static bool try_evict(struct fetchsessions *sessions, bool is_follower, uint32_t partitions, uint64_t now_ms)
{
    struct base_link *link = base_list_first(&sessions->used);
    if (link == NULL) { return false; }
    struct session *session = BASE_ITEM(link, struct session, used);
    if (now_ms - session->used_ms <= sessions->config.eviction_ms) {
        const struct base_heap *heap = is_follower ? &sessions->follower : &sessions->any;
        struct base_heap_item *item = base_heap_first(heap);
        if (item == NULL || evictable_key(is_follower, partitions, FETCHSESSION_NONE) < item->key) { return false; }
        session = is_follower ? BASE_ITEM(item, struct session, follower) : BASE_ITEM(item, struct session, any);
    }
    remove_session(sessions, session);
    sessions->evicted += 1;
    return true;
}

/* ---- opening, closing ---- */

static bool make_room(struct fetchsessions *sessions, bool is_follower, uint32_t count, size_t bytes, uint64_t now_ms)
{
    if (bytes > sessions->config.bytes_max) { return false; }
    if (sessions->by_id.count >= sessions->config.slots_max && !try_evict(sessions, is_follower, count, now_ms)) {
        return false;
    }
    for (uint32_t i = 0; i < EVICTIONS_FOR_BYTES; i++) {
        if (sessions->bytes + bytes <= sessions->config.bytes_max) { return true; }
        if (!try_evict(sessions, is_follower, count, now_ms)) { return false; }
    }
    return sessions->bytes + bytes <= sessions->config.bytes_max;
}

int32_t fetchsession_open(struct fetchsessions *sessions, const struct fetchsession_item *items, uint32_t count,
                          bool uses_ids, bool is_follower, uint64_t now_ms)
{
    if (sessions->config.slots_max == 0) { return FETCHSESSION_NONE; }
    struct table table = fetchsession__table(uses_ids, sessions->hash_seed);
    struct table_need need = fetchsession__need(&table, items, count);
    bool has_room = make_room(sessions, is_follower, count, fetchsession__bytes_with(&table, need), now_ms) &&
                    sessions->slots.taken_count < sessions->slots.slots_max &&
                    fetchsession__reserve(&table, sessions->pages, need) == BASE_OK;
    if (!has_room) {
        sessions->refused += 1;
        return FETCHSESSION_NONE;
    }
    for (uint32_t is_missing = 0; is_missing < 2; is_missing++) { /* in the order in which they are told */
        for (uint32_t i = 0; i < count; i++) {
            if (items[i].is_missing != (is_missing != 0)) { continue; }
            (void)fetchsession__add(&table, &items[i]); /* found by its key */
        }
    }
    uint32_t slot = base_pool_take(&sessions->slots);
    CHECK(slot != BASE_POOL_NONE);
    struct session *session = session_at(sessions, slot);
    *session = (struct session){.table = table,
                                .id = new_id(sessions),
                                .epoch = epoch_after(FETCHSESSION_EPOCH_INITIAL),
                                .is_follower = is_follower,
                                .opened_ms = now_ms};
    base_list_init(&session->lists);
    base_list_init(&session->waiting);
    sessions->bytes += table.block_bytes;
    sessions->opened += 1;
    enum base_rc rc = base_map_insert(&sessions->by_id, hash_of(session->id), slot);
    CHECK(rc == BASE_OK); /* there was a slot */
    touch(sessions, session, now_ms);
    return session->id;
}

void fetchsession_close(struct fetchsessions *sessions, int32_t id)
{
    struct session *session = session_of(sessions, id);
    if (session != NULL) { remove_session(sessions, session); }
}

/* ---- going on ---- */

/* By a fetch that the same connection has asked before. */
static bool is_gone_on_with_before(const struct session *session, const struct fetchsession_ask *ask)
{
    for (struct base_link *link = base_list_first(&session->lists); link != NULL;
         link = base_list_next(&session->lists, link)) {
        const struct fetchsession_list *list = BASE_ITEM(link, struct fetchsession_list, link);
        if (list->user == ask->user && list->order <= ask->order) { return true; }
    }
    return false;
}

static size_t list_bytes(const struct table *table, struct table_need need)
{
    size_t items = (size_t)table->count + need.parts;
    return sizeof(struct fetchsession_list) + items * sizeof(struct fetchsession_item) + table->names_used +
           need.name_bytes + 64;
}

/* How many bytes the names that learn_names may learn can take: of what is followed, and of what is new, which this shard may know by now. */
static uint32_t nameless_bytes(const struct table *table, const struct fetchsession_ask *ask)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; table->uses_ids && i < table->topics_used; i++) {
        if (table->topics[i].parts > 0 && table->topics[i].name_bytes == 0) { bytes += METADATA_TOPIC_NAME_MAX; }
    }
    for (uint32_t i = 0; table->uses_ids && i < ask->count; i++) {
        bool is_next_topic = i == 0 || !fetchsession_is_same_topic(true, &ask->items[i - 1], &ask->items[i]);
        if (is_next_topic && ask->items[i].name.size_bytes == 0) { bytes += METADATA_TOPIC_NAME_MAX; }
    }
    return bytes;
}

/* A topic that was not there when its id was followed first gets its name when it is. */
static void learn_names(struct table *table, const struct metadata *image)
{
    for (uint32_t i = 0; table->uses_ids && i < table->topics_used; i++) {
        struct table_topic *topic = &table->topics[i];
        if (topic->parts == 0 || topic->name_bytes > 0) { continue; }
        const struct metadata_topic *known = metadata_topic_by_id(image, topic->id);
        if (known == NULL || known->name_bytes > table->names_max - table->names_used) { continue; }
        topic->name_at = table->names_used;
        topic->name_bytes = known->name_bytes;
        memcpy(table->names + table->names_used, known->name, known->name_bytes);
        table->names_used += known->name_bytes;
        table->names_live += known->name_bytes;
    }
}

static void apply(struct table *table, const struct fetchsession_ask *ask)
{
    for (uint32_t i = 0; i < ask->count; i++) {
        const struct fetchsession_item *item = &ask->items[i];
        uint32_t at = fetchsession__find(table, item);
        if (at == TABLE_NONE) { at = fetchsession__add(table, item); }
        struct table_part *part = &table->parts[at];
        part->bytes_max = item->bytes_max;
        part->leader_epoch = item->leader_epoch;
        part->offset = item->offset;
    }
    for (uint32_t i = 0; i < ask->forgotten_count; i++) {
        uint32_t at = fetchsession__find(table, &ask->forgotten[i]);
        if (at != TABLE_NONE) { fetchsession__remove(table, at); }
    }
}

/* The copy lives by itself: other fetches may change the session while this one is under way. */
static void fill_list(const struct table *table, struct fetchsession_list *list, size_t block_bytes)
{
    struct base_arena arena;
    base_arena_init(&arena, list + 1, block_bytes - sizeof *list);
    list->items = base_arena_take(&arena, table->count * sizeof *list->items);
    uint8_t *names = base_arena_take_bytes(&arena, table->names_used);
    CHECK(list->items != NULL && names != NULL); /* list_bytes counts what is taken here */
    if (table->names_used > 0) { memcpy(names, table->names, table->names_used); }
    for (uint32_t at = table->first; at != TABLE_NONE; at = table->parts[at].next) {
        const struct table_part *part = &table->parts[at];
        const struct table_topic *topic = &table->topics[part->topic];
        list->items[list->count] =
            (struct fetchsession_item){.name = base_slice_of(names + topic->name_at, topic->name_bytes),
                                       .id = topic->id,
                                       .partition = part->partition,
                                       .bytes_max = part->bytes_max,
                                       .leader_epoch = part->leader_epoch,
                                       .offset = part->offset,
                                       .slot = at};
        list->count += 1;
    }
    CHECK(list->count == table->count);
}

/* Room for what is new, and for the list. */
static enum fetchsession_verdict reserve(struct fetchsessions *sessions, struct session *session,
                                         const struct fetchsession_ask *ask, struct fetchsession_list **list_out,
                                         size_t *block_bytes_out)
{
    struct table *table = &session->table;
    struct table_need need = fetchsession__need(table, ask->items, ask->count);
    need.name_bytes += nameless_bytes(table, ask);
    size_t before = table->block_bytes;
    size_t after = fetchsession__has_room(table, need) ? before : fetchsession__bytes_with(table, need);
    if (after > before && sessions->bytes + (after - before) > sessions->config.bytes_max) {
        remove_session(sessions, session); /* the client begins anew, with as much as there is room for */
        sessions->refused += 1;
        return FETCHSESSION_NOT_FOUND;
    }
    *block_bytes_out = list_bytes(table, need);
    struct fetchsession_list *list = base_pages_take(sessions->pages, BASE_REPLICATION, *block_bytes_out);
    if (list == NULL) { return FETCHSESSION_NO_ROOM; }
    if (fetchsession__reserve(table, sessions->pages, need) != BASE_OK) {
        base_pages_give(sessions->pages, list);
        return FETCHSESSION_NO_ROOM;
    }
    sessions->bytes += table->block_bytes - before;
    *list_out = list;
    return FETCHSESSION_GOES_ON;
}

enum fetchsession_verdict fetchsession_begin(struct fetchsessions *sessions, struct fetchsession_ask *ask,
                                             const struct metadata *image, uint64_t now_ms,
                                             struct fetchsession_list **list_out)
{
    struct session *session = session_of(sessions, ask->id);
    if (session == NULL) { return FETCHSESSION_NOT_FOUND; }
    if (is_gone_on_with_before(session, ask)) {
        base_list_push_back(&session->waiting, &ask->link);
        sessions->waiting += 1;
        return FETCHSESSION_WAITS;
    }
    if (session->epoch != ask->epoch) { return FETCHSESSION_BAD_EPOCH; }
    if (session->table.uses_ids != ask->uses_ids) { return FETCHSESSION_BAD_KIND; }
    struct fetchsession_list *list = NULL;
    size_t block_bytes = 0;
    enum fetchsession_verdict verdict = reserve(sessions, session, ask, &list, &block_bytes);
    if (verdict != FETCHSESSION_GOES_ON) { return verdict; }
    apply(&session->table, ask);
    session->epoch = epoch_after(session->epoch); /* of an empty one too: other fetches find nothing to tell any more */
    if (session->table.count == 0) {
        base_pages_give(sessions->pages, list);
        remove_session(sessions, session);
        return FETCHSESSION_EMPTY;
    }
    learn_names(&session->table, image);
    touch(sessions, session, now_ms);
    *list = (struct fetchsession_list){.user = ask->user,
                                       .order = ask->order,
                                       .session = base_pool_index(&sessions->slots, session),
                                       .epoch = session->epoch,
                                       .id = session->id};
    fill_list(&session->table, list, block_bytes);
    base_list_push_back(&session->lists, &list->link);
    sessions->lists += 1;
    *list_out = list;
    return FETCHSESSION_GOES_ON;
}

bool fetchsession_judge(struct fetchsessions *sessions, struct fetchsession_list *list)
{
    struct session *session = session_at(sessions, list->session);
    if (session->epoch != list->epoch) { return false; }
    for (uint32_t i = 0; i < list->count; i++) { /* nobody has changed the table: the slots are those of the list */
        struct fetchsession_item *item = &list->items[i];
        struct table_part *part = &session->table.parts[item->slot];
        bool is_failed = item->error != 0;
        item->is_told =
            item->has_records || is_failed || part->watermark != item->watermark || part->log_start != item->log_start;
        part->watermark = is_failed ? -1 : item->watermark; /* that an error has ended is news */
        part->log_start = item->log_start;
        if (item->has_records) { fetchsession__move_to_end(&session->table, item->slot); }
    }
    return true;
}

uint32_t fetchsession_end(struct fetchsessions *sessions, struct fetchsession_list *list)
{
    uint32_t slot = list->session;
    struct session *session = session_at(sessions, slot);
    base_list_remove(&session->lists, &list->link);
    CHECK(sessions->lists > 0);
    sessions->lists -= 1;
    base_pages_give(sessions->pages, list);
    free_if_done(sessions, session);
    return slot;
}

struct fetchsession_ask *fetchsession_next(struct fetchsessions *sessions, uint32_t slot)
{
    if (!base_pool_is_taken(&sessions->slots, slot)) { return NULL; }
    struct session *session = session_at(sessions, slot);
    for (struct base_link *link = base_list_first(&session->waiting); link != NULL;
         link = base_list_next(&session->waiting, link)) {
        struct fetchsession_ask *ask = BASE_ITEM(link, struct fetchsession_ask, link);
        if (is_gone_on_with_before(session, ask)) { continue; }
        base_list_remove(&session->waiting, link);
        CHECK(sessions->waiting > 0);
        sessions->waiting -= 1;
        free_if_done(sessions, session);
        return ask;
    }
    return NULL;
}

/* ---- views ---- */

void fetchsession_view(const struct fetchsessions *sessions, struct fetchsession_view *view_out)
{
    *view_out = (struct fetchsession_view){.sessions = sessions->by_id.count,
                                           .partitions = sessions->partitions,
                                           .lists = sessions->lists,
                                           .opened = sessions->opened,
                                           .evicted = sessions->evicted,
                                           .refused = sessions->refused,
                                           .bytes = sessions->bytes};
}

bool fetchsession_is_quiet(const struct fetchsessions *sessions)
{
    return sessions->lists == 0 && sessions->waiting == 0;
}

uint32_t fetchsession_blocks(const struct fetchsessions *sessions)
{
    uint32_t count = 0;
    for (struct base_link *link = base_list_first(&sessions->used); link != NULL;
         link = base_list_next(&sessions->used, link)) {
        count += BASE_ITEM(link, struct session, used)->table.block != NULL ? 1 : 0;
    }
    return count;
}

bool fetchsession_is_sound(const struct fetchsessions *sessions)
{
    uint32_t count = 0, partitions = 0;
    size_t bytes = 0;
    uint64_t used_ms = 0;
    for (struct base_link *link = base_list_first(&sessions->used); link != NULL;
         link = base_list_next(&sessions->used, link)) {
        const struct session *session = BASE_ITEM(link, struct session, used);
        bool is_found = session_of(sessions, session->id) == session && !session->is_gone;
        if (!is_found || session->used_ms < used_ms || session->counted != session->table.count ||
            !fetchsession__table_is_sound(&session->table) ||
            fetchsession_shard(session->id, sessions->config.shards) != sessions->config.shard) {
            return false;
        }
        used_ms = session->used_ms;
        count += 1;
        partitions += session->counted;
        bytes += session->table.block_bytes;
    }
    /* One that is gone holds its bytes while a fetch goes on with it, or waits to. */
    bool may_be_gone = sessions->lists > 0 || sessions->waiting > 0;
    bool is_all_found = may_be_gone ? bytes <= sessions->bytes : bytes == sessions->bytes;
    return count == sessions->by_id.count && partitions == sessions->partitions && is_all_found &&
           count <= sessions->config.slots_max;
}
