/* judge.h: judges a whole history of clients: I1, I4, I8, I9, I20, I21, I22, I23.
 *
 * Room    sim/check. A pure function of the history.
 * Needs   a run as docs/formats/history.md says: what lives at the end is read whole by a final reader (final=1), records
 *         go by HISTORY_DELETE, HISTORY_TRIM and retention only, and a producer writes each (producer, sequence) once, rising in each partition.
 *
 *     I1   an acknowledged record (acks=all; acks=1, if it had time to be synced) is at its offset in every read of it, and in the final
 *          one; what is sent a while after the faults, without acks, is there
 *     I4   what was read at an offset is never different later, and never gone
 *     I8   the final read is dense from 0; a reader misses nothing; two acknowledged records have two offsets
 *     I9   an idempotent producer's records are there at most once, in order
 *     I20  nothing is read that nobody produced
 *     I21  every operation ended; what was asked after the faults stopped (final=1) succeeded
 *     I22  what failed definitely is never read
 *     I23  ListOffsets, Metadata, DescribeConfigs and DeleteRecords answer what the history allows; what records were deleted before stays the start
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHECK_JUDGE_H
#define CHECK_JUDGE_H

#include "history.h"
#include "report.h"

void judge_history(const struct history *history, struct check_report *report);

#endif
