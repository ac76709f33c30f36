#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Retention: whole old segments go by size and by age, the log start with them, and it stays there over restarts."""

import glob
import os
import sys
import time

import wire
from harness import Broker, ask, check, equal, main, until
from wire import Conn, batch

NONE, OUT_OF_RANGE = 0, 1
CHUNK = 600000
SETTINGS = {"log.retention.check.interval.ms": 100, "log.segment.delete.delay.ms": 100}


def start_of(conn, topic):
    error, _, offset = conn.list_offsets(topic, {0: -2})[0]
    equal(error, NONE, f"the earliest offset of {topic}")
    return offset


def end_of(conn, topic):
    return conn.list_offsets(topic, {0: -1})[0][2]


def produce(conn, topic, count, size=CHUNK, timestamp=None):
    for i in range(count):
        (error, base), = conn.produce(topic, {0: batch([b"%06d" % i + b"x" * size], timestamp=timestamp)}).values()
        equal(error, NONE, f"producing to {topic}")
    return base + 1


def segments(broker, topic):
    return sorted(glob.glob(os.path.join(broker.data, topic + "-0", "*.log")))


def first_error(conn, topic, offset):
    _, parts = conn.fetch(topic, {0: offset}, wait_ms=0)
    return parts[(topic, 0)][0]


def test_segments_beyond_retention_bytes_go_and_stay_gone():
    with Broker(name="size", settings=SETTINGS) as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t", configs={"segment.bytes": str(1 << 20), "retention.bytes": str(3 << 20)})[0], NONE, "create t")
            end = produce(conn, "t", 20)
            until(lambda: start_of(conn, "t") > 0, 20, "the log start moves")
            until(lambda: sum(map(os.path.getsize, segments(broker, "t")[1:])) < 3 << 20, 20, "files go until the next would be too many")
            start = start_of(conn, "t")
            check(sum(map(os.path.getsize, segments(broker, "t"))) >= 3 << 20, "no more goes than must")
            equal(os.path.basename(segments(broker, "t")[0]), "%020d.log" % start, "the first file that is left")
            equal(first_error(conn, "t", 0), OUT_OF_RANGE, "a fetch below the log start")
            equal(first_error(conn, "t", start), NONE, "a fetch at the log start")
            equal(end_of(conn, "t"), end, "the end did not move")
        for stop in (broker.kill, broker.stop):
            stop()
            broker.start()
            with Conn(broker.host, broker.port) as conn:
                equal(start_of(conn, "t"), start, "the log start after a restart")
                equal(first_error(conn, "t", start - 1), OUT_OF_RANGE, "a fetch below it")
                _, parts = conn.fetch("t", {0: start}, wait_ms=0)
                base, _, _, _, whole = next(wire.batches(parts[("t", 0)][2]))
                check(base == start and b"%06d" % start in whole[:100], "the first record that is left")


def test_records_older_than_retention_ms_go_the_last_segment_too():
    """One from the future, by more than clocks differ (an hour), does not keep its segment: it ages from when it came."""
    with Broker(name="age", settings=SETTINGS) as broker:
        with Conn(broker.host, broker.port) as conn:
            now = int(time.time() * 1000)
            for topic, timestamp in (("now", now), ("future", now + 2 * 3600000)):
                configs = {"retention.ms": "1500", "message.timestamp.after.max.ms": str(24 * 3600000)}
                equal(conn.create_topic(topic, configs=configs)[0], NONE, "create " + topic)
                end = produce(conn, topic, 3, size=100, timestamp=timestamp)
                until(lambda topic=topic, end=end: start_of(conn, topic) == end, 20, f"all records of {topic} go")
                until(lambda topic=topic: not any(map(os.path.getsize, segments(broker, topic))), 20, f"the files of {topic} go")
                equal(produce(conn, topic, 1, size=100), end + 1, "the next record follows")
            equal(conn.create_topic("kept")[0], NONE, "create kept")
            produce(conn, "kept", 3, size=100, timestamp=now - 86400000)
            time.sleep(0.5)  # some rounds of looking
            equal(start_of(conn, "kept"), 0, "a topic with Kafka's seven days")


def test_what_all_brokers_keep_stays_over_restarts():
    """The metadata, written anew, tell of topics before they tell what all brokers have in common: nothing goes until all is read."""
    settings = {**SETTINGS, "metadata.log.max.record.bytes.between.snapshots": 1}
    with Broker(name="common", settings=settings) as broker:
        with Conn(broker.host, broker.port) as conn:
            keep = {"ResourceType": 4, "ResourceName": "", "Configs": [{"Name": "log.retention.ms", "ConfigOperation": 0, "Value": "-1"}]}
            equal(ask(conn, "IncrementalAlterConfigs", 0, Resources=[keep])["Responses"][0]["ErrorCode"], NONE, "altering what all brokers keep")
            equal(conn.create_topic("kept")[0], NONE, "create kept")
            produce(conn, "kept", 1, size=100, timestamp=int(time.time() * 1000) - 30 * 86400000)
            for i in range(3):  # so many that they are not read in one step
                others = [{"Name": f"other-{i}-{k}", "NumPartitions": 1, "ReplicationFactor": 1,
                           "Configs": [{"Name": "segment.ms", "Value": "600000000"}]} for k in range(1000)]
                told = ask(conn, "CreateTopics", 2, Topics=others, timeoutMs=30000)["Topics"]
                equal({topic["ErrorCode"] for topic in told}, {NONE}, "creating others")
        for stop in (broker.stop, broker.kill, broker.stop):
            stop()
            broker.start()
            time.sleep(0.5)  # some rounds of looking
            with Conn(broker.host, broker.port) as conn:
                equal(start_of(conn, "kept"), 0, "the earliest offset after a restart")


def test_a_reader_of_a_segment_that_goes_reads_on():
    """A fetch under way holds its file: what it was promised comes whole."""
    with Broker(name="lease", settings=SETTINGS) as broker:
        with Conn(broker.host, broker.port) as conn, Conn(broker.host, broker.port) as slow:
            equal(conn.create_topic("t", configs={"segment.bytes": str(1 << 20), "retention.bytes": "1"})[0], NONE, "create t")
            (error, _), = conn.produce("t", {0: batch([b"a" * 900000])}).values()
            equal(error, NONE, "the first record")
            asked = slow.send(wire.FETCH, 11, slow.fetch_body("t", {0: 0}))
            produce(conn, "t", 4)
            until(lambda: start_of(conn, "t") > 0, 20, "the log start moves")
            _, parts = slow.fetch_answer(slow.receive(asked))
            error, _, data = parts[("t", 0)]
            equal(error, NONE, "the answer")
            base, _, _, _, whole = next(wire.batches(data))
            check(base == 0 and whole.endswith(b"a" * 1000 + b"\0"), "the record that was there when it was asked")


if __name__ == "__main__":
    sys.exit(main(globals()))
