#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks beside a load: a kcat that produces and a kcat that consumes meet no error and lose no record whatever somebody else sends.

Each attack prints the load's time from produce to consume (p99) before and during it. The broker has 64 MiB.
"""

import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib

import harness
import wire
from harness import IS_LONG, SEED, Broker, allow_files, check, equal, say, until
from messages import uvarint
from wire import Conn, batch, patched, string

MIB = 1 << 20
MEMORY_MIB = 64
SLACK_MIB = 16
KCAT_READS = 4096  # bytes at once: it sends a shorter line only when more have come
GZIP = 1
RECORD_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR = 10, 2, 87, -1


class Load:
    """A kcat that produces a line every few milliseconds, and one that consumes them: .times are what each took, in seconds."""

    TOPIC = "load"

    def __init__(self, broker, every_s=0.008):
        at = ["-b", broker.bootstrap, "-t", self.TOPIC]
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic(self.TOPIC)[0], 0, "the load's topic")
        self.producer = subprocess.Popen(["kcat", "-P", *at, "-X", "acks=all", "-X", "linger.ms=0", "-q"], stdin=subprocess.PIPE,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.consumer = subprocess.Popen(["kcat", "-C", *at, "-o", "beginning", "-u", "-q", "-f", "%s\n"], stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE)
        self.every_s = every_s
        self.times = []
        self.sent = 0
        self.wrong = None
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self._produce, daemon=True), threading.Thread(target=self._consume, daemon=True)]
        for thread in self.threads:
            thread.start()
        until(lambda: len(self.times) > 20, 30, "the load runs")

    def _produce(self):
        while not self.is_over.wait(self.every_s):
            line = f"{self.sent} {time.monotonic()} ".encode()
            self.producer.stdin.write(line.ljust(KCAT_READS - 1, b".") + b"\n")
            self.producer.stdin.flush()
            self.sent += 1
        self.producer.stdin.close()

    def _consume(self):
        for line in self.consumer.stdout:
            number, began, _ = line.split(b" ", 2)
            if int(number) != len(self.times) and self.wrong is None:
                self.wrong = f"record {int(number)} came where {len(self.times)} was next"
            self.times.append(time.monotonic() - float(began))

    def p99_of(self, seconds):
        """Of what arrives in the next so many seconds."""
        first = len(self.times)
        deadline = time.monotonic() + seconds
        until(lambda: time.monotonic() > deadline and len(self.times) > first + 20, seconds + 30, "the load goes on")
        times = sorted(self.times[first:])
        return times[len(times) * 99 // 100]

    def stop(self):
        """Nothing failed, everything came, in order."""
        self.is_over.set()
        self.threads[0].join()
        errors = self.producer.stderr.read()
        equal(self.producer.wait(60), 0, f"the producer's exit code ({errors!r})")
        until(lambda: len(self.times) >= self.sent or self.consumer.poll() is not None, 60, "all records are consumed")
        self.consumer.terminate()
        self.consumer.wait(30)
        self.threads[1].join()
        equal(self.wrong, None, "the order of what the load consumes")
        equal(len(self.times), self.sent, "records consumed")

    def kill(self):
        self.is_over.set()
        for process in (self.producer, self.consumer):
            if process.poll() is None:
                process.kill()
                process.wait()


def beside_a_load(name, attack, settings=None, seconds=2.0, shards=2):
    """Runs attack(broker, is_over) in a thread, over and over, beside a load."""
    allow_files(30000)
    limits = {"weir.memory.max.bytes": MEMORY_MIB * MIB, **(settings or {})}
    with Broker(shards, limits, name="attack") as broker:
        load = Load(broker)
        try:
            before = load.p99_of(seconds)
            is_over = threading.Event()
            failures = []

            def run():
                try:
                    attack(broker, is_over)
                except BaseException as error:  # pylint: disable=broad-except
                    failures.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            during = load.p99_of(seconds)
            is_over.set()
            thread.join(120)
            check(not thread.is_alive(), f"{name}: the attack does not end")
            if failures:
                raise failures[0]
            peak_kib = broker.memory_kib("VmHWM")
            load.stop()
        finally:
            load.kill()
        say(f"       {name}: p99 from produce to consume {before * 1000:.1f} ms before, {during * 1000:.1f} ms during; {load.sent} records; "
            f"at most {peak_kib // 1024} MiB resident")
        check(peak_kib <= (MEMORY_MIB + SLACK_MIB) * 1024, f"{name}: {peak_kib} KiB resident")


def source(broker, index):
    """A connection from one of many addresses of this machine: ports of one are not enough for all of them."""
    conn = socket.socket()
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    conn.bind((f"127.0.{1 + index // 20000}.{1 + index % 7}", 0))
    conn.settimeout(30)
    conn.connect((broker.host, broker.port))
    return conn


# ---- the attacks ----


def test_half_a_frame_and_silence():
    def attack(broker, is_over):
        conns = []
        for i in range(500):
            conns.append(source(broker, i))
            conns[-1].sendall(struct.pack(">ihh", 90000 + i, 0, 7) + b"\0" * (i * 37 % 20000))
        is_over.wait(30)
        for conn in conns:
            conn.close()

    beside_a_load("half a frame and silence, 500 times", attack)


def test_frames_cut_at_every_byte():
    frame = Conn.frame(wire.PRODUCE, 7, 1, Conn.produce_body(Load.TOPIC + "-cut", {0: batch([b"cut" * 20])}))

    def attack(broker, is_over):
        while True:
            for at in range(len(frame)):
                with source(broker, at) as conn:
                    conn.sendall(frame[:at])
            if is_over.is_set():
                return

    beside_a_load(f"a frame cut at each of its {len(frame)} bytes", attack)


def test_a_length_of_two_gigabytes():
    def attack(broker, is_over):
        while not is_over.is_set():
            for length in (0x7FFFFFFF, 0x7FFFFFFE, 104857601, -1, -(1 << 31)):
                with source(broker, 0) as conn:
                    conn.sendall(struct.pack(">i", length) + b"\0" * 100)
                    try:
                        equal(conn.recv(1), b"", "what comes of it")
                    except ConnectionError:
                        pass

    beside_a_load("lengths of 2 GiB", attack)


def test_connections_made_and_dropped():
    count = 40000 if IS_LONG else 8000

    def attack(broker, _):
        reset = struct.pack("ii", 1, 0)
        for i in range(count):
            conn = source(broker, i)
            if i % 2 == 0:
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            conn.close()

    beside_a_load(f"{count} connections made and dropped", attack)


def test_connections_held_open():
    count = min(10000 if IS_LONG else 2000, allow_files(30000) - 200)

    def attack(broker, is_over):
        conns = []
        for i in range(count):
            conns.append(source(broker, i))
        frame = Conn.frame(wire.API_VERSIONS, 0, 9, b"")
        for conn in conns[::50]:  # each is served
            conn.sendall(frame)
        for conn in conns[::50]:
            equal(struct.unpack(">i", conn.recv(4))[0] > 4, True, "an answer beside so many")
        is_over.wait(30)
        for conn in conns:
            conn.close()

    beside_a_load(f"{count} connections held open", attack)


def test_readers_that_never_read():
    def attack(broker, is_over):
        conns = []
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("big")[0], 0, "create big")
            block = batch([random.Random(SEED).randbytes(500000)])
            for _ in range(20):
                equal(conn.produce("big", {0: block})[("big", 0)][0], 0, "produce big")
        for _ in range(100):
            conn = Conn(broker.host, broker.port, receive_buffer=4096)
            conns.append(conn)
            for _ in range(10):
                conn.send(wire.FETCH, 11, conn.fetch_body("big", {0: 0}))
        is_over.wait(30)
        for conn in conns:
            conn.close()

    beside_a_load("100 readers that never read", attack)


def test_pipelined_requests_are_answered_in_order():
    def attack(broker, is_over):
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("piped")[0], 0, "create piped")
            number = 0
            while not is_over.is_set():
                frames = b""
                for i in range(number, number + 300):
                    kind = i % 4
                    if kind == 0:
                        frames += Conn.frame(wire.PRODUCE, 7, i, Conn.produce_body("piped", {0: batch([b"x" * 200])}))
                    elif kind == 1:
                        frames += Conn.frame(wire.FETCH, 11, i, Conn.fetch_body("piped", {0: 0}, wait_ms=0, max_bytes=5000))
                    elif kind == 2:
                        frames += Conn.frame(wire.METADATA, 4, i, struct.pack(">ib", -1, 0))
                    else:
                        frames += Conn.frame(wire.API_VERSIONS, 0, i, b"")
                sender = threading.Thread(target=conn.socket.sendall, args=(frames,))
                sender.start()
                for i in range(number, number + 300):
                    conn.receive(i)  # it must be this one
                sender.join()
                number += 300

    beside_a_load("300 requests in a pipeline, again and again", attack)


def test_pipelined_joins_of_clients_that_vanish():
    """Each would wait for its group for minutes, also when nobody is there any more to be told: they leave requests to the others."""
    def join(group, correlation):
        body = string(group) + struct.pack(">ii", 10000, 300000) + string("") + string("consumer")
        return Conn.frame(wire.JOIN_GROUP, 3, correlation, body + wire.array([string("range") + struct.pack(">i", 0)]))

    def attack(broker, is_over):
        turn = 0
        while not is_over.is_set():
            conns = [Conn(broker.host, broker.port) for _ in range(8)]
            for i, conn in enumerate(conns):
                conn.socket.sendall(b"".join(join(f"j{turn % 16}-{i}-{k % 4}", k) for k in range(128)))
            for conn in conns:
                conn.close()
            turn += 1
        with Conn(broker.host, broker.port) as conn:
            conn.call(wire.DESCRIBE_GROUPS, 0, wire.array([string("j0-0-0")]))

    beside_a_load("128 JoinGroups in a pipeline, of 8 clients at a time that vanish", attack)


def test_clients_that_vanish_in_a_long_poll():
    def attack(broker, is_over):
        turn = 0
        while True:
            conns = []
            for _ in range(100):
                conn = Conn(broker.host, broker.port)
                conn.send(wire.FETCH, 11, conn.fetch_body(Load.TOPIC, {0: 1 << 40 if turn % 2 else 0}, wait_ms=30000, min_bytes=1 << 29))
                conns.append(conn)
            for conn in conns:
                conn.close()
            turn += 1
            if is_over.is_set():
                return

    beside_a_load("clients that vanish in a long poll, 100 at a time", attack)


def bomb(size_bytes):
    """One batch, gzip: few bytes that want to be very many."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(packer.compress(b"\0" * MIB) for _ in range(size_bytes // MIB)) + packer.flush()
    head = batch([b""])[:61]
    out = bytearray(head + data)
    struct.pack_into(">i", out, 8, len(out) - 12)
    struct.pack_into(">h", out, 21, GZIP)
    return patched(bytes(out), 57, "i", 1)


def test_decompression_bombs():
    packed = bomb(800 * MIB)

    def attack(broker, is_over):
        with Conn(broker.host, broker.port, timeout_s=60) as conn:
            for topic, configs in (("plain", None), ("packed", {"compression.type": "lz4"}), ("stamped", {"message.timestamp.type": "LogAppendTime"})):
                equal(conn.create_topic(topic, configs=configs)[0], 0, f"create {topic}")
            while True:
                for topic in ("packed", "stamped", "plain"):
                    (error, base), = conn.produce(topic, {0: packed}).values()
                    if topic == "packed":
                        check(error != 0, "a bomb that had to be opened is refused")
                    if error == 0:
                        conn.list_offsets(topic, {0: 1})
                        conn.fetch(topic, {0: base})
                if is_over.is_set():
                    return

    beside_a_load(f"decompression bombs, {len(packed) // 1024} KiB that want to be 800 MiB", attack)


def test_floods_of_tagged_fields():
    def flood(count):
        tags = b"".join(uvarint(i) + b"\0" for i in range(count))
        head = struct.pack(">hhi", wire.API_VERSIONS, 3, 5) + string("tags") + uvarint(count) + tags
        body = b"\x05name\x05ver1" + b"\0"
        return struct.pack(">i", len(head + body)) + head + body

    def attack(broker, is_over):
        few, many = flood(900), flood(300000)
        claim = struct.pack(">hhi", wire.API_VERSIONS, 3, 5) + string("tags") + b"\xff\xff\xff\xff\x0f"
        claim = struct.pack(">i", len(claim)) + claim
        while True:
            with source(broker, 1) as conn:
                conn.sendall(few)
                check(len(conn.recv(4)) > 0, "900 unknown tagged fields are skipped")
            for data in (many, claim):
                with source(broker, 1) as conn:
                    try:
                        conn.sendall(data)
                        equal(conn.recv(4), b"", "what comes of a flood of tagged fields")
                    except ConnectionError:
                        pass
            if is_over.is_set():
                return

    beside_a_load("floods of 300,000 tagged fields", attack)


# ---- the limits that Kafka has names for ----


def is_served(conn, timeout_s=10):
    """Whether a request of this connection is answered; None: it was closed."""
    conn.socket.settimeout(timeout_s)
    try:
        conn.api_versions()
        return True
    except ConnectionError:
        return None
    except socket.timeout:
        return False
    finally:
        conn.socket.settimeout(30)


def connect_from(broker, address):
    return Conn(broker.host, broker.port, address=address)


def test_max_connections_is_of_the_whole_broker():
    for shards in (1, 2, 3):
        with Broker(shards, {"max.connections": 5}, name="max-connections") as broker:
            conns = [connect_from(broker, "127.0.0.1") for _ in range(5)]
            for conn in conns:
                equal(is_served(conn), True, f"one of 5 with {shards} shards")
            late = connect_from(broker, "127.0.0.1")
            equal(is_served(late, 0.5), False, "the sixth waits")
            conns.pop().close()
            late.receive(late.next - 1)  # the sixth is answered once there is room
            for conn in [*conns, late]:
                conn.close()


def test_max_connections_of_an_address():
    settings = {"max.connections.per.ip": 3, "max.connections.per.ip.overrides": "127.0.0.9:1, 127.0.0.10:0"}
    for shards in (1, 3):
        with Broker(shards, settings, name="per-ip") as broker:
            for address, limit in (("127.0.0.1", 3), ("127.0.0.2", 3), ("127.0.0.9", 1), ("127.0.0.10", 0)):
                for _ in range(3):  # what has left makes room
                    conns = [connect_from(broker, address) for _ in range(limit)]
                    for conn in conns:
                        until(lambda c=conn: is_served(c), 10, f"{address} may have {limit}")
                    late = connect_from(broker, address)
                    try:
                        equal(late.socket.recv(1), b"", f"connection {limit + 1} of {address}")
                    except ConnectionError:
                        pass
                    late.close()
                    for conn in conns:
                        equal(is_served(conn), True, f"{address}: those before it stay")
                        conn.close()
                    with_room = []

                    def has_room():
                        conn = connect_from(broker, address)
                        with_room.append(conn)
                        return is_served(conn)

                    if limit > 0:
                        until(has_room, 10, f"{address} has room again")
                    for conn in with_room:
                        conn.close()
                    if limit > 0:
                        until(lambda: count_of(broker) == 0, 10, "all of them are gone")
            check("max.connections.per.ip" in broker.log(), "the log says why")


def count_of(broker):
    """Connections that the broker holds, as the system sees them."""
    port = f"{broker.port:04X}"
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return sum(1 for row in rows if row[1].endswith(":" + port) and row[3] in ("01", "08"))


def test_idle_connections_are_closed():
    with Broker(2, {"connections.max.idle.ms": 700}, name="idle") as broker:
        idle = connect_from(broker, "127.0.0.1")
        busy = connect_from(broker, "127.0.0.1")
        began = time.monotonic()
        idle.socket.settimeout(0.1)
        while True:
            equal(is_served(busy), True, "a busy connection stays")
            try:
                equal(idle.socket.recv(1), b"", "what an idle connection hears")
                break
            except socket.timeout:
                check(time.monotonic() - began < 20, "an idle connection is closed")
        check(time.monotonic() - began >= 0.6, "not before its time")
        equal(is_served(busy), True, "the busy one outlives it")
        idle.close()
        busy.close()


def test_the_longest_request_and_the_bytes_that_may_be_queued():
    limit = 100000
    settings = {"socket.request.max.bytes": limit, "queued.max.request.bytes": limit, "message.max.bytes": 2 * limit}
    with Broker(1, settings, name="queued") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t")[0], 0, "create")
            body = Conn.produce_body("t", {0: batch([b"x" * 90000])})
            (error, _), = Conn.produce_answer(conn.call(wire.PRODUCE, 7, body)).values()
            equal(error, 0, "a request below the limit")
            too_long = connect_from(broker, "127.0.0.1")
            too_long.socket.sendall(struct.pack(">i", limit + 1))
            equal(too_long.socket.recv(1), b"", "a request above it")
            too_long.close()
            # One holds all that may be queued: what another sends waits, and is served once it is let in.
            half = connect_from(broker, "127.0.0.1")
            half.socket.sendall(struct.pack(">i", limit) + b"\0" * 50)
            until(lambda: is_served(conn, 0.3) is False, 10, "the queue is full")
            half.close()
            conn.receive(conn.next - 1)
            equal(is_served(conn), True, "there is room again")


def test_limits_that_make_no_sense_are_refused_in_clear_words():
    for settings, words in (
            ({"queued.max.request.bytes": 1000}, "queued.max.request.bytes"),
            ({"max.connections.per.ip": -1}, "max.connections.per.ip"),
            ({"max.connections.per.ip.overrides": "localhost:3"}, "ADDRESS:COUNT"),
            ({"max.connections.per.ip.overrides": "127.0.0.1"}, "ADDRESS:COUNT"),
            ({"max.connections": 0}, "max.connections")):
        broker = Broker(1, settings, name="wrong")
        try:
            broker.start(10)
        except AssertionError as error:
            check(words in str(error), f"{settings}: {error}")
        else:
            raise AssertionError(f"{settings} was taken")
        finally:
            broker.__exit__(None, None, None)


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
