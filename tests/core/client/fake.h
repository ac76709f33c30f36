/* fake.h: a broker at the level of frames, and the world between it and a client: one node, one topic, everything scripted.
 *
 * Room    tests/core/client.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FAKE_H
#define FAKE_H

#include "client/client.h"
#include "wire/kafka/kafka.h"

#define FAKE_PARTS_MAX   4
#define FAKE_BATCHES_MAX 512
#define FAKE_RESULTS_MAX 4096
#define FAKE_CONNS_MAX   16

struct fake_batch {
    uint8_t *at;
    size_t size_bytes;
    int64_t base_offset;
};
struct fake_log {
    struct fake_batch batches[FAKE_BATCHES_MAX];
    uint32_t count;
    int64_t start;
    int64_t end;
    int64_t producer_id; /* of the last batch */
    int32_t next_sequence;
};

struct fake_conn {
    bool is_open;
    bool is_reset; /* by the broker: told to the client as its outstanding effects end */
    uint32_t generation;
    uint8_t *in; /* requests */
    size_t in_bytes;
    uint8_t *out; /* answers on their way */
    size_t out_bytes;
    bool is_waiting; /* the request at the front is a fetch that waits for records */
    uint64_t wait_until_ns;
    bool has_recv;
    struct port_effect recv;
};

#define FAKE_OTHERS_MAX 4
struct fake_other { /* another member: what it says in its JoinGroup */
    const char *id;
    const char *instance_id;
    uint8_t words[256];
    size_t words_bytes;
};
/* A coordinator of one group; fake_group.c. Our member's id is "m-1". */
struct fake_group {
    bool is_on;
    bool is_follower;      /* m-0 leads, and gives us `given` */
    uint32_t given;        /* partitions, as bits */
    bool skips_assignment; /* KIP-814 */
    struct fake_other others[FAKE_OTHERS_MAX];
    uint32_t other_count;
    int32_t generation;
    int64_t committed[FAKE_PARTS_MAX];
    int16_t errors[128][8]; /* of the next answers of each api, one each */
    uint32_t error_count[128];
    uint32_t errors_used[128];
    bool says_nothing;  /* OffsetCommit and OffsetFetch: of no topic */
    bool holds_commits; /* an OffsetCommit, and what comes behind it on its connection, waits until it does not */
    uint32_t lose[128]; /* so many requests of each api are carried out, and the connection then resets */
    /* what it saw */
    char strategy[32];
    uint32_t owned; /* as the last JoinGroup said, as bits */
    int32_t owned_generation;
    char divided[256]; /* the last assignments: "m-1=0,1 m-2=2,3" */
    uint32_t has_left;
};

struct fake_result { /* what a test may look at after the next poll */
    struct client_result is;
    char key[64];
    char value[64];
    int16_t answer_error; /* CreateTopics, DeleteTopics: of the first topic */
};

struct fake_session { /* of fetches; the fake keeps one */
    int32_t id;       /* 0: none */
    int32_t epoch;    /* that is next */
    bool follows[FAKE_PARTS_MAX];
    int64_t offsets[FAKE_PARTS_MAX];
    int64_t told_ends[FAKE_PARTS_MAX];
};

struct fake {
    struct client_config config;
    struct client *client;
    void *memory;
    size_t memory_bytes;
    uint64_t now_ns;
    struct port_out out;
    struct port_event *events;
    uint32_t event_first;
    uint32_t event_count;
    bool wants_continue;
    uint64_t alarm_ns;
    struct fake_conn conns[FAKE_CONNS_MAX];
    struct fake_result results[FAKE_RESULTS_MAX];
    uint32_t result_count;
    bool polls; /* false: results are left in the client */
    /* the broker's script */
    size_t recv_bytes_max;     /* an answer comes in pieces of so many bytes */
    uint32_t connects_refused; /* so many tries fail */
    int16_t version_max[128];  /* what it says it knows; -1: not */
    bool is_old;               /* refuses newer ApiVersions as before KIP-511 */
    bool has_topic;
    struct base_uuid topic_id;
    bool is_leaderless;
    uint16_t leader_port;   /* 0: that of the broker; else one where nobody listens */
    bool is_one_said_twice; /* Metadata: the last partition goes by the number of the first */
    bool drops_requests;    /* reads requests and never answers, but for ApiVersions and Metadata */
    int32_t parts;
    int16_t produce_errors[64]; /* of the next produce answers, one each; 0: none */
    uint32_t produce_error_count;
    uint32_t produce_errors_used;
    bool error_after_append;  /* the errors come after the batch was written */
    uint32_t lose_answers;    /* so many produce requests are carried out, and the connection then resets */
    uint32_t lose_requests;   /* so many are not carried out, and the connection resets */
    bool has_sessions;        /* of fetches: else each answer says that there is none */
    int16_t session_error;    /* once, of a whole fetch that goes on with a session */
    int16_t full_fetch_error; /* of every full fetch; 0: none */
    bool forgets_session;     /* once: the next fetch that goes on with it is refused */
    struct fake_session session;
    size_t fetched_bytes_max; /* of a partition in an answer, which may end in the middle of a batch; 0: no limit */
    int16_t fetch_errors[16];
    uint32_t fetch_error_count;
    uint32_t fetch_errors_used;
    int16_t call_errors[16]; /* CreateTopics, DeleteTopics, FindCoordinator, OffsetFetch */
    uint32_t call_error_count;
    uint32_t call_errors_used;
    bool forgets_producers; /* once: UNKNOWN_PRODUCER_ID for what comes next */
    struct fake_log logs[FAKE_PARTS_MAX];
    int64_t next_producer_id;
    struct fake_group coordinator;
    /* what it saw */
    uint32_t requests[128];
    int16_t versions[128];
    uint32_t produce_in_flight;
    uint32_t connects;
    int32_t fetch_first;      /* the partition that the last one with any named first */
    uint32_t fetches_full;    /* that named epoch 0 */
    uint32_t fetches_gone_on; /* that went on with a session */
    uint32_t partitions_said; /* in fetches that went on with one */
    uint32_t partitions_forgotten;
    int32_t session_closed; /* the last that a full fetch named */
    char group[64];         /* the last that was asked about */
};

struct fake *fake_new(void); /* config at defaults for tests; change it, then fake_start */
void fake_start(struct fake *fake);
void fake_free(struct fake *fake); /* closes the client, and checks that everything came back */
/* Runs until nothing happens before `ms` from now. */
void fake_run(struct fake *fake, uint64_t ms);
enum base_rc fake_produce(struct fake *fake, uint64_t token, int32_t partition, const char *key, const char *value);
/* The result about a token; fails the test when there is none or more than one. */
const struct fake_result *fake_result_of(const struct fake *fake, uint64_t token);
uint32_t fake_count(const struct fake *fake, enum client_result_kind kind);
/* How often the value is in the partition's log. */
uint32_t fake_times(const struct fake *fake, int32_t partition, const char *value);
/* All values of the log, separated by spaces. */
const char *fake_values(const struct fake *fake, int32_t partition);
/* Answers of the coordinator; false: no such api. */
bool fake_group_serve(struct fake *fake, struct fake_conn *conn, int16_t api_key, int16_t version, int32_t correlation,
                      const void *request);
void fake_send_answer(struct fake_conn *conn, int16_t api_key, const void *answer, int16_t version,
                      int32_t correlation);
/* Another member, subscribed to the topics (words between commas), which says to own partitions of "t" (bits). */
void fake_group_add(struct fake *fake, const char *id, const char *topics, uint32_t owned, int32_t generation);
void fake_append(struct fake *fake, int32_t partition, const char *const *values, uint32_t count, enum codec_kind kind);

#endif
