/* broker__answer.c: a request's answer: encoded, cut into pieces of memory and of files, handed to conn; or none, or the connection's end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#define ANSWER_SMALL ((size_t)1024) /* so many bytes at most lie where the request does */

static uint32_t make_pieces(struct request *request, const struct kafka_writer *writer, struct port_piece *pieces)
{
    uint32_t count = 0;
    size_t from = 0;
    for (uint32_t i = 0; i < writer->splices_count; i++) {
        const struct kafka_splice *splice = &writer->splices[i];
        if (splice->at_bytes > from) {
            pieces[count++] = (struct port_piece){.kind = PORT_MEMORY,
                                                  .at = writer->at + from,
                                                  .size_bytes = splice->at_bytes - from};
            from = splice->at_bytes;
        }
        const struct part *part = &request->parts[splice->splice - 1];
        pieces[count++] = (struct port_piece){.kind = PORT_RANGE,
                                              .file = part->file,
                                              .position_bytes = part->position_bytes,
                                              .size_bytes = splice->size_bytes};
    }
    if (writer->used_bytes > from) {
        pieces[count++] =
            (struct port_piece){.kind = PORT_MEMORY, .at = writer->at + from, .size_bytes = writer->used_bytes - from};
    }
    return count;
}

enum base_rc request_hand_over(struct broker *broker, struct request *request, const struct port_piece *pieces,
                               uint32_t count, struct port_out *out)
{
    uint64_t cookie = (uint64_t)request_slot(broker, request) + 1;
    enum base_rc rc = conn_answer(broker->conns, request->id, pieces, count, cookie, out);
    if (rc != BASE_OK) { return rc; }
    request->state = REQUEST_ANSWERED;
    count_answer(broker, request);
    return BASE_OK;
}

static enum base_rc hand_over(struct broker *broker, struct request *request, const struct kafka_writer *writer,
                              struct port_piece *pieces, struct port_out *out)
{
    uint32_t count = make_pieces(request, writer, pieces);
    return request_hand_over(broker, request, pieces, count, out);
}

static enum base_rc encode(const struct request *request, struct kafka_writer *writer)
{
    return kafka_response_encode(kafka_response_message(request->api_key), request->answer, request->answer_version,
                                 request->correlation, writer);
}

/* Most answers are small, with one range of a file or none, and are written at once into what the request has left of its memory,
 * neither counted before nor given a block of their own. False: it is none of those, or there is no memory now; nothing has changed. */
static bool try_small_answer(struct broker *broker, struct request *request, struct port_out *out)
{
    struct base_arena *arena = &request->arena;
    size_t room_bytes = base_min_size(arena->size_bytes - arena->used_bytes, ANSWER_SMALL);
    if (room_bytes == 0) { return false; }
    size_t mark = base_arena_mark(arena);
    uint8_t *at = base_arena_take_bytes(arena, room_bytes);
    CHECK(at != NULL);
    struct kafka_writer writer;
    kafka_writer_init(&writer, at, room_bytes);
    struct kafka_splice splice;
    kafka_writer_use_splices(&writer, &splice, 1);
    struct port_piece pieces[CONN_PIECES_INLINE];
    _Static_assert(CONN_PIECES_INLINE >= 2 * 1 + 1, "what stands before a splice, it, and what stands behind it");
    enum base_rc rc = encode(request, &writer);
    CHECK(rc == BASE_OK || rc == BASE_FULL); /* we built it for this very version */
    if (rc == BASE_OK) { rc = hand_over(broker, request, &writer, pieces, out); }
    if (rc == BASE_OK) { return true; }
    base_arena_reset(arena, mark);
    return false;
}

/* False: no memory now; nothing has changed. `size`: of the answer. */
static bool try_answer(struct broker *broker, struct request *request, struct kafka_size size, struct port_out *out)
{
    if (request->answer_block == NULL) {
        request->answer_block = base_pages_take(broker->pages, BASE_REPLICATION, size.memory_bytes);
        if (request->answer_block == NULL) { return false; }
    }
    struct kafka_writer writer;
    kafka_writer_init(&writer, request->answer_block, size.memory_bytes);
    struct port_piece one[CONN_PIECES_INLINE];
    struct port_piece *pieces = one;
    size_t splices_bytes =
        size.splices_count * (sizeof(struct kafka_splice) + 2 * sizeof *pieces) + sizeof *pieces + 64;
    if (size.splices_count > 0 && !request_reserve(broker, request, splices_bytes)) { return false; }
    size_t mark = base_arena_mark(&request->arena);
    if (size.splices_count > 0) {
        struct kafka_splice *splices = base_arena_take_array(&request->arena, size.splices_count, sizeof *splices);
        pieces = base_arena_take_array(&request->arena, 2 * (size_t)size.splices_count + 1, sizeof *pieces);
        CHECK(splices != NULL && pieces != NULL);
        kafka_writer_use_splices(&writer, splices, size.splices_count);
    }
    enum base_rc rc = encode(request, &writer);
    CHECK(rc == BASE_OK);
    CHECK(writer.used_bytes == size.memory_bytes);
    if (hand_over(broker, request, &writer, pieces, out) == BASE_OK) { return true; }
    base_arena_reset(&request->arena, mark); /* or each try would take more than the one before */
    return false;
}

void request_answer(struct broker *broker, struct request *request, const void *answer, struct port_out *out)
{
    request_answer_in(broker, request, answer, request->version, out);
}

/* Such an answer is built anew if there is no memory for it now: the image may change before there is some. */
static bool points_into_image(const struct request *request)
{
    switch (request->api_key) {
    case KAFKA_API_METADATA:
    case KAFKA_API_DESCRIBE_CONFIGS:
    case KAFKA_API_DESCRIBE_CLUSTER:
    case KAFKA_API_DESCRIBE_TOPIC_PARTITIONS:
    case KAFKA_API_LIST_CONFIG_RESOURCES: return true;
    default: return false;
    }
}

void request_answer_in(struct broker *broker, struct request *request, const void *answer, int16_t version,
                       struct port_out *out)
{
    CHECK(request->state != REQUEST_ANSWERED);
    CHECK(!base_heap_holds(&request->deadline));
    request->answer = answer;
    request->answer_version = version;
    if (request->answer_block == NULL && try_small_answer(broker, request, out)) { return; }
    struct kafka_size size;
    enum base_rc rc = kafka_response_size(kafka_response_message(request->api_key), answer, version, &size);
    if (rc == BASE_FULL) { /* a few bytes may ask for it: one large group, described over and over */
        request_fail(broker, request, "its answer would be longer than an answer can be", out);
        return;
    }
    CHECK(rc == BASE_OK); /* we built it for this very version */
    if (try_answer(broker, request, size, out)) { return; }
    if (request->answer_block != NULL) {
        base_pages_give(broker->pages, request->answer_block);
        request->answer_block = NULL;
    }
    request_starve(broker, request, points_into_image(request) ? RETRY_DECODE : RETRY_ANSWER);
}

void request_answer_none(struct broker *broker, struct request *request, struct port_out *out)
{
    CHECK(request->state != REQUEST_ANSWERED);
    conn_answer_none(broker->conns, request->id, out);
    request->state = REQUEST_ANSWERED;
    request->is_sent = true;
    request_free_if_done(broker, request, out);
}

void request_fail(struct broker *broker, struct request *request, const char *why, struct port_out *out)
{
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "closing a connection: ");
    base_text_add(&text, why);
    base_text_add(&text, "; api ");
    base_text_add_i64(&text, request->api_key);
    base_text_add(&text, " version ");
    base_text_add_i64(&text, request->version);
    port_log_end(out, PORT_WARN, "broker", &text);
    broker->counters.requests_closed += 1;
    request_answer_end(broker, request, out);
}

/* As in Kafka: requests before it are answered first, those behind it not at all. */
void request_answer_end(struct broker *broker, struct request *request, struct port_out *out)
{
    CHECK(request->state != REQUEST_ANSWERED);
    conn_answer_end(broker->conns, request->id, out);
    request->state = REQUEST_ANSWERED;
    request->is_sent = true;
    request_free_if_done(broker, request, out);
}
