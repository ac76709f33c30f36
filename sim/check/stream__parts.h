/* stream__parts.h: the parts of a stream checker: what is synced (stream_disk.c), what was asked and answered (stream_tap.c).
 *
 * Room    sim/check, private.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STREAM_PARTS_H
#define STREAM_PARTS_H

#include "grow.h"
#include "record/record.h"
#include "stream.h"

/* ---- files, writes, syncs ---- */

struct stream_batch { /* of a segment, where it was written last */
    uint64_t position, size_bytes;
    int64_t offset, offset_end;
    int64_t timestamp_max;
};

struct stream_path { /* one file, whatever name it has */
    char *name;      /* NULL: unlinked */
    bool is_journal;
    bool is_opened;      /* in this life */
    uint64_t refused_ns; /* when the host had no handle for it last, by the node's clock; 0: not in this life */
    bool is_born;        /* a segment: a row of the journal has named it, of group born_by */
    uint32_t born_by;
    uint64_t written_end;         /* as above */
    int64_t asked_end;            /* of a segment: past the last batch that was ever written to it */
    bool is_cut;                  /* ... since the last write, of a page-cache log */
    struct stream_batch *batches; /* of a segment, by position */
    uint32_t batch_count, batch_room;
};

struct stream_open {
    struct port_file id;
    uint32_t path;
    bool is_used;
};

enum stream_write_state {
    WRITE_ASKED = 0,
    WRITE_DONE,
    WRITE_POISONED
}; /* POISONED: a sync that should have covered it failed */
struct stream_write {
    enum stream_write_state state;
    uint32_t path;
    struct port_file file;
    uint64_t token;
    uint64_t from, to;
    uint64_t done_sequence;
    uint64_t done_ns;    /* of the node's clock; UINT64_MAX: in another life */
    int64_t offset_base; /* of a segment: the first batch's */
    int64_t offset_end;  /* of a segment: past its last batch */
    bool is_stray;       /* a start found the log to end before it */
};

struct stream_sync {
    uint32_t path;
    struct port_file file;
    uint64_t token;
    uint64_t covers; /* writes with a done_sequence up to here */
};

struct stream_group { /* of the journal */
    uint32_t path;
    uint64_t from, to;
    uint64_t synced_bytes;
    uint64_t number; /* life and sequence */
    bool is_lost;    /* to a crash, unless a start finds it: that writes it again */
};

struct stream_row {
    uint8_t kind; /* 0: a run; 2: a truncation */
    int64_t offset_base, offset_end;
    uint32_t group;
};

#define STREAM_RULES_MAX 16
struct stream_rule { /* of a topic's retention; -1: none */
    char topic[32];
    int64_t bytes, age_ms;
};

#define STREAM_MARKS 8
struct stream_mark {
    int64_t watermark;
    uint64_t at_ns; /* of the node's clock */
};

struct stream_log {
    struct base_part id;
    char name[256];
    struct stream_row *rows; /* not yet durable, and a few that are */
    uint32_t row_count, row_room, rows_durable;
    int64_t synced_end;
    int64_t synced_max;                     /* the highest ever: what was read before a deletion may be told after it */
    int64_t watermark;                      /* the highest ever */
    int64_t watermark_now;                  /* as last seen */
    struct stream_mark marks[STREAM_MARKS]; /* its last rises, the newest at mark_count - 1 modulo their number */
    uint64_t mark_count;
    int64_t offset_start, offset_end;
    int32_t leader_epoch;
    uint64_t start_since_ns; /* when offset_start was seen first; UINT64_MAX: not in this life */
    int64_t floor;           /* of a page-cache log: what the crashes since it was seen must have left */
    int64_t start_named;     /* the highest start that a row of the journal ever named */
    int64_t start_decided;   /* the highest that was on its way: a checkpoint may have it before its row is there */
    int64_t start_asked;     /* the highest that a client may have asked for */
    bool is_known;           /* the broker had it */
    bool is_there;           /* since this boot began to serve */
    bool is_seen;            /* ... and was whole once, so that what was recovered of it is judged */
    bool may_go;             /* its topic is being deleted */
    bool is_page_cache;
    int64_t flush_messages; /* of a page-cache log; 0: none */
    uint64_t flush_ms;      /* the same */
    int64_t recovered_end;  /* what was below it when the node began to serve may have been sent before */
    bool is_told;           /* a breach was reported; once is enough */
    bool is_hurt;           /* failed or damaged when last seen */
    uint64_t going_ns;      /* when its deletion was asked for first, in this life; 0: it was not */
    uint64_t gone_ns;       /* when that was answered; 0: it was not */
};

/* ---- fetch sessions ---- */

struct stream_followed {
    struct base_part id;
    int64_t offset;               /* as it was asked for last */
    int32_t bytes_max;            /* the same */
    int64_t watermark, log_start; /* as they were told last; -1 */
    int16_t error;
    bool is_told; /* by the answer at hand */
};
struct stream_session {
    bool is_used;
    int32_t id;
    int32_t epoch;        /* that is next */
    uint32_t asked_count; /* fetches that go on with it, not answered */
    struct stream_followed *followed;
    uint32_t count, room;
};
struct stream_fetch { /* a fetch that opens a session, or goes on with one */
    int32_t session;
    int32_t epoch;
    uint64_t asked_ns;
    bool is_counted;
    struct stream_followed *items;
    struct base_part *gone;
    uint32_t item_count, item_room, gone_count, gone_room;
};

/* ---- connections ---- */

#define STREAM_WANTED 16
struct stream_question {
    int32_t correlation;
    int16_t api_key;
    int16_t version;
    int16_t acks;
    bool is_after_silent; /* a Produce with acks=0 stands before it, which no answer tells the end of */
    /* of a fetch (of ListOffsets: a time stands where the offset does): */
    uint64_t asked_ns;
    uint64_t wait_ns; /* 0: how long it waits is not judged */
    uint64_t late_ns; /* what is too late */
    int32_t min_bytes, max_bytes;
    bool has_any; /* it asks for some partition */
    struct stream_wanted {
        struct base_part id;
        int64_t offset;
        int32_t bytes_max;               /* of its own; -1: not known */
        int64_t offset_start, watermark; /* as they were then; 0: nothing is known */
        bool is_named;                   /* by the request, once, and not by its session alone */
    } wanted[STREAM_WANTED];
    uint32_t wanted_count;
    struct stream_fetch *fetch; /* NULL: nothing of sessions */
};

struct stream_bytes {
    uint8_t *at;
    size_t used_bytes, room_bytes;
};

struct stream_conn {
    uint32_t shard;
    uint64_t number; /* no other ever had it */
    struct port_conn id;
    bool is_used;
    bool is_ignored; /* what it said was not Kafka's */
    struct stream_bytes asked, answered;
    struct stream_question *questions;
    uint32_t question_first, question_count, question_room;
    uint64_t answered_ns; /* the last one that was answered */
    bool is_silent;       /* a Produce with acks=0 was asked since the last question */
};

struct stream_wish { /* a number of partitions that somebody asked for */
    char topic[32];
    int32_t count;
};

struct stream_sent {   /* a batch that was produced */
    uint64_t hash;     /* of what no broker changes */
    uint64_t line;     /* its connection and partition */
    bool is_ambiguous; /* sent more than once before it was written */
    bool is_written, is_judged;
    int64_t offset; /* where it was written first, and of which log */
    uint64_t folder_hash;
};

struct check_stream {
    struct check_report *report;
    struct check_stream_counts counts;
    struct stream_path *paths;
    uint32_t path_count, path_room;
    struct stream_open *opens;
    uint32_t open_count, open_room;
    struct stream_write *writes;
    uint32_t write_count, write_room;
    struct stream_sync *syncs;
    uint32_t sync_count, sync_room;
    struct stream_group *groups;
    uint32_t group_count, group_room;
    struct stream_log *logs;
    uint32_t log_count, log_room;
    uint32_t log_next; /* where the next one that is asked for may stand */
    struct stream_conn *conns;
    uint32_t conn_count, conn_room;
    uint64_t conn_last;       /* its number */
    struct stream_sent *sent; /* in the order of the node's events */
    uint32_t sent_count, sent_room;
    struct stream_wish *wishes;
    uint32_t wish_count, wish_room;
    struct stream_session *sessions;
    uint32_t session_count, session_room;
    uint64_t sequence;
    bool is_rotten;
    bool has_lost_rows;               /* as it told */
    bool is_stopping;                 /* it was told to */
    uint64_t now_ns;                  /* of the node's clock */
    int64_t wall_ms;                  /* its wall clock */
    int64_t wall_min_ms, wall_max_ms; /* the least and the furthest that it ever stood */
    uint64_t late_ns;
    int32_t fetch_bytes_max; /* that the broker puts into an answer */
    struct stream_rule rules[STREAM_RULES_MAX];
    uint32_t rule_count;
    uint8_t *scratch;
};
#define STREAM_SCRATCH_BYTES ((size_t)1 << 20)

struct stream_log *stream__find_log(const struct check_stream *stream, struct base_part id); /* NULL: there is none */
struct stream_log *stream__log(struct check_stream *stream, struct base_part id); /* made when there is none */
void stream__may_go(const struct check_stream *stream, struct stream_log *log);   /* its deletion was asked for */

/* Where its files are, and a slash. */
#define STREAM_FOLDER_BYTES 320 /* a name has 255 at most */
void stream__folder_of(const struct stream_log *log, char folder_out[STREAM_FOLDER_BYTES]);

/* The log was found to end there: what was written at or behind it is none of it. */
void stream__leave_out(struct check_stream *stream, const struct stream_log *log, int64_t end);

/* A write to one of its segments, past what the journal's rows name and below `end`, has not been synced. */
bool stream__has_unsynced_segment(const struct check_stream *stream, const struct stream_log *log, int64_t end);

/* A page-cache log: the first offset of what no sync has covered; its written end when all is. */
int64_t stream__durable_end(const struct check_stream *stream, const struct stream_log *log);

/* A page-cache log that has flush.ms: nobody may have forgotten what is older than that. */
void stream__judge_flush(struct check_stream *stream, const struct stream_log *log);

/* When the host had no handle for one of its segments last; 0: not in this life. */
uint64_t stream__refused_ns(const struct check_stream *stream, const struct stream_log *log);
/* The same for any file: what is written waits for the journal, that for a checkpoint, and that for the files of any log. */
uint64_t stream__any_refused_ns(const struct check_stream *stream);

/* Past the last offset that was ever written to its segments. */
int64_t stream__asked_end(const struct check_stream *stream, const struct stream_log *log);

/* Which batches stand where. */
void stream__keep_cut(struct stream_path *path, uint64_t from);
void stream__keep_batch(struct check_stream *stream, struct stream_path *path, uint64_t position,
                        const struct rec_batch *batch);
/* A log's start has moved: may it have? */
void stream__keep_started(struct check_stream *stream, const struct stream_log *log, int64_t from, int64_t to);

void stream__disk_effect(struct check_stream *stream, const struct port_effect *effect);
void stream__disk_done(struct check_stream *stream, const struct port_event *event);
void stream__disk_crash(struct check_stream *stream, enum check_crash crash);

/* A fetch is asked; its answer leaves, or its connection ends; and what the answer says. */
void stream__fetch_asked(struct check_stream *stream, struct base_slice body, struct stream_question *question);
/* Answers leave in the order of the questions: the one before it was answered at `before_ns`. */
void stream__fetch_ended(struct check_stream *stream, const struct stream_question *question, uint64_t before_ns);
void stream__fetch_answered(struct check_stream *stream, const struct stream_question *question,
                            struct base_slice body);
/* The same of ListOffsets. */
void stream__offsets_asked(struct check_stream *stream, struct base_slice body, struct stream_question *question);
void stream__offsets_answered(struct check_stream *stream, const struct stream_question *question,
                              struct base_slice body);

void stream__tap_received(struct check_stream *stream, uint32_t shard, struct port_conn id, struct base_slice bytes);
void stream__tap_sent(struct check_stream *stream, uint32_t shard, const struct port_effect *send);
void stream__tap_ended(struct check_stream *stream, uint32_t shard, struct port_conn id);
void stream__tap_closed(struct check_stream *stream, uint32_t shard, struct port_conn id);
void stream__tap_crash(struct check_stream *stream);
void stream__tap_free(struct check_stream *stream);

/* Topics are made, or are to grow; and what is told of them. */
void stream__told_asked(struct check_stream *stream, int16_t api_key, int16_t version, struct base_slice body);
void stream__told_answered(struct check_stream *stream, int16_t api_key, int16_t version, struct base_slice body);

/* A Produce has come; a batch is written to that segment. */
struct kafka_produce_request;
void stream__order_asked(struct check_stream *stream, const struct stream_conn *conn,
                         const struct kafka_produce_request *request);
void stream__order_written(struct check_stream *stream, const char *path, const struct rec_batch *batch);

struct kafka_fetch_request;
struct kafka_fetch_response;
struct stream_fetch *stream__session_asked(struct check_stream *stream, const struct kafka_fetch_request *request,
                                           int16_t version);
uint32_t stream__session_others(const struct check_stream *stream, const struct stream_fetch *fetch,
                                struct stream_followed *others_out, uint32_t others_max); /* UINT32_MAX: more */
void stream__session_answered(struct check_stream *stream, const struct stream_fetch *fetch,
                              const struct kafka_fetch_response *answer);
void stream__session_free(struct check_stream *stream, struct stream_fetch *fetch, bool is_answered);
void stream__session_crash(struct check_stream *stream);
void stream__sessions_free(struct check_stream *stream);

#endif
