/* bench_replay_frames.c: see app__replay.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__replay.h"

#include "record/record.h"

#include <stdlib.h>
#include <string.h>

#define CLIENT_ID      "replay"
#define PRODUCE_KEY    0
#define PRODUCE_V      7
#define FETCH_KEY      1
#define FETCH_V        11
#define METADATA_KEY   3
#define METADATA_V     8
#define HEAD_ROOM      512 /* beside the topic's name */
#define WORDS          64
#define WORD_BYTES     8
#define BATCH_LOOKED   ((size_t)REC_LAST_OFFSET_DELTA_AT + 4)
#define CORRELATION    1 /* of all: answers come in order */
#define FETCH_ERROR_AT 12

/* ---- requests ---- */

struct writer {
    uint8_t *at;
    size_t used_bytes;
};
static void put_i8(struct writer *w, int64_t v) { w->at[w->used_bytes++] = (uint8_t)v; }
static void put_i16(struct writer *w, int64_t v)
{
    base_put_u16(w->at + w->used_bytes, (uint16_t)v);
    w->used_bytes += 2;
}
static void put_i32(struct writer *w, int64_t v)
{
    base_put_u32(w->at + w->used_bytes, (uint32_t)v);
    w->used_bytes += 4;
}
static void put_i64(struct writer *w, int64_t v)
{
    base_put_u64(w->at + w->used_bytes, (uint64_t)v);
    w->used_bytes += 8;
}
static void put_words(struct writer *w, const char *words)
{
    size_t size_bytes = strlen(words);
    put_i16(w, (int64_t)size_bytes);
    memcpy(w->at + w->used_bytes, words, size_bytes);
    w->used_bytes += size_bytes;
}

static void put_header(struct writer *w, int16_t key, int16_t version)
{
    put_i32(w, 0); /* the length, set at the end */
    put_i16(w, key);
    put_i16(w, version);
    put_i32(w, CORRELATION);
    put_words(w, CLIENT_ID);
}

/* Random bytes, or words out of a few when they are to be compressed: about a third is left of those. */
static void fill_value(struct base_prng *dice, enum codec_kind codec, uint8_t *value, size_t size_bytes)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz 0123456789{}[]:,";
    if (codec == CODEC_NONE) {
        base_prng_fill(dice, value, size_bytes);
        return;
    }
    for (size_t i = 0; i < size_bytes; i += WORD_BYTES) {
        uint64_t word = base_prng_below(dice, WORDS);
        for (size_t j = i; j < i + WORD_BYTES && j < size_bytes; j++) {
            value[j] = (uint8_t)letters[(word * 11 + (j - i) * (word + 3)) % (sizeof letters - 1)];
        }
    }
}

static bool compress(struct rec_build *build, enum codec_kind codec, void *at, size_t room_bytes,
                     struct base_slice *batch_out)
{
    size_t records_bytes = rec_build_records_bytes(build);
    size_t scratch_bytes = codec_compress_scratch_bytes(codec, CODEC_LEVEL_DEFAULT, records_bytes);
    void *scratch = malloc(scratch_bytes + 1);
    if (scratch == NULL) { return false; }
    enum codec_rc rc =
        rec_build_end_compressed(build, codec, CODEC_LEVEL_DEFAULT, (struct codec_scratch){scratch, scratch_bytes}, at,
                                 room_bytes, batch_out);
    free(scratch);
    return rc == CODEC_OK;
}

/* Builds in memory of its own, and says the batch in `at`. */
static bool make_batch(const struct replay_wanted *wanted, uint8_t *at, size_t room_bytes, struct base_slice *batch_out)
{
    struct rec_build build;
    struct base_prng dice;
    base_prng_init(&dice, 1, 0);
    uint8_t *value = calloc(1, (size_t)wanted->size_bytes + 1);
    uint8_t *plain = malloc(room_bytes);
    bool is_good =
        value != NULL && plain != NULL && rec_build_init(&build, plain, room_bytes, rec_build_plain()) == BASE_OK;
    for (int64_t i = 0; i < wanted->records && is_good; i++) {
        fill_value(&dice, wanted->codec, value, (size_t)wanted->size_bytes);
        struct base_slice bytes = base_slice_of(value, (size_t)wanted->size_bytes);
        is_good = rec_build_add(&build, app_wall_ms(), rec_null(), rec_value_of(bytes), NULL, 0) == BASE_OK;
    }
    if (is_good && wanted->codec != CODEC_NONE) {
        is_good = compress(&build, wanted->codec, at, room_bytes, batch_out);
    } else if (is_good) {
        struct base_slice batch = rec_build_end(&build);
        memcpy(at, batch.at, batch.size_bytes);
        *batch_out = base_slice_of(at, batch.size_bytes);
    }
    free(plain);
    free(value);
    return is_good;
}

static void put_produce_head(struct writer *w, const struct replay_wanted *wanted, int64_t partition,
                             size_t batch_bytes)
{
    put_header(w, PRODUCE_KEY, PRODUCE_V);
    put_i16(w, -1); /* no transaction */
    put_i16(w, wanted->acks);
    put_i32(w, 30000);
    put_i32(w, 1);
    put_words(w, wanted->topic);
    put_i32(w, 1);
    put_i32(w, partition);
    put_i32(w, (int64_t)batch_bytes);
}

static size_t put_fetch(struct writer *w, const struct replay_wanted *wanted, int64_t partition)
{
    put_header(w, FETCH_KEY, FETCH_V);
    put_i32(w, -1); /* replica */
    put_i32(w, wanted->max_wait_ms);
    put_i32(w, wanted->min_bytes);
    put_i32(w, wanted->max_bytes);
    put_i8(w, 0);  /* isolation */
    put_i32(w, 0); /* no session */
    put_i32(w, -1);
    put_i32(w, 1);
    put_words(w, wanted->topic);
    put_i32(w, 1);
    put_i32(w, partition);
    put_i32(w, -1); /* leader epoch */
    size_t offset_at = w->used_bytes;
    put_i64(w, 0);
    put_i64(w, -1); /* log start */
    put_i32(w, wanted->max_bytes);
    put_i32(w, 0);    /* forgotten */
    put_words(w, ""); /* rack */
    return offset_at;
}

static void put_metadata(struct writer *w)
{
    put_header(w, METADATA_KEY, METADATA_V);
    put_i32(w, -1); /* all topics */
    put_i8(w, 0);   /* none is made */
    put_i8(w, 0);   /* nor are permissions asked for */
    put_i8(w, 0);
}

bool replay_frames_make(const struct replay_wanted *wanted, struct replay_frames *frames_out)
{
    size_t name_bytes = strlen(wanted->topic);
    size_t head_room_bytes = HEAD_ROOM + name_bytes;
    bool is_produce = wanted->kind == REPLAY_PRODUCE;
    size_t body_room_bytes = is_produce ? 4096 + 2 * (size_t)wanted->records * ((size_t)wanted->size_bytes + 64) : 0;
    size_t heads_room_bytes = head_room_bytes * (size_t)wanted->partitions;
    uint8_t *memory = app_keep(heads_room_bytes + body_room_bytes);
    if (memory == NULL) { return false; }
    struct replay_frames frames = {.kind = wanted->kind, .heads = memory};
    uint8_t *body = memory + heads_room_bytes;
    if (is_produce && !make_batch(wanted, body, body_room_bytes, &frames.body)) { return false; }
    struct writer w = {.at = memory};
    for (int64_t i = 0; i < wanted->partitions; i++) {
        size_t begin_at = w.used_bytes;
        int64_t partition = wanted->partition + i;
        switch (wanted->kind) {
        case REPLAY_PRODUCE: put_produce_head(&w, wanted, partition, frames.body.size_bytes); break;
        case REPLAY_FETCH: frames.offset_at = put_fetch(&w, wanted, partition) - begin_at; break;
        case REPLAY_METADATA: put_metadata(&w); break;
        }
        frames.head_bytes = w.used_bytes - begin_at;
        base_put_u32(memory + begin_at, (uint32_t)(frames.head_bytes + frames.body.size_bytes) - 4);
    }
    memmove(memory + w.used_bytes, body, frames.body.size_bytes);
    frames.body.at = memory + w.used_bytes;
    frames.record_count = is_produce ? wanted->records : 0;
    switch (wanted->kind) {
    case REPLAY_PRODUCE: /* length, correlation, topics, name, partitions, index; error, base offset */
        frames.error_at = 4 + 4 + 4 + 2 + name_bytes + 4 + 4;
        frames.answer_bytes = frames.error_at + 2 + 8;
        break;
    case REPLAY_FETCH: /* length, correlation, throttle, error, session, topics, name, partitions, index; error, ends, aborted */
        frames.error_at = 4 + 4 + 4 + 2 + 4 + 4 + 2 + name_bytes + 4 + 4;
        frames.answer_bytes = frames.error_at + 2 + 3 * 8 + 4 + 4 + 4;
        break;
    case REPLAY_METADATA: frames.answer_bytes = 4 + 4 + 4; break;
    }
    *frames_out = frames;
    return true;
}

void replay_set_offset(const struct replay_frames *frames, uint8_t *head, uint64_t offset)
{
    base_put_u64(head + frames->offset_at, offset);
}

/* ---- answers ---- */

/* `at` has answer_bytes. */
static bool take_head(struct replay_reader *reader, const struct replay_frames *frames, const uint8_t *at)
{
    uint64_t whole_bytes = (uint64_t)base_get_u32(at) + 4;
    if (whole_bytes < frames->answer_bytes || base_get_u32(at + 4) != CORRELATION) { return false; }
    reader->answer = (struct replay_answer){.size_bytes = whole_bytes};
    reader->left_bytes = whole_bytes - frames->answer_bytes;
    reader->records_bytes = 0;
    reader->skip_bytes = 0;
    if (frames->error_at > 0) { reader->answer.error = (int16_t)base_get_u16(at + frames->error_at); }
    if (frames->kind == REPLAY_PRODUCE) { reader->answer.base_offset = base_get_u64(at + frames->error_at + 2); }
    if (frames->kind == REPLAY_FETCH) {
        int16_t error = (int16_t)base_get_u16(at + FETCH_ERROR_AT);
        if (error != 0) { reader->answer.error = error; }
        const uint8_t *aborted_at = at + frames->error_at + 2 + 3 * 8;
        int32_t aborted_count = (int32_t)base_get_u32(aborted_at);
        int32_t records_bytes = (int32_t)base_get_u32(aborted_at + 8);
        if (reader->is_looking && aborted_count <= 0 && records_bytes > 0) {
            reader->records_bytes = base_min_u64((uint64_t)records_bytes, reader->left_bytes);
        }
    }
    reader->is_inside = true;
    return true;
}

/* `at` has BATCH_LOOKED bytes, and as many records are left. A batch that was cut off is passed over. */
static bool take_batch_head(struct replay_reader *reader, const uint8_t *at)
{
    uint64_t whole_bytes = (uint64_t)base_get_u32(at + REC_LENGTH_AT) + REC_LENGTH_PREFIX_BYTES;
    if (whole_bytes < REC_HEADER_BYTES) { return false; }
    if (whole_bytes <= reader->records_bytes) {
        reader->answer.next_offset =
            base_get_u64(at + REC_BASE_OFFSET_AT) + base_get_u32(at + REC_LAST_OFFSET_DELTA_AT) + 1;
    }
    reader->skip_bytes = base_min_u64(whole_bytes, reader->records_bytes);
    reader->records_bytes -= reader->skip_bytes;
    return true;
}

enum replay_read replay_read(struct replay_reader *reader, const struct replay_frames *frames, struct base_slice bytes,
                             size_t *taken_out)
{
    size_t at = 0;
    enum replay_read result = REPLAY_MORE;
    for (;;) {
        size_t here_bytes = bytes.size_bytes - at;
        if (!reader->is_inside) {
            if (here_bytes < frames->answer_bytes) { break; }
            if (!take_head(reader, frames, bytes.at + at)) {
                result = REPLAY_BAD;
                break;
            }
            at += frames->answer_bytes;
            continue;
        }
        if (reader->left_bytes == 0) {
            reader->is_inside = false;
            result = REPLAY_ANSWER;
            break;
        }
        if (reader->skip_bytes == 0 && reader->records_bytes >= BATCH_LOOKED) {
            if (here_bytes < BATCH_LOOKED) { break; }
            if (!take_batch_head(reader, bytes.at + at)) {
                result = REPLAY_BAD;
                break;
            }
        } else if (reader->skip_bytes == 0) {
            reader->skip_bytes = reader->left_bytes; /* what follows the records, or all when nobody looks for any */
            reader->records_bytes = 0;
        }
        size_t gone_bytes = (size_t)base_min_u64(reader->skip_bytes, here_bytes);
        reader->skip_bytes -= gone_bytes;
        reader->left_bytes -= gone_bytes;
        at += gone_bytes;
        if (at == bytes.size_bytes && reader->left_bytes > 0) { break; }
    }
    *taken_out = at;
    return result;
}
