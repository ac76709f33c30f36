# SPDX-License-Identifier: Apache-2.0
"""Groups of the classic protocol: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups,
DeleteGroups."""

import time

from diff import case

RANGE = (("range", b"a"),)
BOTH = (("range", b"a"), ("sticky", b"b"))
OTHER = (("other", b"c"),)
NOBODY = "nobody-00000000-0000-4000-8000-000000000000"


def asked_to_join(group, member="", protocols=RANGE, kind="consumer", session_ms=20000, rebalance_ms=4000, instance=None, **more):
    return {"GroupId": group, "SessionTimeoutMs": session_ms, "RebalanceTimeoutMs": rebalance_ms, "MemberId": member,
            "GroupInstanceId": instance, "ProtocolType": kind, "Protocols": [{"Name": n, "Metadata": m} for n, m in protocols], **more}


def join(t, version, group, member="", **asked):
    return t.call("JoinGroup", version, **asked_to_join(group, member, **asked))


def start_join(t, version, group, member="", **asked):
    t.tell("JoinGroup", version, **asked_to_join(group, member, **asked))


def asked_to_sync(group, generation, member, assignments=(), instance=None, kind="consumer", name="range"):
    return {"GroupId": group, "GenerationId": generation, "MemberId": member, "GroupInstanceId": instance, "ProtocolType": kind,
            "ProtocolName": name, "Assignments": [{"MemberId": m, "Assignment": a} for m, a in assignments]}


def sync(t, version, group, generation, member, assignments=(), **asked):
    return t.call("SyncGroup", version, **asked_to_sync(group, generation, member, assignments, **asked))


def start_sync(t, version, group, generation, member, assignments=(), **asked):
    t.tell("SyncGroup", version, **asked_to_sync(group, generation, member, assignments, **asked))


def beat(t, version, group, generation, member, instance=None):
    return t.call("Heartbeat", version, GroupId=group, GenerationId=generation, MemberId=member, GroupInstanceId=instance)


def leave(t, version, group, *members):
    """members: (id, instance)"""
    if version < 3:
        return t.call("LeaveGroup", version, GroupId=group, MemberId=members[0][0])
    rows = [{"MemberId": m, "GroupInstanceId": i} for m, i in members]
    return t.call("LeaveGroup", version, GroupId=group, Members=rows)


def describe(t, version, *groups, **more):
    return t.call("DescribeGroups", version, Groups=list(groups), **more)


def enter(t, group, instance=None, **asked):
    """One more member in a group that was empty, alone; (id, generation), and the group waits for its assignment."""
    answer = t.quietly("JoinGroup", 7, **asked_to_join(group, instance=instance, **asked))
    if answer["ErrorCode"] == 79:
        answer = t.quietly("JoinGroup", 7, **asked_to_join(group, answer["MemberId"], **asked))
    return answer["MemberId"], answer["GenerationId"]


def settle_in(t, group, instance=None, **asked):
    """One member, in a stable group: (id, generation)."""
    member, generation = enter(t, group, instance, **asked)
    t.quietly("SyncGroup", 4, **asked_to_sync(group, generation, member, [(member, b"all")], instance))
    return member, generation


def state_is(t, group, state):
    """Waits for what happens by itself."""
    for _ in range(4000):
        if t.quietly("DescribeGroups", 4, Groups=[group])["Groups"][0]["GroupState"] == state:
            return
        time.sleep(0.005)


def until_waits(t):
    """What was told on another connection is not answered yet: all that is left is to give it time to be taken up."""
    for _ in range(20):
        t.quietly("ApiVersions", 0)
        time.sleep(0.005)


def two_settled(t, group, protocols=RANGE, **asked):
    """Two members of a stable group, on connections of their own: ((talk, id), (talk, id), generation); the first leads."""
    first, second = t.friend("first"), t.friend("second")
    leader, generation = settle_in(first, group, protocols=protocols, **asked)
    answer = second.quietly("JoinGroup", 7, **asked_to_join(group, protocols=protocols, **asked))
    follower = answer["MemberId"]
    start_join(second, 7, group, follower, protocols=protocols, **asked)
    state_is(t, group, "PreparingRebalance")
    start_join(first, 7, group, leader, protocols=protocols, **asked)
    generation = first.hear("JoinGroup", 7, is_quiet=True)["GenerationId"]
    second.hear("JoinGroup", 7, is_quiet=True)
    start_sync(second, 5, group, generation, follower)
    first.quietly("SyncGroup", 4, **asked_to_sync(group, generation, leader, [(leader, b"one"), (follower, b"two")]))
    second.hear("SyncGroup", 5, is_quiet=True)
    return (first, leader), (second, follower), generation


# What Kafka's handlers can answer. None: a case asks for it, on one node; else why none does.
_AUTH = "there is no authorizer"
_LOADING = "it passes by itself while a coordinator comes or goes"
_WHEREVER = {14: _LOADING, 15: _LOADING, 16: _LOADING, 30: _AUTH}
_NO_NULL = "the id would have to be null, which no version can say"
_CONSUMER = "it is said of groups of the consumer protocol"
CODES = {
    "FindCoordinator": {0: None, 42: None, 15: _LOADING, 30: _AUTH, 53: _AUTH},
    "JoinGroup": {**_WHEREVER, -1: None, 0: None, 23: None, 24: None, 25: None, 26: None, 79: None, 81: None, 82: None},
    "SyncGroup": {**_WHEREVER, 0: None, 22: None, 23: None, 24: None, 25: None, 27: None, 82: None,
                  -1: "its record is too large for a log: the limits are others here, and JoinGroup says so"},
    "Heartbeat": {**_WHEREVER, 0: None, 22: None, 24: None, 25: None, 27: None, 82: None},
    "LeaveGroup": {**_WHEREVER, 0: None, 24: None, 25: None, 82: None},
    "DescribeGroups": {**_WHEREVER, 0: None, 69: None, 24: _NO_NULL},
    "ListGroups": {**_WHEREVER, 0: None},
    "DeleteGroups": {**_WHEREVER, 0: None, 68: None, 69: None, 24: _NO_NULL},
    "OffsetCommit": {**_WHEREVER, 0: None, 3: None, 12: None, 22: None, 25: None, 27: None, 69: None, 82: None, 100: None, 24: _NO_NULL,
                     28: "its records are too large for a log: the limits are others here", 29: _AUTH, 113: _CONSUMER},
    "OffsetFetch": {**_WHEREVER, 0: None, 100: None, 24: _NO_NULL, 29: _AUTH, 25: _CONSUMER, 69: _CONSUMER, 113: _CONSUMER,
                    88: "it is said while a transaction holds the offset, and there are no transactions here"},
    "OffsetDelete": {**_WHEREVER, 0: None, 3: None, 24: None, 68: None, 69: None, 86: None, 29: _AUTH},
}


# ---- FindCoordinator


@case("FindCoordinator", 0, 1, 2, 3, 4, 6)
def where_a_coordinator_is(t, version):
    name = t.group()
    if version < 4:
        t.call("FindCoordinator", version, Key=name)
        t.call("FindCoordinator", version, Key="")
    else:
        t.call("FindCoordinator", version, CoordinatorKeys=[name])
        t.call("FindCoordinator", version, CoordinatorKeys=[])
        t.call("FindCoordinator", version, CoordinatorKeys=["", name, name, "x" * 300])


@case("FindCoordinator", 1, 2, 3, 4, 5, 6)
def coordinators_of_kinds_that_are_not_known(t, version):
    name = t.group()
    for kind in (3, -1, 127):
        if version < 4:
            t.call("FindCoordinator", version, Key=name, KeyType=kind)
        else:
            t.call("FindCoordinator", version, CoordinatorKeys=[name, "x"], KeyType=kind)


@case("FindCoordinator", 7)
def a_version_of_find_coordinator_that_nobody_has(t, version):
    t.raw("FindCoordinator", version, b"\0" * 20)


# ---- JoinGroup


@case("JoinGroup", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
def a_member_joins(t, version):
    group = t.group()
    answer = join(t, version, group, protocols=BOTH)
    if answer["ErrorCode"] == 79:
        answer = join(t, version, group, answer["MemberId"], protocols=BOTH)
    describe(t, 6, group)
    sync(t, 5, group, answer["GenerationId"], answer["MemberId"], [(answer["MemberId"], b"all")])
    describe(t, 6, group)
    join(t, version, group, answer["MemberId"], protocols=BOTH)


@case("JoinGroup", 0, 3, 5, 9)
def a_group_that_can_not_be_joined(t, version):
    name = t.group()
    join(t, version, "")
    join(t, version, name, NOBODY)
    join(t, version, name, "x")
    for session_ms in (99, 0, -1, 1800001, (1 << 31) - 1):
        join(t, version, name, session_ms=session_ms)
    join(t, version, name, session_ms=99, member=NOBODY)
    join(t, version, "", session_ms=99)
    describe(t, 5, name)


@case("JoinGroup", 0, 3, 7, 9)
def protocols_that_do_not_go(t, version):
    name = t.group("trace")
    join(t, version, name, protocols=())
    describe(t, 5, name)
    join(t, version, name, kind="")
    join(t, version, name, kind="", protocols=())
    describe(t, 5, name)
    settle_in(t, name)
    join(t, version, name, kind="connect")
    join(t, version, name, protocols=OTHER)
    join(t, version, name, protocols=())
    join(t, version, name, kind="")
    describe(t, 5, name)


@case("JoinGroup", 4, 9)
def a_known_member_changes_its_protocols(t, version):
    name = t.group()
    me, _ = settle_in(t, name)
    join(t, version, name, me, kind="connect")
    join(t, version, name, me, protocols=())
    join(t, version, name, me, protocols=OTHER)
    join(t, version, name, me, kind="")
    describe(t, 5, name)


@case("JoinGroup", 4, 7, 9)
def a_pending_member(t, version):
    name = t.group("trace")
    me = join(t, version, name)["MemberId"]
    describe(t, 5, name)
    beat(t, 3, name, -1, me)
    beat(t, 3, name, 0, me)
    sync(t, 3, name, 0, me)
    join(t, version, name, me, kind="")
    join(t, version, name, me, protocols=())
    leave(t, 3, name, (me, None))
    leave(t, 3, name, (me, None))
    join(t, version, name, me)
    describe(t, 5, name)


@case("JoinGroup", 5, 9)
def a_pending_member_turns_static(t, version):
    name = t.group()
    me = join(t, version, name)["MemberId"]
    join(t, version, name, me, instance="i")
    describe(t, 5, name)
    join(t, version, name, me)


@case("JoinGroup", 4, 9)
def a_pending_member_that_does_not_come(t, version):
    name = t.group()
    me = join(t, version, name, session_ms=100)["MemberId"]
    time.sleep(0.3)
    join(t, version, name, me)


@case("JoinGroup", 0, 3, 4, 9)
def more_members_than_a_group_may_have(t, version):
    name = t.group()
    settle_in(t, name)
    waiting = [t.friend(f"client{i}") for i in range(3)]
    for other in waiting:
        member = join(other, version, name)["MemberId"] if version >= 4 else ""
        start_join(other, version, name, member)
        state_is(t, name, "PreparingRebalance")
    until_waits(t)
    late = t.friend("late")
    join(late, version, name)  # the first member has not joined anew: three of three wait
    join(late, version, name, NOBODY)
    me = t.quietly("DescribeGroups", 4, Groups=[name])["Groups"][0]["Members"]
    t.note("members", len(me))


@case("JoinGroup", 4, 6, 7, 9)
def a_second_member_comes(t, version):
    name = t.group()
    first, second = t.friend("first"), t.friend("second")
    leader, generation = settle_in(first, name, protocols=BOTH)
    follower = join(second, version, name, protocols=RANGE)["MemberId"]
    beat(first, 4, name, generation, leader)
    start_join(second, version, name, follower, protocols=RANGE)
    state_is(t, name, "PreparingRebalance")
    describe(t, 6, name)
    beat(first, 4, name, generation, leader)
    beat(t, 4, name, generation, follower)
    sync(first, 5, name, generation, leader)
    start_join(first, version, name, leader, protocols=BOTH)
    generation = first.hear("JoinGroup", version)["GenerationId"]
    second.hear("JoinGroup", version)
    describe(t, 6, name)
    beat(first, 4, name, generation, leader)
    beat(first, 4, name, generation - 1, leader)
    start_sync(second, 5, name, generation, follower)
    sync(first, 5, name, generation, leader, [(leader, b"1"), (follower, b"2"), ("x", b"3"), (leader, b"4")])
    second.hear("SyncGroup", 5)
    sync(second, 5, name, generation, follower)
    describe(t, 6, name)
    join(second, version, name, follower, protocols=RANGE)
    describe(t, 6, name)


@case("JoinGroup", 4, 9)
def the_leader_forgets_a_member(t, version):
    name = t.group()
    (first, leader), (second, follower), generation = two_settled(t, name)
    start_join(first, version, name, leader)
    state_is(t, name, "PreparingRebalance")
    start_join(second, version, name, follower)
    generation = first.hear("JoinGroup", version)["GenerationId"]
    second.hear("JoinGroup", version)
    sync(first, 5, name, generation, leader)
    sync(second, 5, name, generation, follower)
    describe(t, 6, name)


@case("JoinGroup", 4, 9)
def a_follower_with_new_words_makes_all_join(t, version):
    name = t.group()
    (first, leader), (second, follower), generation = two_settled(t, name)
    start_join(second, version, name, follower, protocols=(("range", b"new"),))
    state_is(t, name, "PreparingRebalance")
    beat(first, 4, name, generation, leader)
    start_join(first, version, name, leader)
    first.hear("JoinGroup", version)
    second.hear("JoinGroup", version)


@case("JoinGroup", 4, 9)
def a_member_asks_again_while_it_waits(t, version):
    """What it asked before is never answered by Kafka, and is not looked at here."""
    name = t.group()
    (first, leader), (second, follower), _ = two_settled(t, name)
    start_join(first, version, name, leader)
    state_is(t, name, "PreparingRebalance")
    again = t.friend("again")
    start_join(again, version, name, leader)
    until_waits(t)
    start_join(second, version, name, follower)
    again.hear("JoinGroup", version)
    second.hear("JoinGroup", version)


@case("JoinGroup", 4, 9)
def a_member_asks_again_before_its_assignment(t, version):
    name = t.group()
    me, generation = enter(t, name)
    join(t, version, name, me)
    join(t, version, name, me, protocols=(("range", b"new"),))
    sync(t, 5, name, generation, me)
    sync(t, 5, name, generation + 1, me, [(me, b"x")])


@case("JoinGroup", 4, 9)
def whoever_does_not_join_in_time_is_gone(t, version):
    name = t.group()
    (first, leader), (second, follower), generation = two_settled(t, name, rebalance_ms=200)
    start_join(second, version, name, follower, protocols=(("range", b"new"),), rebalance_ms=200)
    second.hear("JoinGroup", version)
    beat(first, 4, name, generation, leader)
    join(first, version, name, leader)
    describe(t, 6, name)


@case("JoinGroup", 4, 9)
def whoever_does_not_sync_in_time_is_gone(t, version):
    name = t.group()
    me, generation = enter(t, name, rebalance_ms=200)
    state_is(t, name, "Empty")
    sync(t, 5, name, generation, me)
    beat(t, 4, name, generation, me)
    describe(t, 6, name)


@case("JoinGroup", 5, 6, 7, 9)
def static_members(t, version):
    name = t.group()
    answer = join(t, version, name, instance="i")
    me, generation = answer["MemberId"], answer["GenerationId"]
    sync(t, 5, name, generation, me, [(me, b"all")], instance="i")
    describe(t, 6, name)
    beat(t, 4, name, generation, me, instance="i")
    beat(t, 4, name, generation, me)
    beat(t, 4, name, generation, me, instance="j")
    beat(t, 4, name, generation, NOBODY, instance="i")
    beat(t, 4, name, generation, "", instance="i")
    answer = join(t, version, name, instance="i")  # it comes again
    other = answer["MemberId"]
    describe(t, 6, name)
    beat(t, 4, name, generation, me, instance="i")
    beat(t, 4, name, generation, me)
    beat(t, 4, name, generation, other, instance="i")
    sync(t, 5, name, generation, me, instance="i")
    join(t, version, name, me, instance="i")
    sync(t, 5, name, generation, other, instance="i")
    join(t, version, name, other, instance="i")
    join(t, version, name, NOBODY, instance="i")
    join(t, version, name, NOBODY, instance="k")
    leave(t, 3, name, (me, "i"))
    leave(t, 3, name, ("", "i"))
    describe(t, 6, name)


@case("JoinGroup", 5, 9)
def a_static_member_comes_again_before_its_assignment(t, version):
    name = t.group()
    me, generation = enter(t, name, instance="i")
    start_sync(t, 5, name, generation, me, instance="i")
    t.hear("SyncGroup", 5)
    describe(t, 6, name)
    other = t.friend("other")
    answer = join(other, version, name, instance="i")
    describe(t, 6, name)
    join(other, version, name, instance="i", protocols=(("range", b"new"),))
    join(other, version, name, answer["MemberId"], instance="i")
    beat(t, 4, name, answer["GenerationId"], answer["MemberId"], instance="i")


@case("JoinGroup", 5, 9)
def a_static_follower_comes_again(t, version):
    name = t.group()
    first, second = t.friend("first"), t.friend("second")
    leader, generation = settle_in(first, name, instance="a", protocols=BOTH)
    start_join(second, version, name, instance="b", protocols=BOTH)
    state_is(t, name, "PreparingRebalance")
    start_join(first, version, name, leader, instance="a", protocols=BOTH)
    generation = first.hear("JoinGroup", version)["GenerationId"]
    follower = second.hear("JoinGroup", version)["MemberId"]
    start_sync(second, 5, name, generation, follower, instance="b")
    sync(first, 5, name, generation, leader, [(leader, b"1"), (follower, b"2")], instance="a")
    second.hear("SyncGroup", 5)
    answer = join(second, version, name, instance="b", protocols=BOTH)
    sync(second, 5, name, generation, answer["MemberId"], instance="b")
    answer = join(first, version, name, instance="a", protocols=(("range", b"new"), ("sticky", b"new")))
    sync(first, 5, name, generation, answer["MemberId"], instance="a")
    describe(t, 6, name)
    leave(t, 5, name, ("", "a"), ("", "b"), ("", "c"))
    describe(t, 6, name)


@case("JoinGroup", 5, 9)
def a_static_member_changes_the_protocol(t, version):
    name = t.group()
    answer = join(t, version, name, instance="a", protocols=BOTH)
    sync(t, 5, name, answer["GenerationId"], answer["MemberId"], [(answer["MemberId"], b"1")], instance="a")
    answer = join(t, version, name, instance="a", protocols=(("sticky", b"b"), ("range", b"a")))
    describe(t, 6, name)
    answer = join(t, version, name, instance="a", protocols=OTHER)
    describe(t, 6, name)


@case("JoinGroup", 0, 4)
def a_version_without_instances_of_a_static_group(t, version):
    name = t.group()
    me, generation = settle_in(t, name, instance="a")
    beat(t, 2, name, generation, me)
    sync(t, 2, name, generation, me)
    t.call("OffsetCommit", 2, GroupId=name, GenerationIdOrMemberEpoch=generation, MemberId=me, Topics=[])
    leave(t, 0, name, (me, None))
    describe(t, 3, name)


@case("JoinGroup", 10)
def a_version_of_join_group_that_nobody_has(t, version):
    t.raw("JoinGroup", version, b"\0" * 20)


@case("JoinGroup", 5, 9)
def words_that_are_long(t, version):
    name = t.group("g" * 200)
    join(t, version, name, instance="i" * 249)
    join(t, version, t.group("h"), instance="")
    join(t, version, t.group("k"), instance="..")
    join(t, version, t.group("l"), instance="a b")
    join(t, version, t.group("m"), instance="i" * 250)
    join(t, version, t.group("n"), protocols=(("p" * 1000, b"m" * 100000),))


@case("JoinGroup", 4, 9)
def timeouts_of_a_rebalance_that_are_odd(t, version):
    for i, rebalance_ms in enumerate((0, -1, -5, (1 << 31) - 1)):
        name = t.group(f"g{i}")
        answer = join(t, version, name, rebalance_ms=rebalance_ms)
        answer = join(t, version, name, answer["MemberId"], rebalance_ms=rebalance_ms)
        if answer["ErrorCode"] == 0 and rebalance_ms > 0:
            describe(t, 5, name)


@case("JoinGroup", 0)
def groups_of_other_protocols(t, version):
    name = t.group()
    answer = join(t, version, name, kind="connect", protocols=(("compatible", b"x"), ("sessioned", b"y")))
    describe(t, 5, name)
    sync(t, 4, name, answer["GenerationId"], answer["MemberId"], [(answer["MemberId"], b"all")])
    describe(t, 5, name)


# ---- SyncGroup


@case("SyncGroup", 0, 1, 2, 3, 4, 5)
def an_assignment(t, version):
    name = t.group()
    me, generation = enter(t, name)
    sync(t, version, name, generation, me, [(me, b"all")])
    sync(t, version, name, generation, me)
    sync(t, version, name, generation, me, [(me, b"other")])
    sync(t, version, name, generation - 1, me)
    sync(t, version, name, generation + 1, me)
    sync(t, version, name, -1, me)


@case("SyncGroup", 0, 3, 5)
def syncs_of_what_is_not_there(t, version):
    name = t.group()
    sync(t, version, "", 1, "x")
    sync(t, version, name, 1, "x")
    sync(t, version, name, -1, "")
    me, generation = enter(t, name)
    sync(t, version, name, generation, NOBODY)
    sync(t, version, name, generation, "")
    sync(t, version, name, generation + 1, NOBODY)
    if version >= 3:
        sync(t, version, name, generation, me, instance="i")
    leave(t, 3, name, (me, None))
    sync(t, version, name, generation, me)


@case("SyncGroup", 5)
def syncs_of_another_protocol(t, version):
    name = t.group()
    me, generation = enter(t, name)
    for kind, protocol in (("connect", "range"), ("consumer", "other"), ("connect", "other"), ("", ""), (None, "other"), ("connect", None)):
        sync(t, version, name, generation, me, kind=kind, name=protocol)
    sync(t, version, name, generation + 1, me, kind="connect")
    sync(t, version, name, generation, NOBODY, kind="connect")
    sync(t, version, name, generation, me, kind=None, name=None)


@case("SyncGroup", 5)
def a_sync_that_waits_while_another_joins(t, version):
    name = t.group()
    (first, leader), (second, follower), _ = two_settled(t, name)
    start_join(first, 9, name, leader)
    state_is(t, name, "PreparingRebalance")
    start_join(second, 9, name, follower)
    generation = first.hear("JoinGroup", 9)["GenerationId"]
    second.hear("JoinGroup", 9)
    start_sync(second, version, name, generation, follower)
    until_waits(t)
    start_join(first, 9, name, leader, protocols=(("range", b"new"),))
    second.hear("SyncGroup", version)
    start_join(second, 9, name, follower)
    first.hear("JoinGroup", 9)
    second.hear("JoinGroup", 9)


@case("SyncGroup", 6)
def a_version_of_sync_group_that_nobody_has(t, version):
    t.raw("SyncGroup", version, b"\0" * 20)


# ---- Heartbeat


@case("Heartbeat", 0, 1, 2, 3, 4)
def heartbeats(t, version):
    name = t.group()
    beat(t, version, "", 1, "x")
    beat(t, version, name, 1, "x")
    beat(t, version, name, -1, "")
    me, generation = enter(t, name)
    beat(t, version, name, generation, me)
    beat(t, version, name, generation - 1, me)
    beat(t, version, name, generation + 1, me)
    beat(t, version, name, generation, NOBODY)
    beat(t, version, name, generation + 1, NOBODY)
    beat(t, version, name, generation, "")
    leave(t, 0, name, (me, None))
    beat(t, version, name, generation, me)


@case("Heartbeat", 3, 4)
def heartbeats_of_instances(t, version):
    name = t.group()
    me, generation = settle_in(t, name, instance="i")
    for member, instance in ((me, "i"), (me, None), (me, "j"), (NOBODY, "i"), ("", "i"), (NOBODY, None), (me, "")):
        beat(t, version, name, generation, member, instance)
        beat(t, version, name, generation + 1, member, instance)


@case("Heartbeat", 4)
def a_member_that_is_silent_is_gone(t, version):
    name = t.group()
    me, generation = settle_in(t, name, session_ms=150)
    state_is(t, name, "Empty")
    beat(t, version, name, generation, me)
    beat(t, version, name, generation + 1, me)
    describe(t, 6, name)
    join(t, 9, name, me)


@case("Heartbeat", 5)
def a_version_of_heartbeat_that_nobody_has(t, version):
    t.raw("Heartbeat", version, b"\0" * 20)


# ---- LeaveGroup


@case("LeaveGroup", 0, 1, 2, 3, 4, 5)
def a_member_leaves(t, version):
    name = t.group()
    me, _ = settle_in(t, name)
    leave(t, version, name, (me, None))
    describe(t, 6, name)
    leave(t, version, name, (me, None))


@case("LeaveGroup", 0, 2, 3, 5)
def who_can_not_leave(t, version):
    name = t.group()
    leave(t, version, "", ("x", None))
    leave(t, version, name, ("x", None))
    leave(t, version, name, ("", None))
    settle_in(t, name)
    leave(t, version, name, (NOBODY, None))
    leave(t, version, name, ("", None))
    describe(t, 6, name)


@case("LeaveGroup", 3, 4, 5)
def several_leave(t, version):
    name = t.group()
    (_, leader), (_, follower), _ = two_settled(t, name)
    leave(t, version, name)
    leave(t, version, name, (NOBODY, None), (leader, None), (leader, None), ("", "i"), (follower, "i"))
    describe(t, 6, name)
    leave(t, version, name, (follower, None), (NOBODY, "i"), (follower, None))
    describe(t, 6, name)
    leave(t, version, name)
    leave(t, version, t.group("none"))
    leave(t, version, t.group("none"), ("a", None), ("", "b"))


@case("LeaveGroup", 3, 5)
def static_members_leave(t, version):
    name = t.group()
    me, _ = settle_in(t, name, instance="i")
    for member, instance in ((me, "j"), (NOBODY, "i"), ("", "j"), (NOBODY, None), ("", "")):
        leave(t, version, name, (member, instance))
    leave(t, version, name, (me, None))
    describe(t, 6, name)
    me, _ = settle_in(t, name, instance="i")
    leave(t, version, name, ("", "i"))
    me, _ = settle_in(t, name, instance="i")
    leave(t, version, name, (me, "i"), ("", "i"))
    describe(t, 6, name)


@case("LeaveGroup", 3, 5)
def whoever_waits_to_join_leaves(t, version):
    name = t.group()
    (first, leader), (second, follower), _ = two_settled(t, name)
    start_join(first, 9, name, leader)
    state_is(t, name, "PreparingRebalance")
    leave(t, version, name, (leader, None))
    first.hear("JoinGroup", 9)
    leave(t, version, name, (follower, None))
    describe(t, 6, name)


@case("LeaveGroup", 3)
def a_leaver_ends_a_rebalance(t, version):
    name = t.group()
    (first, leader), (_, follower), _ = two_settled(t, name)
    start_join(first, 9, name, leader)
    state_is(t, name, "PreparingRebalance")
    leave(t, version, name, (follower, None))
    first.hear("JoinGroup", 9)
    describe(t, 6, name)


@case("LeaveGroup", 3)
def a_leaver_ends_what_others_wait_for(t, version):
    name = t.group()
    (first, leader), (second, follower), _ = two_settled(t, name)
    start_join(first, 9, name, leader)
    state_is(t, name, "PreparingRebalance")
    start_join(second, 9, name, follower)
    generation = first.hear("JoinGroup", 9)["GenerationId"]
    second.hear("JoinGroup", 9)
    start_sync(second, 5, name, generation, follower)
    until_waits(t)
    leave(t, version, name, (leader, None))
    second.hear("SyncGroup", 5)
    join(second, 9, name, follower)


@case("LeaveGroup", 6)
def a_version_of_leave_group_that_nobody_has(t, version):
    t.raw("LeaveGroup", version, b"\0" * 20)


# ---- DescribeGroups


@case("DescribeGroups", 0, 1, 2, 3, 4, 5, 6)
def groups_are_described(t, version):
    name, empty, simple = t.group("a"), t.group("b"), t.group("c")
    me, _ = settle_in(t, name)
    other, _ = settle_in(t, empty)
    t.quietly("LeaveGroup", 1, GroupId=empty, MemberId=other)
    t.create("x")
    rows = [{"Name": t.topic("x"), "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 5}]}]
    t.quietly("OffsetCommit", 7, GroupId=simple, Topics=rows)
    describe(t, version, name)
    describe(t, version, empty)
    describe(t, version, simple)
    describe(t, version, t.group("none"))
    describe(t, version, "")
    describe(t, version)
    describe(t, version, name, name, t.group("none"), "")
    if version >= 3:
        describe(t, version, name, "none", IncludeAuthorizedOperations=True)


@case("DescribeGroups", 7)
def a_version_of_describe_groups_that_nobody_has(t, version):
    t.raw("DescribeGroups", version, b"\0" * 20)


# ---- ListGroups


def mine(t, version, **asked):
    answer = t.quietly("ListGroups", version, **asked)
    answer["Groups"] = [g for g in answer["Groups"] if g["GroupId"].startswith(t.case + "-")]
    t.note("ListGroups", answer, version)


@case("ListGroups", 0, 1, 2, 3, 4, 5)
def groups_are_listed(t, version):
    settle_in(t, t.group("a"))
    enter(t, t.group("b"))
    other, _ = settle_in(t, t.group("c"), kind="connect")
    t.quietly("LeaveGroup", 1, GroupId=t.group("c"), MemberId=other)
    t.create("x")
    rows = [{"Name": t.topic("x"), "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 5}]}]
    t.quietly("OffsetCommit", 7, GroupId=t.group("d"), Topics=rows)
    t.quietly("JoinGroup", 4, **asked_to_join(t.group("e")))
    state_is(t, t.group("e"), "Empty")
    t.quietly("OffsetFetch", 5, GroupId=t.group("f"), Topics=None)
    mine(t, version)
    if version >= 4:
        for states in (["Stable"], ["stable"], ["STABLE", "empty"], ["CompletingRebalance"], ["completing_rebalance"], ["Dead"], ["Nonsense"],
                       [""], ["Empty", "Nonsense"], ["Assigning"], ["Unknown"], ["PreparingRebalance"], ["Reconciling"], ["NotReady"]):
            mine(t, version, StatesFilter=states)
    if version >= 5:
        for types in (["classic"], ["Classic"], ["consumer"], ["Consumer", "classic"], ["share"], ["streams"], ["Nonsense"], [""],
                      ["unknown"]):
            mine(t, version, TypesFilter=types)
        mine(t, version, TypesFilter=["classic"], StatesFilter=["Empty"])
        mine(t, version, TypesFilter=["consumer"], StatesFilter=["Empty"])


@case("ListGroups", 6)
def a_version_of_list_groups_that_nobody_has(t, version):
    t.raw("ListGroups", version, b"\0" * 20)


# ---- DeleteGroups


def delete(t, version, *groups):
    return t.call("DeleteGroups", version, GroupsNames=list(groups))


@case("DeleteGroups", 0, 1, 2)
def groups_go(t, version):
    full, empty, simple = t.group("a"), t.group("b"), t.group("c")
    settle_in(t, full)
    other, _ = settle_in(t, empty)
    t.quietly("LeaveGroup", 1, GroupId=empty, MemberId=other)
    t.create("x")
    rows = [{"Name": t.topic("x"), "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 5}]}]
    t.quietly("OffsetCommit", 7, GroupId=simple, Topics=rows)
    delete(t, version)
    delete(t, version, full)
    delete(t, version, "")
    delete(t, version, t.group("none"), full, empty, simple)
    delete(t, version, simple, empty)
    describe(t, 6, empty, simple)
    t.call("OffsetFetch", 5, GroupId=simple, Topics=None)


@case("DeleteGroups", 2)
def groups_go_twice(t, version):
    name = t.group()
    me, _ = settle_in(t, name)
    t.quietly("LeaveGroup", 1, GroupId=name, MemberId=me)
    delete(t, version, name, name, "none", "none", "")
    delete(t, version, name)
    describe(t, 6, name)


@case("DeleteGroups", 2)
def a_group_goes_and_comes_again(t, version):
    name = t.group()
    me, generation = settle_in(t, name)
    t.quietly("LeaveGroup", 1, GroupId=name, MemberId=me)
    delete(t, version, name)
    beat(t, 4, name, generation, me)
    join(t, 9, name, me)
    t.note("it begins anew", enter(t, name)[1])


@case("DeleteGroups", 2)
def a_group_that_waits_for_a_member_goes(t, version):
    name = t.group()
    me = join(t, 9, name)["MemberId"]
    delete(t, version, name)
    join(t, 9, name, me)


@case("DeleteGroups", 3)
def a_version_of_delete_groups_that_nobody_has(t, version):
    t.raw("DeleteGroups", version, b"\0" * 20)


@case("JoinGroup", 5, 9)
def many_protocols_of_one_member(t, version):
    for count in (64, 65):
        body = asked_to_join(t.group(f"g{count}"))
        body["Protocols"] = [{"Name": f"p{i}", "Metadata": b"m"} for i in range(count)]
        answer = t.quietly("JoinGroup", version, **body)
        if answer["ErrorCode"] == 79:
            answer = t.quietly("JoinGroup", version, **{**body, "MemberId": answer["MemberId"]})
        t.note(f"{count} protocols", (answer["ErrorCode"], answer["ProtocolName"]))
