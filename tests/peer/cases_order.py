# SPDX-License-Identifier: Apache-2.0
"""Requests of groups that are sent at once on one connection: each sees what those before it did."""

from cases_groups import asked_to_join, asked_to_sync, enter, join, state_is, sync, two_settled, until_waits
from cases_offsets import line
from diff import case

TURNS = 20  # whoever overtakes does not always


def commit_body(group, topic, offset, generation=-1, member=""):
    return {"GroupId": group, "GenerationIdOrMemberEpoch": generation, "MemberId": member,
            "Topics": [{"Name": topic, "Partitions": [line(0, offset)]}]}


def fetch_body(version, group, topic, is_stable=False):
    asked = {"GroupId": group, "Topics": [{"Name": topic, "PartitionIndexes": [0]}]}
    if version >= 9:
        asked.update(MemberId=None, MemberEpoch=-1)
    body = asked if version < 8 else {"Groups": [asked]}
    return {**body, "RequireStable": True} if is_stable else body


def a_commit(group, topic, offset, *who):
    return "OffsetCommit", 7, commit_body(group, topic, offset, *who)


def a_fetch(version, group, topic, is_stable=False):
    return "OffsetFetch", version, fetch_body(version, group, topic, is_stable)


@case("OffsetFetch", 1, 5, 7, 8, 9)
def a_fetch_right_behind_a_commit(t, version):
    name, topic = t.group(), t.topic("a")
    t.create("a")
    for turn in range(TURNS):
        t.together(a_commit(name, topic, turn), a_fetch(version, name, topic))
    t.together(a_commit(name, topic, 50), a_commit(name, topic, 60), a_commit(name, topic, 70), a_fetch(version, name, topic))


@case("OffsetFetch", 7, 8, 9)
def a_fetch_of_what_is_stable_right_behind_a_commit(t, version):
    name, topic = t.group(), t.topic("a")
    t.create("a")
    for turn in range(TURNS):
        t.together(a_commit(name, topic, turn), a_fetch(version, name, topic, True))


@case("OffsetFetch", 5, 9)
def a_fetch_behind_commits_of_other_groups(t, version):
    names, topic = [t.group(word) for word in "abcdef"], t.topic("a")
    t.create("a")
    for turn in range(5):
        t.together(*(a_commit(name, topic, turn) for name in names), *(a_fetch(version, name, topic) for name in reversed(names)))


def heartbeat(group, generation, member):
    return "Heartbeat", 4, {"GroupId": group, "GenerationId": generation, "MemberId": member}


@case("SyncGroup", 3, 5)
def what_a_member_does_behind_its_assignment(t, version):
    name, topic = t.group(), t.topic("a")
    t.create("a")
    for turn in range(5):
        me, generation = enter(t, name)
        given = asked_to_sync(name, generation, me, [(me, b"all")])
        t.together(("SyncGroup", version, given), heartbeat(name, generation, me), a_commit(name, topic, turn, generation, me),
                   a_fetch(5, name, topic), ("DescribeGroups", 6, {"Groups": [name]}))
        t.quietly("LeaveGroup", 1, GroupId=name, MemberId=me)


@case("JoinGroup", 4, 9)
def what_is_sent_behind_a_join_waits_with_it(t, version):
    name = t.group()
    (first, leader), (second, follower), generation = two_settled(t, name)
    second.tell("JoinGroup", version, **asked_to_join(name, follower, protocols=(("range", b"new"),)))
    second.tell("Heartbeat", 4, **heartbeat(name, generation, follower)[2])
    second.tell("Heartbeat", 4, **heartbeat(name, generation + 1, follower)[2])
    second.tell("DescribeGroups", 6, Groups=[name])
    second.tell("SyncGroup", 5, **asked_to_sync(name, generation + 1, follower))
    second.tell("Heartbeat", 4, **heartbeat(name, generation + 1, follower)[2])
    second.tell("DescribeGroups", 6, Groups=[name])
    state_is(t, name, "PreparingRebalance")
    until_waits(t)
    join(first, version, name, leader)
    second.hear("JoinGroup", version)
    second.hear("Heartbeat", 4)
    second.hear("Heartbeat", 4)
    second.hear("DescribeGroups", 6)
    until_waits(t)
    sync(first, 5, name, generation + 1, leader, [(leader, b"1"), (follower, b"2")])
    second.hear("SyncGroup", 5)
    second.hear("Heartbeat", 4)
    second.hear("DescribeGroups", 6)


def a_removal(group, topic):
    return "OffsetDelete", 0, {"GroupId": group, "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": 0}]}]}


@case("OffsetDelete", 0)
def offsets_are_deleted_right_behind_the_commit_that_made_the_group(t, _):
    topic = t.topic("a")
    t.create("a")
    for turn in range(5):
        name = t.group(str(turn))
        t.together(a_commit(name, topic, turn), a_removal(name, topic), a_fetch(5, name, topic), a_commit(name, topic, 7), a_fetch(5, name, topic))


@case("DeleteGroups", 2)
def a_group_is_deleted_right_behind_the_commit_that_made_it(t, version):
    topic = t.topic("a")
    t.create("a")
    for turn in range(5):
        name = t.group(str(turn))
        gone = "DeleteGroups", version, {"GroupsNames": [name]}
        t.together(a_commit(name, topic, turn), gone, ("DescribeGroups", 6, {"Groups": [name]}), gone, a_fetch(5, name, topic))


@case("LeaveGroup", 1, 5)
def what_is_sent_behind_a_leave_sees_that_the_member_is_gone(t, version):
    for turn in range(5):
        name = t.group(str(turn))
        me, generation = enter(t, name)
        sync(t, 5, name, generation, me, [(me, b"all")])
        left = {"GroupId": name, "MemberId": me} if version < 3 else {"GroupId": name, "Members": [{"MemberId": me, "GroupInstanceId": None}]}
        t.together(("LeaveGroup", version, left), heartbeat(name, generation, me), ("DescribeGroups", 6, {"Groups": [name]}),
                   ("LeaveGroup", version, left))
