/* node.c: see node.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "node.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void node_init(struct node *node, uint32_t step_max, uint64_t journal_bytes)
{
    struct broker_config *config = &node->config;
    broker_config_default(config);
    memcpy(config->cluster_id, NODE_CLUSTER_ID, sizeof NODE_CLUSTER_ID);
    config->listener_count = 1;
    memcpy(config->listeners[0].name, "PLAINTEXT", sizeof "PLAINTEXT");
    config->connections_max = 64;
    config->in_flight_max = 16;
    config->files_max = 24;
    config->topics_max = 64;
    config->partitions_max = 256;
    config->producers_max = 512; /* more than all producers times all partitions: none is forgotten for want of room */
    config->request_bytes_max = 1 << 20;
    config->journal_bytes_max = journal_bytes;
    config->journal_file_bytes = NODE_JOURNAL_FILE_BYTES;
    config->inline_bytes_max = 4 << 10;
    config->decompressed_bytes_max = 1 << 20;
    config->session_slots_max = 6;
    config->session_eviction_ms = 2000;
    config->session_bytes_max = 256 << 10;
    config->step_max = step_max;
    config->is_check_slow = true;
}

static void add_pair(struct node *node, const char *name, const char *value)
{
    uint32_t at = node->config.pair_count++;
    CHECK(at < NODE_PAIRS_MAX && strlen(value) < NODE_VALUE_BYTES);
    memcpy(node->values[at], value, strlen(value) + 1);
    node->pairs[at] = (struct broker_pair){.name = base_slice_text(name), .value = base_slice_text(node->values[at])};
    node->config.pairs = node->pairs;
}

static void add_number(struct node *node, const char *name, uint64_t number)
{
    char text[NODE_VALUE_BYTES];
    (void)snprintf(text, sizeof text, "%" PRIu64, number); /* 20 digits at most */
    add_pair(node, name, text);
}

void node_forget_time(struct node *node)
{
    add_pair(node, "log.retention.ms", "-1");
    add_pair(node, "log.message.timestamp.after.max.ms", "9223372036854775807");
    node->config.producer_expiry_ms = INT64_MAX;
}

void node_retain(struct node *node, int64_t retention_ms)
{
    CHECK(retention_ms >= 0);
    add_number(node, "log.retention.ms", (uint64_t)retention_ms);
}

/* Half of the boots have what is the default everywhere. */
static uint32_t draw_or_none(struct base_prng *dice, uint32_t from, uint32_t more)
{
    bool is_set = base_prng_chance(dice, 1, 2);
    uint32_t number = from + (uint32_t)base_prng_below(dice, more);
    return is_set ? number : 0;
}

/* The same for all shards of a boot. */
static void draw_settings(struct node *node, uint32_t boot_count, struct broker_config *config)
{
    struct base_prng dice;
    base_prng_init(&dice, node->seed, boot_count);
    bool is_page_cache = base_prng_chance(&dice, 1, 2);
    uint32_t flush_messages = draw_or_none(&dice, 1, 40);
    uint32_t flush_ms = draw_or_none(&dice, 10, 1000);
    uint32_t index_bytes = draw_or_none(&dice, 36, 400);
    bool is_preallocated = base_prng_chance(&dice, 1, 4);
    uint32_t roll_ms = draw_or_none(&dice, 1000, 20000);
    uint32_t inline_kb = draw_or_none(&dice, 1, 8);
    uint32_t journal_kb = draw_or_none(&dice, 512, 512);
    uint32_t grown_bytes = draw_or_none(&dice, 200, 4000);
    uint32_t own_segment_kb = draw_or_none(&dice, 1, 40);
    uint32_t delay_ms = (uint32_t)base_prng_below(&dice, 1000);
    if (!node->is_restless_at_last) { is_page_cache = node->is_first_page_cache; }
    if (!node->may_be_page_cache) { flush_messages = flush_ms = 0; }
    node->settings =
        (struct node_settings){.is_page_cache = is_page_cache, .flush_messages = flush_messages, .flush_ms = flush_ms};
    uint32_t kept = node->config.pair_count;
    if (is_page_cache) { add_pair(node, "weir.log.durability", "page-cache"); }
    if (flush_messages > 0) { add_number(node, "log.flush.interval.messages", flush_messages); }
    if (flush_ms > 0) { add_number(node, "log.flush.interval.ms", flush_ms); }
    if (index_bytes > 0) {
        add_number(node, "log.index.size.max.bytes", index_bytes);
        add_number(node, "log.index.interval.bytes", 1024);
    }
    if (is_preallocated) { add_pair(node, "log.preallocate", "true"); }
    if (roll_ms > 0) { add_number(node, "log.roll.ms", roll_ms); }
    config->pairs = node->pairs;
    config->pair_count = node->config.pair_count;
    node->config.pair_count = kept; /* the next boot has others */
    if (inline_kb > 0) { config->inline_bytes_max = inline_kb << 10; }
    if (journal_kb > 0) { config->journal_bytes_max = (uint64_t)journal_kb << 10; }
    if (grown_bytes > 0) { config->metadata_grown_bytes = grown_bytes; }
    if (own_segment_kb > 0) { config->own_segment_bytes = (uint64_t)own_segment_kb << 10; }
    if (config->group_initial_delay_ms > (int32_t)delay_ms) { config->group_initial_delay_ms = (int32_t)delay_ms; }
}

static void *create(void *context, const struct world_boot *boot)
{
    struct node *node = context;
    struct broker_config config = node->config;
    struct base_prng dice;
    base_prng_init(&dice, boot->seed, UINT64_C(0x6d656d)); /* "mem" */
    if (base_prng_chance(&dice, node->refuse_ppm, 1000000)) {
        static const uint64_t far[] = {10, 100, 1000, 5000};
        config.refuse_from = 1 + base_prng_below(&dice, far[base_prng_below(&dice, BASE_ARRAY_COUNT(far))]);
        bool is_long = base_prng_chance(&dice, 1, 2); /* meanwhile others come */
        config.refuse_count = 1 + (uint32_t)base_prng_below(&dice, is_long ? 40 : 4);
    }
    if (node->is_restless) { draw_settings(node, boot->boot_count, &config); }
    config.shard = boot->shard;
    config.shards = boot->shard_count;
    config.seed = boot->seed;
    config.node_id = (int32_t)boot->node + 1;
    config.listeners[0].address = boot->address;
    config.listeners[0].address.port = NODE_PORT;
    char host[47];
    port_address_to_text(boot->address, host);
    memcpy(config.listeners[0].host, host, sizeof host);
    struct broker *broker = NULL;
    enum base_rc rc = broker_create(boot->region, &config, &broker);
    CHECK(rc == BASE_OK); /* the region is large enough for these limits */
    return broker;
}

static void step(void *machine, const struct port_event *event, struct port_out *out)
{
    broker_step(machine, event, out);
}

const struct world_machine node_machine = {.create = create, .step = step, .destroy = NULL};
