# SPDX-License-Identifier: Apache-2.0
"""confluent-kafka (librdkafka) as a helper of the tests: see client_words.py."""

import sys

import client_words
from confluent_kafka import OFFSET_BEGINNING, Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, NewPartitions, NewTopic,
                                   OffsetSpec)

NO_BROKER = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)  # pylint: disable=protected-access


class Client:
    def __init__(self, bootstrap):
        self.common = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(dict(self.common))
        self.producers = {}

    @staticmethod
    def error_of(error):
        if isinstance(error, KafkaException):
            return error.args[0].name(), error.args[0].str()
        return None

    def create(self, topic, partitions, configs):
        self.admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1, config=configs)])[topic].result(30)

    def delete(self, topic):
        self.admin.delete_topics([topic])[topic].result(30)

    def topics(self):
        return sorted(self.admin.list_topics(timeout=30).topics)

    def _configs(self, kind, name):
        resource = ConfigResource(kind, name)
        return {k: e.value for k, e in self.admin.describe_configs([resource])[resource].result(30).items()}

    def configs(self, topic):
        return self._configs(ConfigResource.Type.TOPIC, topic)

    def broker_configs(self):
        return self._configs(ConfigResource.Type.BROKER, str(next(iter(self.admin.list_topics(timeout=30).brokers))))

    def alter_configs(self, topic, configs):
        entries = [ConfigEntry(k, v, ConfigSource.DYNAMIC_TOPIC_CONFIG, incremental_operation=AlterConfigOpType.SET) for k, v in configs.items()]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(30)

    def replace_configs(self, topic, configs):
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=configs)
        self.admin.alter_configs([resource])[resource].result(30)

    def add_partitions(self, topic, count):
        self.admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)

    def list_offsets(self, topic, when):
        spec = {"earliest": OffsetSpec.earliest, "latest": OffsetSpec.latest}.get(when, lambda: OffsetSpec.for_timestamp(int(when)))()
        partitions = self.admin.list_topics(topic, timeout=30).topics[topic].partitions
        return {p.partition: future.result(30).offset
                for p, future in self.admin.list_offsets({TopicPartition(topic, p): spec for p in partitions}).items()}

    def delete_records(self, topic, before):
        for future in self.admin.delete_records([TopicPartition(topic, p, offset) for p, offset in before.items()]).values():
            future.result(30)

    def groups(self):
        listed = self.admin.list_consumer_groups().result(30)
        for error in listed.errors:
            raise error
        return [group.group_id for group in listed.valid]

    def group(self, name):
        group = self.admin.describe_consumer_groups([name])[name].result(30)
        state = "".join(word.title() for word in group.state.name.split("_"))
        return state, [(m.member_id, m.group_instance_id or "", m.client_id, m.host) for m in group.members]

    def committed(self, group, topic):
        answer = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
        return {p.partition: p.offset for p in answer.topic_partitions if p.topic == topic}

    def delete_group(self, name):
        self.admin.delete_consumer_groups([name])[name].result(30)

    def _producer(self, codec):
        """Kept, so that what it knows of topics and of its sequences outlives them and the broker."""
        if codec not in self.producers:
            self.producers[codec] = Producer({**self.common, "compression.type": codec, "enable.idempotence": True, "linger.ms": 20,
                                              "message.timeout.ms": 50000, "reconnect.backoff.max.ms": 500, "log_level": 0,
                                              "topic.metadata.refresh.interval.ms": 1000})
        return self.producers[codec]

    def produce(self, topic, codec, records):
        producer = self._producer(codec)
        answers = [None] * len(records)

        def report(i):
            def done(error, message):
                answers[i] = error if error is not None else (message.partition(), message.offset())
            return done

        for i, (partition, timestamp, key, value, headers) in enumerate(records):
            producer.produce(topic, value=value, key=key, partition=partition, timestamp=timestamp, headers=headers,
                             on_delivery=report(i))
        producer.flush(50)
        for answer in answers:
            if answer is None:
                raise client_words.Failed("TIMED_OUT", "no report of delivery")
            if not isinstance(answer, tuple):
                raise KafkaException(answer)
        return answers

    def consume(self, topic, ends, where=("beginning", 0)):
        consumer = Consumer({**self.common, "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error",
                             "check.crcs": True, "reconnect.backoff.max.ms": 500, "log_level": 0})
        kind, at = where
        partitions = [TopicPartition(topic, p, OFFSET_BEGINNING if kind == "beginning" else at) for p in ends]
        if kind == "time":
            partitions = consumer.offsets_for_times(partitions, timeout=30)
        consumer.assign(partitions)
        out = []
        left = dict(ends)
        try:
            while left:
                message = consumer.poll(55)  # a Kafka takes long to come back
                if message is None:
                    raise client_words.Failed("TIMED_OUT", f"nothing more came, left: {left}")
                if message.error():
                    if message.error().retriable() or message.error().code() in NO_BROKER:
                        continue
                    raise KafkaException(message.error())
                partition, offset = message.partition(), message.offset()
                if partition in left and offset < left[partition]:
                    out.append((partition, offset, message.timestamp()[1], message.key(), message.value(), message.headers() or []))
                    if offset + 1 >= left[partition]:
                        del left[partition]
        finally:
            consumer.close()
        return out


if __name__ == "__main__":
    client_words.serve(Client(sys.argv[1]))
