/* trace.c: the run as text, one line per event and effect.
 *
 * Room    sim/world, private; see world__world.h.
 * Form    "t=NANOSECONDS nN/S < EVENT ..." for what a shard is given, "> EFFECT ..." for what it asks, "* ..." for disasters.
 *         No address is printed, so that two runs of one seed give the same bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "world__world.h"

#include <inttypes.h>

static void head(struct world *world, const struct shard *shard, const char *mark)
{
    (void)fprintf(world->trace, "t=%" PRIu64 " n%u/%u %s ", world->now_ns, (unsigned)shard->node->index,
                  (unsigned)shard->index, mark); /* here and below: a lost trace line is seen by its reader */
}

static void print_words(struct world *world, const struct port_message *message)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < PORT_MESSAGE_WORDS; i++) {
        if (message->words[i] != 0) { last = i + 1; }
    }
    for (uint32_t i = 0; i < last; i++) { (void)fprintf(world->trace, " %" PRIx64, message->words[i]); }
    if (message->lent_bytes > 0) { (void)fprintf(world->trace, " lent=%" PRIu64, message->lent_bytes); }
}

static void print_conn(struct world *world, struct port_conn conn)
{
    (void)fprintf(world->trace, " conn=%u.%u", (unsigned)conn.slot, (unsigned)conn.generation);
}

static void print_file(struct world *world, struct port_file file)
{
    (void)fprintf(world->trace, " file=%u:%u.%u", (unsigned)file.shard, (unsigned)file.slot, (unsigned)file.generation);
}

static void print_address(struct world *world, struct port_address address)
{
    char text[47];
    port_address_to_text(address, text);
    (void)fprintf(world->trace, " %s:%u", text, (unsigned)address.port);
}

static void print_text(struct world *world, const char *what, struct base_slice text)
{
    (void)fprintf(world->trace, " %s'%.*s'", what, (int)base_min_size(text.size_bytes, 400),
                  text.size_bytes == 0 ? "" : (const char *)text.at);
}

enum names_what { NAMES_NOTHING, NAMES_LISTENER, NAMES_CONN, NAMES_FILE };

static enum names_what names_what(enum port_effect_kind kind)
{
    switch (kind) {
    case PORT_LISTEN:
    case PORT_UNLISTEN: return NAMES_LISTENER;
    case PORT_ACCEPT:
    case PORT_CONNECT:
    case PORT_RECV:
    case PORT_SEND:
    case PORT_SHUT:
    case PORT_CLOSE: return NAMES_CONN;
    case PORT_OPEN:
    case PORT_READ:
    case PORT_WRITE:
    case PORT_TRUNCATE:
    case PORT_ALLOCATE:
    case PORT_SYNC:
    case PORT_CLOSE_FILE: return NAMES_FILE;
    case PORT_RESOLVE:
    case PORT_RENAME:
    case PORT_UNLINK:
    case PORT_MAKE_DIR:
    case PORT_REMOVE_DIR:
    case PORT_SYNC_DIR:
    case PORT_LIST:
    case PORT_SPACE:
    case PORT_LOG:
    case PORT_LEVEL:
    case PORT_READY:
    case PORT_STOPPED:
    case PORT_EFFECT_COUNT: return NAMES_NOTHING;
    }
    return NAMES_NOTHING;
}

static void print_id(struct world *world, enum port_effect_kind kind, struct port_conn conn,
                     struct port_listener listener, struct port_file file)
{
    switch (names_what(kind)) {
    case NAMES_LISTENER:
        (void)fprintf(world->trace, " listener=%u.%u", (unsigned)listener.slot, (unsigned)listener.generation);
        break;
    case NAMES_CONN: print_conn(world, conn); break;
    case NAMES_FILE: print_file(world, file); break;
    case NAMES_NOTHING: break;
    }
}

void world__trace_event(struct world *world, const struct shard *shard, const struct port_event *event,
                        struct base_slice payload)
{
    head(world, shard, "<");
    (void)fprintf(world->trace, "%s", port_event_name(event->kind));
    if (event->kind == PORT_EVENT_MESSAGE) {
        (void)fprintf(world->trace, " from=%u kind=%u", (unsigned)event->message.from, (unsigned)event->message.kind);
        print_words(world, &event->message);
    }
    if (event->kind == PORT_EVENT_DONE) {
        (void)fprintf(world->trace, " %s token=%" PRIu64 " %s count=%" PRIu64, port_effect_name(event->done.effect),
                      event->done.token, port_rc_name(event->done.rc), event->done.count);
        print_id(world, event->done.effect, event->done.conn, event->done.listener, event->done.file);
        if (event->done.address.port != 0) { print_address(world, event->done.address); }
        if (payload.size_bytes > 0) {
            (void)fprintf(world->trace, " sum=%016" PRIx64, base_hash_bytes(payload.at, payload.size_bytes, 0));
        }
    }
    (void)fputc('\n', world->trace);
}

static void print_pieces(struct world *world, const struct port_effect *effect)
{
    for (uint32_t i = 0; i < effect->piece_count; i++) {
        const struct port_piece *piece = &effect->pieces[i];
        if (piece->kind == PORT_MEMORY) {
            (void)fprintf(world->trace, " memory=%" PRIu64 " sum=%016" PRIx64, piece->size_bytes,
                          base_hash_bytes(piece->at, piece->size_bytes, 0));
        } else {
            print_file(world, piece->file);
            (void)fprintf(world->trace, " range=%" PRIu64 "+%" PRIu64, piece->position_bytes, piece->size_bytes);
        }
    }
}

void world__trace_effect(struct world *world, const struct shard *shard, const struct port_effect *effect)
{
    head(world, shard, ">");
    (void)fprintf(world->trace, "%s", port_effect_name(effect->kind));
    if (effect->kind == PORT_LOG) {
        print_text(world, "", effect->path_to);
        print_text(world, "", effect->path);
        (void)fputc('\n', world->trace);
        return;
    }
    (void)fprintf(world->trace, " token=%" PRIu64, effect->token);
    print_id(world, effect->kind, effect->conn, effect->listener, effect->file);
    if (effect->kind == PORT_LISTEN || effect->kind == PORT_CONNECT) { print_address(world, effect->address); }
    if (effect->path.size_bytes > 0) { print_text(world, "path=", effect->path); }
    if (effect->path_to.size_bytes > 0) { print_text(world, "to=", effect->path_to); }
    if (effect->position_bytes > 0) { (void)fprintf(world->trace, " at=%" PRIu64, effect->position_bytes); }
    if (effect->size_bytes > 0) { (void)fprintf(world->trace, " size=%" PRIu64, effect->size_bytes); }
    if (effect->flags > 0) { (void)fprintf(world->trace, " flags=%u", (unsigned)effect->flags); }
    if (effect->where == PORT_ON_SHARD) { (void)fprintf(world->trace, " on-shard"); }
    if (effect->kind == PORT_SEND || effect->kind == PORT_WRITE) { print_pieces(world, effect); }
    (void)fputc('\n', world->trace);
}

void world__trace_message(struct world *world, const struct shard *shard, const struct port_message *message)
{
    head(world, shard, ">");
    (void)fprintf(world->trace, "MESSAGE to=%u kind=%u", (unsigned)message->to, (unsigned)message->kind);
    print_words(world, message);
    (void)fputc('\n', world->trace);
}

void world__trace_note(struct world *world, uint32_t node, const char *words)
{
    if (world->trace == NULL) { return; }
    if (node == WORLD_NONE) {
        (void)fprintf(world->trace, "t=%" PRIu64 " * %s\n", world->now_ns, words);
    } else {
        (void)fprintf(world->trace, "t=%" PRIu64 " n%u * %s\n", world->now_ns, (unsigned)node, words);
    }
}
