/* metadata_config.c: values of configs: read, judged in Kafka's words, and which of several levels is in force.
 *
 * Room    core/metadata.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "metadata/metadata__room.h"

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static bool is_space(uint8_t c) { return c <= ' '; } /* Java's String.trim */

struct base_slice metadata__trimmed(struct base_slice text)
{
    while (text.size_bytes > 0 && is_space(text.at[0])) {
        text.at += 1;
        text.size_bytes -= 1;
    }
    while (text.size_bytes > 0 && is_space(text.at[text.size_bytes - 1])) { text.size_bytes -= 1; }
    return text;
}

static bool is_word_ignoring_case(struct base_slice text, const char *word)
{
    if (text.size_bytes != strlen(word)) { return false; }
    for (size_t i = 0; i < text.size_bytes; i++) {
        uint8_t c = text.at[i];
        if (c >= 'A' && c <= 'Z') { c = (uint8_t)(c + ('a' - 'A')); }
        if (c != (uint8_t)word[i]) { return false; }
    }
    return true;
}

static bool parse_integer(struct base_slice text, int64_t *number_out)
{
    if (text.size_bytes > 1 && text.at[0] == '+' && text.at[1] != '-') {
        text.at += 1;
        text.size_bytes -= 1;
    }
    return base_text_parse_i64(text, number_out) == BASE_OK;
}

static size_t digits_at(struct base_slice text, size_t at)
{
    size_t count = 0;
    while (at + count < text.size_bytes && text.at[at + count] >= '0' && text.at[at + count] <= '9') { count += 1; }
    return count;
}

#define POWER_MAX 100000

/* Of "e-3": -3, saturating; what is no such thing is left to the caller, who finds that the text goes on. */
static int32_t take_power(struct base_slice text, size_t *at)
{
    if (*at == text.size_bytes || (text.at[*at] != 'e' && text.at[*at] != 'E')) { return 0; }
    size_t from = *at + 1;
    bool is_signed = from < text.size_bytes && (text.at[from] == '-' || text.at[from] == '+');
    bool is_negative = is_signed && text.at[from] == '-';
    from += is_signed ? 1 : 0;
    size_t count = digits_at(text, from);
    if (count == 0) { return 0; }
    int32_t power = 0;
    for (size_t i = 0; i < count; i++) {
        power = power > POWER_MAX ? power : power * 10 + (int32_t)(text.at[from + i] - '0');
    }
    *at = from + count;
    return is_negative ? -power : power;
}

/* What is less than a millionth counts as one, so that what is beyond a limit stays beyond it. */
static int64_t scaled(int64_t number, int64_t power)
{
    bool has_rest = false;
    for (; power > 0 && number > 0 && number < INT64_MAX / 100; power--) { number *= 10; }
    for (; power < 0 && number > 0; power++) {
        has_rest = has_rest || number % 10 != 0;
        number /= 10;
    }
    return number + (has_rest ? 1 : 0);
}

bool metadata__is_nan(struct base_slice text)
{
    if (text.size_bytes == 4 && (text.at[0] == '-' || text.at[0] == '+')) { text = base_slice_of(text.at + 1, 3); }
    return base_slice_equal(text, base_slice_text("NaN"));
}

/* A number as Java reads a double, but for hexadecimal ones, in millionths, saturating. Neither less nor more than any limit is what
 * is none: Java's NaN. */
static bool parse_millionths(struct base_slice text, int64_t *number_out)
{
    if (metadata__is_nan(text)) {
        *number_out = METADATA__MILLION;
        return true;
    }
    size_t at = text.size_bytes > 0 && (text.at[0] == '-' || text.at[0] == '+') ? 1 : 0;
    bool is_negative = at > 0 && text.at[0] == '-';
    bool is_infinite = base_slice_equal(base_slice_of(text.at + at, text.size_bytes - at), base_slice_text("Infinity"));
    size_t whole = digits_at(text, at);
    bool has_point = at + whole < text.size_bytes && text.at[at + whole] == '.';
    size_t part = has_point ? digits_at(text, at + whole + 1) : 0;
    int64_t number = 0;
    int64_t power = 0;
    for (size_t i = 0; i < whole + part; i++) {
        uint8_t c = text.at[at + i + (i < whole ? 0 : 1)];
        power -= i < whole ? 0 : 1;
        if (number < INT64_MAX / 100) {
            number = number * 10 + (int64_t)(c - '0');
        } else {
            power += 1;
        }
    }
    at += whole + part + (has_point ? 1 : 0);
    power += take_power(text, &at);
    bool has_suffix = at + 1 == text.size_bytes &&
                      (text.at[at] == 'f' || text.at[at] == 'F' || text.at[at] == 'd' || text.at[at] == 'D');
    if (!is_infinite && (whole + part == 0 || (at != text.size_bytes && !has_suffix))) { return false; }
    number = is_infinite ? INT64_MAX : scaled(number, power + 6);
    *number_out = is_negative ? -number : number;
    return true;
}

/* ---- judging ------------------------------------------------------------------------------------------------------ */

void metadata__say_invalid(struct base_text *message, struct base_slice value, const char *name)
{
    if (message == NULL) { return; }
    base_text_add(message, "Invalid value ");
    base_text_add_slice(message, value);
    base_text_add(message, " for configuration ");
    base_text_add(message, name);
    base_text_add(message, ": ");
}

static void say_words(struct base_text *message, const char *words)
{
    if (message != NULL) { base_text_add(message, words); }
}

static const char *type_name(enum metadata_type type)
{
    switch (type) {
    case METADATA_BOOLEAN: return "BOOLEAN";
    case METADATA_STRING: return "STRING";
    case METADATA_INT: return "INT";
    case METADATA_LONG: return "LONG";
    case METADATA_DOUBLE: return "DOUBLE";
    case METADATA_LIST: return "LIST";
    }
    UNREACHABLE();
}

static enum base_rc parse_boolean(const char *name, struct base_slice value, int64_t *number_out,
                                  struct base_text *message)
{
    if (is_word_ignoring_case(value, "true")) {
        *number_out = 1;
    } else if (is_word_ignoring_case(value, "false")) {
        *number_out = 0;
    } else {
        metadata__say_invalid(message, value, name);
        say_words(message, "Expected value to be either true or false");
        return BASE_BAD;
    }
    return BASE_OK;
}

static void say_limit(struct base_text *message, const struct metadata_definition *definition, const char *words,
                      int64_t limit)
{
    if (message == NULL) { return; }
    base_text_add(message, words);
    base_text_add_i64(message, definition->type == METADATA_DOUBLE ? limit / METADATA__MILLION : limit);
}

static enum base_rc parse_number(enum metadata_id id, const char *name, struct base_slice value, int64_t *number_out,
                                 struct base_text *message)
{
    const struct metadata_definition *definition = metadata_definition(id);
    int64_t number = 0;
    bool is_number =
        definition->type == METADATA_DOUBLE ? parse_millionths(value, &number) : parse_integer(value, &number);
    if (!is_number || (definition->type == METADATA_INT && (number > INT32_MAX || number < INT32_MIN))) {
        metadata__say_invalid(message, value, name);
        say_words(message, "Not a number of type ");
        say_words(message, type_name(definition->type));
        return BASE_BAD;
    }
    if (id == METADATA_COMPRESSION_GZIP_LEVEL) { /* the one whose range has a hole */
        if (number != -1 && (number < definition->min || number > definition->max)) {
            metadata__say_invalid(message, value, name);
            say_words(message, "Value must be between 1 and 9 or equal to -1");
            return BASE_BAD;
        }
    } else if (number < definition->min) {
        metadata__say_invalid(message, value, name);
        say_limit(message, definition, "Value must be at least ", definition->min);
        return BASE_BAD;
    } else if (number > definition->max) {
        metadata__say_invalid(message, value, name);
        say_limit(message, definition, "Value must be no more than ", definition->max);
        return BASE_BAD;
    }
    *number_out = number;
    return BASE_OK;
}

/* The index of a choice; the count of choices when it is none of them. */
static int64_t choice_of(const struct metadata_definition *definition, struct base_slice value)
{
    int64_t i = 0;
    while (definition->choices[i] != NULL && !base_slice_equal(base_slice_text(definition->choices[i]), value)) {
        i += 1;
    }
    return i;
}

static void say_choices(struct base_text *message, const struct metadata_definition *definition)
{
    say_words(message, "String must be one of: ");
    for (size_t i = 0; definition->choices[i] != NULL; i++) {
        say_words(message, i == 0 ? "" : ", ");
        say_words(message, definition->choices[i]);
    }
}

static enum base_rc parse_string(enum metadata_id id, const char *name, struct base_slice value, int64_t *number_out,
                                 struct base_text *message)
{
    const struct metadata_definition *definition = metadata_definition(id);
    int64_t choice = choice_of(definition, value);
    if (definition->choices[0] != NULL && definition->choices[choice] == NULL) {
        metadata__say_invalid(message, value, name);
        say_choices(message, definition);
        return BASE_BAD;
    }
    *number_out = choice;
    return BASE_OK;
}

static bool is_digits(struct base_slice text)
{
    for (size_t i = 0; i < text.size_bytes; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') { return false; }
    }
    return text.size_bytes > 0;
}

static size_t find_byte(struct base_slice text, uint8_t byte)
{
    size_t i = 0;
    while (i < text.size_bytes && text.at[i] != byte) { i += 1; }
    return i;
}

static bool is_replica(struct base_slice item)
{
    size_t colon = find_byte(item, ':');
    return colon < item.size_bytes && is_digits(base_slice_of(item.at, colon)) &&
           is_digits(base_slice_of(item.at + colon + 1, item.size_bytes - colon - 1));
}

/* Throttled replicas are pairs or a star; any other list is of choices. */
static enum base_rc check_item(const struct metadata_definition *definition, const char *name, struct base_slice list,
                               struct base_slice item, int64_t *bits, struct base_text *message)
{
    if (definition->choices[0] == NULL) {
        if (is_replica(item) || base_slice_equal(list, base_slice_text("*"))) { return BASE_OK; }
        if (message != NULL) {
            base_text_add(message, "Invalid value [");
            base_text_add_slice(message, list);
            base_text_add(message, "] for configuration ");
            base_text_add(message, name);
            base_text_add(message, ": ");
            base_text_add(message, name);
            base_text_add(message, " must be the literal '*' or a list of replicas in the following format: "
                                   "[partitionId]:[brokerId],[partitionId]:[brokerId],...");
        }
        return BASE_BAD;
    }
    if (item.size_bytes == 0) {
        say_words(message, "Configuration '");
        say_words(message, name);
        say_words(message, "' values must not be empty.");
        return BASE_BAD;
    }
    int64_t choice = choice_of(definition, item);
    if (definition->choices[choice] == NULL) {
        metadata__say_invalid(message, item, name);
        say_choices(message, definition);
        return BASE_BAD;
    }
    *bits |= (int64_t)1 << choice;
    return BASE_OK;
}

static enum base_rc parse_list(enum metadata_id id, const char *name, struct base_slice value, int64_t *number_out,
                               struct base_text *message)
{
    const struct metadata_definition *definition = metadata_definition(id);
    int64_t bits = 0;
    struct base_slice rest = value;
    while (value.size_bytes > 0) { /* an empty text is an empty list */
        size_t comma = find_byte(rest, ',');
        enum base_rc rc =
            check_item(definition, name, value, metadata__trimmed(base_slice_of(rest.at, comma)), &bits, message);
        if (rc != BASE_OK) { return rc; }
        if (comma == rest.size_bytes) { break; }
        rest = base_slice_of(rest.at + comma + 1, rest.size_bytes - comma - 1);
    }
    *number_out = bits;
    return BASE_OK;
}

static enum base_rc parse_named(enum metadata_id id, const char *name, struct base_slice value, int64_t *number_out,
                                struct base_text *message)
{
    value = metadata__trimmed(value);
    switch (metadata_definition(id)->type) {
    case METADATA_BOOLEAN: return parse_boolean(name, value, number_out, message);
    case METADATA_INT:
    case METADATA_LONG:
    case METADATA_DOUBLE: return parse_number(id, name, value, number_out, message);
    case METADATA_STRING: return parse_string(id, name, value, number_out, message);
    case METADATA_LIST: return parse_list(id, name, value, number_out, message);
    }
    UNREACHABLE();
}

enum base_rc metadata_parse(enum metadata_id id, struct base_slice value, int64_t *number_out,
                            struct base_text *message)
{
    return parse_named(id, metadata_definition(id)->name, value, number_out, message);
}

/* ---- the node's configuration ------------------------------------------------------------------------------------- */

bool metadata__find_synonym(struct base_slice name, enum metadata_id *id_out, uint8_t *synonym_out)
{
    for (unsigned id = 0; id < METADATA_ID_COUNT; id++) {
        const struct metadata_definition *definition = metadata_definition((enum metadata_id)id);
        for (uint8_t i = 0; i < METADATA_SYNONYMS_MAX && definition->synonyms[i].name != NULL; i++) {
            if (base_slice_equal(base_slice_text(definition->synonyms[i].name), name)) {
                *id_out = (enum metadata_id)id;
                *synonym_out = i;
                return true;
            }
        }
    }
    return false;
}

/* A value in a synonym's unit, as the topic config's number. Below 0 is not a count of hours but a word of its own. */
static enum base_rc parse_synonym(enum metadata_id id, uint8_t synonym, struct base_slice value, int64_t *number_out,
                                  struct base_text *message)
{
    const struct metadata_synonym *it = &metadata_definition(id)->synonyms[synonym];
    enum base_rc rc = parse_named(id, it->name, value, number_out, message);
    if (rc != BASE_OK || it->factor == 1 || *number_out <= 0) { return rc; }
    if (*number_out > INT64_MAX / it->factor) {
        metadata__say_invalid(message, value, it->name);
        say_words(message, "Value is too large");
        return BASE_BAD;
    }
    *number_out *= it->factor;
    return BASE_OK;
}

enum base_rc metadata_broker_value_check(struct base_slice name, struct base_slice value, struct base_text *message)
{
    enum metadata_id id;
    uint8_t synonym;
    int64_t number;
    if (!metadata__find_synonym(name, &id, &synonym)) { return BASE_MISSING; }
    return parse_synonym(id, synonym, value, &number, message);
}

static enum base_rc read_static(struct metadata *metadata, struct base_arena *arena, struct metadata_pair pair)
{
    enum metadata_id id;
    uint8_t synonym;
    if (!metadata__find_synonym(pair.name, &id, &synonym)) { return BASE_OK; }
    struct metadata__static *it = &metadata->statics[id];
    int64_t number;
    enum base_rc rc = parse_synonym(id, synonym, pair.value, &number, NULL);
    if (rc != BASE_OK) { return rc; }
    if (it->is_set && it->synonym <= synonym) { return BASE_OK; } /* the earlier synonym wins */
    struct base_slice text = metadata__trimmed(pair.value);
    if (metadata_definition(id)->synonyms[synonym].factor != 1) {
        char *at = base_arena_take_bytes(arena, 24);
        if (at == NULL) { return BASE_FULL; }
        struct base_text words;
        base_text_init(&words, at, 24);
        base_text_add_i64(&words, number);
        text = base_text_slice(&words);
    }
    *it = (struct metadata__static){
        .is_set = true, .synonym = synonym, .written = pair.value, .text = text, .number = number};
    return BASE_OK;
}

enum base_rc metadata__read_statics(struct metadata *metadata, struct base_arena *arena)
{
    for (unsigned id = 0; id < METADATA_ID_COUNT; id++) {
        const char *text = metadata_definition((enum metadata_id)id)->default_value;
        enum base_rc rc = metadata_parse((enum metadata_id)id, base_slice_text(text), &metadata->defaults[id], NULL);
        CHECK(rc == BASE_OK); /* our own table */
    }
    for (uint32_t i = 0; i < metadata->broker_values_count; i++) {
        enum base_rc rc = read_static(metadata, arena, metadata->broker_values[i]);
        if (rc != BASE_OK) { return rc; }
    }
    return BASE_OK;
}

uint32_t metadata_broker_values_count(const struct metadata *metadata) { return metadata->broker_values_count; }

struct metadata_pair metadata_broker_value_at(const struct metadata *metadata, uint32_t index)
{
    CHECK(index < metadata->broker_values_count);
    return metadata->broker_values[index];
}

struct base_slice metadata_broker_value(const struct metadata *metadata, struct base_slice name)
{
    for (uint32_t i = 0; i < metadata->broker_values_count; i++) {
        if (base_slice_equal(metadata->broker_values[i].name, name)) { return metadata->broker_values[i].value; }
    }
    return base_slice_of(NULL, 0);
}

bool metadata_broker_flag(const struct metadata *metadata, struct base_slice name, bool otherwise)
{
    struct base_slice value = metadata__trimmed(metadata_broker_value(metadata, name));
    if (is_word_ignoring_case(value, "true")) { return true; }
    return is_word_ignoring_case(value, "false") ? false : otherwise;
}

/* ---- what is in force --------------------------------------------------------------------------------------------- */

struct base_slice metadata__node_name(const struct metadata *metadata, char words[METADATA__NODE_BYTES])
{
    struct base_text node;
    base_text_init(&node, words, METADATA__NODE_BYTES);
    base_text_add_i64(&node, metadata->node_id);
    return base_text_slice(&node);
}

uint32_t metadata__add_dynamic(const struct metadata *metadata, struct base_slice resource_name,
                               enum metadata_source source, struct base_slice name, struct metadata_level *levels,
                               uint32_t count)
{
    const struct metadata__override *found =
        metadata__find_override(metadata, metadata->first_broker_override, resource_name, name);
    if (found == NULL) { return count; }
    levels[count] = (struct metadata_level){.name = name,
                                            .value = base_slice_of(found->value, found->value_bytes),
                                            .source = source};
    return count + 1;
}

/* Adds the dynamic configs of brokers under `resource_name`. Only synonyms in the topic config's own unit can be changed while
 * a node runs, as in Kafka. */
static uint32_t add_dynamic(const struct metadata *metadata, const struct metadata_definition *definition,
                            struct base_slice resource_name, enum metadata_source source, struct metadata_level *levels,
                            uint32_t count)
{
    for (uint32_t i = 0; i < METADATA_SYNONYMS_MAX && definition->synonyms[i].name != NULL; i++) {
        if (definition->synonyms[i].factor != 1) { continue; }
        struct base_slice name = base_slice_text(definition->synonyms[i].name);
        count = metadata__add_dynamic(metadata, resource_name, source, name, levels, count);
    }
    return count;
}

static uint32_t add_statics(const struct metadata *metadata, const struct metadata_definition *definition,
                            struct metadata_level *levels, uint32_t count)
{
    for (uint32_t i = 0; i < METADATA_SYNONYMS_MAX && definition->synonyms[i].name != NULL; i++) {
        struct base_slice name = base_slice_text(definition->synonyms[i].name);
        struct base_slice value = metadata_broker_value(metadata, name);
        if (value.at == NULL) { continue; }
        levels[count] = (struct metadata_level){.name = name, .value = value, .source = METADATA_SOURCE_STATIC};
        count += 1;
    }
    return count;
}

static const struct metadata__override *topic_override(const struct metadata *metadata,
                                                       const struct metadata_topic *topic, enum metadata_id id)
{
    if (topic == NULL) { return NULL; }
    uint32_t first = metadata__topic_of(metadata, topic)->first_override;
    if (first == 0) { return NULL; }
    return metadata__find_override(metadata, first, base_slice_of("", 0),
                                   base_slice_text(metadata_definition(id)->name));
}

/* Ours: a topic keeps the durability it was made with, so a node's default is that of new topics alone. */
static bool is_kept(const struct metadata_topic *topic, enum metadata_id id)
{
    return topic != NULL && id == METADATA_WEIR_DURABILITY;
}

/* Kafka's default of the synonym that has one: the last (retention is given in hours). */
static struct metadata_level default_level(const struct metadata_definition *definition)
{
    uint32_t last = 0;
    while (last + 1 < METADATA_SYNONYMS_MAX && definition->synonyms[last + 1].name != NULL) { last += 1; }
    const struct metadata_synonym *synonym = &definition->synonyms[last];
    struct metadata_level level = {.name = base_slice_text(synonym->name),
                                   .value = base_slice_text(definition->default_value),
                                   .source = METADATA_SOURCE_DEFAULT};
    if (synonym->factor != 1) { /* 604800000 ms are 168 hours; jitter's 0 is 0 */
        bool is_week = !base_slice_equal(level.value, base_slice_text("0"));
        level.value = base_slice_text(is_week ? "168" : "0");
    }
    return level;
}

/* The levels of the broker's synonyms, the one in force first. */
static uint32_t synonym_levels(const struct metadata *metadata, enum metadata_id id,
                               struct metadata_level levels_out[METADATA_LEVELS_MAX])
{
    const struct metadata_definition *definition = metadata_definition(id);
    if (definition->synonyms[0].name == NULL) { return 0; }
    char words[METADATA__NODE_BYTES];
    struct base_slice node = metadata__node_name(metadata, words);
    uint32_t count = 0;
    count = add_dynamic(metadata, definition, node, METADATA_SOURCE_BROKER, levels_out, count);
    count = add_dynamic(metadata, definition, base_slice_of("", 0), METADATA_SOURCE_DEFAULT_BROKER, levels_out, count);
    count = add_statics(metadata, definition, levels_out, count);
    CHECK(count < METADATA_LEVELS_MAX - 1);
    levels_out[count] = default_level(definition);
    return count + 1;
}

/* Kafka tells of a name nothing that stands before its own first level: log.retention.hours is in force and not seen. */
static uint32_t drop_until(struct metadata_level *levels, uint32_t count, struct base_slice name)
{
    uint32_t drop = 0;
    while (drop < count && !base_slice_equal(levels[drop].name, name)) { drop += 1; }
    for (uint32_t i = drop; i < count; i++) { levels[i - drop] = levels[i]; }
    return count - drop;
}

/* Those that Kafka tells of a topic config: what it tells of its first synonym. */
static uint32_t told_levels(const struct metadata_definition *definition, struct metadata_level *levels, uint32_t count)
{
    return count == 0 ? 0 : drop_until(levels, count, base_slice_text(definition->synonyms[0].name));
}

uint32_t metadata_synonym_levels(const struct metadata *metadata, struct base_slice name,
                                 struct metadata_level levels_out[METADATA_LEVELS_MAX])
{
    enum metadata_id id;
    uint8_t synonym;
    if (!metadata__find_synonym(name, &id, &synonym)) { return 0; }
    return drop_until(levels_out, synonym_levels(metadata, id, levels_out), name);
}

uint32_t metadata_levels(const struct metadata *metadata, const struct metadata_topic *topic, enum metadata_id id,
                         struct metadata_level levels_out[METADATA_LEVELS_MAX])
{
    const struct metadata_definition *definition = metadata_definition(id);
    uint32_t count = 0;
    const struct metadata__override *override = topic_override(metadata, topic, id);
    if (override != NULL) {
        levels_out[count] = (struct metadata_level){.name = base_slice_text(definition->name),
                                                    .value = base_slice_of(override->value, override->value_bytes),
                                                    .source = METADATA_SOURCE_TOPIC};
        count += 1;
    }
    if (is_kept(topic, id)) {
        levels_out[count] = default_level(definition);
        return count + 1;
    }
    return count + told_levels(definition, levels_out + count, synonym_levels(metadata, id, levels_out + count));
}

struct base_slice metadata_text(const struct metadata *metadata, const struct metadata_topic *topic,
                                enum metadata_id id, enum metadata_source *source_out)
{
    const struct metadata_definition *definition = metadata_definition(id);
    struct metadata_level levels[METADATA_LEVELS_MAX];
    const struct metadata__override *override = topic_override(metadata, topic, id);
    if (override != NULL) {
        *source_out = METADATA_SOURCE_TOPIC;
        return metadata__trimmed(base_slice_of(override->value, override->value_bytes));
    }
    uint32_t count = is_kept(topic, id) ? 0 : synonym_levels(metadata, id, levels);
    struct metadata_level in_force = {.source = METADATA_SOURCE_DEFAULT};
    if (count > 0) { in_force = levels[0]; }
    *source_out = told_levels(definition, levels, count) == 0 ? METADATA_SOURCE_DEFAULT : levels[0].source;
    switch (in_force.source) {
    case METADATA_SOURCE_TOPIC: break; /* seen to */
    case METADATA_SOURCE_BROKER:
    case METADATA_SOURCE_DEFAULT_BROKER: return metadata__trimmed(in_force.value);
    case METADATA_SOURCE_STATIC: return metadata->statics[id].text;
    case METADATA_SOURCE_DEFAULT: return base_slice_text(definition->default_value);
    }
    UNREACHABLE();
}

int64_t metadata_number(const struct metadata *metadata, const struct metadata_topic *topic, enum metadata_id id)
{
    struct base_slice text;
    const struct metadata__override *override = topic_override(metadata, topic, id);
    if (override == NULL && is_kept(topic, id)) { return metadata->defaults[id]; }
    if (override == NULL && metadata->first_broker_override == 0) {
        return metadata->statics[id].is_set ? metadata->statics[id].number : metadata->defaults[id];
    }
    enum metadata_source source;
    text = override != NULL ? base_slice_of(override->value, override->value_bytes)
                            : metadata_text(metadata, topic, id, &source);
    int64_t number;
    /* A value from the log that this program does not understand is as if it were not set: it was judged by another version. */
    return metadata_parse(id, text, &number, NULL) == BASE_OK ? number : metadata->defaults[id];
}
