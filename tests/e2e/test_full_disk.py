#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A full disk: what is produced is refused, all else works, deleting makes room, and the same process goes on."""

import os
import subprocess
import sys

from harness import WEIR, Broker, check, equal, main, say, until, weir

MIB = 1 << 20


def produce(broker, topic, lines, timeout_s=120):
    """weir produce of many lines: exit code, stderr."""
    done = subprocess.run([WEIR, "produce", topic, "--bootstrap", broker.bootstrap], input=b"".join(lines), capture_output=True,
                          timeout=timeout_s, check=False)
    return done.returncode, done.stderr.decode()


def lines_of(count, size_bytes, first=0):
    return [(b"%08d" % (first + i)).ljust(size_bytes, b"x") + b"\n" for i in range(count)]


def consumed(broker, topic):
    code, out, err = weir("consume", topic, "--exit", "--bootstrap", broker.bootstrap)
    equal(code, 0, "consuming: " + err)
    return out.splitlines()


def test_a_full_disk_refuses_what_is_produced_and_heals_by_itself():
    with Broker(name="full", settings={"weir.journal.bytes.max": 128 * MIB}, disk_bytes=160 * MIB) as broker:
        run(broker)


def run(broker):
    pid = broker.pid
    for topic in ("keep", "bulk"):
        equal(weir("topic", "create", topic, "--bootstrap", broker.bootstrap)[0], 0, "creating " + topic)
    kept = lines_of(100, 100)
    equal(produce(broker, "keep", kept)[0], 0, "producing to an empty disk")

    client = subprocess.Popen([WEIR, "produce", "bulk", "--bootstrap", broker.bootstrap], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL)
    try:
        fill(client, broker)
        say(f"full: {broker.free_bytes()} bytes are free")
        equal(consumed(broker, "keep"), [line.decode().rstrip("\n") for line in kept], "what was there, on a full disk")
        check(len(consumed(broker, "bulk")) > 100, "what was acknowledged before the disk was full")
        code, out, err = weir("topic", "list", "--bootstrap", broker.bootstrap)
        equal((code, sorted(out.split())), (0, ["bulk", "keep"]), "listing topics on a full disk: " + err)
        code, _, err = weir("topic", "create", "more", "--bootstrap", broker.bootstrap)
        check(code == 1 and "KAFKA_STORAGE_ERROR" in err, lambda: f"creating a topic on a full disk: exit {code}, {err}")
        code, _, err = weir("topic", "delete", "bulk", "--bootstrap", broker.bootstrap)
        equal(code, 0, "deleting a topic on a full disk: " + err)
    finally:
        client.kill()
        client.wait()
    until(lambda: "the disk has room again" in broker.log(), 30, "the broker sees that there is room")
    more = lines_of(100, 100, first=100)
    code, err = produce(broker, "keep", more)
    equal(code, 0, "producing once there is room: " + err)
    equal(len(consumed(broker, "keep")), 200, "records after the disk was full")
    equal(weir("topic", "create", "more", "--bootstrap", broker.bootstrap)[0], 0, "creating a topic once there is room")
    equal(broker.pid, pid, "the process")
    broker.stop()
    broker.start()
    equal(len(consumed(broker, "keep")), 200, "records after a restart")


def fill(client, broker):
    """Until the broker says that it is full."""
    os.set_blocking(client.stdin.fileno(), False)
    line = b"y" * 16000 + b"\n"
    rest = b""

    def is_full():
        nonlocal rest
        for _ in range(64):
            try:
                rest = rest or line
                rest = rest[os.write(client.stdin.fileno(), rest):]
            except BlockingIOError:
                break
        return "the disk is full" in broker.log()

    until(is_full, 120, "the broker says that the disk is full")


if __name__ == "__main__":
    sys.exit(main(globals()))
