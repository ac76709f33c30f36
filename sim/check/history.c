/* history.c: see history.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "history.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const kind_names[HISTORY_KIND_COUNT] = {
    [HISTORY_PRODUCE] = "produce",     [HISTORY_READ] = "read",         [HISTORY_END] = "end",
    [HISTORY_CREATE] = "create",       [HISTORY_DELETE] = "delete",     [HISTORY_OFFSETS] = "offsets",
    [HISTORY_TOPIC] = "topic",         [HISTORY_CALL] = "call",         [HISTORY_TRIM] = "trim",
    [HISTORY_NOTE] = "note",           [HISTORY_JOIN] = "join",         [HISTORY_SYNC] = "sync",
    [HISTORY_HEARTBEAT] = "heartbeat", [HISTORY_LEAVE] = "leave",       [HISTORY_COMMIT] = "commit",
    [HISTORY_COMMITTED] = "committed", [HISTORY_UNCOMMIT] = "uncommit", [HISTORY_DISBAND] = "disband",
    [HISTORY_GROW] = "grow",           [HISTORY_ALTER] = "alter",       [HISTORY_CONFIG] = "config",
};
static const char *const what_names[] = {"invoke", "ok", "fail", "unknown"};

const char *history_kind_name(enum history_kind kind) { return kind_names[kind]; }

static void drop_group(struct history_op *op)
{
    if (op->group != NULL) { free(op->group->owned); }
    free(op->group);
    op->group = NULL;
}

void history_free(struct history *history)
{
    for (uint32_t i = 0; i < history->op_count; i++) { drop_group(&history->ops[i]); }
    free(history->ops);
    free(history->lines);
    *history = (struct history){.ops = NULL};
}

struct history_op history_op_init(enum history_kind kind, const char *actor, uint64_t now_ns)
{
    struct history_op op = {.kind = kind,
                            .invoke_ns = now_ns,
                            .end_ns = now_ns,
                            .partition = -1,
                            .offset = -1,
                            .timestamp_ms = -1,
                            .record = {.sequence = -1}};
    (void)snprintf(op.actor, sizeof op.actor, "%s", actor); /* names of actors are short */
    return op;
}

struct history_group *history_add_group(struct history_op *op)
{
    op->group = calloc(1, sizeof *op->group);
    CHECK(op->group != NULL);
    op->group->generation = -1;
    op->group->tag = -1;
    return op->group;
}

static void *grow(void *at, uint32_t *room, size_t item_bytes)
{
    *room = *room == 0 ? 1024 : *room * 2;
    void *grown = realloc(at, *room * item_bytes);
    CHECK(grown != NULL);
    return grown;
}

static void add_line(struct history *history, uint32_t op, bool is_end)
{
    if (history->line_count == history->line_room) {
        history->lines = grow(history->lines, &history->line_room, sizeof *history->lines);
    }
    history->lines[history->line_count++] = (struct history_line){.op = op, .is_end = is_end};
}

static uint32_t add_op(struct history *history, const struct history_op *op)
{
    if (history->op_count == history->op_room) {
        history->ops = grow(history->ops, &history->op_room, sizeof *history->ops);
    }
    history->ops[history->op_count] = *op;
    return history->op_count++;
}

uint32_t history_invoke(struct history *history, const struct history_op *op)
{
    uint32_t number = add_op(history, op);
    history->ops[number].what = HISTORY_INVOKE;
    add_line(history, number, false);
    return number;
}

void history_end(struct history *history, uint32_t op, enum history_what what, uint64_t now_ns)
{
    CHECK(op < history->op_count);
    CHECK(history->ops[op].what == HISTORY_INVOKE && what != HISTORY_INVOKE);
    history->ops[op].what = what;
    history->ops[op].end_ns = now_ns;
    add_line(history, op, true);
}

void history_once(struct history *history, const struct history_op *op)
{
    uint32_t number = add_op(history, op);
    history->ops[number].what = HISTORY_OK;
    add_line(history, number, true);
}

/* ---- text ---- */

static void write_text(FILE *to, const char *name, const char *text)
{
    if (text != NULL && text[0] != 0) { (void)fprintf(to, " %s=%s", name, text); }
}

static void write_group(const struct history_op *op, bool is_end, FILE *to)
{
    const struct history_group *group = op->group;
    bool is_told = is_end || op->kind != HISTORY_JOIN;
    write_text(to, "group", group->group);
    write_text(to, "member", group->member);
    write_text(to, "instance", group->instance);
    if (is_end) { write_text(to, "given", group->given); }
    if (is_end) { write_text(to, "leader", group->leader); }
    if (is_told && group->generation >= 0) { (void)fprintf(to, " generation=%" PRId32, group->generation); }
    if (op->kind == HISTORY_JOIN) {
        (void)fprintf(to, " session_ms=%" PRId32 " rebalance_ms=%" PRId32, group->session_ms, group->rebalance_ms);
    }
    bool has_tag = group->tag >= 0 && (is_end || op->kind == HISTORY_COMMIT);
    if (has_tag) { (void)fprintf(to, " tag=%" PRId64, group->tag); }
    if (is_end) { write_text(to, "owned", group->owned); }
}

static void write_line(const struct history *history, const struct history_line *line, FILE *to)
{
    const struct history_op *op = &history->ops[line->op];
    uint64_t at_ns = line->is_end ? op->end_ns : op->invoke_ns;
    const char *what = what_names[line->is_end ? op->what : HISTORY_INVOKE];
    (void)fprintf(to, "%" PRIu64 " %s %" PRIu32 " %s %s", at_ns, op->actor[0] == 0 ? "-" : op->actor, line->op, what,
                  kind_names[op->kind]);
    if (op->topic[0] != 0) { (void)fprintf(to, " topic=%s", op->topic); }
    if (!base_uuid_is_none(op->id)) {
        char id[23];
        base_uuid_to_text(op->id, id);
        (void)fprintf(to, " id=%s", id);
    }
    if (op->partition >= 0) { (void)fprintf(to, " partition=%" PRId32, op->partition); }
    if (op->kind == HISTORY_PRODUCE) { (void)fprintf(to, " acks=%" PRId32, op->acks); }
    if (op->is_idempotent) { (void)fprintf(to, " idempotent=1"); }
    if (op->record.sequence >= 0) {
        (void)fprintf(to, " record=%" PRIu32 ".%" PRIu32 ".%" PRId64, op->record.incarnation, op->record.producer,
                      op->record.sequence);
    }
    if (op->session != 0) { (void)fprintf(to, " session=%" PRIu32, op->session); }
    if (op->is_final) { (void)fprintf(to, " final=1"); }
    if (op->at != 0) { (void)fprintf(to, " at=%" PRId64, op->at); }
    if (op->timestamp_ms >= 0) { (void)fprintf(to, " timestamp=%" PRId64, op->timestamp_ms); }
    if (op->count != 0) { (void)fprintf(to, " count=%" PRId64, op->count); }
    if (op->group != NULL) { write_group(op, line->is_end, to); }
    if (line->is_end && op->offset >= 0) { (void)fprintf(to, " offset=%" PRId64, op->offset); }
    if (line->is_end && op->error != 0) { (void)fprintf(to, " error=%" PRId32, op->error); }
    (void)fprintf(to, "\n"); /* the caller looks at ferror */
}

void history_write(const struct history *history, FILE *to)
{
    (void)fprintf(to, "weir-history 1\n"); /* the caller looks at ferror */
    for (uint32_t i = 0; i < history->line_count; i++) { write_line(history, &history->lines[i], to); }
}

static bool find_word(const char *word, const char *const *names, int count, int *at_out)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(word, names[i]) == 0) {
            *at_out = i;
            return true;
        }
    }
    return false;
}

static bool read_i64(const char *text, int64_t *value_out)
{
    return base_text_parse_i64(base_slice_text(text), value_out) == BASE_OK;
}

static bool read_record(const char *text, struct history_record *record_out)
{
    int used = 0;
    return sscanf(text, "%" SCNu32 ".%" SCNu32 ".%" SCNd64 "%n", &record_out->incarnation, &record_out->producer,
                  &record_out->sequence, &used) == 3 &&
           text[used] == 0;
}

static bool set_text(char *to, size_t size_bytes, const char *text)
{
    return (size_t)snprintf(to, size_bytes, "%s", text) < size_bytes;
}

/* 1: it is of the group's, 0: it is not, -1: and it can't be. */
static int read_group_field(struct history_op *op, const char *field, const char *value)
{
    static const char *const names[] = {"group",      "member",     "instance",     "given", "leader",
                                        "generation", "session_ms", "rebalance_ms", "tag",   "owned"};
    int at = 0;
    if (!find_word(field, names, (int)BASE_ARRAY_COUNT(names), &at)) { return 0; }
    struct history_group *group = op->group == NULL ? history_add_group(op) : op->group;
    int64_t number = 0;
    if (at >= 5 && at <= 8 && !read_i64(value, &number)) { return -1; }
    bool is_well = true;
    switch (at) {
    case 0: is_well = set_text(group->group, sizeof group->group, value); break;
    case 1: is_well = set_text(group->member, sizeof group->member, value); break;
    case 2: is_well = set_text(group->instance, sizeof group->instance, value); break;
    case 3: is_well = set_text(group->given, sizeof group->given, value); break;
    case 4: is_well = set_text(group->leader, sizeof group->leader, value); break;
    case 5: group->generation = (int32_t)number; break;
    case 6: group->session_ms = (int32_t)number; break;
    case 7: group->rebalance_ms = (int32_t)number; break;
    case 8: group->tag = number; break;
    default:
        free(group->owned);
        group->owned = strdup(value);
        is_well = group->owned != NULL;
    }
    return is_well ? 1 : -1;
}

static bool read_field(struct history_op *op, char *field)
{
    char *value = strchr(field, '=');
    if (value == NULL) { return false; }
    *value++ = 0;
    int of_group = read_group_field(op, field, value);
    if (of_group != 0) { return of_group > 0; }
    if (strcmp(field, "topic") == 0) {
        return (size_t)snprintf(op->topic, sizeof op->topic, "%s", value) < sizeof op->topic;
    }
    if (strcmp(field, "id") == 0) { return base_uuid_from_text(value, strlen(value), &op->id) == BASE_OK; }
    if (strcmp(field, "record") == 0) { return read_record(value, &op->record); }
    int64_t number;
    if (!read_i64(value, &number)) { return false; }
    if (strcmp(field, "partition") == 0) { op->partition = (int32_t)number; }
    if (strcmp(field, "acks") == 0) { op->acks = (int32_t)number; }
    if (strcmp(field, "idempotent") == 0) { op->is_idempotent = number != 0; }
    if (strcmp(field, "session") == 0) { op->session = (uint32_t)number; }
    if (strcmp(field, "final") == 0) { op->is_final = number != 0; }
    if (strcmp(field, "at") == 0) { op->at = number; }
    if (strcmp(field, "timestamp") == 0) { op->timestamp_ms = number; }
    if (strcmp(field, "count") == 0) { op->count = number; }
    if (strcmp(field, "offset") == 0) { op->offset = number; }
    if (strcmp(field, "error") == 0) { op->error = (int32_t)number; }
    return true; /* a field that we don't know is somebody else's */
}

static bool read_line(struct history *history, char *line)
{
    char *rest = NULL;
    char *words[5];
    for (int i = 0; i < 5; i++) {
        words[i] = strtok_r(i == 0 ? line : NULL, " ", &rest);
        if (words[i] == NULL) { return false; }
    }
    int64_t now, number;
    int what, kind;
    if (!read_i64(words[0], &now) || !read_i64(words[2], &number) || now < 0 || number < 0) { return false; }
    if (!find_word(words[3], what_names, 4, &what)) { return false; }
    if (!find_word(words[4], kind_names, HISTORY_KIND_COUNT, &kind)) { return false; }
    struct history_op op = history_op_init((enum history_kind)kind, words[1], (uint64_t)now);
    for (char *field; (field = strtok_r(NULL, " ", &rest)) != NULL;) {
        if (!read_field(&op, field)) {
            drop_group(&op);
            return false;
        }
    }
    bool is_of_group = op.kind >= HISTORY_JOIN && op.kind <= HISTORY_DISBAND;
    if (is_of_group && op.group == NULL) { (void)history_add_group(&op); } /* it says nothing of it */
    if (number == history->op_count) {
        if (what == HISTORY_INVOKE) {
            (void)history_invoke(history, &op); /* its number is the line's */
        } else {
            history_once(history, &op);
            history->ops[number].what = (enum history_what)what;
        }
        return true;
    }
    struct history_op *begun = number > history->op_count || what == HISTORY_INVOKE ? NULL : &history->ops[number];
    if (begun == NULL || begun->what != HISTORY_INVOKE || begun->kind != op.kind) {
        drop_group(&op);
        return false;
    }
    op.invoke_ns = begun->invoke_ns;
    drop_group(begun);
    *begun = op;
    begun->what = HISTORY_INVOKE;
    history_end(history, (uint32_t)number, (enum history_what)what, (uint64_t)now);
    return true;
}

enum base_rc history_read(struct history *history, FILE *from, uint32_t *line_out)
{
    char line[8192]; /* what a member of a large group owns is long */
    *line_out = 0;
    while (fgets(line, sizeof line, from) != NULL) {
        *line_out += 1;
        size_t size_bytes = strlen(line);
        if (size_bytes == 0 || line[size_bytes - 1] != '\n') { return BASE_BAD; }
        line[size_bytes - 1] = 0;
        if (*line_out == 1) {
            if (strcmp(line, "weir-history 1") != 0) { return BASE_BAD; }
            continue;
        }
        if (!read_line(history, line)) { return BASE_BAD; }
    }
    return *line_out == 0 ? BASE_BAD : BASE_OK;
}
