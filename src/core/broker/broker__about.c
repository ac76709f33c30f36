/* broker__about.c: the back's answers about a log that need no work of it: its size, its producers, where an epoch ends.
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
    const struct plog_ref *ref = back_log_ref(broker, get_part(message, 0));
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
    const struct plog_ref *ref = back_log_ref(broker, get_part(message, 0));
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
    const struct plog_ref *ref = back_log_ref(broker, get_part(message, 0));
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
