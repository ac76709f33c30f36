#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rude loads: resident memory stays under the limit, descriptors within theirs, and other clients get their work done meanwhile."""

import os
import selectors
import socket
import sys
import threading
import time

import harness
import wire
from harness import IS_LONG, Broker, allow_files, check, equal, say, until, weir

MIB = 1 << 20
SLACK_KIB = 16 * 1024


class Watch:
    """Looks at the broker's resident memory until it is stopped; .peak_kib."""

    def __init__(self, broker):
        self.broker = broker
        self.peak_kib = 0
        self.files_peak = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.is_over.wait(0.02):
            self.look()

    def look(self):
        try:
            self.peak_kib = max(self.peak_kib, self.broker.memory_kib())
            files = 0
            for fd in os.listdir(f"/proc/{self.broker.pid}/fd"):
                try:
                    if os.readlink(f"/proc/{self.broker.pid}/fd/{fd}").endswith((".log", ".index", ".timeindex")):
                        files += 1
                except OSError:
                    pass
            self.files_peak = max(self.files_peak, files)
        except (OSError, AttributeError):
            pass

    def stop(self):
        self.is_over.set()
        self.thread.join()


def others_get_on(broker, topic, count=200):
    """An ordinary client's work, done beside the load; the time it takes."""
    began = time.monotonic()
    at = ["--bootstrap", broker.bootstrap]
    code, _, err = weir("topic", "create", topic, "--partitions", "3", "--if-not-exists", *at, timeout_s=60)
    equal(code, 0, f"another client creates a topic ({err})")
    lines = "".join(f"line {i}\n" for i in range(count))
    code, _, err = weir("produce", topic, "--partition", "1", *at, stdin=lines, timeout_s=60)
    equal(code, 0, f"another client produces ({err})")
    code, out, err = weir("consume", topic, "--partition", "1", "-n", str(count), *at, timeout_s=60)
    equal(code, 0, f"another client consumes ({err})")
    equal(out, lines, "what another client consumes")
    return time.monotonic() - began


def fill(broker, topic, total_bytes, partitions=1):
    """A topic of so many bytes, the same batch over and over."""
    batch = wire.batch([os.urandom(900 * 1024)])
    with wire.Conn(broker.host, broker.port, 60) as conn:
        equal(conn.create_topic(topic, partitions)[0], 0, f"create {topic}")
        count = total_bytes // len(batch) + 1
        for i in range(count):
            (error, _), = conn.produce(topic, {i % partitions: batch}, acks=1).values()
            equal(error, 0, f"fill {topic}")
        until(lambda: sum(row[2] for row in conn.list_offsets(topic, {p: -1 for p in range(partitions)}).values()) == count, 60,
              f"{topic} is filled")
    return count


def limit_settings(mib, **more):
    return {"weir.memory.max.bytes": mib * MIB, **{name.replace("__", "."): value for name, value in more.items()}}


def test_consumers_that_never_read():
    allow_files(4096)
    mib = 128
    consumers = 200
    size = (1024 if IS_LONG else 256) * MIB
    with Broker(2, limit_settings(mib, max__connections=2000), name="limits") as broker:
        fill(broker, "big", size)
        watch = Watch(broker)
        conns = []
        try:
            for _ in range(consumers):
                conn = wire.Conn(broker.host, broker.port, 60, receive_buffer=4096)
                conns.append(conn)
                for _ in range(5):  # and it has more to ask
                    conn.send(wire.FETCH, 11, conn.fetch_body("big", {0: 0}))
            took = others_get_on(broker, "others")
            time.sleep(1)  # what piles up must have had the time to
            took = max(took, others_get_on(broker, "others2"))
        finally:
            watch.stop()
            for conn in conns:
                conn.close()
        took_after = others_get_on(broker, "others3")
        say(f"       {consumers} consumers that never read a topic of {size // MIB} MiB: at most {watch.peak_kib // 1024} MiB resident, "
            f"limit {mib} + 16; another client took {took:.2f} s, {took_after:.2f} s afterwards")
        check(watch.peak_kib <= mib * 1024 + SLACK_KIB, f"{watch.peak_kib} KiB resident")


def test_many_partitions_few_files():
    partitions = 2000
    files = 64
    with Broker(2, {"weir.files.max": files}, name="limits") as broker:
        with wire.Conn(broker.host, broker.port, 120) as conn:
            began = time.monotonic()
            equal(conn.create_topic("many", partitions)[0], 0, "create many")
            created = time.monotonic() - began
            watch = Watch(broker)
            began = time.monotonic()
            step = 100
            for i in range(2):
                for first in range(0, partitions, step):
                    answer = conn.produce("many", {p: wire.batch([b"%d in %d" % (i, p)]) for p in range(first, first + step)})
                    equal({row for row in answer.values()}, {(0, i)}, f"produce to {step} partitions from {first} on")
            produced = time.monotonic() - began
            began = time.monotonic()
            took = others_get_on(broker, "others")
            for first in range(0, partitions, step):
                offsets = {p: 0 for p in range(first, first + step)}
                while any(at < 2 for at in offsets.values()):
                    error, parts = conn.fetch("many", {p: at for p, at in offsets.items() if at < 2})
                    equal(error, 0, "fetch")
                    for (_, p), (code, _, data) in parts.items():
                        equal(code, 0, f"fetch of many-{p}")
                        for base, last, _, _, whole in wire.batches(data):
                            equal(base, offsets[p], f"many-{p}: offset")
                            check(b"%d in %d" % (base, p) in whole, f"many-{p} at {base}: other bytes")
                            offsets[p] = last + 1
            fetched = time.monotonic() - began
        watch.stop()
        shards = 2
        say(f"       {partitions} partitions, weir.files.max={files}: created in {created:.1f} s, written twice in {produced:.1f} s, read in "
            f"{fetched:.1f} s; at most {watch.files_peak} files of logs open; another client took {took:.2f} s")
        check(watch.files_peak <= files * shards, f"{watch.files_peak} files open")
        broker.kill()
        began = time.monotonic()
        broker.start()
        say(f"       started again after a kill in {time.monotonic() - began:.2f} s")
        with wire.Conn(broker.host, broker.port, 120) as conn:
            ends = conn.list_offsets("many", {p: -1 for p in range(partitions)})
            equal({row for row in ends.values()}, {(0, -1, 2)}, "ends after a kill")


def test_producers_against_little_memory():
    allow_files(4096)
    mib = 64
    producers = 500
    rounds = 6 if IS_LONG else 2
    with Broker(2, limit_settings(mib, max__connections=2000), name="limits") as broker:
        with wire.Conn(broker.host, broker.port, 60) as conn:
            equal(conn.create_topic("t", 10)[0], 0, "create t")
        bodies = [wire.Conn.produce_body("t", {p: wire.batch([os.urandom(700 * 1024)])}, timeout_ms=120000) for p in range(10)]
        watch = Watch(broker)
        load = Load(broker, producers, rounds, bodies)
        load.start()
        try:
            took = others_get_on(broker, "others")
            load.join(240)
        finally:
            load.stop()
            watch.stop()
        if load.failure:
            raise load.failure
        equal(load.answered, producers * rounds, "answers")
        after = others_get_on(broker, "others2")
        with wire.Conn(broker.host, broker.port, 60) as conn:
            ends = conn.list_offsets("t", {p: -1 for p in range(10)})
            equal(sum(row[2] for row in ends.values()), load.taken, "records in the topic against records acknowledged")
        say(f"       {producers} producers, {rounds} requests of 700 KiB each: {load.taken} taken, {load.refused} refused, in {load.took:.1f} s; "
            f"at most {watch.peak_kib // 1024} MiB resident, limit {mib} + 16; another client took {took:.2f} s, {after:.2f} s afterwards")
        check(load.taken >= load.answered // 2, "too many are refused")
        check(watch.peak_kib <= mib * 1024 + SLACK_KIB, f"{watch.peak_kib} KiB resident")


class Load(threading.Thread):
    """Many producers in one thread: each sends its next request as soon as the answer to the one before is there."""

    def __init__(self, broker, producers, rounds, bodies):
        super().__init__(daemon=True)
        self.broker = broker
        self.producers = producers
        self.rounds = rounds
        self.bodies = bodies
        self.answered = self.taken = self.refused = 0
        self.took = 0.0
        self.failure = None
        self.is_over = False

    def stop(self):
        self.is_over = True
        self.join()

    def run(self):
        began = time.monotonic()
        try:
            self._run()
        except BaseException as error:  # pylint: disable=broad-except
            self.failure = error
        self.took = time.monotonic() - began

    def _run(self):
        selector = selectors.DefaultSelector()
        for index in range(self.producers):
            sock = socket.create_connection((self.broker.host, self.broker.port), timeout=60)
            sock.setblocking(False)
            frame = wire.Conn.frame(wire.PRODUCE, 7, index, self.bodies[index % len(self.bodies)])
            state = {"frame": frame, "at": 0, "rounds": 1, "got": b"", "index": index}
            selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, state)
        left = self.producers
        while left and not self.is_over:
            events = selector.select(1)
            for key, mask in events:
                state = key.data
                if mask & selectors.EVENT_WRITE:
                    try:
                        state["at"] += key.fileobj.send(memoryview(state["frame"])[state["at"]:state["at"] + 262144])
                    except BlockingIOError:
                        pass
                    if state["at"] == len(state["frame"]):
                        selector.modify(key.fileobj, selectors.EVENT_READ, state)
                if mask & selectors.EVENT_READ:
                    try:
                        data = key.fileobj.recv(65536)
                    except BlockingIOError:
                        continue
                    check(data, f"producer {state['index']}: the broker closed the connection after {self.answered} answers")
                    state["got"] += data
                    if not self._take(state):
                        continue
                    if state["rounds"] == self.rounds:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
                        left -= 1
                    else:
                        state["rounds"] += 1
                        state["at"] = 0
                        selector.modify(key.fileobj, selectors.EVENT_READ | selectors.EVENT_WRITE, state)
        for key in list(selector.get_map().values()):
            key.fileobj.close()
        selector.close()

    def _take(self, state):
        got = state["got"]
        if len(got) < 4 or len(got) < 4 + int.from_bytes(got[:4], "big"):
            return False
        reader = wire.Reader(got[4:])
        equal(reader.take("i"), state["index"], "correlation id")
        for error, _ in wire.Conn.produce_answer(reader).values():
            self.answered += 1
            if error == 0:
                self.taken += 1
            else:
                self.refused += 1
        state["got"] = b""
        return True


def open_session(conn, topic, partitions):
    """(error, session id) of a Fetch of version 11 that waits for nothing."""
    body = conn.fetch_body(topic, dict.fromkeys(range(partitions), 0), wait_ms=0, min_bytes=0, max_bytes=1, partition_bytes=1, session=(0, 0))
    reader = conn.call(wire.FETCH, 11, body)
    reader.take("i")
    return reader.take("h"), reader.take("i")


def test_sessions_that_are_left_behind():
    """Each takes a slot and some memory for ever, if nobody needs them: both are limited, and the rest goes on without."""
    settings = {"max.incremental.fetch.session.cache.slots": 300, "weir.fetch.session.bytes.max": MIB,
                "weir.fetch.session.eviction.ms": 600000}
    with Broker(shards=2, settings=settings) as broker:
        conns = [wire.Conn(broker.host, broker.port) for _ in range(8)]
        conns[0].create_topic("t", 500)
        sizes = {"small": 0, "large": 0}
        for word, partitions in (("large", 500), ("small", 1)):
            for i in range(600):
                error, session = open_session(conns[i % 8], "t", partitions)
                equal(error, 0, f"a fetch that finds no room for a session ({word})")
                sizes[word] += session != 0
        check(0 < sizes["large"] <= MIB // (500 * 64), f"sessions of 500 partitions in a mebibyte: {sizes['large']}")
        check(sizes["large"] + sizes["small"] <= 300, f"sessions in 300 slots: {sizes}")


def test_a_fetch_gets_no_more_than_the_broker_gives():
    with Broker(settings={"fetch.max.bytes": 2048}) as broker:
        conn = wire.Conn(broker.host, broker.port)
        conn.create_topic("t", 3)
        for p, size in ((0, 800), (0, 800), (0, 800), (1, 800), (1, 800), (2, 9000)):
            (answer,) = conn.produce("t", {p: wire.batch([b"x" * size])}).values()
            equal(answer[0], 0, "a record")
        _, parts = conn.fetch("t", {0: 0, 1: 0})
        got = {p: len(data) for (_, p), (_, _, data) in parts.items()}
        check(0 < got[0] <= 2048 and got[0] + got[1] <= 2048, f"as much as it may give: {got}")
        _, parts = conn.fetch("t", {2: 0})
        check(len(parts[("t", 2)][2]) > 9000, "one batch that is larger than that comes whole")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
