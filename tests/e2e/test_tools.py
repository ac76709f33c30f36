#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kafka's own command line tools, and the admin client of confluent-kafka, administer a broker: what they print is what was done."""

import json
import os
import re
import subprocess
import sys

import harness
import kafka
from harness import SKIPPED, Broker, Skip, ask, check, equal
from wire import METADATA, Conn, batch

CLASSES = {"kafka-topics": "TopicCommand", "kafka-configs": "kafka.admin.ConfigCommand", "kafka-get-offsets": "GetOffsetShell",
           "kafka-log-dirs": "LogDirsCommand", "kafka-broker-api-versions": "BrokerApiVersionsCommand",
           "kafka-delete-records": "DeleteRecordsCommand"}


def tool(broker, name, *args):
    """What a tool prints; it must not fail."""
    done = kafka.tool(CLASSES[name], "--bootstrap-server", broker.bootstrap, *args, timeout=120)
    check(done.returncode == 0, lambda: f"{name} {' '.join(args)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def need_kafka():
    if "kafka" in SKIPPED:
        raise Skip("Kafka's tools are left out by WEIR_E2E_SKIP")


def test_topics_are_made_grow_and_go():
    need_kafka()
    with Broker(shards=2, name="tools-topics") as broker:
        tool(broker, "kafka-topics", "--create", "--topic", "orders", "--partitions", "2", "--config", "retention.ms=60000")
        text = tool(broker, "kafka-topics", "--describe", "--topic", "orders")
        check("PartitionCount: 2" in text and "retention.ms=60000" in text, f"describe: {text}")
        equal(len(re.findall(r"Partition: \d+\s+Leader: \d+", text)), 2, "partitions that have a leader")
        tool(broker, "kafka-topics", "--alter", "--topic", "orders", "--partitions", "5")
        check("PartitionCount: 5" in tool(broker, "kafka-topics", "--describe", "--topic", "orders"), "it has grown")
        with Conn(broker.host, broker.port) as conn:
            for i in range(3):
                conn.produce("orders", {4: batch([b"x"] * 2)})
        text = tool(broker, "kafka-get-offsets", "--topic", "orders")
        equal(sorted(text.split()), ["orders:0:0", "orders:1:0", "orders:2:0", "orders:3:0", "orders:4:6"], "offsets")
        text = tool(broker, "kafka-log-dirs", "--describe", "--topic-list", "orders")
        logs = json.loads(text[text.index("{"):])["brokers"][0]["logDirs"][0]["partitions"]
        equal(sorted(p["partition"] for p in logs), [f"orders-{i}" for i in range(5)], "partitions in the log directory")
        check([p["size"] > 0 for p in sorted(logs, key=lambda p: p["partition"])] == [False] * 4 + [True], f"sizes: {logs}")
        path = os.path.join(broker.directory, "delete.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"version": 1, "partitions": [{"topic": "orders", "partition": 4, "offset": 3}]}, file)
        text = tool(broker, "kafka-delete-records", "--offset-json-file", path)
        check("low_watermark: 3" in text, f"delete records: {text}")
        broker.kill()
        broker.start()
        text = tool(broker, "kafka-get-offsets", "--topic", "orders", "--time", "earliest")
        check("orders:4:3" in text.split(), f"the first offset after it, and after a kill: {text}")
        text = tool(broker, "kafka-broker-api-versions")
        check("CreatePartitions(37): 0 to 3" in text, f"versions: {text[:2000]}")
        tool(broker, "kafka-topics", "--delete", "--topic", "orders")
        check("orders" not in tool(broker, "kafka-topics", "--list").split(), "it is gone")


def test_configs_are_altered_and_described():
    need_kafka()
    with Broker(name="tools-configs") as broker:
        tool(broker, "kafka-topics", "--create", "--topic", "orders")
        of_topic = ("--entity-type", "topics", "--entity-name", "orders")
        tool(broker, "kafka-configs", "--alter", *of_topic, "--add-config", "retention.ms=60000,cleanup.policy=[compact,delete]")
        text = tool(broker, "kafka-configs", "--describe", *of_topic)
        check("retention.ms=60000" in text and "cleanup.policy=compact,delete" in text, f"describe: {text}")
        tool(broker, "kafka-configs", "--alter", *of_topic, "--delete-config", "retention.ms")
        check("retention.ms" not in tool(broker, "kafka-configs", "--describe", *of_topic), "it is taken away")
        tool(broker, "kafka-configs", "--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "num.partitions=3")
        broker.stop()
        broker.start()
        check("num.partitions=3" in tool(broker, "kafka-configs", "--describe", "--entity-type", "brokers", "--entity-default"),
              "what was set for all brokers is kept over a restart")
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("three", partitions=-1)[0], 0, "create")
            equal(len(conn.metadata(["three"])["three"][1]), 3, "partitions of a topic that does not say how many")


def complaints(broker):
    """How often the log says that a connection is closed for what it asked, after one more reason to."""
    with Conn(broker.host, broker.port) as conn:
        conn.send(METADATA, 99, b"")
        try:
            conn.receive_exactly(1)
            raise AssertionError("a version that nobody has was answered")
        except ConnectionError:
            pass
    return broker.log().count("closing a connection")


def test_log_levels_change_while_the_broker_runs():
    need_kafka()
    with Broker(shards=2, name="tools-levels") as broker:
        loggers = ("kafka-configs", "--entity-type", "broker-loggers", "--entity-name", "1")
        equal(complaints(broker), 1, "lines of a level that is wanted")
        tool(broker, *loggers, "--alter", "--add-config", "broker=ERROR,plog=TRACE")
        equal(complaints(broker), 1, "lines when the level is above theirs")
        said = tool(broker, *loggers, "--describe")
        for line in ("broker=ERROR", "plog=TRACE", "root=INFO", "conn=INFO"):
            check(line in said, lambda: f"{line} is not in: {said}")
        tool(broker, *loggers, "--alter", "--delete-config", "broker")
        equal(complaints(broker), 2, "lines when the level is root's again")
        change = {"Name": "root", "ConfigOperation": 0, "Value": "FATAL"}
        resource = {"ResourceType": 8, "ResourceName": "1", "Configs": [change]}
        with Conn(broker.host, broker.port) as conn:
            answer = ask(conn, "IncrementalAlterConfigs", 1, Resources=[resource], ValidateOnly=False)
        equal(answer["Responses"][0]["ErrorCode"], 0, "the answer to a change of root")
        equal(complaints(broker), 2, "lines when root wants no warnings")


def test_confluent_kafka_administers():
    if "confluent-kafka" in SKIPPED:
        raise Skip("left out by WEIR_E2E_SKIP")
    with Broker(shards=2, name="admin-confluent") as broker:
        done = subprocess.run([*harness.python_helper("admin_confluent.py"), broker.bootstrap], capture_output=True, text=True, timeout=120,
                              check=False)
        check(done.returncode == 0, lambda: done.stdout + done.stderr)
        seen = json.loads(done.stdout)
        node = seen["controller"]
        wrong = seen.pop("wrong")
        check("Not a number of type LONG" in wrong, f"a wrong value: {wrong}")
        equal(seen, {"partitions": 2, "partitions after growth": 5, "operations": 8, "nodes": [[node, "127.0.0.1"]], "controller": node,
                     "topic configs": {"max.message.bytes": ["5000", 1, False], "cleanup.policy": ["delete,compact", 1, False],
                                       "retention.ms": ["604800000", 5, True]},
                     "from the broker": "7000", "read only": True, "latest": 0, "topics": []}, "what it saw")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
