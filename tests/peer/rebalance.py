#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a group of ten members takes to divide its partitions anew, at Weir and at an Apache Kafka, in turns: Weir, Kafka, Weir.

tests/peer/rebalance.py [--members N] [--rounds N] [--client confluent-kafka]

Each round one member leaves, and one comes; the time is from that to when all have what they shall have, as they say it themselves. Members
hear of a rebalance with their next heartbeat (every 500 ms here), which is most of it. WEIR_BUILD says where weir is, as for tests/e2e.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]

import groups  # noqa: E402  pylint: disable=wrong-import-position
import harness  # noqa: E402  pylint: disable=wrong-import-position
import kafka  # noqa: E402  pylint: disable=wrong-import-position

PARTITIONS = 20


def rounds(broker, args, strategy):
    """Seconds of each leaving, and of each coming."""
    topic = "t-" + strategy
    harness.until(lambda: not made(broker, topic), 60, "the topic is made")
    members = []
    try:
        for _ in range(args.members):
            members.append(groups.Member(args.client, broker, topic, topic, strategy))
        harness.until(lambda: groups.share_all(members, PARTITIONS), 120, "all members share the partitions")
        left, come = [], []
        for _ in range(args.rounds):
            began = time.monotonic()
            members.pop(0).close()
            harness.until(lambda: groups.share_all(members, PARTITIONS), 120, "the others share them")
            left.append(time.monotonic() - began)
            members.append(groups.Member(args.client, broker, topic, topic, strategy))
            harness.until(lambda: members[-1].moves > 0, 120, "it has come", 0.001)
            harness.until(lambda: groups.share_all(members, PARTITIONS), 120, "all share them again", 0.001)
            come.append(time.monotonic() - began - left[-1])
        return left, come
    finally:
        for member in members:
            member.kill()


def made(broker, topic):
    try:
        groups.make(broker, topic, PARTITIONS)
        return None
    except (AssertionError, OSError) as error:  # a Kafka that has just started
        return error


def measure(name, broker, args):
    for strategy in ("range", "cooperative-sticky"):
        left, come = rounds(broker, args, strategy)
        print(f"       {name:6} {strategy:18} one leaves: {statistics.median(left):.2f} s (most {max(left):.2f}); "
              f"one comes: {statistics.median(come):.2f} s (most {max(come):.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--client", default="confluent-kafka")
    args = parser.parse_args()
    for turn in ("weir", "kafka", "weir"):
        if turn == "weir":
            with harness.Broker(shards=2, settings={"group.initial.rebalance.delay.ms": 0}, name="rebalance") as broker:
                measure(turn, broker, args)
            continue
        with tempfile.TemporaryDirectory(prefix="weir-kafka.") as directory:
            other = kafka.Kafka(directory)
            other.start()
            try:
                measure(turn, other, args)
            finally:
                other.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
