# SPDX-License-Identifier: Apache-2.0
"""One member of a group (kafka-python), as member_confluent.py describes it; strategies: range, cooperative-sticky.

  member_kafka_python.py BOOTSTRAP GROUP TOPIC STRATEGY [INSTANCE]
"""

import sys
import time

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError
from member_words import SESSION_MS, end_of_input, say, say_moved

STRATEGIES = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        say_moved("revoked", revoked)

    def on_partitions_assigned(self, assigned):
        say_moved("assigned", assigned)

    def on_partitions_lost(self, lost):
        say_moved("lost", lost)


def patiently(what):
    """What it gives, once it gives something: much of this client does not start, but fails, while its broker is away."""
    while True:
        try:
            return what()
        except KafkaError as error:
            say("failed " + type(error).__name__)
            time.sleep(0.1)


def main(bootstrap, group, topic, strategy, instance=""):
    ends = end_of_input()
    consumer = patiently(lambda: KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, group_instance_id=instance or None, enable_auto_commit=False, auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500, max_poll_records=100, metadata_max_age_ms=2000, reconnect_backoff_max_ms=500,
        partition_assignment_strategy=[STRATEGIES[strategy]]))
    patiently(lambda: consumer.partitions_for_topic(topic))  # or it joins, hears of the topic meanwhile, and joins again
    consumer.subscribe([topic], listener=Listener())
    while not ends.is_set():
        # Where a shorter time ends just as it was given its partitions, it takes itself for a member and never becomes one.
        try:
            batches = consumer.poll(timeout_ms=1000)
        except KafkaError as error:
            say("failed " + type(error).__name__)
            time.sleep(0.1)
            continue
        for batch in batches.values():
            for record in batch:
                say(f"record {record.partition} {record.offset}")
        if not batches:
            continue
        try:
            consumer.commit()
            say("committed")
        except KafkaError as error:
            say("uncommitted " + type(error).__name__)
    consumer.close(autocommit=False)
    say("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
