/* stream_order.c: see stream.h. What was sent on one connection to one partition is appended in the order in which it was sent, and once (I9).
 *
 * A batch is known again by its records, as they were sent: a topic that compresses them anew is not looked at. What was sent more than
 * once before it was written first, on whatever connections, says nothing: any of these may have been it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "stream__parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "wire/kafka/produce.h"

static uint64_t mix(uint64_t hash, uint64_t word) { return base_hash_u64(hash ^ word); }

static uint64_t hash_bytes(uint64_t hash, const uint8_t *at, size_t size_bytes)
{
    size_t done = 0;
    for (; done + 8 <= size_bytes; done += 8) { hash = mix(hash, base_get_u64(at + done)); }
    for (; done < size_bytes; done++) { hash = mix(hash, at[done]); }
    return mix(hash, size_bytes);
}

/* Neither its offset nor what the broker may stamp on it. */
static uint64_t hash_batch(const struct rec_batch *batch)
{
    uint64_t hash = mix((uint64_t)batch->producer_id, (uint64_t)(uint32_t)batch->base_sequence);
    return hash_bytes(hash, batch->at + REC_HEADER_BYTES, batch->size_bytes - REC_HEADER_BYTES);
}

static struct stream_sent *find_sent(const struct check_stream *stream, uint64_t hash)
{
    for (uint32_t i = stream->sent_count; i-- > 0;) { /* most are written soon after */
        if (stream->sent[i].hash == hash) { return &stream->sent[i]; }
    }
    return NULL;
}

static void note_sent(struct check_stream *stream, uint64_t line, const struct rec_batch *batch)
{
    uint64_t hash = hash_batch(batch);
    struct stream_sent *known = find_sent(stream, hash);
    if (known != NULL) {
        known->is_ambiguous = true;
        return;
    }
    stream->sent = check__grow(stream->sent, stream->sent_count, &stream->sent_room, sizeof *stream->sent);
    stream->sent[stream->sent_count] = (struct stream_sent){.hash = hash, .line = line};
    stream->sent_count += 1;
}

void stream__order_asked(struct check_stream *stream, const struct stream_conn *conn,
                         const struct kafka_produce_request *request)
{
    for (int32_t t = 0; t < request->topic_data_count; t++) {
        const struct kafka_produce_request_topic_produce_data *topic = &request->topic_data[t];
        struct base_slice name = kafka_text_slice(topic->name); /* or its id: a connection speaks one version */
        uint64_t of = hash_bytes(mix(conn->number, 0), name.at, name.size_bytes);
        of = hash_bytes(of, topic->topic_id.b, sizeof topic->topic_id.b);
        for (int32_t p = 0; p < topic->partition_data_count; p++) {
            struct base_slice rest = kafka_records_slice(topic->partition_data[p].records);
            struct rec_batch batch;
            uint64_t line = mix(of, (uint64_t)(uint32_t)topic->partition_data[p].index);
            while (rec_batch_next(&rest, &batch) == REC_OK) { note_sent(stream, line, &batch); }
        }
    }
}

/* What was sent in this line behind it, and was written before it. NULL: nothing. */
static const struct stream_sent *overtaker_of(const struct check_stream *stream, const struct stream_sent *sent)
{
    for (const struct stream_sent *other = sent + 1; other < stream->sent + stream->sent_count; other++) {
        if (other->line == sent->line && other->is_judged) { return other; }
    }
    return NULL;
}

static uint64_t folder_hash_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return hash_bytes(0, (const uint8_t *)path, slash == NULL ? 0 : (size_t)(slash - path));
}

/* What is left of a short write, and what a start writes, stands where it stood. */
static void judge_again(struct check_stream *stream, const struct stream_sent *sent, const char *path, int64_t offset)
{
    if (sent->is_ambiguous || (sent->offset == offset && sent->folder_hash == folder_hash_of(path))) { return; }
    check_breach(stream->report, "I9",
                 "%s gets a batch at %" PRId64 " that was sent once and is written already, at %" PRId64, path, offset,
                 sent->offset);
}

void stream__order_written(struct check_stream *stream, const char *path, const struct rec_batch *batch)
{
    struct stream_sent *sent = find_sent(stream, hash_batch(batch));
    if (sent == NULL) { return; }
    if (sent->is_written) {
        judge_again(stream, sent, path, batch->base_offset);
        return;
    }
    sent->is_written = true;
    sent->offset = batch->base_offset;
    sent->folder_hash = folder_hash_of(path);
    if (sent->is_ambiguous) { return; }
    sent->is_judged = true;
    stream->counts.orders_judged += 1;
    const struct stream_sent *overtaker = overtaker_of(stream, sent);
    if (overtaker == NULL) { return; }
    check_breach(stream->report, "I9",
                 "%s gets a batch at %" PRId64 " that its connection sent before one that is written already", path,
                 batch->base_offset);
}
