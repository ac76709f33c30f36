# SPDX-License-Identifier: Apache-2.0
"""confluent-kafka (librdkafka) as a helper of the tests: see client_words.py."""

import sys

import client_words
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic


class Client:
    def __init__(self, bootstrap):
        self.common = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(dict(self.common))

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

    def produce(self, topic, codec, records):
        producer = Producer({**self.common, "compression.type": codec, "enable.idempotence": True, "linger.ms": 20,
                             "message.timeout.ms": 30000})
        answers = [None] * len(records)

        def report(i):
            def done(error, message):
                answers[i] = error if error is not None else (message.partition(), message.offset())
            return done

        for i, (partition, timestamp, key, value, headers) in enumerate(records):
            producer.produce(topic, value=value, key=key, partition=partition, timestamp=timestamp, headers=headers,
                             on_delivery=report(i))
        producer.flush(30)
        for answer in answers:
            if answer is None:
                raise client_words.Failed("TIMED_OUT", "no report of delivery")
            if not isinstance(answer, tuple):
                raise KafkaException(answer)
        return answers

    def consume(self, topic, ends, where=("beginning", 0)):
        consumer = Consumer({**self.common, "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error",
                             "check.crcs": True})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        out = []
        left = dict(ends)
        try:
            while left:
                message = consumer.poll(30)
                if message is None:
                    raise client_words.Failed("TIMED_OUT", f"nothing more came, left: {left}")
                if message.error():
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
