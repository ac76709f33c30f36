#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Topics with weir.durability=page-cache: acks=all answers when written; a dead process loses nothing, a torn tail is cut, and who had
read it is told."""

import os
import sys
import time

import wire
from harness import Broker, ask, check, equal, main, until, weir
from wire import Conn, batch

NONE = 0
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
LATEST, EARLIEST, GREATEST = -1, -2, -3
CONFIGS = {"weir.durability": "page-cache", "segment.bytes": str(1 << 20)}


def produce(conn, topic, first, count, timestamp=None):
    for i in range(first, first + count):
        (answer,) = conn.produce(topic, {0: batch([b"%06d" % i + b"x" * 9000], timestamp=timestamp)}).values()
        equal(answer, (NONE, i), f"record {i} of {topic}")


def read_all(conn, topic):
    """How many records there are, each checked."""
    offset = 0
    while True:
        _, parts = conn.fetch(topic, {0: offset}, wait_ms=0)
        error, _, data = parts[(topic, 0)]
        equal(error, NONE, f"fetching {topic} at {offset}")
        if not data:
            return offset
        for base, last, _, _, whole in wire.batches(data):
            check(base == offset and b"%06d" % base in whole, f"{topic}: what stands at {offset}")
            offset = last + 1


def last_segment(broker, topic):
    folder = os.path.join(broker.data, topic + "-0")
    return os.path.join(folder, sorted(name for name in os.listdir(folder) if name.endswith(".log"))[-1])


def test_a_killed_process_loses_nothing_over_several_segments():
    with Broker(shards=2, name="page") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t", configs=CONFIGS)[0], NONE, "create t")
            equal(conn.create_topic("synced")[0], NONE, "create synced")
            produce(conn, "t", 0, 300)
            produce(conn, "synced", 0, 10)
        for life in range(3):
            broker.kill()
            broker.start()
            with Conn(broker.host, broker.port) as conn:
                equal(read_all(conn, "t"), 300 + 20 * life, f"records of the page cache after kill {life}")
                equal(read_all(conn, "synced"), 10, "records of the other topic")
                produce(conn, "t", 300 + 20 * life, 20)
        broker.stop()
        broker.start()
        with Conn(broker.host, broker.port) as conn:
            equal(read_all(conn, "t"), 360, "records after a clean stop")


def test_a_torn_tail_is_cut_and_what_comes_next_follows():
    with Broker(name="torn") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t", configs=CONFIGS)[0], NONE, "create t")
            produce(conn, "t", 0, 20)
        broker.kill()
        path = last_segment(broker, "t")
        os.truncate(path, os.path.getsize(path) - 100)  # as a power cut leaves it
        broker.start()
        with Conn(broker.host, broker.port) as conn:
            equal(read_all(conn, "t"), 19, "whole batches are kept, the torn one is not")
            produce(conn, "t", 19, 5)
        broker.kill()
        with open(path, "ab") as file:
            file.write(os.urandom(700))
        broker.start()
        with Conn(broker.host, broker.port) as conn:
            equal(read_all(conn, "t"), 24, "garbage behind the end is no record")
            produce(conn, "t", 24, 1)


def expect_epoch(conn, topic, epoch, what):
    for asked, wanted in ((epoch - 1, FENCED_LEADER_EPOCH), (epoch, NONE), (epoch + 1, UNKNOWN_LEADER_EPOCH)):
        if asked >= 0:
            _, parts = conn.fetch(topic, {0: 0}, wait_ms=0, leader_epoch=asked)
            equal(parts[(topic, 0)][0], wanted, f"{what}: a fetch that names epoch {asked}")


def expect_offset(conn, topic, asked, offset, epoch, timestamp=-1):
    """Where it is and which leader wrote it, by the first version of ListOffsets that tells the epoch, and by the last one."""
    for version in (4, 11) if asked != GREATEST else (7, 11):
        row = {"PartitionIndex": 0, "CurrentLeaderEpoch": -1, "Timestamp": asked}
        answer = ask(conn, "ListOffsets", version, ReplicaId=-1, IsolationLevel=0, Topics=[{"Name": topic, "Partitions": [row]}])
        told = answer["Topics"][0]["Partitions"][0]
        equal((told["ErrorCode"], told["Offset"], told["LeaderEpoch"], told["Timestamp"]), (NONE, offset, epoch, timestamp),
              f"ListOffsets of {topic}, version {version}, of {asked}")


def delete_before(conn, topic, offset):
    row = {"PartitionIndex": 0, "Offset": offset}
    answer = ask(conn, "DeleteRecords", 2, Topics=[{"Name": topic, "Partitions": [row]}], TimeoutMs=10000)
    told = answer["Topics"][0]["Partitions"][0]
    equal((told["ErrorCode"], told["LowWatermark"]), (NONE, offset), f"deleting what is before {offset} of {topic}")


def test_offsets_are_told_with_the_epoch_of_their_records():
    first_ms = int(time.time() * 1000) - 60000
    with Broker(name="epochs") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t", configs=CONFIGS)[0], NONE, "create t")
        for epoch in range(3):  # records 10 to 19 are of epoch 1
            with Conn(broker.host, broker.port) as conn:
                produce(conn, "t", 10 * epoch, 10, timestamp=first_ms + (1000 if epoch == 1 else epoch))
            broker.kill()
            broker.start()
        with Conn(broker.host, broker.port) as conn:
            expect_epoch(conn, "t", 3, "after the last kill")
            expect_offset(conn, "t", EARLIEST, 0, 0)
            expect_offset(conn, "t", LATEST, 30, 3)
            expect_offset(conn, "t", 0, 0, 0, first_ms)
            expect_offset(conn, "t", first_ms + 3, 10, 1, first_ms + 1000)
            expect_offset(conn, "t", GREATEST, 10, 1, first_ms + 1000)
            expect_offset(conn, "t", first_ms + 1001, -1, -1)
            for start, epoch in ((9, 0), (10, 1), (15, 1), (20, 2), (29, 2), (30, 3)):
                delete_before(conn, "t", start)
                expect_offset(conn, "t", EARLIEST, start, epoch)


def test_a_reader_that_was_ahead_of_a_power_cut_is_told_where_the_log_was_cut():
    with Broker(shards=2, name="ahead") as broker:
        topics = [f"t{i}" for i in range(5)]  # of both shards
        with Conn(broker.host, broker.port) as conn:
            for topic in topics:
                equal(conn.create_topic(topic, configs=CONFIGS)[0], NONE, f"create {topic}")
                produce(conn, topic, 0, 20)
            equal(conn.create_topic("synced")[0], NONE, "create synced")
            equal(conn.create_topic("empty", configs=CONFIGS)[0], NONE, "create empty")
            produce(conn, "synced", 0, 5)
        broker.kill()
        for topic in topics:
            path = last_segment(broker, topic)
            os.truncate(path, os.path.getsize(path) - 100)  # as a power cut leaves it
        broker.start()
        with Conn(broker.host, broker.port) as conn:
            for topic in topics:
                produce(conn, topic, 19, 5)  # from here on no length shows that there were other records
                expect_epoch(conn, topic, 1, "after a kill")
                equal(conn.epoch_end(topic, 0, current=1), (NONE, 0, 19), f"where the first epoch of {topic} ended")
            expect_epoch(conn, "synced", 0, "a synced topic")
            expect_epoch(conn, "empty", 0, "a topic without a record")
        broker.stop()
        broker.start()
        with Conn(broker.host, broker.port) as conn:
            expect_epoch(conn, "t0", 1, "after a clean stop")
            equal(conn.epoch_end("t0", 0), (NONE, 0, 19), "still")
        broker.kill()
        broker.start()
        with Conn(broker.host, broker.port) as conn:
            expect_epoch(conn, "t0", 2, "after another kill")
            equal(conn.epoch_end("t0", 0), (NONE, 0, 19), "where the first epoch ended")
            equal(conn.epoch_end("t0", 1), (NONE, 1, 24), "and the second")


def test_verify_finds_nothing_in_it():
    with Broker(name="sound") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t", configs=CONFIGS)[0], NONE, "create t")
            produce(conn, "t", 0, 150)
        broker.kill()
        code, out, err = weir("log", "verify", "--data-dir", broker.data)
        equal(code, 0, f"after a kill: {out}{err}")
        broker.start()
        broker.stop()
        code, out, err = weir("log", "verify", "--data-dir", broker.data)
        equal(code, 0, f"after a clean stop: {out}{err}")


def test_flush_messages_and_flush_ms_are_taken_while_it_runs():
    """That they sync is for tests/core/plog; here they change nothing that a client sees."""
    with Broker(name="flush") as broker:
        with Conn(broker.host, broker.port) as conn:
            for topic, configs in (("often", {"flush.messages": "1"}), ("timed", {"flush.ms": "50"})):
                equal(conn.create_topic(topic, configs={**CONFIGS, **configs})[0], NONE, "create " + topic)
                produce(conn, topic, 0, 30)
                until(lambda topic=topic: read_all(conn, topic) == 30, 10, f"all records of {topic}")


if __name__ == "__main__":
    sys.exit(main(globals()))
