/* broker__node.h: what the parts of a node's life call of each other: broker__start.c, broker__image.c, broker__raise.c, broker__disk.c.
 *
 * Room    core/broker, private. On shard 0 but for image_apply.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BROKER_NODE_H
#define BROKER_NODE_H

#include "broker__.h"

/* broker__start.c */
void node_to_shard(struct broker *broker, uint32_t shard, enum message_kind kind, struct port_out *out);
void node_to_every_shard(struct broker *broker, enum message_kind kind, struct port_out *out);
void node_ask_every_shard(struct broker *broker, enum message_kind kind,
                          struct port_out *out); /* and awaits their answers */
bool node_is_last_answer(struct broker *broker);
void node_move_to(struct broker *broker, enum broker_state to);
void node_close_backs(struct broker *broker, struct port_out *out);
void node_begin_drain(struct broker *broker, struct port_out *out);
/* It can't serve: it says why, and stops. What is on disk is left as it is. */
void node_give_up(struct broker *broker, const char *why, const char *detail, struct port_out *out);
void node_controlled(struct broker *broker, const struct control_loan *loan, struct port_out *out); /* to who asked */
/* The controller, for something else than time: it goes on with the event that ends it. */
bool node_controller_waits(const struct broker *broker);

/* broker__image.c */
void image_load(struct broker *broker, struct port_out *out); /* the metadata log, from its start; then raise_next */
void image_apply(struct broker *broker, struct base_slice batches, enum apply_source source);
void image_delta_taken(struct broker *broker, struct port_out *out);
bool image_propose(struct broker *broker, struct port_out *out);
void image_snapshot_begin_if_due(struct broker *broker);
bool image_snapshot_poll(struct broker *broker, struct port_out *out);

void image_loaded(struct broker *broker,
                  struct port_out *out); /* and nothing is to be decided before shard 0 listens */

/* broker__raise.c */
void raise_next(struct broker *broker, struct port_out *out); /* image_loaded when no shard is left to be asked */
void raise_gathered(struct broker *broker, const struct port_message *message, struct port_out *out);
void raise_decided(struct broker *broker, const struct controller_raised *answer, struct port_out *out);

/* broker__disk.c */
void disk_on_journal(struct broker *broker, const struct port_message *message, struct port_out *out);
void disk_on_taken(struct broker *broker, enum plog_result result, struct port_out *out);
void disk_on_recovered(struct broker *broker, const struct port_message *message, struct port_out *out);
void disk_on_back_failed(struct broker *broker, uint32_t shard, struct port_out *out); /* a sync of a log there */
void disk_add_state(struct broker *broker, const struct port_message *message, struct port_out *out);
void disk_checkpoint(struct broker *broker, struct port_out *out); /* begins one, if the node is in a state for it */
void disk_stop(struct broker *broker, struct port_out *out);       /* the last checkpoint, then the backs */
/* All backs are closed. What waits before the journal yet is of one that gave up, and nobody's any more. */
void disk_end(struct broker *broker, struct port_out *out);
bool disk_journal_step(struct broker *broker, struct port_out *out);
bool disk_hold_step(struct broker *broker, struct port_out *out);

#endif
