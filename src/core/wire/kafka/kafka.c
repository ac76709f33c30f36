/* kafka.c: apis, frames and error codes by number.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/kafka/kafka.h"

#include "wire/kafka/header.h"
#include "wire/kafka/kafka__tables.h"

#define FRAME_SIZE_BYTES   4
/* Of a request: api key, version, correlation id, the length of the client id. */
#define HEADER_FIXED_BYTES ((size_t)10)

/* ---- apis ------------------------------------------------------------------------------------------------------- */

const struct kafka_api_info *kafka_api_at(uint32_t index)
{
    CHECK(index < KAFKA_API_COUNT);
    return &kafka__apis[index];
}

const struct kafka_api_info *kafka_api_info(int16_t api_key)
{
    /* The keys of the first few, which most requests have, are their places, too. */
    uint16_t place = (uint16_t)api_key;
    if (place < KAFKA_API_COUNT && kafka__apis[place].key == api_key) { return &kafka__apis[place]; }
    uint32_t low = 0;
    uint32_t high = KAFKA_API_COUNT;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (kafka__apis[middle].key == api_key) { return &kafka__apis[middle]; }
        if (kafka__apis[middle].key < api_key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

bool kafka_api_has_version(int16_t api_key, int16_t version)
{
    const struct kafka_api_info *info = kafka_api_info(api_key);
    return info != NULL && version >= info->version_min && version <= info->version_max;
}

enum kafka_message kafka_request_message(int16_t api_key)
{
    const struct kafka_api_info *info = kafka_api_info(api_key);
    return info == NULL ? KAFKA_MESSAGE_NONE : info->request;
}

enum kafka_message kafka_response_message(int16_t api_key)
{
    const struct kafka_api_info *info = kafka_api_info(api_key);
    return info == NULL ? KAFKA_MESSAGE_NONE : info->response;
}

enum kafka_message kafka_record_message(uint32_t record_type)
{
    for (uint32_t i = 0; i < KAFKA_MESSAGE_COUNT; i++) {
        const struct kafka__message *row = &kafka__messages[i];
        if (row->kind == KAFKA__KIND_METADATA && row->key >= 0 && (uint32_t)row->key == record_type) {
            return (enum kafka_message)i;
        }
    }
    return KAFKA_MESSAGE_NONE;
}

static const struct kafka__message *row_of(enum kafka_message message)
{
    CHECK((uint32_t)message < KAFKA_MESSAGE_COUNT);
    return &kafka__messages[message];
}

const char *kafka_message_name(enum kafka_message message) { return &kafka__names[row_of(message)->name]; }
int16_t kafka_message_version_min(enum kafka_message message) { return row_of(message)->version_min; }
int16_t kafka_message_version_max(enum kafka_message message) { return row_of(message)->version_max; }
bool kafka_message_is_flexible(enum kafka_message message, int16_t version)
{
    return kafka__is_flexible(row_of(message), version);
}
size_t kafka_message_struct_bytes(enum kafka_message message)
{
    return kafka__structs[row_of(message)->struct_index].size_bytes;
}

/* ---- frames ----------------------------------------------------------------------------------------------------- */

static int16_t header_version_of(const struct kafka_api_info *info, int16_t version)
{
    return version >= info->flexible_from ? 2 : 1;
}

int16_t kafka_request_header_version(int16_t api_key, int16_t version)
{
    const struct kafka_api_info *info = kafka_api_info(api_key);
    return info != NULL ? header_version_of(info, version) : 1;
}

int16_t kafka_response_header_version(int16_t api_key, int16_t version)
{
    /* KIP-511: a client that asks ApiVersions does not know yet what the broker speaks, so its answer stays rigid. */
    if (api_key == KAFKA_API_API_VERSIONS) { return 0; }
    const struct kafka_api_info *info = kafka_api_info(api_key);
    return info != NULL && version >= info->flexible_from ? 1 : 0;
}

/* Reads a header whose bytes are all there and that has no tags, as nearly all, as the tables would. False: ask them. */
static bool open_plain(struct base_slice frame, int16_t header_version, struct kafka_request_header *header_out,
                       size_t *used_bytes_out)
{
    if (frame.size_bytes < HEADER_FIXED_BYTES) { return false; }
    int32_t client_id_bytes = (int16_t)base_get_u16(frame.at + 8);
    size_t used_bytes = HEADER_FIXED_BYTES + (size_t)(client_id_bytes > 0 ? client_id_bytes : 0);
    size_t tags_bytes = header_version >= 2 ? 1 : 0; /* their number: none */
    if (client_id_bytes < -1 || frame.size_bytes < used_bytes + tags_bytes) { return false; }
    if (tags_bytes > 0 && frame.at[used_bytes] != 0) { return false; }
    *header_out =
        (struct kafka_request_header){.request_api_key = (int16_t)base_get_u16(frame.at),
                                      .request_api_version = (int16_t)base_get_u16(frame.at + 2),
                                      .correlation_id = (int32_t)base_get_u32(frame.at + 4),
                                      .client_id = {.at = client_id_bytes < 0 ? NULL : frame.at + HEADER_FIXED_BYTES,
                                                    .size_bytes = client_id_bytes}};
    *used_bytes_out = used_bytes + tags_bytes;
    return true;
}

enum base_rc kafka_request_open(struct base_slice frame, struct kafka_request_header *header_out,
                                struct base_slice *body_out)
{
    if (frame.size_bytes < 4) { return BASE_BAD; }
    int16_t api_key = (int16_t)base_get_u16(frame.at);
    int16_t version = (int16_t)base_get_u16(frame.at + 2);
    const struct kafka_api_info *info = kafka_api_info(api_key);
    if (info == NULL) { return BASE_MISSING; }
    struct base_arena none; /* a header has no arrays */
    uint8_t nothing[1] = {0};
    base_arena_init(&none, nothing, 0);
    struct kafka_request_header header;
    size_t used_bytes = 0;
    int16_t header_version = header_version_of(info, version);
    if (!open_plain(frame, header_version, &header, &used_bytes) &&
        kafka_request_header_decode_front(frame, header_version, &none, &header, &used_bytes) != BASE_OK) {
        return BASE_BAD;
    }
    *header_out = header;
    *body_out = base_slice_of(frame.at + used_bytes, frame.size_bytes - used_bytes);
    return BASE_OK;
}

enum base_rc kafka_response_open(struct base_slice frame, int16_t api_key, int16_t version, int32_t *correlation_id_out,
                                 struct base_slice *body_out)
{
    struct base_arena none;
    uint8_t nothing[1] = {0};
    base_arena_init(&none, nothing, 0);
    struct kafka_response_header header;
    size_t used_bytes = 0;
    enum base_rc rc = kafka_response_header_decode_front(frame, kafka_response_header_version(api_key, version), &none,
                                                         &header, &used_bytes);
    if (rc != BASE_OK) { return BASE_BAD; }
    *correlation_id_out = header.correlation_id;
    *body_out = base_slice_of(frame.at + used_bytes, frame.size_bytes - used_bytes);
    return BASE_OK;
}

/* The sizes of a header and a message, and the four bytes before them. */
static enum base_rc frame_size(enum kafka_message head, const void *header, int16_t header_version,
                               enum kafka_message message, const void *value, int16_t version,
                               struct kafka_size *size_out)
{
    struct kafka_size before;
    struct kafka_size body;
    enum base_rc rc = kafka_size(head, header, header_version, &before);
    if (rc == BASE_OK) { rc = kafka_size(message, value, version, &body); }
    if (rc != BASE_OK) { return rc; }
    body.memory_bytes += before.memory_bytes + FRAME_SIZE_BYTES;
    if (body.memory_bytes > INT32_MAX || body.splice_bytes > INT32_MAX - body.memory_bytes) { return BASE_FULL; }
    *size_out = body;
    return BASE_OK;
}

/* Writes first and puts the size in front afterwards: what was written is what is counted. */
static enum base_rc frame_encode(enum kafka_message head, const void *header, int16_t header_version,
                                 enum kafka_message message, const void *value, int16_t version,
                                 struct kafka_writer *writer)
{
    struct kafka_writer before = *writer;
    if (writer->size_bytes - writer->used_bytes < FRAME_SIZE_BYTES) { return BASE_FULL; }
    writer->used_bytes += FRAME_SIZE_BYTES;
    enum base_rc rc = kafka_encode(head, header, header_version, writer);
    if (rc == BASE_OK) { rc = kafka_encode(message, value, version, writer); }
    size_t size = writer->used_bytes - before.used_bytes - FRAME_SIZE_BYTES;
    for (uint32_t i = before.splices_count; rc == BASE_OK && i < writer->splices_count; i++) {
        size += writer->splices[i].size_bytes;
    }
    if (rc == BASE_OK && size > INT32_MAX - FRAME_SIZE_BYTES) { rc = BASE_FULL; }
    if (rc != BASE_OK) {
        *writer = before;
        return rc;
    }
    base_put_u32(writer->at + before.used_bytes, (uint32_t)size);
    return BASE_OK;
}

static int16_t response_header(enum kafka_message message, int16_t version, int32_t correlation_id,
                               struct kafka_response_header *header_out)
{
    const struct kafka__message *row = row_of(message);
    CHECK(row->kind == KAFKA__KIND_RESPONSE);
    kafka_response_header_init(header_out);
    header_out->correlation_id = correlation_id;
    return kafka_response_header_version(row->key, version);
}

static int16_t request_header(enum kafka_message message, int16_t version, int32_t correlation_id,
                              struct kafka_text client_id, struct kafka_request_header *header_out)
{
    const struct kafka__message *row = row_of(message);
    CHECK(row->kind == KAFKA__KIND_REQUEST);
    kafka_request_header_init(header_out);
    header_out->request_api_key = row->key;
    header_out->request_api_version = version;
    header_out->correlation_id = correlation_id;
    header_out->client_id = client_id;
    return kafka_request_header_version(row->key, version);
}

enum base_rc kafka_response_size(enum kafka_message message, const void *value, int16_t version,
                                 struct kafka_size *size_out)
{
    struct kafka_response_header header;
    int16_t header_version = response_header(message, version, 0, &header);
    return frame_size(KAFKA_MESSAGE_RESPONSE_HEADER, &header, header_version, message, value, version, size_out);
}

enum base_rc kafka_response_encode(enum kafka_message message, const void *value, int16_t version,
                                   int32_t correlation_id, struct kafka_writer *writer)
{
    struct kafka_response_header header;
    int16_t header_version = response_header(message, version, correlation_id, &header);
    return frame_encode(KAFKA_MESSAGE_RESPONSE_HEADER, &header, header_version, message, value, version, writer);
}

enum base_rc kafka_request_size(enum kafka_message message, const void *value, int16_t version,
                                struct kafka_text client_id, struct kafka_size *size_out)
{
    struct kafka_request_header header;
    int16_t header_version = request_header(message, version, 0, client_id, &header);
    return frame_size(KAFKA_MESSAGE_REQUEST_HEADER, &header, header_version, message, value, version, size_out);
}

enum base_rc kafka_request_encode(enum kafka_message message, const void *value, int16_t version,
                                  int32_t correlation_id, struct kafka_text client_id, struct kafka_writer *writer)
{
    struct kafka_request_header header;
    int16_t header_version = request_header(message, version, correlation_id, client_id, &header);
    return frame_encode(KAFKA_MESSAGE_REQUEST_HEADER, &header, header_version, message, value, version, writer);
}

/* ---- records of the cluster metadata ---------------------------------------------------------------------------- */

#define RECORD_FRAME_VERSION 1
#define RECORD_HEAD_MAX      15 /* three varints */

static size_t put_uvarint(uint8_t *at, uint32_t value)
{
    size_t size = 0;
    while (value >= 0x80) {
        at[size++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    at[size++] = (uint8_t)value;
    return size;
}

/* False: no varint of at most 32 bits. *at_bytes moves past it. */
static bool take_uvarint(struct base_slice bytes, size_t *at_bytes, uint32_t *value_out)
{
    uint32_t value = 0;
    for (uint32_t shift = 0; shift < 35 && *at_bytes < bytes.size_bytes; shift += 7) {
        uint8_t b = bytes.at[(*at_bytes)++];
        if (shift == 28 && b > 0x0f) { return false; }
        value |= (uint32_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *value_out = value;
            return true;
        }
    }
    return false;
}

static size_t record_head(enum kafka_message message, int16_t version, uint8_t head_out[RECORD_HEAD_MAX])
{
    const struct kafka__message *row = row_of(message);
    CHECK(row->kind == KAFKA__KIND_METADATA);
    CHECK(row->key >= 0 && version >= 0);
    size_t size = put_uvarint(head_out, RECORD_FRAME_VERSION);
    size += put_uvarint(head_out + size, (uint32_t)row->key);
    return size + put_uvarint(head_out + size, (uint32_t)version);
}

enum base_rc kafka_record_open(struct base_slice record, uint32_t *record_type_out, int16_t *version_out,
                               struct base_slice *body_out)
{
    size_t at_bytes = 0;
    uint32_t frame_version = 0;
    uint32_t record_type = 0;
    uint32_t version = 0;
    if (!take_uvarint(record, &at_bytes, &frame_version) || frame_version != RECORD_FRAME_VERSION) { return BASE_BAD; }
    if (!take_uvarint(record, &at_bytes, &record_type) || record_type > INT16_MAX) { return BASE_BAD; }
    if (!take_uvarint(record, &at_bytes, &version) || version > INT16_MAX) { return BASE_BAD; }
    *record_type_out = record_type;
    *version_out = (int16_t)version;
    *body_out = base_slice_of(record.at + at_bytes, record.size_bytes - at_bytes);
    return BASE_OK;
}

enum base_rc kafka_record_size(enum kafka_message message, const void *value, int16_t version,
                               struct kafka_size *size_out)
{
    struct kafka_size size;
    enum base_rc rc = kafka_size(message, value, version, &size);
    if (rc != BASE_OK) { return rc; }
    uint8_t head[RECORD_HEAD_MAX];
    size.memory_bytes += record_head(message, version, head);
    *size_out = size;
    return BASE_OK;
}

enum base_rc kafka_record_encode(enum kafka_message message, const void *value, int16_t version,
                                 struct kafka_writer *writer)
{
    if (!kafka__has_version(row_of(message), version)) { return BASE_BAD; }
    uint8_t head[RECORD_HEAD_MAX];
    size_t head_bytes = record_head(message, version, head);
    if (writer->size_bytes - writer->used_bytes < head_bytes) { return BASE_FULL; }
    memcpy(writer->at + writer->used_bytes, head, head_bytes);
    writer->used_bytes += head_bytes;
    enum base_rc rc = kafka_encode(message, value, version, writer);
    if (rc != BASE_OK) { writer->used_bytes -= head_bytes; }
    return rc;
}

/* ---- error codes ------------------------------------------------------------------------------------------------ */

static const struct kafka__error *error_of(int16_t code)
{
    for (uint32_t i = 0; i < kafka__errors_count; i++) {
        if (kafka__errors[i].code == code) { return &kafka__errors[i]; }
    }
    return NULL;
}

const char *kafka_error_name(int16_t code)
{
    const struct kafka__error *error = error_of(code);
    return error == NULL ? "UNKNOWN_ERROR_CODE" : error->name;
}

bool kafka_error_is_retriable(int16_t code)
{
    const struct kafka__error *error = error_of(code);
    return error != NULL && error->is_retriable;
}

enum base_rc kafka_error_from_name(struct base_slice name, int16_t *code_out)
{
    for (uint32_t i = 0; i < kafka__errors_count; i++) {
        if (base_slice_equal(name, base_slice_text(kafka__errors[i].name))) {
            *code_out = kafka__errors[i].code;
            return BASE_OK;
        }
    }
    return BASE_MISSING;
}
