#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weir bench: what it says it sent and read is what the broker has, and times at a rate count from when a record was to be sent."""

import json
import os
import signal
import subprocess
import sys
import threading

import harness
from harness import WEIR, Broker, check, equal, until, weir
from wire import Conn


def bench(broker, *args, code=0):
    done_code, out, err = weir("bench", *args, "--bootstrap", broker.bootstrap, "--json", timeout_s=120)
    equal(done_code, code, f"bench {' '.join(args)} ({err})")
    return json.loads(out) if out else None


def is_good(rows):
    return rows if all(row[0] == 0 for row in rows.values()) else None


def ends(broker, topic, partitions):
    with Conn(broker.host, broker.port) as conn:
        rows = until(lambda: is_good(conn.list_offsets(topic, {p: -1 for p in range(partitions)})), 30, "the partitions are led")
        return sum(row[2] for row in rows.values())


def check_times(result):
    times = result["latency_ms"]
    check(0 < times["p50"] <= times["p95"] <= times["p99"] <= times["p99.9"] <= times["max"], f"times that rise: {times}")
    check(times["mean"] <= times["max"], f"a mean that may be: {times}")


def test_produce_and_fetch_count_the_same():
    with Broker(2, name="bench") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("bench", 3)[0], 0, "create")
        for args in (("--records", "5000"), ("--records", "700", "--rate", "2000"), ("--records", "900", "--compression", "lz4", "--acks", "1"),
                     ("--records", "400", "--size", "3000", "--batch", "20000", "--linger", "5", "--partition", "1")):
            before = ends(broker, "bench", 3)
            result = bench(broker, "produce", *args)
            count = int(args[1])
            equal((result["records"], result["failed"]), (count, 0), f"what produce {args} says")
            # acks=1 is answered before the end that ListOffsets says has moved
            until(lambda: ends(broker, "bench", 3) - before >= count, 20, f"what produce {args} has written is there")
            equal(ends(broker, "bench", 3) - before, count, f"what produce {args} has written")
            check_times(result)
        result = bench(broker, "fetch")
        equal((result["records"], result["bytes"]), (7000, 6600 * 100 + 400 * 3000), "what fetch reads")
        equal(bench(broker, "fetch", "--records", "1234")["records"], 1234, "fetch of so many")
        check(bench(broker, "fetch", "--partition", "1")["records"] < 7000, "fetch of one partition")


def test_e2e_sees_every_record():
    with Broker(2, name="bench") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("bench", 4)[0], 0, "create")
        for args in (("--records", "1500", "--rate", "3000"), ("--records", "3000", "--rate", "0")):
            result = bench(broker, "e2e", *args)
            equal((result["records"], result["failed"]), (int(args[1]), 0), f"e2e {args}")
            check_times(result)
        equal(ends(broker, "bench", 4), 4500, "what e2e has written")


def test_others_may_write_to_the_topic_beside_it():
    with Broker(2, name="bench") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("bench", 2)[0], 0, "create")
        rest = [WEIR, "bench", "produce", "--records", "100000000", "--rate", "20000", "--bootstrap", broker.bootstrap]
        others = [subprocess.Popen([*rest, "--partition", str(p)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for p in range(2)]
        try:
            until(lambda: ends(broker, "bench", 2) > 2000, 20, "the others write")
            for args in (("--records", "500", "--rate", "1000"), ("--records", "500", "--rate", "0", "--partition", "1")):
                result = bench(broker, "e2e", *args)
                equal((result["records"], result["failed"]), (500, 0), f"e2e {args}")
                check_times(result)
                check(result["latency_ms"]["max"] < 60000, f"times of this run: {result['latency_ms']}")
            check(all(other.poll() is None for other in others), "the others still write")
        finally:
            for other in others:
                other.kill()
                other.wait()


def test_replay():
    with Broker(2, name="bench") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("bench", 2)[0], 0, "create")
        result = bench(broker, "replay", "produce", "--requests", "300", "--records", "10", "--connections", "3", "--in-flight", "7", "--partition", "1")
        equal((result["requests"], result["records"], result["failed"]), (300, 3000, 0), "replay produce")
        check_times(result)
        equal(ends(broker, "bench", 2), 3000, "what replay has written")
        result = bench(broker, "replay", "fetch", "--requests", "200", "--partition", "1", "--max-bytes", "20000")
        equal((result["requests"], result["failed"]), (200, 0), "replay fetch")
        check(result["bytes"] > 200 * 5000, "its bytes")
        result = bench(broker, "replay", "produce", "--requests", "50", "--partition", "7", code=1)
        equal(result["failed"], 50, "a partition that is not there")


def test_replay_over_partitions_is_spread_evenly():
    with Broker(2, name="bench") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("bench", 12)[0], 0, "create")
        result = bench(broker, "replay", "produce", "--requests", "100", "--records", "7", "--partition", "2", "--partitions", "10",
                       "--connections", "2", "--compression", "lz4")
        equal((result["records"], result["failed"]), (700, 0), "replay produce")
        with Conn(broker.host, broker.port) as conn:
            rows = conn.list_offsets("bench", {p: -1 for p in range(12)})
            equal([rows[p][2] for p in range(12)], [0, 0] + 10 * [70], "records of each partition")
        result = bench(broker, "replay", "fetch", "--requests", "50", "--partition", "2", "--partitions", "10")
        equal((result["requests"], result["failed"]), (50, 0), "replay fetch")


def test_replay_e2e_delivers_everything_to_each_follower():
    with Broker(2, name="bench") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("bench", 1)[0], 0, "create")
        for args, requests, records, followers in ((["--rate", "500", "--spin"], 300, 1, 1), (["--rate", "2000"], 400, 3, 5),
                                                   (["--max-bytes", "5000"], 200, 20, 3)):
            before = ends(broker, "bench", 1)
            result = bench(broker, "replay", "e2e", "--requests", str(requests), "--records", str(records), "--followers", str(followers), *args)
            equal((result["requests"], result["records"], result["failed"]), (requests, requests * records * followers, 0), f"replay e2e {args}")
            check_times(result)
            equal(ends(broker, "bench", 1) - before, (requests + 1) * records, "records in the log, those of the first request with them")


def test_replay_ends_after_its_seconds_and_asks_for_metadata():
    with Broker(1, name="bench") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("bench", 20)[0], 0, "create")
        result = bench(broker, "replay", "metadata", "--requests", "200", "--in-flight", "8")
        equal((result["requests"], result["failed"]), (200, 0), "replay metadata")
        check(result["bytes"] >= 200 * 20 * 20, f"20 partitions are told in {result['bytes'] / 200} bytes")
        result = bench(broker, "replay", "produce", "--requests", "1000000000", "--seconds", "1", "--records", "1")
        check(0.9 <= result["seconds"] < 20 and result["failed"] == 0, f"a second: {result}")
        equal(ends(broker, "bench", 20), result["records"], "all that was sent was answered")


def test_a_stall_is_paid_for_by_all_that_waited():
    """At a rate the time of a record begins when it was to be sent: half a second of silence shows in more than the few in flight."""
    with Broker(1, name="bench") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("bench")[0], 0, "create")
        process = subprocess.Popen([WEIR, "bench", "produce", "--records", "2000", "--rate", "1000", "--json", "--bootstrap", broker.bootstrap],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        until(lambda: ends(broker, "bench", 1) > 100, 20, "it sends")
        os.kill(broker.pid, signal.SIGSTOP)
        resume = threading.Timer(0.8, os.kill, (broker.pid, signal.SIGCONT))
        resume.start()
        out = process.communicate(timeout=60)[0]
        resume.join()
        result = json.loads(out)
        equal(result["records"], 2000, "records")
        check(result["latency_ms"]["max"] >= 700, f"the longest: {result['latency_ms']}")
        check(result["latency_ms"]["p95"] >= 400, f"those who waited: {result['latency_ms']}")


def test_wrong_words_and_a_broker_that_goes():
    with Broker(1, name="bench") as broker:
        for args in ((), ("swim",), ("replay",), ("replay", "swim"), ("produce", "--records", "0"), ("produce", "--acks", "2"),
                     ("e2e", "--size", "7"), ("fetch", "--topic", ""), ("replay", "fetch", "--connections", "2000"), ("replay", "e2e", "--connections", "2"),
                     ("replay", "produce", "--followers", "2"), ("replay", "produce", "--compression", "fast"), ("produce", "--nope")):
            code, out, err = weir("bench", *args, timeout_s=20)
            equal((code, out), (2, ""), f"bench {' '.join(args)}")
            check(err.startswith("error: "), f"bench {' '.join(args)} says {err!r}")
        for args in (("produce", "--help"), ("replay", "--help"), ("--help",)):
            code, out, _ = weir("bench", *args, timeout_s=20)
            check(code == 0 and out.startswith("usage: weir bench"), f"bench {' '.join(args)}")
        with Conn(broker.host, broker.port) as conn:
            conn.create_topic("bench")
        process = subprocess.Popen([WEIR, "bench", "replay", "produce", "--requests", "100000000", "--bootstrap", broker.bootstrap],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until(lambda: ends(broker, "bench", 1) > 1000, 20, "it is under way")
        broker.kill()
        out, err = process.communicate(timeout=60)
        equal(process.returncode, 1, "the exit code when the broker goes")
        check(b"error: " in err, f"what is said: {err!r}")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
