/* metadata_dynamic.c: broker configs that change while the node runs, and how values are shown.
 *
 * Room    core/metadata.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "metadata/metadata__room.h"

#define MILLION 1000000

/* What is dynamic besides the topic configs' own broker names: here a node reads these from the image whenever it needs them. */
static const struct {
    const char *name;
    bool is_boolean;
} others[] = {{"auto.create.topics.enable", true}, {"num.partitions", false}};

/* The topic config that a broker config is the first synonym of: the one in its own unit, which Kafka lets change too. */
static bool find_first_synonym(struct base_slice name)
{
    for (unsigned id = 0; id < METADATA_ID_COUNT; id++) {
        const struct metadata_synonym *first = &metadata_definition((enum metadata_id)id)->synonyms[0];
        if (first->name != NULL && base_slice_equal(base_slice_text(first->name), name)) { return true; }
    }
    return false;
}

static const bool *find_other(struct base_slice name)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(others); i++) {
        if (base_slice_equal(base_slice_text(others[i].name), name)) { return &others[i].is_boolean; }
    }
    return NULL;
}

bool metadata_is_dynamic(struct base_slice name) { return find_first_synonym(name) || find_other(name) != NULL; }

static enum base_rc complain(struct base_slice name, struct base_slice value, const char *why,
                             struct base_text *message)
{
    if (message == NULL) { return BASE_BAD; }
    base_text_add(message, "Invalid value ");
    base_text_add_slice(message, value);
    base_text_add(message, " for configuration ");
    base_text_add_slice(message, name);
    base_text_add(message, ": ");
    base_text_add(message, why);
    return BASE_BAD;
}

static bool is_word(struct base_slice value, const char *word)
{
    return base_slice_equal(value, base_slice_text(word));
}

enum base_rc metadata_dynamic_check(struct base_slice name, struct base_slice value, struct base_text *message)
{
    const bool *is_boolean = find_other(name);
    if (is_boolean == NULL) {
        return find_first_synonym(name) ? metadata_broker_value_check(name, value, message) : BASE_MISSING;
    }
    if (*is_boolean) {
        if (is_word(value, "true") || is_word(value, "false")) { return BASE_OK; }
        return complain(name, value, "Expected value to be either true or false", message);
    }
    int64_t number;
    if (base_text_parse_i64(value, &number) != BASE_OK || number > INT32_MAX || number < INT32_MIN) {
        return complain(name, value, "Not a number of type INT", message);
    }
    return number >= 1 ? BASE_OK : complain(name, value, "Value must be at least 1", message);
}

uint32_t metadata_broker_levels(const struct metadata *metadata, struct base_slice name,
                                struct metadata_level levels_out[METADATA_BROKER_LEVELS_MAX])
{
    uint32_t count = 0;
    char words[12];
    struct base_text node;
    base_text_init(&node, words, sizeof words);
    base_text_add_i64(&node, metadata->node_id);
    const struct {
        struct base_slice resource_name;
        enum metadata_source source;
    } resources[] = {{base_text_slice(&node), METADATA_SOURCE_BROKER},
                     {base_slice_of("", 0), METADATA_SOURCE_DEFAULT_BROKER}};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(resources); i++) {
        const struct metadata__override *found =
            metadata__find_override(metadata, metadata->first_broker_override, resources[i].resource_name, name);
        if (found == NULL) { continue; }
        levels_out[count] = (struct metadata_level){.name = base_slice_of(found->name, found->name_bytes),
                                                    .value = base_slice_of(found->value, found->value_bytes),
                                                    .source = resources[i].source};
        count += 1;
    }
    struct base_slice value = metadata_broker_value(metadata, name);
    if (value.at != NULL) {
        levels_out[count] = (struct metadata_level){.name = name, .value = value, .source = METADATA_SOURCE_STATIC};
        count += 1;
    }
    return count;
}

int64_t metadata_dynamic_number(const struct metadata *metadata, struct base_slice name, int64_t otherwise)
{
    if (metadata->first_broker_override == 0) { return otherwise; }
    struct metadata_level levels[METADATA_BROKER_LEVELS_MAX];
    uint32_t count = metadata_broker_levels(metadata, name, levels);
    if (count == 0 || levels[0].source == METADATA_SOURCE_STATIC) { return otherwise; }
    if (metadata_dynamic_check(name, levels[0].value, NULL) != BASE_OK) { return otherwise; } /* another version's */
    if (is_word(levels[0].value, "true")) { return 1; }
    if (is_word(levels[0].value, "false")) { return 0; }
    int64_t number = otherwise;
    return base_text_parse_i64(levels[0].value, &number) == BASE_OK ? number : otherwise;
}

/* ---- showing ------------------------------------------------------------------------------------------------------ */

static bool is_space(uint8_t c) { return c <= ' '; }

static struct base_slice trimmed(struct base_slice item)
{
    while (item.size_bytes > 0 && is_space(item.at[0])) { item = base_slice_of(item.at + 1, item.size_bytes - 1); }
    while (item.size_bytes > 0 && is_space(item.at[item.size_bytes - 1])) { item.size_bytes -= 1; }
    return item;
}

static struct base_slice next_item(struct base_slice *list)
{
    size_t bytes = 0;
    while (bytes < list->size_bytes && list->at[bytes] != ',') { bytes += 1; }
    struct base_slice item = base_slice_of(list->at, bytes);
    size_t skip = bytes == list->size_bytes ? bytes : bytes + 1;
    *list = base_slice_of(list->at + skip, list->size_bytes - skip);
    return trimmed(item);
}

/* Each item once, where it first stands. */
static void show_list(struct base_slice list, struct base_text *text)
{
    struct base_slice rest = list;
    for (uint32_t i = 0; rest.size_bytes > 0; i++) {
        struct base_slice item = next_item(&rest);
        struct base_slice before = list;
        bool is_known = false;
        for (uint32_t j = 0; j < i && !is_known; j++) { is_known = base_slice_equal(next_item(&before), item); }
        if (is_known) { continue; }
        base_text_add(text, i > 0 ? "," : "");
        base_text_add_slice(text, item);
    }
}

/* As Java shows a double of some millionths. */
static void show_millionths(int64_t number, struct base_text *text)
{
    uint64_t fraction = (uint64_t)(number % MILLION);
    unsigned digits = 6;
    while (digits > 1 && fraction % 10 == 0) {
        fraction /= 10;
        digits -= 1;
    }
    base_text_add_i64(text, number / MILLION);
    base_text_add(text, ".");
    base_text_add_u64_padded(text, fraction, digits);
}

void metadata_show(enum metadata_id id, struct base_slice value, struct base_text *text)
{
    int64_t number;
    if (metadata_parse(id, value, &number, NULL) != BASE_OK) {
        base_text_add_slice(text, value);
        return;
    }
    switch (metadata_definition(id)->type) {
    case METADATA_BOOLEAN: base_text_add(text, number != 0 ? "true" : "false"); return;
    case METADATA_INT:
    case METADATA_LONG: base_text_add_i64(text, number); return;
    case METADATA_DOUBLE: show_millionths(number, text); return;
    case METADATA_LIST: show_list(value, text); return;
    case METADATA_STRING: base_text_add_slice(text, trimmed(value)); return;
    }
    UNREACHABLE();
}
