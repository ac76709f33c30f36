# SPDX-License-Identifier: Apache-2.0
"""kafka-python as a helper of the tests: see client_words.py."""

import sys

import client_words
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError


class Client:
    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self._admin = None

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

    def produce(self, topic, codec, records):
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, compression_type=None if codec == "none" else codec,
                                 linger_ms=20, request_timeout_ms=30000)
        try:
            futures = [producer.send(topic, value=value, key=key, partition=partition, timestamp_ms=timestamp, headers=headers)
                       for partition, timestamp, key, value, headers in records]
            producer.flush(30)
            metadata = [future.get(30) for future in futures]
            return [(m.partition, m.offset) for m in metadata]
        finally:
            producer.close(5)

    def consume(self, topic, ends, where=("beginning", 0)):
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False, group_id=None, check_crcs=True,
                                 auto_offset_reset="earliest", consumer_timeout_ms=30000)
        try:
            consumer.assign([TopicPartition(topic, partition) for partition in ends])
            consumer.seek_to_beginning()
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
