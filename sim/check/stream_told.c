/* stream_told.c: see stream.h. How many partitions a topic is told to have: as many as somebody asked for, none of a change in part (I23).
 *
 * Whoever is told of some of them believes it for minutes, and most clients say nothing of it. What a topic had before another of
 * its name is not told apart.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "stream__parts.h"

#include <inttypes.h>
#include <stdio.h>

#include "wire/kafka/create_partitions.h"
#include "wire/kafka/create_topics.h"
#include "wire/kafka/describe_topic_partitions.h"
#include "wire/kafka/metadata.h"

static void note_count(struct check_stream *stream, struct kafka_text name, int32_t count)
{
    struct stream_wish wish = {.count = count};
    struct base_slice slice = kafka_text_slice(name);
    if (slice.size_bytes >= sizeof wish.topic) { return; } /* none of a run's: nothing is judged of it */
    memcpy(wish.topic, slice.at, slice.size_bytes);
    for (uint32_t i = 0; i < stream->wish_count; i++) {
        const struct stream_wish *known = &stream->wishes[i];
        if (known->count == count && strcmp(known->topic, wish.topic) == 0) { return; }
    }
    stream->wishes = check__grow(stream->wishes, stream->wish_count, &stream->wish_room, sizeof *stream->wishes);
    stream->wishes[stream->wish_count++] = wish;
}

void stream__told_asked(struct check_stream *stream, int16_t api_key, int16_t version, struct base_slice body)
{
    struct base_arena arena;
    base_arena_init(&arena, stream->scratch, STREAM_SCRATCH_BYTES);
    if (api_key == KAFKA_API_CREATE_TOPICS) {
        struct kafka_create_topics_request request;
        kafka_create_topics_request_init(&request);
        if (kafka_create_topics_request_decode(body, version, &arena, &request) != BASE_OK) { return; }
        for (int32_t t = 0; t < request.topics_count; t++) {
            note_count(stream, request.topics[t].name, request.topics[t].num_partitions);
        }
    }
    if (api_key == KAFKA_API_CREATE_PARTITIONS) {
        struct kafka_create_partitions_request request;
        kafka_create_partitions_request_init(&request);
        if (kafka_create_partitions_request_decode(body, version, &arena, &request) != BASE_OK) { return; }
        for (int32_t t = 0; t < request.topics_count; t++) {
            note_count(stream, request.topics[t].name, request.topics[t].count);
        }
    }
}

static void judge_told(struct check_stream *stream, struct kafka_text name, int32_t count)
{
    bool is_known = false;
    bool is_asked_for = false;
    for (uint32_t i = 0; i < stream->wish_count; i++) {
        const struct stream_wish *wish = &stream->wishes[i];
        if (!kafka_text_is(name, wish->topic)) { continue; }
        if (wish->count < 0) { return; } /* as many as the node gives */
        is_known = true;
        is_asked_for = is_asked_for || wish->count == count;
    }
    if (!is_known) { return; } /* the node's own */
    stream->counts.topics_judged += 1;
    if (is_asked_for) { return; }
    struct base_slice slice = kafka_text_slice(name);
    check_breach(stream->report, "I23",
                 "topic %.*s is told to have %" PRId32 " partitions, and nobody asked for so many",
                 (int)slice.size_bytes, (const char *)slice.at, count);
}

void stream__told_answered(struct check_stream *stream, int16_t api_key, int16_t version, struct base_slice body)
{
    struct base_arena arena;
    base_arena_init(&arena, stream->scratch, STREAM_SCRATCH_BYTES);
    if (api_key == KAFKA_API_METADATA) {
        struct kafka_metadata_response response;
        kafka_metadata_response_init(&response);
        if (kafka_metadata_response_decode(body, version, &arena, &response) != BASE_OK) { return; }
        for (int32_t t = 0; t < response.topics_count; t++) {
            if (response.topics[t].error_code != 0) { continue; }
            judge_told(stream, response.topics[t].name, response.topics[t].partitions_count);
        }
    }
    if (api_key == KAFKA_API_DESCRIBE_TOPIC_PARTITIONS) {
        struct kafka_describe_topic_partitions_response response;
        kafka_describe_topic_partitions_response_init(&response);
        if (kafka_describe_topic_partitions_response_decode(body, version, &arena, &response) != BASE_OK) { return; }
        for (int32_t t = 0; t < response.topics_count; t++) {
            if (response.topics[t].error_code != 0) { continue; }
            judge_told(stream, response.topics[t].name, response.topics[t].partitions_count);
        }
    }
}
