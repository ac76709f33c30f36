# SPDX-License-Identifier: Apache-2.0
"""One member of a group (aiokafka), as member_confluent.py describes it; strategies: range, roundrobin, sticky.

  member_aiokafka.py BOOTSTRAP GROUP TOPIC STRATEGY [INSTANCE]
"""

import asyncio
import logging
import sys

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from member_words import SESSION_MS, end_of_input, say, say_moved

STRATEGIES = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}


class Listener(ConsumerRebalanceListener):
    """Holds a rebalance back while records are processed and not committed yet."""

    def __init__(self, lock):
        self.lock = lock

    async def on_partitions_revoked(self, revoked):
        async with self.lock:
            say_moved("revoked", revoked)

    async def on_partitions_assigned(self, assigned):
        say_moved("assigned", assigned)


async def run(bootstrap, group, topic, strategy, instance=""):
    ends = end_of_input()
    lock = asyncio.Lock()
    consumer = None
    while consumer is None:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
                                    session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500, max_poll_records=100, retry_backoff_ms=50,
                                    metadata_max_age_ms=2000,
                                    partition_assignment_strategy=[STRATEGIES[strategy]], group_instance_id=instance or None)
        consumer.subscribe([topic], listener=Listener(lock))
        try:
            await consumer.start()
        except KafkaError as error:  # a client of this kind does not start while its broker is away
            say("failed " + type(error).__name__)
            await consumer.stop()
            consumer = None
            await asyncio.sleep(0.1)
    while not ends.is_set():
        # Not within the lock: in a rebalance this waits, however long, for the partitions that the listener is to give back first.
        batches = await consumer.getmany(timeout_ms=100)
        async with lock:  # which nobody has: so far nothing has waited since the records were taken
            for batch in batches.values():
                for record in batch:
                    say(f"record {record.partition} {record.offset}")
            if batches:
                try:
                    await consumer.commit()
                    say("committed")
                except KafkaError as error:
                    say("uncommitted " + type(error).__name__)
    await consumer.stop()
    say("closed")


if __name__ == "__main__":
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    asyncio.run(run(*sys.argv[1:]))
