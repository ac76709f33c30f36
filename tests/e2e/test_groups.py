#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""subscribe() of real clients: every record is processed, none is skipped, and one is seen twice only where a member died between
processing it and committing; through members that come, go and die, and kill -9 of the broker in the middle of it."""

import json
import struct
import sys
import time

import harness
import kafka
import wire
from groups import PARTITIONS, PATIENT, Member, expect_exactly, fill, make, seen, share_all
from harness import SKIPPED, Broker, Skip, check, equal, say, until

SETTINGS = {"group.initial.rebalance.delay.ms": 300, "weir.check.slow": "true"}


def kinds():
    all_kinds = [kind for kind in ("confluent-kafka", "java") if kind not in SKIPPED]
    if not all_kinds:
        raise Skip("no client with groups is there")
    return all_kinds


def each_kind(body):
    for kind in kinds():
        for strategy in harness.strategies(kind):
            with Broker(shards=2, settings=SETTINGS, name="groups") as broker:
                members = []
                began = time.monotonic()
                make(broker, "t")
                try:
                    body(kind, strategy, broker, members)
                finally:
                    for member in members:
                        member.kill()
                say(f"       {kind} {strategy}: {time.monotonic() - began:.1f} s")


def test_members_come_and_go():
    def body(kind, strategy, broker, members):
        fill(broker, "t", 0, 600)
        members.append(Member(kind, broker, "g", "t", strategy))
        until(lambda: len(seen(members)) >= 600 and members[0].commits > 0, 60, lambda: f"the first has {len(seen(members))}")
        members.append(Member(kind, broker, "g", "t", strategy))
        members.append(Member(kind, broker, "g", "t", strategy))
        until(lambda: share_all(members), 60, "three share six partitions")
        fill(broker, "t", 600, 600)
        until(lambda: len(seen(members)) >= 1200, 60, "all of the second lot")
        members[0].close()
        until(lambda: share_all(members[1:]), 60, "two take over from the one that left")
        fill(broker, "t", 1200, 600)
        until(lambda: len(seen(members)) >= 1800, 60, "all of the third lot")
        members[1].close()
        members[2].close()
        expect_exactly(members, 1800)
    each_kind(body)


def test_a_member_dies():
    def body(kind, strategy, broker, members):
        for _ in range(2):
            members.append(Member(kind, broker, "g", "t", strategy))
        until(lambda: share_all(members), 60, "both share the partitions")
        fill(broker, "t", 0, 1200)
        until(lambda: len(members[0].records) > 100, 60, "some are processed")
        members[0].kill()
        until(lambda: share_all(members[1:]), 60, "the other takes over once its session has ended")
        fill(broker, "t", 1200, 600)
        until(lambda: len(set(seen(members))) >= 1800, 60, "all records")
        members[1].close()
        expect_exactly(members, 1800, twice_at_most=200)
    each_kind(body)


NONE, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS = 0, 22, 27


def stable(broker, group):
    """Its members with their ids and assignments, and its generation, which only the heartbeat of a member can tell; None: it is not stable now."""
    with wire.Conn(broker.host, broker.port) as conn:
        error, state, members = conn.describe_group(group)
        if error != NONE or state != "Stable":
            return None
        for generation in range(1, 200):
            error = conn.heartbeat(group, generation, min(members))
            if error != ILLEGAL_GENERATION:
                return (generation, members) if error == NONE else None
        raise AssertionError("it has had 200 generations")


# Java's own way of finding brokers again, "rebootstrap", may cost the group a rebalance, at a Kafka too: see Member.java. And a machine that
# others use may keep a member from its processors for longer than the 10 s that members have elsewhere.
UNDISTURBED = {"WEIR_METADATA_RECOVERY": "none", "WEIR_SESSION_MS": "60000"}


def test_the_broker_is_killed():
    def body(kind, strategy, broker, members):
        for _ in range(3):
            members.append(Member(kind, broker, "g", "t", strategy, environment=UNDISTURBED))
        until(lambda: share_all(members), 60, "three share the partitions")
        total = 0
        for turn in range(4):
            before = until(lambda: stable(broker, "g"), 10, "the group is stable")
            fill(broker, "t", total, 600)
            total += 600
            until(lambda: len(set(seen(members))) >= total - 300 + 60 * turn, 60, "some are processed")
            broker.kill()
            broker.start()
            until(lambda: len(set(seen(members))) >= total, 60, "all that was produced before it died")
            equal(stable(broker, "g"), before, "the generation, and the members with their ids and assignments")
            equal([member.losses for member in members], [0, 0, 0], "losses of the members")
        for member in members:
            member.close()
        expect_exactly(members, total)
    each_kind(body)


def test_the_broker_is_killed_while_members_join():
    def body(kind, strategy, broker, members):
        fill(broker, "t", 0, 600)
        for _ in range(3):
            members.append(Member(kind, broker, "g", "t", strategy))
            time.sleep(0.2)
            broker.kill()
            broker.start()
        until(lambda: share_all(members) and len(set(seen(members))) >= 600, 90,
              lambda: f"three share the partitions: {[m.owned for m in members]}")
        fill(broker, "t", 600, 600)
        until(lambda: len(set(seen(members))) >= 1200, 60, "all records")
        for member in members:
            member.close()
        expect_exactly(members, 1200, twice_at_most=600)
    each_kind(body)


def test_a_static_member_comes_back_without_a_rebalance():
    def body(kind, strategy, broker, members):
        for i in range(2):
            members.append(Member(kind, broker, "g", "t", strategy, f"instance-{i}", PATIENT))
        until(lambda: share_all(members), 60, "both share the partitions")
        owned, moves = set(members[0].owned), members[1].moves
        members[0].kill()
        members.append(Member(kind, broker, "g", "t", strategy, "instance-0", PATIENT))
        until(lambda: members[2].owned == owned, 60, "the new one has what the old one had")
        fill(broker, "t", 0, 600)
        until(lambda: len(set(seen(members))) >= 600, 60, "all records")
        equal(members[1].moves, moves, "the other one was not disturbed")
        members[1].close()
        members[2].close()
        expect_exactly(members, 600)
    each_kind(body)


def test_kcat_resumes_where_it_committed():
    with Broker(shards=2, settings={"group.initial.rebalance.delay.ms": 0}, name="groups") as broker:
        kcat = harness.open_client("kcat", broker.bootstrap)
        make(broker, "t")
        for turn in range(3):
            fill(broker, "t", 600 * turn, 600)
            out = kcat.run("-G", "g", "-q", "-c", "600", "-f", "%p %o\n", "-X", "auto.offset.reset=earliest", "t").stdout.split(b"\n")[:-1]
            got = sorted(tuple(int(word) for word in line.split()) for line in out)
            equal(got, sorted((i % PARTITIONS, i // PARTITIONS) for i in range(600 * turn, 600 * turn + 600)), "the records of this turn")
            broker.kill()
            broker.start()


def test_the_command_line_sees_members_and_moves_offsets_only_without_them():
    with Broker(shards=2, settings=SETTINGS, name="groups") as broker:
        make(broker, "t")
        fill(broker, "t", 0, 600)

        def group(*args):
            return harness.weir("group", *args, "--bootstrap", broker.bootstrap)

        def described():
            code, out, err = group("describe", "g", "--json")
            equal(code, 0, "weir group describe (" + err + ")")
            return json.loads(out)

        member = Member("confluent-kafka", broker, "g", "t")
        try:
            until(lambda: len(member.records) == 600 and sum(row["lag"] or 0 for row in described()["partitions"]) == 0, 60,
                  "the member reads and commits everything")
            rows = described()
            equal((rows["state"], rows["type"], len(rows["members"])), ("Stable", "consumer", 1), "the group")
            equal(rows["members"][0]["partitions"], PARTITIONS, "the partitions of its member")
            equal([(row["partition"], row["committed"], row["end"], row["lag"]) for row in rows["partitions"]],
                  [(p, 100, 100, 0) for p in range(PARTITIONS)], "the partitions of the group")
            equal({(row["member"], row["client"], row["host"]) for row in rows["partitions"]},
                  {tuple(rows["members"][0][key] for key in ("member", "client", "host"))}, "who has them")
            for args in (("reset", "g", "--topic", "t", "--to-earliest", "--execute"), ("delete", "g")):
                code, out, err = group(*args)
                equal((code, out), (1, ""), "weir group " + " ".join(args))
                check(err.startswith("error: NON_EMPTY_GROUP: group 'g' has "), f"weir group {args[0]}: {err!r}")
            member.close()
        finally:
            member.kill()
        equal(described()["state"], "Empty", "the state without members")
        equal(group("reset", "g", "--topic", "t:3", "--shift-by", "-40", "--execute")[0], 0, "weir group reset")
        member = Member("confluent-kafka", broker, "g", "t")
        try:
            until(lambda: len(member.records) == 40, 60, "the member reads what it was sent back by")
            equal(sorted(member.records), [(3, offset) for offset in range(60, 100)], "what it reads again")
            member.close()
        finally:
            member.kill()
        # Records before the log's start are not behind: nobody can read them.
        equal(group("reset", "g", "--topic", "t:3", "--to-offset", "10", "--execute")[0], 0, "weir group reset")
        with wire.Conn(broker.host, broker.port) as conn:
            conn.call(21, 0, wire.array([wire.string("t") + wire.array([struct.pack(">iq", 3, 30)])]) + struct.pack(">i", 30000))
        row = described()["partitions"][3]
        equal((row["committed"], row["start"], row["end"], row["lag"]), (10, 30, 100, 70), "the partition whose start has moved")
        equal(group("delete", "g")[:2], (0, "deleted group 'g'\n"), "weir group delete")
        equal(group("list")[:2], (0, ""), "weir group list")


def test_a_coordinator_is_found_for_groups_alone():
    if harness.AGAINST_KAFKA:
        raise Skip("a Kafka has transactions")
    with Broker(name="groups") as broker:
        with wire.Conn(broker.host, broker.port) as conn:
            equal(conn.find_coordinator("g"), (0, "NONE", 1, broker.host, broker.port), "the coordinator of a group")
            for key_type in (1, 2, 3):
                error, message, node, host, port = conn.find_coordinator("x", key_type)
                equal((error, node, host, port), (42, -1, "", -1), f"of key type {key_type}: INVALID_REQUEST, which nobody tries again")
                check(message, "it says why")


def test_old_versions_of_offset_fetch_say_the_same():
    with Broker(shards=2, name="groups") as broker:
        make(broker, "t")
        with wire.Conn(broker.host, broker.port) as conn:
            until(lambda: conn.find_coordinator("g")[0] == 0 and conn.commit_offsets("g", "t", {0: 1})[0] == 0, 30, "a coordinator is there")
            equal(conn.commit_offsets("g", "t", {0: 7, 3: 9, PARTITIONS: 1}), {0: 0, 3: 0, PARTITIONS: 3}, "commits")
            for version in range(1, 6):
                want = {0: (7, "words", 0), 1: (-1, "", 0), 3: (9, "words", 0)}
                equal(conn.fetch_offsets("g", "t", [0, 1, 3], version), (0, want), f"version {version}")
            equal(conn.delete_topic("t"), 0, "delete t")
            equal(conn.create_topic("t", PARTITIONS)[0], 0, "create it again")
            gone = (0, {0: (-1, "", 0)})
            # A Kafka forgets them a moment later.
            until(lambda: conn.fetch_offsets("g", "t", [0]) == gone, 10 if harness.AGAINST_KAFKA else 0, "they are not those of the next topic of its name")


def test_the_groups_are_listed_all_or_not_at_all():
    """While the logs of groups are being read, ListGroups says so, whichever of the shards has its share already."""
    load_in_progress, groups = 14, sorted(f"g{i}" for i in range(2000))
    if harness.AGAINST_KAFKA:
        raise Skip("a Kafka's restart is not what this is about")
    with Broker(shards=3, name="groups") as broker:
        make(broker, "t")
        with wire.Conn(broker.host, broker.port) as conn:
            for group in groups:
                equal(conn.commit_offsets(group, "t", {0: 7}), {0: 0}, f"commit of {group}")
        for end in (broker.stop, broker.kill):
            end()
            broker.start()
            with wire.Conn(broker.host, broker.port) as conn:
                def is_listed():
                    error, listed = conn.list_groups()
                    check(error == load_in_progress or sorted(listed) == groups, lambda: f"error {error}, {len(listed)} groups")
                    return error == 0
                until(is_listed, 30, "the groups are listed", every_s=0)


# ---- Kafka's own tool ----


def tool(broker, *args):
    done = kafka.tool("consumer.group.ConsumerGroupCommand", "--bootstrap-server", broker.bootstrap, *args, timeout=120)
    check(done.returncode == 0, lambda: f"kafka-consumer-groups {' '.join(args)}: {done.stdout}{done.stderr}")
    return done.stdout


def rows(text, group="g"):
    return [line.split() for line in text.splitlines() if line.split()[:1] == [group]]


def test_kafkas_own_tool():
    if "java" in SKIPPED:
        raise Skip("java is left out")
    with Broker(shards=2, settings=SETTINGS, name="groups") as broker:
        make(broker, "t")
        fill(broker, "t", 0, 600)
        member = Member(kinds()[0], broker, "g", "t")
        try:
            until(lambda: len(member.records) >= 600 and member.commits > 0, 60, "all records")
            equal(tool(broker, "--list").split(), ["g"], "--list")
            equal(rows(tool(broker, "--list", "--state", "Stable")), [["g", "Stable"]], "--list --state")
            fill(broker, "t", 600, 60)
            until(lambda: len(member.records) >= 660, 60, "the rest")
            described = rows(tool(broker, "--describe", "--group", "g"))
            equal(sorted(row[1:6] for row in described), [["t", str(p), "110", "110", "0"] for p in range(PARTITIONS)], "--describe")
            equal({row[7] for row in described}, {"/127.0.0.1"}, "hosts")
            equal(rows(tool(broker, "--describe", "--group", "g", "--state"))[0][-2:], ["Stable", "1"], "--describe --state")
            equal([row[-1] for row in rows(tool(broker, "--describe", "--group", "g", "--members"))], [str(PARTITIONS)], "--describe --members")
        finally:
            member.close()
        equal(rows(tool(broker, "--describe", "--group", "g", "--state"))[0][-2:], ["Empty", "0"], "--describe --state of an empty one")
        plan = rows(tool(broker, "--reset-offsets", "--group", "g", "--topic", "t", "--shift-by", "-10", "--dry-run"))
        equal(sorted(row[2:] for row in plan), [[str(p), "100"] for p in range(PARTITIONS)], "--reset-offsets --dry-run")
        equal({row[3] for row in rows(tool(broker, "--describe", "--group", "g"))}, {"110"}, "a dry run changes nothing")
        tool(broker, "--reset-offsets", "--group", "g", "--topic", "t", "--to-earliest", "--execute")
        broker.kill()
        broker.start()
        equal({row[3] for row in rows(tool(broker, "--describe", "--group", "g"))}, {"0"}, "--reset-offsets --execute")
        tool(broker, "--delete-offsets", "--group", "g", "--topic", "t:1")
        equal(len([r for r in rows(tool(broker, "--describe", "--group", "g")) if r[3] != "-"]), PARTITIONS - 1, "--delete-offsets")
        tool(broker, "--delete", "--group", "g")
        equal(tool(broker, "--list").split(), [], "--delete")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
