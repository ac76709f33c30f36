# SPDX-License-Identifier: Apache-2.0
"""kafka-python as a helper of the tests: see client_words.py."""

import sys

import client_words
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions
from kafka.errors import KafkaError


class Client:
    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self._admin = None
        self._producers = {}

    @property
    def admin(self):
        if self._admin is None:
            self._admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        return self._admin

    @staticmethod
    def error_of(error):
        if isinstance(error, KafkaError):
            return getattr(error, "message", None) or type(error).__name__, str(error)
        return None

    def create(self, topic, partitions, configs):
        self.admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}})

    def delete(self, topic):
        self.admin.delete_topics([topic])

    def topics(self):
        return sorted(self.admin.list_topics())

    def _configs(self, kind, name):
        answer = self.admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
        (configs,) = (by_name[name] for by_name in answer.values())
        return {k: (e["value"] if isinstance(e, dict) else e) for k, e in configs.items()}

    def configs(self, topic):
        return self._configs(ConfigResourceType.TOPIC, topic)

    def broker_configs(self):
        node = self.admin.describe_cluster()["brokers"][0]["broker_id"]
        return self._configs(ConfigResourceType.BROKER, str(node))

    def alter_configs(self, topic, configs):
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)], incremental=True)

    def add_partitions(self, topic, count):
        self.admin.create_partitions({topic: NewPartitions(count)})

    def _consumer(self, **config):
        return KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False, group_id=None, check_crcs=True,
                             auto_offset_reset="none", **config)

    def list_offsets(self, topic, when):
        consumer = self._consumer()
        try:
            partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
            if when == "earliest":
                found = consumer.beginning_offsets(partitions)
            elif when == "latest":
                found = consumer.end_offsets(partitions)
            else:
                found = {p: -1 if at is None else at.offset for p, at in consumer.offsets_for_times({p: int(when) for p in partitions}).items()}
            return {p.partition: offset for p, offset in found.items()}
        finally:
            consumer.close()

    def delete_records(self, topic, before):
        self.admin.delete_records({TopicPartition(topic, p): offset for p, offset in before.items()})

    def groups(self):
        return [group["group_id"] for group in self.admin.list_groups()]

    def group(self, name):
        group = self.admin.describe_groups([name])[name]
        return group["group_state"], [(m["member_id"], m["group_instance_id"] or "", m["client_id"], m["client_host"]) for m in group["members"]]

    def committed(self, group, topic):
        return {p.partition: at.offset for p, at in self.admin.list_group_offsets([group])[group].items() if p.topic == topic}

    def delete_group(self, name):
        self.admin.delete_groups([name])

    def _producer(self, codec):
        """Kept, so that what it knows of topics and of its sequences outlives them and the broker."""
        if codec not in self._producers:
            self._producers[codec] = KafkaProducer(bootstrap_servers=self.bootstrap, compression_type=None if codec == "none" else codec,
                                                   linger_ms=20, request_timeout_ms=30000, enable_idempotence=True,
                                                   metadata_max_age_ms=1000)
        return self._producers[codec]

    def produce(self, topic, codec, records):
        producer = self._producer(codec)
        futures = [producer.send(topic, value=value, key=key, partition=partition, timestamp_ms=timestamp, headers=headers)
                   for partition, timestamp, key, value, headers in records]
        producer.flush(50)
        metadata = [future.get(50) for future in futures]
        return [(m.partition, m.offset) for m in metadata]

    def consume(self, topic, ends, where=("beginning", 0)):
        consumer = self._consumer(consumer_timeout_ms=50000)
        try:
            partitions = [TopicPartition(topic, partition) for partition in ends]
            consumer.assign(partitions)
            kind, at = where
            if kind == "beginning":
                consumer.seek_to_beginning()
            else:
                found = consumer.offsets_for_times({p: at for p in partitions}) if kind == "time" else {}
                for p in partitions:
                    consumer.seek(p, found[p].offset if kind == "time" else at)
            left = dict(ends)
            out = []
            for m in consumer:
                if m.partition in left and m.offset < left[m.partition]:
                    out.append((m.partition, m.offset, m.timestamp, m.key, m.value, list(m.headers)))
                    if m.offset + 1 >= left[m.partition]:
                        del left[m.partition]
                if not left:
                    return out
            raise client_words.Failed("TIMED_OUT", f"nothing more came, left: {left}")
        finally:
            consumer.close()


if __name__ == "__main__":
    client_words.serve(Client(sys.argv[1]))
