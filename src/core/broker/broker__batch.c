/* broker__batch.c: what a produced batch must be for its topic, and how it is stored there (compression.type).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

/* What a batch opens to may take so much of a shard's blocks; more is refused as too large, as it could never be opened. */
#define OPENED_SHARE 4

static int64_t number_of(const struct broker *broker, const struct metadata_topic *topic, enum metadata_id id)
{
    return metadata_number(broker->image, topic, id);
}

struct rec_rules batch_rules(const struct broker *broker, const struct metadata_topic *topic)
{
    bool is_compacted = (number_of(broker, topic, METADATA_CLEANUP_POLICY) & METADATA_CLEANUP_COMPACT) != 0;
    bool is_stamped = number_of(broker, topic, METADATA_MESSAGE_TIMESTAMP_TYPE) == METADATA_LOG_APPEND_TIME;
    /* Kafka's default of one hour into the future is a limit on records, so compressed ones would always have to be opened;
     * their header's greatest timestamp says the same and is checked instead. Of the oldest it says nothing. */
    int64_t before_max_ms = number_of(broker, topic, METADATA_MESSAGE_TIMESTAMP_BEFORE_MAX_MS);
    bool is_age_limited = before_max_ms < INT64_MAX && !is_stamped;
    bool is_opened = broker->config.validates_records || is_compacted || is_age_limited;
    int64_t batch_max_bytes = number_of(broker, topic, METADATA_MAX_MESSAGE_BYTES);
    return (struct rec_rules){
        .batch_max_bytes = batch_max_bytes < 0 ? 0 : (size_t)batch_max_bytes,
        .opened_max_bytes = base_min_size(broker->config.decompressed_bytes_max, broker->blocks_bytes / OPENED_SHARE),
        .open = is_opened ? REC_OPEN_COMPRESSED : REC_OPEN_NEVER,
        .stamp = is_stamped ? REC_LOG_APPEND_TIME : REC_CREATE_TIME,
        .is_key_needed = is_compacted,
        .before_max_ms = before_max_ms,
        .after_max_ms = number_of(broker, topic, METADATA_MESSAGE_TIMESTAMP_AFTER_MAX_MS),
    };
}

struct batch_form batch_form(const struct broker *broker, const struct metadata_topic *topic)
{
    enum { GZIP_OWN = -1, LZ4_OWN = 9, ZSTD_OWN = 3 }; /* the levels by which Kafka means a library's own */
    struct batch_form form = {.is_set = true, .level = CODEC_LEVEL_DEFAULT};
    int64_t level = 0;
    int64_t own = 0;
    switch ((enum metadata_compression)number_of(broker, topic, METADATA_COMPRESSION_TYPE)) {
    case METADATA_UNCOMPRESSED: form.kind = CODEC_NONE; return form;
    case METADATA_SNAPPY: form.kind = CODEC_SNAPPY; return form;
    case METADATA_GZIP:
        form.kind = CODEC_GZIP;
        level = number_of(broker, topic, METADATA_COMPRESSION_GZIP_LEVEL);
        own = GZIP_OWN;
        break;
    case METADATA_LZ4:
        form.kind = CODEC_LZ4;
        level = number_of(broker, topic, METADATA_COMPRESSION_LZ4_LEVEL);
        own = LZ4_OWN;
        break;
    case METADATA_ZSTD:
        form.kind = CODEC_ZSTD;
        level = number_of(broker, topic, METADATA_COMPRESSION_ZSTD_LEVEL);
        own = ZSTD_OWN;
        break;
    case METADATA_PRODUCER: form.is_set = false; return form;
    }
    if (level != own && codec_level_is_known(form.kind, (int32_t)level)) { form.level = (int32_t)level; }
    return form;
}

/* The batch in the topic's own form, in a block of its own. */
static enum rec_verdict recode(struct broker *broker, const struct back_log *log, const struct rec_facts *facts,
                               struct stored_batch *stored)
{
    struct batch_form form = log->form;
    struct base_slice records = facts->records;
    size_t scratch_bytes = codec_compress_scratch_bytes(form.kind, form.level, records.size_bytes);
    size_t out_bytes = rec_recode_bytes_max(form.kind, records.size_bytes);
    uint8_t *scratch = scratch_bytes == 0 ? NULL : base_pages_take(broker->pages, BASE_CLIENTS, scratch_bytes);
    uint8_t *out = base_pages_take(broker->pages, BASE_CLIENTS, out_bytes);
    enum rec_verdict verdict = REC_NO_ROOM;
    if (out != NULL && (scratch != NULL || scratch_bytes == 0)) {
        struct codec_scratch loan = {.at = scratch, .size_bytes = scratch_bytes};
        enum codec_rc rc =
            rec_recode(&facts->batch, records, form.kind, form.level, loan, out, out_bytes, &stored->bytes);
        verdict = rc == CODEC_OK ? REC_OK : REC_TOO_LARGE;
    }
    if (scratch != NULL) { base_pages_give(broker->pages, scratch); }
    if (verdict == REC_OK && stored->bytes.size_bytes > log->rules.batch_max_bytes) { verdict = REC_TOO_LARGE; }
    if (verdict == REC_OK) {
        base_pages_shrink(broker->pages, out, stored->bytes.size_bytes);
        stored->block = out;
    } else if (out != NULL) {
        base_pages_give(broker->pages, out);
    }
    return verdict;
}

enum rec_verdict batch_judge(struct broker *broker, const struct back_log *log, struct base_slice bytes,
                             struct rec_facts *facts, struct stored_batch *stored)
{
    *stored = (struct stored_batch){.bytes = bytes};
    struct rec_rules rules = log->rules;
    rules.now_ms = broker->wall_ms;
    struct rec_batch batch;
    bool is_batch = rec_batch_view(bytes, &batch) == REC_OK;
    bool is_recoded = is_batch && log->form.is_set && rec_codec_number(&batch) != (uint32_t)log->form.kind;
    if (is_recoded) { rules.open = REC_OPEN_COMPRESSED; }
    if (!is_batch || !rec_is_compressed(&batch) || !codec_is_known(rec_codec_number(&batch))) {
        rules.open = REC_OPEN_NEVER;
    }
    rules.keeps_records = is_recoded;
    struct base_arena scratch;
    uint8_t *block = NULL;
    if (rules.open != REC_OPEN_NEVER) {
        size_t scratch_bytes = rec_open_bytes(&batch, rules.opened_max_bytes) + 64;
        block = base_pages_take(broker->pages, BASE_CLIENTS, scratch_bytes);
        if (block == NULL) { return REC_NO_ROOM; }
        base_arena_init(&scratch, block, scratch_bytes);
    }
    enum rec_verdict verdict = rec_validate(bytes, &rules, block == NULL ? NULL : &scratch, facts);
    stored->bytes.size_bytes =
        verdict == REC_OK ? facts->batch.size_bytes : bytes.size_bytes; /* and nothing after it */
    if (verdict == REC_OK && is_recoded) { verdict = recode(broker, log, facts, stored); }
    if (block != NULL) { base_pages_give(broker->pages, block); }
    return verdict;
}
