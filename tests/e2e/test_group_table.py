#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Groups of every client through every kind of trouble, a table of clients and scenarios: every record is processed, none is skipped, and
one is seen twice only where whoever saw it first could not commit it: it died, or its commit was refused.

All clients go through a scenario at once, each in groups and topics of its own at the same broker. In the short form all of them come and
go, and our own client and a group of one member of each meet the rest. WEIR_LONG=1: every client meets all of it, one after the other, with
20 members and more kills. WEIR_GROUP_CLIENTS="java kcat", WEIR_GROUP_SCENARIO=commits take some only.
"""

import os
import random
import sys
import threading
import time
import traceback

import groups
import harness
import wire
from groups import Member, fill, grow, judge, make, seen, share_all
from harness import IS_LONG, SKIPPED, Broker, say, until

PATIENCE_S = 90
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "weir.check.slow": "true"}
CLIENTS = ("weir", *harness.CLIENT_NAMES)
# A leader that comes back plans what it need not (KIP-814), without knowing what it had, and asks for a rebalance where the plan is another.
PLANS_ANEW = {("franz-go", "cooperative-sticky")}


def strategies(kind):
    if kind in ("kcat", "mixed"):
        return ("range",)
    return harness.strategies(kind) if IS_LONG or kind == "weir" else harness.strategies(kind)[-1:]


class Case:
    """A client and a strategy: its topic, its group, its members through one scenario."""

    def __init__(self, broker, kind, strategy, partitions):
        self.broker = broker
        self.kind = kind
        self.strategy = strategy
        self.partitions = partitions
        self.name = f"{kind}-{strategy}"
        self.members = []
        self.gone = []
        self.total = 0
        self.want = set()
        self.ends = {}
        self.failure = None
        self.twice = 0
        self.took_s = 0.0
        make(broker, self.name, partitions)

    def next_kind(self):
        mixed = [kind for kind in CLIENTS if kind not in SKIPPED and (kind == "kcat" or "range" in harness.strategies(kind))]
        return mixed[(len(self.members) + len(self.gone)) % len(mixed)] if self.kind == "mixed" else self.kind

    def add(self, instance="", environment=None):
        self.members.append(Member(self.next_kind(), self.broker, self.name, self.name, self.strategy, instance, environment))

    def fill(self, count):
        fill(self.broker, self.name, self.total, count, self.partitions)
        for i in range(self.total, self.total + count):
            partition = i % self.partitions
            self.want.add((partition, self.ends.get(partition, 0)))
            self.ends[partition] = self.ends.get(partition, 0) + 1
        self.total += count

    def everyone(self):
        return self.gone + self.members

    def wait_seen(self):
        until(lambda: self.want <= set(seen(self.everyone())), PATIENCE_S,
              lambda: f"{self.name}: all records: {self.missing()}, {self.state()}", 0.05)

    def missing(self):
        """Which they are, and which of them were committed all the same: whoever did that took them and dropped them, or was told to."""
        missing = sorted(self.want - set(seen(self.everyone())))
        try:
            with wire.Conn(self.broker.host, self.broker.port) as conn:
                offsets = conn.fetch_offsets(self.name, self.name, range(self.partitions))[1]
        except OSError as error:
            return f"{len(missing)} are missing, {missing[:10]}; what is committed is not known: {error}"
        committed = [record for record in missing if record[1] < offsets[record[0]][0]]
        return f"{len(missing)} are missing, {missing[:10]}; committed all the same are {len(committed)}, {committed[:10]}"

    def wait_shared(self):
        until(lambda: share_all(self.members, self.partitions), PATIENCE_S, lambda: f"{self.name}: they share all: {self.state()}", 0.05)

    def state(self):
        return [member.state() for member in self.members]

    def close(self, at):
        if self.members[at].kind == "kcat":  # it may drop what it took last and has not printed when it is told to stop, and commits it
            self.wait_seen()
        member = self.members.pop(at)
        self.gone.append(member)
        member.close()

    def kill(self, at):
        member = self.members.pop(at)
        self.gone.append(member)
        member.kill()

    def end(self, twice_anyway=False):
        while self.members:
            self.close(0)
        self.twice = judge(self.gone, self.want, twice_anyway)


class Run:
    """Steps that all cases do at once; one that has failed is left out of those that follow."""

    def __init__(self, broker, cases):
        self.broker = broker
        self.cases = cases

    def each(self, step):
        def one(case):
            began = time.monotonic()
            try:
                step(case)
            except BaseException as error:  # pylint: disable=broad-except
                case.failure = error
                case.trace = traceback.format_exc()
            case.took_s += time.monotonic() - began
        threads = [threading.Thread(target=one, args=(case,)) for case in self.cases if case.failure is None]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def bounce(self):
        self.broker.kill()
        self.broker.start()


# ---- the scenarios ----


def come_and_go(run):
    """From one member to many and back, while records come."""
    most = {case.name: (20 if IS_LONG else 3) for case in run.cases}

    def up(case):
        case.add()
        case.fill(600)
        case.wait_seen()
        while len(case.members) < most[case.name]:
            case.add()
            if len(case.members) % 3 == 0:  # some in a row, within one round
                case.wait_shared()
                case.fill(600)
        case.wait_shared()

    def down(case):
        while len(case.members) > 1:
            case.close(random.randrange(len(case.members)))
            case.fill(120)
            if len(case.members) % 4 == 1:
                case.wait_shared()
        case.wait_seen()
        case.end()

    run.each(up)
    run.each(down)


def members_die(run):
    """kill -9 of members in the middle of their work."""
    for _ in range(3 if IS_LONG else 1):
        def turn(case):
            while len(case.members) < 3:
                case.add()
            case.wait_shared()
            case.fill(1200)
            case.kill(random.randrange(3))
            case.fill(600)
            case.wait_seen()
            case.wait_shared()
        run.each(turn)
    run.each(lambda case: case.end())


def broker_dies_in_a_rebalance(run):
    """kill -9 of the broker while members join and leave."""
    run.each(lambda case: (case.fill(600), case.add(), case.wait_seen()))
    for turn in range(6 if IS_LONG else 2):
        run.each(lambda case: (case.fill(300), case.add()))
        time.sleep(random.random() * 0.6)  # any moment of the joining will do
        run.bounce()
        run.each(lambda case: (case.wait_seen(), case.wait_shared()))
        if turn % 2 == 1:
            run.each(lambda case: case.close(0))
    run.each(lambda case: (case.fill(300), case.wait_seen(), case.end(twice_anyway=True)))


def broker_dies_in_commits(run):
    """kill -9 of the broker while members read and commit."""
    run.each(lambda case: (case.add(), case.add(), case.wait_shared()))
    for _ in range(6 if IS_LONG else 2):
        run.each(lambda case: case.fill(1800))
        run.each(lambda case: until(lambda: len(set(seen(case.everyone())) & case.want) > len(case.want) - 1700, PATIENCE_S, "some are read"))
        run.bounce()
        run.each(lambda case: (case.fill(300), case.wait_seen()))
    run.each(lambda case: case.end(twice_anyway=True))


def static_members_return(run):
    """KIP-345: one that comes back within its session has what it had, and the others notice nothing."""
    def first(case):
        for i in range(3):
            case.add(f"instance-{i}", groups.PATIENT)
        case.wait_shared()
        case.fill(300)
        case.wait_seen()

    def restart(case):
        for turn in range(3 if IS_LONG else 2):
            moves = [member.moves for member in case.members[1:]]
            owned = set(case.members[0].owned)
            if turn % 2 == 0:
                case.kill(0)
            else:
                case.close(0)
            case.add("instance-" + "012"[turn], groups.PATIENT)
            until(lambda o=owned: case.members[-1].owned == o, PATIENCE_S, lambda: f"{case.name}: it has what it had: {case.state()}")
            case.fill(300)
            case.wait_seen()
            if (case.kind, case.strategy) not in PLANS_ANEW:
                harness.equal([member.moves for member in case.members[:2]], moves, f"{case.name}: the others were not disturbed")

    run.each(first)
    run.each(restart)
    run.each(lambda case: case.end())


def topic_grows(run):
    """Partitions are added, and written to at once: from their beginning all of it is read."""
    run.each(lambda case: (case.add(), case.add(), case.wait_shared(), case.fill(600), case.wait_seen()))

    def more(case):
        case.partitions += 6
        grow(case.broker, case.name, case.partitions)
        case.total = 0
        case.fill(600)
        case.wait_seen()
        case.wait_shared()
        case.end()
    run.each(more)


SCENARIOS = {
    "come and go": (come_and_go, ()),
    "members die": (members_die, ()),
    "broker dies, rebalance": (broker_dies_in_a_rebalance, ()),
    "broker dies, commits": (broker_dies_in_commits, ()),
    "static members return": (static_members_return, ("mixed", "kafkajs")),
    "topic grows": (topic_grows, ()),
}


# ---- the table ----


def print_table(rows):
    names = list(SCENARIOS)
    widths = [max(len(name), 16) for name in names]
    say("clients and strategies x scenarios: seconds (all clients at once), and records seen twice where they may be")
    say(" | ".join([f"{'':36}"] + [name.ljust(width) for name, width in zip(names, widths)]))
    for row in rows:
        say(" | ".join([f"{row:36}"] + [rows[row].get(name, "-").ljust(width) for name, width in zip(names, widths)]))


def go(scenario, pairs, rows, failures):
    steps, unable = SCENARIOS[scenario]
    partitions = 24 if IS_LONG and steps is come_and_go else groups.PARTITIONS
    with Broker(shards=2, settings=SETTINGS, name="group-table") as broker:
        cases = [Case(broker, kind, strategy, partitions) for kind, strategy in pairs if kind not in unable]
        try:
            steps(Run(broker, cases))
        finally:
            for case in cases:
                for member in case.members:
                    member.kill()
        for case in cases:
            row = f"{case.kind} {case.strategy}"
            rows.setdefault(row, {})[scenario] = f"{case.took_s:.0f} s, {case.twice} twice" if case.failure is None else "FAILED"
            if case.failure is not None:
                failures.append(f"{row}, {scenario}: {case.failure}")
                say(f"FAILED {row}, {scenario}\n{case.trace}")


def test_every_client_through_every_trouble():
    wanted = os.environ.get("WEIR_GROUP_CLIENTS", "").split()
    scenarios = [name for name in SCENARIOS if os.environ.get("WEIR_GROUP_SCENARIO", "") in name]
    kinds = [kind for kind in (*CLIENTS, "mixed") if kind not in SKIPPED and (not wanted or kind in wanted)]
    rows, failures = {}, []
    for scenario in scenarios:
        began = time.monotonic()
        pairs = [(kind, strategy) for kind in kinds for strategy in strategies(kind)]
        if not IS_LONG and not wanted and scenario != "come and go":
            pairs = [pair for pair in pairs if pair[0] in ("weir", "mixed")]
        if IS_LONG and scenario == "come and go":  # twenty members are enough at once
            parts = [[pair] for pair in pairs]
        else:
            parts = [[pair for pair in pairs if pair[0] == kind] for kind in kinds] if IS_LONG else [pairs]
        for part in parts:
            go(scenario, part, rows, failures)
        say(f"       {scenario}: {time.monotonic() - began:.1f} s")
    print_table(rows)
    harness.check(not failures, lambda: "\n".join(failures))


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
