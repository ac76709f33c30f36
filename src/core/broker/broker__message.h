/* broker__message.h: what fronts, backs and shard 0's services say to each other: flat words, one loan at most.
 *
 * Room    core/broker, private.
 * Rule    every asking message is answered by exactly one, so whoever asked can count; what is lent is given back by it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BROKER_MESSAGE_H
#define BROKER_MESSAGE_H

#include "base/base.h"
#include "port/port.h"

enum message_kind {
    /* front asks back; words 0-2 the partition, 3-4 the asker (struct asker) */
    MSG_APPEND = 1, /* lent: one record batch; 5: flags -> MSG_APPENDED, after MSG_WRITTEN if asked for */
    MSG_WRITTEN,    /* 0-1 asker, 2 base offset, 3 append time, 4 log start */
    MSG_APPENDED, /* 0-1 asker, 2 base offset, 3 append time, 4 log start, 5 error | verdict << 16, 6 bad record index */
    MSG_READ,     /* 5 offset, 6 bytes_max, 7 current leader epoch asked for -> MSG_READ_DONE */
    MSG_READ_DONE, /* 0-1 asker, 2 error, 3 watermark, 4 log start, 5 file shard | slot << 32, 6 file generation, 7 position,
                          8 size, 9 lease, 10 first batch size, 11 leader epoch, 12 busy */
    MSG_RELEASE, /* 0 lease: the loan of a range ends, 1-3 of which partition, 4 how much of it was in an answer; no answer */
    MSG_TIME,           /* 5 timestamp or special, 6 current leader epoch asked for -> MSG_TIME_DONE */
    MSG_TIME_DONE,      /* 0-1 asker, 2 error, 3 offset, 4 timestamp, 5 leader epoch */
    MSG_DELETE,         /* 5 offset, -1 the watermark: what is before it goes -> MSG_DELETED */
    MSG_DELETED,        /* 0-1 asker, 2 error, 3 log start */
    MSG_SIZE,           /* -> MSG_SIZE_DONE */
    MSG_SIZE_DONE,      /* 0-1 asker, 2 error, 3 bytes */
    MSG_PRODUCERS,      /* lent: struct producers_page, filled in -> MSG_PRODUCERS_DONE */
    MSG_PRODUCERS_DONE, /* 0-1 asker, 2 error */
    MSG_EPOCH,          /* 5 epoch, 6 current leader epoch asked for -> MSG_EPOCH_DONE */
    MSG_EPOCH_DONE,     /* 0-1 asker, 2 error, 3 epoch, 4 its end offset */
    MSG_WATCH,          /* 5 offset: MSG_WOKE once the watermark is past it; no answer before */
    MSG_UNWATCH,        /* 3-4 asker: no MSG_WOKE is wanted any more (one may be under way) */
    MSG_WOKE,           /* 0-1 asker, 2: there is no room to watch (1), look again a little later */
    /* front asks the controller on shard 0 */
    MSG_CONTROL,    /* lent: struct control_loan -> MSG_CONTROLLED */
    MSG_CONTROLLED, /* 0-1 asker */
    /* front asks the coordinator of a group */
    MSG_GROUP,      /* lent: struct group_loan -> MSG_GROUPED */
    MSG_GROUPED,    /* 0-1 asker */
    MSG_GROUP_GIVE, /* lent: the block of an answer, to the shard whose it is; no answer */
    /* front tells the shard that counts an address; see broker__addresses.c */
    MSG_OPENED,    /* 0-1 address, 2 connection; no answer, or MSG_TURN_AWAY */
    MSG_GONE,      /* 0-1 address; no answer */
    MSG_TURN_AWAY, /* 0-1 address, 2 connection, 3 how many it may have */
    /* front asks the shard of a fetch session */
    MSG_SESSION,       /* 0: enum session_word, lent: struct session_loan -> MSG_SESSION_DONE */
    MSG_SESSION_DONE,  /* 0-1 asker */
    MSG_SESSION_END,   /* lent: the list, to the shard whose it is; no answer */
    MSG_SESSION_CLOSE, /* 0 id; no answer */
    /* shard 0 tells every shard what was committed */
    MSG_DELTA, /* lent: batches of the metadata log -> MSG_DELTA_TAKEN */
    MSG_DELTA_TAKEN,
    MSG_LEVELS, /* of log lines, a byte each; -> MSG_LEVELS_TAKEN */
    MSG_LEVELS_TAKEN,
    /* back asks the journal on shard 0 */
    MSG_JOURNAL,     /* struct plog_run in words (put_run), lent: its pieces -> MSG_JOURNALLED */
    MSG_JOURNALLED,  /* 0 run token, 1 port_rc */
    MSG_HOLD,        /* to every shard, 0: enum hold, 1: the journal waits for a checkpoint to make room; no answer */
    MSG_GIVE_HANDLE, /* to every shard: the journal lacks one -> MSG_HANDLE_COMES, where a file is closed for it */
    MSG_HANDLE_COMES,
    MSG_DISK_FAILED, /* to every shard; no answer */
    MSG_BACK_FAILED, /* a back's segment sync failed: to shard 0; no answer */
    MSG_BACK_FULL,   /* a back's disk had no room: to shard 0; no answer */
    /* recovery: shard 0 tells backs */
    MSG_RESTORE,      /* lent: a state -> MSG_TAKEN */
    MSG_REPLAY,       /* a run in words, lent: its bytes, or none -> MSG_TAKEN */
    MSG_TAKEN,        /* 0: enum plog_result: what could not be taken ends the start */
    MSG_DAMAGE,       /* 0-2 partition; all zero: any; no answer */
    MSG_RECOVERY_END, /* 0: enum plog_last_stop -> MSG_RECOVERED */
    MSG_RECOVERED, /* 0: some log of it may lack its end (1), 1: enum plog_result: what keeps the start from going on */
    MSG_RAISE,     /* once the image is loaded, 0: cursor (0 first) -> MSG_RAISED */
    MSG_RAISED, /* lent until the next MSG_RAISE: ids of logs that may lack their end; 0: the next cursor, RAISE_END; 1: how many */
    MSG_SERVE,   /* 0..: the ports bound by shard 0, 12: logs that the metadata does not know stay (1) -> MSG_SERVING */
    MSG_SERVING, /* 0: port_rc, 1: which listener could not be had */
    /* checkpoint */
    MSG_CHECKPOINT, /* to every back -> any number of MSG_STATE, then MSG_STATES_END */
    MSG_STATE,      /* lent: a state -> MSG_STATE_TAKEN */
    MSG_STATE_TAKEN,
    MSG_STATES_END,
    MSG_CHECKPOINTED,    /* to every back: it is whole, and the newest; no answer */
    MSG_WANT_CHECKPOINT, /* a back's: an append waits for one; no answer */
    /* stop */
    MSG_DRAIN, /* to every shard: its front takes no more; -> MSG_DRAINED */
    MSG_DRAINED,
    MSG_CLOSE, /* to every back: close files -> MSG_CLOSED */
    MSG_CLOSED,
    MSG_END, /* to every shard: the node has stopped */
};

/* What the backs do with appends: take them, keep them until the journal, near its limit, has room, or refuse them on a full disk. */
enum hold { HOLD_NOT = 0, HOLD_WAIT, HOLD_REFUSE };

/* Who asked: a request of a front, one of its parts, and the round (a request that asks again must not hear old answers). */
struct asker {
    uint32_t slot;
    uint32_t generation;
    uint32_t part;
    uint32_t shard;
};

static inline void put_asker(struct port_message *m, unsigned at, struct asker asker)
{
    m->words[at] = (uint64_t)asker.slot << 32 | asker.generation;
    m->words[at + 1] = (uint64_t)asker.part << 32 | asker.shard;
}

static inline struct asker get_asker(const struct port_message *m, unsigned at)
{
    return (struct asker){.slot = (uint32_t)(m->words[at] >> 32),
                          .generation = (uint32_t)m->words[at],
                          .part = (uint32_t)(m->words[at + 1] >> 32),
                          .shard = (uint32_t)m->words[at + 1]};
}

static inline void put_part(struct port_message *m, unsigned at, struct base_part part)
{
    m->words[at] = base_get_u64(part.topic.b);
    m->words[at + 1] = base_get_u64(part.topic.b + 8);
    m->words[at + 2] = (uint64_t)(uint32_t)part.index;
}

static inline struct base_part get_part(const struct port_message *m, unsigned at)
{
    struct base_part part;
    base_put_u64(part.topic.b, m->words[at]);
    base_put_u64(part.topic.b + 8, m->words[at + 1]);
    part.index = (int32_t)(uint32_t)m->words[at + 2];
    return part;
}

/* The id of the logs of the coordinators: __coordinator-K. */
static inline struct base_part coordinator_part(uint32_t number)
{
    struct base_part part = {.index = (int32_t)number};
    part.topic.b[15] = 2;
    return part;
}

/* The id of the cluster metadata's log, __cluster_metadata-0 (KRaft). It lives on shard 0. */
static inline struct base_part metadata_part(void)
{
    struct base_part part = {.index = 0};
    part.topic.b[15] = 1;
    return part;
}

#endif
