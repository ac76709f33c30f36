// SPDX-License-Identifier: Apache-2.0
//
// kafkajs as a helper of the tests.
//
//   node kafkajs.js BOOTSTRAP                               answers the words of tests/e2e/client_words.py; it has no call for alter_configs
//   node kafkajs.js member BOOTSTRAP GROUP TOPIC STRATEGY   a member as tests/e2e/member_confluent.py describes it; STRATEGY: roundrobin, by
//                                                           which it shares with its like only; it knows no static members
//
// It reads by groups alone, so 'consume' is a group of one that seeks and commits nothing. Headers are an object to it: those of one name come
// together. Its packages are found in NODE_PATH.
'use strict';

const readline = require('readline');
const {
  Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, PartitionAssigners, logLevel,
} = require('kafkajs');
const lz4 = require('lz4-napi');
const zstd = require('@mongodb-js/zstd');

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: (encoder) => zstd.compress(encoder.buffer),
  decompress: (buffer) => zstd.decompress(buffer),
});

const TYPES = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

class Failed extends Error {
  constructor(name, message) {
    super(message);
    this.type = name;
  }
}

const pack = (data) => (data === null || data === undefined ? '-' : `=${Buffer.from(data).toString('base64')}`);
const unpack = (text) => (text === '-' ? null : Buffer.from(text.slice(1), 'base64'));
const named = (text) => Object.fromEntries(text.split(',').filter(Boolean).map((item) => {
  const at = item.indexOf('=');
  return [item.slice(0, at), item.slice(at + 1)];
}));
const offsets = (text) => text.split(',').map((item) => item.split(':').map(Number));

function open(bootstrap, retries = 200) {
  return new Kafka({
    clientId: 'kafkajs',
    brokers: [bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 500, retries },
  });
}

function readRecord(line) {
  const [partition, timestamp, key, value, text] = line.split('\t');
  const headers = {};
  for (const item of text.split(',').filter(Boolean)) {
    const [name, data] = item.split(':');
    const decoded = Buffer.from(name, 'base64').toString();
    headers[decoded] = decoded in headers ? [].concat(headers[decoded], [unpack(data)]) : unpack(data);
  }
  return {
    partition: Number(partition), timestamp, key: unpack(key), value: unpack(value), headers,
  };
}

function recordRow(partition, message) {
  const headers = Object.entries(message.headers || {}).flatMap(([name, value]) => (Array.isArray(value) ? value : [value])
    .map((data) => `${Buffer.from(name).toString('base64')}:${pack(data)}`));
  return [partition, message.offset, message.timestamp, pack(message.key), pack(message.value), headers.join(',')];
}

class Client {
  constructor(bootstrap) {
    this.bootstrap = bootstrap;
    this.kafka = open(bootstrap);
    this.kept = null;
    this.producers = {};
    this.groupCount = 0;
  }

  async admin() {
    if (!this.kept) {
      const admin = open(this.bootstrap, 10).admin(); // it tries again when a topic is unknown, too
      await admin.connect();
      this.kept = admin;
    }
    return this.kept;
  }

  async create(topic, partitions, configs) {
    const configEntries = Object.entries(named(configs)).map(([name, value]) => ({ name, value }));
    const isMade = await (await this.admin()).createTopics({
      topics: [{
        topic, numPartitions: Number(partitions), replicationFactor: 1, configEntries,
      }],
    });
    if (!isMade) {
      throw new Failed('TOPIC_ALREADY_EXISTS', 'which is all that the client says');
    }
  }

  async delete(topic) {
    await (await this.admin()).deleteTopics({ topics: [topic] });
  }

  async topics() {
    return (await (await this.admin()).listTopics()).sort().map((name) => [name]);
  }

  async configsOf(type, name) {
    const answer = await (await this.admin()).describeConfigs({ includeSynonyms: false, resources: [{ type, name }] });
    return answer.resources[0].configEntries.map((entry) => [entry.configName, entry.configValue ?? '']).sort();
  }

  configs(topic) {
    return this.configsOf(ConfigResourceTypes.TOPIC, topic);
  }

  async broker_configs() {
    const { brokers } = await (await this.admin()).describeCluster();
    return this.configsOf(ConfigResourceTypes.BROKER, String(brokers[0].nodeId));
  }

  async replace_configs(topic, configs) {
    const configEntries = Object.entries(named(configs)).map(([name, value]) => ({ name, value }));
    await (await this.admin()).alterConfigs({
      validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }],
    });
  }

  async add_partitions(topic, count) {
    await (await this.admin()).createPartitions({ topicPartitions: [{ topic, count: Number(count) }] });
  }

  async list_offsets(topic, when) {
    const admin = await this.admin();
    const rows = when === 'earliest' || when === 'latest' ? await admin.fetchTopicOffsets(topic)
      : await admin.fetchTopicOffsetsByTimestamp(topic, Number(when));
    return rows.map((row) => [row.partition, when === 'earliest' ? row.low : row.offset]).sort((a, b) => a[0] - b[0]);
  }

  async delete_records(topic, before) {
    const partitions = offsets(before).map(([partition, offset]) => ({ partition, offset: String(offset) }));
    await (await this.admin()).deleteTopicRecords({ topic, partitions });
  }

  async groups() {
    return (await (await this.admin()).listGroups()).groups.map((group) => [group.groupId]).sort();
  }

  async group(name) {
    const [group] = (await (await this.admin()).describeGroups([name])).groups;
    return [[group.state, group.members.length],
      ...group.members.map((member) => [member.memberId, '', member.clientId, member.clientHost])];
  }

  async committed(groupId, topic) {
    const [answer] = await (await this.admin()).fetchOffsets({ groupId, topics: [topic] });
    return answer.partitions.filter((row) => row.offset !== '-1').map((row) => [row.partition, row.offset]).sort((a, b) => a[0] - b[0]);
  }

  async delete_group(group) {
    await (await this.admin()).deleteGroups([group]);
  }

  // Kept, so that what it knows of topics and of its sequences outlives them and the broker.
  async producer(codec) {
    if (!this.producers[codec]) {
      const producer = this.kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false, metadataMaxAge: 1000 });
      await producer.connect();
      this.producers[codec] = producer;
    }
    return this.producers[codec];
  }

  async produce(topic, codec, count, records) {
    const answers = await (await this.producer(codec)).send({
      topic, acks: -1, compression: TYPES[codec], messages: records,
    });
    const next = Object.fromEntries(answers.map((row) => [row.partition, Number(row.baseOffset)]));
    return records.map((record) => [record.partition, next[record.partition]++]);
  }

  async consume(topic, ends, where = 'beginning') {
    const left = new Map(offsets(ends).filter(([, end]) => end > 0));
    const [kind, at] = where.split(':');
    const from = new Map([...left.keys()].map((partition) => [partition, at]));
    if (kind !== 'offset') {
      for (const [partition, offset] of await this.list_offsets(topic, kind === 'time' ? at : 'earliest')) {
        from.set(partition, String(offset));
      }
    }
    this.groupCount += 1;
    const groupId = `kafkajs-${process.pid}-${this.groupCount}`;
    const consumer = this.kafka.consumer({ groupId, allowAutoTopicCreation: false, maxWaitTimeInMs: 500 });
    const rows = [];
    try {
      await consumer.connect();
      await consumer.subscribe({ topics: [topic], fromBeginning: true });
      await new Promise((resolve, reject) => {
        consumer.on(consumer.events.CRASH, (event) => {
          if (!event.payload.restart) reject(event.payload.error);
        });
        consumer.run({
          autoCommit: false,
          eachBatch: async ({ batch, resolveOffset }) => {
            for (const message of batch.messages) {
              const end = left.get(batch.partition);
              if (end !== undefined && Number(message.offset) < end) {
                rows.push(recordRow(batch.partition, message));
                if (Number(message.offset) + 1 >= end) left.delete(batch.partition);
              }
              resolveOffset(message.offset);
            }
            if (left.size === 0) resolve();
          },
        }).catch(reject);
        for (const partition of left.keys()) {
          consumer.seek({ topic, partition, offset: from.get(partition) });
        }
      });
    } finally {
      await consumer.disconnect();
    }
    await this.delete_group(groupId);
    return rows;
  }
}

function errorOf(error) {
  const inner = error.errors ? error.errors[0] : error;
  const cause = inner.cause && inner.cause.type && !inner.type ? inner.cause : inner;
  const name = (inner.groups && inner.groups[0] && inner.groups[0].error.type) || cause.type || cause.name;
  return [name, inner.message];
}

async function serve(client) {
  const lines = readline.createInterface({ input: process.stdin, crlfDelay: Infinity })[Symbol.asyncIterator]();
  const calls = new Set(['create', 'delete', 'topics', 'configs', 'broker_configs', 'replace_configs', 'add_partitions', 'list_offsets',
    'delete_records', 'groups', 'group', 'committed', 'delete_group', 'produce', 'consume']);
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const [verb, ...words] = line.value.split('\t');
    if (verb === 'produce') {
      const records = [];
      for (let i = 0; i < Number(words[2]); i += 1) records.push(readRecord((await lines.next()).value));
      words.push(records);
    }
    let text;
    try {
      if (!calls.has(verb)) throw new Failed('NO_SUCH_CALL', verb);
      const rows = (await client[verb](...words)) || [];
      text = `${rows.map((row) => `${row.map((field) => String(field).replace(/\n/g, ' ')).join('\t')}\n`).join('')}ok\n`;
    } catch (error) {
      text = `error\t${errorOf(error).map((word) => String(word).replace(/[\n\t]/g, ' ')).join('\t')}\n`;
    }
    process.stdout.write(text);
  }
  process.exit(0);
}

async function member(bootstrap, groupId, topic, strategy) {
  if (strategy !== 'roundrobin') throw new Error(`no such strategy: ${strategy}`);
  const say = (...words) => process.stdout.write(`${words.join(' ')}\n`);
  const consumer = open(bootstrap).consumer({
    groupId,
    partitionAssigners: [PartitionAssigners.roundRobin],
    sessionTimeout: Number(process.env.WEIR_SESSION_MS || 10000),
    heartbeatInterval: 500,
    maxWaitTimeInMs: 500,
    metadataMaxAge: 2000,
    allowAutoTopicCreation: false,
  });
  let owned = [];
  const lets_go = () => {
    say('revoked', owned.join(','));
    owned = [];
  };
  consumer.on(consumer.events.REBALANCING, lets_go);
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    if (owned.length > 0) lets_go();
    owned = (payload.memberAssignment[topic] || []).sort((a, b) => a - b);
    say('assigned', owned.join(','));
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => say('failed', payload.error.name));
  const ends = new Promise((resolve) => {
    process.stdin.once('data', resolve);
    process.stdin.once('end', resolve);
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
      for (let at = 0; at < batch.messages.length && isRunning() && !isStale(); at += 100) {
        const some = batch.messages.slice(at, at + 100);
        for (const message of some) say('record', batch.partition, message.offset);
        const last = some[some.length - 1].offset;
        try {
          await consumer.commitOffsets([{ topic, partition: batch.partition, offset: String(Number(last) + 1) }]);
          say('committed');
        } catch (error) {
          say('uncommitted', error.type || error.name);
        }
        resolveOffset(last);
        await heartbeat();
      }
    },
  });
  await ends;
  await consumer.disconnect();
  say('closed');
  process.exit(0);
}

if (process.argv[2] === 'member') {
  member(...process.argv.slice(3)).catch((error) => {
    process.stderr.write(`${error.stack}\n`);
    process.exit(1);
  });
} else {
  serve(new Client(process.argv[2]));
}
