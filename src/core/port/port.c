/* port.c: notes, names, addresses and the rolling trace hash of port.h.
 *
 * Room    core/port. Uses base only.
 * Rule    the hash sees the encoded fields that have a meaning for the kind, in a fixed width and order: a field that a
 *         kind does not use may hold anything and changes nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "port/port.h"

#include <string.h>

void port_out_begin(struct port_out *out)
{
    out->effect_count = 0;
    out->message_count = 0;
    out->text_used = 0;
    out->alarm_ns = UINT64_MAX;
    out->wants_turn = false;
    out->wants_continue = false;
}

struct port_effect *port_emit(struct port_out *out, enum port_effect_kind kind, uint64_t token)
{
    CHECK(out->effect_count < out->effects_max);
    CHECK(kind < PORT_EFFECT_COUNT);
    struct port_effect *effect = &out->effects[out->effect_count];
    out->effect_count += 1;
    memset(effect, 0, sizeof *effect);
    effect->kind = kind;
    effect->token = token;
    return effect;
}

struct port_message *port_send_message(struct port_out *out, uint32_t to_shard, uint32_t kind)
{
    CHECK(out->message_count < out->messages_max);
    CHECK(to_shard < UINT16_MAX);
    struct port_message *message = &out->messages[out->message_count];
    out->message_count += 1;
    memset(message, 0, sizeof *message);
    message->to = (uint16_t)to_shard;
    message->kind = kind;
    return message;
}

/* What is left of the scratch, or a place for the NUL alone: a line without room is cut to nothing, never overrun. */
void port_log_begin(struct port_out *out, struct base_text *text)
{
    CHECK(out->text_used <= out->text_bytes);
    CHECK(out->text_bytes > 0);
    uint32_t at = out->text_used < out->text_bytes ? out->text_used : out->text_bytes - 1;
    base_text_init(text, out->text + at, out->text_bytes - at);
}

void port_log_end(struct port_out *out, enum port_level level, const char *room, const struct base_text *text)
{
    CHECK(text->used_bytes < out->text_bytes);
    if (port_out_room(out) == 0 || text->used_bytes == 0) { return; }
    struct port_effect *effect = port_emit(out, PORT_LOG, 0);
    effect->flags = (uint32_t)level;
    effect->path = base_text_slice(text);
    effect->path_to = base_slice_text(room);
    out->text_used = (uint32_t)((size_t)(text->at - out->text) + text->used_bytes);
    CHECK(out->text_used <= out->text_bytes);
}

/* ---- names ---- */

static const char *const rc_names[] = {
    [PORT_OK] = "OK",
    [PORT_EOF] = "EOF",
    [PORT_CLOSED] = "CLOSED",
    [PORT_REFUSED] = "REFUSED",
    [PORT_RESET] = "RESET",
    [PORT_UNREACHABLE] = "UNREACHABLE",
    [PORT_TIMED_OUT] = "TIMED_OUT",
    [PORT_IN_USE] = "IN_USE",
    [PORT_IO] = "IO",
    [PORT_NO_SPACE] = "NO_SPACE",
    [PORT_NO_HANDLES] = "NO_HANDLES",
    [PORT_NO_MEMORY] = "NO_MEMORY",
    [PORT_EXISTS] = "EXISTS",
    [PORT_MISSING] = "MISSING",
    [PORT_NOT_DIR] = "NOT_DIR",
    [PORT_NOT_EMPTY] = "NOT_EMPTY",
    [PORT_DENIED] = "DENIED",
    [PORT_BAD_NAME] = "BAD_NAME",
    [PORT_OTHER] = "OTHER",
};
_Static_assert(BASE_ARRAY_COUNT(rc_names) == PORT_RC_COUNT, "every error word has a name");

static const char *const effect_names[] = {
    [PORT_LISTEN] = "LISTEN",     [PORT_UNLISTEN] = "UNLISTEN",
    [PORT_ACCEPT] = "ACCEPT",     [PORT_RESOLVE] = "RESOLVE",
    [PORT_CONNECT] = "CONNECT",   [PORT_RECV] = "RECV",
    [PORT_SEND] = "SEND",         [PORT_SHUT] = "SHUT",
    [PORT_CLOSE] = "CLOSE",       [PORT_OPEN] = "OPEN",
    [PORT_READ] = "READ",         [PORT_WRITE] = "WRITE",
    [PORT_TRUNCATE] = "TRUNCATE", [PORT_ALLOCATE] = "ALLOCATE",
    [PORT_SYNC] = "SYNC",         [PORT_CLOSE_FILE] = "CLOSE_FILE",
    [PORT_RENAME] = "RENAME",     [PORT_UNLINK] = "UNLINK",
    [PORT_MAKE_DIR] = "MAKE_DIR", [PORT_REMOVE_DIR] = "REMOVE_DIR",
    [PORT_SYNC_DIR] = "SYNC_DIR", [PORT_LIST] = "LIST",
    [PORT_SPACE] = "SPACE",       [PORT_LOG] = "LOG",
    [PORT_LEVEL] = "LEVEL",       [PORT_READY] = "READY",
    [PORT_STOPPED] = "STOPPED",
};
_Static_assert(BASE_ARRAY_COUNT(effect_names) == PORT_EFFECT_COUNT, "every effect has a name");

static const char *const event_names[] = {
    [PORT_EVENT_START] = "START", [PORT_EVENT_DONE] = "DONE",         [PORT_EVENT_ALARM] = "ALARM",
    [PORT_EVENT_TURN] = "TURN",   [PORT_EVENT_CONTINUE] = "CONTINUE", [PORT_EVENT_MESSAGE] = "MESSAGE",
    [PORT_EVENT_STOP] = "STOP",
};
_Static_assert(BASE_ARRAY_COUNT(event_names) == PORT_EVENT_COUNT, "every event has a name");

const char *port_rc_name(enum port_rc rc)
{
    CHECK(rc < PORT_RC_COUNT);
    return rc_names[rc];
}

const char *port_effect_name(enum port_effect_kind kind)
{
    CHECK(kind < PORT_EFFECT_COUNT);
    return effect_names[kind];
}

const char *port_event_name(enum port_event_kind kind)
{
    CHECK(kind < PORT_EVENT_COUNT);
    return event_names[kind];
}

/* ---- the trace hash ---- */

/* The longest encoding is an effect's or a message's: head 20, fields below 200. */
struct coder {
    uint8_t bytes[256];
    size_t used_bytes;
};

static void code_u32(struct coder *coder, uint32_t value)
{
    CHECK(coder->used_bytes + 4 <= sizeof coder->bytes);
    base_put_u32(coder->bytes + coder->used_bytes, value);
    coder->used_bytes += 4;
}

static void code_u64(struct coder *coder, uint64_t value)
{
    CHECK(coder->used_bytes + 8 <= sizeof coder->bytes);
    base_put_u64(coder->bytes + coder->used_bytes, value);
    coder->used_bytes += 8;
}

static void code_conn(struct coder *coder, struct port_conn conn)
{
    code_u32(coder, conn.slot);
    code_u32(coder, conn.generation);
}

static void code_listener(struct coder *coder, struct port_listener listener)
{
    code_u32(coder, listener.slot);
    code_u32(coder, listener.generation);
}

static void code_file(struct coder *coder, struct port_file file)
{
    code_u32(coder, file.shard);
    code_u32(coder, file.slot);
    code_u32(coder, file.generation);
}

static void code_address(struct coder *coder, struct port_address address)
{
    code_u64(coder, base_get_u64(address.ip));
    code_u64(coder, base_get_u64(address.ip + 8));
    code_u32(coder, address.port);
}

/* The head says which of the three it is, so that an event never hashes like an effect. */
enum coded { CODED_EVENT = 1, CODED_EFFECT = 2, CODED_MESSAGE = 3 };

static void code_head(struct coder *coder, enum coded what, uint32_t node, uint32_t shard, uint32_t kind)
{
    coder->used_bytes = 0;
    code_u32(coder, (uint32_t)what);
    code_u32(coder, node);
    code_u32(coder, shard);
    code_u32(coder, kind);
}

static uint64_t hash_coded(const struct coder *coder, uint64_t hash)
{
    return base_hash_bytes(coder->bytes, coder->used_bytes, hash);
}

/* The size goes first: "ab" "c" must not hash like "a" "bc". */
static uint64_t hash_bytes(uint64_t hash, const uint8_t *at, size_t size_bytes)
{
    uint8_t size[8];
    base_put_u64(size, size_bytes);
    hash = base_hash_bytes(size, sizeof size, hash);
    return size_bytes == 0 ? hash : base_hash_bytes(at, size_bytes, hash);
}

static uint64_t hash_slice(uint64_t hash, struct base_slice slice)
{
    return hash_bytes(hash, slice.at, slice.size_bytes);
}

static uint64_t hash_pieces(uint64_t hash, const struct port_effect *effect)
{
    for (uint32_t i = 0; i < effect->piece_count; i++) {
        const struct port_piece *piece = &effect->pieces[i];
        switch (piece->kind) {
        case PORT_MEMORY: hash = hash_bytes(hash, piece->at, piece->size_bytes); break;
        case PORT_RANGE: {
            struct coder coder = {.used_bytes = 0};
            code_file(&coder, piece->file);
            code_u64(&coder, piece->position_bytes);
            code_u64(&coder, piece->size_bytes);
            hash = hash_coded(&coder, hash);
            break;
        }
        }
    }
    return hash;
}

static void code_done(struct coder *coder, const struct port_event *event)
{
    code_u32(coder, (uint32_t)event->done.effect);
    code_u32(coder, (uint32_t)event->done.rc);
    code_u64(coder, event->done.token);
    code_u64(coder, event->done.count);
    switch (event->done.effect) {
    case PORT_LISTEN:
        code_listener(coder, event->done.listener);
        code_address(coder, event->done.address);
        break;
    case PORT_UNLISTEN: code_listener(coder, event->done.listener); break;
    case PORT_ACCEPT:
        code_listener(coder, event->done.listener);
        code_conn(coder, event->done.conn);
        code_address(coder, event->done.address);
        break;
    case PORT_RESOLVE: code_address(coder, event->done.address); break;
    case PORT_CONNECT:
    case PORT_RECV:
    case PORT_SEND:
    case PORT_SHUT:
    case PORT_CLOSE: code_conn(coder, event->done.conn); break;
    case PORT_OPEN:
    case PORT_READ:
    case PORT_WRITE:
    case PORT_TRUNCATE:
    case PORT_ALLOCATE:
    case PORT_SYNC:
    case PORT_CLOSE_FILE: code_file(coder, event->done.file); break;
    case PORT_LIST: code_u32(coder, event->done.is_more ? 1 : 0); break;
    case PORT_SPACE: code_u64(coder, event->done.total_bytes); break;
    case PORT_RENAME:
    case PORT_UNLINK:
    case PORT_MAKE_DIR:
    case PORT_REMOVE_DIR:
    case PORT_SYNC_DIR: break;
    case PORT_LOG:
    case PORT_LEVEL:
    case PORT_READY:
    case PORT_STOPPED:
    case PORT_EFFECT_COUNT: UNREACHABLE(); /* notes have no completion */
    }
}

static uint64_t hash_message_fields(uint64_t hash, const struct port_message *message)
{
    struct coder coder = {.used_bytes = 0};
    code_u32(&coder, message->to);
    code_u32(&coder, message->from);
    code_u32(&coder, message->kind);
    for (size_t i = 0; i < PORT_MESSAGE_WORDS; i++) { code_u64(&coder, message->words[i]); }
    code_u64(&coder, message->lent_bytes);
    return hash_coded(&coder, hash);
}

uint64_t port_hash_event(uint64_t hash, uint32_t node, uint32_t shard, const struct port_event *event,
                         struct base_slice payload)
{
    struct coder coder;
    code_head(&coder, CODED_EVENT, node, shard, (uint32_t)event->kind);
    code_u64(&coder, event->now_ns);
    code_u64(&coder, (uint64_t)event->wall_ms);
    switch (event->kind) {
    case PORT_EVENT_DONE: code_done(&coder, event); return hash_slice(hash_coded(&coder, hash), payload);
    case PORT_EVENT_MESSAGE: return hash_message_fields(hash_coded(&coder, hash), &event->message);
    case PORT_EVENT_START:
    case PORT_EVENT_ALARM:
    case PORT_EVENT_TURN:
    case PORT_EVENT_CONTINUE:
    case PORT_EVENT_STOP: break;
    case PORT_EVENT_COUNT: UNREACHABLE();
    }
    return hash_coded(&coder, hash);
}

static void code_name(struct coder *coder, const struct port_effect *effect) { code_u32(coder, effect->disk); }

uint64_t port_hash_effect(uint64_t hash, uint32_t node, uint32_t shard, const struct port_effect *effect)
{
    struct coder coder;
    code_head(&coder, CODED_EFFECT, node, shard, (uint32_t)effect->kind);
    code_u64(&coder, effect->token);
    switch (effect->kind) {
    case PORT_LISTEN:
        code_listener(&coder, effect->listener);
        code_address(&coder, effect->address);
        break;
    case PORT_UNLISTEN: code_listener(&coder, effect->listener); break;
    case PORT_ACCEPT:
        code_listener(&coder, effect->listener);
        code_conn(&coder, effect->conn);
        break;
    case PORT_RESOLVE: return hash_slice(hash_coded(&coder, hash), effect->path);
    case PORT_CONNECT:
        code_conn(&coder, effect->conn);
        code_address(&coder, effect->address);
        break;
    case PORT_RECV:
        code_conn(&coder, effect->conn);
        code_u64(&coder, effect->size_bytes);
        break;
    case PORT_SEND:
        code_conn(&coder, effect->conn);
        code_u32(&coder, (uint32_t)effect->where);
        code_u32(&coder, effect->piece_count);
        return hash_pieces(hash_coded(&coder, hash), effect);
    case PORT_SHUT:
    case PORT_CLOSE: code_conn(&coder, effect->conn); break;
    case PORT_OPEN:
        code_file(&coder, effect->file);
        code_name(&coder, effect);
        code_u32(&coder, effect->flags);
        code_u32(&coder, (uint32_t)effect->where);
        return hash_slice(hash_coded(&coder, hash), effect->path);
    case PORT_READ:
        code_file(&coder, effect->file);
        code_u32(&coder, (uint32_t)effect->where);
        code_u64(&coder, effect->position_bytes);
        code_u64(&coder, effect->size_bytes);
        break;
    case PORT_WRITE:
        code_file(&coder, effect->file);
        code_u32(&coder, (uint32_t)effect->where);
        code_u64(&coder, effect->position_bytes);
        code_u32(&coder, effect->piece_count);
        return hash_pieces(hash_coded(&coder, hash), effect);
    case PORT_TRUNCATE:
        code_file(&coder, effect->file);
        code_u32(&coder, (uint32_t)effect->where);
        code_u64(&coder, effect->position_bytes);
        break;
    case PORT_ALLOCATE:
        code_file(&coder, effect->file);
        code_u32(&coder, (uint32_t)effect->where);
        code_u64(&coder, effect->position_bytes);
        code_u64(&coder, effect->size_bytes);
        break;
    case PORT_SYNC:
    case PORT_CLOSE_FILE: code_file(&coder, effect->file); break;
    case PORT_RENAME:
        code_name(&coder, effect);
        return hash_slice(hash_slice(hash_coded(&coder, hash), effect->path), effect->path_to);
    case PORT_UNLINK:
    case PORT_MAKE_DIR:
    case PORT_REMOVE_DIR:
    case PORT_SPACE:
    case PORT_SYNC_DIR: code_name(&coder, effect); return hash_slice(hash_coded(&coder, hash), effect->path);
    case PORT_LIST:
        code_name(&coder, effect);
        code_u64(&coder, effect->position_bytes);
        code_u64(&coder, effect->size_bytes);
        return hash_slice(hash_coded(&coder, hash), effect->path);
    case PORT_LOG:
    case PORT_LEVEL:
        code_u32(&coder, effect->flags);
        return hash_slice(hash_slice(hash_coded(&coder, hash), effect->path), effect->path_to);
    case PORT_READY:
    case PORT_STOPPED: break;
    case PORT_EFFECT_COUNT: UNREACHABLE();
    }
    return hash_coded(&coder, hash);
}

uint64_t port_hash_message(uint64_t hash, uint32_t node, uint32_t shard, const struct port_message *message)
{
    struct coder coder;
    code_head(&coder, CODED_MESSAGE, node, shard, message->kind);
    return hash_message_fields(hash_coded(&coder, hash), message);
}

/* ---- addresses ---- */

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static void add_hex_group(struct base_text *text, uint32_t group)
{
    unsigned digits = group > 0xfff ? 4 : group > 0xff ? 3 : group > 0xf ? 2 : 1;
    base_text_add_hex(text, group, digits);
}

static uint32_t group_at(const uint8_t ip[16], uint32_t index) { return base_get_u16(ip + 2 * (size_t)index); }

/* The longest run of two or more zero groups, the first of equals (RFC 5952, 4.2); count 0: none. */
static uint32_t longest_zero_run(const uint8_t ip[16], uint32_t *count_out)
{
    uint32_t best = 0;
    uint32_t best_count = 0;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t count = 0;
        while (i + count < 8 && group_at(ip, i + count) == 0) { count += 1; }
        if (count >= 2 && count > best_count) {
            best = i;
            best_count = count;
        }
    }
    *count_out = best_count;
    return best;
}

void port_address_to_text(struct port_address address, char text_out[47])
{
    struct base_text text;
    base_text_init(&text, text_out, 47);
    if (memcmp(address.ip, v4_prefix, sizeof v4_prefix) == 0) {
        for (uint32_t i = 12; i < 16; i++) {
            if (i > 12) { base_text_add(&text, "."); }
            base_text_add_i64(&text, address.ip[i]);
        }
        return;
    }
    uint32_t run_count;
    uint32_t run = longest_zero_run(address.ip, &run_count);
    for (uint32_t i = 0; i < 8; i++) {
        if (run_count > 0 && i == run) {
            base_text_add(&text, "::");
            i += run_count - 1;
            continue;
        }
        if (i > 0 && !(run_count > 0 && i == run + run_count)) { base_text_add(&text, ":"); }
        add_hex_group(&text, group_at(address.ip, i));
    }
    CHECK(!text.is_cut);
}

/* Four decimal numbers without leading zeros (inet_pton's rule: "010" might mean 8 elsewhere). */
static bool take_v4(struct base_slice literal, uint8_t ip_out[4])
{
    uint8_t ip[4] = {0};
    size_t at = 0;
    for (size_t part = 0; part < 4; part++) {
        if (part > 0) {
            if (at >= literal.size_bytes || literal.at[at] != '.') { return false; }
            at += 1;
        }
        size_t start = at;
        uint32_t value = 0;
        while (at < literal.size_bytes && literal.at[at] >= '0' && literal.at[at] <= '9' && at - start < 3) {
            value = value * 10 + (uint32_t)(literal.at[at] - '0');
            at += 1;
        }
        if (at == start || value > 255 || (at - start > 1 && literal.at[start] == '0')) { return false; }
        ip[part] = (uint8_t)value;
    }
    if (at != literal.size_bytes) { return false; }
    memcpy(ip_out, ip, 4);
    return true;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') { return c - '0'; }
    if (c >= 'a' && c <= 'f') { return c - 'a' + 10; }
    if (c >= 'A' && c <= 'F') { return c - 'A' + 10; }
    return -1;
}

static bool take_v6(struct base_slice literal, uint8_t ip_out[16])
{
    uint8_t ip[16] = {0};
    uint32_t count = 0; /* groups so far */
    uint32_t gap = UINT32_MAX;
    size_t at = 0;
    if (literal.size_bytes >= 2 && literal.at[0] == ':' && literal.at[1] == ':') {
        gap = 0;
        at = 2;
    }
    while (at < literal.size_bytes) {
        size_t start = at;
        uint32_t value = 0;
        while (at < literal.size_bytes && at - start < 4 && hex_digit(literal.at[at]) >= 0) {
            value = value << 4 | (uint32_t)hex_digit(literal.at[at]);
            at += 1;
        }
        if (at == start || count == 8) { return false; }
        if (at < literal.size_bytes && literal.at[at] == '.') { /* the last 32 bits as IPv4 */
            if (count > 6) { return false; }
            if (!take_v4(base_slice_of(literal.at + start, literal.size_bytes - start), ip + 2 * (size_t)count)) {
                return false;
            }
            count += 2;
            at = literal.size_bytes;
            break;
        }
        base_put_u16(ip + 2 * (size_t)count, (uint16_t)value);
        count += 1;
        if (at == literal.size_bytes) { break; }
        if (literal.at[at] != ':') { return false; }
        at += 1;
        if (at == literal.size_bytes) { return false; } /* "1:" */
        if (literal.at[at] == ':') {
            if (gap != UINT32_MAX) { return false; }
            gap = count;
            at += 1;
        }
    }
    if (gap == UINT32_MAX ? count != 8 : count > 7) { return false; }
    memset(ip_out, 0, 16);
    uint32_t before = gap == UINT32_MAX ? 8 : gap;
    uint32_t after = count - (gap == UINT32_MAX ? 8 : gap);
    memcpy(ip_out, ip, 2 * (size_t)before);
    if (after > 0) { memcpy(ip_out + 16 - 2 * (size_t)after, ip + 2 * (size_t)before, 2 * (size_t)after); }
    return true;
}

enum base_rc port_address_from_text(struct base_slice literal, struct port_address *address_out)
{
    struct port_address address = {.port = 0};
    if (literal.size_bytes == 0 || literal.size_bytes > 46) { return BASE_BAD; }
    if (take_v4(literal, address.ip + 12)) {
        memcpy(address.ip, v4_prefix, sizeof v4_prefix);
    } else if (!take_v6(literal, address.ip)) {
        return BASE_BAD;
    }
    *address_out = address;
    return BASE_OK;
}

enum base_rc port_host_from_text(struct base_slice words, struct base_slice *host_out, uint16_t *port_out)
{
    struct base_slice host;
    struct base_slice port_words;
    int64_t port = 0;
    if (!base_slice_split_last(words, ':', &host, &port_words)) { return BASE_BAD; }
    if (base_text_parse_i64(port_words, &port) != BASE_OK || port < 0 || port > UINT16_MAX) { return BASE_BAD; }
    if (host.size_bytes >= 2 && host.at[0] == '[' && host.at[host.size_bytes - 1] == ']') {
        host = base_slice_of(host.at + 1, host.size_bytes - 2);
    }
    if (host.size_bytes > PORT_HOST_MAX) { return BASE_BAD; }
    *host_out = host;
    *port_out = (uint16_t)port;
    return BASE_OK;
}
