# SPDX-License-Identifier: Apache-2.0
"""One member of a group (librdkafka), which says what it does, a line each, until its standard input says something or ends:

  assigned P,P   revoked P,P   lost P,P   record PARTITION OFFSET   committed [P]   uncommitted WHY [P]   failed WHY...   closed

  member_confluent.py BOOTSTRAP GROUP TOPIC STRATEGY [INSTANCE]

WEIR_SESSION_MS is the time-out of its session, 10 s where it is not set.
"""

import sys

from confluent_kafka import Consumer, KafkaException
from member_words import SESSION_MS, end_of_input, say, say_moved


def main(bootstrap, group, topic, strategy, instance=""):
    config = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
              "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500, "partition.assignment.strategy": strategy,
              "reconnect.backoff.max.ms": 500, "topic.metadata.refresh.interval.ms": 2000}
    if instance:
        config["group.instance.id"] = instance
    consumer = Consumer(config)
    ends = end_of_input()
    consumer.subscribe([topic], on_assign=lambda _, p: say_moved("assigned", p), on_revoke=lambda _, p: say_moved("revoked", p),
                       on_lost=lambda _, p: say_moved("lost", p))
    while not ends.is_set():
        messages = [m for m in consumer.consume(100, 0.1) if not m.error()]
        for message in messages:
            say(f"record {message.partition()} {message.offset()}")
        if not messages:
            continue
        try:
            consumer.commit(asynchronous=False)
            say("committed")
        except KafkaException as error:
            say("uncommitted " + error.args[0].name())
    consumer.close()
    say("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
