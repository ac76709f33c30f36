#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that mean no good, or know no better: whatever they send, the broker answers or closes, serves the others, and stops cleanly."""

import json
import os
import random
import socket
import struct
import sys
import threading
import time

import harness
import messages
import wire
from harness import IS_LONG, SEED, Broker, check, equal, until, weir
from wire import Conn, array, batch, patched, string

NONE, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC, RECORD_TOO_LARGE = 0, 1, 2, 3, 10
INVALID_TOPIC, INVALID_ACKS, UNSUPPORTED_VERSION, TOPIC_EXISTS = 17, 21, 35, 36
NOT_LEADER, INVALID_TIMESTAMP, SESSION_NOT_FOUND, UNSUPPORTED_COMPRESSION = 6, 32, 70, 76
INVALID_PARTITIONS, INVALID_REPLICATION, INVALID_REQUEST, POLICY_VIOLATION = 37, 38, 42, 44
OUT_OF_ORDER_SEQUENCE, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, NOT_ALLOWED_TRANSACTION, INVALID_RECORD = 45, 47, 48, 53, 87
GROUP_ID_NOT_FOUND = 69
SERVED = {0, 1, 2, 3, *range(8, 21), 21, 22, 23, 32, 33, 35, 36, 37, 42, 44, 47, 60, 61, 74, 75}


def random_bytes(dice, count):
    return dice.getrandbits(8 * count).to_bytes(count, "big") if count else b""


def is_closed(conn, timeout_s=10):
    """Whether the broker closes this connection without another answer."""
    conn.socket.settimeout(timeout_s)
    try:
        return conn.socket.recv(65536) == b""
    except ConnectionError:
        return True
    except socket.timeout:
        return False


def is_alive(broker, topic="alive"):
    """Somebody else gets served."""
    with Conn(broker.host, broker.port) as conn:
        error, _ = conn.create_topic(topic)
        check(error in (NONE, TOPIC_EXISTS), f"create {topic}: error {error}")
        (error, base), = conn.produce(topic, {0: batch([b"one"])}).values()
        equal(error, NONE, "produce beside the attack")
        error, parts = conn.fetch(topic, {0: base})
        equal((error, parts[(topic, 0)][0]), (0, 0), "fetch beside the attack")
        check(b"one" in parts[(topic, 0)][2], "what was produced beside the attack is read")


def frame_of(api, version, correlation, body):
    return Conn.frame(api, version, correlation, body)


# ---- frames --------------------------------------------------------------------------------------------------------------


def test_garbage_and_wrong_lengths_close_only_their_connection():
    dice = random.Random(SEED)
    heads = [struct.pack(">i", n) for n in (-1, -(1 << 31), 0x7FFFFFFF, 104857601, 0, 1, 7)]
    with Broker(shards=2, name="garbage") as broker:
        for head in heads:
            with Conn(broker.host, broker.port) as conn:
                conn.socket.sendall(head + b"\0" * 8)
                check(is_closed(conn), f"a frame of length {head!r} closes the connection")
        for _ in range(200):
            with Conn(broker.host, broker.port) as conn:
                try:
                    conn.socket.sendall(random_bytes(dice, dice.randrange(1, 400)))
                except ConnectionError:
                    pass
        half = [Conn(broker.host, broker.port) for _ in range(50)]
        for conn in half:
            conn.socket.sendall(struct.pack(">i", 100000) + b"\0\0\0\x0b")
        is_alive(broker)
        for conn in half:
            conn.close()


def test_a_flood_of_bad_frames_is_no_flood_of_log_lines():
    with Broker(2, {"weir.log.format": "json"}, name="log") as broker:
        began = int(time.time())
        for _ in range(2000):
            with Conn(broker.host, broker.port) as conn:
                conn.socket.sendall(struct.pack(">i", -1))
        until(lambda: int(time.time()) > began + 1, 10, "another second")

        def is_told():
            with Conn(broker.host, broker.port) as conn:
                conn.socket.sendall(struct.pack(">i", -1))
                is_closed(conn)
            return any("left_out" in line for line in broker.log().splitlines())

        until(is_told, 20, "what was left out is told")
        ends = int(time.time())
        lines = [json.loads(line) for line in broker.log().splitlines()]
        closed = [line for line in lines if "longer than allowed" in line["message"]]
        check(0 < len(closed) <= 100 * (ends - began + 1), f"{len(closed)} lines in {ends - began + 1} s")
        check(len(closed) + sum(line.get("left_out", 0) for line in closed) >= 1500, "every line is written or counted")


def test_every_api_and_version_is_answered_or_closed():
    """ApiVersions says what is served; of that, an empty body is answered or unreadable; of the rest, the connection closes."""
    with Broker(name="apis") as broker:
        with Conn(broker.host, broker.port) as conn:
            error, served = conn.api_versions()
        equal(error, NONE, "ApiVersions")
        equal(set(served), SERVED, "the apis that are served")
        for api in [*range(0, 101), -1, 32767, -32768, 20000]:
            for version in [*range(-1, 20), 32767]:
                low, high = served.get(api, (0, -1))
                if low <= version <= high:
                    continue
                with Conn(broker.host, broker.port) as conn:
                    conn.send(api, version, b"\0" * 40)
                    if api == wire.API_VERSIONS:
                        reader = conn.receive(1)
                        equal(reader.take("h"), UNSUPPORTED_VERSION, f"ApiVersions {version}")
                        equal(reader.array(lambda r=reader: r.take("hhh")), [(18, *served[18])], f"ApiVersions {version}: what it names")
                        equal(reader.at, len(reader.data), "it is in the form of version 0")
                    else:
                        check(is_closed(conn), f"api {api} version {version} closes the connection")
        is_alive(broker)


def test_byte_by_byte_and_a_long_pipeline():
    with Broker(shards=2, name="slow") as broker:
        is_alive(broker)
        with Conn(broker.host, broker.port) as conn:
            body = Conn.produce_body("alive", {0: batch([b"slowly"])})
            for byte in frame_of(wire.PRODUCE, 7, 5, body):
                conn.socket.sendall(bytes([byte]))
            (error, _), = Conn.produce_answer(conn.receive(5)).values()
            equal(error, NONE, "a frame that comes byte by byte")
        with Conn(broker.host, broker.port, receive_buffer=4096) as conn:
            frames = b""
            for i in range(500):
                kind = i % 3
                if kind == 0:
                    frames += frame_of(wire.PRODUCE, 7, i, Conn.produce_body("alive", {0: batch([b"x" * 200])}))
                elif kind == 1:
                    frames += frame_of(wire.FETCH, 11, i, Conn.fetch_body("alive", {0: 0}, wait_ms=0))
                else:
                    frames += frame_of(wire.METADATA, 4, i, struct.pack(">ib", -1, 0))
            sender = threading.Thread(target=conn.socket.sendall, args=(frames,))
            sender.start()
            time.sleep(0.3)
            is_alive(broker)
            for i in range(500):
                conn.receive(i)
            sender.join()


def test_connections_that_come_and_go():
    with Broker(shards=2, name="churn", settings={"max.connections": 200}) as broker:
        is_alive(broker)
        for turn in range(20):
            conns = []
            for i in range(100):
                conn = Conn(broker.host, broker.port)
                conns.append(conn)
                if i % 3 == 0:
                    conn.send(wire.FETCH, 11, Conn.fetch_body("alive", {0: 1 << 40 if i % 2 else 1}, wait_ms=60000, min_bytes=1 << 20))
                elif i % 3 == 1:
                    conn.send(wire.PRODUCE, 7, Conn.produce_body("alive", {0: batch([b"gone"])}))
            for conn in conns:
                if turn % 2:
                    conn.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                conn.close()
        is_alive(broker)


def test_a_fetch_whose_topic_goes_while_it_drains():
    big = batch([os.urandom(900000)])
    with Broker(shards=2, name="drain") as broker:
        with Conn(broker.host, broker.port, receive_buffer=4096) as slow, Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("going", 1, {"file.delete.delay.ms": "0"})[0], NONE, "create")
            for _ in range(8):
                equal(list(conn.produce("going", {0: big}).values())[0][0], NONE, "fill")
            asked = slow.send(wire.FETCH, 11, Conn.fetch_body("going", {0: 0}))
            waits = [Conn(broker.host, broker.port) for _ in range(5)]
            for wait in waits:
                wait.send(wire.FETCH, 11, Conn.fetch_body("going", {0: 8}, wait_ms=60000))
            time.sleep(0.3)
            equal(conn.delete_topic("going"), NONE, "delete")
            for wait in waits:
                _, parts = Conn.fetch_answer(wait.receive(1))
                check(parts[("going", 0)][0] in (UNKNOWN_TOPIC, 6), "a long poll learns that its topic is gone")
                wait.close()
            equal(conn.create_topic("going", 1)[0], NONE, "create again")
            equal(list(conn.produce("going", {0: batch([b"other"])}).values())[0], (NONE, 0), "the new topic begins at 0")
            _, parts = Conn.fetch_answer(slow.receive(asked))
            error, _, data = parts[("going", 0)]
            equal(error, NONE, "the answer that was draining")
            got = [whole[17:] for _, _, _, _, whole in wire.batches(data)]
            equal(got, [big[17:]] * 8, "what it holds, from the crc on: the old topic's batches")


# ---- requests ------------------------------------------------------------------------------------------------------------


def spoiled(at, form, value, with_crc=True):
    return patched(batch([b"v"]), at, form, value, with_crc)


# What a real Apache Kafka 4.3.1 says to the same bytes, in Produce 3 to 8; where a comment stands, it says something else.
BATCHES = [
    ("a good batch", batch([b"v"]), NONE),
    ("a wrong crc", spoiled(17, "I", 1, False), CORRUPT_MESSAGE),
    ("magic 0", spoiled(16, "b", 0), INVALID_RECORD),
    ("magic 1", spoiled(16, "b", 1), INVALID_RECORD),
    ("magic 3", spoiled(16, "b", 3), CORRUPT_MESSAGE),
    ("magic -1", spoiled(16, "b", -1), CORRUPT_MESSAGE),
    ("a count too high", spoiled(57, "i", 2), INVALID_RECORD),
    ("a count of 0", spoiled(57, "i", 0), INVALID_RECORD),
    ("a negative count", spoiled(57, "i", -1), INVALID_RECORD),
    ("a last offset delta too high", spoiled(23, "i", 5), INVALID_RECORD),
    ("a negative last offset delta", spoiled(23, "i", -1), INVALID_RECORD),
    ("a control batch", spoiled(21, "h", 0x20), INVALID_RECORD),
    ("a transactional batch", spoiled(21, "h", 0x10), NOT_ALLOWED_TRANSACTION),
    ("an unknown codec", spoiled(21, "h", 7), UNSUPPORTED_COMPRESSION),  # UNKNOWN_SERVER_ERROR
    ("a base offset", spoiled(0, "q", 5, False), INVALID_RECORD),
    ("a length too short", spoiled(8, "i", 10, False), CORRUPT_MESSAGE),
    ("a negative length", spoiled(8, "i", -1, False), CORRUPT_MESSAGE),
    ("a length past the end", spoiled(8, "i", 1 << 20, False), INVALID_RECORD),
    ("half a batch", batch([b"v"])[:40], INVALID_RECORD),
    ("5 bytes", batch([b"v"])[:5], INVALID_RECORD),
    ("two batches", batch([b"v"]) * 2, INVALID_RECORD),
    ("no bytes", b"", INVALID_RECORD),
    ("a batch and some bytes", batch([b"v"]) + b"zzz", NONE),  # it looks at whole batches only
    ("a batch too large", batch([b"x" * 1100000]), RECORD_TOO_LARGE),
    ("a sequence without a producer", batch([b"v"], sequence=3), NONE),
    ("a producer without a sequence", batch([b"v"], producer_id=7, producer_epoch=0), INVALID_RECORD),
    ("an unknown producer in the middle of its sequence", batch([b"v"], producer_id=98, producer_epoch=0, sequence=5), NONE),
    ("a record two hours ahead", batch([b"v"], timestamp=int(time.time() * 1000) + 7200000), INVALID_TIMESTAMP),
    ("a record of 1970", batch([b"v"], timestamp=1), NONE),
]


def test_batches_are_judged_as_kafka_does():
    with Broker(name="batches") as broker, Conn(broker.host, broker.port) as conn:
        equal(conn.create_topic("judged")[0], NONE, "create")
        end = 0
        for what, data, want in BATCHES:
            (error, base), = conn.produce("judged", {0: data}).values()
            equal(error, want, what)
            equal(base, end if want == NONE else -1, f"{what}: base offset")
            end += want == NONE
        for acks in (2, -2, 7, -32768):
            (error, _), = conn.produce("judged", {0: batch([b"v"])}, acks=acks).values()
            equal(error, INVALID_ACKS, f"acks={acks}")
        for topic in ("nope", "", "..", "x" * 250, "a/b", "__cluster_metadata"):
            (error, _), = conn.produce(topic, {0: batch([b"v"])}).values()
            equal(error, UNKNOWN_TOPIC, f"produce to {topic[:20]!r}")
        for index in (1, -1, 0x7FFFFFFF):
            (error, _), = conn.produce("judged", {index: batch([b"v"])}).values()
            equal(error, UNKNOWN_TOPIC, f"produce to partition {index}")
        twice = struct.pack(">ii", 0, len(BATCHES[0][1])) + BATCHES[0][1]
        conn.call(wire.PRODUCE, 7, string(None) + struct.pack(">hi", -1, 9000) + array([string("judged") + array([twice, twice])]))
        zstd = struct.pack(">ii", 0, len(BATCHES[0][1])) + spoiled(21, "h", 4)
        reader = conn.call(wire.PRODUCE, 3, string(None) + struct.pack(">hi", -1, 9000) + array([string("judged") + array([zstd])]))
        reader.take("i")
        reader.string()
        equal(reader.take("iih")[2], UNSUPPORTED_COMPRESSION, "zstd in a Produce too old for it")
        equal(conn.list_offsets("judged", {0: -1})[0][2], end + 1, "nothing but the good batches is there, what came twice once")
        for version in (0, 1, 2):
            with Conn(broker.host, broker.port) as old:
                old.send(wire.PRODUCE, version, struct.pack(">hi", -1, 9000) + array([]))
                check(is_closed(old), f"Produce {version} is closed")
        for body in (b"", b"\0", b"\xff" * 30, struct.pack(">hhii", -1, -1, 0, 0x7FFFFFFF)):
            with Conn(broker.host, broker.port) as bad:
                bad.send(wire.PRODUCE, 7, body)
                check(is_closed(bad), "a body that can't be read closes the connection")


def test_sequences_are_judged_as_kafka_does():
    with Broker(name="sequences") as broker, Conn(broker.host, broker.port) as conn:
        conn.create_topic("seq")
        _, producer, _ = conn.init_producer_id()

        def send(sequence, epoch=0, count=1):
            (error, base), = conn.produce("seq", {0: batch([b"v"] * count, producer_id=producer, producer_epoch=epoch,
                                                           sequence=sequence)}).values()
            return error, base

        equal(send(0), (NONE, 0), "the first")
        equal(send(1), (NONE, 1), "the next")
        equal(send(1), (NONE, 1), "the same again: where it was")
        equal(send(0), (NONE, 0), "an older one again: where it was")
        equal(send(5)[0], OUT_OF_ORDER_SEQUENCE, "a gap")
        for sequence in range(2, 9):
            equal(send(sequence)[0], NONE, f"sequence {sequence}")
        equal(send(0)[0], OUT_OF_ORDER_SEQUENCE, "one that is no longer remembered")
        equal(send(8, count=2)[0], OUT_OF_ORDER_SEQUENCE, "half old, half new")
        equal(send(0, epoch=1)[0], NONE, "a new epoch begins at 0")
        equal(send(9)[0], INVALID_PRODUCER_EPOCH, "the old epoch")
        equal(send(4, epoch=3)[0], OUT_OF_ORDER_SEQUENCE, "a new epoch that does not")
        equal(send(0, epoch=-1)[0], INVALID_PRODUCER_EPOCH, "no epoch")


def test_names_and_counts_of_topics_are_judged_as_kafka_does():
    long_name = "x" * 249
    cases = [
        ("z", 0, 1, INVALID_PARTITIONS), ("z", -2, 1, INVALID_PARTITIONS), ("z", 1, 0, INVALID_REPLICATION),
        ("z", 1, 2, INVALID_REPLICATION), ("z", 0x7FFFFFFF, 1, POLICY_VIOLATION), ("default", -1, -1, NONE), (long_name, 1, 1, NONE),
        (long_name + "x", 1, 1, INVALID_TOPIC), ("", 1, 1, INVALID_TOPIC), (".", 1, 1, INVALID_TOPIC), ("..", 1, 1, INVALID_TOPIC),
        ("../up", 1, 1, INVALID_TOPIC), ("a b", 1, 1, INVALID_TOPIC), ("\u00e9", 1, 1, INVALID_TOPIC), ("my.topic", 1, 1, NONE),
        ("my_topic", 1, 1, INVALID_TOPIC), ("my.topic", 1, 1, TOPIC_EXISTS), ("__cluster_metadata", 1, 1, INVALID_REQUEST),
    ]
    with Broker(name="names") as broker, Conn(broker.host, broker.port) as conn:
        for name, partitions, replicas, want in cases:
            row = string(name) + struct.pack(">ih", partitions, replicas) + array([]) + array([])
            reader = conn.call(wire.CREATE_TOPICS, 4, array([row]) + struct.pack(">ib", 9000, 0))
            reader.take("i")
            error = reader.array(lambda r=reader: (r.string(), r.take("h"), r.string()))[0][1]
            equal(error, want, f"create {name[:20]!r} with {partitions} partitions, {replicas} replicas")
        for name in ("", ".", "..", "../up", long_name + "x", "a b"):
            equal(conn.metadata([name])[name][0], INVALID_TOPIC, f"Metadata of {name[:20]!r}")
            equal(conn.metadata([name], auto_create=True)[name][0], INVALID_TOPIC, f"Metadata of {name[:20]!r}, to be made")
            equal(conn.delete_topic(name), UNKNOWN_TOPIC, f"delete {name[:20]!r}")
        equal(set(conn.metadata(None)), {"default", long_name, "my.topic"}, "topics that are there")


def test_odd_fetches_and_offsets_are_answered_as_kafka_does():
    with Broker(name="fetches") as broker, Conn(broker.host, broker.port) as conn:
        conn.create_topic("few")
        now = int(time.time() * 1000) - 1000
        equal(list(conn.produce("few", {0: batch([b"a", b"b", b"c"], timestamp=now)}).values())[0], (NONE, 0), "produce")
        for offset, want in ((0, NONE), (2, NONE), (3, NONE), (4, OFFSET_OUT_OF_RANGE), (-1, OFFSET_OUT_OF_RANGE),
                             (1 << 62, OFFSET_OUT_OF_RANGE), (-(1 << 63), OFFSET_OUT_OF_RANGE)):
            equal(conn.fetch("few", {0: offset}, wait_ms=0)[1][("few", 0)][0], want, f"fetch at {offset}")
        for size in (0, 1):
            _, parts = conn.fetch("few", {0: 0}, max_bytes=size, partition_bytes=size)
            equal(len(list(wire.batches(parts[("few", 0)][2]))), 1, f"with {size} bytes allowed there is one batch all the same")
        row = struct.pack(">iiqqi", 0, -1, 0, -1, 1 << 20)

        def odd(replica=-1, session=0, epoch=-1, rows=(row,)):
            body = struct.pack(">iiiibii", replica, 0, 0, 1 << 20, 0, session, epoch)
            reader = conn.call(wire.FETCH, 11, body + array([string("few") + array(list(rows))]) + array([]) + string(""))
            error, parts = Conn.fetch_answer(reader)
            return error, parts.get(("few", 0), (None,))[0]

        equal(odd(session=5, epoch=0), (NONE, NONE), "a new session in place of another")
        for session, epoch in ((5, 1), (0, 1), (0, -5), (5, -5)):
            equal(odd(session=session, epoch=epoch), (SESSION_NOT_FOUND, None), f"session {session} epoch {epoch}")
        equal(odd(replica=1), (NONE, NOT_LEADER), "a fetch as a replica")
        equal(odd(rows=(row,) * 300), (NONE, NONE), "one partition 300 times")
        for when, want in ((-1, (NONE, -1, 3)), (-2, (NONE, -1, 0)), (-3, (UNSUPPORTED_VERSION, -1, -1)), (-6, (UNSUPPORTED_VERSION, -1, -1)),
                           (-(1 << 63), (UNSUPPORTED_VERSION, -1, -1)), (0, (NONE, now, 0)), (now, (NONE, now, 0)),
                           (now + 1, (NONE, -1, -1)), ((1 << 63) - 1, (NONE, -1, -1))):
            equal(conn.list_offsets("few", {0: when})[0], want, f"ListOffsets of {when}")


def test_a_name_that_leaves_no_room_for_the_words_about_it():
    """A group that is missing is named in a text of the answer, which may be no longer than the name itself was."""
    with Broker(name="long") as broker, Conn(broker.host, broker.port) as conn:
        for size in (32750, 32751, 32767):
            name = wire.uvarint(size + 1) + b"n" * size
            reader = conn.call(wire.DESCRIBE_GROUPS, 6, b"\0" + wire.uvarint(2) + name + b"\0\0")  # tags of the header, one group
            head = struct.pack(">bib", 0, 0, 2) + struct.pack(">h", GROUP_ID_NOT_FOUND)
            equal(reader.data[4:4 + len(head)], head, f"what is said of a missing group with a name of {size} bytes")
        is_alive(broker)


class Words:
    """Of any request: fields of every type, few values for each, the longest text and null among them."""

    def __init__(self, dice):
        self.dice = dice

    def of_field(self, message, field, version, depth=0):
        may_be_null = messages.is_in(field.null, version)
        if may_be_null and self.dice.random() < 0.2:
            return None
        if field.is_array:
            count = self.dice.choice((0, 1, 1, 2)) if depth < 3 else 0
            return [self.of_type(message, field, version, depth) for _ in range(count)]
        return self.of_type(message, field, version, depth)

    def of_type(self, message, field, version, depth):
        if field.type == "string":
            return self.dice.choice(("n" * 32767, "n" * 32767, "g", "consumer", "1", "alive", ""))
        if field.type == "bool":
            return self.dice.random() < 0.5
        if field.type == "uuid":
            return self.dice.choice((bytes(16), b"u" * 16))
        if field.type in ("bytes", "records"):
            return self.dice.choice((b"", b"w" * 40000))
        if field.type in messages.NUMBERS:
            return self.dice.choice((0, 1, -1, 2, 4, 100) if field.type == "int8" else (0, 1, 1, -1, -2, 10000))
        return self.of_struct(message, messages.fields_of(message, field), version, depth + 1)

    def of_struct(self, message, fields, version, depth=0):
        return {field.name: self.of_field(message, field, version, depth) for field in fields if messages.is_in(field.versions, version)}


def test_the_longest_words_in_every_request_are_answered_or_closed():
    """What is said of a request is built from its words, and must be a message whatever they are."""
    words = Words(random.Random(SEED))
    versions = {key: name for name, key in messages.KEYS.items() if key in SERVED}
    answered = 0
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1, "auto.create.topics.enable": "false"}
    with Broker(2, settings, name="words") as broker:
        with Conn(broker.host, broker.port) as conn:
            served = conn.api_versions()[1]
        for turn in range(24 if IS_LONG else 8):
            for key, api in versions.items():
                for version in range(max(served[key][0], messages.MESSAGES[api + "Request"].versions[0]), served[key][1] + 1):
                    message = messages.MESSAGES[api + "Request"]
                    client = words.dice.choice(("n" * 32767, "hand", None))
                    frame = messages.request(api, version, 1, client, words.of_struct(message, message.fields, version))
                    with Conn(broker.host, broker.port, timeout_s=0.1) as conn:
                        try:
                            conn.socket.sendall(frame)
                            answered += len(conn.receive_exactly(4)) // 4
                        except (ConnectionError, socket.timeout):
                            pass  # closed, or it waits: for others of its group, or for records
            is_alive(broker, f"alive{turn}")
    check(answered > 500, f"{answered} requests were answered")


def test_requests_that_memory_can_never_hold_end():
    """60,000 topics in one request: more than the broker's memory has room to answer. Its slots come back."""
    rows = [string(f"t{i}") + struct.pack(">ih", 1, 1) + array([]) + array([]) for i in range(60000)]
    body = array(rows) + struct.pack(">ib", 1000, 1)
    with Broker(name="starve", settings={"weir.memory.max.bytes": 512 << 20, "weir.shutdown.timeout.ms": 60000}) as broker:
        for _ in range(3):
            with Conn(broker.host, broker.port) as conn:
                conn.send(wire.CREATE_TOPICS, 4, body)
                time.sleep(0.2)
        is_alive(broker)
        began = time.monotonic()
        broker.stop()
        check(time.monotonic() - began < 20, "requests of clients that are gone don't hold up a stop")


# ---- churn, and a stop in the middle of it ---------------------------------------------------------------------------------


def rude_load(broker, seed, is_over):
    """Anything, as fast as it goes; errors of the network are what it is about."""
    dice = random.Random(seed)
    while not is_over.is_set():
        try:
            with Conn(broker.host, broker.port, 2) as conn:
                for _ in range(dice.randrange(1, 8)):
                    topic = f"churn{dice.randrange(3)}"
                    kind = dice.randrange(8)
                    if kind == 0:
                        conn.create_topic(topic, 3)
                    elif kind == 1:
                        conn.delete_topic(topic)
                    elif kind < 5:
                        conn.send(wire.PRODUCE, 7, Conn.produce_body(topic, {p: batch([random_bytes(dice, dice.randrange(3000))])
                                                                             for p in range(3)}, acks=dice.choice((-1, 1))))
                    elif kind == 5:
                        conn.send(wire.FETCH, 11, Conn.fetch_body(topic, {0: 0, 1: 0, 2: 0}, wait_ms=dice.choice((0, 500, 60000))))
                    else:
                        conn.send(wire.METADATA, 4, array([string(topic)]) + b"\1")
                if dice.randrange(2):
                    conn.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (OSError, AssertionError):
            pass


def test_a_stop_in_the_middle_of_everything_is_clean():
    with Broker(shards=3, name="churning") as broker:
        for turn in range(3):
            is_alive(broker)
            is_over = threading.Event()
            load = [threading.Thread(target=rude_load, args=(broker, SEED + 10 * turn + i, is_over)) for i in range(4)]
            for thread in load:
                thread.start()
            try:
                time.sleep(2)
                began = time.monotonic()
                broker.stop()
                check(time.monotonic() - began < 12, "it stopped within weir.shutdown.timeout.ms")
            finally:
                is_over.set()
                for thread in load:
                    thread.join()
            before = len(broker.log())
            broker.start()
            words = broker.log()[before:]
            check(" ERROR " not in words, lambda w=words: f"the start has nothing to complain of: {w}")
        is_alive(broker)
        broker.stop()
        before = len(broker.log())
        broker.start()
        words = broker.log()[before:]
        check("last stop was clean" in words, lambda: f"a stop without load is clean: {words}")
        is_alive(broker)


# ---- the command line -------------------------------------------------------------------------------------------------------


def test_wrong_settings_and_a_second_broker_are_refused_in_clear_words():
    with Broker(name="second") as broker:
        listener = ["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "weir.http.listener="]
        code, _, err = weir("serve", "--data-dir", broker.data, *listener)
        equal(code, 1, "a second broker on the same data")
        check(str(broker.pid) in err or "in use" in err or "locked" in err, f"it says why: {err}")
        code, _, err = weir("serve", "--data-dir", broker.data + "2", "--set", f"listeners=PLAINTEXT://127.0.0.1:{broker.port}",
                            "--set", "weir.http.listener=")
        equal(code, 1, "a second broker on the same port")
        for setting, word in (("log.segment.byts=1", "log.segment.bytes"), ("log.segment.bytes=x", "log.segment.bytes"),
                              ("log.segment.bytes=1", "log.segment.bytes"), ("listeners=SSL://127.0.0.1:0", "SSL"), ("novalue", "novalue"),
                              ("weir.shards=-1", "weir.shards"), ("log.dirs=a,b", "log.dirs"), ("num.partitions=0", "num.partitions")):
            code, _, err = weir("serve", "--data-dir", broker.data + "3", *listener[2:], "--set", setting)
            equal(code, 2, f"--set {setting}")
            check(word in err, f"--set {setting}: it says what is wrong: {err}")
        is_alive(broker)


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
