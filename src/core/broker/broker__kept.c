/* broker__kept.c: answers to Metadata are kept as they were encoded, and sent again to whoever asks the same of the same image.
 *
 * What such an answer says follows from the bytes that were asked, their version, the listener and the image, as long as nothing is made
 * for it first. So those name it: a request whose body is the same as one before is not even decoded. Its bytes are sent from where
 * they lie, behind the client's own correlation id.
 *
 * Owns    the blocks (base_pages, BASE_CLIENTS): one each, held by the table while the answer may be found and by every request that it
 *         is being sent for.
 * Limits  KEPT_MAX answers, and KEPT_SHARE of the shard's blocks: who was asked for longest ago goes first. All go when the image changes
 *         or somebody finds no memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#define KEPT_SHARE 64 /* one part of so many */

/* At the start of its block; the body that was asked and the answer to it, a whole frame, follow. */
struct kept {
    uint32_t holders;
    uint32_t listener;
    uint32_t body_bytes;
    uint32_t answer_bytes;
    int16_t version;
    uint64_t asked; /* the order of the request that asked last */
    size_t block_bytes;
};
_Static_assert(sizeof(((struct request *)0)->kept_head) == 8, "the length of a frame, and whose answer it is");

static uint8_t *body_of(struct kept *kept) { return (uint8_t *)(kept + 1); }
static uint8_t *answer_of(struct kept *kept) { return body_of(kept) + kept->body_bytes; }

static void let_go(struct broker *broker, struct kept *kept)
{
    CHECK(kept->holders > 0);
    kept->holders -= 1;
    if (kept->holders == 0) { base_pages_give(broker->pages, kept); }
}

void kept_release(struct broker *broker, struct request *request)
{
    if (request->kept == NULL) { return; }
    let_go(broker, request->kept);
    request->kept = NULL;
}

static void forget(struct broker *broker, uint32_t index)
{
    struct kept_answers *answers = &broker->kept;
    CHECK(index < answers->count);
    struct kept *kept = answers->at[index];
    CHECK(answers->bytes >= kept->block_bytes);
    answers->bytes -= kept->block_bytes;
    answers->count -= 1;
    answers->at[index] = answers->at[answers->count];
    let_go(broker, kept);
}

static void forget_all(struct broker *broker)
{
    while (broker->kept.count > 0) { forget(broker, broker->kept.count - 1); }
}

static void forget_if_changed(struct broker *broker)
{
    uint64_t version = metadata_version(broker->image);
    if (broker->kept.image_version == version) { return; }
    broker->kept.image_version = version;
    forget_all(broker);
}

static void forget_longest_unasked(struct broker *broker)
{
    uint32_t index = 0;
    for (uint32_t i = 1; i < broker->kept.count; i++) {
        if (broker->kept.at[i]->asked < broker->kept.at[index]->asked) { index = i; }
    }
    forget(broker, index);
}

static bool is_asked_again(struct kept *kept, const struct request *request)
{
    return kept->body_bytes == request->body.size_bytes && kept->version == request->version &&
           kept->listener == request->listener && memcmp(body_of(kept), request->body.at, kept->body_bytes) == 0;
}

static void send(struct broker *broker, struct request *request, struct kept *kept, struct port_out *out)
{
    CHECK(request->kept == NULL);
    kept->holders += 1;
    kept->asked = request->order;
    request->kept = kept;
    size_t head_bytes = sizeof request->kept_head;
    base_put_u32(request->kept_head, kept->answer_bytes - 4);
    base_put_u32(request->kept_head + 4, (uint32_t)request->correlation);
    struct port_piece pieces[2] = {
        {.kind = PORT_MEMORY, .at = request->kept_head, .size_bytes = head_bytes},
        {.kind = PORT_MEMORY, .at = answer_of(kept) + head_bytes, .size_bytes = kept->answer_bytes - head_bytes},
    };
    _Static_assert(CONN_PIECES_INLINE >= 2, "there is always room for these");
    enum base_rc rc = request_hand_over(broker, request, pieces, 2, out);
    CHECK(rc == BASE_OK);
}

bool kept_answer(struct broker *broker, struct request *request, struct port_out *out)
{
    if (request->api_key != KAFKA_API_METADATA) { return false; }
    forget_if_changed(broker);
    for (uint32_t i = 0; i < broker->kept.count; i++) {
        if (!is_asked_again(broker->kept.at[i], request)) { continue; }
        send(broker, request, broker->kept.at[i], out);
        return true;
    }
    return false;
}

bool kept_add(struct broker *broker, struct request *request, const void *answer, struct port_out *out)
{
    CHECK(request->api_key == KAFKA_API_METADATA);
    CHECK(request->memory != NULL); /* it was decoded: none that is kept was asked again */
    forget_if_changed(broker);
    enum kafka_message message = kafka_response_message(request->api_key);
    struct kafka_size size;
    if (kafka_response_size(message, answer, request->version, &size) != BASE_OK) { return false; }
    size_t bytes = sizeof(struct kept) + request->body.size_bytes + size.memory_bytes;
    size_t block_bytes = (bytes + BASE_PAGE_BYTES - 1) / BASE_PAGE_BYTES * BASE_PAGE_BYTES;
    size_t bytes_max = broker->blocks_bytes / KEPT_SHARE;
    if (block_bytes > bytes_max) { return false; }
    while (broker->kept.count == KEPT_MAX || broker->kept.bytes > bytes_max - block_bytes) {
        forget_longest_unasked(broker);
    }
    struct kept *kept = base_pages_take(broker->pages, BASE_CLIENTS, bytes);
    if (kept == NULL) { return false; }
    *kept = (struct kept){.holders = 1,
                          .listener = request->listener,
                          .body_bytes = (uint32_t)request->body.size_bytes,
                          .answer_bytes = (uint32_t)size.memory_bytes,
                          .version = request->version,
                          .block_bytes = block_bytes};
    if (kept->body_bytes > 0) { memcpy(body_of(kept), request->body.at, kept->body_bytes); }
    struct kafka_writer writer;
    kafka_writer_init(&writer, answer_of(kept), size.memory_bytes);
    enum base_rc rc = kafka_response_encode(message, answer, request->version, request->correlation, &writer);
    CHECK(rc == BASE_OK); /* we built it for this very version */
    CHECK(writer.used_bytes == size.memory_bytes);
    broker->kept.at[broker->kept.count] = kept;
    broker->kept.count += 1;
    broker->kept.bytes += block_bytes;
    send(broker, request, kept, out);
    return true;
}

void kept_yield(struct broker *broker, struct port_out *out)
{
    uint64_t missed = base_pages_missed(broker->pages);
    if (missed == broker->kept.missed) { return; }
    broker->kept.missed = missed;
    if (broker->kept.count == 0) { return; }
    forget_all(broker);
    broker->starved_retry_ns = 0;
    out->wants_continue = true; /* who found none looks again */
}
