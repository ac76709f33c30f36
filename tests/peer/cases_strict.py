# SPDX-License-Identifier: Apache-2.0
"""Where a broker may be too strict, or not strict enough: fields that are null and must not be, sizes at their limits, batches that are
stored in another form than they came, and what only replicas say."""

import gzip

import messages
from cases_odd import each_alone, packed, raw_batch, record, stored
from cases_records import fetch, new_producer, offsets, produce, producers, records
from diff import T0, case

SERVED = ("Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "CreateTopics", "DeleteTopics", "DeleteRecords", "InitProducerId",
          "OffsetForLeaderEpoch", "DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs", "CreatePartitions", "DescribeLogDirs",
          "DescribeCluster", "DescribeProducers", "DescribeTopicPartitions", "ListConfigResources", "OffsetCommit", "OffsetFetch",
          "FindCoordinator", "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups", "DeleteGroups", "OffsetDelete")


def one_of_each(message, fields, version):
    """A body in which each list has one item, and all the rest its default."""
    out = {}
    for field in fields:
        if not messages.is_in(field.versions, version) or messages.is_in(field.tag_versions, version):
            continue
        inner = messages.fields_of(message, field)
        if inner is not None:
            item = one_of_each(message, inner, version)
            out[field.name] = [item] if field.is_array else item
        elif field.is_array:
            out[field.name] = ["" if field.type == "string" else b"" if field.type == "bytes" else bytes(16) if field.type == "uuid" else 0]
    return out


def nulls(message, fields, version, body, path=""):
    """Each place of the body that may not be null, by its path, with what makes it so."""
    for field in fields:
        if not messages.is_in(field.versions, version) or messages.is_in(field.tag_versions, version):
            continue
        here = f"{path}{field.name}"
        if (field.is_array or field.type in ("string", "bytes", "records")) and not messages.is_in(field.null, version):
            yield here, body, field.name
        inner = messages.fields_of(message, field)
        if inner is not None and body.get(field.name):
            yield from nulls(message, inner, version, body[field.name][0] if field.is_array else body[field.name], here + ".")


@case("Metadata", 0, 1, 2)
def fields_that_must_not_be_null(t, which):
    """Of every API that is served here: in the first of its versions, the first with compact fields, and the last."""
    for api in SERVED:
        message = messages.MESSAGES[api + "Request"]
        first, last = message.versions
        if api == "Produce":
            first = 3
        version = (first, max(first, message.flexible[0]) if message.flexible else last, last)[which]
        body = one_of_each(message, message.fields, version)
        for path, place, name in nulls(message, message.fields, version, body):
            kept = place.get(name)
            place[name] = None
            answer = t.quietly(api, version, **body)
            t.note(f"{api} {version} {path}", "closed" if answer == "closed" else "answered")
            if kept is None:
                del place[name]
            else:
                place[name] = kept


# ---- batches at limits, and stored in another form


@case("Produce", 9)
def a_batch_that_is_larger_than_a_segment(t, version):
    t.create("a", 1, {"segment.bytes": str(1 << 20), "max.message.bytes": str(3 << 20)})
    each_alone(t, version, raw_batch(record(value=b"x" * (1 << 21)), 1), raw_batch(record(value=b"x" * ((1 << 20) - 200)), 1), records("a"))


def packs(body, count, **more):
    return raw_batch(gzip.compress(body, 9, mtime=0), count, attributes=1, **more)


@case("Produce", 9)
def what_is_unpacked_may_be_too_large(t, version):
    t.create("a", 1, {"compression.type": "uncompressed", "max.message.bytes": "1000"})
    each_alone(t, version, packs(record(value=b"x" * 5000), 1), packs(record(value=b"x" * 500), 1), records("x" * 500), records("x" * 1000))
    fetch(t, 11, t.topic("a"), [(0, 0)])


@case("Produce", 9)
def what_is_packed_must_fit_before(t, version):
    t.create("a", 1, {"compression.type": "gzip", "max.message.bytes": "1000"})
    each_alone(t, version, records("x" * 5000), records("x" * 900))


@case("Produce", 9)
def batches_that_are_unpacked(t, version):
    """Each as it is stored then: its times, its numbers, and who made it."""
    t.create("a", 1, {"compression.type": "uncompressed"})
    t.create("b", 1, {"compression.type": "uncompressed", "message.timestamp.type": "LogAppendTime"})
    me = new_producer(t)
    for word in "ab":
        each_alone(t, version, packed([T0 + 5, T0 + 1, T0 + 9]), packs(record() + record(offset=1, time=9), 2, last=T0 + 99),
                   packs(record(key=b"", headers=[(b"k", None)]), 1),
                   packs(record() + record(offset=1), 2, producer=me, epoch=0, sequence=0 if word == "a" else 7),
                   packs(record(value=None), 1), word=word)
        fetch(t, 11, t.topic(word), [(0, 0)])
        for when in (T0, T0 + 1, T0 + 6, T0 + 9) if word == "a" else ():
            offsets(t, 8, t.topic(word), (0, when))
        producers(t, 0, (t.topic(word), [0]))


@case("Produce", 9)
def batches_that_are_unpacked_and_wrong(t, version):
    t.create("a", 1, {"compression.type": "uncompressed", "message.timestamp.after.max.ms": "1000"})
    each_alone(t, version, packs(record() + record(offset=1), 3), packs(record() + record(offset=1), 1), packs(record() + b"\0", 1),
               packs(record(time=10 * 3600 * 1000), 1), packs(record(length=3), 1))


@case("Produce", 9)
def the_brokers_time_and_packed_batches(t, version):
    t.create("a", 1, {"message.timestamp.type": "LogAppendTime"})
    me = new_producer(t)
    each_alone(t, version, packed([T0 + 5, T0 + 1, T0 + 9]), packed([1 << 50]),
               raw_batch(stored(record()), 1, attributes=1, producer=me, epoch=0, sequence=0))
    fetch(t, 11, t.topic("a"), [(0, 0)])
    producers(t, 0, (t.topic("a"), [0]))
    for when in (0, T0, 1 << 60):
        offsets(t, 8, t.topic("a"), (0, when))


@case("Produce", 9)
def a_topic_whose_times_are_set_by_another(t, version):
    t.create("a", 1)
    t.fill("a", records("a", at=T0))
    for kind in ("LogAppendTime", "CreateTime"):
        t.quietly("IncrementalAlterConfigs", 1, Resources=[{"ResourceType": 2, "ResourceName": t.topic("a"), "Configs": [
            {"Name": "message.timestamp.type", "ConfigOperation": 0, "Value": kind}]}])
        t.settle()
        t.quietly("Metadata", 12, Topics=[{"Name": t.topic("a")}])
        produce(t, version, t.topic("a"), [(0, records(kind, at=T0 + 7))])
        fetch(t, 11, t.topic("a"), [(0, 0)])


@case("Produce", 3, 9, 12)
def a_transactional_id_without_a_transaction(t, version):
    """It is looked at only where a batch is of a transaction."""
    t.create("a", 1)
    produce(t, version, t.topic("a"), [(0, records("a"))], TransactionalId="x")
    produce(t, version, t.topic("a"), [(0, records("a")), (7, records("b"))], TransactionalId="")
    produce(t, version, t.topic("a"), [(0, b"")], TransactionalId="x")
    offsets(t, 7, t.topic("a"), (0, -1))


# ---- what only replicas say


def fetch_with(t, version, topic, topic_id, offset=0, body=None, **more):
    part = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1000, **more}
    where = {"TopicId": topic_id} if version >= 13 else {"Topic": topic}
    return t.call("Fetch", version, MaxWaitMs=0, MinBytes=0, Topics=[{**where, "Partitions": [part]}], **(body or {}))


@case("Fetch", 12, 13, 18)
def starts_of_logs_that_readers_tell(t, version):
    topic_id = t.create("a", 1)
    t.fill("a", records("a", "b"))
    for start in (-1, -2, 0, 99):
        fetch_with(t, version, t.topic("a"), topic_id, LogStartOffset=start)
    fetch_with(t, version, t.topic("a"), topic_id, body={"ClusterId": "another"})
    fetch_with(t, version, t.topic("a"), topic_id, body={"RackId": "a rack"})


@case("Fetch", 4, 11, 12, 13)
def fetches_of_replicas(t, version):
    topic_id = t.create("a", 1)
    t.fill("a", records("a", "b"))
    for replica in (-2, -3, 0, 1, 7):
        for offset in (0, 2, 5):
            fetch_with(t, version, t.topic("a"), topic_id, offset, body={"ReplicaId": replica})


@case("Fetch", 4, 11, 13)
def limits_of_a_fetch_that_are_odd(t, version):
    topic_id = t.create("a", 2)
    t.fill("a", records("x" * 100), records("y" * 100))
    t.fill("a", records("z" * 100), partition=1)
    where = {"TopicId": topic_id} if version >= 13 else {"Topic": t.topic("a")}
    for min_bytes, max_bytes, part_bytes in ((-1, 1000, 1000), (-(1 << 31), 1, 1), (1, 0, 0), (0, (1 << 31) - 1, (1 << 31) - 1)):
        parts = [{"Partition": p, "FetchOffset": 0, "PartitionMaxBytes": part_bytes} for p in range(2)]
        t.call("Fetch", version, MaxWaitMs=0, MinBytes=min_bytes, MaxBytes=max_bytes, Topics=[{**where, "Partitions": parts}])

