/* shard.h: one shard of a broker of two, by itself: the world says yes, and the test plays the other shard.
 *
 * Its node has broker.rack=a-rack and default.replication.factor=2. Its wall clock goes with the other one.
 *
 * The disk keeps names and sizes, and no bytes: nothing is started twice. What the other shard is asked it answers at once, but for
 * its states in a checkpoint, which wait until the test gives them, and what is asked of its partitions, which it never answers. Who
 * connects reads what it is sent, and never ends. A run goes on until nothing is left but to wait; alarms are rung by shard_wait alone.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_BROKER_SHARD_H
#define TESTS_BROKER_SHARD_H

#include "broker/broker.h"
#include "broker/broker__message.h"
#include "wire/kafka/kafka.h"

#define SHARD_FILES   64
#define SHARD_ASKED   256
#define SHARD_ACCEPTS 256
#define SHARD_TOLD    4096
#define SHARD_CONNS   8
#define SHARD_SENT    65536

struct shard_file {
    char path[80];
    struct port_file id; /* slot of the last open */
    uint64_t size_bytes;
};

struct shard {
    struct broker *broker;
    uint32_t number;
    void *memory;
    struct port_out out;
    uint64_t now_ns;
    uint64_t alarm_ns; /* of the last step */
    uint64_t steps;
    struct shard_file files[SHARD_FILES];
    uint32_t file_count;
    struct port_effect asked[SHARD_ASKED]; /* to be carried out, in order */
    uint32_t asked_count;
    struct port_effect accepts[SHARD_ACCEPTS]; /* nobody connects but by shard_connect */
    uint32_t accept_count;
    struct port_effect receives[SHARD_CONNS]; /* by slot, of who has connected: under way */
    bool has_receive[SHARD_CONNS];
    struct port_message told[SHARD_TOLD]; /* what the other shard was told, ever; answered_count of it are looked at */
    uint32_t told_count, answered_count;
    uint8_t sent[SHARD_SENT]; /* the last send to a client, as much as fits; of a file its size, as zeros */
    size_t sent_bytes;
    const char *failing_suffix; /* writes to such a file fail; NULL: none do */
    bool is_full;               /* no file gets room ahead of what is written to it */
    bool is_out_of_handles;     /* no file is opened */
    bool is_slow_to_drain;      /* the other shard: the test says when it has drained */
    bool wants_turn, wants_continue, is_ready, is_stopped;
};

struct shard *shard_make(uint32_t number); /* 0 or 1 */
/* The same of a node that is told otherwise: `tell` changes what it would be told. */
struct shard *shard_make_told(uint32_t number, void (*tell)(struct broker_config *config));
void shard_free(struct shard *shard);
void shard_start(struct shard *shard); /* it takes START; and runs */
void shard_run(struct shard *shard);
void shard_stop(struct shard *shard); /* asks it to; and runs */
/* A topic of one partition is in the image, on this shard or on the other; its log is not open. */
struct base_part shard_topic(struct shard *shard, const char *name, bool is_here);
uint32_t shard_connect(struct shard *shard); /* a client; its slot */
/* What a client says, as a frame; its size. */
size_t shard_put_request(uint8_t *at, size_t size_bytes, enum kafka_message message, int16_t version,
                         int32_t correlation, const void *request);
/* A Produce for the first partition of a topic, by name. */
size_t shard_put_produce(uint8_t *at, size_t size_bytes, int16_t version, int16_t acks, int32_t correlation,
                         const char *topic, struct base_slice records);
/* From a client: bytes come, in one piece, once there is a buffer for them; and runs. `before`, where it is not NULL, is called when the
 * buffer is there and the bytes are not. */
void shard_receive(struct shard *shard, uint32_t slot, const void *bytes, size_t size_bytes,
                   void (*before)(struct shard *shard));
void shard_wait(struct shard *shard,
                uint64_t to_ns); /* the time comes, alarms that are due ring, each once; and runs */
/* A client's request, in one piece; and runs. */
void shard_ask(struct shard *shard, uint32_t slot, enum kafka_message message, int16_t version, const void *request);
/* The same of a Produce, as shard_put_produce has it. */
void shard_produce(struct shard *shard, uint32_t slot, int16_t version, int16_t acks, const char *topic,
                   struct base_slice records);
/* One with acks=all that is taken: where its first record is. */
int64_t shard_produced(struct shard *shard, uint32_t slot, int16_t version, const char *topic,
                       struct base_slice records);
/* The last answer that was sent, if it is one to shard_ask: its texts lie in `shard->sent`. False: nothing was sent since. */
bool shard_answer(struct shard *shard, enum kafka_message message, int16_t version, void *answer_out);
/* What a client's receive under way ends with, by itself: nothing runs. It has a buffer. */
void shard_complete_receive(struct shard *shard, uint32_t slot, enum port_rc rc, const void *bytes, size_t size_bytes);
bool shard_run_one(struct shard *shard); /* the next thing that shard_run would do; false: there is none */
/* From the other shard, by itself: nothing runs. */
void shard_tell_only(struct shard *shard, const struct port_message *message);
/* From the other shard; and runs. */
void shard_tell(struct shard *shard, const struct port_message *message);
void shard_tell_word(struct shard *shard, enum message_kind kind, uint64_t word0, uint64_t word1);
uint32_t shard_told(const struct shard *shard, enum message_kind kind); /* how often the other shard was told that */
const struct port_message *shard_told_last(const struct shard *shard, enum message_kind kind); /* NULL: never */

#endif
