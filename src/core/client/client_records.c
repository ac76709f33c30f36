/* client_records.c: one record after another out of what was fetched.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

void client__fetched_free(struct client *client, struct fetched *fetched)
{
    client__give(client, fetched->opened);
    client__give(client, fetched->memory);
    client__give(client, fetched->frame);
    struct node *node = &client->nodes[fetched->node];
    CHECK(node->fetched_count > 0);
    node->fetched_count -= 1;
    base_list_remove(&client->fetched, &fetched->link);
    base_pool_give(&client->fetched_pool, base_pool_index(&client->fetched_pool, fetched));
}

static struct part *part_of(struct client *client, const struct piece *piece)
{
    struct part *part = client__part(client, piece->part);
    bool is_wanted = part->generation == piece->generation && base_link_is_on(&part->assigned) && !part->is_spoilt;
    return is_wanted ? part : NULL;
}

static void leave_batch(struct client *client, struct fetched *fetched)
{
    client__give(client, fetched->opened);
    fetched->opened = NULL;
    fetched->is_walking = false;
}

/* Whether the batch is of a transaction that was aborted (KIP-98). Its marker ends that. */
static bool is_aborted(const struct piece *piece, const struct rec_batch *batch)
{
    for (int32_t i = 0; i < piece->aborted_count && piece->aborted != NULL; i++) {
        if (piece->aborted[i].producer_id == batch->producer_id &&
            piece->aborted[i].first_offset <= batch->base_offset) {
            return rec_is_transactional(batch);
        }
    }
    return false;
}

static void end_aborted(struct piece *piece, const struct rec_batch *batch)
{
    for (int32_t i = 0; i < piece->aborted_count && piece->aborted != NULL; i++) {
        if (piece->aborted[i].producer_id == batch->producer_id &&
            piece->aborted[i].first_offset <= batch->base_offset) {
            piece->aborted[i].producer_id = REC_NO_PRODUCER_ID;
            return;
        }
    }
}

static void complain(struct client *client, struct part *part, enum rec_verdict verdict)
{
    bool is_room = verdict == REC_NO_ROOM;
    part->is_spoilt = true;
    client__part_fail(client, part, is_room ? KAFKA_ERROR_NONE : KAFKA_ERROR_CORRUPT_MESSAGE,
                      is_room ? PORT_NO_MEMORY : PORT_OK);
}

/* Makes the records of a batch ready to be walked. */
static enum rec_verdict open_batch(struct client *client, struct fetched *fetched, const struct rec_batch *batch)
{
    struct base_arena arena = {0};
    struct base_slice records;
    size_t bytes = rec_open_bytes(batch, client->config.opened_bytes_max);
    if (client->config.is_crc_checked && !rec_crc_is_right(batch)) { return REC_BAD_CRC; }
    if (rec_is_compressed(batch)) {
        fetched->opened = base_pages_take(client->pages, BASE_CONTROL, bytes + 64);
        if (fetched->opened == NULL) { return REC_NO_ROOM; }
        base_arena_init(&arena, fetched->opened, bytes + 64);
    }
    enum rec_verdict verdict = rec_open(batch, client->config.opened_bytes_max, &arena, &records);
    if (verdict != REC_OK) {
        leave_batch(client, fetched);
        return verdict;
    }
    rec_walk_init(&fetched->walk, batch, records);
    fetched->is_walking = true;
    return REC_OK;
}

/* The next batch of a piece that has records for us. False: none, or the partition has failed. */
static bool next_batch(struct client *client, struct fetched *fetched, struct piece *piece, struct part *part)
{
    struct rec_batch batch;
    for (;;) {
        enum rec_verdict verdict = rec_batch_next(&piece->rest, &batch);
        bool is_cut = verdict == REC_INCOMPLETE && piece->has_begun; /* the last batch, not the first (KIP-74) */
        if (verdict == REC_END || is_cut) { return false; }
        if (verdict != REC_OK) {
            complain(client, part, verdict);
            return false;
        }
        piece->has_begun = true;
        if (rec_is_control(&batch)) { end_aborted(piece, &batch); }
        if (rec_is_control(&batch) || rec_offset_end(&batch) <= part->consumed || is_aborted(piece, &batch)) {
            part->consumed = base_max_i64(part->consumed, rec_offset_end(&batch));
            continue;
        }
        verdict = open_batch(client, fetched, &batch);
        if (verdict == REC_OK) { return true; }
        complain(client, part, verdict);
        return false;
    }
}

/* The next record of the batch at hand. False: it has no more. */
static bool next_record(struct client *client, struct fetched *fetched, const struct piece *piece, struct part *part,
                        struct client_result *result_out)
{
    struct rec_record record;
    enum rec_verdict verdict = rec_walk_next(&fetched->walk, &record);
    while (verdict == REC_OK && record.offset < part->consumed) { verdict = rec_walk_next(&fetched->walk, &record); }
    if (verdict != REC_OK) {
        if (verdict == REC_END) {
            part->consumed = base_max_i64(part->consumed, rec_offset_end(&fetched->walk.batch));
        } else {
            complain(client, part, verdict);
        }
        leave_batch(client, fetched);
        return false;
    }
    part->consumed = record.offset + 1;
    part->is_end_told = false;
    *result_out = (struct client_result){.kind = CLIENT_RECORD,
                                         .token = part->token,
                                         .topic = client__topic_name(&client->topics[part->topic]),
                                         .topic_id = piece->topic_id,
                                         .partition = part->index,
                                         .offset = record.offset,
                                         .record = record};
    return true;
}

static bool tell_end(struct client *client, const struct piece *piece, struct part *part,
                     struct client_result *result_out)
{
    if (part->is_spoilt || part->is_end_told || part->consumed < piece->end_offset) { return false; }
    part->is_end_told = true;
    *result_out = (struct client_result){.kind = CLIENT_AT_END,
                                         .token = part->token,
                                         .topic = client__topic_name(&client->topics[part->topic]),
                                         .partition = part->index,
                                         .offset = part->consumed};
    return true;
}

/* One result out of a fetched answer; false: it has none any more. */
static bool take_result(struct client *client, struct fetched *fetched, struct client_result *result_out)
{
    while (fetched->piece < fetched->piece_count) {
        struct piece *piece = &fetched->pieces[fetched->piece];
        struct part *part = part_of(client, piece);
        if (part != NULL && fetched->is_walking) {
            if (next_record(client, fetched, piece, part, result_out)) { return true; }
            continue;
        }
        if (part != NULL && next_batch(client, fetched, piece, part)) { continue; }
        leave_batch(client, fetched);
        fetched->piece += 1;
        client__part(client, piece->part)->queued -= 1;
        if (part != NULL && tell_end(client, piece, part, result_out)) { return true; }
    }
    return false;
}

static bool take_failure(struct client *client, struct client_result *result_out)
{
    for (struct base_link *link = base_list_first(&client->assigned); link != NULL;
         link = base_list_next(&client->assigned, link)) {
        struct part *part = BASE_ITEM(link, struct part, assigned);
        if (!part->has_failed) { continue; }
        *result_out = (struct client_result){.kind = CLIENT_FAILED,
                                             .token = part->token,
                                             .topic = client__topic_name(&client->topics[part->topic]),
                                             .partition = part->index,
                                             .offset = part->consumed,
                                             .error = part->error,
                                             .rc = part->rc};
        part->has_failed = false;
        part->generation += 1;
        base_list_remove(&client->assigned, &part->assigned);
        return true;
    }
    return false;
}

bool client__poll_records(struct client *client, struct client_result *result_out)
{
    for (;;) {
        struct base_link *link = base_list_first(&client->fetched);
        if (link == NULL) { break; }
        struct fetched *fetched = BASE_ITEM(link, struct fetched, link);
        if (take_result(client, fetched, result_out)) { return true; }
        client__fetched_free(client, fetched);
    }
    return take_failure(client, result_out);
}
