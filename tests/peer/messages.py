# SPDX-License-Identifier: Apache-2.0
"""Every message of the protocol as plain dictionaries, written and read by the schema files of src/core/wire/kafka/schema.

A second reader and writer of those files, on purpose apart from the C codec: a dictionary has Kafka's field names, an array is a
list, a uuid 16 bytes. What a request leaves out has its default.
"""

import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOM = os.path.join(HERE, "..", "..", "src", "core", "wire", "kafka")
sys.path.insert(0, ROOM)
sys.dont_write_bytecode = True
import notation  # noqa: E402  pylint: disable=wrong-import-position

ZERO_UUID = bytes(16)
NUMBERS = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d"}


class Bad(Exception):
    """Bytes that are not the message they should be."""


def _load():
    by_name = {}
    folder = os.path.join(ROOM, "schema")
    for file in sorted(os.listdir(folder)):
        if file.endswith(".schema") and file != "errors.schema":
            with open(os.path.join(folder, file), encoding="utf-8") as text:
                for message in notation.parse(text.read(), file):
                    by_name[message.name] = message
    with open(os.path.join(folder, "errors.schema"), encoding="utf-8") as text:
        errors = {code: name for code, name, _ in notation.parse_errors(text.read(), "errors.schema")}
    return by_name, errors


MESSAGES, ERRORS = _load()
KEYS = {name[:-len("Request")]: m.api_key for name, m in MESSAGES.items() if m.kind == "request" and m.api_key is not None}


def is_in(versions, version):
    return versions is not None and versions[0] <= version <= versions[1]


def fields_of(message, field):
    if field.fields is not None:
        return field.fields
    for item in message.structs:
        if item.name == field.type:
            return item.fields
    return None


def _default(message, field):
    if field.default == "null":
        return None
    if field.is_array:
        return []
    if field.type in NUMBERS:
        if field.default is None:
            return 0
        return field.default == "true" if field.type == "bool" else notation.integer(field.default)
    if field.type == "string":
        return field.default or ""
    if field.type == "uuid":
        return ZERO_UUID
    if field.type in ("bytes", "records"):
        return b""
    return {f.name: _default(message, f) for f in fields_of(message, field)}


def uvarint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Writer:
    def __init__(self, message, version):
        self.message = message
        self.version = version
        self.is_flexible = is_in(message.flexible, version)

    def length(self, size, form, is_rigid=False):
        """size None: null"""
        if self.is_flexible and not is_rigid:
            return uvarint(0 if size is None else size + 1)
        return struct.pack(">" + form, -1 if size is None else size)

    def one(self, field, value):
        if field.type in NUMBERS:
            return struct.pack(">" + NUMBERS[field.type], value)
        if field.type == "uuid":
            return value
        if field.type in ("string", "bytes", "records"):
            form = "h" if field.type == "string" else "i"
            if value is None:
                return self.length(None, form, field.is_rigid)
            data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
            return self.length(len(data), form, field.is_rigid) + data
        fields = fields_of(self.message, field)
        if is_in(field.null, self.version) and not field.is_array:
            return b"\xff" if value is None else b"\x01" + self.struct(fields, value)
        return self.struct(fields, value)

    def value(self, field, value):
        if not field.is_array:
            return self.one(field, value)
        if value is None:
            return self.length(None, "i")
        return self.length(len(value), "i") + b"".join(self.one(field, item) for item in value)

    def struct(self, fields, values):
        unknown = set(values) - {f.name for f in fields} - {"tags"}
        if unknown:
            raise KeyError(f"{self.message.name} has no {sorted(unknown)}")
        out = b""
        tagged = dict(values.get("tags", {}))
        for field in fields:
            if not is_in(field.versions, self.version):
                continue
            value = values.get(field.name, _default(self.message, field))
            if is_in(field.tag_versions, self.version):
                if value != _default(self.message, field):
                    tagged[field.tag] = self.value(field, value)
            else:
                out += self.value(field, value)
        if self.is_flexible:
            out += uvarint(len(tagged))
            for tag, data in sorted(tagged.items()):
                out += uvarint(tag) + uvarint(len(data)) + data
        return out


class _Reader:
    def __init__(self, message, version, data):
        self.message = message
        self.version = version
        self.is_flexible = is_in(message.flexible, version)
        self.data = data
        self.at = 0

    def bytes(self, count):
        if count < 0 or self.at + count > len(self.data):
            raise Bad(f"{self.message.name} {self.version} ends in the middle")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack(">" + form, self.bytes(struct.calcsize(">" + form)))[0]

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.bytes(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def length(self, form, is_rigid=False):
        return self.uvarint() - 1 if self.is_flexible and not is_rigid else self.number(form)

    def one(self, field):
        if field.type in NUMBERS:
            return self.number(NUMBERS[field.type])
        if field.type == "uuid":
            return self.bytes(16)
        if field.type in ("string", "bytes", "records"):
            length = self.length("h" if field.type == "string" else "i", field.is_rigid)
            if length < 0:
                return None
            data = self.bytes(length)
            return data.decode("utf-8", "surrogateescape") if field.type == "string" else data
        if is_in(field.null, self.version) and not field.is_array and self.number("b") < 0:
            return None
        return self.struct(fields_of(self.message, field))

    def value(self, field):
        if not field.is_array:
            return self.one(field)
        count = self.length("i")
        return None if count < 0 else [self.one(field) for _ in range(count)]

    def struct(self, fields):
        out = {}
        for field in fields:
            if not is_in(field.versions, self.version):
                continue
            if is_in(field.tag_versions, self.version):
                out[field.name] = _default(self.message, field)
            else:
                out[field.name] = self.value(field)
        if self.is_flexible:
            for _ in range(self.uvarint()):
                tag, size = self.uvarint(), self.uvarint()
                end = self.at + size
                for field in fields:
                    if field.tag == tag and is_in(field.tag_versions, self.version):
                        out[field.name] = self.value(field)
                        break
                else:
                    raise Bad(f"{self.message.name} {self.version}: tag {tag} is not known")
                if self.at != end:
                    raise Bad(f"{self.message.name} {self.version}: tag {tag} has another length than its field")
        return out


def encode(name, version, values):
    message = MESSAGES[name]
    return _Writer(message, version).struct(message.fields, values)


def decode(name, version, data):
    """The message, which must end where the bytes do."""
    message = MESSAGES[name]
    reader = _Reader(message, version, data)
    out = reader.struct(message.fields)
    if reader.at != len(data):
        raise Bad(f"{name} {version}: {len(data) - reader.at} bytes are left over")
    return out


def request(api, version, correlation, client_id, body):
    """A whole frame. `body` is a dictionary, or bytes to be sent as they are."""
    message = MESSAGES[api + "Request"]
    head = {"RequestApiKey": message.api_key, "RequestApiVersion": version, "CorrelationId": correlation, "ClientId": client_id}
    data = encode("RequestHeader", 2 if is_in(message.flexible, version) else 1, head)
    data += body if isinstance(body, bytes) else encode(api + "Request", version, body)
    return struct.pack(">i", len(data)) + data


def response(api, version, data):
    """(correlation, body) of a frame without its length. An answer to ApiVersions has the oldest header whatever its version."""
    is_flexible = is_in(MESSAGES[api + "Response"].flexible, version) and api != "ApiVersions"
    start = 4
    if is_flexible:
        if data[4:5] != b"\0":
            raise Bad(f"{api} {version}: tags in the header")
        start = 5
    return struct.unpack_from(">i", data)[0], decode(api + "Response", version, data[start:])
