/* broker__raise.c: after a stop that was not clean, logs that may have lost records that were read begin a new leader epoch.
 *
 * Only page-cache logs may: what is synced is all that was ever shown of any other. Nobody knows whether one did, nor how much; so each
 * of them goes on under the next epoch of its partition, as if it had another leader. Who names the old one is refused, asks where it
 * ended, and finds out that its position is beyond (KIP-320): else it would read on in the middle of other records.
 *
 * It ends before anybody is served: no epoch of a page-cache log spans such a start. One shard after the other is asked for its logs, a
 * few at a time; the controller decides, and the logs hear of it with the metadata (plog_open). A start that is cut short raises again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__node.h"

#define RAISE_END UINT64_MAX

/* ---- each shard: which ---- */

void raise_gather(struct broker *broker, uint64_t cursor, struct port_out *out)
{
    struct plog_ref ref;
    struct base_part id;
    uint32_t at = (uint32_t)cursor;
    uint32_t count = 0;
    bool is_more = true;
    for (uint32_t looked = 0; looked < CONTROLLER_RAISES_MAX && is_more; looked++) {
        is_more = plog_each(broker->plog, &at, &ref, &id);
        if (!is_more) { break; }
        struct plog_view view;
        plog_view(broker->plog, ref, &view);
        bool is_known = metadata_partition_by_id(broker->image, id) != NULL; /* else it goes, or is the node's own */
        if (view.may_lack_end && is_known) { broker->raising[count++] = id; }
    }
    struct port_message answer;
    message_begin(&answer, 0, MSG_RAISED);
    answer.words[0] = is_more ? at : RAISE_END;
    answer.words[1] = count;
    answer.lent = broker->raising;
    answer.lent_bytes = count * sizeof broker->raising[0];
    message_send(broker, &answer, out);
}

/* ---- shard 0 ---- */

void raise_next(struct broker *broker, struct port_out *out)
{
    while (broker->raise_cursor == RAISE_END || (broker->raise_shards >> broker->raise_shard & 1) == 0) {
        broker->raise_shard += 1;
        broker->raise_cursor = 0;
        if (broker->raise_shard >= broker->config.shards) {
            image_loaded(broker, out);
            return;
        }
    }
    struct port_message message;
    message_begin(&message, broker->raise_shard, MSG_RAISE)->words[0] = broker->raise_cursor;
    message_send(broker, &message, out);
}

void raise_gathered(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    if (broker->is_giving_up) { return; }
    broker->raise_cursor = message->words[0];
    broker->raise = (struct controller_raise){.ids = message->lent, .count = (uint32_t)message->words[1]};
    if (broker->raise.count == 0) {
        raise_next(broker, out);
        return;
    }
    base_arena_reset(&broker->register_arena, 0);
    struct controller_request request = {.kind = CONTROLLER_RAISE_EPOCHS,
                                         .request = &broker->raise,
                                         .arena = &broker->register_arena};
    if (controller_submit(broker->controller, &request) != BASE_OK) {
        node_give_up(broker, "no memory for new leader epochs", "", out);
    }
}

void raise_decided(struct broker *broker, const struct controller_raised *answer, struct port_out *out)
{
    if (broker->is_giving_up) { return; }
    if (answer == NULL || answer->error_code != 0) {
        node_give_up(broker, "new leader epochs could not be written to the metadata log", "", out);
        return;
    }
    raise_next(broker, out);
}
