# SPDX-License-Identifier: Apache-2.0
"""Kafka's frames made by hand: enough to ask a broker exactly one thing and to look at the very bytes that come back.

Only versions without compact fields are used, so that a frame can be read in this file from top to bottom.
"""

import socket
import struct
import time

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 0, 1, 2, 3, 18, 19, 20, 22
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, DESCRIBE_GROUPS, LIST_GROUPS = 8, 9, 10, 11, 12, 15, 16
OFFSET_FOR_LEADER_EPOCH = 23
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def _make_crc_tables():
    first = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        first.append(crc)
    return first


_CRC = _make_crc_tables()


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    table = _CRC
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(value):
    return uvarint((value << 1) ^ (value >> 63))


def uvarint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def batch(values, timestamp=None, producer_id=-1, producer_epoch=-1, sequence=-1, keys=None):
    """A record batch, version 2, not compressed."""
    timestamp = int(time.time() * 1000) if timestamp is None else timestamp
    records = bytearray()
    for i, value in enumerate(values):
        key = keys[i] if keys else None
        body = b"\0" + varint(0) + varint(i)
        body += varint(-1) if key is None else varint(len(key)) + key
        body += varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    tail = struct.pack(">hiqqqhii", 0, len(values) - 1, timestamp, timestamp, producer_id, producer_epoch, sequence, len(values))
    tail += bytes(records)
    return struct.pack(">qiibI", 0, len(tail) + 9, 0, 2, crc32c(tail)) + tail


def patched(data, at, form, value, with_crc=True):
    """A batch with a field changed, and its crc right again."""
    out = bytearray(data)
    struct.pack_into(">" + form, out, at, value)
    if with_crc:
        struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


def batches(data):
    """Yields (base offset, last offset, codec, count, whole bytes) of each whole batch; checks each crc if it is short."""
    at = 0
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        if at + 12 + length > len(data):
            return
        whole = data[at:at + 12 + length]
        magic, crc, attributes, last_delta = struct.unpack_from(">bIhi", whole, 16)
        count = struct.unpack_from(">i", whole, 57)[0]
        if magic != 2:
            raise AssertionError(f"a batch of version {magic} at {base}")
        if length < 65536 and crc32c(whole[21:]) != crc:
            raise AssertionError(f"the crc of the batch at {base} is wrong")
        yield base, base + last_delta, CODECS[attributes & 7], count, whole
        at += 12 + length


def string(text):
    if text is None:
        return struct.pack(">h", -1)
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack(">h", len(data)) + data


def array(items):
    return struct.pack(">i", len(items)) + b"".join(items)


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, form):
        values = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return values[0] if len(values) == 1 else values

    def string(self):
        length = self.take("h")
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def bytes(self):
        length = self.take("i")
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length:self.at]

    def array(self, read):
        return [read() for _ in range(max(0, self.take("i")))]


class Conn:
    def __init__(self, host, port, timeout_s=30, receive_buffer=None, address=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if address:
            self.socket.bind((address, 0))
        self.socket.settimeout(timeout_s)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.next = 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    @staticmethod
    def frame(api, version, correlation, body):
        head = struct.pack(">hhi", api, version, correlation) + string("hand")
        return struct.pack(">i", len(head) + len(body)) + head + body

    def send(self, api, version, body):
        correlation = self.next
        self.next += 1
        self.socket.sendall(self.frame(api, version, correlation, body))
        return correlation

    def receive_exactly(self, count):
        data = bytearray(count)
        view = memoryview(data)
        at = 0
        while at < count:
            got = self.socket.recv_into(view[at:])
            if got == 0:
                raise ConnectionError("closed by the broker")
            at += got
        return bytes(data)

    def receive(self, correlation):
        size = struct.unpack(">i", self.receive_exactly(4))[0]
        reader = Reader(self.receive_exactly(size))
        got = reader.take("i")
        if got != correlation:
            raise AssertionError(f"answer {got} where {correlation} is due")
        return reader

    def call(self, api, version, body):
        return self.receive(self.send(api, version, body))

    # ---- the calls ----

    def api_versions(self):
        reader = self.call(API_VERSIONS, 0, b"")
        error = reader.take("h")
        return error, {key: (low, high) for key, low, high in reader.array(lambda: reader.take("hhh"))}

    def metadata(self, topics, auto_create=False):
        """{topic: (error, {partition: error})}; version 4."""
        reader = self.call(METADATA, 4, (struct.pack(">i", -1) if topics is None else array([string(t) for t in topics])) +
                           struct.pack(">b", auto_create))
        reader.take("i")
        reader.array(lambda: (reader.take("i"), reader.string(), reader.take("i"), reader.string()))
        reader.string()
        reader.take("i")

        def partition():
            error, index = reader.take("hi")
            reader.take("i")
            reader.array(lambda: reader.take("i"))
            reader.array(lambda: reader.take("i"))
            return index, error

        def topic():
            error, name = reader.take("h"), reader.string()
            reader.take("b")
            return name, (error, dict(reader.array(partition)))

        return dict(reader.array(topic))

    def create_topic(self, name, partitions=1, configs=None, timeout_ms=30000):
        """(error, message); version 4."""
        body = string(name) + struct.pack(">ih", partitions, 1) + array([])
        body += array([string(k) + string(v) for k, v in (configs or {}).items()])
        reader = self.call(CREATE_TOPICS, 4, array([body]) + struct.pack(">ib", timeout_ms, 0))
        reader.take("i")
        return reader.array(lambda: (reader.string(), reader.take("h"), reader.string()))[0][1:]

    def delete_topic(self, name, timeout_ms=30000):
        reader = self.call(DELETE_TOPICS, 3, array([string(name)]) + struct.pack(">i", timeout_ms))
        reader.take("i")
        return reader.array(lambda: (reader.string(), reader.take("h")))[0][1]

    @staticmethod
    def produce_body(topic, parts, acks=-1, timeout_ms=30000):
        """parts: {partition: batch bytes}; version 7."""
        data = [struct.pack(">ii", index, len(data)) + data for index, data in parts.items()]
        return string(None) + struct.pack(">hi", acks, timeout_ms) + array([string(topic) + array(data)])

    @staticmethod
    def produce_answer(reader):
        """{(topic, partition): (error, base offset)}"""
        out = {}

        def topic():
            name = reader.string()

            def part():
                index, error, base = reader.take("ihq")
                reader.take("qq")
                out[(name, index)] = (error, base)

            reader.array(part)

        reader.array(topic)
        return out

    def produce(self, topic, parts, acks=-1, timeout_ms=30000):
        correlation = self.send(PRODUCE, 7, self.produce_body(topic, parts, acks, timeout_ms))
        return None if acks == 0 else self.produce_answer(self.receive(correlation))

    @staticmethod
    def fetch_body(topic, parts, wait_ms=500, min_bytes=1, max_bytes=1 << 30, partition_bytes=1 << 30, session=(0, -1), leader_epoch=-1):
        """parts: {partition: offset}; version 11; session: its id and epoch, none."""
        rows = [struct.pack(">iiqqi", index, leader_epoch, offset, -1, partition_bytes) for index, offset in parts.items()]
        return (struct.pack(">iiiibii", -1, wait_ms, min_bytes, max_bytes, 0, *session) + array([string(topic) + array(rows)]) +
                array([]) + string(""))

    @staticmethod
    def fetch_answer(reader):
        """(error, {(topic, partition): (error, high watermark, bytes)})"""
        reader.take("i")
        error = reader.take("h")
        reader.take("i")
        out = {}

        def topic():
            name = reader.string()

            def part():
                index, code, high = reader.take("ihq")
                reader.take("qq")
                reader.array(lambda: reader.take("qq"))
                reader.take("i")
                out[(name, index)] = (code, high, reader.bytes() or b"")

            reader.array(part)

        reader.array(topic)
        return error, out

    def fetch(self, topic, parts, **kwargs):
        return self.fetch_answer(self.call(FETCH, 11, self.fetch_body(topic, parts, **kwargs)))

    def list_offsets(self, topic, parts):
        """parts: {partition: timestamp}, -1 latest, -2 earliest; {partition: (error, timestamp, offset)}; version 2."""
        rows = [struct.pack(">iq", index, when) for index, when in parts.items()]
        reader = self.call(LIST_OFFSETS, 2, struct.pack(">ib", -1, 0) + array([string(topic) + array(rows)]))
        reader.take("i")
        out = {}

        def topic_():
            reader.string()
            for index, error, when, offset in reader.array(lambda: reader.take("ihqq")):
                out[index] = (error, when, offset)

        reader.array(topic_)
        return out

    def epoch_end(self, topic, leader_epoch, current=-1):
        """Of partition 0: (error, epoch, end offset) of OffsetForLeaderEpoch; version 3."""
        rows = [struct.pack(">iii", 0, current, leader_epoch)]
        reader = self.call(OFFSET_FOR_LEADER_EPOCH, 3, struct.pack(">i", -1) + array([string(topic) + array(rows)]))
        reader.take("i")
        ((error, _, epoch, end),) = reader.array(lambda: (reader.string(), reader.array(lambda: reader.take("hiiq"))))[0][1]
        return error, epoch, end

    def find_coordinator(self, key, key_type=0):
        """(error, message, node, host, port); version 2."""
        reader = self.call(FIND_COORDINATOR, 2, string(key) + struct.pack(">b", key_type))
        reader.take("i")
        return reader.take("h"), reader.string(), reader.take("i"), reader.string(), reader.take("i")

    def commit_offsets(self, group, topic, offsets):
        """Without a group's membership. offsets: {partition: offset}; {partition: error}; version 2."""
        rows = [struct.pack(">iq", partition, offset) + string("words") for partition, offset in offsets.items()]
        reader = self.call(OFFSET_COMMIT, 2, string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1) +
                           array([string(topic) + array(rows)]))
        return reader.array(lambda: (reader.string(), dict(reader.array(lambda: reader.take("ih")))))[0][1]

    def fetch_offsets(self, group, topic, partitions, version=1):
        """(error, {partition: (offset, words, error)}); versions 1 to 5."""
        reader = self.call(OFFSET_FETCH, version, string(group) + array([string(topic) + array([struct.pack(">i", p) for p in partitions])]))
        if version >= 3:
            reader.take("i")

        def partition():
            index, offset = reader.take("iq")
            if version >= 5:
                reader.take("i")
            return index, (offset, reader.string(), reader.take("h"))

        out = reader.array(lambda: (reader.string(), dict(reader.array(partition))))[0][1]
        return reader.take("h") if version >= 2 else 0, out

    def describe_group(self, group):
        """(error, state, {member id: (client host, assignment bytes)}); version 3."""
        reader = self.call(DESCRIBE_GROUPS, 3, array([string(group)]) + b"\0")
        reader.take("i")

        def member():
            name, _, host, _, assignment = reader.string(), reader.string(), reader.string(), reader.bytes(), reader.bytes()
            return name, (host, assignment)

        def one():
            error, _, state, _, _ = reader.take("h"), reader.string(), reader.string(), reader.string(), reader.string()
            members = dict(reader.array(member))
            reader.take("i")
            return error, state, members

        return reader.array(one)[0]

    def heartbeat(self, group, generation, member):
        """The error code; version 1."""
        reader = self.call(HEARTBEAT, 1, string(group) + struct.pack(">i", generation) + string(member))
        reader.take("i")
        return reader.take("h")

    def list_groups(self):
        """(error, [group]); version 2."""
        reader = self.call(LIST_GROUPS, 2, b"")
        reader.take("i")
        error = reader.take("h")
        return error, [group for group, _ in reader.array(lambda: (reader.string(), reader.string()))]

    def init_producer_id(self):
        reader = self.call(INIT_PRODUCER_ID, 1, string(None) + struct.pack(">i", 60000))
        reader.take("i")
        return reader.take("hqh")

    def read_all(self, topic, partition, end):
        """The whole batches from 0 up to offset `end`, with their place checked."""
        offset = 0
        while offset < end:
            error, parts = self.fetch(topic, {partition: offset})
            code, _, data = parts[(topic, partition)]
            if error or code:
                raise AssertionError(f"fetch of {topic}-{partition} at {offset}: errors {error}, {code}")
            for base, last, codec, count, whole in batches(data):
                if base > offset or last < offset:
                    raise AssertionError(f"{topic}-{partition}: a batch {base}..{last} where {offset} is due")
                yield base, last, codec, count, whole
                offset = last + 1
