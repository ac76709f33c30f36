/* talk.c: see talk.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "talk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/kafka/kafka.h"

void talk_ask(struct talk talk, const void *request)
{
    uint8_t bytes[1024];
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(kafka_request_encode(kafka_request_message(talk.api_key), request, talk.version, talk.correlation,
                                          kafka_text_null(), &writer),
                     BASE_OK);
    struct port_event event = {.kind = PORT_EVENT_DONE, .now_ns = talk.now_ns};
    event.done.effect = PORT_RECV;
    event.done.conn = talk.conn;
    size_t cut = writer.used_bytes / 2;
    check_stream_event(talk.stream, 0, &event, base_slice_of(bytes, cut));
    check_stream_event(talk.stream, 0, &event, base_slice_of(bytes + cut, writer.used_bytes - cut));
}

void talk_end(struct talk talk)
{
    struct port_event event = {.kind = PORT_EVENT_DONE, .now_ns = talk.now_ns};
    event.done.effect = PORT_RECV;
    event.done.conn = talk.conn;
    event.done.rc = PORT_EOF;
    check_stream_event(talk.stream, 0, &event, base_slice_of(NULL, 0));
}

void talk_answer(struct talk talk, const void *response)
{
    uint8_t bytes[1024];
    struct kafka_writer writer;
    kafka_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(kafka_response_encode(kafka_response_message(talk.api_key), response, talk.version,
                                           talk.correlation, &writer),
                     BASE_OK);
    struct port_piece piece = {.kind = PORT_MEMORY, .at = bytes, .size_bytes = writer.used_bytes};
    struct port_effect send = {.kind = PORT_SEND, .conn = talk.conn, .pieces = &piece, .piece_count = 1};
    check_stream_effect(talk.stream, 0, &send);
}
