/* client.c: see client.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

#define IN_FLIGHT_MAX 16 /* of one connection: produce, a fetch, and the small ones */

void client_config_default(struct client_config *config)
{
    *config = (struct client_config){
        .client_id = base_slice_text("weir"),
        .token_tag = 1,
        .nodes_max = 16,
        .topics_max = 16,
        .partitions_max = 1024,
        .records_max = 65536,
        .batches_max = 1024,
        .calls_max = 8,
        .frame_bytes_max = 104857600,
        .opened_bytes_max = 104857600,
        .step_max = 64,
        .request_timeout_ms = 30000,
        .connect_timeout_ms = 10000,
        .retry_backoff_ms = 100,
        .reconnect_backoff_ms = 50,
        .reconnect_backoff_max_ms = 1000,
        .metadata_max_age_ms = 300000,
        .topic_missing_ms = 5000,
        .acks = CLIENT_ACKS_ALL,
        .idempotence = CLIENT_IDEMPOTENT_IF_ABLE,
        .compression = CODEC_NONE,
        .compression_level = CODEC_LEVEL_DEFAULT,
        .linger_ms = 5,
        .delivery_timeout_ms = 120000,
        .batch_bytes = 16384,
        .record_bytes_max = 1048576,
        .request_bytes = 1048576,
        .produce_in_flight_max = 5,
        .fetch_wait_ms = 500,
        .fetch_bytes_min = 1,
        .fetch_bytes_max = 52428800,
        .fetch_partition_bytes_max = 1048576,
        .uses_fetch_sessions = true,
        .is_crc_checked = true,
    };
}

static struct peers_config peers_config_of(const struct client_config *config)
{
    return (struct peers_config){.peers_max = config->nodes_max,
                                 .in_flight_max = IN_FLIGHT_MAX,
                                 .conn_slot_first = config->conn_slot_first,
                                 .token_tag = config->token_tag,
                                 .frame_bytes_max = config->frame_bytes_max,
                                 .connect_timeout_ns = config->connect_timeout_ms * MS,
                                 .backoff_ns = config->reconnect_backoff_ms * MS,
                                 .backoff_max_ns = config->reconnect_backoff_max_ms * MS,
                                 .seed = config->seed,
                                 .class = BASE_CONTROL};
}

static uint32_t asks_max(const struct client_config *config) { return config->nodes_max * IN_FLIGHT_MAX; }
static uint32_t fetched_max(const struct client_config *config) { return config->nodes_max * (FETCHED_OF_NODE + 1); }

static size_t tables_bytes(const struct client_config *config)
{
    struct peers_config peers = peers_config_of(config);
    size_t link_bytes = 64;
    size_t bytes = sizeof(struct client) + SCRATCH_BYTES + peers_arena_bytes(&peers);
    bytes += config->nodes_max * sizeof(struct node) + config->topics_max * sizeof(struct topic);
    bytes += config->partitions_max * (sizeof(struct part) + link_bytes);
    bytes += asks_max(config) * (sizeof(struct ask) + link_bytes);
    bytes += config->batches_max * (sizeof(struct batch) + link_bytes);
    bytes += config->records_max * (sizeof(struct cell) + sizeof(uint32_t));
    bytes += fetched_max(config) * (sizeof(struct fetched) + link_bytes);
    bytes += config->calls_max * (sizeof(struct call) + link_bytes);
    bytes += PEER_HOST_MAX * (CLIENT_BOOTSTRAP_MAX + 1);
    return (bytes + 16 * BASE_PAGE_BYTES - 1) / BASE_PAGE_BYTES * BASE_PAGE_BYTES;
}

/* Room to talk at all. Records that wait to be sent (BASE_CLIENTS) can't take what sending them needs (BASE_CONTROL): frames, what
 * is compressed, answers. */
#define PAGES_BYTES_MIN ((size_t)768 << 10)
#define RESERVED_BYTES  ((size_t)512 << 10)

size_t client_region_bytes_min(const struct client_config *config)
{
    return tables_bytes(config) + PAGES_BYTES_MIN + 2 * (size_t)config->record_bytes_max;
}

static bool is_good(const struct client_config *config)
{
    if (config->bootstrap_count == 0 || config->bootstrap_count > CLIENT_BOOTSTRAP_MAX) { return false; }
    if (config->bootstrap_count >= config->nodes_max) { return false; }
    if (config->client_id.size_bytes > PEER_HOST_MAX) { return false; }
    for (uint32_t i = 0; i < config->bootstrap_count; i++) {
        size_t bytes = config->bootstrap[i].host.size_bytes;
        if (bytes == 0 || bytes > PEER_HOST_MAX) { return false; }
    }
    return true;
}

static enum base_rc create_tables(struct client *client, struct base_arena *arena)
{
    const struct client_config *config = &client->config;
    client->nodes = base_arena_take_array(arena, config->nodes_max, sizeof(struct node));
    client->topics = base_arena_take_array(arena, config->topics_max, sizeof(struct topic));
    client->scratch = base_arena_take(arena, SCRATCH_BYTES);
    if (client->nodes == NULL || client->topics == NULL || client->scratch == NULL) { return BASE_FULL; }
    enum base_rc rc = base_pool_create(arena, sizeof(struct part), config->partitions_max, &client->parts);
    if (rc == BASE_OK) { rc = base_map_create(arena, config->partitions_max, &client->parts_by_place); }
    if (rc == BASE_OK) { rc = base_pool_create(arena, sizeof(struct ask), asks_max(config), &client->asks); }
    if (rc == BASE_OK) { rc = base_pool_create(arena, sizeof(struct batch), config->batches_max, &client->batches); }
    if (rc == BASE_OK) { rc = base_pool_create(arena, sizeof(struct cell), config->records_max, &client->cells); }
    if (rc == BASE_OK) {
        rc = base_pool_create(arena, sizeof(struct fetched), fetched_max(config), &client->fetched_pool);
    }
    if (rc == BASE_OK) { rc = base_pool_create(arena, sizeof(struct call), config->calls_max, &client->calls); }
    return rc;
}

/* Texts of the configuration move into the region. */
static bool keep_texts(struct client *client, struct base_arena *arena)
{
    uint8_t *id = base_arena_take_bytes(arena, client->config.client_id.size_bytes + 1);
    if (id == NULL) { return false; }
    memcpy(id, client->config.client_id.at, client->config.client_id.size_bytes);
    client->config.client_id.at = id;
    for (uint32_t i = 0; i < client->config.bootstrap_count; i++) {
        struct base_slice *host = &client->config.bootstrap[i].host;
        uint8_t *at = base_arena_take_bytes(arena, host->size_bytes);
        if (at == NULL) { return false; }
        memcpy(at, host->at, host->size_bytes);
        host->at = at;
    }
    return true;
}

static void init_lists(struct client *client)
{
    base_list_init(&client->busy);
    base_list_init(&client->done);
    base_list_init(&client->assigned);
    base_list_init(&client->fetched);
    base_list_init(&client->calls_waiting);
    base_list_init(&client->calls_done);
    base_list_init(&client->member.owned);
    base_list_init(&client->member.tells);
}

enum base_rc client_create(struct base_region region, const struct client_config *config, struct client **client_out)
{
    if (!is_good(config)) { return BASE_BAD; }
    CHECK(config->topics_max <= 1024); /* a metadata request of all fits the scratch */
    size_t front_bytes = tables_bytes(config);
    if (region.size_bytes < client_region_bytes_min(config)) { return BASE_FULL; }
    struct base_arena arena;
    base_arena_init_zeroed(&arena, region.at, front_bytes);
    struct client *client = base_arena_take_array(&arena, 1, sizeof *client);
    if (client == NULL) { return BASE_FULL; }
    client->config = *config;
    size_t reserves[BASE_CLASS_COUNT] = {[BASE_CONTROL] = RESERVED_BYTES + config->record_bytes_max};
    struct base_region rest = {.at = (uint8_t *)region.at + front_bytes, .size_bytes = region.size_bytes - front_bytes};
    struct peers_config peers = peers_config_of(config);
    if (create_tables(client, &arena) != BASE_OK || !keep_texts(client, &arena) ||
        base_pages_create(rest, reserves, &client->pages) != BASE_OK ||
        peers_create(&arena, &peers, client->pages, &client->peers) != BASE_OK) {
        return BASE_FULL;
    }
    base_prng_init(&client->prng, config->seed, 2);
    init_lists(client);
    client->controller = -1;
    client->call_shown = NONE;
    client->life = 1;
    client->is_idempotent = config->idempotence != CLIENT_NOT_IDEMPOTENT && config->acks == CLIENT_ACKS_ALL;
    client->is_metadata_wanted = true;
    client__nodes_init(client);
    *client_out = client;
    return BASE_OK;
}

void client_step(struct client *client, const struct port_event *event, struct port_out *out)
{
    CHECK(event->now_ns >= client->now_ns);
    client->now_ns = event->now_ns;
    client->wall_ms = event->wall_ms;
    client__forget_call(client);
    peers_step(client->peers, event, out);
    if (port_out_room(out) >= CLIENT_TURN_EFFECTS) { client__take_peer_events(client, out); }
}

static void close_nodes(struct client *client)
{
    for (uint32_t i = 0; i < client->config.nodes_max; i++) {
        struct node *node = &client->nodes[i];
        if (!node->is_used || node->state == NODE_CLOSED) { continue; }
        peer_close(client->peers, node->peer);
        node->state = NODE_CLOSED;
    }
}

/* Whether client_poll would say something, as far as can be told without doing its work. */
static bool has_results(const struct client *client)
{
    return !base_list_is_empty(&client->done) || !base_list_is_empty(&client->calls_done) ||
           !base_list_is_empty(&client->fetched) || !base_list_is_empty(&client->member.tells) ||
           client->member.is_end_to_tell || client__has_parked_end(client);
}

void client_turn(struct client *client, struct port_out *out)
{
    bool had_results = has_results(client);
    client->alarm_ns = UINT64_MAX;
    client->has_more = false;
    client->step_left = client->config.step_max;
    if (port_out_room(out) < CLIENT_TURN_EFFECTS) {
        out->wants_continue = true;
        peers_alarm(client->peers, out);
        return;
    }
    if (client->is_closing) {
        close_nodes(client);
        client__group_forget_join(client);
    }
    client__take_peer_events(client, out);
    client__turn_nodes(client);
    client__turn_calls(client, out);
    client__turn_group(client, out);
    client__turn_producer(client, out);
    client__turn_consumer(client, out);
    client__turn_metadata(client, out);
    client__take_peer_events(client, out); /* what was dialled or asked begins now */
    port_alarm(out, client->alarm_ns);
    peers_alarm(client->peers, out);
    if (client->has_more || client->has_news || (!had_results && has_results(client))) { out->wants_continue = true; }
    client->has_news = false;
}

void client_close(struct client *client)
{
    client->has_news = client->has_news || !client->is_closing; /* what can't be sent any more is to be polled */
    client->is_closing = true;
}

bool client_is_quiet(const struct client *client)
{
    return peers_is_quiet(client->peers) && !has_results(client) && client->records == 0 &&
           base_list_is_empty(&client->calls_waiting) && client->call_shown == NONE;
}

bool client_poll(struct client *client, struct client_result *result_out)
{
    client__forget_call(client);
    return client__poll_calls(client, result_out) || client__poll_done(client, result_out) ||
           client__poll_group(client, result_out) || client__poll_records(client, result_out);
}

void client_view(const struct client *client, struct client_view *view_out)
{
    *view_out = (struct client_view){.was_ready = client->was_ready,
                                     .connects_failed = client->connects_failed,
                                     .connect_rc = client->connect_rc,
                                     .controller = client->controller,
                                     .pages_used_bytes = base_pages_used_bytes(client->pages),
                                     .records = client->records};
    for (uint32_t i = 0; i < client->config.nodes_max; i++) {
        if (client->nodes[i].is_used && client->nodes[i].state == NODE_READY) { view_out->nodes_ready += 1; }
    }
}
