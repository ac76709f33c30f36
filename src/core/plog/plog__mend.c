/* plog__mend.c: a segment's file that is shorter than what is known of it, before a replayed run is written behind its end.
 *
 * Room    core/plog.
 * Why     with that write the file is as long as it should be, and until the next checkpoint nothing else says that there is a hole in
 *         it. So the batch that the file breaks off in loses its header first, and durably: no start takes it for a whole one.
 *
 *   WALK (from header to header, to the batch that the file breaks off in) -> WIPE (its header) -> SYNC -> DONE
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "plog__.h"

_Static_assert(PLOG__OWNER_BYTES >= REC_HEADER_BYTES, "a header is read to where the directory's owner was");

static const uint8_t zeros[REC_HEADER_BYTES];

bool plog__mend_is_due(const struct plog__file *file, const struct plog__segment *segment)
{
    return plog__segment_is_damaged(segment) && file->size_at_open < segment->damage_to;
}

static uint64_t wiped_to(const struct plog__replay *replay, const struct plog__file *file)
{
    return base_min_u64(replay->mend_at + REC_HEADER_BYTES, file->size_at_open);
}

bool plog__mend_step(struct plog *plog, struct plog__log *log, struct port_out *out)
{
    struct plog__replay *replay = &log->replay;
    struct plog__file *file = plog__file_of(plog, &log->writer);
    struct plog__segment *segment = plog__segment_last(log);
    if (replay->mend == PLOG__MEND_WALK && replay->mend_at + REC_HEADER_BYTES > file->size_at_open) {
        replay->mend = replay->mend_at < file->size_at_open ? PLOG__MEND_WIPE : PLOG__MEND_DONE;
    }
    switch (replay->mend) {
    case PLOG__MEND_WALK: {
        struct port_effect *effect = plog__replay_ask(plog, log, out, PORT_READ);
        effect->position_bytes = replay->mend_at + replay->window_bytes;
        effect->buffer = log->owner + replay->window_bytes;
        effect->size_bytes = REC_HEADER_BYTES - replay->window_bytes;
        return false;
    }
    case PLOG__MEND_WIPE: {
        uint64_t from = replay->mend_at + replay->window_bytes;
        replay->piece =
            (struct port_piece){.kind = PORT_MEMORY, .at = zeros, .size_bytes = wiped_to(replay, file) - from};
        struct port_effect *effect = plog__replay_ask(plog, log, out, PORT_WRITE);
        effect->where = PORT_ON_SHARD;
        effect->position_bytes = from;
        effect->pieces = &replay->piece;
        effect->piece_count = 1;
        return false;
    }
    case PLOG__MEND_SYNC: (void)plog__replay_ask(plog, log, out, PORT_SYNC); return false;
    case PLOG__MEND_DONE: break;
    }
    if (replay->mend_at < segment->damage_from) {
        plog__segment_damage(log, segment, replay->mend_at, segment->damage_to);
    }
    file->size_at_open = segment->damage_to; /* what is missing is accounted for */
    return true;
}

/* What is known of a batch: it goes on at the next header, or is the one that the file breaks off in. */
static void walk(struct plog__log *log, const struct plog__segment *segment, uint64_t file_bytes)
{
    struct plog__replay *replay = &log->replay;
    struct plog__head head;
    if (!plog__head_read(log->owner, segment->base, &head)) { /* no reader gets past it either */
        replay->mend = PLOG__MEND_DONE;
        replay->mend_at = file_bytes;
    } else if (head.size_bytes > file_bytes - replay->mend_at) {
        replay->mend = PLOG__MEND_WIPE;
    } else {
        replay->mend_at += head.size_bytes;
    }
}

bool plog__mend_asked(struct plog *plog, struct plog__log *log, uint64_t count)
{
    struct plog__replay *replay = &log->replay;
    const struct plog__file *file = plog__file_of(plog, &log->writer);
    if (replay->mend == PLOG__MEND_SYNC) {
        replay->mend = PLOG__MEND_DONE;
        return true;
    }
    uint64_t whole_bytes =
        replay->mend == PLOG__MEND_WALK ? REC_HEADER_BYTES : wiped_to(replay, file) - replay->mend_at;
    if (count == 0) { return false; }
    replay->window_bytes += base_min_u64(count, whole_bytes - replay->window_bytes);
    if (replay->window_bytes < whole_bytes) { return true; }
    replay->window_bytes = 0;
    if (replay->mend == PLOG__MEND_WIPE) {
        replay->mend = PLOG__MEND_SYNC;
    } else {
        walk(log, plog__segment_last(log), file->size_at_open);
    }
    return true;
}
