/* port.h: the words for the outside: what the core may ask of the world (effects) and what it is told (events).
 *
 * Room    core/port. Uses base only. Carried out by src/host/uv for real and by sim/world in simulation; one suite,
 *         tests/contract, holds both to this page.
 *
 * THE CONTRACT
 *
 * 1. Every effect gets exactly one completion (PORT_EVENT_DONE with the effect's kind and token), also after a close and on
 *    shutdown. There is no cancel. Only PORT_LOG, PORT_LEVEL, PORT_READY and PORT_STOPPED are notes: none follows.
 *    A completion never arrives inside the step that asked: it is an event of its own, later, with its own time.
 * 2. Ids are (slot, generation) and are chosen by the core. A slot may be used again, with another generation, only after the
 *    completion of PORT_CLOSE (connection), PORT_CLOSE_FILE (file) or PORT_UNLISTEN (listener), which is the last event of
 *    that id: everything outstanding on it has completed before. An id whose PORT_ACCEPT, PORT_CONNECT, PORT_OPEN or
 *    PORT_LISTEN failed is free at once (that failure is its last event).
 *    An effect that names an id which is not open, or no longer (its failure may be on the way while the core asks),
 *    completes with PORT_CLOSED, a close included.
 * 3. Bytes an effect points at (buffers, pieces, paths) are the host's from the step that asked until the completion, and
 *    the array of pieces too. The texts of PORT_LOG and PORT_LEVEL are copied before the next step.
 * 4. Writes, truncates and allocations of one file run in the order they were asked. Reads may run beside them, in any order.
 *    A truncate waits until no sync of its file runs, and no sync of that file starts before it is done.
 *    Nothing is ordered across files or names except by waiting for a completion.
 * 5. A sync covers the writes, truncates and allocations of that file that had COMPLETED before the sync was asked, and maybe
 *    more; later ones may run beside it. After a sync has failed nobody knows what the file holds on disk.
 * 6. A created, renamed or unlinked name is durable after a later PORT_SYNC_DIR of its directory has completed; so is a
 *    created directory after SYNC_DIR of its parent. A file's bytes need their own PORT_SYNC.
 * 7. Short counts are allowed on READ, WRITE and RECV: a short READ at the end of the file, a short WRITE at any time with
 *    PORT_OK. PORT_SEND completes when all bytes have left or the connection failed (count: how many left).
 * 8. A file open under a name that is unlinked or renamed over stays readable through its id.
 * 9. A send may name ranges of files, of any shard's files. They are read when they drain, maybe much later and piece by
 *    piece: who asks keeps them alive and unchanged until the completion (the lease). A range that is cut short meanwhile
 *    fails the connection (PORT_IO); never are other bytes sent in its place.
 * 10. Events of one shard come one at a time. now_ns never goes back. A step that says wants_turn is given a PORT_EVENT_TURN
 *    when nothing else is ready; one that says wants_continue a PORT_EVENT_CONTINUE after whatever was ready. Such a wish
 *    stands until its event has come, whatever steps come between; said again meanwhile it is still one. An alarm is not
 *    kept: PORT_EVENT_ALARM comes at or after alarm_ns of the LAST step's out (UINT64_MAX: none). One that is due comes
 *    before or after a TURN or CONTINUE.
 * 11. Messages between two shards arrive in order, are never lost, and are delivered as PORT_EVENT_MESSAGE.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PORT_PORT_H
#define PORT_PORT_H

#include "base/base.h"

/* The error words. The host maps its system's; the core knows no errno. */
enum port_rc {
    PORT_OK = 0,
    PORT_EOF,         /* RECV: the peer has sent all it will */
    PORT_CLOSED,      /* the id was closed while this was outstanding, or the host is shutting down */
    PORT_REFUSED,     /* connect */
    PORT_RESET,       /* by the peer, or broken pipe */
    PORT_UNREACHABLE, /* no route, name not known, network down */
    PORT_TIMED_OUT,   /* the host's system gave up */
    PORT_IN_USE,      /* listen: the address is taken */
    PORT_IO,          /* the disk failed, or a range that was to be sent is gone */
    PORT_NO_SPACE,    /* disk or quota full */
    PORT_NO_HANDLES,  /* out of descriptors */
    PORT_NO_MEMORY,
    PORT_EXISTS,
    PORT_MISSING, /* no such name */
    PORT_NOT_DIR, /* a name on the way is not a directory, or is one where it must not be */
    PORT_NOT_EMPTY,
    PORT_DENIED,   /* permission, or read-only: a disk, or a file that was opened for reading */
    PORT_BAD_NAME, /* too long or not allowed */
    PORT_OTHER,
    PORT_RC_COUNT
};

struct port_conn { /* a connection of this shard */
    uint32_t slot;
    uint32_t generation; /* 0: none */
};
struct port_listener {
    uint32_t slot;
    uint32_t generation;
};
struct port_file { /* shard: whose table it is in; only sends may name another shard's */
    uint32_t shard;
    uint32_t slot;
    uint32_t generation; /* 0: none */
};

struct port_address {
    uint8_t ip[16]; /* IPv6, or IPv4 as ::ffff:a.b.c.d (RFC 4291) */
    uint16_t port;  /* host byte order */
};

/* Bytes to write or send. */
enum port_piece_kind { PORT_MEMORY = 0, PORT_RANGE = 1 };
struct port_piece {
    enum port_piece_kind kind;
    const uint8_t *at;       /* PORT_MEMORY */
    struct port_file file;   /* PORT_RANGE, in sends only */
    uint64_t position_bytes; /* PORT_RANGE */
    uint64_t size_bytes;
};

enum port_effect_kind {
    /* network */
    PORT_LISTEN =
        0, /* listener, address (port 0: any) -> address really bound. Shards that ask for one address share it. */
    PORT_UNLISTEN, /* listener; outstanding accepts complete with PORT_CLOSED first */
    PORT_ACCEPT,   /* listener, conn: the id the next accepted connection will have -> address of the peer */
    PORT_RESOLVE,  /* path: a host name or address literal -> address (port 0) */
    PORT_CONNECT,  /* conn, address */
    PORT_RECV, /* conn, buffer, size_bytes -> count > 0, or PORT_EOF. size_bytes 0: completes with count 0 when something
                        (bytes, end or error) is there to be read, so that idle connections need no buffer. One at a time. */
    PORT_SEND,  /* conn, pieces, piece_count -> count. Sends of one connection leave in the order they were asked.
                        where: PORT_ON_SHARD when its ranges are known to be cached (nothing is asked first then) */
    PORT_SHUT,  /* conn: no more sends; the peer sees the end after what was sent before */
    PORT_CLOSE, /* conn: unsent bytes are dropped; outstanding effects complete with PORT_CLOSED, then this one */
    /* files; disk + path name one, path relative to the disk's directory, '/' between, never ".." */
    PORT_OPEN, /* file, disk, path, flags -> count: size in bytes */
    PORT_READ, /* file, position_bytes, buffer, size_bytes -> count (0: at or past the end) */
    PORT_WRITE, /* file, position_bytes, pieces (memory only), piece_count -> count; past the end: the gap reads as zeros */
    PORT_TRUNCATE,   /* file, position_bytes: the new size, smaller or larger */
    PORT_ALLOCATE,   /* file, position_bytes, size_bytes: reserves blocks, keeps the file size (FALLOC_FL_KEEP_SIZE) */
    PORT_SYNC,       /* file (fdatasync) */
    PORT_CLOSE_FILE, /* file */
    /* names */
    PORT_RENAME,     /* disk, path -> path_to, replacing what is there */
    PORT_UNLINK,     /* disk, path: a file */
    PORT_MAKE_DIR,   /* disk, path; PORT_EXISTS if it is there */
    PORT_REMOVE_DIR, /* disk, path; must be empty */
    PORT_SYNC_DIR,   /* disk, path ("" : the disk's directory itself) */
    PORT_LIST, /* disk, path, buffer, size_bytes -> entries, sorted bytewise: see PORT_ENTRY_HEAD_BYTES; count: bytes used.
                        position_bytes: how many entries to skip; done.is_more: the buffer was too small for the rest */
    PORT_SPACE, /* disk -> count: bytes that may still be written there; total_bytes: how large it is, at least count. What
                        others write to the same file system changes both at any time */
    /* notes: no completion */
    PORT_LOG, /* level, text: one line for people; no secret, no payload */
    PORT_LEVEL, /* flags: the least level of lines that are wanted from now on, path_to: of which room ("": of all that have no
                        level of their own; PORT_LEVEL_NONE in flags: it has none any more). Of the whole node */
    PORT_READY,   /* this shard serves */
    PORT_STOPPED, /* this shard has nothing left to do; the host may end it */
    PORT_EFFECT_COUNT
};

enum port_open_flags {
    PORT_OPEN_READ = 0,      /* must exist */
    PORT_OPEN_WRITE = 1,     /* read and write; must exist unless PORT_OPEN_CREATE */
    PORT_OPEN_CREATE = 2,    /* make it if it is not there (with PORT_OPEN_WRITE) */
    PORT_OPEN_EXCLUSIVE = 4, /* with CREATE: PORT_EXISTS if it is there */
    PORT_OPEN_FRESH =
        8, /* what is clean in the cache is read from the disk anew: after a failed sync the cache of an earlier
                                 process may hold what the disk never got (POSIX_FADV_DONTNEED) */
};

/* Where file work may run. */
enum port_where {
    PORT_ON_DISK = 0, /* on that disk's own threads */
    PORT_ON_SHARD =
        1, /* at once on the shard's thread, when that cannot wait for the disk: writes to the page cache, reads of
                          what is cached (a read that is not falls back to the disk's threads) */
};

#define PORT_LEVEL_NONE 255u
enum port_level { PORT_TRACE = 0, PORT_DEBUG, PORT_INFO, PORT_WARN, PORT_ERROR, PORT_FATAL };

struct port_effect {
    enum port_effect_kind kind;
    enum port_where where;
    uint64_t token; /* the core's; comes back with the completion */
    struct port_conn conn;
    struct port_listener listener;
    struct port_file file;
    struct port_address address;
    uint32_t disk;
    uint32_t flags;            /* PORT_OPEN: enum port_open_flags; PORT_LOG, PORT_LEVEL: enum port_level */
    struct base_slice path;    /* PORT_LOG: the text; PORT_RESOLVE: the name. Not NUL-ended. */
    struct base_slice path_to; /* PORT_RENAME; PORT_LOG, PORT_LEVEL: the room's name */
    uint64_t position_bytes;
    uint8_t *buffer;
    uint64_t size_bytes;
    const struct port_piece *pieces;
    uint32_t piece_count;
};

/* One entry of a directory, as PORT_LIST packs it, without padding: kind (1 byte: 0 file, 1 directory, 2 other), size in bytes
 * (8, big-endian, 0 but for files), name length (2, big-endian), name. */
#define PORT_ENTRY_HEAD_BYTES 11

/* A message between shards of one node: flat, with one loan at most. Words are part of the trace; `lent` is not (an address is
 * not the same in two runs), what it holds is traced where it is written or sent. */
#define PORT_MESSAGE_WORDS 13
struct port_message {
    uint16_t to;
    uint16_t from; /* filled in by the host */
    uint32_t kind; /* the broker's */
    uint64_t words[PORT_MESSAGE_WORDS];
    void *lent; /* the sender's memory; the borrower answers with a message that gives it back */
    uint64_t lent_bytes;
};

enum port_event_kind {
    PORT_EVENT_START = 0, /* the first event of a shard */
    PORT_EVENT_DONE,      /* done: the one completion of an effect */
    PORT_EVENT_ALARM,
    PORT_EVENT_TURN,
    PORT_EVENT_CONTINUE,
    PORT_EVENT_MESSAGE, /* message */
    PORT_EVENT_STOP,    /* asked to stop cleanly (SIGTERM): PORT_STOPPED will answer */
    PORT_EVENT_COUNT
};

struct port_event {
    enum port_event_kind kind;
    uint64_t now_ns; /* monotonic */
    int64_t wall_ms; /* Unix time */
    struct {
        enum port_effect_kind effect;
        enum port_rc rc;
        uint64_t token;
        uint64_t count;
        struct port_conn conn;         /* of the effect */
        struct port_listener listener; /* of the effect */
        struct port_file file;         /* of the effect */
        struct port_address address;   /* PORT_LISTEN, PORT_ACCEPT, PORT_RESOLVE */
        bool is_more;                  /* PORT_LIST */
        uint64_t total_bytes;          /* PORT_SPACE */
    } done;
    struct port_message message;
};

/* Where a step writes. The host makes it once per shard and hands it to each step empty (port_out_begin). A step of a machine
 * emits at most the number of effects and messages that its header names; work that could need more is a cursor continued by
 * PORT_EVENT_CONTINUE. */
#define PORT_EFFECTS_MAX  1024
#define PORT_MESSAGES_MAX 256
#define PORT_TEXT_BYTES   16384
struct port_out {
    struct port_effect *effects; /* effects_max of them */
    struct port_message *messages;
    char *text; /* scratch for log lines, text_bytes of it */
    uint32_t effects_max;
    uint32_t effect_count;
    uint32_t messages_max;
    uint32_t message_count;
    uint32_t text_bytes;
    uint32_t text_used;
    bool wants_debug;    /* somebody wants lines at PORT_DEBUG: see port_wants_debug */
    uint64_t alarm_ns;   /* the earliest deadline of the machine; UINT64_MAX: none */
    bool wants_turn;     /* the host keeps it until the event has come */
    bool wants_continue; /* the same */
};

/* Empties `out` for the next step (alarm_ns UINT64_MAX, wants nothing). */
void port_out_begin(struct port_out *out);
/* How many more effects / messages fit. */
static inline uint32_t port_out_room(const struct port_out *out) { return out->effects_max - out->effect_count; }
static inline uint32_t port_out_message_room(const struct port_out *out)
{
    return out->messages_max - out->message_count;
}
/* The next effect, cleared, with kind and token set. Needs port_out_room(out) > 0. */
struct port_effect *port_emit(struct port_out *out, enum port_effect_kind kind, uint64_t token);
/* The next message, cleared. Needs room. */
struct port_message *port_send_message(struct port_out *out, uint32_t to_shard, uint32_t kind);
/* A log line: begin gives a text to fill (in out's scratch), end emits it. Dropped, never overrun, when there is no room. */
void port_log_begin(struct port_out *out, struct base_text *text);
void port_log_end(struct port_out *out, enum port_level level, const char *room, const struct base_text *text);

/* Whether a line at PORT_DEBUG is to be made: to be asked before it costs anything. It is left out where it might take an effect's place
 * (no call emits more than PORT_DEBUG_ROOM), or the text of one that matters more. */
#define PORT_DEBUG_ROOM 256
static inline bool port_wants_debug(const struct port_out *out)
{
    return out->wants_debug && port_out_room(out) > PORT_DEBUG_ROOM && out->text_used < out->text_bytes / 2;
}

static inline void port_alarm(struct port_out *out, uint64_t deadline_ns)
{
    if (deadline_ns < out->alarm_ns) { out->alarm_ns = deadline_ns; }
}

static inline bool port_conn_equal(struct port_conn a, struct port_conn b)
{
    return a.slot == b.slot && a.generation == b.generation;
}
static inline bool port_file_equal(struct port_file a, struct port_file b)
{
    return a.shard == b.shard && a.slot == b.slot && a.generation == b.generation;
}

/* The rolling trace hash: every field that has a meaning for that kind, in a fixed encoding, payload bytes included (the bytes
 * of memory pieces; ranges by file, position and size). Never an address, never struct memory.
 * payload: what the completion of a RECV, READ or LIST put into the effect's buffer (count bytes; the event has no pointer to
 * it, whoever carried the effect out has); empty for every other event. */
uint64_t port_hash_event(uint64_t hash, uint32_t node, uint32_t shard, const struct port_event *event,
                         struct base_slice payload);
uint64_t port_hash_effect(uint64_t hash, uint32_t node, uint32_t shard, const struct port_effect *effect);
uint64_t port_hash_message(uint64_t hash, uint32_t node, uint32_t shard, const struct port_message *message);

const char *port_rc_name(enum port_rc rc);
const char *port_effect_name(enum port_effect_kind kind);
const char *port_event_name(enum port_event_kind kind);

/* "127.0.0.1", "::1" into at most 46 characters and a NUL; and back (literals only). */
void port_address_to_text(struct port_address address, char text_out[47]);
MUST_USE
enum base_rc port_address_from_text(struct base_slice literal, struct port_address *address_out);
#define PORT_HOST_MAX 255
/* HOST:PORT, [::1]:9092. The host is a part of the words, without brackets, at most PORT_HOST_MAX bytes, and may be empty; the port may
 * be 0. */
MUST_USE
enum base_rc port_host_from_text(struct base_slice words, struct base_slice *host_out, uint16_t *port_out);

#endif
