// SPDX-License-Identifier: Apache-2.0

//! rust-rdkafka as a helper of the tests.
//!
//!     weir-e2e BOOTSTRAP                                           answers the words of tests/e2e/client_words.py; it has no call for
//!                                                                  alter_configs
//!     weir-e2e member BOOTSTRAP GROUP TOPIC STRATEGY [INSTANCE]    a member as tests/e2e/member_confluent.py describes it; strategies:
//!                                                                  range, roundrobin, cooperative-sticky

mod member;
mod words;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};

use words::{Failed, Record, Rows, Where};

const PATIENCE: Duration = Duration::from_secs(50);
type Answer = Result<Rows, Failed>;

/// TopicAlreadyExists is TOPIC_ALREADY_EXISTS to the tests.
pub fn name_of(code: RDKafkaErrorCode) -> String {
    let mut name = String::new();
    for c in format!("{code:?}").chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

impl From<RDKafkaErrorCode> for Failed {
    fn from(code: RDKafkaErrorCode) -> Failed {
        Failed::new(&name_of(code), &code.to_string())
    }
}

impl From<KafkaError> for Failed {
    fn from(error: KafkaError) -> Failed {
        match error.rdkafka_error_code() {
            Some(code) => Failed::new(&name_of(code), &error.to_string()),
            None => Failed::new("ERROR", &error.to_string()),
        }
    }
}

pub fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("client.id", "rust-rdkafka").set("reconnect.backoff.max.ms", "500");
    config.set_log_level(RDKafkaLogLevel::Emerg);
    config
}

/// Where the reports of delivery of the records under way are kept, by their place.
struct Reports(Mutex<HashMap<usize, Result<(i32, i64), KafkaError>>>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, place: Box<usize>) {
        let report = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(error.clone()),
        };
        self.0.lock().unwrap().insert(*place, report);
    }
}

struct Client {
    bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
    reader: BaseConsumer,
    producers: HashMap<String, BaseProducer<Reports>>,
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE))
}

fn first<T>(results: Vec<Result<T, (String, RDKafkaErrorCode)>>) -> Answer {
    for result in results {
        result.map_err(|(_, code)| Failed::from(code))?;
    }
    Ok(vec![])
}

impl Client {
    fn create(&self, topic: &str, partitions: i32, configs: &[(String, String)]) -> Answer {
        let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        for (name, value) in configs {
            new = new.set(name, value);
        }
        first(block_on(self.admin.create_topics(&[new], &options()))?)
    }

    fn delete(&self, topic: &str) -> Answer {
        first(block_on(self.admin.delete_topics(&[topic], &options()))?)
    }

    fn topics(&self) -> Answer {
        let metadata = self.reader.fetch_metadata(None, PATIENCE)?;
        let mut rows: Rows = metadata.topics().iter().map(|topic| vec![topic.name().to_string()]).collect();
        rows.sort();
        Ok(rows)
    }

    fn configs(&self, resource: ResourceSpecifier<'_>) -> Answer {
        let mut rows = vec![];
        for answer in block_on(self.admin.describe_configs([&resource], &options()))? {
            for entry in answer?.entries {
                rows.push(vec![entry.name, entry.value.unwrap_or_default()]);
            }
        }
        rows.sort();
        Ok(rows)
    }

    fn broker_configs(&self) -> Answer {
        let metadata = self.reader.fetch_metadata(None, PATIENCE)?;
        self.configs(ResourceSpecifier::Broker(metadata.brokers()[0].id()))
    }

    fn replace_configs(&self, topic: &str, configs: &[(String, String)]) -> Answer {
        let mut change = AlterConfig::new(ResourceSpecifier::Topic(topic));
        for (name, value) in configs {
            change = change.set(name, value);
        }
        for result in block_on(self.admin.alter_configs([&change], &options()))? {
            result.map_err(|(_, code)| Failed::from(code))?;
        }
        Ok(vec![])
    }

    fn add_partitions(&self, topic: &str, count: usize) -> Answer {
        first(block_on(self.admin.create_partitions([&NewPartitions::new(topic, count)], &options()))?)
    }

    fn partitions(&self, topic: &str) -> Result<Vec<i32>, Failed> {
        let metadata = self.reader.fetch_metadata(Some(topic), PATIENCE)?;
        Ok(metadata.topics()[0].partitions().iter().map(|partition| partition.id()).collect())
    }

    fn offsets_at(&self, topic: &str, partitions: &[i32], at_ms: i64) -> Result<HashMap<i32, i64>, Failed> {
        let mut asked = TopicPartitionList::new();
        for partition in partitions {
            asked.add_partition_offset(topic, *partition, Offset::Offset(at_ms))?;
        }
        let found = self.reader.offsets_for_times(asked, PATIENCE)?;
        Ok(found.elements().iter().map(|e| (e.partition(), e.offset().to_raw().unwrap_or(-1))).collect())
    }

    fn list_offsets(&self, topic: &str, when: &str) -> Answer {
        let partitions = self.partitions(topic)?;
        let mut rows = vec![];
        if when == "earliest" || when == "latest" {
            for partition in partitions {
                let (low, high) = self.reader.fetch_watermarks(topic, partition, PATIENCE)?;
                rows.push((partition, if when == "earliest" { low } else { high }));
            }
        } else {
            rows = self.offsets_at(topic, &partitions, words::number(when)?)?.into_iter().collect();
        }
        rows.sort();
        // Past the last record: librdkafka's word for the end.
        let is_end = |offset: i64| Offset::from_raw(offset) == Offset::End;
        Ok(rows.into_iter().map(|(p, offset)| vec![p.to_string(), if is_end(offset) { -1 } else { offset }.to_string()]).collect())
    }

    fn delete_records(&self, topic: &str, before: &[(i32, i64)]) -> Answer {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in before {
            list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
        }
        for element in block_on(self.admin.delete_records(&list, &options()))?.elements() {
            element.error()?;
        }
        Ok(vec![])
    }

    fn groups(&self) -> Answer {
        let list = self.reader.fetch_group_list(None, PATIENCE)?;
        let mut rows: Rows = list.groups().iter().map(|group| vec![group.name().to_string()]).collect();
        rows.sort();
        Ok(rows)
    }

    fn group(&self, name: &str) -> Answer {
        let list = self.reader.fetch_group_list(Some(name), PATIENCE)?;
        let group = list.groups().first().ok_or(Failed::new("GROUP_ID_NOT_FOUND", "it is not listed"))?;
        let mut rows = vec![vec![group.state().to_string(), group.members().len().to_string()]];
        for member in group.members() {
            rows.push([member.id(), "", member.client_id(), member.client_host()].map(String::from).to_vec());
        }
        Ok(rows)
    }

    fn committed(&self, group: &str, topic: &str) -> Answer {
        let consumer: BaseConsumer = config(&self.bootstrap).set("group.id", group).create()?;
        let mut asked = TopicPartitionList::new();
        for partition in self.partitions(topic)? {
            asked.add_partition(topic, partition);
        }
        let mut rows = vec![];
        for element in consumer.committed_offsets(asked, PATIENCE)?.elements() {
            if let Offset::Offset(offset) = element.offset() {
                rows.push(vec![element.partition().to_string(), offset.to_string()]);
            }
        }
        Ok(rows)
    }

    fn delete_group(&self, name: &str) -> Answer {
        first(block_on(self.admin.delete_groups(&[name], &options()))?)
    }

    /// Kept, so that what it knows of topics and of its sequences outlives them and the broker.
    fn producer(&mut self, codec: &str) -> Result<&BaseProducer<Reports>, Failed> {
        if !self.producers.contains_key(codec) {
            let producer = config(&self.bootstrap)
                .set("compression.type", codec)
                .set("enable.idempotence", "true")
                .set("linger.ms", "20")
                .set("topic.metadata.refresh.interval.ms", "1000")
                .set("message.timeout.ms", "50000")
                .create_with_context(Reports(Mutex::new(HashMap::new())))?;
            self.producers.insert(codec.to_string(), producer);
        }
        Ok(&self.producers[codec])
    }

    fn produce(&mut self, topic: &str, codec: &str, records: &[Record]) -> Answer {
        let producer = self.producer(codec)?;
        for (place, record) in records.iter().enumerate() {
            let mut headers = OwnedHeaders::new();
            for (key, value) in &record.headers {
                headers = headers.insert(Header { key, value: value.as_deref() });
            }
            let mut out: BaseRecord<'_, [u8], [u8], Box<usize>> = BaseRecord::with_opaque_to(topic, Box::new(place))
                .partition(record.partition)
                .timestamp(record.timestamp)
                .headers(headers);
            if let Some(key) = &record.key {
                out = out.key(key.as_slice());
            }
            if let Some(value) = &record.value {
                out = out.payload(value.as_slice());
            }
            producer.send(out).map_err(|(error, _)| Failed::from(error))?;
        }
        producer.flush(PATIENCE)?;
        let mut reports = producer.context().0.lock().unwrap();
        let mut rows = vec![];
        for place in 0..records.len() {
            let report = reports.remove(&place).ok_or(Failed::new("TIMED_OUT", "no report of delivery"))?;
            let (partition, offset) = report?;
            rows.push(vec![partition.to_string(), offset.to_string()]);
        }
        Ok(rows)
    }

    fn consume(&self, topic: &str, ends: &[(i32, i64)], from: Where) -> Answer {
        let mut left: HashMap<i32, i64> = ends.iter().copied().filter(|(_, end)| *end > 0).collect();
        let partitions: Vec<i32> = left.keys().copied().collect();
        let found = match from {
            Where::Time(at_ms) => self.offsets_at(topic, &partitions, at_ms)?,
            _ => HashMap::new(),
        };
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            let offset = match from {
                Where::Beginning => Offset::Beginning,
                Where::Offset(offset) => Offset::Offset(offset),
                Where::Time(_) => Offset::Offset(found[&partition]),
            };
            list.add_partition_offset(topic, partition, offset)?;
        }
        let consumer: BaseConsumer = config(&self.bootstrap)
            .set("group.id", "unused")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "error")
            .set("check.crcs", "true")
            .create()?;
        consumer.assign(&list)?;
        let deadline = Instant::now() + PATIENCE;
        let mut out = vec![];
        while !left.is_empty() {
            if Instant::now() > deadline {
                return Err(Failed::new("TIMED_OUT", "nothing more came"));
            }
            let Some(polled) = consumer.poll(Duration::from_millis(200)) else { continue };
            let message = match polled {
                Ok(message) => message,
                Err(KafkaError::MessageConsumption(code)) if code == RDKafkaErrorCode::AllBrokersDown
                    || code == RDKafkaErrorCode::BrokerTransportFailure => continue,
                Err(error) => return Err(error.into()),
            };
            let (partition, offset) = (message.partition(), message.offset());
            let Some(end) = left.get(&partition).copied() else { continue };
            if offset >= end {
                continue;
            }
            let headers = message.headers().map(|headers| {
                headers.iter().map(|h| (h.key.to_string(), h.value.map(<[u8]>::to_vec))).collect()
            });
            out.push(Record {
                partition,
                offset,
                timestamp: message.timestamp().to_millis().unwrap_or(-1),
                key: message.key().map(<[u8]>::to_vec),
                value: message.payload().map(<[u8]>::to_vec),
                headers: headers.unwrap_or_default(),
            });
            if offset + 1 >= end {
                left.remove(&partition);
            }
        }
        Ok(words::record_rows(&out))
    }

    fn answer(&mut self, args: &[&str], records: &[Record]) -> Answer {
        match args {
            ["create", topic, partitions, configs] => self.create(topic, words::number(partitions)?, &words::configs(configs)),
            ["delete", topic] => self.delete(topic),
            ["topics"] => self.topics(),
            ["configs", topic] => self.configs(ResourceSpecifier::Topic(topic)),
            ["broker_configs"] => self.broker_configs(),
            ["replace_configs", topic, configs] => self.replace_configs(topic, &words::configs(configs)),
            ["add_partitions", topic, count] => self.add_partitions(topic, words::number(count)?),
            ["list_offsets", topic, when] => self.list_offsets(topic, when),
            ["delete_records", topic, before] => self.delete_records(topic, &words::offsets(before)?),
            ["groups"] => self.groups(),
            ["group", name] => self.group(name),
            ["committed", group, topic] => self.committed(group, topic),
            ["delete_group", name] => self.delete_group(name),
            ["produce", topic, codec, _] => self.produce(topic, codec, records),
            ["consume", topic, ends] => self.consume(topic, &words::offsets(ends)?, Where::Beginning),
            ["consume", topic, ends, from] => self.consume(topic, &words::offsets(ends)?, words::read_where(from)?),
            _ => Err(Failed::new("NO_SUCH_CALL", args[0])),
        }
    }
}

fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().collect();
    if args[1] == "member" {
        return member::run(&args[2..]);
    }
    let bootstrap = args[1].clone();
    let mut client = Client {
        admin: config(&bootstrap).create()?,
        reader: config(&bootstrap).set("group.id", "unused").create()?,
        producers: HashMap::new(),
        bootstrap,
    };
    words::serve(|args, records| client.answer(args, records));
    Ok(())
}
