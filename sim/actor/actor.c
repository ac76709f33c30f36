/* actor.c: see actor.h. The machine, and what a record says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "actor__parts.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- values ---- */

static uint8_t filler(const struct history_record *record, size_t at)
{
    uint64_t word =
        base_hash_u64((uint64_t)record->sequence * 131 + record->producer * 7919 + record->incarnation + (at >> 4));
    return (uint8_t)(word >> (at & 15)); /* compresses a little, as real values do */
}

void actor_value_make(struct history_record record, uint8_t *at, size_t size_bytes)
{
    CHECK(size_bytes >= ACTOR_VALUE_BYTES_MIN);
    char head[ACTOR_VALUE_BYTES_MIN];
    int used = snprintf(head, sizeof head, "i=%" PRIu32 " p=%" PRIu32 " s=%" PRId64 ";", record.incarnation,
                        record.producer, record.sequence);
    CHECK(used > 0 && (size_t)used < sizeof head);
    memcpy(at, head, (size_t)used);
    for (size_t i = (size_t)used; i < size_bytes; i++) { at[i] = filler(&record, i); }
}

bool actor_value_read(struct base_slice value, struct history_record *record_out)
{
    char head[ACTOR_VALUE_BYTES_MIN + 1] = {0};
    if (value.size_bytes < ACTOR_VALUE_BYTES_MIN) { return false; }
    memcpy(head, value.at, ACTOR_VALUE_BYTES_MIN);
    struct history_record record;
    int used = 0;
    int got = sscanf(head, "i=%" SCNu32 " p=%" SCNu32 " s=%" SCNd64 ";%n", &record.incarnation, &record.producer,
                     &record.sequence, &used);
    if (got != 3 || used == 0) { return false; }
    for (size_t i = (size_t)used; i < value.size_bytes; i++) {
        if (value.at[i] != filler(&record, i)) { return false; }
    }
    *record_out = record;
    return true;
}

/* ---- the machine ---- */

void actor__pause(struct actor *actor)
{
    uint64_t max_ns = actor->spec->pause_max_ns;
    actor->next_ns = actor->now_ns + 1 + base_prng_below(&actor->prng, max_ns + 1);
}

static struct client *make_client(const struct actor *actor, struct base_region region)
{
    const struct actor_spec *spec = actor->spec;
    struct client_config config;
    client_config_default(&config);
    config.seed = actor->boot.seed;
    char host[47];
    port_address_to_text(world_address(spec->cast->world, spec->cast->broker, spec->cast->port), host);
    char name[16];
    (void)snprintf(name, sizeof name, "n%" PRIu32, spec->cast->broker); /* of 250 nodes */
    config.bootstrap[0] = (struct client_endpoint){base_slice_text(spec->is_by_name ? name : host), spec->cast->port};
    config.bootstrap_count = 1;
    config.nodes_max = 4;
    config.topics_max = ACTOR_TOPICS_MAX;
    config.partitions_max = ASSIGNMENTS_MAX;
    config.records_max = 256;
    config.batches_max = 64;
    config.calls_max = 8;
    config.frame_bytes_max = 1 << 20;
    config.opened_bytes_max = 256 << 10;
    config.record_bytes_max = 128 << 10;
    config.batch_bytes = 8192;
    config.request_bytes = 256 << 10;
    config.request_timeout_ms = 6000;
    config.connect_timeout_ms = 2000;
    config.delivery_timeout_ms = 30000;
    config.topic_missing_ms = 2000;
    bool hears_soon = spec->cast->is_growing && spec->role != ACTOR_VERIFIER;
    if (hears_soon) { config.metadata_max_age_ms = ACTOR_HEARS_MS; }
    config.acks = spec->acks;
    config.idempotence = spec->idempotence;
    config.compression = spec->compression;
    config.linger_ms = spec->linger_ms;
    config.fetch_bytes_max = 256 << 10;
    /* Some readers take less than a batch at a time, some wait for several, some wait so long that a wake-up that is lost shows. */
    config.fetch_bytes_min = actor__wants_much(actor) ? 2000 : 1;
    config.fetch_partition_bytes_max = spec->number % 4 == 1 ? 1000 : 64 << 10;
    config.fetch_wait_ms = spec->role == ACTOR_VERIFIER ? 5000 : (spec->number % 2 == 0 ? 500 : 25000);
    struct client *client = NULL;
    enum base_rc rc = client_create(region, &config, &client);
    CHECK(rc == BASE_OK); /* ACTOR_REGION_BYTES is enough for these limits */
    return client;
}

static void *create(void *context, const struct world_boot *boot)
{
    struct base_arena arena;
    base_arena_init_zeroed(&arena, boot->region.at, boot->region.size_bytes);
    struct actor *actor = base_arena_take_array(&arena, 1, sizeof *actor);
    CHECK(actor != NULL);
    actor->spec = context;
    actor->boot = *boot;
    base_prng_init(&actor->prng, boot->seed, 1);
    base_prng_init(&actor->trim_prng, boot->seed, UINT64_C(0x7472696d)); /* "trim" */
    base_prng_init(&actor->grow_prng, boot->seed, UINT64_C(0x67726f77)); /* "grow" */
    actor->next_ns = UINT64_MAX;
    actor->rude.conn = (struct port_conn){.slot = 0, .generation = 0};
    if (actor->spec->role == ACTOR_RUDE) { return actor; }
    if (actor->spec->role == ACTOR_CROWD) {
        actor->crowd = actor__crowd_create(actor, &arena);
        return actor;
    }
    actor->value = base_arena_take(&arena, actor->spec->value_bytes_max + ACTOR_VALUE_BYTES_MIN);
    CHECK(actor->value != NULL);
    if (actor->spec->role == ACTOR_HASTY) {
        actor__hasty_create(actor, &arena);
        return actor;
    }
    size_t used = (arena.used_bytes + 4095) & ~(size_t)4095;
    actor->client = make_client(actor, (struct base_region){.at = (uint8_t *)boot->region.at + used,
                                                            .size_bytes = boot->region.size_bytes - used});
    return actor;
}

static void take_result(struct actor *actor, const struct client_result *result)
{
    switch (result->kind) {
    case CLIENT_PRODUCED: actor__produced(actor, result); return;
    case CLIENT_RECORD: actor__record(actor, result); return;
    case CLIENT_AT_END: actor__at_end(actor, result); return;
    case CLIENT_FAILED: actor__assignment_failed(actor, result); return;
    case CLIENT_ANSWER: actor__answered(actor, result); return;
    case CLIENT_ASSIGNED:
    case CLIENT_RESUMED:
    case CLIENT_COMMITTED:
    case CLIENT_REVOKED:
    case CLIENT_GROUP_FAILED:
    case CLIENT_LEFT: CHECK(false); return; /* it has joined no group */
    }
}

static void act(struct actor *actor)
{
    switch (actor->spec->role) {
    case ACTOR_PRODUCER: actor__produce(actor); return;
    case ACTOR_CONSUMER: actor__consume(actor); return;
    case ACTOR_ADMIN: actor__administer(actor); return;
    case ACTOR_VERIFIER: actor__verify(actor); return;
    case ACTOR_ODD: actor__be_odd(actor); return;
    case ACTOR_RUDE:
    case ACTOR_CROWD:
    case ACTOR_HASTY: return;
    }
}

static void take_message(struct actor *actor, const struct port_message *message)
{
    uint32_t kind = message->kind;
    bool is_for_me = (kind == ACTOR_KNOCK && actor->spec->role == ACTOR_PRODUCER) ||
                     (kind == ACTOR_REMOVE && actor->spec->role == ACTOR_ADMIN);
    if (is_for_me) {
        actor->knocks += kind == ACTOR_KNOCK ? 1 : 0;
        actor->wants_removal = kind == ACTOR_REMOVE;
        actor->knock_topic = (uint32_t)message->words[0];
        actor->knock_partition = (int32_t)message->words[1];
    }
    if (kind == ACTOR_DRAIN && actor->phase == PHASE_LOAD) { actor->phase = PHASE_DRAIN; }
    if (kind == ACTOR_PROBE) { actor->probes += 1; }
    if (kind == ACTOR_CLOSE) {
        actor->phase = PHASE_CLOSE;
        if (actor->client != NULL) { client_close(actor->client); }
    }
}

static void step(void *machine, const struct port_event *event, struct port_out *out)
{
    struct actor *actor = machine;
    actor->now_ns = event->now_ns;
    actor->wall_ms = event->wall_ms;
    if (event->kind == PORT_EVENT_START) { actor__pause(actor); }
    if (event->kind == PORT_EVENT_MESSAGE) { take_message(actor, &event->message); }
    if (actor->spec->role == ACTOR_CROWD) {
        if (event->kind == PORT_EVENT_MESSAGE) { actor__crowd_message(actor, event->message.kind); }
        actor__crowd_step(actor, event, out);
        return;
    }
    if (actor->spec->role == ACTOR_HASTY) {
        actor__hasty_step(actor, event, out);
        return;
    }
    if (actor->spec->role == ACTOR_RUDE) {
        actor__rude_step(actor, event, out);
        if (actor->next_ns != UINT64_MAX) { port_alarm(out, actor->next_ns); }
        return;
    }
    client_step(actor->client, event, out);
    struct client_result result;
    while (client_poll(actor->client, &result)) { take_result(actor, &result); }
    if (actor->phase != PHASE_CLOSE) { act(actor); }
    if (actor->next_ns <= actor->now_ns) {
        actor->next_ns = actor->now_ns + 20 * WORLD_MS;
    } /* it waits for something */
    client_turn(actor->client, out);
    if (actor->next_ns != UINT64_MAX && actor->phase != PHASE_CLOSE) { port_alarm(out, actor->next_ns); }
}

const struct world_machine actor_machine = {.create = create, .step = step, .destroy = NULL};

void actor_view(const void *machine, struct actor_view *view_out)
{
    const struct actor *actor = machine;
    if (actor->spec->role == ACTOR_CROWD) {
        actor__crowd_view(actor, view_out);
        return;
    }
    if (actor->spec->role == ACTOR_HASTY) {
        actor__hasty_view(actor, view_out);
        return;
    }
    bool is_finished = actor->done >= actor->spec->wanted;
    if (actor->spec->role == ACTOR_VERIFIER) { is_finished = actor->stage == UINT32_MAX; }
    bool is_quiet =
        actor->client == NULL ? !actor->rude.is_open && !actor->rude.is_busy : client_is_quiet(actor->client);
    uint32_t waiting = actor->probes + actor->knocks + (actor->wants_removal ? 1 : 0);
    *view_out = (struct actor_view){.outstanding = actor->outstanding + waiting,
                                    .is_finished = is_finished,
                                    .is_quiet = is_quiet};
}
