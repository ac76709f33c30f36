// SPDX-License-Identifier: Apache-2.0

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One member of a group, which says what it does: see member_confluent.py.
 *
 * <p>WEIR_METADATA_RECOVERY is its metadata.recovery.strategy. With the client's own, "rebootstrap", a leader that finds no broker forgets
 * all topics, and where it hears from its coordinator again before it hears of the topics, it takes them for gone and asks for a rebalance.
 */
public final class Member {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private Member() {}

    private static synchronized void say(String words) {
        OUT.println(words);
        OUT.flush();
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(p -> String.valueOf(p.partition())).sorted().collect(Collectors.joining(","));
    }

    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[1]);
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("session.timeout.ms", System.getenv().getOrDefault("WEIR_SESSION_MS", "10000"));
        config.put("heartbeat.interval.ms", "500");
        config.put("max.poll.records", "100");
        config.put("metadata.max.age.ms", "2000");
        config.put("partition.assignment.strategy", args[3].equals("cooperative-sticky")
            ? "org.apache.kafka.clients.consumer.CooperativeStickyAssignor" : "org.apache.kafka.clients.consumer.RangeAssignor");
        if (args.length > 4 && !args[4].isEmpty()) {
            config.put("group.instance.id", args[4]);
        }
        String recovery = System.getenv("WEIR_METADATA_RECOVERY");
        if (recovery != null) {
            config.put("metadata.recovery.strategy", recovery);
        }
        AtomicBoolean ends = new AtomicBoolean();
        Thread reader = new Thread(() -> {
            try {
                System.in.read();
            } catch (Exception e) {
                // the test is gone
            }
            ends.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(args[2]), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    say("assigned " + numbers(partitions));
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    say("revoked " + numbers(partitions));
                }

                @Override
                public void onPartitionsLost(Collection<TopicPartition> partitions) {
                    say("lost " + numbers(partitions));
                }
            });
            while (!ends.get()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    say("record " + record.partition() + " " + record.offset());
                }
                if (records.isEmpty()) {
                    continue;
                }
                try {
                    consumer.commitSync(Duration.ofSeconds(20));
                    say("committed");
                } catch (CommitFailedException | RebalanceInProgressException | TimeoutException e) {
                    say("uncommitted " + e.getClass().getSimpleName());
                }
            }
        }
        say("closed");
    }
}
