/* format.c: see journal__format.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "journal__format.h"

#include "codec/codec.h"

enum {
    MAGIC_GROUP = 0x574a4731,   /* WJG1 */
    MAGIC_TRAILER = 0x574a5431, /* WJT1 */
    MAGIC_HEAD = 0x574a4331,    /* WJC1 */
    MAGIC_STATE = 0x574a5331,   /* WJS1 */
    MAGIC_END = 0x574a4531,     /* WJE1 */
    FORMAT_VERSION = 2,
    FORMAT_OLDEST = 1, /* the same without `cuts`: zeros stand there */
    FLAG_LINE = 1,
    FLAG_MORE = 2,
    FLAG_CLEAN = 1,
    FLAG_HAS_BYTES = 1,
};

/* Every structure ends with the CRC of what is before it. */
static void seal(uint8_t *at, size_t size_bytes)
{
    base_put_u32(at + size_bytes - 4, codec_crc32c(0, at, size_bytes - 4));
}

static bool is_sealed(const uint8_t *at, size_t size_bytes, uint32_t magic)
{
    return base_get_u32(at) == magic && base_get_u32(at + size_bytes - 4) == codec_crc32c(0, at, size_bytes - 4);
}

static bool is_version(uint16_t version) { return version >= FORMAT_OLDEST && version <= FORMAT_VERSION; }

void journal__put_head(uint8_t *at, const struct journal__head *head)
{
    CHECK(head->row_count <= JOURNAL__ROWS_MAX);
    CHECK(head->bytes % JOURNAL__PAGE_BYTES == 0);
    CHECK(head->line <= head->position);
    memset(at, 0, JOURNAL__HEAD_BYTES);
    base_put_u32(at, MAGIC_GROUP);
    base_put_u16(at + 4, FORMAT_VERSION);
    base_put_u16(at + 6, (uint16_t)((head->is_line ? FLAG_LINE : 0) | (head->is_more ? FLAG_MORE : 0)));
    memcpy(at + 8, head->id.b, sizeof head->id.b);
    base_put_u32(at + 24, head->life);
    base_put_u32(at + 28, head->row_count);
    base_put_u64(at + 32, head->sequence);
    base_put_u64(at + 40, head->position);
    base_put_u64(at + 48, head->bytes);
    base_put_u64(at + 56, head->line);
    base_put_u64(at + 64, head->checkpoint);
    base_put_u64(at + 72, head->payload_bytes);
    seal(at, JOURNAL__HEAD_BYTES);
}

bool journal__get_head(const uint8_t *at, struct base_uuid id, uint64_t position, uint64_t file_bytes,
                       struct journal__head *head_out)
{
    if (base_get_u32(at) != MAGIC_GROUP || base_get_u64(at + 40) != position) { return false; }
    if (!is_sealed(at, JOURNAL__HEAD_BYTES, MAGIC_GROUP) || !is_version(base_get_u16(at + 4))) { return false; }
    if (memcmp(at + 8, id.b, sizeof id.b) != 0) { return false; }
    struct journal__head head = {
        .id = id,
        .is_line = (base_get_u16(at + 6) & (FLAG_LINE | FLAG_MORE)) != 0,
        .is_more = (base_get_u16(at + 6) & FLAG_MORE) != 0,
        .life = base_get_u32(at + 24),
        .row_count = base_get_u32(at + 28),
        .sequence = base_get_u64(at + 32),
        .position = position,
        .bytes = base_get_u64(at + 48),
        .line = base_get_u64(at + 56),
        .checkpoint = base_get_u64(at + 64),
        .payload_bytes = base_get_u64(at + 72),
    };
    if (head.life > JOURNAL__LIFE_MAX || head.row_count > JOURNAL__ROWS_MAX) { return false; }
    if (head.sequence > JOURNAL__SEQUENCE_MAX || head.checkpoint > JOURNAL__SEQUENCE_MAX) { return false; }
    if (head.line > position || head.payload_bytes > file_bytes) { return false; }
    if (head.bytes != journal__group_bytes(head.row_count, head.payload_bytes)) { return false; }
    if (position % file_bytes + head.bytes > file_bytes) { return false; }
    *head_out = head;
    return true;
}

bool journal__is_any_head(const uint8_t *at) { return is_sealed(at, JOURNAL__HEAD_BYTES, MAGIC_GROUP); }

void journal__put_row(uint8_t *at, const struct journal__row *row, const struct journal__head *head)
{
    const struct journal_entry *entry = &row->entry;
    memset(at, 0, JOURNAL__ROW_BYTES);
    at[0] = entry->kind;
    at[1] = entry->has_bytes ? FLAG_HAS_BYTES : 0;
    base_put_u16(at + 2, entry->cuts);
    base_put_u32(at + 4, (uint32_t)entry->id.index);
    memcpy(at + 8, entry->id.topic.b, sizeof entry->id.topic.b);
    base_put_u64(at + 24, (uint64_t)entry->segment_base);
    base_put_u64(at + 32, entry->position_bytes);
    base_put_u64(at + 40, (uint64_t)entry->offset_base);
    base_put_u64(at + 48, (uint64_t)entry->offset_end);
    base_put_u32(at + 56, (uint32_t)entry->leader_epoch);
    base_put_u32(at + 60, entry->crc);
    base_put_u64(at + 64, entry->size_bytes);
    base_put_u64(at + 72, row->payload_at);
    base_put_u64(at + 80, head->sequence);
    base_put_u32(at + 88, head->life);
    base_put_u32(at + 92, codec_crc32c(0, at, 92));
}

bool journal__get_row(const uint8_t *at, const struct journal__head *head, struct journal__row *row_out)
{
    if (base_get_u32(at + 92) != codec_crc32c(0, at, 92)) { return false; }
    if (base_get_u64(at + 80) != head->sequence || base_get_u32(at + 88) != head->life) { return false; }
    struct journal__row row = {
        .entry = {.kind = at[0],
                  .has_bytes = (at[1] & FLAG_HAS_BYTES) != 0,
                  .cuts = base_get_u16(at + 2),
                  .id = {.index = (int32_t)base_get_u32(at + 4)},
                  .segment_base = (int64_t)base_get_u64(at + 24),
                  .position_bytes = base_get_u64(at + 32),
                  .offset_base = (int64_t)base_get_u64(at + 40),
                  .offset_end = (int64_t)base_get_u64(at + 48),
                  .leader_epoch = (int32_t)base_get_u32(at + 56),
                  .crc = base_get_u32(at + 60),
                  .size_bytes = base_get_u64(at + 64)},
        .payload_at = base_get_u64(at + 72),
    };
    memcpy(row.entry.id.topic.b, at + 8, sizeof row.entry.id.topic.b);
    if (row.entry.has_bytes) {
        uint64_t payload_end = journal__table_bytes(head->row_count) + head->payload_bytes;
        if (row.payload_at > payload_end || row.entry.size_bytes > payload_end - row.payload_at) { return false; }
    }
    *row_out = row;
    return true;
}

void journal__put_trailer(uint8_t *at, struct journal__trailer trailer)
{
    memset(at, 0, JOURNAL__TRAILER_BYTES);
    base_put_u32(at, MAGIC_TRAILER);
    base_put_u32(at + 4, trailer.copy_bytes);
    base_put_u64(at + 8, trailer.position);
    seal(at, JOURNAL__TRAILER_BYTES);
}

bool journal__get_trailer(const uint8_t *at, struct journal__trailer *trailer_out)
{
    if (!is_sealed(at, JOURNAL__TRAILER_BYTES, MAGIC_TRAILER)) { return false; }
    struct journal__trailer trailer = {.position = base_get_u64(at + 8), .copy_bytes = base_get_u32(at + 4)};
    if (trailer.copy_bytes < JOURNAL__HEAD_BYTES) { return false; }
    if (trailer.copy_bytes > journal__table_bytes(JOURNAL__ROWS_MAX)) { return false; }
    *trailer_out = trailer;
    return true;
}

void journal__put_ck_head(uint8_t *at, const struct journal__ck_head *head)
{
    memset(at, 0, JOURNAL__CK_HEAD_BYTES);
    base_put_u32(at, MAGIC_HEAD);
    base_put_u16(at + 4, FORMAT_VERSION);
    memcpy(at + 8, head->id.b, sizeof head->id.b);
    base_put_u32(at + 24, head->life);
    base_put_u64(at + 32, head->sequence);
    base_put_u64(at + 40, head->begin);
    base_put_u64(at + 48, head->begin_sequence);
    base_put_u64(at + 56, head->file_bytes);
    seal(at, JOURNAL__CK_HEAD_BYTES);
}

bool journal__get_ck_head(const uint8_t *at, struct journal__ck_head *head_out)
{
    if (!is_sealed(at, JOURNAL__CK_HEAD_BYTES, MAGIC_HEAD) || !is_version(base_get_u16(at + 4))) { return false; }
    struct journal__ck_head head = {
        .life = base_get_u32(at + 24),
        .sequence = base_get_u64(at + 32),
        .begin = base_get_u64(at + 40),
        .begin_sequence = base_get_u64(at + 48),
        .file_bytes = base_get_u64(at + 56),
    };
    memcpy(head.id.b, at + 8, sizeof head.id.b);
    if (head.life > JOURNAL__LIFE_MAX || head.sequence > JOURNAL__SEQUENCE_MAX) { return false; }
    if (head.file_bytes < JOURNAL__FILE_BYTES_MIN || head.file_bytes > JOURNAL__FILE_BYTES_MAX) { return false; }
    if (head.file_bytes % JOURNAL__PAGE_BYTES != 0 || head.begin % JOURNAL__PAGE_BYTES != 0) { return false; }
    if (head.begin / head.file_bytes > JOURNAL__NUMBER_MAX) { return false; }
    if (head.begin_sequence > JOURNAL__SEQUENCE_MAX) { return false; }
    *head_out = head;
    return true;
}

void journal__put_ck_state(uint8_t *at, const struct journal__ck_state *state)
{
    base_put_u32(at, MAGIC_STATE);
    base_put_u32(at + 4, state->size_bytes);
    base_put_u64(at + 8, state->sequence);
    base_put_u64(at + 16, state->index);
    base_put_u32(at + 24, state->crc);
    seal(at, JOURNAL__CK_STATE_BYTES);
}

bool journal__get_ck_state(const uint8_t *at, struct journal__ck_state *state_out)
{
    if (!is_sealed(at, JOURNAL__CK_STATE_BYTES, MAGIC_STATE)) { return false; }
    *state_out = (struct journal__ck_state){
        .size_bytes = base_get_u32(at + 4),
        .sequence = base_get_u64(at + 8),
        .index = base_get_u64(at + 16),
        .crc = base_get_u32(at + 24),
    };
    return true;
}

void journal__put_ck_end(uint8_t *at, const struct journal__ck_end *end)
{
    memset(at, 0, JOURNAL__CK_END_BYTES);
    base_put_u32(at, MAGIC_END);
    base_put_u32(at + 4, end->is_clean ? FLAG_CLEAN : 0);
    base_put_u64(at + 8, end->sequence);
    base_put_u64(at + 16, end->count);
    base_put_u64(at + 24, end->line);
    base_put_u32(at + 32, end->crc_all);
    seal(at, JOURNAL__CK_END_BYTES);
}

bool journal__get_ck_end(const uint8_t *at, struct journal__ck_end *end_out)
{
    if (!is_sealed(at, JOURNAL__CK_END_BYTES, MAGIC_END)) { return false; }
    *end_out = (struct journal__ck_end){
        .is_clean = (base_get_u32(at + 4) & FLAG_CLEAN) != 0,
        .sequence = base_get_u64(at + 8),
        .count = base_get_u64(at + 16),
        .line = base_get_u64(at + 24),
        .crc_all = base_get_u32(at + 32),
    };
    return true;
}

/* ---- names ---------------------------------------------------------------------------------------------------------- */

static const char checkpoint_names[2][16] = {"checkpoint-a.wj", "checkpoint-b.wj"};

void journal__name_file(struct base_text *text, uint64_t number)
{
    base_text_add(text, JOURNAL__DIR "/");
    base_text_add_u64_padded(text, number, 10);
    base_text_add(text, ".wj");
    CHECK(!text->is_cut);
}

void journal__name_checkpoint(struct base_text *text, uint32_t which)
{
    CHECK(which < 2);
    base_text_add(text, JOURNAL__DIR "/");
    base_text_add(text, checkpoint_names[which]);
    CHECK(!text->is_cut);
}

bool journal__is_file_name(struct base_slice name, uint64_t *number_out)
{
    if (name.size_bytes != 13 || memcmp(name.at + 10, ".wj", 3) != 0) { return false; }
    uint64_t number = 0;
    for (size_t i = 0; i < 10; i++) {
        if (name.at[i] < '0' || name.at[i] > '9') { return false; }
        number = number * 10 + (uint64_t)(name.at[i] - '0');
    }
    *number_out = number;
    return true;
}

bool journal__is_checkpoint_name(struct base_slice name, uint32_t *which_out)
{
    for (uint32_t which = 0; which < 2; which++) {
        if (base_slice_equal(name, base_slice_text(checkpoint_names[which]))) {
            *which_out = which;
            return true;
        }
    }
    return false;
}
