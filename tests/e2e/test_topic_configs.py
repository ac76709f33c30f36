#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a topic's configs do to what is produced to it: compression.type with its levels, seen in the bytes that are fetched."""

import os
import random
import sys
import time

import harness
import wire
from harness import SEED, Broker, Kcat, check, equal, until
from wire import CODECS, Conn, batch

MESSAGE_TOO_LARGE, INVALID_TIMESTAMP = 10, 32


def some_lines(count=1500):
    """Text that every codec makes smaller, the better ones more so."""
    dice = random.Random(SEED)
    words = [bytes(dice.choice(b"abcdefghij") for _ in range(dice.randrange(3, 9))) for _ in range(300)]
    return [b" ".join(dice.choice(words) for _ in range(12)) for _ in range(count)]


def fetched(broker, topic):
    """[(codec, bytes)] of the batches as they lie there; their crcs are looked at."""
    with Conn(broker.host, broker.port) as conn:
        end = conn.list_offsets(topic, {0: -1})[0][2]
        return [(codec, whole) for _, _, codec, _, whole in conn.read_all(topic, 0, end)]


def produce(broker, topic, codec, lines):
    Kcat(broker.bootstrap).run("-P", "-t", topic, "-z", codec, "-X", "linger.ms=200", stdin=b"\n".join(lines) + b"\n")


def consume(broker, topic):
    return Kcat(broker.bootstrap).run("-C", "-t", topic, "-o", "beginning", "-e", "-q").stdout.splitlines()


def test_a_topic_has_its_own_compression():
    lines = some_lines()
    with Broker(2, name="compression") as broker:
        for form in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
            with Conn(broker.host, broker.port) as conn:
                equal(conn.create_topic(form, configs={"compression.type": form})[0], 0, f"create {form}")
            for codec in CODECS:
                produce(broker, form, codec, lines)
            kept = fetched(broker, form)
            equal({codec for codec, _ in kept}, {"none" if form == "uncompressed" else form}, f"the codecs in topic {form}")
            equal(consume(broker, form), lines * len(CODECS), f"what is read from topic {form}")
        broker.kill()
        broker.start()
        equal({codec for codec, _ in fetched(broker, "zstd")}, {"zstd"}, "after a restart")
        equal(consume(broker, "zstd"), lines * len(CODECS), "what is read after a restart")


def test_a_topic_keeps_what_its_producers_compress():
    lines = some_lines()
    with Broker(1, name="producer") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t")[0], 0, "create")
        for codec in CODECS:
            produce(broker, "t", codec, lines)
        equal({codec for codec, _ in fetched(broker, "t")}, set(CODECS), "the codecs of the producers")


def test_a_level_makes_batches_smaller():
    lines = some_lines(4000)
    with Broker(1, name="levels") as broker:
        for form, low, high in (("gzip", 1, 9), ("zstd", -50, 19), ("lz4", 9, 17)):
            sizes = []
            for level in (low, high):
                topic = f"{form}-{level}"
                with Conn(broker.host, broker.port) as conn:
                    configs = {"compression.type": form, f"compression.{form}.level": str(level), "max.message.bytes": "4000000"}
                    equal(conn.create_topic(topic, configs=configs)[0], 0, f"create {topic}")
                    equal(conn.produce(topic, {0: batch(lines)})[(topic, 0)][0], 0, f"produce to {topic}")
                (codec, whole), = fetched(broker, topic)
                equal(codec, form, f"the codec of {topic}")
                sizes.append(len(whole))
                equal(consume(broker, topic), lines, f"what is read from {topic}")
            check(sizes[1] < sizes[0], f"{form}: {sizes[1]} bytes at level {high}, {sizes[0]} at level {low}")


def test_an_old_record_inside_a_compressed_batch_is_seen():
    now = int(time.time() * 1000)
    with Broker(1, name="old") as broker:
        with Conn(broker.host, broker.port) as conn:
            for topic, configs in (("any", None), ("young", {"message.timestamp.before.max.ms": "60000"})):
                equal(conn.create_topic(topic, configs=configs)[0], 0, "create")
            lines = b"\n".join([b"x" * 100] * 200)
            produce(broker, "any", "lz4", lines.split(b"\n"))
            (codec, packed), = fetched(broker, "any")
            equal(codec, "lz4", "the batch")
            packed = wire.patched(packed, 0, "q", 0, with_crc=False)
            equal(conn.produce("young", {0: packed})[("young", 0)][0], 0, "records of now")
            # The base timestamp is that of the first record, and the others count from it; the header's greatest stays.
            old = wire.patched(packed, 27, "q", now - 3600 * 1000)
            equal(conn.produce("young", {0: old})[("young", 0)][0], INVALID_TIMESTAMP, "records of an hour ago")


def test_a_preallocated_segment_has_its_disk_at_once_and_gives_the_rest_back():
    with Broker(1, name="preallocate") as broker:
        with Conn(broker.host, broker.port) as conn:
            configs = {"preallocate": "true", "segment.bytes": str(4 << 20), "max.message.bytes": str(2 << 20)}
            equal(conn.create_topic("t", configs=configs)[0], 0, "create")
            big = batch([b"x" * (1 << 20)])
            equal(conn.produce("t", {0: big})[("t", 0)][0], 0, "produce")
            first = os.path.join(broker.data, "t-0", "00000000000000000000.log")
            check(os.stat(first).st_size < 2 << 20, "the file is as long as what is in it")
            check(os.stat(first).st_blocks * 512 >= 4 << 20, "and has the disk of a whole segment")
            for _ in range(3):
                equal(conn.produce("t", {0: big})[("t", 0)][0], 0, "produce")
            until(lambda: os.path.exists(os.path.join(broker.data, "t-0", "00000000000000000003.log")), 10, "the next segment")
            until(lambda: os.stat(first).st_blocks * 512 < 3.5 * (1 << 20), 10, "a sealed one has what it needs")


def test_what_is_too_large_once_it_is_stored_is_refused():
    lines = some_lines()
    with Broker(1, name="grown") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("from")[0], 0, "create")
            produce(broker, "from", "zstd", lines)
            packed = fetched(broker, "from")[0][1]
            size = len(b"".join(lines))
            configs = {"compression.type": "uncompressed", "max.message.bytes": str(len(packed) + 100)}
            check(len(packed) + 100 < size // 2, "it grows")
            equal(conn.create_topic("to", configs=configs)[0], 0, "create")
            first = wire.patched(packed, 0, "q", 0, with_crc=False)
            equal(conn.produce("to", {0: first})[("to", 0)][0], MESSAGE_TOO_LARGE, "a batch that grows beyond the limit")
            equal(conn.list_offsets("to", {0: -1})[0][2], 0, "and nothing of it is there")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
