# generate.py: makes C of the schema files: a header for each, and the tables that the coders in this room walk.
#
#   generate.py SCHEMA_DIR OUT_DIR            writes; a file whose text has not changed is left alone
#   generate.py --list SCHEMA_DIR             prints the names of the files that it would write
#   generate.py --dictionary SCHEMA_DIR FILE  writes a dictionary for a fuzzer
#
# Run by CMake; nothing that it writes is committed. Python 3, standard library only.
#
# SPDX-License-Identifier: Apache-2.0
import os
import re
import sys

sys.dont_write_bytecode = True
import notation  # noqa: E402
from notation import Trouble, snake  # noqa: E402

KEYWORDS = set("""auto break case char const continue default do else enum extern for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false float
double""".split())

# type: (C type, bytes in memory, alignment, bytes on the wire at least: rigid, flexible)
SCALARS = {
    "bool": ("bool", 1, 1, 1, 1),
    "int8": ("int8_t", 1, 1, 1, 1),
    "int16": ("int16_t", 2, 2, 2, 2),
    "uint16": ("uint16_t", 2, 2, 2, 2),
    "int32": ("int32_t", 4, 4, 4, 4),
    "uint32": ("uint32_t", 4, 4, 4, 4),
    "int64": ("int64_t", 8, 8, 8, 8),
    "float64": ("struct kafka_float64", 8, 8, 8, 8),
    "uuid": ("struct base_uuid", 16, 1, 16, 16),
    "string": ("struct kafka_text", 12, 4, 2, 1),
    "bytes": ("struct kafka_bytes", 12, 4, 4, 1),
    "records": ("struct kafka_records", 16, 8, 4, 1),
}
ARENA_FACTOR = 16  # memory that a decoder takes, at most, for each byte of input
DEPTH_MAX = 8      # structs within structs, as the coders' stacks have it
TAGGED_MAX = 64    # tagged fields of one struct, as the encoder's bits have it
LICENCE = "SPDX-License-Identifier: Apache-2.0"


class Type:
    """A struct: c_name, fields (regular ones in wire order, then tagged ones by tag), regular_count, wire_min, index."""


def member(field):
    name = snake(field.name)
    return name + "_" if name in KEYWORDS else name


def is_struct(field):
    return field.type not in SCALARS


def is_pointer(field):
    """A struct that may be null is pointed at."""
    return is_struct(field) and not field.is_array and field.null is not None


def has(versions, version):
    return versions is not None and versions[0] <= version <= versions[1]


class Schema:
    def __init__(self, folder):
        self.messages = []
        self.files = {}
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if not name.endswith(".schema"):
                continue
            with open(path) as file:
                text = file.read()
            if name == "errors.schema":
                self.errors = notation.parse_errors(text, name)
                continue
            messages = notation.parse(text, name)
            live = [m for m in messages if m.versions is not None]
            self.messages += messages
            if live:
                self.files[name[:-len(".schema")]] = live
        self.live = [m for m in self.messages if m.versions is not None]
        self.types = []
        names = set()
        for message in self.live:
            self.resolve(message)
            for t in message.types:
                if t.c_name in names:
                    raise Trouble("%s: two structs become %s" % (message.file, t.c_name))
                names.add(t.c_name)
                t.index = len(self.types)
                self.types.append(t)

    def resolve(self, message):
        """Names the structs of a message, innermost first, and checks what the tables rely on."""
        prefix = "kafka_" + snake(message.name)
        fields_of = {}

        def collect(fields):
            for field in fields:
                if field.fields is not None:
                    if not is_struct(field) or field.type in fields_of:
                        raise Trouble("%s: %s: struct %s is there twice" % (message.file, message.name, field.type))
                    fields_of[field.type] = field.fields
                    collect(field.fields)

        for struct in message.structs:
            fields_of[struct.name] = struct.fields
            collect(struct.fields)
        collect(message.fields)
        message.types = []
        made = {}

        def make(c_name, fields, depth):
            if depth >= DEPTH_MAX:
                raise Trouble("%s: %s: structs are nested too deep" % (message.file, message.name))
            for field in fields:
                if is_struct(field) and field.type not in made:
                    if field.type not in fields_of:
                        raise Trouble("%s: %s: no struct %s" % (message.file, message.name, field.type))
                    made[field.type] = None
                    made[field.type] = make(prefix + "_" + snake(field.type), fields_of[field.type], depth + 1)
                if is_struct(field):
                    if made[field.type] is None:
                        raise Trouble("%s: %s: struct %s holds itself" % (message.file, message.name, field.type))
                    field.struct = made[field.type]
                self.check(message, field)
            t = Type()
            t.c_name = c_name
            regular = [f for f in fields if f.tag is None]
            tagged = sorted((f for f in fields if f.tag is not None), key=lambda f: f.tag)
            if len({f.tag for f in tagged}) != len(tagged):
                raise Trouble("%s: %s: two fields have one tag" % (message.file, message.name))
            if len(tagged) > TAGGED_MAX:
                raise Trouble("%s: %s: more than %d tagged fields" % (message.file, message.name, TAGGED_MAX))
            t.fields, t.declared, t.regular_count = regular + tagged, fields, len(regular)
            t.wire_min = None
            message.types.append(t)
            return t

        message.root = make(prefix, message.fields, 1)
        for version in range(message.versions[0], message.versions[1] + 1):
            self.measure(message, message.root, version)
        for t in message.types:
            if t.wire_min is None:
                t.wire_min = 1
        for t in message.types:
            for field in t.fields:
                if is_struct(field) and (field.is_array or is_pointer(field)):
                    size, least = self.layout(field.struct)[0], field.struct.wire_min
                    if size > ARENA_FACTOR * max(least, 0):
                        raise Trouble("%s: %s takes %d bytes but may come in %d bytes"
                                      % (message.file, field.struct.c_name, size, least))

    def check(self, message, field):
        where = "%s: %s.%s" % (message.file, message.name, field.name)
        if field.tag is not None:
            if field.tag_versions != field.versions:
                raise Trouble(where + ": a tagged field is tagged in all its versions")
            if is_pointer(field):
                raise Trouble(where + ": a tagged struct can't be null")
            if message.flexible is None or message.flexible[0] > max(field.versions[0], message.versions[0]):
                raise Trouble(where + ": tagged before the message is flexible")
        if is_pointer(field) and field.default != "null":
            raise Trouble(where + ": the default of a struct that may be null is null")
        if field.is_array and field.type in ("bool", "records", "float64"):
            raise Trouble(where + ": no arrays of " + field.type)
        if field.default not in (None, "", "null") and (field.is_array or is_struct(field)
                                                         or field.type in ("string", "bytes", "records", "uuid")):
            raise Trouble(where + ": a default that is not null and not empty")

    def measure(self, message, t, version):
        """The least bytes of a struct on the wire; t.wire_min is the least of all versions."""
        flexible = has(message.flexible, version)
        total = 1 if flexible else 0
        for field in t.fields:
            if not has(field.versions, version):
                continue
            inner = self.measure(message, field.struct, version) if is_struct(field) else 0
            if field.tag is not None:
                continue
            if field.is_array:
                total += 1 if flexible else 4
            elif is_struct(field):
                total += 1 if is_pointer(field) else inner
            else:
                total += SCALARS[field.type][4 if flexible and not field.is_rigid else 3]
        t.wire_min = total if t.wire_min is None else min(t.wire_min, total)
        return total

    def layout(self, t):
        """(size, alignment) of the C struct."""
        size, alignment = 0, 1
        for field in t.declared:
            if field.is_array:
                parts = [(8, 8), (4, 4)]
            elif is_pointer(field):
                parts = [(8, 8)]
            elif is_struct(field):
                parts = [self.layout(field.struct)]
            else:
                parts = [SCALARS[field.type][1:3]]
            for part, step in parts:
                size = (size + step - 1) // step * step + part
                alignment = max(alignment, step)
        return (size + alignment - 1) // alignment * alignment, alignment


# ---- headers -------------------------------------------------------------------------------------------------------

def remark(field):
    words = [notation.show_versions(field.versions)]
    if field.tag is not None:
        words.append("tag %d" % field.tag)
    if field.null:
        words.append("null " + notation.show_versions(field.null))
    if field.default is not None and field.default != "":
        words.append("default " + field.default)
    if field.is_ignorable:
        words.append("ignorable")
    return ", ".join(words)


def struct_text(t, out):
    out.append("struct %s {" % t.c_name)
    for field in t.declared:
        name = member(field)
        c_type = "struct " + field.struct.c_name if is_struct(field) else SCALARS[field.type][0]
        if field.is_array:
            out.append("    %s *%s; /* %s */" % (c_type, name, remark(field)))
            out.append("    int32_t %s_count;" % name)
        elif is_pointer(field):
            out.append("    %s *%s; /* %s */" % (c_type, name, remark(field)))
        else:
            out.append("    %s %s; /* %s */" % (c_type, name, remark(field)))
    if not t.declared:
        out.append("    uint8_t nothing;")
    out.append("};")


def struct_functions(t, out):
    n = t.c_name
    out.append("static inline void %s_init(struct %s *value) { kafka__init_struct(%d, value); }" % (n, n, t.index))
    out.append("MUST_USE static inline struct %s *%s_take(struct base_arena *arena, int32_t count)" % (n, n))
    out.append("{\n    return kafka__take_structs(%d, arena, count);\n}" % t.index)


MESSAGE_FUNCTIONS = """\
MUST_USE static inline enum base_rc @_decode(struct base_slice bytes, int16_t version, struct base_arena *arena,
                                             struct @ *out)
{
    return kafka_decode(#, bytes, version, arena, out);
}
MUST_USE static inline enum base_rc @_decode_front(struct base_slice bytes, int16_t version, struct base_arena *arena,
                                                   struct @ *out, size_t *used_bytes_out)
{
    return kafka_decode_front(#, bytes, version, arena, out, used_bytes_out);
}
MUST_USE static inline enum base_rc @_size(const struct @ *value, int16_t version, struct kafka_size *size_out)
{
    return kafka_size(#, value, version, size_out);
}
MUST_USE static inline enum base_rc @_encode(const struct @ *value, int16_t version, struct kafka_writer *writer)
{
    return kafka_encode(#, value, version, writer);
}
static inline void @_print(const struct @ *value, int16_t version, struct base_text *text)
{
    kafka_print(#, value, version, text);
}
MUST_USE static inline enum base_rc @_random(int16_t version, struct base_prng *prng, struct base_arena *arena,
                                             struct @ *out)
{
    return kafka_random(#, version, prng, arena, out);
}
static inline bool @_equal(const struct @ *a, const struct @ *b) { return kafka_equal(#, a, b); }
"""


def enumerator(message):
    return "KAFKA_MESSAGE_" + snake(message.name).upper()


def header(stem, messages):
    guard = "KAFKA_%s_H" % stem.upper()
    out = ["/* %s.h: generated from schema/%s.schema." % (stem, stem), " *", " * " + LICENCE, " */",
           "#ifndef " + guard, "#define " + guard, "", '#include "wire/kafka/kafka.h"', ""]
    for message in messages:
        words = notation.show_versions(message.versions)
        out.append("/* ---- %s, versions %s, flexible %s ---- */\n"
                   % (message.name, words, notation.show_versions(message.flexible)))
        for t in message.types:
            struct_text(t, out)
            out.append("")
        for t in message.types:
            struct_functions(t, out)
        out.append("")
        out.append(MESSAGE_FUNCTIONS.replace("@", message.root.c_name).replace("#", enumerator(message)))
    out.append("#endif")
    return "\n".join(out) + "\n"


def umbrella(stems):
    out = ["/* messages.h: every message at once. Includes take time: name the few you need instead.", " *", " * " + LICENCE,
           " */", "#ifndef KAFKA_MESSAGES_H", "#define KAFKA_MESSAGES_H", ""]
    out += ['#include "wire/kafka/%s.h"' % stem for stem in stems]
    return "\n".join(out) + "\n\n#endif\n"


def api_name(message):
    return re.sub(r"(Request|Response)$", "", message.name)


def requests(schema):
    return sorted((m for m in schema.live if m.kind == "request"), key=lambda m: m.api_key)


def names_header(schema):
    out = ["/* kafka_names.h: generated: api keys, messages and error codes by name.", " *", " * " + LICENCE, " */",
           "#ifndef KAFKA_NAMES_H", "#define KAFKA_NAMES_H", "", "enum kafka_api {"]
    for message in requests(schema):
        out.append("    KAFKA_API_%s = %d," % (snake(api_name(message)).upper(), message.api_key))
    out += ["};", "#define KAFKA_API_COUNT %d" % len(requests(schema)), "",
            "/* The ids of the records in the log of the cluster metadata. */", "enum kafka_record_type {"]
    for message in sorted((m for m in schema.live if m.kind == "metadata"), key=lambda m: m.api_key):
        out.append("    KAFKA_RECORD_%s = %d," % (re.sub("_RECORD$", "", snake(message.name).upper()), message.api_key))
    out += ["};", "", "enum kafka_message {"]
    for index, message in enumerate(schema.live):
        out.append("    %s = %d," % (enumerator(message), index))
    out += ["    KAFKA_MESSAGE_NONE = %d," % len(schema.live), "};",
            "#define KAFKA_MESSAGE_COUNT %d" % len(schema.live), "", "enum kafka_error {"]
    for code, name, is_retriable in sorted(schema.errors):
        out.append("    KAFKA_ERROR_%s = %d,%s" % (name, code, " /* retriable */" if is_retriable else ""))
    out += ["};", "", "#endif"]
    return "\n".join(out) + "\n"


# ---- tables --------------------------------------------------------------------------------------------------------

class Names:
    """One text with every name in it once."""

    def __init__(self):
        self.places, self.text, self.size = {}, [], 0

    def place(self, name):
        if name not in self.places:
            self.places[name] = self.size
            self.text.append(name)
            self.size += len(name) + 1
            if self.size > 65535:
                raise Trouble("the names no longer fit into 64 KiB")
        return self.places[name]


def default_value(field):
    if field.is_array or is_struct(field) or field.default in (None, "", "null"):
        return 0
    if field.type == "bool":
        return 1 if field.default == "true" else 0
    if field.type == "float64":
        if field.default not in ("0", "0.0"):
            raise Trouble("a default of a float64 other than 0: " + field.name)
        return 0
    return notation.integer(field.default)


def set_fields(t, place):
    """(place in C, width, default) of whatever is not zero in a struct at its defaults, the structs in it included."""
    found = []
    for field in t.fields:
        at = "%soffsetof(struct %s, %s)" % (place, t.c_name, member(field))
        if field.default == "null" and not is_pointer(field):
            found.append((at + " + sizeof(void *)", 4, -1))  # the count of an array, the length of a text
        elif is_struct(field) and not field.is_array and not is_pointer(field):
            found += set_fields(field.struct, at + " + ")
        elif default_value(field) != 0:
            found.append((at, SCALARS[field.type][1], default_value(field)))
    return found


def tables(schema):
    names = Names()
    defaults = [0, -1]
    fields, structs, sets = [], [], []
    for t in schema.types:
        first = len(fields)
        set_first = len(sets)
        for at, width, value in set_fields(t, ""):
            if value not in defaults:
                defaults.append(value)
            sets.append("    {%s, %d, %d}," % (at, width, defaults.index(value)))
        for field in t.fields:
            value = default_value(field)
            if value not in defaults:
                defaults.append(value)
            flags = []
            if field.is_array:
                flags.append("KAFKA__ARRAY")
            if is_pointer(field):
                flags.append("KAFKA__POINTER")
            if field.is_ignorable:
                flags.append("KAFKA__IGNORABLE")
            if field.is_rigid:
                flags.append("KAFKA__RIGID")
            if field.default == "null":
                flags.append("KAFKA__NULL")
            if field.default != "null" and value == 0 and not (is_struct(field) and not field.is_array):
                flags.append("KAFKA__ZERO")
            null = field.null or (255, 0)
            fields.append("    {%d, offsetof(struct %s, %s), %d, %d, %d, KAFKA__%s, %s, %d, %d, %d, %d, %d}," % (
                names.place(field.name), t.c_name, member(field), field.struct.index if is_struct(field) else 0,
                field.tag or 0, defaults.index(value), "STRUCT" if is_struct(field) else field.type.upper(),
                " | ".join(flags) or "0", field.versions[0], min(field.versions[1], 255), null[0], min(null[1], 255), 0))
        structs.append("    {%d, %d, %d, sizeof(struct %s), %d, %d, %d}, /* %d */" % (
            first, len(t.fields), t.regular_count, t.c_name, t.wire_min, set_first, len(sets) - set_first, t.index))
    out = ["/* tables.c: generated from the schema files.", " *", " * " + LICENCE, " */", '#include "wire/kafka/kafka__tables.h"', "",
           '#include "wire/kafka/messages.h"', "", "/* clang-format off */",
           "/* name, place in the struct, struct, tag, default, type, flags, versions, versions that may be null */",
           "const struct kafka__field kafka__fields[] = {"] + fields + ["};", "",
           "/* first field, fields, of them not tagged, bytes in memory, least bytes on the wire, first of its sets, sets */",
           "const struct kafka__struct kafka__structs[] = {"] + structs + ["};", "",
           "/* place in the struct, bytes, default */",
           "const struct kafka__set kafka__sets[] = {"] + sets + ["};", ""]
    out += ["_Static_assert(sizeof(struct %s) == %d, \"the generator knows the layout\");" % (t.c_name, schema.layout(t)[0])
            for t in schema.types if t.declared]
    out += ["", "/* name, struct, api key or id, kind, versions, flexible from, listeners, is the last version unstable */",
            "const struct kafka__message kafka__messages[] = {"]
    for message in schema.live:
        listeners = " | ".join("KAFKA_LISTENER_" + w.upper() for w in message.listeners) or "0"
        if message.flexible is not None and message.flexible[1] < message.versions[1]:
            raise Trouble(message.name + ": flexible once, flexible for ever")
        out.append("    {%d, %d, %d, KAFKA__KIND_%s, %d, %d, %d, %s, %s}," % (
            names.place(message.name), message.root.index, message.api_key if message.api_key is not None else -1,
            message.kind.upper(), message.versions[0], message.versions[1],
            message.flexible[0] if message.flexible else 255, listeners, "true" if message.is_unstable else "false"))
    out += ["};", "", "const int64_t kafka__defaults[] = {"]
    out += ["    %s," % ("INT64_MIN" if v == -2**63 else "%d" % v) for v in defaults]
    out += ["};", "", "const struct kafka_api_info kafka__apis[] = {"]
    by_name = {m.name: m for m in schema.live}
    for message in requests(schema):
        response = by_name[api_name(message) + "Response"]
        if response.versions != message.versions or response.api_key != message.api_key:
            raise Trouble("%s and %s differ in versions or key" % (message.name, response.name))
        listeners = " | ".join("KAFKA_LISTENER_" + w.upper() for w in message.listeners) or "0"
        out.append('    {"%s", %d, %d, %d, %d, %d, %s, %s, %s},' % (
            api_name(message), message.api_key, message.versions[0], message.versions[1],
            message.versions[1] - (1 if message.is_unstable else 0),
            message.flexible[0] if message.flexible else 32767, listeners, enumerator(message), enumerator(response)))
    out += ["};", "", "const struct kafka__error kafka__errors[] = {"]
    for code, name, is_retriable in sorted(schema.errors):
        out.append('    {"%s", %d, %s},' % (name, code, "true" if is_retriable else "false"))
    out += ["};", "const uint32_t kafka__errors_count = BASE_ARRAY_COUNT(kafka__errors);", "",
            "const char kafka__names[] ="]
    out += ['    "%s\\0"' % name for name in names.text]
    out[-1] += ";"
    return "\n".join(out) + "\n/* clang-format on */\n"


def outputs(schema):
    made = {stem + ".h": header(stem, messages) for stem, messages in schema.files.items()}
    made["messages.h"] = umbrella(sorted(schema.files))
    made["kafka_names.h"] = names_header(schema)
    made["tables.c"] = tables(schema)
    return made


def uvarint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def dictionary(schema):
    """Words that a fuzzer can't guess: heads of requests, lengths that matter, tag sections."""
    words = {"null_string": b"\xff\xff", "null_array": b"\xff\xff\xff\xff", "int_max": b"\x7f\xff\xff\xff",
             "varint_max": b"\xff\xff\xff\xff\x0f", "varint_too_long": b"\xff\xff\xff\xff\xff\x01", "no_tags": b"\x00",
             "one_unknown_tag": b"\x01\x64\x02ab",
             "varint_padded": b"\x80\x80\x80\x80\x00", "varint_of_33_bits": b"\x80\x80\x80\x80\x10", "one_tag_zero": b"\x01\x00", "varint_128": b"\x80\x01"}
    for field_tag in range(0, 8):
        words["tag_%d" % field_tag] = bytes([1, field_tag, 4])
    for message in requests(schema):
        key = [message.api_key >> 8, message.api_key & 255]
        for version in sorted({message.versions[0], message.versions[1]}):
            words["%s_%d" % (snake(api_name(message)), version)] = bytes([*key, 0, version])
        for kind in (0, 1):  # as fuzz_wire_decode takes them: request or response, key, version
            words["whole_%s_%d" % (snake(api_name(message)), kind)] = bytes([kind, *key, message.versions[1]])
    for message in schema.messages:
        if message.kind == "metadata":
            words["record_%s" % snake(message.name)] = b"\x01" + uvarint(message.api_key) + uvarint(message.versions[1])
    lines = ["# " + LICENCE]
    for name, value in words.items():
        lines.append('%s="%s"' % (name, "".join("\\x%02x" % b for b in value)))
    return "\n".join(lines) + "\n"


def write(path, text):
    if os.path.exists(path):
        with open(path) as file:
            if file.read() == text:
                return
    with open(path, "w") as file:
        file.write(text)


def main(arguments):
    try:
        if len(arguments) == 2 and arguments[0] == "--list":
            print("\n".join(sorted(outputs(Schema(arguments[1])))))
        elif len(arguments) == 3 and arguments[0] == "--dictionary":
            write(arguments[2], dictionary(Schema(arguments[1])))
        elif len(arguments) == 2:
            os.makedirs(arguments[1], exist_ok=True)
            for name, text in outputs(Schema(arguments[0])).items():
                write(os.path.join(arguments[1], name), text)
        else:
            print("usage: generate.py SCHEMA_DIR OUT_DIR", file=sys.stderr)
            return 2
    except Trouble as trouble:
        print("error: %s" % trouble, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
