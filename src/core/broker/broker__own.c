/* broker__own.c: the node's own logs, of the metadata and of the coordinators: opened, read from their start, appended to, their start
 * moved up to a snapshot. What they are called and how they are made is fixed, so the journal's word for it may get lost.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker__.h"

#define READ_BYTES ((uint32_t)1 << 20)

static const struct plog_log_config own_config = {.segment_ms = UINT64_MAX,
                                                  .index_interval_bytes = 4096,
                                                  .index_bytes_max = 1 << 20,
                                                  .retention_ms = -1,
                                                  .retention_bytes = -1,
                                                  .flush_messages = UINT64_MAX,
                                                  .flush_ms = UINT64_MAX,
                                                  .is_metadata = true};

static const char *name_of(struct base_part id)
{
    if (base_part_equal(id, metadata_part())) { return "__cluster_metadata"; }
    return is_coordinator_part(id) ? "__coordinator" : NULL;
}

bool is_own_part(struct base_part id) { return name_of(id) != NULL; }

static struct plog_log_config config_of_own(const struct broker *broker)
{
    struct plog_log_config config = own_config;
    config.segment_bytes = broker->config.own_segment_bytes;
    return config;
}

/* With segment, position and offset 0 nothing of the log came before it, whatever else the journal lost. */
static bool is_first_entry(const struct plog_run *run, struct base_slice bytes)
{
    if (run->segment_base != 0 || run->position_bytes != 0 || run->offset_base != 0) { return false; }
    return run->change == 0 || (run->change == PLOG_CHANGE_SEGMENT && bytes.size_bytes == 0);
}

enum base_rc own_log_replays(struct broker *broker, const struct plog_run *run, struct base_slice bytes,
                             struct port_out *out)
{
    bool is_known = plog_find(broker->plog, run->id).generation != 0;
    if (is_known || !is_own_part(run->id) || !is_first_entry(run, bytes)) { return BASE_OK; }
    struct plog_log_config config = config_of_own(broker);
    struct plog_ref ref;
    enum base_rc rc = plog_open(broker->plog, run->id, base_slice_text(name_of(run->id)), &config, -1, &ref);
    if (rc != BASE_OK) { return rc; }
    struct base_text text;
    port_log_begin(out, &text);
    base_text_add(&text, name_of(run->id));
    base_text_add(&text, "-");
    base_text_add_i64(&text, run->id.index);
    base_text_add(&text, ": the entry of the journal that says how it was made is damaged, and not needed");
    port_log_end(out, PORT_ERROR, "broker", &text);
    return BASE_OK;
}

enum base_rc own_log_open(struct broker *broker, struct base_part id, struct own_log *log_out)
{
    CHECK(is_own_part(id));
    struct own_log log = {.epoch = 1};
    struct plog_ref known = plog_find(broker->plog, id);
    struct plog_view view;
    if (known.generation != 0) {
        plog_view(broker->plog, known, &view);
        log.epoch = view.leader_epoch + 1;
    }
    struct plog_log_config config = config_of_own(broker);
    enum base_rc rc = plog_open(broker->plog, id, base_slice_text(name_of(id)), &config, log.epoch, &log.ref);
    if (rc != BASE_OK) { return rc; }
    plog_view(broker->plog, log.ref, &view);
    log.next = view.offset_start;
    *log_out = log;
    return BASE_OK;
}

static uint32_t take_op(struct broker *broker, enum back_op_kind kind, uint32_t number)
{
    return back_take_op(broker, kind, (struct asker){.slot = number});
}

enum base_rc own_log_read(struct broker *broker, const struct own_log *log, enum back_op_kind kind, uint32_t number,
                          struct port_out *out)
{
    uint32_t op = take_op(broker, kind, number);
    if (op == BASE_POOL_NONE) { return BASE_FULL; }
    struct plog_read read = {.token = (uint64_t)op + 1,
                             .offset = log->next,
                             .bytes_max = READ_BYTES,
                             .takes_oversized_first = true};
    enum base_rc rc = plog_read_bytes(broker->plog, log->ref, &read, out);
    if (rc != BASE_OK) { base_pool_give(&broker->back_ops, op); }
    return rc;
}

enum base_rc own_log_append(struct broker *broker, const struct own_log *log, enum back_op_kind kind, uint32_t number,
                            struct base_slice batch, struct port_out *out)
{
    uint32_t op = take_op(broker, kind, number);
    if (op == BASE_POOL_NONE) { return BASE_FULL; }
    struct plog_append append = {.token = (uint64_t)op + 1,
                                 .batches = unconst(batch.at),
                                 .size_bytes = (uint32_t)batch.size_bytes,
                                 .leader_epoch = log->epoch};
    enum base_rc rc = plog_append(broker->plog, log->ref, &append, out);
    if (rc != BASE_OK) { base_pool_give(&broker->back_ops, op); }
    return rc;
}

void own_log_move_start(struct broker *broker, const struct own_log *log, enum back_op_kind kind, int64_t offset,
                        struct port_out *out)
{
    uint32_t op = take_op(broker, kind, 0);
    if (op == BASE_POOL_NONE) { return; }
    if (plog_move_start(broker->plog, log->ref, (uint64_t)op + 1, offset, out) != BASE_OK) {
        base_pool_give(&broker->back_ops, op);
    }
}

bool own_log_has_grown(const struct broker *broker, const struct own_log *log, struct grown *grown, uint64_t by_bytes)
{
    uint64_t size_bytes = plog_size_bytes(broker->plog, log->ref);
    grown->from_bytes = base_min_u64(grown->from_bytes, size_bytes);
    return size_bytes - grown->from_bytes >= grown->held_bytes + by_bytes;
}

void own_log_written_anew(const struct broker *broker, const struct own_log *log, struct grown *grown,
                          uint64_t held_bytes)
{
    struct plog_view view;
    plog_view(broker->plog, log->ref, &view);
    *grown = (struct grown){.held_bytes = held_bytes, .from_bytes = view.size_bytes};
}

bool records_next(struct applying *applying, struct rec_record *record_out)
{
    for (;;) {
        if (applying->has_batch && rec_walk_next(&applying->walk, record_out) == REC_OK) { return true; }
        applying->has_batch = false;
        struct rec_batch batch;
        if (rec_batch_next(&applying->rest, &batch) != REC_OK) { return false; }
        applying->offset_end = rec_offset_end(&batch);
        struct base_slice records;
        struct base_arena none;
        base_arena_init(&none, NULL, 0);
        if (rec_is_control(&batch) || rec_open(&batch, 0, &none, &records) != REC_OK) { continue; }
        rec_walk_init(&applying->walk, &batch, records);
        applying->has_batch = true;
    }
}
