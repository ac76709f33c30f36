/* plog__birth.c: logs that no state knows: how an entry of the journal makes one, and those whose first entry is nowhere to be found.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

#define BIRTH_VERSION    1u
#define BIRTH_HEAD_BYTES 8u

enum { BIRTH_PAGE_CACHE = 1, BIRTH_METADATA = 2, BIRTH_MARK_TOLD = 4 };

/* ---- the birth block: how to make a log that no state knows ---- */

void plog__birth_write(struct plog__log *log)
{
    log->birth[0] = BIRTH_VERSION;
    log->birth[1] =
        (uint8_t)((log->config.is_page_cache ? BIRTH_PAGE_CACHE : 0) | (log->config.is_metadata ? BIRTH_METADATA : 0) |
                  (log->config.is_mark_told ? BIRTH_MARK_TOLD : 0));
    base_put_u32(log->birth + 2, log->config.index_interval_bytes);
    base_put_u16(log->birth + 6, log->name_bytes);
    memcpy(log->birth + BIRTH_HEAD_BYTES, log->name, log->name_bytes);
    log->birth_bytes = (uint16_t)(BIRTH_HEAD_BYTES + log->name_bytes);
    log->birth_piece = (struct port_piece){.kind = PORT_MEMORY, .at = log->birth, .size_bytes = log->birth_bytes};
}

static bool is_birth(struct base_slice birth)
{
    return birth.size_bytes >= BIRTH_HEAD_BYTES && birth.at[0] == BIRTH_VERSION &&
           base_get_u16(birth.at + 6) == birth.size_bytes - BIRTH_HEAD_BYTES;
}

enum base_rc plog__be_born(struct plog *plog, struct base_part id, struct base_slice birth, struct plog__log **log_out)
{
    if (!is_birth(birth)) { return BASE_BAD; }
    size_t name_bytes = base_get_u16(birth.at + 6);
    struct plog__log *log;
    enum base_rc rc = plog__log_make(plog, id, base_slice_of(birth.at + BIRTH_HEAD_BYTES, name_bytes), &log);
    if (rc != BASE_OK) { return rc; }
    log->is_restored = true;
    log->config.is_page_cache = (birth.at[1] & BIRTH_PAGE_CACHE) != 0;
    log->config.is_metadata = (birth.at[1] & BIRTH_METADATA) != 0;
    log->config.is_mark_told = (birth.at[1] & BIRTH_MARK_TOLD) != 0;
    log->config.index_interval_bytes = base_get_u32(birth.at + 2);
    plog__birth_write(log);
    *log_out = log;
    return BASE_OK;
}

/* A log without records may have changed how its rounds become durable (take_config): its next segment says how they do. */
void plog__be_born_anew(struct plog *plog, struct plog__log *log, const struct plog_run *run, struct base_slice birth)
{
    bool is_page_cache = is_birth(birth) && (birth.at[1] & BIRTH_PAGE_CACHE) != 0;
    int64_t start = base_max_i64(log->offset_start, log->start_replayed);
    if (!is_birth(birth) || is_page_cache == log->config.is_page_cache || start < run->segment_base) { return; }
    plog__waits_end(plog, log, 0, INT64_MAX);
    for (struct plog__segment *first = plog__segment_first(log); first != NULL; first = plog__segment_first(log)) {
        plog__segment_doom(plog, log, first, log->config.delete_delay_ms);
    }
    plog__start_apply(plog, log, start);
    log->config.is_page_cache = is_page_cache;
    plog__birth_write(log);
}

/* ---- orphans: logs whose entries were replayed, and what made them was not ----
 *
 * No more of them than there is room for logs are innocent: each was there when the checkpoint began, and gone before it was captured. */

static uint32_t orphan_at(const struct plog *plog, struct base_part id)
{
    uint64_t hash = base_part_hash(id);
    for (uint32_t at = base_map_first(&plog->by_orphan, hash); at != BASE_MAP_NONE;
         at = base_map_next(&plog->by_orphan, hash, at)) {
        uint32_t index = base_map_value(&plog->by_orphan, at);
        if (base_part_equal(plog->orphans[index], id)) { return index; }
    }
    return PLOG__NONE;
}

bool plog__is_orphan(const struct plog *plog, struct base_part id) { return orphan_at(plog, id) != PLOG__NONE; }

bool plog__orphan_note(struct plog *plog, const struct plog_run *run)
{
    bool is_lost = run->change != PLOG_CHANGE_GONE && run->change != PLOG_CHANGE_START;
    if (!is_lost || plog__is_orphan(plog, run->id)) { return is_lost; }
    uint32_t index = plog->by_orphan.count;
    if (base_map_insert(&plog->by_orphan, base_part_hash(run->id), index) != BASE_OK) {
        plog->has_lost_entries = true; /* of which log, nobody remembers */
        return true;
    }
    plog->orphans[index] = run->id;
    return true;
}

void plog__orphan_forget(struct plog *plog, struct base_part id)
{
    uint32_t index = orphan_at(plog, id);
    if (index == PLOG__NONE) { return; }
    uint32_t last = plog->by_orphan.count - 1;
    base_map_remove(&plog->by_orphan, base_part_hash(id), index);
    if (index == last) { return; }
    base_map_remove(&plog->by_orphan, base_part_hash(plog->orphans[last]), last);
    enum base_rc rc = base_map_insert(&plog->by_orphan, base_part_hash(plog->orphans[last]), index);
    CHECK(rc == BASE_OK); /* two went */
    plog->orphans[index] = plog->orphans[last];
}
