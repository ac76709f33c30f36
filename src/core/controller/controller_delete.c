/* controller_delete.c: decides DeleteTopics, by name and by id.
 *
 * Room    core/controller.
 * Source  codes and words are those of Kafka's ControllerApis and ReplicationControlManager, 4.3.1.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "controller/controller__room.h"

typedef struct kafka_delete_topics_response_deletable_topic_result delete_result;

static void say(delete_result *result, int16_t code, const char *words)
{
    result->error_code = code;
    result->error_message = kafka_text_words(words);
}

/* Entry `index` of the request, whichever version it has. */
static void wanted_at(const struct controller__decision *decision, int32_t index, struct kafka_text *name_out,
                      struct base_uuid *id_out)
{
    const struct kafka_delete_topics_request *request = decision->request;
    if (decision->version >= 6) {
        *name_out = request->topics[index].name;
        *id_out = request->topics[index].topic_id;
    } else {
        *name_out = request->topic_names[index];
        memset(id_out, 0, sizeof *id_out);
    }
}

static bool is_deletion_disabled(const struct controller__decision *decision)
{
    return base_slice_equal(metadata_broker_value(decision->image, base_slice_text("delete.topic.enable")),
                            base_slice_text("false"));
}

/* The topic an entry means, or its error. */
static const struct metadata_topic *find(const struct controller__decision *decision, delete_result *result)
{
    bool has_id = !base_uuid_is_none(result->topic_id);
    if (kafka_text_is_null(result->name) && !has_id) {
        say(result, KAFKA_ERROR_INVALID_REQUEST, "Neither topic name nor id were specified.");
        return NULL;
    }
    if (!kafka_text_is_null(result->name) && has_id) {
        say(result, KAFKA_ERROR_INVALID_REQUEST, "You may not specify both topic name and topic id.");
        return NULL;
    }
    const struct metadata_topic *topic = has_id
                                             ? metadata_topic_by_id(decision->image, result->topic_id)
                                             : metadata_topic_by_name(decision->image, kafka_text_slice(result->name));
    if (topic == NULL && has_id) {
        say(result, KAFKA_ERROR_UNKNOWN_TOPIC_ID, "This server does not host this topic ID.");
    } else if (topic == NULL) {
        say(result, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.");
    }
    return topic;
}

/* Kafka deletes none of several entries that mean one topic; which words depends on how the others name it. */
static void say_duplicate(const struct controller__decision *decision, delete_result *result, bool is_by_id,
                          const struct metadata_topic *topic, struct controller__touched *touched)
{
    if (touched->is_reported) { /* the walk below once a topic, not once an entry */
        say(result, KAFKA_ERROR_INVALID_REQUEST, is_by_id ? "Duplicate topic id." : "Duplicate topic name.");
        return;
    }
    touched->is_reported = true;
    int32_t by_id = 0;
    int32_t by_name = 0;
    const struct kafka_delete_topics_request *request = decision->request;
    int32_t count = decision->version >= 6 ? request->topics_count : request->topic_names_count;
    for (int32_t i = 0; i < count; i++) {
        struct kafka_text name;
        struct base_uuid id;
        wanted_at(decision, i, &name, &id);
        if (base_uuid_compare(id, topic->id) == 0) { by_id += 1; }
        if (base_slice_equal(kafka_text_slice(name), metadata_topic_name(topic))) { by_name += 1; }
    }
    if (is_by_id && by_id > 1) {
        say(result, KAFKA_ERROR_INVALID_REQUEST, "Duplicate topic id.");
    } else if (!is_by_id && by_name > 1) {
        say(result, KAFKA_ERROR_INVALID_REQUEST, "Duplicate topic name.");
    } else {
        say(result, KAFKA_ERROR_INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.");
    }
}

/* The texts outlive the topic: it may be gone from the image when the answer is encoded. */
static bool fill_name(struct controller__decision *decision, const struct metadata_topic *topic, delete_result *result)
{
    uint8_t *at = base_arena_take_bytes(decision->arena, topic->name_bytes);
    if (at == NULL) {
        decision->is_arena_full = true;
        return false;
    }
    memcpy(at, topic->name, topic->name_bytes);
    result->name = kafka_text_of(at, topic->name_bytes);
    return true;
}

static void delete_one(struct controller__decision *decision, delete_result *result)
{
    bool is_by_id = !base_uuid_is_none(result->topic_id);
    const struct metadata_topic *topic = find(decision, result);
    if (topic == NULL) { return; }
    struct controller__touched *touched = controller__find_touched(decision, metadata_topic_name(topic));
    if (touched->count > 1) {
        say_duplicate(decision, result, is_by_id, topic, touched);
        return;
    }
    if (!fill_name(decision, topic, result)) { return; }
    result->topic_id = topic->id;
    struct kafka_remove_topic_record record;
    kafka_remove_topic_record_init(&record);
    record.topic_id = topic->id;
    controller__propose(decision->round, 9, 0, &record);
}

const void *controller__delete_topics(struct controller__decision *decision)
{
    const struct kafka_delete_topics_request *request = decision->request;
    int32_t count = decision->version >= 6 ? request->topics_count : request->topic_names_count;
    struct kafka_delete_topics_response *response = kafka_delete_topics_response_take(decision->arena, 1);
    delete_result *results =
        kafka_delete_topics_response_deletable_topic_result_take(decision->arena, count > 0 ? count : 1);
    if (response == NULL || results == NULL) {
        decision->is_arena_full = true;
        return NULL;
    }
    kafka_delete_topics_response_init(response);
    response->responses = results;
    response->responses_count = count;
    bool is_disabled = is_deletion_disabled(decision);
    bool is_excessive = count > CONTROLLER_RECORDS_MAX;
    for (int32_t i = 0; i < count; i++) {
        wanted_at(decision, i, &results[i].name, &results[i].topic_id);
        if (is_disabled || is_excessive) { continue; }
        delete_result probe = results[i];
        const struct metadata_topic *topic = find(decision, &probe);
        if (topic != NULL) { (void)controller__touch(decision, metadata_topic_name(topic)); } /* looked up below */
    }
    if (decision->must_wait) { return NULL; }
    for (int32_t i = 0; i < count && !decision->round->is_full; i++) {
        if (is_disabled) {
            int16_t code = decision->version < 3 ? KAFKA_ERROR_INVALID_REQUEST : KAFKA_ERROR_TOPIC_DELETION_DISABLED;
            say(&results[i], code, "Topic deletion is disabled.");
        } else if (is_excessive) {
            say(&results[i], KAFKA_ERROR_POLICY_VIOLATION, "Excessively large number of topics per request.");
        } else {
            delete_one(decision, &results[i]);
        }
    }
    return response;
}
