/* broker__back.c: the partitions of this shard: judging, appending, reading and watching on behalf of any front.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#include "wire/kafka/produce.h"

/* ---- logs --------------------------------------------------------------------------------------------------------------- */

static struct back_log *log_at(struct broker *broker, struct plog_ref ref)
{
    CHECK(ref.slot < broker->logs_max);
    return &broker->logs[ref.slot];
}

/* NULL: not open here. */
static struct back_log *open_log_of(struct broker *broker, struct base_part id)
{
    struct plog_ref ref = plog_find(broker->plog, id);
    if (ref.generation == 0) { return NULL; }
    struct back_log *log = log_at(broker, ref);
    return log->ref.generation == ref.generation ? log : NULL;
}

static uint64_t number_of(const struct broker *broker, const struct metadata_topic *topic, enum metadata_id id)
{
    int64_t number = metadata_number(broker->image, topic, id);
    return number < 0 ? UINT64_MAX : (uint64_t)number;
}

static struct plog_log_config config_of(const struct broker *broker, const struct metadata_topic *topic)
{
    int64_t cleanup = metadata_number(broker->image, topic, METADATA_CLEANUP_POLICY);
    bool is_deleting = (cleanup & METADATA_CLEANUP_DELETE) != 0;
    return (struct plog_log_config){
        .segment_bytes = number_of(broker, topic, METADATA_SEGMENT_BYTES),
        .segment_ms = number_of(broker, topic, METADATA_SEGMENT_MS),
        .segment_jitter_ms = number_of(broker, topic, METADATA_SEGMENT_JITTER_MS),
        .index_interval_bytes = (uint32_t)number_of(broker, topic, METADATA_INDEX_INTERVAL_BYTES),
        .index_bytes_max = (uint32_t)number_of(broker, topic, METADATA_SEGMENT_INDEX_BYTES),
        .retention_ms = is_deleting ? metadata_number(broker->image, topic, METADATA_RETENTION_MS) : -1,
        .retention_bytes = is_deleting ? metadata_number(broker->image, topic, METADATA_RETENTION_BYTES) : -1,
        .delete_delay_ms = number_of(broker, topic, METADATA_FILE_DELETE_DELAY_MS),
        .is_preallocated = metadata_number(broker->image, topic, METADATA_PREALLOCATE) != 0,
        .is_page_cache = metadata_number(broker->image, topic, METADATA_WEIR_DURABILITY) == METADATA_PAGE_CACHE,
        .flush_messages = number_of(broker, topic, METADATA_FLUSH_MESSAGES),
        .flush_ms = number_of(broker, topic, METADATA_FLUSH_MS),
    };
}

/* Which partition it is, once in the life of this process. */
static void tell_damage(struct broker *broker, struct plog_ref ref, struct port_out *out)
{
    struct back_log *log = log_at(broker, ref);
    const struct metadata_topic *topic = metadata_topic_by_id(broker->image, log->id.topic);
    bool is_same = log->ref.generation == ref.generation; /* it may have been deleted meanwhile */
    if (!is_same || log->is_damage_told || topic == NULL) { return; }
    log->is_damage_told = true;
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, "topic=");
    base_text_add_slice(&text, metadata_topic_name(topic));
    base_text_add(&text, " partition=");
    base_text_add_i64(&text, log->id.index);
    base_text_add(&text, ": a part of it is damaged, and answers KAFKA_STORAGE_ERROR; 'weir log verify' says where");
    port_log_end(out, PORT_ERROR, "plog", &text);
}

/* False: no room. */
static bool try_open(struct broker *broker, const struct metadata_topic *topic,
                     const struct metadata_partition *partition, struct port_out *out)
{
    struct plog_log_config config = config_of(broker, topic);
    struct plog_ref ref;
    if (plog_open(broker->plog, partition->id, metadata_topic_name(topic), &config, partition->leader_epoch, &ref) !=
        BASE_OK) {
        return false;
    }
    *log_at(broker, ref) = (struct back_log){.id = partition->id,
                                             .ref = ref,
                                             .segment_bytes = config.segment_bytes,
                                             .rules = batch_rules(broker, topic),
                                             .form = batch_form(broker, topic)};
    struct plog_view view;
    plog_view(broker->plog, ref, &view);
    if (view.is_damaged) { tell_damage(broker, ref, out); }
    return true;
}

void back_log_open(struct broker *broker, const struct metadata_topic *topic,
                   const struct metadata_partition *partition, struct port_out *out)
{
    if (shard_of(broker, partition->id) != broker->config.shard || try_open(broker, topic, partition, out)) { return; }
    log_words(out, PORT_ERROR,
              "no room for one more partition on this shard; it is served once deleted ones have left their room", "");
}

/* NULL: not here (not yet, or no more). One that found no room when it was made, as logs that are being deleted still had theirs, is
 * opened when somebody asks for it and there is some. */
static struct back_log *log_of(struct broker *broker, struct base_part id, struct port_out *out)
{
    struct back_log *log = open_log_of(broker, id);
    if (log != NULL) { return log; }
    const struct metadata_partition *partition = metadata_partition_by_id(broker->image, id);
    if (partition == NULL || shard_of(broker, id) != broker->config.shard) { return NULL; }
    const struct metadata_topic *topic = metadata_topic_by_id(broker->image, id.topic);
    CHECK(topic != NULL);
    return try_open(broker, topic, partition, out) ? open_log_of(broker, id) : NULL;
}

const struct plog_ref *back_log_ref(struct broker *broker, struct base_part id, struct port_out *out)
{
    const struct back_log *log = log_of(broker, id, out);
    return log == NULL ? NULL : &log->ref;
}

void back_topic_configure(struct broker *broker, const struct metadata_topic *topic)
{
    struct plog_log_config config = {0};
    struct rec_rules rules = {0};
    struct batch_form form = {0};
    bool is_known = false; /* most topics have no partition here when all of them are configured anew */
    for (uint32_t i = 0; i < topic->partitions_count; i++) {
        struct back_log *log = open_log_of(broker, (struct base_part){.topic = topic->id, .index = (int32_t)i});
        if (log == NULL) { continue; }
        if (!is_known) {
            config = config_of(broker, topic);
            rules = batch_rules(broker, topic);
            form = batch_form(broker, topic);
            is_known = true;
        }
        plog_configure(broker->plog, log->ref, &config);
        log->segment_bytes = config.segment_bytes;
        log->rules = rules;
        log->form = form;
    }
}

void back_log_delete(struct broker *broker, struct base_part id, struct port_out *out)
{
    struct plog_ref ref = plog_find(broker->plog, id);
    if (ref.generation == 0) { return; }
    *log_at(broker, ref) = (struct back_log){.ref = {.generation = 0}};
    wait_disturb(broker->wait, ref.slot);
    plog_delete(broker->plog, ref, out);
}

/* ---- errors --------------------------------------------------------------------------------------------------------------- */

static int16_t error_of(enum plog_result result)
{
    switch (result) {
    case PLOG_OK:
    case PLOG_DUPLICATE: return KAFKA_ERROR_NONE;
    case PLOG_STORAGE:
    case PLOG_NO_SPACE:
    case PLOG_DAMAGED: return KAFKA_ERROR_KAFKA_STORAGE_ERROR;
    case PLOG_OFFSET_RANGE: return KAFKA_ERROR_OFFSET_OUT_OF_RANGE;
    case PLOG_OUT_OF_ORDER: return KAFKA_ERROR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    case PLOG_FENCED: return KAFKA_ERROR_INVALID_PRODUCER_EPOCH;
    case PLOG_GONE:
    case PLOG_NOT_NEXT:
    case PLOG_OLD_EPOCH: return KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER;
    case PLOG_BUSY: return KAFKA_ERROR_KAFKA_STORAGE_ERROR;
    }
    UNREACHABLE();
}

/* ---- append ------------------------------------------------------------------------------------------------------------------ */

/* Where Kafka tells the log's start with an error: where it looked into the batch beside its log. */
static bool tells_start(int16_t error, enum rec_verdict verdict)
{
    switch (error) {
    case KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION:
    case KAFKA_ERROR_CORRUPT_MESSAGE:
    case KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER:
    case KAFKA_ERROR_MESSAGE_TOO_LARGE:
    case KAFKA_ERROR_RECORD_LIST_TOO_LARGE:
    case KAFKA_ERROR_KAFKA_STORAGE_ERROR: return false;
    default: break;
    }
    switch ((int)verdict) { /* seen before the log is: a batch cut short, one too many, or not a batch */
    case REC_INCOMPLETE:
    case REC_BAD_LENGTH:
    case REC_BAD_MAGIC:
    case REC_OLD_MAGIC:
    case REC_TRAILING_BYTES: return false;
    default: return true;
    }
}

static void refuse_append(struct broker *broker, struct asker asker, int16_t error, enum rec_verdict verdict,
                          int32_t bad_record_index, struct plog_ref ref, struct port_out *out)
{
    CHECK(error != KAFKA_ERROR_NONE);
    broker->counters.refused_batches += 1;
    struct plog_view view;
    plog_view(broker->plog, ref, &view);
    struct port_message answer;
    message_begin(&answer, asker.shard, MSG_APPENDED);
    put_asker(&answer, 0, asker);
    answer.words[2] = (uint64_t)INT64_C(-1);
    answer.words[3] = (uint64_t)INT64_C(-1);
    answer.words[4] = (uint64_t)(tells_start(error, verdict) ? view.offset_start : -1);
    answer.words[5] = (uint64_t)(uint16_t)error | (uint64_t)verdict << 16;
    answer.words[6] = (uint64_t)(uint32_t)bad_record_index;
    message_send(broker, &answer, out);
}

static void answer_append(struct broker *broker, struct asker asker, int16_t error, enum rec_verdict verdict,
                          int32_t bad_record_index, const struct plog_out *done, struct port_out *out)
{
    if (error != KAFKA_ERROR_NONE) { broker->counters.refused_batches += 1; }
    struct port_message answer;
    message_begin(&answer, asker.shard, MSG_APPENDED);
    put_asker(&answer, 0, asker);
    answer.words[2] = (uint64_t)(done == NULL || error != 0 ? -1 : done->base_offset);
    answer.words[3] = (uint64_t)(done == NULL || error != 0 ? -1 : done->log_append_time_ms);
    answer.words[4] = (uint64_t)(done == NULL || error != 0 ? -1 : done->offset_start);
    answer.words[5] = (uint64_t)(uint16_t)error | (uint64_t)verdict << 16;
    answer.words[6] = (uint64_t)(uint32_t)bad_record_index;
    message_send(broker, &answer, out);
}

uint32_t back_take_op(struct broker *broker, enum back_op_kind kind, struct asker asker)
{
    uint32_t index = base_pool_take(&broker->back_ops);
    if (index == BASE_POOL_NONE) { return index; }
    *(struct back_op *)base_pool_at(&broker->back_ops, index) = (struct back_op){.kind = kind, .asker = asker};
    return index;
}

static void give_block(struct broker *broker, uint8_t *block)
{
    if (block != NULL) { base_pages_give(broker->pages, block); }
}

static void on_append(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct asker asker = get_asker(message, 3);
    struct back_log *log = log_of(broker, get_part(message, 0), out);
    if (log == NULL) {
        answer_append(broker, asker, KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER, REC_OK, -1, NULL, out);
        return;
    }
    if (broker->hold == HOLD_REFUSE) {
        answer_append(broker, asker, KAFKA_ERROR_KAFKA_STORAGE_ERROR, REC_OK, -1, NULL, out);
        return;
    }
    struct rec_facts facts = {.bad_record_index = -1};
    struct stored_batch stored;
    enum rec_verdict verdict =
        batch_judge(broker, log, base_slice_of(message->lent, (size_t)message->lent_bytes), &facts, &stored);
    if (verdict == REC_NO_ROOM) { /* another time; nothing of it is in the log */
        answer_append(broker, asker, KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER, REC_OK, -1, NULL, out);
        return;
    }
    if (verdict == REC_OK && rec_is_transactional(&facts.batch)) {
        give_block(broker, stored.block);
        answer_append(broker, asker, KAFKA_ERROR_INVALID_TXN_STATE, REC_OK, -1, NULL, out);
        return;
    }
    if (verdict != REC_OK) {
        refuse_append(broker, asker, rec_error_code(verdict), verdict, facts.bad_record_index, log->ref, out);
        return;
    }
    /* Whatever a batch may have: no segment is larger than it may be. */
    if (stored.bytes.size_bytes > log->segment_bytes) {
        give_block(broker, stored.block);
        refuse_append(broker, asker, KAFKA_ERROR_RECORD_LIST_TOO_LARGE, REC_OK, -1, log->ref, out);
        return;
    }
    if (log->rules.stamp == REC_CREATE_TIME && facts.max_timestamp_offset_delta >= 0) {
        /* The records were read: a greatest timestamp that the client got wrong would mislead the time index. */
        rec_stamp(unconst(stored.bytes.at), REC_CREATE_TIME, facts.max_timestamp_ms);
    }
    struct plog_view view;
    plog_view(broker->plog, log->ref, &view);
    uint32_t op = back_take_op(broker, BACK_APPEND, asker);
    if (op != BASE_POOL_NONE) {
        struct back_op *kept = base_pool_at(&broker->back_ops, op);
        kept->block = stored.block;
        kept->batch_bytes = (uint32_t)stored.bytes.size_bytes;
        kept->batch_records = (uint32_t)facts.batch.record_count;
    }
    struct plog_append append = {.token = (uint64_t)op + 1,
                                 .batches = unconst(stored.bytes.at),
                                 .size_bytes = (uint32_t)stored.bytes.size_bytes,
                                 .leader_epoch = view.leader_epoch,
                                 .is_log_append_time = log->rules.stamp == REC_LOG_APPEND_TIME,
                                 .wants_written = message->words[5] != 0};
    if (op == BASE_POOL_NONE || plog_append(broker->plog, log->ref, &append, out) != BASE_OK) {
        if (op != BASE_POOL_NONE) { base_pool_give(&broker->back_ops, op); }
        /* Retriable, and nothing of it is in the log. */
        give_block(broker, stored.block);
        answer_append(broker, asker, KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER, REC_OK, -1, NULL, out);
    }
}

/* ---- read ------------------------------------------------------------------------------------------------------------------- */

static void answer_read(struct broker *broker, struct asker asker, int16_t error, const struct plog_view *log,
                        const struct plog_out *done, struct port_out *out)
{
    struct port_message answer;
    message_begin(&answer, asker.shard, MSG_READ_DONE);
    put_asker(&answer, 0, asker);
    answer.words[2] = (uint64_t)(int64_t)error;
    answer.words[3] = (uint64_t)(log == NULL ? -1 : log->watermark);
    answer.words[4] = (uint64_t)(log == NULL ? -1 : log->offset_start);
    answer.words[11] = (uint64_t)(uint32_t)(log == NULL ? -1 : log->leader_epoch);
    answer.words[12] = error == KAFKA_ERROR_NONE && done == NULL; /* busy: there may be more than is said */
    if (done != NULL) {
        answer.words[5] = (uint64_t)done->file.slot << 32 | done->file.shard;
        answer.words[6] = done->file.generation;
        answer.words[7] = done->position_bytes;
        answer.words[8] = done->size_bytes;
        answer.words[9] = done->lease;
        answer.words[10] = done->first_batch_bytes;
    }
    message_send(broker, &answer, out);
}

/* KIP-320: a client that names an epoch must name ours. */
int16_t back_epoch_error(int32_t asked, int32_t ours)
{
    if (asked == -1 || asked == ours) { return KAFKA_ERROR_NONE; }
    return asked < ours ? KAFKA_ERROR_FENCED_LEADER_EPOCH : KAFKA_ERROR_UNKNOWN_LEADER_EPOCH;
}

static void on_read(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct asker asker = get_asker(message, 3);
    struct back_log *log = log_of(broker, get_part(message, 0), out);
    if (log == NULL) {
        answer_read(broker, asker, KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER, NULL, NULL, out);
        return;
    }
    struct plog_view view;
    plog_view(broker->plog, log->ref, &view);
    int16_t error = back_epoch_error((int32_t)(uint32_t)message->words[7], view.leader_epoch);
    if (error != KAFKA_ERROR_NONE) {
        answer_read(broker, asker, error, NULL, NULL, out);
        return;
    }
    uint32_t op = back_take_op(broker, BACK_READ, asker);
    struct plog_read read = {.token = (uint64_t)op + 1,
                             .offset = (int64_t)message->words[5],
                             .bytes_max = (uint32_t)message->words[6],
                             .takes_oversized_first = true,
                             .is_prompt = true};
    if (op == BASE_POOL_NONE || plog_read(broker->plog, log->ref, &read, out) != BASE_OK) {
        if (op != BASE_POOL_NONE) { base_pool_give(&broker->back_ops, op); }
        /* No room for one more read: nothing found, ask again. A client takes it for an idle partition. */
        answer_read(broker, asker, KAFKA_ERROR_NONE, &view, NULL, out);
    }
}

static void on_release(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    plog_release(broker->plog, message->words[0], out);
    if (message->words[4] == 0) { return; }
    struct back_log *log = open_log_of(broker, get_part(message, 1)); /* it may have been deleted meanwhile */
    if (log != NULL) { log->fetched_bytes += message->words[4]; }
}

static void answer_time(struct broker *broker, struct asker asker, int16_t error, int64_t offset, int64_t timestamp_ms,
                        int32_t leader_epoch, struct port_out *out)
{
    struct port_message answer;
    message_begin(&answer, asker.shard, MSG_TIME_DONE);
    put_asker(&answer, 0, asker);
    answer.words[2] = (uint64_t)(int64_t)error;
    answer.words[3] = (uint64_t)offset;
    answer.words[4] = (uint64_t)timestamp_ms;
    answer.words[5] = (uint64_t)(uint32_t)leader_epoch;
    message_send(broker, &answer, out);
}

/* The epoch that wrote `offset`, for the answers that name one. */
static int32_t epoch_at(struct broker *broker, struct plog_ref ref, const struct plog_view *view, int64_t offset)
{
    int32_t epoch = view->leader_epoch;
    while (epoch >= 0) {
        int32_t found;
        int64_t offset_end;
        plog_epoch_end(broker->plog, ref, epoch - 1, &found, &offset_end);
        if (found < 0 || offset_end <= offset) { break; }
        epoch = found;
    }
    return epoch;
}

static enum base_rc find_time(struct broker *broker, struct plog_ref ref, uint32_t op, int64_t timestamp_ms,
                              struct port_out *out)
{
    uint64_t token = (uint64_t)op + 1;
    if (timestamp_ms == LIST_OFFSETS_MAX_TIMESTAMP) { return plog_find_greatest(broker->plog, ref, token, out); }
    return plog_find_time(broker->plog, ref, token, timestamp_ms, out);
}

static void on_time(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct asker asker = get_asker(message, 3);
    struct back_log *log = log_of(broker, get_part(message, 0), out);
    if (log == NULL) {
        answer_time(broker, asker, KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER, -1, -1, -1, out);
        return;
    }
    struct plog_view view;
    plog_view(broker->plog, log->ref, &view);
    int16_t error = back_epoch_error((int32_t)(uint32_t)message->words[6], view.leader_epoch);
    if (error == KAFKA_ERROR_NONE && view.is_failed) { error = KAFKA_ERROR_KAFKA_STORAGE_ERROR; }
    int64_t timestamp_ms = (int64_t)message->words[5];
    if (error != KAFKA_ERROR_NONE) {
        answer_time(broker, asker, error, -1, -1, -1, out);
    } else if (timestamp_ms == LIST_OFFSETS_LATEST) {
        answer_time(broker, asker, 0, view.watermark, -1, view.leader_epoch, out);
    } else if (timestamp_ms == LIST_OFFSETS_EARLIEST || timestamp_ms == LIST_OFFSETS_EARLIEST_LOCAL) {
        answer_time(broker, asker, 0, view.offset_start, -1, epoch_at(broker, log->ref, &view, view.offset_start), out);
    } else if (timestamp_ms == LIST_OFFSETS_LATEST_TIERED || timestamp_ms == LIST_OFFSETS_EARLIEST_PENDING_UPLOAD) {
        answer_time(broker, asker, 0, -1, -1, -1, out); /* no tiered storage: none */
    } else {
        uint32_t op = back_take_op(broker, BACK_TIME, asker);
        if (op == BASE_POOL_NONE || find_time(broker, log->ref, op, timestamp_ms, out) != BASE_OK) {
            if (op != BASE_POOL_NONE) { base_pool_give(&broker->back_ops, op); }
            answer_time(broker, asker, KAFKA_ERROR_NOT_LEADER_OR_FOLLOWER, -1, -1, -1, out); /* retriable */
        }
    }
}

/* ---- watching ---------------------------------------------------------------------------------------------------------------- */

/* A parked request as one word: its shard, slot and generation. Never 0, as generations begin at 1. */
static uint64_t watch_token(struct asker asker)
{
    CHECK(asker.slot < (1u << 26));
    return (uint64_t)asker.shard << 58 | (uint64_t)asker.slot << 32 | asker.generation;
}

enum woke_why { WOKE_LOOK_NOW = 0, WOKE_NO_ROOM };

static void woke(struct broker *broker, struct asker asker, enum woke_why why, struct port_out *out)
{
    struct port_message answer;
    message_begin(&answer, asker.shard, MSG_WOKE);
    put_asker(&answer, 0, asker);
    answer.words[2] = (uint64_t)why;
    message_send(broker, &answer, out);
}

static void on_watch(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct asker asker = get_asker(message, 3);
    uint64_t token = watch_token(asker);
    int64_t offset = (int64_t)message->words[5];
    struct back_log *log = log_of(broker, get_part(message, 0), out);
    struct plog_view view = {.watermark = -1};
    if (log != NULL) { plog_view(broker->plog, log->ref, &view); }
    /* What changed since the front looked is seen here: nothing is missed between the look and the watch. A log that failed by itself is
     * read as before: who looked again at once would find the same, again and again. */
    if (log == NULL || view.is_off_line || view.watermark > offset) {
        wait_cancel(broker->wait, token);
        woke(broker, asker, WOKE_LOOK_NOW, out);
        return;
    }
    if ((!wait_is_parked(broker->wait, token) && wait_park(broker->wait, token, UINT64_MAX) != BASE_OK) ||
        wait_watch(broker->wait, token, log->ref.slot, offset) != BASE_OK) {
        wait_cancel(broker->wait, token);
        woke(broker, asker, WOKE_NO_ROOM, out);
    }
}

/* ---- what plog says ------------------------------------------------------------------------------------------------------------ */

void put_run(struct port_message *message, const struct plog_run *run)
{
    put_part(message, 0, run->id);
    message->words[2] |= (uint64_t)(uint32_t)run->leader_epoch << 32;
    message->words[3] = (uint64_t)run->segment_base;
    message->words[4] = run->position_bytes;
    message->words[5] = (uint64_t)run->offset_base;
    message->words[6] = (uint64_t)run->offset_end;
    message->words[7] = (uint64_t)run->cuts << 48 | (uint64_t)run->change << 32 | run->crc;
    message->words[8] = run->size_bytes;
}

void get_run(const struct port_message *message, struct plog_run *run_out)
{
    *run_out = (struct plog_run){.change = (enum plog_change_kind)(message->words[7] >> 32 & 0xff),
                                 .cuts = (uint16_t)(message->words[7] >> 48),
                                 .id = get_part(message, 0),
                                 .segment_base = (int64_t)message->words[3],
                                 .position_bytes = message->words[4],
                                 .offset_base = (int64_t)message->words[5],
                                 .offset_end = (int64_t)message->words[6],
                                 .leader_epoch = (int32_t)(uint32_t)(message->words[2] >> 32),
                                 .crc = (uint32_t)message->words[7],
                                 .size_bytes = message->words[8]};
}

static void tell_change(const struct broker *broker, const struct plog_run *run, struct port_out *out)
{
    struct plog_ref ref = plog_find(broker->plog, run->id);
    struct plog_view view = {0};
    struct base_text text;
    if (ref.generation != 0) { plog_view(broker->plog, ref, &view); }
    port_log_begin(out, &text);
    base_text_add(&text, "topic=");
    base_text_add_slice(&text, view.name);
    if (ref.generation == 0) { base_text_add_uuid(&text, run->id.topic); }
    base_text_add(&text, " partition=");
    base_text_add_i64(&text, run->id.index);
    switch (run->change) {
    case PLOG_CHANGE_START: base_text_add(&text, ": starts now at offset "); break;
    case PLOG_CHANGE_TRUNCATE: base_text_add(&text, ": ends now at offset "); break;
    case PLOG_CHANGE_GONE: base_text_add(&text, ": deleted"); break;
    case PLOG_CHANGE_SEGMENT: base_text_add(&text, ": a segment begins at offset "); break;
    case PLOG_CHANGE_EPOCH: base_text_add(&text, ": a leader epoch begins at offset "); break;
    }
    bool is_segment = run->change == PLOG_CHANGE_SEGMENT;
    if (run->change != PLOG_CHANGE_GONE) {
        base_text_add_i64(&text, is_segment ? run->segment_base : run->offset_base);
    }
    port_log_end(out, PORT_DEBUG, "plog", &text);
}

static void send_run(struct broker *broker, const struct plog_out *item, struct port_out *out)
{
    struct port_message message;
    message_begin(&message, 0, MSG_JOURNAL);
    put_run(&message, &item->run);
    message.words[9] = item->run_token;
    message.words[10] = item->run.piece_count;
    message.lent = unconst(item->run.pieces);
    message.lent_bytes = item->run.pieces == NULL ? 0 : item->run.size_bytes;
    message_send(broker, &message, out);
}

static void on_op_done(struct broker *broker, const struct plog_out *item, struct port_out *out)
{
    uint32_t index = (uint32_t)(item->token - 1);
    struct back_op op = *(struct back_op *)base_pool_at(&broker->back_ops, index);
    base_pool_give(&broker->back_ops, index);
    struct plog_view view;
    switch (op.kind) {
    case BACK_APPEND:
        give_block(broker, op.block);
        if (error_of(item->result) != KAFKA_ERROR_NONE) {
            refuse_append(broker, op.asker, error_of(item->result), REC_OK, -1, item->ref, out);
        } else {
            count_appended(broker, &op, item->result);
            answer_append(broker, op.asker, KAFKA_ERROR_NONE, REC_OK, -1, item, out);
        }
        return;
    case BACK_READ:
        if (item->result == PLOG_OK || item->result == PLOG_BUSY) {
            view = (struct plog_view){.watermark = item->watermark,
                                      .offset_start = item->offset_start,
                                      .leader_epoch = item->leader_epoch};
            answer_read(broker, op.asker, KAFKA_ERROR_NONE, &view, item->result == PLOG_OK ? item : NULL, out);
        } else if (item->result == PLOG_OFFSET_RANGE) {
            view = (struct plog_view){.watermark = -1, .offset_start = -1, .leader_epoch = -1};
            answer_read(broker, op.asker, KAFKA_ERROR_OFFSET_OUT_OF_RANGE, &view, NULL, out);
        } else {
            if (item->result == PLOG_DAMAGED) { tell_damage(broker, item->ref, out); }
            answer_read(broker, op.asker, error_of(item->result), NULL, NULL, out);
        }
        return;
    case BACK_TIME:
        if (item->result == PLOG_DAMAGED) { tell_damage(broker, item->ref, out); }
        answer_time(broker, op.asker, error_of(item->result), item->offset, item->timestamp_ms, item->leader_epoch,
                    out);
        return;
    case BACK_METADATA_APPEND: metadata_written(broker, item->result, out); return;
    case BACK_METADATA_READ: metadata_read(broker, item, out); return;
    case BACK_DELETE: about_deleted(broker, op.asker, error_of(item->result), item->offset, out); return;
    case BACK_METADATA_START: return;
    case BACK_GROUP_APPEND: coordinator_written(broker, op.asker.slot, item->result, out); return;
    case BACK_GROUP_READ: coordinator_read(broker, item, out); return;
    case BACK_GROUP_START: return;
    }
    UNREACHABLE();
}

static void on_written(struct broker *broker, const struct plog_out *item, struct port_out *out)
{
    const struct back_op *op = base_pool_at(&broker->back_ops, (uint32_t)(item->token - 1));
    struct port_message answer;
    message_begin(&answer, op->asker.shard, MSG_WRITTEN);
    put_asker(&answer, 0, op->asker);
    answer.words[2] = (uint64_t)item->base_offset;
    answer.words[3] = (uint64_t)item->log_append_time_ms;
    answer.words[4] = (uint64_t)item->offset_start;
    message_send(broker, &answer, out);
}

static void on_watermark(struct broker *broker, struct plog_ref ref)
{
    struct plog_view view;
    plog_view(broker->plog, ref, &view);
    if (view.is_failed) {
        wait_disturb(broker->wait, ref.slot);
    } else {
        wait_advance(broker->wait, ref.slot, view.watermark);
    }
}

static void to_first(struct broker *broker, enum message_kind kind, struct port_out *out)
{
    struct port_message message;
    message_begin(&message, 0, kind);
    message_send(broker, &message, out);
}

uint32_t back_logs(const struct broker *broker)
{
    uint32_t count = 0;
    uint32_t cursor = 0;
    struct plog_ref ref;
    struct base_part id;
    while (plog_each(broker->plog, &cursor, &ref, &id)) { count += 1; }
    return count;
}

static void recovered(struct broker *broker, enum plog_result result, struct port_out *out)
{
    struct port_message message;
    message_begin(&message, 0, MSG_RECOVERED)->words[0] = plog_may_lack_ends(broker->plog) ? 1 : 0;
    message.words[1] = (uint64_t)result;
    message.words[2] = back_logs(broker);
    message_send(broker, &message, out);
}

static void taken(struct broker *broker, enum plog_result result, struct port_out *out)
{
    struct port_message message;
    message_begin(&message, 0, MSG_TAKEN)->words[0] = (uint64_t)result;
    message_send(broker, &message, out);
}

static void send_state(struct broker *broker, const struct plog_out *item, struct port_out *out)
{
    struct port_message message;
    message_begin(&message, 0, MSG_STATE);
    message.lent = item->block;
    message.lent_bytes = item->size_bytes;
    message_send(broker, &message, out);
}

/* Logs that recovery brought back and the metadata does not know (any more): their topics were deleted, or their
 * creation was never committed. One a call. */
static bool reconcile(struct broker *broker, struct port_out *out)
{
    if (!broker->is_reconciling) { return false; }
    struct plog_ref ref;
    struct base_part id;
    if (!plog_each(broker->plog, &broker->reconcile_cursor, &ref, &id)) {
        broker->is_reconciling = false;
        return true;
    }
    if (!is_own_part(id) && metadata_partition_by_id(broker->image, id) == NULL) { back_log_delete(broker, id, out); }
    return true;
}

void back_configure_all(struct broker *broker)
{
    broker->is_configuring = true;
    broker->configured_bytes = 0;
}

bool back_configure_poll(struct broker *broker)
{
    if (!broker->is_configuring) { return false; }
    const struct metadata_topic *topic =
        metadata_topic_after(broker->image, base_slice_of(broker->configured, broker->configured_bytes));
    if (topic == NULL) {
        broker->is_configuring = false;
        return true;
    }
    memcpy(broker->configured, topic->name, topic->name_bytes);
    broker->configured_bytes = topic->name_bytes;
    back_topic_configure(broker, topic);
    return true;
}

void back_reconcile(struct broker *broker)
{
    broker->is_reconciling = true;
    broker->reconcile_cursor = 0;
}

/* States are gathered at once; at a stop once what this back has to do is done, or its entries would come after the last checkpoint.
 * Where those wait for room in the journal, it is this checkpoint that makes some: another one comes after it. */
static bool checkpoint_poll(struct broker *broker, struct port_out *out)
{
    bool is_awaited = broker->is_draining && !broker->is_journal_full && !plog_is_quiet(broker->plog);
    if (!broker->is_checkpoint_due || is_awaited) { return false; }
    broker->is_checkpoint_due = false;
    plog_checkpoint(broker->plog, out);
    return true;
}

bool back_poll(struct broker *broker, struct port_out *out)
{
    if (checkpoint_poll(broker, out)) { return true; }
    if (reconcile(broker, out)) { return true; }
    struct port_message held;
    if (broker->hold != HOLD_WAIT && ring_pop(&broker->held, &held)) {
        on_append(broker, &held, out);
        return true;
    }
    struct plog_out item;
    if (plog_poll(broker->plog, &item)) {
        switch (item.kind) {
        case PLOG_OUT_WRITTEN: on_written(broker, &item, out); break;
        case PLOG_OUT_SYNCED:
        case PLOG_OUT_FAILED:
        case PLOG_OUT_READ:
        case PLOG_OUT_TIME:
        case PLOG_OUT_STARTED: on_op_done(broker, &item, out); break;
        case PLOG_OUT_TRUNCATED:
        case PLOG_OUT_EPOCH: break; /* with one replica nobody asks */
        case PLOG_OUT_WANT_CHECKPOINT: to_first(broker, MSG_WANT_CHECKPOINT, out); break;
        case PLOG_OUT_WATERMARK: on_watermark(broker, item.ref); break;
        case PLOG_OUT_RUN: send_run(broker, &item, out); break;
        case PLOG_OUT_CHANGE:
            if (port_wants_debug(out)) { tell_change(broker, &item.run, out); }
            send_run(broker, &item, out);
            break;
        case PLOG_OUT_STATE: send_state(broker, &item, out); break;
        case PLOG_OUT_STATES_END: to_first(broker, MSG_STATES_END, out); break;
        case PLOG_OUT_REPLAYED: taken(broker, item.result, out); break;
        case PLOG_OUT_RECOVERED: recovered(broker, item.result, out); break;
        case PLOG_OUT_DELETED: break;
        case PLOG_OUT_FULL: to_first(broker, MSG_BACK_FULL, out); break;
        case PLOG_OUT_DISK_FAILED: to_first(broker, MSG_BACK_FAILED, out); break;
        case PLOG_OUT_STOPPED: to_first(broker, MSG_CLOSED, out); break;
        }
        return true;
    }
    uint64_t token;
    enum wait_why why;
    if (wait_next_due(broker->wait, &token, &why)) {
        woke(broker,
             (struct asker){.shard = (uint32_t)(token >> 58),
                            .slot = (uint32_t)(token >> 32) & ((1u << 26) - 1),
                            .generation = (uint32_t)token},
             WOKE_LOOK_NOW, out);
        return true;
    }
    return false;
}

/* ---- recovery and checkpoint ----------------------------------------------------------------------------------------------------- */

static void on_restore(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct base_slice state = base_slice_of(message->lent, (size_t)message->lent_bytes);
    enum base_rc rc = plog_restore(broker->plog, state, 1, out);
    if (rc == BASE_OK) { return; }
    bool is_full = rc == BASE_FULL; /* another start may have the memory; this one must not go on without the log */
    if (!is_full) {
        broker->has_lost_entries = true;
        log_words(out, PORT_ERROR, "the state of a partition can't be restored: it is not served", "");
    }
    taken(broker, is_full ? PLOG_BUSY : PLOG_OK, out);
}

static void on_replay(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    struct plog_run run;
    get_run(message, &run);
    struct base_slice bytes = base_slice_of(message->lent, (size_t)message->lent_bytes);
    enum base_rc rc = own_log_replays(broker, &run, bytes, out);
    if (rc == BASE_OK) { rc = plog_replay(broker->plog, &run, bytes, 1, out); }
    if (rc == BASE_OK) { return; }
    bool is_full = rc == BASE_FULL;
    if (!is_full) { log_words(out, PORT_ERROR, "an entry of the journal can't be replayed", ""); }
    taken(broker, is_full ? PLOG_BUSY : PLOG_OK, out);
}

/* Of one log, or (no id) of any: then each log looks for what it can't account for. */
static void on_damage(struct broker *broker, struct base_part id, struct port_out *out)
{
    plog_mark_suspect(broker->plog, id, out); /* of any: also of logs that nobody has heard of yet */
    if (!base_uuid_is_none(id.topic)) { return; }
    uint32_t cursor = 0;
    struct plog_ref ref;
    while (plog_each(broker->plog, &cursor, &ref, &id)) { plog_mark_suspect(broker->plog, id, out); }
}

void back_message(struct broker *broker, const struct port_message *message, struct port_out *out)
{
    switch (message->kind) {
    case MSG_APPEND:
        if (broker->hold == HOLD_WAIT || ring_count(&broker->held) > 0) {
            ring_push(&broker->held, message); /* in order: nothing overtakes what already waits */
        } else {
            on_append(broker, message, out);
        }
        return;
    case MSG_HOLD:
        broker->hold = (enum hold)message->words[0];
        broker->is_journal_full = message->words[1] != 0;
        return;
    case MSG_GIVE_HANDLE:
        if (plog_give_handle(broker->plog, out)) { to_first(broker, MSG_HANDLE_COMES, out); }
        return;
    case MSG_READ: on_read(broker, message, out); return;
    case MSG_RELEASE: on_release(broker, message, out); return;
    case MSG_TIME: on_time(broker, message, out); return;
    case MSG_DELETE: about_delete(broker, message, out); return;
    case MSG_SIZE: about_size(broker, message, out); return;
    case MSG_PRODUCERS: about_producers(broker, message, out); return;
    case MSG_EPOCH: about_epoch(broker, message, out); return;
    case MSG_WATCH: on_watch(broker, message, out); return;
    case MSG_UNWATCH: wait_cancel(broker->wait, watch_token(get_asker(message, 3))); return;
    case MSG_JOURNALLED:
        if (message->words[0] != 0) { /* 0: nobody waits for that change */
            plog_journalled(broker->plog, message->words[0], (enum port_rc)message->words[1], out);
        }
        return;
    case MSG_DISK_FAILED:
        broker->is_disk_failed = true;
        plog_disk_failed(broker->plog, out);
        return;
    case MSG_RESTORE: on_restore(broker, message, out); return;
    case MSG_REPLAY: on_replay(broker, message, out); return;
    case MSG_DAMAGE: on_damage(broker, get_part(message, 0), out); return;
    case MSG_RECOVERY_END: plog_recovery_end(broker->plog, (enum plog_last_stop)message->words[0], out); return;
    case MSG_RAISE: raise_gather(broker, message->words[0], out); return;
    case MSG_CHECKPOINT: broker->is_checkpoint_due = true; return;
    case MSG_STATE_TAKEN: plog_state_taken(broker->plog, out); return;
    case MSG_CHECKPOINTED: plog_checkpointed(broker->plog); return;
    case MSG_CLOSE: plog_stop(broker->plog, out); return;
    default: UNREACHABLE();
    }
}
