/* settings.c: see settings.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/settings.h"

#include "metadata/metadata.h"

/* Where the numbers go. Texts are read by name, in apply_texts. */
static const struct {
    const char *name;
    size_t at_bytes;
    size_t size_bytes;
} fields[] = {
#define FIELD(name, field) {name, offsetof(struct settings, field), sizeof(((struct settings *)NULL)->field)}
    FIELD("auto.create.topics.enable", broker.is_auto_create),
    FIELD("fetch.max.bytes", broker.fetch_bytes_max),
    FIELD("group.initial.rebalance.delay.ms", broker.group_initial_delay_ms),
    FIELD("group.max.session.timeout.ms", broker.group_session_max_ms),
    FIELD("group.max.size", broker.group_size_max),
    FIELD("group.min.session.timeout.ms", broker.group_session_min_ms),
    FIELD("max.connections", connections_max),
    FIELD("max.connections.per.ip", broker.address_connections_max),
    FIELD("max.decompressed.message.bytes", broker.decompressed_bytes_max),
    FIELD("max.incremental.fetch.session.cache.slots", broker.session_slots_max),
    FIELD("max.request.partition.size.limit", broker.described_partitions_max),
    FIELD("metadata.log.max.record.bytes.between.snapshots", broker.metadata_grown_bytes),
    FIELD("node.id", broker.node_id),
    FIELD("num.partitions", broker.partitions_default),
    FIELD("log.retention.check.interval.ms", broker.retention_check_ms),
    FIELD("offset.metadata.max.bytes", broker.offset_metadata_max),
    FIELD("offsets.retention.check.interval.ms", broker.offsets_check_ms),
    FIELD("offsets.retention.minutes", broker.offsets_retention_minutes),
    FIELD("producer.id.expiration.ms", broker.producer_expiry_ms),
    FIELD("queued.max.request.bytes", queued_bytes_max),
    FIELD("socket.request.max.bytes", broker.request_bytes_max),
    FIELD("weir.check.slow", broker.is_check_slow),
    FIELD("weir.coordinator.groups", broker.coordinator_groups),
    FIELD("weir.fetch.session.bytes.max", broker.session_bytes_max),
    FIELD("weir.fetch.session.eviction.ms", broker.session_eviction_ms),
    FIELD("weir.files.max", files_max),
    FIELD("weir.group.members.max", broker.group_members_max),
    FIELD("weir.group.offsets.max", broker.group_offsets_max),
    FIELD("weir.groups.max", broker.groups_max),
    FIELD("weir.journal.bytes.max", broker.journal_bytes_max),
    FIELD("weir.memory.max.bytes", memory_max_bytes),
    FIELD("weir.metrics.group.label", is_group_label),
    FIELD("weir.shards", shards),
    FIELD("weir.shutdown.timeout.ms", broker.shutdown_ms),
};

#define LEVEL_PREFIX    "weir.log.level."
#define LISTENER_PREFIX "listener.name."
/* A connection is closed when idle for ever: some 290 years. */
#define IDLE_NEVER_MS   (UINT64_MAX / 2000000)

static bool begins_with(struct base_slice name, const char *words)
{
    size_t words_bytes = strlen(words);
    return name.size_bytes >= words_bytes && memcmp(name.at, words, words_bytes) == 0;
}

static bool is(struct base_slice name, const char *words) { return base_slice_equal(name, base_slice_text(words)); }

const struct settings_definition *settings_find(struct base_slice name)
{
    if (begins_with(name, LEVEL_PREFIX)) { name = base_slice_text("weir.log.level"); }
    uint32_t low = 0;
    uint32_t high = settings_count();
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct settings_definition *definition = settings_at(middle);
        int order = base_slice_compare(name, base_slice_text(definition->name));
        if (order == 0) { return definition; }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

/* ---- small readings ---- */

static bool is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\f' || c == '\r'; }

static struct base_slice trimmed(struct base_slice words)
{
    while (words.size_bytes > 0 && is_blank(words.at[0])) {
        words.at += 1;
        words.size_bytes -= 1;
    }
    while (words.size_bytes > 0 && is_blank(words.at[words.size_bytes - 1])) { words.size_bytes -= 1; }
    return words;
}

/* Takes the words before the first `separator` off `rest`, trimmed. False: there were none left. */
static bool take_word(struct base_slice *rest, uint8_t separator, struct base_slice *word_out)
{
    if (rest->size_bytes == 0) { return false; }
    size_t length = 0;
    while (length < rest->size_bytes && rest->at[length] != separator) { length += 1; }
    *word_out = trimmed(base_slice_of(rest->at, length));
    size_t gone = length < rest->size_bytes ? length + 1 : length;
    rest->at += gone;
    rest->size_bytes -= gone;
    return true;
}

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }

static bool is_word(struct base_slice value, const char *word)
{
    size_t length = strlen(word);
    if (value.size_bytes != length) { return false; }
    for (size_t i = 0; i < length; i++) {
        if (lower(value.at[i]) != lower((uint8_t)word[i])) { return false; }
    }
    return true;
}

/* The number of the choice that `value` is, or -1. */
static int32_t choice_of(const char *choices, struct base_slice value)
{
    struct base_slice rest = base_slice_text(choices);
    struct base_slice word;
    for (int32_t index = 0; take_word(&rest, '|', &word); index++) {
        if (base_slice_equal(word, value)) { return index; }
    }
    return -1;
}

static size_t digits_at(struct base_slice value, size_t at)
{
    size_t end = at;
    while (end < value.size_bytes && value.at[end] >= '0' && value.at[end] <= '9') { end += 1; }
    return end - at;
}

/* -12.5e-3: only its form is judged, the core does not count with it. */
static bool is_decimal(struct base_slice value)
{
    size_t at = value.size_bytes > 0 && (value.at[0] == '-' || value.at[0] == '+') ? 1 : 0;
    size_t whole = digits_at(value, at);
    size_t part = 0;
    at += whole;
    if (at < value.size_bytes && value.at[at] == '.') {
        part = digits_at(value, at + 1);
        at += 1 + part;
    }
    if (whole + part == 0) { return false; }
    if (at < value.size_bytes && lower(value.at[at]) == 'e') {
        at += 1;
        if (at < value.size_bytes && (value.at[at] == '-' || value.at[at] == '+')) { at += 1; }
        size_t power = digits_at(value, at);
        if (power == 0) { return false; }
        at += power;
    }
    return at == value.size_bytes;
}

static void why_add(struct base_text *why, const char *words)
{
    if (why != NULL) { base_text_add(why, words); }
}

static enum base_rc check_number(const struct settings_definition *definition, struct base_slice value,
                                 struct base_text *why)
{
    int64_t min = definition->min;
    int64_t max = definition->max;
    if (definition->type == SETTINGS_INT) {
        min = base_max_i64(min, INT32_MIN);
        max = base_min_i64(max, INT32_MAX);
    } else if (definition->type == SETTINGS_SHORT) {
        min = base_max_i64(min, INT16_MIN);
        max = base_min_i64(max, INT16_MAX);
    }
    int64_t number = 0;
    if (base_text_parse_i64(value, &number) == BASE_OK && number >= min && number <= max) { return BASE_OK; }
    if (why != NULL) {
        base_text_add(why, "should be a whole number from ");
        base_text_add_i64(why, min);
        base_text_add(why, " to ");
        base_text_add_i64(why, max);
    }
    return BASE_BAD;
}

enum base_rc settings_check(const struct settings_definition *definition, struct base_slice value,
                            struct base_text *why)
{
    value = trimmed(value);
    if (definition->use == SETTINGS_TOPIC_DEFAULT) {
        enum base_rc rc = metadata_broker_value_check(base_slice_text(definition->name), value, why);
        if (rc != BASE_MISSING) { return rc; }
    }
    if (definition->choices != NULL && choice_of(definition->choices, value) < 0) {
        why_add(why, "should be one of ");
        why_add(why, definition->choices);
        return BASE_BAD;
    }
    switch (definition->type) {
    case SETTINGS_BOOLEAN:
        if (is_word(value, "true") || is_word(value, "false")) { return BASE_OK; }
        why_add(why, "should be true or false");
        return BASE_BAD;
    case SETTINGS_INT:
    case SETTINGS_SHORT:
    case SETTINGS_LONG: return check_number(definition, value, why);
    case SETTINGS_DOUBLE:
        if (is_decimal(value)) { return BASE_OK; }
        why_add(why, "should be a decimal number");
        return BASE_BAD;
    case SETTINGS_STRING:
    case SETTINGS_LIST: return BASE_OK;
    }
    return BASE_BAD;
}

/* ---- nearest names ---- */

/* Levenshtein's distance: insertions, deletions, replacements. */
static uint32_t distance_of(struct base_slice a, struct base_slice b)
{
    uint32_t row[SETTINGS_NAME_MAX + 1];
    CHECK(b.size_bytes <= SETTINGS_NAME_MAX);
    for (uint32_t j = 0; j <= b.size_bytes; j++) { row[j] = j; }
    for (uint32_t i = 1; i <= a.size_bytes; i++) {
        uint32_t before = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= b.size_bytes; j++) {
            uint32_t replaced = before + (lower(a.at[i - 1]) == lower(b.at[j - 1]) ? 0U : 1U);
            uint32_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            before = row[j];
            row[j] = replaced < other ? replaced : other;
        }
    }
    return row[b.size_bytes];
}

uint32_t settings_nearest(struct base_slice name, const char *nearest_out[3])
{
    uint32_t distances[3];
    uint32_t count = 0;
    if (name.size_bytes > SETTINGS_NAME_MAX) { return 0; }
    uint32_t limit = (uint32_t)name.size_bytes / 3 + 2;
    for (uint32_t i = 0; i < settings_count(); i++) {
        uint32_t distance = distance_of(name, base_slice_text(settings_at(i)->name));
        if (distance > limit) { continue; }
        uint32_t place = count;
        while (place > 0 && distances[place - 1] > distance) { place -= 1; }
        if (place == 3) { continue; }
        if (count < 3) { count += 1; }
        for (uint32_t j = count - 1; j > place; j--) {
            distances[j] = distances[j - 1];
            nearest_out[j] = nearest_out[j - 1];
        }
        distances[place] = distance;
        nearest_out[place] = settings_at(i)->name;
    }
    return count;
}

/* ---- gathering ---- */

enum base_rc settings_list_create(struct base_arena *arena, struct settings_list *list_out)
{
    struct settings_entry *entries = base_arena_take_array(arena, SETTINGS_ENTRIES_MAX, sizeof *entries);
    if (entries == NULL) { return BASE_FULL; }
    *list_out = (struct settings_list){.entries = entries};
    return BASE_OK;
}

static void why_entry(struct base_text *why, struct base_slice name, enum settings_layer layer, uint32_t line)
{
    if (layer == SETTINGS_FILE) {
        base_text_add(why, "line ");
        base_text_add_i64(why, line);
        base_text_add(why, ": ");
    }
    base_text_add(why, "'");
    base_text_add_slice(why, name);
    base_text_add(why, "' ");
}

enum base_rc settings_add(struct settings_list *list, enum settings_layer layer, uint32_t line, struct base_slice name,
                          struct base_slice value, struct base_text *why)
{
    if (list->count == SETTINGS_ENTRIES_MAX) {
        base_text_add(why, "too many properties");
        return BASE_FULL;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const struct settings_entry *entry = &list->entries[i];
        if (entry->layer != layer || !base_slice_equal(entry->name, name)) { continue; }
        why_entry(why, name, layer, line);
        base_text_add(why, "is given twice");
        if (layer == SETTINGS_FILE) {
            base_text_add(why, ", before in line ");
            base_text_add_i64(why, entry->line);
        }
        return BASE_BAD;
    }
    list->entries[list->count] = (struct settings_entry){.name = name, .value = value, .layer = layer, .line = line};
    list->count += 1;
    return BASE_OK;
}

enum base_rc settings_add_assignment(struct settings_list *list, struct base_slice words, struct base_text *why)
{
    size_t at = 0;
    while (at < words.size_bytes && words.at[at] != '=') { at += 1; }
    struct base_slice name = trimmed(base_slice_of(words.at, at));
    if (at == words.size_bytes || name.size_bytes == 0) {
        base_text_add(why, "'");
        base_text_add_slice(why, words);
        base_text_add(why, "' is not NAME=VALUE");
        return BASE_BAD;
    }
    struct base_slice value = base_slice_of(words.at + at + 1, words.size_bytes - at - 1);
    return settings_add(list, SETTINGS_COMMAND_LINE, 0, name, trimmed(value), why);
}

/* ---- Java's properties syntax ---- */

struct reader {
    struct base_slice rest;
    uint32_t line; /* of what comes next, from 1 */
    uint8_t *out;  /* room for as many bytes as the whole text */
    bool is_bad;
};

static bool is_line_end(uint8_t c) { return c == '\n' || c == '\r'; }

static void skip_bytes(struct reader *reader, size_t count)
{
    reader->rest.at += count;
    reader->rest.size_bytes -= count;
}

static void skip_line_end(struct reader *reader)
{
    if (reader->rest.size_bytes == 0) { return; }
    bool is_pair = reader->rest.size_bytes > 1 && reader->rest.at[0] == '\r' && reader->rest.at[1] == '\n';
    skip_bytes(reader, is_pair ? 2 : 1);
    reader->line += 1;
}

static void skip_blanks(struct reader *reader)
{
    while (reader->rest.size_bytes > 0 &&
           (reader->rest.at[0] == ' ' || reader->rest.at[0] == '\t' || reader->rest.at[0] == '\f')) {
        skip_bytes(reader, 1);
    }
}

static void put_rune(struct reader *reader, uint32_t rune)
{
    if (rune < 0x80) {
        *reader->out++ = (uint8_t)rune;
    } else if (rune < 0x800) {
        *reader->out++ = (uint8_t)(0xC0U | rune >> 6);
        *reader->out++ = (uint8_t)(0x80U | (rune & 0x3FU));
    } else {
        *reader->out++ = (uint8_t)(0xE0U | rune >> 12);
        *reader->out++ = (uint8_t)(0x80U | (rune >> 6 & 0x3FU));
        *reader->out++ = (uint8_t)(0x80U | (rune & 0x3FU));
    }
}

/* Four hexadecimal digits after \u. Surrogates are refused: no property needs them. */
static void read_unicode(struct reader *reader)
{
    uint32_t rune = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint8_t c = reader->rest.size_bytes > i ? lower(reader->rest.at[i]) : 0;
        if (c >= '0' && c <= '9') {
            rune = rune << 4 | (uint32_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            rune = rune << 4 | (uint32_t)(c - 'a' + 10);
        } else {
            reader->is_bad = true;
            return;
        }
    }
    if (rune >= 0xD800 && rune < 0xE000) {
        reader->is_bad = true;
        return;
    }
    skip_bytes(reader, 4);
    put_rune(reader, rune);
}

/* What follows a backslash, which is gone already. */
static void read_escape(struct reader *reader)
{
    if (reader->rest.size_bytes == 0) { return; } /* a last lone backslash means nothing */
    uint8_t c = reader->rest.at[0];
    if (is_line_end(c)) {
        skip_line_end(reader);
        skip_blanks(reader);
        return;
    }
    skip_bytes(reader, 1);
    switch (c) {
    case 't': *reader->out++ = '\t'; return;
    case 'n': *reader->out++ = '\n'; return;
    case 'r': *reader->out++ = '\r'; return;
    case 'f': *reader->out++ = '\f'; return;
    case 'u': read_unicode(reader); return;
    default: *reader->out++ = c; return;
    }
}

/* Unescaped bytes up to the end of the logical line, or (is_name) to what ends a name. */
static struct base_slice read_words(struct reader *reader, bool is_name)
{
    const uint8_t *start = reader->out;
    while (reader->rest.size_bytes > 0 && !reader->is_bad) {
        uint8_t c = reader->rest.at[0];
        if (is_line_end(c)) { break; }
        if (is_name && (c == '=' || c == ':' || c == ' ' || c == '\t' || c == '\f')) { break; }
        skip_bytes(reader, 1);
        if (c == '\\') {
            read_escape(reader);
        } else {
            *reader->out++ = c;
        }
    }
    return base_slice_of(start, (size_t)(reader->out - start));
}

static void skip_separator(struct reader *reader)
{
    skip_blanks(reader);
    if (reader->rest.size_bytes > 0 && (reader->rest.at[0] == '=' || reader->rest.at[0] == ':')) {
        skip_bytes(reader, 1);
        skip_blanks(reader);
    }
}

static bool has_zero(struct base_slice words)
{
    for (size_t i = 0; i < words.size_bytes; i++) {
        if (words.at[i] == 0) { return true; }
    }
    return false;
}

enum base_rc settings_read(struct settings_list *list, struct base_arena *arena, struct base_slice text,
                           struct base_text *why)
{
    struct reader reader = {.rest = text, .line = 1};
    reader.out = base_arena_take_bytes(arena, text.size_bytes + 1);
    if (reader.out == NULL) {
        base_text_add(why, "too large");
        return BASE_FULL;
    }
    bool has_mark = text.size_bytes >= 3 && memcmp(text.at, "\xEF\xBB\xBF", 3) == 0;
    if (has_mark) { skip_bytes(&reader, 3); } /* that it is UTF-8: editors put it there, and nobody sees it */
    while (reader.rest.size_bytes > 0) {
        skip_blanks(&reader);
        uint8_t c = reader.rest.size_bytes > 0 ? reader.rest.at[0] : '\n';
        if (c == '#' || c == '!') {
            while (reader.rest.size_bytes > 0 && !is_line_end(reader.rest.at[0])) { skip_bytes(&reader, 1); }
            c = '\n';
        }
        if (is_line_end(c)) {
            skip_line_end(&reader);
            continue;
        }
        uint32_t line = reader.line;
        struct base_slice name = read_words(&reader, true);
        skip_separator(&reader);
        struct base_slice value = read_words(&reader, false);
        if (reader.is_bad) {
            base_text_add(why, "line ");
            base_text_add_i64(why, line);
            base_text_add(why, ": malformed \\uxxxx");
            return BASE_BAD;
        }
        /* Names of the system end there. A file in UTF-16 is full of them. */
        if (has_zero(name) || has_zero(value)) {
            base_text_add(why, "line ");
            base_text_add_i64(why, line);
            base_text_add(why, ": has a byte of zero: should be text in UTF-8");
            return BASE_BAD;
        }
        enum base_rc rc = settings_add(list, SETTINGS_FILE, line, name, trimmed(value), why);
        if (rc != BASE_OK) { return rc; }
    }
    return BASE_OK;
}

/* ---- listeners ---- */

static enum base_rc complain(struct base_text *why, struct base_slice value, const char *words)
{
    base_text_add(why, "'");
    base_text_add_slice(why, value);
    base_text_add(why, "' ");
    base_text_add(why, words);
    return BASE_BAD;
}

/* NAME://host:port */
static enum base_rc read_listener(struct base_slice words, struct base_slice *name_out, struct base_slice *host_out,
                                  uint16_t *port_out)
{
    size_t at = 0;
    while (at + 3 <= words.size_bytes && memcmp(words.at + at, "://", 3) != 0) { at += 1; }
    if (at == 0 || at + 3 > words.size_bytes) { return BASE_BAD; }
    if (at >= sizeof(((struct broker_listener *)NULL)->name)) { return BASE_BAD; }
    *name_out = base_slice_of(words.at, at);
    return port_host_from_text(base_slice_of(words.at + at + 3, words.size_bytes - at - 3), host_out, port_out);
}

/* The protocol of a listener's name: by listener.security.protocol.map, else the name itself. */
static enum base_rc protocol_of(struct base_slice map, struct base_slice name, enum settings_protocol *protocol_out)
{
    static const char protocols[] = "PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL";
    struct base_slice found = name;
    struct base_slice pair;
    while (take_word(&map, ',', &pair)) {
        struct base_slice left;
        if (take_word(&pair, ':', &left) && base_slice_equal(left, name)) { found = trimmed(pair); }
    }
    int32_t choice = choice_of(protocols, found);
    if (choice < 0) { return BASE_BAD; }
    *protocol_out = (enum settings_protocol)choice;
    return BASE_OK;
}

static bool is_listed(struct base_slice list, struct base_slice name)
{
    struct base_slice word;
    while (take_word(&list, ',', &word)) {
        if (base_slice_equal(word, name)) { return true; }
    }
    return false;
}

/* The value in force: of the command line, else of the file, else the default (at == NULL: none). */
static struct base_slice value_of(const struct settings_list *list, const char *name)
{
    const struct settings_definition *definition = settings_find(base_slice_text(name));
    CHECK(definition != NULL);
    struct base_slice value = {0};
    if (definition->default_value != NULL) { value = base_slice_text(definition->default_value); }
    enum settings_layer layer = SETTINGS_FILE;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct settings_entry *entry = &list->entries[i];
        if (entry->layer < layer || !base_slice_equal(entry->name, base_slice_text(name))) { continue; }
        layer = entry->layer;
        value = trimmed(entry->value);
    }
    return value;
}

static bool is_set(const struct settings_list *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (base_slice_equal(list->entries[i].name, base_slice_text(name))) { return true; }
    }
    return false;
}

static enum base_rc add_listener(const struct settings_list *list, struct settings *settings, struct base_slice words,
                                 struct base_text *why, struct base_text *warnings)
{
    struct settings_listener listener = {0};
    if (read_listener(words, &listener.name, &listener.host, &listener.port) != BASE_OK) {
        return complain(why, words, "in listeners is not NAME://HOST:PORT");
    }
    if (is_listed(value_of(list, "controller.listener.names"), listener.name)) {
        base_text_add(warnings, "the listener '");
        base_text_add_slice(warnings, listener.name);
        base_text_add(warnings, "' is for controllers, which need none here; it is left out\n");
        return BASE_OK;
    }
    enum settings_protocol protocol = SETTINGS_PLAINTEXT;
    if (protocol_of(value_of(list, "listener.security.protocol.map"), listener.name, &protocol) != BASE_OK) {
        return complain(why, listener.name, "in listeners has no protocol in listener.security.protocol.map");
    }
    if (protocol != SETTINGS_PLAINTEXT) {
        return complain(why, words, "in listeners asks for SSL or SASL, which are not there yet: use PLAINTEXT");
    }
    for (uint32_t i = 0; i < settings->listener_count; i++) {
        const struct settings_listener *other = &settings->listeners[i];
        if (base_slice_equal(other->name, listener.name)) { return complain(why, listener.name, "is listed twice"); }
        if (other->port == listener.port && listener.port != 0 && base_slice_equal(other->host, listener.host)) {
            return complain(why, words, "in listeners has the address of another one");
        }
    }
    if (settings->listener_count == BROKER_LISTENERS_MAX) { return complain(why, words, "is one listener too many"); }
    settings->listeners[settings->listener_count] = listener;
    settings->listener_count += 1;
    return BASE_OK;
}

static enum base_rc advertise(const struct settings_list *list, struct settings *settings, struct base_slice words,
                              struct base_text *why)
{
    struct base_slice name;
    struct base_slice host;
    uint16_t port = 0;
    if (read_listener(words, &name, &host, &port) != BASE_OK || host.size_bytes == 0) {
        return complain(why, words, "in advertised.listeners is not NAME://HOST:PORT");
    }
    if (is(host, "0.0.0.0") || is(host, "::")) {
        return complain(why, words, "in advertised.listeners is no address that a client could reach");
    }
    for (uint32_t i = 0; i < settings->listener_count; i++) {
        struct settings_listener *listener = &settings->listeners[i];
        if (!base_slice_equal(listener->name, name)) { continue; }
        listener->host_advertised = host;
        listener->port_advertised = port;
        return BASE_OK;
    }
    if (is_listed(value_of(list, "controller.listener.names"), name)) { return BASE_OK; } /* left out above, too */
    return complain(why, name, "in advertised.listeners is not in listeners");
}

static enum base_rc apply_listeners(const struct settings_list *list, struct settings *settings, struct base_text *why,
                                    struct base_text *warnings)
{
    struct base_slice rest = value_of(list, "listeners");
    struct base_slice word;
    while (take_word(&rest, ',', &word)) {
        if (word.size_bytes == 0) { continue; }
        if (add_listener(list, settings, word, why, warnings) != BASE_OK) { return BASE_BAD; }
    }
    if (settings->listener_count == 0) {
        return complain(why, value_of(list, "listeners"), "has no listener to serve");
    }
    rest = value_of(list, "advertised.listeners");
    while (take_word(&rest, ',', &word)) {
        if (word.size_bytes > 0 && advertise(list, settings, word, why) != BASE_OK) { return BASE_BAD; }
    }
    return BASE_OK;
}

/* ---- judging ---- */

static void set_field(struct settings *settings, size_t index, struct base_slice value)
{
    int64_t number = 0;
    if (base_text_parse_i64(value, &number) != BASE_OK) { number = is_word(value, "true") ? 1 : 0; }
    uint8_t *at = (uint8_t *)settings + fields[index].at_bytes;
    uint64_t wide = (uint64_t)number;
    uint32_t narrow = (uint32_t)number;
    bool flag = number != 0;
    switch (fields[index].size_bytes) {
    case sizeof(uint64_t): memcpy(at, &wide, sizeof wide); break;
    case sizeof(uint32_t): memcpy(at, &narrow, sizeof narrow); break;
    case sizeof(bool): memcpy(at, &flag, sizeof flag); break;
    default: UNREACHABLE();
    }
}

static enum base_rc apply_log_dirs(const struct settings_list *list, struct settings *settings, struct base_text *why)
{
    struct base_slice rest = value_of(list, "log.dirs");
    if (rest.size_bytes == 0) { rest = value_of(list, "log.dir"); }
    struct base_slice word;
    while (take_word(&rest, ',', &word)) {
        if (word.size_bytes == 0) { continue; }
        if (settings->log_dir.size_bytes > 0) {
            return complain(why, word, "is a second log directory: there may be only one (log.dirs)");
        }
        settings->log_dir = word;
    }
    return settings->log_dir.size_bytes > 0 ? BASE_OK : complain(why, rest, "names no log directory (log.dirs)");
}

static enum base_rc apply_node(const struct settings_list *list, struct settings *settings, struct base_text *why)
{
    struct base_slice old = value_of(list, "broker.id");
    int64_t id = -1;
    if (is_set(list, "broker.id") && base_text_parse_i64(old, &id) == BASE_OK && id >= 0) {
        if (is_set(list, "node.id") && id != settings->broker.node_id) {
            return complain(why, old, "of broker.id is not the node.id");
        }
        settings->broker.node_id = (int32_t)id;
    }
    struct base_slice rack = value_of(list, "broker.rack");
    if (rack.size_bytes > METADATA_WORD_MAX) { return complain(why, rack, "of broker.rack is too long"); }
    struct base_slice rest = value_of(list, "process.roles");
    struct base_slice role;
    bool is_broker = false;
    bool is_controller = false;
    while (take_word(&rest, ',', &role)) {
        if (role.size_bytes == 0) { continue; }
        if (!is(role, "broker") && !is(role, "controller")) {
            return complain(why, role, "is no role (process.roles)");
        }
        is_broker = is_broker || is(role, "broker");
        is_controller = is_controller || is(role, "controller");
    }
    if (is_broker && is_controller) { return BASE_OK; }
    return complain(why, value_of(list, "process.roles"), "of process.roles: every node is broker,controller here");
}

/* ADDRESS:COUNT,...; Kafka takes host names too. */
static enum base_rc apply_address_limits(const struct settings_list *list, struct settings *settings,
                                         struct base_text *why)
{
    struct base_slice rest = value_of(list, "max.connections.per.ip.overrides");
    struct base_slice word;
    settings->broker.address_limits = settings->address_limits;
    while (take_word(&rest, ',', &word)) {
        if (word.size_bytes == 0) { continue; }
        struct base_slice address_words;
        struct base_slice limit_words;
        struct port_address address;
        int64_t limit = -1;
        if (!base_slice_split_last(word, ':', &address_words, &limit_words) ||
            port_address_from_text(trimmed(address_words), &address) != BASE_OK ||
            base_text_parse_i64(trimmed(limit_words), &limit) != BASE_OK || limit < 0 || limit > INT32_MAX) {
            return complain(why, word,
                            "of max.connections.per.ip.overrides is not ADDRESS:COUNT, the address in numbers");
        }
        if (settings->broker.address_limit_count == BROKER_ADDRESS_LIMITS_MAX) {
            return complain(why, word, "of max.connections.per.ip.overrides is one too many: there may be 64");
        }
        struct broker_address_limit *at = &settings->address_limits[settings->broker.address_limit_count];
        memcpy(at->ip, address.ip, sizeof at->ip);
        at->connections_max = (int32_t)limit;
        settings->broker.address_limit_count += 1;
    }
    return BASE_OK;
}

static enum base_rc apply_queued_bytes(const struct settings_list *list, struct settings *settings,
                                       struct base_text *why)
{
    int64_t most_bytes = settings->queued_bytes_max;
    if (most_bytes <= 0 || most_bytes >= (int64_t)settings->broker.request_bytes_max) { return BASE_OK; }
    return complain(why, value_of(list, "queued.max.request.bytes"),
                    "of queued.max.request.bytes is less than one request may have (socket.request.max.bytes)");
}

static enum base_rc apply_level(struct settings *settings, struct base_slice room, struct base_slice value,
                                struct base_text *why)
{
    enum port_level level = (enum port_level)choice_of("trace|debug|info|warn|error|fatal", value);
    uint32_t logger = room.size_bytes == 0 ? 0 : broker_logger(room);
    if (logger == BROKER_LOGGERS || (logger == 0 && room.size_bytes > 0)) {
        (void)complain(why, room, "is no room; there are"); /* the answer is the same below */
        for (uint32_t i = 1; i < BROKER_LOGGERS; i++) {
            base_text_add(why, " ");
            base_text_add(why, broker_logger_name(i));
        }
        return BASE_BAD;
    }
    settings->broker.levels[logger] = (int8_t)level;
    return BASE_OK;
}

/* Everything that is not a number of its own field. */
static enum base_rc apply_texts(const struct settings_list *list, struct settings *settings, struct base_text *why)
{
    settings->cluster_id = value_of(list, "weir.cluster.id");
    if (settings->cluster_id.size_bytes >= sizeof settings->broker.cluster_id) {
        return complain(why, settings->cluster_id, "of weir.cluster.id is longer than 22 characters");
    }
    settings->http_listener = value_of(list, "weir.http.listener");
    settings->is_http_listener_set = is_set(list, "weir.http.listener");
    if (settings->http_listener.size_bytes > 0 &&
        port_host_from_text(settings->http_listener, &settings->http_host, &settings->http_port) != BASE_OK) {
        return complain(why, settings->http_listener, "of weir.http.listener is not HOST:PORT");
    }
    settings->log_format = (enum settings_log_format)choice_of("text|json", value_of(list, "weir.log.format"));
    settings->broker.validates_records = is(value_of(list, "weir.record.validation"), "full");
    int64_t idle_ms = 0;
    enum base_rc idle_rc = base_text_parse_i64(value_of(list, "connections.max.idle.ms"), &idle_ms);
    CHECK(idle_rc == BASE_OK); /* judged before */
    settings->broker.idle_ms = idle_ms < 0 || (uint64_t)idle_ms > IDLE_NEVER_MS ? IDLE_NEVER_MS : (uint64_t)idle_ms;
    enum base_rc rc = apply_level(settings, (struct base_slice){0}, value_of(list, "weir.log.level"), why);
    for (uint32_t layer = SETTINGS_FILE; layer <= SETTINGS_COMMAND_LINE && rc == BASE_OK; layer++) {
        for (uint32_t i = 0; i < list->count && rc == BASE_OK; i++) {
            const struct settings_entry *entry = &list->entries[i];
            if ((uint32_t)entry->layer != layer || !begins_with(entry->name, LEVEL_PREFIX)) { continue; }
            size_t prefix = strlen(LEVEL_PREFIX);
            rc = apply_level(settings, base_slice_of(entry->name.at + prefix, entry->name.size_bytes - prefix),
                             trimmed(entry->value), why);
        }
    }
    return rc;
}

static enum base_rc unknown(const struct settings_entry *entry, struct base_text *why)
{
    const char *nearest[3];
    uint32_t count = settings_nearest(entry->name, nearest);
    why_entry(why, entry->name, entry->layer, entry->line);
    base_text_add(why, "is no property");
    for (uint32_t i = 0; i < count; i++) {
        base_text_add(why, i == 0 ? "; did you mean '" : "', '");
        base_text_add(why, nearest[i]);
    }
    if (count > 0) { base_text_add(why, "'?"); }
    return BASE_BAD;
}

static enum base_rc refuse(const struct settings_entry *entry, struct base_text *why)
{
    why_entry(why, entry->name, entry->layer, entry->line);
    base_text_add(why, "is Kafka's, and what it promises is not there yet: leave it out");
    return BASE_BAD;
}

/* Checks one entry, and warns of one without a meaning. */
static enum base_rc judge(const struct settings_entry *entry, struct base_text *why, struct base_text *warnings)
{
    const struct settings_definition *definition = settings_find(entry->name);
    bool is_of_listener = begins_with(entry->name, LISTENER_PREFIX); /* listener.name.NAME.ANY: any name is Kafka's */
    if (definition == NULL && !is_of_listener) { return unknown(entry, why); }
    if (definition == NULL || definition->use == SETTINGS_IGNORED) {
        base_text_add(warnings, "'");
        base_text_add_slice(warnings, entry->name);
        base_text_add(warnings, "' is Kafka's and has no meaning here\n");
        if (definition == NULL) { return BASE_OK; }
    }
    if (definition->use == SETTINGS_REFUSED && trimmed(entry->value).size_bytes > 0) { return refuse(entry, why); }
    size_t before = why->used_bytes;
    why_entry(why, entry->name, entry->layer, entry->line);
    base_text_add(why, "is '");
    base_text_add_slice(why, entry->value);
    base_text_add(why, "': ");
    if (settings_check(definition, entry->value, why) != BASE_OK) { return BASE_BAD; }
    why->used_bytes = before;
    why->at[before] = '\0';
    return BASE_OK;
}

static enum base_rc apply_pair(const struct settings_list *list, const struct settings_entry *entry,
                               struct settings *settings, struct base_text *why)
{
    const struct settings_definition *definition = settings_find(entry->name);
    if (definition == NULL) { return BASE_OK; }
    struct base_slice value = value_of(list, definition->name);
    for (uint32_t i = 0; i < settings->broker.pair_count; i++) {
        if (base_slice_equal(settings->pairs[i].name, entry->name)) { return BASE_OK; } /* the other layer's */
    }
    if (settings->broker.pair_count == BROKER_PAIRS_MAX) {
        base_text_add(why, "too many properties");
        return BASE_FULL;
    }
    settings->pairs[settings->broker.pair_count] = (struct broker_pair){.name = entry->name, .value = value};
    settings->broker.pair_count += 1;
    return BASE_OK;
}

enum base_rc settings_apply(const struct settings_list *list, struct settings *settings_out, struct base_text *why,
                            struct base_text *warnings)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (judge(&list->entries[i], why, warnings) != BASE_OK) { return BASE_BAD; }
    }
    memset(settings_out, 0, sizeof *settings_out);
    broker_config_default(&settings_out->broker);
    settings_out->broker.pairs = settings_out->pairs;
    settings_out->broker.pair_count = 0;
    for (size_t i = 0; i < BASE_ARRAY_COUNT(fields); i++) {
        struct base_slice value = value_of(list, fields[i].name);
        if (value.at != NULL) { set_field(settings_out, i, value); }
    }
    enum base_rc rc = apply_texts(list, settings_out, why);
    if (rc == BASE_OK) { rc = apply_log_dirs(list, settings_out, why); }
    if (rc == BASE_OK) { rc = apply_node(list, settings_out, why); }
    if (rc == BASE_OK) { rc = apply_address_limits(list, settings_out, why); }
    if (rc == BASE_OK) { rc = apply_queued_bytes(list, settings_out, why); }
    if (rc == BASE_OK) { rc = apply_listeners(list, settings_out, why, warnings); }
    for (uint32_t i = 0; i < list->count && rc == BASE_OK; i++) {
        rc = apply_pair(list, &list->entries[i], settings_out, why);
    }
    return rc;
}
