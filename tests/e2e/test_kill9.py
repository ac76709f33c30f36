#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments, on one port, while one idempotent producer carries on: every acknowledged record is where the broker said,
once, with the bytes it was sent with, in the order it was sent in. What the clients asked for and were told is written as a history, of
the form that the simulator writes, and judged by the same judge: weir-sim --judge."""

import collections
import os
import random
import subprocess
import sys
import time

import harness
import history as histories
import wire
from harness import IS_LONG, SKIPPED, Broker, Skip, check, equal, say

KILLS = int(os.environ.get("WEIR_KILLS") or (50 if IS_LONG else 8))
PARTITIONS = 4
JUDGE = os.path.join(harness.BUILD, "weir-sim")
TAIL = 200  # so many records at the end of a partition are read before a kill


class Producer:
    """kill9_producer.py: says 'unacknowledged N' whenever it is asked, and writes a line per report to a file."""

    def __init__(self, bootstrap, topic, path, seed):
        self.process = subprocess.Popen([*harness.python_helper("kill9_producer.py"), bootstrap, topic, str(PARTITIONS), path, str(seed)],
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
    dice = random.Random(f"{harness.SEED} kill9 {shards}")
    with Broker(shards, name="kill9") as broker:
        history = histories.History()
        with wire.Conn(broker.host, broker.port) as conn:
            created = history.begin("a1", "create", topic="kills", count=PARTITIONS)
            equal(conn.create_topic("kills", PARTITIONS)[0], 0, "create kills")
            history.end(created, "ok")
        path = os.path.join(broker.directory, "reports")
        producer = Producer(broker.bootstrap, "kills", path, dice.randrange(1 << 32))
        try:
            many = 0
            starts = []
            for kill in range(KILLS):
                acked, _ = producer.ask("state")
                goal = acked + dice.randrange(1, 4000)
                deadline = time.monotonic() + 60
                while True:  # it must get on between any two kills
                    now, waiting = producer.ask("state")
                    if now >= goal:
                        break
                    check(time.monotonic() < deadline, lambda: f"no progress: {now - acked} acknowledged, {waiting} wait\n{broker.log_tail()}")
                    time.sleep(0.005)
                read_tail(broker, history, kill + 1, dice.randrange(PARTITIONS))
                time.sleep(dice.random() * 0.02)
                _, waiting = producer.ask("state")
                history.once("-", "note", topic="crash", count=2)
                broker.kill()
                many += waiting >= 100
                began = time.monotonic()
                broker.start()
                history.once("-", "note", topic="restart")
                starts.append(time.monotonic() - began)
            acked, unacked = producer.ask("finish")
            equal(unacked, 0, "records without a report at the end")
        finally:
            producer.end()
        check(many >= 0.8 * KILLS, f"only {many} of {KILLS} kills had 100 or more records unacknowledged")
        sent = add_reports(history, path)
        compare(broker, history, sent, acked)
        judge(broker, history, sent, acked, shards)
        say(f"       {shards} shards: {KILLS} kills, {many} with 100 or more records unacknowledged, {acked} records acknowledged; "
            f"starts took {sum(starts) / len(starts):.2f} s, at most {max(starts):.2f} s")


def read_tail(broker, history, session, partition):
    """A reader begins near the end of a partition, and reads up to it: what it was given must be there for ever."""
    with wire.Conn(broker.host, broker.port) as conn:
        _, _, end = conn.list_offsets("kills", {partition: -1})[partition]
        offset = max(0, end - TAIL)
        while offset < end:
            _, parts = conn.fetch("kills", {partition: offset})
            code, _, data = parts[("kills", partition)]
            equal(code, 0, f"fetch of {partition} at {offset}")
            for base, last, _, count, whole in wire.batches(data):
                for at, value in enumerate(values(whole, count), base):
                    if at >= offset:
                        history.once("c1", "read", topic="kills", partition=partition, record=value, session=session, offset=at)
                offset = last + 1


def add_reports(history, path):
    """The producer's part of the history; {number: (partition, value, offset)}."""
    ops, sent = {}, {}
    with open(path, "rb") as file:
        for line in file:
            words = line.split()
            at_ns, number = int(words[1]), int(words[2])
            if words[0] == b"I":
                partition, value = int(words[3]), words[4]
                sent[number] = (partition, value, None)
                ops[number] = history.begin("p1", "produce", at_ns, topic="kills", partition=partition, acks=-1, idempotent=1,
                                            record=f"1.1.{number}")
            elif words[0] == b"A":
                sent[number] = (*sent[number][:2], int(words[3]))
                history.end(ops[number], "ok", at_ns, offset=int(words[3]))
            else:
                history.end(ops[number], "unknown", at_ns, error=int(words[3]))
    for _, op, _ in history.all("read"):  # those before the kills; their values are known only now
        op["answer"]["record"] = record_of(sent, op["answer"]["record"])
    return sent


def record_of(sent, value):
    number = value.split(b"-")[0]
    is_ours = number.isdigit() and sent.get(int(number), (0, None))[1] == value
    return f"1.1.{int(number)}" if is_ours else histories.NOBODY


def compare(broker, history, sent, acked):
    want = collections.defaultdict(dict)  # partition: {offset: value}
    last = collections.defaultdict(lambda: -1)
    for number, (partition, value, offset) in sent.items():
        if offset is None:
            continue
        check(offset >= 0, f"record {number} was acknowledged without an offset")
        check(offset not in want[partition], f"two records acknowledged at {partition}:{offset}")
        want[partition][offset] = (number, value)
    equal(sum(len(rows) for rows in want.values()), acked, "reports in the file")
    with wire.Conn(broker.host, broker.port) as conn:
        ends = {}
        for at in (-2, -1):
            asked = {p: history.begin("v1", "offsets", topic="kills", partition=p, at=at, final=1) for p in range(PARTITIONS)}
            for partition, (_, _, offset) in conn.list_offsets("kills", {p: at for p in range(PARTITIONS)}).items():
                history.end(asked[partition], "ok", offset=offset)
                ends[partition] = offset
        for partition in range(PARTITIONS):
            rows = want[partition]
            equal(ends[partition], len(rows), f"records in partition {partition}: only what was acknowledged, and all of it; end offset")
            at = 0
            for base, _, _, count, whole in conn.read_all("kills", partition, ends[partition]):
                for value in values(whole, count):
                    history.once("v1", "read", topic="kills", partition=partition, record=record_of(sent, value),
                                 session=KILLS + 1 + partition, final=1, offset=at)
                    number, expected = rows[at]
                    check(value == expected, lambda: f"partition {partition}, offset {at}: {value[:60]!r}, acknowledged was {expected[:60]!r}")
                    check(number > last[partition], f"partition {partition}, offset {at}: record {number} after {last[partition]}")
                    last[partition] = number
                    at += 1
                del base
            history.once("v1", "end", topic="kills", partition=partition, final=1, offset=at)
            equal(at, len(rows), f"records read of partition {partition}")


def judge(broker, history, sent, acked, shards):
    path = os.path.join(broker.directory, "history")
    broken, counts = histories.judge(JUDGE, history, path)
    check(not broken, lambda: f"the judge of histories says: {broken}")
    equal(counts["acknowledged"], acked, "acknowledged records that were judged")
    equal(counts["final_reads"], len(sent), "final reads that were judged")
    equal(counts["ends"], PARTITIONS, "partitions that were judged")
    check(counts["reads"] >= KILLS * TAIL // 4, f"only {counts['reads']} reads before kills were judged")
    if shards == 1 and not IS_LONG:  # once is enough
        equal(histories.find_missed(JUDGE, history, path), [], "ways to spoil this history that the judge does not see")


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
