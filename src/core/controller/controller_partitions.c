/* controller_partitions.c: where replicas go, and CreatePartitions.
 *
 * Room    core/controller.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "controller/controller__room.h"

typedef struct kafka_create_partitions_request_create_partitions_topic wanted_growth;
typedef struct kafka_create_partitions_response_create_partitions_topic_result growth_result;

static bool is_up(const struct metadata_broker *broker)
{
    return broker != NULL && !broker->is_fenced && !broker->is_in_controlled_shutdown;
}

static struct controller__error two_numbers(struct controller__decision *decision, int16_t code, const char *before,
                                            int64_t a, const char *between, int64_t b, const char *after)
{
    char words[CONTROLLER__MESSAGE_MAX];
    struct base_text message;
    base_text_init(&message, words, sizeof words);
    base_text_add(&message, before);
    base_text_add_i64(&message, a);
    base_text_add(&message, between);
    if (after != NULL) {
        base_text_add_i64(&message, b);
        base_text_add(&message, after);
    }
    return controller__words(decision, code, &message);
}

/* ---- placing ------------------------------------------------------------------------------------------------------ */

/* Where the replicas of a partition begin: at each broker that is up in turn, so that every partition has a leader; or, when none
 * is, at each. */
static uint32_t first_rank(const struct metadata *image, uint32_t start, uint32_t index)
{
    uint32_t brokers = metadata_brokers_count(image);
    uint32_t up = 0;
    for (uint32_t rank = 0; rank < brokers; rank++) { up += is_up(metadata_broker_at(image, rank)) ? 1 : 0; }
    if (up == 0 || up == brokers) { return (start % brokers + index % brokers) % brokers; }
    uint32_t left = (start % up + index % up) % up;
    uint32_t rank = 0;
    while (!is_up(metadata_broker_at(image, rank)) || left > 0) {
        left -= is_up(metadata_broker_at(image, rank)) ? 1 : 0;
        rank += 1;
    }
    return rank;
}

struct controller__error controller__place(struct controller__decision *decision, uint32_t replication, uint32_t start,
                                           uint32_t index, struct controller__replicas *replicas_out)
{
    uint32_t brokers = metadata_brokers_count(decision->image);
    if (replication > brokers || replication > METADATA_REPLICAS_MAX) {
        char words[CONTROLLER__MESSAGE_MAX];
        struct base_text message;
        base_text_init(&message, words, sizeof words);
        base_text_add(&message, "Unable to replicate the partition ");
        base_text_add_i64(&message, replication);
        base_text_add(&message, " time(s): The target replication factor of ");
        base_text_add_i64(&message, replication);
        base_text_add(&message, " cannot be reached because only ");
        base_text_add_i64(&message, brokers < METADATA_REPLICAS_MAX ? brokers : METADATA_REPLICAS_MAX);
        base_text_add(&message, " broker(s) are registered or some brokers have all their log directories cordoned.");
        return controller__words(decision, KAFKA_ERROR_INVALID_REPLICATION_FACTOR, &message);
    }
    replicas_out->count = replication;
    if (replication == 0) { return controller__no_error(); } /* of a topic that the log says has no replicas */
    uint32_t first = first_rank(decision->image, start, index);
    for (uint32_t i = 0; i < replication; i++) {
        replicas_out->ids[i] = metadata_broker_at(decision->image, (first + i) % brokers)->id;
    }
    return controller__no_error();
}

struct controller__error controller__check_manual(struct controller__decision *decision, const int32_t *ids,
                                                  int32_t ids_count, uint32_t expected_count,
                                                  struct controller__replicas *replicas_out)
{
    const int16_t code = KAFKA_ERROR_INVALID_REPLICA_ASSIGNMENT;
    if (ids_count <= 0) {
        return controller__error_words(code, "The manual partition assignment includes an empty replica list.");
    }
    for (int32_t i = 0; i < ids_count; i++) {
        if (metadata_broker(decision->image, ids[i]) == NULL) {
            return two_numbers(decision, code, "The manual partition assignment includes broker ", ids[i],
                               ", but no such broker is registered.", 0, NULL);
        }
        for (int32_t j = 0; j < i; j++) {
            if (ids[j] == ids[i]) {
                return two_numbers(decision, code, "The manual partition assignment includes the broker ", ids[i],
                                   " more than once.", 0, NULL);
            }
        }
        if (i == METADATA_REPLICAS_MAX) { /* ours */
            return two_numbers(decision, code, "The manual partition assignment has more than ", METADATA_REPLICAS_MAX,
                               " replicas.", 0, NULL);
        }
        replicas_out->ids[i] = ids[i];
    }
    replicas_out->count = (uint32_t)ids_count;
    if (expected_count != 0 && expected_count != replicas_out->count) {
        return two_numbers(decision, code, "The manual partition assignment includes a partition with ", ids_count,
                           " replica(s), but this is not consistent with previous partitions, which have ",
                           expected_count, " replica(s).");
    }
    return controller__no_error();
}

bool controller__new_partition(const struct controller__decision *decision, struct base_part id,
                               const struct controller__replicas *replicas, struct metadata_partition *partition_out)
{
    struct metadata_partition partition = {.id = id, .leader = -1, .replicas_count = replicas->count};
    for (uint32_t i = 0; i < replicas->count; i++) {
        const struct metadata_broker *broker = metadata_broker(decision->image, replicas->ids[i]);
        CHECK(broker != NULL);
        partition.replicas[i] = broker->id;
        partition.directories[i] = broker->directory;
        if (!is_up(broker)) { continue; }
        if (partition.leader == -1) { partition.leader = broker->id; }
        partition.isr[partition.isr_count] = broker->id;
        partition.isr_count += 1;
    }
    *partition_out = partition;
    return partition.leader != -1;
}

/* ---- CreatePartitions --------------------------------------------------------------------------------------------- */

static struct controller__error grow_partition(struct controller__decision *decision,
                                               const struct metadata_topic *topic, const wanted_growth *wanted,
                                               uint32_t index, uint32_t replication,
                                               struct metadata_partition *partition_out)
{
    struct controller__replicas replicas;
    struct controller__error error;
    bool is_manual = wanted->assignments_count >= 0;
    if (is_manual) {
        const struct kafka_create_partitions_request_create_partitions_assignment *assignment =
            &wanted->assignments[index - topic->partitions_count];
        error = controller__check_manual(decision, assignment->broker_ids, assignment->broker_ids_count, replication,
                                         &replicas);
    } else {
        error = controller__place(decision, replication, 0, index, &replicas);
    }
    if (error.code != 0) { return error; }
    struct base_part id = {.topic = topic->id, .index = (int32_t)index};
    if (controller__new_partition(decision, id, &replicas, partition_out)) { return error; }
    if (is_manual) {
        return two_numbers(decision, KAFKA_ERROR_INVALID_REPLICA_ASSIGNMENT,
                           "All brokers specified in the manual partition assignment for partition ", index,
                           " are fenced or in controlled shutdown.", 0, NULL);
    }
    return two_numbers(decision, KAFKA_ERROR_INVALID_REPLICATION_FACTOR, "Unable to replicate the partition ",
                       replication, " time(s): All brokers are currently fenced or in controlled shutdown.", 0, NULL);
}

static struct controller__error check_growth(struct controller__decision *decision, const wanted_growth *wanted,
                                             const struct metadata_topic *topic)
{
    int32_t count = (int32_t)topic->partitions_count;
    if (wanted->count == count) {
        return two_numbers(decision, KAFKA_ERROR_INVALID_PARTITIONS, "Topic already has ", count, " partition(s).", 0,
                           NULL);
    }
    if (wanted->count < count) {
        char words[CONTROLLER__MESSAGE_MAX];
        struct base_text message;
        base_text_init(&message, words, sizeof words);
        base_text_add(&message, "The topic ");
        base_text_add_slice(&message, metadata_topic_name(topic));
        base_text_add(&message, " currently has ");
        base_text_add_i64(&message, count);
        base_text_add(&message, " partition(s); ");
        base_text_add_i64(&message, wanted->count);
        base_text_add(&message, " would not be an increase.");
        return controller__words(decision, KAFKA_ERROR_INVALID_PARTITIONS, &message);
    }
    int32_t more = wanted->count - count;
    if (wanted->assignments_count >= 0 && wanted->assignments_count != more) {
        return two_numbers(decision, KAFKA_ERROR_INVALID_REPLICA_ASSIGNMENT, "Attempted to add ", more,
                           " additional partition(s), but only ", wanted->assignments_count,
                           " assignment(s) were specified.");
    }
    if (!controller__has_room(decision, 0, (uint32_t)more, 0)) { /* ours */
        return controller__error_words(KAFKA_ERROR_POLICY_VIOLATION, "The cluster is at its limit of partitions.");
    }
    return controller__no_error();
}

static struct controller__error grow(struct controller__decision *decision, const wanted_growth *wanted,
                                     bool validate_only)
{
    const struct metadata_topic *topic = metadata_topic_by_name(decision->image, kafka_text_slice(wanted->name));
    if (topic == NULL) {
        return (struct controller__error){.code = KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION, .message = kafka_text_null()};
    }
    struct controller__error error = check_growth(decision, wanted, topic);
    if (error.code != 0) { return error; }
    uint32_t replication = topic->partitions_count == 0 ? (uint32_t)decision->config->replication_default
                                                        : metadata_partition(decision->image, topic, 0)->replicas_count;
    struct metadata_partition partition;
    for (uint32_t i = topic->partitions_count; i < (uint32_t)wanted->count; i++) {
        error = grow_partition(decision, topic, wanted, i, replication, &partition);
        if (error.code != 0) { return error; }
        if (wanted->assignments_count < 0) { break; } /* placed ones are all like the first */
    }
    if (validate_only) { return error; }
    for (uint32_t i = topic->partitions_count; i < (uint32_t)wanted->count && !decision->round->is_full; i++) {
        error = grow_partition(decision, topic, wanted, i, replication, &partition);
        CHECK(error.code == 0);
        controller__propose_partition(decision->round, &partition);
    }
    decision->round->partitions += (uint32_t)wanted->count - topic->partitions_count;
    return error;
}

/* How many partitions it would add; saturating at what is excessive. */
static uint64_t partitions_of(const struct controller__decision *decision,
                              const struct kafka_create_partitions_request *request)
{
    uint64_t count = 0;
    for (int32_t i = 0; i < request->topics_count; i++) {
        const struct metadata_topic *topic =
            metadata_topic_by_name(decision->image, kafka_text_slice(request->topics[i].name));
        int64_t more = topic == NULL ? 0 : (int64_t)request->topics[i].count - (int64_t)topic->partitions_count;
        count += more > 0 ? (uint64_t)more : 1;
    }
    return count;
}

const void *controller__create_partitions(struct controller__decision *decision)
{
    const struct kafka_create_partitions_request *request = decision->request;
    struct kafka_create_partitions_response *response = kafka_create_partitions_response_take(decision->arena, 1);
    growth_result *results = kafka_create_partitions_response_create_partitions_topic_result_take(
        decision->arena, request->topics_count > 0 ? request->topics_count : 1);
    if (response == NULL || results == NULL) {
        decision->is_arena_full = true;
        return NULL;
    }
    kafka_create_partitions_response_init(response);
    response->results = results;
    bool is_excessive = decision->is_too_large || partitions_of(decision, request) > CONTROLLER_RECORDS_MAX;
    for (int32_t i = 0; i < request->topics_count && !is_excessive; i++) {
        (void)controller__touch(decision, kafka_text_slice(request->topics[i].name)); /* looked up below */
    }
    if (decision->must_wait) { return NULL; }
    for (int32_t i = 0; i < request->topics_count && !decision->round->is_full; i++) {
        growth_result *result = &results[response->results_count];
        result->name = request->topics[i].name;
        struct controller__error error = controller__error_words(KAFKA_ERROR_POLICY_VIOLATION,
                                                                 "Excessively large number of partitions per request.");
        if (!is_excessive) {
            struct controller__touched *touched = controller__find_touched(decision, kafka_text_slice(result->name));
            if (touched->count > 1) {
                if (touched->is_reported) { continue; }
                touched->is_reported = true;
                error = controller__error_words(KAFKA_ERROR_INVALID_REQUEST, "Duplicate topic name.");
            } else {
                error = grow(decision, &request->topics[i], request->validate_only);
            }
        }
        result->error_code = error.code;
        result->error_message = error.message;
        response->results_count += 1;
    }
    return response;
}
