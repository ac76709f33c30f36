#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that goes between shards, from many connections at once, while somebody scrapes: for the thread sanitizer, and needs no
client."""

import sys
import threading

import harness
import wire
from groups import make
from harness import check, equal
from test_http import broker_with_http, health, metrics
from test_group_scale import (COMMIT, JOIN, LEAVE, SYNC, commit_answer, commit_body, join_answer, join_body, ready, sync_answer,
                              sync_body)

PARTITIONS = 12
WRITERS = 6
ROUNDS = 30


def guard(failures):
    """What a thread fails with is kept in `failures`."""
    def decorate(run):
        def guarded(*args):
            try:
                run(*args)
            except BaseException as error:  # pylint: disable=broad-except
                failures.append(error)
        return guarded
    return decorate


def scraper(port, is_over, failures):
    """A thread that reads both pages over and over; to be started."""
    @guard(failures)
    def scrape():
        while not is_over.wait(0.02):
            check(health(port) is not None, "/health")  # a shard may take its time here
            check(metrics(port)[0]["weir_connections"] >= 0, "/metrics")

    return threading.Thread(target=scrape)


def test_many_connections_over_three_shards():
    broker, port = broker_with_http(3, name="threads")
    with broker:
        with wire.Conn(broker.host, broker.port) as conn:
            for name in ("a", "b"):
                equal(conn.create_topic(name, PARTITIONS)[0], 0, f"create {name}")
        failures = []
        is_over = threading.Event()

        @guard(failures)
        def write(index):
            with wire.Conn(broker.host, broker.port, 120) as conn:
                for i in range(ROUNDS):
                    topic = "ab"[(index + i) % 2]
                    size = 100000 if i % 10 == 9 else 50
                    parts = {p: wire.batch([b"%d %d " % (index, i) + b"." * size]) for p in range(index % 2, PARTITIONS, 1 + i % 3)}
                    for where, (error, _) in conn.produce(topic, parts, acks=(-1, 1)[i % 2]).items():
                        equal(error, 0, f"produce to {where}")

        @guard(failures)
        def read(index):
            offsets = {p: 0 for p in range(PARTITIONS)}
            topic = "ab"[index % 2]
            with wire.Conn(broker.host, broker.port, 120) as conn:
                while not is_over.is_set():
                    error, parts = conn.fetch(topic, offsets, wait_ms=50, min_bytes=100000)
                    equal(error, 0, "fetch")
                    for (_, p), (code, _, data) in parts.items():
                        equal(code, 0, f"fetch of {topic}-{p}")
                        for base, last, _, _, _ in wire.batches(data):
                            equal(base, offsets[p], f"{topic}-{p}: offset")
                            offsets[p] = last + 1

        @guard(failures)
        def churn():
            for i in range(10):
                with wire.Conn(broker.host, broker.port, 120) as conn:
                    name = f"short-{i}"
                    equal(conn.create_topic(name, 5)[0], 0, f"create {name}")
                    conn.produce(name, {p: wire.batch([b"x"]) for p in range(5)})
                    conn.metadata(None)
                    equal(conn.delete_topic(name), 0, f"delete {name}")

        writers = [threading.Thread(target=write, args=(i,)) for i in range(WRITERS)] + [threading.Thread(target=churn)]
        readers = [threading.Thread(target=read, args=(i,)) for i in range(4)]
        readers.append(scraper(port, is_over, failures))
        for thread in writers + readers:
            thread.start()
        for thread in writers:
            thread.join()
        is_over.set()
        for thread in readers:
            thread.join()
        if failures:
            raise failures[0]
        with wire.Conn(broker.host, broker.port, 120) as conn:
            for topic in "ab":
                conn.produce(topic, {p: wire.batch([b"last"]) for p in range(PARTITIONS)})  # all before it is visible then
                ends = {p: end for p, (_, _, end) in conn.list_offsets(topic, {p: -1 for p in range(PARTITIONS)}).items()}
                total = 0
                for p, end in ends.items():
                    total += sum(count for _, _, _, count, _ in conn.read_all(topic, p, end))
                check(total == sum(ends.values()) and total > 0, f"{topic}: {total} records of {sum(ends.values())}")
        broker.stop(120)


def test_groups_over_three_shards():
    """Members of many groups join, commit and leave from many connections, while another one lists and describes them."""
    settings = {"group.initial.rebalance.delay.ms": 0, "weir.metrics.group.label": "true"}
    broker, port = broker_with_http(3, settings=settings, name="threads")
    with broker:
        make(broker, "t", PARTITIONS)
        ready(broker)
        failures = []
        is_over = threading.Event()

        @guard(failures)
        def live(index):
            with wire.Conn(broker.host, broker.port, 120) as conn:
                for i in range(ROUNDS):
                    group = f"g{index}-{i % 7}"
                    error, generation, _, member, _ = join_answer(conn.call(JOIN, 3, join_body(group)))
                    equal(error, 0, "JoinGroup")
                    error, words = sync_answer(conn.call(SYNC, 2, sync_body(group, generation, member, [(member, b"mine")])))
                    equal((error, words), (0, b"mine"), "SyncGroup")
                    errors = commit_answer(conn.call(COMMIT, 2, commit_body(group, generation, member, {p: i for p in range(PARTITIONS)})))
                    equal(set(errors), {0}, "OffsetCommit")
                    equal(conn.fetch_offsets(group, "t", [1])[1][1][0], i, "what was committed")
                    equal(conn.call(LEAVE, 1, wire.string(group) + wire.string(member)).take("ih")[1], 0, "LeaveGroup")

        @guard(failures)
        def look():
            with wire.Conn(broker.host, broker.port, 120) as conn:
                while not is_over.is_set():
                    for group in conn.list_groups()[1][:20]:
                        conn.describe_group(group)

        members = [threading.Thread(target=live, args=(i,)) for i in range(WRITERS)]
        watchers = [threading.Thread(target=look), scraper(port, is_over, failures)]
        for thread in [*members, *watchers]:
            thread.start()
        for thread in members:
            thread.join()
        is_over.set()
        for thread in watchers:
            thread.join()
        check(not failures, lambda: f"{len(failures)} failures, the first: {failures[0]!r}")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
