#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Groups in large numbers, by frames made by hand: 10,000 groups, one group of 1,000 members, 10,000 commits in flight; what a group and an
offset take in memory; and what is said when there is room for no more. Figures are printed, indented."""

import struct
import sys
import time

import harness
import wire
from groups import make
from harness import Broker, check, equal, say, until
from test_http import broker_with_http, metrics

JOIN, SYNC, BEAT, COMMIT, LEAVE = 11, 14, 12, 8, 13
IN_FLIGHT = 100  # of one connection: the broker reads no more than 128, and none behind a JoinGroup or SyncGroup that waits
NOT_AVAILABLE, LOADING = 15, 14


def subscription(topic):
    return struct.pack(">h", 0) + wire.array([wire.string(topic)]) + struct.pack(">i", -1)


def bytes_of(data):
    return struct.pack(">i", len(data)) + data


def join_body(group, member="", session_ms=1800000):
    """Version 3: a member gets its id and joins with one request."""
    return (wire.string(group) + struct.pack(">ii", session_ms, 60000) + wire.string(member) + wire.string("consumer") +
            wire.array([wire.string("range") + bytes_of(subscription("t"))]))


def join_answer(reader):
    """(error, generation, leader, member, members)"""
    reader.take("i")
    error, generation = reader.take("hi")
    reader.string()
    leader, member = reader.string(), reader.string()
    return error, generation, leader, member, [name for name, _ in reader.array(lambda: (reader.string(), reader.bytes()))]


def sync_body(group, generation, member, assignments=()):
    return wire.string(group) + struct.pack(">i", generation) + wire.string(member) + wire.array([wire.string(m) + bytes_of(a) for m, a in assignments])


def sync_answer(reader):
    reader.take("i")
    return reader.take("h"), reader.bytes()


def commit_body(group, generation, member, offsets):
    rows = [struct.pack(">iq", partition, offset) + wire.string("") for partition, offset in offsets.items()]
    return (wire.string(group) + struct.pack(">i", generation) + wire.string(member) + struct.pack(">q", -1) +
            wire.array([wire.string("t") + wire.array(rows)]))


def commit_answer(reader):
    return [error for _, rows in reader.array(lambda: (reader.string(), reader.array(lambda: reader.take("ih")))) for _, error in rows]


class Many:
    """Requests in flight over many connections; answers in the order of the requests."""

    def __init__(self, broker, count, in_flight=IN_FLIGHT):
        self.in_flight = in_flight
        self.conns = [wire.Conn(broker.host, broker.port, timeout_s=120) for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for conn in self.conns:
            conn.close()

    def call(self, api, version, bodies, read):
        """In lots of in_flight for each connection."""
        out = []
        lot = self.in_flight * len(self.conns)
        for at in range(0, len(bodies), lot):
            waiting = []
            parts = [bodies[at + i * self.in_flight:at + (i + 1) * self.in_flight] for i in range(len(self.conns))]
            for conn, part in zip(self.conns, parts):
                frames = b""
                for body in part:
                    frames += conn.frame(api, version, conn.next, body)
                    waiting.append((conn, conn.next))
                    conn.next += 1
                conn.socket.sendall(frames)
            out += [read(conn.receive(correlation)) for conn, correlation in waiting]
        return out


def ready(broker):
    with wire.Conn(broker.host, broker.port) as conn:
        until(lambda: conn.list_groups()[0] == 0, 30, "the coordinators have loaded")


def journal_syncs(port):
    return int(sum(value for name, value in metrics(port)[0].items() if name.startswith("weir_journal_syncs_total")))


def test_ten_thousand_groups():
    count = 10000
    with Broker(shards=2, settings={"group.initial.rebalance.delay.ms": 0, "weir.memory.max.bytes": 2 << 30}, name="group-scale") as broker:
        make(broker, "t", 100)
        ready(broker)
        with Many(broker, 10) as many:
            names = [f"group-{i:05}" for i in range(count)]
            many.call(JOIN, 3, [join_body("warm")], join_answer)
            before = broker.memory_kib("RssAnon")
            began = time.monotonic()
            joined = many.call(JOIN, 3, [join_body(name) for name in names], join_answer)
            equal({(error, generation) for error, generation, *_ in joined}, {(0, 1)}, "errors and generations of JoinGroup")
            synced = many.call(SYNC, 3 - 1, [sync_body(name, 1, member, [(member, b"\0\0\0\0\0\0\xff\xff\xff\xff")])
                                             for name, (_, _, _, member, _) in zip(names, joined)], sync_answer)
            equal({error for error, _ in synced}, {0}, "errors of SyncGroup")
            joined_s = time.monotonic() - began
            after = broker.memory_kib("RssAnon")
            say(f"       {count} groups of one member in {joined_s:.1f} s, {(after - before) * 1024 / count:.0f} bytes each (RssAnon)")
            committed_before = broker.memory_kib("RssAnon")
            offsets = {p: 1 for p in range(10)}
            errors = many.call(COMMIT, 2, [commit_body(name, 1, member, offsets) for name, (_, _, _, member, _) in zip(names, joined)], commit_answer)
            equal({error for row in errors for error in row}, {0}, "errors of OffsetCommit")
            after = broker.memory_kib("RssAnon")
            say(f"       {count * 10} offsets: {(after - committed_before) * 1024 / count / 10:.0f} bytes each (RssAnon)")
            with wire.Conn(broker.host, broker.port) as conn:
                began = time.monotonic()
                error, listed = conn.list_groups()
                say(f"       ListGroups of {len(listed)} groups: {1000 * (time.monotonic() - began):.0f} ms")
                equal((error, set(names) - set(listed)), (0, set()), "the groups that are listed")
        began = time.monotonic()
        broker.kill()
        broker.start()
        ready(broker)
        say(f"       killed, started, and all loaded: {time.monotonic() - began:.2f} s")
        with Many(broker, 10) as many:
            beats = many.call(BEAT, 1, [wire.string(name) + struct.pack(">i", 1) + wire.string(member) for name, (_, _, _, member, _) in zip(names, joined)],
                              lambda reader: reader.take("ih")[1])
            equal(set(beats), {0}, "every member is still one")


def test_one_group_of_a_thousand_members():
    count = 1000
    with Broker(shards=2, settings={"group.initial.rebalance.delay.ms": 3000}, name="group-scale") as broker:
        make(broker, "t", 100)
        ready(broker)
        with Many(broker, count, in_flight=1) as many:  # they wait for each other
            began = time.monotonic()
            joined = many.call(JOIN, 3, [join_body("large") for _ in range(count)], join_answer)
            joined_s = time.monotonic() - began
            equal({(error, generation) for error, generation, *_ in joined}, {(0, 1)}, "errors and generations")
            leader = joined[0][2]
            members = next(row[4] for row in joined if row[3] == leader)
            equal(sorted(members), sorted(row[3] for row in joined), "the members that the leader is told of")
            began = time.monotonic()
            # the leader's own goes first: everybody waits for it
            order = sorted(joined, key=lambda row: row[3] != leader)
            bodies = [sync_body("large", 1, row[3], [(m, m.encode()) for m in members] if row[3] == leader else ()) for row in order]
            synced = many.call(SYNC, 2, bodies, sync_answer)
            equal([answer for answer in synced if answer[0] != 0], [], "errors of SyncGroup")
            equal([assignment for _, assignment in synced], [row[3].encode() for row in order], "each has its own assignment")
            say(f"       {count} members join in {joined_s:.2f} s, 3 s of them the initial delay; and have their assignments {time.monotonic() - began:.2f} s later")
            with wire.Conn(broker.host, broker.port) as conn:
                began = time.monotonic()
                error, state, described = conn.describe_group("large")
                say(f"       DescribeGroups of it: {1000 * (time.monotonic() - began):.0f} ms")
                equal((error, state, len(described)), (0, "Stable", count), "what is described")


def test_ten_thousand_commits_share_their_syncs():
    count = 10000
    broker, port = broker_with_http(2)
    with broker:
        make(broker, "t", 100)
        ready(broker)
        with Many(broker, count // IN_FLIGHT) as many:
            many.call(COMMIT, 2, [commit_body(f"g{i % 100}", -1, "", {0: 0}) for i in range(100)], commit_answer)  # the logs have their files
            before = journal_syncs(port)
            began = time.monotonic()
            errors = many.call(COMMIT, 2, [commit_body(f"g{i % 100}", -1, "", {i // 100: i}) for i in range(count)], commit_answer)
            took_s = time.monotonic() - began
            syncs = journal_syncs(port) - before
            equal({error for row in errors for error in row}, {0}, "errors of OffsetCommit")
            say(f"       {count} commits in flight: {syncs} syncs, {took_s:.2f} s")
            check(0 < syncs < 100, f"{syncs} syncs")


def test_no_room_for_more_is_said_and_heals():
    with Broker(settings={"group.initial.rebalance.delay.ms": 0, "weir.groups.max": 50, "offsets.retention.minutes": 1}, name="group-scale") as broker:
        make(broker, "t", 1)
        ready(broker)
        with Many(broker, 1) as many:
            joined = many.call(JOIN, 3, [join_body(f"g{i}") for i in range(60)], join_answer)
            equal([row[0] for row in joined].count(0), 50, "groups that there is room for")
            equal({row[0] for row in joined}, {0, NOT_AVAILABLE}, "the others may come again")
            until(lambda: "weir.groups.max" in broker.log(), 5, "the log says which limit it was")
            equal(broker.log().count("weir.groups.max"), 1, "lines about it")
            errors = many.call(COMMIT, 2, [commit_body("one-more", -1, "", {0: 1})], commit_answer)
            equal(errors, [[NOT_AVAILABLE]], "a commit that would make a group")
            left = many.call(LEAVE, 1, [wire.string("g0") + wire.string(joined[0][3])], lambda reader: reader.take("ih")[1])
            equal(left, [0], "one leaves")
            with wire.Conn(broker.host, broker.port) as conn:
                equal(conn.call(42, 0, wire.array([wire.string("g0")])).take("i"), 0, "DeleteGroups")
            again = many.call(JOIN, 3, [join_body("one-more")], join_answer)
            equal(again[0][0], 0, "now there is room")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
