/* record_reference.h: a second reader of record batches, slow and plain, to judge the room's by. It shares only the names of
 * places and fields with it; how they are read, and what makes a batch valid, is written here once more.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FUZZ_RECORD_REFERENCE_H
#define FUZZ_RECORD_REFERENCE_H

#include "record/record.h"

struct reference_records {
    int32_t count;
    int32_t first_delta;
    int64_t max_timestamp_ms;
    int32_t max_timestamp_delta; /* of the first that has it */
    bool is_dense;               /* 0, 1, 2, ... */
    bool has_bad_timestamp;      /* by the rules given */
    bool has_null_key;
};

/* The batch at the front. False: none that can be one. */
bool reference_batch(struct base_slice bytes, struct rec_batch *batch_out);
/* The records: as many as claimed, no byte more, offsets that rise inside of the batch. */
bool reference_records(const struct rec_batch *batch, struct base_slice records, struct reference_records *said_out);
/* What a produced batch must be. is_opened: `records` are what it opened to, within the limit. */
bool reference_validate(const struct rec_batch *batch, const struct rec_rules *rules, bool is_opened,
                        struct base_slice records, struct reference_records *said_out);

#endif
