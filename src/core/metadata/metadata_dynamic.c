/* metadata_dynamic.c: broker configs that change while the node runs, and how values are shown.
 *
 * Room    core/metadata.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "metadata/metadata__room.h"

/* What is dynamic besides the topic configs' own broker names: here a node reads these from the image whenever it needs them. */
static const struct other {
    const char *name;
    bool is_boolean;
} others[] = {{"auto.create.topics.enable", true}, {"num.partitions", false}};

/* The topic config that a broker config is the first synonym of: the one in its own unit, which Kafka lets change too. */
bool metadata_first_synonym(struct base_slice name, enum metadata_id *id_out)
{
    uint8_t synonym;
    return metadata__find_synonym(name, id_out, &synonym) && synonym == 0;
}

static const struct other *find_other(struct base_slice name)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(others); i++) {
        if (base_slice_equal(base_slice_text(others[i].name), name)) { return &others[i]; }
    }
    return NULL;
}

bool metadata_is_dynamic(struct base_slice name)
{
    enum metadata_id id;
    /* A topic keeps the durability that it was made with. */
    if (metadata_first_synonym(name, &id)) { return id != METADATA_WEIR_DURABILITY; }
    return find_other(name) != NULL;
}

static enum base_rc complain(const struct other *other, struct base_slice value, const char *why,
                             struct base_text *message)
{
    metadata__say_invalid(message, value, other->name);
    if (message != NULL) { base_text_add(message, why); }
    return BASE_BAD;
}

static bool is_word(struct base_slice value, const char *word)
{
    return base_slice_equal(value, base_slice_text(word));
}

enum base_rc metadata_dynamic_check(struct base_slice name, struct base_slice value, struct base_text *message)
{
    const struct other *other = find_other(name);
    enum metadata_id id;
    if (other == NULL) {
        return metadata_first_synonym(name, &id) ? metadata_broker_value_check(name, value, message) : BASE_MISSING;
    }
    if (other->is_boolean) {
        if (is_word(value, "true") || is_word(value, "false")) { return BASE_OK; }
        return complain(other, value, "Expected value to be either true or false", message);
    }
    int64_t number;
    if (base_text_parse_i64(value, &number) != BASE_OK || number > INT32_MAX || number < INT32_MIN) {
        return complain(other, value, "Not a number of type INT", message);
    }
    return number >= 1 ? BASE_OK : complain(other, value, "Value must be at least 1", message);
}

uint32_t metadata_broker_levels(const struct metadata *metadata, struct base_slice name,
                                struct metadata_level levels_out[METADATA_BROKER_LEVELS_MAX])
{
    uint32_t count = 0;
    char words[METADATA__NODE_BYTES];
    struct base_slice node = metadata__node_name(metadata, words), all = base_slice_of("", 0);
    count = metadata__add_dynamic(metadata, node, METADATA_SOURCE_BROKER, name, levels_out, count);
    count = metadata__add_dynamic(metadata, all, METADATA_SOURCE_DEFAULT_BROKER, name, levels_out, count);
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

static struct base_slice next_item(struct base_slice *list) { return metadata__trimmed(base_slice_take_item(list)); }

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

static void show_point(int64_t whole, int64_t fraction, unsigned digits, struct base_text *text)
{
    while (digits > 1 && fraction % 10 == 0) {
        fraction /= 10;
        digits -= 1;
    }
    base_text_add_i64(text, whole);
    base_text_add(text, ".");
    base_text_add_u64_padded(text, (uint64_t)fraction, digits);
}

/* As Java shows a double of some millionths; of one below a thousandth its first digit, and where the point belongs. */
static void show_millionths(int64_t number, struct base_text *text)
{
    if (number <= 0 || number >= METADATA__MILLION / 1000) {
        show_point(number / METADATA__MILLION, number % METADATA__MILLION, 6, text);
        return;
    }
    int64_t power = number >= 100 ? 4 : number >= 10 ? 5 : 6;
    int64_t unit = number >= 100 ? 100 : number >= 10 ? 10 : 1;
    show_point(number / unit, number % unit, number >= 100 ? 2 : 1, text);
    base_text_add(text, "E-");
    base_text_add_i64(text, power);
}

void metadata_show(enum metadata_id id, struct base_slice value, struct base_text *text)
{
    int64_t number;
    if (metadata_parse(id, value, &number, NULL) != BASE_OK) {
        base_text_add_slice(text, value);
        return;
    }
    if (metadata_definition(id)->type == METADATA_DOUBLE && metadata__is_nan(metadata__trimmed(value))) {
        base_text_add(text, "NaN");
        return;
    }
    switch (metadata_definition(id)->type) {
    case METADATA_BOOLEAN: base_text_add(text, number != 0 ? "true" : "false"); return;
    case METADATA_INT:
    case METADATA_LONG: base_text_add_i64(text, number); return;
    case METADATA_DOUBLE: show_millionths(number, text); return;
    case METADATA_LIST: show_list(value, text); return;
    case METADATA_STRING: base_text_add_slice(text, metadata__trimmed(value)); return;
    }
    UNREACHABLE();
}
