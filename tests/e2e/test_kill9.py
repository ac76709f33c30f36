#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments, on one port, while one idempotent producer carries on: every acknowledged record is where the broker said,
once, with the bytes it was sent with, in the order it was sent in."""

import collections
import os
import random
import subprocess
import sys
import time

import harness
import wire
from harness import CLIENTS, IS_LONG, SKIPPED, Broker, Skip, check, equal, need, say

KILLS = int(os.environ.get("WEIR_KILLS") or (50 if IS_LONG else 8))
PARTITIONS = 4


class Producer:
    """kill9_producer.py: says 'unacknowledged N' whenever it is asked, and writes a line per report to a file."""

    def __init__(self, bootstrap, topic, path, seed):
        self.process = subprocess.Popen([os.path.join(CLIENTS, "venv", "bin", "python"),
                                         os.path.join(harness.HERE, "kill9_producer.py"), bootstrap, topic, str(PARTITIONS), path, str(seed)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        check(line, f"the producer ended with exit code {self.process.poll()}")
        words = line.split()
        check(words[0] == word, f"the producer says {line!r}")
        return int(words[1]), int(words[2])

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def kill9(shards):
    if "confluent-kafka" in SKIPPED:
        raise Skip("confluent-kafka is left out")
    need("python")
    dice = random.Random(f"{harness.SEED} kill9 {shards}")
    with Broker(shards, name="kill9") as broker:
        with wire.Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("kills", PARTITIONS)[0], 0, "create kills")
        path = os.path.join(broker.directory, "reports")
        producer = Producer(broker.bootstrap, "kills", path, dice.randrange(1 << 32))
        try:
            many = 0
            starts = []
            for _ in range(KILLS):
                acked, _ = producer.ask("state")
                goal = acked + dice.randrange(1, 4000)
                deadline = time.monotonic() + 60
                while True:  # it must get on between any two kills
                    now, waiting = producer.ask("state")
                    if now >= goal:
                        break
                    check(time.monotonic() < deadline, lambda: f"no progress: {now - acked} acknowledged, {waiting} wait\n{broker.log_tail()}")
                    time.sleep(0.005)
                time.sleep(dice.random() * 0.02)
                _, waiting = producer.ask("state")
                broker.kill()
                many += waiting >= 100
                began = time.monotonic()
                broker.start()
                starts.append(time.monotonic() - began)
            acked, unacked = producer.ask("finish")
            equal(unacked, 0, "records without a report at the end")
        finally:
            producer.end()
        check(many >= 0.8 * KILLS, f"only {many} of {KILLS} kills had 100 or more records unacknowledged")
        compare(broker, path, acked)
        say(f"       {shards} shards: {KILLS} kills, {many} with 100 or more records unacknowledged, {acked} records acknowledged; "
            f"starts took {sum(starts) / len(starts):.2f} s, at most {max(starts):.2f} s")


def compare(broker, path, acked):
    want = collections.defaultdict(dict)  # partition: {offset: value}
    last = collections.defaultdict(lambda: -1)
    with open(path, "rb") as file:
        for line in file:
            partition, offset, number, value = line.split()
            partition, offset, number = int(partition), int(offset), int(number)
            check(offset >= 0, f"record {number} was acknowledged without an offset")
            check(offset not in want[partition], f"two records acknowledged at {partition}:{offset}")
            want[partition][offset] = (number, value)
    equal(sum(len(rows) for rows in want.values()), acked, "reports in the file")
    with wire.Conn(broker.host, broker.port) as conn:
        ends = {p: end for p, (_, _, end) in conn.list_offsets("kills", {p: -1 for p in range(PARTITIONS)}).items()}
        for partition in range(PARTITIONS):
            rows = want[partition]
            equal(ends[partition], len(rows), f"records in partition {partition}: only what was acknowledged, and all of it; end offset")
            at = 0
            for base, _, _, count, whole in conn.read_all("kills", partition, ends[partition]):
                for value in values(whole, count):
                    number, expected = rows[at]
                    check(value == expected, lambda: f"partition {partition}, offset {at}: {value[:60]!r}, acknowledged was {expected[:60]!r}")
                    check(number > last[partition], f"partition {partition}, offset {at}: record {number} after {last[partition]}")
                    last[partition] = number
                    at += 1
                del base
            equal(at, len(rows), f"records read of partition {partition}")


def values(whole, count):
    """The values of a batch that is not compressed."""
    at = 61

    def varint():
        nonlocal at
        shift = value = 0
        while True:
            byte = whole[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)

    for _ in range(count):
        length = varint()
        stop = at + length
        at += 1
        varint()
        varint()
        size = varint()
        at += max(0, size)
        size = varint()
        yield whole[at:at + size]
        at = stop


def test_one_shard():
    kill9(1)


def test_two_shards():
    kill9(2)


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
