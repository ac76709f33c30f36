/* app__replay.h: what weir bench replay sends, encoded once, and what it reads of the answers: as little as tells what came.
 *
 * Versions: Produce 7, Fetch 11 and Metadata 8, which every Kafka from 2.3 on has.
 *
 * Room    host/app, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_APP_REPLAY_H
#define HOST_APP_REPLAY_H

#include "app__parts.h"

#include "codec/codec.h"

enum replay_kind { REPLAY_PRODUCE, REPLAY_FETCH, REPLAY_METADATA };

struct replay_wanted {
    enum replay_kind kind;
    const char *topic;
    int64_t partition; /* the first of as many requests */
    int64_t partitions;
    int64_t max_bytes; /* Fetch */
    int64_t min_bytes;
    int64_t max_wait_ms;
    int64_t acks; /* Produce */
    int64_t records;
    int64_t size_bytes;
    enum codec_kind codec;
};

/* The requests of a kind: a head for each partition, and behind it the body that all share, which only a Produce has. With one
 * partition head and body lie behind each other. */
struct replay_frames {
    enum replay_kind kind;
    uint8_t *heads;
    size_t head_bytes;
    size_t offset_at; /* Fetch: of its offset in a head */
    struct base_slice body;
    size_t error_at;      /* of the partition's error in an answer, its length included; Metadata: 0, there is none */
    size_t answer_bytes;  /* of an answer: what must be there before anything can be said of it */
    int64_t record_count; /* Produce: of a request */
};
/* False: no memory, or a batch that can't be. The memory lives as long as the process. */
MUST_USE
bool replay_frames_make(const struct replay_wanted *wanted, struct replay_frames *frames_out);
/* Where a Fetch begins, in a head or in a copy of it. */
void replay_set_offset(const struct replay_frames *frames, uint8_t *head, uint64_t offset);

struct replay_answer {
    int16_t error; /* of the partition, or of the whole Fetch */
    uint64_t size_bytes;
    uint64_t base_offset; /* Produce: of the batch */
    uint64_t next_offset; /* Fetch that is looked into: behind the last whole batch; 0: there was none */
};
/* The answers of one connection, which come in pieces of any size. */
struct replay_reader {
    bool is_inside;
    bool is_looking;        /* Fetch: for next_offset */
    uint64_t left_bytes;    /* of the answer */
    uint64_t records_bytes; /* of these: records, the batch that is next at their front */
    uint64_t skip_bytes;    /* of these: not looked at */
    struct replay_answer answer;
};
enum replay_read { REPLAY_MORE, REPLAY_ANSWER, REPLAY_BAD };
/* Takes from the front of `bytes` up to the end of an answer, then in reader->answer, or as far as is of use. What is not taken is to come
 * again with more behind it; that is less than REPLAY_KEPT_BYTES and the topic's name. */
#define REPLAY_KEPT_BYTES 128
enum replay_read replay_read(struct replay_reader *reader, const struct replay_frames *frames, struct base_slice bytes,
                             size_t *taken_out);

#endif
