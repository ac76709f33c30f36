#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kafka's own kafka-groups and kafka-consumer-groups: every form of a reset, as a dry run and executed, and all else that they can be asked
about groups. What they print about Weir is what they print about an Apache Kafka in the same state, and what OffsetFetch says after is
what it says there."""

import contextlib
import datetime
import os
import re
import struct
import sys
import tempfile
import time

import harness
import kafka
import messages
import wire
from harness import SKIPPED, Broker, Skip, check, equal, say, until

SETTINGS = {"group.initial.rebalance.delay.ms": 0}
CONSUMER_GROUPS, GROUPS = "consumer.group.ConsumerGroupCommand", "GroupsCommand"
MINUTE_MS = 60000
NOW_MS = int(time.time() * 1000)
# Five records at each of these minutes before now; and where the log starts after some were deleted.
RECORDS = {("t", 0): (60, 50), ("t", 1): (60, 50, 40, 30), ("t", 2): (), ("u", 0): (60,)}
STARTS = {("t", 0): 3, ("t", 1): 0, ("t", 2): 0, ("u", 0): 0}
ENDS = {part: 5 * len(minutes) for part, minutes in RECORDS.items()}
COMMITTED = {"g": {("t", 0): 5, ("t", 1): 7, ("u", 0): 2}, "h": {("t", 1): 1}}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Side:
    """A broker, and what a test asks of it by itself."""

    def __init__(self, name, address):
        self.name = name
        self.address = address
        self.conn = wire.Conn(*address)
        self.members = []

    @property
    def bootstrap(self):
        return "{}:{}".format(*self.address)

    def ask(self, api, version, conn=None, **body):
        conn = conn or self.conn
        conn.socket.sendall(messages.request(api, version, 1, "hand", body))
        return messages.response(api, version, conn.receive_exactly(struct.unpack(">i", conn.receive_exactly(4))[0]))[1]

    def lay(self):
        """The topics, with what is in them."""
        for topic in ("t", "u"):
            equal(self.conn.create_topic(topic, sum(1 for name, _ in RECORDS if name == topic))[0], 0, "create " + topic)
        for (topic, partition), minutes in RECORDS.items():
            for minute in minutes:
                data = wire.batch([b"x"] * 5, timestamp=NOW_MS - minute * MINUTE_MS)
                until(lambda t=topic, p=partition, d=data: self.conn.produce(t, {p: d})[(t, p)][0] == 0, 30, "a record is taken")
        rows = [{"Name": topic, "Partitions": [{"PartitionIndex": p, "Offset": start}]} for (topic, p), start in STARTS.items() if start > 0]
        equal(self.ask("DeleteRecords", 1, Topics=rows, TimeoutMs=30000)["Topics"][0]["Partitions"][0]["ErrorCode"], 0, "DeleteRecords")
        for group in (*COMMITTED, "c", "k"):
            until(lambda name=group: self.conn.find_coordinator(name)[0] == 0 and
                  self.ask("OffsetFetch", 5, GroupId=name, Topics=None)["ErrorCode"] == 0, 30, "its coordinator is there")

    def commit(self):
        """The groups as they shall be, and nothing else."""
        until(lambda: all(row["ErrorCode"] in (0, 69) for row in self.ask("DeleteGroups", 1, GroupsNames=list(COMMITTED))["Results"]), 10,
              "the groups go")
        for group, parts in COMMITTED.items():
            for (topic, partition), offset in parts.items():
                equal(self.conn.commit_offsets(group, topic, {partition: offset}), {partition: 0}, "a commit")

    def committed(self, group):
        """{(topic, partition): (offset, leader epoch, words)}"""
        answer = self.ask("OffsetFetch", 5, GroupId=group, Topics=None)
        equal(answer["ErrorCode"], 0, "OffsetFetch")
        return {(topic["Name"], p["PartitionIndex"]): (p["CommittedOffset"], p["CommittedLeaderEpoch"], p["Metadata"])
                for topic in answer["Topics"] for p in topic["Partitions"]}

    def join(self, group, kind, metadata, assignment):
        """One member, on a connection that stays: it does nothing more, and its session is long."""
        conn = wire.Conn(*self.address)
        self.members.append(conn)
        answer = self.ask("JoinGroup", 3, conn, GroupId=group, SessionTimeoutMs=300000, RebalanceTimeoutMs=10000, MemberId="",
                          ProtocolType=kind, Protocols=[{"Name": "range", "Metadata": metadata}])
        equal(answer["ErrorCode"], 0, "JoinGroup")
        answer = self.ask("SyncGroup", 2, conn, GroupId=group, GenerationId=answer["GenerationId"], MemberId=answer["MemberId"],
                          Assignments=[{"MemberId": answer["MemberId"], "Assignment": assignment}])
        equal(answer["ErrorCode"], 0, "SyncGroup")

    def close(self):
        for conn in (self.conn, *self.members):
            conn.close()


class Sides:
    """Weir and a Kafka. What is done to them is done to both; what they say must be the same."""

    def __init__(self, tools, sides):
        self.tools = tools
        self.sides = sides

    def each(self, method, *args):
        said = [getattr(side, method)(*args) for side in self.sides]
        for side, other in zip(self.sides, said):
            equal(other, said[0], f"what {side.name} says of {method}{args}, where {self.sides[0].name} is first")
        return said[0]

    @staticmethod
    def _plain(text, side):
        """Its lines, of which the order of members and groups is nobody's; without the Java behind an error, and blanks that fill columns."""
        lines = [" ".join(line.split()) for line in text.splitlines() if not line.startswith(("\t", "java.", "Caused by:"))]
        return sorted(UUID.sub("ID", line).replace(str(side.address[1]), "PORT") for line in lines if line)

    def tool(self, name, *args, code=0):
        """What it prints, plain."""
        said = []
        for side in self.sides:
            got, text = self.tools.run(name, "--bootstrap-server", side.bootstrap, *args)
            equal(got, code, f"the exit code of {name} {' '.join(args)} at {side.name}: {text}")
            said.append(self._plain(text, side))
            equal(said[-1], said[0], f"what {name} {' '.join(args)} prints of {side.name}, where {self.sides[0].name} is first")
        return said[0]


def table(lines, *columns):
    """The rows below a head that names these columns, as words."""
    out = []
    for line in lines:
        words = line.split()
        if len(words) == len(columns) and words != list(columns):
            out.append(tuple(words))
    return sorted(out)


@contextlib.contextmanager
def both():
    if {"java", "kafka"} & SKIPPED:
        raise Skip("Kafka's tools are left out by WEIR_E2E_SKIP")
    with contextlib.ExitStack() as stack:
        tools = stack.enter_context(kafka.Tools())
        broker = stack.enter_context(Broker(shards=2, settings=SETTINGS, name="group-tools"))
        places = [("Kafka" if harness.AGAINST_KAFKA else "Weir", (broker.host, broker.port))]
        if not harness.AGAINST_KAFKA:
            peer = kafka.Kafka(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-tools.", ignore_cleanup_errors=True)))
            stack.callback(peer.kill)
            peer.start()
            places.append(("Kafka", (peer.host, peer.port)))
        sides = [stack.enter_context(contextlib.closing(Side(*place))) for place in places]
        for side in sides:
            side.lay()
        yield Sides(tools, sides), broker


# ---- resets ----


def at(minute, zone=""):
    """So many minutes before now, for --to-datetime; UTC if it says nothing else."""
    shift_ms = {"": 0, "Z": 0, "+02:00": 120 * MINUTE_MS}[zone]
    when = datetime.datetime.fromtimestamp((NOW_MS - minute * MINUTE_MS + shift_ms) / 1000, datetime.timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}" + zone


def of_t(*offsets):
    return {("t", p): offset for p, offset in enumerate(offsets)}


T, BOTH, ALL = ("--topic", "t"), ("--topic", "t:1,0", "--topic", "u"), ("--all-topics",)
# Of group g: the topics, how, and the offsets that it has then, besides those that it had.
FORMS = [
    (T, ("--to-earliest",), of_t(3, 0, 0)),
    (T, ("--to-latest",), of_t(10, 20, 0)),
    (T, ("--to-current",), of_t(5, 7, 0)),  # the latest where nothing was committed
    (T, ("--to-offset", "6"), of_t(6, 6, 0)),
    (T, ("--to-offset", "1"), of_t(3, 1, 0)),
    (T, ("--to-offset", "-5"), of_t(3, 0, 0)),
    (T, ("--to-offset", "15"), of_t(10, 15, 0)),
    (T, ("--to-datetime", at(45)), of_t(10, 10, 0)),
    (T, ("--to-datetime", at(55, "Z")), of_t(5, 5, 0)),
    (T, ("--to-datetime", at(60, "+02:00")), of_t(3, 0, 0)),
    (T, ("--to-datetime", at(1)), of_t(10, 20, 0)),
    (T, ("--to-datetime", at(30)), of_t(10, 15, 0)),
    (T, ("--by-duration", "PT35M"), of_t(10, 15, 0)),
    (T, ("--by-duration", "P1DT1H"), of_t(3, 0, 0)),
    (T, ("--by-duration", "PT0S"), of_t(10, 20, 0)),
    (("--topic", "t:0,1"), ("--shift-by", "2"), of_t(7, 9)),
    (("--topic", "t:0,1"), ("--shift-by", "-4"), of_t(3, 3)),
    (("--topic", "t:0,1"), ("--shift-by", "13"), of_t(10, 20)),
    (("--topic", "t:1"), ("--to-latest",), {("t", 1): 20}),
    (BOTH, ("--to-earliest",), {**of_t(3, 0), ("u", 0): 0}),
    (BOTH, ("--shift-by", "1"), {**of_t(6, 8), ("u", 0): 3}),
    (ALL, ("--to-latest",), {**of_t(10, 20), ("u", 0): 5}),  # of those that were committed
    (ALL, ("--shift-by", "-1"), {**of_t(4, 6), ("u", 0): 1}),
    (ALL, ("--to-current",), COMMITTED["g"]),
]


def planned(lines):
    return {group: {(topic, int(p)): int(offset) for name, topic, p, offset in rows if name == group}
            for rows in [table(lines, "GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")] for group in {row[0] for row in rows}}


def offsets_of(both_sides, group):
    return {part: offset for part, (offset, _, _) in both_sides.each("committed", group).items()}


def reset(both_sides, args, want):
    """Dry, then in earnest; want: {group: {(topic, partition): offset}}, of what the plan names."""
    both_sides.each("commit")
    before = {group: offsets_of(both_sides, group) for group in {*COMMITTED, *want}}
    equal(planned(both_sides.tool(CONSUMER_GROUPS, "--reset-offsets", *args, "--dry-run")), want, f"the plan of {args}")
    equal({group: offsets_of(both_sides, group) for group in before}, before, f"the offsets after a dry run of {args}")
    equal(planned(both_sides.tool(CONSUMER_GROUPS, "--reset-offsets", *args, "--execute")), want, f"what {args} has done")
    after = {group: {**parts, **want.get(group, {})} for group, parts in before.items()}
    equal({group: offsets_of(both_sides, group) for group in before}, after, f"the offsets after {args}")
    for group, parts in after.items():
        lines = both_sides.tool(CONSUMER_GROUPS, "--describe", "--group", group)
        rows = [line.split()[1:6] for line in lines if line.startswith(group + " ")]
        wanted = [[topic, str(p), str(offset), str(ENDS[(topic, p)]), str(ENDS[(topic, p)] - offset)] for (topic, p), offset in parts.items()]
        equal(sorted(rows), sorted(wanted), f"what --describe says of {group} after {args}")


def reset_from_files(both_sides, folder):
    """What one reset has exported another one reads, of one group and of several."""
    path = os.path.join(folder, "plan.csv")
    for groups in (("g",), ("g", "h")):
        names = [word for group in groups for word in ("--group", group)]
        both_sides.each("commit")
        want = {group: {part: ENDS[part] for part in COMMITTED[group]} for group in groups}
        lines = both_sides.tool(CONSUMER_GROUPS, "--reset-offsets", *names, *ALL, "--to-latest", "--export", "--dry-run")
        plan = [f"{topic},{p},{offset}" if len(groups) == 1 else f"{group},{topic},{p},{offset}"
                for group, parts in want.items() for (topic, p), offset in parts.items()]
        equal(lines, sorted(plan), "what is exported")
        equal(offsets_of(both_sides, "g"), COMMITTED["g"], "the offsets after an export")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        reset(both_sides, (*names, "--from-file", path), want)
    with open(path, "w", encoding="utf-8") as file:
        file.write("t,0,1\nt,1,99\nt,2,0\n")
    reset(both_sides, ("--group", "g", "--from-file", path), {"g": of_t(3, 20, 0)})
    both_sides.each("commit")
    lines = both_sides.tool(CONSUMER_GROUPS, "--reset-offsets", "--group", "g", *T, "--to-latest", "--export", "--execute")
    equal((lines, offsets_of(both_sides, "g")), (["t,0,10", "t,1,20", "t,2,0"], {**of_t(10, 20, 0), ("u", 0): 2}), "an export that is executed")


def test_every_form_of_a_reset():
    with both() as (both_sides, broker):
        began = time.monotonic()
        for topics, how, want in FORMS:
            reset(both_sides, ("--group", "g", *topics, *how), {"g": want})
        reset(both_sides, ("--group", "g", "--group", "h", *T, "--to-earliest"), {"g": of_t(3, 0, 0), "h": of_t(3, 0, 0)})
        reset(both_sides, ("--all-groups", *ALL, "--to-latest"), {"g": {**of_t(10, 20), ("u", 0): 5}, "h": {("t", 1): 20}})
        reset(both_sides, ("--group", "new", *T, "--to-latest"), {"new": of_t(10, 20, 0)})
        reset_from_files(both_sides, broker.directory)
        say(f"       resets: {time.monotonic() - began:.1f} s")
        both_sides.each("commit")
        executed = (*T, "--to-latest", "--execute")
        for code, word, args in (
                (0, "WARN: No action will be performed", ("--group", "g", *T, "--to-latest")),
                (1, "no current committed offset", ("--group", "g", *T, "--shift-by", "1", "--execute")),
                (0, "UnknownTopicOrPartition", ("--group", "g", "--topic", "none", "--to-latest", "--execute")),
                (0, '"t-9" do not exist', ("--group", "g", "--topic", "t:9", "--to-latest", "--execute")),
                (1, "One of the reset scopes should be defined", ("--group", "g", "--to-latest", "--execute")),
                (1, "requires one of the following scenarios", ("--group", "g", *T, "--execute")),
                (1, "can't be used with option", ("--group", "g", "--to-earliest", *executed))):
            lines = both_sides.tool(CONSUMER_GROUPS, "--reset-offsets", *args, code=code)
            check(any(word in line for line in lines), lambda w=word, a=args, said=lines: f"{a} does not say {w!r}: {said}")
            equal(offsets_of(both_sides, "g"), COMMITTED["g"], f"the offsets after {args}")
        both_sides.each("join", "g", "consumer", SUBSCRIPTION, ASSIGNMENT)
        lines = both_sides.tool(CONSUMER_GROUPS, "--reset-offsets", "--group", "g", *executed)
        check(any("the current state is Stable" in line for line in lines), f"a reset of a group that is used: {lines}")
        lines = both_sides.tool(CONSUMER_GROUPS, "--reset-offsets", "--all-groups", *executed)
        equal(planned(lines).get("h"), of_t(10, 20, 0), "of all groups the one that is not used is reset")
        equal(offsets_of(both_sides, "g"), COMMITTED["g"], "the offsets of the group that is used")


# ---- all else ----


SUBSCRIPTION = struct.pack(">hi", 0, 1) + wire.string("t") + struct.pack(">i", -1)
ASSIGNMENT = struct.pack(">hi", 0, 1) + wire.string("t") + struct.pack(">iiii", 2, 0, 2, -1)


def test_groups_are_listed_and_described_and_go():
    with both() as (both_sides, _):
        both_sides.each("commit")
        both_sides.each("join", "c", "consumer", SUBSCRIPTION, ASSIGNMENT)
        both_sides.each("join", "k", "connect", b"?", b"!")
        listed = {"c": ("c", "Classic", "consumer"), "k": ("k", "Classic", "connect"), "g": ("g", "Classic"), "h": ("h", "Classic")}
        for names, args in (("cghk", ()), ("cghk", ("--group-type", "classic")), ("cgh", ("--consumer",)), ("", ("--share",)), ("", ("--streams",)),
                            ("", ("--group-type", "consumer")), ("c", ("--protocol", "consumer")), ("k", ("--protocol", "connect")),
                            ("c", ("--group-type", "classic", "--protocol", "consumer")), ("", ("--protocol", "none"))):
            lines = both_sides.tool(GROUPS, "--list", *args)
            equal([tuple(line.split()) for line in lines if line != "GROUP TYPE PROTOCOL"], [listed[name] for name in names], f"--list {args}")
        both_sides.tool(GROUPS, "--list", "--group-type", "nothing", code=1)

        def tool(*args, code=0):
            return both_sides.tool(CONSUMER_GROUPS, *args, code=code)

        equal(tool("--list"), ["c", "g", "h"], "--list")
        for args in (("--state",), ("--state", "stable"), ("--state", "Empty,Stable"), ("--type",), ("--type", "classic"), ("--type", "consumer"),
                     ("--state", "--type")):
            tool("--list", *args)
        for what in ((), ("--offsets",), ("--members",), ("--state",), ("--verbose",), ("--members", "--verbose"), ("--state", "--verbose")):
            for whose in (("--group", "c"), ("--group", "g"), ("--group", "c", "--group", "h"), ("--all-groups",), ("--group", "k"), ("--group", "none")):
                tool("--describe", *whose, *what)
        said = tool("--describe", "--group", "c")
        check(any("c t 0 - 10 -" in line for line in said), f"a member that has committed nothing: {said}")
        tool("--delete-offsets", "--group", "g", "--topic", "t:1", "--topic", "u")
        equal(offsets_of(both_sides, "g"), {("t", 0): 5}, "the offsets that are left")
        for args in (("--group", "g", "--topic", "none"), ("--group", "none", "--topic", "t"), ("--group", "c", "--topic", "t"),
                     ("--group", "g", "--topic", "t:8")):
            tool("--delete-offsets", *args)
        tool("--delete", "--group", "c")
        tool("--delete", "--group", "g", "--group", "none", "--group", "c")
        equal(tool("--list"), ["c", "h"], "what is left")
        tool("--delete", "--all-groups")
        equal(tool("--list"), ["c"], "what is left then")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
