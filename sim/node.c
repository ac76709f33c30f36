/* node.c: see node.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "node.h"

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

void node_forget_time(struct node *node)
{
    static const char *const texts[][2] = {
        {"log.retention.ms", "-1"},
        {"log.message.timestamp.after.max.ms", "9223372036854775807"},
    };
    for (uint32_t i = 0; i < BASE_ARRAY_COUNT(texts); i++) {
        node->pairs[i] =
            (struct broker_pair){.name = base_slice_text(texts[i][0]), .value = base_slice_text(texts[i][1])};
    }
    node->config.pairs = node->pairs;
    node->config.pair_count = BASE_ARRAY_COUNT(texts);
    node->config.producer_expiry_ms = INT64_MAX;
}

static void *create(void *context, const struct world_boot *boot)
{
    const struct node *node = context;
    struct broker_config config = node->config;
    struct base_prng dice;
    base_prng_init(&dice, boot->seed, UINT64_C(0x6d656d)); /* "mem" */
    if (base_prng_chance(&dice, node->refuse_ppm, 1000000)) {
        static const uint64_t far[] = {10, 100, 1000, 5000};
        config.refuse_from = 1 + base_prng_below(&dice, far[base_prng_below(&dice, BASE_ARRAY_COUNT(far))]);
        bool is_long = base_prng_chance(&dice, 1, 2); /* meanwhile others come */
        config.refuse_count = 1 + (uint32_t)base_prng_below(&dice, is_long ? 40 : 4);
    }
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
