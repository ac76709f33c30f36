// SPDX-License-Identifier: Apache-2.0

//! One member of a group.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::message::Message;
use rdkafka::TopicPartitionList;

use crate::words::Failed;
use crate::{config, name_of};

fn numbers(list: &TopicPartitionList) -> String {
    let mut all: Vec<i32> = list.elements().iter().map(|element| element.partition()).collect();
    all.sort();
    all.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

/// Whether there are records that were said and are not committed yet.
struct Listener(AtomicBool);

impl Listener {
    fn commit(&self, consumer: &BaseConsumer<Listener>) {
        if !self.0.swap(false, Ordering::Relaxed) {
            return;
        }
        match consumer.commit_consumer_state(CommitMode::Sync) {
            Ok(()) => println!("committed"),
            Err(error) => println!("uncommitted {}", error.rdkafka_error_code().map_or("ERROR".to_string(), name_of)),
        }
    }
}

impl ClientContext for Listener {}

impl ConsumerContext for Listener {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Listener>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => println!("assigned {}", numbers(list)),
            Rebalance::Revoke(list) if consumer.assignment_lost() => println!("lost {}", numbers(list)),
            Rebalance::Revoke(list) => {
                self.commit(consumer);
                println!("revoked {}", numbers(list));
            }
            Rebalance::Error(error) => println!("failed {error}"),
        }
    }
}

pub fn run(args: &[String]) -> Result<(), Failed> {
    let mut config = config(&args[0]);
    config
        .set("group.id", &args[1])
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("session.timeout.ms", &std::env::var("WEIR_SESSION_MS").unwrap_or("10000".to_string()))
        .set("heartbeat.interval.ms", "500")
        .set("topic.metadata.refresh.interval.ms", "2000")
        .set("partition.assignment.strategy", &args[3]);
    if let Some(instance) = args.get(4).filter(|instance| !instance.is_empty()) {
        config.set("group.instance.id", instance);
    }
    let consumer: BaseConsumer<Listener> = config.create_with_context(Listener(AtomicBool::new(false)))?;
    let ends = Arc::new(AtomicBool::new(false));
    let seen = ends.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        seen.store(true, Ordering::Relaxed);
    });
    consumer.subscribe(&[&args[2]])?;
    let mut waiting = 0;
    while !ends.load(Ordering::Relaxed) {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(if waiting > 0 { 0 } else { 100 })) {
            println!("record {} {}", message.partition(), message.offset());
            consumer.context().0.store(true, Ordering::Relaxed);
            waiting += 1;
            if waiting < 100 {
                continue;
            }
        }
        consumer.context().commit(&consumer);
        waiting = 0;
    }
    // It is polled as it goes, and what comes of that is dropped unsaid, yet counts as stored: a commit then would be about that too.
    consumer.context().commit(&consumer);
    drop(consumer);
    println!("closed");
    Ok(())
}
