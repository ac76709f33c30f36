# SPDX-License-Identifier: Apache-2.0
"""aiokafka as a helper of the tests: see client_words.py."""

import asyncio
import logging
import sys
import threading

import client_words
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError, KafkaConnectionError, for_code

PATIENCE_S = 50


def checked(code, message=None):
    if code != 0:
        error = for_code(code)
        raise client_words.Failed(error.message, message or error.description)


class Client:
    """Its loop runs in a thread of its own, so that the producers live on between the words."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self._admin = None
        self._producers = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    @staticmethod
    def error_of(error):
        if isinstance(error, BrokerResponseError):
            return error.message, error.description
        return None

    def _do(self, what):
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE_S)

    def _ask(self, call):
        async def ask():
            if self._admin is None:
                admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
                await admin.start()
                self._admin = admin
            return await call(self._admin)
        return self._do(ask())

    def create(self, topic, partitions, configs):
        new = NewTopic(name=topic, num_partitions=partitions, replication_factor=1, topic_configs=configs)
        for _, code, message in self._ask(lambda admin: admin.create_topics([new])).topic_errors:
            checked(code, message)

    def delete(self, topic):
        for _, code in self._ask(lambda admin: admin.delete_topics([topic])).topic_error_codes:
            checked(code)

    def topics(self):
        return sorted(self._ask(lambda admin: admin.list_topics()))

    def _configs(self, kind, name):
        (answer,) = self._ask(lambda admin: admin.describe_configs([ConfigResource(kind, name)]))
        ((code, message, _, _, entries),) = answer.resources
        checked(code, message)
        return {entry[0]: entry[1] for entry in entries}

    def configs(self, topic):
        return self._configs(ConfigResourceType.TOPIC, topic)

    def broker_configs(self):
        cluster = self._ask(lambda admin: admin.describe_cluster())
        return self._configs(ConfigResourceType.BROKER, str(cluster["brokers"][0]["node_id"]))

    def replace_configs(self, topic, configs):
        for answer in self._ask(lambda admin: admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])):
            for code, message, _, _ in answer.resources:
                checked(code, message)

    def add_partitions(self, topic, count):
        for _, code, message in self._ask(lambda admin: admin.create_partitions({topic: NewPartitions(count)})).topic_errors:
            checked(code, message)

    def delete_records(self, topic, before):
        self._ask(lambda admin: admin.delete_records({TopicPartition(topic, p): RecordsToDelete(offset) for p, offset in before.items()}))

    def groups(self):
        return [row[0] for row in self._ask(lambda admin: admin.list_consumer_groups())]

    def group(self, name):
        (answer,) = self._ask(lambda admin: admin.describe_consumer_groups([name]))
        ((code, _, state, _, _, members, *_),) = answer.groups
        checked(code)
        return state, [(member[0], "", member[1], member[2]) for member in members]

    def committed(self, group, topic):
        offsets = self._ask(lambda admin: admin.list_consumer_group_offsets(group))
        return {p.partition: offset.offset for p, offset in offsets.items() if p.topic == topic}

    def _with_consumer(self, call):
        async def do():
            consumer = None
            while consumer is None:
                consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False, auto_offset_reset="none",
                                            retry_backoff_ms=50)
                try:
                    await consumer.start()
                except KafkaConnectionError:  # a client of this kind does not start while its broker is away
                    await consumer.stop()
                    consumer = None
                    await asyncio.sleep(0.1)
            try:
                return await call(consumer)
            finally:
                await consumer.stop()
        return self._do(do())

    def list_offsets(self, topic, when):
        async def call(consumer):
            partitions = [TopicPartition(topic, p) for p in await self._partitions(consumer, topic)]
            if when == "earliest":
                return await consumer.beginning_offsets(partitions)
            if when == "latest":
                return await consumer.end_offsets(partitions)
            found = await consumer.offsets_for_times({p: int(when) for p in partitions})
            return {p: -1 if at is None else at.offset for p, at in found.items()}
        return {p.partition: offset for p, offset in self._with_consumer(call).items()}

    async def _partitions(self, consumer, topic):
        found = None
        while not found:  # the first question makes it ask for the topic
            found = consumer.partitions_for_topic(topic)
            if not found:
                await consumer.topics()
                consumer._client.add_topic(topic)  # pylint: disable=protected-access
                await consumer._client.force_metadata_update()  # pylint: disable=protected-access
        return sorted(found)

    async def _producer(self, codec):
        if codec not in self._producers:
            producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, compression_type=None if codec == "none" else codec,
                                        enable_idempotence=True, linger_ms=20, retry_backoff_ms=50, metadata_max_age_ms=1000)
            await producer.start()
            self._producers[codec] = producer
        return self._producers[codec]

    def produce(self, topic, codec, records):
        async def do():
            producer = await self._producer(codec)
            futures = [await producer.send(topic, value=value, key=key, partition=partition, timestamp_ms=timestamp, headers=headers)
                       for partition, timestamp, key, value, headers in records]
            return [(m.partition, m.offset) for m in await asyncio.gather(*futures)]
        return self._do(do())

    def consume(self, topic, ends, where=("beginning", 0)):
        async def call(consumer):
            partitions = [TopicPartition(topic, p) for p in ends]
            consumer.assign(partitions)
            kind, at = where
            if kind == "beginning":
                await consumer.seek_to_beginning()
            else:
                found = await consumer.offsets_for_times({p: at for p in partitions}) if kind == "time" else {}
                for p in partitions:
                    consumer.seek(p, found[p].offset if kind == "time" else at)
            left = dict(ends)
            out = []
            async for m in consumer:
                if m.partition in left and m.offset < left[m.partition]:
                    out.append((m.partition, m.offset, m.timestamp, m.key, m.value, list(m.headers)))
                    if m.offset + 1 >= left[m.partition]:
                        del left[m.partition]
                if not left:
                    break
            return out
        return self._with_consumer(call)


    def close(self):
        async def do():
            for producer in self._producers.values():
                await producer.stop()
            if self._admin is not None:
                await self._admin.close()
        self._do(do())


if __name__ == "__main__":
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a killed broker is no news
    client_words.serve(Client(sys.argv[1]))
