/* controller.c: the queue of requests, the round that decides them together, and what a commit or a failure does.
 *
 * Room    core/controller.
 *
 * A REQUEST   WAITING -decided, with records-> PROPOSED -committed or failed-> ANSWERED -pulled-> free
 *             WAITING -decided, without records-> ANSWERED
 * A round takes waiting requests in order and ends before the first that touches what the round touches, or does not fit. Where one
 * waits for a larger block than there is, those behind it that ask for producer ids, which touch nothing, are decided all the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "controller/controller__room.h"
#include "wire/kafka/alter_configs.h"

#define DICE_OF_TOPIC_IDS 1u
#define ROUND_BYTES_MIN   ((size_t)64 << 10)
#define SCRATCH_BYTES     ((size_t)CONTROLLER_RECORD_BYTES_MAX * (KAFKA_ARENA_FACTOR + 2))

struct pending {
    struct base_link link;
    struct controller_request request;
    const void *response;
    size_t block_bytes_min; /* it has not fitted a smaller one by itself, and is not tried again in one */
};

struct controller {
    struct controller_config config;
    struct base_pages *pages;
    struct metadata *image;
    struct base_pool requests;
    struct base_list waiting;
    struct base_list proposed;
    struct base_list answered;
    struct controller__round round;
    struct base_prng dice;
    uint8_t *scratch;
    int64_t ids_next; /* of the block of producer ids that is committed and ours */
    int64_t ids_end;
    uint32_t ids_waiting; /* requests for producer ids, of those that wait */
    bool is_outstanding;  /* the proposal was pulled */
    bool is_broken;       /* the log has failed: nothing is decided any more */
    bool is_growth_refused;
};

size_t controller_arena_bytes(const struct controller_config *config)
{
    size_t touched = sizeof(struct controller__touched) + 2 * 3 * sizeof(struct base_map_cell);
    return sizeof(struct controller) + 8192 + (sizeof(struct pending) + 16 + 8) * config->requests_max +
           touched * CONTROLLER__TOUCHED_MAX + SCRATCH_BYTES;
}

enum base_rc controller_create(struct base_arena *arena, struct base_pages *pages,
                               const struct controller_config *config, struct metadata *image,
                               struct controller **controller_out)
{
    CHECK(config->requests_max > 0);
    CHECK(config->partitions_default > 0);
    CHECK(config->replication_default > 0);
    CHECK(config->proposal_bytes_max >= 65536);
    struct controller *controller = base_arena_take_array(arena, 1, sizeof *controller);
    if (controller == NULL) { return BASE_FULL; }
    controller->config = *config;
    controller->pages = pages;
    controller->image = image;
    controller->scratch = base_arena_take(arena, SCRATCH_BYTES);
    controller->round.touched = base_arena_take(arena, CONTROLLER__TOUCHED_MAX * sizeof(struct controller__touched));
    if (controller->scratch == NULL || controller->round.touched == NULL ||
        base_map_create(arena, CONTROLLER__TOUCHED_MAX, &controller->round.touched_map) != BASE_OK ||
        base_map_create(arena, CONTROLLER__TOUCHED_MAX, &controller->round.folded_map) != BASE_OK ||
        base_pool_create(arena, sizeof(struct pending), config->requests_max, &controller->requests) != BASE_OK) {
        return BASE_FULL;
    }
    base_list_init(&controller->waiting);
    base_list_init(&controller->proposed);
    base_list_init(&controller->answered);
    base_prng_init(&controller->dice, config->seed, DICE_OF_TOPIC_IDS);
    *controller_out = controller;
    return BASE_OK;
}

enum base_rc controller_submit(struct controller *controller, const struct controller_request *request)
{
    CHECK(request->request != NULL);
    CHECK(request->arena != NULL);
    uint32_t slot = base_pool_take(&controller->requests);
    if (slot == BASE_POOL_NONE) { return BASE_FULL; }
    struct pending *pending = base_pool_at(&controller->requests, slot);
    pending->request = *request;
    pending->block_bytes_min = ROUND_BYTES_MIN;
    controller->ids_waiting += request->kind == CONTROLLER_INIT_PRODUCER_ID ? 1 : 0;
    base_list_push_back(&controller->waiting, &pending->link);
    return BASE_OK;
}

/* ---- what a round touches ----------------------------------------------------------------------------------------- */

static uint64_t name_hash(struct base_slice name) { return base_hash_bytes(name.at, name.size_bytes, 0); }

static uint64_t folded_hash(struct base_slice name)
{
    uint8_t folded[METADATA_TOPIC_NAME_MAX];
    if (name.size_bytes > sizeof folded) { return name_hash(name); } /* it is refused anyway */
    for (size_t i = 0; i < name.size_bytes; i++) { folded[i] = name.at[i] == '.' ? '_' : name.at[i]; }
    return base_hash_bytes(folded, name.size_bytes, 0);
}

static struct controller__touched *find_named(const struct controller__round *round, struct base_slice name,
                                              uint64_t hash)
{
    for (uint32_t at = base_map_first(&round->touched_map, hash); at != BASE_MAP_NONE;
         at = base_map_next(&round->touched_map, hash, at)) {
        struct controller__touched *touched = &round->touched[base_map_value(&round->touched_map, at)];
        if (base_slice_equal(touched->name, name)) { return touched; }
    }
    return NULL;
}

static struct controller__touched *find_folded(const struct controller__round *round, struct base_slice name,
                                               uint64_t hash)
{
    for (uint32_t at = base_map_first(&round->folded_map, hash); at != BASE_MAP_NONE;
         at = base_map_next(&round->folded_map, hash, at)) {
        struct controller__touched *touched = &round->touched[base_map_value(&round->folded_map, at)];
        if (metadata_names_collide(touched->name, name)) { return touched; }
    }
    return NULL;
}

struct controller__touched *controller__find_touched(const struct controller__decision *decision,
                                                     struct base_slice name)
{
    struct controller__touched *touched = find_named(decision->round, name, name_hash(name));
    return touched != NULL && touched->request == decision->request_number ? touched : NULL;
}

const struct controller__touched *controller__find_colliding(const struct controller__decision *decision,
                                                             struct base_slice name)
{
    const struct controller__touched *touched = find_folded(decision->round, name, folded_hash(name));
    return touched != NULL && touched->request == decision->request_number ? touched : NULL;
}

static void must_insert(struct base_map *map, uint64_t hash, uint32_t index)
{
    enum base_rc rc = base_map_insert(map, hash, index);
    CHECK(rc == BASE_OK); /* as many as the table */
}

/* COLLIDING: another name of this request that differs in '.' and '_' alone. TAKEN: it must wait for the next round. */
enum controller__touch controller__touch(struct controller__decision *decision, struct base_slice name)
{
    struct controller__round *round = decision->round;
    struct controller__touched new = {.hash = name_hash(name),
                                      .folded_hash = folded_hash(name),
                                      .name = name,
                                      .request = decision->request_number,
                                      .count = 1};
    const struct controller__touched *colliding = find_folded(round, name, new.folded_hash);
    if (colliding != NULL && colliding->request != decision->request_number) {
        decision->must_wait = true;
        return CONTROLLER__TAKEN;
    }
    struct controller__touched *same = find_named(round, name, new.hash);
    if (same != NULL) {
        same->count += 1;
        return CONTROLLER__AGAIN;
    }
    if (round->touched_count == CONTROLLER__TOUCHED_MAX) {
        decision->must_wait = true;
        return CONTROLLER__TAKEN;
    }
    uint32_t index = round->touched_count;
    round->touched_count += 1;
    new.is_first = colliding == NULL;
    round->touched[index] = new;
    must_insert(&round->touched_map, new.hash, index);
    if (new.is_first) { must_insert(&round->folded_map, new.folded_hash, index); }
    return new.is_first ? CONTROLLER__NEW : CONTROLLER__COLLIDING;
}

/* The newest first: the first of those that collide goes after the others. */
static void untouch(struct controller__round *round, uint32_t count)
{
    while (round->touched_count > count) {
        round->touched_count -= 1;
        const struct controller__touched *touched = &round->touched[round->touched_count];
        base_map_remove(&round->touched_map, touched->hash, round->touched_count);
        if (touched->is_first) { base_map_remove(&round->folded_map, touched->folded_hash, round->touched_count); }
    }
}

/* ---- producer ids ------------------------------------------------------------------------------------------------- */

/* Idempotent producers get an id and epoch 0, whatever they had before, as in Kafka. Ids come in blocks that a record makes ours;
 * what is left of a block when the node stops is lost, which is cheap. */
static const void *init_producer_id(struct controller *controller, struct controller__decision *decision)
{
    const struct kafka_init_producer_id_request *request = decision->request;
    struct controller__round *round = decision->round;
    struct kafka_init_producer_id_response *response = kafka_init_producer_id_response_take(decision->arena, 1);
    if (response == NULL) {
        decision->is_arena_full = true;
        return NULL;
    }
    kafka_init_producer_id_response_init(response);
    response->producer_epoch = -1;
    bool has_id = request->producer_id != -1;
    bool has_epoch = request->producer_epoch != -1;
    /* No transactions yet: no retriable code, or it waits for ever. An id and its epoch are told together, or neither. */
    if (!kafka_text_is_null(request->transactional_id) || has_id != has_epoch) {
        response->error_code = KAFKA_ERROR_INVALID_REQUEST;
        return response;
    }
    if (controller->ids_next < controller->ids_end) {
        response->producer_id = controller->ids_next;
        response->producer_epoch = 0;
        controller->ids_next += 1; /* volatile: the block is committed already */
        return response;
    }
    if (!round->has_ids) {
        int64_t first = metadata_next_producer_id(decision->image);
        if (first > INT64_MAX - CONTROLLER_PRODUCER_IDS) {
            response->error_code = KAFKA_ERROR_UNKNOWN_SERVER_ERROR; /* the last id was given out */
            return response;
        }
        const struct metadata_broker *self = metadata_broker(decision->image, controller->config.node_id);
        struct kafka_producer_ids_record message;
        kafka_producer_ids_record_init(&message);
        message.broker_id = controller->config.node_id;
        message.broker_epoch = self == NULL ? -1 : self->epoch;
        message.next_producer_id = first + CONTROLLER_PRODUCER_IDS;
        controller__propose(round, 15, 0, &message);
        round->has_ids = true;
        round->ids_first = first;
        round->ids_used = 0;
    }
    if (round->ids_used == CONTROLLER_PRODUCER_IDS) {
        decision->must_wait = true;
        return NULL;
    }
    response->producer_id = round->ids_first + round->ids_used;
    response->producer_epoch = 0;
    round->ids_used += 1;
    return response;
}

/* ---- this node ---------------------------------------------------------------------------------------------------- */

static const void *register_node(struct controller__decision *decision)
{
    const struct controller_register *request = decision->request;
    struct controller_registered *response = base_arena_take(decision->arena, sizeof *response);
    if (response == NULL) {
        decision->is_arena_full = true;
        return NULL;
    }
    *response = (struct controller_registered){.error_code = 0};
    if (!metadata_has_room_for_broker(decision->image, request->broker.id)) {
        response->error_code = KAFKA_ERROR_POLICY_VIOLATION;
        return response;
    }
    static const char feature_name[] = "metadata.version";
    if (request->metadata_level > 0 && metadata_feature_level(decision->image, base_slice_text(feature_name)) == 0) {
        struct kafka_feature_level_record message;
        kafka_feature_level_record_init(&message);
        message.name = kafka_text_words(feature_name);
        message.feature_level = request->metadata_level;
        controller__propose(decision->round, 12, 0, &message);
    }
    struct metadata_broker broker = request->broker;
    broker.epoch = metadata_next_broker_epoch(decision->image);
    controller__propose_broker(decision->round, &broker);
    response->broker_epoch = broker.epoch;
    return response;
}

static const void *raise_epochs(struct controller__decision *decision)
{
    const struct controller_raise *request = decision->request;
    CHECK(request->count <= CONTROLLER_RAISES_MAX);
    struct controller_raised *response = base_arena_take(decision->arena, sizeof *response);
    if (response == NULL) {
        decision->is_arena_full = true;
        return NULL;
    }
    *response = (struct controller_raised){.error_code = 0};
    for (uint32_t i = 0; i < request->count; i++) {
        const struct metadata_partition *partition = metadata_partition_by_id(decision->image, request->ids[i]);
        bool is_there =
            partition != NULL && partition->leader_epoch < INT32_MAX && partition->partition_epoch < INT32_MAX;
        if (is_there) { controller__propose_epoch(decision->round, partition); }
    }
    return response;
}

/* ---- deciding ----------------------------------------------------------------------------------------------------- */

static const void *decide(struct controller *controller, enum controller_kind kind,
                          struct controller__decision *decision)
{
    switch (kind) {
    case CONTROLLER_CREATE_TOPICS: return controller__create_topics(decision);
    case CONTROLLER_DELETE_TOPICS: return controller__delete_topics(decision);
    case CONTROLLER_CREATE_PARTITIONS: return controller__create_partitions(decision);
    case CONTROLLER_ALTER_CONFIGS: return controller__alter_configs(decision);
    case CONTROLLER_REPLACE_CONFIGS: return controller__replace_configs(decision);
    case CONTROLLER_INIT_PRODUCER_ID: return init_producer_id(controller, decision);
    case CONTROLLER_AUTO_CREATE: return controller__auto_create(decision);
    case CONTROLLER_REGISTER: return register_node(decision);
    case CONTROLLER_RAISE_EPOCHS: return raise_epochs(decision);
    }
    UNREACHABLE();
}

/* What was to be done did not happen, or nobody knows: each part of the answer that says it did says so now. */
static void turn_into_failure(enum controller_kind kind, const void *response)
{
    const int16_t code = KAFKA_ERROR_KAFKA_STORAGE_ERROR;
    switch (kind) {
    case CONTROLLER_CREATE_TOPICS: {
        const struct kafka_create_topics_response *it = response;
        for (int32_t i = 0; i < it->topics_count; i++) {
            if (it->topics[i].error_code == 0) { it->topics[i].error_code = code; }
        }
        return;
    }
    case CONTROLLER_DELETE_TOPICS: {
        const struct kafka_delete_topics_response *it = response;
        for (int32_t i = 0; i < it->responses_count; i++) {
            if (it->responses[i].error_code == 0) { it->responses[i].error_code = code; }
        }
        return;
    }
    case CONTROLLER_CREATE_PARTITIONS: {
        const struct kafka_create_partitions_response *it = response;
        for (int32_t i = 0; i < it->results_count; i++) {
            if (it->results[i].error_code == 0) { it->results[i].error_code = code; }
        }
        return;
    }
    case CONTROLLER_ALTER_CONFIGS: {
        const struct kafka_incremental_alter_configs_response *it = response;
        for (int32_t i = 0; i < it->responses_count; i++) {
            if (it->responses[i].error_code == 0) { it->responses[i].error_code = code; }
        }
        return;
    }
    case CONTROLLER_REPLACE_CONFIGS: {
        const struct kafka_alter_configs_response *it = response;
        for (int32_t i = 0; i < it->responses_count; i++) {
            if (it->responses[i].error_code == 0) { it->responses[i].error_code = code; }
        }
        return;
    }
    case CONTROLLER_INIT_PRODUCER_ID: {
        struct kafka_init_producer_id_response *it = (struct kafka_init_producer_id_response *)(uintptr_t)response;
        if (it->error_code == 0) {
            it->error_code = code;
            it->producer_id = -1;
            it->producer_epoch = -1;
        }
        return;
    }
    case CONTROLLER_AUTO_CREATE: {
        const struct controller_auto_created *it = response;
        for (uint32_t i = 0; i < it->error_codes_count; i++) {
            if (it->error_codes[i] == 0) { it->error_codes[i] = code; }
        }
        return;
    }
    case CONTROLLER_REGISTER: ((struct controller_registered *)(uintptr_t)response)->error_code = code; return;
    case CONTROLLER_RAISE_EPOCHS: ((struct controller_raised *)(uintptr_t)response)->error_code = code; return;
    }
}

static void end_round(struct controller *controller)
{
    struct controller__round *round = &controller->round;
    untouch(round, 0);
    base_pages_give(controller->pages, round->block);
    round->block = NULL;
    controller->is_outstanding = false;
}

/* False: there is no block of at least so much. */
static bool begin_round(struct controller *controller, size_t bytes_min)
{
    struct controller__round *round = &controller->round;
    size_t bytes = controller->config.proposal_bytes_max;
    round->block = base_pages_take(controller->pages, BASE_CONTROL, bytes);
    /* What is kept for control may lie in pieces: most rounds need little. */
    while (round->block == NULL && bytes / 2 >= bytes_min) {
        bytes /= 2;
        round->block = base_pages_take(controller->pages, BASE_CONTROL, bytes);
    }
    if (round->block == NULL) { return false; }
    round->block_bytes = bytes;
    round->bytes_at = bytes;
    round->records_count = 0;
    round->topics = 0;
    round->partitions = 0;
    round->configs = 0;
    round->has_ids = false;
    round->is_full = false;
    CHECK(round->touched_count == 0);
    return true;
}

/* Gives back what the round has left: its batch must find memory, too, and no other is kept for control. */
static void shrink_round(struct controller *controller)
{
    struct controller__round *round = &controller->round;
    size_t records_bytes = (size_t)round->records_count * sizeof(struct controller_record);
    size_t values_bytes = round->block_bytes - round->bytes_at;
    struct controller_record *records = (struct controller_record *)(void *)round->block;
    for (uint32_t i = 0; i < round->records_count; i++) { records[i].value.at -= round->bytes_at - records_bytes; }
    memmove(round->block + records_bytes, round->block + round->bytes_at, values_bytes);
    round->bytes_at = records_bytes;
    round->block_bytes = records_bytes + values_bytes;
    base_pages_shrink(controller->pages, round->block, round->block_bytes);
}

static bool makes_more(enum controller_kind kind)
{
    return kind == CONTROLLER_CREATE_TOPICS || kind == CONTROLLER_CREATE_PARTITIONS || kind == CONTROLLER_AUTO_CREATE;
}

/* Decides one request. False: the round ends before it. */
static bool decide_one(struct controller *controller, struct pending *pending, uint32_t number)
{
    struct controller__round *round = &controller->round;
    const struct controller__round before = *round;
    size_t arena_mark = base_arena_mark(pending->request.arena);
    struct controller__decision decision = {.image = controller->image,
                                            .config = &controller->config,
                                            .round = round,
                                            .dice = &controller->dice,
                                            .arena = pending->request.arena,
                                            .request = pending->request.request,
                                            .version = pending->request.version,
                                            .request_number = number};
    const void *response = decide(controller, pending->request.kind, &decision);
    bool is_alone = before.records_count == 0 && before.touched_count == 0;
    bool must_wait = decision.must_wait || round->is_full;
    if (must_wait || decision.is_arena_full) { /* nothing of it stays */
        untouch(round, before.touched_count);
        *round = before;
        base_arena_reset(pending->request.arena, arena_mark);
        response = NULL;
    }
    bool may_fit_later = before.block_bytes < controller->config.proposal_bytes_max;
    if (must_wait && is_alone && may_fit_later) { pending->block_bytes_min = 2 * before.block_bytes; }
    if (must_wait && (!is_alone || may_fit_later)) { return false; }
    if (must_wait) { /* it does not even fit alone: nothing of it is done, and its answer says so */
        decision.must_wait = false;
        decision.is_arena_full = false;
        decision.is_too_large = true;
        response = decide(controller, pending->request.kind, &decision);
        CHECK(round->records_count == 0 && round->touched_count == 0);
        if (decision.is_arena_full) {
            base_arena_reset(pending->request.arena, arena_mark);
            response = NULL;
        }
    }
    base_list_remove(&controller->waiting, &pending->link);
    controller->ids_waiting -= pending->request.kind == CONTROLLER_INIT_PRODUCER_ID ? 1 : 0;
    pending->response = response;
    bool has_records =
        round->records_count > before.records_count || (round->has_ids && round->ids_used > before.ids_used);
    if (has_records &&
        (controller->is_broken || (controller->is_growth_refused && makes_more(pending->request.kind)))) {
        turn_into_failure(pending->request.kind, response);
        untouch(round, before.touched_count);
        *round = before;
        has_records = false;
    }
    if (!has_records) { untouch(round, before.touched_count); } /* errors and dry runs keep nobody waiting */
    base_list_push_back(has_records ? &controller->proposed : &controller->answered, &pending->link);
    return true;
}

static void decide_round(struct controller *controller)
{
    struct base_link *link = base_list_first(&controller->waiting);
    size_t bytes_min = BASE_ITEM(link, struct pending, link)->block_bytes_min;
    bool is_held_up = !begin_round(controller, bytes_min); /* asked again at the next poll */
    if (is_held_up && controller->ids_waiting == 0) { return; }
    if (is_held_up && !begin_round(controller, ROUND_BYTES_MIN)) { return; }
    for (uint32_t number = 1; link != NULL; number++) {
        struct pending *pending = BASE_ITEM(link, struct pending, link);
        link = base_list_next(&controller->waiting, link);
        if (is_held_up && pending->request.kind != CONTROLLER_INIT_PRODUCER_ID) { continue; }
        if (decide_one(controller, pending, number)) { continue; }
        if (pending->block_bytes_min <= controller->round.block_bytes || controller->ids_waiting == 0) { break; }
        is_held_up = true;
    }
    if (controller->round.records_count == 0) {
        end_round(controller);
    } else {
        shrink_round(controller);
    }
}

bool controller_poll(struct controller *controller, struct controller_out *item_out)
{
    if (controller->round.block == NULL && !base_list_is_empty(&controller->waiting)) { decide_round(controller); }
    struct base_link *link = base_list_pop_front(&controller->answered);
    if (link != NULL) {
        struct pending *pending = BASE_ITEM(link, struct pending, link);
        *item_out = (struct controller_out){.kind = CONTROLLER_OUT_ANSWER,
                                            .token = pending->request.token,
                                            .request_kind = pending->request.kind,
                                            .response = pending->response};
        base_pool_give(&controller->requests, base_pool_index(&controller->requests, pending));
        return true;
    }
    if (controller->round.block == NULL || controller->is_outstanding) { return false; }
    controller->is_outstanding = true;
    *item_out =
        (struct controller_out){.kind = CONTROLLER_OUT_PROPOSE,
                                .records = (const struct controller_record *)(const void *)controller->round.block,
                                .records_count = controller->round.records_count};
    return true;
}

/* ---- the end of a proposal ---------------------------------------------------------------------------------------- */

static void answer_proposed(struct controller *controller)
{
    for (struct base_link *link; (link = base_list_pop_front(&controller->proposed)) != NULL;) {
        base_list_push_back(&controller->answered, link);
    }
}

void controller_committed(struct controller *controller)
{
    CHECK(controller->is_outstanding);
    const struct controller__round *round = &controller->round;
    const struct controller_record *records = (const struct controller_record *)(const void *)round->block;
    struct base_arena scratch;
    base_arena_init(&scratch, controller->scratch, SCRATCH_BYTES);
    for (uint32_t i = 0; i < round->records_count; i++) {
        enum base_rc rc = controller_apply(controller->image, records[i].value, &scratch);
        CHECK(rc == BASE_OK); /* limits were looked at when it was decided; applying can't be refused */
    }
    if (round->has_ids) {
        controller->ids_next = round->ids_first + round->ids_used;
        controller->ids_end = round->ids_first + CONTROLLER_PRODUCER_IDS;
    }
    answer_proposed(controller);
    end_round(controller);
    CHECK_SLOW(controller->config.is_check_slow, metadata_is_sound(controller->image));
}

void controller_refuse_growth(struct controller *controller, bool is_refused)
{
    controller->is_growth_refused = is_refused;
}

void controller_failed(struct controller *controller, enum controller_failure failure)
{
    CHECK(controller->is_outstanding);
    if (failure == CONTROLLER_BROKEN) { controller->is_broken = true; }
    for (struct base_link *link = base_list_first(&controller->proposed); link != NULL;
         link = base_list_next(&controller->proposed, link)) {
        const struct pending *pending = BASE_ITEM(link, struct pending, link);
        turn_into_failure(pending->request.kind, pending->response);
    }
    answer_proposed(controller);
    end_round(controller);
}

bool controller_has_proposal(const struct controller *controller) { return controller->is_outstanding; }
bool controller_is_quiet(const struct controller *controller)
{
    return controller->requests.taken_count == 0 && controller->round.block == NULL;
}
