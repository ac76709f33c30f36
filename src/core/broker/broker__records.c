/* broker__records.c: what a record of the metadata log changes, as far as the broker itself must act on it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/metadata_records.h"

static bool take_uvarint(struct base_slice *bytes, uint32_t *value_out)
{
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (bytes->size_bytes == 0) { return false; }
        uint8_t b = bytes->at[0];
        bytes->at += 1;
        bytes->size_bytes -= 1;
        value |= (uint32_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *value_out = value;
            return true;
        }
    }
    return false;
}

enum base_rc record_change(struct base_slice value, struct base_arena *scratch, struct record_change *change_out)
{
    *change_out = (struct record_change){.kind = CHANGE_OTHER};
    uint32_t frame;
    uint32_t type;
    uint32_t version;
    if (!take_uvarint(&value, &frame) || !take_uvarint(&value, &type) || !take_uvarint(&value, &version)) {
        return BASE_BAD;
    }
    enum kafka_message message = kafka_record_message(type);
    if (message != KAFKA_MESSAGE_PARTITION_RECORD && message != KAFKA_MESSAGE_PARTITION_CHANGE_RECORD &&
        message != KAFKA_MESSAGE_CONFIG_RECORD && message != KAFKA_MESSAGE_REMOVE_TOPIC_RECORD) {
        return BASE_OK;
    }
    void *decoded = base_arena_take(scratch, kafka_message_struct_bytes(message));
    if (decoded == NULL) { return BASE_FULL; }
    enum base_rc rc = kafka_decode(message, value, (int16_t)version, scratch, decoded);
    if (rc != BASE_OK) { return rc; }
    if (message == KAFKA_MESSAGE_PARTITION_RECORD) {
        const struct kafka_partition_record *record = decoded;
        *change_out =
            (struct record_change){.kind = CHANGE_PARTITION, .topic = record->topic_id, .index = record->partition_id};
    } else if (message == KAFKA_MESSAGE_PARTITION_CHANGE_RECORD) {
        const struct kafka_partition_change_record *record = decoded;
        *change_out =
            (struct record_change){.kind = CHANGE_PARTITION, .topic = record->topic_id, .index = record->partition_id};
    } else if (message == KAFKA_MESSAGE_CONFIG_RECORD) {
        const struct kafka_config_record *record = decoded;
        if (record->resource_type == METADATA_RESOURCE_TOPIC) {
            *change_out =
                (struct record_change){.kind = CHANGE_CONFIG, .name = kafka_text_slice(record->resource_name)};
        } else {
            *change_out = (struct record_change){.kind = CHANGE_BROKER_CONFIG};
        }
    } else {
        const struct kafka_remove_topic_record *record = decoded;
        *change_out = (struct record_change){.kind = CHANGE_TOPIC_REMOVED, .topic = record->topic_id};
    }
    return BASE_OK;
}
