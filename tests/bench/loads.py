# SPDX-License-Identifier: Apache-2.0
"""The loads that brokers are put under, each with what it has measured: a dictionary of figures.

replay   weir bench replay: requests encoded once; the generator is hardly ever the ceiling
rdkafka  rdkafka_performance, of librdkafka's examples
java     Kafka's own ProducerPerformance, of the pinned jars

Figures of the broker are read from its processor-time clock around the run: cpu_us_request, cpu_ns_record, cpu_ms_gib, busy (its processor time by
time passed), memory_mib; generator_busy is the same of the generator: near 1 and above it is the generator that is measured.
"""

import json
import os
import re
import resource
import shlex
import subprocess
import time

from brokers import CLIENTS, ROOT, TICKS, WEIR, Trouble

GIB = 1 << 30


def _children_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _machine_s():
    """Processor time of everything on this machine."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, idle, iowait, irq, softirq, steal = (int(word) for word in file.readline().split()[1:9])
    del idle, iowait
    return (user + nice + system + irq + softirq + steal) / TICKS


def run(broker, command, timeout_s=300, codes=(0,)):
    """(what it printed, figures of the broker and the generator over the run)"""
    before_s, children_s, machine_s, start = broker.cpu_s(), _children_s(), _machine_s(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    wall_s = time.monotonic() - start
    cpu_s = broker.cpu_s() - before_s
    figures = {"cpu_s": cpu_s, "busy": cpu_s / wall_s, "generator_busy": (_children_s() - children_s) / wall_s}
    # Of whoever else ran meanwhile: with more than a little of it the figures are not worth much.
    figures["others_busy"] = max(0.0, (_machine_s() - machine_s - cpu_s - (_children_s() - children_s)) / wall_s)
    if done.returncode not in codes:
        raise Trouble(f"{' '.join(command)}\nended with {done.returncode}: {done.stderr[-1000:]}{done.stdout[-1000:]}")
    figures["memory_mib"] = broker.memory_kib() / 1024
    return done, figures


def _per(figures, requests, records, size_bytes):
    cpu_s = figures["cpu_s"]
    if requests:
        figures["cpu_us_request"] = cpu_s * 1e6 / requests
        figures["requests_core"] = requests / cpu_s if cpu_s else 0.0
    if records:
        figures["cpu_ns_record"] = cpu_s * 1e9 / records
    if size_bytes:
        figures["cpu_ms_gib"] = cpu_s * 1e3 / (size_bytes / GIB)
    return figures


def replay_command(broker, topic, what, options):
    command = [WEIR, "bench", "replay", what, "--bootstrap", broker.bootstrap, "--topic", topic, "--json"]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), *([] if value is True else [str(value)])]
    return command


def touch(broker, topic, partitions):
    """A record for each partition, so that its files are there; how many they were. One partition's are a matter of one request."""
    if partitions == 1 or broker.kind == "mock":
        return 0
    return replay(broker, topic, "produce", records=1, requests=partitions, partitions=partitions, in_flight=64)["records"]


def replay(broker, topic, what="produce", **options):
    done, figures = run(broker, replay_command(broker, topic, what, options))
    result = json.loads(done.stdout)
    if result["failed"]:
        raise Trouble(f"replay {what} {options}: {result['failed']} failed")
    seconds = result["seconds"]
    figures.update(requests=result["requests"], records=result["records"], bytes=result["bytes"], seconds=seconds,
                   requests_s=result["requests"] / seconds, records_s=result["records"] / seconds, mb_s=result["bytes"] / seconds / 1e6,
                   **{name.replace(".", "_") + "_us": value * 1e3 for name, value in result["latency_ms"].items()})
    figures["cpu_ms_sent_gib"] = figures["cpu_s"] * 1e3 / (result["request_bytes"] / GIB)
    return _per(figures, result["requests"], result["records"], result["bytes"])


RDKAFKA = os.path.join(CLIENTS, "rdkafka", "rdkafka_performance")


def rdkafka(broker, topic, records, size, acks=1, batch_bytes=1 << 20, partition="0", linger_ms=5, codec="none", producers=1):
    """partition "": each record to any, by a dice of its own. producers: so many processes, each with so many records; the time is then that
    from the first one's start to the last one's end."""
    command = [RDKAFKA, "-P", "-t", topic, *(["-p", partition] if partition else ["-X", "sticky.partitioning.linger.ms=0"]), "-b", broker.bootstrap,
               "-s", str(size), "-c", str(records), "-a", str(acks), "-q", "-z", codec, "-X", f"batch.size={batch_bytes}", "-X",
               "batch.num.messages=1000000", "-X", f"linger.ms={linger_ms}", "-X", "queue.buffering.max.messages=1000000", "-X",
               f"message.max.bytes={max(1 << 20, 2 * batch_bytes)}", *(["-X", "test.mock.num.brokers=1"] if broker.kind == "mock" else [])]
    began_s = time.monotonic()
    # It counts what it has sent in two threads, and ends with 1 where that went wrong by one; what it says of deliveries is looked at below.
    done, figures = run(broker, command if producers == 1 else ["sh", "-c", f"{shlex.join(command)} & " * producers + "wait"], codes=(0, 1))
    seconds = time.monotonic() - began_s
    text = done.stdout + done.stderr
    # "% 5000000 messages produced (500000000 bytes), 0 delivered ... in 1234ms: 4050000 msgs/s and 405.00 MB/s, 0 produce failures, ..."
    rows = re.findall(r"(\d+) messages produced \(\d+ bytes\), (\d+) delivered .*? in (\d+)ms: (\d+) msgs/s .*?, (\d+) produce failures", text)
    if [int(row[1]) for row in rows if int(row[1])][-producers:] != [records] * producers:
        raise Trouble(f"rdkafka_performance: {text[-500:]!r}")
    seconds = int(rows[-1][2]) / 1e3 if producers == 1 else seconds
    records *= producers
    figures.update(records=records, seconds=seconds, records_s=records / seconds, mb_s=records * size / seconds / 1e6)
    if broker.kind == "mock": # it has no process of its own
        return {key: figures[key] for key in ("records", "seconds", "records_s", "mb_s", "generator_busy")}
    return _per(figures, 0, records, records * size)


def rdkafka_consume(broker, topic, records, size):
    """From the beginning of partition 0."""
    done, figures = run(broker, [RDKAFKA, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-b", broker.bootstrap, "-c", str(records), "-q"])
    # "% 302136 messages (302136000 bytes) consumed in 1917ms: 157545 msgs/s (157.55 MB/s)": whole batches, so a few more than asked for
    rows = re.findall(r"(\d+) messages \((\d+) bytes\) consumed in (\d+)ms", done.stdout + done.stderr)
    if not rows or int(rows[-1][0]) < records or int(rows[-1][1]) != int(rows[-1][0]) * size:
        raise Trouble(f"rdkafka_performance -C: {done.stdout[-500:]!r}{done.stderr[-500:]!r}")
    records, size_bytes, seconds = int(rows[-1][0]), int(rows[-1][1]), int(rows[-1][2]) / 1e3
    figures.update(records=records, bytes=size_bytes, seconds=seconds, records_s=records / seconds, mb_s=size_bytes / seconds / 1e6)
    return _per(figures, 0, records, size_bytes)


def java(broker, topic, records, size, acks=1, batch_bytes=1 << 20):
    with open(os.path.join(CLIENTS, "kafka.classpath"), encoding="utf-8") as file:
        path = file.read().strip()
    properties = [f"acks={acks}", f"batch.size={batch_bytes}", "linger.ms=5", f"max.request.size={4 * batch_bytes}",
                  "buffer.memory=67108864", "enable.idempotence=false"]
    command = ["java", "-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-cp", path, "org.apache.kafka.tools.ProducerPerformance", "--topic", topic,
               "--num-records", str(records), "--record-size", str(size), "--throughput", "-1", "--bootstrap-server", broker.bootstrap,
               "--command-property", *properties]
    done, figures = run(broker, command)
    match = re.findall(r"(\d+) records sent, ([0-9.]+) records/sec \(([0-9.]+) MB/sec\), ([0-9.]+) ms avg latency.*?(\d+) ms 50th, .*?(\d+) ms 99th",
                       done.stdout)
    if not match or int(match[-1][0]) != records:
        raise Trouble(f"ProducerPerformance: {done.stdout[-500:]!r} {done.stderr[-500:]!r}")
    rate = float(match[-1][1])
    figures.update(records=records, records_s=rate, mb_s=rate * size / 1e6, p50_us=float(match[-1][4]) * 1e3, p99_us=float(match[-1][5]) * 1e3)
    return _per(figures, 0, records, records * size)


def need():
    """Gets the generators that are not ours; before any network is taken away."""
    subprocess.run([os.path.join(ROOT, "tests", "peer", "get"), "kafka", "rdkafka_performance"], check=True)
