# SPDX-License-Identifier: Apache-2.0
"""Fetch sessions (KIP-227): what they follow, what they leave out, and how they end."""

import time

from cases_records import UNKNOWN_ID, ZERO_ID, produce, records
from diff import case

NAMES, IDS = 12, 17  # a version that follows by name, and one that follows by id


class Session:
    """A client's side of one session, in one version."""

    def __init__(self, t, version, session=0, epoch=0):
        self.t, self.version, self.session, self.epoch = t, version, session, epoch

    def where(self, topic):
        """topic: (name, id)"""
        return {"TopicId": topic[1]} if self.version >= 13 else {"Topic": topic[0]}

    def body(self, rows, forgotten, session, epoch, wait_ms, min_bytes, max_bytes, part_bytes, **more):
        """rows: [(topic, partition, offset)]; forgotten: [(topic, partition)]"""
        topics = [{**self.where(topic), "Partitions": [{"Partition": p, "FetchOffset": o, "PartitionMaxBytes": part_bytes, **more}]} for topic, p, o in rows]
        gone = [{**self.where(topic), "Partitions": [p]} for topic, p in forgotten]
        body = {"MaxWaitMs": wait_ms, "MinBytes": min_bytes, "MaxBytes": max_bytes, "Topics": topics}
        if self.version >= 7:
            body.update({"SessionId": session, "SessionEpoch": epoch, "ForgottenTopicsData": gone})
        return body

    def ask(self, *rows, forgotten=(), session=None, epoch=None, wait_ms=0, min_bytes=0, max_bytes=1 << 26, part_bytes=1 << 20, **more):
        """One fetch; what it says of the session is kept."""
        at_session = self.session if session is None else session
        at_epoch = self.epoch if epoch is None else epoch
        answer = self.t.call("Fetch", self.version, **self.body(rows, forgotten, at_session, at_epoch, wait_ms, min_bytes, max_bytes, part_bytes, **more))
        if answer != "closed" and answer.get("ErrorCode") == 0 and session is None and epoch is None:
            self.session = answer["SessionId"]
            self.epoch += 1
        return answer


def given(t, word, partitions=1, configs=None):
    return t.topic(word), t.create(word, partitions, configs)


def order_of(t, answer):
    """[topic-partition] as they stand in the answer."""
    out = []
    for topic in answer["Responses"]:
        name = topic.get("Topic") or t.ids.get(topic.get("TopicId"), "?")
        out += [f"{name.split('-')[-1]}/{p['PartitionIndex']}" for p in topic["Partitions"]]
    return out


@case("Fetch", 7, 11, 12, 13, 15, 18)
def a_session_leaves_out_what_has_not_changed(t, version):
    a = given(t, "a", 2)
    s = Session(t, version)
    t.fill("a", records("one"))
    s.ask((a, 0, 0), (a, 1, 0))
    s.ask()
    s.ask((a, 0, 1))
    s.ask()
    t.fill("a", records("two", "three"))
    s.ask()
    s.ask((a, 0, 3))
    t.fill("a", records("four"), partition=1)
    s.ask()
    s.ask()


@case("Fetch", NAMES, IDS)
def epochs_must_follow_each_other(t, version):
    a = given(t, "a")
    s = Session(t, version)
    s.ask((a, 0, 0))
    s.ask(session=s.session, epoch=2)
    s.ask(session=s.session, epoch=3)
    s.ask(session=s.session, epoch=-2)
    s.ask(session=s.session, epoch=2147483647)
    s.ask()
    s.ask(session=s.session, epoch=1)  # again the one before
    s.ask()


@case("Fetch", NAMES, IDS)
def sessions_that_nobody_knows(t, version):
    a = given(t, "a")
    s = Session(t, version)
    for epoch in (1, 7, -2, -2147483648):
        s.ask((a, 0, 0), session=0, epoch=epoch)
        s.ask((a, 0, 0), session=12345, epoch=epoch)
    s.ask((a, 0, 0), session=-5, epoch=1)
    s.ask((a, 0, 0), session=12345, epoch=0)  # closes what is not there, and opens one
    s.ask((a, 0, 0), session=12345, epoch=-1)


@case("Fetch", NAMES, IDS)
def a_full_fetch_ends_the_session_that_it_names(t, version):
    a = given(t, "a", 2)
    first = Session(t, version)
    first.ask((a, 0, 0))
    old = first.session
    second = Session(t, version)
    second.ask((a, 1, 0), session=old, epoch=0)
    first.ask()
    third = Session(t, version)
    third.ask((a, 0, 0))
    third.ask(session=third.session, epoch=-1)
    third.ask()


@case("Fetch", NAMES, IDS)
def partitions_come_and_go(t, version):
    a, b = given(t, "a", 3), given(t, "b", 1)
    for p in range(3):
        t.fill("a", records(f"a{p}"), partition=p)
    t.fill("b", records("b"))
    s = Session(t, version)
    s.ask((a, 0, 0), (a, 1, 0))
    s.ask((b, 0, 0), (a, 0, 1), (a, 1, 1))
    s.ask((b, 0, 1), forgotten=[(a, 0)])
    t.fill("a", records("more"))
    t.fill("a", records("more"), partition=1)
    s.ask()
    s.ask((a, 2, 0), (a, 1, 2), forgotten=[(a, 1), (b, 0)])  # forgotten in the same breath as asked for
    t.fill("a", records("yet more"), partition=1)
    s.ask()
    s.ask(forgotten=[(a, 7), (b, 0), (a, 1)])  # none of them is followed


@case("Fetch", NAMES, IDS)
def a_session_that_forgets_everything_is_over(t, version):
    a = given(t, "a", 2)
    t.fill("a", records("one"))
    s = Session(t, version)
    s.ask((a, 0, 0), (a, 1, 0))
    session = s.session
    s.ask(forgotten=[(a, 0), (a, 1)])
    s.ask(session=session, epoch=2)
    s.ask(session=session, epoch=3)
    s = Session(t, version)
    s.ask((a, 1, 0))
    s.ask((a, 0, 0), forgotten=[(a, 0), (a, 1)])  # it is asked for, and then forgotten: it is answered without a session


@case("Fetch", NAMES, IDS)
def a_session_of_nothing(t, version):
    a = given(t, "a")
    t.fill("a", records("one"))
    s = Session(t, version)
    s.ask()
    s.ask()
    s = Session(t, version)
    s.ask()
    s.ask((a, 0, 0))
    s.ask()


@case("Fetch", NAMES, IDS)
def errors_are_told_again_and_again_and_so_is_their_end(t, version):
    a = given(t, "a", 2)
    t.fill("a", records("one"))
    s = Session(t, version)
    s.ask((a, 0, 77), (a, 1, 0))
    s.ask()
    s.ask((a, 0, 1))
    s.ask()
    s.ask((a, 0, -5))
    s.ask((a, 0, 1))
    s.ask()
    s.ask((a, 1, 0), CurrentLeaderEpoch=99)
    s.ask()
    s.ask((a, 1, 0))
    s.ask()


@case("Fetch", NAMES, IDS)
def a_log_start_that_moves_is_told(t, version):
    a = given(t, "a")
    t.fill("a", records("one"), records("two"), records("three"))
    s = Session(t, version)
    s.ask((a, 0, 3))
    s.ask()
    t.quietly("DeleteRecords", 2, Topics=[{"Name": a[0], "Partitions": [{"PartitionIndex": 0, "Offset": 2}]}], TimeoutMs=10000)
    s.ask()
    s.ask()
    s.ask((a, 0, 1))  # that is before the start now
    s.ask()


@case("Fetch", NAMES)
def topics_that_are_not_there_by_name(t, version):
    a = given(t, "a")
    none = (t.topic("none"), ZERO_ID)
    s = Session(t, version)
    s.ask((a, 0, 0), (none, 0, 0), (a, 9, 0))
    s.ask()
    t.fill("a", records("one"))
    s.ask()
    t.create("none")
    s.ask((a, 0, 1))
    s.ask()
    s.ask((("a b", ZERO_ID), 0, 0), (("", ZERO_ID), 0, 0), (("x" * 300, ZERO_ID), 0, 0))
    s.ask()


@case("Fetch", IDS)
def topics_that_are_not_there_by_id(t, version):
    a = given(t, "a")
    s = Session(t, version)
    s.ask((a, 0, 0), (("", UNKNOWN_ID), 0, 0), (("", UNKNOWN_ID), 3, 0), (a, 9, 0))
    s.ask()
    t.fill("a", records("one"))
    s.ask()
    s.ask((a, 0, 1), forgotten=[(("", UNKNOWN_ID), 0), (("", UNKNOWN_ID), 1), (a, 9)])
    s.ask()


@case("Fetch", NAMES, IDS)
def a_topic_made_anew_under_a_session(t, version):
    old, b = given(t, "a"), given(t, "b")
    t.fill("a", records("one"))
    s = Session(t, version)
    s.ask((old, 0, 0), (b, 0, 0))
    s.ask((old, 0, 1))
    t.delete("a")
    s.ask()
    s.ask()
    new = given(t, "a")
    s.ask()
    s.ask()
    t.fill("a", records("two"))
    s.ask((new, 0, 0), forgotten=[(old, 0)] if version >= 13 else [])
    s.ask((new, 0, 1))
    s.ask()


@case("Fetch", IDS)
def a_full_fetch_by_an_id_that_is_gone(t, version):
    old = given(t, "a")
    t.delete("a")
    new = given(t, "a")
    s = Session(t, version)
    s.ask((old, 0, 0), (new, 0, 0))
    s.ask()
    s.ask(forgotten=[(old, 0)])


@case("Fetch", NAMES, IDS)
def a_session_by_name_is_none_by_id(t, version):
    a = given(t, "a")
    s = Session(t, version)
    s.ask((a, 0, 0))
    other = Session(t, IDS if version == NAMES else NAMES, s.session, s.epoch)
    other.ask()
    other.ask((a, 0, 0))
    s.ask()
    near = Session(t, version - 1, s.session, s.epoch)  # another version that names topics in the same way
    near.ask()


@case("Fetch", NAMES, IDS)
def one_partition_twice_in_one_fetch(t, version):
    a, b = given(t, "a", 2), given(t, "b")
    t.fill("a", records("one"), records("two"), records("three"))
    t.fill("b", records("b"))
    s = Session(t, version)
    answer = s.ask((a, 0, 0), (b, 0, 0), (a, 0, 2))
    t.note("order", order_of(t, answer))
    answer = s.ask((a, 0, 1), (a, 1, 0), (a, 0, 3))
    t.note("order", order_of(t, answer))
    none = (t.topic("none"), UNKNOWN_ID)
    s = Session(t, version)
    t.note("order", order_of(t, s.ask((none, 0, 0), (a, 0, 0), (none, 0, 5), epoch=-1)))
    rows = [{"Partition": 0, "FetchOffset": o, "PartitionMaxBytes": 1 << 20} for o in (0, 1)]
    t.call("Fetch", version, MaxWaitMs=0, MinBytes=0, Topics=[{**s.where(a), "Partitions": rows}, {**s.where(b), "Partitions": rows}, {**s.where(a), "Partitions": rows[:1]}])


@case("Fetch", NAMES, IDS)
def who_had_records_goes_to_the_end(t, version):
    a, b = given(t, "a", 3), given(t, "b", 2)
    s = Session(t, version)
    for p in range(3):
        t.fill("a", records(f"a{p}" + "x" * 500), records(f"A{p}" + "x" * 500), partition=p)
    for p in range(2):
        t.fill("b", records(f"b{p}" + "x" * 500), partition=p)
    t.note("order", order_of(t, s.ask((a, 0, 0), (b, 0, 0), (a, 1, 0), (b, 1, 0), (a, 2, 0), max_bytes=600)))
    for _ in range(6):
        t.note("order", order_of(t, s.ask(max_bytes=600)))
    t.note("order", order_of(t, s.ask((a, 1, 0), (b, 0, 1), max_bytes=1300)))
    for _ in range(4):
        t.note("order", order_of(t, s.ask(max_bytes=1300)))


@case("Fetch", NAMES, IDS)
def what_is_missing_stands_behind_what_is_there(t, version):
    a = given(t, "a", 2)
    none = (t.topic("none"), UNKNOWN_ID)
    t.fill("a", records("one"))
    s = Session(t, version)
    for epoch in (-1, None):
        t.note("order", order_of(t, s.ask((none, 0, 0), (a, 0, 0), (none, 1, 0), (a, 1, 0), epoch=epoch)))
    t.note("order", order_of(t, s.ask()))
    t.fill("a", records("two"), partition=1)
    t.note("order", order_of(t, s.ask()))


@case("Fetch", NAMES, IDS)
def a_fetch_waits_though_something_is_missing(t, version):
    a = given(t, "a")
    none = (t.topic("none"), UNKNOWN_ID)
    s = Session(t, version)
    for rows in (((a, 0, 0), (none, 0, 0)), ((none, 0, 0),), ((a, 0, 5), (none, 0, 0))):
        began = time.monotonic()
        s.ask(*rows, epoch=-1, wait_ms=700, min_bytes=1)
        t.note("waited", time.monotonic() - began >= 0.6)
    s.ask((a, 0, 0), (none, 0, 0), wait_ms=0)
    began = time.monotonic()
    s.ask(wait_ms=700, min_bytes=1)
    t.note("waited", time.monotonic() - began >= 0.6)


@case("Fetch", NAMES, IDS)
def two_fetches_of_one_session_at_once(t, version):
    a = given(t, "a")
    s = Session(t, version)
    s.ask((a, 0, 0))
    # On one connection they go one after the other; the second names the epoch after the first's.
    for epoch in (1, 2, 2):
        t.tell("Fetch", version, **s.body((), (), s.session, epoch, 300, 1, 1 << 20, 1 << 20))
    for _ in range(3):
        t.hear("Fetch", version)
    s.epoch = 3
    s.ask()


@case("Fetch", NAMES, IDS)
def a_session_goes_on_over_another_connection(t, version):
    a = given(t, "a")
    s = Session(t, version)
    s.ask((a, 0, 0))
    for i in range(8):
        t.connect()
        t.fill("a", records(f"r{i}"))
        s.ask()
        s.ask((a, 0, i + 1))
    t.connect()
    s.ask(session=s.session, epoch=0)
    t.connect()
    s.ask()


@case("Fetch", NAMES, IDS)
def a_fetch_that_another_has_overtaken(t, version):
    a = given(t, "a")
    s = Session(t, version)
    s.ask((a, 0, 0))
    t.tell("Fetch", version, **s.body((), (), s.session, 1, 1500, 1, 1 << 20, 1 << 20))
    time.sleep(0.3)  # it waits at the broker
    slow, t.conn = t.conn, None
    s.ask(session=s.session, epoch=2)
    fast, t.conn = t.conn, slow
    t.hear("Fetch", version)
    fast.close()
    s.ask(session=s.session, epoch=3)


@case("Fetch", 4, 6)
def no_sessions_before_version_7(t, version):
    a = given(t, "a")
    t.fill("a", records("one"))
    s = Session(t, version)
    s.ask((a, 0, 0))
    s.ask()


@case("Produce", 9, 12)
def topics_that_stand_twice_in_one_produce(t, version):
    a, b = given(t, "a", 2), given(t, "b")
    rows = [(a[0], 0, "1"), (b[0], 0, "2"), (a[0], 0, "3"), (a[0], 1, "4"), (t.topic("none"), 0, "5"), (t.topic("none"), 0, "6")]
    data = [{"Name": name, "PartitionData": [{"Index": p, "Records": records(value)}]} for name, p, value in rows]
    t.call("Produce", version, Acks=-1, TimeoutMs=30000, TopicData=data)
    Session(t, NAMES).ask((a, 0, 0), (a, 1, 0), (b, 0, 0), epoch=-1)


@case("Produce", 13)
def ids_that_stand_twice_in_one_produce(t, version):
    a = given(t, "a", 2)
    produce(t, version, None, [(0, records("1")), (1, records("2")), (0, records("3"))], topic_id=a[1])
    rows = [(a[1], 0, "4"), (UNKNOWN_ID, 0, "5"), (a[1], 0, "6"), (UNKNOWN_ID, 0, "7"), (UNKNOWN_ID, 1, "8")]
    data = [{"TopicId": topic_id, "PartitionData": [{"Index": p, "Records": records(value)}]} for topic_id, p, value in rows]
    t.call("Produce", version, Acks=-1, TimeoutMs=30000, TopicData=data)
    Session(t, NAMES).ask((a, 0, 0), (a, 1, 0), epoch=-1)
