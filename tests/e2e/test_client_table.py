#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A table of unmodified clients by what they can be asked to do, over one broker of two shards: every cell passes, and an empty one stands
for a call that the client does not have (LACKS), which is held to as well. WEIR_E2E_SKIP leaves whole columns out, and with
WEIR_E2E_AGAINST=kafka a real Kafka fills the table in: what a cell asks for is what Kafka gives."""

import sys
import threading
import time
import traceback

import harness
import wire
from groups import PATIENT, Member, judge, make
from harness import Broker, ClientError, NoSuchCall, Record, Skip, check, equal, open_client, say, until

PARTITIONS = 3
CODECS = wire.CODECS
EACH = 10  # records of a partition with one codec
WHOLE = EACH * len(CODECS)
UNKNOWN_TOPIC = 3
LATER_S = 10 if harness.AGAINST_KAFKA else 0  # what a Kafka has answered, it may show a moment later
SETTINGS = {"num.partitions": PARTITIONS, "group.initial.rebalance.delay.ms": 100, "weir.check.slow": "true"}

ADMIN = {"create", "describe configs", "alter some configs", "replace all configs", "add partitions", "delete records", "delete and create again",
         "see a group", "see what is committed", "delete a group"}
LACKS = {
    # It takes partitions in the eager way only, and ends when its only broker is gone.
    "kcat": ADMIN | {"join, cooperative", "go on producing over kill -9", "go on reading over kill -9", "go on in a group over kill -9"},
    "java": {"replace all configs"},
    "kafka-python": {"replace all configs"},  # it adds what was not named by itself
    "aiokafka": {"alter some configs", "join, cooperative", "delete a group"},
    "kafkajs": {"alter some configs", "join, cooperative", "join, static"},
    "rust-rdkafka": {"alter some configs"},
}

# What a client does not do every time, and no broker can help.
UNSTEADY = {
    ("kafka-python", "go on in a group over kill -9"): "its loop may stand still for good after a connection was refused (3.0.12), at a Kafka too",
}


class Column:
    """One client, and what its cells share."""

    def __init__(self, name, broker):
        self.name = name
        self.broker = broker
        self.topic = "t-" + name
        self.client = open_client(name, broker.bootstrap)
        self.wrote = {}
        self.members = []
        self.cells = {}

    def records(self, count, word, partitions=PARTITIONS):
        now = int(time.time() * 1000)
        return [Record(i % partitions, now + i, b"%d" % i, (word + f" {i} ").encode() * 20) for i in range(count)]

    def member(self, group, topic, kind="eager", instance=""):
        strategy = "cooperative-sticky" if kind == "cooperative" else harness.strategies(self.name)[0]
        member = Member(self.name, self.broker, group, topic, strategy, instance, PATIENT if instance else None)
        self.members.append(member)
        return member

    def wire(self):
        return wire.Conn(self.broker.host, self.broker.port)

    def close(self):
        for member in self.members:
            member.kill()
        self.client.close()


def lacks(column, action):
    return action in LACKS.get(column.name, ())


# ---- topics and records ----


def create(column):
    if lacks(column, "create"):
        with column.wire() as conn:
            equal(conn.create_topic(column.topic, PARTITIONS, {"retention.ms": "-1"})[0], 0, "a topic for it")
    harness.create(column.client, column.topic, PARTITIONS, {"retention.ms": "-1"})
    until(lambda: column.topic in column.client.topics(), LATER_S, "it lists its topic")


def produce(codec):
    def do(column):
        records = column.records(EACH * PARTITIONS, f"{column.name} {codec}")
        column.client.produce(column.topic, codec, records)
        start = EACH * CODECS.index(codec)
        if column.client.reports_offsets:
            equal([r.offset for r in records], [start + i // PARTITIONS for i in range(len(records))], "reported offsets")
        for record in records:
            column.wrote.setdefault(record.partition, []).append(record.value)
        with column.wire() as conn:
            for partition in range(PARTITIONS):
                seen = {codec for base, _, codec, _, _ in conn.read_all(column.topic, partition, start + EACH) if base >= start}
                equal(seen, {codec}, f"codecs in the log of partition {partition}")
    return do


def read(column, where, first):
    """From {partition: first offset} on; what it gives is held against what was written."""
    got = column.client.consume(column.topic, {p: WHOLE for p in range(PARTITIONS)}, where)
    for partition in range(PARTITIONS):
        rows = [(r.offset, r.value) for r in got if r.partition == partition]
        equal(rows, list(enumerate(column.wrote[partition]))[first[partition]:], f"records of partition {partition} from {first[partition]}")
    return got


def read_from_the_beginning(column):
    column.read = read(column, "beginning", dict.fromkeys(range(PARTITIONS), 0))


def read_from_an_offset(column):
    read(column, "offset:17", dict.fromkeys(range(PARTITIONS), 17))


def at_time(column, when):
    return {p: next(r.offset for r in column.read if r.partition == p and r.timestamp >= when) for p in range(PARTITIONS)}


def a_time(column):
    """Of a record in the midst of the log, early enough that each partition has one as late."""
    return min(next(r.timestamp for r in column.read if r.partition == p and r.offset == 33) for p in range(PARTITIONS))


def read_from_a_time(column):
    when = a_time(column)
    read(column, f"time:{when}", at_time(column, when))


def list_offsets(column):
    equal(column.client.list_offsets(column.topic, "earliest"), dict.fromkeys(range(PARTITIONS), 0), "earliest")
    equal(column.client.list_offsets(column.topic, "latest"), dict.fromkeys(range(PARTITIONS), WHOLE), "latest")
    when = a_time(column)
    equal(column.client.list_offsets(column.topic, str(when)), at_time(column, when), f"offsets at {when}")


def delete_records(column):
    column.client.delete_records(column.topic, {0: 10, 2: 30})
    with column.wire() as conn:
        starts = conn.list_offsets(column.topic, dict.fromkeys(range(PARTITIONS), -2))
    equal({p: offset for p, (_, _, offset) in starts.items()}, {0: 10, 1: 0, 2: 30}, "starts of the logs")
    equal(column.client.list_offsets(column.topic, "earliest"), {0: 10, 1: 0, 2: 30}, "earliest offsets")
    got = column.client.consume(column.topic, {2: WHOLE})
    equal([r.offset for r in got], list(range(30, WHOLE)), "what is left of partition 2")


# ---- configs and partitions ----


def describe_configs(column):
    equal(column.client.configs(column.topic)["retention.ms"], "-1", "the retention that it asked for")
    configs = column.client.broker_configs()
    check(len(configs) > 20 and configs["message.max.bytes"] == "1048588", f"broker configs: {configs}")


def has_configs(column, max_bytes, retention_ms):
    """The one it named, and the one it did not."""
    def told():
        configs = column.client.configs(column.topic)
        return configs["max.message.bytes"], configs["retention.ms"]

    until(lambda: told() == (max_bytes, retention_ms), LATER_S, lambda: f"configs {told()}, wanted {(max_bytes, retention_ms)}")


def alter_some_configs(column):
    column.client.alter_configs(column.topic, {"max.message.bytes": "500000"})
    has_configs(column, "500000", "-1")


def replace_all_configs(column):
    column.client.replace_configs(column.topic, {"max.message.bytes": "600000"})
    has_configs(column, "600000", "604800000")


def add_partitions(column):
    column.client.add_partitions(column.topic, PARTITIONS + 2)
    with column.wire() as conn:
        until(lambda: conn.list_offsets(column.topic, {PARTITIONS + 1: -1})[PARTITIONS + 1][0] == 0, 10, "the new partition has a leader")
    record = Record(PARTITIONS + 1, int(time.time() * 1000), b"k", b"of a new partition")
    until(lambda: produced(column, column.topic, [record]), 30, "its producer hears of the partition", every_s=0.2)
    equal(record.offset, 0, "the first offset of a new partition")


def delete_and_create_again(column):
    """Its producer lives on and goes on at offset 0."""
    topic = "again-" + column.name
    for turn in range(2):
        harness.create_anew(column.client, topic, PARTITIONS)
        records = column.records(PARTITIONS * 5, f"turn {turn}")
        until(lambda rows=records: produced(column, topic, rows), 60, "it produces to the topic of this turn")
        equal([r.offset for r in records], [i // PARTITIONS for i in range(len(records))], f"offsets in turn {turn}")
        got = column.client.consume(topic, dict.fromkeys(range(PARTITIONS), 5))
        equal(sorted(r.value for r in got), sorted(r.value for r in records), f"records of turn {turn}")
        column.client.delete(topic)
        with column.wire() as conn:
            until(lambda: conn.metadata([topic])[topic][0] == UNKNOWN_TOPIC, LATER_S, "it is gone")


def produced(column, topic, records):
    """A producer that has not heard of the topic or partition yet may say that it is not there."""
    try:
        column.client.produce(topic, "lz4", records)
    except ClientError as error:
        check("unknown" in error.name.lower() or "partition" in error.message, f"{error.name}: {error.message}")
        return False
    return True


# ---- groups ----


def fill(column, topic, count):
    make(column.broker, topic, PARTITIONS)
    if count:
        add(column, topic, count)


def add(column, topic, count):
    with column.wire() as conn:
        for partition in range(PARTITIONS):
            batch = wire.batch([b"%d" % i for i in range(count)])
            until(lambda p=partition, b=batch: conn.produce(topic, {p: b})[(topic, p)][0] == 0, 10, "a leader is there")


def owners(members):
    return sorted(p for member in members for p in member.owned)


def join(column, kind):
    """One reads, a second comes and shares, and when that one goes the first has all again; what was committed is not seen again."""
    topic = group = f"{kind}-{column.name}"
    fill(column, topic, 20)
    one = column.member(group, topic, kind)
    until(lambda: len(one.records) >= 20 * PARTITIONS and one.commits, 60, lambda: f"the first reads all: {len(one.records)}")
    other = column.member(group, topic, kind)
    until(lambda: other.owned and owners([one, other]) == list(range(PARTITIONS)), 60, lambda: f"they share: {one.owned}, {other.owned}")
    add(column, topic, 20)
    until(lambda: len(one.records) + len(other.records) >= 40 * PARTITIONS, 60, "they read the rest")
    other.close()
    until(lambda: owners([one]) == list(range(PARTITIONS)), 60, "the first takes over")
    one.close()
    judge((one, other), {(p, offset) for p in range(PARTITIONS) for offset in range(40)})


def join_eager(column):
    join(column, "eager")


def join_cooperative(column):
    if lacks(column, "join, cooperative"):
        raise NoSuchCall(column.name)
    join(column, "cooperative")


def join_static(column):
    """It is killed and comes back by its name before its session ends: nobody is asked to share anew."""
    if lacks(column, "join, static"):
        raise NoSuchCall(column.name)
    topic = group = "static-" + column.name
    fill(column, topic, 0)
    one, other = (column.member(group, topic, instance=name) for name in ("one", "other"))
    until(lambda: one.owned and other.owned and owners([one, other]) == list(range(PARTITIONS)), 60, "they share")
    add(column, topic, 20)
    until(lambda: len(set(one.records + other.records)) == 20 * PARTITIONS and one.commits and other.commits, 60, "they read")
    owned, moves = set(one.owned), other.moves
    one.kill()
    again = column.member(group, topic, instance="one")
    until(lambda: again.owned == owned, 60, "it has what it had")
    equal(other.moves, moves, "moves of the other")
    again.close()
    other.close()


def group_without_members(column):
    group = "eager-" + column.name
    with column.wire() as conn:
        until(lambda: conn.describe_group(group)[1] == "Empty", 10, "its members are gone")
    return group


def see_a_group(column):
    group = group_without_members(column)
    check(group in column.client.groups(), "it lists its group")
    equal(column.client.group(group), ("Empty", []), "its group without members")
    member = column.member(group, group)
    until(lambda: owners([member]) == list(range(PARTITIONS)), 60, "a member")
    state, members = column.client.group(group)
    equal((state, len(members)), ("Stable", 1), "its group with a member")
    equal(members[0][3].lstrip("/"), "127.0.0.1", "the member's host")
    member.close()


def see_what_is_committed(column):
    group = "eager-" + column.name
    equal(column.client.committed(group, group), dict.fromkeys(range(PARTITIONS), 40), "committed offsets")


def delete_a_group(column):
    group = group_without_members(column)
    column.client.delete_group(group)
    check(group not in column.client.groups(), "it is not listed any more")


# ---- kill -9 of the broker in the midst ----


class Restart:
    """Every client produces, reads by assignment and reads in a group, all at once, and goes on when the broker has come back."""

    def __init__(self, columns, broker):
        self.broker = broker
        self.states = {column.name: Going(column) for column in columns if not lacks(column, "go on producing over kill -9")}

    def run(self):
        states = self.states.values()
        try:
            for state in states:
                state.start()
            until(lambda: all(state.acked_batches >= 5 or state.failure for state in states), 60,
                  lambda: f"all produce: {[(s.column.name, s.acked_batches) for s in states]}")
            until(lambda: all(state.member is None or state.member.commits for state in states), 60, "all members read")
            self.broker.kill()
            self.broker.start()
            for state in states:
                state.mark = state.acked_batches
                add(state.column, state.read_topic, 20)
            until(lambda: all(state.acked_batches >= state.mark + 3 or state.failure for state in states), 60,
                  lambda: f"all go on: {[(s.column.name, s.acked_batches - s.mark) for s in states]}")
        finally:
            for state in states:
                state.end()

    def check(self, what):
        def do(column):
            if lacks(column, f"go on {what} over kill -9"):
                raise NoSuchCall(column.name)
            getattr(self.states[column.name], what.split()[-1])()
        return do


class Going:
    def __init__(self, column):
        self.column = column
        self.topic = "going-" + column.name
        self.read_topic = "reading-" + column.name
        self.acked = []
        self.failed = []
        self.acked_batches = self.mark = 0
        self.failure = self.read = self.member = self.reader = None
        self.ends = threading.Event()
        self.threads = []

    def start(self):
        fill(self.column, self.read_topic, 20)
        make(self.column.broker, self.topic, PARTITIONS)
        self.reader = open_client(self.column.name, self.column.broker.bootstrap)
        if (self.column.name, "go on in a group over kill -9") not in UNSTEADY:
            self.member = self.column.member(self.read_topic, self.read_topic)
        for work in (self.produces, self.reads):
            thread = threading.Thread(target=self.guarded, args=(work,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def guarded(self, work):
        try:
            work()
        except Exception:  # pylint: disable=broad-except
            self.failure = traceback.format_exc()

    def produces(self):
        turn = 0
        while not self.ends.is_set():
            turn += 1
            records = self.column.records(4 * PARTITIONS, f"turn {turn}")
            try:
                self.column.client.produce(self.topic, "none", records)
            except ClientError as error:
                self.failed.append(f"{error.name}: {error.message}")
                continue
            self.acked += records
            self.acked_batches += 1
            self.ends.wait(0.02)

    def reads(self):
        """A Kafka that is started again may take longer than a client waits for records: then it is asked once more."""
        for _ in range(4 if LATER_S else 1):
            try:
                self.read = self.reader.consume(self.read_topic, dict.fromkeys(range(PARTITIONS), 40))
                return
            except ClientError as error:
                last = error
        raise last

    def end(self):
        self.ends.set()
        for thread in self.threads:
            thread.join(180 if LATER_S else 60)
        if self.reader:
            self.reader.close()

    def producing(self):
        check(not self.failure, lambda: self.failure)
        equal(self.failed, [], "batches that were given up")
        with self.column.wire() as conn:
            ends = {p: row[2] for p, row in conn.list_offsets(self.topic, dict.fromkeys(range(PARTITIONS), -1)).items()}
        got = self.column.client.consume(self.topic, ends)
        values = {(r.partition, r.offset): r.value for r in got}
        for record in self.acked:
            equal(values.get((record.partition, record.offset)), record.value, f"what lies at {record.partition}, {record.offset}")
        equal(sum(ends.values()), len(self.acked), "records in the log: none twice")

    def reading(self):
        check(not self.failure, lambda: self.failure)
        check(self.read is not None, "it is not done")
        equal(sorted((r.partition, r.offset) for r in self.read), [(p, o) for p in range(PARTITIONS) for o in range(40)], "what it read, each once")

    def group(self):
        want = {(p, o) for p in range(PARTITIONS) for o in range(40)}
        until(lambda: set(self.member.records) == want, 60, lambda: f"the member has {len(set(self.member.records))} records")
        self.member.close()


# ---- the table ----


ACTIONS = {
    "create": create,
    **{f"produce, {codec}": produce(codec) for codec in CODECS},
    "read from the beginning": read_from_the_beginning,
    "read from an offset": read_from_an_offset,
    "read from a time": read_from_a_time,
    "list offsets": list_offsets,
    "delete records": delete_records,
    "describe configs": describe_configs,
    "alter some configs": alter_some_configs,
    "replace all configs": replace_all_configs,
    "add partitions": add_partitions,
    "delete and create again": delete_and_create_again,
    "join, eager": join_eager,
    "join, cooperative": join_cooperative,
    "join, static": join_static,
    "see what is committed": see_what_is_committed,
    "see a group": see_a_group,
    "delete a group": delete_a_group,
}


def cell(column, action, do):
    if (column.name, action) in UNSTEADY:
        column.cells[action] = (None, 0)
        return
    started = time.monotonic()
    try:
        do(column)
        failure = "does what it is said to lack" if lacks(column, action) else None
    except NoSuchCall as error:
        failure = None if lacks(column, action) else f"there is no such call: {error}"
    except Exception as error:  # pylint: disable=broad-except
        failure = "".join(traceback.format_exception(error))
    column.cells[action] = (failure, time.monotonic() - started)


def row(columns, action, do):
    threads = [threading.Thread(target=cell, args=(column, action, do)) for column in columns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def show(columns):
    widths = {column.name: max(7, len(column.name) + 1) for column in columns}
    say("       " + " " * 34 + "".join(f"{column.name:>{widths[column.name]}}" for column in columns))
    for action in columns[0].cells:
        texts = []
        for column in columns:
            failure, seconds = column.cells[action]
            text = "FAILED" if failure else "-" if lacks(column, action) else "*" if (column.name, action) in UNSTEADY else f"{seconds:.1f}"
            texts.append(f"{text:>{widths[column.name]}}")
        say(f"       {action:34}" + "".join(texts))
    failures = [(column.name, action, failure) for column in columns for action, (failure, _) in column.cells.items() if failure]
    for name, action, failure in failures:
        say(f"{name}: {action}: {failure}")
    done = sum(not lacks(column, action) and (column.name, action) not in UNSTEADY for column in columns for action in column.cells)
    empty = sum(lacks(column, action) for column in columns for action in column.cells)
    for (name, action), why in UNSTEADY.items():
        say(f"       * {name}, {action}: {why}")
    say(f"       seconds of {done} cells; {empty} are empty: the client has no such call")
    return len(failures)


def test_every_client_does_what_it_has_a_call_for():
    names = [name for name in harness.CLIENT_NAMES if name not in harness.SKIPPED]
    if not names:
        raise Skip("no client is there")
    with Broker(shards=2, settings=SETTINGS, name="table") as broker:
        columns = []
        try:
            for name in names:
                columns.append(Column(name, broker))
            for action, do in ACTIONS.items():
                row(columns, action, do)
            restart = Restart(columns, broker)
            restart.run()
            for what in ("producing", "reading", "in a group"):
                row(columns, f"go on {what} over kill -9", restart.check(what))
        finally:
            for column in columns:
                column.close()
            failures = show(columns)
    check(not failures, lambda: f"{failures} cells failed")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
