# SPDX-License-Identifier: Apache-2.0
"""Run with the clients' Python: administers the broker at argv[1] with confluent-kafka, and prints what it saw as one JSON object."""

import json
import sys

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec,
                                   ResourceType)

admin = AdminClient({"bootstrap.servers": sys.argv[1]})
seen = {}


def result(futures):
    """Of the one future."""
    (future,) = futures.values()
    return future.result(30)


def configs(kind, name):
    return result(admin.describe_configs([ConfigResource(kind, name)]))


def change(kind, name, operation, key, value):
    entry = ConfigEntry(key, value, incremental_operation=operation)
    result(admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=[entry])]))


result(admin.create_topics([NewTopic("t", 2, 1, config={"retention.ms": "60000"})]))
seen["partitions"] = len(admin.list_topics(timeout=30).topics["t"].partitions)
result(admin.create_partitions([NewPartitions("t", 5)]))
described = result(admin.describe_topics(TopicCollection(["t"]), include_authorized_operations=True))
seen["partitions after growth"] = len(described.partitions)
seen["operations"] = len(described.authorized_operations)
cluster = admin.describe_cluster(include_authorized_operations=True).result(30)
seen["nodes"] = [(node.id, node.host) for node in cluster.nodes]
seen["controller"] = cluster.controller.id
node = str(cluster.nodes[0].id)

change(ResourceType.TOPIC, "t", AlterConfigOpType.SET, "max.message.bytes", "5000")
change(ResourceType.TOPIC, "t", AlterConfigOpType.APPEND, "cleanup.policy", "compact")
change(ResourceType.TOPIC, "t", AlterConfigOpType.DELETE, "retention.ms", None)
found = configs(ResourceType.TOPIC, "t")
seen["topic configs"] = {key: (found[key].value, found[key].source, found[key].is_default)
                         for key in ("max.message.bytes", "cleanup.policy", "retention.ms")}
change(ResourceType.BROKER, node, AlterConfigOpType.SET, "log.retention.ms", "7000")
seen["from the broker"] = configs(ResourceType.TOPIC, "t")["retention.ms"].value
seen["read only"] = configs(ResourceType.BROKER, node)["node.id"].is_read_only
change(ResourceType.BROKER, node, AlterConfigOpType.DELETE, "log.retention.ms", None)
try:
    change(ResourceType.TOPIC, "t", AlterConfigOpType.SET, "retention.ms", "x")
    seen["wrong"] = "accepted"
except KafkaException as error:
    seen["wrong"] = error.args[0].str()

offsets = admin.list_offsets({TopicPartition("t", 4): OffsetSpec.latest()})
seen["latest"] = result(offsets).offset
result(admin.delete_topics(["t"]))
seen["topics"] = sorted(name for name in admin.list_topics(timeout=30).topics if not name.startswith("__"))
print(json.dumps(seen))
