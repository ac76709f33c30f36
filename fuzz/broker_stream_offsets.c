/* broker_stream_offsets.c: see broker_stream.h. Committed offsets as a row of registers, judged at the end.
 *
 * A commit was begun when it was handed over, and done when its answer came. Of one place the end may show any value whose commit was
 * not done before another began that was acknowledged; a commit that was refused for what it is never shows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker_stream.h"

#include <string.h>

#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_fetch.h"

#define WRITES_MAX 256
#define NAME_BYTES 16
#define VERSION    8 /* of OffsetFetch: topics by name, several groups */

enum fate { OPEN = 0, ACKED, REFUSED };

struct written {
    uint32_t commit;
    uint32_t group;
    char topic[NAME_BYTES];
    int32_t partition;
    int64_t offset;
    uint64_t begun, done;
    enum fate fate;
};

static struct {
    struct written writes[WRITES_MAX];
    uint32_t count;
    uint32_t commits;
    uint64_t clock;
    bool may_go;
} offsets;

void stream_offsets_begin(void) { memset(&offsets, 0, sizeof offsets); }

void stream_offsets_may_go(void) { offsets.may_go = true; }

static bool has_name(const struct written *written, struct base_slice name)
{
    return base_slice_equal(base_slice_text(written->topic), name);
}

static struct base_slice name_of(const struct kafka_offset_commit_request_offset_commit_request_topic *topic,
                                 const struct stream_ids *topics, bool is_by_id)
{
    if (!is_by_id) { return kafka_text_slice(topic->name); }
    for (uint32_t i = 0; i < topics->count; i++) {
        if (memcmp(topics->ids[i].b, topic->topic_id.b, sizeof topic->topic_id.b) == 0) { return topics->names[i]; }
    }
    return base_slice_of(NULL, 0); /* refused, for there is no such topic */
}

uint32_t stream_offsets_sent(const struct kafka_offset_commit_request *request, const struct stream_ids *topics,
                             bool is_by_id)
{
    uint32_t group = stream_group_index(request->group_id);
    if (group == STREAM_NONE) { return STREAM_NONE; }
    if (request->retention_time_ms >= 0) { offsets.may_go = true; }
    offsets.commits += 1;
    offsets.clock += 1;
    for (int32_t t = 0; t < request->topics_count; t++) {
        const struct kafka_offset_commit_request_offset_commit_request_topic *topic = &request->topics[t];
        struct base_slice name = name_of(topic, topics, is_by_id);
        for (int32_t p = 0; p < topic->partitions_count; p++) {
            if (offsets.count == WRITES_MAX) {
                offsets.may_go = true; /* more than is kept here */
                return STREAM_NONE;
            }
            struct written *written = &offsets.writes[offsets.count];
            offsets.count += 1;
            *written = (struct written){.commit = offsets.commits,
                                        .group = group,
                                        .partition = topic->partitions[p].partition_index,
                                        .offset = topic->partitions[p].committed_offset,
                                        .begun = offsets.clock,
                                        .done = UINT64_MAX};
            /* A name too long for here is nobody's: nothing is kept of it, and nothing of it is looked for. */
            if (name.size_bytes > 0 && name.size_bytes < NAME_BYTES) {
                memcpy(written->topic, name.at, name.size_bytes);
            }
        }
    }
    return offsets.commits;
}

/* Refused for what it is, before anything was done. The other errors may come when it is in the log. */
static bool is_definite(int16_t error)
{
    switch (error) {
    case KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION:
    case KAFKA_ERROR_UNKNOWN_TOPIC_ID:
    case KAFKA_ERROR_OFFSET_METADATA_TOO_LARGE:
    case KAFKA_ERROR_UNKNOWN_MEMBER_ID:
    case KAFKA_ERROR_ILLEGAL_GENERATION:
    case KAFKA_ERROR_FENCED_INSTANCE_ID:
    case KAFKA_ERROR_REBALANCE_IN_PROGRESS:
    case KAFKA_ERROR_INVALID_GROUP_ID: return true;
    default: return false;
    }
}

void stream_offsets_answered(uint32_t commit, const struct kafka_offset_commit_response *answer)
{
    if (commit == STREAM_NONE) { return; }
    offsets.clock += 1;
    uint32_t at = 0;
    while (at < offsets.count && offsets.writes[at].commit != commit) { at += 1; }
    for (int32_t t = 0; t < answer->topics_count; t++) {
        for (int32_t p = 0; p < answer->topics[t].partitions_count; p++) {
            const struct kafka_offset_commit_response_offset_commit_response_partition *line =
                &answer->topics[t].partitions[p];
            CHECK(at < offsets.count && offsets.writes[at].commit == commit); /* as many lines as were asked for */
            struct written *written = &offsets.writes[at];
            CHECK(line->partition_index == written->partition);
            written->done = offsets.clock;
            if (line->error_code == KAFKA_ERROR_NONE) { written->fate = ACKED; }
            if (is_definite(line->error_code)) { written->fate = REFUSED; }
            at += 1;
        }
    }
}

size_t stream_offsets_question(int32_t correlation, uint8_t frame_out[STREAM_REQUEST_BYTES_MAX])
{
    struct kafka_offset_fetch_request_offset_fetch_request_group groups[STREAM_GROUPS];
    struct kafka_offset_fetch_request request;
    kafka_offset_fetch_request_init(&request);
    for (uint32_t i = 0; i < STREAM_GROUPS; i++) {
        kafka_offset_fetch_request_offset_fetch_request_group_init(&groups[i]);
        groups[i].group_id = kafka_text_words(stream_group(i));
        groups[i].topics_count = -1;
    }
    request.groups = groups;
    request.groups_count = STREAM_GROUPS;
    return stream_encode(KAFKA_MESSAGE_OFFSET_FETCH_REQUEST, &request, VERSION, correlation, frame_out);
}

static bool is_same_place(const struct written *a, const struct written *b)
{
    return a->group == b->group && a->partition == b->partition && strcmp(a->topic, b->topic) == 0;
}

static bool may_show(const struct written *written)
{
    if (written->fate == REFUSED) { return false; }
    for (uint32_t i = 0; i < offsets.count; i++) {
        const struct written *other = &offsets.writes[i];
        if (other->fate == ACKED && is_same_place(other, written) && other->begun > written->done) { return false; }
    }
    return true;
}

static const struct kafka_offset_fetch_response_offset_fetch_response_partitions *shown(
    const struct kafka_offset_fetch_response *answer, const struct written *written)
{
    const struct kafka_offset_fetch_response_offset_fetch_response_group *group = &answer->groups[written->group];
    for (int32_t t = 0; t < group->topics_count; t++) {
        if (!has_name(written, kafka_text_slice(group->topics[t].name))) { continue; }
        for (int32_t p = 0; p < group->topics[t].partitions_count; p++) {
            if (group->topics[t].partitions[p].partition_index == written->partition) {
                return &group->topics[t].partitions[p];
            }
        }
    }
    return NULL;
}

static bool is_from_somebody(uint32_t group, struct base_slice topic, int32_t partition, int64_t offset)
{
    for (uint32_t i = 0; i < offsets.count; i++) {
        const struct written *written = &offsets.writes[i];
        bool is_it = written->group == group && written->partition == partition && written->offset == offset;
        if (is_it && has_name(written, topic) && may_show(written)) { return true; }
    }
    return false;
}

const char *stream_offsets_judge(const struct kafka_offset_fetch_response *answer, bool *is_loading_out)
{
    *is_loading_out = false;
    if (answer->groups_count != STREAM_GROUPS) { return "offsets of other groups than were asked for"; }
    for (uint32_t g = 0; g < STREAM_GROUPS; g++) {
        int16_t error = answer->groups[g].error_code;
        if (error == KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS) { *is_loading_out = true; }
        if (error != KAFKA_ERROR_NONE && !*is_loading_out) { return "offsets that can't be had"; }
    }
    if (*is_loading_out || offsets.may_go) { return NULL; }
    for (uint32_t g = 0; g < STREAM_GROUPS; g++) {
        for (int32_t t = 0; t < answer->groups[g].topics_count; t++) {
            const struct kafka_offset_fetch_response_offset_fetch_response_topics *topic = &answer->groups[g].topics[t];
            struct base_slice name = kafka_text_slice(topic->name);
            if (name.size_bytes >= NAME_BYTES) { continue; }
            for (int32_t p = 0; p < topic->partitions_count; p++) {
                if (!is_from_somebody(g, name, topic->partitions[p].partition_index,
                                      topic->partitions[p].committed_offset)) {
                    return "an offset that nobody committed, or that another one came after";
                }
            }
        }
    }
    for (uint32_t i = 0; i < offsets.count; i++) {
        const struct written *written = &offsets.writes[i];
        if (written->fate == ACKED && written->topic[0] != 0 && shown(answer, written) == NULL) {
            return "a committed offset is gone";
        }
    }
    return NULL;
}
