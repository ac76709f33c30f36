# SPDX-License-Identifier: Apache-2.0
"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete."""

import struct

from cases_groups import NOBODY, asked_to_join, enter, settle_in, start_join, state_is
from cases_records import UNKNOWN_ID, ZERO_ID
from diff import case


def line(index, offset, words=None, epoch=-1):
    return {"PartitionIndex": index, "CommittedOffset": offset, "CommittedMetadata": words, "CommittedLeaderEpoch": epoch}


def commit(t, version, group, topics, generation=-1, member="", instance=None, **more):
    """topics: (name or id, [line])"""
    rows = [{("TopicId" if version >= 10 else "Name"): name, "Partitions": lines} for name, lines in topics]
    return t.call("OffsetCommit", version, GroupId=group, GenerationIdOrMemberEpoch=generation, MemberId=member, GroupInstanceId=instance,
                  Topics=rows, **more)


def fetched(t, version, group, topics, member=None, epoch=-1, **more):
    """topics: (name or id, [partition]), or None"""
    word = "TopicId" if version >= 10 else "Name"
    rows = None if topics is None else [{word: name, "PartitionIndexes": list(p)} for name, p in topics]
    if version < 8:
        return t.call("OffsetFetch", version, GroupId=group, Topics=rows, **more)
    asked = {"GroupId": group, "Topics": rows}
    if version >= 9:
        asked.update(MemberId=member, MemberEpoch=epoch)
    return t.call("OffsetFetch", version, Groups=[asked], **more)


def remove(t, group, *topics):
    rows = [{"Name": n, "Partitions": [{"PartitionIndex": i} for i in p]} for n, p in topics]
    return t.call("OffsetDelete", 0, GroupId=group, Topics=rows)


# ---- in one send


@case("OffsetFetch", 1, 5, 7)
def a_fetch_sees_what_was_committed_right_before_it(t, version):
    t.create("a")
    name = t.group()
    for offset in range(3):
        asked = {"GroupId": name, "Topics": [{"Name": t.topic("a"), "PartitionIndexes": [0]}]}
        rows = [{"Name": t.topic("a"), "Partitions": [line(0, offset)]}]
        t.together(("OffsetCommit", 7, {"GroupId": name, "GenerationIdOrMemberEpoch": -1, "Topics": rows}), ("OffsetFetch", version, asked))


# ---- OffsetCommit


@case("OffsetCommit", 2, 3, 4, 5, 6, 7, 8, 9, 10)
def offsets_without_a_group(t, version):
    name = t.group()
    topic_id = t.create("a", 2)
    topic = topic_id if version >= 10 else t.topic("a")
    commit(t, version, name, [(topic, [line(0, 5, "words", 3), line(1, 7)])])
    fetched(t, 5, name, [(t.topic("a"), [0, 1, 2])])
    commit(t, version, name, [(topic, [line(0, 2), line(1, -1, "", 0)])])
    fetched(t, 5, name, [(t.topic("a"), [0, 1])])
    commit(t, version, name, [(topic, [line(0, 1 << 62), line(0, 3), line(1, -(1 << 63))])])
    fetched(t, 5, name, [(t.topic("a"), [0, 1])])
    fetched(t, 5, name, None)


@case("OffsetCommit", 2, 7, 9, 10)
def offsets_of_what_is_not_there(t, version):
    name = t.group()
    topic_id = t.create("a", 1)
    if version >= 10:
        topics = [(UNKNOWN_ID, [line(0, 1)]), (topic_id, [line(0, 1), line(1, 1), line(-1, 1)]), (ZERO_ID, [line(0, 1)])]
    else:
        topics = [(t.topic("none"), [line(0, 1)]), (t.topic("a"), [line(0, 1), line(1, 1), line(-1, 1)]), ("", [line(0, 1)]), ("a b", [line(0, 1)])]
    for topic in topics:
        commit(t, version, name, [topic])
    commit(t, version, name, topics)
    commit(t, version, name, [])
    commit(t, version, name, [(topics[1][0], [])])
    commit(t, version, t.group("other"), topics[:1])
    t.call("DescribeGroups", 6, Groups=[t.group("other")])
    fetched(t, 5, name, None)


@case("OffsetCommit", 2, 7, 8, 9, 10)
def a_commit_of_a_member(t, version):
    name = t.group()
    topic_id = t.create("a", 1)
    rows = [(topic_id if version >= 10 else t.topic("a"), [line(0, 5)])]
    commit(t, version, name, rows, generation=0)
    commit(t, version, name, rows, generation=3, member="x")
    commit(t, version, "", rows, generation=3, member="x")
    commit(t, version, "", rows)
    me, generation = enter(t, name)
    commit(t, version, name, rows, generation, me)
    t.quietly("SyncGroup", 4, GroupId=name, GenerationId=generation, MemberId=me, Assignments=[{"MemberId": me, "Assignment": b"1"}])
    for member, epoch in ((me, generation), (me, generation + 1), (me, generation - 1), (me, -1), (NOBODY, generation), (NOBODY, -1), ("", -1),
                          ("", generation), (NOBODY, generation + 1), (me, -2)):
        commit(t, version, name, rows, epoch, member)
        if version >= 7:
            commit(t, version, name, rows, epoch, member, instance="i")
    fetched(t, 5, name, None)
    t.quietly("LeaveGroup", 1, GroupId=name, MemberId=me)
    for member, epoch in ((me, generation), (me, -1), (NOBODY, -1), ("", -1), ("", generation), ("", generation + 1), ("", 0)):
        commit(t, version, name, rows, epoch, member)
    commit(t, version, name, [(rows[0][0], [line(0, 1), line(7, 1)])], generation, "x")


@case("OffsetCommit", 7, 10)
def a_commit_of_an_instance(t, version):
    name = t.group()
    topic_id = t.create("a", 1)
    rows = [(topic_id if version >= 10 else t.topic("a"), [line(0, 5)])]
    me, generation = settle_in(t, name, instance="i")
    for member, instance in ((me, "i"), (me, None), (me, "j"), (NOBODY, "i"), ("", "i"), ("", "j")):
        commit(t, version, name, rows, generation, member, instance)
        commit(t, version, name, rows, -1, member, instance)


@case("OffsetCommit", 4, 9)
def a_commit_while_others_join(t, version):
    name = t.group()
    t.create("a", 1)
    first, second = t.friend("first"), t.friend("second")
    me, generation = settle_in(first, name)
    other = second.quietly("JoinGroup", 7, **asked_to_join(name))["MemberId"]
    commit(t, version, name, [(t.topic("a"), [line(0, 5)])], generation, other)
    commit(t, version, name, [(t.topic("a"), [line(0, 5)])], -1, other)
    start_join(second, 7, name, other)
    state_is(t, name, "PreparingRebalance")
    commit(t, version, name, [(t.topic("a"), [line(0, 5)])], generation, me)
    commit(t, version, name, [(t.topic("a"), [line(0, 6)])], generation, other)
    commit(t, version, name, [(t.topic("a"), [line(0, 6)])], -1, "")
    fetched(t, 5, name, None)


@case("OffsetCommit", 2, 9)
def words_of_an_offset_that_are_long(t, version):
    name = t.group()
    t.create("a", 1)
    a = t.topic("a")
    for words in ("x" * 4096, "x" * 4097, "é" * 2048, "é" * 2049, "é" * 4096, "é" * 4097, "😀" * 2048, "😀" * 2049, "", None):
        commit(t, version, name, [(a, [line(0, 5, words)])])
        fetched(t, 5, name, [(a, [0])])
    commit(t, version, name, [(a, [line(0, 5, "x" * 4097), line(7, 5, "x" * 4097)])], 5, "x")


@case("OffsetCommit", 2, 4)
def a_retention_in_the_commit(t, version):
    name = t.group()
    t.create("a", 1)
    for retention_ms in (-1, 1000000, 0, -2, (1 << 63) - 1):
        commit(t, version, name, [(t.topic("a"), [line(0, 5)])], RetentionTimeMs=retention_ms)
        fetched(t, 5, name, [(t.topic("a"), [0])])


@case("OffsetCommit", 8, 9, 10)
def one_topic_of_a_commit_twice(t, version):
    name = t.group()
    topic_id = t.create("a", 2)
    topic = topic_id if version >= 10 else t.topic("a")
    commit(t, version, name, [(topic, [line(0, 5)]), (topic, [line(0, 6)])])
    fetched(t, 5, name, None)
    commit(t, version, name, [(topic, [line(0, 5), line(0, 6)]), (topic, [line(1, 7), line(0, 8)])])
    missing = UNKNOWN_ID if version >= 10 else t.topic("none")
    commit(t, version, name, [(missing, [line(0, 5), line(0, 6)]), (topic, [line(1, 9)]), (missing, [line(1, 7)])])
    fetched(t, 5, name, None)


@case("OffsetCommit", 8, 10)
def offsets_of_a_topic_that_goes_and_comes(t, version):
    name = t.group()
    old = t.create("a", 1)
    commit(t, version, name, [(old if version >= 10 else t.topic("a"), [line(0, 5)])])
    t.delete("a")
    commit(t, version, name, [(old if version >= 10 else t.topic("a"), [line(0, 6)])])
    new = t.create("a", 1)
    commit(t, 10, name, [(old, [line(0, 6)])])
    commit(t, 10, name, [(new, [line(0, 7)])])
    fetched(t, 5, name, [(t.topic("a"), [0])])


@case("OffsetCommit", 1, 11)
def a_version_of_offset_commit_that_nobody_has(t, version):
    t.raw("OffsetCommit", version, b"\0" * 20)


# ---- OffsetFetch


@case("OffsetFetch", 1, 2, 3, 5, 6, 7, 8, 9, 10)
def offsets_are_fetched(t, version):
    name = t.group()
    topic_id = t.create("a", 3)
    by = (lambda n: topic_id if n == t.topic("a") else UNKNOWN_ID) if version >= 10 else (lambda n: n)  # noqa: E731
    commit(t, 9, name, [(t.topic("a"), [line(0, 5, "words", 3), line(2, 7)])])
    fetched(t, version, name, [(by(t.topic("a")), [0, 1, 2, 3, -1])])
    fetched(t, version, name, [(by(t.topic("none")), [0])])
    fetched(t, version, name, [])
    fetched(t, version, name, [(by(t.topic("a")), [])])
    fetched(t, version, name, [(by(t.topic("a")), [0, 0]), (by(t.topic("a")), [0, 2])])
    if version >= 2:
        fetched(t, version, name, None)
    if version >= 7:
        fetched(t, version, name, [(by(t.topic("a")), [0])], RequireStable=True)
        fetched(t, version, name, None, RequireStable=True)


@case("OffsetFetch", 1, 2, 5, 7, 8, 9, 10)
def offsets_of_groups_that_are_not_there(t, version):
    topic_id = t.create("a", 1)
    name = t.group()
    rows = [(topic_id if version >= 10 else t.topic("a"), [0, 1])]
    for group in (name, ""):
        fetched(t, version, group, rows)
        fetched(t, version, group, [])
    if version >= 2:
        fetched(t, version, name, None)


@case("OffsetFetch", 8, 9, 10)
def offsets_of_several_groups(t, version):
    names = [t.group(word) for word in "abc"]
    topic_id = t.create("a", 1)
    for name in names[:2]:
        commit(t, 9, name, [(t.topic("a"), [line(0, 5)])])
    word = {"TopicId": topic_id} if version >= 10 else {"Name": t.topic("a")}
    asked = [{"GroupId": n, "Topics": topics} for n, topics in
             ((names[0], None), (names[1], [{**word, "PartitionIndexes": [0]}]), (names[2], None), ("", []), (names[0], []))]
    t.call("OffsetFetch", version, Groups=asked)
    t.call("OffsetFetch", version, Groups=asked[:1] * 2)
    t.call("OffsetFetch", version, Groups=[])


@case("OffsetFetch", 9, 10)
def offsets_asked_by_members(t, version):
    name = t.group()
    topic_id = t.create("a", 1)
    rows = [(topic_id if version >= 10 else t.topic("a"), [0])]
    me, generation = settle_in(t, name)
    commit(t, 9, name, [(t.topic("a"), [line(0, 5)])], generation, me)
    for member, epoch in ((me, generation), (me, generation + 1), (NOBODY, 0), (None, -1), ("", -1), ("", 4), (None, 3), (me, -1)):
        fetched(t, version, name, rows, member, epoch)
        fetched(t, version, name, None, member, epoch)


@case("OffsetFetch", 10)
def offsets_of_ids_that_are_odd(t, version):
    name = t.group()
    topic_id = t.create("a", 1)
    commit(t, version, name, [(topic_id, [line(0, 5)])])
    fetched(t, version, name, [(UNKNOWN_ID, [0, 1]), (topic_id, [0]), (ZERO_ID, [0]), (UNKNOWN_ID, [0])])
    t.delete("a")
    fetched(t, version, name, [(topic_id, [0])])
    t.create("a", 1)
    fetched(t, version, name, [(topic_id, [0])])


@case("OffsetFetch", 0, 11)
def a_version_of_offset_fetch_that_nobody_has(t, version):
    t.raw("OffsetFetch", version, b"\0" * 20)


# ---- OffsetDelete


def subscription(*topics):
    out = struct.pack(">hi", 0, len(topics))
    for topic in topics:
        out += struct.pack(">h", len(topic)) + topic.encode()
    return out + struct.pack(">i", -1)


@case("OffsetDelete", 0)
def offsets_go(t, _):
    name = t.group()
    t.create("a", 2)
    a = t.topic("a")
    remove(t, "", (a, [0]))
    remove(t, name, (a, [0]))
    remove(t, name)
    commit(t, 8, name, [(a, [line(0, 5), line(1, 6)])])
    remove(t, name)
    remove(t, name, (a, []))
    remove(t, name, (a, [0, 7, -1]), (t.topic("none"), [0]), ("", [0]))
    fetched(t, 5, name, None)
    remove(t, name, (a, [0]))
    remove(t, name, (a, [1]), (t.topic("none"), [0, 1]))
    fetched(t, 5, name, None)
    t.call("DescribeGroups", 6, Groups=[name])


@case("OffsetDelete", 0)
def offsets_that_a_member_reads_stay(t, _):
    name = t.group()
    t.create("a", 1)
    t.create("b", 1)
    a, b = t.topic("a"), t.topic("b")
    commit(t, 8, name, [(a, [line(0, 5)]), (b, [line(0, 6)])])
    settle_in(t, name, protocols=(("range", subscription(a)),))
    remove(t, name, (a, [0, 3]), (b, [0]), (t.topic("none"), [0]))
    fetched(t, 5, name, None)


@case("OffsetDelete", 0)
def offsets_of_a_group_whose_words_can_not_be_read(t, _):
    name = t.group()
    t.create("a", 1)
    commit(t, 8, name, [(t.topic("a"), [line(0, 5)])])
    settle_in(t, name)
    remove(t, name, (t.topic("a"), [0]))
    fetched(t, 5, name, None)


@case("OffsetDelete", 0)
def offsets_of_a_group_of_another_protocol(t, _):
    name = t.group()
    t.create("a", 1)
    commit(t, 8, name, [(t.topic("a"), [line(0, 5)])])
    settle_in(t, name, kind="connect")
    remove(t, name, (t.topic("a"), [0]))
    remove(t, name)
    fetched(t, 5, name, None)


@case("OffsetDelete", 0)
def offsets_of_a_group_that_joins(t, _):
    name = t.group()
    t.create("a", 1)
    a = t.topic("a")
    commit(t, 8, name, [(a, [line(0, 5)])])
    enter(t, name, protocols=(("range", subscription(a)),))
    remove(t, name, (a, [0]))
    other = t.group("h")
    commit(t, 8, other, [(a, [line(0, 5)])])
    t.quietly("JoinGroup", 7, **asked_to_join(other, protocols=(("range", subscription(a)),)))
    remove(t, other, (a, [0]))
    fetched(t, 5, other, None)


@case("OffsetDelete", 0)
def one_topic_of_a_delete_twice(t, _):
    name = t.group()
    t.create("a", 2)
    a = t.topic("a")
    commit(t, 8, name, [(a, [line(0, 5), line(1, 6)])])
    remove(t, name, (a, [0, 0]), (a, [1, 0]), (t.topic("none"), [0, 0]))
    fetched(t, 5, name, None)


@case("OffsetDelete", 1)
def a_version_of_offset_delete_that_nobody_has(t, version):
    t.raw("OffsetDelete", version, b"\0" * 20)
