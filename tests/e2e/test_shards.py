#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node is started with more shards than before, or fewer, as where it runs has other cores: each record, offset and producer is found
by the shard that has it now."""

import sys

from harness import Broker, equal, main
from wire import Conn, batch, batches

PARTITIONS = 20
TOPICS = {"synced": {}, "cached": {"weir.durability": "page-cache"}}
GROUPS = ("a", "b", "c", "d")


def produce(conn, topic, producer, sequence):
    """One batch to each partition; {partition: its offset}."""
    values = {p: batch([b"%s %d %d" % (topic.encode(), p, sequence)], producer_id=producer, producer_epoch=0, sequence=sequence)
              for p in range(PARTITIONS)}
    answers = conn.produce(topic, values)
    equal({error for error, _ in answers.values()}, {0}, f"errors of producing to {topic}")
    return {p: offset for (_, p), (_, offset) in answers.items()}


def expect_all(conn, topic, producer, count):
    """As many records in each partition, in order, and the last one is not taken twice."""
    for partition in range(PARTITIONS):
        _, parts = conn.fetch(topic, {partition: 0}, wait_ms=0)
        error, end, data = parts[(topic, partition)]
        equal((error, end), (0, count), f"the end of {topic}-{partition}")
        for sequence, (base, last, _, _, whole) in enumerate(batches(data)):
            wanted = b"%s %d %d" % (topic.encode(), partition, sequence)
            equal((base, last, wanted in whole), (sequence, sequence, True), f"record {sequence} of {topic}-{partition}")
    if count > 0:
        equal(produce(conn, topic, producer, count - 1), dict.fromkeys(range(PARTITIONS), count - 1), f"what {topic} had already")


def test_what_a_node_holds_is_found_by_any_number_of_shards():
    with Broker(shards=1, name="shards") as broker:
        with Conn(broker.host, broker.port) as conn:
            error, producer, _ = conn.init_producer_id()
            equal(error, 0, "a producer's id")
            for topic, configs in TOPICS.items():
                equal(conn.create_topic(topic, PARTITIONS, configs)[0], 0, "create " + topic)
        for life, (stop, shards) in enumerate(((None, 1), (broker.kill, 3), (broker.kill, 2), (broker.stop, 4), (broker.stop, 1), (broker.kill, 3))):
            if stop is not None:
                stop()
                broker.shards = shards
                broker.start()
            with Conn(broker.host, broker.port) as conn:
                for topic in TOPICS:
                    expect_all(conn, topic, producer, life)
                    equal(produce(conn, topic, producer, life), dict.fromkeys(range(PARTITIONS), life), f"offsets in life {life}")
                for number, group in enumerate(GROUPS):
                    wanted = {p: (100 * number + p + life - 1 if life > 0 else -1, "words" if life > 0 else "", 0) for p in range(PARTITIONS)}
                    equal(conn.fetch_offsets(group, "synced", range(PARTITIONS), 2), (0, wanted), f"offsets of {group} in life {life}")
                    asked = {p: 100 * number + p + life for p in range(PARTITIONS)}
                    equal(conn.commit_offsets(group, "synced", asked), dict.fromkeys(range(PARTITIONS), 0), f"a commit of {group}")


if __name__ == "__main__":
    sys.exit(main(globals()))
