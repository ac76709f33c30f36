/* broker__about.c: what a back is asked about a log besides records: its size, its producers, where an epoch ends; and that its
 * start moves.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

/* Who asks waits for exactly one of these. */
static void answer(struct broker *broker, const struct port_message *question, enum message_kind kind,
                   const uint64_t words[3], struct port_out *out)
{
    struct asker asker = get_asker(question, 3);
    struct port_message message;
    message_begin(&message, asker.shard, kind);
    put_asker(&message, 0, asker);
    for (unsigned i = 0; i < 3; i++) { message.words[2 + i] = words[i]; }
    message_send(broker, &message, out);
}

static uint64_t error_word(int16_t error) { return (uint64_t)(uint16_t)error; }

void about_size(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    const struct plog_ref *ref = back_log_ref(broker, get_part(message, 0), out);
    uint64_t words[3] = {error_word(KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER)};
    if (ref != NULL) {
        struct plog_view view;
        plog_view(broker->plog, *ref, &view);
        words[0] = 0;
        words[1] = view.size_bytes;
    }
    answer(broker, message, MSG_SIZE_DONE, words, out);
}

/* The page is the asker's memory, lent until the answer. It says how many there are, even when it holds fewer. */
void about_producers(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    const struct plog_ref *ref = back_log_ref(broker, get_part(message, 0), out);
    struct producers_page *page = unconst(message->lent);
    uint64_t words[3] = {error_word(KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER)};
    if (ref != NULL) {
        words[0] = 0;
        page->count = plog_producers(broker->plog, *ref, page->at, page->max);
    }
    answer(broker, message, MSG_PRODUCERS_DONE, words, out);
}

void about_epoch(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    const struct plog_ref *ref = back_log_ref(broker, get_part(message, 0), out);
    int32_t asked = (int32_t)(uint32_t)message->words[5];
    int32_t epoch = -1;
    int64_t offset_end = -1;
    int16_t error = KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER;
    if (ref != NULL) {
        struct plog_view view;
        plog_view(broker->plog, *ref, &view);
        error = back_epoch_error((int32_t)(uint32_t)message->words[6], view.leader_epoch);
        if (error == KAFKA_ERROR_NONE && view.is_failed) { error = KAFKA_ERROR_KAFKA_STORAGE_ERROR; }
        if (error != KAFKA_ERROR_NONE || asked == -1) {
            /* nothing is known of it */
        } else if (asked == view.leader_epoch) { /* before its first record too */
            epoch = asked;
            offset_end = view.offset_end;
        } else if (asked < 0) { /* as of an epoch before the first */
            epoch = asked;
            offset_end = view.offset_start;
        } else {
            plog_epoch_end(broker->plog, *ref, asked, &epoch, &offset_end);
        }
    }
    const uint64_t words[3] = {error_word(error), (uint64_t)(uint32_t)epoch, (uint64_t)offset_end};
    answer(broker, message, MSG_EPOCH_DONE, words, out);
}

/* ---- DeleteRecords ------------------------------------------------------------------------------------------------------- */

void about_deleted(struct broker *broker, struct asker asker, int16_t error, int64_t offset_start, struct port_out *out)
{
    struct port_message message;
    message_begin(&message, asker.shard, MSG_DELETED);
    put_asker(&message, 0, asker);
    message.words[2] = error_word(error);
    message.words[3] = (uint64_t)(error == KAFKA_ERROR_NONE ? offset_start : -1);
    message_send(broker, &message, out);
}

/* Durable before it is answered. An offset at or below the start is reached already. */
void about_delete(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct asker asker = get_asker(message, 3);
    const struct plog_ref *ref = back_log_ref(broker, get_part(message, 0), out);
    if (ref == NULL) {
        about_deleted(broker, asker, KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER, -1, out);
        return;
    }
    struct plog_view view;
    plog_view(broker->plog, *ref, &view);
    int64_t offset = (int64_t)message->words[5];
    if (offset == -1) { offset = view.watermark; }
    if (view.is_failed) {
        about_deleted(broker, asker, KAFKA_ERROR_KAFKA_STORAGE_ERROR, -1, out);
    } else if (offset < 0 || offset > view.watermark) {
        about_deleted(broker, asker, KAFKA_ERROR_OFFSET_OUT_OF_RANGE, -1, out);
    } else if (offset <= view.offset_start) {
        about_deleted(broker, asker, KAFKA_ERROR_NONE, view.offset_start, out);
    } else {
        uint32_t op = back_take_op(broker, BACK_DELETE, asker);
        if (op == BASE_POOL_NONE || plog_move_start(broker->plog, *ref, (uint64_t)op + 1, offset, out) != BASE_OK) {
            if (op != BASE_POOL_NONE) { base_pool_give(&broker->back_ops, op); }
            about_deleted(broker, asker, KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER, -1, out); /* retriable: it moves already */
        }
    }
}
