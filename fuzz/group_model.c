/* group_model.c: see group_model.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "group_model.h"

#include "wire/kafka/delete_groups.h"
#include "wire/kafka/join_group.h"
#include "wire/kafka/kafka.h"
#include "wire/kafka/offset_commit.h"
#include "wire/kafka/offset_delete.h"
#include "wire/kafka/offset_fetch.h"
#include "wire/kafka/sync_group.h"

void model_init(struct model *model, int64_t wall_ms, int64_t retention_ms)
{
    memset(model, 0, sizeof *model);
    model->start_ms = wall_ms;
    model->retention_ms = retention_ms;
}

void model_topic_changed(struct model *model)
{
    memset(model->offsets, 0, sizeof model->offsets);
    model->topic_number += 1;
}

void model_group_gone(struct model *model, uint32_t group)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < model->rows_count; i++) {
        if (model->rows[i].group != group) { model->rows[kept++] = model->rows[i]; }
    }
    model->rows_count = kept;
}

/* False: another was told otherwise. */
static bool tell(struct model *model, struct model_row row)
{
    for (uint32_t i = 0; i < model->rows_count; i++) {
        const struct model_row *known = &model->rows[i];
        bool is_it = known->group == row.group && known->generation == row.generation && known->kind == row.kind &&
                     known->member == row.member;
        if (is_it) { return known->told == row.told; }
    }
    if (model->rows_count < MODEL_ROWS) { model->rows[model->rows_count++] = row; }
    return true;
}

static uint64_t hash(struct base_slice slice) { return base_hash_bytes(slice.at, slice.size_bytes, 1); }

static void committed(struct model *model, const struct model_asked *asked,
                      const struct kafka_offset_commit_response *response)
{
    const struct kafka_offset_commit_request *request = asked->request;
    for (int32_t i = 0; i < request->topics[0].partitions_count; i++) {
        int32_t index = request->topics[0].partitions[i].partition_index;
        if (response->topics[0].partitions[i].error_code != KAFKA_ERROR_NONE) { continue; }
        struct model_offset *offset = &model->offsets[asked->group][index];
        *offset = (struct model_offset){.is_there = true,
                                        .is_unsure = asked->topic_number != model->topic_number,
                                        .offset = request->topics[0].partitions[i].committed_offset};
        /* An empty group's offsets are as old as its being empty. */
        offset->sure_until_ms = request->retention_time_ms >= 0 ? asked->wall_ms + request->retention_time_ms
                                                                : model->start_ms + model->retention_ms;
    }
}

static bool fetched(const struct model *model, const struct model_asked *asked,
                    const struct kafka_offset_fetch_response_offset_fetch_response_group *response)
{
    for (int32_t t = 0; t < response->topics_count; t++) {
        for (int32_t p = 0; p < response->topics[t].partitions_count; p++) {
            const struct kafka_offset_fetch_response_offset_fetch_response_partitions *line =
                &response->topics[t].partitions[p];
            const struct model_offset *offset = &model->offsets[asked->group][line->partition_index];
            if (offset->is_unsure) { continue; }
            if (!offset->is_there || offset->offset != line->committed_offset) { return false; }
        }
    }
    return true;
}

static void deleted(struct model *model, const struct model_asked *asked,
                    const struct kafka_offset_delete_response *response)
{
    for (int32_t t = 0; response->error_code == KAFKA_ERROR_NONE && t < response->topics_count; t++) {
        for (int32_t p = 0; p < response->topics[t].partitions_count; p++) {
            if (response->topics[t].partitions[p].error_code != KAFKA_ERROR_NONE) { continue; }
            struct model_offset *offset =
                &model->offsets[asked->group][response->topics[t].partitions[p].partition_index];
            offset->is_there = false;
            offset->is_unsure = asked->topic_number != model->topic_number;
        }
    }
}

bool model_answered(struct model *model, const struct model_asked *asked, const void *response)
{
    switch (asked->kind) {
    case GROUP_COMMIT: committed(model, asked, response); return true;
    case GROUP_OFFSET_DELETE: deleted(model, asked, response); return true;
    case GROUP_FETCH: return fetched(model, asked, response);
    case GROUP_DELETE: {
        const struct kafka_delete_groups_response_deletable_group_result *result = response;
        if (result->error_code != KAFKA_ERROR_NONE) { return true; }
        memset(model->offsets[asked->group], 0, sizeof model->offsets[asked->group]);
        model_group_gone(model, asked->group);
        return true;
    }
    case GROUP_SYNC: {
        const struct kafka_sync_group_request *request = asked->request;
        const struct kafka_sync_group_response *answer = response;
        if (answer->error_code != KAFKA_ERROR_NONE) { return true; }
        return tell(model, (struct model_row){.group = asked->group,
                                              .generation = request->generation_id,
                                              .kind = GROUP_SYNC,
                                              .member = hash(kafka_text_slice(request->member_id)),
                                              .told = hash(kafka_bytes_slice(answer->assignment))});
    }
    case GROUP_JOIN: {
        const struct kafka_join_group_response *answer = response;
        if (answer->error_code != KAFKA_ERROR_NONE) { return true; }
        return tell(model, (struct model_row){.group = asked->group,
                                              .generation = answer->generation_id,
                                              .kind = GROUP_JOIN,
                                              .told = hash(kafka_text_slice(answer->protocol_name))});
    }
    case GROUP_HEARTBEAT:
    case GROUP_LEAVE:
    case GROUP_DESCRIBE:
    case GROUP_LIST: return true;
    }
    UNREACHABLE();
}

bool model_agrees(struct model *model, uint32_t group, uint32_t partition, bool is_there, int64_t offset,
                  int64_t wall_ms)
{
    struct model_offset *known = &model->offsets[group][partition];
    if (known->is_unsure) { return true; }
    if (is_there) { return known->is_there && known->offset == offset; }
    if (known->is_there && wall_ms < known->sure_until_ms) { return false; }
    known->is_there = false; /* it has expired, and does not come back */
    return true;
}
