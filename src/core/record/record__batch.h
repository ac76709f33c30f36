/* record__batch.h: a batch's header before it is trusted; private to record.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RECORD_RECORD__BATCH_H
#define RECORD_RECORD__BATCH_H

#include "record/record.h"

/* As rec_batch_view, but nothing is said about count and offsets: a wrong crc is the better answer when both are wrong. */
MUST_USE
enum rec_verdict rec__batch_read(struct base_slice bytes, struct rec_batch *batch_out);
/* REC_OK, REC_BAD_COUNT or REC_BAD_OFFSET_RANGE. */
MUST_USE
enum rec_verdict rec__batch_judge_range(const struct rec_batch *batch);

#endif
