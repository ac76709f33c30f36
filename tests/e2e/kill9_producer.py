# SPDX-License-Identifier: Apache-2.0
"""The producer of test_kill9.py: idempotent, acks=all, always with records waiting; kill9_producer.py BOOTSTRAP TOPIC PARTITIONS FILE SEED.

On standard input: 'state' is answered with 'state ACKNOWLEDGED UNACKNOWLEDGED'; 'finish' sends nothing new, waits until every record has
its report, and answers likewise. FILE has, with monotonic nanoseconds, a line per record that is sent: I NANOSECONDS NUMBER PARTITION
VALUE; and one per report: A NANOSECONDS NUMBER OFFSET, or F NANOSECONDS NUMBER CODE.
"""

import random
import sys
import threading
import time

from confluent_kafka import Producer

bootstrap, topic, partitions, path, seed = sys.argv[1:]
partitions = int(partitions)
dice = random.Random(int(seed))
WAITING = 2000  # so many are under way, as far as the queue has them

reports = open(path, "wb")  # pylint: disable=consider-using-with
acked = 0
finishing = threading.Event()


def fatal(error):
    if error.fatal():
        print(f"fatal: {error}", flush=True)
        sys.stderr.write(f"kill9_producer: fatal: {error}\n")


producer = Producer({
    "bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 2, "batch.num.messages": 200,
    "message.timeout.ms": 0, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20, "retry.backoff.max.ms": 100,
    "socket.timeout.ms": 10000, "error_cb": fatal, "log_level": 0})


def report(number):
    def done(error, message):
        global acked  # pylint: disable=global-statement
        if error is not None:
            print(f"failed {number} {error}", flush=True)
            reports.write(b"F %d %d %d\n" % (time.monotonic_ns(), number, error.code()))
            return
        acked += 1
        reports.write(b"A %d %d %d\n" % (time.monotonic_ns(), number, message.offset()))
    return done


def listen():
    for line in sys.stdin:
        if line.strip() == "finish":
            finishing.set()
            return
        print(f"state {acked} {len(producer)}", flush=True)


threading.Thread(target=listen, daemon=True).start()
sent = 0
while not finishing.is_set():
    if len(producer) >= WAITING:
        producer.poll(0.01)
        continue
    for _ in range(100):
        record = b"%d-" % sent + dice.randbytes(dice.randrange(4, 120)).hex().encode()
        partition = dice.randrange(partitions)
        reports.write(b"I %d %d %d %s\n" % (time.monotonic_ns(), sent, partition, record))
        producer.produce(topic, record, partition=partition, on_delivery=report(sent))
        sent += 1
    producer.poll(0)
left = producer.flush(60)
reports.close()
print(f"finish {acked} {left}", flush=True)
