/* broker_stream.h: what the parts of fuzz_broker_stream share: the script's bytes, requests made from them, committed offsets.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FUZZ_BROKER_STREAM_H
#define FUZZ_BROKER_STREAM_H

#include "base/base.h"
#include "wire/kafka/kafka.h"

struct kafka_fetch_response;
struct kafka_join_group_response;
struct kafka_offset_commit_request;
struct kafka_offset_commit_response;
struct kafka_offset_fetch_response;

#define STREAM_REQUEST_BYTES_MAX ((size_t)1 << 17)
#define STREAM_IDS_MAX           8
#define STREAM_GROUPS            3
#define STREAM_MEMBERS_MAX       8
#define STREAM_SESSIONS_MAX      4
#define STREAM_NONE              UINT32_MAX

/* The rest of the script. Past its end everything is 0. */
struct stream_input {
    const uint8_t *at;
    size_t left;
};
uint32_t stream_take(struct stream_input *input, uint32_t bytes);

/* Topic ids that exist now, for requests that name topics by id. */
struct stream_ids {
    struct base_uuid ids[STREAM_IDS_MAX];
    struct base_slice names[STREAM_IDS_MAX];
    uint32_t count;
};

/* A member id that an answer gave out, and what it said with it. */
struct stream_member {
    uint32_t group;
    uint8_t id[80];
    size_t id_bytes;
    int32_t generation; /* -1: not joined yet */
};

/* A fetch session (KIP-227) that an answer named, and the epoch that goes on with it. */
struct stream_session {
    int32_t id;
    int32_t epoch;
};

/* What a script's requests may speak of, so that they mean something to the broker. */
struct stream_known {
    struct stream_ids topics;
    bool has_groups; /* most requests are about groups */
    struct stream_member members[STREAM_MEMBERS_MAX];
    uint32_t members_count; /* ever: the newest take the places of the oldest */
    struct stream_session sessions[STREAM_SESSIONS_MAX];
    uint32_t sessions_count; /* ever */
};
void stream_fetched(struct stream_known *known, const struct kafka_fetch_response *answer);
const char *stream_group(uint32_t index);
uint32_t stream_group_index(struct kafka_text id); /* STREAM_NONE: another */
void stream_joined(struct stream_known *known, uint32_t group, const struct kafka_join_group_response *answer);

/* A whole frame, well formed, of an api that is served, with values as odd as the script asks for. 0: they can't be said. */
size_t stream_request(struct stream_input *input, const struct stream_known *known, int32_t correlation,
                      uint8_t frame_out[STREAM_REQUEST_BYTES_MAX]);
/* The same with values at random: any of the apis, served or not. */
size_t stream_random_request(struct stream_input *input, int32_t correlation,
                             uint8_t frame_out[STREAM_REQUEST_BYTES_MAX]);
size_t stream_encode(enum kafka_message message, const void *value, int16_t version, int32_t correlation,
                     uint8_t frame_out[STREAM_REQUEST_BYTES_MAX]);

/* Between the files of requests: values, odd ones among them, and what is said of groups. */
int64_t stream_odd(struct stream_input *input);
int32_t stream_odd_i32(struct stream_input *input);
int32_t stream_count(struct stream_input *input);
struct kafka_text stream_topic(struct stream_input *input);
struct base_uuid stream_id(struct stream_input *input, const struct stream_ids *ids);
int16_t stream_group_api(struct stream_input *input);
bool stream_fill_group(struct stream_input *input, const struct stream_known *known, struct base_arena *arena,
                       int16_t api_key, int16_t version, void *value);

/* Committed offsets: what may be there at the end, by what was sent and what was answered. */
void stream_offsets_begin(void);
/* A commit leaves: a name for it. The topics of its version are named by id, or by name. */
uint32_t stream_offsets_sent(const struct kafka_offset_commit_request *request, const struct stream_ids *topics,
                             bool is_by_id);
void stream_offsets_answered(uint32_t commit, const struct kafka_offset_commit_response *answer);
/* From here on any may go: deleted, or with an end of its own. */
void stream_offsets_may_go(void);
/* The question for all of them; what is wrong with its answer; NULL: nothing. *is_loading_out: ask again. */
size_t stream_offsets_question(int32_t correlation, uint8_t frame_out[STREAM_REQUEST_BYTES_MAX]);
const char *stream_offsets_judge(const struct kafka_offset_fetch_response *answer, bool *is_loading_out);

#endif
