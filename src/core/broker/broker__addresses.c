/* broker__addresses.c: how many connections one address has, over all shards: max.connections.per.ip.
 *
 * Each address is counted by one shard, chosen by its hash. Whoever accepts a connection tells that shard, serves it meanwhile,
 * and closes it when told to. A connection that is turned away counts until it is gone: told to close twice in a row, an address
 * has never more than it may for long.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

struct address {
    uint8_t ip[16];
    uint32_t connections;
};

bool addresses_are_limited(const struct broker_config *config)
{
    return config->address_connections_max < INT32_MAX || config->address_limit_count > 0;
}

enum base_rc addresses_create(struct broker *broker, struct base_arena *arena)
{
    if (!addresses_are_limited(&broker->config)) { return BASE_OK; }
    uint64_t addresses_max =
        ((uint64_t)broker->config.connections_max + 1) * broker->config.shards; /* each from another */
    if (addresses_max > UINT32_MAX / 2) { return BASE_FULL; }
    enum base_rc rc = base_pool_create(arena, sizeof(struct address), (uint32_t)addresses_max, &broker->addresses);
    return rc != BASE_OK ? rc : base_map_create(arena, (uint32_t)addresses_max, &broker->addresses_by_ip);
}

static int32_t limit_of(const struct broker_config *config, const uint8_t ip[16])
{
    for (uint32_t i = 0; i < config->address_limit_count; i++) {
        if (memcmp(config->address_limits[i].ip, ip, 16) == 0) { return config->address_limits[i].connections_max; }
    }
    return config->address_connections_max;
}

static uint64_t hash_of(const uint8_t ip[16]) { return base_hash_bytes(ip, 16, 0); }

static void tell(struct broker *broker, enum message_kind kind, const struct conn_out *item, struct port_out *out)
{
    if (!addresses_are_limited(&broker->config)) { return; }
    const uint8_t *ip = item->address.ip;
    struct port_message message;
    message_begin(&message, (uint32_t)(hash_of(ip) % broker->config.shards), kind);
    memcpy(message.words, ip, 16);
    message.words[2] = (uint64_t)item->conn.slot << 32 | item->conn.generation;
    message_send(broker, &message, out);
}

void addresses_opened(struct broker *broker, const struct conn_out *item, struct port_out *out)
{
    tell(broker, MSG_OPENED, item, out);
}

void addresses_gone(struct broker *broker, const struct conn_out *item, struct port_out *out)
{
    tell(broker, MSG_GONE, item, out);
}

static uint32_t find(const struct broker *broker, const uint8_t ip[16])
{
    const struct base_map *map = &broker->addresses_by_ip;
    uint64_t hash = hash_of(ip);
    for (uint32_t at = base_map_first(map, hash); at != BASE_MAP_NONE; at = base_map_next(map, hash, at)) {
        const struct address *address = base_pool_at(&broker->addresses, base_map_value(map, at));
        if (memcmp(address->ip, ip, 16) == 0) { return base_map_value(map, at); }
    }
    return BASE_POOL_NONE;
}

static uint32_t add(struct broker *broker, const uint8_t ip[16])
{
    uint32_t index = base_pool_take(&broker->addresses);
    CHECK(index != BASE_POOL_NONE); /* there are as many as connections */
    struct address *address = base_pool_at(&broker->addresses, index);
    memcpy(address->ip, ip, 16);
    enum base_rc rc = base_map_insert(&broker->addresses_by_ip, hash_of(ip), index);
    CHECK(rc == BASE_OK);
    return index;
}

static void count_opened(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    uint8_t ip[16];
    memcpy(ip, message->words, 16);
    uint32_t index = find(broker, ip);
    if (index == BASE_POOL_NONE) { index = add(broker, ip); }
    struct address *address = base_pool_at(&broker->addresses, index);
    address->connections += 1;
    int32_t limit = limit_of(&broker->config, ip);
    if (address->connections <= (uint32_t)limit) { return; }
    struct port_message answer = *message;
    answer.to = message->from;
    answer.kind = MSG_TURN_AWAY;
    answer.words[3] = (uint64_t)(uint32_t)limit;
    message_send(broker, &answer, out);
}

static void count_gone(struct broker *broker, const struct port_message *message)
{
    uint8_t ip[16];
    memcpy(ip, message->words, 16);
    uint32_t index = find(broker, ip);
    CHECK(index != BASE_POOL_NONE);
    struct address *address = base_pool_at(&broker->addresses, index);
    CHECK(address->connections > 0);
    address->connections -= 1;
    if (address->connections > 0) { return; }
    base_map_remove(&broker->addresses_by_ip, hash_of(ip), index);
    base_pool_give(&broker->addresses, index);
}

static void turn_away(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct port_conn conn = {.slot = (uint32_t)(message->words[2] >> 32), .generation = (uint32_t)message->words[2]};
    if (!conn_is_open(broker->conns, conn)) { return; }
    struct port_address peer = {0};
    memcpy(peer.ip, message->words, 16);
    char words[47];
    port_address_to_text(peer, words);
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "connection from ");
    base_text_add(&text, words);
    base_text_add(&text, " turned away: that address has the ");
    base_text_add_i64(&text, (int32_t)(uint32_t)message->words[3]);
    base_text_add(&text, " that max.connections.per.ip allows it");
    port_log_end(out, PORT_INFO, "broker", &text);
    conn_close(broker->conns, conn, out);
}

void addresses_message(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    switch (message->kind) {
    case MSG_OPENED: count_opened(broker, message, out); return;
    case MSG_GONE: count_gone(broker, message); return;
    case MSG_TURN_AWAY: turn_away(broker, message, out); return;
    default: UNREACHABLE();
    }
}
