# SPDX-License-Identifier: Apache-2.0
"""What nobody should ask, and somebody will: batches that are not quite right, sequences that jump, odd times, counts and names."""

import gzip
import struct
import zlib

from cases_records import cut, epoch_ends, new_producer, offsets, produce, producers, records
from cases_topics import configs, create, grow, lists, remove, wanted
from diff import T0, case
from wire import crc32c, patched, varint

TOPIC = 2


def raw_batch(body, count, attributes=0, first=T0, last=None, last_delta=None, producer=-1, epoch=-1, sequence=-1):
    """A batch around any bytes."""
    tail = struct.pack(">hiqqqhii", attributes, count - 1 if last_delta is None else last_delta, first, first if last is None else last,
                       producer, epoch, sequence, count) + body
    return struct.pack(">qiibI", 0, len(tail) + 9, 0, 2, crc32c(tail)) + tail


def record(value=b"v", key=None, offset=0, time=0, attributes=0, headers=(), count=None, length=None):
    """One record; `count` of headers and `length` may lie."""
    body = struct.pack("b", attributes) + varint(time) + varint(offset)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(-1) if value is None else varint(len(value)) + value
    body += varint(len(headers) if count is None else count)
    for name, word in headers:
        body += varint(-1) if name is None else varint(len(name)) + name
        body += varint(-1) if word is None else varint(len(word)) + word
    return varint(len(body) if length is None else length) + body


def each_alone(t, version, *batches, word="a"):
    """Each batch in a request of its own, and what the log holds then."""
    for one in batches:
        produce(t, version, t.topic(word), [(0, one)])
    offsets(t, 7, t.topic(word), (0, -1))


# ---- batches


@case("Produce", 3, 9, 12)
def headers_of_a_batch_that_are_odd(t, version):
    t.create("a", 1)
    good = records("a", "b")
    each_alone(t, version, patched(good, 12, "i", 5), patched(good, 12, "i", -7), patched(good, 27, "q", -1), patched(good, 27, "q", -5),
               patched(good, 35, "q", T0 - 5), patched(good, 35, "q", -1), patched(good, 0, "q", -1),
               patched(good, 21, "h", 0x40), patched(good, 21, "h", 0x80), patched(good, 21, "h", -0x8000), patched(good, 43, "q", -2),
               patched(good, 43, "q", 77), patched(good, 51, "h", 3), patched(good, 53, "i", 3))


@case("Produce", 3, 9)
def lengths_of_a_batch_that_lie(t, version):
    t.create("a", 1)
    good = records("a", "b")
    size = len(good) - 12
    for length in (size + 1, size - 1, size + 100, 49, 48, 0, -1, -(1 << 31)):
        each_alone(t, version, good[:8] + struct.pack(">i", length) + good[12:])


@case("Produce", 3, 9)
def bytes_after_a_batch(t, version):
    t.create("a", 1)
    good = records("a")
    each_alone(t, version, good + b"\0", good + b"\0" * 11, good + b"\0" * 12, good + b"\0" * 100, good + good[:40], b"\0" * 5, b"\0" * 61)


@case("Produce", 3, 9)
def no_bytes_at_all(t, version):
    t.create("a", 1)
    """A list of records that is null makes Kafka stumble without an answer."""
    each_alone(t, version, b"", b"\0")


@case("Produce", 9)
def batches_of_old_versions(t, version):
    t.create("a", 1)
    good = records("a", "b")
    each_alone(t, version, patched(good, 16, "b", 0), patched(good, 16, "b", 1), patched(good, 16, "b", 3), patched(good, 16, "b", 127))


@case("Produce", 9)
def records_that_are_odd(t, version):
    t.create("a", 1)
    each_alone(t, version, raw_batch(record(attributes=1), 1),
               raw_batch(record(time=5), 1), raw_batch(record(time=5), 1, last=T0 + 5), raw_batch(record(time=-5), 1),
               raw_batch(record(value=None), 1), raw_batch(record(value=b""), 1), raw_batch(record(key=b""), 1),
               raw_batch(record() + record(offset=1), 2), raw_batch(record() + record(offset=2), 2, last_delta=2))


@case("Produce", 9)
def records_whose_offsets_are_not_one_after_another(t, version):
    """Kafka takes them as they are, and readers meet offsets that are not there."""
    t.create("a", 1)
    produce(t, version, t.topic("a"), [(0, raw_batch(record(offset=1), 1))])
    produce(t, version, t.topic("a"), [(0, raw_batch(record(offset=-1), 1))])
    produce(t, version, t.topic("a"), [(0, raw_batch(record() + record(offset=0), 2))])
    produce(t, version, t.topic("a"), [(0, raw_batch(record(offset=1) + record(offset=0), 2))])


@case("Produce", 9)
def a_batch_that_says_the_broker_set_its_time(t, version):
    t.create("a", 1)
    t.create("b", 1, {"message.timestamp.type": "LogAppendTime"})
    for word in "ab":
        produce(t, version, t.topic(word), [(0, patched(records("a", "b"), 21, "h", 0x08))])


@case("Produce", 9)
def records_whose_lengths_lie(t, version):
    t.create("a", 1)
    each_alone(t, version, raw_batch(record(length=3), 1), raw_batch(record(length=100), 1), raw_batch(record(length=-1), 1),
               raw_batch(record() + b"\0", 1), raw_batch(record() + record(offset=1), 1), raw_batch(b"", 1),
               raw_batch(b"\xff" * 4 + b"\x0f", 1))


@case("Produce", 9)
def headers_of_records_that_are_odd(t, version):
    t.create("a", 1)
    each_alone(t, version, raw_batch(record(headers=[(b"k", b"v")]), 1), raw_batch(record(headers=[(b"", None), (b"", b"")]), 1),
               raw_batch(record(headers=[(None, b"v")]), 1), raw_batch(record(count=-1), 1), raw_batch(record(count=1), 1),
               raw_batch(record(count=1 << 20), 1), raw_batch(record(headers=[(b"k", b"v")], count=0), 1))


@case("Produce", 9)
def packed_batches(t, version):
    t.create("a", 1)
    two = gzip.compress(record() + record(offset=1), mtime=0)
    each_alone(t, version, raw_batch(two, 2, attributes=1), raw_batch(two + b"x", 2, attributes=1),
               raw_batch(gzip.compress(record(value=b"x" * 5000), mtime=0), 1, attributes=1))


@case("Produce", 9)
def packed_batches_that_hold_something_else(t, version):
    """Here a packed batch is not opened, unless weir.record.validation or the topic asks for it."""
    t.create("a", 1)
    two = gzip.compress(record() + record(offset=1), mtime=0)
    for one in (raw_batch(two, 1, attributes=1), raw_batch(two, 3, attributes=1), raw_batch(two[:-9], 2, attributes=1),
                raw_batch(b"nonsense", 1, attributes=1), raw_batch(b"nonsense", 1, attributes=4)):
        produce(t, version, t.topic("a"), [(0, one)])


@case("Produce", 9)
def packed_batches_without_keys_of_a_compacted_topic(t, version):
    t.create("a", 1, {"cleanup.policy": "compact"})
    each_alone(t, version, raw_batch(gzip.compress(record(), mtime=0), 1, attributes=1),
               raw_batch(gzip.compress(record(key=b"k"), mtime=0), 1, attributes=1), raw_batch(record(key=b""), 1))


@case("Produce", 3, 9)
def a_batch_of_a_transaction_that_nobody_began(t, version):
    t.create("a", 1)
    me = new_producer(t)
    produce(t, version, t.topic("a"), [(0, records("a", producer_id=me, producer_epoch=0, sequence=0))], TransactionalId=None)
    produce(t, version, t.topic("a"), [(0, patched(records("a"), 21, "h", 0x10))])
    offsets(t, 7, t.topic("a"), (0, -1))


@case("Produce", 9, 13)
def partitions_and_topics_more_than_once(t, version):
    one, two = t.create("a", 2), t.create("b", 1)
    names = {"a": {"TopicId": one}, "b": {"TopicId": two}} if version >= 13 else {w: {"Name": t.topic(w)} for w in "ab"}
    rows = [(w, [{"Index": i, "Records": records(v)} for i, v in parts]) for w, parts in
            (("a", [(0, "1"), (1, "2")]), ("b", [(0, "3")]), ("a", [(0, "4"), (7, "5")]), ("a", [(1, "6")]))]
    t.call("Produce", version, Acks=-1, TimeoutMs=30000, TopicData=[{**names[w], "PartitionData": parts} for w, parts in rows])
    for word in "ab":
        offsets(t, 7, t.topic(word), (0, -1))


@case("Produce", 9)
def times_of_waiting_that_are_odd(t, version):
    t.create("a", 1)
    for timeout_ms in (0, -1, -(1 << 31), (1 << 31) - 1):
        data = [{"Index": 0, "Records": records("a")}]
        t.call("Produce", version, Acks=-1, TimeoutMs=timeout_ms, TopicData=[{"Name": t.topic("a"), "PartitionData": data}])


@case("Produce", 9)
def names_of_produced_topics_that_are_odd(t, version):
    for name in ("", "..", "x" * 249, "x" * 250, "a\0b", "é", "__cluster_metadata"):
        produce(t, version, name, [(0, records("a"))])


@case("Produce", 9)
def times_that_are_not_to_be(t, version):
    t.create("a", 1, {"message.timestamp.after.max.ms": "0", "message.timestamp.before.max.ms": "0"})
    each_alone(t, version, records("a"), records("a", at=1 << 50), records("a", at=0), records("a", at=-1), records("a", at=-2))
    t.create("b", 1)
    each_alone(t, version, records("a", at=0), records("a", at=-1), records("a", at=-2), records("a", at=1 << 50), word="b")


@case("Produce", 9)
def the_brokers_time_and_batches_that_have_one(t, version):
    t.create("a", 1, {"message.timestamp.type": "LogAppendTime"})
    good = records("a", "b")
    each_alone(t, version, patched(good, 27, "q", -5), patched(good, 35, "q", T0 - 5), raw_batch(record(time=7), 1))


# ---- sequences


@case("Produce", 8, 9)
def sequences_at_the_end_of_the_numbers(t, version):
    t.create("a", 1)
    me = new_producer(t)
    last = (1 << 31) - 1
    for first, values in ((last - 1, "ab"), (0, "c"), (last, "d"), (1, "e"), (last - 1, "ab"), (-5, "x")):
        produce(t, version, t.topic("a"), [(0, records(*values, producer_id=me, producer_epoch=0, sequence=first))])
    offsets(t, 7, t.topic("a"), (0, -1))
    producers(t, 0, (t.topic("a"), [0]))


@case("Produce", 9)
def a_batch_across_the_end_of_the_numbers(t, version):
    t.create("a", 1)
    me = new_producer(t)
    last = (1 << 31) - 1
    for first, values in ((last - 1, "abcd"), (2, "e"), (3, "f"), (last - 1, "abcd")):
        produce(t, version, t.topic("a"), [(0, records(*values, producer_id=me, producer_epoch=0, sequence=first))])
    producers(t, 0, (t.topic("a"), [0]))


@case("Produce", 9)
def retries_that_come_late(t, version):
    """Of the last five batches a repetition is known; of those before it is out of order."""
    t.create("a", 1)
    me = new_producer(t)
    for first in range(8):
        t.fill("a", records("x", producer_id=me, producer_epoch=0, sequence=first))
    for first in range(9, -1, -1):
        produce(t, version, t.topic("a"), [(0, records("x", producer_id=me, producer_epoch=0, sequence=first))])
    offsets(t, 7, t.topic("a"), (0, -1))


@case("Produce", 9)
def retries_of_another_shape(t, version):
    t.create("a", 1)
    me = new_producer(t)
    t.fill("a", records("a", "b", "c", producer_id=me, producer_epoch=0, sequence=0))
    for first, values in ((0, "ab"), (1, "bc"), (0, "abcd"), (2, "cd"), (0, "xyz"), (3, "d"), (1, "b")):
        produce(t, version, t.topic("a"), [(0, records(*values, producer_id=me, producer_epoch=0, sequence=first))])
    offsets(t, 7, t.topic("a"), (0, -1))


@case("Produce", 9)
def epochs_of_a_producer(t, version):
    t.create("a", 1)
    me = new_producer(t)
    last = (1 << 15) - 1
    for epoch, first in ((0, 0), (1, 1), (1, 0), (0, 1), (1, 1), (2, 0), (1, 2), (last, 0), (last, 1), (last - 1, 0), (-2, 0), (0, 0)):
        produce(t, version, t.topic("a"), [(0, records("x", producer_id=me, producer_epoch=epoch, sequence=first))])
    producers(t, 0, (t.topic("a"), [0]))


@case("Produce", 9)
def a_producer_and_a_topic_that_comes_again(t, version):
    t.create("a", 1)
    me = new_producer(t)
    t.fill("a", records("a", producer_id=me, producer_epoch=0, sequence=0), records("b", producer_id=me, producer_epoch=0, sequence=1))
    t.delete("a")
    t.create("a", 1)
    for first in (2, 0, 3, 1):
        produce(t, version, t.topic("a"), [(0, records("x", producer_id=me, producer_epoch=0, sequence=first))])


@case("Produce", 9)
def a_producer_whose_records_are_gone(t, version):
    t.create("a", 1)
    me = new_producer(t)
    t.fill("a", records("a", producer_id=me, producer_epoch=0, sequence=0), records("b", producer_id=me, producer_epoch=0, sequence=1))
    cut(t, 2, t.topic("a"), (0, -1))
    for first in (0, 1, 3, 2):
        produce(t, version, t.topic("a"), [(0, records("x", producer_id=me, producer_epoch=0, sequence=first))])
    producers(t, 0, (t.topic("a"), [0]))


# ---- ListOffsets, OffsetForLeaderEpoch, DeleteRecords


@case("ListOffsets", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
def every_special_time(t, version):
    t.create("a", 1)
    for when in (-1, -2, -3, -4, -5, -6, -7, -(1 << 63)):
        offsets(t, version, t.topic("a"), (0, when))
    t.fill("a", records("a", "b"))
    for when in (-1, -2, -3, -4, -5, -6, -7, -(1 << 63)):
        offsets(t, version, t.topic("a"), (0, when))


@case("ListOffsets", 1, 2, 7, 11)
def offsets_asked_by_others(t, version):
    t.create("a", 1)
    rows = [{"Name": t.topic("a"), "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]}]
    for replica in (-2, 0, 1, 7, -3):
        t.call("ListOffsets", version, ReplicaId=replica, Topics=rows)
    for level in (1, 2, -1, 127) if version >= 2 else ():
        t.call("ListOffsets", version, ReplicaId=-1, IsolationLevel=level, Topics=rows)
    for timeout_ms in (0, -1) if version >= 10 else ():
        t.call("ListOffsets", version, ReplicaId=-1, TimeoutMs=timeout_ms, Topics=rows)


@case("ListOffsets", 1, 11)
def topics_of_offsets_that_are_odd(t, version):
    t.create("a", 1)
    rows = [{"PartitionIndex": 0, "Timestamp": -1}]
    for names in ((t.topic("a"), t.topic("a")), (t.topic("none"), t.topic("none")), ("", "a b", "x" * 250, "..", "é"), ()):
        t.call("ListOffsets", version, ReplicaId=-1, Topics=[{"Name": n, "Partitions": rows} for n in names])
    t.call("ListOffsets", version, ReplicaId=-1, Topics=[{"Name": t.topic("a"), "Partitions": []}])
    offsets(t, version, t.topic("a"), (0, -1), (0, -1), (7, -1), (7, -2))


@case("OffsetForLeaderEpoch", 3, 4)
def epochs_asked_by_others(t, version):
    t.create("a", 1)
    t.fill("a", records("a"))
    for replica in (-2, 0, 1, 7):
        parts = [{"Partition": 0, "CurrentLeaderEpoch": -1, "LeaderEpoch": 0}]
        t.call("OffsetForLeaderEpoch", version, ReplicaId=replica, Topics=[{"Topic": t.topic("a"), "Partitions": parts}])
    epoch_ends(t, version, t.topic("a"), (-1, (1 << 31) - 1), (-(1 << 31), 0), (0, -(1 << 31)))
    for name in ("a b", "x" * 250, ".."):
        epoch_ends(t, version, name, (-1, 0))


@case("DeleteRecords", 0, 2)
def records_go_in_odd_ways(t, version):
    t.create("a", 2)
    t.fill("a", records("a", "b", "c"))
    for timeout_ms in (0, -1):
        parts = [{"PartitionIndex": 0, "Offset": 1}, {"PartitionIndex": 1, "Offset": 0}]
        t.call("DeleteRecords", version, TimeoutMs=timeout_ms, Topics=[{"Name": t.topic("a"), "Partitions": parts}])
    rows = [{"Name": t.topic("a"), "Partitions": [{"PartitionIndex": 0, "Offset": o}]} for o in (2, 1)]
    t.call("DeleteRecords", version, TimeoutMs=30000, Topics=rows)
    t.call("DeleteRecords", version, TimeoutMs=30000, Topics=[{"Name": t.topic("a"), "Partitions": []}])
    for name in ("x" * 250, "..", "é"):
        cut(t, version, name, (0, 0))
    t.delete("a")
    cut(t, version, t.topic("a"), (0, 0))


# ---- topics


@case("CreateTopics", 4, 7)
def replicas_by_hand_that_are_odd(t, version):
    def rows(*pairs):
        return [{"PartitionIndex": i, "BrokerIds": list(ids)} for i, ids in pairs]
    for word, partitions, replication, pairs in (
            ("a", -1, -1, [(0, [1]), (1, [1]), (2, [1])]), ("b", -1, -1, [(-1, [1])]), ("c", -1, -1, [(0, [-1])]), ("d", -1, -1, [(0, [1, 2])]),
            ("e", -1, -1, [(0, [1]), (1, [])]), ("f", -1, -1, [(0, [2, 2])]), ("g", 3, 1, [(0, [1])]), ("h", 0, 0, [(0, [1])]),
            ("i", -1, -1, [(0, [1]), (1, [1, 1])]), ("j", -1, -1, [(5, [1]), (0, [1])]), ("k", -1, -1, [(1, [1]), (0, [1])]),
            ("l", -1, -1, [(0, [(1 << 31) - 1])])):
        asked = wanted(t.topic(word), partitions, replication, Assignments=rows(*pairs))
        create(t, version, asked, validateOnly=True)
        create(t, version, asked)
    t.call("Metadata", 12, Topics=[{"Name": t.topic(word)} for word in "adk"], AllowAutoTopicCreation=False)


@case("CreateTopics", 7)
def configs_of_new_topics_that_are_odd(t, version):
    odd = (("retention_ms", "-1"), ("retention_ms", "9223372036854775808"), ("retention_ms", "1.5"), ("segment_bytes", "0"),
           ("segment_bytes", "1048575"), ("segment_bytes", "2147483647"), ("segment_bytes", "2147483648"), ("preallocate", "True"),
           ("preallocate", "1"), ("preallocate", ""), ("min_cleanable_dirty_ratio", "0"), ("min_cleanable_dirty_ratio", "-0.1"),
           *(("min_cleanable_dirty_ratio", value) for value in ("1e-3", "5E-1", "0.0001", "NaN", "-NaN", "Infinity", ".5f", "0.25D", "1e", "e1",
                                                              "1.0000001", "1e-9", "", "0,5", "1e-400", "0e400")),
           ("compression_type", ""), ("compression_type", "gzip "),
           ("compression_gzip_level", "-1"), ("compression_gzip_level", "10"), ("compression_lz4_level", "18"), ("compression_zstd_level", "-131073"),
           ("cleanup_policy", "delete, compact"), ("cleanup_policy", ","), ("cleanup_policy", "delete,"), ("message_timestamp_type", "createtime"),
           ("min_insync_replicas", "2"), ("min_insync_replicas", "-1"), ("follower_replication_throttled_replicas", "*"),
           ("follower_replication_throttled_replicas", "0:1,1:2"), ("follower_replication_throttled_replicas", "0:"), ("segment_ms", "1"),
           ("flush_messages", "0"), ("flush_messages", "1"), ("max_message_bytes", "0"), ("index_interval_bytes", "0"),
           ("segment_index_bytes", "3"), ("segment_index_bytes", "4"), ("segment_jitter_ms", "99999999999"), ("unclean_leader_election_enable", "no"),
           ("local_retention_bytes", "5"), ("remote_log_copy_disable", "true"), ("max_compaction_lag_ms", "0"), ("min_compaction_lag_ms", "-1"),
           ("no_such", ""), ("RETENTION_MS", "1"))
    for i, (key, value) in enumerate(odd):
        create(t, version, wanted(t.topic(str(i)), Configs=configs(**{key: value})), validateOnly=True)


@case("CreateTopics", 7)
def names_that_are_odd(t, version):
    for name in ("a,b", "a:b", "a;b", " a", "a ", "-", "_", "a\n", "__", "A" * 249, "ö", "a%b", "a*"):
        create(t, version, wanted(name), validateOnly=True)


@case("CreatePartitions", 0, 3)
def growth_of_topics_that_come_and_go(t, version):
    t.create("a", 1)
    t.delete("a")
    grow(t, version, (t.topic("a"), 2, None))
    t.create("a", 3)
    grow(t, version, (t.topic("a"), 2, None), ValidateOnly=True)
    grow(t, version, (t.topic("a"), 4, None), (t.topic("none"), 1, None), ("..", 2, None), ValidateOnly=True)
    grow(t, version, (t.topic("a"), 4, lists([7])), ValidateOnly=True)
    grow(t, version, (t.topic("a"), 4, lists([1])))
    grow(t, version, (t.topic("a"), 4, lists([-1])), (t.topic("none"), 4, lists([1])))


@case("DeleteTopics", 1, 6)
def topics_go_in_odd_ways(t, version):
    remove(t, version, "..", "a b", "é", "__cluster_metadata")
    t.create("a", 1)
    remove(t, version, t.topic("a"), t.topic("none"), t.topic("a"), t.topic("none"))
    remove(t, version, t.topic("a"))


@case("Metadata", 0, 1, 4, 9, 12, 13)
def topics_that_are_looked_at_in_odd_ways(t, version):
    t.create("a", 1)
    t.create("b", 1)
    more = {"AllowAutoTopicCreation": False} if version >= 4 else {}
    if version >= 4:
        t.call("Metadata", version, Topics=[{"Name": n} for n in (t.topic("b"), t.topic("none"), t.topic("a"), t.topic("b"))], **more)
    for name in ("..", "a b", "x" * 250, "é", "a\0"):
        t.call("Metadata", version, Topics=[{"Name": name}], **more)


@case("InitProducerId", 0, 1, 2, 3, 4, 5)
def producer_ids_with_odd_times(t, version):
    new_producer(t)
    for timeout_ms in (0, -1, (1 << 31) - 1, -(1 << 31)):
        t.call("InitProducerId", version, TransactionalId=None, TransactionTimeoutMs=timeout_ms)
    for known in ((5, -1), (-1, 5), (-2, -2), (1 << 60, 0), (0, 0)) if version >= 3 else ():
        t.call("InitProducerId", version, TransactionalId=None, TransactionTimeoutMs=1000, ProducerId=known[0], ProducerEpoch=known[1])


@case("DescribeProducers", 0)
def producers_of_a_topic_that_comes_again(t, version):
    t.create("a", 1)
    t.fill("a", records("a", producer_id=new_producer(t), producer_epoch=0, sequence=0))
    t.delete("a")
    producers(t, version, (t.topic("a"), [0]))
    t.create("a", 1)
    producers(t, version, (t.topic("a"), [0, 0]), (t.topic("a"), []))


@case("DescribeLogDirs", 1, 5)
def sizes_of_topics_that_are_odd(t, version):
    t.create("a", 2)
    asked = [{"Topic": n, "Partitions": p} for n, p in ((t.topic("a"), [1]), ("..", [0]), (t.topic("a"), [0, 5]), (t.topic("none"), []))]
    t.call("DescribeLogDirs", version, Topics=asked)
    t.delete("a")
    t.call("DescribeLogDirs", version, Topics=asked)


@case("DescribeConfigs", 1, 4)
def keys_of_configs_that_are_odd(t, version):
    t.create("a", 1, {"retention.ms": "5"})
    for keys in (["retention.ms", "", "RETENTION.MS", "é"], ["weir.no.such"], ["retention.ms"] * 3, []):
        asked = [{"ResourceType": TOPIC, "ResourceName": t.topic("a"), "ConfigurationKeys": keys}]
        if keys:
            t.call("DescribeConfigs", version, Resources=asked, IncludeSynonyms=True)
    t.delete("a")
    t.call("DescribeConfigs", version, Resources=[{"ResourceType": TOPIC, "ResourceName": t.topic("a"), "ConfigurationKeys": ["retention.ms"]}])


# ---- the greatest timestamp


def stored(data):
    """In gzip, by the same bytes wherever it is done: of one deflate block that is as it was."""
    head = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF)
    return head + data + struct.pack("<II", zlib.crc32(data), len(data))


def packed(times, values=None):
    """A batch in gzip whose records have these times, one after another."""
    body = b"".join(record(value=(values or "abcdefgh")[i].encode(), offset=i, time=at - times[0]) for i, at in enumerate(times))
    return raw_batch(stored(body), len(times), attributes=1, first=times[0], last=max(times))


def plainly(times):
    """The same, not packed."""
    return raw_batch(b"".join(record(offset=i, time=at - times[0]) for i, at in enumerate(times)), len(times), first=times[0], last=max(times))


def greatest(t, version, word="a"):
    """By what stands for the greatest, and by times about it."""
    offsets(t, version, t.topic(word), (0, -3))
    for when in (T0 + 8, T0 + 9, T0 + 10):
        offsets(t, version, t.topic(word), (0, when))


@case("ListOffsets", 7, 8, 11)
def the_greatest_time_inside_a_batch(t, version):
    for word, make in (("a", packed), ("b", plainly)):
        t.create(word, 1)
        t.fill(word, make([T0 + 1, T0 + 9, T0 + 2, T0 + 3]))
        greatest(t, version, word)
        t.fill(word, make([T0 + 4, T0 + 5]), make([T0 + 8, T0 + 10, T0]))
        greatest(t, version, word)


@case("ListOffsets", 7, 11)
def the_greatest_time_more_than_once(t, version):
    for word, make in (("a", packed), ("b", plainly)):
        t.create(word, 1)
        t.fill(word, make([T0 + 1, T0 + 9, T0 + 9]))
        greatest(t, version, word)
        t.fill(word, make([T0 + 9, T0 + 9]), make([T0, T0 + 9]))
        greatest(t, version, word)


@case("ListOffsets", 7, 11)
def the_greatest_time_is_deleted(t, version):
    for word, make in (("a", packed), ("b", plainly)):
        t.create(word, 1)
        t.fill(word, make([T0 + 1, T0 + 9, T0 + 2]), make([T0 + 3, T0 + 8]), make([T0 + 4]))
        for before in (1, 2, 3, 4, 5, 6):
            cut(t, 2, t.topic(word), (0, before))
            greatest(t, version, word)
        t.fill(word, make([T0 + 5, T0 + 6]))
        greatest(t, version, word)


@case("ListOffsets", 7, 11)
def the_greatest_time_of_several_is_deleted(t, version):
    for word, make in (("a", packed), ("b", plainly)):
        t.create(word, 1)
        t.fill(word, make([T0 + 9, T0 + 1]), make([T0 + 9, T0 + 9]), make([T0 + 2, T0 + 9]))
        for before in (1, 2, 3, 4, 5):
            cut(t, 2, t.topic(word), (0, before))
            greatest(t, version, word)


@case("ListOffsets", 7, 11)
def the_greatest_time_is_the_brokers(t, version):
    t.create("a", 1, {"message.timestamp.type": "LogAppendTime"})
    t.fill("a", packed([T0 + 1, T0 + 9, T0 + 2]))
    offsets(t, version, t.topic("a"), (0, -3))


@case("ListOffsets", 7, 11)
def the_greatest_time_of_records_without_one(t, version):
    t.create("a", 1)
    t.fill("a", records("a", "b", at=-1))
    offsets(t, version, t.topic("a"), (0, -3))
    t.fill("a", records("a", "b", at=0))
    offsets(t, version, t.topic("a"), (0, -3))
    offsets(t, version, t.topic("a"), (0, 0))


@case("ListOffsets", 7, 11)
def the_greatest_time_over_several_segments(t, version):
    t.create("a", 1, {"segment.bytes": str(1 << 20)})
    for at in (T0 + 5, T0 + 9, T0 + 7):
        t.fill("a", raw_batch(record(value=b"x" * 900000), 1, first=at, last=at))
    greatest(t, version)  # what a deletion leaves of whole segments is a matter of when
