/* client_calls.c: any request to any broker.
 *
 * A call is kept in the highest version it may have, because the version of the node that will take it is not known yet.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

#include "wire/kafka/create_topics.h"
#include "wire/kafka/delete_groups.h"
#include "wire/kafka/delete_topics.h"
#include "wire/kafka/describe_groups.h"
#include "wire/kafka/find_coordinator.h"
#include "wire/kafka/list_groups.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_fetch.h"

enum base_rc client_call(struct client *client, const struct client_call *call)
{
    const struct kafka_api_info *info = kafka_api_info(call->api_key);
    struct kafka_size size;
    if (info == NULL) { return BASE_BAD; }
    int16_t version = info->version_stable;
    if (call->version_max > 0 && call->version_max < version) { version = call->version_max; }
    if (kafka_size(info->request, call->request, version, &size) != BASE_OK) { return BASE_BAD; }
    if (client->is_closing || size.splice_bytes > 0) { return BASE_FULL; }
    uint8_t *body = base_pages_take(client->pages, BASE_CONTROL, size.memory_bytes + 1);
    uint32_t slot = body == NULL ? BASE_POOL_NONE : base_pool_take(&client->calls);
    if (slot == BASE_POOL_NONE) {
        client__give(client, body);
        return BASE_FULL;
    }
    struct kafka_writer writer;
    kafka_writer_init(&writer, body, size.memory_bytes);
    enum base_rc rc = kafka_encode(info->request, call->request, version, &writer);
    CHECK(rc == BASE_OK); /* it was sized */
    struct call *kept = base_pool_at(&client->calls, slot);
    uint64_t timeout_ms = call->timeout_ms == 0 ? client->config.request_timeout_ms : call->timeout_ms;
    kept->token = call->token;
    kept->api_key = call->api_key;
    kept->target = call->target;
    kept->node = call->node;
    kept->deadline_ns = base_deadline_ns(client->now_ns, timeout_ms * MS);
    kept->version_max = version;
    kept->body = body;
    kept->body_bytes = (uint32_t)size.memory_bytes;
    base_list_push_back(&client->calls_waiting, &kept->link);
    return BASE_OK;
}

static void end_call(struct client *client, struct call *call, int16_t error, enum port_rc rc, bool is_indefinite)
{
    call->error = error;
    call->rc = rc;
    call->is_indefinite = is_indefinite;
    client__give(client, call->body);
    call->body = NULL;
    base_list_remove(&client->calls_waiting, &call->link);
    base_list_push_back(&client->calls_done, &call->link);
}

/* ---- differences between versions ---- */

static enum base_rc name_topics(struct kafka_delete_topics_request *request, int16_t version, struct base_arena *arena)
{
    if (version >= 6 || request->topics_count <= 0) { return BASE_OK; }
    request->topic_names = base_arena_take_array(arena, (size_t)request->topics_count, sizeof *request->topic_names);
    CHECK(request->topic_names != NULL); /* extra bytes were asked for */
    request->topic_names_count = request->topics_count;
    for (int32_t i = 0; i < request->topics_count; i++) {
        if (kafka_text_is_null(request->topics[i].name)) { return BASE_BAD; } /* by id: a newer thing */
        request->topic_names[i] = request->topics[i].name;
    }
    request->topics_count = 0;
    return BASE_OK;
}

/* Before version 4 the client chooses the defaults. */
static void choose_defaults(struct kafka_create_topics_request *request, int16_t version)
{
    for (int32_t i = 0; version < 4 && i < request->topics_count; i++) {
        bool is_assigned = request->topics[i].assignments_count > 0;
        if (!is_assigned && request->topics[i].num_partitions < 0) { request->topics[i].num_partitions = 1; }
        if (!is_assigned && request->topics[i].replication_factor < 0) { request->topics[i].replication_factor = 1; }
    }
}

/* Before version 4 one coordinator is asked for at a time. */
static enum base_rc name_coordinator(struct kafka_find_coordinator_request *request, int16_t version)
{
    if (version >= 4) { return BASE_OK; }
    if (request->coordinator_keys_count != 1) { return BASE_BAD; }
    request->key = request->coordinator_keys[0];
    request->coordinator_keys_count = 0;
    return BASE_OK;
}

/* Before version 8 the offsets of one group are asked for at a time. */
static enum base_rc name_group(struct kafka_offset_fetch_request *request, int16_t version, struct base_arena *arena)
{
    if (version >= 8) { return BASE_OK; }
    if (request->groups_count != 1) { return BASE_BAD; }
    const struct kafka_offset_fetch_request_offset_fetch_request_group *group = &request->groups[0];
    request->group_id = group->group_id;
    request->groups_count = 0;
    request->topics_count = group->topics_count;
    if (group->topics_count <= 0) { return BASE_OK; }
    request->topics = base_arena_take_array(arena, (size_t)group->topics_count, sizeof *request->topics);
    CHECK(request->topics != NULL); /* extra bytes were asked for */
    for (int32_t i = 0; i < group->topics_count; i++) {
        request->topics[i].name = group->topics[i].name;
        request->topics[i].partition_indexes = group->topics[i].partition_indexes;
        request->topics[i].partition_indexes_count = group->topics[i].partition_indexes_count;
    }
    return BASE_OK;
}

static enum base_rc adapt(struct call *call, void *request, int16_t version, struct base_arena *arena)
{
    if (call->api_key == KAFKA_API_DELETE_TOPICS) { return name_topics(request, version, arena); }
    if (call->api_key == KAFKA_API_FIND_COORDINATOR) { return name_coordinator(request, version); }
    if (call->api_key == KAFKA_API_OFFSET_FETCH) { return name_group(request, version, arena); }
    if (call->api_key == KAFKA_API_CREATE_TOPICS) { choose_defaults(request, version); }
    return BASE_OK;
}

/* ---- sending ---- */

static struct node *node_for(struct client *client, const struct call *call)
{
    int32_t id = call->target == CLIENT_TO_NODE ? call->node : client->controller;
    if (call->target == CLIENT_TO_ANY) { return client__node_any(client); }
    if (client__node_by_id(client, id) == NULL) {
        client__want_metadata(client);
        return NULL;
    }
    return client__node_use(client, id);
}

static void send_call(struct client *client, struct call *call, struct node *node, struct port_out *out)
{
    const struct kafka_api_info *info = kafka_api_info(call->api_key);
    int16_t version = client__version(node, call->api_key, call->version_max);
    if (version < 0) {
        end_call(client, call, KAFKA_ERROR_UNSUPPORTED_VERSION, PORT_OK, false);
        return;
    }
    void *request = NULL;
    uint8_t *memory = NULL;
    struct base_arena arena;
    struct ask *ask = NULL;
    size_t extra_bytes = call->body_bytes * sizeof(struct kafka_text) + 256;
    enum base_rc rc = client__decode(client, info->request, base_slice_of(call->body, call->body_bytes),
                                     call->version_max, extra_bytes, &request, &memory, &arena);
    CHECK(rc != BASE_BAD); /* our own encoding */
    if (rc == BASE_FULL) {
        client__later(client);
        return;
    }
    uint64_t left_ms = (call->deadline_ns - client->now_ns) / MS + 1;
    if (adapt(call, request, version, &arena) != BASE_OK) {
        rc = BASE_BAD;
    } else {
        rc = client__send(client, node, ASK_CALL, call->api_key, version, request, false,
                          base_min_u64(left_ms, client->config.request_timeout_ms), out, &ask);
    }
    client__give(client, memory);
    if (rc == BASE_FULL) { client__later(client); }
    if (rc == BASE_BAD) { end_call(client, call, KAFKA_ERROR_UNSUPPORTED_VERSION, PORT_OK, false); }
    if (rc != BASE_OK) { return; }
    ask->item = base_pool_index(&client->calls, call);
    call->is_sent = true;
    call->version = version;
}

void client__turn_calls(struct client *client, struct port_out *out)
{
    struct base_link *next = base_list_first(&client->calls_waiting);
    while (next != NULL) {
        struct call *call = BASE_ITEM(next, struct call, link);
        next = base_list_next(&client->calls_waiting, next);
        if (call->is_sent) { continue; } /* its request has a deadline of its own */
        if (call->deadline_ns <= client->now_ns || client->is_closing) {
            end_call(client, call, KAFKA_ERROR_NONE, client->is_closing ? PORT_CLOSED : PORT_TIMED_OUT, false);
            continue;
        }
        client__alarm(client, call->deadline_ns);
        if (call->retry_ns > client->now_ns) {
            client__alarm(client, call->retry_ns);
            continue;
        }
        struct node *node = node_for(client, call);
        if (node == NULL || !client__may_work(client, out) || !client__can_send(client, node, out)) { continue; }
        send_call(client, call, node, out);
    }
}

/* ---- answers ---- */

/* The whole request was refused by a broker that is not the controller any more: nothing was done. */
static bool is_not_controller(const struct call *call)
{
    int16_t error = KAFKA_ERROR_NONE;
    if (call->api_key == KAFKA_API_CREATE_TOPICS) {
        const struct kafka_create_topics_response *answer = call->answer;
        if (answer->topics_count > 0) { error = answer->topics[0].error_code; }
    } else if (call->api_key == KAFKA_API_DELETE_TOPICS) {
        const struct kafka_delete_topics_response *answer = call->answer;
        if (answer->responses_count > 0) { error = answer->responses[0].error_code; }
    }
    return error == KAFKA_ERROR_NOT_CONTROLLER;
}

static int16_t error_of_coordinator(const struct kafka_find_coordinator_response *answer, int16_t version)
{
    if (version < 4) { return answer->error_code; }
    return answer->coordinators_count > 0 ? answer->coordinators[0].error_code : KAFKA_ERROR_NONE;
}

static int16_t error_of_offsets(const struct kafka_offset_fetch_response *answer, int16_t version)
{
    if (version < 8) { return answer->error_code; }
    return answer->groups_count > 0 ? answer->groups[0].error_code : KAFKA_ERROR_NONE;
}

static int16_t error_of_commit(const struct kafka_offset_commit_response *answer)
{
    bool has_one = answer->topics_count > 0 && answer->topics[0].partitions_count > 0;
    return has_one ? answer->topics[0].partitions[0].error_code : KAFKA_ERROR_NONE;
}

/* The coordinator of the one group that it is about is being chosen, or still loads: nothing was done. */
static bool is_coordinator_not_ready(const struct call *call)
{
    int16_t error = KAFKA_ERROR_NONE;
    if (call->api_key == KAFKA_API_FIND_COORDINATOR) {
        error = error_of_coordinator(call->answer, call->version);
    } else if (call->api_key == KAFKA_API_OFFSET_FETCH) {
        error = error_of_offsets(call->answer, call->version);
    } else if (call->api_key == KAFKA_API_OFFSET_COMMIT) {
        error = error_of_commit(call->answer);
    } else if (call->api_key == KAFKA_API_LIST_GROUPS) {
        error = ((const struct kafka_list_groups_response *)call->answer)->error_code;
    } else if (call->api_key == KAFKA_API_DESCRIBE_GROUPS) {
        const struct kafka_describe_groups_response *answer = call->answer;
        if (answer->groups_count == 1) { error = answer->groups[0].error_code; }
    } else if (call->api_key == KAFKA_API_DELETE_GROUPS) {
        const struct kafka_delete_groups_response *answer = call->answer;
        if (answer->results_count == 1) { error = answer->results[0].error_code; }
    }
    return error == KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS || error == KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE;
}

static void drop_answer(struct client *client, struct call *call)
{
    client__give(client, call->memory);
    client__give(client, call->frame);
    call->memory = NULL;
    call->frame = NULL;
    call->answer = NULL;
}

void client__on_call(struct client *client, const struct ask *ask, struct base_slice frame, struct base_slice body)
{
    struct call *call = base_pool_at(&client->calls, ask->item);
    void *answer = NULL;
    struct base_arena arena;
    call->frame = client__keep_frame(client, frame, &body);
    if (call->frame == NULL) {
        end_call(client, call, KAFKA_ERROR_NONE, PORT_NO_MEMORY, true);
        return;
    }
    enum base_rc rc = client__decode(client, kafka_response_message(call->api_key), body, call->version, 0, &answer,
                                     &call->memory, &arena);
    if (rc != BASE_OK) {
        call->memory = NULL;
        drop_answer(client, call);
        end_call(client, call, KAFKA_ERROR_NONE, rc == BASE_FULL ? PORT_NO_MEMORY : PORT_OTHER, true);
        return;
    }
    call->answer = answer;
    bool is_other_controller = call->target == CLIENT_TO_CONTROLLER && is_not_controller(call);
    if (is_other_controller || is_coordinator_not_ready(call)) {
        drop_answer(client, call);
        call->is_sent = false;
        call->retry_ns = base_deadline_ns(client->now_ns, client->config.retry_backoff_ms * MS);
        if (is_other_controller) { client__want_metadata(client); }
        return;
    }
    end_call(client, call, KAFKA_ERROR_NONE, PORT_OK, false);
}

void client__lost_call(struct client *client, const struct ask *ask, enum port_rc rc)
{
    end_call(client, base_pool_at(&client->calls, ask->item), KAFKA_ERROR_NONE, rc, true);
}

void client__forget_call(struct client *client)
{
    if (client->call_shown == NONE) { return; }
    struct call *call = base_pool_at(&client->calls, client->call_shown);
    drop_answer(client, call);
    base_pool_give(&client->calls, client->call_shown);
    client->call_shown = NONE;
}

bool client__poll_calls(struct client *client, struct client_result *result_out)
{
    struct base_link *link = base_list_pop_front(&client->calls_done);
    if (link == NULL) { return false; }
    struct call *call = BASE_ITEM(link, struct call, link);
    client->call_shown = base_pool_index(&client->calls, call);
    *result_out = (struct client_result){.kind = CLIENT_ANSWER,
                                         .token = call->token,
                                         .error = call->error,
                                         .rc = call->rc,
                                         .api_key = call->api_key,
                                         .version = call->version,
                                         .answer = call->answer,
                                         .partition = -1,
                                         .offset = -1,
                                         .is_indefinite = call->is_indefinite};
    return true;
}
