/* client_accept.c: records into batches; those whose topic is not known yet wait in blocks of their own form.
 *
 * A parked record: token 8, timestamp 8, partition 4, key size 4 (or ABSENT), value size 4 (or ABSENT), header count 4, for each
 * header key size 4 and value size 4, then the bytes in the same order. Big-endian, no padding.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "client__.h"

#define ABSENT              UINT32_MAX
#define PARKED_HEAD_BYTES   32
#define PARKED_PARTITION_AT 16
#define PARKED_BLOCK        16384
#define BATCH_ROOM_BYTES    (REC_HEADER_BYTES + 32)

/* Java's Utils.murmur2, with its seed. */
uint32_t client_murmur2(struct base_slice key)
{
    const uint32_t m = 0x5bd1e995U;
    uint32_t length = (uint32_t)key.size_bytes;
    uint32_t h = 0x9747b28cU ^ length;
    const uint8_t *b = key.at;
    while (length >= 4) {
        uint32_t k = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        k *= m;
        k ^= k >> 24;
        k *= m;
        h = h * m ^ k;
        b += 4;
        length -= 4;
    }
    if (length >= 3) { h ^= (uint32_t)b[2] << 16; }
    if (length >= 2) { h ^= (uint32_t)b[1] << 8; }
    if (length >= 1) {
        h ^= b[0];
        h *= m;
    }
    h ^= h >> 13;
    h *= m;
    return h ^ h >> 15;
}

/* ---- into a batch ---- */

static int32_t choose_partition(struct client *client, struct topic *topic, const struct client_record *record)
{
    if (record->partition >= 0) { return record->partition; }
    if (!record->key.is_null) {
        return (int32_t)((client_murmur2(record->key.bytes) & 0x7fffffffU) % (uint32_t)topic->partition_count);
    }
    if (topic->sticky < 0 || topic->sticky >= topic->partition_count) {
        topic->sticky = (int32_t)base_prng_below(&client->prng, (uint64_t)topic->partition_count);
    }
    return topic->sticky;
}

static struct batch *filling(const struct part *part)
{
    if (base_list_is_empty(&part->queue)) { return NULL; }
    struct batch *batch = BASE_ITEM(part->queue.head.prev, struct batch, link);
    return batch->state == BATCH_FILLING ? batch : NULL;
}

static void make_ready(struct client *client, struct batch *batch)
{
    struct part *part = client__part(client, batch->part);
    batch->state = BATCH_READY;
    client->topics[part->topic].sticky = -1; /* the next records without a key go elsewhere */
}

static enum base_rc open_batch(struct client *client, struct part *part, size_t record_bytes, struct batch **batch_out)
{
    size_t wanted_bytes = record_bytes + REC_HEADER_BYTES;
    if (wanted_bytes < client->config.batch_bytes) { wanted_bytes = client->config.batch_bytes; }
    uint8_t *block = base_pages_take(client->pages, BASE_CLIENTS, wanted_bytes);
    if (block == NULL) { return BASE_FULL; }
    uint32_t slot = base_pool_take(&client->batches);
    if (slot == BASE_POOL_NONE) {
        base_pages_give(client->pages, block);
        return BASE_FULL;
    }
    struct batch *batch = base_pool_at(&client->batches, slot);
    enum base_rc rc = rec_build_init(&batch->build, block, wanted_bytes, rec_build_plain());
    CHECK(rc == BASE_OK); /* room for a header is in wanted_bytes */
    batch->block = block;
    batch->part = client__part_index(client, part);
    batch->first_cell = NONE;
    batch->sequence = -1;
    batch->ready_ns = base_deadline_ns(client->now_ns, client->config.linger_ms * MS);
    batch->deadline_ns = base_deadline_ns(client->now_ns, client->config.delivery_timeout_ms * MS);
    if (base_list_is_empty(&part->queue)) { base_list_push_back(&client->busy, &part->busy); }
    base_list_push_back(&part->queue, &batch->link);
    *batch_out = batch;
    return BASE_OK;
}

static void add_cell(struct client *client, struct batch *batch, uint64_t token)
{
    uint32_t slot = base_pool_take(&client->cells);
    CHECK(slot != BASE_POOL_NONE); /* records_max counts before */
    struct cell *cell = base_pool_at(&client->cells, slot);
    *cell = (struct cell){.token = token, .next = NONE};
    if (batch->first_cell == NONE) {
        batch->first_cell = slot;
    } else {
        ((struct cell *)base_pool_at(&client->cells, batch->last_cell))->next = slot;
    }
    batch->last_cell = slot;
    batch->record_count += 1;
}

static size_t record_bytes_of(const struct client_record *record)
{
    return rec_build_record_bytes_max(record->key, record->value, record->headers, record->header_count);
}

static enum base_rc add(struct batch *batch, const struct client_record *record)
{
    return rec_build_add(&batch->build, record->timestamp_ms, record->key, record->value, record->headers,
                         record->header_count);
}

/* BASE_MISSING: the topic has no such partition. */
static enum base_rc put_in_batch(struct client *client, struct topic *topic, const struct client_record *record)
{
    struct part *part = NULL;
    struct batch *batch = NULL;
    for (;;) { /* each further round has made a full batch ready, and there are few that fill */
        int32_t index = choose_partition(client, topic, record);
        if (index >= topic->partition_count) { return BASE_MISSING; }
        part = client__part_find(client, client__topic_index(client, topic), index);
        CHECK(part != NULL); /* a known topic has every partition in the table */
        batch = filling(part);
        if (batch == NULL) {
            if (open_batch(client, part, record_bytes_of(record), &batch) != BASE_OK) { return BASE_FULL; }
            enum base_rc rc = add(batch, record);
            CHECK(rc == BASE_OK); /* it was made as large as that */
            break;
        }
        if (add(batch, record) == BASE_OK) { break; }
        make_ready(client, batch);
    }
    add_cell(client, batch, record->token);
    if (batch->build.used_bytes + BATCH_ROOM_BYTES >= client->config.batch_bytes) { make_ready(client, batch); }
    return BASE_OK;
}

void client__seal_lingered(struct client *client, struct part *part)
{
    struct batch *batch = filling(part);
    if (batch == NULL) { return; }
    if (batch->ready_ns <= client->now_ns || client->is_closing) {
        make_ready(client, batch);
    } else {
        client__alarm(client, batch->ready_ns);
    }
}

void client_flush(struct client *client)
{
    for (struct base_link *link = base_list_first(&client->busy); link != NULL;
         link = base_list_next(&client->busy, link)) {
        struct batch *batch = filling(BASE_ITEM(link, struct part, busy));
        if (batch != NULL) { batch->ready_ns = client->now_ns; }
    }
}

/* ---- parked ---- */

static size_t parked_bytes_of(const struct client_record *record)
{
    size_t bytes = PARKED_HEAD_BYTES + record->key.bytes.size_bytes + record->value.bytes.size_bytes;
    for (uint32_t i = 0; i < record->header_count; i++) {
        bytes += 8 + record->headers[i].key.size_bytes + record->headers[i].value.bytes.size_bytes;
    }
    return bytes;
}

static uint8_t *put_bytes(uint8_t *at, struct base_slice bytes)
{
    if (bytes.size_bytes > 0) { memcpy(at, bytes.at, bytes.size_bytes); }
    return at + bytes.size_bytes;
}

static uint32_t size_word(struct rec_value value) { return value.is_null ? ABSENT : (uint32_t)value.bytes.size_bytes; }

static void write_parked(uint8_t *at, const struct client_record *record)
{
    base_put_u64(at, record->token);
    base_put_u64(at + 8, (uint64_t)record->timestamp_ms);
    base_put_u32(at + PARKED_PARTITION_AT, (uint32_t)record->partition);
    base_put_u32(at + 20, size_word(record->key));
    base_put_u32(at + 24, size_word(record->value));
    base_put_u32(at + 28, record->header_count);
    at += PARKED_HEAD_BYTES;
    for (uint32_t i = 0; i < record->header_count; i++) {
        base_put_u32(at, (uint32_t)record->headers[i].key.size_bytes);
        base_put_u32(at + 4, size_word(record->headers[i].value));
        at += 8;
    }
    at = put_bytes(at, record->key.bytes);
    at = put_bytes(at, record->value.bytes);
    for (uint32_t i = 0; i < record->header_count; i++) {
        at = put_bytes(at, record->headers[i].key);
        at = put_bytes(at, record->headers[i].value.bytes);
    }
}

static struct rec_value read_value(const uint8_t **at, uint32_t size_bytes)
{
    if (size_bytes == ABSENT) { return rec_null(); }
    struct rec_value value = rec_value_of(base_slice_of(*at, size_bytes));
    *at += size_bytes;
    return value;
}

/* Our own writing: it is what it claims to be. Returns the bytes it takes. */
static size_t read_parked(const uint8_t *from, struct client_record *record,
                          struct rec_header headers[CLIENT_HEADERS_MAX])
{
    const uint8_t *sizes = from + PARKED_HEAD_BYTES;
    uint32_t header_count = base_get_u32(from + 28);
    CHECK(header_count <= CLIENT_HEADERS_MAX);
    const uint8_t *at = sizes + (size_t)header_count * 8;
    *record = (struct client_record){.token = base_get_u64(from),
                                     .timestamp_ms = (int64_t)base_get_u64(from + 8),
                                     .partition = (int32_t)base_get_u32(from + PARKED_PARTITION_AT),
                                     .headers = headers,
                                     .header_count = header_count};
    record->key = read_value(&at, base_get_u32(from + 20));
    record->value = read_value(&at, base_get_u32(from + 24));
    for (uint32_t i = 0; i < header_count; i++) {
        headers[i].key = read_value(&at, base_get_u32(sizes + (size_t)i * 8)).bytes;
        headers[i].value = read_value(&at, base_get_u32(sizes + (size_t)i * 8 + 4));
    }
    return (size_t)(at - from);
}

static enum base_rc park(struct client *client, struct topic *topic, const struct client_record *record)
{
    size_t bytes = parked_bytes_of(record);
    struct parked *parked = NULL;
    if (!base_list_is_empty(&topic->parked)) {
        parked = BASE_ITEM(topic->parked.head.prev, struct parked, link);
        if (parked->size_bytes - parked->used_bytes < bytes) { parked = NULL; }
    }
    if (parked == NULL) {
        size_t block_bytes = sizeof *parked + bytes;
        if (block_bytes < PARKED_BLOCK) { block_bytes = PARKED_BLOCK; }
        parked = base_pages_take(client->pages, BASE_CLIENTS, block_bytes);
        if (parked == NULL) { return BASE_FULL; }
        *parked =
            (struct parked){.size_bytes = block_bytes, .used_bytes = sizeof *parked, .read_bytes = sizeof *parked};
        if (base_list_is_empty(&topic->parked)) {
            topic->parked_deadline_ns = base_deadline_ns(client->now_ns, client->config.delivery_timeout_ms * MS);
        }
        base_list_push_back(&topic->parked, &parked->link);
    }
    write_parked((uint8_t *)parked + parked->used_bytes, record);
    parked->used_bytes += bytes;
    client->parked_count += 1;
    return BASE_OK;
}

/* The first parked record is done with. */
static void pop_parked(struct client *client, struct topic *topic, struct parked *parked, size_t bytes)
{
    parked->read_bytes += bytes;
    client->parked_count -= 1;
    if (parked->read_bytes < parked->used_bytes) { return; }
    base_list_remove(&topic->parked, &parked->link);
    base_pages_give(client->pages, parked);
}

static struct parked *first_parked(const struct topic *topic)
{
    struct base_link *link = base_list_first(&topic->parked);
    return link == NULL ? NULL : BASE_ITEM(link, struct parked, link);
}

/* Records of a topic that is known now go where they belong, as far as there is room. */
void client__turn_parked(struct client *client)
{
    struct rec_header headers[CLIENT_HEADERS_MAX];
    struct client_record record;
    for (uint32_t i = 0; i < client->topics_used; i++) {
        struct topic *topic = &client->topics[i];
        struct parked *parked = first_parked(topic);
        while (parked != NULL && topic->state == CLIENT_TOPIC_KNOWN) {
            size_t bytes = read_parked((const uint8_t *)parked + parked->read_bytes, &record, headers);
            if (put_in_batch(client, topic, &record) != BASE_OK) {
                break;
            } /* no room, or client__poll_parked refuses it */
            pop_parked(client, topic, parked, bytes);
            parked = first_parked(topic);
        }
        if (parked == NULL || topic->state != CLIENT_TOPIC_UNKNOWN) { continue; }
        client__alarm(client, topic->parked_deadline_ns);
        if (topic->parked_deadline_ns > client->now_ns && !client->is_closing) { continue; }
        topic->state = CLIENT_TOPIC_FAILED;
        topic->error = KAFKA_ERROR_REQUEST_TIMED_OUT;
    }
}

/* Why the first of the topic can never be sent; NONE: it can, or nobody knows yet. */
static int16_t end_of_parked(const struct client *client, const struct topic *topic, const struct parked *parked)
{
    if (topic->state == CLIENT_TOPIC_UNKNOWN) { return KAFKA_ERROR_NONE; }
    if (topic->state == CLIENT_TOPIC_FAILED) { return topic->error; }
    if (client->is_closing) { return KAFKA_ERROR_REQUEST_TIMED_OUT; }
    int32_t partition = (int32_t)base_get_u32((const uint8_t *)parked + parked->read_bytes + PARKED_PARTITION_AT);
    return partition < topic->partition_count ? KAFKA_ERROR_NONE : KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION;
}

bool client__has_parked_end(const struct client *client)
{
    for (uint32_t i = 0; client->parked_count > 0 && i < client->topics_used; i++) {
        const struct parked *parked = first_parked(&client->topics[i]);
        bool is_end = parked != NULL && end_of_parked(client, &client->topics[i], parked) != KAFKA_ERROR_NONE;
        if (is_end) { return true; }
    }
    return false;
}

/* What can never be sent: its topic has failed, or has no such partition. */
bool client__poll_parked(struct client *client, struct client_result *result_out)
{
    struct rec_header headers[CLIENT_HEADERS_MAX];
    struct client_record record;
    for (uint32_t i = 0; client->parked_count > 0 && i < client->topics_used; i++) {
        struct topic *topic = &client->topics[i];
        struct parked *parked = first_parked(topic);
        int16_t error = parked == NULL ? KAFKA_ERROR_NONE : end_of_parked(client, topic, parked);
        if (error == KAFKA_ERROR_NONE) { continue; }
        size_t bytes = read_parked((const uint8_t *)parked + parked->read_bytes, &record, headers);
        *result_out = (struct client_result){.kind = CLIENT_PRODUCED,
                                             .outcome = CLIENT_REFUSED,
                                             .token = record.token,
                                             .topic = client__topic_name(topic),
                                             .partition = record.partition,
                                             .error = error,
                                             .offset = -1,
                                             .timestamp_ms = -1};
        pop_parked(client, topic, parked, bytes);
        client->records -= 1;
        return true;
    }
    return false;
}

/* ---- the way in ---- */

enum base_rc client_produce(struct client *client, const struct client_record *record)
{
    if (record->header_count > CLIENT_HEADERS_MAX || record->partition < -1) { return BASE_BAD; }
    if (record->key.bytes.size_bytes > client->config.record_bytes_max ||
        record->value.bytes.size_bytes > client->config.record_bytes_max ||
        record_bytes_of(record) + REC_HEADER_BYTES > client->config.record_bytes_max) {
        return BASE_BAD;
    }
    if (client->is_closing || client->records == client->config.records_max) { return BASE_FULL; }
    struct topic *topic = client__topic_find(client, record->topic);
    if (topic == NULL || (topic->state == CLIENT_TOPIC_FAILED && base_list_is_empty(&topic->parked))) {
        enum base_rc rc = client__topic_take(client, record->topic, &topic);
        if (rc != BASE_OK) { return rc; }
    }
    bool is_known = topic->state == CLIENT_TOPIC_KNOWN && base_list_is_empty(&topic->parked);
    enum base_rc rc = is_known ? put_in_batch(client, topic, record) : park(client, topic, record);
    if (rc == BASE_MISSING) {
        rc = park(client, topic, record); /* its refusal is a result like any other */
        client->has_news = true;          /* and nothing else would have it polled */
    }
    if (rc == BASE_OK) { client->records += 1; }
    return rc;
}

uint32_t client_records(const struct client *client) { return client->records; }
