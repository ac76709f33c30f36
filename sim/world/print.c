/* print.c: what a node is and has, for people: at a stop in the middle of a run.
 *
 * Room    sim/world, private; see world__world.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <inttypes.h>

static void print_op(const struct op *op, FILE *to)
{
    static const char *const states[] = {"", "under way", "done, not told", "told"};
    (void)fprintf(to, "    effect %s token=%" PRIu64 " %s", port_effect_name(op->effect.kind), op->effect.token,
                  states[op->state]);
    if (op->effect.path.size_bytes > 0) {
        (void)fprintf(to, " path='%.*s'", (int)op->effect.path.size_bytes, (const char *)op->effect.path.at);
    }
    if (op->ref != NULL) { (void)fprintf(to, " id=%u.%u", op->ref->slot, op->ref->generation); }
    (void)fputc('\n', to);
}

static void print_shard(const struct shard *shard, FILE *to)
{
    uint32_t ready = 0;
    for (const struct ready *at = shard->ready; at != NULL; at = at->next) { ready += 1; }
    (void)fprintf(to, "  shard %u%s: events ready=%u messages=%u connections=%u listeners=%u files=%u%s%s",
                  shard->index, shard->is_stopped ? " (stopped)" : "", ready, shard->messages.count,
                  shard->refs[REF_CONN].open_count, shard->refs[REF_LISTENER].open_count,
                  shard->refs[REF_FILE].open_count, shard->wants_turn ? " wants a turn" : "",
                  shard->wants_continue ? " wants to continue" : "");
    if (shard->alarm_ns != UINT64_MAX) { (void)fprintf(to, " alarm at %" PRIu64 " of its clock", shard->alarm_ns); }
    (void)fputc('\n', to);
    for (struct base_link *at = base_list_first(&shard->ops); at != NULL; at = base_list_next(&shard->ops, at)) {
        print_op(BASE_ITEM(at, struct op, in_shard), to);
    }
}

struct printing {
    const struct disk *disk;
    FILE *to;
};

static void print_file(void *context, const char *path, uint64_t size_bytes)
{
    const struct printing *printing = context;
    const struct inode *seen = world__lookup(printing->disk, path, false);
    const struct inode *kept = world__lookup(printing->disk, path, true);
    uint32_t pends = 0;
    for (const struct pend *pend = seen->pends; pend != NULL; pend = pend->next) { pends += 1; }
    (void)fprintf(printing->to, "    %s: %" PRIu64 " bytes seen, ", path, size_bytes);
    if (kept == NULL) {
        (void)fprintf(printing->to, "its name not durable");
    } else {
        (void)fprintf(printing->to, "%" PRIu64 " durable", kept->durable.size_bytes);
    }
    (void)fprintf(printing->to, "%s%s", kept != NULL && kept != seen ? " (of another file)" : "",
                  seen->has_lost ? ", a failed sync lost some" : "");
    if (pends > 0) { (void)fprintf(printing->to, ", %u changes not synced", pends); }
    (void)fputc('\n', printing->to);
}

void world_print(const struct world *world, uint32_t node, FILE *to)
{
    static const char *const states[] = {"up", "down", "stopped"};
    CHECK(node < world->node_count);
    const struct node *seen = world->nodes[node];
    (void)fprintf(to, "  node %u is %s, boot %u, %u handles\n", node, states[seen->state], seen->boot_count,
                  seen->handles);
    for (uint32_t i = 0; i < seen->spec.shard_count && seen->state == WORLD_UP; i++) {
        print_shard(&seen->shards[i], to);
    }
    for (uint32_t i = 0; i < seen->spec.disk_count; i++) {
        struct printing printing = {.disk = &seen->disks[i], .to = to};
        (void)fprintf(to, "  disk %u: %" PRIu64 " bytes used%s\n", i, seen->disks[i].used_bytes,
                      seen->disks[i].is_full ? ", full" : "");
        world_files(world, node, i, print_file, &printing);
    }
}
