/* broker__records.c: what a record of the metadata log changes, as far as the broker itself must act on it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/metadata_records.h"

enum base_rc record_change(struct base_slice value, struct base_arena *scratch, struct record_change *change_out)
{
    *change_out = (struct record_change){.kind = CHANGE_OTHER};
    uint32_t type;
    int16_t version;
    struct base_slice body;
    if (kafka_record_open(value, &type, &version, &body) != BASE_OK) { return BASE_BAD; }
    enum kafka_message message = kafka_record_message(type);
    if (message != KAFKA_MESSAGE_PARTITION_RECORD && message != KAFKA_MESSAGE_PARTITION_CHANGE_RECORD &&
        message != KAFKA_MESSAGE_CONFIG_RECORD && message != KAFKA_MESSAGE_REMOVE_TOPIC_RECORD) {
        return BASE_OK;
    }
    void *decoded = base_arena_take(scratch, kafka_message_struct_bytes(message));
    if (decoded == NULL) { return BASE_FULL; }
    enum base_rc rc = kafka_decode(message, body, version, scratch, decoded);
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
