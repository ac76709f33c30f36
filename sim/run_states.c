/* run_states.c: see run.h. Every node's state as text: machines by their views, what is under way, files.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run__parts.h"

#include <inttypes.h>

static void print_log(const struct broker_log_view *log, FILE *to)
{
    (void)fprintf(to,
                  "    log %.*s-%" PRId32 ": start=%" PRId64 " watermark=%" PRId64 " end=%" PRId64 " epoch=%" PRId32
                  " bytes=%" PRIu64 "%s%s\n",
                  (int)log->topic.size_bytes, (const char *)log->topic.at, log->id.index, log->offset_start,
                  log->watermark, log->offset_end, log->leader_epoch, log->size_bytes, log->is_failed ? " failed" : "",
                  log->is_damaged ? " damaged" : "");
}

static void print_broker(const struct broker *broker, uint32_t shard, FILE *to)
{
    struct broker_view view;
    broker_view(broker, &view);
    (void)fprintf(to,
                  "  broker shard %" PRIu32 " is %s%s: connections=%" PRIu32 " requests=%" PRIu32 " parked=%" PRIu32
                  " logs=%" PRIu32 " memory_bytes=%" PRIu64 " journal_syncs=%" PRIu64 "%s\n",
                  shard, broker_state_name(view.state), view.is_disk_failed ? ", its disk off line" : "",
                  view.connections, view.requests, view.parked, view.logs, view.memory_used_bytes, view.journal_syncs,
                  broker_is_quiet(broker) ? "" : ", not quiet");
    struct broker_log_view log;
    for (uint32_t cursor = 0; broker_each_log(broker, &cursor, &log);) { print_log(&log, to); }
}

static void print_actor(const struct run *run, uint32_t at, FILE *to)
{
    const void *machine = world_machine_at(run->world, run->actor_nodes[at], 0);
    (void)fprintf(to, "client %s\n", run->specs[at].name);
    if (machine != NULL) {
        struct actor_view view;
        actor_view(machine, &view);
        (void)fprintf(to, "  operations without an end: %" PRIu32 "%s\n", view.outstanding,
                      view.is_finished ? ", all done that was wanted" : "");
    }
    world_print(run->world, run->actor_nodes[at], to);
}

void run__print_states(const struct run *run, FILE *to)
{
    (void)fprintf(to, "after step %" PRIu64 ", at t=%" PRIu64 " ns\nbroker\n", run->until_step,
                  world_now(run->world)); /* for people: a lost line is no failure */
    for (uint32_t i = 0; i < (uint32_t)run->shape.shards; i++) {
        const struct broker *broker = world_machine_at(run->world, run->cast.broker, i);
        if (broker != NULL) { print_broker(broker, i, to); }
    }
    world_print(run->world, run->cast.broker, to);
    for (uint32_t i = 0; i < run->actor_count; i++) { print_actor(run, i, to); }
}
