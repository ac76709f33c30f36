#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unmodified clients create, produce with every codec, and read what the others wrote: all of them with two shards, the first four with one
and three."""

import os
import random
import re
import sys
import time

import harness
import wire
from harness import Broker, ClientError, Record, Skip, check, equal, open_clients, until

SHARDS = [int(word) for word in os.environ.get("WEIR_E2E_SHARDS", "1 2 3").split()]
CODECS = wire.CODECS
PARTITIONS = 6
OTHER_NAMES = {"INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION"}
ALPHABET = b"abcdefghijklmnopqrstuvwxyz0123456789 "


def words(dice, count):
    """Text that compresses, without tabs and line ends."""
    return bytes(dice.choices(ALPHABET, k=min(count, 200))) * (count // 200 + 1)


def records_for(client, codec, dice, count_per_partition=25):
    out = []
    now = int(time.time() * 1000)
    for i in range(count_per_partition * PARTITIONS):
        key = f"{client.name}-{codec}-{i}".encode()
        size = dice.choice([1, 10, 100, 1000])
        value = words(dice, size)[:size]
        headers = [("origin", client.name.encode()), ("codec", codec.encode())]
        timestamp = None
        if client.makes_timestamps:
            timestamp = now - dice.randrange(7 * 24 * 3600 * 1000)
            kind = dice.randrange(8)
            if kind == 0:
                key = None
            elif kind == 1:
                value = None
            elif kind == 2:
                value = b""
            elif kind == 3:
                value = dice.randbytes(size)  # any byte, line ends too
                headers = []
            elif kind == 4:
                nothing = b"" if client.name in ("kafka-python", "kafkajs") else None  # which take no null here
                headers = headers + [("nothing", nothing), ("empty", b""), ("codec", b"again")]
        out.append(Record(i % PARTITIONS, timestamp, key, value, headers))
    if client.name != "kcat":
        out.append(Record(0, now, b"large", words(dice, 400000), []))
    return out


def by_partition(records):
    out = {p: [] for p in range(PARTITIONS)}
    for record in records:
        out[record.partition].append(record)
    return out


def compare(reader, topic, want, got):
    for partition in range(PARTITIONS):
        w, g = want[partition], got[partition]
        equal([r.offset for r in g], list(range(len(w))), f"{reader} reads {topic}-{partition}: offsets")
        for a, b in zip(w, g):
            for field in ("key", "value", "headers", "timestamp"):
                x, y = getattr(a, field), getattr(b, field)
                if field == "headers" and reader == "kcat":  # it prints an empty header and a null one alike
                    x, y = [(n, v or b"") for n, v in x], [(n, v or b"") for n, v in y]
                if field == "headers" and "kafkajs" in (reader, topic[3:]):  # it has those of one name together
                    x, y = sorted(x, key=lambda pair: pair[0]), sorted(y, key=lambda pair: pair[0])
                if x != y:
                    raise AssertionError(f"{reader} reads {topic}-{partition} at {b.offset}: {field} {y!r:.200}, want {x!r:.200}")


def check_bytes(broker, topic, want, client_name):
    """Looks at the batches themselves: stored with the codec they were sent with."""
    with wire.Conn(broker.host, broker.port) as conn:
        for partition in range(PARTITIONS):
            codecs = []
            for _, _, codec, _, _ in conn.read_all(topic, partition, len(want[partition])):
                if not codecs or codecs[-1] != codec:
                    codecs.append(codec)
            seen = set(codecs)
            # librdkafka and kafka-python send a batch as it is when compression does not make it smaller.
            check(set(CODECS) == seen or (client_name != "java" and seen <= set(CODECS) and len(seen) >= 4),
                  f"{topic}-{partition} by {client_name}: stored with {codecs}")


def each_client_reads_each(broker, clients):
    dice = random.Random(f"{harness.SEED} {broker.shards}")
    topics = {}
    for name, client in clients.items():
        topic = f"by-{name}"
        if name == "kcat":  # by auto-create, with num.partitions
            started = int(time.time() * 1000)
        else:
            client.create(topic, PARTITIONS, {"retention.ms": "-1"})
            check(topic in client.topics(), f"{name} does not list {topic}")
            equal(client.configs(topic).get("retention.ms"), "-1", f"{name}: retention.ms of {topic}")
            configs = client.broker_configs()
            check(len(configs) > 20 and configs.get("message.max.bytes") == "1048588", f"{name}: broker configs {configs}")
        want = {p: [] for p in range(PARTITIONS)}
        for codec in CODECS:
            records = records_for(client, codec, dice)
            client.produce(topic, codec, records)
            for record in records:
                want[record.partition].append(record)
        if client.reports_offsets:
            for partition, rows in want.items():
                equal([r.offset for r in rows], list(range(len(rows))), f"{name}: reported offsets of {topic}-{partition}")
        topics[topic] = (name, want)
    for topic, (writer, want) in topics.items():
        check_bytes(broker, topic, want, writer)
        ends = {p: len(rows) for p, rows in want.items()}
        for name, client in clients.items():
            got = by_partition(client.consume(topic, ends))
            if writer == "kcat" and want[0][0].timestamp is None:
                for partition, rows in got.items():
                    for a, b in zip(want[partition], rows):
                        check(started <= b.timestamp <= time.time() * 1000, f"{topic}: a strange timestamp {b.timestamp}")
                        a.timestamp = b.timestamp
            compare(name, topic, want, got)
    return topics


def errors_are_clear(clients):
    for name, client in clients.items():
        if name == "kcat":
            continue
        for what, act, error in (
                ("a wrong config name", lambda: client.create("wrong-name", 1, {"retention.msec": "1"}), "INVALID_CONFIG"),
                ("a wrong config value", lambda: client.create("wrong-value", 1, {"retention.ms": "soon"}), "INVALID_CONFIG"),
                ("an existing topic", lambda: client.create("by-" + name, 1), "TOPIC_ALREADY_EXISTS"),
                ("a topic to delete that is not there", lambda: client.delete("nowhere"), "UNKNOWN_TOPIC_OR_PARTITION"),
                ("a bad name", lambda: client.create("a/b", 1), "INVALID_TOPIC_EXCEPTION")):
            try:
                act()
            except ClientError as got:
                equal(OTHER_NAMES.get(got.name, got.name), error, f"{name}: {what} ({got.message})")
                check(len(got.message) > 10, f"{name}: {what}: no message: {got.message!r}")
            else:
                raise AssertionError(f"{name}: {what} is taken")


def deleted_and_made_again(broker, clients):
    name = next((n for n in clients if n != "kcat"), None)
    if name is None:
        return
    client = clients[name]
    for round_ in range(3):
        harness.create_anew(client, "again", 3)
        records = [Record(p, 1700000000000 + round_, b"k", b"round %d" % round_) for p in range(3)]
        client.produce("again", "none", records)
        equal([r.offset for r in records], [0, 0, 0], "offsets of a topic made again")
        got = client.consume("again", {0: 1, 1: 1, 2: 1})
        equal({r.value for r in got}, {b"round %d" % round_}, "values of a topic made again")
        client.delete("again")
        with wire.Conn(broker.host, broker.port) as conn:
            until(lambda: conn.metadata(["again"])["again"][0] == 3, 10, "the deleted topic is unknown")


def kcat_lists(broker, clients, topics):
    if "kcat" not in clients:
        return
    text = clients["kcat"].run("-L").stdout.decode()
    check(f"broker 1 at {broker.bootstrap}" in text, f"kcat -L does not name the broker:\n{text}")
    for topic in topics:
        check(f'topic "{topic}" with {PARTITIONS} partitions' in text, f"kcat -L does not show {topic}:\n{text}")
    done = clients["kcat"].run("-C", "-t", "nowhere", "-p", "0", "-o", "beginning", "-e", "-X",
                               "allow.auto.create.topics=false", is_checked=False)
    check(b"Unknown topic" in done.stderr, f"kcat and an unknown topic: {done.stderr!r}")


def over_all_shards(broker):
    """One Produce and one Fetch over 12 partitions, with an error in the midst of it, and the joined answers."""
    with wire.Conn(broker.host, broker.port) as conn:
        equal(conn.create_topic("wide", 12)[0], 0, "create wide")
        until(lambda: all(row[0] == 0 for row in conn.list_offsets("wide", {p: -1 for p in range(12)}).values()), 10, "wide has leaders")
        rounds = 5
        for i in range(rounds):
            answer = conn.produce("wide", {p: wire.batch([b"%d of %d" % (i, p)] * (p + 1)) for p in range(12)})
            equal(answer, {("wide", p): (0, i * (p + 1)) for p in range(12)}, "one Produce over 12 partitions")
        parts = {p: wire.batch([b"x"]) for p in range(10, 14)}
        parts[11] = parts[11][:-1] + b"\xff"  # its crc is wrong now
        answer = conn.produce("wide", parts)
        equal({p: e for (_, p), (e, _) in answer.items()}, {10: 0, 11: 2, 12: 3, 13: 3}, "errors of a Produce")
        error, answer = conn.fetch("wide", {p: 0 for p in range(12)})
        equal(error, 0, "one Fetch over 12 partitions")
        for p in range(12):
            code, high, data = answer[("wide", p)]
            count = (p + 1) * rounds + (p == 10)
            equal((code, high), (0, count), f"error and high watermark of wide-{p}")
            equal(sum(n for _, _, _, n, _ in wire.batches(data)), count, f"records of wide-{p} in one Fetch")
        equal(conn.list_offsets("wide", {p: -1 for p in range(12)}),
              {p: (0, -1, (p + 1) * rounds + (p == 10)) for p in range(12)}, "latest offsets")
        error, answer = conn.fetch("wide", {0: 0, 1: 10 ** 9, 12: 0}, wait_ms=0)
        equal({p: a[0] for (_, p), a in answer.items()}, {0: 0, 1: 1, 12: 3}, "errors of a Fetch")


def still_all_there(broker, clients, topics, how):
    name = "confluent-kafka" if "confluent-kafka" in clients else next(iter(clients))
    client = harness.open_client(name, broker.bootstrap)
    try:
        for topic, (_, want) in topics.items():
            ends = {p: len(rows) for p, rows in want.items()}
            compare(name, topic, want, by_partition(client.consume(topic, ends)))
    except AssertionError as error:
        raise AssertionError(f"after {how}: {error}") from error
    finally:
        client.close()


def check_shards(shards):
    settings = {"num.partitions": PARTITIONS, "group.initial.rebalance.delay.ms": 0}
    if harness.AGAINST_KAFKA:
        raise Skip("see test_against_kafka")
    with Broker(shards, settings, name="clients") as broker:
        run_all(broker, harness.CLIENT_NAMES if shards == 2 else harness.FIRST_CLIENTS)


def run_all(broker, names=harness.CLIENT_NAMES, is_weir=True):
    clients = open_clients(broker.bootstrap, names)
    try:
        topics = each_client_reads_each(broker, clients)
        harness.say(f"       {len(clients)} clients wrote and read {len(topics)} topics with {len(CODECS)} codecs")
        errors_are_clear(clients)
        deleted_and_made_again(broker, clients)
        kcat_lists(broker, clients, topics)
        over_all_shards(broker)
        if is_weir:
            broker.stop()
            broker.start()
            still_all_there(broker, clients, topics, "SIGTERM")
            broker.kill()
            broker.start()
            still_all_there(broker, clients, topics, "SIGKILL")
    finally:
        for client in clients.values():
            client.close()


def test_one_shard():
    if 1 not in SHARDS:
        raise Skip("not asked for")
    check_shards(1)


def test_two_shards():
    if 2 not in SHARDS:
        raise Skip("not asked for")
    check_shards(2)


def test_three_shards():
    if 3 not in SHARDS:
        raise Skip("not asked for")
    check_shards(3)


# What librdkafka turns on for Kafka 4.3.1, by WEIR_E2E_AGAINST=kafka tests/e2e/test_clients.py test_librdkafka_turns_on_all_that_it_has
FEATURES = {"ApiVersion", "BrokerBalancedConsumer", "BrokerGroupCoordinator", "IdempotentProducer", "LZ4", "MsgVer2", "OffsetTime", "Sasl",
            "SaslAuthReq", "SaslHandshake", "ZSTD"}


def test_librdkafka_turns_on_all_that_it_has():
    with Broker(name="features") as broker:
        said = harness.Kcat(broker.bootstrap).run("-L", "-X", "debug=feature").stderr.decode()
        equal(set(re.findall(r"Enabling feature (\w+)", said)), FEATURES, "the features that librdkafka turns on")


def test_against_kafka():
    if not harness.AGAINST_KAFKA:
        raise Skip("WEIR_E2E_AGAINST=kafka runs the same against a real Kafka")
    broker = Broker(name="kafka")
    import kafka
    broker.kafka = kafka.Kafka(os.path.join(broker.directory, "kafka"), settings={"num.partitions": PARTITIONS, "group.initial.rebalance.delay.ms": 0})
    broker.log_path = broker.kafka.log_path
    with broker:
        run_all(broker, is_weir=False)


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
