#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetch sessions (KIP-227) of real clients: a proxy between client and broker reads what they say of sessions as it passes."""

import random
import socket
import struct
import sys
import threading

import harness
import wire
from harness import check, equal
from kafka import free_port

PARTITIONS = 2
VALUES = 24
VALUE_BYTES = 300_000  # so that one fetch can't hold them all: Java asks for 1 MiB of a partition


class Proxy:
    """Passes bytes on, both ways; of each Fetch on its way to the broker notes (session id, epoch)."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.target = None
        self.fetches = []
        self.pairs = []
        self.lock = threading.Lock()
        self.cut_after = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self.target))
            with self.lock:
                self.pairs.append((client, broker))
            threading.Thread(target=self._requests, args=(client, broker), daemon=True).start()
            threading.Thread(target=self._answers, args=(broker, client), daemon=True).start()

    @staticmethod
    def _receive(conn, count):
        data = b""
        while len(data) < count:
            part = conn.recv(count - len(data))
            if not part:
                raise ConnectionError
            data += part
        return data

    def _requests(self, client, broker):
        try:
            while True:
                size = self._receive(client, 4)
                frame = self._receive(client, struct.unpack(">i", size)[0])
                self._note(frame)
                broker.sendall(size + frame)
        except OSError:
            self._close(client, broker)

    def _note(self, frame):
        key, version = struct.unpack_from(">hh", frame)
        if key != wire.FETCH:
            return
        at = 8
        name_bytes = struct.unpack_from(">h", frame, at)[0]
        at += 2 + max(name_bytes, 0)
        at += 1 if version >= 12 else 0  # the header's tagged fields: none
        at += 4 if version <= 14 else 0  # ReplicaId
        at += 13  # MaxWaitMs, MinBytes, MaxBytes, IsolationLevel
        with self.lock:
            self.fetches.append(struct.unpack_from(">ii", frame, at))
            is_cut = self.cut_after > 0 and len(self.fetches) == self.cut_after
        if is_cut:
            self.cut()

    def _answers(self, broker, client):
        try:
            while True:
                data = broker.recv(1 << 16)
                if not data:
                    break
                client.sendall(data)
        except OSError:
            pass
        self._close(client, broker)

    @staticmethod
    def _close(*conns):
        for conn in conns:
            try:
                conn.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            conn.close()

    def cut(self):
        """All connections, in the middle of what they do."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            self._close(*pair)

    def close(self):
        self.server.close()
        self.cut()


def weir(*args, **more):
    code, out, err = harness.weir(*args, **more)
    equal(code, 0, f"the exit code of weir {args[0]} ({err.strip()})")
    return out


class Through:
    """A broker that clients reach through a proxy only, with a topic that has records."""

    def __init__(self, settings=None):
        self.proxy = Proxy()
        self.proxy.target = free_port()
        self.bootstrap = f"127.0.0.1:{self.proxy.port}"
        self.broker = harness.Broker(shards=2, name="sessions", settings={
            "listeners": f"PLAINTEXT://127.0.0.1:{self.proxy.target}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}", **(settings or {})})

    def __enter__(self):
        self.broker.__enter__()
        weir("topic", "create", "t", "--partitions", str(PARTITIONS), "--bootstrap", self.bootstrap)
        self.values = {p: [random.randbytes(VALUE_BYTES // 2).hex() for _ in range(VALUES // PARTITIONS)] for p in range(PARTITIONS)}
        for p, values in self.values.items():
            weir("produce", "t", "--partition", str(p), "--bootstrap", self.bootstrap, stdin="\n".join(values) + "\n")
        self.proxy.fetches.clear()
        return self

    def __exit__(self, *why):
        self.proxy.close()
        return self.broker.__exit__(*why)

    def read_by(self, name):
        client = harness.open_client(name, self.bootstrap)
        try:
            records = client.consume("t", {p: len(values) for p, values in self.values.items()})
        finally:
            client.close()
        for p, values in self.values.items():
            equal([r.value.decode() for r in records if r.partition == p], values, f"{name}: the values of partition {p}")


def went_on(fetches):
    """How many fetches went on with a session; each must name the epoch after the one before."""
    following = {}
    count = 0
    for session, epoch in fetches:
        if session == 0 or epoch <= 0:
            continue
        if session in following:
            equal(epoch, following[session] + 1, f"the epoch of session {session}")
        else:
            equal(epoch, 1, f"the first epoch of session {session}")
        following[session] = epoch
        count += 1
    return count


def test_java_goes_on_with_its_session():
    harness.need("java")
    with Through() as t:
        t.read_by("java")
        equal(t.proxy.fetches[0], (0, 0), "the first fetch")
        check(went_on(t.proxy.fetches) >= 3, lambda: f"sessions were not gone on with: {t.proxy.fetches}")


def test_java_reads_on_after_its_connections_broke():
    harness.need("java")
    with Through() as t:
        t.proxy.cut_after = 4
        t.read_by("java")
        again = [(session, epoch) for session, epoch in t.proxy.fetches[4:] if session != 0 and epoch == 0]
        check(again, lambda: f"no full fetch named the session that was lost: {t.proxy.fetches}")
        check(went_on(t.proxy.fetches[4:]) >= 1, lambda: f"no session was gone on with afterwards: {t.proxy.fetches}")


def test_java_reads_without_sessions():
    harness.need("java")
    with Through({"max.incremental.fetch.session.cache.slots": 0}) as t:
        t.read_by("java")
        check(len(t.proxy.fetches) >= 3, lambda: f"few fetches: {t.proxy.fetches}")
        equal(set(t.proxy.fetches[:-1]), {(0, 0)}, "the fetches")  # as it closes, it ends the session that it may have


def test_librdkafka_has_no_sessions():
    with Through() as t:
        t.read_by("confluent-kafka")
        equal({epoch for _, epoch in t.proxy.fetches}, {-1}, "the epochs of its fetches")


def test_our_own_client_goes_on_with_its_session():
    with Through() as t:
        lines = sorted(weir("consume", "t", "--exit", "--bootstrap", t.bootstrap).split())
        equal(lines, sorted(v for values in t.values.values() for v in values), "the values")
        check(went_on(t.proxy.fetches) >= 3, lambda: f"sessions were not gone on with: {t.proxy.fetches}")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
