# SPDX-License-Identifier: Apache-2.0
"""Records go in and come out: Produce, Fetch, ListOffsets, InitProducerId, and what is told of logs: OffsetForLeaderEpoch,
DescribeProducers, DescribeLogDirs."""

import shutil
import tempfile
import time

from diff import T0, case
from wire import batch, patched

UNKNOWN_ID = bytes(range(1, 17))
ZERO_ID = bytes(16)


def records(*values, at=T0, **more):
    return batch([v.encode() for v in values], timestamp=at, **more)


def produce(t, version, topic, rows, acks=-1, topic_id=ZERO_ID, **more):
    """rows: [(partition, batch)]"""
    data = [{"Index": index, "Records": b} for index, b in rows]
    where = {"TopicId": topic_id} if version >= 13 else {"Name": topic}
    return t.call("Produce", version, Acks=acks, TimeoutMs=30000, TopicData=[{**where, "PartitionData": data}], **more)


def fetch(t, version, topic, rows, topic_id=ZERO_ID, wait_ms=0, min_bytes=0, max_bytes=1 << 26, part_bytes=1 << 24, **more):
    """rows: [(partition, offset)]"""
    parts = [{"Partition": p, "FetchOffset": o, "PartitionMaxBytes": part_bytes} for p, o in rows]
    where = {"TopicId": topic_id} if version >= 13 else {"Topic": topic}
    return t.call("Fetch", version, MaxWaitMs=wait_ms, MinBytes=min_bytes, MaxBytes=max_bytes, Topics=[{**where, "Partitions": parts}] if rows else [], **more)


def offsets(t, version, topic, *rows, **more):
    """rows: (partition, timestamp)"""
    parts = [{"PartitionIndex": p, "Timestamp": when} for p, when in rows]
    return t.call("ListOffsets", version, ReplicaId=-1, Topics=[{"Name": topic, "Partitions": parts}], **more)


# ---- Produce


@case("Produce", 3, 7, 8, 9, 11, 12, 13)
def records_go_in(t, version):
    topic_id = t.create("a", 2)
    name = t.topic("a")
    produce(t, version, name, [(0, records("a", "b"))], topic_id=topic_id)
    produce(t, version, name, [(0, records("c"))], acks=1, topic_id=topic_id)
    produce(t, version, name, [(0, records("g")), (1, records("d", "e", "f"))], topic_id=topic_id)
    fetch(t, 11, name, [(0, 0), (1, 0)])


@case("Produce", 3, 9, 12)
def records_for_topics_that_are_not_there(t, version):
    t.create("a", 1)
    produce(t, version, t.topic("none"), [(0, records("a"))])
    produce(t, version, t.topic("a"), [(1, records("a")), (0, records("b")), (-1, records("c"))])
    produce(t, version, "a b", [(0, records("a"))])


@case("Produce", 13)
def records_for_ids_that_are_not_there(t, version):
    topic_id = t.create("a", 1)
    produce(t, version, None, [(0, records("a"))], topic_id=UNKNOWN_ID)
    produce(t, version, None, [(0, records("a"))], topic_id=ZERO_ID)
    produce(t, version, None, [(7, records("a"))], topic_id=topic_id)
    t.delete("a")
    produce(t, version, None, [(0, records("a"))], topic_id=topic_id)


@case("Produce", 3, 8, 13)
def acks_that_nobody_knows(t, version):
    topic_id = t.create("a", 1)
    for acks in (2, -2, 32767):
        produce(t, version, t.topic("a"), [(0, records("a"))], acks=acks, topic_id=topic_id)
    offsets(t, 7, t.topic("a"), (0, -1))


@case("Produce", 7, 9)
def batches_that_are_damaged(t, version):
    t.create("a", 1)
    name = t.topic("a")
    good = records("a", "b")
    produce(t, version, name, [(0, good[:17] + b"\0\0\0\0" + good[21:])])  # crc
    produce(t, version, name, [(0, good[:-3])])
    produce(t, version, name, [(0, good[:30])])
    produce(t, version, name, [(0, b"")])
    offsets(t, 7, name, (0, -1))


@case("Produce", 7, 9)
def batches_with_wrong_fields(t, version):
    t.create("a", 1)
    name = t.topic("a")
    good = records("a", "b")
    for at, form, value in ((57, "i", 1), (57, "i", 3), (57, "i", -1), (23, "i", 0), (23, "i", 5), (23, "i", -1), (16, "b", 5), (16, "b", -1),
                            (21, "h", 0x20), (21, "h", 0x10), (0, "q", 77)):
        produce(t, version, name, [(0, patched(good, at, form, value))])
    offsets(t, 7, name, (0, -1))


@case("Produce", 7, 9)
def a_codec_that_nobody_knows(t, version):
    t.create("a", 1)
    produce(t, version, t.topic("a"), [(0, patched(records("a", "b"), 21, "h", 7))])


@case("Produce", 7, 9)
def two_batches_in_one(t, version):
    t.create("a", 1)
    produce(t, version, t.topic("a"), [(0, records("a") + records("b"))])
    offsets(t, 7, t.topic("a"), (0, -1))


@case("Produce", 8, 9)
def one_partition_twice(t, version):
    t.create("a", 1)
    name = t.topic("a")
    produce(t, version, name, [(0, records("a")), (0, records("b"))])
    t.call("Produce", version, Acks=-1, TimeoutMs=30000, TopicData=[{"Name": name, "PartitionData": [{"Index": 0, "Records": records("c")}]},
                                                                  {"Name": name, "PartitionData": [{"Index": 0, "Records": records("d")}]}])
    offsets(t, 7, name, (0, -1))


@case("Produce", 8, 13)
def a_batch_that_is_too_large(t, version):
    topic_id = t.create("a", 1, {"max.message.bytes": "100"})
    produce(t, version, t.topic("a"), [(0, records("x" * 200))], topic_id=topic_id)
    produce(t, version, t.topic("a"), [(0, records("x"))], topic_id=topic_id)


@case("Produce", 8, 9)
def timestamps_that_are_far_off(t, version):
    t.create("a", 1, {"message.timestamp.before.max.ms": "7200000", "message.timestamp.after.max.ms": "3600000"})
    name = t.topic("a")
    produce(t, version, name, [(0, records("old", at=T0 - 3 * 3600 * 1000))])
    produce(t, version, name, [(0, records("new", at=T0 + 9 * 3600 * 1000))])
    produce(t, version, name, [(0, records("none", at=-1))])
    produce(t, version, name, [(0, records("good"))])


@case("Produce", 8, 9)
def the_broker_sets_the_time(t, version):
    t.create("a", 1, {"message.timestamp.type": "LogAppendTime"})
    produce(t, version, t.topic("a"), [(0, records("a", "b"))])
    fetch(t, 11, t.topic("a"), [(0, 0)])


@case("Produce", 3)
def zstd_is_for_newer_versions(t, version):
    t.create("a", 1)
    produce(t, version, t.topic("a"), [(0, patched(records("a"), 21, "h", 4))])


@case("Produce", 9)
def a_compacted_topic_wants_keys(t, version):
    t.create("a", 1, {"cleanup.policy": "compact"})
    produce(t, version, t.topic("a"), [(0, records("a"))])
    produce(t, version, t.topic("a"), [(0, records("a", "b", keys=[b"k", None]))])
    produce(t, version, t.topic("a"), [(0, records("a", keys=[b"k"]))])


@case("Produce", 9, 12)
def nothing_is_produced(t, version):
    t.create("a", 1)
    t.call("Produce", version, Acks=-1, TimeoutMs=1000, TopicData=[])
    t.call("Produce", version, Acks=-1, TimeoutMs=1000, TopicData=[{"Name": t.topic("a"), "PartitionData": []}])


@case("Produce", 9)
def no_answer_is_wanted(t, version):
    t.create("a", 1)
    t.tell("Produce", version, Acks=0, TimeoutMs=1000,
           TopicData=[{"Name": t.topic("a"), "PartitionData": [{"Index": 0, "Records": records("a")}]}])
    produce(t, version, t.topic("a"), [(0, records("b"))])


@case("Produce", 9)
def no_answer_is_wanted_of_an_error(t, version):
    t.tell("Produce", version, Acks=0, TimeoutMs=1000,
           TopicData=[{"Name": t.topic("none"), "PartitionData": [{"Index": 0, "Records": records("a")}]}])
    t.call("ListOffsets", 7, ReplicaId=-1, Topics=[])


@case("Produce", 2, 14)
def a_version_of_produce_that_nobody_has(t, version):
    t.raw("Produce", version, b"\0" * 20)


# ---- idempotent producers


def new_producer(t):
    """The id of a new producer. A Kafka that has just started has none to give, for a moment, and says so."""
    for _ in range(1000):
        answer = t.quietly("InitProducerId", 4, TransactionalId=None, TransactionTimeoutMs=1000)
        if answer["ErrorCode"] == 0:
            break
        time.sleep(0.005)
    t.producer_word(answer["ProducerId"])  # the first that is made is the first wherever it stands
    return answer["ProducerId"]


@case("Produce", 8, 9)
def sequences_in_order(t, version):
    t.create("a", 1)
    name = t.topic("a")
    me = new_producer(t)
    for first, values in ((0, "abc"), (3, "d"), (4, "ef")):
        produce(t, version, name, [(0, records(*values, producer_id=me, producer_epoch=0, sequence=first))])
    produce(t, version, name, [(0, records("d", producer_id=me, producer_epoch=0, sequence=3))])
    produce(t, version, name, [(0, records(*"abc", producer_id=me, producer_epoch=0, sequence=0))])
    offsets(t, 7, name, (0, -1))


@case("Produce", 8, 9)
def sequences_out_of_order(t, version):
    t.create("a", 1)
    name = t.topic("a")
    me = new_producer(t)
    produce(t, version, name, [(0, records("a", producer_id=me, producer_epoch=0, sequence=0))])
    produce(t, version, name, [(0, records("b", producer_id=me, producer_epoch=0, sequence=2))])
    produce(t, version, name, [(0, records("c", "d", producer_id=me, producer_epoch=0, sequence=0))])
    produce(t, version, name, [(0, records("e", producer_id=me, producer_epoch=1, sequence=0))])
    produce(t, version, name, [(0, records("f", producer_id=me, producer_epoch=0, sequence=1))])
    produce(t, version, name, [(0, records("g", producer_id=me, producer_epoch=2, sequence=5))])
    offsets(t, 7, name, (0, -1))


@case("Produce", 8)
def a_producer_that_begins_in_the_middle(t, version):
    t.create("a", 1)
    me = new_producer(t)
    produce(t, version, t.topic("a"), [(0, records("a", producer_id=me, producer_epoch=0, sequence=7))])
    produce(t, version, t.topic("a"), [(0, records("b", producer_id=me, producer_epoch=0, sequence=8))])


@case("Produce", 8)
def a_producer_without_an_epoch_or_a_sequence(t, version):
    t.create("a", 1)
    me = new_producer(t)
    produce(t, version, t.topic("a"), [(0, records("a", producer_id=me, producer_epoch=-1, sequence=0))])
    produce(t, version, t.topic("a"), [(0, records("a", producer_id=me, producer_epoch=0, sequence=-1))])
    produce(t, version, t.topic("a"), [(0, records("a", producer_id=-1, producer_epoch=0, sequence=0))])


@case("InitProducerId", 0, 2, 3, 4, 5)
def producer_ids(t, version):
    new_producer(t)
    t.call("InitProducerId", version, TransactionalId=None, TransactionTimeoutMs=1000)
    t.call("InitProducerId", version, TransactionalId=None, TransactionTimeoutMs=-5)


@case("InitProducerId", 3, 5)
def producer_ids_that_are_known_before(t, version):
    me = new_producer(t)
    t.call("InitProducerId", version, TransactionalId=None, TransactionTimeoutMs=1000, ProducerId=me, ProducerEpoch=0)
    t.call("InitProducerId", version, TransactionalId=None, TransactionTimeoutMs=1000, ProducerId=me, ProducerEpoch=-1)
    t.call("InitProducerId", version, TransactionalId=None, TransactionTimeoutMs=1000, ProducerId=-1, ProducerEpoch=5)


@case("InitProducerId", 0, 5)
def an_empty_transactional_id(t, version):
    new_producer(t)
    t.call("InitProducerId", version, TransactionalId="", TransactionTimeoutMs=1000)


# ---- Fetch


@case("Fetch", 4, 5, 7, 9, 11, 12, 13, 15, 16, 17, 18)
def records_come_out(t, version):
    topic_id = t.create("a", 2)
    t.fill("a", records("a", "b"), records("c"))
    for offset in (0, 1, 2, 3):
        fetch(t, version, t.topic("a"), [(0, offset), (1, 0)], topic_id=topic_id)


@case("Fetch", 4, 11, 12)
def offsets_that_are_not_there(t, version):
    t.create("a", 1)
    t.fill("a", records("a", "b"))
    for offset in (3, -1, -2, 1 << 62):
        fetch(t, version, t.topic("a"), [(0, offset)])


@case("Fetch", 4, 11, 12)
def fetches_of_topics_that_are_not_there(t, version):
    t.create("a", 1)
    fetch(t, version, t.topic("none"), [(0, 0)])
    fetch(t, version, t.topic("a"), [(0, 0), (1, 0), (-1, 0)])
    fetch(t, version, "a b", [(0, 0)])


@case("Fetch", 13, 17)
def fetches_of_ids_that_are_not_there(t, version):
    topic_id = t.create("a", 1)
    fetch(t, version, None, [(0, 0)], topic_id=UNKNOWN_ID)
    fetch(t, version, None, [(0, 0)], topic_id=ZERO_ID)
    fetch(t, version, None, [(5, 0)], topic_id=topic_id)
    t.delete("a")
    fetch(t, version, None, [(0, 0)], topic_id=topic_id)


@case("Fetch", 9, 12)
def leader_epochs_of_a_fetch(t, version):
    t.create("a", 1)
    t.fill("a", records("a"))
    for epoch in (-1, 0, 1, 7, -2):
        parts = [{"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1000, "CurrentLeaderEpoch": epoch}]
        t.call("Fetch", version, MaxWaitMs=0, MinBytes=0, Topics=[{"Topic": t.topic("a"), "Partitions": parts}])


@case("Fetch", 4, 11)
def few_bytes_are_wanted(t, version):
    t.create("a", 2)
    t.fill("a", records("x" * 100), records("y" * 100), records("z" * 100))
    t.fill("a", records("p" * 100), partition=1)
    for max_bytes, part_bytes in ((1, 1000), (1000, 1), (200, 1000), (400, 180), (0, 1000), (1000, 0)):
        fetch(t, version, t.topic("a"), [(0, 0), (1, 0)], max_bytes=max_bytes, part_bytes=part_bytes)


@case("Fetch", 4, 11)
def isolation_levels(t, version):
    t.create("a", 1)
    t.fill("a", records("a"))
    for level in (0, 1):
        fetch(t, version, t.topic("a"), [(0, 0)], IsolationLevel=level)
    fetch(t, version, t.topic("a"), [(0, 9)], IsolationLevel=1)


@case("Fetch", 11, 13)
def nothing_is_fetched(t, version):
    t.call("Fetch", version, MaxWaitMs=0, MinBytes=0, Topics=[])


@case("Fetch", 11)
def one_partition_is_fetched_twice(t, version):
    t.create("a", 1)
    t.fill("a", records("a"), records("b"))
    fetch(t, version, t.topic("a"), [(0, 0), (0, 1)])


@case("Fetch", 3, 19)
def a_version_of_fetch_that_nobody_has(t, version):
    t.raw("Fetch", version, b"\0" * 40)


# ---- ListOffsets


@case("ListOffsets", 1, 2, 4, 5, 6, 7, 8, 9, 10, 11)
def the_ends_of_a_log(t, version):
    t.create("a", 1)
    offsets(t, version, t.topic("a"), (0, -1))
    offsets(t, version, t.topic("a"), (0, -2))
    t.fill("a", records("a", "b"), records("c"))
    offsets(t, version, t.topic("a"), (0, -1))
    offsets(t, version, t.topic("a"), (0, -2))


@case("ListOffsets", 1, 6, 7, 8, 9, 11)
def special_timestamps(t, version):
    t.create("a", 1)
    t.fill("a", records("a", at=T0 + 5), records("b", "c", at=T0 + 9), records("d", at=T0 + 7))
    for when in (-3, -4, -5, -6, -7, -100):
        offsets(t, version, t.topic("a"), (0, when))


@case("ListOffsets", 1, 7, 11)
def times_of_records(t, version):
    t.create("a", 1)
    offsets(t, version, t.topic("a"), (0, T0))
    t.fill("a", records("a", at=T0 + 5), records("b", "c", at=T0 + 9), records("d", at=T0 + 7))
    for when in (0, T0, T0 + 5, T0 + 6, T0 + 8, T0 + 9, T0 + 10, (1 << 63) - 1):
        offsets(t, version, t.topic("a"), (0, when))


@case("ListOffsets", 1, 7)
def offsets_of_what_is_not_there(t, version):
    t.create("a", 1)
    offsets(t, version, t.topic("none"), (0, -1))
    offsets(t, version, t.topic("a"), (1, -1), (0, -1), (-1, -1))
    offsets(t, version, "", (0, -1))


@case("ListOffsets", 4, 7)
def one_partition_is_asked_twice(t, version):
    t.create("a", 1)
    offsets(t, version, t.topic("a"), (0, -1), (0, -2))


@case("ListOffsets", 4, 7)
def leader_epochs_of_offsets(t, version):
    t.create("a", 1)
    for epoch in (-1, 0, 1, -2):
        parts = [{"PartitionIndex": 0, "Timestamp": -1, "CurrentLeaderEpoch": epoch}]
        t.call("ListOffsets", version, ReplicaId=-1, Topics=[{"Name": t.topic("a"), "Partitions": parts}])


@case("ListOffsets", 0, 12)
def a_version_of_list_offsets_that_nobody_has(t, version):
    t.raw("ListOffsets", version, b"\0" * 20)


# ---- OffsetForLeaderEpoch


def epoch_ends(t, version, topic, *rows, partition=0):
    """rows: (current leader epoch, epoch)"""
    for current, epoch in rows:
        parts = [{"Partition": partition, "CurrentLeaderEpoch": current, "LeaderEpoch": epoch}]
        t.call("OffsetForLeaderEpoch", version, ReplicaId=-1, Topics=[{"Topic": topic, "Partitions": parts}])


@case("OffsetForLeaderEpoch", 2, 3, 4)
def ends_of_epochs(t, version):
    t.create("a", 1)
    epoch_ends(t, version, t.topic("a"), (-1, 0), (0, 0))
    t.fill("a", records("a", "b"))
    epoch_ends(t, version, t.topic("a"), (-1, 0), (-1, 5), (-1, -1), (-1, -2), (0, 0))


@case("OffsetForLeaderEpoch", 2, 4)
def ends_of_epochs_of_another_leader(t, version):
    t.create("a", 1)
    epoch_ends(t, version, t.topic("a"), (1, 0), (-2, 0), (7, 7))


@case("OffsetForLeaderEpoch", 2, 3, 4)
def ends_of_epochs_of_what_is_not_there(t, version):
    t.create("a", 1)
    epoch_ends(t, version, t.topic("none"), (-1, 0))
    epoch_ends(t, version, t.topic("a"), (-1, 0), partition=3)
    epoch_ends(t, version, "", (-1, 0))
    t.call("OffsetForLeaderEpoch", version, ReplicaId=-1, Topics=[])


@case("OffsetForLeaderEpoch", 4)
def ends_of_epochs_asked_twice(t, version):
    t.create("a", 1)
    parts = [{"Partition": 0, "CurrentLeaderEpoch": -1, "LeaderEpoch": 0}, {"Partition": 0, "CurrentLeaderEpoch": -1, "LeaderEpoch": 4}]
    t.call("OffsetForLeaderEpoch", version, ReplicaId=-1, Topics=[{"Topic": t.topic("a"), "Partitions": parts}])


@case("OffsetForLeaderEpoch", 1, 5)
def a_version_of_offset_for_leader_epoch_that_nobody_has(t, version):
    t.raw("OffsetForLeaderEpoch", version, b"\0" * 20)


# ---- DescribeProducers


def producers(t, version, *topics):
    return t.call("DescribeProducers", version, Topics=[{"Name": n, "PartitionIndexes": list(i)} for n, i in topics])


@case("DescribeProducers", 0)
def who_produces(t, version):
    t.create("a", 2)
    me, other = new_producer(t), new_producer(t)
    producers(t, version, (t.topic("a"), [0, 1]))
    t.fill("a", records("a", "b", producer_id=me, producer_epoch=0, sequence=0))
    t.fill("a", records("c"), records("d", at=T0 + 7, producer_id=other, producer_epoch=3, sequence=0))
    producers(t, version, (t.topic("a"), [0, 1]))
    t.fill("a", records("e", at=T0 + 9, producer_id=me, producer_epoch=0, sequence=2))
    producers(t, version, (t.topic("a"), [0]))


@case("DescribeProducers", 0)
def many_producers(t, version):
    t.create("a", 1)
    for i in range(40):
        t.fill("a", records("a", producer_id=new_producer(t), producer_epoch=i, sequence=0))
    producers(t, version, (t.topic("a"), [0]))


@case("DescribeProducers", 0)
def producers_of_what_is_not_there(t, version):
    t.create("a", 1)
    producers(t, version, (t.topic("none"), [0]), ("", [0]), ("a b", [0]), ("x" * 250, [0]))
    producers(t, version, (t.topic("a"), [1, -1, 0]))
    producers(t, version)
    producers(t, version, (t.topic("a"), []))


@case("DescribeProducers", 0)
def producers_asked_twice(t, version):
    t.create("a", 1)
    producers(t, version, (t.topic("a"), [0, 0]), (t.topic("a"), [0]))
    producers(t, version, (t.topic("none"), [0, 0]), (t.topic("none"), [0]))


@case("DescribeProducers", 1)
def a_version_of_describe_producers_that_nobody_has(t, version):
    t.raw("DescribeProducers", version, b"\0" * 20)


# ---- DescribeLogDirs


@case("DescribeLogDirs", 1, 2, 3, 4, 5)
def how_large_logs_are(t, version):
    t.create("a", 2)
    t.call("DescribeLogDirs", version, Topics=[{"Topic": t.topic("a"), "Partitions": [0, 1]}])
    t.fill("a", records("a", "b"), records("c"))
    t.call("DescribeLogDirs", version, Topics=[{"Topic": t.topic("a"), "Partitions": [0, 1]}])


@case("DescribeLogDirs", 1, 5)
def sizes_of_what_is_not_there(t, version):
    t.create("a", 1)
    t.call("DescribeLogDirs", version, Topics=[{"Topic": t.topic("none"), "Partitions": [0]}])
    t.call("DescribeLogDirs", version, Topics=[{"Topic": t.topic("a"), "Partitions": [7, -1]}, {"Topic": "", "Partitions": [0]}])
    t.call("DescribeLogDirs", version, Topics=[])
    t.call("DescribeLogDirs", version, Topics=[{"Topic": t.topic("a"), "Partitions": []}])


@case("DescribeLogDirs", 1, 5)
def sizes_asked_twice(t, version):
    t.create("a", 1)
    t.call("DescribeLogDirs", version, Topics=[{"Topic": t.topic("a"), "Partitions": [0, 0]}, {"Topic": t.topic("a"), "Partitions": [0]}])


@case("DescribeLogDirs", 4)
def sizes_of_all(t, version):
    t.create("a", 1)
    t.fill("a", records("a"))
    topics = t.quietly("DescribeLogDirs", version, Topics=None)["Results"][0]["Topics"]
    t.note("mine", [topic for topic in topics if topic["Name"].startswith(t.case + "-")])


@case("DescribeLogDirs", 4, 5)
def how_much_room_there_is(t, version):
    """On the file system of temporary files, where both have their data here."""
    told = t.call("DescribeLogDirs", version, Topics=[])["Results"][0]
    t.note("its size is told", told["TotalBytes"] == shutil.disk_usage(tempfile.gettempdir()).total)
    t.note("some of it is free", 0 < told["UsableBytes"] <= told["TotalBytes"])


@case("DescribeLogDirs", 0, 6)
def a_version_of_describe_log_dirs_that_nobody_has(t, version):
    t.raw("DescribeLogDirs", version, b"\0" * 20)


# ---- DeleteRecords


def cut(t, version, topic, *rows):
    """rows: (partition, offset)"""
    parts = [{"PartitionIndex": p, "Offset": o} for p, o in rows]
    return t.call("DeleteRecords", version, TimeoutMs=30000, Topics=[{"Name": topic, "Partitions": parts}])


@case("DeleteRecords", 0, 1, 2)
def records_go(t, version):
    t.create("a", 2)
    t.fill("a", records("a", "b"), records("c"), records("d"))
    for offset in (0, 1, 1, 0, 2, -1):
        cut(t, version, t.topic("a"), (0, offset))
        offsets(t, 7, t.topic("a"), (0, -2), (0, -1))
    fetch(t, 11, t.topic("a"), [(0, 3)])
    fetch(t, 11, t.topic("a"), [(0, 4)])
    t.fill("a", records("e"))
    fetch(t, 11, t.topic("a"), [(0, 4)])
    cut(t, version, t.topic("a"), (1, -1), (1, 0))


@case("DeleteRecords", 0, 2)
def the_start_lies_inside_a_batch(t, version):
    t.create("a", 1)
    t.fill("a", records("a", "b", "c"), records("d"))
    cut(t, version, t.topic("a"), (0, 1))
    fetch(t, 11, t.topic("a"), [(0, 0)])
    fetch(t, 11, t.topic("a"), [(0, 1)])
    offsets(t, 7, t.topic("a"), (0, -2))
    offsets(t, 7, t.topic("a"), (0, T0))


@case("DeleteRecords", 0, 2)
def more_records_than_there_are(t, version):
    t.create("a", 1)
    t.fill("a", records("a"))
    for offset in (2, 1 << 62, -2, -(1 << 63)):
        cut(t, version, t.topic("a"), (0, offset))
    offsets(t, 7, t.topic("a"), (0, -2))


@case("DeleteRecords", 0, 1, 2)
def records_of_what_is_not_there(t, version):
    t.create("a", 1)
    cut(t, version, t.topic("none"), (0, 0))
    cut(t, version, t.topic("a"), (1, 0), (-1, 0), (0, 0))
    cut(t, version, "", (0, 0))
    cut(t, version, "a b", (0, 0))
    t.call("DeleteRecords", version, TimeoutMs=1000, Topics=[])


@case("DeleteRecords", 2)
def records_of_a_compacted_topic(t, version):
    t.create("a", 1, {"cleanup.policy": "compact"})
    t.create("b", 1, {"cleanup.policy": "compact,delete"})
    cut(t, version, t.topic("a"), (0, 0))
    cut(t, version, t.topic("a"), (0, 99))
    cut(t, version, t.topic("b"), (0, 0))


@case("DeleteRecords", 2)
def records_of_one_partition_twice(t, version):
    t.create("a", 1)
    t.fill("a", records("a"), records("b"))
    cut(t, version, t.topic("a"), (0, 2), (0, 1))
    offsets(t, 7, t.topic("a"), (0, -2))


@case("DeleteRecords", 2)
def records_of_the_brokers_own_topics(t, version):
    cut(t, version, "__cluster_metadata", (0, 0))


@case("DeleteRecords", 3)
def a_version_of_delete_records_that_nobody_has(t, version):
    t.raw("DeleteRecords", version, b"\0" * 20)
