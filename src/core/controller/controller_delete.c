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
    return !metadata_broker_flag(decision->image, base_slice_text("delete.topic.enable"), true);
}

/* ---- what names what ------------------------------------------------------------------------------------------------ */

/* An id among the touched names: no topic's name begins with a zero byte. */
#define ID_KEY_BYTES 17

static struct base_slice id_key(struct base_uuid id, uint8_t key[ID_KEY_BYTES])
{
    key[0] = 0;
    memcpy(key + 1, id.b, sizeof id.b);
    return base_slice_of(key, ID_KEY_BYTES);
}

/* Counts how often each name and each id is given. Entries with both or neither count for nothing. */
static void touch_entry(struct controller__decision *decision, const delete_result *entry)
{
    bool has_id = !base_uuid_is_none(entry->topic_id);
    if (kafka_text_is_null(entry->name) == !has_id) { return; }
    if (!has_id) {
        (void)controller__touch(decision, kafka_text_slice(entry->name)); /* looked up below */
        return;
    }
    uint8_t *key = base_arena_take_bytes(decision->arena, ID_KEY_BYTES);
    if (key == NULL) {
        decision->is_arena_full = true;
        return;
    }
    (void)controller__touch(decision, id_key(entry->topic_id, key)); /* as above */
}

/* ---- deciding ----------------------------------------------------------------------------------------------------- */

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

static void delete_topic(struct controller__decision *decision, const struct metadata_topic *topic,
                         delete_result *result)
{
    if (!fill_name(decision, topic, result)) { return; }
    result->topic_id = topic->id;
    struct kafka_remove_topic_record record;
    kafka_remove_topic_record_init(&record);
    record.topic_id = topic->id;
    controller__propose(decision->round, 9, 0, &record);
}

/* A name or an id that is given more than once is answered once, and deletes nothing. False: it was answered before. */
static bool report_duplicate(struct controller__touched *touched, delete_result *result, const char *words)
{
    if (touched->is_reported) { return false; }
    touched->is_reported = true;
    say(result, KAFKA_ERROR_INVALID_REQUEST, words);
    return true;
}

/* Each decides one entry. False: another entry speaks for it, it has no line of its own. */
static bool delete_by_name(struct controller__decision *decision, delete_result *result)
{
    struct base_slice name = kafka_text_slice(result->name);
    struct controller__touched *touched = controller__find_touched(decision, name);
    if (touched->count > 1) { return report_duplicate(touched, result, "Duplicate topic name."); }
    const struct metadata_topic *topic = metadata_topic_by_name(decision->image, name);
    if (topic == NULL) {
        say(result, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.");
        return true;
    }
    uint8_t key[ID_KEY_BYTES];
    if (controller__find_touched(decision, id_key(topic->id, key)) != NULL) {
        result->topic_id = topic->id;
        say(result, KAFKA_ERROR_INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.");
        return true;
    }
    delete_topic(decision, topic, result);
    return true;
}

static bool delete_by_id(struct controller__decision *decision, delete_result *result)
{
    uint8_t key[ID_KEY_BYTES];
    struct controller__touched *touched = controller__find_touched(decision, id_key(result->topic_id, key));
    if (touched->count > 1) { return report_duplicate(touched, result, "Duplicate topic id."); }
    const struct metadata_topic *topic = metadata_topic_by_id(decision->image, result->topic_id);
    if (topic == NULL) {
        say(result, KAFKA_ERROR_UNKNOWN_TOPIC_ID, "This server does not host this topic ID.");
        return true;
    }
    const struct controller__touched *by_name = controller__find_touched(decision, metadata_topic_name(topic));
    if (by_name != NULL && by_name->count == 1) { return false; }
    if (by_name == NULL) {
        (void)controller__touch(decision, metadata_topic_name(topic)); /* must_wait is looked at below */
        if (decision->must_wait) { return true; }
    }
    delete_topic(decision, topic, result);
    return true;
}

static bool delete_one(struct controller__decision *decision, delete_result *result)
{
    bool has_id = !base_uuid_is_none(result->topic_id);
    bool has_name = !kafka_text_is_null(result->name);
    if (has_id && has_name) {
        say(result, KAFKA_ERROR_INVALID_REQUEST, "You may not specify both topic name and topic id.");
        return true;
    }
    if (!has_id && !has_name) {
        say(result, KAFKA_ERROR_INVALID_REQUEST, "Neither topic name nor id were specified.");
        return true;
    }
    return has_id ? delete_by_id(decision, result) : delete_by_name(decision, result);
}

/* The whole request is refused: each entry says so. */
static void refuse(const struct controller__decision *decision, struct kafka_delete_topics_response *response,
                   int32_t count, int16_t code, const char *words)
{
    for (int32_t i = 0; i < count; i++) {
        wanted_at(decision, i, &response->responses[i].name, &response->responses[i].topic_id);
        say(&response->responses[i], code, words);
    }
    response->responses_count = count;
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
    if (is_deletion_disabled(decision)) {
        int16_t code = decision->version < 3 ? KAFKA_ERROR_INVALID_REQUEST : KAFKA_ERROR_TOPIC_DELETION_DISABLED;
        refuse(decision, response, count, code, "Topic deletion is disabled.");
        return response;
    }
    if (decision->is_too_large || count > CONTROLLER_RECORDS_MAX) {
        refuse(decision, response, count, KAFKA_ERROR_POLICY_VIOLATION,
               "Excessively large number of topics per request.");
        return response;
    }
    for (int32_t i = 0; i < count && !decision->is_arena_full; i++) {
        delete_result entry = {.error_code = 0};
        wanted_at(decision, i, &entry.name, &entry.topic_id);
        touch_entry(decision, &entry);
    }
    if (decision->must_wait || decision->is_arena_full) { return NULL; }
    for (int32_t i = 0; i < count && !decision->round->is_full; i++) {
        delete_result *result = &results[response->responses_count];
        wanted_at(decision, i, &result->name, &result->topic_id);
        if (delete_one(decision, result)) { response->responses_count += 1; }
        if (decision->must_wait || decision->is_arena_full) { return NULL; }
    }
    return response;
}
