# notation.py: reads schema files (docs/formats/schema.md) into plain objects.
#
# Used by generate.py beside it and by ci/schema. Python 3, standard library only.
#
# SPDX-License-Identifier: Apache-2.0
import re

KINDS = ("request", "response", "header", "data", "metadata")
SCALARS = ("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid", "string", "bytes", "records")
VERSION_LAST = 255  # what an open range such as 3+ ends with


class Trouble(Exception):
    """A schema file that can't be read; the text names file and line."""


class Field:
    """name, type (without []), is_array, versions, null, tag, tag_versions, default (text or None), is_key,
    is_ignorable, is_rigid (lengths never compact), fields (of the struct that it declares) or None"""


class Struct:
    """name, versions, fields"""


class Message:
    """kind, name, api_key (None where there is none), versions, flexible, listeners, is_unstable, structs, fields, file"""


def parse_versions(text):
    """'none' is None; '3', '3-7' and '3+' are (first, last)."""
    if text == "none":
        return None
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if not match:
        raise Trouble("bad versions: %s" % text)
    first = int(match.group(1))
    last = VERSION_LAST if match.group(2) else int(match.group(3) or first)
    if last < first:
        raise Trouble("bad versions: %s" % text)
    return (first, last)


def show_versions(versions):
    if versions is None:
        return "none"
    first, last = versions
    if last >= VERSION_LAST:
        return "%d+" % first
    return str(first) if first == last else "%d-%d" % (first, last)


def snake(name):
    """CamelCase to snake_case: a word starts at a capital after a small letter or digit, and at the last capital of a run."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    name = re.sub(r"([A-Z])([A-Z][a-z])", r"\1_\2", name)
    return name.lower()


def integer(text):
    """The integer that a default stands for."""
    return int(text, 0)


def parse_field(words):
    field = Field()
    if len(words) < 3:
        raise Trouble("a field is: Name type versions ...")
    field.name, kind, versions = words[:3]
    field.is_array = kind.startswith("[]")
    field.type = kind[2:] if field.is_array else kind
    field.versions = parse_versions(versions)
    field.null = None
    field.tag = None
    field.tag_versions = None
    field.default = None
    field.is_key = field.is_ignorable = field.is_rigid = False
    field.fields = None
    for word in words[3:]:
        what, _, value = word.partition("=")
        if word == "key":
            field.is_key = True
        elif word == "ignorable":
            field.is_ignorable = True
        elif word == "rigid":
            field.is_rigid = True
        elif what == "null":
            field.null = parse_versions(value)
        elif what == "default":
            field.default = "" if value == "''" else value
        elif what == "tag":
            tag, _, tagged = value.partition("@")
            field.tag = int(tag)
            field.tag_versions = parse_versions(tagged)
        else:
            raise Trouble("unknown word: %s" % word)
    return field


def parse_message(words):
    message = Message()
    if len(words) < 2:
        raise Trouble("a message is: kind Name ...")
    message.kind, message.name = words[:2]
    message.api_key = None
    message.versions = message.flexible = None
    message.listeners = []
    message.is_unstable = False
    message.structs = []
    message.fields = []
    for word in words[2:]:
        what, _, value = word.partition("=")
        if what in ("api_key", "id"):
            message.api_key = int(value)
        elif what == "versions":
            message.versions = parse_versions(value)
        elif what == "flexible":
            message.flexible = parse_versions(value)
        elif what == "listeners":
            message.listeners = value.split(",")
        elif word == "unstable":
            message.is_unstable = True
        else:
            raise Trouble("unknown word: %s" % word)
    return message


def parse(text, file):
    """The messages of one schema file, in order."""
    messages = []
    message = None
    stack = []  # lists of fields, one an open level
    for number, line in enumerate(text.split("\n"), 1):
        try:
            body = line.split("#", 1)[0].rstrip()
            if not body:
                continue
            indent = len(body) - len(body.lstrip(" "))
            if indent % 2 != 0:
                raise Trouble("the indent is not a multiple of two")
            level = indent // 2
            words = body.split()
            if level == 0:
                if words[0] not in KINDS:
                    raise Trouble("unknown kind: %s" % words[0])
                message = parse_message(words)
                message.file = file
                messages.append(message)
                stack = [message.fields]
                continue
            if message is None or level > len(stack):
                raise Trouble("the indent is too deep")
            del stack[level:]
            if words[0] == "struct":
                if level != 1 or len(words) != 3:
                    raise Trouble("a struct is: struct Name versions, right under its message")
                struct = Struct()
                struct.name = words[1]
                struct.versions = parse_versions(words[2])
                struct.fields = []
                message.structs.append(struct)
                stack.append(struct.fields)
                continue
            field = parse_field(words)
            stack[level - 1].append(field)
            children = []
            stack.append(children)
            field.fields = children
        except (Trouble, ValueError) as trouble:
            raise Trouble("%s:%d: %s" % (file, number, trouble)) from None
    for message in messages:
        close(message.fields)
        for struct in message.structs:
            close(struct.fields)
    return messages


def close(fields):
    """A field without fields of its own has None there."""
    for field in fields:
        if field.fields:
            close(field.fields)
        else:
            field.fields = None


def parse_errors(text, file):
    """errors.schema: lines of code, name and the word retriable: a list of (code, name, is_retriable)."""
    errors = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) not in (2, 3) or (len(words) == 3 and words[2] != "retriable"):
            raise Trouble("%s:%d: an error is: code NAME [retriable]" % (file, number))
        errors.append((int(words[0]), words[1], len(words) == 3))
    return errors
