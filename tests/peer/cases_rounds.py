# SPDX-License-Identifier: Apache-2.0
"""The first round of a group: who comes while it is waited for, and who gives it up before it is over; and ids that are long."""

from cases_groups import BOTH, NOBODY, OTHER, beat, describe, join, leave, settle_in, start_join, state_is, sync
from cases_offsets import commit, fetched, line, remove
from diff import case

# ---- first rounds that are given up

SLOW = {"group.initial.rebalance.delay.ms": 1500}  # time for what is to come before it is over


def a_round_begins(t, version, name, **asked):
    """Somebody waits for the first round: (its talk, its id)."""
    one = t.friend("one")
    me = join(one, 4, name, **asked)["MemberId"]
    start_join(one, version, name, me, **asked)
    state_is(t, name, "PreparingRebalance")
    return one, me


@case("JoinGroup", 9, settings=SLOW)
def a_first_round_with_nobody_left(t, version):
    name = t.group("left")
    one, me = a_round_begins(t, version, name)
    describe(t, 6, name)
    leave(t, 3, name, (me, None))
    one.hear("JoinGroup", version)
    describe(t, 6, name)
    state_is(t, name, "Empty" if t.is_kafka else "Dead")


@case("JoinGroup", 9, settings=SLOW)
def who_comes_into_a_first_round_with_nobody_left(t, version):
    t.create("a")
    for word, asked in (("same", {}), ("other", {"protocols": OTHER}), ("committed", {})):
        name = t.group(word)
        if word == "committed":
            commit(t, 7, name, [(t.topic("a"), [line(0, 5)])])
        one, me = a_round_begins(t, version, name)
        leave(t, 3, name, (me, None))
        one.hear("JoinGroup", version)
        two = t.friend("two")
        other = join(two, version, name, **asked)["MemberId"]
        answer = join(two, version, name, other, **asked)
        describe(t, 6, name)
        sync(two, 5, name, answer["GenerationId"], other, [(other, b"all")],
             name="other" if "protocols" in asked else "range")
        describe(t, 6, name)


@case("JoinGroup", 9, settings=SLOW)
def a_pending_member_gives_up_a_first_round(t, version):
    name = t.group()
    t.create("a")
    commit(t, 7, name, [(t.topic("a"), [line(0, 5)])])
    me = join(t, version, name)["MemberId"]
    leave(t, 3, name, (me, None))
    describe(t, 6, name)
    me = join(t, version, name)["MemberId"]
    join(t, version, name, me)
    describe(t, 6, name)
    fetched(t, 5, name, None)


@case("JoinGroup", 9, settings=SLOW)
def commits_and_deletes_in_a_first_round_with_nobody_left(t, version):
    name = t.group("left")
    t.create("a")
    commit(t, 7, name, [(t.topic("a"), [line(0, 5)])])
    one, me = a_round_begins(t, version, name)
    commit(t, 7, name, [(t.topic("a"), [line(0, 6)])])
    t.call("DeleteGroups", 2, GroupsNames=[name])
    leave(t, 3, name, (me, None))
    one.hear("JoinGroup", version)
    beat(t, 4, name, 0, me)
    commit(t, 7, name, [(t.topic("a"), [line(0, 7)])])
    state_is(t, name, "Empty")
    describe(t, 6, name)
    fetched(t, 5, name, None)


@case("OffsetDelete", 0, settings=SLOW)
def offsets_are_deleted_in_a_first_round(t, version):
    t.create("a")
    for word in ("simple", "consumers"):
        name = t.group(word)
        if word == "consumers":
            me, generation = settle_in(t, name)
            commit(t, 7, name, [(t.topic("a"), [line(0, 5)])], generation, me)
            leave(t, 3, name, (me, None))
        else:
            commit(t, 7, name, [(t.topic("a"), [line(0, 5)])])
        one, me = a_round_begins(t, 9, name)
        remove(t, name, (t.topic("a"), [0]))
        fetched(t, 5, name, None)
        one.hear("JoinGroup", 9)


@case("JoinGroup", 9, settings=SLOW)
def a_static_leader_comes_back_while_its_group_joins(t, version):
    name = t.group()
    first, second = t.friend("first"), t.friend("second")
    start_join(first, version, name, instance="a")
    state_is(t, name, "PreparingRebalance")
    start_join(second, version, name, instance="b")
    first.hear("JoinGroup", version)
    other = second.hear("JoinGroup", version)["MemberId"]
    start_join(second, version, name, other, instance="b", protocols=BOTH)
    state_is(t, name, "PreparingRebalance")
    again = t.friend("again")
    start_join(again, version, name, instance="a")
    again.hear("JoinGroup", version)
    second.hear("JoinGroup", version)


@case("JoinGroup", 9, settings=SLOW)
def a_connection_that_goes_while_its_first_round_is_waited_for(t, version):
    name = t.group()
    one, me = a_round_begins(t, version, name, protocols=BOTH, session_ms=1000)
    one.close()
    two = t.friend("two")
    other = join(two, version, name)["MemberId"]
    answer = join(two, version, name, other)
    t.note("who leads", answer["Leader"] == me)
    describe(t, 6, name)
    beat(two, 4, name, answer["GenerationId"], other)


@case("JoinGroup", 9, settings=SLOW)
def who_comes_during_a_first_round(t, version):
    name = t.group()
    one, me = a_round_begins(t, version, name, protocols=BOTH)
    two = t.friend("two")
    other = join(two, version, name)["MemberId"]
    start_join(two, version, name, other)
    join(t, version, name, protocols=(("none", b"x"),))
    join(t, version, name, kind="connect")
    generation = one.hear("JoinGroup", version)["GenerationId"]
    two.hear("JoinGroup", version)
    sync(one, 5, name, generation, me, [(me, b"1"), (other, b"2")])
    describe(t, 6, name)


@case("JoinGroup", 9, settings=SLOW)
def a_static_member_leaves_a_first_round(t, version):
    name = t.group()
    one = t.friend("one")
    start_join(one, version, name, instance="i")
    state_is(t, name, "PreparingRebalance")
    leave(t, 3, name, ("", "i"))
    one.hear("JoinGroup", version)
    join(t, version, name, instance="i")
    describe(t, 6, name)


# ---- long ids

LENGTHS = (249, 250, 251, 300, 1000, 30000)


@case("JoinGroup", 3, 5, 9)
def groups_with_long_ids(t, version):
    for length in LENGTHS:
        name = t.group("g" * (length - len(t.topic(""))))
        answer = join(t, version, name)
        if answer["ErrorCode"] == 79:
            answer = join(t, version, name, answer["MemberId"])
        me, generation = answer["MemberId"], answer["GenerationId"]
        sync(t, 5, name, generation, me, [(me, b"all")])
        beat(t, 4, name, generation, me)
        describe(t, 6, name)
        listed = t.quietly("ListGroups", 4)["Groups"]
        t.note("listed", sum(1 for row in listed if row["GroupId"] == name))
        leave(t, 3, name, (me, None))
        t.call("DeleteGroups", 2, GroupsNames=[name])
        describe(t, 5, name)


@case("OffsetCommit", 2, 7, 9)
def offsets_of_groups_with_long_ids(t, version):
    t.create("a")
    for length in LENGTHS:
        name = t.group("g" * (length - len(t.topic(""))))
        commit(t, version, name, [(t.topic("a"), [line(0, length)])])
        fetched(t, 7, name, [(t.topic("a"), [0])])
        fetched(t, 9, name, None)
        t.call("FindCoordinator", 4, CoordinatorKeys=[name])
        t.call("OffsetDelete", 0, GroupId=name, Topics=[{"Name": t.topic("a"), "Partitions": [{"PartitionIndex": 0}]}])


@case("JoinGroup", 3, 9)
def members_with_long_ids(t, version):
    name = t.group()
    for length in LENGTHS:
        word = "m" * length
        join(t, version, name, word)
        beat(t, 4, name, 1, word)
        sync(t, 5, name, 1, word)
        leave(t, 3, name, (word, None))
        if version >= 5:
            join(t, version, name, word, instance="i")
    commit(t, 7, name, [], generation=1, member="m" * 300)


@case("JoinGroup", 5, 9)
def clients_with_long_ids(t, version):
    for length in LENGTHS:
        one = t.friend("c" * length)
        name = t.group(f"g{length}")
        answer = join(one, version, name)
        if answer["ErrorCode"] == 79:
            answer = join(one, version, name, answer["MemberId"])
        sync(one, 5, name, answer["GenerationId"], answer["MemberId"], [(answer["MemberId"], b"all")])
        beat(one, 4, name, answer["GenerationId"], answer["MemberId"])
        describe(t, 6, name)


@case("JoinGroup", 5, 9)
def kinds_and_protocols_with_long_names(t, version):
    for length in LENGTHS[2:]:
        name = t.group(f"g{length}")
        asked = {"kind": "k" * length, "protocols": (("p" * length, b"x"),)}
        answer = join(t, version, name, **asked)
        if answer["ErrorCode"] == 79:
            answer = join(t, version, name, answer["MemberId"], **asked)
        sync(t, 5, name, answer["GenerationId"], answer["MemberId"], [(answer["MemberId"], b"all")], kind="k" * length, name="p" * length)
        describe(t, 6, name)


@case("Heartbeat", 3, 4)
def instances_with_long_ids(t, version):
    name = t.group()
    me, generation = settle_in(t, name, instance="i")
    for length in LENGTHS:
        beat(t, version, name, generation, me, "i" * length)
        leave(t, 3, name, ("", "i" * length))
        leave(t, 5, name, (NOBODY, "i" * length))
