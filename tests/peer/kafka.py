#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Apache Kafka of one node, formatted and started: for differential tests, and to try the tests themselves.

tests/peer/kafka.py [--port P] [--dir D]   runs one in the foreground; prints 'ready ...' as weir does; Ctrl-C ends it.
"""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = os.environ.get("WEIR_CLIENTS") or os.path.join(HERE, "..", "..", "build", "clients")


def class_path():
    subprocess.run([os.path.join(HERE, "get"), "kafka"], check=True)
    with open(os.path.join(CLIENTS, "kafka.classpath"), encoding="utf-8") as file:
        return file.read().strip()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _full_name(name):
    return name if name.startswith("kafka.") or name.startswith("org.") else "org.apache.kafka.tools." + name


def _tool_command(heap="256m"):
    return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path()]


def tool(name, *args, **kwargs):
    """Runs one of Kafka's tools, by its class name under org.apache.kafka.tools, or its full name."""
    return subprocess.run([*_tool_command(), _full_name(name), *args], check=False, capture_output=True, text=True, **kwargs)


class Tools:
    """The same, many of them in one JVM, one after the other: run(...) is its exit code and what it has printed. See Tools.java."""

    def __init__(self):
        self.process = subprocess.Popen([*_tool_command(), os.path.join(HERE, "Tools.java")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, name, *args, timeout_s=120):
        timer = threading.Timer(timeout_s, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write("\t".join([_full_name(name), *args]).encode() + b"\n")
            self.process.stdin.flush()
            head = self.process.stdout.readline().split()
            if len(head) != 2:
                raise RuntimeError(f"the JVM of the tools ended in {name} {' '.join(args)}")
            return int(head[0]), self.process.stdout.read(int(head[1])).decode()
        finally:
            timer.cancel()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Kafka:
    """start(), stop() by SIGTERM, kill() by SIGKILL; host, port, bootstrap."""

    def __init__(self, directory, port=0, heap="1g", settings=None, jvm=("-XX:+UseSerialGC",)):
        self.directory = directory
        self.host = "127.0.0.1"
        self.port = port or free_port()
        self.controller_port = free_port()
        self.heap = heap
        self.jvm = list(jvm)
        self.settings = settings or {}
        self.process = None
        self.log_path = os.path.join(directory, "kafka.log")

    @property
    def bootstrap(self):
        return f"{self.host}:{self.port}"

    def _java(self):
        return ["java", f"-Xmx{self.heap}", *self.jvm, "-cp", class_path()]

    def command(self):
        """What runs it, once it was started for the first time."""
        return [*self._java(), "kafka.Kafka", os.path.join(self.directory, "server.properties")]

    def start(self, timeout_s=90):
        os.makedirs(self.directory, exist_ok=True)
        path = os.path.join(self.directory, "server.properties")
        data = os.path.join(self.directory, "data")
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"{self.host}:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": data,
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        settings.update(self.settings)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{key}={value}\n" for key, value in settings.items())
        if not os.path.exists(data):
            cluster_id = subprocess.run([*self._java(), "kafka.tools.StorageTool", "random-uuid"], check=True, capture_output=True,
                                        text=True).stdout.split()[-1]
            subprocess.run([*self._java(), "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id, "-c", path],
                           check=True, capture_output=True)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                with socket.create_connection((self.host, self.port), timeout=1):
                    return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(self.log_path, encoding="utf-8", errors="replace") as log:
                    raise RuntimeError("Kafka did not start:\n" + log.read()[-3000:])
            time.sleep(0.1)

    def stop(self, timeout_s=60):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout_s)
        self.process = None

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process = None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dir", default=None)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    directory = args.dir or tempfile.mkdtemp(prefix="weir-kafka.")
    kafka = Kafka(directory, args.port, settings=dict(pair.split("=", 1) for pair in args.set))
    try:
        kafka.start()
        print(f"ready listeners=PLAINTEXT://{kafka.bootstrap}", flush=True)
        kafka.process.wait()
    except KeyboardInterrupt:
        pass
    finally:
        kafka.stop()
        if args.dir is None:
            shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
