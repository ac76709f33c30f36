# SPDX-License-Identifier: Apache-2.0
"""The brokers that are compared: Weir, Apache Kafka and the ideal one, each alive as long as the comparison.

Each has: kind, bootstrap, pid; fresh_topic(partitions, is_durable), which gives a name; drop_topic(name), which returns when its bytes are
gone, so that no run writes beside the leftovers of another; cpu_s(), memory_kib(). Weir's kind says how many shards it has, where that is
not one, and +http where it serves /metrics: weir, weir-2, weir-2+http.

Flush settings are equal: a topic that is not durable is never synced by either (weir.durability=page-cache; Kafka's default), one that is
durable is synced before each answer (Weir's default; flush.messages=1). Kafka runs with its own start script's garbage collector and a
heap of fixed size.
"""

import os
import queue
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "peer"))
sys.path.insert(0, os.path.join(TESTS, "e2e"))

import kafka  # noqa: E402  tests/peer
import wire  # noqa: E402  tests/e2e
from harness import BUILD, CLIENTS, ROOT, WEIR  # noqa: E402,F401  tests/e2e; pylint: disable=unused-import

IDEAL = os.path.join(BUILD, "bench-ideal")
TICKS = os.sysconf("SC_CLK_TCK")
KAFKA_JVM = ["-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
             "-XX:+ExplicitGCInvokesConcurrent"]


class Trouble(Exception):
    """A case can't be measured."""


# What a case may end by: a broker, a generator or a file that is not as it should be. RuntimeError is what tests/peer/kafka.py raises,
# AssertionError tests/e2e/wire.py.
TROUBLES = (Trouble, subprocess.SubprocessError, RuntimeError, OSError, AssertionError)


def cpu_clock(pid):
    """As clock_getcpuclockid(3), which Python does not have: CPUCLOCK_SCHED of a process."""
    return (~pid << 3) | 2


def file_system(directory=None):
    """The kind of the one that a directory is on; of the system's temporary folder where none is named."""
    done = subprocess.run(["df", "--output=fstype", directory or tempfile.gettempdir()], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def until(condition, timeout_s, what):
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise Trouble(f"not within {timeout_s} s: {what}")
        time.sleep(0.01)


class Child:
    """A process that says a line 'ready ... PLAINTEXT://HOST:PORT ...' when it serves."""

    def __init__(self, command, log_path):
        with open(log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        lines = queue.Queue()
        threading.Thread(target=lambda: [lines.put(line.decode()) for line in self.process.stdout], daemon=True).start()
        try:
            line = lines.get(timeout=60)
        except queue.Empty:
            line = ""
        match = re.search(r"PLAINTEXT://([0-9.]+:\d+)", line)
        if match is None:
            self.stop()
            with open(log_path, encoding="utf-8", errors="replace") as log:
                raise Trouble(f"{command[0]} did not start: {line!r}\n{log.read()[-2000:]}")
        self.bootstrap = match.group(1)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Served:
    """A process that serves at self.bootstrap: self.pid, and self.child where it is one that Child has started."""

    child = None

    def conn(self):
        host, port = self.bootstrap.split(":")
        return wire.Conn(host, int(port))

    def serve(self, command, log_path):
        self.child = Child(command, log_path)
        self.bootstrap = self.child.bootstrap
        self.pid = self.child.process.pid

    def stop(self):
        if self.child is not None:
            self.child.stop()
        self.child = None

    def cpu_s(self):
        """User and system time, all its threads, to the nanosecond: /proc/PID/stat counts in ticks of 10 ms."""
        return time.clock_gettime(cpu_clock(self.pid))

    def memory_kib(self, word="VmRSS"):
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
            return int(re.search(rf"^{word}:\s+(\d+) kB$", file.read(), re.M).group(1))


class Broker(Served):
    """What Weir and Kafka have in common: they speak the protocol."""

    kind = None
    durable_configs = {}
    fast_configs = {}

    def __init__(self, directory):
        self.directory = directory
        self.data = os.path.join(directory, "data")
        self.log_path = os.path.join(directory, "log")
        self.topics = 0
        os.makedirs(directory, exist_ok=True)

    def fresh_topic(self, partitions=1, is_durable=False, configs=None):
        self.topics += 1
        name = f"b{self.topics:04d}"
        wanted = {"max.message.bytes": str(16 << 20), **(self.durable_configs if is_durable else self.fast_configs), **(configs or {})}
        with self.conn() as conn:
            error = conn.create_topic(name, partitions, configs=wanted)[0]
            if error != 0:
                raise Trouble(f"{self.kind}: a topic of {partitions} partitions: error {error}")

            def is_led():
                rows = conn.list_offsets(name, {p: -1 for p in range(partitions)})
                return all(row[0] == 0 for row in rows.values())

            until(is_led, 60, f"{self.kind}: the partitions of {name} are led")
        return name

    def fresh_topics(self, count, partitions=1):
        """So many, made by one request."""
        names = [f"b{self.topics + 1 + i:04d}" for i in range(count)]
        self.topics += count
        topics = [wire.string(name) + struct.pack(">ih", partitions, 1) + wire.array([]) + wire.array([]) for name in names]
        led = (0, dict.fromkeys(range(partitions), 0))
        with self.conn() as conn:
            reader = conn.call(wire.CREATE_TOPICS, 4, wire.array(topics) + struct.pack(">ib", 30000, 0))
            reader.take("i")
            errors = {error for _, error, _ in reader.array(lambda: (reader.string(), reader.take("h"), reader.string()))}
            if errors != {0}:
                raise Trouble(f"{self.kind}: {count} topics: errors {errors}")
            until(lambda: list(conn.metadata(names).values()) == [led] * count, 60, f"{self.kind}: {count} topics are led")
        return names

    def end_offsets(self, name, partitions=1):
        with self.conn() as conn:
            return sum(row[2] for row in conn.list_offsets(name, {p: -1 for p in range(partitions)}).values())

    def drop_topic(self, name):
        self.drop_topics([name])

    def drop_topics(self, names):
        gone = set(names)
        with self.conn() as conn:
            reader = conn.call(wire.DELETE_TOPICS, 3, wire.array([wire.string(name) for name in names]) + struct.pack(">i", 30000))
            reader.take("i")
            errors = {error for _, error in reader.array(lambda: (reader.string(), reader.take("h")))}
            if errors != {0}:
                raise Trouble(f"{self.kind}: {len(names)} topics are dropped: errors {errors}")
        until(lambda: not any(entry.partition("-")[0] in gone for entry in os.listdir(self.data)), 60,
              f"{self.kind}: {names[0]} and {len(names) - 1} more are gone from the disk")


class Weir(Broker):
    fast_configs = {"weir.durability": "page-cache"}

    def __init__(self, directory, shards=1, is_watched=False):
        super().__init__(directory)
        self.kind = ("weir" if shards == 1 else f"weir-{shards}") + ("+http" if is_watched else "")
        self.shards = shards
        self.http_port = kafka.free_port() if is_watched else 0 # of /metrics

    def command(self, port=0):
        command = [WEIR, "serve", "--data-dir", self.data]
        settings = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "weir.http.listener": f"127.0.0.1:{self.http_port}" if self.http_port else "",
                    "weir.shards": self.shards, "log.segment.delete.delay.ms": "0"}
        return command + [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]

    def start(self):
        self.serve(self.command(), self.log_path)


class Kafka(Broker):
    kind = "kafka"
    durable_configs = {"flush.messages": "1"}

    def __init__(self, directory, heap="1g"):
        super().__init__(directory)
        self.kafka = kafka.Kafka(directory, heap=heap, jvm=[*KAFKA_JVM, f"-Xms{heap}"], settings={"log.segment.delete.delay.ms": "0"})

    def start(self):
        try:
            self.kafka.start()
        except BaseException:
            self.kafka.kill()
            raise
        self.bootstrap = self.kafka.bootstrap
        self.pid = self.kafka.process.pid

    def stop(self):
        try:
            self.kafka.stop()
        except subprocess.TimeoutExpired:
            self.kafka.kill()


class Ideal(Served):
    """Made anew for each topic: its files have no names."""

    def __init__(self, directory):
        self.kind = "ideal"
        self.directory = directory
        os.makedirs(directory, exist_ok=True)

    def start(self):
        pass

    def fresh_topic(self, partitions=1, is_durable=False, configs=None):
        del partitions, configs
        self.stop()
        self.serve([IDEAL, self.directory, *(["--sync"] if is_durable else [])], os.path.join(self.directory, "log"))
        return "b0001"

    def end_offsets(self, name, partitions=1):
        """By a Fetch at 0 of each partition: the high watermark, which is its end. A partition without records can't be asked."""
        total = 0
        with self.conn() as conn:
            for partition in range(partitions):
                body = conn.fetch_body(name, {partition: 0}, max_bytes=1)
                head = struct.pack(">hhi", wire.FETCH, 11, 1) + wire.string("replay")
                conn.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
                total += conn.fetch_answer(conn.receive(1))[1][(name, partition)][1]
        return total

    def drop_topic(self, name):
        del name
        self.stop()


class Mock:
    """What librdkafka has for its own tests: a broker on a thread of the generator itself, which keeps what came in memory for a while. Against
    it the generator shows how fast it can be at all; nothing of it is measured but that."""

    kind = "mock"
    bootstrap = "127.0.0.1:1" # not looked at
    directory = ""

    def start(self):
        pass

    def stop(self):
        pass

    def cpu_s(self):
        return 0.0

    def memory_kib(self, word="VmRSS"):
        del word
        return 0

    def fresh_topic(self, partitions=1, is_durable=False, configs=None):
        del partitions, is_durable, configs
        return "b0001"

    def drop_topic(self, name):
        pass


class Stable:
    """Starts a broker when it is first asked for, and stops all at the end. KIND:fresh is one that nobody has asked for before. No kind: none.

    renew() stops all, so that whoever asks next gets new ones: after a trouble nobody knows what is left of those.
    """

    def __init__(self, heap="1g", directory=None):
        self.heap = heap
        self.directory = tempfile.mkdtemp(prefix="weir-bench.", dir=directory)
        self.brokers = {}
        self.count = 0
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)

    def get(self, kind):
        if not kind:
            return None
        name, _, is_fresh = kind.partition(":")
        if is_fresh and name in self.brokers:
            self.end(self.brokers.pop(name))
        if name not in self.brokers:
            self.count += 1
            place = os.path.join(self.directory, f"{name}.{self.count}")
            weir = re.fullmatch(r"weir(?:-(\d+))?(\+http)?", name)
            broker = (Weir(place, int(weir[1] or 1), bool(weir[2])) if weir else Kafka(place, self.heap) if name == "kafka" else
                      Ideal(place) if name == "ideal" else Mock())
            broker.start()
            self.brokers[name] = broker
        return self.brokers[name]

    @staticmethod
    def end(broker):
        broker.stop()
        if broker.directory:
            shutil.rmtree(broker.directory, ignore_errors=True)

    def renew(self):
        while self.brokers:
            self.end(self.brokers.popitem()[1])

    def close(self):
        try:
            self.renew()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
